"""Nothing is written into a log, and no memory is taken, by an answer of a catalog that the log contradicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from deltacli.api.table import Table
from deltacli.catalogs.ratifying import publish_after_commit
from deltacli.changing.change import execute_change
from deltacli.changing.consent import consent_to_plan
from deltacli.core.errors import CatalogAnswerInvalid, CommitCorrupt, DeltacliError, LogIncomplete, Refused, Unreadable
from deltacli.operations.catalog import Publish, PublishPlan
from deltacli.table.find_log import list_log
from deltacli.table.handle import managed_store
from deltacli.table.rebuild import read_snapshot
from tests.support.actions import add
from tests.support.builder import commit_path
from tests.support.catalog_state import UUID
from tests.support.managed_tables import PROPERTIES, ManagedTable, managed_birth, managed_lines

OTHER = "11111111-2222-3333-4444-555555555555"
LARGE = 40 << 20


def names_in_log(table: ManagedTable) -> set[str]:
    return {stat.name for stat in table.store.list_from("_delta_log")}


def opened_with(table: ManagedTable, change: Callable[[Any], Any]) -> tuple[Table, Any]:
    """Open a table whose catalog gives a changed answer from now on."""
    catalog = table.catalog()
    load = catalog.load
    catalog.load = lambda name: change(load(name))  # type: ignore[method-assign]
    return table.open(catalog)


WRITERS: dict[str, Callable[[Table], object]] = {
    "catalog publish": lambda table: table.publish_catalog(),
    "checkpoint": lambda table: table.checkpoint(),
    "checkpoint of an earlier version": lambda table: table.checkpoint(version=3),
    "log crc": lambda table: table.write_checksum(),
    "log compact": lambda table: table.compact_log(1, 4),
    "properties set": lambda table: table.set_properties({"owner": "me"}),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_nothing_is_written_where_the_log_is_that_of_another_table(writer: str) -> None:
    table = ManagedTable(range(3), [3, 4])
    table.now.uuid = OTHER
    opened, catalog = table.open()
    before = names_in_log(table)

    with pytest.raises(Refused) as raised:
        WRITERS[writer](opened)

    assert (raised.value.code, raised.value.exit_code) == ("catalog.diverged", 4)
    assert {"log": UUID, "catalog": OTHER}.items() <= raised.value.facts.items()
    assert (names_in_log(table), catalog.reported) == (before, [])


def test_no_file_of_the_log_is_written_behind_a_damaged_version_of_another_table() -> None:
    table = ManagedTable(range(4), [])
    table.memory.write(commit_path(3), b"{")
    table.now.uuid = OTHER
    before = names_in_log(table)

    with pytest.raises(Refused) as raised:
        table.open()[0].checkpoint(version=2)

    assert ("catalog.diverged", OTHER) == (raised.value.code, raised.value.facts["catalog"])
    assert before == names_in_log(table)


def test_a_damaged_newest_version_keeps_no_file_of_the_right_table_from_being_written() -> None:
    table = ManagedTable(range(4), [])
    table.memory.write(commit_path(3), b"{")

    table.open()[0].checkpoint(version=2)

    assert any(name.startswith(f"{2:020}.checkpoint.") for name in names_in_log(table))


def test_a_plan_to_publish_says_that_the_table_is_another_one() -> None:
    table = ManagedTable(range(3), [3, 4])
    table.now.uuid = OTHER

    plan = table.open()[0].plan_publish_catalog()

    assert plan.refusal is not None
    assert (plan.refusal.code, plan.refusal.facts["log"]) == ("catalog.diverged", UUID)


def test_a_commit_that_names_another_table_keeps_those_before_it_from_being_published() -> None:
    renamed = managed_birth(properties=PROPERTIES | {"io.unitycatalog.tableId": OTHER})[1]
    table = ManagedTable(range(3), [3])
    table.builder.commit(*managed_lines(4, add("x.parquet"), first=[renamed]))
    table.stage(4, table.builder.files.pop(commit_path(4)).data, ratified=True)
    opened, catalog = table.open()

    with pytest.raises(Refused, match=OTHER):
        opened.publish_catalog()

    assert (table.published_versions(), catalog.reported) == ([0, 1, 2], [])


def test_a_table_that_becomes_another_one_while_a_question_is_open_is_not_published() -> None:
    table = ManagedTable(range(3), [3])
    opened, catalog = table.open()

    def answer(plan: PublishPlan) -> str | None:
        lines = managed_lines(0, first=managed_birth(properties=PROPERTIES | {"io.unitycatalog.tableId": OTHER}))
        other = ManagedTable([0], birth=lambda: lines[1:3])
        for version in range(3):
            table.memory.write(commit_path(version), other.commits[0] if version == 0 else table.commits[version])
        return consent_to_plan(plan)

    with pytest.raises(DeltacliError) as raised:
        execute_change(Publish(), opened, ask=answer)

    assert raised.value.exit_code in (3, 4)
    assert (table.published_versions(), catalog.reported) == ([0, 1, 2], [])


def test_a_log_that_names_no_table_is_published() -> None:
    nameless = {key: value for key, value in PROPERTIES.items() if key != "io.unitycatalog.tableId"}
    table = ManagedTable(range(3), [3], birth=lambda: managed_birth(properties=nameless))

    assert table.open()[0].publish_catalog().published == (3,)


@pytest.mark.parametrize("writer", ["catalog publish", "checkpoint", "properties set"])
def test_nothing_is_written_by_an_answer_that_lacks_the_commit_of_its_latest_version(writer: str) -> None:
    table = ManagedTable(range(3), [3, 4])
    opened, catalog = opened_with(table, lambda answer: answer._replace(latest=9))
    before = names_in_log(table)

    with pytest.raises(
        CatalogAnswerInvalid, match="newest commit has version 4, and the latest version is 9"
    ) as raised:
        WRITERS[writer](opened)

    assert raised.value.exit_code == 3
    assert (names_in_log(table), catalog.reported) == (before, [])


def test_a_latest_version_that_is_nowhere_is_not_said_to_be_published() -> None:
    opened, _ = ManagedTable(range(3), latest=9).open()

    with pytest.raises(LogIncomplete, match="version 9 is lost"):
        opened.publish_catalog()


def test_an_answer_that_lacks_a_commit_by_now_is_not_published_behind_a_commit() -> None:
    table = ManagedTable(range(3), [3, 4])
    managed = managed_store(table.open()[0].storage)
    assert managed is not None
    managed.log.view = managed.log.view._replace(latest=9)

    publish_after_commit(managed.log, managed.inner, 4)

    assert table.published_versions() == [0, 1, 2]
    assert "the latest version is 9" in table.notes[0]


def test_commits_below_a_checkpoint_are_published_although_later_ones_are_not_in_the_answer() -> None:
    table = ManagedTable([*range(8), 10, 11, 12], [8, 9])
    table.builder.checkpoint(10)

    opened, _ = opened_with(table, lambda answer: answer._replace(latest=12))

    assert opened.publish_catalog().published == (8, 9)


def lying(table: ManagedTable, size_bytes: int) -> Table:
    """Open a table whose catalog states another size for the newest commit."""

    def change(answer: Any) -> Any:
        *others, last = answer.commits
        return answer._replace(commits=(*others, last._replace(size_bytes=size_bytes)))

    return opened_with(table, change)[0]


READERS: dict[str, Callable[[Table], object]] = {
    "snapshot": read_snapshot,
    "history": lambda table: table.history(limit=0),
    "checkpoint": lambda table: table.checkpoint(),
    "log crc": lambda table: table.write_checksum(),
    "properties set": lambda table: table.set_properties({"owner": "me"}),
}


@pytest.mark.parametrize("size_bytes", [1, 32 << 20, 1 << 40, 1 << 62, (1 << 63) - 1])
@pytest.mark.parametrize("reader", READERS)
def test_a_size_that_a_staged_file_does_not_have_is_an_error_before_anything_is_read(
    reader: str, size_bytes: int
) -> None:
    table = ManagedTable(range(3), [3, 4])
    real = len(table.commits[4])

    with pytest.raises(Unreadable) as raised:
        READERS[reader](lying(table, size_bytes))

    assert (raised.value.code, raised.value.exit_code) == ("catalog.diverged", 3)
    assert f"has {real} bytes, and the catalog ratified {size_bytes}" in raised.value.message


@pytest.mark.parametrize("reader", ["status", "staged", "publish"])
def test_the_commands_about_a_catalog_say_so_of_any_size(reader: str) -> None:
    table = ManagedTable(range(3), [3, 4])
    opened = lying(table, 1 << 62)

    if reader == "status":
        assert ("version", "4") in [(one.kind.value, one.name) for one in opened.status_catalog().divergence]
    elif reader == "staged":
        assert len(opened.staged_catalog().items) == 2
    else:
        assert opened.plan_publish_catalog().refusal is not None


def large_commit() -> bytes:
    """A commit that readers read in blocks."""
    lines = managed_lines(1)
    lines[0]["commitInfo"]["padding"] = "x" * 1_000
    data = ManagedTable([0]).builder.commit(*lines).files[commit_path(1)].data
    info, rest = data.split(b"\n", 1)
    padding = (b'{"txn":{"appId":"%s","version":1}}\n' % (b"a" * 100_000)) * (LARGE // 100_000)
    return info + b"\n" + padding + rest


@pytest.mark.parametrize("is_right", [True, False])
def test_a_large_commit_is_read_in_blocks_if_it_has_the_ratified_size(is_right: bool) -> None:
    table = ManagedTable([0])
    data = large_commit()
    table.stage(1, data, ratified=True)
    opened = table.open()[0] if is_right else lying(table, len(data) - 5)

    if is_right:
        assert read_snapshot(opened).version == 1
        assert list_log(opened.storage).commits[1].size_bytes == len(data)
    else:
        with pytest.raises(CommitCorrupt, match="and the catalog ratified"):
            read_snapshot(opened)


@pytest.mark.parametrize("size_bytes", [LARGE, 1 << 62])
@pytest.mark.parametrize("is_published", [True, False])
def test_a_large_staged_file_that_is_gone_is_replaced_by_the_published_one_or_lost(
    size_bytes: int, is_published: bool
) -> None:
    table = ManagedTable([0], [1])
    list(table.memory.delete_many([f"_delta_log/_staged_commits/{table.now.rows[0].file_name}"]))
    if is_published:
        table.memory.write(commit_path(1), table.commits[1])

    with pytest.raises(Unreadable, match=r"version 1 is (lost|gone)"):
        read_snapshot(lying(table, size_bytes))
