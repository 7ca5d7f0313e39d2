"""What the data source does where PySpark is not installed: it carries the package, and keeps secrets to itself."""

from __future__ import annotations

import bz2
import importlib.util
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

from deltacli import open_table
from deltacli.core.errors import UsageError
from deltacli.engine.spark.package_archive import write_package
from deltacli.engine.spark.spark_errors import make_cluster_error
from deltacli.spark import carried_modules
from deltacli.spark.carried_modules import carried_package
from deltacli.spark.source_options import BatchOptions, batch_options, column_options
from deltacli.spark.source_plans import BatchPlan, ChangesPlan, searchable_faults
from tests.cli.support import ROOT, make_sample
from tests.support.actions import metadata, protocol
from tests.support.builder import TableBuilder

SECRET = "nobody-may-see-this"


@pytest.mark.halved
def test_the_carried_modules_are_those_that_are_needed_and_few() -> None:
    content = carried_package().content

    found = json.loads(bz2.decompress(content)).keys()
    assert {"deltacli/__init__.py", "deltacli/spark/source_plans.py", "deltacli/storage/s3/store.py"} <= found
    assert not {"deltacli/api/table.py", "deltacli/cli/__init__.py"} & found
    assert len(content) < 460_000  # Spark sends it twice, and warns of 1,000 KiB


def test_a_process_with_other_modules_of_deltacli_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    package = carried_package()
    package.make_importable()
    package.make_importable()
    older = type(package)(package.content, package.packed_by, "another digest", package.version)

    with pytest.raises(RuntimeError, match=r"^\[cluster\.other-version\]"):
        older.make_importable()


def test_a_package_that_a_process_lacks_is_named_with_its_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    carried_package().make_importable()
    monkeypatch.setattr(sys.meta_path[-1], "packages", ("no_such_package",))

    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module("no_such_package")

    assert f"'no_such_package' in the Python of this process of Spark, {sys.executable}; try: " in str(caught.value)
    assert "cluster.module" == make_cluster_error(caught.value).code
    assert importlib.util.find_spec("no_such_package") is None


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


def test_files_without_matching_rows_are_not_sent_to_executors(tmp_path: Path) -> None:
    path = str(make_sample(tmp_path / "tbl"))
    options = {"path": path, "columns": "ride,trip", "where": "day = '2026-01-01'"}

    plan = BatchPlan(batch_options(options))

    expected = open_table(path).snapshot().scan(columns=["ride", "trip"], where=options["where"])
    assert ["ride", "trip"] == [column.name for column in plan.columns]
    assert 10 == len(list(plan.scan.data_files()))
    assert expected.count() == plan.scan.count()


def test_a_misspelled_column_of_the_data_source_is_answered_with_its_name_alone(tmp_path: Path) -> None:
    path = str(make_sample(tmp_path / "tbl"))

    with pytest.raises(RuntimeError) as wrong, searchable_faults(path):
        BatchPlan(batch_options({"path": path, "columns": "trp"}))

    assert "[usage.column] the table has no column trp; did you mean: trip" == str(wrong.value)


def test_changes_of_a_range_are_planned_like_those_of_the_api(tmp_path: Path) -> None:
    path = str(make_sample(tmp_path / "tbl"))
    feed = {"path": path, "readChangeFeed": "true", "startingVersion": "9", "endingVersion": "9", "columns": '["trip"]'}

    plan = ChangesPlan(batch_options(feed))

    assert (
        open_table(path).changes(from_version=9, to_version=9, columns=["trip"]).to_arrow() == plan.changes.to_arrow()
    )
    assert ["trip", "_change_type", "_commit_version", "_commit_timestamp"] == [column.name for column in plan.columns]


def test_columns_of_a_stream_that_only_has_a_start_are_those_of_a_read() -> None:
    """Spark asks for columns before it says whether it reads once or follows the table."""
    feed = {"path": "/t", "readChangeFeed": "true", "startingVersion": "1"}

    assert BatchOptions("/t") == column_options({"path": "/t", "startingVersion": "latest"})
    assert batch_options(feed) == column_options(feed)


@pytest.mark.parametrize(
    "options",
    [
        {"startingVersion": "1"},
        {"endingVersion": "1"},
        {"readChangeFeed": "true", "startingVersion": "0", "versionAsOf": "1"},
        {"columns": "[1]"},
        {"columns": "a,,b"},
        {"where": " "},
    ],
)
def test_options_of_a_read_that_do_not_fit_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        batch_options({"path": "/t", **options})


def in_a_process(then: str, directory: Path) -> str:
    """What a program prints that finds deltacli only among the carried modules, and which they are."""
    package = directory / "package"
    package.write_bytes(carried_package().content)
    program = f"""
import sys
sys.path = [entry for entry in sys.path if {str(ROOT)!r} != entry]
sys.meta_path = [finder for finder in sys.meta_path if "editable" not in repr(finder)]
import importlib.machinery, importlib.util, bz2, json
from typing import Any
{inspect.getsource(carried_modules._finder_class)}
finder = _finder_class()(json.loads(bz2.decompress(open({str(package)!r}, "rb").read())), "digest")
sys.meta_path.insert(0, finder)
import deltacli.spark.source_plans
{then}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=directory, check=False)
    return done.stdout or done.stderr


@pytest.mark.halved
def test_a_process_finds_modules_of_the_archive_beside_the_carried_ones(tmp_path: Path) -> None:
    archive = write_package(tmp_path)
    then = f"""
sys.path.append({str(archive)!r})
import deltacli.spark.care.fact_rows as found
print(found.__spec__.origin)
"""

    assert in_a_process(then, tmp_path).startswith(str(archive))


@pytest.mark.halved
def test_a_process_finds_the_rules_that_the_plan_of_an_append_asks(tmp_path: Path) -> None:
    place = TableBuilder().commit(protocol(), metadata()).write(tmp_path / "t")
    then = f"""
from deltacli.changing.change import plan_change
from deltacli.operations.change.append import Append
from deltacli.table.handle import TableHandle
from deltacli.storage import LocalStorage
import pyarrow
plan = plan_change(Append(pyarrow.schema([])), TableHandle(LocalStorage({str(place)!r})))
print(plan.base_version.version, plan.refusals)
"""

    assert in_a_process(then, tmp_path) == "0 ()\n"
