"""Protection of files that other tables need: clones may name files of a table by absolute paths. Spec: Add File and
Remove File.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.delta.paths import canonical
from deltacli.delta.protocol.protocol_action import require_committable
from deltacli.errors import DeltacliError, Refused
from deltacli.hints import command
from deltacli.operations.table.api_arguments import name_table
from deltacli.operations.table.handle import TableHandle
from deltacli.operations.table.rebuild import read_snapshot
from deltacli.operations.vacuum.plan import ProtectedTable
from deltacli.typing import ArrowArray

if TYPE_CHECKING:
    from deltacli.operations.table.version import Snapshot


def open_protected(table: TableHandle, uri: str) -> Snapshot:
    """Return the newest version of another table. Also raises Refused where its protocol prevents deltacli from finding
    all files that it needs.
    """
    storage = table.open_other(uri)
    location = table.stores.location
    other = TableHandle(
        storage,
        engine=table.engine,
        clock=table.clock,
        progress=table.progress,
        open_other=table.open_other,
        allowed=table.allowed,
        location=None if location is None else location._replace(uri=storage.uri),
    )
    with of_protected(other.uri):
        snapshot = read_snapshot(other)
        require_committable(snapshot.protocol, snapshot.properties, snapshot.version)
    return snapshot


def protected_table(snapshot: Snapshot) -> ProtectedTable:
    """Return what a plan stores about it."""
    return ProtectedTable(snapshot.table.uri, snapshot.metadata.id, snapshot.version)


def open_kept(table: TableHandle, kept: ProtectedTable) -> TableHandle:
    """Return the protected table of a plan. Raises as `open_protected`, and Refused where it is another one."""
    snapshot = open_protected(table, kept.uri)
    if snapshot.metadata.id != kept.table_id or snapshot.version < kept.version:
        raise Refused(
            "the protected table was replaced after the plan was made, so the files it needs are unknown",
            code="vacuum.plan-other-table",
            facts={"protected table": kept.uri, "plan": f"{kept.table_id}, version {kept.version}"},
            hint=command("vacuum", dry_run=True),
        )
    return snapshot.table


@contextmanager
def of_protected(uri: str) -> Iterator[None]:
    """Make errors name the other table instead of the vacuumed one."""
    try:
        yield
    except DeltacliError as fault:
        fault.facts.setdefault("protected table", uri)
        if not fault.code.startswith("vacuum."):  # which are about the plan
            name_table(fault, uri)
        raise


def made_absolute(paths: ArrowArray, uri: str) -> ArrowArray:
    """Return paths from the log of another table as absolute paths."""
    root = f"{canonical(uri).rstrip('/')}/"
    is_relative = pc.invert(pc.match_substring_regex(paths, r"^([A-Za-z][A-Za-z0-9+.-]*:|/)"))
    return pc.if_else(is_relative, pc.binary_join_element_wise(root.replace("%", "%25"), paths, ""), paths)
