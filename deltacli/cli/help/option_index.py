"""The help pages and the options of all commands, for answers about any of them: `deltacli help --where`, and the hint
that an unknown option belongs to another command.

Everything here imports all commands, which takes about half a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from deltacli.cli.command_group import CommandGroup, make_root
from deltacli.cli.help.pages import command_page, group_page, names_in
from deltacli.cli.help.text import HelpPage
from deltacli.cli.vendored_click import Command, Context


@cache
def read_pages() -> Mapping[str, HelpPage]:
    """Return the pages of the program, of all groups and of all commands, by name. Imports every command."""
    root = make_root()
    return dict(_walk_pages(root, Context(root, info_name="deltacli"), ()))


def _walk_pages(command: Command, context: Context, path: tuple[str, ...]) -> Iterator[tuple[str, HelpPage]]:
    if not isinstance(command, CommandGroup):
        yield " ".join(path), command_page(command, context)
        return

    yield " ".join(path), group_page(command, context, path)
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        if child is not None:
            yield from _walk_pages(child, Context(child, info_name=name, parent=context), (*path, name))


def list_options() -> Iterator[tuple[str, str, str]]:
    """Yield each option of each command (""; of the program) with its value and help."""
    for command, page in read_pages().items():
        for sections in page.lists:
            assert not isinstance(sections, str)
            for spelled, text in (entry for entries in sections.values() for entry in entries):
                if spelled.startswith("-"):
                    yield command, spelled, text


def commands_with(option: str) -> list[str]:
    """Return the commands that have an option. Imports every command."""
    return [command for command, spelled, _ in list_options() if command and option in names_in(spelled)]
