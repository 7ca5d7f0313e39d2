"""Adding a version to a table: the only module that creates commits.

A version is created atomically by `put_if_absent`, under one txnId for the whole run. The next version is tried only
when another writer is known to have created this one. As long as the answer to a creation is lost, the same bytes are
sent to the same name, where they can take effect at most once, whenever they arrive. A body is written to a draft line
by line, so a commit may have any number of files.
"""

from __future__ import annotations

import io
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, takewhile
from threading import Lock
from typing import Any, NamedTuple, cast

import orjson

from deltacli.changing.basis import (
    FRESH_SECONDS,
    Act,
    OwnCommit,
    past_of,
    require_clock,
    require_listed,
    require_past,
    require_still_newest,
)
from deltacli.core import errors
from deltacli.core.machine import Machine
from deltacli.core.release import VERSION
from deltacli.core.texts import build_text_error
from deltacli.core.typing import BinaryFile
from deltacli.delta.log.actions import NO_METADATA, require_free
from deltacli.delta.log.commit_content import (
    Base,
    CommitRequest,
    base_of_new_table,
    encode,
    following,
    is_stamped,
    require_allowed,
    slot_of,
)
from deltacli.delta.log.conflicts import ConflictingCommit, Drop, Rebase, Recompute, judge, look_at
from deltacli.delta.log.row_ids import DOMAIN, read_mark
from deltacli.delta.log.segment import (
    BEYOND_LOG,
    LOG_DIRECTORY,
    SIDECAR_DIRECTORY,
    LogFile,
    LogFileKind,
    TimestampSource,
    commit_name,
    parse_log_path,
)
from deltacli.delta.schema.finite_numbers import require_finite_numbers
from deltacli.storage import Created, Creation, FileStat, ReadStorage, Unknown
from deltacli.storage.directory_identity import require_same_directory
from deltacli.storage.optional_interfaces import require_writable
from deltacli.storage.os_errors import writing_faults
from deltacli.table.find_log import list_log
from deltacli.table.handle import TableHandle, managed_store
from deltacli.table.rebuild import read_snapshot
from deltacli.table.version import Snapshot
from deltacli.work.commits.reading import commit_location, stream_commit

# -- the texts of a commit ---------------------------------------------------------------------------------------------


def require_text(new: Mapping[str, object], before: object) -> None:
    """Raise UsageError for half a surrogate pair, as a byte that is not UTF-8 becomes in arguments, that the version
    `before` does not have. What an older writer left is kept.
    """
    try:
        orjson.dumps(new)
    except TypeError:
        try:
            known = {half for _, text in _texts([before, _schema_of(before)], "") for half in _halves(text)}
            texts = list(_texts(new, ""))
        except RecursionError:
            return  # nested too deeply to be written at all, which the encoder refuses
        for place, text in texts:
            if not known.issuperset(_halves(text)):
                raise build_text_error(text, f"{place} is not text: it holds half a character") from None


def _schema_of(metadata: object) -> object:
    """Return the schema of a metaData, whose names may have half a surrogate pair as an escape of its JSON."""
    text = metadata.get("schemaString") if isinstance(metadata, Mapping) else None
    try:
        return json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _halves(text: str) -> Iterator[str]:
    return (half for half in text if "\ud800" <= half <= "\udfff")


def _texts(value: object, place: str) -> Iterator[tuple[str, str]]:
    """Yield every text in a value, keys included, with its place."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _texts(key, place)
            yield from _texts(one, f"{place}.{key}" if place else str(key))
    elif isinstance(value, Sequence) and not isinstance(value, bytes):
        for one in value:
            yield from _texts(one, place)


# -- adding a version to a table ---------------------------------------------------------------------------------------

ENGINE_INFO = f"deltacli/{VERSION}"

MAX_ATTEMPTS = 400
"""Maximum number of versions to try: eight processes that commit without a break take turns, and one of them may lose
dozens of times in a row.
"""

MAX_SECONDS, FEW_ATTEMPTS = 120.0, 10
"""Time after which no further version is tried, but for the first few: a plan of a million files takes a while each."""

MAX_ASKED = 6
"""Maximum number of requests for one version, of a Delta log or of a Paimon schema, while its outcome is unknown."""

_FETCHED_BYTES = 1 << 20
_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.5

Pause = Callable[[int], None]
"""Waits before a retry; retries count from 1."""


@dataclass(frozen=True)
class Committed:
    """The version is in the log. `read_version` is that which the request was made from, -1 for a new table; `lost` the
    number of attempts that other writers won.
    """

    version: int
    txn_id: str
    request: CommitRequest
    read_version: int
    lost: int
    made_from: Snapshot | None = None
    base: Base | None = None
    """The version that was made, as far as the next commit depends on it."""
    past: OwnCommit | None = None
    """Its file."""


@dataclass(frozen=True)
class NothingToDo:
    """The version that was read is already in the requested state: no version was created."""

    read_version: int


@dataclass(frozen=True)
class Dropped(NothingToDo):
    """Another writer has changed the files of a request (`OnConflict.DROP`): no version was created."""

    reason: str


def jittered_pause(machine: Machine, repetition: int) -> None:
    """Wait for a random time whose limit doubles with each retry, so that competing writers do not collide again."""
    machine.sleep_up_to(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(repetition, 16)))


def commit(
    table: TableHandle,
    make: Callable[[Snapshot], CommitRequest | None],
    *,
    read: Callable[[TableHandle], Snapshot | None] = read_snapshot,
    create: Callable[[], CommitRequest | None] | None = None,
    after: Committed | None = None,
    look: Callable[[], bool] | None = None,
    commit_metadata: Mapping[str, str] = NO_METADATA,
    max_attempts: int = MAX_ATTEMPTS,
    pause: Pause | None = None,
) -> Committed | NothingToDo:
    """Make a request from the newest version and commit it as the next one; return the version, or NothingToDo where
    `make` returns None, or Dropped.

    If another writer is first, the request is retried after it, or made again where that commit changed what was read:
    `make` may be called several times, with newer snapshots, and what it raises ends the run. `read` returns the
    version, None where there is no table yet: then `create` makes the request for version 0. With `after`, a commit of
    the same run that changed neither protocol nor metadata, the request is made from the same version and tried as the
    next one without reading the table. `look` is called before each attempt: where it returns False, the request is
    made again from the newest version. `commit_metadata` are keys to add to the commitInfo.

    The version that a commit follows is looked at again before each attempt: on a disk always, on a store over a
    network where it was read some seconds ago; and where the commits of others are read that took its place. A pause is
    before that look, and nothing but the next attempt behind it: another writer that commits more often than the pause
    takes does not win each time.

    Raises UsageError for reserved keys, Refused where the table's protocol forbids it, its newest commits are lost, or
    the log has another past by now (`plan.other-past`), NoAtomicCreate where the store is read-only, StorageFailed, and
    ConflictLost after `max_attempts` versions, or two minutes and ten attempts, all with nothing changed;
    OutcomeUnknown where the commit was sent and cannot be read back; and what `read` and a body raise. An interruption
    has a note on one in flight.
    Spec: Delta Log Entries; Protocol Evolution; In-Commit Timestamps.
    """
    storage = table.storage
    require_free(commit_metadata)
    require_writable(storage)
    wait = pause or partial(jittered_pause, table.machine)
    again = table
    if not storage.capabilities.cheap_listing:
        again = with_memory(table)
    sender = _Sender(again, table.machine.new_uuid(), wait, commit_metadata)
    made: _Made | None = None
    lost: _Lost | None = None
    began, attempt = table.machine.monotonic(), 0
    try:
        while attempt < min(FEW_ATTEMPTS, max_attempts) or (
            attempt < max_attempts and table.machine.monotonic() - began <= MAX_SECONDS
        ):
            if made is None:
                found = _make(again if attempt else table, make, read, create, None if attempt else after)
                if isinstance(found, NothingToDo):
                    return found
                made = found
            _require_allowed(storage, made.request, made.base)
            if isinstance(made.past, LogFile) and made.request.body is not None and not made.request.is_blind_append:
                require_clock(table, 0, made.past)  # others may have committed since the plan, and this one has removes
            attempt += 1
            if look is not None and not look():
                made = None
                wait(attempt)
                continue
            match sender.send(made, attempt):
                case Base() as base, past:
                    number, lost_ones = base.version, attempt - 1
                    return Committed(
                        number, sender.txn_id, made.request, made.read_version, lost_ones, made.snapshot, base, past
                    )
                case _Lost() as lost:
                    if isinstance(behind := _behind(made, lost, storage), Dropped):
                        return behind
                    made = behind
    except BaseException as stop:
        if sender.in_flight is not None and not isinstance(stop, Exception):
            stop.add_note(sender.note(*sender.in_flight))
        raise
    raise _conflict(lost, attempt, table.machine.monotonic() - began)


class _Made(NamedTuple):
    """A request, the version it was made from, and the version to commit it after."""

    request: CommitRequest
    read_version: int
    base: Base
    snapshot: Snapshot | None
    past: LogFile | OwnCommit | None
    looked_at: float

    def follows(self, before: LogFile | None) -> bool:
        """Whether the version before, as it was listed again, is still the one that this was made for."""
        return self.past is None or before == self.past or (isinstance(self.past, OwnCommit) and before is not None)

    def require_past(self, table: TableHandle) -> None:
        """Look at the version before again: a listing also shows a version that was made and lost since."""
        waited = table.machine.monotonic() - self.looked_at > FRESH_SECONDS
        if waited and isinstance(self.past, LogFile):
            require_still_newest(table.writable(), self.past)
        elif waited or table.storage.capabilities.cheap_listing:
            require_past(table.writable(), self.past)


def _make(
    table: TableHandle,
    make: Callable[[Snapshot], CommitRequest | None],
    read: Callable[[TableHandle], Snapshot | None],
    create: Callable[[], CommitRequest | None] | None,
    before: Committed | None,
) -> _Made | NothingToDo:
    """Return the request for the newest version, or for the one that the commit `before` was made from."""
    snapshot = read(table) if before is None else before.made_from
    if snapshot is not None:
        _require_free_versions(table, snapshot)
        request, read_version = make(snapshot), snapshot.version
    elif create is not None:
        request, read_version = create(), -1
    else:
        raise ValueError("there is no table to commit to")
    if request is None:
        return NothingToDo(read_version)
    if snapshot is not None:
        request = _with_table_id(request, snapshot, table)
    past: LogFile | OwnCommit | None
    if before is not None:
        past, looked_at = before.past, 0.0
    elif snapshot is not None:
        past, looked_at = past_of(snapshot.listing, snapshot.version), snapshot.listed_at
    else:
        past, looked_at = None, 0.0
    return _Made(request, read_version, _base(snapshot, request, before), snapshot, past, looked_at)


def _with_table_id(request: CommitRequest, snapshot: Snapshot, table: TableHandle) -> CommitRequest:
    """Return a request whose metaData gives a table an id that has none.

    Without one, deltalake cannot open the table, and Delta for Spark makes up another one at each reading, which it
    writes into its next metaData. An empty id would stay for good, as that of many tables.
    """
    if request.metadata is None or request.metadata.get("id") or snapshot.metadata.id:
        return request
    return replace(request, metadata={**request.metadata, "id": table.machine.new_uuid()}, gives_id=True)


def _require_free_versions(table: TableHandle, snapshot: Snapshot) -> None:
    """Raise Refused where a log compaction covers later versions: engines read it instead of the next commits."""
    if BEYOND_LOG not in snapshot.segment.problems:
        return
    listing = list_log(table.storage)  # once more: a writer may have added commits and compaction in between
    if listing.has_lost_newest:
        raise errors.Refused(
            f"{listing.of_lost_newest}, and engines would read it instead of a new commit",
            code=BEYOND_LOG,
            facts={"file": f"{LOG_DIRECTORY}/*.{listing.compacted_to:020d}.compacted.json"},
            hint=errors.command("repair", level="log", sources=["COPY"]),
        )


def _behind(made: _Made, lost: _Lost, storage: ReadStorage) -> _Made | Dropped | None:
    """Return the request as it follows the commits of others; None where it has to be made again."""
    require_listed(storage, made.past, lost.before)
    match judge(made.request, made.base, lost.winners):
        case Rebase(base):
            if lost.told_version > base.version and lost.past is not None and managed_store(storage) is None:
                require_still_newest(storage, lost.past)  # the number of a version that was made and lost is not taken
            return made._replace(base=base, past=lost.past, looked_at=lost.looked_at)
        case Recompute():
            return None
        case Drop(reason):
            return Dropped(made.read_version, reason)


class _Lost(NamedTuple):
    """Other writers created the version: the commits from it on, up to the first gap."""

    version: int
    winners: tuple[ConflictingCommit, ...]
    before: LogFile | None = None
    """The file of the version before, as it was listed with them."""
    past: LogFile | None = None
    """The file of the last one."""
    told_version: int = -1
    """The highest one that a file of the log names."""
    looked_at: float = 0.0
    """When they were listed, by the monotonic clock of this process."""


class _Sender:
    """Sends commits under one txnId and determines the outcome of each."""

    def __init__(self, table: TableHandle, txn_id: str, pause: Pause, commit_metadata: Mapping[str, str]) -> None:
        self._table, self.txn_id, self._pause = table, txn_id, pause
        self._commit_metadata = commit_metadata
        self.in_flight: tuple[CommitRequest, int] | None = None
        """The request that was sent last and not lost, and its version."""

    def send(self, made: _Made, attempt: int) -> tuple[Base, OwnCommit] | _Lost:
        """Create the version after the base and return it, or, after a pause, the commits of the writers that won it;
        returns only certain outcomes. Attempts count from 1.

        Raises StorageFailed where nothing was sent, OutcomeUnknown where the outcome cannot be determined.
        """
        now_ms = self._table.clock()
        head = encode(
            made.request,
            made.base,
            txn_id=self.txn_id,
            now_ms=now_ms,
            engine_info=ENGINE_INFO,
            commit_metadata=self._commit_metadata,
        )
        storage, version = self._table.writable(), made.base.version + 1
        if (managed := managed_store(storage)) is not None:
            managed.follow(made.base)
        path = f"{LOG_DIRECTORY}/{commit_name(version)}"
        body = made.request.body
        if body is None:
            made.require_past(self._table)
            lost = self._send(made, version, attempt, partial(storage.put_if_absent, path, head))
            return lost or _sent(made, version, head, now_ms)

        with storage.draft(path) as draft:
            with writing_faults(draft.local_path, path), open(draft.local_path, "wb") as file:
                file.write(head)
                file.writelines(body(slot_of(made.request, made.base)))
            made.require_past(self._table)  # the lines of many files take a while
            lost = self._send(made, version, attempt, draft.publish)
        return lost or _sent(made, version, head, now_ms)

    def _send(self, made: _Made, version: int, attempt: int, create: Callable[[], Creation]) -> _Lost | None:
        self.in_flight = made.request, version
        lost = self._create(made, version, attempt, create)
        if lost is not None:
            self.in_flight = None
        elif (managed := managed_store(self._table.storage)) is not None:
            managed.settle(version)
        return lost

    def _create(self, made: _Made, version: int, attempt: int, create: Callable[[], Creation]) -> _Lost | None:
        """Return None where the version is ours."""
        cause: str | None = None
        """The reason why the outcome is unknown. From then on the commit may exist or appear later."""
        fault: errors.DeltacliError | None = None
        is_judged = managed_store(self._table.storage) is not None  # by the catalog, to which it may be sent again
        has_looked = True
        for asked in range(MAX_ASKED):
            if asked:
                self._pause(asked)
            try:
                answer = create() if has_looked else None
            except errors.DeltacliError as failed:
                if cause is None:
                    raise  # an error here means that nothing was written
                answer, fault = None, failed
            if isinstance(answer, Created):
                return None
            if isinstance(answer, Unknown):
                cause = answer.cause
            has_looked = is_judged  # it is sent again only into the log that it was made for
            try:
                lost, newest = self._winners(made.request, version, 0 if asked or cause else attempt)
            except errors.DeltacliError as failed:
                fault = failed
                if isinstance(failed, errors.NotATable) and not is_judged:
                    break
                if isinstance(failed, errors.StorageFailed):  # a proxy may have sent it twice: it may be this one
                    cause = cause or "the version exists, but its writer cannot be read"
                continue
            if lost.winners or cause is None:
                return None if any(winner.txn_id == self.txn_id for winner in lost.winners) else lost
            if newest >= version or not (is_judged or made.follows(lost.before)):
                break  # the log has newer versions without it, or is another one: the commit would not fit
            has_looked = True
        if cause is None and fault is not None:
            raise fault
        raise self._unknown(version, cause, fault)

    def _winners(self, request: CommitRequest, version: int, pause: int = 0) -> tuple[_Lost, int]:
        """Read the commits from a version on, up to the first missing or torn one, and return them with the newest
        listed version; before that, wait where `pause` is the number of a retry.

        Raises StorageFailed, CommitCorrupt where the first is torn, and Refused where another directory is at the path.
        """
        if pause:
            self._pause(pause)
        storage, looked_at = self._table.storage, self._table.machine.monotonic()
        listing = list_log(storage, start_version=max(version - 1, 0))
        numbers = takewhile(listing.commits.__contains__, count(version))
        self._fetch([listing.commits[number] for number in numbers])
        winners: list[ConflictingCommit] = []
        past: LogFile | None = None
        while (file := listing.commits.get(version + len(winners))) is not None:
            try:
                winners.append(look_at(request, file.version, file.modified_ms, stream_commit(storage, file)))
                past = file
            except errors.CommitCorrupt:
                if not winners:
                    raise
                break  # reported when it is reached: the commits before it may already decide
        require_same_directory(storage)  # commits of another directory say nothing about one that was sent
        before = past_of(listing, version - 1)
        lost = _Lost(version, tuple(winners), before, past, listing.told_version, looked_at)
        return lost, listing.newest_version

    def _fetch(self, files: Sequence[LogFile]) -> None:
        """Read small commits at once where the store remembers them: one by one is as slow as some writers commit."""
        at_once = self._table.storage.capabilities.parallel_reads
        small = [commit_location(file) for file in files if file.size_bytes <= _FETCHED_BYTES]
        if not self._table.storage.capabilities.cheap_listing and len(small) > 1:
            with suppress(errors.DeltacliError):  # it is reported by who needs that commit
                deque(self._table.engine.run(self._table.storage.read, small, at_once=at_once), maxlen=0)

    def note(self, request: CommitRequest, version: int) -> str:
        """Return the outcome of a commit that was in flight when the run was interrupted; looks once."""
        try:
            winners = self._winners(request, version)[0].winners
        except errors.DeltacliError:
            winners = ()
        if any(winner.txn_id == self.txn_id for winner in winners):
            return f"version {version} was committed"
        if winners:
            return "nothing was committed"
        return f"version {version} may have been committed: it was if {commit_name(version)} contains {self.txn_id}"

    def _unknown(self, version: int, cause: str | None, fault: errors.DeltacliError | None) -> errors.OutcomeUnknown:
        path = f"{LOG_DIRECTORY}/{commit_name(version)}"
        where, when = path, f"{path} exists"
        if managed_store(self._table.storage) is not None:  # its staged file is in the reason
            where, when = f"{path}, once it is published", f"the table has version {version}"
        return errors.OutcomeUnknown(
            f"version {version} was sent, but it is not known whether it was committed",
            facts={
                "file": where,
                "txnId": self.txn_id,
                "why": cause or "no answer",
                **({} if fault is None else {"looking for it": fault.reason}),
                "to check": f"it was committed if {when} and contains this txnId; if it does not exist, it may "
                "still appear for as long as a request can be on its way",
            },
            hint=errors.command("log cat", version),
            table=self._table.uri,  # which is the clone or the copy, and not the table that is cloned
        )


def _sent(made: _Made, version: int, head: bytes, now_ms: int) -> tuple[Base, OwnCommit]:
    past = OwnCommit(commit_name(version), head[: head.index(b"\n")])
    return following(made.request, made.base, now_ms), past


def require_possible(snapshot: Snapshot, request: CommitRequest, act: Act | None = Act.COMMIT) -> None:
    """Raise Refused where a request could not be committed after a version, or where errors of the version that it
    leaves stop an act (None: the plan judges them itself), and NoAtomicCreate where the store is read-only. For plans,
    which commit nothing.
    """
    require_writable(snapshot.table.storage)
    _require_allowed(snapshot.table.storage, request, _base(snapshot, request))
    if act is not None:
        from deltacli.changing.preflight import require_trusted

        require_trusted(act, snapshot, request)


def _require_allowed(storage: ReadStorage, request: CommitRequest, base: Base) -> None:
    """Raise Refused where the protocol or the catalog of the table forbids a commit, or where its schema has numbers
    that JSON does not have; UsageError for its texts.
    """
    # The commit that gives a copy its own id has the schema of its source, as the copied commits before it.
    if not request.gives_id:
        require_finite_numbers(request.metadata)
    managed = managed_store(storage)
    require_allowed(request, base, by_catalog=managed is not None)
    if managed is not None:
        managed.require_ratifiable(request, base)
    texts = {"metaData": request.metadata, "operation": request.operation_parameters, "tags": request.tags}
    require_text({**texts, "txn": request.transactions, "domainMetadata": request.domains}, base.metadata.as_json())


def _base(snapshot: Snapshot | None, request: CommitRequest, before: Committed | None = None) -> Base:
    """Return the version that a request was made from, with its time where the new commit has an in-commit timestamp;
    or that of a commit `before` it.

    Raises Refused where that time is needed but unknown, because the next one could be earlier.
    """
    if snapshot is None:
        return base_of_new_table(request)
    base = _with_row_id_mark(Base(snapshot.version, snapshot.protocol, snapshot.metadata), snapshot, request)
    if before is not None and before.base is not None:
        return before.base
    if not is_stamped(request, base):
        return base
    base_time = snapshot.time
    if base_time is None or (base.is_stamped and base_time.source is not TimestampSource.IN_COMMIT):
        raise errors.Refused(
            f"version {snapshot.version} has no in-commit timestamp to base that of the next version on",
            code="ict.missing",
            facts={"looked at": f"{LOG_DIRECTORY}/{commit_name(snapshot.version)}"},
            hint=errors.command("validate", select=[errors.DoubleQuoted("ict.*")]),
        )
    return base._replace(committed_ms=base_time.timestamp_ms)


def _with_row_id_mark(base: Base, snapshot: Snapshot, request: CommitRequest) -> Base:
    """Return the base with the highest row id ever assigned. Raises Refused where new rows need an unknown one."""
    domain = next((domain for domain in snapshot.domains if domain.domain == DOMAIN), None)
    if domain is None:
        return base
    mark = read_mark(domain.configuration)
    if mark is not None:
        return base._replace(row_id_mark=mark)
    if request.new_rows and slot_of(request, base).first_row_id is not None:
        raise errors.Refused(
            f"version {snapshot.version} has no high-water mark of row ids that new ones could follow",
            code="rowtracking.high-water-mark",
            facts={"domain": DOMAIN, "found": domain.configuration[:120]},
            hint=errors.command("validate", select=[errors.DoubleQuoted("rowtracking.*")]),
        )
    return base


def _conflict(lost: _Lost | None, attempts: int, seconds: float) -> errors.ConflictLost:
    facts = {"versions tried": f"{attempts}, in {seconds:.0f} s"}
    if lost is not None and lost.winners:
        winner = lost.winners[-1]
        who = " by ".join(word for word in (winner.operation, winner.engine_info) if word)
        facts |= {"last lost to": f"version {winner.version}, {who or 'by an unnamed writer'}"}
    facts["next"] = "let the other writers pause, or run the same command again when they commit less often"
    return errors.ConflictLost(
        "nothing was committed: other writers created every version that was tried",
        facts=facts,
        hint=errors.command("history", limit=10),
    )


# -- the log of a remote store, remembered -----------------------------------------------------------------------------

MOST_BYTES, MOST_OF_A_FILE = 128 << 20, 16 << 20
"""Maximum size of the files that are remembered, and of one; what is beyond it is read each time, in part."""
_SIDECARS = f"{LOG_DIRECTORY}/{SIDECAR_DIRECTORY}"
_IMMUTABLE = (
    LogFileKind.COMMIT,
    LogFileKind.CLASSIC_CHECKPOINT,
    LogFileKind.MULTI_PART_CHECKPOINT,
    LogFileKind.UUID_CHECKPOINT,
)


def with_memory(table: TableHandle) -> TableHandle:
    """Return the same table on a store that remembers commits and checkpoints."""
    return table.over(cast("ReadStorage", _LogMemory(table.storage)))


class _LogMemory:
    """A store whose commits and checkpoints are read once, whole, until a listing shows another file under the name.
    What it has not read is as in the store: listings, hints, and the time of a file.
    """

    def __init__(self, inner: ReadStorage) -> None:
        self._inner, self._left, self._lock = inner, MOST_BYTES, Lock()
        self._read: dict[str, bytes] = {}
        self._opened: dict[str, tuple[bytes, str]] = {}
        """Those that were opened, with the tag that each had then."""
        self._listed: dict[str, FileStat] = {}

    def __getattr__(self, name: str) -> Any:  # Any: a method of the store
        return getattr(self._inner, name)

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        """Yield the files of a directory, and forget those that are others by now."""
        for found in self._inner.list_from(directory, start):
            path = f"{directory}/{found.name}"
            data = self._read.get(path) or self._opened.get(path, (None, ""))[0]
            if data is not None and (len(data) != found.size_bytes or self._listed.get(path, found) != found):
                with self._lock:
                    self._left += len(self._read.pop(path, b"")) + len(self._opened.pop(path, (b"", ""))[0])
            self._listed[path] = found
            yield found

    def read(self, path: str) -> bytes:
        """Return the whole file."""
        if (known := self._read.get(path)) is not None:
            return known
        data = self._inner.read(path)
        if self._has_room(path, len(data)):
            self._read[path] = data
        return data

    def open(self, path: str) -> BinaryFile:
        """Open the file for random access."""
        if (known := self._opened.get(path)) is None:
            opened = self._inner.open(path)
            size = opened.seek(0, io.SEEK_END)
            opened.seek(0)
            if not self._has_room(path, size):
                return opened
            with opened:
                known = self._opened[path] = opened.read(size), self._inner.tag(path, opened)
        return _RememberedFile(*known)

    def tag(self, path: str, opened: Any) -> str:  # Any: a file, as in the port
        return opened.stored_tag if isinstance(opened, _RememberedFile) else self._inner.tag(path, opened)

    def _has_room(self, path: str, size: int) -> bool:
        if not _is_immutable(path) or size > MOST_OF_A_FILE:
            return False
        with self._lock:
            self._left -= size if (has_room := size <= self._left) else 0
        return has_room


class _RememberedFile(io.BytesIO):
    """A remembered file, with the tag of this content."""

    def __init__(self, data: bytes, stored_tag: str) -> None:
        super().__init__(data)
        self.stored_tag = stored_tag


def _is_immutable(path: str) -> bool:
    directory, _, name = path.rpartition("/")
    return directory == _SIDECARS or (directory == LOG_DIRECTORY and parse_log_path(name).kind in _IMMUTABLE)
