"""The commands on a cluster: a process of its own, its exit code, and what it leaves behind."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from pathlib import Path

import pytest

from tests.cli.support import make_sample
from tests.cluster.commands import run
from tests.support.clusters import Cluster
from tests.support.effort import is_soaking

CONSENT = ("--upgrade-protocol", "--yes")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A small table with files that can be deleted."""
    make_sample(tmp_path / "tbl")
    return tmp_path / "tbl"


def _leave_to_faster_drivers(cluster: Cluster) -> None:
    if cluster.kind == "local" and not is_soaking():
        pytest.skip("tried on the other clusters, where a driver starts faster")


def test_a_vacuum_on_the_cluster_deletes_what_the_embedded_one_plans(cluster: Cluster, table: Path) -> None:
    for number in range(5):
        orphan = table / f"orphan-{number}.parquet"
        orphan.write_bytes(b"x" * 10)
        os.utime(orphan, (0, 0))
    planned = json.loads(run("vacuum", str(table), "--dry-run", "--json", "--files").stdout)

    done = run("vacuum", str(table), "--yes", "--json", *cluster.options)

    assert (0, "") == (done.returncode, done.stderr)
    document = json.loads(done.stdout)
    assert planned["candidates"]["files"] == document["deleted"]["files"]
    assert not list(table.glob("orphan-*"))
    end = json.loads(sorted((table / "_delta_log").glob("*.json"))[-1].read_text().splitlines()[0])
    assert document["deleted"]["files"] == int(end["commitInfo"]["operationMetrics"]["numDeletedFiles"])


def test_a_v2_checkpoint_by_the_cluster_is_right(cluster: Cluster, table: Path) -> None:
    _leave_to_faster_drivers(cluster)
    written = run("checkpoint", str(table), "--layout", "v2", "--json", *cluster.options)
    verified = run("checkpoint", str(table), "--verify")

    assert written.returncode in (0, 4), written.stderr
    assert 0 == verified.returncode, verified.stdout


def test_rows_that_a_constraint_is_about_are_read_by_the_cluster(cluster: Cluster, table: Path) -> None:
    _leave_to_faster_drivers(cluster)
    before = len(list((table / "_delta_log").glob("0*.json")))

    refused = run("alter", str(table), "constraint", "add", "short", "trip < 10", *CONSENT, *cluster.options)
    made = run("alter", str(table), "constraint", "add", "positive", "trip >= 0", *CONSENT, *cluster.options)

    assert (4, True) == (refused.returncode, "violate CHECK constraint short" in refused.stderr)
    assert (0, before + 1) == (made.returncode, len(list((table / "_delta_log").glob("0*.json")))), made.stderr


def test_files_get_the_names_of_the_table_on_the_cluster(cluster: Cluster, table: Path) -> None:
    if not is_soaking():
        pytest.skip("six minutes: three barriers with a checkpoint each, by a driver each")
    for words in (("mapping", "name"), ("rename", "trip", "id")):
        assert 0 == run("alter", str(table), *words, *CONSENT).returncode
    rows = sorted(run("read", str(table), "--format", "csv", "--limit", "0").stdout.splitlines())

    dropped = run("features", str(table), "drop", "columnMapping", "--yes", "--json", *cluster.options)

    assert (0, False) == (dropped.returncode, json.loads(dropped.stdout)["dryRun"]), dropped.stderr
    assert rows == sorted(run("read", str(table), "--format", "csv", "--limit", "0").stdout.splitlines())
    assert 0 == run("validate", str(table), "--level", "data").returncode


@pytest.mark.parametrize("level", ["storage", "footers", "data"])
def test_findings_are_those_of_the_embedded_engine(level: str, cluster: Cluster, table: Path) -> None:
    if level != "data":
        _leave_to_faster_drivers(cluster)
    make_sample(table.parent / "damaged", damaged=True)
    arguments = ("validate", str(table.parent / "damaged"), "--level", level, "--json", "--now", "2026-01-04")

    here, there = run(*arguments), run(*arguments, *cluster.options)

    assert 1 == here.returncode
    assert (here.returncode, here.stdout, here.stderr) == (there.returncode, there.stdout, there.stderr)


def test_results_beyond_the_driver_limit_come_in_smaller_jobs(cluster: Cluster, table: Path) -> None:
    if cluster.settings.remote:
        pytest.skip("a server has this setting for all of its sessions")
    small = ("--spark-conf", "spark.driver.maxResultSize=64k")

    here = run("validate", str(table), "--level", "data", "--json", "--now", "2026-01-04")
    there = run("validate", str(table), "--level", "data", "--json", "--now", "2026-01-04", *cluster.options, *small)

    assert (here.returncode, here.stdout) == (there.returncode, there.stdout), there.stderr


def test_without_java_the_hint_installs_it(cluster: Cluster, table: Path, tmp_path: Path) -> None:
    if cluster.settings.remote:
        pytest.skip("a client of Connect needs no Java")

    done = run("snapshot", str(table), *cluster.options, JAVA_HOME=str(tmp_path))

    assert 2 == done.returncode
    assert "apt-get install openjdk-17-jre-headless" in done.stderr


def test_a_server_that_is_not_there_is_named(cluster: Cluster, table: Path) -> None:
    if not cluster.settings.remote:
        pytest.skip("for clusters that are reached over Connect")

    done = run("snapshot", str(table), "--counts", "--engine", "spark", "--remote", "sc://127.0.0.1:1")

    assert 7 == done.returncode
    assert "cannot be reached" in done.stderr


def test_no_file_of_a_run_is_left(cluster: Cluster, table: Path, tmp_path: Path) -> None:
    place = tmp_path / "tmp"
    place.mkdir()

    done = run("snapshot", str(table), "--digest", *cluster.options, TMPDIR=str(place))

    assert (0, "") == (done.returncode, done.stderr)
    assert [] == [path.name for path in place.iterdir() if path.name.startswith("deltacli")]


def test_the_archive_of_the_command_is_the_one_that_is_sent(cluster: Cluster, tmp_path: Path) -> None:
    first = run("spark", "package", "--to", str(tmp_path)).stdout.strip()
    content = Path(first).read_bytes()
    again = run("spark", "package", "--to", str(tmp_path)).stdout.strip()
    shutil.rmtree(tmp_path / "x", ignore_errors=True)

    assert first == again
    with zipfile.ZipFile(first) as archive:
        names = archive.namelist()
    assert "deltacli/engine/spark/worker.py" in names
    assert not [name for name in names if "/cli/" in name or "pycache" in name]
    assert content == Path(again).read_bytes()
