"""Everything that deltacli says about a table that Spark wrote is what Spark says about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.judges.answers import Comparison
from tests.judges.spark import SparkJudge
from tests.judges.spark_reads.cases import CASES, Case
from tests.judges.spark_reads.known import KNOWN
from tests.judges.spark_reads.questions import Questions


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_deltacli_says_what_spark_says(case: Case, spark: SparkJudge, tables: Path) -> None:
    table = case.build(spark, tables)
    with Comparison(case.name, KNOWN) as comparison:
        Questions(spark, table, comparison).ask_everything()


def test_names_of_cases_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


def test_known_differences_name_cases() -> None:
    names = {case.name for case in CASES}
    assert [known for known in KNOWN if not known.case.endswith("*") and known.case not in names] == []
