"""The command tree, and the frame of every run: settings, exit codes, errors on stderr, signals, closed pipes."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any, get_type_hints

from deltacli import __version__
from deltacli.cli import command_tree
from deltacli.cli.errors import report_details, report_error, say_document, wants_json
from deltacli.cli.invocation import (
    ASK_FOR_HELP,
    ASK_FOR_VERSION,
    AT,
    Exit,
    give_up,
    help_as_option,
    invocation,
    outside,
    without_directories,
)
from deltacli.cli.options import declared
from deltacli.cli.options.configuration import (
    Variable,
    choose_catalog,
    configured,
    one_of,
    parse_pair,
    parse_storage_option,
    plain_or_file,
    read_configuration,
    retry_budget_of,
)
from deltacli.cli.output.destination import (
    find_output_directory,
    require_file_outside_tables,
    require_output_directory,
    require_parent_directory,
)
from deltacli.cli.output.formats import (
    CSV,
    FOREIGN_ENDINGS,
    FORMATS,
    JSON,
    NDJSON,
    PARQUET,
    TABLE,
    TEMPLATE,
    AnyFormat,
    EveryFormat,
    Format,
    find_format_by_name,
)
from deltacli.cli.running.run import Run
from deltacli.cli.terminal.capabilities import detect_terminal, has_coloured_stderr
from deltacli.cli.terminal.characters import escape_control
from deltacli.cli.terminal.library_messages import mute_libraries
from deltacli.cli.terminal.signals import Interrupted, PagerQuitError, raise_on_signals
from deltacli.cli.terminal.stderr import close_live_line, write_message
from deltacli.core import errors, tempfiles
from deltacli.core.machine import Clock, fixed_clock, system_clock
from deltacli.core.memory import build_memory_error, choose_allocator, is_out_of_memory, require_minimum_memory
from deltacli.core.progress import SILENT, Progress
from deltacli.core.request_fields import Option
from deltacli.core.texts import require_word, summarize_names
from deltacli.core.typing import JsonObject, Toml
from deltacli.core.units import require_number

if TYPE_CHECKING:
    import typer

    from deltacli.cli.options.cluster import ClusterOptions
    from deltacli.engine.spark.engine import SparkSettings

# -- the options that all commands share -------------------------------------------------------------------------------


class ReaderGoneError(Exception):
    """The reader of stdout has closed it; not an error."""


def _shared_options(formats: type[StrEnum]) -> dict[str, declared.Parameter]:
    """Return the options in the order of the help; `--format` and `--json` are hidden where they change nothing."""
    format_option = Option(
        "Format of stdout.  [default: table]", "|".join(formats), spelled="--format", is_hidden=len(formats) == 1
    )
    json_option = Option("The same as --format json.", spelled="--json", is_hidden="json" not in list(formats))
    has_items = NDJSON.name in list(formats)
    own = (
        command_tree.OUTPUT_OF_ROWS
        if PARQUET.name in list(formats)
        else command_tree.OUTPUT_OF_ONE_FORMAT
        if len(formats) == 1
        else None
    )
    output = {"output": declared.parameter_of("output", own, str | None)} if own else {}
    return {
        "output_format": declared.parameter_of("output_format", format_option, formats | None),
        "as_json": declared.parameter_of("as_json", json_option, bool, default=False),
        **{
            name: one
            for name, one in (declared.options_of(command_tree.GlobalOptions) or {}).items()
            if name != "template" or has_items
        },
        **output,
    }


def with_shared_options(
    command: Callable[..., None],
    formats: type[StrEnum] = AnyFormat,
    *,
    runs_on_cluster: bool = False,
    names_choose: bool = True,
) -> declared.Declared:
    """Add the shared options to a command, after its own. Its first parameter is `run`; it writes `formats`. A shared
    option is left out where the command has one of the same name, such as `--config` of `share serve`.

    `runs_on_cluster` adds the options that choose the engine. `names_choose`: the name of the output file chooses the
    format.
    """
    hints = get_type_hints(command, include_extras=True)
    requests: dict[str, declared.Parameters] = {}
    own: list[declared.Parameter] = []
    code, defaults = command.__code__, dict(command.__kwdefaults__ or {})
    names = code.co_varnames[: code.co_argcount]
    defaults |= zip(reversed(names), reversed(command.__defaults__ or ()), strict=False)
    for name in [*names[1:], *code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]]:
        if (found := declared.options_of(hints[name])) is None:
            own.append(declared.declared(name, hints[name], defaults.get(name, ...)))
        else:
            requests[name] = found
            own += found.values()
    taken = {parameter.name for parameter in own}
    common = {name: option for name, option in _shared_options(formats).items() if name not in taken}
    cluster: declared.Parameters = {}
    if runs_on_cluster:
        from deltacli.cli.options.cluster import ClusterOptions

        cluster = declared.options_of(ClusterOptions) or {}

    def invoke(**values: Any) -> None:  # Any: values parsed by typer
        def take(options: declared.Parameters) -> dict[str, Any]:  # Any: values parsed by typer
            return {name: values.pop(name) for name in options}

        for one in parameters:
            value = values[one.name]
            if value and not one.spellings and one.shown.metavar in ("TABLE", "TABLE..."):
                values[one.name] = outside(value) if isinstance(value, str) else [*map(outside, value)]
            if type(value) is int:
                require_number(value, (one.spellings or [one.name])[-1])
        chosen = command_tree.GlobalOptions(**take(common))
        run = make_run(
            formats, chosen, ClusterOptions(**take(cluster)) if runs_on_cluster else None, names_choose=names_choose
        )
        try:
            run.of_one_format.update(declared.given_of_one_format(own, values))
            _note_comparison_with_null(run, values.get("where"))
            for name, found in requests.items():
                values[name] = declared.made_of(hints[name], found, take(found))
            command(run, **values)
        except BrokenPipeError as closed:  # typer would turn it into exit 1
            raise ReaderGoneError from closed
        finally:
            run.close()

    parameters = [*own, *cluster.values(), *common.values()]
    return declared.Declared(command, parameters, invoke)


def _note_comparison_with_null(run: Run, where: str | None) -> None:
    """Note what to write in place of a comparison with NULL, which no row matches."""
    if where is not None and "null" in where.lower():
        from deltacli.delta.predicate.columns import compared_with_null

        if (meant := compared_with_null(where)) is not None:
            run.note(f"note: a comparison with NULL is never true; write {meant}")


def make_run(
    formats: type[StrEnum],
    options: command_tree.GlobalOptions,
    cluster: ClusterOptions | None,
    *,
    names_choose: bool = True,
) -> Run:
    """Settle the shared options: option, environment, configuration file, default. Raises UsageError."""
    settings, configuration = _settings_of(options)
    _require_readable(formats, options.output_format, as_json=options.as_json)
    given = "json" if options.as_json else options.output_format
    if options.template is not None:
        _require_template(options.template, given)
        given = None
    is_named = names_choose and options.output is not None and find_format_by_name(options.output) is not None
    wished = _wished_format(EveryFormat if is_named else formats, given, settings, configuration)
    wished = TABLE.name if options.template is not None else wished
    in_environment = one_of(command_tree.ColourChoice, Variable.COLOR.read(), Variable.COLOR)
    in_settings = one_of(command_tree.ColourChoice, settings.get("color"), f"color {configuration}")
    colours = options.colour or in_environment or in_settings or command_tree.ColourChoice.AUTO
    shows = options.progress or configured(command_tree.ProgressChoice, Variable.PROGRESS, settings, configuration)
    shows = shows or command_tree.ProgressChoice.AUTO
    is_json = wished in FORMATS and FORMATS[wished].errors_are_json
    logs = options.log_format or (command_tree.LogFormat.JSON if is_json else command_tree.LogFormat.TEXT)
    invocation.log_is_json, invocation.verbosity = logs is command_tree.LogFormat.JSON, options.verbose
    chosen = FORMATS.get(wished, TABLE) if wished in list(formats) else TABLE
    output, directory = (
        options.output,
        find_output_directory(options.output) if PARQUET.name in list(formats) else None,
    )
    if directory is not None:
        output, chosen = None, _format_of_directory(chosen, options.output_format, directory)
    if output is not None:
        _require_no_format(output, formats, given)
        require_file_outside_tables(output, "--output")
        require_parent_directory(output)
        chosen = (_format_of_name(output, formats, given) if names_choose else None) or chosen
    if options.template is not None:
        if chosen is not TABLE or directory is not None:
            raise errors.UsageError(
                f"--template and --output {options.output} exclude each other", code="usage.template"
            )
        chosen = TEMPLATE._replace(template=options.template)
    is_quiet = options.quiet or settings.get("quiet") is True
    run = Run(
        format=chosen,
        output=output,
        clock=_clock_of(options.now),
        storage_options=_storage_options(settings, options.storage_option),
        terminal=detect_terminal(colours, to_file=output not in (None, "-")),
        quiet=is_quiet,
        verbosity=options.verbose,
        table_format=options.table_format,
        access=options.access or command_tree.AccessMode.AUTO,
        progress=SILENT if is_quiet else _start_progress(shows, colour=has_coloured_stderr(colours)),
        progress_is_asked_for=shows is not command_tree.ProgressChoice.AUTO,
        log_is_json=logs is command_tree.LogFormat.JSON,
        is_paged=not options.no_pager,
        retry_budget_ms=retry_budget_of(options.retry_budget, settings.get("retry_budget"), configuration),
        allow_external=(*settings.get("allow_external", ()), *(options.allow_external or ())),
        directory=directory,
        colours_notes=has_coloured_stderr(colours),
        can_use_cluster=cluster is not None,
        cluster=None if cluster is None else settle_engine(cluster, settings, configuration),
        catalog=choose_catalog(options.catalog_profile, settings, options.config or Variable.CONFIG.read()),
    )
    if names_choose and given is None and chosen is TABLE and len(formats) > 1:
        _note_unknown_ending(run, formats)
    return run


def _settings_of(options: command_tree.GlobalOptions) -> tuple[dict[str, Toml], str]:
    """Return the configuration, and what it is called in errors. Raises UsageError."""
    named = (options.config, options.profile_name, options.catalog_profile)
    for name, given in zip(("--config", "--profile-name", "--catalog-profile"), named, strict=True):
        if given == "":
            raise errors.UsageError(f"{name} is empty: a variable of the script may be unset", code="usage.config")
    path, profile = options.config or Variable.CONFIG.read(), options.profile_name or Variable.PROFILE.read()
    place = f"in the configuration {path}" + (f" with the profile {profile}" if profile else "")
    return read_configuration(path, profile), place


def _require_no_format(output: str, formats: type[StrEnum], given: str | None) -> None:
    """Raise UsageError for `--output json`, which in other programs is what `--format json` is here."""
    if given is not None or len(formats) == 1 or output not in (*FORMATS, "yaml"):
        return
    from deltacli.cli.terminal.suggested_commands import remove_option, repeat_command_with

    meant = output if output in list(formats) else JSON.name
    raise errors.UsageError(
        f"--output {output}: this is the name of a format, and --output takes the name of a file",
        code="usage.output",
        facts={
            "formats": ", ".join(formats),
            "for a file of this name": f"--output {output} --format {TABLE.name}",
        },
        hint=repeat_command_with(remove_option(invocation.arguments, "--output"), "--format", meant),
    )


def _note_unknown_ending(run: Run, formats: type[StrEnum]) -> None:
    """Note that the name of the output file chooses no format, where its ending is not that of a text.

    Raises UsageError for an ending that is almost one of a format.
    """
    name, ending = os.path.splitext(run.output or "")
    if ending and ending.lower() not in _OF_TEXTS:
        known = [name for row in FORMATS.values() if row.name in list(formats) for name in row.endings]
        if near := errors.nearest_name(ending, known, ignores_case=True, alike=_ALIKE_ENDINGS):
            raise errors.UsageError(
                f"--output {run.output}: {ending} chooses no format",
                code="usage.output",
                facts={"did you mean": name + near, "for text": "--format table"},
            ).suggest_as_fact(name + ending, name + near)
        run.note(f"note: {ending} chooses no format, so {run.output} is text; endings that do: {', '.join(known)}")


_OF_TEXTS = (".log", ".out", ".text", ".txt")
_ALIKE_ENDINGS = 0.8


def _clock_of(now: str | None) -> Clock:
    return system_clock if now is None else fixed_clock(declared.parse_moment("--now", now, invocation.arguments))


def _format_of_directory(chosen: Format, given: StrEnum | None, directory: str) -> Format:
    """Return the format of the result that describes an output directory. Raises UsageError."""
    from deltacli.cli.terminal.suggested_commands import repeat_command_with

    require_output_directory(directory)
    if given in (NDJSON.name, CSV.name):
        raise errors.UsageError(
            f"--format {given} cannot be written to a directory",
            code="usage.output",
            facts={"directory": directory, "expected": "parquet, or a file for --output"},
            hint=repeat_command_with(invocation.arguments, "--format", PARQUET.name),
        )
    return TABLE if chosen is PARQUET else chosen


def _require_readable(formats: type[StrEnum], output_format: StrEnum | None, *, as_json: bool) -> None:
    if as_json and output_format not in (None, "json"):
        raise errors.UsageError(f"--json and --format {output_format} exclude each other")
    if as_json and "json" not in list(formats):
        from deltacli.cli.terminal.suggested_commands import repeat_command_without_flag

        raise errors.UsageError(
            "--json is not available: this command has a fixed format",
            hint=repeat_command_without_flag(invocation.arguments, "--json"),
        )


def _require_template(template: str, given: str | None) -> None:
    """Raise UsageError for a template with errors, and for a format, which a template replaces."""
    from deltacli.cli.output.template import check_template

    if given not in (None, TABLE.name):
        raise errors.UsageError(f"--template and --format {given} exclude each other", code="usage.template")
    check_template(template)


def _storage_options(settings: Mapping[str, Toml], given: list[str] | None) -> dict[str, str]:
    """Return the options of the store; the command line overrides the configuration. Raises UsageError."""
    return {**settings.get("storage_options", {}), **dict(map(parse_storage_option, given or []))}


def _writable_name(stem: str) -> str:
    """Return the name of a file that can be written, for one without its last ending: `x.csv` of `x.csv.gz`."""
    while stem.lower().endswith(FOREIGN_ENDINGS):
        stem = stem.rpartition(".")[0]
    return stem if find_format_by_name(stem) is not None else f"{stem}.{CSV.name}"


def _format_of_name(output: str, formats: type[StrEnum], given: str | None) -> Format | None:
    """Return the format that the name of the output file chooses; None where it is left open, and for a command with a
    single format, which may be JSON. Raises UsageError where an option contradicts the name, and where the command
    lacks the format.
    """
    named = find_format_by_name(output)
    if given is None and len(formats) > 1 and output.lower().endswith(FOREIGN_ENDINGS):
        from deltacli.cli.terminal.suggested_commands import repeat_command_with

        stem, _, ending = output.rpartition(".")
        as_junit = ending.lower() == "xml" and "junit" in list(formats)
        raise errors.UsageError(
            f"--output {output}: "
            + ("name the format of an XML file" if as_junit else f"deltacli cannot write .{ending}"),
            code="usage.output",
            facts={"formats": ", ".join(formats)},
            hint=repeat_command_with(invocation.arguments, "--format", "junit")
            if as_junit
            else repeat_command_with(invocation.arguments, "--output", _writable_name(stem)),
        )
    if named is None or (len(formats) == 1 and named in (JSON, NDJSON)):
        return None
    if given is not None and given != named.name and not (given == "sarif" and named is JSON):  # which SARIF is, too
        from deltacli.cli.terminal.suggested_commands import remove_option_value, repeat_command

        raise errors.UsageError(
            f"--format {given} contradicts --output {output}, whose name chooses {named.name}",
            code="usage.output",
            hint=repeat_command(
                [word for word in remove_option_value(invocation.arguments, "--format", given) if word != "--json"]
            ),
        )
    if named.name not in list(formats):
        endings = [FORMATS[name].endings[0] for name in formats if FORMATS[name].endings]
        raise errors.UsageError(
            f"--output {output}: this command does not write {named.name}",
            code="usage.output",
            facts={"formats": ", ".join(formats)} if endings else None,
            hint=f"choose a name that ends with {', '.join(endings)}" if endings else "choose another name",
        )
    return None if given else named


def _wished_format(
    formats: type[StrEnum], given: str | None, settings: Mapping[str, Any], configuration: str
) -> str:  # Any: TOML values
    """Return the requested format, which may be one that the command does not have. Raises UsageError."""
    # A command with a single format ignores the default for all commands, but its errors follow it.
    defaults = EveryFormat if len(formats) == 1 else formats
    return str(given or configured(defaults, Variable.FORMAT, settings, configuration) or "table")


def _start_progress(choice: command_tree.ProgressChoice, *, colour: bool) -> Progress:
    """Return the progress to show; imports nothing where progress is not shown."""
    on_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    if choice is command_tree.ProgressChoice.NEVER or (choice is command_tree.ProgressChoice.AUTO and not on_terminal):
        return SILENT
    from deltacli.cli.terminal.progress import start_progress

    return start_progress(choice, colour=colour)


def settle_engine(given: ClusterOptions, settings: JsonObject, configuration: str) -> SparkSettings | None:
    """Return the cluster by option, then environment, then configuration file; None: this process does the work.

    A master, a server or a setting of Spark on the command line needs `--engine spark`; elsewhere they are defaults for
    runs that choose it. Raises UsageError.
    """
    from deltacli.cli.options.cluster import EngineChoice

    choice = given.engine or configured(EngineChoice, Variable.ENGINE, settings, configuration) or EngineChoice.EMBEDDED
    if choice is EngineChoice.EMBEDDED:
        spark = {"--master": given.master, "--remote": given.remote, "--spark-conf": given.spark_conf}
        named = next((name for name, value in spark.items() if value), None)
        if named is not None:
            raise errors.UsageError(f"{named} needs --engine spark", hint=f"add --engine spark, or omit {named}")
        return None
    from deltacli.engine.spark.engine import SparkSettings

    if given.master and given.remote:
        raise errors.UsageError("--master and --remote exclude each other")
    conf = {**settings.get("spark_conf", {}), **dict(map(_parse_conf, given.spark_conf or []))}
    if given.master or given.remote:
        remote = given.remote and plain_or_file("--remote", " ", given.remote, f"the variable {Variable.REMOTE}")
        return SparkSettings(given.master, remote, conf)
    default = SparkSettings(
        Variable.MASTER.read() or settings.get("master"), Variable.REMOTE.read() or settings.get("remote"), conf
    )
    if default.master and default.remote:
        raise errors.UsageError("the environment or the configuration names a Spark master and a Spark Connect server")
    return default


def _parse_conf(text: str) -> tuple[str, str]:
    return parse_pair("--spark-conf", text, "the configuration of Spark itself")


# -- the command tree --------------------------------------------------------------------------------------------------

_READER_GONE = 128 + 13  # SIGPIPE, which some systems do not name
_NEEDS_LITTLE = frozenset(
    {("completion",), ("fleet", "check"), ("fleet", "status"), ("history",), ("log", "cat"), ("spark", "package")}
    | {path for path in command_tree.WITHOUT_TABLE if path[:1] == ("share",) and len(path) == 3}
)
"""Commands that need no pyarrow: they read logs line by line, or no table at all."""


def declared_command(name: str) -> declared.Declared:
    """Return a command, whose module is imported."""
    module = import_module(command_tree.COMMANDS[name])
    return with_shared_options(
        getattr(module, name.replace(" ", "_").replace("-", "_")),
        command_tree.setting(module, "FORMATS", name, AnyFormat),
        runs_on_cluster=command_tree.setting(module, "RUNS_ON_CLUSTER", name, default=False),
        names_choose=command_tree.setting(module, "NAMES_CHOOSE", name, default=True),
    )


def build_app(at: command_tree.Path | None = None) -> typer.Typer:
    """Build the whole command tree, or only one place and what is below it, which avoids importing the rest.

    At the root these are the commands; of groups only their help is imported.
    """
    from deltacli.cli.typer_tree import build_tree

    return build_tree(at, declared_command)


def run(argv: Sequence[str]) -> int:
    """Run one command line and return its exit code. Raises nothing."""
    given, directories = without_directories(argv)
    arguments = command_tree.with_current_options(help_as_option(command_tree.move_shared_options(given)))
    invocation.begin(arguments, directories)
    if any("=" in word or "@" in word for word in arguments):
        from deltacli.cli.terminal.typed_secrets import register_typed_secrets

        register_typed_secrets(arguments)
    choose_allocator()
    try:
        with raise_on_signals(), mute_libraries(), errors.use_spelling(errors.ShellSpelling()):
            try:
                return _run_in(directories, arguments)
            except Interrupted as interruption:
                interruption.unwind()  # waits for tasks in flight while the progress line still shows it
                tempfiles.remove_all()  # of what was interrupted between its creation and the `with` that removes it
                raise
            finally:
                close_live_line()
    except Interrupted as interruption:  # also a signal that arrives during cleanup
        _report_interruption(interruption, arguments)
        give_up(sys.stdout, 1)  # the reader of the pipe may have exited
        return interruption.exit_code


def _run_in(directories: Sequence[str], arguments: Sequence[str]) -> int:
    if not directories:
        return _run(arguments)
    with contextlib.ExitStack() as entered:
        with contextlib.suppress(OSError):  # a directory that is gone is not returned to
            entered.callback(_return_to, os.getcwd())
        for directory in directories:
            try:
                os.chdir(directory)
            except (OSError, ValueError) as fault:
                invocation.directories = ()
                reason = (getattr(fault, "strerror", None) or str(fault)).lower()
                report_error(errors.UsageError(f"{AT} {directory}: {reason}"), arguments, None)
                return errors.UsageError.exit_code
        return _run(arguments)


def _return_to(directory: str) -> None:
    with contextlib.suppress(OSError):
        os.chdir(directory)


def _run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; every fault maps to one."""
    path = command_tree.path_of(arguments)
    asks_for_help = set(arguments) <= set(ASK_FOR_HELP)
    try:
        if command_tree.is_command(path) and path not in _NEEDS_LITTLE and not set(arguments) & set(ASK_FOR_HELP):
            require_minimum_memory()
        if not path and arguments[-1] in ASK_FOR_HELP and not arguments[0].startswith("-"):
            from deltacli.cli.help_topics import explain_word

            return explain_word(arguments[:-1], _run)
        if arguments[0] in ASK_FOR_VERSION and "=".join(arguments[1:]) in ("--json", "--format=json"):
            from deltacli.cli.version import write_version

            write_version()
            sys.stdout.flush()
            return 0
        command = declared_command(" ".join(path)) if command_tree.is_command(path) else None
        if command is not None:
            for word in arguments[len(path) :]:
                require_word(word)
        values = None if command is None else declared.parse_plainly(command.parameters, arguments[len(path) :])
        if command is not None and values is not None:
            command.call(**values)
            sys.stdout.flush()
            return 0
        from deltacli.cli.typer_tree import run_parsed

        code = run_parsed(build_app(path if path or asks_for_help else None), arguments, path)
        sys.stdout.flush()
        return code
    except errors.DeltacliError as error:
        error = _of_memory(error) or error
        report_error(error, arguments, _table_of(arguments))
        return error.exit_code
    except Exit as ended:
        return ended.exit_code
    except PagerQuitError:
        return 0
    except (ReaderGoneError, BrokenPipeError, SystemExit):  # SystemExit: typer, when help meets a closed pipe
        give_up(sys.stdout, 1)
        return _READER_GONE
    except Exception as error:  # noqa: BLE001  (the only such place: unexpected errors need an exit code, too)
        return _report_unexpected(error, arguments)


def _report_unexpected(error: Exception, arguments: Sequence[str]) -> int:
    if is_out_of_memory(error):
        report_error(build_memory_error(error), arguments, _table_of(arguments))
        return errors.MemoryExhausted.exit_code
    if not isinstance(error, OSError):
        _report_bug(error, arguments)
        return errors.EXIT_BUG
    try:
        os.getcwd()
    except OSError:
        gone = errors.Unreadable(
            "the current directory does not exist any more", code="table.path-missing", hint="cd /"
        )
        report_error(gone, arguments, None)
        return gone.exit_code
    # Stores translate their own OSErrors: this one comes from stdout or a temporary file.
    reason = (error.strerror or str(error)).lower()
    failure = errors.StorageFailed(f"the result cannot be written: {reason}", code="output.unwritable")
    report_error(failure, arguments, _table_of(arguments))
    give_up(sys.stdout, 1)
    return failure.exit_code


def _of_memory(error: errors.DeltacliError) -> errors.DeltacliError | None:
    """Return the MemoryError among the causes of a fault, or None: code that reads damaged files may wrap it."""
    cause = error.__cause__ if error.exit_code == errors.Unreadable.exit_code else None
    while cause is not None and not is_out_of_memory(cause):
        cause = cause.__cause__
    return None if cause is None else build_memory_error(cause)


def _report_interruption(interruption: Interrupted, arguments: Sequence[str]) -> None:
    if interruption.outcome == Interrupted.outcome:
        if invocation.is_reporting:
            interruption.outcome = "the change was probably made; run the same command again to see what is left"
        elif written := list(dict.fromkeys(name for name, is_there in invocation.outputs if is_there())):
            verb = "was" if len(written) == 1 else "were"
            interruption.outcome = f"{summarize_names(written, 3)} {verb} written completely"
    if not wants_json(arguments):
        write_message(escape_control(interruption.message))
        return
    details = {"signal": interruption.signal_name}
    table, message = _table_of(arguments), interruption.message
    say_document(code="interrupted", exit_code=interruption.exit_code, message=message, table=table, details=details)


def _report_bug(error: Exception, arguments: Sequence[str]) -> None:
    if wants_json(arguments):
        say_document(
            errors.DeltacliError.code, errors.EXIT_BUG, f"{type(error).__name__}: {error}", table=_table_of(arguments)
        )
    else:
        write_message(
            escape_control(f"error: this is a bug in deltacli {__version__}: {type(error).__name__}: {error}")
        )
    report_details(error, arguments)
    if not wants_json(arguments):
        write_message("hint: run it again with -vv and report the traceback, with private names removed")


def _table_of(arguments: Sequence[str]) -> str | None:
    """Return the table as the user wrote it: the first argument of the command."""
    path = command_tree.path_of(arguments)
    if not command_tree.is_command(path) or path in command_tree.WITHOUT_TABLE:
        return None
    from deltacli.storage.secrets import without_secrets

    parameters = declared_command(" ".join(path)).parameters
    table = command_tree.first_argument(
        arguments, {name for option in parameters if option.takes_value for name in option.spellings}
    )
    if table is None and path in command_tree.TABLE_OR_HERE and "--list-rules" not in arguments:
        return command_tree.HERE
    return None if table is None else without_secrets(table)
