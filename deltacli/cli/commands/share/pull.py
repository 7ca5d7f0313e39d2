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
from deltacli.cli.options.given import get_used_options
from deltacli.cli.options.moments import parse_timestamp_option
from deltacli.cli.options.share import SharedTableArgument
from deltacli.cli.options.tables import DryRunOption, RowIdsOption, TimestampOption, VersionOption, WhereOption
from deltacli.cli.options.values import make_choice_parser, make_columns_parser, parse_whole_number
from deltacli.cli.output.destination import find_output_directory, require_file_outside_tables, require_parent_directory
from deltacli.cli.output.formats import FORMATS
from deltacli.cli.running.changing import ChangePresentation, Mode, run_change
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
    """The format of the local copy: a Delta table, or files with the rows."""

    DELTA = "delta"
    PARQUET = "parquet"
    CSV = "csv"
    NDJSON = "ndjson"


class VerifyChoice(StrEnum):
    """The parts of a downloaded file that are read to verify it."""

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
    chosen_form = form or _get_form_by_extension(to)
    at_ms = parse_timestamp_option(version, timestamp)
    if limit is not None and limit < 1:
        raise UsageError(f"--limit {limit} is not a number of rows", facts={"expected": "1 or more"})
    row_options = get_used_options(context, "columns", "where", "row_ids", "limit")
    has_version = version is not None or at_ms is not None
    _require_matching_options(chosen_form, row_options, resume=resume, has_version=has_version)

    if chosen_form is PullForm.DELTA:
        pull_request = PullRequest(to, Point(version, at_ms), resumes=resume, decodes=verify is VerifyChoice.DATA)
        _pull_table(run, table, pull_request, dry_run=dry_run)
        return
    if verify is not None:
        raise UsageError(
            f"--verify cannot be used with --as {chosen_form}, whose rows are decoded in any case",
            facts={"instead": "omit it, or use --as delta"},
        )
    row_request = RowRequest(
        columns=columns, where=where, row_ids=row_ids, limit=limit, form=chosen_form.value, version=version, at_ms=at_ms
    )
    _pull_rows(run, table, to, row_request, force=force, dry_run=dry_run)


def _get_form_by_extension(to: str) -> PullForm:
    """Return the format for the extension of the target. Without a known extension it is a Delta table."""
    extension = os.path.splitext(to)[1][1:].lower()
    return PullForm(extension) if extension in list(PullForm) else PullForm.DELTA


def _require_matching_options(form: PullForm, row_options: list[str], *, resume: bool, has_version: bool) -> None:
    """Require that the options are supported for the format of the local copy.

    Args:
        form: The format.
        row_options: The options that select rows or columns.
        resume: Whether an interrupted pull is continued.
        has_version: Whether the options name a version.

    Raises:
        UsageError: If an option is not supported.
    """
    if form is not PullForm.DELTA:
        if resume:
            raise UsageError(
                f"--resume cannot be used with --as {form}, which is written as a whole or not at all",
                facts={"instead": "pull the table with --as delta, then read it"},
            )
        return
    if row_options:
        raise UsageError(
            f"{' and '.join(row_options)} cannot be used for a Delta table, which is a copy of whole files",
            facts={"instead": "--as parquet, csv or ndjson; or pull the table, then read it"},
            hint="deltacli share pull --help",
        )
    if resume and has_version:
        raise UsageError("--resume finishes the version of the interrupted pull; it excludes another one")


def _pull_table(run: CommandContext, table: str, request: PullRequest, *, dry_run: bool) -> None:
    """Copy the files of a shared table into a local Delta table, and commit them as one version."""
    from deltacli.api.prepared_change import PreparedChange
    from deltacli.cli.render.sharing import pull_outcome

    to = request.directory
    if "://" in to or to == "-" or not to:
        raise UsageError("--to is not a local directory", facts={"found": to or "an empty string"})
    require_file_outside_tables(to.rstrip("/") or "/", "--to")

    share = open_shared_table(run, table)
    uri = share.address.uri
    presentation: ChangePresentation[PullPlan, PullResult] = ChangePresentation(
        build_question=None,
        build_plan_result=lambda plan, is_dry_run: pull_outcome(uri, plan.result(dry_run=is_dry_run)),
        build_outcome_result=lambda result: pull_outcome(uri, result),
        suggest_after_change=_suggest_after_pull,
        suggest_if_nothing_to_do=lambda plan: None if dry_run else _suggest_after_pull(plan.result()),
    )
    change = PreparedChange(Pull(share, request, run.progress), request.target(run.clock))
    try:
        run_change(run, change, presentation, Mode(dry_run=dry_run))
    except StorageFailed as error:
        # Files that were downloaded completely are not downloaded again.
        if error.hint is None:
            error.hint = repeat_command(invocation.arguments)
        raise


def _suggest_after_pull(result: PullResult) -> str:
    directory = quote_word(result.directory)
    if result.difference.removed:
        return f"deltacli vacuum {directory} --dry-run"
    if result.is_committed:
        return f"deltacli validate {directory} --level data"
    return f"deltacli read {directory} --limit 10"


def _pull_rows(run: CommandContext, table: str, to: str, request: RowRequest, *, force: bool, dry_run: bool) -> None:
    """Write the rows of a shared table to a file or a directory of Parquet files, and show what was written.

    Raises:
        Refused: If the file exists and may not be replaced.
        UsageError: If the target does not match the format.
    """
    from deltacli.cli.render.sharing import rows_outcome

    if os.path.isfile(to) and not force:
        raise Refused(
            f"--to {to} exists and is not replaced without --force",
            code="share.target-exists",
            hint=repeat_command_with(invocation.arguments, "--force"),
        )
    store = open_shared_table(run, table)
    directory = _find_target_directory(to, request.form)
    if dry_run:
        written = _plan_rows(run, store, to, request, is_directory=directory is not None)
    else:
        written = _write_rows(run, store, table, to, request, directory)
    run.write(rows_outcome(store.uri, written))

    if dry_run:
        run.suggest_command(repeat_command_without_flag(invocation.arguments, "--dry-run"))
    elif request.form == "parquet":
        run.suggest_command(f"duckdb -c {quote_word(f'FROM {written.pattern!r} LIMIT 10')}")
    else:
        run.suggest_command(f"head -n 3 {quote_word(to)}")


def _find_target_directory(to: str, form: str) -> str | None:
    """Return the directory of `--to` for Parquet files; None for a single file.

    Raises:
        UsageError: If the target is inside a table, or is a directory and the format is not Parquet.
        StorageFailed: If its parent directory does not exist.
    """
    directory = find_output_directory(to)
    if to in ("", "-"):
        raise UsageError("--to is not a file or directory", facts={"found": to or "an empty string"})
    if directory is not None and form != "parquet":
        raise UsageError(f"--as {form} writes one file, but --to {to} is a directory")
    if directory is None or "://" not in directory:
        path = to.rstrip("/") or "/"
        require_file_outside_tables(path, "--to")
        require_parent_directory(path)
    return directory


def _plan_rows(
    run: CommandContext, store: ShareStorage | DirectoryStorage, to: str, request: RowRequest, *, is_directory: bool
) -> WrittenRows:
    """Return the number and size of the files that would be read. No file is read."""
    if isinstance(store, ShareStorage):
        version_store = store.expecting(
            where=request.where, limit=request.limit, version=request.version, at_ms=request.at_ms
        )
        version = version_store.shared.version
        urls = version_store.shared.urls
        known_sizes = [size for name in urls.names() if (size := urls.size_of(name)) is not None]
        files = len(known_sizes)
        size_bytes = sum(known_sizes)
    else:
        snapshot = run.make_table(store).snapshot(version=request.version, timestamp_ms=request.at_ms)
        version = snapshot.version
        file_counts, _ = snapshot.counts()
        files = file_counts.count
        size_bytes = file_counts.size_bytes
    return WrittenRows(to, request.form, version, files, size_bytes, dry_run=True, is_directory=is_directory)


def _write_rows(
    run: CommandContext,
    store: ShareStorage | DirectoryStorage,
    table: str,
    to: str,
    request: RowRequest,
    directory: str | None,
) -> WrittenRows:
    """Write rows to a file or a directory, completely or not at all.

    Args:
        run: The run of the command.
        store: The store of the shared table.
        table: The address of the shared table, for notes.
        to: The target as the user typed it.
        request: The rows and their format.
        directory: The target if it is a directory. None: a file.
    """
    scan = scan_shared_table(run, store, request, request.version, request.at_ms)
    require_all_columns(scan)
    if directory is not None:
        written = scan.write_parquet(directory)
        note_rows(run, scan, table)
        files = len(written.files)
        return WrittenRows(to, request.form, scan.version, files, written.size_bytes, written.rows, is_directory=True)

    rows = _write_file(run, store.uri, scan, to, request.form)
    note_rows(run, scan, table)
    return WrittenRows(to, request.form, scan.version, 1, os.stat(to).st_size, rows)


def _write_file(run: CommandContext, uri: str, scan: Scan, to: str, form: str) -> int:
    """Write rows to a file in a format. Returns the number of rows."""
    from deltacli.cli.render.data.rows import Rows, RowsResult

    batches = _CountedBatches(scan)
    rows = Rows("deltacli.read", "row", uri, {"version": scan.version}, scan.schema, batches)
    terminal = detect_terminal(ColourChoice.NEVER, to_file=True)
    file_results = replace(run.results, format=FORMATS[form], file=to, terminal=terminal)
    replace(run, results=file_results).write(RowsResult(rows, 0))
    return batches.rows


class _CountedBatches:
    """The batches of a scan. `rows` is the number of rows that have been read so far."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self.rows = 0

    def __iter__(self) -> Iterator[pyarrow.RecordBatch]:
        for batch in self._scan:
            self.rows += batch.num_rows
            yield batch
