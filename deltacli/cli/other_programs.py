"""Names of commands, options and formats in other programs, with the names that deltacli uses.

Users type them from habit: `deltacli rollback` instead of `deltacli restore`. The hint of the error suggests the right
name.
"""

from __future__ import annotations

COMMAND_SYNONYMS = {
    "cat": "read",
    "check": "validate",
    "clean": "vacuum",
    "commits": "history",
    "compact": "optimize",
    "compaction": "optimize",
    "cdf": "changes",
    "compare": "diff",
    "count": "read --count",
    "describe": "snapshot",
    "detail": "snapshot",
    "export": "read",
    "files": "snapshot --files",
    "fix": "repair",
    "fsck": "validate",
    "gc": "vacuum",
    "head": "read",
    "info": "snapshot",
    "inspect": "snapshot",
    "ls": "snapshot --files",
    "prune": "vacuum",
    "purge": "vacuum",
    "query": "read",
    "recover": "undelete",
    "rename": "alter rename",
    "rollback": "restore",
    "select": "read",
    "show": "snapshot",
    "table": "snapshot",
    "undo": "restore",
    "undrop": "undelete",
    "verify": "validate",
    "versions": "history",
    "zorder": "optimize",
}
"""Maps a command of another program to the command of deltacli for the same purpose."""

FURTHER_COMMANDS = {
    "compact": ["log compact"],
    "compaction": ["log compact"],
    "recover": ["restore", "repair"],
    "undo": ["undelete", "repair"],
}
"""Maps a command of another program to more commands that the user may need."""

COMMANDS_THAT_WRITE_ROWS = frozenset({"append", "delete", "insert", "merge", "update", "upsert", "write"})
"""Commands of other programs that write rows. deltacli has no such command."""

TABLE_COMMANDS_OF_GROUPS = {
    "doctor": "doctor table",
    "fleet": "fleet init",
    "log": "history",
    "schema": "schema show",
    "share": "share serve",
}
"""Maps a group to its command for a table. `deltacli log trips` lacks a command; the user means `history trips`."""

OPTION_SYNONYMS = {
    "--as-of": "--timestamp",
    "--at": "--timestamp",
    "--cols": "--columns",
    "--debug": "--verbose",
    "--dry": "--dry-run",
    "--end": "--to",
    "--exclude": "--ignore",
    "--filter": "--where",
    "--keep": "--retention",
    "--older-than": "--retention",
    "--query": "--where",
    "--retain": "--retention",
    "--rule": "--select",
    "--select": "--columns",
    "--silent": "--quiet",
    "--since": "--from",
    "--start": "--from",
    "--to": "--timestamp",
    "--until": "--to",
}
"""Maps an option of another program to the option of deltacli. Suggested for commands that have the latter."""

FLAG_SYNONYMS = {
    "--all": ("--limit", "0"),
    "--force": ("--yes",),
    "--no-color": ("--color", "never"),
    "--no-colour": ("--color", "never"),
    "-y": ("--yes",),
}
"""Maps a flag of another program to an option of deltacli and its value. Suggested for commands with the option."""

FORMAT_SYNONYMS = {"jsonl": "ndjson", "jsonlines": "ndjson", "md": "markdown", "text": "table", "txt": "table"}
"""Maps other names of formats to the values of `--format`."""
