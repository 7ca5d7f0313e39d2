"""The result of `doctor storage`."""

from __future__ import annotations

from deltacli.cli.render.columns import Column
from deltacli.cli.render.doctor.findings import DoctorResult, document_fields, finding_sections
from deltacli.cli.render.sections import Section
from deltacli.cli.terminal.term import Style
from deltacli.operations.doctor.storage import StorageReport
from deltacli.typing import JsonObject

_GOOD = "the store guarantees what deltacli relies on"
_UNSURE = "nothing is wrong, but not every probe had a usable answer; run the same command again"


def storage_result(report: StorageReport) -> DoctorResult:
    """Return the probes of a store, run or planned."""
    content, items = report.as_json(), report.probes()
    columns: list[Column[JsonObject]] = [
        Column("probe", lambda one: one["probe"], priority=1, least=15),
        Column("what", lambda one: one["what"], priority=3, folds=True, least=20),
        Column("expected", lambda one: one["expected"], on_screen=False),
        Column("outcome", lambda one: one["outcome"], style=_style, priority=1, least=12),
        Column("seen", lambda one: one.get("seen"), priority=2, folds=True, least=12),
        Column("finding", lambda one: one.get("finding"), priority=4, on_screen=False),
    ]
    said = [Section("table", [report.table]), Section("store", [f"{report.store} {report.endpoint}".rstrip()])]
    said.append(Section("scratch files", [report.scratch]))
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


def _style(item: JsonObject) -> Style:
    return {"passed": Style.GOOD, "failed": Style.PROBLEM}.get(item["outcome"], Style.PLAIN)
