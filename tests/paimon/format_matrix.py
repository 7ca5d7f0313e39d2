"""Every type of Paimon, where a type can stand, and what Paimon 1.4.2 (Java) does with it in each file format.

`measured_formats.json` has the answers of Paimon: format -> type -> a letter for each of `POSITIONS`. The judges
measure them again (`tests/judges/paimon/test_file_formats.py`).

| letter | what happened |
|---|---|
| `.` | the values were read back as they were written |
| `O` | the table could not be opened |
| `W` | rows could not be written |
| `R` | rows could not be read back |
| `D` | other values were read back |
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

MEASURED = Path(__file__).with_name("measured_formats.json")
GOOD = "."

_ROW = {"type": "ROW", "fields": [{"id": 70, "name": "a", "type": "INT"}]}
_DIGITS = "123456789"


def _fraction(digits: int) -> str:
    """Return digits of a second as Java prints them: three, six or nine."""
    if digits == 0:
        return ""
    return "." + _DIGITS[:digits].ljust((digits + 2) // 3 * 3, "0")


def _vector(element: str, *values: Any) -> tuple[Any, Any]:
    return {"type": "VECTOR", "element": element, "length": len(values)}, list(values)


TYPES: Mapping[str, tuple[Any, Any]] = {
    "BOOLEAN": ("BOOLEAN", True),
    "TINYINT": ("TINYINT", 1),
    "SMALLINT": ("SMALLINT", 2),
    "INT": ("INT", 3),
    "BIGINT": ("BIGINT", 4),
    "FLOAT": ("FLOAT", 1.5),
    "DOUBLE": ("DOUBLE", 2.5),
    "DECIMAL(10, 2)": ("DECIMAL(10, 2)", "1.50"),
    "DECIMAL(38, 10)": ("DECIMAL(38, 10)", "1234567890123456789.0123456789"),
    "CHAR(3)": ("CHAR(3)", "abc"),
    "VARCHAR(5)": ("VARCHAR(5)", "abc"),
    "STRING": ("STRING", "abc"),
    "BINARY(3)": ("BINARY(3)", b"abc"),
    "VARBINARY(5)": ("VARBINARY(5)", b"ab"),
    "BYTES": ("BYTES", b"ab"),
    "DATE": ("DATE", "2024-01-02"),
    # Paimon keeps milliseconds at most.
    **{f"TIME({digits})": (f"TIME({digits})", f"10:11:12{_fraction(min(digits, 3))}") for digits in range(10)},
    **{
        f"TIMESTAMP({digits}){zone}": (f"TIMESTAMP({digits}){zone}", f"2024-01-02T03:04:05{_fraction(digits)}")
        for zone in ("", " WITH LOCAL TIME ZONE")
        for digits in range(10)
    },
    "VARIANT": ("VARIANT", '{"a":1}'),
    "BLOB": ("BLOB", b"abc"),
    "GEOMETRY": ("GEOMETRY", None),
    "GEOGRAPHY": ("GEOGRAPHY", None),
    "VECTOR<BOOLEAN, 2>": _vector("BOOLEAN", True, False),
    **{f"VECTOR<{name}, 2>": _vector(name, 1, 2) for name in ("TINYINT", "SMALLINT", "INT", "BIGINT")},
    **{f"VECTOR<{name}, 2>": _vector(name, 1.0, 2.0) for name in ("FLOAT", "DOUBLE")},
    "ARRAY<INT>": ({"type": "ARRAY", "element": "INT"}, [1, None, 2]),
    "MULTISET<STRING>": ({"type": "MULTISET", "element": "STRING"}, [("a", 2)]),
    "MAP<STRING, INT>": ({"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}, [("a", 2)]),
    "ROW<a INT>": (_ROW, (5,)),
}
"""Name -> the type as a schema file writes it, and a value as the judges write it; None where Paimon has no values."""


def _require(type_: Any) -> Any:
    """Return a type that is NOT NULL."""
    return f"{type_} NOT NULL" if isinstance(type_, str) else {**type_, "type": f"{type_['type']} NOT NULL"}


POSITIONS: Mapping[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "column": lambda type_, value: (type_, value),
    "element": lambda type_, value: ({"type": "ARRAY", "element": type_}, [value, value]),
    "value": lambda type_, value: ({"type": "MAP", "key": "STRING NOT NULL", "value": type_}, [("k", value)]),
    "key": lambda type_, value: ({"type": "MAP", "key": _require(type_), "value": "INT"}, [(value, 1)]),
    "field": lambda type_, value: ({"type": "ROW", "fields": [{"id": 80, "name": "f", "type": type_}]}, (value,)),
    "counted": lambda type_, value: ({"type": "MULTISET", "element": _require(type_)}, [(value, 1)]),
}
"""Where a type can stand -> the type of a column that has it there, and its value."""


def read_measured() -> dict[str, dict[str, str]]:
    """Return the answers of Paimon: format -> type -> a letter for each of `POSITIONS`."""
    answers: dict[str, dict[str, str]] = json.loads(MEASURED.read_text("utf-8"))
    return answers


def schema_of(file_format: str, type_: Any, **options: str) -> dict[str, Any]:
    """Return a schema with a column of a type, and one more where the format has room for it."""
    columns = [] if file_format in ("text", "blob") else [{"id": 0, "name": "id", "type": "INT"}]
    return {
        "version": 3,
        "id": 0,
        "highestFieldId": 99,
        "partitionKeys": [],
        "primaryKeys": [],
        "options": {"file.format": file_format, **options},
        "fields": [*columns, {"id": 1, "name": "c", "type": type_}],
    }
