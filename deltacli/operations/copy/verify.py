"""Comparing a copy with its source: sizes, footers, every byte, and the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

import pyarrow.compute as pc

from deltacli.core.errors import ConflictLost, FileMissing, StorageFailed, Unreadable
from deltacli.core.progress import start_weighed_step
from deltacli.core.typing import ArrowArray, Json
from deltacli.delta.encoding.many_values import KeyIndex
from deltacli.delta.log.segment import LOG_DIRECTORY, SIDECAR_DIRECTORY, LogFile
from deltacli.delta.paths.spelling import decode_path_bytes
from deltacli.operations.copy.plan import CopyPlan
from deltacli.operations.copy.request import CopyLevel
from deltacli.operations.log.log_copy import log_location
from deltacli.operations.recover.copies import same_content
from deltacli.operations.recover.verify import Verified, verify
from deltacli.storage import ReadStorage
from deltacli.table.handle import TableHandle
from deltacli.table.needed_files import combine_chunks, join_needed_files, locate_files, read_live_files
from deltacli.table.rebuild import read_snapshot

_ROWS_AT_ONCE = 10_000
_MISSING = "missing"


class Difference(NamedTuple):
    """A file that the copy lacks or has otherwise: `problem` is missing, extra, size, footer, vector or content."""

    path: str
    problem: str
    reason: str

    def as_json(self) -> dict[str, Json]:
        return {"path": self.path, "problem": self.problem, "reason": self.reason}


def require_equal(plan: CopyPlan, table: TableHandle, target: ReadStorage) -> None:
    """Release the plan. Raises StorageFailed where a file that was to be copied differs from that of the source, or
    where the last version needs one that the target lacks or has with another size; ConflictLost where a file that was
    copied is gone.
    """
    _require_none(_differing_files(plan, table, target), target, is_copied=lambda path: _is_needed(plan, path))
    if not plan.has_live:
        _require_none(_differing_live(plan, table, target), target)
    plan.release()


def require_log(plan: CopyPlan, target: ReadStorage) -> None:
    """Raise StorageFailed where a file of the log that was to be copied has another size in the target."""
    sizes = {one.name: one.size_bytes for one in target.list_from(LOG_DIRECTORY)}
    if any(one.name.startswith(SIDECAR_DIRECTORY) for one in plan.log):
        place = log_location(SIDECAR_DIRECTORY)
        sizes |= {f"{SIDECAR_DIRECTORY}/{one.name}": one.size_bytes for one in target.list_from(place)}
    _require_none(_differing_sizes(plan.log, sizes), target, is_copied=lambda _: True)


def _differing_sizes(files: Iterable[LogFile], sizes: Mapping[str, int]) -> Iterator[Difference]:
    for file in files:
        path, size = log_location(file.name), sizes.get(file.name)
        if size is None:
            yield Difference(path, _MISSING, "the target does not have it")
        elif size != file.size_bytes:
            yield Difference(path, "size", f"not {file.size_bytes:,} bytes")


def _is_needed(plan: CopyPlan, path: str) -> bool:
    """Return True for a path that the plan copies, or found in the target: the next run copies it if it is gone."""
    if plan.needed is None:
        return False
    return any(path == decode_path_bytes(needed) for needed in combine_chunks(plan.needed.files["path"]).to_pylist())


def _require_none(
    differences: Iterator[Difference], target: ReadStorage, *, is_copied: Callable[[str], bool] = lambda _: False
) -> None:
    """Raise an error for the first difference. `is_copied` tells whether the next run copies a path again."""
    first = next(differences, None)
    if first is None:
        return
    facts = {"target": target.uri, "problem": first.problem}
    if first.problem == _MISSING and is_copied(first.path):
        # A vacuum of the target deletes what no version there names: the log is copied after the data.
        raise ConflictLost(
            f"{first.path} was deleted in the target after it had been copied",
            code="copy.target-changed",
            facts={**facts, "way out": "let no vacuum of the target run meanwhile; the next run copies it again"},
        )
    way_out = f"delete {first.path} in the target, or bring it there, then run the command again"
    raise StorageFailed(
        f"{first.path} in the target differs from the source: {first.reason}",
        code="copy.differs",
        facts={**facts, "way out": way_out},
    )


def _differing_live(plan: CopyPlan, table: TableHandle, target: ReadStorage) -> Iterator[Difference]:
    """Yield the live files of the last version, other than those of the plan, that the target does not have."""
    assert plan.needed is not None
    planned = KeyIndex(combine_chunks(plan.needed.files["path"]))
    live = read_live_files(
        read_snapshot(table, version=plan.last),
        select=lambda part: part.where(pc.invert(planned.contains(combine_chunks(part.files["path"])))),
    )
    rest, sizes = locate_files(target, live, table.engine, table.progress)
    found = verify(rest, sizes, table.replace_storage(target).stores, table.engine, table.progress, contents=False)
    yield from _faulty(combine_chunks(rest.files["path"]), found)


def differences(plan: CopyPlan, table: TableHandle) -> Iterator[Difference]:
    """Yield what a copy lacks, or has otherwise than its source, by the level of the request."""
    yield from _differing_log(plan, table)
    for file in plan.extra:
        yield Difference(log_location(file.name), "extra", "the source does not have it")
    yield from _differing_files(plan, table, plan.target)


def _differing_log(plan: CopyPlan, table: TableHandle) -> Iterator[Difference]:
    source, target = table.storage, plan.target

    def compare(file: LogFile) -> Difference | None:
        path = log_location(file.name)
        try:
            size = target.stat(path).size_bytes
        except FileMissing:
            return Difference(path, _MISSING, "the target does not have it")
        if size != file.size_bytes:
            return Difference(path, "size", f"{size:,} bytes instead of {file.size_bytes:,}")
        is_same = same_content(source, path, target, path, size) is not None
        return None if is_same else Difference(path, "content", "other bytes than in the source")

    can = max(store.capabilities.parallel_reads for store in (source, target))
    weight = sum(file.size_bytes for file in plan.log)
    with start_weighed_step(
        table.progress, "comparing the log", unit="files", total=len(plan.log), weight=weight
    ) as step:
        for file, found in zip(plan.log, table.engine.run(compare, plan.log, at_once=can), strict=True):
            if found is not None:
                yield found
            step.advance(weight=file.size_bytes)


def _differing_files(plan: CopyPlan, table: TableHandle, target: ReadStorage) -> Iterator[Difference]:
    """Yield the data files, vectors and change files that differ, by the level of the request."""
    if plan.needed is None or not plan.needed.files.num_rows:
        return
    level, handle = plan.request.level, table.replace_storage(target)
    needed = plan.needed
    if level is CopyLevel.FOOTERS:
        with suppress(FileMissing, Unreadable):
            needed = join_needed_files([read_live_files(read_snapshot(handle, version=plan.last)), needed])
    needed, sizes = locate_files(target, needed, table.engine, table.progress)
    paths = combine_chunks(needed.files["path"])
    planned, known = combine_chunks(plan.needed.files["path"]), plan.needed_sizes
    if not paths.equals(planned):
        known = pc.take(known, pc.index_in(paths, value_set=planned))
    files = needed.files.set_column(needed.files.schema.get_field_index("sizeBytes"), "sizeBytes", known)
    found = verify(
        needed._replace(files=files),
        sizes,
        handle.stores,
        table.engine,
        table.progress,
        contents=level is CopyLevel.FOOTERS,
    )
    yield from _faulty(paths, found)
    if level is CopyLevel.DATA:
        sound = found.is_sound
        yield from _differing_bytes(pc.filter(paths, sound), pc.filter(sizes, sound), table, target)


def _faulty(paths: ArrowArray, found: Verified) -> Iterator[Difference]:
    is_wrong = pc.is_valid(found.problems)
    columns = (pc.filter(column, is_wrong).to_pylist() for column in (paths, found.problems, found.reasons))
    for path, problem, reason in zip(*columns, strict=True):
        yield Difference(decode_path_bytes(path), problem, reason or "the target does not have it")


def _differing_bytes(
    paths: ArrowArray, sizes: ArrowArray, table: TableHandle, target: ReadStorage
) -> Iterator[Difference]:
    source, engine = table.storage, table.engine

    def compare(file: tuple[str, int]) -> bool:
        path, size = file
        return same_content(source, path, target, path, size) is not None

    can = max(store.capabilities.parallel_reads for store in (source, target))
    total = pc.sum(sizes).as_py() or 0
    with start_weighed_step(table.progress, "comparing", unit="files", total=len(paths), weight=total) as step:
        for begin in range(0, len(paths), _ROWS_AT_ONCE):
            part = [column.slice(begin, _ROWS_AT_ONCE).to_pylist() for column in (paths, sizes)]
            files = [(decode_path_bytes(path), size) for path, size in zip(*part, strict=True)]
            for (path, size), same in zip(
                files, engine.run(compare, files, at_once=can if can > 1 else None), strict=True
            ):
                if not same:
                    yield Difference(path, "content", "other bytes than in the source")
                step.advance(weight=size)
