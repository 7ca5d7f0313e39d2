"""Writing the files of a checkpoint in each form: encoded as a draft, read back, then published.

Spec: Checkpoints; Action Reconciliation; V2 Spec; Sidecar Files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.changing.base_version import BaseVersion
from deltacli.changing.derived_files import guard_derived_write
from deltacli.core.errors import DeltacliError, FileMissing
from deltacli.core.progress import Step, report_items
from deltacli.core.typing import ArrowArray
from deltacli.delta.checkpoint import layout
from deltacli.delta.checkpoint.content import (
    Columns,
    checkpoint_schema,
    live_transactions,
    small_rows,
    tombstone_cutoff,
)
from deltacli.delta.log.actions import Action
from deltacli.delta.log.segment import LOG_DIRECTORY, SIDECAR_DIRECTORY
from deltacli.delta.log.state import TableConfiguration
from deltacli.storage import Created, Draft, Existed, Storage, Unknown
from deltacli.table.checksum_guard import require_matching_checksum
from deltacli.table.version import Snapshot
from deltacli.work.checkpoints import encoding, verifying
from deltacli.work.checkpoints import sidecars as sidecar_files
from deltacli.work.checkpoints.parquet_files import CheckpointPiece
from deltacli.work.parquet_encoding import Encoding

# -- the rows of a checkpoint ------------------------------------------------------------------------------------------


class StateRows:
    """The content of a checkpoint of a state. `expired` and `add_bytes` are totals of the rows taken so far."""

    def __init__(self, snapshot: Snapshot, columns: Columns, config: TableConfiguration, now_ms: int) -> None:
        self._snapshot = snapshot
        self._now_ms = now_ms
        self.converter = sidecar_files.RowConverter(columns, config, tombstone_cutoff(snapshot.properties, now_ms))
        are_young = snapshot.file_actions.has_commits_after(self.converter.cutoff_ms)
        self._of_commits = replace(self.converter, are_young=are_young)
        self.expired = 0
        self.add_bytes = 0

    def small(self) -> list[tuple[str, Action]]:
        """Return protocol, metadata, unexpired transactions and domains, in this order."""
        snapshot = self._snapshot
        found: list[tuple[str, Action]] = [
            ("protocol", snapshot.protocol.as_json()),
            ("metaData", snapshot.metadata.as_json()),
        ]
        for txn in live_transactions(snapshot.transactions, snapshot.properties, self._now_ms):
            action: Action = {"appId": txn.app_id, "version": txn.version}
            found.append(("txn", action if txn.last_updated is None else action | {"lastUpdated": txn.last_updated}))
        for domain in snapshot.domains:
            action = {"domain": domain.domain, "configuration": domain.configuration, "removed": False}
            found.append(("domainMetadata", action))
        return found

    def batches(self) -> Iterator[sidecar_files.RowBatch]:
        """Yield live files and unexpired tombstones."""
        with self._snapshot.table.progress.step("writing the checkpoint", unit="rows") as step:
            file_actions = self._snapshot.file_actions
            batches_of_commits = map(self._of_commits, file_actions.read_commit_batches())
            batches_of_checkpoint = file_actions.map_checkpoint_file_actions(self.converter)
            yield from self._counted(chain(batches_of_commits, batches_of_checkpoint), step)

    def read_commit_batches(self) -> Iterator[sidecar_files.RowBatch]:
        """Yield those of the commits, and of the lines of a JSON checkpoint."""
        with self._snapshot.table.progress.step("writing the checkpoint", unit="rows") as step:
            yield from self._counted(map(self._of_commits, self._snapshot.file_actions.read_commit_batches()), step)

    def take(self, add_bytes: int, expired: int) -> None:
        """Add the totals of rows that were written elsewhere."""
        self.add_bytes += add_bytes
        self.expired += expired

    def _counted(self, batches: Iterable[sidecar_files.RowBatch], step: Step) -> Iterator[sidecar_files.RowBatch]:
        for batch in batches:
            self.take(batch.add_bytes, batch.expired)
            yield batch
            step.advance(batch.rows)


# -- the files of each form --------------------------------------------------------------------------------------------

_ALL_KINDS = ("txn", *sidecar_files.FILE_KINDS, "metaData", "protocol", "domainMetadata")
_TOP_KINDS = (*_ALL_KINDS, "checkpointMetadata", "sidecar")
"""The columns of the main file of a V2 checkpoint in Parquet. Those of the file actions are all null, because sidecars
have their rows, but Delta for Spark does not open the table without them."""


@dataclass(frozen=True, slots=True)
class CheckpointFile:
    """A file of a checkpoint, relative to the table; `rows` is None where they were not counted."""

    path: str
    size_bytes: int
    rows: int | None

    def as_json(self) -> dict[str, Any]:
        return {"path": self.path, "sizeBytes": self.size_bytes, "rows": self.rows}


@dataclass(frozen=True, slots=True)
class WrittenCheckpoint:
    """A complete checkpoint: `actions` counts those of all files. The top-level file comes first."""

    version: int
    files: tuple[CheckpointFile, ...]
    actions: Mapping[str, int]
    expired_dropped: int
    schema: pa.Schema | None
    """UUID of the top-level file; None where it has none, or where another writer chose it."""
    parts: int | None = None
    was_there: bool = False
    """Another writer has created it in the meantime; it was not changed."""

    @property
    def rows(self) -> int:
        return sum(self.actions.values())

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


class CheckpointWriter:
    """Writes one version; each method is one form. Raises StorageFailed, NoAtomicCreate and Refused.

    `replace`: a classic file replaces an existing one. `base_version` is the version of the plan, which is looked at
    before a file is published that readers may use; `tell` is called with the path of each of these.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        columns: Columns,
        encoding: Encoding,
        rows: StateRows,
        base_version: BaseVersion,
        *,
        replace: bool = False,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._snapshot = snapshot
        self._storage = snapshot.table.writable()
        self._columns = columns
        self._encoding = encoding
        self._rows = rows
        self._replace = replace
        self._tell = tell
        self._basis = base_version
        self._unique = snapshot.table.machine.new_uuid()

    # -- forms ----------------------------------------------------------------------------------------------------

    def write_classic(self) -> WrittenCheckpoint:
        """One file with all actions."""
        version = self._snapshot.version
        schema = checkpoint_schema(self._columns, kinds=_ALL_KINDS)
        path = layout.classic_path(version)
        with self._storage.draft(path) as draft:
            with encoding.FileEncoder(draft.local_path, schema, self._encoding, name=path) as encoder:
                encoder.add_rows(small_rows(self._rows.small(), schema))
                for batch in self._rows.batches():
                    for kind, actions in batch.actions.items():
                        encoder.add(kind, actions)
                encoded = encoder.finish()
            self._require_proven(draft.local_path, path, encoded)
            self._require_checksum(encoded.actions)
            was_there = not self._published(draft, path, encoded.size_bytes, replace=self._replace)
            if (
                was_there and self._size_of(path) == 0
            ):  # not a checkpoint: left by a writer that does not create files atomically
                was_there = not self._published(draft, path, encoded.size_bytes, replace=True)
        size, rows = (self._size_of(path), None) if was_there else (encoded.size_bytes, encoded.rows)
        file = CheckpointFile(path, size, rows)
        known_schema = None if was_there else schema
        return WrittenCheckpoint(
            version, (file,), encoded.actions, self._rows.expired, known_schema, was_there=was_there
        )

    def write_parts(self, parts: int) -> WrittenCheckpoint:
        """Several files, published when all are encoded and verified."""
        version = self._snapshot.version
        schema = checkpoint_schema(self._columns, kinds=_ALL_KINDS)
        paths = [layout.part_path(version, part, parts) for part in range(1, parts + 1)]
        rows_a_group = max(encoding.ROWS_PER_GROUP // parts, 8_192)
        bytes_a_group = max(encoding.BYTES_A_GROUP // parts, 8 << 20)  # 8,192 adds of 1 KB each
        with ExitStack() as stack:
            drafts = [stack.enter_context(self._storage.draft(path)) for path in paths]
            encoders = [
                stack.enter_context(
                    encoding.FileEncoder(
                        *(draft.local_path, schema, self._encoding),
                        name=path,
                        rows_a_group=rows_a_group,
                        bytes_a_group=bytes_a_group,
                    )
                )
                for draft, path in zip(drafts, paths, strict=True)
            ]
            encoders[layout.part_of_others(parts)].add_rows(small_rows(self._rows.small(), schema))
            for batch in self._rows.batches():
                for kind, actions in batch.actions.items():
                    for part, chosen in _by_part(actions, parts):
                        encoders[part].add(kind, chosen)
            encoded = [encoder.finish() for encoder in encoders]
            for draft, path, one in zip(drafts, paths, encoded, strict=True):
                self._require_proven(draft.local_path, path, one)
            actions = _summed(one.actions for one in encoded)
            self._require_checksum(actions)
            was_there = self._publish_parts(list(zip(drafts, paths, encoded, strict=True)))
        known_schema = None if was_there else schema
        files = tuple(
            CheckpointFile(path, self._size_of(path), None)
            if was_there
            else CheckpointFile(path, one.size_bytes, one.rows)
            for path, one in zip(paths, encoded, strict=True)
        )
        return WrittenCheckpoint(version, files, actions, self._rows.expired, known_schema, parts, was_there)

    def write_v2(self, form: layout.TopFile, rows_a_sidecar: int) -> WrittenCheckpoint:
        """Sidecars with the file actions, then the file that references them."""
        version = self._snapshot.version
        path, schema = (
            layout.top_path(version, self._unique, form),
            checkpoint_schema(self._columns, kinds=sidecar_files.FILE_KINDS),
        )
        with NewSidecars(self._storage, version, self._unique) as sidecars:
            self._write_sidecars(sidecars, schema, rows_a_sidecar)
            self._require_checksum(sidecars.actions)
            small = [*self._rows.small(), ("checkpointMetadata", {"version": version, "tags": sidecars.tags(schema)})]
            small += [("sidecar", sidecar.make_action()) for sidecar in sidecars.written]
            with self._storage.draft(path) as draft:
                size, top_schema = self._write_top(draft, path, form, small)
                with guard_derived_write(self._basis, path):
                    sidecars.are_named = True  # readers may use them from here on
                    outcome = draft.publish()
                    # After an error before, the sidecars are deleted. After one from here on, the checkpoint is there.
                    published = [path, *(sidecar.path for sidecar in sidecars.written)]
                    if outcome == Created():
                        self._tell_all(published)
                    verifying.require_published(self._storage, path, size, outcome)
            if outcome != Created():  # the answer was lost, and the look has found the file
                self._tell_all(published)
        actions = _summed([sidecars.actions, _summed({kind: 1} for kind, _ in small)])
        top = CheckpointFile(path, size, len(small))
        files = (top, *(CheckpointFile(one.path, one.size_bytes, one.rows) for one in sidecars.written))
        return WrittenCheckpoint(version, files, actions, self._rows.expired, top_schema)

    def _write_sidecars(self, sidecars: NewSidecars, schema: pa.Schema, rows_a_sidecar: int) -> None:
        """Publish the sidecars: those of the commits here, those of a large checkpoint where the engine runs tasks."""
        writer = sidecar_files.SidecarWriter(
            self._storage,
            self._snapshot.version,
            self._unique,
            schema,
            self._encoding,
            rows_a_sidecar,
            self._require_proven,
        )
        pieces = sidecar_files.plan_sidecar_pieces(self._snapshot.file_actions.pieces, rows_a_sidecar)
        if pieces:
            sidecars.take(writer.write(self._rows.read_commit_batches(), 1))
            sidecars.run_tasks(self._snapshot, self._rows, writer, pieces)
        else:
            sidecars.take(writer.write(self._rows.batches(), 1))

    def _write_top(
        self, draft: Draft, path: str, form: layout.TopFile, small: list[tuple[str, Action]]
    ) -> tuple[int, pa.Schema | None]:
        if form is layout.TopFile.JSON:
            data = verifying.write_lines(draft.local_path, small, name=path)
            with verifying.name_unproven_draft(path):
                verifying.require_lines(draft.local_path, data)
            return len(data), None
        schema = checkpoint_schema(self._columns, kinds=_TOP_KINDS)
        with encoding.FileEncoder(draft.local_path, schema, self._encoding, name=path) as encoder:
            encoder.add_rows(small_rows(small, schema))
            encoded = encoder.finish()
        self._require_proven(draft.local_path, path, encoded)
        return encoded.size_bytes, schema

    # -- proof ----------------------------------------------------------------------------------------------------

    def _require_proven(self, place: str, path: str, encoded: encoding.EncodedFile) -> None:
        """Raise StorageFailed unless the draft on the disk has the expected content."""
        with verifying.name_unproven_draft(path):
            table, groups = self._snapshot.table, verifying.count_groups(place)
            digests = table.engine.run(partial(verifying.read_group_digest, place), range(groups))
            told = report_items(digests, table.progress, "verifying the checkpoint", unit="row groups", total=groups)
            verifying.require_content(place, encoded, told)

    def _require_checksum(self, actions: Mapping[str, int]) -> None:
        require_matching_checksum(self._snapshot, actions.get("add", 0), self._rows.add_bytes)

    # -- publishing -----------------------------------------------------------------------------------------------

    def _publish_parts(self, drafts: list[tuple[Draft, str, encoding.EncodedFile]]) -> bool:
        """Publish all parts; return True where another writer had published the complete set.

        An existing part with the same rows is kept. One with other rows is replaced as long as the set is incomplete
        and therefore not a checkpoint, because two distributions of the rows must not be mixed.
        """
        there = [draft for draft in drafts if self._is_there(draft[1])]
        if len(there) == len(drafts):
            return True
        for draft, path, encoded in there:
            self._keep_or_replace(draft, path, encoded)
        kept = {path for _, path, _ in there}
        for draft, path, encoded in drafts:
            if path not in kept and not self._published(draft, path, encoded.size_bytes):
                self._keep_or_replace(draft, path, encoded)
        return False

    def _keep_or_replace(self, draft: Draft, path: str, encoded: encoding.EncodedFile) -> None:
        with self._storage.open(path) as source:
            if verifying.has_same_rows(source, encoded):
                return
        self._published(draft, path, encoded.size_bytes, replace=True)

    def _published(self, draft: Draft, path: str, size: int, *, replace: bool = False) -> bool:
        """Publish a file; return False where another writer was first."""
        with guard_derived_write(self._basis, path):
            made = draft.publish(replace=replace)
        match made:
            case Existed():
                return False
            case Unknown(cause):
                try:
                    if self._size_of(path) != size:
                        return False  # files appear whole: this one is another writer's
                except FileMissing as fault:
                    raise verifying.make_not_written_error(path, cause) from fault
        self._tell(path)
        if made == Created() and not replace:  # otherwise another writer may have replaced it in turn
            verifying.require_size(self._storage, path, size, verifying.OTHER_SIZE)
        return True

    def _tell_all(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._tell(path)

    def _size_of(self, path: str) -> int:
        return self._storage.stat(path).size_bytes

    def _is_there(self, path: str) -> bool:
        try:
            return self._size_of(path) > 0
        except FileMissing:
            return False


def _by_part(actions: ArrowArray, parts: int) -> Iterator[tuple[int, ArrowArray]]:
    chosen = layout.assign_parts(actions.field("path"), parts)
    for part in pc.unique(chosen).to_pylist():
        yield part, pc.filter(actions, pc.equal(chosen, pa.scalar(part, pa.int64())))


def _summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in counts:
        for kind, count in one.items():
            found[kind] = found.get(kind, 0) + count
    return found


class NewSidecars:
    """Collects the sidecars of one run; use it in a `with` statement.

    After an error, all of them are deleted unless a file may reference them (`are_named`). An engine may write the
    sidecars of a piece several times; those that lost are deleted as well. Only files with the unique id of this run
    are deleted, as far as the store allows it.
    """

    def __init__(self, storage: Storage, version: int, unique: str) -> None:
        self._storage = storage
        self._version = version
        self._unique = unique
        self._were_spread = False
        self.written: list[sidecar_files.WrittenSidecar] = []
        self.actions: dict[str, int] = {}
        self.are_named = False

    def tags(self, schema: pa.Schema) -> dict[str, str]:
        """Return the tags of a checkpoint of these sidecars, whose schema this is."""
        size_bytes = sum(sidecar.size_bytes for sidecar in self.written)
        return layout.metadata_tags(self.actions, size_bytes, schema if self.written else None)

    def take(self, sidecars: Iterable[sidecar_files.WrittenSidecar]) -> None:
        """Collect published sidecars."""
        for sidecar in sidecars:
            self.written.append(sidecar)
            for kind, count in sidecar.actions.items():
                self.actions[kind] = self.actions.get(kind, 0) + count

    def run_tasks(
        self,
        snapshot: Snapshot,
        rows: StateRows,
        writer: sidecar_files.SidecarWriter,
        pieces: Sequence[Sequence[CheckpointPiece]],
    ) -> None:
        """Write and collect the sidecars of the row groups of a checkpoint, and add their totals to `rows`."""
        table = snapshot.table
        planned = list(_numbered(pieces, len(self.written) + 1, writer.most_rows))
        task = sidecar_files.WriteSidecars(writer.version, writer.unique, writer.encoding, writer.most_rows)
        shared = {"touched": snapshot.file_actions.changed_after_checkpoint, "converter": rows.converter}
        self._were_spread = True
        results = table.engine.run_tasks(
            task, planned, table.stores, shared=shared, weigh=sidecar_files.weigh_sidecar_piece
        )
        total = sum(map(sidecar_files.weigh_sidecar_piece, planned))
        with table.progress.step("writing the checkpoint", unit="rows", total=total) as step, _closed(results):
            for piece, result in zip(planned, results, strict=True):
                self.take(result.sidecars)
                rows.take(result.add_bytes, result.expired)
                step.advance(piece.rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        kept = {sidecar.name for sidecar in self.written} if self.are_named else set()
        if self._were_spread or kind is not None:
            paths = [layout.sidecar_path(name) for name in self._names() if name not in kept]
            if paths:
                sidecar_files.delete_sidecars(self._storage, paths)

    def _names(self) -> list[str]:
        """Return the names of the sidecars of this run, also of attempts that this process does not know of."""
        if self._were_spread:
            with suppress(DeltacliError):
                return list(self._listed())
        return [sidecar.name for sidecar in self.written]

    def _listed(self) -> Iterator[str]:
        prefix = f"{self._version:020d}."
        for file in self._storage.list_from(f"{LOG_DIRECTORY}/{SIDECAR_DIRECTORY}", prefix):
            if not file.name.startswith(prefix):
                return
            if layout.is_sidecar_of(file.name, self._version, self._unique):
                yield file.name


def _numbered(
    pieces: Iterable[Sequence[CheckpointPiece]], number: int, most_rows: int
) -> Iterator[sidecar_files.SidecarPiece]:
    """Yield the pieces, each with numbers of its own for the sidecars that it may need."""
    for groups in pieces:
        piece = sidecar_files.SidecarPiece(number, tuple(groups))
        yield piece
        number += -(-piece.rows // most_rows)


@contextmanager
def _closed(results: Iterator[Any]) -> Iterator[None]:  # Any: results of any task
    """Stop tasks that still run when the `with` ends, so that none of them publishes a file later."""
    try:
        yield
    finally:
        if close := getattr(results, "close", None):
            close()
