"""The configuration in effect at a version: its protocol and its metadata together. Spec: Table Features; Column
Mapping.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.state import Metadata
from deltacli.delta.protocol.property_values import InCommitKeys, in_commit_keys, is_true
from deltacli.delta.protocol.protocol_action import WRITER_FEATURES_VERSION, Protocol
from deltacli.delta.schema.names import physical_name
from deltacli.delta.schema.types import StructField, StructType

if TYPE_CHECKING:
    from deltacli.delta.log.log_path import Place


@dataclass(frozen=True)
class TableConfiguration:
    """The protocol and the metadata in effect. Parts that could not be read are None; the raw actions are kept."""

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    schema: StructType | None = None
    raw_protocol: Action | None = None
    raw_metadata: Action | None = None
    protocol_place: Place | None = None
    metadata_place: Place | None = None
    protocol_version: int = -1
    "The version whose commit (or checkpoint) has the protocol, or -1."
    metadata_version: int = -1

    @cached_property
    def features(self) -> frozenset[str]:
        """Return every supported feature: listed, or implied by version numbers."""
        return self.protocol.supported_features if self.protocol else frozenset()

    @cached_property
    def properties(self) -> Mapping[str, str]:
        """Return the table properties, empty without a metadata."""
        return self.metadata.configuration if self.metadata else {}

    def is_on(self, key: str) -> bool:
        """Return True if a boolean property is true (whether or not its feature is supported)."""
        return is_true(self.properties, key)

    def is_inert(self, feature: str) -> bool:
        """Return True if the protocol does not support a writer feature, so that its column metadata has no effect.

        Old writers left generated and identity columns in such tables. Spec: Generated Columns; Identity Columns.
        """
        if self.protocol is None or feature in self.features:
            return False
        needs_list = self.protocol.min_writer_version >= WRITER_FEATURES_VERSION
        return not (needs_list and self.protocol.writer_features is None)

    @cached_property
    def mapping_mode(self) -> str:
        """Return `delta.columnMapping.mode` if column mapping is supported, else `none`."""
        mode = str(self.properties.get("delta.columnMapping.mode") or "none").lower()
        return mode if "columnMapping" in self.features else "none"

    @cached_property
    def has_ict(self) -> bool:
        """Return True if in-commit timestamps are supported and on."""
        return self.in_commit_keys is not None

    @cached_property
    def in_commit_keys(self) -> InCommitKeys | None:
        """Return the properties used by in-commit timestamps, or None if they are not supported or not on."""
        return in_commit_keys(self.features, self.properties)

    @cached_property
    def columns(self) -> dict[str, StructField]:
        """Return top-level columns by their name in files and statistics (physical under mapping)."""
        fields = self.schema.fields if self.schema else ()
        return {self.physical_name(column): column for column in fields}

    def physical_name(self, column: StructField) -> str:
        """Return the name of a column or nested field in files, statistics and partition values."""
        return physical_name(column, self.mapping_mode)

    @cached_property
    def partition_columns(self) -> dict[str, StructField | None]:
        """Return partition columns by physical name, or None if the schema lacks one."""
        by_name = {column.name: column for column in (self.schema.fields if self.schema else ())}
        fields: dict[str, StructField | None] = {}
        for name in self.metadata.partition_columns if self.metadata else ():
            column = by_name.get(name)
            fields[self.physical_name(column) if column else name] = column
        return fields
