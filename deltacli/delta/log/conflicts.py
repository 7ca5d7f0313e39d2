"""Conflicts with other writers: after which of their commits ours may follow unchanged, and what to do otherwise.

Spec: Delta Log Entries (writers must resolve conflicts).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from deltacli.delta.log.actions import Action
from deltacli.delta.log.commit_content import CommitRequest, OnConflict, PreviousVersion, needs_in_commit_timestamp
from deltacli.delta.log.row_ids import DOMAIN, read_mark


class Conflict(NamedTuple):
    """The kind of action by which a commit has changed what ours was made from, and the reason in words."""

    kind: str
    reason: str


class ConcurrentCommit(NamedTuple):
    """A commit by another writer that took the version first, as far as it matters here.

    `modified_ms` is the time of its file, `row_id_mark` its high-water mark of row ids. `conflict` is the reason why
    this commit cannot follow it unchanged, or None.
    """

    version: int
    modified_ms: int
    txn_id: str | None = None
    in_commit_timestamp: int | None = None
    operation: str | None = None
    engine_info: str | None = None
    row_id_mark: int | None = None
    conflict: Conflict | None = None


@dataclass(frozen=True, slots=True)
class Rebase:
    """The winning commits did not change what was read: the same request is tried after the last of them."""

    base: PreviousVersion


@dataclass(frozen=True, slots=True)
class Recompute:
    """What was read has changed: the request is planned again from the state after the winning commits."""

    reason: str


@dataclass(frozen=True, slots=True)
class Drop:
    """The files of the request have changed: it is given up, and its caller goes on with others."""

    reason: str


_Rule = Callable[[CommitRequest, Action], str | None]


def _never(_request: CommitRequest, _action: Action) -> str | None:
    return None


def _if_read(kind: str) -> _Rule:
    return lambda request, action: None if request.reads is None else request.reads.change(kind, action)


def _if_same_domain(request: CommitRequest, action: Action) -> str | None:
    name = action.get("domain")
    if name == DOMAIN and request.new_rows and _mark(action) is None:
        return "it leaves no high-water mark of row ids"
    return f"it changes the domain {name}" if name in (*request.domain_names, *request.domains_read) else None


def _if_same_transaction(request: CommitRequest, action: Action) -> str | None:
    name = action.get("appId")
    return f"it has a transaction of {name}" if name in request.app_ids else None


def _if_deletes(request: CommitRequest, action: Action) -> str | None:
    return "it deletes files that the commit brings back" if request.adds_existing_files and is_vacuum(action) else None


def is_vacuum(commit_info: Action) -> bool:
    """Return whether a commit says that a vacuum began or ended."""
    return commit_info.get("operation") in ("VACUUM START", "VACUUM END")


_CONFLICT_RULES: Mapping[str, _Rule] = {
    "protocol": lambda _request, _action: "it changes the protocol",
    "metaData": lambda _request, _action: "it changes the metadata",
    "domainMetadata": _if_same_domain,
    "add": _if_read("add"),
    "remove": _if_read("remove"),
    "cdc": _never,  # change data files are not part of a state
    "txn": _if_same_transaction,
    "commitInfo": _if_deletes,
}
"Content of a winning commit -> why this commit cannot follow it. An unrecognized action may have changed anything."


def examine_commit(
    request: CommitRequest, version: int, modified_ms: int, actions: Iterable[tuple[str, Action]]
) -> ConcurrentCommit:
    """Return what a winning commit means for the request. Its actions are read one by one and not kept, and only as far
    as they matter: with a commitInfo and a conflict it is decided.
    """
    info: Action | None = None
    stamp: object = None
    conflict: Conflict | None = None
    mark: int | None = None
    for position, (kind, action) in enumerate(actions):
        if kind == "commitInfo":
            info, stamp = action, None if position else action.get("inCommitTimestamp")
        elif kind == "domainMetadata" and action.get("domain") == DOMAIN:
            mark = _mark(action)
        if conflict is None and (reason := _reason(request, kind, action)) is not None:
            conflict = Conflict(kind, reason)
        if conflict is not None and info is not None:
            break
    info = info or {}
    return ConcurrentCommit(
        version,
        modified_ms,
        txn_id=_text(info, "txnId"),
        in_commit_timestamp=stamp if type(stamp) is int else None,
        operation=_text(info, "operation"),
        engine_info=_text(info, "engineInfo"),
        row_id_mark=mark,
        conflict=conflict,
    )


def _reason(request: CommitRequest, kind: str, action: Action) -> str | None:
    rule = _CONFLICT_RULES.get(kind)
    return f"it has {kind}, which deltacli does not recognize" if rule is None else rule(request, action)


def resolve_conflicts(
    request: CommitRequest, base: PreviousVersion, concurrent_commits: Sequence[ConcurrentCommit]
) -> Rebase | Recompute | Drop:
    """Decide how to proceed with a request whose version, `base.version + 1`, was taken by winning commits.

    A domain written by both is planned again like everything else, so the result is that of both commits in sequence.
    Spec: Delta Log Entries (writers must resolve conflicts).
    """
    if not concurrent_commits or base.version < 0:
        return _stale(request, "the log has changed")
    if request.contains_own_version:
        message = f"version {base.version + 1} was taken by another writer, and the commit contains its version number"
        return _stale(request, message)
    needs_stamp, moved = needs_in_commit_timestamp(request, base), base
    for concurrent_commit in concurrent_commits:
        if concurrent_commit.version != moved.version + 1:
            return _stale(request, "the log has changed")
        if concurrent_commit.conflict is not None:
            kind, reason = concurrent_commit.conflict
            return _stale(
                request, f"version {concurrent_commit.version} was committed by another writer: {reason}", kind
            )
        committed: int | None = None
        if needs_stamp:
            committed = (
                concurrent_commit.in_commit_timestamp
                if base.has_in_commit_timestamps
                else _file_time(concurrent_commit, moved)
            )
            if committed is None:
                return _stale(request, f"version {concurrent_commit.version} has no in-commit timestamp")
        mark = (
            moved.row_id_mark
            if concurrent_commit.row_id_mark is None
            else max(concurrent_commit.row_id_mark, moved.row_id_mark)
        )
        moved = moved._replace(version=concurrent_commit.version, committed_ms=committed, row_id_mark=mark)
    return Rebase(moved)


def _stale(request: CommitRequest, reason: str, kind: str | None = None) -> Recompute | Drop:
    """Return what becomes of a request that cannot follow a winning commit because of an action of some kind."""
    is_given_up = request.on_conflict is OnConflict.DROP and kind in ("add", "remove")
    return Drop(reason) if is_given_up else Recompute(reason)


def _mark(action: Action) -> int | None:
    """Return the high-water mark that an action of its domain sets, None if it removes it or sets none."""
    return None if action.get("removed") is True else read_mark(action.get("configuration"))


def _file_time(concurrent_commit: ConcurrentCommit, before: PreviousVersion) -> int:
    """Return the commit time of a version without in-commit timestamps: always after that of the version before."""
    return (
        concurrent_commit.modified_ms
        if before.committed_ms is None
        else max(concurrent_commit.modified_ms, before.committed_ms + 1)
    )


def _text(action: Action, name: str) -> str | None:
    value = action.get(name)
    return value if isinstance(value, str) else None
