"""Paimon's Java process beside a Spark session, whose PySpark converts exceptions."""

from __future__ import annotations

from tests.judges.paimon.engine import JavaObject, PaimonJudge
from tests.judges.spark import SparkJudge


def test_an_exception_of_paimon_is_not_taken_for_one_of_spark(spark: SparkJudge, paimon: PaimonJudge) -> None:
    new_failure = spark.session._jvm.java.lang.IllegalArgumentException
    new_list = paimon.jvm.java.util.ArrayList
    failures = [new_failure("of Spark")]
    numbers = new_list([1, 2, 3])
    while _id_of(numbers) < _id_of(failures[0]):
        numbers = new_list([1, 2, 3])
    while _id_of(failures[-1]) < _id_of(numbers) + 10:
        failures.append(new_failure("of Spark"))

    # The iteration ends with an exception that has the id of one of these failures.
    assert list(numbers) == [1, 2, 3]


def _id_of(java_object: JavaObject) -> int:
    """Return the number that a Java process has given to an object: they count from 0 in each process."""
    return int(java_object._target_id.removeprefix("o"))
