"""What pypaimon does with Paimon tables, a table for each trait, and `python -m tools.clients.paimon`, which measures
it and writes the facts to `deltacli/paimon/clients.json`.

Tables are described by a schema file, and pypaimon writes their rows; those that only Java writes are of the corpus.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from deltacli.operations.paimon.facts import table_traits
from deltacli.storage import open_storage
from deltacli.table.handle import TableHandle
from tests.support.paimon_corpus import unpacked
from tools.clients.facts import ROOT, Pair, with_short_lists

DATA = ROOT / "deltacli" / "paimon" / "clients.json"
PYTHON = ROOT / ".venv-paimon" / "bin" / "python"
PROBE = Path(__file__).with_name("probe_paimon.py")

Columns = Sequence[tuple[int, str, Any]]  # Any: the JSON of a type
"""Id, name and type of each column."""
BASE: Columns = ((0, "id", "INT NOT NULL"), (1, "v", "STRING"))
KEY = ("id",)


class Case(NamedTuple):
    """A table with a trait: schema files with the same keys and options, after each of which rows are written; or a
    table of the corpus with so many rows. In the end text is added to the file `trailing`, and the number under a key
    of a file becomes text: `quoted` is the file with the key.
    """

    trait: str
    options: Mapping[str, str] = {}
    columns: Sequence[Columns] = (BASE,)
    keys: Sequence[str] = ()
    partitions: Sequence[str] = ()
    version: int = 3
    table: str = ""
    count: int | None = None
    trailing: str = ""
    quoted: tuple[str, str] | None = None

    def write(self, place: Path) -> None:
        """Write the first schema file, or copy the table."""
        if self.table:
            shutil.copytree(unpacked() / self.table, place)
        else:
            (place / "schema").mkdir(parents=True)
            self.write_schema(place, 0)

    def write_schema(self, place: Path, number: int) -> None:
        """Write a schema file."""
        fields = [{"id": one, "name": name, "type": kind} for one, name, kind in self.columns[number]]
        content = {"version": self.version, "id": number, "fields": fields, "highestFieldId": 50}
        content |= {"partitionKeys": list(self.partitions), "primaryKeys": list(self.keys)}
        text = json.dumps(content | {"options": dict(self.options), "timeMillis": 1})
        (place / "schema" / f"schema-{number}").write_text(text, "utf-8")


class Found(NamedTuple):
    """What pypaimon did with a table, and why not."""

    reads: bool | None
    writes: bool | None
    why: tuple[str, ...]


class Probe:
    """A process of pypaimon with an empty warehouse in a directory."""

    def __init__(self, directory: Path, python: Path = PYTHON) -> None:
        self.home = directory / "db.db"
        self.home.mkdir()
        self._process = subprocess.Popen(
            [python.absolute(), PROBE, directory],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.version = str(self._answer()["version"])

    def write(self, name: str, ids: Iterable[int], shift: int = 0) -> Any:  # Any: JSON values
        """Append rows to a table."""
        return self._ask({"write": name, "ids": list(ids), "shift": shift})

    def measure(self, name: str, count: int | None = None) -> Found:
        """Return what pypaimon does with a table, which has `count` rows (None: those written before)."""
        found = self._ask({"measure": name, "count": count})
        return Found(found["reads"], found["writes"], tuple(found["why"]))

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=60)

    def _ask(self, task: Mapping[str, object]) -> Any:  # Any: JSON values
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(task).encode() + b"\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:  # Any: JSON values
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


def measure_cases(chosen: Sequence[Case], python: Path = PYTHON) -> tuple[str, dict[str, Pair]]:
    """Return the version of pypaimon, and its facts by trait. A refusal says nothing of a trait where another trait of
    the table may be the reason: one that no table shows to be harmless.
    """
    with tempfile.TemporaryDirectory() as directory:
        probe = Probe(Path(directory), python)
        tried = [(case, *_measure(probe, case, f"t{number}")) for number, case in enumerate(chosen)]
        probe.close()
    facts: dict[str, Pair] = {case.trait: [None, None] for case in chosen}
    for at in (0, 1):
        harmless = {trait for _, traits, found in tried if found[at] for trait in traits}
        for case, traits, found in tried:
            if found[at] is not None and (found[at] or traits - {case.trait} <= harmless):
                facts[case.trait][at] = found[at] and facts[case.trait][at] is not False
    return probe.version, {name: facts[name] for name in sorted(facts) if facts[name] != [None, None]}


def _measure(probe: Probe, case: Case, name: str) -> tuple[frozenset[str], Found]:
    """Return the traits of a table, and what pypaimon did with it."""
    place = probe.home / name
    case.write(place)
    for step in range(0 if case.table else len(case.columns)):
        if step:
            case.write_schema(place, step)
        probe.write(name, range(1 + 3 * step, 4 + 3 * step))
    if case.keys:
        probe.write(name, [1], shift=7)
    if case.trailing:
        with (place / case.trailing).open("a", encoding="utf-8") as file:
            file.write(" trailing text")
    if case.quoted:
        _quote_number(place / case.quoted[0], case.quoted[1])
    traits = frozenset(table_traits(TableHandle(open_storage(str(place)))).since)
    assert case.trait in traits, (case.trait, sorted(traits))
    return traits, probe.measure(name, case.count)


def _quote_number(file: Path, key: str) -> None:
    """Write the number under a key of a JSON file as text."""
    content = json.loads(file.read_text("utf-8"))
    content[key] = str(content[key])
    file.write_text(json.dumps(content), "utf-8")


_FORMATS = ("parquet", "orc", "avro")
_ATOMIC = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(38, 10)", "CHAR(5)"),
    *("VARCHAR(9)", "BINARY(2)", "VARBINARY(9)", "DATE", "TIME(3)", "TIMESTAMP(3)", "TIMESTAMP(9)"),
    *("TIMESTAMP(6) WITH LOCAL TIME ZONE", "TIMESTAMP(9) WITH LOCAL TIME ZONE", "VARIANT", "GEOMETRY", "GEOGRAPHY"),
)
_ARRAY = {"type": "ARRAY", "element": "INT"}
_ROW = {"type": "ROW", "fields": [{"id": 40, "name": "a", "type": "INT"}, {"id": 41, "name": "b", "type": "STRING"}]}
_MADE = (
    _ARRAY,
    _ROW,
    {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"},
    {"type": "MULTISET", "element": "STRING"},
    {"type": "VECTOR", "element": "FLOAT", "length": 2},
)
_ENGINES = ("deduplicate", "partial-update", "aggregation", "first-row")
_ONE_BUCKET = {"bucket": "1"}


_OLD: Columns = (
    *BASE,
    (2, "x", "INT"),
    (3, "y", "FLOAT"),
    (4, "d", "DECIMAL(5, 2)"),
    (5, "e", "DATE"),
    (6, "s", "CHAR(3)"),
)
_WIDER: Columns = (
    *((2, "x", "BIGINT"), (3, "y", "DOUBLE"), (4, "d", "DECIMAL(8, 2)"), (5, "e", "TIMESTAMP(6)"), (6, "s", "STRING")),
)
_CHANGES: Mapping[str, Columns] = {
    "add-column": (*_OLD, (7, "z", "STRING")),
    "drop-column": _OLD[:3],
    "rename-column": (*_OLD[:2], (2, "x2", "INT"), *_OLD[3:]),
    "change-type": (*BASE, *_WIDER),
}
"""The columns after each change. Casts that lose values are not measured, and neither are changes within types."""


ROWS: Mapping[str, int] = {
    "pk_table_scan_and_read_first_row": 9,  # without the 5 of level 0, which readers skip
    "pk_table_with_dv_cardinality": 7,  # without the 3 that deletion vectors mark
    "append_table_with_rt_branch": 4,  # with the 2 of a partition that only the fallback branch has
    "append_table_with_append_pt_branch": 4,  # as above
}
"""Rows of tables of the corpus, by their data files, where the newest snapshot has another number of records."""


def _of_corpus() -> Iterator[Case]:
    """Yield tables that only Java writes, with the number of their rows."""
    for trait, table, count in (
        ("manifest.format=orc", "append_with_empty_partition", 6),
        ("manifest.no-value-stats-cols", "pk_09", 10),
        ("merge-engine=first-row", "pk_table_scan_and_read_first_row", None),
        ("first-row.ignore-delete", "pk_table_scan_and_read_first_row", None),
        ("primary-key.deletion-vectors.enabled", "pk_table_with_dv_cardinality", None),
        ("scan.fallback-branch", "append_table_with_append_pt_branch", None),
    ):
        yield Case(trait, table=f"java/parquet/{table}.db/{table}", count=count or ROWS[table])


def _with(kind: Any) -> Sequence[Columns]:  # Any: the JSON of a type
    return ((*BASE, (2, "x", kind)),)


def _of_type(file_format: str, kind: Any) -> Case:  # Any: the JSON of a type
    text = str(kind if isinstance(kind, str) else kind["type"])
    root = (
        text.partition("(")[0]
        + ("_LTZ" if "LOCAL" in text else "")
        + ("(7..9)" if "(9)" in text and "TIMES" in text else "")
    )
    return Case(f"{file_format}.{root}", {"file.format": file_format}, _with(kind))


def cases() -> Iterator[Case]:
    """Yield a table for each trait; the traits that others need come first."""
    yield Case("append")
    yield Case("append.bucket=-1")
    for one in _FORMATS:
        yield Case(f"file.format={one}", {"file.format": one})
        yield from (_of_type(one, kind) for kind in (*_ATOMIC, *_MADE))
    yield Case("append.bucket=fixed", {"bucket": "2", "bucket-key": "id"})
    yield Case("append.partitioned", partitions=("v",))
    yield Case("primary-key", _ONE_BUCKET, keys=KEY)
    for bucket in ("fixed", "-1", "-2"):
        yield Case(f"primary-key.bucket={bucket}", {"bucket": bucket.replace("fixed", "2")}, keys=KEY)
    yield Case("primary-key.partitioned", _ONE_BUCKET, keys=("id", "v"), partitions=("v",))
    yield Case("primary-key.cross-partition", keys=KEY, partitions=("v",))
    for engine in _ENGINES:
        yield Case(f"merge-engine={engine}", {**_ONE_BUCKET, "merge-engine": engine}, keys=KEY)
    for option in ("row-tracking.enabled", "deletion-vectors.enabled"):
        yield Case(option if option.startswith("row") else f"append.{option}", {option: "true"})
    evolves = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    yield Case("data-evolution.enabled", evolves)
    for one in _FORMATS:
        yield Case(f"{one}.BLOB", {**evolves, "file.format": one}, _with("BLOB"))
    for producer in ("input", "full-compaction", "lookup"):
        yield Case(f"changelog-producer={producer}", {**_ONE_BUCKET, "changelog-producer": producer}, keys=KEY)
    yield Case("version=1", version=1, keys=KEY)
    yield Case("version=2", version=2)
    for prefix, options in (("", {}), ("data-evolution.", evolves)):
        for change, after in _CHANGES.items():
            if prefix + change != "data-evolution.rename-column":  # read as null in some tables
                yield Case(prefix + change, options, (_OLD, after))
    yield Case("sequence.field", {**_ONE_BUCKET, "sequence.field": "x"}, _with("INT"), keys=KEY)
    for engine in _ENGINES:
        options = {**_ONE_BUCKET, "merge-engine": engine, "ignore-delete": "true"}
        yield Case(f"{engine}.ignore-delete", options, keys=KEY)
    yield Case("schema.trailing-text", trailing="schema/schema-0")
    yield Case("snapshot.trailing-text", trailing="snapshot/snapshot-1")
    yield Case("schema.version-as-text", quoted=("schema/schema-0", "version"))
    yield Case("schema.id-as-text", quoted=("schema/schema-0", "id"))
    yield Case("snapshot.number-as-text", quoted=("snapshot/snapshot-1", "id"))
    yield from _of_corpus()


def main() -> None:
    """Measure pypaimon and write its facts."""
    version, facts = measure_cases(list(cases()))
    client = json.loads(DATA.read_text("utf-8"))["clients"][0]
    client |= {"version": version, "measuredOn": datetime.now(UTC).date().isoformat(), "facts": facts}
    text = json.dumps({"schemaVersion": 1, "clients": [client]}, indent=1, ensure_ascii=False)
    DATA.write_text(with_short_lists(text) + "\n", "utf-8")
    sys.stdout.write(f"pypaimon {version}: {len(facts)} facts\n")


if __name__ == "__main__":
    main()
