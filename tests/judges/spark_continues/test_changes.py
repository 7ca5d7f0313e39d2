"""Spark goes on with a table that deltacli has changed: it reads the same rows, and its statements do the same."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.judges.answers import Comparison
from tests.judges.commands import deltacli
from tests.judges.spark import SparkJudge, copy_table
from tests.judges.spark_continues.accidents import backup_of
from tests.judges.spark_continues.changes import CHANGES, FOUND_AFTER_VACUUM, Change
from tests.judges.spark_continues.expected import SparkTables, interview
from tests.judges.spark_continues.known import KNOWN
from tests.judges.spark_continues.questions import SETTINGS, Answers, setting
from tests.judges.spark_continues.tables import TABLES, SparkTable

PAIRS = [
    pytest.param(change, table, id=f"{table.name}/{change.name}")
    for table in TABLES
    for change in CHANGES
    if table.name in change.tables
]


@pytest.fixture(scope="module")
def spark_tables(
    spark: SparkJudge, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[SparkTables]:
    """Return the tables of Spark, which all processes of a run share."""
    home = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        home = home.parent
    home /= "spark-tables"
    home.mkdir(exist_ok=True)
    with setting(spark, SETTINGS):
        yield SparkTables(spark, home)


@pytest.fixture
def expected(spark_tables: SparkTables, change: Change, table: SparkTable) -> Answers:
    """Return the answers that are expected of a pair. The first test of a table waits for Spark to write it."""
    return spark_tables.answers(change, table)


@pytest.mark.parametrize(("change", "table"), PAIRS)
def test_spark_continues_after_a_change(
    spark_tables: SparkTables, expected: Answers, tables: Path, change: Change, table: SparkTable
) -> None:
    base = spark_tables.base_version(table)

    changed = make_change(change, spark_tables.original(table), tables / table.name)
    questions = spark_tables.questions(table, copy_table(changed, tables / "asked"))
    is_full = table.name in change.fully_on
    actual = interview(questions, base, fully=is_full, with_history=change.keeps_history)
    # Spark's own VACUUM, one of all its statements, runs without retention.
    right_findings = (*table.finds, *change.finds, *(FOUND_AFTER_VACUUM if is_full else ()))

    with Comparison(f"{table.name}/{change.name}", KNOWN) as comparison:
        for question, answer in actual.items():
            if question not in change.not_asked:
                comparison.equal(question, expected[question], answer)
        for rule in find_problems(questions.directory):
            if rule not in right_findings:
                comparison.equal(f"finding {rule}", "none", rule)


def make_change(change: Change, original: Path, target: Path) -> Path:
    """Let deltacli change a copy of a table, and return the directory that Spark is asked about."""
    copy_table(original, target)
    other, backup = target.with_name(f"{target.name}-other"), backup_of(target)
    directories = {"{table}": target, "{other}": other, "{backup}": backup}
    if any("{backup}" in command for command in change.commands):
        copy_table(original, backup)

    def run(commands: tuple[str, ...]) -> None:
        for command in commands:
            deltacli(*(directories.get(word, word) for word in shlex.split(command)))

    run(change.prepared_by)
    if change.accident is not None:
        change.accident(target)
    run(change.commands)
    return directories[change.judged]


def find_problems(directory: Path) -> list[str]:
    """Return the rules whose warnings and errors `validate` reports."""
    document = deltacli("validate", directory, "--level", "data", "--json", codes=(0, 1)).document()
    findings = [finding for report in document["tables"] for finding in report["findings"]]
    return sorted({finding["rule"] for finding in findings if finding["severity"] != "info"})


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_condition_of_a_table_selects_rows(spark_tables: SparkTables, table: SparkTable) -> None:
    questions = spark_tables.questions(
        table, copy_table(spark_tables.original(table), spark_tables.home / f"{table.name}-asked")
    )

    assert all(questions.select_skipping().values())
