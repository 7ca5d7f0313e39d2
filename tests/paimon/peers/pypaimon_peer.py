"""Orders to pypaimon: one JSON object per line in, one line with an answer or an error out.

Tables are in the database `db` of the warehouse that is the only argument.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.schema.data_types import DataTypeParser
from pypaimon.schema.schema_change import SchemaChange

Json = dict[str, Any]  # Any: JSON values


class Peer:
    """A warehouse, opened by pypaimon."""

    def __init__(self, warehouse: str) -> None:
        self._warehouse = warehouse
        self._catalog = CatalogFactory.create({"warehouse": warehouse})
        self._catalog.create_database("db", True)

    def create(self, table: str, fields: list[tuple[str, str]], keys: list[str], options: dict[str, str]) -> None:
        """Create a table with fields of Arrow types."""
        arrow = pa.schema([pa.field(name, _arrow(kind), nullable=name not in keys) for name, kind in fields])
        self._catalog.create_table(
            f"db.{table}", Schema.from_pyarrow_schema(arrow, primary_keys=keys, options=options), False
        )

    def write(self, table: str, rows: list[Json]) -> None:
        """Append rows."""
        opened = self._catalog.get_table(f"db.{table}")
        arrow = _arrow_schema(opened)
        builder = opened.new_batch_write_builder()
        writer, commit = builder.new_write(), builder.new_commit()
        writer.write_arrow(pa.Table.from_pylist(rows, schema=arrow))
        commit.commit(writer.prepare_commit())
        writer.close()
        commit.close()

    def read(self, table: str) -> Json:
        """Return the types of the columns and all rows as texts, sorted."""
        opened = self._catalog.get_table(f"db.{table}")
        builder = opened.new_read_builder()
        found = builder.new_read().to_arrow(builder.new_scan().plan().splits())
        types = {field.name: str(field.type) for field in opened.fields}
        rows = [{name: _text(value) for name, value in row.items()} for row in found.to_pylist()]
        return {"types": types, "rows": sorted(rows, key=str)}

    def add(self, table: str, names: list[str]) -> list[str]:
        """Add INT columns one by one and return those of which pypaimon says that it added them."""
        added = []
        for name in names:
            change = SchemaChange.add_column(name, DataTypeParser.parse_data_type("INT"))
            self._catalog.alter_table(f"db.{table}", [change], False)
            added.append(name)
        return added

    def slow_down(self, seconds: float) -> None:
        """Make renames as slow as on a busy disk, so that more files are replaced."""
        rename = Path.rename

        def slow(place: Path, target: Path) -> Path:
            time.sleep(seconds)
            return rename(place, target)

        Path.rename = slow  # type: ignore[method-assign,assignment]

    def rename(self, table: str, column: str, name: str) -> None:
        """Rename a column."""
        self._catalog.alter_table(f"db.{table}", [SchemaChange.rename_column(column, name)], False)

    def retype(self, table: str, column: str, data_type: str) -> None:
        """Change the type of a column."""
        change = SchemaChange.update_column_type(column, DataTypeParser.parse_data_type(data_type), True)
        self._catalog.alter_table(f"db.{table}", [change], False)


def _arrow(kind: str) -> Any:  # Any: an Arrow type
    return {"long": pa.int64(), "int": pa.int32(), "string": pa.string()}[kind]


def _arrow_schema(table: Any) -> Any:  # Any: pypaimon and pyarrow have no types here
    from pypaimon.schema.data_types import PyarrowFieldParser

    return PyarrowFieldParser.from_paimon_schema(table.fields)


def _text(value: object) -> object:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else format(value.normalize(), "f")
    return value if value is None or isinstance(value, int | str | float) else str(value)


def main(warehouse: str) -> None:
    """Answer orders until stdin ends."""
    peer = Peer(warehouse)
    for line in sys.stdin:
        order = json.loads(line)
        call: Callable[..., object] = getattr(peer, order.pop("do"))
        try:
            answer: Json = {"answer": call(**order)}
        except Exception as fault:  # noqa: BLE001  (the answer is that pypaimon failed)
            answer = {"error": f"{type(fault).__name__}: {fault}"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
