"""`deltacli fleet status`."""

from __future__ import annotations

import gc
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import FindingsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import Exit
from deltacli.cli.options.fleet import FleetFileArgument, FleetLimitOption, OnlyOption, StateOption, fleet_command
from deltacli.cli.output.destination import is_stdout_free, open_destination, require_file_outside_tables
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.row_notes import choose_row_limit, note_omitted_items
from deltacli.cli.terminal.signals import Interrupted
from deltacli.core.errors import DeltacliError, UsageError, suggest_parameters
from deltacli.core.units import plural
from deltacli.fleet.policy_file.model import FleetFile
from deltacli.fleet.policy_file.requests import FleetChoice
from deltacli.fleet.policy_file.table_names import make_file_name, shorten_table_name
from deltacli.storage.secrets import mask_secrets

if TYPE_CHECKING:
    from deltacli.fleet.status import FleetStatus

app = typer.Typer(add_completion=False)


@dataclass(frozen=True, eq=False, repr=False)
class StatusFiles:
    """The files and the server that the command creates in addition to its result.

    Attributes:
        html: The file for the page of all tables.
        pages: The directory for the pages of single tables.
        write_pages: Whether the pages of single tables are written.
        metrics: The file for metrics.
        serve_metrics: The address at which metrics are served, such as `9105`. Nothing is written then.
        allow_remote: Whether other machines may reach that address.
    """

    html: str | None = None
    pages: str | None = None
    write_pages: bool = False
    metrics: str | None = None
    serve_metrics: str | None = None
    allow_remote: bool = False

    def __post_init__(self) -> None:
        if self.pages is not None and self.html is None:
            raise UsageError("--pages is for the page of --html", hint="add --html FILE, or omit --pages")
        if self.write_pages and self.pages is None:
            raise UsageError("--write-pages needs the directory of the pages", hint=suggest_parameters("--pages DIR"))
        if self.serve_metrics is not None and (self.html is not None or self.metrics is not None):
            raise UsageError("--serve-metrics cannot be combined with --html and --metrics, which are written once")
        if self.html is not None:
            require_file_outside_tables(self.html, "--html")
        if self.metrics is not None:
            require_file_outside_tables(self.metrics, "--metrics")
        if self.pages is not None:
            require_file_outside_tables(os.path.join(self.pages, "page.html"), "--pages")


@app.command(
    "status",
    cls=FindingsCommand,
    epilog=exit_codes(
        findings="a table has an alert",
        refused="--serve-metrics for others, without --allow-remote",
        partly="the newest run was interrupted; fleet run --resume",
        storage=True,
    ),
)
def fleet_status(
    context: typer.Context,
    file: FleetFileArgument = "fleet.toml",
    *,
    only: OnlyOption = None,
    state: StateOption = None,
    html: Annotated[
        str | None,
        typer.Option(
            "--html", metavar="FILE", help="Also write a page with sortable tables and plots, which loads nothing else."
        ),
    ] = None,
    pages: Annotated[
        str | None,
        typer.Option(
            "--pages",
            metavar="DIR",
            help="Directory of pages that doctor table --html wrote, to which the page of --html links.",
        ),
    ] = None,
    write_pages: Annotated[
        bool, typer.Option("--write-pages", help="First examine each table and write its page to --pages.")
    ] = False,
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics",
            metavar="FILE",
            help="Also write metrics in OpenMetrics text, for node_exporter's textfile collector.",
        ),
    ] = None,
    serve_metrics: Annotated[
        str | None,
        typer.Option(
            "--serve-metrics",
            metavar="[HOST:]PORT",
            help="Instead serve the metrics over HTTP until a signal, on loopback.",
        ),
    ] = None,
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Let --serve-metrics use an address that other machines can reach.")
    ] = False,
    limit: FleetLimitOption = None,
) -> None:
    """Show the alerts of each table, the worst first, and trends.

    \b
    Reads the journal of the runs only; tables are opened by --write-pages alone. An alert is a step that
    was refused, failed, could not be completed or had findings when it was last
    due, a table that the newest run could not read, or a threshold of its policy
    that is exceeded. On a terminal, sparklines show the numbers of the last runs.
    Exits with 1 if there are alerts, and with 5 if the newest run was killed,
    interrupted or out of time.

    \b
    Examples:
      deltacli fleet status
      deltacli fleet status --only bronze --json
      deltacli fleet status --html status.html
      deltacli fleet status --html site/index.html --pages site --write-pages
      deltacli fleet status --format junit --output fleet.xml
      deltacli fleet status --metrics /var/lib/node_exporter/fleet.prom -q
      deltacli fleet status --serve-metrics 9105
    """
    from deltacli.cli.render.fleet.status import status_result
    from deltacli.fleet.planning.due import choose_groups
    from deltacli.fleet.policy_file.reading import require_fleet_file
    from deltacli.fleet.status import read_status

    run: CommandContext = context.obj
    choice = FleetChoice(only=tuple(only or ()), state=state)
    files = StatusFiles(
        html=html,
        pages=pages,
        write_pages=write_pages,
        metrics=metrics,
        serve_metrics=serve_metrics,
        allow_remote=allow_remote,
    )

    row_limit = choose_row_limit(run, limit)
    fleet_file = require_fleet_file(file)
    # Report an unknown group before the journal is read.
    choose_groups(fleet_file, choice.only)
    if files.serve_metrics is not None:
        _serve_metrics(run, file, choice, files.serve_metrics, is_remote=files.allow_remote)
        return

    run_command = mask_secrets(fleet_command("run", file, choice.state, choice.only))
    # The journal of many tables consists of many objects without reference cycles. Garbage collections would take two
    # thirds of the time.
    gc.disable()
    try:
        state_directory = Path(choice.state or fleet_file.settings.state)
        status = read_status(state_directory, choice.only, fleet_file, run.clock(), run_command=run_command)
    finally:
        gc.enable()

    _write_files(run, status, fleet_file, files)
    if is_stdout_free(run.output, files.html, files.metrics):
        result = status_result(str(fleet_file.path), status, run.clock(), run_command=run_command, most=row_limit)
        run.write(result)
        note_omitted_items(run, result)
    for written_file in (files.html, files.metrics):
        if written_file not in (None, "-"):
            run.note(f"wrote {written_file}")
    if status.exit_code:
        raise Exit(status.exit_code)


def _write_files(run: CommandContext, status: FleetStatus, fleet_file: FleetFile, files: StatusFiles) -> None:
    """Write the metrics and the pages that the options request."""
    if files.metrics is not None:
        from deltacli.fleet.reporting.monitoring import fleet_metrics

        with open_destination(files.metrics) as sink:
            sink.write(fleet_metrics(status).encode())
    if files.html is None:
        return

    from deltacli.fleet.reporting.page import linked_pages, status_page

    page_errors: dict[str, str] = {}
    if files.write_pages and files.pages is not None:
        page_errors = _write_table_pages(run, status, fleet_file, files.pages, files.html)

    links: dict[str, str] = {}
    if files.pages is not None:
        # Links are relative to the page. A page on stdout is assumed to be saved in the current directory.
        page_directory = os.getcwd() if files.html == "-" else os.path.dirname(os.path.abspath(files.html))
        links = linked_pages(status, files.pages, page_directory)
    with open_destination(files.html) as sink:
        page = status_page(status, str(fleet_file.path), run.clock(), links, page_errors)
        sink.write(page.encode())


def _write_table_pages(
    run: CommandContext, status: FleetStatus, fleet_file: FleetFile, directory: str, html: str
) -> dict[str, str]:
    """Examine each table and write its page.

    Args:
        run: The run of the command.
        status: The tables.
        fleet_file: The policy file.
        directory: The directory for the pages.
        html: The file of the page of all tables, to which the pages link, or `-`.

    Returns:
        The reasons why tables could not be examined, by the shown names of the tables.

    Raises:
        UsageError: If the directory cannot be created.
    """
    from deltacli.fleet.reporting.table_page import address, table_page

    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--pages {directory} cannot be created: {error.strerror or error}") from error

    errors: dict[str, str] = {}
    index_link = None if html == "-" else address(html, directory)
    limited_run = run.limit_call_rate(fleet_file.settings.calls_per_second)
    with run.progress.step("writing pages", unit="tables", total=len(status.tables)) as step:
        for table in status.tables:
            try:
                page = table_page(limited_run.open_table(table.name).doctor(), index_link)
            except DeltacliError as error:
                errors[table.shown_name] = mask_secrets(error.message)
                short_name = shorten_table_name(table.shown_name, str(fleet_file.path))
                run.note(f"no page of {short_name}: {error.message}")
            else:
                file_name = f"{make_file_name(table.shown_name)}.html"
                with open_destination(os.path.join(directory, file_name)) as sink:
                    sink.write(page.encode())
            step.advance()
    run.note(f"wrote {plural(len(status.tables) - len(errors), 'page')} to {directory}")
    return errors


def _serve_metrics(run: CommandContext, file: str, choice: FleetChoice, address: str, *, is_remote: bool) -> None:
    """Serve metrics over HTTP until a signal. The policy file and the journal are read again for each request.

    Args:
        run: The run of the command.
        file: The path of the policy file.
        choice: The groups and the state directory.
        address: The address, such as `9105` or `0.0.0.0:9105`.
        is_remote: Whether other machines may reach the address.

    Raises:
        Interrupted: When the server has stopped after a signal.
    """
    from deltacli.fleet.policy_file.reading import require_fleet_file
    from deltacli.fleet.reporting.monitoring import MetricsServer, fleet_metrics, parse_address
    from deltacli.fleet.status import read_status

    def make_metrics() -> str:
        fleet_file = require_fleet_file(file)
        state_directory = Path(choice.state or fleet_file.settings.state)
        return fleet_metrics(read_status(state_directory, choice.only, fleet_file, run.clock()))

    with MetricsServer(parse_address(address), make_metrics, is_remote=is_remote) as server:
        try:
            run.note(f"metrics at {server.url} (Ctrl-C stops)")
            server.serve_forever()
        except Interrupted as interruption:
            interruption.outcome = "the server has stopped"
            raise
