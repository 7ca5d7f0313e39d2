"""The tree of commands: groups that import a command's module when the command is named."""

from __future__ import annotations

import sys
from inspect import cleandoc
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from deltacli import __version__
from deltacli.cli.command_classes import HELP_OF_HELP
from deltacli.cli.command_loading import load_command
from deltacli.cli.command_table import COMMANDS, GROUPS, HELP
from deltacli.cli.help.pages import write_group_help
from deltacli.cli.invocation import ASK_FOR_HELP, ASK_FOR_VERSION
from deltacli.cli.usage_errors import UnknownCommand
from deltacli.cli.vendored_click import Command, Context

_VERSION_HELP = "Print the version and exit; with --json also the commit, Python, extras and stores."


class CommandGroup(TyperGroup):
    """A group of commands. `COMMANDS` and `GROUPS` contain its commands and groups, by their names.

    Attributes:
        path: The words of the group, such as `("share", "token")`. Empty for the program itself.
    """

    path: tuple[str, ...] = ()

    def list_commands(self, ctx: Context) -> list[str]:  # noqa: ARG002  (Typer passes it)
        """Return the commands and groups of this group, without those of nested groups, in the order of the tables."""
        depth = len(self.path)
        commands = [name.split() for name in COMMANDS if len(name.split()) == depth + 1]
        groups = [name.split() for name in GROUPS if len(name.split()) == depth + 1]
        return [words[-1] for words in (*commands, *groups) if tuple(words[:depth]) == self.path]

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:  # noqa: ARG002  (Typer passes it)
        """Return a command of this group, after importing its module, or a nested group. None for an unknown word."""
        path = (*self.path, cmd_name)
        return _make_group(path) if " ".join(path) in GROUPS else load_command(path)

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """Return the name of a command, the command, and the words after it. Raises UsageError if it is unknown."""
        word, *remaining = args
        command = self.get_command(ctx, word)
        if command is None:
            if word.startswith("-"):
                # Raises the error for an unknown option.
                self.parse_args(ctx, args)
            raise UnknownCommand(word, ctx)
        return word, command, remaining

    def get_help_option_names(self, ctx: Context) -> list[str]:  # noqa: ARG002  (Typer passes it)
        """Return the options that show help."""
        return [*ASK_FOR_HELP]

    def get_help_option(self, ctx: Context) -> Any:  # Any: an option of Typer's, whose class differs by version
        """Return the help option with a help text that mentions `--help-all`."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.help = HELP_OF_HELP
        return option

    def get_help(self, ctx: Context) -> str:
        """Return the help of the group."""
        return write_group_help(self, ctx, self.path)


root_app = typer.Typer(name="deltacli", cls=CommandGroup, help=HELP, no_args_is_help=True, add_completion=False)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        sys.stdout.write(f"deltacli {__version__}\n")
        raise typer.Exit


@root_app.callback()
def declare_version(
    version: Annotated[
        bool, typer.Option(*ASK_FOR_VERSION, help=_VERSION_HELP, is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Declare the only option of the program itself."""


def make_root() -> TyperGroup:
    """Return the program as a group. No command is imported yet."""
    return typer.main.get_group(root_app)


def _make_group(path: tuple[str, ...]) -> CommandGroup:
    """Return the group at a path. No command is imported yet."""
    name = " ".join(path)
    group = CommandGroup(
        name=path[-1],
        help=cleandoc(GROUPS[name]),
        epilog=f"Help on a command: deltacli {name} COMMAND --help.",
        no_args_is_help=True,
    )
    group.path = path
    return group
