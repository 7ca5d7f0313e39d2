"""The context of a command: what the options that all commands share have settled, and how it talks.

With `-v` the calls to object stores are a line on stderr per endpoint.
"""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeVar

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
    pass

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.catalogs.unity.unity import UnityCatalog
    from deltacli.changing.file_totals import FileTotals
    from deltacli.cli.output.sections import Section
    from deltacli.engine.base import Engine
    from deltacli.storage.location import StoreLocation
    from deltacli.table.handle import TableHandle

    Handled = TypeVar("Handled", bound=TableHandle)

    class Part(Protocol):
        """One table of several, as a run on it sees that."""

        name: str
        result: Result | None
        pending: Any  # Any: what is left to be done
        shows_details: bool
        following: list[str]

        def head(self, run: CommandContext, sink: BinaryIO) -> None:
            """Write the heading above a result."""

        def state_plan(self, amount: FileTotals | None, *, is_noop: bool) -> None:
            """Keep what is planned, for the row of the table."""

        def state_outcome(self, files: int, size_bytes: int | None) -> None:
            """Keep how many files it was done with, for the row of the table."""


_NEXT, _NOTE = "next: ", "note: "


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CommandContext:
    """What a command needs to know of its invocation, made from the options that all commands share.

    Attributes:
        results: Where the result is written, and how.
        notes: Whether and how notes are written.
        stores: How stores of tables are opened.
        engine_source: Opens the engine that does the work.
        clock: Returns the time in epoch milliseconds; `--now` sets it.
        progress: Receives the progress of operations.
        table_format: The format of tables if it was given, else it is detected.
        part: The table of several that this run is about.
    """

    results: ResultOptions
    notes: NoteOptions = field(default_factory=NoteOptions)
    stores: StoreOptions = field(default_factory=StoreOptions)
    engine_source: EngineSource = field(default_factory=EngineSource)
    clock: Clock
    progress: Progress = SILENT
    table_format: TableFormat | None = None
    part: Part | None = None
    # The plan that the user read on this screen and agreed to, and the last result.
    _confirmed: list[Result] = field(default_factory=list)
    _written: list[Result] = field(default_factory=list)
    # All openers of stores that were made. The first one is that of the run.
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
        """Whether the result is a table that somebody sees."""
        return self.terminal.is_terminal and self.format is TABLE

    @property
    def quiet(self) -> bool:
        """Whether notes and progress are left out."""
        return self.notes.quiet

    @property
    def verbosity(self) -> int:
        """How often `-v` was given."""
        return self.notes.verbosity

    @property
    def engine(self) -> Engine:
        """Return the engine of this run, the same one for all of its operations. Raises what opening it raises."""
        return self.engine_source.get(self.progress)

    def replace_part(self, part: Part) -> CommandContext:
        """Return this run for one of several tables."""
        return replace(self, part=part, _confirmed=[], _written=[])

    def close(self) -> None:
        """Release the engine, such as a session of a cluster. With `-v`, report the calls to object stores."""
        self.engine_source.close()
        if self.verbosity and not self.quiet:
            for host in merge_tallies(host for opener in self._openers for host in opener.tallies):
                if self.notes.as_json:
                    write_json_message(dumps(describe_calls_as_json(host)))
                else:
                    write_message(describe_calls(host))

    @property
    def allowed(self) -> AllowedPrefixes:
        """Return the prefixes below which files outside a table may be opened. Raises UsageError."""
        return self.stores.allowed

    def write(self, result: Result) -> None:
        """Write a result in the run's format to its destination; of a confirmed plan only what has become of it."""
        invocation.is_reporting = invocation.has_agreed
        self._written[:] = [result]
        if self.part is not None:
            self.part.result = result
            if self.format not in (TABLE, MARKDOWN) or not self.part.shows_details:
                return  # a row in the overview of all tables, or a document among others
        with self.sink() as sink:
            if self.part is not None:
                self.part.head(self, sink)
            if new := self._new_sections(result):
                write_sections(sink, self.terminal, new)
            else:
                self.format.write(sink, result, self.terminal)
        self._say_where(result.rows_written())

    def _say_where(self, rows: int | None) -> None:
        """Name the file that was written where a user watches, who would see nothing at all."""
        if self.quiet or self.output is None or not sys.stderr.isatty() or not os.path.isfile(self.output):
            return
        size = format_size(os.path.getsize(self.output))
        counted = "" if rows is None else f"{plural(rows, 'row')} ({size}) to "
        said = f"wrote {counted}{self.output}" if counted else f"wrote {self.output} ({size})"
        if self.notes.as_json and not self.format.errors_are_json:
            self.note(said)
        else:
            write_message(said)  # plain text, as progress is, also where the file is JSON

    def confirm(self) -> None:
        if self.is_on_screen:
            self._confirmed[:] = self._written

    def _new_sections(self, result: Result) -> list[Section]:
        if not self._confirmed or result.has_requested_rows or type(self._confirmed[0]) is not type(result):
            return []  # the rows of a list are in no section
        shown = [(section.label, list(section.lines)) for section in self._confirmed[0].sections(self.terminal)]
        filled = [section for section in result.sections(self.terminal) if section.lines]
        others = [section for section in filled if (section.label, list(section.lines)) not in shown]
        known = [lines for _, lines in shown]
        return [section for section in others if list(section.lines) not in known] or others

    def say_next(self, command: str, *, also_in_pipe: bool = False) -> None:
        """Name the next command below a result on a terminal, or wherever notes go."""
        if self.part is not None and not also_in_pipe:
            self.part.following.append(command)
        elif self.is_on_screen or also_in_pipe:
            self.note(f"next: {command}")

    def note(self, text: str) -> None:
        """Write a note to stderr, as a JSON object where errors are JSON; `-q` suppresses it. One that begins with
        `next: ` is a command, which keeps the files that this one names.
        """
        if self.quiet or _is_spoiled(text):
            return
        if self.part is not None and text.startswith(_NOTE):
            text = f"{_NOTE}{self.part.name}: {text.removeprefix(_NOTE)}"
        if text.startswith(_NEXT):
            text = _NEXT + add_context_options(text.removeprefix(_NEXT), invocation.arguments)
        if self.notes.as_json:
            write_json_message(dumps({"type": "note", "message": text.removeprefix(_NOTE)}))
            return
        text = escape_control(cut_middle(spell_tables_as_typed(text, invocation.arguments)))
        if self.notes.coloured and text.startswith(_NEXT):
            write_message(text, lambda shown: self.terminal._replace(colour=True).paint(shown, Style.NEXT))
        else:
            write_message(text)

    def open(self, table: str, *, writes: bool = False) -> Storage:
        """Open the store of a table, which the command `writes` to or only reads.

        Raises UsageError, also where the table's format is ambiguous and was not given, or was given as Paimon, and
        NoAtomicCreate where a command writes to a read-only store, before any request is sent.
        """
        if self.table_format is TableFormat.PAIMON:
            raise PaimonTable("this command works on Delta tables only", code="usage.table-format")
        return self.open_either(table, writes=writes)

    def open_either(self, table: str, *, writes: bool = False) -> Storage:
        """Open the store of a table of either format. Raises what `open` raises."""
        from deltacli.table.table_directories import require_one_format

        storage = self.open_other(table, writes=writes)
        if self.table_format is None:
            require_one_format(storage)
        return storage

    def open_table(self, table: str, *, writes: bool = False) -> Table:
        return self.table_of(self.open(table, writes=writes))

    def table_of(self, storage: Storage, name: str | None = None) -> Table:
        """Return the table in an open store with the settings of this run; `name` is how errors call it."""
        from deltacli.api.table import Table

        return self.handle_of(storage, Table, name=name)

    def handle_of(self, storage: Storage, kind: type[Handled], **own: Any) -> Handled:  # Any: parameters of the class
        """Return a handle of the table in an open store, like `table_of`."""
        return kind(
            storage,
            engine=self.engine,
            clock=self.clock,
            progress=self.progress_of(storage),
            open_other=self.open_other,
            allowed=self.allowed,
            location=self.location_of(storage) if self.engine.may_repeat else None,
            **own,
        )

    def progress_of(self, storage: ReadStorage) -> Progress:
        """Return the progress of an operation on a store; it names the cluster engine where this process takes long."""
        if self.quiet or not self.engine_source.can_use_cluster or self.engine.may_repeat:
            return self.progress
        return LongStepAdvisor(self.progress, self._suggest_cluster, is_remote=storage.capabilities.parallel_reads > 1)

    def _suggest_cluster(self, why: str) -> None:
        self.note(f"note: {why}; on a Spark cluster: {repeat_command_with(invocation.arguments, '--engine', 'spark')}")

    def location_of(self, storage: ReadStorage) -> StoreLocation | None:
        """Return where other processes find the store of a table; None for a shared one, which by its directory gives
        them credentials itself. Raises UsageError for tables of a catalog, whose credentials stay in this process.
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
        budget = None if self.stores.retry_budget_ms is None else self.stores.retry_budget_ms / 1_000
        return StoreLocation.of(storage.uri, self.stores.storage_options, self.allowed, budget)

    def open_other(self, uri: str, *, writes: bool = False) -> Storage:
        if not self._openers:
            self.make_stores()
        return self._openers[0].open(uri, writes=writes)

    def open_catalog(self) -> UnityCatalog:
        """Return the catalog of tables `uc://…`. Raises UsageError where none is configured."""
        if not self._openers:
            self.make_stores()
        return self._openers[0].open_catalog()

    def expand_in_catalog(self, pattern: str) -> list[str]:
        """Return the addresses of tables that match a pattern. Raises UsageError, and what a catalog raises."""
        from deltacli.catalogs.unity.unity import addresses_matching

        return addresses_matching(self.open_catalog(), pattern)

    def throttled(self, calls_per_second: float | None) -> CommandContext:
        """Return this run with stores limited to a rate, if one is given; its tables show no progress."""
        stores = self.make_stores(calls_per_second)
        stores.policy()  # made before threads ask for it: all share one rate
        return replace(self, progress=SILENT, engine_source=self.engine_source.without_advice(), _openers=[stores])

    def make_stores(self, calls_per_second: float | None = None) -> Stores:
        """Return what opens stores with the options of this run, with a policy of retries of its own."""
        note = None if self.quiet else self.note
        self._openers.append(Stores(self.stores, note, calls_per_second))
        return self._openers[-1]

    def sink(self, *, content: Format | None = None) -> AbstractContextManager[BinaryIO]:
        """Open the destination of the result: a file, a pipe, or a terminal with a pager; `content`: its format."""
        return self.results.open(content)


def _is_spoiled(text: str) -> bool:
    """Return True for a command to paste whose secrets would be masked in the output."""
    return text.startswith(_NEXT) and mask_secrets(text) != text
