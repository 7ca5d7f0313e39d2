"""The files that `validate` knows: those of a checkpoint stay in columns until a commit names them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from deltacli.delta.log.actions import Action
from deltacli.delta.log.file_actions import action_schemas, build_action_batch
from deltacli.rules.framework import known_files
from deltacli.rules.framework.known_files import KnownFiles
from deltacli.rules.framework.views import LocatedAction, Totals, TouchedFile

CHECKPOINT = "_delta_log/of_checkpoint.parquet"
VECTOR = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "sizeInBytes": 40, "cardinality": 3}


def add_of(path: str, size: int = 1, **fields: Any) -> Action:
    return {"path": path, "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True} | fields


def remove_of(path: str, time: int = 1) -> Action:
    return {"path": path, "deletionTimestamp": time, "dataChange": True}


def known_of(adds: list[Action], removes: list[Action] | None = None) -> KnownFiles:
    """What is known at a checkpoint that holds these actions."""
    schemas = action_schemas()
    columns = pa.table(build_action_batch(adds, schemas.add, "")).drop_columns(["stats"])
    columns = columns.append_column("num_records", pa.nulls(len(adds), pa.int64()))
    return KnownFiles.of_checkpoint(
        columns, pa.table(build_action_batch(removes or [], schemas.remove, "")), CHECKPOINT
    )


def touched(kind: str, action: Action) -> TouchedFile:
    """A file of a commit that was not looked up before."""
    return TouchedFile(LocatedAction(kind, action, 1), action["path"], "", None)


def live_paths(known: KnownFiles) -> list[str]:
    return sorted(file.path for file in known.live())


def test_commits_may_name_files_that_were_not_looked_up() -> None:
    known = known_of([add_of("a", 10), add_of("b", 20, deletionVector=VECTOR), add_of("c", 30)])

    known.apply(1, [touched("add", add_of("c", 31))], [touched("remove", remove_of("a"))])

    assert ["b", "c"] == live_paths(known)
    assert Totals(files=2, size_bytes=51, vectors=1, deleted_records=3) == known.totals


def test_a_file_added_again_is_not_a_tombstone_of_the_checkpoint() -> None:
    known = known_of([], [remove_of("a"), remove_of("b", 2), remove_of("c", 3)])

    known.apply(1, [touched("add", add_of("a"))], [touched("remove", remove_of("b", 4))])

    assert [("b", 4), ("c", 3)] == [(found["path"], found["deletionTimestamp"]) for found in known.tombstones()]
    assert [("b", 4)] == [(found["path"], found["deletionTimestamp"]) for found in known.tombstones(newer_than=3)]
    assert known.tombstone_of(("a", "")) is None


def test_a_tombstone_of_the_checkpoint_is_identified_by_its_vector_too() -> None:
    known = known_of([], [remove_of("a") | {"deletionVector": VECTOR}, remove_of("a", 2)])

    known.apply(1, [touched("add", add_of("a"))], [])

    assert [("a", 1)] == [(found["path"], found["deletionTimestamp"]) for found in known.tombstones()]


def test_one_read_of_a_checkpoint_serves_many_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    known = known_of([add_of("a b"), add_of("c")])
    known.prefetch(["a%20b", "x"])
    monkeypatch.setattr(known_files, "_is_in", None)

    found = known.live_of("a b")

    assert found is not None
    assert ["a b"] == [file.path for file in found]
    assert () == known.live_of("x")


def test_many_files_leave_a_checkpoint_as_few_do() -> None:
    adds = [add_of(f"part-{number:05d}", number) for number in range(4_100)]
    known = known_of(adds)
    gone = adds[1:-1:2]

    for some in (gone[:1], gone[1:3], gone[3:]):
        known.apply(1, [], [touched("remove", remove_of(add["path"])) for add in some])
        paths = {add["path"] for add in some}
        adds = [add for add in adds if add["path"] not in paths]
        left = [add["path"] for add in adds]

        assert left == live_paths(known)
        assert left == known.live_columns().column("path").to_pylist()
        assert left == known.live_adds().column("path").to_pylist()


def test_temporary_files_of_a_checkpoint_are_deleted() -> None:
    known = known_of([add_of("a"), add_of("b", deletionVector=VECTOR)])

    known.apply(
        1,
        [],
        [
            touched("remove", remove_of("a")),
            touched("remove", remove_of("b"))._replace(dv_id="uab^-aqEH.-t@S}K{vb[*k^"),
        ],
    )

    assert Totals(0, 0, 0, 0) == known.totals
    assert [] == live_paths(known)
    assert 0 == known.live_columns().num_rows == known.live_adds().num_rows
    assert [] == [row for batch in known.whole_adds() for row in batch.to_pylist()]
