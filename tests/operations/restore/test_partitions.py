"""Restores of some partitions: which files of the version do not fit the table of now; and changes of partitioning."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from deltacli.changing.outcome import require_complete
from deltacli.core.errors import PartlyDone, Refused, command
from deltacli.operations.recover.verify import Problem
from deltacli.operations.restore.difference import ProblemFile
from deltacli.operations.restore.restore import RestoreOutcome, RestoreRequest, plan_restore
from deltacli.table.partition_condition import PartitionCondition
from tests.support.actions import Line, add, commit_info, domain, metadata, protocol, remove
from tests.support.builder import TableBuilder
from tests.support.restoring import Restoring, append
from tests.support.small_vectors import inline


def field(name: str, data_type: object = "long", *, nullable: bool = True) -> dict[str, Any]:
    return {"name": name, "type": data_type, "nullable": nullable, "metadata": {}}


def schema(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "struct", "fields": list(fields)})


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def array(element: object, *, contains_null: bool = True) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": contains_null}


def mapping(key: object, value: object, *, contains_null: bool = True) -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": contains_null}


def mapped(name: str, number: int, physical: str, data_type: object = "long") -> dict[str, Any]:
    names = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical}
    return field(name, data_type) | {"metadata": names}


P = field("p", "string")
MARK_19, MARK_4 = (domain("delta.rowTracking", f'{{"rowIdHighWaterMark":{number}}}') for number in (19, 4))
BY_NAME = {"delta.columnMapping.mode": "name"}
FEATURES = ("columnMapping", "deletionVectors", "domainMetadata", "icebergCompatV2", "rowTracking", "typeWidening")


def refusals_of_partition(
    then: Sequence[dict[str, Any]],
    now: Sequence[dict[str, Any]],
    *,
    properties: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {}),
    lost: str = "",
    vector: dict[str, Any] | None = None,
    lines: tuple[Sequence[Line], Sequence[Line]] = ((), ()),
) -> list[tuple[str, str]]:
    """Codes and messages of a restore of a file of p=1 that is gone by now."""

    def settings(number: int, fields: Sequence[dict[str, Any]]) -> Line:
        return metadata(configuration=properties[number], schema_string=schema(P, *fields), partition_columns=["p"])

    def supported(names: Sequence[str]) -> Line:
        readers = [name for name in names if name in ("columnMapping", "deletionVectors", "typeWidening")]
        return protocol(3, 7, reader_features=readers, writer_features=names)

    file = add("a", size=7, records=10, partition_values={"p": "1"}, vector=vector, baseRowId=10)
    builder = TableBuilder().commit(commit_info(), supported(FEATURES), settings(0, then), file, *lines[0])
    gone = remove("a", vector=vector, partitionValues={"p": "1"})
    kept = [name for name in FEATURES if name != lost]
    builder.commit(commit_info(), supported(kept), settings(1, now), gone, *lines[1])
    plan = plan_restore(Restoring(builder).table, RestoreRequest(version=0, where="p = '1'", trust_listing=True))
    return [(one.code, one.message) for one in plan.refusals]


DIFFERENT: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], str]] = {
    "a column": ([mapped("x", 1, "x1")], [mapped("x", 1, "x2")], "x was stored as x1"),
    "renamed since": ([mapped("x", 1, "x1")], [mapped("y", 1, "x2")], "y was stored as x1"),
    "in a struct": (
        [mapped("s", 1, "s", struct(mapped("x", 2, "x1")))],
        [mapped("s", 1, "s", struct(mapped("x", 2, "x2")))],
        "s.x was stored as x1",
    ),
    "in an array": (
        [mapped("s", 1, "s", array(struct(mapped("x", 2, "x1"))))],
        [mapped("s", 1, "s", array(struct(mapped("x", 2, "x2"))))],
        "s.element.x was stored as x1",
    ),
    "in a map": (
        [mapped("s", 1, "s", mapping("long", struct(mapped("x", 2, "x1"))))],
        [mapped("s", 1, "s", mapping("long", struct(mapped("x", 2, "x2"))))],
        "s.value.x was stored as x1",
    ),
}


@pytest.mark.parametrize("case", DIFFERENT)
def test_columns_of_partitions_that_are_stored_by_other_names_are_refused(case: str) -> None:
    """
    Mapping that was removed and enabled again counts its ids from 1 again: such a column would read as null.
    """
    then, now, said = DIFFERENT[case]

    [(code, message)] = refusals_of_partition(then, now, properties=(BY_NAME, BY_NAME))

    assert ("restore.schema-differs", True) == (code, said in message)
    assert not refusals_of_partition(then, then, properties=(BY_NAME, BY_NAME))


@pytest.mark.parametrize("lost", ["typeWidening", "deletionVectors"])
def test_partitions_of_a_version_with_a_feature_that_was_dropped_are_refused(lost: str) -> None:
    [(code, message)] = refusals_of_partition([], [], lost=lost)

    assert ("restore.schema-differs", True) == (code, f"supported {lost}" in message)


def test_partitions_older_than_compatibility_with_iceberg_are_refused() -> None:
    on = {"delta.enableIcebergCompatV2": "true"}

    [(code, message)] = refusals_of_partition([], [], properties=({}, on))

    assert ("restore.schema-differs", True) == (code, "delta.enableIcebergCompatV2 is true" in message)
    assert not refusals_of_partition([], [], properties=(on, on))


def test_row_ids_of_partitions_that_others_may_have_by_now_are_refused() -> None:
    [(code, message)] = refusals_of_partition([], [], lines=([MARK_19], [MARK_4]))

    assert ("restore.row-ids", True) == (code, "ids up to 19" in message)
    assert not refusals_of_partition([], [], lines=([MARK_19], [MARK_19]))


def test_vectors_of_partitions_need_the_feature_whatever_the_property_says(monkeypatch: pytest.MonkeyPatch) -> None:
    on = {"delta.enableDeletionVectors": "true"}
    both = {"properties": (on, on), "vector": inline([1])}
    assert not refusals_of_partition([], [], **both)  # type: ignore[arg-type]
    monkeypatch.setitem(globals(), "FEATURES", tuple(name for name in FEATURES if name != "deletionVectors"))

    [(code, message)] = refusals_of_partition([], [], **both)  # type: ignore[arg-type]

    assert ("restore.vectors-off", True) == (code, "has no deletionVectors" in message)


def test_partition_values_that_cannot_be_read_count_as_chosen() -> None:
    builder = TableBuilder().commit(protocol(), metadata(schema_string=schema(P), partition_columns=["p"]))
    config = Restoring(builder).table.snapshot().config
    condition = PartitionCondition(config, "p = '1'")

    assert [True, False, True] == [condition.may_match({"p": value}) for value in ("1", "2", 3)]  # type: ignore[dict-item]


def test_files_that_stay_keep_the_partitioning_of_now() -> None:
    columns = schema(P, field("q", "string"))
    builder = append(TableBuilder().commit(protocol(), metadata(partition_columns=["p"], schema_string=columns)), "a")
    builder.commit(commit_info(), metadata(partition_columns=["q"], schema_string=columns))
    restoring = Restoring(append(builder, "b"))

    with pytest.raises(Refused, match="partitioned by p and the table is now by q") as refused:
        restoring.restore(1)

    assert ("restore.partitioning", 3) == (refused.value.code, restoring.table.snapshot().version)


def test_the_undo_of_partitions_goes_one_version_back_with_the_condition() -> None:
    """
    Not to the version that was planned from: commits of others in between, which the restore followed, would go.
    """
    settings = metadata(schema_string=schema(P), partition_columns=["p"])
    restoring = Restoring(TableBuilder().commit(commit_info(), protocol(), settings))
    request = RestoreRequest(version=0, where="p = '1'", trust_listing=True)
    lost = (ProblemFile("a", "data", Problem.MISSING, "no such file"),)

    with pytest.raises(PartlyDone) as partly:
        require_complete(RestoreOutcome(plan_restore(restoring.table, request), 9, lost))

    assert "restore version 8 with the same condition" == partly.value.facts["to undo"]
    assert repr(command("restore", version=8, dry_run=True, where="p = '1'")) == repr(partly.value.hint)
