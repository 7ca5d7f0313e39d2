"""Row ids of files that come back: kept where no other row can have them, else given anew. Spec: Row Tracking."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.changing.plan import Amount
from deltacli.delta.log.row_ids import DOMAIN, ENABLED, FEATURE, MATERIALIZED_NAMES, NO_MARK, assigns_row_ids, read_mark
from deltacli.delta.protocol.property_values import is_true
from deltacli.delta.stats.record_counts import num_records_column
from deltacli.errors import Refusal
from deltacli.operations.restore.difference import Difference
from deltacli.operations.restore.metadata import SmallState
from deltacli.operations.table.keyed_files import Mask, marked_actions
from deltacli.typing import ArrowArray, RecordBatch
from deltacli.units import plural

if TYPE_CHECKING:
    from deltacli.operations.table.version import Snapshot

_NEW_TABLE = "write the rows of that version to a new table with an engine"
_RANGE = ("baseRowId", "stats")


def begins_again(now: SmallState, target: SmallState) -> bool:
    """Return True where the ids of the target mean nothing by now: it has none that count, or row tracking was dropped
    and added again since, and each time it gets other names for stored ids. Ids begin with 0 again then, and those that
    files store are no longer read.
    """
    names = [state.config.properties.get(MATERIALIZED_NAMES[0]) for state in (now, target)]
    is_other = None not in names and names[0] != names[1]
    return FEATURE in now.config.features and (is_other or _mark_of(target) is None)


def refusals_of_marks(now: SmallState, target: SmallState) -> Iterator[Refusal]:
    """Refuse rows whose ids will be given again: row tracking was dropped, and its mark with it."""
    ours, theirs = _mark_of(now), _mark_of(target)
    if theirs is None or theirs <= (NO_MARK if ours is None else ours) or begins_again(now, target):
        return
    yield Refusal(
        "restore.row-ids",
        f"rows of version {target.version} have ids up to {theirs}, and row tracking was dropped since: the "
        f"high-water mark of row ids is {'gone' if ours is None else ours}",
        _NEW_TABLE,
    )


def _mark_of(state: SmallState) -> int | None:
    return next((read_mark(one.configuration) for one in state.domains if one.domain == DOMAIN), None)


def refusal_of_files_that_stay(now: SmallState, target: SmallState, without_row_id: int) -> Iterator[Refusal]:
    """Refuse to enable row ids over files of now that have none."""
    comes_back = is_true(target.config.properties, ENABLED) and not is_true(now.config.properties, ENABLED)
    if without_row_id and comes_back:
        yield Refusal(
            "restore.row-ids",
            f"{ENABLED} was true at version {target.version} and is not now, and files without row ids stay "
            f"({without_row_id:,})",
            _NEW_TABLE,
        )


def files_to_number(after: Snapshot, found: Difference, *, begins_again: bool) -> Amount:
    """Return the files that come back and get new ids, with their physical rows."""
    if not assigns_row_ids(after.protocol, after.metadata):
        return Amount(0, 0, 0)
    return found.physical(found.added if begins_again else found.without_row_id)


def refusals_of_files(
    now: Snapshot, target: Snapshot, after: Snapshot, found: Difference, where: Mask | None, *, begins_again: bool
) -> Iterator[Refusal]:
    """Refuse files that need ids and whose rows are unknown, and ids that files which stay have as well."""
    fresh = files_to_number(after, found, begins_again=begins_again)
    if fresh.files and fresh.rows is None:
        yield Refusal(
            "restore.rows-unknown",
            f"row ids cannot be given: the log has no number of rows for some of {plural(fresh.files, 'file')} that "
            "come back and need new ones",
            "write the rows of that version to the table with an engine",
        )
    keeps = FEATURE in now.protocol.supported_features and found.added_amount.files and not begins_again
    if keeps and _overlap(now, target, found, where):
        yield Refusal(
            "restore.row-ids",
            f"files of version {target.version} that come back have row ids of files that stay: row tracking was "
            "dropped and added again since",
            _NEW_TABLE,
        )


def _overlap(now: Snapshot, target: Snapshot, found: Difference, where: Mask | None) -> bool:
    """Return True if files that come back have ids of files that stay, or of others that come back."""
    import pyarrow as pa

    back = marked_actions(target, found.target.keys, found.added, where, _RANGE)
    parts = [_ranges(pc.filter(adds, mask)) for adds, mask in back]
    if not sum(part.num_rows for part in parts):
        return False
    goes = marked_actions(now, found.now.keys, found.removed, where, _RANGE)
    parts += [_ranges(pc.filter(adds, pc.invert(mask))) for adds, mask in goes]
    if where is not None:
        parts += now.file_actions.map_actions(
            "add", lambda adds: _ranges(pc.filter(adds, pc.invert(where(adds)))), fields=(*_RANGE, "partitionValues")
        )
    found_ranges = pa.Table.from_batches(parts)
    ranges = pc.take(found_ranges, pc.sort_indices(found_ranges, [("begin", "ascending")]))
    ends = pc.cumulative_max(ranges["end"].combine_chunks())
    return bool(pc.any(pc.less(ranges["begin"].combine_chunks()[1:], ends[:-1])).as_py())


def _ranges(adds: RecordBatch) -> RecordBatch:
    """Return the ids of the files that have some: from `begin` to before `end`. Unknown rows count as one."""
    import pyarrow as pa

    begin: ArrowArray = adds.column("baseRowId")
    ends = pc.add(begin, pc.fill_null(num_records_column(adds.column("stats")), 1))
    ranges = pa.RecordBatch.from_arrays([begin, ends], names=["begin", "end"])
    return ranges.filter(pc.greater(ends, begin))
