"""Pulling a table from its directory: the copy that a pull by URLs makes, difference by difference."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli import open_table
from deltacli.changing.change import execute_change, plan_change
from deltacli.core.errors import DeltacliError
from deltacli.sharing import Client
from deltacli.sharing.pulling.local_table import WORKSPACE
from deltacli.sharing.pulling.pull import Pull, PullRequest, PullResult
from tests.sharing.client.vending import Vending, vending
from tests.sharing.pulling.origin import Origin, pull_from, rows_of
from tests.support import corpus
from tests.support.s3 import S3Server


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    return Origin(tmp_path / "origin").append(range(10)).append(range(10, 15))


@pytest.fixture
def server(origin: Origin, tmp_path: Path, s3: S3Server) -> Iterator[Vending]:
    with vending(tmp_path, origin.path, s3) as found:
        yield found


def publish(server: Vending, table: Path) -> None:
    """Copy a table to its bucket again."""
    for path in table.rglob("*.*"):
        server.cloud.put(server.root.split("/")[2], f"lake/t/{path.relative_to(table)}", path.read_bytes())


def described(target: Path, result: PullResult) -> tuple[Any, ...]:
    """What a pull made, without what differs from run to run."""
    adds = [
        {name: value for name, value in json.loads(line)["add"].items() if name != "modificationTime"}
        for path in sorted((target / "_delta_log").glob("*.json"))
        for line in path.read_text().splitlines()
        if '"add"' in line
    ]
    names = sorted(path.name for path in target.iterdir())
    document = {**result.as_json(), "target": "", "bytesDownloaded": 0, "bytesToDownload": 0}
    return names, sorted(adds, key=repr), document


CORPUS = [
    "dat/deletion_vectors",
    "dat/multi_partitioned_2",
    "delta-rs/table-with-dv-small",
    "delta-rs/table_with_column_mapping",
    "golden/data-reader-escaped-chars",
]


@pytest.mark.parametrize("name", CORPUS)
def test_both_ways_make_the_same_table(name: str, tmp_path: Path, s3: S3Server) -> None:
    place = corpus.table(name).path(corpus.unpacked())
    with vending(tmp_path, place, s3) as server:
        made = {access: pull_from(server.open(access), tmp_path / access) for access in ("url", "dir")}
        assert described(tmp_path / "url", made["url"]) == described(tmp_path / "dir", made["dir"])
        again = pull_from(server.open("dir"), tmp_path / "url")

    assert (False, True) == (again.is_committed, again.is_unchanged)
    rows = [
        sorted(map(repr, open_table(one).snapshot().scan().to_arrow().to_pylist())) for one in (place, tmp_path / "dir")
    ]
    assert rows[0] == rows[1]


def test_later_pulls_download_only_what_is_new(server: Vending, origin: Origin, tmp_path: Path) -> None:
    target = tmp_path / "local"
    first = pull_from(server.open(), target)
    origin.append(range(20, 22), removing=1)
    publish(server, origin.path)
    server.cloud.requests.clear()

    planned = pull_from(server.open(), target, dry_run=True)
    second = pull_from(server.open(), target)

    assert (0, 1, 2) == (first.local_version, first.shared_version, len(first.difference.wanted))
    assert (1, 2, 1) == (second.local_version, second.shared_version, len(second.difference.wanted))
    assert planned.difference == second.difference
    assert 1 == len({path for _, path, _ in server.cloud.requests if path.endswith(".parquet")})
    assert [*range(10, 15), 20, 21] == rows_of(target)
    assert not server.asked("/query")


def test_a_file_continues_where_a_pull_of_the_same_content_ended(origin: Origin, tmp_path: Path, s3: S3Server) -> None:
    large = pa.table({"a": pa.array(range(200_000), pa.int64())})
    pq.write_table(large, origin.path / "large.parquet", compression="none", use_dictionary=False)
    size = (origin.path / "large.parquet").stat().st_size
    add = {**origin.files[0], "path": "large.parquet", "size": size, "stats": json.dumps({"numRecords": 200_000})}
    origin.commit({"add": add})
    data = (origin.path / "large.parquet").read_bytes()
    with vending(tmp_path, origin.path, s3) as server:
        storage = server.open()
        with storage.open("large.parquet") as opened:
            tag = storage.tag("large.parquet", opened)
        plan = pull_from(storage, tmp_path / "local", dry_run=True)
        (name,) = (file.name for file in plan.difference.wanted if file.size_bytes == size)
        received = {}
        for case, begin, its_tag in (
            ("same", data[: 1 << 20], tag),
            ("other", b"x" * 9, '"another"'),
            ("bad", b"x" * 9, tag),
        ):
            workspace = tmp_path / case / WORKSPACE
            workspace.mkdir(parents=True)
            (workspace / f"{name}.part").write_bytes(begin)
            (workspace / f"{name}.part.tag").write_text(its_tag)
            unfinished = {**plan.source.facts, "version": plan.shared_version}
            (workspace / "pull.json").write_text(json.dumps(unfinished))

            received[case] = pull_from(server.open(), tmp_path / case).received_bytes
            assert data == (tmp_path / case / name).read_bytes()

    others = sum((origin.path / file["path"]).stat().st_size for file in origin.files)
    assert {"same": size - (1 << 20) + others, "other": size + others, "bad": 2 * size - 9 + others} == received


def test_a_file_that_is_gone_or_has_another_size_is_not_committed(
    server: Vending, origin: Origin, tmp_path: Path
) -> None:
    target, bucket = tmp_path / "local", server.root.split("/")[2]
    name = origin.files[0]["path"]
    server.cloud.put(bucket, f"lake/t/{name}", b"PAR1")
    with pytest.raises(DeltacliError, match="size") as other:
        pull_from(server.open(), target)
    request = PullRequest(str(target))
    change = Pull(server.open(), request)
    plan = plan_change(change, request.target())
    server.cloud._backend.delete_object(bucket, f"lake/t/{name}")
    with pytest.raises(DeltacliError, match="is gone from the directory") as gone:
        execute_change(change, plan.base_version.table, plan=plan)
    origin.append(range(3), removing=1)
    publish(server, origin.path)
    server.cloud._backend.delete_object(bucket, f"lake/t/{name}")

    result = execute_change(change, plan.base_version.table, plan=plan)

    assert ("share.file-differs", "share.moved-on") == (other.value.code, gone.value.code)
    assert (2, [0, 1, 2, *range(10, 15)]) == (result.shared_version, rows_of(target))


def test_files_outside_the_locations_are_not_fetched(server: Vending, origin: Origin, tmp_path: Path) -> None:
    other = server.cloud.make_bucket()
    server.cloud.put(other, "x.parquet", (origin.path / origin.files[0]["path"]).read_bytes())
    origin.commit({"add": {**origin.files[0], "path": f"s3://{other}/x.parquet"}})
    publish(server, origin.path)
    server.cloud.requests.clear()

    with pytest.raises(DeltacliError, match="outside"):
        pull_from(server.open(), tmp_path / "local")

    assert not [path for _, path, _ in server.cloud.requests if other in path]
    assert not (tmp_path / "local" / "_delta_log").exists()


def test_python_pulls_the_directory_that_is_offered_alone(server: Vending, tmp_path: Path) -> None:
    server.members["accessModes"] = ["dir"]
    table = Client(server.proxy.profile, clock=lambda: server.now_ms).table(
        "Sales.Main.t", storage_options=server.options
    )

    result = table.pull(tmp_path / "local", verify="data")
    planned = table.plan_pull(tmp_path / "other")

    rows = open_table(tmp_path / "local").snapshot().scan().to_arrow()["a"].to_pylist()
    assert (True, list(range(15))) == (result.is_committed, sorted(rows))
    assert table.execute_pull(planned).is_committed
    assert not server.asked("/query")
