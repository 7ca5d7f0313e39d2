"""Progress with a clock of the test's own: when it is shown, what it says, and that nothing is left of it."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from deltacli import open_table
from deltacli.cli.formats import NDJSON
from deltacli.cli.options.shared import Run
from deltacli.cli.terminal import progress as progress_module
from deltacli.cli.terminal.progress import JsonPainter, LinePainter, LiveProgress, StepState, describe
from deltacli.cli.terminal.term import Terminal, cells, live_line, set_live_line
from deltacli.clock import fixed_clock
from deltacli.progress import SILENT, reported
from tests.cli.support import ROOT, deltacli

SCHEMA = json.loads((ROOT / "docs" / "schemas" / "progress.json").read_text())


class Watch:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


class Paper:
    """What was written, and what of it a terminal of one line would still show."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def __call__(self, text: str) -> None:
        self.written.append(text)

    @property
    def shown(self) -> str:
        return "".join(self.written).rsplit("\r", 1)[-1].removesuffix("\x1b[K")


def line_on(paper: Paper, clock: Watch, *, width: int = 80) -> LiveProgress:
    return LiveProgress(LinePainter(paper, lambda: width, lambda: True), clock=clock, ticking=False)


def test_work_of_half_a_second_shows_nothing_and_longer_work_a_line() -> None:
    paper, clock = Paper(), Watch()
    progress = line_on(paper, clock)

    with progress.step("reading the log", unit="commits", total=2_000) as step:
        step.advance(100)
        clock.seconds += 0.4
        progress.tick()
        before = list(paper.written)
        clock.seconds += 1.6
        step.advance(300)
        progress.tick()

    assert [] == before
    assert "reading the log  400/2,000 commits  20%  200/s  0:02  ETA 0:08" == paper.shown


def test_at_most_ten_pictures_a_second() -> None:
    paper, clock = Paper(), Watch()
    progress = line_on(paper, clock)

    with progress.step("listing the log", unit="files") as step:
        for _ in range(1_000):
            clock.seconds += 0.002
            step.advance()
            progress.tick()

    assert 10 <= len(paper.written) <= 16  # of the two seconds the first half is quiet


def test_the_innermost_step_is_shown_and_the_outer_one_again_after_it() -> None:
    paper, clock = Paper(), Watch()
    progress = line_on(paper, clock)

    with progress.step("outer", unit="commits"):
        clock.seconds += 1
        with progress.step("inner", unit="bytes", total=4 << 20) as step:
            step.advance(1 << 20)
            clock.seconds += 1
            progress.tick()
            inside = paper.shown
        clock.seconds += 1
        progress.tick()

    assert "inner  1.0 MiB/4.0 MiB  25%  1.0 MiB/s  0:01  ETA 0:03" == inside
    assert "outer  0 commits  0:03" == paper.shown


def test_a_picture_that_a_signal_interrupts_is_taken_away() -> None:
    paper, clock = Paper(), Watch()

    def write(text: str) -> None:
        paper(text)
        if len(paper.written) == 1:
            raise KeyboardInterrupt

    progress = LiveProgress(LinePainter(write, lambda: 80, lambda: True), clock=clock, ticking=False)
    with progress.step("reading the log", unit="commits"):
        clock.seconds += 1
        with pytest.raises(KeyboardInterrupt):
            progress.tick()
    progress.close()

    assert "\r\x1b[K" == paper.written[-1]


def test_who_leaves_at_once_waits_a_moment_for_a_picture_that_is_just_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "_A_MOMENT", 30)
    paper, clock, drawing, leaving = Paper(), Watch(), threading.Event(), threading.Event()

    def write(text: str) -> None:
        paper(text)
        drawing.set()
        leaving.wait(30)

    progress = LiveProgress(LinePainter(write, lambda: 80, lambda: True), clock=clock, ticking=False)
    with progress.step("reading the log", unit="commits"):
        clock.seconds += 1
        ticker = threading.Thread(target=progress.tick)
        ticker.start()
        drawing.wait(30)
        leaving.set()
        progress.leave()
        ticker.join()

    assert "\r\x1b[K" == paper.written[-1]


def test_nothing_is_left_of_the_line() -> None:
    paper, clock = Paper(), Watch()
    progress = line_on(paper, clock)

    with progress.step("reading", unit="rows"):
        clock.seconds += 1
        progress.tick()
        with progress.hidden():
            hidden = paper.shown
        progress.tick()
        soon_after = paper.shown
        clock.seconds += 1
        progress.tick()
        again = paper.shown
        progress.close()
        clock.seconds += 1
        progress.tick()

    assert ("", "") == (hidden, soon_after)
    assert "reading  0 rows  0:02" == again
    assert "\r\x1b[K" == paper.written[-1]


@pytest.mark.parametrize("width", [10, 20, 40, 80, 200])
def test_the_line_fits_the_terminal_and_keeps_what_tells_most(width: int) -> None:
    step = StepState("reading the log", "commits", 10_000, done=1_234)

    line = describe(step, 61.0, width)

    assert cells(line) <= width
    assert (width >= 20) == ("12%" in line)
    assert (width >= 80) == ("20/s" in line)


def test_json_lines_come_first_last_and_twice_a_second(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Watch()
    progress = LiveProgress(JsonPainter(), clock=clock, ticking=False)

    with progress.step("reading the log", unit="commits", total=1_000) as step:
        for _ in range(1_000):
            clock.seconds += 0.002
            step.advance()
            progress.tick()
    with progress.step("nothing to do", unit="rows", total=0):
        pass

    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [] == [fault.message for line in lines for fault in Draft202012Validator(SCHEMA).iter_errors(line)]
    assert 5 <= len(lines) <= 7
    assert (0, 0) == (lines[0]["done"], lines[0]["elapsedMs"])
    assert (1_000, 2_000) == (lines[-1]["done"], round(lines[-1]["elapsedMs"], -1))
    assert {"reading the log"} == {line["step"] for line in lines}


def test_silence_costs_not_even_a_generator() -> None:
    items = iter(range(3))

    assert items is reported(items, SILENT, "reading", unit="rows")


class Listener:
    """A progress that remembers the steps: name, unit, total, and what was done in the end."""

    def __init__(self) -> None:
        self.steps: list[StepState] = []

    def step(self, what: str, *, unit: str, total: int | None = None) -> _Remembered:
        return _Remembered(self.steps, StepState(what, unit, total))


class _Remembered:
    def __init__(self, steps: list[StepState], state: StepState) -> None:
        self._steps, self._state = steps, state

    def __enter__(self) -> StepState:
        self._steps.append(self._state)
        return self._state

    def __exit__(self, *_: object) -> None:
        self._steps.append(StepState("end of " + self._state.what, "", None))


def test_operations_tell_what_they_do_and_finish_what_they_announce(sample: Path) -> None:
    from deltacli.operations.read.snapshot import summarize

    listener = Listener()
    table = open_table(str(sample), progress=listener)

    table.history(limit=4)
    summarize(table, digest=True)
    table.snapshot().counts()
    listed = sum(batch.num_rows for batch in table.snapshot().files())

    steps = {step.what: (step.done, step.total, step.unit) for step in listener.steps}
    assert 21 == listed
    assert (4, 4, "commits") == steps["reading the history"]
    assert (4, 4, "commits") == steps["reading the log"]
    assert (16, None, "files") == steps["listing the log"]
    assert (4, 4, "digests") == steps["sorting and hashing"]
    for step in ("counting files", "reading the checkpoint"):
        done, total, unit = steps[step]
        assert total is not None
        assert (total, "rows") == (done, unit)
        assert total > 0
    begun = [step.what for step in listener.steps if not step.what.startswith("end of ")]
    assert sorted(begun) == sorted(s.what.removeprefix("end of ") for s in listener.steps if s.what.startswith("end"))


def test_progress_as_json_lines_beside_a_result(sample: Path) -> None:
    asked = deltacli("history", sample, "--progress", "json")
    by_environment = deltacli("history", sample, DELTACLI_PROGRESS="json")
    quiet = deltacli("history", sample, "--progress", "json", "-q")
    silent = deltacli("history", sample)
    wrong = deltacli("history", sample, DELTACLI_PROGRESS="loud")

    lines = [json.loads(line) for line in asked.err.splitlines()]
    assert [] == [fault.message for line in lines for fault in Draft202012Validator(SCHEMA).iter_errors(line)]
    assert (15, 15) == (lines[-1]["done"], lines[-1]["total"])
    assert len(lines) == len(by_environment.err.splitlines())
    assert ("", "") == (quiet.err, silent.err)
    assert asked.out == silent.out == quiet.out
    assert (2, "error: DELTACLI_PROGRESS is 'loud'") == (wrong.code, wrong.err.splitlines()[0])


@pytest.mark.parametrize("was_asked_for", [True, False])
def test_the_line_ends_when_the_result_flows_into_a_pipe_unless_it_was_asked_for(
    was_asked_for: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Whoever reads the pipe may draw on the same terminal.
    """
    paper = Paper()
    progress = line_on(paper, Watch())
    read, write = os.pipe()
    run = Run(
        format=NDJSON,
        output=None,
        clock=fixed_clock(0),
        storage_options={},
        terminal=Terminal(is_terminal=False, width=None, colour=False),
        quiet=False,
        verbosity=0,
        progress_is_asked_for=was_asked_for,
    )
    set_live_line(progress)
    try:
        with os.fdopen(write, "w") as stdout, monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", stdout)
            with run.sink() as sink:
                is_live = live_line() is progress
                sink.write(b"result")
    finally:
        set_live_line(None)
    result = os.read(read, 100)
    os.close(read)

    assert b"result" == result
    assert was_asked_for == is_live
