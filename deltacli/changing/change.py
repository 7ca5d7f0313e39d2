"""Carrying out a change of a table in the same way for every command, call and step: plan, consent, look again, act.

Other engines keep views beside the log. A commit leaves them behind, but for the manifests of a table whose property
asks for them, and what they name must not be deleted.

What somebody agreed to is one plan, or the command itself; behind another writer a change is planned again, and goes on
only if that was agreed to, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from deltacli.changing.basis import (
    Act,
    Basis,
    look_again,
    refusal_of_lost_versions,
    require_clock,
    require_past,
    require_same,
    require_unchanged,
)
from deltacli.core import errors
from deltacli.delta.data_files import MANIFESTS, is_manifest, named_by
from deltacli.delta.log.actions import NO_METADATA
from deltacli.delta.log.state import is_true
from deltacli.delta.protocol.features import require_derivable as require_files_of_log
from deltacli.storage import Created, Creation, ReadStorage, Storage
from deltacli.storage.directory_identity import require_same_directory
from deltacli.table.find_log import Log
from deltacli.table.handle import managed_store
from deltacli.table.rebuild import read_snapshot, rebuild

if TYPE_CHECKING:
    from deltacli.changing.commit import Committed, NothingToDo, Pause
    from deltacli.changing.plan import Undone
    from deltacli.delta.log.commit_content import CommitRequest
    from deltacli.delta.log.segment import LogListing
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

# -- views of other engines --------------------------------------------------------------------------------------------

STALE_VIEW = "views.not-updated"
"""The code of the cautions, where a document has one."""
_MANIFEST_PROPERTY = "delta.compatibility.symlinkFormatManifest.enabled"
_UNIFORM = "delta.universalFormat.enabledFormats"
_ICEBERG_STORAGE = "metadata.iceberg.storage"


def views_of(snapshot: Snapshot) -> Iterator[str]:
    """Yield a caution for each view of a Delta table that a commit leaves as it is. At most one directory is asked for,
    and one that cannot be looked at counts as absent.
    """
    properties = snapshot.properties
    if not is_true(properties, _MANIFEST_PROPERTY) and _has_manifests(snapshot.table.storage):
        way_out = errors.command("manifest", table=snapshot.table.address)
        yield (
            f"the manifests in {MANIFESTS}, which Athena, Redshift and Presto read, are not updated: write them again "
            f"after the change{f' ({way_out})' if way_out else ''}"
        )
    formats = [name for name in properties.get(_UNIFORM, "").replace(",", " ").split() if name]
    if formats:
        names = " and ".join(name.capitalize() for name in formats)
        yield (
            f"the {names} metadata that {_UNIFORM} asks for is not updated: {names} readers keep reading an earlier "
            "version until an engine that writes it commits"
        )


def views_of_paimon(options: Mapping[str, str]) -> Iterator[str]:
    """Yield the same for a Paimon table with these options."""
    if options.get(_ICEBERG_STORAGE, "disabled").lower() != "disabled":
        yield (
            f"the Iceberg metadata that {_ICEBERG_STORAGE} asks for is not updated: Iceberg readers keep the earlier "
            "columns until Paimon commits"
        )


def _has_manifests(storage: ReadStorage) -> bool:
    """Return True if a table has symlink manifests, or directories for those of its partitions."""
    partitions: list[str] = []

    def note_partitions(_: str, names: Iterable[str]) -> Iterable[str]:
        partitions.extend(names)
        return ()

    try:
        walked_directories = storage.walk(MANIFESTS, note_partitions)
        has_manifest = any(
            is_manifest(f"{walked.directory}/{name}") for walked in walked_directories for name in walked.names
        )
    except errors.StorageFailed:
        return False
    return has_manifest or bool(partitions)


def files_of_manifests(table: TableHandle) -> set[str]:
    """Return the paths below the table that its manifests name, as on the store. Raises what the storage raises."""
    storage = table.storage
    try:
        places = [
            f"{walked.directory}/{name}"
            for walked in storage.walk(MANIFESTS, lambda _, names: names)
            for name in walked.names
            if is_manifest(f"{walked.directory}/{name}")
        ]
    except errors.FileMissing:
        return set()
    uris = (storage.uri, *storage.aliases)

    def read(place: str) -> set[str]:
        return set[str]().union(*named_by(storage.read(place), uris))

    found = table.engine.run(read, places, at_once=storage.capabilities.parallel_reads)
    return set[str]().union(*found)


# -- the gate ----------------------------------------------------------------------------------------------------------

_NAMED = 5


class Plan(Protocol):
    """What a change would do. Nothing has been done."""

    @property
    def basis(self) -> Basis:
        """What it was made from."""

    @property
    def is_noop(self) -> bool:
        """Return True where the table already is as requested."""

    def objection(self) -> errors.Refused | None:
        """Return the error that its reasons against the change make; None without one."""

    def effects(self) -> Iterable[str]:
        """Return what somebody agrees to, a line each, without versions and times."""


P = TypeVar("P", bound=Plan)
P_co = TypeVar("P_co", bound=Plan, covariant=True)
Done = TypeVar("Done")
"""The outcome of a change."""


Consent = str | None
"""The `plan_id` that was agreed to: a plan made again must have the same effects. None where the command was agreed to
before there was a plan: then it may be planned again behind another writer.
"""


def plan_id(plan: Plan) -> str:
    """Return 16 hexadecimal digits that are equal for plans with equal effects."""
    import hashlib

    text = "\n".join(plan.effects()).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:16]


def standing(_: Plan) -> Consent:
    """Agree to the command, as a call and `--yes` do."""
    return None


def for_plan(plan: Plan) -> Consent:
    """Agree to a plan and nothing else, as somebody does who has read it."""
    return plan_id(plan)


class Gate(Generic[P, Done]):
    """The way of one change into its table. `plan` is the newest one, `outcome` what was done so far."""

    def __init__(
        self, plan_again: Callable[[TableHandle, Snapshot], P], plan: P, ask: Callable[[P], Consent], outcome: Done
    ) -> None:
        self._plan_again, self._agreed, self._ask, self._consent = plan_again, plan, ask, ask(plan)
        self._was_read = False
        self.plan, self.outcome = plan, outcome
        self.table = plan.basis.table
        self.has_begun = False
        """Whether something was committed, deleted or put in place: from then on an error is PartlyDone."""
        self.has_ended = False
        """Whether the change was executed to its end, although not all of it may have been possible."""
        self.has_stale_manifests = False
        """Whether it has committed files of a table whose manifests are to follow each version."""
        self.unreached: tuple[str, str | None] | None = None
        """What an error after the first act has to say first, and the command that goes on; None: nothing."""

    @property
    def store(self) -> Storage:
        """The store that writes to the table, in the directory where the plan was made."""
        return self.table.writable()

    @property
    def was_planned_again(self) -> bool:
        return self.plan is not self._agreed

    @property
    def may_plan_again(self) -> bool:
        """Return True if consent was given to the command, whatever its plan."""
        return self._consent is None

    def look(self, at: Basis | None = None, *, needs_clock: bool = False, listing: LogListing | None = None) -> None:
        """Look again at the log of the plan, as it was listed by now if it was, or at another table that the change
        reads, before the first act. Raises Refused (`plan.*`).
        """
        basis = self.plan.basis if at is None else at
        if at is not None:
            require_same_directory(at.table.storage)
        if needs_clock:
            require_clock(self.table, basis.now_ms, basis.past)
        if listing is None:
            look_again(basis)
        else:
            require_same(basis, listing)

    def look_at_past(self, at: Basis | None = None) -> None:
        """Look at the commit that the plan stands on, by one request; at that of a plan that follows, as
        `require_unchanged` does, which was listed just now. Raises Refused (`plan.other-past`).
        """
        if at is None:
            require_past(self.table.storage, self.plan.basis.past)
        else:
            require_unchanged(at)

    def again(self, plan: P) -> P:
        """Take a plan that was made again. Raises Refused, and ConflictLost where nobody agreed to its effects."""
        if (refusal := plan.objection()) is not None:
            raise refusal
        if self._consent is not None and not plan.is_noop and plan_id(plan) != self._consent:
            raise _not_agreed(self.plan, plan)
        plan.basis.cautions[:] = self.plan.basis.cautions
        self.plan = plan
        return plan

    def follow(self, plan: P) -> bool:
        """Ask about a plan that follows from what was done, and take it; return False where nobody agrees to it."""
        try:
            self._consent = self._ask(plan)
        except errors.Refused:
            return False
        self._agreed = self.plan = plan
        return True

    def commit(
        self,
        make: Callable[[P], CommitRequest | None],
        *,
        plan_again: Callable[[P, Snapshot], P] | None = None,
        look: Callable[[], bool] | None = None,
        commit_metadata: Mapping[str, str] = NO_METADATA,
        needs_clock: bool = False,
        pause: Pause | None = None,
    ) -> Committed | NothingToDo:
        """Commit what `make` returns for the plan, after the version that it was made from, or for the plan as it is
        made again behind other writers, by `plan_again` from the one before; None where nothing is left to do. `look`
        is as for `commit`.

        Raises what `look`, `again` and `commit` raise.
        """

        def request(snapshot: Snapshot) -> CommitRequest | None:
            if snapshot is not self.plan.basis.snapshot:
                made = plan_again(self.plan, snapshot) if plan_again else self._plan_again(self.table, snapshot)
                self.again(made)
            return None if self.plan.is_noop else make(self.plan)

        create = (lambda: make(self.plan)) if self.plan.basis.version < 0 else None
        return self.commit_one(
            request, create=create, look=look, commit_metadata=commit_metadata, needs_clock=needs_clock, pause=pause
        )

    def commit_one(
        self,
        make: Callable[[Snapshot], CommitRequest | None],
        *,
        create: Callable[[], CommitRequest | None] | None = None,
        after: Committed | None = None,
        look: Callable[[], bool] | None = None,
        commit_metadata: Mapping[str, str] = NO_METADATA,
        needs_clock: bool = False,
        pause: Pause | None = None,
    ) -> Committed | NothingToDo:
        """Commit one of several steps of a change, whose plan is not made again: what `make` returns for a version. The
        first step begins at the version of the plan, later ones at the newest, or `after` one before, as for `commit`;
        where there is no table, at what `create` returns.
        """

        def read(table: TableHandle) -> Snapshot | None:
            snapshot = self.plan.basis.snapshot
            if self._was_read or (snapshot is None and create is None):
                return read_snapshot(table)
            self._was_read = True
            self.look(needs_clock=needs_clock)
            return snapshot

        from deltacli.changing.commit import Committed, commit

        done = commit(
            self.table,
            make,
            read=read,
            create=create,
            after=after,
            look=look,
            commit_metadata=commit_metadata,
            pause=pause,
        )
        match done:
            case Committed():  # a call would be a place for an interruption
                self.has_begun = True
                had, has = (
                    one is not None and is_true(one.metadata.configuration, _MANIFEST_PROPERTY)
                    for one in (done.made_from, done.base)
                )
                names_files = done.request.body is not None
                self.has_stale_manifests |= (has and not had) or (names_files and (has or had))
        return done

    def follow_up(self, *, looks: bool = False) -> None:
        """Write the manifests again where committed files ask for it; if it `looks`, also where the newest version
        does: files of the log were put back, or nobody knows whether there is one. What fails is a caution.
        """
        cautions, before = self.plan.basis.cautions, self.plan.basis
        if looks:
            now = before.snapshot
            with suppress(errors.DeltacliError):
                now = read_snapshot(self.table)
            if now is not None:
                self.has_stale_manifests = self.has_stale_manifests or is_true(now.properties, _MANIFEST_PROPERTY)
                if now.version != before.version:
                    cautions.extend(one for one in views_of(now) if one not in cautions)
        if self.has_stale_manifests:
            from deltacli.changing.manifests import write_again

            cautions.extend(write_again(self.table))


def _not_agreed(agreed: Plan, plan: Plan) -> errors.ConflictLost:
    """Return the error for a table that another writer has changed so that the plan would do something else."""
    before, after = list(agreed.effects()), list(plan.effects())
    facts = {f"agreed to {number}": text for number, text in enumerate(before[:_NAMED], 1)}
    facts |= {f"now {number}": text for number, text in enumerate(after[:_NAMED], 1)}
    return errors.ConflictLost(
        "another writer has changed the table, and the change would now do something else",
        preamble=errors.NOTHING_CHANGED,
        facts=facts,
        hint=errors.command("history", limit=10),
    )


# -- carrying out a change ---------------------------------------------------------------------------------------------

O = TypeVar("O", bound="Outcome")  # noqa: E741
O_co = TypeVar("O_co", bound="Outcome", covariant=True)


class Outcome(Protocol):
    """What was done."""

    def so_far(self) -> str:
        """Return in words what was done before an error or an interruption."""

    def shortfall(self) -> Undone:
        """Return what was left undone."""


class Change(Protocol[P, O]):
    """A change of a table, made from a request."""

    act: ClassVar[Act]
    """What it does to the table."""

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> P:
        """Plan it on the newest version, or on one that was rebuilt already. Reasons against it are in the plan."""

    def outcome(self, plan: P) -> O:
        """Return the outcome of a plan of which nothing was done yet."""

    def execute(self, gate: Gate[P, O]) -> None:
        """Carry out `gate.plan`, and note in `gate.outcome` what was done. Writes through the gate only."""


_COMMITS = Act.COMMIT | Act.ADD | Act.NAME | Act.DELETE


def plan_change(change: Change[P, O], table: TableHandle) -> P:
    """Plan a change of the newest version in the directory that the table is in now. The basis gets the cautions about
    what other engines keep beside the log, where the change commits.

    Raises Refused where it builds on a protocol or metadata that the checksum file of the version has otherwise, where
    newer versions were lost, whose number its commit would take, and where files of the log would be deleted by a clock
    that is behind it (`plan.clock`).
    """
    plan = change.plan(table.held())
    if change.act == Act.EXPIRE:
        require_clock(plan.basis.table, plan.basis.now_ms, plan.basis.past)
    snapshot = plan.basis.snapshot
    if snapshot is None or plan.is_noop:
        return plan
    if change.act & (Act.COMMIT | Act.NAME) and snapshot.version in snapshot.listing.checksums:
        from deltacli.table.checksum_guard import require_configuration_as_in_checksum

        require_configuration_as_in_checksum(snapshot)
    if change.act & (Act.COMMIT | Act.ADD | Act.NAME):
        lost = refusal_of_lost_versions(snapshot.table.storage, snapshot.listing, snapshot.log.hint_version)
        if lost is not None:
            raise errors.Refused.by([lost])
    if change.act & _COMMITS:
        plan.basis.cautions.extend(views_of(snapshot))
    return plan


def require_complete(outcome: Outcome) -> None:
    """Raise PartlyDone for what was left undone, or the error that the outcome has."""
    match outcome.shortfall():
        case None:
            return
        case errors.DeltacliError() as error:
            raise error
        case left:
            raise errors.PartlyDone(left.message, code=left.code, facts=left.facts, hint=left.hint)


def carry_out(
    change: Change[P, O],
    table: TableHandle,
    *,
    plan: P | None = None,
    ask: Callable[[P], Consent] = standing,
    began: Callable[[Gate[P, O]], None] | None = None,
) -> O:
    """Plan a change, unless there is a plan, and execute it with the consent that `ask` returns or raises.

    Raises Refused where something objects to the plan; after the first act an error is PartlyDone with the same code,
    but for OutcomeUnknown, and an interruption has a note of what was done.
    """
    made = plan_change(change, table) if plan is None else plan
    if (refusal := made.objection()) is not None:
        raise refusal
    outcome = change.outcome(made)
    if made.is_noop:
        require_complete(outcome)
        return outcome
    gate = Gate(change.plan, made, ask, outcome)
    looks = bool(change.act & Act.PUT)
    if began is not None:
        began(gate)
    try:
        change.execute(gate)
    except (errors.OutcomeUnknown, errors.PartlyDone) as fault:
        gate.follow_up(looks=looks or isinstance(fault, errors.OutcomeUnknown))
        if gate.has_begun:
            fault.facts.setdefault("so far", gate.outcome.so_far())
        raise
    except errors.DeltacliError as error:
        if gate.has_begun and gate.unreached is not None:
            error.message, error.hint = f"{gate.unreached[0]}: {error.message_without_outcome}", gate.unreached[1]
        gate.follow_up(looks=looks and gate.has_begun)
        cause = _cause(gate.store, error)
        if gate.has_begun:
            raise errors.PartlyDone.after(cause, gate.outcome.so_far()) from error
        raise cause from error.__cause__
    except BaseException as stop:
        if gate.has_stale_manifests:
            stop.add_note(f"the manifests in {MANIFESTS} name the files of an earlier version")
        if gate.has_begun:
            stop.add_note(gate.outcome.so_far())
        raise
    gate.has_ended = True
    gate.follow_up(looks=looks)
    require_complete(gate.outcome)
    return gate.outcome


def execute_plan(change: Change[P, O], table: TableHandle, plan: P, *, may_plan_again: bool) -> O:
    """Execute a plan and nothing else, unless it may be made again behind other writers. Raises as `carry_out`."""
    return carry_out(change, table, plan=plan, ask=standing if may_plan_again else for_plan)


def _cause(storage: ReadStorage, fault: errors.DeltacliError) -> errors.DeltacliError:
    """Return why a change failed: whatever the fault is, it follows from another directory at the path."""
    try:
        require_same_directory(storage)
    except errors.Refused as other:
        return other
    return fault


# -- files of the log that follow from commits -------------------------------------------------------------------------


def require_derivable(snapshot: Snapshot) -> None:
    """Raise Refused where the protocol of a version, or of the newest one, does not allow writing files of the log, or
    where the newest one is of another table than its name in a catalog.

    A newest version that is damaged forbids nothing by itself: the version at hand is asked instead.
    """
    require_files_of_log(snapshot.protocol, snapshot.version)
    now = _newest_readable(snapshot)
    if now is not snapshot:
        require_files_of_log(now.protocol, now.version)

    # Versions from before a catalog managed the table do not name it, so only the newest one counts.
    if (managed := managed_store(now.table.storage)) is not None:
        managed.require_no_other_table(now.properties, now.version)


def _newest_readable(snapshot: Snapshot) -> Snapshot:
    """Return the newest version, or the version at hand if that is damaged.

    Raises ProtocolUnsupported where the newest one needs a feature that is not supported.
    """
    newest = snapshot.listing.newest_version
    if newest <= snapshot.version:
        return snapshot
    try:
        return rebuild(snapshot.table, Log(snapshot.listing), newest)
    except errors.ProtocolUnsupported:
        raise
    except errors.Unreadable:
        return snapshot


@contextmanager
def in_flight(path: str) -> Iterator[None]:
    """Add a note to an interruption: the file may have been written."""
    try:
        yield
    except Exception:
        raise
    except BaseException as interruption:
        interruption.add_note(f"{path} may have been written")
        raise


@contextmanager
def deriving(basis: Basis, path: str) -> Iterator[None]:
    """Write a file for the commit that a basis stands on. Raises as `require_unchanged` before anything is written."""
    require_unchanged(basis)
    with in_flight(path):
        yield


def put_derived(gate: Gate[Any, Any], path: str, data: bytes) -> Creation:  # Any: every plan
    """Create a file for the commit that its plan stands on. Raises what `require_unchanged` and the store raise."""
    with deriving(gate.plan.basis, path):
        made = gate.store.put_if_absent(path, data)
    gate.has_begun = made == Created()
    return made
