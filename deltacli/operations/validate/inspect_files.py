"""Checking the data files and the deletion vectors of the newest version: footers, and at level `data` rows.

Each file is opened once. Footers are read some hundred at a time, rows file by file; the checks get them in columns
(`rules/framework/data_file_views.py`), so that memory does not grow with the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby, islice, tee
from math import ceil
from typing import Any, NamedTuple

import pyarrow as pa

from deltacli.core.errors import PathExternal, Unreadable
from deltacli.core.memory import raise_if_out_of_memory
from deltacli.core.progress import Progress, WeighedStep, start_weighed_step
from deltacli.core.units import plural
from deltacli.delta.footers.columns import FileSchema, read_schema
from deltacli.delta.footers.parse import Footer
from deltacli.delta.log.segment import LOG_DIRECTORY, Place, commit_name
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.predicate import Predicate
from deltacli.delta.schema.to_arrow import find_unsupported_columns
from deltacli.engine.base import Engine
from deltacli.operations.validate.findings import Collector
from deltacli.operations.validate.inspect_storage import OPENING_BYTES, READING_FOOTERS, READING_ROWS, make_exists
from deltacli.rules.framework.base import UNREAD
from deltacli.rules.framework.choice import FILE_UNREADABLE
from deltacli.rules.framework.data_file_views import (
    MISSING,
    VANISHED,
    AllFootersView,
    AllRowsView,
    AnswersView,
    ChangedVersionView,
    ChangeFileView,
    ChangeTypes,
    FileFault,
    FileFaultView,
    FileSchemaView,
    FootersView,
    LiveAdds,
    VectorsView,
)
from deltacli.rules.framework.views import LocatedAction
from deltacli.storage import Storage
from deltacli.work.facts import change_files, footer_and_vector_facts, footer_files, row_facts, vector_facts
from deltacli.work.rows.deletion_vectors import Descriptor
from deltacli.work.rows.row_checks import CHECKS, ChecksOfTable, ReadRows, RowChecks, RowPiece, weigh_row_piece
from deltacli.work.table_files import TableFiles
from deltacli.work.table_stores import TableStores

# -- the table that is examined ----------------------------------------------------------------------------------------


class TableContext(NamedTuple):
    """The table whose files are checked, in the configuration of its newest version at `place`. `sizes`: path of every
    file below it, not encoded -> bytes. `domains`: domain -> its configuration. `files` records the files that are not
    opened.
    """

    stores: TableStores
    files: TableFiles
    config: TableConfiguration
    sizes: Mapping[str, int]
    domains: Mapping[str, str]
    place: Place

    @property
    def storage(self) -> Storage:
        return self.stores.storage

    @property
    def is_near(self) -> bool:
        """Whether reading a file costs little more than its bytes."""
        return self.storage.capabilities.has_cheap_requests

    @property
    def reads_at_once(self) -> int | None:
        """The useful number of concurrent small reads; None: as many as compute."""
        return None if self.is_near else self.storage.capabilities.parallel_reads

    def listed(self) -> footer_files.FilesInListing:
        return footer_files.FilesInListing(self.files, self.sizes)


@dataclass
class FileSelection:
    """`share`: the share of files to check, 1 for all, at least one file; the choice depends only on paths and `salt`.
    `predicate`: only files that may contain matching rows, by their partition values and statistics.
    """

    share: float = 1.0
    salt: str = ""
    predicate: Predicate | None = None

    @property
    def limits(self) -> bool:
        """Return True unless all files are checked."""
        return self.share < 1 or self.predicate is not None

    def of(self, live: LiveAdds, config: TableConfiguration) -> LiveAdds:
        """Return the live files to check."""
        if not self.limits or not live.adds.num_rows:
            return live
        rows = list(range(live.adds.num_rows))
        if self.predicate is not None:
            from deltacli.delta.predicate.prune import prune_files

            kept = prune_files(live.adds, self.predicate, config).kept.to_pylist()
            rows = [row for row in rows if kept[row]]
        if self.share < 1:
            paths = live.adds.column("path").to_pylist()
            rows = [rows[place] for place in self.sample([paths[row] for row in rows])]
        return live.take(rows)

    def sample(self, paths: Sequence[str]) -> list[int]:
        """Return the indices of the sampled paths, ascending."""
        by_chance = sorted(range(len(paths)), key=lambda place: self._digest(paths[place]))
        return sorted(by_chance[: ceil(len(paths) * self.share)])

    def _digest(self, path: str) -> bytes:
        from hashlib import blake2b

        return blake2b(f"{self.salt}\0{path}".encode("utf-8", "surrogateescape"), digest_size=8).digest()


# -- deletion vectors --------------------------------------------------------------------------------------------------

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
            if row > start and (row - start >= most or held + size > vector_facts.MOST_VECTOR_BYTES):
                yield range(start, row)
                start, held = row, 0
            held += size
        if start < total:
            yield range(start, total)

    def pieces(self, live: LiveAdds) -> list[vector_facts.VectorPiece]:
        """Return the vectors of live files in pieces, as far as they are needed."""
        column = live.adds.column("deletionVector")
        if column.null_count == len(column) or not (self.with_rows or self.collector.looks_at(VectorsView)):
            return []
        numbered = [
            (row, _stated(descriptor)) for row, descriptor in enumerate(column.to_pylist()) if descriptor is not None
        ]
        most = _NEAR_VECTORS_A_PIECE if self.table.is_near else _FAR_VECTORS_A_PIECE
        return [self.piece(part) for part in vector_facts.group_vectors_by_file(numbered, most)]

    def piece(self, vectors: Sequence[vector_facts.Numbered]) -> vector_facts.VectorPiece:
        """Return a piece of some vectors, with the sizes of their files."""
        files = dict.fromkeys(vector_facts.find_vector_file(self.table.files, descriptor) for _, descriptor in vectors)
        sizes = ((file, self._listed.size_of(file)) for file in files if file is not None)
        return vector_facts.VectorPiece(tuple(vectors), tuple((file, size) for file, size in sizes if size is not None))

    def run_tasks(self, pieces: Iterable[vector_facts.VectorPiece]) -> Iterator[list[vector_facts.VectorRead]]:
        task = vector_facts.ReadVectors(self.with_rows)
        at_once = self.table.reads_at_once
        return self.engine.run_tasks(
            task, pieces, self.table.stores, weigh=lambda piece: len(piece.vectors), at_once=at_once
        )

    def read(self, live: LiveAdds) -> dict[int, vector_facts.VectorRead]:
        """Return the vectors of live files by row, as far as they are needed."""
        return self.settle(live, self.run_tasks(self.pieces(live)))

    def settle(
        self, live: LiveAdds, parts: Iterable[Sequence[vector_facts.VectorRead]]
    ) -> dict[int, vector_facts.VectorRead]:
        """Return the vectors of live files by row, and report those that could not be read."""
        found = {read.facts.row: self._settled(read) for part in parts for read in part}
        self._unread_files += sum(not read.is_usable for read in found.values()) if self.with_rows else 0
        lost = [
            read.facts for _, read in sorted(found.items()) if read.facts.code in (vector_facts.UNREACHABLE, UNREAD)
        ]
        self._unreachable += [facts.reason for facts in lost]
        for facts in (facts for facts in lost if facts.code == UNREAD):
            place = live.place(facts.row)
            message = f"the deletion vector of {place.key} cannot be read: {facts.reason}"
            self.collector.take([FILE_UNREADABLE.at(place, message)])
        return found

    def _settled(self, read: vector_facts.VectorRead) -> vector_facts.VectorRead:
        """Record a file that was not opened. A missing file on a local disk is reported by other rules."""
        if read.refused is not None:
            self.table.files.record_refusal(read.refused)
        if read.missing is None or self._exists(read.missing) is None:
            return read
        return read._replace(facts=read.facts._replace(code=None))

    def show(
        self, live: LiveAdds, vectors: Mapping[int, vector_facts.VectorRead], footers: Sequence[Footer | None]
    ) -> None:
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


def _stated(descriptor: Descriptor) -> Descriptor:
    return {name: value for name, value in descriptor.items() if value is not None}


# -- data files --------------------------------------------------------------------------------------------------------

FILE_VIEWS = (
    FootersView,
    FileSchemaView,
    AllFootersView,
    FileFaultView,
    VectorsView,
    ChangeFileView,
    ChangedVersionView,
    AnswersView,
    AllRowsView,
)
_FILES_A_VIEW = 4_096
_NEAR_FILES_A_PIECE, _FAR_FILES_A_PIECE = 256, 8
"""Footers that take about a third of a second together: 1 ms each on a disk shared by many, 40 ms in a remote store. On
a disk of this machine 256 take 20 ms, enough not to notice the piece.
"""


class _View(NamedTuple):
    """Some thousand live files that are shown to the checks together, with the pieces in which they are read."""

    live: LiveAdds
    vectors: Sequence[vector_facts.VectorPiece]
    footers: Sequence[footer_files.FooterPiece]


class FilesChecked(NamedTuple):
    """The extent of a run: `checked` of `live` data files, and `rows` of them (None: none were read)."""

    checked: int = 0
    live: int = 0
    rows: int | None = None


@dataclass
class _KnownSchema:
    """A schema of files: the first of them, and their number."""

    schema: FileSchema | None
    place: Place
    files: int = 0
    rows: int = 0


@dataclass
class FileInspector:
    """Reads data files and passes their content to the checks."""

    table: TableContext
    engine: Engine
    collector: Collector
    selection: FileSelection
    progress: Progress
    with_rows: bool
    checked: FilesChecked = field(default_factory=FilesChecked)
    not_checked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._listed = self.table.listed()
        self._unread = self._unreached = 0
        self.refused = 0
        self._schemas: dict[bytes, _KnownSchema] = {}
        self._memory: dict[str, Any] = {}  # Any: state of checks
        self._footer_memory: dict[str, Any] = {}  # Any: as above
        self._of_table = ChecksOfTable(self.table.config)
        self._questions = self._row_questions() if self.with_rows else None
        self.with_rows = self._questions is not None
        self._vectors = VectorInspector(self.table, self.engine, self.collector, self.with_rows)
        if self._questions is not None:
            self._memory |= self._questions.memory

    def _row_questions(self) -> RowChecks | None:
        """The checks of rows; None, with a note, where the schema prevents reading them."""
        try:
            questions = self._of_table.readable
        except Unreadable as fault:
            self.not_checked.append(f"the rows of all files, which cannot be read: {fault.message}")
            return None
        schema = self.table.config.schema
        for column in find_unsupported_columns(schema.fields if schema else ()):
            self.not_checked.append(f"the values of column {column.name}, whose type {column.type} is not read")
        return questions

    def run(self, live: Iterable[LiveAdds], total: int, size_bytes: int) -> None:
        """Check the live files; `total` is their number and bytes."""
        self.checked = FilesChecked(0, total, 0 if self.with_rows else None)
        what = READING_ROWS if self.with_rows else READING_FOOTERS
        weight = size_bytes + total * OPENING_BYTES if self.with_rows else total  # all footers take about the same time
        with start_weighed_step(self.progress, what, unit="files", total=total, weight=weight) as step:
            views = self._views(live, step)
            for view, vectors, facts in self._rows_of(views, step) if self.with_rows else self._footers_of(views, step):
                self._look_at(view, vectors, facts)
        if self._unreached:
            self.not_checked.append(f"{plural(self._unreached, 'data file')} that could not be read")
        if self._unread:
            self.not_checked.append(f"the rows of {plural(self._unread, 'file')} that cannot be read")
        self.not_checked.extend(self._vectors.not_checked())
        self._show_schemas()
        if self._questions is not None:
            self.not_checked.extend(self._questions.more.not_checked())
            view_of_all = AllRowsView(self.table.place, self.table.config, self._memory, self.selection.limits)
            self.collector.look(view_of_all, self.table.place)

    def run_changes(self, changes: Sequence[tuple[LocatedAction, int]], rows_added: Mapping[int, int]) -> None:
        """Check the existing files of change data: a share with a sample, none with a condition. `rows_added`: version
        -> number of rows that its other files add.
        """
        inspector = ChangeInspector(self.table, self.engine, self.collector, self.with_rows)
        self.not_checked.extend(inspector.run(changes, rows_added, self.selection, self.progress))

    def _weights(self, live: LiveAdds) -> list[int]:
        """Return the relative cost of each file: its bytes and its opening where its rows are read."""
        if not self.with_rows:
            return [1] * live.adds.num_rows
        return [OPENING_BYTES + max(size or 0, 0) for size in live.adds.column("size").to_pylist()]

    def _views(self, live: Iterable[LiveAdds], step: WeighedStep) -> Iterator[LiveAdds]:
        """Yield the selected files, some thousand at a time."""
        for part in live:
            chosen = self.selection.of(part, self.table.config)
            left_out = sum(self._weights(part)) - sum(self._weights(chosen))
            step.advance(part.adds.num_rows - chosen.adds.num_rows, weight=left_out)
            yield from (chosen.take(rows) for rows in self._vectors.parts(chosen, _FILES_A_VIEW))

    def _look_at(
        self, live: LiveAdds, vectors: Mapping[int, vector_facts.VectorRead], facts: Sequence[row_facts.FileFacts]
    ) -> None:
        checked, live_files, rows = self.checked
        if rows is not None:
            rows += sum(fact.rows for fact in facts)
            self._unread += sum(fact.is_unread or fact.footer is None for fact in facts if not fact.is_refused)
        refused = sum(fact.is_refused for fact in facts)
        self.refused += refused
        self.checked = FilesChecked(checked + live.adds.num_rows - refused, live_files, rows)
        for fact in facts:
            if fact.is_refused:
                self.table.files.record_refusal(live.adds.column("path")[fact.row].as_py())
            elif fact.fault is not None:
                place = live.place(fact.row)
                self._unreached += self.collector.look_at_fault(place, self._listed.judged(fact.fault, place.key))
        footers = [fact.footer for fact in facts]
        self._show_footers(live, footers)
        self._vectors.show(live, vectors, footers)
        if self._questions is not None:
            schemas = {key: known.schema for key, known in self._schemas.items() if known.schema is not None}
            view = AnswersView(
                live,
                footers,
                [fact.answers for fact in facts],
                self.table.config,
                schemas,
                self._memory,
                self.selection.limits,
                self.table.domains,
            )
            self.collector.look(view, self.table.place)

    # -- reading ------------------------------------------------------------------------------------------------------

    def _footers_of(
        self, views: Iterable[LiveAdds], step: WeighedStep
    ) -> Iterator[tuple[LiveAdds, dict[int, vector_facts.VectorRead], list[row_facts.FileFacts]]]:
        """Yield each view with its vectors and footers. The pieces of all views are spread as one sequence, so that a
        cluster gets a job for many views, and few views are held, even where only some files have vectors.
        """
        planned = (_View(live, self._vectors.pieces(live), self._footer_pieces(live)) for live in views)
        shown, sent = tee(planned)
        pieces = (
            piece
            for view in sent
            for piece in chain[vector_facts.VectorPiece | footer_files.FooterPiece](view.vectors, view.footers)
        )
        facts: Iterator[Any] = self.engine.run_tasks(  # Any: the facts of a piece, by its kind
            footer_and_vector_facts.ReadFootersAndVectors(),
            pieces,
            self.table.stores,
            weigh=footer_and_vector_facts.count_facts,
            at_once=self.table.reads_at_once,
        )
        for view in shown:
            read = self._vectors.settle(view.live, islice(facts, len(view.vectors)))
            found: list[row_facts.FileFacts] = []
            for part in islice(facts, len(view.footers)):
                found += [row_facts.FileFacts(len(found) + row, *one) for row, one in enumerate(part)]
                step.advance(len(part), weight=len(part))
            yield view.live, read, found

    def _footer_pieces(self, live: LiveAdds) -> list[footer_files.FooterPiece]:
        files = [self._listed.find(path) for path in live.adds.column("path").to_pylist()]
        each = _NEAR_FILES_A_PIECE if self.table.is_near else _FAR_FILES_A_PIECE
        return [tuple(files[start : start + each]) for start in range(0, len(files), each)]

    def _rows_of(
        self, views: Iterable[LiveAdds], step: WeighedStep
    ) -> Iterator[tuple[LiveAdds, dict[int, vector_facts.VectorRead], list[row_facts.FileFacts]]]:
        """Yield each view with its vectors, held in memory one view at a time, and the answers about its rows."""
        assert self._questions is not None
        shared = {CHECKS: self._of_table}
        for live in views:
            vectors, weights = self._vectors.read(live), self._weights(live)
            pieces = self._row_pieces(live, vectors)
            found: list[row_facts.FileFacts] = []
            for fact in self.engine.run_tasks(
                ReadRows(), pieces, self.table.stores, shared=shared, weigh=weigh_row_piece
            ):
                found.append(self._questions.reconcile_with_earlier_files(fact))
                step.advance(weight=weights[fact.row])
            yield live, vectors, found

    def _row_pieces(self, live: LiveAdds, vectors: Mapping[int, vector_facts.VectorRead]) -> Iterator[RowPiece]:
        """Yield each file with the values of its add that the questions need."""
        names = ("path", "size", "partitionValues", "stats", "baseRowId")
        columns = [live.adds.column(name) for name in names]
        for row in range(live.adds.num_rows):
            path, size, values, stats, base_row_id = (column[row].as_py() for column in columns)
            descriptor = _stated(live.adds.column("deletionVector")[row].as_py()) if row in vectors else None
            vector = None if descriptor is None else self._vectors.piece([(row, descriptor)])
            yield RowPiece(
                row,
                self._listed.find(path),
                size,
                None if values is None else tuple(values),
                stats,
                base_row_id,
                vector,
                is_vector_unusable=row in vectors and not vectors[row].is_usable,
            )

    # -- showing ------------------------------------------------------------------------------------------------------

    def _show_footers(self, live: LiveAdds, footers: Sequence[Footer | None]) -> None:
        by_schema: dict[bytes, list[int]] = {}
        for row, footer in enumerate(footers):
            if footer is not None:
                by_schema.setdefault(footer.schema, []).append(row)
        for key, rows in by_schema.items():
            known = self._schemas.get(key)
            if known is None:
                known = self._schemas[key] = self._know(key, live.place(rows[0]))
            of_schema = [footer for footer in (footers[row] for row in rows) if footer is not None]
            known.files += len(rows)
            known.rows += sum(footer.rows for footer in of_schema)
            if known.schema is None:
                for row in rows:
                    place = live.place(row)
                    fault = FileFault("data.not-parquet", "its schema cannot be read")
                    self.collector.look(FileFaultView(place, fault), place)
                continue
            chosen = live if len(rows) == len(footers) else live.take(rows)
            view = FootersView(
                chosen,
                of_schema,
                known.schema,
                self.table.config,
                run_memory=self._footer_memory,
                rows_follow=self.with_rows,
            )
            self.collector.look(view, view.place(0))

    def _show_schemas(self) -> None:
        """Run the checks that need all footers."""
        config, place = self.table.config, self.table.place
        views = [
            FileSchemaView(known.schema, config, known.place, known.files, known.rows)
            for known in self._schemas.values()
            if known.schema is not None
        ]
        for view in views:
            self.collector.look(view, view.place)
        complete = sum(view.files for view in views) == self.checked.live
        view_of_all = AllFootersView(place, config, views, complete, self._footer_memory)
        self.collector.look(view_of_all, place)

    def _know(self, key: bytes, place: Place) -> _KnownSchema:
        try:
            return _KnownSchema(read_schema(key), place)
        except (pa.ArrowException, OSError, ValueError) as fault:
            raise_if_out_of_memory(fault)
            return _KnownSchema(None, place)


_VIEWS = (ChangeFileView, ChangedVersionView, FileFaultView)
_NEAR_CHANGE_FILES_A_PIECE, _FAR_CHANGE_FILES_A_PIECE = 64, 8
"""As for the footers of data files, but with rows: files of changes are mostly small."""
_MOST_SCHEMAS = 256
_NO_SCHEMA = FileFault("data.not-parquet", "its schema cannot be read")


@dataclass
class ChangeInspector:
    """Reads files of change data and passes their content to the checks."""

    table: TableContext
    engine: Engine
    collector: Collector
    with_rows: bool

    def __post_init__(self) -> None:
        self._schemas: dict[bytes, FileSchema | None] = {}
        self._listed = self.table.listed()
        self._unreached = 0

    def run(
        self,
        changes: Sequence[tuple[LocatedAction, int]],
        rows_added: Mapping[int, int],
        selection: FileSelection,
        progress: Progress,
    ) -> Iterator[str]:
        """Read the files, which are in the order of versions; yields what is not checked, and why."""
        named = [(placed, version) for placed, version in changes if isinstance(placed.action.get("path"), str)]
        if not named or not any(map(self.collector.looks_at, _VIEWS)):
            return
        if selection.predicate is not None:
            yield f"{plural(len(named), 'file')} of change data: a condition applies to the rows of the newest version"
            return
        chosen = named
        if selection.share < 1:
            chosen = [named[place] for place in selection.sample([placed.action["path"] for placed, _ in named])]
            left = f"{len(named) - len(chosen):,} of {plural(len(named), 'file')}"
            yield f"{left} of change data, which a sample leaves out"
        of_version = Counter(version for _, version in named)
        with progress.step("reading change data", unit="files", total=len(chosen)) as step:
            facts = zip(chosen, self._read(chosen), strict=True)
            for version, group in groupby(facts, key=lambda one: one[0][1]):
                types = []
                for (placed, _), fact in group:
                    types.append(self._show(placed, version, fact))
                    step.advance(1)
                known = [each for each in types if each is not None]
                if len(known) == of_version[version]:
                    place = Place(f"{LOG_DIRECTORY}/{commit_name(version)}", None, version)
                    self.collector.look(ChangedVersionView(place, version, _sum(known), rows_added.get(version)), place)
        if self._unreached:
            yield f"{plural(self._unreached, 'file')} of change data that could not be read"

    def _read(self, changes: Sequence[tuple[LocatedAction, int]]) -> Iterator[change_files.ChangeFacts]:
        each = _NEAR_CHANGE_FILES_A_PIECE if self.table.is_near else _FAR_CHANGE_FILES_A_PIECE
        paths = (placed.action["path"] for placed, _ in changes)
        pieces = (tuple(map(self._listed.find, part)) for part in iter(lambda: tuple(islice(paths, each)), ()))
        for part in self.engine.run_tasks(
            change_files.ReadChanges(self.with_rows), pieces, self.table.stores, weigh=len
        ):
            yield from part

    def _show(self, placed: LocatedAction, version: int, facts: change_files.ChangeFacts) -> ChangeTypes | None:
        """Pass one file to the checks, with its types of changes, where known."""
        place = Place(f"{LOG_DIRECTORY}/{commit_name(version)}", placed.line, version, placed.action["path"])
        schema = self._schema(facts.footer.schema) if facts.footer is not None and facts.fault is None else None
        fault = facts.fault if facts.footer is None or facts.fault is not None or schema is not None else _NO_SCHEMA
        if fault is not None and fault.code == PathExternal.code:
            self.table.files.record_refusal(placed.action["path"])
        elif fault is not None and fault.code == MISSING:  # one that the listing lacks is reported by its rule
            self._unreached += self._listed.judged(fault, place.key).code == VANISHED
        elif fault is not None:
            self._unreached += self.collector.look_at_fault(place, fault)
        if facts.footer is None or schema is None:
            return None
        self.collector.look(ChangeFileView(place, version, schema, facts.footer.rows, facts.types), place)
        return facts.types

    def _schema(self, key: bytes) -> FileSchema | None:
        if key not in self._schemas:
            if len(self._schemas) >= _MOST_SCHEMAS:
                self._schemas.clear()
            try:
                self._schemas[key] = read_schema(key)
            except (pa.ArrowException, OSError, ValueError) as fault:
                raise_if_out_of_memory(fault)
                self._schemas[key] = None
        return self._schemas[key]


def _sum(types: Sequence[ChangeTypes]) -> ChangeTypes:
    counts: Counter[str] = Counter()
    for each in types:
        counts.update(each.counts)
    return ChangeTypes(counts, sum(each.bad for each in types))
