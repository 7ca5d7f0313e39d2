"""Which commands change a table or write files, from the permissions that they need."""

from __future__ import annotations

from functools import cache

from deltacli.cli.command_table import COMMANDS
from deltacli.operations.doctor.storage import READING, commands

_CHANGE_OTHER_TABLES = frozenset({"copy", "fleet run", "share pull"})
"""Commands that change tables, and are not among the permissions: what they need depends on what they run."""

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
"""Commands that write files other than those of a table, such as a configuration, also without `--output`."""


@cache
def find_table_writers() -> frozenset[str]:
    """Return the commands that change a table: those that need more than to read it, and those that run or copy."""
    writers = set(_CHANGE_OTHER_TABLES)
    for row in commands():
        if not set(row.needs) <= set(READING):
            writers.update(row.names.split(", "))
    return frozenset(writers & COMMANDS.keys())


def find_change(command: str) -> str | None:
    """Return `table` or `files`, which the command may change or write; None if it changes nothing."""
    if command in find_table_writers():
        return "table"
    return "files" if command in _WRITE_FILES else None
