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
from deltacli.cli.output.formats import NDJSON
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.result_options import ResultOptions
from deltacli.cli.terminal import progress as progress_module
from deltacli.cli.terminal.capabilities import Terminal
from deltacli.cli.terminal.characters import count_cells
from deltacli.cli.terminal.progress import BarPainter, JsonPainter, LiveProgress
from deltacli.cli.terminal.stderr import get_live_line, set_live_line
from deltacli.cli.terminal.steps import Eta, StepSnapshot, StepState
from deltacli.core.machine import fixed_clock
from deltacli.core.progress import SILENT, report_items, report_weighed_items, start_weighed_step
from tests.cli.support import ROOT, deltacli
from tests.support.waiting import join

SCHEMA = json.loads((ROOT / "docs" / "schemas" / "progress.json").read_text())


class Watch:
    """A clock that is advanced by hand."""

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
    return LiveProgress(BarPainter(paper, lambda: width, lambda: True, colour=False), clock=clock, ticking=False)


def test_short_work_shows_nothing_and_longer_work_shows_a_line() -> None:
    paper, clock = Paper(), Watch()
    progress = line_on(paper, clock)

    with progress.step("reading the log", unit="commits", total=2_000) as step:
        step.advance(100)
        clock.seconds += 0.3
        progress.tick()
        before = list(paper.written)
        clock.seconds += 1.7
        step.advance(300)
        progress.tick()

    assert [] == before
    assert ["reading the log", "20% 400/2,000 commits 200/s 0:02"] == [
        part.strip() for part in paper.shown.split("━" * 6)
    ]


def test_a_line_is_shown_soon_after_the_command_began_however_late_its_first_step_is() -> None:
    paper, clock = Paper(), Watch()
    painter = BarPainter(paper, lambda: 80, lambda: True, colour=False)
    progress = LiveProgress(painter, clock=clock, ticking=False, began=clock.seconds)

    clock.seconds += 0.5
    with progress.step("reading the log", unit="commits", total=2_000):
        progress.tick()

    assert "reading the log" in paper.shown


def test_progress_is_drawn_at_most_ten_times_per_second() -> None:
    paper, clock = Paper(), Watch()
    progress = line_on(paper, clock)

    with progress.step("listing the log", unit="files") as step:
        for _ in range(1_000):
            clock.seconds += 0.002
            step.advance()
            progress.tick()

    assert 10 <= len(paper.written) <= 16  # of the two seconds the first half is quiet


def test_the_outermost_and_the_innermost_step_are_shown_and_then_erased() -> None:
    paper, clock = Paper(), Watch()
    progress = line_on(paper, clock)

    with progress.step("tables", unit="tables", total=4):
        clock.seconds += 1
        with progress.step("between", unit="files"), progress.step("inner", unit="bytes", total=4 << 20) as step:
            step.advance(1 << 20)
            clock.seconds += 1
            progress.tick()
            both = paper.shown
        clock.seconds += 1
        progress.tick()
        progress.close()

    first, second = both.replace("\x1b[K", "").split("\n")
    assert ["tables", "0%", "0/4", "tables", "0:02"] == first.split()
    assert ["inner", "━" * 9, "25%", "1.0", "MiB/4.0", "MiB", "1.0", "MiB/s", "0:01"] == second.split()
    assert "\r\x1b[1A" == paper.written[-2][:5]
    assert paper.written[-2].endswith("0:03\x1b[K\x1b[J")
    assert "\r\x1b[K" == paper.written[-1]


def test_two_lines_are_erased_from_the_first_one() -> None:
    paper, clock = Paper(), Watch()
    progress = line_on(paper, clock)

    with progress.step("outer", unit="files"), progress.step("inner", unit="files"):
        clock.seconds += 1
        progress.tick()
        progress.close()

    assert "\r\x1b[1A\x1b[J" == paper.written[-1]


def test_half_of_the_bar_is_half_of_the_weight() -> None:
    paper, clock = Paper(), Watch()
    progress = line_on(paper, clock)
    pieces = [("large", 900), ("small", 100)]

    told = report_weighed_items(
        iter(pieces), progress, "copying", unit="files", weights=[900, 100], weight_of=lambda piece: piece[1]
    )
    for _ in range(2):  # the first one is over when the second is asked for
        next(told)
    clock.seconds += 1
    progress.tick()

    assert "90% 1/2 files" in paper.shown


def test_progress_that_only_counts_gets_no_weights() -> None:
    listener = Listener()

    with start_weighed_step(listener, "copying", unit="files", total=2, weight=1_000) as step:
        step.advance(weight=900)
        step.advance(0, weight=50)

    assert [("copying", 1)] == [(state.what, state.done) for state in listener.steps[:1]]


def test_the_time_left_is_shown_once_it_is_stable() -> None:
    steady, uneven, stuck = Eta(), Eta(), Eta()

    early = steady.estimate_remaining(0.5, 0.05)
    stable = [steady.estimate_remaining(seconds, seconds / 10) for seconds in (1.0, 1.5, 2.0, 2.5, 3.0)]
    jumping = [uneven.estimate_remaining(seconds, 0.1 + 0.4 * (int(seconds) % 2)) for seconds in (1.0, 2.0, 3.0, 4.0)]

    standing = [stuck.estimate_remaining(seconds, 0.5) for seconds in (20.0, 21.0, 22.0, 23.0)]

    assert early is None
    assert [None, None, None, 7.5, 7.0] == stable
    assert [None] * 4 == jumping == standing


def test_work_continues_while_the_terminal_is_blocked() -> None:
    clock, drawing, released = Watch(), threading.Event(), threading.Event()

    def write(_: str) -> None:
        drawing.set()
        released.wait(30)

    progress = LiveProgress(BarPainter(write, lambda: 80, lambda: True, colour=False), clock=clock, ticking=False)
    with progress.step("reading the log", unit="commits"):
        clock.seconds += 1
        ticker = threading.Thread(target=progress.tick)
        ticker.start()
        drawing.wait(30)
        with progress.step("reading the checkpoint", unit="rows") as step:
            step.advance()
        is_stuck = ticker.is_alive()
        released.set()
        join(ticker)

    assert is_stuck


def test_a_drawing_interrupted_by_a_signal_is_erased() -> None:
    paper, clock = Paper(), Watch()

    def write(text: str) -> None:
        paper(text)
        if len(paper.written) == 1:
            raise KeyboardInterrupt

    progress = LiveProgress(BarPainter(write, lambda: 80, lambda: True, colour=False), clock=clock, ticking=False)
    with progress.step("reading the log", unit="commits"):
        clock.seconds += 1
        with pytest.raises(KeyboardInterrupt):
            progress.tick()
    progress.close()

    assert "\r\x1b[K" == paper.written[-1]


def test_an_immediate_exit_waits_briefly_for_a_drawing_in_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "_LOCK_TIMEOUT_SECONDS", 30)
    paper, clock, drawing, leaving = Paper(), Watch(), threading.Event(), threading.Event()

    def write(text: str) -> None:
        paper(text)
        drawing.set()
        leaving.wait(30)

    progress = LiveProgress(BarPainter(write, lambda: 80, lambda: True, colour=False), clock=clock, ticking=False)
    with progress.step("reading the log", unit="commits"):
        clock.seconds += 1
        ticker = threading.Thread(target=progress.tick)
        ticker.start()
        drawing.wait(30)
        leaving.set()
        progress.try_close()
        join(ticker)

    assert "\r\x1b[K" == paper.written[-1]


def test_the_line_is_erased_completely() -> None:
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
    assert ["reading", "0", "rows", "0:02"] == again.split()
    assert "\r\x1b[K" == paper.written[-1]


@pytest.mark.parametrize("width", [10, 20, 40, 80, 200])
def test_the_line_fits_the_terminal_and_keeps_the_most_important_parts(width: int) -> None:
    from deltacli.cli.terminal.bars import Bars

    step = StepState("reading the log", "commits", 10_000, done=1_234)

    (line,) = Bars(colour=False).draw_lines([StepSnapshot.take(step, 61.0)], width)

    assert count_cells(line) <= width
    assert (width >= 20) == ("12%" in line)
    assert (width >= 80) == ("20/s" in line)


def test_the_bar_is_ascii_where_the_terminal_is_not_utf8(monkeypatch: pytest.MonkeyPatch) -> None:
    from deltacli.cli.terminal.bars import Bars

    step = StepState("reading the log", "commits", 10_000, done=1_234)
    drawn = []
    for locale in ("C", "C.UTF-8"):
        monkeypatch.setenv("LC_ALL", locale)
        drawn += Bars(colour=False).draw_lines([StepSnapshot.take(step, 61.0)], 80)

    assert [True, False] == [line.isascii() for line in drawn]
    assert all("12%" in line for line in drawn)


def test_json_lines_are_written_first_last_and_twice_per_second(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_disabled_progress_creates_no_generator() -> None:
    items = iter(range(3))

    assert items is report_items(items, SILENT, "reading", unit="rows")


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


def test_operations_report_their_steps_and_finish_each_of_them(sample: Path) -> None:
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


def ends_of(text: str) -> list[tuple[str, list[object], list[object]]]:
    """The first and the last line of each step in their order, without times; lines between depend on the time."""
    lines = [json.loads(line) for line in text.splitlines()]
    steps = dict.fromkeys(line["step"] for line in lines)
    told = {
        step: [[line["done"], line["total"], line["unit"]] for line in lines if line["step"] == step] for step in steps
    }
    assert all(len(of_step) > 1 for of_step in told.values())
    return [(step, of_step[0], of_step[-1]) for step, of_step in told.items()]


def test_progress_as_json_lines_is_separate_from_the_result(sample: Path) -> None:
    asked = deltacli("history", sample, "--progress", "json")
    by_environment = deltacli("history", sample, DELTACLI_PROGRESS="json")
    quiet = deltacli("history", sample, "--progress", "json", "-q")
    silent = deltacli("history", sample)
    wrong = deltacli("history", sample, DELTACLI_PROGRESS="loud")

    lines = [json.loads(line) for line in asked.err.splitlines()]
    assert [] == [fault.message for line in lines for fault in Draft202012Validator(SCHEMA).iter_errors(line)]
    assert (15, 15) == (lines[-1]["done"], lines[-1]["total"])
    assert ends_of(asked.err) == ends_of(by_environment.err)
    assert ("", "") == (quiet.err, silent.err)
    assert asked.out == silent.out == quiet.out
    assert (2, "error: DELTACLI_PROGRESS is 'loud'") == (wrong.code, wrong.err.splitlines()[0])


@pytest.mark.parametrize("was_asked_for", [True, False])
def test_progress_ends_when_the_result_is_written_into_a_pipe_unless_requested(
    was_asked_for: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Whoever reads the pipe may draw on the same terminal.
    """
    paper = Paper()
    progress = line_on(paper, Watch())
    read, write = os.pipe()
    run = CommandContext(
        results=ResultOptions(
            format=NDJSON,
            terminal=Terminal(is_terminal=False, width=None, colour=False),
            keeps_progress=was_asked_for,
        ),
        clock=fixed_clock(0),
    )
    set_live_line(progress)
    try:
        with os.fdopen(write, "w") as stdout, monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", stdout)
            with run.open_result() as sink:
                is_live = get_live_line() is progress
                sink.write(b"result")
    finally:
        set_live_line(None)
    result = os.read(read, 100)
    os.close(read)

    assert b"result" == result
    assert was_asked_for == is_live
