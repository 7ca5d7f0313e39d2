"""A sharing server that also gives credentials for directories: answers of the true one with more members."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from deltacli.storage.retry import Retry
from tests.sharing.client.serving import Asked, Proxy, Sent, proxied
from tests.sharing.served import shared
from tests.support.azure import ACCOUNT, AzureServer
from tests.support.gcs import GcsServer
from tests.support.s3 import S3Server

JSON = {"content-type": "application/json; charset=utf-8"}
SECRET = "a-vended-secret-nobody-may-see"


@dataclass
class Vending:
    """The server. `members` are added to tables in lists and metadata; `change` edits an answer with credentials;
    `before` may answer a request itself. `options` open the store.
    """

    proxy: Proxy
    cloud: Any  # an S3Server, a GcsServer or an AzureServer
    root: str
    members: dict[str, Any]
    life_ms: int = 3_600_000
    change: Callable[[dict[str, Any]], Any] = lambda document: document
    before: Callable[[Asked], Sent | None] = lambda _: None
    in_lists: dict[str, Any] | None = None
    vended: list[Any] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def options(self) -> dict[str, str]:
        if isinstance(self.cloud, S3Server):
            return {"endpoint_url": self.cloud.url, "region": "us-east-1"}
        return {
            "endpoint_url": f"{self.cloud.url}/{ACCOUNT}" if isinstance(self.cloud, AzureServer) else self.cloud.url
        }

    @property
    def address(self) -> str:
        return self.proxy.address()

    @property
    def now_ms(self) -> int:
        return self.proxy.served.now_ms

    def open(self, access: str = "dir", **more: Any) -> Any:
        """The store of the table, without waiting."""
        from deltacli.sharing.client.share_storage import open_share

        retry = Retry(0.0, pause=lambda _: None)
        given = {"options": self.options, "clock": lambda: self.now_ms, **more}
        return open_share(self.address, access=access, retry=retry, **given)

    def asked(self, part: str) -> list[Asked]:
        """The requests so far for what ends in a name."""
        return [asked for asked in self.proxy.asked if asked.target.partition("?")[0].endswith(part)]

    def plant(self, asked: Asked, truly: Callable[[], Sent]) -> Sent | None:
        path = asked.target.partition("?")[0]
        if (sent := self.before(asked)) is not None:
            return sent
        if path.endswith("/temporary-table-credentials"):
            return self._credentials(asked)
        sent = truly()
        if sent.status == 200 and path.endswith(("/metadata", "/query")):
            lines = sent.lines
            lines[1]["metaData"] |= self.members
            return sent.with_lines(lines)
        if sent.status == 200 and path.endswith(("/tables", "/all-tables")):
            document = json.loads(sent.body)
            more = self.members if self.in_lists is None else self.in_lists
            document["items"] = [item | more for item in document["items"]]
            return replace(sent, body=json.dumps(document).encode())
        return sent

    def _credentials(self, asked: Asked) -> Sent:
        location = asked.json.get("location", self.root)
        self.vended.append(location)
        kind, keys = self._keys(f"{SECRET}-{len(self.vended)}")
        given = {"location": location, kind: keys, "expirationTime": self.now_ms + self.life_ms}
        document = self.change({"credentials": given})
        if isinstance(document, Sent):
            return document
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        return Sent(200, {**JSON, **self.headers}, body)

    def _keys(self, secret: str) -> tuple[str, dict[str, str]]:
        """The credentials of the store, which lets nobody in without them from now on, where it looks at any."""
        if isinstance(self.cloud, GcsServer):
            self.cloud.token = secret
            return "gcpOauthToken", {"oauthToken": secret}
        if isinstance(self.cloud, AzureServer):
            self.cloud.signature = f"sv=2026-01-01&sig={secret}"
            return "azureUserDelegationSas", {"sasToken": self.cloud.signature}
        return "awsTempCredentials", {"accessKeyId": "ASIAVENDED", "secretAccessKey": secret, "sessionToken": "st"}


@contextmanager
def vending(
    tmp_path: Path, table: Path, cloud: S3Server | GcsServer | AzureServer, **members: Any
) -> Iterator[Vending]:
    """Serve a local table by URLs, and its copy in a bucket as a directory."""
    bucket = cloud.make_container() if isinstance(cloud, AzureServer) else cloud.make_bucket()
    for path in sorted(table.rglob("*")):
        if path.is_file():
            name, modified_ms = path.relative_to(table).as_posix(), path.stat().st_mtime_ns // 1_000_000
            cloud.put(bucket, f"lake/t/{name}", path.read_bytes(), modified_ms)
    root = f"{'gs' if isinstance(cloud, GcsServer) else 's3'}://{bucket}/lake/t"
    if isinstance(cloud, AzureServer):
        root = f"abfss://{bucket}@{ACCOUNT}.dfs.core.windows.net/lake/t"
    with proxied(tmp_path, shared(table)) as proxy:
        server = Vending(proxy, cloud, root, {"accessModes": ["url", "dir"], "location": root, **members})
        proxy.plant = server.plant
        yield server
