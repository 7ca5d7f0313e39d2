"""Adding a version to a table: the one place that creates commits.

A version is created by `put_if_absent`, once, whole, under one txnId for the whole run. Another version is tried only
when it is certain that this one went to somebody else: as long as the answer of a creation is lost, the very same bytes
go to the very same name, where they can be carried out once at most, whenever they arrive.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, assert_never

from deltacli.delta.log.commit import (
    Base,
    CommitRequest,
    ConflictingCommit,
    Rebase,
    Recompute,
    encode,
    is_stamped,
    judge,
    look_at,
    require_allowed,
)
from deltacli.delta.log.commit_metadata import NO_METADATA, require_free
from deltacli.delta.log.log_path import LOG_DIRECTORY, commit_name
from deltacli.delta.log.timestamps import TimestampSource
from deltacli.errors import CommitCorrupt, ConflictLost, DeltacliError, OutcomeUnknown, Refused, StorageFailed
from deltacli.operations.table.handle import TableHandle
from deltacli.operations.table.log import list_log
from deltacli.operations.table.rebuild import read_snapshot
from deltacli.operations.table.version import Snapshot
from deltacli.release import VERSION
from deltacli.storage import Created, Existed, Unknown
from deltacli.storage.base import require_writable
from deltacli.work.commits.reading import stream_commit

ENGINE_INFO = f"deltacli/{VERSION}"

MAX_ATTEMPTS = 40
"""Versions that are tried. With the pauses between them a writer holds out for about ten seconds."""

_MAX_ASKED = 6
"""How often one version is sent, or looked at, while it is not known what became of it."""

_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.5

Pause = Callable[[int], None]
"""Waits before a repetition, which counts from 1."""


@dataclass(frozen=True)
class Committed:
    """The version is in the log. `read` is the state that the request was made from, `lost` how many versions that
    were tried went to others.
    """

    version: int
    txn_id: str
    request: CommitRequest
    read: Snapshot
    lost: int


@dataclass(frozen=True)
class NothingToDo:
    """`read` is already as it was to become: no version was made."""

    read: Snapshot


def jittered_pause(repetition: int) -> None:
    """Wait for a random time that doubles at most with each repetition, so that writers who met once don't meet
    again.
    """
    longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(repetition, 16))
    time.sleep(random.SystemRandom().uniform(0, longest))  # a forked process would repeat what its parent draws


def new_txn_id() -> str:
    """Return an id that nobody else has."""
    return str(uuid.uuid4())


def commit(
    table: TableHandle,
    make: Callable[[Snapshot], CommitRequest | None],
    *,
    commit_metadata: Mapping[str, str] = NO_METADATA,
    max_attempts: int = MAX_ATTEMPTS,
    pause: Pause = jittered_pause,
    new_txn_id: Callable[[], str] = new_txn_id,
) -> Committed | NothingToDo:
    """Make a request of the newest version and commit it as the next one; return the version, or that there is
    nothing to do, where `make` gives None.

    When another writer is first, the request is tried after it, or, where that changed what was read, made anew:
    `make` may be called many times, with newer and newer snapshots, and what it raises ends the run.
    `commit_metadata` are keys that are added to the commitInfo; UsageError for those that are reserved.

    Raises Refused where the table's protocol forbids it, NoAtomicCreate where the store is read-only, and
    StorageFailed, all with nothing changed; ConflictLost after `max_attempts` versions went to others, with nothing
    changed; OutcomeUnknown where the commit was sent and can't be read back; and what `read_snapshot` raises. An
    interruption carries a note where a commit was in flight.

    Spec: Delta Log Entries; Protocol Evolution; In-Commit Timestamps.
    """
    storage = table.storage
    require_free(commit_metadata)
    require_writable(storage)
    sender = _Sender(table, new_txn_id(), pause, commit_metadata)
    made: _Made | None = None
    lost: _Lost | None = None
    for attempt in range(max_attempts):
        if attempt:
            pause(attempt)
        if made is None:
            snapshot = read_snapshot(table)
            request = make(snapshot)
            if request is None:
                return NothingToDo(snapshot)
            made = _Made(request, snapshot, _base(snapshot, request))
        require_allowed(made.request, made.base)
        match sender.send(made):
            case int(version):
                return Committed(version, sender.txn_id, made.request, made.snapshot, lost=attempt)
            case _Lost() as lost:
                match judge(made.request, made.base, lost.winners):
                    case Rebase(base):
                        made = made._replace(base=base)
                    case Recompute():
                        made = None
    raise _conflict(lost, max_attempts)


class _Made(NamedTuple):
    """A request, the state it was made from, and the version that it is to come after."""

    request: CommitRequest
    snapshot: Snapshot
    base: Base


class _Lost(NamedTuple):
    """A version went to others: the commits from it on, as far as they follow each other."""

    version: int
    winners: tuple[ConflictingCommit, ...]


class _Sender:
    """Sends commits under one txnId, and finds out what became of each."""

    def __init__(self, table: TableHandle, txn_id: str, pause: Pause, commit_metadata: Mapping[str, str]) -> None:
        self._table, self.txn_id, self._pause = table, txn_id, pause
        self._commit_metadata = commit_metadata

    def send(self, made: _Made) -> int | _Lost:
        """Create the version after the base and return it, or who has it; only what is certain is returned.

        Raises StorageFailed where nothing was sent, OutcomeUnknown where it can't be found out what became of it.
        """
        version = made.base.version + 1
        data = encode(
            made.request,
            made.base,
            txn_id=self.txn_id,
            now_ms=self._table.clock(),
            engine_info=ENGINE_INFO,
            commit_metadata=self._commit_metadata,
        )
        try:
            return self._send(made.request, version, data)
        except BaseException as stop:
            if not isinstance(stop, Exception):
                stop.add_note(self._note(made.request, version))
            raise

    def _send(self, request: CommitRequest, version: int, data: bytes) -> int | _Lost:
        path = f"{LOG_DIRECTORY}/{commit_name(version)}"
        cause: str | None = None
        """Why it is not known what became of it. From then on the commit may be there, or come yet."""
        fault: DeltacliError | None = None
        for asked in range(_MAX_ASKED):
            if asked:
                self._pause(asked)
            try:
                answer = self._table.storage.put_if_absent(path, data)
            except StorageFailed as failed:
                if cause is None:
                    raise  # what is raised left nothing behind
                fault = failed
                continue
            match answer:
                case Created():
                    return version
                case Unknown(why):
                    cause = why
                case Existed():
                    pass
                case other:
                    assert_never(other)
            try:
                winners, newest = self._winners(request, version)
            except DeltacliError as failed:
                fault = failed
                if isinstance(failed, StorageFailed):  # something on the way may have sent it twice, so it may be ours
                    cause = cause or "the version exists, and whose it is can't be read"
                continue
            ours = next((winner.version for winner in winners if winner.txn_id == self.txn_id), None)
            if ours is not None:
                return ours
            if winners or cause is None:
                return _Lost(version, winners)
            if newest >= version:
                break  # the log went on without it: what is sent now would come behind versions built on something else
        if cause is None and fault is not None:
            raise fault
        raise self._unknown(version, cause, fault)

    def _winners(self, request: CommitRequest, version: int) -> tuple[tuple[ConflictingCommit, ...], int]:
        """Read the commits from a version on, up to the first that is missing or torn; with the newest version listed.

        Raises StorageFailed, and CommitCorrupt where the first is torn.
        """
        storage = self._table.storage
        listing = list_log(storage, start_version=version)
        winners: list[ConflictingCommit] = []
        while (file := listing.commits.get(version + len(winners))) is not None:
            try:
                winners.append(look_at(request, file.version, file.modified_ms, stream_commit(storage, file)))
            except CommitCorrupt:
                if not winners:
                    raise
                break  # told when it is its turn: until then the ones before it may be all that matters
        return tuple(winners), listing.newest_version

    def _note(self, request: CommitRequest, version: int) -> str:
        """What became of a commit that was in flight when the run was interrupted, looked at once."""
        try:
            winners, _ = self._winners(request, version)
        except DeltacliError:
            winners = ()
        if any(winner.txn_id == self.txn_id for winner in winners):
            return f"version {version} was committed"
        if winners:
            return "nothing was committed"
        return f"version {version} may have been committed: it is there if {commit_name(version)} holds {self.txn_id}"

    def _unknown(self, version: int, cause: str | None, fault: DeltacliError | None) -> OutcomeUnknown:
        path = f"{LOG_DIRECTORY}/{commit_name(version)}"
        return OutcomeUnknown(
            f"version {version} was sent, and whether it was committed could not be found out",
            facts={
                "file": path,
                "txnId": self.txn_id,
                "why": cause or "no answer",
                **({} if fault is None else {"looking for it": fault.message}),
                "to check": f"it was committed if {path} exists and holds this txnId; if it does not exist, it may "
                "still appear for as long as a request can be on its way",
            },
            hint=f"deltacli log cat {{table}} {version}",
        )


def require_possible(snapshot: Snapshot, request: CommitRequest) -> None:
    """Raise Refused where a request could not be committed after a version, NoAtomicCreate where the store is
    read-only; for plans that commit nothing.
    """
    require_writable(snapshot.table.storage)
    require_allowed(request, _base(snapshot, request))


def _base(snapshot: Snapshot, request: CommitRequest) -> Base:
    """The version that a request was made from, with its time where the new commit carries one.

    Raises Refused where that time is needed and unknown: the next one could come before it.
    """
    base = Base(snapshot.version, snapshot.protocol, snapshot.metadata)
    if not is_stamped(request, base):
        return base
    found = snapshot.time
    if found is None or (base.is_stamped and found.source is not TimestampSource.IN_COMMIT):
        raise Refused(
            f"version {snapshot.version} has no in-commit timestamp, so the next one can't be known to come after it",
            code="ict.missing",
            facts={"looked at": f"{LOG_DIRECTORY}/{commit_name(snapshot.version)}"},
            hint='deltacli validate {table} --select "ict.*"',
        )
    return base._replace(committed_ms=found.timestamp_ms)


def _conflict(lost: _Lost | None, attempts: int) -> ConflictLost:
    facts = {"versions tried": str(attempts)}
    if lost is not None and lost.winners:
        winner = lost.winners[-1]
        who = " by ".join(word for word in (winner.operation, winner.engine_info) if word)
        facts |= {"last lost to": f"version {winner.version}, {who or 'which does not say by whom'}"}
    return ConflictLost(
        "other writers were first at every version that was tried; nothing was committed",
        facts=facts,
        hint="deltacli history {table} --limit 10",
    )
