"""What only Paimon 2 has is refused, unless the table or the command states that no engine is older."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from deltacli import open_paimon
from deltacli.core.errors import PythonSyntax, Refused, UsageError, use_hint_syntax
from deltacli.paimon.evolution.requests import DropColumn, RemoveOption, SetOption
from tests.paimon.answers import Capture, ask
from tests.paimon.test_file_formats import (
    DAY,
    ID,
    VERSION_2,
    add,
    alter,
    code_of_refusal,
    content,
    findings_of,
    table_of,
)
from tests.paimon.version_2_needs import BLOBS, OPTIONS, TYPES, VECTOR

VECTOR_COLUMN = {"id": 3, "name": "vec", "type": VECTOR}
NUMBER = {"id": 4, "name": "n", "type": "INT"}


def set_all(options: Mapping[str, str]) -> list[SetOption]:
    """Return the changes that set options."""
    return [SetOption(key, value) for key, value in options.items()]


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_that_paimon_1_cannot_open_needs_consent(name: str) -> None:
    keys, options = OPTIONS[name]

    assert VERSION_2 == code_of_refusal(table_of(ID, NUMBER, **keys), *set_all(options))
    assert VERSION_2 == code_of_refusal(table_of(ID, NUMBER, **keys), *set_all(options), min_paimon=1)
    table = table_of(ID, NUMBER, **keys)
    assert alter(table, *set_all(options), min_paimon=2).id == 1
    assert {VERSION_2} == {rule for rule, _ in findings_of(table)}


@pytest.mark.parametrize("name", TYPES)
def test_a_type_that_paimon_1_cannot_read_needs_consent(name: str) -> None:
    type_, options = TYPES[name]

    assert VERSION_2 == code_of_refusal(table_of(ID, options=options), add(type_))
    table = table_of(ID, options=options)
    assert alter(table, add(type_), min_paimon=2).id == 1
    assert {VERSION_2} == {rule for rule, _ in findings_of(table)}


def test_the_table_can_state_that_its_engines_are_new_enough() -> None:
    table = table_of(ID)

    # In the same change, too.
    alter(table, SetOption("deltacli.min-paimon", "2"), SetOption("partition.expiration-time", "3 d"))
    alter(table, add(VECTOR))
    assert [] == findings_of(table)
    with pytest.raises(Refused) as refusal:
        alter(table, RemoveOption("deltacli.min-paimon"))
    assert VERSION_2 == refusal.value.code
    with pytest.raises(Refused):
        alter(table, SetOption("deltacli.min-paimon", "1"))
    alter(table, RemoveOption("deltacli.min-paimon"), DropColumn(("c",)), RemoveOption("partition.expiration-time"))
    assert [] == findings_of(table)


@pytest.mark.parametrize("value", ["", "0", "3", "two", "2.0"])
def test_a_version_that_does_not_exist_is_refused(value: str) -> None:
    assert "alter.option" == code_of_refusal(table_of(ID), SetOption("deltacli.min-paimon", value))


def test_a_version_in_a_file_that_does_not_exist_is_the_oldest() -> None:
    table = table_of(ID, VECTOR_COLUMN, options={"deltacli.min-paimon": "9"})

    assert [(VERSION_2, "vec")] == findings_of(table)


def test_what_the_table_needs_already_does_not_stop_other_changes() -> None:
    table = table_of(ID, VECTOR_COLUMN, options={"partition.expiration-time": "3 d"})

    assert alter(table, add("INT", "more")).id == 1
    with pytest.raises(Refused):
        alter(table, add(VECTOR, "another"))


def test_partitions_may_expire_in_all_versions() -> None:
    table = table_of(ID, DAY, partitionKeys=["day"])

    alter(table, SetOption("partition.expiration-time", "3 d"))
    assert [] == findings_of(table)


def test_vectors_are_in_avro_and_json_of_all_versions() -> None:
    for name in ("avro", "json"):
        alter(table_of(ID, options={"file.format": name}), add(VECTOR))


def test_vectors_have_the_format_of_their_own_files() -> None:
    options = {**BLOBS, "vector.file.format": "json"}

    assert [] == findings_of(table_of(ID, VECTOR_COLUMN, options=options))
    table = table_of(ID, VECTOR_COLUMN, options={**options, "vector.file.format": "orc"})
    assert [("paimon.type-not-in-format", "vec")] == findings_of(table)


@pytest.mark.parametrize("version", [0, 3, "2", True])
def test_python_refuses_a_version_that_does_not_exist(tmp_path: Path, version: Any) -> None:
    table = open_paimon(write_table(tmp_path))

    with use_hint_syntax(PythonSyntax()), pytest.raises(UsageError, match=f"min_paimon`? is {version!r}"):
        table.alter([SetOption("partition.expiration-time", "3 d")], min_paimon=version)


def test_python_takes_the_version(tmp_path: Path) -> None:
    table = open_paimon(write_table(tmp_path))
    changes = [SetOption("partition.expiration-time", "3 d")]

    assert table.plan_alter(changes).refusal is not None
    assert table.plan_alter(changes, min_paimon=2).refusal is None
    with use_hint_syntax(PythonSyntax()), pytest.raises(Refused) as refusal:
        table.alter(changes)
    assert "min_paimon=2" in str(refusal.value.hint)
    assert table.alter(changes, min_paimon=2).committed == 1


def write_table(directory: Path, **options: str) -> Path:
    """Write a table without rows and return its directory."""
    (directory / "t" / "schema").mkdir(parents=True)
    (directory / "t" / "schema" / "schema-0").write_bytes(content(ID, NUMBER, options=options))
    return directory / "t"


def test_the_command_line_takes_the_version(tmp_path: Path, capsys: Capture) -> None:
    table = write_table(tmp_path)
    words = ["alter", table, "set", "partition.expiration-time=3 d", "--yes"]

    code, _, errors = ask(capsys, *words)
    assert (4, True) == (code, "--min-paimon 2" in errors)
    assert 2 == ask(capsys, *words, "--min-paimon", "3")[0]
    assert 0 == ask(capsys, *words, "--min-paimon", "2")[0]
    code, output, _ = ask(capsys, "validate", table)
    assert (0, True) == (code, VERSION_2 in output)


def test_widen_type_takes_the_version(tmp_path: Path, capsys: Capture) -> None:
    table = write_table(tmp_path)

    assert 0 == ask(capsys, "widen-type", table, "n", "BIGINT", "--min-paimon", "2", "--yes")[0]


def test_schema_convert_writes_no_schema_that_paimon_cannot_open(tmp_path: Path, capsys: Capture) -> None:
    source = tmp_path / "new.sql"
    source.write_text("CREATE TABLE t (id INT, c ARRAY<INT>) WITH ('file.format' = 'csv');", "utf-8")
    code, _, errors = ask(capsys, "schema", "convert", source, "--to", "paimon")
    assert (4, True) == (code, "CSV has no collections and rows: c" in errors)

    table = write_table(tmp_path, **{"partition.expiration-time": "3 d"})
    words = ["schema", "convert", table, "--to", "paimon"]
    code, output, errors = ask(capsys, *words)
    assert (4, "", True) == (code, output, "--min-paimon 2" in errors)
    assert "partition.expiration-time" in ask(capsys, *words, "--min-paimon", "2")[1]
    assert 2 == ask(capsys, "schema", "convert", table, "--to", "delta", "--min-paimon", "2")[0]
