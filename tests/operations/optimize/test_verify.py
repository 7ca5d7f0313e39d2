"""Verifying an optimization: whatever makes the rows of its commits differ from those before is found."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from deltacli.core.errors import DataUnreadable, Refused, StorageFailed
from deltacli.operations.optimize.plan import added_files, plan_optimize
from deltacli.operations.optimize.request import OptimizeRequest
from deltacli.operations.optimize.verify import verify_rows
from deltacli.table.file_keys import build_removes
from deltacli.work.rewrite.file_writing import read_back
from tests.operations.optimize.test_cases import TRACKED
from tests.support.actions import commit_info
from tests.support.optimizing import Ids, data_files, execute, rows_of
from tests.support.reading import open_at

WAY_BACK = r"restore.*version[ =]2"


def tables() -> Ids:
    """Two partitions, each a bin and a commit; the ids of their rows are the bytes that tests look for."""
    ids = Ids(configuration={"delta.parquet.compression.codec": "none"})
    ids.ids = 1_000_001
    return ids.append("a", "b", deleted=(1,)).append("c", "d", p="1")


@pytest.fixture(autouse=True)
def _a_commit_for_each_bin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltacli.operations.optimize.plan.COMMIT_BINS", 1)


def break_values(monkeypatch: pytest.MonkeyPatch, old: int, new: int) -> None:
    """Let a disk change a value of new files after they were read back."""

    def read_and_break(spec: Any, files: Any, place: str, *others: Any) -> None:
        read_back(spec, files, place, *others)
        data = Path(place).read_bytes()
        Path(place).write_bytes(data.replace(old.to_bytes(8, "little"), new.to_bytes(8, "little")))

    monkeypatch.setattr("deltacli.work.rewrite.rewriting.read_back", read_and_break)


def test_the_rows_are_the_same() -> None:
    done = tables().table().optimize(verify=True)

    assert {"rows": 10, "scope": "table"} == done.as_json()["verified"]


def test_a_value_that_changes_on_the_disk_is_found_with_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    table = tables().table()
    before = rows_of(table)
    break_values(monkeypatch, 1_000_009, 1_000_019)

    with pytest.raises(StorageFailed) as caught:
        table.optimize(verify=True)

    fault = caught.value
    assert (7, "optimize.rows-differ") == (fault.exit_code, fault.code)
    wrong = min(version for version in (3, 4) if before != rows_of(table, version))
    assert f"version {wrong} has other rows" in fault.message
    assert ("3-4", "values") == (fault.facts["committed"], fault.facts["differs"])
    assert re.search(WAY_BACK, str(fault.hint))
    table.restore(version=2)
    assert before == rows_of(table)


def test_what_the_reader_does_not_see_is_found_in_the_stored_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that finds no rows makes no difference between those before and after."""
    table = tables().table()
    break_values(monkeypatch, 1_000_009, 1_000_019)
    monkeypatch.setattr("deltacli.work.rewrite.sources.read_rows", lambda *_: iter(()))

    with pytest.raises(StorageFailed) as caught:
        table.optimize(verify=True)

    assert "optimize.rows-differ" == caught.value.code
    assert "values of id" in caught.value.message


@pytest.mark.parametrize("damage", ["partition", "remove", "lost"])
def test_what_a_commit_says_of_files_is_verified(damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A new file of another partition, an old file that stays live, and a commit that leaves out a new file.
    """
    import pyarrow as pa

    def adds(*given: Any) -> Any:
        found = added_files(*given)
        if damage == "lost":
            return found.slice(0, 0)
        rows = [{**row, "partitionValues": [("p", "7")]} for row in found.to_pylist()]
        return pa.RecordBatch.from_pylist(rows, schema=found.schema) if damage == "partition" else found

    def removes(*given: Any, **how: Any) -> Any:
        found = build_removes(*given, **how)
        rows = [{**row, "path": f"x/{row['path']}" if row["path"] == "a" else row["path"]} for row in found.to_pylist()]
        return pa.RecordBatch.from_pylist(rows, schema=found.schema) if damage == "remove" else found

    monkeypatch.setattr("deltacli.operations.optimize.execute.added_files", adds)
    monkeypatch.setattr("deltacli.operations.optimize.execute.build_removes", removes)
    ids = tables()
    ids.builder.file("x/a", ids.builder.files["a"].data)

    with pytest.raises(StorageFailed, match="other live files" if damage == "remove" else "other rows"):
        ids.table().optimize(verify=True)


def test_ids_of_rows_are_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = Ids("rowTracking", "domainMetadata", configuration=TRACKED | {"delta.parquet.compression.codec": "none"})
    mark = {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":2000010}', "removed": False}
    lines = [ids.line(name, baseRowId=at, defaultRowCommitVersion=1) for name, at in (("a", 0), ("b", 2_000_001))]
    ids.builder.commit(commit_info("WRITE"), *lines, {"domainMetadata": mark})

    ids.table().optimize(verify=True)
    break_values(monkeypatch, 2_000_002, 2_000_009)

    with pytest.raises(StorageFailed, match="other rows"):
        ids.table().optimize(verify=True)


def test_beside_another_writer_the_files_are_compared() -> None:
    ids = tables()
    storage = ids.builder.in_memory()
    plan = plan_optimize(open_at(storage), OptimizeRequest(verify=True))
    rival = open_at(storage)
    rival.set_properties({"k": "v"})

    done = execute(plan)

    assert {"rows": 10, "scope": "files"} == done.as_json()["verified"]


def test_a_new_file_that_is_gone_is_an_error_with_the_way_back() -> None:
    storage = tables().builder.in_memory()
    plan = plan_optimize(open_at(storage), OptimizeRequest())
    done = execute(plan)
    list(storage.delete_many([path for path in data_files(storage) if "part-" in path]))

    with pytest.raises(DataUnreadable) as caught:
        verify_rows(plan, done.versions, files=6)

    assert "3-4" == caught.value.facts["committed"]
    assert re.search(WAY_BACK, str(caught.value.hint))


def test_row_ids_without_the_feature_for_their_mark_are_refused_before_a_file_is_written() -> None:
    ids = Ids("rowTracking", configuration={}).append("a", "b")
    table = ids.table()
    before = data_files(table.storage)

    with pytest.raises(Refused) as refused:
        table.optimize()
    left = data_files(table.storage)
    table.add_features(["domainMetadata"])
    table.optimize()

    assert ("domain.without-feature", before) == (refused.value.code, left)
    assert before < data_files(table.storage)
    assert "domainMetadata" in str(refused.value.hint)
