"""Whether files are what the log says, wherever they are: size, footer with rows, checksum and rows of vectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import StorageFailed
from deltacli.core.progress import Progress
from deltacli.core.typing import ArrowArray
from deltacli.core.units import plural
from deltacli.delta.paths.spelling import decode_path_bytes, encode_least
from deltacli.engine.base import Engine
from deltacli.rules.framework.base import UNREAD
from deltacli.table.needed_files import FileKind, NeededFiles, combine_chunks
from deltacli.work.facts import footer_and_vector_facts, footer_files, vector_facts
from deltacli.work.rows.deletion_vectors import Descriptor
from deltacli.work.table_stores import TableStores

_NEAR_FILES, _FAR_FILES = 256, 8
"""Files that are read by one piece: of a store that answers in a millisecond, and of one over a network."""


class Problem(StrEnum):
    """Why a file cannot be used."""

    MISSING = "missing"
    SIZE = "size"
    FOOTER = "footer"
    VECTOR = "vector"
    CHECKSUM = "checksum"


Fault = tuple[Problem, str]
"""What is wrong with a file, and why in words."""


def other_size(seen: int, stated: int) -> str:
    """Return the reason of a file that has another size than the log says, in bytes."""
    return f"{plural(seen, 'byte')} instead of {stated:,}"


class Verified(NamedTuple):
    """The `problem` of each file, null where it is what the log says, and the reason in words (strings)."""

    problems: ArrowArray
    reasons: ArrowArray

    @property
    def is_sound(self) -> ArrowArray:
        return pc.is_null(self.problems)

    def with_faults(self, faults: Mapping[int, Fault]) -> Self:
        """Return it with what else is wrong, by the rows of files."""
        mask = pc.is_in(pa.array(range(len(self.problems)), pa.int64()), value_set=pa.array(list(faults), pa.int64()))
        in_order = [faults[row] for row in sorted(faults)]
        columns = (
            pc.replace_with_mask(column, mask, pa.array([fault[part] for fault in in_order], pa.string()))
            for part, column in enumerate(self)
        )
        return type(self)(*columns)


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
    text = pa.string()
    known = combine_chunks(needed.files["sizeBytes"])
    is_missing = pc.is_null(sizes)
    is_other = pc.fill_null(pc.not_equal(sizes, known), False)
    problems = pc.if_else(is_other, Problem.SIZE.value, pa.nulls(len(sizes), text))
    problems = pc.if_else(is_missing, Problem.MISSING.value, problems)
    others = (pc.filter(column, is_other).to_pylist() for column in (sizes, known))
    texts = [other_size(*of_file) for of_file in zip(*others, strict=True)]
    reasons = pc.replace_with_mask(pa.nulls(len(sizes), text), is_other, pa.array(texts, text))
    if contents is not False:
        found = _within(needed, sizes, pc.and_(pc.is_null(problems), contents), stores, engine, progress)
        return Verified(problems, reasons).with_faults(found)
    if not needed.vectors.num_rows:
        return Verified(problems, reasons)
    is_short = pc.and_(pc.is_null(problems), _ends_early(needed, sizes))
    problems = pc.if_else(is_short, Problem.SIZE.value, problems)
    return Verified(problems, pc.if_else(is_short, "it ends before a deletion vector in it", reasons))


_AROUND_A_VECTOR = 8
"""Bytes of its size before a vector in a file, and of its checksum behind it."""


def _ends_early(needed: NeededFiles, sizes: ArrowArray) -> ArrowArray:
    """Return which files end before a vector that the log says is in them."""
    paths, place = combine_chunks(needed.files["path"]), combine_chunks(needed.vectors["path"])
    numbers = (
        pc.struct_field(combine_chunks(needed.vectors["deletionVector"]), [name]) for name in ("offset", "sizeInBytes")
    )
    offset, size_bytes = (pc.cast(number, pa.int64()) for number in numbers)
    ends = pc.add(pc.add(pc.fill_null(offset, 0), size_bytes), _AROUND_A_VECTOR)
    seen = pc.take(sizes, pc.index_in(place, value_set=paths))
    return pc.is_in(paths, value_set=pc.filter(place, pc.fill_null(pc.less(seen, ends), False)))


def _within(
    needed: NeededFiles, sizes: ArrowArray, wanted: ArrowArray, stores: TableStores, engine: Engine, progress: Progress
) -> dict[int, Fault]:
    """Return what is wrong within files, by the row of the file."""
    paths = combine_chunks(needed.files["path"])
    of_data, of_vectors = (
        pc.indices_nonzero(pc.and_(combine_chunks(pc.equal(needed.files["kind"], kind.value)), wanted))
        for kind in (FileKind.DATA, FileKind.VECTOR)
    )
    columns = (pc.take(column, of_data).to_pylist() for column in (paths, sizes, combine_chunks(needed.files["rows"])))
    footers = [
        (footer_files.ListedFile(encode_least(decode_path_bytes(path)), size), rows)
        for path, size, rows in zip(*columns, strict=True)
    ]
    row_of = dict(zip(pc.take(paths, of_vectors).to_pylist(), of_vectors.to_pylist(), strict=True))
    vectors: list[tuple[int, Descriptor]] = []
    stated = pc.filter(needed.vectors, pc.is_in(needed.vectors["path"], value_set=pc.take(paths, of_vectors)))
    for path, descriptor in zip(*(stated[name].to_pylist() for name in ("path", "deletionVector")), strict=True):
        at = {"pathOrInlineDv": encode_least(decode_path_bytes(path))} if descriptor["storageType"] == "p" else {}
        vectors.append((row_of[path], {**without_nulls(descriptor), **at}))
    known = dict(zip(map(decode_path_bytes, row_of), pc.take(sizes, of_vectors).to_pylist(), strict=True))
    told = faults_within(footers, [vector for _, vector in vectors], known, stores, engine, progress)
    rows = [*of_data.to_pylist(), *(row for row, _ in vectors)]
    return {row: fault for row, fault in zip(rows, told, strict=True) if fault is not None}


def faults_within(
    footers: Sequence[tuple[footer_files.ListedFile, int | None]],
    vectors: Sequence[Descriptor],
    sizes: Mapping[str, int],
    stores: TableStores,
    engine: Engine,
    progress: Progress,
) -> list[Fault | None]:
    """Return what is wrong with the footers of files, whose numbers of rows are given where they are known, and then
    with vectors. `sizes` are the bytes of files of vectors in the table. Raises StorageFailed.
    """
    each = _NEAR_FILES if stores.storage.capabilities.has_cheap_requests else _FAR_FILES
    files = stores.files()
    pieces: list[footer_files.FooterPiece | vector_facts.VectorPiece] = [
        tuple(file for file, _ in footers[start : start + each]) for start in range(0, len(footers), each)
    ]
    for part in vector_facts.group_vectors_by_file(enumerate(vectors), each):
        of_part = dict.fromkeys(vector_facts.find_vector_file(files, descriptor) or "" for _, descriptor in part)
        pieces.append(
            vector_facts.VectorPiece(tuple(part), tuple((path, sizes[path]) for path in of_part if path in sizes))
        )
    found: Iterator[Any] = engine.run_tasks(  # Any: the facts of a piece, by its kind
        footer_and_vector_facts.ReadFootersAndVectors(),
        pieces,
        stores,
        weigh=footer_and_vector_facts.count_facts,
        at_once=stores.storage.capabilities.parallel_reads,
    )
    of_footers: list[Fault | None] = []
    of_vectors: list[Fault | None] = [None] * len(vectors)
    with progress.step(
        "verifying files", unit="files", total=sum(map(footer_and_vector_facts.count_facts, pieces))
    ) as step:
        for piece, facts in zip(pieces, found, strict=True):
            for one in facts:
                if isinstance(piece, vector_facts.VectorPiece):
                    if one.facts.code == UNREAD:
                        raise StorageFailed(one.facts.reason)
                    of_vectors[one.facts.row] = (
                        None if one.is_usable and one.facts.code is None else (Problem.VECTOR, one.facts.reason)
                    )
                else:
                    of_footers.append(_fault_of_footer(one, footers[len(of_footers)][1]))
            step.advance(footer_and_vector_facts.count_facts(piece))
    return of_footers + of_vectors


def _fault_of_footer(read: footer_files.FooterRead, expected: int | None) -> Fault | None:
    footer, fault = read
    if fault is not None and fault.code == UNREAD:
        raise StorageFailed(fault.message)  # nothing is known of the file
    if fault is not None:
        return None if fault.code.endswith(".encrypted") else (Problem.FOOTER, fault.message)
    if footer is None:
        return Problem.MISSING, "it was deleted meanwhile"
    if expected is not None and footer.rows != expected:
        return Problem.FOOTER, f"{plural(footer.rows, 'row')} instead of {expected:,}"
    return None


def without_nulls(descriptor: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of a deletion vector that are stated."""
    return {name: value for name, value in descriptor.items() if value is not None}
