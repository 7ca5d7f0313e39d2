"""Many paths at once: their directories, and their bytes. Paths are binary, because names in a store need not be
UTF-8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc

if TYPE_CHECKING:
    import pyarrow


def directories_of(paths: pyarrow.BinaryArray) -> pyarrow.DictionaryArray:
    """Return the directory of each path, without the trailing slash: '' for a file at the root, null for null."""
    import pyarrow as pa

    parts = pc.split_pattern(paths, pattern="/", max_splits=1, reverse=True)  # 70 ms per million, a regex takes 300
    is_below = pc.equal(pc.list_value_length(parts), 2)
    directories = pc.if_else(is_below, pc.list_element(parts, 0), pa.scalar(b"", pa.binary()))
    return pc.dictionary_encode(directories)


def content_of(paths: pyarrow.BinaryArray) -> bytes:
    """Return the bytes of all paths, one after the other. A byte that does not occur in them is in no path."""
    data = paths.buffers()[2]
    if data is None or not len(paths):
        return b""
    offsets = memoryview(paths.buffers()[1]).cast("i")
    return bytes(memoryview(data)[offsets[paths.offset] : offsets[paths.offset + len(paths)]])


def partition_of(paths: pyarrow.BinaryArray) -> pyarrow.StringArray:
    """Return the unmodified directories `key=value` of each path, joined by `/`; null if there are none.

    Bytes that are not UTF-8 are replaced, because the result is for display.
    """
    import pyarrow as pa

    directories = directories_of(paths)
    texts = []
    for path in directories.dictionary.to_pylist():
        parts = b"/".join(part for part in path.split(b"/") if part.find(b"=") > 0)
        texts.append(parts.decode("utf-8", "replace") if parts else None)
    return pc.take(pa.array(texts, pa.string()), directories.indices)
