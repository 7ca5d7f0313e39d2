"""The search for tables below a directory, for the `init` commands."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from deltacli.core.errors import NotATable
from deltacli.fleet.policy_file.model import Entry, Group, Policy

if TYPE_CHECKING:
    from deltacli.cli.running.context import CommandContext
    from deltacli.fleet.planning.discovery import Discovery


def find_tables_below(run: CommandContext, directory: str) -> Discovery:
    """Find the Delta tables at and below a directory.

    Args:
        run: The run of the command.
        directory: A path or URI, as the user typed it.

    Returns:
        The tables, and the directories that could not be searched.

    Raises:
        NotATable: If there are no tables, and every directory could be searched.
        DeltacliError: If there are no tables, and a directory could not be searched.
    """
    from deltacli.fleet.planning.discovery import discover
    from deltacli.table.discover import note_log_backups

    # The search works on groups of a policy file, so it gets a group that contains the directory.
    entry = Entry(normalize_directory(directory), 0)
    group = Group("tables", Policy("standard", {}), (), (entry,), (), (), 0)
    discovery = discover([group], run.open_other, run.engine, progress=run.progress)
    note_log_backups(run.note, discovery.backups)
    if not discovery.tables and discovery.failures:
        raise discovery.failures[0].fault
    if not discovery.tables:
        error = NotATable("no Delta table found at or below it")
        error.table = directory
        raise error
    return discovery


def normalize_directory(directory: str) -> str:
    """Return a URI without trailing slashes, or an absolute path."""
    if "://" in directory or directory.startswith("file:"):
        return directory.rstrip("/")
    return os.path.abspath(os.path.expanduser(directory))
