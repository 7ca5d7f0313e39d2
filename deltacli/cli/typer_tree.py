"""The command tree as typer builds it: for help, completion, and command lines that have to be parsed in full, such as
those with errors.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from importlib import import_module
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

from deltacli import __version__
from deltacli.cli.command_tree import COMMANDS, EXITS, FINDINGS, GROUPS, Path, below, is_command, setting
from deltacli.cli.invocation import ASK_FOR_HELP, ASK_FOR_VERSION, HELP_ALL, invocation
from deltacli.cli.options.declared import Declared, Parameter, converted
from deltacli.cli.terminal.stderr import write_message
from deltacli.core.errors import EXIT_CODES, EXIT_FINDINGS, UsageError
from deltacli.core.typing import Click

_CONTEXT = {"help_option_names": list(ASK_FOR_HELP)}

_HELP = """Inspect, check and maintain Delta and Paimon tables, without a JVM.

\b
Examples:
  deltacli history ./tbl                # show who changed it, when and how
  deltacli snapshot ./tbl               # show its current state
  deltacli snapshot ./tbl --version 3   # show its state at version 3
  deltacli read ./tbl --limit 5         # read five of its rows
  deltacli changes ./tbl --from 3       # show row changes since version 3
  deltacli checkpoint ./tbl             # write a checkpoint of its log
  deltacli vacuum ./tbl --dry-run       # list files that can be deleted
  deltacli restore ./tbl --version 3    # go back to version 3
  deltacli validate ./tbl               # check it against the protocol
  deltacli log cat ./tbl 3              # print the actions of version 3
"""


class _Own:
    """A command or group that converts the values of its parameters here, with both options that show its help."""

    params: list[Click]
    callback: Callable[..., Any] | None  # Any: of a command

    def __init__(self, *arguments: Any, **settings: Any) -> None:  # Any: as typer's own
        super().__init__(*arguments, **settings)
        hints = self.callback.__annotations__ if isinstance(self, TyperCommand) and self.callback else {}
        for option in self.params:
            _convert_here(option, hints.get(option.name, bool))

    def get_help_option_names(self, ctx: Click) -> list[str]:
        return [*ctx.help_option_names]

    def get_help_option(self, ctx: Click) -> Click:
        option = super().get_help_option(ctx)  # type: ignore[misc]  # of typer's class beside this one
        option.help = f"Show help and exit; {HELP_ALL} has every option."
        _convert_here(option, bool)
        return option


class _Command(_Own, TyperCommand):
    def parse_args(self, ctx: Click, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            _require_values(self.params, args)
        return super().parse_args(ctx, args)

    def get_help(self, ctx: Click) -> str:
        from deltacli.cli.help_page import command_page, fold, fold_common

        return (fold if HELP_ALL in invocation.arguments else fold_common)(command_page(self, ctx))


def _convert_here(option: Click, hint: Any) -> None:  # Any: annotations
    """Convert the values of a parameter here, and keep its type as `value_type`. The adapters that typer makes from
    0.29 on import pydantic, which takes longer than the rest of a start.
    """
    bare, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    kinds = [kind for kind in get_args(bare) if kind is not NoneType] if isinstance(bare, UnionType) else [bare]
    option.value_type = next(iter(get_args(kinds[0])), kinds[0])
    least = next((mark.min for mark in marks if getattr(mark, "min", None) is not None), None)
    is_many = option.multiple or option.nargs == -1
    require = option.process_value
    named = option.opts if option.param_type_name == "option" else [option.metavar or option.name]

    def convert(value: Any) -> Any:  # Any: a text of the command line, or a default
        kind = option.value_type
        try:
            made = value if isinstance(value, kind) else converted(value, kind)
        except ValueError:
            choices = ", ".join(repr(str(choice)) for choice in kind) if issubclass(kind, StrEnum) else ""
            expected = f"one of {choices}" if choices else "a whole number" if kind is int else "a number"
            raise typer.BadParameter(f"{value!r} is not {expected}", param_hint=named) from None
        if least is not None and made < least:
            raise typer.BadParameter(f"{made} is less than {least}", param_hint=named)
        return made

    def process_value(context: Click, value: Any) -> Any:  # Any: as above
        if value is None or value == ():
            return require(context, value) if option.required else () if is_many else None
        value = tuple(map(convert, value)) if is_many else convert(value)
        return value if option.callback is None else option.callback(context, option, value)

    option.process_value = process_value


def _require_values(options: Sequence[Click], arguments: Sequence[str]) -> None:
    """Raise UsageError for an option without its value, also where the parser would take the next option for it."""
    valued = {name: option for option in options if _takes_value(option) for name in option.opts}
    words = iter(arguments)
    for word in words:
        if word == "--":
            return
        following = next(words, None) if word in valued else "VALUE"
        is_option = (
            following is not None and following[:1] == "-" and (following[1:2] == "-" or following[1:].isalpha())
        )
        if following is None or is_option:
            from deltacli.cli.usage import value_missing

            raise value_missing(valued[word], word, following)


def _takes_value(option: Click) -> bool:
    return option.param_type_name == "option" and not (option.is_flag or option.count)


class _Group(_Own, TyperGroup):
    def get_help(self, ctx: Click) -> str:
        from deltacli.cli.help_page import fold, fold_common, group_page

        return (fold if HELP_ALL in invocation.arguments else fold_common)(group_page(self, ctx))


def build_tree(at: Path | None, declare: Callable[[str], Declared]) -> typer.Typer:
    """Return the commands at and below a place, each as `declare` returns it; None: all of them."""
    app = _make_group("deltacli", _HELP, "")
    app.callback()(_root)
    groups: dict[Path, typer.Typer] = {(): app}
    for name, text in GROUPS.items():
        *outer, last = name.split()
        group = _make_group(last, text, f"Help on a command: deltacli {name} COMMAND --help.")
        groups[tuple(outer)].add_typer(group)
        groups[*outer, last] = group
    for name in below(at or ()):
        *above, last = name.split()
        if above and at == ():
            continue
        codes = setting(import_module(COMMANDS[name]), "EXIT_CODES", name)
        command = _function_of(declare(name))
        groups[tuple(above)].command(last, cls=_Command, epilog=_exits(name, codes), context_settings=_CONTEXT)(command)
    return app


def _function_of(command: Declared) -> Callable[..., None]:
    """Return a command as a function whose signature typer reads."""

    def call(**values: Any) -> None:  # Any: values parsed by typer
        command.call(**values)

    parameters = [_of_typer(one) for one in command.parameters]
    call.__name__, call.__doc__ = command.name, command.doc
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in parameters}
    return call


def _of_typer(one: Parameter) -> inspect.Parameter:
    shown = one.shown
    if not one.spellings:
        words: Any = typer.Argument(metavar=shown.metavar, help=shown.meaning, show_default=False)
    else:
        words = typer.Option(
            *one.spellings,
            metavar=shown.metavar,
            help=shown.meaning,
            min=one.least,
            count=shown.is_counted,
            hidden=shown.is_hidden,
            show_default=shown.shows_default or (one.hint is bool and "[default: " not in shown.meaning),
        )
    default = inspect.Parameter.empty if one.default is ... else one.default
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(one.name, kind, default=default, annotation=Annotated[one.hint, words])


def _make_group(name: str, text: str, epilog: str) -> typer.Typer:
    return typer.Typer(
        name=name,
        cls=_Group,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        context_settings=_CONTEXT,
        help=text,
        epilog=epilog,
    )


def _exits(name: str, codes: Sequence[int]) -> str:
    """Return the exit codes of a command, one per line, for the end of its help."""
    meanings = {number: code.meaning for number, code in EXIT_CODES.items()}
    for code, of_commands in EXITS.items():
        if name in of_commands:
            general = EXIT_CODES[code].meaning.partition(":")[0].partition(",")[0]
            meanings[code] = f"{general}: {of_commands[name]}"
    own = (code for code in codes if code != EXIT_FINDINGS or name in FINDINGS)
    return "\b\nExit codes:\n" + "\n".join(f"  {code:<3} {meanings[code]}" for code in own)


_VERSION_HELP = "Print the version and exit; with --json also the commit, Python, extras and stores."


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        sys.stdout.write(f"deltacli {__version__}\n")
        raise typer.Exit


def _root(
    _version: bool = typer.Option(False, *ASK_FOR_VERSION, help=_VERSION_HELP, is_eager=True, callback=_print_version),
) -> None:
    pass


def run_parsed(app: typer.Typer, arguments: Sequence[str], path: Path) -> int:
    """Parse a command line in full, run its command, and return the exit code."""
    try:
        outcome = app(arguments, standalone_mode=False, prog_name="deltacli")
    except typer.TyperException as error:
        if len(path) == len(arguments) and not is_command(path):  # a bare group
            write_message(str(error))
            return UsageError.exit_code
        from deltacli.cli.usage import report_usage

        report_usage(error, arguments)
        return UsageError.exit_code
    return outcome if isinstance(outcome, int) else 0
