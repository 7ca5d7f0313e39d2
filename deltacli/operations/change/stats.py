"""`stats`: the statistics of live files, from footers or rows, in commits that add the same files again.

What a file has and is right stays: bounds that hold for all rows, even if they could be tighter. Bounds and counts that
are missing are filled in, and what the file contradicts is replaced, as far as footers or rows prove it. Each commit
adds a bounded number of files and removes none: a file that another writer touched meanwhile is left out, because
adding it again could bring deleted rows back.

The operation is called COMPUTE STATS: the reference implementation counts adds of other operations as new files in its
next checksum.

Spec: Add File and Remove File; Per-file Statistics; Row Tracking.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.batches import rebatch
from deltacli.changing.base_version import BaseVersion, build_base_version
from deltacli.changing.change_kind import ChangeKind
from deltacli.changing.commit import Committed
from deltacli.changing.commit_options import CommitOptions
from deltacli.changing.plan import TableHandleMixin
from deltacli.changing.preflight import ADDED_TWICE, explain_exclusion
from deltacli.changing.request_checks import require_committable_change
from deltacli.core.errors import ConflictLost, PartlyDone, UsageError, command, parameter
from deltacli.core.typing import ArrowArray, Json, RecordBatch
from deltacli.core.units import plural
from deltacli.delta.clustering.clustering_columns import clustering_paths
from deltacli.delta.encoding.many_values import compute_fingerprints, find_repeated_hashes
from deltacli.delta.log.actions import require_unreserved_keys
from deltacli.delta.log.commit_content import (
    CommitRequest,
    NextVersion,
    OnConflict,
    TouchedFiles,
    WatchedFiles,
    encoded_files,
)
from deltacli.delta.log.file_actions import extract_num_records_column, parse_num_records
from deltacli.delta.paths.engine_readings import SEVERAL_SPELLINGS
from deltacli.delta.paths.spelling import encode_path_bytes
from deltacli.delta.paths.spelling_columns import canonicalize_paths, resolve_file_names
from deltacli.delta.schema.column_path import ColumnFinder
from deltacli.delta.schema.types import PrimitiveType
from deltacli.delta.stats.collect import BOUNDED
from deltacli.delta.stats.columns import parse_stats
from deltacli.delta.stats.merged import merged
from deltacli.delta.stats.schema import (
    BOUNDS,
    NULL_COUNT,
    PER_COLUMN,
    ColumnPath,
    StatKind,
    bound_kind,
    indexed_columns,
)
from deltacli.table.ambiguous_files import find_ambiguous_files
from deltacli.table.file_keys import hash_file_actions
from deltacli.table.handle import TableHandle, managed_store
from deltacli.table.older_metadata import read_column_names_for_tasks
from deltacli.table.partition_condition import PartitionCondition
from deltacli.table.rebuild import read_snapshot
from deltacli.work.facts.footer_files import ListedFile
from deltacli.work.rewrite.pieces import RefusedFile
from deltacli.work.statistics.file_statistics import WANTED, FileStatistics, StatsPiece, WantedStatistics
from deltacli.work.statistics.from_footers import StatisticsFromFooters
from deltacli.work.statistics.from_rows import StatisticsFromRows

if TYPE_CHECKING:
    from deltacli.changing.execution import ChangeExecution
    from deltacli.table.version import Snapshot

# -- the plan ----------------------------------------------------------------------------------------------------------

COMMIT_FILES, COMMIT_BYTES = 22_000, 100_000_000
"""A commit has so many files, or so many bytes of their adds."""
_NEAR_FOOTERS, _FAR_FOOTERS = 1_024, 8
"""Footers per piece: on a disk so many that columns are worth it, of a remote store a third of a second."""
_MOST_PLANS = 20
OPERATION = "COMPUTE STATS"
_BINARY, _VOID = PrimitiveType("binary"), PrimitiveType("void")


class ReadFrom(StrEnum):
    """What statistics are computed from."""

    FOOTERS = "footers"
    ROWS = "rows"


@dataclass(frozen=True, kw_only=True)
class StatsRequest:
    """Which files get statistics of which columns, and from what.

    Attributes:
        where: A condition on partition columns. Files of other partitions keep their statistics.
        columns: Columns that get statistics. Empty: those that the properties of the table choose.
        missing: True to state the default: only files that lack statistics of a column. It excludes `all`.
        all: True to replace wrong statistics of the other files, too.
        read: What is read: `footers`, which do not have all bounds, or `rows`, which have.
        commit_metadata: Keys to add to the commitInfo. `userMetadata` sets the field of that name.
        dry_run: True to plan only, and change nothing.
    """

    where: str | None = None
    columns: Sequence[str] = ()
    missing: bool = False
    all: bool = False
    read: str = ReadFrom.FOOTERS
    commit_metadata: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False

    def __post_init__(self) -> None:
        """Bring the values to one form. Raises UsageError."""
        if self.read not in [*ReadFrom]:
            raise UsageError(f"invalid {parameter('stats.read')} {self.read!r}", facts={"expected": "footers, rows"})
        object.__setattr__(self, "read", ReadFrom(self.read))
        if isinstance(self.columns, str):
            raise UsageError(f"{parameter('stats.columns')} is a text, expected a list of columns")
        object.__setattr__(self, "columns", tuple(self.columns))
        if self.missing and self.all:
            raise UsageError(f"{parameter('stats.missing')} and {parameter('stats.all')} exclude each other")
        object.__setattr__(self, "commit_metadata", dict(self.commit_metadata))


@dataclass(frozen=True, eq=False)
class StatsPlan(TableHandleMixin):
    """The files of a version whose statistics are to be computed.

    Attributes:
        due: How many files have missing or wrong statistics; None if they were not read.
        could_be_tighter: How many files have statistics that hold for all rows and are wider than necessary.
        younger_columns: How many files lack nothing but null counts of columns that were added to the table after they
            were written.
        needs_rows: How many files lack null counts that their footers do not have, and rows would tell.
        refused: The files that cannot be read.
    """

    base_version: BaseVersion
    request: StatsRequest
    snapshot: Snapshot
    wanted: WantedStatistics
    condition: PartitionCondition | None
    live: int = 0
    files: int = 0
    size_bytes: int = 0
    due: int | None = None
    could_be_tighter: int = 0
    younger_columns: int = 0
    needs_rows: int = 0
    refused: tuple[RefusedFile, ...] = ()
    twice: Set[bytes] = frozenset()
    """Canonical paths that several live files have: each would be added again in the place of the other."""
    ambiguous: Set[bytes] = frozenset()
    """The names of files with several spellings of their path: if one of these were added again, engines would read
    other rows."""

    @property
    def is_noop(self) -> bool:
        """Whether there is nothing to do, as far as is known."""
        return not (self.files if self.due is None else self.due or self.refused)

    @property
    def commits(self) -> int:
        """Return the number of commits, of files with usual paths."""
        return -(-self.files // COMMIT_FILES)

    def build_refusal(self) -> None:
        """Return None: a file that cannot be read is left alone."""

    def effects(self) -> Iterator[str]:
        yield f"compute statistics of {plural(self.files, 'file')} from {self.request.read}"

    def chosen(self, adds: RecordBatch) -> RecordBatch:
        """Return the files to read among live ones. Thread-safe. Raises DataUnreadable (`partition.*`)."""
        if self.condition is not None:
            adds = pc.filter(adds, self.condition(adds))
        return adds if self.request.all else pc.filter(adds, _lacks(self.wanted, adds, self.request.read))

    def as_json(self) -> dict[str, Json]:
        """Return the content of the document `deltacli.stats`."""
        outcome = StatsOutcome(
            self,
            could_be_tighter=self.could_be_tighter,
            younger_columns=self.younger_columns,
            needs_rows=self.needs_rows,
            refused=[*self.refused],
        )
        return outcome.as_json() | {"dryRun": True}


def _wanted(snapshot: Snapshot, names: Sequence[str]) -> WantedStatistics:
    """Return the columns that get statistics. Raises UsageError for one that gets none by the table's properties."""
    read_column_names_for_tasks(snapshot)
    config = snapshot.config
    found = tuple(indexed_columns(config, clustering_paths(config, snapshot.domains)))
    if names and config.schema is not None:
        finder, chosen = ColumnFinder(config.schema), dict[ColumnPath, None]()
        for name in names:
            top = tuple(config.physical_name(one) for one in finder.find(name).fields)
            if not (below := [path for path, _ in found if path[: len(top)] == top]):
                is_partition = top[0] in config.partition_columns
                why = "is a partition column" if is_partition else "gets no statistics by the properties of the table"
                raise UsageError(
                    f"column {name} {why}", code="usage.column", hint=None if is_partition else command("properties")
                )
            chosen |= dict.fromkeys(below)
        found = tuple(one for one in found if one[0] in chosen)
    return WantedStatistics(config, found)


def _lacks(wanted: WantedStatistics, adds: RecordBatch, read: str) -> ArrowArray:
    """Return which files lack a number of records, or what their footers or rows may have for a column."""
    texts, vectors = adds.column("stats"), adds.column("deletionVector")
    has_all = [False] * adds.num_rows
    for block in parse_stats(texts, wanted.config).blocks:
        leaves = {part: {leaf.path: leaf.values for leaf in block.leaves[part]} for part in PER_COLUMN}
        has_vector = pc.is_valid(block.align(vectors))
        whole = pc.fill_null(pc.greater_equal(block.records, 0), False)
        for path, data_type in wanted.columns:
            kind = bound_kind(data_type)
            is_flat = kind in (*BOUNDED, StatKind.BOOLEAN) or data_type == _BINARY
            if not is_flat and (read == ReadFrom.FOOTERS or data_type == _VOID):
                continue
            nulls, *bounds = (leaves[part].get(path) for part in (NULL_COUNT, *BOUNDS))
            counted = has_vector if nulls is None else pc.or_(has_vector, pc.is_valid(nulls))
            if kind in BOUNDED:
                for one in bounds:
                    counted = pc.and_(counted, pa.repeat(False, len(counted)) if one is None else pc.is_valid(one))
                if nulls is not None:
                    counted = pc.or_(counted, pc.fill_null(pc.equal(nulls, block.records), False))
            whole = pc.and_(whole, counted)
        for index, value in enumerate(whole.to_pylist()):
            has_all[block.row(index)] = value
    return pc.invert(pa.array(has_all, pa.bool_()))


def plan_stats(
    table: TableHandle, request: StatsRequest, now: Snapshot | None = None, *, examines: bool = False
) -> StatsPlan:
    """Choose the files of the newest version, or of one that was rebuilt already. With `examines` they are read, and
    the plan knows how many get other statistics.

    Raises what `read_snapshot` raises; Refused where the table cannot be written; UsageError for a condition or columns
    that do not fit this table; DataUnreadable (`partition.*`); StorageFailed.
    """
    require_unreserved_keys(request.commit_metadata)
    snapshot = now or read_snapshot(table)
    require_committable_change(snapshot, CommitRequest(OPERATION, new_rows=1), ChangeKind.ADD_FILES)
    if (managed := managed_store(table.storage)) is not None:
        managed.require_permission("DATA_REORGANIZATION", "commit files again", asks=False)
    condition = None if request.where is None else PartitionCondition(snapshot.config, request.where)
    plan = StatsPlan(build_base_version(snapshot), request, snapshot, _wanted(snapshot, request.columns), condition)

    def count(adds: RecordBatch) -> tuple[int, int, int, ArrowArray]:
        chosen = plan.chosen(adds)
        prints = compute_fingerprints(canonicalize_paths(adds.column("path")))
        return adds.num_rows, chosen.num_rows, pc.sum(chosen.column("size")).as_py() or 0, prints

    fields = ("path", "size", "stats", "deletionVector", "partitionValues")
    found = list(snapshot.file_actions.map_actions("add", count, fields=fields))
    live, files, size_bytes = (sum(one[part] for one in found) for part in range(3))
    twice: Set[bytes] = frozenset()
    ambiguous: Set[bytes] = frozenset()
    if files:
        twice = _twice(snapshot, [prints for *_, prints in found])
        ambiguous = frozenset(encode_path_bytes(file.name) for file in find_ambiguous_files(snapshot))
    plan = replace(plan, live=live, files=files, size_bytes=size_bytes, twice=twice, ambiguous=ambiguous)
    if not examines:
        return plan
    outcome = StatsOutcome(plan)
    for _ in computed(plan, outcome):
        pass  # nothing is committed: the outcome counts the files
    return replace(
        plan,
        due=outcome.due,
        needs_rows=outcome.needs_rows,
        could_be_tighter=outcome.could_be_tighter,
        younger_columns=outcome.younger_columns,
        refused=tuple(outcome.refused),
    )


def _twice(snapshot: Snapshot, prints: Sequence[ArrowArray]) -> Set[bytes]:
    """Return the canonical paths that several live files of a version have, given fingerprints of all."""
    if not len(often := find_repeated_hashes(pa.concat_arrays(prints))):
        return frozenset()

    def suspects(adds: RecordBatch) -> list[bytes]:
        paths = canonicalize_paths(adds.column("path"))
        return list(pc.filter(paths, pc.is_in(compute_fingerprints(paths), value_set=often)).to_pylist())

    found = snapshot.file_actions.map_actions("add", suspects, fields=("path",))
    return {path for path, count in Counter(chain.from_iterable(found)).items() if count > 1}


# -- reading files -----------------------------------------------------------------------------------------------------


class Ready(NamedTuple):
    """Live files as in the log, and their statistics as they should be."""

    adds: RecordBatch
    texts: ArrowArray

    def where(self, mask: ArrowArray) -> Ready:
        return Ready(pc.filter(self.adds, mask), pc.filter(self.texts, mask))

    @property
    def again(self) -> RecordBatch:
        """Return the adds of the same files with the statistics."""
        columns = dict(zip(self.adds.schema.names, self.adds.columns, strict=True))
        columns |= {"stats": self.texts, "dataChange": pa.repeat(False, len(self.texts))}
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    @property
    def new_rows(self) -> int:
        """Return how many rows need ids, which no version has given to them yet."""
        needed = pc.is_null(self.adds.column("baseRowId"))
        return pc.sum(pc.filter(extract_num_records_column(self.texts), needed)).as_py() or 0


def computed(plan: StatsPlan, outcome: StatsOutcome) -> Iterator[Ready]:
    """Read the files of a plan; yield those of each commit that get other statistics. `outcome` notes the others."""
    with plan.table.progress.step(f"reading {plan.request.read}", unit="files", total=plan.files) as step:
        for adds in rebatch(plan.snapshot.file_actions.map_actions("add", plan.chosen), COMMIT_FILES, COMMIT_BYTES):
            yield _computed(plan, adds, outcome)
            step.advance(adds.num_rows)


def _computed(plan: StatsPlan, adds: RecordBatch, outcome: StatsOutcome) -> Ready:
    from_rows = plan.request.read == ReadFrom.ROWS
    table, is_near = plan.table, plan.table.storage.capabilities.has_cheap_requests
    each = 1 if from_rows else _NEAR_FOOTERS if is_near else _FAR_FOOTERS
    names = ("path", "size", "deletionVector", "stats")
    paths, sizes, vectors, olds = (adds.column(name).to_pylist() for name in names)
    stated = [one and {name: value for name, value in one.items() if value is not None} for one in vectors]
    files = [ListedFile(path, size) for path, size in zip(paths, sizes, strict=True)]
    spans = [slice(at, at + each) for at in range(0, len(files), each)]
    found = table.engine.run_tasks(
        StatisticsFromRows() if from_rows else StatisticsFromFooters(),
        (StatsPiece(tuple(files[span]), tuple(stated[span]), tuple(olds[span])) for span in spans),
        table.stores,
        shared={WANTED: plan.wanted},
        weigh=(lambda piece: max(piece.files[0].size or 0, 1)) if from_rows else (lambda piece: len(piece.files)),
        at_once=None if is_near or from_rows else table.storage.capabilities.parallel_reads,
    )
    types = dict(plan.wanted.columns)
    keeps_ids = "rowTracking" in plan.snapshot.config.features
    keys_of_all = canonicalize_paths(adds.column("path")).to_pylist()
    uris = (table.storage.uri, *table.storage.aliases)
    names_of_all = resolve_file_names(adds.column("path"), uris).to_pylist() if plan.ambiguous else keys_of_all
    texts: list[str | None] = []
    each_file = zip(paths, keys_of_all, names_of_all, vectors, olds, chain.from_iterable(found), strict=True)
    for path, key, name, vector, old, one in each_file:
        if key in plan.twice:
            one = FileStatistics(code=ADDED_TWICE, reason="it is in the table twice")
        elif name in plan.ambiguous:
            one = FileStatistics(code=SEVERAL_SPELLINGS, reason=explain_exclusion(SEVERAL_SPELLINGS))
        text = None
        if not one.code:
            has_vector = vector is not None
            found_text = merged(
                old, one.text, types, has_vector=has_vector, from_rows=from_rows, judgement=one.judgement
            )
            text = found_text.text
            outcome.could_be_tighter += found_text.could_be_tighter
            outcome.younger_columns += text is not None and not found_text.is_due and not found_text.needs_rows
            outcome.needs_rows += found_text.needs_rows
            outcome.due += found_text.is_due or found_text.needs_rows
        if text is not None and old and keeps_ids and parse_num_records(old) not in (None, parse_num_records(text)):
            one = FileStatistics(code=_OTHER_COUNT, reason="its rows have ids by another number of records")
        if one.code:
            text = None
            outcome.refused.append(RefusedFile(path, one.code, one.reason or one.code))
        elif text is None:
            outcome.unchanged += 1
        texts.append(text)
    column = pa.array(texts, pa.string())
    return Ready(adds, column).where(pc.is_valid(column))


_OTHER_COUNT = "stats.num-records-mismatch"


# -- commits -----------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class StatsOutcome:
    """What was done so far."""

    plan: StatsPlan
    versions: list[int] = field(default_factory=list)
    committed: int = 0
    unchanged: int = 0
    dropped: int = 0
    could_be_tighter: int = 0
    younger_columns: int = 0
    needs_rows: int = 0
    due: int = 0
    refused: list[RefusedFile] = field(default_factory=list)

    def as_json(self) -> dict[str, Json]:
        """Return the content of the document `deltacli.stats`."""
        plan = self.plan
        return {
            "version": plan.snapshot.version,
            "where": plan.request.where,
            "read": str(plan.request.read),
            "mode": "all" if plan.request.all else "missing",
            "committedVersions": list[Json](self.versions),
            "files": {
                "planned": plan.files,
                "due": plan.due,
                "committed": self.committed,
                "unchanged": self.unchanged,
                "dropped": self.dropped,
                "skipped": len(self.refused),
                "couldBeTighter": self.could_be_tighter,
                "youngerColumns": self.younger_columns,
                "needsRows": self.needs_rows,
            },
            "refused": [one._asdict() for one in self.refused],
            **plan.base_version.warnings_json,
            "dryRun": plan.request.dry_run,
        }

    def describe_progress(self) -> str:
        if not self.versions:
            return "nothing was committed"
        return f"statistics of {plural(self.committed, 'file')} in {plural(len(self.versions), 'commit')}"

    def build_incomplete_error(self) -> PartlyDone | None:
        if not self.refused:
            return None
        first = self.refused[0]
        return PartlyDone(
            f"{plural(len(self.refused), 'file')} could not be read and got no statistics",
            code=first.code,
            facts={"first": first.path, "why": first.reason, "so far": self.describe_progress()},
            hint=command("validate", level="footers"),
        )


@dataclass(frozen=True)
class ComputeStats:
    """Statistics to be computed and committed."""

    kind: ClassVar[ChangeKind] = ChangeKind.ADD_FILES

    request: StatsRequest
    examines: bool = False

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> StatsPlan:
        return plan_stats(table, self.request, now, examines=self.examines)

    def outcome(self, plan: StatsPlan) -> StatsOutcome:
        return StatsOutcome(plan, refused=[*plan.refused])

    def execute(self, execution: ChangeExecution[StatsPlan, StatsOutcome]) -> None:
        """Read and commit, group by group. Where another writer has changed columns, properties or the protocol, what
        is left is planned again. Raises what `ChangeExecution.commit_step` raises, and what reading raises.
        """
        execution.recheck_clock()
        execution.recheck_table()
        for _ in range(_MOST_PLANS):
            if execution.plan.is_noop or _Run(execution).run():
                return
            execution.accept_new_plan(plan_stats(execution.table, self.request, read_snapshot(execution.table)))
        raise ConflictLost("another writer changes the columns or properties of the table again and again")


class _Run:
    """One execution of a plan."""

    def __init__(self, execution: ChangeExecution[StatsPlan, StatsOutcome]) -> None:
        self._execution, self._plan, self._outcome = execution, execution.plan, execution.outcome
        self._touched = TouchedFiles()
        self._last: Committed | None = None
        self._is_stale = False
        self._made: Ready | None = None

    def run(self) -> bool:
        """Commit all groups; return False where the rest has to be planned again."""
        outcome = self._outcome
        outcome.unchanged = outcome.could_be_tighter = outcome.younger_columns = outcome.needs_rows = outcome.due = 0
        outcome.refused = []
        return all(not ready.adds.num_rows or self._commit(ready) for ready in computed(self._plan, outcome))

    def _commit(self, ready: Ready) -> bool:
        while True:
            known = len(self._touched)
            done = self._execution.commit_step(
                lambda snapshot: self._request(snapshot, ready),
                previous_step=self._last,
                options=CommitOptions(metadata=self._plan.request.commit_metadata),
            )
            if self._is_stale:
                return False
            made = self._made
            if isinstance(done, Committed) and made is not None:
                self._last = done
                self._outcome.versions.append(done.version)
                self._outcome.committed += made.adds.num_rows
                self._outcome.dropped += ready.adds.num_rows - made.adds.num_rows
                return True
            if made is None or len(self._touched) == known:
                self._outcome.dropped += ready.adds.num_rows
                return True

    def _request(self, snapshot: Snapshot, ready: Ready) -> CommitRequest | None:
        """Return the commit after a version; None where it is made for other columns, or none of the files is left."""
        plan = self._plan
        self._is_stale = not self._fits(snapshot)
        self._made = None
        if self._is_stale:
            return None
        left = ready if snapshot is plan.snapshot else _as_now(snapshot, ready)
        left = left.where(pc.invert(self._touched.among(left.adds)))
        if not left.adds.num_rows:
            return None
        self._made = left

        def body(slot: NextVersion) -> Iterator[bytes]:
            return encoded_files(lambda: [("add", left.again)], slot)

        return CommitRequest(
            OPERATION,
            {"predicate": ["true" if plan.request.where is None else plan.request.where]},
            body=body,
            new_rows=left.new_rows,
            reads=WatchedFiles(left.adds.column("path").to_pylist(), self._touched),
            on_conflict=OnConflict.DROP,
        )

    def _fits(self, snapshot: Snapshot) -> bool:
        """Return whether the statistics are those that a version asks for."""
        plan = self._plan
        if snapshot is plan.snapshot:
            return True
        one, other = ((each.metadata.as_json(), each.raw_protocol) for each in (snapshot, plan.snapshot))
        return one == other and _wanted(snapshot, plan.request.columns).columns == plan.wanted.columns


def _as_now(snapshot: Snapshot, ready: Ready) -> Ready:
    """Return the files that a version still has with the statistics that were looked at, as it has them."""
    keys, olds = hash_file_actions(ready.adds), ready.adds.column("stats")

    def same(adds: RecordBatch) -> tuple[RecordBatch, ArrowArray]:
        places = pc.index_in(hash_file_actions(adds), value_set=keys)
        is_same = pc.equal(pc.fill_null(pc.take(olds, places), ""), pc.fill_null(adds.column("stats"), ""))
        mask = pc.and_(pc.is_valid(places), is_same)
        return pc.filter(adds, mask), pc.filter(places, mask)

    found = [one for one in snapshot.file_actions.map_actions("add", same) if one[0].num_rows]
    if not found:
        return Ready(ready.adds.slice(0, 0), ready.texts.slice(0, 0))
    adds = pa.Table.from_batches([one for one, _ in found]).combine_chunks().to_batches()[0]
    return Ready(adds, pc.take(ready.texts, pa.concat_arrays([places for _, places in found])))
