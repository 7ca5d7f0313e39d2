"""Decide for each finding of a table whether it is accepted, shown, or only counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltacli.cli.running.trend_entries import Tally
    from deltacli.rules.framework.base import Finding, Severity
    from deltacli.rules.framework.baseline import Baseline


class ResultNotWrittenError(BaseException):
    """A finding cannot be written to the destination of the result.

    This is not an Exception. While a rule runs, every Exception is taken for an error of that rule.

    Attributes:
        cause: The error that occurred.
    """

    def __init__(self, cause: Exception) -> None:
        super().__init__(cause)
        self.cause = cause


class FindingFilter:
    """Receives the findings of one table, or of one server, in the order in which they are found.

    Attributes:
        shown_ids: The ids (`id()`) of the findings to show.
        suppressed: The number of findings above the limit per rule, by the id of the rule.
        accepted: The number of findings that the baseline accepts.
        fails: Whether a finding that is not accepted has the severity of `--fail-on`, or a higher one.
        by_severity: The number of findings that are not accepted, by severity.
        by_rule: The number of findings that are not accepted, by the id of the rule.
    """

    def __init__(
        self,
        fail_on: Severity,
        max_findings: int,
        label: str,
        baseline: Baseline | None,
        write_finding: Callable[[Finding], None] | None,
    ) -> None:
        """Create a filter that has received no finding yet.

        Args:
            fail_on: The severity from which a finding makes the command fail.
            max_findings: How many findings of each rule are shown. 0: all.
            label: The name of the table in the baseline.
            baseline: The accepted findings. None: no finding is accepted.
            write_finding: Writes a finding as soon as it is found. None: findings are written later.
        """
        self._fail_on = fail_on
        self._max_findings = max_findings
        self._label = label
        self._baseline = baseline
        self._write_finding = write_finding
        self._shown_by_rule: Counter[str] = Counter()
        self.shown_ids: set[int] = set()
        self.suppressed: Counter[str] = Counter()
        self.accepted = 0
        self.fails = False
        self.by_severity: Counter[str] = Counter()
        self.by_rule: Counter[str] = Counter()

    def add(self, finding: Finding) -> None:
        """Count a finding, and write it if it is to be shown at once.

        Raises:
            ResultNotWrittenError: If writing the finding fails.
        """
        from deltacli.cli.render.validate.report import reaches

        if self._baseline is not None and self._baseline.take(self._label, finding):
            self.accepted += 1
            return

        rule_id = finding.rule.id
        self.fails |= reaches(finding.severity, self._fail_on)
        self.by_severity[finding.severity] += 1
        self.by_rule[rule_id] += 1
        if self._max_findings and self._shown_by_rule[rule_id] >= self._max_findings:
            self.suppressed[rule_id] += 1
            return

        self._shown_by_rule[rule_id] += 1
        self.shown_ids.add(id(finding))
        if self._write_finding is None:
            return
        try:
            self._write_finding(finding)
        except Exception as error:
            raise ResultNotWrittenError(error) from error

    def make_tally(self) -> Tally:
        """Return the counts of the findings that are not accepted."""
        from deltacli.cli.running.trend_entries import Tally
        from deltacli.rules.framework.base import Severity

        return Tally(
            self.by_severity[Severity.ERROR],
            self.by_severity[Severity.WARNING],
            self.by_severity[Severity.INFO],
            accepted=self.accepted,
            suppressed=sum(self.suppressed.values()),
            rules=dict(sorted(self.by_rule.items())),
        )
