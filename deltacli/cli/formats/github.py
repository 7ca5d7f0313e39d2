"""`--format github`: findings as workflow commands of GitHub Actions, which annotate a file and a line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO

from deltacli.cli.render.validate.findings import advice_of, values_of
from deltacli.cli.render.validate.report import CheckedTable, working_path
from deltacli.cli.terminal.term import for_screen, visible
from deltacli.rules.framework.base import Finding, Severity

if TYPE_CHECKING:
    from deltacli.cli.results import ReportedResult
    from deltacli.cli.terminal.term import Terminal

_LINE_END = re.compile("([\r\n])")
_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def write_github(sink: BinaryIO, result: ReportedResult, _terminal: Terminal) -> None:
    """Write an annotation per finding, errors first, and one for each omission. GitHub shows the first ten."""
    report = result.report
    for table in report.tables:
        for finding in report.ordered(table):
            sink.write(_annotation(table, finding))
        for rule, count in table.suppressed.items():
            sink.write(_command("notice", {"title": rule}, [f"{table.name}: {count} more are not shown"]))
        for sentence in table.validation.not_checked:
            sink.write(_command("notice", {"title": "not checked"}, [f"{table.name}: {sentence}"]))
    for name, fault in report.failures:
        sink.write(_command("error", {"title": fault.code}, [f"{name}: {fault.message}"]))


def _annotation(table: CheckedTable, finding: Finding) -> bytes:
    """Return `::error file=…,line=…,title=rule::message`, with the values and the fix on lines of their own."""
    properties = {"file": working_path(table, finding.place)}
    if finding.place.line is not None:
        properties["line"] = str(finding.place.line)
    properties["title"] = finding.rule.id
    pairs = [*values_of(finding), *advice_of(finding.rule, table)]
    lines = [finding.message, *(f"{name}: {value}" for name, value in pairs if value)]
    return _command(_COMMANDS[finding.severity], properties, lines)


def _command(name: str, properties: dict[str, str], lines: Sequence[str]) -> bytes:
    """Return a command whose message has these lines; control and direction characters in a line are escaped."""
    shown = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    message = _data("\n".join(map(for_screen, lines)))
    return f"::{name} {shown}::{message}\n".encode("utf-8", "backslashreplace")


def _data(text: str) -> str:
    """Return a message with the characters that end a command escaped as the runner expects."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Return a property value with control characters and the characters that end it escaped, line ends by `%0A`."""
    return "".join(
        _data(part if part in ("\r", "\n") else visible(part)).replace(":", "%3A").replace(",", "%2C")
        for part in _LINE_END.split(text)
    )
