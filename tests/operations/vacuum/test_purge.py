"""`vacuum --quarantine --purge-older`: old copies are deleted by their manifests, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from deltacli.changing.outcome import require_complete
from deltacli.core.errors import PartlyDone, Refused
from deltacli.operations.recover.copies import OWN_NAMES
from deltacli.operations.vacuum.quarantine import PurgeOutcome, PurgePlan, PurgeResult, execute_purge, plan_purge
from deltacli.storage import Deletion, Failed, LocalStorage, Storage, open_storage
from tests.cli.support import deltacli
from tests.cli.test_documents import validate
from tests.support.effort import InTurn
from tests.support.faulty import Fault, FaultyStorage
from tests.support.reading import NOW_MS, open_at
from tests.support.s3 import S3Server
from tests.support.vacuuming import DAY_MS, GARBAGE, Killed, MortalStorage, save, vacuum, write_table

LATER = ("--now", "2024-01-20T00:00:00Z")
OLD = 30 * DAY_MS


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A table after a vacuum, whose quarantine is beside it."""
    place = write_table(tmp_path / "table")
    vacuum(LocalStorage(str(place)), quarantine=str(tmp_path / "quarantine"))
    return place


def manifest_of(place: Path) -> Path:
    (found,) = (place.parent / "quarantine").glob("*/*/manifest.json")
    return found


def edit(manifest: Path, **fields: Any) -> None:
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | fields))


def tree(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if not path.is_dir() or path.is_symlink()}


def purge(place: Path, *, after_ms: int = OLD + 1, wrapped: Callable[[Storage], Storage] | None = None) -> PurgePlan:
    table = open_at(LocalStorage(str(place)))
    table.clock = lambda: NOW_MS + after_ms
    if wrapped is not None:
        table.open_other = lambda uri: wrapped(open_storage(uri))
    plan, outcome = plan_purge(table, str(place.parent / "quarantine"), OLD), PurgeOutcome()
    execute_purge(table, plan, outcome)
    require_complete(PurgeResult(plan, outcome))
    return plan


def test_old_plans_alone_are_deleted_and_the_table_stays(place: Path) -> None:
    before, quarantine = tree(place), place.parent / "quarantine"

    young = purge(place, after_ms=OLD)
    kept = tree(quarantine)
    plan = purge(place)

    assert (0, 1, 2 + len(GARBAGE)) == (young.files, young.young, len(kept))
    assert (len(GARBAGE), len(GARBAGE), ()) == (plan.files, plan.size_bytes, plan.unnamed)
    assert (set(), before) == (tree(quarantine), tree(place))
    assert [] == list(quarantine.glob("*/*"))


def test_the_age_of_copies_is_that_of_the_run_and_not_of_a_saved_plan(tmp_path: Path) -> None:
    place, saved = write_table(tmp_path / "table"), str(tmp_path / "plan.parquet")
    save(LocalStorage(str(place)), saved)
    table = open_at(LocalStorage(str(place)))
    table.clock = lambda: NOW_MS + OLD
    from deltacli.operations.vacuum.quarantine import Quarantine
    from deltacli.operations.vacuum.saved import read_plan

    plan = read_plan(saved)
    Quarantine(table, plan, str(tmp_path / "quarantine")).fill([range(plan.files)])

    assert 1 == purge(place).young
    assert [True] == [one.endswith(plan.plan_id) for one in purge(place, after_ms=2 * OLD + 1).incomplete]


def test_a_killed_run_leaves_the_manifest_until_the_next_one_ends_the_work(tmp_path: Path, in_turn: InTurn) -> None:
    faults = (Fault.KILLED_BEFORE, Fault.KILLED_AFTER)
    for at, fault in in_turn(list(product(range(1, len(GARBAGE) + 3), faults))):
        place = write_table(tmp_path / f"{at} {fault.name}" / "table")
        quarantine = place.parent / "quarantine"
        vacuum(LocalStorage(str(place)), quarantine=str(quarantine))
        mortal = partial(Deletions, at=at, fault=fault)
        with pytest.raises(Killed):
            purge(place, wrapped=mortal)
        left = {Path(path).name for path in tree(quarantine)}
        assert "manifest.json" in left or not left

        purge(place)

        assert set() == tree(quarantine)


class Deletions(MortalStorage):
    """Dies at a deletion; what is read is not counted."""

    def __init__(self, inner: Storage, *, at: int, fault: Fault) -> None:
        super().__init__(inner, at, fault, dies=True)

    def step(self, verb: str, path: str, call: Callable[[], Any]) -> Any:
        return super().step(verb, path, call) if verb == "delete_many" else call()


class Stubborn(FaultyStorage):
    """One file cannot be deleted."""

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, Deletion]]:
        for path in paths:
            if path.endswith(GARBAGE[3]):
                yield path, Failed("it is locked")
            else:
                yield from super().delete_many([path])


def test_the_manifest_stays_as_long_as_a_file_that_it_names(place: Path) -> None:
    with pytest.raises(PartlyDone, match="1 file of the quarantine"):
        purge(place, wrapped=Stubborn)
    left = {Path(path).name for path in tree(place.parent / "quarantine")}

    purge(place)

    assert ({*OWN_NAMES, GARBAGE[3]}, set()) == (left, tree(place.parent / "quarantine"))


BROKEN: dict[str, dict[str, Any]] = {
    "is one of the table": {"tableId": "another"},
    "contradicts itself": {"planId": "another"},
    "contradicts": {"files": 1},
    "or its place": {"timestampMs": "2020"},
    "names '../../../table/live-0.parquet'": {"paths": ["../../../table/live-0.parquet"], "files": 1},
    "names '/etc/passwd'": {"paths": ["/etc/passwd"], "files": 1},
    "names 'p=2/../x'": {"paths": ["p=2/../x"], "files": 1},
    "names 7": {"paths": [7], "files": 1},
    "names 'manifest.json'": {"paths": ["manifest.json"], "files": 1},
}


def test_a_manifest_that_is_not_plainly_of_this_table_is_refused(place: Path) -> None:
    quarantine, manifest = place.parent / "quarantine", manifest_of(place)
    before, whole = tree(place.parent), manifest.read_text()
    for said, fields in BROKEN.items():
        edit(manifest, **fields)
        with pytest.raises(Refused, match=said) as refused:
            purge(place)
        assert ("vacuum.quarantine-manifest", before) == (refused.value.code, tree(place.parent))
        manifest.write_text(whole)
    for text in ("", "[]", "{}", "[" * 100_000, whole.replace('"paths"', '"names"')):
        manifest.write_text(text)
        with pytest.raises(Refused, match="cannot be read"):
            purge(place)
    manifest.write_text(whole)
    assert tree(quarantine)
    purge(place)
    assert set() == tree(quarantine)


def test_no_link_leads_a_deletion_elsewhere(place: Path) -> None:
    manifest = manifest_of(place)
    elsewhere = place.parent / "elsewhere"
    (manifest.parent / "p=2").rename(elsewhere)
    (manifest.parent / "p=2").symlink_to(elsewhere)
    before = tree(place.parent)
    with pytest.raises(Refused, match="behind a link: p=2"):
        purge(place)
    assert before == tree(place.parent)

    held = manifest.parent.rename(place.parent / "held")
    manifest.parent.symlink_to(held)
    with pytest.raises(Refused, match="a link leads to it"):
        purge(place)
    assert tree(elsewhere)
    assert (held / GARBAGE[0]).exists()


def test_what_no_manifest_names_stays_and_is_reported(place: Path) -> None:
    quarantine, manifest = place.parent / "quarantine", manifest_of(place)
    (manifest.parent / "p=2" / "foreign.txt").write_text("of somebody else")
    other = manifest.parent.parent / "no plan"
    other.mkdir()
    (other / "file").write_text("x")
    foreign = quarantine / "another table" / "plan"
    foreign.mkdir(parents=True)
    (foreign / "manifest.json").write_bytes(manifest.read_bytes())
    kept = {path.relative_to(quarantine).as_posix() for path in (other / "file", manifest.parent / "p=2/foreign.txt")}

    plan = purge(place)

    assert kept == set(plan.unnamed)
    assert kept | {"another table/plan/manifest.json"} == tree(quarantine)
    assert kept == set(purge(place).unnamed)


def test_a_directory_that_a_vacuum_uses_again_is_left(place: Path) -> None:
    table = open_at(LocalStorage(str(place)))
    table.clock = lambda: NOW_MS + OLD + 1
    plan, outcome = plan_purge(table, str(place.parent / "quarantine"), OLD), PurgeOutcome()
    before = tree(place.parent)
    edit(manifest_of(place), timestampMs=NOW_MS + OLD)

    execute_purge(table, plan, outcome)

    assert (1, 0, before) == (outcome.failed.count, outcome.files, tree(place.parent))


def test_a_quarantine_in_a_store_is_emptied(place: Path, s3: S3Server) -> None:
    bucket = s3.make_bucket()
    quarantine = place.parent / "quarantine"
    for path in tree(quarantine):
        s3.put(bucket, f"q/{path}", (quarantine / path).read_bytes())
    s3.put(bucket, "q/foreign", b"x")
    table = open_at(LocalStorage(str(place)))
    table.clock = lambda: NOW_MS + OLD + 1

    plan, outcome = plan_purge(table, f"s3://{bucket}/q", OLD), PurgeOutcome()
    execute_purge(table, plan, outcome)

    assert (len(GARBAGE), len(GARBAGE), {"q/foreign"}) == (plan.size_bytes, outcome.files, set(s3.objects(bucket)))


def test_the_command_asks_and_says_what_it_did(place: Path) -> None:
    quarantine = place.parent / "quarantine"
    wanted = ("vacuum", place, "--quarantine", quarantine, "--purge-older", "30d", *LATER)
    before = tree(place.parent)

    refused, dry = deltacli(*wanted), deltacli(*wanted, "--dry-run", "--json")
    assert (4, 0, before) == (refused.code, dry.code, tree(place.parent))
    assert f"delete {len(GARBAGE)} files ({len(GARBAGE)} B) of 1 plan from the quarantine" in refused.err
    done = deltacli(*wanted, "--yes", "--json")
    again = deltacli(*wanted, "--yes")

    for one in (dry, done):
        validate(one.document, "deltacli.vacuum-purge")
    assert (0, len(GARBAGE), 0) == (done.code, done.document["deleted"]["files"], again.code)
    assert set() == tree(quarantine)


@pytest.mark.halved
@pytest.mark.parametrize(
    "options",
    [
        ("--purge-older", "30d"),
        ("--quarantine", "q", "--purge-older", "x"),
        ("--quarantine", "", "--purge-older", "30d"),
        *(
            ("--quarantine", "q", "--purge-older", "30d", *more)
            for more in (
                ["--where", "p = 1"],
                ["--prefix", "p=1"],
                ["--retention", "7d"],
                ["--mode", "lite"],
                ["--apply", "x"],
                ["--save-plan", "x"],
                ["--explain", "x"],
                ["--files"],
                ["--no-log-entries"],
            )
        ),
    ],
)
def test_options_that_choose_files_are_refused(options: tuple[str, ...], place: Path) -> None:
    before = tree(place.parent)
    assert (2, before) == (deltacli("vacuum", place, *options).code, tree(place.parent))


def test_a_table_without_a_log_keeps_its_quarantine(place: Path) -> None:
    os.rename(place / "_delta_log", place / "log")
    before = tree(place.parent)
    result = deltacli("vacuum", place, "--quarantine", place.parent / "quarantine", "--purge-older", "0d", "--yes")
    assert (3, before) == (result.code, tree(place.parent))


def test_a_copy_of_the_table_purges_its_own_plans_only(place: Path) -> None:
    """`cp -r` keeps the id of the table, by which the quarantine names its directories."""
    copy = place.parent / "copy"
    shutil.copytree(place, copy)
    before = tree(place.parent / "quarantine")

    plan = purge(copy)

    assert (0, [f"file://{place}"]) == (plan.files, [address for _, address in plan.others])
    assert before == tree(place.parent / "quarantine")
