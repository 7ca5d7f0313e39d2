"""Which rules a run checks: those of a level, chosen by globs over ids.

The rules that are defined here are in no catalogue. They are no faults of a table, and are always checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from deltacli.core.errors import LazyText, parameter
from deltacli.core.lock_free_property import cached_property
from deltacli.rules.framework.base import (
    LEVELS,
    UNREAD,
    Catalogue,
    Fix,
    Level,
    Rule,
    Severity,
)

if TYPE_CHECKING:
    pass

CHECK_CRASHED = Rule(
    "validate.check-crashed",
    Severity.ERROR,
    Level.LOG,
    "A check of deltacli failed, so the result of its rules is unknown.",
    "deltacli",
    Fix(broken="deltacli, not the table", advice="report it with the message; the other checks were run"),
    "",
)
"""Not in the catalogue, because it is not a fault of a table."""

FILE_UNREADABLE = Rule(
    UNREAD,
    Severity.ERROR,
    Level.LOG,
    "A file of the table exists but could not be read, so its content is unknown.",
    "deltacli",
    Fix(
        broken="the content of this file is not checked",
        advice="grant permission to read it, restore it if the store has archived it, or check the disk or store that "
        "contains it, and run the command again",
    ),
    "a commit that only its owner may read",
)
"""Not in the catalogue, either."""

FILE_OUTSIDE = Rule(
    "validate.file-outside",
    Severity.ERROR,
    Level.LOG,
    "Files of the log that the newest version needs are outside the table and were not opened.",
    "deltacli",
    Fix(
        broken="deltacli does not open the table, and the content of these files is not checked",
        advice=LazyText(
            "if you trust the table, allow their location with {}",
            partial(parameter, "open_table.allow_external", "PREFIX"),
        ),
    ),
    "a _delta_log that is a link to a directory outside the table",
)
"""As above."""

COULD_NOT_BE_READ = "the table could not be read"
"""Why the rules of a shared table were not checked, where the server did not let it be read."""

OWN_RULES = frozenset({CHECK_CRASHED.id, FILE_UNREADABLE.id, FILE_OUTSIDE.id})
"""Ids outside the catalogue, which are not faults of a table."""


class RuleChoice(NamedTuple):
    """The rules of a run: those of a level, chosen by globs over ids."""

    level: str = "log"
    select: Sequence[str] = ()
    ignore: Sequence[str] = ()

    def takes(self, rule: Rule) -> bool:
        """Return True if the rule is selected."""
        if rule.id in OWN_RULES:
            return True
        return LEVELS.index(rule.level) <= LEVELS.index(self.level) and self.names(rule.id)

    def names(self, rule_id: str) -> bool:
        """Return True if the globs select a rule of these levels."""
        if self.select and not any(fnmatchcase(rule_id, pattern) for pattern in self.select):
            return False
        return not any(fnmatchcase(rule_id, pattern) for pattern in self.ignore)


class SelectedRules(Set[str]):
    """The ids of the rules of a choice. All modules of rules are imported when they are listed."""

    def __init__(self, choice: RuleChoice, known: Catalogue) -> None:
        self.choice = choice
        self._known = known

    @cached_property
    def _ids(self) -> frozenset[str]:
        return frozenset(rule.id for rule in self._known.rules.values() if self.choice.takes(rule))

    def __contains__(self, rule_id: object) -> bool:
        return rule_id in self._ids

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    @classmethod
    def _from_iterable(cls, ids: Iterable[str]) -> frozenset[str]:  # type: ignore[override]
        return frozenset(ids)

    def __reduce__(self) -> tuple[type[frozenset[str]], tuple[list[str]]]:
        """Return a copy as the ids alone."""
        return frozenset, ([*self._ids],)
