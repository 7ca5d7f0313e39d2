"""`deltacli read`: the rows of the sample table, which of its files they come from, and what is refused."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.cli.options.values import split_columns
from deltacli.cli.terminal.characters import count_cells
from tests.cli.pty_session import Session
from tests.cli.screen import as_pasted
from tests.cli.support import deltacli
from tests.cli.test_documents import validate

FORMATS = ("table", "json", "ndjson", "csv", "parquet")


def on_screen(*arguments: str | Path, width: int = 80, **environment: str) -> tuple[int, str]:
    settings = {"DELTACLI_PROGRESS": "never", **environment}
    with Session(*arguments, size=(width, 24), environment=settings) as session:
        return session.finish()


def test_every_format_contains_the_same_rows(sample: Path, tmp_path: Path) -> None:
    document = deltacli("read", sample, "--json").document
    *lines, end = map(json.loads, deltacli("read", sample, "--format", "ndjson").out.splitlines())
    header, *rows = csv.reader(io.StringIO(deltacli("read", sample, "--format", "csv").out))
    done = deltacli("read", sample, "--format", "parquet", "--output", tmp_path / "x.parquet")
    table = pq.read_table(tmp_path / "x.parquet")

    validate(document, "deltacli.read")
    assert {"type": "end", "complete": True, "count": 1270} == end
    assert [{"type": "row", "row": row} for row in document["items"]] == lines
    assert ["trip", "day", "ride"] == header == [column["name"] for column in document["columns"]]
    assert rows == [
        [str(row["trip"]), row["day"], json.dumps(row["ride"], separators=(",", ":"))] for row in document["items"]
    ]
    assert (0, "", "") == (done.code, done.out, done.err)
    assert [row["trip"] for row in document["items"]] == table.column("trip").to_pylist()
    assert [row["day"] for row in document["items"]] == table.column("day").cast(pa.string()).to_pylist()
    assert pa.decimal128(8, 2) == table.schema.field("ride").type.field("fare").type
    assert {"2026-01-01", "2026-01-02", "2026-01-03"} == {row["day"] for row in document["items"]}
    assert "decimal(8,2)" == document["columns"][2]["type"]["fields"][1]["type"]


def test_a_document_ends_where_a_file_cannot_be_read(sample: Path, tmp_path: Path) -> None:
    table = Path(shutil.copytree(sample, tmp_path / "t"))
    order = [item["path"] for item in deltacli("read", table, "--explain", "--json").document["items"]]
    (table / order[-1]).write_bytes(b"PAR1")

    done = deltacli("read", table, "--json", "--limit", "0")

    found = done.document
    validate(found, "deltacli.read")
    assert (3, False) == (done.code, found["complete"])
    assert 0 < len(found["items"]) < 1270


def test_versions_and_columns_are_chosen(sample: Path) -> None:
    old = deltacli("read", sample, "--version", "1", "--columns", "DAY,trip", "--json")
    by_time = deltacli("read", sample, "--timestamp", "2026-01-01T13:00:00Z", "--columns", "DAY,trip", "--json")

    assert (1, ["day", "trip"], 360) == (
        old.document["version"],
        [column["name"] for column in old.document["columns"]],
        len(old.document["items"]),
    )
    assert list(range(1, 361)) == sorted(row["trip"] for row in old.document["items"])
    assert old.document == by_time.document


@pytest.mark.parametrize("form", ["json", "ndjson", "csv", "table"])
def test_a_limit_is_reported_with_the_command_for_all_rows(sample: Path, form: str) -> None:
    done = deltacli("read", sample, "--limit", "3", "--format", form)
    exact = deltacli("read", sample, "--version", "0", "--limit", "3", "--format", form)

    again = f"showing the first 3; to show all: deltacli read {sample} --format {form} --limit 0"
    assert again == (done.error["message"] if form.endswith("json") else done.err.strip())
    assert ("", 0) == (exact.err, exact.code)
    match form:
        case "json":
            assert (False, 3) == (done.document["complete"], len(done.document["items"]))
        case "ndjson":
            assert {"type": "end", "complete": False, "count": 3} == json.loads(done.out.splitlines()[-1])
        case _:
            assert 4 == len(done.out.splitlines())


def test_a_table_without_rows_has_columns(sample: Path, tmp_path: Path) -> None:
    outs = {form: deltacli("read", sample, "--version", "0", "--format", form).out for form in FORMATS[:4]}
    deltacli("read", sample, "--version", "0", "--format", "parquet", "--output", tmp_path / "x.parquet")

    assert "trip  day  ride\n" == outs["table"]
    assert "trip,day,ride\n" == outs["csv"]
    assert [] == json.loads(outs["json"])["items"]
    assert {"type": "end", "complete": True, "count": 0} == json.loads(outs["ndjson"])
    assert (["trip", "day", "ride"], 0) == (
        pq.read_schema(tmp_path / "x.parquet").names,
        pq.read_metadata(tmp_path / "x.parquet").num_rows,
    )


# What a scan reads


def test_explain_lists_the_files_read_and_why_others_are_skipped(sample: Path, tmp_path: Path) -> None:
    wanted = ("read", sample, "--explain", "--where", "day = '2026-01-02' AND trip > 1320")
    document = deltacli(*wanted, "--json").document
    *lines, scan, end = map(json.loads, deltacli(*wanted, "--format", "ndjson").out.splitlines())
    rows = list(csv.DictReader(io.StringIO(deltacli(*wanted, "--format", "csv").out)))
    deltacli(*wanted, "--format", "parquet", "--output", tmp_path / "x.parquet")
    table = deltacli(*wanted).out

    validate(document, "deltacli.scan-files")
    reasons = [item["reason"] for item in document["items"]]
    assert 21 == len(reasons)
    assert {"partition", "statistics", None} == set(reasons)
    assert all(item["kept"] is (item["reason"] is None) for item in document["items"])
    assert all("day=2026-01-02" in item["path"] for item in document["items"] if item["reason"] != "partition")
    assert reasons.count(None) == document["kept"]["files"]
    assert reasons.count("partition") == document["skipped"]["partition"]["files"]
    kept = [item for item in document["items"] if item["kept"]]
    assert (sum(item["sizeBytes"] for item in kept), sum(item["records"] for item in kept)) == (
        document["kept"]["sizeBytes"],
        document["kept"]["records"],
    )
    assert [{"type": "file", **item} for item in document["items"]] == lines
    assert {"type": "scan", **{name: document[name] for name in ("table", "version", "kept", "skipped")}} == scan
    assert (22, True) == (end["count"], end["complete"])
    assert [item["path"] for item in document["items"]] == [row["path"] for row in rows]
    assert document["items"] == pq.read_table(tmp_path / "x.parquet").to_pylist()
    assert f"read                   {len(kept)} file" in table
    assert 21 == table.count(".parquet")


def test_a_limit_of_files_leaves_the_totals_whole(sample: Path) -> None:
    whole = deltacli("read", sample, "--explain", "--json").document
    cut = deltacli("read", sample, "--explain", "--json", "--limit", "2").document
    *_, scan, end = map(
        json.loads, deltacli("read", sample, "--explain", "--format", "ndjson", "--limit", "2").out.splitlines()
    )
    table = deltacli("read", sample, "--explain", "--limit", "2").out

    assert (21, 2, False) == (whole["kept"]["files"], len(cut["items"]), cut["complete"])
    assert whole["kept"] == cut["kept"] == scan["kept"]
    assert {"type": "end", "complete": False, "count": 3} == end
    assert ("21 files, 32.9 KiB, 1,270 records" in table, 2) == (True, table.count(".parquet"))


# Conditions


def test_a_condition_chooses_rows(sample: Path) -> None:
    found = deltacli(
        "read", sample, "--where", "day = '2026-01-02' AND trip > 1320", "--columns", "trip", "--json"
    ).document
    everything = deltacli("read", sample, "--json").document["items"]

    expected = [row["trip"] for row in everything if row["day"] == "2026-01-02" and row["trip"] > 1320]
    assert expected
    assert sorted(expected) == sorted(row["trip"] for row in found["items"])


@pytest.mark.parametrize(
    ("where", "meant"),
    [
        ("trip != null", "trip IS NOT NULL"),
        ("trip > 0 AND NULL = ride.city", "ride.city IS NULL"),
        ("trip <=> NULL", None),
        ("ride.city = 'null'", None),
    ],
)
def test_a_comparison_with_null_is_noted(sample: Path, where: str, meant: str | None) -> None:
    found = deltacli("read", sample, "--where", where, "--count", "--format", "csv")

    assert found.out.endswith(",0\n")
    assert (f"note: a comparison with NULL is never true; write {meant}\n" if meant else "") == found.err


# What is refused


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--columns", "tripp"), "usage.column"),
        (("--columns", ","), "usage.column"),
        (("--where", "trip >"), "usage.where"),
        (("--where", "fare > 1"), "usage.where"),
        (("--version", "1", "--timestamp", "2026-01-01"), "usage"),
        (("--limit", "-1"), "usage"),
        (("--format", "sarif"), "usage"),
    ],
)
def test_impossible_options_are_refused_before_anything_is_written(
    sample: Path, tmp_path: Path, arguments: tuple[str, str], code: str
) -> None:
    done = deltacli("read", sample, *arguments, "--output", tmp_path / "x", "--log-format", "json")

    assert (2, "", []) == (done.code, done.out, list(tmp_path.iterdir()))
    assert code == done.error["code"]


def test_parquet_is_written_into_a_file_or_a_pipe(sample: Path, tmp_path: Path) -> None:
    nowhere = deltacli("read", sample, "--format", "parquet", "--limit", "5")
    code, seen = on_screen("read", sample, "--format", "parquet", "--output", "-")
    os.mkfifo(tmp_path / "pipe")
    piped = on_screen("read", sample, "--format", "parquet", "--output", tmp_path / "file", "--color", "never")

    assert (2, "") == (nowhere.code, nowhere.out)
    assert nowhere.err.splitlines() == [
        "error: --format parquet requires --output FILE or --output DIR/",
        f"hint: deltacli read {sample} --format parquet --limit 5 --output rows.parquet",
    ]
    assert (2, True) == (code, seen.startswith("error: --format parquet requires --output FILE"))
    assert (0, True) == (piped[0], piped[1].startswith("wrote 1,270 rows ("))
    assert 1270 == pq.read_metadata(tmp_path / "file").num_rows


def test_a_missing_data_file_is_named_and_no_output_is_written(sample: Path, tmp_path: Path) -> None:
    table = Path(shutil.copytree(sample, tmp_path / "t"))
    lost = next(table.glob("day=2026-01-02/part-00012-*.parquet"))
    lost.unlink()

    for form in FORMATS:
        done = deltacli("read", table, "--format", form, "--output", tmp_path / "out")

        assert done.code in (3, 7)
        assert lost.name in done.err
        assert [table] == list(tmp_path.iterdir())
    broken = deltacli("read", table, "--format", "ndjson")
    for path in table.glob("*/*.parquet"):
        path.unlink()
    empty = [deltacli("read", table, "--format", form).out for form in FORMATS[:4]]

    assert '"type":"row"' in broken.out
    assert '"type":"end"' not in broken.out
    assert ["", "", "", ""] == empty


# Terminals


def test_a_terminal_gets_twenty_rows_that_fit(sample: Path) -> None:
    code, seen = on_screen("read", sample, "--no-pager")
    narrow, short = on_screen("read", sample, "--no-pager", "--color", "never", width=20)

    lines, note = seen.splitlines()[:25], " ".join(as_pasted(seen).splitlines()[25:])
    assert 0 == code
    assert "20 of 1,270 rows" in lines[-1]
    assert f"to show all: deltacli read {sample} --no-pager --limit 0" == note
    assert (0, []) == (narrow, [line for line in short.splitlines()[:21] if count_cells(line) > 20])
    said = " ".join(as_pasted(short).split())
    assert f"no room for ride; select columns with --columns, or show all: deltacli read {sample}" in said


@pytest.mark.parametrize(("width", "said"), [(40, "values are cut; to show them whole: deltacli read"), (80, None)])
def test_cut_values_are_reported_with_the_command_that_shows_them(sample: Path, width: int, said: str | None) -> None:
    _, seen = on_screen("read", sample, "--limit", "2", "--no-pager", "--color", "never", width=width)

    told = " ".join(as_pasted(seen).split())
    assert (said is None) == ("values are cut" not in told)
    assert said is None or f"{said} {sample} --limit 2 --no-pager --color never --format ndjson" in told
    _, seen = on_screen("changes", sample, "--from", "9", "--to", "9", "--no-pager", width=60)
    assert "no room for _commit_timestamp, and values are cut; select columns" in " ".join(as_pasted(seen).split())


def test_explain_fits_a_terminal(sample: Path) -> None:
    for width in (40, 80):
        code, seen = on_screen("read", sample, "--explain", "-q", "--no-pager", "--color", "never", width=width)

        assert (0, []) == (
            code,
            [line for line in seen.splitlines() if count_cells(line) > width and f"{sample}" not in line],
        )
        assert 20 == seen.count(".parquet")


def test_explain_names_what_has_no_room_once_below_the_table(sample: Path) -> None:
    """Files that are read and skipped come from the log in several batches."""
    asked = ("read", sample, "--explain", "--where", "trip > 1320", "-q", "--no-pager", "--color", "never")
    for width in (60, 80):
        _, seen = on_screen(*asked, width=width)

        assert 1 == seen.count("no room for")
        below = as_pasted(seen[seen.index("no room for") :]).split()
        assert "to show them: deltacli read" in " ".join(below)
        assert ["--format", "csv"] == below[-2:]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a, b", ["a", "b"]),
        ("a,`x, y`,b", ["a", "x, y", "b"]),
        ("`a``b`", ["a`b"]),
        ("a`b,c", ["a`b", "c"]),
        ("`", ["`"]),
    ],
)
def test_a_column_with_a_comma_in_its_name_is_quoted_with_backticks(text: str, names: list[str]) -> None:
    assert names == split_columns(text, "--columns")


@pytest.mark.parametrize("columns", ["trip,,day", "trip,day,", ",trip, day", "trip, ,day"])
def test_an_empty_name_of_a_column_is_a_usage_error(sample: Path, columns: str) -> None:
    done = deltacli("read", sample, "--columns", columns, "--limit", "1")

    assert (2, "") == (done.code, done.out)
    assert done.err.startswith("error: --columns: a name is empty\n  did you mean  trip,day\nhint: deltacli read ")


def test_rows_are_counted_from_the_log_or_from_one_column(sample: Path) -> None:
    whole = deltacli("read", sample, "--count", "--json").document
    some = deltacli(
        "read", sample, "--count", "--where", "ride.city = 'Bern' AND day > '2026-01-01'", "--json"
    ).document
    read = deltacli("read", sample, "--where", "ride.city = 'Bern' AND day > '2026-01-01'", "--json").document
    old = deltacli("read", sample, "--count", "--version", "1", "--format", "csv")

    validate(whole, "deltacli.row-count")
    assert (1270, "log") == (whole["rows"], whole["countedFrom"])
    assert (len(read["items"]), "data") == (some["rows"], some["countedFrom"])
    assert "version,rows\n1,360\n" == old.out
    assert "rows  1,270\n" == deltacli("read", sample, "--count").out
    for other in (["--limit", "3"], ["--explain"], ["--columns", "trip"], ["--format", "parquet"], ["--output", "d/"]):
        assert 2 == deltacli("read", sample, "--count", *other).code
