"""The theme: what a text means, and the one place that says how that looks. Imports nothing of rich.

Only the 16 colours of the terminal are used, and of them only those that can be read on a light and on a dark
background: no blue, no white, no black, no bright variants.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from deltacli.cli.terminal.term import Style


class Role(StrEnum):
    """What a text on the screen is."""

    PLAIN = "plain"
    HEADING = "heading"
    LABEL = "label"
    QUIET = "quiet"
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    GOOD = "good"
    WRITES = "writes"
    DELETES = "deletes"
    MAINTENANCE = "maintenance"
    SCHEMA_CHANGE = "schema_change"
    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"
    SIZE = "size"
    TIME = "time"
    PATH = "path"
    TYPE = "type"
    NULL = "null"
    NEXT = "next"
    FRAME = "frame"


LOOKS: Mapping[Role, str] = {
    Role.PLAIN: "none",
    Role.HEADING: "bold",
    Role.LABEL: "bold",
    Role.QUIET: "dim",
    Role.ERROR: "bold red",
    Role.WARNING: "yellow",
    Role.NOTE: "cyan",
    Role.GOOD: "green",
    Role.WRITES: "green",
    Role.DELETES: "red",
    Role.MAINTENANCE: "yellow",
    Role.SCHEMA_CHANGE: "magenta",
    Role.ADDED: "green",
    Role.CHANGED: "yellow",
    Role.REMOVED: "red",
    Role.SIZE: "cyan",
    Role.TIME: "dim",
    Role.PATH: "none",
    Role.TYPE: "cyan",
    Role.NULL: "dim italic",
    Role.NEXT: "bold cyan",
    Role.FRAME: "dim",
}
"""The look of each role, in the words of rich."""

_ROLES: Mapping[Style, Role] = {
    Style.PLAIN: Role.PLAIN,
    Style.HEADING: Role.HEADING,
    Style.QUIET: Role.QUIET,
    Style.GOOD: Role.GOOD,
    Style.CHANGE: Role.CHANGED,
    Style.REMOVAL: Role.DELETES,
    Style.PROBLEM: Role.ERROR,
    Style.NEXT: Role.NEXT,
}

_OPERATIONS: tuple[tuple[Role, tuple[str, ...]], ...] = (
    (Role.MAINTENANCE, ("VACUUM", "OPTIMIZE", "REORG", "COMPACT", "CHECKPOINT", "CLUSTER", "LOG ", "FSCK")),
    (
        Role.SCHEMA_CHANGE,
        (
            *("ADD COLUMN", "CHANGE COLUMN", "RENAME COLUMN", "DROP COLUMN", "REPLACE COLUMN", "WIDEN", "ALTER"),
            *("SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "ADD FEATURE", "DROP FEATURE", "UPGRADE PROTOCOL"),
            *("ADD CONSTRAINT", "DROP CONSTRAINT", "UPDATE COLUMN METADATA", "UPDATE SCHEMA", "DOMAIN METADATA"),
            *("SET ", "UNSET ", "ADD PROPERTIES", "COMPUTE STATS"),
        ),
    ),
    (Role.DELETES, ("DELETE", "TRUNCATE", "RESTORE", "DROP", "REMOVE")),
    (Role.WRITES, ("WRITE", "STREAMING", "MERGE", "UPDATE", "COPY", "CREATE", "REPLACE", "CONVERT", "CLONE", "INSERT")),
)
"""The first row with a prefix of the operation decides: `DROP COLUMN` changes the schema, `DROP` deletes."""


def role_of(style: Style | Role) -> Role:
    """Return the role of what a renderer of lines calls a style."""
    return style if isinstance(style, Role) else _ROLES[style]


def style_of(style: Style | Role) -> Style:
    """Return the style in which the streaming writer shows a role."""
    if isinstance(style, Style):
        return style
    return next((known for known, role in _ROLES.items() if LOOKS[role] == LOOKS[style]), Style.PLAIN)


def role_of_operation(operation: str) -> Role:
    """Return what an operation of the log does to a table; PLAIN for one that is not known."""
    name = operation.upper()
    return next((role for role, prefixes in _OPERATIONS if name.startswith(prefixes)), Role.PLAIN)
