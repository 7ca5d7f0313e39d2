"""Leave out files that every run would refuse, so that a plan has nothing to do where nothing else is left.

Only the content of a file shows this. Files are opened until it is known that the first bin is worth its work, or each
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
from deltacli.work.rewrite.exactness import SPEC, FindInexact
from deltacli.work.rows.data_files import DataFile

if TYPE_CHECKING:
    from deltacli.operations.optimize.plan import OptimizePlan

_FIRST, _MOST = 2, 4_096
"""Files that are opened first, and at most before the bins are chosen again."""
_FILES_PER_PIECE = 4


def without_inexact(plan: OptimizePlan, choose: Callable[[LiveFiles], Selection]) -> OptimizePlan:
    """Return the plan without files that are refused. Raises StorageFailed."""
    refusals = dict[int, str | None]()
    count = _FIRST
    while places := sorted(_next(plan, refusals, count)):
        found = dict(zip(places, _look(plan, places), strict=True))
        refusals |= found
        count = min(2 * count, _MOST)
        if any(found.values()):
            live = plan.live.excluding({place: code for place, code in found.items() if code is not None})
            plan = replace(plan, live=live, selection=choose(live))
    return plan


def _next(plan: OptimizePlan, refusals: dict[int, str | None], count: int) -> Iterator[int]:
    """Return so many files whose refusal could change what is done, none once it is certain that work is left.

    A bin to sort is worth it for files that are not in the order yet. So an exact one is looked for in the first bin,
    and in each that is partly in the order: the rest of it may have been refused by the run before.
    """
    bins, selection = plan.selection.bins, plan.selection
    if plan.order is not None:
        return chain.from_iterable(_next_to_sort(plan, one, refusals, count) for one in bins)
    if not bins or _is_certain(plan, refusals):
        return iter(())
    unknown = (place for one in bins for place in selection.places([one]))
    return islice((place for place in unknown if place not in refusals), count)


def _next_to_sort(plan: OptimizePlan, one: Bin, refusals: dict[int, str | None], count: int) -> Iterator[int]:
    assert plan.order is not None
    unsorted = plan.order.unsorted(plan.live, plan.selection.places([one]))
    is_certain = any(place in refusals for place in unsorted)  # refused ones are not in the selection any more
    if is_certain or (len(unsorted) == one.files and one is not plan.selection.bins[0]):
        return iter(())
    return islice(unsorted, count)


def _is_certain(plan: OptimizePlan, refusals: dict[int, str | None]) -> bool:
    """Return whether enough files of the first bin are known not to be refused."""
    first = plan.selection.bins[0]
    exact = sum(place in refusals for place in plan.selection.places([first]))
    return exact >= min(plan.rules.min_files, first.files)


def _look(plan: OptimizePlan, places: Sequence[int]) -> Iterator[str | None]:
    import pyarrow as pa

    table, keys = plan.table, plan.live.keys
    is_wanted = pc.is_in(pa.array(range(len(keys)), pa.int64()), value_set=pa.array(places, pa.int64()))
    fields = ("path", "size", "deletionVector")
    files = [
        DataFile(path, size)
        for adds in chosen_actions(plan.snapshot, keys, is_wanted, plan.condition, fields)
        for path, size in zip(adds.column("path").to_pylist(), adds.column("size").to_pylist(), strict=True)
    ]
    pieces = (files[begin : begin + _FILES_PER_PIECE] for begin in range(0, len(files), _FILES_PER_PIECE))
    for answers in table.engine.spread(FindInexact(), pieces, table.stores, shared={SPEC: plan.spec}, weigh=len):
        yield from answers
