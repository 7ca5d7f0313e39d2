"""Errors for paths that are not tables, with helpful messages."""

from __future__ import annotations

from pathlib import Path

import pytest

import deltacli
from deltacli.core.errors import NotATable, PaimonTable, UsageError
from deltacli.storage import open_storage
from deltacli.table.missing_log import find_enclosing_table
from tests.support.builder import TableBuilder


def refusal(path: Path | str) -> NotATable:
    with pytest.raises(NotATable) as raised:
        deltacli.open_table(str(path)).snapshot()
    assert 3 == raised.value.exit_code
    return raised.value


def test_a_table_opens_by_path_and_by_uri(tmp_path: Path, table_builder: TableBuilder) -> None:
    place = table_builder.commits(3).write(tmp_path / "a b%20c")

    by_path, by_uri = deltacli.open_table(str(place)), deltacli.open_table(place.as_uri())

    assert place.as_uri() == by_path.uri == by_uri.uri
    assert [2, 2] == [by_path.snapshot().version, by_uri.snapshot().version]


def test_nothing_is_at_the_path(tmp_path: Path) -> None:
    found = refusal(tmp_path / "nowhere")

    assert ("table.path-missing", f"{tmp_path}/nowhere: {found.message}") == (found.code, str(found))


def test_a_file_is_at_the_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    assert "table.path-is-file" == refusal(tmp_path / "file").code


def test_the_log_itself_is_at_the_path(tmp_path: Path, table_builder: TableBuilder) -> None:
    found = refusal(table_builder.commits(1).write(tmp_path) / "_delta_log")

    assert "table.path-is-log" == found.code
    assert (found.hint or "").startswith("deltacli snapshot ")


@pytest.mark.parametrize("inside", ["day=2026-01-01", "day=2026-01-01/hour=3", "_delta_log/_sidecars", "_change_data"])
def test_a_directory_of_a_table_hints_at_the_table(inside: str, tmp_path: Path, table_builder: TableBuilder) -> None:
    """
    Whatever the working directory is.
    """
    table = table_builder.commits(1).write(tmp_path / "a table")
    (table / inside).mkdir(parents=True, exist_ok=True)

    found = refusal(table / inside)

    assert ("log.not-a-table", f"deltacli snapshot '{table}'") == (found.code, found.hint)
    assert str(table) == found.facts["inside the table"]


def test_a_file_of_a_table_hints_at_the_table(tmp_path: Path, table_builder: TableBuilder) -> None:
    table = table_builder.commits(1).write(tmp_path / "t")
    (table / "part-0.parquet").write_bytes(b"")

    found = refusal(table / "part-0.parquet")

    assert ("table.path-is-file", f"deltacli snapshot {table}") == (found.code, found.hint)


@pytest.mark.parametrize(
    ("path", "table"),
    [
        ("memory://lake/t/day=2026-01-01/hour=3", "memory://lake/t"),
        ("memory://lake/t/a=1", "memory://lake/t"),
        ("memory://lake/t", None),
    ],
)
def test_a_partition_directory_of_a_store_hints_at_what_is_above_it(path: str, table: str | None) -> None:
    assert table == find_enclosing_table(open_storage(path))


def test_a_name_longer_than_any_file_is_a_path_with_nothing_there(tmp_path: Path) -> None:
    """
    And no file is mentioned that was looked for below it.
    """
    found = refusal(tmp_path / ("n" * 300))

    assert "table.path-missing" == found.code
    assert "schema" not in str(found.facts)


def test_a_paimon_table_is_at_the_path(tmp_path: Path) -> None:
    (tmp_path / "schema").mkdir()
    (tmp_path / "schema" / "schema-0").write_bytes(b"{}")

    with pytest.raises(PaimonTable):
        refusal(tmp_path)


def test_tables_below_the_path_are_named(tmp_path: Path, table_builder: TableBuilder) -> None:
    table_builder.commits(1).write(tmp_path / "sales")
    (tmp_path / "other").mkdir()

    found = refusal(tmp_path)

    assert "log.not-a-table" == found.code
    assert "sales" == found.facts["tables below"]


def test_an_empty_log_is_at_the_path(tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()

    assert "log.not-a-table" == refusal(tmp_path).code


def test_a_log_with_only_other_files_is_not_a_table(tmp_path: Path, table_builder: TableBuilder) -> None:
    place = (
        table_builder.file("_delta_log/00000000000000000000.crc", b"{}")
        .file("_delta_log/notes.txt", b"")
        .write(tmp_path)
    )

    assert "log.not-a-table" == refusal(place).code


@pytest.mark.parametrize(
    ("uri", "code"),
    [("", "usage.table"), ("nosuchscheme://x/y", "usage.scheme"), ("file://host/share", "usage.scheme")],
)
def test_a_bad_uri_is_a_usage_error(uri: str, code: str) -> None:
    with pytest.raises(UsageError) as raised:
        deltacli.open_table(uri)

    assert (2, code) == (raised.value.exit_code, raised.value.code)
