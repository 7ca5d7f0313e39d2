"""`history` of a Paimon table: changes, users of each schema, damaged tables, formats and the choice of the format."""

from __future__ import annotations

import builtins
import shutil
from pathlib import Path
from typing import Any

import pytest

import deltacli
from deltacli.core.errors import PythonSyntax, UsageError, install_command, use_hint_syntax
from deltacli.operations.paimon.facts import read_paimon_history
from deltacli.table.handle import TableHandle
from tests.cli.screen import screen_of
from tests.paimon.answers import Capture, ask, document, lines, rows
from tests.support.builder import TableBuilder
from tests.support.paimon_builder import ID, NAME, PRICE, AsUser, PaimonBuilder, field
from tests.support.paimon_corpus import manifest

RENAMED = field(1, "customer", "STRING")


@pytest.fixture
def table(tmp_path: Path) -> PaimonBuilder:
    """A table with four schemas. No snapshot names the first one, but a data file does; nothing names the third one."""
    built = PaimonBuilder(tmp_path / "t")
    built.schema(ID, NAME).snapshot(0, adds={"a": 0, "b": 0}).schema(ID, RENAMED).snapshot(1, adds={"c": 1})
    built.schema(ID, RENAMED, PRICE).schema(ID, RENAMED, PRICE, options={"bucket": "2", "k": "v"})
    return built.tag("keep", 2).without("snapshot/snapshot-1")


def test_schemas_and_snapshots_are_one_timeline(table: PaimonBuilder, capsys: Capture) -> None:
    found = rows(capsys, "history", table.root)

    assert [
        ("schema", "3", "lossless", "set k = v", "latest"),
        ("schema", "2", "lossless", "add price DECIMAL(10, 2)", "unreferenced"),
        ("snapshot", "2", "", "APPEND, +10 records", ""),
        ("schema", "1", "lossless", "rename name to customer", "1 snapshot, tag keep, 1 live file"),
        ("schema", "0", "", "created with 2 columns", "2 live files"),
    ] == [(row["kind"], row["id"], row["class"], row["changes"], row["usedBy"]) for row in found]


def test_documents_and_lines_have_the_same_content(table: PaimonBuilder, capsys: Capture) -> None:
    found = document(capsys, "history", table.root)
    told = lines(capsys, "history", table.root)

    assert 5 == len(told)
    assert found["schemas"] + found["snapshots"] == [{k: v for k, v in line.items() if k != "type"} for line in told]
    assert ("paimon", "main", [3, 2, 1, 0]) == (
        found["tableFormat"],
        found["branch"],
        [version["id"] for version in found["schemas"]],
    )
    assert {"kind": "renameColumn", "field": "name", "fieldId": 1, "from": "name", "to": "customer"} | {
        "class": "lossless"
    } == found["schemas"][2]["changes"][0]


def test_a_narrow_screen_has_times_and_names_what_is_left_out(
    table: PaimonBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = screen_of(monkeypatch, "history", table.root)

    assert "written (UTC)" in shown
    assert "2023-11-14 22:13:2" in shown
    assert "no room for schema, class; to show them:\n" in shown


def test_a_limit_cuts_the_timeline(table: PaimonBuilder, capsys: Capture) -> None:
    code, out, err = ask(capsys, "history", table.root, "--limit", "3")

    assert (0, 4) == (code, len(out.splitlines()))
    assert f"showing 3 of 5 events; all: deltacli history {table.root} --limit 0" == err.strip()


def test_a_broken_schema_is_a_row_with_a_problem_and_the_next_is_compared_across_it(
    table: PaimonBuilder, capsys: Capture
) -> None:
    table.write("schema/schema-1", b'{"version": 3,')

    found = document(capsys, "history", table.root)["schemas"]

    assert ("paimon.bad-json", []) == (found[2]["problem"], found[2]["changes"])
    assert (0, ["renameColumn", "addColumn"]) == (
        found[1]["comparedWith"],
        [change["kind"] for change in found[1]["changes"]],
    )


@pytest.mark.parametrize(
    ("path", "content"),
    [("tag/tag-keep", b"{"), ("manifest/manifest-1", b"Obj\x01broken"), ("manifest/manifest-list-2-0", None)],
)
def test_nothing_counts_as_unreferenced_where_users_may_be_missing(
    path: str, content: bytes | None, table: PaimonBuilder, capsys: Capture
) -> None:
    _ = table.without(path) if content is None else table.write(path, content)

    found = document(capsys, "history", table.root)

    assert [path] == [problem["path"] for problem in found["problems"]]
    assert [False, None, False] == [version["unreferenced"] for version in found["schemas"]][:3]


def test_a_schema_that_is_in_use_and_missing_is_named(table: PaimonBuilder, capsys: Capture) -> None:
    table.without("schema/schema-0").write("schema/.schema-4.tmp", b"")

    found = document(capsys, "history", table.root)
    _, _, err = ask(capsys, "history", table.root)

    assert ([0], [".schema-4.tmp"]) == (found["missing"], found["strays"])
    assert f"schema 0 is in use but missing: deltacli validate {table.root}" in err


def test_a_branch_has_schemas_and_snapshots_of_its_own(table: PaimonBuilder, capsys: Capture) -> None:
    original = (table.root / "schema/schema-0").read_bytes()
    table.write("branch/branch-dev/schema/schema-0", original)
    table.schema(ID, NAME, PRICE, prefix="branch/branch-dev/", id=1)

    main = document(capsys, "history", table.root)
    branch = document(capsys, "history", table.root, "--branch", "dev")
    code, _, err = ask(capsys, "history", table.root, "--branch", "nope")

    assert ["dev"] == main["schemas"][3]["usedBy"]["branches"]
    assert [1, 0] == [version["id"] for version in branch["schemas"]]
    assert (["main", "dev"], []) == (branch["branches"], branch["snapshots"])
    assert (3, True) == (code, "branches  main, dev" in err)


def test_without_fastavro_only_manifests_are_out_of_reach(
    table: PaimonBuilder, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def refuse(name: str, *arguments: Any, **options: Any) -> Any:  # Any: as of __import__
        if name == "fastavro":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)

    code, _, err = ask(capsys, "vacuum", table.root, "--schemas", "--dry-run")
    found = document(capsys, "history", table.root, "--no-refs")
    without = document(capsys, "history", table.root)
    noted = ask(capsys, "history", table.root)
    other = shutil.copytree(table.root, f"{table.root}-2")
    _, _, said = ask(capsys, "validate", table.root, other)
    many = [shutil.copytree(table.root, f"{table.root}-{number}") for number in (3, 4, 5)]
    _, _, cut = ask(capsys, "validate", table.root, other, *many)
    refused, _, lacking = ask(capsys, "validate", table.root)
    checked, _, _ = ask(capsys, "validate", table.root, "--no-refs")

    opened = deltacli.open_paimon(table.root)
    in_python = opened.history()
    with use_hint_syntax(PythonSyntax()), pytest.raises(UsageError) as unchecked:
        opened.validate()
    with use_hint_syntax(PythonSyntax()), pytest.raises(UsageError) as undecided:
        opened.vacuum(dry_run=True)

    assert (False, [4, 0]) == (in_python.is_complete, [len(in_python.schemas), len(in_python.missing)])
    assert in_python.notes[0].startswith("the manifests, which name the users of each schema, were not read: ")
    opening = f"open_paimon({str(table.root)!r})"
    assert {"works without it": f"{opening}.validate(with_manifests=False)"} == unchecked.value.facts
    assert {"works without it": f"{opening}.snapshot()"} == undecided.value.facts
    assert err.startswith(f"error: {table.root}: the manifests of this table are Avro files")
    assert f"\n  works without it  deltacli snapshot {table.root}\n" in err
    assert (2, True) == (code, install_command("paimon") in err)
    assert [False, None, False, None] == [version["unreferenced"] for version in found["schemas"]]
    assert (True, False) == (found["complete"], without["complete"])
    assert found["schemas"] == without["schemas"]
    assert (0, True) == (noted[0], "were not read: the manifests of this table are Avro files" in noted[2])
    assert cut.endswith(f"note: not checked for lack of the package: {table.root}, {other}, {many[0]} and 2 more\n")
    assert 1 == said.count("need the package fastavro")
    assert f"note: not checked for lack of the package: {table.root}, {other}\n" in said
    assert (2, True) == (refused, checked in (0, 1))
    assert f"\n  works without it  deltacli validate {table.root} --no-refs\n" in lacking
    assert f"hint: {install_command('paimon')}\n" in lacking


def test_the_format_is_detected_or_given(tmp_path: Path, table: PaimonBuilder, capsys: Capture) -> None:
    delta = TableBuilder().commits(2).write(tmp_path / "delta")
    both = TableBuilder().commits(1).write(table.root)

    answers = [
        ask(capsys, "history", both)[0],
        ask(capsys, "history", both, "--table-format", "delta")[0],
        ask(capsys, "history", both, "--table-format", "paimon", "--no-refs")[0],
        ask(capsys, "history", delta, "--branch", "b")[0],
        ask(capsys, "history", delta, "--table-format", "paimon")[0],
        ask(capsys, "checkpoint", both, "--table-format", "paimon")[0],
        ask(capsys, "history", tmp_path / "nothing", "--table-format", "paimon")[0],
    ]

    assert [2, 0, 0, 2, 3, 2, 3] == answers


def test_options_of_the_other_format_are_refused(table: PaimonBuilder, capsys: Capture) -> None:
    code, _, err = ask(capsys, "history", table.root, "--counts")

    assert (2, "error: --counts works on Delta tables only") == (code, err.splitlines()[0])


@pytest.mark.parametrize("command", ["checkpoint", "read", "changes --from 0", "properties", "features", "log crc"])
def test_commands_for_delta_tables_name_those_that_work(command: str, table: PaimonBuilder, capsys: Capture) -> None:
    code, out, err = ask(capsys, *command.split(), table.root)

    assert (2, "") == (code, out)
    assert (
        f"error: {table.root}: this is a Paimon table, and this command works on Delta tables only"
        == err.splitlines()[0]
    )
    assert f"hint: deltacli snapshot {table.root}" == err.splitlines()[-1]


def test_a_diff_names_the_table_that_is_a_paimon_table(tmp_path: Path, table: PaimonBuilder, capsys: Capture) -> None:
    delta = TableBuilder().commits(2).write(tmp_path / "delta")

    code, _, err = ask(capsys, "diff", delta, table.root)

    assert (2, True) == (code, err.startswith(f"error: {table.root}: this is a Paimon table"))
    assert f"hint: deltacli schema diff {delta} {table.root}" == err.splitlines()[-1]


@pytest.mark.halved
def test_every_table_of_the_corpus_has_a_history(corpus: Path, capsys: Capture) -> None:
    tables = [f"{writer}/{name}" for writer in ("pypaimon", "java", "broken") for name in manifest()[writer]]

    for name in tables:
        document(capsys, "history", corpus / name)

    assert 91 == len(tables)


def test_files_without_read_permission_are_problems_of_their_rows(table: PaimonBuilder) -> None:
    for path in ("schema/schema-1", "snapshot/snapshot-2"):
        (table.root / path).chmod(0)

    found = read_paimon_history(TableHandle(AsUser(str(table.root))))

    problems = {(type(event).__name__, event.id): event.as_json().get("problem") for event in found.events}
    assert {"paimon.no-permission"} == {
        problems["SchemaVersion", 1],
        problems["SnapshotVersion", 2],
        found.broken[0].rule,
    }
    assert [False, False, None, False] == [version.is_unreferenced for version in found.schemas][::-1]
