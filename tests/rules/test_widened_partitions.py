"""Partition values that were written before their column got a wider type: kernels do not parse them with that type."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from deltacli.api.table import Table
from tests.support.actions import Line, add, metadata, protocol, remove
from tests.support.builder import TableBuilder
from tests.support.reading import open_built

RULE = "partition.kernel-unreadable"
FEATURES = ["typeWidening", "timestampNtz", "appendOnly", "invariants"]


def of_type(*chain: str) -> Line:
    """The metadata of a table whose partition column has the last of these types, after the others."""
    changes = [{"fromType": before, "toType": after} for before, after in pairwise(chain)]
    own: dict[str, Any] = {"delta.typeChanges": changes} if changes else {}
    fields = [
        {"name": "id", "type": "integer", "nullable": True, "metadata": {}},
        {"name": "p", "type": chain[-1], "nullable": True, "metadata": own},
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    properties = {"delta.enableTypeWidening": "true"}
    return metadata(schema_string=schema, partition_columns=["p"], configuration=properties)


def widened(chain: Sequence[str], *texts: str | None) -> TableBuilder:
    """A table that has a file with a text of each type, in the order of the types."""
    builder = TableBuilder()
    for count, text in enumerate(texts, 1):
        readers = [name for name in FEATURES if name not in ("appendOnly", "invariants")]
        born = [protocol(3, 7, reader_features=readers, writer_features=FEATURES)] if count == 1 else []
        builder.commit(*born, of_type(*chain[:count]), add(f"f{count}.parquet", partition_values={"p": text}))
    return builder


def seen(table: Table) -> list[str | None]:
    return [finding.seen for finding in table.validate(level="log").findings if finding.rule.id == RULE]


@pytest.mark.parametrize(
    ("chain", "texts", "expected"),
    [
        (["decimal(9,2)", "decimal(19,3)"], ["1.23", "1.230"], ["1.23"]),
        (["decimal(9,2)", "decimal(19,3)"], [None, "1.230"], []),
        (["decimal(9,2)", "decimal(19,2)"], ["1.23", "1.24"], []),
        (["decimal(9,2)", "decimal(10,3)", "decimal(19,4)"], ["1.23", "1.234", "1.2345"], ["1.23"]),
        (["decimal(9,2)", "decimal(10,3)", "decimal(19,4)"], ["", "1.234", "1.2345"], ["", "1.234"]),
        (["date", "timestamp_ntz"], ["2024-01-01", "2024-01-01 00:00:00"], ["2024-01-01"]),
        (["integer", "decimal(12,2)"], ["7", "7.00"], ["7"]),
        (["integer", "long"], ["7", "8"], []),
        (["integer", "double"], ["7", "8.5"], []),
    ],
)
def test_values_of_the_older_type_are_a_warning(chain: list[str], texts: list[str | None], expected: list[str]) -> None:
    """
    One finding per column; an empty text is reported at its file by the same rule.
    """
    assert expected == sorted(text or "" for text in seen(open_built(widened(chain, *texts))))


def test_values_of_removed_files_do_not_matter() -> None:
    builder = widened(["decimal(9,2)", "decimal(19,3)"], "1.23", "1.230")
    builder.commit(remove("f1.parquet", partition_values={"p": "1.23"}))

    assert [] == seen(open_built(builder))


def test_a_value_that_was_odd_before_is_reported_once() -> None:
    assert ["1.5"] == seen(open_built(widened(["decimal(9,2)", "decimal(19,3)"], "1.5", "1.230")))


def test_a_checkpoint_behind_the_change_tells_it_as_well() -> None:
    builder = widened(["decimal(9,2)", "decimal(19,3)"], "1.23", "1.230").checkpoint(1)
    for path in [path for path in builder.files if path.endswith("0.json")]:
        del builder.files[path]

    assert ["1.23"] == seen(open_built(builder))


@pytest.mark.parametrize(("text", "is_regained"), [("1.23", False), ("1.230", True)])
def test_dropping_the_feature_promises_no_reader_that_refuses_the_values(text: str, is_regained: bool) -> None:
    table = open_built(widened(["decimal(9,2)", "decimal(19,3)"], text, "1.230"))

    regained = {client.client.name for client in table.plan_drop_features("typeWidening").clients}

    assert is_regained == ("deltalake" in regained)
