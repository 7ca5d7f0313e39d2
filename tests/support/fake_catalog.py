"""A Unity Catalog on loopback: HTTP around `CatalogState`, as known releases answer, with faults on demand.

Releases `0.5`, `0.6` and `main` have the Delta API; `preview` only the older paths.
"""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import NAMESPACE_URL, uuid5

from deltacli.catalogs.base import TableName
from tests.support.catalog_state import MANAGED, Body, CatalogState, Row, ServerError, ServerTable
from tests.support.cloud import Asked, CloudServer, Said

BASE = "/api/2.1/unity-catalog"
PREVIEW = "preview"
PREVIEW_PAGE = 10
TOKEN = "dapi-a-token-of-the-tests"
CLIENT, SECRET = "a-client", "a-secret-of-the-tests"


class FakeCatalog(CloudServer):
    """A server thread. `tokens`: those that it accepts, none: authorization is off. `grants` has the name and the
    operation of each credential that was asked for; `credentials` makes their answers.
    """

    def __init__(self, release: str = "0.6", tls: ssl.SSLContext | None = None) -> None:
        self.release = release
        self.state = CatalogState("0.6" if release == PREVIEW else release)
        self.tokens: set[str] = set()
        self.issued = 0
        self.lifetime: object = 3600
        self.grants: list[tuple[TableName, str]] = []
        self.credentials: Callable[[ServerTable, str], list[Body]] = no_credentials
        self.others: dict[TableName, Body] = {}
        """Tables of other formats."""
        self.page_size = 50
        self.pages: dict[str, Body] | None = None
        """Page token -> the answer to a listing of tables, instead of those of the tables there are."""
        super().__init__(tls)

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to find it."""
        return {"UC_ENDPOINT": self.url, **({"UC_TOKEN": next(iter(self.tokens))} if self.tokens else {})}

    @property
    def profile(self) -> dict[str, str]:
        """What Python needs to find it."""
        return {"endpoint": self.url, **({"token": next(iter(self.tokens))} if self.tokens else {})}

    def add(
        self,
        address: str,
        location: str,
        *,
        latest: int | None = None,
        commits: list[Body] | None = None,
        **parts: Any,  # Any: attributes of a table
    ) -> ServerTable:
        """Add a table: one whose versions the catalog decides where it has a latest version, else an external one."""
        name = TableName(*address.removeprefix("uc://").split("."))
        table = ServerTable(location, uuid=str(uuid5(NAMESPACE_URL, address)), **parts)
        if latest is None:
            table.table_type = "EXTERNAL"
        else:
            table.properties |= {MANAGED: "supported", "io.unitycatalog.tableId": table.uuid}
            table.rows = [Row(one) for one in sorted(commits or (), key=lambda one: one["version"])]
            if not table.rows and latest > 0:
                table.rows = [Row(commit(latest), is_backfilled=True)]
        self.state.tables[name] = table
        return table

    def answer(self, asked: Asked) -> Said:
        parts = urlsplit(asked.target)
        query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        try:
            if parts.path == "/oidc/v1/token":
                return self._token(asked)
            given = asked.headers.get("authorization", "").removeprefix("Bearer ")
            if self.tokens and given not in self.tokens:
                raise ServerError(401, "NotAuthorized", "the token is not valid")
            path = parts.path.removeprefix(BASE)
            if path.startswith("/delta/v1/"):
                return self._delta(asked, [unquote(word) for word in path.split("/")[3:]], query)
            return said(self._older(asked.method, path, query, json.loads(asked.body or b"{}")))
        except ServerError as fault:
            is_delta = "/delta/v1/" in parts.path
            return said(fault.body if is_delta else older_body(fault), fault.status)

    def _token(self, asked: Asked) -> Said:
        pair = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        form = parse_qs(asked.body.decode())
        if asked.headers.get("authorization") != f"Basic {pair}" or form.get("grant_type") != ["client_credentials"]:
            return said({"error": "invalid_client", "error_description": "unknown client"}, 401)
        self.issued += 1
        self.tokens = {f"issued-token-number-{self.issued}"}
        return said({"access_token": next(iter(self.tokens)), "expires_in": self.lifetime, "token_type": "Bearer"})

    def _delta(self, asked: Asked, words: list[str], query: dict[str, str]) -> Said:
        if self.release == PREVIEW:
            return Said(404, b"<html>Not Found</html>", {"Content-Type": "text/html"})
        if words == ["config"]:
            if query["catalog"] not in {name.catalog for name in self._names()}:
                raise ServerError(404, "NoSuchCatalog", f"no catalog {query['catalog']}")
            listed = ["GET /v1/catalogs/{catalog}/schemas/{schema}/tables", "GET /v9/something-unknown"]
            return said({"endpoints": listed, "protocol-version": "1.0"})
        name = TableName(words[1], words[3], words[5])
        self._require(name)
        if name in self.others:
            raise ServerError(400, "UnsupportedTableFormat", "not a Delta table")
        if words[6:] == ["credentials"]:
            self.grants.append((name, query["operation"]))
            table = self.state.tables[name]
            return said({"storage-credentials": self.credentials(table, query["operation"])})
        if asked.method == "POST":
            return said(self.state.update(name, asked.body))
        return said(self.state.load(name))

    def _names(self) -> list[TableName]:
        return [*self.state.tables, *self.others]

    def _require(self, name: TableName) -> None:
        if name.catalog not in {one.catalog for one in self._names()}:
            raise ServerError(404, "NoSuchCatalog", f"no catalog {name.catalog}")
        if name[:2] not in {one[:2] for one in self._names()}:
            raise ServerError(404, "NoSuchSchema", f"no schema {name.schema}")
        if name not in self._names():
            raise ServerError(404, "NoSuchTable", f"no table {name.table}")

    # -- older paths -------------------------------------------------------------------------------------------------

    def _older(self, method: str, path: str, query: dict[str, str], body: Body) -> Body:
        if path == "/catalogs":
            catalogs = sorted({name.catalog for name in self._names()})
            at = int(query.get("page_token") or 0)
            token = str(at + 1) if at + 1 < len(catalogs) else None
            return {"catalogs": [{"name": name} for name in catalogs[at : at + 1]], "next_page_token": token}
        if path == "/schemas":
            schemas = sorted({name.schema for name in self._names() if name.catalog == query["catalog_name"]})
            if not schemas:
                raise ServerError(404, "NoSuchCatalog", "no such catalog")
            return {"schemas": [{"name": name} for name in schemas], "next_page_token": None}
        if path == "/tables":
            return self._page(query)
        if path.startswith("/tables/"):
            name = TableName(*unquote(path.removeprefix("/tables/")).split("."))
            self._require(name)
            return self._older_table(name)
        if path == "/temporary-table-credentials" and method == "POST":
            name, table = self._by_id(body["table_id"])
            self.grants.append((name, body["operation"]))
            config = self.credentials(table, body["operation"])[0]
            keys = {key.partition(".")[2].replace("-", "_"): value for key, value in config["config"].items()}
            return {"aws_temp_credentials": keys or None, "expiration_time": config.get("expiration-time-ms")}
        if path == "/delta/preview/commits" and method == "GET":
            return self._older_commits(body)
        raise ServerError(404, "NotFound", "no such path")

    def _page(self, query: dict[str, str]) -> Body:
        if self.pages is not None:
            return self.pages[query.get("page_token", "")]
        found = [
            self._older_table(name)
            for name in self._names()
            if name[:2] == (query["catalog_name"], query["schema_name"])
        ]
        if not found:
            raise ServerError(404, "NoSuchSchema", "no such schema")
        begin = int(query.get("page_token", "0"))
        end = begin + min(self.page_size, int(query["max_results"]))
        return {"tables": found[begin:end], "next_page_token": str(end) if end < len(found) else None}

    def _older_table(self, name: TableName) -> Body:
        if name in self.others:
            return {"name": name.table, **self.others[name]}
        table = self.state.tables[name]
        return {
            "name": name.table,
            "table_id": table.uuid,
            "table_type": table.table_type,
            "data_source_format": "DELTA",
            "storage_location": table.location,
            "properties": table.properties,
            "columns": [],
        }

    def _by_id(self, uuid: str) -> tuple[TableName, ServerTable]:
        return next((name, table) for name, table in self.state.tables.items() if table.uuid == uuid)

    def _older_commits(self, body: Body) -> Body:
        _, table = self._by_id(body["table_id"])
        if body["table_uri"] != table.location:
            raise ServerError(400, "InvalidParameterValue", "table_uri differs")
        rows = [row.commit for row in table.unpublished if row.version >= body["start_version"]][:PREVIEW_PAGE]
        commits = [{key.replace("-", "_"): value for key, value in row.items()} for row in rows]
        return {"commits": commits[::2] + commits[1::2], "latest_table_version": table.latest or -1}


def no_credentials(table: ServerTable, operation: str) -> list[Body]:
    """The credentials of tables on a disk."""
    return [{"prefix": table.location, "operation": operation, "config": {}}]


def s3_credentials(
    table: ServerTable, operation: str, *, expires_ms: int | None = None, prefix: str | None = None
) -> list[Body]:
    """Credentials of S3, with which moto lets everything pass."""
    keys = {"s3.access-key-id": "AKIAOFTHETESTS", "s3.secret-access-key": "secret-of-the-tests-1234"}
    keys["s3.session-token"] = f"session-token-of-the-tests-{operation}"
    more = {} if expires_ms is None else {"expiration-time-ms": expires_ms}
    return [{"prefix": prefix or table.location, "operation": operation, "config": keys, **more}]


def commit(version: int, **parts: object) -> Body:
    """Return a commit as the catalog has it, with other parts where given."""
    return {
        "version": version,
        "timestamp": 1_781_000_000_000 + version,
        "file-name": f"{version:020d}.6f1d0a52-6d1e-4a0f-9c55-3f6b8f0f9d11.json",
        "file-size": 1_810,
        "file-modification-timestamp": 1_781_000_000_100 + version,
        **parts,
    }


def said(body: object, status: int = 200) -> Said:
    """Return an answer of JSON."""
    return Said(status, json.dumps(body).encode(), {"Content-Type": "application/json"})


def older_body(fault: ServerError) -> Body:
    """Return an error in the form of the older paths."""
    codes = {"NoSuchCatalog": "CATALOG_NOT_FOUND", "NoSuchSchema": "SCHEMA_NOT_FOUND", "NoSuchTable": "TABLE_NOT_FOUND"}
    kind = fault.kind.removesuffix("Exception")
    return {"error_code": codes.get(kind, kind), "message": fault.message, "details": []}
