"""Rules about what data files are: Parquet, readable, with rows. In `data_types` and `data_columns` what columns they
have, in `data_layout` how they lie.
"""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.arrow import compute as pc
from deltacli.delta.rules.files.storage import FILE_MISSING, file_missing
from deltacli.delta.rules.framework.base import Area, Finding, Level
from deltacli.delta.rules.framework.file_views import VANISHED, FileFaultView, FootersView

AREA = Area("data_files", Level.FOOTERS)

_RESTORE = "restore the object from a backup or an older version of it; else commit a remove of the file"
NOT_PARQUET = AREA.error(
    "data.not-parquet",
    "A data file is not a Parquet file, or cannot be read to its end.",
    spec="Format Specification",
    broken="readers of the newest version fail at this file",
    repair=_RESTORE,
    loss="the rows of the file, if there is no backup",
    example="a file of 1,000 zeros, named part-00001.parquet",
)
ROW_COUNT_ZERO = AREA.info(
    "data.row-count-zero",
    "A live file has no rows.",
    spec="Data Files",
    broken="nothing: it costs an opening",
    repair="compact the table with an engine (OPTIMIZE)",
    example="a Parquet file of 0 rows, added by a writer that had none for a partition",
)


@AREA.check(FileFaultView, NOT_PARQUET)
def files_that_are_no_parquet(view: FileFaultView) -> Iterator[Finding]:
    """What kept a file from being read."""
    if view.fault.code == NOT_PARQUET.id:
        message = f"{view.place.key} is not a Parquet file: {view.fault.message}"
        yield NOT_PARQUET.at(view.place, message, seen=view.fault.seen)


@AREA.check(FileFaultView, FILE_MISSING)
def files_that_vanished(view: FileFaultView) -> Iterator[Finding]:
    """A file that was deleted after the listing: the comparison with the listing has seen it."""
    if view.fault.code == VANISHED:
        yield file_missing(view.place)


@AREA.check(FootersView, ROW_COUNT_ZERO)
def files_without_rows(view: FootersView) -> Iterator[Finding]:
    """Files that are read for nothing."""
    for row in pc.indices_nonzero(pc.equal(view.rows, 0)).to_pylist():
        place = view.place(row)
        yield ROW_COUNT_ZERO.at(place, f"{place.key} has no rows", seen=0)
