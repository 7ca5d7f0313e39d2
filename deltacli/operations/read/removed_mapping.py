"""Versions of a range that cannot be read as the last one, because column mapping was removed between them.

Names in the files of such versions are known to their own schema only; in the last one they may be of other columns.
Spec: Column Mapping.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from deltacli.delta.log.state import read_metadata, read_protocol
from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.protocol.read_property import CHECKPOINT_PROTECTION
from deltacli.errors import Refused
from deltacli.hints import command
from deltacli.operations.table.small_actions import small_actions

if TYPE_CHECKING:
    from deltacli.delta.log.segment import LogListing
    from deltacli.operations.table.handle import TableHandle

MAPPING = "columnMapping"


def last_removal(
    table: TableHandle, listing: LogListing, first: TableConfiguration, end: TableConfiguration, versions: range
) -> int | None:
    """Return the last of some versions that removed column mapping; None where there is none. `first` is the
    configuration before them, `end` that of the last.
    """
    if not versions or not _may_be_removed(first, end):
        return None
    files = [listing.commits[version] for version in versions if version in listing.commits]
    found, config = None, replace(first, schema=None)
    for version, actions in small_actions(table, files):
        before = is_mapped(config)
        for kind, action in actions or ():  # a damaged commit is an error of who reads its files
            if kind == "protocol":
                config = TableConfiguration(read_protocol(action, f"commit {version}"), config.metadata, None)
            elif kind == "metaData":
                config = TableConfiguration(config.protocol, read_metadata(action, f"commit {version}"), None)
        found = version if before and not is_mapped(config) else found
    return found


def is_mapped(config: TableConfiguration) -> bool:
    """Return True for a version with column mapping."""
    return config.mapping_mode != "none"


def _may_be_removed(first: TableConfiguration, end: TableConfiguration) -> bool:
    """Return False where mapping certainly was not removed between two versions, so that no commit has to be read."""
    if not is_mapped(end):
        knows = MAPPING in end.features or CHECKPOINT_PROTECTION in end.properties
        return knows or is_mapped(first)
    if not is_mapped(first):
        return True
    had, has = (_generated_names(config) for config in (first, end))
    return not had & has  # who removes a mapping gives files the names of columns


def _generated_names(config: TableConfiguration) -> set[str]:
    fields = config.schema.fields if config.schema else ()
    names = (config.physical_name(field) for field in fields)
    return {name for name in names if name.startswith("col-") and len(name) == _GENERATED_LENGTH}


_GENERATED_LENGTH = len("col-8c74a5e3-2a1f-4b8e-9d52-0d1a3f0e7c11")


def removal_error(first: int, removed: int, last: int) -> Refused:
    """Return why the changes of some versions cannot be read together, and how they can."""
    ranges = ((first, removed - 1), (max(removed, first + 1), last))
    apart = ", ".join(f"{begin}-{end}" for begin, end in ranges if begin <= end)
    return Refused(
        f"version {removed} removed column mapping: columns had other names in files before it, so changes before and "
        "after it cannot be read together",
        code="changes.mapping-removed",
        facts={"versions to read apart": apart} if apart else {},
        hint=command("changes", from_version=max(removed, first + 1)),
    )
