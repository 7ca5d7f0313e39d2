"""A policy file as values: the settings of its sections, and groups of tables, each with its resolved policy.

What the keys of the file mean, and how their values are parsed, is in `keys.py`. The attributes here are named like
the keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from deltacli.core.times import DAY_MS, UNITS_MS, DailyWindow
from deltacli.core.typing import Json
from deltacli.fleet.policy_file.keys import ALERT_KEYS, STEP_KEYS, Key, SentRuns
from deltacli.operations.copy.request import CopyRequest
from deltacli.operations.optimize.request import OptimizeRequest
from deltacli.operations.vacuum.plan import VacuumRequest
from deltacli.operations.validate.findings import ValidateRequest
from deltacli.rules.framework.base import Severity


@dataclass(frozen=True, slots=True)
class CheckpointPolicy:
    """Settings of the step that writes a checkpoint. It is due for either reason.

    Attributes:
        commits: The number of commits after the last checkpoint.
        log_bytes: The size of the commits after the last checkpoint. None: their size does not matter.
    """

    commits: int = 100
    log_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ExpirePolicy:
    """Settings of the step that deletes log files that no kept version needs.

    Attributes:
        every: The least time between two runs of the step on a table, in milliseconds.
        retention_ms: The age up to which files are kept. None: the retention of the table.
        allow_retention_below_ms: The table's own retention, to allow a shorter one.
        protect_streams: Patterns of checkpoint directories of Spark queries, whose needs are kept.
        ignore_streams_older_ms: The age of a checkpoint from which its query is not protected if it is behind.
        consent: True if the step may delete files without a question.
    """

    every: int = DAY_MS
    retention_ms: int | None = None
    allow_retention_below_ms: int | None = None
    protect_streams: Sequence[str] = ()
    ignore_streams_older_ms: int | None = None
    consent: bool = False


@dataclass(frozen=True, kw_only=True)
class VacuumPolicy(VacuumRequest):
    """Settings of the step that deletes data files that no retained version needs.

    Attributes:
        every: The least time between two runs of the step on a table, in milliseconds.
        consent: True if the step may delete files without a question.
    """

    every: int = 7 * DAY_MS
    consent: bool = False


@dataclass(frozen=True, kw_only=True)
class OptimizePolicy(OptimizeRequest):
    """Settings of the step that compacts small files.

    Attributes:
        every: The least time between two runs of the step on a table, in milliseconds.
        small_files: The share of small data files from which the step is due. None: any number of them.
        window: The time of the day in which files are rewritten. None: at any time.
    """

    every: int = DAY_MS
    small_files: float | None = None
    window: DailyWindow | None = None


@dataclass(frozen=True, kw_only=True)
class ValidatePolicy(ValidateRequest):
    """Settings of the step that checks tables against the rules.

    Attributes:
        every: The least time between two runs of the step on a table, in milliseconds.
        baselines: The directory with a file of accepted findings per table. None: nothing is accepted.
        fail_on: The severity from which findings fail the step.
    """

    every: int = 7 * DAY_MS
    baselines: str | None = None
    fail_on: str = Severity.ERROR

    def require_files(self) -> None:
        """Accept a sample at a level that opens no files: a policy may inherit one of the two."""


OF_TABLE = re.compile(r"\{(path|name)\}")
"""What the target of a copy says of a table."""


@dataclass(frozen=True, kw_only=True)
class CopyPolicy(CopyRequest):
    """Settings of the step that copies tables to replicas.

    Attributes:
        to: The directory of the replica of a table, with `{path}` or `{name}` for the table.
        every: The least time between two runs of the step on a table, in milliseconds.
    """

    to: str = ""
    every: int = UNITS_MS["hour"]

    @property
    def targets(self) -> str:
        """A pattern that the replicas of all tables match."""
        return OF_TABLE.sub(lambda match: "**" if match[1] == "path" else "*", self.to)

    def find_error(self) -> str | None:
        """Return what is wrong with `to`; None if nothing is."""
        if not self.to:
            return "has no target"
        if re.search(r"[{}*?\[]", OF_TABLE.sub("", self.to)):
            return "has a special character that is not part of {path} or {name}"
        if not OF_TABLE.search(self.to):
            return "is the same directory for every table"
        return None


@dataclass(frozen=True, slots=True)
class AlertPolicy:
    """The thresholds from which a table is an alert. None: there is no such alert. Shares are parts of 1.

    Attributes:
        log_bytes: The size of the log.
        checkpoint_age: The age of the last checkpoint if newer commits exist, in milliseconds.
        small_files: The share of data files that are small.
        tombstones: The share of the table's file actions that are tombstones.
        least_files: The number of data files below which shares are no alert.
        failed_rules: The number of rules with errors or warnings.
        copy_lag: The time since a replica was up to date, in milliseconds.
        stream_lag: The age of commits that a query has not read, in milliseconds.
        stream_dead: The number of queries that cannot continue.
    """

    log_bytes: int | None = None
    checkpoint_age: int | None = None
    small_files: float | None = None
    tombstones: float | None = None
    least_files: int = 20
    failed_rules: int | None = None
    copy_lag: int | None = None
    stream_lag: int | None = None
    stream_dead: int | None = None


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where the summary of each run is sent. The secret is read when it is needed.

    Attributes:
        url: The address.
        secret_env: The environment variable with the secret that signs requests.
        secret_file: The file with it. Without either, requests are not signed.
        when: Which runs are sent.
        retry_budget: How long a request is repeated, in milliseconds.
    """

    url: str
    secret_env: str | None = None
    secret_file: str | None = None
    when: str = SentRuns.ALWAYS
    retry_budget: int = 30 * UNITS_MS["second"]


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How the tables of a file are worked on.

    Attributes:
        state: The directory of the journal.
        leases: The directory of the leases, also in a store. None: below `state`.
        lease: How long a lease holds without being renewed, in milliseconds.
        jobs: The number of tables to work on at once.
        calls_per_second: The largest number of requests to stores per second. None: no limit.
    """

    state: str = "fleet-state"
    leases: str | None = None
    lease: int = UNITS_MS["hour"]
    jobs: int = 4
    calls_per_second: int | None = None


STEP_TYPES: Mapping[str, type[Any]] = {
    "checkpoint": CheckpointPolicy,
    "log-expire": ExpirePolicy,
    "vacuum": VacuumPolicy,
    "validate": ValidatePolicy,
    "optimize": OptimizePolicy,
    "copy": CopyPolicy,
}
"""Step -> the class of its settings."""

StepPolicy = CheckpointPolicy | ExpirePolicy | VacuumPolicy | ValidatePolicy | OptimizePolicy | CopyPolicy

DESTRUCTIVE = frozenset({"log-expire", "vacuum"})
"""The steps that delete files."""

UNCHANGING = frozenset({"validate", "copy"})
"""The steps that do not change the table."""

_NOT_PARAMETERS = frozenset(
    {"every", "consent", "commits", "log_bytes", "baselines", "fail_on", "small_files", "window", "to"}
)
"""Settings of steps that the command which does the same does not have: they say when a step is due, for example."""


def list_parameters(kind: str, settings: StepPolicy | None) -> dict[str, Any]:  # Any: values of parameters
    """Return the parameters with which a command does a step as its policy says, without those of a default.

    Args:
        kind: The step.
        settings: Its settings. None: those of no policy.
    """
    if settings is None:
        return {}
    defaults = {setting.name: setting.default for setting in fields(settings)}
    parameters = {}
    for key in STEP_KEYS[kind]:
        name = key.field_name
        value = getattr(settings, name)
        is_default = value in ((), None, defaults[name])
        if name not in _NOT_PARAMETERS and not is_default:
            parameters[name] = key.show(value)
    return parameters


class Policy(NamedTuple):
    """The steps and thresholds of a policy, with all inherited keys.

    Attributes:
        name: The name of the policy.
        steps: The settings of each of its steps, by the name of the step.
        line: The line where it is defined.
        alerts: The thresholds. None: no table is an alert.
    """

    name: str
    steps: Mapping[str, StepPolicy]
    line: int = 1
    alerts: AlertPolicy | None = None

    def as_json(self) -> dict[str, Json]:
        """Return the settings of each step, spelled like the file. Keys without a value are left out."""
        return {name: _spell_settings(STEP_KEYS[name], step) for name, step in self.steps.items()}

    def alerts_as_json(self) -> dict[str, Json]:
        """Return the thresholds, spelled like the file; empty where there are none."""
        return {} if self.alerts is None else _spell_settings(ALERT_KEYS, self.alerts)


def _spell_settings(keys: Iterable[Key], section: StepPolicy | AlertPolicy) -> dict[str, Json]:
    """Return the settings of a table of the file by its keys. Keys without a value are left out."""
    settings = {}
    for key in keys:
        value = getattr(section, key.field_name)
        if value not in (None, ()):
            settings[key.name] = key.show(value)
    return settings


class Entry(NamedTuple):
    """A text of the file with its line."""

    text: str
    line: int


def is_catalog_pattern(text: str) -> bool:
    """Return True for a name of tables that is a pattern for those of a catalog, such as `uc://prod.sales.*`."""
    return text[:5].lower() == "uc://" and any(character in text for character in "*?[")


@dataclass(frozen=True, slots=True)
class Group:
    """Tables with one policy.

    Attributes:
        name: The name of the group.
        policy: The policy.
        globs: Patterns of directories; the tables at and below those that match.
        prefixes: Directories; the tables at and below them.
        tables: Tables by name.
        exclude: Patterns of directories; what is at and below those that match is left out.
        line: The line where the group begins.
    """

    name: str
    policy: Policy
    globs: tuple[Entry, ...]
    prefixes: tuple[Entry, ...]
    tables: tuple[Entry, ...]
    exclude: tuple[Entry, ...]
    line: int


class Problem(NamedTuple):
    """What is wrong in the file.

    Attributes:
        line: The line.
        key: The key as it is spelled in the file; "" for the file as a whole.
        message: What is wrong.
        expected: What was expected.
        is_error: False for a warning, which does not keep the file from being used.
    """

    line: int
    key: str
    message: str
    expected: str | None = None
    is_error: bool = True

    def as_json(self) -> dict[str, Json]:
        """Return the problem as in documents."""
        problem: dict[str, Json] = {
            "line": self.line,
            "key": self.key,
            "severity": "error" if self.is_error else "warning",
            "message": self.message,
        }
        if self.expected is not None:
            problem["expected"] = self.expected
        return problem


@dataclass(frozen=True)
class FleetFile:
    """A policy file. With errors among its problems, it is incomplete and must not be used.

    Attributes:
        path: The file.
        groups: Its groups, in their order. A table belongs to the first one that has it.
        policies: Its policies.
        problems: What is wrong in it, in the order of lines.
        settings: How its tables are worked on.
        webhook: Where summaries are sent. None: nowhere.
    """

    path: Path
    groups: tuple[Group, ...]
    policies: tuple[Policy, ...]
    problems: tuple[Problem, ...] = ()
    settings: RunSettings = field(default_factory=RunSettings)
    webhook: Webhook | None = None

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that keep the file from being used."""
        return tuple(problem for problem in self.problems if problem.is_error)
