"""Rules about what data files are: Parquet, readable, with rows. In `data_types` and `data_columns` what columns they
have, in `data_layout` how they lie.
"""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.arrow import compute as pc
from deltacli.delta.rules.files import data_columns, data_layout, data_types
from deltacli.delta.rules.files import data_file_rows as rules
from deltacli.delta.rules.framework.base import Finding
from deltacli.delta.rules.framework.file_views import FileFaultView, FootersView
from deltacli.delta.rules.partitions import contents as partition_contents

AREA = rules.AREA
__all__ = ["AREA", "data_columns", "data_layout", "data_types", "partition_contents"]


@AREA.check(FileFaultView, rules.NOT_PARQUET)
def files_that_are_no_parquet(view: FileFaultView) -> Iterator[Finding]:
    """What kept a file from being read."""
    if view.fault.code == rules.NOT_PARQUET.id:
        message = f"{view.place.key} is not a Parquet file: {view.fault.message}"
        yield rules.NOT_PARQUET.at(view.place, message, seen=view.fault.seen)


@AREA.check(FootersView, rules.ROW_COUNT_ZERO)
def files_without_rows(view: FootersView) -> Iterator[Finding]:
    """Files that are read for nothing."""
    for row in pc.indices_nonzero(pc.equal(view.rows, 0)).to_pylist():
        place = view.place(row)
        yield rules.ROW_COUNT_ZERO.at(place, f"{place.key} has no rows", seen=0)
