"""Version checksums as values, and the rules about the files they count. Each checksum records totals of its version,
which are compared with replay.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from deltacli.arrow import compute as pc
from deltacli.core.typing import ArrowArray, JsonObject
from deltacli.core.units import plural
from deltacli.delta.log.commit_lines import Action
from deltacli.delta.paths import canonical
from deltacli.delta.vectors import fault_of, unique_id
from deltacli.rules.framework.base import Area, Finding, Rule
from deltacli.rules.framework.views import ChecksumView, ExpectedState

AREA = Area("checksums", spec="State Validation")

DELETE = "delete the checksum; the next commit writes a new one"
DELETED_RECORDS = (0, 1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 2_147_483_647)
"""The first number of each bin of the histogram of deleted records. Spec: Deleted Record Counts Histogram Schema."""

NUM_FILES = AREA.error(
    "crc.num-files",
    "`numFiles` of a version checksum differs from the number of live files.",
    broken="the checksum is wrong, or the log was changed later; engines that compare refuse the table",
    repair="check that no commit was changed, then delete the checksum",
    example='"numFiles":4 where 3 files are live',
)

TABLE_SIZE = AREA.error(
    "crc.table-size",
    "`tableSizeBytes` of a version checksum differs from the total size of the live files.",
    broken="the checksum is wrong, or the log was changed later; engines that compare refuse the table",
    repair="check that no commit was changed, then delete the checksum",
    example='"tableSizeBytes":4096 where the live files sum up to 3072 bytes',
)

HISTOGRAM = AREA.warning(
    "crc.histogram",
    "The histogram of file sizes of a version checksum is malformed, or does not match the live files.",
    spec="File Size Histogram Schema",
    broken="engines that plan by the histogram plan wrongly; some refuse a malformed one",
    repair=DELETE,
    example='"fileSizeHistogram":{"sortedBinBoundaries":[0,1024],"fileCounts":[3],"totalBytes":[2048]}',
)

DELETED_HISTOGRAM = AREA.warning(
    "crc.deleted-histogram",
    "The histogram of deleted records of a version checksum lacks bins, or does not match the live files.",
    spec="Deleted Record Counts Histogram Schema",
    broken="engines that plan by the histogram plan wrongly; some refuse a malformed one",
    repair=DELETE,
    example='"deletedRecordCountsHistogramOpt":{"deletedRecordCounts":[3,0,0]}',
)

ALL_FILES = AREA.error(
    "crc.all-files",
    "`allFiles` of a version checksum differs from the live files.",
    broken="engines that take the files from the checksum read different rows",
    repair="delete the checksum at once",
    example='"allFiles":[] where 3 files are live',
)

DV_COUNTS = AREA.warning(
    "crc.dv-counts",
    "`numDeletedRecordsOpt` or `numDeletionVectorsOpt` of a version checksum differs from the totals of the live "
    "files.",
    broken="engines that count rows by the checksum count wrongly",
    repair=DELETE,
    example='"numDeletionVectorsOpt":0 where one live file has a deletion vector',
)


@AREA.check(ChecksumView, NUM_FILES, TABLE_SIZE)
def totals_are_those_of_replay(view: ChecksumView) -> Iterator[Finding]:
    """Spec: State Validation."""
    value, expected = comparable(view)
    if expected is None:
        return
    for name, number, rule in (
        ("numFiles", expected.totals.files, NUM_FILES),
        ("tableSizeBytes", expected.totals.size_bytes, TABLE_SIZE),
    ):
        if type(value.get(name)) is int and value[name] != number:
            yield rule.at(
                view.place(key=name),
                f"{name} of the checksum of version {view.version} is {value[name]}, but the commits give {number}",
                seen=value[name],
                expected=number,
            )


@AREA.check(ChecksumView, DV_COUNTS)
def vectors_are_those_of_replay(view: ChecksumView) -> Iterator[Finding]:
    """The fields are optional; null is ignored. Spec: Version Checksum File Schema."""
    value, expected = comparable(view)
    if expected is None:
        return
    for name, number in (
        ("numDeletedRecordsOpt", expected.totals.deleted_records),
        ("numDeletionVectorsOpt", expected.totals.vectors),
    ):
        if value.get(name) not in (None, number):
            yield differs(view, DV_COUNTS, name, value[name], number)


@AREA.check(ChecksumView, HISTOGRAM)
def sizes_are_those_of_replay(view: ChecksumView) -> Iterator[Finding]:
    """Spark wrote the same histogram as `histogramOpt` before the field had its current name."""
    value, expected = comparable(view)
    name = "fileSizeHistogram" if value.get("fileSizeHistogram") is not None else "histogramOpt"
    histogram = value.get(name)
    if histogram is None:
        return
    lists = [_numbers(histogram, part) for part in ("sortedBinBoundaries", "fileCounts", "totalBytes")]
    boundaries, counts, sizes = lists
    fault = _fault_of_histogram(boundaries, counts, sizes)
    if fault:
        yield HISTOGRAM.at(
            view.place(key=name), f"{name} of the checksum of version {view.version} {fault}", seen=histogram
        )
        return
    found = _live_column(expected, "size")
    if found is None:
        return
    live_counts, live_sizes = bins_of(found, boundaries or ())
    for part, claimed, live in (("fileCounts", counts, live_counts), ("totalBytes", sizes, live_sizes)):
        if claimed != live:
            yield differs(view, HISTOGRAM, f"{name}.{part}", *_first_difference(boundaries or (), claimed or (), live))


@AREA.check(ChecksumView, DELETED_HISTOGRAM)
def deleted_records_are_those_of_replay(view: ChecksumView) -> Iterator[Finding]:
    """Spec: Deleted Record Counts Histogram Schema."""
    value, expected = comparable(view)
    name = "deletedRecordCountsHistogramOpt"
    histogram = value.get(name)
    if histogram is None:
        return
    counts = _numbers(histogram, "deletedRecordCounts")
    if counts is None or len(counts) != len(DELETED_RECORDS):
        yield DELETED_HISTOGRAM.at(
            view.place(key=name),
            f"{name} of the checksum of version {view.version} does not have {len(DELETED_RECORDS)} bins",
            seen=histogram,
            expected=f"{len(DELETED_RECORDS)} numbers",
        )
        return
    cardinalities = _live_column(expected, "dv_cardinality", absent=0)
    if cardinalities is None:
        return
    live, _ = bins_of(cardinalities, DELETED_RECORDS)
    if counts != live:
        yield differs(view, DELETED_HISTOGRAM, name, *_first_difference(DELETED_RECORDS, counts, live))


@AREA.check(ChecksumView, ALL_FILES)
def files_are_those_of_replay(view: ChecksumView) -> Iterator[Finding]:
    """Files are compared by path and deletion vector. For a file in both, the size and the partition must be equal."""
    value, expected = comparable(view)
    listed = value.get("allFiles")
    if expected is None or listed is None:
        return
    rows = rows_of(listed)
    if rows is None or len(rows) != expected.totals.files:
        seen = listed if rows is None else plural(len(rows), "file")
        yield differs(view, ALL_FILES, "allFiles", seen, plural(expected.totals.files, "file"))
        return
    actual = {_key_of(row): row for row in rows}
    for live in expected.live():
        row = actual.pop((canonical(live.path), live.dv_id), None)
        if row is None:
            yield ALL_FILES.at(
                view.place(key=live.path),
                f"allFiles of the checksum of version {view.version} lacks {live.path}",
                seen="missing",
                expected="live",
            )
            continue
        for name in ("size", "partitionValues"):
            if name in live.add and _plain(row.get(name)) != _plain(live.add[name]):
                yield ALL_FILES.at(
                    view.place(key=live.path),
                    f"{name} of {live.path} in the checksum of version {view.version} differs from the commits",
                    seen=row.get(name),
                    expected=live.add[name],
                )
    for path, _ in actual:
        yield ALL_FILES.at(
            view.place(key=path),
            f"allFiles of the checksum of version {view.version} has {path}, which is not live",
            seen="there",
            expected="not live",
        )


def bins_of(values: ArrowArray, boundaries: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the number of values in each bin, and their sums.

    A bin begins at its boundary and ends before the next one. One sort (a million values: 0.1 s), then a binary search
    for each boundary.
    """
    ordered = pc.take(values, pc.sort_indices(values))
    sums = pc.cumulative_sum(ordered)
    edges = [bisect_left(ordered, boundary, key=lambda value: value.as_py()) for boundary in boundaries]
    edges.append(len(ordered))
    below = [sums[edge - 1].as_py() if edge else 0 for edge in edges]
    return [last - first for first, last in pairwise(edges)], [last - first for first, last in pairwise(below)]


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


def comparable(view: ChecksumView) -> tuple[JsonObject, ExpectedState | None]:
    """Return the checksum and the replayed state of its version, or None if they cannot be compared."""
    value = read_checksum(view.data)
    expected = view.expected
    return value or {}, expected if value is not None else None


def rows_of(listed: object) -> list[Action] | None:
    """Return a list of objects unchanged, or None if it is anything else."""
    if not isinstance(listed, list) or not all(isinstance(row, dict) for row in listed):
        return None
    return listed


def differs(view: ChecksumView, rule: Rule, name: str, actual: object, expected: object) -> Finding:
    """Return a finding for a field of the checksum that differs from replay."""
    return rule.at(
        view.place(key=name),
        f"{name} of the checksum of version {view.version} differs from the commits",
        seen="none" if actual is None else actual,
        expected="none" if expected is None else expected,
    )


def differences(
    view: ChecksumView,
    rule: Rule,
    what: str,
    names: Iterable[str],
    actual: Mapping[str, object],
    expected: Mapping[str, object],
) -> Iterator[Finding]:
    """Report the differences of two maps for some of their keys."""
    for name in sorted(names):
        one, other = actual.get(name), expected.get(name)
        if one != other or (name in actual) is not (name in expected):
            yield differs(view, rule, f"{what} {name}", one, other)


def _live_column(expected: ExpectedState | None, name: str, *, absent: int | None = None) -> ArrowArray:
    """Return a column of the live files as one array, or None if it is not known for all of them."""
    import pyarrow as pa

    if expected is None or expected.columns is None:
        return None
    column = expected.columns().column(name)
    if absent is not None:
        column = pc.fill_null(column, pa.scalar(absent, pa.int64()))
    if column.null_count:
        return None
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], pa.int64())


def _numbers(histogram: object, name: str) -> list[int] | None:
    """Return a list of integers of a histogram, or None."""
    numbers = histogram.get(name) if isinstance(histogram, dict) else None
    if not isinstance(numbers, list) or not all(type(number) is int and abs(number) < 2**63 for number in numbers):
        return None
    return numbers


def _fault_of_histogram(boundaries: list[int] | None, counts: list[int] | None, sizes: list[int] | None) -> str:
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


def _first_difference(boundaries: Sequence[int], claimed: Sequence[int], live: Sequence[int]) -> tuple[str, str]:
    """Return the first bin that differs, as claimed and as computed."""
    for boundary, one, other in zip(boundaries, claimed, live, strict=True):
        if one != other:
            return f"{one} from {boundary} on", f"{other} from {boundary} on"
    return "", ""


def _key_of(row: Action) -> tuple[str, str]:
    vector = row.get("deletionVector")
    return canonical(str(row.get("path"))), unique_id(vector) if vector and fault_of(vector) is None else ""


def _plain(value: object) -> object:
    """Return partition values with null for the empty text, which has the same meaning."""
    return {name: text or None for name, text in value.items()} if isinstance(value, dict) else value
