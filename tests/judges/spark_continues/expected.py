"""What is expected of a changed table: what Spark says about the table of its own that deltacli has not touched.

Tables and answers are kept below one directory, so that each is made once, also when several processes run tests.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.judges.spark import SparkJudge, copy_table
from tests.judges.spark_continues.changes import Change
from tests.judges.spark_continues.questions import Answers, TableQuestions, find_literals, newest_version
from tests.judges.spark_continues.tables import SparkTable


@dataclass(frozen=True)
class SparkTables:
    """The tables that Spark has written, and its answers about them.

    Attributes:
        judge: Spark.
        home: Where tables and answers are kept.
    """

    judge: SparkJudge
    home: Path

    def original(self, table: SparkTable) -> Path:
        """Return the directory of a table as Spark has written it. Nobody may change it."""
        directory = self.home / table.name / "original"
        with _locked(self.home / f"{table.name}.lock"):
            done = directory.with_name("original.done")
            if not done.exists():
                directory.parent.mkdir()
                self.judge.create(
                    directory, table.columns, *table.statements, properties=table.properties, clauses=table.clauses
                )
                done.touch()
        return directory

    def literals(self, table: SparkTable) -> dict[str, list[str]]:
        """Return the values that conditions compare the columns of a table with."""
        original = self.original(table)
        literals: dict[str, list[str]] = self._once(
            table, "literals", lambda: find_literals(self.judge, table, original)
        )
        return literals

    def questions(self, table: SparkTable, directory: Path) -> TableQuestions:
        """Return the questions about a directory that nobody has asked about yet."""
        return TableQuestions(self.judge, table, directory, self.literals(table))

    def base_version(self, table: SparkTable) -> int:
        """Return the newest version of a table as Spark has written it."""
        return newest_version(self.original(table))

    def answers(self, change: Change, table: SparkTable) -> Answers:
        """Return the answers that are expected after a change: those about a twin of the table.

        Spark itself changes the twin, if it has statements that do the same. Other changes leave the answers as they
        were before, so that one twin is enough for all of them.
        """
        fully = table.name in change.fully_on
        name = change.name if change.same_as else "unchanged"
        name += "-fully" if fully else ""
        answers: Answers = self._once(
            table, f"twin-{name}", lambda: self._ask_twin(name, table, change.same_as, fully=fully)
        )
        return answers

    def _ask_twin(self, name: str, table: SparkTable, statements: tuple[str, ...], *, fully: bool) -> Answers:
        original = self.original(table)
        twin = copy_table(original, original.with_name(f"twin-{name}"))
        base = self.base_version(table)
        self.judge.run(twin, *statements)
        return interview(self.questions(table, twin), base, fully=fully, with_history=True)

    def _once(self, table: SparkTable, name: str, compute: Callable[[], Any]) -> Any:  # Any: a JSON value
        self.original(table)
        path = self.home / table.name / f"{name}.json"
        with _locked(path.with_suffix(".lock")):
            if not path.exists():
                path.write_text(json.dumps(compute()))
        return json.loads(path.read_text())


def interview(questions: TableQuestions, base: int, *, fully: bool, with_history: bool) -> Answers:
    """Ask everything about a table, and return the answers.

    Args:
        questions: The table. Spark changes it.
        base: The newest version before the change.
        fully: Whether Spark continues with all statements instead of a MERGE only.
        with_history: Whether versions before the change can be read, and streams and change feeds begin with them.
    """
    table = questions.table
    answers = questions.read(fully=fully)
    if with_history:
        answers |= questions.travel([base // 2, base] if fully else [base])
    if with_history and table.has_change_feed:
        answers["change feed before"] = questions.changes(table.feed_from, base)
        newest = newest_version(questions.directory)
        answers["change feed of the change"] = questions.changes(base + 1, newest) if newest > base else []
    answers |= questions.continue_with_merge()
    if fully:
        answers |= questions.continue_fully(base, with_stream=with_history and table.reads_stream)
    # The expected answers have been in a file, which has lists where rows have tuples.
    as_in_file: Answers = json.loads(json.dumps(answers))
    return as_in_file


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep other processes out while something is made that they need, too."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
