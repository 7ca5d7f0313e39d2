"""Files that no log names and that are what the log says of files that are missing: a path in a commit may be damaged.

Such a file is not given up: the rows are there, under another name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.delta.paths import text_of
from deltacli.delta.rules.files.storage import ORPHAN, ORPHAN_YOUNG
from deltacli.delta.rules.files.vector_files import ORPHAN as ORPHAN_VECTOR
from deltacli.operations.recover.needed import FileKind, NeededFiles, needed_files, whole
from deltacli.operations.recover.presence import look_for
from deltacli.operations.recover.verify import as_in_log, faults_within
from deltacli.work.file_facts import ListedFile

if TYPE_CHECKING:
    from deltacli.operations.table.handle import TableHandle
    from deltacli.work.rows.deletion_vectors import Descriptor

STRANGERS = (ORPHAN.id, ORPHAN_YOUNG.id, ORPHAN_VECTOR.id)
"""The rules about files that no log names."""
_MOST_COMPARED = 20
"""Files without a name that are compared with one that is missing."""


class _Pair(NamedTuple):
    """A missing file, and one that may be it."""

    key: bytes
    path: str


def find_renamed(table: TableHandle, missing: NeededFiles, strangers: Sequence[str]) -> Mapping[bytes, str]:
    """Return the key of each missing file that is there under another name, with that name. `strangers` are the paths
    of files that no log names. Raises StorageFailed.
    """
    import pyarrow as pa

    if not strangers or not missing.files.num_rows:
        return {}
    paths = pa.array([as_in_log(path) for path in strangers], pa.string())
    nothing = pa.nulls(len(paths), pa.int64())
    found, sizes = look_for(
        table.storage, needed_files((table.storage.uri,), paths, nothing, nothing), table.engine, table.progress
    )
    names = [text_of(path) for path in whole(found.files["path"]).to_pylist()]
    by_size: dict[int, list[str]] = {}
    for name, size in zip(names, sizes.to_pylist(), strict=True):
        by_size.setdefault(size, []).append(name)
    pairs, footers = _same_size(missing, by_size)
    vectors = list(_same_vector(missing, names))
    known = dict(zip(names, sizes.to_pylist(), strict=True))
    told = faults_within(
        footers,
        [vector for _, vector in vectors],
        known,
        table.over(table.storage).stores,
        table.engine,
        table.progress,
    )
    sound = zip([*pairs, *(pair for pair, _ in vectors)], told, strict=True)
    return {pair.key: pair.path for pair, fault in reversed(list(sound)) if fault is None}


def _same_size(
    missing: NeededFiles, by_size: Mapping[int, Sequence[str]]
) -> tuple[list[_Pair], list[tuple[ListedFile, int | None]]]:
    """Return the data files that may be others, with what is expected of their footers."""
    data = missing.files.filter(pc.equal(missing.files["kind"], FileKind.DATA.value))
    columns = (data[name].to_pylist() for name in ("path", "sizeBytes", "rows"))
    pairs, footers = list[_Pair](), list[tuple[ListedFile, int | None]]()
    for key, size, rows in zip(*columns, strict=True):
        for path in by_size.get(size, ())[:_MOST_COMPARED]:
            pairs.append(_Pair(key, path))
            footers.append((ListedFile(as_in_log(path), size), rows))
    return pairs, footers


def _same_vector(missing: NeededFiles, names: Sequence[str]) -> Iterator[tuple[_Pair, Descriptor]]:
    """Yield the files that may have the vectors of others, each with the vector as it would be there."""
    lost = set(missing.files["path"].to_pylist())
    columns = (missing.vectors[name].to_pylist() for name in ("path", "deletionVector"))
    for key, descriptor in zip(*columns, strict=True):
        for path in [one for one in names if one.endswith(".bin")][:_MOST_COMPARED] if key in lost else ():
            stated = {name: value for name, value in descriptor.items() if value is not None}
            yield _Pair(key, path), {**stated, "storageType": "p", "pathOrInlineDv": as_in_log(path)}
