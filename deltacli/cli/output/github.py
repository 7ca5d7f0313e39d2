"""Write findings as workflow commands of GitHub Actions (`--format github`).

GitHub shows each command as an annotation of a file:

    ::error file=trips/_delta_log/00000000000000000007.json,line=2,title=commit.bad-json::invalid JSON
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import BinaryIO

from deltacli.cli.output.results import ReportedResult
from deltacli.cli.render.validate.findings import advice_of, values_of
from deltacli.cli.render.validate.report import CheckedTable, working_path
from deltacli.cli.terminal.capabilities import Terminal
from deltacli.cli.terminal.characters import escape_control, escape_for_screen
from deltacli.rules.framework.base import Finding, Severity

_LINE_END = re.compile("([\r\n])")
_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def write_github(sink: BinaryIO, result: ReportedResult, _terminal: Terminal) -> None:
    """Write an annotation per finding, and per group of findings or checks that was omitted.

    Errors are written first, because GitHub shows only the first ten annotations.
    """
    report = result.report
    for table in report.tables:
        for finding in report.ordered(table):
            sink.write(_encode_annotation(table, finding))
        for rule, count in table.suppressed.items():
            sink.write(_encode_command("notice", {"title": rule}, [f"{table.name}: {count} more are not shown"]))
        for sentence in table.validation.not_checked:
            sink.write(_encode_command("notice", {"title": "not checked"}, [f"{table.name}: {sentence}"]))
    for name, error in report.failures:
        sink.write(_encode_command("error", {"title": error.code}, [f"{name}: {error.message}"]))


def _encode_annotation(table: CheckedTable, finding: Finding) -> bytes:
    """Encode a finding. The message is followed by lines with the values and the fix."""
    properties = {"file": working_path(table, finding.place)}
    if finding.place.line is not None:
        properties["line"] = str(finding.place.line)
    properties["title"] = finding.rule.id

    facts = [*values_of(finding), *advice_of(finding.rule, table)]
    lines = [finding.message, *(f"{name}: {value}" for name, value in facts if value)]
    return _encode_command(_COMMANDS[finding.severity], properties, lines)


def _encode_command(name: str, properties: dict[str, str], lines: Sequence[str]) -> bytes:
    """Encode a workflow command: `::NAME key=value,…::message`."""
    properties_text = ",".join(f"{key}={_escape_property(value)}" for key, value in properties.items())
    message = _escape_data("\n".join(map(escape_for_screen, lines)))
    return f"::{name} {properties_text}::{message}\n".encode("utf-8", "backslashreplace")


def _escape_data(text: str) -> str:
    """Escape the characters that end a workflow command, in the notation of the GitHub runner."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    """Escape control characters and the characters that end a property of a workflow command."""
    parts = [part if part in ("\r", "\n") else escape_control(part) for part in _LINE_END.split(text)]
    return _escape_data("".join(parts)).replace(":", "%3A").replace(",", "%2C")
