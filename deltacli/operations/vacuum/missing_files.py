"""Needed files that are missing under their names: which candidates of a plan may be they, and what to say about it.

Where the whole table was listed, the listing shows that nothing is missing, and nothing more is read. Otherwise the log
is read once more for the few needed files that could be one of the candidates, and the store is asked for these. What
makes a candidate doubtful is in `misnamed.py`.

Spec: Add File and Remove File.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import command
from deltacli.core.typing import ArrowArray, ArrowTable
from deltacli.core.units import plural
from deltacli.delta.paths.spelling import IS_ABSOLUTE, encoded_root
from deltacli.delta.paths.spelling_columns import made_absolute
from deltacli.operations.vacuum.candidates import CandidateChoice, CandidateClassifier
from deltacli.operations.vacuum.misnamed import MisnamedFiles, NamedBatch, NameSearch
from deltacli.operations.vacuum.plan_context import PlanContext, choice_of
from deltacli.table.file_references import FileReferenceReader
from deltacli.table.find_log import list_log
from deltacli.table.rebuild import read_snapshot

if TYPE_CHECKING:
    from deltacli.delta.log.segment import LogListing
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot


def choose_without_misnamed(setting: PlanContext, judge: CandidateClassifier | None = None) -> CandidateChoice:
    """Return the requested limit of the candidates, which keeps those that may be missing files. `judge` has compared a
    listing of the table; None without one.
    """

    def find(candidates: ArrowTable) -> MisnamedFiles:
        return find_misnamed(setting, candidates, None if judge is None else judge.find_unlisted())

    return choice_of(setting)._replace(find_misnamed=find)


def find_misnamed(setting: PlanContext, candidates: ArrowTable, suspects: ArrowArray | None = None) -> MisnamedFiles:
    """Return which candidates of a plan may be needed files that are missing under their names.

    Args:
        setting: The plan's input.
        candidates: Columns `path` (binary), `sizeBytes`, `reason` and `removedAtVersion`, as in `VacuumPlan`.
        suspects: Hashes of the needed files that a listing of the table has not shown; None without a listing.

    Raises:
        StorageFailed: If the store cannot tell whether a file is there.
    """
    references = setting.references
    lookalikes = references.lookalikes
    if suspects is None:
        suspects = pa.concat_arrays(references.needed)
    if not candidates.num_rows or not (len(suspects) or len(lookalikes.outside)):
        return MisnamedFiles.none_of(candidates.num_rows)

    search = NameSearch(setting.keys, candidates, suspects)
    may_be_missing = len(suspects) > 0
    if lookalikes.is_complete:
        may_be_missing = search.may_match(lookalikes, has_vectors=len(references.vectors) > 0)
    if not may_be_missing and not search.may_be_outside(lookalikes):
        return MisnamedFiles.none_of(candidates.num_rows)
    for batch in _needed_batches(setting):
        search.add(batch)
    return search.finish(setting.table)


def _needed_batches(setting: PlanContext) -> Iterator[NamedBatch]:
    """Yield every file that the log of a table, or of another table that needs its files, names."""
    yield from _version_batches(setting.snapshot)
    yield from _commit_batches(setting.table, setting.references.listing)
    for version in setting.request.keep_versions:
        yield from _version_batches(read_snapshot(setting.table, version=version))
    for other in setting.others:
        root = encoded_root(other.table.uri)
        listing = list_log(other.table.storage, progress=other.table.progress)
        for batch in chain(_version_batches(other), _commit_batches(other.table, listing)):
            yield batch._replace(paths=made_absolute(_flat(batch.paths), root))


def _version_batches(snapshot: Snapshot) -> Iterator[NamedBatch]:
    """Yield the live files of a version, and the removed ones that it remembers."""
    for batch in snapshot.file_actions.read_narrow_batches():
        if batch.adds is not None and batch.adds.num_rows:
            yield NamedBatch(*(batch.adds.column(name) for name in ("path", "size", "dv_id")))
        if batch.removes is not None and batch.removes.num_rows:
            paths, vectors = (batch.removes.column(name) for name in ("path", "dv_id"))
            yield NamedBatch(paths, pa.nulls(len(paths), pa.int64()), vectors)


def _commit_batches(table: TableHandle, listing: LogListing) -> Iterator[NamedBatch]:
    """Yield the files that commits name. Commits that cannot be read refuse the plan elsewhere."""
    for rows in FileReferenceReader(table, listing).read():
        yield NamedBatch(rows.path, rows.size, rows.vector)


def misnamed_notes(setting: PlanContext, files: ArrowTable) -> Iterator[str]:
    """Yield notes on candidates that are kept because they may be missing files.

    Args:
        setting: The plan's input.
        files: The candidates in doubt: `path`, `isOfVector`, and `missing`, the name of the file that each may be.
    """
    if not files.num_rows:
        return
    is_outside = pc.match_substring_regex(files["missing"], IS_ABSOLUTE.pattern)
    for is_of_vector in (False, True):
        of_kind = pc.equal(files["isOfVector"], is_of_vector)
        rows = pc.filter(files, pc.and_not(of_kind, is_outside))
        if rows.num_rows:
            yield _misnamed_note(setting, rows, is_of_vector=is_of_vector)
        outside = pc.filter(files, pc.and_(of_kind, is_outside))
        if outside.num_rows:
            yield _outside_note(setting, outside, is_of_vector=is_of_vector)


def _misnamed_note(setting: PlanContext, rows: ArrowTable, *, is_of_vector: bool) -> str:
    candidate, missing = _first_names(rows)
    what = "the file of a deletion vector" if is_of_vector else "the file"
    if rows.num_rows == 1:
        kept = f"1 file is kept ({candidate}), because it may be {what} {missing}, which is needed and missing"
    else:
        kept = (
            f"{plural(rows.num_rows, 'file')} are kept, because they may be needed files that are missing under their "
            f"names, such as {candidate} for {what} {missing}"
        )
    return f"{kept}; to see what is missing, and where it may be: {advice(setting)}"


def _outside_note(setting: PlanContext, rows: ArrowTable, *, is_of_vector: bool) -> str:
    candidate, missing = _first_names(rows)
    kept = "1 file is" if rows.num_rows == 1 else f"{plural(rows.num_rows, 'file')} are"
    return f"{kept} kept, such as {candidate}: {explain_outside(setting, missing, is_of_vector=is_of_vector)}"


def explain_outside(setting: PlanContext, missing: str, *, is_of_vector: bool) -> str:
    """Return why a file is kept that has the file name of a needed one outside of the table, and what to do."""
    what = "the file of a deletion vector" if is_of_vector else "a file"
    old_place = missing.rpartition("/")[0]
    look = command("validate", table=setting.table.address, level="storage", allow_external=[old_place])
    return (
        f"the log needs {what} of the same name at {missing}, outside of the table, which may have been moved from "
        f"there; to see whether that file is there: {look}"
    )


def _first_names(rows: ArrowTable) -> tuple[str, str]:
    """Return the name of the first candidate, and of the missing file that it may be."""
    candidate, missing = (rows[name][0].as_py().decode("utf-8", "replace") for name in ("path", "missing"))
    return candidate, missing


def advice(setting: PlanContext) -> str:
    """Return the command that says more about missing files."""
    if setting.snapshot.protocol.is_catalog_managed:  # which `repair` does not change
        return command("validate", table=setting.table.address, level="storage")
    return command("repair", table=setting.table.address, dry_run=True)


def _flat(column: ArrowArray) -> ArrowArray:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
