"""Rules about the row ids of rows. Spec: Row Tracking, Row IDs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from deltacli.core.units import plural
from deltacli.delta.encoding.integer_set import Repeated
from deltacli.delta.log.row_ids import DOMAIN, read_mark
from deltacli.rules.framework.base import Area, Finding, Level
from deltacli.rules.framework.data_file_views import AnswersView

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
BEYOND_MARK = AREA.error(
    "rowtracking.materialised-beyond-mark",
    "A row has a row id in its file that is above the high-water mark of row ids.",
    spec="Row Tracking: Row IDs",
    broken="a later writer assigns the id to another row",
    repair="commit a domainMetadata action of delta.rowTracking with the highest id in use",
    example='a file with the row id 40 in its column of row ids, and {"rowIdHighWaterMark":39}',
)


class RowIdFacts(NamedTuple):
    """The ids of a file that other rows also have, in it or in a file before; and the highest id that it stores."""

    repeated: Repeated
    highest: int | None


@AREA.check(AnswersView, DUPLICATE, BEYOND_MARK)
def row_ids_of_files(view: AnswersView) -> Iterator[Finding]:
    """Compare each file with itself, with earlier files and with the mark. Rules on the log report overlapping ranges
    of baseRowId, and those above the mark.
    """
    mark = read_mark(view.domains.get(DOMAIN))
    for row, answers in enumerate(view.answers):
        found: RowIdFacts | None = answers.get(QUESTION)
        if found is None:
            continue
        place, repeated = view.place(row), found.repeated
        if repeated.least is not None:
            message = (
                f"{plural(repeated.times, 'row')} of {place.key} have row ids that other rows also have, for example "
                f"{repeated.least}"
            )
            yield DUPLICATE.at(place, message, seen=repeated.least, expected="each row id only once")
        if found.highest is not None and mark is not None and found.highest > mark:
            message = f"{place.key} has row ids up to {found.highest}, but the high-water mark of row ids is {mark}"
            yield BEYOND_MARK.at(place, message, seen=found.highest, expected=f"at most {mark}")
