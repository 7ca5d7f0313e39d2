"""Files that a predicate need not read: what its conditions can be by partition values and statistics.

For each file there are three conservative answers: may it be true for some row, may it be false, may it be null.
Without information all three are yes. A file is skipped only if the condition cannot be true.

Only those columns are read from the texts. Bounds are widened for every known writer: times
may be truncated to milliseconds, doubles may have been floats when the text was written, and long decimals may have
been converted through a double. Bounds of dates and timestamps before 1900-01-02 are not used, because they may be in
another calendar. Bounds that cannot be read or are contradictory are treated as unknown.

A file is kept unless the predicate cannot be true for any row of it.

Spec: Per-file Statistics; Partition Value Serialization.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cache, reduce
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.texts import is_utf8_encodable
from deltacli.core.typing import ArrowArray, ArrowSchema
from deltacli.delta.encoding.ndjson import read_lines
from deltacli.delta.encoding.value_text import MICROSECONDS_A_DAY, parse_date, parse_moment
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.partitions.values import parse_partition_values
from deltacli.delta.predicate import conditions
from deltacli.delta.predicate.columns import Column, ColumnPath
from deltacli.delta.predicate.literals import Limit, Order, ends_of, names_a_place
from deltacli.delta.predicate.parse import Predicate
from deltacli.delta.schema.types import Kind, StructType
from deltacli.delta.stats.columns import (
    CUT_MICROSECONDS,
    EXACT_DIGITS,
    INFINITE,
    dig,
    exact_decimal,
    fits_decimal,
    is_long,
    read_in_pieces,
    read_json,
    safe_lines,
    with_numbers,
)
from deltacli.delta.stats.schema import BOUNDS, NULL_COUNT, PER_COLUMN

# -- the possible results of a condition for the rows of many files at once --------------------------------------------

TIE_BREAKERS = "\x7f\u07ff\ufffd\uffff\U0010ffff"
"Characters that writers append to a truncated string so that it is above the original."
_LONGEST_PREFIX = 1000
"Upper bounds of more characters than this are not examined."


class Bounds(NamedTuple):
    """What is known about a column in each file.

    `low`, `high`: null if unknown. Neither covers NaN. `high` of strings may be truncated, with or without a
    tie-breaker.
    """

    low: ArrowArray
    high: Any
    may_be_null: Any
    has_values: Any
    """False where every row is null."""


class Exact(NamedTuple):
    """The one value that a column has in all rows of each file. If `is_known` is false it may be anything."""

    values: ArrowArray
    is_known: Any


Known: TypeAlias = Bounds | Exact | None
"""None: nothing."""
Source: TypeAlias = Callable[[Column], Known]


class Possible(NamedTuple):
    """Whether a condition may be true, false and null in each file: boolean arrays without nulls."""

    true: ArrowArray
    false: Any
    null: Any


def possible(condition: conditions.Condition, source: Source, count: int) -> Possible:
    """Return the possible results of a condition in each of `count` files."""
    match condition:
        case conditions.Not(part):
            mask = possible(part, source, count)
            return Possible(mask.false, mask.true, mask.null)
        case conditions.And(parts):
            return reduce(_both, (possible(part, source, count) for part in parts))
        case conditions.Or(parts):
            return reduce(_either, (possible(part, source, count) for part in parts))
        case conditions.Truth(part, wanted):
            return _truth(possible(part, source, count), wanted, count)
        case conditions.CompareConditions(left, order, right):
            return _compared(possible(left, source, count), order, possible(right, source, count))
    return _possible_of_leaf(condition, source, count)


def _both(one: Possible, other: Possible) -> Possible:
    return Possible(pc.and_(one.true, other.true), pc.or_(one.false, other.false), pc.or_(one.null, other.null))


def _either(one: Possible, other: Possible) -> Possible:
    return Possible(pc.or_(one.true, other.true), pc.and_(one.false, other.false), pc.or_(one.null, other.null))


def _truth(part: Possible, wanted: bool | None, count: int) -> Possible:
    never = constant(False, count)
    if wanted is None:
        return Possible(part.null, pc.or_(part.true, part.false), never)
    if wanted:
        return Possible(part.true, pc.or_(part.false, part.null), never)
    return Possible(part.false, pc.or_(part.true, part.null), never)


def _compared(left: Possible, order: Order, right: Possible) -> Possible:
    """Compare two conditions as values, for every possible pair."""
    equal = pc.or_(pc.and_(left.true, right.true), pc.and_(left.false, right.false))
    less, greater = pc.and_(left.false, right.true), pc.and_(left.true, right.false)
    null = pc.or_(left.null, right.null)
    match order:
        case Order.LESS:
            return Possible(less, pc.or_(equal, greater), null)
        case Order.LESS_EQUAL:
            return Possible(pc.or_(less, equal), greater, null)
    return Possible(equal, pc.or_(less, greater), null)


# -- single conditions ------------------------------------------------------------------------------------------------


def _possible_of_leaf(condition: conditions.Leaf, source: Source, count: int) -> Possible:
    known = {column: source(column) for column in conditions.columns_of(condition)}
    exact = {column: value for column, value in known.items() if isinstance(value, Exact)}
    if len(exact) == len(known):
        return _exact(condition, exact, count)
    bounds = next(iter(known.values())) if len(known) == 1 else None
    if not isinstance(bounds, Bounds):
        return Possible(*[constant(True, count)] * 3)
    return _bounded(condition, bounds, count)


def _exact(condition: conditions.Leaf, known: dict[Column, Exact], count: int) -> Possible:
    mask = conditions.evaluate_leaf(condition, lambda column: known[column].values, count)
    unknown = constant(False, count)
    for column in known.values():
        unknown = pc.or_(unknown, pc.invert(column.is_known))
    return Possible(
        pc.or_(pc.fill_null(mask, False), unknown),
        pc.or_(pc.fill_null(pc.invert(mask), False), unknown),
        pc.or_(pc.is_null(mask), unknown),
    )


def _bounded(condition: conditions.Leaf, bounds: Bounds, count: int) -> Possible:
    null, has_values = bounds.may_be_null, bounds.has_values
    match condition:
        case conditions.Flag():
            return Possible(has_values, has_values, null)
        case conditions.IsNull():
            return Possible(null, has_values, constant(False, count))
        case conditions.Compare(column, order, limit):
            true, false = _ordered(column, order, limit, bounds)
            return Possible(pc.and_(has_values, true), pc.and_(has_values, false), null)
        case conditions.Contained(column, limits):
            # Between the least and the greatest of them: a thousand limits cost as much as two.
            least, greatest = ends_of(limits)
            true = pc.and_(
                _known_or(greatest.compare(Order.LESS_EQUAL, bounds.low)),
                _reaches(column, least, bounds.high, or_equal=True),
            )
            return Possible(pc.and_(has_values, true), has_values, null)
        case conditions.Like(_, pattern):
            true = _may_begin_with(pattern.prefix, bounds) if pattern.prefix else has_values
            return Possible(pc.and_(has_values, true), has_values, null)
    return Possible(*[constant(True, count)] * 3)


def _ordered(column: Column, order: Order, limit: Limit, bounds: Bounds) -> tuple[Any, Any]:
    """Return whether a comparison may be true, and may be false, for values between the bounds and for NaN."""
    match order:
        case Order.EQUAL:
            true = pc.and_(
                _known_or(limit.compare(Order.LESS_EQUAL, bounds.low)),
                _reaches(column, limit, bounds.high, or_equal=True),
            )
            false = constant(True, len(true))  # a truncated or widened bound may look like the only value
        case _:
            true = _known_or(limit.compare(order, bounds.low))
            false = _reaches(column, limit, bounds.high, or_equal=order is Order.LESS)
    if column.kind is Kind.FLOAT:
        for_nan = constant(limit.holds_for_nan(order), len(true))
        true, false = pc.or_(true, for_nan), pc.or_(false, pc.invert(for_nan))
    return true, false


def _reaches(column: Column, limit: Limit, high: Any, *, or_equal: bool) -> Any:
    """Return whether values below an upper bound may be above a limit, or equal to it."""
    mask = _known_or(pc.invert(limit.compare(Order.LESS if or_equal else Order.LESS_EQUAL, high)))
    return pc.or_(mask, _is_cut_of(limit.value, high)) if column.kind is Kind.TEXT else mask


def _is_cut_of(text: str, high: Any) -> Any:
    """Return which upper bounds, without tie-breakers, may be the beginning of a text, because they were truncated."""
    bare = pc.utf8_rtrim(high, characters=TIE_BREAKERS)
    beginnings = pa.array([text[:length] for length in range(min(len(text), _LONGEST_PREFIX) + 1)], pa.string())
    mask = pc.is_in(bare, value_set=beginnings)
    if len(text) > _LONGEST_PREFIX:
        mask = pc.or_(mask, _known_or(pc.greater(pc.binary_length(bare), _LONGEST_PREFIX)))
    return pc.fill_null(mask, False)


def _may_begin_with(prefix: str, bounds: Bounds) -> Any:
    """Return whether strings between the bounds may begin with a text."""
    starts = _known_or(pc.less_equal(pc.utf8_slice_codeunits(bounds.low, 0, len(prefix)), prefix))
    reaches = _known_or(pc.invert(pc.less(bounds.high, prefix)))
    return pc.and_(starts, pc.or_(reaches, _is_cut_of(prefix, bounds.high)))


def _known_or(mask: Any) -> Any:
    """Return an answer, with yes for missing values."""
    return pc.fill_null(mask, True)


def constant(value: bool, count: int) -> ArrowArray:
    """Return the same answer for every file."""
    return pa.repeat(pa.scalar(value), count)


# -- conservative bounds of the columns of a predicate from the statistics of files ------------------------------------

_BLOCK = 65_536
_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1
_FLOAT_ULP, _FLOAT_LEAST = 2.0**-22, 2.0**-148
"""Two units in the last place of a float, relative to its value, and the two smallest floats."""
_FIRST_DAY = -25_566
"""1900-01-02. Writers with the hybrid calendar (Databricks 7.3) count days before 1582-10-15 by the Julian calendar,
and times before 1900 in the local mean time of their zone, which is less than a day from UTC. The log does not name the
calendar.
"""
_FIRST_MICROSECOND = _FIRST_DAY * MICROSECONDS_A_DAY
_FIRST_OF_ONE_CALENDAR = {Kind.DATE: _FIRST_DAY, Kind.TIMESTAMP: _FIRST_MICROSECOND, Kind.NTZ: _FIRST_MICROSECOND}
_WITH_BOUNDS = frozenset({Kind.WHOLE, Kind.FLOAT, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.NTZ, Kind.TEXT})
_ZONED = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?Z$"
_ZONELESS = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?$"
_DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"


class _Wanted(NamedTuple):
    column: Column
    path: ColumnPath
    """Physical names."""

    @property
    def has_bounds(self) -> bool:
        return self.column.kind in _WITH_BOUNDS


def read_bounds(texts: ArrowArray, columns: Mapping[Column, ColumnPath]) -> dict[Column, Bounds]:
    """Return what the statistics of files record about columns, given with their physical paths."""
    wanted = [_Wanted(column, path) for column, path in columns.items()]
    fields = _fields(wanted)
    # Only objects are read; anything else is unknown.
    is_object = pc.fill_null(pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}")), False)
    texts = pc.if_else(is_object, texts, pa.scalar("{}"))
    blocks = [
        table for start in range(0, len(texts), _BLOCK) for table in _read(texts.slice(start, _BLOCK), fields, wanted)
    ]
    table = pa.concat_tables(blocks).combine_chunks() if blocks else fields.empty_table()
    return {one.column: _bounds(one, table) for one in wanted}


# -- reading ----------------------------------------------------------------------------------------------------------


def _fields(wanted: Sequence[_Wanted]) -> ArrowSchema:
    bounds = _nested([(one.path, _bound_type(one.column)) for one in wanted if one.has_bounds])
    counts = _nested([(one.path, pa.int64()) for one in wanted])
    return pa.schema([("numRecords", pa.int64()), *((part, bounds) for part in BOUNDS), (NULL_COUNT, counts)])


def _nested(leaves: Sequence[tuple[ColumnPath, Any]]) -> Any:
    below: dict[str, list[tuple[ColumnPath, Any]]] = {}
    for path, kind in leaves:
        below.setdefault(path[0], []).append((path[1:], kind))
    return pa.struct([(name, rest[0][1] if not rest[0][0] else _nested(rest)) for name, rest in below.items()])


def _bound_type(column: Column) -> Any:
    """Return the type in which a bound is read: times are kept as texts, whose meaning depends on their zone."""
    match column.kind:
        case Kind.WHOLE:
            return pa.int64()
        case Kind.FLOAT:
            return pa.float64()
        case Kind.DECIMAL:
            return pa.decimal256(76, column.scale)
    return pa.string()


def _read(texts: Any, fields: Any, wanted: Sequence[_Wanted]) -> list[Any]:
    """Return the statistics of a block of texts, as tables in the order of the texts."""

    def read(piece: Any) -> Any:
        lines = safe_lines(piece)
        parsed = None if lines is None else read_lines(with_numbers(lines, fields), fields, infer=False)
        return parsed if parsed is not None and parsed.num_rows == len(piece) else None

    return [
        pa.Table.from_pylist([_plain(text, wanted) for text in piece.to_pylist()], schema=fields)
        if parsed is None
        else parsed
        for _, piece, parsed in read_in_pieces(texts, read)
    ]


def _plain(text: str, wanted: Sequence[_Wanted]) -> dict[str, Any]:
    """Return one text, value by value, without values of the wrong type."""
    try:
        value = read_json(text)
    except ValueError:
        return {}
    plain: dict[str, Any] = {}
    records = dig(value, ["numRecords"])
    plain["numRecords"] = records if is_long(records) else None
    for part in PER_COLUMN:
        for one in wanted:
            given = dig(value, (part, *one.path))
            if part == NULL_COUNT:
                given = given if is_long(given) else None
            elif one.has_bounds:
                given = _plain_bound(one.column, given)
            else:
                continue
            below = plain.setdefault(part, {})
            for name in one.path[:-1]:
                below = below.setdefault(name, {})
            below[one.path[-1]] = given
    return plain


def _plain_bound(column: Column, given: Any) -> Any:
    match column.kind:
        case Kind.WHOLE:
            return given if is_long(given) else None
        case Kind.FLOAT:
            number = _plain_decimal(given) if not isinstance(given, str) else None
            return float(number) if number is not None and number.copy_abs() < Decimal(INFINITE) else None
        case Kind.DECIMAL:
            number = _plain_decimal(given)
            return number if number is not None and fits_decimal(number, 38, column.scale) else None
    return given if isinstance(given, str) and is_utf8_encodable(given) else None


def _plain_decimal(given: Any) -> Decimal | None:
    """A number as JSON has it, or as text."""
    if isinstance(given, str):
        return exact_decimal(given)
    return Decimal(given) if isinstance(given, int | Decimal) and not isinstance(given, bool) else None


# -- bounds -----------------------------------------------------------------------------------------------------------


def _bounds(one: _Wanted, table: Any) -> Bounds:
    records, nulls = _leaf(table, ("numRecords",)), _leaf(table, (NULL_COUNT, *one.path))
    # If one number is wrong, the others are not trusted either.
    is_wrong = pc.or_(_known_and(pc.less(nulls, 0)), _known_and(pc.less(records, nulls)))
    if not one.has_bounds:
        nulls, unknown = _unless(is_wrong, nulls), pa.nulls(table.num_rows)
        return _with_nulls(one.column, unknown, unknown, records, nulls, constant(False, table.num_rows))
    low, high = (_typed(one.column, _leaf(table, (part, *one.path))) for part in BOUNDS)
    is_wrong = pc.or_(is_wrong, _known_and(pc.less(high, low)))
    low, high, nulls = (_unless(is_wrong, values) for values in (low, high, nulls))
    has_bound = pc.or_(pc.is_valid(low), pc.is_valid(high))
    low, high = (_of_one_calendar(one.column, values) for values in (low, high))
    return _with_nulls(one.column, *_widened(one.column, low, high), records, nulls, has_bound)


def _with_nulls(column: Column, low: Any, high: Any, records: Any, nulls: Any, has_bound: Any) -> Bounds:
    """Return bounds with the result of the null count: only whether all rows are null, or none.

    Writers differ in whether a field of a null struct counts as null, so for fields only `all` is trusted.
    """
    is_all = _known_and(pc.and_(pc.equal(nulls, records), pc.less(0, nulls)))
    has_values = pc.or_(pc.invert(is_all), has_bound)
    may_be_null = pc.invert(_known_and(pc.equal(nulls, 0)))
    return Bounds(low, high, constant(True, len(nulls)) if column.is_nested else may_be_null, has_values)


def _leaf(table: Any, path: ColumnPath) -> Any:
    column = table.column(path[0])
    values = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    for name in path[1:]:
        values = pc.struct_field(values, [values.type.get_field_index(name)])
    return values


def _typed(column: Column, values: Any) -> Any:
    """Return bounds in comparable form, null if they are not trusted."""
    match column.kind:
        case Kind.FLOAT:
            # NaN and the infinities are read as the largest doubles, and are not bounds.
            return pc.if_else(pc.less(pc.abs(values), INFINITE), values, pa.scalar(None, pa.float64()))
        case Kind.DECIMAL:
            # Of a text with an exponent Arrow's reader (26.0.1) makes any number; what fits no decimal is none.
            limit = pa.scalar(Decimal((0, (1,), 38 - column.scale)), values.type)
            fitting = pc.if_else(pc.less(pc.abs(values), limit), values, pa.scalar(None, values.type))
            return pc.cast(fitting, pa.decimal256(39, column.scale))
        case Kind.DATE:
            return _times(values, _DAY, pa.date32(), parse_date)
        case Kind.TIMESTAMP:
            return _times(values, _ZONED, pa.timestamp("us", tz="UTC"), _instant_of)
        case Kind.NTZ:
            return _times(values, _ZONELESS, pa.timestamp("us"), _local_time_of)
    return values


def _times(texts: Any, plain: str, kind: Any, parse: Any) -> Any:
    """Return times as whole numbers: all at once if all are plain, else each distinct text separately."""
    if pc.all(pc.fill_null(pc.match_substring_regex(texts, plain), True)).as_py():
        try:
            return _numbers(pc.cast(texts, kind))
        except MemoryError:
            raise
        except pa.ArrowException:
            pass  # a day that its month does not have
    encoded = pc.dictionary_encode(texts)
    values = [None if text is None else parse(text) for text in encoded.dictionary.to_pylist()]
    return pc.take(pa.array(values, pa.int64()), encoded.indices)


def _numbers(values: Any) -> Any:
    return pc.cast(pc.cast(values, pa.int32()) if pa.types.is_date32(values.type) else values, pa.int64())


def _instant_of(text: str) -> int | None:
    """Return a time with a zone. Without one the zone of its writer is unknown."""
    moment = parse_moment(text)
    if moment is None or not moment.has_zone or names_a_place(text):
        return None
    return moment.microseconds if _LEAST <= moment.microseconds <= _GREATEST else None


def _local_time_of(text: str) -> int | None:
    moment = parse_moment(text)
    if moment is None or (moment.has_zone and not text.endswith("Z")):
        return None
    return moment.microseconds if _LEAST <= moment.microseconds <= _GREATEST else None


def _of_one_calendar(column: Column, values: Any) -> Any:
    """Return bounds of dates and timestamps, null before 1900-01-02, where writers may count days differently."""
    first = _FIRST_OF_ONE_CALENDAR.get(column.kind)
    if first is None:
        return values
    return pc.if_else(pc.less(values, first), pa.scalar(None, values.type), values)


def _widened(column: Column, low: Any, high: Any) -> tuple[Any, Any]:
    """Return bounds that hold whatever their writer truncated or rounded."""
    match column.kind:
        case Kind.TIMESTAMP | Kind.NTZ:
            nothing, cut = pa.scalar(None, pa.int64()), CUT_MICROSECONDS
            low = pc.if_else(pc.less(low, _LEAST + cut), nothing, low)
            high = pc.if_else(pc.greater(high, _GREATEST - cut), nothing, high)
            return pc.subtract(low, cut), pc.add(high, cut)
        case Kind.FLOAT:
            low_slack, high_slack = (
                pc.add(pc.multiply(pc.abs(bound), _FLOAT_ULP), _FLOAT_LEAST) for bound in (low, high)
            )
            return pc.subtract(low, low_slack), pc.add(high, high_slack)
        case Kind.DECIMAL:
            return _wider_decimals(low, column.scale, pc.subtract), _wider_decimals(high, column.scale, pc.add)
    return low, high


def _wider_decimals(bound: Any, scale: int, apart: Any) -> Any:
    """Decimals of more than 15 digits, moved by one part in 10^15."""
    part = pa.scalar(Decimal((0, (1,), -EXACT_DIGITS)), pa.decimal256(16, EXACT_DIGITS))
    slack = pc.multiply(pc.abs(bound), part)
    limit = pa.scalar(Decimal((0, (1,), EXACT_DIGITS - scale)), bound.type)
    is_exact = pc.less(pc.abs(bound), limit)
    nothing = pa.scalar(Decimal(0), slack.type)
    return apart(bound, pc.if_else(is_exact, nothing, slack))


def _unless(is_wrong: Any, values: Any) -> Any:
    return pc.if_else(is_wrong, pa.scalar(None, values.type), values)


def _known_and(mask: Any) -> Any:
    """Return an answer, with no for missing values."""
    return pc.fill_null(mask, False)


# -- files that a predicate need not read ------------------------------------------------------------------------------

_NAMED_ZONE = "[A-Za-z]/"


class Pruned(NamedTuple):
    """Which files have to be read, and which others were excluded by their partition values alone; never null."""

    kept: ArrowArray
    by_partition: Any


def prune_files(adds: pa.RecordBatch, predicate: Predicate, config: TableConfiguration) -> Pruned:
    """Return which of the files in whole add actions may have rows that match a predicate."""
    count = adds.num_rows
    partitions, others = _columns_by_source(predicate, config)
    values = partition_source(adds, config, partitions)
    kept = possible(predicate.condition, lambda column: values(column) if column in partitions else None, count).true
    by_partition = pc.invert(kept)
    if others and pc.any(kept).as_py():
        rows = pc.indices_nonzero(kept)
        rest = adds if len(rows) == count else pc.take(adds.select(["partitionValues", "stats"]), rows)
        kept = _possible_by_statistics(rest, predicate, config, partitions, others).true
        kept = _spread(kept, rows, count)
    return Pruned(kept, by_partition)


def find_certain_matches(adds: pa.RecordBatch, predicate: Predicate, config: TableConfiguration) -> ArrowArray:
    """Return for which of the files a predicate is true in every row, by partition values and statistics."""
    found = _possible_by_statistics(adds, predicate, config, *_columns_by_source(predicate, config))
    return pc.invert(pc.or_(found.false, found.null))


def _columns_by_source(
    predicate: Predicate, config: TableConfiguration
) -> tuple[dict[Column, str], dict[Column, ColumnPath]]:
    """Return the partition columns of a predicate, and those that may have statistics, by their physical names. Of a
    column that the table does not have, such as row ids, nothing is known.
    """
    names = {field.name for field in config.schema.fields} if config.schema else set()
    known = (column for column in dict.fromkeys(conditions.columns_of(predicate.condition)) if column.path[0] in names)
    paths = {column: path_in_files(config, column.path) for column in known}
    partitions = {column: path[0] for column, path in paths.items() if is_partition(config, path)}
    others = {
        column: path for column, path in paths.items() if column not in partitions and column.kind is not Kind.OTHER
    }
    return partitions, others


def _possible_by_statistics(
    adds: pa.RecordBatch,
    predicate: Predicate,
    config: TableConfiguration,
    partitions: dict[Column, str],
    others: dict[Column, ColumnPath],
) -> Possible:
    bounds = read_bounds(adds.column("stats"), others) if others else {}
    values = partition_source(adds, config, partitions)
    return possible(
        predicate.condition,
        lambda column: values(column) if column in partitions else bounds.get(column),
        adds.num_rows,
    )


def _spread(kept: Any, rows: Any, count: int) -> Any:
    """Return the answers for some rows among all; the others are not kept."""
    if len(rows) == count:
        return kept
    return pc.is_in(pa.array(range(count), pa.uint64()), value_set=pc.cast(pc.filter(rows, kept), pa.uint64()))


def path_in_files(config: TableConfiguration, path: ColumnPath) -> ColumnPath:
    """Return the names of a column in files and statistics."""
    names, fields = [], config.schema.fields if config.schema else ()
    for name in path:
        field = next(field for field in fields if field.name == name)
        names.append(config.physical_name(field))
        fields = field.data_type.fields if isinstance(field.data_type, StructType) else ()
    return tuple(names)


def is_partition(config: TableConfiguration, path: ColumnPath) -> bool:
    """Return True for the physical path of a partition column."""
    return len(path) == 1 and path[0] in config.partition_columns


# -- partition values -------------------------------------------------------------------------------------------------


def partition_source(
    adds: pa.RecordBatch, config: TableConfiguration, partitions: dict[Column, str]
) -> Callable[[Column], Known]:
    """Return a function that returns the partition values of a column, parsed at the first request."""

    @cache
    def values(column: Column) -> Known:
        return _partition_values(adds.column("partitionValues"), config, column, partitions[column])

    return values


def _partition_values(maps: Any, config: TableConfiguration, column: Column, name: str) -> Known:
    """One partition column: its values if the texts are unambiguous."""
    kind = column.arrow_type
    if kind is None:
        return None
    texts = pc.map_lookup(maps, query_key=pa.scalar(name), occurrence="first")
    parsed = parse_partition_values(maps, config, pa.struct([(name, kind)]))
    values = pc.struct_field(parsed, [0])
    is_null = pc.and_(pc.is_null(texts), _names_key(maps, name, texts))
    if column.kind not in (Kind.TEXT, Kind.BINARY):
        # Null for every engine, except that engines differ for strings.
        is_null = pc.or_(is_null, pc.fill_null(pc.equal(texts, ""), False))
    is_known = pc.or_(pc.is_valid(values), is_null)
    if column.kind is Kind.TIMESTAMP:
        is_known = pc.and_(is_known, pc.invert(pc.fill_null(pc.match_substring_regex(texts, _NAMED_ZONE), False)))
    return Exact(values, is_known)


def _names_key(maps: Any, name: str, texts: Any) -> Any:
    """Return which of the maps without a text have the key: null is a value, but a missing key is unknown."""
    count = len(texts)
    if texts.null_count == 0:
        return constant(False, count)
    without = pc.indices_nonzero(pc.is_null(texts))
    taken = pc.take(maps, without)
    lists = pa.ListArray.from_arrays(taken.offsets, taken.keys)
    parents = pc.list_parent_indices(lists)
    parents_with_name = pc.filter(parents, pc.equal(pc.list_flatten(lists), name))
    rows = pc.take(without, pc.unique(parents_with_name))
    return pc.is_in(pa.array(range(count), pa.uint64()), value_set=pc.cast(rows, pa.uint64()))
