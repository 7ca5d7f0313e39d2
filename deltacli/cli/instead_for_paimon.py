"""What does the work of commands for Delta tables on a Paimon table."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

_BY_ROLLBACK = {"instead": "an engine returns to a snapshot or tag: sys.rollback_to"}

INSTEAD: Mapping[str, Mapping[str, str]] = {
    "changes": {"instead": "an engine reads row changes from the system table $audit_log"},
    "checkpoint": {"instead": "nothing is needed: a Paimon snapshot names all its files"},
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
    "log restore": _BY_ROLLBACK,
    "optimize": {"instead": "an engine compacts a table: sys.compact"},
    "properties": {
        "show options": "deltacli snapshot TABLE",
        "set options": "deltacli alter TABLE set KEY=VALUE",
    },
    "reach": {"snapshots": "deltacli history TABLE"},
    "read": {"instead": "an engine, or the package pypaimon, reads rows"},
    "repair": {**_BY_ROLLBACK, "find errors": "deltacli validate TABLE"},
    "restore": _BY_ROLLBACK,
    "undelete": _BY_ROLLBACK,
}
"""Commands that work on Delta tables only -> what does their work on a Paimon table: prose, or commands to paste."""


def without_avro(area: str) -> str:
    """Return the option by which `validate` does without a package that is missing here, for codes of an area."""
    return " --no-refs" if area == "paimon" and find_spec("fastavro") is None else ""
