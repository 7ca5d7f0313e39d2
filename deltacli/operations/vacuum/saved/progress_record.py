"""The progress record of a saved plan: lines of JSON next to the plan, each synced before the next batch.

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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Self

from deltacli.changing.plan import Amount
from deltacli.core.errors import Refused, UsageError
from deltacli.core.typing import Json, JsonObject
from deltacli.core.units import plural, ranges_of
from deltacli.operations.vacuum.plan import VacuumOutcome, VacuumPlan
from deltacli.storage.replacement import unwritable

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}


def record_path(plan_path: str) -> str:
    """Return the path of the record of a plan's file."""
    return f"{plan_path}.progress"


class ProgressRecord:
    """The record of one plan on the table at a URI, open for one run; `with` closes it. Two runs at a time are refused.

    Raises Refused (`vacuum.plan-progress`) where the file is of another, uncompleted plan, of another table such as a
    copy, or not a record; StorageFailed where it cannot be written.
    """

    def __init__(self, plan_path: str, plan: VacuumPlan, *, table: str | None = None) -> None:
        self.path = record_path(plan_path)
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
        failures = outcome.failed.named[len(self._outcome.failed.named) :]
        count = outcome.failed.count - self._outcome.failed.count
        failed = self._failed_rows(up_to, [path for path, _ in failures], count)
        self._append({"type": "done", "upTo": up_to, **counts_as_json(outcome), "failed": failed, "failures": failures})
        self._up_to = up_to
        self._has_failed = self._has_failed or bool(failed)
        ours = replace(outcome.failed, named=list(outcome.failed.named))
        self._outcome = replace(outcome, failed=ours)  # the caller continues to count in its own object

    def finish(self, outcome: VacuumOutcome, *, completed: bool) -> None:
        """Record the end of the run; it is complete only where no row is left to decide."""
        last = self.pending[-1].stop if self.pending else 0
        is_whole = completed and self._up_to >= last and not self._has_failed
        status = "COMPLETED" if is_whole else "FAILED"
        self._append({"type": "end", "status": status, **counts_as_json(outcome)})

    def _failed_rows(self, up_to: int, paths: Sequence[str], count: int) -> list[tuple[int, int]]:
        """Return the rows that failed since the last line; all tried rows where there are more failures than were
        named.
        """
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
                return ranges_of(failed)
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
            raise unwritable(self.path, fault) from fault
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
                raise unwritable(self.path, fault) from fault

    def _read(self) -> bytes:
        try:
            with open(os.dup(self._descriptor), "rb") as file:
                file.seek(0)
                return file.read()
        except OSError as fault:
            raise unwritable(self.path, fault) from fault

    def _cut(self) -> None:
        """Drop a torn line, and the lines of another plan."""
        try:
            os.ftruncate(self._descriptor, self._end)
        except OSError as fault:
            raise unwritable(self.path, fault) from fault

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
            raise unwritable(self.path, fault) from fault
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
    """Where the next run begins; `plan_id` is None for an empty record, `table` also for an old one."""

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
            deleted=Amount(counts["deleted"], counts["deletedBytes"]),
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
