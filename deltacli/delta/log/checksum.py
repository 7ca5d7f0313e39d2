"""The fields of a version checksum and their form. Spec: Version Checksum File Schema; File Size Histogram Schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from deltacli.core.typing import JsonObject
from deltacli.delta.log.actions import Action
from deltacli.delta.log.segment import LOG_DIRECTORY

REQUIRED: Mapping[str, type] = {
    **dict.fromkeys(("tableSizeBytes", "numFiles", "numMetadata", "numProtocol"), int),
    **dict.fromkeys(("metadata", "protocol"), dict),
}
"""The fields that every checksum has, with their types."""
HISTOGRAM_LISTS = ("sortedBinBoundaries", "fileCounts", "totalBytes")


def checksum_path(version: int) -> str:
    """Return the path relative to the table."""
    return f"{LOG_DIRECTORY}/{version:020d}.crc"


@lru_cache(maxsize=1)
def read_checksum(data: bytes) -> JsonObject | None:
    """Return the object in a checksum, or None if there is none. Cached, because several checks use it one after
    another.
    """
    try:
        value = json.loads(data.decode())
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def rows_of(listed: object) -> list[Action] | None:
    """Return a list of objects unchanged, or None if it is anything else."""
    if not isinstance(listed, list) or not all(isinstance(row, dict) for row in listed):
        return None
    return listed


def histogram_of(checksum: JsonObject) -> tuple[str, object]:
    """Return the histogram of file sizes, None without one, and its name: Spark wrote the same one as `histogramOpt`
    before the field had its current name.
    """
    name = "fileSizeHistogram" if checksum.get("fileSizeHistogram") is not None else "histogramOpt"
    return name, checksum.get(name)


def numbers_of(histogram: object, name: str) -> list[int] | None:
    """Return a list of integers of a histogram, or None."""
    numbers = histogram.get(name) if isinstance(histogram, dict) else None
    if not isinstance(numbers, list) or not all(type(number) is int and abs(number) < 2**63 for number in numbers):
        return None
    return numbers


def fault_of_histogram(
    boundaries: Sequence[int] | None, counts: Sequence[int] | None, sizes: Sequence[int] | None
) -> str:
    """Return the fault in the form of a histogram, in words, or an empty string."""
    if boundaries is None or counts is None or sizes is None:
        return "lacks one of its three lists of integers"
    if not len(boundaries) == len(counts) == len(sizes):
        return f"has lists of {len(boundaries)}, {len(counts)} and {len(sizes)} numbers"
    if not boundaries or boundaries[0] != 0:
        return f"begins at {boundaries[0] if boundaries else 'no boundary'}, not at 0"
    if any(one >= other for one, other in pairwise(boundaries)):
        return "has boundaries that are not in ascending order"
    return ""
