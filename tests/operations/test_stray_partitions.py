"""A partition column that the schema lacks: whoever reads, rewrites, judges or shares the rows refuses by one rule."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from deltacli import Table, open_table
from deltacli.core.errors import Unreadable
from deltacli.operations.change.append import plan_append
from deltacli.operations.doctor.advice import DoctorRequest
from deltacli.operations.doctor.table import examine_table
from deltacli.operations.explain import ExplainRequest, explain
from deltacli.operations.optimize.plan import plan_optimize
from deltacli.operations.optimize.request import OptimizeRequest
from tests.sharing.served import DELTA, Served, shared
from tests.support.actions import add, metadata, protocol
from tests.support.builder import TableBuilder
from tests.support.rows import parquet_bytes

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})
UNKNOWN, NESTED = "metadata.partition-column-unknown", "metadata.partition-column-nested"
STRUCT = {"type": "struct", "fields": [{"name": "p", "type": "string", "nullable": True, "metadata": {}}]}

USERS: dict[str, Callable[[Table], object]] = {
    "read": lambda table: list(table.snapshot().scan()),
    "read of other columns": lambda table: list(table.snapshot().scan(columns=["id"])),
    "count": lambda table: table.snapshot().scan(where="id = 1").to_arrow(),
    "changes": lambda table: list(table.changes(from_version=0)),
    "optimize": lambda table: plan_optimize(table, OptimizeRequest()),
    "doctor table": lambda table: examine_table(table, DoctorRequest()),
    "explain": lambda table: explain(table, ExplainRequest()),
    "append": lambda table: plan_append(table.snapshot(), ROWS.schema),
}


def column(name: str, kind: object, **facts: object) -> dict[str, object]:
    return {"name": name, "type": kind, "nullable": True, "metadata": facts}


def stray_table(root: Path, partition: str, *others: dict[str, object], mapped: bool = False) -> Path:
    """Two versions whose partition column is `partition`, beside the column `id` and others."""
    fields = [column("id", "long"), *others]
    if mapped:
        for number, field in enumerate(fields, 1):
            field["metadata"] = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": field["name"]}
    schema = json.dumps({"type": "struct", "fields": fields})
    properties = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "9"} if mapped else {}
    data = parquet_bytes(ROWS)
    table = TableBuilder().file("a.parquet", data).file("b.parquet", data)
    table.commit(
        protocol(2, 5) if mapped else protocol(),
        metadata(schema_string=schema, partition_columns=[partition], configuration=properties),
        add("a.parquet", size=len(data), partition_values={partition: "1"}),
    )
    return table.commit(add("b.parquet", size=len(data), partition_values={partition: "1"})).write(root)


CASES = [
    pytest.param("p", [], False, UNKNOWN, id="absent"),
    pytest.param("p", [], True, UNKNOWN, id="absent-and-mapped"),
    pytest.param("p", [column("P", "string")], False, UNKNOWN, id="other-case"),
    pytest.param("P", [column("p", "string")], True, UNKNOWN, id="other-case-and-mapped"),
    pytest.param("s.p", [column("s", STRUCT)], False, NESTED, id="nested"),
    pytest.param("p", [column("s", STRUCT)], False, NESTED, id="nested-by-its-last-name"),
]


@pytest.mark.parametrize(("partition", "others", "mapped", "rule"), CASES)
def test_all_refuse_by_the_rule_that_validate_names(
    partition: str, others: list[dict[str, object]], mapped: bool, rule: str, tmp_path: Path
) -> None:
    table = open_table(stray_table(tmp_path, partition, *others, mapped=mapped))

    codes: dict[str, object] = {}
    for name, use in USERS.items():
        with pytest.raises(Unreadable) as refused:
            use(table)
        codes[name] = refused.value.code
    share = Served((shared(tmp_path),))
    for format_ in ("responseformat=parquet", DELTA):
        reply = share.query(delta_sharing_capabilities=format_)
        codes[f"share, {format_}"] = rule if (400, True) == (reply.status, rule in reply.body.decode()) else reply.body

    assert {rule} == set(codes.values()), codes
    assert rule in {one.rule.id for one in table.validate().findings}


def test_changes_refuse_a_version_before_the_schema_had_the_column(tmp_path: Path) -> None:
    root = stray_table(tmp_path, "p")
    data = parquet_bytes(ROWS)
    schema = json.dumps({"type": "struct", "fields": [column("id", "long"), column("p", "string")]})
    lines = [
        metadata(schema_string=schema, partition_columns=["p"]),
        add("c.parquet", size=len(data), partition_values={"p": "1"}),
    ]
    (root / "c.parquet").write_bytes(data)
    (root / f"_delta_log/{2:020d}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    table = open_table(root)

    assert 6 == sum(batch.num_rows for batch in table.snapshot().scan())
    assert 2 == sum(batch.num_rows for batch in table.changes(from_version=2))
    with pytest.raises(Unreadable, match="rows of version 0 cannot be read"):
        list(table.changes(from_version=0))
