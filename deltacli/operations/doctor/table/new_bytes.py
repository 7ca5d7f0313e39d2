"""How many bytes an optimization would leave: a sample of the new files is written to temporary files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.errors import DeltacliError
from deltacli.operations.optimize.open_bins import open_groups
from deltacli.work.rewrite.exactness import SPEC
from deltacli.work.rewrite.new_files import measure_rewrite
from deltacli.work.rewrite.pieces import RewritePiece

if TYPE_CHECKING:
    from deltacli.operations.optimize.plan import OptimizePlan
    from deltacli.operations.optimize.select import Bin
    from deltacli.typing import ArrowArray

_BINS, _FILES, _BYTES = 8, 64, 8 << 20
"""The most bins that are sampled, and of each the most files and bytes."""


class _Sample(NamedTuple):
    """Files of a bin, and the bytes that their live rows take now."""

    piece: RewritePiece
    live_bytes: float


def bytes_after(plan: OptimizePlan) -> int | None:
    """Return about how many bytes the live files would have; None where no sample can be read. Raises StorageFailed."""
    chosen = plan.selection
    total = int(pc.sum(plan.live.columns.sizes).as_py() or 0)
    rest = total - chosen.size_bytes
    whole = _live_bytes(plan, chosen.places(chosen.bins))
    if not whole:
        return rest
    try:
        samples = list(_samples(plan))
        table = plan.table
        pieces = [one.piece for one in samples]
        found = list(table.engine.spread(measure_rewrite, pieces, table.stores, shared={SPEC: plan.spec}))
    except DeltacliError:
        return None
    known = [(size, one.live_bytes) for size, one in zip(found, samples, strict=True) if size is not None]
    if not known or len(known) < len(samples):
        return None
    return rest + round(whole * sum(size for size, _ in known) / sum(now for _, now in known))


def _samples(plan: OptimizePlan) -> Iterator[_Sample]:
    """Yield files of bins that have live rows, evenly chosen among all bins."""
    bins = [one for one in plan.selection.bins if one.outputs]
    step = max(1, -(-len(bins) // _BINS))
    parts = [_part(plan, one) for one in bins[::step]]
    for opened in open_groups(plan, [parts]):
        for one in opened:
            yield _Sample(one.piece, _live_bytes(plan, plan.selection.places([one.bin])))


def _part(plan: OptimizePlan, one: Bin) -> Bin:
    """Return the beginning of a bin, at least one file of it."""
    sizes = pc.take(plan.live.columns.sizes, plan.selection.order.slice(one.start, min(one.files, _FILES))).to_pylist()
    files = taken = 0
    for size in sizes:
        if files and taken + size > _BYTES:
            break
        files, taken = files + 1, taken + size
    return one._replace(stop=one.start + files)


def _live_bytes(plan: OptimizePlan, places: Sequence[int]) -> float:
    """Return the bytes of the live rows of files, as far as their numbers are known."""
    import pyarrow as pa

    at = pa.array(places, pa.int64())
    columns = plan.live.columns

    def of(column: ArrowArray) -> ArrowArray:
        return pc.cast(pc.take(column, at), pa.float64())

    rows = pc.max_element_wise(pc.fill_null(of(columns.rows), 0.0), 1.0)
    share = pc.min_element_wise(pc.divide(pc.fill_null(of(columns.deleted), 0.0), rows), 1.0)
    return float(pc.sum(pc.multiply(of(columns.sizes), pc.subtract(1.0, share))).as_py() or 0)
