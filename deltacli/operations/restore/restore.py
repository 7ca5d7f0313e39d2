"""`restore`: its request, its plan, which changes nothing, and one commit with the files of the difference.

Spec: Add File and Remove File; Protocol Evolution; Row Tracking.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.changing.base_version import MAX_FILE_CHECK_AGE_SECONDS, BaseVersion, build_base_version
from deltacli.changing.change_kind import ChangeKind
from deltacli.changing.commit import Committed
from deltacli.changing.commit_options import CommitOptions
from deltacli.changing.plan import TableHandleMixin
from deltacli.changing.request_checks import require_committable_request
from deltacli.core.documents import dumps
from deltacli.core.errors import (
    NOTHING_CHANGED,
    DeltacliError,
    PartlyDone,
    Refusal,
    Refused,
    UsageError,
    command,
    fill_table,
    parameter,
)
from deltacli.core.short_repr import short_repr
from deltacli.core.times import format_timestamp
from deltacli.core.typing import ArrowArray, Json, RecordBatch
from deltacli.core.units import format_size, plural
from deltacli.delta.log import state
from deltacli.delta.log.actions import require_unreserved_keys
from deltacli.delta.log.commit_content import CommitRequest, EveryFile, FilesOfPartitions, NextVersion, encoded_files
from deltacli.delta.log.conflicts import is_vacuum
from deltacli.delta.partitions.values import find_without_values
from deltacli.delta.protocol.features import require_commits_supported
from deltacli.operations.recover.verify import Problem
from deltacli.operations.restore import metadata
from deltacli.operations.restore.difference import (
    VERIFIED,
    WAIT_FOR_VACUUM,
    Checked,
    Difference,
    ProblemFile,
    check_files,
    check_sizes,
    compare,
    file_rows,
    no_difference,
    rows_of_problems,
    vacuum_is_running,
)
from deltacli.operations.restore.spellings import find_spelling_refusals
from deltacli.rules.framework.repairs import may_keep
from deltacli.table.api_arguments import require_timestamp_ms, require_version
from deltacli.table.file_keys import build_removes, read_adds_with_mask, read_selected_adds
from deltacli.table.handle import TableHandle, managed_store
from deltacli.table.needed_files import FileKind
from deltacli.table.partition_condition import Mask, PartitionCondition
from deltacli.table.rebuild import read_snapshot
from deltacli.table.time_travel import find_snapshot
from deltacli.work.commits.reading import stream_commit

if TYPE_CHECKING:
    from deltacli.changing.execution import ChangeExecution
    from deltacli.operations.restore.missing_files import Brought
    from deltacli.operations.schemas.described import SchemaDiff
    from deltacli.table.version import Snapshot

# -- the request for a restore -----------------------------------------------------------------------------------------

EXECUTING = frozenset({"commit_metadata"})
"""The fields that say how a plan is executed; the others say what is planned."""


@dataclass(frozen=True, kw_only=True)
class RestoreRequest:
    """The version to restore, and where files that it needs are looked for.

    Attributes:
        version: The version to restore.
        timestamp: Instead of `version`: the version that was the newest one at this time, a datetime with its
            time zone, or a date, which is midnight UTC.
        timestamp_ms: The same in epoch milliseconds.
        where: A condition on partition columns. Only matching partitions are restored; schema and properties
            stay.
        sources: Where missing or damaged files are looked for, as by `undelete`.
        trust_listing: True to compare only the sizes of files that come back, not their footers.
        allow_removals: True to remove files of a table with `delta.appendOnly`, too.
        commit_metadata: Keys to add to the commitInfo. `userMetadata` sets the field of that name.
        dry_run: True to plan only, and change nothing.
    """

    version: int | None = None
    timestamp: datetime | date | None = None
    timestamp_ms: int | None = None
    where: str | None = None
    sources: Sequence[str] = ()
    trust_listing: bool = False
    allow_removals: bool = False
    commit_metadata: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False

    def __post_init__(self) -> None:
        """Raise UsageError unless there is one target."""
        if isinstance(self.sources, str) or not all(self.sources):
            name = parameter("restore.sources")
            raise UsageError(f"{name} is empty, or a text", facts={"expected": "a list of texts"})
        object.__setattr__(self, "sources", tuple(self.sources))
        given = [name for name in ("version", "timestamp", "timestamp_ms") if getattr(self, name) is not None]
        if len(given) != 1:
            names = " and ".join(parameter(f"restore.{name}") for name in ("version", "timestamp"))
            raise UsageError(
                f"{names} exclude each other" if given else "the version to restore is missing",
                facts={"expected": f"{names.replace(' and ', ' or ')}"},
                hint=None if given else command("history"),
            )
        if self.version is not None and require_version(self.version, "version") < 0:
            raise UsageError(f"{parameter('restore.version')} {self.version} is negative")
        if self.timestamp is not None:
            object.__setattr__(self, "timestamp_ms", require_timestamp_ms(self.timestamp, "timestamp"))
            object.__setattr__(self, "timestamp", None)


# -- planning a restore ------------------------------------------------------------------------------------------------

_NAMED = 10
FILE_MISSING, FILE_DAMAGED = "restore.file-missing", "restore.file-damaged"
_OURS = "the restored version"
_COMMITS_OF_A_VACUUM = 50
"""Among so many of the newest commits, a vacuum that is running is noticed."""


class Noticing(NamedTuple):
    """Who notices a restore, and what: `kind` is `stream`, `change-feed`, `share` or `application`."""

    kind: str
    name: str
    effect: str

    def as_json(self) -> dict[str, str]:
        return self._asdict()


@short_repr(
    "version=now.version",
    "target=target.version",
    "added=difference.added_amount.files",
    "removed=difference.removed_amount.files",
    "problems",
    "refusals",
)
@dataclass(frozen=True, eq=False, repr=False)
class RestorePlan(TableHandleMixin):
    """What a restore would do. Nothing has been done."""

    base_version: BaseVersion
    request: RestoreRequest
    now: Snapshot
    target: Snapshot
    difference: Difference
    where: Mask | None
    small: metadata.SmallActions
    ids: metadata.ReturningIds
    """The row ids with which files come back."""
    new_rows: int
    """The rows that get ids."""
    problems: tuple[ProblemFile, ...]
    brought: Brought | None
    """The files that are brought from elsewhere before the commit."""
    restorable: int | None
    """The newest version with other rows that can be restored, where files of the target are missing; None: unknown."""
    refusals: tuple[Refusal, ...]
    notes: tuple[str, ...]
    clients: tuple[Noticing, ...]
    schema: SchemaDiff | None
    """What changes in schema and properties; None: nothing."""
    checked_at: float
    """When the files were looked at, by the monotonic clock of this process."""

    @property
    def is_noop(self) -> bool:
        found = self.difference
        small = self.small
        changes_files = bool(found.added_amount.files or found.removed_amount.files)
        return not changes_files and small.protocol is None and small.metadata is None and not small.domains

    @property
    def lost(self) -> Sequence[ProblemFile]:
        """The files that cannot be used and are not brought, because no source has them, or nothing is committed."""
        return [one for one in self.problems if one.source is None or self.is_noop]

    def build_refusal(self) -> Refused | None:
        """Return the error of the first refusal, with the others as facts; None without one."""
        if not self.refusals:
            return None
        first, *others = self.refusals
        facts = {}
        lost = self.lost
        if lost and not self.request.sources and not self.is_noop:
            facts["to look elsewhere"] = f"{parameter('restore.sources', 'SOURCE')}: a copy, a backup, or versions"
        for number, one in enumerate(lost[:_NAMED], 1):
            facts[f"file {number}"] = f"{one.path} ({one.problem.value}: {one.why})"
        facts |= {f"file {number}": path for number, path in enumerate(first.files[:_NAMED], 1)}
        more = max(len(lost), len(first.files)) - _NAMED
        if more > 0:
            facts["more"] = f"{plural(more, 'file')}, which the plan lists"
        facts |= {f"also {number}": f"{other.message} [{other.code}]" for number, other in enumerate(others, 2)}
        return Refused.from_refusals([first], facts)

    def effects(self) -> Iterator[str]:
        found = self.difference
        for what, amount in (("bring back", found.added_amount), ("remove", found.removed_amount)):
            rows = "unknown" if amount.rows is None else f"{amount.rows:,}"
            yield f"{what} {plural(amount.files, 'file')} ({format_size(amount.size_bytes)}), rows: {rows}"
        if self.brought is not None:
            yield f"copy {plural(self.brought.count, 'file')}"
        if self.schema is not None:
            yield from (f"change {dumps(self.schema.change_json(one)).decode()}" for one in self.schema.changes)
        small, files = self.small, (pc.filter(found.target.keys, found.added), pc.filter(found.now.keys, found.removed))
        keys = [hash(frozenset(one.to_pylist())) for one in files]
        yield f"in detail {keys}, {small.protocol}, {small.metadata}, {small.domains}"

    def as_json(
        self, *, committed_version: int | None = None, dry_run: bool = True, lost: Sequence[ProblemFile] = ()
    ) -> dict[str, Json]:
        """Return the content of the document `deltacli.restore`; `lost` are files that are gone after the commit."""
        added, removed = self.difference.added_amount, self.difference.removed_amount
        schema = self.schema
        return {
            "currentVersion": self.now.version,
            "targetVersion": self.target.version,
            "committedVersion": committed_version,
            "where": self.request.where,
            "files": {
                "added": added.files,
                "removed": removed.files,
                "unchanged": self.difference.unchanged,
                "addedBytes": added.size_bytes,
                "removedBytes": removed.size_bytes,
            },
            "rows": {"added": added.rows, "removed": removed.rows},
            "missing": [
                {"path": one.path, "kind": one.kind, "problem": one.problem.value, "why": one.why, "source": one.source}
                for one in (*self.problems, *lost)
            ],
            "newestRestorableVersion": self.restorable,
            "schemaChanges": [] if schema is None else [schema.change_json(change) for change in schema.changes],
            "clients": [client.as_json() for client in self.clients],
            "notes": [*self.notes, *self.base_version.warnings],
            "refusals": [one._replace(hint=self.filled(one)).as_json("wayOut", "files") for one in self.refusals],
            "dryRun": dry_run,
        }

    def filled(self, refusal: Refusal) -> str:
        """Return the way out of a refusal with the table in its place."""
        return fill_table(refusal.hint or refusal.override or "", self.table.uri)


def plan_restore(table: TableHandle, request: RestoreRequest, now: Snapshot | None = None) -> RestorePlan:
    """Determine what would change of the newest version, or of one that was rebuilt already, and check every file and
    vector of the target. Refusals are part of the plan.

    Raises what `read_snapshot` raises for both versions; Refused where the table cannot be written; UsageError for a
    condition that does not fit this table; PathExternal for files outside the table; StorageFailed.
    """
    require_unreserved_keys(request.commit_metadata)
    target = find_snapshot(table, version=request.version, timestamp_ms=request.timestamp_ms)
    return _Planning(request, now or read_snapshot(table), target).plan()


def plan_again(plan: RestorePlan, now: Snapshot, *, checks_all: bool) -> RestorePlan:
    """Plan the same on a newer version, and read the target through the same store. Files that were checked are checked
    again with `checks_all`, and where some were not as they should be.
    """
    found = plan.difference
    checked = None if plan.problems or checks_all else pc.filter(found.target.keys, found.added)
    return _Planning(plan.request, now, replace(plan.target, table=now.table), checked).plan()


class _Planning:
    def __init__(
        self, request: RestoreRequest, now: Snapshot, target: Snapshot, checked: ArrowArray | None = None
    ) -> None:
        self._table, self._request = now.table, request
        self._now, self._target = now, target
        self._checked = checked
        self._where: Mask | None = None

    def plan(self) -> RestorePlan:
        now, target = self._now, self._target
        states = _state_of(now), _state_of(target)
        refusals = list(self._take_condition(*states))
        found = no_difference() if refusals else compare(now, target, self._where)
        refusals += () if refusals else find_spelling_refusals(now, target, found, self._where)
        if self._where is not None:
            small = metadata.SmallActions()
            refusals += metadata.vector_refusals(states[0], brings_vectors=found.brings_vectors)
        else:
            small = metadata.settle(*states, brings_vectors=found.brings_vectors, has_files=found.files_after > 0)
            refusals += (*small.refusals, *metadata.refusal_of_partitioning(*states, found.unchanged))
            refusals += metadata.refusal_of_files_that_stay(*states, found.unchanged_without_row_id)
        after = _after(now, small)
        ids = metadata.returning_ids(now, found, self._where, begins_again=metadata.begins_again(*states))
        fresh = metadata.files_to_number(target, after, found, self._where, ids)
        refusals += metadata.refusals_of_marks(*states)
        refusals += () if self._request.allow_removals else _removal_refusals(now, found)
        refusals += metadata.refusals_of_files(now, target, found, self._where, ids, fresh)
        refusals += _refuse_without_partition_values(target, found, self._where)
        if small.metadata is not None:
            from deltacli.changing.preflight import find_new_errors

            refusals += find_new_errors(now.version, _configuration(now), _configuration(after), ChangeKind.REUSE_FILES)
        checked_at = now.table.machine.monotonic()
        checked, brought = self._verified(found)
        refusals += () if refusals else self._violations(found, checked)
        plan = RestorePlan(
            base_version=build_base_version(now),
            request=self._request,
            now=now,
            target=target,
            difference=found,
            where=self._where,
            small=small,
            ids=ids,
            new_rows=fresh.rows or 0,
            problems=checked.problems,
            brought=brought,
            restorable=self._restorable(found, checked.problems),
            refusals=tuple(refusals),
            notes=(*small.notes, *checked.notes),
            clients=(),
            schema=_schema_changes(now, after) if small.metadata is not None else None,
            checked_at=checked_at,
        )
        if self._where is not None and not refusals and not found.now.keys and not found.target.keys:
            none = f"no file of version {target.version} or of version {now.version} matches {self._request.where}"
            plan = replace(plan, notes=(*plan.notes, none))
        plan = replace(plan, refusals=(*plan.refusals, *_file_refusals(plan)))
        if not plan.is_noop:
            require_committable_request(now, request_of(plan))
            by_catalog = managed_store(now.table.storage) is not None  # of what comes back, too
            require_commits_supported(after.protocol, after.properties, now.version + 1, by_catalog=by_catalog)
            plan = replace(plan, clients=tuple(_clients(plan, *states)))
        return plan

    def _take_condition(self, now: metadata.SmallState, target: metadata.SmallState) -> Iterator[Refusal]:
        """Parse the condition, and yield why files of the target do not fit the table of now."""
        if self._request.where is None:
            return
        from deltacli.operations.restore.constraints import differences

        self._where = PartitionCondition(now.config, self._request.where)
        yield from differences(now.config, target.config, target.version)

    def _violations(self, found: Difference, checked: Checked) -> Iterator[Refusal]:
        """Yield what rows that come back violate of what is demanded today; nothing where files of them are nowhere."""
        if self._where is None or any(one.source is None for one in checked.problems):
            return
        from deltacli.operations.restore.constraints import refusals_of_demands

        sources = self._request.sources if checked.problems else ()
        yield from refusals_of_demands(self._now, self._target, found, self._where, sources)

    def _verified(self, found: Difference) -> tuple[Checked, Brought | None]:
        """Check the files of the target, which have been checked before where a plan is made again, and those that come
        back more closely. Return those that cannot be used, and the files that are brought instead.
        """
        from_elsewhere = self._request.sources
        checked = check_files(self._table, *self._due(found), footers=not self._request.trust_listing)
        if not from_elsewhere or (self._checked is not None and checked.needed is None):
            return checked, None
        from deltacli.operations.restore.missing_files import look_elsewhere

        problems, brought, notes = look_elsewhere(self._table, checked, from_elsewhere, self._now.metadata.id)
        return checked._replace(problems=problems, notes=(*checked.notes, *notes)), brought

    def _due(self, found: Difference) -> tuple[Iterable[tuple[RecordBatch, ArrowArray]], int]:
        """Return the files to be checked with which of them come back, and how many they are."""
        if self._checked is None:
            every = read_adds_with_mask(self._target, found.target.keys, found.added, self._where, VERIFIED)
            return (every if found.files_after else ()), found.files_after
        due = pc.and_(found.added, pc.invert(pc.is_in(found.target.keys, value_set=self._checked)))
        count = pc.sum(due).as_py() or 0
        adds = read_selected_adds(self._target, found.target.keys, due, self._where, VERIFIED) if count else ()
        return ((batch, pa.repeat(True, batch.num_rows)) for batch in adds), count

    def _restorable(self, found: Difference, problems: Sequence[ProblemFile]) -> int | None:
        """Return the newest version that needs none of the files that are nowhere."""
        lost = {one.path for one in problems if one.source is None}
        if not lost:
            return None
        from deltacli.operations.restore.missing_files import newest_restorable

        every = read_adds_with_mask(self._target, found.target.keys, found.added, self._where, VERIFIED)
        return newest_restorable(self._now, self._target, (batch for batch, _ in every), lost, self._where)


def request_of(plan: RestorePlan) -> CommitRequest:
    """Return the commit, without its files, with the operation of the reference implementation."""
    request, found = plan.request, plan.difference
    added, removed = found.added_amount, found.removed_amount
    moment = None if request.timestamp_ms is None else format_timestamp(request.timestamp_ms)
    parameters: dict[str, object] = {"version": None if moment else plan.target.version, "timestamp": moment}
    metrics = {
        "numRestoredFiles": added.files,
        "restoredFilesSize": added.size_bytes,
        "numRemovedFiles": removed.files,
        "removedFilesSize": removed.size_bytes,
    }
    if request.where is None:
        metrics |= {"numOfFilesAfterRestore": found.files_after, "tableSizeAfterRestore": found.size_after}
    else:
        parameters["predicate"] = [request.where]
    return CommitRequest(
        "RESTORE",
        parameters,
        metrics,
        protocol=plan.small.protocol,
        metadata=plan.small.metadata,
        domains=plan.small.domains,
        domains_read=(metadata.CLUSTERING,) if request.where is None else (),
        new_rows=plan.new_rows,
        assigns_table_id=not plan.now.metadata.id,
    )


def _state_of(snapshot: Snapshot) -> metadata.SmallState:
    config = replace(snapshot.config, raw_protocol=snapshot.raw_protocol, raw_metadata=snapshot.raw_metadata)
    return metadata.SmallState(snapshot.version, config, snapshot.domains, snapshot.transactions)


def _after(now: Snapshot, small: metadata.SmallActions) -> Snapshot:
    """Return the small part of the version that would be committed."""
    if small.protocol is not None:
        now = replace(now, protocol=state.read_protocol(small.protocol, _OURS), raw_protocol=small.protocol)
    if small.metadata is not None:
        now = replace(now, metadata=state.read_metadata(small.metadata, _OURS), raw_metadata=small.metadata)
    return now


def _configuration(snapshot: Snapshot) -> state.TableConfiguration:
    return state.configuration_of(
        state.plain_metadata(snapshot.raw_metadata), state.drop_null_fields(snapshot.raw_protocol)
    )


def _schema_changes(now: Snapshot, after: Snapshot) -> SchemaDiff | None:
    from deltacli.operations.schemas.described import describe_delta, diff_schemas

    found = diff_schemas(describe_delta(now), describe_delta(after))
    return found if found.changes else None


# -- what objects to a restore ----------------------------------------------------------------------------------------


def _removal_refusals(now: Snapshot, found: Difference) -> Iterator[Refusal]:
    """Refuse to remove files of a table that must only grow. Spec: Append-only Tables."""
    if state.is_true(now.properties, state.APPEND_ONLY) and (amount := found.removed_amount).files:
        rows = "" if amount.rows is None else f" with {plural(amount.rows, 'row')}"
        yield Refusal(
            "restore.append-only",
            f"{state.APPEND_ONLY} is true, and {plural(amount.files, 'file')}{rows} would be removed",
            override=parameter("restore.allow_removals", True),
        )


def _refuse_without_partition_values(target: Snapshot, found: Difference, where: Mask | None) -> Iterator[Refusal]:
    """Refuse adds without all partition values in a partitioned table: no reader can know the values of their rows.

    Some readers fail at a value that is missing, others take it for null. A null value is stated in the map.
    """
    columns = target.metadata.partition_columns
    if not columns or not found.added_amount.files:
        return
    without_map, without_value = list[str](), list[str]()
    for adds in read_selected_adds(target, found.target.keys, found.added, where, ("path", "partitionValues")):
        paths, maps = adds.column("path"), adds.column("partitionValues")
        without_map += pc.filter(paths, pc.is_null(maps)).to_pylist()
        without_value += pc.filter(paths, find_without_values(maps, [*target.config.partition_columns])).to_pylist()

    by_code = {"action.missing-required": without_map, "partition.key-missing": without_value}
    for code, files in by_code.items():
        if files:
            amount = "no partition values" if files is without_map else "not all partition values"
            yield Refusal(
                code,
                f"{plural(len(files), 'file')} of version {target.version} cannot come back, first {files[0]}: the log "
                f"has {amount}, and the table is partitioned by {', '.join(columns)}",
                command("validate", select=[code]),
                files=tuple(files),
            )


def _file_refusals(plan: RestorePlan) -> Iterator[Refusal]:
    version = plan.target.version
    for code, is_missing, said in ((FILE_MISSING, True, "missing"), (FILE_DAMAGED, False, "damaged")):
        chosen = [one for one in plan.lost if (one.problem is Problem.MISSING) is is_missing]
        if not chosen:
            continue
        verb = "is" if len(chosen) == 1 else "are"
        also = sum(one.stays for one in chosen)
        newest = f"version {plan.now.version}, the newest, needs "
        newest += f"{also} of them, too" if also < len(chosen) else "it, too" if also == 1 else "them, too"
        if plan.is_noop:
            it_is = "it is" if version == plan.now.version else "nothing differs from"
            newest = f"{it_is} the newest version, so that a restore commits nothing"
        elif plan.restorable is not None:
            newest = f"version {plan.restorable} is the newest with other rows that can be restored"
        elif not also:
            newest = "no other version is known to be complete"
        yield Refusal(
            code,
            f"{plural(len(chosen), 'file')} of version {version} {verb} {said}, first {chosen[0].path}; {newest}",
            _way_out(plan),
        )


def _way_out(plan: RestorePlan) -> str:
    """Return what brings the files, or else the version that needs none of them."""
    request = plan.request
    sources: dict[str, Any] = {"sources": list(request.sources)} if request.sources else {}  # Any: of `command`
    if any(one.stays for one in plan.lost):
        if not sources and not may_keep(plan.now.table.uri):
            sources = {"sources": ["COPY"]}
        return command("undelete", **sources, dry_run=True)
    limited = {"where": request.where} if request.where else {}
    if not sources:
        return command("restore", version=plan.target.version, sources=..., dry_run=True, **limited)
    if plan.restorable is None:
        return ""
    return command("restore", version=plan.restorable, dry_run=True, **limited)


# -- what people should know ------------------------------------------------------------------------------------------


def _clients(plan: RestorePlan, now: metadata.SmallState, target: metadata.SmallState) -> Iterator[Noticing]:
    """Yield who reads or writes the table and will notice."""
    added, removed = plan.difference.added_amount.files, plan.difference.removed_amount.files
    if removed:
        yield Noticing("stream", "streams that read the table", "stop, unless they skip commits that remove files")
    if added and removed:
        yield Noticing("stream", "streams that skip such commits", "do not see the rows that come back")
    elif added:
        again = "read the rows that come back again: their output has them twice, unless it drops duplicates"
        yield Noticing("stream", "streams that read the table", again)
    if plan.schema is not None and any(
        change.path for change in plan.schema.changes if change.kind.value not in ("setOption", "removeOption")
    ):
        yield Noticing("stream", "streams that read the table", "stop at the change of the schema")
    if (added or removed) and state.is_true(plan.now.properties, state.CHANGE_FEED):
        yield Noticing(
            "change-feed",
            "readers of the change feed",
            "get the removed rows as deleted, the restored ones as inserted",
        )
    if added or removed:
        yield Noticing("share", "recipients of shares", "read the restored rows from their next request on")
    for transaction, then in metadata.skipped_applications(now, target):
        was = "had not committed then" if then is None else f"had committed {then:,} then"
        effect = f"has committed {transaction.version:,} and {was}: it does not resend what it has sent since then"
        yield Noticing("application", transaction.app_id, effect)


def changed_file_batches(plan: RestorePlan, lost: Sequence[ProblemFile] = ()) -> Iterator[RecordBatch]:
    """Yield a row for each file that comes back (`change` is `add`) or goes (`remove`), and before them one for each
    vector, and each file that stays, with a problem. `lost` are files that are gone after the commit.

    Raises CommitCorrupt, CheckpointUnreadable and StorageFailed.
    """
    found = plan.difference
    problems = tuple(dict.fromkeys((*plan.problems, *lost)))
    of_adds = [one for one in problems if one.kind == FileKind.DATA.value and not one.stays]
    others = [one for one in problems if one not in of_adds]
    if others:
        yield rows_of_problems(others)
    if found.added_amount.files:
        for adds in read_selected_adds(
            plan.target, found.target.keys, found.added, plan.where, ("path", "size", "deletionVector")
        ):
            yield file_rows(plan.table.storage, adds, "add", of_adds)
    if found.removed_amount.files:
        for adds in read_selected_adds(
            plan.now, found.now.keys, found.removed, plan.where, ("path", "size", "deletionVector")
        ):
            yield file_rows(plan.table.storage, adds, "remove")


# -- executing a restore -----------------------------------------------------------------------------------------------


@short_repr(
    "target=plan.target.version",
    "committed_version",
    "added=plan.difference.added_amount.files",
    "removed=plan.difference.removed_amount.files",
    "lost",
    "refusals=plan.refusals",
)
@dataclass(frozen=True, eq=False, repr=False)
class RestoreOutcome:
    """What was done: the plan as it was executed, and the version that was made, None where nothing differs."""

    plan: RestorePlan
    committed_version: int | None = None
    lost: tuple[ProblemFile, ...] = ()
    """Files of the restored version that another program deleted meanwhile."""
    unchecked: DeltacliError | None = None
    """Why that is not known."""

    def as_json(self) -> dict[str, Json]:
        """Return the content of the document `deltacli.restore`."""
        return self.plan.as_json(
            committed_version=self.committed_version, dry_run=self.plan.request.dry_run, lost=self.lost
        )

    def describe_progress(self) -> str:
        if self.committed_version is None:
            return "nothing was committed; files copied from elsewhere may remain in their places"
        return f"version {self.committed_version} was committed"

    def build_incomplete_error(self) -> PartlyDone | None:
        """Return which files of the restored version were deleted meanwhile, with the command that undoes the restore,
        or why they could not be looked at.
        """
        if self.unchecked is not None:
            return PartlyDone(
                f"version {self.committed_version} was committed; its files could not be checked again",
                code="restore.not-checked",
                facts={"why": self.unchecked.message, "so far": self.describe_progress()},
                hint=command("validate", level="storage"),
            )
        if not self.lost:
            return None
        first, where = self.lost[0], self.plan.request.where
        before = (self.committed_version or 0) - 1
        options = {} if where is None else {"where": where}
        same = "" if where is None else " with the same condition"
        return PartlyDone(
            f"version {self.committed_version} was committed, but {plural(len(self.lost), 'file')} of it "
            f"{'is' if len(self.lost) == 1 else 'are'} gone by now: another program deletes files of this table",
            code="restore.file-vanished",
            facts={"first": first.path, "why": first.why, "to undo": f"restore version {before}{same}"},
            hint=command("restore", version=before, dry_run=True, **options),
        )


@dataclass(frozen=True)
class Restore:
    """A restore, to be planned and committed."""

    kind: ClassVar[ChangeKind] = ChangeKind.REUSE_FILES

    request: RestoreRequest

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> RestorePlan:
        return plan_restore(table, self.request, now)

    def outcome(self, plan: RestorePlan) -> RestoreOutcome:
        return RestoreOutcome(plan)

    def execute(self, execution: ChangeExecution[RestorePlan, RestoreOutcome]) -> None:
        """Put files from elsewhere in their places, commit, and look at the files that came back once more: those that
        are gone are in the outcome. Raises what `ChangeExecution.commit_plan` raises.
        """
        attempts = _Attempts(execution)
        execution.recheck_clock()
        done = execution.commit_plan(
            attempts.make,
            update_plan=attempts.plan_again,
            options=CommitOptions(recheck=attempts.look, metadata=self.request.commit_metadata),
        )
        execution.outcome = RestoreOutcome(execution.plan, done.version if isinstance(done, Committed) else None)
        if isinstance(done, Committed):
            try:
                execution.outcome = replace(execution.outcome, lost=_lost(execution.plan))
            except DeltacliError as fault:
                execution.outcome = replace(execution.outcome, unchecked=fault)


class _Attempts:
    """Attempts to commit a plan whose files another program may delete at any time."""

    def __init__(self, execution: ChangeExecution[RestorePlan, RestoreOutcome]) -> None:
        self._execution = execution
        self._checked_at = execution.plan.checked_at if execution.accepts_any_plan else -math.inf
        self._lacks_files = False

    def make(self, plan: RestorePlan) -> CommitRequest:
        """Return the commit, after files from elsewhere are in their places. Raises Refused while a vacuum may delete
        what comes back: between its look at the log and its deletions a commit is not noticed.
        """
        first = max(plan.now.version - _COMMITS_OF_A_VACUUM, 0)
        if plan.difference.added_amount.files and vacuum_is_running(plan.table, first):
            raise Refused(
                "a vacuum has begun and not ended, and it may delete files that come back",
                preamble=NOTHING_CHANGED,
                code="restore.vacuum-running",
                facts={"way out": WAIT_FOR_VACUUM},
                hint=command("history", limit=10),
            )
        if plan.brought is not None:
            from deltacli.operations.recover.sources import Journal

            has_begun, journal = self._execution.has_begun, Journal()
            self._execution.has_begun = True  # nobody knows it of an interruption
            try:
                plan.brought.put(plan.table, journal)
            except DeltacliError:
                self._execution.has_begun = has_begun or journal.files > 0
                raise
        condition = plan.where
        reads = FilesOfPartitions(condition.may_match) if isinstance(condition, PartitionCondition) else EveryFile()
        return replace(request_of(plan), body=_body(plan), reads=reads, adds_existing_files=True)

    def plan_again(self, plan: RestorePlan, now: Snapshot) -> RestorePlan:
        """Plan the same on a newer version. Files are checked again after losses, a while, or a vacuum."""
        checks_all = self._lacks_files or self._has_waited or _has_vacuum(plan.now, now)
        found = plan_again(plan, now, checks_all=checks_all)
        if checks_all:
            self._checked_at, self._lacks_files = found.checked_at, False
        return found

    @property
    def _has_waited(self) -> bool:
        return self._execution.table.machine.monotonic() - self._checked_at > MAX_FILE_CHECK_AGE_SECONDS

    def look(self) -> bool:
        """Look at the files that come back, before a prompt or after a minute; return whether they are there."""
        if self._has_waited:
            self._checked_at = self._execution.table.machine.monotonic()
            self._lacks_files = bool(_lost(self._execution.plan))
        return not self._lacks_files


def _has_vacuum(before: Snapshot, now: Snapshot) -> bool:
    """Return whether a vacuum began or ended between two versions, as far as the commits are there."""
    storage = now.table.storage
    for version in range(before.version + 1, now.version + 1):
        if (file := now.listing.commits.get(version)) is None:
            return True
        info = next((action for kind, action in stream_commit(storage, file) if kind == "commitInfo"), {})
        if is_vacuum(info):
            return True
    return False


def _body(plan: RestorePlan) -> Callable[[NextVersion], Iterator[bytes]]:
    now_ms = plan.table.clock()

    def batches() -> Iterator[tuple[str, RecordBatch]]:
        found, where = plan.difference, plan.where
        if found.added_amount.files:
            adds = read_selected_adds(plan.target, found.target.keys, found.added, where)
            yield from (("add", _comes_back(batch, plan.ids)) for batch in adds)
        if found.removed_amount.files:
            adds = read_selected_adds(plan.now, found.now.keys, found.removed, where)
            yield from (("remove", build_removes(batch, now_ms, is_change=True)) for batch in adds)

    return lambda slot: encoded_files(batches, slot)


def _comes_back(adds: RecordBatch, ids: metadata.ReturningIds) -> RecordBatch:
    """Return adds as they are committed again, with the required fields that old writers left out.

    These get what readers assume. Strict readers refuse an add without them, and so the table. Adds without partition
    values are here only those of tables without partitions; see `_refuse_without_partition_values`.
    """
    base, version = ids.of(adds)
    fixed = {
        "dataChange": pa.repeat(True, adds.num_rows),
        "baseRowId": base,
        "defaultRowCommitVersion": version,
        "modificationTime": pc.fill_null(adds.column("modificationTime"), 0),
    }
    values = adds.column("partitionValues")
    if values.null_count:
        fixed["partitionValues"] = pa.array([pairs or [] for pairs in values.to_pylist()], values.type)
    columns = [fixed.get(name, adds.column(name)) for name in adds.schema.names]
    return pa.RecordBatch.from_arrays(columns, names=adds.schema.names)


def _lost(plan: RestorePlan) -> tuple[ProblemFile, ...]:
    found = plan.difference
    count = found.added_amount.files
    if not count:
        return ()
    adds = read_selected_adds(plan.target, found.target.keys, found.added, plan.where, VERIFIED)
    return check_sizes(plan.table, adds, count)
