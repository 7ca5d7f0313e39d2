"""Random histories of a table and restores to any of their versions, against a set of (path, vector) and properties."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from deltacli.operations.restore.restore import RestoreRequest, plan_restore
from tests.support.actions import Line, add, commit_info, metadata, protocol, remove
from tests.support.builder import TableBuilder
from tests.support.effort import examples
from tests.support.model import State
from tests.support.restoring import Restoring
from tests.support.small_vectors import inline

PATHS = ("a", "p/b", "c%20d", "e")
SPELLINGS = {"p/b": ("p/b", "./p/b"), "c%20d": ("c%20d", "c%20%64")}
VECTORS: tuple[dict[str, Any] | None, ...] = (None, inline([0]), inline([0, 3]))
ON = {"delta.enableDeletionVectors": "true"}


@st.composite
def built(draw: st.DrawFn) -> TableBuilder:
    """A table whose commits add, remove and mark files, and change a property; some have a checkpoint."""
    features = {"reader_features": ["deletionVectors"], "writer_features": ["deletionVectors"]}
    builder = TableBuilder().commit(commit_info(), protocol(3, 7, **features), metadata(configuration=ON))
    live: dict[str, tuple[str, dict[str, Any] | None]] = {}
    for _ in range(draw(st.integers(1, 5))):
        lines: list[Line] = [commit_info()]
        for path in draw(st.lists(st.sampled_from(PATHS), unique=True, max_size=4)):
            spelling = draw(st.sampled_from(SPELLINGS.get(path, (path,))))
            vector = draw(st.sampled_from(VECTORS))
            if path in live:
                old, of_old = live.pop(path)
                lines.append(remove(old, vector=of_old))
                if vector == of_old:
                    continue  # removed; with another vector it is marked
            lines.append(add(spelling, size=len(path), records=9, vector=vector))
            live[path] = spelling, vector
        if draw(st.booleans()):
            value = draw(st.sampled_from("123"))
            lines.append(metadata(configuration={**ON, "k": value}))
        builder.commit(*lines)
        if draw(st.integers(0, 3)) == 0:
            builder.checkpoint()
    return builder


@given(built(), st.data())
@examples(30)
def test_what_is_missing_refuses_and_the_newest_complete_version_is_named(
    builder: TableBuilder, data: st.DataObject
) -> None:
    restoring = Restoring(builder)
    lost = data.draw(st.sets(st.sampled_from(PATHS), min_size=1), "lost")
    for path in PATHS:
        name = path.replace("%20", " ")
        if path in lost:
            list(restoring.storage.delete_many({name, *SPELLINGS.get(path, (path,))}))
        else:
            restoring.storage.put(name, b"x" * len(path))
    states = list(builder.states)
    version = data.draw(st.integers(0, len(states) - 1), "version")

    plan = plan_restore(restoring.table, RestoreRequest(version=version, trust_listing=True))

    missing = [{path for path in lost if is_live(state, path)} for state in states]
    now = states[-1].live.keys()
    others = [one for one, state in enumerate(states) if not missing[one] and state.live.keys() != now]
    newer = [one for one in others if one > version]
    complete = newer or [one for one in others if one < version and states[one].live]
    assert {path.replace("%20", " ") for path in missing[version]} == {one.path for one in plan.problems}
    assert bool(missing[version]) is bool(plan.refusals)
    assert plan.restorable == (max(complete, default=None) if missing[version] else None)


def is_live(state: State, path: str) -> bool:
    spellings = SPELLINGS.get(path, (path,))
    return any(add["path"] in spellings for add in state.live.values())


def properties(state: State) -> dict[str, str]:
    configuration: dict[str, str] = (state.metadata or {})["configuration"]
    return configuration


@given(built(), st.data())
@examples(30)
def test_a_restored_table_is_what_the_version_was(builder: TableBuilder, data: st.DataObject) -> None:
    restoring = Restoring(builder)
    for path in PATHS:
        restoring.storage.put(path.replace("%20", " "), b"x" * len(path))
    states = list(builder.states)

    for _ in range(2):
        version = data.draw(st.integers(0, len(states) - 1), "version")
        before, target = states[-1], states[version]
        done = restoring.restore(version)

        after = restoring.state()
        assert (target.live.keys(), properties(target)) == (after.live.keys(), properties(after))
        differs = target.live.keys() != before.live.keys() or properties(target) != properties(before)
        assert differs is (done.committed_version is not None)
        found = done.plan.difference
        assert len(target.live.keys() - before.live.keys()) == found.added_amount.files
        assert len(before.live.keys() - target.live.keys()) == found.removed_amount.files
        deleted = sum((add.get("deletionVector") or {}).get("cardinality", 0) for add in target.live.values())
        counts, _ = restoring.table.snapshot().counts()
        assert 9 * len(target.live) - deleted == counts.rows
        if done.committed_version is not None:
            states.append(after)
