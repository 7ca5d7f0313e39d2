"""The line of the log that a finding is about: which one is read, and which field of it is marked."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltacli.cli.render.validate.excerpts import split_line
from deltacli.delta.log.segment import Place
from deltacli.operations.validate.log_reader import LONGEST_LINE, MOST_BYTES, read_log_line
from deltacli.rules.framework.base import CATALOGUE, Finding, Severity
from deltacli.storage import LocalStorage

RULE = next(iter(CATALOGUE.rules.values()))
ADD = '{"add":{"path":"a%20b.parquet","size":1363,"dataChange":true,"stats":"{\\"numRecords\\":9}"}}'
SCHEMA = r'{"metaData":{"id":"x","schemaString":"{\"fields\":[{\"name\":\"id\",\"type\":\"long\"}]}"}}'

MARKED = {
    "a field that the message names": (ADD, "add.size is odd", None, None, None, '"size":1363'),
    "a value that was expected": (ADD, "other", None, "700", "1363", "1363"),
    "a file that the message names": (ADD, "a%20b.parquet: gone", None, None, None, '"a%20b.parquet"'),
    "a word that stands for itself by chance": (ADD, "other", None, "true", None, ""),
    "a column in the schema": (SCHEMA, "other", "id", None, None, r"\"name\":\"id\""),
    "a property": ('{"a":{"delta.x":"1"}}', "other", "delta.x", None, None, '"delta.x":"1"'),
    "a value that is there twice": ('{"a":"same","b":"same"}', "other", None, "same", None, ""),
    "no JSON": ('{"add":', "add.size", "add.size", "size", None, ""),
}


@pytest.mark.parametrize("name", MARKED)
def test_the_field_is_marked_where_it_is_certain(name: str) -> None:
    line, message, key, seen, expected, field = MARKED[name]
    finding = Finding(RULE, Severity.ERROR, message, Place("_delta_log/0.json", 1, 0, key), seen, expected)

    found = split_line(line.encode(), finding)

    assert field == found.field
    assert line == "".join(found)


def test_a_line_is_read_up_to_a_limit_and_never_fails(tmp_path: Path) -> None:
    pad = b"x" * (LONGEST_LINE + 1)
    (tmp_path / "log").write_bytes(b"first\n\n" + pad + b"\nfourth\n" + b"\n" * (300 << 10) + b"far\nlast")
    (tmp_path / "long").write_bytes(b"\n" * MOST_BYTES + b"end")
    storage = LocalStorage(str(tmp_path))
    far = 5 + (300 << 10)

    lines = [read_log_line(storage, "log", line) for line in (1, 2, 3, 4, far, far + 1, far + 2)]

    assert [b"first", None, None, b"fourth", b"far", b"last", None] == lines
    assert None is read_log_line(storage, "long", MOST_BYTES + 1)
    assert None is read_log_line(storage, "missing", 1)
