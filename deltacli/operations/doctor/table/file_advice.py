"""Advice on data files: small ones, deleted rows, missing statistics, too many partitions, unreferenced files.

The numbers of afterwards are those of the planners that the commands use, and of a sample of new files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.core.errors import DeltacliError
from deltacli.core.hints import TABLE, command
from deltacli.core.units import format_size, plural
from deltacli.delta.log.file_actions import SMALL_FILE_BYTES
from deltacli.operations.doctor.findings import Severity
from deltacli.operations.doctor.table import advice as codes
from deltacli.operations.doctor.table.advice import Advice, Saves, saved
from deltacli.operations.doctor.table.examined import Examined
from deltacli.operations.doctor.table.prices import REQUESTS_PER_FILE
from deltacli.operations.optimize.open_bins import open_groups
from deltacli.operations.optimize.plan import OptimizePlan
from deltacli.operations.optimize.planning import plan_of_files
from deltacli.operations.optimize.request import OptimizeRequest
from deltacli.operations.optimize.select import select
from deltacli.operations.vacuum.plan import Reason, VacuumPlan
from deltacli.work.rewrite.exactness import SPEC
from deltacli.work.rewrite.new_files import measure_rewrite
from deltacli.work.rewrite.pieces import RewritePiece

if TYPE_CHECKING:
    from deltacli.core.typing import ArrowArray
    from deltacli.operations.optimize.select import Bin

_FEWEST, _MANY = 10, 100
"""Files that advice saves at least, and from which it is a warning."""
_SHARE, _LARGE_SHARE = 0.1, 0.5
"""Shares of the table from which advice is given, and from which it is a warning."""
_PARTITIONS = 100
_EXAMPLES = 2
_MIB = 1 << 20
_BINS, _FILES, _BYTES = 8, 64, 8 << 20
"""The most bins that are sampled, and of each the most files and bytes."""


def lost_advice(facts: Examined) -> Iterator[Advice]:
    """Yield the advice on live files that cannot be read, before which nothing else should be done."""
    if facts.lost is None or not facts.lost.findings:
        return
    messages = [one.message for one in facts.lost.findings]
    count = len(messages) + sum(facts.lost.suppressed.values())
    shown = list(dict.fromkeys(messages))[:_EXAMPLES]  # a file of deletion vectors has those of several
    left = count - sum(one in shown for one in messages)
    more = f"; and {left:,} more" if left else ""
    yield Advice(
        codes.LOST_FILES,
        Severity.ERROR,
        f"rows of {plural(count, 'live file')} cannot be read: {'; '.join(shown)}{more}. Bring the "
        "files back before anything is rewritten or deleted",
        "live files that are missing or have another size than the log records",
        {"lostFiles": count},
        {},
        Saves(),
        command("repair", dry_run=True),
    )


def file_advice(facts: Examined) -> Iterator[Advice]:
    """Yield the advice on data files."""
    plan = facts.optimize
    if plan is not None:
        yield from _small_files(facts, plan)
        yield from _deleted_rows(facts)
        yield from _without_statistics(facts)
        yield from _partitions(facts, plan)
    if facts.vacuum is not None:
        yield from _unreferenced(facts, facts.vacuum)


def _small_files(facts: Examined, plan: OptimizePlan) -> Iterator[Advice]:
    chosen, count = plan.selection, facts.state.count
    fewer = chosen.files - chosen.outputs
    if fewer < _FEWEST or fewer < _SHARE * count:
        return
    after = count - fewer
    requests = REQUESTS_PER_FILE * fewer - len(plan.groups)
    size_after = bytes_after(plan)
    yield Advice(
        codes.SMALL_FILES,
        Severity.WARNING if fewer >= _MANY and fewer >= _LARGE_SHARE * count else Severity.INFO,
        f"{chosen.files:,} of {plural(count, 'file')} ({format_size(chosen.size_bytes)}) would become "
        f"{chosen.outputs:,}{_where(facts, fewer)}",
        "live files, and the requests of a read of the whole table",
        _files_now(facts),
        {"files": after, "bytes": size_after, "requests": facts.read_requests - requests},
        saved(facts.prices, files=fewer, size_bytes=_less(facts, size_after), requests=requests),
        command("optimize"),
    )


def _where(facts: Examined, fewer: int) -> str:
    """Return in how many partitions files are saved, and the partition with most of them."""
    by_partition = facts.saved_by_partition
    if len(by_partition) < 2:
        return ""
    touched = sum(1 for one in by_partition if one)
    worst = max(range(len(by_partition)), key=by_partition.__getitem__)
    most = by_partition[worst]
    named = f", {most:,} of them in {facts.state.name_of(worst)}" if most > _LARGE_SHARE * fewer and touched > 1 else ""
    return f", in {touched:,} of {plural(len(by_partition), 'partition')}{named}"


def _files_now(facts: Examined) -> dict[str, int | None]:
    return {"files": facts.state.count, "bytes": facts.state.size_bytes, "requests": facts.read_requests}


def _less(facts: Examined, size_after: int | None) -> int | None:
    """Return how many bytes fewer the live files have afterwards: the old ones stay until a vacuum deletes them."""
    return None if size_after is None else facts.state.size_bytes - size_after


def _deleted_rows(facts: Examined) -> Iterator[Advice]:
    state = facts.state
    if not state.vectors:
        return
    is_many = state.vectors >= _SHARE * state.count and state.vectors >= _FEWEST
    if state.deleted_rows < _SHARE / 2 * max(state.records, 1) and not is_many:
        return
    plan = plan_of_files(facts.snapshot, OptimizeRequest(purge=True), state.live)
    chosen = plan.selection
    if not chosen.vectors:
        return
    fewer = chosen.files - chosen.outputs
    left = state.vectors - chosen.vectors
    size_after = bytes_after(plan)
    gone = _less(facts, size_after)
    vector_files = state.vector_files if not left else 0
    requests = REQUESTS_PER_FILE * fewer + vector_files - len(plan.groups)
    is_large = state.deleted_rows >= _SHARE * max(state.records, 1)
    yield Advice(
        codes.DELETED_ROWS,
        Severity.WARNING if is_large else Severity.INFO,
        f"{plural(state.deleted_rows, 'deleted row')} of {state.records:,} are still in "
        f"{plural(state.vectors, 'file')}; every reader skips them",
        "live files with their deletion vectors, and the requests of a read of the whole table",
        _files_now(facts) | {"vectors": state.vectors},
        {
            "files": state.count - fewer,
            "bytes": size_after,
            "requests": facts.read_requests - requests,
            "vectors": left,
        },
        saved(facts.prices, files=fewer, size_bytes=gone, requests=requests, read_bytes=gone or 0),
        command("optimize", purge=True),
    )


def _without_statistics(facts: Examined) -> Iterator[Advice]:
    """Files get statistics when they are rewritten: with a limit above all sizes, every file that has company is."""
    state = facts.state
    missing = state.without_records
    if missing < _FEWEST or missing < _SHARE * state.count:
        return
    limit = (pc.max(state.live.columns.sizes).as_py() // _MIB + 1) * _MIB
    request = OptimizeRequest(min_size=limit, target_size=max(limit, facts.target_bytes))
    plan = plan_of_files(facts.snapshot, request, state.live)
    if plan.is_noop:
        return
    rows = pc.take(state.live.columns.rows, _places(plan))
    left = missing - rows.null_count
    fewer = plan.selection.files - plan.selection.outputs
    if left == missing:
        return
    requests = REQUESTS_PER_FILE * fewer - len(plan.groups)
    size_after = bytes_after(plan)
    yield Advice(
        codes.NO_STATISTICS,
        Severity.WARNING if missing >= _LARGE_SHARE * state.count else Severity.INFO,
        f"{missing:,} of {plural(state.count, 'file')} have no statistics, so every query opens them; rewriting "
        f"{format_size(plan.selection.size_bytes)} adds them to {plural(missing - left, 'file')}",
        "live files, and those without statistics",
        _files_now(facts) | {"withoutStatistics": missing},
        {
            "files": state.count - fewer,
            "bytes": size_after,
            "requests": facts.read_requests - requests,
            "withoutStatistics": left,
        },
        saved(facts.prices, files=fewer, size_bytes=_less(facts, size_after), requests=max(requests, 0)),
        command("optimize", min_size=f"{limit // _MIB}MiB", target_size=f"{request_mib(request.target_size)}MiB"),
    )


def request_mib(size: str | int | None) -> int:
    """Return a size of a request in MiB, rounded up."""
    assert isinstance(size, int)
    return -(-size // _MIB)


def _places(plan: OptimizePlan) -> list[int]:
    import pyarrow as pa

    return pa.array(plan.selection.places(plan.selection.bins), pa.int64())  # type: ignore[no-any-return]


def _partitions(facts: Examined, plan: OptimizePlan) -> Iterator[Advice]:
    import pyarrow as pa

    state, count = facts.state, facts.state.partitions.num_rows
    if count < _PARTITIONS or state.size_bytes >= SMALL_FILE_BYTES * count:
        return
    alike = state.live.columns._replace(groups=pa.repeat(pa.scalar(0, pa.int32()), state.count))
    whole = select(alike, replace(plan.rules, purge=False))
    best = state.count - whole.files + whole.outputs
    after = state.count - plan.selection.files + plan.selection.outputs
    if best > _LARGE_SHARE * after:
        return
    requests = REQUESTS_PER_FILE * (state.count - best)
    columns = ", ".join(facts.snapshot.metadata.partition_columns)
    yield Advice(
        codes.PARTITIONS,
        Severity.WARNING,
        f"{plural(count, 'partition')} by {columns} have {format_size(state.size_bytes // count)} each on average, so "
        f"an optimization leaves {after:,} files; without partitions it would be {best:,}. Write the table again with "
        "fewer partition columns, or with clustering; no command of deltacli does this",
        "live files, and the requests of a read of the whole table",
        _files_now(facts) | {"partitions": count},
        {"files": best, "bytes": None, "requests": facts.read_requests - requests, "partitions": 1},
        saved(facts.prices, files=state.count - best, requests=requests),
        None,
    )


_PROVEN = (Reason.TOMBSTONE, Reason.VECTOR, Reason.CHANGE_DATA)
"""Reasons that the log itself gives."""


def _unreferenced(facts: Examined, plan: VacuumPlan) -> Iterator[Advice]:
    is_much = plan.files >= _FEWEST or plan.size_bytes >= max(_SHARE * facts.state.size_bytes, _MIB)
    if not plan.files or not is_much:
        return
    options: dict[str, bool] = {}
    above = ""
    for refusal in plan.refusals:
        proven = sum(plan.totals[reason].amount.files for reason in _PROVEN if reason in plan.totals)
        if refusal.code != "vacuum.max-delete" or proven < (1 - _SHARE) * plan.files:
            facts.notes.append(f"no advice on unreferenced files: vacuum is refused: {refusal.message}")
            return
        options["dry_run"] = True
        above = ", above the limit of what one vacuum deletes: look at the plan first"
    kinds = ", ".join(
        f"{totals.amount.files:,} {'removed' if reason is Reason.TOMBSTONE else reason.value}"
        for reason, totals in plan.totals.items()
    )
    now = {"files": plan.files, "bytes": plan.size_bytes, "requests": None}
    yield Advice(
        codes.UNREFERENCED,
        Severity.WARNING if plan.size_bytes >= max(_LARGE_SHARE * facts.state.size_bytes, _MIB) else Severity.INFO,
        f"{plural(plan.files, 'file')} ({format_size(plan.size_bytes)}) are not needed by any retained version "
        f"({kinds}){above}",
        "unreferenced files",
        now,
        {"files": 0, "bytes": 0, "requests": None},
        saved(facts.prices, files=plan.files, size_bytes=plan.size_bytes),
        command("vacuum", table=TABLE, **options),
    )


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
