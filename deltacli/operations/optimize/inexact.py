"""Leave out files that every run would refuse, so that a plan has nothing to do where nothing else is left.

Only the content of a file shows this. Files are read until it is known that the first bin is worth its work, or each
bin that is partly sorted: two of most tables, all of them only where all are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.operations.optimize.live import LiveFiles
from deltacli.operations.optimize.select import Bin, Selection
from deltacli.operations.table.keyed_files import chosen_actions
from deltacli.typing import JsonObject
from deltacli.work.rewrite.exactness import SPEC
from deltacli.work.rewrite.pieces import RefusedFile, RewritePiece, SourceFile
from deltacli.work.rewrite.sources import FindRefused
from deltacli.work.rows.data_files import DataFile

if TYPE_CHECKING:
    from deltacli.operations.optimize.plan import OptimizePlan

_FIRST, _GROWTH = 2, 4
"""Files that are opened first, and how many times more each time that all were refused: each time, the log is replayed
and the bins are chosen again.
"""
_FIELDS = ("path", "size", "partitionValues", "deletionVector", "baseRowId", "defaultRowCommitVersion")


def without_inexact(plan: OptimizePlan, choose: Callable[[LiveFiles], Selection]) -> OptimizePlan:
    """Return the plan without files that are refused. Raises StorageFailed."""
    looked_at = set[int]()
    count = _FIRST if plan.order is None else 1
    while places := sorted(_next(plan, looked_at, count)):
        found = dict(zip(places, _look(plan, places), strict=True))
        looked_at.update(places)
        count *= _GROWTH
        if refused := {place: one for place, one in found.items() if one is not None}:
            live = plan.live.excluding({place: one.code for place, one in refused.items()})
            damaged = tuple(one for one in refused.values() if not one.code.startswith("optimize."))
            plan = replace(plan, live=live, selection=choose(live), damaged=(*plan.damaged, *damaged))
    return plan


def _next(plan: OptimizePlan, looked_at: set[int], count: int) -> Iterator[int]:
    """Return so many files whose refusal could change what is done, none once it is certain that work is left.

    A bin to sort is worth it for files that are not in the order yet. So an exact one is looked for in the first bin,
    and in each that is partly in the order: the rest of it may have been refused by the run before.
    """
    bins, selection = plan.selection.bins, plan.selection
    if plan.order is not None:
        return chain.from_iterable(_next_to_sort(plan, one, looked_at, count) for one in bins)
    if not bins or _is_certain(plan, looked_at):
        return iter(())
    unknown = (place for one in bins for place in selection.places([one]))
    return islice((place for place in unknown if place not in looked_at), count)


def _next_to_sort(plan: OptimizePlan, one: Bin, looked_at: set[int], count: int) -> Iterator[int]:
    assert plan.order is not None
    unsorted = plan.order.unsorted(plan.live, plan.selection.places([one]))
    is_certain = any(place in looked_at for place in unsorted)  # refused ones are not in the selection any more
    if is_certain or (len(unsorted) == one.files and one is not plan.selection.bins[0]):
        return iter(())
    return islice(unsorted, count)


def _is_certain(plan: OptimizePlan, looked_at: set[int]) -> bool:
    """Return whether enough files of the first bin are known not to be refused."""
    first = plan.selection.bins[0]
    exact = sum(place in looked_at for place in plan.selection.places([first]))
    return exact >= min(plan.rules.min_files, first.files)


def _look(plan: OptimizePlan, places: Sequence[int]) -> Iterator[RefusedFile | None]:
    import pyarrow as pa

    table, keys = plan.table, plan.live.keys
    is_wanted = pc.is_in(pa.array(range(len(keys)), pa.int64()), value_set=pa.array(places, pa.int64()))
    pieces = (
        RewritePiece(0, (_source(add),), dict(add["partitionValues"] or ()))
        for adds in chosen_actions(plan.snapshot, keys, is_wanted, plan.condition, _FIELDS)
        for add in adds.to_pylist()
    )
    for refused in table.engine.spread(FindRefused(), pieces, table.stores, shared={SPEC: plan.spec}, weigh=_weight):
        yield refused[0] if refused else None


def _weight(piece: RewritePiece) -> int:
    return piece.weight


def _source(add: JsonObject) -> SourceFile:
    file = DataFile(add["path"], add["size"], {}, add["deletionVector"])
    return SourceFile(file, add["baseRowId"], add["defaultRowCommitVersion"])
