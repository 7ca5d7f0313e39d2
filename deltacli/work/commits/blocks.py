"""Read a large commit in columns: blocks of lines, parsed by Arrow, several in parallel."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import ArrowArray, ArrowSchema, RecordBatch
from deltacli.delta.data_files import FEW_FILES, repeat_empty_vector_id, unique_id_column
from deltacli.delta.encoding.many_values import hash_column
from deltacli.delta.encoding.ndjson import is_utf8, matches, parse_ndjson
from deltacli.delta.log.actions import KNOWN_ACTIONS, MAX_LINE_BYTES, Action, line_too_long, stream_actions
from deltacli.delta.log.file_actions import (
    FileBatch,
    SupersededFiles,
    action_schemas,
    build_full_batch,
    build_narrow_batches,
    compute_file_key,
    compute_file_keys,
    extract_num_records_column,
    find_tight_bounds,
)
from deltacli.delta.log.segment import LogFile
from deltacli.storage import ReadStorage
from deltacli.work.commits.reading import commit_location, require_listed_size

BLOCK_BYTES = 4 << 20
_TAIL_BYTES = 64 << 10
_SMALL_KINDS = sorted(KNOWN_ACTIONS - {"add", "remove"})
_FILE_KINDS = ("add", "remove")


class CommitBlock(NamedTuple):
    """The lines of a commit that begin within `length` bytes from `offset`."""

    file: LogFile
    offset: int
    length: int


class NarrowBlock(NamedTuple):
    """A block in narrow columns, without keys decided by newer commits; the hashes of its keys; its small actions.

    `disputed_rules` are the rules of `validate` for lines that engines read differently.
    """

    adds: pa.RecordBatch
    removes: pa.RecordBatch
    hashes: list[ArrowArray]
    small: list[tuple[str, Action]]
    disputed_rules: frozenset[str] = frozenset()


def plan_blocks(file: LogFile) -> list[CommitBlock]:
    return [CommitBlock(file, offset, BLOCK_BYTES) for offset in range(0, file.size_bytes, BLOCK_BYTES)]


def read_lines(storage: ReadStorage, block: CommitBlock) -> bytes:
    """Return the whole lines that begin in a block. The last line is read to its end, even beyond the block.

    Raises CommitCorrupt (`commit.line-too-long`) before a line above the limit is held in memory.
    """
    path = commit_location(block.file)
    size = block.file.size_bytes

    begin = max(block.offset - 1, 0)  # the byte before the block shows whether the block begins with a new line
    searched_bytes = block.offset - begin + block.length
    data = storage.read_range(path, begin, searched_bytes + _TAIL_BYTES)
    require_listed_size(block.file, len(data), min(searched_bytes + _TAIL_BYTES, size - begin))
    start = data.find(b"\n", 0, searched_bytes) + 1 if block.offset else 0
    if (block.offset and start == 0) or start == searched_bytes:
        return b""

    # The last line that begins in the block ends at the first line end after it.
    stop = data.find(b"\n", min(searched_bytes, len(data)) - 1) + 1
    end = begin + len(data)
    if stop or end == size:
        return data[start : stop or len(data)]
    last_line = begin + data.rfind(b"\n") + 1
    parts = [memoryview(data)[start:]]
    # The last line goes on beyond the tail: read until its end.
    while end < size and not stop:
        more = storage.read_range(path, end, _TAIL_BYTES)
        require_listed_size(block.file, len(more), 1)
        stop = more.find(b"\n") + 1
        parts.append(memoryview(more)[: stop or len(more)])
        end += len(parts[-1])
        if end - last_line > MAX_LINE_BYTES:
            raise line_too_long(block.file.name)
    return b"".join(parts)


def read_narrow_block(storage: ReadStorage, block: CommitBlock, touched: SupersededFiles) -> NarrowBlock:
    """Read a block in columns, or line by line. Raises CommitCorrupt with the line number in the block."""
    lines = read_lines(storage, block)
    name = block.file.name
    small: list[tuple[str, Action]] = []
    disputed_rules = set[str]()

    # The three ways to parse a block, from the fastest and strictest to the one that reads whatever is an action.
    if (adds := parse_uniform_adds(lines)) is not None:
        rows = adds, build_narrow_batches([], [], name)[1]
    elif (parsed := _parse_narrow(lines)) is not None:
        rows = _build_narrow_rows(*parsed[:2])
        if parsed[2]:
            others = (line for line in lines.split(b"\n") if not line.startswith((b'{"add":{', b'{"remove":{')))
            small = [
                placed_action for placed_action in stream_actions(others, name) if placed_action[0] not in _FILE_KINDS
            ]
    else:
        actions = list(stream_actions(lines.split(b"\n"), name, disputed_rules=disputed_rules))
        for kind, action in actions:
            if kind in _FILE_KINDS:
                compute_file_key(action, name)  # raises if the action has no key
        small = [placed_action for placed_action in actions if placed_action[0] not in _FILE_KINDS]
        rows = build_narrow_batches(*_divide_file_actions(actions), name)
    untouched_rows = [_filter_untouched(batch, "dv_id", touched) for batch in rows]
    return NarrowBlock(
        untouched_rows[0], untouched_rows[1], [*map(hash_keys, untouched_rows)], small, frozenset(disputed_rules)
    )


def _divide_file_actions(actions: list[tuple[str, Action]]) -> tuple[list[Action], list[Action]]:
    adds, removes = ([action for kind, action in actions if kind == wanted_kind] for wanted_kind in _FILE_KINDS)
    return adds, removes


def _filter_untouched(rows: RecordBatch, vectors: str, touched: SupersededFiles) -> RecordBatch:
    mask = touched.find_current_rows(rows.column("path"), rows.column(vectors))
    return rows if mask is None else pc.filter(rows, mask)


_TOKEN = re.compile(
    rb'(?P<key>"[^"\\]*+")(?=[ \t]*+:)|(?P<value>"(?:[^"\\]|\\.)*+"|-?[0-9][0-9.eE+-]*+|true|false|null)|(?P<brace>{|})'
)
_TEXT = rb'"[^"\\\x00-\x1f]*"'
_COUNT = rb"(?:0|[1-9][0-9]{0,17})"
_STATS = rb'"\{\\"numRecords\\":' + _COUNT + rb'(?:,(?:[^"\\\x00-\x1f]|\\["\\/bfnrt])*)?\}"'
_REST_OF_STATS = rb'[^}]*+(?:\}(?!")[^}]*+)*+\}"'
_TAKEN = {
    b'"path"': (_TEXT, rb'"([^"]*+)"'),
    b'"size"': (_COUNT, rb"([0-9]++)"),
    b'"stats"': (_STATS, rb"[^:]*+:([0-9]++)" + _REST_OF_STATS),
}
"""Fields of an add -> the pattern of their plain values, and the one that takes from a plain value what is read."""
_OTHER = rb"(?:" + _TEXT + rb"|-?" + _COUNT + rb"|true|false|null)", rb'(?:"[^"]*+"|[\w-]*+)'
_FIELDS = {name.decode().strip('"') for name in _TAKEN}
_FIELDS_DEPTH = 2


def parse_uniform_adds(lines: bytes) -> RecordBatch | None:
    """Return `narrow_add` of whole lines if all are adds like the first one: the same fields in the same order and
    spelling, no vector, and escapes in the statistics alone. None for any other lines. Arrow's JSON reader takes half
    as much time again.
    """
    shape = _build_line_patterns(lines[: lines.find(b"\n")]) if is_utf8(lines) else None
    if shape is None or not matches(lines, shape[0]):
        return None
    texts = re.split(shape[1], lines)
    path, size, records = (pa.array(texts[1 + shape[2].index(name) :: 4], pa.string()) for name in _TAKEN)
    none = _no_cardinalities(max(FEW_FILES, len(path))).slice(0, len(path))
    wide = pa.repeat(False, len(path))
    columns = [
        path,
        repeat_empty_vector_id(len(path)),
        pc.cast(size, pa.int64()),
        pc.cast(records, pa.int64()),
        none,
        wide,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=action_schemas().narrow_add)


@lru_cache(maxsize=1)
def _no_cardinalities(files: int) -> Any:  # Any: pyarrow has no types
    return pa.nulls(files, pa.int64())


def _build_line_patterns(line: bytes) -> tuple[bytes, bytes, list[bytes]] | None:
    """Return the pattern of all lines like this add, the one that takes fields from one of them, and their order."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    add = value.get("add") if type(value) is dict and len(value) == 1 else None
    if type(add) is not dict or not add.keys() >= _FIELDS or add.get("deletionVector") is not None:
        return None  # of several adds on a line, the last one counts
    plain = [rb"\A(?:"]
    taking = list[bytes]()
    names = list[bytes]()
    end = 0
    depth = 0
    last = 0
    key = b""
    for token in _TOKEN.finditer(line):
        if token.lastgroup == "brace":
            depth += 1 if token[0] == b"{" else -1
        elif token.lastgroup == "key":
            key = token[0]
        elif depth != _FIELDS_DEPTH or key != b'"deletionVector"':
            is_taken = depth == _FIELDS_DEPTH and key in _TAKEN
            values = _TAKEN[key] if is_taken else _OTHER
            plain += re.escape(line[end : token.start()]), values[0]
            taking += rb"(?s:.{%d})" % (token.start() - end), values[1]
            end = token.end()
            if is_taken:
                names.append(key)
                last = len(taking)
    if sorted(names) != [*_TAKEN]:
        return None
    taking_pattern = b"".join(taking[:last]).removesuffix(_REST_OF_STATS) + rb"[^\n]*+\n"
    return b"".join([*plain, re.escape(line[end:]), rb"\n)*\z"]), taking_pattern, names


@lru_cache(maxsize=1)
def _get_narrow_schema() -> Any:  # Any: pyarrow has no types
    vector = pa.struct(
        [
            ("storageType", pa.string()),
            ("pathOrInlineDv", pa.string()),
            ("offset", pa.int64()),
            ("cardinality", pa.int64()),
        ]
    )
    add = pa.struct([("path", pa.string()), ("size", pa.int64()), ("stats", pa.string()), ("deletionVector", vector)])
    remove = pa.struct([("path", pa.string()), ("deletionTimestamp", pa.int64()), ("deletionVector", vector)])
    return pa.schema([("add", add), ("remove", remove), *((kind, pa.struct([])) for kind in _SMALL_KINDS)])


def _parse_narrow(lines: bytes) -> tuple[ArrowArray, ArrowArray, bool] | None:
    """Parse a block with Arrow and return (adds, removes, whether other lines exist); None if it is not simple."""

    table = parse_ndjson(lines, _get_narrow_schema())
    if table is None:
        return None

    # Whatever this parser and the one of single actions may read differently is left to the latter.
    adds, removes = (_select_valid_structs(table, kind) for kind in ("add", "remove"))
    if any(
        actions.field("path").null_count or _has_odd_vectors(actions.field("deletionVector"))
        for actions in (adds, removes)
    ):
        return None
    if adds.field("size").null_count:
        return None
    is_add, is_remove = (pc.is_valid(table.column(kind)) for kind in _FILE_KINDS)
    if len(adds) and len(removes) and pc.any(pc.and_(is_add, is_remove)).as_py():
        return None  # on one line, where only the add counts
    small = [table.column(kind) for kind in _SMALL_KINDS if table.column(kind).null_count < table.num_rows]
    if not small:
        return adds, removes, False
    is_file_action = pc.or_(is_add, is_remove)
    if any(pc.any(pc.and_(pc.is_valid(column), is_file_action)).as_py() for column in small):
        return None  # two actions on one line
    return adds, removes, True


def _select_valid_structs(table: Any, kind: str) -> Any:  # Any: pyarrow has no types
    column = table.column(kind).combine_chunks()
    return pc.filter(column, pc.is_valid(column)) if column.null_count else column


def _has_odd_vectors(vectors: ArrowArray) -> bool:
    """Return whether a deletion vector lacks a field required for its id or for counting."""
    if vectors.null_count == len(vectors):
        return False
    needed = ("storageType", "pathOrInlineDv", "cardinality")
    return any(pc.struct_field(vectors, [name]).null_count != vectors.null_count for name in needed)


def _build_narrow_rows(adds: Any, removes: Any) -> tuple[RecordBatch, RecordBatch]:  # Any: struct arrays
    schemas = action_schemas()
    stats = adds.field("stats")
    cardinality = adds.field("deletionVector").flatten()[3]
    (add_path, add_ids), (remove_path, remove_ids) = (
        (actions.field("path"), unique_id_column(actions.field("deletionVector"))) for actions in (adds, removes)
    )
    tight = find_tight_bounds(stats, cardinality)
    added = [add_path, add_ids, adds.field("size"), extract_num_records_column(stats), cardinality, tight]
    removed = [remove_path, remove_ids, removes.field("deletionTimestamp")]
    return (
        pa.RecordBatch.from_arrays(added, schema=schemas.narrow_add),
        pa.RecordBatch.from_arrays(removed, schema=schemas.narrow_remove),
    )


def hash_keys(rows: RecordBatch) -> ArrowArray:
    """Return a 64-bit hash of every row's key, equal for equal keys within this process."""
    return hash_column(compute_file_keys(rows.column("path"), rows.column("dv_id")))


def read_full_block(
    storage: ReadStorage, block: CommitBlock, touched: SupersededFiles, partitions: tuple[str, ...]
) -> FileBatch:
    """Return the adds and removes of a block whose keys are not decided by newer commits.

    `partitions` are the expected keys of partition values. If a key occurs twice in the commit, both actions are
    returned. Raises CommitCorrupt.
    """
    lines = read_lines(storage, block)
    name = block.file.name
    batch = _parse_full(lines, partitions)
    if batch is None:
        batch = build_full_batch(*_divide_file_actions(list(stream_actions(lines.split(b"\n"), name))), name)
    untouched_batches = (None if rows is None else _filter_untouched(rows, "deletionVector", touched) for rows in batch)
    return FileBatch(*(rows if rows is not None and rows.num_rows else None for rows in untouched_batches))


@lru_cache(maxsize=8)
def _get_full_schema(partitions: tuple[str, ...]) -> ArrowSchema:
    """Return the schema with which Arrow parses a line: partition values are a struct, and tags are not read."""
    schemas = action_schemas()
    values = pa.struct([pa.field(name, pa.string()) for name in partitions])
    fields = []
    for kind, schema in zip(_FILE_KINDS, (schemas.add, schemas.remove), strict=True):
        parsed_fields = [
            field.with_type(values) if field.name == "partitionValues" else field
            for field in schema
            if field.name != "tags"
        ]
        fields.append(pa.field(kind, pa.struct(parsed_fields)))
    return pa.schema(fields)


def _parse_full(lines: bytes, partitions: tuple[str, ...]) -> FileBatch | None:
    """Parse a block with Arrow; None if it is not simple enough for that."""
    table = parse_ndjson(lines, _get_full_schema(partitions), infer=True)
    if table is None or not {*_FILE_KINDS}.issuperset(_find_shared_lines(table)):
        return None
    schemas = action_schemas()
    tables = [
        _build_full_rows(table, kind, schema) for kind, schema in (("add", schemas.add), ("remove", schemas.remove))
    ]
    return None if _ODD in tables else FileBatch(*tables)


def _find_shared_lines(table: pa.Table) -> Sequence[str]:
    """Return the kinds of action that share a line with a file action. A valid line contains one action."""
    others = [name for name in table.column_names if name not in _FILE_KINDS]
    taken = pc.or_(pc.is_valid(table.column("add")), pc.is_valid(table.column("remove")))
    odd = [name for name in others if pc.any(pc.and_(taken, pc.is_valid(table.column(name)))).as_py()]
    both = pc.any(pc.and_(pc.is_valid(table.column("add")), pc.is_valid(table.column("remove")))).as_py()
    return [*odd, *(["both"] if both else [])]


_ODD: Any = object()


def _build_full_rows(table: pa.Table, kind: str, schema: pa.Schema) -> Any:  # Any: rows, None, or _ODD
    """Return the actions of one kind in a table of parsed lines, None without any, or `_ODD`.

    `_ODD` stands for a block that Arrow may not read as the Python reader does. It is read line by line instead.
    """
    actions = _select_valid_structs(table, kind)
    if len(actions) == 0:
        return None
    if actions.type.get_field_index("tags") >= 0:
        return _ODD
    columns = []
    for field in schema:
        if field.name == "tags":
            columns.append(pa.nulls(len(actions), field.type))
            continue
        values = actions.field(field.name)
        if field.name == "partitionValues":
            values = _convert_to_maps(values, field.type)
        elif not values.type.equals(field.type):
            return _ODD  # an unrecognized field inside a known one
        if values is None:
            return _ODD
        columns.append(values)
    rows = pa.RecordBatch.from_arrays(columns, schema=schema)
    if rows.column("path").null_count or (kind == "add" and rows.column("size").null_count):
        return _ODD
    return _ODD if _has_odd_vectors(rows.column("deletionVector")) else rows


def _convert_to_maps(values: Any, kind: Any) -> Any:  # Any: a struct array; a map type; a map array or None
    """Convert structs with every key in every row to maps, else None: only then a null is a null value, not a gap."""
    names = [field.name for field in values.type]
    rows = len(values)
    width = len(names)
    if values.null_count:
        return None
    columns = [values.field(name) for name in names]
    if any(not pa.types.is_string(column.type) or column.null_count for column in columns):
        return None
    offsets = pc.multiply(count_up_to(rows + 1), pa.scalar(width, pa.int32()))
    if width == 0:
        return pa.MapArray.from_arrays(offsets, pa.nulls(0, pa.string()), pa.nulls(0, pa.string()), type=kind)
    if width == 1:
        keys = pa.repeat(names[0], rows)
        items = columns[0]
    else:
        entries = count_up_to(rows * width)
        row = pc.divide(entries, width)
        column = pc.subtract(entries, pc.multiply(row, width))
        items = pc.take(pa.concat_arrays(columns), pc.add(pc.multiply(column, rows), row))
        keys = pc.take(pa.array(names, pa.string()), column)
    return pa.MapArray.from_arrays(offsets, keys, items, type=kind)


def count_up_to(numbers: int) -> ArrowArray:
    """Return 0, 1, 2, …."""
    return pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int32()), numbers)), pa.scalar(1, pa.int32()))
