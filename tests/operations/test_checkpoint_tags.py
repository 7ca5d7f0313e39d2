"""The tags of the checkpointMetadata of a V2 checkpoint say what its sidecars hold."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow.parquet as pq
import pytest

from deltacli.delta.schema.to_arrow import table_schema
from deltacli.storage import Storage
from tests.support.actions import Action, add, metadata, protocol
from tests.support.builder import LOG, TableBuilder
from tests.support.checkpointing import FORMS, Form, any_form_table
from tests.support.in_memory import MemoryStorage
from tests.support.reading import open_at

SIDECARS = f"{LOG}/_sidecars"
V2 = [form for form in FORMS if form.layout == "v2"]


def tags_of(storage: Storage, path: str) -> Action:
    data = storage.read(path)
    if path.endswith(".json"):
        rows = [json.loads(line) for line in data.splitlines()]
        return next(row["checkpointMetadata"]["tags"] for row in rows if "checkpointMetadata" in row)
    rows = pq.read_table(io.BytesIO(data))["checkpointMetadata"].to_pylist(maps_as_pydicts="strict")
    return next(row["tags"] for row in rows if row)


def sidecars_of(storage: Storage) -> list[bytes]:
    return [storage.read(f"{SIDECARS}/{file.name}") for file in storage.list_from(SIDECARS)]


def written(storage: MemoryStorage, form: Form, **options: Any) -> Action:
    result = open_at(storage).checkpoint(**form.request(**options))
    return tags_of(storage, result.files[0].path)


@pytest.mark.parametrize("form", V2, ids=lambda form: form.name)
@pytest.mark.parametrize("stats", ["json", "both"])
def test_tags_of_a_v2_checkpoint_describe_its_sidecars(form: Form, stats: str) -> None:
    storage = any_form_table(form).in_memory()

    tags = written(storage, form, stats=stats)

    files = [pq.ParquetFile(io.BytesIO(data)) for data in sidecars_of(storage)]
    assert len(files) > 1
    assert {json.dumps(table_schema(file.schema_arrow)) for file in files} == {
        json.dumps(json.loads(tags.pop("sidecarFileSchema")))
    }
    assert {
        "sidecarNumActions": str(sum(file.metadata.num_rows for file in files)),
        "sidecarSizeInBytes": str(sum(map(len, sidecars_of(storage)))),
        "numOfAddFiles": "4",
    } == tags
    assert () == open_at(storage).validate(select=("checkpoint.v2-*", "sidecar.*", "hint.*")).findings


def test_tags_without_sidecars_have_no_schema() -> None:
    lines = [protocol(3, 7, reader_features=["v2Checkpoint"], writer_features=["v2Checkpoint"]), metadata()]

    tags = written(TableBuilder().commit(*lines).in_memory(), V2[0])

    assert {"sidecarNumActions": "0", "sidecarSizeInBytes": "0", "numOfAddFiles": "0"} == tags


def test_a_schema_above_the_limit_of_the_reference_is_left_out_of_the_tags() -> None:
    fields = [{"name": f"c{number}", "type": "long", "nullable": True, "metadata": {}} for number in range(150)]
    lines = [
        protocol(3, 7, reader_features=["v2Checkpoint"], writer_features=["v2Checkpoint"]),
        metadata(
            schema_string=json.dumps({"type": "struct", "fields": fields}),
            configuration={"delta.dataSkippingNumIndexedCols": "-1"},
        ),
        add("a.parquet"),
    ]

    tags = written(TableBuilder().commit(*lines).in_memory(), V2[0], stats="struct")

    assert {"sidecarNumActions", "sidecarSizeInBytes", "numOfAddFiles"} == tags.keys()
