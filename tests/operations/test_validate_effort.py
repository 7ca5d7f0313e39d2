"""What `validate` asks of a store: one listing, and each file once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from deltacli.engine.embedded import EmbeddedEngine
from deltacli.storage import LocalStorage
from tests.rules.data_table import DataTable
from tests.rules.table_builder import NOW_MS
from tests.support.faulty import FaultyStorage
from tests.support.validating import validate_table

LISTS = {"list_from", "list_directories"}
READS = {"read", "read_range", "open"}


def asked(root: Path, level: str) -> Counter[tuple[str, str]]:
    storage = FaultyStorage(LocalStorage(str(root)))
    validate_table(storage, EmbeddedEngine(1), level=level, now_ms=NOW_MS)
    kinds = {verb: "list " + verb for verb in LISTS} | dict.fromkeys(READS, "read")
    return Counter((kinds[verb], path) for verb, path in storage.calls if verb in kinds)


@pytest.mark.parametrize("level", ["log", "storage", "footers", "data"])
def test_nothing_is_listed_or_opened_twice(level: str, tmp_path: Path) -> None:
    root = DataTable().write(tmp_path / "t")

    found = asked(root, level)

    assert {} == {call: count for call, count in found.items() if count > 1}
    data_files = {path for kind, path in found if kind == "read" and path.endswith("c000.snappy.parquet")}
    assert (3 if level in ("footers", "data") else 0) == len(data_files)
