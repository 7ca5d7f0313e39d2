"""The report next to a plan is the document that the command prints."""

from __future__ import annotations

import json
import os
from pathlib import Path

from deltacli.changing.file_totals import FileTotals
from deltacli.changing.outcome import DeletionFailures
from deltacli.operations.vacuum.plan import VacuumOutcome
from deltacli.operations.vacuum.saved import write_report
from tests.support.reading import NOW_MS
from tests.support.vacuum_plans import plan_of_paths


def test_the_report_contains_plan_and_outcome(tmp_path: Path) -> None:
    plan = plan_of_paths(b"a", b"b", b"c")
    outcome = VacuumOutcome(
        deleted=FileTotals(1, 1_000), missing=1, failed=DeletionFailures(1, [("c\udcff", "denied")])
    )

    path = write_report(plan, outcome, str(tmp_path / "plan.parquet"), now_ms=NOW_MS)

    document = json.loads(Path(path).read_bytes())
    assert f"{tmp_path}/plan.parquet.report.json" == path
    assert ["plan.parquet.report.json"] == os.listdir(tmp_path)
    assert {**plan.as_json(), **outcome.as_json()}.items() <= document.items()
    assert ("deltacli.vacuum", plan.table, False) == (document["kind"], document["table"], document["complete"])
    assert (NOW_MS, "2023-12-12T22:13:20.000Z") == (document["timestampMs"], document["timestamp"])


def test_a_report_is_complete_if_every_file_is_deleted_or_needed_again(tmp_path: Path) -> None:
    plan = plan_of_paths(b"a", b"b", b"c")
    place = str(tmp_path / "plan.parquet")

    def is_complete(outcome: VacuumOutcome) -> bool:
        found = json.loads(Path(write_report(plan, outcome, place, now_ms=NOW_MS)).read_bytes())["complete"]
        return bool(found)

    assert is_complete(VacuumOutcome(deleted=FileTotals(1, 1), missing=1, spared=1))
    assert not is_complete(VacuumOutcome(deleted=FileTotals(1, 1), missing=1))
    assert not is_complete(VacuumOutcome(deleted=FileTotals(2, 2), failed=DeletionFailures(1)))
