"""`deltacli restore TABLE`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from deltacli.changing.plan import Amount
from deltacli.cli.options import declared
from deltacli.cli.running.run import Run
from deltacli.core.errors import UsageError, quote_table
from deltacli.core.request_fields import option
from deltacli.core.units import format_size, plural
from deltacli.operations.restore.restore import Restore, RestoreOutcome, RestorePlan, RestoreRequest

EXIT_CODES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 70)
RUNS_ON_CLUSTER = True


@dataclass(frozen=True, eq=False, repr=False)
class RestoreOptions:
    """The version to restore, and what the command does with the plan."""

    version: int | None = option("Restore this version.", "N")
    timestamp: str | None = option(
        "Restore the newest version committed at or before T (RFC 3339 with offset, or a date: midnight UTC).", "T"
    )
    check: bool = option("Change nothing; exit 1 if something differs, 4 if refused.", default=False)
    checkpoints: declared.CheckpointsOption = None
    dry_run: declared.DryRunOption = False
    yes: declared.YesOption = False


def restore(
    run: Run, table: declared.TableArgument, *, asked: declared.Asked[RestoreRequest], how: RestoreOptions
) -> None:
    """Bring a table back to an earlier version, in one commit.

    \b
    Rows, schema, partitioning and properties become those of that version; later
    versions stay in the log, so a restore can be undone by another one. Files are
    checked first: the sizes of all, footers and vectors of those that come back.
    Nothing is committed if one is missing or damaged. Features, id counters and the
    longer retention are kept. With --where only the matching
    partitions come back, and the schema and the properties stay as they are.

    \b
    Examples:
      deltacli history ./tbl --limit 5  # which version was good?
      deltacli restore ./tbl --version 12 --dry-run
      deltacli restore ./tbl --version 12
      deltacli restore ./tbl --timestamp 2026-01-31T12:00:00Z --yes
      deltacli restore ./tbl --version 12 --where "day = '2026-01-31'"
      deltacli restore ./tbl --version 12 --from /backups/tbl  # missing files
      deltacli restore ./tbl --version 12 --check  # exit 1 if it differs
    """
    at_ms = declared.parse_moment_of(how.version, how.timestamp)
    if how.version is None and at_ms is None:
        raise UsageError(
            "the version to restore is missing: --version N or --timestamp T",
            code="usage.version",
            hint=f"deltacli history {quote_table(table)}",
        )
    values = {**asked.values, "version": how.version, "timestamp_ms": at_ms}
    request = declared.Asked(RestoreRequest, values).request()
    from deltacli.cli.render.restore import restore_result
    from deltacli.cli.running.changing import Mode, Wording, run_change

    def following(outcome: RestoreOutcome) -> str | None:
        return None if outcome.committed_version is None else f"deltacli history {quote_table(table)} --limit 3"

    mode = Mode(how.dry_run, how.yes, how.check)
    opened = run.open_table(table, writes=not mode.only_plans)

    def stopped(plan: RestorePlan) -> Iterable[str]:
        if report is None or plan.is_noop:
            return ()
        from deltacli.cli.running.stream_notes import stopped_streams

        small, removes = plan.small, bool(plan.difference.removed_amount.files)
        return stopped_streams(report, metadata=small.metadata, protocol=small.protocol, removes_files=removes)

    report = None
    if how.checkpoints:
        from deltacli.cli.running.stream_notes import note_streams

        report = note_streams(run, opened, how.checkpoints)
    wording = Wording(
        question=_question,
        planned=lambda plan, is_plan: restore_result(plan, None, is_plan=is_plan),
        done=lambda outcome: restore_result(outcome.plan, outcome, is_plan=False),
        following=following,
        overrides={"restore.append-only": "--allow-removals"},
        notes=stopped,
    )
    run_change(run, opened, Restore(request), wording, mode)


def _question(plan: RestorePlan) -> str:
    found = plan.difference
    which = "" if plan.request.where is None else f" where {plan.request.where}"
    copied = ""
    if plan.brought is not None:
        copied = f", {plural(plan.brought.count, 'file')} ({format_size(plan.brought.size_bytes)}) of which are copied"
    return (
        f"restore version {plan.target.version} of {plan.table.uri}{which}: bring back {_amount(found.added_amount)}, "
        f"remove {_amount(found.removed_amount)}{copied}"
    )


def _amount(amount: Amount) -> str:
    if not amount.files:
        return "no file"
    rows = "" if amount.rows is None else f", {plural(amount.rows, 'row')}"
    return f"{plural(amount.files, 'file')} ({format_size(amount.size_bytes)}{rows})"
