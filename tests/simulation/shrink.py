"""Makes a history that goes wrong smaller: without faults, actors and items that it does not need."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from tests.simulation.history import Outcome, play
from tests.simulation.scenario import Scenario

_ORDERS = 3
_VARYING = re.compile(r"[0-9a-f]{8}-[0-9a-f-]+|\d+")


def kind_of(violation: str) -> str:
    """What is the same about a violation in a smaller history."""
    return _VARYING.sub("…", violation.partition(": ")[2])[:60]


def shrunk(outcome: Outcome) -> Outcome:
    """The smallest history found that goes wrong in the same way; the same one where none is smaller."""
    wanted = {kind_of(one) for one in outcome.violations}
    found = outcome
    while (smaller := _smaller(found.scenario, wanted)) is not None:
        found = smaller
    return found


def _smaller(scenario: Scenario, wanted: set[str]) -> Outcome | None:
    for candidate in _candidates(scenario):
        for order in range(_ORDERS):
            outcome = play(replace(candidate, order=order))
            if wanted & {kind_of(one) for one in outcome.violations}:
                return outcome
    return None


def _candidates(scenario: Scenario) -> Iterator[Scenario]:
    """Smaller ones, the smallest first."""
    for actor in scenario.actors:
        kept = tuple(item for item in scenario.items if item.actor != actor)
        if kept:
            yield replace(scenario, items=kept)
    for fault in scenario.faults:
        yield replace(scenario, faults=tuple(one for one in scenario.faults if one is not fault))
    if len(scenario.items) > 1:
        for item in scenario.items:
            yield scenario.without(item)
    if any(scenario.offsets_ms.values()):
        yield replace(scenario, offsets_ms={})
    if scenario.has_backup:
        yield replace(scenario, has_backup=False)
