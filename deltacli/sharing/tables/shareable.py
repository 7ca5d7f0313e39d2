"""What a table must fulfil before it is shared: files inside the table, and partition values that all clients read
alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.partitions.values import partition_columns, with_spelled_keys
from deltacli.delta.paths.locate_paths import locate, text_of
from deltacli.delta.vectors.z85 import vector_file
from deltacli.errors import DeltacliError, PathExternal

if TYPE_CHECKING:
    import pyarrow


def outside() -> PathExternal:
    """Return the fault of a table whose log names a file that is not below the table."""
    return PathExternal("the log names files outside the table, which are not shared")


def spelled_alike(actions: pyarrow.RecordBatch, config: TableConfiguration) -> pyarrow.RecordBatch:
    """Return file actions whose partition values have the names of the columns as the schema spells them: clients
    compare them exactly, and would take a value under another spelling for null.
    """
    names = list(config.partition_columns)
    place = actions.schema.get_field_index("partitionValues")
    if not names or place < 0 or not actions.num_rows:
        return actions
    maps = actions.column(place)
    spelled = with_spelled_keys(maps, names)
    return actions if spelled is maps else actions.set_column(place, actions.schema.field(place), spelled)


def find_fault(batches: Iterable[pyarrow.RecordBatch], config: TableConfiguration, uri: str) -> DeltacliError | None:
    """Return why file actions cannot be shared: a file or a vector outside the table, a missing or invalid partition
    value. None if they can.
    """
    try:
        for actions in batches:
            require_inside(actions, uri)
            partition_columns(actions, config, list(config.partition_columns))
    except DeltacliError as fault:
        return fault.with_traceback(None)
    return None


def require_inside(actions: pyarrow.RecordBatch, uri: str) -> None:
    """Raise PathExternal if a file or a deletion vector is outside the table."""
    if locate(actions.column("path"), uri).keys.null_count:
        raise outside()
    for descriptor in vectors_of(actions):
        if descriptor is not None and descriptor["storageType"] != "i":
            vector_place(descriptor, uri)


def vectors_of(actions: pyarrow.RecordBatch) -> list[dict[str, Any] | None]:  # Any: descriptors as found
    """Return the descriptor of each row; an empty list where no row has one."""
    place = actions.schema.get_field_index("deletionVector")
    column = None if place < 0 else actions.column(place)
    return [] if column is None or column.null_count == len(column) else column.to_pylist()


def vector_place(descriptor: dict[str, Any], uri: str) -> str:
    """Return the path of the file of a deletion vector below the table, decoded. Raises PathExternal."""
    import pyarrow as pa

    text = str(descriptor["pathOrInlineDv"])
    if descriptor["storageType"] == "u":
        path = vector_file(text)
        text = "" if path is None else path.replace("%", "%25")
    key = locate(pa.array([text], pa.string()), uri).keys[0].as_py()
    if not key:
        raise outside()
    return text_of(key)
