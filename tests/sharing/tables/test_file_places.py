"""Whether the files of a version are there, on stores that list cheaper than they answer for each file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

import pyarrow as pa
import pytest

from deltacli.delta.log.file_actions import action_schemas
from deltacli.sharing.tables import snapshots as shared_snapshot
from deltacli.storage import Storage
from deltacli.storage.base import Capabilities, WalkEntry


class Listed:
    """An object store that answers a walk and nothing else."""

    uri = "s3://bucket/table"
    capabilities = Capabilities(False, 16, False, lists_flat=True)

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes

    def walk(self, directory: str, _enter: object) -> Iterator[WalkEntry]:
        yield WalkEntry(directory, list(self.sizes), list(self.sizes.values()), None, [])


def test_a_large_table_on_an_object_store_is_listed_not_asked_file_by_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_snapshot, "_MOST_SINGLE_LOOKS", 2)
    actions = [{"path": path, "size": 1} for path in ("a/b", "c", "a/gone")]
    files = pa.Table.from_pylist(actions, schema=action_schemas().add)

    found = shared_snapshot.unavailable_files(files, cast("Storage", Listed({"a/b": 1, "c": 2, "old": 3})))

    assert {"of another size than in the log": ["c"], "missing": ["a/gone"]} == found
