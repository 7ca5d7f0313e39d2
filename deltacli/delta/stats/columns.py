"""The JSON statistics of many files as typed columns, parsed once.

Spec: Per-file Statistics. Arrow reads the texts with the types of the table's columns. Unknown columns are inferred as
well, which costs nothing if there are none. A block with a text that Arrow cannot read is halved until that text is
among few, and those are read value by value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.core.typing import ArrowArray, ArrowSchema, ArrowType
from deltacli.delta.encoding.ndjson import read_lines
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.stats.schema import (
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
from deltacli.delta.stats.values import SPELLED_FLOATS, StatsFault, read_json, read_stats

if TYPE_CHECKING:
    import pyarrow

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
        import pyarrow as pa

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
        import pyarrow as pa

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
        import pyarrow as pa

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
        import pyarrow as pa

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

    def _take(self, parsed: pyarrow.Table, rows: Any) -> None:
        columns = {name: _whole(parsed.column(name)) for name in ("numRecords", "tightBounds", *PER_COLUMN)}
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
    import pyarrow as pa

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
    """Return False if a decimal has more digits than its type. Arrow's reader checks the written digits before it fills
    up the scale.
    """
    import pyarrow as pa

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
    import pyarrow as pa

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


def _whole(column: Any) -> Any:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
