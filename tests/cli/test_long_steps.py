"""The note that names the cluster engine where this process would take long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltacli.cli.app import run
from deltacli.core import long_steps
from deltacli.core.long_steps import LongStepAdvisor
from deltacli.core.progress import SILENT, report_items, report_weighed_items


def said(*, is_far: bool, what: str, **step: Any) -> list[str]:
    notes: list[str] = []
    progress = LongStepAdvisor(SILENT, notes.append, is_remote=is_far)
    begin = progress.weighed_step if "weight" in step else progress.step
    for _ in range(2):
        with begin(what, **step):
            pass
    return notes


@pytest.mark.parametrize(
    "is_far, step, expected",
    [
        (True, {"what": "reading footers", "unit": "files", "total": 720_000, "weight": 720_000}, "720,000 files take"),
        (True, {"what": "reading footers", "unit": "files", "total": 719_999, "weight": 719_999}, None),
        (False, {"what": "reading footers", "unit": "files", "total": 720_000, "weight": 720_000}, None),
        (False, {"what": "reading rows", "unit": "files", "total": 9, "weight": 10**12}, "take about 33m"),
        (False, {"what": "reading rows", "unit": "files", "total": 9, "weight": 10**13}, "take about 6h"),
        (True, {"what": "deleting", "unit": "files", "total": 40_000_000}, "deleting: 40,000,000 files take about 40m"),
        (True, {"what": "something else", "unit": "files", "total": 10**12}, None),
        (True, {"what": "deleting", "unit": "files", "total": None}, None),
    ],
)
def test_it_is_said_once_from_half_an_hour_on(is_far: bool, step: dict[str, Any], expected: str | None) -> None:
    notes = said(is_far=is_far, **step)

    assert (0 if expected is None else 1) == len(notes)
    assert expected is None or expected in notes[0]


def test_steps_that_nobody_sees_are_estimated_and_their_items_passed_on_as_they_are() -> None:
    notes: list[str] = []
    progress = LongStepAdvisor(SILENT, notes.append, is_remote=True)
    items = iter([1])

    same = report_items(items, progress, "deleting", unit="files", total=40_000_000)
    weighed = report_weighed_items(items, progress, "rows", unit="files", weights=[1], weight_of=lambda _: 1)

    assert items is same
    assert items is weighed
    assert 1 == len(notes)


@pytest.fixture
def _slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file takes an hour."""
    costs = dict.fromkeys(long_steps.UNIT_COSTS, long_steps.UnitCost(local_seconds=3600, remote_seconds=3600))
    monkeypatch.setattr(long_steps, "UNIT_COSTS", costs)


@pytest.mark.usefixtures("_slow")
@pytest.mark.parametrize("options, expected", [([], 1), (["--quiet"], 0)])
def test_the_note_repeats_the_command_and_leaves_the_document(
    options: list[str], expected: int, sample: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["validate", str(sample), "--level", "footers", "--json", "--now", "2026-01-04"]

    run([*arguments, *options])
    out, err = capfd.readouterr()
    monkeypatch.undo()
    run([*arguments, *options])

    assert expected == err.count("take about")
    assert expected == err.count(f"on a Spark cluster: deltacli {' '.join(arguments)} --engine spark")
    assert capfd.readouterr().out == out
