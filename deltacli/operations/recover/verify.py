"""Whether files are what the log says, wherever they are: size, footer with rows, checksum and rows of vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.delta.paths.locate_paths import text_of
from deltacli.delta.rules.framework.base import UNREAD
from deltacli.engine.base import Engine
from deltacli.errors import StorageFailed
from deltacli.operations.recover.needed import FileKind, NeededFiles, whole
from deltacli.patterns import pattern
from deltacli.progress import Progress
from deltacli.typing import ArrowArray
from deltacli.units import plural
from deltacli.work.file_facts import FooterPiece, FooterRead, ListedFile
from deltacli.work.task import TableStores
from deltacli.work.vector_facts import (
    Numbered,
    ReadFootersAndVectors,
    VectorPiece,
    VectorRead,
    file_of_vector,
    in_pieces,
    weight_of_facts,
)

_NEAR_FILES, _FAR_FILES = 256, 8
"""Files that are read by one piece: of a store that answers in a millisecond, and of one over a network."""

_LOOKS_ABSOLUTE = pattern(r"[A-Za-z][A-Za-z0-9+.-]*:/")


class Problem(StrEnum):
    """Why a file cannot be used."""

    MISSING = "missing"
    SIZE = "size"
    FOOTER = "footer"
    VECTOR = "vector"


class Verified(NamedTuple):
    """The `problem` of each file, null where it is what the log says, and the reason in words (strings)."""

    problems: ArrowArray
    reasons: ArrowArray

    @property
    def is_sound(self) -> ArrowArray:
        """Return which files are what the log says."""
        return pc.is_null(self.problems)


def verify(
    needed: NeededFiles,
    sizes: ArrowArray,
    stores: TableStores,
    engine: Engine,
    progress: Progress,
    *,
    contents: ArrowArray | bool = True,
) -> Verified:
    """Compare files with what the log says. `sizes` are their bytes in `stores`, null for one that is missing. With
    `contents`, or of the files of this mask, more than those is compared. Raises StorageFailed.
    """
    import pyarrow as pa

    text = pa.string()
    known = whole(needed.files["sizeBytes"])
    is_missing = pc.is_null(sizes)
    is_other = pc.fill_null(pc.not_equal(sizes, known), False)
    problems = pc.if_else(is_other, Problem.SIZE.value, pa.nulls(len(sizes), text))
    problems = pc.if_else(is_missing, Problem.MISSING.value, problems)
    seen, expected = (pc.cast(column, text) for column in (sizes, known))
    reasons = pc.if_else(
        is_other, pc.binary_join_element_wise(seen, " bytes instead of ", expected, ""), pa.nulls(len(sizes), text)
    )
    if contents is not False:
        found = _Contents(needed, sizes, pc.and_(pc.is_null(problems), contents), stores).read(engine, progress)
        rows = list(found)
        mask = pc.is_in(pa.array(range(len(sizes)), pa.int64()), value_set=pa.array(rows, pa.int64()))
        in_order = [found[row] for row in sorted(rows)]
        problems = pc.replace_with_mask(problems, mask, pa.array([one[0].value for one in in_order], text))
        reasons = pc.replace_with_mask(reasons, mask, pa.array([one[1] for one in in_order], text))
    return Verified(problems, reasons)


class _Contents:
    """Reads footers and vectors. A problem has the row of its file."""

    def __init__(self, needed: NeededFiles, sizes: ArrowArray, wanted: ArrowArray, stores: TableStores) -> None:
        self._needed, self._sizes, self._stores = needed, sizes, stores
        is_data = pc.equal(needed.files["kind"], FileKind.DATA.value)
        self._data = pc.indices_nonzero(pc.and_(whole(is_data), wanted))
        is_vector = pc.equal(needed.files["kind"], FileKind.VECTOR.value)
        self._vectors = pc.indices_nonzero(pc.and_(whole(is_vector), wanted))
        self._each = _NEAR_FILES if stores.storage.capabilities.cheap_listing else _FAR_FILES

    def read(self, engine: Engine, progress: Progress) -> dict[int, tuple[Problem, str]]:
        footers, vectors = list(self._footer_pieces()), list(self._vector_pieces())
        pieces: list[FooterPiece | VectorPiece] = [*footers, *vectors]
        found: Iterator[Any] = engine.spread(  # Any: the facts of a piece, by its kind
            ReadFootersAndVectors(),
            pieces,
            self._stores,
            weigh=weight_of_facts,
            at_once=self._stores.storage.capabilities.parallel_reads,
        )
        problems: dict[int, tuple[Problem, str]] = {}
        total = sum(map(weight_of_facts, pieces))
        with progress.step("verifying files", unit="files", total=total) as step:
            for piece, facts in zip(pieces, found, strict=True):
                if isinstance(piece, VectorPiece):
                    self._judge_vectors(facts, problems)
                else:
                    self._judge_footers(facts, problems)
                step.advance(weight_of_facts(piece))
        return problems

    def _footer_pieces(self) -> Iterator[FooterPiece]:
        paths, sizes = (pc.take(whole(column), self._data) for column in (self._needed.files["path"], self._sizes))
        self._rows_of_data = iter(
            zip(self._data.to_pylist(), pc.take(whole(self._needed.files["rows"]), self._data).to_pylist(), strict=True)
        )
        for start in range(0, len(paths), self._each):
            part = zip(
                paths.slice(start, self._each).to_pylist(), sizes.slice(start, self._each).to_pylist(), strict=True
            )
            yield tuple(ListedFile(as_in_log(text_of(path)), size) for path, size in part)

    def _judge_footers(self, facts: Sequence[FooterRead], problems: dict[int, tuple[Problem, str]]) -> None:
        for footer, fault in facts:
            row, expected = next(self._rows_of_data)
            if fault is not None and fault.code == UNREAD:
                raise StorageFailed(fault.message)  # nothing is known of the file
            if fault is not None and not fault.code.endswith(".encrypted"):
                problems[row] = Problem.FOOTER, fault.message
            elif fault is None and footer is None:
                problems[row] = Problem.MISSING, "it was deleted meanwhile"
            elif footer is not None and fault is None and expected is not None and footer.rows != expected:
                problems[row] = Problem.FOOTER, f"{plural(footer.rows, 'row')} instead of {expected:,}"

    def _vector_pieces(self) -> Iterator[VectorPiece]:
        rows = dict(
            zip(
                pc.take(whole(self._needed.files["path"]), self._vectors).to_pylist(),
                self._vectors.to_pylist(),
                strict=True,
            )
        )
        sizes = {text_of(path): self._sizes[row].as_py() for path, row in rows.items()}
        numbered: list[Numbered] = []
        self._file_of_vector: list[int] = []
        vectors = self._needed.vectors
        for path, descriptor in zip(vectors["path"].to_pylist(), vectors["deletionVector"].to_pylist(), strict=True):
            if path in rows:
                stated = {name: value for name, value in descriptor.items() if value is not None}
                if stated["storageType"] == "p":
                    stated["pathOrInlineDv"] = as_in_log(text_of(path))
                numbered.append((len(self._file_of_vector), stated))
                self._file_of_vector.append(rows[path])
        files = self._stores.files()
        for part in in_pieces(numbered, self._each):
            of_part = dict.fromkeys(file_of_vector(files, descriptor) for _, descriptor in part)
            yield VectorPiece(tuple(part), tuple((path, sizes[path]) for path in of_part if path in sizes))

    def _judge_vectors(self, facts: Sequence[VectorRead], problems: dict[int, tuple[Problem, str]]) -> None:
        for read in facts:
            if read.facts.code == UNREAD:
                raise StorageFailed(read.facts.reason)
            if not read.is_usable or read.facts.code is not None:
                problems[self._file_of_vector[read.facts.row]] = Problem.VECTOR, read.facts.reason


def as_in_log(path: str) -> str:
    """Return a path below the root as a log names it: percent-encoded, as far as that is needed."""
    encoded = path.replace("%", "%25")
    return encoded.replace(":", "%3A", 1) if _LOOKS_ABSOLUTE.match(encoded) else encoded
