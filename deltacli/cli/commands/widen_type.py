"""`deltacli widen-type TABLE COLUMN TYPE …`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from deltacli.cli.confirmation import require_confirmation
from deltacli.cli.invocation import invocation
from deltacli.cli.options.common_options import CommitMetadataOption, DryRunOption, TableArgument, YesOption
from deltacli.cli.options.run import Run
from deltacli.cli.options.table_formats import AllowLossyOption, BranchOption, given, on_its_format
from deltacli.cli.results import Outcome
from deltacli.cli.terminal.interrupts import telling_commit
from deltacli.cli.terminal.shell import again_without, quoted_table
from deltacli.errors import EXIT_FINDINGS
from deltacli.units import plural

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.operations.change.widen_type import WideningOutcome, WidenRequest
    from deltacli.storage import Storage

EXIT_CODES = (0, 1, 2, 3, 4, 6, 7, 8, 70)
RUNS_ON_CLUSTER = True
_CSV = ("column", "fromType", "toType", "allowed")

Changes = Annotated[
    list[str],
    typer.Argument(metavar="COLUMN TYPE", help="Columns with their new types, in pairs.", show_default=False),
]
Enable = Annotated[bool, typer.Option("--enable", help="Set delta.enableTypeWidening to true if it is not.")]
Upgrade = Annotated[
    bool,
    typer.Option("--upgrade-protocol", help="Add missing features; clients that do not support them lose access."),
]
CheckFiles = Annotated[
    bool, typer.Option("--check-files", help="Check the types in every data file first; refuse if one differs.")
]
Check = Annotated[bool, typer.Option("--check", help="Change nothing; exit 1 if a change is due, 4 if it is refused.")]


def widen_type(
    run: Run,
    table: TableArgument,
    changes: Changes,
    enable: Enable = False,
    upgrade_protocol: Upgrade = False,
    check_files: CheckFiles = False,
    check: Check = False,
    commit_metadata: CommitMetadataOption = None,
    allow_lossy: AllowLossyOption = False,
    branch: BranchOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Give columns wider types without rewriting data, in one commit.

    \b
    A column is a path: a.b, m.key, m.value, xs.element; backticks quote names with
    dots. A type is that of SQL or of the schema: bigint, decimal(20,2). Allowed
    are the changes that every reader of the feature supports: whole numbers to
    wider ones, decimals or doubles, float to double, date to timestamp_ntz,
    decimals to wider ones. The plan lists the clients that lose access.
    A Paimon table gets one new version of its schema; allowed is what loses no
    value, and with --allow-lossy every cast that Paimon can execute. The column
    stays nullable or NOT NULL, unless the type says NOT NULL.

    \b
    Examples:
      deltacli widen-type ./tbl id bigint --dry-run
      deltacli widen-type ./tbl ride.fare "decimal(20,2)" --yes
      deltacli widen-type ./tbl id bigint score double --enable --upgrade-protocol
      deltacli widen-type ./tbl xs.element long --check      (in CI)
      deltacli widen-type ./paimon_tbl price "DECIMAL(20, 2)" --branch dev --yes
    """
    writes = not (dry_run or check)
    of_delta = given(
        enable=enable, upgrade_protocol=upgrade_protocol, check_files=check_files, commit_metadata=commit_metadata
    )
    on_its_format(
        run,
        table,
        delta=lambda storage: _widen_delta(
            run,
            table,
            storage,
            changes,
            _Options(enable, upgrade_protocol, check_files, commit_metadata or []),
            check=check,
            dry_run=dry_run,
            yes=yes,
        ),
        paimon=lambda storage: _widen_paimon(
            run, table, storage, changes, branch, allow_lossy=allow_lossy, check=check, dry_run=dry_run, yes=yes
        ),
        of_delta=of_delta,
        of_paimon=given(allow_lossy=allow_lossy, branch=branch),
        writes=writes,
    )


class _Options(NamedTuple):
    """The options for Delta tables."""

    enable: bool
    upgrade_protocol: bool
    check_files: bool
    commit_metadata: list[str]


def _widen_paimon(
    run: Run,
    table: str,
    storage: Storage,
    changes: list[str],
    branch: str | None,
    *,
    allow_lossy: bool,
    check: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Widen columns of a Paimon table."""
    from deltacli.cli.apply_alter import alter_paimon
    from deltacli.operations.paimon.alter import AlterRequest
    from deltacli.paimon.evolution.command_words import widening

    request = AlterRequest(widening(changes), branch or "main", allow_lossy)
    alter_paimon(run, table, storage, request, "widen-type", dry_run=dry_run, yes=yes, check=check)


def _widen_delta(
    run: Run,
    table: str,
    storage: Storage,
    changes: list[str],
    options: _Options,
    *,
    check: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Widen columns of a Delta table."""
    from deltacli.delta.log.commit_metadata import parse_commit_metadata
    from deltacli.operations.change.widen_type import WidenRequest, plan_widen_type

    request = WidenRequest.parse(
        changes,
        enable=options.enable,
        upgrade_protocol=options.upgrade_protocol,
        check_files=options.check_files,
        commit_metadata=parse_commit_metadata(options.commit_metadata),
    )
    opened = run.table_of(storage)
    if yes and not (dry_run or check):
        _commit(run, table, opened, request)
        return
    planned = plan_widen_type(opened, request, with_impact=not check)
    if dry_run or check or planned.plan.is_noop or planned.refusals:
        _show_plan(run, planned, dry_run=dry_run, check=check)
        return
    due = ", ".join(f"{change.column} from {change.from_type} to {change.to_type}" for change in planned.plan.due)
    what = f"widen {plural(len(planned.plan.due), 'column')} of {opened.uri}: {due}"
    require_confirmation(run, what, yes=yes, show_plan=lambda: _write(run, planned, dry_run=True))
    _commit(run, table, opened, request)


def _show_plan(run: Run, planned: WideningOutcome, *, dry_run: bool, check: bool) -> None:
    """Write a plan that is not carried out. Raises Refused, and Exit where `--check` found a change that is due."""
    from deltacli.operations.change.widen_type import refusal_error

    _write(run, planned, dry_run=dry_run or check or bool(planned.refusals))
    if planned.refusals:
        raise refusal_error(planned.refusals)
    if check and not planned.plan.is_noop:
        raise typer.Exit(EXIT_FINDINGS)
    if dry_run and not planned.plan.is_noop:
        run.say_next(again_without(invocation.arguments, "--dry-run"))


def _commit(run: Run, table: str, opened: Table, request: WidenRequest) -> None:
    from deltacli.operations.change.widen_type import execute_widen_type

    with telling_commit():
        outcome = execute_widen_type(opened, request)
    _finish(run, table, outcome)


def _finish(run: Run, table: str, outcome: WideningOutcome) -> None:
    _write(run, outcome, dry_run=False)
    if outcome.committed_version is not None:
        run.say_next(f"deltacli checkpoint {quoted_table(table)}")


def _write(run: Run, outcome: WideningOutcome, *, dry_run: bool) -> None:
    from deltacli.cli.render.widening import draw_widening, widening_sections

    content = outcome.as_json(dry_run=dry_run)
    run.write(
        Outcome(
            "widen-type",
            outcome.table.uri,
            content,
            lambda: widening_sections(outcome, dry_run=dry_run),
            content["changes"],
            _CSV,
            lambda canvas: draw_widening(canvas, outcome, dry_run=dry_run),
        )
    )
