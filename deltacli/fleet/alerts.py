"""The alerts of tables, worst first, and alerts of many tables by their cause, each with the number of its tables."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from deltacli.delta.rules.framework.risks import RULES, UNREADABLE, Risk
from deltacli.hints import quoted_table
from deltacli.typing import Json
from deltacli.units import plural

if TYPE_CHECKING:
    from deltacli.fleet.status import StepStatus, TableStatus

LOSING = frozenset(RULES[Risk.ROWS_LOST].split())
"""Rules whose errors mean that rows are lost."""


class Weight(IntEnum):
    """How bad an alert is, the worst first."""

    ROWS_LOST = 0
    UNREADABLE = 1
    FINDINGS = 2
    FAILED = 3
    REFUSED = 4
    THRESHOLD = 5
    NONE = 6


class Alert(NamedTuple):
    """What is wrong with a table. `cause` is the same for tables that have the same fault; `brief` is for one line."""

    weight: Weight
    cause: tuple[str, ...]
    message: str
    brief: str
    advice: str | None


def alerts_of(table: TableStatus) -> list[Alert]:
    """Return what is wrong with a table, its steps and its numbers, the worst first."""
    found = []
    if (problem := table.problem) is not None:
        look = "validate" if problem.line is None else "doctor access"
        command = f"deltacli {look} {quoted_table(table.shown_name)}"
        message, cause = f"{problem.code}: {problem.message}", ("not", "readable", problem.code)
        found.append(Alert(Weight.UNREADABLE, cause, message, problem.message, command))
    for step in [step for step in table.steps.values() if step.is_alert]:
        advice = advice_for(step, table)
        cause = step.kind, step.state, step.code or ""
        weight = _weight_of(step)
        found.append(Alert(weight, cause, f"{step.kind} {step.state}: {step.message}", _brief(step), advice))
    for one in table.exceeded:
        weight = Weight.FINDINGS if one.threshold == "failed-rules" else Weight.THRESHOLD
        message = f"{one.threshold}: {one.message}"
        found.append(Alert(weight, ("beyond", one.threshold), message, one.brief, one.advice))
    return sorted(found, key=lambda alert: alert.weight)


def _brief(step: StepStatus) -> str:
    if step.code == "fleet.consent":
        return f"{step.kind} lacks consent = true in the policy"
    said = step.kind if step.state == "findings" else f"{step.kind} {step.state}"
    return f"{said}: {step.message.partition('; to accept: ')[0]}"


def _weight_of(step: StepStatus) -> Weight:
    if step.state != "findings":
        return Weight.REFUSED if step.state == "refused" else Weight.FAILED
    rules = {str(found.get("rule")) for found in step.findings if found.get("severity") == "error"}
    if not LOSING.isdisjoint(rules):
        return Weight.ROWS_LOST
    return Weight.FINDINGS if UNREADABLE.isdisjoint(rules) else Weight.UNREADABLE


def advice_for(step: StepStatus, table: TableStatus) -> str:
    """Return what to do about a step that was not carried out, or had findings."""
    name = quoted_table(table.shown_name)
    match step.code, step.kind:
        case "fleet.consent", kind:
            return f"add consent = true to {kind} in the policy of the group, or turn {kind} off"
        case "consent.missing", _:
            return f"{table.run_command} --yes"
        case ("fleet.findings", _) | (_, "validate"):
            return f"deltacli validate {name}"
        case _, "log-expire":
            return f"deltacli log expire {name} --dry-run"
        case _, kind:
            return f"deltacli {kind} {name} --dry-run"


class Cause(NamedTuple):
    """What is wrong with some tables, and the advice for the first of them."""

    what: str
    tables: tuple[str, ...]
    advice: str | None
    weight: Weight

    @property
    def sentence(self) -> str:
        """Return the cause with its table, or with the number of its tables."""
        if len(self.tables) == 1:
            return f"{self.what} ({self.tables[0]})"
        return f"{self.what}: {plural(len(self.tables), 'table')}"

    def as_json(self) -> dict[str, Json]:
        """Return the cause for documents."""
        found = {"cause": self.what, "tables": len(self.tables)}
        return found if self.advice is None else found | {"next": self.advice}


def find_causes(tables: Iterable[TableStatus]) -> list[Cause]:
    """Return the causes of all alerts: the worst first, then those of the most tables."""
    found: dict[tuple[str, ...], list[tuple[str, Alert]]] = {}
    for table in tables:
        for alert in table.found:
            found.setdefault(alert.cause, []).append((table.shown_name, alert))
    causes = []
    for cause, alerts in found.items():
        messages = {alert.message for _, alert in alerts}
        what = messages.pop() if len(messages) == 1 else ": ".join(filter(None, (" ".join(cause[:2]), *cause[2:])))
        names = tuple(dict.fromkeys(name for name, _ in alerts))
        causes.append(Cause(what, names, alerts[0][1].advice, min(alert.weight for _, alert in alerts)))
    return sorted(causes, key=lambda cause: (cause.weight, -len(cause.tables)))
