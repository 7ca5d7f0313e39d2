"""Tables that need care, each in its own way: small files, deleted rows, old logs, files that nothing needs.

Every data file is a real one, with random numbers, so that its size is that of its rows. All was written long ago.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.actions import Action, Line, add, commit_info, domain, metadata, protocol, remove
from tests.support.builder import EPOCH_MS, TableBuilder
from tests.support.small_vectors import inline

Field = dict[str, Any]  # Any: JSON values
VECTORS = {"delta.enableDeletionVectors": "true"}


def column(name: str, kind: str = "long", **field_metadata: object) -> Field:
    return {"name": name, "type": kind, "nullable": True, "metadata": field_metadata}


class SickTable:
    """A table that is built file by file."""

    def __init__(
        self,
        *,
        configuration: Mapping[str, str] | None = None,
        features: Sequence[str] = (),
        partitions: Sequence[str] = (),
        columns: Sequence[Field] = (),
    ) -> None:
        self.columns = [column("id"), column("value", "double"), *columns]
        schema = {"type": "struct", "fields": [*self.columns, *(column(name, "string") for name in partitions)]}
        readers = [name for name in features if name in ("deletionVectors", "columnMapping", "v2Checkpoint")]
        kind = protocol(3 if readers else 1, 7, reader_features=readers or None, writer_features=list(features))
        self.builder = TableBuilder().commit(
            commit_info("CREATE TABLE", engineInfo="builder/1"),
            kind if features else protocol(),
            metadata(
                configuration=dict(configuration or {}),
                partition_columns=list(partitions),
                schema_string=json.dumps(schema),
            ),
        )
        self._random = random.Random(7)
        self._ids = self._files = 0
        self._adds: dict[str, Action] = {}

    def line(
        self,
        rows: int = 20,
        *,
        partition: Mapping[str, str | None] | None = None,
        deleted: int = 0,
        statistics: bool = True,
    ) -> Line:
        """Write a data file, and return its add."""
        name = f"part-{self._files:05d}.parquet"
        self._files += 1
        values: dict[str, list[Any]] = {"id": list(range(self._ids, self._ids + rows))}  # Any: values of columns
        values["value"] = [self._random.random() for _ in range(rows)]
        for one in self.columns[2:]:
            values[one["name"]] = [_value(one, self._random) for _ in range(rows)]
        data = _parquet(values, self.columns)
        self._ids += rows
        self.builder.file(name, data)
        texts = {one["name"]: kind for one in self.columns if (kind := one["type"]) in ("long", "string")}
        bounds = {key: (min(values[key]), max(values[key])) for key in texts}
        stats = {
            "numRecords": rows,
            "minValues": {key: low for key, (low, _) in bounds.items()},
            "maxValues": {key: high for key, (_, high) in bounds.items()},
            "nullCount": dict.fromkeys(values, 0),
        }
        line = add(
            name,
            size=len(data),
            stats=json.dumps(stats) if statistics else None,
            partition_values=partition,
            vector=inline(list(range(deleted))) if deleted else None,
        )
        self._adds[name] = line["add"]
        return line

    def append(self, files: int = 1, *, commits: int = 1, **how: Any) -> SickTable:  # Any: as `line`
        """Append files, as many in each of some commits."""
        for _ in range(commits):
            lines = [self.line(**how) for _ in range(files)]
            self.builder.commit(commit_info("WRITE", engineInfo="builder/1"), *lines)
        return self

    def delete(self, names: Sequence[str]) -> SickTable:
        """Remove files in one commit, long ago."""
        lines = [remove(name, deleted_ms=EPOCH_MS, size=self._adds[name]["size"]) for name in names]
        self.builder.commit(commit_info("DELETE", engineInfo="builder/1"), *lines)
        return self

    def names(self, first: int, last: int) -> list[str]:
        return [f"part-{number:05d}.parquet" for number in range(first, last)]


def _value(field: Field, numbers: random.Random) -> object:
    match field["type"]:
        case "string":
            return f"{'https://example.org/a/long/common/beginning/'}{numbers.random()}"
        case "long":
            return numbers.randrange(1 << 40)
        case _:
            return [numbers.randrange(9)]


def _parquet(values: Mapping[str, list[Any]], columns: Sequence[Field]) -> bytes:  # Any: values of columns
    kinds = {"long": pa.int64(), "double": pa.float64(), "string": pa.string()}
    fields = [pa.field(one["name"], kinds.get(str(one["type"]), pa.list_(pa.int64()))) for one in columns]
    sink = io.BytesIO()
    pq.write_table(pa.table(dict(values), schema=pa.schema(fields)), sink)
    return sink.getvalue()


@dataclass(frozen=True)
class Sick:
    """A sick table: the code of the advice that it must get, and how it is built."""

    name: str
    code: str
    build: Callable[[], TableBuilder]

    def __repr__(self) -> str:
        return self.name


def _small(files: int, **table: Any) -> TableBuilder:  # Any: as `SickTable`
    return SickTable(**table).append(files).builder


def _small_by_partition(partitions: int, files: int, **table: Any) -> TableBuilder:  # Any: as `SickTable`
    made = SickTable(partitions=["day"], **table)
    for number in range(partitions):
        made.append(files, partition={"day": f"2023-01-{number:02d}"})
    return made.builder


def _skewed() -> TableBuilder:
    made = SickTable(partitions=["day"])
    for number in range(8):
        made.append(1, rows=500, partition={"day": str(number)})
    return made.append(60, partition={"day": "a 'hot' one"}).builder


def _deleted(files: int, rows: int, deleted: int, *, partitions: int = 0) -> TableBuilder:
    made = SickTable(configuration=VECTORS, features=["deletionVectors"], partitions=["p"] if partitions else [])
    for number in range(max(partitions, 1)):
        values = {"p": str(number)} if partitions else None
        made.append(files, rows=rows, deleted=deleted, partition=values)
    return made.builder


def _far_from_checkpoint(
    commits: int, *, since: int | None = None, **table: Any
) -> TableBuilder:  # Any: as `SickTable`
    made = SickTable(**table).append(commits=since or 1)
    if since is not None:
        made.builder.checkpoint(since - 1).hint(since - 1)
    return made.append(commits=commits).builder


def _old_log(commits: int, checkpoints: Sequence[int], *, with_checksums: bool = False) -> TableBuilder:
    made = SickTable().append(commits=commits)
    for version in checkpoints:
        made.builder.checkpoint(version)
    if with_checksums:
        for version in range(commits):
            made.builder.file(f"_delta_log/{version:020d}.crc", b"{}" * 100)
    return made.builder.hint(checkpoints[-1])


def _uncommitted(files: int) -> TableBuilder:
    made = SickTable().append(12, rows=2_000)
    for number in range(files):
        made.builder.file(f"part-orphan-{number:03d}.parquet", b"PAR1" * 4_000)
    return made.builder


def _removed(kept: int, removed: int) -> TableBuilder:
    made = SickTable().append(kept + removed, rows=200)
    return made.delete(made.names(0, removed)).builder


def _wide() -> TableBuilder:
    texts = [column(f"text {number}", "string") for number in range(20)]
    lists = [column(f"list{number}", "array") for number in range(12)]
    for one in lists:
        one["type"] = {"type": "array", "elementType": "long", "containsNull": True}
    numbers = [column(f"n{number}") for number in range(10)]
    return SickTable(columns=[*texts, *lists, *numbers]).append(4).builder


def _unused(feature: str, *others: str, properties: Mapping[str, str] | None = None) -> TableBuilder:
    return SickTable(features=[feature, *others], configuration=properties).append(2).builder


def _with_old_domain() -> TableBuilder:
    made = SickTable(features=["domainMetadata"]).append(1)
    made.builder.commit(commit_info("x"), domain("mine")).commit(commit_info("x"), domain("mine", removed=True))
    return made.builder


def _many_partitions() -> TableBuilder:
    made = SickTable(partitions=["user"])
    lines = [made.line(rows=5, partition={"user": f"u{number}"}) for number in range(150)]
    made.builder.commit(commit_info("WRITE"), *lines)
    return made.builder


SICK = (
    Sick("small files", "files.small", partial(_small, 40)),
    Sick("small files in partitions", "files.small", partial(_small_by_partition, 6, 12)),
    Sick("one partition of small files", "files.small", _skewed),
    Sick("small files and vectors", "files.small", partial(_small, 30, features=["deletionVectors"])),
    Sick("half of the rows deleted", "files.deleted-rows", partial(_deleted, 4, 4_000, 2_000)),
    Sick("all rows of all files deleted", "files.deleted-rows", partial(_deleted, 6, 100, 100)),
    Sick("rows deleted in partitions", "files.deleted-rows", partial(_deleted, 3, 3_000, 600, partitions=4)),
    Sick("no checkpoint", "log.checkpoint-distance", partial(_far_from_checkpoint, 40)),
    Sick("a distant checkpoint", "log.checkpoint-distance", partial(_far_from_checkpoint, 45, since=12)),
    Sick(
        "no V2 checkpoint",
        "log.checkpoint-distance",
        partial(_far_from_checkpoint, 30, features=["v2Checkpoint"], configuration={"delta.checkpointPolicy": "v2"}),
    ),
    Sick("an old log", "log.expired", partial(_old_log, 60, [10, 20, 50])),
    Sick("an old log with checksums", "log.expired", partial(_old_log, 40, [30], with_checksums=True)),
    Sick("files of failed writes", "files.unreferenced", partial(_uncommitted, 12)),
    Sick("a few removed files", "files.unreferenced", partial(_removed, 30, 12)),
    Sick("mostly removed files", "files.unreferenced", partial(_removed, 10, 40)),
    Sick("no statistics", "statistics.missing", lambda: SickTable().append(15, rows=200, statistics=False).builder),
    Sick(
        "some without statistics",
        "statistics.missing",
        lambda: SickTable().append(12, rows=300).append(12, rows=100, statistics=False).builder,
    ),
    Sick("long texts before numbers", "statistics.columns", _wide),
    Sick("vectors never used", "features.unused", partial(_unused, "deletionVectors")),
    Sick("no constraint", "features.unused", partial(_unused, "checkConstraints", "appendOnly")),
    Sick("no domain any more", "features.unused", _with_old_domain),
    Sick(
        "a log shorter than its files",
        "retention.out-of-order",
        lambda: (
            SickTable(
                configuration={
                    "delta.logRetentionDuration": "interval 2 days",
                    "delta.deletedFileRetentionDuration": "interval 36 hours 5 days",
                }
            )
            .append(1)
            .builder
        ),
    ),
    Sick("a partition per user", "partitions.too-many", _many_partitions),
)


def healthy() -> TableBuilder:
    """A table about which there is nothing to say."""
    made = SickTable().append(commits=4, rows=5_000)
    made.builder.checkpoint(3).hint(3)
    return made.builder
