"""Results of `deltacli doctor`: a table of permissions or probes, and findings about the store in sections below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO

from deltacli.cli.render.columns import Column
from deltacli.cli.render.json import SCHEMA_VERSION
from deltacli.cli.render.sections import Section
from deltacli.cli.render.text_form import write_sections
from deltacli.cli.results import Listing
from deltacli.cli.terminal.term import Style, Terminal
from deltacli.operations.doctor.findings import Severity, StoreFinding
from deltacli.typing import JsonObject

if TYPE_CHECKING:
    from deltacli.operations.doctor.access import AccessReport
    from deltacli.operations.doctor.storage import StorageReport


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
        self.draw_rows(sink, terminal)
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


def access_result(report: AccessReport) -> DoctorResult:
    """Return who sends the requests, and what each command may do."""
    content, items = report.as_json(), report.commands()
    columns: list[Column[JsonObject]] = [
        Column("commands", lambda one: one["commands"], priority=1, folds=True, least=20),
        Column("state", lambda one: one["state"], style=_access_style, priority=1, least=7),
        Column("needs", lambda one: " ".join(one["needs"]), priority=3, folds=True, least=20),
        Column("missing", lambda one: " ".join(one["missing"]), priority=2, folds=True),
    ]
    said = _sections(report)
    result = DoctorResult(
        document_fields("doctor-access", report.table, content),
        "doctor-command",
        items,
        columns,
        items,
        items_name="commands",
        last={"type": "doctor-access", "table": report.table, **content},
        said=lambda _: said,
    )
    result.below = finding_sections(report.findings, _verdict(report))
    return result


def _verdict(report: AccessReport) -> str:
    unknown = [name for name, permit in report.permits.items() if permit.state == "unknown"]
    return (
        f"no permission is known to be missing; unknown: {', '.join(unknown)}"
        if unknown
        else "no permission is missing"
    )


def _access_style(item: JsonObject) -> Style:
    return {"granted": Style.GOOD, "missing": Style.PROBLEM}.get(item["state"], Style.PLAIN)


def _sections(report: AccessReport) -> list[Section]:
    identity = report.identity
    sections = [Section("table", [report.table]), Section("store", [f"{report.store} {report.endpoint}".rstrip()])]
    if identity is not None:
        sections += [
            Section("identity", [identity.name or "unknown"]),
            Section("credentials", [identity.source]),
            Section("details", [f"{name}: {text}" for name, text in identity.details.items()]),
            Section("chain", [f"{name}: {text}" for name, text in identity.chain.items()]),
        ]
    permits = [f"{name}: {permit.state} ({permit.reason})" for name, permit in report.permits.items()]
    sections.append(Section("permissions", permits))
    return [section for section in sections if section.lines]


_GOOD = "the store guarantees what deltacli relies on"
_UNSURE = "nothing is wrong, but not every probe had a usable answer; run the same command again"


def storage_result(report: StorageReport) -> DoctorResult:
    """Return the probes of a store, run or planned."""
    content, items = report.as_json(), report.probes()
    columns: list[Column[JsonObject]] = [
        Column("probe", lambda one: one["probe"], priority=1, least=15),
        Column("what", lambda one: one["what"], priority=3, folds=True, least=20),
        Column("expected", lambda one: one["expected"], on_screen=False),
        Column("outcome", lambda one: one["outcome"], style=_storage_style, priority=1, least=12),
        Column("seen", lambda one: one.get("seen"), priority=2, folds=True, least=12),
        Column("finding", lambda one: one.get("finding"), priority=4, on_screen=False),
    ]
    said = [Section("table", [report.table]), Section("store", [f"{report.store} {report.endpoint}".rstrip()])]
    said.append(
        Section("scratch files", [f"names that begin with {report.scratch}" if report.dry_run else report.scratch])
    )
    result = DoctorResult(
        document_fields("doctor-storage", report.table, content, is_complete=report.is_complete),
        "doctor-probe",
        items,
        columns,
        items,
        items_name="probes",
        last={"type": "doctor-storage", "table": report.table, **content},
        said=lambda _: said,
    )
    if not report.dry_run:
        result.below = finding_sections(report.findings, _GOOD if report.is_complete else _UNSURE)
    return result


def _storage_style(item: JsonObject) -> Style:
    return {"passed": Style.GOOD, "failed": Style.PROBLEM}.get(item["outcome"], Style.PLAIN)
