"""File actions in columns: which of them apply, how many files, bytes and rows they are, and whole adds.

Actions are read newest first: the first action of a key decides,
and all older ones are hidden. Commits are few and read line by line, with a set of keys. Checkpoint rows are many and
already reconciled among themselves, so they are only looked up in that set, in columns. The keys of a large commit are
columns, too.

Spec: Action Reconciliation; Add File and Remove File; Per-file Statistics; Deletion Vectors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import CommitCorrupt, command
from deltacli.core.times import EARLIEST_PLAUSIBLE_MS
from deltacli.core.typing import ArrowArray, ArrowField, Json
from deltacli.delta.data_files import find_descriptor_fault, unique_id, unique_id_column
from deltacli.delta.encoding.ndjson import parse_ndjson
from deltacli.delta.log.action_schemas import schema_of_action
from deltacli.delta.log.actions import Action, format_json_value, json_type, missing_field_error, wrong_type_error
from deltacli.delta.log.disputed_readings import ADDED_AND_REMOVED, ADDED_TWICE
from deltacli.delta.paths.spelling import canonicalize_path
from deltacli.delta.paths.spelling_columns import canonicalize_paths, decode_column

if TYPE_CHECKING:
    from deltacli.delta.encoding.many_values import KeyIndex


_VECTOR_MARK = "\0"
"Between the path and the deletion vector id of a key; no path contains it."
_MANY = 32_768
"""Keys for which an index takes less time than a hash table per batch."""


def compute_file_key(action: Action, source: str = "") -> str:
    """Return the key of a logical file: its canonical path and its vector's id. Raises CommitCorrupt without a path."""
    path = action.get("path")
    if type(path) is not str:
        raise CommitCorrupt(
            f"{source}: a file action has no path"
            if path is None
            else f"{source}: path is {json_type(path)}, expected a string",
            file=source,
            code="action.missing-required" if path is None else "action.wrong-type",
            facts={} if path is None else {"found": format_json_value(path)[:120]},
            hint=command("history"),
        )
    vector = action.get("deletionVector")
    if vector is None:
        key = canonicalize_path(path)
        return key if key.isascii() else _encodable(key, source)
    if fault := find_descriptor_fault(vector):
        code, reason = fault
        raise CommitCorrupt(
            f"{source}: {reason}", file=source, code=code, facts={"path": path}, hint=command("history")
        )
    return _encodable(f"{canonicalize_path(path)}{_VECTOR_MARK}{unique_id(vector)}", source)


def _encodable(key: str, source: str) -> str:
    """Return the key if it is text: half a surrogate pair is legal JSON, but not the name of a file."""
    try:
        key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as fault:
        raise wrong_type_error("path or deletionVector", str(fault), source) from fault
    return key


class ReconciledActions(NamedTuple):
    """The file actions of one commit that no newer commit supersedes.

    Attributes:
        adds: Adds of live files.
        removes: Removes that are tombstones.
    """

    adds: list[Action]
    removes: list[Action]


def reconcile_commit(
    actions: Iterable[tuple[str, Action]], seen: set[str], source: str, *, disputed_rules: set[str] | None = None
) -> ReconciledActions:
    """Return the file actions of a commit that no newer commit supersedes, and add its keys to `seen`.

    The order within a commit is undefined. Of two adds of one key the last applies, and an add wins over a remove of
    the same key, so that a file that may be live is never treated as deleted.

    Args:
        actions: The actions of the commit, in its order.
        seen: The keys of the files that newer commits add or remove. Receives the keys of this commit.
        source: The name of the commit, for errors.
        disputed_rules: Receives the ids of `validate` rules for files for which the order matters: other engines may
            read the other action.
    """
    adds: dict[str, Action] = {}
    removes: list[Action] = []
    late: list[tuple[str, Action]] = []
    for kind, action in reversed(list(actions)):
        if kind == "add":
            key = compute_file_key(action, source)
            if key not in seen:
                seen.add(key)
                adds[key] = action
            elif disputed_rules is not None and key in adds and adds[key] != action:
                disputed_rules.add(ADDED_TWICE)
        elif kind == "remove":
            late.append((compute_file_key(action, source), action))
    for key, action in late:
        if key not in seen:
            seen.add(key)
            removes.append(action)
        elif disputed_rules is not None and key in adds and is_also_removed(adds[key], action):
            disputed_rules.add(ADDED_AND_REMOVED)
    return ReconciledActions(list(adds.values()), removes)


def is_also_removed(add: Action, remove: Action) -> bool:
    """Return whether an add and a remove of one commit, which have the same key, contradict each other.

    They do not if the paths are spelled differently: what engines read then is judged by `delta.paths.engine_readings`.
    """
    return bool(add["path"] == remove["path"])


def reconcile_streamed_commit(
    actions: Iterable[tuple[str, Action]], seen: set[str], contested: frozenset[int], source: str, *, block: int = 4_096
) -> Iterator[ReconciledActions]:
    """Yield the file actions of a commit that does not fit in memory, without those that newer commits supersede.

    Args:
        actions: The actions of the commit, in its order.
        seen: The keys of the files that newer commits add or remove. The keys of this commit are not added.
        contested: Hashes of the keys that occur more than once in the commit. Their actions are reconciled at the end.
        source: The name of the commit, for errors.
        block: The number of actions that are yielded together.
    """
    kept = ReconciledActions([], [])
    held_back: list[tuple[str, Action]] = []
    for kind, action in actions:
        if kind not in ("add", "remove"):
            continue
        key = compute_file_key(action, source)
        if key in seen:
            continue
        if contested and hash(key.encode("utf-8", "surrogateescape")) in contested:
            held_back.append((kind, action))
            continue
        (kept.adds if kind == "add" else kept.removes).append(action)
        if len(kept.adds) + len(kept.removes) >= block:
            yield kept
            kept = ReconciledActions([], [])
    settled = reconcile_commit(held_back, set(seen), source)
    yield ReconciledActions(kept.adds + settled.adds, kept.removes + settled.removes)


class SupersededFiles:
    """The logical files that commits after a checkpoint add or remove, as a filter for the rows of the checkpoint.

    A few keys are looked up by the ends of their file names first, which rarely match. Many keys are in indexes.
    """

    def __init__(self, seen: Collection[str], large: Sequence[KeyIndex] = ()) -> None:
        encoded = _as_bytes(seen)
        self._indexes = list(large)
        if len(seen) > _MANY:
            from deltacli.delta.encoding.many_values import KeyIndex

            self._indexes.append(KeyIndex(encoded))
        self._few = encoded if len(seen) <= _MANY else encoded.slice(0, 0)
        mark = _VECTOR_MARK.encode()
        paths = {key.partition(mark)[0] for key in self._few.to_pylist()}
        # Canonicalising never changes a file name, so rows whose last bytes match no touched name cannot be touched.
        # As many bytes as
        # the shortest touched name has, up to 64, tell names apart that end alike.
        self._tail = min([64, *(len(path.rpartition(b"/")[2]) for path in paths)])
        self._tails = pa.array(list({path[-self._tail :] if self._tail else b"" for path in paths}), pa.binary())

    def __len__(self) -> int:
        return len(self._few) + sum(map(len, self._indexes))

    def find_current_rows(self, paths: pa.Array, vectors: pa.Array) -> pa.Array | None:
        """Return a mask of the rows that no newer commit supersedes; None if that is true for all rows.

        Args:
            paths: Paths as in the log (string).
            vectors: The `deletionVector` structs, or the ids of the vectors (string, `""` for none). Ids are computed
                from structs only for rows whose path may be superseded.
        """
        is_touched = self._touched_by_few(paths, vectors) if len(self._few) else None
        if self._indexes:
            keys = compute_file_keys(paths, _ids_of(vectors))
            found = [index.contains(keys) for index in self._indexes]
            is_touched = reduce(pc.or_, found if is_touched is None else [is_touched, *found])
        if is_touched is None or not pc.any(is_touched).as_py():
            return None
        return pc.invert(is_touched)

    def _touched_by_few(self, paths: pa.Array, vectors: pa.Array) -> pa.Array | None:
        """Return which rows are among a few keys, None if none is.

        The ends of the file names are looked up first (a hit is rare), the exact key of path and vector only for hits.
        """
        hits = self._hits(decode_column(paths))
        if not pc.any(hits).as_py():
            return None
        hit_keys = compute_file_keys(pc.filter(paths, hits), _ids_of(pc.filter(vectors, hits)))
        return pc.replace_with_mask(hits, hits, pc.is_in(hit_keys, value_set=self._few))

    def _hits(self, decoded: pa.Array) -> pa.Array:
        """Return which rows may be touched: their path ends like a touched one, or has no file name (`x/.` is x)."""
        if self._tail == 0:
            return pa.repeat(pa.scalar(True), len(decoded))
        hits = pc.is_in(pc.binary_slice(decoded, -self._tail), value_set=self._tails)
        return pc.or_(hits, pc.or_(pc.ends_with(decoded, b"."), pc.ends_with(decoded, b"/")))


def _ids_of(vectors: pa.Array) -> pa.Array:
    return unique_id_column(vectors) if vectors.type.num_fields else vectors


def find_superseded_keys(actions: Iterable[tuple[str, Action]], large: Sequence[KeyIndex], source: str) -> set[str]:
    """Return the keys of a small commit whose files large commits after it add or remove."""
    if not large:
        return set()
    keys = [compute_file_key(action, source) for kind, action in actions if kind in ("add", "remove")]
    column = _as_bytes(keys)
    is_decided = reduce(pc.or_, [index.contains(column) for index in large])
    return {key for key, hit in zip(keys, is_decided.to_pylist(), strict=True) if hit}


def decode_file_keys(keys: pa.Array) -> Iterator[str]:
    """Yield keys of a column as `compute_file_key` returns them."""
    return (key.decode("utf-8", "surrogateescape") for key in keys.to_pylist())


def _as_bytes(keys: Iterable[str]) -> pa.Array:
    return pa.array([key.encode("utf-8", "surrogateescape") for key in keys], pa.binary())


def compute_file_keys(paths: pa.Array, dv_ids: pa.Array) -> pa.Array:
    """Return `compute_file_key` for columns: string paths and string vector ids in, binary keys out."""
    return join_paths_and_vector_ids(canonicalize_paths(paths), dv_ids)


def join_paths_and_vector_ids(spelled: pa.Array, dv_ids: pa.Array) -> pa.Array:
    """Return the keys of paths (binary) that are in one spelling already."""
    ids = pc.cast(dv_ids, pa.binary())
    without = pc.equal(pc.binary_length(ids), 0)
    if pc.all(without).as_py():
        return spelled
    return pc.if_else(without, spelled, pc.binary_join_element_wise(spelled, ids, _VECTOR_MARK.encode()))


# -- counting a state --------------------------------------------------------------------------------------------------

_SAFE_SUM = 2**62


@dataclass(frozen=True, slots=True)
class FileCounts:
    """Live files.

    `records` sums the known numRecords; `deleted_rows` sums the cardinality of deletion vectors. Of the files with a
    vector, `tight` have bounds that are not said to be wide, `unjudged` may have such, and `exceeding` vectors delete
    more rows than the file has.
    """

    count: int = 0
    size_bytes: int = 0
    records: int = 0
    files_without_records: int = 0
    deletion_vectors: int = 0
    deleted_rows: int = 0
    tight: int = 0
    unjudged: int = 0
    exceeding: int = 0

    @property
    def rows(self) -> int | None:
        """Return the number of visible rows, or None if any live file has no row count."""
        return None if self.files_without_records else self.records - self.deleted_rows

    def __add__(self, other: FileCounts) -> FileCounts:
        return FileCounts(
            self.count + other.count,
            self.size_bytes + other.size_bytes,
            self.records + other.records,
            self.files_without_records + other.files_without_records,
            self.deletion_vectors + other.deletion_vectors,
            self.deleted_rows + other.deleted_rows,
            self.tight + other.tight,
            self.unjudged + other.unjudged,
            self.exceeding + other.exceeding,
        )


@dataclass(frozen=True, slots=True)
class TombstoneCounts:
    """Removes in a state; `expired` of them no longer protect their file at the time of counting."""

    count: int = 0
    expired: int = 0

    def __add__(self, other: TombstoneCounts) -> TombstoneCounts:
        return TombstoneCounts(self.count + other.count, self.expired + other.expired)


def count_adds(adds: pa.RecordBatch) -> FileCounts:
    """Count a batch of `narrow_add`."""
    records, cardinality, is_tight = (adds.column(name) for name in ("num_records", "dv_cardinality", "is_tight"))
    has_vectors = cardinality.null_count < adds.num_rows
    return FileCounts(
        count=adds.num_rows,
        size_bytes=_sum(adds.column("size")),
        records=_sum(records),
        files_without_records=records.null_count,
        deletion_vectors=adds.num_rows - cardinality.null_count,
        deleted_rows=_sum(cardinality),
        tight=pc.sum(is_tight).as_py() or 0 if has_vectors else 0,
        unjudged=is_tight.null_count,
        exceeding=pc.sum(pc.greater(cardinality, records)).as_py() or 0 if has_vectors else 0,
    )


def find_unexpired_tombstones(timestamps: pa.Array, cutoff_ms: int, *, are_young: bool = False) -> pa.Array:
    """Return which tombstones with these deletion timestamps must be kept. Where they `are_young`, being those of
    commits after the cutoff, one that is no time in milliseconds, where the cutoff is one, does not speak against it.
    """
    known = pc.fill_null(timestamps, 0)
    kept = pc.greater(known, cutoff_ms)
    return (
        pc.or_(kept, pc.less(known, EARLIEST_PLAUSIBLE_MS))
        if are_young and cutoff_ms >= EARLIEST_PLAUSIBLE_MS
        else kept
    )


def _sum(column: pa.Array) -> int:
    """Sum int64 exactly. Values for which Arrow's sum would overflow are added as Python integers."""

    extremes = pc.min_max(column).as_py()
    widest = max(abs(extremes["min"] or 0), abs(extremes["max"] or 0))
    if widest * max(len(column), 1) < _SAFE_SUM:
        return pc.sum(column).as_py() or 0
    return sum(value for value in column.to_pylist() if value is not None)


def add_counts_of_batch(
    batch: FileBatch, cutoff_ms: int, files: FileCounts, tombstones: TombstoneCounts, *, are_young: bool = False
) -> tuple[FileCounts, TombstoneCounts]:
    """Return the counts with those of one more batch, the tombstones as by `find_unexpired_tombstones`."""
    if batch.adds is not None:
        files += count_adds(batch.adds)
    if batch.removes is not None:
        kept = find_unexpired_tombstones(batch.removes.column("deletion_timestamp"), cutoff_ms, are_young=are_young)
        tombstones += TombstoneCounts(batch.removes.num_rows, batch.removes.num_rows - kept.true_count)
    return files, tombstones


# -- per-file statistics -----------------------------------------------------------------------------------------------

_LEAD = '{"numRecords":'
_WIDEST_NUMBER = 20
_WIDE = r'"tightBounds"\s*:\s*false'
_PLAINLY_WIDE, _ENDS_WIDE = '"tightBounds":false', '"tightBounds":false}'
_BOUNDS = ('"minValues"', '"maxValues"')
_WIDEST_PLAIN_NUMBER = 18  # digits that surely fit 64 bits
_FEW_TEXTS = 64
"""So many take less time one by one than in a column."""
_PLAIN_RECORDS = rf'^{{"numRecords":(?P<records>0|[1-9][0-9]{{0,{_WIDEST_PLAIN_NUMBER - 1}}})(?:,|}}$)'


def extract_num_records_column(stats: pa.Array) -> pa.Array:
    """Return `numRecords` of a column of statistics: string array in, int64 array out, null if it is absent or the text
    is not JSON. Every known writer puts numRecords first, so its digits are extracted (1M rows: 0.15 s)
    without reading the rest of the text. Every other text is parsed (1M rows: 0.8 s).
    """
    if stats.null_count == len(stats):
        return pa.nulls(len(stats), pa.int64())
    # The digits are between the beginning and a comma, or the brace that ends the text.
    records = pc.cast(pc.struct_field(pc.extract_regex(stats, _PLAIN_RECORDS), [0]), pa.int64())
    is_whole = pc.ends_with(stats, "}")
    if not (stats.null_count or records.null_count) and pc.all(is_whole).as_py():
        return records
    open_rows = pc.fill_null(pc.or_(pc.and_(pc.is_valid(stats), pc.is_null(records)), pc.invert(is_whole)), False)
    if not pc.any(open_rows).as_py():
        return records
    return pc.replace_with_mask(records, open_rows, _parse(pc.filter(stats, open_rows)))


def _parse(stats: pa.Array) -> pa.Array:
    """Parse each text as JSON, as one NDJSON block, or text by text if one of them is not plainly one object.

    If every text begins and ends with a brace, no object can begin in one text and end in another: inside an object, an
    opening brace never follows a closing one.
    """
    fields = pa.schema([("numRecords", pa.int64())])
    braced = pc.and_(pc.starts_with(stats, "{"), pc.ends_with(stats, "}"))
    if pc.all(braced).as_py():
        block = pc.binary_join_element_wise(stats, pa.scalar(""), "\n")
        parsed = parse_ndjson(block.buffers()[2].to_pybytes(), fields)
        if parsed is not None and parsed.num_rows == len(stats):
            return parsed.column("numRecords").combine_chunks()
    return pa.array([parse_num_records(text) for text in stats.to_pylist()], pa.int64())


def find_tight_bounds(stats: pa.Array | None, cardinality: pa.Array) -> pa.Array:
    """Return which files with a vector have bounds that are not said to be wide: bool array out, null where `stats`,
    the JSON texts, are not known. Such a file may not count its deleted rows in `numRecords`.
    """
    has_vector = pc.is_valid(cardinality)
    if cardinality.null_count == len(cardinality):
        return has_vector
    if stats is None:
        return pc.if_else(has_vector, pa.scalar(None, pa.bool_()), pa.scalar(False))
    texts = pc.filter(stats, has_vector)
    if pc.all(pc.ends_with(texts, _ENDS_WIDE)).as_py():  # as writers put it: a tenth of the time of a search
        return pa.repeat(False, len(stats))
    has_bounds = pc.or_(*(pc.match_substring(texts, name) for name in _BOUNDS))
    is_wide = pc.match_substring(texts, _PLAINLY_WIDE)
    if is_wide.true_count < len(texts) - is_wide.null_count:
        is_wide = pc.match_substring_regex(texts, _WIDE)
    is_tight = pc.and_not(has_bounds, is_wide)
    return pc.replace_with_mask(has_vector, has_vector, pc.fill_null(is_tight, pa.scalar(False)))


def extract_num_records(stats: object) -> int | None:
    """Return `numRecords` of the statistics of one add, as they are in the log; None where they do not say."""
    if not isinstance(stats, str):
        return None
    is_known = stats.startswith(_LEAD) and stats.endswith("}")
    digits = stats[len(_LEAD) : len(_LEAD) + _WIDEST_NUMBER].partition(",")[0] if is_known else ""
    is_plain = digits.isascii() and digits.isdigit() and (digits == "0" or digits[0] != "0")
    return int(digits) if is_plain and len(digits) <= _WIDEST_PLAIN_NUMBER else parse_num_records(stats)


def parse_num_records(text: str) -> int | None:
    """Return `numRecords` of one text, or None if it is absent, not an integer, or the text is not a JSON object."""
    import json

    try:
        value = json.loads(text, parse_int=lambda digits: int(digits) if len(digits) <= 64 else None)
    except (ValueError, RecursionError):
        return None
    records = value.get("numRecords") if isinstance(value, dict) else None
    return records if type(records) is int and abs(records) < 2**63 else None


# -- file actions in columns -------------------------------------------------------------------------------------------


class FileBatch(NamedTuple):
    """Live adds and tombstones, each None if the batch has none. Both have narrow columns, or both have all fields."""

    adds: pa.RecordBatch | None = None
    removes: pa.RecordBatch | None = None


class ActionSchemas(NamedTuple):
    """The Arrow schemas of file actions.

    `narrow_add`: path, dv_id, size, num_records, dv_cardinality (null without a vector),
    is_tight (see `find_tight_bounds`). `narrow_remove`: path,
    dv_id, deletion_timestamp. `add`, `remove`: the action's own fields, as in the checkpoint schema. Sizes are bytes,
    times epoch milliseconds.
    """

    narrow_add: pa.Schema
    narrow_remove: pa.Schema
    add: pa.Schema
    remove: pa.Schema


@lru_cache(maxsize=1)
def action_schemas() -> ActionSchemas:
    """Return the schemas, built once. pyarrow is imported only here."""
    text, whole = pa.string(), pa.int64()
    return ActionSchemas(
        narrow_add=pa.schema(
            [
                ("path", text),
                ("dv_id", text),
                ("size", whole),
                ("num_records", whole),
                ("dv_cardinality", whole),
                ("is_tight", pa.bool_()),
            ]
        ),
        narrow_remove=pa.schema([("path", text), ("dv_id", text), ("deletion_timestamp", whole)]),
        add=schema_of_action("add"),
        remove=schema_of_action("remove"),
    )


class NarrowRows:
    """Collects add and remove actions as found, and keeps only what the narrow columns need."""

    def __init__(self) -> None:
        self._adds: tuple[list[Any], ...] = ([], [], [], [], [])  # Any: JSON values, checked when they become columns
        self._removes: tuple[list[Any], ...] = ([], [], [])

    def __len__(self) -> int:
        return len(self._adds[0]) + len(self._removes[0])

    @property
    def position(self) -> tuple[int, int]:
        """Return how many adds and removes were added."""
        return len(self._adds[0]), len(self._removes[0])

    def append(self, adds: Iterable[Action], removes: Iterable[Action]) -> None:
        """Append actions."""
        paths, dv_ids, sizes, stats, cardinalities = self._adds
        for add in adds:
            vector = add.get("deletionVector")
            if vector is not None and (fault := find_descriptor_fault(vector)):
                vector = {"cardinality": fault[1]}  # not an integer: reported by `build_batches`
            paths.append(add.get("path"))
            dv_ids.append(unique_id(vector) if vector else "")
            sizes.append(add.get("size", _ABSENT))
            stats.append(add.get("stats"))
            cardinalities.append(vector.get("cardinality", _ABSENT) if vector else None)
        paths, dv_ids, timestamps = self._removes
        for remove in removes:
            paths.append(remove.get("path"))
            vector = remove.get("deletionVector")
            dv_ids.append(_ABSENT if vector is not None and find_descriptor_fault(vector) else unique_id(vector))
            timestamps.append(remove.get("deletionTimestamp"))

    def slice(self, first: tuple[int, int], last: tuple[int, int]) -> NarrowRows:
        """Return the rows added between two positions."""
        narrow_rows = NarrowRows()
        narrow_rows._adds = tuple(column[first[0] : last[0]] for column in self._adds)
        narrow_rows._removes = tuple(column[first[1] : last[1]] for column in self._removes)
        return narrow_rows

    def build_batches(self, source: str) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Return one batch of `narrow_add` and one of `narrow_remove`.

        Raises CommitCorrupt, naming `source`, if a path, a size or a vector's cardinality is missing or a value has the
        wrong type.
        """
        return self._add_batch(source), self._remove_batch(source)

    def _add_batch(self, source: str) -> pa.RecordBatch:
        paths, dv_ids, sizes, stats, cardinalities = self._adds
        if not paths:
            return _no_rows()[0]
        texts = _text_column(stats, "add.stats", source)
        cardinality = _whole_column(cardinalities, "add.deletionVector.cardinality", source)
        is_few = len(stats) <= _FEW_TEXTS
        adds = [
            _path_column(paths, "add", source),
            _text_column(dv_ids, "add.deletionVector", source),
            _whole_column(sizes, "add.size", source),
            pa.array(map(extract_num_records, stats), pa.int64()) if is_few else extract_num_records_column(texts),
            cardinality,
            find_tight_bounds(texts, cardinality),
        ]
        if adds[2].null_count:
            raise missing_field_error("add.size", source)
        return pa.RecordBatch.from_arrays(adds, schema=action_schemas().narrow_add)

    def _remove_batch(self, source: str) -> pa.RecordBatch:
        paths, dv_ids, timestamps = self._removes
        if not paths:
            return _no_rows()[1]
        removes = [
            _path_column(paths, "remove", source),
            _text_column(dv_ids, "remove.deletionVector", source),
            _whole_column(timestamps, "remove.deletionTimestamp", source),
        ]
        return pa.RecordBatch.from_arrays(removes, schema=action_schemas().narrow_remove)


@lru_cache(maxsize=1)
def _no_rows() -> tuple[pa.RecordBatch, pa.RecordBatch]:
    schemas = action_schemas()
    return tuple(pa.RecordBatch.from_pylist([], schema=one) for one in (schemas.narrow_add, schemas.narrow_remove))


SMALL_FILE_BYTES = 16 << 20
"""Size in bytes below which opening a data file takes longer than reading it."""

_ABSENT = object()


def build_narrow_batches(
    adds: Iterable[Action], removes: Iterable[Action], source: str
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Actions as found -> batches of `narrow_add` and `narrow_remove`. Raises CommitCorrupt like `NarrowRows`."""
    rows = NarrowRows()
    rows.append(adds, removes)
    return rows.build_batches(source)


def build_action_batch(actions: Sequence[Action], schema: pa.Schema, source: str) -> pa.RecordBatch:
    """Actions as found -> one batch of `add` or `remove` with the fields of the schema. Raises CommitCorrupt."""
    columns = []
    names: set[str] = set().union(*actions)
    for field in schema:
        if field.name not in names:
            columns.append(pa.nulls(len(actions), field.type))
            continue
        values: list[Json] = [action.get(field.name) for action in actions]
        if pa.types.is_map(field.type):
            values = [list(value.items()) if isinstance(value, dict) else None for value in values]
        columns.append(build_action_column(values, field, source))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def build_full_batch(adds: Sequence[Action], removes: Sequence[Action], source: str) -> FileBatch:
    """Return adds and removes as found with all their fields. Raises CommitCorrupt."""
    schemas = action_schemas()
    return FileBatch(
        build_action_batch(adds, schemas.add, source) if adds else None,
        build_action_batch(removes, schemas.remove, source) if removes else None,
    )


def build_action_column(values: Sequence[object], field: ArrowField, source: str) -> ArrowArray:
    """Return values of the log as a column. Raises CommitCorrupt (`action.wrong-type`) for one that it cannot hold."""
    try:
        return pa.array(values, field.type)
    except MemoryError:
        raise
    except (pa.ArrowException, UnicodeEncodeError, OverflowError) as fault:
        raise wrong_type_error(field.name, str(fault), source) from fault


def build_action_batch_leniently(actions: Sequence[Action], schema: pa.Schema) -> pa.RecordBatch:
    """Convert actions that were checked before to a batch, and leave out values that do not fit the columns.

    The other values can still be compared. Halves of surrogate pairs become question marks, values of a wrong type
    null.
    """
    try:
        return build_action_batch(actions, schema, "")
    except CommitCorrupt:
        return build_action_batch([_plain(action, schema) for action in actions], schema, "")


def _plain(action: Action, schema: pa.Schema) -> Action:
    """Return an action without the fields that its columns do not have."""
    plain: Action = {}
    for name in schema.names:
        value = _plain_value(action.get(name))
        try:
            build_action_batch([{name: value}], schema, "")
        except CommitCorrupt:
            continue
        plain[name] = value
    return plain


def _plain_value(value: Json) -> Json:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_plain_value(key): _plain_value(item) for key, item in value.items()}
    return value


def _path_column(paths: Sequence[object], kind: str, source: str) -> pa.Array:
    column = _text_column(paths, f"{kind}.path", source)
    if column.null_count:
        raise missing_field_error(f"{kind}.path", source)
    return column


def _text_column(values: Sequence[object], what: str, source: str) -> pa.Array:
    try:
        return pa.array(values, pa.string())
    except MemoryError:
        raise
    except (pa.ArrowException, UnicodeEncodeError, TypeError) as fault:
        raise wrong_type_error(what, str(fault), source) from fault


def _whole_column(values: Sequence[object], what: str, source: str) -> pa.Array:
    odd = next((value for value in values if value is not None and type(value) is not int), None)
    if odd is _ABSENT:
        raise missing_field_error(what, source)
    try:
        if odd is not None:
            raise OverflowError(
                f"{format_json_value(odd)}, expected an integer of 64 bits"
            )  # orjson reads larger ones as floats
        return pa.array(values, pa.int64())
    except MemoryError:
        raise
    except (pa.ArrowException, OverflowError) as fault:
        raise wrong_type_error(what, str(fault), source) from fault
