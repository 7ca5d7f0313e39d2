"""Steps for live files that are intact, and of which the log says something wrong: sizes, statistics, vectors.

What is true is read from the files. One commit adds them again, with `dataChange` false: their rows stay. Statistics
are those of the collector of `optimize`. Spec: Add File and Remove File; Per-file Statistics.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.core.typing import Json, JsonObject
from deltacli.core.units import plural
from deltacli.delta.log.body_lines import encoded_files
from deltacli.delta.log.commit_content import CommitRequest, FilesAt, Slot
from deltacli.delta.log.file_actions import action_schemas
from deltacli.delta.log.log_path import parse_log_path
from deltacli.delta.schema.file_columns import FileColumns
from deltacli.delta.schema.to_arrow import arrow_schema, file_schema, stored_columns
from deltacli.delta.stats.collect import StatisticsCollector
from deltacli.delta.stats.record_counts import num_records_column
from deltacli.delta.stats.schema import BOUNDS, NULL_COUNT
from deltacli.operations.recover.verify import Problem, verify
from deltacli.operations.repair.plan import Planned, Step, Unrepaired, left
from deltacli.rules.actions.commit_contents import DUPLICATE_PATH
from deltacli.rules.actions.row_tracking import is_enabled
from deltacli.rules.framework.base import Severity
from deltacli.rules.framework.repairs import StepKind
from deltacli.table.keyed_files import file_keys, removes_of
from deltacli.table.needed import look_for, needed_files, whole
from deltacli.work.commits.reading import stream_commit
from deltacli.work.rewrite.exactness import broken_rule
from deltacli.work.rewrite.sources import renamed
from deltacli.work.rows.data_files import DataFile, ReadSpec, open_data_file
from deltacli.work.rows.row_reader import read_rows

if TYPE_CHECKING:
    import pyarrow

    from deltacli.core.typing import ArrowArray, RecordBatch
    from deltacli.delta.log.segment import LogListing
    from deltacli.delta.log.state import TableConfiguration
    from deltacli.operations.repair.plan import Run
    from deltacli.rules.framework.base import Finding
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot
    from deltacli.work.rows.table_files import TableFiles

_WITHOUT_COUNT = "stats.num-records-missing"
"""Its finding is about the first of several files."""
_MAY_DIFFER = ("stats", "tags", "modificationTime", "dataChange")
"""Fields of an add that do not change which rows it has."""
_COUNTS = ".num-records-"
"""What the ids of rules about the number of records have in common."""
_COMPARED = 23
"""Characters of texts that are compared: a time with milliseconds has so many, and no text is cut to fewer."""


@dataclass(frozen=True, eq=False)
class Amendment:
    """What of the add of a file is replaced: its vector, its size, and, as they are read then, its statistics."""

    vector: JsonObject | None = None
    size: int | None = None
    statistics: bool = False


@dataclass(frozen=True, eq=False)
class AddAgain:
    """Adds live files again in one commit, with what is true of them."""

    keys: ArrowArray
    amendments: Mapping[bytes, Amendment]
    paths: tuple[str, ...]
    what: str
    is_sensitive: bool = True
    read: dict[bytes, str] = field(default_factory=dict)
    """The statistics that were read; a commit may be tried more than once."""

    @property
    def name(self) -> str:
        more = f" and {plural(len(self.paths) - 1, 'more file')}" if len(self.paths) > 1 else ""
        return f"commit {self.what} of {self.paths[0]}{more}"

    def run(self, run: Run) -> int | None:
        return run.commit(lambda now: self._request(run, now))

    def _request(self, run: Run, now: Snapshot) -> CommitRequest | None:
        """Return the commit; None where none of the files is live as it was any more."""
        found = list(now.file_actions.map_actions("add", self._chosen))
        batches = [(adds, self._amended(run, now, adds)) for adds in found if adds.num_rows]
        if not batches:
            return None
        # Those with another vector than before are removed with the old one.
        moved = [(adds.filter(pc.not_equal(file_keys(adds), file_keys(amended))), amended) for adds, amended in batches]
        now_ms = run.table.clock()

        def actions() -> Iterator[tuple[str, RecordBatch]]:
            for adds, amended in moved:
                if adds.num_rows:
                    yield "remove", removes_of(adds, now_ms, is_change=False)
                yield "add", amended

        def body(slot: Slot) -> Iterator[bytes]:
            return encoded_files(actions, slot)

        metrics = {"numAmendedFiles": sum(adds.num_rows for adds, _ in batches)}
        return CommitRequest("FSCK", {}, metrics, body=body, reads=FilesAt(self.paths))

    def _chosen(self, adds: RecordBatch) -> RecordBatch:
        return adds.filter(pc.is_in(file_keys(adds), value_set=self.keys))

    def _amended(self, run: Run, now: Snapshot, adds: RecordBatch) -> RecordBatch:
        """Return adds as they should be. Raises Unreadable where a file cannot be read."""
        import pyarrow as pa

        rows = adds.to_pylist()
        for key, row in zip(file_keys(adds).to_pylist(), rows, strict=True):
            wanted = self.amendments[key]
            row["dataChange"] = False
            if wanted.size is not None:
                row["size"] = wanted.size
            if wanted.vector is not None:
                row["deletionVector"] = dict(wanted.vector)
            if wanted.statistics:
                if key not in self.read:
                    has_vector = row["deletionVector"] is not None
                    files = run.table.files()
                    self.read[key] = true_statistics(files, now.config, row["path"], has_vector=has_vector)
                row["stats"] = self.read[key]
        return pa.RecordBatch.from_pylist(rows, schema=adds.schema)


def plan_statistics(
    table: TableHandle,
    findings: Sequence[Finding],
    now: Snapshot,
    listing: LogListing,
    obstacle: str | None,
) -> Planned:
    """Return the steps for wrong statistics of live files: they are computed from the rows. Raises StorageFailed."""
    if not findings:
        return Planned()
    if obstacle is not None:
        return Planned(unrepaired=[left(one, obstacle) for one in findings])
    adds = _live(now, {one.place.key for one in findings if one.place.key}, findings)
    later = added_later(table, findings, listing)
    paths = adds["path"].to_pylist()
    faults = [
        _fault_of_columns(table, now.config, path) if fault is None else fault
        for path, fault in zip(paths, _faults(table, adds), strict=True)
    ]
    keys = [] if not adds.num_rows else whole(_keys(adds)).to_pylist()
    rows_of: dict[str, list[int]] = {}
    for row, path in enumerate(paths):
        rows_of.setdefault(path, []).append(row)
    keeps_ids = is_enabled(now.config)
    steps, unrepaired, chosen = list[Step](), list[Unrepaired](), dict[int, None]()
    for finding in findings:
        rows = rows_of.get(finding.place.key or "", [])
        is_repeated = finding.rule.id == DUPLICATE_PATH.id
        known = [None] * len(faults) if is_repeated else faults
        reason = _why_not(finding, rows, known, later, keeps_ids=keeps_ids)
        if reason is None and is_repeated and not _says_one_thing(table, finding, listing):
            reason = "the commit does not say which of its actions on this file was meant"
        if reason is not None:
            severity = finding.severity if rows and reason is not _LATER else Severity.WARNING
            unrepaired.append(left(finding, reason)._replace(severity=severity))
            continue
        chosen |= dict.fromkeys(rows)
        what = f"compute the statistics of {finding.place.key} from its rows"
        if is_repeated:
            what = f"add {finding.place.key} once more, alone in a commit"
        steps.append(Step(finding.rule.id, finding.place, StepKind.REBUILD, 0, what))
    if any(step.rule == _WITHOUT_COUNT for step in steps):
        counts = num_records_column(whole(adds["stats"])).to_pylist()
        chosen |= dict.fromkeys(row for row, count in enumerate(counts) if count is None and faults[row] is None)
    if not chosen:
        return Planned(unrepaired=unrepaired)
    import pyarrow as pa

    amendments = {keys[row]: Amendment(statistics=faults[row] is None) for row in chosen}
    work = AddAgain(
        pa.array(list(amendments), pa.binary()), amendments, tuple(paths[row] for row in chosen), "true statistics"
    )
    return Planned(steps, [work], unrepaired)


_LATER = "a later commit adds the file again and decides; the action stays until the log is cleaned up"


def _why_not(
    finding: Finding,
    rows: Sequence[int],
    faults: Sequence[str | None],
    later: Mapping[str, int],
    *,
    keeps_ids: bool,
) -> str | None:
    if not rows:
        return "the newest version does not have this file"
    if later.get(finding.place.key or "", -1) > _version_of(finding):
        return _LATER
    fault = next((faults[row] for row in rows if faults[row] is not None), None)
    if fault is not None:
        return f"its rows cannot be read: {fault}"
    if keeps_ids and _COUNTS in finding.rule.id:
        return "its rows have ids that were assigned by the wrong number of records"
    return None


def _says_one_thing(table: TableHandle, finding: Finding, listing: LogListing) -> bool:
    """Return whether a commit only adds a file, more than once, and each time with the same values."""
    file = listing.commits.get(_version_of(finding))
    if file is None:
        return False
    actions = stream_commit(table.storage, file)
    found = [(kind, one) for kind, one in actions if kind in ("add", "remove") and one.get("path") == finding.place.key]
    adds = [{name: value for name, value in one.items() if name not in _MAY_DIFFER} for _, one in found]
    return len(adds) > 1 and all(kind == "add" for kind, _ in found) and all(one == adds[0] for one in adds)


def _version_of(finding: Finding) -> int:
    """Return the version of the action that a finding is about, that of its checkpoint if it is in one."""
    if finding.place.version is not None:
        return finding.place.version
    return parse_log_path(finding.place.path.rpartition("/")[2]).version


def added_later(table: TableHandle, findings: Sequence[Finding], listing: LogListing) -> dict[str, int]:
    """Return the newest version that adds each file which findings are about, where that is after the first finding."""
    wanted = {one.place.key for one in findings if one.place.key}
    first = min(map(_version_of, findings))
    found: dict[str, int] = {}
    for version, file in sorted(listing.commits.items()):
        if version > first:
            for kind, action in stream_commit(table.storage, file):
                if kind == "add" and action.get("path") in wanted:
                    found[str(action["path"])] = version
    return found


def _live(now: Snapshot, names: set[str], findings: Sequence[Finding]) -> pyarrow.Table:
    """Return the live files with these paths, and those without a number of records where a finding is about these."""
    import pyarrow as pa

    wanted = pa.array(sorted(names), pa.string())
    takes_all = any(one.rule.id == _WITHOUT_COUNT for one in findings)

    def chosen(adds: RecordBatch) -> RecordBatch:
        mask = pc.is_in(pc.cast(adds.column("path"), pa.string()), value_set=wanted)
        if takes_all:
            mask = pc.or_(mask, pc.is_null(num_records_column(adds.column("stats"))))
        return adds.filter(mask)

    found = [pa.Table.from_batches([part]) for part in now.file_actions.map_actions("add", chosen) if part.num_rows]
    if not found:
        return action_schemas().add.empty_table()
    return pa.concat_tables(found).combine_chunks()


def _keys(adds: pyarrow.Table) -> ArrowArray:
    import pyarrow as pa

    return pa.chunked_array([file_keys(batch) for batch in adds.to_batches()])


def _faults(table: TableHandle, adds: pyarrow.Table) -> list[str | None]:
    """Return why each file cannot be read, None where its size and its footer are right."""
    import pyarrow as pa

    uris = (table.storage.uri, *table.storage.aliases)
    unknown = pa.nulls(adds.num_rows, pa.int64())
    needed = needed_files(uris, whole(adds["path"]), whole(adds["size"]), unknown)
    names = needed.files["path"].to_pylist()
    there, sizes = look_for(table.storage, needed, table.engine, table.progress)
    found = verify(there, sizes, table.over(table.storage).stores, table.engine, table.progress)
    faults = {
        name: None if problem is None else "it is missing" if problem == Problem.MISSING.value else reason or problem
        for name, problem, reason in zip(names, found.problems.to_pylist(), found.reasons.to_pylist(), strict=True)
    }
    from deltacli.delta.vacuum.keys import PathKeys

    own = PathKeys(uris).of_log(whole(adds["path"])).keys.to_pylist()
    return [None if key is None else faults[key] for key in own]


def _fault_of_columns(table: TableHandle, config: TableConfiguration, path: str) -> str | None:
    """Return the rule of column mapping that a file breaks, so that its rows would be read as null; None without."""
    if config.mapping_mode == "none":
        return None
    with open_data_file(table.files(), DataFile(path, None)) as opened:
        broken = broken_rule(config, opened)
    return None if broken is None else f"{broken.message} [{broken.rule.id}]"


def true_statistics(files: TableFiles, config: TableConfiguration, path: str, *, has_vector: bool) -> str:
    """Return the statistics of a file, of all its rows; those with a vector do not claim to be exact.

    Raises Unreadable where its rows cannot be read.
    """
    columns = stored_columns(config)
    schema = arrow_schema(columns)
    wanted = ReadSpec(columns, schema, schema, FileColumns(config.mapping_mode, config.physical_name))
    physical = file_schema(config, columns)
    collector = StatisticsCollector(config, physical)
    for batch in read_rows(files, wanted, DataFile(path, None)):
        collector.take(renamed(batch, physical))
    return collector.text(is_tight=not has_vector)


def is_true(claimed: str | None, true: str) -> bool:
    """Return whether each value that statistics claim is the true one. Texts and times may be cut."""
    try:
        ours, theirs = json.loads(claimed or ""), json.loads(true)
    except (ValueError, RecursionError):
        return False
    if not isinstance(ours, dict) or ours.get("numRecords") != theirs["numRecords"]:
        return False
    names = (*BOUNDS, NULL_COUNT)
    return all(_agree(ours.get(name) or {}, theirs.get(name, {})) for name in names)


def _agree(ours: Json, theirs: Json) -> bool:
    if isinstance(ours, dict):
        return isinstance(theirs, dict) and all(_agree(value, theirs.get(name)) for name, value in ours.items())
    if isinstance(ours, str) and isinstance(theirs, str):
        length = min(len(ours), len(theirs), _COMPARED)
        return length > 0 and ours[:length] == theirs[:length]
    return bool(ours == theirs)
