"""Rules about the row ids that rows have. Spec: Row Tracking, Row IDs."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.delta.encoding.integer_set import Repeated
from deltacli.delta.rules.framework.base import Area, Finding, Fix, Level, Severity
from deltacli.delta.rules.framework.file_views import AnswersView
from deltacli.units import plural

AREA = Area("row_tracking")

QUESTION = "row_ids"

DUPLICATE = AREA.rule(
    "rowtracking.materialised-duplicate",
    Severity.ERROR,
    Level.DATA,
    "A row has a row id in its file that another row has, too.",
    spec="Row Tracking: Row IDs",
    fix=Fix(
        broken="two rows of the table have one id: readers that follow rows by it mix them up",
        mend="rewrite one of the two files with an engine that assigns fresh ids",
        loss="the ids of the rows that are rewritten",
    ),
    example="a file with the row id 12 in its column of row ids, and a live file of 20 rows with baseRowId 0",
)


@AREA.check(AnswersView, DUPLICATE)
def row_ids_of_files(view: AnswersView) -> Iterator[Finding]:
    """Each file against itself and those before it. First ids that overlap are told by what the log says."""
    for row, answers in enumerate(view.answers):
        found: Repeated | None = answers.get(QUESTION)
        if found is not None and found.least is not None:
            place = view.place(row)
            message = (
                f"{plural(found.times, 'row')} of {place.key} have row ids that other rows have, {found.least} for one"
            )
            yield DUPLICATE.at(place, message, seen=found.least, expected="each row id once")
