"""The commands that change a table or write files, derived from the permissions that they need."""

from __future__ import annotations

from functools import cache

from deltacli.cli.command_table import COMMANDS
from deltacli.operations.doctor.storage import READING, commands

_CHANGE_OTHER_TABLES = frozenset({"copy", "fleet run", "share pull"})
"""Commands that change tables, but for which no permissions are listed: these depend on the steps that they run."""

_WRITE_FILES = frozenset(
    {
        "copy",
        "fleet init",
        "log backup",
        "share init",
        "share key rotate",
        "share recipient add",
        "share recipient grant",
        "share recipient remove",
        "share recipient revoke",
        "share token create",
        "share token revoke",
        "share token rotate",
        "spark package",
    }
)
"""Commands that write files outside tables, such as a configuration, even without `--output`."""


@cache
def find_table_writers() -> frozenset[str]:
    """Return the commands that can change a table."""
    writers = set(_CHANGE_OTHER_TABLES)
    for row in commands():
        if not set(row.needs) <= set(READING):
            writers.update(row.names.split(", "))
    return frozenset(writers & COMMANDS.keys())


def find_change(command: str) -> str | None:
    """Return `table` if a command can change a table, `files` if it can write other files, and None otherwise."""
    if command in find_table_writers():
        return "table"
    return "files" if command in _WRITE_FILES else None
