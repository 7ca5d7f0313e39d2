"""Schema files of Paimon, their type strings, and statements of SQL: read, written, compared, drawn, and checked."""

from __future__ import annotations

import contextlib

from deltacli.cli.render.paimon import paimon_schema_rows, tree_lines
from deltacli.core.errors import Unreadable
from deltacli.operations.schemas.described import read_ddl
from deltacli.paimon.conversions import create_table, parse_sql_type
from deltacli.paimon.schema import Schema, read_schema
from deltacli.paimon.schema_changes import changes_between
from deltacli.paimon.types import BadType, parse_type, parse_type_string, type_json
from deltacli.rules.paimon.catalogue import PAIMON_CATALOGUE, SchemaFileView
from fuzz.mutate import JSON_TOKENS
from tests.support.paimon_builder import ID, NAME, PaimonBuilder, field

TOKENS = (
    *JSON_TOKENS,
    b'"TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL"',
    b'"DECIMAL(38, 38)"',
    b'"INT ARRAY MULTISET"',
    b'"VECTOR<FLOAT, 4>"',
    b"\"GEOGRAPHY('a', spherical)\"",
    b'{"type":"ARRAY","element":',
    b'{"type":"ARRAY","element":' * 400,
    b'{"type":"MAP NOT NULL","key":"STRING","value":',
    b'{"type":"ROW","fields":[{"id":9,"name":"x","type":',
    b" NOT NULL",
    b"'",
    b"`",
)
_ROW = {"type": "ROW", "fields": [field(5, "a.b", "INT", description="c"), field(6, "t", "TIME(3)")]}


def seeds() -> list[bytes]:
    """Flat and nested schemas, of several versions, and type strings."""
    nested = field(3, "m", {"type": "MAP", "key": "INT", "value": {"type": "ARRAY", "element": _ROW}})
    options = {"bucket-key": "id", "fields.name.aggregate-function": "sum", "file.format": "avro"}
    return [
        PaimonBuilder.content([ID, NAME], version=1, options={}),
        PaimonBuilder.content([ID, NAME, nested], options=options, comment="é", partitionKeys=["name"]),
        b"TIMESTAMP_LTZ(3) NOT NULL",
        b"VECTOR<DOUBLE PRECISION, 8> ARRAY",
        b"CREATE TABLE `t` (`id` BIGINT NOT NULL COMMENT 'c', PRIMARY KEY (`id`) NOT ENFORCED) WITH ('b' = '2');",
        b"MAP<STRING NOT NULL, ROW<a INT 'c', `b c` ARRAY<INT>>>",
    ]


def test_one_input(data: bytes) -> None:
    """A type or schema is refused by an error of ours, or is the same after it was written and read again."""
    with contextlib.suppress(BadType):
        found = parse_type_string(data.decode("utf-8", "replace"))
        if parse_type(type_json(found)) != found:
            raise AssertionError(f"{found} is not read as it is written")
    text = data.decode("utf-8", "replace")
    for read in (read_ddl, parse_sql_type):
        with contextlib.suppress(BadType):
            read(text)
    content: Schema | Unreadable
    try:
        content = read_schema(data)
    except Unreadable as fault:
        content = fault
    else:
        if read_schema(content.encode()) != content or changes_between(content, content):
            raise AssertionError("the schema is not read as it is written")
        if sum(1 for _ in paimon_schema_rows(content)) > len(tree_lines(content)) or not create_table(content, "t"):
            raise AssertionError("a field is not drawn")
    view = SchemaFileView(0, content)
    for check in PAIMON_CATALOGUE.find_checks(SchemaFileView):
        list(check.run(view))
