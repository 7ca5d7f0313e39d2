"""Writing the files of a checkpoint in each of its forms: encoded beside the log, read back, then published.

Spec: Checkpoints; V2 Spec; Sidecar Files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from deltacli import arrow_compute as pc
from deltacli.delta.checkpoint.content import Columns, checkpoint_schema, small_rows, struct_of_actions
from deltacli.delta.checkpoint.layout import (
    TopFile,
    classic_path,
    part_path,
    sidecar_name,
    sidecar_path,
    top_path,
)
from deltacli.delta.checkpoint.parsed import parsed_columns
from deltacli.delta.checkpoint.retention import live_transactions, tombstone_cutoff, unexpired
from deltacli.delta.checkpoint.spark_hash import part_of_others, parts_of
from deltacli.delta.commit_lines import Action
from deltacli.delta.rules.views import Regime
from deltacli.errors import StorageFailed
from deltacli.operations.checksum_guard import require_as_in_checksum
from deltacli.operations.table import Snapshot
from deltacli.storage import Created, Draft, Existed, Unknown
from deltacli.work.checkpoint_writing import (
    ROWS_A_GROUP,
    EncodedFile,
    Encoding,
    FileEncoder,
    count_groups,
    digest_group,
)
from deltacli.work.checkpoints import FileBatch

if TYPE_CHECKING:
    import pyarrow

_SMALL_KINDS = ("txn", "metaData", "protocol", "domainMetadata")
_FILE_KINDS = ("add", "remove")
_TOP_KINDS = (*_SMALL_KINDS, "checkpointMetadata", "sidecar")


@dataclass(frozen=True, slots=True)
class CheckpointFile:
    """A file of a checkpoint, below the table; `rows` is None where nobody has counted them."""

    path: str
    size_bytes: int
    rows: int | None

    def as_json(self) -> dict[str, Any]:
        """As in the document `deltacli.checkpoint`."""
        return {"path": self.path, "sizeBytes": self.size_bytes, "rows": self.rows}


@dataclass(frozen=True, slots=True)
class WrittenCheckpoint:
    """A checkpoint that is there, whole: `actions` counts those of all its files. The top-level file comes first."""

    version: int
    files: tuple[CheckpointFile, ...]
    actions: Mapping[str, int]
    expired_dropped: int
    schema: pyarrow.Schema | None
    parts: int | None = None
    was_there: bool = False
    """Another writer has made it meanwhile, and it was left as it is."""

    @property
    def rows(self) -> int:
        return sum(self.actions.values())

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


@dataclass
class _Batch:
    """File actions as structs of the checkpoint, and what they add up to."""

    actions: dict[str, Any] = field(default_factory=dict)  # Any: struct arrays
    add_bytes: int = 0
    expired: int = 0


class CheckpointWriter:
    """Writes one version; each method is one form. Raises StorageFailed, NoAtomicCreate and Refused."""

    def __init__(
        self,
        snapshot: Snapshot,
        columns: Columns,
        encoding: Encoding,
        regime: Regime,
        now_ms: int,
        *,
        replace: bool = False,
    ) -> None:
        self._snapshot = snapshot
        self._storage = snapshot.table.storage
        self._columns = columns
        self._encoding = encoding
        self._regime = regime
        self._now_ms = now_ms
        self._replace = replace
        self._cutoff_ms = tombstone_cutoff(snapshot.properties, now_ms)
        self._expired = 0
        self._add_bytes = 0
        self._unique = str(uuid4())

    def write_classic(self) -> WrittenCheckpoint:
        """One file with all actions."""
        version = self._snapshot.version
        schema = checkpoint_schema(self._columns, kinds=(*_SMALL_KINDS[:1], *_FILE_KINDS, *_SMALL_KINDS[1:]))
        path = classic_path(version)
        with self._storage.draft(path) as draft:
            with FileEncoder(draft.place, schema, self._encoding) as encoder:
                encoder.add_rows(small_rows(self._small_actions(), schema))
                for batch in self._batches():
                    for kind, actions in batch.actions.items():
                        encoder.add(kind, actions)
                encoded = encoder.finish()
            self._require_proven(draft, path, encoded)
            self._require_checksum(encoded.actions)
            was_there = self._publish(draft, path, encoded)
        file = CheckpointFile(path, encoded.size_bytes, encoded.rows)
        if was_there:
            stat = self._storage.stat(path)
            file = CheckpointFile(path, stat.size_bytes, None)
        return WrittenCheckpoint(version, (file,), encoded.actions, self._expired, schema, was_there=was_there)

    def write_parts(self, parts: int) -> WrittenCheckpoint:
        """Several files, published when all are encoded and proven."""
        version = self._snapshot.version
        schema = checkpoint_schema(self._columns, kinds=(*_SMALL_KINDS[:1], *_FILE_KINDS, *_SMALL_KINDS[1:]))
        paths = [part_path(version, part, parts) for part in range(1, parts + 1)]
        rows_a_group = max(ROWS_A_GROUP // parts, 8_192)
        with ExitStack() as stack:
            drafts = [stack.enter_context(self._storage.draft(path)) for path in paths]
            encoders = [
                stack.enter_context(FileEncoder(draft.place, schema, self._encoding, rows_a_group=rows_a_group))
                for draft in drafts
            ]
            encoders[part_of_others(parts)].add_rows(small_rows(self._small_actions(), schema))
            for batch in self._batches():
                for kind, actions in batch.actions.items():
                    for part, chosen in _by_part(actions, parts):
                        encoders[part].add(kind, chosen)
            encoded = [encoder.finish() for encoder in encoders]
            for draft, path, one in zip(drafts, paths, encoded, strict=True):
                self._require_proven(draft, path, one)
            actions = _summed(one.actions for one in encoded)
            self._require_checksum(actions)
            were_there = [
                self._publish(draft, path, one) for draft, path, one in zip(drafts, paths, encoded, strict=True)
            ]
        files = tuple(CheckpointFile(path, one.size_bytes, one.rows) for path, one in zip(paths, encoded, strict=True))
        return WrittenCheckpoint(version, files, actions, self._expired, schema, parts=parts, was_there=all(were_there))

    def write_v2(self, form: TopFile, rows_a_sidecar: int) -> WrittenCheckpoint:
        """Sidecars with the file actions, then the file that names them."""
        version = self._snapshot.version
        sidecars, counts = self._write_sidecars(rows_a_sidecar)
        self._require_checksum(counts)
        small = [*self._small_actions(), ("checkpointMetadata", {"version": version})]
        small += [("sidecar", action) for action, _ in sidecars]
        path = top_path(version, self._unique, form)
        actions = _summed([counts, _summed({kind: 1} for kind, _ in small)])
        schema = None
        with self._storage.draft(path) as draft:
            if form is TopFile.JSON:
                size = _write_json(draft.place, small)
                self._named(draft, path, size)
            else:
                schema = checkpoint_schema(self._columns, kinds=_TOP_KINDS)
                with FileEncoder(draft.place, schema, self._encoding) as encoder:
                    encoder.add_rows(small_rows(small, schema))
                    encoded = encoder.finish()
                self._require_proven(draft, path, encoded)
                size = encoded.size_bytes
                self._named(draft, path, size)
        top = CheckpointFile(path, size, len(small))
        files = (top, *(file for _, file in sidecars))
        return WrittenCheckpoint(version, files, actions, self._expired, schema)

    def _write_sidecars(self, rows_a_sidecar: int) -> tuple[list[tuple[Action, CheckpointFile]], dict[str, int]]:
        schema = checkpoint_schema(self._columns, kinds=_FILE_KINDS)
        batches = _cut(self._batches(), rows_a_sidecar)
        found: list[tuple[Action, CheckpointFile]] = []
        counts: dict[str, int] = {}
        pending = next(batches, None)
        while pending is not None:
            name = sidecar_name(self._snapshot.version, len(found) + 1, self._unique)
            path = sidecar_path(name)
            with self._storage.draft(path) as draft:
                with FileEncoder(draft.place, schema, self._encoding) as encoder:
                    while pending is not None and encoder.rows < rows_a_sidecar:
                        kind, actions = pending
                        encoder.add(kind, actions)
                        pending = next(batches, None)
                    encoded = encoder.finish()
                self._require_proven(draft, path, encoded)
                self._named(draft, path, encoded.size_bytes)
            stat = self._storage.stat(path)
            action = {"path": name, "sizeInBytes": encoded.size_bytes, "modificationTime": stat.modified_ms}
            found.append((action, CheckpointFile(path, encoded.size_bytes, encoded.rows)))
            counts = _summed([counts, encoded.actions])
        return found, counts

    # -- content --------------------------------------------------------------------------------------------------

    def _small_actions(self) -> list[tuple[str, Action]]:
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

    def _batches(self) -> Iterator[_Batch]:
        for batch in self._snapshot.map_file_actions(self._converted):
            self._expired += batch.expired
            self._add_bytes += batch.add_bytes
            yield batch

    def _converted(self, batch: FileBatch) -> _Batch:
        """Runs in the threads that read."""
        types = {field.name: field.type for field in checkpoint_schema(self._columns, kinds=_FILE_KINDS)}
        found = _Batch()
        if batch.removes is not None:
            kept = unexpired(batch.removes, self._cutoff_ms)
            found.expired = batch.removes.num_rows - kept.num_rows
            if kept.num_rows:
                found.actions["remove"] = struct_of_actions(kept, types["remove"], {})
        if batch.adds is not None and batch.adds.num_rows:
            adds = batch.adds
            extra = parsed_columns(adds, self._regime, self._columns.partition_values, self._columns.stats)
            found.actions["add"] = struct_of_actions(adds, types["add"], extra)
            found.add_bytes = pc.sum(adds.column("size")).as_py() or 0
        return found

    # -- proof ----------------------------------------------------------------------------------------------------

    def _require_proven(self, draft: Draft, path: str, encoded: EncodedFile) -> None:
        """Raise StorageFailed unless what lies on the disk is what was meant; nobody has seen it yet."""
        place = draft.place
        try:
            digests = tuple(self._snapshot.table.engine.run(partial(digest_group, place), range(count_groups(place))))
        except StorageFailed as fault:
            raise _not_proven(path, fault.message) from fault
        for group, (found, wanted) in enumerate(zip_longest(digests, encoded.digests)):
            if found != wanted:
                raise _not_proven(path, f"row group {group} holds other values than were written")

    def _require_checksum(self, actions: Mapping[str, int]) -> None:
        require_as_in_checksum(self._snapshot, actions.get("add", 0), self._add_bytes)

    def _publish(self, draft: Draft, path: str, encoded: EncodedFile) -> bool:
        """Give a file its name; True where another writer had it first."""
        match draft.publish(replace=self._replace):
            case Existed():
                return True
            case Created():
                pass
            case Unknown(cause):
                self._require_size(path, encoded.size_bytes, cause)
                return False
        self._require_size(path, encoded.size_bytes, "the store keeps another size than was sent")
        return False

    def _named(self, draft: Draft, path: str, size: int) -> None:
        """Publish a file whose name nobody else can have."""
        outcome = draft.publish()
        cause = outcome.cause if isinstance(outcome, Unknown) else "the store keeps another size than was sent"
        self._require_size(path, size, cause)

    def _require_size(self, path: str, size: int, cause: str) -> None:
        found = self._storage.stat(path).size_bytes
        if found != size:
            raise StorageFailed(
                f"{path} has {found} bytes, expected {size}",
                facts={"why": cause},
                hint="deltacli validate {table}",
            )


def _not_proven(path: str, why: str) -> StorageFailed:
    return StorageFailed(
        f"{path} was not published: {why}",
        code="checkpoint.not-proven",
        facts={"next": "look for a failing disk or memory, then run it again"},
    )


def _by_part(actions: Any, parts: int) -> Iterator[tuple[int, Any]]:  # Any: struct arrays
    import pyarrow as pa

    chosen = parts_of(actions.field("path"), parts)
    for part in pc.unique(chosen).to_pylist():
        yield part, actions.filter(pc.equal(chosen, pa.scalar(part, pa.int64())))


def _cut(batches: Iterator[_Batch], most: int) -> Iterator[tuple[str, Any]]:
    """Actions of one kind, at most so many at a time."""
    for batch in batches:
        for kind, actions in batch.actions.items():
            for start in range(0, len(actions), most):
                yield kind, actions.slice(start, most)


def _summed(counts: Any) -> dict[str, int]:  # Any: an iterable of mappings
    found: dict[str, int] = {}
    for one in counts:
        for kind, count in one.items():
            found[kind] = found.get(kind, 0) + count
    return found


def _write_json(place: str, actions: Sequence[tuple[str, Action]]) -> int:
    """Write the lines of a JSON checkpoint; return their bytes."""
    import orjson

    data = b"".join(orjson.dumps({kind: action}) + b"\n" for kind, action in actions)
    try:
        with open(place, "wb") as file:
            file.write(data)
    except OSError as fault:
        raise StorageFailed(f"{place} can't be written: {fault.strerror}") from fault
    return len(data)
