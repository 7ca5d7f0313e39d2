"""Questions about many objects, asked one by one and several at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from deltacli.errors import FileMissing
from deltacli.storage.base import PARALLEL_READS, FileStat


def stat_each(stat: Callable[[str], FileStat], paths: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return sizes and modification times, both -1 for a missing object. Raises what `stat` raises for others."""

    def look(path: str) -> tuple[int, int]:
        try:
            found = stat(path)
        except FileMissing:
            return -1, -1
        return found.size_bytes, found.modified_ms

    with ThreadPoolExecutor(PARALLEL_READS) as pool:
        found = list(pool.map(look, paths))
    return [size for size, _ in found], [modified_ms for _, modified_ms in found]
