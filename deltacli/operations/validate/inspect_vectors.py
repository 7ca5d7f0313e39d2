"""Reading the deletion vectors of live files, each once, for the rules about vectors and about rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from deltacli.delta.footers.parse import Footer
from deltacli.delta.rules.framework.file_views import UNREAD, LiveAdds, VectorsView
from deltacli.engine.base import Engine
from deltacli.operations.validate.findings import FILE_UNREADABLE, Collector
from deltacli.operations.validate.inspect_storage import make_exists
from deltacli.operations.validate.table_at_hand import TableContext
from deltacli.units import plural
from deltacli.work.rows.table_files import TableFiles
from deltacli.work.vector_facts import UNREACHABLE, VectorRead, VectorReader, in_pieces

_MOST_BYTES = 64 << 20
"""Maximum bytes of vectors, by the log, of files whose rows are read next."""
_NEAR_VECTORS_A_PIECE, _FAR_VECTORS_A_PIECE = 128, 8


@dataclass
class VectorInspector:
    """Reads the vectors of live files and passes them to the checks; `with_rows` keeps their rows."""

    table: TableContext
    files: TableFiles
    engine: Engine
    collector: Collector
    with_rows: bool

    def __post_init__(self) -> None:
        exists = make_exists(self.table.storage, self.files)
        self._reader = VectorReader(
            self.files,
            self.table.storage,
            self.table.sizes,
            lambda path: exists(path) is not None,
            keeps_rows=self.with_rows,
        )
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
            if row > start and (row - start >= most or held + size > _MOST_BYTES):
                yield range(start, row)
                start, held = row, 0
            held += size
        if start < total:
            yield range(start, total)

    def read(self, live: LiveAdds) -> dict[int, VectorRead]:
        """Return the vectors of live files by row, as far as they are needed."""
        column = live.adds.column("deletionVector")
        if column.null_count == len(column) or not (self.with_rows or self.collector.looks_at(VectorsView)):
            return {}
        numbered = [
            (row, {name: value for name, value in descriptor.items() if value is not None})
            for row, descriptor in enumerate(column.to_pylist())
            if descriptor is not None
        ]
        is_near = self.table.storage.capabilities.cheap_listing
        pieces = in_pieces(numbered, _NEAR_VECTORS_A_PIECE if is_near else _FAR_VECTORS_A_PIECE)
        at_once = None if is_near else self.table.storage.capabilities.parallel_reads
        reads = {
            read.facts.row: read
            for part in self.engine.run(self._reader.read, pieces, at_once=at_once)
            for read in part
        }
        self._unread_files += sum(read.rows is None for read in reads.values()) if self.with_rows else 0
        lost = [read.facts for _, read in sorted(reads.items()) if read.facts.code in (UNREACHABLE, UNREAD)]
        self._unreachable += [facts.reason for facts in lost]
        for facts in (facts for facts in lost if facts.code == UNREAD):
            place = live.place(facts.row)
            message = f"the deletion vector of {place.key} cannot be read: {facts.reason}"
            self.collector.take([FILE_UNREADABLE.at(place, message)])
        return reads

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
