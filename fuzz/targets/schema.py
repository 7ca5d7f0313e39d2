"""Schema strings: parsed, walked, drawn."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any, cast

from deltacli.cli.render.schemas.tree import schema_rows, schema_tree
from deltacli.cli.terminal.capabilities import Terminal
from deltacli.core.errors import DeltacliError
from deltacli.delta.schema.types import parse_schema
from fuzz.mutate import JSON_TOKENS
from tests.support.actions import SCHEMA_STRING

TOKENS = (
    *JSON_TOKENS,
    b'{"type":"array","elementType":',
    b'{"type":"array","elementType":' * 400,
    b'{"type":"map","keyType":"string","valueType":' * 300 + b'"long"' + b"}" * 300,
    b'{"type":"struct","fields":[{"name":"a","type":' * 200 + b'"long"' + b"}]}" * 200,
    b'"type":"struct"',
    b'"fields":',
    b'"containsNull":',
    b'{"name":"x","type":"decimal(38,38)","nullable":false,"metadata":{"comment":"c"}},',
)

_NESTED = (
    '{"type":"struct","fields":[{"name":"a","type":{"type":"array","elementType":{"type":"struct","fields":['
    '{"name":"b","type":"string","nullable":true,"metadata":{"comment":"ü"}}]},"containsNull":false},"nullable":true,'
    '"metadata":{}},{"name":"m","type":{"type":"map","keyType":"string","valueType":{"type":"map","keyType":"date",'
    '"valueType":"decimal(10,2)","valueContainsNull":true},"valueContainsNull":false},"nullable":false,"metadata":{}}]}'
)


def seeds() -> list[bytes]:
    """Flat and nested schemas."""
    return [SCHEMA_STRING.encode(), _NESTED.encode(), b'{"type":"struct","fields":[]}', b'"long"']


def test_one_input(data: bytes) -> None:
    """A schema is refused by an error of ours, or can be drawn as a tree and listed as rows."""
    text = data.decode("utf-8", "replace")
    with contextlib.suppress(DeltacliError):
        snapshot = cast(Any, SimpleNamespace(schema=parse_schema(text), metadata=SimpleNamespace(partition_columns=())))
        rows = list(schema_rows(snapshot))
        tree = schema_tree(snapshot, Terminal(is_terminal=True, width=80, colour=True))
        if len(rows) + 1 != len(tree):
            raise AssertionError(f"{len(rows)} rows, {len(tree)} lines")
