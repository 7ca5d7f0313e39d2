"""Rules that compare statistics in the log with the footers of the files. Spec: Per-file Statistics."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.arrow import compute as pc
from deltacli.delta.rules.framework.base import Finding
from deltacli.delta.rules.framework.file_views import FootersView
from deltacli.delta.rules.statistics import rows as rules
from deltacli.delta.stats.record_counts import num_records_column
from deltacli.units import plural


@rules.AREA.check(FootersView, rules.NUM_RECORDS_MISMATCH)
def counts_of_rows(view: FootersView) -> Iterator[Finding]:
    """`numRecords` counts physical rows, including deleted ones. Another rule reports a negative one."""
    told = num_records_column(view.adds.column("stats"))
    wrong = pc.and_(pc.not_equal(told, view.rows), pc.greater_equal(told, 0))
    for row in pc.indices_nonzero(wrong).to_pylist():
        seen, expected = told[row].as_py(), view.rows[row].as_py()
        place = view.place(row)
        message = f"the statistics of {place.key} record {plural(seen, 'record')}, but the file has {expected:,}"
        yield rules.NUM_RECORDS_MISMATCH.at(place, message, seen=seen, expected=expected)
