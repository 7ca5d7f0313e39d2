"""Names that commands, options and formats have in other programs, for hints that say what they are here."""

from __future__ import annotations

OF_OTHERS = {
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
"""Name of a command of other programs -> the command that does it here."""

MORE_OF_OTHERS = {
    "compact": ["log compact"],
    "compaction": ["log compact"],
    "recover": ["restore", "repair"],
    "undo": ["undelete", "repair"],
}
"""Name of a command of other programs -> further commands that it may mean."""

COMMANDS_THAT_WRITE_ROWS = frozenset({"append", "delete", "insert", "merge", "update", "upsert", "write"})
"""Commands of other programs that write rows."""

OF_A_TABLE = {
    "doctor": "doctor table",
    "fleet": "fleet init",
    "log": "history",
    "schema": "schema show",
    "share": "share serve",
}
"""Group -> its command for a table, or a directory of tables, that is named where a command was expected."""

OF_OTHER_OPTIONS = {
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
"""Option of other programs -> the one that does it here, in commands that have it."""

WHAT_FLAGS_ARE = {
    "--all": ("--limit", "0"),
    "--force": ("--yes",),
    "--no-color": ("--color", "never"),
    "--no-colour": ("--color", "never"),
    "-y": ("--yes",),
}
"""Flag of other programs -> what it is here, in commands that have this option."""

OF_OTHER_FORMATS = {"jsonl": "ndjson", "jsonlines": "ndjson", "md": "markdown", "text": "table", "txt": "table"}
"""Other names of formats -> those of here."""
