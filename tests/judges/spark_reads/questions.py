"""The questions about a table that Spark and deltacli both answer, and the comparison of their answers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.compute as pc

from deltacli import DeltacliError, open_table
from tests.judges.answers import Comparison
from tests.judges.commands import deltacli
from tests.judges.figures import FIGURES
from tests.judges.spark import SparkJudge, name_of
from tests.judges.spark_reads.conditions import list_conditions
from tests.judges.spark_reads.exact_values import MISSING_VARIANT, describe_columns, list_rows

MILLISECOND = timedelta(milliseconds=1)

OLD_SECONDS = 86_400

FEATURE_VERSION = 7
"""From this version of the writer protocol on, a protocol lists its features."""

QUESTION = "__question"
"""Begins the names of columns that are added to answers of Spark."""


@dataclass
class Questions:
    """Asks Spark and deltacli about one table.

    Attributes:
        spark: The session that has written the table.
        table: The directory of the table.
        comparison: Collects the differences.
        history: DESCRIBE HISTORY, the newest version first; filled by `ask_history`, which comes first.
        properties: Those of DESCRIBE DETAIL; filled by `ask_detail`, which comes second.
    """

    spark: SparkJudge
    table: Path
    comparison: Comparison
    history: list[dict[str, Any]] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)

    @property
    def opened(self) -> Any:  # Any: a Table of the Python API
        """The table as deltacli opens it. Sources of shallow clones are beside the table."""
        return open_table(str(self.table), allow_external=[str(self.table.parent)])

    def ask_everything(self) -> None:
        """Ask all questions. None of them changes the table."""
        self.ask_history()
        self.ask_detail()
        self.ask_versions()
        self.ask_times()
        self.ask_conditions()
        self.ask_row_ids()
        self.ask_changes()
        self.ask_vacuum()
        self.ask_validate()

    def ask_history(self) -> None:
        """Compare `history` with DESCRIBE HISTORY, commit by commit."""
        self.history = [row.asDict() for row in self.spark.sql(f"DESCRIBE HISTORY {name_of(self.table)}")]
        commits = deltacli("history", self.table, "--limit", "0", "--json").document()["items"]
        self.comparison.equal(
            "history: versions", [row["version"] for row in self.history], [commit["version"] for commit in commits]
        )
        for row, commit in zip(self.history, commits, strict=False):
            version = row["version"]
            self.comparison.equal(
                f"history: timestamp of {version}", to_milliseconds(row["timestamp"]), commit["timestampMs"]
            )
            for name in ("operation", "readVersion", "isolationLevel", "isBlindAppend", "userMetadata", "engineInfo"):
                self.comparison.equal(f"history: {name} of {version}", row[name], commit.get(name))
            for name in ("operationParameters", "operationMetrics"):
                self.comparison.equal(
                    f"history: {name} of {version}", row[name] or {}, write_as_spark(commit.get(name) or {})
                )

    def ask_detail(self) -> None:
        """Compare `snapshot` with DESCRIBE DETAIL."""
        detail = self.spark.sql(f"DESCRIBE DETAIL {name_of(self.table)}")[0].asDict()
        self.properties = detail["properties"]
        document = deltacli("snapshot", self.table, "--json").document()
        metadata = document["metadata"]
        protocol = document["protocol"]
        answers = {
            "format": metadata["format"]["provider"],
            "id": metadata["id"],
            "name": metadata.get("name"),
            "description": metadata.get("description"),
            "partitionColumns": metadata["partitionColumns"],
            "clusteringColumns": find_clustering_columns(document),
            "numFiles": document["files"]["count"],
            "sizeInBytes": document["files"]["sizeBytes"],
            "properties": metadata["configuration"],
            "minReaderVersion": protocol["minReaderVersion"],
            "minWriterVersion": protocol["minWriterVersion"],
        }
        expected = {name: detail[name] for name in answers}
        expected["format"] = "parquet"  # Spark says that the table is Delta
        if protocol["minWriterVersion"] >= FEATURE_VERSION:
            listed = {*protocol.get("readerFeatures", ()), *protocol.get("writerFeatures", ())}
            answers["tableFeatures"] = sorted(listed)
            expected["tableFeatures"] = sorted(detail["tableFeatures"])
        for name, actual in answers.items():
            self.comparison.equal(f"detail: {name}", expected[name], actual)
        created = metadata.get("createdTime")
        self.comparison.equal("detail: createdAt", to_milliseconds(detail["createdAt"]), created)
        # DESCRIBE DETAIL shows the time of the file also where the commit has a timestamp, unlike DESCRIBE HISTORY.
        has_timestamp = document["timestampSource"] == "inCommitTimestamp"
        modified = self.history[0]["timestamp"] if has_timestamp else detail["lastModified"]
        self.comparison.equal("detail: lastModified", to_milliseconds(modified), document["timestampMs"])

    def ask_versions(self) -> None:
        """Compare the columns and rows of every version that has a commit."""
        for row in self.history:
            version = row["version"]
            expected = self._answer_of_spark(f"SELECT * FROM {name_of(self.table)} VERSION AS OF {version}")
            self._compare_rows(f"version {version}", expected, self._scan(version))

    def ask_times(self) -> None:
        """Compare which version is that of a time: of each commit, and a millisecond before and after it.

        Spark refuses times after the last commit, for which deltacli has the newest version, so nobody is asked.
        """
        newest = self.history[0]["version"]
        for row in self.history:
            for label, offset in (("before", -MILLISECOND), ("at", 0 * MILLISECOND), ("after", MILLISECOND)):
                if label == "after" and row["version"] == newest:
                    continue
                moment = row["timestamp"].astimezone(UTC) + offset
                expected = self._version_of_spark(moment)
                actual = self._version_of_deltacli(moment)
                self.comparison.equal(f"{label} the time of {row['version']}", expected, actual)

    def ask_conditions(self) -> None:
        """Compare the rows that match conditions on every column, with and without Spark's data skipping."""
        conditions = list_conditions(self.opened.snapshot().scan().to_arrow())
        actual = {question: list_answer(self._scan(where=text)) for question, text in conditions.items()}
        source = self._projected(f"SELECT * FROM {name_of(self.table)}")

        # Without skipping, one scan answers all: a condition is a column.
        answers = ", ".join(f"({text}) AS {QUESTION}_{number}" for number, text in enumerate(conditions.values()))
        marked = self._arrow(f"SELECT {source}, {answers} FROM {name_of(self.table)}")
        width = marked.num_columns - len(conditions)
        for number, question in enumerate(conditions):
            matching = marked.filter(marked.column(width + number)).select(range(width))
            self.comparison.equal(f"where {question}", list_rows(matching), actual[question])

        # With skipping, each condition is a scan. Those around the middle cannot ask the bounds of a file more.
        skippable = [question for question in conditions if not question.endswith("middle")]
        selects = [
            f"SELECT {number} AS {QUESTION}, {source} FROM {name_of(self.table)} WHERE {conditions[question]}"
            for number, question in enumerate(skippable)
        ]
        skipped = self._arrow(" UNION ALL ".join(selects))
        for number, question in enumerate(skippable):
            matching = skipped.filter(pc.equal(skipped.column(0), number)).select(range(1, width + 1))
            self.comparison.equal(f"where {question}, skipping", list_rows(matching), actual[question])

    def ask_row_ids(self) -> None:
        """Compare the ids of rows of a table with row tracking."""
        if self.properties.get("delta.enableRowTracking") != "true":
            return
        columns = "*, _metadata.row_id AS _row_id, _metadata.row_commit_version AS _row_commit_version"
        expected = self._answer_of_spark(f"SELECT {columns} FROM {name_of(self.table)}")
        self._compare_rows("row ids", expected, self._scan(row_ids=True))

    def ask_changes(self) -> None:
        """Compare the change feed from every version on, and of every version alone where a range is refused."""
        if "enableChangeDataFeed" not in repr((self.properties, self.history)):
            return
        versions = sorted(row["version"] for row in self.history)
        newest = versions[-1]
        for first in versions:
            expected = self._changes_of_spark(first, newest)
            if not isinstance(expected, str):
                self._compare_rows(f"changes from {first}", expected, self._changes_of_deltacli(first, newest))
                return
            # Spark refuses a range that begins before the feed was enabled, or across some changes of the schema.
            expected = self._changes_of_spark(first, first)
            if not isinstance(expected, str):
                self._compare_rows(f"changes of {first}", expected, self._changes_of_deltacli(first, first))

    def ask_vacuum(self) -> None:
        """Compare the files that a vacuum would delete, without retention and with the table's own."""
        options = ("--retention", "0h", "--allow-retention-below", "100000d")
        self.comparison.equal(
            "vacuum, no retention", self._vacuum_of_spark("RETAIN 0 HOURS"), self._vacuum_of_deltacli(*options)
        )
        # Spark takes seconds for each vacuum, and nothing can be too old for it in a table of this minute.
        has_old_files = any(path.stat().st_mtime < time.time() - OLD_SECONDS for path in self.table.rglob("*.parquet"))
        expected = self._vacuum_of_spark("") if has_old_files else []
        self.comparison.equal("vacuum", expected, self._vacuum_of_deltacli())

    def _vacuum_of_spark(self, clause: str) -> list[str]:
        with self.spark.settings({"spark.databricks.delta.retentionDurationCheck.enabled": "false"}):
            rows = self.spark.sql(f"VACUUM {name_of(self.table)} {clause} DRY RUN")
        paths = [Path(unquote(urlparse(row["path"]).path)) for row in rows]
        # Spark also names directories, which it deletes if they are empty by then.
        return sorted(str(path.relative_to(self.table)) for path in paths if not path.is_dir())

    def _vacuum_of_deltacli(self, *options: str) -> list[str]:
        arguments = ("--dry-run", "--files", "--json", "--max-delete", "100%", *options)
        plan = deltacli("vacuum", self.table, *arguments).document()
        return sorted(unquote(item["path"]) for item in plan["items"])

    def ask_validate(self) -> None:
        """Require that `validate` finds nothing: Spark wrote the table, and nobody damaged it."""
        arguments = ("validate", self.table, "--level", "data", "--json", "--allow-external", self.table.parent)
        document = deltacli(*arguments, codes=(0, 1)).document()
        findings = [finding for table in document["tables"] for finding in table["findings"]]
        serious = [finding for finding in findings if finding["severity"] != "info"]
        for rule in sorted({finding["rule"] for finding in serious}):
            messages = [finding["message"] for finding in serious if finding["rule"] == rule]
            self.comparison.equal(f"validate: {rule}", [], messages)

    def _scan(self, version: int | None = None, **options: Any) -> pa.Table | str:
        return answer(lambda: self.opened.snapshot(version=version).scan(**options).to_arrow())

    def _changes_of_deltacli(self, first: int, last: int) -> pa.Table | str:
        return answer(lambda: self.opened.changes(from_version=first, to_version=last).to_arrow())

    def _version_of_deltacli(self, moment: datetime) -> Any:  # Any: a version, or REFUSED
        return answer(lambda: self.opened.snapshot(timestamp=moment).version)

    def _answer_of_spark(self, statement: str) -> pa.Table | str:
        return answer(lambda: self._arrow(f"SELECT {self._projected(statement)} FROM ({statement})"))

    def _arrow(self, statement: str) -> pa.Table:
        FIGURES["statements"] += 1
        return self.spark.session.sql(statement).toArrow()

    def _projected(self, statement: str) -> str:
        """Return the columns of a statement in a form that Spark can export: null variants are text."""
        columns = []
        for column in self.spark.session.sql(statement).schema:
            name = f"`{column.name.replace('`', '``')}`"
            is_variant = column.dataType.typeName() == "variant"
            columns.append(f"coalesce({name}, parse_json('\"{MISSING_VARIANT}\"')) AS {name}" if is_variant else name)
        return ", ".join(columns)

    def _changes_of_spark(self, first: int, last: int) -> pa.Table | str:
        FIGURES["statements"] += 1
        reader = self.spark.session.read.format("delta").option("readChangeFeed", "true")
        ranged = reader.option("startingVersion", first).option("endingVersion", last)
        return answer(lambda: ranged.load(str(self.table)).toArrow())

    def _version_of_spark(self, moment: datetime) -> Any:  # Any: a version, or REFUSED
        """Return the version that TIMESTAMP AS OF reads, without reading it."""
        FIGURES["statements"] += 1
        jvm = self.spark.session._jvm
        log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(self.spark.session._jsparkSession, str(self.table))
        at = jvm.java.sql.Timestamp(round(moment.timestamp() * 1000))
        without_catalog = jvm.scala.Option.empty()
        return answer(lambda: log.history().getActiveCommitAtTime(at, without_catalog, False, True, False).version())

    def _compare_rows(self, question: str, expected: pa.Table | str, actual: pa.Table | str) -> None:
        if not isinstance(expected, str) and not isinstance(actual, str):
            columns = describe_columns(expected.schema)
            self.comparison.equal(f"{question}, columns", columns, describe_columns(actual.schema))
        self.comparison.equal(question, list_answer(expected), list_answer(actual))


REFUSED = "fails"
"""The answer of an engine that refuses to give one."""


def answer(ask: Callable[[], Any]) -> Any:  # Any: an answer
    """Return an answer, or `REFUSED` if the engine raises an error. Other errors are faults of the test."""
    try:
        return ask()
    except DeltacliError:
        return REFUSED
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark", "py4j")):
            raise
        return REFUSED


def list_answer(rows: pa.Table | str) -> list[tuple[Any, ...]] | str:
    """Return the rows of an answer in an order of their own, or `REFUSED`."""
    return rows if isinstance(rows, str) else list_rows(rows)


def to_milliseconds(moment: datetime | None) -> int | None:
    """Return epoch milliseconds of a time of a row of Spark, which pyspark returns in the zone of this process."""
    return None if moment is None else round(moment.timestamp() * 1000)


def write_as_spark(values: Mapping[str, Any]) -> dict[str, str | None]:
    """Return parameters as DESCRIBE HISTORY shows them: what is no text as JSON."""
    return {
        name: value if value is None or isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        for name, value in values.items()
    }


def find_clustering_columns(document: Mapping[str, Any]) -> list[str]:
    """Return the clustering columns of a snapshot under their logical names."""
    domains = {domain["domain"]: json.loads(domain["configuration"]) for domain in document["domains"]}
    paths = domains.get("delta.clustering", {}).get("clusteringColumns", [])
    fields = json.loads(document["metadata"]["schemaString"])["fields"]
    return [".".join(_find_logical_names(path, fields)) for path in paths]


def _find_logical_names(path: list[str], fields: list[dict[str, Any]]) -> list[str]:
    names = []
    for physical_name in path:
        matching = [each for each in fields if _physical_name(each) == physical_name]
        names.append(matching[0]["name"])
        kind = matching[0]["type"]
        fields = kind.get("fields", []) if isinstance(kind, dict) else []
    return names


def _physical_name(column: dict[str, Any]) -> str:
    return str(column["metadata"].get("delta.columnMapping.physicalName", column["name"]))
