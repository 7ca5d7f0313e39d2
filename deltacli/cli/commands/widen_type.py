"""`deltacli widen-type TABLE COLUMN TYPE …`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import ClusterCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.options.given import get_format_options
from deltacli.cli.options.paimon import AllowLossyOption, BranchOption, MinPaimonOption
from deltacli.cli.options.streams import CheckpointsOption
from deltacli.cli.options.tables import (
    CheckOption,
    CommitMetadataOption,
    DryRunOption,
    TableArgument,
    UpgradeProtocolOption,
    YesOption,
)
from deltacli.cli.running.changing import Mode, run_change
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.table_formats import call_with_table
from deltacli.core.alter_verbs import pair_columns_with_types
from deltacli.delta.log.actions import parse_commit_metadata

if TYPE_CHECKING:
    from deltacli.api.paimon import Paimon
    from deltacli.api.table import Table

app = typer.Typer(add_completion=False)

_DELTA_OPTIONS = ("enable", "upgrade_protocol", "check_files", "commit_metadata", "checkpoints")
_PAIMON_OPTIONS = ("allow_lossy", "min_paimon", "branch")


@app.command(
    "widen-type",
    cls=ClusterCommand,
    epilog=exit_codes(
        findings="with --check: a change is due",
        unreadable=True,
        refused=True,
        conflict=True,
        storage=True,
        unknown=True,
    ),
)
def widen_type(
    context: typer.Context,
    table: TableArgument,
    changes: Annotated[
        list[str], typer.Argument(metavar="COLUMN TYPE", help="Columns with their new types, in pairs.")
    ],
    *,
    enable: Annotated[
        bool, typer.Option("--enable", help="Set delta.enableTypeWidening to true if it is not.")
    ] = False,
    upgrade_protocol: UpgradeProtocolOption = False,
    check_files: Annotated[
        bool, typer.Option("--check-files", help="Check the types in every data file first; refuse if one differs.")
    ] = False,
    commit_metadata: CommitMetadataOption = None,
    check: CheckOption = False,
    allow_lossy: AllowLossyOption = False,
    min_paimon: MinPaimonOption = None,
    branch: BranchOption = None,
    checkpoints: CheckpointsOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Give columns wider types without rewriting data, in one commit.

    \b
    A column is a path: a.b, m.key, m.value, xs.element; backticks quote names with
    dots. A type of a Delta table is one of tinyint (byte), smallint (short),
    int (integer), bigint (long), float (real), double, decimal(p,s)
    (dec, numeric) with s <= p <= 38, date, timestamp_ntz. Allowed are the
    changes that every reader of the feature supports: whole numbers to wider
    ones, decimals or doubles, float to double, date to timestamp_ntz, decimals
    to wider ones. The plan lists the clients that lose access. Writers of a Delta
    table that are running fail, also appends, and have to run again.
    A Paimon table gets one new version of its schema; allowed is what loses no
    value, and with --allow-lossy every cast that Paimon can execute. The column
    stays nullable or NOT NULL, unless the type says NOT NULL.

    \b
    Examples:
      deltacli widen-type ./tbl ride.fare "decimal(20,2)" --enable --upgrade-protocol --dry-run
      deltacli widen-type ./tbl ride.fare "decimal(20,2)" --enable --upgrade-protocol
      deltacli widen-type ./tbl trip "decimal(20,0)" ride.fare "decimal(20,2)" --check --enable --upgrade-protocol
      deltacli widen-type ./paimon_tbl price "DECIMAL(20, 2)" --branch dev --yes
    """
    run: CommandContext = context.obj
    added_keys = parse_commit_metadata(commit_metadata or [])
    mode = Mode(dry_run, yes, check)

    def widen_delta(delta_table: Table) -> None:
        """Give columns of a Delta table wider types."""
        from deltacli.cli.render.schemas.altering import make_widening_presentation
        from deltacli.cli.running.stream_notes import note_streams

        streams = note_streams(run, delta_table, checkpoints)
        prepared_change = delta_table.prepare_widen_type(
            *pair_columns_with_types(changes),
            enable=enable,
            upgrade_protocol=upgrade_protocol,
            check_files=check_files,
            commit_metadata=added_keys,
            # Counting the files that keep the old types takes time, so it is done only if a person reads the plan.
            with_impact=not check and (dry_run or not yes),
        )
        run_change(run, prepared_change, make_widening_presentation(table, streams), mode)

    def widen_paimon(paimon_table: Paimon) -> None:
        """Write a new version of the schema of a Paimon table."""
        from deltacli.cli.render.paimon import make_schema_change_presentation
        from deltacli.paimon.evolution.requests import widening

        prepared_change = paimon_table.prepare_alter(widening(changes), allow_lossy=allow_lossy, min_paimon=min_paimon)
        run_change(run, prepared_change, make_schema_change_presentation(table, "widen-type"), mode)

    format_options = get_format_options(context, delta=_DELTA_OPTIONS, paimon=_PAIMON_OPTIONS)
    call_with_table(
        run,
        table,
        delta=widen_delta,
        paimon=widen_paimon,
        options=format_options,
        branch=branch,
        writes=not mode.only_plans,
    )
