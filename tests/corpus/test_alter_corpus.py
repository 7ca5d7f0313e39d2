"""Changes of columns on real tables: files stay as they were, and `validate` finds nothing new."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deltacli.api.table import Table
from deltacli.clock import fixed_clock
from deltacli.errors import DeltacliError
from deltacli.operations.read.snapshot import summarize
from deltacli.storage import open_storage
from tests.corpus.test_checkpoints import LARGE, NOW_MS, WRITABLE, known_versions
from tests.corpus.test_settings import EXPECTED, REFUSALS, findings
from tests.support.altering import MAPPED, add, change, drop, rename
from tests.support.corpus import CorpusTable
from tests.support.corpus_checkpoints import copy_log

Json = Any  # Any: JSON values

CHOSEN = [table for table in WRITABLE if table.id not in LARGE and table.id not in REFUSALS]
DEPENDENT = {"alter.check-constraint", "alter.generated-column", "alter.invariant", "alter.partition-column"}
DEPENDENT |= {"alter.last-column", "alter.clustering-column", "alter.identity", "alter.default"}
each = pytest.mark.parametrize(
    "table",
    [
        pytest.param(table, id=table.id, marks=[pytest.mark.long] if number % 4 else [])
        for number, table in enumerate(CHOSEN)
    ]
    or [pytest.param(None, id="no-corpus")],
)


def made(table: Table, *changes: dict[str, Json]) -> str:
    try:
        table.alter(changes, enable=True, upgrade_protocol=True)
    except DeltacliError as error:
        return error.code
    return "ok"


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def changes_of(first: dict[str, Json]) -> Iterator[tuple[str, dict[str, Json]]]:
    name = quoted(first["name"])
    yield "comment", change("comment", name, comment="altered")
    yield "add", add("added_", "struct<a: int, b: array<string>>", position="first")
    yield "move", change("move", name, position="last")
    yield "nullable", change("nullable", name)
    yield "default", change("default", name, default="null")
    yield "mapping", MAPPED
    yield "rename", rename(name, "renamed_")


@each
def test_a_column_is_changed_and_nothing_else(table: CorpusTable, root: Path, tmp_path: Path) -> None:
    place = copy_log(table, root, tmp_path / "t")
    opened = Table(open_storage(str(place)), clock=fixed_clock(NOW_MS))
    before, told = summarize(opened, digest=True), findings(place)
    if before.snapshot.version != known_versions(table)[-1]["version"]:
        return
    fields = json.loads(before.snapshot.metadata.schema_string or '{"fields":[]}')["fields"]
    if not fields:
        return

    verdicts = {kind: made(opened, one) for kind, one in changes_of(fields[0])}
    verdicts["drop"] = made(opened, drop("renamed_" if verdicts["rename"] == "ok" else quoted(fields[0]["name"])))
    after = summarize(opened, digest=True)

    assert {"ok"} == {verdicts[kind] for kind in ("comment", "move", "nullable")}
    assert verdicts["add"] == ("iceberg.type-not-allowed" if "iceberg_compat_v1" in table.id else "ok")
    assert verdicts["mapping"] in ("ok", "alter.mapping-mode")
    assert {verdicts[kind] for kind in ("default", "rename", "drop")} <= {"ok", *DEPENDENT}
    assert (before.files, before.digests) == (after.files, after.digests)
    assert before.snapshot.protocol.supported_features <= after.snapshot.protocol.supported_features
    assert findings(place) - told <= {*EXPECTED, "schema.too-wide"}


def test_most_tables_were_changed() -> None:
    assert not CHOSEN or len(CHOSEN) > 100, Counter(table.id.split("/")[0] for table in CHOSEN)
