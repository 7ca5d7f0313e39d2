"""Data files in layouts that pyarrow reads and does not write: the bytes of a footer edited, the pages as they are."""

from __future__ import annotations

import pyarrow as pa

from tests.rules.data_table import encoded


def edited(data: bytes, *edits: tuple[bytes, bytes], elements: int = 0) -> bytes:
    """A Parquet file with some bytes of its footer, each there once, replaced; its schema has so many elements more."""
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    footer = data[start:-8]
    assert b"\x15\x04\x19" == footer[:3]  # the version, then the list of up to 14 elements
    footer = footer[:3] + bytes([footer[3] + (elements << 4)]) + footer[4:]
    for old, new in edits:
        assert footer.count(old) == 1, (old, footer)
        footer = footer.replace(old, new)
    return data[:start] + footer + len(footer).to_bytes(4, "little") + data[-4:]


def two_level_list(rows: pa.Table, name: str) -> bytes:
    """Rows with one list, whose elements can't be null: they stand in no group of their own."""
    named = bytes([len(name)]) + name.encode()
    return edited(
        encoded(rows, store_schema=False),
        (b"\x35\x04\x18\x04list\x15\x02\x00", b""),  # repeated group list, one child
        (b"\x25\x00\x18\x07element", b"\x25\x04\x18\x05array"),  # required element; repeated array
        (b"\x38" + named + b"\x04list\x07element", b"\x28" + named + b"\x05array"),  # the path of its chunk
        elements=-1,
    )


def without_annotation(rows: pa.Table, name: str) -> bytes:
    """Rows with a list or a map whose group does not say that it is one."""
    group = b"\x18" + bytes([len(name)]) + name.encode() + b"\x15\x02"  # its name, one child
    is_map = pa.types.is_map(rows.schema.field(name).type)
    annotation = b"\x15\x02\x4c\x2c\x00\x00" if is_map else b"\x15\x06\x4c\x3c\x00\x00"
    return edited(encoded(rows, store_schema=False), (group + annotation, group))
