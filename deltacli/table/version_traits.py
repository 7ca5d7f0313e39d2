"""Find the traits of a version by which clients can or cannot read and write it.

Most traits are in the protocol, the metadata and the domains. Some are in the live files: their paths,
partition values and statistics, which are read only if the configuration allows such a trait.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import RecordBatch
from deltacli.delta.partitions.values import kernel_refuses
from deltacli.delta.paths.spelling_columns import are_absolute
from deltacli.delta.protocol.clients import ABSOLUTE_PATHS, OTHER_DIRECTORIES, TIMES_BEYOND_NANOSECONDS, traits_of
from deltacli.delta.schema.types import PrimitiveType, has_timestamps
from deltacli.table.version import Snapshot

_TYPES_WITH_SPELLINGS = ("decimal", "timestamp", "float", "double")
"""Beginnings of the names of types whose partition values have several valid spellings: only these are looked at."""

_STORED_AS_INT96 = frozenset({"timestamp"})
"""Types of which writers of Delta tables store values as INT96: timestamps without a zone are INT64 by the protocol."""


def find_version_traits(snapshot: Snapshot) -> frozenset[str]:
    """Return the traits of a version, those of its live files included.

    Raises:
        DeltacliError: What reading the live files raises.
    """
    traits = traits_of(snapshot.config, [domain.domain for domain in snapshot.domains])
    if _has_files_elsewhere(snapshot):
        traits |= {ABSOLUTE_PATHS}
    if _has_files_in_other_directories(snapshot):
        traits |= {OTHER_DIRECTORIES}
    if _may_have_times_beyond_nanoseconds(snapshot):
        traits |= {TIMES_BEYOND_NANOSECONDS}
    if _has_values_refused_by_kernel(snapshot):
        traits |= {"values.kernel-unreadable"}
    return traits


def _has_values_refused_by_kernel(snapshot: Snapshot) -> bool:
    """Return True if a partition value is spelled in a way that Delta Kernel does not read."""
    for name, field in snapshot.config.partition_columns.items():
        if field is None or not isinstance(field.data_type, PrimitiveType):
            continue
        type_name = field.data_type.name
        if type_name.startswith(_TYPES_WITH_SPELLINGS):
            texts = read_partition_values(snapshot, name)
            if any(text is not None and kernel_refuses(type_name, text) for text in texts):
                return True
    return False


def read_partition_values(snapshot: Snapshot, name: str) -> frozenset[str | None]:
    """Return the distinct texts of a partition column in the live files.

    Args:
        snapshot: The version.
        name: The physical name of the column.
    """

    def list_texts(adds: RecordBatch) -> list[str | None]:
        values = pc.map_lookup(adds.column("partitionValues"), query_key=pa.scalar(name), occurrence="first")
        texts: list[str | None] = pc.unique(values).to_pylist()
        return texts

    batches = snapshot.file_actions.map_actions("add", list_texts, fields=["partitionValues"])
    return frozenset(text for batch in batches for text in batch)


def _has_files_elsewhere(snapshot: Snapshot) -> bool:
    """Return True if a live file is outside of the table, as those of a shallow clone are."""
    storage = snapshot.table.storage

    def is_elsewhere(adds: RecordBatch) -> bool:
        paths = adds.column("path")
        absolute = pc.filter(paths, are_absolute(paths))
        if not len(absolute):
            return False
        from deltacli.delta.paths.keys import PathKeys

        return bool(PathKeys((storage.uri, *storage.aliases)).of_log(absolute).keys.null_count)

    return any(snapshot.file_actions.map_actions("add", is_elsewhere, fields=["path"]))


def _has_files_in_other_directories(snapshot: Snapshot) -> bool:
    """Return True if a live file is outside the directories of its partition values, as below a random prefix."""
    columns = list(snapshot.config.partition_columns)
    if not columns:
        return False
    from deltacli.delta.partitions.hive_directories import are_in_hive_directories

    def is_elsewhere(adds: RecordBatch) -> bool:
        return not are_in_hive_directories(adds, columns)

    return any(snapshot.file_actions.map_actions("add", is_elsewhere, fields=["path", "partitionValues"]))


def _may_have_times_beyond_nanoseconds(snapshot: Snapshot) -> bool:
    """Return True if the statistics of a live file allow a timestamp that does not fit into 64-bit nanoseconds."""
    config = snapshot.config
    fields = config.schema.fields if config.schema else ()
    if not any(has_timestamps(field.data_type, _STORED_AS_INT96) for field in fields):
        return False
    from deltacli.delta.stats.nanosecond_range import may_exceed_nanoseconds

    def may_exceed(adds: RecordBatch) -> bool:
        return bool(pc.any(may_exceed_nanoseconds(adds.column("stats"), config, _STORED_AS_INT96)).as_py())

    return any(snapshot.file_actions.map_actions("add", may_exceed, fields=["stats"]))
