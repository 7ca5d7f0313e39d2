"""`deltacli log expire TABLE`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import ClusterCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import invocation
from deltacli.cli.options.streams import AllowStreamLossOption, IgnoreStreamsOlderOption, ProtectStreamsOption
from deltacli.cli.options.tables import DryRunOption, TableArgument, YesOption
from deltacli.cli.options.values import join_versions, make_duration_parser
from deltacli.cli.running.changing import ChangePresentation, Mode, run_change
from deltacli.cli.running.context import CommandContext
from deltacli.cli.terminal.suggested_commands import suggest_own_retention
from deltacli.core.errors import PartlyDone, Refused, quote_table
from deltacli.core.units import format_size, plural

if TYPE_CHECKING:
    from deltacli.operations.log.expire import ExpiryOutcome, ExpiryPlan

app = typer.Typer(add_completion=False)


@app.command(
    "expire",
    cls=ClusterCommand,
    epilog=exit_codes(
        unreadable=True, refused=True, partly="some log files could not be deleted; run it again", storage=True
    ),
)
def log_expire(
    context: typer.Context,
    table: TableArgument,
    *,
    retention_ms: Annotated[
        int | None,
        typer.Option(
            "--retention",
            metavar="DURATION",
            parser=make_duration_parser("--retention"),
            help="Age up to which commits are kept, such as 60d.  [default: delta.logRetentionDuration, else 30d]",
        ),
    ] = None,
    keep_versions: Annotated[
        list[str] | None,
        typer.Option("--keep-version", metavar="A,B-C,…", help="Versions to keep, whatever their age. Repeatable."),
    ] = None,
    allow_retention_below_ms: Annotated[
        int | None,
        typer.Option(
            "--allow-retention-below",
            metavar="DURATION",
            parser=make_duration_parser("--allow-retention-below"),
            help="Allow a retention below the table's own, whose value is given here, such as 30d.",
        ),
    ] = None,
    protect_streams: ProtectStreamsOption = None,
    ignore_streams_older_ms: IgnoreStreamsOlderOption = None,
    allow_stream_loss: AllowStreamLossOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Delete log files that no kept version needs.

    \b
    The kept log begins at the newest checkpoint before the cutoff, which is now
    minus the retention, rounded down to midnight UTC. Older commits, checkpoints,
    checksums, compactions and staged commits are deleted, and sidecars that no
    remaining checkpoint references. Before the first deletion every kept version
    is verified to be rebuilt unchanged. Files are deleted oldest first, so after
    a crash the log begins later but has no gap. Time travel to deleted versions
    and their change feeds end.

    \b
    Examples:
      deltacli log expire ./tbl --dry-run
      deltacli log expire ./tbl --yes  # in cron
      deltacli log expire ./tbl --retention 60d --keep-version 3,9-11
    """
    run: CommandContext = context.obj
    kept_versions = join_versions(keep_versions, "--keep-version")
    change = run.open_table(table, writes=not dry_run).prepare_expire_log(
        retention_ms=retention_ms,
        keep_versions=kept_versions,
        allow_retention_below_ms=allow_retention_below_ms,
        protect_streams=tuple(protect_streams or ()),
        ignore_streams_older_ms=ignore_streams_older_ms,
        allow_stream_loss=tuple(allow_stream_loss or ()),
        # With --yes nobody reads the plan. The kept versions are verified right before the deletion in any case.
        is_verified=dry_run or not yes,
    )
    run_change(run, change, _make_presentation(run, table), Mode(dry_run, yes))


def _make_presentation(run: CommandContext, table: str) -> ChangePresentation[ExpiryPlan, ExpiryOutcome]:
    """Return how a deletion of log files is presented."""
    from deltacli.cli.render.log_files import expiry_result

    def suggest_checkpoint(plan: ExpiryPlan) -> str | None:
        # With a newer checkpoint more commits can be deleted.
        if plan.offered_checkpoint is None or not run.format.is_for_people:
            return None
        return f"deltacli checkpoint {quote_table(table)} --version {plan.offered_checkpoint}"

    return ChangePresentation(
        build_question=_build_question,
        build_plan_result=lambda plan, is_dry_run: expiry_result(plan, None, dry_run=is_dry_run),
        build_outcome_result=lambda outcome: expiry_result(outcome.plan, outcome, dry_run=False),
        suggest_after_change=lambda _: f"deltacli validate {quote_table(table)}",
        list_notes=lambda plan: plan.notes,
        suggest_before_change=suggest_checkpoint,
        deletes_by_age=True,
        can_be_resumed=True,
        complete_error=_suggest_short_retention,
    )


def _build_question(plan: ExpiryPlan) -> str:
    files = f"{plural(len(plan.files), 'file')} ({format_size(plan.size_bytes)})"
    return f"delete {files} of the log of {plan.table}"


def _suggest_short_retention(error: Refused | PartlyDone) -> None:
    """Add a hint to the refusal of a short retention: the command that accepts it."""
    if isinstance(error, Refused) and error.code == "expire.retention" and error.override:
        suggest_own_retention(error, invocation.arguments, error.override, "if no older version is needed")
