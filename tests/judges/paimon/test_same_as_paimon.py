"""deltacli and Paimon make the same changes in two copies of a table. Are the schemas and the rows the same?"""

from __future__ import annotations

import difflib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.judges.commands import deltacli
from tests.judges.paimon.engine import PaimonJudge, cause_of
from tests.judges.paimon.known import PaimonComparison
from tests.judges.paimon.shapes import SHAPES, values_of

Change = Mapping[str, Any]


def _add(path: str, type_: Any, **others: Any) -> Change:
    return {"action": "addColumn", "fieldNames": path.split("."), "dataType": type_, **others}


def _retype(path: str, type_: Any) -> Change:
    return {"action": "updateColumnType", "fieldNames": path.split("."), "newDataType": type_}


def _rename(path: str, name: str) -> Change:
    return {"action": "renameColumn", "fieldNames": path.split("."), "newName": name}


def _drop(path: str) -> Change:
    return {"action": "dropColumn", "fieldNames": path.split(".")}


def _move(column: str, kind: str, reference: str | None = None) -> Change:
    return {
        "action": "updateColumnPosition",
        "move": {"fieldName": column, "type": kind, "referenceFieldName": reference},
    }


def _set(key: str, value: str) -> Change:
    return {"action": "setOption", "key": key, "value": value}


def _unset(key: str) -> Change:
    return {"action": "removeOption", "key": key}


def _comment(path: str, comment: str) -> Change:
    return {"action": "updateColumnComment", "fieldNames": path.split("."), "newComment": comment}


def _default(path: str, value: str) -> Change:
    return {"action": "updateColumnDefaultValue", "fieldNames": path.split("."), "newDefaultValue": value}


_ROWS = {
    "type": "ROW",
    "fields": [{"id": 0, "name": "a", "type": "INT"}, {"id": 1, "name": "b", "type": "STRING"}],
}
_BATCH = [_add("one", "INT"), _add("two", "DATE"), _rename("one", "first"), _drop("price")]

ACCEPTED: Mapping[str, Sequence[Sequence[Change]]] = {
    "columns": [
        [_add("n", "BIGINT", comment="a number")],
        [_add("d", {"type": "ARRAY", "element": _ROWS})],
        [_add("e", "DECIMAL(38, 18)", move={"fieldName": "e", "type": "AFTER", "referenceFieldName": "id"})],
        [_add("point.z", "VARCHAR(7)")],
        _BATCH,
        [_rename("amount", "sum")],
        [_rename("point.y", "label")],
        [_drop("at")],
        [_drop("point.x")],
        [_move("prices", "FIRST")],
        [_move("prices", "LAST")],
        [_move("name", "BEFORE", "id")],
    ],
    "types and texts": [
        [_retype("amount", "BIGINT")],
        [_retype("amount", "DECIMAL(25, 3)")],
        [_retype("price", "DECIMAL(20, 2)"), _retype("at", "TIMESTAMP(6)")],
        [_retype("point.x", "BIGINT")],
        [_retype("numbers.element", "BIGINT")],
        [_retype("prices.value", "DOUBLE")],
        [_comment("name", "what it is called ä")],
        [_comment("point.y", "inside")],
        [_default("name", "nobody")],
        [_add("later", "INT"), _default("later", "7")],
        [{"action": "updateComment", "comment": "a table"}],
    ],
    "options": [
        [_set("snapshot.num-retained.max", "20")],
        [_set("snapshot.time-retained", "2 h"), _set("write-buffer-size", "8 mb"), _unset("snapshot.time-retained")],
        [_set("file.format", "json")],
        [_set("file.format", "avro"), _add("v", "TIMESTAMP(6)")],
        [_unset("file.format"), _add("w", "VARIANT")],
        [_set("deltacli.min-paimon", "2")],
        [_set("file-index.bloom-filter.columns", "name")],
        [_set("compaction.min.file-num", "3")],
        [_unset("write-buffer-size")],
    ],
}
"""Group -> changes of a table of `COLUMNS`, each a list that becomes one version. Each changes something: deltacli
writes no version for a change without effect.
"""

REFUSED: Sequence[Sequence[Change]] = (
    [_drop("id")],
    [_drop("nope")],
    [_rename("amount", "name")],
    [_retype("prices", {"type": "MAP", "key": "STRING NOT NULL", "value": "BIGINT"})],
    [_retype("name", {"type": "ARRAY", "element": "INT"})],
    [_set("merge-engine", "aggregation")],
    [_set("primary-key", "name")],
    [_set("partition.expiration-time", "3 d")],
    [_set("file.format", "xlsx")],
    [_set("file.format", "text")],
    [_set("file.format", "csv")],
    [_set("fields.nope.aggregate-function", "sum")],
    [_set("sequence.field", "nope")],
    [_add("v", {"type": "VECTOR", "element": "FLOAT", "length": 3})],
    [_set("file.format", "avro"), _add("v", "VARIANT")],
    [_set("file.format", "orc"), _add("v", {"type": "ARRAY", "element": "VARIANT"})],
    [_set("file.format", "avro"), _retype("at", "TIMESTAMP(9)")],
)


@pytest.mark.parametrize("shape", ["append/orc", "key/parquet", "key/avro"])
@pytest.mark.parametrize("group", ACCEPTED)
def test_schemas_and_rows_are_those_of_paimon(paimon: PaimonJudge, tables: Path, shape: str, group: str) -> None:
    ours, theirs = _make_twins(paimon, tables, shape)

    with PaimonComparison(f"{shape}/{group}") as judged:
        for number, changes in enumerate(ACCEPTED[group], 1):
            question = json.dumps(changes, ensure_ascii=False)
            _apply(tables, ours, changes, codes=(0,))
            _alter_by_paimon(paimon, theirs, changes)
            judged.equal(f"{question}: number of schemas", _count(theirs), _count(ours))
            judged.equal(f"{question}: lines that differ", [], list(_different_lines(theirs, ours)))
            if number % 3 == 0 or number == len(ACCEPTED[group]):
                judged.equal(f"{question}: rows", paimon.open(theirs).rows(), paimon.open(ours).rows())


def test_what_paimon_refuses_is_refused(paimon: PaimonJudge, tables: Path) -> None:
    ours, theirs = _make_twins(paimon, tables, "key/parquet")

    with PaimonComparison("refused") as judged:
        for changes in REFUSED:
            question = json.dumps(changes)
            judged.equal(f"{question}: Paimon refuses", True, _is_refused_by_paimon(paimon, theirs, changes))
            code = _apply(tables, ours, changes, codes=(0, 2, 4))
            judged.equal(f"{question}: deltacli refuses", True, code != 0)
            judged.equal(f"{question}: number of schemas", _count(theirs), _count(ours))


def _make_twins(paimon: PaimonJudge, tables: Path, shape: str) -> tuple[Path, Path]:
    """Return two copies of a table with rows, one for deltacli and one for Paimon."""
    table = SHAPES[shape].create(paimon, tables / "ours")
    table.write([values_of(number) for number in range(1, 5)])
    shutil.copytree(tables / "ours", tables / "theirs")
    return tables / "ours", tables / "theirs"


def _apply(tables: Path, table: Path, changes: Sequence[Change], codes: tuple[int, ...]) -> int:
    file = tables / "changes.json"
    file.write_text(json.dumps(changes), "utf-8")
    return deltacli("alter", table, "--apply", file, "--yes", codes=codes).code


def _alter_by_paimon(paimon: PaimonJudge, directory: Path, changes: Sequence[Change]) -> None:
    paimon.open(directory).alter(changes)


def _is_refused_by_paimon(paimon: PaimonJudge, directory: Path, changes: Sequence[Change]) -> bool:
    before = _count(directory)
    try:
        _alter_by_paimon(paimon, directory, changes)
    except Exception as error:  # noqa: BLE001  (whatever the engine raises is its verdict)
        return bool(cause_of(error)) and _count(directory) == before
    return False


def _count(directory: Path) -> int:
    return len(list((directory / "schema").glob("schema-*")))


def _different_lines(theirs: Path, ours: Path) -> Iterator[str]:
    """Yield the lines in which the newest schema files differ, but for the time."""
    for line in difflib.ndiff(_read_newest(theirs), _read_newest(ours)):
        if not line.startswith("  "):
            yield line


def _read_newest(directory: Path) -> list[str]:
    """Return the lines of the newest schema. Options have no order in Paimon, so keys are sorted."""
    newest = max((directory / "schema").glob("schema-*"), key=lambda path: int(path.name.removeprefix("schema-")))
    content = json.loads(newest.read_text("utf-8"))
    del content["timeMillis"]
    return json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False).splitlines()
