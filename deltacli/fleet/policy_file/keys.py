"""The keys of `fleet.toml`, one row each. The reader and the JSON Schema are made from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from deltacli.delta.rules.framework.base import Severity
from deltacli.operations.vacuum.request import VacuumRequest
from deltacli.operations.validate.request import ValidateRequest
from deltacli.request_fields import Kind, Option
from deltacli.typing import Json
from deltacli.units import format_duration


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
        """Return a value as in a file."""
        if self.kind in _WRITERS:
            return _WRITERS[self.kind](value)
        return list(value) if isinstance(value, tuple) else value

    @property
    def expected(self) -> str:
        """Return what the value may be."""
        return ", ".join(self.choices) if self.choices else self.kind.value


_WRITERS: Mapping[Kind, Callable[[Any], str]] = {  # Any: a value of the kind
    Kind.CHOICE: str,
    Kind.DURATION: format_duration,
    Kind.SHARE: lambda share: f"{100 * share:g}%",
}


def _of_fields(request: type[Any], *names: str) -> Iterator[Key]:  # Any: a dataclass
    """Yield the keys for some fields of a request."""
    declared = {one.name: one for one in fields(request)}
    for name in names:
        option: Option = declared[name].metadata["option"]
        default = declared[name].default
        kind = Kind.TEXTS if option.kind is Kind.PATTERNS else option.kind or Kind.TEXT
        yield Key(
            name.removesuffix("_ms").replace("_", "-"),
            kind,
            option.policy or option.meaning,
            None if default in (None, ()) else _WRITERS.get(kind, str)(default),
            tuple(option.choices or ()),
            name,
        )


_EVERY = "Minimum time between two runs of the step on a table."
_CONSENT = "Allow the step, which deletes files, to run without a question."
_RETENTION = "Age up to which files are kept; without it the table's own property."
_BELOW = "Allow a shorter retention than the table's; repeat the table's value."

GROUP_KEYS = (
    Key("policy", Kind.TEXT, "Name of the policy of these tables."),
    Key("globs", Kind.TEXTS, "Patterns of directories: *, ?, […] within a name, ** for any directories."),
    Key("prefixes", Kind.TEXTS, "Directories: every table at or below them."),
    Key("tables", Kind.TEXTS, "Tables: paths or URIs."),
    Key("lists", Kind.TEXTS, "Files with one path or URI of a table per line; # begins a comment."),
    Key("exclude", Kind.TEXTS, "Patterns of directories that do not belong to the group, with all below them."),
)

STEP_KEYS: Mapping[str, tuple[Key, ...]] = {
    "checkpoint": (
        Key("commits", Kind.COUNT, "Write a checkpoint from so many commits since the last one.", "100"),
        Key("log-bytes", Kind.SIZE, "Write a checkpoint from so many bytes of commits since the last one."),
    ),
    "log-expire": (
        Key("every", Kind.DURATION, _EVERY, "1d"),
        Key("retention", Kind.DURATION, _RETENTION, of="retention_ms"),
        Key("allow-retention-below", Kind.DURATION, _BELOW, of="allow_retention_below_ms"),
        Key("consent", Kind.FLAG, _CONSENT, "false"),
    ),
    "vacuum": (
        Key("every", Kind.DURATION, _EVERY, "7d"),
        *_of_fields(VacuumRequest, "retention_ms", "allow_retention_below_ms", "mode", "max_delete", "protect_from"),
        *_of_fields(VacuumRequest, "quarantine"),
        Key("consent", Kind.FLAG, _CONSENT, "false"),
    ),
    "validate": (
        Key("every", Kind.DURATION, _EVERY, "7d"),
        *_of_fields(ValidateRequest, "level", "sample", "select", "ignore"),
        Key("baselines", Kind.TEXT, "Directory with a file of accepted findings per table."),
        Key("fail-on", Kind.CHOICE, "Severity from which findings fail the step.", "error", tuple(Severity)),
    ),
}
"""Step -> its keys. A policy has a table per step; `false` in its place turns an inherited step off."""

ALERT_KEYS = (
    Key("log-bytes", Kind.SIZE, "Alert from so many bytes of log."),
    Key("checkpoint-age", Kind.DURATION, "Alert when newer commits exist and the last checkpoint is older."),
    Key("small-files", Kind.SHARE, "Alert from this share of data files below 16 MiB."),
    Key("tombstones", Kind.SHARE, "Alert from this share of tombstones among all file actions of the table."),
    Key("least-files", Kind.COUNT, "Minimum number of data files for the alerts on shares.", "20"),
    Key("failed-rules", Kind.COUNT, "Alert from so many rules with errors or warnings."),
)
"""The thresholds of a policy. `false` in place of the table turns inherited ones off."""

SECTION_KEYS: Mapping[str, tuple[Key, ...]] = {**STEP_KEYS, "alerts": ALERT_KEYS}
"""The tables of a policy: its steps, and its thresholds."""

DESTRUCTIVE = frozenset({"log-expire", "vacuum"})
"""The steps that delete files."""

POLICY_KEYS = (Key("inherits", Kind.TEXT, "Name of the policy whose steps and keys this one starts from."),)

TOP_KEYS = (
    Key("exclude", Kind.TEXTS, "Patterns of directories that belong to no group, with all below them."),
    Key("state", Kind.TEXT, "Directory of the journal and the leases.", "fleet-state"),
    Key("leases", Kind.TEXT, "Directory of the leases, a path or URI, where several machines share tables."),
    Key("lease", Kind.DURATION, "Time after which the lease of a run that stopped renewing it expires.", "1h"),
    Key("jobs", Kind.COUNT, "Tables that are worked on at once.", "4"),
    Key("calls-per-second", Kind.COUNT, "Maximum rate of requests to each remote store."),
)

WEBHOOK_KEYS = (
    Key("url", Kind.TEXT, "Address to which the summary of each run is sent: https, or http on loopback."),
    Key("secret-env", Kind.TEXT, "Environment variable with the secret of the signature."),
    Key("secret-file", Kind.TEXT, "File with the secret of the signature."),
    Key("when", Kind.CHOICE, "Runs to send: all, or those that do not exit with 0.", "always", ("always", "alerts")),
    Key("retry-budget", Kind.DURATION, "Time within which a failed request is repeated.", "30s"),
)
"""Keys of the table `webhook` at the top."""
