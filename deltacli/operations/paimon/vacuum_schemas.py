"""`vacuum --schemas`: which schema files of a Paimon table nothing needs, and deleting them.

Each file is kept unless it is proven to be unneeded. A writer that opened the table before a change may still commit
files of the older schema, so the age of a schema counts from the time at which the next one replaced it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from deltacli.changing.base_commit_errors import BASE_COMMIT_REPLACED
from deltacli.changing.base_version import BaseVersion
from deltacli.changing.change_kind import ChangeKind
from deltacli.changing.file_totals import NO_FILES, FileTotals
from deltacli.changing.outcome import DeletionFailures
from deltacli.changing.plan import TableUriMixin
from deltacli.core.errors import (
    NOTHING_CHANGED,
    DeltacliError,
    FileMissing,
    Refusal,
    Refused,
    Unreadable,
    command,
    parameter,
    suggest_parameters,
)
from deltacli.core.ranges import format_ranges
from deltacli.core.short_repr import short_repr
from deltacli.core.times import duration_argument, format_duration, format_timestamp
from deltacli.core.typing import Json
from deltacli.core.units import plural
from deltacli.operations.paimon import table_files
from deltacli.paimon.schema import Schema
from deltacli.paimon.snapshots import MAIN_BRANCH, SCHEMA_DIRECTORY, SCHEMA_PREFIX, branch_root, number_of, schema_path
from deltacli.storage import Deleted, Failed, FileStat, Missing, ReadStorage
from deltacli.table.api_arguments import require_count
from deltacli.table.handle import TableHandle

if TYPE_CHECKING:
    from deltacli.changing.execution import ChangeExecution
    from deltacli.table.version import Snapshot

DEFAULT_RETENTION_MS = 7 * 24 * 3_600_000
DEFAULT_KEEP_LAST = 10
_ICEBERG = "metadata.iceberg.storage"
_ICEBERG_DIRECTORY, _ICEBERG_SUFFIX = "metadata", ".metadata.json"
_NAMED_FAULTS = 3


class Verdict(StrEnum):
    """What becomes of a schema file, and why."""

    UNREFERENCED = "unreferenced"
    """Nothing needs it: the only files that are deleted."""
    NEWEST = "newest"
    OLDEST = "oldest"
    """Paimon derives the identity of a table from the time of its oldest schema file."""
    USED = "used"
    LAST = "last"
    """One of the last versions before the newest, which are kept in any case."""
    YOUNG = "young"
    """It was written or replaced after the cutoff."""
    UNREADABLE = "unreadable"


class SchemaFile(NamedTuple):
    """A schema file and the verdict. `replaced_ms`: when the next schema was written; None for the newest."""

    id: int
    path: str
    size_bytes: int
    modified_ms: int
    replaced_ms: int | None
    verdict: Verdict
    users: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Json]:
        """Return the file as in the document `deltacli.vacuum`."""
        found: dict[str, Any] = {
            "path": self.path,
            "schemaId": self.id,
            "sizeBytes": self.size_bytes,
            "modificationTimeMs": self.modified_ms,
            "delete": self.verdict is Verdict.UNREFERENCED,
            "reason": self.verdict.value,
        }
        if self.replaced_ms is not None:
            found["replacedMs"] = self.replaced_ms
        return found | ({"usedBy": list(self.users)} if self.users else {})


class SchemaVacuumRequest(NamedTuple):
    """What to clean up. `allow_retention_below_ms` is the default retention, named to allow a shorter one."""

    branch: str = MAIN_BRANCH
    retention_ms: int = DEFAULT_RETENTION_MS
    allow_retention_below_ms: int | None = None
    keep_last: int = DEFAULT_KEEP_LAST

    @classmethod
    def of(
        cls, branch: str | None, retention_ms: int | None, allow_below_ms: int | None, keep_last: int | None
    ) -> SchemaVacuumRequest:
        """Return the request of a caller; None: the default. Raises UsageError for negative numbers."""
        kept = DEFAULT_KEEP_LAST if keep_last is None else require_count(keep_last, "keep_last")
        retention = DEFAULT_RETENTION_MS if retention_ms is None else require_count(retention_ms, "retention_ms")
        return cls(branch or MAIN_BRANCH, retention, allow_below_ms, kept)


@short_repr("files", "candidates", "refusals")
@dataclass(frozen=True, slots=True, repr=False)
class SchemaVacuumPlan(TableUriMixin):
    """All schema files of a branch with their verdicts, by id. Nothing has been done."""

    base_version: BaseVersion
    request: SchemaVacuumRequest
    now_ms: int
    files: tuple[SchemaFile, ...]
    refusals: tuple[Refusal, ...] = ()

    @property
    def is_noop(self) -> bool:
        return not self.candidates

    def build_refusal(self) -> Refused | None:
        if not self.refusals:
            return None
        first = self.refusals[0]
        hint = suggest_parameters(first.override) if first.override else first.hint
        return Refused.from_refusals(self.refusals, {"guard": first.code}, hint)

    def effects(self) -> Iterator[str]:
        yield from (f"delete {file.path}" for file in self.candidates)

    @property
    def cutoff_ms(self) -> int:
        return self.now_ms - self.request.retention_ms

    @property
    def candidates(self) -> list[SchemaFile]:
        return [file for file in self.files if file.verdict is Verdict.UNREFERENCED]

    @property
    def amount(self) -> FileTotals:
        candidates = self.candidates
        return FileTotals(len(candidates), sum(file.size_bytes for file in candidates))

    @property
    def kept(self) -> Mapping[Verdict, int]:
        counts = Counter(file.verdict for file in self.files)
        return {verdict: counts[verdict] for verdict in Verdict if verdict is not Verdict.UNREFERENCED}

    @property
    def plan_id(self) -> str:
        """Digest of the table and the deleted files, as 16 hexadecimal digits: equal plans have equal ids."""
        lines = [self.table, self.request.branch, *(file.path for file in self.candidates)]
        return sha256("\n".join(lines).encode(errors="surrogatepass")).hexdigest()[:16]

    def as_json(self) -> dict[str, Json]:
        """Return the document `deltacli.vacuum`, without the envelope and the outcome."""
        request = self.request
        return {
            "mode": "schemas",
            "branch": request.branch,
            "retentionMs": request.retention_ms,
            "cutoffMs": self.cutoff_ms,
            "cutoff": format_timestamp(self.cutoff_ms),
            "keepLast": request.keep_last,
            "planId": self.plan_id,
            "schemas": len(self.files),
            "candidates": self.amount.as_json(),
            "kept": {verdict.value: count for verdict, count in self.kept.items()},
            "refusals": [one.as_json("override") for one in self.refusals],
        }


@short_repr("deleted=deleted.files", "missing", "spared", "failed=failed.count")
@dataclass(slots=True, repr=False)
class SchemaVacuumOutcome:
    """What was deleted. `spared` are candidates that a newer commit needs."""

    deleted: FileTotals = NO_FILES
    missing: int = 0
    spared: int = 0
    failed: DeletionFailures = field(default_factory=DeletionFailures)

    def as_json(self) -> dict[str, Json]:
        """Return the outcome as in the document `deltacli.vacuum`."""
        return {
            "deleted": self.deleted.as_json()
            | {"missing": self.missing, "spared": self.spared, "failed": self.failed.count}
        }


@short_repr("plan", "outcome")
class SchemaVacuumResult(NamedTuple):
    """A plan and its outcome; None where it was not executed."""

    plan: SchemaVacuumPlan
    outcome: SchemaVacuumOutcome | None

    def describe_progress(self) -> str:
        done = 0 if self.outcome is None else self.outcome.deleted.files
        return f"{done:,} of {plural(self.plan.amount.files, 'schema file')} deleted"

    def build_incomplete_error(self) -> DeltacliError | None:
        if self.outcome is None:
            return None
        has_deleted = bool(self.outcome.deleted.files)
        return self.outcome.failed.build_error(
            f"{plural(self.outcome.failed.count, 'schema file')} could not be deleted",
            code="vacuum.partly-done",
            has_deleted=has_deleted,
        )


@dataclass(frozen=True)
class SchemaVacuum:
    """A vacuum of schema files, to be planned and executed."""

    kind: ClassVar[ChangeKind] = ChangeKind.DELETE_FILES

    request: SchemaVacuumRequest

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> SchemaVacuumPlan:  # noqa: ARG002  (of Delta)
        return plan_schema_vacuum(table, self.request)

    def outcome(self, plan: SchemaVacuumPlan) -> SchemaVacuumResult:
        return SchemaVacuumResult(plan, SchemaVacuumOutcome())

    def execute(self, execution: ChangeExecution[SchemaVacuumPlan, SchemaVacuumResult]) -> None:
        """Delete the candidates that are still unneeded. Raises Refused, and what `execute_schema_vacuum` raises."""
        execution.recheck_clock()
        execution.recheck_table()
        outcome = execution.outcome.outcome
        assert outcome is not None  # it begins with an empty one
        try:
            execute_schema_vacuum(execution.table, execution.plan, outcome)
        finally:
            execution.has_begun = bool(outcome.deleted.files)


def plan_schema_vacuum(
    table: TableHandle, request: SchemaVacuumRequest, *, now_ms: int | None = None
) -> SchemaVacuumPlan:
    """Return which schema files of a branch can be deleted, and what forbids it; `now_ms`: of an earlier plan.

    Raises NotATable, UsageError where manifests are Avro and fastavro is missing, and StorageFailed.
    """
    storage, engine, progress = table.storage, table.engine, table.progress
    now_ms = table.clock() if now_ms is None else now_ms
    table_files.require_paimon(storage)
    table_files.require_branch(storage, request.branch)
    cutoff_ms = now_ms - request.retention_ms
    # What is listed first can only gain users while the rest is read: a schema written later is not in this listing.
    stats = _list_schema_files(storage, request.branch)
    schemas = table_files.read_schemas(
        storage, engine, [schema_id for schema_id, _ in stats], request.branch, progress=progress
    )
    branches = table_files.list_branches(storage)
    users = table_files.find_schema_users(storage, engine, branches, cutoff_ms=cutoff_ms, progress=progress)
    files = tuple(_judge(stats, schemas, users, request, cutoff_ms))
    refusals = (*_refusals(request, users), *_iceberg_refusals(schemas, has_metadata=_has_iceberg_metadata(storage)))
    return SchemaVacuumPlan(BaseVersion(table, files[-1].id, now_ms), request, now_ms, files, refusals)


def _list_schema_files(storage: ReadStorage, branch: str) -> list[tuple[int, FileStat]]:
    directory = f"{branch_root(branch)}{SCHEMA_DIRECTORY}"
    try:
        stats = list(storage.list_from(directory, SCHEMA_PREFIX))
    except FileMissing:
        stats = []
    found = ((number_of(stat.name, SCHEMA_PREFIX), stat) for stat in stats)
    files = sorted((number, stat) for number, stat in found if number is not None)
    if not files:
        raise Unreadable(
            "the branch has no schema file",
            code="paimon.schema-missing",
            facts={"directory": directory},
            hint=command("validate"),
        )
    return files


def _judge(
    stats: Sequence[tuple[int, FileStat]],
    schemas: Mapping[int, Schema | Unreadable],
    users: table_files.SchemaUsers,
    request: SchemaVacuumRequest,
    cutoff_ms: int,
) -> Iterator[SchemaFile]:
    """Yield every schema file with its verdict, by id."""
    times = [max(stat.modified_ms, _time_in(schemas[schema_id])) for schema_id, stat in stats]
    first_of_last = len(stats) - max(request.keep_last, 1)
    for place, (schema_id, stat) in enumerate(stats):
        replaced_ms = times[place + 1] if place + 1 < len(times) else None
        named = tuple(users.named.get(schema_id, ()))
        if replaced_ms is None:
            verdict = Verdict.NEWEST
        elif named:
            verdict = Verdict.USED
        elif isinstance(schemas[schema_id], Unreadable):
            verdict = Verdict.UNREADABLE
        elif place == 0:
            verdict = Verdict.OLDEST
        elif place >= first_of_last:
            verdict = Verdict.LAST
        else:
            verdict = Verdict.YOUNG if max(times[place], replaced_ms) > cutoff_ms else Verdict.UNREFERENCED
        path = schema_path(schema_id, request.branch)
        yield SchemaFile(schema_id, path, stat.size_bytes, stat.modified_ms, replaced_ms, verdict, named)


def _time_in(content: Schema | Unreadable) -> int:
    return 0 if isinstance(content, Unreadable) else content.time_ms


def _refusals(request: SchemaVacuumRequest, users: table_files.SchemaUsers) -> Iterator[Refusal]:
    """Yield what forbids any deletion: a short retention, users that cannot be known, a damaged table."""
    own = format_duration(DEFAULT_RETENTION_MS)
    allowed = (request.allow_retention_below_ms or 0) >= DEFAULT_RETENTION_MS
    if request.retention_ms < DEFAULT_RETENTION_MS and not allowed:
        yield Refusal(
            "vacuum.retention",
            f"{format_duration(request.retention_ms)} is less than {own}: a writer that opened the table before a "
            "change of the schema could still commit files of the older one",
            override=parameter("vacuum.allow_retention_below_ms", duration_argument(DEFAULT_RETENTION_MS)),
        )
    if users.broken:
        shown = "; ".join(f"{file.path}: {file.reason}" for file in users.broken[:_NAMED_FAULTS])
        more = len(users.broken) - _NAMED_FAULTS
        yield Refusal(
            "paimon.users-unknown",
            f"{plural(len(users.broken), 'file')} that may need a schema cannot be read: {shown}"
            + (f"; and {more} more" if more > 0 else ""),
            hint=command("validate"),
        )
    for missing in users.missing:
        of = "" if missing.branch == MAIN_BRANCH else f" of branch {missing.branch}"
        many = len(missing.numbers) > 1
        verb = f"{'are' if many else 'is'} {'in use but missing' if missing.what == 'schema' else 'missing'}"
        yield Refusal(
            "paimon.table-damaged",
            f"{missing.what}{'s' if many else ''} {format_ranges(missing.numbers)}{of} {verb}",
            hint=command("validate"),
        )


def _has_iceberg_metadata(storage: ReadStorage) -> bool:
    """Return True if the table has metadata of Iceberg beside its own, also if the option is only set by a writer."""
    try:
        return any(stat.name.endswith(_ICEBERG_SUFFIX) for stat in storage.list_from(_ICEBERG_DIRECTORY))
    except FileMissing:
        return False


def _iceberg_refusals(schemas: Mapping[int, Schema | Unreadable], *, has_metadata: bool) -> Iterator[Refusal]:
    """Yield a refusal where Paimon also writes Iceberg metadata: new metadata lists every schema from 0 on."""
    newest = schemas[max(schemas)]
    if isinstance(newest, Unreadable):
        yield Refusal(
            "paimon.users-unknown", f"the newest schema cannot be read: {newest.message}", hint=command("validate")
        )
        return
    value = newest.options.get(_ICEBERG, "disabled")
    if has_metadata or value.strip().lower() != "disabled":
        found = f"{_ICEBERG_DIRECTORY}/ has Iceberg metadata" if has_metadata else f"{_ICEBERG} is {value}"
        yield Refusal(
            "paimon.iceberg",
            f"{found}: when Paimon rewrites Iceberg metadata, it reads every schema from 0 on, and "
            "its commits fail where one is missing",
        )


def execute_schema_vacuum(
    table: TableHandle, plan: SchemaVacuumPlan, outcome: SchemaVacuumOutcome | None = None
) -> SchemaVacuumOutcome:
    """Delete the candidates of a plan that are still unneeded, which is checked again. `outcome` is updated meanwhile.

    Raises Refused where the plan or the check has refusals, or the schemas are others, and StorageFailed.
    """
    found = SchemaVacuumOutcome() if outcome is None else outcome
    again = plan_schema_vacuum(table, plan.request, now_ms=plan.now_ms)
    for one in (plan, again):
        if (refusal := one.build_refusal()) is not None:
            raise refusal
    _require_same(plan, again)
    candidates = plan.candidates
    unneeded = {file.path: file for file in again.candidates}
    present = {file.path for file in again.files}
    paths = [file.path for file in candidates if file.path in unneeded]
    found.missing += sum(file.path not in present for file in candidates)
    found.spared += sum(file.path in present and file.path not in unneeded for file in candidates)
    with table.progress.step("deleting", unit="files", total=len(paths)) as step:
        for path, answer in table.writable().delete_many(paths):
            _count(found, unneeded[path], answer)
            step.advance(1)
    return found


def _require_same(plan: SchemaVacuumPlan, again: SchemaVacuumPlan) -> None:
    """Raise Refused where a schema file that a plan keeps or deletes was replaced since, or the newest one is gone."""
    found = {file.id: (file.size_bytes, file.modified_ms) for file in again.files}
    newest = plan.files[-1].id
    for file in plan.files:
        is_other = found.get(file.id, (file.size_bytes, file.modified_ms)) != (file.size_bytes, file.modified_ms)
        if is_other or (file.id == newest and file.id not in found):
            raise Refused(
                f"schema {file.id} was replaced after this was planned",
                preamble=NOTHING_CHANGED,
                code=BASE_COMMIT_REPLACED,
                facts={"file": file.path},
                hint=command("history", limit=10),
            )


def _count(found: SchemaVacuumOutcome, file: SchemaFile, answer: Deleted | Missing | Failed) -> None:
    match answer:
        case Deleted():
            found.deleted += FileTotals(1, file.size_bytes)
        case Missing():
            found.missing += 1
        case Failed():
            found.failed.add(file.path, answer)
