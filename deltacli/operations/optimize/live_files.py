"""The live files of a version as columns, and choosing the files to rewrite: bins, the most useful first.

Everything that grows with the number of files is a column; there is an object for each bin. Files are packed by the
bytes of their live rows, ascending, each bin until the next file does not fit. So no two of the files that a run leaves
behind fit into one, and a second run has nothing to do. A file that was written from more bytes than it has counts with
these: else files that became much smaller would be merged once more by each run.

Spec: Partition Value Serialization; Clustered Table.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.changing.preflight import ADDED_TWICE, REMOVED_WITH_OTHER_VECTOR, ROW_ID_FIELDS, select_row_id_columns
from deltacli.core.typing import ArrowArray, RecordBatch
from deltacli.delta.clustering.sorting import CUBE_COLUMNS, CUBE_ID, PROVIDER, Z_ORDER_TAG, ChosenFiles
from deltacli.delta.encoding.digests import codes
from deltacli.delta.encoding.many_values import find_repeated_hashes
from deltacli.delta.log.file_actions import extract_num_records_column
from deltacli.delta.log.row_ids import FEATURE
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.partitions.values import is_text, parse_partition_columns, with_spelled_keys
from deltacli.delta.paths.engine_readings import SEVERAL_SPELLINGS
from deltacli.delta.paths.spelling import encode_path_bytes
from deltacli.delta.paths.spelling_columns import resolve_file_names
from deltacli.delta.schema.to_arrow import find_unsupported_type
from deltacli.delta.schema.types import PrimitiveType
from deltacli.table.ambiguous_files import find_ambiguous_files
from deltacli.table.file_keys import hash_file_actions, hash_narrow_adds
from deltacli.table.partition_condition import Mask

if TYPE_CHECKING:
    from deltacli.table.version import Snapshot
    from deltacli.work.table_files import TableFiles

# -- choosing the files to rewrite -------------------------------------------------------------------------------------

_DEAD_PER_BIN = 1_000
LARGE, CLEAN, ALONE, FEW, MAX_BYTES = "large-enough", "nothing-to-purge", "alone", "min-files", "max-bytes"
"""Why a file is left alone: size, no deleted row, no other small file in its group, too few, the limit of this run."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The sizes (bytes) and shares that decide. `purge`: only the files that it names, and those with vectors."""

    target_bytes: int
    min_bytes: int
    min_files: int
    purge_ratio: float
    purge: bool
    max_bytes: int | None


class FilesAtHand(NamedTuple):
    """The live files in the order of their version, as columns. `packed` are the sizes by which files are packed.
    `groups` are numbers of what may share a file: equal partition values and clustering. `rows` are physical and null
    where unknown, as are the `deleted` of a vector. `is_excluded` must not be rewritten, `is_named` hold something to
    purge besides vectors.
    """

    sizes: ArrowArray
    packed: ArrowArray
    rows: ArrowArray
    deleted: ArrowArray
    has_vector: ArrowArray
    groups: ArrowArray
    is_excluded: ArrowArray
    is_named: ArrowArray


class Bin(NamedTuple):
    """Files that become one, or are sorted together: `order[start:stop]` of a selection. `outputs`: 0 without rows."""

    start: int
    stop: int
    size_bytes: int
    rows: int | None
    vectors: int
    outputs: int
    packed_bytes: int = 0
    """The live bytes by which its files were packed."""

    @property
    def files(self) -> int:
        return self.stop - self.start

    @property
    def worth(self) -> float:
        """Return the files saved per byte that is read and written."""
        return (self.files - self.outputs) / max(self.size_bytes, 1)


@dataclass(frozen=True, eq=False)
class Selection:
    """Bins, the most useful first, and why the other files are left alone. `order` has the places of files."""

    order: ArrowArray
    bins: tuple[Bin, ...]
    skipped: Mapping[str, int]

    @property
    def files(self) -> int:
        return sum(one.files for one in self.bins)

    @property
    def size_bytes(self) -> int:
        return sum(one.size_bytes for one in self.bins)

    @property
    def outputs(self) -> int:
        """Return the number of files that they become."""
        return sum(one.outputs for one in self.bins)

    @property
    def vectors(self) -> int:
        """Return the number of deletion vectors that are left out."""
        return sum(one.vectors for one in self.bins)

    @property
    def rows(self) -> int | None:
        """Return the number of live rows; None if it is not known of some file."""
        counts = [one.rows for one in self.bins]
        return None if None in counts else sum(count for count in counts if count is not None)

    def places(self, bins: Iterable[Bin]) -> list[int]:
        """Return the places of the files of some bins, bin by bin."""
        return [place for one in bins for place in self.order.slice(one.start, one.files).to_pylist()]


def select(files: FilesAtHand, rules: Rules) -> Selection:
    """Return the bins to rewrite: each lowers the number of files or holds deleted rows that are to go."""
    if not len(files.sizes):
        return Selection(files.sizes, (), {})
    kinds = _Kinds.of(files, rules)
    order, sorted_ = _sorted(files, kinds)
    packed = list(_packed(sorted_, rules))
    bins = [_bin(sorted_, begin, end) for begin, end in packed if _is_useful(sorted_, begin, end, rules)]
    bins.sort(key=lambda one: (-one.worth, one.start))
    kept, over = _within(bins, rules.max_bytes)
    lonely = kinds.candidates - len(order)
    few = len(order) - sum(one.files for one in bins)
    large = len(files.sizes) - kinds.candidates - kinds.excluded
    counts = {CLEAN if rules.purge else LARGE: large, ALONE: lonely, FEW: few, MAX_BYTES: over}
    return Selection(order, tuple(kept), {reason: count for reason, count in counts.items() if count})


def select_ordered(files: FilesAtHand, rules: Rules, choose: Callable[[ArrowArray], ChosenFiles]) -> Selection:
    """Return the bins of files that are sorted together; `choose` takes the bytes of the live rows of each file."""
    if not len(files.sizes):
        return Selection(files.sizes, (), {})
    live = _Kinds.of(files._replace(packed=files.sizes), rules).live_bytes
    chosen = choose(live)
    bins = [_ordered_bin(files, live, chosen.order, *bounds, rules.target_bytes) for bounds in chosen.bounds]
    bins.sort(key=lambda one: (-one.worth, one.start))
    kept, over = _within(bins, rules.max_bytes)
    return Selection(chosen.order, tuple(kept), {**chosen.skipped, **({MAX_BYTES: over} if over else {})})


def _ordered_bin(
    files: FilesAtHand, live: ArrowArray, order: ArrowArray, begin: int, end: int, target_bytes: int
) -> Bin:
    places = order.slice(begin, end - begin)

    def total(column: ArrowArray) -> int:
        return pc.sum(pc.cast(pc.take(column, places), pa.int64())).as_py() or 0

    unknown = pc.or_(pc.is_null(files.rows), pc.is_null(files.deleted))
    rows = None if total(unknown) else total(files.rows) - total(files.deleted)
    outputs = 0 if rows == 0 else max(-(-total(live) // target_bytes), 1)
    return Bin(begin, end, total(files.sizes), rows, total(files.has_vector), outputs)


class _Kinds(NamedTuple):
    """What is to become of each file, and the bytes of its live rows."""

    is_candidate: ArrowArray
    is_chosen: ArrowArray
    """For the rows of its vector, or what it is named for: also where the number of files does not fall."""
    is_dead: ArrowArray
    live_bytes: ArrowArray
    candidates: int
    excluded: int

    @classmethod
    def of(cls, files: FilesAtHand, rules: Rules) -> _Kinds:
        known = pc.and_(pc.is_valid(files.rows), pc.is_valid(files.deleted))
        rows, deleted = (pc.fill_null(column, 0) for column in (files.rows, files.deleted))
        at_least_one = pc.if_else(pc.equal(rows, 0), 1, rows)
        share = pc.divide(pc.cast(deleted, pa.float64()), pc.cast(at_least_one, pa.float64()))
        over = pc.or_(pc.invert(known), pc.greater(share, rules.purge_ratio))
        is_chosen = pc.and_(files.has_vector, pc.or_(over, pa.scalar(rules.purge)))
        is_dead = pc.and_(pc.and_(files.has_vector, known), pc.and_(pc.equal(rows, deleted), pc.greater(rows, 0)))
        is_chosen = pc.or_(pc.or_(is_chosen, is_dead), files.is_named)
        is_small = pc.and_(pc.less(files.packed, rules.min_bytes), pa.scalar(not rules.purge))
        is_candidate = pc.and_not(pc.or_(is_small, is_chosen), files.is_excluded)
        live_share = pc.if_else(known, pc.subtract(1.0, share), 1.0)
        live = pc.cast(pc.floor(pc.multiply(pc.cast(files.packed, pa.float64()), live_share)), pa.int64())
        counts = [int(pc.sum(mask).as_py() or 0) for mask in (is_candidate, files.is_excluded)]
        return cls(is_candidate, is_chosen, is_dead, live, *counts)


class _Sorted(NamedTuple):
    """The candidates group by group, dead files first, then by the bytes of live rows. Sums are of those before."""

    groups: Sequence[int]
    live: Sequence[int]
    dead: Sequence[int]
    chosen: Sequence[int]
    sizes: Sequence[int]
    rows: Sequence[int]
    unknown: Sequence[int]
    vectors: Sequence[int]


def _sorted(files: FilesAtHand, kinds: _Kinds) -> tuple[ArrowArray, _Sorted]:
    places = pc.cast(pc.indices_nonzero(kinds.is_candidate), pa.int64())
    taken = [pc.take(column, places) for column in (files.groups, pc.invert(kinds.is_dead), kinds.live_bytes)]
    names = ["group", "alive", "live", "place"]
    keys = pa.RecordBatch.from_arrays([*taken[:1], pc.cast(taken[1], pa.int8()), taken[2], places], names=names)
    sorting = [(name, "ascending") for name in names]
    order = pc.take(places, pc.sort_indices(keys, sort_keys=sorting)) if len(places) else places
    order = _in_company(files, kinds, order)

    def column(values: ArrowArray) -> ArrowArray:
        return pc.take(values, order)

    unknown = pc.and_not(pc.is_valid(files.rows), kinds.is_dead)
    live_rows = pc.subtract(pc.fill_null(files.rows, 0), pc.fill_null(files.deleted, 0))
    summed = (kinds.live_bytes, kinds.is_dead, kinds.is_chosen, files.sizes, live_rows, unknown, files.has_vector)
    return order, _Sorted(_view(column(files.groups)), *(_sums(column(values)) for values in summed))


def _in_company(files: FilesAtHand, kinds: _Kinds, order: ArrowArray) -> ArrowArray:
    """Return the order without files that are the only candidate of their group, unless they are chosen."""
    if len(order) < 2:
        return pc.filter(order, pc.take(kinds.is_chosen, order))
    groups = pc.take(files.groups, order)
    same = pc.equal(groups.slice(1), groups.slice(0, len(groups) - 1))
    no = pa.array([False])
    with_next, with_last = pa.concat_arrays([same, no]), pa.concat_arrays([no, same])
    return pc.filter(order, pc.or_(pc.or_(with_next, with_last), pc.take(kinds.is_chosen, order)))


def _view(values: ArrowArray) -> Sequence[int]:
    """Return integers without a copy."""
    whole = pc.cast(values, pa.int64())
    begin = whole.offset
    return memoryview(whole.buffers()[1] or b"").cast("q")[begin : begin + len(whole)] if len(whole) else ()


def _sums(values: ArrowArray) -> Sequence[int]:
    """Return the sums of the values before each place, and that of all at the end."""
    return _view(pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(pc.cast(values, pa.int64()))]))


def _packed(files: _Sorted, rules: Rules) -> Iterator[tuple[int, int]]:
    """Yield the bounds of bins: dead files by themselves, then files until the next one does not fit."""
    groups, live, dead = files.groups, files.live, files.dead
    count, begin = len(groups), 0
    while begin < count:
        end = bisect_right(groups, groups[begin], begin, count)
        alive = begin + dead[end] - dead[begin]
        yield from ((at, min(at + _DEAD_PER_BIN, alive)) for at in range(begin, alive, _DEAD_PER_BIN))
        begin = alive
        while begin < end:
            fitting = bisect_right(live, live[begin] + rules.target_bytes, begin + 1, end + 1) - 1
            stop = max(fitting, begin + 1)
            yield begin, stop
            begin = stop


def _is_useful(files: _Sorted, begin: int, end: int, rules: Rules) -> bool:
    return end - begin >= rules.min_files or files.chosen[end] > files.chosen[begin]


def _bin(files: _Sorted, begin: int, end: int) -> Bin:
    def total(sums: Any) -> int:  # Any: a view
        difference: int = sums[end] - sums[begin]
        return difference

    is_dead = total(files.dead) == end - begin
    rows = None if total(files.unknown) else total(files.rows)
    outputs = 0 if is_dead else 1
    return Bin(begin, end, total(files.sizes), rows, total(files.vectors), outputs, total(files.live))


def _within(bins: Sequence[Bin], max_bytes: int | None) -> tuple[list[Bin], int]:
    """Return the bins whose bytes together stay within a limit, and the number of files of the others."""
    kept, left, over = list[Bin](), max_bytes, 0
    for one in bins:
        if left is None or one.size_bytes <= left:
            kept.append(one)
            left = None if left is None else left - one.size_bytes
        else:
            over += one.files
    return kept, over


# -- live files as columns ---------------------------------------------------------------------------------------------

ORDER_TAGS = (CUBE_ID, CUBE_COLUMNS, Z_ORDER_TAG)
"""The tags of files whose rows are in some order; files are merged only with others of the same values."""
PACKED_TAG = "deltacli.compactedBytes"
"""The tag of files that were written from more bytes than they have: how many."""
OUTSIDE, FOREIGN_CLUSTERING = "outside", "clustering-provider"
"""Why files are left alone: they are not below the table, another program clusters them."""
LIVE_FIELDS = ("path", "size", "partitionValues", "deletionVector", "stats", "tags", "clusteringProvider")
"""The fields of adds that `LiveReader` needs."""
_ZONE = r"(Z|[+-][0-9]{2}(:?[0-9]{2})?|\[.*\]|[A-Za-z]+(/[A-Za-z_]+)*)\s*$"


@dataclass(frozen=True, eq=False)
class LiveFiles:
    """The files in scope as columns, their keys, the numbers of their partitions, their `ORDER_TAGS`, and how many must
    not be rewritten, by reason.
    """

    columns: FilesAtHand
    keys: ArrowArray
    of_partition: ArrowArray
    tags: Mapping[str, ArrowArray]
    partitions: int
    excluded: Mapping[str, int]
    doubted: Mapping[int, str] = field(default_factory=dict)
    """The places of files that break a rule by which they may be in the table twice, and the rule."""
    row_ids: pa.Table | None = None
    """Of all live files, as rules look at them; None where rows have no ids, or where nobody asked."""

    def excluding(self, codes: Mapping[int, str]) -> LiveFiles:
        """Return the same without the files at some places, each with the reason why."""
        places = pa.array(range(len(self.keys)), pa.int64())
        is_excluded = pc.is_in(places, value_set=pa.array(list(codes), pa.int64()))
        columns = self.columns._replace(is_excluded=pc.or_(self.columns.is_excluded, is_excluded))
        counts = Counter(self.excluded) + Counter(codes.values())
        return replace(self, columns=columns, excluded=dict(counts))

    def naming(self, is_named: ArrowArray) -> LiveFiles:
        """Return the same with other files that hold something to purge."""
        return replace(self, columns=self.columns._replace(is_named=is_named))


def live_files(snapshot: Snapshot, condition: Mask | None) -> LiveFiles:
    """Return the live files of a version that a condition chooses.

    Raises DataUnreadable (`partition.*`), CommitCorrupt, CheckpointUnreadable, StorageFailed.
    """
    with_ids = FEATURE in snapshot.config.features
    reader = LiveReader(snapshot, condition, with_ids=with_ids)
    fields = [*dict.fromkeys((*LIVE_FIELDS, *(ROW_ID_FIELDS if with_ids else ())))]
    parts = list(snapshot.file_actions.map_actions("add", reader.read, fields=fields))
    found = join_parts([part for part in parts if part is not None])
    return replace(found, row_ids=reader.row_ids)


class LivePart(NamedTuple):
    """The columns of a batch of live files."""

    sizes: ArrowArray
    packed: ArrowArray
    rows: ArrowArray
    deleted: ArrowArray
    has_vector: ArrowArray
    is_outside: ArrowArray
    is_foreign: ArrowArray
    keys: ArrowArray
    partitions: Sequence[ArrowArray]
    order: Sequence[ArrowArray]
    paths: ArrowArray | None
    """Numbers that are equal for equal paths, where files may have vectors."""
    is_removed: ArrowArray | None
    """Which files were removed with another vector, as far as that is known."""
    is_ambiguous: ArrowArray | None
    """Mask of the files that the log names by several spellings, or None without such files."""


class LiveReader:
    """Reads batches of adds, in several threads; `joined` makes the files of a version of the parts."""

    def __init__(self, snapshot: Snapshot, condition: Mask | None, *, with_ids: bool = False) -> None:
        self._snapshot, self._config = snapshot, snapshot.config
        self._has_vectors = "deletionVectors" in snapshot.config.features
        self._ids: list[RecordBatch] | None = [] if with_ids else None
        self._files: TableFiles = snapshot.table.files()
        self._condition = condition
        names = [encode_path_bytes(file.name) for file in find_ambiguous_files(snapshot)]
        self._ambiguous_names = pa.array(names, pa.binary())

    def read(self, adds: RecordBatch) -> LivePart | None:
        if self._ids is not None:
            self._ids.append(select_row_id_columns(adds))
        if self._condition is not None:
            adds = pc.filter(adds, self._condition(adds))
        if not adds.num_rows:
            return None
        vectors, provider = adds.column("deletionVector"), adds.column("clusteringProvider")
        deleted = pc.cast(pc.struct_field(vectors, ["cardinality"]), pa.int64())
        deleted = pc.if_else(pc.is_valid(vectors), deleted, pa.scalar(0, pa.int64()))
        keys = hash_file_actions(adds)
        return LivePart(
            pc.fill_null(adds.column("size"), 0),
            _packed_sizes(adds),
            extract_num_records_column(adds.column("stats")),
            deleted,
            pc.is_valid(vectors),
            self._outside(adds.column("path")),
            pc.fill_null(pc.not_equal(provider, PROVIDER), False),
            keys,
            self.partitions(adds),
            [provider, *(_tag(adds.column("tags"), name) for name in ORDER_TAGS)],
            _path_keys(adds, keys) if self._has_vectors else None,
            self._snapshot.find_files_with_other_vectors(adds) if self._has_vectors else None,
            self._find_ambiguous(adds.column("path")),
        )

    @property
    def row_ids(self) -> pa.Table | None:
        """Return the row ids of all batches that were read."""
        return pa.Table.from_batches(self._ids) if self._ids else None

    def partitions(self, adds: RecordBatch) -> list[ArrowArray]:
        """Return columns that are equal for files of the same partition. Raises DataUnreadable (`partition.*`)."""
        return list(partition_keys(adds, self._config))

    def _find_ambiguous(self, paths: ArrowArray) -> ArrowArray | None:
        if not len(self._ambiguous_names):
            return None
        storage = self._snapshot.table.storage
        return pc.is_in(resolve_file_names(paths, (storage.uri, *storage.aliases)), value_set=self._ambiguous_names)

    def _outside(self, paths: ArrowArray) -> ArrowArray:
        absolute = pc.match_substring_regex(paths, r"^([A-Za-z][A-Za-z0-9+.-]*:)?/")
        inside = [place for place in pc.indices_nonzero(absolute).to_pylist() if self._is_inside(paths[place].as_py())]
        if not inside:
            return absolute
        return pc.and_not(absolute, pc.is_in(pa.array(range(len(paths)), pa.int64()), value_set=pa.array(inside)))

    def _is_inside(self, path: str) -> bool:
        return self._files.find_path_in_table(path) is not None or not self._files.is_refused(path)


def partition_keys(adds: RecordBatch, config: TableConfiguration) -> Iterator[ArrowArray]:
    """Yield columns that are equal for file actions of the same partition, whatever the spelling of their values.

    A timestamp without a zone is another value than one with a zone: which it is depends on the session of a reader.
    So is an empty text than null, because some readers see it as a text. Values of a type that is not read are equal
    where their texts are.
    """
    names = list(config.partition_columns)
    unread = {
        name
        for name, column in config.partition_columns.items()
        if column is not None and find_unsupported_type(column.data_type)
    }
    values = parse_partition_columns(adds, config, [name for name in names if name not in unread])
    for name in names:
        column = config.partition_columns[name]
        type_name = column.data_type.name if column and isinstance(column.data_type, PrimitiveType) else ""
        is_timestamp, texts = type_name == "timestamp", None
        if is_timestamp or is_text(type_name) or name in unread:
            texts = _lookup(with_spelled_keys(adds.column("partitionValues"), names), name)
        yield texts if name in unread else values[name]
        if is_timestamp or is_text(type_name):
            yield pc.fill_null(pc.match_substring_regex(texts, _ZONE) if is_timestamp else pc.equal(texts, ""), False)


def _path_keys(adds: RecordBatch, keys: ArrowArray) -> ArrowArray:
    """Return a number for the path of each file: the first half of its key, where that has no vector."""
    flat = pa.Array.from_buffers(pa.int64(), 2 * len(keys), [None, keys.buffers()[1]], offset=2 * keys.offset)
    found = pc.list_element(pa.FixedSizeListArray.from_arrays(flat, 2), 0)
    has_vector = pc.is_valid(adds.column("deletionVector"))
    if not pc.any(has_vector).as_py():
        return found
    return pc.replace_with_mask(
        found, has_vector, hash_narrow_adds(pc.filter(adds, has_vector), None, with_vectors=False)
    )


def _lookup(maps: ArrowArray, key: str) -> ArrowArray:
    return pc.map_lookup(maps, query_key=pa.scalar(key), occurrence="first")


def _tag(tags: ArrowArray, name: str) -> ArrowArray:
    return pa.nulls(len(tags), pa.string()) if tags.null_count == len(tags) else _lookup(tags, name)


def _packed_sizes(adds: RecordBatch) -> ArrowArray:
    """Return the size of each file, or the bytes that it was written from, if they were more."""
    sizes, texts = pc.fill_null(adds.column("size"), 0), _tag(adds.column("tags"), PACKED_TAG)
    if texts.null_count == len(texts):
        return sizes
    is_number = pc.fill_null(pc.match_substring_regex(texts, "^[0-9]{1,18}$"), False)
    written_from = pc.cast(pc.if_else(is_number, texts, "0"), pa.int64())
    return pc.if_else(pc.greater(written_from, sizes), written_from, sizes)


def join_parts(parts: Sequence[LivePart]) -> LiveFiles:
    """Return the files of all parts."""
    if not parts:
        kinds = (pa.int64(), pa.int64(), pa.int64(), pa.int64(), pa.bool_(), pa.int32(), pa.bool_(), pa.bool_())
        empty = [pa.array([], kind) for kind in kinds]
        tags = dict.fromkeys(ORDER_TAGS, pa.array([], pa.string()))
        return LiveFiles(FilesAtHand(*empty), pa.array([], pa.binary(16)), pa.array([], pa.int32()), tags, 0, {})
    columns = [pa.concat_arrays([part[place] for part in parts]) for place in range(8)]
    sizes, packed, rows, deleted, has_vector, outside, foreign, keys = columns
    named = pa.repeat(pa.scalar(False), len(sizes))
    by_partition = codes(_transposed([part.partitions for part in parts]), len(sizes))
    by_order = _transposed([part.order for part in parts])
    groups = codes([by_partition, *(column for column in by_order if column.null_count < len(column))], len(sizes))
    excluded = {OUTSIDE: outside, FOREIGN_CLUSTERING: pc.and_not(foreign, outside)}
    counts = {reason: int(pc.sum(mask).as_py() or 0) for reason, mask in excluded.items()}
    return LiveFiles(
        FilesAtHand(sizes, packed, rows, deleted, has_vector, groups, pc.or_(outside, foreign), named),
        keys,
        by_partition,
        dict(zip(ORDER_TAGS, by_order[1:], strict=True)),
        len(pc.unique(by_partition)),
        {reason: count for reason, count in counts.items() if count},
        _doubted(parts),
    )


def _doubted(parts: Sequence[LivePart]) -> dict[int, str]:
    """Return the places of files that engines may read twice or not at all, and the rule that each breaks.

    Their path is live twice, they were removed with another vector, or the log has several spellings of their path.
    """
    found: dict[int, str] = {}
    begin = 0
    for part in parts:
        for mask, rule in ((part.is_removed, REMOVED_WITH_OTHER_VECTOR), (part.is_ambiguous, SEVERAL_SPELLINGS)):
            if mask is not None:
                found |= {begin + place: rule for place in pc.indices_nonzero(mask).to_pylist()}
        begin += len(part.sizes)

    keys = [part.paths for part in parts if part.paths is not None]
    if not keys:
        return found
    paths = pa.concat_arrays(keys)
    twice = find_repeated_hashes(paths)
    if len(twice):
        places = pc.indices_nonzero(pc.is_in(paths, value_set=twice)).to_pylist()
        found |= dict.fromkeys(places, ADDED_TWICE)
    return found


def _transposed(parts: Sequence[Sequence[ArrowArray]]) -> list[ArrowArray]:
    return [pa.concat_arrays(column) for column in zip(*parts, strict=True)]
