"""The tables that Kernel reads after deltacli has changed them: which commands, and what their rows become."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from math import nan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.judges.commands import deltacli
from tests.judges.figures import FIGURES

Row = tuple[Any, ...]  # Any: values of a row, as `KernelReader` returns them

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("small", pa.int32()),
        ("ratio", pa.float64()),
        ("text", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(10, 2)),
        ("list", pa.list_(pa.int64())),
        ("inside", pa.struct([("a", pa.int64()), ("b", pa.string())])),
        ("pairs", pa.map_(pa.string(), pa.int64())),
        ("flag", pa.bool_()),
    ]
)
PARTITIONS = {"a": "p=a", "é x": "p=%C3%A9 x", "1/2": "p=1%2F2", None: "p=__HIVE_DEFAULT_PARTITION__"}
"""Partition values, and the directories that Hive and Spark give them."""


def build_table(directory: Path) -> list[Row]:
    """Write two data files per partition with Arrow, convert them to a table, and return its rows."""
    FIGURES["tables"] += 1
    rows: list[Row] = []
    number = 0
    for value, name in PARTITIONS.items():
        place = directory / name
        place.mkdir(parents=True)
        for file in range(2):
            stored = [make_row(number + offset) for offset in range(4)]
            number += len(stored)
            pq.write_table(pa.Table.from_pylist(stored, SCHEMA), place / f"part-{file}.parquet")
            rows += [as_kernel_reads(row, value) for row in stored]
    deltacli("convert", directory, "--partition", "p string", "--yes")
    return rows


def make_row(number: int) -> dict[str, Any]:
    """Return a row with extremes and nulls."""
    if number % 4 == 3:
        return {"id": number}
    return {
        "id": number,
        "small": -number,
        "ratio": nan if number % 4 == 1 else number / 2,
        "text": f"text {number} é",
        "day": date(1, 1, 1) if number == 0 else date(2026, 1, 1 + number % 28),
        "at": datetime(2026, 1, 1, 12, number % 60, 0, 123456, tzinfo=UTC),
        "price": Decimal(number) / 4,
        "list": [number, None],
        "inside": {"a": None, "b": f"b{number}"},
        "pairs": [("k", number)],
        "flag": number % 2 == 0,
    }


def as_kernel_reads(row: dict[str, Any], partition: str | None) -> Row:
    """Return the values of a row in the form of `KernelReader`."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    values: list[Any] = []
    for name in SCHEMA.names:
        value = row.get(name)
        if value is None:
            values.append(None)
        elif name == "day":
            values.append((value - epoch.date()).days)
        elif name == "at":
            elapsed = value - epoch
            values.append((elapsed.days * 86_400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds)
        elif name == "price":
            values.append(Decimal(f"{value:.2f}"))
        else:
            values.append(value)
    return (*values, partition)


def keep(rows: list[Row]) -> list[Row]:
    """Return the rows as they are: most commands change nothing that a reader sees."""
    return rows


def append_null(rows: list[Row]) -> list[Row]:
    """Return the rows with a column that was added at the end."""
    return [(*row, None) for row in rows]


def drop_text(rows: list[Row]) -> list[Row]:
    """Return the rows without the column `text`."""
    position = SCHEMA.names.index("text")
    return [(*row[:position], *row[position + 1 :]) for row in rows]


def rename_nested_field(rows: list[Row]) -> list[Row]:
    """Return the rows with another name of the field `inside.a`."""
    position = SCHEMA.names.index("inside")
    renamed = []
    for row in rows:
        inside = row[position]
        if inside is not None:
            inside = {"z": inside["a"], "b": inside["b"]}
        renamed.append((*row[:position], inside, *row[position + 1 :]))
    return renamed


@dataclass(frozen=True)
class Change:
    """Commands, one after the other, and what they make of the rows.

    Attributes:
        name: The name of the case.
        commands: Command lines in which `{table}` and `{other}` stand for directories.
        change_rows: Makes the rows after the commands of those before.
        target: The directory to read, `table` or `other`.
    """

    name: str
    commands: tuple[tuple[str, ...], ...]
    change_rows: Callable[[list[Row]], list[Row]] = keep
    target: str = "table"


MAPPING = ("alter", "{table}", "mapping", "name", "--upgrade-protocol", "--yes")
TOUCH = tuple(("properties", "{table}", "set", f"note={number}", "--yes") for number in range(4))
"""Commits that make a log longer."""


def feature(*names: str) -> Change:
    """Return the case that adds features to the protocol."""
    return Change(f"add {' '.join(names)}", (("features", "{table}", "add", *names, "--yes"),))


CHANGES = (
    Change("convert", ()),
    Change("optimize", (("optimize", "{table}", "--yes"),)),
    Change("optimize, z-order", (("optimize", "{table}", "--zorder", "id", "--yes"),)),
    Change("optimize, purge", (("optimize", "{table}", "--purge", "--yes"),)),
    Change("classic checkpoint", (("checkpoint", "{table}"),)),
    Change("multi-part checkpoint", (*TOUCH, ("checkpoint", "{table}", "--layout", "multi-part", "--parts", "3"))),
    Change(
        "V2 checkpoint, JSON top",
        (
            ("properties", "{table}", "set", "delta.checkpointPolicy=v2", "--upgrade-protocol", "--yes"),
            ("checkpoint", "{table}", "--v2-top", "json"),
        ),
    ),
    Change(
        "V2 checkpoint, Parquet top",
        (
            ("properties", "{table}", "set", "delta.checkpointPolicy=v2", "--upgrade-protocol", "--yes"),
            ("checkpoint", "{table}", "--v2-top", "parquet"),
        ),
    ),
    Change(
        "checkpoint with parsed statistics",
        (
            ("properties", "{table}", "set", "delta.checkpoint.writeStatsAsStruct=true", "--yes"),
            ("checkpoint", "{table}"),
        ),
    ),
    Change("replaced checkpoint", (("checkpoint", "{table}"), ("checkpoint", "{table}", "--version", "0", "--force"))),
    Change("log compaction", (*TOUCH, ("log", "compact", "{table}", "--from", "1", "--to", "3"))),
    Change("version checksum", (("log", "crc", "{table}"),)),
    Change("mapping", (MAPPING,)),
    Change("rename", (MAPPING, ("alter", "{table}", "rename", "text", "words", "--yes"))),
    Change(
        "rename a nested field",
        (MAPPING, ("alter", "{table}", "rename", "inside.a", "z", "--yes")),
        rename_nested_field,
    ),
    Change("drop", (MAPPING, ("alter", "{table}", "drop", "text", "--yes")), drop_text),
    Change(
        "drop, then purge",
        (MAPPING, ("alter", "{table}", "drop", "text", "--yes"), ("optimize", "{table}", "--purge", "--yes")),
        drop_text,
    ),
    Change("drop mapping", (MAPPING, ("features", "{table}", "drop", "columnMapping", "--yes"))),
    Change("add a column", (("alter", "{table}", "add", "later", "string", "--yes"),), append_null),
    Change(
        "add a column, then optimize",
        (("alter", "{table}", "add", "later", "double", "--yes"), ("optimize", "{table}", "--yes")),
        append_null,
    ),
    Change("widen", (("widen-type", "{table}", "small", "long", "--enable", "--upgrade-protocol", "--yes"),)),
    Change(
        "widen, then optimize",
        (
            ("widen-type", "{table}", "small", "long", "--enable", "--upgrade-protocol", "--yes"),
            ("optimize", "{table}", "--yes"),
        ),
    ),
    feature("deletionVectors"),
    feature("v2Checkpoint", "rowTracking"),
    feature("timestampNtz"),
    Change(
        "in-commit timestamps",
        (("properties", "{table}", "set", "delta.enableInCommitTimestamps=true", "--upgrade-protocol", "--yes"),),
    ),
    Change("restore", (("optimize", "{table}", "--yes"), ("restore", "{table}", "--version", "0", "--yes"))),
    Change("statistics", (("stats", "{table}", "--all", "--read", "rows", "--yes"),)),
    Change("vacuum", (("optimize", "{table}", "--yes"), ("vacuum", "{table}", "--retention", "7d", "--yes"))),
    Change("clone", (("clone", "{table}", "{other}", "--yes"),), target="other"),
    Change("copy", (("copy", "{table}", "{other}"),), target="other"),
)
