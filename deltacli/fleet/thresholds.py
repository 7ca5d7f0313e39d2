"""The thresholds of a policy, judged by the numbers that the journal has about a table."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from deltacli.fleet.policy_file.keys import AlertPolicy
from deltacli.hints import command
from deltacli.typing import Json
from deltacli.units import format_duration, format_size, plural

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
    message = f"{small:,} of {plural(files, 'data file')} ({share:.0%}) are below 16 MiB (limit {limit:.0%})"
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
