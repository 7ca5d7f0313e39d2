"""Differences between deltacli and Paimon that other entries of the page of faults describe: `known.py` lists them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.judges.commands import deltacli
from tests.judges.paimon.engine import PaimonJudge
from tests.judges.paimon.known import PaimonComparison
from tests.judges.paimon.test_altered_tables import findings_of
from tests.judges.paimon.test_settings import write_schema

ID = {"id": 0, "name": "id", "type": "INT NOT NULL"}
VALUE = {"id": 1, "name": "v", "type": "INT"}
TEXT = {"id": 2, "name": "s", "type": "STRING"}
BUCKETS = {"bucket": "2"}
RENAMED: dict[str, tuple[dict[str, Any], str]] = {
    "bucket key": ({"options": BUCKETS | {"bucket-key": "id"}}, "id"),
    "sequence field": ({"primaryKeys": ["id"], "options": BUCKETS | {"sequence.field": "v"}}, "v"),
}


@pytest.mark.parametrize("name", RENAMED)
def test_a_rename_by_paimon(paimon: PaimonJudge, tables: Path, name: str) -> None:
    keys, column = RENAMED[name]
    directory = write_schema(tables / "t", [ID, VALUE, TEXT], **keys)
    table = paimon.open(directory)
    table.write([(1, 2, "a")])
    table.alter([{"action": "renameColumn", "fieldNames": [column], "newName": "renamed"}])
    table = paimon.open(directory)
    table.write([(1, 3, "b"), (2, 4, "c")])

    with PaimonComparison(f"rename by Paimon/{name}") as judged:
        judged.equal("rows", 3 if name == "bucket key" else 2, len(table.rows()))
        judged.equal("findings of validate", [], findings_of(directory))


def test_a_rename_of_the_column_that_says_what_becomes_of_rows(paimon: PaimonJudge, tables: Path) -> None:
    kind = {"id": 3, "name": "k", "type": "STRING"}
    keys = {"primaryKeys": ["id"], "options": BUCKETS | {"rowkind.field": "k"}}
    directory = write_schema(tables / "t", [ID, kind], **keys)
    paimon.open(directory).write([(1, "+I"), (2, "+I")])
    deltacli("alter", directory, "rename", "k", "kind", "--yes")
    paimon.open(directory).write([(2, "-D")])

    with PaimonComparison("rename of rowkind.field") as judged:
        judged.equal("rows", [(1, "+I")], paimon.open(directory).rows())
        judged.equal("findings of validate", [], findings_of(directory))


def test_conditions_on_a_widened_column_with_data_evolution(paimon: PaimonJudge, tables: Path) -> None:
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    price = {"id": 1, "name": "price", "type": "DECIMAL(10, 2)"}
    directory = write_schema(tables / "t", [ID, price], options=options)
    paimon.open(directory).write([(1, "1.00"), (2, "2.00")])
    plan = deltacli("widen-type", directory, "price", "DECIMAL(14, 4)", "--dry-run", "--json").document()
    deltacli("widen-type", directory, "price", "DECIMAL(14, 4)", "--yes")

    table = paimon.open(directory)
    loses_rows = len(table.rows(above=("price", "1.5"))) < 1
    warns = any("data-evolution" in warning["message"] for warning in plan["warnings"])
    with PaimonComparison("widened data evolution/DECIMAL") as judged:
        judged.equal("rows without a condition", 2, len(table.rows()))
        judged.equal("warning", loses_rows, warns)


def test_digits_as_default_of_days_and_times(paimon: PaimonJudge, tables: Path) -> None:
    columns = [
        ID,
        {"id": 1, "name": "day", "type": "DATE", "defaultValue": "1"},
        {"id": 2, "name": "at", "type": "TIMESTAMP(3)", "defaultValue": "1"},
    ]
    directory = write_schema(tables / "t", columns)
    table = paimon.open(directory)
    table.write([(1, None, None)])

    with PaimonComparison("digits as default/DATE and TIMESTAMP") as judged:
        judged.equal("rows", [(1, "1970-01-02", "1970-01-01T00:00:00.001")], table.rows())
        judged.equal("findings of validate", [], findings_of(directory))


def test_the_version_of_the_schema_as_text(paimon: PaimonJudge, tables: Path) -> None:
    directory = write_schema(tables / "t", [ID], version="3")
    table = paimon.open(directory)
    table.write([(1,)])

    with PaimonComparison("version as text") as judged:
        judged.equal("rows", [(1,)], table.rows())
        errors = [finding for finding in findings_of(directory) if finding[1] == "error"]
        judged.equal("findings of validate", [], errors)


def test_the_default_number_of_buckets(paimon: PaimonJudge, tables: Path) -> None:
    directory = write_schema(tables / "t", [ID])
    paimon.open(directory).write([(1,)])
    done = deltacli("alter", directory, "set", "bucket=-1", "--yes", "--json", codes=(0, 2, 4))

    with PaimonComparison("bucket=-1") as judged:
        committed = json.loads(done.stdout).get("committedSchema") if done.stdout else None
        judged.equal("new schema", None, committed)
        judged.equal("rows", [(1,)], paimon.open(directory).rows())
