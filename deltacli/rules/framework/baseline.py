"""Accepted findings in a file: the baseline of `validate` and of the policies of a fleet."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.core.errors import UsageError, command
from deltacli.core.typing import JsonObject
from deltacli.rules.framework.base import (
    Finding,
)

if TYPE_CHECKING:
    pass

_BASELINE_KIND = "deltacli.baseline"
_BASELINE_VERSION = 1


class Fingerprint(NamedTuple):
    """The identity of a finding. `seen` is a digest of its values, empty where there are none."""

    table: str
    rule: str
    file: str
    key: str
    seen: str

    @property
    def digest(self) -> str:
        return _digest("\0".join(self))


def fingerprint(table: str, finding: Finding) -> Fingerprint:
    """Return the identity of a finding of a table."""
    seen = _digest(finding.seen)[:16] if finding.seen is not None else ""
    return Fingerprint(table, finding.rule.id, finding.place.path, finding.place.key or "", seen)


class Baseline:
    """Accepted findings with the number of equal ones. Each reported finding is subtracted."""

    def __init__(self, accepted: Mapping[Fingerprint, int]) -> None:
        self._left = Counter(accepted)
        self.accepted = 0

    def take(self, table: str, finding: Finding) -> bool:
        """Return True if the finding is accepted; of several equal ones, as many as were stored."""
        known = fingerprint(table, finding)
        if self._left[known] <= 0:
            return False
        self._left[known] -= 1
        self.accepted += 1
        return True

    def stale(self, tables: Iterable[str], is_looked_for: Callable[[str], bool]) -> int:
        """Return the number of accepted findings of these tables and checked rules that no longer occur."""
        looked_at = set(tables)
        return sum(
            count for known, count in self._left.items() if known.table in looked_at and is_looked_for(known.rule)
        )


def read_baseline(data: bytes, name: str) -> Baseline:
    """Return the accepted findings of a file. Raises UsageError where it is not a baseline."""
    try:
        document = json.loads(data)
        if document["kind"] != _BASELINE_KIND or document["schemaVersion"] != _BASELINE_VERSION:
            raise ValueError("it is another kind of document, or of a later version")
        accepted = {_known(item): int(item.get("count", 1)) for item in document["findings"]}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as fault:
        is_said = type(fault) is ValueError  # the message of the check above
        raise UsageError(
            f"the baseline {name} cannot be used: {fault if is_said else 'it was not written by validate'}",
            code="usage.baseline",
            hint=command("validate", write_baseline=suggest_baseline_name(name)),
        ) from fault
    return Baseline(accepted)


def is_baseline(data: bytes) -> bool:
    """Return whether a file is a baseline, of whatever version, which a new one may replace."""
    try:
        return bool(json.loads(data)["kind"] == _BASELINE_KIND)
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def suggest_baseline_name(name: str) -> str:
    """Return a name for a baseline beside another file: that of the file, but with the ending `.baseline.json`."""
    return f"{os.path.splitext(name)[0]}.baseline.json"


def write_baseline(findings: Sequence[tuple[str, Finding]]) -> bytes:
    """Return the file that accepts these findings, each with its table; sorted, so that diffs are small."""
    counts = Counter(fingerprint(table, finding) for table, finding in findings)
    document = {
        "kind": _BASELINE_KIND,
        "schemaVersion": _BASELINE_VERSION,
        "findings": [_item(known, count) for known, count in sorted(counts.items())],
    }
    return json.dumps(document, indent=1, ensure_ascii=True).encode() + b"\n"


def _known(item: JsonObject) -> Fingerprint:
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
    from hashlib import sha256  # with OpenSSL, which a run without findings does without

    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
