"""What a run of `validate` found, as every renderer needs it: tables, findings, counts, and where things lie."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote, unquote

from deltacli.cli.terminal.characters import encode_utf8
from deltacli.core.errors import DeltacliError
from deltacli.core.units import plural
from deltacli.delta.log.segment import Place
from deltacli.delta.paths.spelling import IS_ABSOLUTE
from deltacli.operations.validate.validate import Validation
from deltacli.rules.framework.base import Finding, Rule, Severity
from deltacli.rules.framework.repairs import Risk, risk_of

_RANK = {Severity.INFO: 0, Severity.WARNING: 1, Severity.ERROR: 2}
_RISKS = list(Risk)
_LOCAL = "file://"


class Counts(NamedTuple):
    """How many findings of each severity, and of how many rules."""

    errors: int
    warnings: int
    infos: int
    rules: int

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> Counts:
        by_severity = dict.fromkeys(Severity, 0)
        rules = set()
        for finding in findings:
            by_severity[finding.severity] += 1
            rules.add(finding.rule.id)
        return cls(by_severity[Severity.ERROR], by_severity[Severity.WARNING], by_severity[Severity.INFO], len(rules))


class CheckedTable(NamedTuple):
    """One table: `findings` are those that a baseline does not accept, up to the limit; `suppressed` counts the rest of
    each rule. `name` is the table as the user wrote it. `fails`: a finding reaches `--fail-on`, shown or not.
    """

    name: str
    validation: Validation
    findings: tuple[Finding, ...]
    suppressed: Mapping[str, int]
    accepted: int
    fails: bool
    is_server: bool = False
    """Of `share test`: the server itself, not one of its tables."""

    @property
    def counts(self) -> Counts:
        return Counts.of(self.findings)


class ValidationReport(NamedTuple):
    """A whole run. `failures` are paths that could not be looked at. `stale` counts what a baseline accepts and is
    there no more; None where there is no baseline.
    """

    level: str
    fail_on: Severity
    tables: tuple[CheckedTable, ...]
    failures: tuple[tuple[str, DeltacliError], ...]
    rules: Callable[[], Sequence[Rule]]
    """Return the rules that were checked, and any other that reported."""
    stale: int | None = None
    command: str = "validate"
    """The command whose report it is."""
    left_out: tuple[str, ...] = ()
    """What the run left out as a whole, and why."""
    by_path: bool = False
    """The findings of a table are written in the order of the files, not errors first."""

    @property
    def counts(self) -> Counts:
        return Counts.of(finding for table in self.tables for finding in table.findings)

    def ordered(self, table: CheckedTable) -> Sequence[Finding]:
        """Return the findings of a table in the order in which they are written."""
        return table.findings if self.by_path else errors_first(table)

    @property
    def subjects(self) -> str:
        tables = sum(not table.is_server for table in self.tables)
        return f"{'the server and ' if tables < len(self.tables) else ''}{plural(tables, 'table')}"

    @property
    def reads_logs_only(self) -> bool:
        """True if nothing but the logs of Delta tables was read: files may be missing all the same."""
        return self.level == "log" and self.command == "validate" and self.table_format == "delta"

    @property
    def table_format(self) -> str:
        """The format of the tables; delta for tables of both formats, each of which then says so itself."""
        formats = {table.validation.table_format for table in self.tables}
        return formats.pop() if len(formats) == 1 else "delta"

    @property
    def is_complete(self) -> bool:
        """False where something was left out: findings above the limit, a path that could not be looked at."""
        return not self.failures and not self.left_out and not any(table.suppressed for table in self.tables)

    @property
    def accepted(self) -> int:
        return sum(table.accepted for table in self.tables)


def reaches(severity: Severity, limit: Severity) -> bool:
    """True if a finding of this severity weighs at least as much as the limit."""
    return _RANK[severity] >= _RANK[limit]


def errors_first(table: CheckedTable) -> list[Finding]:
    """Return the findings of a table by severity, then by what they put at stake, then in the order of the files."""
    return sorted(table.findings, key=lambda finding: (-_RANK[finding.severity], rank_finding(table, finding)))


def rank_finding(table: CheckedTable, finding: Finding) -> tuple[int, int]:
    """A key that sorts findings of a table as its verdict does: by what they put at stake, then by severity."""
    unsupported = table.validation.unsupported
    if unsupported is not None and finding.rule.id == unsupported.code:
        return -1, 0
    risk = risk_of(finding)
    return _RISKS.index(risk) if risk is not None else len(_RISKS), -_RANK[finding.severity]


def place_name(table: CheckedTable, place: Place) -> str:
    """Where something lies, below the table as the user wrote it, so that an editor can jump there."""
    if not place.path or IS_ABSOLUTE.match(place.path):
        return place.path or table.name
    return f"{table.name.rstrip('/')}/{place.path}"


def working_path(table: CheckedTable, place: Place) -> str:
    """Where something lies, for services that know a file by its path below the current directory; else absolute."""
    uri = table.validation.table
    if IS_ABSOLUTE.match(place.path):
        uri, below = place.path, ""
    else:
        below = place.path
    if uri.startswith("/"):
        root = uri
    elif uri.startswith(_LOCAL):
        root = unquote(uri.removeprefix(_LOCAL), errors="surrogateescape")
    else:
        return f"{uri}/{below}" if below else uri
    path = os.path.join(root, below) if below else root
    relative = os.path.relpath(path)
    return path if relative.split(os.sep)[0] == os.pardir else relative


def working_uri(table: CheckedTable, place: Place) -> str:
    """The same as a URI: relative to the current directory, or absolute."""
    path = working_path(table, place)
    if not path.startswith("/") and IS_ABSOLUTE.match(path):
        return (
            path if path in (place.path, table.validation.table) else f"{table.validation.table}/{_quoted(place.path)}"
        )
    return f"{_LOCAL}{_quoted(path)}" if path.startswith("/") else _quoted(path)


def _quoted(path: str) -> str:
    return quote(encode_utf8(path))
