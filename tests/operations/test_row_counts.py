"""How many rows a version has: the count, the rows that are read, and what `snapshot` says of the log agree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltacli import open_table
from deltacli.operations.read.snapshot import count_rows, summarize
from tests.support.actions import Action, Line, add, commit_info, metadata, protocol, remove
from tests.support.builder import TableBuilder
from tests.support.rows import parquet_bytes, schema_of
from tests.support.small_vectors import inline

ROWS = pa.table({"id": pa.array(range(10), pa.int64())})
DATA = parquet_bytes(ROWS)
LOOSE = {"numRecords": 10, "tightBounds": False, "minValues": {"id": 0}, "maxValues": {"id": 9}}
LOGICAL = {"numRecords": 6, "minValues": {"id": 4}, "maxValues": {"id": 9}}
TIGHT, DISAGREE, EXCEEDS = "stats.tight-with-dv", "stats.records-disagree", "stats.cardinality-exceeds"


def file(stats: dict[str, Any] | None, vector: Action | None = None) -> Line:
    line = add("a.parquet", size=len(DATA), vector=vector)
    line["add"].pop("stats", None)
    return {"add": {**line["add"], "dataChange": False} | ({} if stats is None else {"stats": json.dumps(stats)})}


DELETED = inline([0, 1, 2, 3])
GONE = remove("a.parquet")


@pytest.mark.parametrize(
    ("commits", "rows", "problems"),
    [
        pytest.param([[file(LOOSE)]], 10, [], id="no-vector"),
        pytest.param([[file(LOOSE)], [GONE, file(LOOSE, DELETED)]], 6, [], id="usual"),
        pytest.param([[file(LOOSE)], [GONE, file({"numRecords": 10}, DELETED)]], 6, [], id="without-bounds"),
        pytest.param([[file(LOGICAL, DELETED)]], 6, [TIGHT], id="logical-records"),
        pytest.param([[file(LOOSE, DELETED)], [file(LOGICAL, DELETED)]], 6, [DISAGREE, TIGHT], id="analyzed"),
        pytest.param(
            [[file(LOOSE, DELETED)], [file(LOGICAL | {"tightBounds": False}, DELETED)]], 6, [DISAGREE], id="disagree"
        ),
        pytest.param([[file(LOOSE)], [file(LOGICAL)]], 10, [DISAGREE], id="disagree-without-vectors"),
        pytest.param([[file({"numRecords": 3, "tightBounds": False}, DELETED)]], 6, [EXCEEDS], id="more-than-all"),
        pytest.param(
            [[file(LOGICAL)], [commit_info("FSCK"), file(LOOSE | {"tightBounds": True})]], 10, [], id="repaired"
        ),
        pytest.param([[file(LOOSE)], [GONE, file(LOGICAL)], [GONE]], 0, [], id="disagreed-and-removed"),
        pytest.param([[file(LOOSE, inline([1, 10, 2**33]))]], 9, None, id="beyond-the-rows"),
        pytest.param([[file(LOOSE, inline([9, 10]))]], 9, None, id="last-and-beyond"),
    ],
)
def test_counts_are_those_of_the_rows_that_are_read(
    commits: list[list[Line]], rows: int, problems: list[str] | None, tmp_path: Path
) -> None:
    table = TableBuilder().file("a.parquet", DATA)
    features = ["deletionVectors"]
    first = [
        protocol(3, 7, reader_features=features, writer_features=features),
        metadata(schema_string=schema_of(ROWS)),
    ]
    for number, lines in enumerate(commits):
        table.commit(*(first if number == 0 else []), *lines)
    opened = open_table(table.write(tmp_path))
    snapshot = opened.snapshot()

    document = summarize(opened).as_json()

    assert rows == sum(batch.num_rows for batch in snapshot.scan())
    assert rows == count_rows(snapshot)[0]
    if problems is not None:  # no log can tell that a vector deletes what its file does not have
        assert sorted(problems) == document["logSegment"]["problems"]
        assert (None if problems else rows) == document["files"]["rows"]
        of_rules = {one.rule.id for one in opened.validate().findings}
        assert set(problems) == of_rules & {TIGHT, DISAGREE, EXCEEDS} or (not rows and DISAGREE in of_rules)
