"""A restore is refused if engines that compare paths otherwise would read other rows than in the version restored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from deltacli.api.table import Table
from deltacli.core.errors import Refused
from tests.support.actions import birth, commit_info, remove
from tests.support.builder import TableBuilder
from tests.support.restoring import Restoring, append
from tests.support.two_spellings import RULE, write_two_spellings


def live_rows(table: Table, version: int | None = None) -> list[int]:
    batches = table.snapshot(version=version).scan()
    return sorted(value for batch in batches for value in batch.column("id").to_pylist())


@pytest.mark.parametrize(
    ("commits", "version"),
    [
        # The rows are doubled for those that compare texts, and stay so.
        ([["+./a.parquet"]], 0),
        ([["-a.parquet", "+./a.parquet"]], 0),
        ([["+%61.parquet"], ["+b.parquet"]], 0),
        # Only one of the two spellings is removed.
        ([["-a.parquet"], ["+a.parquet"], ["+./a.parquet"]], 1),
    ],
)
def test_it_is_refused_if_some_engine_would_read_other_rows(
    commits: Sequence[Sequence[str]], version: int, tmp_path: Path
) -> None:
    table = write_two_spellings(tmp_path / "t", "a.parquet", *commits)
    newest = table.snapshot().version

    with pytest.raises(Refused) as caught:
        table.restore(version=version)

    assert RULE == caught.value.code
    assert "checkpoint" in str(caught.value.hint)
    assert newest == table.snapshot().version

    # The advice helps.
    table.checkpoint(force=True)
    table.restore(version=version)
    assert live_rows(table, version) == live_rows(table)


@pytest.mark.parametrize(
    ("commits", "version"),
    [
        # The add is repeated as it was, which all engines understand.
        ([["-./a.parquet"]], 0),
        ([["+./a.parquet"], ["-./a.parquet"]], 1),
        ([["+ABSOLUTE"]], 0),
        ([["+ABSOLUTE"], ["-ABSOLUTE", "-a.parquet"]], 1),
        ([["+ABSOLUTE"], ["-ABSOLUTE", "-a.parquet"]], 0),
        ([["-ABSOLUTE", "-a.parquet"]], 0),
        # Engines read version 1 differently, and the restored one alike.
        ([["-./a.parquet"], ["-a.parquet", "-b.parquet"]], 1),
    ],
)
def test_it_is_made_where_all_engines_read_the_version_again(
    commits: Sequence[Sequence[str]], version: int, tmp_path: Path
) -> None:
    table = write_two_spellings(tmp_path / "t", "a.parquet", *commits)
    before = {
        (row["path"], row["size"]) for batch in table.snapshot(version=version).files() for row in batch.to_pylist()
    }

    table.restore(version=version)

    after = {(row["path"], row["size"]) for batch in table.snapshot().files() for row in batch.to_pylist()}
    assert before == after
    assert len(commits) + 1 == table.snapshot().version


def test_a_restore_of_the_newest_version_changes_nothing(tmp_path: Path) -> None:
    table = write_two_spellings(tmp_path / "t", "a.parquet", ["+./a.parquet"])

    assert table.restore(version=1).committed_version is None


COLUMNS: list[dict[str, object]] = [
    {"name": name, "type": "string", "nullable": True, "metadata": {}} for name in ("id", "p")
]
PARTITIONED = birth(partition_columns=["p"], schema_string=json.dumps({"type": "struct", "fields": COLUMNS}))


def test_a_partial_restore_looks_at_all_files_of_its_partitions() -> None:
    """The rows are doubled for engines that compare texts, although nothing differs for deltacli."""
    builder = TableBuilder().commit(*PARTITIONED)
    append(builder, "p=1/a.parquet", partition_values={"p": "1"})
    append(builder, "./p=1/a.parquet", partition_values={"p": "1"})
    restoring = Restoring(builder)

    with pytest.raises(Refused) as caught:
        restoring.restore(1, where="p = '1'")

    assert RULE == caught.value.code


def test_a_partial_restore_looks_at_files_that_only_other_engines_read() -> None:
    builder = append(TableBuilder().commit(*PARTITIONED), "p=1/b.parquet", partition_values={"p": "1"})
    append(builder, "p=1/a.parquet", partition_values={"p": "1"})
    builder.commit(commit_info(), remove("./p=1/a.parquet"))
    restoring = Restoring(builder)

    with pytest.raises(Refused) as caught:
        restoring.restore(1, where="p = '1'")

    assert RULE == caught.value.code


def test_a_partial_restore_does_not_look_at_other_partitions() -> None:
    builder = append(TableBuilder().commit(*PARTITIONED), "p=1/b.parquet", partition_values={"p": "1"})
    append(builder, "p=2/a.parquet", partition_values={"p": "2"})
    append(builder, "./p=2/a.parquet", partition_values={"p": "2"})
    builder.commit(commit_info(), remove("p=1/b.parquet", partitionValues={"p": "1"}))

    assert Restoring(builder).restore(2, where="p = '1'").committed_version is not None
