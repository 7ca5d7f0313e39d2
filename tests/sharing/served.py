"""A server of a few tables in this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from deltacli.sharing.configuration.settings import Configuration, Limits, Settings
from deltacli.sharing.model import Catalog, Share, SharedSchema, SharedTable
from deltacli.sharing.server.application import Application
from deltacli.sharing.server.guard import RequestGuard, ServingState
from deltacli.sharing.server.services import LiveApplication, guarded
from deltacli.sharing.signing.keys import ServerKey, ServerKeys
from deltacli.sharing.tables.snapshots import SharedSnapshots
from tests.sharing.asgi import HOST, Reply, call

TOKEN = "a-token"
NOW_MS = 1_800_000_000_000
PREFIX = "/delta-sharing"
SETTINGS = Settings(host=HOST, port=80, public_url=f"http://{HOST}{PREFIX}", limits=Limits(requests_per_second=0))
DELTA = "responseformat=delta;readerfeatures=deletionvectors,columnmapping,timestampntz"


def shared(path: Path, name: str = "t", **fields: Any) -> SharedTable:  # Any: fields of the table
    """A table as `Sales.Main.NAME`, with its history."""
    table = SharedTable("Sales", "Main", name, str(path), f"id-{name}", history_shared=True)
    return replace(table, **fields)


@dataclass
class Served:
    """An application and its clock. Listings of logs are never old."""

    tables: tuple[SharedTable, ...]
    now_ms: int = NOW_MS
    options: Mapping[str, Any] = field(default_factory=dict)  # Any: settings

    def __post_init__(self) -> None:
        catalog = Catalog((Share("Sales", (SharedSchema("Sales", "Main", self.tables),), "share-id"),))
        self.settings = replace(SETTINGS, **self.options)
        self.state = ServingState(Configuration(Path("shares.yaml"), catalog, self.settings, bearer_token=TOKEN))
        self.snapshots = SharedSnapshots(stale_seconds=0)
        self.live = LiveApplication(
            lambda: self.state,
            RequestGuard(lambda: self.state, clock=lambda: self.now_ms),
            ServerKeys((ServerKey(b"k" * 32, 0),)),
            self.snapshots,
            lambda: self.now_ms,
        )
        self.app = guarded(self.live)

    @property
    def application(self) -> Application:
        """The application behind the guard."""
        return self.live.current()

    def get(self, path: str, *, method: str = "GET", **headers: str) -> Reply:
        """Ask for a path below the prefix, or for a whole URL."""
        return self.send(method, path, headers=headers)

    def post(self, path: str, body: bytes = b"{}", **headers: str) -> Reply:
        """Send a body."""
        return self.send("POST", path, body=body, headers=headers)

    def send(self, method: str, path: str, *, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Reply:
        """Send a request with the token, unless the headers have another one. `_` in their names stands for `-`."""
        target = path.removeprefix(f"http://{HOST}")
        target = target if target.startswith(PREFIX) else PREFIX + target
        named = {name.replace("_", "-"): value for name, value in (headers or {}).items()}
        return call(self.app, method, target, body=body, headers={"Authorization": f"Bearer {TOKEN}"} | named)

    def query(self, body: bytes = b"{}", name: str = "t", **headers: str) -> Reply:
        """Query a table."""
        return self.post(f"/shares/sales/schemas/main/tables/{name}/query", body, **headers)

    def table(self, rest: str, name: str = "t", **headers: str) -> Reply:
        """Ask for something below a table."""
        return self.get(f"/shares/sales/schemas/main/tables/{name}{rest}", **headers)


def urls_of(reply: Reply) -> list[str]:
    """The URLs of the files of an answer, in either format."""
    found = []
    for line in reply.lines[2:]:
        kind, file = next(iter(line.items()))
        if kind == "file" and "deltaSingleAction" in file:
            found += [action["path"] for action in file["deltaSingleAction"].values()]
        elif kind in ("file", "add", "remove", "cdf"):
            found.append(file["url"])
    return found
