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
    """An action of a concurrent commit that changes something which the request depends on.

    Attributes:
        kind: The kind of the action: `remove`.
        reason: The reason, as the end of a sentence: `it changes the metadata`.
    """

    kind: str
    reason: str


class ConcurrentCommit(NamedTuple):
    """A commit that another writer has created, reduced to the properties that a commit after it depends on.

    Attributes:
        version: Its version.
        modified_ms: The modification time of the commit file in epoch milliseconds.
        txn_id: The `txnId` in its commitInfo.
        in_commit_timestamp: The in-commit timestamp in epoch milliseconds.
        operation: The operation in its commitInfo: `WRITE`.
        engine_info: The writer in its commitInfo: `Apache-Spark/4.0.0 Delta-Lake/4.0.0`.
        row_id_mark: The high-water mark of row ids that it sets; None if it sets none.
        conflict: The first action that conflicts with the request; None if there is none.
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
    """No concurrent commit conflicts with the request: the same request is tried after the last of them.

    Attributes:
        previous_version: The version of the last concurrent commit.
    """

    previous_version: PreviousVersion


@dataclass(frozen=True, slots=True)
class Recompute:
    """A concurrent commit conflicts with the request: the request is built again from the newest version."""

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
"""The rule for each kind of action of a concurrent commit. It returns the reason for a conflict, or None.

An action of an unknown kind is always a conflict, because it may have changed anything.
"""


def examine_commit(
    request: CommitRequest, version: int, modified_ms: int, actions: Iterable[tuple[str, Action]]
) -> ConcurrentCommit:
    """Compare a request with a commit of another writer.

    The actions are read one by one and not kept. Reading ends when the commitInfo and a conflict were found.

    Args:
        request: The request.
        version: The version of the commit.
        modified_ms: The modification time of its file in epoch milliseconds.
        actions: The kind and the content of each action of the commit.
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
    request: CommitRequest, previous_version: PreviousVersion, concurrent_commits: Sequence[ConcurrentCommit]
) -> Rebase | Recompute | Drop:
    """Decide how to proceed with a request whose version was created by another writer.

    If both write the same domain, the request is built again like any other, so the result is that of both commits in
    sequence.

    Args:
        request: The request.
        previous_version: The version that the request was to follow.
        concurrent_commits: The commits of other writers, from the version after `previous_version` on.

    Spec: Delta Log Entries (writers must resolve conflicts).
    """
    if not concurrent_commits or previous_version.version < 0:
        return _reject(request, "the log has changed")
    if request.contains_own_version:
        taken_version = previous_version.version + 1
        return _reject(
            request, f"version {taken_version} was taken by another writer, and the commit contains its version number"
        )

    needs_timestamp = needs_in_commit_timestamp(request, previous_version)
    last_version = previous_version
    for commit in concurrent_commits:
        if commit.version != last_version.version + 1:
            return _reject(request, "the log has changed")
        if commit.conflict is not None:
            message = f"version {commit.version} was committed by another writer: {commit.conflict.reason}"
            return _reject(request, message, commit.conflict.kind)

        committed_ms: int | None = None
        if needs_timestamp and previous_version.has_in_commit_timestamps:
            committed_ms = commit.in_commit_timestamp
        elif needs_timestamp:
            committed_ms = _compute_commit_time(commit, last_version)
        if needs_timestamp and committed_ms is None:
            return _reject(request, f"version {commit.version} has no in-commit timestamp")

        row_id_mark = last_version.row_id_mark
        if commit.row_id_mark is not None:
            row_id_mark = max(commit.row_id_mark, row_id_mark)
        last_version = last_version._replace(version=commit.version, committed_ms=committed_ms, row_id_mark=row_id_mark)
    return Rebase(last_version)


def _reject(request: CommitRequest, reason: str, kind: str | None = None) -> Recompute | Drop:
    """Return Drop for a request that is to be dropped if its files have changed; else Recompute.

    Args:
        request: The request.
        reason: The reason why the request cannot follow the concurrent commits unchanged.
        kind: The kind of action that it conflicts with, such as `remove`; None if it is no action.
    """
    has_changed_files = kind in ("add", "remove")
    if request.on_conflict is OnConflict.DROP and has_changed_files:
        return Drop(reason)
    return Recompute(reason)


def _mark(action: Action) -> int | None:
    """Return the high-water mark that an action of its domain sets, None if it removes it or sets none."""
    return None if action.get("removed") is True else read_mark(action.get("configuration"))


def _compute_commit_time(commit: ConcurrentCommit, previous_version: PreviousVersion) -> int:
    """Return the commit time of a version without in-commit timestamps: always after that of the previous version."""
    if previous_version.committed_ms is None:
        return commit.modified_ms
    return max(commit.modified_ms, previous_version.committed_ms + 1)


def _text(action: Action, name: str) -> str | None:
    value = action.get(name)
    return value if isinstance(value, str) else None
