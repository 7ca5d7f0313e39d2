"""Everything that deltacli says about a table that Spark wrote is what Spark says about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.judges.answers import Comparison
from tests.judges.spark import SparkJudge
from tests.judges.spark_reads.cases import CASES, Case
from tests.judges.spark_reads.cases.soak_only import SOAK_ONLY
from tests.judges.spark_reads.known import KNOWN
from tests.judges.spark_reads.questions import Questions


def list_cases() -> list[Any]:  # Any: a ParameterSet, which pytest does not name
    """Return the cases, with a mark for those that a gate leaves out."""
    return [
        pytest.param(case, id=case.name, marks=[pytest.mark.soak] if case.name in SOAK_ONLY else []) for case in CASES
    ]


@pytest.mark.parametrize("case", list_cases())
def test_deltacli_says_what_spark_says(case: Case, spark: SparkJudge, tables: Path) -> None:
    table = case.build(spark, tables)
    with Comparison(case.name, KNOWN) as comparison:
        Questions(spark, table, comparison).ask_everything()


def test_names_of_cases_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


def test_known_differences_name_cases() -> None:
    names = {case.name for case in CASES}
    assert [known for known in KNOWN if not known.case.endswith("*") and known.case not in names] == []


def test_cases_that_a_gate_leaves_out_exist() -> None:
    assert SOAK_ONLY <= {case.name for case in CASES}
