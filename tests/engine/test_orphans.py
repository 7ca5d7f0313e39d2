"""Which connection the worker of a Spark task watches: the one of its task, and no other of the same process."""

from __future__ import annotations

import os
import socket
from typing import Any

import pytest

from deltacli.engine.spark import worker_lifetime

_AS_IN_PYSPARK = """
def main(infile, outfile):
    return look()
"""


def _look_below_main(infile: Any) -> int | None:
    """Look from below a function like the one of PySpark that runs a task."""
    module: dict[str, Any] = {"__name__": "pyspark.worker", "look": worker_lifetime._find_spark_connection}
    exec(_AS_IN_PYSPARK, module)  # a frame of a module of that name
    found: int | None = module["main"](infile, None)
    return found


def test_a_worker_watches_the_stream_of_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, spark = socket.socketpair()
    monkeypatch.setattr(worker_lifetime, "_OPEN_AT_FIRST", [spark.fileno()])

    with ours, spark, os.fdopen(os.dup(ours.fileno()), "rb") as infile:
        assert infile.fileno() == _look_below_main(infile)


@pytest.mark.parametrize("descriptors, expected", [([], None), ([7], 7), ([7, 8], None)])
def test_elsewhere_it_watches_only_what_is_certain(
    descriptors: list[int], expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_lifetime, "_OPEN_AT_FIRST", descriptors)

    assert expected == worker_lifetime._find_spark_connection()
