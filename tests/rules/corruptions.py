"""The named damages: for each rule of the catalogue a healthy table and the one thing that is wrong with it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import NamedTuple

from tests.rules.table_builder import TableBuilder


class Damage(NamedTuple):
    """`make` builds the damaged table. Exactly `rule`, `also` and what the undamaged table of `healthy` reports must be
    found. `also` are rules that inevitably report together with it, and why is said beside them.
    """

    rule: str
    also: frozenset[str]
    make: Callable[[], TableBuilder]
    name: str


DAMAGES: list[Damage] = []


def damage(
    rule: str, *, also: tuple[str, ...] = ()
) -> Callable[[Callable[[], TableBuilder]], Callable[[], TableBuilder]]:
    """Register a function that builds a table with exactly this damage."""

    def register(make: Callable[[], TableBuilder]) -> Callable[[], TableBuilder]:
        DAMAGES.append(Damage(rule, frozenset(also), make, make.__name__))
        return make

    return register


def load_all() -> None:
    """Import every module of damages."""
    import tests.rules

    for module in pkgutil.iter_modules(tests.rules.__path__):
        if module.name.startswith("corruptions_"):
            importlib.import_module(f"tests.rules.{module.name}")
