"""Simulates: `python -m tests.simulation --seeds A..B [--commands A,B] [--events A,B] [--chain A,B] [--jobs N]`,
`--night DATE` plays the seeds of a night, `--replay SEED` tells one history, in its smallest form, `--without MUTANT`
turns a check of the product off, `--kept FILE` goes on with a run that was ended. `dev.py simulate` calls it.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import multiprocessing
import os
import re
import sys
import time
import typing
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from tests.simulation.commands import COMMANDS
from tests.simulation.events import EVENTS
from tests.simulation.history import Outcome, play
from tests.simulation.scenario import SLOTS, WRITES, make_scenario
from tests.simulation.shrink import shrunk
from tests.simulation.story import told
from tools.reference_pages import read_error_codes
from tools.safety_mutants import mutants

_SEEDS = "1..300"
_SEEDS_OF_A_NIGHT = 20_000
"About twenty minutes on two cores."
_BEFORE_NIGHTS = 1_000_000
_FIRST_NIGHT = date(2026, 1, 1)
_EACH_TIME = 200
"A run that can be ended keeps its figures so often."
_ROOT = Path(__file__).parents[2]
_PRODUCT = _ROOT / "deltacli"
_CODE = re.compile(
    r"""\bcode="([a-z]+\.[a-z0-9.-]+)"|^[A-Z_]+(?:, [A-Z_]+)* = "([a-z]+\.[a-z0-9.-]+)\"""", re.MULTILINE
)
_ROOMS = ("change", "checkpoint", "log", "optimize", "recover", "repair", "restore", "vacuum")


class Theme(NamedTuple):
    """Which histories are made from seeds."""

    commands: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    chain: tuple[str, ...] = ()

    def played(self, seed: int) -> Outcome:
        """How the history of a seed goes."""
        return play(make_scenario(seed, **self._asdict()))


class Result(NamedTuple):
    """What is kept of a history."""

    seed: int
    digest: str
    violations: list[str]
    answers: Counter[str]
    codes: Counter[str]
    steps: int
    cpu_seconds: float
    items: str


@dataclass
class Summary:
    """The figures of a run."""

    seeds: int = 0
    steps: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    answers: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    wrong: list[int] = field(default_factory=list)

    def add(self, result: Result) -> None:
        """Count a history."""
        self.seeds += 1
        self.steps += result.steps
        self.cpu_seconds += result.cpu_seconds
        self.answers += result.answers
        self.codes += result.codes
        if result.violations:
            self.wrong.append(result.seed)

    def lines(self) -> Iterator[str]:
        """The figures as text."""
        cpu_ms = 1_000 * self.cpu_seconds / max(self.seeds, 1)
        yield (
            f"{self.seeds} seeds in {self.seconds:.0f} s: {60 * self.seeds / max(self.seconds, 0.01):.0f} a minute, "
            f"{cpu_ms:.0f} ms of a core each; {self.steps} steps, {self.answers.total()} acts, "
            f"{len(self.wrong)} histories are wrong"
        )
        ends: dict[str, Counter[str]] = {}
        for name, count in self.answers.items():
            what, _, answer = name.partition(": ")
            ends.setdefault(what, Counter())[answer] += count
        for what, found in sorted(ends.items()):
            yield f"  {what:<20} {', '.join(f'{answer} {count}' for answer, count in found.most_common())}"
        yield f"errors by code: {', '.join(f'{code} {count}' for code, count in self.codes.most_common())}"
        unseen = sorted(codes_of_product() - self.codes.keys())
        yield f"codes that no seed met: {', '.join(unseen)}"


def codes_of_product() -> set[str]:
    """The codes of errors in the modules that change tables."""
    known = {code for rows in read_error_codes().values() for row in rows if row.exit for code in row.codes}
    found: set[str] = set()
    for room in (_PRODUCT / "changing", *(_PRODUCT / "operations" / name for name in _ROOMS)):
        for path in sorted(room.rglob("*.py")):
            found |= {one or other for one, other in _CODE.findall(path.read_text("utf-8"))}
    return found & known


def result_of(theme: Theme, seed: int) -> Result:
    """Play the history of a seed, in a process of a pool."""
    begun = time.process_time()
    try:
        outcome = theme.played(seed)
    except Exception as fault:  # noqa: BLE001  (of the model: the run goes on, and its replay tells where)
        return Result(seed, "", [f"the model fails: {fault!r}"], Counter(), Counter(), 0, 0.0, "")
    items = ", ".join(item.what for item in outcome.scenario.items)
    cpu = time.process_time() - begun
    return Result(seed, outcome.digest, outcome.violations, outcome.answers, outcome.codes, outcome.steps, cpu, items)


def results(theme: Theme, seeds: Sequence[int], jobs: int) -> Iterator[Result]:
    """Play the histories of seeds, in order."""
    if jobs == 1:
        _begin_process()
        yield from map(partial(result_of, theme), seeds)
        return
    forks = "fork" if sys.platform.startswith("linux") else "spawn"  # with all modules, and before any thread
    with multiprocessing.get_context(forks).Pool(jobs, _begin_process) as pool:
        yield from pool.imap(partial(result_of, theme), seeds, chunksize=8)


def _begin_process() -> None:
    """Begin a process that plays, on one core: its threads act one at a time, so a second one costs only the way."""
    keep_modules()
    if sys.platform.startswith("linux"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[os.getpid() % len(cores)]})


def keep_modules() -> None:
    """Let the collector of garbage leave alone what was imported, which it would look at again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 2, 2)
    known = cache(typing._get_protocol_attrs)  # type: ignore[attr-defined]
    typing._get_protocol_attrs = known  # type: ignore[attr-defined]  # Python 3.11 finds them at each isinstance


class Kept(NamedTuple):
    """A file with the figures of a run, so that it goes on where it was ended; `what` says which run it is."""

    path: Path
    what: str

    def read(self) -> Summary:
        """The figures so far; ends the process where the file is that of another run."""
        if not self.path.exists():
            return Summary()
        found = json.loads(self.path.read_text("utf-8"))
        if found["what"] != self.what:
            sys.exit(f"error: {self.path} is of other seeds or of another state of the sources")
        figures = found["figures"]
        counted = {name: Counter(figures[name]) for name in ("answers", "codes")}
        return Summary(**{**figures, **counted})

    def write(self, summary: Summary) -> None:
        """Keep the figures."""
        beside = self.path.with_name(f"{self.path.name}.new")
        beside.write_text(json.dumps({"what": self.what, "figures": vars(summary)}), "utf-8")
        beside.replace(self.path)


def kept_at(path: Path, theme: Theme, seeds: range) -> Kept:
    """The file of a run of these seeds with the sources as they are."""
    digest = hashlib.sha256()
    for room in ("deltacli", "tests/simulation", "tests/support"):
        for source in sorted((_ROOT / room).rglob("*.py")):
            digest.update(source.read_bytes())
    return Kept(path, f"{seeds} {tuple(theme)} {digest.hexdigest()}")


def simulate(theme: Theme, seeds: Sequence[int], jobs: int, *, stops: bool, kept: Kept | None = None) -> Summary:
    """Play histories, and print those that are wrong and the figures."""
    summary = kept.read() if kept else Summary()
    begun = time.monotonic() - summary.seconds
    for result in results(theme, seeds[summary.seeds :], jobs):
        summary.add(result)
        summary.seconds = time.monotonic() - begun
        if kept and (summary.seeds % _EACH_TIME == 0 or summary.seeds == len(seeds)):
            kept.write(summary)
        if result.violations:
            _say(f"seed {result.seed} ({result.items})")
            for one in result.violations[:3]:
                _say(f"  {one[:300]}")
            if stops:
                break
    for line in summary.lines():
        _say(line)
    return summary


def replay(theme: Theme, seed: int, *, is_whole: bool) -> int:
    """Tell the history of a seed, in its smallest form where it goes wrong."""
    outcome = theme.played(seed)
    if outcome.violations:
        outcome = shrunk(outcome)
    _say("\n".join(told(outcome, is_whole=is_whole)))
    return 1 if outcome.violations else 0


def main(arguments: Sequence[str]) -> int:
    """Run as the arguments say; return 1 where a history is wrong."""
    parser = argparse.ArgumentParser(
        prog="dev.py simulate", description="Play histories of tables, each from its seed."
    )
    parser.add_argument("--seeds", default=_SEEDS, metavar="A..B", help=f"the first and the last seed [{_SEEDS}]")
    parser.add_argument("--night", metavar="DATE", help=f"the {_SEEDS_OF_A_NIGHT:,} seeds of a date, of no other one")
    parser.add_argument("--commands", default="", help=f"only these: {', '.join(COMMANDS)}")
    parser.add_argument("--events", default="", help=f"only these: {', '.join(EVENTS)}")
    parser.add_argument("--chain", default="", help="instead: these, by one admin, `A~B` for B while A asks")
    parser.add_argument("--jobs", type=int, default=1, help="processes [1]")
    parser.add_argument("--replay", type=int, metavar="SEED", help="tell the history of a seed, in its smallest form")
    parser.add_argument("--all-calls", action="store_true", help="with --replay: also the calls that read")
    parser.add_argument("--stop", action="store_true", help="end at the first history that is wrong")
    parser.add_argument("--kept", type=Path, metavar="FILE", help="keep the figures here, and go on with them")
    known = {mutant.name: mutant for mutant in mutants()}
    parser.add_argument("--without", choices=known, metavar="MUTANT", help="one of tools/safety_mutants.toml")
    given = parser.parse_args(arguments)
    links = (*COMMANDS, *EVENTS, *SLOTS, *WRITES)
    theme = Theme(_names(given.commands, COMMANDS), _names(given.events, EVENTS), _names(given.chain, links))
    if given.without and theme == Theme():
        mutant = known[given.without]
        theme = Theme(mutant.commands, mutant.events, mutant.chain)
    if given.replay is not None:
        return replay(theme, given.replay, is_whole=given.all_calls)
    seeds = seeds_of_night(date.fromisoformat(given.night)) if given.night else seeds_between(given.seeds)
    kept = kept_at(given.kept, theme, seeds) if given.kept else None
    return 1 if simulate(theme, seeds, given.jobs, stops=given.stop, kept=kept).wrong else 0


def seeds_between(text: str) -> range:
    """The seeds of `A..B`, or of one number."""
    first, _, last = text.partition("..")
    return range(int(first), int(last or first) + 1)


def seeds_of_night(night: date) -> range:
    """The seeds of a date: those of two nights are different, and none is in the gate."""
    first = _BEFORE_NIGHTS + (night - _FIRST_NIGHT).days * _SEEDS_OF_A_NIGHT
    return range(first, first + _SEEDS_OF_A_NIGHT)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _names(text: str, known: object) -> tuple[str, ...]:
    names = tuple(name for name in text.split(",") if name)
    unknown = [one for name in names for one in name.split("~") if one not in known]  # type: ignore[operator]
    if unknown:
        sys.exit(f"error: unknown: {', '.join(unknown)}")
    return names
