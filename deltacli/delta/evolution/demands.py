"""What a table demands of its rows: NOT NULL and CHECK constraints. Rows are checked by whoever commits the change.

Spec: Struct Field; CHECK Constraints; Column Invariants.
"""

from __future__ import annotations

import re

from deltacli.delta.evolution.draft import Changed, Draft, Effect, Settings, at, forbid, require_field
from deltacli.delta.evolution.requests import AddConstraint, DropConstraint, SetNotNull
from deltacli.delta.evolution.requirements import require_no_identity
from deltacli.delta.schema.column_path import CODE, PathPart, nearest_place
from deltacli.delta.schema.types import StructType
from deltacli.delta.sql.parser import parse_expression
from deltacli.delta.sql.stored import CONSTRAINT_PREFIX, unknown_column
from deltacli.errors import UsageError
from deltacli.hints import command

_SHOWN_NAMES = 20
_RESERVED = "__CHAR_VARCHAR_STRING_LENGTH_CHECK__"


def set_not_null(draft: Draft, change: SetNotNull, _: Settings) -> Changed:
    """Forbid nulls in a column; existing rows must have none."""
    place = draft.finder.find(change.column)
    require_field(place, "made NOT NULL")
    before = "nullable" if place.nearest.nullable else "NOT NULL"
    effect = Effect(change, place.text, before, "NOT NULL", place.text)
    if not effect.is_due:
        return draft, effect
    if any(step.part is not PathPart.FIELD for step in place.steps):
        forbid("alter.not-null", f"{place.text} cannot be NOT NULL: no engine enforces it within arrays and maps")
    around = next((field.name for field in place.fields[:-1] if field.nullable), None)
    if around is not None:
        forbid("alter.not-null", f"{place.text} cannot be NOT NULL: it is null where {around} is, which may be null")
    require_no_identity(draft, place, "made NOT NULL")
    root = draft.root()
    at(root, place.field_address)["nullable"] = False
    return draft.with_schema(root).needing(["invariants"]), effect


def add_constraint(draft: Draft, change: AddConstraint, _: Settings) -> Changed:
    """Add a condition that every row must satisfy; null does not."""
    name, text = change.name.strip(), change.expression.strip().removesuffix(";").strip()
    if not name or name.lower() == _RESERVED.lower():
        forbid("alter.constraint-name", f"a constraint cannot be named {change.name!r}")
    _require_columns(draft.config.schema, change.name, text)
    known = _key_of(draft, name)
    before = None if known is None else str(draft.configuration[known])
    effect = Effect(change, f"constraint {name}", before, text)
    if before is not None and before != text:
        forbid(
            "alter.constraint-exists",
            f"the constraint {known.removeprefix(CONSTRAINT_PREFIX) if known else name} already exists: {before}",
            "drop it first, or choose another name",
        )
    return draft.with_properties({CONSTRAINT_PREFIX + name.lower(): text}).needing(["checkConstraints"]), effect


def _require_columns(schema: StructType | None, name: str, text: str) -> None:
    """Raise UsageError for a condition with a column that does not exist."""
    for path in parse_expression(text).columns if schema is not None else []:
        if schema is None or (unknown := unknown_column(schema, path)) is None:
            continue
        near = nearest_place(schema, path)
        meant = None if near is None else re.sub(rf"\b{re.escape(unknown)}\b", near.text.replace("\\", r"\\"), text)
        raise UsageError(
            f"{text} cannot be a constraint: there is no column {unknown}"
            + (f"; did you mean {near.text}?" if near is not None else ""),
            code=CODE,
            facts={"columns": ", ".join(field.name for field in schema.fields[:_SHOWN_NAMES])},
            hint=command("snapshot", schema=True)
            if meant is None
            else command("alter", "constraint", "add", name, meant),
        )


def drop_constraint(draft: Draft, change: DropConstraint, _: Settings) -> Changed:
    """Drop a constraint; the feature stays in the protocol."""
    known = _key_of(draft, change.name.strip())
    if known is None:
        names = [key[len(CONSTRAINT_PREFIX) :] for key in draft.configuration if _is_constraint(key)]
        listed = f"; it has {', '.join(sorted(names))}" if names else ", and no others"
        message = f"the table has no constraint {change.name}{listed}"
        forbid("alter.constraint-missing", message, command("properties") or "")
    name = known[len(CONSTRAINT_PREFIX) :]
    effect = Effect(change, f"constraint {name}", str(draft.configuration[known]), None)
    return draft.with_properties({known: None}), effect


def _is_constraint(key: str) -> bool:
    return key.lower().startswith(CONSTRAINT_PREFIX)


def _key_of(draft: Draft, name: str) -> str | None:
    """Return the property of a constraint, whose name may differ in case."""
    wanted = f"{CONSTRAINT_PREFIX}{name}".lower()
    return next((key for key in draft.configuration if key.lower() == wanted), None)
