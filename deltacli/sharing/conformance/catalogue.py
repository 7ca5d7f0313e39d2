"""All rules of `share test`, collected from the areas."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module

from deltacli.delta.rules.framework.base import Area, Level, Rule

AREAS = (
    "answers",
    "lists",
    "versions",
    "line_form",
    "table_lines",
    "formats",
    "queries",
    "paging",
    "hints",
    "changes",
    "files",
)
"""Modules of the package `rules`; each has an `AREA`."""

OF_THE_SERVER = ("answers", "lists")
"""The areas whose rules are checked once for a server; those of `answers` also for every table."""

LEVELS: Mapping[str, frozenset[Level]] = {
    "api": frozenset({Level.API}),
    "footers": frozenset({Level.API, Level.FOOTERS}),
    "data": frozenset({Level.API, Level.FOOTERS, Level.DATA}),
}
"""Level on the command line -> the levels of the rules that it covers."""


def areas() -> list[Area]:
    """Return the areas in order."""
    return [_area(name) for name in AREAS]


@lru_cache(maxsize=1)
def conformance_rules() -> Mapping[str, Rule]:
    """Return the rules by id."""
    return {rule.id: rule for area in areas() for rule in area.rules}


def server_rules() -> list[Rule]:
    """Return the rules of the suite of a server."""
    return [rule for name in OF_THE_SERVER for rule in _area(name).rules]


def table_rules() -> list[Rule]:
    """Return the rules of the suite of a table."""
    from deltacli.sharing.conformance.rules.answers import EVERYWHERE

    return [*EVERYWHERE, *(rule for name in AREAS if name not in OF_THE_SERVER for rule in _area(name).rules)]


def _area(name: str) -> Area:
    area: Area = import_module(f"deltacli.sharing.conformance.rules.{name}").AREA
    return area
