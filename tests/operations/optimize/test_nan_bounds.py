"""Files with NaN beyond the bounds in their footers: `validate` finds them, a purge rewrites them, and no command of
deltacli writes any.
"""

from __future__ import annotations

import json
import math
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.api.table import Table
from deltacli.rules.framework.base import Severity
from tests.support.actions import Line, add, commit_info, metadata, protocol
from tests.support.builder import TableBuilder
from tests.support.optimizing import live_paths
from tests.support.reading import open_at

NAN = math.nan
RULE = "data.nan-beyond-bounds"


def column(name: str, kind: Any) -> dict[str, Any]:  # Any: JSON
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


INSIDE = {"type": "struct", "fields": [column("g", "float")]}
SCHEMA = json.dumps(
    {"type": "struct", "fields": [column("id", "long"), column("f", "double"), column("inside", INSIDE)]}
)
ARROW = pa.schema([("id", pa.int64()), ("f", pa.float64()), ("inside", pa.struct([("g", pa.float32())]))])


def file_of(*numbers: float | None, inside: float = 1.0, group_rows: int = 1 << 20) -> bytes:
    """Return a file as Arrow writes it, and as deltacli wrote it until 0.2: with bounds that leave NaN out."""
    rows = [{"id": number, "f": value, "inside": {"g": inside}} for number, value in enumerate(numbers)]
    sink = BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, ARROW), sink, row_group_size=group_rows)
    return sink.getvalue()


def table_of(*files: bytes, **configuration: str) -> Table:
    builder = TableBuilder().commit(
        commit_info("CREATE TABLE"),
        protocol(1, 2),
        metadata(configuration=configuration, partition_columns=[], schema_string=SCHEMA),
    )
    return open_at(append(builder, *files).in_memory())


def append(builder: TableBuilder, *files: bytes) -> TableBuilder:
    lines: list[Line] = [commit_info("WRITE")]
    for number, data in enumerate(files):
        builder.file(f"part-{number}.parquet", data)
        rows = pq.read_metadata(BytesIO(data)).num_rows
        lines.append(add(f"part-{number}.parquet", size=len(data), records=rows, partition_values={}))
    return builder.commit(*lines)


def affected_files(table: Table) -> list[tuple[str, str]]:
    """Return the columns and files that `validate` reports."""
    findings = [found for found in table.validate(level="data").findings if found.rule.id == RULE]
    assert {Severity.WARNING} >= {found.severity for found in findings}
    return sorted((found.message.split()[1], found.place.key or "") for found in findings)


def bounds_of_footers(table: Table) -> list[tuple[str, bool]]:
    """Return for each chunk of a floating-point column of the live files whether it has bounds."""
    found = []
    for path in sorted(live_paths(table)):
        footer = pq.read_metadata(BytesIO(table.storage.read(path)))
        for group in range(footer.num_row_groups):
            for number in (1, 2):
                chunk = footer.row_group(group).column(number)
                found.append((chunk.path_in_schema, chunk.statistics.has_min_max))
    return found


def test_validate_names_each_column_and_file_and_the_command() -> None:
    table = table_of(file_of(1.0, NAN), file_of(1.0, 2.0), file_of(1.0, inside=NAN), file_of(NAN, 3.0, inside=2.0))

    assert [("f", "part-0.parquet"), ("f", "part-3.parquet")] == affected_files(table)
    finding = next(found for found in table.validate(level="data").findings if found.rule.id == RULE)
    assert "purge" in finding.rule.fix.repair_of("tbl")


def test_fields_of_structs_are_checked() -> None:
    rows = [{"id": 1, "f": 1.0, "inside": {"g": value}} for value in (1.0, NAN)]
    sink = BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, ARROW), sink)

    assert [("inside.g", "part-0.parquet")] == affected_files(table_of(sink.getvalue()))


def test_row_groups_are_told_apart() -> None:
    apart = file_of(NAN, NAN, 1.0, 2.0, group_rows=2)  # NaN alone has no bounds in any footer
    together = file_of(1.0, 2.0, 1.0, NAN, group_rows=2)

    assert [("f", "part-1.parquet")] == affected_files(table_of(apart, together))


@pytest.mark.parametrize("order", [{}, {"zorder": ["id"]}])
def test_new_files_have_no_bounds_beside_nan(order: dict[str, Any]) -> None:
    table = table_of(file_of(1.0, NAN), file_of(NAN, 2.0))

    table.optimize(**order)

    assert [("f", False), ("inside.g", True)] == bounds_of_footers(table)
    assert [] == affected_files(table)


def test_a_purge_rewrites_large_files_with_nan_beyond_bounds_and_no_others() -> None:
    table = table_of(file_of(1.0, NAN), file_of(1.0, 2.0), file_of(NAN, NAN))

    done = table.optimize(purge=True)

    assert (1, 1) == (done.files_removed, done.files_added)
    assert {"part-1.parquet", "part-2.parquet"} < live_paths(table)
    assert [] == affected_files(table)
    assert table.optimize(purge=True, dry_run=True).plan.is_noop


def test_names_that_mapping_gives_columns_are_followed() -> None:
    table = table_of(file_of(1.0, NAN))
    table.alter([{"change": "mapping", "mode": "name"}], upgrade_protocol=True)
    table.alter([{"change": "rename", "column": "f", "name": "ratio"}])

    assert [("ratio", "part-0.parquet")] == affected_files(table)
    table.optimize(purge=True)
    assert [] == affected_files(table)
