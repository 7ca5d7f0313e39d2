"""The rule about bounds in the footers of data files that leave NaN out. Spec: parquet.thrift, Statistics."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from deltacli.core.errors import LazyText, command
from deltacli.core.units import plural
from deltacli.delta.footers.chunk_bounds import BoundsBesideNan
from deltacli.rules.framework.base import Area, Finding, Level
from deltacli.rules.framework.data_file_views import AnswersView

AREA = Area("data_files", Level.DATA)

NAN_BOUNDS_QUESTION = "nan_bounds"
"""The name of the question whose answers are `BoundsBesideNan`."""

NAN_BEYOND_BOUNDS = AREA.warning(
    "data.nan-beyond-bounds",
    "A row group of a data file has NaN in a column, but the bounds in its footer leave NaN out.",
    spec="parquet.thrift, Statistics",
    broken="Spark orders NaN above all numbers and skips row groups by these bounds: conditions such as x > 1 or "
    "x = NaN lose rows, and DELETE, UPDATE and MERGE miss them",
    repair=LazyText("rewrite the files: {}", partial(command, "optimize", purge=True)),
    example="a column chunk with the values 1.0 and NaN, whose statistics in the footer have max_value 1.0",
)


@AREA.check(AnswersView, NAN_BEYOND_BOUNDS)
def bounds_of_chunks_with_nan(view: AnswersView) -> Iterator[Finding]:
    """Report each column of each file whose bounds in the footer leave NaN out."""
    for row, answers in enumerate(view.answers):
        bounds: BoundsBesideNan
        for bounds in answers.get(NAN_BOUNDS_QUESTION, ()):
            place = view.place(row)
            message = (
                f"column {bounds.column} of {place.key} has NaN in {plural(bounds.row_groups, 'row group')} whose "
                "bounds in the footer leave NaN out"
            )
            effect = f"Spark skips these row groups for conditions such as {bounds.column} > 1 and loses rows"
            yield NAN_BEYOND_BOUNDS.at(
                place, f"{message}: {effect}", seen="bounds without NaN", expected="no bounds, or a maximum of NaN"
            )
