"""Writing the files of a checkpoint in each form: encoded as a draft, read back, then published.

Spec: Checkpoints; V2 Spec; Sidecar Files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from deltacli.arrow import compute as pc
from deltacli.delta.checkpoint.content import Columns, checkpoint_schema, small_rows
from deltacli.delta.checkpoint.layout import (
    TopFile,
    classic_path,
    part_path,
    sidecar_name,
    sidecar_path,
    top_path,
)
from deltacli.delta.checkpoint.spark_hash import part_of_others, parts_of
from deltacli.delta.log.commit_lines import Action
from deltacli.errors import DeltacliError, FileMissing, StorageFailed
from deltacli.operations.checkpoint.rows import FILE_KINDS, StateRows
from deltacli.operations.log.checksum_guard import require_as_in_checksum
from deltacli.operations.table.version import Snapshot
from deltacli.progress import reported
from deltacli.storage import Created, Draft, Existed, Unknown
from deltacli.work.checkpoints.writing import (
    BYTES_A_GROUP,
    ROWS_PER_GROUP,
    EncodedFile,
    Encoding,
    FileEncoder,
    count_groups,
    digest_group,
    holds_rows_of,
    require_lines,
    why_not_proven,
    write_lines,
)

if TYPE_CHECKING:
    import pyarrow

_SMALL_KINDS = ("txn", "metaData", "protocol", "domainMetadata")
_TOP_KINDS = (*_SMALL_KINDS, "checkpointMetadata", "sidecar")
_OTHER_SIZE = "the stored size differs from the sent size"
_ALL_KINDS = (*_SMALL_KINDS[:1], *FILE_KINDS, *_SMALL_KINDS[1:])


@dataclass(frozen=True, slots=True)
class CheckpointFile:
    """A file of a checkpoint, relative to the table; `rows` is None where they were not counted."""

    path: str
    size_bytes: int
    rows: int | None

    def as_json(self) -> dict[str, Any]:
        """Return it as in the document `deltacli.checkpoint`."""
        return {"path": self.path, "sizeBytes": self.size_bytes, "rows": self.rows}


@dataclass(frozen=True, slots=True)
class WrittenCheckpoint:
    """A complete checkpoint: `actions` counts those of all files. The top-level file comes first."""

    version: int
    files: tuple[CheckpointFile, ...]
    actions: Mapping[str, int]
    expired_dropped: int
    schema: pyarrow.Schema | None
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

    `replace`: a classic file replaces an existing one. `tell` is called with the path of each published file.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        columns: Columns,
        encoding: Encoding,
        rows: StateRows,
        *,
        replace: bool = False,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._snapshot = snapshot
        self._storage = snapshot.table.storage
        self._columns = columns
        self._encoding = encoding
        self._rows = rows
        self._replace = replace
        self._tell = tell
        self._unique = str(uuid4())

    # -- forms ----------------------------------------------------------------------------------------------------

    def write_classic(self) -> WrittenCheckpoint:
        """One file with all actions."""
        version = self._snapshot.version
        schema = checkpoint_schema(self._columns, kinds=_ALL_KINDS)
        path = classic_path(version)
        with self._storage.draft(path) as draft:
            with FileEncoder(draft.place, schema, self._encoding, name=path) as encoder:
                encoder.add_rows(small_rows(self._rows.small(), schema))
                for batch in self._rows.batches():
                    for kind, actions in batch.actions.items():
                        encoder.add(kind, actions)
                encoded = encoder.finish()
            self._require_proven(draft, path, encoded)
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
        paths = [part_path(version, part, parts) for part in range(1, parts + 1)]
        rows_a_group = max(ROWS_PER_GROUP // parts, 8_192)
        bytes_a_group = max(BYTES_A_GROUP // parts, 8 << 20)  # 8,192 adds of 1 KB each
        with ExitStack() as stack:
            drafts = [stack.enter_context(self._storage.draft(path)) for path in paths]
            encoders = [
                stack.enter_context(
                    FileEncoder(
                        *(draft.place, schema, self._encoding),
                        name=path,
                        rows_a_group=rows_a_group,
                        bytes_a_group=bytes_a_group,
                    )
                )
                for draft, path in zip(drafts, paths, strict=True)
            ]
            encoders[part_of_others(parts)].add_rows(small_rows(self._rows.small(), schema))
            for batch in self._rows.batches():
                for kind, actions in batch.actions.items():
                    for part, chosen in _by_part(actions, parts):
                        encoders[part].add(kind, chosen)
            encoded = [encoder.finish() for encoder in encoders]
            for draft, path, one in zip(drafts, paths, encoded, strict=True):
                self._require_proven(draft, path, one)
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

    def write_v2(self, form: TopFile, rows_a_sidecar: int) -> WrittenCheckpoint:
        """Sidecars with the file actions, then the file that references them."""
        version = self._snapshot.version
        path = top_path(version, self._unique, form)
        with self._withdrawn_on_fault() as sidecars:
            counts = self._write_sidecars(rows_a_sidecar, sidecars)
            self._require_checksum(counts)
            small = [*self._rows.small(), ("checkpointMetadata", {"version": version})]
            small += [("sidecar", action) for action, _ in sidecars]
            with self._storage.draft(path) as draft:
                size, schema = self._write_top(draft, path, form, small)
                named = list(sidecars)
                sidecars.clear()  # readers may use them from here on
                self._named(draft, path, size)
        actions = _summed([counts, _summed({kind: 1} for kind, _ in small)])
        top = CheckpointFile(path, size, len(small))
        files = (top, *(file for _, file in named))
        return WrittenCheckpoint(version, files, actions, self._rows.expired, schema)

    def _write_top(
        self, draft: Draft, path: str, form: TopFile, small: list[tuple[str, Action]]
    ) -> tuple[int, pyarrow.Schema | None]:
        if form is TopFile.JSON:
            data = write_lines(draft.place, small, name=path)
            with _not_proven(path):
                require_lines(draft.place, data)
            return len(data), None
        schema = checkpoint_schema(self._columns, kinds=_TOP_KINDS)
        with FileEncoder(draft.place, schema, self._encoding, name=path) as encoder:
            encoder.add_rows(small_rows(small, schema))
            encoded = encoder.finish()
        self._require_proven(draft, path, encoded)
        return encoded.size_bytes, schema

    def _write_sidecars(self, rows_a_sidecar: int, written: list[tuple[Action, CheckpointFile]]) -> dict[str, int]:
        """Publish sidecars, adding each to `found`; return the number of actions of each kind."""
        schema = checkpoint_schema(self._columns, kinds=FILE_KINDS)
        pieces = _Pieces(self._rows.cut(rows_a_sidecar))
        counts: dict[str, int] = {}
        while pieces:
            name = sidecar_name(self._snapshot.version, len(written) + 1, self._unique)
            path = sidecar_path(name)
            with self._storage.draft(path) as draft:
                with FileEncoder(draft.place, schema, self._encoding, name=path) as encoder:
                    while pieces and encoder.rows < rows_a_sidecar:
                        encoder.add(*pieces.take(rows_a_sidecar - encoder.rows))
                    encoded = encoder.finish()
                self._require_proven(draft, path, encoded)
                file = CheckpointFile(path, encoded.size_bytes, encoded.rows)
                action: Action = {"path": name, "sizeInBytes": encoded.size_bytes}
                written.append((action, file))
                self._named(draft, path, encoded.size_bytes)
            action["modificationTime"] = self._storage.stat(path).modified_ms
            counts = _summed([counts, encoded.actions])
        return counts

    @contextmanager
    def _withdrawn_on_fault(self) -> Iterator[list[tuple[Action, CheckpointFile]]]:
        """Delete new sidecars that no file references yet if an error is raised, as far as the store allows it."""
        sidecars: list[tuple[Action, CheckpointFile]] = []
        try:
            yield sidecars
        except BaseException:
            with suppress(DeltacliError):
                for _ in self._storage.delete_many(file.path for _, file in sidecars):
                    pass
            raise

    # -- proof ----------------------------------------------------------------------------------------------------

    def _require_proven(self, draft: Draft, path: str, encoded: EncodedFile) -> None:
        """Raise StorageFailed unless the draft on the disk has the expected content."""
        place = draft.place
        with _not_proven(path):
            table, groups = self._snapshot.table, count_groups(place)
            digests = table.engine.run(partial(digest_group, place), range(groups))
            told = reported(digests, table.progress, "verifying the checkpoint", unit="row groups", total=groups)
            why = why_not_proven(place, encoded, told)
            if why is not None:
                raise StorageFailed(why)

    def _require_checksum(self, actions: Mapping[str, int]) -> None:
        require_as_in_checksum(self._snapshot, actions.get("add", 0), self._rows.add_bytes)

    # -- publishing -----------------------------------------------------------------------------------------------

    def _publish_parts(self, drafts: list[tuple[Draft, str, EncodedFile]]) -> bool:
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

    def _keep_or_replace(self, draft: Draft, path: str, encoded: EncodedFile) -> None:
        with self._storage.open(path) as source:
            if holds_rows_of(source, encoded):
                return
        self._published(draft, path, encoded.size_bytes, replace=True)

    def _published(self, draft: Draft, path: str, size: int, *, replace: bool = False) -> bool:
        """Publish a file; return False where another writer was first."""
        match draft.publish(replace=replace):
            case Existed():
                return False
            case Created():
                if not replace:  # otherwise another writer may have replaced it in turn
                    self._require_size(path, size, _OTHER_SIZE)
            case Unknown(cause):
                try:
                    if self._size_of(path) != size:
                        return False  # files appear whole: this one is another writer's
                except FileMissing as fault:
                    raise _not_written(path, cause) from fault
        self._tell(path)
        return True

    def _named(self, draft: Draft, path: str, size: int) -> None:
        """Publish a file with a unique name."""
        outcome = draft.publish()
        cause = outcome.cause if isinstance(outcome, Unknown) else _OTHER_SIZE
        try:
            self._require_size(path, size, cause)
        except FileMissing as fault:
            raise _not_written(path, cause) from fault
        self._tell(path)

    def _require_size(self, path: str, size: int, cause: str) -> None:
        actual_size = self._size_of(path)
        if actual_size != size:
            raise StorageFailed(
                f"{path} has {actual_size} bytes, expected {size}",
                facts={"why": cause},
                hint="deltacli validate {table}",
            )

    def _size_of(self, path: str) -> int:
        return self._storage.stat(path).size_bytes

    def _is_there(self, path: str) -> bool:
        try:
            return self._size_of(path) > 0
        except FileMissing:
            return False


class _Pieces:
    """Actions of one kind, taken in pieces of any size. False when there are no more."""

    def __init__(self, pieces: Iterator[tuple[str, Any]]) -> None:  # Any: struct arrays
        self._rest = pieces
        self._next = next(pieces, None)

    def __bool__(self) -> bool:
        return self._next is not None

    def take(self, most: int) -> tuple[str, Any]:
        """Take at most this many actions."""
        assert self._next is not None
        kind, actions = self._next
        left = actions.slice(most)
        self._next = (kind, left) if len(left) else next(self._rest, None)
        return kind, actions.slice(0, most)


@contextmanager
def _not_proven(path: str) -> Iterator[None]:
    """Turn a fault found while reading a draft back into the error that it is not published."""
    try:
        yield
    except StorageFailed as fault:
        raise StorageFailed(
            f"{path} was not published: {fault.message}",
            code="checkpoint.not-proven",
            facts={"next": "check disk and memory for faults, then run the command again"},
        ) from fault


def _not_written(path: str, cause: str) -> StorageFailed:
    return StorageFailed(f"{path} cannot be written", facts={"why": cause, "next": "run the same command again"})


def _by_part(actions: Any, parts: int) -> Iterator[tuple[int, Any]]:  # Any: struct arrays
    import pyarrow as pa

    chosen = parts_of(actions.field("path"), parts)
    for part in pc.unique(chosen).to_pylist():
        yield part, pc.filter(actions, pc.equal(chosen, pa.scalar(part, pa.int64())))


def _summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for one in counts:
        for kind, count in one.items():
            sums[kind] = sums.get(kind, 0) + count
    return sums
