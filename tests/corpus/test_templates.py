"""`--template` on real tables: each field has the value of its column in CSV."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from deltacli.cli.documents_of_commands import find_fields
from deltacli.cli.terminal.characters import escape_control
from tests.cli.support import deltacli
from tests.support import corpus

NAMES = ("delta-rs/cdf-table-with-cdc-and-dvs", "kernel-rs/compacted-log-files-table", "golden/snapshot-vacuumed")
TABLES = [table for table in corpus.tables() if table.id in NAMES]


@pytest.mark.parametrize("table", [pytest.param(table, id=table.id) for table in TABLES])
@pytest.mark.parametrize(("command", "kind"), [("history", "commit"), ("snapshot --files", "add")])
def test_each_field_has_the_value_of_its_column(command: str, kind: str, table: corpus.CorpusTable, root: Path) -> None:
    words = [*command.split(), str(table.path(root))]
    rows = list(csv.DictReader(io.StringIO(deltacli(*words, "--format", "csv").out, newline="")))
    names = [name for name in rows[0] if name in find_fields(kind)]

    ran = deltacli(*words, "--template", r"\t".join(f"{{{name}}}" for name in names))

    expected = [[escape_control(row[name]) for name in names] for row in rows]
    assert (expected, 0) == ([line.split("\t") for line in ran.out.splitlines()], ran.code)


def test_the_tables_are_there() -> None:
    assert len(NAMES) == len(TABLES)
