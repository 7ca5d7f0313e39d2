"""A plan over a store with a latency: its requests are sent in parallel."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from urllib.request import urlopen

import pytest

from benchmarks.s3_stub import BUCKET, Bucket, Stub, serving
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.fleet.planning.due import plan_fleet
from deltacli.fleet.policy_file.reading import require_fleet_file
from deltacli.storage import open_storage
from deltacli.storage.base import PARALLEL_READS
from tests.fleet.lake import NOW_MS
from tests.support.builder import TableBuilder
from tests.support.s3 import ENVIRONMENT
from tests.support.waiting import SECONDS, join

LATENCY = 0.2
TABLES = 400
POLICY = f"""\
[policies.base]
checkpoint.commits = 5
[groups.lake]
policy = "base"
globs = ["s3://{BUCKET}/tables/*"]
"""


@contextmanager
def served(bucket: Bucket) -> Iterator[str]:
    """Serve a bucket in a thread, and yield its URL."""
    loop, stub = asyncio.new_event_loop(), Stub(bucket, LATENCY)
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(serving(stub, 0), loop).result(SECONDS)

    async def close() -> None:
        server.close()
        stub.disconnect()
        await asyncio.sleep(0)  # the connections are closed in the next round of the loop

    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    asyncio.run_coroutine_threadsafe(close(), loop).result(SECONDS)
    loop.call_soon_threadsafe(loop.stop)
    join(thread)
    loop.close()


def bucket_of(tables: int, *, large: int = 0) -> Bucket:
    """Return a bucket of small tables, and one with so many log files."""
    files = {path: file.data for path, file in TableBuilder().commits(6).checkpoint(5).hint(5).files.items()}
    objects = {f"tables/t{n:04d}/{path}": data for n in range(tables) for path, data in files.items()}
    log = {f"tables/t0000/_delta_log/{version:020d}.json": b"{}\n" for version in range(6, large)}
    return Bucket(keys=sorted(objects | log), objects=objects | log)


@pytest.mark.soak
@pytest.mark.parametrize("large", [0, 20_000])
def test_a_plan_takes_what_its_calls_take_in_parallel(
    large: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fleet.toml").write_text(POLICY)
    file = require_fleet_file(tmp_path / "fleet.toml")
    with served(bucket_of(TABLES, large=large)) as url:
        for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": url}.items():
            monkeypatch.setenv(name, value)
        began = time.monotonic()
        plan = plan_fleet(file, open_storage, EmbeddedEngine(), NOW_MS)
        seconds = time.monotonic() - began
        served_calls = json.loads(urlopen(f"{url}/-/calls").read())

    calls = sum(count for count, _ in served_calls.values())
    service = sum(spent for _, spent in served_calls.values()) / calls
    expected = calls * (LATENCY + service) / PARALLEL_READS
    with capsys.disabled():
        os.write(1, f"\n{calls:.0f} calls, {seconds:.1f} s, {seconds / expected:.2f} of the expected time\n".encode())
    assert TABLES == len(plan.tables) - plan.unreadable
    assert 1.5 > seconds / expected
