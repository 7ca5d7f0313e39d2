"""Saved plans of a vacuum, Parquet files with a digest, and the record of the progress beside each.

The rows are the candidates; the other fields are one JSON text in the file's metadata, with the digest of both.

`begin` names the plan and its table, `resume` begins another run, `done` records that every row before `upTo` was
decided, with the counts so far and the rows that failed since the last line, and `end` that the run has ended. A line
truncated by a crash is ignored: its batch is repeated, which is harmless.

Rows that failed are not decided: the next run retries them before it continues.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shlex
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.parquet import ParquetReader
from deltacli.changing.file_totals import FileTotals
from deltacli.core.documents import dumps, envelope
from deltacli.core.errors import PermissionRefused, Refusal, Refused, Unreadable, UsageError, command
from deltacli.core.memory import raise_if_out_of_memory
from deltacli.core.ranges import find_gaps, find_ranges
from deltacli.core.times import format_timestamp
from deltacli.core.typing import Json, JsonObject
from deltacli.core.units import plural
from deltacli.delta.encoding.digests import sha256_rows
from deltacli.operations.vacuum.plan import (
    Kept,
    Mode,
    ProtectedTable,
    Reason,
    TimeTravelRange,
    VacuumOutcome,
    VacuumPlan,
)
from deltacli.storage.output_file import open_replacement, unwritable_error

if TYPE_CHECKING:
    import pyarrow

    from deltacli.operations.streams.protection import GuardedStreams

# -- saved plans of a vacuum -------------------------------------------------------------------------------------------

METADATA_KEY = b"deltacli.vacuum"
_DIGEST = "sha256"
_ROWS_PER_GROUP = 100_000
_NEVER_OURS = rb"^$|\x00|(?:^|/)(?:\.\.|_delta_log)(?:/|$)"
"""Paths that a plan must not contain: files of a log, and files outside the table."""


class _Column(NamedTuple):
    """A column of the file, and of the plan's candidates."""

    name: str
    candidates: str
    is_known: bool = True
    """False if rows may have no value."""


_COLUMNS = (
    _Column("path", "path"),
    _Column("size", "sizeBytes", is_known=False),
    _Column("modificationTime", "modificationTimeMs", is_known=False),
    _Column("reason", "reason"),
    _Column("removedAtVersion", "removedAtVersion", is_known=False),
    _Column("partition", "partition", is_known=False),
)


def save_plan(plan: VacuumPlan, path: str) -> None:
    """Write a plan to a local file atomically, replacing an existing one. Raises StorageFailed."""
    import pyarrow.parquet as pq

    _require_regular(path)
    schema = file_schema()
    columns = [
        pc.cast(plan.candidates.column(column.candidates), field.type)
        for column, field in zip(_COLUMNS, schema, strict=True)
    ]
    rows = pa.Table.from_arrays(columns, schema=schema)
    header = header_of(plan)
    text = _to_text({**header, _DIGEST: _digest(header, rows)})
    with (
        open_replacement(path) as sink,
        pq.ParquetWriter(
            sink,
            rows.schema,
            compression="zstd",
            use_dictionary=["reason", "partition"],
            write_page_checksum=True,
            store_schema=False,
        ) as writer,
    ):
        writer.write_table(rows, _ROWS_PER_GROUP)
        writer.add_key_value_metadata({METADATA_KEY: text})


def read_plan(path: str) -> VacuumPlan:
    """Read a plan as it was saved. Raises UsageError for no file, Unreadable for one that was changed."""
    _require_readable(path)
    try:
        header, rows = _read(path)
        digest = header.pop(_DIGEST, None)
        if header.get("formatVersion") not in FORMAT_VERSIONS:
            known = ", ".join(map(str, FORMAT_VERSIONS))
            raise ValueError(f"its format is {header.get('formatVersion')}; this deltacli reads {known}")
        if digest != _digest(header, rows):
            raise ValueError("it was changed: its digest does not match")
        _require_sane(rows, header)
        columns = {column.candidates: rows.column(column.name) for column in _COLUMNS}
        columns["modificationTimeMs"] = pc.cast(columns["modificationTimeMs"], pa.int64())
        return parse_plan(header, pa.table(columns))
    # Decoders raise various errors for damaged bytes; none of them is a bug.
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, MemoryError, RecursionError) as fault:
        raise_if_out_of_memory(fault)
        reason = " ".join(str(fault).split())[:300]
        raise _unreadable(path, reason or type(fault).__name__) from fault


def file_schema() -> pyarrow.Schema:
    """The columns of the file."""
    kinds = (pa.binary(), pa.int64(), pa.timestamp("ms", "UTC"), pa.string(), pa.int64(), pa.string())
    return pa.schema(
        [
            pa.field(column.name, kind, nullable=not column.is_known)
            for column, kind in zip(_COLUMNS, kinds, strict=True)
        ]
    )


def _read(path: str) -> tuple[dict[str, Any], pyarrow.Table]:
    """Return the header and the rows. Raises what decoders raise."""
    with open(path, "rb") as source:
        file = ParquetReader(source, verify_pages=True)
        text = (file.metadata.metadata or {}).get(METADATA_KEY)
        if text is None:
            raise ValueError("it is not a plan: its metadata has no plan header")
        header = json.loads(text)
        if not isinstance(header, dict):
            raise ValueError("its metadata is not a JSON object")
        rows = file.read_all()
    if not rows.schema.equals(file_schema()):
        raise ValueError(f"its columns are {', '.join(f'{field.name} {field.type}' for field in rows.schema)}")
    return header, rows


def _digest(header: dict[str, Any], rows: pyarrow.Table) -> str:
    return sha256_rows(rows, _to_text(header))


def _to_text(header: dict[str, Any]) -> bytes:
    """Return canonical JSON. The standard library writes the lone surrogates of names that are not UTF-8."""
    return json.dumps(header, sort_keys=True, separators=(",", ":")).encode("ascii")


def _require_sane(rows: pyarrow.Table, header: dict[str, Any]) -> None:
    """Raise ValueError for rows that a vacuum never plans, even if the digest matches."""
    for column in _COLUMNS:
        if column.is_known and rows.column(column.name).null_count:
            raise ValueError(f"{column.name} is null in some rows")
    directories = pa.array([os.fsencode(name) for name in header["directories"]], pa.binary())
    for names in (rows.column("path"), directories):
        wrong = pc.filter(names, pc.match_substring_regex(names, _NEVER_OURS))
        if len(wrong):
            raise ValueError(f"{os.fsdecode(wrong[0].as_py())!r} is not a file that a vacuum deletes")
    reasons = set(pc.unique(rows.column("reason")).to_pylist()) - set(Reason)
    if reasons:
        raise ValueError(f"it has rows with unknown reasons: {', '.join(sorted(reasons))}")


def _require_regular(path: str) -> None:
    """Raise StorageFailed where the name is not that of a regular file, which writing would replace."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    except (OSError, ValueError) as fault:
        raise unwritable_error(path, fault if isinstance(fault, OSError) else OSError(str(fault))) from fault
    if not stat.S_ISREG(mode):
        raise unwritable_error(path, OSError("it is not a regular file"))


def _require_readable(path: str) -> None:
    try:
        mode = os.stat(path).st_mode
    except PermissionError as fault:
        raise PermissionRefused(f"{path} cannot be read: {(fault.strerror or str(fault)).lower()}") from fault
    except (OSError, ValueError) as fault:
        raise UsageError(
            f"plan {path} not found",
            code="usage.plan",
            facts={"reason": (getattr(fault, "strerror", None) or str(fault)).lower()},
            hint=command("vacuum", save_plan="plan.parquet"),
        ) from fault
    if not stat.S_ISREG(mode):
        raise _unreadable(path, "it is not a regular file")
    if not os.access(path, os.R_OK):
        raise PermissionRefused(f"{path} cannot be read: permission denied")


def _unreadable(path: str, reason: str) -> Unreadable:
    return Unreadable(
        "the plan cannot be read",
        code="vacuum.plan-unreadable",
        facts={"file": path, "reason": reason},
        hint=command("vacuum", save_plan="plan.parquet"),
    )


def _report_of(plan: VacuumPlan, outcome: VacuumOutcome, *, now_ms: int) -> dict[str, Any]:
    """Return the document `deltacli.vacuum`. It is complete where every file of the plan is deleted or needed again."""
    decided = outcome.deleted.files + outcome.missing + outcome.spared
    return {
        **envelope("deltacli.vacuum", plan.table, complete=decided >= plan.files and not outcome.failed.count),
        **plan.as_json(),
        **outcome.as_json(),
        "dryRun": False,
        "timestampMs": now_ms,
        "timestamp": format_timestamp(now_ms),
    }


def write_report(plan: VacuumPlan, outcome: VacuumOutcome | None, plan_path: str, *, now_ms: int) -> str:
    """Write the report next to the plan's file, replacing an older one, and return its path. Raises StorageFailed."""
    path = f"{plan_path}.report.json"
    with open_replacement(path) as sink:
        sink.write(dumps(_report_of(plan, outcome or VacuumOutcome(), now_ms=now_ms), indent=True) + b"\n")
    return path


FORMAT_VERSIONS = (1, 2, 3)
"""Of plans without a quarantine, with one, and of those that protect streams: who knows only the first would delete
without copies, and who does not know the last without looking at the streams again.
"""

Kind = TypeVar("Kind")


def header_of(plan: VacuumPlan) -> dict[str, Any]:
    """Return the header of a plan's file, without the digest."""
    return {
        "formatVersion": FORMAT_VERSIONS[2 if plan.streams is not None else plan.quarantine is not None],
        "planId": plan.plan_id,
        "files": plan.files,
        "sizeBytes": plan.size_bytes,
        "table": plan.table,
        "tableId": plan.table_id,
        "mode": plan.mode.value,
        "snapshotVersion": plan.snapshot_version,
        "snapshotSha256": plan.snapshot_sha256,
        "nowMs": plan.now_ms,
        "retentionMs": plan.retention_ms,
        "ownRetentionMs": plan.own_retention_ms,
        "cutoffMs": plan.cutoff_ms,
        "allowsBelow": plan.allows_below,
        "kept": _kept_as_json(plan.kept),
        "refusals": [[one.code, one.message, one.override, one.hint] for one in plan.refusals],
        "notes": list(plan.notes),
        "directories": list(plan.directories),
        "reach": {
            "firstVersion": plan.reach.first_version,
            "firstMs": plan.reach.first_ms,
            "oldestBefore": plan.reach.oldest_before,
            "lostFeed": None if plan.reach.lost_feed is None else list(plan.reach.lost_feed),
            "lostVersions": [list(pair) for pair in plan.reach.lost],
        },
        "selection": plan.selection,
        "horizon": plan.horizon,
        "byInventory": plan.by_inventory,
        **({} if plan.quarantine is None else {"quarantine": plan.quarantine}),
        "protected": [list(one) for one in plan.protected],
        **({} if plan.streams is None else {"streams": plan.streams.as_json()}),
    }


def parse_plan(header: Mapping[str, Any], candidates: pyarrow.Table) -> VacuumPlan:
    """Return the plan of a header and its candidates. Raises ValueError and LookupError for an invalid header."""
    plan = VacuumPlan(
        table=_get(header, "table", str),
        table_id=_get(header, "tableId", str),
        mode=Mode(_get(header, "mode", str)),
        snapshot_version=_get(header, "snapshotVersion", int),
        snapshot_sha256=_find(header, "snapshotSha256", str),
        now_ms=_get(header, "nowMs", int),
        retention_ms=_get(header, "retentionMs", int),
        own_retention_ms=_get(header, "ownRetentionMs", int),
        cutoff_ms=_get(header, "cutoffMs", int),
        candidates=candidates,
        kept=_read_kept(_get(header, "kept", dict)),
        refusals=tuple(map(_read_refusal, _get(header, "refusals", list))),
        notes=_texts(header, "notes"),
        directories=_texts(header, "directories"),
        reach=_read_reach(_get(header, "reach", dict)),
        selection=_find(header, "selection", str),
        horizon=_find(header, "horizon", int),
        allows_below=_get(header, "allowsBelow", bool),
        quarantine=_find({"quarantine": None, **header}, "quarantine", str),
        by_inventory=_get({"byInventory": False, **header}, "byInventory", bool),
        protected=tuple(map(_read_protected, _get({"protected": [], **header}, "protected", list))),
        streams=_read_streams(header),
    )
    if plan.plan_id != header["planId"]:
        raise ValueError(f"its id is {header['planId']}, but that of its rows is {plan.plan_id}")
    return plan


def _kept_as_json(kept: Kept) -> dict[str, Any]:
    return {
        "live": [kept.live.files, kept.live.size_bytes],
        "retained": kept.retained,
        "young": kept.young,
        "foreign": [kept.foreign.files, kept.foreign.size_bytes],
        "hidden": kept.hidden,
        "links": kept.links,
        "unproven": kept.unproven,
        "outsideSelection": kept.outside_selection,
        "nestedTables": list(kept.nested_tables),
        "foreignExamples": list(kept.foreign_examples),
        **({} if kept.stream is None else {"stream": kept.stream}),
    }


def _read_kept(kept: Mapping[str, Any]) -> Kept:
    return Kept(
        live=_amount(kept, "live"),
        retained=_get(kept, "retained", int),
        young=_get(kept, "young", int),
        foreign=_amount(kept, "foreign"),
        hidden=_get(kept, "hidden", int),
        links=_get(kept, "links", int),
        unproven=_get(kept, "unproven", int),
        outside_selection=_get(kept, "outsideSelection", int),
        nested_tables=_texts(kept, "nestedTables"),
        foreign_examples=_texts(kept, "foreignExamples"),
        stream=_find({"stream": None, **kept}, "stream", int),
    )


def _read_refusal(value: Json) -> Refusal:
    code, message, *rest = value
    _require(all(isinstance(text, str) for text in (code, message)), "refusals")
    _require(all(text is None or isinstance(text, str) for text in rest), "refusals")
    override, hint = (*rest, None, None)[:2]
    return Refusal(code, message, hint, override)


def _read_protected(value: Json) -> ProtectedTable:
    uri, table_id, version, *rest = value
    _require(isinstance(uri, str) and isinstance(table_id, str) and type(version) is int, "protected")
    (sha256,) = rest or (None,)
    _require(sha256 is None or isinstance(sha256, str), "protected")
    return ProtectedTable(uri, table_id, version, sha256)


def _read_streams(header: Mapping[str, Any]) -> GuardedStreams | None:
    if header["formatVersion"] != FORMAT_VERSIONS[2]:
        return None
    from deltacli.operations.streams.protection import GuardedStreams

    return GuardedStreams.of_json(_get(header, "streams", dict))


def _read_reach(reach: Mapping[str, Any]) -> TimeTravelRange:
    feed = _find(reach, "lostFeed", list)
    first, before = _find(reach, "firstVersion", int), _find(reach, "oldestBefore", int)
    lost = _find(reach, "lostVersions", list)
    if lost is None:  # a plan of an earlier release
        lost = [] if first is None or before is None else find_gaps(reach.get("keptVersions", ()), before, first - 1)
    return TimeTravelRange(
        first_version=first,
        first_ms=_find(reach, "firstMs", int),
        oldest_before=before,
        lost_feed=None if feed is None else _pair(feed, "lostFeed"),
        lost=tuple(_pair(list(pair), "lostVersions") for pair in lost),
    )


def _amount(header: Mapping[str, Any], name: str) -> FileTotals:
    return FileTotals(*_pair(_get(header, name, list), name))


def _pair(values: list[Any], name: str) -> tuple[int, int]:
    _require(len(values) == 2 and all(type(value) is int for value in values), name)
    return values[0], values[1]


def _texts(header: Mapping[str, Any], name: str) -> tuple[str, ...]:
    values = _get(header, name, list)
    _require(all(isinstance(value, str) for value in values), name)
    return tuple(values)


def _get(header: Mapping[str, Any], name: str, kind: type[Kind]) -> Kind:
    value = header[name]
    if type(value) is not kind:  # a bool is not an int here
        raise ValueError(f"{name} in its metadata is of a wrong type")
    return value


def _find(header: Mapping[str, Any], name: str, kind: type[Kind]) -> Kind | None:
    return None if header[name] is None else _get(header, name, kind)


def _require(holds: bool, name: str) -> None:
    if not holds:
        raise ValueError(f"{name} in its metadata is of a wrong type")


# -- the progress record -----------------------------------------------------------------------------------------------

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}


class ProgressRecord:
    """The record of one plan on the table at a URI, open for one run; `with` closes it. Two runs at a time are refused.

    Raises Refused (`vacuum.plan-progress`) where the file is of another, uncompleted plan, of another table such as a
    copy, or not a record; StorageFailed where it cannot be written.
    """

    def __init__(self, plan_path: str, plan: VacuumPlan, *, table: str | None = None) -> None:
        self.path = f"{plan_path}.progress"
        self._plan = plan
        self._table = plan.table if table is None else table
        self._descriptor = self._open()
        try:
            self._lock()
            self._begin(plan)
        except BaseException:  # also on a signal: otherwise the file is not closed and remains locked
            self.close()
            raise

    def _begin(self, plan: VacuumPlan) -> None:
        data = self._read()
        try:
            state, self._end = read_record(data)
            if state.plan_id == plan.plan_id:
                state.require_rows(plan.files)
        except (ValueError, LookupError, TypeError, RecursionError) as fault:
            raise self._refused("the record of the plan cannot be read", {"reason": str(fault)[:200]}) from fault
        if state.plan_id not in (None, plan.plan_id):
            if not state.is_completed:
                facts = {"begun with plan": str(state.plan_id), "this plan": plan.plan_id}
                raise self._refused("the record next to the plan is of another plan, which was not completed", facts)
            state, self._end = RecordState(), 0
        if state.table not in (None, self._table):
            facts = {"executed on": str(state.table), "this table": self._table}
            raise self._refused(
                "the record next to the plan is of another table, on which the plan was executed", facts
            )
        self._start = state
        self._outcome = state.outcome()
        self._up_to = 0
        self._has_failed = False
        if not state.is_completed:
            self._cut()
            if state.plan_id is None:
                begin = {"type": "begin", "formatVersion": 1, "planId": plan.plan_id, "files": plan.files}
                self._append({**begin, "table": self._table})
            else:
                self._append({"type": "resume", "upTo": state.resume_at})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_completed(self) -> bool:
        """Return True if earlier runs decided everything, so that nothing is left to do."""
        return self._start.is_completed

    @property
    def resume_at(self) -> int:
        """Every row before this index was tried by earlier runs."""
        return self._start.resume_at

    @property
    def retry(self) -> tuple[range, ...]:
        """Rows before `resume_at` that failed, ascending."""
        return self._start.failed_rows

    @property
    def pending(self) -> tuple[range, ...]:
        """Return the rows of the plan that this run has to decide, ascending."""
        rest = range(self.resume_at, self._plan.files)
        return (*self.retry, *([rest] if rest else []))

    @property
    def failed_before(self) -> tuple[tuple[str, str], ...]:
        """Path and reason of the first thousand rows of `retry`."""
        return self._start.failures

    @property
    def counts(self) -> VacuumOutcome:
        """The counts of earlier runs, to which the outcome of this run is added. They do not include failures, which
        this run retries.
        """
        return self._start.outcome()

    def advance(self, up_to: int, outcome: VacuumOutcome) -> None:
        """Record durably that every pending row before `up_to` was decided.

        `outcome` began as `counts` and counts everything since. Raises StorageFailed, and ValueError for a row before
        the last one.
        """
        if not self._up_to <= up_to <= self._plan.files:
            raise ValueError(f"row {up_to} does not follow row {self._up_to} of {self._plan.files}")
        failures = outcome.failed.examples[len(self._outcome.failed.examples) :]
        count = outcome.failed.count - self._outcome.failed.count
        failed = self._failed_rows(up_to, [path for path, _ in failures], count)
        self._append({"type": "done", "upTo": up_to, **counts_as_json(outcome), "failed": failed, "failures": failures})
        self._up_to = up_to
        self._has_failed = self._has_failed or bool(failed)
        ours = replace(outcome.failed, examples=list(outcome.failed.examples))
        self._outcome = replace(outcome, failed=ours)  # the caller continues to count in its own object

    def finish(self, outcome: VacuumOutcome, *, completed: bool) -> None:
        """Record the end of the run; it is complete only where no row is left to decide."""
        last = self.pending[-1].stop if self.pending else 0
        is_whole = completed and self._up_to >= last and not self._has_failed
        status = "COMPLETED" if is_whole else "FAILED"
        self._append({"type": "end", "status": status, **counts_as_json(outcome)})

    def _failed_rows(self, up_to: int, paths: Sequence[str], count: int) -> list[tuple[int, int]]:
        """Return the rows that failed since the last line; all tried rows if more failed than were named."""
        if count == 0:
            return []
        tried = [
            range(max(rows.start, self._up_to), min(rows.stop, up_to))
            for rows in self.pending
            if rows.start < up_to and rows.stop > self._up_to
        ]
        if len(paths) == count:
            wanted = {os.fsencode(path) for path in paths}
            failed = [
                row for rows in tried for row, path in zip(rows, self._paths(rows), strict=True) if path in wanted
            ]
            if len(failed) == count:
                return find_ranges(failed)
        return [(rows.start, rows.stop - 1) for rows in tried]

    def _paths(self, rows: range) -> list[bytes]:
        paths: list[bytes] = self._plan.candidates.column("path").slice(rows.start, len(rows)).to_pylist()
        return paths

    def close(self) -> None:
        """Release the lock."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> int:
        try:
            return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        except OSError as fault:
            raise unwritable_error(self.path, fault) from fault
        except ValueError as fault:
            raise UsageError(f"{self.path!r} is not a file name", code="usage.plan") from fault

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as fault:
            raise Refused(
                "another run is executing this plan",
                code="vacuum.plan-progress",
                facts={"record": self.path},
                hint="wait for it to end",
            ) from fault
        except OSError as fault:
            if fault.errno not in _NO_LOCKS:  # without locks two runs only make the counts wrong
                raise unwritable_error(self.path, fault) from fault

    def _read(self) -> bytes:
        try:
            with open(os.dup(self._descriptor), "rb") as file:
                file.seek(0)
                return file.read()
        except OSError as fault:
            raise unwritable_error(self.path, fault) from fault

    def _cut(self) -> None:
        """Drop a torn line, and the lines of another plan."""
        try:
            os.ftruncate(self._descriptor, self._end)
        except OSError as fault:
            raise unwritable_error(self.path, fault) from fault

    def _append(self, line: dict[str, Any]) -> None:
        # Names that are not UTF-8 contain lone surrogates, which only the standard library writes.
        data = json.dumps(line, separators=(",", ":")).encode("ascii") + b"\n"
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
            os.fsync(self._descriptor)
        except OSError as fault:
            with suppress(OSError):  # a partial line would be joined with the next one
                os.ftruncate(self._descriptor, self._end)
            raise unwritable_error(self.path, fault) from fault
        self._end += len(data)

    def _refused(self, message: str, facts: dict[str, str]) -> Refused:
        return Refused(
            message,
            code="vacuum.plan-progress",
            facts={"record": self.path, **facts, "next": "delete the record to start with the first file"},
            hint=f"rm {shlex.quote(self.path)}",
        )


def describe(record: ProgressRecord) -> str:
    """Return a description of where a run begins."""
    if record.is_completed:
        return "this plan was already executed; there is nothing to do"
    again = sum(map(len, record.retry))
    text = f"resuming after {plural(record.resume_at, 'file')}"
    return f"{text}, retrying {plural(again, 'failed file')}" if again else text


FORMAT_VERSION = 1
KEPT_FAILURES = 1000
_BEGINNING = b'{"type":"begin"'
_COUNTS = ("deleted", "deletedBytes", "missing", "spared", "directoriesRemoved")


@dataclass(slots=True)
class RecordState:
    """Where the next run begins; `compute_plan_id` is None for an empty record, `table` also for an old one."""

    plan_id: str | None = None
    table: str | None = None
    files: int = 0
    resume_at: int = 0
    counts: Mapping[str, int | None] | None = None
    is_completed: bool = False
    failed_now: tuple[range, ...] = ()
    """Rows that failed in the last run, ascending."""
    failed_earlier: tuple[range, ...] = ()
    """Rows that failed before it and that it did not retry; all after those of `failed_now`, if there are any."""
    failures_now: tuple[tuple[str, str], ...] = ()
    """Path and reason of the first thousand of `failed_now`."""
    failures_earlier: tuple[tuple[str, str], ...] = ()
    """The same for rows that failed before the last run, until that has retried all of them."""

    @property
    def failures(self) -> tuple[tuple[str, str], ...]:
        """Return path and reason of the failed rows, up to a thousand."""
        return (*self.failures_now, *self.failures_earlier)[:KEPT_FAILURES]

    @property
    def failed_rows(self) -> tuple[range, ...]:
        """Return every row that failed and was not retried, ascending."""
        return tuple(sorted((*self.failed_now, *self.failed_earlier), key=lambda rows: rows.start))

    def outcome(self) -> VacuumOutcome:
        """Return the counts of decided rows, without failures, for the next run."""
        totals = self.counts or {}
        counts = {name: totals.get(name) or 0 for name in _COUNTS}
        end_version = totals.get("endVersion") if self.is_completed else None
        return VacuumOutcome(
            deleted=FileTotals(counts["deleted"], counts["deletedBytes"]),
            missing=counts["missing"],
            spared=counts["spared"],
            directories_removed=counts["directoriesRemoved"],
            start_version=totals.get("startVersion"),
            end_version=end_version,
            end_status=None if end_version is None else "COMPLETED",
            resumed_after=self.resume_at - sum(map(len, self.failed_rows)),
        )

    def require_rows(self, files: int) -> None:
        """Raise ValueError where it refers to rows that the plan does not have."""
        if self.files != files or self.resume_at > files:
            raise ValueError(f"it is of {self.files} files, but the plan has {files}")

    def take(self, line: JsonObject) -> None:
        """Add a line. Raises ValueError, LookupError or TypeError for an invalid one."""
        kind = line["type"]
        if (kind == "begin") != (self.plan_id is None):
            raise ValueError(f"an unexpected line {kind!r}")
        match kind:
            case "begin":
                self._begin(line)
            case "resume":
                self.failures_earlier, self.failures_now = self.failures, ()
                self.failed_earlier, self.failed_now = self.failed_rows, ()
                self.is_completed = False
            case "done":
                self._advance(line)
            case "end":
                self.counts = _read_counts(line)
                self.is_completed = line["status"] == "COMPLETED"
            case _:
                raise ValueError(f"a line of unknown type {str(kind)[:40]!r}")

    def _begin(self, line: Mapping[str, Any]) -> None:
        if line["formatVersion"] != FORMAT_VERSION:
            raise ValueError(f"its format is {line['formatVersion']}; this deltacli reads {FORMAT_VERSION}")
        if not isinstance(line["planId"], str):
            raise TypeError("its plan id is not a string")
        if not isinstance(line.get("table"), str | None):
            raise TypeError("its table is not a string")
        self.plan_id, self.table, self.files = line["planId"], line.get("table"), _count(line["files"])

    def _advance(self, line: Mapping[str, Any]) -> None:
        up_to = _count(line["upTo"])
        counts = _read_counts(line)
        failed = tuple(range(_count(first), _count(last) + 1) for first, last in line["failed"])
        if any(not rows or rows.stop > up_to for rows in failed):
            raise ValueError("failed rows that were not tried")
        failures = tuple((str(path), str(reason)) for path, reason in line["failures"])
        left = (range(max(rows.start, up_to), rows.stop) for rows in self.failed_earlier)
        self.failed_earlier = tuple(rows for rows in left if rows)
        self.failed_now += failed
        self.failures_now += failures
        if not self.failed_earlier:
            self.failures_earlier = ()
        self.resume_at = max(self.resume_at, up_to)
        self.counts = counts


def counts_as_json(outcome: VacuumOutcome) -> dict[str, int | None]:
    """Return the counts of a line: everything decided by all runs, and the failures of this one."""
    return {
        "deleted": outcome.deleted.files,
        "deletedBytes": outcome.deleted.size_bytes,
        "missing": outcome.missing,
        "spared": outcome.spared,
        "failedFiles": outcome.failed.count,
        "directoriesRemoved": outcome.directories_removed,
        "startVersion": outcome.start_version,
        "endVersion": outcome.end_version,
    }


def read_record(data: bytes) -> tuple[RecordState, int]:
    """Return the content of a record, and the number of its bytes in complete lines.

    A truncated last line, or one whose bytes were not written, is ignored. Raises ValueError, LookupError or TypeError
    for any other invalid content.
    """
    state, end = RecordState(), 0
    *lines, torn = data.split(b"\n")
    for number, text in enumerate(lines, 1):
        try:
            line = json.loads(text)
        except ValueError as fault:
            if number == len(lines) and not torn.strip(b"\0"):
                break
            raise ValueError(f"line {number} is not JSON") from fault
        state.take(line)
        end += len(text) + 1
    beginning = data.rstrip(b"\0")[: len(_BEGINNING)]
    if state.plan_id is None and beginning != _BEGINNING[: len(beginning)]:
        raise ValueError(
            "its first line is not that of a record"
        )  # a file that is not a record must not be overwritten
    return state, end


def _read_counts(line: Mapping[str, Any]) -> dict[str, int | None]:
    versions = {name: line[name] for name in ("startVersion", "endVersion")}
    return {name: _count(line[name]) for name in _COUNTS} | {
        name: None if value is None else _count(value) for name, value in versions.items()
    }


def _count(value: Json) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{str(value)[:40]!r} is not a count")
    return value
