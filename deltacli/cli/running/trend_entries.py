"""The lines of a trend file of `validate`.

A trend file contains one line of JSON per run. A line has counts, not findings, so that runs can be compared and
plotted. Two runs can be compared if they checked the same tables at the same level with the same limits.
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
    """The numbers of findings of one table, or of all tables.

    Findings that a baseline accepts are counted in `accepted` only.

    Attributes:
        errors: The number of errors.
        warnings: The number of warnings.
        infos: The number of findings of the severity `info`.
        accepted: The number of findings that the baseline accepts.
        suppressed: The number of findings that were not shown, because of the limit per rule.
        rules: The number of findings by the id of the rule.
    """

    errors: int
    warnings: int
    infos: int
    accepted: int
    suppressed: int
    rules: Mapping[str, int]

    @classmethod
    def sum(cls, tallies: Sequence[Tally]) -> Tally:
        """Return the sums of several tallies."""
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
    """The numbers of findings of one table.

    Attributes:
        table: The name of the table in the trend file.
        version: The newest version of the table. None if it has none.
        not_checked: The number of rules that could not be checked.
        tally: The numbers of findings.
    """

    table: str
    version: int | None
    not_checked: int
    tally: Tally


class TrendEntry(NamedTuple):
    """One run of `validate`, as in one line of a trend file.

    Attributes:
        timestamp_ms: When the run started, in epoch milliseconds.
        level: The value of `--level`.
        limits: The options that restrict what is checked, such as `{"select": ["log.*"]}`.
        fail_on: The value of `--fail-on`.
        tables: The tables that were checked.
        failures: The paths that could not be checked, each with the code of the error.
        exit_code: The exit code of the run.
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
        """The numbers of findings of all tables."""
        return Tally.sum([table.tally for table in self.tables])

    def is_comparable_with(self, other: TrendEntry) -> bool:
        """Return whether both runs checked the same tables in the same way."""
        tables = sorted(table.table for table in self.tables)
        other_tables = sorted(table.table for table in other.tables)
        return tables == other_tables and self.level == other.level and self.limits == other.limits

    def encode_line(self, deltacli_version: str) -> bytes:
        """Return the run as a line of a trend file, including the line feed.

        Args:
            deltacli_version: The version of deltacli that made the run.
        """
        document: dict[str, Json] = {
            "kind": KIND,
            "schemaVersion": SCHEMA_VERSION,
            "timestampMs": self.timestamp_ms,
            "timestamp": format_timestamp(self.timestamp_ms),
            "deltacliVersion": deltacli_version,
            "complete": not self.failures,
            "level": self.level,
            "limits": dict(self.limits),
            "failOn": self.fail_on,
            "tables": [
                {"table": name, "version": version, **tally._asdict(), "notChecked": not_checked}
                for name, version, not_checked, tally in self.tables
            ],
            **self.tally._asdict(),
            "exitCode": self.exit_code,
        }
        if self.failures:
            document["failures"] = [{"table": name, "code": code} for name, code in self.failures]
        return dumps(document) + b"\n"


def read_trend(data: bytes, name: str) -> list[TrendEntry]:
    """Parse a trend file. Blank lines are ignored.

    Args:
        data: The content of the file.
        name: The name of the file, for errors.

    Returns:
        The runs, oldest first.

    Raises:
        UsageError: If a line is not a run of `validate`. The error contains the number of the line.
    """
    entries = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            entries.append(_parse_entry(json.loads(line)))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            reason = f"no field {error}" if isinstance(error, KeyError) else f"{type(error).__name__}: {error}"
            raise UsageError(
                f"{name}:{number}: the line is not a run of validate",
                code="usage.history",
                facts={"found": reason, "expected": f'a line of the kind "{KIND}"'},
            ) from error
    return entries


def find_comparable_entry(entries: Sequence[TrendEntry], entry: TrendEntry) -> TrendEntry | None:
    """Return the newest of the earlier runs that can be compared with a run; None if there is none."""
    for earlier_entry in reversed(entries):
        if earlier_entry.is_comparable_with(entry):
            return earlier_entry
    return None


def _parse_entry(document: dict[str, Json]) -> TrendEntry:
    """Parse one line. Raises ValueError, KeyError or TypeError if it is not a run of `validate`."""
    if document["kind"] != KIND or document["schemaVersion"] != SCHEMA_VERSION:
        raise ValueError("it is another kind of document, or of a later version")
    tables = [
        TableTally(str(table["table"]), table["version"], int(table["notChecked"]), _parse_tally(table))
        for table in document["tables"]
    ]
    failures = [(str(item["table"]), str(item["code"])) for item in document.get("failures", ())]
    return TrendEntry(
        validate_time_ms(document["timestampMs"], "timestampMs"),
        str(document["level"]),
        dict(document["limits"]),
        str(document["failOn"]),
        tables,
        failures,
        int(document["exitCode"]),
    )


def _parse_tally(item: dict[str, Json]) -> Tally:
    return Tally(
        int(item["errors"]),
        int(item["warnings"]),
        int(item["infos"]),
        int(item["accepted"]),
        int(item["suppressed"]),
        {str(rule): int(count) for rule, count in item["rules"].items()},
    )
