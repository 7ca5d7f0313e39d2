"""What does the work of a command for Delta tables on a Paimon table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deltacli.cli.command_tree import path_of
from deltacli.cli.terminal.shell import quoted_table

INSTEAD: Mapping[str, str] = {
    "changes": "an engine reads row changes from the system table $audit_log",
    "checkpoint": "nothing is needed: a Paimon snapshot names all its files",
    "features": "options enable features: deltacli alter TABLE set KEY=VALUE",
    "log backup": "an engine keeps a state as a tag or a branch: sys.create_tag, sys.create_branch",
    "log cat": "deltacli snapshot TABLE --snapshot-id N shows a snapshot",
    "log compact": "writers merge manifests when they commit",
    "log crc": "deltacli validate TABLE checks schemas, snapshots and manifests",
    "log expire": "an engine deletes old snapshots: sys.expire_snapshots; deltacli vacuum TABLE --schemas old schemas",
    "log restore": "an engine returns to a snapshot or tag: sys.rollback_to",
    "properties": "deltacli snapshot TABLE shows options, deltacli alter TABLE set KEY=VALUE changes them",
    "read": "an engine, or the package pypaimon, reads rows",
}
"""Commands that work on Delta tables only."""


def instead_of(arguments: Sequence[str], table: str | None) -> str | None:
    """Return what does the work of a command line on a Paimon table, None for commands that work on both formats."""
    found = INSTEAD.get(" ".join(path_of(arguments)))
    return found if found is None or table is None else found.replace("TABLE", quoted_table(table))
