"""Values as text: dates, times and intervals as the log writes them, and Arrow columns as text, column by column: JSON
for listing millions of files and for statistics that a checkpoint has as structs.

Null fields of a struct are left out, as writers of the log do. Strings are escaped according to RFC 8259; non-ASCII
text is unchanged. Arrow's own text (26.0.1) of times outside the years -32768 to 32767 wraps around: 294247-01-10
becomes 32103-01-10.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import ArrowType

_SEPARATOR = "\x7f"
"""The one ASCII character that is neither printed nor escaped in JSON."""


def json_column(column: pa.Array) -> pa.Array:
    """Return each value as JSON text: any array in, string array out, null where the value is null."""
    kind = column.type
    if pa.types.is_struct(kind):
        return _json_struct(column)
    if pa.types.is_map(kind):
        text = pc.binary_join_element_wise("{", _map_entries(column), "}", "")
        return text if column.null_count == 0 else null_where_null(text, column)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return json_lists(json_column(pc.list_flatten(column)), column)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return quoted(escaped(pc.cast(column, pa.string())))
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return pc.cast(column, pa.string())
    if pa.types.is_floating(kind):
        return _json_floats(column)
    if pa.types.is_timestamp(kind) or pa.types.is_date32(kind):
        return quoted(_moments(column) if pa.types.is_timestamp(kind) else date_texts(column))
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.string())
    if pa.types.is_dictionary(kind):
        return json_column(pc.cast(column, kind.value_type))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.array(
            [None if value is None else orjson.dumps(value.decode("latin-1")).decode() for value in column.to_pylist()],
            pa.string(),
        )
    return quoted(escaped(pc.cast(column, pa.string())))  # times of a day


def _moments(column: pa.Array) -> pa.Array:
    """Timestamps as ISO 8601; those with a zone in UTC, which the text names."""
    text = pc.replace_substring(moment_texts(column), " ", "T")
    return text if column.type.tz is None else pc.binary_join_element_wise(text, "Z", "")


def json_lines(batch: pa.RecordBatch, head: str, end: str) -> pa.Array:
    """Return each row as `head`, its non-null fields as `,"name":value`, and `end`: record batch in, string array out.

    `head` opens the object and holds at least one field: `{"type":"add"`.
    """
    parts = _field_parts([(field.name, column) for field, column in zip(batch.schema, batch.columns, strict=True)])
    return pc.binary_join_element_wise(*_with_literals([head, *parts, end], len(batch)), "")


def _json_struct(column: pa.StructArray) -> pa.Array:
    """`{"a":1,"c":2}`: each field brings its own leading comma, so that absent ones leave no trace."""
    names = [column.type.field(index).name for index in range(column.type.num_fields)]
    parts = _field_parts(list(zip(names, column.flatten(), strict=True)))
    body = pc.utf8_slice_codeunits(pc.binary_join_element_wise(*_with_literals(parts, len(column)), ""), 1)
    text = pc.binary_join_element_wise("{", body, "}", "")
    return text if column.null_count == 0 else null_where_null(text, column)


def _field_parts(fields: list[tuple[str, pa.Array]]) -> list[str | pa.Array]:
    """Return the pieces of an object's fields in order: literals, and columns, which have their name if with nulls."""
    parts: list[str | pa.Array] = []
    for name, column in fields:
        if column.null_count == len(column):
            continue
        opening, text, closing = _value_parts(column)
        lead = f",{orjson.dumps(name).decode()}:{opening}"
        if isinstance(text, str) or text.null_count == 0:
            parts += [lead, text, closing]
        else:
            parts.append(pc.coalesce(pc.binary_join_element_wise(lead, text, closing, ""), pa.scalar("")))
    return parts


def _value_parts(column: pa.Array) -> tuple[str, str | pa.Array, str]:
    """A column of values as JSON in three parts: the common beginning, the part that differs, and the common end.

    Parts shared by all rows are not made columns, which is faster.
    """
    if pa.types.is_map(column.type) and column.null_count == 0:
        return map_parts(column)
    if not pa.types.is_string(column.type):
        constant = _constant(column)
        return "", json_column(column) if constant is None else constant, ""
    inner = escaped_objects(column)
    return ('"', escaped(column), '"') if inner is None else ('"{', inner, '}"')


def _constant(column: pa.Array) -> str | None:
    """Return the one value of a whole column of integers or booleans as JSON, or None if it has several."""
    if column.null_count or not (pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)):
        return None
    ends = pc.min_max(column).as_py()
    return orjson.dumps(ends["min"]).decode() if ends["min"] == ends["max"] else None


def map_parts(column: pa.MapArray) -> tuple[str, str | pa.Array, str]:
    """Return maps without nulls as JSON in three parts: beginning, differing part, and end. If all of them have the
    same single key, only its value differs.
    """
    keys, values = map_items(column)
    is_single = len(keys) == len(column) and pa.types.is_string(keys.type) and pa.types.is_string(values.type)
    if is_single and values.null_count == 0:
        key, ends = keys[0], column.offsets
        sizes = pc.subtract(ends.slice(1), ends.slice(0, len(column)))
        if pc.all(pc.and_(pc.equal(keys, key), pc.equal(sizes, 1))).as_py():
            return f'{{{orjson.dumps(key.as_py()).decode()}:"', escaped(values), '"}'
    return "{", _map_entries(column), "}"


def map_items(column: pa.MapArray) -> tuple[pa.Array, pa.Array]:
    """Return the keys and values of a part of a map column."""
    first, last = column.offsets[0].as_py(), column.offsets[len(column)].as_py()
    return column.keys.slice(first, last - first), column.items.slice(first, last - first)


def _with_literals(parts: list[str | pa.Array], rows: int) -> list[str | pa.Array]:
    """Merge adjacent literals. At least one part is a column, so there are `rows` results."""
    merged: list[str | pa.Array] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        elif not isinstance(part, str) or part:
            merged.append(part)
    if all(isinstance(part, str) for part in merged):
        merged.append(pa.repeat("", rows))
    return merged


def _map_entries(column: pa.MapArray) -> pa.Array:
    """`"k":"v","l":null`; empty where the map is empty or null."""
    if len(column) == 0:
        return pa.array([], pa.string())
    keys, values = map_items(column)
    if pa.types.is_string(keys.type) and pa.types.is_string(values.type) and values.null_count == 0:
        entries = pc.binary_join_element_wise('"', escaped(keys), '":"', escaped(values), '"', "")
    else:
        entries = pc.binary_join_element_wise(
            json_column(keys), pc.coalesce(json_column(values), pa.scalar("null")), ":"
        )
    relative = pc.subtract(column.offsets, column.offsets[0])
    return pc.binary_join(pa.ListArray.from_arrays(relative, entries), ",")


def json_lists(items: pa.Array, column: pa.ListArray) -> pa.Array:
    """Return each list as JSON, with its items, which lie end to end as JSON texts."""
    lengths = pc.cast(pc.fill_null(pc.list_value_length(column), 0), pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cast(pc.cumulative_sum(lengths), pa.int32())])
    filled = pc.coalesce(items, pa.scalar("null"))
    text = pc.binary_join_element_wise("[", pc.binary_join(pa.ListArray.from_arrays(offsets, filled), ","), "]", "")
    return text if column.null_count == 0 else null_where_null(text, column)


def _json_floats(column: pa.Array) -> pa.Array:
    """Return NaN and the infinities as strings, as in statistics."""
    text = pc.cast(column, pa.string())
    finite = pc.is_finite(column)
    if pc.all(pc.fill_null(finite, True)).as_py():
        return text
    infinite = pc.if_else(pc.greater(column, 0), '"Infinity"', '"-Infinity"')
    return pc.if_else(finite, text, pc.if_else(pc.is_nan(column), '"NaN"', infinite))


def quoted(text: pa.Array) -> pa.Array:
    """Return each text between quotes. The texts are already escaped."""
    return pc.binary_join_element_wise('"', text, '"', "")


def escaped_objects(text: pa.Array, *, by: Callable[[str], bytes] = orjson.dumps) -> pa.Array | None:
    """Escape a column of texts that are all `{…}`, as statistics are, without their outer braces; None for any other
    column. `by` escapes a text and quotes it as JSON. Concatenated, such texts meet in `}{` and nowhere else, so no
    separator is needed, which saves two thirds of the time of `escaped`. If there are as many pieces as texts, each is
    one text.
    """
    if len(text) == 0 or text.null_count or not (text[0].as_py()[:1] == "{" == text[len(text) - 1].as_py()[:1]):
        return None
    escaped = by(characters(text))
    if len(escaped) < len('"{}"'):
        return None
    pieces = _split(escaped, 2, len(escaped) - 2, "}{")
    is_plain = (
        len(pieces) == len(text)
        and pc.all(pc.starts_with(text, "{")).as_py()
        and pc.all(pc.ends_with(text, "}")).as_py()
    )
    return pieces if is_plain else None


def escaped(text: pa.Array, *, by: Callable[[str], bytes] = orjson.dumps) -> pa.Array:
    """Escape quotes, backslashes and control characters.

    A column without any is returned unchanged. `by` escapes a text and quotes it as JSON. The column is escaped as one
    string by orjson, with a separator that JSON does not change between the values, in half the time of replacing
    values one by one in Arrow.
    """
    raw = characters(text)
    if '"' not in raw and len(orjson.dumps(raw)) == len(raw.encode()) + 2:
        return text
    if _SEPARATOR in raw:
        return pa.array(
            [None if value is None else by(value).decode()[1:-1] for value in text.to_pylist()], pa.string()
        )
    whole = pa.ListArray.from_arrays(pa.array([0, len(text)], pa.int32()), pc.fill_null(text, ""))
    joined = pc.binary_join(whole, _SEPARATOR)
    escaped = by(characters(joined))
    values = _split(escaped, 1, len(escaped) - 1, _SEPARATOR)
    return values if text.null_count == 0 else null_where_null(values, text)


def null_where_null(values: pa.Array, column: pa.Array) -> pa.Array:
    """Return the texts, null where another column of the same length is."""
    return pc.if_else(pc.is_valid(column), values, pa.scalar(None, pa.string()))


def _split(data: bytes, first: int, last: int, separator: str) -> pa.Array:
    """The pieces of `data[first:last]` between separators, as a string column."""
    ends = pa.array([first, last], pa.int32()).buffers()[1]
    return pc.split_pattern(pa.StringArray.from_buffers(1, ends, pa.py_buffer(data)), separator).values


def characters(text: pa.Array) -> str:
    """Return the values of a string column end to end. Raises UnicodeDecodeError for text that is not UTF-8."""
    data = text.buffers()[2]
    if data is None or len(text) == 0:
        return ""
    ends = memoryview(text.buffers()[1]).cast("i")
    first, last = ends[text.offset], ends[text.offset + len(text)]
    return str(memoryview(data)[first:last], "utf-8")


_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""Year 1 to year 9999: beyond, dates need a sign."""
_UNITS_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def date_texts(column: pa.Array) -> pa.Array:
    """Return days as texts: date32 array in, string array out, null where the value is null."""
    return _texts(column, pa.int32(), _FIRST_DAY, _LAST_DAY, date_text)


def moment_texts(column: pa.Array) -> pa.Array:
    """Return timestamps as texts with a blank before the time, without a zone, those of a time zone in UTC.

    The fraction has the digits of the unit; beyond four digits of a year it has six where it is not zero, and there is
    a `T` for the blank.
    """
    unit = column.type.unit
    a_second = _UNITS_A_SECOND[unit]
    a_day = 86_400 * a_second
    return _texts(
        column.view(pa.timestamp(unit)),
        pa.int64(),
        _FIRST_DAY * a_day,
        (_LAST_DAY + 1) * a_day - 1,
        lambda number: moment_text(number * 1_000_000 // a_second),
    )


def _texts(column: pa.Array, integer: ArrowType, first: int, last: int, written: Callable[[int], str]) -> pa.Array:
    """Return Arrow's text of dates or times between two values, and a computed text of those outside."""
    numbers = column.view(integer)
    ends = pc.min_max(numbers).as_py()
    if ends["min"] is None or (first <= ends["min"] and ends["max"] <= last):
        return pc.cast(column, pa.string())
    is_beyond = pc.or_(pc.less(numbers, first), pc.greater(numbers, last))
    distinct = pc.unique(pc.filter(numbers, is_beyond))
    texts = pa.array([written(number) for number in distinct.to_pylist()], pa.string())
    beyond = pc.take(texts, pc.index_in(numbers, value_set=distinct))
    near = pc.if_else(is_beyond, pa.scalar(None, column.type), column)
    return pc.coalesce(beyond, pc.cast(near, pa.string()))


def join_texts(texts: pa.StringArray) -> memoryview:
    """Return a column of texts without nulls end to end."""
    if len(texts) == 0:
        return memoryview(b"")
    first, last = memoryview(texts.buffers()[1]).cast("i")[texts.offset : texts.offset + len(texts) + 1 : len(texts)]
    return memoryview(texts.buffers()[2])[first:last]


# -- dates, times and intervals as text --------------------------------------------------------------------------------

MICROSECONDS_A_DAY = 86_400_000_000
_DATE = r"([+-]?[0-9]{4,6})-([0-9]{1,2})-([0-9]{1,2})"
_TIME = r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?"
_ZONE = r"Z|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2}){0,2}|[A-Za-z]+/[A-Za-z_/+-]+"
_DATE_ONLY = re.compile(_DATE)
_MOMENT = re.compile(f"{_DATE}(?:[T ]{_TIME} ?({_ZONE})?)?")
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class ParsedMoment(NamedTuple):
    """A time given as text: microseconds since the epoch, in UTC if the text has no zone.

    A zone given by a place name is not resolved: `has_zone` is true, and the time is that of UTC.
    """

    microseconds: int
    has_zone: bool
    is_date_only: bool


def parse_date(text: str) -> int | None:
    """Return the days since the epoch of a date, or None if it is invalid. Months and days need no leading zero."""
    match = _DATE_ONLY.fullmatch(text)
    return _days(int(match[1]), int(match[2]), int(match[3])) if match else None


def parse_moment(text: str) -> ParsedMoment | None:
    """Return the time of a timestamp, or of a date at midnight, or None if it is invalid."""
    match = _MOMENT.fullmatch(text)
    if match is None:
        return None
    days = _days(int(match[1]), int(match[2]), int(match[3]))
    if days is None:
        return None
    if match[4] is None:
        return ParsedMoment(days * MICROSECONDS_A_DAY, has_zone=False, is_date_only=True)
    hour, minute, second = int(match[4]), int(match[5]), int(match[6] or 0)
    if hour > 23 or minute > 59 or second > 59:
        return None
    seconds = (hour * 60 + minute) * 60 + second - _offset_seconds(match[8])
    fraction = int((match[7] or "").ljust(6, "0")[:6])
    total = days * MICROSECONDS_A_DAY + seconds * 1_000_000 + fraction
    return ParsedMoment(total, has_zone=match[8] is not None, is_date_only=False)


def nanoseconds_of(text: str) -> int | None:
    """Return the nanoseconds since the epoch of a timestamp, or None if it is invalid or does not fit 64 bits."""
    moment, match = parse_moment(text), _MOMENT.fullmatch(text)
    if moment is None or match is None:
        return None
    found = moment.microseconds * 1_000 + int((match[7] or "").ljust(9, "0")[6:])
    return found if -(1 << 63) <= found < 1 << 63 else None


_INTERVAL = re.compile(
    r"interval\s+(?P<sign>[+-]?)'\s*(?P<inner>[+-]?)(?P<value>[0-9][0-9 :.-]*)'"
    r"\s+(?P<first>[a-z]+)(?:\s+to\s+(?P<last>[a-z]+))?",
    re.ASCII | re.IGNORECASE,
)
_MONTHS: Mapping[str, int] = {"year": 12, "month": 1}
_MICROSECONDS: Mapping[str, int] = {
    "day": MICROSECONDS_A_DAY,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
}
_AFTER = {"year": "-", "day": " +", "hour": ":", "minute": ":"}
"""What separates a field from the next one."""
_NUMBER = "([0-9]{1,19})"


def months_of(text: str) -> int | None:
    """Return the months of `INTERVAL '1-0' YEAR TO MONTH`, or None if it is invalid or does not fit 32 bits."""
    return _interval(text, _MONTHS, 31)


def interval_microseconds(text: str) -> int | None:
    """Return the microseconds of `INTERVAL '7 12:34:56.5' DAY TO SECOND`, or None if invalid or beyond 64 bits."""
    return _interval(text, _MICROSECONDS, 63)


def _interval(text: str, units: Mapping[str, int], bits: int) -> int | None:
    match = _INTERVAL.fullmatch(text)
    if match is None:
        return None
    names, first = list(units), match["first"].lower()
    last = (match["last"] or first).lower()
    if first not in units or last not in units or names.index(first) > names.index(last):
        return None
    parts = names[names.index(first) : names.index(last) + 1]
    form = "".join(f"{_NUMBER}{_AFTER[name]}" for name in parts[:-1]) + _NUMBER
    form += r"(?:\.([0-9]{1,6})0{0,3})?" if last == "second" else ""
    numbers = re.fullmatch(form, match["value"].strip())
    if numbers is None:
        return None
    found = sum(int(number) * units[name] for number, name in zip(numbers.groups(), parts, strict=False))
    if last == "second":
        found += int((numbers[len(parts) + 1] or "").ljust(6, "0"))
    found *= -1 if (match["sign"] == "-") != (match["inner"] == "-") else 1
    return found if -(1 << bits) <= found < 1 << bits else None


def date_text(days: int) -> str:
    """Return days since the epoch as a date: `2024-01-01`, `+10000-01-01` beyond four digits, `-0001-12-31`."""
    shifted = days + 719_468  # a year that begins in March ends with the day that some years lack
    era, of_era = divmod(shifted, 146_097)
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month, year = (month + 3, year + era * 400) if month < 10 else (month - 9, year + era * 400 + 1)
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def moment_text(microseconds: int) -> str:
    """Return epoch microseconds as a time without zone: `2024-01-01T08:12:44`, plus six digits unless zero."""
    days, rest = divmod(microseconds, MICROSECONDS_A_DAY)
    seconds, fraction = divmod(rest, 1_000_000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{date_text(days)}T{clock}" + (f".{fraction:06d}" if fraction else "")


def _offset_seconds(zone: str | None) -> int:
    if zone is None or zone[0] not in "+-":
        return 0
    digits = zone[1:].replace(":", "").ljust(6, "0")
    seconds = (int(digits[:2]) * 60 + int(digits[2:4])) * 60 + int(digits[4:6])
    return -seconds if zone[0] == "-" else seconds


def _days(year: int, month: int, day: int) -> int | None:
    """Return days since the epoch in the endless calendar, or None if the month has no such day."""
    if not 1 <= month <= 12:
        return None
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= day <= _DAYS[month - 1] + (month == 2 and is_leap):
        return None
    shifted = year - (month <= 2)  # a year that begins in March ends with the day that some years lack
    era, of_era = divmod(shifted, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
