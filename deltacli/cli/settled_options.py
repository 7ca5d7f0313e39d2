"""The settled values of the shared options: option, then environment, then configuration file, then default."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from deltacli.cli import results
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
from deltacli.cli.running.run import Run
from deltacli.cli.shared_options import AccessMode, ColourChoice, LogFormat, ProgressChoice, SharedOptions
from deltacli.cli.terminal import term
from deltacli.core import errors
from deltacli.core.machine import Clock, fixed_clock, system_clock
from deltacli.core.progress import SILENT, Progress
from deltacli.core.typing import JsonObject, Toml

if TYPE_CHECKING:
    from deltacli.cli.options.cluster import ClusterOptions
    from deltacli.engine.spark.engine import SparkSettings


def settle_options(
    formats: type[StrEnum],
    options: SharedOptions,
    cluster: ClusterOptions | None,
    *,
    name_chooses_format: bool = True,
) -> Run:
    """Settle the shared options: option, environment, configuration file, default. Raises UsageError."""
    settings, configuration = _settings_of(options)
    _require_readable(formats, options.output_format, as_json=options.as_json)
    given = "json" if options.as_json else options.output_format
    if options.template is not None:
        _require_template(options.template, given)
        given = None
    is_named = name_chooses_format and options.output is not None and results.format_named(options.output) is not None
    wished = _wished_format(results.EveryFormat if is_named else formats, given, settings, configuration)
    wished = results.TABLE.name if options.template is not None else wished
    in_environment = one_of(ColourChoice, Variable.COLOR.read(), Variable.COLOR)
    in_settings = one_of(ColourChoice, settings.get("color"), f"color {configuration}")
    colours = options.colour or in_environment or in_settings or ColourChoice.AUTO
    shows = options.progress or configured(ProgressChoice, Variable.PROGRESS, settings, configuration)
    shows = shows or ProgressChoice.AUTO
    is_json = wished in results.FORMATS and results.FORMATS[wished].errors_are_json
    logs = options.log_format or (LogFormat.JSON if is_json else LogFormat.TEXT)
    invocation.log_is_json, invocation.verbosity = logs is LogFormat.JSON, options.verbose
    chosen = results.FORMATS.get(wished, results.TABLE) if wished in list(formats) else results.TABLE
    output, directory = (
        options.output,
        results.directory_of(options.output) if results.PARQUET.name in list(formats) else None,
    )
    if directory is not None:
        output, chosen = None, _format_of_directory(chosen, options.output_format, directory)
    if output is not None:
        _require_no_format(output, formats, given)
        results.require_target(output, "--output")
        results.require_directory(output)
        chosen = (_format_of_name(output, formats, given) if name_chooses_format else None) or chosen
    if options.template is not None:
        if chosen is not results.TABLE or directory is not None:
            raise errors.UsageError(
                f"--template and --output {options.output} exclude each other", code="usage.template"
            )
        chosen = results.TEMPLATE._replace(template=options.template)
    is_quiet = options.quiet or settings.get("quiet") is True
    run = Run(
        format=chosen,
        output=output,
        clock=_clock_of(options.now),
        storage_options=_storage_options(settings, options.storage_option),
        terminal=term.detect_terminal(colours, to_file=output not in (None, "-")),
        quiet=is_quiet,
        verbosity=options.verbose,
        table_format=options.table_format,
        access=options.access or AccessMode.AUTO,
        progress=SILENT if is_quiet else _start_progress(shows, colour=term.colours_stderr(colours)),
        progress_is_asked_for=shows is not ProgressChoice.AUTO,
        log_is_json=logs is LogFormat.JSON,
        is_paged=not options.no_pager,
        retry_budget_ms=retry_budget_of(options.retry_budget, settings.get("retry_budget"), configuration),
        allow_external=(*settings.get("allow_external", ()), *(options.allow_external or ())),
        directory=directory,
        colours_notes=term.colours_stderr(colours),
        can_use_cluster=cluster is not None,
        cluster=None if cluster is None else settle_engine(cluster, settings, configuration),
        catalog=choose_catalog(options.catalog_profile, settings, options.config or Variable.CONFIG.read()),
    )
    if name_chooses_format and given is None and chosen is results.TABLE and len(formats) > 1:
        _note_unknown_ending(run, formats)
    return run


def _settings_of(options: SharedOptions) -> tuple[dict[str, Toml], str]:
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
    if given is not None or len(formats) == 1 or output not in (*results.FORMATS, "yaml"):
        return
    from deltacli.cli.terminal.shell import again_with, without_option

    meant = output if output in list(formats) else results.JSON.name
    raise errors.UsageError(
        f"--output {output}: this is the name of a format, and --output takes the name of a file",
        code="usage.output",
        facts={
            "formats": ", ".join(formats),
            "for a file of this name": f"--output {output} --format {results.TABLE.name}",
        },
        hint=again_with(without_option(invocation.arguments, "--output"), "--format", meant),
    )


def _note_unknown_ending(run: Run, formats: type[StrEnum]) -> None:
    """Note that the name of the output file chooses no format, where its ending is not that of a text.

    Raises UsageError for an ending that is almost one of a format.
    """
    name, ending = os.path.splitext(run.output or "")
    if ending and ending.lower() not in _OF_TEXTS:
        known = [name for row in results.FORMATS.values() if row.name in list(formats) for name in row.endings]
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
    return system_clock if now is None else fixed_clock(parse_moment("--now", now, invocation.arguments))


def _format_of_directory(chosen: results.Format, given: StrEnum | None, directory: str) -> results.Format:
    """Return the format of the result that describes an output directory. Raises UsageError."""
    from deltacli.cli.terminal.shell import again_with

    results.require_empty_target(directory)
    if given in (results.NDJSON.name, results.CSV.name):
        raise errors.UsageError(
            f"--format {given} cannot be written to a directory",
            code="usage.output",
            facts={"directory": directory, "expected": "parquet, or a file for --output"},
            hint=again_with(invocation.arguments, "--format", results.PARQUET.name),
        )
    return results.TABLE if chosen is results.PARQUET else chosen


def _require_readable(formats: type[StrEnum], output_format: StrEnum | None, *, as_json: bool) -> None:
    if as_json and output_format not in (None, "json"):
        raise errors.UsageError(f"--json and --format {output_format} exclude each other")
    if as_json and "json" not in list(formats):
        from deltacli.cli.terminal.shell import again_without

        raise errors.UsageError(
            "--json is not available: this command has a fixed format",
            hint=again_without(invocation.arguments, "--json"),
        )


def _require_template(template: str, given: str | None) -> None:
    """Raise UsageError for a template with errors, and for a format, which a template replaces."""
    from deltacli.cli.formats.template import parse_template

    if given not in (None, results.TABLE.name):
        raise errors.UsageError(f"--template and --format {given} exclude each other", code="usage.template")
    parse_template(template)


def _storage_options(settings: Mapping[str, Toml], given: list[str] | None) -> dict[str, str]:
    """Return the options of the store; the command line overrides the configuration. Raises UsageError."""
    return {**settings.get("storage_options", {}), **dict(map(parse_storage_option, given or []))}


def _writable_name(stem: str) -> str:
    """Return the name of a file that can be written, for one without its last ending: `x.csv` of `x.csv.gz`."""
    while stem.lower().endswith(results.FOREIGN_ENDINGS):
        stem = stem.rpartition(".")[0]
    return stem if results.format_named(stem) is not None else f"{stem}.{results.CSV.name}"


def _format_of_name(output: str, formats: type[StrEnum], given: str | None) -> results.Format | None:
    """Return the format that the name of the output file chooses; None where it is left open, and for a command with a
    single format, which may be JSON. Raises UsageError where an option contradicts the name, and where the command
    lacks the format.
    """
    named = results.format_named(output)
    if given is None and len(formats) > 1 and output.lower().endswith(results.FOREIGN_ENDINGS):
        from deltacli.cli.terminal.shell import again_with

        stem, _, ending = output.rpartition(".")
        as_junit = ending.lower() == "xml" and "junit" in list(formats)
        raise errors.UsageError(
            f"--output {output}: "
            + ("name the format of an XML file" if as_junit else f"deltacli cannot write .{ending}"),
            code="usage.output",
            facts={"formats": ", ".join(formats)},
            hint=again_with(invocation.arguments, "--format", "junit")
            if as_junit
            else again_with(invocation.arguments, "--output", _writable_name(stem)),
        )
    if named is None or (len(formats) == 1 and named in (results.JSON, results.NDJSON)):
        return None
    if (
        given is not None and given != named.name and not (given == "sarif" and named is results.JSON)
    ):  # which SARIF is, too
        from deltacli.cli.terminal.shell import again, without_value

        raise errors.UsageError(
            f"--format {given} contradicts --output {output}, whose name chooses {named.name}",
            code="usage.output",
            hint=again([word for word in without_value(invocation.arguments, "--format", given) if word != "--json"]),
        )
    if named.name not in list(formats):
        endings = [results.FORMATS[name].endings[0] for name in formats if results.FORMATS[name].endings]
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
    defaults = results.EveryFormat if len(formats) == 1 else formats
    return str(given or configured(defaults, Variable.FORMAT, settings, configuration) or "table")


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
