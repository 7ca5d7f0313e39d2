"""Tables of public reports: their rows, as other engines read them, too, and the findings of `validate`.

`expected.json` has the right value for each table: its rows as texts, or the code of the error; and the rules that are
broken, apart from the order of file times, which is that of the run (None: judged by a test of its own).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli import open_table
from deltacli.api.table import Table
from deltacli.core.errors import DataUnreadable, DeltacliError, Refused
from deltacli.storage import LocalStorage
from tests.field.builders import build, lines_of, output_of
from tests.support.builder import commit_path
from tests.support.peers import Task, ask_for_rows, peer_python

EXPECTED: Mapping[str, Mapping[str, Any]] = json.loads(
    (Path(__file__).parent / "expected.json").read_text("utf-8")
)  # Any: JSON values
_OF_THE_RUN = {"log.mtime-order"}
PEERS = ("deltalake", "duckdb")
OTHERWISE: Mapping[tuple[str, str], str] = {
    ("deltalake", "09"): "it reads by names although the mode is id",
    ("duckdb", "09"): "it reads by names although the mode is id",
    ("duckdb", "10"): "it reads partition columns of mapped tables as null (duckdb-delta#343)",
    ("deltalake", "17"): "it returns binary partition values as text",
    ("deltalake", "25"): "it does not apply the vector of the commit",
    ("deltalake", "32"): "it compares paths as they are spelled",
    ("duckdb", "32"): "it compares paths as they are spelled",
    ("deltalake", "37"): "INT96 overflows its nanoseconds",
    ("deltalake", "38"): "it does not know the mark of Spark's old calendar",
    ("duckdb", "38"): "it does not know the mark of Spark's old calendar",
    ("deltalake", "43"): "it trusts the schema of the hint (delta-kernel-rs PR 2857)",
    ("duckdb", "43"): "it trusts the schema of the hint (delta-kernel-rs PR 2857)",
}
"""Where another engine reads other rows, and why."""
CONDITIONS = {
    "01": ("ts = TIMESTAMP '1850-01-01 00:07:33Z'", 1),
    "02": ("ts = TIMESTAMP '1850-01-01 00:07:33Z'", 1),
    "18": ("s > 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'", 1),
    "24": ("c IS NULL", 2),
    "29": ("d > 25.0", 2),
    "33": ("d > 12345678901234567890", 1),
    "33b": ("d = 999999999999999999", 1),
    "36": ("i > 5", 1),
    "37": ("ts < TIMESTAMP '0001-01-02 00:00:00Z'", 1),
    "38": ("d = DATE '0001-01-01'", 2),
}
Built = Callable[[str], Path]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Return a function that returns the directory of a table, built once."""
    home, known = tmp_path_factory.mktemp("field"), dict[str, Path]()

    def place(name: str) -> Path:
        number, _, below = name.partition("/")
        if number not in known:
            known[number] = build(number, home / number)
        found = known[number] / below
        if not found.is_dir():
            pytest.skip("its builder needs deltalake")
        return found

    return place


@pytest.fixture
def fresh(built: Built, tmp_path: Path) -> Callable[[str], Table]:
    """Return a function that copies a table, to be changed."""

    def table(name: str) -> Table:
        return open_table(shutil.copytree(built(name), tmp_path / name))

    return table


def rows_of(table: Table) -> object:
    """Return the rows of a table as texts, or the code of the error."""
    try:
        rows = table.snapshot().scan().to_arrow()
    except DeltacliError as fault:
        return fault.code
    return lines_of(rows, rows.schema.names)


def rules_of(table: Table, level: str = "data") -> set[str]:
    """Return the rules that `validate` reports as errors and warnings."""
    found = table.validate(level=level).findings
    return {one.rule.id for one in found if one.severity.value != "info"} - _OF_THE_RUN


@pytest.mark.parametrize("name", EXPECTED)
def test_rows_and_findings_are_as_expected(name: str, built: Built) -> None:
    table, expected = open_table(built(name)), EXPECTED[name]

    assert expected["rows"] == rows_of(table)
    if expected["findings"] is not None:
        assert set(expected["findings"]) == rules_of(table)
    if isinstance(expected["rows"], list):
        assert len(expected["rows"]) == table.snapshot().scan().count()


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_condition_finds_the_rows_that_statistics_could_hide(name: str, built: Built) -> None:
    condition, count = CONDITIONS[name]
    scan = open_table(built(name)).snapshot().scan(where=condition)

    assert (count, count) == (scan.to_arrow().num_rows, scan.count())


@pytest.mark.quartered
@pytest.mark.parametrize("peer", PEERS)
def test_another_engine_reads_the_same_rows_or_none(peer: str, built: Built, tmp_path: Path) -> None:
    """
    Where it reads other rows, the reason is written down, and goes once it reads the same.
    """
    if (python := peer_python()) is None:
        pytest.skip("no environment with other engines")
    tasks = [Task(name, str(built(name)), None) for name in EXPECTED]

    answers = ask_for_rows(python, f"rows_with_{peer}.py", tasks, tmp_path)

    differing, alike = dict[str, list[str]](), 0
    for answer in answers:
        expected = EXPECTED[answer.task.table]["rows"]
        if answer.place is None or not isinstance(expected, list):
            continue
        with pa.ipc.open_file(answer.place) as opened:
            rows = opened.read_all()
        names = open_table(answer.task.path).snapshot().scan().to_arrow().schema.names
        found = lines_of(rows, names)
        if found == expected:
            alike += 1
        else:
            differing[answer.task.table] = found
    assert {name for known, name in OTHERWISE if known == peer} == set(differing), differing
    assert alike >= 45


# -- what is changed, and what is wrong today -------------------------------------------------------------------------

Fresh = Callable[[str], Table]


@pytest.mark.parametrize("name", ["08/id", "08/name"])
@pytest.mark.parametrize("columns", [["id"], ["name"], ["name", "id"]])
def test_files_with_logical_names_are_never_read_as_nulls(name: str, columns: list[str], fresh: Fresh) -> None:
    table = fresh(name)
    before = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]

    with pytest.raises(DataUnreadable) as refused:
        table.snapshot().scan(columns=columns, where="id = 3").to_arrow()

    assert "mapping.file-with-logical-names" == refused.value.code
    assert before == table.snapshot(version=1).scan().to_arrow().to_pylist()
    with pytest.raises(DataUnreadable):
        list(table.changes(from_version=0))


@pytest.mark.parametrize("name", ["08/id", "08/name"])
def test_files_with_logical_names_in_a_mapped_table_are_an_error(name: str, fresh: Fresh) -> None:
    found = fresh(name).validate(level="data").findings

    assert any(one.severity.value == "error" and one.rule.id.startswith(("mapping.", "data.")) for one in found)


def test_rows_doubled_by_a_remove_without_its_vector_are_not_merged_and_a_repair_takes_them_out(fresh: Fresh) -> None:
    table = fresh("03")

    with pytest.raises(Refused) as left_alone:
        table.optimize(min_files=2)
    assert "action.remove-dv-mismatch" == left_alone.value.code
    assert EXPECTED["03"]["rows"] == rows_of(table)

    done = table.repair(allow_in_use=True)

    assert ["2", "3", "4", "5"] == rows_of(table)
    assert {"action.remove-dv-mismatch"} == {step.rule for step in done.steps}
    assert [] == [row for change in table.changes(from_version=4) for row in change.to_pylist()]
    assert 0 == len(table.repair(allow_in_use=True).steps)
    assert not table.plan_optimize(min_files=2).damaged


@pytest.mark.parametrize("is_late", [False, True])
def test_a_doubled_file_stays_where_the_other_one_is_taken_back_after_the_plan(
    is_late: bool, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Between plan and execution, or between the last look and the commit: the rows would be in no file.
    """
    table = fresh("03")
    plan = table.plan_repair(allow_in_use=True)
    create = LocalStorage.put_if_absent

    def restored_before(store: LocalStorage, path: str, data: bytes, *, modified_ms: int | None = None) -> object:
        if path == commit_path(5):
            monkeypatch.undo()
            open_table(table.storage.uri).restore(version=3)
        return create(store, path, data, modified_ms=modified_ms)

    if is_late:
        monkeypatch.setattr(LocalStorage, "put_if_absent", restored_before)
    else:
        open_table(table.storage.uri).restore(version=3)

    with suppress(DeltacliError):
        table.execute_repair(plan)

    assert ["2", "3", "4", "5"] == rows_of(table)


@pytest.mark.parametrize("what", ["the new file is gone", "it has other rows", "it was removed", "the old one is back"])
def test_a_file_whose_rows_are_not_known_to_be_elsewhere_stays(what: str, fresh: Fresh) -> None:
    table = fresh("03")
    root = Path(table.storage.uri.removeprefix("file://"))
    commits = [(root / commit_path(version)).read_text("utf-8").splitlines() for version in range(5)]
    (new,) = [line for line in commits[4] if '"add"' in line]
    (old,) = [line for line in commits[3] if '"add"' in line]
    match what:
        case "the new file is gone":
            (root / "c.parquet").unlink()
        case "it has other rows":
            pq.write_table(pa.table({"x": pa.array([2, 3, 4, 6], pa.int32())}), root / "c.parquet")
        case "it was removed":
            removed = {"path": "c.parquet", "dataChange": True, "deletionTimestamp": 1}
            (root / commit_path(5)).write_text(json.dumps({"remove": removed}) + "\n", "utf-8")
        case _:
            (root / commit_path(5)).write_text(f"{old}\n{new}\n", "utf-8")

    plan = table.plan_repair(select=["action.remove-dv-mismatch"])

    assert () == tuple(plan.steps)
    assert {"action.remove-dv-mismatch"} == {one.rule for one in plan.unrepaired}


@pytest.mark.parametrize("name", ["05/dec", "05/dec38"])
def test_partition_values_that_kernel_readers_refuse_are_reported(name: str, fresh: Fresh) -> None:
    assert any(rule.startswith("partition.") for rule in rules_of(fresh(name)))


def test_what_validate_announces_is_what_a_vacuum_deletes(fresh: Fresh) -> None:
    table = fresh("20b")
    announced = {
        one.place.key for one in table.validate(level="storage").findings if one.rule.id.startswith("data.orphan")
    }

    deleted = set(table.plan_vacuum().candidates.column("path").to_pylist())

    assert {str(path) for path in announced} == {path.decode() for path in deleted}


@pytest.mark.parametrize(
    "name, rows, without_commits",
    [
        ("25", ["2", "3", "4"], 0),
        ("52/empty", ["1", "9"], 0),
        ("52/nulls", ["1", "9"], 0),
        ("52/empty", ["1", "9"], 2),
        ("52/nulls", ["1", "9"], 2),
        ("52/empty", ["1", "9"], 3),
        ("52/nulls", ["1", "9"], 3),
    ],
)
def test_a_checkpoint_with_other_vectors_than_the_commits_is_rebuilt(
    name: str, rows: list[str], without_commits: int, fresh: Fresh
) -> None:
    table = fresh(name)
    list(table.writable().delete_many(commit_path(version) for version in range(without_commits)))

    table.repair(allow_in_use=True)

    assert rows == rows_of(table)


@pytest.mark.parametrize("without_commits", [2, 3])
@pytest.mark.parametrize("name", ["52/empty", "52/nulls"])
def test_readers_begin_at_a_checkpoint_without_vectors_that_name_nothing(
    name: str, without_commits: int, fresh: Fresh
) -> None:
    table = fresh(name)
    list(table.writable().delete_many(commit_path(version) for version in range(without_commits)))

    done = table.repair(allow_in_use=True)
    again = table.repair(allow_in_use=True)

    newest = max(Path(table.storage.uri.removeprefix("file://")).glob("_delta_log/*.checkpoint.parquet"))
    adds = [one for one in pq.read_table(newest)["add"].to_pylist() if one is not None]
    assert without_commits == int(newest.name[:20])
    assert [None] * len(adds) == [one["deletionVector"] for one in adds]
    assert {"dv.names-nothing"} == {step.rule for step in done.steps}
    assert () == tuple(again.steps)


def test_a_checkpoint_keeps_tombstones_of_young_commits_whatever_their_time(fresh: Fresh) -> None:
    table = fresh("39")
    before = sum(batch.num_rows for batch in table.snapshot().tombstones())

    table.checkpoint()

    assert before == sum(batch.num_rows for batch in table.snapshot().tombstones())


def test_a_mark_of_row_ids_that_is_too_low_is_not_written_again(fresh: Fresh) -> None:
    table = fresh("46b")

    with pytest.raises(Refused):
        table.optimize()


def test_manifests_are_written_behind_a_commit_and_those_that_are_stale_are_reported(fresh: Fresh) -> None:
    table = fresh("49")
    table.set_properties({"delta.logRetentionDuration": "interval 9 days"})
    place = Path(table.uri.removeprefix("file://"))
    stale = {path: path.read_bytes() for path in (place / "_symlink_format_manifest").rglob("manifest")}

    table.optimize()

    assert not any("manifest" in rule for rule in rules_of(table, "storage"))
    for path, content in stale.items():
        path.write_bytes(content)
    assert any("manifest" in rule for rule in rules_of(table, "storage"))


# -- builders that run the commands themselves ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, lines",
    [
        ("b15", ["which has 3 columns instead of 4: every scan fails until both are changed alike"]),
        (
            "b21",
            ["names 'nope', which is not a field of the rows in claim_info", "set fields.ci.nested-key = claim_id"],
        ),
        ("b31", ["      3\n      2\n      1  2023-12-14T22:13:20.000Z  fileModificationTime"]),
    ],
)
def test_commands_say_what_is_right(name: str, lines: list[str], tmp_path: Path) -> None:
    text = output_of(name, tmp_path / name)

    assert [] == [line for line in lines if line not in text]
