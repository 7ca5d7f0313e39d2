"""Rows in every format, read back: the same rows, or an error, and never half of them as if they were all."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.arrow import batches as arrow_rows
from deltacli.cli.output.destination import open_destination
from deltacli.cli.output.formats import FORMATS
from deltacli.cli.render.data.rows import Rows, RowsResult, Written
from deltacli.cli.terminal.capabilities import Terminal
from deltacli.core.errors import Unreadable, UsageError
from deltacli.work import parquet_writing as parquet_stream

PIPE = Terminal(is_terminal=False, width=None, colour=False)
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("name", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.string())),
    ]
)
TABLE: list[dict[str, Any]] = [
    {"id": 1, "name": "plain", "at": 0, "tags": ["a", 'b"']},
    {"id": 2, "name": "", "at": None, "tags": []},
    {"id": 3, "name": None, "at": 1, "tags": None},
    {"id": 4, "name": 'a "quoted", name\nand a line\r', "at": -1, "tags": [None, ","]},
]
TIMES = ["1970-01-01T00:00:00Z", None, "1970-01-01T00:00:00.000001Z", "1969-12-31T23:59:59.999999Z"]
NAMES = st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")))


def batch(items: list[dict[str, Any]] | None = None) -> Any:  # Any: RecordBatch
    return pa.RecordBatch.from_pylist(TABLE if items is None else items, SCHEMA)


def write(form: str, *batches: Any, limit: int = 0, terminal: Terminal = PIPE) -> tuple[bytes, Written]:  # Any: batches
    sink = io.BytesIO()
    found = Rows("deltacli.read", "row", "file:///t", {"version": 7}, batches[0].schema, iter(batches))
    result = RowsResult(found, limit)
    FORMATS[form].write(sink, result, terminal)
    return sink.getvalue(), result.written


def test_ndjson_holds_every_row_and_ends() -> None:
    out, _ = write("ndjson", batch(), batch([]), batch(TABLE[:1]))

    *lines, end = [json.loads(line) for line in out.splitlines()]
    expected = [{**row, "at": at} for row, at in zip(TABLE, TIMES, strict=True)]
    assert [{"type": "row", "row": row} for row in [*expected, expected[0]]] == lines
    assert {"type": "end", "complete": True, "count": 5} == end


def test_a_document_holds_every_row_and_says_what_it_is() -> None:
    out, _ = write("json", batch(), batch(TABLE[:1]))
    empty, _ = write("json", batch([]))

    document = json.loads(out)
    items = document.pop("items")
    envelope = {"kind": "deltacli.read", "schemaVersion": 1, "table": "file:///t", "tableFormat": "delta"}
    assert {**envelope, "version": 7, "complete": True} == document
    assert (5, TABLE[3]["name"], TIMES[2]) == (len(items), items[3]["name"], items[2]["at"])
    assert [] == json.loads(empty)["items"]


def test_csv_tells_null_from_an_empty_text() -> None:
    out, _ = write("csv", batch())

    assert out.decode().startswith(
        "id,name,at,tags\n"
        '1,plain,1970-01-01T00:00:00Z,"[""a"",""b\\""""]"\n'
        '2,"",,[]\n'
        "3,,1970-01-01T00:00:00.000001Z,\n"
        '4,"a ""quoted"", name\nand a line\r",'
    )


@given(st.lists(st.tuples(NAMES, NAMES, st.one_of(st.none(), st.integers(-9, 9)))), NAMES, st.integers(0, 2))
def test_csv_is_read_back(
    values: list[tuple[str | None, str | None, int | None]], title: str | None, start: int
) -> None:
    columns = [
        pa.array([row[n] for row in values], kind) for n, kind in enumerate((pa.string(), pa.string(), pa.int64()))
    ]
    found = pa.record_batch(columns, names=[title or "a", "b,", "c"])[start:]

    out, _ = write("csv", found)

    header, *lines = csv.reader(io.StringIO(out.decode(), newline=""), strict=True)
    assert [title or "a", "b,", "c"] == header
    assert [["" if value is None else str(value) for value in row] for row in values[start:]] == lines


@given(st.lists(st.one_of(st.none(), st.text('a,\n"')), min_size=1))
def test_csv_of_one_column_loses_no_row(values: list[str | None]) -> None:
    out, _ = write("csv", pa.record_batch([pa.array(values, pa.string())], names=["a"]))

    lines = list(csv.reader(io.StringIO(out.decode(), newline=""), strict=True))
    assert [["a"], *([value or ""] for value in values)] == lines


@pytest.mark.parametrize("form", ["ndjson", "json", "csv", "parquet", "table"])
def test_rows_without_columns_are_rows(form: str) -> None:
    found = batch().select([])
    if form == "parquet":
        return
    out, _ = write(form, found)

    match form:
        case "ndjson":
            assert 4 == out.count(b'{"type":"row","row":{}}')
        case "json":
            assert [{}] * 4 == json.loads(out)["items"]
        case _:
            assert out.count(b"\n") >= 4


@pytest.mark.parametrize("pieces", [(1, 1 << 20), (32_768, 1), (3, 64)])
def test_rows_are_the_same_in_whatever_pieces_they_are_written(
    pieces: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [batch().slice(1), batch(), batch(TABLE * 5).slice(2, 9)]
    whole = {form: write(form, *many) for form in ("ndjson", "json", "csv")}
    monkeypatch.setattr(arrow_rows, "_MAX_PIECE_ROWS", pieces[0])
    monkeypatch.setattr(arrow_rows, "_MAX_PIECE_BYTES", pieces[1])

    for form in ("ndjson", "csv"):
        assert whole[form] == write(form, *many)
    assert json.loads(whole["json"][0]) == json.loads(write("json", *many)[0])


@pytest.mark.parametrize(("limit", "shown", "is_cut"), [(0, 8, False), (3, 3, True), (4, 4, True), (8, 8, False)])
def test_a_limit_cuts_and_is_told(limit: int, shown: int, is_cut: bool) -> None:
    lines, of_lines = write("ndjson", batch(), batch(), limit=limit)
    document, of_document = write("json", batch(), batch(), limit=limit)
    _, of_csv = write("csv", batch(), batch(), limit=limit)

    assert {"type": "end", "complete": not is_cut, "count": shown} == json.loads(lines.splitlines()[-1])
    assert (shown, not is_cut) == (len(json.loads(document)["items"]), json.loads(document)["complete"])
    assert (is_cut, is_cut, is_cut) == (of_lines.was_cut, of_document.was_cut, of_csv.was_cut)


@pytest.mark.parametrize("form", ["ndjson", "json", "csv", "parquet", "table"])
def test_text_that_is_none_is_refused_by_the_name_of_its_column(form: str) -> None:
    texts = pa.StringArray.from_buffers(2, pa.array([0, 1, 3], pa.int32()).buffers()[1], pa.py_buffer(b"a\xff\xfe"))
    nested = pa.ListArray.from_arrays([0, 2], texts)

    for column in (texts, nested):
        with pytest.raises(Unreadable, match="'deep'") as caught:
            write(form, pa.record_batch([column], names=["deep"]))
        assert "data.bad-value" == caught.value.code


# Parquet


def test_parquet_is_read_back_with_its_schema(tmp_path: Path) -> None:
    out, _ = write("parquet", batch(), batch(TABLE[:2]))
    (tmp_path / "x.parquet").write_bytes(out)

    found = pq.ParquetFile(tmp_path / "x.parquet")
    assert SCHEMA == found.schema_arrow
    assert pa.Table.from_batches([batch(), batch(TABLE[:2])]) == found.read()
    assert "ZSTD" == found.metadata.row_group(0).column(0).compression


def test_parquet_of_no_rows_has_the_schema() -> None:
    out, _ = write("parquet", batch([]))

    found = pq.ParquetFile(io.BytesIO(out))
    assert (SCHEMA, 0) == (found.schema_arrow, found.metadata.num_rows)


@pytest.mark.parametrize(("most_rows", "most_bytes"), [(5, 1 << 20), (1 << 20, 400)])
def test_row_groups_are_bounded(most_rows: int, most_bytes: int) -> None:
    batches = [batch(TABLE[:1])] * 7 + [batch(TABLE * 10)]
    out = io.BytesIO()

    stream = parquet_stream.ParquetStream(out, SCHEMA, group_rows=most_rows, group_bytes=most_bytes)
    for each in batches:
        stream.add(each)
    stream.finish()

    found = pq.ParquetFile(out)
    groups = [found.metadata.row_group(n).num_rows for n in range(found.num_row_groups)]
    assert pa.Table.from_batches(batches) == found.read()
    assert 47 == sum(groups)
    assert max(groups) <= 15  # even ones, of which none has more than half as much again
    assert groups[0] > 1


def test_parquet_is_whole_or_not_there(tmp_path: Path) -> None:
    def failing() -> Iterator[Any]:  # Any: batches
        yield batch(TABLE * 100)
        raise OSError("the store is gone")

    (tmp_path / "before").write_bytes(b"before")
    for name in ("new", "before"):
        with pytest.raises(Exception, match="the store is gone"), open_destination(str(tmp_path / name)) as sink:
            parquet_stream.write_parquet(sink, SCHEMA, failing())

    assert [tmp_path / "before"] == list(tmp_path.iterdir())
    assert b"before" == (tmp_path / "before").read_bytes()


def test_half_a_parquet_file_in_a_pipe_is_none() -> None:
    def failing() -> Iterator[Any]:  # Any: batches
        yield batch()
        yield batch()
        raise KeyboardInterrupt

    read, write_end = os.pipe()
    with os.fdopen(read, "rb") as out:
        with contextlib.suppress(KeyboardInterrupt), os.fdopen(write_end, "wb") as sink:
            parquet_stream.write_parquet(sink, SCHEMA, failing())
        data = out.read()

    with pytest.raises(pa.ArrowInvalid):
        pq.ParquetFile(io.BytesIO(data))


def test_a_type_that_parquet_has_not_is_named() -> None:
    empty = pa.record_batch([pa.array([{}], pa.struct([]))], names=["nothing"])

    with pytest.raises(UsageError, match="cannot be written as Parquet") as caught:
        write("parquet", empty)

    assert "nothing" in caught.value.facts["reason"]


# Tables


def test_a_table_in_a_pipe_is_uncut() -> None:
    out, written = write("table", batch())

    assert {} == written.left_out
    assert out.decode().splitlines()[:4] == [
        "id  name                            at                           tags",
        ' 1  plain                           1970-01-01T00:00:00Z         ["a","b\\""]',
        " 2                                  null                         []",
        " 3  null                            1970-01-01T00:00:00.000001Z  null",
    ]


def test_a_narrow_screen_leaves_columns_out_and_says_which() -> None:
    narrow = Terminal(is_terminal=True, width=30, colour=True)
    out, written = write("table", batch(TABLE[1:3]), terminal=narrow)

    heading, rule, second, third, _, footer = out.decode().splitlines()
    assert ["at"] == list(written.left_out)
    assert ["\x1b[1mid\x1b[0m  \x1b[1mname\x1b[0m  \x1b[1mtags\x1b[0m", f"\x1b[2m{'─' * 14}\x1b[0m"] == [heading, rule]
    assert " 2        []" == second
    assert " 3  \x1b[2mnull\x1b[0m  \x1b[2mnull\x1b[0m" == third
    assert "\x1b[2m2 rows\x1b[0m" == footer


def test_the_columns_of_a_change_stay_longest() -> None:
    found = pa.record_batch(
        [pa.array(["x" * 40]), pa.array([2**62]), pa.array(["insert"]), pa.array([7])],
        names=["a", "b", "_type", "_version"],
    )
    sink = io.BytesIO()
    shown = Rows("deltacli.changes", "change", "t", {}, found.schema, [found], first=("_type", "_version"))
    result = RowsResult(shown, 0)
    FORMATS["table"].write(sink, result, Terminal(True, 30, False))

    assert ["b"] == list(result.written.left_out)
    assert ["a             _type   _version", "─" * 30, "xxxxxxxxxxx…  insert         7", "", "1 row"] == (
        sink.getvalue().decode().splitlines()
    )


def test_control_characters_are_escaped_and_wide_ones_aligned() -> None:
    found = pa.record_batch([pa.array(["日本", "a\x1b[2J", "\u202ex"]), pa.array([1, 2, 3])], names=["a\x07", "n"])
    out, _ = write("table", found, terminal=Terminal(True, 40, False))

    lines = ["a\\x07     n", "─" * 11, "日本      1", "a\\x1b[2J  2", "\\u202ex   3", "", "3 rows"]
    assert lines == out.decode().splitlines()


def test_screens_of_more_rows_than_are_drawn_look_alike_and_say_how_many_rows_there_are() -> None:
    found = pa.record_batch({"n": pa.array(range(2_500)), "t": pa.array(["x"] * 2_499 + [None])})
    about = {
        "columns": [{"name": "n", "type": "long"}, {"name": "t", "type": {"type": "array", "elementType": "date"}}]
    }
    rows = Rows("deltacli.read", "row", "t", about, found.schema, [found], count=lambda: 9_999)
    whole, part = io.BytesIO(), io.BytesIO()

    FORMATS["table"].write(whole, RowsResult(rows, 0), Terminal(True, 40, False))
    FORMATS["table"].write(part, RowsResult(rows, 2_000), Terminal(True, 40, False))

    lines, cut = whole.getvalue().decode().splitlines(), part.getvalue().decode().splitlines()
    assert ["   n  t", "long  array<date>", "   0  x", "   1  x"] == lines[:4]
    assert 3 == lines.count("   n  t")
    assert ["2499  null", "", "2,500 rows"] == lines[-3:]
    assert ["1999  x", "", "2,000 of 9,999 rows"] == cut[-3:]
