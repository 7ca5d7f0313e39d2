"""Paimon made a table and deltacli changed its schema. Does Paimon read every row, write, compact and expire?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.judges.answers import Comparison
from tests.judges.commands import deltacli
from tests.judges.paimon.engine import PaimonJudge, Row
from tests.judges.paimon.known import PaimonComparison
from tests.judges.paimon.shapes import SHAPES, row_of

Record = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """A change of the schema, and what it makes of rows.

    Attributes:
        words: The command and its arguments after the table.
        change: Changes one row, whose keys are the columns in their order.
    """

    words: Sequence[str]
    change: Callable[[Record], Record] = lambda record: record


def _insert_after(column: str, name: str) -> Callable[[Record], Record]:
    def insert(record: Record) -> Record:
        changed: Record = {}
        for key, value in record.items():
            changed[key] = value
            if key == column:
                changed[name] = None
        return changed

    return insert


def _rename(column: str, name: str) -> Callable[[Record], Record]:
    return lambda record: {name if key == column else key: value for key, value in record.items()}


def _drop(column: str) -> Callable[[Record], Record]:
    return lambda record: {key: value for key, value in record.items() if key != column}


def _move_first(column: str) -> Callable[[Record], Record]:
    return lambda record: {column: record[column]} | _drop(column)(record)


def _append_to_point(record: Record) -> Record:
    point = record["point"]
    return record | {"point": None if point is None else (*point, None)}


STEPS: Sequence[Step] = (
    Step(["alter", "add", "note", "STRING", "--position", "after:amount"], _insert_after("amount", "note")),
    Step(["alter", "rename", "name", "title"], _rename("name", "title")),
    Step(
        [
            *("widen-type", "price", "DECIMAL(14, 2)", "point.x", "BIGINT", "numbers.element", "BIGINT"),
            *("prices.value", "BIGINT", "at", "TIMESTAMP(6)"),
        ]
    ),
    Step(["alter", "add", "point.z", "DOUBLE"], _append_to_point),
    Step(["alter", "rename", "point.y", "label"]),
    Step(["alter", "drop", "price"], _drop("price")),
    Step(["alter", "move", "title", "first"], _move_first("title")),
    Step(["alter", "set", "snapshot.num-retained.max=50", "write-buffer-size=64 mb"]),
)


class Model:
    """What a table holds, as computed here: the rows that were written, changed by each step."""

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._changes: list[Callable[[Record], Record]] = []

    def add(self, *records: Record) -> list[Row]:
        """Add rows of the first schema, and return them as the newest schema has them."""
        for change in self._changes:
            records = tuple(map(change, records))
        self._records += records
        return [tuple(record.values()) for record in records]

    def apply(self, change: Callable[[Record], Record]) -> None:
        """Change all rows, and those that are added later."""
        self._changes.append(change)
        self._records = [change(record) for record in self._records]

    def remove(self, number: int) -> Row:
        """Remove the row with an id and return it."""
        record = next(record for record in self._records if record["id"] == number)
        self._records.remove(record)
        return tuple(record.values())

    def rows(self) -> list[Row]:
        """Return the rows in the order of their representation."""
        return sorted((tuple(record.values()) for record in self._records), key=repr)

    def columns(self) -> list[str]:
        """Return the names of the columns in their order."""
        return list(self._records[0])


@pytest.mark.parametrize("shape", SHAPES)
def test_paimon_goes_on_with_a_table_that_deltacli_has_altered(paimon: PaimonJudge, tables: Path, shape: str) -> None:
    directory = tables / "t"
    kind = SHAPES[shape]
    model = Model()
    table = kind.create(paimon, directory)
    table.write(model.add(row_of(1), row_of(2), row_of(3)))
    table.write(model.add(row_of(4), row_of(5, is_empty=True)))

    with PaimonComparison(shape) as judged:
        for number, step in enumerate(STEPS):
            command, *words = step.words
            deltacli(command, directory, *words, "--yes")
            model.apply(step.change)
            question = " ".join(step.words)
            table = paimon.open(directory)
            judged.equal(f"{question}: columns", model.columns(), table.columns)
            judged.equal(f"{question}: rows", model.rows(), table.rows())
            table.write(model.add(row_of(10 + number)))
        judged.equal("rows after the last write", model.rows(), table.rows())
        _compact_and_expire(paimon, directory, model, judged)
        if kind.primary_keys and "first-row" not in shape and "partial-update" not in shape:
            paimon.open(directory).write([model.remove(2)], kind="-D")
            if "aggregation" not in shape:
                judged.equal("rows without one", model.rows(), paimon.open(directory).rows())
        judged.equal("findings of validate", [], findings_of(directory))


def _compact_and_expire(paimon: PaimonJudge, directory: Path, model: Model, judged: Comparison) -> None:
    table = paimon.open(directory)
    if table.can_compact():
        table.compact()
        judged.equal("rows after the compaction", model.rows(), table.rows())
    table.expire()
    judged.equal("snapshots that are left", 1, len(table.snapshots()))
    reopened = paimon.open(directory)
    judged.equal("rows after the expiry", model.rows(), reopened.rows())


def findings_of(directory: Path) -> list[tuple[str, str, str]]:
    """Return what `validate` reports of a table: rule, severity and message, without infos."""
    document = deltacli("validate", directory, "--json", codes=(0, 1)).document()
    findings: Sequence[Mapping[str, Any]] = document["tables"][0]["findings"]
    return [
        (finding["rule"], finding["severity"], finding["message"])
        for finding in findings
        if finding["severity"] != "info"
    ]
