"""File actions in columns: the narrow ones that counting and digests need, and whole adds and removes. Spec: Add File and Remove File."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from deltacli.delta.commit_lines import Action
from deltacli.delta.deletion_vector import unique_id
from deltacli.delta.stats import num_records_column
from deltacli.errors import CommitCorrupt

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, slots=True)
class ActionSchemas:
    """The Arrow schemas of file actions.

    `narrow_add`: path, dv_id, size, num_records, dv_cardinality (null without a vector). `narrow_remove`: path, dv_id, deletion_timestamp.
    `add`, `remove`: the action's own fields, as in the checkpoint schema. Sizes are bytes, times epoch milliseconds.
    """

    narrow_add: pyarrow.Schema
    narrow_remove: pyarrow.Schema
    add: pyarrow.Schema
    remove: pyarrow.Schema


@lru_cache(maxsize=1)
def action_schemas() -> ActionSchemas:
    """Build the schemas once; pyarrow is imported here and not before."""
    import pyarrow as pa

    text, whole = pa.string(), pa.int64()
    strings = pa.map_(text, text)
    vector = pa.struct(
        [
            ("storageType", text),
            ("pathOrInlineDv", text),
            ("offset", pa.int32()),
            ("sizeInBytes", pa.int32()),
            ("cardinality", whole),
        ]
    )
    row_ids = [("baseRowId", whole), ("defaultRowCommitVersion", whole)]
    return ActionSchemas(
        narrow_add=pa.schema(
            [("path", text), ("dv_id", text), ("size", whole), ("num_records", whole), ("dv_cardinality", whole)]
        ),
        narrow_remove=pa.schema([("path", text), ("dv_id", text), ("deletion_timestamp", whole)]),
        add=pa.schema(
            [
                ("path", text),
                ("partitionValues", strings),
                ("size", whole),
                ("modificationTime", whole),
                ("dataChange", pa.bool_()),
            ]
            + [("stats", text), ("tags", strings), ("deletionVector", vector), *row_ids, ("clusteringProvider", text)]
        ),
        remove=pa.schema(
            [
                ("path", text),
                ("deletionTimestamp", whole),
                ("dataChange", pa.bool_()),
                ("extendedFileMetadata", pa.bool_()),
            ]
            + [
                ("partitionValues", strings),
                ("size", whole),
                ("stats", text),
                ("tags", strings),
                ("deletionVector", vector),
                *row_ids,
            ]
        ),
    )


def narrow_adds(adds: Sequence[Action], source: str) -> pyarrow.RecordBatch:
    """Add actions as found -> one batch of `narrow_add`. Raises CommitCorrupt where path or size is missing or no such value."""
    import pyarrow as pa

    schema = action_schemas().narrow_add
    stats = _text_column([add.get("stats") for add in adds], "add.stats", source)
    vectors = [add.get("deletionVector") for add in adds]
    columns = [
        _path_column(adds, "add", source),
        pa.array([unique_id(vector) for vector in vectors], pa.string()),
        _whole_column([add.get("size") for add in adds], "add.size", source),
        num_records_column(stats),
        _whole_column(
            [vector.get("cardinality") if vector else None for vector in vectors], "deletionVector.cardinality", source
        ),
    ]
    if columns[2].null_count:
        raise _missing("add.size", source)
    if columns[4].null_count != sum(1 for vector in vectors if not vector):
        raise _missing("add.deletionVector.cardinality", source)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def narrow_removes(removes: Sequence[Action], source: str) -> pyarrow.RecordBatch:
    """Remove actions as found -> one batch of `narrow_remove`. Raises CommitCorrupt."""
    import pyarrow as pa

    columns = [
        _path_column(removes, "remove", source),
        pa.array([unique_id(remove.get("deletionVector")) for remove in removes], pa.string()),
        _whole_column([remove.get("deletionTimestamp") for remove in removes], "remove.deletionTimestamp", source),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=action_schemas().narrow_remove)


def whole_actions(actions: Sequence[Action], schema: pyarrow.Schema, source: str) -> pyarrow.RecordBatch:
    """Actions as found -> one batch of `add` or `remove`; fields the schema does not name are left out. Raises CommitCorrupt."""
    import pyarrow as pa

    columns = []
    for field in schema:
        values: list[Any] = [action.get(field.name) for action in actions]  # Any: JSON values
        if pa.types.is_map(field.type):
            values = [list(value.items()) if isinstance(value, dict) else None for value in values]
        try:
            columns.append(pa.array(values, field.type))
        except (pa.ArrowException, UnicodeEncodeError, OverflowError) as fault:
            raise _wrong_type(field.name, source, fault) from fault
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _path_column(actions: Sequence[Action], kind: str, source: str) -> pyarrow.Array:
    column = _text_column([action.get("path") for action in actions], f"{kind}.path", source)
    if column.null_count:
        raise _missing(f"{kind}.path", source)
    return column


def _text_column(values: Sequence[object], what: str, source: str) -> pyarrow.Array:
    import pyarrow as pa

    try:
        return pa.array(values, pa.string())
    except (pa.ArrowException, UnicodeEncodeError) as fault:
        raise _wrong_type(what, source, fault) from fault


def _whole_column(values: Sequence[object], what: str, source: str) -> pyarrow.Array:
    import pyarrow as pa

    odd = next((value for value in values if value is not None and type(value) is not int), None)
    try:
        if odd is not None:
            raise OverflowError(f"found {odd!r}, expected an integer of 64 bits")  # orjson reads larger ones as floats
        return pa.array(values, pa.int64())
    except (pa.ArrowException, OverflowError) as fault:
        raise _wrong_type(what, source, fault) from fault


def _missing(what: str, source: str) -> CommitCorrupt:
    return CommitCorrupt(
        f"{source}: {what} is missing", code="action.missing-required", hint="deltacli history {table}"
    )


def _wrong_type(what: str, source: str, fault: Exception) -> CommitCorrupt:
    return CommitCorrupt(
        f"{source}: {what} has the wrong type",
        code="action.wrong-type",
        facts={"found": str(fault)[:120]},
        hint="deltacli history {table}",
    )
