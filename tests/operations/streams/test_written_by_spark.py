"""Directories that PySpark 4.0 and 4.3 wrote for queries that read no table (`tests/support/spark_checkpoints.py`)."""

from __future__ import annotations

import json
from pathlib import Path

from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.streams.streams import StreamsRequest, find_streams
from deltacli.storage import open_storage

FILE = Path(__file__).with_name("written_by_spark.json")


def test_queries_of_other_sources_are_named_with_their_last_batch_and_have_no_verdict(tmp_path: Path) -> None:
    expected = {}
    for version, queries in json.loads(FILE.read_text()).items():
        for name, query in queries.items():
            expected[f"{version} {name}"] = query["batch"]
            for path, text in query["files"].items():
                place = tmp_path / f"{version} {name}" / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(text.encode("latin-1"))
    assert 58 == len(expected)

    request = StreamsRequest(checkpoints=[f"{tmp_path}/*"])
    found = find_streams(request, [], open_storage, EmbeddedEngine(2)).as_json()["queries"]

    assert expected == {one["name"]: one["batch"] for one in found}
    assert {("ok", None)} == {(one["verdict"], one["because"]) for one in found}
    assert {("other", None)} == {(source["kind"], source["verdict"]) for one in found for source in one["sources"]}
    formats = [len(one["sources"]) for one in found if "files + batches" in one["name"]]
    assert 9 == formats.count(2) == len(formats)
