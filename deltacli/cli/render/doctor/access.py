"""The result of `doctor access`."""

from __future__ import annotations

from deltacli.cli.render.columns import Column
from deltacli.cli.render.doctor.findings import DoctorResult, document_fields, finding_sections
from deltacli.cli.render.sections import Section
from deltacli.cli.terminal.term import Style
from deltacli.operations.doctor.access import AccessReport
from deltacli.typing import JsonObject

_STATES = {"granted": "allowed", "missing": "not allowed", "unknown": "unknown"}


def access_result(report: AccessReport) -> DoctorResult:
    """Return who sends the requests, and what each command may do."""
    content, items = report.as_json(), report.commands()
    columns: list[Column[JsonObject]] = [
        Column("commands", lambda one: one["commands"], priority=1, folds=True, least=20),
        Column("state", lambda one: one["state"], lambda one: _STATES[one["state"]], _style, priority=1, least=11),
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


def _style(item: JsonObject) -> Style:
    return {"granted": Style.GOOD, "missing": Style.PROBLEM}.get(item["state"], Style.PLAIN)


def _sections(report: AccessReport) -> list[Section]:
    identity = report.identity
    sections = [Section("table", [report.table]), Section("store", [f"{report.store} {report.endpoint}".rstrip()])]
    if identity is not None:
        sections += [
            Section("identity", [identity.name or "unknown"]),
            Section("credentials", [identity.source]),
            Section("details", [f"{name}: {text}" for name, text in identity.details.items()], is_cut=False),
            Section("chain", [f"{name}: {text}" for name, text in identity.chain.items()], is_cut=False),
        ]
    permits = [f"{name}: {permit.state} ({permit.reason})" for name, permit in report.permits.items()]
    sections.append(Section("permissions", permits, is_cut=False))
    return [section for section in sections if section.lines]
