"""Conservative bounds of the columns of a predicate from the statistics of files.

Spec: Per-file Statistics. Only those columns are read from the texts. Bounds are widened for every known writer: times
may be truncated to milliseconds, doubles may have been floats when the text was written, and long decimals may have
been converted through a double. Bounds of dates and timestamps before 1900-01-02 are not used, because they may be in
another calendar. Bounds that cannot be read or are contradictory are treated as unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.core.typing import ArrowArray, ArrowSchema
from deltacli.delta.encoding.ndjson import read_lines
from deltacli.delta.encoding.value_text import MICROSECONDS_A_DAY, has_bytes, parse_date, parse_moment
from deltacli.delta.predicate.columns import Column, ColumnPath
from deltacli.delta.predicate.literals import names_a_place
from deltacli.delta.predicate.possible import Bounds, constant
from deltacli.delta.schema.kinds import Kind
from deltacli.delta.stats.columns import read_in_pieces, safe_lines, with_numbers
from deltacli.delta.stats.schema import BOUNDS, NULL_COUNT, PER_COLUMN
from deltacli.delta.stats.values import (
    CUT_MICROSECONDS,
    EXACT_DIGITS,
    INFINITE,
    dig,
    exact_decimal,
    fits,
    is_long,
    read_json,
)

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
_FIRST_OF_ONE_CALENDAR = {
    Kind.DATE: _FIRST_DAY,
    Kind.TIMESTAMP: _FIRST_MICROSECOND,
    Kind.NTZ: _FIRST_MICROSECOND,
}
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
    import pyarrow as pa

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
    import pyarrow as pa

    bounds = _nested([(one.path, _bound_type(one.column)) for one in wanted if one.has_bounds])
    counts = _nested([(one.path, pa.int64()) for one in wanted])
    return pa.schema([("numRecords", pa.int64()), *((part, bounds) for part in BOUNDS), (NULL_COUNT, counts)])


def _nested(leaves: Sequence[tuple[ColumnPath, Any]]) -> Any:
    import pyarrow as pa

    below: dict[str, list[tuple[ColumnPath, Any]]] = {}
    for path, kind in leaves:
        below.setdefault(path[0], []).append((path[1:], kind))
    return pa.struct([(name, rest[0][1] if not rest[0][0] else _nested(rest)) for name, rest in below.items()])


def _bound_type(column: Column) -> Any:
    """Return the type in which a bound is read: times are kept as texts, because their meaning depends on their
    zone.
    """
    import pyarrow as pa

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
    import pyarrow as pa

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
            return number if number is not None and fits(number, 38, column.scale) else None
    return given if isinstance(given, str) and has_bytes(given) else None


def _plain_decimal(given: Any) -> Decimal | None:
    """A number as JSON has it, or as text."""
    if isinstance(given, str):
        return exact_decimal(given)
    return Decimal(given) if isinstance(given, int | Decimal) and not isinstance(given, bool) else None


# -- bounds -----------------------------------------------------------------------------------------------------------


def _bounds(one: _Wanted, table: Any) -> Bounds:
    import pyarrow as pa

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
    import pyarrow as pa

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
            return _times(values, _DAY, pa.date32(), _days_of)
        case Kind.TIMESTAMP:
            return _times(values, _ZONED, pa.timestamp("us", tz="UTC"), _instant_of)
        case Kind.NTZ:
            return _times(values, _ZONELESS, pa.timestamp("us"), _local_time_of)
    return values


def _times(texts: Any, plain: str, kind: Any, parse: Any) -> Any:
    """Return times as whole numbers: all at once if all are plain, else each distinct text separately."""
    import pyarrow as pa

    if pc.all(_known_or_plain(texts, plain)).as_py():
        try:
            return _numbers(pc.cast(texts, kind))
        except MemoryError:
            raise
        except pa.ArrowException:
            pass  # a day that its month does not have
    encoded = pc.dictionary_encode(texts)
    values = [None if text is None else parse(text) for text in encoded.dictionary.to_pylist()]
    return pc.take(pa.array(values, pa.int64()), encoded.indices)


def _known_or_plain(texts: Any, plain: str) -> Any:
    return pc.fill_null(pc.match_substring_regex(texts, plain), True)


def _numbers(values: Any) -> Any:
    import pyarrow as pa

    return pc.cast(pc.cast(values, pa.int32()) if pa.types.is_date32(values.type) else values, pa.int64())


def _days_of(text: str) -> int | None:
    return parse_date(text)


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
    """Return bounds of dates and timestamps, null before 1900-01-02, where their writer may have counted days
    differently.
    """
    import pyarrow as pa

    first = _FIRST_OF_ONE_CALENDAR.get(column.kind)
    if first is None:
        return values
    return pc.if_else(pc.less(values, first), pa.scalar(None, values.type), values)


def _widened(column: Column, low: Any, high: Any) -> tuple[Any, Any]:
    """Return bounds that hold whatever their writer truncated or rounded."""
    import pyarrow as pa

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
    import pyarrow as pa

    part = pa.scalar(Decimal((0, (1,), -EXACT_DIGITS)), pa.decimal256(16, EXACT_DIGITS))
    slack = pc.multiply(pc.abs(bound), part)
    limit = pa.scalar(Decimal((0, (1,), EXACT_DIGITS - scale)), bound.type)
    is_exact = pc.less(pc.abs(bound), limit)
    nothing = pa.scalar(Decimal(0), slack.type)
    return apart(bound, pc.if_else(is_exact, nothing, slack))


def _unless(is_wrong: Any, values: Any) -> Any:
    import pyarrow as pa

    return pc.if_else(is_wrong, pa.scalar(None, values.type), values)


def _known_and(mask: Any) -> Any:
    """Return an answer, with no for missing values."""
    return pc.fill_null(mask, False)
