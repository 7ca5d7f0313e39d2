"""Files that have one column of a mapped table under its logical name: reading, checking, and everything that rewrites
or deletes them.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli import open_table
from deltacli.core.errors import DataUnreadable, DeltacliError, PartlyDone, Refused
from deltacli.delta.log.state import OlderMetadata
from deltacli.delta.schema.misnamed_fields import find_misnamed_fields
from deltacli.rules.framework.base import Finding
from deltacli.table.older_metadata import LogMetadataReader
from tests.support.actions import add, metadata, protocol, remove
from tests.support.altering import add as add_column
from tests.support.altering import drop, rename
from tests.support.appending import append
from tests.support.builder import TableBuilder
from tests.support.misnamed_columns import (
    FIRST,
    FOREIGN,
    alter,
    append_unmapped,
    cut_log,
    make_old,
    make_upgraded,
    remove_file,
)
from tests.support.rows import parquet_bytes, schema_of

RULE = "mapping.file-with-logical-names"
ID_V = pa.table({"id": [1, 2], "v": [10, 20]})
ID_W = pa.table({"id": [3], "w": [30]})
LOGICAL_STATS = {"minValues": {"id": 3, "w": 30}, "maxValues": {"id": 3, "w": 30}, "nullCount": {"id": 0, "w": 0}}
STRUCT = pa.struct([("a", pa.int64()), ("b", pa.int64())])
RENAMED_STRUCT = pa.struct([("a", pa.int64()), ("c", pa.int64())])


def nested(kind: str, *, is_renamed: bool) -> pa.Table:
    """One row with a struct of two fields, alone, in an array or in a map; `b` is called `c` after the rename."""
    inner = RENAMED_STRUCT if is_renamed else STRUCT
    value = {"a": 1, "c" if is_renamed else "b": 2}
    types = {"struct": inner, "array": pa.list_(inner), "map": pa.map_(pa.string(), inner)}
    values = {"struct": value, "array": [value], "map": [("k", value)]}
    return pa.table({"id": [1], "s": pa.array([values[kind]], types[kind])})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "table"


@pytest.fixture
def misnamed(root: Path) -> Path:
    """A table whose column `v` was renamed to `w`, and a file with the columns `id` and `w`."""
    make_upgraded(root, ID_V, rename("v", "w"))
    append_unmapped(root, ID_W)
    return root


def findings(root: Path, level: str = "footers") -> list[Finding]:
    return [one for one in open_table(root).validate(level=level).findings if one.rule.id == RULE]


def severities(root: Path) -> list[tuple[str, str | None]]:
    return [(one.severity.value, one.place.key) for one in findings(root)]


def rows_of(root: Path, **how: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = open_table(root).snapshot().scan(**how).to_arrow().to_pylist()
    return sorted(rows, key=lambda row: json.dumps(row, default=str))


def live_paths(root: Path) -> set[str]:
    return {path for batch in open_table(root).snapshot().files() for path in batch.column("path").to_pylist()}


# Reading


def test_a_read_returns_null_and_says_which_column(misnamed: Path) -> None:
    scan = open_table(misnamed).snapshot().scan()

    rows = sorted(scan.to_arrow().to_pylist(), key=lambda row: row["id"])

    assert [{"id": 1, "w": 10}, {"id": 2, "w": 20}, {"id": 3, "w": None}] == rows
    assert [("w", "w", "v", True)] == [
        (one.path, one.name_in_file, one.physical_name, one.is_certain) for one in scan.misnamed
    ]


def test_a_read_of_other_columns_says_nothing(misnamed: Path) -> None:
    scan = open_table(misnamed).snapshot().scan(columns=["id"])

    assert 3 == scan.to_arrow().num_rows
    assert () == scan.misnamed


def test_a_condition_on_the_column_agrees_with_the_rows(misnamed: Path) -> None:
    scan = open_table(misnamed).snapshot().scan(where="w is null", columns=["id"])

    assert [{"id": 3}] == scan.to_arrow().to_pylist()
    assert ["w"] == [one.path for one in scan.misnamed]
    assert [] == rows_of(misnamed, where="w = 30")
    assert [{"id": 1, "w": 10}] == rows_of(misnamed, where="w = 10")


def test_changes_say_it_too(misnamed: Path) -> None:
    changes = open_table(misnamed).changes(from_version=0)

    assert 3 == changes.to_arrow().num_rows
    assert ["w"] == [one.path for one in changes.misnamed]


def test_a_comparison_of_rows_says_it_too(misnamed: Path) -> None:
    compared = open_table(misnamed).diff(from_version=2, rows=True, key=["id"]).rows

    assert compared is not None
    assert (1, 0) == (compared.counts.added, compared.counts.changed)
    assert ["w"] == [one.path for one in compared.misnamed]


@pytest.mark.parametrize("kind", ["struct", "array", "map"])
def test_a_nested_field_is_read_as_null_and_reported(root: Path, kind: str) -> None:
    path = {"struct": "s.c", "array": "s.element.c", "map": "s.value.c"}[kind]
    make_upgraded(root, nested(kind, is_renamed=False), rename(path.replace(".c", ".b"), "c"))
    append_unmapped(root, nested(kind, is_renamed=True))

    scan = open_table(root).snapshot().scan()
    rows = scan.to_arrow()

    assert [path] == [one.path for one in scan.misnamed]
    assert {"2", "None"} == {text for row in rows["s"].to_pylist() for text in _values_of(row)}
    assert [("error", path)] == severities(root)
    with pytest.raises(Refused) as left_alone:
        open_table(root).optimize(min_files=2)
    assert RULE == left_alone.value.code


def _values_of(value: Any) -> set[str]:
    structs = value if isinstance(value, list) else [value]
    return {str(one[1]["c"] if isinstance(one, tuple) else one["c"]) for one in structs}


def test_a_file_of_dropped_columns_alone_is_read(root: Path) -> None:
    make_upgraded(root, ID_V, add_column("x", "long"), drop("id"), drop("v"), add_column("id", "long"), drop("x"))
    append(open_table(root), pa.table({"id": [5]}))

    assert [{"id": 5}, {"id": None}, {"id": None}] == rows_of(root)
    assert [] == findings(root)


def test_a_file_that_has_no_column_by_its_physical_name_is_refused(root: Path) -> None:
    make_upgraded(root, ID_V, rename("id", "key"), rename("v", "w"))
    append_unmapped(root, pa.table({"key": [3], "w": [30]}))

    with pytest.raises(DataUnreadable) as refused:
        rows_of(root)

    assert RULE == refused.value.code
    assert {("error", "key"), ("error", "w")} == set(severities(root))


# Checking


def test_the_column_is_an_error_that_names_the_file(misnamed: Path) -> None:
    [finding] = findings(misnamed)

    assert ("error", "w", "w", "v") == (finding.severity.value, finding.place.key, finding.seen, finding.expected)
    assert FOREIGN in finding.message
    assert [] == [
        one for one in open_table(misnamed).validate(level="data").findings if one.rule.id == "data.column-missing"
    ]


def test_a_name_from_before_a_later_rename_is_found(misnamed: Path) -> None:
    alter(misnamed, rename("w", "x"))

    assert [("error", "x")] == severities(misnamed)
    with pytest.raises(Refused):
        open_table(misnamed).optimize(min_files=2)


def test_statistics_under_logical_names_are_a_warning_of_the_log_but_not_those_of_dropped_columns(root: Path) -> None:
    def warned() -> list[str]:
        return [one.rule.id for one in open_table(root).validate(level="log").findings if "stats-key" in one.rule.id]

    make_upgraded(root, ID_V)
    own = {"minValues": {"id": 4, "v": 4}, "maxValues": {"id": 4, "v": 4}, "nullCount": {"id": 0, "v": 0}}
    append_unmapped(root, pa.table({"id": [4], "v": [4]}), "own.parquet", own)
    alter(root, drop("v"), add_column("v", "long"))
    # Statistics are compared with the newest schema where a checkpoint repeats them.
    open_table(root).checkpoint()
    assert [] == warned()

    alter(root, rename("v", "w"))
    append_unmapped(root, ID_W, stats=LOGICAL_STATS)
    assert ["mapping.stats-key-logical"] == warned()


@pytest.mark.parametrize(("name", "expected"), [("v", []), ("stranger", ["stats.unknown-column"])])
def test_files_that_are_added_again_keep_statistics_of_dropped_columns(
    root: Path, name: str, expected: list[str]
) -> None:
    make_upgraded(root, ID_V, drop("v"))
    append_unmapped(root, pa.table({"id": [4]}), "again.parquet", {"nullCount": {"id": 0, name: 0}})

    found = [one.rule.id for one in open_table(root).validate(level="log").findings]

    assert expected == [rule for rule in found if rule.startswith("stats.unknown")]


def test_where_columns_were_dropped_and_the_log_was_cut_off_it_is_a_warning(root: Path) -> None:
    make_upgraded(root, pa.table({"id": [1], "v": [10], "z": [5]}), drop("z"), rename("v", "w"))
    append_unmapped(root, ID_W)
    assert [("error", "w")] == severities(root)

    cut_log(root)

    assert [("warning", "w")] == severities(root)
    with pytest.raises(Refused) as left_alone:
        open_table(root).optimize(min_files=2)
    assert RULE == left_alone.value.code
    assert {FIRST, FOREIGN} == live_paths(root)


ORDINARY = [
    pytest.param([add_column("w", "long")], id="added later"),
    pytest.param([drop("v"), add_column("v", "long")], id="dropped and added again"),
    pytest.param([drop("v"), add_column("w", "long"), rename("w", "v")], id="renamed to the name of a dropped one"),
    pytest.param([rename("id", "t"), rename("v", "id"), rename("t", "v")], id="swapped"),
    pytest.param([rename("v", "w"), add_column("v", "long")], id="the old name of another one"),
    pytest.param([], id="physical names equal logical ones"),
]
"""Changes of a table that was upgraded to column mapping, and whose files have physical names."""


@pytest.mark.parametrize("changes", ORDINARY)
def test_files_of_ordinary_writers_are_never_accused(root: Path, changes: list[dict[str, Any]]) -> None:
    make_upgraded(root, ID_V, *changes)
    names = [one.name for one in open_table(root).snapshot().schema.fields]
    append(open_table(root), pa.table({name: pa.array([None], pa.int64()) for name in names}))

    scan = open_table(root).snapshot().scan()
    scan.to_arrow()

    assert () == scan.misnamed
    assert [] == findings(root)
    before = rows_of(root)
    open_table(root).optimize(min_files=2)
    assert 1 == len(live_paths(root))
    assert before == rows_of(root)
    make_old(root)
    plan = open_table(root).plan_vacuum(retention_ms=0, allow_retention_below_ms=10**15)
    assert 2 == plan.candidates.num_rows
    assert () == plan.notes


@pytest.mark.parametrize("changes", ORDINARY)
def test_ordinary_files_get_statistics_and_lose_column_mapping(root: Path, changes: list[dict[str, Any]]) -> None:
    make_upgraded(root, ID_V, *changes)
    before = rows_of(root)

    open_table(root).stats(read="rows", all=True)
    open_table(root).drop_features("columnMapping")

    assert "columnMapping" not in open_table(root).snapshot().protocol.supported_features
    assert before == rows_of(root)


def test_rewritten_files_of_a_table_whose_log_was_cut_off_are_not_accused(root: Path) -> None:
    make_upgraded(root, ID_V, drop("v"))
    open_table(root).optimize(purge=True)
    alter(root, add_column("v", "long"))
    append(open_table(root), pa.table({"id": [7], "v": [7]}))
    cut_log(root)

    assert [] == [one for one in severities(root) if one[0] == "error"]


# Rewriting


def test_optimize_leaves_the_file_alone_and_rewrites_the_others(misnamed: Path) -> None:
    append(open_table(misnamed), pa.table({"id": [4], "w": [40]}))

    with pytest.raises(PartlyDone) as left_alone:
        open_table(misnamed).optimize(min_files=2)

    assert RULE == left_alone.value.code
    assert FOREIGN in live_paths(misnamed)
    assert FIRST not in live_paths(misnamed)
    assert 2 == len(live_paths(misnamed))


def test_a_purge_of_dropped_columns_leaves_the_file_alone(misnamed: Path) -> None:
    with pytest.raises(Refused) as left_alone:
        open_table(misnamed).optimize(purge=True)

    assert RULE == left_alone.value.code
    assert {FIRST, FOREIGN} == live_paths(misnamed)


def test_column_mapping_is_not_dropped_while_the_file_is_live(misnamed: Path) -> None:
    with pytest.raises(Refused) as refused:
        open_table(misnamed).drop_features("columnMapping")

    assert RULE == refused.value.code
    assert {FIRST, FOREIGN} == live_paths(misnamed)


@pytest.mark.parametrize("read", ["rows", "footers"])
def test_statistics_of_the_file_are_not_computed(misnamed: Path, read: str) -> None:
    with pytest.raises(DeltacliError) as refused:
        open_table(misnamed).stats(read=read, all=True)

    assert 5 == refused.value.exit_code
    [text] = [
        stats
        for batch in open_table(misnamed).snapshot().files()
        for path, stats in zip(batch.column("path").to_pylist(), batch.column("stats").to_pylist(), strict=True)
        if path == FOREIGN
    ]
    assert {"numRecords": 1} == json.loads(text)


def test_a_repair_does_not_touch_the_file(root: Path) -> None:
    make_upgraded(root, ID_V, rename("v", "w"))
    append_unmapped(root, ID_W, stats=LOGICAL_STATS)

    done = open_table(root).repair(allow_in_use=True)

    assert () == tuple(step for step in done.steps if "mapping" in step.rule)
    assert FOREIGN in live_paths(root)
    assert ID_W.equals(pq.read_table(root / FOREIGN))


# Deleting


@pytest.mark.parametrize("mode", ["full", "lite"])
def test_vacuum_keeps_the_only_copy_of_the_values(misnamed: Path, mode: str) -> None:
    """An UPDATE of an engine has read null, written it elsewhere, and removed the file."""
    rewritten = pa.table({"id": [3], "v": pa.array([None], pa.int64())})
    append_unmapped(misnamed, rewritten, "rewritten.parquet")
    remove_file(misnamed, FOREIGN)
    remove_file(misnamed, FIRST)
    make_old(misnamed)

    plan = open_table(misnamed).plan_vacuum(mode=mode)

    assert [FIRST.encode()] == plan.candidates.column("path").to_pylist()
    [note] = plan.notes
    assert FOREIGN in note
    assert RULE in note
    assert 1 == plan.kept.unproven

    open_table(misnamed).vacuum(mode=mode, max_delete="100%")
    assert (misnamed / FOREIGN).exists()
    assert not (misnamed / FIRST).exists()


@pytest.mark.parametrize("size", [None, 1, 10**6])
def test_a_wrong_size_in_the_log_does_not_hide_the_column(misnamed: Path, size: int | None) -> None:
    from deltacli.operations.vacuum.logical_names import LogicalNameFinder

    table = open_table(misnamed)
    types = {"path": pa.binary(), "sizeBytes": pa.int64(), "reason": pa.string(), "removedAtVersion": pa.int64()}
    values = {"path": [FOREIGN.encode()], "sizeBytes": [size], "reason": ["tombstone"], "removedAtVersion": [9]}
    rows = pa.table({name: pa.array(values[name], kind) for name, kind in types.items()})

    [why] = LogicalNameFinder(table, table.snapshot().config).explain(rows)

    assert "has the column w under the name w, but column mapping calls it v" == why


def test_vacuum_keeps_it_when_its_tombstone_has_expired(misnamed: Path) -> None:
    remove_file(misnamed, FOREIGN)
    cut_log(misnamed)
    make_old(misnamed)

    plan = open_table(misnamed).plan_vacuum()

    assert [] == plan.candidates.column("path").to_pylist()
    assert 1 == plan.kept.unproven


def test_vacuum_deletes_dropped_columns_and_files_from_before_column_mapping(root: Path) -> None:
    """A table without column mapping was replaced by one with, whose physical names are new."""
    old, new = pa.table({"id": [1]}), pa.table({"col-1": [2]})
    columns = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}
    schema = json.dumps(
        {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": columns}]}
    )
    mapped = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "1"}
    builder = TableBuilder()
    for name, rows in (("old.parquet", old), ("late.parquet", old), ("new.parquet", new)):
        builder.file(name, parquet_bytes(rows))
    builder.commit(protocol(2, 5), metadata(schema_string=schema_of(old)), add("old.parquet"))
    builder.commit(
        remove("old.parquet", deleted_ms=1, partitionValues={}),
        metadata(schema_string=schema, configuration=mapped),
        add("new.parquet"),
    )
    builder.commit(add("late.parquet"))
    builder.commit(remove("late.parquet", deleted_ms=1, partitionValues={}))
    builder.write(root)
    make_old(root)

    plan = open_table(root).plan_vacuum()

    assert [b"old.parquet"] == plan.candidates.column("path").to_pylist()
    assert "late.parquet" in plan.notes[0]


def test_vacuum_explains_why_the_file_stays(misnamed: Path) -> None:
    from deltacli.operations.vacuum.explain import explain_file
    from deltacli.operations.vacuum.plan import VacuumRequest

    remove_file(misnamed, FOREIGN)
    make_old(misnamed)

    explained = explain_file(open_table(misnamed), VacuumRequest(), FOREIGN)

    assert "kept" == explained.verdict
    assert RULE in explained.why


# Copies


def test_a_clone_knows_as_much_as_its_source(misnamed: Path, tmp_path: Path) -> None:
    open_table(misnamed).clone(str(tmp_path / "clone"))
    clone = open_table(tmp_path / "clone", allow_external=[str(misnamed)])

    found = [one.severity.value for one in clone.validate(level="footers").findings if one.rule.id == RULE]

    assert ["error"] == found


def test_a_restored_file_is_reported_again(misnamed: Path) -> None:
    version = open_table(misnamed).snapshot().version
    remove_file(misnamed, FOREIGN)
    assert [] == findings(misnamed)

    open_table(misnamed).restore(version=version)

    assert [("error", "w")] == severities(misnamed)


def test_a_later_version_does_not_know_a_column_that_an_earlier_one_had_under_its_logical_name(root: Path) -> None:
    make_upgraded(root, ID_V)
    alter(root, rename("v", "w"))
    append_unmapped(root, ID_W)
    version = open_table(root).snapshot().version
    alter(root, drop("w"), add_column("w", "long"))

    scan = open_table(root).snapshot(version=version).scan()
    scan.to_arrow()

    assert ["w"] == [one.path for one in scan.misnamed]


# Other processes


def test_a_task_elsewhere_has_the_names_that_were_read_before_and_doubts_others(root: Path) -> None:
    make_upgraded(root, ID_V, drop("v"), add_column("v", "long"))
    config = open_table(root).snapshot().config
    file = pq.read_schema(root / FIRST)

    elsewhere = pickle.loads(pickle.dumps(config))
    assert [False] == [one.is_certain for one in find_misnamed_fields(file, elsewhere)]

    assert [] == find_misnamed_fields(file, config)
    assert [] == find_misnamed_fields(file, pickle.loads(pickle.dumps(config)))


def test_the_log_is_read_only_for_a_file_that_gives_reason(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_upgraded(root, ID_V, drop("v"), add_column("w", "long"))
    read: list[int] = []
    ask_log = LogMetadataReader.__call__

    def counted(self: LogMetadataReader) -> OlderMetadata:
        read.append(1)
        return ask_log(self)

    monkeypatch.setattr(LogMetadataReader, "__call__", counted)

    assert [{"id": 1, "w": None}, {"id": 2, "w": None}] == rows_of(root)
    assert [] == read
