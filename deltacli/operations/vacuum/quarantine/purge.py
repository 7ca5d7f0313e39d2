"""Emptying a quarantine of one table: the files that old manifests name, and at last each manifest.

A run that was killed leaves a manifest whose files are partly gone; the next one ends the work. What no manifest names
stays, and a manifest that is not plainly one of this table is refused with its directory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeVar

from deltacli.changing.acts import Act
from deltacli.changing.basis import Basis, basis_of
from deltacli.changing.plan import Failures
from deltacli.core.errors import FileMissing, PartlyDone, PathExternal, Refusal, Refused
from deltacli.core.short_repr import short_repr
from deltacli.core.typing import Json, JsonObject
from deltacli.core.units import format_timestamp, plural
from deltacli.operations.recover.quarantine_layout import (
    MANIFEST,
    OWN_NAMES,
    UnfitManifestError,
    manifest_of,
    plan_directories,
    read_manifest,
)
from deltacli.operations.vacuum.quarantine.fill import open_quarantine
from deltacli.storage import Deleted, Failed, ReadStorage, Storage, has_link, is_address_of
from deltacli.table.rebuild import read_snapshot

if TYPE_CHECKING:
    from deltacli.changing.gate import Gate
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

Fault = TypeVar("Fault", PartlyDone, Refused)

_NAMED = 10
_FILES_AT_ONCE = 1_000


class HeldPlan(NamedTuple):
    """The directory of a plan: what its manifest says, and which of the named files are there."""

    directory: str
    timestamp_ms: int
    is_complete: bool
    table: str = ""
    """Its address when the files were copied."""
    paths: tuple[str, ...] = ()
    """Below the quarantine."""
    size_bytes: int = 0
    unnamed: tuple[str, ...] = ()
    """Entries that the manifest does not name."""

    @property
    def mark(self) -> tuple[str, int, bool]:
        """What changes when a vacuum uses the directory again."""
        return self.directory, self.timestamp_ms, self.is_complete


class DuePlan(NamedTuple):
    """A plan whose files are to be deleted."""

    mark: tuple[str, int, bool]
    files: int
    size_bytes: int


@short_repr("due", "young", "unnamed", "refusals")
@dataclass(frozen=True, repr=False)
class PurgePlan:
    """What is deleted of a quarantine."""

    table: str
    table_id: str
    quarantine: str
    storage: Storage
    cutoff_ms: int
    due: tuple[DuePlan, ...]
    young: int
    """Plans that are not old enough."""
    unnamed: tuple[str, ...]
    """Entries that no manifest names."""
    refusals: tuple[Refusal, ...]
    """Directories that are not touched, and why."""
    others: tuple[tuple[str, str], ...]
    """Directories of other tables with this id, such as copies, with their addresses: they stay."""
    basis: Basis
    is_shown_only: bool = False
    """It is not executed, so what is not touched is an error of its own."""

    @property
    def is_noop(self) -> bool:
        """True where nothing is due."""
        return not self.due

    def objection(self) -> Refused | None:
        """Return the error of the refusals where they are all there is; None without one."""
        return _left(self.refusals, Refused) if self.refusals and (self.is_shown_only or self.is_noop) else None

    def effects(self) -> Iterator[str]:
        """Yield each plan whose files are deleted."""
        yield from (f"delete {plural(due.files, 'file')} of {due.mark[0]}" for due in self.due)

    @property
    def files(self) -> int:
        return sum(one.files for one in self.due)

    @property
    def size_bytes(self) -> int:
        return sum(one.size_bytes for one in self.due)

    @property
    def incomplete(self) -> list[str]:
        """Directories of vacuums that did not end."""
        return [directory for (directory, _, is_complete), *_ in self.due if not is_complete]

    def as_json(self) -> JsonObject:
        """Return the document `deltacli.vacuum-purge`, without the envelope and the outcome."""
        times = [timestamp_ms for (_, timestamp_ms, _), *_ in self.due]
        return {
            "quarantine": self.quarantine,
            "tableId": self.table_id,
            "cutoffMs": self.cutoff_ms,
            "cutoff": format_timestamp(self.cutoff_ms),
            "due": {
                "plans": len(self.due),
                "files": self.files,
                "sizeBytes": self.size_bytes,
                "oldestMs": min(times, default=None),
                "newestMs": max(times, default=None),
            },
            "young": self.young,
            "incomplete": list[Json](self.incomplete),
            "unnamed": {"entries": len(self.unnamed), "examples": list[Json](self.unnamed[:_NAMED])},
            "refusals": [{"directory": one.files[0], "message": one.message} for one in self.refusals],
            "others": [{"directory": directory, "table": address} for directory, address in self.others],
        }


@short_repr("plans", "files", "failures=failed.count")
@dataclass(repr=False)
class PurgeOutcome:
    """What was deleted."""

    plans: int = 0
    files: int = 0
    failed: Failures = field(default_factory=Failures)

    def as_json(self) -> JsonObject:
        """As in the document."""
        failed = self.failed
        return {
            "deleted": {
                "plans": self.plans,
                "files": self.files,
                "failed": failed.count,
                "failures": failed.as_json(),
            },
        }


@short_repr("plan", "outcome")
class PurgeResult(NamedTuple):
    """A plan and its outcome; None where it was not executed."""

    plan: PurgePlan
    outcome: PurgeOutcome | None

    def so_far(self) -> str:
        """Return in words what was deleted."""
        done = 0 if self.outcome is None else self.outcome.files
        return f"{done:,} of {plural(self.plan.files, 'file')} deleted from the quarantine"

    def require_complete(self) -> None:
        """Raise PartlyDone, PermissionRefused or Refused where a part of the quarantine could not be emptied."""
        outcome = self.outcome or PurgeOutcome()
        outcome.failed.require_none(
            f"{plural(outcome.failed.count, 'file')} of the quarantine",
            code="vacuum.partly-done",
            hint=None,
            has_deleted=bool(outcome.files),
        )
        if self.plan.refusals:
            if outcome.plans:
                raise _left(self.plan.refusals, PartlyDone)
            raise _left(self.plan.refusals, Refused)


@dataclass(frozen=True)
class QuarantinePurge:
    """Emptying a quarantine of what is older, to be planned and executed."""

    act: ClassVar[Act] = Act.DELETE

    uri: str
    older_ms: int
    dry_run: bool = False

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> PurgePlan:
        """Plan it. Raises what `plan_purge` raises."""
        return replace(plan_purge(table, self.uri, self.older_ms, now), is_shown_only=self.dry_run)

    def outcome(self, plan: PurgePlan) -> PurgeResult:
        """Return the plan, of which nothing was deleted yet."""
        return PurgeResult(plan, PurgeOutcome())

    def execute(self, gate: Gate[PurgePlan, PurgeResult]) -> None:
        """Delete what the plan names, if the table still is the one of the plan."""
        gate.look(needs_clock=True)
        outcome = gate.outcome.outcome
        assert outcome is not None  # it begins with an empty one
        gate.has_begun = True  # an interruption may come between a deletion and its count
        try:
            execute_purge(gate.table, gate.plan, outcome)
        except Exception:
            gate.has_begun = bool(outcome.files or outcome.plans)
            raise


def plan_purge(table: TableHandle, uri: str, older_ms: int, snapshot: Snapshot | None = None) -> PurgePlan:
    """Determine what to delete of a quarantine: the plans of this table whose manifest is older. Nothing is deleted.
    Those of another address stay: a copy of a table has its id.

    Raises what `read_snapshot` raises, because the id of the table is in its log, and what `open_quarantine` raises.
    """
    snapshot = snapshot or read_snapshot(table)
    table_id = snapshot.metadata.id
    storage = open_quarantine(table, uri, table_id)
    cutoff_ms = table.clock() - older_ms
    due, young = list[DuePlan](), 0
    unnamed, refusals, others = list[str](), list[Refusal](), list[tuple[str, str]]()
    with table.progress.step("reading the quarantine", unit="plans") as step:
        for directory in plan_directories(storage, table_id):
            try:
                held = _look(storage, directory, table_id, cutoff_ms)
            except UnfitManifestError as unfit:
                refusals.append(Refusal("vacuum.quarantine-manifest", str(unfit), files=(directory,)))
            else:
                if held is None:
                    unnamed += _with_files(storage, HeldPlan(directory, 0, is_complete=False), set(), own=()).unnamed
                elif not is_address_of(table.storage, held.table):
                    others.append((directory, held.table))
                elif held.timestamp_ms >= cutoff_ms:
                    young += 1
                else:
                    due.append(DuePlan(held.mark, len(held.paths), held.size_bytes))
                    unnamed += held.unnamed
            step.advance(1)
    return PurgePlan(
        table.uri,
        table_id,
        storage.uri,
        storage,
        cutoff_ms,
        tuple(due),
        young,
        tuple(unnamed),
        tuple(refusals),
        tuple(others),
        replace(basis_of(snapshot), snapshot=None),
    )


def execute_purge(table: TableHandle, plan: PurgePlan, outcome: PurgeOutcome) -> None:
    """Delete what a plan names: the files of each directory, then its manifest. A directory that a vacuum has used
    since the plan is a failure. `outcome` is updated meanwhile.
    """
    with table.progress.step("deleting", unit="files", total=plan.files) as step:
        for due in plan.due:
            directory = due.mark[0]
            try:
                held = _look(plan.storage, directory, plan.table_id, plan.cutoff_ms)
            except UnfitManifestError as unfit:
                outcome.failed.note(directory, Failed(str(unfit)))
                continue
            if held is None or held.mark != due.mark or not is_address_of(table.storage, held.table):
                outcome.failed.note(directory, Failed("it has changed since the plan"))
                continue
            before = outcome.failed.count
            for path, deletion in plan.storage.delete_many(held.paths):
                if isinstance(deletion, Failed):
                    outcome.failed.note(path, deletion)
                outcome.files += isinstance(deletion, Deleted)
                step.advance(1)
            if outcome.failed.count == before:
                _end(plan.storage, held, outcome)


def _left(refusals: Sequence[Refusal], error: type[Fault]) -> Fault:
    """Return the error for directories that are not touched."""
    first = refusals[0]
    return error(
        f"{first.files[0]} in the quarantine was left: {first.message}",
        code=first.code,
        facts={"left": f"{len(refusals):,} of the directories of this table"},
    )


def _end(storage: Storage, held: HeldPlan, outcome: PurgeOutcome) -> None:
    """Delete the checksums and the manifest of a plan whose files are gone, and the empty directories."""
    parents = {held.directory}
    for path in held.paths:
        while len(path := path.rpartition("/")[0]) > len(held.directory):
            parents.add(path)
    for name in OWN_NAMES:  # one after the other: without the manifest nobody would know the rest
        for path, deletion in storage.delete_many([f"{held.directory}/{name}"]):
            if isinstance(deletion, Failed):
                outcome.failed.note(path, deletion)
                return
    outcome.plans += 1
    if storage.capabilities.has_directories:
        for parent in sorted(parents, key=len, reverse=True):
            storage.remove_directory(parent)


def _look(storage: ReadStorage, directory: str, table_id: str, cutoff_ms: int) -> HeldPlan | None:
    """Return what is in the directory of a plan, without its files where it is young; None without a manifest."""
    if has_link(storage, "", directory):
        raise UnfitManifestError("a link leads to it")
    try:
        data = storage.read(manifest_of(directory))
    except FileMissing:
        return None
    except PathExternal:
        raise UnfitManifestError(f"the {MANIFEST} is a link that leads outside") from None
    manifest = read_manifest(data, directory, table_id)
    held = HeldPlan(directory, manifest.timestamp_ms, manifest.is_complete, manifest.table)
    return held if held.timestamp_ms >= cutoff_ms else _with_files(storage, held, set(manifest.paths))


def _with_files(storage: ReadStorage, held: HeldPlan, named: set[str], *, own: Sequence[str] = OWN_NAMES) -> HeldPlan:
    """Return a plan with the files that are there. Links are not followed."""
    below = f"{held.directory}/"
    paths, unnamed, links, total = list[str](), list[str](), list[str](), 0
    for walked in storage.walk(held.directory, lambda _, names: names):
        above = f"{walked.directory}/".removeprefix(below)
        found = [(f"{above}{name}", index) for index, name in enumerate(walked.names)]
        chosen = [(path, index) for path, index in found if path in named]
        unnamed += [f"{below}{path}" for path, _ in found if path not in named and path not in own]
        links += [f"{above}{name}" for name in walked.special if name and not name.endswith("/")]
        here = [f"{below}{path}" for path, _ in chosen]
        sizes = walked.sizes
        total += _size_of(storage, here) if sizes is None else sum(sizes[index] for _, index in chosen)
        paths += here
    beyond = set(links) & {part for path in named for part in _prefixes(path)} if links else set[str]()
    if beyond:
        raise UnfitManifestError(f"the {MANIFEST} names files behind a link: {min(beyond)}")
    unnamed += [f"{below}{link}" for link in links]
    return held._replace(paths=tuple(paths), size_bytes=total, unnamed=tuple(unnamed))


def _size_of(storage: ReadStorage, paths: list[str]) -> int:
    parts = (paths[begin : begin + _FILES_AT_ONCE] for begin in range(0, len(paths), _FILES_AT_ONCE))
    return sum(max(0, size) for part in parts for size in storage.stat_many(part)[0])


def _prefixes(path: str) -> Iterable[str]:
    parts = path.split("/")
    return ("/".join(parts[:length]) for length in range(1, len(parts) + 1))
