"""The state that a version checksum gives for its version. Spec: Version Checksum File Schema."""

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

_SHOWN = 40


class ChecksumState(NamedTuple):
    """The state of a version as its checksum gives it; None where it has no such field."""

    protocol: Protocol
    metadata: Metadata
    files: int
    size_bytes: int
    vectors: int | None
    deleted_rows: int | None
    histogram: Mapping[str, list[int]] | None
    """Three lists of numbers, one for each bin, by their names in the protocol."""
    transactions: tuple[SetTransaction, ...] | None
    """None also where transactions expire: the log has those that had expired when the checksum was written."""
    domains: tuple[DomainMetadata, ...] | None
    txn_id: str | None
    in_commit_timestamp: int | None


def require_checksum(data: bytes, name: str) -> ChecksumState:
    """Return the state that a checksum gives. Raises CommitCorrupt unless each field that is read has a value that a
    state can have, and they agree with each other.
    """
    value = read_checksum(data)
    if value is None:
        raise CommitCorrupt(f"{name} is not a single JSON object", file=name)
    for field, kind in REQUIRED_OF_CHECKSUM.items():
        if value.get(field) is None:
            raise missing(field, name)
        if type(value[field]) is not kind:
            raise wrong_type(field, shown(value[field]), name)
    for field, kind in (("txnId", str), ("inCommitTimestampOpt", int)):
        if value.get(field) is not None and type(value[field]) is not kind:
            raise wrong_type(field, shown(value[field]), name)
    for field, reason in _faults_of_numbers(value):
        raise CommitCorrupt(f"{name}: {field} {reason}", file=name)
    _, histogram = histogram_of(value)
    state = StateBuilder()
    state.take(_actions_of(value, name), name)
    assert state.protocol is not None
    assert state.metadata is not None
    may_expire = TRANSACTION_RETENTION in state.metadata.configuration
    found = ChecksumState(
        protocol=state.protocol,
        metadata=state.metadata,
        files=value["numFiles"],
        size_bytes=value["tableSizeBytes"],
        vectors=value.get("numDeletionVectorsOpt"),
        deleted_rows=value.get("numDeletedRecordsOpt"),
        histogram=None if histogram is None else {part: numbers_of(histogram, part) or [] for part in HISTOGRAM_LISTS},
        transactions=None if may_expire or value.get("setTransactions") is None else state.live_transactions,
        domains=None if value.get("domainMetadata") is None else state.live_domains,
        txn_id=value.get("txnId"),
        in_commit_timestamp=value.get("inCommitTimestampOpt"),
    )
    if (found.in_commit_timestamp is not None) is not has_in_commit_timestamps(found.protocol, found.metadata):
        has = "no" if found.in_commit_timestamp is None else "an"
        raise CommitCorrupt(f"{name} has {has} in-commit timestamp, unlike its table", file=name)
    return found


def _actions_of(value: JsonObject, name: str) -> Iterator[tuple[str, Action]]:
    yield "protocol", value["protocol"]
    yield "metaData", value["metadata"]
    for field, kind in (("setTransactions", "txn"), ("domainMetadata", "domainMetadata")):
        rows = rows_of([] if value.get(field) is None else value[field])
        if rows is None:
            raise wrong_type(field, shown(value[field]), name)
        yield from ((kind, row) for row in rows)


def _faults_of_numbers(value: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield the fields with numbers that no state has, each with what is wrong."""
    files, size_bytes = value["numFiles"], value["tableSizeBytes"]
    for field, least, most in (
        ("numMetadata", 1, 1),
        ("numProtocol", 1, 1),
        ("numFiles", 0, 2**63 - 1),
        ("tableSizeBytes", 0, 2**63 - 1 if files else 0),
        ("numDeletionVectorsOpt", 0, files),
        ("numDeletedRecordsOpt", 0, 2**63 - 1),
    ):
        number = value.get(field)
        if number is not None and (type(number) is not int or not least <= number <= most):
            yield field, f"is {shown(number)[:_SHOWN]}"
    listed = value.get("allFiles")
    if listed is not None and (not isinstance(listed, list) or len(listed) != files):
        yield "allFiles", "has another number of files than numFiles"
    name, histogram = histogram_of(value)
    if histogram is not None:
        boundaries, counts, sizes = (numbers_of(histogram, part) for part in HISTOGRAM_LISTS)
        if fault := fault_of_histogram(boundaries, counts, sizes):
            yield name, fault
        elif (sum(counts or ()), sum(sizes or ())) != (files, size_bytes) or min([*(counts or ()), *(sizes or ())]) < 0:
            yield name, "does not add up to numFiles and tableSizeBytes"
