"""Read the file actions of a large commit with all their fields, in columns, one block at a time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from deltacli.arrow import compute as pc
from deltacli.delta.encoding.ndjson import parse_ndjson
from deltacli.delta.log.commit_lines import stream_actions
from deltacli.delta.log.file_actions import FileBatch, action_schemas, whole_actions
from deltacli.delta.log.replay import TouchedFiles
from deltacli.delta.vectors.descriptor import unique_id_column
from deltacli.storage import Storage
from deltacli.typing import ArrowArray, ArrowSchema
from deltacli.work.commits.blocks import CommitBlock, read_lines

if TYPE_CHECKING:
    import pyarrow

_KINDS = ("add", "remove")


def read_whole_block(
    storage: Storage, block: CommitBlock, touched: TouchedFiles, partitions: tuple[str, ...]
) -> FileBatch:
    """Return the adds and removes of a block whose keys are not decided by newer commits.

    `partitions` are the expected keys of partition values. If a key occurs twice in the commit, both actions are
    returned. Raises CommitCorrupt.
    """
    lines = read_lines(storage, block)
    if not lines or lines.isspace():
        return FileBatch()
    batch = _parse(lines, partitions)
    if batch is None:
        batch = _line_by_line(lines, block.file.name)
    kept = [None if rows is None else _untouched(rows, touched) for rows in (batch.adds, batch.removes)]
    return FileBatch(*kept)


def _line_by_line(lines: bytes, name: str) -> FileBatch:
    schemas = action_schemas()
    actions = list(stream_actions(lines.split(b"\n"), name))
    adds = [action for kind, action in actions if kind == "add"]
    removes = [action for kind, action in actions if kind == "remove"]
    return FileBatch(
        whole_actions(adds, schemas.add, name) if adds else None,
        whole_actions(removes, schemas.remove, name) if removes else None,
    )


def _untouched(rows: pyarrow.RecordBatch, touched: TouchedFiles) -> pyarrow.RecordBatch | None:
    mask = touched.untouched(rows.column("path"), unique_id_column(rows.column("deletionVector")))
    kept = rows if mask is None else pc.filter(rows, mask)
    return kept if kept.num_rows else None


@lru_cache(maxsize=8)
def _block_schema(partitions: tuple[str, ...]) -> ArrowSchema:
    """Return the schema with which Arrow parses a line.

    It has no maps: partition values are read as a struct, and tags are not read this way.
    """
    import pyarrow as pa

    schemas = action_schemas()
    values = pa.struct([pa.field(name, pa.string()) for name in partitions])
    fields = []
    for kind, schema in zip(_KINDS, (schemas.add, schemas.remove), strict=True):
        own = [
            field.with_type(values) if field.name == "partitionValues" else field
            for field in schema
            if field.name != "tags"
        ]
        fields.append(pa.field(kind, pa.struct(own)))
    return pa.schema(fields)


def _parse(lines: bytes, partitions: tuple[str, ...]) -> FileBatch | None:
    """Parse a block with Arrow; None if it is not simple enough for that."""
    table = parse_ndjson(lines, _block_schema(partitions), infer=True)
    if table is None or not {*_KINDS}.issuperset(_structs(table)):
        return None
    schemas = action_schemas()
    tables = [_rows(table, kind, schema) for kind, schema in (("add", schemas.add), ("remove", schemas.remove))]
    return None if _ODD in tables else FileBatch(*tables)


def _structs(table: pyarrow.Table) -> Sequence[str]:
    """Return the kinds of action that share a line with a file action. A valid line contains one action."""
    others = [name for name in table.column_names if name not in _KINDS]
    taken = pc.or_(pc.is_valid(table.column("add")), pc.is_valid(table.column("remove")))
    odd = [name for name in others if pc.any(pc.and_(taken, pc.is_valid(table.column(name)))).as_py()]
    both = pc.any(pc.and_(pc.is_valid(table.column("add")), pc.is_valid(table.column("remove")))).as_py()
    return [*odd, *(["both"] if both else [])]


_ODD: Any = object()


def _rows(table: pyarrow.Table, kind: str, schema: pyarrow.Schema) -> Any:  # Any: rows, None, or _ODD
    import pyarrow as pa

    column = table.column(kind).combine_chunks()
    actions = pc.filter(column, pc.is_valid(column)) if column.null_count else column
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
            values = _as_maps(values, field.type)
        elif not values.type.equals(field.type):
            return _ODD  # an unrecognized field inside a known one
        if values is None:
            return _ODD
        columns.append(values)
    rows = pa.RecordBatch.from_arrays(columns, schema=schema)
    if rows.column("path").null_count or (kind == "add" and rows.column("size").null_count):
        return _ODD
    return _ODD if _has_odd_vectors(rows.column("deletionVector")) else rows


def _has_odd_vectors(vectors: Any) -> bool:
    if vectors.null_count == len(vectors):
        return False
    needed = ("storageType", "pathOrInlineDv", "cardinality")
    return any(pc.struct_field(vectors, [name]).null_count != vectors.null_count for name in needed)


def _as_maps(values: Any, kind: Any) -> Any:  # Any: a struct array; a map type; a map array or None
    """Convert structs to maps if every row has every key and no other; otherwise None.

    Only then does a null mean a null value and not a missing key.
    """
    import pyarrow as pa

    names = [field.name for field in values.type]
    rows, width = len(values), len(names)
    if values.null_count:
        return None
    columns = [values.field(name) for name in names]
    if any(not pa.types.is_string(column.type) or column.null_count for column in columns):
        return None
    offsets = pc.multiply(_count(rows + 1), pa.scalar(width, pa.int32()))
    if width == 0:
        return pa.MapArray.from_arrays(offsets, pa.nulls(0, pa.string()), pa.nulls(0, pa.string()), type=kind)
    if width == 1:
        keys, items = pa.repeat(names[0], rows), columns[0]
    else:
        entries = _count(rows * width)
        row = pc.divide(entries, width)
        column = pc.subtract(entries, pc.multiply(row, width))
        items = pc.take(pa.concat_arrays(columns), pc.add(pc.multiply(column, rows), row))
        keys = pc.take(pa.array(names, pa.string()), column)
    return pa.MapArray.from_arrays(offsets, keys, items, type=kind)


def _count(numbers: int) -> ArrowArray:
    """Return 0, 1, 2, …."""
    import pyarrow as pa

    return pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int32()), numbers)), pa.scalar(1, pa.int32()))
