"""Lists of files: written a column at a time, with the same text as row by row."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from deltacli.cli.output.columns import Column, format_exact
from deltacli.cli.output.csv_rows import CsvEncoder, encode_csv_block
from deltacli.cli.output.formats import FORMATS
from deltacli.cli.output.grids import RowGrid
from deltacli.cli.output.text_tables import write_text_table
from deltacli.cli.render.data import file_list
from deltacli.cli.render.data.file_list import FileListing, FilesResult
from deltacli.table.version import Snapshot
from deltacli.work.outputs.action_outputs import list_action_fields
from tests.cli.test_rows import PIPE
from tests.support.actions import add, deletion_vector, metadata, protocol, remove
from tests.support.builder import TableBuilder
from tests.support.reading import open_built

FEATURES = ["deletionVectors"]
BOTH = FileListing(("add", "remove"), None)
STATS = '{"numRecords":7,"minValues":{"a":"x, \\"y\\""}}'


def make_snapshot(count: int) -> Snapshot:
    """Files with every kind of field, as many plain ones, and one with a deletion vector among the oldest."""
    builder = TableBuilder().commit(
        protocol(3, 7, reader_features=FEATURES, writer_features=FEATURES),
        metadata(partition_columns=["p"]),
        add("a\x07\u65e5.parquet", stats=STATS, partition_values={"p": None}, tags={"k": 'v"'}),
        add("a,b.parquet", stats='{"numRecords":1}', partition_values={"p": 'x"'}),
        add("z.parquet", vector=deletion_vector(offset=None, rows=2), records=9),
        remove("gone\n.parquet", deleted_ms=None),
        remove("gone too.parquet", deleted_ms=5, size=3),
    )
    builder.commit(*(add(f"part-{number}.parquet", records=number) for number in range(count)))
    return open_built(builder).snapshot()


def listed(form: str, snapshot: Snapshot, listing: FileListing = BOTH, *, limit: int = 0) -> bytes:
    sink = io.BytesIO()
    FORMATS[form].write(sink, FilesResult(snapshot, listing, limit), PIPE)
    return sink.getvalue()


def row_by_row(snapshot: Snapshot, columns: Sequence[Column[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The same rows as Python values."""
    return [
        row
        for kind, batches in (("add", snapshot.files()), ("remove", snapshot.tombstones()))
        for batch in batches
        for row in file_list._shown(columns, kind, batch).to_pylist(maps_as_pydicts="lossy")
    ]


@pytest.mark.parametrize("form", ["csv", "table"])
def test_lists_of_files_are_written_in_columns_with_the_text_of_rows(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = make_snapshot(5)
    expected = io.BytesIO()
    if form == "csv":
        columns = [file_list._exact_column(name) for name in ("type", *list_action_fields(BOTH.kinds))]
        expected.writelines(RowGrid(columns, row_by_row(snapshot, columns)).encode(CsvEncoder()))
    else:
        columns = file_list._screen_columns(BOTH)
        write_text_table(expected, PIPE, columns, row_by_row(snapshot, columns))
    monkeypatch.setattr(file_list, "_write_screens", None)

    found = listed(form, snapshot)

    assert expected.getvalue() == found


@pytest.mark.parametrize("form", ["csv", "table"])
def test_a_list_of_files_is_cut(form: str) -> None:
    snapshot = make_snapshot(5)

    whole, part = listed(form, snapshot), listed(form, snapshot, limit=3)

    assert 4 == len(part.splitlines())
    assert form == "table" or whole.startswith(part)


def test_a_value_after_the_first_thousand_files_keeps_its_column() -> None:
    listing = FileListing(("add",), None)

    heading, *lines = listed("table", make_snapshot(2_500), listing).decode().splitlines()

    assert ["size", "records", "deleted", "modified", "(UTC)", "path"] == heading.split()
    assert ["1", "B", "9", "2", "1970-01-01T00:00:00.000Z", "z.parquet"] in [line.split() for line in lines[-3:]]
    assert 2_503 == len(lines)


@pytest.mark.parametrize(
    "texts",
    [
        ['{"a":1}', '{"b":"}{"}'],
        ['{"a":"\\u0001\\""}', '{"a":"b\\\\"}'],
        ['{"a":"\x1f"}', '{"\x7f":"\u65e5"}'],
        ['{"a":1}', None, "", "plain"],
        ["[1]", "{}", 'a"b"\n'],
    ],
)
def test_texts_with_quotes_are_read_back_from_csv(texts: list[str | None]) -> None:
    columns = [pa.array([None, *texts], pa.string()).slice(1), pa.array(range(len(texts)))]

    block = bytes(encode_csv_block(columns, len(texts)).data)

    lines = list(csv.reader(io.StringIO(block.decode(), newline=""), strict=True))
    assert [[format_exact(text), str(number)] for number, text in enumerate(texts)] == lines
