"""The questions that Spark answers about a table: what it reads, and what comes of its own statements.

Answers are texts, so that they can be kept in a file and nothing is lost on the way: Python has no year -44.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.judges.spark import SparkJudge, error_condition, name_of
from tests.judges.spark_continues.tables import SparkTable

Answer = Any  # rows as lists of texts, or a text that says how Spark fails
Answers = dict[str, Answer]

SETTINGS = {
    # VACUUM lists directories with as many tasks as this says. Its default takes a minute of processor time.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.databricks.delta.schema.autoMerge.enabled": "false",
}
PLACES = ("least", "middle", "greatest")
KINDS = ("IS NULL", "= least", ">= greatest", "> middle", "< middle")


@contextmanager
def setting(judge: SparkJudge, settings: dict[str, str]) -> Iterator[None]:
    """Change settings of the session for a while."""
    for key, value in settings.items():
        judge.session.conf.set(key, value)
    try:
        yield
    finally:
        for key in settings:
            judge.session.conf.unset(key)


@dataclass(frozen=True)
class TableQuestions:
    """Asks Spark about one directory.

    Attributes:
        judge: Spark.
        table: What Spark has made the table of.
        directory: The directory that is asked about. Only one object asks about a directory.
        literals: For each compared column its least, middle and greatest value, as SQL, before any change.
    """

    judge: SparkJudge
    table: SparkTable
    directory: Path
    literals: dict[str, list[str]]

    @property
    def name(self) -> str:
        """The name of the table in SQL."""
        return name_of(self.directory)

    def read(self, *, fully: bool) -> Answers:
        """Return what Spark reads of the newest version: rows, what conditions select, and the ids of rows.

        Args:
            fully: Whether the conditions are also answered without skipping anything.
        """
        answers = {"rows": self.rows(self.name)}
        answers |= {f"ids where every column {kind}": ids for kind, ids in self.select_skipping().items()}
        if fully:
            selected = self.select_of_all_rows()
            answers |= {f"ids where every column {kind}, of all rows": ids for kind, ids in selected.items()}
        if self.table.has_row_ids:
            fields = "id, _metadata.row_id, _metadata.row_commit_version"
            answers["row ids"] = self.ask(f"SELECT {fields} FROM {self.name} ORDER BY id")
        return answers

    def travel(self, versions: Sequence[int]) -> Answers:
        """Return the rows of older versions, and what the history says of them."""
        answers = {
            f"rows of version {version}": self.rows(f"{self.name} VERSION AS OF {version}") for version in versions
        }
        history = self.ask(f"SELECT version, operation FROM (DESCRIBE HISTORY {self.name})")
        if isinstance(history, list):
            history = [row for row in history if int(row[0]) <= max(versions)]
        return answers | {"history": history}

    def changes(self, first: int, last: int) -> Answer:
        """Return the change feed of some versions, without their times."""
        source = f"table_changes('{self.name}', {first}, {last})"
        return self.rows(source, leave_out=("_commit_timestamp",))

    def continue_with_merge(self) -> Answers:
        """Return what a MERGE leaves, that updates a row, deletes one and inserts one."""
        answers = {
            "MERGE": self.run(
                "MERGE INTO {table} AS target USING (SELECT explode(array(2L, 3L, 950L)) AS key) AS source"
                f" ON target.id = source.key WHEN MATCHED AND source.key = 2 THEN UPDATE SET v = {self.table.new_value}"
                " WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id) VALUES (source.key)"
            )
        }
        answers["rows after MERGE"] = self.rows(self.name)
        if self.table.has_change_feed:
            version = newest_version(self.directory)
            changes = self.rows(
                f"table_changes('{self.name}', {version})", leave_out=("_commit_timestamp", "_commit_version")
            )
            answers["change feed of MERGE"] = changes
        return answers

    def continue_fully(self, base: int, *, with_stream: bool) -> Answers:
        """Return what further statements of Spark leave, after the MERGE.

        Args:
            base: The version before the change of deltacli, which Spark restores.
            with_stream: Whether a stream reads all versions.
        """
        greatest = self.literals["v"][2]
        answers = {
            "INSERT": self.run("INSERT INTO {table} (id, v) SELECT id + 100, v FROM {table} WHERE id <= 2 ORDER BY id"),
            "UPDATE": self.run(f"UPDATE {{table}} SET v = {self.table.new_value} WHERE id = 1"),
            "DELETE": self.run(f"DELETE FROM {{table}} WHERE v >= {greatest}"),
        }
        answers["rows after INSERT, UPDATE, DELETE"] = self.rows(self.name)
        if with_stream:
            answers["stream"] = self.stream()

        answers["OPTIMIZE"] = self.run("OPTIMIZE {table}")
        answers["ALTER"] = self.run("ALTER TABLE {table} ADD COLUMN added_by_spark INT")
        if self.table.is_mapped:
            answers["RENAME"] = self.run("ALTER TABLE {table} RENAME COLUMN v TO renamed_by_spark")
        answers["rows after OPTIMIZE, ALTER"] = self.rows(self.name)

        answers["RESTORE"] = self.run(f"RESTORE TABLE {{table}} TO VERSION AS OF {base}")
        answers["rows after RESTORE"] = self.rows(self.name)
        answers["VACUUM"] = self.run("VACUUM {table} RETAIN 0 HOURS")
        answers["rows after VACUUM"] = self.rows(self.name)
        return answers

    def stream(self) -> Answer:
        """Return the rows that a streaming query reads that begins with version 0 and stops when it has read all."""
        output = self.directory.with_name(f"{self.directory.name}-stream")
        try:
            reader = self.judge.session.readStream.format("delta").option("startingVersion", "0")
            rows = reader.option("skipChangeCommits", "true").load(str(self.directory)).selectExpr("id", "v")
            writer = rows.writeStream.format("parquet").option("checkpointLocation", str(output / "checkpoint"))
            writer.trigger(availableNow=True).start(str(output / "rows")).awaitTermination()
            return self.rows(f"parquet.`{output / 'rows'}`")
        except Exception as error:  # noqa: BLE001  (whatever the engine raises is its verdict)
            return f"fails: {error_condition(error)}"
        finally:
            shutil.rmtree(output, ignore_errors=True)

    def run(self, statement: str) -> str:
        """Run a statement, and return whether it fails, and how."""
        outcome = self.judge.outcome(statement.replace("{table}", self.name))
        return outcome if isinstance(outcome, str) else "done"

    def ask(self, statement: str) -> Answer:
        """Return the rows of a statement as lists of texts."""
        outcome = self.judge.outcome(statement)
        return outcome if isinstance(outcome, str) else [[str(value) for value in row] for row in outcome]

    def rows(self, source: str, *, leave_out: tuple[str, ...] = ()) -> Answer:
        """Return the rows of a table or function, sorted, with the texts of all values; None stands for null."""
        try:
            fields = self.judge.session.sql(f"SELECT * FROM {source} LIMIT 0").schema.fields
        except Exception as error:  # noqa: BLE001  (whatever the engine raises is its verdict)
            return f"fails: {error_condition(error)}"
        texts = [_text_of(f"`{field.name}`", field.dataType) for field in fields if field.name not in leave_out]
        outcome = self.judge.outcome(f"SELECT {', '.join(texts)} FROM {source}")
        return outcome if isinstance(outcome, str) else sorted((list(row) for row in outcome), key=repr)

    def select_skipping(self) -> Answers:
        """Return the ids of the rows that a condition selects in every compared column at once.

        The rows of the tables are ordered in the same way in all columns, so that such rows exist. One statement asks
        for all kinds of conditions: each has a scan of its own, which skips files and row groups by itself.
        """
        scans = [f"SELECT '{kind}' AS kind, id FROM {self.name} WHERE {self._condition(kind)}" for kind in KINDS]
        outcome = self.judge.outcome(" UNION ALL ".join(scans))
        if isinstance(outcome, str):
            return dict.fromkeys(KINDS, outcome)
        return {kind: sorted(row.id for row in outcome if row.kind == kind) for kind in KINDS}

    def select_of_all_rows(self) -> Answers:
        """Return the same from one scan that reads all rows, so that nothing is skipped.

        The setting that turns skipping off, `spark.databricks.delta.stats.skipping`, lets Spark 4.1 fail with
        "non-pinned table snapshot" where files have deletion vectors.
        """
        conditions = ", ".join(f"{self._condition(kind)} AS `{kind}`" for kind in KINDS)
        outcome = self.judge.outcome(f"SELECT id, {conditions} FROM {self.name}")
        if isinstance(outcome, str):
            return dict.fromkeys(KINDS, outcome)
        return {kind: sorted(row.id for row in outcome if row[kind]) for kind in KINDS}

    def _condition(self, kind: str) -> str:
        """Return the condition that all compared columns are null, or compare in one way with a value of their own."""
        if kind == "IS NULL":
            return " AND ".join(f"{column} IS NULL" for column in self.table.compared)
        operator, place = kind.split()
        number = PLACES.index(place)
        return " AND ".join(f"{column} {operator} {self.literals[column][number]}" for column in self.table.compared)


def newest_version(directory: Path) -> int:
    """Return the number of the newest commit of a table."""
    names = (path.stem for path in (directory / "_delta_log").glob("*.json"))
    return max(int(name) for name in names if name.isdigit())


def find_literals(judge: SparkJudge, table: SparkTable, directory: Path) -> dict[str, list[str]]:
    """Return SQL for the least, the middle and the greatest value of each compared column."""
    types = judge.session.sql(f"SELECT {', '.join(table.compared)} FROM {name_of(directory)} LIMIT 0").schema.fields
    texts = []
    for column, field in zip(table.compared, types, strict=True):
        values = f"sort_array(collect_set({column}))"
        middle = f"{values}[CAST(size({values}) / 2 AS INT)]"
        is_binary = field.dataType.typeName() == "binary"
        for value in (f"min({column})", middle, f"max({column})"):
            texts.append(f"hex({value})" if is_binary else f"hex(CAST({value} AS STRING))")
    (row,) = judge.sql(f"SELECT {', '.join(texts)} FROM {name_of(directory)}")

    literals = {}
    for number, (column, field) in enumerate(zip(table.compared, types, strict=True)):
        digits = row[3 * number : 3 * number + 3]
        kind = field.dataType.simpleString()
        as_binary = [f"X'{value}'" for value in digits]
        literals[column] = (
            as_binary if kind == "binary" else [f"CAST(CAST({x} AS STRING) AS {kind})" for x in as_binary]
        )
    return literals


def _text_of(column: str, data_type: Any) -> str:  # Any: a DataType of Spark
    """Return an expression for the text of a column that differs for values that differ."""
    kind = data_type.typeName()
    if kind == "binary":
        return f"hex({column})"
    if kind in ("struct", "array", "map", "variant"):
        options = "'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'ignoreNullFields', 'false'"
        return f"to_json({column}, map({options}))"
    return f"CAST({column} AS STRING)"
