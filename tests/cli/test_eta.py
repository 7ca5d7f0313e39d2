"""The remaining time of `validate`, replayed with a clock of the test's own from what real runs told their progress.

`eta_traces.json` was recorded by `benchmarks/validate_eta.py --cpu --record`: processor time, 1,000,000 adds and 20,000
files; `small-footers` and `unread-data` on a machine with other work.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from deltacli import open_table
from deltacli.cli.terminal.progress import BarPainter, JsonPainter, LiveProgress, Painter
from deltacli.cli.terminal.steps import StepSnapshot
from deltacli.core.long_steps import LongStepAdvisor
from deltacli.operations.validate.inspect_storage import READING_FOOTERS, READING_ROWS
from tests.cli.test_progress import SCHEMA, Paper, Watch
from tests.support.actions import add, metadata, protocol
from tests.support.builder import TableBuilder

TRACES: dict[str, list[list[Any]]] = json.loads(Path(__file__).with_name("eta_traces.json").read_text())


class Blank(Painter):
    """A painter that draws nothing."""

    delay = interval = 0.0
    announces_steps = False


def replay(trace: list[list[Any]], look: Callable[[float, list[StepSnapshot]], None]) -> None:
    """Replay what a progress was told, and look at it every hundredth of the time."""
    clock, end = Watch(), trace[-1][0]
    began, looked = clock(), 0
    progress = LiveProgress(Blank(), clock=clock, ticking=False)
    running: list[tuple[ExitStack, Any]] = []
    plan: Any = None
    with ExitStack() as whole:
        for seconds, name, *arguments in trace:
            while looked + 1 <= 100 * seconds / end:
                looked += 1
                clock.seconds = began + looked * end / 100
                look(looked / 100, progress.take_snapshots())
            clock.seconds = began + seconds
            if name == "plan":
                plan = whole.enter_context(progress.plan("checking the table", *arguments))
            elif name == "expect":
                plan.expect(*arguments)
            elif name == "begin":
                what, total, *weight = arguments
                stack = whole.enter_context(ExitStack())
                begun = progress.weighed_step(what, unit="files", total=total, weight=weight[0]) if weight else None
                step = stack.enter_context(begun or progress.step(what, unit="files", total=total))
                running.append((stack, step))
            elif name == "advance":
                running[-1][1].advance(arguments[0], weight=arguments[1])
            else:
                running.pop()[0].close()


@pytest.mark.parametrize("slowness", [0.4, 1, 8])
@pytest.mark.parametrize("case", TRACES)
def test_the_remaining_time_is_right_within_a_factor_of_two(case: str, slowness: float) -> None:
    trace = [[seconds * slowness, *rest] for seconds, *rest in TRACES[case]]
    whole = trace[-1][0]
    seen: dict[float, StepSnapshot] = {}

    replay(trace, lambda share, shown: seen.update({share: shown[-1]}))

    ratios = {share: (seen[share].remaining or 0.0) / (whole * (1 - share)) for share in (0.25, 0.5, 0.75)}
    assert [] == [share for share, ratio in ratios.items() if not 0.5 <= ratio <= 2], ratios
    shares = [seen[share].share or 0.0 for share in sorted(seen)]
    assert shares == sorted(shares)


@pytest.mark.parametrize("case", TRACES)
def test_the_bar_is_one_line_and_is_there_all_the_time(case: str) -> None:
    lines: list[int] = []

    replay(TRACES[case], lambda _, shown: lines.append(len(shown)))

    assert {1} == set(lines)


def test_a_step_of_a_plan_is_shown_with_the_share_and_the_time_of_the_whole() -> None:
    paper, clock = Paper(), Watch()
    progress = LiveProgress(BarPainter(paper, lambda: 100, lambda: True, colour=False), clock=clock, ticking=False)

    with progress.plan("checking the table", {"first": 0.1, "second": 0.4}) as plan:
        clock.seconds += 0.6
        progress.tick()
        before = paper.shown.split()
        plan.expect("first", 100)
        plan.expect("second", 25)
        with progress.step("first", unit="rows", total=100) as step:
            for _ in range(50):
                clock.seconds += 0.1
                step.advance()
                progress.tick()
            after = paper.shown.split()

    assert ["checking", "the", "table", "0:00"] == before
    assert ["first", "27%", "50/100", "rows", "10/s", "0:05", "ETA", "0:14"] == [
        word for word in after if not set("━╸╺") & set(word)
    ]


def test_json_lines_of_a_plan_have_the_share_and_the_remaining_time(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Watch()
    progress = LongStepAdvisor(LiveProgress(JsonPainter(), clock=clock, ticking=False), lambda _: None, is_remote=False)

    with progress.plan("checking the table", {"first": 0.1, "second": 0.4}) as plan:
        with progress.step("before", unit="files"):
            clock.seconds += 1
        plan.expect("second", 25)
        with progress.step("first", unit="rows", total=100) as step:
            clock.seconds += 10
            step.advance(100)

    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [] == [fault.message for line in lines for fault in Draft202012Validator(SCHEMA).iter_errors(line)]
    assert ["before", "before", "first", "first"] == [line["step"] for line in lines]
    assert [(None, None), (None, None)] == [(line["share"], line["etaMs"]) for line in lines[:2]]
    assert (0.5238, 10_000) == (lines[-1]["share"], lines[-1]["etaMs"])


@pytest.mark.parametrize("level", ["log", "storage", "footers", "data"])
def test_every_step_of_a_validation_is_in_its_plan(tmp_path: Path, level: str) -> None:
    TableBuilder().commits(21).checkpoint(20).write(tmp_path / "t")
    progress = Planned()

    open_table(tmp_path / "t", progress=progress).validate(level=level)

    assert {"listing the log"} == progress.begun - progress.costs.keys()
    assert progress.costs.keys() - {"reading change data"} <= progress.expected.keys()
    of_files = {what for what in (READING_FOOTERS, READING_ROWS) if progress.expected[what]} & progress.costs.keys()
    assert {"footers": {READING_FOOTERS}, "data": {READING_ROWS}}.get(level, set()) == of_files


def test_rows_that_a_schema_prevents_from_being_read_are_not_expected(tmp_path: Path) -> None:
    schema = {"type": "struct", "fields": [{"name": "a", "type": "long", "nullable": True, "metadata": {}}] * 2}
    action = metadata(schema_string=json.dumps(schema), partition_columns=())
    TableBuilder().commit(protocol(), action, *(add(f"{number}.parquet") for number in range(20))).write(tmp_path / "t")
    progress = Planned()

    open_table(tmp_path / "t", progress=progress).validate(level="data")

    assert READING_FOOTERS in progress.begun
    assert READING_ROWS not in progress.begun
    for expected in (progress.expected_first, progress.expected):  # before the first commit was checked, and at the end
        assert (20, 0) == (expected[READING_FOOTERS], expected[READING_ROWS])


class Planned:
    """Records the names of steps, planned and begun."""

    def __init__(self) -> None:
        self.begun, self.expected = set[str](), dict[str, float]()
        self.expected_first: dict[str, float] = {}
        self.costs: Mapping[str, float] = {}

    @contextmanager
    def plan(self, _: str, costs: Mapping[str, float]) -> Iterator[Planned]:
        self.costs = costs
        yield self

    def expect(self, what: str, units: float) -> None:
        self.expected[what] = units

    @contextmanager
    def step(self, what: str, **_: object) -> Iterator[Planned]:
        self.begun.add(what)
        yield self

    def advance(self, _: int = 1) -> None:
        if "checking the log" in self.begun and not self.expected_first:
            self.expected_first = dict(self.expected)
