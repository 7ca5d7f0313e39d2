"""The live files and tombstones of a version, kept up to date commit by commit. Spec: Action Reconciliation.

What commits name is held as values; what came from a checkpoint stays in columns, and only the few files that later
commits touch are taken out of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from deltacli import arrow_compute as pc
from deltacli.delta.commit_lines import Action
from deltacli.delta.deletion_vector import fault_of, unique_id
from deltacli.delta.log_path import LOG_DIRECTORY, commit_name
from deltacli.delta.paths import canonical, canonical_column
from deltacli.delta.rules.views import LiveFile, Totals, TouchedFile

if TYPE_CHECKING:
    import pyarrow

_ROWS_A_BATCH = 16_384
_MOST_SLICES = 2_000
_NO_FILES = Totals(0, 0, 0, 0)


class KnownFiles:
    """The files of one version after another. `is_known` is False where the log that would tell is gone."""

    def __init__(self, *, is_known: bool) -> None:
        self.is_known = is_known
        self.totals = _NO_FILES
        self._tombstones: dict[tuple[str, str], Action | None] = {}
        self._base: pyarrow.Table | None = None
        self._base_version = -1
        self._base_path = ""
        self._base_removes: pyarrow.Table | None = None
        self._touched: dict[str, dict[str, LiveFile]] = {}

    @classmethod
    def of_checkpoint(cls, adds: pyarrow.Table, removes: Sequence[Action], version: int, path: str) -> KnownFiles:
        """Begin anew with what the checkpoint at a path holds. `adds` has the fields of `action_schemas().add` but for
        the statistics, and `num_records`; `removes` those of `action_schemas().remove`.
        """
        found = cls(is_known=True)
        found._base_path = path
        found._base, found._base_version = adds, version
        found._base_removes = removes
        vectors = adds.column("deletionVector")
        with_vector = len(vectors) - vectors.null_count
        deleted = sum((pc.sum(pc.struct_field(chunk, ["cardinality"])).as_py() or 0) for chunk in vectors.chunks)
        found.totals = Totals(adds.num_rows, pc.sum(adds.column("size")).as_py() or 0, with_vector, deleted)
        return found

    def prefetch(self, paths: Iterable[str]) -> None:
        """Take the files of these raw paths out of the columns: one look at them for many commits."""
        if self._base is None:
            return
        self._take_out({canonical(path) for path in paths})

    def _take_out(self, keys: set[str]) -> None:
        wanted = keys - self._touched.keys()
        if self._base is None or not wanted:
            return
        for key in wanted:
            self._touched[key] = {}
        rows = self._base.filter(_is_in(self._base.column("path"), _binary(wanted)))
        for live in _live_files(rows, self._base_version):
            self._touched[canonical(live.path)][live.dv_id] = live

    def live_of(self, key: str) -> Sequence[LiveFile] | None:
        """The live logical files of a canonical path; None where that can't be known."""
        if not self.is_known:
            return None
        of_path = self._touched.get(key)
        if of_path is None:
            if self._base is None:
                return ()
            self._take_out({key})
            of_path = self._touched[key]
        return tuple(of_path.values()) if of_path else ()

    def apply(self, version: int, adds: Sequence[TouchedFile], removes: Sequence[TouchedFile]) -> None:
        """Apply a commit. Of an add and a remove of one key the add counts, as in every replay here."""
        if not self.is_known:
            return
        if self._base is not None:
            self._take_out({file.path for file in (*adds, *removes)})
        files, size, vectors, deleted = self.totals
        for file in removes:
            key = (file.path, file.dv_id or "")
            self._tombstones[key] = file.placed.action
            gone = self._touched.get(key[0], {}).pop(key[1], None)
            if gone is not None:
                files, size, vectors, deleted = _less((files, size, vectors, deleted), gone)
        for file in adds:
            add = file.placed.action
            path, dv_id = file.path, file.dv_id or ""
            if self._base_removes is not None:
                self._tombstones[path, dv_id] = None  # hides one of the checkpoint
            elif self._tombstones:
                self._tombstones.pop((path, dv_id), None)
            live = LiveFile(add["path"], dv_id, version, file.placed.line, add)
            of_path = self._touched.get(path)
            if of_path is None:
                self._touched[path] = {dv_id: live}
            else:
                gone = of_path.get(dv_id)
                if gone is not None:
                    files, size, vectors, deleted = _less((files, size, vectors, deleted), gone)
                of_path[dv_id] = live
            files, size = files + 1, size + (add.get("size") or 0)
            if dv_id:
                vectors, deleted = vectors + 1, deleted + (add["deletionVector"].get("cardinality") or 0)
        self.totals = Totals(files, size, vectors, deleted)

    def live(self) -> Iterator[LiveFile]:
        """Every live file; those of the checkpoint in chunks."""
        for of_path in self._touched.values():
            yield from of_path.values()
        base = self._untouched_base()
        if base is not None:
            for batch in base.to_batches(max_chunksize=8_192):
                yield from _live_files(batch, self._base_version)

    def tombstone_of(self, key: tuple[str, str]) -> Action | None:
        """The remove that a visible commit made of a key (canonical path, vector id), if no add undid it."""
        return self._tombstones.get(key)

    def tombstones(self, newer_than: int | None = None) -> Iterator[Action]:
        """Every remove that no add undid, or those whose deletionTimestamp is greater; those of the checkpoint in
        chunks.
        """
        for remove in self._tombstones.values():
            if remove is not None and (newer_than is None or (remove.get("deletionTimestamp") or 0) > newer_than):
                yield remove
        base = self._base_removes
        if base is None:
            return
        if newer_than is not None:
            base = base.filter(pc.greater(pc.fill_null(base.column("deletionTimestamp"), 0), newer_than))
        for batch in base.to_batches(max_chunksize=8_192):
            for remove in batch.to_pylist(maps_as_pydicts="lossy"):
                if not self._tombstones or _key_of(remove) not in self._tombstones:
                    yield {name: value for name, value in remove.items() if value is not None}

    def whole_adds(self) -> Iterator[pyarrow.RecordBatch]:
        """The live files as batches of `action_schemas().add`; those of the checkpoint lack their statistics."""
        from deltacli.delta.file_actions import action_schemas, whole_actions_leniently

        schema = action_schemas().add
        files = [file.add for of_path in self._touched.values() for file in of_path.values()]
        for start in range(0, len(files), _ROWS_A_BATCH):
            yield whole_actions_leniently(files[start : start + _ROWS_A_BATCH], schema)
        base = self._untouched_base()
        if base is not None:
            without_stats = base.append_column("stats", _no_text(base.num_rows))
            yield from without_stats.select(schema.names).to_batches()

    def live_columns(self) -> pyarrow.Table:
        """The live files in columns, as `StateView.live` has them."""
        import pyarrow as pa

        parts = [_columns_of([file for of_path in self._touched.values() for file in of_path.values()])]
        base = self._untouched_base(
            "path", "size", "num_records", "deletionVector", "baseRowId", "defaultRowCommitVersion"
        )
        if base is not None and base.num_rows:
            parts.append(_state_columns(base))
        return pa.concat_tables(parts)

    def live_adds(self) -> pyarrow.Table:
        """The live files in columns, as `StorageView.live_adds` has them."""
        import pyarrow as pa

        files = [file for of_path in self._touched.values() for file in of_path.values()]
        parts = [_add_columns(files)]
        base = self._untouched_base("path", "size", "modificationTime", "deletionVector")
        if base is not None and base.num_rows:
            vectors = base.column("deletionVector")
            parts.append(
                pa.table(
                    {
                        "path": base.column("path"),
                        "size": base.column("size"),
                        "modification_time": base.column("modificationTime"),
                        "version": pa.nulls(base.num_rows, pa.int64()).fill_null(-1),
                        "line": pa.nulls(base.num_rows, pa.int64()),
                        "dv_storage": pc.struct_field(vectors, ["storageType"]),
                        "dv_path": pc.struct_field(vectors, ["pathOrInlineDv"]),
                        "source": _same_text(self._base_path, base.num_rows),
                    }
                )
            )
        return pa.concat_tables(parts)

    def _untouched_base(self, *columns: str) -> pyarrow.Table | None:
        """The files of the checkpoint that no commit touched, in these columns."""
        if self._base is None:
            return None
        base = self._base.select(columns) if columns else self._base
        if not self._touched:
            return base
        touched = _is_in(self._base.column("path"), _binary(self._touched.keys()))
        rows = pc.indices_nonzero(touched)
        if len(rows) > _MOST_SLICES:
            return base.filter(pc.invert(touched))
        return _without(base, rows.to_pylist())


def _key_of(action: Action) -> tuple[str, str]:
    vector = action.get("deletionVector")
    is_sound = vector is not None and fault_of(vector) is None
    return canonical(str(action.get("path"))), unique_id(vector) if is_sound else ""


def _less(totals: tuple[int, int, int, int], gone: LiveFile) -> tuple[int, int, int, int]:
    files, size, vectors, deleted = totals
    if gone.dv_id:
        vectors, deleted = vectors - 1, deleted - ((gone.add.get("deletionVector") or {}).get("cardinality") or 0)
    return files - 1, size - (gone.add.get("size") or 0), vectors, deleted


def _without(table: pyarrow.Table, rows: Sequence[int]) -> pyarrow.Table:
    """A table without a few rows: slices between them, not a copy."""
    import pyarrow as pa

    ends = [-1, *rows, table.num_rows]
    parts = [table.slice(before + 1, after - before - 1) for before, after in pairwise(ends) if after - before > 1]
    return pa.concat_tables(parts) if parts else table.slice(0, 0)


def _is_in(paths: Any, keys: Any) -> Any:  # Any: chunked arrays
    import pyarrow as pa

    found = [pc.is_in(canonical_column(chunk), value_set=keys) for chunk in paths.chunks]
    return pa.chunked_array(found, pa.bool_())


def _keys(paths: Any) -> Any:  # Any: chunked arrays
    """The canonical paths; where all are plain these are the same bytes, not a copy."""
    import pyarrow as pa

    return pa.chunked_array([canonical_column(chunk) for chunk in paths.chunks], pa.binary())


def _binary(keys: Iterable[str]) -> Any:  # Any: a binary array
    import pyarrow as pa

    return pa.array([_bytes_of(key) for key in keys], pa.binary())


def _bytes_of(key: str) -> bytes:
    """The bytes of a canonical path: as they were in the log, or, for half a surrogate pair, bytes that no path has."""
    try:
        return key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return key.encode("utf-8", "surrogatepass")


def _live_files(rows: Any, version: int) -> Iterator[LiveFile]:  # Any: a table or a record batch
    for add in rows.to_pylist(maps_as_pydicts="lossy"):
        vector = add.get("deletionVector")
        sound = vector is not None and fault_of(vector) is None
        yield LiveFile(
            add["path"],
            unique_id(vector) if sound else "",
            version,
            None,
            {name: value for name, value in add.items() if value is not None},
        )


def _columns_of(files: Sequence[LiveFile]) -> pyarrow.Table:
    import pyarrow as pa

    adds = [file.add for file in files]
    paths = _texts([file.path for file in files])
    stats = _texts([add.get("stats") for add in adds])
    vectors = [add.get("deletionVector") or {} for add in adds]
    return _table(
        paths,
        canonical_column(paths),
        pa.array([file.dv_id for file in files], pa.string()),
        pa.array([add.get("size") for add in adds], pa.int64()),
        _num_records(stats),
        pa.array([vector.get("cardinality") for vector in vectors], pa.int64()),
        pa.array([add.get("baseRowId") for add in adds], pa.int64()),
        pa.array([add.get("defaultRowCommitVersion") for add in adds], pa.int64()),
        pa.array([file.version for file in files], pa.int64()),
    )


def _state_columns(base: pyarrow.Table) -> pyarrow.Table:
    import pyarrow as pa

    from deltacli.delta.deletion_vector import no_vector_ids, unique_id_column

    vectors = base.column("deletionVector").combine_chunks()
    rows = base.num_rows
    has_vectors = vectors.null_count < rows
    return _table(
        base.column("path"),
        _keys(base.column("path")),
        unique_id_column(vectors) if has_vectors else no_vector_ids(rows),
        base.column("size"),
        base.column("num_records"),
        pc.cast(pc.struct_field(vectors, ["cardinality"]), pa.int64()),
        base.column("baseRowId"),
        base.column("defaultRowCommitVersion"),
        pa.nulls(rows, pa.int64()).fill_null(-1),
    )


def _table(*columns: Any) -> pyarrow.Table:  # Any: arrays
    import pyarrow as pa

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


def _add_columns(files: Sequence[LiveFile]) -> pyarrow.Table:
    import pyarrow as pa

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
            "source": _texts([f"{LOG_DIRECTORY}/{commit_name(file.version)}" for file in files]),
        }
    )


def _no_text(rows: int) -> Any:  # Any: a string array
    import pyarrow as pa

    return pa.nulls(rows, pa.string())


def _same_text(text: str, rows: int) -> Any:  # Any: a string array
    import pyarrow as pa

    return pa.repeat(text, rows)


def _texts(values: Sequence[str | None]) -> Any:  # Any: a string array
    """Texts as a column; halves of surrogate pairs become question marks, for they have no bytes."""
    import pyarrow as pa

    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:
        plain = [None if value is None else value.encode("utf-8", "replace").decode() for value in values]
        return pa.array(plain, pa.string())


def _num_records(stats: Any) -> Any:  # Any: arrays
    from deltacli.delta.stats import num_records_column

    return num_records_column(stats)
