"""Refuse data files of which a new file would not be an exact copy, before any of their rows is read.

Readers of the table's types see values that are not what the file contains, or that other readers see differently:
nanoseconds are cut off, and dates that Spark wrote in the calendar before 1582 are shifted only where the footer says
so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.errors import DataUnreadable
from deltacli.units import format_size

if TYPE_CHECKING:
    from deltacli.work.rewrite.spec import RewriteSpec
    from deltacli.work.rows.data_files import OpenDataFile

NOT_EXACT = "optimize.value-not-exact"
TOO_LARGE = "optimize.row-group-too-large"


def require_exact(spec: RewriteSpec, opened: OpenDataFile) -> None:
    """Raise DataUnreadable for a file that cannot be copied exactly, or not in bounded memory."""
    metadata = opened.parquet.metadata
    for group in range(metadata.num_row_groups):
        size = metadata.row_group(group).total_byte_size
        if size > spec.most_group_bytes:
            raise DataUnreadable(
                f"row group {group} has {format_size(size)}, more than {format_size(spec.most_group_bytes)}",
                code=TOO_LARGE,
            )
