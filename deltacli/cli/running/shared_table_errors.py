"""Errors of commands that do not support tables of a Delta Sharing server."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from deltacli.core.errors import UsageError, quote_table


def make_shared_table_error(command: str, words: Sequence[str], address: str, *, writes: bool) -> UsageError:
    """Return the error for a shared table that was given to a command without support for shared tables.

    A command that changes tables gets the general error, which says that shared tables are read-only. The other
    commands get an error with their name.

    Args:
        command: The command, such as `log cat`.
        words: The command line without the name of the program.
        address: The address of the shared table, as the user typed it.
        writes: Whether the command opens the table in order to change it.
    """
    from deltacli.sharing.client.faults import make_read_only_error

    if command in ("copy", "clone") and address in words[1:2]:
        return UsageError(
            f"{command} does not read shared tables",
            code="share.read-only",
            hint=f"deltacli share pull {quote_table(address)} --to DIRECTORY --as delta",
        )

    if command in ("repair", "undelete") and _is_recovery_source(address, words):
        return _make_error(f"{command} --from", hint=f"deltacli {command} --help")

    read_command = "share schema" if command.startswith("schema ") else "snapshot"
    hint = f"deltacli {read_command} {quote_table(address)}"
    if command == "checkpoint" and "--verify" in words:
        return _make_error("checkpoint --verify", hint)

    # `checkpoint TABLE --dry-run` opens the table for reading, too, but the command is one that changes tables.
    if writes or _changes_tables(command):
        return make_read_only_error(address)
    return _make_error(command, hint)


def _make_error(command: str, hint: str) -> UsageError:
    return UsageError(f"{command} does not work on shared tables", code="share.read-only", hint=hint)


def _is_recovery_source(address: str, words: Sequence[str]) -> bool:
    """Return whether the address is the value of `--from`, and not the table that is repaired."""
    return ("--from", address) in pairwise(words) or f"--from={address}" in words


def _changes_tables(command: str) -> bool:
    """Return whether a command can change a table. Such commands have the option `--dry-run`."""
    from deltacli.cli.command_loading import has_option

    # `log backup --dry-run` is about the backup; the command only reads the table.
    return command != "log backup" and has_option(tuple(command.split()), "--dry-run")
