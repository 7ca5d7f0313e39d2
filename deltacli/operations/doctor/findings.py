"""What a diagnosis found: a code, how bad it is, what it means, and what to do."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

CREATE = "storage.no-atomic-create"
REPLACE = "storage.no-atomic-replace"
DISORDER = "storage.listing-disorder"
STALE_LISTING = "storage.listing-stale"
SHORT_LISTING = "storage.listing-incomplete"
RANGES_IGNORED = "storage.ranges-ignored"
RANGES_WRONG = "storage.ranges-wrong"
CONTENT = "storage.content-differs"
STALE_READ = "storage.read-unconditional"
CLOCK = "storage.clock-skew"
DELETE = "storage.delete-without-effect"
DELETE_FAILED = "storage.delete-failed"
DELETE_ALONE = "storage.delete-alone"
LEFT = "storage.scratch-left"
PERMISSION = "storage.permission"
CREDENTIALS = "storage.credentials"


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class StoreFinding(NamedTuple):
    """One finding. `next` is what to do about it."""

    code: str
    severity: Severity
    message: str
    next: str

    def as_json(self) -> dict[str, str]:
        return {"code": self.code, "severity": self.severity, "message": self.message, "next": self.next}


def fails(findings: list[StoreFinding]) -> bool:
    """Return True where the exit code is that of findings."""
    return any(finding.severity is not Severity.INFO for finding in findings)
