"""All rules and all checks, collected from the areas."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from typing import NamedTuple

from deltacli.delta.rules.framework.base import Area, Check, Rule

AREAS = (
    "log.log_files",
    "log.commit_lines",
    "actions.actions",
    "paths.paths",
    "protocol.protocol",
    "protocol.metadata",
    "protocol.properties",
    "schema.schema",
    "mapping.mapping",
    "partitions.partitions",
    "statistics.statistics",
    "checkpoints.checkpoints",
    "log.last_checkpoint",
    "log.checksums",
    "log.compactions",
    "files.storage",
    "files.data_files",
    "files.deletion_vectors",
    "actions.change_data",
    "expressions.expressions",
    "actions.row_tracking",
    "log.commit_times",
    "protocol.clustering",
    "widening.widening",
    "protocol.iceberg",
    "log.history",
)
"""Modules of this package; each has an `AREA`."""


LEFT_OUT: Mapping[str, str] = {}
"Rules of the reference that cannot be checked on the files of a table, each with its reason."


class Catalogue(NamedTuple):
    """Every rule by its id, in the order of the areas, and every check."""

    rules: Mapping[str, Rule]
    checks: tuple[Check, ...]


@lru_cache(maxsize=1)
def catalogue() -> Catalogue:
    """Import the areas and collect their rules and checks."""
    areas: list[Area] = [import_module(f"deltacli.delta.rules.{name}").AREA for name in AREAS]
    rules = {rule.id: rule for area in areas for rule in area.rules}
    return Catalogue(rules, tuple(check for area in areas for check in area.checks))
