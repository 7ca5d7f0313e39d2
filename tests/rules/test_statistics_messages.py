"""What a finding says of a table: its words, what was seen and expected, and how severe it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from deltacli.core.times import EARLIEST_PLAUSIBLE_MS, WRITER_SKEW_MS
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.rules.framework.base import Finding
from deltacli.storage import open_storage
from tests.rules import corruptions_clustering as clustering
from tests.rules import corruptions_compactions as compactions
from tests.rules import corruptions_deletion_vectors as vectors
from tests.rules import corruptions_expressions as expressions
from tests.rules import corruptions_mapping as mapping
from tests.rules.corruptions_change_data import FeedTable
from tests.rules.corruptions_commit_times import LateTable, ManagedTable, TimedTable
from tests.rules.corruptions_log_files import OldTable, bare, commit
from tests.rules.table_builder import DEFAULT_SCHEMA, NOW_MS, TableBuilder, struct
from tests.support.validating import validate_table

TOLD: list[tuple[str, dict[str, str | None], Callable[[], TableBuilder]]] = []


def told(rule: str, **what: str | None) -> Callable[[Callable[[], TableBuilder]], Callable[[], TableBuilder]]:
    """Register a table with one finding of a rule, and some of the fields of that finding."""

    def register(make: Callable[[], TableBuilder]) -> Callable[[], TableBuilder]:
        TOLD.append((rule, what, make))
        return make

    return register


def findings_of(table: TableBuilder, root: Path) -> list[Finding]:
    storage = open_storage(str(table.write(root)))
    return list(validate_table(storage, EmbeddedEngine(), level="storage", now_ms=NOW_MS).findings)


# -- commits ---------------------------------------------------------------------------------------------------------


def with_sidecars(count: int) -> TableBuilder:
    table = TableBuilder()
    sidecar = {"path": "x.parquet", "sizeInBytes": 1, "modificationTime": table.time_of(3)}
    table.commits[3] += [{"sidecar": sidecar}] * count
    return table


@told(
    "commit.checkpoint-only-action",
    message="the commit has sidecar, an action allowed only in checkpoints; readers ignore it",
)
def commit_with_a_sidecar() -> TableBuilder:
    return with_sidecars(1)


@told(
    "commit.checkpoint-only-action",
    message="the commit has sidecar (2 times), an action allowed only in checkpoints; readers ignore it",
)
def commit_with_two_sidecars() -> TableBuilder:
    return with_sidecars(2)


@told(
    "commit.unknown-field",
    message="add.rowGroups is not defined by the protocol; readers ignore it",
)
def one_add_with_a_strange_field() -> TableBuilder:
    table = TableBuilder()
    table.add(3)["rowGroups"] = 3
    return table


@told(
    "commit.unknown-field",
    message="add.rowGroups is not defined by the protocol in 2 actions; readers ignore it",
)
def two_adds_with_a_strange_field() -> TableBuilder:
    table = TableBuilder().derive(checkpoint=False)
    for number in (0, 1):
        table.add(1, number)["rowGroups"] = 3
    return table


@told("ict.missing", seen="no commitInfo")
def commit_without_its_info() -> TableBuilder:
    table = TimedTable().derive(checksums=False)
    table.commits[3].pop(0)
    return table


@told("ict.missing", seen="none")
def commit_info_without_its_timestamp() -> TableBuilder:
    table = TimedTable().derive(checksums=False)
    del table.action(3, "commitInfo")["inCommitTimestamp"]
    return table


BEGINNING, MOMENT = "delta.inCommitTimestampEnablementVersion", "delta.inCommitTimestampEnablementTimestamp"


@told("ict.enablement-properties", message=f"the table has {BEGINNING} but not {MOMENT}", seen=BEGINNING)
def timestamps_that_begin_at_no_moment() -> TableBuilder:
    return LateTable(**{MOMENT: None})


@told("ict.enablement-properties", message=f"the table has {MOMENT} but not {BEGINNING}", seen=MOMENT)
def timestamps_that_begin_with_no_version() -> TableBuilder:
    return LateTable(**{BEGINNING: None})


def unpublished(*versions: int) -> TableBuilder:
    table = ManagedTable().derive(checkpoint=False, checksums=False)
    for version in versions:
        table.drop(commit(version))
    return table


@told("catalog.publish-order", message="version 2 is not published, although version 3 is")
def one_version_is_not_published() -> TableBuilder:
    return unpublished(2)


@told("catalog.publish-order", message="versions 1 to 2 are not published, although version 3 is")
def two_versions_are_not_published() -> TableBuilder:
    return unpublished(1, 2)


# -- clustering ------------------------------------------------------------------------------------------------------

told(
    "clustering.bad-config",
    message="the clustering column id has its logical name, but files use its physical name",
    expected="the physical name of the column",
)(clustering.logical_name_under_mapping)

# -- compactions -----------------------------------------------------------------------------------------------------


@told(
    "compaction.content",
    message="the compaction lacks p=b/part-00002-c000.snappy.parquet",
    seen="1 difference",
)
def compaction_without_one_add() -> TableBuilder:
    return compactions.compact(compactions.healthy(), 1, 4, compactions.without("add"))


@told(
    "compaction.content",
    message="the compaction lacks p=b/part-00002-c000.snappy.parquet, and 1 other difference",
    seen="2 differences",
)
def compaction_without_an_add_and_the_transaction() -> TableBuilder:
    def edit(actions: compactions.Actions) -> None:
        compactions.without("add")(actions)
        compactions.without("txn")(actions)

    return compactions.compact(compactions.healthy(), 1, 4, edit)


@told(
    "compaction.missing-remove",
    message="the compaction lacks 1 remove of the commits",
)
def compaction_without_one_remove() -> TableBuilder:
    return compactions.compact(compactions.healthy(), 1, 4, compactions.without("remove"))


@told(
    "compaction.missing-remove",
    message="the compaction lacks 2 removes of the commits",
)
def compaction_without_two_removes() -> TableBuilder:
    def edit(actions: compactions.Actions) -> None:
        compactions.without("remove")(actions)
        compactions.without("remove")(actions)

    table = compactions.healthy()
    table.commits[3].append(table.new_remove("b", 2, 3))
    return compactions.compact(table, 1, 4, edit)


# -- deletion vectors ------------------------------------------------------------------------------------------------


told("dv.bad-descriptor", seen="x", expected="u, i, p")(vectors.storage_type_that_nobody_knows)


@told(
    "dv.offset-zero-vs-null",
    message="the deletion vector has no offset in its file",
    seen="none",
)
def vector_without_an_offset() -> TableBuilder:
    return vectors.change(offset=None)


@told("dv.offset-zero-vs-null", message="the offset is that of the version", seen="0")
def vector_at_the_offset_of_the_version() -> TableBuilder:
    return vectors.change(offset=0)


told("dv.bad-z85", message="the inline deletion vector is not z85 text")(vectors.inline_text_with_a_blank)
told("dv.bad-z85", message="the name of the deletion vector's file is not a UUID in z85")(
    vectors.name_of_nineteen_characters
)


def vectors_without_their_feature(count: int) -> TableBuilder:
    table = vectors.vector_under_a_protocol_without_vectors()
    if count > 1:
        more = table.add(4) | {"path": table.path_of("b", 9)}
        table.commits[4].append({"add": more})
    return table


@told(
    "dv.feature-missing",
    message="there is a deletion vector, but the protocol does not support deletionVectors",
)
def one_vector_without_its_feature() -> TableBuilder:
    return vectors_without_their_feature(1)


@told(
    "dv.feature-missing",
    message="there is a deletion vector in 2 files, but the protocol does not support deletionVectors",
)
def two_vectors_without_their_feature() -> TableBuilder:
    return vectors_without_their_feature(2)


# -- expressions -----------------------------------------------------------------------------------------------------


def invariant(text: str) -> TableBuilder:
    return expressions.table_with(expressions.field("c", "long", delta__invariants=text), "invariants")


@told(
    "invariant.bad-json",
    severity="warning",
    message="the invariant of c is a bare condition; writers look for it within JSON",
)
def invariant_that_is_a_bare_condition() -> TableBuilder:
    return invariant("c > 0")


@told("invariant.bad-json", severity="error", message="the invariant of c is not the JSON that holds a condition")
def invariant_that_is_a_bare_value() -> TableBuilder:
    return invariant("c + 1")


@told("invariant.bad-json", severity="error", message="the invariant of c is not the JSON that holds a condition")
def invariant_that_is_json_of_another_kind() -> TableBuilder:
    return invariant('{"expression":"c > 0"}')


# -- file actions ----------------------------------------------------------------------------------------------------


@told(
    "action.datachange-mixed",
    message="1 of 3 file actions have dataChange=true, the others have dataChange=false",
    seen="1 of 3",
)
def one_of_three_actions_changes_data() -> TableBuilder:
    table = TableBuilder()
    table.commits[2].append(table.new_add("b", 5, 2))
    table.add(2)["dataChange"] = table.action(2, "remove")["dataChange"] = False
    return table


def made_at(time: int) -> TableBuilder:
    table = TableBuilder()
    table.add(3)["modificationTime"] = time
    return table


ADDED = "p=b/part-00004-c000.snappy.parquet"


@told("action.bad-modification-time", message=f"{ADDED} has the invalid modificationTime 0")
def file_made_at_no_time() -> TableBuilder:
    return made_at(0)


@told("action.bad-modification-time", message=f"{ADDED} has modificationTime 1970-01-01T00:00:00.001Z")
def file_made_at_the_first_millisecond() -> TableBuilder:
    return made_at(1)


@told("action.bad-modification-time", message=f"{ADDED} has modificationTime 1970-01-02T03:46:39.999Z")
def file_made_too_long_ago_in_seconds_too() -> TableBuilder:
    return made_at(EARLIEST_PLAUSIBLE_MS // 1000 - 1)


@told(
    "action.bad-modification-time",
    message=(
        f"{ADDED} has modificationTime 1970-01-02T03:46:40.000Z; read as seconds it would be 1973-03-03T09:46:40.000Z"
    ),
)
def file_made_at_the_oldest_time_in_seconds() -> TableBuilder:
    return made_at(EARLIEST_PLAUSIBLE_MS // 1000)


def tagged(value: object) -> TableBuilder:
    table = TableBuilder()
    table.add(3)["tags"] = {"ZONE": value}
    return table


@told("action.tags-null-value", seen="null")
def tag_without_a_value() -> TableBuilder:
    return tagged(None)


@told("action.tags-null-value", seen="3")
def tag_with_a_number() -> TableBuilder:
    return tagged(3)


@told("action.deletion-timestamp-odd", expected=f"at least {EARLIEST_PLAUSIBLE_MS}")
def file_removed_before_the_oldest_time_at_which_it_was_made() -> TableBuilder:
    table = TableBuilder().derive(checkpoint=False)
    table.add(1)["modificationTime"] = EARLIEST_PLAUSIBLE_MS
    table.action(2, "remove")["deletionTimestamp"] = EARLIEST_PLAUSIBLE_MS - WRITER_SKEW_MS - 1
    return table


def change_file_of(size: int) -> TableBuilder:
    table = FeedTable()
    table.action(2, "cdc")["size"] = size
    return table


@told("action.negative-size", severity="warning")
def change_file_of_no_bytes() -> TableBuilder:
    return change_file_of(0)


@told("action.negative-size", severity="error")
def change_file_of_less_than_nothing() -> TableBuilder:
    return change_file_of(-1)


# -- logs ------------------------------------------------------------------------------------------------------------


def without(*versions: int) -> TableBuilder:
    table = bare()
    for version in versions:
        table.drop(commit(version))
    return table


@told("log.gap", message="commit 2 is missing, so version 3 cannot be rebuilt", seen="commits 0-1, 3", expected="2")
def one_commit_is_missing() -> TableBuilder:
    return without(2)


@told("log.gap", message="commits 1 to 2 are missing, so version 3 cannot be rebuilt", expected="1-2")
def two_commits_are_missing() -> TableBuilder:
    return without(1, 2)


ALONE = "the checkpoint of version {0} has no commit {0}"


@told("log.checkpoint-commit-missing", message=f"{ALONE.format(2)}; Delta Kernel for Java refuses it")
def checkpoint_without_its_commit_below_another() -> TableBuilder:
    table = TableBuilder().derive(checksums=False)
    table.drop(commit(2))
    return table


@told(
    "log.checkpoint-commit-missing",
    message=f"{ALONE.format(3)}; Spark and Delta Kernel for Java refuse it",
)
def newest_checkpoint_without_its_commit() -> TableBuilder:
    table = TableBuilder().derive(checksums=False)
    table.checkpoint_version = 3
    table.drop(commit(3))
    return table


def old_table(checkpoint: int) -> TableBuilder:
    table = OldTable()
    table.commits[2] = [action for action in table.commits[2] if "remove" not in action]
    table.checkpoint_version = checkpoint
    return table


REPLACED = "older than the log retention, and the checkpoint of version {} replaces them"


@told("log.cleanup-overdue", message=f"commit 0 is {REPLACED.format(1)}")
def one_commit_is_expired() -> TableBuilder:
    return old_table(1)


@told("log.cleanup-overdue", message=f"commits 0-1 are {REPLACED.format(2)}")
def two_commits_are_expired() -> TableBuilder:
    return old_table(2)


def as_old_as_before(*versions: int) -> TableBuilder:
    table = TableBuilder()
    for version in versions:
        table.touch(commit(version), table.time_of(0))
    return table


LATER = "not newer than the previous one, first at version 1; time travel adjusts their times"


@told("log.mtime-order", message=f"1 commit file is {LATER}")
def one_commit_file_is_as_old_as_the_one_before() -> TableBuilder:
    return as_old_as_before(1)


@told("log.mtime-order", message=f"2 commit files are {LATER}")
def two_commit_files_are_as_old_as_the_one_before() -> TableBuilder:
    return as_old_as_before(1, 2)


# -- column mapping --------------------------------------------------------------------------------------------------


@told(
    "mapping.stray-annotations",
    message="the field id has an id or a physical name although column mapping is off",
    seen="1",
)
def one_field_with_an_id() -> TableBuilder:
    return TableBuilder(schema=struct(mapping.mapped("id", "long", 1), *DEFAULT_SCHEMA["fields"][1:]))


told(
    "mapping.stray-annotations",
    message="3 fields have ids or physical names although column mapping is off; the first is id",
    seen="3",
)(mapping.ids_without_a_mode)

told(
    "mapping.compat-physical-name",
    message="the physical name of the field extra is not derived from its id",
    seen="extra",
    expected="col-4",
)(mapping.physical_name_that_is_not_made_of_the_id)

told(
    "mapping.stats-key-logical",
    message="the statistics of name have its logical name instead of the physical one",
    seen="name",
    expected="col-2",
)(mapping.statistics_under_the_logical_name)

told(
    "mapping.stats-key-logical",
    message="the statistics of s.a have its logical name instead of the physical one",
    seen="col-4.a",
    expected="col-5",
)(mapping.statistics_of_a_nested_field_under_the_logical_name)


@told(
    "mapping.stats-key-logical",
    message="the statistics of name have its logical name instead of the physical one in 2 files",
)
def statistics_of_two_files_under_the_logical_name() -> TableBuilder:
    table = mapping.MappedTable()
    for number in (0, 1):
        stats = table.stats(1, number)
        stats["maxValues"] = {"col-1": 49, "name": "z"}
        table.set_stats(1, stats, number)
    return table


@pytest.mark.parametrize(("rule", "what", "make"), TOLD, ids=lambda value: getattr(value, "__name__", ""))
def test_a_finding_names_the_actual_values(
    rule: str, what: dict[str, str | None], make: Callable[[], TableBuilder], tmp_path: Path
) -> None:
    found = [finding for finding in findings_of(make(), tmp_path / "t") if finding.rule.id == rule]

    assert [what] == [{name: getattr(finding, name) for name in what} for finding in found]
