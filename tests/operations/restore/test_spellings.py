"""A restore is refused if engines that compare paths otherwise would read other rows than in the version restored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from deltacli.api.table import Table
from deltacli.core.errors import Refused
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
