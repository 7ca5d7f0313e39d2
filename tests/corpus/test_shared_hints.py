"""Hints on the real tables of the corpus: the files that they leave out have no row that a scan would return."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from deltacli import open_table
from deltacli.core.errors import DeltacliError
from deltacli.delta.predicate.columns import Column
from deltacli.delta.schema.types import Kind
from deltacli.sharing.hints.file_selection import Hints, select_files
from deltacli.table.data_files import build_data_files, stream_rows
from deltacli.table.selection import Selection
from deltacli.table.version import Snapshot
from tests.support import corpus
from tests.support.effort import is_soaking, sampled

FIELDS = ("path", "size", "partitionValues", "stats", "deletionVector")
LARGE = 100_000
"More rows are not read here."
VALUE_TYPES = {"integer": "int", "short": "int", "byte": "int", "long": "long", "string": "string", "date": "date"}
ORDERS = {"=": "equal", "<": "lessThan", ">": "greaterThan"}


@pytest.mark.sampled
@pytest.mark.long
def test_files_left_out_have_no_row_of_the_scan(root: Path) -> None:
    tables, hints, left_out, files = 0, 0, 0, 0
    for table in sampled(corpus.tables(), 70):
        try:
            snapshot = open_table(str(table.path(root))).snapshot()
            if snapshot.counts()[0].records not in range(1, LARGE):
                continue
            adds = pa.Table.from_batches(snapshot.file_actions.map_actions("add", lambda batch: batch, fields=FIELDS))
            head = snapshot.scan(limit=40).to_arrow()
        except DeltacliError:
            continue  # tables that nobody can read
        tables += 1
        for hint, where in each_hint(snapshot, head):
            result = select_files(adds, snapshot.config, hint)
            assert result.used, (table.id, hint, result.reason)
            hints, files = hints + 1, files + adds.num_rows
            if result.kept is not None:
                rest = pc.filter(adds.combine_chunks(), pc.invert(result.kept)).combine_chunks().to_batches()
                left_out += sum(batch.num_rows for batch in rest)
                assert 0 == count_rows(snapshot, rest, where), (table.id, hint)

    assert tables >= (100 if is_soaking() else 35)
    assert hints > (1_000 if is_soaking() else 350)
    assert left_out > 0.2 * files


def each_hint(snapshot: Snapshot, head: pa.Table) -> Iterator[tuple[Hints, str]]:
    """Comparisons with values of each column, in SQL and JSON, and the condition of a scan with the same meaning."""
    for field in snapshot.schema.fields:
        column = Column((field.name,), field.data_type)
        value_type = VALUE_TYPES.get(column.type_name)
        if value_type is None or column.kind is Kind.OTHER:
            continue
        values = [value for value in pc.unique(head.column(field.name)).to_pylist() if usable(value)][:2]
        for value in values:
            for sign, op in ORDERS.items():
                sql = f"{column.name} {sign} {value if column.kind is Kind.WHOLE else repr(str(value))}"
                sides = [
                    {"op": "column", "name": field.name, "valueType": value_type},
                    {"op": "literal", "value": str(value), "valueType": value_type},
                ]
                yield Hints(sql=(sql,)), sql
                yield Hints(json=json.dumps({"op": op, "children": sides})), sql


def usable(value: Any) -> bool:
    """A value that SQL dialects write alike."""
    return value is not None and not any(mark in str(value) for mark in "'\"\\\n") and str(value).isascii()


def count_rows(snapshot: Snapshot, adds: list[pa.RecordBatch], where: str) -> int:
    selection = Selection.resolve(snapshot.schema, None, where)
    files = [file for batch in adds for file in build_data_files(batch, snapshot.config, selection.needed)]
    batches = stream_rows(
        snapshot.table.engine, snapshot.table.files(), selection.make_read_spec(snapshot.config), files
    )
    return sum(batch.num_rows for batch in batches)
