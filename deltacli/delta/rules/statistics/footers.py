"""Rules that compare statistics in the log with the footers of the files. Spec: Per-file Statistics."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.arrow import compute as pc
from deltacli.delta.rules.framework.base import Area, Finding, Level
from deltacli.delta.rules.framework.file_views import FootersView
from deltacli.delta.stats.record_counts import num_records_column
from deltacli.units import plural

AREA = Area("statistics", Level.FOOTERS)

_SPEC = "Per-file Statistics"
_RECOMMIT = "commit the same add again with correct statistics, or without any, and dataChange=false"
NUM_RECORDS_MISMATCH = AREA.error(
    "stats.num-records-mismatch",
    "The number of records in the statistics of a file differs from its rows.",
    spec=_SPEC,
    broken="row counts from statistics are wrong",
    repair=_RECOMMIT,
    example='"numRecords":10 in the statistics of a file of 12 rows',
)


@AREA.check(FootersView, NUM_RECORDS_MISMATCH)
def counts_of_rows(view: FootersView) -> Iterator[Finding]:
    """`numRecords` counts physical rows, including deleted ones. Another rule reports a negative one."""
    told = num_records_column(view.adds.column("stats"))
    wrong = pc.and_(pc.not_equal(told, view.rows), pc.greater_equal(told, 0))
    for row in pc.indices_nonzero(wrong).to_pylist():
        seen, expected = told[row].as_py(), view.rows[row].as_py()
        place = view.place(row)
        message = f"the statistics of {place.key} record {plural(seen, 'record')}, but the file has {expected:,}"
        yield NUM_RECORDS_MISMATCH.at(place, message, seen=seen, expected=expected)
