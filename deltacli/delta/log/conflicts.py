"""Conflicts with other writers: which of their commits ours may follow unchanged, and after which it is planned again.

Spec: Delta Log Entries (writers must resolve conflicts).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from deltacli.delta.log.commit_content import Base, CommitRequest, is_stamped
from deltacli.delta.log.commit_lines import Action


class ConflictingCommit(NamedTuple):
    """A commit by another writer that took the version first, as far as it matters here.

    `modified_ms` is the time of its file. `obstacle` is the reason why this commit cannot follow it unchanged, or None.
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
    """The winning commits did not change what was read: the same request is tried after the last of them."""

    base: Base


@dataclass(frozen=True, slots=True)
class Recompute:
    """What was read has changed: the request is planned again from the state after the winning commits."""

    reason: str


_Rule = Callable[[CommitRequest, Action], str | None]


def _never(_request: CommitRequest, _action: Action) -> str | None:
    return None


def _if_files_count(request: CommitRequest, _action: Action) -> str | None:
    return "it adds or removes files" if request.reads_files else None


def _if_same_domain(request: CommitRequest, action: Action) -> str | None:
    name = action.get("domain")
    return f"it changes the domain {name}" if name in request.domain_names else None


def _if_same_transaction(request: CommitRequest, action: Action) -> str | None:
    name = action.get("appId")
    return f"it has a transaction of {name}" if name in request.app_ids else None


_OBSTACLES: Mapping[str, _Rule] = {
    "protocol": lambda _request, _action: "it changes the protocol",
    "metaData": lambda _request, _action: "it changes the metadata",
    "domainMetadata": _if_same_domain,
    "add": _if_files_count,
    "remove": _if_files_count,
    "cdc": _never,  # change data files are not part of a state
    "txn": _if_same_transaction,
    "commitInfo": _never,
}
"Content of a winning commit -> why this commit is planned again. An unrecognized action may have changed anything."


def look_at(
    request: CommitRequest, version: int, modified_ms: int, actions: Iterable[tuple[str, Action]]
) -> ConflictingCommit:
    """Return what a winning commit means for the request. Its actions are read one by one and not kept."""
    info: Action = {}
    is_first, obstacle = False, None
    for position, (kind, action) in enumerate(actions):
        if kind == "commitInfo":
            info, is_first = action, position == 0
        rule = _OBSTACLES.get(kind)
        reason = rule(request, action) if rule is not None else f"it has {kind}, which deltacli does not recognize"
        obstacle = obstacle or reason
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
    """Decide how to proceed with a request whose version, `base.version + 1`, was taken by winning commits.

    A domain written by both is planned again like everything else, so the result is that of both commits in sequence.
    Spec: Delta Log Entries (writers must resolve conflicts).
    """
    if not winners or base.version < 0:
        return Recompute("the log has changed")
    if request.names_version:
        return Recompute(
            f"version {base.version + 1} was taken by another writer, and the commit contains its version number"
        )
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
    """Return the commit time of a version without in-commit timestamps, which is always after that of the previous
    version.
    """
    return winner.modified_ms if before.committed_ms is None else max(winner.modified_ms, before.committed_ms + 1)


def _text(action: Action, name: str) -> str | None:
    value = action.get(name)
    return value if isinstance(value, str) else None
