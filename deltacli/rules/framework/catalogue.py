"""All rules and all checks. A module of rules is imported when something looks at what it checks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from importlib import import_module

from deltacli.core.cached import cached_property
from deltacli.rules.framework.base import Area, Check, Rule


class Catalogue:
    """The rules of a package and their checks. `modules`: each has areas; and what views its checks look at."""

    def __init__(self, package: str, modules: Mapping[str, str]) -> None:
        self.package = package
        self.modules = modules

    @cached_property
    def rules(self) -> Mapping[str, Rule]:
        """Every rule by its id, in the order of the modules."""
        return {rule.id: rule for area in self.areas() for rule in area.rules}

    def areas(self) -> list[Area]:
        """Return the areas in order, those of one name as one."""
        merged: dict[str, Area] = {}
        for name in self.modules:
            for found in self.areas_of(name):
                area = merged.setdefault(found.name, Area(found.name))
                area.rules += found.rules
                area.checks += found.checks
        return list(merged.values())

    def areas_of(self, module: str) -> list[Area]:
        """Return the areas of a module, which is imported."""
        values = vars(import_module(f"{self.package}.{module}")).values()
        return [value for value in values if isinstance(value, Area)]

    def checks_of(self, view: type, modules: Collection[str] | None = None) -> Iterator[Check]:
        """Yield the checks of such views; those of some modules only, where these are given."""
        for name, views in self.modules.items():
            if view.__name__ in views.split() and (modules is None or name in modules):
                yield from (check for area in self.areas_of(name) for check in area.checks if check.view is view)


CATALOGUE = Catalogue(
    "deltacli.rules",
    {
        "log.log_files": "ListingView StorageView",
        "log.file_times": "HistoryView ListingView StorageView",
        "log.commit_lines": "",
        "actions.commit_contents": "CommitView",
        "actions.single_actions": "CommitView FilesView HistoryView StateView",
        "paths.paths": "CommitView FilesView",
        "paths.path_collisions": "CommitView StateView StorageView",
        "protocol.protocol": "HistoryView ProtocolView TableConfigurationView",
        "protocol.features": "CommitView HistoryView TableConfigurationView",
        "protocol.metadata": "HistoryView MetadataView",
        "protocol.properties": "ListingView MetadataView StateView TableConfigurationView",
        "schema.schema_changes": "MetadataView",
        "schema.schema": "MetadataView",
        "mapping.files": "FileSchemaView",
        "mapping.history": "MetadataView",
        "mapping.mapping": "FilesView MetadataView ProtocolView",
        "partitions.partitions": "FilesView StateView",
        "statistics.statistics": "CheckpointView FilesView",
        "statistics.messages": "FootersView",
        "statistics.clustering": "FilesView",
        "statistics.compared": "AnswersView FootersView",
        "checkpoints.contents": "",
        "checkpoints.columns": "CheckpointView",
        "checkpoints.state": "CheckpointView",
        "checkpoints.v2": "CheckpointView ListingView",
        "checkpoints.checkpoints": "ListingView",
        "log.last_checkpoint": "HintView ListingView",
        "log.checksum_files": "ChecksumView",
        "log.checksums": "ChecksumView ListingView",
        "log.compactions": "CompactionView ListingView",
        "files.storage": "StateView StorageView",
        "files.data_files": "AllFootersView FileFaultView FileSchemaView FootersView",
        "files.data_types": "FileFaultView FileSchemaView",
        "files.data_columns": "FileSchemaView FootersView",
        "partitions.contents": "AnswersView",
        "files.vector_descriptors": "CommitView FilesView",
        "files.vector_files": "StorageView",
        "files.vector_contents": "VectorsView",
        "actions.changed_rows": "ChangeFileView ChangedVersionView",
        "actions.change_data": "CommitView StorageView",
        "expressions.texts": "FilesView MetadataView TableConfigurationView",
        "expressions.identity_columns": "MetadataView TableConfigurationView",
        "expressions.row_values": "AllRowsView AnswersView",
        "actions.row_id_values": "AnswersView",
        "actions.row_tracking": "CommitView HistoryView StateView TableConfigurationView",
        "log.in_commit_timestamps": "CommitView HistoryView ListingView TableConfigurationView",
        "protocol.clustering": "StateView TableConfigurationView",
        "widening.entries": "MetadataView TableConfigurationView",
        "widening.files": "AllFootersView",
        "widening.history": "MetadataView StateView",
        "protocol.iceberg": "FilesView StorageView TableConfigurationView",
        "log.history": "CommitView HistoryView StorageView",
    },
)

RULES_OF_ADD = (
    *("protocol.metadata", "schema.schema_changes", "schema.schema", "mapping.history", "mapping.mapping"),
    *("actions.row_tracking", "widening.entries", "widening.history"),
)
"""The modules of all rules about metadata that stop new data files, `STOPS`: no others are imported for them."""
