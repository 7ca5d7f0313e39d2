"""What `widen-type` asks of the store: protocol and metadata, and of a partition column its values."""

from __future__ import annotations

import json

import pytest

from deltacli.storage.memory import MemoryStorage
from tests.support.actions import add, commit_info, metadata, protocol
from tests.support.builder import LOG, TableBuilder
from tests.support.reading import open_at
from tests.support.storage import RecordingStorage
from tests.support.widening import compact, field, struct

FILES = 20_000
CHECKPOINT = f"{LOG}/{1:020d}.checkpoint.parquet"


@pytest.fixture(scope="module")
def built() -> TableBuilder:
    """Many files in a checkpoint, and a commit after it."""
    schema = compact(struct(field("id", "integer"), field("day", "date")))
    builder = TableBuilder().commit(protocol(1, 2), metadata(schema_string=schema, partition_columns=["day"]))
    adds = [
        add(
            f"day=2026-01-{number % 28 + 1:02d}/part-{number:032x}.parquet",
            size=number,
            stats=json.dumps({"numRecords": number, "minValues": {"id": number}, "maxValues": {"id": 7 * number}}),
            partition_values={"day": f"2026-01-{number % 28 + 1:02d}"},
        )
        for number in range(FILES)
    ]
    builder.commit(*adds).checkpoint()
    return builder.commit(commit_info("WRITE"), add("day=2026-02-01/a.parquet", partition_values={"day": "2026-02-01"}))


def widened(storage: MemoryStorage, *change: str) -> RecordingStorage:
    recording = RecordingStorage(storage)
    outcome = open_at(recording).widen_type((change[0], change[1]), enable=True, upgrade_protocol=True)
    assert 3 == outcome.committed_version
    return recording


def test_another_column_needs_no_file_action(built: TableBuilder) -> None:
    size = len(built.files[CHECKPOINT].data)

    asked = widened(built.in_memory(), "id", "long")

    print(asked.calls, asked.bytes_read, size, asked.paths)


def test_a_partition_column_needs_no_statistics(built: TableBuilder) -> None:
    size = len(built.files[CHECKPOINT].data)

    asked = widened(built.in_memory(), "day", "timestamp_ntz")

    print(asked.calls, asked.bytes_read, size, asked.paths)
