"""What a copy would do, as data: the versions, the files that they need, and which of these the target has. Planning
only reads.

A file that an earlier version needs and that is gone from the source, as after a vacuum, is left out; one that the
newest version needs is a refusal. Data comes first, then commits, so that the target is no table yet or a readable one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.changing.base_version import BaseVersion, build_base_version, hash_log_file, identify_commit
from deltacli.changing.clone_notes import NOTES_DIRECTORY, resolve_note_uri
from deltacli.changing.file_owners import (
    FileOwners,
    find_external_directories,
    find_external_directories_of_version,
    find_file_owners,
)
from deltacli.changing.file_totals import FileTotals
from deltacli.changing.lost_versions import describe_lost_versions
from deltacli.changing.request_checks import require_committable_request
from deltacli.core import errors
from deltacli.core.lock_free_property import cached_property
from deltacli.core.short_repr import short_repr
from deltacli.core.texts import summarize_names
from deltacli.core.typing import ArrowArray, ArrowTable, Json
from deltacli.core.units import plural
from deltacli.delta.data_files import repeat_empty_vector_id, unique_id_column
from deltacli.delta.encoding.many_values import KeyIndex
from deltacli.delta.log.commit_content import CommitRequest
from deltacli.delta.log.segment import (
    SIDECAR_DIRECTORY,
    Hint,
    LogFile,
    LogFileKind,
    LogListing,
    choose_segment,
    make_log_file,
    read_hint,
    read_listing,
)
from deltacli.delta.log.state import has_in_commit_timestamps
from deltacli.delta.paths.keys import PathKeys
from deltacli.delta.paths.spelling import decode_path_bytes
from deltacli.delta.paths.spelling_columns import are_absolute
from deltacli.operations.copy.note import CopiedCommit, CopyNote, read_note
from deltacli.operations.copy.relative import RelativeLog
from deltacli.operations.copy.request import CopyLevel, CopyRequest
from deltacli.operations.log.log_copy import log_location
from deltacli.operations.read.snapshot import digest_of_keys
from deltacli.operations.recover.verify import verify
from deltacli.storage import PathKind, ReadStorage, Storage, is_address_of, is_inside
from deltacli.storage.optional_interfaces import require_writable
from deltacli.table.configuration_actions import read_configuration_actions
from deltacli.table.file_references import FileReferenceReader
from deltacli.table.find_log import list_log, list_log_files, read_hint_file
from deltacli.table.handle import TableHandle, managed_store
from deltacli.table.missing_log import build_missing_log_error
from deltacli.table.needed_files import (
    FileKind,
    NeededFiles,
    build_needed_files,
    combine_chunks,
    join_needed_files,
    locate_files,
    map_live_columns,
    read_live_files,
)
from deltacli.table.nested_tables import find_enclosing_tables
from deltacli.table.rebuild import read_snapshot
from deltacli.table.table_directories import is_empty_directory

if TYPE_CHECKING:
    from deltacli.operations.checkpoint.checkpoint import CheckpointPlan
    from deltacli.table.version import Snapshot

ABSOLUTE = "copy.absolute-paths"
INCOMPLETE, REWRITTEN, NOT_A_REPLICA = "copy.source-incomplete", "copy.source-rewritten", "copy.not-a-replica"
_NAMED = 5


@dataclass(frozen=True)
class Lag:
    """How far a copy is behind: versions, and seconds between the newest commits of both; None where it has none."""

    versions: int
    seconds: float | None

    def as_json(self) -> dict[str, Json]:
        return {"versions": self.versions, "seconds": self.seconds}


@short_repr("versions", "files=to_copy.files", "skipped=skipped.files", "refusals")
@dataclass(eq=False, repr=False)
class CopyPlan:
    """What is copied. `files` has `path` (bytes) and `sizeBytes` of data files, vectors and change files; `log` are
    files of the log in their order. `needed` are all files of the versions, with `needed_sizes`.
    """

    base_version: BaseVersion
    request: CopyRequest
    target: Storage
    first: int
    last: int
    files: ArrowTable
    log: tuple[LogFile, ...]
    skipped: FileTotals
    note: CopyNote | None
    lag: Lag
    needed: NeededFiles | None = None
    needed_sizes: ArrowArray | None = None
    makes_log: bool = False
    """The target has no file of a log yet."""
    makes_start: bool = False
    """No checkpoint of one file has the first version, so that one is written in the target."""
    hint: bytes | None = None
    resumed: Mapping[int, CopiedCommit] = field(default_factory=dict)
    """Commits that the target has and its note lacks, which are the same in the source."""
    extra: tuple[LogFile, ...] = ()
    """Commits and checkpoints of the target that the source does not have, for a check."""
    has_live: bool = False
    """`needed` has every live file of the last version."""
    table_id: str = ""
    """The id of the source in the last version."""
    digest: str = ""
    """That of the live files of the last version in the source, which the target has to have in the end."""
    owners: FileOwners = field(default_factory=FileOwners)
    """The tables whose files the copy names by absolute paths, which get a note of it."""
    notes: tuple[str, ...] = ()
    refusals: tuple[errors.Refusal, ...] = ()

    def release(self) -> None:
        """Give up the files, of which only the amounts are kept: a million take 100 MB. It cannot be executed again."""
        self.to_copy  # noqa: B018  (kept from now on)
        self.files, self.needed, self.needed_sizes = _no_files(), None, None

    @cached_property
    def to_copy(self) -> FileTotals:
        """The files to copy, those of the log included."""
        of_log = FileTotals.from_sizes(file.size_bytes for file in self.log)
        return FileTotals(self.files.num_rows, pc.sum(self.files["sizeBytes"]).as_py() or 0) + of_log

    @property
    def is_noop(self) -> bool:
        """Return True where a replica has everything."""
        is_done = self.note is not None and self.note.is_complete and self.note.last_version == self.last
        return is_done and not self.files.num_rows and not self.log

    def build_refusal(self) -> errors.Refused | None:
        return errors.Refused.from_refusals(self.refusals) if self.refusals else None

    def effects(self) -> Iterator[str]:
        found = self.to_copy
        yield f"copy {plural(found.files, 'file')} of {found.size_bytes:,} bytes to {self.target.uri}"
        yield from (f"a note in {NOTES_DIRECTORY} of {uri}" for uri in self.owners.uris)


class _Target(NamedTuple):
    """The content of the target: its note and its log, both empty for a new one."""

    note: CopyNote | None
    files: Sequence[LogFile]
    listing: LogListing

    @property
    def version(self) -> int:
        return self.listing.newest_version


def plan_copy(table: TableHandle, target: Storage, request: CopyRequest) -> CopyPlan:
    """Find the files to copy, and what stands against it.

    Raises UsageError where one of both is inside the other, Refused for a target that is no copy of this table, for a
    source that was rewritten or is incomplete, PaimonTable, VersionAbsent, and what reading the log raises.
    """
    require_apart(table.storage, target)
    if not request.check:
        require_writable(target)
    source = list_log_files(table.storage, progress=table.progress)
    listing = read_listing(source)
    if listing.is_empty:
        raise build_missing_log_error(table.storage)
    note = read_note(target)
    try:
        files = list_log_files(target) if note is not None or request.check else []
    except (errors.FileMissing, errors.NotATable):
        files = []
    there = _Target(note, files, read_listing(files))
    _require_ours(table, target, request, there)
    if not request.check and (there.note is None or not there.note.is_complete):
        _require_outside_of_tables(table, target)
    is_relative = isinstance(table.storage, RelativeLog)
    if there.note is not None and there.note.is_relative and not is_relative:
        return plan_copy(_with_relative_log(table), target, request)
    try:
        plan = _plan(table, target, request, source, listing, there)
        is_replica = request.replica if there.note is None else there.note.is_replica
        is_whole = all(version in listing.commits for version in range(plan.last + 1))
        if any(one.code == ABSOLUTE for one in plan.refusals) and is_whole and not (is_replica or is_relative):
            return plan_copy(_with_relative_log(table), target, request)
        return plan
    except (errors.LogIncomplete, errors.CommitCorrupt, errors.CheckpointUnreadable) as fault:
        raise errors.Refused(
            f"the source is incomplete: {fault}",
            code=INCOMPLETE,
            facts={**fault.facts, "rule": fault.code},
            hint=fault.hint,
        ) from fault


def _with_relative_log(table: TableHandle) -> TableHandle:
    return table.replace_storage(cast("ReadStorage", RelativeLog(table.storage)))


def require_apart(source: ReadStorage, target: ReadStorage) -> None:
    """Raise UsageError where one of source and target contains the other."""
    inner, outer = is_inside(target, source), is_inside(source, target)
    if inner or outer:
        raise errors.UsageError(
            "source and target are the same directory"
            if inner and outer
            else "a table and its copy cannot contain each other",
            code="usage.copy",
            facts={"source": source.uri, "target": target.uri},
        )


def _require_outside_of_tables(table: TableHandle, target: Storage) -> None:
    """Raise Refused for a target inside a table, whose vacuum sees files that no log names until the copy is whole."""
    if (around := next(find_enclosing_tables(table.replace_storage(target)), None)) is not None:
        raise errors.Refused(
            "the target is inside a table, whose vacuum would delete the files of an unfinished copy",
            code="copy.inside-table",
            facts={"target": target.uri, "table": around},
            hint="name a directory that is in no table",
        )


def _require_ours(table: TableHandle, target: Storage, request: CopyRequest, there: _Target) -> None:
    """Raise Refused where the target is not empty and no copy that this command continues."""
    note, facts = there.note, {"target": target.uri}
    if note is None:
        if target.kind_of("") is PathKind.FILE:
            raise errors.UsageError(f"{target.uri} is a file, not a directory", code="usage.copy")
        if not request.check and not is_empty_directory(target):
            raise _not_a_replica(f"{target.uri} is not empty, and has no note of a copy", facts)
        return
    if not note.is_complete and not is_address_of(table.storage, note.source):
        raise _not_a_replica(
            f"{target.uri} is an unfinished copy of another table", {**facts, "its source": note.source}
        )
    if request.check:
        return
    if note.is_replica != request.replica:
        what = "a replica" if note.is_replica else "a copy with an id of its own"
        hint = errors.suggest_parameters(errors.parameter("copy.replica")) if note.is_replica else None
        raise _not_a_replica(f"{target.uri} is {what}", facts, hint)
    levels = [level.value for level in CopyLevel]
    if note.failed_level is not None and levels.index(request.level) < levels.index(note.failed_level):
        way_out = errors.suggest_parameters(errors.parameter("copy.level", note.failed_level))
        raise diverged("the last run found that the target differs from the source", target, note, way_out)
    if note.is_complete and not note.is_replica:
        compare = errors.suggest_parameters(errors.parameter("copy.check"))
        raise _not_a_replica(
            f"{target.uri} is a finished copy with an id of its own, which is made once", facts, compare
        )


def _not_a_replica(message: str, facts: dict[str, str], hint: str | None = None) -> errors.Refused:
    ways = {"to keep one up to date": f"copy to a new directory with {errors.parameter('copy.replica')}"}
    return errors.Refused(message, code=NOT_A_REPLICA, facts={**facts, **ways}, hint=hint)


def _plan(
    table: TableHandle,
    target: Storage,
    request: CopyRequest,
    source: Sequence[LogFile],
    listing: LogListing,
    there: _Target,
) -> CopyPlan:
    _require_past(table, listing, there, target, is_check=request.check)
    start, has_gap = _start_of(listing)
    first, last = _range(listing, request, there, target, start)
    note = there.note
    lag = _lag(listing, there, last)
    have = there.version
    if not request.check and have >= 0:
        expired = next((version for version in range(have + 1, last + 1) if version not in listing.commits), None)
        if expired is not None:
            raise _rewritten(f"commit {expired}, which follows what was copied, has expired", target)
    known = set() if request.check else {(one.name, one.size_bytes) for one in there.files}
    log = _log_files(source, listing, known, first, last)
    is_current = note is not None and note.is_complete and not request.check and have >= note.last_version
    if note is not None and is_current and not log and note.last_version == last and last in listing.commits:
        base_version = BaseVersion(table, last, table.clock(), identify_commit(listing, last))
        lost = describe_lost_versions(table.storage, listing, -1)  # the hint would take a request
        return CopyPlan(
            base_version, request, target, first, last, _no_files(), (), FileTotals(), note, lag, notes=tuple(lost)
        )
    snapshot = read_snapshot(table, version=last)
    is_newest = last == listing.newest_version
    lost = describe_lost_versions(table.storage, listing, snapshot.log.hint_version) if is_newest else []
    digest = digest_of_keys(snapshot)  # before the paths take as much memory
    resumed = {} if note is None or request.check else _resumed(table, target, listing, there, note, snapshot)
    begin = note.last_version + 1 if note is not None and is_current else max(first, start)
    makes_start = (
        not request.check and have < 0 and _needs_start(listing, first) and _start_file(listing, first) is None
    )
    if makes_start:
        plan_start(table, first)
    paths = _Paths(table)
    if not is_current:
        paths.take_state(snapshot)
        if begin != last and _needs_start(listing, begin):
            paths.take_state(read_snapshot(table, version=begin))
    elif request.keep_external:
        # An earlier run, perhaps of an earlier release, copied the paths of these files.
        paths.directories |= find_external_directories_of_version(snapshot)
    plan = CopyPlan(
        base_version=replace(build_base_version(snapshot), snapshot=None)
        if is_newest
        else BaseVersion(table, last, table.clock(), identify_commit(listing, last)),
        request=request,
        target=target,
        first=first,
        last=last,
        files=_no_files(),
        log=(*_sidecars(table.storage, target, snapshot, listing, is_check=request.check), *log),
        skipped=FileTotals(),
        note=note,
        lag=lag,
        makes_log=not there.files,
        makes_start=makes_start,
        hint=_hint(table.storage, listing, first, last),
        resumed=resumed,
        extra=tuple(_extra(table, target, source, there, first, last, request)) if request.check else (),
        has_live=not is_current,
        table_id=snapshot.metadata.id or "",
        digest=digest,
        notes=(*lost, *_notes(snapshot, first, has_gap=has_gap and first == start, note=note)),
        refusals=tuple(_refusals_of_version(snapshot, request)),
    )
    del snapshot  # a million live files take 100 MB here, and as much again in the plan
    needed = paths.with_commits(listing, begin, last)
    refusals = (*plan.refusals, *_refusals_of_paths(paths, request), *_refusals_of_relative(table, listing))
    plan = replace(plan, refusals=refusals)
    if request.keep_external and not request.check:
        plan = _add_owners(plan, paths.directories)
    return _with_files(plan, table, target, needed)


def _add_owners(plan: CopyPlan, directories: set[str]) -> CopyPlan:
    """Return a plan that notes the copy in the tables whose files it names, and warns of tables without a note."""
    if not directories:
        return plan
    owners = find_file_owners(plan.base_version.table, directories, resolve_note_uri(plan.target))
    noted = (
        f"{uri} gets a note of the copy in {NOTES_DIRECTORY}, so that its vacuum keeps the files" for uri in owners.uris
    )
    return replace(plan, owners=owners, notes=(*plan.notes, *noted, *owners.warnings))


def _start_of(listing: LogListing) -> tuple[int, bool]:
    """Return the first version from which commits lead to the newest one, and whether earlier ones can be rebuilt."""
    can = listing.reconstructable
    if not can or can[-1] != listing.newest_version:
        choose_segment(listing)  # names what is missing
    places = range(len(can) - 1, 0, -1)
    run = next((place for place in places if can[place - 1] != can[place] - 1 or can[place] not in listing.commits), 0)
    return can[run], run > 0


def _range(listing: LogListing, request: CopyRequest, there: _Target, target: Storage, start: int) -> tuple[int, int]:
    """Return the first and the last version, as an earlier run determined them. `start`: the first possible one."""
    newest, note = listing.newest_version, there.note
    first, last = (newest if request.newest else start), newest
    if note is not None and there.version >= 0:
        first = max(note.first_version, start) if request.check else note.first_version
        last = newest if note.own_id is None else note.last_version
        asked = (request.first, request.last)
        if not request.check and request.versions is not None and asked != (first, last):
            raise _not_a_replica(
                f"{target.uri} is an unfinished copy of versions {first} to {last}", {"target": target.uri}
            )
        if not request.check:
            return first, last
    if request.first is not None and request.last is not None:
        first, last = request.first, request.last
    for end in (first, last):
        if not start <= end <= newest:
            near = (max(first, start), min(last, newest)) if first <= newest and last >= start else (start, newest)
            raise errors.VersionAbsent(
                f"version {end} cannot be copied: versions {start} to {newest} can be rebuilt",
                hint=errors.suggest_parameters(errors.parameter("copy.versions", "{}-{}".format(*near))),
            )
    return first, last


def _require_past(table: TableHandle, listing: LogListing, there: _Target, target: Storage, *, is_check: bool) -> None:
    """Raise Refused where a commit that was copied is another one in the source now, or where the target has commits
    that the source never had, which a check lists instead. Commits that have expired are not compared.
    """
    note, storage, newest = there.note, table.storage, listing.newest_version
    if note is None:
        return
    if (note.commits or there.version >= 0) and newest < note.last_version:
        raise _rewritten(f"its newest version is {newest}, and {note.last_version} was copied", target)
    for version, known in note.commits.items():
        found = listing.commits.get(version)
        if found is None or (found.size_bytes, found.modified_ms) == (known.size_bytes, known.modified_ms):
            continue
        if found.size_bytes != known.size_bytes or hash_log_file(storage, found) != known.sha256:
            raise _rewritten(f"commit {version} is another one than was copied", target)
    present = range(min(listing.commits, default=0), note.last_version + 1)
    if gone := [version for version in present if version in note.commits and version not in listing.commits]:
        raise _rewritten(f"commit {gone[0]} is gone, and later ones are there", target)
    end = newest if note.own_id is None else note.last_version
    for version, copy in {} if is_check else there.listing.commits.items():
        origin = note.commits.get(version) or listing.commits.get(version)
        is_same = origin is None or origin.size_bytes == copy.size_bytes
        if (version > end or not is_same) and not _is_own(table, target, note, copy):
            raise diverged(
                f"commit {version} of the target is not one of the source: another writer has changed the copy",
                target,
                note,
            )


def _is_own(table: TableHandle, target: Storage, note: CopyNote, commit: LogFile) -> bool:
    """Return whether a commit of the target is the one that gave the copy its id."""
    if note.own_id is None or commit.version != note.last_version + 1:
        return False
    (_, actions), *_ = read_configuration_actions(table.replace_storage(target), [commit])
    return any(kind == "metaData" and action.get("id") == note.own_id for kind, action in actions or ())


def _resumed(
    table: TableHandle, target: Storage, listing: LogListing, there: _Target, note: CopyNote, snapshot: Snapshot
) -> dict[int, CopiedCommit]:
    """Return the commits that an earlier run copied without noting them, compared with those of the source. Raises
    Refused where they differ, and where the source is another table or has another past.
    """
    if (snapshot.metadata.id or "") != note.table_id and _id_at(table, note.last_version) != note.table_id:
        raise _rewritten("it is another table, with another id", target)
    have = there.version if note.own_id is None else min(there.version, note.last_version)

    def compare(version: int) -> CopiedCommit | None:
        origin, known = listing.commits[version], note.commits.get(version)
        sha256 = hash_log_file(table.storage, origin)
        other = hash_log_file(target, there.listing.commits[version]) if known is None else known.sha256
        if sha256 is None or sha256 != other:
            raise _rewritten(f"commit {version} is another one than was copied", target)
        return CopiedCommit(version, origin.size_bytes, origin.modified_ms, sha256)

    both = [version for version in there.listing.commits if version <= have and version in listing.commits]
    unproven = [version for version in both if version not in note.commits or version == note.last_version]
    found = [one for one in table.engine.run(compare, unproven) if one is not None]
    if have >= 0 and have not in both:
        _require_same_state(table, target, have)
    return {one.version: one for one in found}


def _id_at(table: TableHandle, version: int) -> str | None:
    try:
        return read_snapshot(table, version=version).metadata.id or ""
    except errors.Unreadable:
        return None


def _require_same_state(table: TableHandle, target: Storage, version: int) -> None:
    """Raise Refused unless a version whose commit has expired has the same live files in source and target."""
    try:
        require_state(table.replace_storage(target), version, digest_of_keys(read_snapshot(table, version=version)))
    except errors.Unreadable as fault:
        why = f"version {version}, up to which it was copied, cannot be compared any more: {fault}"
        raise _rewritten(why, target) from fault
    except errors.StorageFailed as fault:
        if fault.code != "copy.differs":
            raise
        raise _rewritten(f"version {version} has another state than was copied", target) from fault


def require_state(target: TableHandle, version: int, digest: str) -> Snapshot:
    """Return a version of the target, whose live files have this digest, that of the source. Of tombstones, a
    checkpoint that is written for the first version lacks the expired ones. Raises StorageFailed.
    """
    snapshot = read_snapshot(target, version=version)
    copied = digest_of_keys(snapshot)
    if copied != digest:
        raise errors.StorageFailed(
            f"version {version} of the target has another state than in the source",
            code="copy.differs",
            facts={"source": digest, "target": copied},
        )
    return snapshot


def diverged(message: str, target: Storage, note: CopyNote | None = None, hint: str | None = None) -> errors.Refused:
    """Return the refusal for a target that another writer has changed."""
    facts = {} if note is None else {"last version copied": str(note.last_version)}
    return errors.Refused(
        message,
        code="copy.diverged",
        facts={"target": target.uri, **facts, "way out": "copy to a new directory"},
        hint=hint or errors.command("history", table=target.uri, limit=10),
    )


def _extra(
    table: TableHandle,
    target: Storage,
    source: Sequence[LogFile],
    there: _Target,
    first: int,
    last: int,
    request: CopyRequest,
) -> Iterator[LogFile]:
    """Yield commits and checkpoints that only the target has, except that of its id and that which it begins with."""
    names, note = {file.name for file in source}, there.note
    begins = None if note is None else note.first_version
    end = None if request.last is None else last
    for file in there.files:
        kind, version = file.path.kind, file.version
        if kind in (LogFileKind.CHECKSUM, LogFileKind.OTHER, LogFileKind.UNPADDED) or version < first:
            continue
        if end is not None and file.path.newest > end:
            continue
        is_commit = kind is LogFileKind.COMMIT
        if file.name in names and (version <= last or not (note is not None and note.own_id)):
            continue
        is_start = not is_commit and version == begins
        if not is_start and not (is_commit and note is not None and _is_own(table, target, note, file)):
            yield file


def _rewritten(why: str, target: Storage) -> errors.Refused:
    return errors.Refused(
        f"the source has another past than when it was copied: {why}",
        code=REWRITTEN,
        facts={"target": target.uri, "way out": "copy to a new directory"},
        hint=errors.command("history", limit=10),
    )


def _lag(listing: LogListing, there: _Target, last: int) -> Lag:
    newest, have = listing.newest_version, there.version
    if have < 0:
        return Lag(last + 1, None)
    have = min(have, newest)
    known = listing.commits.get(have) or (there.note.commits.get(have) if there.note else None)
    end = identify_commit(listing, newest)
    seconds = None if known is None or end is None else max(0, end.modified_ms - known.modified_ms) / 1_000
    return Lag(newest - have, seconds)


# -- files of the log --------------------------------------------------------------------------------------------------


def _needs_start(listing: LogListing, first: int) -> bool:
    """Return whether a version is not read from commits alone."""
    return first > 0 or first not in listing.commits


def plan_start(table: TableHandle, first: int) -> CheckpointPlan:
    """Plan the checkpoint that a copy begins with.

    Raises:
        Refused: If engines would read other rows from it than from the source (`path.same-file-two-spellings`), and
            as `plan_checkpoint`, which may raise other errors, too.
    """
    from deltacli.operations.checkpoint.checkpoint import CheckpointRequest, LayoutChoice, plan_checkpoint

    plan = plan_checkpoint(table, CheckpointRequest(version=first, layout=LayoutChoice.CLASSIC, force=True))
    if plan.accepted is not None:
        raise errors.Refused.from_refusals([plan.accepted])
    return plan


def _start_file(listing: LogListing, first: int) -> LogFile | None:
    """Return the one file from which the first version can be read; None where there is none of one file."""
    singles = [one for one in listing.checkpoints if one.version == first and len(one.files) == 1]
    return max(singles, key=lambda one: one.preference).files[0] if singles else None


def _log_files(
    source: Sequence[LogFile], listing: LogListing, known: set[tuple[str, int]], first: int, last: int
) -> list[LogFile]:
    """Return the files of the log to copy, in their order: what the first version begins with, the commits, then what
    follows from commits. `known` are the names and sizes of those that the target has.
    """
    needs_start = _needs_start(listing, first)
    start = _start_file(listing, first) if needs_start else None
    sound = {file.name for one in listing.checkpoints for file in one.files}

    def order(file: LogFile) -> tuple[int, int, int, str]:
        if file == start:
            return (0, 0, 0, file.name)
        is_commit = file.path.kind is LogFileKind.COMMIT
        return (1 if is_commit else 2, file.path.newest, 0, file.name)

    def is_wanted(file: LogFile) -> bool:
        kind = file.path.kind
        if (file.name, file.size_bytes) in known or not first <= file.version <= file.path.newest <= last:
            return False
        if kind in (LogFileKind.COMMIT, LogFileKind.CHECKSUM, LogFileKind.COMPACTED_COMMIT):
            return True
        # Beside a start that is written there, a reader would take the parts of another checkpoint for it.
        return file.name in sound and (file.version != first or not needs_start or file == start)

    return sorted(filter(is_wanted, source), key=order)


def _sidecars(
    storage: ReadStorage, target: ReadStorage, snapshot: Snapshot, listing: LogListing, *, is_check: bool
) -> Iterator[LogFile]:
    """Yield the sidecars that the target lacks or has with another size, where checkpoints may name some."""
    kinds = {one.kind for one in listing.checkpoints}
    may_have = LogFileKind.UUID_CHECKPOINT in kinds or "v2Checkpoint" in snapshot.protocol.supported_features
    if not may_have or not kinds:
        return
    place = log_location(SIDECAR_DIRECTORY)
    found = []
    for store in (target, storage):
        try:
            found.append({one.name: one for one in store.list_from(place)})
        except errors.FileMissing:
            found.append({})
    for name, one in found[1].items():
        copy = found[0].get(name)
        is_there = copy is not None and copy.size_bytes == one.size_bytes
        if (is_check or not is_there) and not name.startswith("."):
            yield make_log_file(f"{SIDECAR_DIRECTORY}/{name}", one.size_bytes, one.modified_ms)


def _hint(storage: ReadStorage, listing: LogListing, first: int, last: int) -> bytes | None:
    try:
        data = read_hint_file(storage)
    except errors.FileMissing:
        return None
    hint = read_hint(data)
    if not isinstance(hint, Hint) or not any(one.version == hint.version <= last for one in listing.checkpoints):
        return None
    return None if hint.version <= first else data  # it may be about parts, which the copy does not have


# -- files that versions need ------------------------------------------------------------------------------------------


class _Paths:
    """The files of a table that its versions need, and paths that a copy elsewhere cannot have as they are."""

    def __init__(self, table: TableHandle) -> None:
        self._table = table
        self._uris = (table.storage.uri, *table.storage.aliases)
        self._keys = PathKeys(self._uris)
        self._live: list[NeededFiles] = []
        self.outside: dict[str, None] = {}
        """The first paths that lead out of the table."""
        self.absolute: dict[str, None] = {}
        """The first absolute paths of files in the table."""
        self.directories = set[str]()
        """The directories outside of the table in which it names files."""

    def take_state(self, snapshot: Snapshot) -> None:
        """Take the files that are live in a version."""
        self._live += map_live_columns(
            snapshot,
            lambda columns: self._files(FileKind.DATA, columns.paths, columns.sizes, columns.descriptors),
            with_rows=False,
        )

    def with_commits(self, listing: LogListing, begin: int, last: int) -> NeededFiles:
        """Return the files that were taken, and those that commits name beside them. Raises CommitCorrupt."""
        pa.default_memory_pool().release_unused()  # the state that is gone, or it is there beside the paths
        none = pa.array([], pa.string())
        parts = self._live = [_in_one_piece(join_needed_files([self._files(FileKind.DATA, none, none), *self._live]))]
        live = KeyIndex(combine_chunks(parts[0].files["path"]))
        commits = {version: file for version, file in listing.commits.items() if begin <= version <= last}
        reader = FileReferenceReader(self._table, replace(listing, commits=commits))
        for rows in reader.read():
            if rows.kind != "remove":
                kind = FileKind.DATA if rows.kind == "add" else FileKind.CHANGE_DATA
                named = self._files(kind, rows.path, rows.size, ids=rows.vector)
                named = named.where(pc.invert(live.contains(combine_chunks(named.files["path"]))))
                if named.files.num_rows or named.outside:
                    parts.append(named)
        if reader.errors:
            raise reader.errors[0]
        return parts[0] if len(parts) == 1 else join_needed_files(parts)

    def _files(
        self,
        kind: FileKind,
        paths: ArrowArray,
        sizes: ArrowArray,
        descriptors: ArrowArray | None = None,
        ids: ArrowArray | None = None,
    ) -> NeededFiles:
        paths = combine_chunks(paths)
        if ids is None:
            ids = repeat_empty_vector_id(len(paths)) if descriptors is None else unique_id_column(descriptors)
        ids = pc.fill_null(combine_chunks(ids), "")
        rows = pa.nulls(len(paths), pa.int64())
        found = build_needed_files(self._uris, paths, sizes, rows, descriptors, kind=kind)
        is_absolute = are_absolute(paths)
        self.directories |= find_external_directories(self._table.storage, paths, ids)
        if found.outside or pc.any(is_absolute).as_py():
            is_there = pc.is_valid(self._keys.compute_keys(paths).keys)
            _remember(self.outside, pc.filter(paths, pc.invert(is_there)))
            _remember(self.absolute, pc.filter(paths, pc.and_(is_absolute, is_there)))
        if not pc.any(pc.not_equal(ids, "")).as_py():
            return found
        ids = pc.filter(ids, pc.not_equal(ids, ""))
        keys = self._keys.compute_vector_keys(ids).keys
        is_path = pc.starts_with(ids, "p")
        files = _vector_files(ids)
        _remember(self.outside, pc.filter(files, pc.and_(is_path, pc.is_null(keys))))
        _remember(self.absolute, pc.filter(files, pc.and_(is_path, pc.is_valid(keys))))
        places = pc.unique(pc.drop_null(keys))
        no_number = pa.nulls(len(places), pa.int64())
        columns = {
            "path": places,
            "undecoded_path": pa.nulls(len(places), pa.binary()),
            "kind": pa.repeat(FileKind.VECTOR.value, len(places)),
            "sizeBytes": no_number,
            "rows": no_number,
        }
        return join_needed_files([found, NeededFiles(pa.table(columns), found.vectors)])


def _vector_files(ids: ArrowArray) -> ArrowArray:
    """Return the path of the file of each vector, as the log has it: `p` and `@1` make an id of it."""
    return pc.replace_substring_regex(ids, pattern="(?s)^p(.*?)(?:@[0-9]+)?$", replacement=r"\1")


def _in_one_piece(needed: NeededFiles) -> NeededFiles:
    """Return the files with their paths in one array, which later steps use without a copy."""
    return needed._replace(files=needed.files.set_column(0, "path", combine_chunks(needed.files["path"])))


def _no_files() -> ArrowTable:
    return pa.table({"path": pa.array([], pa.binary()), "sizeBytes": pa.array([], pa.int64())})


def _remember(found: dict[str, None], texts: ArrowArray) -> None:
    """Keep the first of some texts."""
    for text in texts.slice(0, max(0, _NAMED + 1 - len(found))).to_pylist():
        found[text] = None


def _with_files(plan: CopyPlan, table: TableHandle, target: Storage, needed: NeededFiles) -> CopyPlan:
    """Return a plan with what of the files is there already, and the refusals of those that the source lacks."""
    engine, progress = table.engine, table.progress
    needed, sizes = locate_files(table.storage, needed, engine, progress)
    problems = verify(needed, sizes, table.stores, engine, progress, contents=False).problems
    refusals, notes = list(plan.refusals), list(plan.notes)
    if problems.null_count < len(problems):
        lost = needed.where(pc.is_valid(problems))
        gone = combine_chunks(lost.files["path"])
        if plan.request.versions is None:
            live = combine_chunks(read_live_files(read_snapshot(table, version=plan.last)).files["path"])
            gone = pc.filter(gone, pc.is_in(gone, value_set=live))
        if len(gone):
            refusals.append(_lacks_files(gone, plan.last, is_newest=plan.request.versions is None))
        else:
            verb = "is" if len(lost.files) == 1 else "are"
            notes.append(
                f"{plural(len(lost.files), 'file')} of earlier versions {verb} gone from the source, as by a vacuum: "
                "these versions cannot be read in full in the copy either"
            )
        is_there = pc.is_null(problems)
        needed, sizes = needed.where(is_there), pc.filter(sizes, is_there)
    paths, copied = combine_chunks(needed.files["path"]), None
    if not plan.request.check and plan.note is not None:
        copied = locate_files(target, needed, engine, progress)[1]
    is_done = pc.fill_null(pc.equal(copied, sizes), False) if copied is not None else None
    if copied is not None and pc.any(pc.and_(pc.is_valid(copied), pc.invert(is_done))).as_py():
        others = pc.filter(paths, pc.and_(pc.is_valid(copied), pc.invert(is_done)))
        refusals.append(
            errors.Refusal(
                "copy.diverged",
                f"{plural(len(others), 'file')} of the target have another size than in the source: {_names(others)}; "
                "delete them there, and they are copied again",
                errors.command("validate", table=target.uri, level="storage"),
            )
        )
    files = pa.table({"path": paths, "sizeBytes": sizes})
    left = files if is_done is None else files.filter(pc.invert(is_done))
    there = files.slice(0, 0) if is_done is None else files.filter(is_done)
    return replace(
        plan,
        files=left,
        skipped=FileTotals(there.num_rows, pc.sum(there["sizeBytes"]).as_py() or 0),
        needed=needed,
        needed_sizes=sizes,
        notes=tuple(notes),
        refusals=tuple(refusals),
    )


def _names(paths: ArrowArray) -> str:
    return summarize_names([decode_path_bytes(path) for path in paths.slice(0, _NAMED).to_pylist()], _NAMED) + (
        f" and {len(paths) - _NAMED:,} more" if len(paths) > _NAMED else ""
    )


def _lacks_files(paths: ArrowArray, version: int, *, is_newest: bool) -> errors.Refusal:
    of_version: dict[str, Any] = {} if is_newest else {"version": version}  # Any: an option of the command
    verbs = "is missing or has" if len(paths) == 1 else "are missing or have"
    return errors.Refusal(
        INCOMPLETE,
        f"the source is incomplete: {plural(len(paths), 'file')} that version {version} needs {verbs} another size: "
        f"{_names(paths)}",
        errors.command("undelete", **of_version, sources=["COPY"]),
    )


def _refusals_of_version(snapshot: Snapshot, request: CopyRequest) -> Iterator[errors.Refusal]:
    if snapshot.protocol.is_catalog_managed:
        why = "which may have commits that the log lacks"
        if managed_store(snapshot.table.storage) is not None:
            why = "and a copy of it would be a table that no catalog has"
        message = f"version {snapshot.version} is managed by a catalog, {why}"
        yield errors.Refusal("catalog.managed", message)
    elif not request.replica and not request.check:
        try:
            require_committable_request(snapshot, CommitRequest("COPY"))
        except errors.Refused as fault:
            yield errors.Refusal(
                fault.code, str(fault), errors.suggest_parameters(errors.parameter("copy.replica")), facts=fault.facts
            )


def _refusals_of_paths(paths: _Paths, request: CopyRequest) -> Iterator[errors.Refusal]:
    if paths.outside and not request.keep_external:
        yield errors.Refusal(
            "copy.external-files",
            f"the source names files outside of it, which are not copied: {summarize_names([*paths.outside], _NAMED)}",
            override=errors.parameter("copy.keep_external", True),
        )
    if paths.absolute:
        why = "its log does not begin with version 0, or the name of a vector is not that of its UUID"
        if request.replica:
            why = "a replica has every commit byte for byte"
        yield errors.Refusal(
            ABSOLUTE,
            "the source names its own files by absolute paths, which would lead from the copy back to the source, and "
            f"cannot be made relative because {why}: {summarize_names([*paths.absolute], _NAMED)}",
        )


def _refusals_of_relative(table: TableHandle, listing: LogListing) -> Iterator[errors.Refusal]:
    """Yield a refusal where a file has a relative path, too: engines differ on whether both name one file."""
    if not isinstance(table.storage, RelativeLog):
        return
    real = table.storage.real
    keys = PathKeys((real.uri, *real.aliases))
    found: dict[bool, list[ArrowArray]] = {True: [], False: []}
    reader = FileReferenceReader(table.replace_storage(real), replace(listing, commits=list_log(real).commits))
    for rows in reader.read():
        paths = combine_chunks(rows.path)
        is_absolute, below = are_absolute(paths), keys.compute_keys(paths).keys
        found[True].append(pc.filter(below, is_absolute))
        found[False].append(pc.filter(below, pc.invert(is_absolute)))
    absolute, relative = (pa.concat_arrays([pa.array([], pa.binary()), *parts]) for parts in found.values())
    both = pc.drop_null(pc.filter(relative, pc.is_in(relative, value_set=pc.drop_null(absolute))))
    if len(both):
        yield errors.Refusal(
            ABSOLUTE, f"the source names files both by absolute and by relative paths: {_names(pc.unique(both))}"
        )


def _notes(snapshot: Snapshot, first: int, *, has_gap: bool, note: CopyNote | None) -> Iterator[str]:
    yield from snapshot.decisions
    if note is not None and note.first_version < first:
        yield f"versions {note.first_version} to {first - 1} are not compared: the log of the source begins at {first}"
    elif has_gap:
        yield f"versions before {first} are not copied: commits between them and later ones are missing"
    if isinstance(snapshot.table.storage, RelativeLog):
        yield "the source names its own files by absolute paths, which are relative ones in the copy"
    if not has_in_commit_timestamps(snapshot.protocol, snapshot.metadata):
        yield (
            "versions get their times from the files of commits: a local disk keeps these, an object store has the "
            "time of the copy"
        )
