"""The options that all commands share: they are added to each command, and a run is made of their values."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, get_type_hints

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
from deltacli.cli.options.configuration import (
    Variable,
    configured,
    one_of,
    parse_storage_option,
    read_configuration,
    retry_budget_of,
)
from deltacli.cli.options.global_options import (
    OUTPUT_OF_ONE_FORMAT,
    OUTPUT_OF_ROWS,
    ColourChoice,
    GlobalOptions,
    LogFormat,
    ProgressChoice,
)
from deltacli.cli.options.moments import parse_moment
from deltacli.cli.options.request_options import declared, given_of_one_format, made_of, options_of, parameter_of
from deltacli.cli.options.run import Run
from deltacli.cli.terminal.output import directory_of, require_directory, require_empty_target, require_target
from deltacli.cli.terminal.term import colours_stderr, detect_terminal
from deltacli.core.clock import Clock, fixed_clock, system_clock
from deltacli.core.errors import UsageError
from deltacli.core.hints import nearest_name
from deltacli.core.progress import SILENT, Progress
from deltacli.core.request_fields import Option
from deltacli.core.typing import JsonObject, Toml

if TYPE_CHECKING:
    from deltacli.cli.options.cluster import ClusterOptions
    from deltacli.engine.spark.session import SparkSettings


class ReaderGoneError(Exception):
    """The reader of stdout has closed it; not an error."""


def _shared_options(formats: type[StrEnum]) -> dict[str, inspect.Parameter]:
    """Return the options in the order of the help. Hidden are `--format` where there is no choice, and `--json` where
    json is not one of the formats.
    """
    format_option = Option(
        "Format of stdout.  [default: table]", "|".join(formats), spelled="--format", is_hidden=len(formats) == 1
    )
    json_option = Option("The same as --format json.", spelled="--json", is_hidden="json" not in list(formats))
    own = OUTPUT_OF_ROWS if PARQUET.name in list(formats) else OUTPUT_OF_ONE_FORMAT if len(formats) == 1 else None
    output = {"output": parameter_of("output", own, str | None)} if own else {}
    return {
        "output_format": parameter_of("output_format", format_option, formats | None),
        "as_json": parameter_of("as_json", json_option, bool, default=False),
        **(options_of(GlobalOptions) or {}),
        **output,
    }


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
            own.append(declared(name, hints[name], parameter.default))
        else:
            requests[name] = found
            own += found.values()
    names = {parameter.name for parameter in own}
    common = {name: option for name, option in _shared_options(formats).items() if name not in names}
    cluster: Mapping[str, inspect.Parameter] = {}
    if runs_on_cluster:
        from deltacli.cli.options.cluster import ClusterOptions

        cluster = options_of(ClusterOptions) or {}

    def invoke(**values: Any) -> None:  # Any: values parsed by typer
        def take(options: Mapping[str, inspect.Parameter]) -> dict[str, Any]:  # Any: values parsed by typer
            return {name: values.pop(name) for name in options}

        chosen = GlobalOptions(**take(common))
        run = make_run(
            formats, chosen, ClusterOptions(**take(cluster)) if runs_on_cluster else None, names_choose=names_choose
        )
        try:
            run.of_one_format.update(given_of_one_format(own, values))
            _note_comparison_with_null(run, values.get("where"))
            for name, found in requests.items():
                values[name] = made_of(hints[name], found, take(found))
            command(run, **values)
        except BrokenPipeError as closed:  # typer would turn it into exit 1
            raise ReaderGoneError from closed
        finally:
            run.close()

    shared = [*cluster.values(), *common.values()]
    invoke.__name__, invoke.__doc__ = command.__name__, command.__doc__
    invoke.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [*own, *shared]
    )
    invoke.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *shared]}
    return invoke


def _note_comparison_with_null(run: Run, where: str | None) -> None:
    """Note what to write in place of a comparison with NULL, which no row matches."""
    if where is not None and "null" in where.lower():
        from deltacli.delta.predicate.refusals import compared_with_null

        if (meant := compared_with_null(where)) is not None:
            run.note(f"note: a comparison with NULL is never true; write {meant}")


def make_run(
    formats: type[StrEnum], options: GlobalOptions, cluster: ClusterOptions | None, *, names_choose: bool = True
) -> Run:
    """Settle the shared options: option, then environment, then configuration file, then default. Raises UsageError.

    The name of the output file comes before the environment for its format.
    """
    path = options.config or Variable.CONFIG.read()
    settings = read_configuration(path)
    configuration = f"in the configuration {path}"
    _require_readable(formats, options.output_format, as_json=options.as_json)
    given = "json" if options.as_json else options.output_format
    is_named = names_choose and options.output is not None and format_named(options.output) is not None
    wished = _wished_format(EveryFormat if is_named else formats, given, settings, configuration)
    in_environment = one_of(ColourChoice, Variable.COLOR.read(), Variable.COLOR)
    in_settings = one_of(ColourChoice, settings.get("color"), f"color {configuration}")
    colours = options.colour or in_environment or in_settings or ColourChoice.AUTO
    shows = options.progress or configured(ProgressChoice, Variable.PROGRESS, settings, configuration)
    shows = shows or ProgressChoice.AUTO
    is_json = wished in FORMATS and FORMATS[wished].errors_are_json
    logs = options.log_format or (LogFormat.JSON if is_json else LogFormat.TEXT)
    invocation.log_is_json, invocation.verbosity = logs is LogFormat.JSON, options.verbose
    chosen = FORMATS.get(wished, TABLE) if wished in list(formats) else TABLE
    output, directory = options.output, directory_of(options.output) if PARQUET.name in list(formats) else None
    if directory is not None:
        output, chosen = None, _format_of_directory(chosen, options.output_format, directory)
    if output is not None:
        _require_no_format(output, formats, given)
        require_target(output, "--output")
        require_directory(output)
        chosen = (_format_of_name(output, formats, given) if names_choose else None) or chosen
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
        progress=SILENT if is_quiet else _start_progress(shows, colour=colours_stderr(colours)),
        progress_is_asked_for=shows is not ProgressChoice.AUTO,
        log_is_json=logs is LogFormat.JSON,
        is_paged=not options.no_pager,
        retry_budget_ms=retry_budget_of(options.retry_budget, settings.get("retry_budget"), configuration),
        allow_external=(*settings.get("allow_external", ()), *(options.allow_external or ())),
        directory=directory,
        colours_notes=colours_stderr(colours),
        can_use_cluster=cluster is not None,
        cluster=None if cluster is None else _settle_engine(cluster, settings, configuration),
    )
    if names_choose and given is None and chosen is TABLE and len(formats) > 1:
        _note_unknown_ending(run, formats)
    return run


def _require_no_format(output: str, formats: type[StrEnum], given: str | None) -> None:
    """Raise UsageError for `--output json`, which in other programs is what `--format json` is here."""
    if given is not None or len(formats) == 1 or output not in (*FORMATS, "yaml"):
        return
    from deltacli.cli.terminal.shell import again_with, without_option

    meant = output if output in list(formats) else JSON.name
    raise UsageError(
        f"--output {output}: this is the name of a format, and --output takes the name of a file",
        code="usage.output",
        facts={"formats": ", ".join(formats), "for a file of this name": f"--output {output} --format {TABLE.name}"},
        hint=again_with(without_option(invocation.arguments, "--output"), "--format", meant),
    )


def _note_unknown_ending(run: Run, formats: type[StrEnum]) -> None:
    """Note that the name of the output file chooses no format, where its ending is not that of a text.

    Raises UsageError for an ending that is almost one of a format.
    """
    name, ending = os.path.splitext(run.output or "")
    if ending and ending.lower() not in _OF_TEXTS:
        known = [name for row in FORMATS.values() if row.name in list(formats) for name in row.endings]
        if near := nearest_name(ending, known, ignores_case=True, alike=_ALIKE_ENDINGS):
            raise UsageError(
                f"--output {run.output}: {ending} chooses no format",
                code="usage.output",
                facts={"did you mean": name + near, "for text": "--format table"},
            ).meaning(name + ending, name + near)
        run.note(f"note: {ending} chooses no format, so {run.output} is text; endings that do: {', '.join(known)}")


_OF_TEXTS = (".log", ".out", ".text", ".txt")
_ALIKE_ENDINGS = 0.8


def _clock_of(now: str | None) -> Clock:
    return system_clock if now is None else fixed_clock(parse_moment("--now", now, invocation.arguments))


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
        from deltacli.cli.terminal.shell import again_without

        raise UsageError(
            "--json is not available: this command has a fixed format",
            hint=again_without(invocation.arguments, "--json"),
        )


def _storage_options(settings: Mapping[str, Toml], given: list[str] | None) -> dict[str, str]:
    """Return the options of the store; the command line overrides the configuration. Raises UsageError."""
    return {**settings.get("storage_options", {}), **dict(map(parse_storage_option, given or []))}


def _format_of_name(output: str, formats: type[StrEnum], given: str | None) -> Format | None:
    """Return the format that the name of the output file chooses; None where it is left open, and for a command with a
    single format, which may be JSON. Raises UsageError where an option contradicts the name, and where the command
    lacks the format.
    """
    named = format_named(output)
    if given is None and len(formats) > 1 and output.lower().endswith(FOREIGN_ENDINGS):
        from deltacli.cli.terminal.shell import again_with

        stem, _, ending = output.rpartition(".")
        as_junit = ending.lower() == "xml" and "junit" in list(formats)
        raise UsageError(
            f"--output {output}: "
            + ("name the format of an XML file" if as_junit else f"deltacli cannot write .{ending}"),
            code="usage.output",
            facts={"formats": ", ".join(formats)},
            hint=again_with(invocation.arguments, "--format", "junit")
            if as_junit
            else again_with(invocation.arguments, "--output", f"{stem}.{CSV.name}"),
        )
    if named is None or (len(formats) == 1 and named in (JSON, NDJSON)):
        return None
    if given is not None and given != named.name and not (given == "sarif" and named is JSON):  # which SARIF is, too
        from deltacli.cli.terminal.shell import again, without_value

        raise UsageError(
            f"--format {given} contradicts --output {output}, whose name chooses {named.name}",
            code="usage.output",
            hint=again([word for word in without_value(invocation.arguments, "--format", given) if word != "--json"]),
        )
    if named.name not in list(formats):
        endings = [FORMATS[name].endings[0] for name in formats if FORMATS[name].endings]
        raise UsageError(
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


def _start_progress(choice: ProgressChoice, *, colour: bool) -> Progress:
    """Return the progress to show; imports nothing where progress is not shown."""
    on_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    if choice is ProgressChoice.NEVER or (choice is ProgressChoice.AUTO and not on_terminal):
        return SILENT
    from deltacli.cli.terminal.progress import start_progress

    return start_progress(choice, colour=colour)


def _settle_engine(given: ClusterOptions, settings: JsonObject, configuration: str) -> SparkSettings | None:
    from deltacli.cli.options.cluster import settle_engine

    return settle_engine(given, settings, configuration)
