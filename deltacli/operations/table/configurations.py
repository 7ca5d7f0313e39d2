"""The protocol and the metadata in force, read leniently: an unreadable part is None, not an error."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.log_path import LOG_DIRECTORY, Place, commit_name
from deltacli.delta.log.state import Metadata, read_metadata, read_protocol
from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.protocol.protocol_action import Protocol
from deltacli.delta.rules.framework.views import LocatedAction
from deltacli.delta.schema.types import StructType, parse_schema
from deltacli.errors import DeltacliError


def next_config(before: TableConfiguration, actions: Iterable[LocatedAction], version: int) -> TableConfiguration:
    """Return the configuration after a commit: the same object where it has neither protocol nor metaData."""
    after = before
    path = f"{LOG_DIRECTORY}/{commit_name(version)}"
    for placed in actions:
        if placed.kind == "protocol":
            after = with_protocol(after, placed.action, Place(path, placed.line, version), version)
        elif placed.kind == "metaData":
            after = with_metadata(after, placed.action, Place(path, placed.line, version), version)
    return after


def with_protocol(config: TableConfiguration, action: Action, place: Place, version: int) -> TableConfiguration:
    """Return the configuration with another protocol."""
    return replace(
        config,
        protocol=_protocol_of(action),
        raw_protocol=action,
        protocol_place=place,
        protocol_version=version,
    )


def with_metadata(config: TableConfiguration, action: Action, place: Place, version: int) -> TableConfiguration:
    """Return the configuration with another metadata."""
    metadata = _metadata_of(action)
    return replace(
        config,
        metadata=metadata,
        schema=_schema_of(metadata.schema_string) if metadata and metadata.schema_string is not None else None,
        raw_metadata=action,
        metadata_place=place,
        metadata_version=version,
    )


def _protocol_of(action: Action) -> Protocol | None:
    try:
        return read_protocol(action, "")
    except DeltacliError:
        return None


def _metadata_of(action: Action) -> Metadata | None:
    try:
        return read_metadata(action, "")
    except DeltacliError:
        return None


@lru_cache(maxsize=16)
def _schema_of(text: str) -> StructType | None:
    try:
        return parse_schema(text)
    except DeltacliError:
        return None
