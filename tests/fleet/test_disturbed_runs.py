"""Stores that fail for some tables, and clocks that move: the next run leaves the lake as an undisturbed one does."""

from __future__ import annotations

import pydoc
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli.api.table import Table, open_table
from deltacli.cli.app import run
from deltacli.cli.terminal.signals import Interrupted
from deltacli.core.errors import StorageFailed
from deltacli.core.pools import ThreadPool
from deltacli.core.times import DAY_MS, format_timestamp
from deltacli.storage import open_storage
from tests.fleet.lake import DAMAGED, HEALTHY, NOW_MS, data_files, live_digest, tree_of, write_lake
from tests.fleet.sessions import session_of, session_on
from tests.fleet.test_killed_runs import effects

NOW = format_timestamp(NOW_MS)
HOUR_MS = DAY_MS // 24


def failing(*names: str) -> Callable[[str], Table]:
    """Open every table but those with these names, whose store does not answer."""

    def open_or_fail(uri: str) -> Table:
        if uri.rpartition("/")[2] in names:
            raise StorageFailed(f"{uri} cannot be read: no answer")
        return open_table(uri)

    return open_or_fail


def fail_to_list(patch: pytest.MonkeyPatch, *names: str) -> None:
    """Let the store fail for everything below these names."""
    store = type(open_storage("."))
    list_from = store.list_from

    def list_or_fail(self: Any, directory: str, start: str = "") -> Any:  # Any: as in the port
        if {*names} & {*f"{self.uri}/{directory}".split("/")}:
            raise StorageFailed(f"{directory} cannot be listed: no answer")
        return list_from(self, directory, start)

    patch.setattr(store, "list_from", list_or_fail)


def state_of(root: Path) -> dict[str, Any]:
    """What a run must achieve for each healthy table, and what it must leave alone."""
    lake = root / "lake"
    found: dict[str, Any] = {
        name: (
            data_files(lake / name),
            live_digest(lake / name),
            sorted(path.name for path in (lake / name / "_delta_log").glob("*.checkpoint.parquet")),
        )
        for name in HEALTHY
    }
    return found | {name: tree_of(lake / name) for name in DAMAGED}


@pytest.fixture
def undisturbed(tmp_path: Path) -> dict[str, Any]:
    """The state of a lake after a run that nothing disturbs."""
    write_lake(tmp_path / "undisturbed")
    session_on(tmp_path / "undisturbed").run()
    return state_of(tmp_path / "undisturbed")


@pytest.mark.parametrize("is_listing", [True, False])
def test_tables_whose_store_fails_are_told_and_served_by_the_next_run(
    tmp_path: Path, undisturbed: dict[str, Any], is_listing: bool
) -> None:
    write_lake(tmp_path)
    before = state_of(tmp_path)
    broken = ("old", "garbage")

    with pytest.MonkeyPatch.context() as patch:
        if is_listing:
            fail_to_list(patch, *broken)
        first = session_on(tmp_path, open_table=open_table if is_listing else failing(*broken)).run()
    between = state_of(tmp_path)
    session_on(tmp_path).run()

    assert {*broken} == {
        Path(table.name).name
        for table in first.tables
        if (table.problem and table.problem.code == "storage.failed")
        or any(step.outcome.code == "storage.failed" for step in table.steps)
    }
    assert [before[name] for name in broken] == [between[name] for name in broken]
    assert undisturbed["behind"] == between["behind"]
    assert undisturbed == state_of(tmp_path)
    assert {1} == set(effects(tmp_path).values())


@pytest.mark.parametrize("moved_ms", [HOUR_MS, -HOUR_MS, 40 * DAY_MS])
def test_after_a_run_with_another_clock_nothing_is_done_twice(
    tmp_path: Path, undisturbed: dict[str, Any], moved_ms: int
) -> None:
    write_lake(tmp_path)

    session_on(tmp_path, clock=lambda: NOW_MS + moved_ms, open_table=failing("old")).run()
    session_on(tmp_path).run()

    assert undisturbed == state_of(tmp_path)
    assert {1} == set(effects(tmp_path).values())


def test_an_interruption_while_tables_are_handed_out_begins_no_more_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = session_of(tmp_path)
    submit, tables = ThreadPool.submit, []

    def interrupted(self: ThreadPool, work: Any, *arguments: Any) -> Any:
        tables.append(submit(self, work, *arguments))
        if len(tables) == 3:
            raise KeyboardInterrupt
        return tables[-1]

    monkeypatch.setattr(ThreadPool, "submit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.run()

    assert session.report is not None
    assert session.report.left > 0
    assert tables[2].cancelled()


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("deltacli.fleet.running.run.plan_fleet", "no step was started"),
        ("deltacli.fleet.running.run.FleetRunner._collect", "done; run the same command with --resume to continue"),
        ("deltacli.cli.running.context.CommandContext.write", "has ended, "),
    ],
)
def test_an_interrupted_run_says_what_it_has_done(
    place: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    owner, _, name = place.rpartition(".")
    original = getattr(pydoc.locate(owner), name)

    def interrupt(*arguments: Any, **options: Any) -> None:
        original(*arguments, **options)
        raise Interrupted(signal.SIGINT)

    write_lake(tmp_path)
    monkeypatch.setattr(place, interrupt)

    assert 130 == run(["fleet", "run", str(tmp_path / "fleet.toml"), "--yes", "--now", NOW])
    found = capsys.readouterr().err
    assert said in found
    assert "nothing was changed" not in found
