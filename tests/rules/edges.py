"""Tables at the very edge of a rule, each with the rules that report on it and no other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from deltacli.rules.framework.base import Finding
from tests.rules.table_builder import TableBuilder
from tests.rules.test_corruptions import inspect

Make = Callable[[], TableBuilder]


class Edges(list[tuple[frozenset[str], Make]]):
    """What a module of tests is parametrized by."""

    def reports(self, *rules: str) -> Callable[[Make], Make]:
        """Register a table on which exactly these rules report."""

        def register(make: Make) -> Make:
            self.append((frozenset(rules), make))
            return make

        return register


def assert_reports(rules: frozenset[str], make: Make, root: Path) -> None:
    found = inspect(make().write(root / "t")).findings

    shown = "\n".join(f"{finding.rule.id} {finding.place} {finding.message}" for finding in found)
    assert rules == {finding.rule.id for finding in found}, shown


def found_by(rule: str, make: Make, root: Path) -> list[Finding]:
    """What one rule reports on a table."""
    return [finding for finding in inspect(make().write(root / "t")).findings if finding.rule.id == rule]
