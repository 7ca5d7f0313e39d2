"""Whether data files are in Hive directories of their partition values, from which some readers take these values.

The protocol takes them from the log, so files may be anywhere: below random prefixes, or at the root of the table.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.compute as pc

from deltacli.core.typing import RecordBatch
from deltacli.delta.paths.spelling import decode, decode_hive_text

_HIVE_DEFAULT = "__HIVE_DEFAULT_PARTITION__"
_FILE_NAME = "[^/]*$"
_NUL = "\0"


def are_in_hive_directories(adds: RecordBatch, columns: Sequence[str]) -> bool:
    """Return whether every file is below a directory `column=value` for each partition column, with its value.

    Args:
        adds: Add actions with the columns `path` and `partitionValues`.
        columns: The physical names of the partition columns.
    """
    if not columns or not adds.num_rows:
        return True
    directories = pc.replace_substring_regex(adds.column("path"), _FILE_NAME, "")
    maps = adds.column("partitionValues")
    values = [
        pc.coalesce(pc.map_lookup(maps, query_key=column, occurrence="first"), _HIVE_DEFAULT) for column in columns
    ]
    # A million files are in few directories.
    distinct = pc.unique(pc.binary_join_element_wise(directories, *values, _NUL))
    return all(_has_values(*text.split(_NUL), columns=columns) for text in distinct.to_pylist())


def _has_values(directory: str, *values: str, columns: Sequence[str]) -> bool:
    """Return whether the path of a directory in a log names each column with its value."""
    named = {
        decode_hive_text(name): decode_hive_text(value)
        for name, is_named, value in (segment.partition("=") for segment in decode(directory).split("/"))
        if is_named
    }
    return all(named.get(column) == (value or _HIVE_DEFAULT) for column, value in zip(columns, values, strict=True))
