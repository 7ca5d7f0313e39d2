"""Consent to a change: either to the command, before it is planned, or to one plan that the user has read.

The two differ if another writer commits first, so that the change is planned again. With consent to the command
(`--yes`, or a call of the Python API), any new plan is executed. With consent to a plan, the new plan is executed only
if it has the same effects. For example, a user has agreed to add a column. If another writer appends files, the column
is still added. If another writer renames a column, the command stops. Effects are compared as text (`compute_plan_id`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.core import errors

if TYPE_CHECKING:
    from deltacli.changing.plan import Plan

Consent = str | None
"""The id of the plan that the user has agreed to (`compute_plan_id`); None if the user has agreed to the command."""

_MAX_EFFECTS_SHOWN = 5


def consent_to_command(_plan: Plan) -> Consent:
    """Return the consent to the command, so that any plan of it may be executed."""
    return None


def consent_to_plan(plan: Plan) -> Consent:
    """Return the consent to one plan, so that only plans with the same effects may be executed."""
    return compute_plan_id(plan)


def compute_plan_id(plan: Plan) -> str:
    """Return an id of 16 hexadecimal digits that is equal for plans with equal effects."""
    import hashlib  # loads OpenSSL, which most commands do not need

    # Effects contain paths, and a path with invalid UTF-8 is decoded to halves of surrogate pairs.
    text = "\n".join(plan.effects()).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:16]


def build_not_agreed_error(agreed_plan: Plan, new_plan: Plan) -> errors.ConflictLost:
    """Return the error for a change whose new plan has other effects than the plan that the user has agreed to.

    Args:
        agreed_plan: The plan that the user has agreed to.
        new_plan: The plan that was made after another writer committed.
    """
    agreed_effects = list(agreed_plan.effects())[:_MAX_EFFECTS_SHOWN]
    new_effects = list(new_plan.effects())[:_MAX_EFFECTS_SHOWN]
    facts = {f"agreed to {number}": effect for number, effect in enumerate(agreed_effects, 1)}
    facts |= {f"now {number}": effect for number, effect in enumerate(new_effects, 1)}
    return errors.ConflictLost(
        "another writer has changed the table, and the change would now do something else",
        preamble=errors.NOTHING_CHANGED,
        facts=facts,
        hint=errors.command("history", limit=10),
    )
