"""The status of a fleet: what the journal has about each table, its last steps, and how its numbers changed."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from urllib.parse import quote

import orjson

from deltacli.core.documents import dumps
from deltacli.core.errors import EXIT_FINDINGS, EXIT_OK, PartlyDone, Unreadable, command, parameter
from deltacli.core.lock_free_property import cached_property
from deltacli.core.times import format_duration, format_timestamp
from deltacli.core.typing import Json, JsonObject
from deltacli.core.units import format_size, format_size_limit, plural
from deltacli.delta.log.file_actions import SMALL_FILE_BYTES
from deltacli.fleet.policy_file.model import OF_TABLE, AlertPolicy, CopyPolicy, FleetFile, StepPolicy, list_parameters
from deltacli.fleet.running.journal import NOT_DONE, JournalFiles, Record, RunRecord, Summary, read_summary
from deltacli.rules.framework.repairs import ARCHIVED_FILES, RULES, UNREADABLE, Risk, recover_command
from deltacli.storage.secrets import mask_secrets_of_all

# -- the thresholds of a policy ----------------------------------------------------------------------------------------

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
        found: dict[str, Any] = {"name": self.threshold, "state": self.state.value, "message": self.message}  # Any
        found |= {"limit": self.limit, "value": self.value}
        return found if self.advice is None else found | {"next": self.advice}


def judge_thresholds(
    alerts: AlertPolicy,
    numbers: Numbers,
    table: str,
    now_ms: int,
    *,
    level: str | None = None,
    target: str | None = None,
    checkpoints: Sequence[str] = (),
) -> list[Judgement]:
    """Return the state of each threshold that a policy sets. `table` is a name that may be shown, `level` that of the
    validations that the policy runs, `target` the replica of the table, `checkpoints` patterns of those of queries.
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
    if alerts.copy_lag is not None:
        found.append(_copy_lag(alerts.copy_lag, numbers, table, now_ms, target))
    if alerts.failed_rules is not None:
        found.append(_judge_failed_rules(alerts.failed_rules, numbers, table, level))
    if alerts.stream_lag is not None:
        found.append(_stream_lag(alerts.stream_lag, numbers, table, checkpoints))
    if alerts.stream_dead is not None:
        found.append(_stream_dead(alerts.stream_dead, numbers, table, checkpoints))
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
    below = f"below {format_size_limit(SMALL_FILE_BYTES)} (limit {limit:.0%})"
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


def _judge_failed_rules(limit: int, numbers: Numbers, table: str, level: str | None) -> Judgement:
    if (failed := numbers.get("failedRules")) is None:
        return _unknown("failed-rules", limit, "no validation has run")
    message = f"{plural(failed, 'rule')} with errors or warnings (limit {limit:,})"
    options = {} if level is None or level == "log" else {"level": level}
    return _judged("failed-rules", failed, limit, message, command("validate", table=table, **options), message)


def _copy_lag(limit: int, numbers: Numbers, table: str, now_ms: int, target: str | None) -> Judgement:
    behind, copied_ms = numbers.get("copyLag"), numbers.get("copiedMs")
    if behind is None or copied_ms is None:
        return _unknown("copy-lag", limit, "no copy has ended")
    if not behind:
        return Judgement("copy-lag", State.OK, "the replica has every version", limit, 0)
    age = max(0, now_ms - copied_ms)
    since = f"was up to date {_age(age)} ago (limit {format_duration(limit)})"
    message, brief = f"the replica lacks {plural(behind, 'version')}, and {since}", f"the replica {since}"
    return _judged("copy-lag", age, limit, message, _copy_command(table, target), brief)


def _copy_command(table: str, target: str | None) -> str:
    return command("copy", target or "DST", table=table, replica=True, dry_run=True)


_NO_STREAMS = "no log-expire or vacuum with protect-streams has read the checkpoints"


def _stream_lag(limit: int, numbers: Numbers, table: str, checkpoints: Sequence[str]) -> Judgement:
    if (lag := numbers.get("streamLagMs")) is None:
        return _unknown("stream-lag", limit, _NO_STREAMS)
    message = f"a query is behind by commits that are {_age(lag)} old (limit {format_duration(limit)})"
    return _judged("stream-lag", lag, limit, message, _streams_command(table, checkpoints), message)


def _stream_dead(limit: int, numbers: Numbers, table: str, checkpoints: Sequence[str]) -> Judgement:
    if (dead := numbers.get("deadStreams")) is None:
        return _unknown("stream-dead", limit, _NO_STREAMS)
    message = f"{dead:,} streaming {'query' if dead == 1 else 'queries'} cannot continue (limit {limit:,})"
    return _judged("stream-dead", dead, limit, message, _streams_command(table, checkpoints), message)


def _streams_command(table: str, checkpoints: Sequence[str]) -> str:
    return command("streams", table=table, checkpoints=[*checkpoints] or "GLOB")


def _judged(name: str, value: float, limit: float, message: str, advice: str, brief: str) -> Judgement:
    if value < limit:
        return Judgement(name, State.OK, message, limit, value)
    return Judgement(name, State.EXCEEDED, message, limit, value, advice, brief)


def _too_few(name: str, limit: float, files: int, least: int) -> Judgement:
    return Judgement(name, State.OK, f"{plural(files, 'data file')}, fewer than least-files {least:,}", limit)


def _unknown(name: str, limit: float, reason: str) -> Judgement:
    return Judgement(name, State.UNKNOWN, reason, limit)


def _age(duration_ms: int) -> str:
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
        *("is_read", "is_of_other"),
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
    is_of_other: bool = False
    """Whether the step failed because of another table, such as one of `protect-from`."""

    @property
    def is_alert(self) -> bool:
        return self.state in NOT_DONE or self.state == "findings"

    @property
    def is_unreadable(self) -> bool:
        """Return True if the step failed because the table cannot be read, as `deltacli snapshot` does."""
        return self.state == "failed" and self.exit_code == Unreadable.exit_code and not self.is_of_other

    def as_json(self) -> dict[str, Json]:
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


def without_shorter(commands: Iterable[str]) -> list[str]:
    """Return commands, each once, without those that another one repeats with more options."""
    given = dict.fromkeys(commands)
    return [one for one in given if not any(other.startswith(f"{one} ") for other in given)]


def _brief(step: StepStatus) -> str:
    if step.code == "fleet.consent":
        return f"{step.kind} lacks consent = true in the policy"
    said = step.kind if step.state == "findings" else f"{step.kind} {step.state}"
    lost = sorted(LOSING & _rules_of(step)) if step.is_unreadable else []  # else the message has them
    problem = step.message.partition("; to accept: ")[0]  # layout: the page of a fleet has no room for the advice
    return ", ".join([f"{said}: {problem}", *lost])


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


def _is_unreadable(step: StepStatus) -> bool:
    return step.state == "findings" and _weight_of(step) is Weight.UNREADABLE


def target_of(settings: CopyPolicy, table: str) -> str:
    path = (table.partition("://")[2] if "://" in table else table).strip("/")
    path = "/".join(part.replace(".", "%2E") if part in (".", "..") else part for part in path.split("/"))
    path = quote(path) if settings.to.startswith("file:") else path
    return OF_TABLE.sub(lambda of: path if of[1] == "path" else path.rpartition("/")[2], settings.to)


def replica_of(table: str, policy: Mapping[str, StepPolicy]) -> str | None:
    """Return the path or URI of the replica of a table, None where its policy has no step `copy`."""
    settings = policy.get("copy")
    return target_of(settings, table) if isinstance(settings, CopyPolicy) else None


def advice_for(step: StepStatus, table: str, run_command: str, policy: StepPolicy | None = None) -> str:
    """Return what to do about a step that was not carried out, or had findings; with the options of its policy."""
    options = list_parameters(step.kind, policy)
    match step.code, step.kind:
        case "fleet.consent", kind:
            return f"add consent = true to {kind} in the policy of the group, or turn {kind} off"
        case "consent.missing", _:
            return f"{run_command} {parameter('fleet run.yes')}"
        case (("data.file-missing" | "dv.file-missing"), "validate"):
            return recover_command(table)
        case "fleet.findings", _:
            return command("validate", table=table)
        # No repair brings archived files back: the finding names what does.
        case code, "validate" if code != ARCHIVED_FILES and _is_unreadable(step):
            return command("repair", table=table, dry_run=True)
        case _, "validate":
            return command("validate", table=table, **options)
        case _, "log-expire":
            return command("log expire", table=table, dry_run=True, **options)
        case _, "optimize":
            return command("optimize", table=table, dry_run=True, **options)
        case _, "checkpoint":
            return command("checkpoint", table=table, dry_run=True)
        case _, "copy":
            return _copy_command(table, replica_of(table, {"copy": policy} if policy else {}))
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


# -- the status of a fleet ---------------------------------------------------------------------------------------------

POINTS = 30
"""Number of values that a trend keeps."""

OF_FACTS = ("logBytes", "logFiles", "commitsBehind")
OF_STEPS = ("liveFiles", "liveBytes", "rows", "smallFiles", "tombstones", "findings", "errors")
OF_STREAMS = ("streamLagMs", "deadStreams")
TOTALS = ("liveFiles", "liveBytes", "rows", "logBytes", "tombstones", "findings")
"""The numbers whose sum over all tables is kept for each run."""


class Point(NamedTuple):
    """A number at a time."""

    timestamp_ms: int
    value: int


class Trends(Mapping[str, Sequence[Point]]):
    """The last values of the numbers of a table. Those of a summary are read when they are first needed."""

    def __init__(self, packed: bytes = b"{}") -> None:
        self._packed = packed
        self._series: dict[str, list[list[int]]] | None = None

    @property
    def series(self) -> dict[str, list[list[int]]]:
        """Return the values with their times, as documents have them."""
        if self._series is None:
            self._series = orjson.loads(self._packed)
        return self._series

    @property
    def packed(self) -> bytes:
        return self._packed if self._series is None else dumps(self._series)

    def add(self, name: str, timestamp_ms: int, value: int) -> None:
        values = self.series.setdefault(name, [])
        values.append([timestamp_ms, value])
        del values[:-POINTS]

    def __getitem__(self, name: str) -> Sequence[Point]:
        return [Point(*value) for value in self.series[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.series)

    def __len__(self) -> int:
        return len(self.series)


@dataclass(slots=True)
class TableStatus:
    """What the journal has about a table, or about a directory that the newest run could not search."""

    name: str
    group: str
    seen_ms: int = 0
    steps: dict[str, StepStatus] = field(default_factory=dict)
    problem: Unread | None = None
    """Why the newest run could not read it."""
    trends: Trends = field(default_factory=Trends)
    numbers: dict[str, int] = field(default_factory=dict)
    """The newest value of each number, as thresholds need it."""
    judgements: Sequence[Judgement] = ()
    shown_name: str = ""
    """The name without secrets."""

    run_command: str = field(default_factory=partial(command, "fleet run"))
    """The command of the next run."""
    policy: Mapping[str, StepPolicy] = field(default_factory=dict)
    """The settings of the steps, as the policy file has them now."""

    @property
    def weight(self) -> Weight:
        return next((alert.weight for alert in self.found), Weight.NONE)

    @property
    def weights(self) -> set[Weight]:
        """Return how bad its alerts are: `Weight.NONE` alone without alerts, several where rows may be lost, too."""
        found = {alert.weight for alert in self.found}
        if any(step.is_unreadable for step in self.steps.values()):
            found.add(Weight.UNREADABLE)
        return found or {Weight.NONE}

    @property
    def validated_ms(self) -> int | None:
        """Return when its last complete validation ended, whatever it found; None without one."""
        last = self.steps.get("validate")
        if last is None:
            return None
        return last.timestamp_ms if last.state in ("done", "findings") else last.succeeded_ms

    @property
    def exceeded(self) -> list[Judgement]:
        return [one for one in self.judgements if one.state is State.EXCEEDED]

    @property
    def found(self) -> list[Alert]:
        """Return what is wrong, the worst first."""
        table, problem, found = self.shown_name, self.problem, []
        if problem is not None:
            is_table = problem.line is None
            advice = command("validate", table=table) if is_table else command("doctor access", table=table)
            if problem.code == "table.path-missing":
                advice = f"correct the path {table} in the policy file, or leave it out"
            message, cause = f"{problem.code}: {problem.message}", f"{problem.code}: cannot be read"
            found.append(Alert(Weight.UNREADABLE, cause, message, problem.message, advice))
        for step in [step for step in self.steps.values() if step.is_alert]:
            advice = advice_for(step, table, self.run_command, self.policy.get(step.kind))
            cause = ": ".join(filter(None, (f"{step.kind} {step.state}", step.code)))
            weight = _weight_of(step)
            found.append(Alert(weight, cause, f"{step.kind} {step.state}: {step.message}", _brief(step), advice))
        for one in self.exceeded:
            weight = Weight.FINDINGS if one.threshold == "failed-rules" else Weight.THRESHOLD
            message, cause = f"{one.threshold}: {one.message}", f"{one.threshold}: beyond the limit"
            found.append(Alert(weight, cause, message, one.brief, one.advice))
        found.sort(key=lambda alert: alert.weight)
        if found and found[0].weight <= Weight.UNREADABLE:  # first of all, whatever else costs time
            return [one._replace(advice=None) if one.weight is Weight.THRESHOLD else one for one in found]
        return found

    @property
    def alerts(self) -> list[str]:
        return [alert.message for alert in self.found]

    @property
    def advice(self) -> list[str]:
        """Return what to do about the alerts, each once."""
        return without_shorter(alert.advice for alert in self.found if alert.advice is not None)

    def note(self, name: str, timestamp_ms: int, value: object) -> None:
        if type(value) is int:
            self.trends.add(name, timestamp_ms, value)
            self.numbers[name] = value

    def as_json(self) -> dict[str, Json]:
        weights = self.weights
        found: dict[str, Any] = {
            "table": self.shown_name,
            "group": self.group,
            "seenMs": self.seen_ms,
            "losesRows": Weight.ROWS_LOST in weights,
            "unreadable": Weight.UNREADABLE in weights,
        }  # Any
        if self.problem is not None:
            found["problem"] = {"code": self.problem.code, "message": self.problem.message}
        return found | {
            "alerts": self.alerts,
            "next": self.advice,
            "thresholds": [one.as_json() for one in self.judgements],
            "steps": [step.as_json() for step in self.steps.values()],
            "trends": self.trends.series,
        }


@dataclass
class FleetStatus:
    """The tables, those with the worst alerts and the most lost files first, and the newest run."""

    tables: list[TableStatus]
    runs: int
    newest: RunRecord | None
    trends: dict[str, deque[Point]] = field(default_factory=dict)
    """Number -> its sum over all tables at the end of each run."""

    @cached_property
    def weights(self) -> Counter[Weight]:
        """Return how many tables have an alert of each weight, and under `Weight.NONE` those without alerts."""
        return Counter(weight for table in self.tables for weight in table.weights)

    @property
    def alerted(self) -> int:
        return len(self.tables) - self.weights[Weight.NONE]

    @property
    def headline(self) -> str:
        """Return how many tables have alerts, lose rows, and cannot be read, as the summary has them."""
        tables = plural(len(self.tables), "table")
        if not self.alerted:
            return f"{tables} without alerts" if self.tables or self.newest else "no run yet"
        lost, unreadable = self.weights[Weight.ROWS_LOST], self.weights[Weight.UNREADABLE]
        said = f"{self.alerted:,} of {tables} {'has' if self.alerted == 1 else 'have'} alerts"
        parts = [f"{lost:,} may lose rows"] if lost else []
        parts += [f"{unreadable:,} cannot be read"] if unreadable else []
        return f"{said}: {', '.join(parts)}" if parts else said

    @property
    def unknown(self) -> dict[str, list[TableStatus]]:
        found: dict[str, list[TableStatus]] = {}
        for table in self.tables:
            for one in table.judgements:
                if one.state is State.UNKNOWN:
                    found.setdefault(f"{one.threshold}: {one.message}", []).append(table)
        return found

    @property
    def exit_code(self) -> int:
        """Return 5 if the newest run was interrupted, 1 for alerts, else 0."""
        if self.newest is not None and self.newest.state == "interrupted":
            return PartlyDone.exit_code
        return EXIT_FINDINGS if self.alerted else EXIT_OK

    def summary(self) -> dict[str, int]:
        """Return counts for documents."""
        return {
            "tables": len(self.tables),
            "alerts": self.alerted,
            "losingRows": self.weights[Weight.ROWS_LOST],
            "unreadable": self.weights[Weight.UNREADABLE],
            "runs": self.runs,
            "unknown": sum(map(len, self.unknown.values())),
        }


def read_status(
    state: Path, only: Iterable[str], file: FleetFile, now_ms: int, *, run_command: str | None = None
) -> FleetStatus:
    """Return the status of the tables of these groups, of all for none. The thresholds are those that the policy file
    has now; `run_command` is what advice names as the next run. Raises UsageError.

    The tables of a group that the policy file no longer has are left out once all of its groups have been run since: a
    group may have another name now, and its tables get that from its next run.
    """
    summary = read_summary(state)
    reader = StatusReader(summary)
    for run, record in JournalFiles(state, summary).added():
        reader.take(run, record)
    policies = {group.name: group.policy for group in file.groups}
    status = reader.result(frozenset(only), frozenset(policies))
    for table in status.tables:
        table.run_command = run_command or table.run_command
        policy = policies.get(table.group)
        table.policy, alerts = (policy.steps, policy.alerts) if policy is not None else ({}, None)
        if alerts is not None and table.problem is None:
            level = getattr(table.policy.get("validate"), "level", None)
            target = replica_of(table.shown_name, table.policy)
            protected = (getattr(table.policy.get(step), "protect_streams", ()) for step in ("log-expire", "vacuum"))
            table.judgements = judge_thresholds(
                alerts,
                table.numbers,
                table.shown_name,
                now_ms,
                level=level,
                target=target,
                checkpoints=tuple(dict.fromkeys(pattern for patterns in protected for pattern in patterns)),
            )
    status.tables.sort(key=lambda table: (table.weight, -table.numbers.get("lostFiles", 0), table.name))
    return status


class StatusReader:
    """Makes a status of the events of a journal, from a summary on."""

    def __init__(self, summary: Summary) -> None:
        of_runs = summary.of_runs
        self._tables = {
            state["table"]: _table_of(state, trends) for state, trends in summary.tables if "group" in state
        }
        self._runs: dict[str, RunRecord] = {}
        self._earlier: int = of_runs.get("runs", 0)
        """Runs of the summary, but for the newest one."""
        if newest := of_runs.get("newest"):
            self._runs[newest["run"]] = RunRecord(*(newest[name] for name in RunRecord.KEPT))
            self._earlier -= 1
        self._newest_of: dict[str, str] = dict(of_runs.get("newestOf", {}))
        self._sums: dict[str, dict[str, int]] = {group: dict(sums) for group, sums in of_runs.get("sums", {}).items()}
        """Group -> the sums of its tables."""
        self._totals: deque[tuple[int, dict[str, dict[str, int]]]] = deque(of_runs.get("totals", ()), maxlen=POINTS)
        """The sums at the end of each run."""

    @property
    def tables(self) -> Collection[str]:
        return self._tables.keys()

    def kept(self, name: str) -> tuple[Record, bytes]:
        """Return what a summary keeps of a table: its state and its trends."""
        table = self._tables.get(name)
        if table is None:
            return {}, b"{}"
        steps = [[getattr(step, field) for field in StepStatus.KEPT] for step in table.steps.values()]
        state = {"group": table.group, "seen": table.seen_ms, "steps": steps, "numbers": table.numbers}
        return state | {"problem": table.problem}, table.trends.packed

    @property
    def kept_of_runs(self) -> Record:
        """Return what a summary keeps of all runs, but for the newest one."""
        runs = self._earlier + len(self._runs)
        return {"runs": runs, "newestOf": self._newest_of, "sums": self._sums, "totals": list(self._totals)}

    def take(self, run: str, record: Record) -> None:
        """Take one event; events of one run come in their order, and runs by their names."""
        match record["type"]:
            case "run-started" | "run-resumed":
                self._runs.setdefault(run, RunRecord(run)).take(record)
                for group in record.get("groups", ()):
                    self._newest_of[group] = max(run, self._newest_of.get(group, run))
            case "run-finished" if run in self._runs:
                self._runs[run].take(record)
                self._note_totals(record["timestampMs"])
            case "table-gone" if "table" in record:
                table = self._tables.pop(record["table"], None)
                if table is not None:
                    self._add(table.group, _totals_of(table), -1)
            case "table-facts" | "table-unreadable" | "step-finished" if "table" in record:
                self._take_table(run, record)

    def _take_table(self, run: str, record: Record) -> None:
        name, now_ms = record["table"], record["timestampMs"]
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = TableStatus(name, "")
        group, before = table.group, _totals_of(table)
        table.group, table.seen_ms = str(record.get("group", "")), max(table.seen_ms, now_ms)
        match record["type"]:
            case "table-unreadable":
                table.problem = Unread(run, str(record.get("code")), str(record.get("message")), record.get("line"))
            case "table-facts":
                facts = record.get("facts", {})
                self._note(table, now_ms, facts, OF_FACTS)
                table.numbers |= {name: facts.get(name) or 0 for name in ("checkpointMs", "behindSinceMs", "version")}
                self._note_lag(table, now_ms)
            case _:
                self._take_step(table, run, record)
        after = _totals_of(table)
        if after != before or group != table.group:
            self._add(group, before, -1)
            self._add(table.group, after, 1)

    def _add(self, group: str, totals: Totals, sign: int) -> None:
        sums = self._sums.setdefault(group, {})
        for series, value in totals.items():
            sums[series] = sums.get(series, 0) + sign * value

    def _take_step(self, table: TableStatus, run: str, record: Record) -> None:
        kind, now_ms, state = record["step"], record["timestampMs"], record["state"]
        before = table.steps.get(kind)
        found = StepStatus(kind, state, record.get("exit", 0), now_ms, run, record.get("message", ""))
        found.succeeded_ms = before.succeeded_ms if before else None
        if not found.is_alert:
            found.succeeded_ms = now_ms
        table.steps[kind] = found
        found.code, details = record.get("code"), record.get("details", {})
        found.findings, found.is_read = details.get("findings", ()), "liveFiles" in details
        found.is_of_other = "protectedTable" in details
        self._note(table, now_ms, details, OF_STEPS if kind != "vacuum" else ())
        if kind == "vacuum" and "liveBytes" not in table.numbers:  # its number includes files of deletion vectors
            table.note("liveFiles", now_ms, details.get("liveFiles"))
        if kind == "validate" and "rules" in details:
            at_most = min(len(details["rules"]), details.get("errors", 0) + details.get("warnings", 0))
            table.numbers["failedRules"] = int(details.get("failedRules", at_most))  # older versions do not record it
            table.numbers["lostFiles"] = sum(count for rule, count in details["rules"].items() if rule in LOSING)
            table.note("findings", now_ms, sum(details.get(name, 0) for name in ("errors", "warnings", "infos")))
        if kind in ("vacuum", "log-expire"):
            table.note("deletedBytes", now_ms, details.get("sizeBytes"))
            self._note(table, now_ms, details, OF_STREAMS)
        if kind == "copy" and "version" in details:
            table.numbers |= {"copiedVersion": details["version"], "copiedMs": now_ms}
            self._note_lag(table, now_ms)
        if state == "done":
            _age_facts(table.numbers, kind, now_ms, details)

    @staticmethod
    def _note_lag(table: TableStatus, now_ms: int) -> None:
        """Note how many versions the replica lacks, and for how many milliseconds it may have lacked them."""
        numbers = table.numbers
        if "copiedVersion" in numbers:
            behind = max(0, numbers.get("version", 0) - numbers["copiedVersion"])
            table.note("copyLag", now_ms, behind)
            table.note("copyLagMs", now_ms, max(0, now_ms - numbers["copiedMs"]) if behind else 0)

    @staticmethod
    def _note(table: TableStatus, now_ms: int, numbers: JsonObject, names: Iterable[str]) -> None:
        for name in names:
            table.note(name, now_ms, numbers.get(name))

    def _note_totals(self, now_ms: int) -> None:
        self._totals.append((now_ms, {group: dict(sums) for group, sums in self._sums.items() if sums}))

    def result(self, only: frozenset[str], known: frozenset[str]) -> FleetStatus:
        """Return the status of the tables of these groups, of all for none; `known` are the groups that exist."""
        tables = []
        for table in self._tables.values():
            if (only and table.group not in only) or (table.group not in known and self._is_left(table, known)):
                continue
            if table.problem is not None and table.problem.run != self._newest_of.get(table.group, table.problem.run):
                table.problem = None  # a later run could read it, or did not find it
                if not table.numbers and not table.steps:
                    continue
            tables.append(table)
        for table, shown in zip(tables, mask_secrets_of_all(table.name for table in tables), strict=True):
            table.shown_name = shown
        newest = self._runs[max(self._runs)] if self._runs else None
        groups = only or known | {table.group for table in tables}
        return FleetStatus(tables, self._earlier + len(self._runs), newest, self._trends(groups))

    def _is_left(self, table: TableStatus, groups: frozenset[str]) -> bool:
        """Return whether each of these groups was run after the newest run of a table."""
        runs = [step.run for step in table.steps.values()] + ([table.problem.run] if table.problem else [])
        return all(self._newest_of.get(group, "") > max(runs, default="") for group in groups)

    def _trends(self, shown: frozenset[str]) -> dict[str, deque[Point]]:
        found: dict[str, deque[Point]] = {}
        for now_ms, groups in self._totals:
            chosen = [sums for group, sums in groups.items() if group in shown]
            for series in sorted({series for sums in chosen for series in sums}):
                value = sum(sums.get(series, 0) for sums in chosen)
                found.setdefault(series, deque(maxlen=POINTS)).append(Point(now_ms, value))
        return found


Totals = Mapping[str, int]


def _totals_of(table: TableStatus) -> Totals:
    return {series: table.numbers[series] for series in TOTALS if series in table.numbers}


def _table_of(state: Record, trends: bytes) -> TableStatus:
    steps = {step[0]: StepStatus(**dict(zip(StepStatus.KEPT, step, strict=False))) for step in state["steps"]}
    problem = None if state["problem"] is None else Unread(*state["problem"])
    return TableStatus(state["table"], state["group"], state["seen"], steps, problem, Trends(trends), state["numbers"])


def _age_facts(numbers: dict[str, int], kind: str, now_ms: int, details: JsonObject) -> None:
    if kind == "checkpoint":
        numbers |= {"commitsBehind": 0, "checkpointMs": now_ms}
        if "logBytes" in numbers:
            numbers["logBytes"] += details.get("sizeBytes", 0)
    elif kind == "log-expire" and "logBytes" in numbers:
        numbers["logBytes"] = max(0, numbers["logBytes"] - details.get("sizeBytes", 0))
