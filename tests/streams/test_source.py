"""What the data source does where PySpark is not installed: it carries the package, and keeps secrets to itself."""

from __future__ import annotations

import json
import zlib

import pytest

from deltacli.spark.carried import carried_package
from deltacli.spark.source_plans import BatchPlan, searchable_faults
from deltacli.spark.streams.options import batch_options

SECRET = "nobody-may-see-this"


def test_the_carried_package_is_whole_and_smaller_than_what_spark_sends_as_a_file() -> None:
    content = carried_package().content

    assert {"deltacli/__init__.py", "deltacli/spark/source_plans.py"} <= json.loads(zlib.decompress(content)).keys()
    assert len(content) < 1_000_000


@pytest.mark.parametrize(
    "options",
    [
        {"path": "s3://bucket/t", "storage.secret_access_key": SECRET},
        {"path": "s3://bucket/t", "storage.unheard_of": SECRET},
        {"path": f"s3://key:{SECRET}@bucket/t"},
    ],
)
def test_a_secret_is_refused_and_not_shown(options: dict[str, str]) -> None:
    with pytest.raises(RuntimeError, match=r"^\[cluster\.secret\]") as caught, searchable_faults(options["path"]):
        BatchPlan(batch_options(options))

    assert SECRET not in str(caught.value)
