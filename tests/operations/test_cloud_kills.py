"""Operations on clouds, killed before any of their requests: the table reads the same, and the next run finishes."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cli.support import ROOT
from tests.support.cloud import Asked, CloudServer, Said
from tests.support.clouds import CLOUDS, OPERATIONS, Cloud, Judge, cloud_of, rows, sample_at, versions
from tests.support.killing import Killer
from tests.support.waiting import SECONDS

ORPHAN = "day=2026-01-01/orphan.parquet"
IN_LONG = (1, -2, -1)
"""The requests that `dev.py long` kills before; `dev.py soak clouds` takes all."""


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_at(tmp_path_factory.mktemp("sample") / "t")


def check_kills(cloud: Cloud, operation: str, chosen: tuple[int, ...] | None, place: Path) -> int:
    """Kill an operation before its requests, look at the table each time, and run it again."""
    judge = Judge(cloud, operation, place)
    killer = Killer(cloud.uri, operation, cloud.now_ms, cloud.options)
    try:
        cloud.reset()
        count = int(killer.run(-1))
        for at in range(count) if chosen is None else sorted({place % count for place in chosen}):
            cloud.reset()
            assert "killed" == killer.run(at)
            judge.look()
            _check_next_run(cloud, operation, judge)
        judge.ask_deltalake()
        return count
    finally:
        killer.stop()


def _check_next_run(cloud: Cloud, operation: str, judge: Judge) -> None:
    OPERATIONS[operation](cloud.table())
    table, names = cloud.table(), cloud.files()
    assert judge.before == rows(table)
    match operation:
        case "properties":
            assert "yes" == table.snapshot().properties["kept"]
        case "vacuum":
            assert ORPHAN not in names
        case "expire":
            assert 0 not in versions(names)
        case "optimize":
            assert not table.optimize().versions
        case "checkpoint":
            assert any("00000000000000000014.checkpoint" in name for name in names)


@pytest.mark.long
@pytest.mark.parametrize("operation", ["properties", "vacuum"])
def test_a_kill_at_some_requests_loses_nothing(
    operation: str, request: pytest.FixtureRequest, sample: Path, tmp_path: Path
) -> None:
    assert check_kills(cloud_of("gcs", request, sample), operation, IN_LONG, tmp_path) >= 3


@pytest.mark.soak
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("store", CLOUDS)
def test_a_kill_before_any_request_loses_nothing(
    store: str,
    operation: str,
    request: pytest.FixtureRequest,
    sample: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    count = check_kills(cloud_of(store, request, sample), operation, None, tmp_path)

    with capfd.disabled():
        sys.stderr.write(f"\nKILLS {store}, {operation}: before each of {count} requests\n")


@pytest.mark.long
@pytest.mark.parametrize("done", ["nothing", "half", "all"])
def test_a_vacuum_of_s3_that_is_killed_while_the_store_deletes_loses_nothing(
    done: str, request: pytest.FixtureRequest, sample: Path, tmp_path: Path
) -> None:
    cloud = cloud_of("s3", request, sample)
    judge = Judge(cloud, "vacuum", tmp_path)
    cloud.reset()
    names = sorted(f"t/{name}" for name in cloud.files())
    running: list[subprocess.Popen[bytes]] = []

    def dies(server: CloudServer, asked: Asked) -> Said:
        """Delete some of the keys, and kill the process before the answer."""
        keys = re.findall(r"<Key>([^<]+)</Key>", asked.body.decode())
        assert 12 == len(keys)
        for key in keys[: {"nothing": 0, "half": 6, "all": 12}[done]]:
            server.answer(asked._replace(body=f"<Delete><Object><Key>{key}</Key></Object></Delete>".encode()))
        running[0].kill()
        running[0].wait(SECONDS)
        return Said(0, is_cut=True)

    cloud.server.fail("POST", "?delete", dies)
    now = datetime.fromtimestamp(cloud.now_ms / 1_000, UTC).isoformat()
    words = ["vacuum", cloud.uri, "--yes", "--max-delete", "100%", "--now", now]
    running.append(subprocess.Popen([sys.executable, "-m", "deltacli", *words], cwd=ROOT))
    assert -signal.SIGKILL == running[0].wait(SECONDS)

    left = sorted(f"t/{name}" for name in cloud.files())
    assert {"nothing": 0, "half": 6, "all": 12}[done] == len(set(names) - set(left))
    assert judge.before == rows(cloud.table())
    assert [14, 15] == [item.version for item in cloud.table().history(limit=2).items][::-1]
    _check_next_run(cloud, "vacuum", judge)
    assert 12 == len(set(names) - {f"t/{name}" for name in cloud.files()})
    operations = [str(item.operation) for item in cloud.table().history(limit=3).items]
    finished = ["VACUUM START", "WRITE", "WRITE"] if done == "all" else ["VACUUM END", "VACUUM START", "VACUUM START"]
    assert finished == operations
