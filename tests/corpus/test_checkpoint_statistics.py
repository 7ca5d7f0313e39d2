"""Statistics of real tables in the columns of a checkpoint: names, types and values against the JSON texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltacli.operations.checkpoint.checkpoint import CheckpointResult, StatsForm, write_checkpoint
from tests.corpus.test_checkpoints import LARGE, REFUSED, WRITABLE, each, known_versions
from tests.support.corpus import CorpusTable
from tests.support.corpus_checkpoints import (
    CLASSIC,
    LOG,
    V2_JSON,
    copy_log,
    files_of,
    forms_of,
    leave_alone,
    open_copy,
    plan,
    write,
)
from tests.support.parsed_statistics import Statistics, leaves_of, parse, same, typed, value_at

CHOSEN = [
    table
    for table in WRITABLE
    if table.id not in LARGE and (table.id, known_versions(table)[-1]["version"]) not in REFUSED
]


def statistics_of(table: CorpusTable) -> Statistics:
    """What the manifest says of the newest version's columns."""
    facts = table.facts(known_versions(table)[-1])
    return Statistics(facts["metadata"], facts["protocol"])


def adds_of(place: Path, result: CheckpointResult) -> tuple[Any, list[dict[str, Any]]]:  # Any: an Arrow type
    """The type and the rows of `add` in the files of a checkpoint, read as Parquet and nothing else."""
    kind: Any = pa.struct([])
    rows: list[dict[str, Any]] = []
    for file in result.files:
        if file.path.endswith(".parquet") and "add" in pq.read_schema(place / file.path).names:
            column = pq.read_table(place / file.path, columns=["add"]).column("add")
            kind = column.type
            rows += column.drop_null().to_pylist(maps_as_pydicts="strict")
    return kind, rows


@each(CHOSEN)
def test_parsed_columns_have_the_types_and_the_values_of_the_texts(
    table: CorpusTable, root: Path, tmp_path: Path
) -> None:
    version = known_versions(table)[-1]
    copy_log(table, root, tmp_path)
    form = V2_JSON if V2_JSON in forms_of(table, version) else CLASSIC

    result = write(tmp_path, version["version"], form, stats=StatsForm.BOTH)

    expected = statistics_of(table)
    kind, adds = adds_of(tmp_path, result)
    assert version["live_files"] == len(adds)
    if len(kind) == 0:
        assert (V2_JSON, 0) == (form, len(adds))  # no sidecar, where there is nothing to put into one
        return
    wanted = {"stats_parsed": expected.stats_type(), "partitionValues_parsed": expected.partition_type()}
    found = {name: kind.field(name).type if kind.get_field_index(name) >= 0 else None for name in wanted}
    assert wanted == found
    for add in adds:
        compare(parse(add["stats"]), add["stats_parsed"], wanted["stats_parsed"])
        if wanted["partitionValues_parsed"] is not None:
            texts = {name: text or None for name, text in add["partitionValues"].items()}
            compare(texts, add["partitionValues_parsed"], wanted["partitionValues_parsed"])


def compare(texts: Any, parsed: Any, kind: Any) -> None:  # Any: JSON values, a row of a struct, its type
    """Every leaf of a row is what the texts say."""
    for path, leaf in leaves_of(kind):
        expected, found = typed(value_at(texts, path), leaf), value_at(parsed, path)
        assert same(expected, found), (path, expected, found)


@each(CHOSEN)
def test_statistics_only_in_columns_are_read_as_the_same_values(table: CorpusTable, root: Path, tmp_path: Path) -> None:
    number = known_versions(table)[-1]["version"]
    copy_log(table, root, tmp_path)
    planned = plan(tmp_path, number, CLASSIC, stats=StatsForm.STRUCT)
    before = {key_of(file): parse(file["stats"]) for file in files_of(planned.snapshot)}

    leave_alone(tmp_path, write_checkpoint(planned))

    kind = statistics_of(table).stats_type()
    after = {key_of(file): parse(file["stats"]) for file in files_of(open_copy(tmp_path).snapshot())}
    assert before.keys() == after.keys()
    for key, texts in before.items():
        for path, leaf in leaves_of(kind):
            expected, found = typed(value_at(texts, path), leaf), typed(value_at(after[key], path), leaf)
            assert same(expected, found), (key, path, expected, found)


def key_of(file: dict[str, Any]) -> tuple[str, str]:
    return file["path"], repr(file["deletionVector"])


@each([table for table in CHOSEN if known_versions(table)[-1]["base_checkpoint"] is not None])
def test_without_properties_a_checkpoint_has_the_columns_of_the_last_one(
    table: CorpusTable, root: Path, tmp_path: Path
) -> None:
    version = known_versions(table)[-1]
    copy_log(table, root, tmp_path)
    properties = table.facts(version)["metadata"]["configuration"]
    asked = properties.get("delta.checkpoint.writeStatsAsStruct")
    before = had_parsed_statistics(tmp_path, version["base_checkpoint"]) if asked is None else asked == "true"

    result = write(tmp_path, version["version"], CLASSIC)

    names = [field.name for field in adds_of(tmp_path, result)[0]]
    has_json = properties.get("delta.checkpoint.writeStatsAsJson", "true") == "true"
    assert (has_json, before) == ("stats" in names, "stats_parsed" in names)


def had_parsed_statistics(place: Path, version: int) -> bool:
    """True if a Parquet file of the version's checkpoints, or a sidecar of that version, has parsed statistics."""
    found = [*(place / LOG).glob(f"{version:020d}.checkpoint*.parquet")]
    found += (place / LOG / "_sidecars").glob(f"{version:020d}*.parquet")
    return any("stats_parsed" in pq_names(file) for file in found)


def pq_names(file: Path) -> list[str]:
    """The names of the fields of `add` in a Parquet file."""
    schema = pq.read_schema(file)
    return [field.name for field in schema.field("add").type] if "add" in schema.names else []
