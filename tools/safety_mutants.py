"""Turn the safety code of changes off, one check at a time, and demand that the simulation finds it.

`python -m tools.safety_mutants [NAME …] [--seeds A..B] [--jobs N]` plays the histories of seeds with each mutant of
`safety_mutants.toml`, or with the named ones, until one has a violation that the code as it is does not have at that
seed. A mutant that is not found is an error, unless its entry says why. Nothing is written: the text of a module is
changed when it is imported, in a process of its own.
"""

from __future__ import annotations

import argparse
import importlib.abc
import importlib.machinery
import json
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LISTED = ROOT / "tools" / "safety_mutants.toml"
MOST_SEEDS = 5_000


class Edit(NamedTuple):
    """A text of a module, which occurs once there, and another one."""

    file: str
    old: str
    new: str


class Mutant(NamedTuple):
    """An entry of the list. `seeds` is after how many it was found, 0 where it was not, None before a run."""

    name: str
    does: str
    edits: tuple[Edit, ...]
    commands: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    chain: tuple[str, ...] = ()
    seeds: int | None = None
    why: str = ""

    def texts(self) -> dict[str, str]:
        """Return the modules that it changes, by their names. Raises ValueError where a text is not there once."""
        found: dict[str, str] = {}
        for edit in self.edits:
            name = edit.file.removesuffix(".py").replace("/", ".")
            text = found.get(name) or (ROOT / edit.file).read_text(encoding="utf-8")
            if text.count(edit.old) != 1:
                raise ValueError(f"{self.name}: {edit.old!r} is {text.count(edit.old)} times in {edit.file}")
            found[name] = text.replace(edit.old, edit.new)
        return found


class Found(NamedTuple):
    """The first seed with a violation that the code as it is does not have, and that violation."""

    seed: int
    violation: str


def turn_off(name: str) -> None:
    """Let modules that are imported from now on be those of a mutant. Raises KeyError for an unknown name."""
    sys.meta_path.insert(0, Changed({mutant.name: mutant for mutant in mutants()}[name].texts()))


def mutants() -> list[Mutant]:
    """Return all that are listed."""
    entries = tomllib.loads(LISTED.read_text(encoding="utf-8"))["mutant"]
    return [
        Mutant(
            entry["name"],
            entry["does"],
            tuple(Edit(**edit) for edit in entry["edits"]),
            tuple(entry.get("commands", ())),
            tuple(entry.get("events", ())),
            tuple(entry.get("chain", ())),
            entry.get("seeds"),
            entry.get("why", ""),
        )
        for entry in entries
    ]


class Changed(importlib.abc.MetaPathFinder):
    """Finds modules whose text is another one than that of their file."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the module's specification, with a loader of the changed text."""
        text = self._texts.get(fullname)
        spec = None if text is None else importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None and text is not None:
            spec.loader = _Loader(fullname, spec.origin, text)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self._text = text

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002  (of the protocol)
        return compile(self._text, self.path, "exec", dont_inherit=True)


@dataclass(frozen=True)
class Trial:
    """One mutant and the seeds to play, by child processes."""

    mutant: Mutant
    seeds: range

    def run(self) -> Found | None:
        """Return what is found; None where no seed has it."""
        begin = self.seeds.start
        while begin < self.seeds.stop:
            found = self._first(self.mutant.name, range(begin, self.seeds.stop))
            if found is None or self._first("", range(found.seed, found.seed + 1)) is None:
                return found
            begin = found.seed + 1
        return None

    def _first(self, applied: str, seeds: range) -> Found | None:
        task = json.dumps([applied, self.mutant.name, seeds.start, seeds.stop])
        command = [sys.executable, "-m", "tools.safety_mutants", "--task", task]
        found = json.loads(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout)
        return None if found is None else Found(*found)


def first_violation(theme: Mutant, seeds: range) -> Found | None:
    """Play seeds with the commands, events and chain of a mutant, by the code as it is imported."""
    from tests.simulation.history import play
    from tests.simulation.scenario import make_scenario

    for seed in seeds:
        outcome = play(make_scenario(seed, commands=theme.commands, events=theme.events, chain=theme.chain))
        if outcome.violations:
            return Found(seed, outcome.violations[0])
    return None


def run_all(chosen: Sequence[Mutant], seeds: range, jobs: int) -> Iterator[tuple[Mutant, Found | None, float]]:
    """Try mutants, some at a time, and yield what became of each, and the seconds it took."""

    def run(mutant: Mutant) -> tuple[Mutant, Found | None, float]:
        begun = time.monotonic()
        return mutant, Trial(mutant, seeds).run(), time.monotonic() - begun

    with ThreadPoolExecutor(jobs) as pool:
        for trial in as_completed([pool.submit(run, mutant) for mutant in chosen]):
            yield trial.result()


def main(arguments: Sequence[str]) -> int:
    """Try mutants and return 1 where one is not found for no listed reason."""
    parser = argparse.ArgumentParser(prog="safety_mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seeds", default=f"1..{MOST_SEEDS}", metavar="A..B")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    listed = {mutant.name: mutant for mutant in mutants()}
    if given.task:
        applied, theme, begin, end = json.loads(given.task)
        if applied:
            turn_off(applied)
        found = first_violation(listed[theme], range(begin, end))
        print(json.dumps(found), flush=True)
        os._exit(0)  # threads of actors may wait for ever
    if unknown := [name for name in given.names if name not in listed]:
        parser.error(f"no such mutant: {', '.join(unknown)}; there are {', '.join(listed)}")
    first, _, last = given.seeds.partition("..")
    seeds = range(int(first), int(last or first) + 1)
    unexplained = 0
    for mutant, found, seconds in run_all([listed[name] for name in given.names or listed], seeds, given.jobs):
        if found is None:
            unexplained += not mutant.why
            said = f"not found in {len(seeds):,} seeds" + (f": {mutant.why}" if mutant.why else "")
        else:
            said = f"found after {found.seed - seeds.start + 1:,} seeds: {found.violation}"
        print(f"{mutant.name}: {said} ({seconds:.0f} s)", flush=True)
    return 1 if unexplained else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
