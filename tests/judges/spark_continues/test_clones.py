"""Does Spark go on with our shallow clones as with its own: the same statements, the same rows, the same errors?

Our clone names files of the source by absolute paths. Spark writes deletion vectors only for paths in the spelling of
Hadoop, so a clone that is spelled otherwise can be read, and fails at its first DELETE.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.judges.answers import Comparison, KnownDifference
from tests.judges.commands import deltacli
from tests.judges.spark import SparkJudge, name_of
from tests.judges.spark_continues.questions import newest_version

VECTORS = "'delta.enableDeletionVectors'='true'"
VALUES = "VALUES (1,'a'),(2,'a b'),(3,'x=ä/:%41#?'),(4,'13:00'),(5,''),(6,'q+,@~&'),(7,'a'),(8,'a b'),(9,'13:00')"


@dataclass(frozen=True)
class Case:
    """A table that is cloned: its directory, its properties, and whether it is partitioned by its text column."""

    directory: str = "plain"
    properties: str = VECTORS
    clauses: str = ""


CASES = {
    "vectors": Case(),
    "odd characters": Case("ro ot=ä+,@%41;'(x)~!&$[1]", clauses="PARTITIONED BY (p)"),
    "column mapping and row ids": Case(
        properties=f"{VECTORS}, 'delta.columnMapping.mode'='name', 'delta.enableRowTracking'='true'",
        clauses="PARTITIONED BY (p)",
    ),
}

MERGE = """
    MERGE INTO {table} t USING (SELECT explode(array(4L, 5L, 50L)) AS id) s ON t.id = s.id
    WHEN MATCHED AND t.id = 4 THEN DELETE
    WHEN MATCHED THEN UPDATE SET p = 'merged'
    WHEN NOT MATCHED THEN INSERT (id, p) VALUES (s.id, 'merged')
"""

STATEMENTS = (
    "INSERT INTO {table} VALUES (10, 'new'), (11, 'a')",
    "DELETE FROM {table} WHERE id IN (1, 8)",
    "UPDATE {table} SET id = id + 100 WHERE id IN (2, 3, 10)",
    MERGE,
    "SELECT * FROM {table} ORDER BY id, p",
    "RESTORE TABLE {table} TO VERSION AS OF {version}",
    "SELECT * FROM {table} ORDER BY id, p",
    "OPTIMIZE {table}",
    "VACUUM {table}",
    "SELECT * FROM {table} ORDER BY id, p",
)


TOMBSTONES = "decision 0165: Spark's checkpoint has the tombstone of the old spelling beside the add of the new one"
KNOWN = [KnownDifference("repaired clone/*", "deltacli validate", TOMBSTONES)]


def build_source(spark: SparkJudge, tables: Path, case: Case) -> Path:
    """Create a table with two commits of data, and with deleted rows if it has deletion vectors."""
    home = tables / case.directory
    home.mkdir()
    return spark.create(
        home / "source",
        "id BIGINT, p STRING",
        f"INSERT INTO {{table}} {VALUES}",
        "INSERT INTO {table} VALUES (20, 'a'), (21, 'a b')",
        "DELETE FROM {table} WHERE id IN (7, 21)",
        properties=case.properties,
        clauses=case.clauses,
    )


def clone_with_deltacli(source: Path, name: str) -> Path:
    target = source.parent / name
    deltacli("clone", source, target, "--yes")
    return target


def spell_as_earlier_releases(clone: Path) -> None:
    """Give the paths of a clone, and of its vectors, the form that earlier releases of deltacli have written."""
    log = clone / "_delta_log" / f"{0:020}.json"
    text = log.read_text(encoding="utf-8")
    assert "file:/" in text
    log.write_text(text.replace('"file:/', '"file:///'), encoding="utf-8")


def compare_statements(
    spark: SparkJudge, comparison: Comparison, theirs: Path, ours: Path, statements: Sequence[str] = STATEMENTS
) -> None:
    """Run the statements on both tables, and compare what Spark answers."""
    versions = {clone: newest_version(clone) + 2 for clone in (theirs, ours)}  # behind INSERT and DELETE
    for number, statement in enumerate(statements):
        verb = statement.split()[0]
        answers = []
        for clone in (theirs, ours):
            named = statement.replace("{table}", name_of(clone)).replace("{version}", str(versions[clone]))
            answer = spark.outcome(named)

            # OPTIMIZE and VACUUM return paths, and RESTORE sizes, which depend on the table.
            has_own_numbers = verb in ("OPTIMIZE", "VACUUM", "RESTORE")
            answers.append("done" if has_own_numbers and not isinstance(answer, str) else answer)
        comparison.equal(f"{number}: {verb}", *answers)


def compare_with_deltacli(spark: SparkJudge, comparison: Comparison, clone: Path, source: Path) -> None:
    """Ask deltacli about the clone that Spark has changed."""
    count = deltacli("read", clone, "--count", "--allow-external", source, "--json").document()
    comparison.equal("deltacli read --count", len(spark.rows(clone)), count["rows"])
    validated = deltacli("validate", clone, "--level", "storage", "--allow-external", source, codes=(0, 1))
    comparison.equal("deltacli validate", 0, validated.code)


@pytest.mark.parametrize("name", CASES)
def test_spark_continues_our_clone_as_its_own(name: str, spark: SparkJudge, tables: Path) -> None:
    source = build_source(spark, tables, CASES[name])
    theirs = source.parent / "theirs"
    spark.sql(f"CREATE TABLE {name_of(theirs)} SHALLOW CLONE {name_of(source)}")
    ours = clone_with_deltacli(source, "ours")

    with Comparison(f"clone/{name}") as comparison:
        compare_statements(spark, comparison, theirs, ours)
        compare_with_deltacli(spark, comparison, ours, source)


@pytest.mark.parametrize("name", CASES)
def test_spark_continues_a_clone_of_an_earlier_release_once_it_is_repaired(
    name: str, spark: SparkJudge, tables: Path
) -> None:
    source = build_source(spark, tables, CASES[name])
    theirs = source.parent / "theirs"
    spark.sql(f"CREATE TABLE {name_of(theirs)} SHALLOW CLONE {name_of(source)}")
    ours = clone_with_deltacli(source, "ours")
    spell_as_earlier_releases(ours)
    validated = deltacli("validate", ours, "--select", "path.file-uri-form", "--json").document()
    repaired = deltacli("repair", ours, "--yes", "--allow-in-use", "--json").document()

    with Comparison(f"repaired clone/{name}", KNOWN) as comparison:
        rules = [finding["rule"] for finding in validated["tables"][0]["findings"]]
        comparison.equal("findings", ["path.file-uri-form"], rules)
        for version in range(
            repaired["committedVersions"][-1] + 1
        ):  # also the one between the two commits of the repair
            at_version = spark.sql(f"SELECT * FROM {name_of(ours)} VERSION AS OF {version}")
            rows = sorted((tuple(row) for row in at_version), key=repr)
            comparison.equal(f"rows of version {version}", spark.rows(theirs), rows)
        compare_statements(spark, comparison, theirs, ours)
        compare_with_deltacli(spark, comparison, ours, source)


def test_spark_continues_a_copy_that_keeps_the_paths_of_a_clone(spark: SparkJudge, tables: Path) -> None:
    source = build_source(spark, tables, CASES["odd characters"])
    theirs = source.parent / "theirs"
    spark.sql(f"CREATE TABLE {name_of(theirs)} SHALLOW CLONE {name_of(source)}")
    clone = clone_with_deltacli(source, "clone")
    deltacli("copy", clone, source.parent / "copy", "--keep-external")

    with Comparison("copy of a clone") as comparison:
        compare_statements(spark, comparison, theirs, source.parent / "copy", STATEMENTS[:3])
