"""`deltacli share pull TABLE --to DIR|FILE`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import invocation
from deltacli.cli.options.given import given_options
from deltacli.cli.options.moments import parse_moment_of
from deltacli.cli.options.share import SharedTableArgument
from deltacli.cli.options.tables import DryRunOption, RowIdsOption, TimestampOption, VersionOption, WhereOption
from deltacli.cli.options.values import make_choice_parser, make_columns_parser, parse_whole_number
from deltacli.cli.output.destination import find_output_directory, require_file_outside_tables, require_parent_directory
from deltacli.cli.output.formats import FORMATS
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.row_notes import note_rows, require_all_columns
from deltacli.cli.running.shared_tables import open_shared_table, scan_shared_table
from deltacli.cli.shared_options import ColourChoice
from deltacli.cli.terminal.capabilities import detect_terminal
from deltacli.cli.terminal.suggested_commands import repeat_command, repeat_command_with, repeat_command_without_flag
from deltacli.core.errors import Refused, StorageFailed, UsageError, quote_word
from deltacli.sharing.client.share_storage import ShareStorage
from deltacli.sharing.protocol.parameters import Point
from deltacli.sharing.pulling.pull import Pull, PullPlan, PullRequest, PullResult, RowRequest, WrittenRows

if TYPE_CHECKING:
    import pyarrow

    from deltacli.sharing.client.shared_directory import DirectoryStorage
    from deltacli.table.scan import Scan

app = typer.Typer(add_completion=False)


class PullForm(StrEnum):
    DELTA = "delta"
    PARQUET = "parquet"
    CSV = "csv"
    NDJSON = "ndjson"


class VerifyChoice(StrEnum):
    FOOTERS = "footers"
    DATA = "data"


@app.command(
    "pull",
    cls=SharedOptionsCommand,
    epilog=exit_codes(unreadable=True, refused=True, conflict=True, storage=True, unknown=True),
)
def share_pull(
    context: typer.Context,
    table: SharedTableArgument,
    *,
    to: Annotated[
        str,
        typer.Option("--to", metavar="DIR|FILE", help="Directory of the local table, or file or directory of rows."),
    ],
    form: Annotated[
        PullForm | None,
        typer.Option(
            "--as",
            metavar="delta|parquet|csv|ndjson",
            parser=make_choice_parser(PullForm),
            help="Form of the result.  [default: by the end of --to: .parquet, .csv, .ndjson, else delta]",
        ),
    ] = None,
    columns: Annotated[
        Sequence[str] | None,
        typer.Option(
            "--columns",
            metavar="A,B,…",
            parser=make_columns_parser("--columns"),
            help="Write only these columns, in this order.",
        ),
    ] = None,
    where: WhereOption = None,
    row_ids: RowIdsOption = False,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", parser=parse_whole_number, help="Largest number of rows.")
    ] = None,
    version: VersionOption = None,
    timestamp: TimestampOption = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Finish an interrupted pull at the version that it was pulling.")
    ] = False,
    verify: Annotated[
        VerifyChoice | None,
        typer.Option(
            "--verify",
            metavar="footers|data",
            parser=make_choice_parser(VerifyChoice),
            help="Check footers, or decode all data of each file, also of those that are there.  [default: footers]",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file of --to if it exists.")] = False,
    dry_run: DryRunOption = False,
) -> None:
    """Copy a shared table into a local one, or its rows into files, verified.

    \b
    The local Delta table has the files of the shared one at a version. Run the
    command again to continue it: it downloads new files only, and commits all
    changes as one version. Files that the shared table no longer has become
    tombstones, which vacuum deletes later. With --as parquet, csv or ndjson the
    rows are written instead: one file, or a directory of Parquet files.

    \b
    Examples:
      deltacli share pull acme.share#sales.main.orders --to orders
      deltacli share pull acme.share#sales.main.orders --to orders --dry-run
      deltacli share pull acme.share#sales.main.orders --to orders --version 12
      deltacli share pull acme.share#sales.main.orders --to orders --verify data
      deltacli share pull acme.share#sales.main.orders --to few.csv --limit 100
      deltacli share pull acme.share#sales.main.orders --to rows/ --as parquet

    \b
    After an interruption, run the command again: finished files are not downloaded
    a second time. Sizes, footers, numbers of rows and deletion vectors are checked
    before anything is committed. These checks do not find changed bytes inside of
    data pages: --verify data decodes all data, and downloads local files again that
    cannot be decoded. --where, --columns and --limit choose rows, so they cannot be
    used for a Delta table.
    """
    run: CommandContext = context.obj
    chosen = form or _form_of(to)
    at_ms = parse_moment_of(version, timestamp)
    if limit is not None and limit < 1:
        raise UsageError(f"--limit {limit} is not a number of rows", facts={"expected": "1 or more"})
    row_options = given_options(context, "columns", "where", "row_ids", "limit")
    _require_fitting(chosen, row_options, resume=resume, is_past=version is not None or at_ms is not None)
    if chosen is PullForm.DELTA:
        decodes = verify is VerifyChoice.DATA
        _pull_table(run, table, to, version=version, at_ms=at_ms, resume=resume, dry_run=dry_run, decodes=decodes)
        return
    if verify is not None:
        raise UsageError(
            f"--verify cannot be used with --as {chosen}, whose rows are decoded in any case",
            facts={"instead": "omit it, or use --as delta"},
        )
    request = RowRequest(
        columns=columns, where=where, row_ids=row_ids, limit=limit, form=chosen.value, version=version, at_ms=at_ms
    )
    _pull_rows(run, table, to, request, force=force, dry_run=dry_run)


def _form_of(to: str) -> PullForm:
    """Return what the name of a target ends in."""
    ending = os.path.splitext(to)[1][1:].lower()
    return PullForm(ending) if ending in list(PullForm) and ending != "delta" else PullForm.DELTA


def _require_fitting(form: PullForm, row_options: list[str], *, resume: bool, is_past: bool) -> None:
    """Raise UsageError for options that the form of the result does not have."""
    if form is PullForm.DELTA:
        if row_options:
            raise UsageError(
                f"{' and '.join(row_options)} cannot be used for a Delta table, which is a copy of whole files",
                facts={"instead": "--as parquet, csv or ndjson; or pull the table, then read it"},
                hint="deltacli share pull --help",
            )
        if resume and is_past:
            raise UsageError("--resume finishes the version of the interrupted pull; it excludes another one")
    elif resume:
        raise UsageError(
            f"--resume cannot be used with --as {form}, which is written as a whole or not at all",
            facts={"instead": "pull the table with --as delta, then read it"},
        )


def _pull_table(
    run: CommandContext,
    table: str,
    to: str,
    *,
    version: int | None,
    at_ms: int | None,
    resume: bool,
    dry_run: bool,
    decodes: bool,
) -> None:
    from deltacli.api.prepared_change import PreparedChange
    from deltacli.cli.render.sharing import pull_outcome
    from deltacli.cli.running.changing import ChangePresentation, Mode, run_change

    if "://" in to or to == "-" or not to:
        raise UsageError("--to is not a local directory", facts={"found": to or "an empty string"})
    require_file_outside_tables(to.rstrip("/") or "/", "--to")
    request = PullRequest(to, Point(version, at_ms), resumes=resume, decodes=decodes)
    shared = open_shared_table(run, table)
    presentation: ChangePresentation[PullPlan, PullResult] = ChangePresentation(
        build_question=None,
        build_plan_result=lambda plan, is_only: pull_outcome(shared.address.uri, plan.result(dry_run=is_only)),
        build_outcome_result=lambda result: pull_outcome(shared.address.uri, result),
        suggest_after_change=_next,
        suggest_if_nothing_to_do=lambda plan: None if dry_run else _next(plan.result()),
    )
    change = PreparedChange(Pull(shared, request, run.progress), request.target(run.clock))
    try:
        run_change(run, change, presentation, Mode(dry_run=dry_run))
    except StorageFailed as fault:
        if fault.hint is None:
            fault.hint = repeat_command(invocation.arguments)
        raise


def _next(result: PullResult) -> str:
    directory = quote_word(result.directory)
    if result.difference.removed:
        return f"deltacli vacuum {directory} --dry-run"
    return (
        f"deltacli validate {directory} --level data"
        if result.is_committed
        else f"deltacli read {directory} --limit 10"
    )


def _pull_rows(run: CommandContext, table: str, to: str, request: RowRequest, *, force: bool, dry_run: bool) -> None:
    from deltacli.cli.render.sharing import rows_outcome

    if os.path.isfile(to) and not force:
        raise Refused(
            f"--to {to} exists and is not replaced without --force",
            code="share.target-exists",
            hint=repeat_command_with(invocation.arguments, "--force"),
        )
    shared = open_shared_table(run, table)
    written = _write_rows(run, shared, table, to, request, dry_run=dry_run)
    run.write(rows_outcome(shared.uri, written))
    if dry_run:
        run.suggest_command(repeat_command_without_flag(invocation.arguments, "--dry-run"))
    elif request.form == "parquet":
        run.suggest_command(f"duckdb -c {quote_word(f'FROM {written.pattern!r} LIMIT 10')}")
    else:
        run.suggest_command(f"head -n 3 {quote_word(to)}")


def _write_rows(
    run: CommandContext,
    shared: ShareStorage | DirectoryStorage,
    table: str,
    to: str,
    request: RowRequest,
    *,
    dry_run: bool,
) -> WrittenRows:
    """Write rows to a file or directory, complete or not at all. Raises UsageError, and what scans raise.

    `table` is the address of the shared table, for notes.
    """
    directory = _require_place(to, request.form)
    version, at_ms = request.version, request.at_ms
    if dry_run and isinstance(shared, ShareStorage):
        store = shared.expecting(where=request.where, limit=request.limit, version=version, at_ms=at_ms)
        urls = store.shared.urls
        sizes = [size for name in urls.names() if (size := urls.size_of(name)) is not None]
        found = WrittenRows(to, request.form, store.shared.version, len(sizes), sum(sizes), dry_run=True)
        return replace(found, is_directory=directory is not None)
    if dry_run:
        snapshot = run.make_table(shared).snapshot(version=version, timestamp_ms=at_ms)
        files = snapshot.counts()[0]
        found = WrittenRows(to, request.form, snapshot.version, files.count, files.size_bytes, dry_run=True)
        return replace(found, is_directory=directory is not None)
    scan = scan_shared_table(run, shared, request, version, at_ms)
    require_all_columns(scan)
    if directory is not None:
        written = scan.write_parquet(directory)
        note_rows(run, scan, table)
        return WrittenRows(
            to, request.form, scan.version, len(written.files), written.size_bytes, written.rows, is_directory=True
        )
    rows = _write_file(run, shared.uri, scan, to, request.form)
    note_rows(run, scan, table)
    return WrittenRows(to, request.form, scan.version, 1, os.stat(to).st_size, rows)


def _require_place(to: str, form: str) -> str | None:
    """Return the directory that rows are written to; None for a file. Raises UsageError and StorageFailed."""
    directory = find_output_directory(to)
    if to in ("", "-"):
        raise UsageError("--to is not a file or directory", facts={"found": to or "an empty string"})
    if directory is not None and form != "parquet":
        raise UsageError(f"--as {form} writes one file, but --to {to} is a directory")
    if directory is None or "://" not in directory:
        place = to.rstrip("/") or "/"
        require_file_outside_tables(place, "--to")
        require_parent_directory(place)
    return directory


def _write_file(run: CommandContext, uri: str, scan: Scan, to: str, form: str) -> int:
    from deltacli.cli.render.data.rows import Rows, RowsResult

    rows = 0

    def counted() -> Iterator[pyarrow.RecordBatch]:
        nonlocal rows
        for batch in scan:
            rows += batch.num_rows
            yield batch

    about = {"version": scan.version}
    result = RowsResult(Rows("deltacli.read", "row", uri, about, scan.schema, counted()), 0)
    terminal = detect_terminal(ColourChoice.NEVER, to_file=True)
    results = replace(run.results, format=FORMATS[form], file=to, terminal=terminal)
    replace(run, results=results).write(result)
    return rows
