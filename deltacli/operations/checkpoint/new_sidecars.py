"""The sidecars that one run writes: wherever they were written, those that no file references are deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

from deltacli.delta.checkpoint.layout import is_sidecar_of, sidecar_path
from deltacli.delta.checkpoint.metadata_tags import metadata_tags
from deltacli.delta.log.log_path import LOG_DIRECTORY, SIDECAR_DIRECTORY
from deltacli.errors import DeltacliError
from deltacli.operations.checkpoint.rows import StateRows
from deltacli.operations.table.version import Snapshot
from deltacli.storage import Storage
from deltacli.work.checkpoints.reading import CheckpointPiece
from deltacli.work.checkpoints.sidecars import (
    SidecarPiece,
    SidecarWriter,
    WriteSidecars,
    WrittenSidecar,
    rows_of_sidecars,
    withdraw,
)

if TYPE_CHECKING:
    import pyarrow


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
        self.written: list[WrittenSidecar] = []
        self.actions: dict[str, int] = {}
        self.are_named = False

    def tags(self, schema: pyarrow.Schema) -> dict[str, str]:
        """Return the tags of a checkpoint of these sidecars, whose schema this is."""
        size_bytes = sum(sidecar.size_bytes for sidecar in self.written)
        return metadata_tags(self.actions, size_bytes, schema if self.written else None)

    def take(self, sidecars: Iterable[WrittenSidecar], tell: Callable[[str], None]) -> None:
        """Collect published sidecars. `tell` is called with the path of each."""
        for sidecar in sidecars:
            self.written.append(sidecar)
            for kind, count in sidecar.actions.items():
                self.actions[kind] = self.actions.get(kind, 0) + count
            tell(sidecar.path)

    def spread(
        self,
        snapshot: Snapshot,
        rows: StateRows,
        writer: SidecarWriter,
        pieces: Sequence[Sequence[CheckpointPiece]],
        tell: Callable[[str], None],
    ) -> None:
        """Write and collect the sidecars of the row groups of a checkpoint, and add their totals to `rows`."""
        table = snapshot.table
        planned = list(_numbered(pieces, len(self.written) + 1, writer.most_rows))
        task = WriteSidecars(writer.version, writer.unique, writer.encoding, writer.most_rows)
        shared = {"touched": snapshot.file_actions.touched, "converter": rows.converter}
        self._were_spread = True
        results = table.engine.spread(task, planned, table.stores, shared=shared, weigh=rows_of_sidecars)
        total = sum(map(rows_of_sidecars, planned))
        with table.progress.step("writing the checkpoint", unit="rows", total=total) as step, _closed(results):
            for piece, result in zip(planned, results, strict=True):
                self.take(result.sidecars, tell)
                rows.take(result.add_bytes, result.expired)
                step.advance(piece.rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        kept = {sidecar.name for sidecar in self.written} if self.are_named else set()
        if self._were_spread or kind is not None:
            paths = [sidecar_path(name) for name in self._names() if name not in kept]
            if paths:
                withdraw(self._storage, paths)

    def _names(self) -> list[str]:
        """Return the names of the sidecars of this run, including those of attempts that this process knows nothing
        of.
        """
        if self._were_spread:
            with suppress(DeltacliError):
                return list(self._listed())
        return [sidecar.name for sidecar in self.written]

    def _listed(self) -> Iterator[str]:
        prefix = f"{self._version:020d}."
        for file in self._storage.list_from(f"{LOG_DIRECTORY}/{SIDECAR_DIRECTORY}", prefix):
            if not file.name.startswith(prefix):
                return
            if is_sidecar_of(file.name, self._version, self._unique):
                yield file.name


def _numbered(pieces: Iterable[Sequence[CheckpointPiece]], number: int, most_rows: int) -> Iterator[SidecarPiece]:
    """Yield the pieces, each with numbers of its own for the sidecars that it may need."""
    for groups in pieces:
        piece = SidecarPiece(number, tuple(groups))
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
