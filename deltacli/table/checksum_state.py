"""Parse the checksum file of a version, and reject values that no version can have.

A checksum file contains the protocol, the metadata, the number and size of live files and more.
`version_from_checksum.py` uses it to answer questions about a version without a replay, so its content
must be plausible: for example, `numFiles` must be the sum of the histogram of file sizes.

Spec: Version Checksum File.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from deltacli.core.errors import CommitCorrupt
from deltacli.core.typing import JsonObject
from deltacli.delta.log.actions import Action, format_json_value, missing_field_error, wrong_type_error
from deltacli.delta.log.state import (
    HISTOGRAM_LISTS,
    REQUIRED_CHECKSUM_FIELDS,
    TRANSACTION_RETENTION,
    DomainMetadata,
    Metadata,
    SetTransaction,
    StateBuilder,
    find_histogram_fault,
    get_action_list,
    get_file_size_histogram,
    get_histogram_list,
    has_in_commit_timestamps,
    read_checksum,
)
from deltacli.delta.protocol.features import Protocol

_MAX_CHARACTERS_SHOWN = 40
_MAX_INT64 = 2**63 - 1


class ChecksumState(NamedTuple):
    """The content of a checksum file. Optional fields that the file does not contain are None.

    Attributes:
        protocol: The protocol.
        metadata: The metadata.
        files: The number of live files.
        size_bytes: The total size of the live files.
        vectors: The number of deletion vectors.
        deleted_rows: The number of rows that are deleted by deletion vectors.
        histogram: The histogram of file sizes: the three lists `sortedBinBoundaries`, `fileCounts`
            and `totalBytes`.
        transactions: The newest transaction of each application. None also if the table has a
            retention for transactions: the file does not contain transactions that had expired when
            it was written, but the log does.
        domains: The domain metadata.
        txn_id: The transaction id, which is also in the `commitInfo` of the commit.
        in_commit_timestamp: The in-commit timestamp of the version in epoch milliseconds.
    """

    protocol: Protocol
    metadata: Metadata
    files: int
    size_bytes: int
    vectors: int | None
    deleted_rows: int | None
    histogram: Mapping[str, list[int]] | None
    transactions: tuple[SetTransaction, ...] | None
    domains: tuple[DomainMetadata, ...] | None
    txn_id: str | None
    in_commit_timestamp: int | None


def parse_checksum_state(data: bytes, name: str) -> ChecksumState:
    """Parse and check a checksum file.

    Args:
        data: The content of the file.
        name: The name of the file, for error messages.

    Raises:
        CommitCorrupt: If a required field is missing, a value is impossible, or fields contradict
            each other.
    """
    checksum = read_checksum(data)
    if checksum is None:
        raise CommitCorrupt(f"{name} is not a single JSON object", file=name)
    _require_types(checksum, name)
    for field, reason in _find_impossible_numbers(checksum):
        raise CommitCorrupt(f"{name}: {field} {reason}", file=name)

    builder = StateBuilder()
    builder.add_actions(_iterate_actions(checksum, name), name)
    assert builder.protocol is not None
    assert builder.metadata is not None

    # `_find_impossible_numbers` has checked the lists of the histogram.
    _, raw_histogram = get_file_size_histogram(checksum)
    histogram = None
    if raw_histogram is not None:
        histogram = {part: get_histogram_list(raw_histogram, part) or [] for part in HISTOGRAM_LISTS}
    # If transactions expire, the list depends on the time at which the file was written.
    transactions_may_expire = TRANSACTION_RETENTION in builder.metadata.configuration
    has_transactions = checksum.get("setTransactions") is not None and not transactions_may_expire
    has_domains = checksum.get("domainMetadata") is not None
    state = ChecksumState(
        protocol=builder.protocol,
        metadata=builder.metadata,
        files=checksum["numFiles"],
        size_bytes=checksum["tableSizeBytes"],
        vectors=checksum.get("numDeletionVectorsOpt"),
        deleted_rows=checksum.get("numDeletedRecordsOpt"),
        histogram=histogram,
        transactions=builder.live_transactions if has_transactions else None,
        domains=builder.live_domains if has_domains else None,
        txn_id=checksum.get("txnId"),
        in_commit_timestamp=checksum.get("inCommitTimestampOpt"),
    )

    has_timestamp = state.in_commit_timestamp is not None
    if has_timestamp is not has_in_commit_timestamps(state.protocol, state.metadata):
        article = "an" if has_timestamp else "no"
        raise CommitCorrupt(f"{name} has {article} in-commit timestamp, unlike its table", file=name)
    return state


def _require_types(checksum: JsonObject, name: str) -> None:
    """Raise CommitCorrupt if a required field is missing, or a field has the wrong type."""
    for field, field_type in REQUIRED_CHECKSUM_FIELDS.items():
        if checksum.get(field) is None:
            raise missing_field_error(field, name)
        if type(checksum[field]) is not field_type:
            raise wrong_type_error(field, format_json_value(checksum[field]), name)
    for field, field_type in (("txnId", str), ("inCommitTimestampOpt", int)):
        if checksum.get(field) is not None and type(checksum[field]) is not field_type:
            raise wrong_type_error(field, format_json_value(checksum[field]), name)


def _iterate_actions(checksum: JsonObject, name: str) -> Iterator[tuple[str, Action]]:
    """Yield the protocol, metadata, transactions and domains of a checksum as pairs of action kind and action."""
    yield "protocol", checksum["protocol"]
    yield "metaData", checksum["metadata"]
    for field, kind in (("setTransactions", "txn"), ("domainMetadata", "domainMetadata")):
        actions = get_action_list([] if checksum.get(field) is None else checksum[field])
        if actions is None:
            raise wrong_type_error(field, format_json_value(checksum[field]), name)
        yield from ((kind, action) for action in actions)


def _find_impossible_numbers(checksum: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield the numeric fields that no version can have, each with the reason.

    For example, `("numDeletionVectorsOpt", "is 12")` if there are only 10 files.
    """
    files = checksum["numFiles"]
    size_bytes = checksum["tableSizeBytes"]
    # There is one protocol and one metadata, a table without files has no bytes, and a file has at
    # most one vector.
    for field, minimum, maximum in (
        ("numMetadata", 1, 1),
        ("numProtocol", 1, 1),
        ("numFiles", 0, _MAX_INT64),
        ("tableSizeBytes", 0, _MAX_INT64 if files else 0),
        ("numDeletionVectorsOpt", 0, files),
        ("numDeletedRecordsOpt", 0, _MAX_INT64),
    ):
        number = checksum.get(field)
        if number is not None and (type(number) is not int or not minimum <= number <= maximum):
            yield field, f"is {format_json_value(number)[:_MAX_CHARACTERS_SHOWN]}"

    listed_files = checksum.get("allFiles")
    if listed_files is not None and (not isinstance(listed_files, list) or len(listed_files) != files):
        yield "allFiles", "has another number of files than numFiles"

    histogram_name, histogram = get_file_size_histogram(checksum)
    if histogram is not None:
        reason = _explain_invalid_histogram(histogram, files, size_bytes)
        if reason:
            yield histogram_name, reason


def _explain_invalid_histogram(histogram: object, files: int, size_bytes: int) -> str:
    """Return why a histogram of file sizes is impossible; empty if it is possible.

    A histogram consists of three lists of the same length: the lower boundaries of the bins, and the number and
    the total size of the files in each bin.

        sortedBinBoundaries   [0, 8192, 16384]
        fileCounts            [2,    0,     1]     the sum is `files`
        totalBytes            [9000, 0, 20000]     the sum is `size_bytes`

    Args:
        histogram: The histogram as in the checksum file. It may be any JSON value.
        files: The number of live files.
        size_bytes: The total size of the live files.
    """
    boundaries, counts, sizes = (get_histogram_list(histogram, part) for part in HISTOGRAM_LISTS)
    reason = find_histogram_fault(boundaries, counts, sizes)
    if reason or counts is None or sizes is None:
        return reason

    adds_up = sum(counts) == files and sum(sizes) == size_bytes
    if not adds_up or min(*counts, *sizes) < 0:
        return "does not add up to numFiles and tableSizeBytes"
    return ""
