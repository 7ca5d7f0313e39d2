"""The statistics of many files as typed columns, parsed once; value by value where Arrow cannot read them.

Arrow reads the texts with the types of the table's columns. Unknown columns are inferred as
well, which costs nothing if there are none. A block with a text that Arrow cannot read is halved until that text is
among few, and those are read value by value.

Spec: Per-file Statistics.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.texts import is_utf8_encodable
from deltacli.core.typing import ArrowArray, ArrowSchema, ArrowType, Json
from deltacli.delta.encoding.ndjson import MAX_DEPTH, is_nested_deeply, read_lines
from deltacli.delta.encoding.value_text import parse_date, parse_moment
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema.types import WHOLE_BITS, decimal_parts
from deltacli.delta.stats.schema import (
    NULL_COUNT,
    PER_COLUMN,
    ColumnPath,
    StatColumn,
    StatKind,
    StatSchema,
    merge,
    shape_of_type,
    shape_of_value,
    stats_fields,
)

NOT_A_NUMBER = 1.7976931348623157e308
INFINITE = 1.7976931348623155e308
SPELLED_FLOATS = {"NaN": NOT_A_NUMBER, "Infinity": INFINITE, "-Infinity": -INFINITE}
"Replacements for the floats that JSON writes as strings, in the reference implementation's order: NaN is greatest."

CUT_MICROSECONDS = 999
"What writers drop when they keep milliseconds."
EXACT_DIGITS = 15
"Number of digits that a double preserves of every decimal."

Z85 = r"^([0-9a-zA-Z.:+=^!/*?&<>()\[\]{}@%$#-]{5})*$"
_Z85 = re.compile(Z85[:-1] + r"\Z")


class StatsFault(NamedTuple):
    """One fault of the statistics in a row of a view."""

    row: int
    code: str
    what: str
    """`numRecords`, `tightBounds`, a statistic, or the name of a column; empty for the whole text."""
    text: str
    seen: str
    expected: str


class PlainStats(NamedTuple):
    """One file's statistics, without values of the wrong type. `value` is None if the text is not a JSON object."""

    value: dict[str, Any] | None
    faults: list[StatsFault]
    unknown: list[ColumnPath]


def read_json(text: str) -> Json:
    """Parse a text strictly, numbers exactly. Raises ValueError, also for deeply nested text."""
    if text.count("{") + text.count("[") > MAX_DEPTH and is_nested_deeply(text.encode("utf-8", "replace")):
        raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep, or brackets do not match")
    return json.loads(text, parse_float=_real, parse_int=_whole, parse_constant=_refuse)


def read_stats(schema: StatSchema, row: int, text: str) -> PlainStats:
    """Return the statistics of one text and their faults."""
    try:
        value = read_json(text)
    except ValueError as fault:
        reason = f"the statistics are not JSON: {str(fault)[:120]}"
        return PlainStats(None, [StatsFault(row, "bad-json", "", reason, text, "a JSON object")], [])
    if not isinstance(value, dict):
        return PlainStats(
            None, [StatsFault(row, "bad-json", "", "the statistics are not a JSON object", text, "a JSON object")], []
        )
    stats = PlainStats({}, [], [])
    reader = _Reader(schema, row, stats)
    reader.read_top(value)
    return stats


class _Reader:
    """Copies the values of the right type and records the others."""

    def __init__(self, schema: StatSchema, row: int, stats: PlainStats) -> None:
        self._schema = schema
        self._row = row
        self._found = stats

    def read_top(self, value: dict[str, Any]) -> None:
        kept = self._found.value
        assert kept is not None
        for name, is_right, expected in (
            ("numRecords", is_long, "an integer of 64 bits"),
            ("tightBounds", lambda value: isinstance(value, bool), "true or false"),
        ):
            given = value.get(name)
            if given is None:
                continue
            if is_right(given):
                kept[name] = given
            else:
                self._mismatch(name, f"{name} of the statistics is not {expected}", given, expected)
        for part in PER_COLUMN:
            given = value.get(part)
            if isinstance(given, dict):
                kept[part] = self._read_struct(part, (), given)
            elif given is not None:
                self._mismatch(part, f"{part} of the statistics is not an object", given, "an object")

    def _read_struct(self, part: str, parent: ColumnPath, value: dict[str, Any]) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for name, given in value.items():
            path = (*parent, name)
            column = self._schema.column(path)
            if column is None:
                self._found.unknown.append(path)
                continue
            if given is None:
                kept[name] = None
            elif column.kind is StatKind.STRUCT:
                if isinstance(given, dict):
                    kept[name] = self._read_struct(part, path, given)
                else:
                    self._mismatch(column.name, f"{part} of column {column.name} is not an object", given, "an object")
            else:
                kept[name] = self._read_leaf(part, column, given)
        return kept

    def _read_leaf(self, part: str, column: StatColumn, given: Any) -> Any:
        if part == NULL_COUNT:
            if is_long(given):
                return given
            text = f"nullCount of column {column.name} is not an integer"
            self._mismatch(column.name, text, given, "an integer of 64 bits")
            return None
        kept = read_bound(column, given)
        if kept is WRONG_TYPE:
            if column.kind is StatKind.VARIANT:
                text = f"{part} of variant column {column.name} is not z85 text"
                fault = StatsFault(self._row, "variant-encoding", column.name, text, _shown(given), "z85")
                self._found.faults.append(fault)
            else:
                text = f"{part} of column {column.name} is not a value of its type {column.type_name}"
                self._mismatch(column.name, text, given, column.kind.value)
            return None
        return kept

    def _mismatch(self, what: str, text: str, seen: Any, expected: str) -> None:
        self._found.faults.append(StatsFault(self._row, "type-mismatch", what, text, _shown(seen), expected))


WRONG_TYPE = object()


def read_bound(column: StatColumn, given: Any) -> Any:  # Any: a JSON value in, a value for Arrow out
    """Return a bound as `bound_type` holds it, None if it does not fit, or WRONG_TYPE for one of another type."""
    match column.kind:
        case StatKind.WHOLE:
            limit = 1 << (WHOLE_BITS[column.type_name] - 1)
            return given if type(given) is int and -limit <= given < limit else WRONG_TYPE
        case StatKind.FLOAT:
            return _read_float(given)
        case StatKind.DECIMAL:
            return _read_decimal(column.type_name, given)
        case StatKind.DATE | StatKind.TIMESTAMP:
            return _read_time(column.kind, given)
        case StatKind.TEXT:
            if not isinstance(given, str):
                return WRONG_TYPE
            return given if is_utf8_encodable(given) else None  # half a surrogate pair has no order
        case StatKind.VARIANT:
            return given if isinstance(given, str) and _Z85.match(given) else WRONG_TYPE
        case StatKind.BOOLEAN:
            return given if isinstance(given, bool) else WRONG_TYPE
        case StatKind.INTERVAL:
            return ""  # only the presence of one matters
        case _:
            return None


def _read_float(given: Any) -> Any:
    if isinstance(given, str):
        return SPELLED_FLOATS.get(given, WRONG_TYPE)
    if isinstance(given, int | Decimal) and not isinstance(given, bool):
        number = as_float(given)
        return number if abs(number) < INFINITE else (INFINITE if number > 0 else -INFINITE)
    return WRONG_TYPE


def as_single(number: float) -> float:
    """Return a double as the nearest float. One beyond all floats is infinite."""
    rounded: float = pc.cast(pa.scalar(number, pa.float64()), pa.float32()).as_py()
    return rounded


def as_float(given: int | Decimal) -> float:
    """Return the nearest double, an infinity for a number beyond all of them."""
    try:
        return float(given)
    except OverflowError:
        return float("inf") if given > 0 else float("-inf")


def _read_decimal(type_name: str, given: Any) -> Any:
    precision, scale = decimal_parts(type_name) or (38, 0)
    if isinstance(given, bool) or not isinstance(given, int | Decimal | str):
        return WRONG_TYPE
    number = exact_decimal(given) if isinstance(given, str) else Decimal(given)
    if number is None or not fits_decimal(number, precision, scale):
        return WRONG_TYPE
    return number


def exact_decimal(text: str) -> Decimal | None:
    """Return a decimal number as written, or None for anything else."""
    if not _DECIMAL.fullmatch(text) or len(text) > 400:
        return None
    return Decimal(text)


_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")


def fits_decimal(number: Decimal, precision: int, scale: int) -> bool:
    """Return True if a decimal type holds the number without rounding."""
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        return False
    text = "".join(map(str, digits)).lstrip("0")
    bare = text.rstrip("0")
    exponent += len(text) - len(bare)
    if not bare:
        return True
    return -exponent <= scale and len(bare) + exponent <= precision - scale


def _read_time(kind: StatKind, given: Any) -> Any:
    if not isinstance(given, str):
        return WRONG_TYPE
    moment = parse_moment(given)
    if moment is None:
        return WRONG_TYPE
    if kind is StatKind.DATE:
        days = parse_date(given)
        return moment.microseconds // 1_000_000 if days is None else days * 86_400
    return moment.microseconds if abs(moment.microseconds) < 1 << 63 else None


def is_long(value: Any) -> bool:
    """Return True for an integer of at most 64 bits."""
    return type(value) is int and -(1 << 63) <= value < 1 << 63


def _whole(digits: str) -> int | Decimal:
    """Return an integer. One of hundreds of digits fits no type and is not converted, to save time."""
    return int(digits) if len(digits) <= 64 else Decimal(digits)


def _real(text: str) -> Decimal:
    """Return a number with a fraction or an exponent.

    If the exponent is out of range for Decimal, the result is infinite or zero, which is the same bound for values of
    every type.
    """
    try:
        return Decimal(text)
    except InvalidOperation:
        mantissa, _, exponent = text.lower().partition("e")
        if exponent.startswith("-") or not any(digit in "123456789" for digit in mantissa):
            return Decimal(0)
        return Decimal("-Infinity" if mantissa.startswith("-") else "Infinity")


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 120 else f"{text[:119]}…"


def dig(value: Json, path: Iterable[str]) -> Json:
    """Return the value at a path of names, or None if there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


# -- the JSON statistics of many files as typed columns, parsed once ---------------------------------------------------

_FEW = 64
"Maximum number of texts that are not retried with Arrow's reader."
_PIECES = 8
_SAMPLES = 5
_ROUNDS = 3
_TOP_LEVEL_NULL = r"\}[ \t\r\n]*null"
"""Arrow's reader (26.0.1) ends the process on a `null` between objects."""
_BARE_FLOAT = r"[:,\[][ \t\r\n]*-?(NaN|Inf)"
"Arrow's reader accepts these as numbers; JSON does not."


class Leaf(NamedTuple):
    """One statistic of one column, a value for each row of a block. `column` is None if it is not in the schema."""

    path: ColumnPath
    column: StatColumn | None
    values: ArrowArray


@dataclass
class StatsBlock:
    """Statistics in columns. `rows` are the rows of the view; None: the same ones."""

    rows: Any  # Any: a sequence of integers
    records: ArrowArray
    is_tight: ArrowArray
    leaves: dict[str, list[Leaf]] = field(default_factory=dict)
    """By statistic: `minValues`, `maxValues`, `nullCount`."""

    def row(self, index: int) -> int:
        """Return the row of the view."""
        if self.rows is None:
            return index
        row = self.rows[index]
        return row if isinstance(row, int) else int(row.as_py())

    def align(self, values: ArrowArray) -> ArrowArray:
        """Return a column of the view as a column of this block."""
        if self.rows is None:
            return values
        return pc.take(values, self.rows if isinstance(self.rows, pa.Array) else pa.array(self.rows, pa.int64()))


class UnknownColumn(NamedTuple):
    """A column with statistics that is not in the schema."""

    path: ColumnPath
    files: int
    row: int


@dataclass
class StatsColumns:
    """The statistics of a view."""

    schema: StatSchema
    blocks: list[StatsBlock] = field(default_factory=list)
    faults: list[StatsFault] = field(default_factory=list)
    unknown: dict[ColumnPath, UnknownColumn] = field(default_factory=dict)

    def note_unknown(self, path: ColumnPath, files: int, row: int) -> None:
        """Remember a column that is not in the schema, and the first row that names it. `files` of one name are counted
        by the most complete statistic.
        """
        known = self.unknown.get(path, UnknownColumn(path, files, row))
        self.unknown[path] = UnknownColumn(path, max(known.files, files), min(known.row, row))


def parse_stats(texts: ArrowArray, config: TableConfiguration) -> StatsColumns:
    """Parse the statistics of files that share a configuration."""
    return _Parser(texts, config).run()


class _Parser:
    def __init__(self, texts: Any, config: TableConfiguration) -> None:
        self._texts = texts
        self._found = StatsColumns(StatSchema(config))
        self._odd: list[int] = []

    def run(self) -> StatsColumns:
        texts = self._texts
        if texts.null_count == len(texts) or not self._found.schema.is_known:
            return self._found
        given = pc.fill_null(pc.greater(pc.binary_length(texts), 0), pa.scalar(False))
        plain = pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))
        plain = pc.fill_null(plain, pa.scalar(False))
        if not pc.all(plain).as_py():
            self._odd = pc.indices_nonzero(pc.and_not(given, plain)).to_pylist()
            rows = pc.indices_nonzero(plain)
            self._parse(pc.filter(texts, plain), rows)
        else:
            self._parse(texts, None)
        self._take_odd_rows()
        return self._found

    def _parse(self, texts: Any, rows: Any) -> None:
        if len(texts) == 0:
            return
        for start, piece, parsed in read_in_pieces(texts, partial(_read_block, self._found.schema)):
            if parsed is not None and len(piece) == len(texts):
                self._take(parsed, rows)
                continue
            part = range(start, start + len(piece)) if rows is None else rows.slice(start, len(piece)).to_pylist()
            if parsed is None:
                self._odd.extend(part)
            else:
                self._take(parsed, pa.array(part, pa.int64()))

    def _take_odd_rows(self) -> None:
        """Read the texts that Arrow cannot read, and put their valid values into a separate block."""
        found = self._found
        kept: list[int] = []
        values: list[dict[str, Any]] = []
        shape: dict[str, Any] = {}
        for row in sorted(self._odd):
            plain = read_stats(found.schema, row, self._texts[row].as_py())
            found.faults.extend(plain.faults)
            for path in dict.fromkeys(plain.unknown):
                self._found.note_unknown(path, 1, row)
            if plain.value is not None:
                kept.append(row)
                values.append(plain.value)
                shape = merge(shape, shape_of_value(plain.value))
        if kept:
            fields = stats_fields(found.schema, shape)
            self._take(pa.Table.from_pylist(values, schema=fields), kept)

    def _take(self, parsed: pa.Table, rows: Any) -> None:
        columns = {name: _one_chunk(parsed.column(name)) for name in ("numRecords", "tightBounds", *PER_COLUMN)}
        block = StatsBlock(rows, columns["numRecords"], columns["tightBounds"])
        for part in PER_COLUMN:
            block.leaves[part] = list(self._leaves((), columns[part]))
            for leaf in block.leaves[part]:
                if leaf.column is None:
                    self._note_unknown(block, leaf)
        self._found.blocks.append(block)

    def _leaves(self, parent: ColumnPath, values: Any) -> Iterator[Leaf]:
        for child, name in zip(values.flatten(), [part.name for part in values.type], strict=True):
            path = (*parent, name)
            column = self._found.schema.column(path)
            if column is not None and column.kind is StatKind.STRUCT:
                yield from self._leaves(path, child)
            else:
                yield Leaf(path, column, child)

    def _note_unknown(self, block: StatsBlock, leaf: Leaf) -> None:
        rows = pc.indices_nonzero(pc.is_valid(leaf.values))
        if len(rows):
            self._found.note_unknown(leaf.path, len(rows), block.row(rows[0].as_py()))
            return
        texts = block.align(self._texts)
        row = pc.indices_nonzero(pc.match_substring(texts, leaf.path[-1]))
        self._found.note_unknown(leaf.path, max(len(row), 1), block.row(row[0].as_py()) if len(row) else block.row(0))


def read_in_pieces(texts: Any, read: Callable[[Any], Any]) -> Iterator[tuple[int, Any, Any]]:  # Any: see below
    """Yield (first row, texts, result of `read`) for pieces of a string array, in order.

    Texts for which `read` returns None are split further until they are among few, which are yielded with None.
    """
    pending = [(0, texts)]
    while pending:
        start, piece = pending.pop()
        parsed = read(piece)
        if parsed is not None or len(piece) <= _FEW:
            yield start, piece, parsed
            continue
        step = max(_FEW, -(-len(piece) // _PIECES))
        starts = range(0, len(piece), step)
        pending.extend((start + first, piece.slice(first, step)) for first in reversed(starts))


def safe_lines(texts: ArrowArray) -> bytes | None:
    """Return texts that all begin and end with a brace as lines for Arrow's reader, or None if it must not get them."""
    lines: bytes = pc.binary_join_element_wise(texts, pa.scalar(""), "\n").buffers()[2].to_pybytes()
    refused = f"{_TOP_LEVEL_NULL}|{_BARE_FLOAT}" if _names_floats(lines) else _TOP_LEVEL_NULL
    if pc.match_substring_regex(pa.array([lines], pa.large_binary()), refused)[0].as_py():
        return None
    return lines


def _read_block(schema: StatSchema, texts: Any) -> Any:  # Any: a string array in, a table or None out
    """Read texts that all begin and end with a brace. Return None if Arrow cannot read one of them."""
    lines = safe_lines(texts)
    if lines is None:
        return None
    shape = _sample(texts)
    fields = stats_fields(schema, shape)
    lines = with_numbers(lines, fields)
    for _ in range(_ROUNDS):
        parsed = read_lines(lines, fields, infer=True)
        if parsed is None or parsed.num_rows != len(texts):
            return None
        shape = merge(shape, shape_of_type(parsed.schema))
        wanted = stats_fields(schema, shape)
        if wanted.equals(fields):
            return parsed if _decimals_fit(parsed.columns) else None
        fields = wanted
    return None


def _decimals_fit(columns: ArrowArray) -> bool:
    """Return False if a decimal exceeds the digits of its type, which Arrow checks before it fills up the scale."""
    for column in columns:
        if pa.types.is_struct(column.type):
            if not _decimals_fit(column.flatten()):
                return False
        elif pa.types.is_decimal(column.type):
            ends = pc.min_max(column).as_py()
            limit = 10 ** (column.type.precision - column.type.scale)
            if ends["min"] is not None and max(abs(ends["min"]), abs(ends["max"])) >= limit:
                return False
    return True


def _sample(texts: Any) -> dict[str, Any]:
    """Return the names used in a few texts: a table may have thousands of columns, and statistics for thirty."""
    shape: dict[str, Any] = {}
    last = len(texts) - 1
    for position in {last * number // (_SAMPLES - 1) for number in range(_SAMPLES)}:
        try:
            value = read_json(texts[position].as_py())
        except ValueError:
            continue
        if isinstance(value, dict):
            shape = merge(shape, shape_of_value(value))
    return {part: shape[part] for part in PER_COLUMN if isinstance(shape.get(part), dict)}


def _names_of_floats(fields: ArrowType) -> Iterator[str]:
    for part in fields:
        if pa.types.is_struct(part.type):
            yield from _names_of_floats(part.type)
        elif pa.types.is_float64(part.type):
            yield part.name


def with_numbers(lines: bytes, fields: ArrowSchema) -> bytes:
    """Replace the floats that JSON writes as strings by numbers, in the doubles among the fields."""
    if not _names_floats(lines):
        return lines
    names = set(_names_of_floats(fields))
    for word, number in SPELLED_FLOATS.items():
        if b'"%b"' % word.encode() in lines:
            for name in names:
                key = json.dumps(name, ensure_ascii=False).encode("utf-8", "replace")
                for blank in (b"", b" "):
                    spelled = b'%b:%b"%b"' % (key, blank, word.encode())
                    lines = lines.replace(spelled, b"%b:%b" % (key, repr(number).encode()))
    return lines


def _names_floats(content: bytes) -> bool:
    """Return True if NaN or an infinity occurs, with or without quotes. One character is searched ten times as fast."""
    return (b"N" in content and b"NaN" in content) or (b"I" in content and b"Inf" in content)


def _one_chunk(column: Any) -> Any:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
