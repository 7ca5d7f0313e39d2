"""Whether a query can go on, in given cases, and in directories from seeds, whose restart a model knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltacli.api.table import Table
from deltacli.core.machine import fixed_clock
from deltacli.operations.streams.checkpoints import Finding, StreamCheckpoint, Verdict, find_checkpoints, worst
from deltacli.operations.streams.judge import SourceJudgement, judge
from deltacli.operations.streams.needs import read_history
from deltacli.storage import LocalStorage, open_storage
from tests.operations.streams.cases import CASES, Case
from tests.operations.streams.checkpoints import TABLE_ID, delta, own, standing
from tests.operations.streams.made import expected, make
from tests.operations.streams.tables import History
from tests.support.reading import NOW_MS


def _judged(root: Path, checkpoint: Path) -> tuple[StreamCheckpoint, list[SourceJudgement]]:
    table = Table(LocalStorage(str(root)), clock=fixed_clock(NOW_MS))
    (found,) = find_checkpoints([str(checkpoint)], open_storage, table.engine)
    own = [(found, one) for one in found.sources if one.table_id == TABLE_ID]
    history = read_history(table, own)
    return found, [judge(history, *one) for one in own]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.number} {case.what}")
def test_given_cases(case: Case, tmp_path: Path) -> None:
    found, judged = _judged(case.table.write(tmp_path / "table"), case.checkpoint.write(tmp_path / "checkpoint"))

    finding: Finding = worst([found.finding, *(one.rows for one in judged)])
    if case.verdict is None:
        assert (Verdict.OK, []) == (finding.verdict, judged)
        return
    if case.number == 50:
        assert not judged
        return
    assert case.verdict == finding.verdict, finding
    assert all(word in finding.because for word in case.because), finding
    if case.log is not None:
        assert case.log == min(one.needs.log_from for one in judged if one.needs.log_from is not None)
    if case.feed is not None:
        assert [case.feed] == [one.feed.verdict for one in judged if one.feed is not None]


@pytest.mark.parametrize("seed", range(160))
def test_a_verdict_is_what_the_restart_does(seed: int, tmp_path: Path) -> None:
    made = make(seed)
    root, checkpoint = made.write(tmp_path)

    _, (judged,) = _judged(root, checkpoint)

    assert expected(root, checkpoint, feed=False) == judged.rows.verdict, judged.rows
    if judged.feed is not None:
        assert expected(root, checkpoint, feed=True) == judged.feed.verdict, judged.feed


@pytest.mark.parametrize("offset", [delta(21, 5), delta(21, -20, source_version=3)])
def test_a_position_inside_the_next_version_says_that_the_log_was_set_back(offset: str, tmp_path: Path) -> None:
    _, (judged,) = _judged(History().write(tmp_path / "table"), standing(offset).write(tmp_path / "checkpoint"))

    assert Verdict.AT_RISK == judged.rows.verdict
    assert "set back" in judged.rows.because


LONGEST = (1 << 63) - 1


@pytest.mark.parametrize(
    "offset", [delta(LONGEST), delta(LONGEST, in_snapshot=True), delta(15, LONGEST), own(LONGEST, LONGEST)]
)
def test_a_position_after_which_no_other_can_be_named_is_not_readable(offset: str, tmp_path: Path) -> None:
    found, judged = _judged(History().write(tmp_path / "table"), standing(offset).write(tmp_path / "checkpoint"))

    assert Verdict.UNKNOWN == found.finding.verdict
    assert not judged
