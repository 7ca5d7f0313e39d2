"""Deletion vectors, change data and row ids in the files of a table: what is silent, and how findings are told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.validate.validate import Validation
from deltacli.storage import open_storage
from deltacli.work.facts import vector_facts
from tests.rules.corruptions_change_files import ChangedTable, changes_of
from tests.rules.corruptions_vector_contents import UUID_OF_FILE, VectorTable, vector_file_of_another_version
from tests.rules.data_table import DataTable, encoded, rows_of
from tests.rules.table_builder import NOW_MS
from tests.rules.test_corruptions import inspect, rules_of
from tests.support.small_vectors import vector_path
from tests.support.storage import RecordingStorage
from tests.support.validating import validate_table


def told(found: Validation) -> list[tuple[str, str]]:
    return [(finding.rule.id, finding.message) for finding in found.findings]


@pytest.mark.parametrize("level", ["footers", "data"])
@pytest.mark.parametrize("make", [VectorTable, ChangedTable])
def test_a_sound_table_is_silent(make: type[DataTable], level: str, tmp_path: Path) -> None:
    found = inspect(make().write(tmp_path / "t"), level)

    assert [] == told(found)
    assert () == found.not_checked


def test_a_faulty_version_is_told_once_for_the_file_of_two_vectors(tmp_path: Path) -> None:
    found = inspect(vector_file_of_another_version().write(tmp_path / "t"), "footers")

    assert 1 == len(found.findings)
    assert found.findings[0].message.endswith("its file begins with version 2, and so for 1 more vector of it")


@pytest.mark.parametrize("level", ["footers", "data"])
def test_a_file_of_vectors_is_opened_once(level: str, tmp_path: Path) -> None:
    storage = RecordingStorage(open_storage(str(VectorTable().write(tmp_path / "t"))))

    validate_table(storage, EmbeddedEngine(), level=level, now_ms=NOW_MS)

    assert [vector_path(UUID_OF_FILE)] == [path for path in storage.touched("read_range") if path.endswith(".bin")]


def test_vectors_that_lie_far_apart_are_read_by_themselves(tmp_path: Path) -> None:
    table = VectorTable()
    offset = table.vector(1)["offset"]
    table.vector_file[offset:offset] = bytes(100_000)
    table.vector(1)["offset"] += 100_000
    storage = RecordingStorage(open_storage(str(table.write(tmp_path / "t"))))

    found = validate_table(storage, EmbeddedEngine(), level="data", now_ms=NOW_MS)

    assert [] == told(found)
    assert 2 == len([path for path in storage.touched("read_range") if path.endswith(".bin")])


def test_vectors_that_are_large_together_are_read_a_few_at_a_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(vector_facts, "MOST_VECTOR_BYTES", 60)
    storage = RecordingStorage(open_storage(str(VectorTable().write(tmp_path / "t"))))

    found = validate_table(storage, EmbeddedEngine(), level="data", now_ms=NOW_MS)

    assert [] == told(found)
    assert 2 == len([path for path in storage.touched("read_range") if path.endswith(".bin")])


def test_rows_behind_a_broken_vector_are_not_judged_and_the_run_says_so(tmp_path: Path) -> None:
    table = VectorTable()
    table.vector_file[-1] ^= 1

    found = inspect(table.write(tmp_path / "t"), "data")

    assert {"dv.crc-mismatch"} == rules_of(found)
    assert ("the rows of 1 file whose deletion vectors cannot be read",) == found.not_checked
    assert found.files is not None
    assert 10 + 10 - 2 == found.files.rows  # part 3 whole, part 2 without two rows, part 4 not at all


def test_where_the_footer_is_unknown_the_log_says_how_many_rows_there_are(tmp_path: Path) -> None:
    table = VectorTable()
    table.store([[1, 2], [10]])
    table.bytes[table.add(4, 1)["path"]] = bytes(table.add(4, 1)["size"])

    found = inspect(table.write(tmp_path / "t"), "footers")

    assert {"data.not-parquet", "dv.row-out-of-range"} == rules_of(found)


def bytes_that_are_no_text() -> bytes:
    return encoded(rows_of(4).set_column(1, "name", pa.array([b"\xff"] * 10)))


def length_beyond_the_page() -> bytes:
    data = encoded(rows_of(4), compression="none", use_dictionary=False)
    first = data.index(b"name 41") - 4
    return data[:first] + b"\xff" * 4 + data[first + 4 :]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (bytes_that_are_no_text, "cannot be read: column name holds a value that is not a string"),
        (length_beyond_the_page, "is not a Parquet file: column name cannot be read"),
    ],
)
def test_a_column_that_cant_be_read_is_named(make: Callable[[], bytes], message: str, tmp_path: Path) -> None:
    """Its file has a footer, and ends as it should."""
    table = DataTable()
    table.replace_bytes(3, make())

    told = [finding.message for finding in inspect(table.write(tmp_path / "t"), "data").findings]

    assert f"{table.add(3)['path']} {message}" in told


def test_images_are_counted_over_all_files_of_a_version(tmp_path: Path) -> None:
    table = ChangedTable()
    table.add_changes(1, changes_of(("update_preimage",)))
    table.add_changes(2, changes_of(("update_postimage",)))

    assert [] == told(inspect(table.write(tmp_path / "t"), "data"))


def test_images_are_not_counted_where_a_file_is_gone(tmp_path: Path) -> None:
    table = ChangedTable()
    table.add_changes(1, changes_of(("update_preimage",)))
    table.drop(table.action(2, "cdc", 0)["path"])

    assert {"cdc.file-missing"} == rules_of(inspect(table.write(tmp_path / "t"), "data"))


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"where": "id > 0"}, "2 files of change data: a condition applies to the rows of the newest version"),
        ({"sample": 0.5}, "1 of 2 files of change data, which a sample leaves out"),
    ],
)
def test_limits_leave_change_data_out_and_say_so(limits: dict[str, Any], expected: str, tmp_path: Path) -> None:
    table = ChangedTable()
    table.add_changes(1, changes_of(("update_preimage",)))
    storage = open_storage(str(table.write(tmp_path / "t")))

    found = validate_table(storage, EmbeddedEngine(), level="data", now_ms=NOW_MS, **limits)

    assert "cdc.pre-post-unbalanced" not in rules_of(found)
    assert expected in found.not_checked
