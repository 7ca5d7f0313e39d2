"""Appending rows: what may be appended to a table, as one value for all tasks, and the commit of their files.

Spec: Delta Log Entries; Transaction Identifiers; Column Mapping; Row Tracking; Default Columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import pyarrow as pa

from deltacli.changing.base_version import BaseVersion, build_base_version, identify_commit
from deltacli.changing.change_kind import ChangeKind
from deltacli.changing.commit import Committed
from deltacli.changing.commit_options import CommitOptions
from deltacli.changing.new_files import NewFiles
from deltacli.changing.outcome import SingleCommitChange
from deltacli.changing.preflight import find_row_id_errors
from deltacli.changing.rechecks import require_same_log, require_valid_clock
from deltacli.changing.request_checks import require_committable_change
from deltacli.core.errors import ConflictLost, DeltacliError, OutcomeUnknown, Refusal, Refused, command
from deltacli.core.typing import ArrowScalar, ArrowType, RecordBatch
from deltacli.delta.clustering.clustering_columns import clustering_paths
from deltacli.delta.log.commit_content import CommitRequest, encoded_files
from deltacli.delta.log.file_actions import action_schemas, build_action_batch
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.paths.spelling import decode
from deltacli.delta.schema import to_arrow
from deltacli.delta.schema.types import PrimitiveType, StructField, holds
from deltacli.delta.sql.parser import Form, parse_expression
from deltacli.delta.sql.stored import DEFAULT_KEY, GENERATION_KEY
from deltacli.operations.optimize.request import target_of
from deltacli.table.constraints import ConstraintCheck, find_constraints
from deltacli.table.find_log import list_log
from deltacli.table.rebuild import read_snapshot
from deltacli.work.rewrite.appending import AppendedFile, AppendSpec, SourceColumn
from deltacli.work.rewrite.pieces import RewriteSpec

if TYPE_CHECKING:
    from deltacli.changing.execution import ChangeExecution
    from deltacli.delta.log.segment import LogFile
    from deltacli.storage.directory_identity import DirectoryIdentity
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

_IDENTITY = "delta.identity."
_CHARACTERS = "__CHAR_VARCHAR_TYPE_STRING"
_NUMBER = re.compile(r"-?\d{1,18}(\.\d{1,18})?", re.ASCII)


class Transaction(NamedTuple):
    """Which batch of which application the rows are; one that is in the table already is not appended again."""

    app_id: str
    version: int


class AppendBaseVersion(NamedTuple):
    """The version that rows were planned for, the file of its commit, the directory that it was read in, and the time
    in milliseconds. It can be pickled.
    """

    version: int
    past: LogFile | None
    place: DirectoryIdentity | None
    now_ms: int

    @classmethod
    def of(cls, base_version: BaseVersion) -> AppendBaseVersion:
        """Return what can be pickled of a base version, with the directory that its table is bound to."""
        location = base_version.table.stores.location
        return cls(
            base_version.version,
            base_version.base_commit,
            None if location is None else location.directory_identity,
            base_version.now_ms,
        )


@dataclass(frozen=True, slots=True)
class AppendPlan(SingleCommitChange):
    """How rows become files of a table, as planned or committed."""

    spec: AppendSpec
    refusals: Sequence[Refusal] = ()
    is_noop: bool = False
    """Whether the table has the transaction already."""

    @classmethod
    def sent(cls, table: TableHandle, base_version: AppendBaseVersion, spec: AppendSpec) -> AppendPlan:
        """Return a plan that was made in another process, for the table in its directory."""
        return cls(BaseVersion(table, base_version.version, base_version.now_ms, base_version.past), spec)

    def build_refusal(self) -> Refused | None:
        return Refused.from_refusals(self.refusals) if self.refusals else None

    def effects(self) -> Iterator[str]:
        yield "append rows"


@dataclass(frozen=True)
class Append:
    """New rows, whose files are written by tasks between plan and commit."""

    kind: ClassVar[ChangeKind] = ChangeKind.ADD_FILES

    rows: pa.Schema | None = None
    """What the rows look like, for the plan."""
    files: Sequence[AppendedFile] = ()
    operation: str = "WRITE"
    parameters: Mapping[str, object] = field(default_factory=dict)
    transaction: Transaction | None = None
    commit_metadata: Mapping[str, str] = field(default_factory=dict)

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> AppendPlan:
        """Plan it. Raises as `plan_append` does; errors of the row ids of the table are refusals."""
        assert self.rows is not None
        snapshot = now or read_snapshot(table)
        spec = plan_append(snapshot, self.rows)
        return AppendPlan(build_base_version(snapshot), spec, find_row_id_errors(snapshot))

    def outcome(self, plan: AppendPlan) -> AppendPlan:
        return plan

    def execute(self, execution: ChangeExecution[AppendPlan, AppendPlan]) -> None:
        """Commit the files as one version, after any appends of others; delete those that are certainly in none.

        Raises Refused (`plan.*`) where the log is not the one of the plan, ConflictLost (`append.table-changed`) where
        protocol or metadata have changed since, FileMissing for a file that is gone, and what
        `ChangeExecution.commit_plan` raises.
        """
        new, since = NewFiles(execution.table), execution.table.machine.monotonic()
        sizes = {decode(one.file.path): one.file.size_bytes for one in self.files}
        try:
            done = execution.commit_plan(
                self._request,
                update_plan=self._again,
                options=CommitOptions(recheck=lambda: new.require_present(sizes, since), metadata=self.commit_metadata),
            )
        except OutcomeUnknown:
            raise
        except DeltacliError as fault:
            new.delete(sizes)
            fault.facts |= new.left_behind_facts
            raise
        if isinstance(done, Committed):
            execution.outcome = replace(execution.plan, committed_version=done.version)
        else:
            new.delete(sizes)

    def _again(self, plan: AppendPlan, snapshot: Snapshot) -> AppendPlan:
        """Return the plan for a newer version; it is as it was, or cannot be executed."""
        if self.transaction is not None and _has(snapshot, self.transaction):
            return replace(plan, is_noop=True)
        # A log that was cleaned past the base version is accepted: a query may append for weeks.
        listing = snapshot.listing
        if listing.start_version > plan.base_version.version:  # from the hint on
            listing = list_log(snapshot.table.storage, start_version=plan.base_version.version)
        if min(listing.commits, default=-1) <= plan.base_version.version:
            require_same_log(plan.base_version, listing)
        require_valid_clock(
            snapshot.table, plan.base_version.now_ms, identify_commit(snapshot.listing, snapshot.version)
        )
        _require_unchanged(plan.spec.config, snapshot)
        return plan

    def _request(self, plan: AppendPlan) -> CommitRequest:
        def batches() -> Iterator[tuple[str, RecordBatch]]:
            if self.files:
                yield "add", adds_of(plan.spec.config, self.files)

        rows = sum(one.file.rows for one in self.files)
        own: tuple[dict[str, object], ...] = ()
        if (once := self.transaction) is not None:
            own = ({"appId": once.app_id, "version": once.version, "lastUpdated": plan.base_version.table.clock()},)
        return CommitRequest(
            self.operation,
            self.parameters,
            {
                "numFiles": len(self.files),
                "numOutputRows": rows,
                "numOutputBytes": sum(one.file.size_bytes for one in self.files),
            },
            transactions=own,
            body=lambda slot: encoded_files(batches, slot),
            new_rows=rows,
            is_blind_append=True,
        )


def plan_append(snapshot: Snapshot, rows: pa.Schema) -> AppendSpec:
    """Return how rows with a schema become files of a table.

    Columns are matched by name. One that the rows lack is null, or has its default where that is a literal. Types must
    be those of the table, or narrower numbers. Raises Refused (`append.*`) for rows that the table cannot have, or of
    which files could not be written exactly, what `require_commits_supported` raises, and Unreadable.
    """
    config = snapshot.config
    to_arrow.require_partitions(config, snapshot.version)
    require_committable_change(snapshot, CommitRequest("WRITE", new_rows=1), ChangeKind.ADD_FILES)
    _require_supported(config)
    fields = config.schema.fields if config.schema else ()
    if unread := to_arrow.find_unsupported_columns(fields):
        raise to_arrow.unsupported_columns_error(unread)
    places = _places(rows.names, fields)
    columns, wanted = list[SourceColumn](), to_arrow.build_arrow_schema(fields)
    for column, kind in zip(fields, wanted.types, strict=True):
        place = places.get(column.name)
        if place is not None and not _fits(rows.field(place).type, kind):
            raise Refused(
                f"column {column.name} is {kind} in the table, and {rows.field(place).type} in the rows",
                code="append.type",
                facts={"column": column.name},
                hint=f'frame.withColumn("{column.name}", frame["{column.name}"].cast("…"))',
            )
        value = _value_of_missing(column, kind) if place is None else None
        found = re.fullmatch(r"varchar\((\d+)\)", str(column.metadata.get(_CHARACTERS, "")), re.ASCII)
        columns.append(SourceColumn(column, place, value, int(found[1]) if found else None))
    names = [(name, column) for name, column in config.partition_columns.items() if column is not None]
    return AppendSpec(
        replace(_rewrite_spec(config), clustering=clustering_paths(config, snapshot.domains)),
        tuple(columns),
        pa.schema([field.with_nullable(True) for field in wanted]),
        tuple(names),
    )


def _rewrite_spec(config: TableConfiguration) -> RewriteSpec:
    """Return how the files are written; the rows are new, so that none has an id of its own."""
    made = RewriteSpec.make(config, target_bytes=target_of(config.properties))
    if made.row_columns is None:
        return made
    columns = to_arrow.stored_columns(config)
    own = to_arrow.build_arrow_schema(columns)
    reading = replace(made.reading, columns=columns, schema=own, full_schema=own, extra_columns={}, row_ids=None)
    return replace(made, schema=to_arrow.file_schema(config, columns), row_columns=None, reading=reading)


def _places(names: Sequence[str], fields: Sequence[StructField]) -> dict[str, int]:
    """Return the place of each column of the table among the rows. Raises Refused for other columns of these."""
    known = {field.name.lower(): field.name for field in fields}
    found: dict[str, int] = {}
    for place, name in enumerate(names):
        column = known.get(name.lower())
        if column is None:
            raise Refused(
                f"the table has no column {name}",
                code="append.unknown-column",
                facts={"columns": ", ".join(field.name for field in fields)},
                hint=command("alter", "add", name, "TYPE"),
            )
        if column in found:
            raise Refused(f"the rows have column {column} twice", code="append.unknown-column")
        found[column] = place
    return found


def _require_supported(config: TableConfiguration) -> None:
    """Raise Refused for tables whose rows need more than their values."""
    for column in config.schema.fields if config.schema else ():
        if any(name.startswith(_IDENTITY) for name in column.metadata) and not config.is_inert("identityColumns"):
            raise _refused(
                column.name, "is an identity column, whose values deltacli does not generate", "append.identity"
            )
        if _CHARACTERS in column.metadata and str(column.metadata[_CHARACTERS]).startswith("char("):
            raise _refused(column.name, f"is {column.metadata[_CHARACTERS]}, which has to be padded", "append.type")
        if holds(column.data_type, PrimitiveType("variant")):
            raise _refused(column.name, "is a variant, which deltacli does not write from rows", "append.type")


def _refused(column: str, why: str, code: str) -> Refused:
    return Refused(
        f"column {column} {why}",
        code=code,
        facts={"column": column},
        hint='frame.write.format("delta") with the jar of delta-spark',
    )


def _value_of_missing(column: StructField, kind: ArrowType) -> ArrowScalar:
    """Return the value of a missing column: its literal default, else null. Raises Refused where it needs another."""
    text = column.metadata.get(DEFAULT_KEY)
    if isinstance(text, str) and (found := _literal(text, kind)) is not None:
        return found
    text = column.metadata.get(GENERATION_KEY) if text is None else text
    if text is not None:
        raise Refused(
            f"the rows lack column {column.name}, whose value is an expression",
            code="append.missing-column",
            facts={"expression": str(text)},
            hint=f'frame.withColumn("{column.name}", expr("{text}"))',
        )
    if not column.nullable:
        raise Refused(
            f"the rows lack column {column.name}, which is NOT NULL",
            code="append.missing-column",
            facts={"column": column.name},
        )
    return None


def _literal(text: str, kind: ArrowType) -> ArrowScalar:
    """Return the value of a literal; None for any other expression, and for one that is no value of the type."""
    root = parse_expression(text).root
    bare = text.strip()
    if root is not None and root.form is Form.NULL:
        return pa.scalar(None, kind)
    if root is not None and root.form is Form.TEXT:
        plain: str | None = root.value
    else:
        plain = bare.lower() if bare.lower() in ("true", "false") else bare if _NUMBER.fullmatch(bare) else None
    if plain is None:
        return None
    try:
        return pa.scalar(plain).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _fits(found: Any, wanted: Any) -> bool:
    """Return True if every value of a type is one of another, of the same meaning."""
    types = pa.types
    if found.equals(wanted) or types.is_null(found):
        return True
    if types.is_struct(found) and types.is_struct(wanted):
        is_same = [field.name for field in found] == [field.name for field in wanted]
        return bool(is_same) and all(_fits(one.type, other.type) for one, other in zip(found, wanted, strict=True))
    if types.is_map(found) and types.is_map(wanted):
        return _fits(found.key_type, wanted.key_type) and _fits(found.item_type, wanted.item_type)
    if (types.is_list(found) or types.is_large_list(found)) and types.is_list(wanted):
        return _fits(found.value_type, wanted.value_type)
    if types.is_integer(found) and types.is_integer(wanted):
        return bool(found.bit_width <= wanted.bit_width)
    if types.is_floating(found) and types.is_floating(wanted):
        return bool(found.bit_width <= wanted.bit_width)
    if types.is_decimal(found) and types.is_decimal(wanted):
        whole = found.precision - found.scale <= wanted.precision - wanted.scale
        return bool(whole and found.scale <= wanted.scale)
    if types.is_timestamp(found) and types.is_timestamp(wanted):
        return bool((found.tz is None) == (wanted.tz is None) and found.unit == wanted.unit)
    return bool(
        (types.is_large_string(found) and types.is_string(wanted))
        or (types.is_large_binary(found) and types.is_binary(wanted))
    )


# -- the rows of files ------------------------------------------------------------------------------------------------


def require_demands(
    table: TableHandle, spec: AppendSpec, files: Sequence[AppendedFile], zone: str | None = None
) -> None:
    """Raise Refused where rows of new files break NOT NULL, a constraint, an invariant or a generated column, or where
    that cannot be judged. Statistics come first; rows are read only where these leave it open. `zone` is the time zone
    of the session; None: UTC.
    """
    demands = list(find_constraints(spec.config))
    if not demands or not files:
        return
    check = ConstraintCheck(table, spec.config, demands, zone)
    check.check_files(adds_of(spec.config, files))
    for demand, found in check.violations.items():
        if found.files or found.unchecked_files:
            broken = bool(found.files)
            facts = {"first": found.first} if found.first else {}
            if zone is not None and not isinstance(demand.owner, str):
                facts["time zone"] = zone
            raise Refused(
                f"rows break {demand}" if broken else f"it cannot be judged whether rows keep {demand}: {found.reason}",
                code="append.constraint" if broken else "append.constraint-unjudged",
                facts=facts,
            )


def adds_of(config: TableConfiguration, files: Iterable[AppendedFile]) -> RecordBatch:
    """Return new files as adds in columns."""
    compat = to_arrow.iceberg_compat(config)
    tags = {"tags": {"ICEBERG_COMPAT_VERSION": str(compat)}} if compat >= 2 else {}
    actions = [
        {
            "path": one.file.path,
            "partitionValues": dict(one.partition_values),
            "size": one.file.size_bytes,
            "modificationTime": one.file.modification_ms,
            "dataChange": True,
            "stats": one.file.stats,
            **tags,
        }
        for one in files
    ]
    return build_action_batch(actions, action_schemas().add, "")


# -- the version before -----------------------------------------------------------------------------------------------


def _has(snapshot: Snapshot, transaction: Transaction) -> bool:
    return any(one.app_id == transaction.app_id and one.version >= transaction.version for one in snapshot.transactions)


def _require_unchanged(config: TableConfiguration, snapshot: Snapshot) -> None:
    now = snapshot.config
    if (now.metadata, now.protocol) != (config.metadata, config.protocol):
        raise ConflictLost(
            "nothing was committed: another writer changed the schema or the properties of the table",
            code="append.table-changed",
            facts={"version": str(snapshot.version)},
            hint="write the frame again",
        )
