"""Alternatives for commands that support Delta tables only, for users who run them on a Paimon table."""

from __future__ import annotations

from collections.abc import Mapping

from deltacli.core.errors import quote_table

_COPY_BY_ENGINE = {"instead": "an engine copies the rows: CREATE TABLE … AS SELECT"}
_ROLLBACK_BY_ENGINE = {"instead": "an engine returns to a snapshot or tag: sys.rollback_to"}

PAIMON_ALTERNATIVES: Mapping[str, Mapping[str, str]] = {
    "changes": {"instead": "an engine reads row changes from the system table $audit_log"},
    "checkpoint": {"instead": "nothing is needed: a Paimon snapshot names all its files"},
    "clone": _COPY_BY_ENGINE,
    "copy": _COPY_BY_ENGINE,
    "diff": {"schemas": "deltacli schema diff TABLE --from schema:N", "snapshots": "deltacli history TABLE"},
    "features": {"instead": "options enable features", "set options": "deltacli alter TABLE set KEY=VALUE"},
    "log backup": {"instead": "an engine keeps a state as a tag or a branch: sys.create_tag, sys.create_branch"},
    "log cat": {"snapshots": "deltacli snapshot TABLE --snapshot-id N"},
    "log compact": {"instead": "writers merge manifests when they commit"},
    "log crc": {"check it": "deltacli validate TABLE"},
    "log expire": {
        "instead": "an engine deletes old snapshots: sys.expire_snapshots",
        "old schemas": "deltacli vacuum TABLE --schemas --dry-run",
    },
    "log restore": _ROLLBACK_BY_ENGINE,
    "optimize": {"instead": "an engine compacts a table: sys.compact"},
    "properties": {"show options": "deltacli snapshot TABLE", "set options": "deltacli alter TABLE set KEY=VALUE"},
    "reach": {"snapshots": "deltacli history TABLE"},
    "read": {"instead": "an engine, or the package pypaimon, reads rows"},
    "repair": {**_ROLLBACK_BY_ENGINE, "find errors": "deltacli validate TABLE"},
    "restore": _ROLLBACK_BY_ENGINE,
    "stats": {"instead": "writers keep statistics in manifests"},
    "undelete": _ROLLBACK_BY_ENGINE,
}
"""Maps a command that supports Delta tables only to the facts of its error message on a Paimon table.

The value of a fact is a sentence, or a command in which `TABLE` stands for the table.
"""


def get_paimon_alternatives(command: str, table: str | None) -> dict[str, str]:
    """Return the facts that describe alternatives for a command on a Paimon table.

    Args:
        command: The words of the command, such as `log cat`.
        table: The table as the user typed it. If it is None, commands contain the placeholder `TABLE`.

    Returns:
        The facts by name. Empty for commands that support both formats.
    """
    alternatives = PAIMON_ALTERNATIVES.get(command, {})
    if table is None:
        return dict(alternatives)
    return {name: text.replace("TABLE", quote_table(table)) for name, text in alternatives.items()}
