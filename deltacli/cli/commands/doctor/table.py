"""`deltacli doctor table TABLE`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import Exit
from deltacli.cli.options.streams import CheckpointsOption
from deltacli.cli.options.tables import TableHereArgument
from deltacli.cli.output.destination import is_stdout_free, open_destination, require_file_outside_tables
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.stream_notes import note_streams
from deltacli.core.errors import EXIT_FINDINGS, UsageError

if TYPE_CHECKING:
    from deltacli.operations.doctor.advice import PriceTable

app = typer.Typer(add_completion=False)


@app.command(
    "table",
    cls=SharedOptionsCommand,
    epilog=exit_codes(findings="with --check: there is advice", unreadable=True, storage=True),
)
def doctor_table(
    context: typer.Context,
    table: TableHereArgument = ".",
    *,
    no_listing: Annotated[
        bool, typer.Option("--no-listing", help="Do not list the files of the table: no advice on unreferenced files.")
    ] = False,
    html: Annotated[
        str | None,
        typer.Option(
            "--html", metavar="FILE", help="Also write a page with plots of the table, which loads nothing else."
        ),
    ] = None,
    prices_file: Annotated[
        str | None,
        typer.Option(
            "--prices",
            metavar="FILE",
            help="Prices of the store, TOML or JSON.  [default: list prices of S3, GCS and Azure]",
        ),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 if there is advice.")] = False,
    checkpoints: CheckpointsOption = None,
) -> None:
    """Give advice on a table, with its numbers before and after.

    \b
    Reads the log and lists the table; nothing is changed. Looks for small
    files in each partition, deleted rows, unreferenced files, expired files of the
    log, distant checkpoints, statistics that are missing or leave no file out,
    unused features, retentions that disagree, and too many partitions. Each advice
    names the command that follows it. What saves most comes first. Its numbers of
    afterwards are those of the plan of this command. Seconds and dollars are
    estimates. --html writes a page with the commits, sizes, partitions and columns.

    \b
    A file of prices has storage-per-gib-month, get-per-1000 and list-per-1000 in US
    dollars, and reads-per-month, how often the whole table is read (30).

    \b
    Examples:
      deltacli doctor table ./tbl
      deltacli doctor table ./tbl --html tbl.html
      deltacli doctor table s3://lake/events --prices prices.toml
      deltacli doctor table ./tbl --format markdown  # for a pull request
      deltacli doctor table ./tbl --check -q  # exit 1 if there is advice
    """
    from deltacli.cli.render.doctor import table_result

    run: CommandContext = context.obj
    if html is not None:
        require_file_outside_tables(html, "--html")
    prices = None if prices_file is None else _read_prices(prices_file)
    delta_table = run.open_table(table)
    report = delta_table.doctor(prices=prices, listing=not no_listing)

    if html is not None:
        from deltacli.fleet.reporting.table_page import table_page

        with open_destination(html) as sink:
            sink.write(table_page(report).encode())
    if is_stdout_free(run.output, html):
        run.write(table_result(report, table))
    if html not in (None, "-"):
        run.note(f"wrote {html}")

    note_streams(run, delta_table, checkpoints)
    if report.facts.gap is not None:
        raise report.facts.gap
    if check and report.advice:
        raise Exit(EXIT_FINDINGS)
    for advice in report.advice:
        command = advice.command_for(table)
        if command:
            run.suggest_command(command)
            break


def _read_prices(file: str) -> PriceTable:
    """Read the file of `--prices`. Raises UsageError."""
    from deltacli.api.stores import parse_prices

    try:
        data = Path(file).read_bytes()
    except OSError as error:
        raise UsageError(
            f"--prices {file} cannot be read: {(error.strerror or str(error)).lower()}", code="usage.prices"
        ) from None
    return parse_prices(data, file)
