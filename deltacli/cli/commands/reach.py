"""`deltacli reach TABLE`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.options.streams import CheckpointsOption
from deltacli.cli.options.tables import TableHereArgument
from deltacli.cli.options.values import make_duration_parser
from deltacli.cli.render.reach import reach_result
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.problem_notes import note_staged_commits
from deltacli.cli.running.stream_notes import note_streams
from deltacli.core.errors import is_shared, quote_table
from deltacli.core.times import duration_argument

if TYPE_CHECKING:
    from deltacli.operations.reach import TableReach

app = typer.Typer(add_completion=False)


@app.command("reach", cls=SharedOptionsCommand, epilog=exit_codes(unreadable=True, storage=True))
def reach(
    context: typer.Context,
    table: TableHereArgument = ".",
    *,
    retention_ms: Annotated[
        int | None,
        typer.Option(
            "--retention",
            metavar="DURATION",
            parser=make_duration_parser("--retention"),
            help="Show as well what a retention of the log and of removed files, such as 7d, would free and cost.",
        ),
    ] = None,
    checkpoints: CheckpointsOption = None,
) -> None:
    """Show which versions can be read, by what, and until when.

    \b
    For each range of versions: whether the log can be replayed, and whether data
    files, deletion vectors and recorded change data are there; when the next
    log expire, vacuum or checkpoint of Spark may delete them, by the retentions
    of the table; and whether Delta-Spark reads versions of that age. Files are
    looked for, not read.
    With --retention, also what a log expire and a vacuum with this retention
    would free, and the versions that it would cost. Nothing is changed.

    \b
    Examples:
      deltacli reach ./tbl
      deltacli reach ./tbl --retention 7d  # what would it free and cost?
      deltacli reach ./tbl --format markdown  # for a pull request
      deltacli reach ./tbl --json
    """
    run: CommandContext = context.obj
    delta_table = run.open_table(table)
    table_reach = delta_table.reach(retention_ms=retention_ms)
    run.write(reach_result(table_reach))
    note_staged_commits(run, delta_table)
    note_streams(run, delta_table, checkpoints)
    if run.is_on_screen and not is_shared(table):
        run.suggest_command(_choose_next_command(table_reach, retention_ms, quote_table(table)))


def _choose_next_command(table_reach: TableReach, retention_ms: int | None, name: str) -> str:
    """Return the command that shows missing files, files that may be deleted next, or who committed the versions.

    Args:
        table_reach: Which versions can be read.
        retention_ms: The value of `--retention` in milliseconds.
        name: The table, quoted for a shell.
    """
    prefix = table_reach.find_prefix_to_allow()
    if prefix is not None:
        return f"deltacli reach {name} --allow-external {quote_table(prefix)}"
    if table_reach.newest_version not in table_reach.readable:
        return f"deltacli validate {name} --level storage"
    if retention_ms is not None:
        return f"deltacli vacuum {name} --retention {duration_argument(retention_ms)} --dry-run"
    if table_reach.next and table_reach.next.lost:
        return f"deltacli vacuum {name} --dry-run"
    return f"deltacli history {name}"
