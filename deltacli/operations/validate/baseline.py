"""Findings that are accepted: written down today, so that only what is new counts tomorrow.

A finding is known by its table, rule, file, key and what was seen, never by its line: the same
fault may be told at another line once a file is written again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from deltacli.delta.rules.framework.base import Finding
from deltacli.errors import UsageError

KIND = "deltacli.baseline"
SCHEMA_VERSION = 1


class Fingerprint(NamedTuple):
    """What a finding is known by. `seen` is a digest, empty where nothing was seen."""

    table: str
    rule: str
    file: str
    key: str
    seen: str

    @property
    def digest(self) -> str:
        """The fingerprint as one word."""
        return _digest("\0".join(self))


def fingerprint(table: str, finding: Finding) -> Fingerprint:
    """Return what a finding of a table is known by."""
    seen = _digest(finding.seen)[:16] if finding.seen is not None else ""
    return Fingerprint(table, finding.rule.id, finding.place.path, finding.place.key or "", seen)


class Baseline:
    """Accepted findings, and how many there are of each that look the same. Findings are taken off as they come."""

    def __init__(self, accepted: Mapping[Fingerprint, int]) -> None:
        self._left = Counter(accepted)
        self.accepted = 0

    def take(self, table: str, finding: Finding) -> bool:
        """True if the finding is accepted; of several that look the same as many as were written down."""
        known = fingerprint(table, finding)
        if self._left[known] <= 0:
            return False
        self._left[known] -= 1
        self.accepted += 1
        return True

    def stale(self, tables: Iterable[str], is_looked_for: Callable[[str], bool]) -> int:
        """How many accepted findings of these tables, of rules that were looked for, are there no more."""
        looked_at = set(tables)
        return sum(
            count for known, count in self._left.items() if known.table in looked_at and is_looked_for(known.rule)
        )


def read_baseline(data: bytes, name: str) -> Baseline:
    """Return the accepted findings of a file. Raises UsageError where it is no baseline."""
    try:
        document = json.loads(data)
        if document["kind"] != KIND or document["schemaVersion"] != SCHEMA_VERSION:
            raise ValueError("it is another kind of document, or of a later version")
        accepted = {_known(item): int(item.get("count", 1)) for item in document["findings"]}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as fault:
        is_said = type(fault) is ValueError  # ours
        raise UsageError(
            f"the baseline {name} can't be used: {fault if is_said else 'it is none that validate has written'}",
            code="usage.baseline",
            hint=f"deltacli validate {{table}} --write-baseline {name}",
        ) from fault
    return Baseline(accepted)


def write_baseline(findings: Sequence[tuple[str, Finding]]) -> bytes:
    """Return the file that accepts these findings, each with its table; sorted, so that a diff shows what changed."""
    counts = Counter(fingerprint(table, finding) for table, finding in findings)
    document = {
        "kind": KIND,
        "schemaVersion": SCHEMA_VERSION,
        "findings": [_item(known, count) for known, count in sorted(counts.items())],
    }
    return json.dumps(document, indent=1, ensure_ascii=True).encode() + b"\n"


def _known(item: Mapping[str, Any]) -> Fingerprint:  # Any: JSON values
    return Fingerprint(
        str(item["table"]), str(item["rule"]), str(item["file"]), str(item.get("key", "")), str(item.get("seen", ""))
    )


def _item(known: Fingerprint, count: int) -> dict[str, Any]:
    item: dict[str, Any] = {"table": known.table, "rule": known.rule, "file": known.file}
    if known.key:
        item["key"] = known.key
    if known.seen:
        item["seen"] = known.seen
    return {**item, "count": count} if count > 1 else item


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
