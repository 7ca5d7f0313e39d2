"""Files that are on disk under another name than in the log: vacuum keeps them, and Spark reads what a repair advises.

Entries E1, E4 and E8 of the page of faults.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.judges.answers import Comparison
from tests.judges.commands import deltacli
from tests.judges.spark import SparkJudge, copy_table
from tests.support.misnamed_tables import OTHERS, SPELLINGS, VECTORS, follow, write_misnamed, write_with_vector

READ_BY_SPARK = [case for case, (logged, _) in SPELLINGS.items() if ":" not in logged.partition("/")[0]]
"""Spark takes a colon in the first segment of a path for a scheme and cannot read such a table at all (E94)."""


def advice_of(table: Path, fact: str) -> str:
    """Return the file operation that `repair` advises."""
    done = deltacli("repair", table, "--dry-run", "--max-missing", "100%", codes=(4,))
    (line,) = (line.strip() for line in done.stderr.splitlines() if line.strip().startswith(fact))
    return line.removeprefix(fact).strip()


def vacuum_in_every_way(table: Path, stored: str) -> None:
    """Vacuum a table by a listing, below the directory of the file in doubt, and by a saved plan."""
    deltacli("vacuum", table, "--yes", "--max-delete", "100%")
    if "/" in stored:
        deltacli("vacuum", table, "--yes", "--max-delete", "100%", "--prefix", stored.rpartition("/")[0])
    plan = table.with_name("plan.parquet")
    deltacli("vacuum", table, "--max-delete", "100%", "--save-plan", plan)
    deltacli("vacuum", table, "--apply", plan, "--yes")


@pytest.mark.parametrize("case", READ_BY_SPARK)
def test_spark_reads_a_data_file_after_vacuum_and_the_advice_of_repair(
    case: str, spark: SparkJudge, tmp_path: Path
) -> None:
    logged, stored = SPELLINGS[case]
    table = write_misnamed(tmp_path / "t", {logged: stored})
    before = (table / stored).read_bytes()
    with Comparison(case) as compare:
        vacuum_in_every_way(table, stored)
        compare.equal("the only copy after vacuums", before, (table / stored).read_bytes())

        follow(advice_of(table, "if it is the file"), table)
        rows = sorted([*((row, f"v{row}") for row in range(OTHERS)), (100, "z")], key=repr)
        compare.equal("rows of Spark", rows, spark.rows(copy_table(table, tmp_path / "read")))

        deltacli("vacuum", table, "--yes", "--max-delete", "100%")
        compare.equal("rows of Spark later", rows, spark.rows(copy_table(table, tmp_path / "later")))


@pytest.mark.parametrize("case", VECTORS)
def test_spark_reads_a_deletion_vector_after_vacuum_and_the_advice_of_repair(
    case: str, spark: SparkJudge, tmp_path: Path
) -> None:
    stored = VECTORS[case]
    table = write_with_vector(tmp_path / "t", stored)
    before = (table / stored).read_bytes()
    with Comparison(case) as compare:
        vacuum_in_every_way(table, stored)
        deltacli("vacuum", table, "--yes", "--max-delete", "100%", "--include-foreign")
        compare.equal("the only copy after vacuums", before, (table / stored).read_bytes())

        follow(advice_of(table, "if it is the vector"), table)
        rows = sorted([0, 2, *range(10, 10 + OTHERS)])
        read = spark.rows(copy_table(table, tmp_path / "read"), columns="id")
        compare.equal("rows of Spark", rows, sorted(row[0] for row in read))
