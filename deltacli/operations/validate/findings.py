"""The request for a validation, and its findings: rules, limits, checks that fail, findings accepted before."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.core.errors import LazyText, UsageError, command, parameter, suggest_parameters
from deltacli.core.lock_free_property import cached_property
from deltacli.core.memory import raise_if_out_of_memory
from deltacli.core.request_fields import Kind, Option, option, require_known_word, shared
from deltacli.core.typing import JsonObject
from deltacli.delta.log.segment import Place
from deltacli.rules.framework.base import (
    CATALOGUE,
    LEVELS,
    UNREAD,
    Catalogue,
    Check,
    Finding,
    Fix,
    Level,
    Rule,
    Severity,
)

if TYPE_CHECKING:
    from deltacli.rules.framework.data_file_views import FileFault

# -- the request for a validation --------------------------------------------------------------------------------------

DEFAULT_MOST = 100

SELECT = Option(
    "Check only these rules: globs over rule ids. Repeatable.",
    "A,B,…",
    Kind.PATTERNS,
)
IGNORE = Option(
    "Skip these rules: globs over rule ids. Repeatable.",
    "A,B,…",
    Kind.PATTERNS,
)


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

    level: str = option(
        "What to check: the log; also a listing of the table; also footers of data files; also their rows.  "
        "[default: log]",
        default=LevelChoice.LOG,
        choices=LevelChoice,
    )
    sample: float = option(
        "Check only this share of the data files, such as 5%; the sample differs per version.",
        "N%",
        Kind.SHARE,
        default=1.0,
    )
    where: str | None = option(
        "Check only data files that may contain matching rows; all of their rows are checked.", "CONDITION"
    )
    select: Sequence[str] = shared(SELECT, ())
    ignore: Sequence[str] = shared(IGNORE, ())
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


# -- accepted findings, in a file --------------------------------------------------------------------------------------

_BASELINE_KIND = "deltacli.baseline"
_BASELINE_VERSION = 1


class Fingerprint(NamedTuple):
    """The identity of a finding. `seen` is a digest of its values, empty where there are none."""

    table: str
    rule: str
    file: str
    key: str
    seen: str

    @property
    def digest(self) -> str:
        return _digest("\0".join(self))


def fingerprint(table: str, finding: Finding) -> Fingerprint:
    """Return the identity of a finding of a table."""
    seen = _digest(finding.seen)[:16] if finding.seen is not None else ""
    return Fingerprint(table, finding.rule.id, finding.place.path, finding.place.key or "", seen)


class Baseline:
    """Accepted findings with the number of equal ones. Each reported finding is subtracted."""

    def __init__(self, accepted: Mapping[Fingerprint, int]) -> None:
        self._left = Counter(accepted)
        self.accepted = 0

    def take(self, table: str, finding: Finding) -> bool:
        """Return True if the finding is accepted; of several equal ones, as many as were stored."""
        known = fingerprint(table, finding)
        if self._left[known] <= 0:
            return False
        self._left[known] -= 1
        self.accepted += 1
        return True

    def stale(self, tables: Iterable[str], is_looked_for: Callable[[str], bool]) -> int:
        """Return the number of accepted findings of these tables and checked rules that no longer occur."""
        looked_at = set(tables)
        return sum(
            count for known, count in self._left.items() if known.table in looked_at and is_looked_for(known.rule)
        )


def read_baseline(data: bytes, name: str) -> Baseline:
    """Return the accepted findings of a file. Raises UsageError where it is not a baseline."""
    try:
        document = json.loads(data)
        if document["kind"] != _BASELINE_KIND or document["schemaVersion"] != _BASELINE_VERSION:
            raise ValueError("it is another kind of document, or of a later version")
        accepted = {_known(item): int(item.get("count", 1)) for item in document["findings"]}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as fault:
        is_said = type(fault) is ValueError  # the message of the check above
        raise UsageError(
            f"the baseline {name} cannot be used: {fault if is_said else 'it was not written by validate'}",
            code="usage.baseline",
            hint=command("validate", write_baseline=name_beside(name)),
        ) from fault
    return Baseline(accepted)


def is_baseline(data: bytes) -> bool:
    """Return whether a file is a baseline, of whatever version, which a new one may replace."""
    try:
        return bool(json.loads(data)["kind"] == _BASELINE_KIND)
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def name_beside(name: str) -> str:
    """Return a name for a baseline beside another file: that of the file, but with the ending `.baseline.json`."""
    return f"{os.path.splitext(name)[0]}.baseline.json"


def write_baseline(findings: Sequence[tuple[str, Finding]]) -> bytes:
    """Return the file that accepts these findings, each with its table; sorted, so that diffs are small."""
    counts = Counter(fingerprint(table, finding) for table, finding in findings)
    document = {
        "kind": _BASELINE_KIND,
        "schemaVersion": _BASELINE_VERSION,
        "findings": [_item(known, count) for known, count in sorted(counts.items())],
    }
    return json.dumps(document, indent=1, ensure_ascii=True).encode() + b"\n"


def _known(item: JsonObject) -> Fingerprint:
    return Fingerprint(
        str(item["table"]), str(item["rule"]), str(item["file"]), str(item.get("key", "")), str(item.get("seen", ""))
    )


def _item(known: Fingerprint, count: int) -> dict[str, Any]:
    item: dict[str, Any] = {"table": known.table, "rule": known.rule, "file": known.file}
    if known.key:
        item["key"] = known.key
    if known.seen:
        item["seen"] = known.seen
    return {**item, "count": count} if count > 1 else item


def _digest(text: str) -> str:
    from hashlib import sha256  # with OpenSSL, which a run without findings does without

    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
