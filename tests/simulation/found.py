"""What the simulation found: a scenario each, in its smallest form, which must go right ever after."""

from __future__ import annotations

from typing import NamedTuple

from tests.simulation.scenario import Item, Scenario


class Found(NamedTuple):
    """A seed whose past it needs, and what was wrong."""

    seed: int
    what: str
    scenario: Scenario


def _scenario(
    seed: int, *items: Item, is_disk: bool = True, has_copy: bool = False, has_backup: bool = False
) -> Scenario:
    return Scenario(seed, is_disk, items, (), {}, has_copy, has_backup)


FOUND: tuple[Found, ...] = ()
