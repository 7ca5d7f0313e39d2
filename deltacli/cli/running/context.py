"""The context of a command: the settled values of shared options, opening tables, writing results and notes."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from deltacli.cli.invocation import invocation
from deltacli.cli.output.formats import MARKDOWN, TABLE, Format
from deltacli.cli.output.results import Result
from deltacli.cli.output.text_tables import write_sections
from deltacli.cli.running.call_tallies import describe_calls, describe_calls_as_json, merge_tallies
from deltacli.cli.running.engine_source import EngineSource
from deltacli.cli.running.note_options import NoteOptions
from deltacli.cli.running.result_options import ResultOptions
from deltacli.cli.running.stores import StoreOptions, Stores
from deltacli.cli.shared_options import TableFormat
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.cli.terminal.characters import escape_control
from deltacli.cli.terminal.stderr import write_json_message, write_message
from deltacli.cli.terminal.suggested_commands import (
    add_context_options,
    repeat_command_with,
    repeat_command_without_cluster,
    spell_tables_as_typed,
)
from deltacli.core.documents import dumps
from deltacli.core.errors import PaimonTable, UsageError
from deltacli.core.long_steps import LongStepAdvisor
from deltacli.core.machine import Clock
from deltacli.core.progress import SILENT, Progress
from deltacli.core.texts import cut_middle
from deltacli.core.units import format_size, plural
from deltacli.storage import AllowedPrefixes, ReadStorage, Storage
from deltacli.storage.optional_interfaces import (
    is_bound_to_this_process,
    is_shared_directory,
    is_shared_table,
)
from deltacli.storage.secrets import mask_secrets

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.catalogs.unity.unity import UnityCatalog
    from deltacli.cli.output.sections import Section
    from deltacli.cli.running.table_run import TableRun
    from deltacli.engine.base import Engine
    from deltacli.storage.location import StoreLocation
    from deltacli.table.handle import TableHandle

    Handle = TypeVar("Handle", bound=TableHandle)

_NEXT_PREFIX = "next: "
_NOTE_PREFIX = "note: "


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CommandContext:
    """The settled values of the options that all commands share, and the means to open tables and to write results.

    Attributes:
        results: The format and the destination of the result.
        notes: Whether and how notes are written.
        stores: How the stores of tables are opened.
        engine_source: Opens the engine that does the work.
        clock: Returns the time in epoch milliseconds. `--now` replaces the clock of the machine.
        progress: Receives the progress of operations.
        table_format: The format of tables according to `--table-format`. None: it is detected.
        table_run: The table that this context is for, if the command works on several tables.
    """

    results: ResultOptions
    notes: NoteOptions = field(default_factory=NoteOptions)
    stores: StoreOptions = field(default_factory=StoreOptions)
    engine_source: EngineSource = field(default_factory=EngineSource)
    clock: Clock
    progress: Progress = SILENT
    table_format: TableFormat | None = None
    table_run: TableRun | None = None
    # Lists, because the class is frozen: the plan that the user has read on this screen and agreed to, and the last
    # result that was written. Each has at most one item.
    _confirmed_results: list[Result] = field(default_factory=list)
    _written_results: list[Result] = field(default_factory=list)
    # All openers of stores. The first one opens the tables of the command.
    _openers: list[Stores] = field(default_factory=list)

    @property
    def format(self) -> Format:
        """The format of the result."""
        return self.results.format

    @property
    def output(self) -> str | None:
        """The file that the result is written to. None: stdout."""
        return self.results.file

    @property
    def directory(self) -> str | None:
        """The directory that rows are written to as Parquet, if `--output` names one."""
        return self.results.directory

    @property
    def terminal(self) -> Terminal:
        """The terminal that the result is written to, or what takes its place."""
        return self.results.terminal

    @property
    def is_on_screen(self) -> bool:
        """True if the result is written as a table to a terminal."""
        return self.terminal.is_terminal and self.format is TABLE

    @property
    def quiet(self) -> bool:
        """True if notes and progress are omitted."""
        return self.notes.quiet

    @property
    def verbosity(self) -> int:
        """The number of times that `-v` was used."""
        return self.notes.verbosity

    @property
    def engine(self) -> Engine:
        """The engine of this run. It is opened on first use, which may raise the errors of a cluster."""
        return self.engine_source.get(self.progress)

    def make_context_of_table(self, table_run: TableRun) -> CommandContext:
        """Return a copy of this context for one of several tables."""
        return replace(self, table_run=table_run, _confirmed_results=[], _written_results=[])

    def close(self) -> None:
        """Close the engine, such as the session of a cluster. With `-v`, report the calls to object stores."""
        self.engine_source.close()
        if not self.verbosity or self.quiet:
            return
        for host in merge_tallies(host for opener in self._openers for host in opener.tallies):
            if self.notes.as_json:
                write_json_message(dumps(describe_calls_as_json(host)))
            else:
                write_message(describe_calls(host))

    @property
    def allowed(self) -> AllowedPrefixes:
        """The prefixes of URIs outside a table directory that may be opened. Raises UsageError."""
        return self.stores.allowed

    def write(self, result: Result) -> None:
        """Write a result to its destination, in the format of the run.

        After the user has agreed to a plan on this screen, only the sections that differ from the plan are written. If
        the command works on several tables, the result is kept for the overview of all tables.
        """
        invocation.is_reporting = invocation.has_agreed
        self._written_results[:] = [result]
        if self.table_run is not None:
            self.table_run.result = result
            if self.format not in (TABLE, MARKDOWN) or not self.table_run.shows_details:
                return

        with self.open_result() as sink:
            if self.table_run is not None:
                self.table_run.write_heading(sink, self.format, self.terminal)
            new_sections = self._find_new_sections(result)
            if new_sections:
                write_sections(sink, self.terminal, new_sections)
            else:
                self.format.write(sink, result, self.terminal)
        self._note_written_file(result.rows_written())

    def _note_written_file(self, rows: int | None) -> None:
        """Name the file that was written. Only a user at a terminal needs this: nothing else appears on the screen."""
        if self.quiet or self.output is None or not sys.stderr.isatty() or not os.path.isfile(self.output):
            return
        size = format_size(os.path.getsize(self.output))
        message = f"wrote {self.output} ({size})"
        if rows is not None:
            message = f"wrote {plural(rows, 'row')} ({size}) to {self.output}"

        if self.notes.as_json and not self.format.errors_are_json:
            self.note(message)
        else:
            # Text, like progress, even if the file contains JSON.
            write_message(message)

    def confirm(self) -> None:
        """Record that the user has agreed to the plan that was written last."""
        if self.is_on_screen:
            self._confirmed_results[:] = self._written_results

    def _find_new_sections(self, result: Result) -> list[Section]:
        """Return the sections of an outcome that the confirmed plan did not show.

        Empty if the result has to be written as a whole: no plan of the same kind was confirmed, or the user has
        requested a list, whose rows are not part of any section.
        """
        if not self._confirmed_results or result.has_requested_rows:
            return []
        plan_result = self._confirmed_results[0]
        if type(plan_result) is not type(result):
            return []

        shown_sections = [(section.label, list(section.lines)) for section in plan_result.sections(self.terminal)]
        shown_lines = [lines for _, lines in shown_sections]
        sections = [section for section in result.sections(self.terminal) if section.lines]
        changed_sections = [
            section for section in sections if (section.label, list(section.lines)) not in shown_sections
        ]
        # A section may only have a new label, such as "deleted" instead of "to delete". Such sections are written only
        # if there are no others.
        new_sections = [section for section in changed_sections if list(section.lines) not in shown_lines]
        return new_sections or changed_sections

    def suggest_command(self, command: str, *, also_in_pipe: bool = False) -> None:
        """Suggest the next command, below a result on a terminal.

        Args:
            command: The command, ready to be pasted.
            also_in_pipe: Suggest the command even if the result is not written to a terminal.
        """
        if self.table_run is not None and not also_in_pipe:
            self.table_run.next_commands.append(command)
        elif self.is_on_screen or also_in_pipe:
            self.note(f"{_NEXT_PREFIX}{command}")

    def note(self, text: str) -> None:
        """Write a note to stderr: text, or a JSON object if errors are JSON objects. `-q` omits notes.

        Args:
            text: The note. After the prefix `next: ` it is a command. The options of this run that the command needs,
                such as `-C`, are added.
        """
        if self.quiet or _is_spoiled(text):
            return
        if self.table_run is not None and text.startswith(_NOTE_PREFIX):
            text = f"{_NOTE_PREFIX}{self.table_run.name}: {text.removeprefix(_NOTE_PREFIX)}"
        is_command = text.startswith(_NEXT_PREFIX)
        if is_command:
            text = _NEXT_PREFIX + add_context_options(text.removeprefix(_NEXT_PREFIX), invocation.arguments)

        if self.notes.as_json:
            write_json_message(dumps({"type": "note", "message": text.removeprefix(_NOTE_PREFIX)}))
            return
        text = escape_control(cut_middle(spell_tables_as_typed(text, invocation.arguments)))
        if self.notes.coloured and text.startswith(_NEXT_PREFIX):
            write_message(text, lambda shown: self.terminal._replace(colour=True).paint(shown, Style.NEXT))
        else:
            write_message(text)

    def open(self, table: str, *, writes: bool = False) -> Storage:
        """Open the store of a Delta table.

        Args:
            table: The table as the user typed it.
            writes: Whether the command changes the table.

        Raises:
            UsageError: If the table cannot be a Delta table, or is a Delta table and a Paimon table at once and
                `--table-format` does not say which.
            NoAtomicCreate: If the command changes tables, and the store cannot create files atomically. No request
                is sent before.
        """
        if self.table_format is TableFormat.PAIMON:
            raise PaimonTable("this command works on Delta tables only", code="usage.table-format")
        return self.open_either(table, writes=writes)

    def open_either(self, table: str, *, writes: bool = False) -> Storage:
        """Open the store of a Delta or Paimon table. Takes the same arguments and raises the same errors as `open`."""
        from deltacli.table.table_directories import require_one_format

        storage = self.open_other(table, writes=writes)
        if self.table_format is None:
            require_one_format(storage)
        return storage

    def open_table(self, table: str, *, writes: bool = False) -> Table:
        """Open a Delta table. Takes the same arguments and raises the same errors as `open`."""
        return self.make_table(self.open(table, writes=writes))

    def make_table(self, storage: Storage, name: str | None = None) -> Table:
        """Return the Delta table in a store, with the settings of this run. Nothing is read.

        Args:
            storage: The store.
            name: The table's name in errors. None: the address of the store.
        """
        from deltacli.api.table import Table

        return self.make_handle(storage, Table, name=name)

    def make_handle(self, storage: Storage, kind: type[Handle], **attributes: Any) -> Handle:  # Any: of the class
        """Return a handle of the table in a store, with the settings of this run.

        Args:
            storage: The store.
            kind: The class of the handle, such as `Table`.
            attributes: Further keyword arguments of the class.
        """
        return kind(
            storage,
            engine=self.engine,
            clock=self.clock,
            progress=self.make_progress(storage),
            open_other=self.open_other,
            allowed=self.allowed,
            location=self.get_location(storage) if self.engine.may_repeat else None,
            **attributes,
        )

    def make_progress(self, storage: ReadStorage) -> Progress:
        """Return the progress of an operation on a store. If the operation takes long, it suggests a Spark cluster."""
        if self.quiet or not self.engine_source.can_use_cluster or self.engine.may_repeat:
            return self.progress
        return LongStepAdvisor(self.progress, self._suggest_cluster, is_remote=storage.capabilities.parallel_reads > 1)

    def _suggest_cluster(self, reason: str) -> None:
        command = repeat_command_with(invocation.arguments, "--engine", "spark")
        self.note(f"note: {reason}; on a Spark cluster: {command}")

    def get_location(self, storage: ReadStorage) -> StoreLocation | None:
        """Return how executors of a cluster open the store of a table.

        Returns:
            The location. None for shared tables: the server provides credentials for each file or directory.

        Raises:
            UsageError: If the table belongs to a catalog. Its credentials must not leave this process.
        """
        from deltacli.storage.location import StoreLocation

        if is_shared_table(storage) or is_shared_directory(storage):
            return None
        if is_bound_to_this_process(storage):
            raise UsageError(
                "--engine spark does not work on tables of a catalog: its credentials and commits stay in this process",
                code="cluster.catalog",
                hint=repeat_command_without_cluster(invocation.arguments),
            )
        budget_ms = self.stores.retry_budget_ms
        budget_seconds = None if budget_ms is None else budget_ms / 1_000
        return StoreLocation.of(storage.uri, self.stores.storage_options, self.allowed, budget_seconds)

    def open_other(self, uri: str, *, writes: bool = False) -> Storage:
        """Open any store, without checking the format of the table. Raises the same errors as `open`."""
        return self._get_stores().open(uri, writes=writes)

    def open_catalog(self) -> UnityCatalog:
        """Return the catalog of tables `uc://…`. Raises UsageError if none is configured."""
        return self._get_stores().open_catalog()

    def expand_in_catalog(self, pattern: str) -> list[str]:
        """Return the addresses of the tables in the catalog that match a pattern, such as `uc://prod.sales.*`.

        Raises:
            UsageError: If the pattern is invalid, or no catalog is configured.
            DeltacliError: If the catalog cannot be read.
        """
        from deltacli.catalogs.unity.unity import addresses_matching

        return addresses_matching(self.open_catalog(), pattern)

    def limit_call_rate(self, calls_per_second: float | None) -> CommandContext:
        """Return a copy of this context whose stores share a rate limit, and whose tables show no progress.

        Args:
            calls_per_second: The maximum rate of requests to each host. None: no limit.
        """
        stores = self.create_stores(calls_per_second)
        # Created here, before threads need it: with one policy per thread, each thread would have the whole rate.
        stores.get_retry_policy()
        return replace(
            self, progress=SILENT, engine_source=self.engine_source.disable_cluster_advice(), _openers=[stores]
        )

    def create_stores(self, calls_per_second: float | None = None) -> Stores:
        """Return a new opener of stores with the options of this run and its own retry policy."""
        note = None if self.quiet else self.note
        stores = Stores(self.stores, note, calls_per_second)
        self._openers.append(stores)
        return stores

    def _get_stores(self) -> Stores:
        """Return the opener for the tables of the command. The first call creates it."""
        if not self._openers:
            self.create_stores()
        return self._openers[0]

    def open_result(self, *, content: Format | None = None) -> AbstractContextManager[BinaryIO]:
        """Open the destination of the result: a file, a pipe, or a terminal with a pager.

        Args:
            content: The format of the content. None: the format of the run.
        """
        return self.results.open(content)


def _is_spoiled(text: str) -> bool:
    """Return whether a note is a command that contains secrets. They would be masked, so it could not be pasted."""
    return text.startswith(_NEXT_PREFIX) and mask_secrets(text) != text
