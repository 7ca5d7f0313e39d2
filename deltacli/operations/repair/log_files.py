"""Steps for files of the log: those that come from a source, and those that the commits determine.

What `undelete` does, with files that are damaged counted as gone, and kept before they are replaced.

A checkpoint is written anew only from commits that nothing speaks against: one that was damaged and can still be parsed
would put a wrong state in the place of the right one. What differs is looked at where it can be seen: in the store, in
the names of directories, in the rows of files, in checksums of the version.

Spec: Checkpoints; Log Compaction Files; Version Checksum File; Last Checkpoint File.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import CommitCorrupt, DeltacliError, FileMissing, NotATable, Refused, Unreadable, command
from deltacli.core.typing import BinaryFile, RecordBatch
from deltacli.core.units import format_size, plural
from deltacli.delta.log.segment import (
    HINT_NAME,
    LOG_DIRECTORY,
    SIDECAR_DIRECTORY,
    LogFileKind,
    LogListing,
    Place,
    checksum_path,
    commit_name,
    parse_log_path,
)
from deltacli.delta.log.state import (
    find_metadata_differences,
    find_protocol_differences,
    read_checksum,
    read_metadata,
    read_protocol,
)
from deltacli.delta.paths.spelling import decode
from deltacli.operations.checkpoint.checkpoint import (
    CheckpointRequest,
    plan_checkpoint,
    plan_for_version,
    write_checkpoint,
)
from deltacli.operations.log.crc_and_compact import proven_checksum
from deltacli.operations.log.log_copy import StoredFile, list_whole_log, log_location, versioned
from deltacli.operations.recover.plan import PLANNED, UNPROVEN, UndeletePlan, UndeleteRequest
from deltacli.operations.recover.sources import tag_of
from deltacli.operations.recover.undelete import bring_back, plan_undelete
from deltacli.operations.repair.plan import (
    NoSource,
    NotNeededError,
    Planned,
    RepairRequest,
    Run,
    Step,
    Undetermined,
    Unrepaired,
    Work,
    left,
)
from deltacli.operations.repair.true_statistics import is_true, true_statistics
from deltacli.rules.actions.commit_contents import REMOVE_OF_UNKNOWN, UNKNOWN_ACTION
from deltacli.rules.checkpoints.checkpoints import WITHOUT_COMMIT
from deltacli.rules.checkpoints.columns import ADD_COLUMN_MISSING, PARSED_PARTITION_MISSING
from deltacli.rules.checkpoints.contents import (
    ADD_DIFFERS,
    EXTRA_ADD,
    METADATA_DIFFERS,
    MISSING_ADD,
    PARSED_PARTITION_DIFFERS,
    UNREADABLE,
)
from deltacli.rules.files.deletion_vectors import NAMES_NOTHING
from deltacli.rules.framework.base import Finding, Rule, Severity
from deltacli.rules.framework.repairs import StepKind
from deltacli.rules.log import checksums
from deltacli.rules.log.compactions import BEYOND_LOG
from deltacli.rules.log.last_checkpoint import AHEAD_OF_LOG
from deltacli.storage import PathKind
from deltacli.table.ambiguous_files import find_disagreement_refusal
from deltacli.table.find_log import ListedLog, list_log
from deltacli.table.needed_files import FileKind
from deltacli.table.rebuild import rebuild_version

if TYPE_CHECKING:
    from deltacli.storage import FileStat, PathKind, ReadStorage, Storage
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

# -- missing and unreadable files --------------------------------------------------------------------------------------

_RULES = {FileKind.DATA.value: "data.file-missing", FileKind.VECTOR.value: "dv.file-missing"}
_OF_LOG = "log.gap"
_WHOLE = ("log.not-a-table", "log.start-missing")
"""Findings about a log as a whole: any file of it that comes back helps."""
NEWER = (WITHOUT_COMMIT.id, BEYOND_LOG.id)
"""Rules about files of the log whose version is above the newest commit."""
AHEAD = (AHEAD_OF_LOG.id, checksums.WITHOUT_COMMIT.id)
"""Rules about what is written anew, or moved away, unless a source has the commit that it names."""


class WithoutFiles:
    """A store that hides some files, so that they count as missing."""

    def __init__(self, storage: ReadStorage, hidden: frozenset[str]) -> None:
        self._storage, self._hidden = storage, hidden

    def __getattr__(self, name: str) -> Any:  # Any: a member of the port
        return getattr(self._storage, name)

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        prefix = f"{directory}/" if directory else ""
        return (one for one in self._storage.list_from(directory, start) if f"{prefix}{one.name}" not in self._hidden)

    def read(self, path: str) -> bytes:
        return self._storage.read(self._there(path))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self._storage.read_range(self._there(path), offset, length)

    def open(self, path: str) -> BinaryFile:
        return self._storage.open(self._there(path))

    def stat(self, path: str) -> FileStat:
        return self._storage.stat(self._there(path))

    def kind_of(self, path: str) -> PathKind:
        return PathKind.MISSING if path in self._hidden else self._storage.kind_of(path)

    def _there(self, path: str) -> str:
        if path in self._hidden:
            raise FileMissing(f"{path} is damaged", facts={"store": self._storage.uri})
        return path


@dataclass(frozen=True, eq=False)
class BringLog:
    """Puts files of the log back, and the data files that the version needs."""

    plan: UndeletePlan
    request: UndeleteRequest
    hidden: frozenset[str]
    seen: Mapping[str, StoredFile]
    """Those of the hidden files that were there, by their names in the log."""
    is_sensitive: bool = False

    @property
    def name(self) -> str:
        found = self.plan.found
        return f"bring {plural(found.files, 'file')} back ({format_size(found.size_bytes)})"

    def run(self, run: Run) -> None:
        _require_seen(run, self.seen)
        storage = run.table.storage
        replaced = sorted({*self.hidden, *self.plan.log_tags, *self.plan.replaced["path"].to_pylist()})
        run.backup.keep(replaced)
        tags = {path: tag for path in self.hidden if (tag := tag_of(storage, path)) is not None}
        plan = replace(self.plan, log_tags={**self.plan.log_tags, **tags})
        bring_back(run.execution, plan, run.put)
        run.backup.note_versions(self._commits())

    def _commits(self) -> list[int]:
        names = (path.removeprefix(f"{LOG_DIRECTORY}/") for path in self.plan.items["path"].to_pylist())
        paths = (parse_log_path(name) for name in names)
        return sorted(path.version for path in paths if path.kind is LogFileKind.COMMIT)


def plan_log_files(
    table: TableHandle,
    request: RepairRequest,
    findings: Sequence[Finding],
    stuck: frozenset[str],
    files: Mapping[str, StoredFile],
    *,
    is_readable: bool,
) -> Planned:
    """Return the steps for findings about missing and damaged files of the log. `stuck` are the names of checkpoint
    files that only a source can replace, `files` those of the log as they were judged.

    Raises Refused where a source is not one of this table.
    """
    if not findings and not stuck:
        return Planned()
    if not request.sources:
        reasons = (NoSource(f"no source was named; {_needed(one, is_readable)}") for one in findings)
        return Planned(unrepaired=list(map(left, findings, reasons)))
    hidden = frozenset(one.place.path for one in findings if one.rule.id.startswith("commit.")) | {
        f"{LOG_DIRECTORY}/{name}" for name in stuck
    }
    asked = UndeleteRequest(sources=request.sources, accept_commits=request.accept_commits)
    without = table.replace_storage(cast("Storage", WithoutFiles(table.storage, hidden)))
    try:
        plan = plan_undelete(without, asked, is_tip_judged=False)
    except Unreadable as fault:
        return Planned(
            unrepaired=[left(one, f"the sources do not complete the log: {fault.message}") for one in findings]
        )
    unproven = next((one for one in plan.refusals if one.code == UNPROVEN), None)
    if unproven is not None and len(plan.refusals) == 1:
        return Planned(unrepaired=[left(one, unproven.message) for one in findings], refusals=[unproven])
    if (refusal := plan.build_refusal()) is not None:
        raise refusal
    found = {
        path: (kind, source, size)
        for path, kind, source, size, state in zip(
            *(plan.items[name].to_pylist() for name in ("path", "kind", "source", "sizeBytes", "state")), strict=True
        )
        if state == PLANNED
    }
    if not found:
        return Planned(unrepaired=[left(one, f"no source has it; {_needed(one, is_readable)}") for one in findings])
    seen = {name: file for name, file in files.items() if f"{LOG_DIRECTORY}/{name}" in hidden}
    work = BringLog(plan, asked, hidden, seen)
    steps: list[Step] = []
    unrepaired: list[Unrepaired] = []
    for finding in findings:
        match = _file_for(finding, found)
        if match is None:
            unrepaired.append(left(finding, f"no source has it; {_needed(finding, is_readable)}"))
            continue
        what = f"bring {match} back"
        steps.append(Step(finding.rule.id, finding.place, StepKind.RECOVER, 0, what, found[match][1]))
    told = {step.what for step in steps}
    for path, (kind, source, _) in found.items():
        if (what := f"bring {path} back") not in told:
            steps.append(Step(_RULES.get(kind, _OF_LOG), Place(path), StepKind.RECOVER, 0, what, source))
    return Planned(steps, [work], unrepaired, plan.notes)


def last_version(finding: Finding) -> int:
    """Return the last version of the log file that a finding is about, or the one that the hint names."""
    if finding.rule.id == AHEAD_OF_LOG.id:
        return int(finding.seen or -1)
    return parse_log_path(finding.place.path.removeprefix(f"{LOG_DIRECTORY}/")).newest


def _needed(finding: Finding, is_readable: bool) -> str:
    """Return what a file that a finding misses is needed for."""
    if finding.rule.id in NEWER:
        return "later commits may be lost; delete the file only if they were never made"
    if is_readable:
        return "it is needed for history only: the newest version can be read without it"
    return "the newest version cannot be rebuilt without it"


def _file_for(finding: Finding, found: Mapping[str, object]) -> str | None:
    """Return the file that repairs what a finding reports."""
    place = finding.place
    if finding.rule.id in _WHOLE:
        return next((path for path in found if path.startswith(f"{LOG_DIRECTORY}/")), None)
    version = last_version(finding) if finding.rule.id in (*NEWER, *AHEAD) else place.version
    commit = None if version is None else f"{LOG_DIRECTORY}/{commit_name(version)}"
    return next((path for path in (place.path, commit) if path in found), None)


def has_log(table: TableHandle) -> bool:
    """Return True where the table has a log, complete or not."""
    try:
        list_log(table.storage)
    except NotATable:
        return False
    return True


# -- files that the commits determine ----------------------------------------------------------------------------------

_OF_FORM = {ADD_COLUMN_MISSING.id, PARSED_PARTITION_DIFFERS.id, PARSED_PARTITION_MISSING.id, NAMES_NOTHING.id}
"""The rules about what a checkpoint has in the wrong form, or repeats from its own maps."""
_OF_ITSELF = _OF_FORM | {UNREADABLE.id}
"""The rules about checkpoints that can be written again from what they have: damaged pages may be ones without values,
which no reader needs.
"""
CHECKPOINTS = (LogFileKind.CLASSIC_CHECKPOINT, LogFileKind.MULTI_PART_CHECKPOINT, LogFileKind.UUID_CHECKPOINT)
DOUBTS = (REMOVE_OF_UNKNOWN.id, UNKNOWN_ACTION.id)
"""The rules about commits that may be damaged."""
_DAMAGED = "a commit may be damaged"
_ROW_IDS = ("baseRowId", "defaultRowCommitVersion")
_MOST_READ = 20
"""Files of which the rows are read to prove their statistics."""


def _require_seen(run: Run, seen: Mapping[str, StoredFile]) -> None:
    """Raise NotNeededError where a file of the log is another one by now: its name says nothing about its content."""
    present = list_whole_log(run.table.storage) or {}
    for name, file in seen.items():
        if present.get(name) != file:
            what = "is gone" if name not in present else "was rewritten by another writer"
            raise NotNeededError(f"{name} {what} since the plan")


@dataclass(frozen=True)
class MoveAside:
    """Moves files that nothing needs to the backup. `instead`: the version of a checkpoint with a sound other file."""

    paths: tuple[str, ...]
    seen: Mapping[str, StoredFile] = field(hash=False)
    instead: int | None = None
    is_sensitive: bool = True
    words: str | None = None
    """What the step does, where its name has the reason."""

    @property
    def name(self) -> str:
        return self.words or f"move {', '.join(path.rpartition('/')[2] for path in self.paths)} to the backup"

    def run(self, run: Run) -> None:
        _require_seen(run, self.seen)
        if self.instead is not None:
            rest = sound_listing(list_whole_log(run.table.storage) or {}, self.seen)
            if all(one.version != self.instead for one in rest.checkpoints):
                raise NotNeededError(f"the other checkpoint of version {self.instead} is gone, so this one is kept")
        run.move(self.paths)


@dataclass(frozen=True)
class WriteCheckpoint:
    """Writes the checkpoint of a version anew, then moves the damaged files aside.

    `damaged` are the names of all checkpoint files of the log from which nothing is taken: this one's too, unless only
    what it repeats is wrong.
    """

    version: int
    replaced: tuple[str, ...]
    damaged: frozenset[str]
    seen: Mapping[str, StoredFile] = field(hash=False)
    is_sensitive: bool = False

    @property
    def name(self) -> str:
        source = "the rest of the log"
        if not self.damaged.issuperset(self.replaced):
            source = "its own fields"
        return f"write the checkpoint of version {self.version} from {source}"

    def run(self, run: Run) -> None:
        _require_seen(run, self.seen)
        storage = run.table.storage
        names = [log_location(name) for name in self.replaced]
        run.backup.keep([*names, log_location(HINT_NAME)])
        listing = sound_listing(list_whole_log(storage) or {}, self.damaged)
        snapshot = rebuild_version(run.table, ListedLog(listing), self.version)
        plan = plan_for_version(
            snapshot, listing, CheckpointRequest(version=self.version, force=True), was_parsed=False
        )

        def begin(_: str) -> None:
            run.execution.has_begun = True

        written = {file.path for file in write_checkpoint(plan, tell=begin).files}
        run.move([name for name in names if name not in written])


@dataclass(frozen=True)
class WriteChecksum:
    """Writes the checksum file of a version anew; where the log does not prove one, it is moved aside."""

    version: int
    seen: Mapping[str, StoredFile] = field(hash=False)
    is_sensitive: bool = False

    @property
    def name(self) -> str:
        return f"compute the checksum of version {self.version}"

    def run(self, run: Run) -> None:
        _require_seen(run, self.seen)
        path = checksum_path(self.version)
        try:
            data = proven_checksum(run.table, self.version)
        except (Refused, Unreadable, CommitCorrupt):
            run.move([path])
            return
        run.backup.keep([path])
        run.execution.store.put(path, data)


@dataclass(frozen=True)
class WriteHint:
    """Writes the hint for the newest complete checkpoint; without one the hint is moved aside."""

    name: str = f"write {HINT_NAME} for the newest checkpoint"
    is_sensitive: bool = False

    def run(self, run: Run) -> None:
        table = run.table
        run.move([log_location(HINT_NAME)])  # readers do without it
        listing = versioned((list_whole_log(table.storage) or {}).values())
        newest = max((one.version for one in listing.checkpoints), default=None)
        if newest is None:
            return
        try:
            write_checkpoint(plan_checkpoint(table, CheckpointRequest(version=newest)))
        except (Refused, Unreadable):
            return


def sound_listing(files: Mapping[str, StoredFile], damaged: Iterable[str]) -> LogListing:
    """Return the versions of a log without some files."""
    without = set(damaged)
    return versioned(file for name, file in files.items() if name not in without)


def plan_checkpoints(
    table: TableHandle,
    findings: Sequence[Finding],
    files: Mapping[str, StoredFile],
    obstacle: str | None,
    others: Sequence[Finding],
) -> tuple[Planned, frozenset[str]]:
    """Return the steps for damaged checkpoints, and the names of those that the rest of the log does not determine.

    `others` are the findings without steps, which may raise doubts about commits.
    """
    by_version: dict[int, list[Finding]] = {}
    for finding in findings:
        version = finding.place.version
        if version is None:
            version = parse_log_path(finding.place.path.rpartition("/")[2]).version
        by_version.setdefault(version, []).append(finding)
    damaged = {version: _damaged_files(version, found, files) for version, found in by_version.items()}
    every = frozenset(name for names in damaged.values() for name in names)
    listing = sound_listing(files, every)
    steps: list[Step] = []
    work: list[Work] = []
    unrepaired: list[Unrepaired] = []
    stuck: set[str] = set()
    for version, found in sorted(by_version.items()):
        names = damaged[version]
        seen = {name: files[name] for name in names}
        change: Work
        reason = obstacle
        if any(one.version == version for one in listing.checkpoints) and names:
            change = MoveAside(tuple(map(log_location, names)), seen, version)
            action, reason = StepKind.QUARANTINE, None
        else:
            change, action = WriteCheckpoint(version, names, every, seen), StepKind.REBUILD
            reason = reason or _why_not(table, listing, version, names, found, others)
            if reason is not None and obstacle is None and names and {one.rule.id for one in found} <= _OF_ITSELF:
                rest = every.difference(names)
                own = sound_listing(files, rest)
                if version not in own.commits:
                    later = max((one.version for one in own.checkpoints), default=version)
                    if later > version:
                        reason = f"readers begin at the checkpoint of version {later}"
                        unrepaired += [left(one, reason)._replace(severity=Severity.WARNING) for one in found]
                        continue
                    version, names = own.newest_version, ()
                doubt = _why_not(table, own, version, names, found, others, is_own=True)
                reason = doubt and (doubt if doubt == reason else type(reason)(f"{reason}; {doubt}"))
                change = WriteCheckpoint(version, names, rest, seen)
        if reason is not None:
            stuck.update(names)
            unrepaired += [left(finding, reason) for finding in found]
            continue
        steps += [Step(one.rule.id, one.place, action, len(work), change.name) for one in found]
        work.append(change)
    return Planned(steps, work, unrepaired), frozenset(stuck)


def _why_not(
    table: TableHandle,
    listing: LogListing,
    version: int,
    names: Sequence[str],
    findings: Sequence[Finding],
    others: Sequence[Finding],
    *,
    is_own: bool = False,
) -> str | None:
    """Return why a checkpoint is not written from a listing, which has it where `is_own`; None where it is."""
    if not names and not is_own:
        return "the log has no such checkpoint"
    if version not in listing.commits:
        return f"commit {version} is missing, and a checkpoint is written only beside its commit"
    try:
        snapshot = rebuild_version(table, ListedLog(listing), version)
        if not is_own:
            return why_doubted(table, snapshot, findings, others)
        if not _begins_with(snapshot, names):
            return Undetermined(f"nothing of the checkpoint of version {version} can be read")
        _read_file_actions(snapshot)
        return contradicted_map(snapshot, findings)
    except (Unreadable, CommitCorrupt) as fault:
        source = "its own rows do" if is_own else "the rest of the log does"
        return Undetermined(f"{source} not determine version {version}: {fault.message}")


def _begins_with(snapshot: Snapshot, names: Sequence[str]) -> bool:
    """Return whether a version was rebuilt from one of these checkpoint files, and not from commits in their place."""
    checkpoint = snapshot.segment.checkpoint
    return not names or (checkpoint is not None and any(file.name in names for file in checkpoint.files))


def _read_file_actions(snapshot: Snapshot) -> None:
    """Read every add and remove of a version. Raises Unreadable where values are missing behind a damaged page."""
    for kind in ("add", "remove"):
        for _ in snapshot.file_actions.map_actions(kind, lambda rows: rows.num_rows):
            pass


def _damaged_files(version: int, findings: Sequence[Finding], files: Mapping[str, StoredFile]) -> tuple[str, ...]:
    """Return the checkpoint files at fault: all parts of a multi-part one, all of the version for a sidecar."""
    named = {finding.place.path.removeprefix(f"{LOG_DIRECTORY}/") for finding in findings}
    of_sidecar = any(name.startswith(f"{SIDECAR_DIRECTORY}/") for name in named)
    whole_sets = {
        path.parts for name in named if (path := parse_log_path(name)).kind is LogFileKind.MULTI_PART_CHECKPOINT
    }
    found = []
    for name, file in files.items():
        path = file.path
        if path.version != version or path.kind not in CHECKPOINTS or "/" in name:
            continue
        is_part = path.kind is LogFileKind.MULTI_PART_CHECKPOINT and path.parts in whole_sets
        if name in named or is_part or (of_sidecar and path.kind is not LogFileKind.MULTI_PART_CHECKPOINT):
            found.append(name)
    return tuple(sorted(found))


def plan_compactions(findings: Sequence[Finding], files: Mapping[str, StoredFile], listing: LogListing) -> Planned:
    """Return the steps for compactions: they are moved aside where the commits have all their data."""
    steps: list[Step] = []
    work: list[Work] = []
    unrepaired: list[Unrepaired] = []
    starts = {one.version for one in listing.checkpoints}
    for path, found in _by_path(findings).items():
        name = parse_log_path(path.rpartition("/")[2])
        needed = range(name.version, min(name.last_version, listing.newest_version) + 1)
        if any(version not in listing.commits for version in needed) and not any(
            start >= name.last_version for start in starts
        ):
            unrepaired += [left(one, "commits that it summarizes are missing") for one in found]
            continue
        change = MoveAside((path,), _seen(files, path))
        steps += [Step(one.rule.id, one.place, StepKind.QUARANTINE, len(work), change.name) for one in found]
        work.append(change)
    return Planned(steps, work, unrepaired)


def plan_checksums(
    findings: Sequence[Finding], files: Mapping[str, StoredFile], listing: LogListing, obstacle: str | None
) -> Planned:
    """Return the steps for checksum files."""
    steps: list[Step] = []
    work: list[Work] = []
    readable = set(listing.reconstructable)
    for path, found in _by_path(findings).items():
        version = parse_log_path(path.rpartition("/")[2]).version
        is_computed = obstacle is None and version in readable and version in listing.commits
        seen = _seen(files, path)
        change: Work = WriteChecksum(version, seen) if is_computed else MoveAside((path,), seen)
        action = StepKind.REBUILD if is_computed else StepKind.QUARANTINE
        steps += [Step(one.rule.id, one.place, action, len(work), change.name) for one in found]
        work.append(change)
    return Planned(steps, work)


def find_unreadable(findings: Sequence[Finding], stuck: frozenset[str]) -> frozenset[str]:
    """Return the names of checkpoint files that cannot be read, and that this repair leaves as they are.

    Args:
        findings: The findings about checkpoints.
        stuck: The names of files of the log that the repair does not repair.
    """
    paths = (one.place.path for one in findings if one.rule.id == UNREADABLE.id)
    return stuck.intersection(path.removeprefix(f"{LOG_DIRECTORY}/") for path in paths)


def plan_hint(
    findings: Sequence[Finding],
    files: Mapping[str, StoredFile],
    obstacle: str | None,
    unreadable: frozenset[str] = frozenset(),
) -> Planned:
    """Return the step for the hint: it is written for a checkpoint beside its commit, else moved aside.

    Args:
        findings: The findings about the hint.
        files: The files of the log.
        obstacle: Why nothing may be written for the newest version; None if something may.
        unreadable: The names of checkpoint files that cannot be read, now or after the repair.
    """
    if not findings:
        return Planned()
    listing = versioned(files.values())
    newest = max((checkpoint.version for checkpoint in listing.checkpoints), default=None)
    newest_checkpoints = (checkpoint for checkpoint in listing.checkpoints if checkpoint.version == newest)
    names_of_newest = [file.name for checkpoint in newest_checkpoints for file in checkpoint.files]
    if not unreadable.isdisjoint(names_of_newest):
        obstacle = obstacle or f"the newest checkpoint, of version {newest}, cannot be read"
    if newest is not None and newest not in listing.commits:
        obstacle = obstacle or f"commit {newest}, that of the newest checkpoint, is missing"
    change: Work = WriteHint()
    if obstacle is not None:
        if HINT_NAME not in files:
            return Planned(unrepaired=[left(one, obstacle) for one in findings])
        change = MoveAside((log_location(HINT_NAME),), {HINT_NAME: files[HINT_NAME]}, is_sensitive=False)
    elif HINT_NAME in files and not any(file.path.kind in CHECKPOINTS for file in files.values()):
        words = f"remove {HINT_NAME}, because the log has no checkpoint"
        change = MoveAside((log_location(HINT_NAME),), {HINT_NAME: files[HINT_NAME]}, is_sensitive=False, words=words)
    action = StepKind.QUARANTINE if isinstance(change, MoveAside) else StepKind.REBUILD
    return Planned([Step(one.rule.id, one.place, action, 0, change.name) for one in findings], [change])


def _seen(files: Mapping[str, StoredFile], path: str) -> dict[str, StoredFile]:
    name = path.removeprefix(f"{LOG_DIRECTORY}/")
    return {name: files[name]} if name in files else {}


def _by_path(findings: Sequence[Finding]) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for finding in findings:
        found.setdefault(finding.place.path, []).append(finding)
    return found


def why_doubted(
    table: TableHandle, snapshot: Snapshot, findings: Sequence[Finding], others: Sequence[Finding]
) -> str | None:
    """Return why the commits, of which `snapshot` was rebuilt, are not believed; None where they are.

    `findings` are about the checkpoint, `others` are those of which some raise doubts about commits. A commit whose
    remove was damaged would bring deleted rows back, and one whose add was damaged would lose rows, name a file that
    does not exist, or give rows to another partition.
    """
    lacking, extra, differing = (_keys_of(findings, rule) for rule in (MISSING_ADD, EXTRA_ADD, ADD_DIFFERS))
    gone = next((key for key in lacking if not _sizes(table, key)), None)
    if gone is not None:
        return f"{_DAMAGED}: it adds {gone}, which the checkpoint does not have, and which does not exist"
    both = next((key for key in lacking if key in extra), None)
    if both is not None:
        return f"{_DAMAGED}: it gives {both} another deletion vector than the checkpoint"
    doubt = next((one for one in others if one.rule.id in DOUBTS), None)
    if doubt is not None and (lacking or extra):
        return f"{_DAMAGED}: {doubt.message}, and the checkpoint does not agree on {[*lacking, *extra][0]}"
    named = dict(_column(snapshot, "size", [*extra, *differing])) | dict(_column(snapshot, "size", extra, "remove"))
    unnamed = next((key for key in extra if key not in named and _sizes(table, key)), None)
    if unnamed is not None:
        return f"{_DAMAGED}: none removes {unnamed}, which the checkpoint has, and which exists"
    found = {key: _sizes(table, key) for key in differing}
    other = next((key for key, sizes in found.items() if sizes and not {named.get(key), None} & sizes), None)
    if other is not None:
        return f"{_DAMAGED}: {other} does not have the size that the commits record"
    return (
        _of_fields(table, snapshot, findings)
        or _of_configuration(table, snapshot, findings)
        or _of_spellings(snapshot, has_other_files=bool(lacking or extra))
    )


def _of_spellings(snapshot: Snapshot, *, has_other_files: bool) -> str | None:
    """Return why engines would read other rows from a new checkpoint than from the commits.

    Args:
        snapshot: The version, rebuilt without the checkpoint.
        has_other_files: True if other files are live in the checkpoint, which its writer read from the same commits.
    """
    refusal = find_disagreement_refusal(snapshot, "a new checkpoint")
    if refusal is None:
        return None
    if has_other_files:
        return (
            f"{refusal.message} [{refusal.code}]; the checkpoint has other live files, which are "
            "those that engines read"
        )
    accepted = command("checkpoint", table=snapshot.table.address, version=snapshot.version, force=True)
    return f"{refusal.message} [{refusal.code}]; to accept that: {accepted}"


def _of_fields(table: TableHandle, snapshot: Snapshot, findings: Sequence[Finding]) -> str | None:
    """Return which differing field of an add is not known to be right in the commits."""
    fields: dict[str, set[str]] = {}
    for one in findings:
        if one.rule.id == ADD_DIFFERS.id and one.place.key:
            fields.setdefault(one.field, set()).add(one.place.key)
    for name in _ROW_IDS:
        for path in sorted(fields.get(name, ())):
            return f"{_DAMAGED}: it records another {name} of {path} than the checkpoint"
    with_values = sorted(fields.get("partitionValues", ()))
    for path, values in _column(snapshot, "partitionValues", with_values):
        if not _says(path, values):
            return (
                f"{_DAMAGED}: it gives {path} other partition values than the checkpoint, and its directory does not "
                "name those of the commit"
            )
    with_statistics = sorted(fields.get("stats", ()))
    if len(with_statistics) > _MOST_READ:
        return f"{_DAMAGED}: the statistics of {len(with_statistics):,} files differ from those in the checkpoint"
    for path, stats in _column(snapshot, "stats", with_statistics):
        try:
            true = true_statistics(table.files(), snapshot.config, path, has_vector=False)
        except DeltacliError as fault:
            return f"the statistics of {path} differ from those in the checkpoint, and it cannot be read: {fault}"
        if not is_true(stats, true):
            return f"{_DAMAGED}: its statistics of {path} are not those of the rows"
    return None


def contradicted_map(snapshot: Snapshot, findings: Sequence[Finding]) -> str | None:
    """Return which map of partition values is not believed more than the parsed values beside it, in a checkpoint that
    alone has them; None where no directory contradicts it.
    """
    for path, values in _column(snapshot, "partitionValues", _keys_of(findings, PARSED_PARTITION_DIFFERS)):
        if "=" in path.rpartition("/")[0] and not _says(path, values):
            return f"the directory of {path} names other partition values than its map in the checkpoint"
    return None


def _says(path: str, values: object) -> bool:
    """Return whether the directories of a path name the partition values, as most writers name them."""
    parts = (part.partition("=") for part in path.split("/")[:-1] if "=" in part)
    named = {decode(decode(name)): decode(decode(value)) for name, _, value in parts}
    stated = {key: "__HIVE_DEFAULT_PARTITION__" if value in (None, "") else value for key, value in _pairs(values)}
    return bool(stated) and named == {key: decode(value) for key, value in stated.items()}


def _pairs(values: object) -> list[tuple[str, str]]:
    """Return a map as Arrow gives it."""
    return list(values.items()) if isinstance(values, dict) else list(values or ())  # type: ignore[call-overload]


def _of_configuration(table: TableHandle, snapshot: Snapshot, findings: Sequence[Finding]) -> str | None:
    """Return why no checksum confirms the protocol and metaData of the commits, which differ from the checkpoint's."""
    if not any(one.rule.id == METADATA_DIFFERS.id for one in findings):
        return None
    why = f"{_DAMAGED}: its protocol or metaData differs from that of the checkpoint"
    try:
        source = checksum_path(snapshot.version)
        checksum = read_checksum(table.storage.read(source)) or {}
        protocol, metadata = read_protocol(checksum["protocol"], source), read_metadata(checksum["metadata"], source)
    except (DeltacliError, KeyError):
        return f"{why}, and no checksum of version {snapshot.version} confirms it"
    differing = [
        *find_protocol_differences(snapshot.protocol, protocol),
        *find_metadata_differences(snapshot.metadata, metadata),
    ]
    return f"{why}, and the checksum of version {snapshot.version} has another {differing[0]}" if differing else None


def _keys_of(findings: Sequence[Finding], rule: Rule) -> list[str]:
    return [one.place.key for one in findings if one.rule.id == rule.id and one.place.key]


def _column(snapshot: Snapshot, name: str, paths: Sequence[str], kind: str = "add") -> Iterator[tuple[str, Any]]:
    """Yield the paths among these of the adds or the removes of a version, with one of their fields (Any: its type)."""
    wanted = pa.array(paths, pa.string())

    def chosen(rows: RecordBatch) -> RecordBatch:
        return rows.filter(pc.is_in(rows.column("path"), value_set=wanted))

    if paths:
        for rows in snapshot.file_actions.map_actions(kind, chosen, fields=("path", name)):
            yield from zip(rows.column("path").to_pylist(), rows.column(name).to_pylist(), strict=True)


def _sizes(table: TableHandle, path: str) -> set[int | None]:
    """Return the sizes of a file that the table may mean, one or none below the table; None if it is elsewhere."""
    inside = table.files().find_path_in_table(path)
    if inside is None:
        return {None}
    sizes, _ = table.storage.stat_many(list(dict.fromkeys((inside, path))))
    return {size for size in sizes if size >= 0}
