"""What commands say about files that have a column of a mapped table under its logical name."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.cli.support import deltacli
from tests.support.altering import rename
from tests.support.misnamed_columns import FOREIGN, append_unmapped, make_old, make_upgraded, remove_file

RULE = "mapping.file-with-logical-names"
NOTE = f"{RULE}: a file has the column w under the name w, but column mapping calls it v"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    root = tmp_path / "table"
    make_upgraded(root, pa.table({"id": [1, 2], "v": [10, 20]}), rename("v", "w"))
    append_unmapped(root, pa.table({"id": [3], "w": [30]}))
    return root


@pytest.mark.parametrize(
    "words",
    [
        ("read", "{table}"),
        ("read", "{table}", "--format", "ndjson"),
        ("read", "{table}", "--output", "{output}/"),
        ("read", "{table}", "--count", "--where", "w IS NULL"),
        ("changes", "{table}", "--from", "0"),
        ("changes", "{table}", "--from", "0", "--output", "{output}/"),
    ],
)
def test_commands_that_read_rows_print_a_note(table: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    places = {"table": table, "output": tmp_path / "rows"}

    done = deltacli(*(word.format(**places) for word in words))

    assert 0 == done.code
    assert NOTE in done.err
    assert f"{table} --level footers" in done.err
    assert RULE not in done.out


def test_a_comparison_of_rows_prints_a_note(table: Path) -> None:
    done = deltacli("diff", table, "2", "--rows", "--key", "id")

    assert 1 == done.code
    assert NOTE in done.err


def test_a_read_without_the_column_prints_no_note(table: Path) -> None:
    done = deltacli("read", table, "--columns", "id")

    assert (0, "") == (done.code, done.err)


@pytest.mark.parametrize("mode", ["full", "lite"])
def test_vacuum_names_the_file_that_it_keeps(table: Path, mode: str) -> None:
    remove_file(table, FOREIGN)
    make_old(table)

    done = deltacli("vacuum", table, "--yes", "--mode", mode)

    assert 0 == done.code
    assert FOREIGN in done.err
    assert RULE in done.err
    assert (table / FOREIGN).exists()


def test_vacuum_explains_a_file_that_it_keeps(table: Path) -> None:
    remove_file(table, FOREIGN)
    make_old(table)

    done = deltacli("vacuum", table, "--explain", FOREIGN)

    assert "it has the column w under the name w" in done.words
    assert RULE in done.words
