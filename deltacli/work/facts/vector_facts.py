"""Read facts about deletion vectors.

One file contains the vectors of many data files. It is opened once for all vectors that are close together.

Spec: Deletion Vectors.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple

from deltacli.core.errors import FileMissing, PathExternal, StorageFailed, UsageError
from deltacli.core.units import plural
from deltacli.delta.data_files import vector_file
from deltacli.delta.encoding.roaring import NATIVE, DeletedRows
from deltacli.rules.framework.base import UNREAD
from deltacli.rules.framework.data_file_views import VectorFacts
from deltacli.storage import ReadStorage
from deltacli.work.facts.footer_files import IN_ARCHIVE
from deltacli.work.rows import deletion_vectors
from deltacli.work.table_files import TableFiles, resolve_inner_path
from deltacli.work.task import TaskContext

UNREACHABLE = "data.unreachable"
_VERSION = 1
_MOST_GAP = 64 << 10
"""Maximum bytes between two vectors that are read together."""
_MOST_TOGETHER = 8 << 20
MOST_VECTOR_BYTES = 64 << 20
"""Maximum bytes of vectors, by the log, that are held together."""
_GROUP = 5
_PADDING = 3
"""The characters of a group of the text of an inline vector, and the bytes by which its last group may differ from the
size by the log: it may be filled up, or be short and begin with `#`.
"""

Numbered = tuple[int, deletion_vectors.Descriptor]
"""The row of a view, and its descriptor."""


class VectorRead(NamedTuple):
    """The result for one vector. `is_usable`: its rows could be read.

    `refused` is the path of a file outside the table that may not be opened, as it is recorded; `missing` that of a
    file of another store that does not exist.
    """

    facts: VectorFacts
    is_usable: bool = False
    refused: str | None = None
    missing: str | None = None


class VectorPiece(NamedTuple):
    """Vectors that are read together, and the bytes of their files in the table, by path (not encoded)."""

    vectors: tuple[Numbered, ...]
    sizes: tuple[tuple[str, int], ...] = ()


class VectorCache:
    """Vectors that were read for their facts and whose rows are needed next, so that nothing is read twice.

    Thread-safe. A vector is taken out when it is used; the oldest ones make room for others.
    """

    def __init__(self, most_bytes: int = MOST_VECTOR_BYTES) -> None:
        self._rows: OrderedDict[tuple[object, ...], tuple[DeletedRows, int]] = OrderedDict()
        self._left = most_bytes
        self._lock = Lock()

    def put(self, descriptor: deletion_vectors.Descriptor, rows: DeletedRows) -> None:
        """Keep the rows of a vector, which count as its bytes by the log."""
        key = _make_cache_key(descriptor)
        weight = max(descriptor.get("sizeInBytes") or 0, 0)
        with self._lock:
            if key in self._rows:
                return
            self._rows[key] = rows, weight
            self._left -= weight
            while self._left < 0 and len(self._rows) > 1:
                _, (_, freed) = self._rows.popitem(last=False)
                self._left += freed

    def take(self, descriptor: deletion_vectors.Descriptor) -> DeletedRows | None:
        """Return the rows of a vector and forget them; None if they are not kept."""
        with self._lock:
            rows, weight = self._rows.pop(_make_cache_key(descriptor), (None, 0))
            self._left += weight
        return rows


def _make_cache_key(descriptor: deletion_vectors.Descriptor) -> tuple[object, ...]:
    names = ("storageType", "pathOrInlineDv", "offset", "sizeInBytes", "cardinality")
    return tuple(descriptor.get(name) for name in names)


@dataclass(frozen=True, slots=True)
class ReadVectors:
    """Reads vectors for their facts. `keeps_rows`: their rows are needed next (`load_deleted_rows`)."""

    keeps_rows: bool

    def __call__(self, piece: VectorPiece, context: TaskContext) -> list[VectorRead]:
        reader = VectorReader(context.files, context.storage, dict(piece.sizes), keeps_rows=self.keeps_rows)
        vector_reads = reader.read(piece.vectors)
        if self.keeps_rows:
            cache = context.stores.get_shared_instance(VectorCache)
            descriptors = dict(piece.vectors)
            for read in vector_reads:
                row = read.facts.row
                if row in reader.rows:
                    cache.put(descriptors[row], reader.rows[row])
        return vector_reads


def load_deleted_rows(piece: VectorPiece, context: TaskContext) -> DeletedRows | None:
    """Return the rows of the only vector of a piece, from the cache if it has them; None if it cannot be read."""
    [(row, descriptor)] = piece.vectors
    cached_rows = context.stores.get_shared_instance(VectorCache).take(descriptor)
    if cached_rows is not None:
        return cached_rows
    reader = VectorReader(context.files, context.storage, dict(piece.sizes), keeps_rows=True)
    reader.read(piece.vectors)
    return reader.rows.get(row)


def find_vector_file(files: TableFiles, descriptor: deletion_vectors.Descriptor) -> str | None:
    """Return the path of the file of a vector below the root of the table; None if it has none there."""
    text = descriptor.get("pathOrInlineDv")
    if not isinstance(text, str):
        return None
    match descriptor.get("storageType"):
        case "u":
            path = vector_file(text)
            return None if path is None else resolve_inner_path(path)
        case "p":
            return files.find_path_in_table(text)
    return None


def group_vectors_by_file(vectors: Iterable[Numbered], most: int) -> Iterator[list[Numbered]]:
    """Group vectors for `VectorReader.read`: up to `most` per group, with all vectors of one file together."""
    by_file: dict[object, list[Numbered]] = {}
    for row, descriptor in vectors:
        kind = descriptor.get("storageType")
        key = row if kind == "i" else (kind, descriptor.get("pathOrInlineDv"))
        by_file.setdefault(key, []).append((row, descriptor))
    piece: list[Numbered] = []
    for of_file in by_file.values():
        if piece and len(piece) + len(of_file) > most:
            yield piece
            piece = []
        piece += of_file
    if piece:
        yield piece


class VectorReader:
    """Reads vectors. `sizes` has the bytes of their files below the table, by path, not encoded.

    A vector in a file of the table that is not in `sizes` violates no rule here, because the listing reports it. With
    `keeps_rows`, the rows of valid vectors are in `rows`.
    """

    def __init__(
        self, files: TableFiles, table_storage: ReadStorage, sizes: Mapping[str, int], *, keeps_rows: bool
    ) -> None:
        self._files = files
        self._own = table_storage
        self._sizes = sizes
        self._keeps_rows = keeps_rows
        self.rows: dict[int, DeletedRows] = {}

    def read(self, vectors: Sequence[Numbered]) -> list[VectorRead]:
        """Read some vectors."""
        vector_reads: list[VectorRead] = []
        by_file: dict[tuple[int, str], list[tuple[Numbered, deletion_vectors.VectorPlace]]] = {}
        for row, descriptor in vectors:
            text = descriptor.get("pathOrInlineDv")
            if descriptor.get("storageType") == "p" and isinstance(text, str) and self._files.is_refused(text):
                facts = VectorFacts(row, None, "its file is outside the table", None, None)
                vector_reads.append(VectorRead(facts, refused=text))
                continue
            try:
                vector_place = deletion_vectors.find_vector(self._files, descriptor)
                if vector_place is None:
                    vector_reads.append(self._read_inline_vector(row, descriptor))
                else:
                    by_file.setdefault((id(vector_place.storage), vector_place.path), []).append(
                        ((row, descriptor), vector_place)
                    )
            except deletion_vectors.VectorFaultError as fault:
                vector_reads.append(_make_faulty_read(row, fault))
            except PathExternal as refusal:
                facts = VectorFacts(row, None, refusal.message, None, None)
                vector_reads.append(VectorRead(facts, refused=_get_recorded_path(descriptor)))
            except (StorageFailed, UsageError) as fault:
                code = UNREAD if isinstance(fault, StorageFailed) else UNREACHABLE
                reason = IN_ARCHIVE if fault.code == "storage.archived" else fault.message
                vector_reads.append(VectorRead(VectorFacts(row, code, reason, None, None)))
        for vectors_of_file in by_file.values():
            vector_reads += self._read_vectors_of_file(vectors_of_file)
        return vector_reads

    def _read_inline_vector(self, row: int, descriptor: deletion_vectors.Descriptor) -> VectorRead:
        data = deletion_vectors.decode_inline_vector(descriptor)
        size = descriptor.get("sizeInBytes")
        read = self._parse_vector(row, descriptor, data)
        whole = len(deletion_vectors.decode_inline_vector({**descriptor, "sizeInBytes": None}))
        # The text is Z85: groups of five characters stand for four bytes, so the size may not fill the last group.
        is_short = descriptor["pathOrInlineDv"][-_GROUP:].startswith("#")
        least = -_PADDING if is_short else 0  # some writers count the bytes that such a group lacks
        if read.facts.code is not None or (isinstance(size, int) and least <= whole - size <= _PADDING):
            return read
        reason = f"its text has {whole} bytes, but {size} by the log"
        facts = read.facts._replace(code="dv.size-mismatch", reason=reason, seen=str(size), expected=str(whole))
        return read._replace(facts=facts)

    def _read_vectors_of_file(
        self, vectors: Sequence[tuple[Numbered, deletion_vectors.VectorPlace]]
    ) -> list[VectorRead]:
        """Return the vectors of one file. An invalid version is reported once, without the faults that follow."""
        storage = vectors[0][1].storage
        path = vectors[0][1].path
        is_own = storage is self._own
        try:
            size = self._sizes.get(path) if is_own else storage.stat(path).size_bytes
            if size is None:
                return _make_unread_vectors(vectors, None, "its file is missing")
            version, vector_reads = self._read_file(vectors, size)
        except FileMissing:
            lost = _make_unread_vectors(vectors, "dv.file-missing", "its file is missing")
            return lost if is_own else [read._replace(missing=vectors[0][1].shown) for read in lost]
        except PathExternal as refusal:
            refused = vectors[0][1].shown
            self._files.record_refusal(refused)
            return [read._replace(refused=refused) for read in _make_unread_vectors(vectors, None, refusal.message)]
        except StorageFailed as fault:
            reason = IN_ARCHIVE if fault.code == "storage.archived" else fault.message
            return _make_unread_vectors(vectors, UNREAD, reason)
        return vector_reads if not version or version[0] == _VERSION else _report_version(vector_reads, version[0])

    def _read_file(
        self, vectors: Sequence[tuple[Numbered, deletion_vectors.VectorPlace]], size: int
    ) -> tuple[bytes, list[VectorRead]]:
        """Return the first byte of a file of `size` bytes, and its vectors. Raises StorageFailed."""
        storage = vectors[0][1].storage
        path = vectors[0][1].path
        version = None
        vector_reads: list[VectorRead] = []
        for start, end, members in _plan_ranges(sorted(vectors, key=lambda vector: vector[1].offset), size):
            data = storage.read_range(path, start, min(end, size) - start) if start < size else b""
            if start == 0:
                version = data[:1]
            for (row, descriptor), vector_place in members:
                stored = data[vector_place.offset - start : vector_place.end - start]
                try:
                    read = self._parse_vector(
                        row, descriptor, deletion_vectors.verify_stored_vector(vector_place, stored, size)
                    )
                except deletion_vectors.VectorFaultError as fault:
                    read = _make_faulty_read(row, fault)
                vector_reads.append(read)
        return (storage.read_range(path, 0, 1) if version is None else version), vector_reads

    def _parse_vector(self, row: int, descriptor: deletion_vectors.Descriptor, data: bytes) -> VectorRead:
        try:
            rows = deletion_vectors.parse_deleted_rows(data)
        except deletion_vectors.VectorFaultError as fault:
            return _make_faulty_read(row, fault)
        is_native = int.from_bytes(data[:4], "little") == NATIVE
        facts = VectorFacts(row, None, "", rows.count, rows.last, is_native=is_native)
        if rows.count != descriptor.get("cardinality"):
            return VectorRead(_add_fault(facts, deletion_vectors.make_cardinality_error(descriptor, rows)))
        if self._keeps_rows:
            self.rows[row] = rows
        return VectorRead(facts, is_usable=True)


def _plan_ranges(
    vectors: Sequence[tuple[Numbered, deletion_vectors.VectorPlace]], size: int
) -> Iterator[tuple[int, int, list[tuple[Numbered, deletion_vectors.VectorPlace]]]]:
    """Yield each range that is read at once: start, end, and its vectors, which are in offset order."""
    start = 0
    end = 1
    members: list[tuple[Numbered, deletion_vectors.VectorPlace]] = []
    # Vectors that are close together are read with the gap between them, in one request.
    for vector in vectors:
        vector_place = vector[1]
        stop = min(vector_place.end, size)
        is_near = vector_place.offset - end <= _MOST_GAP and max(end, stop) - start <= _MOST_TOGETHER
        if not is_near:
            if members:
                yield start, end, members
            start = vector_place.offset
            end = stop
            members = []
        members.append(vector)
        end = max(end, stop)
    if members:
        yield start, end, members


def _make_faulty_read(row: int, fault: deletion_vectors.VectorFaultError) -> VectorRead:
    return VectorRead(_add_fault(VectorFacts(row, None, "", None, None), fault))


def _add_fault(facts: VectorFacts, fault: deletion_vectors.VectorFaultError) -> VectorFacts:
    seen, expected = (None if value is None else str(value) for value in (fault.seen, fault.expected))
    return facts._replace(code=fault.code, reason=str(fault), seen=seen, expected=expected)


def _make_unread_vectors(
    vectors: Sequence[tuple[Numbered, deletion_vectors.VectorPlace]], code: str | None, reason: str
) -> list[VectorRead]:
    return [VectorRead(VectorFacts(row, code, reason, None, None)) for (row, _), _ in vectors]


def _get_recorded_path(descriptor: deletion_vectors.Descriptor) -> str:
    """Return the path by which a file outside the table is recorded."""
    text = str(descriptor.get("pathOrInlineDv"))
    return (vector_file(text) or text) if descriptor.get("storageType") == "u" else text


def _report_version(vector_reads: list[VectorRead], version: int) -> list[VectorRead]:
    """Return the vectors of a file with an invalid version byte. The fault is reported for the first of them."""
    first = min(read.facts.row for read in vector_reads)
    more = f", and so for {plural(len(vector_reads) - 1, 'more vector')} of it" if len(vector_reads) > 1 else ""
    reason = f"its file begins with version {version}{more}"
    silent = [read._replace(facts=read.facts._replace(code=None, reason="")) for read in vector_reads]
    return [
        read
        if read.facts.row != first
        else read._replace(
            facts=read.facts._replace(code="dv.file-version", reason=reason, seen=str(version), expected=str(_VERSION))
        )
        for read in silent
    ]
