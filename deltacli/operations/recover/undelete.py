"""`undelete`: finds the files of a version and of its log that are gone, and brings them back. Planning only reads.

The log comes first in the plan, because it says which data files are needed, and last in the execution, because no
reader may see a commit whose files are not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.changing.base_version import BaseVersion, identify_commit
from deltacli.changing.change_kind import ChangeKind
from deltacli.changing.clone_notes import CloneNote, resolve_note_uri
from deltacli.changing.derived_files import annotate_interruption
from deltacli.changing.execution import ChangeExecution
from deltacli.changing.file_owners import find_external_directories_of_version, find_file_owners, write_clone_notes
from deltacli.changing.file_totals import FileTotals
from deltacli.changing.rechecks import recheck_base_commit
from deltacli.core import errors
from deltacli.core.progress import start_weighed_step
from deltacli.core.short_repr import short_repr
from deltacli.core.typing import ArrowArray, ArrowTable
from deltacli.core.units import plural
from deltacli.delta.log.segment import choose_segment
from deltacli.delta.log.state import has_in_commit_timestamps
from deltacli.operations.log.log_copy import StoredFile, digest, find_table_id, list_whole_log, log_location, versioned
from deltacli.operations.log.log_restore import require_real_directories
from deltacli.operations.recover import log_files
from deltacli.operations.recover.plan import (
    MISSING,
    PLANNED,
    RESTORED,
    STILL_MISSING,
    UNPROVEN,
    DataPlan,
    UndeletePlan,
    UndeleteRequest,
    with_proofs,
)
from deltacli.operations.recover.sources import (
    CopySource,
    FoundFiles,
    Journal,
    Overwritten,
    Source,
    find_in,
    put_found,
    tag_of,
    tags_of,
)
from deltacli.operations.recover.verify import Problem, verify
from deltacli.storage import Created, Creation, Deleted, PathKind, Storage
from deltacli.storage.base import stat_created
from deltacli.storage.versions import NO_VERSIONS
from deltacli.table.handle import TableHandle, managed_store
from deltacli.table.missing_log import build_missing_log_error
from deltacli.table.needed_files import FileKind, NeededFiles, combine_chunks, locate_files, read_live_files
from deltacli.table.rebuild import read_snapshot
from deltacli.table.table_directories import require_no_paimon_table

if TYPE_CHECKING:
    from deltacli.changing.proofs import Proof, ProvenFile
    from deltacli.operations.recover.proving import Proofs
    from deltacli.table.version import Snapshot

# -- `undelete` --------------------------------------------------------------------------------------------------------

OVERWRITTEN = "log.commit-overwritten"


def plan_undelete(table: TableHandle, request: UndeleteRequest, *, is_tip_judged: bool = True) -> UndeletePlan:
    """Find what a version and its log need, what of it is gone, and where else it is.

    A store without versions is a refusal of the plan if no other source is named, and so are commits that nothing
    proves to be the table's own; of those above its newest version only if the table may have lost some there, and
    `is_tip_judged`.

    Raises PaimonTable; NotATable where neither the table nor a source has a log; VersionAbsent; Refused for the source
    of another table, and for a store without versions where there is no log to plan by; and what reading a log and
    StorageFailed raise.
    """
    table.require_writable(dry_run=True)
    table, looked_at = table.bind_to_directory(), table.machine.monotonic()
    present = list_whole_log(table.storage, progress=table.progress)
    if present is None:
        require_no_paimon_table(table.storage)
    table_id = find_table_id(table.storage, table.engine) if present else None
    opened = log_files.open_sources(table, request.sources, present or {}, table_id)
    offered, overwritten = log_files.log_sources(table, opened)
    cut = {log_location(name): file for one in opened for name, file in one.cut.items()}
    if present is not None:
        present = {name: file for name, file in present.items() if log_location(name) not in cut}
    offers = [dict(list_whole_log(source.files) or {}) for source in offered]
    log_files.require_one_history(offered, offers)
    proofs = _proofs(table, request, opened, offered, offers, present or {})
    without = [one.refusal for one in opened if one.refusal is not None]
    is_new = present is None and table.storage.kind_of("") is PathKind.MISSING
    try:
        log, sources = _plan_log(table, present or {}, offered, offers, request.version, overwritten)
    except errors.NotATable:
        if present is not None:
            raise
        if without and not is_new:
            raise without[0] from None
        fault = build_missing_log_error(table.storage)
        if copies := [one.name for one in opened if one.copy is not None and not one.has_log]:
            fault.facts["sources without a log of the table"] = ", ".join(copies)
        raise fault from None
    plan = replace(_begin(table, request, log, sources, overwritten, present, looked_at), is_new=is_new)
    plan = _with_cut(table, plan, cut)
    if proofs is not None:
        plan = with_proofs(plan, proofs, is_tip_judged=is_tip_judged and request.version is None)
    if len(without) == len(opened):
        refusals = [errors.Refusal(one.code, one.message, one.hint, facts=one.facts) for one in without]
        plan = replace(plan, refusals=(*refusals, *plan.refusals))
    else:
        plan = replace(plan, notes=(*plan.notes, *log_files.require_usable(opened)))
    plan = _plan_files(table, request, opened, table_id, plan)
    if not plan.found.files and not plan.missing.files:  # so no source is needed
        plan = replace(plan, refusals=tuple(one for one in plan.refusals if one.code != NO_VERSIONS))
    return replace(plan, notes=(*plan.notes, *_no_copies(opened, plan)))


def _proofs(
    table: TableHandle,
    request: UndeleteRequest,
    opened: Sequence[log_files.OpenedSource],
    offered: Sequence[Source],
    offers: Sequence[dict[str, StoredFile]],
    present: Mapping[str, StoredFile],
) -> Proofs | None:
    """Return what proves the offered files, None without any; unproven ones above the log leave `offers`."""
    if not any(offers):
        return None

    from deltacli.operations.recover.proving import prove

    cut = {name: file for one in opened for name, file in one.cut.items()}
    return prove(table, present, cut, offered, offers, accepted=request.accept_commits, version=request.version)


def _with_cut(table: TableHandle, plan: UndeletePlan, cut: Mapping[str, StoredFile]) -> UndeletePlan:
    """Return a plan that replaces the commits that are cut off: their sizes, tags, and a note on each."""
    if not cut or plan.log is None:
        return plan
    column = plan.items.schema.get_field_index("presentSizeBytes")
    sizes = [cut[path].size_bytes if path in cut else None for path in plan.items["path"].to_pylist()]
    notes = [
        f"commit {item.file.path.version} is cut off: the table has {cut[item.path].size_bytes:,} of its "
        f"{item.file.size_bytes:,} bytes, {plan.log_sources[item.source].name} has all"
        for item in plan.log.items
        if item.path in cut
    ]
    return replace(
        plan,
        items=plan.items.set_column(column, "presentSizeBytes", pa.array(sizes, pa.int64())),
        notes=(*plan.notes, *notes),
        log_tags={path: tag for path in cut if (tag := tag_of(table.storage, path)) is not None},
    )


def _plan_files(
    table: TableHandle,
    request: UndeleteRequest,
    opened: Sequence[log_files.OpenedSource],
    table_id: str | None,
    plan: UndeletePlan,
) -> UndeletePlan:
    """Go on from the log to what the version needs, as far as the log can be read."""
    log = plan.log
    assert log is not None
    refusals = _overwritten_in(log, plan.overwritten)
    is_unproven = any(one.code == UNPROVEN for one in plan.refusals)
    if plan.is_log_first and not refusals and not is_unproven:
        notes = (*plan.notes, *_note_on_unread(log))
        return replace(plan, changed_times=_moved(table, plan), notes=notes)
    if log.missing:
        return replace(plan, newest_readable=_newest_of_log(table, log))
    plan = replace(plan, refusals=(*plan.refusals, *refusals))
    if refusals or is_unproven:
        return plan
    snapshot = read_snapshot(table.replace_storage(log.files), version=log.version)
    _require_one_table(table, opened, table_id, snapshot.metadata.id)
    if snapshot.protocol.is_catalog_managed:
        message = f"version {log.version} is managed by a catalog, which may have commits that the log lacks"
        return replace(plan, refusals=(*plan.refusals, errors.Refusal("catalog.managed", message)))
    if not has_in_commit_timestamps(snapshot.protocol, snapshot.metadata):
        plan = replace(plan, changed_times=_moved(table, plan))
    plan = _with_data(table, request, opened, snapshot, plan)
    if plan.missing.files and request.version is None and log.was_readable:
        return _held_back(plan)
    return _with_newest(table, request, plan)


def _note_on_unread(log: log_files.LogPlan) -> Iterator[str]:
    """Yield that commits come back unread after a version that can be read now."""
    newer = [item for item in log.items if item.kind is FileKind.COMMIT and item.file.path.version > log.version_before]
    if log.was_readable and newer:
        after = plural(len(newer), "deleted commit")
        yield f"version {log.version_before} can be read now; {after} after it can be read only when they are back"


def _require_one_table(
    table: TableHandle, opened: Sequence[log_files.OpenedSource], table_id: str | None, rebuilt: str | None
) -> None:
    """Raise Refused where the log as it would be is not that of the table, or of each source that has a log."""
    if None not in (table_id, rebuilt) and table_id != rebuilt:
        raise log_files.other_table("the log that would come back", rebuilt, table_id)
    for one in opened:
        if one.has_log and one.copy is not None:
            theirs = find_table_id(one.copy.files, table.engine)
            if None not in (theirs, rebuilt) and theirs != rebuilt:
                raise log_files.other_table(one.name, theirs, rebuilt)


def _held_back(plan: UndeletePlan) -> UndeletePlan:
    """Return a plan without commits above the newest readable version: no reader may see one without its files."""
    log = plan.log
    assert log is not None
    newest = max(log.version_before, -1 if plan.newest_readable is None else plan.newest_readable)
    kept = tuple(item for item in log.items if item.file.path.newest <= newest)
    gone = {item.path for item in log.items} - {item.path for item in kept}
    if not gone:
        return plan
    items = plan.items.filter(pc.invert(pc.is_in(combine_chunks(plan.items["path"]), value_set=_texts(sorted(gone)))))
    return replace(plan, log=replace(log, items=kept), items=items)


def _with_newest(table: TableHandle, request: UndeleteRequest, plan: UndeletePlan) -> UndeletePlan:
    """Add what is missing of the version that becomes the newest one, where that is not the one that was named."""
    log = plan.log
    assert log is not None
    newest = max((item.file.path.version for item in log.items if item.kind is FileKind.COMMIT), default=-1)
    if request.version is None or newest <= max(log.version, log.version_before):
        return plan
    snapshot = read_snapshot(table.replace_storage(log.files), version=newest)
    needed = read_live_files(snapshot, (table.storage.uri, *table.storage.aliases))
    needed, sizes = locate_files(table.storage, needed, table.engine, table.progress)
    is_other = pc.fill_null(pc.not_equal(sizes, combine_chunks(needed.files["sizeBytes"])), False)
    is_lost = pc.or_(pc.is_null(sizes), is_other)
    is_planned = pc.is_in(_as_text(needed.files["path"]), value_set=_as_text(plan.items["path"]))
    lost = needed.where(pc.and_(is_lost, pc.invert(is_planned))).files
    why = f"version {newest}, which becomes the newest, needs it"
    rows = [
        (path, kind, size, None, MISSING, Problem.MISSING.value, why, None)
        for path, kind, size in zip(
            _as_text(lost["path"]).to_pylist(), lost["kind"].to_pylist(), lost["sizeBytes"].to_pylist(), strict=True
        )
    ]
    return replace(plan, items=pa.concat_tables([_table(rows), plan.items]))


def _no_copies(opened: Sequence[log_files.OpenedSource], plan: UndeletePlan) -> Iterator[str]:
    """Yield which sources have nothing by which a copy of the table is known, while files are missing."""
    used = set(plan.items["source"].to_pylist()) if plan.missing.files else set()
    below = [source for source in plan.data.sources if isinstance(source, CopySource)] if plan.data else []
    for one in opened:
        if not plan.missing.files or one.copy is None or one.has_log or one.is_same or one.name in used:
            continue
        if all(source.files.uri == one.copy.files.uri for source in below if source.name == one.name):
            yield f"{one.name} has no _delta_log and none of the missing files: it may not be a copy of this table"


def _plan_log(
    table: TableHandle,
    present: Mapping[str, StoredFile],
    sources: Sequence[Source],
    offers: Sequence[Mapping[str, StoredFile]],
    version: int | None,
    overwritten: Sequence[Overwritten],
) -> tuple[log_files.LogPlan, Sequence[Source]]:
    """Plan the log with what can be read; with unread files where these have more of it and are of this table."""
    readable = [source for source in sources if source.is_readable]
    read = [offer for source, offer in zip(sources, offers, strict=True) if source.is_readable]
    log: log_files.LogPlan | None = None
    try:
        log = log_files.plan_log(table.storage, present, readable, read, table.engine, version)
    except (errors.NotATable, errors.VersionAbsent):
        if len(readable) == len(sources):
            raise
    if log is not None and len(readable) == len(sources):
        return log, readable
    try:
        whole_log = log_files.plan_log(table.storage, present, sources, offers, table.engine, version)
    except errors.NotATable:
        raise build_missing_log_error(table.storage) from None
    if log is None or log.missing:
        return whole_log, sources
    has_more = not whole_log.missing and len(whole_log.items) > len(log.items)
    return (whole_log, sources) if has_more and not _overwritten_in(whole_log, overwritten) else (log, readable)


def _begin(
    table: TableHandle,
    request: UndeleteRequest,
    log: log_files.LogPlan,
    sources: Sequence[Source],
    overwritten: tuple[Overwritten, ...],
    present: Mapping[str, StoredFile] | None,
    looked_at: float,
) -> UndeletePlan:
    """Return the plan for the log alone."""
    newest = log.version_before
    past = identify_commit(versioned((present or {}).values()), newest)
    barred = {one.path for one in overwritten}
    rows = [_log_row(item, sources) for item in log.items]
    rows += [_lost_row(name, log.unsound, log_location(name) in barred) for name in log.missing]
    names = [*(present or {}), *(item.file.name for item in log.items)]
    sizes = [*((present or {}).values()), *(item.file for item in log.items)]
    return UndeletePlan(
        table=table.uri,
        base_version=BaseVersion(table, newest, table.clock(), past, listed_at=looked_at),
        request=request,
        version=log.version,
        version_before=newest if newest >= 0 else None,
        had_log=present is not None,
        needed=FileTotals(len(names) + len(log.missing), sum(file.size_bytes for file in sizes)),
        items=_table(rows),
        log=log,
        log_sources=sources,
        is_log_first=any(not sources[item.source].is_readable for item in log.items),
        data=None,
        overwritten=overwritten,
    )


_FIELDS = ("path", "kind", "sizeBytes", "source", "state", "problem", "reason", "presentSizeBytes")
_Row = tuple[str, str, int | None, str | None, str, str | None, str | None, int | None]


def _log_row(item: log_files.LogItem, sources: Sequence[Source]) -> _Row:
    name = sources[item.source].name
    return item.path, item.kind.value, item.file.size_bytes, name, PLANNED, Problem.MISSING.value, None, None


def _lost_row(name: str, unsound: Mapping[str, str], is_overwritten: bool) -> _Row:
    problem = OVERWRITTEN if is_overwritten else Problem.MISSING.value
    return log_location(name), FileKind.COMMIT.value, None, None, MISSING, problem, unsound.get(name), None


def _table(rows: Iterable[_Row]) -> ArrowTable:
    kinds = (pa.string(), pa.string(), pa.int64(), *[pa.string()] * 4, pa.int64())
    columns = list(zip(*rows, strict=True)) or [()] * len(_FIELDS)
    return pa.table({name: pa.array(one, kind) for name, one, kind in zip(_FIELDS, columns, kinds, strict=True)})


def _newest_of_log(table: TableHandle, log: log_files.LogPlan) -> int | None:
    """Return the newest version that can be read without the commits that are gone."""
    readable = [version for version in log.listing.reconstructable if version < log.version]
    for version in reversed(readable[-20:]):
        try:
            read_snapshot(table.replace_storage(log.every), version=version)
        except errors.Unreadable:
            continue
        return version
    return None


def _overwritten_in(log: log_files.LogPlan, overwritten: Sequence[Overwritten]) -> tuple[errors.Refusal, ...]:
    """Return a refusal for each commit of which the store has several contents, if the version is rebuilt from it, or
    the log would get files: they could be those of another history.
    """
    if log.missing and not log.items:
        return ()
    replayed = {log_location(file.name) for file in choose_segment(log.listing, log.version).commits}
    return tuple(
        errors.Refusal(OVERWRITTEN, f"{one.path} was overwritten: the store has {len(one.versions)} contents of it")
        for one in overwritten
        if log.items or one.path in replayed
    )


def _moved(table: TableHandle, plan: UndeletePlan) -> tuple[int, ...]:
    """Return the versions whose commit files get another time."""
    assert plan.log is not None
    commits = (item for item in plan.log.items if item.kind is FileKind.COMMIT)
    return tuple(
        sorted(
            item.file.path.version
            for item in commits
            if not plan.log_sources[item.source].keeps_time(item.path, table.storage)
        )
    )


def _with_data(
    table: TableHandle,
    request: UndeleteRequest,
    opened: Sequence[log_files.OpenedSource],
    snapshot: Snapshot,
    plan: UndeletePlan,
) -> UndeletePlan:
    needed = read_live_files(snapshot, (table.storage.uri, *table.storage.aliases))
    if request.prefix is not None:
        is_below = pc.starts_with(
            combine_chunks(needed.files["path"]), f"{request.prefix}/".encode("utf-8", "surrogateescape")
        )
        if not pc.any(is_below).as_py():
            note = f"version {plan.version} needs no data file below {request.prefix}/"
            plan = replace(plan, notes=(*plan.notes, note))
        needed = needed.where(pc.or_(is_below, pc.equal(combine_chunks(needed.files["kind"]), FileKind.VECTOR.value)))
    needed, sizes = locate_files(table.storage, needed, table.engine, table.progress)
    expected = combine_chunks(needed.files["sizeBytes"])
    is_damaged = pc.fill_null(pc.not_equal(sizes, expected), False)
    if plan.is_of_the_past:
        # what the newest version needs may be in the place of a file of an older one
        is_damaged = pc.and_(is_damaged, pc.invert(is_damaged))
    is_lost = pc.or_(pc.is_null(sizes), is_damaged)
    lost, damaged = needed.where(is_lost), pc.filter(is_damaged, is_lost)
    sources = log_files.data_sources(table, opened, lost, snapshot.metadata.id) if lost.files.num_rows else []
    found = find_in(sources, lost, table.engine, table.progress)
    tags = tags_of(table.storage, pc.filter(combine_chunks(lost.files["path"]), damaged), table.engine)
    of_version = _notes_on_version(table, plan, snapshot, needed, found)
    plan = replace(plan, notes=(*plan.notes, *found.notes, *of_version))
    data = DataPlan(found, damaged, tags, sources)
    plan = replace(
        plan,
        needed=FileTotals(plan.needed.files + needed.files.num_rows, plan.needed.size_bytes + needed.size_bytes),
        items=pa.concat_tables([_data_rows(data, pc.filter(sizes, is_lost)), plan.items]),
        data=data,
        outside=needed.outside,
    )
    plan = _add_owners(table, snapshot, plan)
    if not plan.missing.files:
        return plan
    return replace(plan, newest_readable=log_files.newest_complete(table, snapshot, found))


def _add_owners(table: TableHandle, snapshot: Snapshot, plan: UndeletePlan) -> UndeletePlan:
    """Return a plan that notes the table in those whose files its log names, and says which cannot be noted.

    The log may be that of a shallow clone, and come back in another place than the clone.
    """
    assert plan.log is not None
    if not plan.log.items and not plan.outside:
        return plan
    directories = find_external_directories_of_version(snapshot, table.storage)
    if not directories:
        return plan
    owners = find_file_owners(table, directories, resolve_note_uri(table.storage))
    notes = list(owners.warnings)
    if plan.log.items:
        notes += [f"{uri} gets a note of this table, so that its vacuum keeps the files" for uri in owners.uris]
    return replace(plan, owners=owners, table_id=snapshot.metadata.id or "", notes=(*plan.notes, *notes))


def _notes_on_version(
    table: TableHandle, plan: UndeletePlan, snapshot: Snapshot, needed: NeededFiles, found: FoundFiles
) -> Iterator[str]:
    """Yield what follows from the version: an older one does not keep its files, a log from elsewhere may be old."""
    if plan.is_of_the_past and pc.any(found.is_found).as_py():
        yield (
            f"version {plan.version} is not the newest: a vacuum deletes these files again, unless the version is "
            "restored"
        )
    if not plan.had_log and not plan.is_new and plan.version == snapshot.version:
        yield from log_files.notes_on_later_files(table, snapshot, needed)


def _data_rows(data: DataPlan, present: ArrowArray) -> ArrowTable:
    """Return the items of data files and vectors; `present` has the bytes of those that are damaged."""
    found, text = data.found, pa.string()
    files = found.needed.files
    names = pa.array([source.name for source in data.sources] or [""], text)
    states = pc.if_else(found.is_found, pa.scalar(PLANNED), pa.scalar(MISSING))
    gone = pc.if_else(data.damaged, pa.scalar(Problem.SIZE.value), pa.scalar(Problem.MISSING.value))
    return pa.table(
        {
            "path": _as_text(files["path"]),
            "kind": pc.cast(combine_chunks(files["kind"]), text),
            "sizeBytes": pc.coalesce(combine_chunks(files["sizeBytes"]), found.sizes),
            "source": pc.take(names, found.sources) if len(found.sources) else pa.array([], text),
            "state": pc.cast(states, text),
            "problem": pc.cast(pc.if_else(found.is_found, gone, found.problems), text),
            "reason": pc.cast(found.reasons, text),
            "presentSizeBytes": pc.cast(present, pa.int64()),
        }
    )


def _texts(values: Sequence[str]) -> ArrowArray:
    return pa.array(values, pa.string())


def _as_text(paths: ArrowArray) -> ArrowArray:
    """Return paths as text; of names that are no UTF-8 the other bytes are replaced."""
    try:
        return pc.cast(combine_chunks(paths), pa.string())
    except pa.ArrowInvalid:
        return pa.array([path.decode("utf-8", "replace") for path in paths.to_pylist()], pa.string())


# -- executing an undelete ---------------------------------------------------------------------------------------------

_NAMED = 5


@short_repr(
    "version=plan.version",
    "needed=plan.needed.files",
    "found=plan.found.files",
    "missing=plan.missing.files",
    "restored=restored.files",
    "refusals=plan.refusals",
)
class UndeleteResult(NamedTuple):
    """A plan, and what of it was put in place; None where it was not executed."""

    plan: UndeletePlan
    restored: Journal | None

    def describe_progress(self) -> str:
        return f"{plural(0 if self.restored is None else self.restored.files, 'file')} put back"

    def build_incomplete_error(self) -> errors.PartlyDone | None:
        """Return which files nobody agreed to put back, or which that the version needs are in no source."""
        plan = self.plan
        if plan.unconfirmed:
            return errors.PartlyDone(
                f"the log is back; {plural(plan.unconfirmed, 'file')} that it names were not put back: not confirmed",
                code="consent.denied",
                facts={"so far": self.describe_progress()},
                hint=errors.command("undelete", version=plan.request.version, sources=list(plan.request.sources)),
            )
        missing, newest = plan.missing, plan.newest_readable
        if not missing.files:
            return None
        names = [str(one["path"]) for one in plan.still_missing()]
        more = f", and {missing.files - _NAMED:,} more" if missing.files > _NAMED else ""
        return errors.PartlyDone(
            f"{plural(missing.files, 'file')} of version {plan.version} {'is' if missing.files == 1 else 'are'} in no "
            "source",
            code=STILL_MISSING,
            facts={
                "missing": f"{', '.join(names[:_NAMED])}{more}",
                f"newest version {'before it ' if plan.is_of_the_past else ''}that can be read": "none"
                if newest is None
                else str(newest),
            },
            hint=None if newest is None else errors.command("restore", version=newest, dry_run=True),
        )


@dataclass(frozen=True)
class Undelete:
    """Bringing back what a version and its log need and that is gone."""

    kind: ClassVar[ChangeKind] = ChangeKind.RECOVER_FILES

    request: UndeleteRequest

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> UndeletePlan:  # noqa: ARG002  (needs no version)
        if (managed := managed_store(table.storage)) is not None:
            managed.refuse("undelete")
        return plan_undelete(table, self.request)

    def outcome(self, plan: UndeletePlan) -> UndeleteResult:
        return UndeleteResult(plan, Journal())

    def execute(self, execution: ChangeExecution[UndeletePlan, UndeleteResult]) -> None:
        """Put the found files in their places; planning and running it again continues. Raises what `bring_back` does.

        Somebody has to agree to the data files of a log that could be read only once it was back.
        """
        plan, journal = execution.outcome
        assert journal is not None  # it begins with an empty one
        execution.has_begun = True  # nobody knows it of an interruption
        try:
            done = bring_back(execution, plan, journal, execution.ask_to_continue)
        except errors.DeltacliError:
            execution.has_begun = journal.files > 0
            raise
        execution.outcome = UndeleteResult(done, journal)


def bring_back(
    execution: ChangeExecution[Any, Any],  # Any: also of a repair
    plan: UndeletePlan,
    told: Journal,
    agreed: Callable[[UndeletePlan], bool] = lambda _: True,
) -> UndeletePlan:
    """Put the found files of a plan in their places, and return the plan as it turned out. `agreed` is asked about a
    plan that follows; without it the log alone is put back.

    Raises Refused for a plan that is refused, of another past, or whose proofs do not hold any more; ConflictLost where
    another writer created a commit that is to come back; StorageFailed where a file cannot be put in its place or is
    not what it was.
    """
    if (refusal := plan.build_refusal()) is not None:
        raise refusal
    table = execution.table
    _require_proofs(table, plan)
    recheck_base_commit(plan.base_version)
    if plan.data is not None:
        found, data = plan.data.found, plan.data
        put_found(
            found, data.sources, table.writable(), table.engine,
            progress=table.progress, journal=told, damaged=data.tags,
        )  # fmt: skip
    if plan.owners.stores:
        # Before the log: from then on the files are live in this table, and only the note tells their owners.
        note = CloneNote(plan.table_id, resolve_note_uri(table.storage), plan.version or 0, table.clock())
        plan = replace(plan, notes=(*plan.notes, *write_clone_notes(plan.owners.stores, note).warnings))
    _put_log(table, plan, told)
    if not plan.is_log_first:
        _require_there(table, plan)
        return plan
    rest = plan_undelete(table, plan.request)
    if rest.is_log_first:
        raise errors.StorageFailed("the log cannot be read although its files were put in their places")
    if rest.found.files and not rest.refusals and not agreed(rest):
        return replace(plan, unconfirmed=rest.found.files)
    rest = bring_back(execution, rest, told)
    snapshot = read_snapshot(table, version=rest.version)
    keeps_times = has_in_commit_timestamps(snapshot.protocol, snapshot.metadata)
    return replace(
        rest,
        version_before=plan.version_before,
        had_log=plan.had_log,
        is_new=plan.is_new,
        notes=tuple(dict.fromkeys((*plan.notes, *rest.notes))),
        items=pa.concat_tables([plan.items_as(RESTORED), rest.items]),
        changed_times=() if keeps_times else plan.changed_times,
    )


def _require_proofs(table: TableHandle, plan: UndeletePlan) -> None:
    """Raise Refused where what the plan compared is not there any more."""
    if plan.log is None or not plan.log.items:
        return
    from deltacli.changing.proofs import CommonDataFile, CommonLaterCommit
    from deltacli.operations.recover.proving import still_holds

    seen: set[tuple[int, Proof]] = set()
    for item in plan.log.items:
        proof, source = plan.proofs[item.path], plan.log_sources[item.source]
        of_source = (
            item.source,
            proof._replace(version=0) if isinstance(proof, CommonLaterCommit | CommonDataFile) else proof,
        )
        if of_source in seen:
            continue
        seen.add(of_source)
        if not still_holds(table, source, proof, plan.log_tags):
            raise errors.Refused(
                f"the table or {source.name} has changed since the plan was made, and "
                f"{item.path} is no longer proven to be of this table",
                preamble=errors.NOTHING_CHANGED,
                code=UNPROVEN,
                hint=errors.command("undelete", sources=list(plan.request.sources), dry_run=True),
            )


def _put_log(table: TableHandle, plan: UndeletePlan, journal: Journal) -> None:
    log = plan.log
    if log is None or not log.items:
        return
    require_real_directories(table.storage, [item.file.name for item in log.items])
    total = sum(item.file.size_bytes for item in log.items)
    with start_weighed_step(
        table.progress, "putting the log in place", unit="files", total=len(log.items), weight=total
    ) as step:
        for item in log.items:
            with annotate_interruption(item.path):
                _put_log_file(table, plan, item)
            journal.note(item.path, item.file.size_bytes)
            step.advance(weight=item.file.size_bytes)


def _put_log_file(table: TableHandle, plan: UndeletePlan, item: log_files.LogItem) -> None:
    """Put one file of the log in its place. A checkpoint, a checksum and the hint of another writer stay."""
    from deltacli.changing.proofs import ProvenFile

    assert plan.log is not None
    source, digest = plan.log_sources[item.source], plan.log.digests.get(item.file.name)
    file = ProvenFile(item.path, item.file.size_bytes, plan.proofs[item.path], digest)
    tag = plan.log_tags.get(item.path)
    is_replaced = tag is not None and tag_of(table.storage, item.path) == tag
    outcome = _bring(source, file, item.file.modified_ms, table.writable(), replace=is_replaced)
    if isinstance(outcome, Created) or not source.is_readable:
        _require_sound(table, plan, item, outcome)
        return
    stat_created(table.storage, item.path, outcome)
    try:
        is_same = table.storage.read(item.path) == source.files.read(item.path)
    except errors.FileMissing as fault:
        raise errors.StorageFailed(f"{item.path} could not be put in its place") from fault
    if not is_same and item.kind is FileKind.COMMIT:
        raise errors.ConflictLost(
            f"another writer created commit {item.file.path.version} in the meantime; the commits after it were not "
            "restored",
            code="undelete.conflict",
            facts={"commit": item.path},
            hint=errors.command("history"),
        )


def _bring(source: Source, file: ProvenFile, modified_ms: int, to: Storage, *, replace: bool) -> Creation:
    """Put a file of the log in its place; a commit only with the bytes that the plan judged. Raises StorageFailed."""
    if file.sha256 is None or not isinstance(source, CopySource):
        return source.bring(file.path, file.size_bytes, to, replace=replace)
    data = source.files.read(file.path)
    if digest(data) != file.sha256:
        raise errors.StorageFailed(
            f"{file.path} of {source.name} was changed since it was planned", code="undelete.source-changed"
        )
    if not replace:
        return to.put_if_absent(file.path, data, modified_ms=modified_ms)
    to.put(file.path, data, modified_ms=modified_ms)
    return Created()


def _require_sound(table: TableHandle, plan: UndeletePlan, item: log_files.LogItem, outcome: Creation) -> None:
    """Take a commit away again that could not be read before, and cannot be read now, where it is newer than a version
    that can be. Raises StorageFailed then, so that those after it stay away.
    """
    log, version = plan.log, item.file.path.version
    assert log is not None
    is_unread = isinstance(outcome, Created) and not plan.log_sources[item.source].is_readable
    if not is_unread or item.kind is not FileKind.COMMIT or not log.was_readable or version <= log.version_before:
        return
    if (why := log_files.fault_of_log_file(table.storage, item.file)) is not None:
        is_gone = all(isinstance(done, Deleted) for _, done in table.writable().delete_many([item.path]))
        became = "was taken away again" if is_gone else "could not be taken away again: delete it"
        raise errors.StorageFailed(
            f"the deleted commit {version} cannot be read, and {became}: {why}",
            code="undelete.not-there",
            facts={"file": item.path, "newest version that can be read": str(version - 1)},
            hint=errors.command("snapshot", version=version - 1),
        )


def _require_there(table: TableHandle, plan: UndeletePlan) -> None:
    """Raise StorageFailed where a file that was put in its place is not there as it should be."""
    if plan.data is not None and plan.data.found.needed.files.num_rows:
        found, data = plan.data.found, plan.data
        needed = found.needed.where(found.is_found)
        unread = any(not source.is_readable for source in data.sources)
        needed, sizes = locate_files(table.storage, needed, table.engine, table.progress)
        verified = verify(needed, sizes, table.stores, table.engine, table.progress, contents=unread)
        _require_none(
            [
                f"{path.decode('utf-8', 'replace')}: {problem}"
                for path, problem in zip(needed.files["path"].to_pylist(), verified.problems.to_pylist(), strict=True)
                if problem is not None
            ]
        )
    if plan.log is not None and plan.log.items:
        present = list_whole_log(table.storage) or {}
        _require_none([f"{item.path}: missing" for item in plan.log.items if item.file.name not in present])


def _require_none(wrong: list[str]) -> None:
    if wrong:
        raise errors.StorageFailed(
            f"{plural(len(wrong), 'file')} put in place cannot be used",
            code="undelete.not-there",
            facts={"files": ", ".join(wrong[:_NAMED])},
            hint=errors.command("validate", level="footers"),
        )
