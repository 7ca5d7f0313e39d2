"""A case: a table with one feature of Delta, and how Spark builds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.judges.figures import FIGURES
from tests.judges.spark import SparkJudge


@dataclass(frozen=True)
class Case:
    """A table that Spark builds by statements, and, if they cannot say it, by a function.

    Attributes:
        name: The name of the case, "feature-variant".
        columns: The columns of the table, as CREATE TABLE writes them. Without columns, a statement creates the table.
        properties: Its properties, as TBLPROPERTIES writes them.
        clauses: Further clauses of CREATE TABLE, such as PARTITIONED BY.
        statements: What is done then. `{table}` stands for the table, `{location}` for its directory, and `{source}`
            for a table beside it.
        settings: Settings of the session while the table is built.
        finish: Does the rest with the session and the directory of the table.
    """

    name: str
    columns: str = ""
    properties: str = ""
    clauses: str = ""
    statements: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    finish: Callable[[SparkJudge, Path], None] | None = None

    def build(self, spark: SparkJudge, directory: Path) -> Path:
        """Build the table in a directory of its own below `directory`, and return it."""
        table = directory / "table"
        with spark.settings(self.settings):
            if self.columns:
                spark.create(table, self.columns, properties=self.properties, clauses=self.clauses)
            else:
                FIGURES["tables"] += 1
            for statement in self.statements:
                with_source = statement.replace("{source}", f"delta.`{directory}/source`")
                spark.run(table, with_source.replace("{location}", str(table)))
            if self.finish is not None:
                self.finish(spark, table)
        return table
