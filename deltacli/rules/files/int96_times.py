"""The rule about timestamps of the physical type INT96 that do not fit into 64-bit nanoseconds.

Spec: parquet.thrift, Type.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from deltacli.core.errors import LazyText, command
from deltacli.core.units import plural
from deltacli.delta.encoding.value_text import moment_text
from deltacli.delta.stats.nanosecond_range import RANGE, TimesBeyondNanoseconds
from deltacli.rules.framework.base import Area, Finding, Level, Severity
from deltacli.rules.framework.data_file_views import AnswersView

AREA = Area("data_files", Level.DATA)

INT96_QUESTION = "int96_times"
"""The name of the question whose answers are `TimesBeyondNanoseconds`."""

INT96_BEYOND_NANOSECONDS = AREA.warning(
    "data.int96-beyond-nanoseconds",
    f"A data file stores a timestamp outside of {RANGE} as INT96, which some engines read as 64-bit nanoseconds.",
    spec="parquet.thrift, Type",
    broken="deltalake and polars read other times (9999-12-31 as 1816-03-29 and 2262-04-11), chDB refuses the file; "
    "Spark, Delta Kernel for Java and DuckDB read it rightly",
    repair=LazyText(
        "rewrite the files: {}; new files of Spark have INT64 if spark.sql.parquet.outputTimestampType is "
        "TIMESTAMP_MICROS",
        partial(command, "optimize", purge=True),
    ),
    example="9999-12-31 in a timestamp column that Spark wrote with its defaults",
)


@AREA.check(AnswersView, INT96_BEYOND_NANOSECONDS)
def times_beyond_nanoseconds(view: AnswersView) -> Iterator[Finding]:
    """Report each column of each file with such times; an info if Arrow's schema in the footer tells the unit."""
    for row, answers in enumerate(view.answers):
        times: TimesBeyondNanoseconds
        for times in answers.get(INT96_QUESTION, ()):
            place = view.place(row)
            message = (
                f"column {times.column} of {place.key} has {plural(times.values, 'time')} outside of {RANGE} as INT96"
            )
            effect = "deltalake and polars read other times, and chDB refuses the file"
            if times.has_unit:
                effect = "chDB refuses the file; deltalake and polars read it by the Arrow schema in its footer"
            yield INT96_BEYOND_NANOSECONDS.at(
                place,
                f"{message}: {effect}",
                seen=moment_text(times.example),
                expected="INT64 in microseconds",
                severity=Severity.INFO if times.has_unit else None,
            )
