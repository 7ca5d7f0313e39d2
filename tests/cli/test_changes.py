"""`deltacli changes`: which versions a range is, and its rows in every format."""

from __future__ import annotations

import csv
import io
import json
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.cli.terminal.characters import count_cells
from tests.cli.support import deltacli
from tests.cli.test_documents import validate
from tests.cli.test_read import on_screen
from tests.support.actions import add, metadata, protocol, remove

CHANGE = ["_change_type", "_commit_version", "_commit_timestamp"]


def test_every_format_contains_the_same_changes(sample: Path, tmp_path: Path) -> None:
    wanted = ("changes", sample, "--from", "8", "--to", "10")
    document = deltacli(*wanted, "--json").document
    *lines, end = map(json.loads, deltacli(*wanted, "--format", "ndjson").out.splitlines())
    rows = list(csv.DictReader(io.StringIO(deltacli(*wanted, "--format", "csv").out)))
    deltacli(*wanted, "--format", "parquet", "--output", tmp_path / "x.parquet")
    table = pq.read_table(tmp_path / "x.parquet")

    validate(document, "deltacli.changes")
    assert (8, 10) == (document["fromVersion"], document["toVersion"])
    assert ["trip", "day", "ride", *CHANGE] == [column["name"] for column in document["columns"]] == table.schema.names
    assert ["string", "long", "timestamp"] == [column["type"] for column in document["columns"][3:]]
    assert [{"type": "change", "change": item} for item in document["items"]] == lines
    assert {"type": "end", "complete": True, "count": len(lines)} == end
    assert [item["trip"] for item in document["items"]] == [int(row["trip"]) for row in rows]
    assert [item["trip"] for item in document["items"]] == table.column("trip").to_pylist()
    found = {(item["_commit_version"], item["_change_type"], item["_commit_timestamp"]) for item in document["items"]}
    assert {
        (8, "insert", "2026-01-02T17:00:00Z"),
        (9, "delete", "2026-01-02T21:00:00Z"),
        (10, "insert", "2026-01-03T01:00:00Z"),
    } == found
    assert 120 + 200 + 90 == len(lines)


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        ("13", None, (13, 14)),
        (" 13 ", "13", (13, 13)),
        ("2026-01-03T13:00:00Z", None, (13, 14)),
        ("2026-01-03T12:59:59.999Z", None, (13, 14)),
        ("2026-01-03T13:00:00.001Z", None, (14, 14)),
        ("2020-01-01", "2026-01-01T09:00:00Z", (0, 0)),
        ("10", "2026-01-03T12:00:00+02:00", (10, 12)),
        ("2026-01-03T13:00:00.001Z", "2026-01-03T16:59:59Z", (14, 13)),
        ("2027-01-01", None, (15, 14)),
        ("15", None, (15, 14)),
        ("14", "2026-01-03T09:00:00Z", (14, 12)),
    ],
)
def test_a_bound_is_a_version_or_a_timestamp(
    sample: Path, first: str, last: str | None, expected: tuple[int, int]
) -> None:
    done = deltacli("changes", sample, "--from", first, *(("--to", last) if last else ()), "--limit", "1", "--json")

    assert (0, expected) == (done.code, (done.document["fromVersion"], done.document["toVersion"]))
    validate(done.document, "deltacli.changes")
    shown = deltacli("history", sample, "--from", first, *(("--to", last) if last else ()), "--json")
    versions = [*range(expected[1], expected[0] - 1, -1)]
    assert (0, versions, "") == (shown.code, [item["version"] for item in shown.document["items"]], shown.err)
    if expected[0] > expected[1]:
        words = f"no version was committed in this range; the last one before it is version {expected[1]}"
        assert ([], True, words) == (done.document["items"], done.document["complete"], done.error["message"])


@pytest.mark.parametrize(
    ("arguments", "exit_code", "code"),
    [
        ((), 2, "usage"),
        (("--from", "9", "--to", "8"), 2, "usage"),
        (("--from", "soon"), 2, "usage.timestamp"),
        (("--from", "-1"), 2, "usage.timestamp"),
        (("--from", "16"), 3, "table.version-absent"),
        (("--from", "15", "--to", "15"), 3, "table.version-absent"),
        (("--from", "0", "--to", "99"), 3, "table.version-absent"),
        (("--from", "0", "--to", "2020-01-01"), 3, "table.timestamp-before-start"),
        (("--from", "0", "--columns", "none"), 2, "usage.column"),
        (("--from", "0", "--format", "parquet"), 2, "usage.output"),
    ],
)
def test_an_impossible_range_is_refused(sample: Path, arguments: tuple[str, ...], exit_code: int, code: str) -> None:
    done = deltacli("changes", sample, *arguments, "--log-format", "json")

    assert (exit_code, code, "") == (done.code, done.error["code"], done.out)


def test_changes_of_missing_commits_are_reported(sample: Path, tmp_path: Path) -> None:
    table = tmp_path / "t"
    (table / "_delta_log").mkdir(parents=True)
    for path in (sample / "_delta_log").iterdir():
        if path.name >= f"{10:020d}":
            (table / "_delta_log" / path.name).write_bytes(path.read_bytes())

    done = deltacli("changes", table, "--from", "2026-01-01")
    shown = deltacli("history", table, "--from", "2026-01-01", "--to", "11", "--format", "csv", "--columns", "version")

    assert (0, "version\n11\n10\n") == (shown.code, shown.out)
    assert "note: the log begins at version 10; older commits are no longer there\n" in shown.err
    assert 3 == done.code
    assert (
        "the log does not reach back to 2026-01-01T00:00:00.000Z: the oldest version that can be rebuilt is 10"
        in done.err
    )
    assert done.err.splitlines()[-1] == f"hint: deltacli changes {table} --from 10"


def test_a_narrow_terminal_keeps_the_values_and_the_change_of_a_row(sample: Path) -> None:
    code, seen = on_screen("changes", sample, "--from", "9", "--to", "9", "--no-pager", "--color", "never", width=60)

    lines = seen.splitlines()
    assert (0, []) == (code, [line for line in lines[:21] if count_cells(line) > 60])
    assert ["trip", "day", "ride", "change", "version"] == lines[0].split()
    assert any(line.startswith("no room for ") for line in lines)
    assert "\nto show all: deltacli changes " in seen


def test_the_time_of_a_change_is_left_out_before_a_column_of_the_user_is_cut(sample: Path) -> None:
    screen = ("--from", "9", "--to", "9", "--limit", "1", "--no-pager", "--color", "never")
    narrow = on_screen("changes", sample, *screen, width=80)[1].splitlines()
    wide = on_screen("changes", sample, *screen, width=100)[1].splitlines()

    assert [["trip", "day", "ride", "change", "version"], [*narrow[0].split(), "committed"]] == [
        narrow[0].split(),
        wide[0].split(),
    ]
    assert [True, True] == [lines[3].split()[2].endswith('"}') for lines in (narrow, wide)]
    assert any(line.startswith("no room for _commit_timestamp;") for line in narrow)


@pytest.mark.parametrize("end", ["--from", "--to"])
def test_a_version_of_thousands_of_digits_is_a_usage_error(end: str, sample: Path) -> None:
    others = () if end == "--from" else ("--from", "0")

    assert 2 == deltacli("changes", sample, *others, end, "9" * 5_000).code


@pytest.fixture
def retyped(tmp_path: Path) -> Path:
    """A table whose second version of three has another type of its column."""
    table, log = tmp_path / "retyped", tmp_path / "retyped" / "_delta_log"
    log.mkdir(parents=True)
    columns = (("timestamp", pa.timestamp("us", "UTC"), 0), ("date", pa.date32(), 1), ("date", pa.date32(), 2))
    for version, (type_name, arrow_type, value) in enumerate(columns):
        pq.write_table(pa.table({"e": pa.array([value], arrow_type)}), table / f"{version}.parquet")
        field = {"name": "e", "type": type_name, "nullable": True, "metadata": {}}
        schema = json.dumps({"type": "struct", "fields": [field]})
        lines = [add(f"{version}.parquet", size=(table / f"{version}.parquet").stat().st_size)]
        if version < 2:
            lines.insert(0, metadata(schemaString=schema))
        if version == 0:
            lines.insert(0, protocol(1, 2))
        if version == 1:
            lines.append(remove("0.parquet"))
        (log / f"{version:020d}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return table


@pytest.mark.parametrize(
    "words",
    [
        ("--from", "0"),
        ("--from=0",),
        ("--from", "1970-01-01"),
        ("--from", "0", "--to", "1"),
        ("--from=0", "--to=1"),
        ("--from", "0", "--format", "csv", "--"),
        ("--from", "1", "--to", "1"),
    ],
)
@pytest.mark.parametrize("newest", [1, 2])
def test_the_hint_of_a_range_that_cannot_be_read_together_can_be_read(
    words: tuple[str, ...], newest: int, retyped: Path
) -> None:
    if newest == 1:
        (retyped / "_delta_log" / f"{2:020d}.json").unlink()

    refused = deltacli("changes", retyped, *words)
    hint = refused.err.splitlines()[-1].removeprefix("hint: deltacli ")
    followed = deltacli(*shlex.split(hint))

    assert (4, 0) == (refused.code, followed.code)
    assert set(words) & {"--format", "csv"} <= set(hint.split())
