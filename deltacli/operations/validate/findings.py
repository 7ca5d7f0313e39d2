"""The request for a validation, and the collector of its findings, with their limits and checks that fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from deltacli.core.errors import UsageError, parameter, suggest_parameters
from deltacli.core.memory import raise_if_out_of_memory
from deltacli.delta.log.segment import Place
from deltacli.rules.framework.base import (
    CATALOGUE,
    UNREAD,
    Catalogue,
    Check,
    Finding,
    Rule,
    Severity,
)
from deltacli.table.api_arguments import require_known_word

if TYPE_CHECKING:
    from deltacli.rules.framework.data_file_views import FileFault
from deltacli.rules.framework.choice import CHECK_CRASHED, FILE_UNREADABLE, RuleChoice, SelectedRules

# -- the request for a validation --------------------------------------------------------------------------------------

DEFAULT_MOST = 100


class LevelChoice(StrEnum):
    """What is checked of a table; each level also checks what those before it do."""

    LOG = "log"
    STORAGE = "storage"
    FOOTERS = "footers"
    DATA = "data"


@dataclass(frozen=True, kw_only=True)
class ValidateRequest:
    """What to check of a table. Of the data files, a share or those that may have matching rows are checked.

    Attributes:
        level: What is checked: `log`, `storage` (also a listing of the table), `footers` (also footers of data
            files) or `data` (also their rows).
        sample: The share of the data files to check, above 0 and at most 1. The sample differs per version.
        where: A condition. Only data files that may contain matching rows are checked.
        select: Globs over the ids of rules. Empty: all rules.
        ignore: Globs over the ids of rules to skip.
        max_findings: The largest number of findings per rule. 0: all of them.
    """

    level: str = LevelChoice.LOG
    sample: float = 1.0
    where: str | None = None
    select: Sequence[str] = ()
    ignore: Sequence[str] = ()
    max_findings: int = DEFAULT_MOST

    def __post_init__(self) -> None:
        """Raise UsageError for invalid values and combinations."""
        require_known_word(self.level, "level", LevelChoice)
        require_limit(self.max_findings)
        if not 0 < self.sample <= 1:  # a sample of nothing would find nothing
            raise UsageError(
                f"{parameter('validate.sample')} {self.sample!r} is not a share of the files",
                code="usage.sample",
                facts={"expected": "a number above 0, at most 1"},
            )
        object.__setattr__(self, "level", LevelChoice(self.level))
        self.require_files()

    def require_files(self) -> None:
        """Raise UsageError for limits of data files at a level that opens none."""
        if not self.limits or self.opens_files:
            return
        limit = parameter("validate.sample" if self.sample != 1 else "validate.where")
        raise UsageError(
            f"{limit} limits the data files, and {parameter('validate.level', str(self.level))} opens none",
            code="usage.sample",
            hint=suggest_parameters(parameter("validate.level", "data")),
        )

    @property
    def opens_files(self) -> bool:
        return self.level in (LevelChoice.FOOTERS, LevelChoice.DATA)

    @property
    def limits(self) -> list[str]:
        """The limits of data files as the caller gave them."""
        sample = [] if self.sample == 1 else [parameter("validate.sample", f"{100 * self.sample:g}%")]
        return sample if self.where is None else [*sample, f"{parameter('validate.where')} {self.where!r}"]


def require_limit(findings: int) -> None:
    """Raise UsageError for a negative limit of findings."""
    if findings < 0:
        limit = parameter("validate.max_findings")
        raise UsageError(f"{limit} {findings} is negative", facts={"expected": "0 (all) or more"})


# -- collecting findings -----------------------------------------------------------------------------------------------

MOST_COUNTED = 10_000
"""Maximum number of findings above the limit that are counted; beyond it a rule reports `10,000 or more`."""


class Collector:
    """Runs the selected checks over views and collects their findings, at most `most` per rule (0: all)."""

    def __init__(
        self,
        choice: RuleChoice,
        most: int,
        on_finding: Callable[[Finding], None] | None,
        *,
        known: Catalogue = CATALOGUE,
    ) -> None:
        """Take the rules of a choice out of the `known` ones, those for Delta tables unless others are given."""
        self._choice = choice
        self._known = known
        self._most = most
        self._on_finding = on_finding
        self._taken: dict[str, bool] = {}
        self._checks: dict[type, list[Check]] = {}
        self._kept: Counter[str] = Counter()
        self._crashed: set[Check] = set()
        self._done: set[str] = set()
        self.findings: list[Finding] = []
        self.suppressed: Counter[str] = Counter()

    @property
    def rules(self) -> Set[str]:
        return SelectedRules(self._choice, self._known)

    def _takes(self, rule: Rule) -> bool:
        taken = self._taken.get(rule.id)
        if taken is None:
            taken = self._taken[rule.id] = self._choice.takes(rule)
        return taken

    def _checks_of(self, view: type) -> list[Check]:
        """Return the checks of such views that may report a selected rule; their modules are imported here."""
        checks = self._checks.get(view)
        if checks is None:
            checks = self._checks[view] = [
                check for check in self._known.find_checks(view) if any(map(self._takes, check.rules))
            ]
        return checks

    def looks_at(self, view: type) -> bool:
        """Return True if a check of this run uses such views, so that one has to be made."""
        return bool(self._checks_of(view))

    def look(self, view: object, place: Place) -> None:
        """Run every check for such a view. One that fails is reported and does not affect the others."""
        self.take(self.findings_of(view, place))

    def look_at_fault(self, place: Place, fault: FileFault) -> bool:
        """Report why a data file could not be checked; return True where it could not be read, so that no rule applies.
        An existing but unreadable file is a finding of its own.
        """
        from deltacli.rules.framework.data_file_views import FileFaultView

        if fault.code == UNREAD:
            self.take([FILE_UNREADABLE.at(place, fault.message, seen=fault.seen)])
        self.look(FileFaultView(place, fault), place)
        return fault.code in (UNREAD, "data.unreachable")

    def findings_of(self, view: object, place: Place) -> list[Finding]:
        """Return the findings of every check for such a view, not yet collected; may be called in several threads."""
        findings: list[Finding] = []
        for check in self._checks_of(type(view)):
            if self._is_done(check):
                continue
            try:
                findings.extend(self._heard(check, view))
            except Exception as fault:  # noqa: BLE001  (a failing check must not affect the others)
                raise_if_out_of_memory(fault)
                findings.extend(self._crash(check, fault, place))
        return findings

    def _heard(self, check: Check, view: object) -> Iterator[Finding]:
        """Yield a check's findings of selected rules, until the limit of each of them is reached."""
        heard: dict[str, int] = {}
        enough = MOST_COUNTED + self._most if self._most else 0
        for finding in check.run(view):
            rule = finding.rule.id
            if not self._takes(finding.rule):
                continue
            heard[rule] = heard.get(rule, 0) + 1
            if enough and heard[rule] > enough:
                if all(heard.get(one.id, 0) > enough for one in check.rules if self._takes(one)):
                    return
                continue
            yield finding

    def take(self, findings: Iterable[Finding]) -> None:
        """Collect findings of selected rules, up to the limit."""
        for finding in findings:
            rule = finding.rule.id
            if not self._takes(finding.rule):
                continue
            if self._most and self._kept[rule] >= self._most:
                self.suppressed[rule] += 1
                if self.suppressed[rule] >= MOST_COUNTED:
                    self._done.add(rule)
                continue
            self._kept[rule] += 1
            self.findings.append(finding)
            if self._on_finding is not None:
                self._on_finding(finding)

    def versions_of_errors(self, *areas: str) -> frozenset[int]:
        """Return the versions of the log at which rules of these areas have reported errors."""
        return frozenset(
            finding.place.version
            for finding in self.findings
            if finding.place.version is not None
            and finding.severity is Severity.ERROR
            and finding.rule.id.startswith(areas)
        )

    def _is_done(self, check: Check) -> bool:
        """Return True if the limit is reached for every rule of a check, so that it need not run any more."""
        return bool(self._done) and all(rule.id in self._done or not self._takes(rule) for rule in check.rules)

    def _crash(self, check: Check, fault: Exception, place: Place) -> list[Finding]:
        if check in self._crashed:
            return []
        self._crashed.add(check)
        name = getattr(check.run, "__name__", "a check")
        ids = ", ".join(rule.id for rule in check.rules)
        message = f"the check {name} failed with {type(fault).__name__}: {fault}; not checked: {ids}"
        return [CHECK_CRASHED.at(place, message)]
