"""What a plan was made from, and whether the table still is that: its directory, its id, its past.

A table is recognized by its past, which is the commit that a plan or another commit stands on: a log that was rolled
back and written anew, or a copy that went its own way, has another file of that name.

Spec: Delta Log Entries.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from enum import Flag, auto
from typing import TYPE_CHECKING, NamedTuple

from deltacli.core.errors import NOTHING_CHANGED, FileMissing, Refusal, Refused, command
from deltacli.core.times import CLOCK_SKEW_MS, format_timestamp
from deltacli.core.units import format_size
from deltacli.delta.log.segment import (
    BEYOND_LOG,
    LOG_DIRECTORY,
    NAME_NOT_PADDED,
    LogFile,
    LogFileKind,
    LogListing,
    commit_name,
    parse_log_path,
)
from deltacli.delta.protocol.features import require_committable as require_committable_version
from deltacli.table.find_log import find_lost_versions, list_log
from deltacli.table.handle import TableHandle, managed_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deltacli.core.typing import Json
    from deltacli.storage import ReadStorage
    from deltacli.table.version import Snapshot

# -- effects of a change -----------------------------------------------------------------------------------------------


class Act(Flag):
    """A way to change a table. A change may have several."""

    COMMIT = auto()
    """A version without files: columns, properties, features."""
    ADD = auto()
    """New data files and the version that names them."""
    NAME = auto()
    """A version that names files that are there already, as of a restore."""
    DELETE = auto()
    """Data files are deleted for good."""
    PUT = auto()
    """Files are put back in their places, without a version of our own."""
    DERIVE = auto()
    """Files of the log that follow from commits: checkpoints, compactions, checksums."""
    EXPIRE = auto()
    """Files of the log are deleted for good."""


# -- what a plan was made from -----------------------------------------------------------------------------------------


def require_committable(snapshot: Snapshot) -> None:
    """Raise Refused unless deltacli may commit after a version, by its catalog where the table was opened there."""
    version = snapshot.protocol, snapshot.properties, snapshot.version
    if (managed := managed_store(snapshot.table.storage)) is not None:
        managed.require_committable(*version)
    else:
        require_committable_version(*version)


OTHER_PAST, TOO_OLD, NEWER, CLOCK = "plan.other-past", "plan.too-old", "plan.newer", "plan.clock"
FRESH_SECONDS = 5.0
"""The age of a look at the log up to which a remote store is not asked again."""
LOOK_SECONDS = 60.0
"""The age of a look at data files up to which a commit may name them."""
_SECOND_MS = 1000
_BYTES_AT_ONCE = 1 << 20


class OwnCommit(NamedTuple):
    """A commit of this run, which was not listed yet: recognized by its first line, which has its txnId."""

    name: str
    first_line: bytes


@dataclass(frozen=True, eq=False)
class Basis:
    """The version that a plan was made from, of a Paimon table the id of the schema; -1 where there is none."""

    table: TableHandle
    """Bound to the directory where the table was read."""
    version: int
    now_ms: int
    past: LogFile | None = None
    snapshot: Snapshot | None = None
    looked_at: float = 0.0
    """When the log was listed, by the monotonic clock of this process."""
    cautions: list[str] = field(default_factory=list)
    """What every change of this table has to say, once it is planned: see `views_of`."""
    sha256: str | None = None
    """The digest of its commit, where size and time do not identify it."""

    @property
    def is_fresh(self) -> bool:
        """Return True if the log was read a few seconds ago."""
        return 0 <= self.table.machine.monotonic() - self.looked_at <= FRESH_SECONDS

    @property
    def cautions_json(self) -> dict[str, Json]:
        """Return the cautions as a field of documents that have no other texts; nothing without any."""
        return {"cautions": list(self.cautions)} if self.cautions else {}


def basis_of(snapshot: Snapshot) -> Basis:
    """Return what a plan on a version is made from."""
    table = snapshot.table
    past = past_of(snapshot.listing, snapshot.version)
    return Basis(table, snapshot.version, table.clock(), past, snapshot, snapshot.listed_at)


def with_digest(basis: Basis) -> Basis:
    """Return a basis for an act that cannot be taken back. On a disk it knows the digest of its commit, because another
    one may get its size and its time there, as from an archive.
    """
    past, storage = basis.past, basis.table.storage
    if past is None or past.path.kind is not LogFileKind.COMMIT or not storage.capabilities.cheap_listing:
        return basis
    sha256 = digest_of(storage, past)
    if sha256 is None:
        raise _is_gone(past.name)
    return replace(basis, sha256=sha256)


def digest_of(storage: ReadStorage, file: LogFile) -> str | None:
    """Return the SHA-256 of a file of the log; None where it is gone."""
    found = hashlib.sha256()
    try:
        with storage.open(f"{LOG_DIRECTORY}/{file.name}") as reader:
            while data := reader.read(_BYTES_AT_ONCE):
                found.update(data)
    except FileMissing:
        return None
    return str(found.hexdigest())


def lasting_basis(snapshot: Snapshot, listing: LogListing, now_ms: int) -> Basis:
    """Return the basis of a plan that may be stored. Raises Refused where the log, listed since, has another past."""
    basis = with_digest(replace(basis_of(snapshot), now_ms=now_ms, snapshot=None))
    require_same(basis, listing)
    return basis


def digest_of_past(storage: ReadStorage, past: LogFile | None) -> str | None:
    """Return the SHA-256 of what a plan stands on. Raises Refused where it has changed since it was listed."""
    sha256 = None if past is None else digest_of(storage, past)
    require_past(storage, past)
    return sha256


def past_of(listing: LogListing, version: int) -> LogFile | None:
    """Return the commit of a version, or its checkpoint where the commit has expired; None without both."""
    checkpoints = (one.files[0] for one in listing.checkpoints if one.version == version)
    return listing.commits.get(version) or next(checkpoints, None)


def require_past(storage: ReadStorage, past: LogFile | OwnCommit | None) -> None:
    """Raise Refused where the file that a plan or a commit stands on is another one or gone. One request."""
    if past is None:
        return
    path = f"{LOG_DIRECTORY}/{past.name}"
    try:
        if isinstance(past, OwnCommit):
            if storage.read_range(path, 0, len(past.first_line)) != past.first_line:
                raise _other_past(past.name, {"planned on": "a commit of this run", "found": "one of another writer"})
            return
        found = storage.stat(path)
    except FileMissing:
        raise _is_gone(past.name) from None
    # A store over a network tells the time of one file in seconds.
    apart = 0 if storage.capabilities.cheap_listing else _SECOND_MS
    _require_equal(past, found.size_bytes, found.modified_ms, apart)


def require_unchanged(basis: Basis) -> None:
    """Raise Refused (`plan.other-past`) where the commit that a plan stands on is another one: on a disk always, on a
    store over a network where it was listed some seconds ago.
    """
    storage = basis.table.storage
    if storage.capabilities.cheap_listing or not basis.is_fresh:
        require_past(storage, basis.past)


def require_still_newest(storage: ReadStorage, past: LogFile) -> None:
    """Raise Refused where the file that a commit stands on is another one or gone, or a later version was made and
    lost: its number is not free, as a file of it or a later commit is there. One request, as `require_past`.
    """
    for _ in range(2):  # a listing may miss a commit that was just created
        listing = list_log(storage, start_version=past.version)
        found = past_of(listing, past.version)
        if found is None or found.name != past.name:
            raise _is_gone(past.name)
        _require_equal(past, found.size_bytes, found.modified_ms)
        newest = max([past.version, *(last for first, last in listing.commit_runs if first <= past.version + 1)])
        told = listing.told_version
        if told <= newest:
            return
    raise Refused(
        f"commits after version {newest} seem to be lost: a commit, a checkpoint, a checksum or a log compaction "
        f"of version {told} came since this was planned",
        preamble=NOTHING_CHANGED,
        code=TOO_OLD,
        facts={"file": f"{LOG_DIRECTORY}/*{told:020d}*"},
        hint=command("validate", level="log"),
    )


def require_listed(storage: ReadStorage, past: LogFile | OwnCommit | None, found: LogFile | None) -> None:
    """Raise Refused where the file that a commit stands on was listed as another one; not where it has expired."""
    if past is None or found is None or past.name != found.name:
        return
    if isinstance(past, OwnCommit):
        require_past(storage, past)
    else:
        _require_equal(past, found.size_bytes, found.modified_ms)


def _require_equal(past: LogFile, size_bytes: int, modified_ms: int, apart: int = 0) -> None:
    if size_bytes != past.size_bytes or abs(modified_ms - past.modified_ms) > apart:
        raise other_past(past, size_bytes, modified_ms)


def require_same(basis: Basis, listing: LogListing) -> None:
    """Raise Refused where a log, listed from the version of the basis on, is not the one that the plan was made from:
    rolled back (`plan.newer`), written anew (`plan.other-past`), or with commits since the plan that are gone
    (`plan.too-old`). Where the plan had none, there must be none.
    """
    if basis.version < 0 <= listing.newest_version:
        raise Refused(
            f"the log has version {listing.newest_version} by now, and had none when this was planned",
            preamble=NOTHING_CHANGED,
            code=OTHER_PAST,
            facts={"why": "another writer created the table, or restores it"},
            hint=command("history", limit=10),
        )
    if listing.newest_version < basis.version:
        raise Refused(
            f"this was planned on version {basis.version}, but the newest is now {listing.newest_version}",
            preamble=NOTHING_CHANGED,
            code=NEWER,
            facts={"why": "the log was rolled back, or the table was replaced"},
            hint=command("history", limit=10),
        )
    if basis.past is not None:
        found = past_of(listing, basis.version)
        if found is None:
            raise _is_gone(basis.past.name)
        if found != basis.past:
            raise other_past(basis.past, found.size_bytes, found.modified_ms)
        if basis.sha256 is not None and (sha256 := digest_of(basis.table.storage, found)) != basis.sha256:
            raise _other_past(found.name, {"planned on": f"sha256 {basis.sha256}", "found": f"sha256 {sha256}"})
    if not listing.can_follow(basis.version):
        raise Refused(
            f"commits after version {basis.version}, on which this was planned, are no longer in the log",
            preamble=NOTHING_CHANGED,
            code=TOO_OLD,
            facts={"newest": f"version {listing.newest_version}"},
            hint=command("history", limit=10),
        )


def refusal_of_lost_versions(storage: ReadStorage, listing: LogListing, hint_version: int) -> Refusal | None:
    """Return the refusal if the hint or a checksum is of a version above the newest one, which was lost: what it added
    looks uncommitted, what it took back looks removed, and a commit would take its number. A commit whose name not all
    engines read has the same effects.
    """
    if (lost := find_lost_versions(storage, listing, hint_version)) is None:
        return None
    from deltacli.rules.framework.repairs import undelete_command

    code, name, message = lost
    if code == NAME_NOT_PADDED:
        when = "while no writer is running"
        return Refusal(
            code,
            f"{message}, and the files that it names are unknown to others",
            hint=command("validate", select=[NAME_NOT_PADDED]),
            facts={
                "if it is a version": f"rename it to {commit_name(listing.newest_version + 1)} {when}",
                "if it is not": f"move {LOG_DIRECTORY}/{name} to another directory {when}",
            },
        )
    return Refusal(
        code,
        f"{message}, and the files that they named are unknown",
        hint=undelete_command(storage.uri),
        facts={"if they were never made": f"delete {LOG_DIRECTORY}/{name}"},
    )


def notes_on_lost_versions(storage: ReadStorage, listing: LogListing, hint_version: int) -> list[str]:
    """Return what is noted where the newest version is copied or cloned, and newer ones were lost."""
    if listing.has_lost_newest:
        return [f"{BEYOND_LOG}: {listing.of_lost_newest}"]
    lost = find_lost_versions(storage, listing, hint_version)
    return [] if lost is None else [f"{lost[0]}: {lost[2]}"]


def look_again(basis: Basis) -> LogListing | None:
    """List the log from the version of a basis on, and require that it is the same; None where there was none, as of a
    Paimon table, or a store over a network was asked just now.
    """
    if basis.past is None or (basis.is_fresh and not basis.table.storage.capabilities.cheap_listing):
        return None
    listing = list_log(basis.table.storage, start_version=basis.version)
    require_same(basis, listing)
    return listing


def require_clock(table: TableHandle, now_ms: int, past: LogFile | None) -> None:
    """Raise Refused where the clock is before that of a plan, or more than five minutes behind the newest commit:
    tombstones would be older than their files. A clock that was given (`--now`) is accepted.
    """
    if table.has_given_clock:
        return
    is_at = table.clock()
    newest_ms = 0 if past is None else past.modified_ms
    for than, what in ((now_ms, "planned at"), (newest_ms - CLOCK_SKEW_MS, "newest commit")):
        if is_at < than:
            raise Refused(
                f"the clock is {format_timestamp(is_at)}, behind "
                f"{'the plan' if what == 'planned at' else 'the newest commit'}",
                preamble=NOTHING_CHANGED,
                code=CLOCK,
                facts={what: format_timestamp(now_ms if what == "planned at" else newest_ms)},
                hint="date -u",
            )


def other_past(past: LogFile, size_bytes: int, modified_ms: int) -> Refused:
    """Return the refusal for a log in which the file that a plan stands on is another one."""
    sizes = {"planned on": (past.size_bytes, past.modified_ms), "found": (size_bytes, modified_ms)}
    facts = {what: f"{format_size(size)}, {format_timestamp(at_ms)}" for what, (size, at_ms) in sizes.items()}
    return _other_past(past.name, facts)


def may_be_replaced_unseen(basis: Basis) -> bool:
    """Return True if another commit may have taken the place of the one that a plan stands on, with its size and its
    time: it was written shortly before the plan, and stores over a network have times in whole seconds.
    """
    return basis.past is not None and basis.past.modified_ms > basis.now_ms - CLOCK_SKEW_MS


def other_content(name: str) -> Refused:
    """Return the refusal for a log in which a file that was read for a plan has other content of the same size."""
    return _other_past(name, {"why": "its content differs"})


def _other_past(name: str, facts: Mapping[str, str]) -> Refused:
    return Refused(
        f"{name} was replaced after this was planned, so the log has another past",
        preamble=NOTHING_CHANGED,
        code=OTHER_PAST,
        facts=facts,
        hint=command("history", limit=10),
    )


def _is_gone(name: str) -> Refused:
    return Refused(
        f"{name}, on which this was planned, is no longer in the log",
        preamble=NOTHING_CHANGED,
        code=OTHER_PAST,
        facts={"planned on": f"version {parse_log_path(name).version}"},
        hint=command("history", limit=10),
    )
