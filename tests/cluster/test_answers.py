"""The Spark engine gives the answers of the embedded one, on real tables and for every operation that it runs."""

from __future__ import annotations

import pytest

from deltacli.engine.embedded import EmbeddedEngine
from deltacli.engine.spark.engine import SparkEngine
from tests.engine.test_spread import OPERATIONS, answer_of
from tests.support import corpus

SAMPLE = ("dat/with_checkpoint", "delta-rs/checkpoint-v2-table", "delta-rs/table-with-dv-small")


@pytest.mark.skipif(not corpus.tables(), reason=corpus.absence())
@pytest.mark.parametrize("table", SAMPLE)
@pytest.mark.parametrize("name", OPERATIONS)
def test_smoke_answers_are_those_of_the_embedded_engine(name: str, table: str, spark_engine: SparkEngine) -> None:
    (entry,) = (entry for entry in corpus.tables() if entry.id == table)
    uri = str(entry.path(corpus.unpacked()))

    assert answer_of(OPERATIONS[name], uri, EmbeddedEngine()) == answer_of(OPERATIONS[name], uri, spark_engine)
