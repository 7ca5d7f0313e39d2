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
    """What the command writes besides its result, or serves instead of it."""

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
        for output, name in ((self.html, "--html"), (self.metrics, "--metrics"), (self.pages, "--pages")):
            if output is not None:
                require_file_outside_tables(os.path.join(output, "page.html") if output is self.pages else output, name)


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

    most = choose_row_limit(run, limit)
    found = require_fleet_file(file)
    choose_groups(found, choice.only)
    if files.serve_metrics is not None:
        _serve(run, file, choice, files.serve_metrics, is_remote=files.allow_remote)
        return
    run_command = mask_secrets(fleet_command("run", file, choice.state, choice.only))
    gc.disable()  # the journal of many tables is many objects and no cycles: two thirds of the time
    try:
        known = read_status(
            Path(choice.state or found.settings.state), choice.only, found, run.clock(), run_command=run_command
        )
    finally:
        gc.enable()
    _write_files(run, known, found, files)
    if is_stdout_free(run.output, files.html, files.metrics):
        result = status_result(str(found.path), known, run.clock(), run_command=run_command, most=most)
        run.write(result)
        note_omitted_items(run, result)
    _note_files(run, files.html, files.metrics)
    if known.exit_code:
        raise Exit(known.exit_code)


def _note_files(run: CommandContext, *files: str | None) -> None:
    for file in files:
        if file not in (None, "-"):
            run.note(f"wrote {file}")


def _write_files(run: CommandContext, known: FleetStatus, found: FleetFile, files: StatusFiles) -> None:
    if files.metrics is not None:
        from deltacli.fleet.reporting.monitoring import fleet_metrics

        with open_destination(files.metrics) as sink:
            sink.write(fleet_metrics(known).encode())
    if files.html is not None:
        from deltacli.fleet.reporting.page import linked_pages, status_page

        faults = {}
        if files.write_pages and files.pages is not None:
            faults = _write_pages(run, known, found, files.pages, files.html)
        start = os.getcwd() if files.html == "-" else os.path.dirname(os.path.abspath(files.html))
        linked = {} if files.pages is None else linked_pages(known, files.pages, start)
        with open_destination(files.html) as sink:
            sink.write(status_page(known, str(found.path), run.clock(), linked, faults).encode())


def _write_pages(
    run: CommandContext, known: FleetStatus, found: FleetFile, directory: str, html: str
) -> dict[str, str]:
    """Write the page of each table, which links to the page `html` of all. Return the tables that cannot be examined,
    by their shown names, each with the reason, and note them. Raises UsageError.
    """
    from deltacli.fleet.reporting.table_page import address, table_page

    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as fault:
        raise UsageError(f"--pages {directory} cannot be created: {fault.strerror or fault}") from fault
    faults: dict[str, str] = {}
    index = None if html == "-" else address(html, directory)
    throttled = run.limit_call_rate(found.settings.calls_per_second)
    with run.progress.step("writing pages", unit="tables", total=len(known.tables)) as step:
        for table in known.tables:
            name = shorten_table_name(table.shown_name, str(found.path))
            try:
                page = table_page(throttled.open_table(table.name).doctor(), index)
            except DeltacliError as fault:
                faults[table.shown_name] = mask_secrets(fault.message)
                run.note(f"no page of {name}: {fault.message}")
            else:
                with open_destination(os.path.join(directory, f"{make_file_name(table.shown_name)}.html")) as sink:
                    sink.write(page.encode())
            step.advance()
    run.note(f"wrote {plural(len(known.tables) - len(faults), 'page')} to {directory}")
    return faults


def _serve(run: CommandContext, file: str, choice: FleetChoice, address: str, *, is_remote: bool) -> None:
    """Answer requests until a signal. The policy file and the journal are read again for each answer."""
    from deltacli.fleet.policy_file.reading import require_fleet_file
    from deltacli.fleet.reporting.monitoring import MetricsServer, fleet_metrics, parse_address
    from deltacli.fleet.status import read_status

    def make() -> str:
        found = require_fleet_file(file)
        return fleet_metrics(read_status(Path(choice.state or found.settings.state), choice.only, found, run.clock()))

    with MetricsServer(parse_address(address), make, is_remote=is_remote) as server:
        try:
            run.note(f"metrics at {server.url} (Ctrl-C stops)")
            server.serve_forever()
        except Interrupted as interruption:
            interruption.outcome = "the server has stopped"
            raise
