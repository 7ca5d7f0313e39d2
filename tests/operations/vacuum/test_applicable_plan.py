"""A plan is executed only on the table, and the past, that it was made for."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

import pytest

from deltacli.api.table import Table
from deltacli.core.errors import Refused
from deltacli.core.machine import fixed_clock
from deltacli.operations.vacuum.plan import VacuumPlan
from deltacli.operations.vacuum.rechecking import adopted, digest_commit, with_past
from deltacli.storage import Storage
from tests.support.actions import add, metadata
from tests.support.builder import TableBuilder, commit_path
from tests.support.checkpoints import CheckpointKind
from tests.support.damage import gap, head_cleaned
from tests.support.reading import NOW_MS, open_at
from tests.support.storage import FAR, RecordingStorage
from tests.support.vacuum_plans import DAY_MS, WEEK_MS, a_plan

RETENTION = "delta.deletedFileRetentionDuration"


def built(*, commits: int = 6) -> TableBuilder:
    return TableBuilder().commits(commits)


def planned(opened: Table, *, version: int = 3, **fields: Any) -> VacuumPlan:  # Any: the plan's fields
    """A plan as it is made of a version."""
    snapshot = opened.snapshot(version=version)
    known = {"table_id": snapshot.metadata.id, "snapshot_version": version, "table": opened.uri}
    return with_past(opened, a_plan(**{**known, **fields}))


def require(storage: Storage, plan: VacuumPlan, *, now_ms: int = NOW_MS) -> None:
    adopted(Table(storage, clock=fixed_clock(now_ms)), plan)


def refusal(storage: Storage, plan: VacuumPlan, *, now_ms: int = NOW_MS) -> str:
    with pytest.raises(Refused) as raised:
        require(storage, plan, now_ms=now_ms)
    assert 4 == raised.value.exit_code
    assert "deltacli vacuum {table} --save-plan plan.parquet" == raised.value.hint
    return raised.value.code


def test_a_plan_stays_applicable_while_others_commit() -> None:
    builder = built()
    plan = planned(open_at(builder.in_memory()))
    builder.commits(5).checkpoint(9).hint(9)

    require(builder.in_memory(), plan)
    require(builder.in_memory(), plan, now_ms=NOW_MS + 30 * DAY_MS)


def test_a_plan_of_another_table_is_refused() -> None:
    storage = built().in_memory()

    assert "vacuum.plan-other-table" == refusal(storage, planned(open_at(storage), table_id="another"))


def test_a_plan_of_a_version_that_is_not_there_yet_is_refused() -> None:
    plan = planned(open_at(built().in_memory()), version=5)

    assert "vacuum.plan-newer" == refusal(built(commits=5).in_memory(), plan)


def test_a_plan_made_before_a_restore_is_refused_though_its_version_is_there_again() -> None:
    plan = planned(open_at(built().in_memory()), version=5)
    other_past = built(commits=5).commit(add("restored.parquet")).commits(3)

    assert "vacuum.plan-other-past" == refusal(other_past.in_memory(), plan)


@pytest.mark.parametrize(("now_ms", "is_refused"), [(NOW_MS - 1, True), (NOW_MS, False)])
def test_a_clock_before_the_plan_is_refused(now_ms: int, is_refused: bool) -> None:
    storage = built().in_memory()
    plan = planned(open_at(storage))

    if is_refused:
        assert "vacuum.clock-skew" == refusal(storage, plan, now_ms=now_ms)
    else:
        require(storage, plan, now_ms=now_ms)


@pytest.mark.parametrize(
    ("retention", "later_ms", "is_refused"),
    [
        ("interval 7 days", 0, False),
        ("interval 8 days", 0, True),
        ("interval 8 days", DAY_MS - 1, True),
        ("interval 8 days", DAY_MS, False),
        ("interval 1 day", 0, False),
    ],
)
def test_a_retention_that_has_grown_refuses_what_it_now_protects(
    retention: str, later_ms: int, is_refused: bool
) -> None:
    builder = built()
    plan = planned(open_at(builder.in_memory()))
    storage = builder.commit(metadata(configuration={RETENTION: retention})).in_memory()

    if is_refused:
        assert "vacuum.plan-retention" == refusal(storage, plan, now_ms=NOW_MS + later_ms)
    else:
        require(storage, plan, now_ms=NOW_MS + later_ms)


def test_consent_to_undercut_a_retention_does_not_apply_to_a_longer_one() -> None:
    builder = built()
    plan = planned(open_at(builder.in_memory()), allows_below=True, retention_ms=0, cutoff_ms=NOW_MS)
    assert WEEK_MS == plan.own_retention_ms
    longer = built().commit(metadata(configuration={RETENTION: "interval 30 days"}))

    require(builder.in_memory(), plan)
    assert "vacuum.plan-retention" == refusal(longer.in_memory(), plan)


@pytest.mark.parametrize("missing", [4, 5, 6, 7])
def test_a_gap_since_the_plan_is_refused(missing: int) -> None:
    builder = built(commits=10).checkpoint(8)
    plan = planned(open_at(built(commits=4).in_memory()))

    require(builder.in_memory(), plan)
    assert "vacuum.plan-too-old" == refusal(builder.damaged(gap(missing)).in_memory(), plan)


def test_a_gap_of_many_versions_since_the_plan_is_named_without_counting_them() -> None:
    builder = built().checkpoint(5)
    plan = planned(open_at(builder.in_memory()))
    for path in (commit_path(5), f"_delta_log/{5:020d}.checkpoint.parquet"):
        builder.files[path.replace(f"{5:020d}", f"{1 << 60:020d}")] = builder.files[path]

    with pytest.raises(Refused) as raised:
        require(builder.in_memory(), plan)

    assert "vacuum.plan-too-old" == raised.value.code
    assert f"6-{(1 << 60) - 1}" == raised.value.facts["missing commits"]


def test_a_plan_whose_own_commit_was_cleaned_up_is_refused() -> None:
    builder = built(commits=10).checkpoint(8)
    plan = planned(open_at(builder.in_memory()))

    require(builder.damaged(head_cleaned(3)).in_memory(), plan)
    assert "vacuum.plan-too-old" == refusal(builder.damaged(gap(3)).in_memory(), plan)


def test_a_plan_made_of_a_checkpoint_alone_needs_what_came_after_it() -> None:
    builder = built(commits=9).checkpoint(6).checkpoint(8).damaged(head_cleaned(7))
    plan = planned(open_at(builder.in_memory()), version=6)

    assert plan.snapshot_sha256 is None
    require(builder.in_memory(), plan)
    assert "vacuum.plan-too-old" == refusal(builder.damaged(gap(7)).in_memory(), plan)


def test_a_log_listed_from_its_hint_is_listed_from_the_plan_on_once() -> None:
    builder = built(commits=12).checkpoint(10).hint(10)
    storage = RecordingStorage(builder.in_memory(), capabilities=FAR)
    table = open_at(storage)
    plan = planned(open_at(builder.in_memory()))
    assert 10 == table.snapshot().listing.start_version
    seen = storage.calls.copy()
    storage.calls.clear()

    adopted(table, plan)

    # The digest of the commit, and the checkpoint, which has the live files.
    assert seen + Counter(list_from=1, open=2) == storage.calls


def test_the_digest_of_a_commit_is_that_of_its_bytes() -> None:
    builder = built()
    table = open_at(builder.in_memory())

    found = digest_commit(table, table.snapshot().listing, 2)

    assert hashlib.sha256(builder.files[commit_path(2)].data).hexdigest() == found
    assert digest_commit(table, table.snapshot().listing, 99) is None


def test_kinds_of_checkpoints_do_not_matter() -> None:
    builder = built(commits=8).checkpoint(7, kind=CheckpointKind.V2_PARQUET)

    require(builder.in_memory(), planned(open_at(builder.in_memory())))
