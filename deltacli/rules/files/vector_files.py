"""The files of deletion vectors against one listing of the table."""

from __future__ import annotations

import re
from collections.abc import Iterator

from deltacli.arrow import compute as pc
from deltacli.core.typing import ArrowArray
from deltacli.core.units import format_size
from deltacli.delta.log.log_path import Place
from deltacli.delta.paths import canonical, decode
from deltacli.delta.vectors import VECTOR_FILE, vector_file
from deltacli.rules.framework.base import LOST_BY_VACUUM, Area, Finding, Level, by_repair
from deltacli.rules.framework.view_lookups import hidden_names, place_of
from deltacli.rules.framework.views import StorageView

AREA = Area("deletion_vectors", Level.STORAGE)

ABSOLUTE_IN_ROOT = AREA.warning(
    "dv.absolute-in-root",
    "An absolute path of a deletion vector points into the table. The vacuum of Delta-Spark does not protect it.",
    spec="Delta-Spark: VacuumCommand",
    broken="a vacuum may delete the vector, and moving the table breaks the path",
    repair="commit the same add again with storage type u, and remove the old one",
    example='"deletionVector":{"storageType":"p","pathOrInlineDv":"s3://bucket/table/deletion_vector_1.bin",…}',
    level=Level.LOG,
)
FILE_MISSING = AREA.error(
    "dv.file-missing",
    "The file of a deletion vector does not exist.",
    spec="Deletion Vectors",
    broken="the data file cannot be read, or its deleted rows come back",
    repair=by_repair("the vector"),
    loss="the rows of the file, if no copy has the vector",
    example='"deletionVector":{"storageType":"u",…} and no deletion_vector_….bin',
)
ORPHAN = AREA.info(
    "dv.orphan",
    "A file of deletion vectors is not named by any file of the log.",
    spec="Deletion Vector Files",
    broken="nothing, but it takes space",
    repair="vacuum the table",
    loss=LOST_BY_VACUUM,
    example="deletion_vector_61d16c75-6994-46b7-a15b-8b538852e50e.bin, which no action names",
)


_COLON_ONLY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?!/)")
"Begins like a URI but is not one: readers resolve it below the table."


@AREA.check(StorageView, FILE_MISSING, ABSOLUTE_IN_ROOT)
def files_of_live_vectors(view: StorageView) -> Iterator[Finding]:
    """Check that the vectors of live files exist and have the right kind of name. Each file is looked up once."""
    adds = view.live_adds.combine_chunks()
    kinds, paths = _whole(adds.column("dv_storage")), _whole(adds.column("dv_path"))
    for kind in ("u", "p"):
        rows = pc.indices_nonzero(pc.equal(kinds, kind))
        if not len(rows):
            continue
        encoded = pc.dictionary_encode(pc.take(paths, rows))
        for number, text in enumerate(encoded.dictionary.to_pylist()):
            location, is_there, is_inside = _look(view, kind, text)
            if is_there and not is_inside:
                continue
            for index in pc.indices_nonzero(pc.equal(encoded.indices, number)).to_pylist():
                place = place_of(adds.slice(rows[index].as_py(), 1).to_pylist()[0])
                if not is_there:
                    message = f"the file {location} of the deletion vector does not exist"
                    yield FILE_MISSING.at(place, message, seen="missing", expected=location)
                if is_inside:
                    message = f"the deletion vector is named by an absolute path inside the table: {text}"
                    yield ABSOLUTE_IN_ROOT.at(place, message, seen=text, expected=location)


def _look(view: StorageView, kind: str, text: str) -> tuple[str, bool, bool]:
    """Return where the file is, whether it exists (None if unknown), and whether an absolute path leads to it."""
    if kind == "u":
        location = vector_file(text)
        return (location, view.may_be_there(location), False) if location is not None else (text, True, False)
    inside = _below_root(view, text)
    if inside is not None:
        return inside, view.may_be_there(inside), True
    if _COLON_ONLY.match(text):
        return text, view.may_be_there(decode(text)), False
    return text, view.exists(text) is not False, False


def _below_root(view: StorageView, path: str) -> str | None:
    """Return the part of an absolute path below the table, decoded, or None if it points elsewhere."""
    root = canonical(view.uri).rstrip("/") + "/"
    for spelling in (canonical(path), path):
        if spelling.startswith(root):
            return spelling[len(root) :]
    return None


@AREA.check(StorageView, ORPHAN)
def files_that_no_vector_names(view: StorageView) -> Iterator[Finding]:
    """Report files of vectors that no live file and no tombstone names, and that a vacuum looks at."""
    hidden, nested = hidden_names(view), tuple(f"{root}/" for root in view.nested_logs)
    found = (path for path in view.files if VECTOR_FILE.fullmatch(path))
    candidates = [path for path in found if not (hidden.hides_path(path) or path.startswith(nested))]
    if not candidates:
        return
    named = _named_files(view)
    for path in candidates:
        if path not in named:
            file = view.files[path]
            message = f"{path} ({format_size(file.size_bytes)}) is not named by any live file or tombstone"
            yield ORPHAN.at(Place(path), message, seen="unnamed", expected="a deletion vector that names it")


def _named_files(view: StorageView) -> set[str]:
    """Return every file, relative to the table, that holds a vector of a live file or a tombstone."""
    adds = view.live_adds
    pairs: set[tuple[object, object]] = set()
    for kind in ("u", "p"):
        chosen = pc.filter(adds.column("dv_path"), pc.equal(adds.column("dv_storage"), kind))
        pairs.update((kind, text) for text in pc.unique(chosen).to_pylist() if text is not None)
    for remove in view.tombstones:
        vector = remove.get("deletionVector")
        if isinstance(vector, dict):
            pairs.add((str(vector.get("storageType")), str(vector.get("pathOrInlineDv"))))
    named: set[str] = set()
    for storage, text in pairs:
        if not isinstance(text, str):
            continue
        location = vector_file(text) if storage == "u" else _below_root(view, text) if storage == "p" else None
        if location is not None:
            named.update((location, decode(location)))
    return named


def _whole(column: ArrowArray) -> ArrowArray:
    import pyarrow as pa

    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
