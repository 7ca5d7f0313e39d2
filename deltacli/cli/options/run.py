"""The run of a command: the settled values of the options that all commands share."""

from __future__ import annotations

import inspect
import os
import stat
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Optional, get_type_hints

import typer

from deltacli.cli.formats import (
    CSV,
    FOREIGN_ENDINGS,
    FORMATS,
    JSON,
    NDJSON,
    PARQUET,
    TABLE,
    AnyFormat,
    EveryFormat,
    Format,
    format_named,
)
from deltacli.cli.invocation import invocation
from deltacli.cli.options.asked import given_of_one_format, made_of, options_of
from deltacli.cli.options.configuration import (
    Variable,
    one_of,
    parse_storage_option,
    read_configuration,
    retry_budget_of,
)
from deltacli.cli.options.global_options import (
    DEFAULTS,
    GLOBAL_OPTIONS,
    OUTPUT_OF_ROWS,
    ColourChoice,
    LogFormat,
    ProgressChoice,
    TableFormat,
)
from deltacli.cli.options.moments import parse_moment
from deltacli.cli.options.targets import directory_of, require_directory, require_empty_target, require_target
from deltacli.cli.render.json import dumps
from deltacli.cli.terminal.interrupts import before_leaving
from deltacli.cli.terminal.output import open_sink
from deltacli.cli.terminal.term import Style, Terminal, close_live_line, colours_stderr, detect_terminal, say, say_json
from deltacli.clock import Clock, fixed_clock, system_clock
from deltacli.errors import PaimonTable, UsageError
from deltacli.progress import SILENT, Progress

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.cli.options.cluster import EngineSettings
    from deltacli.cli.options.stores import Stores
    from deltacli.cli.render.sections import Section
    from deltacli.cli.results import Result
    from deltacli.engine.base import Engine
    from deltacli.storage import Allowed, Storage
    from deltacli.storage.location import StoreLocation


def _format_options(formats: type[StrEnum]) -> dict[str, Any]:  # Any: annotations
    """Return `--format` with the values of a command, and `--json`, which is hidden where json is not one of them."""
    return {
        "output_format": Annotated[
            Optional[formats],  # noqa: UP045  (a value, not a type, to mypy)
            typer.Option(
                "--format", metavar="|".join(formats), help="Format of stdout.  [default: table]", show_default=False
            ),
        ],
        "as_json": Annotated[
            bool, typer.Option("--json", help="The same as --format json.", hidden="json" not in list(formats))
        ],
    }


class ReaderGoneError(Exception):
    """The reader of stdout has closed it; not an error."""


@dataclass(frozen=True, slots=True)
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
    engine_settings: EngineSettings | None = None
    """None for a command that runs only in this process."""
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
        if self.engine_settings is not None:
            return self.engine_settings.open(self.progress)
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
        self._written[:] = [result]
        with self.sink() as sink:
            if new := self._new_sections(result):
                from deltacli.cli.render.text_form import write_sections

                write_sections(sink, self.terminal, new)
            else:
                self.format.write(sink, result, self.terminal)

    def confirm(self) -> None:
        """Remember that the user agreed to the plan that was written last."""
        if self.is_on_screen:
            self.confirmed[:] = self._written

    def _new_sections(self, result: Result) -> list[Section]:
        if not self.confirmed or type(self.confirmed[0]) is not type(result):
            return []
        known = [section.lines for section in self.confirmed[0].sections(self.terminal)]
        return [section for section in result.sections(self.terminal) if section.lines not in known]

    def say_next(self, command: str) -> None:
        """Name the next command below a result on a terminal."""
        if self.is_on_screen:
            self.note(f"next: {command}")

    def note(self, text: str) -> None:
        """Write a note to stderr, as a JSON object where errors are JSON; `-q` suppresses it."""
        if self.quiet or _is_spoiled(text):
            return
        if self.log_is_json:
            say_json(dumps({"type": "note", "message": text.removeprefix("note: ")}))
        elif self.colours_notes and text.startswith("next: "):
            say(self.terminal._replace(colour=True).paint(text, Style.NEXT))
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
        from deltacli.operations.table.find_log import require_delta

        storage = self.open_other(table, writes=writes)
        if self.table_format is None:
            require_delta(storage)
        return storage

    def open_table(self, table: str, *, writes: bool = False) -> Table:
        """Open a table with the engine, clock, progress and stores of this run. Raises what `open` raises."""
        return self.table_of(self.open(table, writes=writes))

    def table_of(self, storage: Storage) -> Table:
        """Return the table in an open store, with the engine, clock, progress and stores of this run."""
        from deltacli.api.table import Table

        return Table(
            storage,
            engine=self.engine,
            clock=self.clock,
            progress=self.progress_of(storage),
            open_other=self.open_other,
            allowed=self.allowed,
            location=self.location_of(storage) if self.engine.may_repeat else None,
        )

    def progress_of(self, storage: Storage) -> Progress:
        """Return the progress of an operation on a store; it names the cluster engine where this process takes long."""
        if self.quiet or self.engine_settings is None or self.engine.may_repeat:
            return self.progress
        from deltacli.cli.long_jobs import LongJobs

        return LongJobs(self.progress, self._suggest_cluster, is_far=storage.capabilities.parallel_reads > 1)

    def _suggest_cluster(self, why: str) -> None:
        from deltacli.cli.terminal.shell import again_with

        self.note(f"note: {why}; on a Spark cluster: {again_with(invocation.arguments, '--engine', 'spark')}")

    def location_of(self, storage: Storage) -> StoreLocation | None:
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

    return text.startswith("next: ") and without_secrets(text) != text


def with_shared_options(
    command: Callable[..., None],
    formats: type[StrEnum] = AnyFormat,
    *,
    runs_on_cluster: bool = False,
    names_choose: bool = True,
) -> Callable[..., None]:
    """Add the shared options to a command, after its own. Its first parameter is `run`; it writes `formats`. A shared
    option is left out where the command has one of the same name, such as `--config` of `share serve`.

    `runs_on_cluster` adds the options that choose the engine. `names_choose`: the name of the output file chooses the
    format.
    """
    hints = get_type_hints(command, include_extras=True)
    requests: dict[str, Mapping[str, inspect.Parameter]] = {}
    own = []
    for name, parameter in [*inspect.signature(command).parameters.items()][1:]:
        if (found := options_of(hints[name])) is None:
            own.append(parameter.replace(annotation=hints[name]))
        else:
            requests[name] = found
            own += found.values()
    names = {parameter.name for parameter in own}
    shared_by_all = {**_format_options(formats), **GLOBAL_OPTIONS}
    declared = {name: annotation for name, annotation in shared_by_all.items() if name not in names}
    if runs_on_cluster:
        from deltacli.cli.options.cluster import CLUSTER_OPTIONS

        declared = {**CLUSTER_OPTIONS, **declared}
    if PARQUET.name in list(formats):
        declared["output"] = OUTPUT_OF_ROWS
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=DEFAULTS.get(name), annotation=annotation)
        for name, annotation in declared.items()
    ]

    def invoke(**options: Any) -> None:  # Any: values parsed by typer
        run = make_run(formats=formats, names_choose=names_choose, **{name: options.pop(name) for name in declared})
        try:
            run.of_one_format.update(given_of_one_format(own, options))
            for name, found in requests.items():
                options[name] = made_of(hints[name], found, {field: options.pop(field) for field in found})
            command(run, **options)
        except BrokenPipeError as closed:  # typer would turn it into exit 1
            raise ReaderGoneError from closed
        finally:
            run.close()

    invoke.__name__, invoke.__doc__ = command.__name__, command.__doc__
    invoke.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [*(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own), *shared]
    )
    invoke.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *shared]}
    return invoke


def make_run(
    *,
    formats: type[StrEnum] = AnyFormat,
    names_choose: bool = True,
    output_format: StrEnum | None,
    as_json: bool,
    output: str | None,
    now: str | None,
    storage_option: list[str] | None,
    retry_budget: str | None,
    allow_external: list[str] | None,
    table_format: TableFormat | None,
    config: str | None = None,
    colour: ColourChoice | None,
    progress: ProgressChoice | None,
    log_format: LogFormat | None,
    no_pager: bool,
    quiet: bool,
    verbose: int,
    **engine: Any,  # Any: the values of CLUSTER_OPTIONS
) -> Run:
    """Settle the shared options: option, then environment, then configuration file, then default. Raises UsageError.

    The name of the output file comes before the environment for its format.
    """
    path = config or Variable.CONFIG.read()
    settings = read_configuration(path)
    configuration = f"in the configuration {path}"
    _require_readable(formats, output_format, as_json=as_json)
    directory = directory_of(output) if PARQUET.name in list(formats) else None
    given = "json" if as_json else output_format
    is_named = names_choose and output is not None and format_named(output) is not None
    wished = _wished_format(EveryFormat if is_named else formats, given, settings, configuration)
    chosen = FORMATS.get(wished, TABLE) if wished in list(formats) else TABLE
    colours = colour or one_of(ColourChoice, settings.get("color"), f"color {configuration}") or ColourChoice.AUTO
    shows = _progress_choice(progress, settings, configuration)
    logs = log_format or (LogFormat.JSON if wished in FORMATS and FORMATS[wished].errors_are_json else LogFormat.TEXT)
    invocation.log_is_json, invocation.verbosity = logs is LogFormat.JSON, verbose
    if directory is not None:
        output = None
        chosen = _format_of_directory(chosen, output_format, directory)
    if output is not None:
        require_target(output, "--output")
        require_directory(output)
        chosen = (_format_of_name(output, formats, given) if names_choose else None) or chosen
    is_quiet = quiet or settings.get("quiet") is True
    return Run(
        format=chosen,
        output=output,
        clock=fixed_clock(parse_moment("--now", now, invocation.arguments)) if now is not None else system_clock,
        storage_options=settings.get("storage_options", {}) | dict(map(parse_storage_option, storage_option or [])),
        terminal=detect_terminal(colours, to_file=output not in (None, "-")),
        quiet=is_quiet,
        verbosity=verbose,
        table_format=table_format,
        progress=SILENT if is_quiet else _start_progress(shows, colour=colours is not ColourChoice.NEVER),
        progress_is_asked_for=shows is not ProgressChoice.AUTO,
        log_is_json=logs is LogFormat.JSON,
        is_paged=not no_pager,
        retry_budget_ms=retry_budget_of(retry_budget, settings.get("retry_budget"), configuration),
        allow_external=(*settings.get("allow_external", ()), *(allow_external or ())),
        directory=directory,
        colours_notes=colours_stderr(colours),
        engine_settings=_settle_engine(engine, settings, configuration) if engine else None,
    )


def _settle_engine(
    given: Mapping[str, Any], settings: Mapping[str, Any], configuration: str
) -> EngineSettings:  # Any: option and TOML values
    from deltacli.cli.options.cluster import settle_engine

    return settle_engine(**given, settings=settings, configuration=configuration)


def _format_of_directory(chosen: Format, given: StrEnum | None, directory: str) -> Format:
    """Return the format of the result that describes an output directory. Raises UsageError."""
    from deltacli.cli.terminal.shell import again_with

    require_empty_target(directory)
    if given in (NDJSON.name, CSV.name):
        raise UsageError(
            f"--format {given} cannot be written to a directory",
            code="usage.output",
            facts={"directory": directory, "expected": "parquet, or a file for --output"},
            hint=again_with(invocation.arguments, "--format", PARQUET.name),
        )
    return TABLE if chosen is PARQUET else chosen


def _require_readable(formats: type[StrEnum], output_format: StrEnum | None, *, as_json: bool) -> None:
    """Raise UsageError for conflicting options."""
    if as_json and output_format not in (None, "json"):
        raise UsageError(f"--json and --format {output_format} exclude each other")
    if as_json and "json" not in list(formats):
        raise UsageError("--json is not available: this command has a fixed format", hint="omit --json")


def _progress_choice(
    given: ProgressChoice | None, settings: Mapping[str, Any], configuration: str
) -> ProgressChoice:  # Any: TOML values
    """Return the kind of progress from the option, the environment or the configuration file. Raises UsageError."""
    return (
        given
        or one_of(ProgressChoice, Variable.PROGRESS.read(), Variable.PROGRESS)
        or one_of(ProgressChoice, settings.get("progress"), f"progress {configuration}")
        or ProgressChoice.AUTO
    )


def _format_of_name(output: str, formats: type[StrEnum], given: str | None) -> Format | None:
    """Return the format that the name of the output file chooses; None where it is left open, and for a command with a
    single format. Raises UsageError where an option contradicts the name, and where the command lacks the format.
    """
    named = format_named(output)
    if given is None and len(formats) > 1 and output.lower().endswith(FOREIGN_ENDINGS):
        raise UsageError(
            f"--output {output}: deltacli writes no {output.rpartition('.')[2]}",
            code="usage.output",
            facts={"formats": ", ".join(formats)},
            hint="choose another name, or add --format",
        )
    if named is None or len(formats) == 1:
        return None
    if given not in (None, named.name) and not (given == "sarif" and named is JSON):  # which SARIF is, too
        raise UsageError(
            f"--format {given} contradicts --output {output}, whose name chooses {named.name}",
            code="usage.output",
            hint="omit --format, or choose another name",
        )
    if named.name not in list(formats):
        raise UsageError(
            f"--output {output}: this command does not write {named.name}",
            code="usage.output",
            facts={"formats": ", ".join(formats)},
        )
    return None if given else named


def _wished_format(
    formats: type[StrEnum], given: str | None, settings: Mapping[str, Any], configuration: str
) -> str:  # Any: TOML values
    """Return the requested format, which may be one that the command does not have. Raises UsageError."""
    # A command with a single format ignores the default for all commands, but its errors follow it.
    defaults = EveryFormat if len(formats) == 1 else formats
    return str(
        given
        or one_of(defaults, Variable.FORMAT.read(), Variable.FORMAT)
        or one_of(defaults, settings.get("format"), f"format {configuration}")
        or "table"
    )


def _start_progress(choice: ProgressChoice, *, colour: bool) -> Progress:
    """Return the progress to show; imports nothing where progress is not shown."""
    on_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    if choice is ProgressChoice.NEVER or (choice is ProgressChoice.AUTO and not on_terminal):
        return SILENT
    from deltacli.cli.terminal.progress import start_progress

    return start_progress(choice, colour=colour)


def _is_pipe(stream: Any) -> bool:  # Any: a standard stream or a test's replacement
    try:
        return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False
