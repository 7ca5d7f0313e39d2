"""Enabling row tracking of a table that has rows, in several commits.

The feature comes first: from then on every writer gives ids to the rows of new files, so that the files without ids get
fewer. These are added again with ids, group by group. The property comes last, when no live file lacks them. Each step
looks at what is left to do, so an interrupted change is continued by the same command.

Spec: Row Tracking; Delta-Spark: ROW TRACKING BACKFILL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.batches import rebatch
from deltacli.changing.commit import Committed, Dropped
from deltacli.changing.commit_options import CommitOptions
from deltacli.changing.execution import ChangeExecution
from deltacli.changing.preflight import ROW_ID_FIELDS, find_row_id_errors, select_row_id_columns
from deltacli.core.errors import ConflictLost, Refused, Unreadable
from deltacli.core.machine import Machine
from deltacli.core.typing import ArrowArray, JsonObject, RecordBatch
from deltacli.delta.log.actions import FIELDS, Action
from deltacli.delta.log.commit_content import CommitRequest, OnConflict, TouchedFiles, WatchedFiles, encoded_files
from deltacli.delta.log.file_actions import extract_num_records_column
from deltacli.delta.log.row_ids import FEATURE, MATERIALIZED_NAMES, assigns_row_ids
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.protocol.property_changes import suspended
from deltacli.delta.schema.types import walk
from deltacli.delta.schema.widened_schema import read_exactly, write_exactly
from deltacli.table.ambiguous_files import require_engine_agreement
from deltacli.table.handle import TableHandle, managed_store
from deltacli.table.version import Snapshot
from deltacli.work.rows.data_files import DataFile, open_data_file

OPERATION = "ROW TRACKING BACKFILL"
FILES_PER_COMMIT = 22_000
"""As in Delta-Spark (its setting backfill.maxNumFiles): a larger commit conflicts with more writers."""
_COMMITS_PER_CHECKPOINT = 5
"""With more files after the newest checkpoint, every reader needs hundreds of MB: with 10, a million files take 470 MB
here, with 5 they take 380 MB.
"""
_MOST_ROUNDS = 100
"""Times that files without ids are looked for again: a writer that ignores the protocol could add them forever."""
_IDS = ("baseRowId", "defaultRowCommitVersion")
_PREFIXES = ("_row-id-col-", "_row-commit-version-col-")

# -- what is to be done ------------------------------------------------------------------------------------------------


_File = tuple[str, int]
"""Path and bytes of a file, which another one in its place rarely shares."""


class Backlog(NamedTuple):
    """The live files without row ids, and how many of these have no number of records in the log."""

    files: int
    uncounted: int
    counts: Mapping[_File, int] = {}
    """The rows that the footers of uncounted files state."""
    rows: int = 0
    """How many rows get ids."""

    @property
    def commits(self) -> int:
        return -(-self.files // FILES_PER_COMMIT)

    def as_json(self) -> JsonObject:
        return {"files": self.files, "uncounted": self.uncounted, "commits": self.commits}


def backlog_of(snapshot: Snapshot) -> Backlog:
    """Return the files of a version that get row ids. Raises Refused (`rowtracking.*`) where the ids that other files
    have already are not unique or above the high-water mark, so that it is not known which are free; DataUnreadable for
    the footer of a file whose rows the log does not count, which decides that as well. Also raises Refused where
    engines do not read the same files (`path.same-file-two-spellings`): some would find files without ids.
    """
    require_engine_agreement(snapshot, "giving row ids")

    def look(adds: RecordBatch) -> tuple[int, RecordBatch, RecordBatch, int]:
        mask, without = _unsure(snapshot, adds), pc.is_null(adds.column("baseRowId"))
        unsure = pc.filter(adds, mask).select(["path", "size", "baseRowId"])
        having = pc.filter(select_row_id_columns(adds), pc.invert(without))
        records = pc.filter(extract_num_records_column(adds.column("stats")), pc.and_not(without, mask))
        return pc.sum(_lacks_ids(adds)).as_py() or 0, unsure, having, pc.sum(records).as_py() or 0

    fields = (*ROW_ID_FIELDS, "size", "deletionVector")
    parts = list(snapshot.file_actions.map_actions("add", look, fields=fields))
    if not parts:
        return Backlog(0, 0)
    unsure = pa.Table.from_batches([one for _, one, _, _ in parts])
    counts = _rows_in_footers(snapshot.table, unsure.column("path").to_pylist(), unsure.column("size").to_pylist())
    having = pa.Table.from_batches([one for _, _, one, _ in parts])
    by_path = {path: rows for (path, _), rows in counts.items()}
    if having.num_rows and (refusals := find_row_id_errors(snapshot, _with_counts(having, by_path))):
        raise Refused.from_refusals(list(refusals))
    without = pc.filter(unsure.column("path"), pc.is_null(unsure.column("baseRowId"))).to_pylist()
    rows = sum(known for *_, known in parts) + sum(by_path[path] for path in without)
    return Backlog(sum(files for files, *_ in parts), len(without), counts, rows)


def require_rearranging(table: TableHandle, *, asks: bool) -> None:
    """Raise Refused (`catalog.permission`) where the catalog of a table does not permit to commit its files again: now
    where it `asks`, else as the catalog said last.
    """
    if (managed := managed_store(table.storage)) is not None:
        managed.require_permission("DATA_REORGANIZATION", "give row ids to files that are there", asks=asks)


def materialized_names(config: TableConfiguration, machine: Machine) -> dict[str, str]:
    """Return the properties that name the columns in which files store row ids and commit versions: those that the
    table has, else, or where a column of the table has one or both are the same, names that no column has.
    """
    fields = walk(config.schema) if config.schema else ()
    taken = {name.lower() for _, field in fields for name in (field.name, config.physical_name(field))}
    found = {}
    for key, prefix in zip(MATERIALIZED_NAMES, _PREFIXES, strict=True):
        name = config.properties.get(key)
        while not name or name.lower() in taken:
            name = f"{prefix}{machine.new_uuid()}"
        found[key] = name
        taken.add(name.lower())
    return found


def _lacking(snapshot: Snapshot) -> int:
    def count(adds: RecordBatch) -> int:
        return pc.sum(_lacks_ids(adds)).as_py() or 0

    return sum(snapshot.file_actions.map_actions("add", count, fields=_IDS))


def _lacks_ids(adds: RecordBatch) -> ArrowArray:
    return pc.or_(*(pc.is_null(adds.column(name)) for name in _IDS))


def _unsure(snapshot: Snapshot, adds: RecordBatch) -> ArrowArray:
    from deltacli.operations.read.snapshot import doubtful_counts

    is_known = pc.fill_null(pc.greater_equal(extract_num_records_column(adds.column("stats")), 0), False)
    return pc.or_(pc.invert(is_known), doubtful_counts(snapshot, adds))


def _rows_in_footers(table: TableHandle, paths: Sequence[str], sizes: Sequence[int]) -> dict[_File, int]:
    """Return how many rows files have. Raises DataUnreadable."""
    if not paths:
        return {}
    files = table.files()

    def rows_of(file: DataFile) -> int:
        with open_data_file(files, file) as opened:
            return int(opened.parquet.metadata.num_rows)

    found: dict[_File, int] = {}
    with table.progress.step("reading footers", unit="files", total=len(paths)) as step:
        wanted = list(map(DataFile, paths, sizes))
        counts = table.engine.run(rows_of, wanted, at_once=table.storage.capabilities.parallel_reads)
        for path, size, rows in zip(paths, sizes, counts, strict=True):
            found[path, size] = rows
            step.advance(1)
    return found


def _with_counts(having: pa.Table, counts: Mapping[str, int]) -> pa.Table:
    """Return the columns of `select_row_id_columns` with the numbers of records that footers state."""
    if not counts:
        return having
    known = zip(having.column("path").to_pylist(), having.column("num_records").to_pylist(), strict=True)
    numbers = pa.array([counts.get(path, records) for path, records in known], pa.int64())
    at = having.schema.get_field_index("num_records")
    return having.set_column(at, "num_records", numbers)


# -- doing it ----------------------------------------------------------------------------------------------------------


def enable(
    execution: ChangeExecution[Any, Any],
    upgrade: Callable[[Snapshot], CommitRequest | None],
    settle: Callable[[Snapshot], CommitRequest | None],
    committed: Callable[[int], None],
    commit_metadata: Mapping[str, str],
    counts: Mapping[_File, int],
) -> None:
    """Commit the protocol that `upgrade` returns for a version, row ids for the files without, and the properties of
    `settle`; each None where nothing is left to do. `committed` is told of each version; `counts` are those of the
    `Backlog`.

    Raises what `ChangeExecution.commit_step` raises, Refused (`rowtracking.suspended`), and DataUnreadable for the
    footer of a file whose rows nobody has counted.
    """

    def commit(make: Callable[[Snapshot], CommitRequest | None], after: Committed | None = None) -> object:
        done = execution.commit_step(make, previous_step=after, options=CommitOptions(metadata=commit_metadata))
        if isinstance(done, Committed):
            committed(done.version)
        return done

    commit(upgrade)
    for _ in range(_MOST_ROUNDS):
        _backfill(execution.table, counts, commit)
        lacking: list[int] = []

        def last(snapshot: Snapshot, lacking: list[int] = lacking) -> CommitRequest | None:
            lacking[:] = [_lacking(snapshot)]
            return None if lacking[0] else settle(snapshot)

        commit(last)
        if not lacking[0]:
            return
    raise ConflictLost(
        "another writer keeps adding files without row ids, which the protocol forbids",
        code="rowtracking.base-row-id-missing",
        facts={"files without row ids": f"{lacking[0]:,}"},
    )


def _backfill(table: TableHandle, counts: Mapping[_File, int], commit: Callable[..., object]) -> None:
    """Give ids to files, commit by commit, with some checkpoints; the table is read once more at the end."""
    groups, last = _Groups(counts), None
    while True:
        done = commit(groups.request, after=last)
        if isinstance(done, Committed):
            groups.take_next()
            last = done
            if groups.number % _COMMITS_PER_CHECKPOINT == 0:
                from deltacli.operations.checkpoint import checkpoint as written

                groups.forget()
                last = done = None
                written.write_checkpoint(written.plan_checkpoint(table, written.CheckpointRequest()))
        elif isinstance(done, Dropped) and groups.is_touched:
            continue  # without these files
        elif last is None and not isinstance(done, Dropped):
            return
        else:
            last = None


class _Groups:
    """The files without ids of one version after the other, in groups."""

    def __init__(self, counts: Mapping[_File, int]) -> None:
        self._counts = counts
        self._snapshot: Snapshot | None = None
        self._left: Iterator[RecordBatch] = iter(())
        self._group: RecordBatch | None = None
        self._touched = TouchedFiles()
        self.number = 0
        """How many were committed."""

    def take_next(self) -> None:
        """Go on with the group after one that was committed."""
        self._group, self.number = None, self.number + 1

    def forget(self) -> None:
        """Let go of the version that is read, to go on with a newer one."""
        self._snapshot, self._left = None, iter(())

    def request(self, snapshot: Snapshot) -> CommitRequest | None:
        """Return the commit of a group, without the files that others have touched; None if none is left."""
        if snapshot is not self._snapshot:
            if not assigns_row_ids(snapshot.protocol, snapshot.metadata):
                if FEATURE in snapshot.protocol.supported_features:
                    raise suspended()
                raise ConflictLost("another writer dropped row tracking meanwhile", code="rowtracking.suspended")
            self._snapshot, self._left, self._group = snapshot, _grouped(snapshot), None
            self._touched = TouchedFiles()
        while True:
            group = next(self._left, None) if self._group is None else self._group
            if group is None:
                return None
            self._group = adds = pc.filter(group, pc.invert(self._touched.among(group)))
            if adds.num_rows:
                break
            self._group = None
        self._group = adds = _counted(snapshot, adds, self._counts)
        without = pc.filter(adds, pc.is_null(adds.column("baseRowId")))
        return CommitRequest(
            OPERATION,
            {"batchId": str(self.number)},
            body=lambda slot: encoded_files(lambda: [("add", adds)], slot),
            new_rows=pc.sum(extract_num_records_column(without.column("stats"))).as_py() or 0,
            reads=WatchedFiles(adds.column("path").to_pylist(), self._touched),
            on_conflict=OnConflict.DROP,
        )

    @property
    def is_touched(self) -> bool:
        return self._group is not None and bool(pc.any(self._touched.among(self._group)).as_py())


class AddsWithoutIds:
    """What the last commit depends on: that no other writer adds files without row ids."""

    def change(self, kind: str, action: Action) -> str | None:
        """Return how an action of another writer is one."""
        lacks = kind == "add" and any(action.get(name) is None for name in _IDS)
        return f"it adds {action.get('path')} without row ids" if lacks else None


def _grouped(snapshot: Snapshot) -> Iterator[RecordBatch]:
    """Return the files without ids as they are added again, in groups of one commit."""

    def again(adds: RecordBatch) -> RecordBatch:
        rows = pc.filter(adds, _lacks_ids(adds))
        columns = {name: rows.column(name) for name in FIELDS["add"]}
        columns["dataChange"] = pa.repeat(False, rows.num_rows)
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    return rebatch(snapshot.file_actions.map_actions("add", again), FILES_PER_COMMIT)


def _counted(snapshot: Snapshot, adds: RecordBatch, known: Mapping[_File, int]) -> RecordBatch:
    """Return adds with a number of records, those without from `known` or their footers. Raises DataUnreadable."""
    # With too small a number, as of one that does not count deleted rows, rows of other files would get the same ids.
    places = pc.indices_nonzero(pc.and_(pc.is_null(adds.column("baseRowId")), _unsure(snapshot, adds))).to_pylist()
    if not places:
        return adds
    texts: list[str | None] = adds.column("stats").to_pylist()
    paths, sizes = (adds.column(name).to_pylist() for name in ("path", "size"))
    unknown = [place for place in places if (paths[place], sizes[place]) not in known]
    counts = _rows_in_footers(snapshot.table, [paths[one] for one in unknown], [sizes[one] for one in unknown])
    for place in places:
        file, has_vector = (paths[place], sizes[place]), adds.column("deletionVector")[place].is_valid
        texts[place] = _with_records(
            texts[place], known[file] if file in known else counts[file], has_vector=has_vector
        )
    at = adds.schema.get_field_index("stats")
    return adds.set_column(at, adds.schema.field(at), pa.array(texts, pa.string()))


def _with_records(text: str | None, rows: int, *, has_vector: bool) -> str:
    """Return statistics with the number of records, other numbers in their spelling; those that are not JSON go."""
    try:
        known = read_exactly(text) if text else None
    except Unreadable:
        known = None
    others = dict(known) if isinstance(known, dict) else {"tightBounds": False} if has_vector else {}
    others.pop("numRecords", None)
    return write_exactly({"numRecords": rows, **others})
