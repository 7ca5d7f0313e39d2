"""A policy file as values: groups of tables, each with its resolved policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from deltacli.fleet.policy_file.keys import ALERT_KEYS, STEP_KEYS, Key
from deltacli.operations.vacuum.request import VacuumRequest
from deltacli.operations.validate.request import ValidateRequest
from deltacli.typing import Json
from deltacli.units import DAY_MS


@dataclass(frozen=True, slots=True)
class CheckpointPolicy:
    """Write a checkpoint when the log is this far behind."""

    commits: int = 100
    log_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ExpirePolicy:
    """Delete log files that no kept version needs."""

    every: int = DAY_MS
    retention_ms: int | None = None
    allow_retention_below_ms: int | None = None
    consent: bool = False


@dataclass(frozen=True, kw_only=True)
class VacuumPolicy(VacuumRequest):
    """Delete data files that no retained version needs."""

    every: int = 7 * DAY_MS
    consent: bool = False


@dataclass(frozen=True, kw_only=True)
class ValidatePolicy(ValidateRequest):
    """Check tables against the rules."""

    every: int = 7 * DAY_MS
    baselines: str | None = None
    fail_on: str = "error"

    def require_files(self) -> None:
        """Accept a sample at a level that opens no files: a policy may inherit one of the two."""


@dataclass(frozen=True, slots=True)
class AlertPolicy:
    """The thresholds of tables, None where there is none. Shares are parts of 1."""

    log_bytes: int | None = None
    checkpoint_age: int | None = None
    small_files: float | None = None
    tombstones: float | None = None
    least_files: int = 20
    failed_rules: int | None = None


STEP_TYPES: Mapping[str, type[Any]] = {
    "checkpoint": CheckpointPolicy,
    "log-expire": ExpirePolicy,
    "vacuum": VacuumPolicy,
    "validate": ValidatePolicy,
}
"""Step -> the class of its settings. Durations are milliseconds, sizes bytes."""

StepPolicy = CheckpointPolicy | ExpirePolicy | VacuumPolicy | ValidatePolicy


class Policy(NamedTuple):
    """The steps and thresholds of a policy, with all inherited keys. `line` is where it is defined."""

    name: str
    steps: Mapping[str, StepPolicy]
    line: int = 1
    alerts: AlertPolicy | None = None

    def as_json(self) -> dict[str, Json]:
        """Return the settings of each step, spelled like the file. Keys without a value are left out."""
        return {name: _settings(STEP_KEYS[name], step) for name, step in self.steps.items()}

    def alerts_as_json(self) -> dict[str, Json]:
        """Return the thresholds, spelled like the file; empty where there are none."""
        return {} if self.alerts is None else _settings(ALERT_KEYS, self.alerts)


def _settings(keys: Iterable[Key], section: StepPolicy | AlertPolicy) -> dict[str, Json]:
    values = {key: getattr(section, key.field) for key in keys}
    return {key.name: key.shown(value) for key, value in values.items() if value not in (None, ())}


class Entry(NamedTuple):
    """A text of the file with its line."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Group:
    """Tables with one policy: at and below the directories that match `globs` or are `prefixes`, and the given
    `tables`; without what is at and below the directories that match `exclude`.
    """

    name: str
    policy: Policy
    globs: tuple[Entry, ...]
    prefixes: tuple[Entry, ...]
    tables: tuple[Entry, ...]
    exclude: tuple[Entry, ...]
    line: int


class Problem(NamedTuple):
    """What is wrong in the file. A warning does not keep the file from being used."""

    line: int
    key: str
    message: str
    expected: str | None = None
    is_error: bool = True

    def as_json(self) -> dict[str, Json]:
        """Return the problem for documents."""
        severity = "error" if self.is_error else "warning"
        found = {"line": self.line, "key": self.key, "severity": severity, "message": self.message}
        return found if self.expected is None else {**found, "expected": self.expected}


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where the summary of each run is sent. Durations are milliseconds; the secret is read when it is needed."""

    url: str
    secret_env: str | None = None
    secret_file: str | None = None
    when: str = "always"
    retry_budget: int = 30_000


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How the tables of a file are worked on. `state` is a directory; `leases` a path or URI, None: below `state`."""

    state: str = "fleet-state"
    leases: str | None = None
    lease: int = 3_600_000
    jobs: int = 4
    calls_per_second: int | None = None


@dataclass(frozen=True)
class FleetFile:
    """A policy file. With errors among its problems, it is incomplete and must not be used."""

    path: Path
    groups: tuple[Group, ...]
    policies: tuple[Policy, ...]
    problems: tuple[Problem, ...] = field(default=())
    settings: RunSettings = RunSettings()
    webhook: Webhook | None = None

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.is_error)
