"""Whether the rows of a version may be read at all, whatever its files hold. Spec: reader requirements of features."""

from __future__ import annotations

from deltacli.delta.regime import Regime
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

BAD_ENTRY, NOT_ALLOWED = "typewidening.bad-entry", "typewidening.change-not-allowed"
"""The rules of `validate` that report what is refused here."""


def changed_fields(regime: Regime) -> list[NamedField]:
    """The fields that have type changes, well or badly written."""
    text = regime.metadata.schema_string if regime.metadata else None
    if regime.schema is None or not text or "typeChanges" not in text:
        return []
    return [named for named in named_fields(regime.schema) if TYPE_CHANGES_KEY in named.field.metadata]


def require_readable_rows(regime: Regime, version: int) -> None:
    """Raise Unreadable where no reader may read the rows of a version: for a type change that is not supported.

    Spec: Reader Requirements for Type Widening.
    """
    for named in changed_fields(regime):
        for entry in read_type_changes(named.field):
            if must_refuse(entry, regime.features):
                raise _refused(named, entry, version)


def _refused(named: NamedField, entry: TypeChange | BadEntry, version: int) -> Unreadable:
    if isinstance(entry, BadEntry):
        code, seen = BAD_ENTRY, repr(entry.seen)[:200]
        reason = f"the type changes of column {named.path} cannot be read: {entry.reason}"
    else:
        code, seen = NOT_ALLOWED, f"{entry.from_type} to {entry.to_type}"
        reason = f"column {named.path} was changed from {seen}, which is not a supported change of type"
    return Unreadable(
        f"the rows of version {version} cannot be read: {reason}",
        code=code,
        facts={"column": named.path, "seen": seen},
        hint="deltacli validate {table} --select 'typewidening.*'",
    )
