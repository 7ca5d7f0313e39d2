"""What shells ask for to complete versions and columns of a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltacli.cli.terminal.table_words import table_words
from tests.cli.support import deltacli
from tests.support.altering import table_of
from tests.support.paimon_builder import ID, NAME, PRICE, PaimonBuilder


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return table_of("id bigint, `$(c)` int, ride struct<city: string, `a b`: int>").commits(11).write(tmp_path / "t")


def test_versions_and_columns_that_no_shell_has_to_quote(table: Path) -> None:
    (table / "_delta_log" / f"{4:020d}.json").unlink()
    (table / "_delta_log" / f"{12:020d}.json.tmp").touch()

    assert ["11", "10", "9", "8", "7", "6", "5", "3", "2", "1", "0"] == table_words("versions", str(table))
    (table / "_delta_log" / f"{4:020d}.json").write_text("{}")
    assert ["id", "ride"] == table_words("columns", str(table))
    assert ["id", "ride", "ride.city"] == table_words("paths", str(table))


def test_a_position_is_among_the_columns_beside_it(table: Path) -> None:
    assert ["first", "last", "before:ride", "after:ride"] == table_words("altered", str(table), "move", "id")
    assert ["first", "last"] == table_words("positions", str(table), "move", "ride.city")
    assert ["first", "last", "before:city", "after:city"] == table_words(
        "positions", str(table), "add", "ride.x", "int"
    )


def test_types_of_a_new_column(table: Path) -> None:
    types = table_words("altered", str(table), "add", "x")

    assert {"string", "boolean", "int", "decimal(18,2)", "date", "timestamp", "binary"} <= set(types)


def test_points_and_names_of_a_paimon_table(tmp_path: Path) -> None:
    for name in ("schema/schema-0", "schema/schema-1", "tag/tag-v1", "branch/branch-dev", "tag/tag-a b"):
        (tmp_path / name).mkdir(parents=True)

    assert ["schema:0", "schema:1", "tag:v1", "branch:dev"] == table_words("points", str(tmp_path))
    assert (["0", "1"], ["v1"]) == (table_words("schema", str(tmp_path)), table_words("tag", str(tmp_path)))


def test_types_of_a_paimon_table_are_those_that_keep_every_value(tmp_path: Path) -> None:
    PaimonBuilder(tmp_path / "t").schema(ID, NAME, PRICE)
    table = str(tmp_path / "t")

    price = table_words("widenings", table, "price")
    assert ["decimal(12,2)", "decimal(18,2)", "decimal(20,2)", "decimal(28,2)", "decimal(38,2)"] == price
    assert price == table_words("altered", table, "type", "price")
    assert [] == table_words("widenings", table, "name") + table_words("widenings", table, "nowhere")
    assert {"string", "timestamp"} <= set(added := table_words("altered", table, "add", "x"))
    assert "timestamp_ntz" not in added


def test_known_words_are_offered_for_a_table_that_cannot_be_read() -> None:
    assert "deletionVectors" in table_words("features", "s3://bucket/t", "add")
    assert "deletionVectors" in table_words("features", "s3://bucket/t", "drop")
    assert "delta.appendOnly=" in table_words("properties", "nowhere", "set")
    assert "bigint" in table_words("widenings", "nowhere", "id")


@pytest.mark.parametrize("kind", ["versions", "columns", "paths", "widenings", "points", "groups", "schema"])
@pytest.mark.parametrize("name", ["", "nowhere", "s3://bucket/t", "a.share#s.t.u"])
def test_nothing_is_said_about_what_is_no_local_table(kind: str, name: str, tmp_path: Path) -> None:
    done = deltacli("--table-words", kind, name, cwd=tmp_path)

    assert (0, "", "") == (done.code, done.out, done.err)
