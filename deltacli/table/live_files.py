"""The files that a version needs, in columns or by their keys, and which of them a store has.

A store is asked for one after the other, or their directories are listed where that takes fewer calls.

Spec: Add File and Remove File; Partition Value Serialization.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import reduce
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.batches import aggregate_rows
from deltacli.core import errors
from deltacli.core.progress import Progress
from deltacli.core.typing import ArrowArray, ArrowTable, RecordBatch
from deltacli.delta.data_files import no_vector_ids, unique_id_column
from deltacli.delta.encoding.many_values import fingerprints, hash_column, repeated
from deltacli.delta.log.actions import FIELDS
from deltacli.delta.log.file_actions import action_schemas, key_column, num_records_column, spelled_keys, whole_actions
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.partitions.values import partition_columns
from deltacli.delta.paths.keys import PathKeys
from deltacli.delta.paths.spelling import are_absolute, encode_percent_signs_column, key_bytes, key_text
from deltacli.engine.base import Engine
from deltacli.storage import ReadStorage
from deltacli.table.find_log import list_log

if TYPE_CHECKING:
    import pyarrow

    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

Result = TypeVar("Result")

# -- files that a version needs ----------------------------------------------------------------------------------------

_MOST_ASKED = 500
"""Files that are asked for one by one on a store whose lists have a thousand."""
_ASKED_TOGETHER = 1_000
_MANY_REPEATED = 8
"""Where more than an eighth of the files may be named again, a table of all takes half the time of one of them."""


class FileKind(StrEnum):
    """What a file of a table is."""

    DATA = "data"
    VECTOR = "deletion-vector"
    CHANGE_DATA = "change-data"
    COMMIT = "commit"
    CHECKSUM = "checksum"
    COMPACTION = "compaction"
    SIDECAR = "sidecar"
    CHECKPOINT = "checkpoint"
    HINT = "hint"


class NeededFiles(NamedTuple):
    """Files below the root of a table, each once, and the vectors in them.

    `files` has `path` (below the root, not encoded, as bytes), `written` (the same path without decoding, for writers
    that do not encode, null where it is the same), `kind`, and `sizeBytes` and `rows`, which are null where the log
    does not say. `vectors` has the `path` of the file of each vector, and its `deletionVector` as in the log. `outside`
    counts the files elsewhere, which belong to other tables.
    """

    files: ArrowTable
    vectors: ArrowTable
    outside: int = 0

    def where(self, mask: ArrowArray) -> Self:
        """Return the files of a mask, with their vectors."""
        files = pc.filter(self.files, mask)
        if not self.vectors.num_rows:
            return self._replace(files=files)
        vectors = self.vectors.filter(pc.is_in(self.vectors["path"], value_set=whole(files["path"])))
        return self._replace(files=files, vectors=vectors)

    @property
    def size_bytes(self) -> int:
        """Return the bytes of the files, as far as they are known."""
        return pc.sum(self.files["sizeBytes"]).as_py() or 0


def needed_files(
    uris: Sequence[str],
    paths: ArrowArray,
    sizes: ArrowArray,
    rows: ArrowArray,
    descriptors: ArrowArray | None = None,
    *,
    kind: FileKind = FileKind.DATA,
) -> NeededFiles:
    """Return the files of a table, whose root has these URIs, by columns of its log: raw paths, bytes, numbers of rows
    (null if unknown) and the structs of deletion vectors.
    """
    keys = PathKeys(uris).of_log(whole(paths))
    differs = pc.fill_null(pc.not_equal(keys.keys, keys.written), False)
    every = pa.table(
        {
            "path": keys.keys,
            "written": pc.if_else(differs, keys.written, pa.scalar(None, pa.binary())),
            "kind": pa.repeat(kind.value, len(keys.keys)),
            "sizeBytes": pc.cast(whole(sizes), pa.int64()),
            "rows": pc.cast(whole(rows), pa.int64()),
        }
    )
    files = pc.filter(every, pc.is_valid(keys.keys))
    outside = len(keys.keys) - files.num_rows
    vectors = _vectors(uris, descriptors)
    of_vectors = pc.unique(whole(vectors["path"]))
    no_number = pa.nulls(len(of_vectors), pa.int64())
    files_of_vectors = pa.table(
        {
            "path": of_vectors,
            "written": pa.nulls(len(of_vectors), pa.binary()),
            "kind": pa.repeat(FileKind.VECTOR.value, len(of_vectors)),
            "sizeBytes": no_number,
            "rows": no_number,
        }
    )
    hashes = pc.drop_null(keys.hashes) if outside else keys.hashes
    return NeededFiles(pa.concat_tables([_each_once(files, hashes), files_of_vectors]), vectors, outside)


def live_files(
    snapshot: Snapshot, uris: Sequence[str] = (), chosen: Callable[[NeededFiles], NeededFiles] = lambda files: files
) -> NeededFiles:
    """Return the live files of a version, with their vectors, or those that are `chosen` of a part of them. `uris` are
    those of the root of the table, where its log is read from elsewhere. Raises CheckpointUnreadable.
    """
    storage = snapshot.table.storage
    uris = uris or (storage.uri, *storage.aliases)
    found = list(map_live(snapshot, lambda *columns: chosen(needed_files(uris, *columns))))
    if not found:
        return needed_files(uris, *(pa.array([], kind) for kind in (pa.string(), pa.int64(), pa.int64())))
    return joined(found)


def map_live(
    snapshot: Snapshot,
    work: Callable[[ArrowArray, ArrowArray, ArrowArray, ArrowArray | None], Result],
    *,
    with_rows: bool = True,
) -> Iterator[Result]:
    """Yield the result of `work`, which must be thread-safe, for each batch of live files: raw paths, bytes, numbers of
    rows (null if unknown) and structs of vectors. Commits are not read again where no file has a vector.
    """
    actions = snapshot.file_actions
    held = [batch.adds for batch in actions.tail_batches() if batch.adds is not None]
    if not actions.pieces and not any(pc.any(pc.not_equal(adds.column("dv_id"), "")).as_py() for adds in held):
        for adds in held:
            yield work(adds.column("path"), adds.column("size"), adds.column("num_records"), None)
        return

    def columns_of(adds: RecordBatch) -> Result:
        rows = num_records_column(adds.column("stats")) if with_rows else pa.nulls(adds.num_rows, pa.int64())
        return work(adds.column("path"), adds.column("size"), rows, adds.column("deletionVector"))

    yield from actions.map_actions("add", columns_of, fields=("path", "size", *(("stats",) if with_rows else ())))


def joined(parts: Sequence[NeededFiles]) -> NeededFiles:
    """Return the files of several parts, data files first."""
    every = pa.concat_tables([one.files for one in parts])
    is_data = pc.equal(every["kind"], FileKind.DATA.value)
    kinds = [every] if pc.all(is_data).as_py() else [pc.filter(every, mask) for mask in (is_data, pc.invert(is_data))]
    files = pa.concat_tables(map(_each_once, kinds))
    return NeededFiles(files, pa.concat_tables([one.vectors for one in parts]), sum(one.outside for one in parts))


def _vectors(uris: Sequence[str], descriptors: ArrowArray | None) -> ArrowTable:
    """Return the vectors in files of the table, with the paths of these files."""
    if descriptors is None or descriptors.null_count == len(descriptors):
        kind = action_schemas().add.field("deletionVector").type
        return pa.table({"path": pa.array([], pa.binary()), "deletionVector": pa.array([], kind)})
    stated = pc.drop_null(whole(descriptors))
    places = PathKeys(uris).of_vectors(whole(unique_id_column(stated))).keys
    return pc.filter(pa.table({"path": places, "deletionVector": stated}), pc.is_valid(places))


def _each_once(files: ArrowTable, hashes: ArrowArray | None = None) -> ArrowTable:
    """Return the files without those that are named again. `hashes` are equal for equal paths."""
    paths = files["path"]
    hashes = hash_column(paths) if hashes is None else hashes
    often = repeated(hashes)  # most often none: a table of the paths takes ten times the memory of sorted hashes
    if not len(often):
        return files
    if len(often) * _MANY_REPEATED > len(paths):
        return pc.take(files, pc.index_in(pc.unique(paths), value_set=paths))
    may_repeat = pc.is_in(hashes, value_set=often)
    suspects, places = pc.filter(paths, may_repeat), pc.indices_nonzero(may_repeat)
    firsts = pc.take(places, pc.index_in(pc.unique(suspects), value_set=suspects))
    rows = pa.array(range(len(paths)), firsts.type)
    return pc.filter(files, pc.or_(pc.invert(may_repeat), pc.is_in(rows, value_set=firsts)))


def whole(column: ArrowArray) -> ArrowArray:
    """Return a column in one piece, without a copy where it is in one."""
    if not hasattr(column, "combine_chunks"):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def look_for(
    storage: ReadStorage,
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
    storage: ReadStorage, paths: ArrowArray, engine: Engine, listed: Callable[[ArrowArray], ArrowArray] | None = None
) -> ArrowArray:
    if listed is not None:
        is_there = listed(paths)
        sizes = pc.if_else(is_there, pa.scalar(0, pa.int64()), pa.scalar(None, pa.int64()))
        unknown = pc.is_null(is_there)
        if not pc.any(unknown).as_py():
            return sizes
        return pc.replace_with_mask(sizes, unknown, _sizes_of(storage, pc.filter(paths, unknown), engine))
    if storage.capabilities.cheap_listing or len(paths) <= _MOST_ASKED:
        return _asked(storage, paths, engine)
    return _listed(storage, paths)


def _asked(storage: ReadStorage, paths: ArrowArray, engine: Engine) -> ArrowArray:
    def ask(start: int) -> ArrowArray:
        part = [key_text(path) for path in paths.slice(start, _ASKED_TOGETHER).to_pylist()]
        sizes, _ = storage.stat_many(part)
        told = (_linked(storage, path) if size < 0 else size for path, size in zip(part, sizes, strict=True))
        return pa.array(told, pa.int64())

    found = engine.run(ask, range(0, len(paths), _ASKED_TOGETHER))
    return pa.concat_arrays([pa.array([], pa.int64()), *found])


def _linked(storage: ReadStorage, path: str) -> int | None:
    """Return the bytes of a file that may be behind a link, None where there is none. Raises PathExternal."""
    if not storage.capabilities.has_directories:
        return None
    try:
        return storage.stat(path).size_bytes
    except errors.FileMissing:
        return None


def _listed(storage: ReadStorage, paths: ArrowArray) -> ArrowArray:
    """Return the bytes of files by listing the directories that they are in."""
    from deltacli.work.files.listing import in_batches

    directories = pc.unique(pc.replace_substring_regex(paths, r"/?[^/]*$", "")).to_pylist()
    entered = {above for one in directories for above in accumulate(key_text(one).split("/"), "{}/{}".format)}

    def enter(at: str, names: Sequence[str]) -> list[str]:
        return [name for name in names if (f"{at}/{name}" if at else name) in entered]

    sizes = pa.nulls(len(paths), pa.int64())
    try:
        for files in in_batches(storage.walk("", enter)):
            names = pa.array([key_bytes(name) for name in files.paths], pa.binary())
            found = pc.index_in(paths, value_set=names)
            of_batch = pa.array(storage.stat_many(files.paths)[0], pa.int64()) if files.sizes is None else files.sizes
            sizes = pc.coalesce(sizes, pc.take(of_batch, found))
    except errors.FileMissing:
        pass  # nothing is there
    return sizes


# -- live files by key -------------------------------------------------------------------------------------------------

KEY_BYTES = 16
_BUCKETS = 1 << 16
_SHIFT = 48
"""Bits of a hash below those of its bucket."""

Mask = Callable[["pyarrow.RecordBatch"], ArrowArray]
"""Returns which file actions are chosen: never null."""
Spelling = Callable[["pyarrow.Array"], ArrowArray]
"""Returns paths of the log in a form that is equal for equal files, as bytes."""


def file_keys(adds: RecordBatch) -> ArrowArray:
    """Return sixteen bytes for the path and the vector of each file action, equal in one process for equal files."""
    return key_digests(adds.column("path"), unique_id_column(adds.column("deletionVector")))


def narrow_keys(adds: RecordBatch, spelling: Spelling | None, *, with_vectors: bool = True) -> ArrowArray:
    """Return the keys of narrow live files (see `ActionSchemas`): only the first eight bytes of `file_keys`, a keyed
    hash, which takes half the time. Of two million files two are taken for one once in ten million runs.

    `spelling` makes paths of two tables comparable. Without `with_vectors`, files with another vector are equal.
    """
    paths, ids = adds.column("path"), adds.column("dv_id") if with_vectors else no_vector_ids(adds.num_rows)
    keys = key_column(paths, ids) if spelling is None else spelled_keys(spelling(paths), ids)
    return pa.Array.from_buffers(pa.int64(), len(keys), [None, pa.py_buffer(_hashes(keys))])


def key_digests(paths: ArrowArray, ids: ArrowArray) -> ArrowArray:
    """Return sixteen bytes for each path and id of a vector."""
    keys = key_column(paths, ids)
    pairs = array("q", bytes(KEY_BYTES * len(keys)))
    pairs[::2] = _hashes(keys)
    pairs[1::2] = array("q", memoryview(fingerprints(keys).buffers()[1])[: 8 * len(keys)].tobytes()) if keys else pairs
    return pa.Array.from_buffers(pa.binary(KEY_BYTES), len(keys), [None, pa.py_buffer(pairs)])


def _hashes(keys: ArrowArray) -> array[int]:
    return array("q", map(hash, keys.to_pylist()))


def differing_keys(first: ArrowArray, second: ArrowArray) -> tuple[ArrowArray, ArrowArray]:
    """Return which keys of the first only it has, and which of the second only that has.

    Many keys are put into buckets by their hashes. A bucket whose words have the same sums on both sides has the same
    keys (of keys of sixteen bytes that differ, a bucket has the same sums once in 2**112), so that only keys of other
    buckets are looked up: of two million in 0.1 s instead of 0.9 s where few differ.
    """
    if min(len(first), len(second)) < _BUCKETS:
        return _absent(first, second), _absent(second, first)
    (of_first, sums), (of_second, others) = _bucketed(first), _bucketed(second)
    differs = reduce(pc.or_, map(pc.not_equal, sums, others))
    left, right = pc.take(differs, of_first), pc.take(differs, of_second)
    some, more = pc.filter(first, left), pc.filter(second, right)
    return pc.replace_with_mask(left, left, _absent(some, more)), pc.replace_with_mask(
        right, right, _absent(more, some)
    )


def _absent(keys: ArrowArray, others: ArrowArray) -> ArrowArray:
    return pc.invert(pc.is_in(keys, value_set=others))


def _bucketed(keys: ArrowArray) -> tuple[ArrowArray, list[ArrowArray]]:
    """Return the bucket of each key, and for each word of the keys its sum in each bucket."""
    width = keys.type.bit_width // 64
    flat = pa.Array.from_buffers(pa.uint64(), width * len(keys), [None, keys.buffers()[1]], offset=width * keys.offset)
    pairs = pa.FixedSizeListArray.from_arrays(flat, width)
    words = {f"word{place}": pc.list_element(pairs, place) for place in range(width)}
    buckets = pc.cast(pc.shift_right(words["word0"], pa.scalar(_SHIFT, pa.uint64())), pa.uint16())
    sums = aggregate_rows(pa.table({"bucket": buckets, **words}), ["bucket"], [(name, "sum") for name in words])
    places = pc.index_in(pa.array(range(_BUCKETS), pa.uint16()), value_set=sums["bucket"].combine_chunks())
    nothing = pa.scalar(0, pa.uint64())
    every = [pc.fill_null(pc.take(sums[f"{name}_sum"].combine_chunks(), places), nothing) for name in words]
    return buckets, every


def chosen_actions(
    snapshot: Snapshot, keys: ArrowArray, chosen: ArrowArray, where: Mask | None, fields: Sequence[str] | None = None
) -> Iterator[RecordBatch]:
    """Yield the live files that `chosen` selects among those with these `keys`, with all fields or some."""
    for rows, mask in marked_actions(snapshot, keys, chosen, where, fields):
        if pc.any(mask).as_py():
            yield pc.filter(rows, mask)


def marked_actions(
    snapshot: Snapshot, keys: ArrowArray, chosen: ArrowArray, where: Mask | None, fields: Sequence[str] | None = None
) -> Iterator[tuple[RecordBatch, ArrowArray]]:
    """Yield the live files of a version, which have these `keys`, and which of them `chosen` selects.

    Raises Refused (`plan.other-past`) where the log has changed underneath, so that they are others by now.
    """
    named = None if fields is None else [*fields, *(["partitionValues"] if where is not None else [])]

    def read(adds: RecordBatch) -> tuple[RecordBatch, ArrowArray]:
        rows = adds if where is None else pc.filter(adds, where(adds))
        return rows, file_keys(rows)

    begin = 0
    for rows, found in snapshot.file_actions.map_actions("add", read, fields=named):
        if not found.equals(keys.slice(begin, len(found))):
            raise _other_log(snapshot)
        mask = chosen.slice(begin, len(found))
        begin += len(found)
        yield rows, mask
    if begin != len(keys):
        raise _other_log(snapshot)


def _other_log(snapshot: Snapshot) -> errors.Refused:
    """Return the refusal for a version that has other files than when it was read, with the file that was replaced."""
    checkpoint, commits = snapshot.segment.checkpoint, snapshot.segment.commits
    start = snapshot.version if checkpoint is None else checkpoint.version
    listing = list_log(snapshot.table.storage, start_version=min([start, *(file.version for file in commits)]))
    there = {*listing.commits.values(), *(file for one in listing.checkpoints for file in one.files)}
    read = (*(() if checkpoint is None else checkpoint.files), *commits)
    changed = [file.name for file in read if file not in there]
    return errors.Refused(
        f"version {snapshot.version} has other files than when it was read, because its log was rewritten",
        preamble=errors.NOTHING_CHANGED,
        code="plan.other-past",
        facts={"changed": changed[0] if changed else f"files of version {snapshot.version}"},
        hint=errors.command("history", limit=10),
    )


def removes_of(adds: RecordBatch, now_ms: int, *, is_change: bool) -> RecordBatch:
    """Return the removes of some live files, with all that is known of them."""
    count = adds.num_rows
    fixed = {
        "deletionTimestamp": pa.repeat(pa.scalar(now_ms, pa.int64()), count),
        "dataChange": pa.repeat(is_change, count),
        "extendedFileMetadata": pa.repeat(True, count),
    }
    columns = {name: fixed[name] if name in fixed else adds.column(name) for name in FIELDS["remove"]}
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


class PartitionCondition:
    """Chooses file actions by their partition values. Raises UsageError (`usage.where`) for an invalid condition, and
    for one on other columns. Thread-safe.
    """

    def __init__(self, config: TableConfiguration, where: str) -> None:
        from deltacli.delta.predicate.parse import parse_on_partitions

        self._config = config
        self._predicate, self._needed = parse_on_partitions(config, where)

    def __call__(self, adds: RecordBatch) -> ArrowArray:
        """Return which file actions the condition is true for. Raises DataUnreadable (`partition.*`)."""
        if not adds.num_rows:
            return pa.array([], pa.bool_())
        values = partition_columns(adds, self._config, [name for name, _ in self._needed])
        columns = {column.name: values[name] for name, column in self._needed} or {"_": adds.column("path")}
        rows = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        return pc.fill_null(self._predicate.matches(rows), False)

    def chooses(self, values: Mapping[str, str | None]) -> bool:
        """Return whether a file with these partition values is chosen, or may be: they are not valid."""
        try:
            one = whole_actions([{"path": "", "partitionValues": dict(values)}], action_schemas().add, "")
            return bool(self(one)[0].as_py())
        except (errors.CommitCorrupt, errors.DataUnreadable):
            return True


# -- files that a log names, wherever they are -------------------------------------------------------------------------

Names = tuple[ArrowArray, ArrowArray]
"""Paths of data files, and ids of vectors, as in the log."""


def missing_files(
    table: TableHandle, paths: ArrowArray, ids: ArrowArray, listed: Callable[[ArrowArray], ArrowArray] | None = None
) -> tuple[Names, Names]:
    """Return missing files, and those not to be looked at; `listed` as for `look_for`. Raises StorageFailed."""
    keys = PathKeys((table.storage.uri, *table.storage.aliases))
    paths, ids = pc.unique(paths), pc.unique(ids)
    of_paths, of_ids = keys.of_log(paths), keys.of_vectors(ids)
    parts = [
        _needed(of_paths.keys, of_paths.written, FileKind.DATA),
        _needed(of_ids.keys, of_ids.keys, FileKind.VECTOR),
    ]
    nothing = needed_files((table.uri,), *(pa.array([], kind) for kind in (pa.string(), pa.int64(), pa.int64())))
    needed = nothing._replace(files=pa.concat_tables(parts))
    _, sizes = look_for(table.storage, needed, table.engine, table.progress, listed)
    count = parts[0].num_rows
    lost, unseen = [], []
    here = ((paths, of_paths.keys, whole(sizes).slice(0, count)), (ids, of_ids.keys, whole(sizes).slice(count)))
    for names, places, found in here:
        absent = pc.filter(pc.filter(names, pc.is_valid(places)), pc.is_null(found))
        gone, refused = _elsewhere(table, pc.filter(names, pc.is_null(places)), are_vectors=names is ids)
        lost.append(pa.concat_arrays([whole(absent), gone]))
        unseen.append(refused)
    return (lost[0], lost[1]), (unseen[0], unseen[1])


def find_undecoded(snapshot: Snapshot) -> ArrowArray:
    """Return the relative paths of live files that a writer did not encode, although they have escapes.

    Decoded, as the protocol has it, they name no file, but there is one with the name as it is written. deltacli reads
    it. In another log such a path needs its percent signs encoded.

    Raises:
        StorageFailed: If the store cannot tell which files are there.
    """
    paths = [pa.array([], pa.string())]
    for batch in snapshot.file_actions.narrow():
        if batch.adds is not None and batch.adds.num_rows:
            of_batch = batch.adds.column("path")
            has_escape = pc.match_substring(of_batch, "%")
            paths.append(pc.filter(of_batch, pc.and_not(has_escape, are_absolute(of_batch))))
    escaped = pc.unique(pa.concat_arrays(paths))

    table = snapshot.table
    named = PathKeys((table.storage.uri, *table.storage.aliases)).of_log(escaped)
    differs = pc.fill_null(pc.not_equal(named.keys, named.written), False)
    escaped, decoded, written = (pc.filter(column, differs) for column in (escaped, named.keys, named.written))
    if not len(escaped):
        return escaped
    needed = NeededFiles(_needed(decoded, written, FileKind.DATA), pa.table({"path": pa.array([], pa.binary())}))
    found, sizes = look_for(table.storage, needed, table.engine, table.progress)
    is_undecoded = pc.and_(pc.is_valid(sizes), pc.not_equal(whole(found.files["path"]), decoded))
    return pc.filter(escaped, is_undecoded)


def encode_undecoded(paths: ArrowArray, undecoded: ArrowArray) -> ArrowArray:
    """Return paths of a log with those that `find_undecoded` has returned so that they name the file when decoded."""
    return pc.if_else(pc.is_in(paths, value_set=undecoded), encode_percent_signs_column(paths), paths)


def _needed(places: ArrowArray, written: ArrowArray, kind: FileKind) -> ArrowTable:
    is_here = pc.is_valid(places)
    places, written = pc.filter(places, is_here), pc.filter(written, is_here)
    differs = pc.fill_null(pc.not_equal(places, written), False)
    unknown = pa.nulls(len(places), pa.int64())
    return pa.table(
        {
            "path": places,
            "written": pc.if_else(differs, written, pa.scalar(None, pa.binary())),
            "kind": pa.repeat(kind.value, len(places)),
            "sizeBytes": unknown,
            "rows": unknown,
        }
    )


def _elsewhere(table: TableHandle, names: ArrowArray, *, are_vectors: bool) -> Names:
    """Return which files outside of the table are missing, and which may not be looked at."""
    files = table.files()

    def look(name: str) -> bool | None:
        try:
            storage, inner = files.locate(name)
            storage.stat(inner)
        except errors.FileMissing:
            return False
        except errors.PathExternal:
            return None
        return True

    every = [name for name in names.to_pylist() if not are_vectors or name[:1] == "p"]
    places = [name[1:].rpartition("@")[0] or name[1:] for name in every] if are_vectors else every
    parts = list(zip(every, table.engine.run(look, places), strict=True))
    told = [[name for name, is_there in parts if is_there is one] for one in (False, None)]
    return pa.array(told[0], pa.string()), pa.array(told[1], pa.string())
