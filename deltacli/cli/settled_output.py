"""The destination and the format of a result, from `--output`, `--format`, `--json` and `--template`.

The format is chosen by the first of these that says anything:

1. an option: `--json`, `--format json`, `--template '{path}'`
2. the extension of the output file: `--output versions.csv`
3. the environment variable `DELTACLI_FORMAT`
4. the configuration file
5. the default: a table
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from deltacli.cli.invocation import invocation
from deltacli.cli.options.configuration import Variable, get_configured_choice
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
from deltacli.cli.shared_options import SharedOptions
from deltacli.cli.terminal.suggested_commands import (
    remove_option,
    remove_option_value,
    repeat_command,
    repeat_command_with,
    repeat_command_without_flag,
)
from deltacli.core.errors import UsageError, nearest_name
from deltacli.core.typing import Toml

_TEXT_EXTENSIONS = (".log", ".out", ".text", ".txt")
_MIN_SIMILARITY = 0.8
"""How similar an unknown extension has to be to one of a format, from 0 to 1, to be taken for a typing error."""


@dataclass(frozen=True)
class SettledOutput:
    """The format and the destination of a result.

    Attributes:
        format: The format of the result.
        file: The output file, or `-` for stdout. None: stdout.
        directory: The directory for rows as Parquet files. The result then lists the files that were written.
    """

    format: Format
    file: str | None
    directory: str | None


@dataclass(frozen=True)
class OutputOptions:
    """The options that determine the output, and the formats that the command supports.

    Attributes:
        supported_formats: The formats that the command writes.
        shared: The shared options of the command line.
        uses_extension: Whether the extension of the output file chooses the format.
    """

    supported_formats: type[StrEnum]
    shared: SharedOptions
    uses_extension: bool

    @property
    def has_one_format(self) -> bool:
        """True if the command supports a single format only."""
        return len(self.supported_formats) == 1

    @property
    def requested_format(self) -> str | None:
        """The format that `--format` or `--json` requests. None for a template, which replaces the format."""
        if self.shared.template is not None:
            return None
        return "json" if self.shared.as_json else self.shared.output_format

    def is_supported(self, format_name: str) -> bool:
        """Return whether the command writes a format."""
        return format_name in list(self.supported_formats)

    def require_consistent_options(self) -> None:
        """Require that `--json`, `--format` and `--template` do not contradict each other.

        Raises:
            UsageError: If they do, if the command does not write JSON, or if the template is invalid.
        """
        output_format = self.shared.output_format
        if self.shared.as_json and output_format not in (None, "json"):
            raise UsageError(f"--json and --format {output_format} exclude each other")
        if self.shared.as_json and not self.is_supported("json"):
            raise UsageError(
                "--json is not available: this command has a fixed format",
                hint=repeat_command_without_flag(invocation.arguments, "--json"),
            )
        if self.shared.template is None:
            return

        from deltacli.cli.output.template import check_template

        format_name = "json" if self.shared.as_json else output_format
        if format_name not in (None, TABLE.name):
            raise UsageError(f"--template and --format {format_name} exclude each other", code="usage.template")
        check_template(self.shared.template)


def choose_format_name(output: OutputOptions, settings: Mapping[str, Toml], configuration: str) -> str:
    """Return the format for the result and for errors, before the name of the output file is considered.

    The command may not support this format: a command with a single format ignores the configured format for its
    result, but writes errors as JSON if that format is JSON.

    Args:
        output: The options.
        settings: The settings of the configuration file.
        configuration: The phrase that names the configuration file in errors.

    Raises:
        UsageError: If the format in the environment or in the configuration is invalid.
    """
    file = output.shared.output
    is_chosen_by_extension = output.uses_extension and file is not None and find_format_by_name(file) is not None
    # If the configured format is not used for the result, it may be one that the command does not support.
    is_configured_format_unused = is_chosen_by_extension or output.has_one_format
    configurable_formats = EveryFormat if is_configured_format_unused else output.supported_formats

    format_name = output.requested_format
    if format_name is None:
        format_name = get_configured_choice(configurable_formats, Variable.FORMAT, settings, configuration)
    if output.shared.template is not None:
        return TABLE.name
    return str(format_name or TABLE.name)


def settle_output(output: OutputOptions, format_name: str) -> SettledOutput:
    """Return the format and the destination of the result.

    Args:
        output: The options.
        format_name: The result of `choose_format_name`.

    Raises:
        UsageError: If the name of the output file contradicts the format, or the file is inside a table.
        StorageFailed: If the directory of the output file does not exist.
    """
    result_format = TABLE
    if output.is_supported(format_name):
        result_format = FORMATS.get(format_name, TABLE)

    file = output.shared.output
    directory = find_output_directory(file) if output.is_supported(PARQUET.name) else None
    if directory is not None:
        file = None
        result_format = _choose_directory_format(result_format, output.shared.output_format, directory)
    if file is not None:
        _refuse_format_as_file(file, output)
        require_file_outside_tables(file, "--output")
        require_parent_directory(file)
        if output.uses_extension:
            result_format = _choose_format_by_extension(file, output) or result_format

    if output.shared.template is not None:
        if result_format is not TABLE or directory is not None:
            raise UsageError(
                f"--template and --output {output.shared.output} exclude each other", code="usage.template"
            )
        result_format = TEMPLATE._replace(template=output.shared.template)
    return SettledOutput(result_format, file, directory)


def note_unknown_extension(run: CommandContext, supported_formats: type[StrEnum]) -> None:
    """Note that the extension of the output file is not known, so that the file contains text.

    Raises:
        UsageError: If the extension is similar to a known one, such as `.jsn`.
    """
    stem, extension = os.path.splitext(run.output or "")
    if not extension or extension.lower() in _TEXT_EXTENSIONS:
        return

    known_extensions: list[str] = []
    for row in FORMATS.values():
        if row.name in list(supported_formats):
            known_extensions.extend(row.endings)
    similar = nearest_name(extension, known_extensions, ignores_case=True, cutoff=_MIN_SIMILARITY)
    if similar:
        raise UsageError(
            f"--output {run.output}: {extension} chooses no format",
            code="usage.output",
            facts={"did you mean": stem + similar, "for text": "--format table"},
        ).suggest_as_fact(stem + extension, stem + similar)
    extensions = ", ".join(known_extensions)
    run.note(f"note: {extension} chooses no format, so {run.output} is text; endings that do: {extensions}")


def _refuse_format_as_file(file: str, output: OutputOptions) -> None:
    """Refuse `--output json`: in other programs this selects the format. Raises UsageError."""
    if output.requested_format is not None or output.has_one_format or file not in (*FORMATS, "yaml"):
        return
    suggested_format = file if output.is_supported(file) else JSON.name
    raise UsageError(
        f"--output {file}: this is the name of a format, and --output takes the name of a file",
        code="usage.output",
        facts={
            "formats": ", ".join(output.supported_formats),
            "for a file of this name": f"--output {file} --format {TABLE.name}",
        },
        hint=repeat_command_with(remove_option(invocation.arguments, "--output"), "--format", suggested_format),
    )


def _choose_directory_format(chosen: Format, requested: StrEnum | None, directory: str) -> Format:
    """Return the format of the result that lists the Parquet files in an output directory. Raises UsageError."""
    require_output_directory(directory)
    if requested in (NDJSON.name, CSV.name):
        raise UsageError(
            f"--format {requested} cannot be written to a directory",
            code="usage.output",
            facts={"directory": directory, "expected": "parquet, or a file for --output"},
            hint=repeat_command_with(invocation.arguments, "--format", PARQUET.name),
        )
    return TABLE if chosen is PARQUET else chosen


def _choose_format_by_extension(file: str, output: OutputOptions) -> Format | None:
    """Return the format for the extension of the output file.

    None if the extension is unknown, if an option has requested the same format, and for `.json` if the command has a
    single format, which may be JSON.

    Raises:
        UsageError: If the extension contradicts an option, or is one of a format that the command does not write.
    """
    requested = output.requested_format
    if requested is None and not output.has_one_format and file.lower().endswith(FOREIGN_ENDINGS):
        raise _make_foreign_extension_error(file, output)

    file_format = find_format_by_name(file)
    if file_format is None or (output.has_one_format and file_format in (JSON, NDJSON)):
        return None

    is_sarif = requested == "sarif" and file_format is JSON  # SARIF is JSON, too
    if requested is not None and requested != file_format.name and not is_sarif:
        words = remove_option_value(invocation.arguments, "--format", requested)
        raise UsageError(
            f"--format {requested} contradicts --output {file}, whose name chooses {file_format.name}",
            code="usage.output",
            hint=repeat_command([word for word in words if word != "--json"]),
        )
    if not output.is_supported(file_format.name):
        raise _make_unsupported_format_error(file, file_format, output)
    return None if requested else file_format


def _make_foreign_extension_error(file: str, output: OutputOptions) -> UsageError:
    """Return the error for an extension of another program's format, such as `.xlsx` or `.csv.gz`."""
    stem, _, extension = file.rpartition(".")
    message = f"deltacli cannot write .{extension}"
    hint = repeat_command_with(invocation.arguments, "--output", _make_writable_name(stem))
    if extension.lower() == "xml" and output.is_supported("junit"):
        message = "name the format of an XML file"
        hint = repeat_command_with(invocation.arguments, "--format", "junit")
    return UsageError(
        f"--output {file}: {message}",
        code="usage.output",
        facts={"formats": ", ".join(output.supported_formats)},
        hint=hint,
    )


def _make_unsupported_format_error(file: str, file_format: Format, output: OutputOptions) -> UsageError:
    supported_formats = [FORMATS[name] for name in output.supported_formats]
    extensions = [row.endings[0] for row in supported_formats if row.endings]
    facts = None
    hint = "choose another name"
    if extensions:
        facts = {"formats": ", ".join(output.supported_formats)}
        hint = f"choose a name that ends with {', '.join(extensions)}"
    return UsageError(
        f"--output {file}: this command does not write {file_format.name}", code="usage.output", facts=facts, hint=hint
    )


def _make_writable_name(stem: str) -> str:
    """Return a file name of a supported format: `x.csv` for the stem of `x.csv.gz` and for that of `x.xlsx`."""
    while stem.lower().endswith(FOREIGN_ENDINGS):
        stem = stem.rpartition(".")[0]
    return stem if find_format_by_name(stem) is not None else f"{stem}.{CSV.name}"
