"""Whether a plan still fits: its table and past, the commits made since, also those of the tables that it protects.

Files that newer commits need again are spared. A saved plan is compared with its table first. Spec: Delta Log Entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.changing.base_version import BaseVersion, OwnCommit, hash_log_file, identify_commit
from deltacli.changing.protocol_checks import require_commit_allowed
from deltacli.changing.rechecks import require_same_base_commit, require_same_log, require_valid_clock
from deltacli.core.errors import Refused, command, parameter, suggest_parameters
from deltacli.core.ranges import find_gaps, format_spans
from deltacli.core.times import format_duration, format_timestamp
from deltacli.core.typing import ArrowArray
from deltacli.core.units import plural
from deltacli.delta.log.segment import LOG_DIRECTORY, LogFile, LogFileKind, LogListing, make_log_file
from deltacli.delta.log.state import DELETED_FILE_RETENTION, deleted_file_retention_ms
from deltacli.delta.paths.keys import PathKeys, encode_paths_as_binary
from deltacli.delta.paths.lookalikes import common_spellings
from deltacli.delta.paths.spelling import decode_path_bytes, encoded_root
from deltacli.delta.paths.spelling_columns import made_absolute
from deltacli.operations.vacuum.misnamed import NamedBatch, NameSearch
from deltacli.operations.vacuum.plan import ProtectedTable, VacuumPlan, of_protected
from deltacli.operations.vacuum.plan_context import find_clones, open_protected, with_codes_of_vacuum
from deltacli.storage import folds_names, is_address_of, resolve_links
from deltacli.storage.directory_identity import OTHER_DIRECTORY
from deltacli.table.commit_contents import read_commit_actions
from deltacli.table.file_references import FileReferenceCollector, FileReferences
from deltacli.table.find_log import list_log
from deltacli.table.handle import TableHandle, managed_store
from deltacli.table.rebuild import read_snapshot

if TYPE_CHECKING:
    from deltacli.operations.streams.guard import StreamWatch
    from deltacli.table.version import Snapshot


def open_kept(table: TableHandle, kept: ProtectedTable) -> tuple[TableHandle, LogFile]:
    """Return the protected table of a plan, and the file of the plan's version. Raises as `open_protected`, and Refused
    where it is another table or has another past.
    """
    snapshot = open_protected(table, kept.uri)
    planned = {"protected table": kept.uri, "plan": f"{kept.table_id}, version {kept.version}"}
    if snapshot.metadata.id != kept.table_id or snapshot.version < kept.version:
        raise Refused(
            "the protected table was replaced after the plan was made, so the files it needs are unknown",
            code="vacuum.plan-other-table",
            facts=planned,
            hint=command("vacuum", dry_run=True),
        )
    other, listing = snapshot.table, snapshot.listing
    if listing.start_version > kept.version:
        listing = list_log(other.storage, start_version=kept.version)
    past = identify_commit(listing, kept.version)
    if past is None or kept.sha256 is None or hash_log_file(other.storage, past) != kept.sha256:
        raise Refused(
            "the plan was saved by an earlier release, without the past of the protected table"
            if kept.sha256 is None
            else f"version {kept.version} of the protected table has changed since the plan was made, so the files it "
            "needs are unknown",
            code="vacuum.plan-other-past",
            facts=planned,
            hint=command("vacuum", dry_run=True),
        )
    return other, past


_HARMLESS = frozenset({"add", "remove", "cdc", "txn", "commitInfo", "domainMetadata"})
"""Actions that do not change the protocol and the properties."""


_CHECKPOINTS = frozenset(
    {LogFileKind.CLASSIC_CHECKPOINT, LogFileKind.MULTI_PART_CHECKPOINT, LogFileKind.UUID_CHECKPOINT}
)


class NewerCommits:
    """Reads new commits, each once, of the table and of the protected tables, and collects the files that they name.
    Raises what `open_kept` raises.
    """

    def __init__(self, table: TableHandle, keys: PathKeys, plan: VacuumPlan) -> None:
        self._table, self._keys, self._plan = table, keys, plan
        past = None if plan.made_from is None else plan.made_from.base_commit
        self._own = _LogTail(table, plan.snapshot_version, past)
        kept = [(one.version, *open_kept(table, one)) for one in plan.protected]
        self._others = [_LogTail(other, version, file) for version, other, file in kept]
        self._known = {(one.table_id, one.uri) for one in plan.protected}
        self._needed: ArrowArray = None
        self._needed_spellings: ArrowArray = pa.array([], pa.int64())
        """Hashes of the common spellings of the files that newer commits name."""
        self.start: OwnCommit | None = None
        """VACUUM START of this run, until the first look behind it: without it, clones and restores do not wait."""
        self._streams: StreamWatch | None = None
        if plan.streams is not None:
            from deltacli.operations.streams.guard import StreamWatch

            others = {one.table_id: tail.table for one, tail in zip(plan.protected, self._others, strict=True)}
            self._streams = StreamWatch(table, plan.streams, others)

    def require_same(self, snapshot: Snapshot) -> None:
        """Raise Refused where a newer version is of another table or has another past, where the clock is wrong, and
        where removed files are kept longer than in the plan.
        """
        plan = self._plan
        if snapshot.metadata.id != plan.table_id:
            raise Refused(
                "the table was replaced after the plan was made",
                code="vacuum.plan-other-table",
                facts={"plan": f"{plan.table_id}, version {plan.snapshot_version}"},
                hint=command("vacuum", dry_run=True),
            )
        listing = snapshot.listing
        if plan.made_from is not None:
            if listing.start_version > plan.snapshot_version:
                listing = list_log(self._table.storage, start_version=plan.snapshot_version)
            with with_codes_of_vacuum():
                require_same_log(plan.made_from, listing)
                require_valid_clock(self._table, plan.now_ms, identify_commit(listing, snapshot.version))
        require_commit_allowed(snapshot)
        if (managed := managed_store(self._table.storage)) is not None:
            managed.require_permission("DATA_CLEANUP", "delete data files")
        own_ms = deleted_file_retention_ms(snapshot.properties)
        if own_ms > plan.own_retention_ms and plan.cutoff_ms > self._table.clock() - own_ms:
            raise Refused(
                f"the table now keeps removed files for {format_duration(own_ms)}, longer than the plan",
                code="vacuum.plan-retention",
                hint=command("vacuum", dry_run=True),
            )

    def _require_protectable(self, other: Snapshot) -> None:
        """Raise Refused where a protected table has features by now that are not supported, or keeps removed files that
        the plan deletes.
        """
        require_commit_allowed(other)
        kept_ms = deleted_file_retention_ms(other.properties)
        if self._plan.cutoff_ms > self._table.clock() - kept_ms and kept_ms > self._plan.retention_ms:
            raise Refused(
                f"the protected table now keeps removed files for {format_duration(kept_ms)}, longer than the plan",
                code="vacuum.plan-retention",
                hint=command("vacuum", dry_run=True),
            )

    def needed(self, paths: ArrowArray) -> ArrowArray:
        """Return which paths newer commits name in any action. Raises CommitCorrupt, FileMissing and other errors of
        reading, so that nothing is deleted then.
        """
        self._read_on()
        with with_codes_of_vacuum():
            require_valid_clock(self._table, self._plan.now_ms, self._own.last)
        if self._needed is None:
            return pa.repeat(pa.scalar(False), len(paths))
        is_needed = pc.is_in(self._keys.hash_listed_paths(paths), value_set=self._needed)
        # A newer commit may spell the name of a candidate in another way: then the file is in doubt.
        spellings = self._keys.hash_listed_paths(common_spellings(_flat(paths)))
        return pc.or_(is_needed, pc.is_in(spellings, value_set=self._needed_spellings))

    def _read_on(self) -> None:
        self._require_known_clones()
        for references in _read_all(self._own, self.require_same):
            self._take(references)
        with with_codes_of_vacuum():
            require_same_base_commit(self._table.storage, self.start)
        self.start = None  # from here on it is among the commits that were read
        # Take what queries need that the plan does not keep for them: those that began, went back or were ignored.
        for units in () if self._streams is None else self._streams.units():
            self._take_names(*(units.column(name).combine_chunks() for name in ("path", "dv_id")))
        for tail in self._others:
            with of_protected(tail.table.uri):
                root = encoded_root(tail.table.uri)
                for references in _read_all(tail, self._require_protectable):
                    self._take([rows._replace(path=made_absolute(rows.path, root)) for rows in references])

    def _require_known_clones(self) -> None:
        """Raise Refused where a shallow clone is new or cannot be opened: only a new plan knows what it needs."""
        clones = find_clones(self._table, [tail.table for tail in self._others], self._known)
        if clones is None:
            return
        if refusals := [*clones.refusals()]:
            raise Refused.from_refusals(refusals)
        made = [
            *(one.table.uri for one in clones.found),
            *(stored.note.uri for stored in clones.gone if stored.note.created_ms > self._plan.now_ms),
        ]
        if made:
            raise Refused(
                "a shallow clone was made after the plan, so the files it needs are unknown",
                code="vacuum.plan-too-old",
                facts={"clone": made[0]},
                hint=command("vacuum", dry_run=True),
            )

    def _take(self, references: list[FileReferences]) -> None:
        for rows in references:
            self._take_names(rows.path, rows.vector)

    def _take_names(self, paths: ArrowArray, vectors: ArrowArray) -> None:
        of_paths, of_vectors = self._keys.compute_keys(paths), self._keys.compute_vector_keys(vectors)
        _require_places(of_paths.escaping, of_vectors.unknown)
        names = pa.concat_arrays([pc.drop_null(of_paths.keys), pc.drop_null(of_vectors.keys)])
        spellings = self._keys.hash_listed_paths(common_spellings(names))
        self._needed_spellings = pa.concat_arrays([self._needed_spellings, spellings])
        parts = [] if self._needed is None else [self._needed]
        parts += [
            pc.drop_null(of_paths.hashes),
            of_paths.alternative_hashes,
            pc.drop_null(of_vectors.hashes),
            of_vectors.alternative_hashes,
        ]
        parts += [self._behind_links(names) for names in (of_paths.keys, of_paths.undecoded, of_vectors.keys)]
        self._needed = pa.concat_arrays(parts)

    def _behind_links(self, names: ArrowArray) -> ArrowArray:
        """Return the targets of paths through links: a file named through a link is needed by its other name."""
        texts = (name.decode("utf-8", "surrogateescape") for name in pc.unique(pc.drop_null(names)).to_pylist())
        targets = resolve_links(self._table.storage, (name for name in texts if "\0" not in name))
        return self._keys.hash_listed_paths(
            encode_paths_as_binary([target for target, name in targets if target != name])
        )


class _LogTail:
    """The commits after a version, each read once. `past`: the file of that version, which has to stay, if known."""

    def __init__(self, table: TableHandle, version: int, past: LogFile | None = None) -> None:
        self.table = table
        self._seen = version
        self.last = past
        """The last commit that was read."""

    def read_on(self) -> tuple[list[FileReferences], bool]:
        """Return the files named by unread commits, and whether the commits change more than files."""
        new = self._listed()
        named = FileReferenceCollector()
        references: list[FileReferences] = []
        is_other = False
        for file in new:
            actions = list(read_commit_actions(self.table.storage, file, None))
            is_other = is_other or any(kind not in _HARMLESS for kind, _ in actions)
            references += named.add_commit(actions, file)
        references += named.flush()
        if new:
            self._seen, self.last = new[-1].version, new[-1]
        return references, is_other

    def _listed(self) -> list[LogFile]:
        """Return the unread commits, in order. Raises Refused where one is missing or the last one read has changed."""
        # All names of a version begin with its digits, also that of a checkpoint, which comes before the commit.
        start = f"{self._seen + 1 if self.last is None else self._seen:020d}"
        for _ in range(2):  # a listing may miss a concurrently created file but contain the next one
            listed = [
                make_log_file(stat.name, stat.size_bytes, stat.modified_ms)
                for stat in self.table.storage.list_from(LOG_DIRECTORY, start)
            ]
            commits = [file for file in listed if file.path.kind is LogFileKind.COMMIT]
            if self.last is not None and self.last not in listed:
                raise Refused(
                    f"commit {self._seen} was deleted or replaced, so the files the table needs are unknown",
                    code="vacuum.plan-other-past",
                    hint=command("vacuum", dry_run=True),
                )
            files = [file for file in commits if file.version > self._seen]
            # A checkpoint proves that commits existed; it may be all that is left of them.
            told = [file.version for file in listed if file.path.kind in _CHECKPOINTS]
            newest = max([self._seen, *told, *(file.version for file in files)])
            expected = range(self._seen + 1, newest + 1)
            # Count first: a version may be 2^60, and a list of all versions below would not fit into memory.
            if len(files) == newest - self._seen and [file.version for file in files] == list(expected):
                return files
        raise Refused(
            f"commits after version {self._seen} are no longer in the log, so the files they need are unknown",
            code="vacuum.plan-too-old",
            hint=command("vacuum", dry_run=True),
        )


def _flat(column: ArrowArray) -> ArrowArray:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _read_all(tail: _LogTail, require: Callable[[Snapshot], None]) -> Iterator[list[FileReferences]]:
    """Yield the files that unread commits name. Where these change more than files, the version is read and judged,
    and the log listed again, as that may take long.
    """
    is_other = True
    while is_other:
        references, is_other = tail.read_on()
        yield references
        if is_other:
            require(read_snapshot(tail.table))


def _require_places(escaping: str | None, unknown_vector: str | None) -> None:
    """Raise Refused where a newer version names a file that cannot be resolved unambiguously."""
    if escaping is None and unknown_vector is None:
        return
    what = f"{escaping}, which leads outside the table" if escaping else f"the deletion vector {unknown_vector}"
    raise Refused(
        f"a newer version names {what}: the file that it means is ambiguous",
        code="path.escapes-root" if escaping else "vacuum.plan-too-old",
        hint=command("vacuum", dry_run=True),
    )


def digest_commit(table: TableHandle, listing: LogListing, version: int) -> str | None:
    """Return the SHA-256 of a commit file, which identifies a history of the table; None where there is none."""
    file = listing.commits.get(version)
    return None if file is None else hash_log_file(table.storage, file)


def with_past(table: TableHandle, plan: VacuumPlan) -> VacuumPlan:
    """Return the plan with the digest of the commit that it was made from, for saving. Raises Refused where the log is
    another one by now.
    """
    if plan.made_from is not None and plan.made_from.sha256 is not None:
        return replace(plan, snapshot_sha256=plan.made_from.sha256)
    version = plan.snapshot_version
    listing = list_log(table.storage, start_version=version, progress=table.progress)
    if plan.made_from is not None:
        with with_codes_of_vacuum():
            require_same_log(plan.made_from, listing)
    return replace(plan, snapshot_sha256=digest_commit(table, listing, version))


def adopted(
    table: TableHandle, plan: VacuumPlan, snapshot: Snapshot | None = None, *, accept_copy: bool = False
) -> VacuumPlan:
    """Return the plan of another process, or of a copy with the same past, as one of this table, to be executed.

    Commits after the plan's version may have made some of its candidates live again: the execution spares these.
    Raises Refused, with nothing changed, where the plan cannot be executed on the newest version, and of a copy unless
    that is accepted.
    """
    table = table.bind_to_directory()
    if plan.snapshot_sha256 is None and plan.made_from is not None:
        plan = with_past(plan.made_from.table, plan)
    snapshot = snapshot or read_snapshot(table)
    version, listing = plan.snapshot_version, snapshot.listing
    _require_same_table(plan, snapshot)
    if plan.snapshot_version > snapshot.version:
        raise Refused(
            f"the plan is of version {plan.snapshot_version}, but the newest of the table is {snapshot.version}",
            code="vacuum.plan-newer",
            facts={"why": "the log was restored from a backup, or the table was replaced", "next": "make a new plan"},
            hint=command("vacuum", save_plan="plan.parquet"),
        )
    now_ms = table.clock()
    _require_later(plan, now_ms)
    _require_retention(plan, snapshot, now_ms)
    if listing.start_version > version:
        listing = list_log(table.storage, start_version=version, progress=table.progress)
    _require_log_since(table, plan, snapshot, listing)
    if not (accept_copy or is_address_of(table.storage, plan.table)):
        raise _is_elsewhere(table, plan)
    base_version = BaseVersion(
        table, version, plan.now_ms, identify_commit(listing, version), listed_at=snapshot.listed_at
    )
    found = replace(plan, table=table.uri, made_from=base_version)
    _require_unneeded(found, snapshot)
    return found


def _is_elsewhere(table: TableHandle, plan: VacuumPlan) -> Refused:
    override = parameter("vacuum.accept_copy", True)
    refused = Refused(
        "the plan was made for a table at another address, of which this one is a copy",
        code=OTHER_DIRECTORY,
        facts={"planned for": plan.table, "this table": table.uri},
        hint=suggest_parameters(override),
    )
    refused.override = override
    return refused


def _require_unneeded(plan: VacuumPlan, snapshot: Snapshot) -> None:
    """Raise Refused where a plan names files of the newest version that no commit since the plan has named: no vacuum
    plans that, so the plan was made by something else, or of another log. The same where a file of the plan may be a
    live one which is missing under its name: the plan is of an earlier release, or the live file was renamed since.
    """
    table, candidates = snapshot.table, plan.candidates
    keys = PathKeys((table.uri, *table.storage.aliases), folds_case=folds_names(table.storage))
    paths = candidates.column("path").combine_chunks()
    search = NameSearch(keys, candidates)
    hashes = keys.hash_listed_paths(paths)
    is_live = pc.is_null(hashes)
    for batch in snapshot.file_actions.read_narrow_batches():
        if batch.adds is not None and batch.adds.num_rows:
            names, sizes, vectors = (batch.adds.column(name) for name in ("path", "size", "dv_id"))
            for found in (keys.compute_keys(names), keys.compute_vector_keys(vectors)):
                is_live = pc.or_(is_live, pc.is_in(hashes, value_set=pc.drop_null(found.hashes)))
            search.add(NamedBatch(names, sizes, vectors))

    misnamed = search.finish(table)
    if not pc.any(pc.or_(is_live, misnamed.is_doubtful)).as_py():
        return
    # The execution spares what commits since the plan have named.
    is_old = pc.invert(NewerCommits(table, keys, plan).needed(paths))
    newest = {"newest": f"version {snapshot.version}"}
    named = pc.filter(paths, pc.and_(is_live, is_old))
    if len(named):
        raise Refused(
            f"the plan deletes {plural(len(named), 'file')} of the newest version",
            code="vacuum.plan-names-live",
            facts={"first": decode_path_bytes(named[0].as_py()), **newest},
            hint=command("vacuum", save_plan="plan.parquet"),
        )
    is_doubtful = pc.and_(misnamed.is_doubtful, is_old)
    doubtful = pc.filter(paths, is_doubtful)
    if len(doubtful):
        missing = pc.filter(misnamed.name_of, is_doubtful)
        raise Refused(
            f"the plan deletes {plural(len(doubtful), 'file')} that may be missing files of the newest version",
            code="vacuum.plan-names-live",
            facts={
                "first": decode_path_bytes(doubtful[0].as_py()),
                "missing": decode_path_bytes(missing[0].as_py()),
                **newest,
                "to see where it may be": command("repair", dry_run=True),
            },
            hint=command("vacuum", save_plan="plan.parquet"),
        )


def _require_same_table(plan: VacuumPlan, snapshot: Snapshot) -> None:
    if snapshot.metadata.id != plan.table_id:
        raise Refused(
            "the plan is of another table",
            code="vacuum.plan-other-table",
            facts={
                "planned for": plan.table,
                "table id of the plan": plan.table_id,
                "table id of this table": snapshot.metadata.id,
            },
            hint=command("vacuum", save_plan="plan.parquet"),
        )


def _require_later(plan: VacuumPlan, now_ms: int) -> None:
    if now_ms < plan.now_ms:
        raise Refused(
            "the clock is before the time of the plan",
            code="vacuum.clock-skew",
            facts={
                "planned at": format_timestamp(plan.now_ms),
                "now": format_timestamp(now_ms),
                "next": "set the clock, or make a new plan",
            },
            hint=command("vacuum", save_plan="plan.parquet"),
        )


def _require_retention(plan: VacuumPlan, snapshot: Snapshot, now_ms: int) -> None:
    """Raise Refused where the table's own retention is longer than the one that the user named to go below it."""
    own_ms = deleted_file_retention_ms(snapshot.properties)
    is_consented = plan.allows_below and own_ms <= plan.own_retention_ms
    if plan.cutoff_ms > now_ms - own_ms and not is_consented:
        raise Refused(
            "the plan deletes files that the table's retention now protects",
            code="vacuum.plan-retention",
            facts={
                "planned up to": format_timestamp(plan.cutoff_ms),
                "allowed up to": format_timestamp(now_ms - own_ms),
                DELETED_FILE_RETENTION: f"{format_duration(own_ms)}, was {format_duration(plan.own_retention_ms)}",
                "next": "make a new plan",
            },
            hint=command("vacuum", save_plan="plan.parquet"),
        )


def _require_log_since(table: TableHandle, plan: VacuumPlan, snapshot: Snapshot, listing: LogListing) -> None:
    """Raise Refused unless every commit since the plan exists, and that of the plan's version is unchanged."""
    version = plan.snapshot_version
    digest = digest_commit(table, listing, version)
    is_known = digest is not None or plan.snapshot_sha256 is None
    missing = find_gaps(listing.commits, version + 1 if is_known else version, snapshot.version)
    if missing:
        raise Refused(
            "commits since the plan are no longer in the log, so the files they need are unknown",
            code="vacuum.plan-too-old",
            facts={
                "planned at": f"version {version}, {format_timestamp(plan.now_ms)}",
                "newest": str(snapshot.version),
                "missing commits": format_spans(missing),
                "next": "make a new plan",
            },
            hint=command("vacuum", save_plan="plan.parquet"),
        )
    if plan.snapshot_sha256 not in (None, digest):
        raise Refused(
            f"commit {version} has changed since the plan was made: the table has another history",
            code="vacuum.plan-other-past",
            facts={"why": "the log was restored from a backup and then changed", "next": "make a new plan"},
            hint=command("vacuum", save_plan="plan.parquet"),
        )
