"""Spark reads our checkpoints: its schema has the types of the protocol, its values are ours, its hash chose the part.

Spec: Checkpoint Schema; V2 Spec; Sidecar Files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltacli.delta.checkpoint.layout import assign_parts, spark_hash
from deltacli.operations.checkpoint.checkpoint import CheckpointResult, StatsForm
from tests.corpus.test_checkpoints import known_versions
from tests.support import corpus
from tests.support.corpus import CorpusTable
from tests.support.corpus_checkpoints import MULTI_PART, PARTS, Form, copy_log, forms_of, write
from tests.support.effort import InTurn, is_soaking
from tests.support.parsed_statistics import Statistics, leaves_of, parse, same, typed, value_at
from tests.support.spark import ask_spark, need_spark

STRINGS = {"map": "string", "of": "string"}
TEXTS = {"array of": "string"}
VECTOR = {
    "storageType": "string",
    "pathOrInlineDv": "string",
    "offset": "integer",
    "sizeInBytes": "integer",
    "cardinality": "long",
}
ROW_IDS = {"baseRowId": "long", "defaultRowCommitVersion": "long"}
FILE = {"path": "string", "partitionValues": STRINGS, "size": "long", "dataChange": "boolean", **ROW_IDS}
SCHEMA: dict[str, Any] = {  # Any: names of Spark's types, nested
    "txn": {"appId": "string", "version": "long", "lastUpdated": "long"},
    "add": {
        **FILE,
        "modificationTime": "long",
        "tags": STRINGS,
        "deletionVector": VECTOR,
        "clusteringProvider": "string",
        "stats": "string",
    },
    "remove": {**FILE, "deletionTimestamp": "long", "extendedFileMetadata": "boolean", "deletionVector": VECTOR},
    "metaData": {
        "id": "string",
        "name": "string",
        "description": "string",
        "format": {"provider": "string", "options": STRINGS},
        "schemaString": "string",
        "partitionColumns": TEXTS,
        "configuration": STRINGS,
        "createdTime": "long",
    },
    "protocol": {
        "minReaderVersion": "integer",
        "minWriterVersion": "integer",
        "readerFeatures": TEXTS,
        "writerFeatures": TEXTS,
    },
    "domainMetadata": {"domain": "string", "configuration": "string", "removed": "boolean"},
    "checkpointMetadata": {"version": "long", "tags": STRINGS},
    "sidecar": {"path": "string", "sizeInBytes": "long", "modificationTime": "long", "tags": STRINGS},
}
"""The protocol's checkpoint schema."""

FILE_ACTIONS = {"add", "remove"}
SMALL = {"txn", "metaData", "protocol", "domainMetadata"}
V2_TOP = SMALL | FILE_ACTIONS | {"checkpointMetadata", "sidecar"}

TABLES = (
    "dat/all_primitive_types",
    "dat/column_mapping",
    "dat/deletion_vectors",
    "dat/multi_partitioned_2",
    "dat/nested_types",
    "dat/timestamp_ntz",
    "delta-rs-err/table_a",
    "delta-rs/delta-1.2.1-only-struct-stats",
    "delta-rs/partition-type-primitives",
    "derived/domain-metadata-a",
    "derived/void-and-nested-a",
    "golden/data-reader-partition-values",
    "golden/log-replay-special-characters",
    "golden/type-widening",
    "kernel-rs/app-txn-with-last-updated",
    "kernel-rs/partition_cm/id",
)
"""A third of them in each run of the gate."""
WITH_SIDECARS = ("golden/v2-checkpoint-json", "kernel-rs/v2-checkpoints-json-with-sidecars")

TEXTS_TO_HASH = [
    "",
    "a",
    "ab",
    "abc",
    "abcd",
    "abcde",
    "é",
    "ü1",
    "日本",
    "𝄞",
    "x" * 1000,
    "p=%20a/part-0.parquet",
    "\x7f\x80",
]


@dataclass(frozen=True)
class Written:
    """One Parquet file of a checkpoint."""

    table: CorpusTable
    form: Form
    result: CheckpointResult
    index: int
    place: Path

    @property
    def name(self) -> str:
        return f"{self.table.id} {self.form.name} {self.place.name}"

    @property
    def actions(self) -> set[str]:
        """The kinds whose columns it should have."""
        if self.form.name.startswith("v2"):
            return FILE_ACTIONS if self.place.parent.name == "_sidecars" else V2_TOP
        return SMALL | FILE_ACTIONS


def written(chosen: Sequence[str], root: Path, tmp_path: Path) -> Iterator[Written]:
    """The Parquet files of every form of the chosen tables' newest versions."""
    for table in corpus.tables():
        if table.id not in chosen:
            continue
        version = known_versions(table)[-1]
        for form in forms_of(table, version):
            place = copy_log(table, root, tmp_path / table.id / form.name)
            result = write(place, version["version"], form, stats=StatsForm.BOTH)
            for index, file in enumerate(result.files):
                if file.path.endswith(".parquet"):
                    yield Written(table, form, result, index, place / file.path)


@pytest.mark.long
def test_spark_reads_the_types_and_the_values_of_the_protocol(tmp_path: Path, in_turn: InTurn) -> None:
    python = need_spark()
    chosen = [*in_turn(TABLES), *WITH_SIDECARS]
    files = list(written(chosen, corpus.unpacked(), tmp_path))
    paths = {file.name: str(file.place) for file in files}

    answer = ask_spark(python, {"files": paths, "texts": TEXTS_TO_HASH, "parts": PARTS})

    assert len(chosen) == len({file.table.id for file in files})
    assert {"classic", "multi-part", "v2-json", "v2-parquet"} == {file.form.name for file in files}
    for file in files:
        found = answer["files"][file.name]
        assert expected_schema(file) == tree_of(found["schema"]), file.name
        assert file.result.files[file.index].rows == sum(found["counts"].values()), file.name
        prove_values(file, found.get("adds", []))
    for form in {file.form for file in files}:
        prove_counts([file for file in files if file.form == form], answer["files"])
    prove_parts([file for file in files if file.form is MULTI_PART], answer["files"])
    assert spark_hash(pa.array(TEXTS_TO_HASH)).to_pylist() == answer["hashes"]


def expected_schema(file: Written) -> dict[str, Any]:
    """The protocol's schema, with the parsed columns by the table's own."""
    found = {kind: SCHEMA[kind] for kind in file.actions}
    if "add" in found:
        statistics = statistics_of(file.table)
        parsed = {"stats_parsed": statistics.stats_type(), "partitionValues_parsed": statistics.partition_type()}
        found["add"] = found["add"] | {name: spark_type(kind) for name, kind in parsed.items() if kind is not None}
    return found


def statistics_of(table: CorpusTable) -> Statistics:
    facts = table.facts(known_versions(table)[-1])
    return Statistics(facts["metadata"], facts["protocol"])


SPARK_TYPES = {
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.bool_(): "boolean",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", tz="UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}


def spark_type(kind: Any) -> Any:  # Any: an Arrow type; names of Spark's types, nested
    """What Spark calls a type."""
    if pa.types.is_struct(kind):
        return {field.name: spark_type(field.type) for field in kind}
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return SPARK_TYPES[kind]


def tree_of(kind: Any) -> Any:  # Any: a type in Spark's JSON; names of its types, nested
    """Spark's JSON of a type without its nullability."""
    if isinstance(kind, str):
        return kind
    match kind["type"]:
        case "struct":
            return {field["name"]: tree_of(field["type"]) for field in kind["fields"]}
        case "array":
            return {"array of": tree_of(kind["elementType"])}
        case other:
            assert other == "map"
            return {"map": tree_of(kind["keyType"]), "of": tree_of(kind["valueType"])}


def prove_values(file: Written, adds: list[dict[str, Any]]) -> None:
    """What Spark reads in the parsed columns is what the texts say."""
    statistics = statistics_of(file.table)
    for add in adds:
        compare(file.name, parse(add["stats"]), parse(add["stats_parsed"]), statistics.stats_type())
        if statistics.partition_type() is not None:
            texts = {name: text or None for name, text in add["partitionValues"].items()}
            compare(file.name, texts, parse(add["partitionValues_parsed"]), statistics.partition_type())


def compare(name: str, texts: Any, parsed: Any, kind: Any) -> None:  # Any: JSON values; an Arrow type
    for path, leaf in leaves_of(kind):
        if leaf == pa.binary():
            continue  # Spark's JSON has it in base64
        expected, found = typed(value_at(texts, path), leaf), typed(value_at(parsed, path), leaf)
        assert same(expected, found) or is_cut(expected, found, leaf), (name, path, expected, found)


def is_cut(expected: Any, found: Any, leaf: Any) -> bool:  # Any: two values of an Arrow type
    """Spark's JSON has times to the millisecond."""
    return bool(pa.types.is_timestamp(leaf)) and abs((expected - found).total_seconds()) < 0.001


def prove_counts(files: list[Written], answers: dict[str, Any]) -> None:
    """Spark counts the actions that were said to be written."""
    for result in {id(file.result): file.result for file in files}.values():
        mine = [answers[file.name]["counts"] for file in files if file.result is result]
        counted = {kind: sum(found.get(kind, 0) for found in mine) for kind in result.actions}
        has_json_top = result.files[0].path.endswith(".json")
        wanted = {kind: number for kind, number in result.actions.items() if kind in FILE_ACTIONS or not has_json_top}
        assert wanted == {kind: number for kind, number in counted.items() if kind in wanted}


def prove_parts(files: list[Written], answers: dict[str, Any]) -> None:
    """Every row lies in the part that Spark's hash of its path chooses, those without a path by the hash of null."""
    assert sum(len(answers[file.name]["hashes"]) for file in files) > (100 if is_soaking() else 20)
    for file in files:
        for path, hashed, part in answers[file.name]["hashes"]:
            assert file.index == part, (file.name, path)
            if path is not None:
                assert [hashed] == spark_hash(pa.array([path])).to_pylist()
                assert [part] == assign_parts(pa.array([path]), PARTS).to_pylist()
