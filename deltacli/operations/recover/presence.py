"""Which files of a list a store has: asked one by one, or by listing their directories where that takes fewer calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

from deltacli.arrow import compute as pc
from deltacli.delta.paths import text_of
from deltacli.engine.base import Engine
from deltacli.errors import FileMissing
from deltacli.operations.recover.needed import NeededFiles, whole
from deltacli.progress import Progress
from deltacli.storage import Storage
from deltacli.typing import ArrowArray
from deltacli.work.files.listing import in_batches

_MOST_ASKED = 500
"""Files that are asked for one by one on a store whose lists have a thousand."""
_ASKED_TOGETHER = 1_000


def look_for(
    storage: Storage,
    needed: NeededFiles,
    engine: Engine,
    progress: Progress,
    listed: Callable[[ArrowArray], ArrowArray] | None = None,
) -> tuple[NeededFiles, ArrowArray]:
    """Return the files, each under the spelling of its path that the store has, with no other left, and their bytes
    (int64), null for those that are missing.

    `listed` is for callers that need no bytes: it returns which paths are there as is known already, null where it is
    not known. Their bytes are 0.
    """
    import pyarrow as pa

    paths, written = (whole(needed.files[name]) for name in ("path", "written"))
    with progress.step("looking for files", unit="files", total=len(paths)) as step:
        sizes = _sizes_of(storage, paths, engine, listed)
        may_be_written = pc.and_(pc.is_null(sizes), pc.is_valid(written))
        if pc.any(may_be_written).as_py():
            others = _sizes_of(storage, pc.filter(written, may_be_written), engine, listed)
            sizes = pc.replace_with_mask(sizes, may_be_written, others)
            is_written = pc.and_(may_be_written, pc.is_valid(sizes))
            paths = pc.if_else(is_written, written, paths)
        if written.null_count < len(written):
            written = pc.if_else(pc.is_null(sizes), written, pa.scalar(None, pa.binary()))
            files = needed.files.drop_columns(["path", "written"])
            columns = {name: files[name] for name in files.column_names}
            needed = needed._replace(files=pa.table({"path": paths, "written": written, **columns}))
        step.advance(len(paths))
    return needed, sizes


def _sizes_of(
    storage: Storage, paths: ArrowArray, engine: Engine, listed: Callable[[ArrowArray], ArrowArray] | None = None
) -> ArrowArray:
    if listed is not None:
        import pyarrow as pa

        is_there = listed(paths)
        sizes = pc.if_else(is_there, pa.scalar(0, pa.int64()), pa.scalar(None, pa.int64()))
        unknown = pc.is_null(is_there)
        if not pc.any(unknown).as_py():
            return sizes
        return pc.replace_with_mask(sizes, unknown, _sizes_of(storage, pc.filter(paths, unknown), engine))
    if storage.capabilities.cheap_listing or len(paths) <= _MOST_ASKED:
        return _asked(storage, [text_of(path) for path in paths.to_pylist()], engine)
    return _listed(storage, paths)


def _asked(storage: Storage, paths: Sequence[str], engine: Engine) -> ArrowArray:
    import pyarrow as pa

    def ask(part: Sequence[str]) -> list[int | None]:
        sizes, _ = storage.stat_many(part)
        return [_linked(storage, path) if size < 0 else size for path, size in zip(part, sizes, strict=True)]

    parts = [paths[start : start + _ASKED_TOGETHER] for start in range(0, len(paths), _ASKED_TOGETHER)]
    found = engine.run(ask, parts)
    return pa.array([size for part in found for size in part], pa.int64())


def _linked(storage: Storage, path: str) -> int | None:
    """Return the bytes of a file that may be behind a link, None where there is none. Raises PathExternal."""
    if not storage.capabilities.has_directories:
        return None
    try:
        return storage.stat(path).size_bytes
    except FileMissing:
        return None


def _listed(storage: Storage, paths: ArrowArray) -> ArrowArray:
    """Return the bytes of files by listing the directories that they are in."""
    import pyarrow as pa

    directories = pc.unique(pc.replace_substring_regex(paths, r"/?[^/]*$", "")).to_pylist()
    entered = {above for one in directories for above in accumulate(text_of(one).split("/"), "{}/{}".format)}

    def enter(at: str, names: Sequence[str]) -> list[str]:
        return [name for name in names if (f"{at}/{name}" if at else name) in entered]

    sizes = pa.nulls(len(paths), pa.int64())
    try:
        for files in in_batches(storage.walk("", enter)):
            names = pa.array([name.encode("utf-8", "surrogateescape") for name in files.paths], pa.binary())
            found = pc.index_in(paths, value_set=names)
            of_batch = pa.array(storage.stat_many(files.paths)[0], pa.int64()) if files.sizes is None else files.sizes
            sizes = pc.coalesce(sizes, pc.take(of_batch, found))
    except FileMissing:
        pass  # nothing is there
    return sizes
