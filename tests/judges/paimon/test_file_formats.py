"""Which types Paimon opens, writes and reads in which file format, and does the measured table still say so?

The ordinary tests compare what deltacli refuses with the table (`tests/paimon/test_file_formats.py`).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.judges.figures import FIGURES
from tests.judges.paimon.engine import PaimonJudge, cause_of
from tests.judges.paimon.known import PaimonComparison
from tests.paimon.format_matrix import GOOD, POSITIONS, TYPES, read_measured, schema_of

UNCOMPRESSED = ("csv", "json", "text")
"""Formats whose compression needs native libraries of Hadoop, which are not there."""

PARTS = 3
"""A test measures every third type, so that none takes long."""

CASES = [(name, part) for name in read_measured() for part in range(PARTS)]


@pytest.mark.parametrize(("file_format", "part"), CASES, ids=[f"{name}/{part}" for name, part in CASES])
def test_paimon_has_the_types_that_were_measured(
    paimon: PaimonJudge, tables: Path, file_format: str, part: int
) -> None:
    measured = read_measured()[file_format]

    with PaimonComparison(f"types/{file_format}") as judged:
        judged.equal("measured types", list(TYPES), list(measured))
        for name in list(TYPES)[part::PARTS]:
            answer = "".join(_try_positions(paimon, tables / "t", file_format, name))
            judged.equal(name, measured[name], answer)


def _try_positions(paimon: PaimonJudge, directory: Path, file_format: str, name: str) -> Iterator[str]:
    for position in POSITIONS.values():
        type_, value = position(*TYPES[name])
        yield _try(paimon, directory, file_format, type_, value)[0]


def _try(paimon: PaimonJudge, directory: Path, file_format: str, type_: Any, value: Any) -> tuple[str, str]:
    """Return the letter of what Paimon does with a type, and why."""
    FIGURES["tables"] += 1
    options = {"file.compression": "none"} if file_format in UNCOMPRESSED else {}
    schema = schema_of(file_format, type_, **options)
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "schema").mkdir(parents=True)
    (directory / "schema" / "schema-0").write_text(json.dumps(schema), "utf-8")
    keys = [1] if len(schema["fields"]) > 1 else []
    row = (*keys, value)
    try:
        table = paimon.open(directory)
    except Exception as error:  # noqa: BLE001  (whatever the engine raises is its verdict)
        return "O", cause_of(error)
    try:
        table.write([row])
    except Exception as error:  # noqa: BLE001  (whatever the engine raises is its verdict)
        return "W", cause_of(error)
    try:
        rows = table.rows()
    except Exception as error:  # noqa: BLE001  (whatever the engine raises is its verdict)
        return "R", cause_of(error)
    return (GOOD if rows == [row] else "D"), repr(rows)


@pytest.mark.parametrize("file_format", ["csv", "json", "text"])
def test_a_key_needs_a_format_that_knows_columns_by_name(paimon: PaimonJudge, tables: Path, file_format: str) -> None:
    columns = [("id", "INT NOT NULL"), ("v", "STRING")] if file_format != "text" else [("id", "STRING NOT NULL")]
    key = 1 if file_format != "text" else "a"
    options = {"file.format": file_format, "file.compression": "none", "bucket": "1"}
    table = paimon.create(tables / "t", columns, primary_keys=["id"], options=options)
    answers = []
    # Paimon reads one file as it is, and merges two files that have the same key.
    for value in ("x", "y"):
        row = (key, value)[: len(columns)]
        table.write([row])
        try:
            answers.append(table.rows() == [row])
        except Exception:  # noqa: BLE001  (whatever the engine raises is its verdict)
            answers.append(False)

    with PaimonComparison(f"primary key/{file_format}") as judged:
        judged.equal("rows are read back", file_format == "json", all(answers))
