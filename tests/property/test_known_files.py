"""The files that `validate` knows, against the model: from the first commit on, or from a checkpoint on."""

from __future__ import annotations

import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from deltacli.delta.log.file_actions import action_schemas, build_action_batch
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.paths.spelling import canonicalize_path
from deltacli.rules.framework.known_files import KnownFiles
from deltacli.rules.framework.views import OF_CHECKPOINT, CommitView, LiveFile, LocatedAction
from tests.support import strategies as some
from tests.support.actions import Action
from tests.support.builder import TableBuilder, commit_path
from tests.support.effort import examples
from tests.support.model import FileKey, State, identity, key_of, num_records, vector_id

CHECKPOINT = "_delta_log/of_checkpoint.parquet"


def of_checkpoint(state: State) -> KnownFiles:
    schemas = action_schemas()
    live = list(state.live.values())
    adds = pa.table(build_action_batch(live, schemas.add, "")).drop_columns(["stats"])
    adds = adds.append_column("num_records", pa.array([num_records(add) for add in live], pa.int64()))
    removes = pa.table(build_action_batch(list(state.tombstones.values()), schemas.remove, ""))
    return KnownFiles.of_checkpoint(adds, removes, CHECKPOINT)


def commit_of(builder: TableBuilder, version: int, known: KnownFiles) -> CommitView:
    placed = [
        LocatedAction(kind, action, number)
        for number, line in enumerate(builder.files[commit_path(version)].data.splitlines(), 1)
        for kind, action in json.loads(line or b"{}").items()
        if action is not None
    ]
    adds = [one for one in placed if one.kind == "add"]
    removes = [one for one in placed if one.kind == "remove"]
    return CommitView(version, 0, 0, [], adds, removes, None, TableConfiguration(), TableConfiguration(), known.live_of)


def key_of_file(file: LiveFile) -> FileKey:
    return identity(file.path), file.dv_id


def key_of_remove(remove: Action) -> FileKey:
    """The key of an action that may come from columns, where what is absent is null."""
    vector = {name: value for name, value in (remove.get("deletionVector") or {}).items() if value is not None}
    return key_of(remove | {"deletionVector": vector})


def plain(table: pa.Table, *names: str) -> set[tuple[object, ...]]:
    return {tuple(row[name] for name in names) for row in table.to_pylist()}


def check(known: KnownFiles, state: State, since: dict[FileKey, int]) -> None:
    live, tombstones = state.live, state.tombstones
    vectors = [add["deletionVector"] for add in live.values() if add.get("deletionVector")]
    rows_deleted = sum(vector["cardinality"] for vector in vectors)
    assert (len(live), sum(add["size"] for add in live.values()), len(vectors), rows_deleted) == known.totals
    files = list(known.live())
    assert {key: since[key] for key in live} == {key_of_file(file): file.version for file in files}
    assert len(live) == len(files) == known.live_columns().num_rows == known.live_adds().num_rows
    assert plain(known.live_columns(), "path", "size", "num_records", "dv_id", "version") == {
        (add["path"], add["size"], num_records(add), vector_id(add), since[key]) for key, add in live.items()
    }
    assert plain(known.live_adds(), "path", "size", "version", "source", "dv_path") == {
        (
            add["path"],
            add["size"],
            since[key],
            CHECKPOINT if since[key] == OF_CHECKPOINT else commit_path(since[key]),
            (add.get("deletionVector") or {}).get("pathOrInlineDv"),
        )
        for key, add in live.items()
    }
    whole = [add for batch in known.whole_adds() for add in batch.select(["path", "size"]).to_pylist()]
    assert sorted(whole, key=str) == sorted(({"path": a["path"], "size": a["size"]} for a in live.values()), key=str)
    assert sorted(tombstones) == sorted(key_of_remove(remove) for remove in known.tombstones())
    assert len(tombstones) == known.tombstone_count()
    times = sorted({remove.get("deletionTimestamp") or 0 for remove in tombstones.values()})
    for time in times:
        newer = [key for key, remove in tombstones.items() if (remove.get("deletionTimestamp") or 0) > time]
        assert sorted(newer) == sorted(key_of_remove(remove) for remove in known.tombstones(newer_than=time))


def added_by(commit: CommitView) -> list[Action]:
    return [placed.action for placed in commit.adds]


@given(st.data())
@examples(30)
def test_known_files_match_the_model_at_every_version(data: st.DataObject) -> None:
    builder = data.draw(some.described_logs())
    base = data.draw(st.integers(-1, builder.newest - 1))
    known = KnownFiles(is_known=True) if base < 0 else of_checkpoint(builder.states[base])
    since = dict.fromkeys(builder.states[base].live, OF_CHECKPOINT) if base >= 0 else {}
    for version in range(base + 1, builder.newest + 1):
        before, state = builder.states[version - 1] if version else State(), builder.states[version]
        commit = commit_of(builder, version, known)
        if data.draw(st.booleans()):
            known.prefetch([placed.action["path"] for placed in commit.adds])
        for file in commit.removed if data.draw(st.booleans()) else ():
            of_path = {key for key in before.live if key[0] == identity(file.placed.action["path"])}
            assert of_path == {key_of_file(live) for live in file.live or ()}

        known.apply(version, commit.added, commit.removed)

        since |= dict.fromkeys(map(key_of, added_by(commit)), version)
        check(known, state, since)


def test_nothing_is_known_without_a_log() -> None:
    known = KnownFiles(is_known=False)

    assert known.live_of(canonicalize_path("a")) is None
