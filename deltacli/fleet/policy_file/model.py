"""A policy file as values: the settings of its sections, its keys, and groups of tables, each with its resolved policy.

The settings of a section are a class, whose fields declare what its keys mean and their defaults. The reader and the
JSON Schema are made from them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from deltacli.core.errors import UsageError, parameter
from deltacli.core.request_fields import Kind, Option, option
from deltacli.core.times import DAY_MS, UNITS_MS, DailyWindow, format_duration
from deltacli.core.typing import Json
from deltacli.operations.copy.request import CopyRequest
from deltacli.operations.optimize.request import OptimizeRequest
from deltacli.operations.vacuum.plan import VacuumRequest
from deltacli.operations.validate.findings import ValidateRequest
from deltacli.rules.framework.base import Severity
from deltacli.storage.local import local_uri

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


class Key(NamedTuple):
    """A key. `default` is text for people; a key without one has no value where it is missing. `of`: the field of the
    value, where it is not named like the key.
    """

    name: str
    kind: Kind
    meaning: str
    default: str | None = None
    choices: tuple[str, ...] = ()
    of: str | None = None

    @property
    def field(self) -> str:
        return self.of or self.name.replace("-", "_")

    def shown(self, value: Any) -> Json:  # Any: a value of the kind
        if self.kind in _WRITERS:
            return _WRITERS[self.kind](value)
        return list(value) if isinstance(value, tuple) else value

    @property
    def expected(self) -> str:
        return ", ".join(self.choices) if self.choices else self.kind.value


_WRITERS: Mapping[Kind, Callable[[Any], str]] = {  # Any: a value of the kind
    Kind.CHOICE: str,
    Kind.DURATION: format_duration,
    Kind.FLAG: lambda flag: str(flag).lower(),
    Kind.SHARE: lambda share: f"{100 * share:g}%",
    Kind.WINDOW: str,
}


def _keys(settings: type[Any], *names: str) -> tuple[Key, ...]:  # Any: a dataclass
    declared = {one.name: one for one in fields(settings)}
    return tuple(_key(declared[name]) for name in names or declared)


def _key(one: Field[Any]) -> Key:
    option: Option = one.metadata["option"]
    of_type = Kind.FLAG if isinstance(one.default, bool) else Kind.TEXT
    kind = Kind.TEXTS if option.kind is Kind.PATTERNS else option.kind or of_type
    default = None if one.default in (None, (), "") else _WRITERS.get(kind, str)(one.default)
    name = one.name.removesuffix("_ms").replace("_", "-")
    meaning = option.policy or option.meaning.partition("  [")[0]
    return Key(name, kind, meaning, default, tuple(option.choices or ()), one.name)


def _every(default: int) -> Any:  # Any: a field
    return option("Minimum time between two runs of the step on a table.", kind=Kind.DURATION, default=default)


def _consent() -> Any:  # Any: a field
    return option("Allow the step, which deletes files, to run without a question.", kind=Kind.FLAG, default=False)


@dataclass(frozen=True, slots=True)
class CheckpointPolicy:
    """Write a checkpoint when the log is this far behind."""

    commits: int = option(
        "Write a checkpoint once this many commits follow the last one.", kind=Kind.COUNT, default=100
    )
    log_bytes: int | None = option("Write a checkpoint once commits of this size follow the last one.", kind=Kind.SIZE)


@dataclass(frozen=True, slots=True)
class ExpirePolicy:
    """Delete log files that no kept version needs."""

    every: int = _every(DAY_MS)
    retention_ms: int | None = None
    allow_retention_below_ms: int | None = None
    protect_streams: Sequence[str] = ()
    ignore_streams_older_ms: int | None = None
    consent: bool = _consent()


@dataclass(frozen=True, kw_only=True)
class VacuumPolicy(VacuumRequest):
    """Delete data files that no retained version needs."""

    every: int = _every(7 * DAY_MS)
    consent: bool = _consent()


@dataclass(frozen=True, kw_only=True)
class OptimizePolicy(OptimizeRequest):
    """Compact small files."""

    every: int = _every(DAY_MS)
    small_files: float | None = option(
        "Share of data files below half of the target from which files are rewritten.", kind=Kind.SHARE
    )
    window: DailyWindow | None = option("Time of the day, in UTC, in which files are rewritten.", kind=Kind.WINDOW)


@dataclass(frozen=True, kw_only=True)
class ValidatePolicy(ValidateRequest):
    """Check tables against the rules."""

    every: int = _every(7 * DAY_MS)
    baselines: str | None = option("Directory with a file of accepted findings per table.")
    fail_on: str = option(
        "Severity from which findings fail the step.", kind=Kind.CHOICE, default=Severity.ERROR, choices=Severity
    )

    def require_files(self) -> None:
        """Accept a sample at a level that opens no files: a policy may inherit one of the two."""


OF_TABLE = re.compile(r"\{(path|name)\}")
"""What the target of a copy says of a table."""


@dataclass(frozen=True, kw_only=True)
class CopyPolicy(CopyRequest):
    """Copy tables to replicas."""

    to: str = option(
        "Directory of the replica of a table: {path} is the path of the table, {name} its last part.", default=""
    )
    every: int = _every(UNITS_MS["hour"])

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

    log_bytes: int | None = option("Alert once the log has this size.", kind=Kind.SIZE)
    checkpoint_age: int | None = option(
        "Alert when newer commits exist and the last checkpoint is older.", kind=Kind.DURATION
    )
    small_files: float | None = option("Alert once this share of data files is below 16 MiB.", kind=Kind.SHARE)
    tombstones: float | None = option(
        "Alert once this share of the table's file actions are tombstones.", kind=Kind.SHARE
    )
    least_files: int = option("Minimum number of data files for the alerts on shares.", kind=Kind.COUNT, default=20)
    failed_rules: int | None = option("Alert once this many rules have errors or warnings.", kind=Kind.COUNT)
    copy_lag: int | None = option(
        "Alert when the replica lacks versions, and was up to date this long ago.", kind=Kind.DURATION
    )
    stream_lag: int | None = option(
        "Alert once a query of protect-streams is behind by commits that are older.", kind=Kind.DURATION
    )
    stream_dead: int | None = option(
        "Alert once this many queries of protect-streams cannot continue.", kind=Kind.COUNT
    )


class SentRuns(StrEnum):
    ALWAYS = "always"
    ALERTS = "alerts"


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where the summary of each run is sent. Durations are milliseconds; the secret is read when it is needed."""

    url: str
    secret_env: str | None = option("Environment variable with the secret of the signature.")
    secret_file: str | None = option("File with the secret of the signature.")
    when: str = option(
        "Runs to send: all, or those that do not exit with 0.",
        kind=Kind.CHOICE,
        default=SentRuns.ALWAYS,
        choices=SentRuns,
    )
    retry_budget: int = option(
        "Time within which a failed request is repeated.", kind=Kind.DURATION, default=30 * UNITS_MS["second"]
    )


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How the tables of a file are worked on. `leases` None: below `state`."""

    state: str = option("Directory of the journal and the leases.", default=DEFAULT_STATE)
    leases: str | None = option("Directory of the leases, a path or URI, where several machines share tables.")
    lease: int = option(
        "Time after which the lease of a run that stopped renewing it expires.",
        kind=Kind.DURATION,
        default=UNITS_MS["hour"],
    )
    jobs: int = option("Tables that are worked on at once.", kind=Kind.COUNT, default=DEFAULT_JOBS)
    calls_per_second: int | None = option("Maximum rate of requests to each remote store.", kind=Kind.COUNT)


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


GROUP_KEYS = (
    Key("policy", Kind.TEXT, "Name of the policy of these tables."),
    Key("globs", Kind.TEXTS, "Patterns of directories: *, ?, […] within a name, ** for any directories."),
    Key("prefixes", Kind.TEXTS, "Directories: every table at or below them."),
    Key("tables", Kind.TEXTS, "Tables: paths or URIs."),
    Key("lists", Kind.TEXTS, "Files with one path or URI of a table per line; # begins a comment."),
    Key("exclude", Kind.TEXTS, "Patterns of directories that do not belong to the group, with all below them."),
)

_OF_STREAMS = ("protect_streams", "ignore_streams_older_ms")

STEP_KEYS: Mapping[str, tuple[Key, ...]] = {
    "checkpoint": _keys(CheckpointPolicy),
    "log-expire": (
        *_keys(ExpirePolicy, "every"),
        *_keys(VacuumRequest, "retention_ms", "allow_retention_below_ms", *_OF_STREAMS),
        *_keys(ExpirePolicy, "consent"),
    ),
    "vacuum": (
        *_keys(VacuumPolicy, "every", "retention_ms", "allow_retention_below_ms", "mode", "max_delete", "protect_from"),
        *_keys(VacuumPolicy, *_OF_STREAMS, "quarantine", "skip_nested_tables", "consent"),
    ),
    "validate": _keys(ValidatePolicy, "every", "level", "sample", "select", "ignore", "baselines", "fail_on"),
    "optimize": _keys(OptimizePolicy, "every", "target_size", "max_bytes", "small_files", "window"),
    "copy": _keys(CopyPolicy, "to", "every", "level", "keep_external", "threads", "rate", "time_budget_ms"),
}
"""Step -> its keys. A policy has a table per step; `false` in its place turns an inherited step off."""

ALERT_KEYS = _keys(AlertPolicy)
"""The thresholds of a policy. `false` in place of the table turns inherited ones off."""

SECTION_KEYS: Mapping[str, tuple[Key, ...]] = {**STEP_KEYS, "alerts": ALERT_KEYS}
"""The tables of a policy: its steps, and its thresholds."""

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
    defaults = {one.name: one.default for one in fields(settings)}
    keys = [key for key in STEP_KEYS[kind] if key.field not in _OF_RUNS_ONLY]
    given = {key: getattr(settings, key.field) for key in keys}
    return {key.field: key.shown(value) for key, value in given.items() if value not in ((), None, defaults[key.field])}


POLICY_KEYS = (Key("inherits", Kind.TEXT, "Name of the policy whose steps and keys this one starts from."),)

TOP_KEYS = (
    Key("exclude", Kind.TEXTS, "Patterns of directories that belong to no group, with all below them."),
    *_keys(RunSettings),
)

WEBHOOK_KEYS = (
    Key("url", Kind.TEXT, "Address to which the summary of each run is sent: https, or http on loopback."),
    *_keys(Webhook, "secret_env", "secret_file", "when", "retry_budget"),
)
"""Keys of the table `webhook` at the top."""


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
