"""The content of a new commit, the live files that it depends on, and what prevents it.

Paths of files are compared in the spelling of replay, without vectors: a new vector of a file changes it for everybody
who read or removes the file. Spec: Delta Log Entries; Commit Provenance Information; In-Commit Timestamps; Row
Tracking.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

import orjson

from deltacli.core.errors import Refused
from deltacli.core.hints import DoubleQuoted, command
from deltacli.delta.log.action_fields import too_deep
from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.commit_metadata import NO_METADATA
from deltacli.delta.log.log_path import MAX_VERSION
from deltacli.delta.log.row_ids import DOMAIN, ENABLED, FEATURE, NO_MARK, assigns_row_ids, mark_action
from deltacli.delta.log.segment import MAX_TIME_MS
from deltacli.delta.log.state import Metadata, has_in_commit_timestamps, read_metadata, read_protocol
from deltacli.delta.paths import canonical
from deltacli.delta.protocol.property_values import ICT_ENABLEMENT_TIMESTAMP, ICT_ENABLEMENT_VERSION, is_true
from deltacli.delta.protocol.protocol_action import Protocol, require_committable, require_readable

MAX_ROW_ID = (1 << 63) - 1

_OURS = "the new commit"
_ROWS_KEPT = {"delta.rowTracking.preserved": "true"}


class Slot(NamedTuple):
    """The place of a commit in the log, which the lines of its adds depend on. Their rows get ids from `first_row_id`
    on where they have none, `new_rows` of them, and `version` as their `defaultRowCommitVersion`; if it is None, adds
    have neither.
    """

    version: int
    first_row_id: int | None = None
    new_rows: int = 0


class OnConflict(Enum):
    """What to do with a request when another writer has changed what it was made from."""

    PLAN_AGAIN = "make it again from the newest version"
    DROP = "drop it where its files have changed; otherwise make it again"


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """The content of a new commit: at most one protocol and one metaData, transactions, domains, and a body of any
    size, each action as in the log. `operation_parameters`: texts, numbers and booleans are written unchanged, objects
    and arrays as JSON text. `tags` are added to the commitInfo, which always records that row ids are preserved. The
    high-water mark of row ids is not a domain of the request: it follows from `new_rows`.
    """

    operation: str
    operation_parameters: Mapping[str, object] = field(default_factory=dict)
    operation_metrics: Mapping[str, int | str] = field(default_factory=dict)
    protocol: Action | None = None
    metadata: Action | None = None
    transactions: tuple[Action, ...] = ()
    domains: tuple[Action, ...] = ()
    body: Callable[[Slot], Iterable[bytes]] | None = None
    """Yields the lines of its files, `{"add": …}` and `{"remove": …}`, in pieces of whole lines. It is called once per
    version that is tried, and what it yields is not kept."""
    new_rows: int = 0
    """The number of rows in adds without `baseRowId`. Deleted rows count."""
    tags: Mapping[str, str] = field(default_factory=dict)
    reads: FilesRead | None = None
    "The live files that it depends on, including those that it removes. A commit that changes them makes it stale."
    on_conflict: OnConflict = OnConflict.PLAN_AGAIN
    domains_read: tuple[str, ...] = ()
    "The domains that it depends on without writing them."
    drops: tuple[str, ...] = ()
    "The features that its protocol no longer has."
    is_blind_append: bool = False
    "It only adds files, and depends on none."
    names_files: bool = False
    "Its adds name files that were there before and that no live version needs to have: a vacuum may delete them."
    names_version: bool = False
    "Its actions contain the version of the commit, as `tableVersion` in a schema does."

    @property
    def domain_names(self) -> tuple[str, ...]:
        """Return the domains that it writes, and therefore has read."""
        return tuple(str(action["domain"]) for action in self.domains)

    @property
    def app_ids(self) -> tuple[str, ...]:
        """Return the applications whose transactions it writes, and therefore has read."""
        return tuple(str(action["appId"]) for action in self.transactions)


class Base(NamedTuple):
    """The version that a commit follows: -1 with the configuration of the new table before version 0. `committed_ms`:
    its commit time in epoch milliseconds; None if the commit has no in-commit timestamp, which alone depends on it.
    `row_id_mark`: the highest row id that was ever assigned.
    """

    version: int
    protocol: Protocol
    metadata: Metadata
    committed_ms: int | None = None
    row_id_mark: int = NO_MARK

    @property
    def is_stamped(self) -> bool:
        """Return True if this version has in-commit timestamps."""
        return has_in_commit_timestamps(self.protocol, self.metadata)


def is_stamped(request: CommitRequest, base: Base) -> bool:
    """Return True if the version made by the request has in-commit timestamps."""
    return has_in_commit_timestamps(*_after(request, base))


def encode(
    request: CommitRequest,
    base: Base,
    *,
    txn_id: str,
    now_ms: int,
    engine_info: str,
    commit_metadata: Mapping[str, str] = NO_METADATA,
) -> bytes:
    """Return the commit file that makes `base.version + 1` from the request, up to its body: commitInfo, protocol,
    metaData, transactions, domains.

    `commit_metadata` are further keys of the commitInfo, none of which is reserved. A request that enables in-commit
    timestamps also gets the two properties that record since when. Spec: Commit Provenance Information; In-Commit
    Timestamps (writer requirements).
    """
    protocol, metadata = _after(request, base)
    stamp = _stamp(request, base, now_ms)
    tags = dict(request.tags)
    if FEATURE in protocol.supported_features and is_true(metadata.configuration, ENABLED):
        tags |= _ROWS_KEPT
    info: Action = {
        **({} if stamp is None else {"inCommitTimestamp": stamp}),
        "timestamp": now_ms,
        "operation": request.operation,
        "operationParameters": {key: _parameter(value) for key, value in request.operation_parameters.items()},
        **({} if base.version < 0 else {"readVersion": base.version}),
        "isolationLevel": "Serializable",
        "isBlindAppend": request.is_blind_append,
        "operationMetrics": {key: str(value) for key, value in request.operation_metrics.items()},
        **({"tags": tags} if tags else {}),
        "engineInfo": engine_info,
        "txnId": txn_id,
        **commit_metadata,
    }
    lines: list[Action] = [{"commitInfo": info}]
    if request.protocol is not None:
        lines.append({"protocol": request.protocol})
    if request.metadata is not None:
        lines.append({"metaData": _dated(request.metadata, base, stamp)})
    lines += [{"txn": action} for action in request.transactions]
    lines += [{"domainMetadata": action} for action in request.domains]
    if request.new_rows and assigns_row_ids(protocol, metadata):
        lines.append({"domainMetadata": mark_action(base.row_id_mark + request.new_rows)})
    return b"".join(encode_line(line) for line in lines)


def following(request: CommitRequest, base: Base, now_ms: int) -> Base:
    """Return the version that the commit makes which `encode` returns for the same arguments."""
    protocol, metadata = _after(request, base)
    new_rows = request.new_rows if assigns_row_ids(protocol, metadata) else 0
    return Base(base.version + 1, protocol, metadata, _stamp(request, base, now_ms), base.row_id_mark + new_rows)


def _stamp(request: CommitRequest, base: Base, now_ms: int) -> int | None:
    """Return the in-commit timestamp of a commit, None if it has none."""
    if not is_stamped(request, base):
        return None
    if base.committed_ms is None:
        raise ValueError("an in-commit timestamp requires the time of the previous version")
    return max(now_ms, base.committed_ms + 1)


def slot_of(request: CommitRequest, base: Base) -> Slot:
    """Return the place of the commit that makes `base.version + 1`."""
    assigns = assigns_row_ids(*_after(request, base))
    return Slot(base.version + 1, base.row_id_mark + 1 if assigns else None, request.new_rows)


def base_of_new_table(request: CommitRequest) -> Base:
    """Return what version 0 follows. Raises ValueError for a request without a protocol or a metaData."""
    if request.protocol is None or request.metadata is None:
        raise ValueError("version 0 needs a protocol and a metaData")
    return Base(-1, read_protocol(request.protocol, _OURS), read_metadata(request.metadata, _OURS), committed_ms=-1)


def require_allowed(request: CommitRequest, base: Base) -> None:
    """Raise Refused if the base's protocol, or the requested one, prevents deltacli from making this commit, or if no
    version or no in-commit timestamp can follow those of the base. Raises ValueError for an invalid request. Spec:
    Protocol Evolution; Domain Metadata.
    """
    require_committable(base.protocol, base.metadata.configuration, base.version)
    _require_room(request, base)
    protocol, metadata = _after(request, base)
    if request.protocol is not None:
        require_readable(protocol, base.version + 1)
        require_committable(protocol, metadata.configuration, base.version + 1)
        lost = sorted(base.protocol.supported_features - protocol.supported_features - {*request.drops})
        if lost:
            raise ValueError(f"a commit must not remove features without naming them: {', '.join(lost)}")
    if metadata.id != base.metadata.id:
        raise ValueError("a commit must not change the table id")
    if request.metadata is None and is_stamped(request, base) and not base.is_stamped:
        raise ValueError("a commit that enables in-commit timestamps must do so in a metaData action")
    names = request.domain_names
    if len(set(names)) != len(names):
        raise ValueError("a commit must have at most one action per domain")
    if len(set(request.app_ids)) != len(request.app_ids):
        raise ValueError("a commit must have at most one transaction per application")
    if DOMAIN in names and FEATURE not in request.drops:
        raise ValueError("the high-water mark of row ids is not set by a request")
    marked = (DOMAIN,) if request.new_rows and assigns_row_ids(protocol, metadata) else ()
    if (names or marked) and "domainMetadata" not in protocol.supported_features:
        raise Refused(
            f"version {base.version} does not support domains" + (", which the ids of new rows need" if marked else ""),
            code="domain.without-feature",
            facts={
                "needed": "the writer feature domainMetadata",
                "to be written": ", ".join(sorted({*names, *marked})),
            },
            hint=command("features add", "domainMetadata"),
        )


def _require_room(request: CommitRequest, base: Base) -> None:
    """Raise Refused if the next version, or its in-commit timestamp, does not fit 64 bits. Other engines could not read
    the commit, or would not see it if its file name has a larger number.
    """
    if base.version >= MAX_VERSION:
        raise Refused(
            f"no version can follow version {base.version}: version numbers in file names are at most 2^63 - 1",
            code="log.version-too-large",
            facts={"largest version": str(MAX_VERSION)},
            hint=command("validate", select=[DoubleQuoted("log.*")]),
        )
    if base.committed_ms is not None and is_stamped(request, base) and base.committed_ms >= MAX_TIME_MS:
        raise Refused(
            f"no in-commit timestamp can follow that of version {base.version}",
            code="ict.future",
            facts={"found": str(base.committed_ms), "largest timestamp": f"{MAX_TIME_MS} (epoch milliseconds)"},
            hint=command("validate", select=[DoubleQuoted("ict.*")]),
        )
    if request.new_rows > MAX_ROW_ID - max(base.row_id_mark, 0) and assigns_row_ids(*_after(request, base)):
        raise Refused(
            f"no row ids are left after those of version {base.version}",
            code="rowtracking.high-water-mark",
            facts={"high-water mark": str(base.row_id_mark), "new rows": str(request.new_rows)},
            hint=command("validate", select=[DoubleQuoted("rowtracking.*")]),
        )


def _after(request: CommitRequest, base: Base) -> tuple[Protocol, Metadata]:
    """Return the configuration in effect after the request."""
    protocol = base.protocol if request.protocol is None else read_protocol(request.protocol, _OURS)
    metadata = base.metadata if request.metadata is None else read_metadata(request.metadata, _OURS)
    return protocol, metadata


def _dated(metadata: Action, base: Base, stamp: int | None) -> Action:
    """Return the metaData with the version and time from which in-commit timestamps apply, if it enables them.

    Spec: In-Commit Timestamps.
    """
    if stamp is None or base.is_stamped:
        return metadata
    since = {ICT_ENABLEMENT_VERSION: str(base.version + 1), ICT_ENABLEMENT_TIMESTAMP: str(stamp)}
    return metadata | {"configuration": {**(metadata.get("configuration") or {}), **since}}


def _parameter(value: object) -> object:
    """Return a parameter of an operation as the reference implementation writes it: non-scalars as JSON text. Half a
    surrogate pair of an old name is written as its escape, as no other engine reads it.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return value if value is None or isinstance(value, bool | int) else _json(value).decode()


def encode_line(line: Action) -> bytes:
    """Return an action as a line of the log."""
    return _json(line) + b"\n"


def _json(value: object) -> bytes:
    """Return compact JSON.

    Half a surrogate pair, read from the log of a lenient writer, is escaped as it was there. Raises CommitCorrupt for a
    field of the state that is nested too deeply to be written.
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        try:
            return json.dumps(value, separators=(",", ":")).encode()
        except RecursionError:
            raise too_deep("a field", "the state") from None


PartitionValues = Mapping[str, str | None]
"""The values of a file by the physical names of the partition columns, as in the log."""


class FilesRead(typing.Protocol):
    """The files that a commit was made from, including those that it removes."""

    def change(self, kind: str, action: Action) -> str | None:
        """Return how an add or a remove (`kind`) of another writer changes them, or None."""


class EveryFile(NamedTuple):
    """The set of live files as a whole: no file may come or go."""

    def change(self, _kind: str, _action: Action) -> str | None:
        return "it adds or removes files"


class FilesOfPartitions(NamedTuple):
    """The files whose partition values are `chosen`. A remove need not have any values, so it may concern them."""

    chosen: Callable[[PartitionValues], bool]

    def change(self, kind: str, action: Action) -> str | None:
        values = action.get("partitionValues")
        if not isinstance(values, dict):
            return f"it {_DOES[kind]} a file without partition values"
        return f"it {_DOES[kind]} files of the same partitions" if self.chosen(values) else None


class FilesAt:
    """Files by their paths."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = frozenset(map(canonical, paths))

    def change(self, kind: str, action: Action) -> str | None:
        path = action.get("path")
        if not isinstance(path, str):
            return f"it {_DOES[kind]} a file without a path"
        return f"it {_DOES[kind]} {path}" if canonical(path) in self._paths else None


_DOES = {"add": "adds", "remove": "removes"}
