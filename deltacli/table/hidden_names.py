"""Decide which names in the directory of a table are hidden, from all metadata that the table has had.

Names that begin with `_` or `.` are hidden, except for directories of partition columns. A column may
have been a partition column only once, and its directories still contain files of old versions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from deltacli.core import errors
from deltacli.delta.listing import HiddenNames, partition_names
from deltacli.delta.log.actions import Action
from deltacli.delta.log.state import TableConfiguration, read_metadata
from deltacli.delta.schema.types import parse_schema

if TYPE_CHECKING:
    from deltacli.table.version import Snapshot

_ICEBERG_FEATURES = ("icebergCompatV1", "icebergCompatV2", "icebergCompatV3")
_UNIVERSAL_FORMATS = "delta.universalFormat.enabledFormats"


def build_hidden_names(
    snapshot: Snapshot, metadata: Sequence[Action], first: TableConfiguration | None = None
) -> HiddenNames:
    """Return the rules of hidden names for a table.

    Args:
        snapshot: The newest version.
        metadata: The metaData actions of older versions.
        first: The configuration of the oldest version, if it is known.
    """
    columns = set(partition_names(snapshot.config))
    if first is not None:
        columns |= partition_names(first)
    # Files of older versions are in directories of the columns of that time.
    for action in metadata:
        try:
            older_metadata = read_metadata(action, "a commit")
            schema = parse_schema(older_metadata.schema_string) if older_metadata.schema_string else None
        except errors.DeltacliError:
            continue  # an unreadable older metaData protects nothing
        columns |= partition_names(TableConfiguration(snapshot.protocol, older_metadata, schema))
    hides_metadata = "iceberg" in find_readable_formats(snapshot, metadata, first)
    return HiddenNames(sorted(columns), hides_metadata=hides_metadata)


def find_readable_formats(snapshot: Snapshot, metadata: Sequence[Action], first: TableConfiguration | None) -> set[str]:
    """Return the formats that a table is or was kept readable as, whose files in its directory belong to it.

    Args:
        snapshot: The newest version.
        metadata: The metaData actions of older versions.
        first: The configuration of the oldest version, if it is known.
    """
    configurations = [snapshot.config] if first is None else [snapshot.config, first]
    properties: list[object] = [configuration.properties for configuration in configurations]
    properties += [action.get("configuration") for action in metadata]

    formats: set[str] = set()
    for mapping in properties:
        text = mapping.get(_UNIVERSAL_FORMATS) if isinstance(mapping, Mapping) else None
        if isinstance(text, str):
            formats |= {name.strip().lower() for name in text.split(",")}
    if any(not configuration.features.isdisjoint(_ICEBERG_FEATURES) for configuration in configurations):
        formats.add("iceberg")
    return formats
