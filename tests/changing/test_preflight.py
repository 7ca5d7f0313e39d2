"""What `validate` calls an error stops a rewrite: the run, or the files that the error is about."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from deltacli.changing.change_kind import ChangeKind
from deltacli.changing.preflight import (
    ADDED_TWICE,
    BLOCKING_RULES,
    REMOVED_WITH_OTHER_VECTOR,
    BlockingRules,
    find_new_errors,
)
from deltacli.core.errors import PartlyDone, Refused
from deltacli.delta.evolution.draft import Draft
from deltacli.rules.framework.base import CATALOGUE, RULES_OF_ADD, Check, Severity
from deltacli.rules.framework.views import MetadataView, TableConfigurationView
from tests.operations.optimize.test_cases import TRACKED
from tests.support.actions import Line, add, commit_info, metadata, protocol, remove
from tests.support.appending import append
from tests.support.builder import TableBuilder
from tests.support.optimizing import Ids, live_paths, rows_of
from tests.support.reading import open_at
from tests.support.restoring import Restoring
from tests.support.rows import parquet_bytes
from tests.support.small_vectors import inline


def mark(value: int) -> Line:
    text = json.dumps({"rowIdHighWaterMark": value})
    return {"domainMetadata": {"domain": "delta.rowTracking", "configuration": text, "removed": False}}


def tracked(value: int, *bases: int | None) -> Ids:
    """A table with row tracking, its mark, and a file of three rows for each first id."""
    ids = Ids("rowTracking", "domainMetadata", configuration=TRACKED)
    lines = [ids.line(f"f{number}", defaultRowCommitVersion=1, baseRowId=base) for number, base in enumerate(bases)]
    ids.builder.commit(commit_info(), *lines, mark(value))
    return ids


@pytest.mark.parametrize(
    ("value", "bases", "rule"),
    [
        (4, (0, 3), "rowtracking.high-water-mark"),
        (9, (0, 2), "rowtracking.overlap"),
        (9, (0, None), "rowtracking.base-row-id-missing"),
    ],
)
def test_errors_of_row_ids_stop_a_rewrite(value: int, bases: tuple[int | None, ...], rule: str) -> None:
    table = tracked(value, *bases).table()
    plan = table.plan_optimize(min_files=2)

    with pytest.raises(Refused) as refused:
        table.optimize(min_files=2)

    assert (rule, 1) == (refused.value.code, table.snapshot().version)
    assert (rule,) == tuple(one.code for one in plan.refusals)
    assert rule in str(plan.as_json()["refusals"])
    with pytest.raises(Refused) as appended:
        append(table, table.snapshot().scan(limit=1).to_arrow())
    assert (rule, 1) == (appended.value.code, table.snapshot().version)


@pytest.mark.parametrize("code", ["hint.ahead-of-log", "crc.without-commit"])
def test_no_commit_takes_the_number_of_a_version_that_was_lost(code: str) -> None:
    """It could not be brought back beside another commit of its number. A version that is there was not lost."""
    ids = tracked(5, 0, 3)
    if code.startswith("hint"):
        ids.builder.hint(2)
    else:
        ids.builder.file(f"_delta_log/{2:020d}.crc", b"{}")
    table = ids.table()
    changes: list[Callable[[], object]] = [
        lambda: table.optimize(min_files=2),
        lambda: table.set_properties({"a": "b"}),
        lambda: table.restore(version=0),
        lambda: append(table, table.snapshot().scan(limit=1).to_arrow()),
    ]

    for change in changes:
        with pytest.raises(Refused) as refused:
            change()
        assert code == refused.value.code
        assert "delete _delta_log/" in refused.value.facts["if they were never made"]
    assert 1 == table.snapshot().version
    ids.builder.commit(commit_info())
    assert 3 == ids.table().set_properties({"a": "b"}).committed_version


def test_the_mark_is_compared_with_files_outside_of_the_condition() -> None:
    ids = tracked(5, 0, 3)
    ids.builder.commit(commit_info(), ids.line("other", p="1", baseRowId=40, defaultRowCommitVersion=2))
    table = ids.table()

    with pytest.raises(Refused) as refused:
        table.optimize(min_files=2, where="p = '0'")

    assert "rowtracking.high-water-mark" == refused.value.code


@pytest.mark.parametrize("statistics", [True, False])
def test_a_file_with_a_row_id_above_the_mark_is_left_alone_and_named(statistics: bool) -> None:
    """The next writer gives the id to another row."""
    ids = tracked(11, 0, 3, 6)
    rows = pa.table({"id": [100, 101], "_row_id": pa.array([2, 40]), "_row_version": pa.array([1, 1])})
    data = parquet_bytes(rows, write_statistics=statistics)
    ids.builder.file("stored", data)
    line = add("stored", size=len(data), records=2, partition_values={"p": "0"})
    line["add"] |= {"baseRowId": 9, "defaultRowCommitVersion": 2}
    ids.builder.commit(commit_info(), line)
    table = ids.table()

    with pytest.raises(PartlyDone) as refused:
        table.optimize(min_files=2)

    assert ("rowtracking.materialised-beyond-mark", "stored") == (refused.value.code, refused.value.facts["first"])
    assert "stored" in live_paths(table)
    assert 2 == len(live_paths(table))


def test_sound_row_ids_stop_nothing() -> None:
    table = tracked(5, 0, 3).table()

    assert [2] == table.optimize(min_files=2).versions
    assert 3 == append(table, table.snapshot().scan(limit=1).to_arrow())


def with_vector(*later: Line, checkpoint: int | None = None) -> Ids:
    """Three files of three rows; one of them loses a row, whereupon other commits follow."""
    ids = Ids()
    lines = [ids.line(name) for name in "abc"]
    vector = inline((0,))
    ids.builder.commit(commit_info(), *lines)
    ids.builder.commit(commit_info("DELETE"), remove("a"), {"add": {**lines[0]["add"], "deletionVector": vector}})
    if checkpoint is not None:
        ids.builder.checkpoint(checkpoint)
    for line in later:
        ids.builder.commit(commit_info("OPTIMIZE"), line)
    return ids


@pytest.mark.parametrize("checkpoint", [None, 2])
def test_a_file_that_was_removed_without_its_vector_is_left_alone_and_named(checkpoint: int | None) -> None:
    """As by Trino 479: the rows are in another file as well."""
    table = with_vector(remove("a"), checkpoint=checkpoint).table()
    before = rows_of(table)

    with pytest.raises(PartlyDone) as refused:
        table.optimize(min_files=2)

    assert (REMOVED_WITH_OTHER_VECTOR, "a") == (refused.value.code, refused.value.facts["first"])
    assert "a" in live_paths(table)
    assert 2 == len(live_paths(table))
    assert before == rows_of(table)


@pytest.mark.parametrize("checkpoint", [None, 2, 3])
@pytest.mark.parametrize("vector", [None, (1,)])
def test_a_file_that_is_live_twice_is_left_alone(vector: tuple[int, ...] | None, checkpoint: int | None) -> None:
    ids = with_vector()
    twice = ids.line("again")["add"] | {"path": "a"}
    ids = with_vector({"add": {**twice, **({} if vector is None else {"deletionVector": inline(vector)})}})
    if checkpoint is not None:
        ids.builder.checkpoint(checkpoint)
    table = ids.table()
    before = rows_of(table)

    with pytest.raises(PartlyDone) as refused:
        table.optimize(min_files=2)

    assert ADDED_TWICE == refused.value.code
    assert {"a"} == {path for path in live_paths(table) if path in "abc"}
    assert before == rows_of(table)


@pytest.mark.parametrize("checkpoint", [None, 1, 2])
def test_deletions_and_their_undoing_leave_nothing_in_doubt(checkpoint: int | None) -> None:
    ids = with_vector(checkpoint=checkpoint)
    vector, first = inline((0,)), next(one for one in ids.builder.states[1].live.values() if one["path"] == "a")
    second = {**first, "deletionVector": inline((0, 1))}
    ids.builder.commit(commit_info("DELETE"), remove("a", vector=vector), {"add": second})
    ids.builder.commit(commit_info("RESTORE"), remove("a", vector=second["deletionVector"]), {"add": first})
    ids.builder.commit(commit_info("RESTORE"), remove("a"), {"add": {**first, "deletionVector": vector}})
    table = ids.table()

    done = table.optimize(min_files=2)

    assert ([], 3) == (done.refused, done.files_removed)


def test_errors_of_the_schema_stop_a_rewrite_and_an_append() -> None:
    schema = {"type": "struct", "fields": [field("x", "long"), field("X", "long")]}
    builder = TableBuilder().commit(commit_info(), protocol(), metadata(schema_string=json.dumps(schema)))
    table = open_at(builder.commit(commit_info(), add("a", records=1), add("b", records=1)).in_memory())

    with pytest.raises(Refused) as rewritten:
        table.optimize(min_files=2)
    with pytest.raises(Refused) as appended:
        append(table, pa.table({"x": [1]}))

    assert ["schema.duplicate-column"] * 2 == [rewritten.value.code, appended.value.code]
    assert 1 == table.snapshot().version


def field(name: str, kind: str, **about: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": about}


def mapped(number: int) -> dict[str, Any]:
    return {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"}


def draft(*fields: dict[str, Any], **properties: str) -> Draft:
    on = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "9", **properties}
    line = metadata(schema_string=json.dumps({"type": "struct", "fields": fields}), configuration=on)
    return Draft(line["metaData"], protocol(2, 5)["protocol"])


SOUND = draft(field("x", "long", **mapped(1)), field("y", "long", **mapped(2)))
AMBIGUOUS = draft(field("x", "long", **mapped(1)), field("y", "long", **mapped(1)))
BAD = draft(field("x", "long", **mapped(1)), field("y", "strange", **mapped(2)))


@pytest.mark.parametrize("act", [ChangeKind.CHANGE_METADATA, ChangeKind.REUSE_FILES])
@pytest.mark.parametrize(
    ("before", "after", "is_refused"),
    [
        (SOUND, SOUND, False),
        (SOUND, AMBIGUOUS, True),
        (SOUND, BAD, True),
        (BAD, BAD, False),
        (AMBIGUOUS, AMBIGUOUS, True),
        (AMBIGUOUS, SOUND, False),
        (BAD, SOUND, False),
    ],
)
def test_the_version_that_a_change_would_leave_is_judged(
    before: Draft, after: Draft, is_refused: bool, act: ChangeKind
) -> None:
    assert is_refused == bool([*find_new_errors(1, before.config, after.config, act)])


def test_a_version_without_a_schema_and_without_files_comes_back() -> None:
    builder = TableBuilder().commit(protocol(1, 2), metadata(schema_string=None)).commit(metadata())

    assert 2 == Restoring(builder).restore(0).committed_version


def test_a_restore_to_a_sound_version_is_not_stopped_by_the_metadata_of_now() -> None:
    sound, bad = ({"metaData": one.metadata} for one in (SOUND, AMBIGUOUS))
    builder = TableBuilder().commit(commit_info(), protocol(2, 5), sound, add("a", records=1, size=7))
    restoring = Restoring(builder.commit(commit_info(), bad, remove("a")))

    assert 2 == restoring.restore(0).committed_version
    with pytest.raises(Refused) as refused:
        restoring.restore(1)
    assert refused.value.code.startswith("mapping.")


def test_the_modules_that_are_asked_for_new_files_have_all_rules_that_stop_them() -> None:
    views = (MetadataView, TableConfigurationView)
    stops = [one for one in BLOCKING_RULES if one.kinds & ChangeKind.ADD_FILES]
    checks = {
        name: [check for view in views for check in CATALOGUE.find_checks(view, [name])] for name in CATALOGUE.modules
    }

    found = [name for name, of in checks.items() if any(_can_stop(check, stops) for check in of)]

    assert sorted(RULES_OF_ADD) == sorted(found)


def _can_stop(check: Check, stops: Sequence[BlockingRules]) -> bool:
    errors = [rule.id for rule in check.rules if rule.severity is Severity.ERROR]
    return any(stop.matches(rule) for stop in stops for rule in errors)
