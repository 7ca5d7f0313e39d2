"""Which commands have an option, for hints: read from the tree of commands when a hint needs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deltacli.cli.invocation import invocation


def commands_with(option: str) -> list[str]:
    """Return the commands that show an option in their help. Imports every command."""
    return [name for name, command in _walk_commands(_load_root(), ()) if option in _shown_options(command)]


def _load_root() -> Any:  # Any: Typer's group of commands
    assert invocation.make_root is not None  # the command line imports `command_group.py`
    return invocation.make_root()


def _walk_commands(group: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:  # Any: commands of Typer
    """Yield each command below a group with its name, such as `log cat`."""
    for word in group.list_commands(None):
        command = group.get_command(None, word)
        if hasattr(command, "list_commands"):
            yield from _walk_commands(command, (*path, word))
        else:
            yield " ".join((*path, word)), command


def _shown_options(command: Any) -> set[str]:  # Any: as above
    """Return the spellings of the options of a command that are not hidden."""
    shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    return {spelling for parameter in shown for spelling in (*parameter.opts, *parameter.secondary_opts)}
