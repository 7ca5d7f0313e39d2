"""Read the state of a version from its checksum file (`N.crc`), and judge whether a state can be so.

Spec: Version Checksum File.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from deltacli.core.errors import CommitCorrupt
from deltacli.core.typing import JsonObject
from deltacli.delta.log.actions import Action, missing, shown, wrong_type
from deltacli.delta.log.state import (
    HISTOGRAM_LISTS,
    REQUIRED_OF_CHECKSUM,
    TRANSACTION_RETENTION,
    DomainMetadata,
    Metadata,
    SetTransaction,
    StateBuilder,
    fault_of_histogram,
    has_in_commit_timestamps,
    histogram_of,
    numbers_of,
    read_checksum,
    rows_of,
)
from deltacli.delta.protocol.features import Protocol

_CHARACTERS_SHOWN = 40
_MOST_INT64 = 2**63 - 1


class ChecksumState(NamedTuple):
    """The state of a version as its checksum gives it; None for what the checksum does not have.

    Attributes:
        protocol: The protocol.
        metadata: The metadata.
        files: The number of live files.
        size_bytes: The bytes of the live files.
        vectors: The number of deletion vectors.
        deleted_rows: The number of rows that these delete.
        histogram: Three lists of numbers, one for each bin, by their names in the protocol.
        transactions: The newest version of each application. None also if transactions expire: the log has
            those that had expired when the checksum was written.
        domains: The metadata of domains.
        txn_id: The id of the transaction that the commit of the version has, too.
        in_commit_timestamp: The in-commit timestamp of the version, in epoch milliseconds.
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
    """Return the state that a checksum gives.

    Args:
        data: The bytes of the file.
        name: Its name, for errors.

    Raises:
        CommitCorrupt: If a field that is read has a value that no state can have, or fields contradict
            each other.
    """
    value = read_checksum(data)
    if value is None:
        raise CommitCorrupt(f"{name} is not a single JSON object", file=name)
    _require_types(value, name)
    for field, reason in _find_impossible_numbers(value):
        raise CommitCorrupt(f"{name}: {field} {reason}", file=name)

    builder = StateBuilder()
    builder.take(_iterate_actions(value, name), name)
    assert builder.protocol is not None
    assert builder.metadata is not None

    _, raw_histogram = histogram_of(value)
    histogram = None
    if raw_histogram is not None:
        histogram = {part: numbers_of(raw_histogram, part) or [] for part in HISTOGRAM_LISTS}
    # An expired transaction is in the checksum or not, depending on when it was written.
    transactions_may_expire = TRANSACTION_RETENTION in builder.metadata.configuration
    has_transactions = value.get("setTransactions") is not None and not transactions_may_expire
    has_domains = value.get("domainMetadata") is not None
    state = ChecksumState(
        protocol=builder.protocol,
        metadata=builder.metadata,
        files=value["numFiles"],
        size_bytes=value["tableSizeBytes"],
        vectors=value.get("numDeletionVectorsOpt"),
        deleted_rows=value.get("numDeletedRecordsOpt"),
        histogram=histogram,
        transactions=builder.live_transactions if has_transactions else None,
        domains=builder.live_domains if has_domains else None,
        txn_id=value.get("txnId"),
        in_commit_timestamp=value.get("inCommitTimestampOpt"),
    )

    has_timestamp = state.in_commit_timestamp is not None
    if has_timestamp is not has_in_commit_timestamps(state.protocol, state.metadata):
        article = "an" if has_timestamp else "no"
        raise CommitCorrupt(f"{name} has {article} in-commit timestamp, unlike its table", file=name)
    return state


def _require_types(value: JsonObject, name: str) -> None:
    """Raise CommitCorrupt if a field is missing, or has another type than the protocol says."""
    for field, kind in REQUIRED_OF_CHECKSUM.items():
        if value.get(field) is None:
            raise missing(field, name)
        if type(value[field]) is not kind:
            raise wrong_type(field, shown(value[field]), name)
    for field, kind in (("txnId", str), ("inCommitTimestampOpt", int)):
        if value.get(field) is not None and type(value[field]) is not kind:
            raise wrong_type(field, shown(value[field]), name)


def _iterate_actions(value: JsonObject, name: str) -> Iterator[tuple[str, Action]]:
    """Yield the fields of a checksum as the actions that a commit would have."""
    yield "protocol", value["protocol"]
    yield "metaData", value["metadata"]
    for field, kind in (("setTransactions", "txn"), ("domainMetadata", "domainMetadata")):
        rows = rows_of([] if value.get(field) is None else value[field])
        if rows is None:
            raise wrong_type(field, shown(value[field]), name)
        yield from ((kind, row) for row in rows)


def _find_impossible_numbers(value: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield the fields with numbers that no state has, each with what is wrong."""
    files = value["numFiles"]
    size_bytes = value["tableSizeBytes"]
    # A state has one protocol and one metadata, no bytes without files, and at most one vector per file.
    for field, least, most in (
        ("numMetadata", 1, 1),
        ("numProtocol", 1, 1),
        ("numFiles", 0, _MOST_INT64),
        ("tableSizeBytes", 0, _MOST_INT64 if files else 0),
        ("numDeletionVectorsOpt", 0, files),
        ("numDeletedRecordsOpt", 0, _MOST_INT64),
    ):
        number = value.get(field)
        if number is not None and (type(number) is not int or not least <= number <= most):
            yield field, f"is {shown(number)[:_CHARACTERS_SHOWN]}"

    listed_files = value.get("allFiles")
    if listed_files is not None and (not isinstance(listed_files, list) or len(listed_files) != files):
        yield "allFiles", "has another number of files than numFiles"

    name, histogram = histogram_of(value)
    if histogram is None:
        return
    boundaries, counts, sizes = (numbers_of(histogram, part) for part in HISTOGRAM_LISTS)
    fault = fault_of_histogram(boundaries, counts, sizes)
    if fault:
        yield name, fault
        return
    numbers = [*(counts or ()), *(sizes or ())]
    adds_up = sum(counts or ()) == files and sum(sizes or ()) == size_bytes
    if not adds_up or min(numbers) < 0:
        yield name, "does not add up to numFiles and tableSizeBytes"
