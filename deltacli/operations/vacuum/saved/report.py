"""The report of an executed plan: the document `deltacli.vacuum`, in a file next to the plan."""

from __future__ import annotations

from typing import Any

from deltacli.documents import dumps, envelope
from deltacli.operations.vacuum.plan import VacuumOutcome, VacuumPlan
from deltacli.storage.replacement import replacement
from deltacli.units import format_timestamp

KIND = "deltacli.vacuum"


def report_path(plan_path: str) -> str:
    """Return the path of the report of a plan's file."""
    return f"{plan_path}.report.json"


def report_of(plan: VacuumPlan, outcome: VacuumOutcome, *, now_ms: int) -> dict[str, Any]:
    """Return the document. It is complete where every file of the plan is deleted or needed again."""
    decided = outcome.deleted.files + outcome.missing + outcome.spared
    return {
        **envelope(KIND, plan.table, complete=decided >= plan.files and not outcome.failures),
        **plan.as_json(),
        **outcome.as_json(),
        "dryRun": False,
        "timestampMs": now_ms,
        "timestamp": format_timestamp(now_ms),
    }


def write_report(plan: VacuumPlan, outcome: VacuumOutcome, plan_path: str, *, now_ms: int) -> str:
    """Write the report next to the plan's file, replacing an older one, and return its path. Raises StorageFailed."""
    path = report_path(plan_path)
    with replacement(path) as sink:
        sink.write(dumps(report_of(plan, outcome, now_ms=now_ms), indent=True) + b"\n")
    return path
