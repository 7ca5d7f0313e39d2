"""Findings about a store, in sections below a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

from deltacli.cli.render.json import SCHEMA_VERSION
from deltacli.cli.render.sections import Section
from deltacli.cli.render.text_form import write_sections, write_table
from deltacli.cli.results import Listing
from deltacli.cli.terminal.term import Style, Terminal
from deltacli.operations.doctor.findings import Severity, StoreFinding
from deltacli.typing import JsonObject


def document_fields(kind: str, table: str, content: JsonObject, *, is_complete: bool = True) -> JsonObject:
    """Return the fields of a document about the store of a table of any format."""
    fields = {"kind": f"deltacli.{kind}", "schemaVersion": SCHEMA_VERSION, "table": table, "complete": is_complete}
    return fields | dict(content)


class DoctorResult(Listing[JsonObject]):
    """The sections of the store, a table, and the findings."""

    below: Sequence[Section] = ()

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        write_sections(sink, terminal, self.sections(terminal))
        sink.write(b"\n")
        shown = [column for column in self.columns if column.on_screen or not terminal.is_drawn]
        write_table(sink, terminal, shown, self.rows)
        if self.below:
            sink.write(b"\n")
            write_sections(sink, terminal, self.below)


def finding_sections(findings: Sequence[StoreFinding], good: str) -> list[Section]:
    """Return the findings by severity, or one line where there are none that matter."""
    sections = [
        Section(
            f"{severity}s" if severity is not Severity.INFO else "notes",
            _texts(findings, severity),
            style,
            is_cut=False,
        )
        for severity, style in (
            (Severity.ERROR, Style.PROBLEM),
            (Severity.WARNING, Style.PLAIN),
            (Severity.INFO, Style.PLAIN),
        )
    ]
    found = [section for section in sections if section.lines]
    is_good = all(finding.severity is Severity.INFO for finding in findings)
    return [*found, *([Section("result", [good], Style.GOOD)] if is_good else [])]


def _texts(findings: Sequence[StoreFinding], severity: Severity) -> list[str]:
    chosen = (finding for finding in findings if finding.severity is severity)
    return [line for one in chosen for line in (f"{one.code}: {one.message}", f"  {one.next}")]
