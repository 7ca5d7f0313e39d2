"""Steps for live files whose rows are in other files already: a commit that only moves rows removed them with another
deletion vector than they have, so they stayed.

Nothing is given up by a guess: the commit says that it changes no rows (`dataChange` false), and its new files have
exactly the rows of the files that it removes, as these were before, which is looked at. Spec: Add File and Remove File.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.core.errors import DeltacliError
from deltacli.delta.encoding.digests import MultisetDigest
from deltacli.delta.log.file_actions import action_schemas, whole_actions
from deltacli.delta.paths import canonical
from deltacli.operations.repair.corrected_adds import added_later
from deltacli.operations.repair.files import RemoveFiles
from deltacli.operations.repair.plan import Planned, Step, Unrepaired, left
from deltacli.rules.framework.base import Severity
from deltacli.rules.framework.repairs import StepKind
from deltacli.table.keyed_files import file_keys
from deltacli.table.rebuild import read_snapshot
from deltacli.table.scan import data_files
from deltacli.work.commits.reading import stream_commit
from deltacli.work.rewrite.pieces import SourceFile, whole_rows
from deltacli.work.rewrite.sources import WANTED, digest_rows

if TYPE_CHECKING:
    from deltacli.core.typing import ArrowArray, RecordBatch
    from deltacli.delta.log.segment import LogListing
    from deltacli.rules.framework.base import Finding
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

_PAST = "the newest version does not have the file as it was then"
_UNKNOWN = "it is not known that other files have its rows; restore goes back to a version before the commit"


def plan_doubled(
    table: TableHandle, findings: Sequence[Finding], now: Snapshot, listing: LogListing, obstacle: str | None
) -> Planned:
    """Return the step for files that a commit moved and did not remove. Raises StorageFailed."""
    import pyarrow as pa

    by_version: dict[int, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_version[-1 if finding.place.version is None else finding.place.version].append(finding)
    later = added_later(table, findings, listing)
    steps, unrepaired, paths = list[Step](), list[Unrepaired](), list[str]()
    keys: list[ArrowArray] = []
    others: dict[int, RecordBatch] = {}
    for version, some in by_version.items():
        found = None if obstacle is not None else _doubled(table, version, listing, now)
        live = {} if found is None else _live(now, file_keys(found[0]))
        for finding in some:
            path = canonical(finding.place.key or "")
            if found is None:
                unrepaired.append(left(finding, obstacle or _UNKNOWN))
            elif path not in live or finding.place.key in later:
                unrepaired.append(left(finding, _PAST)._replace(severity=Severity.WARNING))
            else:
                what = f"remove {finding.place.key}, whose rows the new files of commit {version} have"
                steps.append(Step(finding.rule.id, finding.place, StepKind.REBUILD, 0, what))
                paths.append(live[path])
                keys.append(file_keys(found[0].filter(_is_at(found[0], path))))
                others[version] = found[1]
    if not keys:
        return Planned(unrepaired=unrepaired)
    elsewhere = pa.Table.from_batches([*others.values()]).combine_chunks().to_batches()[0]
    return Planned(steps, [RemoveFiles(pa.concat_arrays(keys), tuple(paths), {}, (), elsewhere)], unrepaired)


def _doubled(
    table: TableHandle, version: int, listing: LogListing, now: Snapshot
) -> tuple[RecordBatch, RecordBatch] | None:
    """Return the adds that a commit removes, with whatever vector, and those of its new files, which are live and have
    their rows; None where that is not known.
    """
    file = listing.commits.get(version)
    if file is None or version == 0:
        return None
    actions = list(stream_commit(table.storage, file))
    files = [(kind, action) for kind, action in actions if kind != "commitInfo"]
    if not all(kind in ("add", "remove") and action.get("dataChange") is False for kind, action in files):
        return None
    gone = {canonical(str(action.get("path"))) for kind, action in files if kind == "remove"}
    try:
        before = read_snapshot(table, version=version - 1)
        sources = _at(before, gone)
        if sources is None or sources.num_rows != len(gone):  # one of them may be there twice, or was not
            return None
        adds = whole_actions([action for kind, action in files if kind == "add"], action_schemas().add, file.name)
        if len(_live(now, file_keys(adds))) != adds.num_rows:
            return None
        if _rows_of(table, before, sources) != _rows_of(table, before, adds):
            return None
    except DeltacliError:
        return None
    return sources, adds


def _at(snapshot: Snapshot, paths: set[str]) -> RecordBatch | None:
    """Return the live adds of some canonical paths."""
    import pyarrow as pa

    def chosen(adds: RecordBatch) -> RecordBatch:
        return adds.filter(pa.array([canonical(path) in paths for path in adds.column("path").to_pylist()], pa.bool_()))

    found = [part for part in snapshot.file_actions.map_actions("add", chosen) if part.num_rows]
    return pa.Table.from_batches(found).combine_chunks().to_batches()[0] if found else None


def _is_at(adds: RecordBatch, path: str) -> ArrowArray:
    import pyarrow as pa

    return pa.array([canonical(one) == path for one in adds.column("path").to_pylist()], pa.bool_())


def _live(now: Snapshot, keys: ArrowArray) -> dict[str, str]:
    """Return the paths of the live adds with some keys, by their canonical spelling."""

    def chosen(adds: RecordBatch) -> list[str]:
        found: list[str] = adds.filter(pc.is_in(file_keys(adds), value_set=keys)).column("path").to_pylist()
        return found

    return {canonical(path): path for part in now.file_actions.map_actions("add", chosen) for path in part}


def _rows_of(table: TableHandle, snapshot: Snapshot, adds: RecordBatch) -> tuple[int, ...]:
    """Return the digest of the live rows of some files, read by the schema of a version."""
    ids, versions = (adds.column(name).to_pylist() for name in ("baseRowId", "defaultRowCommitVersion"))
    read = data_files(adds, snapshot.config, snapshot.schema.fields, version=snapshot.version)
    pieces = [[source] for source in map(SourceFile, read, ids, versions)]
    digest = MultisetDigest()
    shared = {WANTED: whole_rows(snapshot.config)}
    for answer in table.engine.spread(digest_rows, pieces, table.stores, shared=shared):
        digest.add(answer)
    return digest.answer()
