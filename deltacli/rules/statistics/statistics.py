"""Rules about statistics: counts, columns and forms, and minima against maxima, in the order of their type."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import LazyText, command
from deltacli.core.typing import ArrowArray, ArrowSchema
from deltacli.core.units import plural
from deltacli.delta.schema.to_arrow import iceberg_compat, keeps_partition_columns
from deltacli.delta.schema.types import CHAR_VARCHAR_KEY
from deltacli.delta.stats.columns import Z85, Leaf, StatsBlock, dig, read_bound, read_json
from deltacli.delta.stats.schema import BOUNDS, NULL_COUNT, PER_COLUMN, ColumnPath, StatKind
from deltacli.rules.framework.base import Area, Finding, Severity
from deltacli.rules.framework.views import CheckpointView, FilesView, in_files, rows_where, stats_of

AREA = Area("statistics", spec="Per-file Statistics")

_RECOMMIT = "commit the same add again with correct statistics, or without any, and dataChange=false"
BAD_JSON = AREA.error(
    "stats.bad-json",
    "The statistics of a file are not a JSON object.",
    broken="no query can skip the file, and some engines fail to plan",
    repair=_RECOMMIT,
    example='{"add":{"path":"part-0.parquet","stats":"{\\"numRecords\\":10",…}}',
)
NUM_RECORDS_MISSING = AREA.info(
    "stats.num-records-missing",
    "The statistics of a file do not have numRecords.",
    broken="counting rows requires opening the file",
    repair=_RECOMMIT,
    example='{"add":{"path":"part-0.parquet","stats":"{\\"minValues\\":{\\"id\\":1}}",…}}',
)
NUM_RECORDS_NEGATIVE = AREA.error(
    "stats.num-records-negative",
    "The numRecords of a file is negative.",
    broken="row counts from statistics are wrong",
    repair=_RECOMMIT,
    example='{"add":{"path":"part-0.parquet","stats":"{\\"numRecords\\":-1}",…}}',
)
CARDINALITY_EXCEEDS = AREA.error(
    "stats.cardinality-exceeds",
    "A deletion vector deletes more rows than the file has records.",
    spec="Deletion Vectors",
    broken="the record count or the vector is wrong, and so is every row count",
    repair="commit the same add again with the number of rows in the file's footer",
    example='{"add":{…,"deletionVector":{…,"cardinality":11},"stats":"{\\"numRecords\\":10}"}}',
)
NULL_COUNT_RANGE = AREA.error(
    "stats.null-count-range",
    "A null count is negative, or greater than the number of records in the file.",
    broken="queries for nulls, or for other values, may skip the file",
    repair=_RECOMMIT,
    example='"stats":"{\\"numRecords\\":10,\\"nullCount\\":{\\"id\\":11}}"',
)
NULL_COUNT_WIDE = AREA.info(
    "stats.null-count-wide",
    "With wide bounds, a null count other than 0 and numRecords has no meaning.",
    broken="nothing: readers ignore the number",
    repair="no repair needed",
    example='"stats":"{\\"numRecords\\":10,\\"tightBounds\\":false,\\"nullCount\\":{\\"id\\":3}}"',
)
UNKNOWN_COLUMN = AREA.warning(
    "stats.unknown-column",
    "The statistics of a file have a column that is not in the schema.",
    broken="queries on the intended column, if there is one, cannot skip the file",
    repair=_RECOMMIT,
    example='"stats":"{\\"numRecords\\":10,\\"minValues\\":{\\"no_such_column\\":1}}"',
)
PARTITION_COLUMN = AREA.info(
    "stats.partition-column",
    "The statistics of a file have a partition column.",
    spec="Per-file Statistics; materialized partition columns (RFC)",
    broken="nothing: readers use partitionValues",
    repair=_RECOMMIT,
    example='"partitionColumns":["p"] and "stats":"{\\"numRecords\\":10,\\"minValues\\":{\\"p\\":\\"a\\"}}"',
)
TYPE_MISMATCH = AREA.warning(
    "stats.type-mismatch",
    "A value in the statistics of a file does not have the type of its column.",
    broken="queries cannot skip the file, or an engine fails to plan",
    repair=_RECOMMIT,
    example='"stats":"{\\"numRecords\\":10,\\"minValues\\":{\\"id\\":\\"one\\"}}" where id is a long',
)
INTERVAL_BOUNDS = AREA.warning(
    "stats.interval-bounds",
    "The statistics of a file have bounds for an interval column.",
    spec="Interval types (RFC)",
    broken="bounds of intervals have no defined order, so rows may be skipped",
    repair=_RECOMMIT,
    example='"minValues":{"span":"INTERVAL \'1-0\' YEAR TO MONTH"}',
)
VARIANT_ENCODING = AREA.warning(
    "stats.variant-encoding",
    "The bounds of a variant column are not z85 text.",
    spec="Statistics for Variant Columns",
    broken="queries cannot skip the file, or readers fail to decode it",
    repair=_RECOMMIT,
    example='"minValues":{"v":"{\\"a\\": 1}"} where v is a variant',
)
TIGHT_WITH_VECTOR = AREA.warning(
    "stats.tight-with-dv",
    "A file with a deletion vector claims tight bounds, although deleted rows may have made them wide.",
    spec="Per-file Statistics",
    broken="minima and maxima from statistics may be those of deleted rows",
    repair="commit the same add again with tightBounds=false in its statistics",
    example='{"add":{…,"deletionVector":{…},"stats":"{…,\\"tightBounds\\":true,\\"minValues\\":{…}}"}}',
)
NULL_COUNTS_SPELLING = AREA.info(
    "stats.nullcounts-spelling",
    "A checkpoint has the parsed null counts as `nullCounts`, but the name is `nullCount`.",
    spec="Checkpoint Schema",
    broken="readers do not find the null counts",
    repair="write a new checkpoint",
    example="add.stats_parsed.nullCounts in 00000000000000000010.checkpoint.parquet",
)


_OF_CODE = {"bad-json": BAD_JSON, "type-mismatch": TYPE_MISMATCH, "variant-encoding": VARIANT_ENCODING}


@AREA.check(FilesView, *_OF_CODE.values())
def statistics_that_do_not_parse(view: FilesView) -> Iterator[Finding]:
    """Report texts that are not a JSON object, and values of another type than their column's."""
    stats = stats_of(view)
    for fault in stats.faults:
        yield _OF_CODE[fault.code].at(view.place(fault.row), fault.text, seen=fault.seen, expected=fault.expected)
    for block, part, leaf in _leaves_of(view, BOUNDS):
        if leaf.column is None or leaf.column.kind is not StatKind.VARIANT:
            continue
        for index in rows_where(pc.invert(pc.match_substring_regex(leaf.values, Z85))):
            text = f"{part} of variant column {leaf.column.name} is not z85 text"
            seen = leaf.values[index].as_py()
            yield VARIANT_ENCODING.at(view.place(block.row(index)), text, seen=seen, expected="z85")


@AREA.check(FilesView, NUM_RECORDS_MISSING, NUM_RECORDS_NEGATIVE)
def counts_of_records(view: FilesView) -> Iterator[Finding]:
    """Report `numRecords` that is missing or negative. Other rules cover what deletion vectors and Iceberg require."""
    stats = stats_of(view)
    mistyped = {fault.row for fault in stats.faults if fault.what == "numRecords"}
    for block in stats.blocks:
        for index in rows_where(pc.less(block.records, 0)):
            seen = block.records[index].as_py()
            text = f"the statistics have numRecords {seen}"
            yield NUM_RECORDS_NEGATIVE.at(view.place(block.row(index)), text, seen=seen, expected="0 or more")
        if not block.records.null_count or iceberg_compat(view.config):
            continue
        missing = pc.is_null(block.records)
        if view.rows_with_vectors:
            missing = pc.and_(missing, pc.is_null(block.align(view.adds.column("deletionVector"))))
        rows = [row for row in map(block.row, rows_where(missing)) if row not in mistyped]
        if rows:
            severity = Severity.WARNING if "clustering" in view.config.features else None
            text = f"the statistics have no numRecords{in_files(len(rows))}"
            yield NUM_RECORDS_MISSING.at(view.place(rows[0]), text, expected="numRecords", severity=severity)


@AREA.check(FilesView, NULL_COUNT_RANGE, NULL_COUNT_WIDE)
def counts_of_nulls(view: FilesView) -> Iterator[Finding]:
    """Report null counts that are out of range, and those that wide bounds make meaningless."""
    for block, _, leaf in _leaves_of(view, (NULL_COUNT,)):
        if leaf.column is None or not pa.types.is_integer(leaf.values.type):
            continue
        low, high = pc.less(leaf.values, 0), pc.greater(leaf.values, block.records)
        for index in rows_where(pc.or_(pc.coalesce(low, False), pc.coalesce(high, False))):
            nulls, records = leaf.values[index].as_py(), block.records[index].as_py()
            if records is not None and records < 0 <= nulls:
                continue  # the record count is wrong instead
            text = f"the null count of column {leaf.column.name} is {nulls}"
            expected = "0 or more"
            if records is not None:
                text, expected = f"{text} in {plural(records, 'record')}", f"0 to {records}"
            yield NULL_COUNT_RANGE.at(view.place(block.row(index)), text, seen=nulls, expected=expected)
        yield from _worthless_counts(view, block, leaf)


def _worthless_counts(view: FilesView, block: StatsBlock, leaf: Leaf) -> Iterator[Finding]:
    if block.is_tight.null_count == len(block.is_tight) or pc.all(block.is_tight).as_py():
        return
    between = pc.and_(pc.greater(leaf.values, 0), pc.less(leaf.values, block.records))
    rows = rows_where(pc.and_(between, pc.invert(block.is_tight)))
    if rows and leaf.column is not None:
        text = f"the null count of column {leaf.column.name} has no meaning with wide bounds{in_files(len(rows))}"
        seen, records = leaf.values[rows[0]].as_py(), block.records[rows[0]].as_py()
        place = view.place(block.row(rows[0]))
        yield NULL_COUNT_WIDE.at(place, text, seen=seen, expected=f"0 or {records}")


@AREA.check(FilesView, UNKNOWN_COLUMN, PARTITION_COLUMN, INTERVAL_BOUNDS)
def columns_of_statistics(view: FilesView) -> Iterator[Finding]:
    """Report columns that should have no statistics, or none of that kind."""
    stats = stats_of(view)
    for path, unknown in stats.unknown.items():
        if stats.schema.is_logical(path) or _may_be_dropped(view, path, unknown.row):
            continue
        name = ".".join(path).encode("utf-8", "replace").decode()  # half a surrogate pair cannot be printed
        text = f"the statistics have the column {name}, which is not in the schema{in_files(unknown.files)}"
        yield UNKNOWN_COLUMN.at(view.place(unknown.row), text, seen=name, expected="a column of the schema")
    told: set[tuple[str, ColumnPath]] = set()
    for block, part, leaf in _leaves_of(view, PER_COLUMN):
        column = leaf.column
        if column is None:
            continue
        is_interval = column.kind is StatKind.INTERVAL and part in BOUNDS
        is_partition = column.is_partition and not keeps_partition_columns(view.config)
        rule = PARTITION_COLUMN if is_partition else INTERVAL_BOUNDS if is_interval else None
        if rule is None or (rule.id, leaf.path) in told:
            continue
        rows = rows_where(pc.is_valid(leaf.values))
        if rows:
            told.add((rule.id, leaf.path))
            what = "partition column" if is_partition else "interval column"
            text = f"the statistics have {part} of {what} {column.name}{in_files(len(rows))}"
            yield rule.at(view.place(block.row(rows[0])), text, seen=column.name, expected="none")


@AREA.check(FilesView, CARDINALITY_EXCEEDS, TIGHT_WITH_VECTOR)
def statistics_beside_vectors(view: FilesView) -> Iterator[Finding]:
    """Check the statistics of files with a deletion vector."""
    if not view.rows_with_vectors:
        return
    vectors = view.adds.column("deletionVector")
    cardinality = pc.struct_field(vectors, ["cardinality"])
    exceeding = pc.and_(pc.greater(cardinality, view.num_records), pc.greater_equal(view.num_records, 0))
    for row in rows_where(exceeding):
        seen, records = cardinality[row].as_py(), view.num_records[row].as_py()
        text = f"the deletion vector deletes {plural(seen, 'row')} of a file of {plural(records, 'record')}"
        yield CARDINALITY_EXCEEDS.at(view.place(row), text, seen=seen, expected=f"at most {records}")
    for block in stats_of(view).blocks:
        deleted = pc.greater(block.align(cardinality), 0)
        suspicious = pc.and_(deleted, pc.coalesce(block.is_tight, True))
        if not pc.any(suspicious).as_py():
            continue
        for index in rows_where(pc.and_(suspicious, _has_bounds(block))):
            text = "the bounds claim to be tight, but a deletion vector may have made them wide"
            seen = "true" if block.is_tight[index].as_py() else "no tightBounds"
            place = view.place(block.row(index))
            yield TIGHT_WITH_VECTOR.at(place, text, seen=seen, expected="tightBounds=false")


@AREA.check(CheckpointView, NULL_COUNTS_SPELLING)
def spelling_of_parsed_null_counts(view: CheckpointView) -> Iterator[Finding]:
    """Report the spelling of the old draft's appendix."""
    for path, schema in view.schemas.items():
        names = _names_below(schema, "add", "stats_parsed")
        if "nullCounts" in names:
            text = "the checkpoint has parsed null counts under the name nullCounts, which readers do not recognize"
            place = view.place(path, "add.stats_parsed")
            yield NULL_COUNTS_SPELLING.at(place, text, seen="nullCounts", expected="nullCount")


def _names_below(schema: ArrowSchema, *path: str) -> list[str]:
    fields = schema
    for name in path:
        named = next((field for field in fields if field.name == name), None)
        if named is None or not pa.types.is_struct(named.type):
            return []
        fields = named.type
    return [field.name for field in fields]


def _leaves_of(view: FilesView, parts: tuple[str, ...]) -> Iterator[tuple[StatsBlock, str, Leaf]]:
    for block in stats_of(view).blocks:
        for part in parts:
            for leaf in block.leaves[part]:
                yield block, part, leaf


def _has_bounds(block: StatsBlock) -> ArrowArray:
    mask: Any = pa.repeat(False, len(block.records))
    for part in BOUNDS:
        for leaf in block.leaves[part]:
            mask = pc.or_(mask, pc.is_valid(leaf.values))
    return mask


def _may_be_dropped(view: FilesView, path: ColumnPath, row: int) -> bool:
    """Return True if an unknown column may have been dropped after the file was written.

    Under column mapping, columns are dropped but files stay: a checkpoint, or an add with a new deletion vector, keeps
    the statistics of dropped columns. This includes names that writers generate for columns. Whatever adds a file again
    keeps them, too; then the log is asked which names the table has assigned, as far as it knows: that of a clone
    does not have the columns that were dropped before.
    """
    properties = view.config.properties.values()
    if path[0] in properties and path[0].startswith("_row-"):
        return True  # the columns for row ids and row commit versions
    if view.config.mapping_mode == "none":
        return False
    is_again = view.rows_with_vectors and view.adds.column("deletionVector")[row].is_valid
    if view.versions is None or is_again or path[-1].startswith("col-"):
        return True
    unknown = stats_of(view).schema.shortest_unknown(path)
    names = view.config.assigned_names
    return unknown is None or not names.is_complete or names.has(unknown)


MIN_GREATER_MAX = AREA.error(
    "stats.min-greater-max",
    "The minimum of a column is above its maximum.",
    broken="queries skip rows that are in the file, so results are silently wrong",
    repair=_RECOMMIT,
    example='"stats":"{\\"numRecords\\":10,\\"minValues\\":{\\"id\\":9},\\"maxValues\\":{\\"id\\":1}}"',
)
TEXT_TOO_LONG = AREA.warning(
    "stats.text-too-long",
    "A bound of a char(n) or varchar(n) column has more than n characters.",
    spec="Delta-Spark: char and varchar columns",
    broken="Spark fails to write such rows again, in an UPDATE or MERGE",
    repair=LazyText(
        "give the column a type for longer texts: {}", partial(command, "alter", "type", "COLUMN", "string")
    ),
    example='"maxValues":{"code":"abcdef"} where code is a varchar(5)',
)
TIMESTAMP_PRECISION = AREA.info(
    "stats.timestamp-precision",
    "The maximum of a timestamp column was truncated to milliseconds and is therefore below its minimum.",
    spec="Per-file Statistics, footnote 1",
    broken="readers that do not add a millisecond to the maximum skip the file",
    repair="no repair needed for readers that follow the protocol",
    example='"minValues":{"at":"2026-01-01T00:00:00.000700Z"},"maxValues":{"at":"2026-01-01T00:00:00.000Z"}',
)


_ORDERED = frozenset(
    {
        StatKind.WHOLE,
        StatKind.FLOAT,
        StatKind.DECIMAL,
        StatKind.DATE,
        StatKind.TIMESTAMP,
        StatKind.TEXT,
        StatKind.BOOLEAN,
    }
)
_CUT_MICROSECONDS = 1_000
"Timestamps are truncated to milliseconds, including the maximum. The true maximum is less than this above it."


@AREA.check(FilesView, MIN_GREATER_MAX, TIMESTAMP_PRECISION)
def minima_above_maxima(view: FilesView) -> Iterator[Finding]:
    """Report a minimum above the maximum. They are equal in a column with one value."""
    for block in stats_of(view).blocks:
        maxima = {leaf.path: leaf for leaf in block.leaves["maxValues"]}
        for low in block.leaves["minValues"]:
            high = maxima.get(low.path)
            if high is None or low.column is None or low.column.kind not in _ORDERED:
                continue
            if low.values.type.equals(high.values.type):
                yield from _compare(view, block, low, high)


def _compare(view: FilesView, block: StatsBlock, low: Leaf, high: Leaf) -> Iterator[Finding]:
    above = pc.greater(low.values, high.values)
    if low.column is None or not pc.any(above).as_py():
        return
    name = low.column.name
    for index in rows_where(above):
        row = block.row(index)
        value = read_json(view.adds.column("stats")[row].as_py())
        minimum, maximum = (dig(value.get(part), low.path) for part in BOUNDS)
        if low.column.kind is StatKind.FLOAT and read_bound(low.column, minimum) <= read_bound(low.column, maximum):
            continue  # the greatest floats replace those without a number
        place = view.place(row)
        if low.column.kind is StatKind.TIMESTAMP and _was_cut(low, high, index):
            text = f"the maximum of column {name} was truncated to milliseconds and is below its minimum"
            yield TIMESTAMP_PRECISION.at(place, text, seen=maximum, expected=f"{minimum} or later")
        else:
            text = f"the minimum of column {name} is above its maximum"
            seen = "true to false" if low.column.kind is StatKind.BOOLEAN else f"{minimum} to {maximum}"
            yield MIN_GREATER_MAX.at(place, text, seen=seen, expected="minimum to maximum")


_LENGTH = re.compile(r"\s*(?:var)?char\s*\(\s*(\d+)\s*\)\s*")
_CUT_CHARACTERS = 32
"Longer texts are cut to so many characters, and a maximum gets one more."


@AREA.check(FilesView, TEXT_TOO_LONG)
def texts_beyond_their_length(view: FilesView) -> Iterator[Finding]:
    """Report bounds that are longer than char(n) and varchar(n) allow. One that was cut proves it of its value, too."""
    columns = view.config.columns.items()
    declared = {name: str(one.metadata[CHAR_VARCHAR_KEY]) for name, one in columns if CHAR_VARCHAR_KEY in one.metadata}
    limits = {name: (int(match[1]), text) for name, text in declared.items() if (match := _LENGTH.fullmatch(text))}
    for block, part, leaf in _leaves_of(view, BOUNDS) if limits else ():
        if leaf.column is None or leaf.column.kind is not StatKind.TEXT or leaf.path[0] not in limits:
            continue
        most, text = limits[leaf.path[0]]
        longest = most + (part == BOUNDS[1] and most >= _CUT_CHARACTERS)
        is_value = pc.coalesce(block.is_tight, True)  # else it may be that of a deleted row
        for index in rows_where(pc.and_(pc.greater(pc.utf8_length(leaf.values), longest), is_value)):
            found = leaf.values[index].as_py()
            said = f"{part} of column {leaf.column.name}, a {text.strip()}, has {plural(len(found), 'character')}"
            yield TEXT_TOO_LONG.at(view.place(block.row(index)), said, seen=found, expected=f"at most {most}")


def _was_cut(low: Leaf, high: Leaf, index: int) -> bool:
    """Return True if a maximum without digits below milliseconds may be below the minimum because it was truncated."""
    minimum, maximum = low.values[index].value, high.values[index].value
    return bool(maximum % _CUT_MICROSECONDS == 0 and minimum - maximum < _CUT_MICROSECONDS)
