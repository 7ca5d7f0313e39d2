"""A policy file as values: groups of tables, each with its resolved policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from deltacli.fleet.policy_file.keys import (
    ALERT_KEYS,
    STEP_KEYS,
    AlertPolicy,
    Key,
    RunSettings,
    StepPolicy,
    Webhook,
)
from deltacli.typing import Json


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


@dataclass(frozen=True)
class FleetFile:
    """A policy file. With errors among its problems, it is incomplete and must not be used."""

    path: Path
    groups: tuple[Group, ...]
    policies: tuple[Policy, ...]
    problems: tuple[Problem, ...] = field(default=())
    settings: RunSettings = field(default_factory=RunSettings)
    webhook: Webhook | None = None

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.is_error)
