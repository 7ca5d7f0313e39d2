"""What the findings of a table mean, in one sentence: what is at stake, by which rules, and what else was found."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from deltacli.cli.render.validate.report import CheckedTable, ValidationReport
from deltacli.delta.rules.framework.base import Severity
from deltacli.delta.rules.framework.risks import (
    PAIMON_RULES,
    REPLACED_WHERE_REBUILT,
    SAYS,
    SAYS_OF_FILES,
    UNREADABLE,
    UNREADABLE_FILES,
    Risk,
    risk_of,
)
from deltacli.operations.validate.findings import COULD_NOT_BE_READ, SelectedRules
from deltacli.typing import Json
from deltacli.units import plural

_NAMED = 3


class TableVerdict(NamedTuple):
    """`risks`: each class that findings are of, the worst first, with their number by rule. `others` counts the rules
    of errors and warnings that put nothing at stake, `remarks` those of observations. `is_readable`: whether the newest
    version can be rebuilt from the log; None where not everything that decides it was looked at. `unsupported`: the
    code of the error with which deltacli refuses to read the table.
    """

    level: str
    unsupported: str | None
    risks: dict[Risk, dict[str, int]]
    others: int
    remarks: int
    is_readable: bool | None
    is_paimon: bool = False
    is_untested: bool = False
    """Whether the server did not let a shared table be read."""

    @property
    def is_serious(self) -> bool:
        """Whether something is at stake, or deltacli refuses to read the table."""
        return bool(self.risks) or self.unsupported is not None

    @property
    def needs_a_look(self) -> bool:
        """Whether the verdict is shown where those of tables without problems are not."""
        return self.is_serious or bool(self.others) or self.is_untested

    @property
    def sentence(self) -> str:
        """The verdict for people, exact and short."""
        parts = [f"{self._says(risk, rules)} ({_named(list(rules))})" for risk, rules in self.risks.items()]
        if self.unsupported is not None:
            parts.insert(0, f"deltacli cannot read it ({self.unsupported})")
        if self.is_readable and not parts:
            parts.append(self._can_be_read())
        if self.others:
            parts.append(f"{plural(self.others, 'other problem' if self.is_serious else 'problem')}")
        elif self.remarks and not self.is_serious:
            parts.append(plural(self.remarks, "remark"))
        elif not self.is_serious:
            parts.append(f"not tested: {COULD_NOT_BE_READ}" if self.is_untested else "nothing found")
        return "; ".join(parts)

    def _can_be_read(self) -> str:
        if self.is_paimon:
            return "its schemas can be read"
        return "its log can be read" if self.level == "log" else "readable"

    def _says(self, risk: Risk, rules: Collection[str]) -> str:
        if UNREADABLE_FILES.issuperset(rules):
            return SAYS_OF_FILES
        return "it cannot be read" if risk is Risk.UNREADABLE and self.is_readable is False else SAYS[risk]

    def as_json(self) -> dict[str, Json]:
        """The verdict as in the document `deltacli.validate`."""
        risks = [
            {"risk": risk.value, "says": self._says(risk, rules), "findings": sum(rules.values()), "rules": list(rules)}
            for risk, rules in self.risks.items()
        ]
        return {"sentence": self.sentence, "readable": self.is_readable, "risks": risks}


def judge(table: CheckedTable) -> TableVerdict:
    """What the findings of a table come to."""
    risks: dict[Risk, dict[str, int]] = {risk: {} for risk in Risk}
    others, remarks = set(), set()
    for finding in table.findings:
        rule, risk = finding.rule.id, risk_of(finding)
        if rule in REPLACED_WHERE_REBUILT and table.validation.is_rebuilt:
            risk = Risk.READERS_FAIL
        if risk is not None:
            risks[risk][rule] = risks[risk].get(rule, 0) + 1
        elif finding.severity is Severity.INFO:
            remarks.add(rule)
        else:
            others.add(rule)
    present = {risk: rules for risk, rules in risks.items() if rules}
    at_stake = {rule for rules in present.values() for rule in rules}
    readable = _is_readable(table, can_be=Risk.UNREADABLE not in present)
    is_paimon = table.validation.table_format == "paimon"
    level, unsupported = table.validation.level, table.validation.unsupported
    code = None if unsupported is None else unsupported.code
    is_untested = not table.is_server and COULD_NOT_BE_READ in table.validation.skipped.values()
    count = len(others - at_stake - {code})
    return TableVerdict(level, code, present, count, len(remarks), readable, is_paimon, is_untested)


def _is_readable(table: CheckedTable, *, can_be: bool) -> bool | None:
    validation = table.validation
    if not validation.is_rebuilt:
        return False
    needed = _rules_of_unreadable(validation.table_format)
    rules = validation.rules
    is_asked = all(map(rules.choice.names, needed)) if isinstance(rules, SelectedRules) else needed <= rules
    is_whole = is_asked and not validation.not_checked and not table.accepted
    return True if can_be and is_whole else None


def _rules_of_unreadable(table_format: str) -> frozenset[str]:
    """Return the rules that decide whether a table can be read, which every level checks."""
    if table_format == "paimon":
        return frozenset(PAIMON_RULES[Risk.UNREADABLE].split())
    return UNREADABLE - UNREADABLE_FILES


def all_sentence(report: ValidationReport) -> str:
    """What the verdicts of several tables come to."""
    verdicts = [judge(table) for table in report.tables]
    at_risk = sum(bool(verdict.risks) for verdict in verdicts)
    to_look_at = sum(bool(verdict.others and not verdict.risks) for verdict in verdicts)
    untested = sum(verdict.is_untested and not verdict.risks and not verdict.others for verdict in verdicts)
    rest = len(verdicts) - at_risk - to_look_at - untested
    found = f"{at_risk:,} at risk, {to_look_at:,} with other problems, {rest:,} without problems"
    if not at_risk and not to_look_at:
        found = "no problems" if not untested else f"{rest:,} without problems"
    omitted = [f"{plural(untested, 'table')} could not be tested"] if untested else []
    omitted += [f"not tested: {text}" for text in report.left_out]
    return "; ".join([found, *omitted])


def _named(rules: Sequence[str]) -> str:
    more = f" and {len(rules) - _NAMED} more" if len(rules) > _NAMED else ""
    return ", ".join(rules[:_NAMED]) + more
