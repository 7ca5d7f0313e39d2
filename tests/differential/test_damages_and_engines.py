"""The table of engines: each engine does with a damaged table what `rules/framework/engines.py` says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli import open_table
from deltacli.rules.framework.engines import VERSIONS
from tests.judges.engines import require_jars
from tools.clients.asking import Question, ask
from tools.clients.facts import ENVIRONMENTS

Json = dict[str, Any]  # Any: JSON values
AT_MS = 1_767_225_600_000
OF_JAVA = {"spark", "kernel"}
INFO: Json = {"commitInfo": {"timestamp": AT_MS, "operation": "WRITE", "operationParameters": {}}}


class DamagedTable:
    """A table of two commits of one file each; a damage changes its second commit, its protocol or its log."""

    def __init__(self, root: Path, *, protocol: Json | None = None, **metadata: Any) -> None:
        self.root = root
        self.log = root / "_delta_log"
        self.log.mkdir(parents=True)
        fields = [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]
        of_table = {
            "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": [],
            "configuration": {},
            "createdTime": AT_MS,
        } | metadata
        versions = protocol or {"minReaderVersion": 1, "minWriterVersion": 2}
        self.write(0, INFO, {"protocol": versions}, {"metaData": of_table}, self.add("a.parquet"))
        self.write(1, INFO, self.add("b.parquet"))

    def add(self, path: str) -> Json:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": pa.array([1], pa.int64())}), file)
        fields = {"path": path, "partitionValues": {}, "size": file.stat().st_size, "modificationTime": AT_MS}
        return {"add": fields | {"dataChange": True, "stats": '{"numRecords":1}'}}

    def write(self, version: int, *lines: Json | str) -> None:
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        (self.log / f"{version:020d}.json").write_text("\n".join(texts) + "\n")


def _with_lines(*lines: str) -> Callable[[Path], None]:
    return lambda root: (table := DamagedTable(root)).write(1, INFO, *lines, table.add("b.parquet"))


def _with_path(path: str) -> Callable[[Path], None]:
    return lambda root: (table := DamagedTable(root)).write(1, INFO, table.add(path))


def _with_file(name: str, content: str) -> Callable[[Path], None]:
    def build(root: Path) -> None:
        (DamagedTable(root).log / name).write_text(content)

    return build


def _of_protocol(**protocol: Any) -> Callable[[Path], None]:
    return lambda root: _discard(DamagedTable(root, protocol=protocol))


def _with_metadata(**metadata: Any) -> Callable[[Path], None]:
    return lambda root: _discard(DamagedTable(root, **metadata))


def _discard(_: DamagedTable) -> None:
    """The files are what counts."""


def _with_change_of_the_preview(root: Path) -> None:
    """A table whose column was a byte, with one file from then; the preview of type widening allowed three digits."""
    change = {"toType": "decimal(4,1)", "fromType": "byte", "tableVersion": 1}
    column = {"name": "id", "type": "decimal(4,1)", "nullable": True, "metadata": {"delta.typeChanges": [change]}}
    preview = ["typeWidening-preview"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": preview, "writerFeatures": preview}
    table = DamagedTable(
        root,
        protocol=protocol,
        schemaString=json.dumps({"type": "struct", "fields": [column]}),
        configuration={"delta.enableTypeWidening": "true"},
    )
    pq.write_table(pa.table({"id": pa.array([1], pa.int8())}), table.root / "a.parquet")
    pq.write_table(pa.table({"id": pa.array([1], pa.decimal128(4, 1))}), table.root / "b.parquet")
    for version, name in enumerate(("a.parquet", "b.parquet")):
        path = table.log / f"{version:020d}.json"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        lines[-1]["add"]["size"] = (table.root / name).stat().st_size
        table.write(version, *lines)


VECTORS = ["deletionVectors"]
DAMAGES: dict[str, Callable[[Path], None]] = {
    "none": lambda root: _discard(DamagedTable(root)),
    "blank in a path": _with_path("a b.parquet"),
    "hash in a path": _with_path("a#b.parquet"),
    "tab in a path": _with_path("a\tb.parquet"),
    "colon in a path": _with_path("t=03:06/b.parquet"),
    "dot in a path": _with_path("./b.parquet"),
    "temporary file": _with_file(f"{3:020d}.tmp.json", "junk"),
    "unpadded name": _with_file("2.json", "junk"),
    "later checksum": _with_file(f"{9:020d}.crc", "{}"),
    "hint of no checkpoint": _with_file("_last_checkpoint", '{"version":1,"size":4}'),
    "hint that is not JSON": _with_file("_last_checkpoint", "junk"),
    "blank line": _with_lines(""),
    "empty object": _with_lines("{}"),
    "null action": _with_lines('{"add":null}'),
    "text as commitInfo": _with_lines('{"commitInfo":"x"}'),
    "NaN": _with_lines('{"commitInfo":{"x":NaN}}'),
    "no lists": _of_protocol(minReaderVersion=3, minWriterVersion=7),
    "lists of old versions": _of_protocol(minReaderVersion=1, minWriterVersion=2, readerFeatures=[], writerFeatures=[]),
    "only for readers": _of_protocol(minReaderVersion=3, minWriterVersion=7, readerFeatures=VECTORS, writerFeatures=[]),
    "only for writers": _of_protocol(minReaderVersion=3, minWriterVersion=7, readerFeatures=[], writerFeatures=VECTORS),
    "format orc": _with_metadata(format={"provider": "orc", "options": {}}),
    "no options of the format": _with_metadata(format={"provider": "parquet", "options": None}),
    "mapping without protocol": _with_metadata(configuration={"delta.columnMapping.mode": "name"}),
    "change of the preview": _with_change_of_the_preview,
}


@pytest.mark.long
@pytest.mark.parametrize("engine", VERSIONS)
def test_an_engine_does_with_damaged_tables_what_explain_says(engine: str, tmp_path: Path) -> None:
    python = ENVIRONMENTS[engine]
    if not python.exists():
        pytest.skip(f"no environment of {engine}: {python}")
    if engine in OF_JAVA:
        require_jars()
    questions = []
    for number, build in enumerate(DAMAGES.values()):
        build(tmp_path / str(number))
        questions.append(Question(tmp_path / str(number), to=tmp_path / f"{number}.arrow"))
    said = [open_table(question.path).explain(clients=[engine]).client(engine) for question in questions]

    answers = ask(python, engine, questions)

    assert VERSIONS[engine] == answers.version
    reads = dict(zip(DAMAGES, [refusal is None for refusal in answers.refusals], strict=True))
    assert {name: one.access.reads for name, one in zip(DAMAGES, said, strict=True)} == reads
