"""A server of somebody else: tables as ours serves them, with what the protocol has got in 2026, made here again."""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote

from deltacli.core.errors import FileMissing, PermissionRefused
from deltacli.sharing.conformance.wire import Suite
from deltacli.storage import LocalStorage, Storage
from deltacli.storage.grants import Renew
from tests.sharing.asgi import Reply
from tests.sharing.conformance.faulty import Call, Proxy
from tests.sharing.served import NOW_MS, PREFIX, TOKEN

CAPABILITIES = "delta-sharing-capabilities"
HOUR_MS = 3_600_000
ROOTS = {
    "s3": "s3://acme-lake/grid",
    "abfss": "abfss://lake@acme.dfs.core.windows.net/grid",
    "gs": "gs://acme-lake/grid",
}
AWS = {"accessKeyId": "ASIAPLANTED0000000001", "secretAccessKey": "planted-secret", "sessionToken": "planted-session"}
SAS = (
    "sv=2021-08-06&sr=d&sdd=2&sp=rl&spr=https&st=2027-01-15T07:00:00Z&se=2027-01-15T09:00:00Z"
    "&skoid=planted&ske=2027-01-16T08:00:00Z&sig=planted-signature"
)
MEMBERS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "s3": {"awsTempCredentials": AWS},
    "abfss": {"azureUserDelegationSas": {"sasToken": SAS}},
    "gs": {"gcpOauthToken": {"oauthToken": "planted-token"}},
}
SECRETS = ("planted-secret", "planted-session", "planted-signature", "planted-token")
ABOUT_SHARE = {"displayName": "Sales of all regions", "comment": "daily", "properties": {"team": "grid"}}


def refused(status: int, message: str = "no") -> Reply:
    """Return an error of the protocol."""
    body = json.dumps({"errorCode": "X", "message": message}).encode()
    return Reply(status, {"content-type": "application/json"}, body)


def granted(cloud: str, location: str, **changes: Any) -> Reply:  # Any: JSON values
    """Return the answer with credentials for a location."""
    given = {"location": location, **MEMBERS[cloud], "expirationTime": NOW_MS + HOUR_MS, **changes}
    headers = {"content-type": "application/json; charset=utf-8", "cache-control": "no-store"}
    return Reply(200, headers, json.dumps({"credentials": given}).encode())


@dataclass
class _Query:
    """An asynchronous query: the request it was submitted with, and the polls until it is done."""

    headers: Mapping[str, str]
    body: Mapping[str, Any]  # Any: JSON values
    pending: int = 2


@dataclass
class Foreign(Proxy):
    """What the server offers. `directories`: the local directory of each table."""

    directories: Mapping[str, Path] = field(default_factory=dict)
    modes: tuple[str, ...] | None = None
    cloud: str = "s3"
    base: str = ""
    """The directory of all tables, where it is another one than that of the cloud."""
    auxiliary: tuple[str, ...] = ()
    is_asynchronous: bool = False
    leaks: bool = False
    """Whether the credentials list more than the table."""
    grants: list[str] = field(default_factory=list)
    """The tables of all credentials."""
    opened: list[str] = field(default_factory=list)
    """The locations at which stores were opened."""
    queries: dict[str, _Query] = field(default_factory=dict)
    keys: dict[tuple[str, str], str] = field(default_factory=dict)
    name_query: Callable[[int], str] = lambda number: hashlib.sha256(f"planted {number}".encode()).hexdigest()[:24]
    """Makes the id of a query."""
    ASSETS: ClassVar = ("volumes", "models", "skills", "all-volumes", "config")

    def root(self, table: str) -> str:
        return f"{self.base or ROOTS[self.cloud]}/{table}"

    def test_all(self, level: str = "footers", **scope: Any) -> list[Suite]:  # Any: what else is tested
        """Return the suites of a run whose stores are these directories."""
        self.grants, self.opened, self.queries, self.keys = [], [], {}, {}
        return list(self.test(level, open_store=self.open_store, **scope))

    def open_store(self, uri: str, renew: Renew) -> Storage:
        """Open a directory with its credentials, as a cloud would let one."""
        self.opened.append(uri)
        assert all("planted" in value.lower() for value in renew(False).options.values())
        table = uri.removeprefix(f"{ROOTS[self.cloud]}/")
        if table in self.directories:
            return LocalStorage(str(self.directories[table]))
        fault = FileMissing if self.leaks else PermissionRefused
        raise fault("AccessDenied")

    def answer(self, asked: Call, target: str, headers: Mapping[str, str]) -> Reply:
        if asked.token != TOKEN or asked.path.startswith("_files"):
            return super().answer(asked, target, headers)
        if asked.path.split("/")[-1] in self.ASSETS:
            return refused(404)
        if asked.table:
            return self._of_table(asked, target, headers)
        return self._described(asked, super().answer(asked, target, headers))

    def _of_table(self, asked: Call, target: str, headers: Mapping[str, str]) -> Reply:
        rest, method = asked.rest, asked.method
        if rest == "temporary-table-credentials" and method == "POST":
            return self._credentials(asked)
        if rest.startswith("queries/"):
            return self._poll(asked)
        if rest in ("query", "changes") and self.modes is not None and "url" not in self.modes:
            return refused(400, "read the table by directory")
        if not rest and method == "GET":
            if asked.table not in self.directories:
                return refused(404)
            names = {"name": asked.table, "schema": "Main", "share": "Sales", "format": "delta"}
            return Reply(200, {"content-type": "application/json"}, json.dumps(names).encode())
        key = asked.body.get("idempotencyKey") or asked.body.get("idempotency_key")
        is_asked = "asyncquery=true" in asked.headers.get(CAPABILITIES, "")
        kept = {name: value.replace(";asyncquery=true", "") for name, value in headers.items()}
        if self.is_asynchronous and rest == "query" and is_asked and key:
            return self.submit(asked, key, kept)
        return self._described(asked, super().answer(asked, target, kept))

    def _described(self, asked: Call, reply: Reply) -> Reply:
        """Return an answer with the access of tables, or the texts of shares, in it."""
        last = asked.path.split("/")[-1]
        if reply.status != 200 or asked.method == "HEAD":
            return reply
        if last in ("shares", "Sales", "SALES", "sALES"):
            content = reply.json
            for share in content["items"] if "items" in content else [content["share"]]:
                share |= ABOUT_SHARE
            return Reply(200, reply.headers, json.dumps(content).encode())
        if self.modes is None:
            return reply
        if last in ("tables", "all-tables"):
            content = reply.json
            for item in content.get("items", ()):
                item |= self.access(item["name"])
            return Reply(200, reply.headers, json.dumps(content).encode())
        if last in ("metadata", "query") and reply.body.startswith(b"{"):
            head, metadata, *rest = reply.body.split(b"\n")
            found = json.loads(metadata)
            found["metaData"] |= self.access(asked.table)
            return Reply(200, reply.headers, b"\n".join([head, json.dumps(found).encode(), *rest]))
        return reply

    def access(self, table: str) -> dict[str, Any]:  # Any: JSON values
        """Return the members that say how a table may be read."""
        modes = list(self.modes or ())
        found: dict[str, Any] = {"accessModes": modes}
        if "dir" in modes:
            found["location"] = self.root(table)
        return found | ({"auxiliaryLocations": list(self.auxiliary)} if self.auxiliary else {})

    def _credentials(self, asked: Call) -> Reply:
        if "dir" not in (self.modes or ()):
            return refused(400, "the table is not offered by directory")
        if asked.raw in (b"{", b"[]"):
            return refused(400, "the body is not JSON")
        root = self.root(asked.table)
        wanted = asked.body.get("location") or root
        plain = unquote(wanted)
        is_inside = plain == posixpath.normpath(plain).replace(":/", "://") and f"{plain}/".startswith(f"{root}/")
        if not is_inside and wanted not in self.auxiliary:
            return refused(400, "the location is not of this table")
        self.grants.append(asked.table)
        return granted(self.cloud, wanted)

    def submit(self, asked: Call, key: str, headers: Mapping[str, str]) -> Reply:
        """Return the answer to a submission."""
        body = {name: value for name, value in asked.body.items() if not name.startswith("idempotency")}
        checked = self._sent(asked, headers, {**body, "maxFiles": 1})
        if checked.status != 200:
            return checked
        number = len(self.queries)
        found = self.keys.setdefault((asked.table, key), self.name_query(number))
        if self.queries.setdefault(found, _Query(headers, body)).body != body:
            return refused(400, "the key was used for another query")
        return self._pending(found, checked)

    def _pending(self, query_id: str, like: Reply) -> Reply:
        lowered = {name.lower(): value for name, value in like.headers.items()}
        form = parse_qs(lowered.get(CAPABILITIES, "").replace(";", "&")).get("responseformat", ["parquet"])[0]
        told = {
            "content-type": "application/x-ndjson; charset=utf-8",
            "delta-table-version": lowered["delta-table-version"],
            CAPABILITIES: f"responseformat={form};asyncquery=true",
        }
        line = {"queryStatus": {"queryId": query_id, "status": "pending"}}
        return Reply(200, told, json.dumps(line).encode() + b"\n")

    def _poll(self, asked: Call) -> Reply:
        query_id = asked.rest.removeprefix("queries/")
        query = self.queries.get(query_id)
        if query is None:
            return refused(404)
        result = self._sent(asked, query.headers, {**query.body, **asked.body})
        if query.pending:
            query.pending -= 1
            return self._pending(query_id, result)
        return result

    def _sent(self, asked: Call, headers: Mapping[str, str], body: Mapping[str, Any]) -> Reply:
        """Return the answer to a query at once."""
        path = f"{asked.path.rpartition(f'/{asked.rest}')[0]}/query"
        raw = json.dumps(body).encode()
        plain = Call("POST", path, {}, asked.headers, body, asked.number, raw)
        return self._described(plain, Proxy.answer(self, plain, f"{PREFIX}/{path}", headers))
