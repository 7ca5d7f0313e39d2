"""Reading against a model that shares no code with deltacli: rows of every version, and changes of every range."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltacli import open_table
from deltacli.operations.version import Snapshot
from tests.support.effort import examples
from tests.support.small_tables import small_tables
from tests.support.small_types import plain
from tests.support.small_writer import SmallTable, Version


def counted(batches: list[pa.RecordBatch]) -> Counter[tuple[object, ...]]:
    """The multiset of the rows of batches."""
    return Counter(plain(tuple(row.values())) for batch in batches for row in batch.to_pylist())


def check_version(snapshot: Snapshot, version: Version) -> None:
    """The schema is exact, and the rows are the model's."""
    scan = snapshot.scan()
    batches = list(scan)

    assert version.schema.equals(scan.schema)
    assert all(version.schema.equals(batch.schema) for batch in batches)
    assert all(batch.validate(full=True) is None for batch in batches)
    assert version.counted() == counted(batches)


def check_every_version(table: SmallTable) -> None:
    opened = open_table(str(table.root))
    for number, version in enumerate(table.versions):
        check_version(opened.snapshot(version=number), version)


@given(st.data())
@examples(150)
def test_every_version_reads_as_it_was_written(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as root:
        check_every_version(data.draw(small_tables(Path(root))))


@pytest.mark.long
@given(st.data())
@settings(examples(150), max_examples=4_000)
def test_every_version_reads_as_it_was_written_for_minutes(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as root:
        check_every_version(data.draw(small_tables(Path(root), most=12)))
