"""Reading against a model that shares no code with deltacli: rows of every version, and changes of every range."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltacli import open_table
from deltacli.table.version import Snapshot
from tests.support.effort import examples
from tests.support.small_conditions import some_condition
from tests.support.small_tables import small_tables
from tests.support.small_types import plain
from tests.support.small_writer import SmallTable, Version

Rows = Counter[tuple[object, ...]]

CHANGE_FIELDS = (
    pa.field("_change_type", pa.string(), False),
    pa.field("_commit_version", pa.int64(), False),
    pa.field("_commit_timestamp", pa.timestamp("us", "UTC"), False),
)


def counted(batches: list[pa.RecordBatch]) -> Rows:
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


def expected_changes(table: SmallTable, first: int, last: int, names: Sequence[str] | None = None) -> Rows:
    """The model's changes from one version to another, in the columns of the last one."""
    shown = table.versions[last]
    return Counter(
        (*shown.read_as(row, names), kind, version, datetime.fromtimestamp(table.commit_ms(version) / 1000, UTC))
        for version in range(first, last + 1)
        for kind, row in table.versions[version].events
    )


def check_every_range(table: SmallTable) -> None:
    """Changes of every range are the model's, and versions do not go backwards."""
    opened = open_table(str(table.root))
    for first in range(len(table.versions)):
        for last in range(first, len(table.versions)):
            changes = opened.changes(from_version=first, to_version=last)
            batches = list(changes)
            versions = [number for batch in batches for number in batch.column("_commit_version").to_pylist()]

            assert pa.schema([*table.versions[last].schema, *CHANGE_FIELDS]).equals(changes.schema)
            assert all(changes.schema.equals(batch.schema) for batch in batches)
            assert expected_changes(table, first, last) == counted(batches)
            assert sorted(versions) == versions


@given(st.data())
@examples(30)
def test_every_version_reads_as_it_was_written(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as root:
        check_every_version(data.draw(small_tables(Path(root))))


@pytest.mark.soak
@given(st.data())
@settings(examples(75), max_examples=500)
def test_every_version_reads_as_it_was_written_for_minutes(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as root:
        check_every_version(data.draw(small_tables(Path(root), most=12)))


@given(st.data())
@examples(15)
def test_changes_of_every_range_are_those_that_commits_made(data: st.DataObject) -> None:
    """
    Without change files an update is a delete and an insert, and so is a row that a rewrite carries over.
    """
    with tempfile.TemporaryDirectory() as root:
        check_every_range(data.draw(small_tables(Path(root), most=5)))


@pytest.mark.soak
@given(st.data())
@settings(examples(40), max_examples=160)
def test_changes_of_every_range_are_those_that_commits_made_for_minutes(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as root:
        check_every_range(data.draw(small_tables(Path(root), most=8)))


@given(st.data())
@examples(40)
def test_some_columns_in_any_order_are_those_of_the_whole(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as root:
        table = data.draw(small_tables(Path(root)))
        number = data.draw(st.integers(0, len(table.versions) - 1))
        version = table.versions[number]
        names = data.draw(st.permutations([column.name for column in version.columns]))
        names = names[: data.draw(st.integers(1, len(names)))]
        opened = open_table(str(table.root))

        scan = opened.snapshot(version=number).scan(columns=names)
        changes = opened.changes(from_version=number, to_version=number, columns=names)

        assert pa.schema([version.schema.field(name) for name in names]).equals(scan.schema)
        assert version.counted(names) == counted(list(scan))
        assert expected_changes(table, number, number, names) == counted(list(changes))


@given(st.data())
@examples(20)
def test_a_limit_gives_as_many_rows_of_the_whole(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as root:
        table = data.draw(small_tables(Path(root), most=3))
        whole = table.versions[-1].counted()
        limit = data.draw(st.integers(0, whole.total() + 1))

        some = counted(list(open_table(str(table.root)).snapshot().scan(limit=limit)))

        assert min(limit, whole.total()) == some.total()
        assert some <= whole


REASONS = (None, "partition", "statistics")


def check_conditions(table: SmallTable, chooser: random.Random, count: int) -> None:
    """What a condition keeps is what it is true of: no file and no row group too many is left unread."""
    opened = open_table(str(table.root))
    for _ in range(count):
        number = chooser.randrange(len(table.versions))
        version = table.versions[number]
        condition = some_condition(chooser, version)
        kept = [row for row in version.rows if condition.holds(row)]
        events = [row for kind, row in version.events if kind == "insert" and condition.holds(row)]
        inserted = f"({condition.text}) AND _change_type = 'insert'"

        scan = opened.snapshot(version=number).scan(where=condition.text)
        rows = counted(list(scan))
        files = [tuple(row.values()) for batch in scan.files() for row in batch.to_pylist()]
        changes = opened.changes(from_version=number, to_version=number, where=inserted)

        assert (condition.text, Counter(version.read_as(row) for row in kept)) == (condition.text, rows)
        assert version.files == sorted((unquote(path), size) for path, size, *_ in files)
        assert all((reason is None) == kept and reason in REASONS for *_, kept, reason in files)
        assert len(events) == sum(batch.num_rows for batch in changes)


@given(st.data(), st.integers(0, 2**32 - 1))
@examples(20)
def test_a_condition_keeps_the_rows_that_it_is_true_of(data: st.DataObject, seed: int) -> None:
    with tempfile.TemporaryDirectory() as root:
        check_conditions(data.draw(small_tables(Path(root))), random.Random(seed), 8)


@pytest.mark.soak
@given(st.data(), st.integers(0, 2**32 - 1))
@settings(examples(50), max_examples=150)
def test_a_condition_keeps_the_rows_that_it_is_true_of_for_minutes(data: st.DataObject, seed: int) -> None:
    with tempfile.TemporaryDirectory() as root:
        check_conditions(data.draw(small_tables(Path(root))), random.Random(seed), 20)
