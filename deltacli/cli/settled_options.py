"""The settled values of the shared options: option, then environment, then configuration file, then default."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from deltacli.cli.invocation import invocation
from deltacli.cli.options.catalog_choice import choose_catalog
from deltacli.cli.options.configuration import (
    Variable,
    get_configured_choice,
    parse_choice,
    read_configuration,
    settle_retry_budget,
)
from deltacli.cli.options.moments import parse_time_option
from deltacli.cli.options.option_values import parse_storage_option
from deltacli.cli.output.formats import FORMATS, TABLE
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.engine_source import EngineSource
from deltacli.cli.running.note_options import NoteOptions
from deltacli.cli.running.result_options import ResultOptions
from deltacli.cli.running.stores import StoreOptions
from deltacli.cli.settled_engine import settle_engine
from deltacli.cli.settled_output import OutputOptions, choose_format_name, note_unknown_extension, settle_output
from deltacli.cli.shared_options import AccessMode, ColourChoice, LogFormat, ProgressChoice, SharedOptions
from deltacli.cli.terminal.capabilities import detect_terminal, has_coloured_stderr
from deltacli.core.errors import UsageError
from deltacli.core.machine import Clock, fixed_clock, system_clock
from deltacli.core.progress import SILENT, Progress
from deltacli.core.typing import Toml

if TYPE_CHECKING:
    from deltacli.cli.options.cluster import ClusterOptions


@dataclass(frozen=True)
class Settings:
    """The settings of the configuration file, with those of the selected profile.

    Attributes:
        values: The settings by key. Empty if there is no configuration file.
        description: The phrase that names the file in errors, such as `in the configuration deltacli.toml`.
    """

    values: Mapping[str, Toml]
    description: str


def settle_options(
    formats: type[StrEnum],
    options: SharedOptions,
    cluster: ClusterOptions | None,
    *,
    name_chooses_format: bool = True,
) -> CommandContext:
    """Settle the values of the shared options, and return the context of the command.

    Args:
        formats: The formats that the command writes.
        options: The shared options of the command line.
        cluster: The options that choose the engine. None: the command does not run on a cluster.
        name_chooses_format: Whether the extension of the output file chooses the format.

    Raises:
        UsageError: If a value is invalid, in the command line, the environment or the configuration file.
    """
    settings = _read_settings(options)
    output_options = OutputOptions(formats, options, name_chooses_format)
    output_options.require_consistent_options()

    format_name = choose_format_name(output_options, settings.values, settings.description)
    colours = _settle_colours(options, settings)
    progress_choice = _settle_progress(options, settings)
    log_format = _settle_log_format(options, format_name)

    # From here on errors are written in the settled format.
    invocation.log_is_json = log_format is LogFormat.JSON
    invocation.verbosity = options.verbose

    output = settle_output(output_options, format_name)
    clock = _make_clock(options.now)
    storage_options = _merge_storage_options(options, settings)
    notes = NoteOptions(
        quiet=options.quiet or settings.values.get("quiet") is True,
        verbosity=options.verbose,
        as_json=log_format is LogFormat.JSON,
        coloured=has_coloured_stderr(colours),
    )
    results = ResultOptions(
        format=output.format,
        terminal=detect_terminal(colours, to_file=output.file not in (None, "-")),
        file=output.file,
        directory=output.directory,
        is_paged=not options.no_pager,
        keeps_progress=progress_choice is not ProgressChoice.AUTO,
    )
    context = CommandContext(
        results=results,
        notes=notes,
        stores=_make_store_options(options, settings, storage_options),
        engine_source=_make_engine_source(cluster, settings),
        clock=clock,
        progress=SILENT if notes.quiet else _start_progress(progress_choice, colour=notes.coloured),
        table_format=options.table_format,
    )
    is_text_by_default = output_options.requested_format is None and output.format is TABLE
    if name_chooses_format and is_text_by_default and len(formats) > 1:
        note_unknown_extension(context, formats)
    return context


def _read_settings(options: SharedOptions) -> Settings:
    """Read the configuration file. Raises UsageError."""
    # An empty value usually comes from an unset variable in a script. Without this check, the run would silently use
    # other credentials than intended.
    names = {
        "--config": options.config,
        "--profile-name": options.profile_name,
        "--catalog-profile": options.catalog_profile,
    }
    for option, name in names.items():
        if name == "":
            raise UsageError(f"{option} is empty: a variable of the script may be unset", code="usage.config")

    path = options.config or Variable.CONFIG.read()
    profile = options.profile_name or Variable.PROFILE.read()
    description = f"in the configuration {path}"
    if profile:
        description += f" with the profile {profile}"
    return Settings(read_configuration(path, profile), description)


def _settle_colours(options: SharedOptions, settings: Settings) -> ColourChoice:
    """Return the choice of colours. Raises UsageError for any invalid value, even if another value overrides it."""
    environment_choice: ColourChoice | None = parse_choice(ColourChoice, Variable.COLOR.read(), Variable.COLOR)
    configured_choice: ColourChoice | None = parse_choice(
        ColourChoice, settings.values.get("color"), f"color {settings.description}"
    )
    return options.colour or environment_choice or configured_choice or ColourChoice.AUTO


def _settle_progress(options: SharedOptions, settings: Settings) -> ProgressChoice:
    if options.progress is not None:
        return options.progress
    configured_choice: ProgressChoice | None = get_configured_choice(
        ProgressChoice, Variable.PROGRESS, settings.values, settings.description
    )
    return configured_choice or ProgressChoice.AUTO


def _settle_log_format(options: SharedOptions, format_name: str) -> LogFormat:
    """Return the format of notes and errors. By default they are JSON if the result is JSON."""
    if options.log_format is not None:
        return options.log_format
    is_json = format_name in FORMATS and FORMATS[format_name].errors_are_json
    return LogFormat.JSON if is_json else LogFormat.TEXT


def _make_clock(now: str | None) -> Clock:
    if now is None:
        return system_clock
    return fixed_clock(parse_time_option("--now", now, invocation.arguments))


def _merge_storage_options(options: SharedOptions, settings: Settings) -> dict[str, str]:
    """Return the options of stores. The command line overrides the configuration file. Raises UsageError."""
    storage_options: dict[str, str] = dict(settings.values.get("storage_options", {}))
    for text in options.storage_option or []:
        key, value = parse_storage_option(text)
        storage_options[key] = value
    return storage_options


def _make_store_options(options: SharedOptions, settings: Settings, storage_options: Mapping[str, str]) -> StoreOptions:
    """Return the options for opening stores. Raises UsageError."""
    configured_prefixes = settings.values.get("allow_external", ())
    configured_budget = settings.values.get("retry_budget")
    configuration_file = options.config or Variable.CONFIG.read()
    return StoreOptions(
        storage_options=storage_options,
        allow_external=(*configured_prefixes, *(options.allow_external or ())),
        retry_budget_ms=settle_retry_budget(options.retry_budget, configured_budget, settings.description),
        access=options.access or AccessMode.AUTO,
        catalog=choose_catalog(options.catalog_profile, settings.values, configuration_file),
    )


def _make_engine_source(cluster: ClusterOptions | None, settings: Settings) -> EngineSource:
    """Return the opener of the engine. Raises UsageError."""
    if cluster is None:
        return EngineSource(can_use_cluster=False)
    spark_settings = settle_engine(cluster, settings.values, settings.description)
    return EngineSource(can_use_cluster=True, cluster=spark_settings)


def _start_progress(choice: ProgressChoice, *, colour: bool) -> Progress:
    """Return the progress display. Without one, the modules that draw it are not imported."""
    is_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    if choice is ProgressChoice.NEVER or (choice is ProgressChoice.AUTO and not is_terminal):
        return SILENT
    from deltacli.cli.terminal.progress import start_progress

    return start_progress(choice, colour=colour)
