"""The live files and tombstones of a version, updated commit by commit.

Spec: Action Reconciliation. Actions of commits are kept as values. Those of a checkpoint stay in columns, and only the
few files that later commits touch are taken out of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import ArrowArray
from deltacli.delta.data_files import find_descriptor_fault, repeat_empty_vector_id, unique_id, unique_id_column
from deltacli.delta.log.actions import Action
from deltacli.delta.log.file_actions import action_schemas, build_action_batch_leniently, extract_num_records_column
from deltacli.delta.log.segment import LOG_DIRECTORY, commit_name
from deltacli.delta.paths.spelling import canonicalize_path
from deltacli.delta.paths.spelling_columns import are_absolute, canonicalize_paths
from deltacli.rules.framework.views import OF_CHECKPOINT, LiveFile, Totals, TouchedFile

if TYPE_CHECKING:
    from deltacli.rules.framework.data_file_views import LiveAdds

_ROWS_A_BATCH = 16_384
_MOST_SLICES = 2_000
_NO_FILES = Totals(0, 0, 0, 0)


class KnownFiles:
    """The files of one version after another. `is_known` is False if the necessary part of the log is missing."""

    def __init__(self, *, is_known: bool) -> None:
        self.is_known = is_known
        self.totals = _NO_FILES
        self._tombstones: dict[tuple[str, str], Action | None] = {}
        self._base: pa.Table | None = None
        self._base_path = ""
        self._base_removes: pa.Table | None = None
        self._touched: dict[str, tuple[LiveFile, ...]] = {}
        self.may_have_absolute = False
        """True if the path of a file, live or not, may be absolute."""

    @classmethod
    def of_checkpoint(cls, adds: pa.Table, removes: pa.Table, path: str) -> KnownFiles:
        """Start again with the contents of the checkpoint at a path. `adds` has the fields of `action_schemas().add`
        and `num_records`; statistics are optional. `removes` has those of `action_schemas().remove`.
        """
        known = cls(is_known=True)
        known._base_path = path
        known._base, known._base_removes = adds, removes
        known.may_have_absolute = any(pc.any(are_absolute(chunk)).as_py() for chunk in adds.column("path").chunks)
        vectors = adds.column("deletionVector")
        with_vector = len(vectors) - vectors.null_count
        deleted = sum((pc.sum(pc.struct_field(chunk, ["cardinality"])).as_py() or 0) for chunk in vectors.chunks)
        known.totals = Totals(adds.num_rows, pc.sum(adds.column("size")).as_py() or 0, with_vector, deleted)
        return known

    def prefetch(self, paths: Iterable[str]) -> None:
        """Take the files of these raw paths out of the columns, in one pass for many commits."""
        if self._base is None:
            return
        self._take_out({canonicalize_path(path) for path in paths})

    def _take_out(self, keys: set[str]) -> None:
        wanted = keys - self._touched.keys()
        if self._base is None or not wanted:
            return
        self._touched |= dict.fromkeys(sorted(wanted), ())  # files are read, and findings told, in this order
        rows = pc.filter(self._base, _is_in(self._base.column("path"), _binary(wanted)))
        for live in _live_files(rows):
            key = canonicalize_path(live.path)
            self._touched[key] = (*_others(self._touched[key], live.dv_id), live)

    def live_of(self, key: str) -> Sequence[LiveFile] | None:
        """Return the live logical files of a canonical path, or None if unknown."""
        if not self.is_known:
            return None
        live = self._touched.get(key)
        if live is None:
            if self._base is None:
                return ()
            self._take_out({key})
            live = self._touched[key]
        return live

    def live_of_all(self, keys: Collection[str]) -> dict[str, Sequence[LiveFile]]:
        """Return the live logical files of each of several canonical paths, after one look at the columns.

        The result is empty if it is not known which files are live.
        """
        if not self.is_known:
            return {}
        self._take_out(set(keys))
        return {key: self._touched.get(key, ()) for key in keys}

    def apply(self, version: int, adds: Sequence[TouchedFile], removes: Sequence[TouchedFile]) -> None:
        """Apply a commit. Of an add and a remove of the same key the add applies, as in every replay here."""
        if not self.is_known:
            return
        if self._base is not None:
            self._take_out({file.path for file in (*adds, *removes)})
        files, size, vectors, deleted = self.totals
        for file in removes:
            path, dv_id = file.path, file.dv_id or ""
            self._tombstones[path, dv_id] = file.placed.action
            before = self._touched.get(path, ())
            for gone in before:
                if gone.dv_id == dv_id:
                    files, size, vectors, deleted = _less((files, size, vectors, deleted), gone)
                    self._touched[path] = _others(before, dv_id)
        for file in adds:
            add = file.placed.action
            path, dv_id = file.path, file.dv_id or ""
            if self._base_removes is not None:
                self._tombstones[path, dv_id] = None  # hides one of the checkpoint
            elif self._tombstones:
                self._tombstones.pop((path, dv_id), None)
            live = LiveFile(add["path"], dv_id, version, file.placed.line, add)
            if ":" in live.path or live.path[:1] == "/":
                self.may_have_absolute = True
            before = self._touched.get(path, ())
            for gone in before:
                if gone.dv_id == dv_id:
                    files, size, vectors, deleted = _less((files, size, vectors, deleted), gone)
            self._touched[path] = (*_others(before, dv_id), live) if before else (live,)
            files, size = files + 1, size + (add.get("size") or 0)
            if dv_id:
                vectors, deleted = vectors + 1, deleted + (add["deletionVector"].get("cardinality") or 0)
        self.totals = Totals(files, size, vectors, deleted)

    def live(self) -> Iterator[LiveFile]:
        """Yield every live file; those of the checkpoint in chunks."""
        yield from self._touched_files()
        base = self._untouched_base()
        if base is not None:
            for batch in base.to_batches(max_chunksize=8_192):
                yield from _live_files(batch)

    def tombstone_of(self, key: tuple[str, str]) -> Action | None:
        """Return the remove of a key (canonical path, vector id) in a visible commit, unless an add undid it."""
        return self._tombstones.get(key)

    def tombstones(self, newer_than: int | None = None) -> Iterator[Action]:
        """Yield each remove that no add undid, or those with a greater deletionTimestamp; a checkpoint's in chunks."""
        for remove in self._tombstones.values():
            if remove is not None and (newer_than is None or (remove.get("deletionTimestamp") or 0) > newer_than):
                yield remove
        base = self._base_removes
        if base is None:
            return
        if newer_than is not None:
            base = pc.filter(base, pc.greater(pc.fill_null(base.column("deletionTimestamp"), 0), newer_than))
        for batch in base.to_batches(max_chunksize=8_192):
            for remove in batch.to_pylist(maps_as_pydicts="lossy"):
                if not self._tombstones or _key_of(remove) not in self._tombstones:
                    yield {name: value for name, value in remove.items() if value is not None}

    def tombstone_count(self) -> int:
        """Return the number of removes that no add undid."""
        count = sum(remove is not None for remove in self._tombstones.values())
        base = self._base_removes
        if base is None or not base.num_rows:
            return count
        if not self._tombstones:
            return count + int(base.num_rows)
        named = {path for path, _ in self._tombstones}
        rows = pc.filter(base, _is_in(base.column("path"), _binary(named)))
        hidden = sum(_key_of(remove) in self._tombstones for remove in rows.to_pylist(maps_as_pydicts="lossy"))
        return count + int(base.num_rows) - hidden

    def whole_adds(self) -> Iterator[pa.RecordBatch]:
        """Yield the live files as batches of `action_schemas().add`. Those of the checkpoint have no statistics."""
        schema = action_schemas().add
        files = [file.add for file in self._touched_files()]
        for start in range(0, len(files), _ROWS_A_BATCH):
            yield build_action_batch_leniently(files[start : start + _ROWS_A_BATCH], schema)
        base = self._untouched_base()
        if base is not None:
            yield from _with_statistics(base).select(schema.names).to_batches()

    def placed_adds(self) -> Iterator[LiveAdds]:
        """Yield the same batches with the places where the log names each file."""
        from deltacli.rules.framework.data_file_views import LiveAdds

        schema = action_schemas().add
        files = list(self._touched_files())
        for start in range(0, len(files), _ROWS_A_BATCH):
            part = files[start : start + _ROWS_A_BATCH]
            adds = build_action_batch_leniently([file.add for file in part], schema)
            yield LiveAdds(adds, [file.version for file in part], [file.line for file in part], self._base_path)
        base = self._untouched_base()
        if base is None:
            return
        for batch in _with_statistics(base).select(schema.names).to_batches(max_chunksize=_ROWS_A_BATCH):
            rows = batch.num_rows
            yield LiveAdds(batch, [OF_CHECKPOINT] * rows, [None] * rows, self._base_path)

    def live_columns(self) -> pa.Table:
        """Return the live files in columns, as in `StateView.live`."""
        parts = [_columns_of(list(self._touched_files()))]
        base = self._untouched_base(
            "path", "size", "num_records", "deletionVector", "baseRowId", "defaultRowCommitVersion"
        )
        if base is not None and base.num_rows:
            parts.append(_state_columns(base))
        return pa.concat_tables(parts)

    def live_adds(self) -> pa.Table:
        """Return the live files in columns, as in `StorageView.live_adds`."""
        parts = [_add_columns(list(self._touched_files()), self._base_path)]
        base = self._untouched_base("path", "size", "modificationTime", "deletionVector")
        if base is not None and base.num_rows:
            vectors = base.column("deletionVector")
            parts.append(
                pa.table(
                    {
                        "path": base.column("path"),
                        "size": base.column("size"),
                        "modification_time": base.column("modificationTime"),
                        "version": pa.repeat(pa.scalar(OF_CHECKPOINT, pa.int64()), base.num_rows),
                        "line": pa.nulls(base.num_rows, pa.int64()),
                        "dv_storage": pc.struct_field(vectors, ["storageType"]),
                        "dv_path": pc.struct_field(vectors, ["pathOrInlineDv"]),
                        "source": pa.repeat(self._base_path, base.num_rows),
                    }
                )
            )
        return pa.concat_tables(parts)

    def _touched_files(self) -> Iterator[LiveFile]:
        return chain.from_iterable(self._touched.values())

    def _untouched_base(self, *columns: str) -> pa.Table | None:
        """Return the files of the checkpoint that no commit touched, in these columns."""
        if self._base is None:
            return None
        base = self._base.select(columns) if columns else self._base
        if not self._touched:
            return base
        touched = _is_in(self._base.column("path"), _binary(self._touched.keys()))
        rows = pc.indices_nonzero(touched)
        if len(rows) > _MOST_SLICES:
            return pc.filter(base, pc.invert(touched))
        return _without(base, rows.to_pylist())


def _with_statistics(base: pa.Table) -> pa.Table:
    """Return the files of a checkpoint with a column of statistics, null if they were not kept."""
    return base if "stats" in base.column_names else base.append_column("stats", pa.nulls(base.num_rows, pa.string()))


def _key_of(action: Action) -> tuple[str, str]:
    vector = action.get("deletionVector")
    is_sound = vector is not None and find_descriptor_fault(vector) is None
    return canonicalize_path(str(action.get("path"))), unique_id(vector) if is_sound else ""


def _others(files: tuple[LiveFile, ...], dv_id: str) -> tuple[LiveFile, ...]:
    return tuple(file for file in files if file.dv_id != dv_id)


def _less(totals: tuple[int, int, int, int], gone: LiveFile) -> tuple[int, int, int, int]:
    files, size, vectors, deleted = totals
    if gone.dv_id:
        vectors, deleted = vectors - 1, deleted - ((gone.add.get("deletionVector") or {}).get("cardinality") or 0)
    return files - 1, size - (gone.add.get("size") or 0), vectors, deleted


def _without(table: pa.Table, rows: Sequence[int]) -> pa.Table:
    """Return a table without a few rows, as slices instead of a copy."""
    ends = [-1, *rows, table.num_rows]
    return pa.concat_tables(table.slice(before + 1, after - before - 1) for before, after in pairwise(ends))


def _is_in(paths: ArrowArray, keys: ArrowArray) -> ArrowArray:
    masks = [pc.is_in(canonicalize_paths(chunk), value_set=keys) for chunk in paths.chunks]
    return pa.chunked_array(masks, pa.bool_())


def _binary(keys: Iterable[str]) -> ArrowArray:
    return pa.array([_bytes_of(key) for key in keys], pa.binary())


def _bytes_of(key: str) -> bytes:
    """Return the bytes of a canonical path as in the log; for half a surrogate pair, bytes that no path has."""
    try:
        return key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return key.encode("utf-8", "surrogatepass")


def _live_files(rows: Any) -> Iterator[LiveFile]:  # Any: a table or a record batch of the checkpoint
    for add in rows.to_pylist(maps_as_pydicts="lossy"):
        vector = add.get("deletionVector")
        sound = vector is not None and find_descriptor_fault(vector) is None
        yield LiveFile(
            add["path"],
            unique_id(vector) if sound else "",
            OF_CHECKPOINT,
            None,
            {name: value for name, value in add.items() if value is not None},
        )


def _columns_of(files: Sequence[LiveFile]) -> pa.Table:
    adds = [file.add for file in files]
    paths = _texts([file.path for file in files])
    stats = _texts([add.get("stats") for add in adds])
    vectors = [add.get("deletionVector") or {} for add in adds]
    return _table(
        paths,
        canonicalize_paths(paths),
        _texts([file.dv_id for file in files]),
        pa.array([add.get("size") for add in adds], pa.int64()),
        pc.coalesce(pa.array([add.get("num_records") for add in adds], pa.int64()), extract_num_records_column(stats)),
        pa.array([vector.get("cardinality") for vector in vectors], pa.int64()),
        pa.array([add.get("baseRowId") for add in adds], pa.int64()),
        pa.array([add.get("defaultRowCommitVersion") for add in adds], pa.int64()),
        pa.array([file.version for file in files], pa.int64()),
    )


def _state_columns(base: pa.Table) -> pa.Table:
    vectors = base.column("deletionVector").combine_chunks()
    rows = base.num_rows
    has_vectors = vectors.null_count < rows
    return _table(
        base.column("path"),
        pa.chunked_array([canonicalize_paths(chunk) for chunk in base.column("path").chunks], pa.binary()),
        unique_id_column(vectors) if has_vectors else repeat_empty_vector_id(rows),
        base.column("size"),
        base.column("num_records"),
        pc.cast(pc.struct_field(vectors, ["cardinality"]), pa.int64()),
        base.column("baseRowId"),
        base.column("defaultRowCommitVersion"),
        pa.repeat(pa.scalar(OF_CHECKPOINT, pa.int64()), rows),
    )


def _table(*columns: ArrowArray) -> pa.Table:
    names = (
        "path",
        "key",
        "dv_id",
        "size",
        "num_records",
        "dv_cardinality",
        "base_row_id",
        "default_row_commit_version",
        "version",
    )
    return pa.table(dict(zip(names, columns, strict=True)))


def _add_columns(files: Sequence[LiveFile], base_path: str) -> pa.Table:
    adds = [file.add for file in files]
    vectors = [add.get("deletionVector") or {} for add in adds]
    return pa.table(
        {
            "path": _texts([file.path for file in files]),
            "size": pa.array([add.get("size") for add in adds], pa.int64()),
            "modification_time": pa.array([add.get("modificationTime") for add in adds], pa.int64()),
            "version": pa.array([file.version for file in files], pa.int64()),
            "line": pa.array([file.line for file in files], pa.int64()),
            "dv_storage": _texts([vector.get("storageType") for vector in vectors]),
            "dv_path": _texts([vector.get("pathOrInlineDv") for vector in vectors]),
            "source": _texts(
                [
                    base_path if file.version == OF_CHECKPOINT else f"{LOG_DIRECTORY}/{commit_name(file.version)}"
                    for file in files
                ]
            ),
        }
    )


def _texts(values: Sequence[str | None]) -> ArrowArray:
    """Return texts as a column. Halves of surrogate pairs become question marks, because they cannot be encoded."""
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:
        plain = [None if value is None else value.encode("utf-8", "replace").decode() for value in values]
        return pa.array(plain, pa.string())
