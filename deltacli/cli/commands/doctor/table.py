"""`deltacli doctor table TABLE`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from deltacli.cli.command_tree import HERE
from deltacli.cli.invocation import Exit
from deltacli.cli.options.declared import CheckpointsOption, TableHereArgument
from deltacli.cli.output.destination import is_stdout_free, open_destination, require_file_outside_tables
from deltacli.cli.running.run import Run
from deltacli.core.errors import EXIT_FINDINGS, UsageError
from deltacli.core.request_fields import option
from deltacli.operations.doctor.advice import DoctorRequest, PriceTable, parse_prices

EXIT_CODES = (0, 1, 2, 3, 7, 70)


@dataclass(frozen=True, eq=False, repr=False)
class DoctorOptions:
    """What the command reads and writes besides the table."""

    html: str | None = option("Also write a page with plots of the table, which loads nothing else.", "FILE")
    prices_file: str | None = option(
        "Prices of the store, TOML or JSON.  [default: list prices of S3, GCS and Azure]", "FILE", spelled="--prices"
    )
    check: bool = option("Exit with 1 if there is advice.", default=False)
    checkpoints: CheckpointsOption = None


def doctor_table(run: Run, table: TableHereArgument = HERE, *, request: DoctorRequest, how: DoctorOptions) -> None:
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
    from deltacli.operations.doctor.table import examine_table

    if how.html is not None:
        require_file_outside_tables(how.html, "--html")
    if how.prices_file is not None:
        request = replace(request, prices=_read_prices(how.prices_file))
    opened = run.open_table(table)
    report = examine_table(opened, request)
    if how.html is not None:
        from deltacli.fleet.reporting.table_page import table_page

        with open_destination(how.html) as sink:
            sink.write(table_page(report).encode())
    if is_stdout_free(run.output, how.html):
        run.write(table_result(report, table))
    if how.html not in (None, "-"):
        run.note(f"wrote {how.html}")
    if how.checkpoints:
        from deltacli.cli.running.stream_notes import note_streams

        note_streams(run, opened, how.checkpoints)
    if report.facts.gap is not None:
        raise report.facts.gap
    if how.check and report.advice:
        raise Exit(EXIT_FINDINGS)
    if command := next(filter(None, (one.command_for(table) for one in report.advice)), None):
        run.say_next(command)


def _read_prices(file: str) -> PriceTable:
    try:
        data = Path(file).read_bytes()
    except OSError as fault:
        raise UsageError(
            f"--prices {file} cannot be read: {(fault.strerror or str(fault)).lower()}", code="usage.prices"
        ) from None
    return parse_prices(data, file)
