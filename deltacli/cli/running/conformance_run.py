"""The run of `share test`: check a server, and write what deviates from the protocol."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from deltacli.cli.options.findings import require_max_findings
from deltacli.cli.output.grids import WriteItems
from deltacli.cli.running.baseline_files import (
    read_baseline_file,
    require_baseline_target,
    write_or_check_baseline,
)
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.finding_filter import FindingFilter, ResultNotWrittenError
from deltacli.core.times import parse_duration
from deltacli.rules.framework.base import Finding, Rule, Severity

if TYPE_CHECKING:
    from deltacli.cli.render.validate.report import CheckedTable, ValidationReport
    from deltacli.sharing.conformance.run import ConformanceRun, ServerTarget
    from deltacli.sharing.conformance.wire import Suite

COMMAND = "share test"


class TestLevel(StrEnum):
    """The level of a test: answers of the API, footers of shared files, or their rows."""

    API = "api"
    FOOTERS = "footers"
    DATA = "data"


class TestedProfile(StrEnum):
    """The protocol whose rules are checked."""

    DELTA_SHARING = "delta-sharing"
    OPENSHARING = "opensharing"


@dataclass(frozen=True)
class TestOptions:
    """The options of `share test`.

    Attributes:
        profile: The profile file with the token for a URL.
        level: What is checked.
        profile_of: The protocol whose rules are checked.
        no_credentials: Whether no credentials of directories are requested.
        probe_scope: Whether directories outside the credentials are listed, too.
        select: Patterns of the ids of rules to check. Empty: all rules.
        ignore: Patterns of the ids of rules to skip.
        fail_on: The severity from which a finding makes the command fail.
        baseline: The file with accepted findings.
        write_baseline: The file that gets all findings as accepted.
        max_findings: How many findings of each rule are shown. 0: all.
        exit_zero: Whether findings do not make the command fail.
        brief: Whether a finding takes one line.
        max_tables: How many tables are tested. 0: the lists only.
        max_requests: How many requests are sent.
        time_budget_ms: The time in milliseconds after which no request is sent.
        pause: The time between two requests, such as `200ms`.
        list_rules: Whether the rules are listed instead.
    """

    profile: str | None = None
    level: TestLevel = TestLevel.FOOTERS
    profile_of: TestedProfile = TestedProfile.DELTA_SHARING
    no_credentials: bool = False
    probe_scope: bool = False
    select: Sequence[str] = ()
    ignore: Sequence[str] = ()
    fail_on: Severity = Severity.ERROR
    baseline: str | None = None
    write_baseline: str | None = None
    max_findings: int = 100
    exit_zero: bool = False
    brief: bool = False
    max_tables: int = 10
    max_requests: int = 2000
    time_budget_ms: int | None = None
    pause: str = "0s"
    list_rules: bool = False

    def __post_init__(self) -> None:
        # Listing the rules sends no requests, so the pause does not matter.
        if not self.list_rules:
            parse_pause(self.pause)
        require_max_findings(self.max_findings)


def parse_pause(text: str) -> float:
    """Return the value of `--pause` in seconds. Raises UsageError."""
    return parse_duration(text, "--pause", "s") / 1_000


class ConformanceChecker:
    """One run of `share test` on a server."""

    def __init__(self, run: CommandContext, options: TestOptions, rules: Sequence[Rule]) -> None:
        """Prepare a run. The baseline is read, but no request is sent.

        Args:
            run: The run of the command.
            options: The options.
            rules: The rules to check.

        Raises:
            UsageError: If the baseline cannot be read.
        """
        self._run = run
        self._options = options
        self._rules = {rule.id: rule for rule in rules}
        self._baseline = read_baseline_file(options.baseline) if options.baseline is not None else None
        self._suites: list[CheckedTable] = []
        self._omissions: list[str] = []
        self._findings_to_accept: list[tuple[str, Finding]] = []
        # The filter of the suite that runs at the moment: the server itself, or one of its tables.
        self._filter: FindingFilter | None = None

    def test(self, target: ServerTarget) -> ValidationReport:
        """Test a server and write the result.

        Raises:
            UsageError: If the file of `--write-baseline` may not be written.
            DeltacliError: If the server cannot be reached.
        """
        from deltacli.cli.render.validate.result import ConformanceResult, LiveFindings

        options = self._options
        if options.write_baseline is not None:
            require_baseline_target(options.write_baseline)
        if self._run.format.is_streamed:
            self._run.write(LiveFindings(partial(self._test_and_stream, target)))
            report = self._make_report()
        else:
            requests = self._test(target, None)
            report = self._make_report()
            self._run.write(ConformanceResult(report, options.brief, endpoint=target.endpoint, requests=requests))
        write_or_check_baseline(self._run, report, self._findings_to_accept, options.write_baseline, options.baseline)
        return report

    def _test_and_stream(self, target: ServerTarget, write_items: WriteItems) -> bool:
        """Test a server and write each finding when it is found. Returns whether the result is complete."""
        self._test(target, write_items)
        return self._make_report().is_complete

    def _test(self, target: ServerTarget, write_items: WriteItems | None) -> int:
        """Test a server.

        Args:
            target: The server.
            write_items: Writes lines of NDJSON as soon as they are known. None: nothing is written yet.

        Returns:
            The number of requests that were sent.
        """
        from deltacli.cli.render.validate.result import suite_line
        from deltacli.sharing.conformance.lists import Scope
        from deltacli.sharing.conformance.run import ConformanceRun
        from deltacli.sharing.conformance.wire import Budget, Wire
        from deltacli.storage.vended import open_vended

        options = self._options
        time_budget_seconds = None if options.time_budget_ms is None else options.time_budget_ms / 1_000
        wire = Wire(
            target.endpoint,
            target.authorize,
            Budget(options.max_requests, time_budget_seconds),
            pause=parse_pause(options.pause),
            sleep=time.sleep,
            clock=time.monotonic,
        )
        scope = Scope(
            *target.names,
            options.level.value,
            options.max_tables,
            is_opensharing=options.profile_of is TestedProfile.OPENSHARING,
            asks_credentials=not options.no_credentials,
            probes=options.probe_scope,
        )
        conformance_run = ConformanceRun(
            wire,
            scope,
            self._run.clock(),
            lambda rule: rule.id in self._rules,
            self._run.progress,
            lambda uri: self._open_filter(uri, write_items),
            partial(open_vended, options=self._run.stores.storage_options),
        )
        try:
            for suite in conformance_run.suites():
                self._add_suite(suite, conformance_run)
                if write_items is not None:
                    write_items(suite_line(self._suites[-1], options.level))
        except ResultNotWrittenError as error:
            raise error.cause from None
        finally:
            wire.close()
        self._omissions = conformance_run.omissions
        return wire.sent

    def _open_filter(self, uri: str, write_items: WriteItems | None) -> Callable[[Finding], None]:
        """Return the receiver of the findings of the next suite.

        Args:
            uri: The address of the server or of one of its tables.
            write_items: Writes lines of NDJSON. None: findings are not written yet.
        """
        write_finding = None if write_items is None else partial(_write_finding, write_items, uri)
        options = self._options
        self._filter = FindingFilter(options.fail_on, options.max_findings, uri, self._baseline, write_finding)
        return self._filter.add

    def _add_suite(self, suite: Suite, conformance_run: ConformanceRun) -> None:
        """Record the result of a suite that has ended."""
        from deltacli.cli.render.validate.report import CheckedTable

        finding_filter = self._filter
        assert finding_filter is not None, "the run opens a filter before each suite"
        validation = conformance_run.make_validation(suite, self._rules.keys(), level=self._options.level)
        shown_findings = tuple(finding for finding in suite.findings if id(finding) in finding_filter.shown_ids)
        self._suites.append(
            CheckedTable(
                suite.name,
                validation,
                shown_findings,
                finding_filter.suppressed,
                finding_filter.accepted,
                finding_filter.fails,
                is_server=not suite.base,
            )
        )
        if self._options.write_baseline is not None:
            self._findings_to_accept += [(suite.uri, finding) for finding in suite.findings]

    def _make_report(self) -> ValidationReport:
        """Return the report on the suites that have ended."""
        from deltacli.cli.render.validate.report import ValidationReport

        checked_ids = {rule_id for suite in self._suites for rule_id in suite.validation.rules}
        checked_rules = tuple(rule for rule in self._rules.values() if rule.id in checked_ids)
        stale_findings = None
        if self._baseline is not None:
            labels = [suite.validation.table for suite in self._suites]
            stale_findings = self._baseline.stale(labels, checked_ids.__contains__)
        return ValidationReport(
            self._options.level,
            self._options.fail_on,
            tuple(self._suites),
            (),
            lambda: checked_rules,
            stale_findings,
            COMMAND,
            tuple(self._omissions),
        )


def _write_finding(write_items: WriteItems, uri: str, finding: Finding) -> None:
    from deltacli.cli.render.validate.result import finding_line

    write_items(finding_line(uri, finding, uri))
