"""The classes of commands: the formats that a command writes, and whether it can run on a cluster.

A command names its class where it is registered: `@app.command("vacuum", cls=ClusterCommand)`. The class adds the
options that all commands share; the function of the command finds their settled values in `context.obj`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Any, ClassVar

from typer.core import TyperCommand

from deltacli.cli.configured_errors import settle_error_format
from deltacli.cli.help.pages import write_command_help
from deltacli.cli.invocation import ASK_FOR_HELP, HELP_ALL
from deltacli.cli.missing_values import make_missing_value_error
from deltacli.cli.options.cluster import ClusterOptions, declare_cluster_options
from deltacli.cli.output.formats import AnyFormat, FindingFormat, RowFormat, TableFormat
from deltacli.cli.parameter_types import get_parameter_name, takes_value
from deltacli.cli.running.context import CommandContext
from deltacli.cli.settled_options import settle_options
from deltacli.cli.shared_options import (
    SharedOptions,
    declare_output,
    declare_output_of_findings,
    declare_output_of_rows,
    declare_output_of_text,
    declare_settings,
    read_parameters,
)
from deltacli.cli.usage_errors import UnexpectedWords
from deltacli.cli.vendored_click import Command, Context, Parameter
from deltacli.core.errors import UsageError
from deltacli.core.units import require_number

HELP_OF_HELP = f"Show help and exit; {HELP_ALL} has every option."


class ReaderGoneError(Exception):
    """The program that reads stdout has closed the pipe, as `head` does. This is not an error."""


class SharedOptionsCommand(TyperCommand):
    """A command that has the shared options in addition to its own.

    If the command has an option of the same name, such as `--config` of `share serve`, the shared one is omitted.

    Attributes:
        formats: The formats that the command writes.
        declare_output: The function that declares the options of the output.
        runs_on_cluster: Whether the command has the options that choose the engine.
        name_chooses_format: Whether the name of the output file chooses the format.
    """

    formats: ClassVar[type[StrEnum]] = AnyFormat
    declare_output: ClassVar[Callable[..., None]] = staticmethod(declare_output)
    runs_on_cluster: ClassVar[bool] = False
    name_chooses_format: ClassVar[bool] = True

    allow_extra_args = True
    """`parse_args` refuses extra words itself, because its error contains them as a list."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:  # Any: as TyperCommand takes them
        super().__init__(*arguments, **settings)
        own_names = {parameter.name for parameter in self.params}
        cluster = read_parameters(declare_cluster_options) if self.runs_on_cluster else []
        shared = [*read_parameters(self.declare_output), *read_parameters(declare_settings)]
        self.declarations = [self.callback, self.declare_output, declare_settings, declare_cluster_options]
        self._cluster_names = [get_parameter_name(parameter) for parameter in cluster]
        self._shared_names = [get_parameter_name(parameter) for parameter in shared if parameter.name not in own_names]
        self.params += [parameter for parameter in [*cluster, *shared] if parameter.name not in own_names]

    def get_help_option_names(self, ctx: Context) -> list[str]:  # noqa: ARG002  (Typer passes it)
        """Return the options that show help. No command uses these names for another option."""
        return [*ASK_FOR_HELP]

    def get_help_option(self, ctx: Context) -> Any:  # Any: an option of Typer's, whose class differs by version
        """Return the help option with a help text that mentions `--help-all`."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.help = HELP_OF_HELP
        return option

    def get_help(self, ctx: Context) -> str:
        """Return the help: all options for `--help-all`, the common ones otherwise."""
        return write_command_help(self, ctx)

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Parse the words of the command. Raises the UsageError of Typer or of deltacli."""
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)

        _require_values(self, args)
        try:
            # The parser removes words from the list, so it gets a copy.
            remaining = super().parse_args(ctx, [*args])
        except UsageError:
            # In `--retention 168 hours` the space is the error. A hint about the extra word is more useful than the
            # error that a duration needs a unit.
            self._refuse_unexpected_words(ctx, args)
            settle_error_format(args)
            raise
        if remaining:
            raise UnexpectedWords(remaining, ctx)

        for parameter in self.params:
            value = ctx.params.get(get_parameter_name(parameter))
            if type(value) is int:
                require_number(value, get_name_in_errors(parameter))
        return remaining

    def _refuse_unexpected_words(self, ctx: Context, args: list[str]) -> None:
        """Raise UnexpectedWords for words after the last argument. No value is converted."""
        _, remaining, _ = self.make_parser(ctx).parse_args([*args])
        if remaining:
            raise UnexpectedWords(remaining, ctx)

    def invoke(self, ctx: Context) -> Any:  # Any: as Typer's own
        """Settle the shared options, and call the function of the command with its own options."""
        cluster_values = {name: ctx.params.pop(name) for name in self._cluster_names}
        shared_values = {name: ctx.params.pop(name) for name in self._shared_names}
        context = settle_options(
            self.formats,
            SharedOptions(**shared_values),
            ClusterOptions(**cluster_values) if self.runs_on_cluster else None,
            name_chooses_format=self.name_chooses_format,
        )
        ctx.obj = context
        try:
            _note_comparison_with_null(context, ctx.params.get("where"))
            return super().invoke(ctx)
        except BrokenPipeError as closed:
            raise ReaderGoneError from closed
        finally:
            context.close()


class TextCommand(SharedOptionsCommand):
    """A command whose result is a text, such as a script or a path."""

    formats = TableFormat
    declare_output = staticmethod(declare_output_of_text)


class RowsCommand(SharedOptionsCommand):
    """A command that writes rows of a table. Parquet is one of its formats."""

    formats = RowFormat
    declare_output = staticmethod(declare_output_of_rows)


class FindingsCommand(SharedOptionsCommand):
    """A command that writes findings. Its formats include those of code hosts and build servers."""

    formats = FindingFormat
    declare_output = staticmethod(declare_output_of_findings)


class ClusterCommand(SharedOptionsCommand):
    """A command that can run on a Spark cluster."""

    runs_on_cluster = True


class ClusterRowsCommand(RowsCommand):
    """A command that writes rows and can run on a Spark cluster."""

    runs_on_cluster = True


class ClusterFindingsCommand(FindingsCommand):
    """A command that writes findings and can run on a Spark cluster."""

    runs_on_cluster = True


def get_name_in_errors(parameter: Parameter) -> str:
    """Return the name of a parameter for errors: the long name of an option, or the name of an argument."""
    return str(parameter.opts[-1] if parameter.param_type_name == "option" else parameter.name)


def _require_values(command: Command, words: Sequence[str]) -> None:
    """Raise UsageError for an option without a value, even if the parser would accept the next option as its value.

    In `vacuum TABLE --save-plan --dry-run` the parser would accept `--dry-run` as the name of the file, and the command
    would delete files.
    """
    options = {name: option for option in command.params if takes_value(option) for name in option.opts}
    for option, name, next_word in _find_options(options, words):
        if next_word is None or _looks_like_option(next_word):
            raise make_missing_value_error(command, option, name, next_word)


def _find_options(options: dict[str, Parameter], words: Sequence[str]) -> Iterator[tuple[Parameter, str, str | None]]:
    """Yield each option whose value is the next word, its name, and the next word; None after the last word."""
    remaining = iter(words)
    for word in remaining:
        if word == "--":
            return
        if word in options:
            yield options[word], word, next(remaining, None)


def _looks_like_option(word: str) -> bool:
    """Return whether a word is an option, as opposed to a negative number or a single dash."""
    return word[:1] == "-" and (word[1:2] == "-" or word[1:].isalpha())


def _note_comparison_with_null(run: CommandContext, where: str | None) -> None:
    """Note that a comparison with NULL matches no row, and the condition that was probably intended."""
    if where is None or "null" not in where.lower():
        return
    from deltacli.delta.predicate.columns import compared_with_null

    condition = compared_with_null(where)
    if condition is not None:
        run.note(f"note: a comparison with NULL is never true; write {condition}")
