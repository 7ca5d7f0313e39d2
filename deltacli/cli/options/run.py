"""The run of a command: the settled values of the options that all commands share."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from deltacli.cli.formats import TABLE, Format
from deltacli.cli.invocation import invocation
from deltacli.cli.options.global_options import TableFormat
from deltacli.cli.terminal.interrupts import before_leaving
from deltacli.cli.terminal.output import open_sink
from deltacli.cli.terminal.term import Style, Terminal, close_live_line, say, say_json
from deltacli.core.clock import Clock
from deltacli.core.documents import dumps
from deltacli.core.errors import PaimonTable
from deltacli.core.progress import SILENT, Progress
from deltacli.core.units import format_size, plural

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.cli.options.stores import Stores
    from deltacli.cli.render.sections import Section
    from deltacli.cli.results import Result
    from deltacli.engine.base import Engine
    from deltacli.engine.spark.session import SparkSettings
    from deltacli.storage import Allowed, ReadStorage, Storage
    from deltacli.storage.location import StoreLocation
    from deltacli.table.handle import TableHandle

    Handled = TypeVar("Handled", bound=TableHandle)

_NEXT = "next: "


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Run:
    """The settled values of the shared options of one invocation."""

    format: Format
    output: str | None
    clock: Clock
    storage_options: Mapping[str, str]
    terminal: Terminal
    quiet: bool
    verbosity: int
    table_format: TableFormat | None = None
    """The format of tables if it was given, else it is detected."""
    progress: Progress = SILENT
    progress_is_asked_for: bool = False
    log_is_json: bool = False
    is_paged: bool = True
    retry_budget_ms: int | None = None
    allow_external: tuple[str, ...] = ()
    directory: str | None = None
    """Where `--output` names a directory: rows are written there as Parquet, and the result says what was written."""
    colours_notes: bool = False
    """Notes go to a terminal that shows colour."""
    can_use_cluster: bool = False
    """The command may run on a cluster."""
    cluster: SparkSettings | None = None
    """The cluster that does the work; None: this process."""
    of_one_format: dict[str, str] = field(default_factory=dict)
    """The given options that work on one format only, with the format."""
    confirmed: list[Result] = field(default_factory=list)
    """The plan that the user read on this screen and agreed to."""
    _written: list[Result] = field(default_factory=list)
    """The last result."""
    _stores: list[Stores] = field(default_factory=list)
    """All that were made. The first one is that of the run."""
    _engines: list[Engine] = field(default_factory=list)

    @property
    def engine(self) -> Engine:
        """Return the engine of this run, the same one for all of its operations. Raises what opening it raises."""
        if not self._engines:
            self._engines.append(self._open_engine())
            before_leaving.append(self._engines[0].abandon)
        return self._engines[0]

    def _open_engine(self) -> Engine:
        if self.cluster is not None:
            from deltacli.engine.spark.session import open_engine

            return open_engine(self.cluster, self.progress)
        from deltacli.engine.embedded import EmbeddedEngine

        return EmbeddedEngine()

    def close(self) -> None:
        """Release the engine, such as a session of a cluster. With `-v`, report the calls to object stores."""
        while self._engines:
            engine = self._engines.pop()
            before_leaving.remove(engine.abandon)
            engine.close()
        if self.verbosity and not self.quiet:
            self._report_calls()

    def _report_calls(self) -> None:
        from deltacli.cli.options.stores import document_of, merged, text_of

        for host in merged(host for stores in self._stores for host in stores.tallies):
            if self.log_is_json:
                say_json(dumps(document_of(host)))
            else:
                say(text_of(host))

    @property
    def allowed(self) -> Allowed:
        """Return the prefixes below which files outside a table may be opened. Raises UsageError."""
        from deltacli.storage import NOTHING

        if not self.allow_external:
            return NOTHING
        from deltacli.work.rows.table_files import read_prefixes

        return read_prefixes(self.allow_external)

    @property
    def is_on_screen(self) -> bool:
        """True where the result is shown on a terminal and followed by the next command."""
        return self.terminal.is_terminal and self.format is TABLE

    def write(self, result: Result) -> None:
        """Write a result in the run's format to its destination; of a confirmed plan only what has become of it."""
        invocation.is_reporting = invocation.has_agreed
        self._written[:] = [result]
        with self.sink() as sink:
            if new := self._new_sections(result):
                from deltacli.cli.render.text_form import write_sections

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
        if self.log_is_json and not self.format.errors_are_json:
            self.note(said)
        else:
            say(said)  # plain text, as progress is, also where the file is JSON

    def confirm(self) -> None:
        """Remember that the user agreed to the plan that was written last."""
        if self.is_on_screen:
            self.confirmed[:] = self._written

    def _new_sections(self, result: Result) -> list[Section]:
        if not self.confirmed or result.lists or type(self.confirmed[0]) is not type(result):
            return []  # the rows of a list are in no section
        shown = [(section.label, list(section.lines)) for section in self.confirmed[0].sections(self.terminal)]
        filled = [section for section in result.sections(self.terminal) if section.lines]
        others = [section for section in filled if (section.label, list(section.lines)) not in shown]
        known = [lines for _, lines in shown]
        return [section for section in others if list(section.lines) not in known] or others

    def say_next(self, command: str, *, also_in_pipe: bool = False) -> None:
        """Name the next command below a result on a terminal, or wherever notes go."""
        if self.is_on_screen or also_in_pipe:
            self.note(f"next: {command}")

    def note(self, text: str) -> None:
        """Write a note to stderr, as a JSON object where errors are JSON; `-q` suppresses it. One that begins with
        `next: ` is a command, which keeps the files that this one names.
        """
        if self.quiet or _is_spoiled(text):
            return
        from deltacli.cli.terminal.shell import as_typed, with_files

        if text.startswith(_NEXT):
            text = _NEXT + with_files(text.removeprefix(_NEXT), invocation.arguments)
        if self.log_is_json:
            say_json(dumps({"type": "note", "message": text.removeprefix("note: ")}))
            return
        text = as_typed(text, invocation.arguments)
        if self.colours_notes and text.startswith(_NEXT):
            say(text, lambda shown: self.terminal._replace(colour=True).paint(shown, Style.NEXT))
        else:
            say(text)

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
        from deltacli.table.find_log import require_delta

        storage = self.open_other(table, writes=writes)
        if self.table_format is None:
            require_delta(storage)
        return storage

    def open_table(self, table: str, *, writes: bool = False) -> Table:
        """Open a table with the engine, clock, progress and stores of this run. Raises what `open` raises."""
        return self.table_of(self.open(table, writes=writes))

    def table_of(self, storage: Storage, name: str | None = None) -> Table:
        """Return the table in an open store, with the engine, clock, progress and stores of this run. `name`: how
        errors call it, instead of as the user wrote it.
        """
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
        if self.quiet or not self.can_use_cluster or self.engine.may_repeat:
            return self.progress
        from deltacli.cli.options.cluster import LongJobs

        return LongJobs(self.progress, self._suggest_cluster, is_far=storage.capabilities.parallel_reads > 1)

    def _suggest_cluster(self, why: str) -> None:
        from deltacli.cli.terminal.shell import again_with

        self.note(f"note: {why}; on a Spark cluster: {again_with(invocation.arguments, '--engine', 'spark')}")

    def location_of(self, storage: ReadStorage) -> StoreLocation | None:
        """Return where other processes find the store of a table; None for a shared one."""
        from deltacli.storage.base import StoreOfVersions
        from deltacli.storage.location import StoreLocation

        if isinstance(storage, StoreOfVersions):
            return None
        budget = None if self.retry_budget_ms is None else self.retry_budget_ms / 1_000
        return StoreLocation.of(storage.uri, self.storage_options, self.allowed, budget)

    def open_other(self, uri: str, *, writes: bool = False) -> Storage:
        """Open the store of something that is not a table, such as a backup. Raises what `open` raises."""
        if not self._stores:
            self.make_stores()
        return self._stores[0].open(uri, writes=writes)

    def throttled(self, calls_per_second: float | None) -> Run:
        """Return this run with stores of its own, whose requests to each host are limited to a rate, if one is given;
        its tables show no progress.
        """
        stores = self.make_stores(calls_per_second)
        stores.policy()  # made before threads ask for it: all share one rate
        return replace(self, progress=SILENT, can_use_cluster=False, _stores=[stores])

    def make_stores(self, calls_per_second: float | None = None) -> Stores:
        """Return what opens stores with the options of this run, with a policy of retries of its own."""
        from deltacli.cli.options.stores import Stores

        note = None if self.quiet else self.note
        self._stores.append(Stores(self.storage_options, self.allowed, self.retry_budget_ms, note, calls_per_second))
        return self._stores[-1]

    def sink(self, *, content: Format | None = None) -> AbstractContextManager[BinaryIO]:
        """Open the destination of the result: a file, a pipe, or a terminal, with a pager where that is useful.

        `content` is the format to write where it is not the run's format.
        """
        if self.terminal.is_terminal:
            from deltacli.cli.terminal.pager import open_screen

            shown = content or self.format
            return open_sink(None, open_screen(shown.cleaning, is_paged=self.is_paged and shown.is_paged))
        if not self.progress_is_asked_for and self.output in (None, "-") and _is_pipe(sys.stdout):
            close_live_line()  # the reader of the pipe may draw on the same terminal
        return open_sink(self.output)


def _is_spoiled(text: str) -> bool:
    """Return True for a command to paste whose secrets would be masked in the output."""
    from deltacli.storage.secrets import without_secrets

    return text.startswith(_NEXT) and without_secrets(text) != text


def _is_pipe(stream: Any) -> bool:  # Any: a standard stream or a test's replacement
    try:
        return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False
