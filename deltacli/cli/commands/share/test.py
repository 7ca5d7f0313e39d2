"""`deltacli share test`."""

from __future__ import annotations

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
)
from deltacli.cli.options.values import join_names, make_choice_parser, make_duration_parser, make_number_parser
from deltacli.cli.output.formats import Content
from deltacli.cli.running.conformance_run import (
    COMMAND,
    ConformanceChecker,
    TestedProfile,
    TestLevel,
    TestOptions,
)
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.finding_commands import find_next_command
from deltacli.cli.running.rule_selection import list_rules, require_known_rules
from deltacli.cli.terminal.suggested_commands import repeat_command_with
from deltacli.core.errors import EXIT_FINDINGS, PartlyDone, UsageError
from deltacli.rules.framework.base import Severity
from deltacli.rules.framework.choice import RuleChoice

if TYPE_CHECKING:
    from deltacli.cli.render.validate.report import ValidationReport

app = typer.Typer(add_completion=False)


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
    from deltacli.sharing.conformance.run import conformance_rules, read_server_target

    run: CommandContext = context.obj
    options = TestOptions(
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

    known_rules = conformance_rules()
    require_known_rules(run, COMMAND, list(known_rules), options.select, options.ignore)
    choice = RuleChoice(select=options.select, ignore=options.ignore)
    rules = [rule for rule in known_rules.values() if choice.names(rule.id)]
    if not rules:
        raise UsageError("no rule is left to check", code="usage.rule")
    if options.list_rules:
        list_rules(run, rules, "share")
        return
    if not address:
        raise UsageError("missing argument ADDRESS", code="usage.table", hint="deltacli share test --help")

    target = read_server_target(address, options.profile, run.clock, run.note)
    report = ConformanceChecker(run, options, rules).test(target)
    _note_omissions_and_counts(run, report)
    if run.is_on_screen:
        _suggest_command(run, report)

    has_failed = any(suite.fails for suite in report.tables)
    # Findings that are written to a new baseline are accepted from now on.
    ignores_findings = options.exit_zero or options.write_baseline is not None
    if has_failed and not ignores_findings:
        raise Exit(EXIT_FINDINGS)
    if any("limit of" in sentence for sentence in report.left_out):
        raise Exit(PartlyDone.exit_code)


def _note_omissions_and_counts(run: CommandContext, report: ValidationReport) -> None:
    """Note what was not checked, and the number of findings if the format of the result cannot contain it."""
    from deltacli.cli.render.validate.findings import summary_sentence

    for sentence in report.left_out:
        run.note(f"note: not checked: {sentence}")
    if run.format.content is Content.FINDINGS:
        run.note(f"note: {summary_sentence(report)}")


def _suggest_command(run: CommandContext, report: ValidationReport) -> None:
    """Suggest the command for the worst finding, or a test at the next level if nothing was found."""
    next_command = find_next_command(report)
    if next_command is not None:
        run.suggest_command(next_command)
    elif report.level != TestLevel.DATA:
        next_level = TestLevel.FOOTERS if report.level == TestLevel.API else TestLevel.DATA
        run.suggest_command(repeat_command_with(invocation.arguments, "--level", next_level))
