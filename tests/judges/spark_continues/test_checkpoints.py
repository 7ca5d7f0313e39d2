"""Spark reads, travels in time and writes after each form of checkpoint, beside its own checksum files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.judges.answers import Comparison
from tests.judges.commands import deltacli, find_errors
from tests.judges.spark import SparkJudge, copy_table, name_of
from tests.support.hadoop import checksum_file, unfit_checksums

LOG = "_delta_log"
COLUMNS = "id INT, v INT, p STRING"
STATEMENTS = (
    "INSERT INTO {table} SELECT id, id * 10, if(id < 5, 'a', 'b') FROM range(10)",
    "INSERT INTO {table} VALUES (100, null, 'a'), (101, 1, null)",
)
CHANGES = ("DELETE FROM {table} WHERE id = 3", "UPDATE {table} SET v = -1 WHERE id = 7")
"""They leave tombstones, or deletion vectors where the table has them."""


@dataclass(frozen=True)
class Kind:
    """What the state of a table has that a checkpoint must have.

    Attributes:
        properties: Properties with which Spark creates the table.
        clauses: Further clauses of the statement that creates it.
        changes: Statements after its rows were written.
        is_transactional: Whether a streaming query has written to it, which leaves a `txn` action.
    """

    properties: str = ""
    clauses: str = ""
    changes: tuple[str, ...] = ()
    is_transactional: bool = False


VECTORS = "'delta.enableDeletionVectors'='true'"
STRUCT_STATS = "'delta.checkpoint.writeStatsAsStruct'='true', 'delta.checkpoint.writeStatsAsJson'='false'"
ROW_TRACKING = "'delta.enableRowTracking'='true'"
KINDS = {
    "rows only": Kind("'delta.enableDeletionVectors'='false'"),
    "tombstones": Kind("'delta.enableDeletionVectors'='false'", changes=CHANGES),
    "txn": Kind(is_transactional=True),
    "domain metadata": Kind(ROW_TRACKING, changes=CHANGES),
    "clustering": Kind(clauses="CLUSTER BY (id)"),
    "deletion vectors": Kind(VECTORS, changes=CHANGES),
    "partitions": Kind(clauses="PARTITIONED BY (p)", changes=CHANGES),
    "struct stats": Kind(STRUCT_STATS, changes=CHANGES),
    "everything": Kind(f"{VECTORS}, {STRUCT_STATS}, {ROW_TRACKING}", "PARTITIONED BY (p)", CHANGES, True),
}

Write = Callable[[Path], None]


def _classic(table: Path) -> None:
    deltacli("checkpoint", table, "--layout", "classic")


def _parts(table: Path) -> None:
    deltacli("checkpoint", table, "--layout", "multi-part", "--parts", "3")


def _v2(table: Path, *options: str) -> None:
    deltacli("properties", table, "set", "delta.checkpointPolicy=v2", "--upgrade-protocol", "--yes")
    deltacli("checkpoint", table, *options)
    assert any((table / LOG).glob("*.checkpoint.*-*"))


def _v2_json(table: Path) -> None:
    _v2(table)


def _v2_parquet(table: Path) -> None:
    _v2(table, "--v2-top", "parquet")


def _forced(table: Path) -> None:
    """Write it over one of Spark, which has a checksum file."""
    checkpoint = _of_spark(table)
    before = checkpoint.read_bytes()
    deltacli("checkpoint", table, "--version", str(int(checkpoint.name[:20])), "--force")
    assert before != checkpoint.read_bytes()


def _repaired(table: Path) -> None:
    checkpoint = _of_spark(table)
    checkpoint.write_bytes(checkpoint.read_bytes()[:-30])
    deltacli("repair", table, "--allow-in-use", "--yes")


def _repaired_v2(table: Path) -> None:
    """The main file is one of an earlier release, which had no columns of file actions."""
    _v2(table, "--v2-top", "parquet")
    main_file = next((table / LOG).glob("*.checkpoint.*.parquet"))
    pq.write_table(pq.read_table(main_file).drop_columns(["add", "remove"]), main_file)
    advice = deltacli("validate", table, codes=(1,)).stdout.partition("checkpoint.add-column-missing]")[2]
    assert f"fix       deltacli repair {table}\n" in advice
    deltacli("repair", table, "--yes")


def _of_spark(table: Path) -> Path:
    checkpoint = next((table / LOG).glob("*.checkpoint.parquet"))
    assert checksum_file(checkpoint).exists()
    return checkpoint


WRITERS: dict[str, Write] = {
    "classic": _classic,
    "multi-part": _parts,
    "v2 json": _v2_json,
    "v2 parquet": _v2_parquet,
    "force": _forced,
    "repair": _repaired,
    "repair v2": _repaired_v2,
}
CASES = [
    *((kind, form) for kind in ("rows only", "everything") for form in WRITERS),
    *((kind, form) for kind in KINDS if kind not in ("rows only", "everything") for form in ("force", "v2 parquet")),
]


@pytest.fixture(scope="module")
def made(spark: SparkJudge, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that returns the table of a kind, which Spark writes when it is first asked for."""
    directory = tmp_path_factory.mktemp("made")
    tables: dict[str, Path] = {}

    def table_of(name: str) -> Path:
        if name not in tables:
            tables[name] = _create(spark, directory / name.replace(" ", "-"), KINDS[name])
        return tables[name]

    return table_of


def _create(spark: SparkJudge, directory: Path, kind: Kind) -> Path:
    """Let Spark write a table with a checkpoint of its own below the newest version."""
    spark.create(directory, COLUMNS, *STATEMENTS, properties=kind.properties, clauses=kind.clauses)
    if kind.is_transactional:
        rows = spark.session.range(200, 203).selectExpr("int(id) AS id", "int(id) AS v", "'a' AS p")
        options = {"txnAppId": "a query", "txnVersion": "7"}
        rows.write.format("delta").mode("append").options(**options).save(str(directory))
    spark.run(directory, *kind.changes)
    spark.sql(f"ALTER TABLE {name_of(directory)} SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    spark.run(directory, "INSERT INTO {table} VALUES (300, 3, 'b')")  # which writes a checkpoint
    spark.sql(f"ALTER TABLE {name_of(directory)} SET TBLPROPERTIES ('delta.checkpointInterval' = '100')")
    return directory


@pytest.mark.parametrize(("kind", "form"), CASES, ids=lambda name: name.replace(" ", "-"))
def test_spark_goes_on_after_a_checkpoint(
    kind: str, form: str, spark: SparkJudge, tables: Path, made: Callable[[str], Path]
) -> None:
    source = made(kind)
    table = copy_table(source, tables / "table")
    WRITERS[form](table)

    with Comparison(f"{kind}/{form}") as compared:
        compared.equal("files that Hadoop does not read", [], unfit_checksums(table))
        asked = copy_table(table, tables / "asked")
        compared.equal("rows", spark.rows(source), spark.rows(asked))
        past = "SELECT * FROM {} VERSION AS OF 2"
        expected = sorted(map(repr, spark.sql(past.format(name_of(source)))))
        compared.equal("rows of version 2", expected, sorted(map(repr, spark.sql(past.format(name_of(asked))))))

        spark.run(asked, "INSERT INTO {table} VALUES (400, 4, 'c')", "DELETE FROM {table} WHERE id = 8")
        rows = [row for row in spark.rows(source) if row[0] != 8]
        compared.equal("rows after writes", sorted([*rows, (400, 4, "c")], key=repr), spark.rows(asked))
        compared.equal("errors", [], find_errors(asked))


@pytest.mark.parametrize(
    ("form", "column"),
    [
        *(("v2 parquet", column) for column in ("add", "remove", "txn", "domainMetadata")),
        *(("classic", column) for column in ("remove", "txn", "domainMetadata")),
    ],
    ids=lambda name: name.replace(" ", "-"),
)
def test_validate_knows_which_columns_spark_needs(
    form: str, column: str, spark: SparkJudge, tables: Path, made: Callable[[str], Path]
) -> None:
    """The columns are null in every row of the file."""
    table = copy_table(made("rows only"), tables / "table")
    for file in (table / LOG).glob("*.checkpoint.parquet"):
        file.unlink()
    WRITERS[form](table)
    first_file = min((table / LOG).glob("*.checkpoint*.parquet"))
    rows = pq.read_table(first_file)
    assert rows[column].null_count == len(rows)
    pq.write_table(rows.drop_columns([column]), first_file)
    (table / LOG / "_last_checkpoint").unlink()

    opened = spark.outcome(f"SELECT * FROM {name_of(table)}")
    errors = [rule for rule in find_errors(table) if not rule.startswith("hint.")]

    assert isinstance(opened, str) == bool(errors), (opened, errors)
