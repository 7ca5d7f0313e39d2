"""Read all of a checkpoint for `validate`: whatever is damaged becomes a finding, and the rest is still read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import CheckpointUnreadable, CommitCorrupt
from deltacli.core.memory import raise_if_out_of_memory
from deltacli.core.typing import ArrowArray, RecordBatch
from deltacli.core.units import plural
from deltacli.delta.checkpoint.content import SMALL_ACTIONS
from deltacli.delta.log.actions import FIELDS, Action
from deltacli.delta.log.file_actions import action_schemas, build_action_batch
from deltacli.delta.log.segment import LOG_DIRECTORY, CheckpointInstance, Place
from deltacli.delta.paths.spelling import sidecar_location
from deltacli.rules.checkpoints import contents as rules
from deltacli.rules.framework.base import Finding
from deltacli.rules.log.commit_lines import MISSING_REQUIRED, LineScanner, ScannedLines, faults_of, report_field
from deltacli.storage import ReadStorage
from deltacli.work.checkpoints.full_rows import select_full_rows
from deltacli.work.checkpoints.parquet_files import (
    OpenParquet,
    checkpoint_faults,
    open_parquet,
    select_rows_of_kind,
)
from deltacli.work.checkpoints.reading import MAX_JSON_BYTES, read_small_actions

_ROWS_A_BATCH = 16_384
_MOST_OPEN = 16
Rows = TypeVar("Rows")
_PARSED = ("partitionValues_parsed", "stats_parsed")


class CheckpointAdds(NamedTuple):
    """Adds of a checkpoint as `action_schemas().add`, and the parsed values that the checkpoint stores with them."""

    path: str
    adds: pa.RecordBatch
    parsed_partitions: ArrowArray
    parsed_stats: Any


@dataclass
class InspectedCheckpoint:
    """All of a checkpoint except its file actions, which are passed to callbacks."""

    instance: CheckpointInstance
    small: list[tuple[str, Action, str]] = field(default_factory=list)
    schemas: dict[str, pa.Schema] = field(default_factory=dict)
    file_sizes: dict[str, int] = field(default_factory=dict)
    rows: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    inline_file_actions: int = 0
    missing_sidecars: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    is_readable: bool = True
    small_is_whole: bool = True
    """False if a top-level file of the checkpoint, not a sidecar, could not be read."""


class CallbackFailedError(Exception):
    """An error in a callback for the rows of a checkpoint, as opposed to a fault of the file."""


class CheckpointReader:
    """Reads one checkpoint from beginning to end, and passes its file actions to `take_adds` and `take_removes`.

    `advance` is called with rows that were taken, and their bytes, as far as files are read batch by batch.
    """

    def __init__(
        self,
        storage: ReadStorage,
        instance: CheckpointInstance,
        take_adds: Callable[[CheckpointAdds], None],
        take_removes: Callable[[pa.RecordBatch], None],
        scanner: LineScanner,
        sidecar_sizes: Mapping[str, int],
        advance: Callable[[int, int], None],
    ) -> None:
        """Make the reader of a checkpoint.

        Args:
            storage: The store of the table.
            instance: The checkpoint.
            take_adds: Gets its adds, batch by batch.
            take_removes: Gets its tombstones.
            scanner: Reads the lines of a JSON checkpoint.
            sidecar_sizes: The bytes of the files in the directory of sidecars, by name.
            advance: Gets the rows that were taken, and their bytes, as files are read.
        """
        self._storage = storage
        self._advance = advance
        self._sidecar_sizes = sidecar_sizes
        self._take_adds = _mark_callback_errors(take_adds)
        self._take_removes = _mark_callback_errors(take_removes)
        self._scanner = scanner
        self._multiple: Counter[str] = Counter()
        self.found = InspectedCheckpoint(instance)

    def read(self, after_small: Callable[[InspectedCheckpoint], None]) -> InspectedCheckpoint:
        """Read all files. Anything unreadable is reported as a finding, and the rest is still read.

        `after_small` is called after the small actions of the top-level files are read, before any file action is
        passed on.
        """
        with ExitStack() as open_files:
            self._read_top_level(after_small, open_files)
        checkpoint = self.found
        for kind, action, _ in list(checkpoint.small):
            if kind == "sidecar" and isinstance(action.get("path"), str):
                self._read_sidecar(sidecar_location(action))
        for path, count in self._multiple.items():
            has = "has" if count == 1 else "have"
            message = f"{plural(count, 'row')} of the checkpoint {has} no action or several; each row is one action"
            checkpoint.findings.append(rules.MULTI_ACTION_ROW.at(self._place(path), message, seen=count, expected=0))
        return checkpoint

    def _read_top_level(self, after_small: Callable[[InspectedCheckpoint], None], open_files: ExitStack) -> None:
        """Read the top-level files. A few are kept open between their small actions and their file actions."""
        checkpoint = self.found
        paths = [f"{LOG_DIRECTORY}/{file.name}" for file in checkpoint.instance.files]
        scanned: dict[str, ScannedLines] = {}
        opened: dict[str, OpenParquet] = {}

        # The small actions of all files come first: the rules about file actions need the protocol and the metadata.
        for file, path in zip(checkpoint.instance.files, paths, strict=True):
            checkpoint.file_sizes[path] = file.size_bytes
            with self._faults_reported(path):
                if file.path.is_json:
                    if file.size_bytes > MAX_JSON_BYTES:
                        raise CheckpointUnreadable(f"it is larger than {MAX_JSON_BYTES >> 20} MiB")
                    with checkpoint_faults(path):
                        scanned[path] = self._scanner.scan(self._storage.read(path), self._place(path))
                    self._take_small_lines(path, scanned[path])
                elif len(opened) < _MOST_OPEN:
                    opened[path] = open_files.enter_context(open_parquet(self._storage, path))
                    with checkpoint_faults(path):
                        self._take_small_rows(opened[path])
                else:
                    with open_parquet(self._storage, path) as parquet:
                        self._take_small_rows(parquet)

        checkpoint.small_is_whole = checkpoint.is_readable
        after_small(checkpoint)
        for path in paths:
            with self._faults_reported(path):
                if path in scanned:
                    self._take_file_lines(path, scanned[path])
                elif path in checkpoint.schemas and path in opened:
                    with checkpoint_faults(path):
                        self._read_file_actions(opened[path])
                elif path in checkpoint.schemas:
                    with open_parquet(self._storage, path) as parquet:
                        self._read_file_actions(parquet)
        checkpoint.inline_file_actions = checkpoint.counts["add"] + checkpoint.counts["remove"]

    def _read_sidecar(self, path: str) -> None:
        checkpoint = self.found
        size = self._sidecar_sizes.get(path.rsplit("/", 1)[-1])
        if size is None:
            checkpoint.missing_sidecars.append(path)
            checkpoint.is_readable = False
            return
        checkpoint.file_sizes[path] = size
        with self._faults_reported(path), open_parquet(self._storage, path) as parquet:
            self._take_small_rows(parquet)
            self._read_file_actions(parquet)

    @contextmanager
    def _faults_reported(self, path: str) -> Iterator[None]:
        """Report a fault that prevents reading a file as a finding."""
        checkpoint = self.found
        try:
            yield
        except CheckpointUnreadable as fault:
            checkpoint.is_readable = False
            message = f"{path.rsplit('/', 1)[-1]} cannot be read as a checkpoint"
            seen = fault.facts.get("reason", fault.message)
            if not any(finding.place.path == path for finding in checkpoint.findings):
                checkpoint.findings.append(rules.UNREADABLE.at(self._place(path), message, seen=seen))

    def _take_small_rows(self, parquet: OpenParquet) -> None:
        checkpoint = self.found
        path = parquet.path
        checkpoint.schemas[path] = parquet.file.schema_arrow
        checkpoint.rows[path] = parquet.file.metadata.num_rows
        small = [(kind, action) for kind, action in read_small_actions(parquet) if self._is_sound(kind, action, path)]
        checkpoint.small.extend((kind, action, path) for kind, action in small)
        checkpoint.counts.update(kind for kind, _ in small)

    def _is_sound(self, kind: str, action: Action, path: str) -> bool:
        """Return whether the fields of a row have the required types. Separate rules report missing fields."""
        wrong = [fault for fault in faults_of(kind, action) if fault.found is not None]
        self.found.findings.extend(report_field(kind, fault, self._place(path)) for fault in wrong)
        return not wrong

    def _read_file_actions(self, parquet: OpenParquet) -> None:
        """Pass on the file actions of a Parquet file, and count the rows that are not exactly one action."""
        schemas = action_schemas()
        columns = parquet.columns
        known = {"add", "remove", *SMALL_ACTIONS}
        fields = parquet.file.schema_arrow
        others = [field.name for field in fields if field.name not in known and pa.types.is_struct(field.type)]
        bytes_per_row = self.found.file_sizes[parquet.path] / max(parquet.file.metadata.num_rows, 1)
        for group in range(parquet.file.metadata.num_row_groups):
            wanted = [name for name in ("add.path", "remove.path") if columns.has(name)]
            kinds = [kind for kind, leaf in SMALL_ACTIONS.items() if columns.holds(group, f"{kind}.{leaf}")]
            wanted += [f"{kind}.{SMALL_ACTIONS[kind]}" for kind in kinds]
            if columns.holds(group, "add.path"):
                wanted += columns.whole("add", schemas.add.names)
                wanted += [f"add.{name}" for name in _PARSED if columns.has(f"add.{name}")]
            if columns.holds(group, "remove.path"):
                wanted += columns.whole("remove", schemas.remove.names)
            wanted += others
            if not wanted:
                continue
            for batch in parquet.batches(group, list(dict.fromkeys(wanted)), rows=_ROWS_A_BATCH):
                actions_per_row = None
                for column in batch.columns:
                    if pa.types.is_struct(column.type):
                        is_present = pc.cast(pc.is_valid(column), pa.int8())
                        actions_per_row = is_present if actions_per_row is None else pc.add(actions_per_row, is_present)
                if actions_per_row is not None and not pc.all(pc.equal(actions_per_row, 1)).as_py():
                    self._multiple[parquet.path] += pc.sum(pc.not_equal(actions_per_row, 1)).as_py()
                for name in others:
                    self.found.counts[name] += batch.num_rows - batch.column(name).null_count
                self._take_batch(batch, parquet.path)
                self._advance(batch.num_rows, int(batch.num_rows * bytes_per_row))

    def _take_batch(self, batch: RecordBatch, path: str) -> None:
        """Pass on the adds and the removes of a batch."""
        schemas = action_schemas()
        if batch.schema.get_field_index("add") >= 0:
            rows = select_full_rows(batch, "add", schemas.add, path)
            if rows is not None:
                rows.validate(full=True)  # invalid UTF-8 would reach the findings
                whole = select_rows_of_kind(batch, "add", path)
                parsed = {whole.type.field(i).name: i for i in range(whole.type.num_fields)}
                self.found.counts["add"] += rows.num_rows
                rows, whole = self._select_rows_with_keys(rows, whole, path)
                parsed_values = [whole.field(parsed[name]) if name in parsed else None for name in _PARSED]
                self._take_adds(CheckpointAdds(path, rows, *parsed_values))
        if batch.schema.get_field_index("remove") >= 0:
            rows = select_full_rows(batch, "remove", schemas.remove, path)
            if rows is not None:
                rows.validate(full=True)
                self.found.counts["remove"] += rows.num_rows
                self._take_removes(self._select_rows_with_keys(rows, rows, path)[0])

    def _select_rows_with_keys(self, rows: Any, whole: Any, path: str) -> tuple[Any, Any]:  # Any: rows
        """Return the rows that have the fields required for their key. The other rows are reported.

        Args:
            rows: The actions in the columns of `action_schemas()`.
            whole: The same rows with all columns of the checkpoint.
            path: The file.
        """
        kind = "add" if "modificationTime" in rows.schema.names else "remove"
        required = [name for name, field in FIELDS["add"].items() if field.required] if kind == "add" else ["path"]
        for name in required:
            missing = rows.column(name).null_count
            if missing:
                message = f"{kind}.{name} is missing in {missing} rows of the checkpoint"
                self.found.findings.append(MISSING_REQUIRED.at(self._place(path), message, seen=missing, expected=0))
        if not rows.column("path").null_count:
            return rows, whole
        has_path = pc.is_valid(rows.column("path"))
        return pc.filter(rows, has_path), pc.filter(whole, has_path)

    def _take_small_lines(self, path: str, scanned: ScannedLines) -> None:
        checkpoint = self.found
        checkpoint.findings.extend(scanned.findings)
        checkpoint.is_readable &= scanned.is_readable and not scanned.broken
        checkpoint.rows[path] = len(scanned.actions) + len(scanned.broken)
        checkpoint.counts.update(placed.kind for placed in scanned.actions)
        checkpoint.small.extend((p.kind, p.action, path) for p in scanned.actions if p.kind not in ("add", "remove"))

    def _take_file_lines(self, path: str, scanned: ScannedLines) -> None:
        for kind, schema in (("add", action_schemas().add), ("remove", action_schemas().remove)):
            actions = [placed.action for placed in scanned.actions if placed.kind == kind]
            for start in range(0, len(actions), _ROWS_A_BATCH):
                try:
                    rows = build_action_batch(actions[start : start + _ROWS_A_BATCH], schema, path)
                except CommitCorrupt as fault:
                    raise CheckpointUnreadable(fault.message, facts=fault.facts) from fault
                if kind == "add":
                    self._take_adds(CheckpointAdds(path, rows, None, None))
                else:
                    self._take_removes(rows)

    def _place(self, path: str) -> Place:
        return Place(path, None, self.found.instance.version)


def _mark_callback_errors(take: Callable[[Rows], None]) -> Callable[[Rows], None]:
    """Return a callback that raises its errors as CallbackFailedError, separate from faults of the file being read."""

    def taken(rows: Rows) -> None:
        try:
            take(rows)
        except Exception as fault:
            raise_if_out_of_memory(fault)
            raise CallbackFailedError(f"{type(fault).__name__}: {fault}") from fault

    return taken
