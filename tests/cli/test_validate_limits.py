"""`validate --sample` and `--where`: which data files are read, and how this is reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Result, deltacli
from tests.rules.data_table import DataTable


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three live files: one of partition a, two of b, the last of which has no rows."""
    table = DataTable()
    table.put_rows(table.add(3), table.tables["p=b/part-00004-c000.snappy.parquet"].slice(0, 0), 3)
    return table.write(tmp_path / "t")


def validate(table: Path, *arguments: str) -> Result:
    return deltacli("validate", table, "--now", "2026-01-10", *arguments)


def document(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.out)["tables"][0]
    return found


def test_every_file_is_read(table: Path) -> None:
    found = document(validate(table, "--level", "data", "--json"))

    assert {"checked": 3, "live": 3, "rows": 20} == found["files"]
    assert ["data.row-count-zero"] == [finding["rule"] for finding in found["findings"]]
    assert [] == found["notChecked"]


def test_a_footer_check_does_not_read_rows(table: Path) -> None:
    found = document(validate(table, "--level", "footers", "--json"))

    assert {"checked": 3, "live": 3, "rows": None} == found["files"]


@pytest.mark.parametrize(("share", "files"), [("1%", 1), ("34%", 2), ("67%", 3), ("100%", 3)])
def test_a_sample_is_a_share_of_the_files_and_at_least_one(share: str, files: int, table: Path) -> None:
    found = document(validate(table, "--level", "data", "--sample", share, "--json"))

    left = [] if files == 3 else [f"{3 - files} of 3 data files, which --sample {share} left out"]
    assert (files, left) == (found["files"]["checked"], found["notChecked"])
    again = document(validate(table, "--level", "data", "--sample", share, "--json"))
    assert found == again


def test_a_condition_chooses_files_by_partition_and_statistics(table: Path) -> None:
    found = document(validate(table, "--level", "data", "--where", "p = 'a' and id >= 30", "--json"))

    assert {"checked": 1, "live": 3, "rows": 10} == found["files"]
    assert ["2 of 3 data files, which --where \"p = 'a' and id >= 30\" left out"] == found["notChecked"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--sample", "5%"), ("--level log opens none", "--sample 5% --level data")),
        (("--level", "storage", "--where", "id = 1"), ("--level storage opens none",)),
        (("--level", "data", "--sample", "0%"), ("'0%'", "more than 0%")),
        (("--level", "data", "--sample", "101%"), ("'101%'",)),
        (("--level", "data", "--sample", "5"), ("'5'",)),
        (("--level", "data", "--where", "nobody = 1"), ("nobody",)),
    ],
)
def test_invalid_limits_are_exit_2(arguments: tuple[str, ...], words: tuple[str, ...], table: Path) -> None:
    result = validate(table, *arguments)

    assert 2 == result.code
    assert all(word in result.err for word in words), result.err
