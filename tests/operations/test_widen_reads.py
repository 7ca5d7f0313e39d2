"""What `widen-type` asks of the store: protocol and metadata, and of a partition column its values."""

from __future__ import annotations

import io
import json

import pyarrow.parquet as pq
import pytest

from deltacli.changing.change import plan_change
from deltacli.core.errors import CheckpointUnreadable, NoAtomicCreate
from deltacli.operations.change.widen_type import Widening, WidenRequest
from tests.support.actions import add, commit_info, metadata, protocol
from tests.support.builder import LOG, TableBuilder
from tests.support.reading import open_at
from tests.support.storage import NEAR, RecordingStorage
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


def widened(builder: TableBuilder, column: str, to_type: str, *, readable: tuple[str, ...]) -> RecordingStorage:
    """Widen a column where of all fields of adds in the checkpoint only these can be read."""
    storage = builder.in_memory()
    storage.write(CHECKPOINT, without_pages(builder.files[CHECKPOINT].data, readable))
    recording = RecordingStorage(storage)
    outcome = open_at(recording).widen_type((column, to_type), enable=True, upgrade_protocol=True)
    assert 3 == outcome.committed_version
    return recording


def without_pages(data: bytes, readable: tuple[str, ...]) -> bytes:
    """A checkpoint in which the pages of adds are invalid except for some fields; its footer is intact."""
    found, metadata = bytearray(data), pq.ParquetFile(io.BytesIO(data)).metadata
    for group in range(metadata.num_row_groups):
        for place in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(place)
            kind, name, *_ = chunk.path_in_schema.split(".")
            if kind == "add" and name not in readable:
                start = chunk.dictionary_page_offset or chunk.data_page_offset
                found[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    return bytes(found)


@pytest.mark.halved
def test_another_column_needs_no_file_action(built: TableBuilder) -> None:
    asked = widened(built, "id", "long", readable=())

    # The second listing, on a disk only, and the `stat` look at the log and the version that the commit follows, the
    # walk at the manifests beside it.
    counts = {"read_range": 1, "list_from": 2, "read": 1, "open": 1, "stat": 1, "walk": 1, "put_if_absent": 1}
    assert counts == asked.calls
    assert [CHECKPOINT] == asked.touched("open")


def test_a_partition_column_needs_its_values_and_the_keys_of_files(built: TableBuilder) -> None:
    asked = widened(built, "day", "timestamp_ntz", readable=("partitionValues", "path", "size", "deletionVector"))

    assert {CHECKPOINT} == set(asked.touched("open"))
    with pytest.raises(CheckpointUnreadable):
        widened(built, "day", "timestamp_ntz", readable=("path", "size", "deletionVector"))


def test_a_plan_on_a_read_only_store_reports_that_nothing_can_be_committed() -> None:
    schema = compact(struct(field("id", "integer")))
    builder = TableBuilder().commit(protocol(1, 2), metadata(schema_string=schema))
    storage = RecordingStorage(builder.in_memory(), capabilities=NEAR._replace(atomic_create=False))
    request = WidenRequest((("id", "long"),), enable=True, upgrade_protocol=True)

    with pytest.raises(NoAtomicCreate):
        plan_change(Widening(request, with_impact=True), open_at(storage))
