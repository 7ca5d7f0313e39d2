"""Find the traits of a version that some clients do not support.

A trait is a table feature, or a property of the data that a client may fail to read, such as absolute
paths or timestamps before the year 1677. Most traits follow from the protocol, the metadata and the domain
metadata. For the others the paths, partition values and statistics of all live files are examined, but
only if the schema allows the trait at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import RecordBatch
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.partitions.hive_directories import are_in_hive_directories
from deltacli.delta.partitions.values import is_refused_by_kernel
from deltacli.delta.paths.keys import PathKeys
from deltacli.delta.paths.spelling_columns import are_absolute
from deltacli.delta.protocol.clients import (
    ABSOLUTE_PATHS,
    OTHER_DIRECTORIES,
    TIMES_BEYOND_NANOSECONDS,
    find_table_traits,
)
from deltacli.delta.schema.types import PrimitiveType, has_timestamps
from deltacli.delta.stats.nanosecond_range import may_exceed_nanoseconds
from deltacli.table.version import Snapshot

_TYPES_WITH_SEVERAL_TEXTS = ("decimal", "timestamp", "float", "double")
"""Prefixes of the names of types whose values can be written in several ways in the log.

The same decimal is `1.0` or `1.00`, and the same double is `NaN` or `nan`. Delta Kernel parses only some of
them. For other types, such as integers, it parses all values that writers use.
"""

_INT96_TYPES = frozenset({"timestamp"})
"""Types that writers of Delta tables store as INT96 in Parquet.

`timestamp_ntz` is not one of them: the protocol requires INT64 for it.
"""


def find_version_traits(snapshot: Snapshot) -> frozenset[str]:
    """Return the traits of a version, including traits of its live files.

    Raises:
        DeltacliError: If the checkpoint or the commits cannot be read.
    """
    traits = find_table_traits(snapshot.config, [domain.domain for domain in snapshot.domains])
    if _has_external_files(snapshot):
        traits |= {ABSOLUTE_PATHS}
    if _has_files_in_other_directories(snapshot):
        traits |= {OTHER_DIRECTORIES}
    if _may_have_times_beyond_nanoseconds(snapshot):
        traits |= {TIMES_BEYOND_NANOSECONDS}
    if _has_values_refused_by_kernel(snapshot):
        traits |= {"values.kernel-unreadable"}
    return traits


def _has_values_refused_by_kernel(snapshot: Snapshot) -> bool:
    """Return True if a live file has a partition value that Delta Kernel cannot parse."""
    for name, field in snapshot.config.partition_columns.items():
        if field is None or not isinstance(field.data_type, PrimitiveType):
            continue
        type_name = field.data_type.name
        if type_name.startswith(_TYPES_WITH_SEVERAL_TEXTS):
            texts = read_partition_values(snapshot, name)
            if any(text is not None and is_refused_by_kernel(type_name, text) for text in texts):
                return True
    return False


def read_partition_values(snapshot: Snapshot, name: str) -> frozenset[str | None]:
    """Return the distinct values of a partition column in the live files, as text.

    Args:
        snapshot: The version.
        name: The physical name of the column.

    Returns:
        The values as in the log; None is the null value.
    """
    list_values = partial(_list_partition_values, name=name)
    batches = snapshot.file_actions.map_actions("add", list_values, fields=["partitionValues"])
    return frozenset(chain.from_iterable(batches))


def _list_partition_values(adds: RecordBatch, name: str) -> list[str | None]:
    """Return the distinct values of a partition column in a batch of live files."""
    values = pc.map_lookup(adds.column("partitionValues"), query_key=pa.scalar(name), occurrence="first")
    distinct_values: list[str | None] = pc.unique(values).to_pylist()
    return distinct_values


def _has_external_files(snapshot: Snapshot) -> bool:
    """Return True if a live file is outside the table directory, such as the files of a shallow clone."""
    storage = snapshot.table.storage
    has_external_file = partial(_has_external_file, table_uris=(storage.uri, *storage.aliases))
    return any(snapshot.file_actions.map_actions("add", has_external_file, fields=["path"]))


def _has_external_file(adds: RecordBatch, table_uris: Sequence[str]) -> bool:
    """Return True if a batch of live files contains a file outside the table directory."""
    paths = adds.column("path")
    absolute_paths = pc.filter(paths, are_absolute(paths))
    if not len(absolute_paths):
        return False
    # An absolute path may still lead into the table directory. The key of an external file is null.
    keys = PathKeys(table_uris).compute_keys(absolute_paths).keys
    return bool(keys.null_count)


def _has_files_in_other_directories(snapshot: Snapshot) -> bool:
    """Return True if a live file is not in the directory of its partition values.

    Delta for Spark writes such files with random prefixes or column mapping: `Ab/part-0.parquet` instead of
    `day=2026-01-01/part-0.parquet`.
    """
    columns = list(snapshot.config.partition_columns)
    if not columns:
        return False
    has_file_in_other_directory = partial(_has_file_in_other_directory, columns=columns)
    fields = ["path", "partitionValues"]
    return any(snapshot.file_actions.map_actions("add", has_file_in_other_directory, fields=fields))


def _has_file_in_other_directory(adds: RecordBatch, columns: Sequence[str]) -> bool:
    """Return True if a file in a batch of live files is not in the directory of its partition values."""
    return not are_in_hive_directories(adds, columns)


def _may_have_times_beyond_nanoseconds(snapshot: Snapshot) -> bool:
    """Return True if a live file may contain a timestamp before 1677 or after 2262, according to its statistics.

    Such timestamps do not fit into 64-bit nanoseconds. Clients that read INT96 as nanoseconds return a wrong
    time or fail.
    """
    config = snapshot.config
    fields = config.schema.fields if config.schema else ()
    if not any(has_timestamps(field.data_type, _INT96_TYPES) for field in fields):
        return False
    may_have_such_time = partial(_may_have_time_beyond_nanoseconds, config=config)
    return any(snapshot.file_actions.map_actions("add", may_have_such_time, fields=["stats"]))


def _may_have_time_beyond_nanoseconds(adds: RecordBatch, config: TableConfiguration) -> bool:
    """Return True if a file in a batch of live files may contain such a timestamp."""
    may_exceed = may_exceed_nanoseconds(adds.column("stats"), config, _INT96_TYPES)
    return bool(pc.any(may_exceed).as_py())
