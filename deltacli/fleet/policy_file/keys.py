"""The schema of a policy file: every key with its type, its default and its meaning.

The reader (`reading.py`), the JSON Schema for editors, and the documents that show a policy are made from these tables.
The settings that keys become are in `model.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from deltacli.core.typing import Json
from deltacli.fleet.policy_file import value_kinds
from deltacli.fleet.policy_file.value_kinds import ValueKind
from deltacli.operations.copy.request import CopyLevel
from deltacli.operations.vacuum.plan import Mode
from deltacli.operations.validate.findings import LevelChoice
from deltacli.rules.framework.base import Severity


class SentRuns(StrEnum):
    """The runs whose summary is sent to a webhook: all of them, or those that do not exit with 0."""

    ALWAYS = "always"
    ALERTS = "alerts"


class Key(NamedTuple):
    """A key of a table of the file.

    Attributes:
        name: The key as it is spelled in the file.
        kind: The kind of its value, which parses it.
        meaning: What the key means, in one sentence.
        default: The default in words; None for a key that has no value where it is missing.
        choices: The words that a value may be; empty where it is not one of several words.
        field: The field of the settings that has the value. Empty: the one that is named like the key.
    """

    name: str
    kind: ValueKind
    meaning: str
    default: str | None = None
    choices: tuple[str, ...] = ()
    field: str = ""

    @property
    def field_name(self) -> str:
        """The field of the settings that has the value."""
        return self.field or self.name.replace("-", "_")

    @property
    def expected(self) -> str:
        """What a value has to be, in words."""
        return ", ".join(self.choices) if self.choices else self.kind.expected

    def parse(self, value: Any) -> object:  # Any: a TOML value
        """Return the value that a TOML value stands for.

        Raises:
            ValueError: If it is of another kind, or not one of the choices.
        """
        parsed = self.kind.parse(value)
        if self.choices and parsed not in self.choices:
            raise ValueError
        return parsed

    def show(self, value: Any) -> Json:  # Any: a value of the kind
        """Return a value as it is spelled in documents."""
        return self.kind.show(value)


_PROTECT_STREAMS = Key(
    name="protect-streams",
    kind=value_kinds.TEXTS,
    meaning=("Patterns of checkpoint directories of Spark queries, for which what they need is kept: paths or URIs."),
)
_IGNORE_STREAMS_OLDER = Key(
    name="ignore-streams-older",
    kind=value_kinds.DURATION,
    meaning="Do not keep anything for a query that is behind and whose checkpoint is older than this.",
    field="ignore_streams_older_ms",
)

TOP_KEYS = (
    Key(
        name="exclude",
        kind=value_kinds.TEXTS,
        meaning="Patterns of directories that belong to no group, with all below them.",
    ),
    Key(
        name="state",
        kind=value_kinds.TEXT,
        meaning="Directory of the journal and the leases.",
        default="fleet-state",
    ),
    Key(
        name="leases",
        kind=value_kinds.TEXT,
        meaning="Directory of the leases, a path or URI, where several machines share tables.",
    ),
    Key(
        name="lease",
        kind=value_kinds.DURATION,
        meaning="Time after which the lease of a run that stopped renewing it expires.",
        default="1h",
    ),
    Key(
        name="jobs",
        kind=value_kinds.COUNT,
        meaning="Tables that are worked on at once.",
        default="4",
    ),
    Key(
        name="calls-per-second",
        kind=value_kinds.COUNT,
        meaning="Maximum rate of requests to each remote store.",
    ),
)
"""Keys at the top of the file. Durations are milliseconds, sizes bytes, shares parts of 1, here and below."""

WEBHOOK_KEYS = (
    Key(
        name="url",
        kind=value_kinds.TEXT,
        meaning="Address to which the summary of each run is sent: https, or http on loopback.",
    ),
    Key(
        name="secret-env",
        kind=value_kinds.TEXT,
        meaning="Environment variable with the secret of the signature.",
    ),
    Key(
        name="secret-file",
        kind=value_kinds.TEXT,
        meaning="File with the secret of the signature.",
    ),
    Key(
        name="when",
        kind=value_kinds.CHOICE,
        meaning="Runs to send: all, or those that do not exit with 0.",
        default="always",
        choices=tuple(SentRuns),
    ),
    Key(
        name="retry-budget",
        kind=value_kinds.DURATION,
        meaning="Time within which a failed request is repeated.",
        default="30s",
    ),
)
"""Keys of the table `webhook` at the top."""

GROUP_KEYS = (
    Key(
        name="policy",
        kind=value_kinds.TEXT,
        meaning="Name of the policy of these tables.",
    ),
    Key(
        name="globs",
        kind=value_kinds.TEXTS,
        meaning="Patterns of directories: *, ?, […] within a name, ** for any directories.",
    ),
    Key(
        name="prefixes",
        kind=value_kinds.TEXTS,
        meaning="Directories: every table at or below them.",
    ),
    Key(
        name="tables",
        kind=value_kinds.TEXTS,
        meaning="Tables: paths or URIs.",
    ),
    Key(
        name="lists",
        kind=value_kinds.TEXTS,
        meaning="Files with one path or URI of a table per line; # begins a comment.",
    ),
    Key(
        name="exclude",
        kind=value_kinds.TEXTS,
        meaning="Patterns of directories that do not belong to the group, with all below them.",
    ),
)
"""Keys of a group of tables."""

POLICY_KEYS = (
    Key(
        name="inherits",
        kind=value_kinds.TEXT,
        meaning="Name of the policy whose steps and keys this one starts from.",
    ),
)
"""Keys of a policy itself. Besides them it has a table per step, and one of thresholds."""

STEP_KEYS: Mapping[str, tuple[Key, ...]] = {
    "checkpoint": (
        Key(
            name="commits",
            kind=value_kinds.COUNT,
            meaning="Write a checkpoint once this many commits follow the last one.",
            default="100",
        ),
        Key(
            name="log-bytes",
            kind=value_kinds.SIZE,
            meaning="Write a checkpoint once commits of this size follow the last one.",
        ),
    ),
    "log-expire": (
        Key(
            name="every",
            kind=value_kinds.DURATION,
            meaning="Minimum time between two runs of the step on a table.",
            default="1d",
        ),
        Key(
            name="retention",
            kind=value_kinds.DURATION,
            meaning="Age up to which files are kept; without it the table's own property.",
            field="retention_ms",
        ),
        Key(
            name="allow-retention-below",
            kind=value_kinds.DURATION,
            meaning="Allow a retention below the table's own, whose value is given here, such as 168h.",
            field="allow_retention_below_ms",
        ),
        _PROTECT_STREAMS,
        _IGNORE_STREAMS_OLDER,
        Key(
            name="consent",
            kind=value_kinds.FLAG,
            meaning="Allow the step, which deletes files, to run without a question.",
            default="false",
        ),
    ),
    "vacuum": (
        Key(
            name="every",
            kind=value_kinds.DURATION,
            meaning="Minimum time between two runs of the step on a table.",
            default="7d",
        ),
        Key(
            name="retention",
            kind=value_kinds.DURATION,
            meaning="Age up to which files are kept; without it the table's own property.",
            field="retention_ms",
        ),
        Key(
            name="allow-retention-below",
            kind=value_kinds.DURATION,
            meaning="Allow a retention below the table's own, whose value is given here, such as 168h.",
            field="allow_retention_below_ms",
        ),
        Key(
            name="mode",
            kind=value_kinds.CHOICE,
            meaning="Source of candidates: a listing, or the log only.",
            default="full",
            choices=tuple(Mode),
        ),
        Key(
            name="max-delete",
            kind=value_kinds.LIMIT,
            meaning="Refuse a plan that would delete more.",
            default="50%",
        ),
        Key(
            name="protect-from",
            kind=value_kinds.TEXTS,
            meaning="Tables, such as shallow clones, whose files are kept: URIs.",
        ),
        _PROTECT_STREAMS,
        _IGNORE_STREAMS_OLDER,
        Key(
            name="quarantine",
            kind=value_kinds.TEXT,
            meaning="Directory or URI outside of all tables that gets a copy of each file before it is deleted.",
        ),
        Key(
            name="skip-nested-tables",
            kind=value_kinds.FLAG,
            meaning="Skip directories that are tables of their own instead of refusing.",
            default="false",
        ),
        Key(
            name="consent",
            kind=value_kinds.FLAG,
            meaning="Allow the step, which deletes files, to run without a question.",
            default="false",
        ),
    ),
    "validate": (
        Key(
            name="every",
            kind=value_kinds.DURATION,
            meaning="Minimum time between two runs of the step on a table.",
            default="7d",
        ),
        Key(
            name="level",
            kind=value_kinds.CHOICE,
            meaning="Level of the check.",
            default="log",
            choices=tuple(LevelChoice),
        ),
        Key(
            name="sample",
            kind=value_kinds.SHARE,
            meaning="Share of the data files to open, at the levels footers and data.",
            default="100%",
        ),
        Key(
            name="select",
            kind=value_kinds.TEXTS,
            meaning="Rules to check: globs over rule ids.",
        ),
        Key(
            name="ignore",
            kind=value_kinds.TEXTS,
            meaning="Rules to skip: globs over rule ids.",
        ),
        Key(
            name="baselines",
            kind=value_kinds.TEXT,
            meaning="Directory with a file of accepted findings per table.",
        ),
        Key(
            name="fail-on",
            kind=value_kinds.CHOICE,
            meaning="Severity from which findings fail the step.",
            default="error",
            choices=tuple(Severity),
        ),
    ),
    "optimize": (
        Key(
            name="every",
            kind=value_kinds.DURATION,
            meaning="Minimum time between two runs of the step on a table.",
            default="1d",
        ),
        Key(
            name="target-size",
            kind=value_kinds.SIZE,
            meaning="Size of new files, by default that of the property delta.targetFileSize, else 128MiB.",
        ),
        Key(
            name="max-bytes",
            kind=value_kinds.SIZE,
            meaning="Rewrite at most this many bytes in a run.",
        ),
        Key(
            name="small-files",
            kind=value_kinds.SHARE,
            meaning="Share of data files below half of the target from which files are rewritten.",
        ),
        Key(
            name="window",
            kind=value_kinds.WINDOW,
            meaning="Time of the day, in UTC, in which files are rewritten.",
        ),
    ),
    "copy": (
        Key(
            name="to",
            kind=value_kinds.TEXT,
            meaning="Directory of the replica of a table: {path} is the path of the table, {name} its last part.",
        ),
        Key(
            name="every",
            kind=value_kinds.DURATION,
            meaning="Minimum time between two runs of the step on a table.",
            default="1h",
        ),
        Key(
            name="level",
            kind=value_kinds.CHOICE,
            meaning="What to compare with the source.",
            default="storage",
            choices=tuple(CopyLevel),
        ),
        Key(
            name="keep-external",
            kind=value_kinds.FLAG,
            meaning="Keep paths that lead out of the source, whose files are not copied.",
            default="false",
        ),
        Key(
            name="threads",
            kind=value_kinds.COUNT,
            meaning="Files to copy at a time.",
        ),
        Key(
            name="rate",
            kind=value_kinds.TEXT,
            meaning="Bytes to copy per second, such as 50MiB/s.",
        ),
        Key(
            name="time-budget",
            kind=value_kinds.DURATION,
            meaning="Begin no file after this time, such as 30m; run the same command to continue.",
            field="time_budget_ms",
        ),
    ),
}
"""Step -> its keys. A policy has a table per step; `false` in its place turns an inherited step off."""

ALERT_KEYS = (
    Key(
        name="log-bytes",
        kind=value_kinds.SIZE,
        meaning="Alert once the log has this size.",
    ),
    Key(
        name="checkpoint-age",
        kind=value_kinds.DURATION,
        meaning="Alert when newer commits exist and the last checkpoint is older.",
    ),
    Key(
        name="small-files",
        kind=value_kinds.SHARE,
        meaning="Alert once this share of data files is below 16 MiB.",
    ),
    Key(
        name="tombstones",
        kind=value_kinds.SHARE,
        meaning="Alert once this share of the table's file actions are tombstones.",
    ),
    Key(
        name="least-files",
        kind=value_kinds.COUNT,
        meaning="Minimum number of data files for the alerts on shares.",
        default="20",
    ),
    Key(
        name="failed-rules",
        kind=value_kinds.COUNT,
        meaning="Alert once this many rules have errors or warnings.",
    ),
    Key(
        name="copy-lag",
        kind=value_kinds.DURATION,
        meaning="Alert when the replica lacks versions, and was up to date this long ago.",
    ),
    Key(
        name="stream-lag",
        kind=value_kinds.DURATION,
        meaning="Alert once a query of protect-streams is behind by commits that are older.",
    ),
    Key(
        name="stream-dead",
        kind=value_kinds.COUNT,
        meaning="Alert once this many queries of protect-streams cannot continue.",
    ),
)
"""The thresholds of a policy. `false` in place of the table turns inherited ones off."""

SECTION_KEYS: Mapping[str, tuple[Key, ...]] = {**STEP_KEYS, "alerts": ALERT_KEYS}
"""The tables of a policy: its steps, and its thresholds."""
