"""`deltacli fleet run`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import ClusterCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import Exit, invocation
from deltacli.cli.options.fleet import FleetFileArgument, FleetLimitOption, OnlyOption, StateOption, fleet_command
from deltacli.cli.options.values import make_duration_parser, parse_whole_number
from deltacli.cli.running.consent import require_clock_not_ahead
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.row_notes import choose_row_limit, note_omitted_items
from deltacli.cli.terminal.signals import Interrupted
from deltacli.cli.terminal.suggested_commands import repeat_command_with
from deltacli.core.documents import dumps
from deltacli.core.errors import StorageFailed
from deltacli.core.units import plural
from deltacli.fleet.policy_file.model import FleetFile
from deltacli.fleet.policy_file.requests import FleetRunRequest

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.cli.render.fleet.check import FleetListing
    from deltacli.cli.render.fleet.run import RunRow
    from deltacli.fleet.reporting.monitoring import Sender
    from deltacli.fleet.running.run import FleetReport, FleetSession
    from deltacli.fleet.running.steps import FleetCluster

app = typer.Typer(add_completion=False)


@app.command(
    "run",
    cls=ClusterCommand,
    epilog=exit_codes(
        findings="everything due was done; a table has findings or an alert",
        refused="--resume, and the newest run is still active",
        partly="a step was refused, failed or not started",
        storage=True,
    ),
)
def fleet_run(
    context: typer.Context,
    file: FleetFileArgument = "fleet.toml",
    *,
    only: OnlyOption = None,
    state: StateOption = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            metavar="N",
            parser=parse_whole_number,
            help="Tables to work on at once.  [default: jobs of the policy file, else 4]",
        ),
    ] = None,
    time_budget_ms: Annotated[
        int | None,
        typer.Option(
            "--time-budget",
            metavar="DURATION",
            parser=make_duration_parser("--time-budget", "m"),
            help="Start no step after this time, nor one that is expected to end later.",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the newest run if it was killed, interrupted or out of time.")
    ] = False,
    steal_leases: Annotated[
        str | None,
        typer.Option(
            "--steal-leases", metavar="REASON", help="Take tables that other runs hold; the reason is recorded."
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Run destructive steps where their policy has consent = true.")
    ] = False,
    limit: FleetLimitOption = None,
) -> None:
    """Do what is due for the tables of a policy file.

    \b
    The most urgent table comes first. Each step stands alone: a table that fails
    does not stop the others. Steps that delete files need consent = true in their
    policy and --yes; without them, and after a validation with findings, the step
    is refused (exit 4 of the step) and the others run. Two runs never work on a
    table at once. The journal in the state directory records every step, so that a
    killed run can be resumed. With --engine spark executors read the facts, check
    small tables in groups, and share the large steps. Exits with 5 if a step was
    refused, failed or not started, with 1 for findings and exceeded thresholds. The
    webhook of the policy file gets the summary; if it does not accept it, exit 0
    becomes 7.

    \b
    Examples:
      deltacli fleet run fleet.toml --yes  # in cron
      deltacli fleet run --only bronze --jobs 8
      deltacli fleet run --time-budget 2h --resume --yes
    """
    from deltacli.cli.render.fleet.run import run_result
    from deltacli.fleet.policy_file.reading import require_fleet_file
    from deltacli.fleet.reporting.monitoring import make_sender

    run: CommandContext = context.obj
    request = FleetRunRequest(
        only=tuple(only or ()),
        state=state,
        jobs=jobs,
        time_budget_ms=time_budget_ms,
        resume=resume,
        steal_leases=steal_leases,
        yes=yes,
    )

    most = choose_row_limit(run, limit)
    found = require_fleet_file(file)
    if request.yes:
        require_clock_not_ahead(run, "fleet plan")
    sender = make_sender(found.webhook, run.clock)
    session = _make_session(run, found, request)
    with _saying_what_was_done(session):
        report = session.run()
        look = fleet_command("status", file, request.state, request.only)
        result = run_result(report, look)
        result.most = most
        run.write(result)
        note_omitted_items(run, result, can_repeat=False)
        if report.left:
            run.suggest_command(repeat_command_with(invocation.arguments, "--resume"), also_in_pipe=True)
        elif report.exit_code:
            run.suggest_command(look)
        is_sent = sender is None or _send(run, sender, result, report)
    if report.exit_code or not is_sent:
        raise Exit(report.exit_code or StorageFailed.exit_code)


def _make_session(run: CommandContext, found: FleetFile, request: FleetRunRequest) -> FleetSession:
    from deltacli.fleet.running.run import FleetSession

    on_tables = run.limit_call_rate(found.settings.calls_per_second)

    def open_table(name: str) -> Table:
        return on_tables.make_table(on_tables.open_either(name), name)

    return FleetSession(
        found,
        on_tables.open_other,
        open_table,
        run.engine,
        run.clock,
        request,
        _cluster_of(run, found, open_table, request.jobs),
        progress=run.progress,
        note=run.note,
        expand=on_tables.expand_in_catalog,
    )


def _cluster_of(
    run: CommandContext, fleet: FleetFile, open_table: Callable[[str], Table], jobs: int | None
) -> FleetCluster | None:
    if not run.engine.may_repeat:
        return None
    from deltacli.fleet.running.steps import FleetCluster

    def is_sent(name: str) -> bool:  # to executors, whose requests cannot be limited to a rate
        return fleet.settings.calls_per_second is None or "://" not in name

    return FleetCluster(
        run.engine, lambda name: open_table(name).stores, is_sent, run.clock, jobs or fleet.settings.jobs
    )


def _send(run: CommandContext, sender: Sender, result: FleetListing[RunRow], report: FleetReport) -> bool:
    """Send the summary of a run to the webhook, if its policy file wants it, and return whether it was accepted."""
    if sender.webhook.when == "alerts" and not report.exit_code:
        return True
    try:
        reason = sender.send(dumps(result.last_line), report.run)
    except Interrupted as interruption:
        interruption.outcome = f"run {report.run} has ended, but its summary was not sent to the webhook"
        raise
    if reason is not None:
        run.note(f"warning: the summary of run {report.run} was not sent to the webhook: {reason}")
    return reason is None


@contextmanager
def _saying_what_was_done(session: FleetSession) -> Iterator[None]:
    try:
        yield
    except Interrupted as interruption:
        if interruption.outcome == Interrupted.outcome:
            interruption.outcome = _done_so_far(session)
        raise


def _done_so_far(session: FleetSession) -> str:
    if (report := session.report) is None:
        return "no step was started"
    summary = report.summary()
    partly = f", {summary['partly']} partly" if summary["partly"] else ""
    done = f"{plural(summary['done'], 'step')} done{partly}"
    if session.has_ended and not report.left:
        return f"run {report.run} has ended, {done}"
    return f"{done}; run the same command with --resume to continue"
