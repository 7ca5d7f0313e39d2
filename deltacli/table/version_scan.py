"""The rows of a version together with that version: `VersionScan`."""

from __future__ import annotations

from deltacli.table.scan import Scan
from deltacli.table.scan_requests import ScanRequest
from deltacli.table.version import Snapshot


class VersionScan(Scan):
    """The rows of a version of a table.

    Attributes:
        snapshot: The version.
    """

    def __init__(self, snapshot: Snapshot, request: ScanRequest) -> None:
        """Resolve the columns and the condition, as `Scan` does. No data file is read."""
        super().__init__(snapshot, request)
        self.snapshot = snapshot
