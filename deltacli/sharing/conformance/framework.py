"""What the rules of `share test` are made of, and the suites that collect what they report.

A rule counts as checked only where a check compared something. All others are reported as not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from deltacli.delta.log.log_path import Place
from deltacli.delta.rules.framework.base import Finding, Rule, Severity
from deltacli.sharing.conformance.wire import WireAnswer

UNEXPLAINED = "the server shares nothing that they apply to"


@dataclass
class Suite:
    """The findings about a server or about one table. `uri` is its address, `base` the path of its requests below the
    endpoint. `checked` are the rules that were checked, `skipped` the reasons why others were not.
    """

    name: str
    uri: str
    base: str
    takes: Callable[[Rule], bool]
    on_finding: Callable[[Finding], None] = lambda _: None
    version: int | None = None
    findings: list[Finding] = field(default_factory=list)
    checked: set[str] = field(default_factory=set)
    skipped: dict[str, str] = field(default_factory=dict)
    _told: set[tuple[str, str, str]] = field(default_factory=set)

    def require(
        self,
        rule: Rule,
        holds: bool,
        answer: WireAnswer,
        message: str,
        *,
        seen: object = None,
        expected: object = None,
        line: int | None = None,
        severity: Severity | None = None,
    ) -> bool:
        """Report an answer that breaks a rule, once per route and message; return whether the rule `holds`."""
        self.checked.add(rule.id)
        if not holds and self.takes(rule):
            place = self.place(answer, line)
            told = (rule.id, place.path, message)
            if told not in self._told:
                self._told.add(told)
                finding = rule.at(place, message, seen=seen, expected=expected, severity=severity)
                self.findings.append(finding)
                self.on_finding(finding)
        return holds

    def require_status(self, rule: Rule, holds: bool, answer: WireAnswer, words: str, *, expected: int = 400) -> bool:
        """Report a request, described in words, whose answer has another status than the rule says."""
        message = f"{words} is answered with {answer.status}"
        return self.require(rule, holds, answer, message, seen=answer.status, expected=expected)

    def skip(self, reason: str, rules: Iterable[Rule]) -> None:
        """Note why rules cannot be checked. The first reason is kept."""
        for rule in rules:
            self.skipped.setdefault(rule.id, reason)

    def place(self, answer: WireAnswer, line: int | None = None) -> Place:
        """Return an answer as a place: the path of the request, and as the key what else was sent."""
        return Place(answer.request.path.removeprefix(self.base).lstrip("/"), line, None, answer.request.about or None)

    def not_checked(self, rules: Iterable[Rule]) -> dict[str, list[str]]:
        """Return reason -> the ids of the rules that were not checked because of it."""
        reasons: dict[str, list[str]] = {}
        for rule in rules:
            if rule.id not in self.checked:
                reasons.setdefault(self.skipped.get(rule.id, UNEXPLAINED), []).append(rule.id)
        return reasons
