"""Tables that change underneath an optimization, which reads and writes for minutes: it ends, and no row is lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from deltacli.api.table import Table
from deltacli.changing import base_version, commit, commit_sender, rechecks, request_checks
from deltacli.core.errors import DeltacliError, FileMissing, PartlyDone, Refused
from deltacli.core.machine import Machine, fixed_clock
from deltacli.delta.log import conflicts
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.fleet.policy_file.model import OptimizePolicy, Policy
from deltacli.fleet.running.steps import StepWork, attempt
from deltacli.operations.optimize import plan as plans
from deltacli.storage import LocalStorage, Storage
from deltacli.storage.base import Capabilities, Draft
from tests.support.actions import commit_info
from tests.support.builder import commit_path
from tests.support.in_memory import MemoryStorage
from tests.support.optimizing import Ids, live_paths, rows_of
from tests.support.reading import NOW_MS, open_at

Event = Callable[[], object]


class FarStorage(MemoryStorage):
    """As a store over a network."""

    @property
    def capabilities(self) -> Capabilities:
        return super().capabilities._replace(has_cheap_requests=False)


@pytest.fixture(params=["disk", "far"])
def ids(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Ids, Storage]:
    """Two partitions of two files, each a commit of its own, in a store that is looked at before each attempt."""
    monkeypatch.setattr(plans, "COMMIT_BINS", 1)
    for module in (base_version, commit_sender):
        monkeypatch.setattr(module, "MAX_LISTING_AGE_SECONDS", -1.0)
    made = Ids().append("a", "b").append("c", p="1").append("d", p="1")
    if request.param == "disk":
        return made, LocalStorage(str(made.builder.write(tmp_path / "t")))
    storage = FarStorage()
    storage._files = made.builder.in_memory()._files
    return made, storage


def before_draft(monkeypatch: pytest.MonkeyPatch, *events: tuple[str, Event]) -> None:
    """Let each event happen once, in turn, before a file is created whose path has its text."""
    left = list(events)

    def hook(store: type[Any]) -> None:
        real = store.draft

        def draft(self: Any, path: str) -> Draft:
            if left and left[0][0] in path:
                left.pop(0)[1]()
            found: Draft = real(self, path)
            return found

        monkeypatch.setattr(store, "draft", draft)

    hook(LocalStorage)
    hook(MemoryStorage)


def rewritten(ids: Ids, storage: Storage, version: int, *lines: Any) -> Event:
    """Another writer's commit of the same size in the place of a version that was rolled back; it has no file without
    lines.
    """

    def event() -> None:
        text = b"".join(json.dumps(line).encode() + b"\n" for line in (commit_info("OTHER"), *lines))
        with suppress(FileMissing):
            text = text[:-1].ljust(storage.stat(commit_path(version)).size_bytes - 1) + b"\n"
        storage.put(commit_path(version), text)

    return event


@pytest.mark.parametrize("at", ["first data file", "first commit", "second commit"])
def test_a_newest_commit_that_is_rolled_back_and_rewritten_ends_it(
    ids: tuple[Ids, Storage], at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The rows of the commit that is rolled back are in the new files: they must not come back.
    """
    made, storage = ids
    before_draft(
        monkeypatch,
        *{
            "first data file": [("part-", rewritten(made, storage, 3))],
            "first commit": [(commit_path(4), rewritten(made, storage, 3))],
            "second commit": [(commit_path(5), rewritten(made, storage, 4))],
        }[at],
    )

    with pytest.raises(DeltacliError) as ended:
        open_at(storage, engine=EmbeddedEngine(threads=1)).optimize()

    is_first = at != "second commit"
    assert (Refused if is_first else PartlyDone, "plan.other-past") == (type(ended.value), ended.value.code)
    if isinstance(ended.value, PartlyDone):
        facts = ended.value.facts
        assert (4, "version 4 committed: 2 files became 1") == (ended.value.cause_exit_code, facts["so far"])
    table = open_at(storage)
    assert (3 if is_first else 4) == table.snapshot().version
    assert not [path for path in live_paths(table) if "part-" in path]
    assert {"a", "b", "c"} | (set() if is_first else {"d"}) == live_paths(table)


@pytest.mark.parametrize("version", [3, 4])
def test_a_commit_that_is_rewritten_with_a_winner_behind_it_ends_it(
    ids: tuple[Ids, Storage], version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The first attempt at the version is lost, so the commit would follow the winner.
    """
    made, storage = ids
    real = commit_sender.CommitSender._create_and_verify
    events = [rewritten(made, storage, version), rewritten(made, storage, version + 1)]

    def create(self: Any, request: Any, at: int, *how: Any) -> Any:
        if at == version + 1:
            while events:
                events.pop(0)()
        return real(self, request, at, *how)

    monkeypatch.setattr(commit_sender.CommitSender, "_create_and_verify", create)

    with pytest.raises(DeltacliError) as ended:
        open_at(storage).optimize()

    assert "plan.other-past" == ended.value.code
    assert version + 1 == open_at(storage).snapshot().version
    assert not [path for path in live_paths(open_at(storage)) if "part-" in path]


def test_no_commit_is_created_above_a_gap(ids: tuple[Ids, Storage], monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The winner of the first attempt is rolled back before the second.
    """
    made, storage = ids
    rewritten(made, storage, 4)()
    real = conflicts.examine_commit

    def examine_commit(*of_commit: Any) -> Any:
        found = real(*of_commit)
        list(storage.delete_many([commit_path(5)]))
        return found

    monkeypatch.setattr(commit_sender, "examine_commit", examine_commit)
    table = Table(storage, clock=fixed_clock(NOW_MS), machine=Machine(sleep=lambda _: None))
    plan = table.plan_optimize()
    rewritten(made, storage, 5)()

    with pytest.raises(Refused) as refused:
        table.execute_optimize(plan)

    assert "plan.other-past" == refused.value.code
    assert 4 == open_at(storage).snapshot().version


def test_files_of_a_log_that_changes_underneath_are_a_refusal_that_names_it(
    ids: tuple[Ids, Storage], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    After the look at the log, while files are rewritten: another commit of the same length.
    """
    _, storage = ids
    table = open_at(storage)
    plan = table.plan_optimize()
    monkeypatch.setattr(rechecks, "require_same_log", lambda *_: None)
    other = storage.read(commit_path(3)).replace(b'"path":"d"', b'"path":"e"')
    storage.put(commit_path(3), other, modified_ms=1)

    with pytest.raises(Refused) as refused:
        table.execute_optimize(plan)

    assert ("plan.other-past", f"{3:020d}.json") == (refused.value.code, refused.value.facts["changed"])


def test_new_files_that_somebody_deletes_before_the_commit_are_not_committed(
    ids: tuple[Ids, Storage], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, storage = ids
    monkeypatch.setattr("deltacli.changing.new_files.MAX_FILE_CHECK_AGE_SECONDS", -1.0)
    real = request_checks.require_allowed_request

    def delete_new(*given: Any) -> None:
        real(*given)
        list(storage.delete_many([path for path in data_paths(storage) if "part-" in path]))

    monkeypatch.setattr(commit, "require_allowed_request", delete_new)

    with pytest.raises(FileMissing, match="another program has changed or deleted it"):
        open_at(storage).optimize()

    assert 3 == open_at(storage).snapshot().version


def data_paths(storage: Storage) -> list[str]:
    found = storage.walk("", lambda _, names: [name for name in names if name != "_delta_log"])
    return [f"{one.directory}/{name}".lstrip("/") for one in found for name in one.names]


# -- another directory ------------------------------------------------------------------------------------------------


def by_call(table: Table) -> object:
    return table.optimize()


def by_purge(table: Table) -> object:
    return table.optimize(purge=True)


def by_drop(table: Table) -> object:
    return table.drop_features("deletionVectors")


def by_fleet(table: Table) -> object:
    policy = Policy("p", {"optimize": OptimizePolicy()})
    done = attempt(StepWork("t", "optimize", policy, lambda: table))
    raise Refused(done.message, code=done.code)


@pytest.mark.parametrize("way", [by_call, by_purge, by_drop, by_fleet])
def test_a_link_that_is_switched_meanwhile_gets_nothing(
    way: Callable[[Table], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Ids().append("a", "b", deleted=[1])
    first, second, link = made.builder.write(tmp_path / "A"), tmp_path / "B", tmp_path / "t"
    shutil.copytree(first, second)
    link.symlink_to(first)
    before = rows_of(open_at(LocalStorage(str(second))))

    def switch() -> None:
        link.unlink()
        link.symlink_to(second)

    before_draft(monkeypatch, ("part-", switch))

    with pytest.raises(DeltacliError) as ended:
        way(open_at(LocalStorage(str(link))))

    assert "plan.other-place" == ended.value.code
    for place in (first, second):
        table = open_at(LocalStorage(str(place)))
        assert before == rows_of(table)
        assert not [path for path in data_paths(table.writable()) if "part-" in path]
    assert 1 == open_at(LocalStorage(str(second))).snapshot().version
