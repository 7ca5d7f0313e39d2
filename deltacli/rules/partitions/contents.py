"""Compare partition values in data files with those in the log. Spec: IcebergCompatV1; IcebergCompatV2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from deltacli.core.units import plural
from deltacli.delta.log.state import TableConfiguration
from deltacli.rules.framework.base import Area, Finding, Level, Severity
from deltacli.rules.framework.data_file_views import AnswersView

AREA = Area("data_files", Level.DATA)


PARTITION_QUESTION = "partition_columns"
_KNOBS = ("delta.enableMaterializePartitionColumnsFeature", "delta.writePartitionColumnsToParquet")

DIFFERS = AREA.error(
    "data.partition-column-differs",
    "The partition value in a data file differs from the log.",
    spec="Writer Requirements for IcebergCompatV1 and V2",
    broken="Delta readers see the value in the log; readers of Iceberg or of the bare file see the other one",
    repair="find out which of the two is right, then rewrite the file with an engine",
    example='"partitionValues":{"p":"a"}, and a file whose column p is "b"',
)


class PartitionDifference(NamedTuple):
    """`rows` of a file differ from the value in the log; `seen` is one of their values."""

    column: str
    rows: int
    seen: str
    expected: str


def are_materialised(config: TableConfiguration) -> bool:
    """Return True if files must hold their partition values."""
    if "materializePartitionColumns" in config.features and any(map(config.is_on, _KNOBS)):
        return True
    return any(
        f"icebergCompatV{number}" in config.features and config.is_on(f"delta.enableIcebergCompatV{number}")
        for number in (1, 2, 3)
    )


@AREA.check(AnswersView, DIFFERS)
def partition_columns_hold_their_values(view: AnswersView) -> Iterator[Finding]:
    """Check each column of each file.

    Where files need no partition columns, all readers of Delta take the value of the log. Then the difference says only
    what the writer, or a conversion, left in the file.
    """
    severity = None if are_materialised(view.config) else Severity.INFO
    for row, answers in enumerate(view.answers):
        difference: PartitionDifference
        for difference in answers.get(PARTITION_QUESTION, ()):
            place = view.place(row)
            has = "has" if difference.rows == 1 else "have"
            message = f"{plural(difference.rows, 'row')} of {place.key} {has} another value in the partition column "
            message += f"{difference.column} than the log records"
            yield DIFFERS.at(place, message, seen=difference.seen, expected=difference.expected, severity=severity)
