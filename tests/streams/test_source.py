"""What the data source does where PySpark is not installed: it carries the package, and keeps secrets to itself."""

from __future__ import annotations

import json
import sys
import zlib

import pytest

from deltacli.spark.carried import carried_package
from deltacli.spark.source_options import batch_options
from deltacli.spark.source_plans import BatchPlan, searchable_faults

SECRET = "nobody-may-see-this"


def test_the_carried_modules_are_those_that_are_needed_and_few() -> None:
    content = carried_package().content

    found = json.loads(zlib.decompress(content)).keys()
    assert {"deltacli/__init__.py", "deltacli/spark/source_plans.py", "deltacli/storage/s3/store.py"} <= found
    assert not {"deltacli/api/table.py", "deltacli/cli/__init__.py"} & found
    assert len(content) < 320_000  # Spark sends it twice, and warns of a megabyte


def test_a_process_with_other_modules_of_deltacli_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    package = carried_package()
    package.make_importable()
    package.make_importable()
    older = type(package)(package.content, "another digest", package.version)

    with pytest.raises(RuntimeError, match=r"^\[cluster\.other-version\]"):
        older.make_importable()


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
