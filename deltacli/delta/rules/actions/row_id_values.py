"""Rules about the row ids of rows. Spec: Row Tracking, Row IDs."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.delta.encoding.integer_set import Repeated
from deltacli.delta.rules.framework.base import Area, Finding, Level
from deltacli.delta.rules.framework.data_file_views import AnswersView
from deltacli.units import plural

AREA = Area("row_tracking", Level.DATA)

QUESTION = "row_ids"

DUPLICATE = AREA.error(
    "rowtracking.materialised-duplicate",
    "A row has a row id in its file that another row also has.",
    spec="Row Tracking: Row IDs",
    broken="two rows of the table have the same id, so readers that track rows by id confuse them",
    repair="rewrite one of the two files with an engine that assigns new ids",
    loss="the ids of the rewritten rows",
    example="a file with the row id 12 in its column of row ids, and a live file of 20 rows with baseRowId 0",
)


@AREA.check(AnswersView, DUPLICATE)
def row_ids_of_files(view: AnswersView) -> Iterator[Finding]:
    """Compare each file with itself and with earlier files. Rules on the log report overlapping ranges of baseRowId."""
    for row, answers in enumerate(view.answers):
        found: Repeated | None = answers.get(QUESTION)
        if found is not None and found.least is not None:
            place = view.place(row)
            message = (
                f"{plural(found.times, 'row')} of {place.key} have row ids that other rows also have, for example "
                f"{found.least}"
            )
            yield DUPLICATE.at(place, message, seen=found.least, expected="each row id only once")
