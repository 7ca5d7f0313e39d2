"""Settings and types that keep Paimon 1.4.2 from opening or writing a table. Does `validate` find all of them?"""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.judges.commands import deltacli
from tests.judges.figures import FIGURES
from tests.judges.paimon.engine import JavaObject, PaimonJudge, cause_of
from tests.judges.paimon.known import PaimonComparison
from tests.paimon.version_2_needs import OPTIONS, TYPES

COLUMNS: Sequence[Mapping[str, Any]] = (
    {"id": 0, "name": "id", "type": "INT NOT NULL"},
    {"id": 1, "name": "day", "type": "STRING NOT NULL"},
    {"id": 2, "name": "n", "type": "INT"},
    {"id": 3, "name": "s", "type": "STRING"},
    {"id": 4, "name": "at", "type": "TIMESTAMP(6)"},
)
VALUES = ("true", "false", "1", "2", "3 d", "1 mb", "n", "s", "at", "day", "nope")
"""Values that an option gets if Paimon can parse them as values of this option."""

KINDS: Mapping[str, Mapping[str, Any]] = {
    "append": {},
    "append/partitioned": {"partitionKeys": ["day"]},
    "key": {"primaryKeys": ["id"], "options": {"bucket": "1"}},
    "aggregation": {"primaryKeys": ["id"], "options": {"bucket": "1", "merge-engine": "aggregation"}},
    "evolution": {"options": {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}},
}
FUNCTIONS = "avg bool_and collect first_value hll_sketch last_value listagg max min product rbm32 sum theta_sketch nope"
MORE: Mapping[str, str] = {
    "fields.n.aggregate-function": FUNCTIONS,
    "fields.s.aggregate-function": FUNCTIONS,
    "fields.default-aggregate-function": FUNCTIONS,
    "file.format": "parquet orc avro csv json text blob lance vortex mosaic row Parquet",
    "vector.file.format": "json parquet lance",
}
"""Options that take words, or that Paimon does not list."""


@pytest.mark.parametrize("kind", KINDS)
def test_validate_finds_the_options_with_which_paimon_refuses_to_open(
    paimon: PaimonJudge, tables: Path, kind: str
) -> None:
    refused = dict[str, str]()
    for number, (key, value) in enumerate(_settings(paimon)):
        directory = tables / f"t{number}"
        options = {**KINDS[kind].get("options", {}), key: value}
        write_schema(directory, COLUMNS, **{**KINDS[kind], "options": options})
        FIGURES["tables"] += 1
        reason = paimon.why_not_opened(directory)
        if reason is None:
            shutil.rmtree(directory)
        else:
            refused[directory.name] = f"{key}={value}: {reason}"

    found = _findings(tables)
    with PaimonComparison(f"options/{kind}") as judged:
        judged.equal("some are refused", True, len(refused) > 5)
        for name, setting in refused.items():
            judged.equal(f"{setting}: is found", True, bool(found[name]))


def _settings(paimon: PaimonJudge) -> Iterator[tuple[str, str]]:
    """Yield every option of Paimon with values that it can parse."""
    options = {option.key(): option for option in paimon.paimon.CoreOptions.getOptions()}
    for key in sorted({*options, *MORE}):
        words = MORE[key].split() if key in MORE else VALUES
        for value in words:
            if key in MORE or _can_parse(paimon, options[key], value):
                yield key, value


def _can_parse(paimon: PaimonJudge, option: JavaObject, value: str) -> bool:
    try:
        paimon.paimon.options.Options.fromMap({option.key(): value}).get(option)
    except Exception:  # noqa: BLE001  (whatever the engine raises is its verdict)
        return False
    return True


def write_schema(directory: Path, columns: Sequence[Mapping[str, Any]], **keys: Any) -> Path:
    """Write the first schema file of a table and return the directory of the table."""
    base = {"version": 3, "id": 0, "highestFieldId": 99, "partitionKeys": [], "primaryKeys": [], "options": {}}
    (directory / "schema").mkdir(parents=True)
    content = json.dumps({**base, **keys, "fields": list(columns)})
    (directory / "schema" / "schema-0").write_text(content, "utf-8")
    return directory


def _findings(tables: Path) -> Mapping[str, list[str]]:
    """Return name of a table -> rules of the errors and warnings that `validate` reports."""
    found = defaultdict[str, list[str]](list)
    for line in deltacli("validate", f"{tables}/**", "--format", "ndjson", codes=(0, 1)).lines():
        if line.get("type") == "finding" and line["severity"] != "info":
            found[line["table"].rpartition("/")[2]].append(line["rule"])
    return found


@pytest.mark.parametrize("name", OPTIONS)
def test_paimon_1_fails_with_the_options_that_only_version_2_has(paimon: PaimonJudge, tables: Path, name: str) -> None:
    keys, options = OPTIONS[name]
    bucket = {"bucket": "1"} if "primaryKeys" in keys else {}
    settings = {**bucket, **keys.get("options", {})}
    columns = [COLUMNS[0], COLUMNS[2]]

    with PaimonComparison(f"version 2/{name}") as judged:
        sound = write_schema(tables / "sound", columns, **{**keys, "options": settings})
        judged.equal("fails without it", None, _why_it_fails(paimon, sound, (1, 2)))
        newer = write_schema(tables / "newer", columns, **{**keys, "options": {**settings, **options}})
        judged.equal("fails with it", True, _why_it_fails(paimon, newer, (1, 2)) is not None)


VALUES_OF_TYPES: Mapping[str, Any] = {"blobs in an array": [b"ab"], "blobs in a map": [("k", b"ab")]}
"""Values of the types with which Paimon 1.4.2 opens a table."""


@pytest.mark.parametrize("name", TYPES)
def test_paimon_1_fails_with_the_types_that_only_version_2_has(paimon: PaimonJudge, tables: Path, name: str) -> None:
    type_, options = TYPES[name]
    columns = [COLUMNS[0], {"id": 5, "name": "c", "type": type_}]

    with PaimonComparison(f"version 2/{name}") as judged:
        directory = write_schema(tables / "t", columns, options=dict(options))
        reason = _why_it_fails(paimon, directory, (1, VALUES_OF_TYPES.get(name)))
        judged.equal("fails", True, reason is not None)


def _why_it_fails(paimon: PaimonJudge, directory: Path, row: Sequence[Any]) -> str | None:
    """Return why Paimon cannot open, write, read or compact a table; None if it can."""
    FIGURES["tables"] += 1
    try:
        table = paimon.open(directory)
        for _ in range(2):
            table.write([row])
        table.rows()
        if table.can_compact():
            table.compact()
    except Exception as error:  # noqa: BLE001  (whatever the engine raises is its verdict)
        return cause_of(error)
    return None


def test_paimon_ignores_the_option_of_deltacli(paimon: PaimonJudge, tables: Path) -> None:
    directory = write_schema(tables / "t", COLUMNS[:1])
    deltacli("alter", directory, "set", "deltacli.min-paimon=2", "--yes")

    with PaimonComparison("deltacli.min-paimon") as judged:
        judged.equal("fails", None, _why_it_fails(paimon, directory, (1,)))
