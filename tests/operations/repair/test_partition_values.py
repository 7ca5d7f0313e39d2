"""Partition values that are wrong in the log: `repair` writes those that the log, the path or the user gives."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.core.errors import DeltacliError, UsageError
from deltacli.operations.repair.repair import RepairOutcome, plan_repair
from tests.support.actions import Line, add, metadata, protocol
from tests.support.builder import EPOCH_MS, TableBuilder
from tests.support.repairing import content_of, execute_repair, open_damaged, repair_and_check, request

Columns = dict[str, str]
"""Partition columns with their types."""


def schema_of(columns: Columns, *, is_nullable: bool = True, is_mapped: bool = False) -> str:
    fields = []
    for number, (name, kind) in enumerate({"id": "integer", **columns}.items(), 1):
        mapping = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"c{number}"}
        nullable = is_nullable or name == "id"
        fields.append({"name": name, "type": kind, "nullable": nullable, "metadata": mapping if is_mapped else {}})
    return json.dumps({"type": "struct", "fields": fields})


def damaged(root: Path, columns: Columns, *files: tuple[str, Mapping[str, str | None]], **options: bool) -> Path:
    """Write a table with one row in each file, and with these partition values in the log."""
    is_mapped = options.get("is_mapped", False)
    table = TableBuilder()
    configuration = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "9"} if is_mapped else {}
    adds: list[Line] = []
    for number, (path, values) in enumerate(files):
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"c1" if is_mapped else "id": pa.array([number], pa.int32())}), sink)
        data = sink.getvalue().to_pybytes()
        if "://" not in path:
            table.file(path, data)
        name = path.replace("%", "%25").replace(" ", "%20")
        adds.append(add(name, size=len(data), stats='{"numRecords":1}', partition_values=values, modified_ms=EPOCH_MS))
    table.commit(
        protocol(2, 5),
        metadata(
            partition_columns=list(columns),
            schema_string=schema_of(columns, **options),
            configuration=configuration,
        ),
        *adds,
    )
    return table.write(root)


def values_in_log(root: Path) -> dict[str, dict[str, str | None]]:
    """The partition values of each live file, by the newest commit that adds it."""
    found = {}
    for commit in sorted((root / "_delta_log").glob("*.json")):
        for line in map(json.loads, commit.read_text().splitlines()):
            if "add" in line:
                found[line["add"]["path"]] = line["add"]["partitionValues"]
    return found


def repaired(root: Path, *given: str) -> RepairOutcome:
    return repair_and_check(root, request(level="log", partition_values=list(given)))


def rows(root: Path, *columns: str) -> list[tuple[Any, ...]]:
    found = open_damaged(root).snapshot().scan(columns=list(columns)).to_arrow().to_pylist()
    return sorted((tuple(row[name] for name in columns) for row in found), key=repr)


FROM_PATH = [
    ("string", "p=x%2Fy/a.parquet", "x/y"),
    ("string", "p=a b/a.parquet", "a b"),
    ("string", "q=1/p=x/a.parquet", "x"),
    ("string", "P=x/a.parquet", "x"),
    ("string", "p=__HIVE_DEFAULT_PARTITION__/a.parquet", None),
    ("integer", "p=07/a.parquet", "7"),
    ("date", "p=2024-1-5/a.parquet", "2024-01-05"),
    ("boolean", "p=True/a.parquet", "true"),
    ("decimal(10,2)", "p=1.5/a.parquet", "1.50"),
    ("timestamp", "p=2024-01-05T01%3A02%3A03Z/a.parquet", "2024-01-05T01:02:03Z"),
]


@pytest.mark.parametrize(("kind", "path", "value"), FROM_PATH)
def test_a_missing_value_is_taken_from_the_path(kind: str, path: str, value: str | None, tmp_path: Path) -> None:
    root = damaged(tmp_path / "t", {"p": kind}, (path, {}))
    with pytest.raises(DeltacliError):
        rows(root, "id", "p")

    done = repaired(root)

    assert [{"p": value}] == list(values_in_log(root).values())
    assert f"p={'null' if value is None else value}" in done.steps[0].what
    assert 1 == len(rows(root, "id", "p"))


@pytest.mark.parametrize("kept", [["date"], []])
@pytest.mark.parametrize("is_mapped", [False, True])
def test_keys_that_a_writer_left_out_come_back(kept: list[str], is_mapped: bool, tmp_path: Path) -> None:
    names = {"date": "c2" if is_mapped else "date", "project": "c3" if is_mapped else "project"}
    values = {names[name]: "2026-06-01" for name in kept}
    columns = {"date": "date", "project": "string"}
    root = damaged(tmp_path / "t", columns, ("date=2026-06-01/project=p1/a.parquet", values), is_mapped=is_mapped)

    repaired(root)

    assert [{names["date"]: "2026-06-01", names["project"]: "p1"}] == list(values_in_log(root).values())
    assert ["p1"] == [project for _, project in rows(root, "id", "project")]


UNKNOWN = [
    ("no directory", "integer", "a.parquet", {}),
    ("a directory that is not a value", "integer", "p=x/a.parquet", {}),
    ("as in the log", "decimal(10,2)", "p=0.-1/a.parquet", {"p": "0.-1"}),
    ("two values", "integer", "p=1/p=2/a.parquet", {}),
    ("a local time", "timestamp", "p=2024-01-05 01%3A02%3A03/a.parquet", {}),
]


@pytest.mark.parametrize(("kind", "path", "values"), [case[1:] for case in UNKNOWN], ids=[case[0] for case in UNKNOWN])
def test_a_value_that_nothing_tells_is_left_and_the_reason_names_the_option(
    kind: str, path: str, values: dict[str, str | None], tmp_path: Path
) -> None:
    root = damaged(tmp_path / "t", {"p": kind}, (path, values))
    before = content_of(root)

    done = execute_repair(plan_repair(open_damaged(root), request(level="log")))

    assert before == content_of(root)
    assert ["--partition-value p=VALUE" in one.reason for one in done.plan.unrepaired] == [True]


def test_a_value_that_is_given_is_written_in_canonical_form(tmp_path: Path) -> None:
    root = damaged(
        tmp_path / "t", {"p": "decimal(10,2)"}, ("p=0.-1/a.parquet", {"p": "0.-1"}), ("b.parquet", {"p": "1.00"})
    )

    done = repaired(root, "p=-.01")

    assert {"p=0.-1/a.parquet": {"p": "-0.01"}, "b.parquet": {"p": "1.00"}} == values_in_log(root)
    assert "p=-0.01" in done.steps[0].what


def test_values_are_given_for_some_files(tmp_path: Path) -> None:
    root = damaged(tmp_path / "t", {"p": "integer"}, ("x/a.parquet", {}), ("y/b.parquet", {}), ("z/c.parquet", {}))

    done = execute_repair(
        plan_repair(open_damaged(root), request(level="log", partition_values=["p=1 @ x/*", "p= @ y/b.parquet"]))
    )

    assert {"x/a.parquet": {"p": "1"}, "y/b.parquet": {"p": None}, "z/c.parquet": {}} == values_in_log(root)
    assert {"z/c.parquet"} == {one.place.key for one in done.plan.errors}


def test_a_value_for_all_files_is_not_that_of_files_whose_path_names_one(tmp_path: Path) -> None:
    root = damaged(tmp_path / "t", {"p": "integer"}, ("p=7/a.parquet", {}), ("b.parquet", {}))

    repaired(root, "p=1")

    assert {"p=7/a.parquet": {"p": "7"}, "b.parquet": {"p": "1"}} == values_in_log(root)


CONTRADICTIONS = [
    (("p=7/a.parquet", {}), ["p=1 @ p=7/*"]),
    (("a.parquet", {}), ["p=1", "p=2"]),
    (("q=1/p=7/a.parquet", {"q": "2"}), []),
    (("q=__HIVE_DEFAULT_PARTITION__/p=7/a.parquet", {"q": "2"}), []),
]


@pytest.mark.parametrize(("file", "given"), CONTRADICTIONS)
def test_what_contradicts_itself_is_left(
    file: tuple[str, dict[str, str | None]], given: list[str], tmp_path: Path
) -> None:
    values = {"q": "2", **file[1]}
    root = damaged(tmp_path / "t", {"p": "integer", "q": "integer"}, (file[0], values))
    before = content_of(root)

    done = execute_repair(plan_repair(open_damaged(root), request(level="log", partition_values=given)))

    assert before == content_of(root)
    assert "partition.key-missing" in {one.rule for one in done.plan.unrepaired}


IN_THE_LOG = [
    ("string", {"P": "x"}, {"p": "x"}),
    ("decimal(10,2)", {"p": "1.5"}, {"p": "1.50"}),
    ("integer", {"p": " 7 "}, {"p": "7"}),
    ("integer", {"p": ""}, {"p": None}),
]


@pytest.mark.parametrize(("kind", "values", "right"), IN_THE_LOG)
def test_a_value_of_the_log_keeps_its_meaning(
    kind: str, values: dict[str, str | None], right: dict[str, str | None], tmp_path: Path
) -> None:
    """The path names another value, which does not count beside one that can be read."""
    root = damaged(tmp_path / "t", {"p": kind}, ("p=9/a.parquet", values))
    before = rows(root, "id", "p")

    repaired(root)

    assert [right] == list(values_in_log(root).values())
    assert before == rows(root, "id", "p")


def test_all_files_of_one_finding_are_corrected(tmp_path: Path) -> None:
    files = [(f"{number}.parquet", {"p": f"{number}.5"}) for number in range(8)]
    root = damaged(tmp_path / "t", {"p": "decimal(10,2)"}, *files)

    repaired(root)

    assert {f"{number}.parquet": {"p": f"{number}.50"} for number in range(8)} == values_in_log(root)


def test_null_is_not_taken_for_a_column_that_must_not_be_null(tmp_path: Path) -> None:
    root = damaged(tmp_path / "t", {"p": "string"}, ("p=__HIVE_DEFAULT_PARTITION__/a.parquet", {}), is_nullable=False)

    done = execute_repair(plan_repair(open_damaged(root), request(level="log")))
    assert ["partition.key-missing"] == [one.rule for one in done.plan.unrepaired]
    with pytest.raises(UsageError):
        plan_repair(open_damaged(root), request(level="log", partition_values=["p="]))


def test_directories_above_the_table_are_not_its_partitions(tmp_path: Path) -> None:
    root = damaged(tmp_path / "p=7" / "t", {"p": "integer"}, ("a.parquet", {}))

    done = execute_repair(plan_repair(open_damaged(root), request(level="log")))

    assert ["partition.key-missing"] == [one.rule for one in done.plan.unrepaired]


@pytest.mark.parametrize(
    "text",
    ["", "p", "=1", "q=1", "p=x", "p=1 @ ", "p=1.5", "p=99999999999999999999", "p=1\0", f"p={'9' * 100_000}", "P Q=1"],
)
def test_what_cannot_be_a_value_is_refused(text: str, tmp_path: Path) -> None:
    root = damaged(tmp_path / "t", {"p": "integer"}, ("a.parquet", {}))

    with pytest.raises(UsageError):
        plan_repair(open_damaged(root), request(level="log", partition_values=[text]))


def test_a_file_that_was_committed_again_meanwhile_is_left_alone(tmp_path: Path) -> None:
    root = damaged(tmp_path / "t", {"p": "integer"}, ("p=7/a.parquet", {}))
    plan = plan_repair(open_damaged(root), request(level="log"))
    line = next(line for line in (root / f"_delta_log/{0:020}.json").read_text().splitlines() if '"add"' in line)
    corrected = json.loads(line)
    corrected["add"]["partitionValues"] = {"p": "8"}
    (root / f"_delta_log/{1:020}.json").write_text(json.dumps(corrected) + "\n")

    execute_repair(plan)

    assert not (root / f"_delta_log/{2:020}.json").exists()
    assert [{"p": "8"}] == list(values_in_log(root).values())


def test_only_selected_rules_are_acted_on(tmp_path: Path) -> None:
    root = damaged(tmp_path / "t", {"p": "integer"}, ("p=7/a.parquet", {}))

    done = execute_repair(plan_repair(open_damaged(root), request(level="log", select=["partition.unparsable"])))

    assert () == done.plan.steps
