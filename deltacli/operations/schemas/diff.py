"""`schema diff`: what changes from one schema to another, across points, tables and formats."""

from __future__ import annotations

from dataclasses import dataclass, replace

from deltacli.operations.schemas.described import DescribedSchema, matched_by_name
from deltacli.paimon.schema_changes import Change, changes_between, dotted, sentence
from deltacli.typing import Json

_CLASS_KEYS = ("class", "cast", "reason", "fieldId")


@dataclass(frozen=True, slots=True)
class SchemaDiff:
    """Two schemas and what changes from the first to the second.

    `matched_by` is `id` for two points of one history: there a column with another name was renamed. Elsewhere columns
    of equal name are the same.
    """

    before: DescribedSchema
    after: DescribedSchema
    matched_by: str
    changes: tuple[Change, ...]

    def as_json(self) -> dict[str, Json]:
        """Return the content of the document `deltacli.schema-diff`."""
        changes = [self.change_json(change) for change in self.changes]
        return {
            "from": self.before.as_json(),
            "to": self.after.as_json(),
            "matchedBy": self.matched_by,
            "changes": changes,
        }

    def change_json(self, change: Change) -> dict[str, Json]:
        """Return a change as in documents. What Paimon does with old values matters only within its own tables."""
        found = change.as_json()
        if self.matched_by == "id" and self.after.table_format == "paimon":
            return found
        return {name: value for name, value in found.items() if name not in _CLASS_KEYS}


def diff_schemas(before: DescribedSchema, after: DescribedSchema) -> SchemaDiff:
    """Return what changes. Options are compared only within one format."""
    is_history = _are_one_history(before, after)
    old = replace(before.schema, options=before.properties, comment=before.schema.comment or None)
    new = replace(after.schema, options=after.properties, comment=after.schema.comment or None)
    if before.table_format != after.table_format:
        old, new = replace(old, options={}), replace(new, options={})
    if not is_history:
        old, new = matched_by_name(old, new)
    if before.table_format == "delta" or after.table_format == "delta":
        old = replace(old, highest_field_id=new.highest_field_id)
    return SchemaDiff(before, after, "id" if is_history else "name", changes_between(old, new))


def _are_one_history(before: DescribedSchema, after: DescribedSchema) -> bool:
    """Return True if ids mean the same in both: two versions of one branch, or of one Delta table."""
    is_same = (before.table, before.table_format) == (after.table, after.table_format)
    is_same = is_same and before.point.get("branch") == after.point.get("branch")
    return is_same and before.has_ids and after.has_ids


def shown(change: Change) -> str:
    """Return a change in words."""
    return sentence(change)


def field_of(change: Change) -> str:
    """Return the column or the option that a change is about."""
    return dotted(change.path)
