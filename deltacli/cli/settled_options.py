"""The settled values of the shared options: option, then environment, then configuration file, then default."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from deltacli.cli.invocation import invocation
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
from deltacli.cli.options.moments import parse_moment
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
    EveryFormat,
    Format,
    find_format_by_name,
)
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.engine_source import EngineSource
from deltacli.cli.running.note_options import NoteOptions
from deltacli.cli.running.result_options import ResultOptions
from deltacli.cli.running.stores import StoreOptions
from deltacli.cli.shared_options import AccessMode, ColourChoice, LogFormat, ProgressChoice, SharedOptions
from deltacli.cli.terminal.capabilities import detect_terminal, has_coloured_stderr
from deltacli.core import errors
from deltacli.core.machine import Clock, fixed_clock, system_clock
from deltacli.core.progress import SILENT, Progress
from deltacli.core.typing import JsonObject, Toml

if TYPE_CHECKING:
    from deltacli.cli.options.cluster import ClusterOptions
    from deltacli.engine.spark.session import SparkSettings


@dataclass(frozen=True)
class SettledOutput:
    """Where the result goes, and in which format.

    Attributes:
        format: The format of the result.
        file: The file that gets it, `-` for stdout; None: stdout.
        directory: The directory that gets rows as Parquet files; the result then says what was written there.
    """

    format: Format
    file: str | None
    directory: str | None


def settle_options(
    formats: type[StrEnum],
    options: SharedOptions,
    cluster: ClusterOptions | None,
    *,
    name_chooses_format: bool = True,
) -> CommandContext:
    """Settle the shared options: option, environment, configuration file, default.

    Args:
        formats: The formats that the command writes.
        options: The shared options as they were given.
        cluster: The options that choose the engine; None for a command without them.
        name_chooses_format: Whether the name of the output file chooses the format.

    Raises:
        UsageError: For a value that is invalid, also one of the environment or of the configuration file.
    """
    settings, configuration = _read_settings(options)
    _require_possible_format(formats, options.output_format, as_json=options.as_json)
    if options.template is not None:
        _require_template(options.template, "json" if options.as_json else options.output_format)

    requested_format = _find_requested_format(options)
    wished_format = _settle_format(formats, options, settings, configuration, name_chooses_format=name_chooses_format)
    colours = _settle_colours(options, settings, configuration)
    progress_choice = options.progress or configured(ProgressChoice, Variable.PROGRESS, settings, configuration)
    shows_progress = progress_choice or ProgressChoice.AUTO
    log_format = _settle_log_format(options, wished_format)

    # From here on errors are written as these options say.
    invocation.log_is_json = log_format is LogFormat.JSON
    invocation.verbosity = options.verbose

    output = _settle_output(formats, options, wished_format, name_chooses_format=name_chooses_format)
    is_quiet = options.quiet or settings.get("quiet") is True
    clock = _make_clock(options.now)
    storage_options = _merge_storage_options(settings, options.storage_option)
    has_coloured_notes = has_coloured_stderr(colours)
    context = CommandContext(
        results=ResultOptions(
            format=output.format,
            terminal=detect_terminal(colours, to_file=output.file not in (None, "-")),
            file=output.file,
            directory=output.directory,
            is_paged=not options.no_pager,
            keeps_progress=shows_progress is not ProgressChoice.AUTO,
        ),
        notes=NoteOptions(
            quiet=is_quiet,
            verbosity=options.verbose,
            as_json=log_format is LogFormat.JSON,
            coloured=has_coloured_notes,
        ),
        stores=StoreOptions(
            storage_options=storage_options,
            allow_external=(*settings.get("allow_external", ()), *(options.allow_external or ())),
            retry_budget_ms=retry_budget_of(options.retry_budget, settings.get("retry_budget"), configuration),
            access=options.access or AccessMode.AUTO,
            catalog=choose_catalog(options.catalog_profile, settings, options.config or Variable.CONFIG.read()),
        ),
        engine_source=EngineSource(
            can_use_cluster=cluster is not None,
            cluster=None if cluster is None else settle_engine(cluster, settings, configuration),
        ),
        clock=clock,
        progress=SILENT if is_quiet else _start_progress(shows_progress, colour=has_coloured_notes),
        table_format=options.table_format,
    )
    is_text_by_default = requested_format is None and output.format is TABLE
    if name_chooses_format and is_text_by_default and len(formats) > 1:
        _note_unknown_ending(context, formats)
    return context


def _find_requested_format(options: SharedOptions) -> str | None:
    """Return the format that an option names; None without one, and with a template, which replaces it."""
    if options.template is not None:
        return None
    return "json" if options.as_json else options.output_format


def _settle_format(
    formats: type[StrEnum],
    options: SharedOptions,
    settings: Mapping[str, Toml],
    configuration: str,
    *,
    name_chooses_format: bool,
) -> str:
    """Return the format of the result and of errors, which may be one that the command does not have.

    A command with a single format ignores the default of the configuration for its result, but its errors follow it.
    """
    is_named = options.output is not None and find_format_by_name(options.output) is not None
    accepts_all = (name_chooses_format and is_named) or len(formats) == 1
    default = _find_requested_format(options) or configured(
        EveryFormat if accepts_all else formats, Variable.FORMAT, settings, configuration
    )
    if options.template is not None:
        return TABLE.name
    return str(default or TABLE.name)


def _settle_colours(options: SharedOptions, settings: Mapping[str, Toml], configuration: str) -> ColourChoice:
    """Return the choice of colours. Raises UsageError for an invalid one, also where another one comes before it."""
    in_environment: ColourChoice | None = one_of(ColourChoice, Variable.COLOR.read(), Variable.COLOR)
    in_settings: ColourChoice | None = one_of(ColourChoice, settings.get("color"), f"color {configuration}")
    return options.colour or in_environment or in_settings or ColourChoice.AUTO


def _settle_log_format(options: SharedOptions, wished_format: str) -> LogFormat:
    """Return the form of notes and errors: that of the result where it is for programs."""
    if options.log_format is not None:
        return options.log_format
    is_json = wished_format in FORMATS and FORMATS[wished_format].errors_are_json
    return LogFormat.JSON if is_json else LogFormat.TEXT


def _settle_output(
    formats: type[StrEnum], options: SharedOptions, wished_format: str, *, name_chooses_format: bool
) -> SettledOutput:
    """Return where the result goes. Raises UsageError for a target that is not possible, or contradicts the format."""
    requested_format = _find_requested_format(options)
    result_format = TABLE
    if wished_format in list(formats):
        result_format = FORMATS.get(wished_format, TABLE)

    file = options.output
    can_be_directory = PARQUET.name in list(formats)
    directory = find_output_directory(options.output) if can_be_directory else None
    if directory is not None:
        file = None
        result_format = _format_of_directory(result_format, options.output_format, directory)
    if file is not None:
        _require_no_format(file, formats, requested_format)
        require_file_outside_tables(file, "--output")
        require_parent_directory(file)
        if name_chooses_format:
            result_format = _format_of_name(file, formats, requested_format) or result_format

    if options.template is not None:
        if result_format is not TABLE or directory is not None:
            raise errors.UsageError(
                f"--template and --output {options.output} exclude each other", code="usage.template"
            )
        result_format = TEMPLATE._replace(template=options.template)
    return SettledOutput(result_format, file, directory)


def _read_settings(options: SharedOptions) -> tuple[dict[str, Toml], str]:
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


def _note_unknown_ending(run: CommandContext, formats: type[StrEnum]) -> None:
    """Note that the name of the output file chooses no format, where its ending is not that of a text.

    Raises UsageError for an ending that is almost one of a format.
    """
    name, ending = os.path.splitext(run.output or "")
    if ending and ending.lower() not in _OF_TEXTS:
        known = [name for row in FORMATS.values() if row.name in list(formats) for name in row.endings]
        if near := errors.nearest_name(ending, known, ignores_case=True, cutoff=_ALIKE_ENDINGS):
            raise errors.UsageError(
                f"--output {run.output}: {ending} chooses no format",
                code="usage.output",
                facts={"did you mean": name + near, "for text": "--format table"},
            ).suggest_as_fact(name + ending, name + near)
        run.note(f"note: {ending} chooses no format, so {run.output} is text; endings that do: {', '.join(known)}")


_OF_TEXTS = (".log", ".out", ".text", ".txt")
_ALIKE_ENDINGS = 0.8


def _make_clock(now: str | None) -> Clock:
    return system_clock if now is None else fixed_clock(parse_moment("--now", now, invocation.arguments))


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


def _require_possible_format(formats: type[StrEnum], output_format: StrEnum | None, *, as_json: bool) -> None:
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


def _merge_storage_options(settings: Mapping[str, Toml], given: list[str] | None) -> dict[str, str]:
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


def _start_progress(choice: ProgressChoice, *, colour: bool) -> Progress:
    """Return the progress to show; imports nothing where progress is not shown."""
    on_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    if choice is ProgressChoice.NEVER or (choice is ProgressChoice.AUTO and not on_terminal):
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
    from deltacli.engine.spark.session import SparkSettings

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
