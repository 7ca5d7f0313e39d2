"""Tables to alter, described by SQL types, and what `alter` makes of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from deltacli.core.errors import DeltacliError
from deltacli.delta.evolution.requests import parse_sql_type
from deltacli.delta.schema.types import StructType, type_json
from deltacli.engine.embedded import EmbeddedEngine
from tests.support.actions import Line, commit_info, domain, metadata, protocol
from tests.support.builder import TableBuilder
from tests.support.committing import infos
from tests.support.in_memory import MemoryStorage
from tests.support.reading import NOW_MS, open_at
from tests.support.validating import validate_table

Json = Any  # Any: JSON values
READERS = (
    "columnMapping",
    "deletionVectors",
    "typeWidening",
    "timestampNtz",
    "variantType",
    "v2Checkpoint",
    "vacuumProtocolCheck",
)


def fields_of(columns: str, extra: Mapping[str, Mapping[str, Json]] | None = None) -> list[dict[str, Json]]:
    """The fields of a schema by its columns in SQL; `extra` are metadata of top-level columns."""
    parsed = parse_sql_type(f"struct<{columns}>")
    assert isinstance(parsed, StructType)
    fields: list[dict[str, Json]] = type_json(parsed)["fields"]
    for field in fields:
        field["metadata"] |= dict((extra or {}).get(field["name"], {}))
    return fields


def table_of(
    columns: str | Sequence[Mapping[str, Json]],
    *,
    partitions: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    versions: tuple[int, int] = (1, 2),
    features: Sequence[str] | None = None,
    clustering: Sequence[Sequence[str]] = (),
    **extra: Mapping[str, Json],
) -> TableBuilder:
    """A table of one commit. `features` are listed; without them the versions alone say what it supports."""
    fields = fields_of(columns, extra) if isinstance(columns, str) else list(columns)
    reader, writer = versions
    born = protocol(reader, writer)
    if features is not None:
        of_readers = [name for name in features if name in READERS]
        born = protocol(3 if of_readers else 1, 7, reader_features=of_readers or None, writer_features=list(features))
    text = json.dumps({"type": "struct", "fields": fields})
    lines: list[Line] = [
        commit_info("CREATE TABLE"),
        born,
        metadata(schema_string=text, partition_columns=list(partitions), configuration=dict(properties or {})),
    ]
    if clustering:
        named = [list(path) for path in clustering]
        lines.append(domain("delta.clustering", json.dumps({"clusteringColumns": named})))
    return TableBuilder().commit(*lines)


class Altering:
    """A table in memory that is altered step by step."""

    def __init__(self, builder: TableBuilder | MemoryStorage) -> None:
        self.storage = builder.in_memory() if isinstance(builder, TableBuilder) else builder
        self.table = open_at(self.storage)

    def make(self, *changes: Mapping[str, Json], consents: bool = True, **how: Any) -> str:  # Any: of Table.alter
        """`ok`, `nothing` or the code of the error."""
        try:
            done = self.table.alter(changes, enable=consents, upgrade_protocol=consents, **how)
        except DeltacliError as error:
            return error.code
        return "nothing" if done.committed_version is None else "ok"

    @property
    def schema(self) -> list[dict[str, Json]]:
        """The fields of the newest schema."""
        found: list[dict[str, Json]] = json.loads(self.table.snapshot().metadata.schema_string or "")["fields"]
        return found

    @property
    def names(self) -> list[str]:
        return [field["name"] for field in self.schema]

    @property
    def properties(self) -> Mapping[str, str]:
        return self.table.snapshot().properties

    @property
    def last_info(self) -> dict[str, Json]:
        """The commitInfo of the newest version."""
        return infos(self.storage)[-1]

    @property
    def parameters(self) -> dict[str, Json]:
        """The operationParameters of the newest version."""
        found: dict[str, Json] = self.last_info["operationParameters"]
        return found

    def field(self, name: str) -> dict[str, Json]:
        """A top-level field of the newest schema."""
        return next(one for one in self.schema if one["name"] == name)

    def ids(self) -> list[int]:
        """The ids of column mapping of the top-level columns."""
        return [field["metadata"]["delta.columnMapping.id"] for field in self.schema]

    def errors(self) -> list[str]:
        """The errors of `validate` on the log."""
        found = validate_table(self.storage, EmbeddedEngine(), now_ms=NOW_MS, level="log")
        return [finding.rule.id for finding in found.findings if finding.severity == "error"]


def change(kind: str, column: str | None = None, **fields: Json) -> dict[str, Json]:
    """A change as JSON."""
    return {"change": kind} | ({} if column is None else {"column": column}) | fields


def add(column: str, data_type: str, **fields: Json) -> dict[str, Json]:
    return change("add", column, type=data_type, **fields)


def rename(column: str, name: str) -> dict[str, Json]:
    return change("rename", column, name=name)


def drop(column: str) -> dict[str, Json]:
    return change("drop", column)


MAPPED = change("mapping", mode="name")


class Case(NamedTuple):
    """`verdict` is of the last change, which the earlier ones precede: `ok`, `nothing`, or the code of the error.
    `seen`: what must hold afterwards. `differs`: how and why the reference does otherwise.
    """

    id: str
    built: Callable[[], TableBuilder]
    changes: Sequence[Mapping[str, Json]]
    verdict: str = "ok"
    seen: Callable[[Altering], object] = lambda _: True
    differs: str = ""

    def check(self) -> None:
        """Make the changes, each as one commit, those of a list together, and compare."""
        table, verdict = Altering(self.built()), ""
        for one in self.changes:
            verdict = table.make(*one["changes"]) if "changes" in one else table.make(one)

        assert self.verdict == verdict
        assert self.seen(table)
        assert [] == (table.errors() if verdict == "ok" else [])


def flat() -> TableBuilder:
    """Two columns."""
    return table_of("v1 int, v2 string")


def nested() -> TableBuilder:
    """Columns of every kind of type with parts."""
    return table_of(
        "v1 int, s struct<a: int, b: string>, xs array<struct<q: int>>, m map<struct<k: int>, struct<v: int>>, "
        "ints array<int>, mi map<int, int>"
    )


def partitioned() -> TableBuilder:
    """A partition column between two others."""
    return table_of("v1 int, p string, v2 string", partitions=["p"])


def names(*expected: str) -> Callable[[Altering], object]:
    """That the table has these columns."""
    return lambda table: list(expected) == table.names
