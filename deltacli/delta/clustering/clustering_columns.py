"""The clustering columns of a table, as the domain `delta.clustering` names them. Spec: Clustered Table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from deltacli.delta.log.actions import Action
from deltacli.delta.log.state import DomainMetadata, TableConfiguration
from deltacli.delta.schema.types import DataType, PrimitiveType, StructField, StructType

FEATURE = "clustering"
DOMAIN = "delta.clustering"
MOST_CLUSTERING_COLUMNS = 4

_NOT_SKIPPABLE = frozenset({"binary", "boolean", "void", "null", "geometry", "geography"})
"Primitive types for which engines do not keep minimum and maximum. Variant and intervals are recognized by their "
"names."


class ClusteringColumn(NamedTuple):
    """A column as named in the domain, and the fields that these names lead to, none if there is no such column."""

    path: tuple[str, ...]
    fields: tuple[StructField, ...]
    is_logical: bool
    "True if only logical names lead to a column."

    @property
    def data_type(self) -> DataType | None:
        return self.fields[-1].data_type if self.fields else None

    @property
    def name(self) -> str:
        return ".".join(self.path)


def read_clustering_columns(configuration: str) -> list[tuple[str, ...]] | None:
    """Return the columns in a domain's configuration, each as the path of its names, or None if it is malformed.

    Engines write a list of names per column, the text of the protocol shows one name.
    """
    try:
        value = json.loads(configuration)
    except (ValueError, RecursionError):
        return None
    columns = value.get("clusteringColumns") if isinstance(value, dict) else None
    if not isinstance(columns, list):
        return None
    paths: list[tuple[str, ...]] = []
    for column in columns:
        names = [column] if isinstance(column, str) else column
        if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
            return None
        paths.append(tuple(names))
    return paths


def clustering_paths(config: TableConfiguration, domains: Iterable[DomainMetadata]) -> tuple[tuple[str, ...], ...]:
    """Return the physical paths of clustering columns in the schema. They get statistics, whatever properties say."""
    domain = next((one for one in domains if one.domain == DOMAIN), None)
    if domain is None or FEATURE not in config.features or config.schema is None:
        return ()
    paths = read_clustering_columns(domain.configuration) or ()
    found = [find_column(config, config.schema, path).fields for path in paths]
    return tuple(tuple(map(config.physical_name, fields)) for fields in found if fields)


def find_column(config: TableConfiguration, schema: StructType, path: tuple[str, ...]) -> ClusteringColumn:
    """Find a path by physical names, then by logical ones. One text may hold a whole dotted path."""
    split = tuple(path[0].split(".")) if len(path) == 1 else path
    for names in dict.fromkeys((path, split)):
        if fields := _fields_at(schema, names, config.physical_name):
            return ClusteringColumn(path, fields, is_logical=False)
    for names in dict.fromkeys((path, split)):
        if fields := _fields_at(schema, names, lambda field: field.name):
            return ClusteringColumn(path, fields, is_logical=True)
    return ClusteringColumn(path, (), is_logical=False)


def _fields_at(
    schema: StructType, names: Sequence[str], name_of: Callable[[StructField], str]
) -> tuple[StructField, ...]:
    """Return the fields along a path of names through structs only, as clustering columns are, else none."""
    found: list[StructField] = []
    data_type: DataType = schema
    for name in names:
        if not isinstance(data_type, StructType):
            return ()
        field = next((field for field in data_type.fields if name_of(field).lower() == name.lower()), None)
        if field is None:
            return ()
        found.append(field)
        data_type = field.data_type
    return tuple(found)


def is_skippable(data_type: DataType) -> bool:
    """Return True if files may keep the minimum and the maximum of such a column."""
    if not isinstance(data_type, PrimitiveType):
        return False
    name = data_type.name.lower()
    return name.partition("(")[0] not in _NOT_SKIPPABLE and not name.startswith("interval") and name != "variant"


def clustering_action(paths: tuple[tuple[str, ...], ...]) -> Action:
    """Return the action of the domain that names the columns."""
    configuration = {"clusteringColumns": [list(path) for path in paths], "domainName": DOMAIN}
    return {"domain": DOMAIN, "configuration": json.dumps(configuration, separators=(",", ":")), "removed": False}
