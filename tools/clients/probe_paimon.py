"""Run in the environment of pypaimon: `python probe_paimon.py WAREHOUSE`, then one task per line of stdin.

Tables are in the database `db`. `{"write": TABLE, "ids": […], "shift": N}` appends made-up rows, whose values outside
of the keys are shifted; `{"measure": TABLE, "count": N}` reads the rows, which are as many (null: those written before,
column by column id), and appends one more. A line of stdout answers each: what was asked, or `refused` with the words
of pypaimon.
"""

from __future__ import annotations

import datetime
import decimal
import importlib.metadata
import json
import os
import sys
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory
from pypaimon.schema.data_types import PyarrowFieldParser

Json = dict[str, Any]  # Any: JSON values
Row = dict[str, Any]  # Any: values of a row
APPENDED = 101


def made_up(kind: Any, number: int) -> Any:  # Any: an Arrow type, and a value of it
    """Return a value of an Arrow type; other numbers have other values where the type has enough."""
    is_of = pa.types
    if is_of.is_boolean(kind):
        return bool(number % 2)
    if is_of.is_integer(kind) or is_of.is_floating(kind):
        return number
    if is_of.is_decimal(kind):
        return decimal.Decimal((0, (1 + number % 9,), -kind.scale))
    if is_of.is_string(kind) or is_of.is_binary(kind) or is_of.is_large_binary(kind):
        return f"v{number}" if is_of.is_string(kind) else f"v{number}".encode()
    at = datetime.datetime(2040, 1, 1 + number % 28, 3, number % 60, 5, 6000)
    if is_of.is_temporal(kind):
        return at.date() if is_of.is_date(kind) else at.time() if is_of.is_time(kind) else _cut(at, kind)
    if is_of.is_map(kind):
        return [(made_up(kind.key_type, number), made_up(kind.item_type, number))]
    if is_of.is_list(kind):
        return [made_up(kind.value_type, number)]
    if is_of.is_fixed_size_list(kind):
        return [made_up(kind.value_type, number)] * kind.list_size
    return {field.name: made_up(field.type, number) for field in kind}


def _cut(at: datetime.datetime, kind: Any) -> datetime.datetime:  # Any: an Arrow type
    return at.replace(microsecond=0) if kind.unit == "s" else at


class Probe:
    """A warehouse; `written` are the rows of each table by the ids of their columns."""

    def __init__(self, warehouse: str) -> None:
        self._catalog = CatalogFactory.create({"warehouse": warehouse})
        self._written: dict[str, list[dict[int, Any]]] = {}

    def write(self, name: str, ids: list[int], shift: int) -> Json:
        """Append a row for each id."""
        table = self._catalog.get_table(f"db.{name}")
        rows = self._rows(table, ids, shift)
        self._append(table, rows)
        columns = {field.name: field.id for field in table.fields}
        self._written.setdefault(name, []).extend({columns[one]: row[one] for one in row} for row in rows.to_pylist())
        return {}

    def measure(self, name: str, count: int | None) -> Json:
        """Return whether the table is read and appended to (None: that cannot be judged), and why not."""
        found: Json = {"reads": None, "writes": None, "why": []}
        before: list[Row] | None = None
        try:
            table = self._catalog.get_table(f"db.{name}")
            before = self._read(name)
            found["reads"] = self._is_right(table, before, name, count)
        except Exception as fault:  # noqa: BLE001  (whatever it is, it is the client's answer)
            found |= {"reads": False, "why": [_words(fault)]}
        try:
            table = self._catalog.get_table(f"db.{name}")
            row = self._rows(table, [APPENDED])
        except Exception as fault:  # noqa: BLE001
            refused = not found["reads"]
            return found | {"writes": False if refused else None, "why": [*found["why"], _words(fault)]}
        try:
            self._append(table, row)
        except Exception as fault:  # noqa: BLE001
            return found | {"writes": False, "why": [*found["why"], _words(fault)]}
        if before is not None and found["reads"] is not False:
            found["writes"] = _sorted(self._read(name)) == _sorted([*before, *row.to_pylist()])
            found["why"] += [] if found["writes"] else ["another row"]
        return found

    def _is_right(self, table: Any, rows: list[Row], name: str, count: int | None) -> bool | None:
        if count is not None:
            return len(rows) == count
        expected = [{field.name: row.get(field.id) for field in table.fields} for row in self._written.get(name, [])]
        if table.trimmed_primary_keys:
            is_first = table.options.merge_engine().value == "first-row"
            kept: dict[Any, Row] = {}
            for row in expected:
                key = tuple(row[one] for one in table.primary_keys)
                kept[key] = kept.get(key, row) if is_first else row
            expected = list(kept.values())
        return _sorted(rows) == _sorted(expected) if rows else None  # none at all: they may have been written in vain

    def _read(self, name: str) -> list[Row]:
        builder = self._catalog.get_table(f"db.{name}").new_read_builder()
        rows: list[Row] = builder.new_read().to_arrow(builder.new_scan().plan().splits()).to_pylist()
        return rows

    @staticmethod
    def _rows(table: Any, ids: list[int], shift: int = 0) -> Any:  # Any: pypaimon and pyarrow have no types here
        schema = PyarrowFieldParser.from_paimon_schema(table.fields)
        keys = {"id", *table.primary_keys, *table.partition_keys}
        rows = [
            {field.name: made_up(field.type, one + (0 if field.name in keys else shift)) for field in schema}
            for one in ids
        ]
        return pa.Table.from_pylist(rows, schema=schema)

    @staticmethod
    def _append(table: Any, rows: Any) -> None:  # Any: as above
        builder = table.new_batch_write_builder()
        writer, commit = builder.new_write(), builder.new_commit()
        writer.write_arrow(rows)
        commit.commit(writer.prepare_commit())
        writer.close()
        commit.close()


def _sorted(rows: list[Row]) -> list[str]:
    return sorted(repr(sorted((name, _plain(value)) for name, value in row.items())) for row in rows)


def _plain(value: Any) -> Any:  # Any: a value of a row
    if type(value) is datetime.date:
        return datetime.datetime.combine(value, datetime.time())
    return float(value) if isinstance(value, int | decimal.Decimal) else value


def _words(fault: Exception) -> str:
    return f"{type(fault).__name__}: {fault}"[:300]


def main(warehouse: str) -> None:
    """Answer all tasks; the first line is the version of pypaimon."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)  # what pypaimon itself prints goes to stderr
    os.dup2(2, 1)
    answers.write(json.dumps({"version": importlib.metadata.version("pypaimon")}) + "\n")
    probe = Probe(warehouse)
    for line in sys.stdin:
        task = json.loads(line)
        try:
            if "write" in task:
                answer = probe.write(task["write"], task["ids"], task["shift"])
            else:
                answer = probe.measure(task["measure"], task["count"])
        except Exception as fault:  # noqa: BLE001
            answer = {"refused": _words(fault)}
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
