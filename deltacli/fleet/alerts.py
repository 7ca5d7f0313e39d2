"""The alerts of tables, worst first, and alerts of many tables by their cause, each with the number of its tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, NamedTuple

from deltacli.delta.rules.framework.repairs import recover_command
from deltacli.delta.rules.framework.risks import RULES, UNREADABLE, Risk
from deltacli.errors import Unreadable
from deltacli.fleet.policy_file.keys import StepPolicy, parameters_of
from deltacli.fleet.running.journal import NOT_DONE
from deltacli.fleet.thresholds import Judgement
from deltacli.hints import command, parameter
from deltacli.typing import Json, JsonObject
from deltacli.units import format_timestamp, plural

LOSING = frozenset(RULES[Risk.ROWS_LOST].split())
"""Rules whose errors mean that rows are lost."""


_FIRST = 3
"""Tables of a cause whose advice is given."""


class Weight(IntEnum):
    """How bad an alert is, the worst first."""

    ROWS_LOST = 0
    UNREADABLE = 1
    FINDINGS = 2
    FAILED = 3
    REFUSED = 4
    THRESHOLD = 5
    NONE = 6


@dataclass(slots=True)
class StepStatus:
    """The newest outcome of a step of a table. `KEPT` are the fields that a summary keeps, in their order."""

    KEPT: ClassVar[tuple[str, ...]] = (
        *("kind", "state", "exit_code", "timestamp_ms", "run", "message", "succeeded_ms", "code", "findings"),
    )

    kind: str
    state: str
    exit_code: int
    timestamp_ms: int
    run: str
    message: str = ""
    succeeded_ms: int | None = None
    code: str | None = None
    findings: Sequence[JsonObject] = ()
    """The first findings of a validation that reach `fail-on`."""

    @property
    def is_alert(self) -> bool:
        """Return True if somebody has to look."""
        return self.state in NOT_DONE or self.state == "findings"

    @property
    def is_unreadable(self) -> bool:
        """Return True if the step failed because the table cannot be read, as `deltacli snapshot` does."""
        return self.state == "failed" and self.exit_code == Unreadable.exit_code

    def as_json(self) -> dict[str, Json]:
        """Return the step for documents."""
        found: dict[str, Any] = {"kind": self.kind, "state": self.state, "exit": self.exit_code, "run": self.run}  # Any
        found |= {"timestampMs": self.timestamp_ms, "timestamp": format_timestamp(self.timestamp_ms)}
        found |= {"message": self.message}
        return found if self.succeeded_ms is None else found | {"succeededMs": self.succeeded_ms}


class Unread(NamedTuple):
    """Why a run could not read a table, or search a directory of the policy file, which then has a `line`."""

    run: str
    code: str
    message: str
    line: int | None = None


class Alert(NamedTuple):
    """What is wrong with a table. `cause` is the same for tables that have the same fault, whose messages differ, and
    begins like them; `brief` is for one line.
    """

    weight: Weight
    cause: str
    message: str
    brief: str
    advice: str | None


def alerts_of(
    table: str,
    run_command: str,
    problem: Unread | None,
    steps: Iterable[StepStatus],
    exceeded: Iterable[Judgement],
    policy: Mapping[str, StepPolicy],
) -> list[Alert]:
    """Return what is wrong with a table, its steps and its numbers, the worst first. `table` is the name without
    secrets, `run_command` the command of the next run, `policy` has the settings of the steps.
    """
    found = []
    if problem is not None:
        is_table = problem.line is None
        advice = command("validate", table=table) if is_table else command("doctor access", table=table)
        if problem.code == "table.path-missing":
            advice = f"correct the path {table} in the policy file, or leave it out"
        message, cause = f"{problem.code}: {problem.message}", f"{problem.code}: cannot be read"
        found.append(Alert(Weight.UNREADABLE, cause, message, problem.message, advice))
    for step in [step for step in steps if step.is_alert]:
        advice = advice_for(step, table, run_command, policy.get(step.kind))
        cause = ": ".join(filter(None, (f"{step.kind} {step.state}", step.code)))
        weight = _weight_of(step)
        found.append(Alert(weight, cause, f"{step.kind} {step.state}: {step.message}", _brief(step), advice))
    for one in exceeded:
        weight = Weight.FINDINGS if one.threshold == "failed-rules" else Weight.THRESHOLD
        message, cause = f"{one.threshold}: {one.message}", f"{one.threshold}: beyond the limit"
        found.append(Alert(weight, cause, message, one.brief, one.advice))
    found.sort(key=lambda alert: alert.weight)
    if found and found[0].weight <= Weight.UNREADABLE:  # first of all, whatever else costs time
        return [one._replace(advice=None) if one.weight is Weight.THRESHOLD else one for one in found]
    return found


def without_shorter(commands: Iterable[str]) -> list[str]:
    """Return commands, each once, without those that another one repeats with more options."""
    given = dict.fromkeys(commands)
    return [one for one in given if not any(other.startswith(f"{one} ") for other in given)]


def _brief(step: StepStatus) -> str:
    if step.code == "fleet.consent":
        return f"{step.kind} lacks consent = true in the policy"
    said = step.kind if step.state == "findings" else f"{step.kind} {step.state}"
    lost = sorted(LOSING & _rules_of(step)) if step.is_unreadable else []  # else the message has them
    return ", ".join([f"{said}: {step.message.partition('; to accept: ')[0]}", *lost])


def _rules_of(step: StepStatus) -> set[str]:
    return {str(found.get("rule")) for found in step.findings if found.get("severity") == "error"}


def _weight_of(step: StepStatus) -> Weight:
    rules = _rules_of(step)
    if not LOSING.isdisjoint(rules):
        return Weight.ROWS_LOST
    if step.is_unreadable:
        return Weight.UNREADABLE
    if step.state != "findings":
        return Weight.REFUSED if step.state == "refused" else Weight.FAILED
    return Weight.FINDINGS if UNREADABLE.isdisjoint(rules) else Weight.UNREADABLE


def advice_for(step: StepStatus, table: str, run_command: str, policy: StepPolicy | None = None) -> str:
    """Return what to do about a step that was not carried out, or had findings; with the options of its policy."""
    options = parameters_of(step.kind, policy)
    match step.code, step.kind:
        case "fleet.consent", kind:
            return f"add consent = true to {kind} in the policy of the group, or turn {kind} off"
        case "consent.missing", _:
            return f"{run_command} {parameter('fleet run.yes')}"
        case (("data.file-missing" | "dv.file-missing"), "validate"):
            return recover_command(table)
        case "fleet.findings", _:
            return command("validate", table=table)
        case _, "validate":
            return command("validate", table=table, **options)
        case _, "log-expire":
            return command("log expire", table=table, dry_run=True, **options)
        case _, "optimize":
            return command("optimize", table=table, dry_run=True, **options)
        case _, "checkpoint":
            return command("checkpoint", table=table, dry_run=True)
        case _:
            return command("vacuum", table=table, dry_run=True, **options)


class Cause(NamedTuple):
    """What is wrong with some tables, and the advice for the first of them."""

    what: str
    tables: tuple[str, ...]
    advice: str | None
    weight: Weight
    first: tuple[tuple[str, str], ...] = ()
    """The first tables, each with the advice for it."""

    @property
    def sentence(self) -> str:
        """Return the cause with its table, or with the number of its tables."""
        return self.sentence_by(self.tables[0])

    def sentence_by(self, name: str) -> str:
        """Return the cause with its table by this name, or with the number of its tables."""
        kind, found, rest = self.what.partition(" findings: ")
        what = f"{kind}: {rest}" if found and rest[:1].isdigit() else self.what  # which counts them
        return f"{what} ({name})" if len(self.tables) == 1 else f"{what}: {plural(len(self.tables), 'table')}"

    def as_json(self) -> dict[str, Json]:
        """Return the cause for documents."""
        found = {"cause": self.what, "tables": len(self.tables)}
        return found if self.advice is None else found | {"next": self.advice}


def find_causes(tables: Iterable[tuple[str, Iterable[Alert]]]) -> list[Cause]:
    """Return the causes of the alerts of tables: the worst first, then those of the most tables."""
    found: dict[str, list[tuple[str, Alert]]] = {}
    for name, of_table in tables:
        for alert in of_table:
            found.setdefault(alert.cause, []).append((name, alert))
    causes = []
    for cause, alerts in found.items():
        messages = {alert.message for _, alert in alerts}
        what = messages.pop() if len(messages) == 1 else cause
        alerts.sort(key=lambda one: one[1].advice is None)
        names, advice = tuple(dict.fromkeys(name for name, _ in alerts)), alerts[0][1].advice
        first = {name: alert.advice for name, alert in alerts[:_FIRST] if alert.advice is not None}
        causes.append(Cause(what, names, advice, min(alert.weight for _, alert in alerts), tuple(first.items())))
    return sorted(causes, key=lambda cause: (cause.weight, -len(cause.tables)))
