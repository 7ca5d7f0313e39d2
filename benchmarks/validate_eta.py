"""How true the remaining time of `validate` is: on a real table, at a quarter, half and three quarters of the time.

  .venv/bin/python -m benchmarks.validate_eta [--adds 1000000] [--files 20000] [--work DIR] [--only checkpoint-log,...]
                                              [--cpu] [--record FILE]

`checkpoint`: the adds are in a checkpoint alone. `commits`: they are in 20 commits and in a checkpoint that agrees.
`small`: data files of 20 rows. `unread`: the same files, and a schema that prevents reading their rows. Each is checked
at its levels in this process. The bar is a ratio of at most 2 between the estimate and what remained, and the exit code
is 1 if a case misses it; one that takes less than a second is too short to be judged. `--cpu` takes processor time
instead of time, for a machine with other work. `--record` writes what the progress received, for tests/cli/test_eta.py.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import synthetic
from benchmarks.validate import _small_files
from deltacli import open_table
from deltacli.cli.terminal.progress import LiveProgress
from deltacli.cli.terminal.steps import StepSnapshot

EVERY = 0.05
CASES = (
    ("checkpoint", "log"),
    ("checkpoint", "storage"),
    ("commits", "log"),
    ("small", "footers"),
    ("small", "data"),
    ("unread", "data"),
)
BAR = 2.0
SHORTEST = 1.0
Event = list[Any]  # Any: seconds, the name of the event, its arguments


class Recorder:
    """A progress that passes everything on, remembers it, and looks at the estimates each time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._inner = LiveProgress(Silent(), clock=clock, ticking=False)
        self._looked = 0.0
        self._expected: dict[str, tuple[float, float]] = {}
        self.events: list[Event] = []
        self.estimates: list[tuple[float, float | None]] = []

    def note(self, name: str, *arguments: object) -> None:
        """Remember an event."""
        self.events.append([round(self._clock() - self._began, 3), name, *arguments])
        self.look()

    def look(self) -> None:
        """Remember the estimate."""
        shown = self._inner.shown_steps()
        self.estimates.append((self._clock() - self._began, shown[-1].remaining if shown else None))

    @contextmanager
    def plan(self, what: str, costs: Mapping[str, float]) -> Iterator[Recorder]:
        self.events.append([round(self._clock() - self._began, 3), "plan", dict(costs)])
        with self._inner.plan(what, costs) as plan:
            self._plan = plan
            yield self

    def expect(self, what: str, units: float) -> None:
        self._plan.expect(what, units)
        before, at = self._expected.get(what, (-1.0, -1.0))
        now = self._clock()
        if (now - at >= EVERY and abs(units - before) > 0.01 * before) or before < 0:
            self._expected[what] = units, now
            self.note("expect", what, round(units))

    @contextmanager
    def step(self, what: str, *, unit: str, total: int | None = None) -> Iterator[RecordedStep]:
        with self._inner.step(what, unit=unit, total=total) as step:
            self.note("begin", what, total)
            recorded = RecordedStep(self, step, self._clock)
            yield recorded
            recorded.tell()
            self.note("end")

    @contextmanager
    def weighed_step(self, what: str, *, unit: str, total: int, weight: int) -> Iterator[RecordedStep]:
        with self._inner.weighed_step(what, unit=unit, total=total, weight=weight) as step:
            self.note("begin", what, total, weight)
            recorded = RecordedStep(self, step, self._clock)
            yield recorded
            recorded.tell()
            self.note("end")


class RecordedStep:
    """A step whose advances are remembered some times per second."""

    def __init__(self, recorder: Recorder, step: Any, clock: Callable[[], float]) -> None:  # Any: a step of either kind
        self._recorder, self._step, self._clock = recorder, step, clock
        self._untold, self._told = [0, 0], clock()

    def advance(self, amount: int = 1, *, weight: int = 0) -> None:
        self._step.advance(amount, weight=weight)
        self._untold = [self._untold[0] + amount, self._untold[1] + weight]
        if self._clock() - self._told >= EVERY:
            self.tell()

    def tell(self) -> None:
        if any(self._untold):
            self._recorder.note("advance", *self._untold)
        self._untold, self._told = [0, 0], self._clock()


class Silent:
    """Draws nothing."""

    delay = interval = 0.0
    announces_steps = False

    def begin(self, shown: StepSnapshot) -> None: ...
    def show(self, steps: object) -> None: ...
    def show_notice(self, text: str) -> None: ...
    def end(self, shown: StepSnapshot) -> None: ...
    def hide(self) -> None: ...


def main() -> None:
    """Make the tables, and measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--adds", type=int, default=1_000_000)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    recorded: dict[str, list[Event]] = {}
    missed: list[bool] = []
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        for table, level in CASES:
            name = f"{table}-{level}"
            if options.only and name not in options.only.split(","):
                continue
            root = work / table
            if not root.exists():
                _make(table, root, options.files if table in ("small", "unread") else options.adds)
            recorder = _measured(root, level, time.process_time if options.cpu else time.perf_counter)
            recorded[name] = recorder.events
            missed.append(not _report(name, recorder))
    if options.record:
        lines = (f"{json.dumps(name)}: [\n" + ",\n".join(map(json.dumps, of)) + "\n]" for name, of in recorded.items())
        options.record.write_text("{" + ",\n".join(lines) + "}\n")
    raise SystemExit(any(missed))


def _make(table: str, root: Path, files: int) -> None:
    if table == "small":
        _small_files(root, files)
    elif table == "unread":
        if not (small := root.with_name("small")).exists():
            _small_files(small, files)
        shutil.copytree(small, root, copy_function=os.link)
        _name_a_column_twice(root)
    elif table == "commits":
        _write_commits(root, files)
    else:
        synthetic.write_table(root, files)
        _link_files(root, files)


def _name_a_column_twice(root: Path) -> None:
    log = root / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            schema["fields"].append(schema["fields"][0])
            action["metaData"]["schemaString"] = json.dumps(schema)
    log.unlink()  # a link
    log.write_text("".join(f"{json.dumps(action)}\n" for action in actions))


def _link_files(root: Path, files: int) -> None:
    """Make the data files, those of a directory as links to its first."""
    data, each = synthetic.data_file(), synthetic.FILES_A_DIRECTORY
    for start in range(0, files, each):
        first = root / synthetic.name_of(start)
        first.parent.mkdir()
        first.write_bytes(data)
        for number in range(start + 1, min(start + each, files)):
            os.link(first, root / synthetic.name_of(number))


def _write_commits(root: Path, files: int, commits: int = 20) -> None:
    """Write the adds of a table of `synthetic` as commits, and a checkpoint of them."""
    synthetic.write_table(root, 1)
    log = root / "_delta_log"
    for path in log.iterdir():
        path.unlink()
    small = [{"protocol": synthetic._PROTOCOL}, {"metaData": synthetic._METADATA}]
    stats, size = f'{{"numRecords":{synthetic.ROWS_A_FILE}{synthetic._STATS_END}', len(synthetic.data_file())
    for version in range(commits + 1):
        info = {"timestamp": synthetic.MODIFIED_MS + version, "operation": "WRITE"}
        first, stop = ((version - 1) * files // commits, version * files // commits) if version else (0, 0)
        adds = (
            {
                "path": synthetic.name_of(number),
                "partitionValues": {"d": synthetic.name_of(number)[2:9]},
                "size": size,
                "modificationTime": synthetic.MODIFIED_MS,
                "dataChange": True,
                "stats": stats,
            }
            for number in range(first, stop)
        )
        actions = [{"commitInfo": info}, *([] if version else small), *({"add": add} for add in adds)]
        (log / f"{version:020d}.json").write_text(synthetic._lines(actions))
    open_table(root).checkpoint()


def _measured(root: Path, level: str, clock: Callable[[], float]) -> Recorder:
    recorder = Recorder(clock)
    gc.collect()
    gc.disable()  # as the command does
    try:
        open_table(root, progress=recorder).validate(level=level)
    finally:
        gc.enable()
    recorder.look()
    return recorder


def _report(name: str, recorder: Recorder) -> bool:
    """Write the estimates of a case at three times, and return whether they meet the bar."""
    whole, is_met = recorder.estimates[-1][0], True
    parts = [f"{whole:6.2f} s"]
    for share in (0.25, 0.5, 0.75):
        before = [each for each in recorder.estimates if each[0] <= share * whole]
        at, left = before[-1] if before else (0.0, None)
        ratio = (left or 0.0) / (whole - at)
        is_met &= 1 / BAR <= ratio <= BAR
        parts.append(f"at {share:.0%}: {left or 0:6.2f} s of {whole - at:6.2f} s, {ratio:.2f}")
    is_short = whole < SHORTEST
    print(f"{name:20} {'   '.join(parts)}   {'short' if is_short else 'met' if is_met else 'MISSED'}", flush=True)
    return is_met or is_short


if __name__ == "__main__":
    main()
