"""All rules and all checks, put together from the areas."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from typing import NamedTuple

from deltacli.delta.rules.base import Area, Check, Rule

AREAS = (
    "log_files",
    "commit_lines",
    "actions",
    "paths",
    "protocol",
    "metadata",
    "properties",
    "schema",
    "mapping",
    "partitions",
    "statistics",
    "checkpoints",
    "hint",
    "checksums",
    "compactions",
    "storage",
    "data_files",
    "deletion_vectors",
    "change_data",
    "expressions",
    "row_tracking",
    "commit_times",
    "clustering",
    "widening",
    "iceberg",
    "history",
)
"""Modules of this package; each has an `AREA`."""


LEFT_OUT: Mapping[str, str] = {}
"""Rules of the reference that can't be checked on the files of a table, each with its reason."""


class Catalogue(NamedTuple):
    """Every rule by its id, in the order of the areas, and every check."""

    rules: Mapping[str, Rule]
    checks: tuple[Check, ...]


@lru_cache(maxsize=1)
def catalogue() -> Catalogue:
    """Import the areas and collect what they hold."""
    areas: list[Area] = [import_module(f"deltacli.delta.rules.{name}").AREA for name in AREAS]
    rules = {rule.id: rule for area in areas for rule in area.rules}
    return Catalogue(rules, tuple(check for area in areas for check in area.checks))
