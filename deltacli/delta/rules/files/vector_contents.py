"""The deletion vectors of live files: their bytes, and the rows they delete. Spec: Deletion Vector Format."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.delta.rules.files import vector_rows as rules
from deltacli.delta.rules.framework.base import Finding, Severity
from deltacli.delta.rules.framework.file_views import VectorsView
from deltacli.delta.stats.record_counts import num_records_column
from deltacli.delta.vectors.roaring import NATIVE, PORTABLE
from deltacli.units import plural

_BY_ID = {
    rule.id: rule
    for rule in (
        rules.FILE_MISSING,
        rules.FILE_TOO_SHORT,
        rules.FILE_VERSION,
        rules.SIZE_MISMATCH,
        rules.CRC_MISMATCH,
        rules.MAGIC,
        rules.BITMAP_CORRUPT,
        rules.CARDINALITY_MISMATCH,
    )
}


@rules.AREA.check(VectorsView, *_BY_ID.values())
def bytes_of_vectors(view: VectorsView) -> Iterator[Finding]:
    """Report what keeps readers from using a vector. Faults of descriptors are reported from commits alone."""
    for facts in view.vectors:
        if facts.is_native:
            message = f"the deletion vector of {view.place(facts.row).key} has the older layout of Delta-Spark"
            place = view.place(facts.row)
            yield rules.MAGIC.at(place, message, seen=NATIVE, expected=PORTABLE, severity=Severity.WARNING)
        rule = None if facts.code is None else _BY_ID.get(facts.code)
        if rule is not None:
            place = view.place(facts.row)
            message = f"the deletion vector of {place.key} cannot be used: {facts.reason}"
            yield rule.at(place, message, seen=facts.seen, expected=facts.expected)


@rules.AREA.check(VectorsView, rules.ROW_OUT_OF_RANGE)
def rows_that_are_none(view: VectorsView) -> Iterator[Finding]:
    """Check for rows beyond the last row of the file. The row count comes from the footer, or from the log if there is
    no footer.
    """
    told: list[int | None] = num_records_column(view.live.adds.column("stats")).to_pylist()
    for facts in view.vectors:
        rows = view.file_rows[facts.row] if view.file_rows[facts.row] is not None else told[facts.row]
        if facts.last is None or rows is None or facts.last < rows or rows < 0:
            continue
        place = view.place(facts.row)
        message = f"the deletion vector of {place.key} deletes row {facts.last}, but the file has {plural(rows, 'row')}"
        yield rules.ROW_OUT_OF_RANGE.at(place, message, seen=facts.last, expected=f"less than {rows}")
