"""`features drop --truncate-history` beside streaming queries: no version that a query needs is deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltacli.api.table import Table
from deltacli.core.errors import PartlyDone, Refused, UsageError
from deltacli.core.machine import fixed_clock, system_clock
from deltacli.core.times import DAY_MS
from deltacli.operations.streams.checkpoints import Verdict
from deltacli.storage import LocalStorage, open_storage
from tests.operations.alter.test_drop_feature import LEGACY, built, supported
from tests.operations.streams.checkpoints import QUERY_ID, Checkpoint, delta, standing
from tests.support.builder import LOG

NEEDS_EVERYTHING = standing(delta(0, 0))
BEHIND = standing(delta(2))
CAUGHT_UP = standing(delta(4))
AHEAD = standing(delta(9))
DEAD = standing(delta(4), batch=9).without("offsets/8")
FEATURE = "v2Checkpoint"


def _open(root: Path, *, days_later: int = 0) -> Table:
    now_ms = system_clock() + days_later * DAY_MS
    return Table(LocalStorage(str(root)), clock=fixed_clock(now_ms), open_other=open_storage)


def _versions(root: Path) -> list[int]:
    return sorted(int(path.stem) for path in (root / LOG).glob("0*.json"))


@pytest.fixture
def waiting(tmp_path: Path) -> Path:
    """A table of versions 0 to 3 with a checkpoint of 3, of which 0 needs the feature; the next run deletes it."""
    root = built([*LEGACY, FEATURE], {"delta.checkpointPolicy": "v2"}).write(tmp_path / "table")
    with pytest.raises(PartlyDone) as stopped:
        _open(root).drop_features(FEATURE, truncate_history=True)
    assert "features.wait" == stopped.value.code
    assert [0, 1, 2, 3] == _versions(root)
    return root


def _protecting(checkpoint: Checkpoint, root: Path) -> dict[str, Any]:  # Any: parameters of drop_features
    place = checkpoint.write(root.parent / "queries" / "q")
    return {"truncate_history": True, "protect_streams": [str(place.parent / "*")]}


@pytest.mark.parametrize(
    ("checkpoint", "code"),
    [
        (NEEDS_EVERYTHING, "features.needed-by-stream"),
        (BEHIND, "features.needed-by-stream"),
        (standing(delta(1, 0, in_snapshot=True)), "features.needed-by-stream"),
        (standing(delta(4), delta(2), committed=False), "features.needed-by-stream"),
        (standing(delta(4), delta(2)), "features.needed-by-stream"),
        (AHEAD, "streams.not-protected"),
        (DEAD, "streams.not-protected"),
        (standing("v9"), None),
        (standing(delta(0, table="another")), None),
        (CAUGHT_UP, None),
        (standing(delta(3)), None),
    ],
    ids=[
        "all",
        "behind",
        "in a snapshot",
        "in flight",
        "restart",
        "ahead",
        "dead",
        "other",
        "elsewhere",
        "done",
        "next",
    ],
)
def test_versions_that_a_query_needs_are_not_deleted(checkpoint: Checkpoint, code: str | None, waiting: Path) -> None:
    options = _protecting(checkpoint, waiting)
    table = _open(waiting, days_later=3)

    if code is None:
        assert table.drop_features(FEATURE, **options).is_made
        assert 0 not in _versions(waiting)
        assert (1, 2, []) == supported(open_storage(str(waiting)))
        return

    for refused_call in (table.plan_drop_features, table.drop_features):
        with pytest.raises(Refused) as refused:
            refused_call(FEATURE, **options)
        assert (code, 4) == (refused.value.code, refused.value.exit_code)
        assert QUERY_ID in refused.value.message
        assert f"--allow-stream-loss {QUERY_ID}" == refused.value.override
    assert [0, 1, 2, 3] == _versions(waiting)


def test_the_refusal_names_what_to_wait_for_and_the_override(waiting: Path) -> None:
    with pytest.raises(Refused) as refused:
        _open(waiting, days_later=3).drop_features(FEATURE, **_protecting(BEHIND, waiting))

    assert f"--allow-stream-loss {QUERY_ID}" in str(refused.value.hint)
    assert any("no version below 3" in fact for fact in refused.value.facts.values())


@pytest.mark.parametrize("checkpoint", [AHEAD, DEAD], ids=["ahead", "dead"])
def test_a_query_that_cannot_continue_is_refused_before_anything_is_done(
    checkpoint: Checkpoint, tmp_path: Path
) -> None:
    """It never goes on, so waiting until the versions are old enough would not help it."""
    root = built([*LEGACY, FEATURE], {"delta.checkpointPolicy": "v2"}).write(tmp_path / "table")
    before = _versions(root)
    options = _protecting(checkpoint, root)

    for refused_call in (_open(root).plan_drop_features, _open(root).drop_features):
        with pytest.raises(Refused) as refused:
            refused_call(FEATURE, **options)
        assert ("streams.not-protected", 4) == (refused.value.code, refused.value.exit_code)

    assert before == _versions(root)


def test_a_pattern_without_a_checkpoint_is_refused_also_where_no_version_has_to_be_deleted(tmp_path: Path) -> None:
    root = built([*LEGACY, "vacuumProtocolCheck"]).write(tmp_path / "table")
    options: dict[str, Any] = {"truncate_history": True, "protect_streams": [str(tmp_path / "none*")]}  # Any: as above

    with pytest.raises(Refused) as refused:
        _open(root).drop_features("vacuumProtocolCheck", **options)

    assert "streams.none-found" == refused.value.code
    assert "vacuumProtocolCheck" in supported(open_storage(str(root)))[2]


@pytest.mark.parametrize(("days_later", "first"), [(0, 1), (3, 3)])
def test_a_plan_tells_where_the_log_begins_afterwards(days_later: int, first: int, waiting: Path) -> None:
    """Versions up to 0 need the feature. Once they are old enough, all versions below the checkpoint are deleted."""
    plan = _open(waiting, days_later=days_later).plan_drop_features(FEATURE, truncate_history=True)

    assert first == plan.find_first_version_left()


def test_a_query_that_is_protected_goes_on_after_the_drop(waiting: Path) -> None:
    options = _protecting(standing(delta(3)), waiting)

    _open(waiting, days_later=3).drop_features(FEATURE, **options)

    (query,) = _open(waiting).streams(checkpoints=options["protect_streams"]).queries
    assert Verdict.DEAD != query.finding.verdict, query.finding


@pytest.mark.parametrize("accepts", [{"allow_stream_loss": [QUERY_ID]}, {"ignore_streams_older_ms": 0}])
@pytest.mark.parametrize("checkpoint", [BEHIND, DEAD], ids=["behind", "dead"])
def test_the_loss_of_a_query_can_be_accepted(checkpoint: Checkpoint, accepts: dict[str, Any], waiting: Path) -> None:
    options = _protecting(checkpoint, waiting) | accepts
    if checkpoint is DEAD and "ignore_streams_older_ms" in accepts:
        options = _protecting(standing(delta(4), batch=9, modified_ms=0).without("offsets/8"), waiting) | accepts

    assert _open(waiting, days_later=3).drop_features(FEATURE, **options).is_made
    assert 0 not in _versions(waiting)


def test_a_query_that_is_behind_does_not_stop_what_comes_before_the_deletion(tmp_path: Path) -> None:
    """It has a day to go on; what continues the drop has the same options."""
    root = built([*LEGACY, FEATURE], {"delta.checkpointPolicy": "v2"}).write(tmp_path / "table")
    options = _protecting(NEEDS_EVERYTHING, root)

    with pytest.raises(PartlyDone) as stopped:
        _open(root).drop_features(FEATURE, **options)

    assert "features.wait" == stopped.value.code
    assert "--protect-streams" in str(stopped.value.hint)
    assert options["protect_streams"][0] in str(stopped.value.hint)


def test_a_query_that_appears_behind_the_plan_is_kept(waiting: Path) -> None:
    options = _protecting(CAUGHT_UP, waiting)
    table = _open(waiting, days_later=3)
    plan = table.plan_drop_features(FEATURE, **options)
    BEHIND.write(waiting.parent / "queries" / "another")

    with pytest.raises(Refused) as refused:
        table.execute_drop_features(plan)

    assert "features.needed-by-stream" == refused.value.code
    assert [0, 1, 2, 3] == _versions(waiting)


def test_the_plan_warns_where_no_query_is_named(waiting: Path) -> None:
    table = _open(waiting, days_later=3)

    unprotected = table.plan_drop_features(FEATURE, truncate_history=True)
    protected = table.plan_drop_features(FEATURE, **_protecting(CAUGHT_UP, waiting))

    assert ["--protect-streams" in caution for caution in unprotected.base_version.warnings] == [True]
    assert not protected.base_version.warnings


def test_queries_are_named_with_the_deletion_of_versions_only(waiting: Path) -> None:
    table, place = _open(waiting), CAUGHT_UP.write(waiting.parent / "q")

    with pytest.raises(UsageError):
        table.drop_features(FEATURE, protect_streams=[str(place)])
    with pytest.raises(UsageError):
        table.drop_features(FEATURE, truncate_history=True, allow_stream_loss=[QUERY_ID])
    for days_later in (0, 3):
        with pytest.raises(Refused) as refused:
            _open(waiting, days_later=days_later).drop_features(
                FEATURE, truncate_history=True, protect_streams=[str(waiting.parent / "none*")]
            )
        assert ("streams.none-found", 4) == (refused.value.code, refused.value.exit_code)
