"""A policy file as values: the settings of its sections, its keys, and groups of tables, each with its resolved policy.

The settings of a section are a class. What its keys mean, and how they are read, is in `keys.py`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from deltacli.core.errors import UsageError, parameter
from deltacli.core.request_fields import Kind, option
from deltacli.core.times import DAY_MS, UNITS_MS, DailyWindow
from deltacli.core.typing import Json
from deltacli.fleet.policy_file.keys import ALERT_KEYS, STEP_KEYS, Key, SentRuns
from deltacli.operations.copy.request import CopyRequest
from deltacli.operations.optimize.request import OptimizeRequest
from deltacli.operations.vacuum.plan import VacuumRequest
from deltacli.operations.validate.findings import ValidateRequest
from deltacli.rules.framework.base import Severity
from deltacli.storage.local_files import local_uri

# -- names of tables for people ----------------------------------------------------------------------------------------


def table_digest(table: str) -> str:
    """Return a digest of the name of a table, as 16 hexadecimal digits."""
    return sha256(table.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def table_file_name(table: str) -> str:
    """Return the last part of a table's name, and half of the digest of all of it."""
    last = "".join(c if c.isalnum() or c in "-_." else "_" for c in table.rstrip("/").rpartition("/")[2])
    return f"{last}-{table_digest(table)[:8]}"


def table_uri(table: str) -> str:
    return table.rstrip("/") if "://" in table else local_uri(os.path.abspath(table))


def plain_name(uri: str) -> str:
    """Return the path of a local table, and the URI of any other. Paths that are not printable stay URIs."""
    if not uri.startswith("file://"):
        return uri
    path = os.fsdecode(unquote_to_bytes(uri.removeprefix("file://")))
    return path if path.isprintable() else uri


def short_name(table: str, file: str) -> str:
    """Return the path of a table relative to the directory of the policy file, if it is below it."""
    directory = os.path.join(os.path.dirname(os.path.abspath(file)), "")
    return table.removeprefix(directory) or table


# -- the request for a run of a fleet ----------------------------------------------------------------------------------

DEFAULT_JOBS = 4
DEFAULT_STATE = "fleet-state"


@dataclass(frozen=True, kw_only=True)
class FleetChoice:
    """The groups of a policy file (none: all of them), and the directory of their journal."""

    only: Sequence[str] = option("Only the tables of this group. Repeatable.", "GROUP", Kind.TEXTS, default=())
    state: str | None = option(
        f"Directory of the journal and the leases.  [default: state of the policy file, else {DEFAULT_STATE}]", "DIR"
    )


@dataclass(frozen=True, kw_only=True)
class FleetRunRequest(FleetChoice):
    """Which tables are worked on, and how. Without `jobs` the policy file or the cluster says how many at once. After
    `time_budget_ms` no step is started, and none before it that is expected to end later. With `yes`, destructive
    steps run where their policy has consent.
    """

    jobs: int | None = option(
        f"Tables to work on at once.  [default: jobs of the policy file, else {DEFAULT_JOBS}]", "N"
    )
    time_budget_ms: int | None = option(
        "Start no step after this time, nor one that is expected to end later.", "DURATION", Kind.DURATION
    )
    resume: bool = option("Continue the newest run if it was killed, interrupted or out of time.", default=False)
    steal_leases: str | None = option("Take tables that other runs hold; the reason is recorded.", "REASON")
    yes: bool = option("Run destructive steps where their policy has consent = true.", default=False)

    def __post_init__(self) -> None:
        if self.jobs is not None and self.jobs < 1:
            raise UsageError(f"{parameter('fleet run.jobs', self.jobs)} is less than 1")


# -- a policy file as values -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CheckpointPolicy:
    """Settings of the step that writes a checkpoint. The keys are explained in `keys.py`, here and below."""

    commits: int = 100
    log_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ExpirePolicy:
    """Settings of the step that deletes log files that no kept version needs."""

    every: int = DAY_MS
    retention_ms: int | None = None
    allow_retention_below_ms: int | None = None
    protect_streams: Sequence[str] = ()
    ignore_streams_older_ms: int | None = None
    consent: bool = False


@dataclass(frozen=True, kw_only=True)
class VacuumPolicy(VacuumRequest):
    """Settings of the step that deletes data files that no retained version needs."""

    every: int = 7 * DAY_MS
    consent: bool = False


@dataclass(frozen=True, kw_only=True)
class OptimizePolicy(OptimizeRequest):
    """Settings of the step that compacts small files."""

    every: int = DAY_MS
    small_files: float | None = None
    window: DailyWindow | None = None


@dataclass(frozen=True, kw_only=True)
class ValidatePolicy(ValidateRequest):
    """Settings of the step that checks tables against the rules."""

    every: int = 7 * DAY_MS
    baselines: str | None = None
    fail_on: str = Severity.ERROR

    def require_files(self) -> None:
        """Accept a sample at a level that opens no files: a policy may inherit one of the two."""


OF_TABLE = re.compile(r"\{(path|name)\}")
"""What the target of a copy says of a table."""


@dataclass(frozen=True, kw_only=True)
class CopyPolicy(CopyRequest):
    """Settings of the step that copies tables to replicas."""

    to: str = ""
    every: int = UNITS_MS["hour"]

    @property
    def targets(self) -> str:
        """Return a pattern that the replicas of all tables match."""
        return OF_TABLE.sub(lambda of: "**" if of[1] == "path" else "*", self.to)

    def fault(self) -> str | None:
        """Return what is wrong with `to`, None where nothing is."""
        if not self.to:
            return "has no target"
        if re.search(r"[{}*?\[]", OF_TABLE.sub("", self.to)):
            return "has a special character that is not part of {path} or {name}"
        return None if OF_TABLE.search(self.to) else "is the same directory for every table"


@dataclass(frozen=True, slots=True)
class AlertPolicy:
    """The thresholds of tables, None where there is none. Shares are parts of 1."""

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
    """Where the summary of each run is sent. Durations are milliseconds; the secret is read when it is needed."""

    url: str
    secret_env: str | None = None
    secret_file: str | None = None
    when: str = SentRuns.ALWAYS
    retry_budget: int = 30 * UNITS_MS["second"]


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How the tables of a file are worked on. Without `leases` they are below `state`."""

    state: str = DEFAULT_STATE
    leases: str | None = None
    lease: int = UNITS_MS["hour"]
    jobs: int = DEFAULT_JOBS
    calls_per_second: int | None = None


STEP_TYPES: Mapping[str, type[Any]] = {
    "checkpoint": CheckpointPolicy,
    "log-expire": ExpirePolicy,
    "vacuum": VacuumPolicy,
    "validate": ValidatePolicy,
    "optimize": OptimizePolicy,
    "copy": CopyPolicy,
}
"""Step -> the class of its settings. Durations are milliseconds, sizes bytes."""

StepPolicy = CheckpointPolicy | ExpirePolicy | VacuumPolicy | ValidatePolicy | OptimizePolicy | CopyPolicy


DESTRUCTIVE = frozenset({"log-expire", "vacuum"})
"""The steps that delete files."""

UNCHANGING = frozenset({"validate", "copy"})
"""The steps that do not change the table."""

_OF_RUNS_ONLY = frozenset(
    {"every", "consent", "commits", "log_bytes", "baselines", "fail_on", "small_files", "window", "to"}
)


def parameters_of(kind: str, settings: StepPolicy | None) -> dict[str, Any]:  # Any: values of parameters
    """Return the parameters with which a command does a step as its policy says, without those of a default."""
    if settings is None:
        return {}
    defaults = {field.name: field.default for field in fields(settings)}
    parameters = {}
    for key in STEP_KEYS[kind]:
        name = key.field_name
        value = getattr(settings, name)
        is_default = value in ((), None, defaults[name])
        if name not in _OF_RUNS_ONLY and not is_default:
            parameters[name] = key.show(value)
    return parameters


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
    """Return the settings of a table of the file by its keys. Keys without a value are left out."""
    document = {}
    for key in keys:
        value = getattr(section, key.field_name)
        if value not in (None, ()):
            document[key.name] = key.show(value)
    return document


class Entry(NamedTuple):
    """A text of the file with its line."""

    text: str
    line: int


def is_catalog_pattern(text: str) -> bool:
    """Return True for a name of tables that is a pattern for those of a catalog, such as `uc://prod.sales.*`."""
    return text[:5].lower() == "uc://" and any(letter in text for letter in "*?[")


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
