"""The parts of a Parquet footer that `validate` needs, parsed by shapes that footers have in common.

A shape is a regular expression over bytes: what is the same in every file of a writer (field headers, names, lengths)
is literal, and numbers and bounds are groups. A value of variable length ends a piece, and its length is read from the
bytes. Parts that do not match are read field by field. Recording a shape costs as much as reading twenty parts field by
field, so the first parts are read without learning.

Footers of one writer have few shapes. A frequent shape is learned (`parse.py`), after which parsing takes a quarter of
pyarrow's time.

Spec: parquet.thrift, FileMetaData.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from deltacli.delta.footers import thrift
from deltacli.delta.schema.file_columns import hybrid_types

_INTEGER = rb"([\x80-\xff]{0,9}[\x00-\x7f])"
_ANY_INTEGER = rb"[\x80-\xff]{0,9}[\x00-\x7f]"
_MOST_SHAPES = 16
"Per part; a part with more shapes is read field by field."
_MOST_DEPTH = 16

Values = list[Any]
"The required values of a part, by position. Any: numbers and bytes."


class Piece(NamedTuple):
    """An expression, its groups (position, whether a number), and the position of the variable-length value behind."""

    text: bytes
    pattern: re.Pattern[bytes]
    groups: tuple[tuple[int, bool], ...]
    then: int | None


class Shape(NamedTuple):
    """A shape; `constants` are the values that are the same for every match."""

    constants: tuple[Any, ...]
    pieces: tuple[Piece, ...]

    def match(self, data: bytes, position: int) -> tuple[Values, int] | None:
        """Read a part of this shape: its values, and its end. Return None if it does not match."""
        values = list(self.constants)
        for _, pattern, groups, then in self.pieces:
            matched = pattern.match(data, position)
            if matched is None:
                return None
            position = matched.end()
            texts = matched.groups()
            for (place, is_number), text in zip(groups, texts, strict=False):
                if not is_number:
                    values[place] = text
                elif len(text) == 1:
                    value = text[0]
                    values[place] = (value >> 1) ^ -(value & 1)
                else:
                    value = _unsigned(text)
                    values[place] = (value >> 1) ^ -(value & 1)
            if then is not None:
                end = position + _unsigned(texts[-1])
                if end > len(data):
                    return None
                values[then] = data[position:end]
                position = end
        return values, position


class Shapes:
    """The shapes of one part, the last match first. Nothing is learned from the first `learn_after` readings."""

    def __init__(self, learn_after: int) -> None:
        self._known: list[Shape] = []
        self._not_yet = learn_after

    def match(self, data: bytes, position: int) -> tuple[Values, int, Shape] | None:
        """Read by a known shape, or return None."""
        for number, shape in enumerate(self._known):
            matched = shape.match(data, position)
            if matched is not None:
                if number:
                    self._known.insert(0, self._known.pop(number))
                return *matched, shape
        return None

    def read(
        self, data: bytes, position: int, places: int, walk: Callable[[PartReader], None]
    ) -> tuple[Values, int, Shape | None]:
        """Read the part that begins at a position.

        `walk` reads it field by field if its shape is unknown. The shape is None if it was not learned. Raises
        ThriftFaultError, and IndexError at the end of the bytes.
        """
        match = self.match(data, position)
        if match is not None:
            return match
        if self._not_yet > 0 or len(self._known) >= _MOST_SHAPES:
            self._not_yet -= 1
            reader = PartReader(data, position, places)
            walk(reader)
            return reader.values, reader.reader.position, None
        learner = Learner(data, position, places)
        walk(learner)
        shape = learner.shape()
        self._known.insert(0, shape)
        return learner.values, learner.reader.position, shape


def join_shapes(shapes: Sequence[Shape]) -> Shape:
    """Return the shape of consecutive parts, with the positions of each after those of the previous one."""
    constants: list[Any] = []  # Any: as in Values
    pieces: list[Piece] = []
    text, groups = b"", []
    for shape in shapes:
        offset = len(constants)
        constants += shape.constants
        for piece in shape.pieces:
            text += piece.text
            groups += [(place + offset, is_number) for place, is_number in piece.groups]
            if piece.then is not None:
                pieces.append(_piece(text, groups, piece.then + offset))
                text, groups = b"", []
    if text:
        pieces.append(_piece(text, groups, None))
    return Shape(tuple(constants), tuple(pieces))


class PartReader:
    """Reads a part field by field. `values` has the given number of positions."""

    def __init__(self, data: bytes, position: int, places: int) -> None:
        self.reader = thrift.CompactReader(data, position)
        self.values: Values = [None] * places

    def number(self, place: int) -> int:
        """Read a number that differs between files."""
        value = self.values[place] = self.reader.integer()
        return value

    def sized_bytes(self, place: int) -> None:
        """Read bytes of constant length that differ between files."""
        self.values[place] = self.reader.binary()

    def any_bytes(self, place: int) -> None:
        """Read bytes of variable length that differ between files."""
        self.values[place] = self.reader.binary()

    def skip(self, kind: int) -> None:
        """Skip a value. Its numbers may differ between files, everything else is constant."""
        self.reader.skip(kind)


class Learner(PartReader):
    """Reads a part field by field and records its shape."""

    def __init__(self, data: bytes, position: int, places: int) -> None:
        super().__init__(data, position, places)
        self._written = position
        self._pieces: list[Piece] = []
        self._text = b""
        self._groups: list[tuple[int, bool]] = []

    def shape(self) -> Shape:
        """Return the shape of what was read."""
        self._literal()
        if self._text or not self._pieces:
            self._pieces.append(_piece(self._text, self._groups, None))
        varying = {place for piece in self._pieces for place, _ in piece.groups} | {p.then for p in self._pieces}
        constants = (None if place in varying else value for place, value in enumerate(self.values))
        return Shape(tuple(constants), tuple(self._pieces))

    def number(self, place: int) -> int:
        self._literal()
        value = super().number(place)
        self._vary(_INTEGER)
        self._groups.append((place, True))
        return value

    def sized_bytes(self, place: int) -> None:
        super().sized_bytes(place)
        end, length = self.reader.position, len(self.values[place])
        self.reader.position = end - length
        self._literal()
        self.reader.position = end
        self._vary(b"(.{%d})" % length)
        self._groups.append((place, False))

    def any_bytes(self, place: int) -> None:
        self._literal()
        super().any_bytes(place)
        self._pieces.append(_piece(self._text, self._groups, place))
        self._text, self._groups = b"", []
        self._written = self.reader.position

    def skip(self, kind: int) -> None:
        self._skip(kind, 0)

    def _skip(self, kind: int, depth: int) -> None:
        reader = self.reader
        if depth > _MOST_DEPTH:
            raise thrift.ThriftFaultError("nested too deeply")
        if kind in thrift.INTEGERS:
            self._literal()
            reader.unsigned()
            self._vary(_ANY_INTEGER)
        elif kind == thrift.STRUCT:
            for _, inner in reader.fields():
                self._skip(inner, depth + 1)
        elif kind in (thrift.LIST, thrift.SET):
            self._skip_elements(kind, depth)
        elif kind in (thrift.BYTE, thrift.DOUBLE):
            self._literal()
            start = reader.position
            reader.skip(kind)
            self._vary(b".{%d}" % (reader.position - start))
        else:
            reader.skip(kind, depth)

    def _skip_elements(self, kind: int, depth: int) -> None:
        reader = self.reader
        start = reader.position
        count, inner = reader.elements()
        if inner not in thrift.INTEGERS and inner != thrift.STRUCT:
            reader.position = start
            reader.skip(kind, depth)
            return
        if count > len(reader.data) - reader.position:
            raise IndexError
        for _ in range(count):
            self._skip(inner, depth + 1)

    def _literal(self) -> None:
        """Add everything up to here that was not recorded to the shape literally."""
        self._text += re.escape(self.reader.data[self._written : self.reader.position])
        self._written = self.reader.position

    def _vary(self, text: bytes) -> None:
        self._text += text
        self._written = self.reader.position


def _piece(text: bytes, groups: Sequence[tuple[int, bool]], then: int | None) -> Piece:
    pattern = re.compile(text if then is None else text + _INTEGER, re.DOTALL)
    return Piece(text, pattern, tuple(groups), then)


def _unsigned(text: bytes) -> int:
    value = text[0]
    if value < 0x80:
        return value
    value &= 0x7F
    for number, byte in enumerate(text[1:], 1):
        value |= (byte & 0x7F) << 7 * number
    return value


# -- parse the parts of a Parquet footer that `validate` needs ---------------------------------------------------------

_MOST_SCHEMAS = 64
_MOST_JOINED = 256
"Maximum number of pieces in the shape of a whole footer; larger ones are read part by part."
_MOST_PLANS = 8
_MOST_LENGTHS = 10_000
_LEARN_AFTER = 20
"Number of times a part is read before its shape is learned; tables of thousands of columns have few files."
_BYTE_ARRAY = 6
_SIGNATURE_BYTES = 28
"After a plain footer with encrypted columns: a nonce and a tag."

_ROWS, _COUNT, _PART_ENCRYPTED, _WRITER = range(4)
_PART_PLACES = 4
_OTHER_ORDERS = _COUNT
"""In the tail: how many columns have bounds in another order than that of their type."""
_ARROW = b"parquet-cpp"
"""How the C++ library of Arrow names itself as a writer."""
_ORDERS_NAN = re.compile(rb"parquet-mr version 1\.[1-9]\d")
"""Parquet's Java library: since 1.10 a column with NaN has no bounds, or NaN is one. Others leave it out, and so does
this library in the order of IEEE 754.
"""
_CODEC, _VALUES, _NULLS, _LOW, _HIGH, _OLD_LOW, _OLD_HIGH, _LOW_EXACT, _HIGH_EXACT, _ENCRYPTED = range(10)
_CHUNK_PLACES = 10
_BOUNDS = {1: _OLD_HIGH, 2: _OLD_LOW, 5: _HIGH, 6: _LOW}
_EXACT = {7: _HIGH_EXACT, 8: _LOW_EXACT}


class ChunkFacts(NamedTuple):
    """What a footer records about one column in one row group, None if nothing.

    Bounds are raw bytes. `old_low`, `old_high`: bounds from before the order of values was specified. `is_low_exact`:
    whether the bound is a value of the column and not truncated. `codec` is the number in parquet.thrift.
    """

    codec: int | None
    values: int | None
    nulls: int | None
    low: bytes | None
    high: bytes | None
    old_low: bytes | None
    old_high: bytes | None
    is_low_exact: bool | None
    is_high_exact: bool | None
    is_encrypted: bool | None


class GroupFacts(NamedTuple):
    """One row group: `chunks` in the order of the leaves of the schema."""

    rows: int
    chunks: tuple[ChunkFacts, ...]


class _Plan(NamedTuple):
    """A whole footer after its schema as one shape. `groups`: the positions of each row group: what precedes its
    chunks, the chunks, and what follows them.
    """

    shape: Shape
    groups: tuple[tuple[int, tuple[int, ...], int], ...]
    tail: int
    is_encrypted: bool
    codecs: frozenset[int | None]
    writer: bytes

    def __reduce__(self) -> tuple[type[_Plan], tuple[Any, ...]]:  # Any: the fields
        """Leave out the shape, which is only used to read more footers."""
        return _Plan, (Shape((), ()), *self[1:])


class Footer:
    """One footer: `rows` of the file, and its row groups. Files with identical `schema` bytes have the same schema.
    `hybrid`: the physical types of dates and times in the calendar that was Julian before 1582.
    """

    __slots__ = ("_groups", "_plan", "_values", "hybrid", "is_encrypted", "rows", "schema")

    def __init__(self, schema: bytes, plan: _Plan, values: Values, hybrid: frozenset[str] = frozenset()) -> None:
        """Raises ThriftFaultError if a number of rows is missing."""
        rows = values[_ROWS] if values[_ROWS] is not None else values[plan.tail]
        if rows is None or rows < 0:
            raise thrift.ThriftFaultError("the footer has no number of rows")
        self.schema, self.rows = schema, rows
        self.is_encrypted = plan.is_encrypted
        self._plan, self._values, self.hybrid = plan, values, hybrid
        self._groups: tuple[GroupFacts, ...] | None = None
        for open_at, _, close_at in plan.groups:
            of_group = values[open_at] if values[open_at] is not None else values[close_at]
            if of_group is None or of_group < 0:
                raise thrift.ThriftFaultError("a row group has no number of rows")
            rows -= of_group
        if rows:
            raise thrift.ThriftFaultError(f"it records {self.rows} rows, but its row groups have {self.rows - rows}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Footer):
            return NotImplemented
        mine, theirs = (
            (each.schema, each.rows, each.is_encrypted, each.is_by_arrow, each.groups) for each in (self, other)
        )
        return mine == theirs

    def __hash__(self) -> int:
        return hash((self.schema, self.rows))

    def __reduce__(self) -> tuple[type[Footer], tuple[Any, ...]]:  # Any: the arguments
        return Footer, (self.schema, self._plan, self._values, self.hybrid)

    @property
    def is_by_arrow(self) -> bool:
        """Return whether Arrow's C++ library wrote the file, as that of pyarrow."""
        return self._plan.writer.startswith(_ARROW)

    @property
    def orders_nan(self) -> bool:
        """Return whether bounds of floats are those of all values: others have none where one is NaN."""
        has_other = bool(self._values[self._plan.tail + _OTHER_ORDERS])
        return not has_other and _ORDERS_NAN.match(self._plan.writer) is not None

    @property
    def groups(self) -> tuple[GroupFacts, ...]:
        """Return the row groups, built at the first call."""
        if self._groups is None:
            values = self._values
            self._groups = tuple(
                GroupFacts(
                    values[open_at] if values[open_at] is not None else values[close_at],
                    tuple([ChunkFacts._make(values[at : at + _CHUNK_PLACES]) for at in chunks]),
                )
                for open_at, chunks, close_at in self._plan.groups
            )
        return self._groups

    @property
    def codecs(self) -> frozenset[int | None]:
        """Return the codecs of all column chunks, without building the chunks."""
        return self._plan.codecs


class LeafColumns(NamedTuple):
    """What footers record of one leaf, a row per row group: the footer's number, and the fields of ChunkFacts."""

    footers: list[int]
    fields: list[Values]


def collect_leaf_columns(footers: Sequence[Footer], leaf: int) -> LeafColumns:
    """Collect them, in the order of the footers and of their row groups."""
    by_plan: dict[int, list[int]] = {}
    for number, footer in enumerate(footers):
        by_plan.setdefault(id(footer._plan), []).append(number)
    found = LeafColumns([], [[] for _ in ChunkFacts._fields])
    for numbers in by_plan.values():
        of_plan = [footers[number]._values for number in numbers]
        for _, chunks, _ in footers[numbers[0]]._plan.groups:
            if leaf < len(chunks):
                found.footers.extend(numbers)
                for place, column in enumerate(found.fields, chunks[leaf]):
                    column += [values[place] for values in of_plan]
    if found.footers == sorted(found.footers):
        return found
    order = sorted(range(len(found.footers)), key=found.footers.__getitem__)
    return LeafColumns(
        [found.footers[row] for row in order], [[column[row] for row in order] for column in found.fields]
    )


class FooterReader:
    """Reads footers, and remembers shapes that it read more than `learn_after` times. Not thread-safe."""

    def __init__(self, *, learn_after: int = _LEARN_AFTER) -> None:
        self._learn_after = learn_after
        self._schemas: list[_OfSchema] = []

    def read(self, data: bytes) -> Footer:
        """Read a FileMetaData. Raises ThriftFaultError if the bytes are not one."""
        try:
            footer = self._of_schema(data).read(data)
        except IndexError:
            raise thrift.ThriftFaultError("the footer is incomplete") from None
        footer.hybrid = hybrid_types(data)
        return footer

    def _of_schema(self, data: bytes) -> _OfSchema:
        for number, known in enumerate(self._schemas):
            if data.startswith(known.schema):
                if number:
                    self._schemas.insert(0, self._schemas.pop(number))
                return known
        reader = thrift.CompactReader(data)
        for field, kind in reader.fields():
            reader.skip(kind)
            if field == 2:
                found = _OfSchema(data[: reader.position], self._learn_after)
                self._schemas.insert(0, found)
                del self._schemas[_MOST_SCHEMAS:]
                return found
        raise thrift.ThriftFaultError("the footer has no schema")


class _OfSchema:
    """Reads the footers that begin with the same schema."""

    def __init__(self, schema: bytes, learn_after: int) -> None:
        self.schema = schema
        self._learn_after = learn_after
        self._plans: list[_Plan] = []
        self._by_length: dict[int, _Plan] = {}
        "Length of a footer -> the plan that matched the last one: footers without some bound are shorter."
        self._head, self._open, self._close, self._tail = (Shapes(learn_after) for _ in range(4))
        self._chunks: list[Shapes] = []

    def read(self, data: bytes) -> Footer:
        """Read a footer, at once if its shape is known, otherwise part by part."""
        start, length = len(self.schema), len(data)
        likely = self._by_length.get(length)
        for plan in self._plans if likely is None else (likely, *self._plans):
            found = plan.shape.match(data, start)
            if found is not None and found[1] == length:
                if plan is not likely:
                    if len(self._by_length) >= _MOST_LENGTHS:
                        self._by_length.clear()
                    self._by_length[length] = plan
                return Footer(self.schema, plan, found[0])
        return self._by_parts(data, start)

    def _by_parts(self, data: bytes, position: int) -> Footer:
        shapes: list[Shape | None] = []
        values: Values = []
        groups = []

        def take(part: tuple[Values, int, Shape | None]) -> tuple[Values, int]:
            nonlocal position
            found, position, shape = part
            offset = len(values)
            values.extend(found)
            shapes.append(shape)
            return found, offset

        head, _ = take(self._head.read(data, position, _PART_PLACES, _walk_head))
        for _ in range(head[_COUNT] or 0):
            opened, open_at = take(self._open.read(data, position, _PART_PLACES, _walk_opening))
            count = opened[_COUNT] or 0
            while len(self._chunks) < count:
                self._chunks.append(Shapes(self._learn_after))
            chunks = tuple(
                take(self._chunks[leaf].read(data, position, _CHUNK_PLACES, _walk_chunk))[1] for leaf in range(count)
            )
            _, close_at = take(self._close.read(data, position, _PART_PLACES, _walk_closing))
            groups.append((open_at, chunks, close_at))
        _, tail_at = take(self._tail.read(data, position, _PART_PLACES, _walk_tail))
        encrypts = [values[at + _ENCRYPTED] for _, chunks, _ in groups for at in chunks]
        is_encrypted = any((*encrypts, values[_PART_ENCRYPTED], values[tail_at + _PART_ENCRYPTED]))
        if position != len(data) - (_SIGNATURE_BYTES if is_encrypted else 0):
            raise thrift.ThriftFaultError("the footer has bytes after its end")
        codecs = frozenset(values[at + _CODEC] for _, chunks, _ in groups for at in chunks)
        writer = values[tail_at + _WRITER] or b""
        plan = _Plan(Shape((), ()), tuple(groups), tail_at, is_encrypted, codecs, writer)
        footer = Footer(self.schema, plan, values)
        known = [shape for shape in shapes if shape is not None]
        if len(known) == len(shapes) and sum(len(shape.pieces) for shape in known) <= _MOST_JOINED:
            self._plans.insert(0, plan._replace(shape=join_shapes(known)))
            del self._plans[_MOST_PLANS:]
        return footer


def _walk_head(part: PartReader) -> None:
    """Read what is between the schema and the first row group."""
    for field, kind in part.reader.fields(after=2):
        if field == 4 and kind == thrift.LIST:
            part.values[_COUNT] = _structs(part.reader)
            return
        _walk_field(part, field, kind, encryption=(8,))
    raise thrift.ThriftFaultError("the footer has no row groups")


def _walk_opening(part: PartReader) -> None:
    """Read what precedes the first column chunk of a row group."""
    for field, kind in part.reader.fields():
        if field == 1 and kind == thrift.LIST:
            part.values[_COUNT] = _structs(part.reader)
            return
        _walk_field(part, field, kind)
    raise thrift.ThriftFaultError("a row group has no columns")


def _walk_closing(part: PartReader) -> None:
    """Read the rest of a row group after its columns."""
    for field, kind in part.reader.fields(after=1):
        _walk_field(part, field, kind)


def _walk_tail(part: PartReader) -> None:
    """Read the rest of a footer after its row groups."""
    for field, kind in part.reader.fields(after=4):
        if field == 6 and kind == thrift.BINARY:
            part.values[_WRITER] = part.reader.binary()
        elif field == 7 and kind == thrift.LIST:
            part.values[_OTHER_ORDERS] = _other_orders(thrift.CompactReader(part.reader.data, part.reader.position))
            part.skip(kind)
        else:
            _walk_field(part, field, kind, encryption=(8,))


def _other_orders(reader: thrift.CompactReader) -> int:
    """Return how many of some column orders are not that of the type."""
    count, kind = reader.elements()
    found = 0
    for _ in range(count if kind == thrift.STRUCT else 0):
        for field, kind in reader.fields():
            found += field != 1
            reader.skip(kind)
    return found


def _walk_field(part: PartReader, field: int, kind: int, *, encryption: tuple[int, ...] = ()) -> None:
    if field == 3 and kind in thrift.INTEGERS:
        part.number(_ROWS)
        return
    if field in encryption:
        part.values[_PART_ENCRYPTED] = True
    part.skip(kind)


def _structs(reader: thrift.CompactReader) -> int:
    count, kind = reader.elements()
    if (kind != thrift.STRUCT and count) or count > len(reader.data):
        raise thrift.ThriftFaultError("a field is not a list of structures as expected")
    return count


def _walk_chunk(part: PartReader) -> None:
    part.values[_ENCRYPTED] = False
    for field, kind in part.reader.fields():
        if field == 3 and kind == thrift.STRUCT:
            _walk_metadata(part)
        else:
            if field in (8, 9):
                part.values[_ENCRYPTED] = True
            part.skip(kind)


def _walk_metadata(part: PartReader) -> None:
    reader, physical_type = part.reader, -1
    for field, kind in reader.fields():
        if field == 1 and kind in thrift.INTEGERS:
            physical_type = reader.integer()
        elif field == 4 and kind in thrift.INTEGERS:
            part.values[_CODEC] = reader.integer()
        elif field == 5 and kind in thrift.INTEGERS:
            part.number(_VALUES)
        elif field == 12 and kind == thrift.STRUCT:
            _walk_statistics(part, physical_type)
        else:
            part.skip(kind)


def _walk_statistics(part: PartReader, physical_type: int) -> None:
    for field, kind in part.reader.fields():
        if field == 3 and kind in thrift.INTEGERS:
            part.number(_NULLS)
        elif field in _BOUNDS and kind == thrift.BINARY:
            if physical_type == _BYTE_ARRAY:
                part.any_bytes(_BOUNDS[field])
            else:
                part.sized_bytes(_BOUNDS[field])
        else:
            if field in _EXACT:
                part.values[_EXACT[field]] = kind == thrift.TRUE
            part.skip(kind)
