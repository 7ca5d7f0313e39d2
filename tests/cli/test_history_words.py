"""What `history` says of the parameters of an operation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deltacli.cli.render.operation_words import describe_parameters

ADDED = {"column": {"name": "z", "type": "integer", "nullable": True, "metadata": {"comment": "zz"}}}
STRUCT = {"type": "struct", "fields": []}


def words(**parameters: Any) -> str:
    return describe_parameters({"operation": "CHANGE COLUMN", "operationParameters": parameters})


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"columns": json.dumps([ADDED | {"position": "AFTER a"}])}, "z integer comment 'zz' after a"),
        ({"columns": json.dumps([ADDED | {"position": "FIRST"}])}, "z integer comment 'zz' first"),
        ({"column": '{"name":"m.key","type":"long","nullable":false,"metadata":{}}'}, "m.key long not null"),
        ({"column": {"column": "p", "type": "decimal(19,3)", "nullable": True}}, "p decimal(19,3)"),
        ({"columns": [{"column": "a", "type": STRUCT}, {"column": "b", "type": "int"}]}, "a struct, b int"),
        ({"columns": '["a","b"]'}, "columns=a, b"),
        ({"column": '{"name":"a"}'}, "column=name=a"),
        ({"column": '{"name":7,"type":"int"}'}, "column=name=7, type=int"),
        ({"columns": '[{"column":{"name":"a"}}]'}, "columns=column=name=a"),
        ({"column": "a", "comment": "text"}, "column=a, comment=text"),
        ({"column": "[" * 2_000 + "]" * 2_000}, "column=" + "[" * 2_000 + "]" * 2_000),
        ({"columns": "[{"}, "columns=[{"),
    ],
)
def test_columns_are_told_by_name_and_type(parameters: dict[str, Any], expected: str) -> None:
    assert expected == words(**parameters)
