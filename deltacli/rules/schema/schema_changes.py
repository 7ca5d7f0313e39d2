"""Rules about schema changes from one metadata to the next.

A commit that replaces every file, and a table without files, may change anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from deltacli.core.errors import LazyText, command
from deltacli.delta.log.actions import ROWS_CHECKED
from deltacli.delta.log.operations import states_files_replaced
from deltacli.delta.log.segment import Place
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema import types
from deltacli.delta.schema.type_changes import digits_of_decimal, is_allowed_change
from deltacli.delta.schema.types import decimal_digits, is_type_name
from deltacli.rules.framework.base import Area, Finding, Fix
from deltacli.rules.framework.views import CommitView, LiveFile, MetadataView
from deltacli.rules.schema.schema import joined, same_name, shown_path


def replaces_all_files(commit: CommitView) -> bool:
    """Return True if no older file stays live after the commit, or if its operation replaces the table. Also return
    True if that part of the log is missing, because then the commit cannot be judged.
    """
    count = commit.live_count_before
    return count is None or _says_so(commit) or _removes_all(commit, count)


def _says_so(commit: CommitView) -> bool:
    if states_files_replaced(commit.commit_info):
        return True
    parameters = (commit.commit_info or {}).get("operationParameters")
    if not isinstance(parameters, dict) or str(parameters.get("mode")).lower() != "overwrite":
        return False
    return parameters.get("predicate") in (None, "", "[]") and len(commit.removes) > 0


def _removes_all(commit: CommitView, count: int) -> bool:
    if len(commit.removes) < count:
        return False
    gone: set[tuple[str, str]] = set()
    for placed in commit.removes:
        path = placed.action.get("path")
        live: tuple[LiveFile, ...] = tuple(commit.live_before(path) or ()) if isinstance(path, str) else ()
        gone.update((file.path, file.dv_id) for file in live)
    return len(gone) >= count


AREA = Area("schema", spec="Delta-Spark: changes of columns")

_ROWS_BREAK_IT = Fix(
    broken="older rows may hold nulls where readers now expect none",
    advice=LazyText("make the column nullable again: {}", partial(command, "alter", "nullable", "COLUMN")),
)

NOT_NULL_TIGHTENED = AREA.error(
    "schema.not-null-tightened",
    "A nullable column became not null while older files stayed live, by a writer that did not check their rows.",
    *_ROWS_BREAK_IT,
    example='"nullable":true in one metaData, "nullable":false in the next',
)
NEW_NOT_NULL_COLUMN = AREA.error(
    "schema.new-not-null-column",
    "A column was added as not null while files without it stayed live.",
    *_ROWS_BREAK_IT,
    example='{"name":"added","type":"long","nullable":false,"metadata":{}} in a table with files',
)
COLUMN_DROPPED_NO_MAPPING = AREA.warning(
    "schema.column-dropped-no-mapping",
    "A column was removed from the schema without column mapping while files that have it stayed live.",
    spec="Consistency Between Table Metadata and Data Files",
    broken="the files still have the column, so a new column of that name would return the old values",
    repair="commit a metaData with the column, enable column mapping, then drop it again",
    example="a metaData without the column `name` that the metaData before it has",
)
TYPE_CHANGED_ILLEGALLY = AREA.error(
    "schema.type-changed-illegally",
    "The type of a column changed in a way that readers do not support while files of the old type stayed live.",
    spec="Type Widening",
    broken="older files cannot be read as the new type",
    repair="commit a metaData with the old type, and rewrite the newer files",
    loss="nothing, if the newer files can be rewritten",
    example='"type":"string" in one metaData, "type":"long" in the next',
)
CASE_ONLY_CHANGE = AREA.warning(
    "schema.case-only-change",
    "The name of a column changed only in case, without column mapping, while older files stayed live.",
    spec="Schema Serialization Format",
    broken="case-sensitive readers return nulls for older files",
    repair="commit a metaData with the old spelling",
    example='"name":"Id" in one metaData, "name":"id" in the next',
)


@dataclass(frozen=True)
class Owner:
    """Return the field that a type belongs to, and the path from there: `element.value`."""

    field: types.StructField
    way: str = ""

    def into(self, part: str) -> Owner:
        return Owner(self.field, joined(self.way, part))


@AREA.check(
    MetadataView,
    NOT_NULL_TIGHTENED,
    NEW_NOT_NULL_COLUMN,
    COLUMN_DROPPED_NO_MAPPING,
    TYPE_CHANGED_ILLEGALLY,
    CASE_ONLY_CHANGE,
)
def schemas_change_as_files_allow(view: MetadataView) -> Iterator[Finding]:
    """Compare a schema with the previous one, if files written under that one stay live."""
    before, after = view.previous, view.config
    if before is None or before.schema is None or after.schema is None or before.schema == after.schema:
        return
    if view.raw is not after.raw_metadata or _is_another_table(before, after):
        return  # of two metaData actions in a commit only the last applies
    if view.commit is None or replaces_all_files(view.commit):
        return
    info = view.commit.commit_info
    tags = info.get("tags") if isinstance(info, Mapping) else None
    is_checked = isinstance(tags, Mapping) and tags.get(ROWS_CHECKED) == "true"
    for finding in _Comparison(view.place, before, after).structs(before.schema, after.schema, ""):
        if finding.rule is not NOT_NULL_TIGHTENED or not is_checked:
            yield finding


def _is_another_table(before: TableConfiguration, after: TableConfiguration) -> bool:
    return before.metadata is None or after.metadata is None or before.metadata.id != after.metadata.id


class _Comparison:
    """Two schemas and their matching fields: by id if both have column mapping, else by name."""

    def __init__(self, place: Place, before: TableConfiguration, after: TableConfiguration) -> None:
        self._place = place
        self._was_mapped = before.mapping_mode != "none"
        self._is_mapped = after.mapping_mode != "none"

    def structs(self, before: types.StructType, after: types.StructType, path: str) -> Iterator[Finding]:
        has_names = not (self._was_mapped and self._is_mapped)
        gone = {field.name if has_names else _mapped_key(field): field for field in before.fields}
        added: list[types.StructField] = []
        for field in after.fields:
            same = gone.pop(self._key_after(field), None)
            if same is None:
                added.append(field)
            else:
                yield from self._fields(same, field, joined(path, field.name))
        if self._was_mapped or self._is_mapped:
            gone_names: dict[str, types.StructField] = {}
        else:
            gone_names = {field.name.lower(): field for field in gone.values()}
        for field in added:
            here = joined(path, field.name)
            same = gone_names.pop(field.name.lower(), None)
            if same is not None:
                message = f"the name of the column {shown_path(here)} changed only in case"
                yield CASE_ONLY_CHANGE.at(self._at(here), message, seen=field.name, expected=same.name)
                yield from self._fields(same, field, here)
            elif not field.nullable:
                message = f"the column {shown_path(here)} is not null, but older rows have no value"
                yield NEW_NOT_NULL_COLUMN.at(self._at(here), message, seen="nullable false", expected="nullable true")
        for field in gone_names.values():
            if field.data_type != types.PrimitiveType("void"):
                here = joined(path, field.name)
                message = f"the column {shown_path(here)} was removed without column mapping, but files still have it"
                yield COLUMN_DROPPED_NO_MAPPING.at(self._at(here), message)

    def _fields(self, before: types.StructField, after: types.StructField, path: str) -> Iterator[Finding]:
        if before.nullable and not after.nullable:
            yield self._tightened(path, path)
        yield from self._types(before.data_type, after.data_type, path, Owner(after))

    def _types(self, before: types.DataType, after: types.DataType, path: str, owner: Owner) -> Iterator[Finding]:
        match before, after:
            case types.StructType(), types.StructType():
                yield from self.structs(before, after, path)
            case types.ArrayType(), types.ArrayType():
                if before.contains_null and not after.contains_null:
                    yield self._tightened(path, f"an element of {path}")
                yield from self._types(before.element, after.element, joined(path, "element"), owner.into("element"))
            case types.MapType(), types.MapType():
                if before.value_contains_null and not after.value_contains_null:
                    yield self._tightened(path, f"a value of {path}")
                yield from self._types(before.key, after.key, joined(path, "key"), owner.into("key"))
                yield from self._types(before.value, after.value, joined(path, "value"), owner.into("value"))
            case _:
                if not _may_become(before, after) and not _is_recorded(owner, after):
                    message = f"the type of {shown_path(path)} changed in a way that older files do not support"
                    seen, expected = types.simple_name(after), types.simple_name(before)
                    yield TYPE_CHANGED_ILLEGALLY.at(self._at(path), message, seen=seen, expected=expected)

    def _tightened(self, path: str, what: str) -> Finding:
        message = f"{shown_path(what)} was nullable before, so older rows may be null"
        return NOT_NULL_TIGHTENED.at(self._at(path), message, seen="not null", expected="nullable")

    def _key_after(self, field: types.StructField) -> object:
        """When mapping begins, the physical name is the old name. A rename may come at the same time."""
        if not self._is_mapped:
            return field.name
        if self._was_mapped:
            return _mapped_key(field)
        return types.get_recorded_physical_name(field)

    def _at(self, path: str) -> Place:
        return self._place._replace(key=path)


def _mapped_key(field: types.StructField) -> object:
    number = field.metadata.get("delta.columnMapping.id")
    return number if type(number) is int else field.name


def _may_become(before: types.DataType, after: types.DataType) -> bool:
    """Return True if files of one type are valid for the other, or if another rule reports a bad type name."""
    if isinstance(before, types.PrimitiveType) and same_name(before.name) == "void":
        return True
    if not isinstance(before, types.PrimitiveType) or not isinstance(after, types.PrimitiveType):
        return False
    if not _is_sound(before.name) or not _is_sound(after.name):
        return True
    old, new = same_name(before.name), same_name(after.name)
    return old == new or is_allowed_change(old, new)


def _is_sound(name: str) -> bool:
    return is_type_name(name) and (decimal_digits(name) is None or digits_of_decimal(name) is not None)


def _is_recorded(owner: Owner, after: types.DataType) -> bool:
    """Return True if `delta.typeChanges` records a change to this type; rules of widening check if it is allowed."""
    changes = owner.field.metadata.get("delta.typeChanges")
    if not isinstance(changes, list) or not isinstance(after, types.PrimitiveType):
        return False
    return any(
        isinstance(change, dict)
        and isinstance(change.get("toType"), str)
        and same_name(change["toType"]) == same_name(after.name)
        and (change.get("fieldPath") or "") == owner.way
        for change in changes
    )
