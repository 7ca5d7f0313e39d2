"""Commands and groups whose help is a page of `deltacli.cli.help_page`, which is imported when it is shown."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup


class HelpCommand(TyperCommand):
    """A command whose options are shown in sections, global options by name only."""

    def get_help(self, ctx: Any) -> str:  # Any: typer's own click
        """Return the help: usage, description, examples, options, exit codes."""
        from deltacli.cli.help_page import command_help

        return command_help(self, ctx)


class HelpGroup(TyperGroup):
    """A group of commands; only the root describes the global options."""

    def get_help(self, ctx: Any) -> str:  # Any: typer's own click
        """Return the help: usage, description, examples, commands, options."""
        from deltacli.cli.help_page import group_help

        return group_help(self, ctx)
