"""Asking Delta for Spark about tables that are directories."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.judges.figures import FIGURES


class SparkJudge:
    """A Spark session that tests ask about tables, which they name by directory.

    Attributes:
        session: The SparkSession, for everything that has no method here.
    """

    def __init__(self, session: Any) -> None:  # Any: a SparkSession, which has no types here
        self.session = session

    def sql(self, statement: str) -> list[Any]:  # Any: rows of Spark
        """Run a statement and return its rows."""
        FIGURES["statements"] += 1
        return list(self.session.sql(statement).collect())

    def outcome(self, statement: str) -> list[Any] | str:  # Any: rows of Spark
        """Run a statement and return its rows, or the class and condition of the error, such as "[UNSUPPORTED.X]"."""
        try:
            return self.sql(statement)
        except Exception as error:  # noqa: BLE001  (whatever the engine raises is its verdict)
            return f"fails: {error_condition(error)}"

    def create(self, directory: Path, columns: str, *statements: str, properties: str = "", clauses: str = "") -> Path:
        """Create a table and run statements on it, in which `{table}` stands for its name."""
        FIGURES["tables"] += 1
        listed = f"TBLPROPERTIES ({properties})" if properties else ""
        self.sql(f"CREATE TABLE {name_of(directory)} ({columns}) USING delta {clauses} {listed}")
        self.run(directory, *statements)
        return directory

    def run(self, directory: Path, *statements: str) -> None:
        """Run statements in which `{table}` stands for the name of the table."""
        for statement in statements:
            self.sql(statement.replace("{table}", name_of(directory)))

    def forget_tables(self) -> None:
        """Let Delta forget the tables that it has read, which it keeps for an hour each, with plans of their state."""
        self.session._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        self.session.catalog.clearCache()

    @contextmanager
    def settings(self, values: Mapping[str, str]) -> Iterator[None]:
        """Change settings of the session while a block runs."""
        before = {name: self.session.conf.get(name, None) for name in values}
        for name, value in values.items():
            self.session.conf.set(name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    self.session.conf.unset(name)
                else:
                    self.session.conf.set(name, value)

    def rows(self, directory: Path, condition: str = "", columns: str = "*") -> list[tuple[Any, ...]]:
        """Return the rows of a table as tuples, in an order of their own: that of their representation."""
        where = f" WHERE {condition}" if condition else ""
        found = self.sql(f"SELECT {columns} FROM {name_of(directory)}{where}")
        return sorted((tuple(row) for row in found), key=repr)


def name_of(directory: Path) -> str:
    """Return the name of a table that is a directory, as SQL of Spark writes it."""
    return f"delta.`{directory}`"


def copy_table(source: Path, target: Path) -> Path:
    """Copy a table's directory with all its files, also hidden ones, and return the copy.

    Spark caches the log of a directory that it has read. A copy under a new name is read from its files.
    """
    shutil.copytree(source, target, symlinks=True)
    return target


def error_condition(error: Exception) -> str:
    """Return what kind of error an engine raised: its condition in brackets, or else the beginning of its message."""
    text = str(error)
    match = re.search(r"\[[A-Z0-9_.]+\]|[A-Za-z.]+Exception", text)
    return match[0] if match else text[:200]
