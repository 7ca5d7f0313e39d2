"""A policy file as values: groups of tables, each with its resolved policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from deltacli.typing import Json
from deltacli.units import DAY_MS, format_duration


@dataclass(frozen=True, slots=True)
class CheckpointPolicy:
    """Write a checkpoint when the log is this far behind."""

    commits: int = 100
    log_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ExpirePolicy:
    """Delete log files that no kept version needs."""

    every: int = DAY_MS
    retention: int | None = None
    allow_retention_below: int | None = None
    consent: bool = False


@dataclass(frozen=True, slots=True)
class VacuumPolicy:
    """Delete data files that no retained version needs."""

    every: int = 7 * DAY_MS
    retention: int | None = None
    allow_retention_below: int | None = None
    mode: str = "full"
    max_delete: str = "50%"
    protect_from: tuple[str, ...] = ()
    consent: bool = False


@dataclass(frozen=True, slots=True)
class ValidatePolicy:
    """Check tables against the rules."""

    every: int = 7 * DAY_MS
    level: str = "log"
    sample: float = 1.0
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    baselines: str | None = None
    fail_on: str = "error"


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
        return {name: _settings(step) for name, step in self.steps.items()}

    def alerts_as_json(self) -> dict[str, Json]:
        """Return the thresholds, spelled like the file; empty where there are none."""
        return {} if self.alerts is None else _settings(self.alerts)


_DURATIONS = frozenset({"every", "retention", "allow_retention_below", "checkpoint_age"})
_SHARES = frozenset({"sample", "small_files", "tombstones"})


def _settings(step: StepPolicy | AlertPolicy) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for name in step.__slots__:
        value = getattr(step, name)
        if name in _DURATIONS and value is not None:
            value = format_duration(value)
        elif name in _SHARES and value is not None:
            value = f"{100 * value:g}%"
        elif isinstance(value, tuple):
            value = list(value) or None
        if value is not None:
            found[name.replace("_", "-")] = value
    return found


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
