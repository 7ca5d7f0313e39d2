"""`schema show`, `schema diff` and `schema convert`: across points, branches and formats, with what is lost."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.delta.schema.types import parse_schema
from deltacli.paimon.conversions import ConversionLoss, arrow_schema
from deltacli.paimon.schema import read_schema
from deltacli.paimon.types import AtomicType, DataField, Root
from tests.paimon.answers import SCHEMAS, Capture, ask
from tests.support.actions import metadata, protocol
from tests.support.builder import TableBuilder
from tests.support.paimon_builder import ID, NAME, PRICE, PaimonBuilder, field

NESTED = {"type": "ROW", "fields": [field(4, "a", "INT"), field(5, "t", "TIME(3)")]}
LONG = {"name": "id", "type": "long", "nullable": False, "metadata": {}}


@pytest.fixture
def table(tmp_path: Path) -> PaimonBuilder:
    """A table with three schemas and a branch with another one."""
    built = PaimonBuilder(tmp_path / "t").schema(ID, NAME).schema(ID, field(1, "customer", "STRING")).snapshot(1)
    built.tag("first", 1).schema(ID, field(1, "customer", "STRING"), PRICE)
    return built.schema(ID, NAME, field(7, "extra", NESTED), prefix="branch/branch-dev/", id=0)


def delta_table(place: Path, *fields: Any, partitions: tuple[str, ...] = ()) -> Path:  # Any: JSON values
    """Return a Delta table with columns."""
    schema = json.dumps({"type": "struct", "fields": list(fields)})
    action = metadata(schema_string=schema, partition_columns=partitions)
    return TableBuilder().commit(protocol(), action).write(place)


def answer(capsys: Capture, *arguments: object, code: int = 0) -> Any:  # Any: JSON values
    """Return the document of a command, which matches its schema."""
    found, out, err = ask(capsys, *arguments, "--json")
    assert code == found, err
    content = json.loads(out)
    assert [] == [fault.message for fault in SCHEMAS[content["kind"]].iter_errors(content)]
    return content


def changes(capsys: Capture, *arguments: object) -> list[tuple[str, str | None]]:
    found = answer(capsys, "schema", "diff", *arguments, code=1)
    return [(change["kind"], change.get("field")) for change in found["changes"]]


def test_points_of_one_history_are_matched_by_id(table: PaimonBuilder, capsys: Capture) -> None:
    assert [("renameColumn", "name"), ("addColumn", "price")] == changes(capsys, table.root, "--from", "schema:0")
    assert [("addColumn", "price")] == changes(capsys, table.root, "--from", "tag:first")


def test_branches_and_other_tables_are_matched_by_name(table: PaimonBuilder, capsys: Capture, tmp_path: Path) -> None:
    text = {"name": "customer", "type": "string", "nullable": True, "metadata": {}}
    delta = delta_table(tmp_path / "d", LONG, text)

    in_branch = changes(capsys, table.root, "--from", "schema:0", "--to", "branch:dev,schema:0")
    towards_delta = changes(capsys, table.root, delta, "--from", "schema:1")

    assert [("addColumn", "extra")] == in_branch
    assert [("primaryKeys", None)] == towards_delta


def test_equal_schemas_have_no_difference(capsys: Capture, tmp_path: Path) -> None:
    delta = delta_table(tmp_path / "d", LONG)
    paimon = PaimonBuilder(tmp_path / "p").schema(ID, primaryKeys=[], options={})

    found = answer(capsys, "schema", "diff", delta, paimon.root)

    assert ("name", []) == (found["matchedBy"], found["changes"])


@pytest.mark.parametrize(
    "options",
    [(), ("--from", "schema"), ("--from", "version:x"), ("--to", "branch:a,branch:b"), ("--from", "version:1")],
)
def test_points_that_are_none_are_refused(options: tuple[str, ...], table: PaimonBuilder, capsys: Capture) -> None:
    code, out, err = ask(capsys, "schema", "diff", table.root, *options)

    assert (2, "", True) == (code, out, err.startswith("error: "))


def test_what_is_lost_needs_consent(table: PaimonBuilder, capsys: Capture) -> None:
    convert = ("schema", "convert", table.root, "--branch", "dev", "--to", "delta")

    plan = answer(capsys, *convert, code=4)
    done = answer(capsys, *convert, "--yes")
    _, out, err = ask(capsys, *convert, "--yes")

    assert [("extra.t", "TIME(3)", "string"), (None, "id", None)] == [
        (loss.get("column"), loss["from"], loss.get("to")) for loss in plan["losses"]
    ]
    assert (False, True) == ("result" in plan, "result" in done)
    assert done["text"] + "\n" == out
    assert "note: extra.t: type TIME(3) -> string: Delta has no time of day" in err.splitlines()
    assert ["id", "name", "extra"] == [column.name for column in parse_schema(out).fields]


def test_a_delta_schema_becomes_a_schema_file(tmp_path: Path, capsys: Capture) -> None:
    inner = {"type": "struct", "fields": [{"name": "x", "type": "double", "nullable": True, "metadata": {}}]}
    columns = [
        LONG,
        {"name": "c", "type": "string", "nullable": True, "metadata": {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}},
        {"name": "s", "type": inner, "nullable": True, "metadata": {"comment": "point"}},
        {"name": "t", "type": "timestamp", "nullable": True, "metadata": {"CURRENT_DEFAULT": "now()"}},
    ]
    delta = delta_table(tmp_path / "d", *columns, partitions=("c",))

    code, out, err = ask(capsys, "schema", "convert", delta, "--to", "paimon", "--yes", "--now", "2026-01-01")

    schema = read_schema(out.encode())
    assert (0, "note: t: default now() is left out: a default value in Paimon is a literal, not an expression") == (
        code,
        err.strip(),
    )
    assert [(0, "id"), (1, "c"), (2, "s"), (4, "t")] == [(column.id, column.name) for column in schema.fields]
    assert (4, ("c",), 1_767_225_600_000) == (schema.highest_field_id, schema.partition_keys, schema.time_ms)


def test_an_arrow_schema_can_be_loaded(table: PaimonBuilder, capsys: Capture) -> None:
    found = answer(capsys, "schema", "convert", table.root, "--to", "arrow")["result"]

    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(found["ipcBase64"])))
    assert ["id", "customer", "price"] == schema.names
    assert b"1" == schema.field("customer").metadata[b"PARQUET:field_id"]


def test_statements_are_of_the_engine_of_the_table(table: PaimonBuilder, tmp_path: Path, capsys: Capture) -> None:
    arrays = {"name": "a b", "type": {"type": "array", "elementType": "long", "containsNull": False}}
    delta = delta_table(tmp_path / "d", LONG, arrays | {"nullable": True, "metadata": {"comment": "it's"}})

    _, flink, _ = ask(capsys, "schema", "convert", table.root, "--to", "ddl")
    _, spark, err = ask(capsys, "schema", "convert", delta, "--to", "ddl", "--yes")

    assert flink.startswith("CREATE TABLE `t` (\n  `id` BIGINT NOT NULL,\n")
    assert [
        "CREATE TABLE `d` (",
        "  `id` BIGINT NOT NULL,",
        "  `a b` ARRAY<BIGINT> COMMENT 'it\\'s'",
        ") USING DELTA;",
    ] == spark.splitlines()
    assert "note: a b.element: nullability NOT NULL -> NULL" in err


def test_a_schema_is_shown_in_its_own_form(table: PaimonBuilder, tmp_path: Path, capsys: Capture) -> None:
    delta = delta_table(tmp_path / "d", LONG)

    paimon_tree = ask(capsys, "schema", "show", table.root, "--schema-id", "0")
    delta_tree = ask(capsys, "schema", "show", delta, "--version", "0")

    assert (0, ["root", "├── id: BIGINT NOT NULL  [id 0]  (primary key)"]) == (
        paimon_tree[0],
        paimon_tree[1].splitlines()[:2],
    )
    assert (0, ["root", "└── id: long not null"]) == (delta_tree[0], delta_tree[1].splitlines())


def test_lines_have_schemas(table: PaimonBuilder, capsys: Capture) -> None:
    for arguments in (("diff", table.root, "--from", "schema:0"), ("convert", table.root, "--to", "ddl")):
        _, out, _ = ask(capsys, "schema", *arguments, "--format", "ndjson")
        for line in map(json.loads, out.splitlines()[:-1]):
            assert [] == [fault.message for fault in SCHEMAS[line["type"]].iter_errors(line)]


def test_a_name_that_arrow_cannot_have_is_an_error(tmp_path: Path, capsys: Capture) -> None:
    table = PaimonBuilder(tmp_path / "s").schema(ID, field(1, "\ud800", "INT"))

    code, out, err = ask(capsys, "schema", "convert", table.root, "--to", "arrow")

    assert (3, "", True) == (code, out, "is not valid Unicode" in err)


def test_files_are_schemas_too(table: PaimonBuilder, tmp_path: Path, capsys: Capture) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("u", pa.uint8())])
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as sink, pa.ipc.new_file(sink, schema):
        pass
    pq.write_table(schema.empty_table(), tmp_path / "p.parquet")
    _, statement, _ = ask(capsys, "schema", "convert", table.root, "--to", "ddl")
    (tmp_path / "s.sql").write_text(statement)
    _, text, _ = ask(capsys, "schema", "convert", table.root, "--to", "delta", "--yes")
    (tmp_path / "d.json").write_text(text)

    equal = answer(capsys, "schema", "diff", table.root, tmp_path / "s.sql")
    from_delta = changes(capsys, table.root, tmp_path / "d.json")
    wider = [
        answer(capsys, "schema", "convert", tmp_path / name, "--to", "ddl")["text"] for name in ("a.arrow", "p.parquet")
    ]

    assert ([], [("primaryKeys", None)]) == (equal["changes"], from_delta)
    assert ["`id` BIGINT NOT NULL,", "`u` SMALLINT"] == [line.strip() for line in wider[0].splitlines()[1:3]]
    assert wider[0].splitlines()[1:] == wider[1].splitlines()[1:]


@pytest.mark.parametrize(
    "content", [b"", b"x", b"{}", b'{"type":"struct"}', b"PAR1", b"ARROW1", b"CREATE TABLE t (", b"\xff", b"{" * 999]
)
def test_files_without_a_schema_are_errors(content: bytes, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "f").write_bytes(content)

    code, out, err = ask(capsys, "schema", "convert", tmp_path / "f", "--to", "ddl")

    assert (3, "", True) == (code, out, err.startswith("error: "))


def test_the_second_file_is_named_where_it_has_no_schema(table: PaimonBuilder, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "notes.md").write_text("no schema")

    code, _, err = ask(capsys, "schema", "diff", table.root, tmp_path / "notes.md")

    assert (3, True) == (code, err.startswith(f"error: {tmp_path / 'notes.md'}: the file has no schema")), err


def test_a_type_without_a_row_in_the_conversion_to_arrow_is_not_taken_for_a_geometry() -> None:
    losses: list[ConversionLoss] = []

    arrow_schema([DataField(0, "a", AtomicType(Root.GEOMETRY, ("OGC:CRS84",)))], losses.append)
    with pytest.raises(AssertionError, match="ROW has no type of Arrow"):
        arrow_schema([DataField(0, "a", AtomicType(Root.ROW))], losses.append)

    assert ["Arrow has no geometries"] == [loss.reason for loss in losses]
