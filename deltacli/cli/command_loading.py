"""Import the module of a command when the command runs, or when its options are needed."""

from __future__ import annotations

from functools import cache
from importlib import import_module

import typer

from deltacli.cli.command_table import COMMANDS
from deltacli.cli.vendored_click import Command


@cache
def load_command(path: tuple[str, ...]) -> Command | None:
    """Return the command at a path, after importing its module. None if the path is not that of a command."""
    entry = COMMANDS.get(" ".join(path))
    if entry is None:
        return None
    loaded = typer.main.get_command(import_module(entry.module).app)
    commands: dict[str, Command] = getattr(loaded, "commands", {loaded.name: loaded})
    return commands[path[-1]]


def has_option(path: tuple[str, ...], option: str) -> bool:
    """Return whether the help of a command shows an option. False if the path is not that of a command."""
    command = load_command(path)
    if command is None:
        return False
    visible = (parameter for parameter in command.params if not getattr(parameter, "hidden", False))
    return any(option in (*parameter.opts, *parameter.secondary_opts) for parameter in visible)
