"""The extras of Spark alone in fresh environments: 60 s, because of their size."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.cli.support import make_sample
from tests.support.fresh import build_wheel, install

pytestmark = pytest.mark.skipif(
    os.environ.get("DELTACLI_CLUSTER", "local") != "local", reason="the same for every kind of cluster"
)


@pytest.mark.parametrize(
    ("extra", "options", "text", "of_drivers"),
    [
        (
            "spark",
            ("--remote", "sc://127.0.0.1:1"),
            "the cluster cannot be reached",
            {"pyspark.SparkContext", "pyspark.SparkFiles", "py4j"},
        ),
        ("spark-local", ("--master", "local[1]"), "--master needs Java 17 or newer", set()),
    ],
)
def test_an_extra_of_spark_alone_imports_runs_and_names_what_is_missing(
    extra: str, options: tuple[str, str], text: str, of_drivers: set[str], tmp_path: Path
) -> None:
    installed = install(build_wheel(tmp_path), extra, tmp_path / "env")
    sample = make_sample(tmp_path / "trips")

    imported = installed.import_all(("spark.", "engine.spark."))
    ran = installed.deltacli("history", sample, "--json")
    refused = installed.deltacli("snapshot", sample, "--engine", "spark", *options, JAVA_HOME="/nowhere")

    assert of_drivers == set(re.findall("No module named '(.*)'", imported.err)), imported.err
    assert int(imported.out) > 100
    assert (0, 15) == (ran.code, len(ran.document["items"]))
    assert refused.code in (2, 7), refused.err
    assert text in refused.err
    assert "Traceback" not in refused.err
