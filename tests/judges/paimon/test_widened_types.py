"""deltacli gives columns wider types. Does Paimon read the old values unchanged, as after its own change of type?"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.judges.answers import Comparison
from tests.judges.commands import deltacli
from tests.judges.paimon.engine import PaimonJudge
from tests.judges.paimon.known import PaimonComparison
from tests.judges.paimon.test_altered_tables import findings_of

WIDENINGS: Mapping[str, tuple[Sequence[Any], Sequence[str]]] = {
    "TINYINT": ([-128, 0, 127], ["SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(3, 0)", "DECIMAL(20, 4)"]),
    "SMALLINT": ([-32768, 1, 32767], ["INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(5, 0)", "DECIMAL(38, 3)"]),
    "INT": ([-(1 << 31), 2, (1 << 31) - 1], ["BIGINT", "DOUBLE", "DECIMAL(10, 0)", "DECIMAL(12, 2)"]),
    "BIGINT": ([-(1 << 63), 3, (1 << 63) - 1], ["DECIMAL(19, 0)", "DECIMAL(38, 10)"]),
    "FLOAT": ([-1.5, 0.0, 2.25], ["DOUBLE"]),
    "DECIMAL(9, 2)": (["-9999999.99", "0.00", "9999999.99"], ["DECIMAL(10, 2)", "DECIMAL(18, 4)", "DECIMAL(38, 20)"]),
    "DECIMAL(18, 0)": (["-999999999999999999", "1", "999999999999999999"], ["DECIMAL(19, 0)", "DECIMAL(38, 18)"]),
    "CHAR(3)": (["abc", "a b", "äöü"], ["VARCHAR(3)", "VARCHAR(9)", "STRING"]),
    "VARCHAR(3)": (["", "a", "äöü"], ["VARCHAR(4)", "STRING"]),
    "BINARY(2)": ([b"ab", b"\x00\xff", b"zz"], ["VARBINARY(2)", "BYTES"]),
    "VARBINARY(3)": ([b"", b"a", b"\x00\xffz"], ["VARBINARY(4)", "BYTES"]),
    "TIMESTAMP(0)": (
        ["1969-12-31T23:59:59", "2026-11-30T00:00:01", "9999-12-31T23:59:59"],
        ["TIMESTAMP(3)", "TIMESTAMP(6)"],
    ),
    "TIMESTAMP(3)": (
        ["1582-10-15T01:02:03.004", "2026-11-30T10:11:12.123", "1970-01-01T00:00:01.001"],
        ["TIMESTAMP(6)"],
    ),
    "DATE": (["1582-10-15", "2026-11-30", "9999-12-31"], ["TIMESTAMP(3)", "TIMESTAMP(6)"]),
}
"""Type -> three values, and wider types."""

_TEXTS = ("CHAR", "VARCHAR", "BINARY", "VARBINARY")
_TIMES = ("DATE", "TIMESTAMP")

CASES = [(source, target) for source, (_, targets) in WIDENINGS.items() for target in targets]
COLUMNS = {case: f"c{number}" for number, case in enumerate(CASES)}
NULLS = dict.fromkeys(COLUMNS)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("has_key", [False, True], ids=["append", "key"])
def test_old_values_are_read_as_after_a_change_by_paimon(
    paimon: PaimonJudge, tables: Path, file_format: str, has_key: bool
) -> None:
    columns = [("id", "INT NOT NULL"), *((COLUMNS[case], case[0]) for case in CASES)]
    options = {"file.format": file_format} | ({"bucket": "1"} if has_key else {})
    table = paimon.create(tables / "ours", columns, primary_keys=["id"] if has_key else [], options=options)
    before = [
        *((number, *(WIDENINGS[source][0][number] for source, _ in CASES)) for number in range(3)),
        (3, *NULLS.values()),
    ]
    table.write(before)
    shutil.copytree(tables / "ours", tables / "theirs")
    changes = [
        {"action": "updateColumnType", "fieldNames": [name], "newDataType": target}
        for (_, target), name in COLUMNS.items()
    ]

    words = [word for (_, target), name in COLUMNS.items() for word in (name, target)]
    deltacli("widen-type", tables / "ours", *words, "--yes")
    paimon.open(tables / "theirs").alter(changes)

    ours, theirs = paimon.open(tables / "ours"), paimon.open(tables / "theirs")
    with PaimonComparison(f"{file_format}/{'key' if has_key else 'append'}") as judged:
        _compare_columns(judged, "after the change", theirs.rows(), ours.rows())
        for old, new in zip(before, ours.rows(), strict=True):
            for case, was, now in zip(CASES, old[1:], new[1:], strict=True):
                judged.equal(f"{case}: value", _comparable(case[0], was), _comparable(case[0], now))
        added = [(number + 10, *row[1:]) for number, row in enumerate(ours.rows()[:3])]
        for widened in (ours, theirs):
            widened.write(added)
            widened.compact()
        _compare_columns(judged, "after a compaction", theirs.rows(), ours.rows())
        judged.equal("findings of validate", [], findings_of(tables / "ours"))


def _compare_columns(judged: Comparison, when: str, theirs: Sequence[Any], ours: Sequence[Any]) -> None:
    for place, name in enumerate(["id", *map(str, CASES)]):
        judged.equal(f"{name}: {when}", [row[place] for row in theirs], [row[place] for row in ours])


def _comparable(source: str, value: Any) -> Any:
    """Return a value so that it is equal to the same one of a wider type.

    Numbers are compared as decimals, and days and times as times in Python: no value has more than microseconds.
    """
    if value is None or source.startswith(_TEXTS):
        return value
    if source.startswith(_TIMES):
        return datetime.fromisoformat(str(value))
    return Decimal(str(value))
