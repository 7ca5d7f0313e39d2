"""The commands of the command line, built once in a process instead of once a run: 10 ms of each run, and 100 ms of one
whose command is misspelled.
"""

from __future__ import annotations

from functools import cache

import typer.main

from deltacli.cli import app
from deltacli.cli.command_tree import COMMANDS


def keep_commands() -> None:
    """Let all runs in this process share the commands that the first one builds. A run leaves nothing in them."""
    if not hasattr(app.build_app, "cache_info"):
        app.build_app = cache(app.build_app)
        app.declared_command = cache(app.declared_command)
        typer.main.get_command = cache(typer.main.get_command)


def build_commands() -> None:
    """Build them all, the tree and each alone, as runs ask for them."""
    for path in (None, *(tuple(name.split()) for name in COMMANDS)):
        typer.main.get_command(app.build_app(path))
