"""Metadata of generated and identity columns in tables whose protocol does not support them: old writers left it there,
and it has no effect.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltacli.rules.framework.base import Severity
from tests.rules.data_table import DataTable, Rows, rows_of
from tests.rules.table_builder import TableBuilder, column, struct
from tests.rules.test_corruptions import inspect

GENERATED: dict[str, Any] = {"delta.generationExpression": "id + 1"}
IDENTITY: dict[str, Any] = {
    "delta.identity.start": 5,
    "delta.identity.step": 3,
    "delta.identity.allowExplicitInsert": False,
}


def table_with(metadata: dict[str, Any], writer: int) -> DataTable:
    """A table whose column `c` holds neither what its expression gives nor what an identity would."""
    made = column("c", "long")
    made["metadata"] |= metadata

    def rows(number: int) -> Rows:
        return pa.table({"id": rows_of(number).column("id"), "c": pa.array([7] * 10, pa.int64())})

    protocol = {"minReaderVersion": 1, "minWriterVersion": writer}
    return DataTable(schema=struct(column("id", "long"), made, column("p", "string")), protocol=protocol, rows=rows)


@pytest.mark.parametrize("metadata", [GENERATED, IDENTITY, {"delta.generationExpression": "no SQL at all ("}])
def test_inert_metadata_of_columns_is_a_note(metadata: dict[str, Any], tmp_path: Path) -> None:
    table = table_with(metadata, 2)

    found = inspect(table.write(tmp_path / "t"), "data").findings

    assert [("feature.used-not-supported", Severity.INFO)] == [(one.rule.id, one.severity) for one in found]
    assert "which has no effect" in found[0].message


@pytest.mark.parametrize(
    ("metadata", "writer", "rules"),
    [(GENERATED, 4, {"generated.violated"}), (IDENTITY, 6, {"identity.high-water-mark"})],
)
def test_metadata_of_supported_columns_is_checked(
    metadata: dict[str, Any], writer: int, rules: set[str], tmp_path: Path
) -> None:
    table = table_with(metadata, writer)

    found = inspect(table.write(tmp_path / "t"), "data").findings

    assert rules == {one.rule.id for one in found if one.severity is Severity.ERROR}


def test_metadata_is_checked_from_the_protocol_on_that_supports_it(tmp_path: Path) -> None:
    made = column("c", "long")
    made["metadata"] |= {"delta.generationExpression": "CAST(gone AS LONG)"}
    table = TableBuilder(schema=struct(column("id", "long"), column("name", "string"), made, column("p", "string")))
    version = table.commit({"protocol": {"minReaderVersion": 1, "minWriterVersion": 4}})

    (found,) = [one for one in inspect(table.write(tmp_path / "t")).findings if one.rule.id == "generated.bad-sql"]

    assert version == found.place.version
