"""The thresholds of a policy, judged by the numbers that the journal has about a table, and the alerts of tables, worst
first, each cause with the number of its tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, ClassVar, NamedTuple

from deltacli.core.errors import Unreadable
from deltacli.core.hints import command, parameter
from deltacli.core.typing import Json, JsonObject
from deltacli.core.units import format_duration, format_limit, format_size, format_timestamp, plural
from deltacli.delta.log.file_actions import SMALL_FILE_BYTES
from deltacli.fleet.policy_file.model import AlertPolicy, StepPolicy, parameters_of
from deltacli.fleet.running.journal import NOT_DONE
from deltacli.rules.framework.repairs import recover_command
from deltacli.rules.framework.risks import RULES, UNREADABLE, Risk

LOSING = frozenset(RULES[Risk.ROWS_LOST].split())
"""Rules whose errors mean that rows are lost."""

_FIRST = 3
"""Tables of a cause whose advice is given."""

Numbers = Mapping[str, int]
"""Name of a number -> its newest value, as in the journal."""


class State(StrEnum):
    """The state of a threshold. UNKNOWN: no run has read the number yet."""

    OK = "ok"
    EXCEEDED = "exceeded"
    UNKNOWN = "unknown"


class Judgement(NamedTuple):
    """A threshold of a table. `value` and `limit` are bytes, milliseconds, a part of 1, or a number of rules.

    `advice` is what to do next, as a command where there is one; `brief` is the message for one short line.
    """

    threshold: str
    state: State
    message: str
    limit: float
    value: float | None = None
    advice: str | None = None
    brief: str = ""

    def as_json(self) -> dict[str, Json]:
        """Return the threshold for documents."""
        found: dict[str, Any] = {"name": self.threshold, "state": self.state.value, "message": self.message}  # Any
        found |= {"limit": self.limit, "value": self.value}
        return found if self.advice is None else found | {"next": self.advice}


def judge_thresholds(
    alerts: AlertPolicy, numbers: Numbers, table: str, now_ms: int, *, level: str | None = None
) -> list[Judgement]:
    """Return the state of each threshold that a policy sets. `table` is a name that may be shown, `level` that of the
    validations that the policy runs.
    """
    found = []
    if alerts.log_bytes is not None:
        found.append(_log_bytes(alerts.log_bytes, numbers, table))
    if alerts.checkpoint_age is not None:
        found.append(_checkpoint_age(alerts.checkpoint_age, numbers, table, now_ms))
    if alerts.small_files is not None:
        found.append(_small_files(alerts.small_files, alerts.least_files, numbers, table))
    if alerts.tombstones is not None:
        found.append(_tombstones(alerts.tombstones, alerts.least_files, numbers, table))
    if alerts.failed_rules is not None:
        found.append(_failed_rules(alerts.failed_rules, numbers, table, level))
    return found


def _log_bytes(limit: int, numbers: Numbers, table: str) -> Judgement:
    if (size := numbers.get("logBytes")) is None:
        return _unknown("log-bytes", limit, "no run has listed the log")
    message = f"the log has {format_size(size)} (limit {format_size(limit)})"
    advice = command("log expire", table=table, dry_run=True)
    return _judged("log-bytes", size, limit, message, advice, message)


def _checkpoint_age(limit: int, numbers: Numbers, table: str, now_ms: int) -> Judgement:
    if (behind := numbers.get("commitsBehind")) is None:
        return _unknown("checkpoint-age", limit, "no run has listed the log")
    if not behind:
        return Judgement("checkpoint-age", State.OK, "the last checkpoint has every commit", limit, 0)
    since = numbers.get("checkpointMs") or numbers.get("behindSinceMs")
    if not since:
        return _unknown("checkpoint-age", limit, "the age of the last checkpoint is not known")
    age = max(0, now_ms - since)
    what = f"no checkpoint, and {plural(behind, 'commit')} of which the oldest is {_age(age)} old"
    brief = f"no checkpoint, and the oldest commit is {_age(age)} old"
    if numbers.get("checkpointMs"):
        what = f"{plural(behind, 'commit')} since the last checkpoint, which is {_age(age)} old"
        brief = f"last checkpoint is {_age(age)} old"
    advice, of_limit = command("checkpoint", table=table), f" (limit {format_duration(limit)})"
    return _judged("checkpoint-age", age, limit, what + of_limit, advice, brief + of_limit)


def _small_files(limit: float, least: int, numbers: Numbers, table: str) -> Judgement:
    files, small = numbers.get("liveFiles"), numbers.get("smallFiles")
    if files is None or small is None:
        return _unknown("small-files", limit, "no validation has counted the data files")
    if files < least:
        return _too_few("small-files", limit, files, least)
    share = small / files
    below = f"below {format_limit(SMALL_FILE_BYTES)} (limit {limit:.0%})"
    message = f"{small:,} of {plural(files, 'data file')} ({share:.0%}) are {below}"
    brief = f"{100 * share:.0f} % small files (limit {100 * limit:.0f} %)"
    return _judged("small-files", share, limit, message, command("optimize", table=table, dry_run=True), brief)


def _tombstones(limit: float, least: int, numbers: Numbers, table: str) -> Judgement:
    files, removed = numbers.get("liveFiles"), numbers.get("tombstones")
    if files is None or removed is None:
        return _unknown("tombstones", limit, "no validation or checkpoint has counted the tombstones")
    if files + removed < least:
        return _too_few("tombstones", limit, files, least)
    share = removed / (files + removed)
    message = f"{plural(removed, 'tombstone')} beside {plural(files, 'data file')} ({share:.0%}, limit {limit:.0%})"
    brief = f"{100 * share:.0f} % tombstones (limit {100 * limit:.0f} %)"
    return _judged("tombstones", share, limit, message, command("checkpoint", table=table), brief)


def _failed_rules(limit: int, numbers: Numbers, table: str, level: str | None) -> Judgement:
    if (failed := numbers.get("failedRules")) is None:
        return _unknown("failed-rules", limit, "no validation has run")
    message = f"{plural(failed, 'rule')} with errors or warnings (limit {limit:,})"
    options = {} if level is None or level == "log" else {"level": level}
    return _judged("failed-rules", failed, limit, message, command("validate", table=table, **options), message)


def _judged(name: str, value: float, limit: float, message: str, advice: str, brief: str) -> Judgement:
    if value < limit:
        return Judgement(name, State.OK, message, limit, value)
    return Judgement(name, State.EXCEEDED, message, limit, value, advice, brief)


def _too_few(name: str, limit: float, files: int, least: int) -> Judgement:
    return Judgement(name, State.OK, f"{plural(files, 'data file')}, fewer than least-files {least:,}", limit)


def _unknown(name: str, limit: float, reason: str) -> Judgement:
    return Judgement(name, State.UNKNOWN, reason, limit)


def _age(duration_ms: int) -> str:
    """Return a duration in its largest unit, rounded down."""
    for unit, length in (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000)):
        if duration_ms >= length:
            return plural(duration_ms // length, unit)
    return plural(duration_ms // 1_000, "second")


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
        "is_read",
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
    is_read: bool = False
    """Whether a validation read the newest version, whatever it found in older ones and in other files."""

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
    return Weight.FINDINGS if step.is_read or UNREADABLE.isdisjoint(rules) else Weight.UNREADABLE


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
        case _, "validate" if step.state == "findings" and _weight_of(step) is Weight.UNREADABLE:
            return command("repair", table=table, dry_run=True)
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
