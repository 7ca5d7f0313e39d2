"""How many rows a version has, and where the log cannot be trusted to say so.

The log counts a file's rows as numRecords less the cardinality of its vector. This is wrong where numRecords leaves
deleted rows out already, which tight bounds beside a vector suggest, and where two adds of one path disagree; and where
a vector deletes rows that its file does not have, which readers ignore. Spec: Per-file Statistics; Deletion Vectors.
"""

from __future__ import annotations

from functools import partial, reduce
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.core.typing import ArrowArray, RecordBatch
from deltacli.delta.log.file_actions import FileCounts, key_column, num_records_column, tight_column

if TYPE_CHECKING:
    from deltacli.table.version import Snapshot
    from deltacli.work.rows.data_files import Descriptor
    from deltacli.work.rows.table_files import TableFiles

TIGHT, EXCEEDS, DISAGREE = "stats.tight-with-dv", "stats.cardinality-exceeds", "stats.records-disagree"


def doubts_of_rows(snapshot: Snapshot, counts: FileCounts) -> tuple[str, ...]:
    """Return the rules by which the log's row counts of a version cannot be trusted."""
    if not snapshot.has_doubtful_records and not counts.unjudged:
        return tuple(rule for rule, files in ((EXCEEDS, counts.exceeding), (TIGHT, counts.tight)) if files)
    judge = partial(_rules_of, snapshot.contradicted)
    found = set(chain.from_iterable(snapshot.file_actions.map_actions("add", judge, fields=_FIELDS)))
    return tuple(sorted(found))


def count_rows(snapshot: Snapshot) -> tuple[int | None, bool]:
    """Return how many rows a version has, None where the log lacks the number of a file, and whether the log alone says
    so. Vectors are opened, and footers where the log cannot be trusted. Raises DataUnreadable.
    """
    counts = snapshot.counts()[0]
    if counts.rows is None or not (counts.deletion_vectors or snapshot.has_doubtful_records):
        return counts.rows, True
    table, rows = snapshot.table, 0
    files: list[_Counted] = []
    read = partial(_counted, snapshot.contradicted)
    for known, found in snapshot.file_actions.map_actions("add", read, fields=_FIELDS):
        rows += known
        files += found
    with table.progress.step("reading row counts", unit="files", total=len(files)) as step:
        for counted in table.engine.run(partial(_rows_left, table.files()), files):
            rows += counted
            step.advance(1)
    return rows, False


_FIELDS = ("path", "size", "stats", "deletionVector")


class _Counted(NamedTuple):
    """A file whose rows are counted from its vector, and from its footer where `records` is None."""

    path: str
    size_bytes: int
    records: int | None
    vector: Descriptor | None


def _masks(contradicted: frozenset[bytes], adds: RecordBatch) -> tuple[ArrowArray, dict[str, ArrowArray]]:
    """Return which adds have a vector, and which the log may count wrongly by which rule."""
    import pyarrow as pa

    vectors, stats = adds.column("deletionVector"), adds.column("stats")
    has_vector = pc.is_valid(vectors)
    cardinality = pc.cast(pc.struct_field(vectors, ["cardinality"]), pa.int64())
    exceeds = pc.greater(cardinality, num_records_column(stats))
    paths = key_column(adds.column("path"), pa.repeat(pa.scalar(""), adds.num_rows))
    disagrees = pc.is_in(paths, value_set=pa.array(sorted(contradicted), pa.binary()))
    return has_vector, {
        TIGHT: tight_column(stats, cardinality),
        EXCEEDS: pc.fill_null(exceeds, pa.scalar(False)),
        DISAGREE: disagrees,
    }


def doubtful_counts(snapshot: Snapshot, adds: RecordBatch) -> ArrowArray:
    """Return which live files the log may count wrongly: bool array out."""
    return reduce(pc.or_, _masks(snapshot.contradicted, adds)[1].values())


def _rules_of(contradicted: frozenset[bytes], adds: RecordBatch) -> list[str]:
    return [rule for rule, mask in _masks(contradicted, adds)[1].items() if pc.any(mask).as_py()]


def _counted(contradicted: frozenset[bytes], adds: RecordBatch) -> tuple[int, list[_Counted]]:
    """Return the rows of the adds that the log counts, and the other adds."""
    has_vector, doubts = _masks(contradicted, adds)
    records = num_records_column(adds.column("stats"))
    doubtful = reduce(pc.or_, doubts.values())
    special = pc.or_(has_vector, doubtful)
    known = pc.sum(pc.filter(records, pc.invert(special))).as_py() or 0
    found = [
        _Counted(
            adds.column("path")[row].as_py(),
            adds.column("size")[row].as_py(),
            None if doubtful[row].as_py() else records[row].as_py(),
            adds.column("deletionVector")[row].as_py(),
        )
        for row in pc.indices_nonzero(special).to_pylist()
    ]
    return known, found


def _rows_left(files: TableFiles, file: _Counted) -> int:
    from deltacli.work.rows.data_files import DataFile, open_data_file, read_vector

    rows = file.records
    if rows is None:
        with open_data_file(files, DataFile(file.path, file.size_bytes)) as opened:
            rows = opened.parquet.metadata.num_rows
    if file.vector is None:
        return rows
    return rows - read_vector(files, file.vector).count_below(rows)
