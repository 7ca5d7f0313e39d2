"""Versions of a range that cannot be read as the last one, because a commit between them replaced what columns mean.

Without column mapping, names in files are those of columns: names in older files may be those of other columns now, and
a column of another type has values in older files that are not of its type.
A table that is created anew with column mapping has new names in files, so its columns would be null in older rows.
Spec: Column Mapping.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from deltacli.core.errors import Refused
from deltacli.core.hints import command
from deltacli.delta.log.state import TableConfiguration, read_metadata, read_protocol
from deltacli.delta.protocol.property_values import CHECKPOINT_PROTECTION
from deltacli.delta.schema.column_differences import columns_of, exchanged
from deltacli.delta.schema.conversion import fits
from deltacli.delta.schema.names import MODE
from deltacli.delta.schema.to_arrow import plain_type
from deltacli.delta.schema.type_changes import canonical_name
from deltacli.delta.schema.types import DataType, PrimitiveType, parse_schema, simple_name
from deltacli.table.replay import small_actions
from deltacli.work.commits.reading import stream_commit

if TYPE_CHECKING:
    from deltacli.delta.log.segment import LogFile
    from deltacli.table.handle import TableHandle

MAPPING = "columnMapping"
_NO_COLUMNS = '{"type":"struct","fields":[]}'


class Break(NamedTuple):
    """A version that removed column mapping, or else replaced columns by others."""

    version: int
    is_removal: bool
    column: str = ""
    """Which column has another type, in words."""

    @property
    def reason(self) -> str:
        """What the version did, in words."""
        if self.is_removal:
            return f"version {self.version} removed column mapping: columns had other names in files before it"
        if self.column:
            return f"version {self.version} replaced the column {self.column}: files before it have the older type"
        return f"version {self.version} replaced columns of the table: files before it do not have those of now"


def may_be_apart(first: TableConfiguration, end: TableConfiguration) -> bool:
    """Return False where certainly no version between two separates them, so that no commit has to be read."""
    return _may_be_removed(first, end) or any(exchanged(first, end)) or _other_type(first, end) != ""


def find_break(table: TableHandle, files: Sequence[LogFile], first: TableConfiguration) -> Break | None:
    """Return the last of some commits that separates versions; `first` is the configuration before them."""
    found, config, by_version = None, first, {file.version: file for file in files}
    for version, actions in small_actions(table, list(files)):
        before = config
        for kind, action in actions or ():  # a damaged commit is an error of who reads its files
            if kind == "protocol":
                config = replace(config, protocol=read_protocol(action, f"commit {version}"))
            elif kind == "metaData":
                metadata = read_metadata(action, f"commit {version}")
                schema = parse_schema(metadata.schema_string or _NO_COLUMNS)
                config = TableConfiguration(config.protocol, metadata, schema)
        if config is not before:
            found = break_at(table, by_version[version], before, config) or found
    return found


def break_at(table: TableHandle, file: LogFile, before: TableConfiguration, after: TableConfiguration) -> Break | None:
    """Return what a commit is, by the configurations before and after it, if it separates versions."""
    if is_mapped(before) and not is_mapped(after):
        return Break(file.version, True)
    if column := _other_type(before, after):
        return Break(file.version, False, column)
    return Break(file.version, False) if _replaces(table, file, before, after) else None


def is_mapped(config: TableConfiguration) -> bool:
    """Return True for a version with column mapping."""
    return config.mapping_mode != "none"


def may_have_been_mapped(config: TableConfiguration) -> bool:
    """Return False for a version without column mapping if no commit of its log can have removed one: its protocol then
    lists the feature still, or its properties protect the checkpoints from before the drop. The protocol of a shared
    table lists less, so that its server writes the mode.
    """
    return MAPPING in config.features or CHECKPOINT_PROTECTION in config.properties or MODE in config.properties


def _may_be_removed(first: TableConfiguration, end: TableConfiguration) -> bool:
    """Return False where mapping certainly was not removed between two versions."""
    if not is_mapped(end):
        return may_have_been_mapped(end) or is_mapped(first)
    if not is_mapped(first):
        return True
    had, has = (_generated_names(config) for config in (first, end))
    return not had & has  # who removes a mapping gives files the names of columns


def _generated_names(config: TableConfiguration) -> set[str]:
    fields = config.schema.fields if config.schema else ()
    names = (config.physical_name(field) for field in fields)
    return {name for name in names if name.startswith("col-") and len(name) == _GENERATED_LENGTH}


_GENERATED_LENGTH = len("col-8c74a5e3-2a1f-4b8e-9d52-0d1a3f0e7c11")


def _replaces(table: TableHandle, file: LogFile, before: TableConfiguration, after: TableConfiguration) -> bool:
    """Return True for a commit that gives a name to another column, or drops columns and adds others together with the
    removal of rows.
    """
    gone, new = exchanged(before, after)
    if not gone:
        return False
    return bool(gone & new) or any(
        kind == "remove" and action.get("dataChange") is not False
        for kind, action in stream_commit(table.storage, file)
    )


def _other_type(before: TableConfiguration, after: TableConfiguration) -> str:
    """Return which column got a type that values of older files certainly do not have, in words; "" for none."""
    had = {way: kind for way, _, kind in columns_of(before, before.schema)}
    for way, names, kind in columns_of(after, after.schema):
        if way in had and not _fits(had[way], kind):
            return f"{'.'.join(names)}, {simple_name(had[way])} before, by one of type {simple_name(kind)}"
    return ""


def _fits(old: DataType, new: DataType) -> bool:
    match old, new:
        case PrimitiveType(had), PrimitiveType(has):
            name, wanted = canonical_name(had), canonical_name(has)
            is_same = name == wanted or (name.startswith("timestamp") and wanted.startswith("timestamp"))
            kind = plain_type(name)
            return is_same or "void" in (name, wanted) or kind is None or fits(kind, wanted)
        case (PrimitiveType("void"), _) | (_, PrimitiveType("void")):
            return True
    return type(old) is type(new)


def apart_error(first: int, found: Break, last: int) -> Refused:
    """Return why the changes of some versions cannot be read together, and how they can. What replaced columns may also
    have removed rows, so it is in none of the ranges.
    """
    begin = max(found.version if found.is_removal else found.version + 1, first + 1)
    ranges = [(start, end) for start, end in ((first, found.version - 1), (begin, last)) if start <= end]
    if begin <= last:
        hint = command("changes", from_version=begin)
    elif ranges:
        hint = command("changes", from_version=first, to_version=found.version - 1)
    else:
        hint = command("read", version=found.version - 1)
    return Refused(
        f"{found.reason}, so changes before and after it cannot be read together",
        code="changes.mapping-removed" if found.is_removal else "changes.columns-replaced",
        facts={"versions to read apart": ", ".join(f"{start}-{end}" for start, end in ranges)} if ranges else {},
        hint=hint,
    )
