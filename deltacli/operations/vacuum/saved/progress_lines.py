"""Evaluation of the lines of a progress record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deltacli.operations.vacuum.plan import Amount, VacuumOutcome
from deltacli.typing import Json, JsonObject

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
        "failedFiles": outcome.failures,
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
