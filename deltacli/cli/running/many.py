"""One command on several tables: a plan of each, one question, then one after another, and one document of all."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeAlias

import pyarrow as pa

from deltacli.changing.file_totals import NO_FILES
from deltacli.cli.command_tree import path_of
from deltacli.cli.errors import make_error_document, make_error_from_exception, report_error
from deltacli.cli.invocation import Exit, invocation
from deltacli.cli.output.formats import MARKDOWN, TABLE
from deltacli.cli.output.grids import EncodedItems, Grid, RowEncoder, WriteItems, encode_line
from deltacli.cli.output.results import Document, Result
from deltacli.cli.render.many import (
    Overview,
    TableRow,
    TableState,
    state_of_error,
    state_of_result,
    sum_rows,
)
from deltacli.cli.running.changing import Mode, PlannedChange
from deltacli.cli.running.consent import confirm_change
from deltacli.cli.terminal.capabilities import Style
from deltacli.cli.terminal.characters import encode_utf8, escape_control
from deltacli.cli.terminal.signals import Interrupted
from deltacli.cli.terminal.stderr import clean_message
from deltacli.cli.terminal.suggested_commands import repeat_command, repeat_command_with, repeat_command_with_flags
from deltacli.core.documents import SCHEMA_VERSION, dumps, loads
from deltacli.core.errors import DeltacliError, PaimonTable, UsageError, is_shared
from deltacli.core.open_files import raise_open_file_limit
from deltacli.core.texts import summarize_names
from deltacli.core.units import format_size, plural
from deltacli.delta.log.segment import LOG_DIRECTORY
from deltacli.storage.secrets import mask_secrets
from deltacli.table.discover import find_tables, identify_directory, is_pattern, note_log_backups

if TYPE_CHECKING:
    from deltacli.changing.file_totals import FileTotals
    from deltacli.cli.hints.suggestion import Suggestion
    from deltacli.cli.running.context import CommandContext
    from deltacli.core.typing import JsonObject

    AnyPlannedChange: TypeAlias = PlannedChange[Any, Any]  # Any: a plan and an outcome of any change
    Use: TypeAlias = Callable[[CommandContext, str], None]
    """Runs a command on one table."""

_NAMED = 5
_OTHER_FILES = 64
"Open files besides the directories of tables: libraries, the log, and what is read at once."
EXIT_CODE_ORDER = (70, 8, 7, 3, 2, 5, 6, 4, 1, 0)
"""Exit codes, the one that counts first."""

_OF_ONE_TABLE = (
    ArithmeticError,
    AssertionError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)

_NOT_BEGUN = "interrupted before this table was begun; nothing was changed"
_OF_FORMAT = (PaimonTable.code, "table.format-ambiguous")
"""Codes of usage errors that are about a table, and not about the command line."""


class Part:
    """One of the tables, what became of it, and what is left to be done on it."""

    def __init__(self, name: str, uri: str, fault: DeltacliError | None = None, *, is_found: bool = False) -> None:
        self.is_found, self.is_left_out = is_found, False
        """Whether a pattern has found it, and whether it has a format that the command does not know."""
        self.typed, self.name, self.uri, self.fault = name, mask_secrets(name), uri, fault
        self.result: Result | None = None
        self.error: JsonObject | None = None
        self.pending: AnyPlannedChange | None = None
        self.exit_code = 0
        self.following: list[str] = []
        self.others: list[str] = []
        """What was written before, of any table."""
        self.shows_details = False
        """Whether the result of the table is shown, besides its row among those of all tables."""
        self.state: TableState | None = None
        """What is planned or was done; None where neither is known."""
        self.files: int | None = None
        self.size_bytes: int | None = None

    def state_plan(self, amount: FileTotals | None, *, is_noop: bool) -> None:
        """Keep what is planned, for the row of the table."""
        self.state = TableState.NOTHING if is_noop else TableState.PLANNED
        if amount is not None:
            self.files, self.size_bytes = amount.files, amount.size_bytes

    def state_outcome(self, files: int, size_bytes: int | None) -> None:
        """Keep how many files it was done with, for the row of the table."""
        self.state, self.files, self.size_bytes = TableState.DONE, files, size_bytes

    def row(self) -> TableRow:
        """Return the table as one row among those of all tables."""
        if self.error is None:
            state = self.state
            if state in (None, TableState.DONE):
                state = state_of_result(self.exit_code)
            return TableRow(self.name, self.uri, state, self.files, self.size_bytes)
        error_code, exit_code = self.error["code"], self.error["exit"]
        state = state_of_error(exit_code, error_code)
        has_amount = state.counts and self.state is TableState.DONE
        amount = (self.files, self.size_bytes) if has_amount else (None, None)
        return TableRow(self.name, self.uri, state, *amount, code=error_code)

    def fail(self, fault: DeltacliError) -> None:
        self.error = self._pasted_from_here(report_error(fault, invocation.arguments, self.name))
        self.exit_code = fault.exit_code

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the exit code of what is done on the table, and report an error, so that the others can go on."""
        try:
            yield
        except DeltacliError as fault:
            self.fail(fault)
        except Exit as ended:
            self.exit_code = ended.exit_code
        except BrokenPipeError:
            raise
        except _OF_ONE_TABLE as error:
            self.fail(make_error_from_exception(error))

    def interrupted(self, interruption: Interrupted, message: str) -> None:
        document = make_error_document("interrupted", interruption.exit_code, message, self.name, {}, None)
        self.result, self.error = None, self._pasted_from_here(document)

    def _pasted_from_here(self, document: JsonObject) -> JsonObject:
        """Return an error with the URI that documents of tables have, and commands that have the `-C` of this run."""
        found: JsonObject = loads(clean_message(dumps({**document, "uri": self.uri}).decode()).encode())
        return found

    def head(self, run: CommandContext, sink: BinaryIO) -> None:
        name = escape_control(self.name)
        line = f"### {name}\n" if run.format is MARKDOWN else run.terminal.paint(f"{name}:", Style.HEADING)
        sink.write(encode_utf8(("\n" if self.others else "") + line + "\n"))
        self.others.append(self.name)


# -- the results of all ------------------------------------------------------------------------------------------------


class _Results(Result):
    """The documents of all tables, in their order; where one failed, its error, after what was done before."""

    def __init__(self, parts: Sequence[Part], *, is_whole: bool) -> None:
        self._parts = [part for part in parts if part.error is not None or part.result is not None]
        self._is_complete = is_whole and all(part.error is None for part in self._parts)

    def document(self) -> Document:
        documents = [
            one
            for part in self._parts
            for one in (None if part.result is None else _whole(part.result), part.error)
            if one is not None
        ]
        rows = self.rows()
        fields = {"kind": "deltacli.many", "schemaVersion": SCHEMA_VERSION, "complete": self._is_complete}
        return Document(
            {**fields, "documents": documents, "tables": [row.as_json() for row in rows], "total": sum_rows(rows)}
        )

    def rows(self) -> list[TableRow]:
        """Return one row per table."""
        return [part.row() for part in self._parts]

    def lines(self, write_items: WriteItems) -> bool:
        for part in self._parts:
            if part.result is not None:
                part.result.lines(_Naming(part.uri, write_items))
            if part.error is not None:
                write_items(encode_line({name: value for name, value in part.error.items() if name != "type"}, "error"))
        return self._is_complete

    def grid(self) -> Grid:
        return _Rows([part for part in self._parts if part.result is not None])


def _whole(result: Result) -> JsonObject:
    document = result.document()
    if document.items is None:
        return document.fields
    items = b"".join(bytes(block.data) for block in document.items)
    fields = {name: value for name, value in document.fields.items() if name != "complete"}
    return {**fields, "items": loads(b"[" + items[:-2] + b"]"), **document.make_last_fields()}


class _Naming:
    """Writes lines of NDJSON with the table that they are about, behind their type."""

    def __init__(self, uri: str, write_items: WriteItems) -> None:
        self._named, self._emit = b'"table":' + dumps(uri) + b",", write_items

    def __call__(self, block: EncodedItems) -> None:
        named = re.sub(
            rb'^(\{"type":"[a-z-]+",)(?!"table":)',
            lambda found: found[1] + self._named,
            bytes(block.data),
            flags=re.MULTILINE,
        )
        self._emit(EncodedItems(block.count, memoryview(named)))


class _Rows(NamedTuple):
    """The rows of all tables, behind the table of each."""

    parts: Sequence[Part]

    def encode(self, encoder: RowEncoder) -> Iterator[bytes | memoryview]:
        for number, part in enumerate(self.parts):
            if part.result is not None:
                yield from part.result.grid().encode(_WithTable(encoder, part.uri, has_header=number == 0))


class _WithTable:
    """An encoder whose rows have the table in front."""

    def __init__(self, encoder: RowEncoder, uri: str, *, has_header: bool) -> None:
        self.is_for_people = encoder.is_for_people
        self._encoder = encoder
        self._uri = uri
        self._has_header = has_header

    def encode_header(self, names: Sequence[str], align_right: Sequence[bool] = ()) -> bytes:
        return self._encoder.encode_header(["table", *names], [False, *align_right]) if self._has_header else b""

    def encode_row(self, values: Sequence[object]) -> bytes:
        return self._encoder.encode_row([self._uri, *values])

    def encode_columns(self, columns: Sequence[pa.Array], rows: int, null: str = "") -> EncodedItems:
        return self._encoder.encode_columns([pa.repeat(self._uri, rows), *columns], rows, null)


# -- a run on several tables -------------------------------------------------------------------------------------------


def run_many(
    run: CommandContext,
    names: Sequence[str],
    use: Use,
    mode: Mode,
    of_one: Mapping[str, object] = MappingProxyType({}),
    *,
    lists_files: bool = False,
) -> None:
    """Run a command on several tables, and raise Exit with the exit code that counts first.

    All are planned and shown before a question about all of them: a row per table and the totals, and with `-v` or
    `lists_files` the details of each table above them. An error on one table does not stop the others, but nothing is
    done where the command line is wrong for one. `of_one`: options that work on one table, and their values. Raises
    UsageError, also for these.
    """
    if len(names) == 1 and not is_pattern(run.open_other(names[0]), names[0]):
        use(run, names[0])
        return
    given = {**of_one, "--output": None if run.output == "-" else run.output}
    for option, value in given.items():
        if value is not None and value is not False:
            raise UsageError(f"{option} works on one table", facts={"tables": summarize_names(names, _NAMED)})
    parts = _parts(run, names)
    _require_open_files(len(parts))
    shows_details = lists_files or run.verbosity > 0
    for part in parts:
        part.shows_details = shows_details
    try:
        _plan(run, parts, use)
    except Interrupted as interruption:
        _give_up(parts, interruption)
        _write(run, parts, is_whole=False)
        raise
    is_whole, refused = False, 0
    try:
        refused = _execute(run, parts, mode)
        is_whole = True
    finally:
        if not (refused and _is_for_people(run)):  # else the rows of the plans are there already
            _write(run, parts, is_whole=is_whole)
    failed = [part.name for part in parts if part.error is not None]
    if failed and run.format is TABLE:
        tried = sum(not part.is_left_out for part in parts)
        run.note(f"note: {tried - len(failed):,} of {plural(tried, 'table')} done; failed: {', '.join(failed)}")
    if mode.only_plans and run.is_on_screen and not shows_details:
        run.note(f"details of each table: {repeat_command_with_flags(invocation.arguments, ['-v'])}")
    following = {line for part in parts for line in part.following}
    if len(following) == 1:
        run.say_next(following.pop())
    if code := first_exit_code([refused, *(part.exit_code for part in parts)]):
        raise Exit(code)


def _require_open_files(tables: int) -> None:
    """Raise UsageError where the plans, each of which holds the directory of its table, are too many to be open."""
    needed = tables + _OTHER_FILES
    if (limit := raise_open_file_limit(needed)) < needed:
        raise UsageError(
            f"{plural(tables, 'table')} at once need {needed:,} open files, and this process may open {limit:,}",
            facts={"to allow them": f"ulimit -n {needed}", "for many tables": "deltacli fleet init"},
        )


def require_tables(names: Sequence[str]) -> None:
    """Raise UsageError for one of several local names that is no table: it is, probably, the value of an option."""
    for name in names if len(names) > 1 else ():
        reason = _not_a_table(name, names)
        if reason is not None:
            meant = _meant_by(name)
            question = f"; did you mean {meant.name}?" if meant is not None and meant.name else ""
            hint = (
                repeat_command([word for word in invocation.arguments if word != name])
                if os.path.exists(name)
                else None
            )
            raise UsageError(f"unexpected argument: {name}; {reason}{question}", hint=meant.hint if meant else hint)


def _not_a_table(name: str, names: Sequence[str]) -> str | None:
    """Return why a name is no table; None for one that may be, and for what takes a request to look at."""
    if not name or "://" in name or name[:5].lower() == "file:" or is_shared(name):
        return None
    try:
        mode = os.stat(name).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None if {*"*?["} & {*name} else "there is no such file or directory"
    except (OSError, ValueError):
        return None
    if not stat.S_ISDIR(mode):
        return "it is a file"
    kept = any(os.path.isdir(os.path.join(name, below)) for below in (LOG_DIRECTORY, "schema"))
    if kept or not os.access(name, os.R_OK | os.X_OK):
        return None
    around = next((other for other in names if _is_inside(name, other)), None)
    return f"it is a directory without {LOG_DIRECTORY}" if around is None else f"it is inside the table {around}"


def _meant_by(name: str) -> Suggestion | None:
    """Return the option whose value a name probably is."""
    from deltacli.cli.command_loading import has_option
    from deltacli.cli.hints.suggestion import Suggestion
    from deltacli.cli.hints.words import suggest_for_extra_word

    arguments = invocation.arguments
    path = path_of(arguments)
    given = {word.partition("=")[0] for word in arguments}
    exists = os.path.exists(name)
    numbers = [option for option in ("--retention", "--version") if has_option(path, option)]
    if not exists and (meant := suggest_for_extra_word(name, numbers, arguments)) is not None:
        return meant
    rest, value = [word for word in arguments if word != name], name
    if name.isdecimal() and not exists:
        option, value = "--retention", f"{name}d"
    elif name.endswith(".parquet"):
        option = "--apply" if exists else "--save-plan"
    elif exists:
        option = "--quarantine" if os.path.isdir(name) and "=" not in name else ""
    else:
        option = "--zorder" if re.fullmatch(r"[\w.,]+", name) else ""
    if not option or option in given or not has_option(path, option):
        return None
    return Suggestion(f"{option} {value}", repeat_command_with(rest, option, value))


def _is_inside(name: str, other: str) -> bool:
    return os.path.realpath(name).startswith(os.path.realpath(other) + os.sep)


def first_exit_code(codes: Sequence[int]) -> int:
    """Return the exit code of several that counts first."""
    return min(codes, key=EXIT_CODE_ORDER.index)


def _parts(run: CommandContext, names: Sequence[str]) -> list[Part]:
    """Return the tables at paths and those that match patterns, each once. Raises UsageError."""
    found: dict[str, Part] = {}
    for name in names:
        storage = run.open_other(name)
        try:
            if not is_pattern(storage, name):
                _add(run, found, identify_directory(storage), Part(name, storage.uri))
                continue
            targets = find_tables([name], run.open_other, progress=run.progress)
        except UsageError:
            raise
        except DeltacliError as fault:
            found[name] = Part(name, storage.uri, fault)
            continue
        note_log_backups(run.note, targets.log_backups)
        for path, failure in targets.failures:
            found[path] = Part(path, storage.uri, failure)
        for target in targets.tables:
            part = Part(target.name, target.storage.uri, is_found=True)
            _add(run, found, identify_directory(target.storage), part)
    return list(found.values())


def _add(run: CommandContext, found: dict[str, Part], place: str, part: Part) -> None:
    if (same := found.setdefault(place, part)) is not part:
        run.note(f"note: {part.name} is the same table as {same.name}, which is done once")


def _plan(run: CommandContext, parts: Sequence[Part], use: Use) -> None:
    """Use each table, which shows its plan and keeps it for later. Raises Exit for a wrong command line."""
    left_out: dict[str, list[str]] = {}
    for part in parts:
        part.others = parts[0].others
        with part.kept():
            try:
                if part.fault is not None:
                    raise part.fault
                use(run.replace_part(part), part.typed)
            except UsageError as wrong:
                if wrong.code in _OF_FORMAT and part.is_found:
                    left_out.setdefault(wrong.reason, []).append(part.name)
                    part.is_left_out = True
                    continue
                if wrong.code in _OF_FORMAT:
                    raise
                part.fail(wrong)
                raise Exit(wrong.exit_code) from wrong
        if part.exit_code == UsageError.exit_code and part.error is not None and part.error["code"] not in _OF_FORMAT:
            raise Exit(part.exit_code)
    for reason, names in left_out.items():
        which = f"{names[0]} is" if len(names) == 1 else f"{summarize_names(names, _NAMED)} are"
        run.note(f"note: {which} left out: {reason}")


def _write(run: CommandContext, parts: Sequence[Part], *, is_whole: bool) -> None:
    """Write the result of all tables: documents for programs, for people a row per table and the totals."""
    results = _Results(parts, is_whole=is_whole)
    if not _is_for_people(run):
        run.write(results)
        return
    rows = results.rows()
    if not rows:
        return
    invocation.is_reporting = invocation.has_agreed
    written = parts[0].others
    with run.sink() as sink:
        if written:
            sink.write(b"\n")
        run.format.write(sink, Overview(rows), run.terminal)
    written.append("")


def _is_for_people(run: CommandContext) -> bool:
    return run.format in (TABLE, MARKDOWN)


def _give_up(parts: Sequence[Part], interruption: Interrupted) -> None:
    """Make an interruption while tables are planned the error of those whose plan is not the result."""
    for part in parts:
        if part.error is None and (part.result is None or part.pending is not None):
            part.interrupted(interruption, _NOT_BEGUN)


def _execute(run: CommandContext, parts: Sequence[Part], mode: Mode) -> int:
    """Ask once, and execute the plans one after another. Return the exit code of the answer."""
    planned = [(part, part.pending) for part in parts if part.pending is not None]
    try:
        if asking := [(part, pending) for part, pending in planned if pending.asks]:
            if not mode.yes and _is_for_people(run):
                _write(run, parts, is_whole=False)
            facts = {f"{part.name}, {name}": fact for part, one in asking for name, fact in one.facts.items()}
            confirm_change(run, _question(asking), lambda: None, yes=mode.yes, facts=facts)
    except DeltacliError as refused:
        report_error(refused, invocation.arguments, None)
        return refused.exit_code
    for done, (part, pending) in enumerate(planned):
        invocation.is_reporting = False
        try:
            with part.kept():
                pending.execute(is_agreed=True)
        except Interrupted as interruption:
            done_before = part.result if invocation.is_reporting else None  # else it is the plan
            interruption.outcome = (
                f"{done} of {plural(len(planned), 'table')} done; {part.name}: {interruption.outcome}"
            )
            part.interrupted(interruption, interruption.message)
            part.result = done_before
            for later, _ in planned[done + 1 :]:
                later.interrupted(interruption, _NOT_BEGUN)
            raise
    return 0


def _question(asking: Sequence[tuple[Part, AnyPlannedChange]]) -> str:
    deeds = [pending.deed for _, pending in asking]
    total = sum((amount for _, amount in deeds), NO_FILES)
    numbers = [f"{part.name} {amount.files:,}" for (part, _), (_, amount) in zip(asking, deeds, strict=True)]
    each = summarize_names(numbers, _NAMED)  # each has a row above the question
    count = f"{plural(total.files, 'file')} ({format_size(total.size_bytes)})"
    return f"{deeds[0][0]} {count} of {plural(len(asking), 'table')}{asking[0][1].wording.kept}: {each}"
