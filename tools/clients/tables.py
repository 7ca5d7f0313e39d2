"""Tables by which clients are measured: one for each feature that is only supported, and one for each that is used."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from deltacli.delta.partitions.values import format_partition_directory
from deltacli.delta.protocol.features import FEATURES, FeatureKind
from deltacli.delta.schema.to_arrow import table_schema
from tests.support.small_vectors import inline

Json = Any  # Any: JSON values
Column = dict[str, Json]


@dataclass(frozen=True)
class Case:
    """A table that has one trait. `features` are listed by its protocol; None: it has the version pair `versions`.

    `schema` changes the fields of the schema; `stored` is the content of the data file where it is not `rows`. With
    `partitions` each row is in a file of its own, with these partition values, in the directory that Hive gives it.
    """

    trait: str
    rows: pa.Table
    features: tuple[str, ...] | None = ()
    versions: tuple[int, int] = (1, 2)
    properties: Mapping[str, str] = field(default_factory=dict)
    schema: Callable[[list[Column]], object] = lambda _: None
    partition: Mapping[str, str] = field(default_factory=dict)
    partitions: Sequence[Mapping[str, str | None]] = ()
    stored: pa.Table | None = None
    lines: Sequence[Json] = ()
    of_add: Mapping[str, Json] = field(default_factory=dict)
    with_checkpoint: bool = False
    written_as: Mapping[str, bool] = field(default_factory=dict)
    """Options by which pyarrow writes the data files."""
    outside: bool = False
    """Its data file is beside the table, and named by its absolute path."""

    def write(self, root: Path) -> Path:
        """Write the table into a new directory below `root`, and return it."""
        place = root / self.trait
        log = place / "_delta_log"
        log.mkdir(parents=True)
        fields: list[Column] = table_schema(self.rows.schema)["fields"]
        for one in fields:
            one["nullable"] = True
        self.schema(fields)
        names = {one["name"]: _physical(one) for one in fields}
        adds = [{"add": add} for add in self._write_files(root if self.outside else place, names)]
        metadata = {
            "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": list(self._partition_values()[0]),
            "configuration": dict(self.properties),
            "createdTime": _AT_MS,
        }
        info = {"timestamp": _AT_MS, "operation": "WRITE", "operationParameters": {}, "inCommitTimestamp": _AT_MS}
        lines = [
            {"commitInfo": info},
            {"protocol": self._protocol()},
            {"metaData": metadata},
            *adds,
            *self.lines,
        ]
        (log / f"{0:020}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
        if self.with_checkpoint:
            from deltacli import open_table

            open_table(place).checkpoint(layout="v2")
        return place

    def _partition_values(self) -> Sequence[Mapping[str, str | None]]:
        """Return the partition values of each data file."""
        return self.partitions or [self.partition]

    def _write_files(self, directory: Path, names: Mapping[str, str]) -> Iterator[Json]:
        """Write the data files, and yield the add of each. `names` are the physical names of the columns."""
        content = self.rows if self.stored is None else self.stored
        for number, values in enumerate(self._partition_values()):
            rows = content.slice(number, 1) if self.partitions else content
            path = f"{format_partition_directory(values) if self.partitions else ''}/part-{number}.parquet".lstrip("/")
            file = directory / path
            file.parent.mkdir(parents=True, exist_ok=True)
            stored = rows.drop_columns([name for name in values if name in rows.column_names])
            pq.write_table(stored, file, **self.written_as)
            yield {
                "path": file.as_uri() if self.outside else quote(path),
                "partitionValues": {names[name]: value for name, value in values.items()},
                "size": file.stat().st_size,
                "modificationTime": _AT_MS,
                "dataChange": True,
                "stats": json.dumps({"numRecords": rows.num_rows}),
                **self.of_add,
            }

    def _protocol(self) -> Json:
        if self.features is None:
            return {"minReaderVersion": self.versions[0], "minWriterVersion": self.versions[1]}
        of_readers = [one for one in self.features if FEATURES[one].kind is FeatureKind.READER_WRITER]
        found: Json = {"minReaderVersion": 3 if of_readers else 1, "minWriterVersion": 7}
        if of_readers:
            found["readerFeatures"] = of_readers
        return found | {"writerFeatures": list(self.features)}


_AT_MS = 1_767_225_600_000


def _physical(one: Column) -> str:
    return str(one["metadata"].get("delta.columnMapping.physicalName", one["name"]))


PLAIN = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "s": ["a", "b", None]})
_NESTED = pa.table(
    {
        "id": pa.array([1, 2], pa.int64()),
        "xs": pa.array([[{"u": 1}], [{"u": 2}]], pa.list_(pa.struct([("u", pa.int32())]))),
    }
)


def supported(feature: str) -> Case:
    """Return a table whose protocol lists a feature, and those that it needs, and that uses none."""
    return Case(feature, PLAIN, _with_needs(feature))


def _with_needs(feature: str) -> tuple[str, ...]:
    names = dict.fromkeys([feature])
    for one in FEATURES[feature].requires:
        names |= dict.fromkeys(_with_needs(one))
    return tuple(names)


def _of(column: str, **metadata: Json) -> Callable[[list[Column]], None]:
    def change(fields: list[Column]) -> None:
        for one in fields:
            if one["name"] == column:
                one["metadata"] |= metadata

    return change


def _typed(column: str, data_type: Json) -> Callable[[list[Column]], None]:
    def change(fields: list[Column]) -> None:
        for one in fields:
            if one["name"] == column:
                one["type"] = data_type

    return change


def _mapped(fields: list[Column]) -> None:
    """Give every field an id and a physical name, nested ones too."""
    number = 0

    def visit(one: Column) -> None:
        nonlocal number
        number += 1
        one["metadata"] |= {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"}
        inner = one["type"]
        while isinstance(inner, dict) and inner["type"] in ("array", "map"):
            inner = inner["elementType" if inner["type"] == "array" else "valueType"]
        for each in inner["fields"] if isinstance(inner, dict) else ():
            visit(each)

    for one in fields:
        visit(one)


def _field(name: str, kind: Any, number: int) -> Any:  # Any: pyarrow has no types
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


def _stored(*columns: tuple[Any, Any, int]) -> pa.Table:  # Any: pyarrow has no types
    """Return columns as they are stored under column mapping: values, type and number of each."""
    fields = [_field(f"col-{number}", kind, number) for _, kind, number in columns]
    return pa.table([pa.array(values, kind) for values, kind, _ in columns], schema=pa.schema(fields))


_MAPPED_PLAIN = _stored(([1, 2, 3], pa.int64(), 1), (["a", "b", None], pa.string(), 2))
_STRUCTS = pa.list_(pa.field("element", pa.struct([_field("col-3", pa.int32(), 3)])))
_MAPPED_NESTED = _stored(([1, 2], pa.int64(), 1), ([[{"col-3": 1}], [{"col-3": 2}]], _STRUCTS, 2))
_VARIANTS = pa.array(
    [{"metadata": b"\x01\x00\x00", "value": bytes([0x0C, number])} for number in (1, 2, 3)],
    pa.struct([pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)]),
)
_IDS = pa.array([1, 2], pa.int64())
_MAPS = pa.array([[("a", 1)], [("b", 2)]], pa.map_(pa.string(), pa.int64()))
_WITH_VARIANT = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "v": _VARIANTS})
_NTZ = pa.table({"id": _IDS, "t": pa.array([0, 1], pa.timestamp("us"))})
_WIDE = pa.table({"id": _IDS, "n": pa.array([1, 2], pa.int64())})
_NARROW = pa.table({"id": _IDS, "n": pa.array([1, 2], pa.int32())})
_MONTHS = pa.array([1, 14], pa.int32())
_TYPE_CHANGES = [{"fromType": "integer", "toType": "long"}]
_MAPPING = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "9"}
_BY_ID = {**_MAPPING, "delta.columnMapping.mode": "id"}


def _partitioned(value: Any, kind: Any) -> pa.Table:  # Any: pyarrow has no types
    return pa.table({"id": _IDS, "p": pa.array([value, value], kind)})


def _domain(name: str, configuration: str) -> Json:
    return {"domainMetadata": {"domain": name, "configuration": configuration, "removed": False}}


def _used(feature: str, rows: pa.Table = PLAIN, trait: str = "used", **parts: Any) -> Case:  # Any: fields of a case
    return Case(f"{feature}.{trait}", rows, _with_needs(feature), **parts)


def _switched(feature: str) -> Case:
    """Return a table whose property turns a feature on."""
    return _used(feature, properties={str(FEATURES[feature].enabled_by): "true"})


def _widened(feature: str) -> Case:
    changed = _of("n", **{"delta.typeChanges": _TYPE_CHANGES})
    return _used(feature, _WIDE, properties={"delta.enableTypeWidening": "true"}, stored=_NARROW, schema=changed)


def _iceberg(feature: str) -> Case:
    properties = {**_MAPPING, f"delta.enableI{feature[1:]}": "true"}
    return _used(feature, properties=properties, schema=_mapped, stored=_MAPPED_PLAIN)


def _widened_partition(kind: str, data_type: Any, text: str, value: Any) -> Case:  # Any: pyarrow has no types
    """Return a table whose partition column has a wider type than when its value was written."""
    wider, narrower = ("timestamp_ntz", "date") if kind == "date" else ("decimal(7,4)", "decimal(5,2)")
    change = _of("p", **{"delta.typeChanges": [{"fromType": narrower, "toType": wider}]})
    features = ("typeWidening", *(["timestampNtz"] if kind == "date" else []))
    return Case(
        f"widen.partition-{kind}", _partitioned(value, data_type), features, partition={"p": text}, schema=change
    )


def _in_partitions(
    kind: str, data_type: Any, values: Mapping[str, Any], features: tuple[str, ...] | None = None
) -> Case:  # Any: pyarrow has no types
    """Return a table with a file for each value of a partition column, by the text of the value in the log."""
    rows = pa.table({"id": pa.array(range(len(values)), pa.int64()), "p": pa.array(list(values.values()), data_type)})
    return Case(f"partition.{kind}", rows, features, partitions=[{"p": text} for text in values])


def _decimals(*texts: str) -> dict[str, Decimal]:
    return {text: Decimal(text) for text in texts}


def _times(zone: tzinfo | None, form: str) -> dict[str, datetime]:
    """Return times of today and of a year that few clients have in nanoseconds, by their texts."""
    times = (datetime(2024, 1, 2, 3, 4, 5, 6000, zone), datetime(1500, 1, 2, 3, 4, 5, 0, zone))
    return {time.strftime(form): time for time in times}


_TRACKED = {
    "delta.enableRowTracking": "true",
    "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-1",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-commit-version-col-1",
}
_IDENTITY = {
    "delta.identity.start": 1,
    "delta.identity.step": 1,
    "delta.identity.highWaterMark": 3,
    "delta.identity.allowExplicitInsert": True,
}

USED: tuple[Case, ...] = (
    _switched("appendOnly"),
    _used("invariants", schema=_of("id", **{"delta.invariants": '{"expression":{"expression":"id > 0"}}'})),
    _used("checkConstraints", properties={"delta.constraints.positive": "id > 0"}),
    _switched("changeDataFeed"),
    _used(
        "generatedColumns",
        pa.table({"id": _IDS, "s": ["1", "2"]}),
        schema=_of("s", **{"delta.generationExpression": "CAST(id AS STRING)"}),
    ),
    _used("columnMapping", properties=_MAPPING, schema=_mapped, stored=_MAPPED_PLAIN),
    _used("columnMapping", trait="by-id", properties=_BY_ID, schema=_mapped, stored=_MAPPED_PLAIN),
    _used("columnMapping", _NESTED, "in-arrays", properties=_MAPPING, schema=_mapped, stored=_MAPPED_NESTED),
    _used(
        "columnMapping",
        _partitioned("x", pa.string()),
        "by-id-partition",
        properties=_BY_ID,
        schema=_mapped,
        partition={"p": "x"},
        stored=_stored(([1, 2], pa.int64(), 1)),
    ),
    _used(
        "columnMapping",
        _partitioned("x", pa.string()),
        "by-name-partition",
        properties=_MAPPING,
        schema=_mapped,
        partition={"p": "x"},
        stored=_stored(([1, 2], pa.int64(), 1)),
    ),
    _used("identityColumns", schema=_of("id", **_IDENTITY)),
    _used("allowColumnDefaults", schema=_of("s", CURRENT_DEFAULT="'x'")),
    _used(
        "deletionVectors",
        PLAIN.slice(1),
        properties={"delta.enableDeletionVectors": "true"},
        stored=PLAIN,
        of_add={"deletionVector": inline([0]), "stats": json.dumps({"numRecords": 3})},
    ),
    _used(
        "rowTracking",
        properties=_TRACKED,
        of_add={"baseRowId": 0, "defaultRowCommitVersion": 0},
        lines=[_domain("delta.rowTracking", '{"rowIdHighWaterMark":2}')],
    ),
    _used("timestampNtz", _NTZ),
    _used("domainMetadata", lines=[_domain("a", "{}")]),
    _used("v2Checkpoint", properties={"delta.checkpointPolicy": "v2"}, with_checkpoint=True),
    _iceberg("icebergCompatV1"),
    _iceberg("icebergCompatV2"),
    _used("clustering", lines=[_domain("delta.clustering", '{"clusteringColumns":[["id"]]}')]),
    _switched("inCommitTimestamp"),
    _widened("typeWidening"),
    _widened("typeWidening-preview"),
    _used("variantType", _WITH_VARIANT, schema=_typed("v", "variant")),
    _used("variantType-preview", _WITH_VARIANT, schema=_typed("v", "variant")),
    _used("checkpointProtection", properties={"delta.requireCheckpointProtectionBeforeVersion": "1"}),
    _switched("materializePartitionColumns"),
    Case("type.map", pa.table({"id": _IDS, "m": _MAPS}), None),
    Case("type.void", PLAIN.append_column("n", pa.nulls(3)), None, stored=PLAIN, schema=_typed("n", "void")),
    Case("type.interval", _WIDE.append_column("v", _MONTHS), None, schema=_typed("v", "interval year to month")),
    Case("columns.letter-case", _WIDE.append_column("N", pa.array(["x", "y"])), None),
    Case("paths.absolute", PLAIN, None, outside=True),
    Case(
        "partition.columns",
        pa.table(
            {
                "id": pa.array(range(5), pa.int64()),
                "p": ["x", "a b", "é", "a/b", None],
                "n": pa.array([1, -1, 2, 3, 4], pa.int64()),
            }
        ),
        None,
        partitions=[
            {"p": text, "n": number}
            for text, number in (("x", "1"), ("a b", "-1"), ("é", "2"), ("a/b", "3"), (None, "4"))
        ],
    ),
    _in_partitions("binary", pa.binary(), {"A": b"A", "a b": b"a b", "é": "é".encode(), "\1": b"\1"}),
    _in_partitions("decimal", pa.decimal128(5, 2), _decimals("1.50", "-1.50", "-0.01", "-2.00")),
    _in_partitions("large-decimal", pa.decimal128(38, 2), _decimals("12.00", "-12.34", f"{10**30}.01")),
    _in_partitions("timestamp", pa.timestamp("us", "UTC"), _times(UTC, "%Y-%m-%dT%H:%M:%S.%fZ")),
    _in_partitions("timestamp-ntz", pa.timestamp("us"), _times(None, "%Y-%m-%d %H:%M:%S.%f"), ("timestampNtz",)),
    Case("partition.other-directories", _partitioned("a", pa.string()), None, partition={"p": "a"}),
    Case("values.kernel-unreadable", _partitioned(Decimal("1.5"), pa.decimal128(5, 2)), None, partition={"p": "1.5"}),
    Case(
        "values.times-beyond-nanoseconds",
        pa.table({"id": _IDS, "t": pa.array([0, 253_402_214_400_000_000], pa.timestamp("us", "UTC"))}),
        None,
        # As Spark writes them. Arrow's schema in the footer tells some readers the unit, and hides what they do.
        written_as={"use_deprecated_int96_timestamps": True, "store_schema": False},
    ),
    Case("sql.quoted-column", PLAIN, None, (1, 3), {"delta.constraints.positive": '"id" > 0'}),
    _widened_partition("date", pa.timestamp("us"), "2021-09-08", datetime(2021, 9, 8)),
    _widened_partition("decimal", pa.decimal128(7, 4), "1.50", Decimal("1.5")),
)
"""Tables that use a feature, or that have another trait of interest."""


CHECKS: tuple[Case, ...] = (
    *(
        Case(f"versions-{reader}-{writer}", PLAIN, None, (reader, writer))
        for reader, writer in ((1, 1), (1, 2), (1, 3), (1, 4), (2, 5), (1, 6), (2, 6))
    ),
)
"""Tables without a trait of their own: what clients do with them follows from the traits that their versions imply."""


def cases() -> list[Case]:
    """Return every table that clients are asked about."""
    return [*(supported(name) for name in FEATURES), *USED]
