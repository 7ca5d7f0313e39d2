"""Damages of a log that engines read differently: what deltacli reads, and that whoever reads rows says so.

What Spark, the Java kernel and the Rust kernel read of the same tables is in the decision record about damaged logs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli import open_table
from deltacli.cli.app import run
from deltacli.core.errors import Refused, Unreadable
from deltacli.work.commits import reading
from tests.support.actions import Line, add, commit_info, metadata, protocol, remove, to_bytes, txn
from tests.support.builder import TableBuilder
from tests.support.checkpoints import CheckpointKind

Capture = pytest.CaptureFixture[bytes]
ONE, TWO, THREE = "one.parquet", "two.parquet", "three.parquet"
WEEK_MS = 7 * 24 * 3_600_000
IDS = {ONE: 1, TWO: 2, THREE: 3}


def data_of(name: str) -> bytes:
    """Return a data file whose only row has the id of its name."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": pa.array([IDS[name]], pa.int64())}), sink)
    return bytes(sink.getvalue().to_pybytes())


def add_of(name: str, **fields: Any) -> Line:  # Any: fields of the add
    return add(name, size=len(data_of(name)), records=1, **fields)


def table_of(*first: Line, raw: bytes | None = None, then: Sequence[Line] = ()) -> TableBuilder:
    """Describe a table with the file ONE, or other actions in version 0, and a second version if one is given."""
    table = TableBuilder()
    for name in IDS:
        table.file(name, data_of(name))
    table.commit(protocol(), metadata(), *(first or (add_of(ONE),)))
    if raw is not None or then:
        table.commit(*then, raw=raw)
    return table


def line(*actions: Line) -> bytes:
    """Return one line with several actions in one object."""
    return to_bytes([{kind: action for one in actions for kind, action in one.items()}])


def objects(*actions: Line) -> bytes:
    """Return one line with several objects."""
    return b" ".join(json.dumps(action).encode() for action in actions) + b"\n"


def ids_of(root: Path) -> list[int]:
    return sorted(open_table(root).snapshot().scan().to_arrow()["id"].to_pylist())


OTHER_SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in ("id", "more")],
    }
)

DISPUTED = {
    "an add and a remove on a line": (
        table_of(raw=line(add_of(TWO), remove(ONE))),
        [1, 2],
        "commit.line-not-object",
    ),
    "a remove and an add on a line": (
        table_of(raw=line(remove(ONE), add_of(TWO))),
        [1, 2],
        "commit.line-not-object",
    ),
    "a metaData and an add on a line": (
        table_of(raw=line(metadata(schema_string=OTHER_SCHEMA), add_of(TWO))),
        [1, 2],
        "commit.line-not-object",
    ),
    "two adds in two objects on a line": (
        table_of(raw=objects(add_of(TWO), add_of(THREE))),
        [1, 2, 3],
        "commit.pretty-printed",
    ),
    "a remove after another object on its line": (
        table_of(raw=objects(add_of(TWO), remove(ONE))),
        [1, 2],
        "commit.pretty-printed",
    ),
    "a remove before another object on its line": (
        table_of(raw=objects(remove(ONE), add_of(TWO))),
        [2],
        "commit.pretty-printed",
    ),
    "a remove on a line of its own after a line with two objects": (
        table_of(raw=objects(add_of(TWO), add_of(THREE)) + to_bytes([remove(ONE)])),
        [2, 3],
        "commit.pretty-printed",
    ),
    "an add, then a remove of the file": (
        table_of(then=[add_of(TWO), remove(TWO)]),
        [1, 2],
        "action.add-remove-same-key",
    ),
    "a remove, then an add of the file": (
        table_of(then=[remove(ONE), add_of(ONE)]),
        [1],
        "action.add-remove-same-key",
    ),
    "two adds of a file that differ": (
        table_of(add_of(ONE), add_of(ONE, tags={"a": "b"})),
        [1],
        "action.duplicate-path",
    ),
    "two metaData that differ": (
        table_of(metadata(schema_string=OTHER_SCHEMA), add_of(ONE)),
        [1],
        "commit.duplicate-metadata",
    ),
    "two protocols that differ": (table_of(protocol(1, 4), add_of(ONE)), [1], "commit.duplicate-protocol"),
}

UNDISPUTED = {
    "a commitInfo and an add on a line": table_of(raw=line(commit_info(), add_of(TWO))),
    "lines that end with CR alone": table_of(raw=to_bytes([add_of(TWO), add_of(THREE)]).replace(b"\n", b"\r")),
    "actions over several lines": table_of(
        raw=b"\n".join(json.dumps(one, indent=1).encode() for one in (add_of(TWO), remove(ONE)))
    ),
    "two adds that are the same": table_of(add_of(ONE), add_of(ONE)),
    "two metaData that are the same": table_of(metadata(), add_of(ONE)),
    "a file that is removed later": table_of(then=[remove(ONE), add_of(TWO)]),
    "an add and a remove of it that a later commit decides": table_of(then=[add_of(TWO), remove(TWO)]).commit(
        remove(TWO)
    ),
}


@pytest.mark.parametrize("case", DISPUTED)
def test_rows_of_a_damaged_log_are_read_and_the_decision_is_known(case: str, tmp_path: Path) -> None:
    table, ids, rule = DISPUTED[case]
    root = table.write(tmp_path / "t")

    assert ids == ids_of(root)
    assert rule in open_table(root).snapshot().problems
    assert rule in {finding.rule.id for finding in open_table(root).validate(level="log").findings}


@pytest.mark.parametrize("case", [case for case, found in DISPUTED.items() if found[2] != "commit.pretty-printed"])
def test_a_large_commit_is_read_in_the_same_way(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LARGE_COMMIT_BYTES", 1)
    table, ids, rule = DISPUTED[case]
    root = table.write(tmp_path / "t")

    assert ids == ids_of(root)
    assert rule in open_table(root).snapshot().problems


@pytest.mark.parametrize("case", UNDISPUTED)
def test_nothing_is_noted_of_what_engines_read_alike(case: str, tmp_path: Path) -> None:
    root = UNDISPUTED[case].write(tmp_path / "t")

    assert () == open_table(root).snapshot().problems
    assert [] == open_table(root).snapshot().decisions


COMMANDS = [
    ["read", "{table}"],
    ["read", "{table}", "--count"],
    ["read", "{table}", "--count", "--where", "id > 0"],
    ["changes", "{table}", "--from", "0"],
    ["changes", "{table}", "--from", "0", "--output", "{other}/"],
    ["snapshot", "{table}"],
    ["diff", "{table}", "0", "1"],
    ["optimize", "{table}", "--dry-run"],
    ["copy", "{table}", "{other}"],
    ["clone", "{table}", "{other}", "--dry-run"],
    ["checkpoint", "{table}", "--force"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_commands_that_read_or_copy_rows_note_the_decision(
    words: list[str], tmp_path: Path, capsysbinary: Capture
) -> None:
    root = DISPUTED["an add, then a remove of the file"][0].write(tmp_path / "t")
    places = {"table": str(root), "other": str(tmp_path / "other")}

    run([word.format(**places) for word in words])

    output = capsysbinary.readouterr()
    assert "action.add-remove-same-key" in (output.out + output.err).decode()


@pytest.mark.parametrize("case", DISPUTED)
def test_one_reading_becomes_that_of_all_engines_only_with_force(case: str, tmp_path: Path) -> None:
    described, ids, rule = DISPUTED[case]
    table = open_table(described.write(tmp_path / "t"))

    with pytest.raises(Refused) as caught:
        table.checkpoint()
    assert rule == caught.value.code
    with pytest.raises(Refused) as caught:
        table.write_checksum()
    assert rule == caught.value.code
    if described.newest:  # a compaction has two commits at least
        with pytest.raises(Refused) as compaction:
            table.compact_log(0, described.newest)
        assert rule == compaction.value.code

    # As the refusal says.
    assert "checkpoint" in str(caught.value.facts)
    table.checkpoint(force=True)
    assert ids == ids_of(tmp_path / "t")
    assert () == table.snapshot().problems


def test_optimize_and_clone_do_not_settle_it_either(tmp_path: Path) -> None:
    described, _, rule = DISPUTED["an add, then a remove of the file"]
    table = open_table(described.write(tmp_path / "t"))

    with pytest.raises(Refused) as caught:
        table.optimize()
    assert rule == caught.value.code
    with pytest.raises(Refused) as caught:
        table.clone(tmp_path / "other")
    assert rule == caught.value.code


def test_vacuum_keeps_a_file_whose_remove_does_not_count(tmp_path: Path) -> None:
    root = DISPUTED["an add and a remove on a line"][0].write(tmp_path / "t")

    open_table(root).vacuum(retention_ms=0, allow_retention_below_ms=WEEK_MS)

    assert [1, 2] == ids_of(root)


def test_changes_have_a_file_once_that_a_commit_adds_twice(tmp_path: Path) -> None:
    root = DISPUTED["two adds of a file that differ"][0].write(tmp_path / "t")

    changes = open_table(root).changes(from_version=0)

    assert [1] == changes.to_arrow()["id"].to_pylist()
    assert ("action.duplicate-path",) == changes.disputed


# -- a checkpoint that has a file twice --------------------------------------------------------------------------------


def repeated(kind: CheckpointKind, *, then: Sequence[Line] = (), **fields: Any) -> TableBuilder:  # Any: of the add
    """Describe a table whose checkpoint has the file ONE twice, the second time with further fields."""
    features = ["v2Checkpoint"]
    of_kind = protocol(3, 7, reader_features=features, writer_features=features) if kind.is_v2 else protocol()
    actions = [of_kind, metadata(), add_of(ONE), add_of(TWO)]
    table = TableBuilder()
    for name in IDS:
        table.file(name, data_of(name))
    table.commit(*actions).checkpoint(0, kind, actions=[*actions, add_of(ONE, **fields)])
    if then:
        table.commit(*then)
    return table


@pytest.mark.parametrize("kind", CheckpointKind)
def test_a_file_that_a_checkpoint_has_twice_is_read_once(
    kind: CheckpointKind, tmp_path: Path, capsysbinary: Capture
) -> None:
    root = repeated(kind, then=[add_of(THREE)]).write(tmp_path / "t")

    assert [1, 2, 3] == ids_of(root)
    assert 0 == run(["read", str(root)])
    assert "checkpoint.duplicate-key" in capsysbinary.readouterr().err.decode()
    assert 0 == run(["read", str(root), "--count", "--format", "csv"])
    output = capsysbinary.readouterr()
    assert ["3"] == [row.split(",")[1] for row in output.out.decode().splitlines()[1:]]
    assert "checkpoint.duplicate-key" in output.err.decode()


def test_a_new_checkpoint_has_it_once(tmp_path: Path) -> None:
    root = repeated(CheckpointKind.CLASSIC, then=[add_of(THREE)]).write(tmp_path / "t")

    open_table(root).checkpoint()

    paths = pq.read_table(root / "_delta_log" / f"{1:020d}.checkpoint.parquet")["add"].combine_chunks().field("path")
    assert sorted(IDS) == sorted(path for path in paths.to_pylist() if path is not None)


def test_one_that_is_removed_later_leaves_no_doubt(tmp_path: Path) -> None:
    root = repeated(CheckpointKind.CLASSIC, then=[remove(ONE)]).write(tmp_path / "t")

    scan = open_table(root).snapshot().scan()

    assert [2] == scan.to_arrow()["id"].to_pylist()
    assert () == scan.disputed


@pytest.mark.parametrize("values", [("1", "2"), ("0", None), (None, "0"), ("-1", "-2")])
def test_two_adds_in_different_partitions_are_refused(values: tuple[str | None, str | None], tmp_path: Path) -> None:
    partitioned = metadata(partition_columns=["more"], schema_string=OTHER_SCHEMA)
    actions = [protocol(), partitioned, *(add_of(ONE, partition_values={"more": value}) for value in values)]
    table = TableBuilder().file(ONE, data_of(ONE)).commit(*actions[:3]).checkpoint(0, actions=actions)
    root = table.write(tmp_path / "t")

    with pytest.raises(Unreadable) as caught:
        open_table(root).snapshot().scan().to_arrow()

    assert "checkpoint.duplicate-key" == caught.value.code
    # Without the column nothing depends on it.
    assert [1] == open_table(root).snapshot().scan(columns=["id"]).to_arrow()["id"].to_pylist()


def test_two_metadata_in_a_checkpoint_are_noted(tmp_path: Path) -> None:
    actions = [protocol(), metadata(schema_string=OTHER_SCHEMA), metadata(), add_of(ONE)]
    root = table_of().checkpoint(0, actions=actions).write(tmp_path / "t")

    assert "checkpoint.no-metadata" in open_table(root).snapshot().problems


# -- partition values --------------------------------------------------------------------------------------------------


def keyed(*keys: Sequence[str]) -> TableBuilder:
    """Describe a table partitioned by `p` with a file per argument, whose values have these keys; each is the value."""
    schema = json.loads(OTHER_SCHEMA)
    schema["fields"][1] |= {"name": "p", "type": "string"}
    files = [
        add_of(name, partition_values={key: f"of {key}" for key in spellings})
        for name, spellings in zip(IDS, keys, strict=False)
    ]
    table = TableBuilder()
    for name in IDS:
        table.file(name, data_of(name))
    return table.commit(protocol(), metadata(partition_columns=["p"], schema_string=json.dumps(schema)), *files)


@pytest.mark.parametrize(
    ("keys", "values", "is_noted"),
    [
        ([["P"]], ["of P"], True),
        ([["p"], ["P"]], ["of P", "of p"], True),
        ([["P", "p"]], ["of p"], False),
        ([["P", "p"], ["P"]], ["of P", "of p"], True),
        ([["p"]], ["of p"], False),
    ],
)
@pytest.mark.parametrize("command", [["read"], ["changes", "--from", "0"]], ids=" ".join)
def test_a_key_in_another_letter_case_is_read_and_noted(
    keys: list[list[str]],
    values: list[str],
    is_noted: bool,
    command: list[str],
    tmp_path: Path,
    capsysbinary: Capture,
) -> None:
    root = keyed(*keys).write(tmp_path / "t")

    assert values == sorted(open_table(root).snapshot().scan().to_arrow()["p"].to_pylist())
    assert 0 == run([*command[:1], str(root), *command[1:]])
    assert is_noted == ("partition.key-case" in capsysbinary.readouterr().err.decode())


# -- commits that only some engines read -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["1.json", "0001.json", f"{1:021d}.json"])
def test_nothing_is_changed_beside_a_commit_that_only_some_engines_read(name: str, tmp_path: Path) -> None:
    root = table_of().file(f"_delta_log/{name}", to_bytes([add_of(TWO)])).write(tmp_path / "t")
    table = open_table(root)

    with pytest.raises(Refused) as caught:
        table.set_properties({"a": "b"})
    assert "log.name-not-padded" == caught.value.code

    with pytest.raises(Refused) as caught:
        table.vacuum(retention_ms=0, allow_retention_below_ms=WEEK_MS)
    assert "log.name-not-padded" == caught.value.code

    # As the refusal says: what is a version gets its name.
    (root / "_delta_log" / name).rename(root / "_delta_log" / f"{1:020d}.json")
    table.set_properties({"a": "b"})
    assert [1, 2] == ids_of(root)


@pytest.mark.parametrize("name", ["0.json", "7.json", "20261130.json"])
def test_one_that_is_no_next_version_stops_nothing(name: str, tmp_path: Path) -> None:
    root = table_of().file(f"_delta_log/{name}", to_bytes([txn("app", 1)])).write(tmp_path / "t")

    open_table(root).set_properties({"a": "b"})

    assert 1 == open_table(root).snapshot().version


# -- escapes in the names of directories -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "expected"), [("p=%41/f.parquet", ONE), ("p=A/f.parquet", ONE), ("p=%2541/f.parquet", TWO)]
)
def test_an_escape_in_the_name_of_a_directory_is_decoded_once(path: str, expected: str, tmp_path: Path) -> None:
    """Spark, both kernels and deltalake open the same files, also where both directories are there."""
    table = TableBuilder().file("p=A/f.parquet", data_of(ONE)).file("p=%41/f.parquet", data_of(TWO))
    table.commit(protocol(), metadata(), add(path, size=len(data_of(expected)), records=1))

    assert [IDS[expected]] == ids_of(table.write(tmp_path / "t"))
