"""File actions in columns: the narrow ones that counting and digests need, and whole adds and removes.

Spec: Add File and Remove File.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.core.errors import CommitCorrupt
from deltacli.core.typing import ArrowArray, ArrowField, Json
from deltacli.delta.log.action_fields import arrow_schema, missing, shown, wrong_type
from deltacli.delta.log.commit_lines import Action
from deltacli.delta.stats.record_counts import num_records_column, tight_column
from deltacli.delta.vectors import fault_of, unique_id

if TYPE_CHECKING:
    import pyarrow


class FileBatch(NamedTuple):
    """Live adds and tombstones, each None if the batch has none. Both have narrow columns, or both have all fields."""

    adds: pyarrow.RecordBatch | None = None
    removes: pyarrow.RecordBatch | None = None


class ActionSchemas(NamedTuple):
    """The Arrow schemas of file actions.

    `narrow_add`: path, dv_id, size, num_records, dv_cardinality (null without a vector),
    is_tight (see `tight_column`). `narrow_remove`: path,
    dv_id, deletion_timestamp. `add`, `remove`: the action's own fields, as in the checkpoint schema. Sizes are bytes,
    times epoch milliseconds.
    """

    narrow_add: pyarrow.Schema
    narrow_remove: pyarrow.Schema
    add: pyarrow.Schema
    remove: pyarrow.Schema


@lru_cache(maxsize=1)
def action_schemas() -> ActionSchemas:
    """Return the schemas, built once. pyarrow is imported only here."""
    import pyarrow as pa

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
        add=arrow_schema("add"),
        remove=arrow_schema("remove"),
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

    def take(self, adds: Iterable[Action], removes: Iterable[Action]) -> None:
        """Append actions."""
        paths, dv_ids, sizes, stats, cardinalities = self._adds
        for add in adds:
            vector = add.get("deletionVector")
            if vector is not None and (fault := fault_of(vector)):
                vector = {"cardinality": fault.text}  # not an integer: reported by `batches`
            paths.append(add.get("path"))
            dv_ids.append(unique_id(vector) if vector else "")
            sizes.append(add.get("size", _ABSENT))
            stats.append(add.get("stats"))
            cardinalities.append(vector.get("cardinality", _ABSENT) if vector else None)
        paths, dv_ids, timestamps = self._removes
        for remove in removes:
            paths.append(remove.get("path"))
            vector = remove.get("deletionVector")
            dv_ids.append(_ABSENT if vector is not None and fault_of(vector) else unique_id(vector))
            timestamps.append(remove.get("deletionTimestamp"))

    def part(self, first: tuple[int, int], last: tuple[int, int]) -> NarrowRows:
        """Return the rows added between two positions."""
        narrow_rows = NarrowRows()
        narrow_rows._adds = tuple(column[first[0] : last[0]] for column in self._adds)
        narrow_rows._removes = tuple(column[first[1] : last[1]] for column in self._removes)
        return narrow_rows

    def batches(self, source: str) -> tuple[pyarrow.RecordBatch, pyarrow.RecordBatch]:
        """Return one batch of `narrow_add` and one of `narrow_remove`.

        Raises CommitCorrupt, naming `source`, if a path, a size or a vector's cardinality is missing or a value has the
        wrong type.
        """
        import pyarrow as pa

        paths, dv_ids, sizes, stats, cardinalities = self._adds
        texts = _text_column(stats, "add.stats", source)
        cardinality = _whole_column(cardinalities, "add.deletionVector.cardinality", source)
        adds = [
            _path_column(paths, "add", source),
            _text_column(dv_ids, "add.deletionVector", source),
            _whole_column(sizes, "add.size", source),
            num_records_column(texts),
            cardinality,
            tight_column(texts, cardinality),
        ]
        if adds[2].null_count:
            raise missing("add.size", source)
        paths, dv_ids, timestamps = self._removes
        removes = [
            _path_column(paths, "remove", source),
            _text_column(dv_ids, "remove.deletionVector", source),
            _whole_column(timestamps, "remove.deletionTimestamp", source),
        ]
        schemas = action_schemas()
        return (
            pa.RecordBatch.from_arrays(adds, schema=schemas.narrow_add),
            pa.RecordBatch.from_arrays(removes, schema=schemas.narrow_remove),
        )


SMALL_FILE_BYTES = 16 << 20
"""Size in bytes below which opening a data file takes longer than reading it."""

_ABSENT = object()


def narrow_batches(
    adds: Iterable[Action], removes: Iterable[Action], source: str
) -> tuple[pyarrow.RecordBatch, pyarrow.RecordBatch]:
    """Actions as found -> (batch of `narrow_add`, batch of `narrow_remove`).

    Raises CommitCorrupt like `NarrowRows.batches`.
    """
    rows = NarrowRows()
    rows.take(adds, removes)
    return rows.batches(source)


def whole_actions(actions: Sequence[Action], schema: pyarrow.Schema, source: str) -> pyarrow.RecordBatch:
    """Actions as found -> one batch of `add` or `remove`; fields the schema does not name are left out.

    Raises CommitCorrupt.
    """
    import pyarrow as pa

    columns = []
    names: set[str] = set().union(*actions)
    for field in schema:
        if field.name not in names:
            columns.append(pa.nulls(len(actions), field.type))
            continue
        values: list[Json] = [action.get(field.name) for action in actions]
        if pa.types.is_map(field.type):
            values = [list(value.items()) if isinstance(value, dict) else None for value in values]
        columns.append(whole_column(values, field, source))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def whole_column(values: Sequence[object], field: ArrowField, source: str) -> ArrowArray:
    """Return values of the log as a column. Raises CommitCorrupt (`action.wrong-type`) for one that it cannot hold."""
    import pyarrow as pa

    try:
        return pa.array(values, field.type)
    except MemoryError:
        raise
    except (pa.ArrowException, UnicodeEncodeError, OverflowError) as fault:
        raise wrong_type(field.name, str(fault), source) from fault


def whole_actions_leniently(actions: Sequence[Action], schema: pyarrow.Schema) -> pyarrow.RecordBatch:
    """Return `whole_actions` for actions that were checked before. Values that do not fit the columns are left out, so
    that the rest can be compared. Halves of surrogate pairs become question marks, values of a wrong type null.
    """
    try:
        return whole_actions(actions, schema, "")
    except CommitCorrupt:
        return whole_actions([_plain(action, schema) for action in actions], schema, "")


def _plain(action: Action, schema: pyarrow.Schema) -> Action:
    """Return an action without the fields that its columns do not have."""
    plain: Action = {}
    for name in schema.names:
        value = _plain_value(action.get(name))
        try:
            whole_actions([{name: value}], schema, "")
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


def _path_column(paths: Sequence[object], kind: str, source: str) -> pyarrow.Array:
    column = _text_column(paths, f"{kind}.path", source)
    if column.null_count:
        raise missing(f"{kind}.path", source)
    return column


def _text_column(values: Sequence[object], what: str, source: str) -> pyarrow.Array:
    import pyarrow as pa

    try:
        return pa.array(values, pa.string())
    except MemoryError:
        raise
    except (pa.ArrowException, UnicodeEncodeError, TypeError) as fault:
        raise wrong_type(what, str(fault), source) from fault


def _whole_column(values: Sequence[object], what: str, source: str) -> pyarrow.Array:
    import pyarrow as pa

    odd = next((value for value in values if value is not None and type(value) is not int), None)
    if odd is _ABSENT:
        raise missing(what, source)
    try:
        if odd is not None:
            raise OverflowError(f"{shown(odd)}, expected an integer of 64 bits")  # orjson reads larger ones as floats
        return pa.array(values, pa.int64())
    except MemoryError:
        raise
    except (pa.ArrowException, OverflowError) as fault:
        raise wrong_type(what, str(fault), source) from fault
