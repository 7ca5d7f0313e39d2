"""Versions whose metaData lacks fields that the protocol requires: a restore writes what readers assume, or refuses."""

from __future__ import annotations

import io
import json
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq
import pytest

from deltacli.core.errors import Refused
from deltacli.rules.framework.base import Severity
from tests.support.actions import Action, Line, add, birth, commit_info, metadata, protocol, remove
from tests.support.builder import TableBuilder
from tests.support.checkpoints import CheckpointKind
from tests.support.restoring import Restoring, append

ASSUMED: Action = {"format": {"provider": "parquet", "options": {}}, "partitionColumns": [], "configuration": {}}
"""What readers assume where a metaData lacks the field."""


def without(*names: str, **fields: Any) -> Line:  # Any: handed on to `metadata`
    """A metaData without some fields."""
    action = metadata(**fields)["metaData"]
    return {"metaData": {name: value for name, value in action.items() if name not in names}}


def changed_after(old: Line, new: Line | None = None) -> TableBuilder:
    """A table whose versions 0 and 1 have the old metaData, and whose versions 2 and 3 have the new one."""
    builder = append(TableBuilder().commit(commit_info(), protocol(), old), "a")
    return append(builder.commit(commit_info(), new or metadata(configuration={"owner": "loader"})), "b")


def restored_metadata(builder: TableBuilder, version: int = 1) -> Action:
    restoring = Restoring(builder)
    restoring.restore(version)
    [action] = restoring.newest_commit()["metaData"]
    return action


@pytest.mark.parametrize("name", ASSUMED)
def test_a_restore_writes_what_readers_assume_where_a_field_is_missing(name: str) -> None:
    action = restored_metadata(changed_after(without(name)))

    assert metadata()["metaData"] == action


@pytest.mark.parametrize("form", [{}, {"provider": "parquet"}, {"options": {}}, None])
def test_a_restore_writes_a_complete_format(form: Action | None) -> None:
    assert ASSUMED["format"] == restored_metadata(changed_after(metadata(format=form)))["format"]


def test_a_restore_keeps_what_an_incomplete_metadata_says() -> None:
    old = without("format", name="sales", createdTime=7, configuration={"owner": "somebody"})

    action = restored_metadata(changed_after(old))

    assert ("sales", 7, {"owner": "somebody"}) == (action["name"], action["createdTime"], action["configuration"])


@pytest.mark.parametrize(
    ("name", "written", "restored"),
    [
        ("createdTime", "x", None),
        ("createdTime", 1e30, None),
        ("createdTime", 1.5, None),
        ("createdTime", 1 << 63, None),
        ("createdTime", True, None),
        ("createdTime", {}, None),
        ("createdTime", 7, 7),
        ("name", 5, "5"),
        ("description", 5, "5"),
        ("id", 5, metadata()["metaData"]["id"]),
        ("configuration", {"owner": 5}, {"owner": "5"}),
    ],
)
def test_a_restore_writes_each_field_with_its_type(name: str, written: object, restored: object) -> None:
    old = metadata()
    old["metaData"][name] = written

    action = restored_metadata(changed_after(old, metadata(configuration={"owner": "loader"}, createdTime=9)), 0)

    assert restored == action.get(name)


def test_a_restore_keeps_fields_of_a_metadata_that_the_protocol_does_not_define() -> None:
    action = restored_metadata(changed_after(metadata(createdTime="x", vendor={"key": 1})))

    assert {"key": 1} == action["vendor"]


@pytest.mark.parametrize("old", [without("schemaString"), metadata(schema_string="")])
def test_a_version_without_schema_and_files_gets_the_schema_that_readers_assume(old: Line) -> None:
    action = restored_metadata(changed_after(old), 0)

    assert {"type": "struct", "fields": []} == json.loads(action["schemaString"])


def test_a_version_without_schema_is_not_restored() -> None:
    restoring = Restoring(changed_after(without("schemaString")))

    with pytest.raises(Refused) as caught:
        restoring.restore(1)

    assert ("action.missing-required", 3) == (caught.value.code, restoring.table.snapshot().version)


def test_an_empty_schema_string_is_no_schema() -> None:
    restoring = Restoring(changed_after(metadata(schema_string="")))

    with pytest.raises(Refused) as caught:
        restoring.restore(1)

    assert "action.missing-required" == caught.value.code


def test_files_come_back_under_a_metadata_that_does_not_change_although_it_has_no_schema() -> None:
    builder = TableBuilder().commit(commit_info(), protocol(), without("schemaString"))
    restoring = Restoring(append(append(builder, "a"), "b"))

    restoring.restore(1)

    assert {"commitInfo", "remove"} == set(restoring.newest_commit())


@pytest.mark.parametrize("name", [*ASSUMED, "schemaString"])
def test_a_complete_metadata_is_committed_over_an_incomplete_one(name: str) -> None:
    """Strict readers can open the table again, also where readers assume what the older version says."""
    action = restored_metadata(changed_after(metadata(), without(name)))

    assert metadata()["metaData"] == action


@pytest.mark.parametrize("name", ASSUMED)
def test_nothing_changes_where_an_older_version_lacks_what_readers_assume(name: str) -> None:
    restoring = Restoring(changed_after(without(name), metadata()))

    restoring.restore(1)

    assert {"commitInfo", "remove"} == set(restoring.newest_commit())


def test_the_newest_version_is_restored_by_nothing_although_its_metadata_is_incomplete() -> None:
    restoring = Restoring(changed_after(metadata(), without("format")))

    assert restoring.restore(3).committed_version is None


def test_a_table_that_lost_its_id_gets_it_back() -> None:
    assert metadata()["metaData"]["id"] == restored_metadata(changed_after(metadata(), without("id")))["id"]


def test_a_table_keeps_its_id_where_the_older_version_has_none() -> None:
    assert metadata()["metaData"]["id"] == restored_metadata(changed_after(without("id")))["id"]


def test_a_table_that_never_had_an_id_gets_one_by_a_restore() -> None:
    action = restored_metadata(changed_after(without("id"), without("id", configuration={"owner": "loader"})))

    assert str(UUID(action["id"])) == action["id"]


@pytest.mark.parametrize(
    "nameless", [without("id"), metadata(id=""), metadata(id=None)], ids=["missing", "empty", "null"]
)
def test_a_table_without_an_id_gets_one_by_the_first_change_of_its_metadata(nameless: Line) -> None:
    restoring = Restoring(changed_after(nameless, nameless))

    restoring.table.set_properties({"owner": "first"})
    [first] = restoring.newest_commit()["metaData"]
    restoring.table.set_properties({"owner": "second"})
    [second] = restoring.newest_commit()["metaData"]

    assert str(UUID(first["id"])) == first["id"] == second["id"]
    findings = restoring.table.validate(level="log").findings
    assert not any(finding.rule.id.startswith("metadata.") for finding in findings if finding.place.version == 4)


@pytest.mark.parametrize("kind", [CheckpointKind.CLASSIC, CheckpointKind.V2_PARQUET])
def test_metadata_of_a_checkpoint_is_written_as_in_a_commit(kind: CheckpointKind) -> None:
    """In a checkpoint, maps are lists of pairs and absent fields are null."""
    builder = changed_after(metadata(configuration={"k": "v"}))

    action = restored_metadata(builder.checkpoint(1, kind))

    assert metadata(configuration={"k": "v"})["metaData"] == action


def test_other_changes_of_an_incomplete_metadata_complete_it() -> None:
    restoring = Restoring(changed_after(metadata(), without("format", "partitionColumns")))

    restoring.table.set_properties({"owner": "other"})

    [action] = restoring.newest_commit()["metaData"]
    assert metadata(configuration={"owner": "other"})["metaData"] == action


@pytest.mark.parametrize("name", [*ASSUMED, "id"])
def test_validate_names_a_checkpoint_which_lets_strict_readers_begin_behind_an_incomplete_metadata(name: str) -> None:
    restoring = Restoring(changed_after(metadata(), without(name)))
    (finding,) = restoring.table.validate(level="log", select=["action.missing-required"]).findings

    restoring.table.checkpoint()

    (data,) = (restoring.storage.read(path) for path in [f"_delta_log/{3:020d}.checkpoint.parquet"])
    [action] = [row for row in pq.read_table(io.BytesIO(data)).column("metaData").to_pylist() if row is not None]
    assert "checkpoint" in finding.rule.fix.repair
    (covered,) = restoring.table.validate(level="log", select=["action.missing-required"]).findings
    assert (Severity.ERROR, Severity.WARNING) == (finding.severity, covered.severity)
    assert "TABLE" not in covered.rule.fix.repair
    assert None not in (action["id"], action["format"]["provider"], action["format"]["options"])
    assert None not in (action["partitionColumns"], action["configuration"], action["schemaString"])


def test_a_checkpoint_does_not_end_the_error_about_a_metadata_without_schema() -> None:
    restoring = Restoring(changed_after(metadata(), without("schemaString")).checkpoint())

    (finding,) = restoring.table.validate(level="log", select=["action.missing-required"]).findings

    assert Severity.ERROR is finding.severity


def removed(builder: TableBuilder, name: str) -> TableBuilder:
    """One more commit, which removes a file."""
    return builder.commit(commit_info("DELETE"), remove(name))


def add_without(name: str, **fields: Any) -> Line:  # Any: handed on to `add`
    action = add("a", size=7, records=10, **fields)["add"]
    return {"add": {key: value for key, value in action.items() if key != name}}


@pytest.mark.parametrize(("name", "assumed"), [("modificationTime", 0), ("partitionValues", {}), ("dataChange", True)])
def test_an_add_comes_back_with_what_readers_assume_where_a_field_is_missing(name: str, assumed: object) -> None:
    restoring = Restoring(removed(TableBuilder().commit(commit_info(), *birth(), add_without(name)), "a"))

    restoring.restore(0)

    [action] = restoring.newest_commit()["add"]
    assert assumed == action[name]


def test_an_add_without_partition_values_does_not_come_back_to_a_partitioned_table() -> None:
    lines = [*birth(partition_columns=["id"]), add_without("partitionValues")]
    restoring = Restoring(removed(TableBuilder().commit(commit_info(), *lines), "a"))

    with pytest.raises(Refused) as caught:
        restoring.restore(0)

    assert ("action.missing-required", 1) == (caught.value.code, restoring.table.snapshot().version)


def _long(name: str) -> Action:
    return {"name": name, "type": "long", "nullable": True, "metadata": {}}


PARTITIONED: Action = {
    "partition_columns": ["id", "day"],
    "schema_string": json.dumps({"type": "struct", "fields": [_long(name) for name in ("id", "day", "value")]}),
}


@pytest.mark.parametrize("values", [{}, {"id": "1"}, {"other": "1", "id": "1"}])
def test_an_add_that_lacks_a_partition_value_does_not_come_back(values: Action) -> None:
    complete: Action = {"id": "1", "day": None}
    lines = [*birth(**PARTITIONED), add("b", partition_values=complete), add("a", partition_values=values)]
    builder = removed(removed(TableBuilder().commit(commit_info(), *lines), "a"), "b")
    restoring = Restoring(builder)

    with pytest.raises(Refused) as caught:
        restoring.restore(0)

    assert ("partition.key-missing", 2) == (caught.value.code, restoring.table.snapshot().version)
    assert "first a:" in caught.value.message


@pytest.mark.parametrize("values", [{"id": "1", "day": None}, {"ID": "1", "Day": "2"}])
def test_an_add_with_null_values_or_other_letters_comes_back(values: Action) -> None:
    lines = [*birth(**PARTITIONED), add("a", partition_values=values)]
    restoring = Restoring(removed(TableBuilder().commit(commit_info(), *lines), "a"))

    restoring.restore(0)

    [action] = restoring.newest_commit()["add"]
    assert values == action["partitionValues"]
