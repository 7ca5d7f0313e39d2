"""Rules about version checksums: their form, the small actions they repeat, and the files they count.

Each checksum records totals of its version, which are compared with replay.

Other engines read the protocol and the metadata of a table from its newest checksum, so a wrong checksum is harmful.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import CommitCorrupt
from deltacli.core.ranges import format_ranges
from deltacli.core.typing import ArrowArray, JsonObject
from deltacli.core.units import plural
from deltacli.delta.data_files import find_descriptor_fault, unique_id
from deltacli.delta.log import state
from deltacli.delta.log.actions import Action
from deltacli.delta.log.segment import LOG_DIRECTORY, LogFileKind, Place
from deltacli.delta.paths.spelling import canonicalize_path
from deltacli.rules.framework.base import Area, Finding, Rule, Severity
from deltacli.rules.framework.views import ChecksumView, ExpectedState, HistoryView, ListingView

# -- version checksums as values ---------------------------------------------------------------------------------------

COUNT_AREA = Area("checksums", spec="State Validation")

DELETE = "delete the checksum; the next commit writes a new one"
DELETED_RECORDS = (0, 1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 2_147_483_647)
"""The first number of each bin of the histogram of deleted records. Spec: Deleted Record Counts Histogram Schema."""

NUM_FILES = COUNT_AREA.error(
    "crc.num-files",
    "`numFiles` of a version checksum differs from the number of live files.",
    broken="the checksum is wrong, or the log was changed later; engines that compare refuse the table",
    repair="check that no commit was changed, then delete the checksum",
    example='"numFiles":4 where 3 files are live',
)

TABLE_SIZE = COUNT_AREA.error(
    "crc.table-size",
    "`tableSizeBytes` of a version checksum differs from the total size of the live files.",
    broken="the checksum is wrong, or the log was changed later; engines that compare refuse the table",
    repair="check that no commit was changed, then delete the checksum",
    example='"tableSizeBytes":4096 where the live files sum up to 3072 bytes',
)

HISTOGRAM = COUNT_AREA.warning(
    "crc.histogram",
    "The histogram of file sizes of a version checksum is malformed, or does not match the live files.",
    spec="File Size Histogram Schema",
    broken="engines that plan by the histogram plan wrongly; some refuse a malformed one",
    repair=DELETE,
    example='"fileSizeHistogram":{"sortedBinBoundaries":[0,1024],"fileCounts":[3],"totalBytes":[2048]}',
)

DELETED_HISTOGRAM = COUNT_AREA.warning(
    "crc.deleted-histogram",
    "The histogram of deleted records of a version checksum lacks bins, or does not match the live files.",
    spec="Deleted Record Counts Histogram Schema",
    broken="engines that plan by the histogram plan wrongly; some refuse a malformed one",
    repair=DELETE,
    example='"deletedRecordCountsHistogramOpt":{"deletedRecordCounts":[3,0,0]}',
)

ALL_FILES = COUNT_AREA.error(
    "crc.all-files",
    "`allFiles` of a version checksum differs from the live files.",
    broken="engines that take the files from the checksum read different rows",
    repair="delete the checksum at once",
    example='"allFiles":[] where 3 files are live',
)

DV_COUNTS = COUNT_AREA.warning(
    "crc.dv-counts",
    "`numDeletedRecordsOpt` or `numDeletionVectorsOpt` of a version checksum differs from the totals of the live "
    "files.",
    broken="engines that count rows by the checksum count wrongly",
    repair=DELETE,
    example='"numDeletionVectorsOpt":0 where one live file has a deletion vector',
)


@COUNT_AREA.check(ChecksumView, NUM_FILES, TABLE_SIZE)
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
            message = (
                f"{name} of the checksum of version {view.version} is {value[name]}, but the commits give {number}"
            )
            yield rule.at(view.place(key=name), message, seen=value[name], expected=number)


@COUNT_AREA.check(ChecksumView, DV_COUNTS)
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


@COUNT_AREA.check(ChecksumView, HISTOGRAM)
def sizes_are_those_of_replay(view: ChecksumView) -> Iterator[Finding]:
    """Spec: File Size Histogram Schema."""
    value, expected = comparable(view)
    name, histogram = state.get_file_size_histogram(value)
    if histogram is None:
        return
    boundaries, counts, sizes = (state.get_histogram_list(histogram, part) for part in state.HISTOGRAM_LISTS)
    fault = state.find_histogram_fault(boundaries, counts, sizes)
    if fault:
        place = view.place(key=name)
        yield HISTOGRAM.at(place, f"{name} of the checksum of version {view.version} {fault}", seen=histogram)
        return
    found = _live_column(expected, "size")
    if found is None:
        return
    live_counts, live_sizes = bins_of(found, boundaries or ())
    for part, claimed, live in (("fileCounts", counts, live_counts), ("totalBytes", sizes, live_sizes)):
        if claimed != live:
            yield differs(view, HISTOGRAM, f"{name}.{part}", *_first_difference(boundaries or (), claimed or (), live))


@COUNT_AREA.check(ChecksumView, DELETED_HISTOGRAM)
def deleted_records_are_those_of_replay(view: ChecksumView) -> Iterator[Finding]:
    """Spec: Deleted Record Counts Histogram Schema."""
    value, expected = comparable(view)
    name = "deletedRecordCountsHistogramOpt"
    histogram = value.get(name)
    if histogram is None:
        return
    counts = state.get_histogram_list(histogram, "deletedRecordCounts")
    if counts is None or len(counts) != len(DELETED_RECORDS):
        message = f"{name} of the checksum of version {view.version} does not have {len(DELETED_RECORDS)} bins"
        place = view.place(key=name)
        yield DELETED_HISTOGRAM.at(place, message, seen=histogram, expected=f"{len(DELETED_RECORDS)} numbers")
        return
    cardinalities = _live_column(expected, "dv_cardinality", absent=0)
    if cardinalities is None:
        return
    live, _ = bins_of(cardinalities, DELETED_RECORDS)
    if counts != live:
        yield differs(view, DELETED_HISTOGRAM, name, *_first_difference(DELETED_RECORDS, counts, live))


@COUNT_AREA.check(ChecksumView, ALL_FILES)
def files_are_those_of_replay(view: ChecksumView) -> Iterator[Finding]:
    """Files are compared by path and deletion vector. For a file in both, the size and the partition must be equal."""
    value, expected = comparable(view)
    listed = value.get("allFiles")
    if expected is None or listed is None:
        return
    rows = state.get_action_list(listed)
    if rows is None or len(rows) != expected.totals.files:
        seen = listed if rows is None else plural(len(rows), "file")
        yield differs(view, ALL_FILES, "allFiles", seen, plural(expected.totals.files, "file"))
        return
    actual = {_key_of(row): row for row in rows}
    for live in expected.live():
        row = actual.pop((canonicalize_path(live.path), live.dv_id), None)
        if row is None:
            message = f"allFiles of the checksum of version {view.version} lacks {live.path}"
            yield ALL_FILES.at(view.place(key=live.path), message, seen="missing", expected="live")
            continue
        for name in ("size", "partitionValues"):
            if name in live.add and _plain(row.get(name)) != _plain(live.add[name]):
                message = f"{name} of {live.path} in the checksum of version {view.version} differs from the commits"
                yield ALL_FILES.at(view.place(key=live.path), message, seen=row.get(name), expected=live.add[name])
    for path, _ in actual:
        message = f"allFiles of the checksum of version {view.version} has {path}, which is not live"
        yield ALL_FILES.at(view.place(key=path), message, seen="there", expected="not live")


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


def comparable(view: ChecksumView) -> tuple[JsonObject, ExpectedState | None]:
    """Return the checksum and the replayed state of its version, or None if they cannot be compared."""
    value = state.read_checksum(view.data)
    expected = view.expected
    return value or {}, expected if value is not None else None


def differs(view: ChecksumView, rule: Rule, name: str, actual: object, expected: object) -> Finding:
    """Return a finding for a field of the checksum that differs from replay."""
    return rule.at(
        view.place(key=name),
        f"{name} of the checksum of version {view.version} differs from the commits",
        seen="none" if actual is None else actual,
        expected="none" if expected is None else expected,
    )


def report_differences(
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
    if expected is None or expected.columns is None:
        return None
    column = expected.columns().column(name)
    if absent is not None:
        column = pc.fill_null(column, pa.scalar(absent, pa.int64()))
    if column.null_count:
        return None
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], pa.int64())


def _first_difference(boundaries: Sequence[int], claimed: Sequence[int], live: Sequence[int]) -> tuple[str, str]:
    """Return the first bin that differs, as claimed and as computed."""
    for boundary, one, other in zip(boundaries, claimed, live, strict=True):
        if one != other:
            return f"{one} from {boundary} on", f"{other} from {boundary} on"
    return "", ""


def _key_of(row: Action) -> tuple[str, str]:
    vector = row.get("deletionVector")
    return canonicalize_path(str(row.get("path"))), unique_id(vector) if vector and find_descriptor_fault(
        vector
    ) is None else ""


def _plain(value: object) -> object:
    """Return partition values with null for the empty text, which has the same meaning."""
    return {name: text or None for name, text in value.items()} if isinstance(value, dict) else value


# -- rules about version checksums -------------------------------------------------------------------------------------

AREA = Area("checksums", spec="Version Checksum File Schema")

BAD_JSON = AREA.warning(
    "crc.bad-json",
    "A version checksum is not a single JSON object.",
    broken="engines that read it ignore it or fail on it",
    repair=DELETE,
    example='00000000000000000004.crc holds {"tableSizeBytes":20',
)

MISSING_REQUIRED = AREA.warning(
    "crc.missing-required",
    "A version checksum lacks a required field, or has a field of the wrong type.",
    broken="engines that need the field ignore the checksum or fail on it",
    repair=DELETE,
    example='{"tableSizeBytes":2048,"numFiles":3} without protocol and metadata',
)

METADATA_DIFFERS = AREA.error(
    "crc.metadata-differs",
    "The metadata of a version checksum differs from the commits.",
    spec="State Validation",
    broken="engines that take the metadata from the checksum read and write with a wrong schema or properties",
    repair="delete the checksum at once",
    example='"metadata":{"partitionColumns":["q"],…} where the commits have ["p"]',
)

PROTOCOL_DIFFERS = AREA.error(
    "crc.protocol-differs",
    "The protocol of a version checksum differs from the commits.",
    spec="State Validation",
    broken="engines that take the protocol from the checksum miss features, and read or write wrongly",
    repair="delete the checksum at once",
    example='"protocol":{"minReaderVersion":1,…} where the commits have 3',
)

COUNTS_NOT_ONE = AREA.error(
    "crc.counts-not-one",
    "`numMetadata` or `numProtocol` of a version checksum is not 1.",
    broken="engines that verify checksums refuse the table or ignore the checksum",
    repair=DELETE,
    example='"numProtocol":2',
)

COMMIT_TIME = AREA.warning(
    "crc.ict",
    "`inCommitTimestampOpt` of a version checksum differs from the in-commit timestamp of its commit.",
    broken="engines that take the time of the version from the checksum time travel to the wrong version",
    repair=DELETE,
    example='"inCommitTimestampOpt":1768003200000 where the commit has 1768003200001',
)

TRANSACTIONS = AREA.warning(
    "crc.txns",
    "`setTransactions` of a version checksum differs from the transaction identifiers of the commits.",
    broken="a stream that reads its progress from the checksum writes batches twice or skips some",
    repair=DELETE,
    example='"setTransactions":[{"appId":"stream-1","version":41}] where the commits have 42',
)

DOMAINS = AREA.warning(
    "crc.domains",
    "`domainMetadata` of a version checksum differs from the live domains of the commits.",
    broken="engines that take domains from the checksum assign row ids twice or lose clustering",
    repair=DELETE,
    example='"domainMetadata":[] where the commits have the domain delta.rowTracking',
)

WITHOUT_COMMIT = AREA.error(
    "crc.without-commit",
    "A version checksum has no commit. A warning below the oldest commit.",
    spec="Version Checksum File: Writer Requirements",
    broken="nothing if the commit was cleaned up; above the newest commit it describes a version that does not exist, "
    "and several engines refuse the table",
    repair="delete the checksum",
    example="00000000000000000007.crc where the newest commit is 6",
)

MISSING = AREA.info(
    "crc.missing",
    "Most versions have a checksum, but some do not.",
    spec="Version Checksum File: Writer Requirements",
    broken="nothing; these versions cannot be compared with the state their writer assumed",
    repair="no repair needed",
    example="checksums of the versions 0-4 and 6-9",
)


@AREA.check(ChecksumView, BAD_JSON, MISSING_REQUIRED, COUNTS_NOT_ONE)
def a_checksum_is_complete(view: ChecksumView) -> Iterator[Finding]:
    """Spec: Version Checksum File Schema."""
    value = state.read_checksum(view.data)
    if value is None:
        message = f"the checksum of version {view.version} is not a single JSON object"
        place = view.place()
        yield BAD_JSON.at(place, message, seen=view.data[:100].decode("utf-8", "replace"), expected="one JSON object")
        return
    absent = [name for name in state.REQUIRED_CHECKSUM_FIELDS if value.get(name) is None]
    if absent:
        yield MISSING_REQUIRED.at(
            view.place(key=absent[0]),
            f"the checksum of version {view.version} lacks {', '.join(absent)}",
            seen=f"fields {', '.join(value)}",
            expected=", ".join(state.REQUIRED_CHECKSUM_FIELDS),
        )
    for name, wanted in state.REQUIRED_CHECKSUM_FIELDS.items():
        if name not in absent and type(value[name]) is not wanted:
            words = "an integer" if wanted is int else "an object"
            message = f"{name} of the checksum of version {view.version} is not {words}"
            yield MISSING_REQUIRED.at(view.place(key=name), message, seen=value[name], expected=words)
    for name in ("numMetadata", "numProtocol"):
        if type(value.get(name)) is int and value[name] != 1:
            message = f"{name} of the checksum of version {view.version} is {value[name]}"
            yield COUNTS_NOT_ONE.at(view.place(key=name), message, seen=value[name], expected=1)


@AREA.check(ChecksumView, METADATA_DIFFERS, PROTOCOL_DIFFERS)
def checksum_configuration_is_that_of_replay(view: ChecksumView) -> Iterator[Finding]:
    """Spelling of schemas and order of properties and features are ignored."""
    value, expected = comparable(view)
    if expected is None:
        return
    if isinstance(value.get("metadata"), dict) and expected.config.metadata is not None:
        try:
            metadata = state.read_metadata(value["metadata"], view.path)
        except CommitCorrupt as fault:
            yield METADATA_DIFFERS.at(view.place(key="metadata"), fault.message, seen=value["metadata"])
        else:
            actual, wanted = metadata.as_json(), expected.config.metadata.as_json()
            for name in state.find_metadata_differences(metadata, expected.config.metadata):
                top = name.partition(".")[0]
                yield differs(view, METADATA_DIFFERS, f"metadata.{name}", actual.get(top), wanted.get(top))
    if isinstance(value.get("protocol"), dict) and expected.config.protocol is not None:
        try:
            protocol = state.read_protocol(value["protocol"], view.path)
        except CommitCorrupt as fault:
            yield PROTOCOL_DIFFERS.at(view.place(key="protocol"), fault.message, seen=value["protocol"])
        else:
            actual, wanted = protocol.as_json(), expected.config.protocol.as_json()
            for name in state.find_protocol_differences(protocol, expected.config.protocol):
                yield differs(view, PROTOCOL_DIFFERS, f"protocol.{name}", actual.get(name), wanted.get(name))


@AREA.check(ChecksumView, COMMIT_TIME)
def the_time_is_that_of_the_commit(view: ChecksumView) -> Iterator[Finding]:
    """Present if and only if in-commit timestamps are on. Spec: Version Checksum File Schema."""
    value, expected = comparable(view)
    if expected is None or expected.config.protocol is None or expected.config.metadata is None:
        return
    name, actual = "inCommitTimestampOpt", value.get("inCommitTimestampOpt")
    if (actual is not None) is not expected.config.has_ict:
        yield COMMIT_TIME.at(
            view.place(key=name),
            f"the checksum of version {view.version} has {'no' if actual is None else 'an'} in-commit timestamp, and "
            f"the table {'has them' if actual is None else 'does not use them'}",
            seen="none" if actual is None else actual,
            expected=expected.in_commit_timestamp if actual is None else "none",
        )
    elif actual is not None and expected.in_commit_timestamp not in (None, actual):
        message = f"{name} of the checksum of version {view.version} differs from the timestamp of its commit"
        yield COMMIT_TIME.at(view.place(key=name), message, seen=actual, expected=expected.in_commit_timestamp)


@AREA.check(ChecksumView, TRANSACTIONS)
def checksum_transactions_are_those_of_replay(view: ChecksumView) -> Iterator[Finding]:
    """Only versions are compared: it is unknown which transactions had expired when the checksum was written."""
    value, expected = comparable(view)
    listed = value.get("setTransactions")
    if expected is None or listed is None:
        return
    rows = state.get_action_list(listed)
    if rows is None:
        yield differs(view, TRANSACTIONS, "setTransactions", listed, "a list of transactions")
        return
    actual = {str(row.get("appId")): row.get("version") for row in rows}
    wanted = {application: version for application, (version, _) in expected.transactions.items()}
    names = actual.keys() & wanted.keys()
    if state.TRANSACTION_RETENTION not in expected.config.properties:
        names = actual.keys() | wanted.keys()
    yield from report_differences(view, TRANSACTIONS, "the transaction of", names, actual, wanted)


@AREA.check(ChecksumView, DOMAINS)
def checksum_domains_are_those_of_replay(view: ChecksumView) -> Iterator[Finding]:
    """Removed domains are ignored. Spec: Version Checksum File Schema."""
    value, expected = comparable(view)
    listed = value.get("domainMetadata")
    if expected is None or listed is None:
        return
    rows = state.get_action_list(listed)
    if rows is None:
        yield differs(view, DOMAINS, "domainMetadata", listed, "a list of domains")
        return
    actual = {
        str(row.get("domain")): "removed: true" if row.get("removed") is True else row.get("configuration") or ""
        for row in rows
    }
    names = actual.keys() | expected.domains.keys()
    yield from report_differences(view, DOMAINS, "the domain", names, actual, expected.domains)


@AREA.check(ListingView, WITHOUT_COMMIT)
def checksums_have_their_commits(view: ListingView) -> Iterator[Finding]:
    """Another rule reports a missing commit between others. Spec: Version Checksum File."""
    commits = view.listing.commits
    if not commits or (view.config.protocol is not None and view.config.protocol.is_catalog_managed):
        return
    oldest, newest = min(commits), view.newest_commit
    versions = _versions_with_checksum(view)
    below = [version for version in versions if version < oldest]
    above = [version for version in versions if version > newest]
    for outside, words in ((below, f"the oldest commit is {oldest}"), (above, f"the newest commit is {newest}")):
        if outside:
            yield WITHOUT_COMMIT.at(
                view.place(f"{outside[0]:020d}.crc", outside[0]),
                f"there is no commit for the checksum of version {format_ranges(outside)}: {words}",
                seen=format_ranges(outside),
                expected=f"{oldest}-{newest}",
                severity=Severity.WARNING if outside is below else None,
                cases=("cleaned up" if outside is below else "ahead",),
            )


@AREA.check(HistoryView, MISSING)
def versions_have_a_checksum(view: HistoryView) -> Iterator[Finding]:
    """From the first checksum on, if most versions have one. That of the newest commit may still be written, and Spark
    writes none after a RESTORE.
    """
    commits = view.listing.commits
    having = {version for version in view.listing.checksums if version in commits}
    if not having:
        return
    first, newest = min(having), max(commits)
    restored = {commit.version for commit in view.commits if (commit.commit_info or {}).get("operation") == "RESTORE"}
    due = [version for version in commits if first <= version]
    lacking = [version for version in due if version not in having | restored | {newest}]
    if lacking and 2 * len(having) > len(due):
        has = "has" if len(lacking) == 1 else "have"
        message = f"{len(lacking)} of {len(due)} versions {has} no checksum: {format_ranges(lacking)}"
        expected = "a checksum for each commit"
        yield MISSING.at(Place(LOG_DIRECTORY), message, seen=format_ranges(having), expected=expected)


def _versions_with_checksum(view: ListingView) -> list[int]:
    return [file.version for file in view.files if file.path.kind is LogFileKind.CHECKSUM]
