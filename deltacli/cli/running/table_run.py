"""The run of a command on one of several tables: its plan, its result or error, and its row in the overview."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, BinaryIO, Protocol

from deltacli.cli.errors import make_error_document, make_error_from_exception, report_error
from deltacli.cli.invocation import Exit, invocation
from deltacli.cli.output.formats import MARKDOWN, Format
from deltacli.cli.render.many import TableRow, TableState, state_of_error, state_of_result
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.cli.terminal.characters import encode_utf8, escape_control
from deltacli.cli.terminal.signals import Interrupted
from deltacli.cli.terminal.stderr import clean_message
from deltacli.core.documents import dumps, loads
from deltacli.core.errors import DeltacliError
from deltacli.storage.secrets import mask_secrets

if TYPE_CHECKING:
    from deltacli.changing.file_totals import FileTotals
    from deltacli.cli.output.results import Result
    from deltacli.core.typing import JsonObject

_UNEXPECTED_ERRORS = (
    ArithmeticError,
    AssertionError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""Errors other than `DeltacliError` that end the run on one table, but not the runs on the other tables."""

NOT_STARTED = "interrupted before this table was begun; nothing was changed"


class PendingChange(Protocol):
    """A planned change that is executed after the user has agreed to the changes of all tables."""

    @property
    def needs_consent(self) -> bool:
        """True if the user has to agree to the change."""

    @property
    def file_action(self) -> tuple[str, FileTotals]:
        """The verb of the change and the files that it affects, for example `("delete", FileTotals(3, 900))`."""

    @property
    def question_suffix(self) -> str:
        """The text after the number of tables in the question."""

    @property
    def facts(self) -> Mapping[str, str]:
        """The facts of the error if nobody can be asked."""

    def execute(self, *, is_agreed: bool) -> None:
        """Execute the change and write its outcome."""


class TableRun:
    """The run of a command on one of several tables.

    Attributes:
        argument: The table as the user typed it, or as a pattern matched it.
        name: The same without secrets, for texts.
        uri: The address of the table in documents.
        discovery_error: The error that occurred when the table was looked up. None: the table can be opened.
        is_from_pattern: Whether a pattern matched the table, as opposed to a table that the user named.
        is_skipped: Whether a pattern matched the table, but the command does not support the table's format.
        written_tables: The names of the tables whose results have been written so far. All runs of a command share
            this list, so a run can tell whether its result is the first one.
        result: The last result of the command: its plan, then its outcome.
        error: The error of the run as a JSON document.
        pending: The planned change that has not been executed yet.
        exit_code: The exit code of the run on this table.
        next_commands: Commands that the run suggests to run next.
        shows_details: Whether the result is written, in addition to the table's row in the overview.
        state: What is planned or done. None if neither is known.
        files: The number of files that are planned or done. None if it is not known.
        size_bytes: The size of these files. None if it is not known.
    """

    def __init__(
        self,
        argument: str,
        uri: str,
        *,
        written_tables: list[str],
        shows_details: bool,
        is_from_pattern: bool = False,
        discovery_error: DeltacliError | None = None,
    ) -> None:
        """Create a run. Nothing has been planned or done yet."""
        self.argument = argument
        self.name = mask_secrets(argument)
        self.uri = uri
        self.discovery_error = discovery_error
        self.is_from_pattern = is_from_pattern
        self.is_skipped = False
        self.written_tables = written_tables
        self.result: Result | None = None
        self.error: JsonObject | None = None
        self.pending: PendingChange | None = None
        self.exit_code = 0
        self.next_commands: list[str] = []
        self.shows_details = shows_details
        self.state: TableState | None = None
        self.files: int | None = None
        self.size_bytes: int | None = None

    def record_plan(self, totals: FileTotals | None, *, is_noop: bool) -> None:
        """Record the plan for the table's row in the overview. `totals` is None if the files are not known yet."""
        self.state = TableState.NOTHING if is_noop else TableState.PLANNED
        if totals is not None:
            self.files = totals.files
            self.size_bytes = totals.size_bytes

    def record_outcome(self, files: int, size_bytes: int | None) -> None:
        """Record the number and the size of the changed files for the table's row in the overview."""
        self.state = TableState.DONE
        self.files = files
        self.size_bytes = size_bytes

    def make_row(self) -> TableRow:
        """Return the table's row in the overview."""
        if self.error is None:
            state = self.state
            if state in (None, TableState.DONE):
                state = state_of_result(self.exit_code)
            return TableRow(self.name, self.uri, state, self.files, self.size_bytes)

        error_code = self.error["code"]
        state = state_of_error(self.error["exit"], error_code)
        # Planned files of a failed run were not changed. Only files of an outcome are counted.
        if state.counts and self.state is TableState.DONE:
            return TableRow(self.name, self.uri, state, self.files, self.size_bytes, code=error_code)
        return TableRow(self.name, self.uri, state, code=error_code)

    @contextlib.contextmanager
    def record_errors(self) -> Iterator[None]:
        """Report an error in the body and record its exit code, so that the runs on the other tables continue."""
        try:
            yield
        except DeltacliError as error:
            self.fail(error)
        except Exit as exit_request:
            self.exit_code = exit_request.exit_code
        except BrokenPipeError:
            # An OSError, but not one of the table: nobody reads the output of the command anymore.
            raise
        except _UNEXPECTED_ERRORS as error:
            self.fail(make_error_from_exception(error))

    def fail(self, error: DeltacliError) -> None:
        """Report an error, and record it as the result of the run."""
        self.error = self._complete_error_document(report_error(error, invocation.arguments, self.name))
        self.exit_code = error.exit_code

    def record_interruption(self, interruption: Interrupted, message: str) -> None:
        """Record an interruption as the error of the run, instead of its result."""
        document = make_error_document("interrupted", interruption.exit_code, message, self.name, {}, None)
        self.result = None
        self.error = self._complete_error_document(document)

    def _complete_error_document(self, document: JsonObject) -> JsonObject:
        """Return an error document with the URI of the table, and with the `-C` of this run in its commands."""
        text = dumps({**document, "uri": self.uri}).decode()
        completed: JsonObject = loads(clean_message(text).encode())
        return completed

    def write_heading(self, sink: BinaryIO, output_format: Format, terminal: Terminal) -> None:
        """Write the name of the table as a heading. A blank line separates it from the result of another table."""
        name = escape_control(self.name)
        heading = f"### {name}\n" if output_format is MARKDOWN else terminal.paint(f"{name}:", Style.HEADING)
        separator = "\n" if self.written_tables else ""
        sink.write(encode_utf8(f"{separator}{heading}\n"))
        self.written_tables.append(self.name)
