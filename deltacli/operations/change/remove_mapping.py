"""Removing column mapping: every file is copied with the names of the columns of the table, in one commit with the
schema. Rows keep their order and their ids; deleted ones are left out.

Spec: Column Mapping; Delta-Spark: REMOVE COLUMN MAPPING.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from deltacli.changing.commit import Committed, wait_before_retry
from deltacli.changing.commit_options import CommitOptions
from deltacli.changing.execution import ChangeExecution
from deltacli.changing.new_files import NewFiles
from deltacli.changing.preflight import find_new_errors
from deltacli.core.errors import DeltacliError, OutcomeUnknown, Refused, command
from deltacli.core.typing import RecordBatch
from deltacli.core.units import plural
from deltacli.delta.clustering.clustering_columns import clustering_action
from deltacli.delta.evolution.draft import Draft, Forbidden, uses_mapping, without_mapping
from deltacli.delta.log.actions import Action
from deltacli.delta.log.commit_content import CommitRequest, EveryFile, NextVersion, encoded_files
from deltacli.delta.log.file_actions import action_schemas, build_action_batch
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.partitions.values import with_spelled_keys
from deltacli.delta.paths.spelling import decode
from deltacli.operations.change.alter import draft_of
from deltacli.operations.change.widen_type import refusal_error
from deltacli.operations.optimize.plan import new_directory, own_fields, rules_of
from deltacli.operations.optimize.request import OptimizeRequest
from deltacli.table.file_keys import build_removes, hash_file_actions
from deltacli.table.handle import TableHandle
from deltacli.table.older_metadata import read_column_names_for_tasks
from deltacli.table.version import Snapshot
from deltacli.work.rewrite.pieces import SPEC, NewFile, NewFileNames, RefusedFile, RewritePiece, RewriteSpec
from deltacli.work.rewrite.rewriting import NAMED, RewriteFiles
from deltacli.work.rows.data_files import DataFile

OPERATION = "REMOVE COLUMN MAPPING"
_LONGEST_PAUSE = 2
"""Every attempt copies only what came since the last one, so writers that commit without a break are outlasted."""


def files_to_rename(snapshot: Snapshot) -> tuple[int, int] | None:
    """Return the amount to copy; None without a mapping. Raises Refused where names or rules forbid the change."""
    if not uses_mapping(snapshot.config):
        return None
    _drafts(snapshot)
    if snapshot.config.mapping_mode == "none":
        return 0, 0
    sizes = [size for part in snapshot.file_actions.map_actions("add", _sizes, fields=["size"]) for size in part]
    return len(sizes), sum(sizes)


def _sizes(adds: RecordBatch) -> list[int]:
    return [size or 0 for size in adds.column("size").to_pylist()]


def metadata_without_mapping(snapshot: Snapshot) -> Action:
    """Return the metaData action that the removal of column mapping commits. Raises Refused."""
    return _drafts(snapshot)[1].metadata


def remove_mapping(execution: ChangeExecution[Any, Any], commit_metadata: Mapping[str, str]) -> int | None:
    """Commit a version without column mapping, and return it; None without one to remove.

    Raises Refused, also for a file that cannot be copied exactly; what `ChangeExecution.commit_step` raises;
    StorageFailed. New files are deleted where their commit certainly did not happen; an error names those that are
    left.
    """
    run = _Removal(execution.table)
    try:
        done = execution.commit_step(
            run.request,
            options=CommitOptions(
                recheck=run.look,
                metadata=commit_metadata,
                pause=lambda repetition: wait_before_retry(execution.table.machine, min(repetition, _LONGEST_PAUSE)),
            ),
        )
    except OutcomeUnknown as fault:
        run.new.leave_behind(run.new_paths())
        fault.facts |= run.new.left_behind_facts
        raise
    except DeltacliError as fault:
        run.new.delete(run.new_paths())
        fault.facts |= run.new.left_behind_facts
        raise
    except BaseException:
        if not run.may_be_committed:
            run.new.delete(run.new_paths())
        raise
    run.new.delete(run.unused)
    return done.version if isinstance(done, Committed) else None


def _drafts(snapshot: Snapshot) -> tuple[Draft, Draft]:
    """Return a version and what it is without mapping. Raises Refused."""
    before = draft_of(snapshot)
    try:
        after = without_mapping(before)
    except Forbidden as forbidden:
        raise refusal_error(forbidden.refusals) from None
    if broken := list(find_new_errors(snapshot.version, before.config, after.config)):
        raise refusal_error(broken)
    return before, after


_NARROW = ("path", "size", "deletionVector")


def _with_keys(adds: RecordBatch) -> tuple[RecordBatch, list[bytes]]:
    return adds, hash_file_actions(adds).to_pylist()


@dataclass
class _Copies:
    """The copies of the live files of one schema, by the keys of the files."""

    schema: object
    of: dict[bytes, tuple[NewFile, ...]]


class _Removal:
    def __init__(self, table: TableHandle) -> None:
        self._table = table
        self._copies = _Copies(None, {})
        self._named = NewFileNames()
        self.new = NewFiles(table)
        self._since = table.machine.monotonic()
        """When the first copies were written, or before that."""
        self.unused: list[str] = []
        """New files that the commit does not have: another writer removed what they were copied from."""
        self.may_be_committed = False

    def new_paths(self) -> list[str]:
        """Return the paths of all new files, also of those of tasks whose results were not read."""
        of_copies = [decode(file.path) for files in self._copies.of.values() for file in files]
        return list(dict.fromkeys([*self.unused, *of_copies, *self._named.paths]))

    def look(self) -> bool:
        """Look for the copies. Raises FileMissing."""
        copies = [file for files in self._copies.of.values() for file in files]
        return self.new.require_present({decode(file.path): file.size_bytes for file in copies}, self._since)

    def request(self, snapshot: Snapshot) -> CommitRequest | None:
        """Return the commit after a version, with a copy of every file; None without a mapping."""
        self.may_be_committed = False
        if not uses_mapping(snapshot.config):
            return None
        before, after = _drafts(snapshot)
        shape = (
            before.metadata["schemaString"],
            before.metadata.get("partitionColumns"),
            sorted(before.config.features),
        )
        if shape != self._copies.schema:
            self._copies = _Copies(shape, {})
        if before.config.mapping_mode != "none":
            self._copy(snapshot, before, after)
        body, rows, metrics = None, 0, _NOTHING
        if self._copies.of:
            body, rows, metrics = self._replacement(snapshot, after.config)
        self.may_be_committed = True
        domains = () if after.clustering == before.clustering else (clustering_action(after.clustering),)
        return CommitRequest(
            OPERATION,
            {},
            metrics,
            metadata=after.metadata,
            domains=domains,
            body=body,
            new_rows=rows,
            reads=EveryFile(),
        )

    def _copy(self, snapshot: Snapshot, before: Draft, after: Draft) -> None:
        """Copy the files that have no copy yet. Raises Refused for one that cannot be copied exactly."""
        table, copies = self._table, self._copies.of
        fresh = [
            (key, size or 0)
            for adds, keys in snapshot.file_actions.map_actions("add", _with_keys, fields=_NARROW)
            for key, size in zip(keys, adds.column("size").to_pylist(), strict=True)
            if key not in copies
        ]
        if not fresh:
            return
        rules = rules_of(OptimizeRequest(), snapshot.properties)
        target = max(rules.target_bytes, *(size for _, size in fresh))
        read_column_names_for_tasks(snapshot)
        # The configuration of the version knows its log, which tells a dropped column from one under its logical name.
        spec = RewriteSpec.make(
            after.config, target_bytes=target, written_by=snapshot.config, clustering=after.clustering
        )
        pieces = _pieces(snapshot, before.config, after.config, frozenset(key for key, _ in fresh), len(copies))
        shared = {SPEC: spec, NAMED: self._named}
        refused: list[RefusedFile] = []
        with table.progress.step("rewriting files", unit="files", total=len(fresh)) as step:
            results = table.engine.run_tasks(
                RewriteFiles(), pieces, table.stores, shared=shared, weigh=attrgetter("weight")
            )
            for (key, _), result in zip(fresh, results, strict=True):
                copies[key] = result.files
                refused += result.refused
                step.advance(1)
        if refused:
            raise Refused(
                f"{plural(len(refused), 'file')} cannot be copied with the names of the columns",
                code=refused[0].code,
                facts={"first": refused[0].path, "why": refused[0].reason},
                hint=command("validate", level="data"),
            )

    def _replacement(
        self, snapshot: Snapshot, config: TableConfiguration
    ) -> tuple[Callable[[NextVersion], Iterable[bytes]], int, Mapping[str, int]]:
        """Return the body that replaces every file of a version, the rows that it adds, and its metrics."""
        copies, now_ms = self._copies.of, self._table.clock()
        live = [
            (key, size or 0, vector is not None)
            for adds, keys in snapshot.file_actions.map_actions("add", _with_keys, fields=_NARROW)
            for key, size, vector in zip(
                keys, adds.column("size").to_pylist(), adds.column("deletionVector").to_pylist(), strict=True
            )
        ]
        copied = [file for key, _, _ in live for file in copies[key]]
        used = {decode(file.path) for file in copied}
        self.unused = [path for path in self.new_paths() if path not in used]

        def batches() -> Iterator[tuple[str, RecordBatch]]:
            for adds, keys in snapshot.file_actions.map_actions("add", _with_keys):
                yield "remove", build_removes(adds, now_ms, is_change=False)
                new = _adds(snapshot.config, config, adds, [copies[key] for key in keys])
                if new is not None:
                    yield "add", new

        rows = sum(file.rows for file in copied)
        metrics = {
            "numRewrittenFiles": len(live),
            "numOutputBytes": sum(file.size_bytes for file in copied),
            "numRemovedBytes": sum(size for _, size, _ in live),
            "numCopiedRows": rows,
            "numDeletionVectorsRemoved": sum(has_vector for _, _, has_vector in live),
        }
        return lambda slot: encoded_files(batches, slot), rows, metrics


_NOTHING: Mapping[str, int] = {}


def _pieces(
    snapshot: Snapshot, before: TableConfiguration, after: TableConfiguration, wanted: frozenset[bytes], number: int
) -> Iterator[RewritePiece]:
    """Yield the wanted files, each as a piece of its own, with the values of its partition under their new names."""
    fields = (*_NARROW, "partitionValues", "baseRowId", "defaultRowCommitVersion")
    for adds, keys in snapshot.file_actions.map_actions("add", _with_keys, fields=fields):
        values = _partition_values(before, after, adds)
        columns = [adds.column(name).to_pylist() for name in (*_NARROW, "baseRowId", "defaultRowCommitVersion")]
        for row, (key, path, size, vector, first, version) in enumerate(zip(keys, *columns, strict=True)):
            if key in wanted:
                source = DataFile(path, size, {}, vector, base_row_id=first, row_commit_version=version)
                directory = new_directory(after, values[row], snapshot.table.machine)
                yield RewritePiece(number, (source,), values[row], directory)
                number += 1


def _partition_values(
    before: TableConfiguration, after: TableConfiguration, adds: RecordBatch
) -> list[Mapping[str, str | None]]:
    """Return the values of each file by the names of columns; empty text is null."""
    old, new = list(before.partition_columns), list(after.partition_columns)
    if not old:
        return [{}] * adds.num_rows
    known = [dict(one or ()) for one in with_spelled_keys(adds.column("partitionValues"), old).to_pylist()]
    return [{name: one.get(stored) or None for stored, name in zip(old, new, strict=True)} for one in known]


def _adds(
    before: TableConfiguration, after: TableConfiguration, replaced: RecordBatch, copies: Sequence[Sequence[NewFile]]
) -> RecordBatch | None:
    values = _partition_values(before, after, replaced)
    actions = [
        {
            "path": file.path,
            "partitionValues": dict(values[row]),
            "size": file.size_bytes,
            "modificationTime": file.modification_ms,
            "dataChange": False,
            "stats": file.stats,
            **own,
        }
        for row, files in enumerate(copies)
        for own in [own_fields(replaced.slice(row, 1))]
        for file in files
    ]
    return build_action_batch(actions, action_schemas().add, "") if actions else None
