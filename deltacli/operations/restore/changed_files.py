"""The files that a restore adds and removes as rows in columns, and those of the target that cannot be used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.delta.vacuum.keys import PathKeys
from deltacli.operations.restore.verify import ProblemFile
from deltacli.operations.table.keyed_files import chosen_actions
from deltacli.operations.table.needed import FileKind
from deltacli.storage import Storage
from deltacli.typing import ArrowArray, RecordBatch

if TYPE_CHECKING:
    from deltacli.operations.restore.plan import RestorePlan

COLUMNS = ("path", "change", "kind", "sizeBytes", "problem", "why", "source")
_READ = ("path", "size", "deletionVector")


def changed_files(plan: RestorePlan, lost: Sequence[ProblemFile] = ()) -> Iterator[RecordBatch]:
    """Yield a row for each file that comes back (`change` is `add`) or goes (`remove`), and before them one for each
    vector, and each file that stays, with a problem. `lost` are files that are gone after the commit.

    Raises CommitCorrupt, CheckpointUnreadable and StorageFailed.
    """
    found = plan.difference
    problems = tuple(dict.fromkeys((*plan.problems, *lost)))
    of_adds = [one for one in problems if one.kind == FileKind.DATA.value and not one.stays]
    others = [one for one in problems if one not in of_adds]
    if others:
        yield _others(others)
    if found.added_amount.files:
        for adds in chosen_actions(plan.target, found.target.keys, found.added, plan.where, _READ):
            yield file_rows(plan.table.storage, adds, "add", of_adds)
    if found.removed_amount.files:
        for adds in chosen_actions(plan.now, found.now.keys, found.removed, plan.where, _READ):
            yield file_rows(plan.table.storage, adds, "remove")


def file_rows(storage: Storage, adds: RecordBatch, change: str, problems: Sequence[ProblemFile] = ()) -> RecordBatch:
    """Return live files as rows of a kind of change, with the problems of some."""
    import pyarrow as pa

    count, text = adds.num_rows, pa.string()
    paths = _paths(storage, adds.column("path"))
    places = pc.index_in(paths, value_set=pa.array([one.path for one in problems], text))
    told = (
        pc.take(pa.array(values, text), places)
        for values in (
            [one.problem.value for one in problems],
            [one.why for one in problems],
            [one.source for one in problems],
        )
    )
    columns = (paths, pa.repeat(change, count), pa.repeat(FileKind.DATA.value, count), adds.column("size"), *told)
    return pa.RecordBatch.from_arrays(list(columns), names=list(COLUMNS))


def _others(problems: Sequence[ProblemFile]) -> RecordBatch:
    import pyarrow as pa

    rows = [(one.path, None, one.kind, None, one.problem.value, one.why, one.source) for one in problems]
    kinds = [pa.int64() if name == "sizeBytes" else pa.string() for name in COLUMNS]
    columns = [pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=list(COLUMNS))


def _paths(storage: Storage, raw: ArrowArray) -> ArrowArray:
    """Return paths below the root, not encoded, or as in the log outside of it, and where they are no text."""
    import pyarrow as pa

    below = PathKeys((storage.uri, *storage.aliases)).of_log(raw).keys
    try:
        return pc.coalesce(pc.cast(below, pa.string()), raw)
    except pa.ArrowInvalid:
        return raw
