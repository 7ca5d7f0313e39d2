"""What a commit of ours holds, and what becomes of it when another writer was first.

Spec: Delta Log Entries; Commit Provenance Information; In-Commit Timestamps; Row Tracking.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson

from deltacli.delta.log.action_faults import too_deep
from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.commit_metadata import NO_METADATA
from deltacli.delta.log.log_path import MAX_VERSION
from deltacli.delta.log.state import Metadata, has_in_commit_timestamps, read_metadata, read_protocol
from deltacli.delta.log.timestamps import MAX_TIME_MS
from deltacli.delta.protocol.properties import ICT_ENABLEMENT_TIMESTAMP, ICT_ENABLEMENT_VERSION, is_true
from deltacli.delta.protocol.protocol import Protocol, require_committable, require_readable
from deltacli.errors import Refused

_OURS = "the new commit"
_ROW_TRACKING = "delta.enableRowTracking"
_ROWS_KEPT = {"delta.rowTracking.preserved": "true"}


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """What is to be committed: no files, at most one protocol and one metaData, and domains, each action as it goes
    into the log.

    `operation_parameters`: texts, numbers and booleans are written as they are, objects and arrays as texts of JSON.
    `tags` go into the commitInfo; that rows keep their ids is said there in any case.
    """

    operation: str
    operation_parameters: Mapping[str, object] = field(default_factory=dict)
    operation_metrics: Mapping[str, int | str] = field(default_factory=dict)
    protocol: Action | None = None
    metadata: Action | None = None
    domains: tuple[Action, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    reads_files: bool = False
    """It stands on what the live files are: a commit that adds or removes any makes it stale."""
    names_version: bool = False
    """Its actions name the version that they are committed as, as `tableVersion` in a schema does."""

    @property
    def domain_names(self) -> tuple[str, ...]:
        """The domains that it writes, and so has read."""
        return tuple(str(action["domain"]) for action in self.domains)


class Base(NamedTuple):
    """The version that a commit comes next after. `committed_ms`: when that one was committed, in epoch milliseconds;
    None where the commit carries no in-commit timestamp, which alone depends on it.
    """

    version: int
    protocol: Protocol
    metadata: Metadata
    committed_ms: int | None = None

    @property
    def is_stamped(self) -> bool:
        """True if this version has in-commit timestamps."""
        return has_in_commit_timestamps(self.protocol, self.metadata)


class ConflictingCommit(NamedTuple):
    """A commit that took a version first, as far as it matters to ours.

    `modified_ms` is the time of its file. `obstacle` says why ours can't come after it as it is; None: it can.
    """

    version: int
    modified_ms: int
    txn_id: str | None = None
    in_commit_timestamp: int | None = None
    operation: str | None = None
    engine_info: str | None = None
    obstacle: str | None = None


@dataclass(frozen=True, slots=True)
class Rebase:
    """The winners leave what was read as it was: the same request is tried after the last of them."""

    base: Base


@dataclass(frozen=True, slots=True)
class Recompute:
    """What was read has changed: the request is made anew, from the state that the winners left."""

    reason: str


def is_stamped(request: CommitRequest, base: Base) -> bool:
    """True if the version that comes of the request has in-commit timestamps."""
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
    """Return the commit file that makes `base.version + 1` of the request: commitInfo, protocol, metaData, domains.

    `commit_metadata` are further keys of the commitInfo, none of which is reserved.
    A request that switches in-commit timestamps on also gets the two properties that say since when.
    Spec: Commit Provenance Information; In-Commit Timestamps (writer requirements).
    """
    protocol, metadata = _after(request, base)
    stamp: int | None = None
    if has_in_commit_timestamps(protocol, metadata):
        if base.committed_ms is None:
            raise ValueError("an in-commit timestamp needs the time of the version before")
        stamp = max(now_ms, base.committed_ms + 1)
    tags = dict(request.tags)
    if "rowTracking" in protocol.supported_features and is_true(metadata.configuration, _ROW_TRACKING):
        tags |= _ROWS_KEPT
    info: Action = {
        **({} if stamp is None else {"inCommitTimestamp": stamp}),
        "timestamp": now_ms,
        "operation": request.operation,
        "operationParameters": {key: _parameter(value) for key, value in request.operation_parameters.items()},
        "readVersion": base.version,
        "isolationLevel": "Serializable",
        "isBlindAppend": False,
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
    lines += [{"domainMetadata": action} for action in request.domains]
    return b"".join(_line(line) for line in lines)


def require_allowed(request: CommitRequest, base: Base) -> None:
    """Raise Refused where the base's own protocol, or the one that would come of it, keeps deltacli from this commit,
    or where no version or no in-commit timestamp can follow those of the base.

    Raises ValueError for a request that would be no commit at all. Spec: Protocol Evolution; Domain Metadata.
    """
    require_committable(base.protocol, base.metadata.configuration, base.version)
    _require_room(request, base)
    protocol, metadata = _after(request, base)
    if request.protocol is not None:
        require_readable(protocol, base.version + 1)
        require_committable(protocol, metadata.configuration, base.version + 1)
        lost = sorted(base.protocol.supported_features - protocol.supported_features)
        if lost:
            raise ValueError(f"a commit never takes features away: {', '.join(lost)}")
    if metadata.id != base.metadata.id:
        raise ValueError("a commit never changes the id of a table")
    if request.metadata is None and is_stamped(request, base) and not base.is_stamped:
        raise ValueError("a commit that switches in-commit timestamps on says so in a metaData")
    names = request.domain_names
    if len(set(names)) != len(names):
        raise ValueError("a commit holds one action a domain")
    if names and "domainMetadata" not in protocol.supported_features:
        raise Refused(
            f"version {base.version} does not support domains",
            code="domain.without-feature",
            facts={"needed": "the writer feature domainMetadata", "to be written": ", ".join(sorted(names))},
        )


def _require_room(request: CommitRequest, base: Base) -> None:
    """Raise Refused where the next version, or its in-commit timestamp, does not fit 64 bits: other engines would not
    read the commit, and would not see it where its file name holds a larger number.
    """
    if base.version >= MAX_VERSION:
        raise Refused(
            f"no version can follow version {base.version}: file names in the log hold at most 2^63 - 1",
            code="log.version-too-large",
            facts={"largest version": str(MAX_VERSION)},
            hint='deltacli validate {table} --select "log.*"',
        )
    if base.committed_ms is not None and is_stamped(request, base) and base.committed_ms >= MAX_TIME_MS:
        raise Refused(
            f"no in-commit timestamp can follow that of version {base.version}",
            code="ict.future",
            facts={"found": str(base.committed_ms), "largest timestamp": f"{MAX_TIME_MS} (epoch milliseconds)"},
            hint='deltacli validate {table} --select "ict.*"',
        )


_Rule = Callable[[CommitRequest, Action], str | None]


def _never(_request: CommitRequest, _action: Action) -> str | None:
    return None


def _if_files_count(request: CommitRequest, _action: Action) -> str | None:
    return "it adds or removes files" if request.reads_files else None


def _if_same_domain(request: CommitRequest, action: Action) -> str | None:
    name = action.get("domain")
    return f"it changes the domain {name}" if name in request.domain_names else None


_OBSTACLES: Mapping[str, _Rule] = {
    "protocol": lambda _request, _action: "it changes the protocol",
    "metaData": lambda _request, _action: "it changes the metadata",
    "domainMetadata": _if_same_domain,
    "add": _if_files_count,
    "remove": _if_files_count,
    "cdc": _never,  # files of changes belong to no state
    "txn": _never,
    "commitInfo": _never,
}
"""What a winning commit holds -> why ours is made anew. What nobody here knows may have changed anything."""


def look_at(
    request: CommitRequest, version: int, modified_ms: int, actions: Iterable[tuple[str, Action]]
) -> ConflictingCommit:
    """Return what a commit that was first means to the request; its actions are taken one by one, and never held."""
    info: Action = {}
    is_first, obstacle = False, None
    for position, (kind, action) in enumerate(actions):
        if kind == "commitInfo":
            info, is_first = action, position == 0
        rule = _OBSTACLES.get(kind)
        found = rule(request, action) if rule is not None else f"it holds {kind}, which deltacli does not know"
        obstacle = obstacle or found
    stamp = info.get("inCommitTimestamp") if is_first else None
    return ConflictingCommit(
        version,
        modified_ms,
        txn_id=_text(info, "txnId"),
        in_commit_timestamp=stamp if type(stamp) is int else None,
        operation=_text(info, "operation"),
        engine_info=_text(info, "engineInfo"),
        obstacle=obstacle,
    )


def judge(request: CommitRequest, base: Base, winners: Sequence[ConflictingCommit]) -> Rebase | Recompute:
    """Say what becomes of a request whose version, `base.version + 1`, and those after it went to the winners.

    A domain that both write is made anew like everything else: what comes of it is what would have come of the two
    one after the other. Spec: Delta Log Entries (conflicts are the writers' to resolve).
    """
    if not winners:
        return Recompute("the log has changed")
    if request.names_version:
        return Recompute(f"version {base.version + 1} went to another writer, and the commit names it")
    needs_stamp, moved = is_stamped(request, base), base
    for winner in winners:
        if winner.version != moved.version + 1:
            return Recompute("the log has changed")
        if winner.obstacle is not None:
            return Recompute(f"version {winner.version} was committed by another writer: {winner.obstacle}")
        committed: int | None = None
        if needs_stamp:
            committed = winner.in_commit_timestamp if base.is_stamped else _file_time(winner, moved)
            if committed is None:
                return Recompute(f"version {winner.version} has no in-commit timestamp")
        moved = moved._replace(version=winner.version, committed_ms=committed)
    return Rebase(moved)


def _file_time(winner: ConflictingCommit, before: Base) -> int:
    """When a version without in-commit timestamps was committed: always after the one before it."""
    return winner.modified_ms if before.committed_ms is None else max(winner.modified_ms, before.committed_ms + 1)


def _after(request: CommitRequest, base: Base) -> tuple[Protocol, Metadata]:
    """What is in force after the request."""
    protocol = base.protocol if request.protocol is None else read_protocol(request.protocol, _OURS)
    metadata = base.metadata if request.metadata is None else read_metadata(request.metadata, _OURS)
    return protocol, metadata


def _dated(metadata: Action, base: Base, stamp: int | None) -> Action:
    """The metaData with the version and time from which in-commit timestamps count, where it switches them on.

    Spec: In-Commit Timestamps.
    """
    if stamp is None or base.is_stamped:
        return metadata
    since = {ICT_ENABLEMENT_VERSION: str(base.version + 1), ICT_ENABLEMENT_TIMESTAMP: str(stamp)}
    return metadata | {"configuration": {**(metadata.get("configuration") or {}), **since}}


def _parameter(value: object) -> object:
    """A parameter of an operation as the reference implementation writes it: what is not a scalar as a text of JSON."""
    return value if value is None or isinstance(value, str | bool | int) else _json(value).decode()


def _line(line: Action) -> bytes:
    return _json(line) + b"\n"


def _json(value: object) -> bytes:
    """Compact JSON. Half a surrogate pair, read from a lenient writer's log, is escaped as it was there.

    Raises CommitCorrupt for a field of the state that is nested too deeply to be written again.
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        try:
            return json.dumps(value, separators=(",", ":")).encode()
        except RecursionError:
            raise too_deep("a field", "the state") from None


def _text(action: Action, name: str) -> str | None:
    value = action.get(name)
    return value if isinstance(value, str) else None
