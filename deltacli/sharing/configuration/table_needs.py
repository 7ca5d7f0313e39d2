"""What reading the files of a table needs, which decides on the response format and the clients.

Features of the log and of writers do not concern recipients, and neither do features that the table does not use.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.protocol.features import stable_name
from deltacli.delta.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructType, walk

_OF_THE_LOG = frozenset(
    {"v2Checkpoint", "vacuumProtocolCheck", "catalogManaged", "catalogOwned-preview", "checkpointProtection"}
)
_BY_USE = frozenset({"columnMapping", "deletionVectors", "typeWidening", "timestampNtz", "variantType"})
_OF_TYPES = {"timestamp_ntz": "timestampNtz", "variant": "variantType"}


class TableNeeds(NamedTuple):
    """The reader features that are used, and what the parquet format cannot express; both sorted."""

    features: tuple[str, ...]
    not_in_parquet: tuple[str, ...]


NOTHING_NEEDED = TableNeeds((), ())


def find_table_needs(config: TableConfiguration, *, has_vectors: bool) -> TableNeeds:
    """Return what reading the files of a version needs."""
    schema = config.schema or StructType(())
    listed = {stable_name(name) for name in (config.protocol.reader_features if config.protocol else None) or ()}
    used = (listed - _BY_USE - _OF_THE_LOG) | set(_features_of(schema))
    blocking = set(used)
    if has_vectors:
        used.add("deletionVectors")
        blocking.add("deletionVectors")
    if config.mapping_mode != "none":
        used.add("columnMapping")
        if any(config.physical_name(field) != field.name for _, field in walk(schema)):
            blocking.add("columnMapping")
    return TableNeeds(tuple(sorted(used)), tuple(sorted(blocking)))


def _features_of(schema: StructType) -> Iterator[str]:
    if any(field.metadata.get("delta.typeChanges") for _, field in walk(schema)):
        yield "typeWidening"
    yield from (_OF_TYPES[name] for name in _primitives(schema) if name in _OF_TYPES)


def _primitives(data_type: DataType) -> Iterator[str]:
    match data_type:
        case PrimitiveType(name):
            yield name
        case ArrayType(element, _):
            yield from _primitives(element)
        case MapType(key, value, _):
            yield from _primitives(key)
            yield from _primitives(value)
        case StructType(fields):
            for field in fields:
                yield from _primitives(field.data_type)
