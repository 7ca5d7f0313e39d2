"""Saved plans of a repair: JSON with a digest. A plan is made again before it is executed, and must ask for no more."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from deltacli.core.documents import dumps
from deltacli.core.errors import NOTHING_CHANGED, Refused, Unreadable
from deltacli.core.hints import command
from deltacli.operations.repair.plan import RepairPlan, Step, location_of
from deltacli.operations.repair.request import RepairRequest
from deltacli.storage import is_address_of
from deltacli.storage.replacement import replacement

if TYPE_CHECKING:
    from deltacli.core.typing import Json

KIND = "deltacli.repair-plan"
_NOT_SAVED = ("dry_run",)


@dataclass(frozen=True)
class SavedPlan:
    """What was agreed to: the request, the steps, and whether more follows from them."""

    table: str
    table_id: str | None
    request: RepairRequest
    steps: frozenset[str]
    is_partial: bool

    def require_covers(self, plan: RepairPlan) -> None:
        """Raise Refused where a plan that was made now belongs to another table, or has steps that this one lacks."""
        if not is_address_of(plan.table.storage, self.table):
            raise Refused(
                "the saved plan is of another table",
                code="repair.plan-of-another",
                facts={"table of the plan": self.table, "this table": plan.table.uri},
                hint=command("repair", save_plan=...),
            )
        if None not in (self.table_id, plan.table_id) and self.table_id != plan.table_id:
            raise Refused(
                "the saved plan is of another table",
                code="repair.plan-of-another",
                facts={"table id of the plan": str(self.table_id), "table id of this table": str(plan.table_id)},
                hint=command("repair", save_plan=...),
            )
        fresh = [step for step in plan.planned if _key(step) not in self.steps]
        if fresh:
            raise Refused(
                f"the table has changed since the plan was saved; {fresh[0].what} is new",
                said_first=NOTHING_CHANGED,
                code="repair.plan-stale",
                facts={"new steps": str(len(fresh)), "rule of the first": fresh[0].rule},
                hint=command("repair", save_plan=...),
            )


def save_plan(plan: RepairPlan, path: str) -> None:
    """Write a plan to a local file atomically, replacing an existing one. Raises StorageFailed."""
    request = {
        one.name: value
        for one in fields(plan.request)
        if one.name not in _NOT_SAVED and (value := getattr(plan.request, one.name)) is not None
    }
    content: dict[str, Json] = {
        "kind": KIND,
        "schemaVersion": 1,
        "table": plan.table.uri,
        "tableId": plan.table_id,
        "version": plan.version,
        "request": {name: _plain(value) for name, value in request.items()},
        "more": plan.is_partial,
        "steps": [
            {"rule": step.rule, "location": location_of(step.place), "action": step.action.value, "what": step.what}
            for step in plan.steps
        ],
    }
    text = dumps({**content, "sha256": _digest(content)})
    with replacement(path) as file:
        file.write(text + b"\n")


def read_plan(path: str) -> SavedPlan:
    """Read a saved plan. Raises Unreadable for a file that is not one, or was changed."""
    try:
        with open(path, "rb") as file:
            found = json.loads(file.read())
        seen = found.pop("sha256")
        if found["kind"] != KIND or seen != _digest(found):
            raise ValueError("its digest does not match")
        return SavedPlan(
            str(found["table"]),
            found["tableId"],
            RepairRequest(**found["request"]),
            frozenset(_text(one["rule"], one["location"], one["action"]) for one in found["steps"]),
            found["more"],
        )
    except FileNotFoundError:
        raise Unreadable(
            f"the plan {path} cannot be read: no such file or directory",
            code="repair.plan-missing",
            hint=command("repair", save_plan=path),
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as fault:
        raise Unreadable(
            f"{path} is not a saved plan of a repair",
            code="repair.plan-unreadable",
            facts={"reason": str(fault)[:200]},
            hint=command("repair", save_plan=...),
        ) from fault


def _plain(value: object) -> Json:
    found: Json = json.loads(json.dumps(value, default=dict))
    return found


def _digest(content: object) -> str:
    import hashlib

    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _key(step: Step) -> str:
    return _text(step.rule, location_of(step.place), step.action.value)


def _text(rule: str, location: object, action: str) -> str:
    return json.dumps([rule, location, action], sort_keys=True)
