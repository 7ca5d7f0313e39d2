"""A table whose history has the slip of the draft, a change of a map's value recorded under its key."""

from __future__ import annotations

import json
from decimal import Decimal

import pyarrow as pa

from tests.support.actions import add, metadata, protocol
from tests.support.builder import TableBuilder
from tests.support.in_memory import MemoryStorage
from tests.support.reading import open_at
from tests.support.rows import parquet_bytes
from tests.support.widening import ENABLED, array, compact, field, map_of, struct

SLIP = {"fromType": "decimal(6,2)", "toType": "decimal(10,4)", "fieldPath": "element.key"}
"""The example of the draft: the key is a string, the value was changed."""

SCHEMA = struct(field("e", array(map_of("string", "decimal(10,4)")), **{"delta.typeChanges": [SLIP]}))
FEATURES = ["typeWidening"]


def file_of(digits: tuple[int, int], *values: str) -> bytes:
    """A file with one row, a list of one map with these values."""
    kind = pa.list_(pa.map_(pa.string(), pa.decimal128(*digits)))
    pairs = [(f"k{number}", Decimal(value)) for number, value in enumerate(values)]
    return parquet_bytes(pa.table({"e": pa.array([[pairs]], kind)}))


def table() -> MemoryStorage:
    """A file of before the recorded change, and one of after it."""
    builder = TableBuilder()
    files = {"old.parquet": file_of((6, 2), "1234.56", "-0.01"), "new.parquet": file_of((10, 4), "123456.7891")}
    for name, data in files.items():
        builder.file(name, data)
    adds = [add(name, size=len(data)) for name, data in files.items()]
    lines = [protocol(3, 7, reader_features=FEATURES, writer_features=FEATURES)]
    lines.append(metadata(schema_string=compact(SCHEMA), configuration=ENABLED))
    return builder.commit(*lines, *adds).in_memory()


def values_of(storage: MemoryStorage) -> list[list[Decimal]]:
    rows = [row["e"] for batch in open_at(storage).snapshot().scan() for row in batch.to_pylist()]
    return sorted([value for _key, value in pairs] for (pairs,) in rows)


def test_a_table_with_the_slip_in_its_history_is_read_and_widened_further_under_the_right_path() -> None:
    storage = table()
    expected = [[Decimal("1234.56"), Decimal("-0.01")], [Decimal("123456.7891")]]
    assert expected == values_of(storage)

    outcome = open_at(storage).widen_type(("e.element.value", "decimal(14,6)"))

    assert ["widen.history-path", "alter.streams", "alter.shares"] == [
        caution.code for caution in outcome.plan.warnings
    ]
    after = open_at(storage).snapshot()
    column = json.loads(after.metadata.schema_string or "")["fields"][0]
    entry = {"fromType": "decimal(10,4)", "toType": "decimal(14,6)", "fieldPath": "element.value"}
    assert [SLIP, entry] == column["metadata"]["delta.typeChanges"]
    assert pa.list_(pa.map_(pa.string(), pa.decimal128(14, 6))) == after.scan().schema.field("e").type
    assert expected == values_of(storage)


def test_the_slip_is_what_validate_finds_before_and_nothing_more_after() -> None:
    storage = table()
    opened = open_at(storage)
    before = {finding.rule.id for finding in opened.validate(select=["typewidening.*"]).findings}

    opened.widen_type(("e.element.value", "decimal(14,6)"))

    assert {"typewidening.bad-path"} == before
    assert before == {finding.rule.id for finding in opened.validate(select=["typewidening.*"]).findings}


def test_unknown_fields_are_kept_in_the_actions_of_a_commit() -> None:
    """
    Whatever a newer writer has put into protocol and metaData is still there after a change of ours.
    """
    schema = compact(struct(field("a", "integer")))
    strange = {"protocol": {**protocol(1, 2)["protocol"], "later": 1}}
    builder = TableBuilder().commit(strange, metadata(schema_string=schema, novelty={"x": [1]}))
    table = open_at(builder.in_memory())

    table.widen_type(("a", "long"), enable=True, upgrade_protocol=True)

    after = table.snapshot()
    assert (1, {"x": [1]}) == (after.raw_protocol["later"], after.raw_metadata["novelty"])
