"""Tables at the very edge of a rule: exactly the named rules report, on the one side and on the other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from deltacli.delta.rules import history
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.validate import Validation, validate_table
from deltacli.storage import open_storage
from tests.rules.damages_deletion_vectors import table_with_a_vector
from tests.rules.damages_hint import with_hint
from tests.rules.damages_history import vacuumed
from tests.rules.damages_log_files import commit_often
from tests.rules.damages_partitions import table_by
from tests.rules.damages_storage import RecentTable
from tests.rules.table_builder import NOW_MS, TableBuilder, column, struct

EDGES: list[tuple[frozenset[str], Callable[[], TableBuilder]]] = []


def edge(*rules: str) -> Callable[[Callable[[], TableBuilder]], Callable[[], TableBuilder]]:
    """Register a table on which exactly these rules report."""

    def register(make: Callable[[], TableBuilder]) -> Callable[[], TableBuilder]:
        EDGES.append((frozenset(rules), make))
        return make

    return register


def inspect(table: TableBuilder, root: Path) -> Validation:
    storage = open_storage(str(table.write(root)))
    return validate_table(storage, EmbeddedEngine(), level="storage", now_ms=NOW_MS)


# -- history ---------------------------------------------------------------------------------------------------------


@edge()
def vacuum_that_tells_no_parameters() -> TableBuilder:
    table = vacuumed()
    del table.action(4, "commitInfo")["operationParameters"]
    return table


@edge("history.vacuum-start-without-end")
def write_after_a_vacuum_that_was_broken_off() -> TableBuilder:
    table = vacuumed()
    table.action(5, "commitInfo")["operation"] = "WRITE"
    return table


@edge()
def end_of_a_vacuum_that_began_before_the_log() -> TableBuilder:
    table = TableBuilder()
    table.commit(operation="VACUUM END")
    return table


@edge()
def engine_that_is_not_named() -> TableBuilder:
    table = TableBuilder()
    table.action(3, "commitInfo")["engineInfo"] = ""
    return table


@edge("history.concurrent-version-hole")
def commit_prepared_before_there_was_a_table() -> TableBuilder:
    table = TableBuilder()
    commit_often(table, 14)
    table.action(13, "commitInfo").update(readVersion=-1, isBlindAppend=False)
    return table


# -- hints -----------------------------------------------------------------------------------------------------------


@edge("hint.size-wrong")
def hint_that_counts_no_files() -> TableBuilder:
    return with_hint(numOfAddFiles=0)


@edge("hint.size-wrong")
def wrong_hint_at_the_first_version() -> TableBuilder:
    table = with_hint(size=7)
    table.checkpoint_version = 0
    return table


# -- schemas ---------------------------------------------------------------------------------------------------------


def overwritten(table: TableBuilder, **parameters: str) -> TableBuilder:
    """Another type for `id`, by an overwrite of one of three files."""
    fields = [column("id", "string"), column("name", "string"), column("p", "string")]
    version = table.commit(table.change_metadata(schemaString=json.dumps(struct(*fields))), table.new_remove("b", 4, 4))
    table.action(version, "commitInfo")["operationParameters"] = {"mode": "Overwrite"} | parameters
    return table


@edge("schema.type-changed-illegally")
def overwrite_of_a_part_leaves_files_of_the_old_type() -> TableBuilder:
    return overwritten(TableBuilder(), predicate="(p = 'b')")


@edge("schema.type-changed-illegally")
def overwrite_that_removed_nothing() -> TableBuilder:
    table = overwritten(TableBuilder())
    table.commits[4].pop()
    return table


# -- partitions ------------------------------------------------------------------------------------------------------


@edge()
def directory_of_the_same_number_in_other_digits() -> TableBuilder:
    table = table_by("ratio", "double", "1.0")
    table.commit(table.new_add("x", 5, 4, path="ratio=1/part-00005.parquet", partitionValues={"ratio": "1.0"}))
    return table


@edge("partition.dir-mismatch")
def directory_of_another_number() -> TableBuilder:
    table = table_by("ratio", "double", "1.0")
    table.commit(table.new_add("x", 5, 4, path="ratio=10/part-00005.parquet", partitionValues={"ratio": "1.0"}))
    return table


@pytest.mark.parametrize(("rules", "make"), EDGES, ids=lambda value: getattr(value, "__name__", ""))
def test_exactly_these_rules_report(rules: frozenset[str], make: Callable[[], TableBuilder], tmp_path: Path) -> None:
    found = inspect(make(), tmp_path / "t")

    assert rules == {finding.rule.id for finding in found.findings}, found.findings


@pytest.mark.parametrize(("behind", "is_told"), [(20, False), (21, True)])
def test_a_commit_is_far_behind_above_so_many_versions(
    behind: int, is_told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "FAR_BEHIND", 20)
    table = TableBuilder()
    commit_often(table, 50)
    table.action(49, "commitInfo").update(readVersion=48 - behind, isBlindAppend=False)

    rules = {finding.rule.id for finding in inspect(table, tmp_path / "t").findings}

    assert is_told is ("history.concurrent-version-hole" in rules)


@pytest.mark.parametrize(("gone", "tail"), [([2], ""), ([2, 3], "; so do older ones, down to version 1")])
def test_versions_that_lack_files_are_told_from_the_newest_to_the_oldest(
    gone: list[int], tail: str, tmp_path: Path
) -> None:
    table = RecentTable()
    table.commits[3].append(table.new_remove("b", 2, 3))
    for version in gone:
        table.drop(table.action(version, "remove")["path"])

    found = {finding.rule.id: finding for finding in inspect(table, tmp_path / "t").findings}

    broken = found["history.time-travel-broken"]
    assert broken.message.endswith(f"among them{tail}")
    assert f"_delta_log/{max(gone) - 1:020d}.json" == broken.place.path


@pytest.mark.parametrize(
    ("checkpoint", "expected"), [(None, "no hint: the log has no checkpoint"), (0, "the newest checkpoint, 0")]
)
def test_a_hint_ahead_of_its_log_is_told_what_there_is(
    checkpoint: int | None, expected: str, tmp_path: Path
) -> None:
    table = TableBuilder()
    table.checkpoint_version = checkpoint
    table.put("_delta_log/_last_checkpoint", '{"version":9,"size":5}')

    found = inspect(table, tmp_path / "t").findings

    assert [expected] == [finding.expected for finding in found if finding.rule.id == "hint.ahead-of-log"]


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        ('{"version":2}', "the hint has no size"),
        ('{"version":2,"size":"5"}', "the size of the hint is no number that counts"),
    ],
)
def test_a_size_that_is_missing_and_one_that_is_odd_are_told_apart(hint: str, message: str, tmp_path: Path) -> None:
    table = TableBuilder()
    table.put("_delta_log/_last_checkpoint", hint)

    assert [message] == [finding.message for finding in inspect(table, tmp_path / "t").findings]


@pytest.mark.parametrize("version", [0, 4])
def test_a_missing_vector_is_told_with_the_version_of_its_add(version: int, tmp_path: Path) -> None:
    table = table_with_a_vector(has_file=False)
    if not version:
        table.derive(checkpoint=False, checksums=False)
        table.commits = {0: [action for number in (0, 4) for action in table.commits[number] if "remove" not in action]}
        table.commits[0].pop(3)

    found = [one for one in inspect(table, tmp_path / "t").findings if one.rule.id == "dv.file-missing"]

    assert [version] == [finding.place.version for finding in found]
