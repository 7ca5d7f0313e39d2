"""Random logs against the model: every version that can be rebuilt is rebuilt exactly, every other one is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltacli.core.errors import Unreadable
from deltacli.delta.log.actions import read_actions
from deltacli.engine.embedded import EmbeddedEngine
from tests.support import strategies as some
from tests.support.actions import add, birth, remove, to_bytes
from tests.support.builder import LOG, TableBuilder, commit_path
from tests.support.checkpoints import CheckpointKind, Shape
from tests.support.effort import examples
from tests.support.model import identity
from tests.support.reading import (
    NOW_MS,
    document,
    large_commits,
    live_rows,
    model_live_rows,
    model_tombstone_rows,
    open_at,
    open_built,
    state_document,
    tombstone_rows,
)
from tests.support.storage import FAR, RecordingStorage


def check_every_version(builder: TableBuilder) -> None:
    """Near and far stores give the model's state for every reconstructable version and `Unreadable` for every other."""
    possible = builder.reconstructable()
    memory = builder.in_memory()
    tables = [open_at(memory), open_at(RecordingStorage(memory, capabilities=FAR), engine=EmbeddedEngine(threads=2))]
    for table in tables:
        for version in range(builder.newest + 2):
            if version in possible:
                assert builder.states[version].document(now_ms=NOW_MS) == state_document(table, version)
            else:
                with pytest.raises(Unreadable):
                    state_document(table, version)
        if builder.listed() in possible:
            assert builder.listed() == document(table)["version"]
        else:
            with pytest.raises(Unreadable):
                document(table)


@given(some.any_logs())
@examples(25)
def test_every_version_is_the_models_or_refused(builder: TableBuilder) -> None:
    check_every_version(builder)


@pytest.mark.soak
@given(some.any_logs())
@settings(examples(60), max_examples=1_500)
def test_every_version_is_the_models_or_refused_for_minutes(builder: TableBuilder) -> None:
    check_every_version(builder)


@given(st.data())
@examples(15)
def test_files_and_tombstones_are_listed_as_they_were_written(data: st.DataObject) -> None:
    builder = data.draw(some.checkpointed(data.draw(some.described_logs())))
    table = open_built(builder)

    for version in sorted(builder.reconstructable()):
        snapshot = table.snapshot(version=version)

        assert model_live_rows(builder, version) == live_rows(snapshot)
        assert model_tombstone_rows(builder, version) == tombstone_rows(snapshot)


@given(st.data())
@examples(15)
def test_counting_without_paths_equals_counting_with_digests(data: st.DataObject) -> None:
    builder = data.draw(some.checkpointed(data.draw(some.described_logs())))
    table = open_built(builder)

    for version in sorted(builder.reconstructable()):
        files, tombstones = table.snapshot(version=version).counts()
        digested = document(table, version)

        assert digested["files"]["count"] == files.count
        assert digested["files"]["sizeBytes"] == files.size_bytes
        assert digested["files"]["records"] == files.records
        assert digested["files"]["filesWithoutRecords"] == files.files_without_records
        assert digested["files"]["deletionVectors"] == {
            "count": files.deletion_vectors,
            "deletedRows": files.deleted_rows,
        }
        assert digested["tombstones"]["count"] == tombstones.count
        assert digested["tombstones"]["expired"] == tombstones.expired


@given(data=st.data())
@pytest.mark.parametrize("kind", list(CheckpointKind))
@examples(3)
def test_a_checkpoint_changes_no_state(kind: CheckpointKind, data: st.DataObject) -> None:
    builder = data.draw(
        some.described_logs().filter(lambda built: bool(built.states[-1].protocol and built.states[-1].metadata))
    )
    before = {version: state_document(open_built(builder), version) for version in sorted(builder.reconstructable())}
    chosen = data.draw(
        st.sampled_from([v for v, state in enumerate(builder.states) if state.protocol and state.metadata])
    )

    builder.checkpoint(chosen, kind, shape=data.draw(some.shapes()))

    table = open_built(builder)
    assert before == {version: state_document(table, version) for version in before}
    if chosen in before:
        assert {"version": chosen, "layout": kind.layout} == {
            name: document(table, chosen)["logSegment"]["checkpoint"][name] for name in ("version", "layout")
        }


@given(st.data())
@examples(10)
def test_commits_that_a_checkpoint_covers_are_not_needed(data: st.DataObject) -> None:
    builder = data.draw(
        some.described_logs().filter(lambda built: bool(built.states[-1].protocol and built.states[-1].metadata))
    )
    chosen = data.draw(
        st.sampled_from([v for v, state in enumerate(builder.states) if state.protocol and state.metadata])
    )
    builder.checkpoint(chosen, data.draw(some.kinds()), shape=data.draw(some.shapes()))
    kept = sorted(version for version in builder.reconstructable() if version >= chosen)
    before = {version: state_document(open_built(builder), version) for version in kept}

    for version in data.draw(st.sets(st.integers(0, chosen))):
        del builder.files[commit_path(version)]

    table = open_built(builder)
    assert before == {version: state_document(table, version) for version in kept}


@given(st.data())
@examples(10)
def test_junk_in_the_log_changes_no_state(data: st.DataObject) -> None:
    builder = data.draw(some.checkpointed(data.draw(some.described_logs())))
    before = {version: state_document(open_built(builder), version) for version in sorted(builder.reconstructable())}

    data.draw(some.littered(builder))

    table = open_built(builder)
    assert before == {version: state_document(table, version) for version in before}
    assert builder.newest == table.history().items[0].version


@given(st.data(), st.sampled_from([13, 100, 1_000, 4 << 20]))
@examples(8)
def test_large_commits_give_what_small_commits_give(data: st.DataObject, block_bytes: int) -> None:
    """
    A threshold of one byte makes every commit large: the same answers, with keys named twice in one commit too.
    """
    builder = data.draw(some.checkpointed(data.draw(some.described_logs(max_commits=4)), max_checkpoints=1))
    storage = RecordingStorage(builder.in_memory())
    table = open_at(storage)

    with large_commits(block_bytes=block_bytes):
        for version in sorted(builder.reconstructable()):
            snapshot = table.snapshot(version=version)

            assert builder.states[version].document(now_ms=NOW_MS) == state_document(table, version)
            assert model_live_rows(builder, version) == live_rows(snapshot)
            assert model_tombstone_rows(builder, version) == tombstone_rows(snapshot)
        assert not [path for path in storage.touched("read") if path.endswith(".json") and ".checkpoint." not in path]


@given(st.data())
@examples(10)
def test_history_counts_the_actions_of_each_commit(data: st.DataObject) -> None:
    builder = data.draw(some.checkpointed(data.draw(some.described_logs())))
    table = open_built(builder)

    history = table.history(counts=True)

    assert list(range(builder.newest, -1, -1)) == [item.version for item in history.items]
    for item in history.items:
        lines = read_lines(builder, item.version)
        assert item.counts is not None
        assert {kind: lines.count(kind) for kind in set(lines)} == item.counts.actions
        assert (lines.count("add"), lines.count("remove")) == (item.counts.added_files, item.counts.removed_files)


def read_lines(builder: TableBuilder, version: int) -> list[str]:
    """The kinds of the actions of a commit, nulls left out."""
    lines = builder.files[commit_path(version)].data.split(b"\n")
    return [kind for line in lines if line.strip() for kind, action in json.loads(line).items() if action is not None]


@given(st.lists(some.adds() | some.removes() | some.small_actions(), max_size=8), st.data())
@examples(30)
def test_the_writing_of_a_commit_does_not_matter(lines: list[dict[str, object]], data: st.DataObject) -> None:
    """
    CRLF, blank lines, no LF at the end, blanks between tokens, actions over several lines: one and the same commit.
    """
    usual = to_bytes(lines)
    ending = data.draw(st.sampled_from([b"\n", b"\r\n", b"\n\n", b"\n \t\n"]))
    indent = data.draw(st.sampled_from([None, 2]))
    written = ending.join(
        json.dumps(line, indent=indent, ensure_ascii=data.draw(st.booleans())).encode() for line in lines
    )
    written += data.draw(st.sampled_from([b"", ending]))

    assert read_actions(usual, "usual") == read_actions(written, "written")


@given(st.sampled_from(some.FILES), st.data())
@examples(75)
def test_the_model_recognizes_all_spellings_of_a_file(name: str, data: st.DataObject) -> None:
    """
    The generator knows which file it spells; the model must find it, or the other properties would prove nothing.
    """
    relative, absolute = data.draw(some.spellings(name)), data.draw(some.absolute_spellings(name))

    assert name.encode() == identity(relative)
    assert f"/data/{name}".encode() == identity(absolute)


def test_a_checkpoint_of_many_row_groups_is_filtered_in_every_one() -> None:
    """
    Files shadowed by newer commits lie in every row group, batch and sidecar of the checkpoint.
    """
    names = [f"part-{number}.parquet" for number in range(50)]
    builder = TableBuilder().commit(*birth(), *(add(name, size=1, records=1) for name in names))
    builder.checkpoint(0, CheckpointKind.V2_PARQUET, shape=Shape(files=3, row_group_rows=4))
    builder.commit(*(remove(name) for name in names[::3]), *(add(name, size=5, records=2) for name in names[1::3]))

    found = state_document(open_built(builder))

    assert builder.states[1].document(now_ms=NOW_MS) == found
    assert 33 == found["files"]["count"]
    assert 3 == len([name for name in builder.files if name.startswith(f"{LOG}/_sidecars/")])
