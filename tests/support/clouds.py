"""Copies of the sample table in every cloud, the operations that write, and a look at what they leave."""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import time
from typing import Any

import pyarrow
import pytest

from deltacli.api.table import Table
from deltacli.changing.commit import commit
from deltacli.core.machine import fixed_clock
from deltacli.storage import Storage, open_storage
from deltacli.storage.retry import Retry
from tests.cli.support import make_sample
from tests.support import azure as azure_stub
from tests.support import gcs as gcs_stub
from tests.support.azure import ACCOUNT, AzureServer
from tests.support.azurite import PROGRAM, Azurite
from tests.support.cloud import CloudServer, Said
from tests.support.file_commits import touch
from tests.support.gcs import GcsServer, service_account
from tests.support.gcs_api import GcsApi
from tests.support.peers import Task, ask_for_rows, peer_python
from tests.support.relay import Relay, s3_problem
from tests.support.s3 import S3Server

NOW_MS = 1_774_000_000_000
"""Eleven weeks after the last commit of the sample: tombstones and commits have expired."""
_ELEVEN_WEEKS_MS = 77 * 86_400_000
NEWEST = 14
"""The version of the sample."""

Operation = Callable[[Table], object]
OPERATIONS: Mapping[str, Operation] = {
    "properties": lambda table: table.set_properties({"kept": "yes"}),
    "files": lambda table: commit(table, touch),
    "checkpoint": lambda table: table.checkpoint(),
    "widen-type": lambda table: table.widen_type(("ride.fare", "decimal(10,2)"), enable=True, upgrade_protocol=True),
    "vacuum": lambda table: table.vacuum(max_delete="100%"),
    "expire": lambda table: table.expire_log(),
    "optimize": lambda table: table.optimize(),
}
COMMITS = {"properties": 1, "files": 1, "checkpoint": 0, "widen-type": 1, "vacuum": 2, "expire": 0, "optimize": 1}


def mark_of(name: str, data: bytes) -> int:
    """What tells the content of a file from others: a digest, or the size of a commit, whose id differs in each run."""
    return len(data) if name.endswith(".json") else zlib.crc32(data)


def restoring(objects: dict[str, Any]) -> Callable[[], None]:
    """What brings the objects of a stub back to those of now."""
    first = dict(objects)

    def restore() -> None:
        objects.clear()
        objects.update(first)

    return restore


@dataclass(frozen=True)
class Cloud:
    """A copy of the sample in a store. `server` counts requests and fails on demand; `problem` makes errors in the
    words of the store; `files` are the names that it holds, with what tells contents apart; `restore` undoes writes;
    `rotate` lets the store refuse the credentials so far, and hands out others.
    """

    name: str
    server: CloudServer
    uri: str
    problem: Callable[[int, str], Said]
    files: Callable[[], Mapping[str, int]]
    restore: Callable[[], None]
    rotate: Callable[[], None] | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    now_ms: int = NOW_MS

    def open(self, uri: str) -> Storage:
        return open_storage(uri, self.options, retry=Retry(pause=lambda _: None))

    def storage(self) -> Storage:
        return self.open(self.uri)

    def table(self) -> Table:
        return Table(self.storage(), clock=fixed_clock(self.now_ms), open_other=self.open)

    def reset(self) -> None:
        """Undo everything that was written, and forget requests and faults."""
        self.server.forget()
        self.restore()
        self.server.requests.clear()


def sample_at(root: Path) -> Path:
    """Write the sample, with a file that is not in its log."""
    make_sample(root)
    (root / "day=2026-01-01" / "orphan.parquet").write_bytes(b"not in the log")
    os.utime(root / "day=2026-01-01" / "orphan.parquet", (1_767_258_000, 1_767_258_000))
    return root


def files_of(root: Path) -> Iterator[tuple[str, bytes, int]]:
    """The paths of files below a directory, their content and their times."""
    for file in sorted(root.rglob("*")):
        if file.is_file():
            yield file.relative_to(root).as_posix(), file.read_bytes(), file.stat().st_mtime_ns // 1_000_000


def rows(table: Table) -> list[dict[str, Any]]:
    """The rows of the newest version in their order by trip; fares as text, because they are widened."""
    return _comparable(pyarrow.Table.from_batches(list(table.snapshot().scan())))


def _comparable(found: pyarrow.Table) -> list[dict[str, Any]]:
    listed = sorted(found.to_pylist(), key=lambda row: row["trip"])
    return [{**row, "ride": {**row["ride"], "fare": str(row["ride"]["fare"])}} for row in listed]


def versions(names: Iterable[str]) -> list[int]:
    """The versions whose commits are among the names."""
    found = (name.removeprefix("_delta_log/") for name in names)
    return sorted(int(name[:20]) for name in found if len(name) == 25 and name.endswith(".json"))


def plain(name: str) -> str:
    """A name without what differs from run to run."""
    name = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "id", name)
    return name.split(".checkpoint.", maxsplit=1)[0] + ".checkpoint" if ".checkpoint." in name else name


class Judge:
    """Looks at what runs of an operation leave: each state once, and all of them by deltalake in the end."""

    def __init__(self, cloud: Cloud, operation: str, place: Path) -> None:
        self._cloud, self._operation, self._place = cloud, operation, place
        self._known: dict[frozenset[tuple[str, int]], int] = {}
        cloud.reset()
        self.before = rows(cloud.table())
        self.look()

    def look(self) -> int:
        """How many commits were made; whatever was lost or invented is an AssertionError."""
        files = self._cloud.files()
        state = frozenset((plain(name), mark) for name, mark in files.items())
        if state not in self._known:
            self._copy(files, self._place / f"state-{len(self._known)}")
            self._known[state] = self._judge(files)
        return self._known[state]

    def _judge(self, files: Mapping[str, int]) -> int:
        table = self._cloud.table()
        made = table.snapshot().version - NEWEST
        assert self.before == rows(table)
        assert 0 <= made <= COMMITS[self._operation]
        assert list(range(NEWEST + 1 + made)) == versions(files) or self._operation == "expire"
        if self._operation == "properties":
            assert ("yes" if made else None) == table.snapshot().properties.get("kept")
        if self._operation == "files":
            assert (touch(table.snapshot()) is None) == bool(made)
        return made

    def _copy(self, files: Mapping[str, int], place: Path) -> None:
        storage = self._cloud.storage()
        for name in files:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(storage.read(name))

    def ask_deltalake(self) -> int:
        """Compare the rows that deltalake reads in each state; return the number of states that it can read."""
        python = peer_python()
        if python is None:
            return 0
        tasks = [Task(str(place), str(place), None) for place in sorted(self._place.glob("state-*"))]
        found = ask_for_rows(python, "rows_with_deltalake.py", tasks, self._place)
        read = [rows.place for rows in found if rows.place is not None]
        for place in read:
            assert self.before == _comparable(pyarrow.ipc.open_file(place).read_all())
        refused = [rows.refusal for rows in found if rows.place is None]
        assert all("TypeWidening" in (reason or "") for reason in refused), refused
        return len(read)


def in_gcs(request: pytest.FixtureRequest, sample: Path, *, fixture: str = "gcs") -> Cloud:
    server: GcsServer | GcsApi = request.getfixturevalue(fixture)
    request.getfixturevalue("monkeypatch").setattr(server, "now_ms", NOW_MS)
    bucket = server.make_bucket()
    for path, data, modified_ms in files_of(sample):
        server.put(bucket, f"t/{path}", data, modified_ms)
    objects: dict[str, Any] = server.buckets[bucket]
    return Cloud(
        "gcs",
        server,
        f"gs://{bucket}/t",
        gcs_stub.problem,
        lambda: {name.removeprefix("t/"): mark_of(name, stored.data) for name, stored in objects.items()},
        restoring(objects),
    )


def in_gcs_by_tokens(request: pytest.FixtureRequest, sample: Path) -> Cloud:
    """The same with a service account, whose tokens can be refused."""
    cloud = in_gcs(request, sample)
    place: Path = request.getfixturevalue("tmp_path") / "key.json"
    place.write_text(json.dumps(service_account(f"{cloud.server.url}/token")))
    return replace(cloud, rotate=_rotating(request, cloud.server), options={"token": str(place)})


def _rotating(request: pytest.FixtureRequest, server: Any) -> Callable[[], None]:
    """What makes a stub refuse the token so far; it wants one from now on."""
    request.getfixturevalue("monkeypatch").setattr(server, "token", "token-1")

    def rotate() -> None:
        server.token = f"token-{int(server.token[6:]) + 1}"

    return rotate


def in_azure(request: pytest.FixtureRequest, sample: Path, *, is_hierarchical: bool = False) -> Cloud:
    server: AzureServer = request.getfixturevalue("azure")
    request.getfixturevalue("monkeypatch").setattr(server, "now_ms", NOW_MS)
    container = server.make_container(is_hierarchical=is_hierarchical)
    for path, data, modified_ms in files_of(sample):
        server.put(container, f"t/{path}", data, modified_ms)
    return Cloud(
        "azure tree" if is_hierarchical else "azure",
        server,
        f"abfss://{container}@{ACCOUNT}.dfs.core.windows.net/t",
        azure_stub.problem,
        lambda: {name.removeprefix("t/"): mark_of(name, data) for name, data in server.files(container).items()},
        restoring(server.containers[container]),
    )


def in_azure_tree(request: pytest.FixtureRequest, sample: Path) -> Cloud:
    """With a hierarchical namespace."""
    return in_azure(request, sample, is_hierarchical=True)


def in_azure_by_tokens(request: pytest.FixtureRequest, sample: Path, *, is_hierarchical: bool) -> Cloud:
    """The same with a managed identity, whose tokens can be refused."""
    cloud = in_azure(request, sample, is_hierarchical=is_hierarchical)
    server: AzureServer = request.getfixturevalue("azure")
    patch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    patch.delenv("AZURE_STORAGE_CONNECTION_STRING")
    for name, value in server.identity_environment.items():
        patch.setenv(name, value)
    return replace(cloud, rotate=_rotating(request, server), options={"endpoint_url": f"{server.url}/{ACCOUNT}"})


def in_s3(request: pytest.FixtureRequest, sample: Path) -> Cloud:
    """moto behind a proxy, with credentials in a file."""
    s3: S3Server = request.getfixturevalue("s3")
    patch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    keys: Path = request.getfixturevalue("tmp_path") / "credentials"
    relay = _relay(request, s3.url)
    patch.setenv("AWS_ENDPOINT_URL", relay.url)
    patch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(keys))
    patch.delenv("AWS_MAX_ATTEMPTS")
    patch.delenv("AWS_ACCESS_KEY_ID")
    patch.delenv("AWS_SECRET_ACCESS_KEY")
    patch.setattr(s3, "now_ms", NOW_MS)
    bucket = s3.make_bucket()
    found = list(files_of(sample))

    def rotate() -> None:
        key, draft = f"key-{int(relay.key[4:] or 0) + 1}", keys.with_name("draft")
        draft.write_text(f"[default]\naws_access_key_id = {key}\naws_secret_access_key = a-secret\n")
        draft.replace(keys)  # before the other one is refused
        relay.key = key

    def restore() -> None:
        s3.clear(bucket)
        for path, data, modified_ms in found:
            s3.put(bucket, f"t/{path}", data, modified_ms)

    rotate()
    restore()
    return Cloud(
        "s3",
        relay,
        f"s3://{bucket}/t",
        s3_problem,
        lambda: {name.removeprefix("t/"): mark_of(name, data) for name, data in s3.objects(bucket).items()},
        restore,
        rotate,
    )


def in_azurite(request: pytest.FixtureRequest, sample: Path) -> Cloud:
    """The emulator behind a proxy. It writes with the time of the day; the clock of the operations is ahead of that."""
    emulator: Azurite = request.getfixturevalue("own_azurite")
    relay = _relay(request, emulator.url)
    for name, value in Azurite(relay.url).environment.items():
        request.getfixturevalue("monkeypatch").setenv(name, value)
    container = emulator.make_container()
    calls = emulator.calls(container)
    contents = {f"t/{path}": data for path, data, _ in files_of(sample)}
    for path, data in contents.items():
        emulator.put(container, path, data)

    def listed() -> dict[str, int]:
        return {entry.key: entry.size_bytes for entry in calls.page("t/", "", "", "", 5_000).entries}

    def restore() -> None:
        there = listed()
        if made := sorted(set(there) - set(contents)):
            calls.delete_in_bulk(made)
        for key, data in contents.items():
            if len(data) != there.get(key) or key.endswith("_last_checkpoint"):  # nothing else is ever replaced
                emulator.put(container, key, data)

    return Cloud(
        "azurite",
        relay,
        f"az://{container}/t",
        azure_stub.problem,
        lambda: {key.removeprefix("t/"): size for key, size in listed().items()},
        restore,
        now_ms=int(time() * 1_000) + _ELEVEN_WEEKS_MS,
    )


def _relay(request: pytest.FixtureRequest, url: str) -> Relay:
    relay = Relay(url)
    request.addfinalizer(relay.stop)
    return relay


CLOUDS: Mapping[str, Callable[[pytest.FixtureRequest, Path], Cloud]] = {
    "gcs": in_gcs,
    "gcs by its text": partial(in_gcs, fixture="gcs_api"),
    "azure": in_azure,
    "azure tree": in_azure_tree,
    "s3": in_s3,
    **({"azurite": in_azurite} if PROGRAM else {}),
}


ROTATING: Mapping[str, Callable[[pytest.FixtureRequest, Path], Cloud]] = {
    "gcs": in_gcs_by_tokens,
    "azure": partial(in_azure_by_tokens, is_hierarchical=False),
    "azure tree": partial(in_azure_by_tokens, is_hierarchical=True),
    "s3": in_s3,
}
"""Clouds with credentials that can be rotated."""


def cloud_of(name: str, request: pytest.FixtureRequest, sample: Path, *, rotates: bool = False) -> Cloud:
    """A cloud with the sample in it, whose endpoint was probed, so that the probe is none of the requests to come.
    `rotates`: with credentials that can be rotated.
    """
    cloud = (ROTATING if rotates else CLOUDS)[name](request, sample)
    cloud.storage().put("_delta_log/.probed", b"")
    cloud.reset()
    return cloud
