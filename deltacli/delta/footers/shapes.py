"""The shapes of parts of a footer, learned from one file and matched against others.

A shape is a regular expression over bytes: what is the same in every file of a writer (field headers, names, lengths)
is literal, and numbers and bounds are groups. A value of variable length ends a piece, and its length is read from the
bytes. Parts that do not match are read field by field. Recording a shape costs as much as reading twenty parts field by
field, so the first parts are read without learning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from deltacli.delta.footers.thrift import BYTE, DOUBLE, INTEGERS, LIST, SET, STRUCT, CompactReader, ThriftFaultError

_INTEGER = rb"([\x80-\xff]{0,9}[\x00-\x7f])"
_ANY_INTEGER = rb"[\x80-\xff]{0,9}[\x00-\x7f]"
_MOST_SHAPES = 16
"Per part; a part with more shapes is read field by field."
_MOST_DEPTH = 16

Values = list[Any]
"The required values of a part, by position. Any: numbers and bytes."


class Piece(NamedTuple):
    """An expression, its groups (position, whether it is a number), and the position of the variable-length value that
    follows.
    """

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


def joined(shapes: Sequence[Shape]) -> Shape:
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
        self.reader = CompactReader(data, position)
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
            raise ThriftFaultError("nested too deeply")
        if kind in INTEGERS:
            self._literal()
            reader.unsigned()
            self._vary(_ANY_INTEGER)
        elif kind == STRUCT:
            for _, inner in reader.fields():
                self._skip(inner, depth + 1)
        elif kind in (LIST, SET):
            self._skip_elements(kind, depth)
        elif kind in (BYTE, DOUBLE):
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
        if inner not in INTEGERS and inner != STRUCT:
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
