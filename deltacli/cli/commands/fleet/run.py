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

    row_limit = choose_row_limit(run, limit)
    fleet_file = require_fleet_file(file)
    if request.yes:
        require_clock_not_ahead(run, "fleet plan")
    sender = make_sender(fleet_file.webhook, run.clock)
    session = _make_session(run, fleet_file, request)

    with _describe_interruption(session):
        report = session.run()
        show_status = fleet_command("status", file, request.state, request.only)
        result = run_result(report, show_status)
        result.most = row_limit
        run.write(result)
        note_omitted_items(run, result, can_repeat=False)
        if report.left:
            run.suggest_command(repeat_command_with(invocation.arguments, "--resume"), also_in_pipe=True)
        elif report.exit_code:
            run.suggest_command(show_status)
        is_sent = sender is None or _send_summary(run, sender, result, report)

    # An error of the webhook counts only if the run itself was successful.
    if report.exit_code:
        raise Exit(report.exit_code)
    if not is_sent:
        raise Exit(StorageFailed.exit_code)


def _make_session(run: CommandContext, fleet_file: FleetFile, request: FleetRunRequest) -> FleetSession:
    """Return the session that plans and runs the steps. Its tables share the rate limit of the policy file."""
    from deltacli.fleet.running.run import FleetSession

    limited_run = run.limit_call_rate(fleet_file.settings.calls_per_second)

    def open_table(name: str) -> Table:
        return limited_run.make_table(limited_run.open_either(name), name)

    return FleetSession(
        fleet_file,
        limited_run.open_other,
        open_table,
        run.engine,
        run.clock,
        request,
        _make_cluster(run, fleet_file, open_table, request.jobs),
        progress=run.progress,
        note=run.note,
        expand=limited_run.expand_in_catalog,
    )


def _make_cluster(
    run: CommandContext, fleet_file: FleetFile, open_table: Callable[[str], Table], jobs: int | None
) -> FleetCluster | None:
    """Return the cluster that does the work of small tables; None if this process does all the work."""
    if not run.engine.may_repeat:
        return None
    from deltacli.fleet.running.steps import FleetCluster

    def can_run_on_executor(name: str) -> bool:
        # The requests of several executors cannot share a rate limit.
        return fleet_file.settings.calls_per_second is None or "://" not in name

    return FleetCluster(
        run.engine,
        lambda name: open_table(name).stores,
        can_run_on_executor,
        run.clock,
        jobs or fleet_file.settings.jobs,
    )


def _send_summary(run: CommandContext, sender: Sender, result: FleetListing[RunRow], report: FleetReport) -> bool:
    """Send the summary of a run to the webhook of the policy file.

    Returns:
        False if the webhook did not accept it. True also if the policy file wants alerts only, and there are none.
    """
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
def _describe_interruption(session: FleetSession) -> Iterator[None]:
    """Add the progress of a session to an interruption that does not describe its outcome itself."""
    try:
        yield
    except Interrupted as interruption:
        if interruption.outcome == Interrupted.outcome:
            interruption.outcome = _describe_progress(session)
        raise


def _describe_progress(session: FleetSession) -> str:
    report = session.report
    if report is None:
        return "no step was started"
    summary = report.summary()
    progress = f"{plural(summary['done'], 'step')} done"
    if summary["partly"]:
        progress += f", {summary['partly']} partly"
    if session.has_ended and not report.left:
        return f"run {report.run} has ended, {progress}"
    return f"{progress}; run the same command with --resume to continue"
