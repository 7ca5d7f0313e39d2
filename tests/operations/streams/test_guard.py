"""What a vacuum and an expiry keep for queries, what they refuse, and what they do when the world changes meanwhile."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli.api.table import Table, open_table
from deltacli.changing.change import execute_change
from deltacli.core.errors import Refused, UsageError
from deltacli.core.machine import fixed_clock
from deltacli.operations.log.expire import LogExpiry
from deltacli.operations.vacuum.explain import explain_file
from deltacli.operations.vacuum.full_plan import vacuum
from deltacli.operations.vacuum.plan import VacuumPlan, VacuumRequest
from deltacli.storage import LocalStorage
from tests.operations.streams.cases import CASES, Case
from tests.operations.streams.checkpoints import QUERY_ID, Checkpoint, delta, own, standing
from tests.operations.streams.made import expected, make
from tests.operations.streams.reader import restart
from tests.operations.streams.tables import History, adding, name_of, removing
from tests.support.actions import to_bytes
from tests.support.builder import commit_path
from tests.support.reading import NOW_MS
from tests.support.vacuum_hazards import DAY_MS, Meanwhile, goes, paths_of, plan_of, saved

LATER_MS = NOW_MS + 200 * DAY_MS
"""When no retention keeps anything any more."""
REWRITTEN = {18: [removing(name_of(16), data_change=False), adding("big.parquet", data_change=False)]}
WITH_GARBAGE = {18: [removing(name_of(1), data_change=False), *REWRITTEN[18]]}
"""Names are such that what no query needs is deleted first."""
BEHIND = standing(delta(15))


def _table(root: Path, *, now_ms: int = LATER_MS, wrap: Callable[[Any], Any] | None = None) -> Table:
    storage: Any = LocalStorage(str(root))
    return Table(storage if wrap is None else wrap(storage), clock=fixed_clock(now_ms))


def _written(place: Path, table: History | None = None, checkpoint: Any = BEHIND) -> tuple[Path, Path]:
    root = (table or History(REWRITTEN)).write(place / "table")
    return root, checkpoint.write(place / "queries" / "q")


@pytest.mark.parametrize("mode", ["full", "lite"])
@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.verdict in ("ok", "at-risk") and case.number not in (25, 26)],
    ids=lambda case: f"{case.number} {case.what}",
)
def test_what_a_query_needs_is_kept(case: Case, mode: str, tmp_path: Path) -> None:
    root, checkpoint = _written(tmp_path, case.table, case.checkpoint)
    if mode == "lite" and not (root / commit_path(0)).exists():
        pytest.skip("lite needs the whole log")

    everything = goes(_table(root), mode=mode)
    others = goes(_table(root), mode=mode, protect_streams=[str(checkpoint)])

    assert case.files == everything - others
    opened = restart(root, checkpoint)
    if case.table.has_feed and case.feed is None:
        opened |= restart(root, checkpoint, feed=True)
    assert not opened & others


@pytest.mark.quartered
@pytest.mark.parametrize("seed", range(150))
def test_a_protected_query_survives_a_vacuum_and_an_expiry(seed: int, tmp_path: Path) -> None:
    made = make(seed)
    root, checkpoint = made.write(tmp_path)
    before = {feed: expected(root, checkpoint, feed=feed) for feed in (False, True)}
    table = _table(root)

    if before[False] == "dead":
        of_vacuum = plan_of(table, protect_streams=[str(checkpoint)]).refusals
        of_expiry = table.plan_expire_log(protect_streams=[str(checkpoint)]).refusals
        assert 2 * ["streams.not-protected"] == [one.code for one in (*of_vacuum, *of_expiry)]
        return
    table.vacuum(protect_streams=[str(checkpoint)], max_delete="100%", log_entries=False)
    table.expire_log(protect_streams=[str(checkpoint)])

    assert "dead" != expected(root, checkpoint, feed=False)
    if made.table.has_feed:
        assert before[True] == expected(root, checkpoint, feed=True)


def test_the_plan_names_the_query_and_what_it_costs(tmp_path: Path) -> None:
    root, checkpoint = _written(tmp_path)

    plan = plan_of(_table(root), protect_streams=[str(checkpoint.parent / "*")])

    assert plan.streams is not None
    (query,) = plan.streams.queries
    assert (QUERY_ID, "protected", (15, 20), 1, 10) == (
        query.query,
        query.state,
        query.versions,
        query.files,
        query.size_bytes,
    )
    assert 1 == plan.kept.stream
    assert any(QUERY_ID in note and "1 file (10 B) kept" in note for note in plan.notes)
    assert [query.as_json()] == plan.as_json()["streams"]


def test_expire_keeps_the_log_from_the_checkpoint_below_the_oldest_query(tmp_path: Path) -> None:
    root, checkpoint = _written(tmp_path, History(checkpoints=(8, 16)), standing(delta(15)))

    without = _table(root).plan_expire_log()
    plan = _table(root).plan_expire_log(protect_streams=[str(checkpoint)])

    assert (16, 8) == (without.boundary, plan.boundary)
    assert any(QUERY_ID in note and "15" in note for note in plan.notes)
    assert any("per version" in note for note in plan.notes)


DEAD = standing(delta(15), delta(13), batch=9).without("offsets/8")


@pytest.mark.parametrize("name", [QUERY_ID, "{checkpoint}", "{checkpoint}/"])
def test_a_dead_query_refuses_until_its_loss_is_allowed(name: str, tmp_path: Path) -> None:
    root, checkpoint = _written(tmp_path, checkpoint=DEAD)
    glob = [str(checkpoint.parent / "*")]
    allowed = [name.format(checkpoint=checkpoint)]

    plan = plan_of(_table(root), protect_streams=glob)
    with pytest.raises(Refused) as refused:
        _table(root).expire_log(protect_streams=glob)

    assert ["streams.not-protected"] == [one.code for one in plan.refusals]
    assert f"--allow-stream-loss {QUERY_ID}" == plan.refusals[0].override == refused.value.override
    assert name_of(16) in goes(_table(root), protect_streams=glob, allow_stream_loss=allowed)
    notes = plan_of(_table(root), protect_streams=glob, allow_stream_loss=allowed).notes
    assert any(QUERY_ID in note and "may be lost" in note for note in notes)
    notes = plan_of(_table(root), protect_streams=glob, allow_stream_loss=[*allowed, "nobody"]).notes
    assert [True] == ["nobody names no query" in note for note in notes if "nobody" in note]
    assert _table(root).expire_log(protect_streams=glob, allow_stream_loss=allowed).plan.streams


@pytest.mark.parametrize("version", [2, 3, 7, 8])
@pytest.mark.parametrize("with_snapshot", [False, True])
def test_the_first_batch_of_our_own_source_is_kept_from_its_beginning(
    version: int, with_snapshot: bool, tmp_path: Path
) -> None:
    """The batch is not finished. It began with version 3, or with a snapshot of version 2, and ends before 8."""
    offset = own(8, first=3, with_snapshot=with_snapshot)
    table = History({18: [removing(name_of(version), data_change=False)]})
    root, place = _written(tmp_path, table, standing(offset, batch=0, committed=False))

    is_needed = name_of(version) in restart(root, place)

    assert is_needed == (version >= 3 or with_snapshot)
    assert is_needed == (name_of(version) not in goes(_table(root), protect_streams=[str(place)]))


@pytest.mark.parametrize(
    "checkpoint",
    [standing(delta(25)), standing(own(25)), standing(delta(21, 3)), standing(delta(25), delta(15), committed=False)],
    ids=["finished", "of our own source", "within a version", "in flight"],
)
def test_a_query_ahead_of_the_table_refuses_until_its_loss_is_allowed(checkpoint: Checkpoint, tmp_path: Path) -> None:
    root, place = _written(tmp_path, checkpoint=checkpoint)
    glob = [str(place.parent / "*")]

    plan = plan_of(_table(root), protect_streams=glob)
    expiry = _table(root).plan_expire_log(protect_streams=glob)

    for refusals in (plan.refusals, expiry.refusals):
        assert ["streams.not-protected"] == [refusal.code for refusal in refusals]
        assert "set back" in refusals[0].message
    assert name_of(16) in goes(_table(root), protect_streams=glob, allow_stream_loss=[QUERY_ID])


@pytest.mark.parametrize("has_before", [True, False])
def test_an_unreadable_directory_refuses_though_its_table_is_unknown(has_before: bool, tmp_path: Path) -> None:
    root, checkpoint = _written(tmp_path, checkpoint=standing(delta(3, table="another")))
    (checkpoint / "offsets" / "7").write_bytes(b"v9\n{}\n{}")
    if not has_before:
        (checkpoint / "offsets" / "6").unlink()

    plan = plan_of(_table(root), protect_streams=[str(checkpoint)])

    assert "streams.not-protected" in [one.code for one in plan.refusals]


def test_queries_of_other_tables_and_other_sources_neither_refuse_nor_pin(tmp_path: Path) -> None:
    root, checkpoint = _written(tmp_path, checkpoint=standing(delta(3, table="another"), batch=9).without("offsets/8"))
    standing("7").write(tmp_path / "queries" / "rate")

    assert name_of(16) in goes(_table(root), protect_streams=[str(checkpoint.parent / "*")])


@pytest.mark.parametrize(
    "offsets",
    [
        (delta(12), delta(3, table="another")),  # the sources of the query have changed places
        (delta(3, table="another"), delta(21)),
        (delta(12), '{"logOffset":3}'),
        ('{"logOffset":3}', delta(21)),
        (delta(12), json.dumps(delta(21))),
        (delta(12), '{"sourceVersion":1,"index":3}'),
    ],
)
@pytest.mark.parametrize("committed", [True, False])
def test_a_source_whose_last_offsets_are_of_others_refuses(
    offsets: tuple[str, str], committed: bool, tmp_path: Path
) -> None:
    root, checkpoint = _written(tmp_path, checkpoint=standing(offsets[1], offsets[0], committed=committed))
    options: dict[str, Any] = {"protect_streams": [str(checkpoint)]}

    refused = [*plan_of(_table(root), **options).refusals, *_table(root).plan_expire_log(**options).refusals]

    assert 2 * ["streams.not-protected"] == [one.code for one in refused]
    (query,) = _table(root).streams(checkpoints=[str(checkpoint)]).queries
    assert query.finding.verdict in ("dead", "unknown")


def test_files_of_one_time_are_kept_where_their_order_is_not_sure(tmp_path: Path) -> None:
    """Delta spells an absolute path anew before it sorts the files of a snapshot."""
    names = ["a.parquet", "z.parquet", f"file:{tmp_path}/table/m.parquet"]
    moment = NOW_MS - 90 * DAY_MS
    commits = {2: [adding(name, modified_ms=moment) for name in names], 5: [removing(name) for name in names]}
    root, checkpoint = _written(tmp_path, History(commits), standing(delta(4, 0, in_snapshot=True)))
    (root / "m.parquet").write_bytes(b"0123456789")
    for one in root.rglob("*.parquet"):
        os.utime(one, ns=(moment * 1_000_000,) * 2)

    assert {"a.parquet", "z.parquet", "m.parquet"} <= goes(_table(root))
    assert {"a.parquet", "z.parquet", "m.parquet"}.isdisjoint(goes(_table(root), protect_streams=[str(checkpoint)]))


def test_a_pattern_without_a_match_refuses(tmp_path: Path) -> None:
    root, checkpoint = _written(tmp_path)

    for run in (_table(root).vacuum, _table(root).expire_log):
        with pytest.raises(Refused) as refused:
            run(protect_streams=[str(checkpoint), f"{tmp_path}/none/*"])
        assert "streams.none-found" == refused.value.code


@pytest.mark.parametrize("older, is_kept", [("199d", False), ("201d", True)])
def test_an_abandoned_query_that_is_behind_does_not_pin(older: str, is_kept: bool, tmp_path: Path) -> None:
    root, checkpoint = _written(tmp_path)
    days = int(older[:-1])
    options = {"protect_streams": [str(checkpoint)], "ignore_streams_older_ms": days * DAY_MS}

    plan = plan_of(_table(root), **options)

    assert is_kept == (name_of(16) not in paths_of(plan))
    assert is_kept or any(QUERY_ID in note and "ignored" in note for note in plan.notes)
    (root / name_of(16)).unlink()  # a later vacuum of a table whose abandoned query is dead by now
    assert is_kept == bool(plan_of(_table(root), **options).refusals)


def test_an_abandoned_query_that_caught_up_needs_nothing(tmp_path: Path) -> None:
    root, checkpoint = _written(tmp_path, checkpoint=standing(delta(21)))

    plan = plan_of(_table(root), protect_streams=[str(checkpoint)], ignore_streams_older_ms=DAY_MS)

    assert plan.streams is not None
    assert ["caught-up"] == [one.state for one in plan.streams.queries]
    assert name_of(16) in paths_of(plan)


@pytest.mark.parametrize(
    "options",
    [
        {"ignore_streams_older_ms": 5},
        {"allow_stream_loss": ["q"]},
        {"protect_streams": [""]},
        {"protect_streams": "ckpt"},
        {"protect_streams": ["a\0b"]},
        {"protect_streams": ["a"], "ignore_streams_older_ms": -1},
        {"protect_streams": ["a"], "allow_stream_loss": [" "]},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], tmp_path: Path) -> None:
    root, _ = _written(tmp_path)

    for run in (_table(root).vacuum, _table(root).expire_log):
        with pytest.raises(UsageError):
            run(**options)


EMPTY_COMMIT = standing(delta(21), delta(15)).file("commits/7")
"""The newest batch delivers the commits from 15 on. Its commit file is empty, as after a power loss."""


def test_the_files_of_a_batch_whose_commit_file_is_empty_are_kept_for_its_next_run(tmp_path: Path) -> None:
    """The only cure is to delete the empty file: Spark then runs the batch again."""
    root, checkpoint = _written(tmp_path, checkpoint=EMPTY_COMMIT)
    options: dict[str, Any] = {"protect_streams": [str(checkpoint)]}
    plan = plan_of(_table(root), **options)
    expiry = _table(root).plan_expire_log(**options)
    assert 2 * ["streams.not-protected"] == [one.code for one in (*plan.refusals, *expiry.refusals)]
    assert "Once commits/7 and commits/.7.crc are deleted, a restart runs batch 7 again" in plan.refusals[0].message
    (query,) = _table(root).streams(checkpoints=[str(checkpoint)]).queries
    assert (15, 1) == (query.as_json()["sources"][0]["version"], query.as_json()["sources"][0]["needs"]["files"])

    (checkpoint / "commits" / "7").unlink()
    _table(root).vacuum(max_delete="100%", log_entries=False, **options)
    _table(root).expire_log(**options)

    assert name_of(16) in restart(root, checkpoint)


def test_a_query_of_another_table_whose_commit_file_cannot_be_read_refuses_nothing(tmp_path: Path) -> None:
    root, checkpoint = _written(tmp_path, checkpoint=standing(delta(3, table="another")).file("commits/7", b"v9\n{}"))
    standing(delta(3, table="another")).file("commits/7").write(checkpoint.with_name("empty"))

    assert name_of(16) in goes(_table(root), protect_streams=[f"{tmp_path}/queries/*"])


# -- the world changes between the plan and the deletion ---------------------------------------------------------------


def _unprotecting(tmp_path: Path) -> tuple[Path, Path, dict[str, Any]]:
    """A table with a query whose checkpoint is ignored, because it is old."""
    root, checkpoint = _written(tmp_path)
    return root, checkpoint, {"protect_streams": [f"{tmp_path}/queries/*"], "ignore_streams_older_ms": DAY_MS}


def _touch(checkpoint: Path) -> None:
    for path in checkpoint.rglob("*"):
        os.utime(path, ns=(LATER_MS * 1_000_000,) * 2)


def _restarted(checkpoint: Path) -> None:
    standing(delta(16), batch=8, modified_ms=LATER_MS).write(checkpoint)


def _another(checkpoint: Path) -> None:
    standing(delta(12), query_id="other", modified_ms=LATER_MS).write(checkpoint.with_name("another"))


@pytest.mark.parametrize("happens", [_touch, _restarted, _another])
@pytest.mark.parametrize("is_saved", [False, True])
def test_a_query_that_restarts_after_the_plan_is_safe(
    happens: Callable[[Path], None], is_saved: bool, tmp_path: Path
) -> None:
    root, checkpoint, options = _unprotecting(tmp_path)
    table = _table(root)
    plan: VacuumPlan = plan_of(table, **options)
    assert name_of(16) in paths_of(plan)
    if is_saved:
        plan = saved(plan, tmp_path / "plan.parquet")

    happens(checkpoint)
    outcome = vacuum(table, VacuumRequest(log_entries=False), plan).outcome

    assert outcome is not None
    assert 1 == outcome.spared
    assert (root / name_of(16)).exists()


def test_a_query_that_restarts_between_two_batches_is_safe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltacli.operations.vacuum.execute.FILES_A_BATCH", 1)
    monkeypatch.setattr("deltacli.operations.streams.guard.MAX_LISTING_AGE_SECONDS", -1)
    root, checkpoint = _written(tmp_path, History(WITH_GARBAGE))
    options: dict[str, Any] = {"protect_streams": [f"{tmp_path}/queries/*"], "ignore_streams_older_ms": DAY_MS}
    assert {name_of(1), name_of(16)} == goes(_table(root), **options)

    table = _table(root, wrap=lambda inner: Meanwhile(inner, "delete_many", lambda: _touch(checkpoint), after=True))
    table.vacuum(max_delete="100%", log_entries=False, threads=1, **options)

    assert not (root / name_of(1)).exists()
    assert (root / name_of(16)).exists()


def test_a_dead_query_that_appears_after_the_plan_ends_the_deletion(tmp_path: Path) -> None:
    root, checkpoint, options = _unprotecting(tmp_path)
    table = _table(root)
    plan = plan_of(table, **options)

    DEAD.write(checkpoint.with_name("dead"))
    _touch(checkpoint.with_name("dead"))
    with pytest.raises(Refused) as refused:
        vacuum(table, VacuumRequest(log_entries=False), plan)

    assert "streams.not-protected" == refused.value.code
    assert (root / name_of(16)).exists()


def test_a_commit_file_that_is_emptied_after_the_plan_ends_the_deletion(tmp_path: Path) -> None:
    root, checkpoint = _written(tmp_path, checkpoint=standing(delta(21), delta(15)))
    table = _table(root)
    plan = plan_of(table, protect_streams=[str(checkpoint)])
    assert name_of(16) in paths_of(plan)

    (checkpoint / "commits" / "7").write_bytes(b"")
    with pytest.raises(Refused) as refused:
        vacuum(table, VacuumRequest(log_entries=False), plan)

    assert "streams.not-protected" == refused.value.code
    assert (root / name_of(16)).exists()


def test_an_expiry_refuses_where_a_query_needs_more_since_the_plan(tmp_path: Path) -> None:
    root, checkpoint = _written(tmp_path, History(checkpoints=(8, 16)), standing(delta(17)))
    table = _table(root)
    plan = table.plan_expire_log(protect_streams=[f"{tmp_path}/queries/*"])
    assert 16 == plan.boundary

    _another(checkpoint)
    with pytest.raises(Refused) as refused:
        execute_change(LogExpiry(plan.request), table, plan=plan)

    assert "streams.moved" == refused.value.code
    assert (root / commit_path(0)).exists()


def test_a_saved_plan_keeps_the_patterns(tmp_path: Path) -> None:
    root, checkpoint = _written(tmp_path, History(WITH_GARBAGE))
    plan = plan_of(_table(root), protect_streams=[str(checkpoint)], ignore_streams_older_ms=10**12)

    found = saved(plan, tmp_path / "plan.parquet")

    assert plan.streams == found.streams
    assert plan.kept == found.kept
    checkpoint.rename(tmp_path / "moved")
    with pytest.raises(Exception, match="checkpoint"):
        vacuum(_table(root), VacuumRequest(log_entries=False), found)


# -- queries that read a shallow clone ---------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["before the plan", "after the plan", "of a clone of the clone"])
def test_files_are_kept_for_queries_that_read_a_clone(when: str, tmp_path: Path) -> None:
    """The clone has removed a file of the source; the query is still in the clone's first version."""
    name, place = name_of(5), tmp_path / "clone"
    root = History({18: [removing(name, data_change=False), adding("big.parquet", data_change=False)]}).write(
        tmp_path / "table"
    )
    _table(root).clone(place, version=17)
    if when == "of a clone of the clone":
        place = tmp_path / "second"
        open_table(tmp_path / "clone", allow_external=[str(root)]).clone(place)
    (log,) = (place / "_delta_log").glob("*.json")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    (path,) = (one["add"]["path"] for one in lines if one.get("add", {}).get("path", "").endswith(f"/{name}"))
    (table_id,) = (one["metaData"]["id"] for one in lines if "metaData" in one)
    for one in {place, tmp_path / "clone"}:
        (one / commit_path(1)).write_bytes(to_bytes([removing(path, data_change=False, deleted_ms=NOW_MS)]))
    for one in [*tmp_path.rglob("*.json")]:
        os.utime(one, ns=(NOW_MS * 1_000_000,) * 2)
    waiting = standing(delta(0, 1, in_snapshot=True, table=table_id), modified_ms=LATER_MS)
    idle = standing(delta(2, table=table_id), modified_ms=LATER_MS)
    checkpoint = (idle if when == "after the plan" else waiting).write(tmp_path / "queries" / "q")
    options = {"protect_streams": [f"{tmp_path}/queries/*"]}
    assert name in goes(_table(root))

    plan = plan_of(_table(root), **options)
    waiting.write(checkpoint)
    vacuum(_table(root), VacuumRequest(log_entries=False, max_delete="100%"), saved(plan, tmp_path / "plan.parquet"))

    assert not plan.refusals
    assert (when == "after the plan") == (name in paths_of(plan))
    assert any(f"reads {place.as_uri()}" in note for note in plan.notes)
    assert (root / name).exists()


# -- where a checkpoint directory is in the table ----------------------------------------------------------------------


@pytest.mark.parametrize("name, is_told", [("checkpoints/q", True), ("_checkpoints/q", False)])
def test_a_checkpoint_directory_in_the_table_is_never_deleted(name: str, is_told: bool, tmp_path: Path) -> None:
    root = History(REWRITTEN).write(tmp_path / "table")
    checkpoint = BEHIND.write(root / name)
    (checkpoint / "state" / "0").mkdir(parents=True)
    for path in [checkpoint, *checkpoint.rglob("*")]:
        os.utime(path, ns=(0, 0))

    plan = plan_of(_table(root), protect_streams=[str(checkpoint)], include_foreign=True)

    assert not [path for path in paths_of(plan) if path.startswith(name)]
    assert not [path for path in plan.directories if path.startswith(name)]
    assert is_told == any(name in note and "VACUUM of other engines" in note for note in plan.notes)


def test_a_checkpoint_in_the_root_of_the_table_is_never_deleted(tmp_path: Path) -> None:
    root = History(REWRITTEN).write(tmp_path / "table")
    BEHIND.write(root)
    (root / "state" / "0").mkdir(parents=True)
    own = {str(path.relative_to(root)) for path in root.rglob("*") if "_delta_log" not in str(path)}
    for path in root.rglob("*"):
        os.utime(path, ns=(0, 0))

    plan = plan_of(_table(root), protect_streams=[str(root)], include_foreign=True)

    of_query = {path for path in own if path.partition("/")[0] in ("offsets", "commits", "state", "metadata")}
    assert len(of_query) > 4
    assert not of_query & {*paths_of(plan), *plan.directories}


def test_a_protected_file_is_never_quarantined(tmp_path: Path) -> None:
    root, checkpoint = _written(tmp_path)
    quarantine = tmp_path / "quarantine"

    _table(root).vacuum(protect_streams=[str(checkpoint)], quarantine=str(quarantine), max_delete="100%")

    copies = {path.name for path in quarantine.rglob("*") if path.is_file()}
    assert name_of(16) not in copies
    assert restart(root, checkpoint)


def test_explain_names_the_reason(tmp_path: Path) -> None:
    root, checkpoint = _written(tmp_path)

    found = explain_file(_table(root), VacuumRequest(protect_streams=[str(checkpoint)]), name_of(16))

    assert "kept" == found.verdict
    assert "streams" in found.why


def test_an_unfinished_first_batch_keeps_what_any_starting_version_reads(tmp_path: Path) -> None:
    """The file was added after the version that the option named, and compacted before the batch's end."""
    compacted = [removing(name_of(6), data_change=False), adding("big.parquet", data_change=False)]
    first = standing(delta(12), batch=0, committed=False)
    root, checkpoint = _written(tmp_path, History({8: compacted}), first)

    assert name_of(6) in goes(_table(root))
    assert name_of(6) not in goes(_table(root), protect_streams=[str(checkpoint)])


@pytest.mark.parametrize("names", [("queries", "offsets"), ("queries", "q/below"), ("queries/q", "commits")])
def test_a_pattern_finds_queries_beside_and_below_others(names: tuple[str, str], tmp_path: Path) -> None:
    place, other = names
    root, checkpoint = _written(tmp_path)
    standing(delta(12), query_id="other").write(tmp_path / place / other)

    plan = plan_of(_table(root), protect_streams=[f"{tmp_path}/queries/**"])

    assert plan.streams is not None
    found = {one.query for one in plan.streams.queries}
    # What has the name of something that Spark writes into a checkpoint is not looked for there.
    assert found == ({QUERY_ID} if place == "queries/q" else {QUERY_ID, "other"})
    assert str(checkpoint) in {one.checkpoint for one in plan.streams.queries}


def test_the_loss_of_a_query_is_allowed_by_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, _ = _written(tmp_path, checkpoint=DEAD)
    monkeypatch.chdir(tmp_path)

    plan = plan_of(_table(root), protect_streams=["./queries/*"], allow_stream_loss=["./queries/q"])

    assert not plan.refusals
