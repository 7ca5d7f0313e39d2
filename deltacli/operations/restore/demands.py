"""What a table demands of its rows and did not when a version was written: whether the files that come back keep it.

Spec: Struct Field; CHECK Constraints; Column Invariants; Generated Columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from deltacli.hints import command
from deltacli.operations.restore.difference import Difference
from deltacli.operations.restore.metadata import RestoreRefusal
from deltacli.operations.table.demands import FIELDS, UNREAD, Demand, DemandCheck, FoundRows, new_demands
from deltacli.operations.table.keyed_files import Mask, chosen_actions
from deltacli.units import plural

if TYPE_CHECKING:
    from deltacli.operations.table.version import Snapshot


def refusals_of_demands(
    now: Snapshot, target: Snapshot, found: Difference, where: Mask, sources: Sequence[str]
) -> Iterator[RestoreRefusal]:
    """Yield the demands of now that files of the target which come back violate, or may violate because their rows
    cannot be judged. `sources` are where files are brought from. Raises StorageFailed.
    """
    demands = new_demands(now.config, target.config)
    if not demands or not found.added_amount.files:
        return
    check = DemandCheck(now.table, now.config, demands)
    with now.table.progress.step("checking constraints", unit="files", total=found.added_amount.files) as step:
        for adds in chosen_actions(target, found.target.keys, found.added, where, FIELDS):
            check.take(adds)
            step.advance(adds.num_rows)
    brings = command("undelete", version=target.version, sources=list(sources), dry_run=True) if sources else ""
    for demand, one in check.found.items():
        if one.files:
            yield _violated(demand, one, target.version)
        if one.unjudged:
            yield _open(demand, one, target.version, brings)


def _violated(demand: Demand, found: FoundRows, version: int) -> RestoreRefusal:
    count = len(found.files)
    noun = "null" if isinstance(demand.owner, str) else "row"
    rows = f"{noun}s" if found.rows is None else plural(found.rows, noun)
    verb = "violates" if found.rows == 1 else "violate"
    example = "" if found.first is None else f": {found.first}"
    return RestoreRefusal(
        "restore.constraint",
        f"{rows} in {plural(count, 'file')} of version {version} {verb} {demand}, first in {found.files[0]}{example}",
        "drop the constraint first, or write the other rows with an engine, which checks them",
        tuple(found.files),
    )


def _open(demand: Demand, found: FoundRows, version: int, brings: str) -> RestoreRefusal:
    count = len(found.unjudged)
    return RestoreRefusal(
        "restore.constraint",
        f"{plural(count, 'file')} of version {version} may violate {demand}, first {found.unjudged[0]}: {found.reason}",
        brings
        if brings and found.reason == UNREAD
        else "drop the constraint first, or write these rows with an engine",
        tuple(found.unjudged),
    )
