"""A quarantine outside of all tables, which gets a copy of each file before a vacuum deletes it, and emptying it.

A run that was killed leaves a manifest whose files are partly gone; the next one ends the work. What no manifest names
stays, and a manifest that is not plainly one of this table is refused with its directory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from deltacli.changing.base_version import BaseVersion, build_base_version
from deltacli.changing.change_kind import ChangeKind
from deltacli.changing.outcome import DeletionFailures
from deltacli.core.errors import (
    CredentialsMissing,
    DeltacliError,
    FileMissing,
    PartlyDone,
    PathExternal,
    PermissionRefused,
    Refusal,
    Refused,
    StorageFailed,
    command,
    parameter,
    suggest_parameters,
)
from deltacli.core.short_repr import short_repr
from deltacli.core.times import format_timestamp
from deltacli.core.typing import Json, JsonObject
from deltacli.core.units import plural
from deltacli.delta.paths.spelling import decode_path_bytes
from deltacli.operations.recover.copies import (
    MANIFEST,
    OWN_NAMES,
    CopyChecksum,
    Manifest,
    UnfitManifestError,
    address_of,
    copy_file,
    copy_within_store,
    manifest_of,
    plan_directories,
    read_manifest,
    require_name,
    rows_of,
    same_content,
    sha256_of,
    write_checksums,
)
from deltacli.storage import (
    Created,
    Creation,
    Deleted,
    Failed,
    PathKind,
    ReadStorage,
    Storage,
    Unknown,
    has_link,
    is_address_of,
    is_inside,
)
from deltacli.storage.base import FileStat
from deltacli.storage.optional_interfaces import require_writable
from deltacli.table.nested_tables import find_table_uri, open_enclosing_directories
from deltacli.table.rebuild import read_snapshot

if TYPE_CHECKING:
    from deltacli.changing.execution import ChangeExecution
    from deltacli.operations.vacuum.plan import VacuumPlan
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

# -- filling a quarantine ----------------------------------------------------------------------------------------------

_FILES_A_PART = 1_000


def open_quarantine(table: TableHandle, uri: str, table_id: str | None = None) -> Storage:
    """Return the store of a quarantine. Raises Refused where it, or its directory of a table, is in a table or cannot
    be named, and NoAtomicCreate for a read-only store.
    """
    storage = table.open_other(uri)
    require_writable(storage)
    _require_outside(table, storage, storage)
    if table_id is not None:
        require_name(table_id)
        _require_outside(table, storage, table.open_other(f"{uri.rstrip('/')}/{table_id}"))
    return storage


def _require_outside(table: TableHandle, quarantine: Storage, place: Storage) -> None:
    """Raise Refused where a place of a quarantine is in a table."""
    inside = table.uri if is_inside(place, table.storage) else find_table_uri(place)
    inside = inside or next(_around(table.replace_storage(place)), None)
    if inside is not None:
        raise Refused(
            f"the quarantine {quarantine.uri} is in a table, whose vacuum would delete its files",
            code="vacuum.quarantine-in-table",
            facts={"table": inside},
            hint=suggest_parameters(parameter("vacuum.quarantine", "DIRECTORY")),
        )


def _around(place: TableHandle) -> Iterator[str]:
    """Yield the tables of any format that contain a place; inaccessible directories are skipped."""
    for storage in open_enclosing_directories(place):
        with suppress(PermissionRefused, CredentialsMissing):
            if (found := find_table_uri(storage)) is not None:
                yield found


class Quarantine:
    """The directory of a quarantine for the files of one plan."""

    def __init__(self, table: TableHandle, plan: VacuumPlan, uri: str) -> None:
        """Raises what `open_quarantine` raises, and Refused for files that it cannot hold."""
        for own in set(OWN_NAMES) & {decode_path_bytes(path) for path in plan.candidates.column("path").to_pylist()}:
            raise Refused(f"the plan deletes a file with the name of the {own}", code="vacuum.quarantine-name")
        self._table, self._plan = table, plan
        self._storage = open_quarantine(table, uri, plan.table_id)
        self._directory = f"{plan.table_id}/{plan.plan_id}"
        self._within = copy_within_store(table, table.open_other(table.uri), self._storage)
        self._is_on_disk = self._storage.capabilities.has_directories
        self._noted: FileStat | None = None

    @property
    def uri(self) -> str:
        """The directory of the files of the plan."""
        return f"{self._storage.uri}/{self._directory}"

    def fill(self, pending: Sequence[range]) -> None:
        """Copy these rows of the plan, and note their checksums. Without an error, every file of them is in the
        quarantine, or was gone before.

        Raises Refused where the quarantine has another file of the name, and StorageFailed.
        """
        address = address_of(self._storage, self._directory, self._plan.table_id)
        if address is not None and not is_address_of(self._table.storage, address):
            raise Refused(
                f"{self.uri} has the files of another table with the same id",
                code="vacuum.quarantine-differs",
                facts={"table there": address, "this table": self._table.uri},
                hint=suggest_parameters(parameter("vacuum.quarantine", "DIRECTORY")),
            )
        self._write_manifest(is_complete=False)
        paths = self._plan.candidates.column("path").combine_chunks()
        noted = []
        can = self._table.storage.capabilities
        at_once = None if can.has_cheap_requests else can.parallel_reads
        with self._table.progress.step("copying", unit="files", total=sum(map(len, pending))) as step:
            for rows in pending:
                for begin in range(rows.start, rows.stop, _FILES_A_PART):
                    part = paths.slice(begin, min(_FILES_A_PART, rows.stop - begin))
                    names = [decode_path_bytes(path) for path in part.to_pylist()]
                    found = []
                    for checksum in self._table.engine.run(self._keep, names, at_once=at_once):
                        found.append(checksum)
                        step.advance(1)
                    noted.append(rows_of(part, found))
        write_checksums(self._storage, self._directory, noted)

    def require_filled(self) -> None:
        """Raise Refused where somebody emptied it while files were copied, or before they are deleted."""
        if not self._is_as_noted():
            raise Refused(
                f"the copies in {self.uri} were deleted or replaced meanwhile",
                code="vacuum.quarantine-differs",
                hint=command("vacuum", dry_run=True),
            )

    def complete(self) -> None:
        """Note that the files were deleted from the table. Raises StorageFailed where the copies are gone by now."""
        if not self._is_as_noted():
            raise StorageFailed(f"the copies in {self.uri} were deleted while the files were deleted from the table")
        self._write_manifest(is_complete=True)

    def _is_as_noted(self) -> bool:
        try:
            return self._storage.stat(manifest_of(self._directory)) == self._noted
        except FileMissing:
            return False

    def _keep(self, path: str) -> CopyChecksum | None:
        """Copy a file, and raise unless the copy is there with the same bytes. None: the file is gone."""
        import hashlib

        origin, there = self._table.storage, f"{self._directory}/{path}"
        try:
            size_bytes = origin.stat(path).size_bytes
            digest = hashlib.sha256()
            outcome = self._copy(path, there, size_bytes, digest)
            if isinstance(outcome, Created) and not self._is_on_disk:
                # what passes through this process is sent with its digest; of its own copy a store has a tag
                if self._within is None:
                    return CopyChecksum(size_bytes, digest.digest())
                return CopyChecksum(size_bytes, tag=self._storage.stat(there).tag or None)
            return CopyChecksum(size_bytes, self._require_same(path, there, size_bytes, outcome, digest.digest()))
        except FileMissing:
            if origin.kind_of(path) is PathKind.MISSING:
                return None
            raise

    def _copy(self, path: str, there: str, size_bytes: int, digest: Any) -> Creation:  # Any: as hashlib makes them
        """Copy a file by the store itself where both are in one, else through this process, with its digest."""
        if self._within is not None:
            return self._within(path, there)
        return copy_file(self._table.storage, path, size_bytes, self._storage, target=there, digest=digest)

    def _require_same(self, path: str, there: str, size_bytes: int, outcome: Creation, sent: bytes) -> bytes:
        """Return the SHA-256 of an equal copy. Raises Refused for an older other file, StorageFailed for a bad copy."""
        if isinstance(outcome, Created) and self._within is None:
            same = sent if sha256_of(self._storage, there, size_bytes) == sent else None
        else:
            is_long_enough = self._size(there) == size_bytes
            same = same_content(self._table.storage, path, self._storage, there, size_bytes) if is_long_enough else None
        if same is not None:
            return same
        if isinstance(outcome, Created):
            raise StorageFailed(f"the copy of {path} in {self.uri} has other bytes than the file; nothing was deleted")
        cause, found = outcome.cause if isinstance(outcome, Unknown) else "the name exists", self._size(there)
        raise Refused(
            f"{path} cannot be copied to {self.uri}: {cause}",
            code="vacuum.quarantine-differs",
            facts={
                "in the table": f"{size_bytes:,} bytes",
                "in the quarantine": "missing" if found is None else f"{found:,} bytes, other ones",
            },
        )

    def _size(self, path: str) -> int | None:
        try:
            return self._storage.stat(path).size_bytes
        except FileMissing:
            return None

    def _write_manifest(self, *, is_complete: bool) -> None:
        plan, now_ms = self._plan, self._table.clock()  # of a saved plan, long after it was made
        paths = [decode_path_bytes(path) for path in plan.candidates.column("path").to_pylist()]
        manifest = Manifest(
            self._table.uri,
            plan.table_id,
            plan.plan_id,
            plan.snapshot_version,
            now_ms,
            is_complete,
            paths,
            plan.size_bytes,
        )
        self._storage.put(manifest_of(self._directory), manifest.encode())
        self._noted = self._storage.stat(manifest_of(self._directory))  # it names all files: too large to be kept


# -- emptying a quarantine of one table --------------------------------------------------------------------------------

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
    base_version: BaseVersion
    is_shown_only: bool = False
    """It is not executed, so what is not touched is an error of its own."""

    @property
    def is_noop(self) -> bool:
        return not self.due

    def build_refusal(self) -> Refused | None:
        """Return the error of the refusals where they are all there is; None without one."""
        return _refused(self.refusals) if self.refusals and (self.is_shown_only or self.is_noop) else None

    def effects(self) -> Iterator[str]:
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
    failed: DeletionFailures = field(default_factory=DeletionFailures)

    def as_json(self) -> JsonObject:
        failed = self.failed
        return {
            "deleted": {"plans": self.plans, "files": self.files, "failed": failed.count, "failures": failed.as_json()}
        }


@short_repr("plan", "outcome")
class PurgeResult(NamedTuple):
    """A plan and its outcome; None where it was not executed."""

    plan: PurgePlan
    outcome: PurgeOutcome | None

    def describe_progress(self) -> str:
        done = 0 if self.outcome is None else self.outcome.files
        return f"{done:,} of {plural(self.plan.files, 'file')} deleted from the quarantine"

    def build_incomplete_error(self) -> DeltacliError | None:
        """Return what of the quarantine could not be emptied; where nothing was, the error of the refusals."""
        outcome, refusals = self.outcome or PurgeOutcome(), self.plan.refusals
        failed = outcome.failed.build_error(
            f"{plural(outcome.failed.count, 'file')} of the quarantine could not be deleted",
            code="vacuum.partly-done",
            has_deleted=bool(outcome.files),
        )
        if failed is not None or not refusals:
            return failed
        return _left(refusals) if outcome.plans else _refused(refusals)


@dataclass(frozen=True)
class QuarantinePurge:
    """Emptying a quarantine of what is older, to be planned and executed."""

    kind: ClassVar[ChangeKind] = ChangeKind.DELETE_FILES

    uri: str
    older_ms: int
    dry_run: bool = False

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> PurgePlan:
        return replace(plan_purge(table, self.uri, self.older_ms, now), is_shown_only=self.dry_run)

    def outcome(self, plan: PurgePlan) -> PurgeResult:
        return PurgeResult(plan, PurgeOutcome())

    def execute(self, execution: ChangeExecution[PurgePlan, PurgeResult]) -> None:
        """Delete what the plan names, if the table still is the one of the plan."""
        execution.recheck_clock()
        execution.recheck_table()
        outcome = execution.outcome.outcome
        assert outcome is not None  # it begins with an empty one
        execution.has_begun = True  # an interruption may come between a deletion and its count
        try:
            execute_purge(execution.table, execution.plan, outcome)
        except Exception:
            execution.has_begun = bool(outcome.files or outcome.plans)
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
        replace(build_base_version(snapshot), snapshot=None),
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
                outcome.failed.add(directory, Failed(str(unfit)))
                continue
            if held is None or held.mark != due.mark or not is_address_of(table.storage, held.table):
                outcome.failed.add(directory, Failed("it has changed since the plan"))
                continue
            before = outcome.failed.count
            for path, deletion in plan.storage.delete_many(held.paths):
                if isinstance(deletion, Failed):
                    outcome.failed.add(path, deletion)
                outcome.files += isinstance(deletion, Deleted)
                step.advance(1)
            if outcome.failed.count == before:
                _end(plan.storage, held, outcome)


def _left(refusals: Sequence[Refusal]) -> PartlyDone:
    """Return which directories are not touched."""
    first = refusals[0]
    message = f"{first.files[0]} in the quarantine was left: {first.message}"
    return PartlyDone(
        message,
        code=first.code,
        facts={"left": f"{len(refusals):,} of the directories of this table"},
    )


def _refused(refusals: Sequence[Refusal]) -> Refused:
    left = _left(refusals)
    return Refused(left.message, code=left.code, facts=left.facts)


def _end(storage: Storage, held: HeldPlan, outcome: PurgeOutcome) -> None:
    """Delete the checksums and the manifest of a plan whose files are gone, and the empty directories."""
    parents = {held.directory}
    for path in held.paths:
        while len(path := path.rpartition("/")[0]) > len(held.directory):
            parents.add(path)
    for name in OWN_NAMES:  # one after the other: without the manifest nobody would know the rest
        for path, deletion in storage.delete_many([f"{held.directory}/{name}"]):
            if isinstance(deletion, Failed):
                outcome.failed.add(path, deletion)
                return
    outcome.plans += 1
    if storage.capabilities.has_directories:
        for parent in sorted(parents, key=lambda path: (-len(path), path)):
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
