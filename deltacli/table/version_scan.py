"""A scan that gives access to the version that it reads.

`Table.read` returns a `VersionScan`. `Snapshot.scan` returns a plain `Scan`, because `version.py` cannot
import this module: it imports `Snapshot`.
"""

from __future__ import annotations

from deltacli.table.scan import Scan
from deltacli.table.scan_requests import ScanRequest
from deltacli.table.version import Snapshot


class VersionScan(Scan):
    """The rows of a version of a table as Arrow record batches.

    Attributes:
        snapshot: The version that is read. Its `problems`, for example, are shown together with the rows.
    """

    def __init__(self, snapshot: Snapshot, request: ScanRequest) -> None:
        """Resolve the columns and the condition. Takes the same arguments and raises the same errors as `Scan`."""
        super().__init__(snapshot, request)
        self.snapshot = snapshot
