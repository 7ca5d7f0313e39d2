"""Consent to a change: given to the command before it is planned, or to one plan by somebody who has read it.

The difference matters when another writer commits between the plan and the commit, so that the change is planned again.
With consent to the command (`--yes`, a call of the Python API) the new plan is executed, whatever it does. With consent
to a plan it is executed only if it has the same effects: an append of somebody else does not stop a person who adds a
column, but a renamed column does. Effects are compared as text, by `compute_plan_id`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.core import errors

if TYPE_CHECKING:
    from deltacli.changing.plan import Plan

Consent = str | None
"""The id of the plan that was agreed to, as `compute_plan_id` returns it. None if the command was agreed to."""

_MAX_EFFECTS_SHOWN = 5


def consent_to_command(_plan: Plan) -> Consent:
    """Agree to the command, whatever its plan is, as `--yes` and a call of the Python API do."""
    return None


def consent_to_plan(plan: Plan) -> Consent:
    """Agree to this plan and nothing else, as somebody does who has read it."""
    return compute_plan_id(plan)


def compute_plan_id(plan: Plan) -> str:
    """Return 16 hexadecimal digits that are equal for plans with equal effects."""
    import hashlib  # with OpenSSL, which most commands do without

    # Paths that are not UTF-8 have their bytes as halves of surrogate pairs.
    text = "\n".join(plan.effects()).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:16]


def build_not_agreed_error(agreed_plan: Plan, new_plan: Plan) -> errors.ConflictLost:
    """Return the error for a change that would do something else than what was agreed to.

    Args:
        agreed_plan: The plan that somebody has read.
        new_plan: The plan that was made after another writer has changed the table.
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
