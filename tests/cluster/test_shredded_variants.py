"""Files that Spark shreds have the same variants for Spark and for our own scan, whatever the types."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli import open_table
from deltacli.spark import plan_table
from tests.cluster.spark_rows import plain_variants, text_of
from tests.support.effort import is_soaking
from tests.support.variants import (
    IN_SPARK,
    NAMES,
    NOT_IN_SPARK,
    Schema,
    decode,
    encode,
    group_type,
    metadata_of,
    random_schema,
    random_value,
    shredded,
)

FORCED = "spark.sql.variant.forceShreddingSchemaForTest"
SPARK_TYPES = {
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "decimal4": "decimal(9,2)",
    "decimal8": "decimal(18,3)",
    "decimal16": "decimal(38,10)",
}
Change = Callable[[str, str], None]


def ddl(schema: Schema, *, is_top: bool = False) -> str:
    """A schema of shredding as Spark spells it."""
    match schema:
        case str():
            return SPARK_TYPES.get(schema, schema)
        case [inner]:
            return f"array<{ddl(inner)}>"
    fields = [f"`{name}` {ddl(inner)}" for name, inner in schema.items()]
    return ", ".join(fields) if is_top else f"struct<{', '.join(f.replace('` ', '`: ', 1) for f in fields)}>"


def write_log(table: Path) -> None:
    """Make a Delta table of the Parquet files of a directory, with the columns `i` and `v`."""
    names = (("i", "integer"), ("v", "variant"))
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in names]
    features = ["variantType", "variantShredding"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    metadata = {
        "id": "9b5a1f0e-5d1c-4c3a-9d5e-3f1f2a6b7c8d",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {"delta.enableVariantShredding": "true"},
        "createdTime": 0,
    }
    adds = [
        {"path": file.name, "partitionValues": {}, "size": file.stat().st_size, "modificationTime": 0}
        for file in table.glob("*.parquet")
    ]
    actions = [{"protocol": protocol}, {"metaData": metadata}, *({"add": add | {"dataChange": True}} for add in adds)]
    (table / "_delta_log").mkdir()
    (table / "_delta_log" / f"{0:020d}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


def of_rows(table: pa.Table) -> list[str | None]:
    """The variants of rows in the order of `i`."""
    texts: list[str | None] = plain_variants(table).sort_by("i").column("v").to_pylist()
    return texts


def of_frame(frame: Any) -> list[str | None]:  # Any: a pyspark.sql.DataFrame
    """The same of a frame, which PySpark 4.3 cannot fetch through Arrow if a variant is null."""
    found = sorted(((row.i, row.v) for row in frame.collect()), key=lambda row: int(row[0]))
    return [
        None if one is None else text_of(decode({"metadata": bytes(one.metadata), "value": bytes(one.value)}))
        for _, one in found
    ]


@pytest.mark.parametrize("seed", range(300 if is_soaking() else 4))
def test_spark_shreds_random_variants_and_both_scans_read_the_same(
    seed: int, session: Any, setting: Change, tmp_path: Path
) -> None:
    draw = random.Random(seed)
    names = [name for name in NAMES if name]
    values = [draw.choice((None, random_value(draw, IN_SPARK))) for _ in range(300)]
    schema = random_schema(draw, IN_SPARK, names=names)
    rows = [
        value if value is None else {"metadata": metadata_of(NAMES), "value": encode(value, NAMES)} for value in values
    ]
    whole = pa.table({"i": pa.array(range(300), pa.int32()), "v": pa.array(rows, group_type(None, is_top=True))})
    pq.write_table(whole, tmp_path / "whole.parquet", store_schema=False)
    setting(FORCED, ddl(schema, is_top=isinstance(schema, dict)))
    setting("spark.sql.variant.writeShredding.enabled", "true")
    stored = session.read.schema("i int, v variant").parquet(str(tmp_path / "whole.parquet"))
    stored.coalesce(1).write.parquet(str(tmp_path / "t"))
    write_log(tmp_path / "t")

    plan = plan_table(session, str(tmp_path / "t"))
    ours = open_table(str(tmp_path / "t")).snapshot().scan().to_arrow()

    [file] = (tmp_path / "t").glob("*.parquet")
    assert "typed_value" in str(pq.read_schema(file).field("v").type)
    assert (1, 0) == (plan.native_files, len(plan.own_files))
    assert of_rows(whole) == of_rows(ours) == of_frame(plan.dataframe())


@pytest.mark.parametrize("name", NOT_IN_SPARK)
def test_types_that_spark_does_not_read_are_read_by_our_own_scan(name: str, session: Any, tmp_path: Path) -> None:
    values = [{"a": (name, 5)}, {"a": "text"}, None]
    rows = [shredded(value, {"a": name}, NAMES) | {"metadata": metadata_of(NAMES)} for value in values]
    kind = group_type({"a": name}, is_top=True)
    (tmp_path / "t").mkdir()
    pq.write_table(
        pa.table({"i": pa.array([0, 1, 2], pa.int32()), "v": pa.array(rows, kind)}), tmp_path / "t/x.parquet"
    )
    write_log(tmp_path / "t")

    plan = plan_table(session, str(tmp_path / "t"))

    assert (1, 0) == (len(plan.own_files), plan.native_files)
    assert 3 == plan.dataframe().count()
