"""`deltacli share test`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import FindingsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import Exit, invocation
from deltacli.cli.options.findings import (
    BaselineOption,
    BriefOption,
    ExitZeroOption,
    FailOnOption,
    IgnoreOption,
    MaxFindingsOption,
    SelectOption,
    WriteBaselineOption,
    require_max_findings,
)
from deltacli.cli.options.values import join_names, make_choice_parser, make_duration_parser, make_number_parser
from deltacli.cli.output.formats import Content
from deltacli.cli.output.grids import WriteItems
from deltacli.cli.running.baseline_files import (
    read_baseline_file,
    require_baseline_target,
    write_or_check_baseline,
)
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.finding_commands import find_next_command
from deltacli.cli.running.finding_filter import FindingFilter, ResultNotWrittenError
from deltacli.cli.running.rule_selection import list_rules, require_known_rules
from deltacli.cli.terminal.suggested_commands import repeat_command_with
from deltacli.core.errors import EXIT_FINDINGS, PartlyDone, UsageError
from deltacli.core.times import parse_duration
from deltacli.rules.framework.base import Finding, Rule, Severity
from deltacli.rules.framework.choice import RuleChoice

if TYPE_CHECKING:
    from deltacli.cli.render.validate.report import CheckedTable, ValidationReport
    from deltacli.sharing.conformance.run import ConformanceRun, ServerTarget
    from deltacli.sharing.conformance.wire import Suite

app = typer.Typer(add_completion=False)

_COMMAND = "share test"


class TestLevel(StrEnum):
    API = "api"
    FOOTERS = "footers"
    DATA = "data"


class TestedProfile(StrEnum):
    DELTA_SHARING = "delta-sharing"
    OPENSHARING = "opensharing"


@dataclass(frozen=True)
class TestOptions:
    """The options of a run."""

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
        if not self.list_rules:  # which needs no pause
            _ = self.pause_seconds
        require_max_findings(self.max_findings)

    @property
    def pause_seconds(self) -> float:
        return parse_duration(self.pause, "--pause", "s") / 1_000


class ConformanceChecker:
    """One run over a server."""

    def __init__(self, run: CommandContext, wanted: TestOptions, rules: Sequence[Rule]) -> None:
        self._run = run
        self._wanted = wanted
        self._rules = {rule.id: rule for rule in rules}
        self._baseline = read_baseline_file(wanted.baseline) if wanted.baseline is not None else None
        self._suites: list[CheckedTable] = []
        self._left_out: list[str] = []
        self._to_accept: list[tuple[str, Finding]] = []
        self._filter: FindingFilter | None = None

    def test(self, target: ServerTarget) -> ValidationReport:
        """Test a server and write the result. Raises what the test raises."""
        from deltacli.cli.render.validate.result import ConformanceResult, LiveFindings

        wanted = self._wanted
        if wanted.write_baseline is not None:
            require_baseline_target(wanted.write_baseline)
        if self._run.format.is_streamed:
            self._run.write(LiveFindings(lambda write_items: self._test_as_it_goes(target, write_items)))
            report = self._report()
        else:
            wire = self._test(target, None)
            report = self._report()
            self._run.write(ConformanceResult(report, wanted.brief, endpoint=target.endpoint, requests=wire))
        write_or_check_baseline(self._run, report, self._to_accept, wanted.write_baseline, wanted.baseline)
        return report

    def _test_as_it_goes(self, target: ServerTarget, write_items: WriteItems) -> bool:
        self._test(target, write_items)
        return self._report().is_complete

    def _test(self, target: ServerTarget, write_items: WriteItems | None) -> int:
        """Test the server; `write_items` gets lines as they come. Return the number of requests."""
        from deltacli.cli.render.validate.result import suite_line
        from deltacli.sharing.conformance.lists import Scope
        from deltacli.sharing.conformance.run import ConformanceRun
        from deltacli.sharing.conformance.wire import Budget, Wire
        from deltacli.storage.vended import open_vended

        wanted = self._wanted
        budget = Budget(wanted.max_requests, None if wanted.time_budget_ms is None else wanted.time_budget_ms / 1_000)
        pause, sleep, clock = wanted.pause_seconds, time.sleep, time.monotonic
        wire = Wire(target.endpoint, target.authorize, budget, pause=pause, sleep=sleep, clock=clock)
        tested = ConformanceRun(
            wire,
            Scope(
                *target.names,
                wanted.level.value,
                wanted.max_tables,
                is_opensharing=wanted.profile_of is TestedProfile.OPENSHARING,
                asks_credentials=not wanted.no_credentials,
                probes=wanted.probe_scope,
            ),
            self._run.clock(),
            lambda rule: rule.id in self._rules,
            self._run.progress,
            lambda uri: self._open_filter(uri, write_items),
            partial(open_vended, options=self._run.stores.storage_options),
        )
        try:
            for suite in tested.suites():
                self._take(suite, tested)
                if write_items is not None:
                    write_items(suite_line(self._suites[-1], wanted.level))
        except ResultNotWrittenError as error:
            raise error.cause from None
        finally:
            wire.close()
        self._left_out = tested.omissions
        return wire.sent

    def _open_filter(self, uri: str, write_items: WriteItems | None) -> Callable[[Finding], None]:
        from deltacli.cli.render.validate.result import finding_line

        tell = None if write_items is None else lambda finding: write_items(finding_line(uri, finding, uri))
        self._filter = FindingFilter(self._wanted.fail_on, self._wanted.max_findings, uri, self._baseline, tell)
        return self._filter.add

    def _take(self, suite: Suite, tested: ConformanceRun) -> None:
        from deltacli.cli.render.validate.report import CheckedTable

        sieve = self._filter
        assert sieve is not None  # on_suite is called before every suite
        validation = tested.make_validation(suite, self._rules.keys(), level=self._wanted.level)
        kept = tuple(finding for finding in suite.findings if id(finding) in sieve.shown_ids)
        counts = sieve.suppressed, sieve.accepted, sieve.fails
        self._suites.append(CheckedTable(suite.name, validation, kept, *counts, not suite.base))
        if self._wanted.write_baseline is not None:
            self._to_accept += [(suite.uri, finding) for finding in suite.findings]

    def _report(self) -> ValidationReport:
        from deltacli.cli.render.validate.report import ValidationReport

        labels, baseline = [suite.validation.table for suite in self._suites], self._baseline
        checked = {rule for suite in self._suites for rule in suite.validation.rules}
        rules = tuple(rule for rule in self._rules.values() if rule.id in checked)
        return ValidationReport(
            self._wanted.level,
            self._wanted.fail_on,
            tuple(self._suites),
            (),
            lambda: rules,
            None if baseline is None else baseline.stale(labels, checked.__contains__),
            _COMMAND,
            tuple(self._left_out),
        )


@app.command(
    "test",
    cls=FindingsCommand,
    epilog=exit_codes(
        findings="a finding has the severity of --fail-on, or a higher one",
        unreadable=True,
        partly="a limit ended the test early, without findings",
        storage=True,
    ),
)
def share_test(
    context: typer.Context,
    address: Annotated[
        str | None,
        typer.Argument(metavar="ADDRESS", help="URL of a server, with --profile, or PROFILE[#SHARE[.SCHEMA[.TABLE]]]."),
    ] = None,
    *,
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="FILE", help="Profile with the token for the URL.")
    ] = None,
    level: Annotated[
        TestLevel,
        typer.Option(
            "--level",
            metavar="api|footers|data",
            parser=make_choice_parser(TestLevel),
            help="What to check: answers of the API; also URLs and footers of up to 3 files per table; also their "
            "rows.  [default: footers]",
        ),
    ] = TestLevel.FOOTERS,
    profile_of: Annotated[
        TestedProfile,
        typer.Option(
            "--profile-of",
            metavar="delta-sharing|opensharing",
            parser=make_choice_parser(TestedProfile),
            help="Protocol whose rules are checked; opensharing adds those about its own routes.  [default: "
            "delta-sharing]",
        ),
    ] = TestedProfile.DELTA_SHARING,
    no_credentials: Annotated[
        bool, typer.Option("--no-credentials", help="Do not ask for credentials of directories.")
    ] = False,
    probe_scope: Annotated[
        bool,
        typer.Option(
            "--probe-scope",
            help="Also try to list what is outside the credentials: the parent directory and a sibling.",
        ),
    ] = False,
    select: SelectOption = None,
    ignore: IgnoreOption = None,
    fail_on: FailOnOption = Severity.ERROR,
    baseline: BaselineOption = None,
    write_baseline: WriteBaselineOption = None,
    max_findings: MaxFindingsOption = 100,
    exit_zero: ExitZeroOption = False,
    brief: BriefOption = False,
    max_tables: Annotated[
        int,
        typer.Option(
            "--max-tables",
            metavar="N",
            parser=make_number_parser(at_least=0),
            help="Test at most this many tables; 0 tests the lists only.  [default: 10; x>=0]",
        ),
    ] = 10,
    max_requests: Annotated[
        int,
        typer.Option(
            "--max-requests",
            metavar="N",
            parser=make_number_parser(at_least=1),
            help="Send at most this many requests.  [default: 2000; x>=1]",
        ),
    ] = 2000,
    time_budget_ms: Annotated[
        int | None,
        typer.Option(
            "--time-budget",
            metavar="DURATION",
            parser=make_duration_parser("--time-budget", "m"),
            help="Send no request after this time, such as 5m.",
        ),
    ] = None,
    pause: Annotated[
        str,
        typer.Option("--pause", metavar="DURATION", help="Wait between two requests, such as 200ms.  [default: 0s]"),
    ] = "0s",
    shows_rules: Annotated[
        bool, typer.Option("--list-rules", help="List the rules instead; takes no ADDRESS.")
    ] = False,
) -> None:
    """Check a Delta Sharing or OpenSharing server against the text of the protocol.

    \b
    Sends requests that only read, one at a time, about 80 per table, and reports
    every deviation with the paragraph it breaks: lists, errors, formats, pages,
    hints, versions, change feeds, file URLs, asynchronous queries, and access by
    directory, for which at most 4 credentials per table are asked for. What the
    server has no table for is reported as not checked.

    \b
    Examples:
      deltacli share test acme.share
      deltacli share test acme.share#sales.eu.orders --level data
      deltacli share test https://share.example.com/api --profile acme.share
      deltacli share test acme.share --profile-of opensharing --no-credentials
      deltacli share test acme.share --select 'share.hint-*' --fail-on warning
      deltacli share test acme.share --format junit --output share.xml
      deltacli share test acme.share --write-baseline known.json
      deltacli share test acme.share --baseline known.json
      deltacli share test --list-rules
    """
    from deltacli.sharing.conformance.run import conformance_rules

    run: CommandContext = context.obj
    wanted = TestOptions(
        profile=profile,
        level=level,
        profile_of=profile_of,
        no_credentials=no_credentials,
        probe_scope=probe_scope,
        select=join_names(select, "--select"),
        ignore=join_names(ignore, "--ignore"),
        fail_on=fail_on,
        baseline=baseline,
        write_baseline=write_baseline,
        max_findings=max_findings,
        exit_zero=exit_zero,
        brief=brief,
        max_tables=max_tables,
        max_requests=max_requests,
        time_budget_ms=time_budget_ms,
        pause=pause,
        list_rules=shows_rules,
    )

    known = conformance_rules()
    require_known_rules(run, _COMMAND, list(known), wanted.select, wanted.ignore)
    choice = RuleChoice(select=wanted.select, ignore=wanted.ignore)
    rules = [rule for rule in known.values() if choice.names(rule.id)]
    if not rules:
        raise UsageError("no rule is left to check", code="usage.rule")
    if wanted.list_rules:
        list_rules(run, rules, "share")
        return
    if not address:
        raise UsageError("missing argument ADDRESS", code="usage.table", hint="deltacli share test --help")
    from deltacli.sharing.conformance.run import read_server_target

    target = read_server_target(address, wanted.profile, run.clock, run.note)
    report = ConformanceChecker(run, wanted, rules).test(target)
    _say_what_next(run, report)
    if any(suite.fails for suite in report.tables) and not wanted.exit_zero and wanted.write_baseline is None:
        raise Exit(EXIT_FINDINGS)
    if any("limit of" in sentence for sentence in report.left_out):
        raise Exit(PartlyDone.exit_code)


def _say_what_next(run: CommandContext, report: ValidationReport) -> None:
    """Note what was left out, the counts where the format has no place for them, and the next command."""
    from deltacli.cli.render.validate.findings import summary_sentence

    for sentence in report.left_out:
        run.note(f"note: not checked: {sentence}")
    if run.format.content is Content.FINDINGS:
        run.note(f"note: {summary_sentence(report)}")
    if not run.is_on_screen:
        return
    if (more := find_next_command(report)) is not None:
        run.suggest_command(more)
    elif report.level != TestLevel.DATA:
        following = TestLevel.FOOTERS if report.level == TestLevel.API else TestLevel.DATA
        run.suggest_command(repeat_command_with(invocation.arguments, "--level", following))
