"""Work that several callers go through in steps at the same time."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random
from threading import Event

import pytest

from deltacli.api.table import Table, open_table
from deltacli.core.errors import CatalogUnavailable
from deltacli.sharing.model import SharedTable
from deltacli.sharing.tables.snapshots import SharedSnapshots, SharedSteps
from tests.sharing.served import shared
from tests.support.builder import TableBuilder

STEPS = 40


@pytest.mark.parametrize("kept_steps", [0, 1, 4, STEPS])
def test_callers_at_any_pace_get_what_each_would_get_alone(kept_steps: int) -> None:
    random, shared = Random(kept_steps), SharedSteps(max_bytes=kept_steps * 100)
    got: dict[int, list[bytes]] = {caller: [] for caller in range(6)}

    with ExitStack() as stack:
        joined = {caller: stack.enter_context(shared.joined(caller % 2)) for caller in got}
        while joined:
            caller = random.choice(list(joined))
            step = len(got[caller])
            got[caller].append(joined[caller](step, partial(_result, caller % 2, step)))
            assert shared.kept_bytes <= kept_steps * 100
            if len(got[caller]) == STEPS:
                del joined[caller]

    assert {caller: [_result(caller % 2, step) for step in range(STEPS)] for caller in got} == got
    assert 0 == shared.kept_bytes


def _result(key: int, step: int) -> bytes:
    return f"{key} {step}".encode().ljust(100)


def test_each_step_is_done_once_for_callers_that_stay_close_together() -> None:
    done: Counter[int] = Counter()
    shared = SharedSteps(max_bytes=1_000)

    def work(step: int) -> bytes:
        done[step] += 1
        return bytes(100)

    with shared.joined("a") as first, shared.joined("a") as second:
        for step in range(STEPS):
            first(step, partial(work, step))
            if step >= 5:
                second(step - 5, partial(work, step - 5))

    assert {1} == set(done.values())


def test_nothing_is_kept_of_work_that_one_caller_does() -> None:
    shared = SharedSteps(max_bytes=1_000)

    with shared.joined("a") as alone, shared.joined("b"):
        alone(0, lambda: bytes(100))

    assert 0 == shared.kept_bytes


def test_a_step_that_failed_is_done_again() -> None:
    shared = SharedSteps(max_bytes=1_000)

    def fail() -> bytes:
        raise OSError

    with shared.joined("a") as first, shared.joined("a") as second:
        with pytest.raises(OSError):
            first(0, fail)
        assert b"x" == second(0, lambda: b"x")


def test_no_table_waits_for_the_catalog_of_another_one(tmp_path: Path) -> None:
    here = shared(TableBuilder().commits(3).write(tmp_path / "t"))
    elsewhere = shared(tmp_path, location="uc://a.b.c")
    asked, answered, opened = Event(), Event(), list[str]()

    def open_slowly(table: SharedTable) -> Table:
        opened.append(table.location)
        if table.location == here.location:
            return open_table(table.location)
        asked.set()
        assert answered.wait(60)
        raise CatalogUnavailable("the catalog is down")

    snapshots = SharedSnapshots(open_table=open_slowly)
    with ThreadPoolExecutor(3) as pool:
        waiting = pool.submit(snapshots.newest_version, elsewhere)
        try:
            assert asked.wait(60)
            assert pool.submit(snapshots.newest_version, here).result(60) == 2
            assert not snapshots.is_kept(here, 2)
        finally:
            answered.set()
        with pytest.raises(CatalogUnavailable):
            waiting.result(60)
    assert sorted(opened) == sorted([here.location, elsewhere.location])
