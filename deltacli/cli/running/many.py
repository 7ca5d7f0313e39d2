"""One command on several tables: plan every table, ask once, execute the plans, and write one result.

The user sees a row per table and a row of totals. Programs get one document that contains the documents of all tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from deltacli.changing.file_totals import NO_FILES
from deltacli.cli.errors import report_error
from deltacli.cli.invocation import Exit, invocation
from deltacli.cli.output.formats import MARKDOWN, TABLE
from deltacli.cli.render.many import Overview
from deltacli.cli.running.changing import Mode
from deltacli.cli.running.consent import confirm_change
from deltacli.cli.running.table_run import NOT_STARTED, PendingChange, TableRun
from deltacli.cli.running.table_run_results import TableRunResults
from deltacli.cli.terminal.signals import Interrupted
from deltacli.cli.terminal.suggested_commands import repeat_command_with_flags
from deltacli.core.errors import DeltacliError, PaimonTable, UsageError
from deltacli.core.open_files import raise_open_file_limit
from deltacli.core.texts import summarize_names
from deltacli.core.units import format_size, plural
from deltacli.table.discover import find_tables, identify_directory, is_pattern, note_log_backups

if TYPE_CHECKING:
    from deltacli.cli.running.context import CommandContext
    from deltacli.storage import Storage

    TableCommand: TypeAlias = Callable[[CommandContext, str], None]
    """Runs a command on the table with a name."""

_MAX_NAMES = 5
"""How many tables a message names before it says how many more there are."""
_RESERVED_FILES = 64
"""Open files in addition to the directories of tables: libraries, the log, and files that are read concurrently."""
EXIT_CODE_ORDER = (70, 8, 7, 3, 2, 5, 6, 4, 1, 0)
"""Exit codes from the most to the least important."""

_FORMAT_ERROR_CODES = (PaimonTable.code, "table.format-ambiguous")
"""Codes of usage errors about a table, as opposed to errors about the command line."""


def run_on_tables(
    run: CommandContext,
    names: Sequence[str],
    command: TableCommand,
    mode: Mode,
    single_table_options: Mapping[str, object] = MappingProxyType({}),
    *,
    lists_files: bool = False,
) -> None:
    """Run a command on several tables.

    All tables are planned first. Then the overview is shown, a row per table and the totals, and the user is asked once
    about all plans. With `-v` or `lists_files` the plan of each table is shown above the overview.

    An error on one table does not stop the others. An error in the command line stops the command before any table is
    changed.

    Args:
        run: The run of the command.
        names: Tables, and patterns such as `lake/*`.
        command: Runs the command on one table. If it changes the table, it leaves a pending change in
            `run.table_run`.
        mode: What the command does with the plans.
        single_table_options: Options that support one table only, and their values. An option that was not passed has
            the value None or False.
        lists_files: Whether the user has requested a list of all files.

    Raises:
        UsageError: If the command line is wrong for one of the tables, or contains an option for single tables.
        Exit: With the most important of the exit codes of all tables, unless it is 0.
    """
    if len(names) == 1 and not is_pattern(run.open_other(names[0]), names[0]):
        command(run, names[0])
        return
    _refuse_single_table_options(run, names, single_table_options)

    shows_details = lists_files or run.verbosity > 0
    table_runs = _TableRunCollector(run, shows_details=shows_details).collect(names)
    _require_open_files(len(table_runs))

    try:
        _plan_tables(run, table_runs, command)
    except Interrupted as interruption:
        _record_interruption_of_planning(table_runs, interruption)
        _write_results(run, table_runs, has_ended=False)
        raise

    has_ended = False
    consent_exit_code = 0
    try:
        consent_exit_code = _execute_changes(run, table_runs, mode)
        has_ended = True
    finally:
        # If the user has declined, the overview was shown before the question.
        is_overview_shown = consent_exit_code != 0 and _is_for_people(run)
        if not is_overview_shown:
            _write_results(run, table_runs, has_ended=has_ended)

    _note_failed_tables(run, table_runs)
    if mode.only_plans and run.is_on_screen and not shows_details:
        run.note(f"details of each table: {repeat_command_with_flags(invocation.arguments, ['-v'])}")
    _suggest_common_command(run, table_runs)

    exit_code = first_exit_code([consent_exit_code, *(table_run.exit_code for table_run in table_runs)])
    if exit_code:
        raise Exit(exit_code)


def first_exit_code(codes: Sequence[int]) -> int:
    """Return the most important exit code."""
    return min(codes, key=EXIT_CODE_ORDER.index)


def _refuse_single_table_options(
    run: CommandContext, names: Sequence[str], single_table_options: Mapping[str, object]
) -> None:
    values = {**single_table_options, "--output": None if run.output == "-" else run.output}
    for option, value in values.items():
        if value is not None and value is not False:
            raise UsageError(f"{option} works on one table", facts={"tables": summarize_names(names, _MAX_NAMES)})


class _TableRunCollector:
    """Collects a run for each table of the command line. A table that is named twice gets one run."""

    def __init__(self, run: CommandContext, *, shows_details: bool) -> None:
        self._run = run
        self._shows_details = shows_details
        self._written_tables: list[str] = []
        self._table_runs: dict[str, TableRun] = {}

    def collect(self, names: Sequence[str]) -> list[TableRun]:
        """Return the runs for tables and patterns, in the order of the command line.

        Raises:
            UsageError: If a pattern is invalid or matches no table. Any other error becomes the result of the table.
        """
        for name in names:
            storage = self._run.open_other(name)
            try:
                if is_pattern(storage, name):
                    self._add_matches(name, storage)
                else:
                    self._add_table(name, storage, is_from_pattern=False)
            except UsageError:
                raise
            except DeltacliError as error:
                self._add_failure(name, storage.uri, error)
        return list(self._table_runs.values())

    def _add_matches(self, pattern: str, storage: Storage) -> None:
        matches = find_tables([pattern], self._run.open_other, progress=self._run.progress)
        note_log_backups(self._run.note, matches.log_backups)
        for path, error in matches.failures:
            self._add_failure(path, storage.uri, error)
        for table in matches.tables:
            self._add_table(table.name, table.storage, is_from_pattern=True)

    def _add_table(self, name: str, storage: Storage, *, is_from_pattern: bool) -> None:
        table_run = TableRun(
            name,
            storage.uri,
            written_tables=self._written_tables,
            shows_details=self._shows_details,
            is_from_pattern=is_from_pattern,
        )
        previous = self._table_runs.setdefault(identify_directory(storage), table_run)
        if previous is not table_run:
            self._run.note(f"note: {table_run.name} is the same table as {previous.name}, which is done once")

    def _add_failure(self, name: str, uri: str, error: DeltacliError) -> None:
        self._table_runs[name] = TableRun(
            name,
            uri,
            written_tables=self._written_tables,
            shows_details=self._shows_details,
            discovery_error=error,
        )


def _require_open_files(tables: int) -> None:
    """Require that this process may open enough files: each plan keeps the directory of its table open.

    Raises:
        UsageError: If the limit of the operating system is too low and cannot be raised.
    """
    needed = tables + _RESERVED_FILES
    limit = raise_open_file_limit(needed)
    if limit < needed:
        raise UsageError(
            f"{plural(tables, 'table')} at once need {needed:,} open files, and this process may open {limit:,}",
            facts={"to allow them": f"ulimit -n {needed}", "for many tables": "deltacli fleet init"},
        )


def _plan_tables(run: CommandContext, table_runs: Sequence[TableRun], command: TableCommand) -> None:
    """Run the command on each table. A command that changes tables plans its changes and leaves them pending.

    Raises:
        Exit: If the command line is wrong for one of the tables.
    """
    skipped_tables: dict[str, list[str]] = {}
    for table_run in table_runs:
        with table_run.record_errors():
            try:
                if table_run.discovery_error is not None:
                    raise table_run.discovery_error
                command(run.make_context_of_table(table_run), table_run.argument)
            except UsageError as error:
                is_format_error = error.code in _FORMAT_ERROR_CODES
                if is_format_error and table_run.is_from_pattern:
                    # `lake/*` may match tables of several formats.
                    table_run.is_skipped = True
                    skipped_tables.setdefault(error.reason, []).append(table_run.name)
                    continue
                if is_format_error:
                    raise
                table_run.fail(error)
                raise Exit(error.exit_code) from error

        # `record_errors` has caught the Exit, too. An error in the command line ends the command.
        error_document = table_run.error
        if error_document is None or error_document["code"] in _FORMAT_ERROR_CODES:
            continue
        if table_run.exit_code == UsageError.exit_code:
            raise Exit(table_run.exit_code)

    for reason, names in skipped_tables.items():
        subject = f"{names[0]} is" if len(names) == 1 else f"{summarize_names(names, _MAX_NAMES)} are"
        run.note(f"note: {subject} left out: {reason}")


def _record_interruption_of_planning(table_runs: Sequence[TableRun], interruption: Interrupted) -> None:
    """Record an interruption for the tables that have no final result yet. Nothing was changed."""
    for table_run in table_runs:
        has_final_result = table_run.result is not None and table_run.pending is None
        if table_run.error is None and not has_final_result:
            table_run.record_interruption(interruption, NOT_STARTED)


def _write_results(run: CommandContext, table_runs: Sequence[TableRun], *, has_ended: bool) -> None:
    """Write the results of all tables: a document for programs, the overview for people."""
    results = TableRunResults(table_runs, has_ended=has_ended)
    if not _is_for_people(run):
        run.write(results)
        return

    rows = results.make_rows()
    if not rows:
        return
    invocation.is_reporting = invocation.has_agreed
    written_tables = table_runs[0].written_tables
    with run.open_result() as sink:
        if written_tables:
            sink.write(b"\n")
        run.format.write(sink, Overview(rows), run.terminal)
    # The overview may be written again after the changes, with a blank line above.
    written_tables.append("")


def _is_for_people(run: CommandContext) -> bool:
    return run.format in (TABLE, MARKDOWN)


def _execute_changes(run: CommandContext, table_runs: Sequence[TableRun], mode: Mode) -> int:
    """Ask once about all pending changes, and execute them one after another.

    Returns:
        The exit code of the refusal if the user has not agreed, else 0. Errors of single tables are recorded in their
        runs.
    """
    changes = [(table_run, table_run.pending) for table_run in table_runs if table_run.pending is not None]
    try:
        _confirm_changes(run, table_runs, mode)
    except DeltacliError as refusal:
        report_error(refusal, invocation.arguments, None)
        return refusal.exit_code

    for position, (table_run, change) in enumerate(changes):
        invocation.is_reporting = False
        try:
            with table_run.record_errors():
                change.execute(is_agreed=True)
        except Interrupted as interruption:
            # Until the change begins to report, the result of the run is still its plan.
            partial_result = table_run.result if invocation.is_reporting else None
            progress = f"{position} of {plural(len(changes), 'table')} done"
            interruption.outcome = f"{progress}; {table_run.name}: {interruption.outcome}"
            table_run.record_interruption(interruption, interruption.message)
            table_run.result = partial_result
            for later_run, _ in changes[position + 1 :]:
                later_run.record_interruption(interruption, NOT_STARTED)
            raise
    return 0


def _confirm_changes(run: CommandContext, table_runs: Sequence[TableRun], mode: Mode) -> None:
    """Show the overview and ask about the changes that need consent. Raises Refused if the user does not agree."""
    changes = [
        (table_run, table_run.pending)
        for table_run in table_runs
        if table_run.pending is not None and table_run.pending.needs_consent
    ]
    if not changes:
        return
    if not mode.yes and _is_for_people(run):
        _write_results(run, table_runs, has_ended=False)

    facts: dict[str, str] = {}
    for table_run, change in changes:
        for name, fact in change.facts.items():
            facts[f"{table_run.name}, {name}"] = fact
    confirm_change(run, _build_question(changes), lambda: None, yes=mode.yes, facts=facts)


def _build_question(changes: Sequence[tuple[TableRun, PendingChange]]) -> str:
    """Return the question about all changes, such as `delete 5 files (1 KiB) of 2 tables: a 2, b 3`."""
    verb, _ = changes[0][1].file_action
    total = NO_FILES
    files_by_table = []
    for table_run, change in changes:
        _, totals = change.file_action
        total += totals
        files_by_table.append(f"{table_run.name} {totals.files:,}")

    affected = f"{plural(total.files, 'file')} ({format_size(total.size_bytes)}) of {plural(len(changes), 'table')}"
    # The overview above the question has a row for every table, so the question names a few only.
    return f"{verb} {affected}{changes[0][1].question_suffix}: {summarize_names(files_by_table, _MAX_NAMES)}"


def _note_failed_tables(run: CommandContext, table_runs: Sequence[TableRun]) -> None:
    failed_tables = [table_run.name for table_run in table_runs if table_run.error is not None]
    if failed_tables and run.format is TABLE:
        attempted = sum(not table_run.is_skipped for table_run in table_runs)
        done = attempted - len(failed_tables)
        run.note(f"note: {done:,} of {plural(attempted, 'table')} done; failed: {', '.join(failed_tables)}")


def _suggest_common_command(run: CommandContext, table_runs: Sequence[TableRun]) -> None:
    """Suggest a command if it is the only suggestion for all tables. Commands for single tables would be too many."""
    suggestions: set[str] = set()
    for table_run in table_runs:
        suggestions.update(table_run.next_commands)
    if len(suggestions) == 1:
        run.suggest_command(suggestions.pop())
