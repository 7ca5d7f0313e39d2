"""Determine which directories of a table are hidden, and therefore ignored by a vacuum.

Names that start with `_` or `.` are hidden, except directories of partition columns: the directory
`_year=2024` belongs to the partition column `_year`. The current partition columns are not enough,
because the table may have been partitioned differently before, and old versions still refer to
files in the old directories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from deltacli.core import errors
from deltacli.delta.listing import HiddenNames, list_partition_directory_names
from deltacli.delta.log.actions import Action
from deltacli.delta.log.state import TableConfiguration, read_metadata
from deltacli.delta.schema.types import parse_schema

if TYPE_CHECKING:
    from deltacli.table.version import Snapshot

_ICEBERG_FEATURES = ("icebergCompatV1", "icebergCompatV2", "icebergCompatV3")
_ENABLED_FORMATS_PROPERTY = "delta.universalFormat.enabledFormats"


def build_hidden_names(
    snapshot: Snapshot, metadata: Sequence[Action], oldest: TableConfiguration | None = None
) -> HiddenNames:
    """Build the rules for hidden names from the current and all former metadata of a table.

    Args:
        snapshot: The newest version.
        metadata: The metaData actions of all commits in the log.
        oldest: The configuration of the oldest version that can be rebuilt, if available. Its
            metaData action may be in a commit that was deleted.
    """
    columns = set(list_partition_directory_names(snapshot.config))
    if oldest is not None:
        columns |= list_partition_directory_names(oldest)
    for action in metadata:
        try:
            older_metadata = read_metadata(action, "a commit")
            schema = parse_schema(older_metadata.schema_string) if older_metadata.schema_string else None
        except errors.DeltacliError:
            continue  # the partition columns of invalid metadata are unknown
        columns |= list_partition_directory_names(TableConfiguration(snapshot.protocol, older_metadata, schema))
    hides_metadata = "iceberg" in find_readable_formats(snapshot, metadata, oldest)
    return HiddenNames(sorted(columns), hides_metadata=hides_metadata)


def find_readable_formats(
    snapshot: Snapshot, metadata: Sequence[Action], oldest: TableConfiguration | None
) -> set[str]:
    """Return the other table formats that the table can be read as, or could be read as before.

    With UniForm (`delta.universalFormat.enabledFormats`) or an Iceberg compatibility feature, the
    table directory also contains Iceberg metadata, which a vacuum must not delete.

    Args:
        snapshot: The newest version.
        metadata: The metaData actions of all commits in the log.
        oldest: The configuration of the oldest version that can be rebuilt, if available.

    Returns:
        Lower-case names of formats, such as {"iceberg"}.
    """
    configurations = [snapshot.config] if oldest is None else [snapshot.config, oldest]
    properties: list[object] = [configuration.properties for configuration in configurations]
    properties += [action.get("configuration") for action in metadata]

    formats: set[str] = set()
    for mapping in properties:
        enabled = mapping.get(_ENABLED_FORMATS_PROPERTY) if isinstance(mapping, Mapping) else None
        if isinstance(enabled, str):
            formats |= {name.strip().lower() for name in enabled.split(",")}
    if any(not configuration.features.isdisjoint(_ICEBERG_FEATURES) for configuration in configurations):
        formats.add("iceberg")
    return formats
