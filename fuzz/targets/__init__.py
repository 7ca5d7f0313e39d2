"""The targets by name. Each module has `seeds()`, `TOKENS`, and `test_one_input(data)`, which raises on a finding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module

TARGETS: Mapping[str, str] = {
    "log-names": "fuzz.targets.log_names",
    "commit-lines": "fuzz.targets.commit_lines",
    "stats": "fuzz.targets.stats",
    "schema": "fuzz.targets.schema",
    "deletion-vectors": "fuzz.targets.deletion_vectors",
    "last-checkpoint": "fuzz.targets.last_checkpoint",
    "page-headers": "fuzz.targets.page_headers",
    "checkpoints": "fuzz.targets.checkpoints",
    "bitmaps": "fuzz.targets.bitmaps",
    "conditions": "fuzz.targets.conditions",
    "data-files": "fuzz.targets.data_files",
    "footers": "fuzz.targets.footers",
    "s3-answers": "fuzz.targets.s3_answers",
    "sharing-hints": "fuzz.targets.sharing_hints",
    "sharing-tokens": "fuzz.targets.sharing_tokens",
    "paimon-schemas": "fuzz.targets.paimon_schemas",
}
"""Target -> its module."""


@dataclass(frozen=True)
class Target:
    """One target, loaded: real inputs to mutate, pieces of text worth inserting, and what must hold for any input."""

    name: str
    seeds: list[bytes]
    tokens: tuple[bytes, ...]
    test_one_input: Callable[[bytes], None]


def load(name: str) -> Target:
    """Import a target by its name, or by the dotted path of a module that looks like one."""
    module = import_module(TARGETS.get(name, name))
    return Target(name, module.seeds(), module.TOKENS, module.test_one_input)
