"""A shallow clone: a new table of one commit, whose files are those of another table, by their absolute paths.

The source gets a note first, which keeps its vacuum from deleting the files; see `changing/clone_notes.py`. So does
each table that owns files which the source itself has by absolute paths. Behind the note the files are looked at again:
a vacuum may have deleted some since the plan. Behind the commit they are looked at once more where the source has
changed, because a vacuum that began before the note does not know of it.

Spec: Add File and Remove File; Deletion Vectors; Row Tracking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.changing.base_version import MAX_FILE_CHECK_AGE_SECONDS, BaseVersion, build_base_version
from deltacli.changing.change_kind import ChangeKind
from deltacli.changing.clone_notes import NOTES_DIRECTORY, CloneNote, resolve_note_uri
from deltacli.changing.commit import Committed
from deltacli.changing.file_owners import (
    FileOwners,
    WrittenNotes,
    find_external_directories,
    find_file_owners,
    write_clone_notes,
)
from deltacli.changing.file_totals import FileTotals
from deltacli.changing.lost_versions import describe_lost_versions
from deltacli.core import errors
from deltacli.core.short_repr import short_repr
from deltacli.core.typing import ArrowArray, Json, RecordBatch
from deltacli.core.units import plural
from deltacli.delta.data_files import unique_id_column, vector_file
from deltacli.delta.log.actions import Action
from deltacli.delta.log.commit_content import CommitRequest, EveryFile, NextVersion, encoded_files
from deltacli.delta.log.file_actions import extract_num_records_column
from deltacli.delta.log.row_ids import MATERIALIZED_NAMES, assigns_row_ids
from deltacli.delta.log.segment import LOG_DIRECTORY, commit_name
from deltacli.delta.log.state import (
    CHECKPOINT_PROTECTION,
    IN_COMMIT_KEYS,
    drop_null_fields,
    plain_metadata,
    read_metadata,
)
from deltacli.delta.paths.hadoop import make_absolute, spell_as_hadoop, spell_root_as_hadoop
from deltacli.delta.paths.spelling import encode
from deltacli.delta.paths.spelling_columns import are_absolute
from deltacli.delta.protocol.clients import ABSOLUTE_PATHS, ClientAccess
from deltacli.delta.protocol.feature_use import upgraded
from deltacli.delta.protocol.features import WRITER_FEATURES_VERSION, require_commits_supported
from deltacli.delta.schema.types import MAX_COLUMN_ID, MODE
from deltacli.operations.restore.difference import (
    VERIFIED,
    WAIT_FOR_VACUUM,
    ProblemFile,
    check_sizes,
    vacuum_is_running,
)
from deltacli.rules.framework.repairs import undelete_command
from deltacli.storage import LocalStorage, PathKind, ReadStorage, Storage, is_inside
from deltacli.storage.optional_interfaces import require_writable
from deltacli.table.ambiguous_files import find_disagreement_refusal
from deltacli.table.find_log import list_log
from deltacli.table.handle import TableHandle, managed_store
from deltacli.table.known_clients import find_affected_clients
from deltacli.table.missing_files import encode_unencoded_paths, find_unencoded_paths
from deltacli.table.rebuild import read_snapshot
from deltacli.table.table_directories import is_empty_directory
from deltacli.table.version import Snapshot

if TYPE_CHECKING:
    from deltacli.changing.execution import ChangeExecution

_CLUSTERING = "delta.clustering"
_NEW_NAMES = ("_row-id-col-{}", "_row-commit-version-col-{}")
_OF_TARGET = ("id", "name", "description", "createdTime")
_NOT_TAKEN = ("delta.coordinatedCommits.", "io.unitycatalog.tableId", "ucTableId")


@short_repr("target", "version", "files", "committed_version", "dry_run")
@dataclass(frozen=True, slots=True, repr=False)
class ClonePlan:
    """A clone, planned or made, of a version of the `source`. `note` is what the source says of it; None: it says
    nothing. `refusals` are reasons against it.
    """

    base_version: BaseVersion = field(repr=False)
    source: Snapshot = field(repr=False)
    metadata: Action = field(repr=False)
    files: FileTotals
    absolute: int
    """The number of files that the source itself has by absolute paths."""
    note: CloneNote | None
    owners: FileOwners = field(default=FileOwners(), repr=False)
    """The tables that own the absolute paths of the source and get the note, too, and those that cannot."""
    refusals: tuple[errors.Refusal, ...] = ()
    committed_version: int | None = None
    dry_run: bool = True
    lost: tuple[ProblemFile, ...] = ()
    """Files that were deleted from the source while the clone was made."""

    is_noop: ClassVar[bool] = False

    @property
    def change(self) -> Clone:
        return Clone(self.source, protects=self.note is not None)

    @property
    def target(self) -> str:
        return self.base_version.table.uri

    @property
    def version(self) -> int:
        return self.source.version

    @property
    def clients(self) -> tuple[ClientAccess, ...]:
        return find_affected_clients([ABSOLUTE_PATHS])

    def build_refusal(self) -> errors.Refused | None:
        return errors.Refused.from_refusals(self.refusals) if self.refusals else None

    def effects(self) -> Iterator[str]:
        yield f"{plural(self.files.files, 'file')} of {self.source.table.uri}"
        if self.note is not None:
            yield from (f"a note in {NOTES_DIRECTORY} of {place}" for place in ("the source", *self.owners.uris))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return which vacuums need `--protect-from`, and what of the addresses of files engines may not read."""
        return (*self.owners.warnings, *_warnings_on_scheme(self.source))

    def describe_progress(self) -> str:
        return "the clone was created"

    def build_incomplete_error(self) -> errors.PartlyDone | None:
        """Return which files were deleted from the source meanwhile."""
        if not self.lost:
            return None
        return errors.PartlyDone(
            f"{plural(len(self.lost), 'file')} of the clone were deleted from the source while it was made",
            code="clone.files-lost",
            facts={
                "first": self.lost[0].path,
                "clone": self.target,
                "next": "delete the clone, and make another one",
                "so far": self.describe_progress(),
            },
        )

    def as_json(self) -> dict[str, Json]:
        """Return the fields of the document `deltacli.clone`."""
        return {
            "source": self.source.table.uri,
            "target": self.target,
            "version": self.version,
            "tableId": self.metadata["id"],
            "files": self.files.as_json(),
            "rows": self.files.rows,
            "note": None if self.note is None else self.note.path,
            "noteAlsoIn": self.owners.uris,
            "notes": list(self.warnings),
            "clients": [one.as_json() for one in self.clients],
            "refusals": [one.as_json("override", "wayOut") for one in self.refusals],
            "committedVersion": self.committed_version,
            **self.base_version.warnings_json,
            "dryRun": self.dry_run,
        }


class _Files(NamedTuple):
    """The live files of a version, how many have absolute paths, and the directories outside of the table with some."""

    amount: FileTotals
    absolute: int
    directories: set[str]


@dataclass(frozen=True)
class Clone:
    """A clone of a version of another table. `protects`: the source gets a note of it."""

    kind: ClassVar[ChangeKind] = ChangeKind.REUSE_FILES

    source: Snapshot
    protects: bool = True

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> ClonePlan:
        """Plan it. What forbids it is part of the plan. `now` is the newest version of a table that is there, which has
        to be without live files. Raises Refused where the protocol of the source cannot be written, and what reading
        its files raises.
        """
        source, now = self.source, now or _table_at(table)
        metadata = _metadata(source, table, now)
        if managed_store(source.table.storage) is not None:
            raise _is_managed(source)
        require_commits_supported(source.protocol, metadata["configuration"], 0)
        files = _count(source)
        refusals = [*_refusals_of_target(table.storage, source, now)]
        if self.protects:
            refusals += _refusals_of_note(source.table)
        if files.amount.rows is None and _gives_ids(source, now, metadata):
            refusals.append(_rows_are_unknown())
        if lost := _lost(source, files.amount.files):
            refusals.append(_is_incomplete(source, lost))
        if vacuum_is_running(source.table):
            refusals.append(_vacuum_is_running())
        if (refusal := find_disagreement_refusal(source, "a clone")) is not None:
            refusals.append(refusal)
        now_ms = source.table.clock()
        note = (
            CloneNote(metadata["id"], resolve_note_uri(table.storage), source.version, now_ms)
            if self.protects
            else None
        )
        owners = FileOwners()
        if files.directories:
            owners = find_file_owners(source.table, files.directories, resolve_note_uri(table.storage))
        if not self.protects:
            owners = _without_notes(owners, resolve_note_uri(table.storage))
        base_version = BaseVersion(table, -1, now_ms) if now is None else build_base_version(now)
        if source.version == source.listing.newest_version:
            base_version.warnings.extend(
                describe_lost_versions(source.table.storage, source.listing, source.log.hint_version)
            )
        base_version.warnings.extend(source.decisions)
        return ClonePlan(base_version, source, metadata, files.amount, files.absolute, note, owners, tuple(refusals))

    def outcome(self, plan: ClonePlan) -> ClonePlan:
        return replace(plan, dry_run=False)

    def execute(self, execution: ChangeExecution[ClonePlan, ClonePlan]) -> None:
        """Look at the source again, write the note and the commit, and look at the files.

        Raises Refused where the source is another one by now (`plan.*`), is vacuumed, or does not take the note, and
        what `ChangeExecution.commit_plan` raises. Files that were deleted meanwhile are in the outcome.
        """
        plan = execution.plan
        source = self.source.table.writable()
        execution.recheck_source(build_base_version(self.source))
        if self.source.table.clock() - plan.base_version.now_ms > MAX_FILE_CHECK_AGE_SECONDS * 1000:
            # A question was open. Without the files not even a note is written.
            self._require_files(plan)
        notes = WrittenNotes()
        try:
            if plan.note is not None:
                notes = _put_notes(plan.note, source, plan.owners)
                warnings = (*plan.owners.warnings, *notes.warnings)
                execution.outcome = replace(execution.outcome, owners=FileOwners(notes.stores, warnings))
            if vacuum_is_running(self.source.table):
                raise errors.Refused.from_refusals([_vacuum_is_running()])

            # From the note on no new vacuum deletes the files. One that began before may have.
            self._require_files(plan)
            done = execution.commit_plan(_request)
        except errors.DeltacliError as fault:
            if _is_without_commit(fault, execution.store, plan.base_version.version + 1):
                notes.undo()
            raise
        except BaseException as stop:
            if plan.note is not None:
                stop.add_note(f"{plan.note.path} may be in the source")
            raise
        version = done.version if isinstance(done, Committed) else None
        execution.outcome = replace(execution.outcome, committed_version=version)
        newest = list_log(self.source.table.storage, start_version=plan.version).newest_version
        may_be_vacuumed = (
            newest > plan.version or plan.base_version.version >= 0
        )  # which a vacuum sees without the files
        if may_be_vacuumed:
            execution.outcome = replace(execution.outcome, lost=_lost(self.source, plan.files.files))

    def _require_files(self, plan: ClonePlan) -> None:
        """Raise Refused (`clone.source-incomplete`) if files of the version were deleted or changed since the plan."""
        lost = _lost(self.source, plan.files.files)
        if lost:
            raise errors.Refused.from_refusals([_is_incomplete(self.source, lost)])


def _metadata(source: Snapshot, table: TableHandle, now: Snapshot | None) -> Action:
    """Return the metaData of the clone: that of the source with another id, without what belongs to the source alone.
    Rows get new ids, so the columns of those that files store get new names. A table that is there keeps its id, its
    name and what its past needs.
    """
    plain = plain_metadata(source.raw_metadata)
    properties = dict(plain.get("configuration") or {})
    of_source = {CHECKPOINT_PROTECTION, *(key for keys in IN_COMMIT_KEYS.values() for key in keys[1:])}
    kept = {key: value for key, value in properties.items() if key not in of_source and not key.startswith(_NOT_TAKEN)}
    for key, name in zip(MATERIALIZED_NAMES, _NEW_NAMES, strict=True):
        if key in kept:
            kept[key] = name.format(table.machine.new_uuid())
    other = {key: value for key, value in plain.items() if key not in ("name", "description")}
    if now is None:
        return other | {"id": table.machine.new_uuid(), "configuration": kept, "createdTime": table.clock()}
    mine, had = plain_metadata(now.raw_metadata), now.properties
    if CHECKPOINT_PROTECTION in had:
        kept[CHECKPOINT_PROTECTION] = had[CHECKPOINT_PROTECTION]
    if MAX_COLUMN_ID in kept and MAX_COLUMN_ID in had:
        kept[MAX_COLUMN_ID] = max(kept[MAX_COLUMN_ID], had[MAX_COLUMN_ID], key=int)
    return {**other, **{key: mine[key] for key in _OF_TARGET if key in mine}, "configuration": kept}


def _is_without_commit(fault: errors.DeltacliError, target: ReadStorage, version: int) -> bool:
    """Return whether an error left no commit behind: after many errors of a store it may be there, or come yet."""
    if isinstance(fault, errors.ConflictLost | errors.Refused | errors.Unreadable):
        return True
    path = f"{LOG_DIRECTORY}/{commit_name(version)}"
    return isinstance(target, LocalStorage) and target.kind_of(path) is PathKind.MISSING


def _table_at(place: TableHandle) -> Snapshot | None:
    """Return the newest version of a table; None where there is none that can be read."""
    try:
        return read_snapshot(place)
    except (errors.Unreadable, errors.PaimonTable):
        return None


def _count(source: Snapshot) -> _Files:
    """Return how many live files there are, with their bytes and rows, and what of them is outside of the table."""

    def read(adds: RecordBatch) -> _Files:
        records = extract_num_records_column(adds.column("stats"))
        rows = None if records.null_count else pc.sum(records).as_py()
        size_bytes = pc.sum(adds.column("size")).as_py() or 0
        absolute = pc.sum(are_absolute(adds.column("path"))).as_py() or 0
        vector_ids = unique_id_column(adds.column("deletionVector"))
        directories = find_external_directories(source.table.storage, adds.column("path"), vector_ids)
        return _Files(FileTotals(adds.num_rows, size_bytes, rows), absolute, directories)

    total = FileTotals(rows=0)
    absolute = 0
    directories = set[str]()
    fields = ["path", "size", "stats", "deletionVector"]
    for batch in source.file_actions.map_actions("add", read, fields=fields):
        total += batch.amount
        absolute += batch.absolute
        directories |= batch.directories
    return _Files(total, absolute, directories)


def _lost(source: Snapshot, total: int) -> tuple[ProblemFile, ...]:
    """Return the files of the version that are not as the log says."""
    adds = source.file_actions.map_actions("add", lambda batch: batch, fields=VERIFIED)
    return check_sizes(source.table, adds, total)


# -- the notes of a clone ----------------------------------------------------------------------------------------------


def _put_notes(note: CloneNote, source: Storage, owners: FileOwners) -> WrittenNotes:
    """Write the note into the source, which has to take it, and into the owners of its absolute paths.

    Raises Refused (`clone.source-not-writable`) where the source may not be written, and what its storage raises.
    """
    try:
        of_source = note.write(source)
    except errors.PermissionRefused as denied:
        raise errors.Refused.from_refusals([_not_writable(denied.message)]) from denied
    of_owners = write_clone_notes(owners.stores, note)
    written = of_owners.notes if of_source is None else (of_source, *of_owners.notes)
    return of_owners._replace(notes=written)


def _without_notes(owners: FileOwners, address: str) -> FileOwners:
    """Return owners that get no note, because `--unprotected` asks for none, with a warning for each."""
    option = errors.parameter("vacuum.protect_from", [address])
    warnings = (f"a vacuum of {uri} keeps the files of the clone only with {option}" for uri in owners.uris)
    return FileOwners((), (*warnings, *owners.warnings))


def _warnings_on_scheme(source: Snapshot) -> Iterator[str]:
    """Yield a warning on `s3://` paths: Hadoop has a file system for `s3a://` only, unless it is configured."""
    if source.table.uri.startswith("s3://"):
        yield (
            "the clone names its files by s3:// paths, which Spark reads only if fs.s3.impl is set "
            "(org.apache.hadoop.fs.s3a.S3AFileSystem); name the source by its s3a:// address to get s3a:// paths"
        )


# -- what forbids a clone ----------------------------------------------------------------------------------------------


def _not_writable(why: str) -> errors.Refusal:
    return errors.Refusal(
        "clone.source-not-writable",
        f"the source cannot be told of the clone: {why}; its vacuum may delete files that the clone needs, unless it "
        f"is run with {errors.parameter('vacuum.protect_from')} and the URI of the clone",
        override=errors.parameter("clone.unprotected", True),
    )


def _refusals_of_note(source: TableHandle) -> Iterator[errors.Refusal]:
    try:
        require_writable(source.storage)
    except errors.NoAtomicCreate as refused:
        yield _not_writable(refused.message)


def _refusals_of_target(target: ReadStorage, table: Snapshot, now: Snapshot | None) -> Iterator[errors.Refusal]:
    source = table.table.storage
    inner, outer = is_inside(target, source), is_inside(source, target)
    if inner or outer:
        of_one = "one of the two directories is inside the other: a vacuum of the outer would delete files of the inner"
        yield errors.Refusal(
            "clone.inside",
            "source and target are the same directory" if inner and outer else of_one,
            facts={"source": source.uri, "target": target.uri},
        )
    elif now is not None:
        if managed_store(target) is not None:
            yield errors.Refusal("clone.target-exists", f"there is a table of a catalog at {target.uri}")
        elif rows := now.counts()[0].count:
            yield errors.Refusal(
                "clone.target-exists", f"there is a table at {target.uri} with {plural(rows, 'live file')}"
            )
        elif (modes := [one.properties.get(MODE, "none").lower() for one in (table, now)])[0] != modes[1]:
            said = f"there is a table at {target.uri} whose column mapping is {modes[1]}, not {modes[0]}"
            yield errors.Refusal("clone.target-exists", said)
    elif target.kind_of("") is PathKind.FILE or not is_empty_directory(
        target
    ):  # an interrupted run may leave an empty log
        if target.kind_of(LOG_DIRECTORY) is PathKind.MISSING:
            yield errors.Refusal("clone.target-not-empty", f"{target.uri} is not empty")
        else:
            yield errors.Refusal("clone.target-exists", f"there is a table at {target.uri}")


def _vacuum_is_running() -> errors.Refusal:
    return errors.Refusal(
        "clone.vacuum-running",
        "a vacuum of the source began and has not ended: it may delete files that the clone needs",
        facts={"way out": WAIT_FOR_VACUUM},
        hint=errors.command("history", limit=10),
    )


def _is_managed(source: Snapshot) -> errors.Refused:
    return errors.Refused(
        f"version {source.version} is managed by a catalog, and a clone of it would be a table that no catalog has",
        code="catalog.managed",
    )


def _rows_are_unknown() -> errors.Refusal:
    return errors.Refusal(
        "clone.rows-unknown",
        "the table gives ids to its rows, and the statistics of some files do not say how many rows these have",
    )


def _is_incomplete(source: Snapshot, lost: tuple[ProblemFile, ...]) -> errors.Refusal:
    return errors.Refusal(
        "clone.source-incomplete",
        f"{plural(len(lost), 'file')} of the version cannot be used; the first is {lost[0].path}: {lost[0].why}",
        hint=undelete_command(source.table.uri, version=source.version),
    )


# -- the commit --------------------------------------------------------------------------------------------------------


def _request(plan: ClonePlan) -> CommitRequest:
    source, now = plan.source, plan.base_version.snapshot
    rows = plan.files.rows or 0
    domains = [
        {"domain": one.domain, "configuration": one.configuration, "removed": is_removed}
        for table, is_removed in ((source, False), (now, True))
        if table is not None
        for one in table.domains
        if one.domain == _CLUSTERING
    ]
    return CommitRequest(
        "CLONE",
        {"source": source.table.uri, "sourceVersion": str(source.version), "isShallow": True},
        {
            "sourceTableSize": plan.files.size_bytes,
            "sourceNumOfFiles": plan.files.files,
            "numRemovedFiles": 0,
            "numCopiedFiles": 0,
            "removedFilesSize": 0,
            "copiedFilesSize": 0,
        },
        protocol=drop_null_fields(source.raw_protocol) if now is None else _both(source, now),
        metadata=plan.metadata,
        domains=tuple(domains[:1]),
        body=_body(source),
        reads=EveryFile(),
        new_rows=rows if _gives_ids(source, now, plan.metadata) else 0,
    )


def _gives_ids(source: Snapshot, now: Snapshot | None, metadata: Action) -> bool:
    """Return whether the rows of a clone get ids, by its source or the table that is there."""
    described = read_metadata(metadata, "the clone")
    return any(assigns_row_ids(one.protocol, described) for one in (source, now) if one is not None)


def _both(source: Snapshot, now: Snapshot) -> Action | None:
    """Return the protocol of a table that is there with what the source needs; None where it has that."""
    protocols = source.protocol, now.protocol
    missing = source.protocol.supported_features - now.protocol.supported_features
    if not missing:
        return None
    if all(one.min_writer_version < WRITER_FEATURES_VERSION for one in protocols):
        names = ("minReaderVersion", "minWriterVersion")
        versions = zip(*((one.min_reader_version, one.min_writer_version) for one in protocols), strict=True)
        return dict(zip(names, map(max, versions), strict=True))
    return upgraded(drop_null_fields(now.raw_protocol), sorted(missing))


def _body(source: Snapshot) -> Callable[[NextVersion], Iterable[bytes]]:
    def batches() -> Iterator[tuple[str, RecordBatch]]:
        undecoded = find_unencoded_paths(source)
        from_root = partial(_add_from_root, uri=source.table.uri, undecoded=undecoded)
        yield from (("add", rows) for rows in source.file_actions.map_actions("add", from_root))

    return lambda slot: encoded_files(batches, slot)


def _add_from_root(adds: RecordBatch, *, uri: str, undecoded: ArrowArray) -> RecordBatch:
    """Return live files of the source as adds of the clone.

    Args:
        adds: Live files of the source.
        uri: The URI of the source.
        undecoded: The paths whose escapes are part of the name. They are encoded, because nobody looks for another
            reading of an absolute path.
    """
    columns = {name: adds.column(name) for name in adds.schema.names}
    columns["path"] = make_absolute(encode_unencoded_paths(adds.column("path"), undecoded), uri)
    columns["deletionVector"] = _make_vectors_absolute(adds.column("deletionVector"), uri)
    columns["dataChange"] = pa.repeat(True, adds.num_rows)
    for name in ("baseRowId", "defaultRowCommitVersion"):
        columns[name] = pa.nulls(adds.num_rows, adds.schema.field(name).type)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _make_vectors_absolute(vectors: ArrowArray, uri: str) -> ArrowArray:
    """Return descriptors whose files are named by absolute paths, as Hadoop spells them. Inline vectors stay.

    Args:
        vectors: Descriptors of the table's log (struct array, null for files without a vector).
        uri: The URI of the table.
    """
    kinds = pc.struct_field(vectors, ["storageType"])
    is_relative = pc.fill_null(pc.equal(kinds, "u"), False)
    is_absolute = pc.fill_null(pc.equal(kinds, "p"), False)
    is_in_file = pc.or_(is_relative, is_absolute)
    if not pc.any(is_in_file).as_py():
        return vectors

    root = spell_root_as_hadoop(uri)

    def spell(kind: str, text: str) -> str:
        if kind == "p":
            return spell_as_hadoop(text)
        return spell_as_hadoop(root + encode(vector_file(text) or text))

    texts = pc.struct_field(vectors, ["pathOrInlineDv"])
    kinds_in_file = pc.filter(kinds, is_in_file).to_pylist()
    texts_in_file = pc.filter(texts, is_in_file).to_pylist()
    places = [spell(kind, text) for kind, text in zip(kinds_in_file, texts_in_file, strict=True)]

    changed = {
        "storageType": pc.if_else(is_relative, pa.scalar("p", kinds.type), kinds),
        "pathOrInlineDv": pc.replace_with_mask(texts, is_in_file, pa.array(places, texts.type)),
    }
    fields = list(vectors.type)
    parts = [changed.get(field.name, pc.struct_field(vectors, [field.name])) for field in fields]
    return pa.StructArray.from_arrays(parts, fields=fields, mask=pc.is_null(vectors))
