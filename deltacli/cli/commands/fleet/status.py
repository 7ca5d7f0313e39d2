"""`deltacli fleet status`."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from deltacli.cli.formats import FindingFormat
from deltacli.cli.options.fleet import (
    FLEET_FILE,
    AllowRemoteOption,
    FleetFileArgument,
    FleetLimitOption,
    HtmlOption,
    MetricsOption,
    PagesOption,
    ServeMetricsOption,
    fleet_command,
)
from deltacli.cli.options.run import Run
from deltacli.cli.options.targets import require_target
from deltacli.cli.terminal.interrupts import Interrupted
from deltacli.cli.terminal.output import open_sink
from deltacli.errors import UsageError
from deltacli.fleet.request import FleetChoice

if TYPE_CHECKING:
    from deltacli.fleet.status import FleetStatus

FORMATS = FindingFormat
EXIT_CODES = (0, 1, 2, 4, 5, 7, 70)


def status(
    run: Run,
    file: FleetFileArgument = FLEET_FILE,
    *,
    choice: FleetChoice,
    html: HtmlOption = None,
    pages: PagesOption = None,
    metrics: MetricsOption = None,
    serve_metrics: ServeMetricsOption = None,
    allow_remote: AllowRemoteOption = False,
    limit: FleetLimitOption = None,
) -> None:
    """Show the alerts of each table, the worst first, and trends.

    \b
    Reads the journal of the runs only; no table is opened. An alert is a step that
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
      deltacli fleet status --html pages/status.html --pages pages
      deltacli fleet status --format junit --output fleet.xml
      deltacli fleet status --metrics /var/lib/node_exporter/fleet.prom -q
      deltacli fleet status --serve-metrics 9105
    """
    from deltacli.cli.options.rows import note_the_cut, settle_limit
    from deltacli.cli.render.fleet.status import status_result
    from deltacli.fleet.planning.plan import choose_groups
    from deltacli.fleet.policy_file.reading import require_fleet_file
    from deltacli.fleet.status import read_status

    most = settle_limit(run, limit)
    found = require_fleet_file(file)
    choose_groups(found, choice.only)
    for output, option in ((html, "--html"), (metrics, "--metrics")):
        if output is not None:
            require_target(output, option)
    if pages is not None and html is None:
        raise UsageError("--pages is for the page of --html", hint="add --html FILE, or omit --pages")
    if serve_metrics is not None:
        if html is not None or metrics is not None:
            raise UsageError("--serve-metrics cannot be combined with --html and --metrics, which are written once")
        _serve(run, file, choice, serve_metrics, is_remote=allow_remote)
        return
    run_command = fleet_command("run", file, choice.state, choice.only)
    gc.disable()  # the journal of many tables is many objects and no cycles: two thirds of the time
    try:
        known = read_status(
            Path(choice.state or found.settings.state), choice.only, found, run.clock(), run_command=run_command
        )
    finally:
        gc.enable()
    _write_files(known, str(found.path), run.clock(), html=html, pages=pages, metrics=metrics)
    run.write(status_result(str(found.path), known, run.clock(), run_command=run_command, most=most))
    _note_files(run, html, metrics)
    note_the_cut(run, known.rows if run.terminal.is_drawn else len(known.tables), most)
    if known.exit_code:
        raise typer.Exit(known.exit_code)


def _note_files(run: Run, *files: str | None) -> None:
    for file in files:
        if file not in (None, "-"):
            run.note(f"wrote {file}")


def _write_files(
    known: FleetStatus, path: str, now_ms: int, *, html: str | None, pages: str | None, metrics: str | None
) -> None:
    if metrics is not None:
        from deltacli.fleet.metrics import fleet_metrics

        with open_sink(metrics) as sink:
            sink.write(fleet_metrics(known).encode())
    if html is not None:
        from deltacli.fleet.reporting.page import linked_pages, status_page

        start = os.getcwd() if html == "-" else os.path.dirname(os.path.abspath(html))
        linked = {} if pages is None else linked_pages(known, pages, start)
        with open_sink(html) as sink:
            sink.write(status_page(known, path, now_ms, linked).encode())


def _serve(run: Run, file: str, choice: FleetChoice, address: str, *, is_remote: bool) -> None:
    """Answer requests until a signal. The policy file and the journal are read again for each answer."""
    from deltacli.fleet.metrics import fleet_metrics
    from deltacli.fleet.policy_file.reading import require_fleet_file
    from deltacli.fleet.reporting.metrics_server import MetricsServer, parse_address
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
