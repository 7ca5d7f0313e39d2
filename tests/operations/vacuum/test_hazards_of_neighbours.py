"""Surroundings of a table: other tables, links, old inventories, outdated plans."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from deltacli.api.table import Table
from deltacli.core.errors import Refused, UsageError
from deltacli.core.machine import fixed_clock
from deltacli.core.times import format_timestamp
from deltacli.operations.vacuum.execute import execute_vacuum
from deltacli.operations.vacuum.explain import explain_file
from deltacli.operations.vacuum.plan import Mode, VacuumRequest
from deltacli.storage import LocalStorage, open_storage
from tests.support.actions import Line, add, deletion_vector, metadata, protocol, remove, to_bytes
from tests.support.builder import LOG, TableBuilder, commit_path
from tests.support.reading import NOW_MS
from tests.support.small_vectors import vector_path
from tests.support.vacuum_hazards import (
    ID,
    OLD_MS,
    ago,
    goes,
    inventory_of,
    open_at,
    paths_of,
    plan_of,
    refusals,
    saved,
    table_of,
    vacuum,
    vector_of,
    with_files,
)

MANY = tuple(f"plain-{number}.parquet" for number in range(20))
"""Live files, so that one behind a link is less than a tenth."""


def written(builder: TableBuilder, place: Path) -> LocalStorage:
    return LocalStorage(str(builder.write(place)))


def convert(place: Path, *names: str) -> None:
    """Make a directory a table of its own."""
    (place / LOG).mkdir(parents=True)
    log = to_bytes([protocol(), metadata(), *(add(name, size=10) for name in names)])
    (place / LOG / "00000000000000000000.json").write_bytes(log)


# Links


LINKED: dict[str, tuple[Line, str, str, str]] = {
    "a directory": (add("alias/x.parquet", size=10), "alias", "real", "real/x.parquet"),
    "a directory, by its absolute path": (add("{root}/alias/x.parquet", size=10), "alias", "real", "real/x.parquet"),
    "a file": (add("x.parquet", size=10), "x.parquet", "real/y.parquet", "real/y.parquet"),
    "a directory above": (add("p=1/up/x.parquet", size=10), "p=1/up", "..", "x.parquet"),
}


@pytest.mark.parametrize("case", LINKED.values(), ids=LINKED)
def test_a_live_file_behind_a_link_is_kept(case: tuple[Line, str, str, str], tmp_path: Path) -> None:
    line, link, target, file = case
    place = tmp_path / "t"
    line = {"add": line["add"] | {"path": line["add"]["path"].format(root=place)}}
    storage = written(with_files(table_of(*MANY, line), file, "orphan.parquet", "real/orphan.parquet"), place)
    (place / link).parent.mkdir(exist_ok=True)
    (place / link).symlink_to(target)

    assert {"orphan.parquet", "real/orphan.parquet"} == goes(storage)
    assert ["kept", "goes"] == [
        explain_file(open_at(storage), VacuumRequest(), path).verdict for path in (file, "real/orphan.parquet")
    ]


@pytest.mark.parametrize("how", ["prefix", "inventory"])
def test_links_count_that_a_part_of_a_listing_does_not_show(how: str, tmp_path: Path) -> None:
    place = tmp_path / "t"
    table = with_files(table_of(*MANY, add("alias/x.parquet", size=10)), "real/x.parquet", "real/orphan.parquet")
    storage = written(table, place)
    (place / "alias").symlink_to("real")
    listed = inventory_of(place, *MANY, "alias/x.parquet", "real/x.parquet", "real/orphan.parquet")

    assert {"real/orphan.parquet"} == goes(
        storage, **({"prefix": "real"} if how == "prefix" else {"inventory": listed})
    )


@pytest.mark.parametrize("options", [{}, {"prefix": "real"}])
def test_a_live_file_behind_a_link_in_a_hidden_directory_is_kept(options: dict[str, str], tmp_path: Path) -> None:
    place = tmp_path / "t"
    table = with_files(table_of(*MANY, add("_h/up/x.parquet", size=10)), "real/x.parquet", "real/orphan.parquet")
    storage = written(table, place)
    (place / "_h").mkdir()
    (place / "_h" / "up").symlink_to("../real")

    assert {"real/orphan.parquet"} == goes(storage, **options)


def test_lite_keeps_a_live_file_in_a_linked_directory(tmp_path: Path) -> None:
    place = tmp_path / "t"
    table = table_of(*MANY, add("alias/x.parquet", size=10), *(add(f"real/{name}.parquet", size=10) for name in "xy"))
    table.commit(*(remove(f"real/{name}.parquet", deleted_ms=OLD_MS) for name in "xy"))
    storage = written(with_files(table, "real/x.parquet", "real/y.parquet"), place)
    (place / "alias").symlink_to("real")

    plan = plan_of(storage, mode="lite")

    assert ({"real/y.parquet"}, 1, 0) == (paths_of(plan), plan.kept.retained, plan.horizon)
    assert {"real/y.parquet"} == goes(storage)


def test_a_live_file_behind_two_links_is_kept(tmp_path: Path) -> None:
    place = tmp_path / "t"
    table = with_files(table_of(*MANY, add("one/two/x.parquet", size=10)), "c/x.parquet", "c/orphan.parquet", "a/b/o")
    storage = written(table, place)
    (place / "one").symlink_to("a")
    (place / "a" / "two").symlink_to("../c")

    assert {"c/orphan.parquet"} == goes(storage)


def test_a_vector_behind_a_link_is_kept(tmp_path: Path) -> None:
    place = tmp_path / "t"
    vector = {"storageType": "p", "pathOrInlineDv": f"file://{place}/alias/{vector_path(ID)}"}
    live = add("a.parquet", size=10, vector=deletion_vector("x") | vector)
    storage = written(with_files(table_of(live, has_vectors=True), "a.parquet", f"real/{vector_path(ID)}"), place)
    (place / "alias").symlink_to("real")

    assert set() == goes(storage)


def test_links_in_a_circle_and_out_of_the_table_end(tmp_path: Path) -> None:
    storage = written(with_files(table_of("a.parquet"), "orphan.parquet"), tmp_path / "t")
    for link, target in (("self", "self"), ("root", "."), ("out", ".."), ("nowhere", "nothing")):
        (tmp_path / "t" / link).symlink_to(target)

    assert {"orphan.parquet"} == goes(storage)


# Other tables


@pytest.mark.parametrize("how", ["lite", "inventory", "complete inventory"])
def test_a_directory_that_became_a_table_is_refused(how: str, tmp_path: Path) -> None:
    """
    users.md 3.2: CONVERT in place.
    """
    place = tmp_path / "t"
    table = table_of("a.parquet", "p=1/x.parquet").commit(remove("p=1/x.parquet", deleted_ms=OLD_MS))
    storage = written(table, place)
    listed = ["a.parquet", "p=1/x.parquet", *([commit_path(0)] if how == "complete inventory" else [])]
    options = {"mode": "lite"} if how == "lite" else {"inventory": inventory_of(place, *listed)}
    before = goes(storage, **options)
    convert(place / "p=1", "x.parquet")

    assert {"p=1/x.parquet"} == before
    assert ["vacuum.nested-table"] == refusals(storage, **options)
    assert set() == goes(storage, skip_nested_tables=True, **options)


def test_lite_refuses_a_directory_that_is_another_table_too(tmp_path: Path) -> None:
    table = table_of("a.parquet", "b.parquet").commit(remove("b.parquet", deleted_ms=OLD_MS))
    storage = written(with_files(table, "metadata/v1.metadata.json", "metadata/snap-1-1-a.avro"), tmp_path / "t")

    assert ["vacuum.shared-directory"] == refusals(storage, mode="lite")


@pytest.mark.parametrize("mode", ["full", "lite"])
def test_a_saved_plan_spares_a_directory_that_became_a_table_since(mode: str, tmp_path: Path) -> None:
    place = tmp_path / "t"
    table = table_of("a.parquet", "p=1/x.parquet").commit(remove("p=1/x.parquet", deleted_ms=OLD_MS))
    storage = written(table, place)
    plan = saved(plan_of(storage, mode=mode), tmp_path / "plan.parquet")
    convert(place / "p=1", "x.parquet")

    with pytest.raises(Refused) as refused:
        execute_vacuum(open_at(storage), plan)

    assert ("vacuum.nested-table", True) == (refused.value.code, (place / "p=1" / "x.parquet").exists())
    assert not (place / commit_path(2)).exists()


@pytest.mark.parametrize("mode", ["full", "lite"])
def test_a_table_in_the_directory_of_another_is_refused_unless_that_is_protected(mode: str, tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    with_files(table_of("p=1/outer.parquet", "b.parquet")).write(outer)
    inner = table_of("a.parquet", "c.parquet").commit(remove("c.parquet", deleted_ms=OLD_MS))
    storage = written(inner, outer / "p=1")
    table = Table(storage, clock=fixed_clock(NOW_MS), open_other=open_storage)

    assert ["vacuum.inside-table"] == refusals(table, mode=mode)
    assert {"c.parquet"} == goes(table, mode=mode, protect_from=[str(outer)])
    assert (outer / "p=1" / "outer.parquet").exists()


# Inventories


def test_an_inventory_is_limited_by_a_prefix(tmp_path: Path) -> None:
    storage = written(with_files(table_of("a.parquet"), "p=1/x.parquet", "p=11/x.parquet"), tmp_path / "t")
    inventory = inventory_of(tmp_path / "t", "a.parquet", "p=1/x.parquet", "p=11/x.parquet")

    assert {"p=1/x.parquet"} == goes(storage, inventory=inventory, prefix="p=1")
    assert "kept" == explain_file(open_at(storage), VacuumRequest(prefix="p=1"), "p=11/x.parquet").verdict
    with pytest.raises(UsageError):
        goes(storage, inventory=inventory, prefix="p=2")


@pytest.mark.parametrize("how", ["at once", "saved"])
def test_files_of_an_inventory_are_checked_before_deletion(how: str, tmp_path: Path) -> None:
    """A stale inventory only keeps more: what was written since, links, and what lies behind them."""
    place, elsewhere = tmp_path / "t", tmp_path / "elsewhere"
    storage = written(with_files(table_of("a.parquet"), "old.parquet", "anew.parquet"), place)
    elsewhere.mkdir()
    (elsewhere / "x.parquet").write_bytes(b"0123456789")
    (place / "out").symlink_to(elsewhere)
    (place / "link.parquet").symlink_to("a.parquet")
    os.utime(place / "anew.parquet", ns=(ago(1) * 1_000_000,) * 2)
    listed = ("a.parquet", "old.parquet", "anew.parquet", "out/x.parquet", "link.parquet")
    plan = plan_of(storage, inventory=inventory_of(place, *listed))

    execute_vacuum(open_at(storage), plan if how == "at once" else saved(plan, tmp_path / "plan.parquet"))

    assert set(listed) - {"a.parquet"} == paths_of(plan)
    assert {"a.parquet", "anew.parquet", "out", "link.parquet", LOG} == set(os.listdir(place))
    assert (elsewhere / "x.parquet").exists()


# Plans and records of another time


def test_the_age_of_a_file_does_not_depend_on_the_clock_of_a_saved_plan(tmp_path: Path) -> None:
    storage = written(with_files(table_of("a.parquet"), "orphan.parquet"), tmp_path / "t")
    plan = saved(plan_of(storage), tmp_path / "plan.parquet")
    os.utime(tmp_path / "t" / "orphan.parquet", ns=(NOW_MS * 1_000_000,) * 2)

    outcome = execute_vacuum(open_at(storage), plan)

    assert (0, 1) == (outcome.deleted.files, outcome.spared)


def test_a_file_listed_twice_in_an_inventory_counts_once(tmp_path: Path) -> None:
    table = table_of("a.parquet", "b.parquet", "c.parquet")
    table.commit(remove("b.parquet", deleted_ms=OLD_MS), remove("c.parquet", deleted_ms=ago(3)))
    storage = written(table, tmp_path / "t")
    inventory = inventory_of(tmp_path / "t", *["a.parquet", "b.parquet", "c.parquet"] * 3)

    plan = plan_of(storage, inventory=inventory)

    assert (1, 1, 1) == (plan.files, plan.kept.live.files, plan.kept.retained)


def test_an_inventory_that_shows_one_live_file_for_all_is_not_the_table(tmp_path: Path) -> None:
    storage = written(table_of(*MANY), tmp_path / "t")
    inventory = inventory_of(tmp_path / "t", *MANY[:1] * len(MANY))

    assert ["vacuum.live-files-missing"] == refusals(storage, inventory=inventory)


@pytest.mark.parametrize("mode", ["full", "lite"])
def test_a_file_from_before_1970_is_deleted(mode: str, tmp_path: Path) -> None:
    table = table_of("a.parquet", "b.parquet").commit(remove("b.parquet", deleted_ms=OLD_MS))
    storage = written(table, tmp_path / "t")
    os.utime(tmp_path / "t" / "b.parquet", (-(10**6), -(10**6)))

    assert {"b.parquet"} == goes(storage, mode=mode)


def test_lite_reconsiders_vectors_kept_because_of_an_unlocatable_one(tmp_path: Path) -> None:
    vector, odd = vector_of(), deletion_vector("x") | {"storageType": "q"}
    table = table_of("a.parquet", add("b.parquet", size=10, vector=vector), has_vectors=True)
    table.commit(remove("b.parquet", vector=vector, deleted_ms=OLD_MS), add("c.parquet", size=10, vector=odd))
    storage = written(with_files(table, "b.parquet", "c.parquet", vector_path(ID)), tmp_path / "t")

    plan = plan_of(storage)

    assert ({"b.parquet"}, None) == (paths_of(plan), plan.horizon)


@pytest.mark.parametrize("how", ["full", "lite", "inventory"])
def test_a_file_is_explained_as_a_run_without_a_listing_sees_it(how: str, tmp_path: Path) -> None:
    table = table_of("a.parquet", "b.parquet").commit(remove("b.parquet", deleted_ms=OLD_MS))
    storage = written(with_files(table, "orphan.parquet"), tmp_path / "t")
    inventory = inventory_of(tmp_path / "t", "a.parquet", "b.parquet") if how == "inventory" else None
    request = VacuumRequest(mode=Mode.LITE if how == "lite" else Mode.FULL, inventory=inventory)
    orphan = "goes" if how == "full" else "kept"

    for path, verdict in (("a.parquet", "kept"), ("b.parquet", "goes"), ("orphan.parquet", orphan)):
        assert verdict == explain_file(open_at(storage), request, path).verdict

    os.utime(tmp_path / "t" / commit_path(1), (NOW_MS / 1_000, NOW_MS / 1_000))  # copied without its time
    copied = explain_file(open_at(storage), request, "b.parquet")
    assert "kept" == copied.verdict
    assert f", and was committed at {format_timestamp(NOW_MS)}, within the retention" in copied.why


def test_a_removed_file_with_a_hidden_name_does_not_stop_lite(tmp_path: Path) -> None:
    table = table_of("a.parquet", "_h/g.parquet", "b.parquet")
    table.commit(remove("_h/g.parquet", deleted_ms=OLD_MS)).commit(remove("b.parquet", deleted_ms=OLD_MS))
    storage = written(table, tmp_path / "t")

    plan = plan_of(storage, mode="lite")

    assert ({"b.parquet"}, 2, 1, 0) == (paths_of(plan), plan.horizon, plan.kept.hidden, plan.kept.retained)


def test_explain_states_why_a_file_of_a_retained_version_is_kept(tmp_path: Path) -> None:
    table = table_of("a.parquet", "b.parquet").commit(remove("b.parquet", deleted_ms=OLD_MS))
    found = explain_file(open_at(written(table, tmp_path / "t")), VacuumRequest(keep_versions=(0,)), "b.parquet")

    assert ("kept", True) == (found.verdict, "a version of --keep-version" in found.why)


def test_a_prefix_that_is_a_link_is_refused(tmp_path: Path) -> None:
    storage = written(with_files(table_of("a.parquet"), "p=1/x.parquet"), tmp_path / "t")
    (tmp_path / "t" / "link").symlink_to("p=1")
    (tmp_path / "t" / "out").symlink_to("..")

    for link in ("link", "out"):
        with pytest.raises(UsageError, match="does not follow links"):
            goes(storage, prefix=link)


def test_the_lite_state_of_an_earlier_table_is_ignored(tmp_path: Path) -> None:
    table = table_of("a.parquet", "b.parquet").commit(remove("b.parquet", deleted_ms=OLD_MS))
    storage = written(table, tmp_path / "t")
    info = tmp_path / "t" / LOG / "_last_vacuum_info"
    info.write_text('{"latestCommitVersionOutsideOfRetentionWindow":500}')

    assert {"b.parquet"} == goes(storage, mode="lite")
    vacuum(storage)
    assert b":1," in info.read_bytes()


def test_the_lite_state_of_a_newer_run_is_kept_when_an_older_plan_is_applied(tmp_path: Path) -> None:
    table = table_of("a.parquet", "b.parquet").commit(remove("b.parquet", deleted_ms=OLD_MS))
    storage = written(table, tmp_path / "t")
    plan = saved(plan_of(storage), tmp_path / "plan.parquet")
    for version in (2, 3):
        (tmp_path / "t" / commit_path(version)).write_bytes(to_bytes([add(f"{version}.parquet", size=10)]))
    info = tmp_path / "t" / LOG / "_last_vacuum_info"
    info.write_text('{"latestCommitVersionOutsideOfRetentionWindow":3}')

    execute_vacuum(open_at(storage), plan)

    assert '{"latestCommitVersionOutsideOfRetentionWindow":3}' == info.read_text()


def test_lite_reconsiders_a_file_kept_for_its_age(tmp_path: Path) -> None:
    table = table_of("a.parquet", "b.parquet").commit(remove("b.parquet", deleted_ms=OLD_MS))
    storage = written(table, tmp_path / "t")
    plan = saved(plan_of(storage, mode="lite"), tmp_path / "plan.parquet")
    os.utime(tmp_path / "t" / "b.parquet", ns=(NOW_MS * 1_000_000,) * 2)

    spared = execute_vacuum(open_at(storage), plan).spared
    os.utime(tmp_path / "t" / "b.parquet", ns=(OLD_MS * 1_000_000,) * 2)

    assert (1, {"b.parquet"}) == (spared, paths_of(plan_of(storage, mode="lite")))


# Odd logs


@pytest.mark.parametrize(
    "path", ["/mnt/other/p=1//x.parquet", "/mnt/other//p=1/x.parquet", "file:///mnt//p=1///x.parquet"]
)
def test_empty_segments_of_an_absolute_path_by_another_name_protect(path: str) -> None:
    table = with_files(table_of("a.parquet", add(path, size=10)), "p=1/x.parquet", "p=1/orphan.parquet")

    assert {"p=1/orphan.parquet"} == goes(table)


def test_a_vector_outside_of_the_table_keeps_every_vector(tmp_path: Path) -> None:
    vector = {"storageType": "p", "pathOrInlineDv": f"../t/{vector_path(ID)}"}
    live = add("a.parquet", size=10, vector=vector_of() | vector)
    table = with_files(table_of(live, has_vectors=True), "a.parquet", vector_path(ID), "orphan.parquet")

    assert {"orphan.parquet"} == goes(written(table, tmp_path / "t"))


def test_a_retention_of_a_million_years_keeps_everything() -> None:
    table = table_of("a.parquet", configuration={"delta.deletedFileRetentionDuration": "interval 99999999999999 weeks"})
    plan = plan_of(with_files(table, "orphan.parquet"))

    assert (set(), ()) == (paths_of(plan), plan.refusals)


def test_sizes_below_zero_are_none() -> None:
    table = with_files(table_of(add("a.parquet", size=-10)), "a.parquet", "orphan.parquet")

    assert ["vacuum.max-delete"] == refusals(table, max_delete="50%")
    assert replace(plan_of(table), refusals=()).files == 1
