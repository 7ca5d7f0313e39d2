"""`deltacli streams [TABLE] --checkpoints GLOB`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from deltacli.api.streams import find_streams, make_paimon_refusal
from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import Exit, make_pastable_path
from deltacli.cli.options.values import make_choice_parser, make_text_parser
from deltacli.cli.render.streams import streams_result
from deltacli.cli.running.context import CommandContext
from deltacli.core.errors import EXIT_FINDINGS, NotATable, PaimonTable, command
from deltacli.table.discover import find_tables, note_log_backups
from deltacli.table.handle import TableHandle

app = typer.Typer(add_completion=False)


class FailOnChoice(StrEnum):
    """The queries whose state is a finding: those that cannot continue, or all that are not ok."""

    DEAD = "dead"
    AT_RISK = "at-risk"


@app.command(
    "streams",
    cls=SharedOptionsCommand,
    epilog=exit_codes(
        findings="a query is dead; with --fail-on at-risk: one is not ok", unreadable=True, refused=True, storage=True
    ),
)
def streams(
    context: typer.Context,
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="TABLE", parser=make_pastable_path, help="Table directory: a path or URI. Shows its queries only."
        ),
    ] = None,
    *,
    checkpoints: Annotated[
        list[str] | None,
        typer.Option(
            "--checkpoints",
            metavar="GLOB",
            parser=make_text_parser("--checkpoints"),
            help="Checkpoint directories of the queries, also patterns such as 'chk/*'. Repeatable.",
        ),
    ] = None,
    restart_point: Annotated[
        str | None,
        typer.Option(
            "--restart-point",
            metavar="CHECKPOINT",
            help="Show where the query of this checkpoint can start over, and what is lost.",
        ),
    ] = None,
    tables: Annotated[
        list[str] | None,
        typer.Option(
            "--tables", metavar="GLOB", help="Tables that the queries may read, found by id; also patterns. Repeatable."
        ),
    ] = None,
    fail_on: Annotated[
        FailOnChoice,
        typer.Option(
            "--fail-on",
            metavar="dead|at-risk",
            parser=make_choice_parser(FailOnChoice),
            help="Exit with 1 if a query is dead, or not ok.",
        ),
    ] = FailOnChoice.DEAD,
) -> None:
    """Show which Spark queries can continue, and what they still need.

    \b
    Reads the checkpoint directories of Structured Streaming queries. For each
    source: where a restart begins, how far it is behind, which commits and removed
    files it needs, and until when they are kept. A query is ok, at-risk, unknown
    or dead: a restart fails. A checkpoint names a table by its id only, so name
    TABLE, or tables with --tables. Nothing is changed.

    \b
    What a command writes to stdout and stderr: deltacli help output-streams.

    \b
    Examples:
      deltacli streams ./tbl --checkpoints './chk/*'
      deltacli streams --checkpoints './chk/*' --tables './lake/**'
      deltacli streams ./tbl --restart-point ./chk/orders  # start over
      deltacli streams ./tbl --checkpoints './chk/*' --fail-on at-risk -q
    """
    run: CommandContext = context.obj
    try:
        delta_table = None if table is None else run.open_table(table)
    except PaimonTable as error:
        raise make_paimon_refusal(error) from error

    # Checkpoints contain ids of tables. Each table below is a candidate for such an id.
    known_tables: list[TableHandle] = []
    if delta_table is not None:
        known_tables.append(delta_table)
    known_tables.extend(_find_tables(run, tables or []))

    report = find_streams(
        known_tables,
        run.open_other,
        run.engine,
        checkpoints=tuple(checkpoints or ()),
        restart_point=restart_point,
        leaves_out_others=delta_table is not None and not tables,
        progress=run.progress,
    )
    run.write(streams_result(report, "" if delta_table is None else delta_table.uri))
    if report.fails(at_risk=fail_on is FailOnChoice.AT_RISK):
        raise Exit(EXIT_FINDINGS)
    if run.is_on_screen and table is not None and checkpoints:
        run.suggest_command(command("vacuum", table=table, protect_streams=checkpoints, dry_run=True))


def _find_tables(run: CommandContext, names: Sequence[str]) -> list[TableHandle]:
    """Return the Delta tables at and below paths and patterns.

    Raises:
        NotATable: If there are no Delta tables.
        DeltacliError: If no table can be read.
    """
    if not names:
        return []
    targets = find_tables(names, run.open_other, progress=run.progress)
    if not targets.tables and targets.failures:
        _, error = targets.failures[0]
        raise error
    note_log_backups(run.note, targets.log_backups)
    for name, error in targets.failures:
        run.note(f"note: {name}: {error.message}")

    delta_targets = [target for target in targets.tables if not target.is_paimon]
    if not delta_targets:
        raise NotATable("no Delta table is at or below the paths of --tables")
    return [run.make_table(target.storage, name=target.name) for target in delta_targets]
