"""The trend of `validate`: one line per run, as NDJSON, so that runs can be compared and plotted.

A line has counts, not findings. Runs are compared if they checked the same tables at the same level with the same
limits.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from deltacli.changing.recorded_fields import validate_time_ms
from deltacli.core.documents import dumps
from deltacli.core.errors import UsageError
from deltacli.core.times import format_timestamp
from deltacli.core.typing import Json, JsonObject

KIND = "deltacli.validate-history"
SCHEMA_VERSION = 1


class Tally(NamedTuple):
    """The counts of one table or of all: findings that no baseline accepts, shown or not. `suppressed` are those not
    shown, `rules` are counts by rule.
    """

    errors: int
    warnings: int
    infos: int
    accepted: int
    suppressed: int
    rules: Mapping[str, int]

    @classmethod
    def sum(cls, tallies: Sequence[Tally]) -> Tally:
        """Return the counts of several tables together."""
        rules: Counter[str] = Counter()
        for tally in tallies:
            rules.update(tally.rules)
        return cls(
            sum(tally.errors for tally in tallies),
            sum(tally.warnings for tally in tallies),
            sum(tally.infos for tally in tallies),
            sum(tally.accepted for tally in tallies),
            sum(tally.suppressed for tally in tallies),
            dict(sorted(rules.items())),
        )


class TableTally(NamedTuple):
    """One table: its name in the history, and its newest version, None where there is none."""

    table: str
    version: int | None
    not_checked: int
    tally: Tally


class Entry(NamedTuple):
    """One run. `limits` are options that restrict it: runs with equal ones are comparable. `failures` are pairs of a
    path that could not be checked and the code of its fault.
    """

    timestamp_ms: int
    level: str
    limits: JsonObject
    fail_on: str
    tables: Sequence[TableTally]
    failures: Sequence[tuple[str, str]]
    exit_code: int

    @property
    def tally(self) -> Tally:
        return Tally.sum([table.tally for table in self.tables])

    def is_like(self, other: Entry) -> bool:
        """Return True if both checked the same tables in the same way."""
        return self._known() == other._known()

    def _known(self) -> tuple[object, ...]:
        return sorted(table.table for table in self.tables), self.level, self.limits

    def line(self, version: str) -> bytes:
        """Return the run as a line, with the version of deltacli that made it."""
        document: dict[str, Json] = {
            "kind": KIND,
            "schemaVersion": SCHEMA_VERSION,
            "timestampMs": self.timestamp_ms,
            "timestamp": format_timestamp(self.timestamp_ms),
            "deltacliVersion": version,
            "complete": not self.failures,
            "level": self.level,
            "limits": dict(self.limits),
            "failOn": self.fail_on,
            "tables": [
                {"table": name, "version": newest, **tally._asdict(), "notChecked": not_checked}
                for name, newest, not_checked, tally in self.tables
            ],
            **self.tally._asdict(),
            "exitCode": self.exit_code,
        }
        if self.failures:
            document["failures"] = [{"table": name, "code": code} for name, code in self.failures]
        return dumps(document) + b"\n"


def read_trend(data: bytes, name: str) -> list[Entry]:
    """Return the runs of a file, oldest first, without blank lines. Raises UsageError, which names the wrong line."""
    entries = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            entries.append(_entry(json.loads(line)))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as fault:
            raise UsageError(
                f"{name}:{number}: the line is not a run of validate",
                code="usage.history",
                facts={"found": _found(fault), "expected": f'a line of the kind "{KIND}"'},
            ) from fault
    return entries


def find_comparable_entry(entries: Sequence[Entry], now: Entry) -> Entry | None:
    """Return the newest run that can be compared with this one."""
    return next((entry for entry in reversed(entries) if entry.is_like(now)), None)


def _found(fault: Exception) -> str:
    return f"no field {fault}" if isinstance(fault, KeyError) else f"{type(fault).__name__}: {fault}"


def _entry(document: dict[str, Json]) -> Entry:
    if document["kind"] != KIND or document["schemaVersion"] != SCHEMA_VERSION:
        raise ValueError("it is another kind of document, or of a later version")
    tables = [
        TableTally(str(table["table"]), table["version"], int(table["notChecked"]), _tally(table))
        for table in document["tables"]
    ]
    failures = [(str(item["table"]), str(item["code"])) for item in document.get("failures", ())]
    return Entry(
        validate_time_ms(document["timestampMs"], "timestampMs"),
        str(document["level"]),
        dict(document["limits"]),
        str(document["failOn"]),
        tables,
        failures,
        int(document["exitCode"]),
    )


def _tally(item: dict[str, Json]) -> Tally:
    return Tally(
        int(item["errors"]),
        int(item["warnings"]),
        int(item["infos"]),
        int(item["accepted"]),
        int(item["suppressed"]),
        {str(rule): int(count) for rule, count in item["rules"].items()},
    )
