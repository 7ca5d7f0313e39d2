"""`--output DIR/` of read, changes and snapshot: Parquet files, and a short result on stdout in every format."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from deltacli.cli.app import run
from tests.docs.test_schemas import faults, line_faults

Capture = pytest.CaptureFixture[str]


def rows_in(directory: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in directory.glob("*.parquet"))


@pytest.mark.parametrize(
    ("command", "content", "rows"),
    [
        ("read TABLE", "rows", 1270),
        ("read TABLE --limit 5", "rows", 5),
        ("changes TABLE --from 13", "changes", 150),
        ("snapshot TABLE --files --tombstones", "files", 32),
    ],
)
@pytest.mark.parametrize("form", ["json", "ndjson"])
def test_the_result_says_what_was_written(
    command: str,
    content: str,
    rows: int,
    form: str,
    sample: Path,
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DELTACLI_FORMAT", form)
    words = [str(sample) if word == "TABLE" else word for word in command.split()]

    assert 0 == run([*words, "--output", f"{tmp_path}/out/"])

    first, *end = map(json.loads, capsys.readouterr().out.splitlines())
    assert [] == (faults(first, "deltacli.output") if form == "json" else line_faults(first))
    assert (content, rows) == (first["content"], first["rows"])
    assert (rows != 5) is (end[0] if end else first)["complete"]
    assert rows == rows_in(tmp_path / "out")
    assert sorted(["_SUCCESS", *(file["path"] for file in first["files"])]) == sorted(os.listdir(tmp_path / "out"))


def test_an_existing_empty_directory_and_a_table_of_one_line(sample: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "out").mkdir()

    assert 0 == run(["read", str(sample), "--format", "parquet", "--output", str(tmp_path / "out")])

    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert ["table", "version", "directory", "written"] == [label for label, _ in lines]
    assert lines[-1][1].startswith("1 file, 1,270 rows, ")


def test_a_listing_of_files_is_also_one_parquet_file(sample: Path, tmp_path: Path) -> None:
    file = tmp_path / "files.parquet"

    assert 0 == run(["snapshot", str(sample), "--files", "--format", "parquet", "--output", str(file)])

    found = pq.read_table(file)
    assert ({"add"}, "int64") == (set(found["type"].to_pylist()), str(found["size"].type))


@pytest.mark.parametrize(
    ("command", "code", "hint"),
    [
        ("read TABLE --format csv --output DIR/", "usage.output", "--format parquet"),
        ("read TABLE --format ndjson --output DIR/", "usage.output", "--format parquet"),
        ("read TABLE --explain --output DIR/", "usage.output", None),
        ("snapshot TABLE --output DIR/", "usage.output", "--files"),
        ("snapshot TABLE --format parquet", "usage.output", "--files --output files.parquet"),
        ("snapshot TABLE --files --format parquet", "usage.output", "--output rows.parquet"),
        ("read TABLE --output TABLE/", "usage.output", None),
        ("read TABLE --output TABLE/new/", "usage", None),
        ("read TABLE --output file://TABLE/new", "usage.output", None),
        ("read TABLE --output FULL", "usage.output", None),
        ("read TABLE --output FULL/file/", "usage.output", None),
    ],
)
def test_what_cannot_be_written_is_refused(
    command: str, code: str, hint: str | None, sample: Path, tmp_path: Path, capsys: Capture
) -> None:
    places = {"TABLE": str(sample), "DIR": str(tmp_path / "new"), "FULL": str(tmp_path / "full")}
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("before")
    words = command
    for name, place in places.items():
        words = words.replace(name, place)
        hint = hint and hint.replace(name, place)

    assert 2 == run(["--log-format", "json", *words.split()])

    fault = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert code == fault["code"]
    assert (fault.get("hint") or "").endswith(hint or "")
    assert ["file", "full"] == sorted(path.name for path in tmp_path.rglob("*"))
