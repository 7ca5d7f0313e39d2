"""Steps for data files and deletion vectors that are gone, cannot be read, or have rows of other files.

Each is looked at before anything is planned, as in `live_files.py`. Of a damaged file whole row groups are kept that
can be read. What no source has is given up in one commit, with consent.

Nothing is given up by a guess: the commit says that it changes no rows (`dataChange` false), and its new files have
exactly the rows of the files that it removes, as these were before, which is looked at.

Spec: Add File and Remove File.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.parquet import ParquetReader
from deltacli.changing.file_totals import FileTotals
from deltacli.core.errors import DataUnreadable, DeltacliError, Refused, StorageFailed, command
from deltacli.core.memory import raise_if_out_of_memory
from deltacli.core.units import plural
from deltacli.delta.encoding.digests import MultisetDigest
from deltacli.delta.log.commit_content import CommitRequest, FilesAt, NextVersion, encoded_files
from deltacli.delta.log.file_actions import action_schemas, build_action_batch, extract_num_records_column
from deltacli.delta.paths.spelling import canonicalize_path, decode, decode_path_bytes
from deltacli.delta.schema.file_columns import count_leaves, hybrid_column, rebased
from deltacli.operations.recover.verify import Problem, without_nulls
from deltacli.operations.repair.live_files import (
    CONTENT,
    INTACT,
    AddAgain,
    Amendment,
    Looked,
    Named,
    added_later,
    is_of_vector,
    look_at,
    named_files,
    needed_of,
    right_descriptors,
)
from deltacli.operations.repair.plan import (
    NotNeededError,
    Planned,
    RepairRequest,
    Run,
    Step,
    StepState,
    Unrepaired,
    Work,
    left,
)
from deltacli.operations.repair.renamed_files import OtherNames
from deltacli.operations.restore.missing_files import Brought
from deltacli.rules.framework.base import Finding, Severity
from deltacli.rules.framework.repairs import COMMIT_AGAIN, StepKind
from deltacli.rules.paths import DOUBLE_ENCODED
from deltacli.storage import Unknown
from deltacli.storage.os_errors import translate_write_errors
from deltacli.table.data_files import build_data_files
from deltacli.table.file_keys import build_removes, hash_file_actions
from deltacli.table.needed_files import combine_chunks, locate_files
from deltacli.table.partition_condition import Mask
from deltacli.table.rebuild import read_snapshot
from deltacli.work.commits.reading import stream_commit
from deltacli.work.parquet_writing import ParquetStream
from deltacli.work.rewrite.pieces import make_full_read_spec
from deltacli.work.rewrite.sources import WANTED, digest_rows
from deltacli.work.rows.data_files import DataFile, open_data_file
from deltacli.work.rows.deletion_vectors import Descriptor, read_vector

if TYPE_CHECKING:
    import pyarrow

    from deltacli.core.typing import ArrowArray, RecordBatch
    from deltacli.delta.encoding.roaring import DeletedRows
    from deltacli.delta.log.segment import LogListing
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

# -- missing and unreadable files --------------------------------------------------------------------------------------


class FilesPlan(NamedTuple):
    """The steps, and what guards need: the files that would be given up, the live ones, and whole directories."""

    planned: Planned
    lost: int = 0
    live: int = 0
    whole_directories: tuple[str, ...] = ()
    returned: tuple[str, ...] = ()
    """Files that the listing lacked and that are there when they are asked for."""
    renamed: Mapping[str, OtherNames] = {}
    """The paths of live files that are missing, or whose vectors are, and the files under other names that may be it.
    """


@dataclass(frozen=True, eq=False)
class BringFiles:
    """Puts data files and files of vectors in their places."""

    brought: Brought
    is_sensitive: bool = False

    @property
    def name(self) -> str:
        first = decode_path_bytes(self.brought.found.needed.files["path"][0].as_py())
        return f"bring {plural(self.brought.count, 'file')} back, first {first}"

    def run(self, run: Run) -> None:
        run.backup.keep(self.brought.damaged)
        self.brought.put(run.table, run.put)


_BACK = "the file is there again, or the newest version does not have it any more"


@dataclass(frozen=True, eq=False)
class RemoveFiles:
    """Gives files up in one commit, after their rows that can still be read were kept."""

    keys: ArrowArray
    paths: tuple[str, ...]
    gone: Mapping[str, frozenset[bytes]]
    """Path -> the files that it lacks, where nothing else is wrong: an add whose files are back is not removed."""
    unreadable: tuple[DamagedFile, ...]
    """The data files of which parts may be readable."""
    elsewhere: RecordBatch | None = None
    """The adds of other files that have the rows, which are given up where there are none."""
    is_sensitive: bool = True

    @property
    def name(self) -> str:
        more = f" and {plural(len(self.paths) - 1, 'more file')}" if len(self.paths) > 1 else ""
        return f"remove {self.paths[0]}{more} in one commit"

    def run(self, run: Run) -> int | None:
        if run.request.quarantine is not None and self.unreadable:
            salvage(run, self.unreadable)
        version = run.commit(lambda now: self._request(run, now))
        if version is None:
            raise NotNeededError(_BACK)
        return version

    def _request(self, run: Run, now: Snapshot) -> CommitRequest | None:
        """Return the commit; None where none of the files is live and lost any more."""
        wanted = _chosen(now, self._of_batch)
        if wanted is None:
            return None
        others = () if self.elsewhere is None else self.elsewhere.column("path").to_pylist()
        if self.elsewhere is not None and not _are_live(now, self.elsewhere):
            raise Refused(
                f"{self.paths[0]} is not removed: the files that have its rows are not in version {now.version}",
                code="repair.plan-stale",
                facts={"others": ", ".join(others)},
                hint=command("repair", dry_run=True),
            )
        adds = _still_lost(run.table, wanted, self.gone)
        run.unneeded |= dict.fromkeys(self.paths, _BACK)
        for path in adds["path"].to_pylist():
            run.unneeded.pop(path, None)
        if not adds.num_rows:
            return None
        now_ms = run.table.clock()
        batches = adds.combine_chunks().to_batches()

        def body(slot: NextVersion) -> Iterator[bytes]:
            return encoded_files(
                lambda: (("remove", build_removes(one, now_ms, is_change=self.elsewhere is None)) for one in batches),
                slot,
            )

        metrics = {"numRemovedFiles": adds.num_rows, "numRemovedBytes": pc.sum(adds["size"]).as_py() or 0}
        return CommitRequest("FSCK", {}, metrics, body=body, reads=FilesAt((*self.paths, *others)))

    def _of_batch(self, adds: RecordBatch) -> ArrowArray:
        return pc.is_in(hash_file_actions(adds), value_set=self.keys)


def plan_files(
    table: TableHandle,
    request: RepairRequest,
    findings: Sequence[Finding],
    now: Snapshot,
    obstacle: str | None,
    orphans: Sequence[str],
) -> FilesPlan:
    """Return the steps for findings about data files and vectors of the newest version. `orphans` are the files that
    no log names.

    Raises Refused for the source of another table, and StorageFailed.
    """
    if not findings:
        return FilesPlan(Planned())
    named = named_files(table, now, {one.place.key for one in findings if one.place.key is not None})
    if named is None:
        return FilesPlan(Planned(unrepaired=[_past(one) for one in findings]))
    looked = look_at(table, request, named, now, findings, orphans)
    looked = looked._replace(descriptors=dict(right_descriptors(table, named, now, looked, findings)))
    return _Steps(request, named, looked, obstacle).plan(findings)


class _Steps:
    """Decides, add by add, what becomes of it."""

    def __init__(self, request: RepairRequest, named: Named, looked: Looked, obstacle: str | None) -> None:
        self.request, self.named, self.looked, self.obstacle = request, named, looked, obstacle
        self.steps: list[Step] = []
        self.unrepaired: list[Unrepaired] = []
        self.removed: dict[int, FileTotals] = {}
        self.returned: set[str] = set()
        self.renamed: dict[int, OtherNames] = {}
        self.amended: dict[int, Amendment] = {}
        self.uses_sources = False
        by_path: dict[str, list[int]] = {}
        for row, path in enumerate(named.paths):
            by_path.setdefault(path, []).append(row)
        self.by_path = by_path

    def plan(self, findings: Sequence[Finding]) -> FilesPlan:
        for finding in findings:
            rows = self.by_path.get(finding.place.key or "", [])
            if not rows:
                self.unrepaired.append(_past(finding))
            for row in rows:
                self._decide(finding, row)
        work: dict[StepKind, Work] = {}
        if self.uses_sources and self.looked.brought is not None:
            work[StepKind.RECOVER] = BringFiles(self.looked.brought)
        if self.amended:
            rows = sorted(self.amended)
            keys = combine_chunks(_keys_of(self.named.adds.take(rows))).to_pylist()
            by_key = dict(zip(keys, (self.amended[row] for row in rows), strict=True))
            paths = tuple(self.named.paths[row] for row in rows)
            work[StepKind.REBUILD] = AddAgain(pa.array(list(by_key), pa.binary()), by_key, paths, "what is true")
        if self.removed:
            work[StepKind.REMOVE_REFERENCE] = self._removal()
        numbers = {action: number for number, action in enumerate(work)}
        steps = [step._replace(work=numbers.get(step.action, 0)) for step in self.steps]
        planned = Planned(steps, list(work.values()), self.unrepaired, self.looked.notes)
        lost = {row for row in (*self.removed, *self.renamed) if self._problem(row)[0] == Problem.MISSING.value}
        return FilesPlan(
            planned,
            len(self.removed) + len(self.renamed),
            self.named.live,
            self._whole_directories(lost),
            tuple(sorted(self.returned)),
            {self.named.paths[row]: other for row, other in sorted(self.renamed.items())},
        )

    def _decide(self, finding: Finding, row: int) -> None:
        problem, reason = self._problem(row, finding)
        if problem is None:
            if finding.rule.id.endswith("file-missing"):
                self.returned.add(finding.place.key or "")
            is_path_alone = finding.rule is DOUBLE_ENCODED
            reason = COMMIT_AGAIN if is_path_alone else "the file is there, as the log describes it"
            self.unrepaired.append(left(finding, reason))
            return
        if problem == INTACT:
            self._record_size(finding, row)
            return
        lost = self._lost_keys(row)
        if lost and all(key in self.looked.sources for key in lost):
            self.uses_sources = True
            what = f"bring {', '.join(decode_path_bytes(key) for key in lost)} back"
            source = self.looked.sources[lost[0]]
            self.steps.append(Step(finding.rule.id, finding.place, StepKind.RECOVER, 0, what, source))
            return
        if self.obstacle is not None:
            self.unrepaired.append(left(finding, self.obstacle))
            return
        other = next((self.looked.renamed[key] for key in lost if key in self.looked.renamed), None)
        if finding.rule is DOUBLE_ENCODED and other is None:
            # A file is there under another reading of the path, so nothing is given up.
            self.unrepaired.append(left(finding, COMMIT_AGAIN))
            return
        if row in self.looked.descriptors:
            self.amended[row] = Amendment(vector=self.looked.descriptors[row])
            what = f"record the deletion vector of {finding.place.key} as it is in its file"
            self.steps.append(Step(finding.rule.id, finding.place, StepKind.REBUILD, 0, what))
            return
        what = f"remove {finding.place.key}: {self._describe(row, reason or problem)}"
        step = Step(finding.rule.id, finding.place, StepKind.REMOVE_REFERENCE, 1, what, None, self._loss(row))
        if other is None:
            self.removed[row] = self._loss(row)
        else:
            self.renamed[row] = other
            why = other.describe(self.named.paths[row])
            step = step._replace(state=StepState.REFUSED, reason=why)
        self.steps.append(step)

    def _describe(self, row: int, reason: str) -> str:
        """Return what is wrong with an add. The data file is intact where it is about the vector alone."""
        problems, vector = self.looked.problems, self.named.vectors[row]
        is_of_vector_alone = problems.get(self.named.data[row] or b"") in (None, INTACT)
        if vector is None or not is_of_vector_alone or problems.get(vector) != Problem.MISSING.value:
            return reason
        return f"its deletion vector ({decode_path_bytes(vector)}) is missing"

    def _record_size(self, finding: Finding, row: int) -> None:
        key = self.named.data[row]
        size = None if key is None else self.looked.sizes.get(key)
        reason = self.obstacle or (
            "the file is complete, but the log does not say how many rows it had" if size is None else None
        )
        if reason is not None or size is None:
            self.unrepaired.append(left(finding, str(reason)))
            return
        self.amended[row] = Amendment(size=size)
        what = f"record the size of {finding.place.key}, which has all its rows: {size:,} bytes"
        self.steps.append(Step(finding.rule.id, finding.place, StepKind.REBUILD, 0, what))

    def _lost_keys(self, row: int) -> list[bytes]:
        keys = (self.named.data[row], self.named.vectors[row])
        return [key for key in keys if key is not None and self.looked.problems.get(key) not in (None, INTACT)]

    def _problem(self, row: int, finding: Finding | None = None) -> tuple[str | None, str | None]:
        """Return what is wrong with an add, by its data file, else by its vector, else as a finding says."""
        problems, reasons = self.looked.problems, self.looked.reasons
        keys = [key for key in (self.named.data[row], self.named.vectors[row]) if key is not None]
        for key in sorted(keys, key=lambda one: problems.get(one) == INTACT):
            if key in problems:
                return problems[key], reasons.get(key)
        if finding is None:
            return None, None
        is_elsewhere = (self.named.vectors if is_of_vector(finding) else self.named.data)[row] is None
        if is_elsewhere and (is_of_vector(finding) or not finding.rule.id.endswith("file-missing")):
            return CONTENT, finding.message
        return (Problem.MISSING.value, "it is outside the table") if is_elsewhere else (None, None)

    def _loss(self, row: int) -> FileTotals:
        adds = self.named.adds.slice(row, 1)
        records = extract_num_records_column(adds["stats"].combine_chunks())[0].as_py()
        vector = adds["deletionVector"][0].as_py()
        deleted = 0 if vector is None else vector.get("cardinality")
        rows = None if records is None or deleted is None else max(records - deleted, 0)
        return FileTotals(1, adds["size"][0].as_py() or 0, rows)

    def _removal(self) -> RemoveFiles:
        rows = sorted(self.removed)
        adds = self.named.adds.take(rows)
        paths = tuple(self.named.paths[row] for row in rows)
        problems = self.looked.problems
        gone, unreadable = dict[str, frozenset[bytes]](), list[DamagedFile]()
        for row, path, vector in zip(rows, paths, adds["deletionVector"].to_pylist(), strict=True):
            lost, key = self._lost_keys(row), self.named.data[row]
            if lost and all(problems[one] == Problem.MISSING.value for one in lost):
                gone[path] = frozenset(lost)
            if key is not None and problems.get(key) in (Problem.SIZE.value, Problem.FOOTER.value, CONTENT):
                unreadable.append(DamagedFile(path, vector and without_nulls(vector)))
        return RemoveFiles(combine_chunks(_keys_of(adds)), paths, gone, tuple(unreadable))

    def _whole_directories(self, lost: set[int]) -> tuple[str, ...]:
        """Return the directories of several live files that would lose all of them."""
        counts: dict[str, int] = {}
        for row in lost:
            directory = self.named.paths[row].rpartition("/")[0]
            counts[directory] = counts.get(directory, 0) + 1
        live = self.named.directories
        return tuple(sorted(name for name, count in counts.items() if 1 < count == live.get(name)))


def _chosen(now: Snapshot, mask: Mask) -> pyarrow.Table | None:
    """Return the whole adds of a version that a mask chooses."""
    found = now.file_actions.map_actions("add", lambda adds: pc.filter(adds, mask(adds)))
    parts = [pa.Table.from_batches([part]) for part in found if part.num_rows]
    return pa.concat_tables(parts) if parts else None


def _are_live(now: Snapshot, adds: RecordBatch) -> bool:
    keys = hash_file_actions(adds)
    live = _chosen(now, lambda batch: pc.is_in(hash_file_actions(batch), value_set=keys))
    return live is not None and live.num_rows == adds.num_rows


def _keys_of(adds: pyarrow.Table) -> ArrowArray:
    return pa.concat_arrays([hash_file_actions(batch) for batch in adds.combine_chunks().to_batches()])


def _still_lost(table: TableHandle, adds: pyarrow.Table, gone: Mapping[str, frozenset[bytes]]) -> pyarrow.Table:
    """Return the adds without those whose files were missing and are there by now."""
    needed = needed_of(table, adds)
    names = combine_chunks(needed.files["path"]).to_pylist()
    _, sizes = locate_files(table.storage, needed, table.engine, table.progress)
    there = {name for name, size in zip(names, sizes.to_pylist(), strict=True) if size is not None}
    paths = adds["path"].to_pylist()
    is_back = [path in gone and gone[path] <= there for path in paths]
    return adds.filter(pa.array([not one for one in is_back], pa.bool_()))


def _past(finding: Finding) -> Unrepaired:
    """Return a finding about a file of older versions only, or about change data: no reader of the newest one fails."""
    return left(finding, "the newest version does not have this file")._replace(severity=Severity.WARNING)


class DamagedFile(NamedTuple):
    """A data file, parts of which may be readable: its path as in the log, and its vector."""

    path: str
    vector: Descriptor | None


def salvage(run: Run, files: tuple[DamagedFile, ...]) -> int:
    """Write the readable rows of files below `rows/` of the backup, and return their number.

    A file is passed over where its footer or its vector cannot be read: then it is not known which rows it had. The
    same holds for one whose times before 1900 are of an unknown time zone: the backup has the file itself.
    """
    return sum(_salvaged(run, file) for file in files)


def _salvaged(run: Run, file: DamagedFile) -> int:
    files = run.table.files()
    store, target = run.backup.store, run.backup.below(f"rows/{decode(file.path).rpartition('://')[2].lstrip('/')}")
    try:
        deleted = None if file.vector is None else read_vector(files, file.vector)
        with open_data_file(files, DataFile(file.path, None)) as opened:
            reader = ParquetReader(opened.source, verify_pages=True)
            groups = _groups(reader, deleted)
            first = next(groups, None)
            if first is None:
                return 0
            with store.draft(target) as draft:
                with translate_write_errors(draft.local_path, target), open(draft.local_path, "wb") as sink:
                    # Arrow keeps the marks of the footer in the schema, also those of the calendar before `_rebase`.
                    stream = ParquetStream(sink, first.schema.remove_metadata())
                    for table in (first, *groups):
                        for batch in table.to_batches():
                            stream.add(batch)
                    stream.finish()
                outcome = draft.publish(replace=True)
                if isinstance(outcome, Unknown):
                    raise StorageFailed(f"{target} may not have been written: {outcome.cause}")
                return stream.rows
    except DataUnreadable:
        return 0
    except (pa.ArrowException, OSError) as fault:
        if isinstance(fault, DeltacliError):
            raise
        raise_if_out_of_memory(fault)
        return 0


def _groups(reader: ParquetReader, deleted: DeletedRows | None) -> Iterator[pyarrow.Table]:
    """Yield the row groups that can be read, without deleted rows."""
    metadata, begin = reader.metadata, 0
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group).num_rows
        try:
            table = reader.read_group(group)
            for column in table.columns:
                column.validate(full=True)
        except (pa.ArrowException, OSError) as fault:
            raise_if_out_of_memory(fault)
        else:
            mask = None if deleted is None else deleted.mask(begin, rows)
            yield _rebase(table if mask is None else table.filter(pc.invert(mask)), reader)
        begin += rows


def _rebase(rows: pyarrow.Table, reader: ParquetReader) -> pyarrow.Table:
    """Return the rows of a file with its dates and times in the calendar of today, which new files state."""
    metadata, first_leaf = reader.metadata, 0
    for place, field in enumerate(rows.schema):
        leaves = range(first_leaf, first_leaf + count_leaves(field.type))
        first_leaf = leaves.stop
        hybrid = hybrid_column(metadata.schema, leaves, metadata.metadata)
        if hybrid is not None:
            values = rebased(rows.column(place), hybrid)
            rows = rows.set_column(place, field.with_type(values.type), values)
    return rows


# -- files whose rows are duplicates -----------------------------------------------------------------------------------

_PAST = "the newest version does not have the file as it was then"
_UNKNOWN = "it is not known that other files have its rows; restore goes back to a version before the commit"


def plan_doubled(
    table: TableHandle, findings: Sequence[Finding], now: Snapshot, listing: LogListing, obstacle: str | None
) -> Planned:
    """Return the step for files that a commit moved and did not remove. Raises StorageFailed."""
    by_version: dict[int, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_version[-1 if finding.place.version is None else finding.place.version].append(finding)
    later = added_later(table, findings, listing)
    steps, unrepaired, paths = list[Step](), list[Unrepaired](), list[str]()
    keys: list[ArrowArray] = []
    others: dict[int, RecordBatch] = {}
    for version, some in by_version.items():
        found = None if obstacle is not None else _doubled(table, version, listing, now)
        live = {} if found is None else _live(now, hash_file_actions(found[0]))
        for finding in some:
            path = canonicalize_path(finding.place.key or "")
            if found is None:
                unrepaired.append(left(finding, obstacle or _UNKNOWN))
            elif path not in live or finding.place.key in later:
                unrepaired.append(left(finding, _PAST)._replace(severity=Severity.WARNING))
            else:
                what = f"remove {finding.place.key}, whose rows the new files of commit {version} have"
                steps.append(Step(finding.rule.id, finding.place, StepKind.REBUILD, 0, what))
                paths.append(live[path])
                keys.append(hash_file_actions(found[0].filter(_is_at(found[0], path))))
                others[version] = found[1]
    if not keys:
        return Planned(unrepaired=unrepaired)
    elsewhere = pa.Table.from_batches([*others.values()]).combine_chunks().to_batches()[0]
    return Planned(steps, [RemoveFiles(pa.concat_arrays(keys), tuple(paths), {}, (), elsewhere)], unrepaired)


def _doubled(
    table: TableHandle, version: int, listing: LogListing, now: Snapshot
) -> tuple[RecordBatch, RecordBatch] | None:
    """Return the removed adds of a commit and its new files, which have their rows; None where that is unknown."""
    file = listing.commits.get(version)
    if file is None or version == 0:
        return None
    actions = list(stream_commit(table.storage, file))
    files = [(kind, action) for kind, action in actions if kind != "commitInfo"]
    if not all(kind in ("add", "remove") and action.get("dataChange") is False for kind, action in files):
        return None
    gone = {canonicalize_path(str(action.get("path"))) for kind, action in files if kind == "remove"}
    try:
        before = read_snapshot(table, version=version - 1)
        sources = _at(before, gone)
        if sources is None or sources.num_rows != len(gone):  # one of them may be there twice, or was not
            return None
        adds = build_action_batch([action for kind, action in files if kind == "add"], action_schemas().add, file.name)
        if len(_live(now, hash_file_actions(adds))) != adds.num_rows:
            return None
        if _rows_of(table, before, sources) != _rows_of(table, before, adds):
            return None
    except DeltacliError:
        return None
    return sources, adds


def _at(snapshot: Snapshot, paths: set[str]) -> RecordBatch | None:
    """Return the live adds of some canonical paths."""

    def chosen(adds: RecordBatch) -> RecordBatch:
        return adds.filter(
            pa.array([canonicalize_path(path) in paths for path in adds.column("path").to_pylist()], pa.bool_())
        )

    found = [part for part in snapshot.file_actions.map_actions("add", chosen) if part.num_rows]
    return pa.Table.from_batches(found).combine_chunks().to_batches()[0] if found else None


def _is_at(adds: RecordBatch, path: str) -> ArrowArray:
    return pa.array([canonicalize_path(one) == path for one in adds.column("path").to_pylist()], pa.bool_())


def _live(now: Snapshot, keys: ArrowArray) -> dict[str, str]:
    """Return the paths of the live adds with some keys, by their canonical spelling."""

    def chosen(adds: RecordBatch) -> list[str]:
        found: list[str] = adds.filter(pc.is_in(hash_file_actions(adds), value_set=keys)).column("path").to_pylist()
        return found

    return {canonicalize_path(path): path for part in now.file_actions.map_actions("add", chosen) for path in part}


def _rows_of(table: TableHandle, snapshot: Snapshot, adds: RecordBatch) -> tuple[int, ...]:
    """Return the digest of the live rows of some files, read by the schema of a version."""
    read = build_data_files(adds, snapshot.config, snapshot.schema.fields, version=snapshot.version)
    pieces = [[source] for source in read]
    digest = MultisetDigest()
    shared = {WANTED: make_full_read_spec(snapshot.config)}
    for answer in table.engine.run_tasks(digest_rows, pieces, table.stores, shared=shared):
        digest.add(answer)
    return digest.answer()
