"""Read the live rows of the files of a piece as the columns of new files, and leave out files that cannot be kept
exactly.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, TypeVar

import pyarrow as pa

from deltacli.core.errors import DataUnreadable, DeltacliError, PathExternal
from deltacli.core.typing import ArrowScalar, BinaryFile, RecordBatch
from deltacli.delta.encoding.digests import MultisetDigest
from deltacli.delta.partitions.values import constants_of
from deltacli.delta.schema.to_arrow import keeps_partition_columns
from deltacli.work.rewrite.exactness import Exactness
from deltacli.work.rewrite.pieces import SPEC, RefusedFile, RewritePiece, RewriteSpec
from deltacli.work.rows.data_files import DataFile, ReadSpec, open_data_file, read_small_file
from deltacli.work.rows.deletion_vectors import read_vector
from deltacli.work.rows.row_reader import PlainReader, read_opened, read_rows
from deltacli.work.table_files import TableFiles
from deltacli.work.task import TaskContext

Asked = TypeVar("Asked")

_HELD_BYTES = 64 << 20
"""The rows of a smaller file are read to the end before the first is passed on."""
_TABLE_BYTES = 8 << 20
"""Bytes of rows from which on they are passed on; an eighth of the target, if that is less."""
_CHUNK_ROWS = 1 << 13
"""Rows of files that have fewer on average are copied together."""
_MOST_READ = 256 << 20
"""Larger files are not read before they are rewritten."""
_AHEAD_FILES = 32
_AHEAD_BYTES = 16 << 20
"""The files, and about the bytes, that a disk is asked for before they are used; a store over a network is read."""
_READS = 8
"""The files of such a store that are read at the same time for a piece."""
WANTED = "wanted"
"""The name of the shared `ReadSpec`, which `make_full_read_spec` makes."""

RowsDigest = tuple[int, ...]


class SourceRefusedError(Exception):
    """A file that was found not to be exact after some of its rows had been passed on."""

    def __init__(self, refused: RefusedFile) -> None:
        super().__init__(refused.reason)
        self.refused = refused


class _Rows(NamedTuple):
    """Rows of one file, and their bytes in memory: as they are stored if `plain` reads them, else as of the table."""

    batch: pa.RecordBatch
    size_bytes: int
    plain: PlainReader | None


class _LocatedFile(NamedTuple):
    """A file to read, with the rows of its vector, and its content if it has been read before."""

    file: DataFile
    content: BinaryFile | None


@dataclass
class Sources:
    """The files of a piece: `used` and `refused` are those read so far, `rows` the rows passed on."""

    files: TableFiles
    spec: RewriteSpec
    constants: Mapping[str, ArrowScalar]
    """The partition columns that new files contain, by logical name."""
    used: list[str] = field(default_factory=list)
    refused: list[RefusedFile] = field(default_factory=list)
    rows: int = 0

    def __post_init__(self) -> None:
        self._exactness = Exactness(self.spec)
        self._plain: PlainReader | None = None

    def tables(self, sources: Sequence[DataFile]) -> Iterator[pa.Table]:
        """Yield the rows in the schema of new files, those of several files together: what is computed for each table
        costs the more the smaller they are. Raises SourceRefusedError.
        """
        most_bytes = min(_TABLE_BYTES, self.spec.target_bytes // 8)
        held = list[Any]()
        size = 0
        reader: PlainReader | None = None
        for batch, bytes_, plain in self._read_sources(sources):
            if held and plain is not reader:
                yield self._combine(held, reader)
                held = []
                size = 0
            reader = plain
            self.rows += batch.num_rows
            held.append(batch)
            size += bytes_
            if size >= most_bytes:
                yield self._combine(held, reader)
                held = []
                size = 0
        if held:
            yield self._combine(held, reader)

    def _combine(self, batches: list[Any], plain: PlainReader | None) -> pa.Table:
        """Return rows together, as the schema of new files says; those of `plain` are as they are stored."""
        whole = pa.Table.from_batches(batches)
        if whole.num_rows < _CHUNK_ROWS * len(batches):
            whole = whole.combine_chunks()
        return rename_columns(whole if plain is None else plain.convert_to_table_types(whole), self.spec.schema)

    def _read_sources(self, sources: Sequence[DataFile]) -> Iterator[_Rows]:
        # A disk is told which files come next, and reads ahead by itself. A store over a network gets several requests
        # at the same time.
        if self.files.parallel_reads == 1:
            for source, _ in self._ahead(sources, lambda source: self.files.prefetch(source.path)):
                yield from self._read_source(source, partial(self._locate, source))
            return
        from deltacli.core.pools import ThreadPool

        with ThreadPool(_READS, thread_name_prefix="deltacli-sources") as pool:
            try:
                for source, reading in self._ahead(sources, lambda source: pool.submit(self._fetch, source)):
                    yield from self._read_source(source, reading.result)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _ahead(self, sources: Sequence[DataFile], ask: Callable[[DataFile], Asked]) -> Iterator[tuple[DataFile, Asked]]:
        """Yield the files with what `ask` returned for each, some files before."""
        coming = iter(sources)
        ahead = deque[tuple[DataFile, Asked]]()
        bytes_ahead = 0
        while True:
            while bytes_ahead < _AHEAD_BYTES and len(ahead) < _AHEAD_FILES:
                source = next(coming, None)
                if source is None:
                    break
                ahead.append((source, ask(source)))
                bytes_ahead += source.size_bytes or 0
            if not ahead:
                return
            bytes_ahead -= ahead[0][0].size_bytes or 0
            yield ahead.popleft()

    def _locate(self, source: DataFile) -> _LocatedFile:
        file = replace(source, constants=self.constants) if self.constants else source
        if file.vector is not None and file.deleted is None:
            with _name_file(file):
                file = replace(file, deleted=read_vector(self.files, file.vector))
        return _LocatedFile(file, None)

    def _fetch(self, source: DataFile) -> _LocatedFile:
        """Return a file with its vector and, if it is small, its content read."""
        file = self._locate(source).file
        return _LocatedFile(file, read_small_file(self.files, file))

    def require_exact(self, source: DataFile) -> Iterator[pa.RecordBatch]:
        """Open a file and yield nothing. Raises SourceRefusedError."""
        try:
            with open_data_file(self.files, source) as opened:
                self._exactness.require(opened)
        except (DataUnreadable, PathExternal) as fault:
            raise SourceRefusedError(_make_refused_file(source, fault)) from fault
        yield from ()

    def _read_source(self, source: DataFile, find: Callable[[], _LocatedFile]) -> Iterator[_Rows]:
        """Yield the rows of a file; none of them if it is refused."""
        held: list[_Rows] = []
        size = 0
        is_passing = False
        batches = self._read_rows(find)
        while True:
            try:
                batch = next(batches, None)
            except (DataUnreadable, PathExternal) as fault:
                refused = _make_refused_file(source, fault)
                if is_passing:
                    raise SourceRefusedError(refused) from fault
                self.refused.append(refused)
                return
            if batch is None:
                break
            # As long as no row has been passed on, a file that turns out not to be exact can be left out.
            held.append(batch)
            size += batch.size_bytes
            if is_passing or size > _HELD_BYTES:
                is_passing = True
                yield from held
                held = []
        self.used.append(source.path)
        yield from held

    def _read_rows(self, find: Callable[[], _LocatedFile]) -> Iterator[_Rows]:
        """Yield the rows of a file. Raises DataUnreadable, also where rows are missing, and PathExternal."""
        file, content = find()
        with open_data_file(self.files, file, whole=True, content=content) as opened:
            if not self._exactness.require(opened):
                self._plain = PlainReader.of(self.spec.reading, file, opened)
            plain = self._plain if file.vector is None else None
            if plain is not None:
                batches = plain.stored(opened)
            else:
                batches = read_opened(self.files, self.spec.reading, file, opened)
            count = 0
            for batch in batches:
                count += batch.num_rows
                yield _Rows(batch, batch.nbytes, plain)
            # A reader that skips rows by mistake would lose them with the old file.
            stored = opened.parquet.metadata.num_rows
            live = stored - (file.deleted.count_below(stored) if file.deleted is not None else 0)
            if count != live:
                raise DataUnreadable(f"{count} rows were read, but it has {live}")


def make_constants(spec: RewriteSpec, piece: RewritePiece) -> Mapping[str, ArrowScalar]:
    """Return the partition columns that the new files of a piece contain. Raises DataUnreadable (`partition.*`)."""
    if not keeps_partition_columns(spec.config):
        return {}
    path = next((source.path for source in piece.sources), "")
    return constants_of(piece.partition_values.items(), spec.config, path)


@dataclass(frozen=True, slots=True)
class FindRefused:
    """Reads files as if they were rewritten, without writing anything. `SPEC` is the shared `RewriteSpec`. A cluster is
    not asked about the few files that usually decide.
    """

    is_light: ClassVar[bool] = True

    def __call__(self, piece: RewritePiece, context: TaskContext) -> tuple[RefusedFile, ...]:
        """Return the files of a piece that would be refused. Of a file that is large only the footer is judged."""
        sources = Sources(context.files, context.shared(SPEC), make_constants(context.shared(SPEC), piece))
        for source in piece.sources:
            try:
                for _ in (
                    sources.tables([source])
                    if (source.size_bytes or 0) <= _MOST_READ
                    else sources.require_exact(source)
                ):
                    if context.is_cancelled():
                        break
            except SourceRefusedError as fault:
                sources.refused.append(fault.refused)
        return tuple(sources.refused)


def rename_columns(rows: RecordBatch, schema: pa.Schema) -> RecordBatch:
    """Return the same values, a table or a batch, under the names, nullability and metadata of another schema, at every
    depth. The values are not copied: nested ones leave through Arrow's C interface and return with the other schema.
    """
    if not any(map(pa.types.is_nested, schema.types)):
        return type(rows).from_arrays(rows.columns, schema=schema)
    if isinstance(rows, pa.Table):
        return pa.Table.from_batches([rename_columns(batch, schema) for batch in rows.to_batches()], schema)
    return pa.record_batch(_RelabelledBatch(rows, schema))


class _RelabelledBatch:
    def __init__(self, batch: pa.RecordBatch, schema: pa.Schema) -> None:
        self._batch = batch
        self._schema = schema

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:  # Any: capsules
        return self._schema.__arrow_c_schema__(), self._batch.__arrow_c_array__()[1]


def _make_refused_file(source: DataFile, fault: DeltacliError) -> RefusedFile:
    why = fault.facts.get("reason")
    column = fault.facts.get("column") if fault.code in ("data.column-missing", "notnull.violated") else None
    return RefusedFile(source.path, fault.code, f"{fault.message}: {why}" if why else fault.message, column)


@contextmanager
def _name_file(file: DataFile) -> Iterator[None]:
    """Raise a fault of the vector of a file with its path."""
    try:
        yield
    except DataUnreadable as fault:
        raise DataUnreadable(f"{file.path}: {fault.message}", code=fault.code, facts=fault.facts) from fault


def digest_rows(piece: Sequence[DataFile], context: TaskContext) -> RowsDigest:
    """Return the digest of all rows of some files, read by the rules of their table: partition values, live rows and,
    with row tracking, the ids of rows. A task. Raises DataUnreadable, PathExternal and StorageFailed.
    """
    wanted: ReadSpec = context.shared(WANTED)
    digest = MultisetDigest()
    for source in piece:
        for batch in read_rows(context.files, wanted, source):
            digest.take(batch)
    return digest.answer()
