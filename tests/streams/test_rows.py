"""The rows that a stream delivers are those of the model, whatever the table, the limits and the restarts."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli import open_table
from deltacli.core.errors import DeltacliError
from deltacli.spark.source_options import StreamOptions
from deltacli.spark.table_log import Limits, StreamOffset, TableLog, files_between, next_offset
from deltacli.table.data_files import stream_rows
from tests.property.test_scan_model import Rows, counted, expected_changes
from tests.support.effort import examples
from tests.support.small_tables import small_tables
from tests.support.small_types import plain
from tests.support.small_writer import SmallTable, Version

MAY_STOP = {"stream.changes-not-recorded", "stream.schema-changed"}


def _delivered(table: SmallTable, options: StreamOptions, limits: Limits, chooser: random.Random) -> tuple[Rows, int]:
    """The rows that a query delivers with restarts between its batches, and the version where it stops."""
    rows: Rows = Counter()
    start: StreamOffset | None = None
    opened = open_table(str(table.root))
    log = TableLog(opened, options)
    while True:
        if chooser.random() < 0.3:
            log = TableLog(opened, options)
        newest = log.newest()
        begin = log.first_offset(newest) if start is None else start
        try:
            end = next_offset(log, begin, newest, limits)
        except DeltacliError as fault:
            if fault.code not in MAY_STOP:
                raise
            return rows, begin.version
        if end == start:
            return rows, end.version
        beginning = StreamOffset(log.table, log.schema)
        files = list(files_between(log, beginning if start is None else start, end))
        rows += counted(list(stream_rows(opened.engine, opened.files(), log.wanted, files)))
        start = StreamOffset.of_json(end.as_json())


def _shown(version: Version) -> Rows:
    return Counter(plain(row) for row in version.counted().elements())


@pytest.mark.halved
@given(st.data(), st.integers(0, 2**32), st.integers(1, 3))
@examples(60)
def test_a_change_feed_has_the_changes_of_the_model(data: st.DataObject, seed: int, most_files: int) -> None:
    with tempfile.TemporaryDirectory() as root:
        table = data.draw(small_tables(Path(root)))
        first = data.draw(st.integers(0, len(table.versions) - 1))
        options = StreamOptions("t", first, read_change_feed=True)

        rows, end = _delivered(table, options, Limits(most_files), random.Random(seed))

        changes = expected_changes(table, first, len(table.versions) - 1)
        assert rows == Counter({row: count for row, count in changes.items() if row[-2] < end})  # type: ignore[operator]


@pytest.mark.halved
@given(st.data(), st.integers(0, 2**32), st.integers(1, 3))
@examples(40)
def test_a_stream_begins_with_the_rows_of_the_newest_version(data: st.DataObject, seed: int, most_files: int) -> None:
    with tempfile.TemporaryDirectory() as root:
        table = data.draw(small_tables(Path(root)))

        rows, end = _delivered(table, StreamOptions("t"), Limits(most_files), random.Random(seed))

        assert len(table.versions) == end
        assert _shown(table.versions[-1]) == rows
