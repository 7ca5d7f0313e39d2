"""Tells a history: who did what, at which call, what went wrong, and what is wrong about it."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.history import Outcome
from tests.simulation.schedule import LANDING, START_MS

_LONGEST = 160
_OF_READING = (": read ", ": list ", ": stat ", ": open ", ": tag ", ": walk ", ": kind of ", "looks at", "lets others")


def told(outcome: Outcome, *, is_whole: bool = False) -> Iterator[str]:
    """The lines of a story; with the calls that only read where it is whole."""
    scenario = outcome.scenario
    yield f"seed {scenario.seed}, order {scenario.order}, in {'directories' if scenario.is_disk else 'an object store'}"
    yield from (f"  {item}" for item in scenario.items)
    yield from (f"  fault: {fault}" for fault in scenario.faults)
    yield ""
    skipped, waits = 0, False
    for step in outcome.trace:
        if waits and step.what == LANDING:
            continue
        waits = step.what == LANDING
        if not is_whole and any(word in step.what for word in _OF_READING) and "(" not in step.what:
            skipped += 1
            continue
        if skipped:
            yield f"{'':>14}  … {skipped} calls that read"
            skipped = 0
        yield f"{(step.time_ms - START_MS) / 1_000:>12.3f} s  {step.actor:<8} {step.what[:_LONGEST]}"
    yield ""
    yield from (f"wrong: {one}" for one in outcome.violations)
    yield f"digest {outcome.digest}"
