"""Read facts about deletion vectors for checks. Spec: Deletion Vectors.

One file contains the vectors of many data files. It is opened once for all vectors that are close together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from deltacli.delta.rules.framework.file_views import UNREAD, VectorFacts
from deltacli.delta.vectors.roaring import NATIVE, DeletedRows
from deltacli.errors import FileMissing, PathExternal, StorageFailed, UsageError
from deltacli.storage import Storage
from deltacli.units import plural
from deltacli.work.rows.deletion_vectors import (
    Descriptor,
    VectorFaultError,
    VectorPlace,
    cardinality_fault,
    find_vector,
    inline_data,
    parse_rows,
    stored_data,
)
from deltacli.work.rows.table_files import TableFiles

UNREACHABLE = "data.unreachable"
_VERSION = 1
_MOST_GAP = 64 << 10
"""Maximum bytes between two vectors that are read together."""
_MOST_TOGETHER = 8 << 20
_PADDING = 3
"""Maximum bytes by which the text of an inline vector may exceed the vector."""

Numbered = tuple[int, Descriptor]
"""The row of a view, and its descriptor."""


class VectorRead(NamedTuple):
    """A vector that was read. `rows` is None if the vector is invalid, or if rows were not requested."""

    facts: VectorFacts
    rows: DeletedRows | None


def in_pieces(vectors: Iterable[Numbered], most: int) -> Iterator[list[Numbered]]:
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
    """Reads vectors. `sizes` maps the path of every file below the table, not encoded, to bytes.

    A vector in a file of the table that is not in `sizes` violates no rule here, because the listing reports it. The
    same applies if `was_told` returns True, because the file is checked elsewhere. With `keeps_rows`, the rows are
    returned.
    """

    def __init__(
        self,
        files: TableFiles,
        own: Storage,
        sizes: Mapping[str, int],
        was_told: Callable[[str], bool],
        *,
        keeps_rows: bool,
    ) -> None:
        self._files, self._own, self._sizes, self._was_told = files, own, sizes, was_told
        self._keeps_rows = keeps_rows

    def read(self, vectors: Sequence[Numbered]) -> list[VectorRead]:
        """Read some vectors."""
        reads: list[VectorRead] = []
        by_file: dict[tuple[int, str], list[tuple[Numbered, VectorPlace]]] = {}
        for row, descriptor in vectors:
            text = descriptor.get("pathOrInlineDv")
            if descriptor.get("storageType") == "p" and isinstance(text, str) and self._files.is_refused(text):
                reads.append(VectorRead(VectorFacts(row, None, "its file is outside the table", None, None), None))
                continue
            try:
                place = find_vector(self._files, descriptor)
                if place is None:
                    reads.append(self._inline(row, descriptor))
                else:
                    by_file.setdefault((id(place.storage), place.path), []).append(((row, descriptor), place))
            except VectorFaultError as fault:
                reads.append(_faulty(row, fault))
            except PathExternal as refusal:
                reads.append(VectorRead(VectorFacts(row, None, refusal.message, None, None), None))
            except (StorageFailed, UsageError) as fault:
                code = UNREAD if isinstance(fault, StorageFailed) else UNREACHABLE
                reads.append(VectorRead(VectorFacts(row, code, fault.message, None, None), None))
        for of_file in by_file.values():
            reads += self._of_file(of_file)
        return reads

    def _inline(self, row: int, descriptor: Descriptor) -> VectorRead:
        data, size = inline_data(descriptor), descriptor.get("sizeInBytes")
        read = self._parsed(row, descriptor, data)
        whole = len(inline_data({**descriptor, "sizeInBytes": None}))
        if read.facts.code is not None or (isinstance(size, int) and 0 <= whole - size <= _PADDING):
            return read
        reason = f"its text has {whole} bytes, but {size} by the log"
        facts = read.facts._replace(code="dv.size-mismatch", reason=reason, seen=str(size), expected=str(whole))
        return VectorRead(facts, read.rows)

    def _of_file(self, vectors: Sequence[tuple[Numbered, VectorPlace]]) -> list[VectorRead]:
        """Return the vectors of one file.

        An invalid version is reported once, without the faults that may result from it.
        """
        storage, path = vectors[0][1].storage, vectors[0][1].path
        is_own = storage is self._own
        try:
            size = self._sizes.get(path) if is_own else storage.stat(path).size_bytes
            if size is None:
                return _unread(vectors, None, "its file is missing")
            version, reads = self._read_file(vectors, size)
        except FileMissing:
            was_told = not is_own and self._was_told(vectors[0][1].shown)
            return _unread(vectors, None if was_told else "dv.file-missing", "its file is missing")
        except PathExternal as refusal:
            self._files.refuse(vectors[0][1].shown)
            return _unread(vectors, None, refusal.message)
        except StorageFailed as fault:
            return _unread(vectors, UNREAD, fault.message)
        return reads if not version or version[0] == _VERSION else _of_version(reads, version[0])

    def _read_file(self, vectors: Sequence[tuple[Numbered, VectorPlace]], size: int) -> tuple[bytes, list[VectorRead]]:
        """Return the first byte of a file of `size` bytes, and its vectors. Raises StorageFailed."""
        storage, path = vectors[0][1].storage, vectors[0][1].path
        version = None
        reads: list[VectorRead] = []
        for start, end, members in _ranges(sorted(vectors, key=lambda one: one[1].offset), size):
            data = storage.read_range(path, start, min(end, size) - start) if start < size else b""
            if start == 0:
                version = data[:1]
            for (row, descriptor), place in members:
                stored = data[place.offset - start : place.end - start]
                try:
                    read = self._parsed(row, descriptor, stored_data(place, stored, size))
                except VectorFaultError as fault:
                    read = _faulty(row, fault)
                reads.append(read)
        return (storage.read_range(path, 0, 1) if version is None else version), reads

    def _parsed(self, row: int, descriptor: Descriptor, data: bytes) -> VectorRead:
        try:
            rows = parse_rows(data)
        except VectorFaultError as fault:
            return _faulty(row, fault)
        is_native = int.from_bytes(data[:4], "little") == NATIVE
        facts = VectorFacts(row, None, "", rows.count, rows.last, is_native=is_native)
        if rows.count == descriptor.get("cardinality"):
            return VectorRead(facts, rows if self._keeps_rows else None)
        return VectorRead(_with_fault(facts, cardinality_fault(descriptor, rows)), None)


def _ranges(
    vectors: Sequence[tuple[Numbered, VectorPlace]], size: int
) -> Iterator[tuple[int, int, list[tuple[Numbered, VectorPlace]]]]:
    """Yield each range that is read at once: start, end, and its vectors, which are in offset order."""
    start, end = 0, 1
    members: list[tuple[Numbered, VectorPlace]] = []
    for vector in vectors:
        place = vector[1]
        stop = min(place.end, size)
        is_near = place.offset - end <= _MOST_GAP and max(end, stop) - start <= _MOST_TOGETHER
        if not is_near:
            if members:
                yield start, end, members
            start, end, members = place.offset, stop, []
        members.append(vector)
        end = max(end, stop)
    if members:
        yield start, end, members


def _faulty(row: int, fault: VectorFaultError) -> VectorRead:
    return VectorRead(_with_fault(VectorFacts(row, None, "", None, None), fault), None)


def _with_fault(facts: VectorFacts, fault: VectorFaultError) -> VectorFacts:
    seen, expected = (None if value is None else str(value) for value in (fault.seen, fault.expected))
    return facts._replace(code=fault.code, reason=str(fault), seen=seen, expected=expected)


def _unread(vectors: Sequence[tuple[Numbered, VectorPlace]], code: str | None, reason: str) -> list[VectorRead]:
    return [VectorRead(VectorFacts(row, code, reason, None, None), None) for (row, _), _ in vectors]


def _of_version(reads: list[VectorRead], version: int) -> list[VectorRead]:
    """Return the vectors of a file with an invalid version byte. The fault is reported for the first of them."""
    first = min(read.facts.row for read in reads)
    more = f", and so for {plural(len(reads) - 1, 'more vector')} of it" if len(reads) > 1 else ""
    reason = f"its file begins with version {version}{more}"
    silent = [VectorRead(read.facts._replace(code=None, reason=""), read.rows) for read in reads]
    return [
        read
        if read.facts.row != first
        else VectorRead(
            read.facts._replace(code="dv.file-version", reason=reason, seen=str(version), expected=str(_VERSION)),
            read.rows,
        )
        for read in silent
    ]
