"""Inputs drawn from the strategies of the property tests, the same ones every time."""

from __future__ import annotations

from typing import TypeVar

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

Drawn = TypeVar("Drawn")


def collect(strategy: st.SearchStrategy[Drawn], count: int) -> list[Drawn]:
    """Return what a strategy draws first."""
    found: list[Drawn] = []

    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(example: Drawn) -> None:
        found.append(example)

    draw()
    return found
