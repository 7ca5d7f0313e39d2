"""All rules and checks for Paimon tables."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module

from deltacli.delta.rules.framework.base import Area, Rule
from deltacli.delta.rules.framework.catalogue import Catalogue

AREAS = ("schema_files", "fields", "table_options", "evolution", "branches")
"""Modules of this package; each has an `AREA`."""


def areas() -> list[Area]:
    """Return the areas in order."""
    return [import_module(f"deltacli.paimon.rules.{name}").AREA for name in AREAS]


@lru_cache(maxsize=1)
def paimon_catalogue() -> Catalogue:
    """Return the rules by id, and the checks."""
    found = areas()
    rules: dict[str, Rule] = {rule.id: rule for area in found for rule in area.rules}
    return Catalogue(rules, tuple(check for area in found for check in area.checks))
