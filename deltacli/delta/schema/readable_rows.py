"""Whether readers may read the rows of a version at all, whatever its files contain. Spec: reader requirements of
features.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.schema.type_changes import (
    TYPE_CHANGES_KEY,
    BadEntry,
    NamedField,
    TypeChange,
    must_refuse,
    named_fields,
    read_type_changes,
)
from deltacli.errors import Unreadable
from deltacli.hints import command

BAD_ENTRY, NOT_ALLOWED = "typewidening.bad-entry", "typewidening.change-not-allowed"
"""The rules of `validate` that report what is refused here."""


def changed_fields(config: TableConfiguration) -> list[NamedField]:
    """Return the fields that have type changes, valid or not."""
    text = config.metadata.schema_string if config.metadata else None
    if config.schema is None or not text or "typeChanges" not in text:
        return []
    return [named for named in named_fields(config.schema) if TYPE_CHANGES_KEY in named.field.metadata]


class RefusedChange(NamedTuple):
    """A type change that no reader may accept: the rule that reports it, its column, what was seen, and why."""

    rule: str
    column: str
    seen: str
    reason: str


def refused_change(config: TableConfiguration, features: Collection[str]) -> RefusedChange | None:
    """Return the first type change that no reader may accept in a table with these features.

    Spec: Reader Requirements for Type Widening.
    """
    for named in changed_fields(config):
        for entry in read_type_changes(named.field):
            if must_refuse(entry, features):
                return _described(named.path, entry)
    return None


def _described(column: str, entry: TypeChange | BadEntry) -> RefusedChange:
    if isinstance(entry, BadEntry):
        reason = f"the type changes of column {column} cannot be read: {entry.reason}"
        return RefusedChange(BAD_ENTRY, column, repr(entry.seen)[:200], reason)
    seen = f"{entry.from_type} to {entry.to_type}"
    reason = f"column {column} was changed from {seen}, which is not a supported type change"
    return RefusedChange(NOT_ALLOWED, column, seen, reason)


def require_readable_rows(config: TableConfiguration, version: int) -> None:
    """Raise Unreadable if no reader may read the rows of a version because of an unsupported type change."""
    refusal = refused_change(config, config.features)
    if refusal is not None:
        raise Unreadable(
            f"the rows of version {version} cannot be read: {refusal.reason}",
            code=refusal.rule,
            facts={"column": refusal.column, "seen": refusal.seen},
            hint=command("validate", select=["typewidening.*"]),
        )
