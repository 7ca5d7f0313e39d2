"""Which columns a stream can go on with. Spec: Column Mapping; Type Widening; Change Metadata.

A commit after the version whose columns are read must leave them as they are: no column of its files may be left out
unnoticed, so the stream ends before it and begins again with the new columns. A commit before that version is read as
any older version is: missing columns are null, and narrower types become wider ones.
"""

from __future__ import annotations

from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.schema.allowed_widenings import canonical_name, is_allowed_change, was_allowed_in_preview
from deltacli.delta.schema.column_differences import by_physical_name, differences
from deltacli.delta.schema.kinds import FIXED_TEXTS
from deltacli.delta.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructType
from deltacli.errors import Refused
from deltacli.operations.read.separate_versions import Break, is_mapped

_TEXT = "string"


def require_same_columns(now: TableConfiguration, later: TableConfiguration, version: int) -> None:
    """Raise Refused (`stream.schema-changed`) where a later commit changes the columns that are read."""
    change = next(differences(now, later), None)
    if change is not None:
        raise Refused(
            f"version {version} changes the schema: {change}. All rows before it are delivered",
            code="stream.schema-changed",
            facts={"version": str(version), "change": change},
            hint="create the frame again with readStream, and start it with the same checkpointLocation",
        )


_NO_MAPPING = "column mapping was removed, and files before that have other names for columns"


def require_readable_columns(now: TableConfiguration, then: TableConfiguration, version: int) -> None:
    """Raise Refused (`stream.schema-changed`) where older files have columns that the columns read cannot show."""
    if is_mapped(then) and not is_mapped(now):
        change: str | None = _NO_MAPPING  # by a commit that is no longer in the log
    else:
        change = _unreadable(now, now.schema, then, then.schema, mapped=is_mapped(now))
    if change is not None:
        raise Refused(
            f"version {version} has other columns than the table has now: {change}",
            code="stream.schema-changed",
            facts={"version": str(version), "change": change},
            hint="begin at a later version: another checkpointLocation, with startingVersion or without it",
        )


def other_columns(version: int, found: Break) -> Refused:
    """Return why a version before `found` is not delivered."""
    begin = found.version if found.is_removal else found.version + 1
    return Refused(
        f"version {version} has other columns than the table has now: {found.reason}",
        code="stream.schema-changed",
        facts={"version": str(version), "change": found.reason},
        hint=f'begin there: another checkpointLocation, with .option("startingVersion", "{begin}") or without it',
    )


def _unreadable(
    now: TableConfiguration,
    now_type: DataType | None,
    then: TableConfiguration,
    then_type: DataType | None,
    *,
    mapped: bool,
    path: str = "",
) -> str | None:
    """Return why values of an older type cannot be read as the type of now, in words, or None."""

    def inner(new: DataType, old: DataType, where: str) -> str | None:
        return _unreadable(now, new, then, old, mapped=mapped, path=f"{path}.{where}")

    match now_type, then_type:
        case (None, None):
            return None
        case (StructType(), StructType()):
            found = by_physical_name(now, now_type)
            for physical, field in by_physical_name(then, then_type).items():
                if physical in found:
                    name = f"{path}.{field.name}" if path else field.name
                    new, old = found[physical].data_type, field.data_type
                    if fault := _unreadable(now, new, then, old, mapped=mapped, path=name):
                        return fault
                elif not mapped:  # with mapping, a dropped column is no more in any older version either
                    return f"column {path}{'.' if path else ''}{field.name} no longer exists"
            return None
        case (ArrayType(new, _), ArrayType(old, _)):
            return inner(new, old, "element")
        case (MapType(new_key, new, _), MapType(old_key, old, _)):
            return inner(new_key, old_key, "key") or inner(new, old, "value")
        case (PrimitiveType(new_name), PrimitiveType(old_name)) if _becomes(old_name, new_name):
            return None
    return f"column {path} had another type"


def _becomes(old: str, new: str) -> bool:
    same = canonical_name(old) == canonical_name(new) or (_is_text(old) and _is_text(new))
    return same or old == "void" or is_allowed_change(old, new) or was_allowed_in_preview(old, new)


def _is_text(name: str) -> bool:
    return name == _TEXT or name.startswith((*FIXED_TEXTS, f"{_TEXT} collate "))
