"""Thrift's compact protocol, as far as Parquet's structures need it. Spec: parquet.thrift."""

from __future__ import annotations

from collections.abc import Iterator

TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
INTEGERS = (4, 5, 6)
_MAX_DEPTH = 16
_MAX_SHIFT = 63


class ThriftFaultError(ValueError):
    """Bytes that are not a valid structure."""


class CompactReader:
    """Reads values one after the other. An IndexError means the end of the bytes."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    def fields(self, *, after: int = 0) -> Iterator[tuple[int, int]]:
        """Yield the fields of the struct that begins or continues here, each as (id, type). The caller reads or skips
        the value.
        """
        last = after
        while True:
            head = self.byte()
            if head == 0:
                return
            step = head >> 4
            last = last + step if step else self.integer()
            yield last, head & 0x0F

    def byte(self) -> int:
        """One byte."""
        value = self.data[self.position]
        self.position += 1
        return value

    def unsigned(self) -> int:
        """Return an integer without zigzag decoding."""
        value, shift = 0, 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > _MAX_SHIFT:
                raise ThriftFaultError("an integer of more than 64 bits")

    def integer(self) -> int:
        """A signed integer."""
        value = self.unsigned()
        return (value >> 1) ^ -(value & 1)

    def integer_of_struct(self, wanted: int) -> int | None:
        """Return an integer field of the struct that begins here, or None if it is absent. The struct is consumed."""
        number = None
        for field, kind in self.fields():
            if field == wanted and kind in INTEGERS:
                number = self.integer()
            else:
                self.skip(kind)
        return number

    def binary(self) -> bytes:
        """Bytes with their length before them."""
        length = self.unsigned()
        self._pass(length)
        return self.data[self.position - length : self.position]

    def elements(self) -> tuple[int, int]:
        """Return the header of a list or set: the number of elements, and their type."""
        head = self.byte()
        count = head >> 4
        return (self.unsigned() if count == 15 else count), head & 0x0F

    def skip(self, kind: int, depth: int = 0) -> None:
        """Skip a value of a type. Raises ThriftFaultError."""
        if depth > _MAX_DEPTH:
            raise ThriftFaultError("nested too deeply")
        if kind in INTEGERS:
            self.unsigned()
        elif kind == BINARY:
            self._pass(self.unsigned())
        elif kind == STRUCT:
            for _, inner in self.fields():
                self.skip(inner, depth + 1)
        elif kind in (LIST, SET):
            self._skip_elements(depth)
        elif kind in (BYTE, DOUBLE):
            self._pass(1 if kind == BYTE else 8)
        elif kind not in (TRUE, FALSE):  # no Parquet structure is a map
            raise ThriftFaultError(f"an unexpected type {kind}")

    def _skip_elements(self, depth: int) -> None:
        count, kind = self.elements()
        if kind in (TRUE, FALSE):
            self._pass(count)
            return
        if count > len(self.data) - self.position:
            raise IndexError
        for _ in range(count):
            self.skip(kind, depth + 1)

    def _pass(self, length: int) -> None:
        self.position += length
        if self.position > len(self.data):
            raise IndexError
