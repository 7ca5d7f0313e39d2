"""The Spark engine gives the answers of the embedded one, on real tables and for every operation that it runs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from deltacli import open_table
from deltacli.core.errors import Refused
from deltacli.engine.base import Engine
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.engine.spark.engine import SparkEngine
from tests.engine.test_run_tasks import OPERATIONS, answer_of
from tests.support import corpus
from tests.support.effort import is_soaking
from tests.support.rows import parquet_bytes, schema_of, table_of

SMOKE = ("derived/written-by-deltalake-a", "delta-rs/checkpoint-v2-table", "spark/table-with-dv-small")
SAMPLE = (
    *SMOKE,
    "delta-rs/table-with-domain-metadata",
    "delta-rs/cdc_ict_table",
    "golden/canonicalized-paths-normal-a",
    "delta-rs/delta-checkpoint-stats-optional",
    "kernel-rs-uc/catalog_managed_0",
    "golden/data-reader-timestamp_ntz-id-mode",
    "kernel-rs/crc-malformed",
    "spark/dbr_8_1_generated_columns",
    "spark/variant-stats-with-struct-no-checkpoint",
    "unitycatalog/external/unity/default/tables/marksheet_uniform",
    "delta-rs-err/table_h",
    "derived/checkpoint-part-missing-a",
    "derived/empty-directory-a",
    "delta-rs/issue-2152",
    "derived/void-and-nested-a",
    "spark/table-with-dv-special-char",
    "delta-rs/delta-live-table",
    "delta-rs/delta-2.2.0-partitioned-types",
    "golden/collations-preview-table",
    "derived/unknown-writer-feature-a",
    "derived/dv-inline-a",
    "delta-rs/table_with_partitioning_mapping",
    "delta-rs/checkpoint_with_partitions",
    "kernel-rs/type-widening",
    "spark/history/delta-0.2.0",
    "derived/log-compaction-wrong-a",
    "kernel-rs/v2-checkpoints-parquet-without-sidecars",
    "derived/last-checkpoint-garbage-a",
    "kernel-rs/v2-classic-checkpoint-json",
    "golden/multi-part-checkpoint",
)
"""The fewest small tables that together have each feature of the corpus."""
EVERY = 3
"""In the gate, an operation is tried on every third table of the sample, and a table by every third operation.

`tests/engine` sends tasks of all tables through other processes, without Spark.
"""


def _require_same(name: str, tables: tuple[str, ...], engine: SparkEngine) -> None:
    for table in tables:
        uri = str(corpus.table(table).path(corpus.unpacked()))
        assert answer_of(OPERATIONS[name], uri, EmbeddedEngine()) == answer_of(OPERATIONS[name], uri, engine), table


@pytest.mark.parametrize("name", OPERATIONS)
def test_smoke_answers_are_those_of_the_embedded_engine(name: str, spark_engine: SparkEngine) -> None:
    _require_same(name, SMOKE, spark_engine)


@pytest.mark.parametrize("name", OPERATIONS)
def test_sample_answers_are_those_of_the_embedded_engine(name: str, spark_engine: SparkEngine) -> None:
    first = list(OPERATIONS).index(name) % EVERY
    _require_same(name, SAMPLE if is_soaking() else (*SMOKE, *SAMPLE[len(SMOKE) :][first::EVERY]), spark_engine)


@pytest.mark.parametrize("last", [None, 7])
def test_nulls_stop_not_null_as_on_the_embedded_engine(
    last: int | None, spark_engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files without statistics are read by the cluster: nobody else opens one of them."""
    files = {
        f"{number}.parquet": parquet_bytes(pa.table({"n": pa.array([number, value], pa.int64())}))
        for number, value in enumerate((1, 2, 3, 4, last))
    }
    here, there = (
        table_of(files, schema_of(pa.table({"n": pa.array([], pa.int64())}))).write(tmp_path / name)
        for name in ("here", "there")
    )

    def verdict(place: Path, engine: Engine) -> str:
        try:
            done = open_table(place, engine=engine).alter(
                [{"change": "not-null", "column": "n"}], upgrade_protocol=True
            )
        except Refused as refused:
            return f"{refused.code}: {refused.message}".replace(str(place), "")
        return str(done.committed_version)

    expected = verdict(here, EmbeddedEngine())
    monkeypatch.setattr(EmbeddedEngine, "run_tasks", None)  # what would read rows in this process
    assert expected == verdict(there, spark_engine)
    assert expected == "1" if last else "1 null in 1 file violates column n (NOT NULL), first in 4.parquet" in expected
    assert (2 if last else 1) == len(list((there / "_delta_log").glob("*.json")))


def test_the_sample_has_every_feature_of_small_tables() -> None:
    features = {feature for entry in corpus.tables() for feature in entry.entry["features"]}
    sampled = {feature for entry in corpus.tables() if entry.id in SAMPLE for feature in entry.entry["features"]}

    assert {"large"} == features - sampled
