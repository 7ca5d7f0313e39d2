"""The rows of the corpus: those that its sources publish with the tables, and those that other engines read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli import open_table
from deltacli.core.errors import DataUnreadable
from deltacli.table.scan import Scan
from tests.support import corpus
from tests.support.corpus import CorpusTable
from tests.support.row_counts import count_rows

LARGE = {"golden/parquet-decimal-dictionaries-v2"}
"""A million rows: compared in the long suite."""

ZONELESS = {"golden/data-reader-partition-values": 7 * 3_600_000_000}
"""Table -> microseconds between what its source expects and UTC. The partition values of `as_timestamp` have no zone,
and were written in Los Angeles: the table does not say so, and we take them as UTC.
"""


@dataclass(frozen=True)
class Expected:
    """Rows that the source of a table publishes for a version."""

    table: CorpusTable
    version: int
    place: str

    @property
    def id(self) -> str:
        return f"{self.table.id}@{self.place.rsplit('/', 2)[1] if self.place.endswith('table_content') else 'newest'}"

    def tables(self, root: Path) -> list[pa.Table]:
        """The files of the rows. INT96 is read in microseconds: nanoseconds would not reach to the year 9999."""
        paths = sorted((root / self.place).rglob("*.parquet"))
        return [pq.ParquetFile(path, coerce_int96_timestamp_unit="us").read() for path in paths]


def every_expectation() -> list[Expected]:
    """Each version of each table that has rows to compare with."""
    found = []
    for table in corpus.tables():
        expected = table.entry.get("expected")
        if expected is None:
            continue
        if "by_version" not in expected:
            found.append(Expected(table, table.entry["latest_version"], expected["dir"]))
        for name, state in expected.get("by_version", {}).items():
            found.append(Expected(table, state["version"], f"{expected['dir']}/{name}/table_content"))
    return found


EXPECTATIONS = every_expectation()


def each_expectation(*, large: bool) -> pytest.MarkDecorator:
    """Return one case per version."""
    chosen = [
        pytest.param(expected, id=expected.id) for expected in EXPECTATIONS if (expected.table.id in LARGE) == large
    ]
    return pytest.mark.parametrize("expected", chosen)


def scan_of(expected: Expected, root: Path) -> Scan:
    return open_table(str(expected.table.path(root))).snapshot(version=expected.version).scan()


def test_every_published_row_is_compared(root: Path) -> None:
    assert 58 == len({expected.table.id for expected in EXPECTATIONS})
    assert 63 == len(EXPECTATIONS)


@each_expectation(large=False)
def test_rows_are_those_that_the_source_publishes(expected: Expected, root: Path) -> None:
    """
    Types are compared by value: expected files hold instants as INT96 or with another zone, and
    all columns as nullable.
    """
    scan, published = scan_of(expected, root), expected.tables(root)
    names = scan.schema.names

    assert all(set(names) == set(table.schema.names) for table in published)
    assert count_rows(shifted(published, ZONELESS.get(expected.table.id)), names) == count_rows(scan, names)


@pytest.mark.soak
@each_expectation(large=True)
def test_a_million_rows_are_those_that_the_source_publishes(expected: Expected, root: Path) -> None:
    scan, published = scan_of(expected, root), expected.tables(root)
    names = scan.schema.names

    assert count_rows(published, names) == count_rows(scan, names)


MISSING, VECTOR_MISSING = "data.file-missing", "dv.file-missing"

REFUSED = {
    # Table -> error code of reading the newest version that can be rebuilt. All of them name the file.
    "delta-rs-err/table_a": MISSING,
    "delta-rs-err/table_c": MISSING,
    "delta-rs-err/table_g": MISSING,
    "delta-rs/checkpoint_with_partitions": MISSING,
    "delta-rs/latest_not_checkpointed": MISSING,
    "delta-rs/spark-variant-stable-feature-checkpoint": MISSING,
    "delta-rs/table-with-domain-metadata": MISSING,
    "delta-rs/with_checkpoint_no_last_checkpoint": MISSING,
    "derived/checkpoint-wrong-a": MISSING,
    "derived/only-checkpoint-a": MISSING,
    "golden/checkpoint": MISSING,
    "golden/corrupted-last-checkpoint": MISSING,
    "golden/deltalog-commit-info": MISSING,
    "golden/deltalog-state-reconstruction-from-checkpoint-missing-metadata": MISSING,
    "golden/parquet-decimal-dictionaries-v1": MISSING,
    "golden/update-deleted-directory": MISSING,
    "kernel-java/spark-variant-stable-feature-checkpoint": MISSING,
    "kernel-rs/300k-add-files-100-col-partitioned": MISSING,
    "kernel-rs/app-txn-with-last-updated": MISSING,
    "spark/partitioned-table-with-dv-large": VECTOR_MISSING,
    "spark/table-with-dv-small": VECTOR_MISSING,
    "spark/table-with-dv-special-char": VECTOR_MISSING,
}

LOG_REFUSED = {
    "delta-rs-err/table_d",
    "delta-rs-err/table_h",
    "derived/unknown-reader-feature-a",
    "golden/deltalog-invalid-protocol-version",
}
"""The log itself is refused: see `test_corpus`."""


def sound_versions(table: CorpusTable) -> list[int]:
    """The versions of a table that can be rebuilt, ascending."""
    return [] if table.id in LOG_REFUSED else [found["version"] for found in table.versions if "error" not in found]


TABLES = [table for table in corpus.tables() if sound_versions(table)]


def each_table() -> pytest.MarkDecorator:
    """Return one case per table."""
    chosen = [pytest.param(table, id=table.id) for table in TABLES]
    return pytest.mark.parametrize("table", chosen)


@each_table()
def test_the_row_count_matches_the_manifest_or_is_clearly_refused(table: CorpusTable, root: Path) -> None:
    newest = sound_versions(table)[-1]
    scan = open_table(str(table.path(root))).snapshot(version=newest).scan()

    if (code := REFUSED.get(table.id)) is not None:
        with pytest.raises(DataUnreadable) as raised:
            list(scan)
        facts = raised.value.facts
        named = facts.get("in", facts["file"])
        assert (3, code) == (raised.value.exit_code, raised.value.code)
        assert named in raised.value.message
        assert not (table.path(root) / unquote(named)).exists()
        return
    rows = sum(batch.num_rows for batch in scan)
    known = next(found for found in table.versions if found["version"] == newest).get("rows")
    assert known in (None, rows)


def shifted(tables: list[pa.Table], micros: int | None) -> Iterator[pa.Table]:
    """The tables with the instants of partition values as if their texts were UTC."""
    for table in tables:
        if micros is None:
            yield table
            continue
        place = table.schema.get_field_index("as_timestamp")
        instants = table.column(place).cast(pa.int64()).to_pylist()
        moved = [None if instant is None else instant - micros for instant in instants]
        yield table.set_column(place, "as_timestamp", pa.array(moved, pa.int64()))
