"""Reading the deletion vectors of live files, each once, for the rules about vectors and about rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from deltacli.core.units import plural
from deltacli.delta.footers.parse import Footer
from deltacli.engine.base import Engine
from deltacli.operations.validate.findings import FILE_UNREADABLE, Collector
from deltacli.operations.validate.inspect_storage import make_exists
from deltacli.operations.validate.table_context import TableContext
from deltacli.rules.framework.base import UNREAD
from deltacli.rules.framework.data_file_views import LiveAdds, VectorsView
from deltacli.work.rows.vector_bytes import Descriptor
from deltacli.work.vector_facts import (
    MOST_VECTOR_BYTES,
    UNREACHABLE,
    Numbered,
    ReadVectors,
    VectorPiece,
    VectorRead,
    file_of_vector,
    in_pieces,
)

_NEAR_VECTORS_A_PIECE, _FAR_VECTORS_A_PIECE = 128, 8
"""A read of a remote store takes about 40 ms, so eight are a third of a second; a near one takes about 1 ms."""


@dataclass
class VectorInspector:
    """Reads the vectors of live files and passes them to the checks; `with_rows` keeps their rows."""

    table: TableContext
    engine: Engine
    collector: Collector
    with_rows: bool

    def __post_init__(self) -> None:
        self._listed = self.table.listed()
        self._exists = make_exists(self.table.storage, self.table.files)
        self._unread_files = 0
        self._unreachable: list[str] = []

    def parts(self, live: LiveAdds, most: int) -> Iterator[range]:
        """Split rows into parts of at most `most` files whose vectors fit into memory together."""
        total = live.adds.num_rows
        vectors = live.adds.column("deletionVector")
        if not self.with_rows or vectors.null_count == len(vectors):
            yield from (range(start, min(start + most, total)) for start in range(0, total, most))
            return
        start, held = 0, 0
        for row, size in enumerate(vectors.field("sizeInBytes").to_pylist()):
            size = max(size or 0, 0)
            if row > start and (row - start >= most or held + size > MOST_VECTOR_BYTES):
                yield range(start, row)
                start, held = row, 0
            held += size
        if start < total:
            yield range(start, total)

    def pieces(self, live: LiveAdds) -> list[VectorPiece]:
        """Return the vectors of live files in pieces, as far as they are needed."""
        column = live.adds.column("deletionVector")
        if column.null_count == len(column) or not (self.with_rows or self.collector.looks_at(VectorsView)):
            return []
        numbered = [
            (row, _stated(descriptor)) for row, descriptor in enumerate(column.to_pylist()) if descriptor is not None
        ]
        most = _NEAR_VECTORS_A_PIECE if self.table.is_near else _FAR_VECTORS_A_PIECE
        return [self.piece(part) for part in in_pieces(numbered, most)]

    def piece(self, vectors: Sequence[Numbered]) -> VectorPiece:
        """Return a piece of some vectors, with the sizes of their files."""
        files = dict.fromkeys(file_of_vector(self.table.files, descriptor) for _, descriptor in vectors)
        sizes = ((file, self._listed.size_of(file)) for file in files if file is not None)
        return VectorPiece(tuple(vectors), tuple((file, size) for file, size in sizes if size is not None))

    def spread(self, pieces: Iterable[VectorPiece]) -> Iterator[list[VectorRead]]:
        """Read the vectors of pieces."""
        task = ReadVectors(self.with_rows)
        at_once = self.table.reads_at_once
        return self.engine.spread(
            task, pieces, self.table.stores, weigh=lambda piece: len(piece.vectors), at_once=at_once
        )

    def read(self, live: LiveAdds) -> dict[int, VectorRead]:
        """Return the vectors of live files by row, as far as they are needed."""
        return self.settle(live, self.spread(self.pieces(live)))

    def settle(self, live: LiveAdds, parts: Iterable[Sequence[VectorRead]]) -> dict[int, VectorRead]:
        """Return the vectors of live files by row, and report those that could not be read."""
        found = {read.facts.row: self._settled(read) for part in parts for read in part}
        self._unread_files += sum(not read.is_usable for read in found.values()) if self.with_rows else 0
        lost = [read.facts for _, read in sorted(found.items()) if read.facts.code in (UNREACHABLE, UNREAD)]
        self._unreachable += [facts.reason for facts in lost]
        for facts in (facts for facts in lost if facts.code == UNREAD):
            place = live.place(facts.row)
            message = f"the deletion vector of {place.key} cannot be read: {facts.reason}"
            self.collector.take([FILE_UNREADABLE.at(place, message)])
        return found

    def _settled(self, read: VectorRead) -> VectorRead:
        """Record a file that was not opened. A missing file on a local disk is reported by other rules."""
        if read.refused is not None:
            self.table.files.refuse(read.refused)
        if read.missing is None or self._exists(read.missing) is None:
            return read
        return read._replace(facts=read.facts._replace(code=None))

    def show(self, live: LiveAdds, vectors: Mapping[int, VectorRead], footers: Sequence[Footer | None]) -> None:
        """Pass them to the checks, with the numbers of rows of the files."""
        if not vectors or not self.collector.looks_at(VectorsView):
            return
        rows = sorted(vectors)
        chosen = live if len(rows) == live.adds.num_rows else live.take(rows)
        facts = [vectors[row].facts._replace(row=number) for number, row in enumerate(rows)]
        file_rows = [footer.rows if footer is not None else None for footer in (footers[row] for row in rows)]
        view = VectorsView(chosen, facts, file_rows, self.table.config)
        self.collector.look(view, view.place(0))

    def not_checked(self) -> Iterator[str]:
        """Report what could not be checked because of a vector."""
        if self._unreachable:
            yield f"{plural(len(self._unreachable), 'deletion vector')} that could not be read: {self._unreachable[0]}"
        if self._unread_files:
            yield f"the rows of {plural(self._unread_files, 'file')} whose deletion vectors cannot be read"


def descriptor_of(live: LiveAdds, row: int) -> Descriptor:
    """Return the descriptor of the vector of a live file, without its null fields."""
    return _stated(live.adds.column("deletionVector")[row].as_py())


def _stated(descriptor: Descriptor) -> Descriptor:
    return {name: value for name, value in descriptor.items() if value is not None}
