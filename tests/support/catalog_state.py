"""A catalog in memory: what a server of Unity Catalog keeps of its tables, and what it answers, with faults on demand.

`CatalogState` takes and gives the bodies of the REST interface, for whoever serves it by HTTP. `MemoryCatalog` is the
port of deltacli over it. Releases differ in what they say to a request that they had accepted before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from threading import Lock
from typing import Any

from deltacli.catalogs.base import (
    Answer,
    CatalogTable,
    Listed,
    Maintenance,
    Operation,
    Proposal,
    Ratified,
    TableName,
    Verdict,
)
from deltacli.core.errors import CatalogDenied, CatalogNameUnknown, CatalogUnavailable, FileMissing
from deltacli.storage import Storage
from deltacli.storage.grants import Grant

Body = dict[str, Any]  # Any: JSON values
MOST_UNPUBLISHED = 10
MANAGED = "delta.feature.catalogManaged"
_FEATURE = "delta.feature."
FEATURES = ("catalogManaged", "deletionVectors", "inCommitTimestamp", "v2Checkpoint", "vacuumProtocolCheck")
NAME = TableName("main", "sales", "orders")
UUID = "0b9c7a52-6d1e-4a0f-9c55-3f6b8f0f9d11"
ALL = tuple(one.value for one in Maintenance)


class ServerError(Exception):
    """An answer that is no success, with the status and the type of its body."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind, self.message = status, f"{kind}Exception", message

    @property
    def body(self) -> Body:
        """The answer as JSON."""
        return {"error": {"message": self.message, "type": self.kind, "code": self.status, "stack": None}}


@dataclass
class Row:
    """A commit that the server keeps. `is_backfilled`: it is published, and kept because it is the newest."""

    commit: Body
    is_backfilled: bool = False

    @property
    def version(self) -> int:
        return int(self.commit["version"])

    @property
    def file_name(self) -> str:
        return str(self.commit["file-name"])


@dataclass
class ServerTable:
    """A table of the server. `store` is where its files are, for the releases that compare them."""

    location: str
    store: Storage | None = None
    uuid: str = UUID
    table_type: str = "MANAGED"
    properties: dict[str, str] = field(default_factory=dict)
    columns: Body = field(default_factory=lambda: {"type": "struct", "fields": []})
    partition_columns: list[str] = field(default_factory=list)
    domains: dict[str, Any] = field(default_factory=dict)
    comment: str = ""
    protocol: Body = field(default_factory=dict)
    uniform: Body | None = None
    operations: Any = ALL
    rows: list[Row] = field(default_factory=list)
    etag: int = 1

    @property
    def latest(self) -> int:
        return self.rows[-1].version if self.rows else 0

    @property
    def unpublished(self) -> list[Row]:
        return [row for row in self.rows if not row.is_backfilled]

    def copied(self) -> ServerTable:
        """Return a copy to be changed, whose parts are its own."""
        kept = {name: json.loads(json.dumps(getattr(self, name))) for name in _PARTS}
        rows = [Row(dict(row.commit), row.is_backfilled) for row in self.rows]
        return ServerTable(
            self.location, self.store, self.uuid, self.table_type, rows=rows, operations=self.operations, **kept
        )


_PARTS = ("properties", "columns", "partition_columns", "domains", "comment", "protocol", "uniform", "etag")
_ACTIONS = (
    "set-properties",
    "remove-properties",
    "set-protocol",
    "set-columns",
    "set-partition-columns",
    "set-table-comment",
    "set-domain-metadata",
    "remove-domain-metadata",
    "add-commit",
    "set-latest-backfilled-version",
)
_DOMAINS = {"delta.clustering", "delta.rowTracking"}


class CatalogState:
    """The tables of a server of one release: `0.5`, `0.6`, or `main`, which compares files."""

    contract: Mapping[str, str] = {}
    """Properties that a table must have when its protocol is changed."""

    def __init__(self, release: str = "0.6") -> None:
        self.release = release
        self.tables: dict[TableName, ServerTable] = {}
        self.order = ""
        """`shuffled` or `ascending`: how commits are listed; newest first unless set."""
        self._lock = Lock()

    def load(self, name: TableName) -> Body:
        """Return the answer to a request for a table."""
        with self._lock:
            return self._described(self._table(name))

    def update(self, name: TableName, body: bytes) -> Body:
        """Take a request to change a table, wholly or not at all. Raises ServerError."""
        with self._lock:
            return self._update(name, body)

    def _update(self, name: TableName, body: bytes) -> Body:
        request = json.loads(body)
        updates = {one["action"]: one for one in request["updates"]}
        if len(updates) != len(request["updates"]) or not updates.keys() <= {*_ACTIONS}:
            raise _invalid("an action comes twice, or is not known")
        commit = updates.get("add-commit", {}).get("commit")
        if commit is not None:
            _require_shape(commit)
        table = self._table(name)
        for one in request["requirements"]:
            if one["type"] == "assert-table-uuid" and one["uuid"] != table.uuid:
                raise ServerError(409, "UpdateRequirementConflict", "the table has another uuid")
        changed = table.copied()
        for action in _ACTIONS[:-2]:
            if action in updates:
                _change(changed, action, updates[action])
        unmet = [key for key, value in self.contract.items() if changed.properties.get(key) != value]
        if "set-protocol" in updates and unmet:
            raise _invalid(f"the contract requires the property {unmet[0]}")
        if commit is not None and self._is_replay(table, commit):
            return self._described(table)
        if commit is not None:
            self._add(changed, commit, updates.get("set-latest-backfilled-version"))
        elif "set-latest-backfilled-version" in updates:
            if not table.rows:
                raise _invalid("the table never had a commit")
            _publish(changed, updates["set-latest-backfilled-version"]["latest-published-version"], table.latest)
        for one in request["requirements"]:
            if one["type"] == "assert-etag" and one["etag"] != f"etag-{table.etag}":
                raise ServerError(409, "UpdateRequirementConflict", "the metadata has changed")
        if updates.keys() - {"add-commit", "set-latest-backfilled-version"}:
            changed.etag += 1
        self.tables[name] = changed
        return self._described(changed)

    def _is_replay(self, table: ServerTable, commit: Body) -> bool:
        """Return whether a commit was accepted before. Raises ServerError for a version that another file has."""
        version = commit["version"]
        taken = ServerError(409, "CommitVersionConflict", f"version {version} is taken; latest is {table.latest}")
        if version > table.latest or (not table.rows and version > 0):
            return False
        if self.release == "0.5":
            raise taken
        for row in table.rows:
            if row.version == version:
                if row.file_name == commit["file-name"]:
                    return True
                raise taken
        if self.release == "main" and table.store is not None:
            try:
                staged = table.store.read(f"_delta_log/_staged_commits/{commit['file-name']}")
                published = table.store.read(f"_delta_log/{version:020d}.json")
            except FileMissing:
                raise ServerError(500, "CommitStateUnknown", "the files cannot be read") from None
            if staged == published:
                return True
        raise taken

    def _add(self, table: ServerTable, commit: Body, backfill: Body | None) -> None:
        if table.table_type != "MANAGED":
            raise _invalid("add-commit needs a managed table")
        if table.rows and commit["version"] != table.latest + 1:
            raise _invalid(f"the version must be {table.latest + 1}")
        if backfill is not None:
            _publish(table, backfill["latest-published-version"], table.latest)
        if len(table.unpublished) >= MOST_UNPUBLISHED:
            raise ServerError(429, "ResourceExhausted", f"more than {MOST_UNPUBLISHED} commits are not published")
        table.rows = [*table.unpublished, Row(dict(commit))]

    def _table(self, name: TableName) -> ServerTable:
        if name not in self.tables:
            raise ServerError(404, "NoSuchTable", f"there is no table {name}")
        return self.tables[name]

    def _described(self, table: ServerTable) -> Body:
        commits = [dict(row.commit) for row in reversed(table.unpublished)]
        if self.order == "ascending":
            commits.reverse()
        elif self.order == "shuffled":
            commits = commits[1::2] + commits[::2]
        metadata: Body = {
            "etag": f"etag-{table.etag}",
            "table-type": table.table_type,
            "table-uuid": table.uuid,
            "location": table.location,
            "columns": table.columns,
            "partition-columns": table.partition_columns,
            "properties": dict(table.properties),
        }
        found: Body = {"metadata": metadata}
        if table.table_type == "MANAGED":
            found |= {"commits": commits, "latest-table-version": table.latest}
        if table.operations is not None:
            found["allowed-maintenance-operations"] = table.operations
        if table.uniform is not None:
            found["uniform"] = table.uniform
        return found


def _require_shape(commit: Body) -> None:
    known = {"version", "timestamp", "file-name", "file-size", "file-modification-timestamp"}
    if set(commit) != known:
        raise _invalid(f"unknown or missing fields: {sorted(set(commit) ^ known)}")
    name = commit["file-name"]
    if not name or name in (".", "..") or "/" in name or "\\" in name:
        raise _invalid("the file name is no name")
    if any(type(commit[key]) is not int or commit[key] <= 0 for key in known - {"file-name"}):
        raise _invalid("numbers must be positive")


def _publish(table: ServerTable, version: int, latest: int) -> None:
    if version > latest:
        raise _invalid(f"version {version} cannot be published: the latest is {latest}")
    kept = [row for row in table.rows if row.version > version]
    if not kept and table.rows:
        kept = [Row(table.rows[-1].commit, is_backfilled=True)]
    table.rows = kept


def _change(table: ServerTable, action: str, given: Body) -> None:
    match action:
        case "set-properties":
            table.properties |= given["updates"]
        case "remove-properties":
            for key in given["removals"]:
                table.properties.pop(key, None)
        case "set-protocol":
            table.protocol = given["protocol"]
            kept = {key: value for key, value in table.properties.items() if not key.startswith("delta.feature.")}
            names = {*given["protocol"].get("reader-features", ()), *given["protocol"].get("writer-features", ())}
            if not {*FEATURES} <= names:
                raise _invalid("a feature of the contract is missing")
            table.properties = kept | {f"delta.feature.{name}": "supported" for name in names}
        case "set-columns":
            table.columns = given["columns"]
        case "set-partition-columns":
            table.partition_columns = given["partition-columns"]
        case "set-table-comment":
            table.comment = given["comment"]
        case "set-domain-metadata":
            if not given["updates"].keys() <= _DOMAINS:
                raise _invalid("a domain has no form")
            table.domains |= given["updates"]
        case "remove-domain-metadata":
            for name in given["domains"]:
                table.domains.pop(name, None)


def _invalid(message: str) -> ServerError:
    return ServerError(400, "InvalidParameterValue", message)


# -- the port ----------------------------------------------------------------------------------------------------------


class Fault(Enum):
    """What happens to a request."""

    BEFORE = "it is lost before the server has it"
    AFTER = "its answer is lost"
    UNKNOWN = "the server cannot tell, and has not done it"
    UNKNOWN_DONE = "the server cannot tell, and has done it"
    LATE = "its answer is lost, and the server does it after the next request"
    THROTTLED = "the server asks to wait"
    LOCKED = "a lock of the server was not free in time"
    KILLED_BEFORE = "the process ends before it"
    KILLED_AFTER = "the process ends after it"


class KilledError(BaseException):
    """The process ends here."""


Decide = Callable[[str], Fault | None]
"""Gets `load`, `ratify`, `report` or `grant`, and returns what happens to the request."""


class MemoryCatalog:
    """The port over a state. `requests` has the name of each request, `bodies` those of proposals."""

    def __init__(self, state: CatalogState, decide: Decide = lambda _: None) -> None:
        self.state, self.decide = state, decide
        self.requests: list[str] = []
        self.bodies: list[bytes] = []
        self.reported: list[int] = []
        self.before: Callable[[str], None] = lambda _: None
        """Called before each request reaches the server: what others do meanwhile."""
        self._late: Callable[[], object] | None = None

    def load(self, name: TableName) -> CatalogTable:
        return table_of(name, self._called("load", lambda: self.state.load(name)))

    def grant(self, table: CatalogTable, operation: Operation) -> Grant:  # noqa: ARG002  (of the port)
        self.requests.append("grant")
        return Grant(table.location, {})

    def request_of(self, table: CatalogTable, proposal: Proposal) -> bytes:
        updates: list[Any] = [{"action": "add-commit", "commit": wire_commit(proposal.commit)}, *proposal.updates]
        return _request(table, updates)

    def ratify(self, table: CatalogTable, body: bytes) -> Answer:
        self.bodies.append(body)
        try:
            answer = self._called("ratify", lambda: self.state.update(table.name, body))
        except ServerError as fault:
            return Answer(_VERDICTS.get(fault.kind.removesuffix("Exception"), Verdict.UNKNOWN), said=fault.message)
        except CatalogUnavailable as lost:
            return Answer(Verdict.UNKNOWN, said=lost.message)
        return Answer(Verdict.RATIFIED, table_of(table.name, answer))

    def report_published(self, table: CatalogTable, version: int) -> CatalogTable:
        def report() -> Body:
            answer = self.state.update(table.name, _request(table, [_report(version)]))
            self.reported.append(version)
            return answer

        try:
            return table_of(table.name, self._called("report", report))
        except ServerError as fault:
            raise CatalogUnavailable(fault.message) from fault

    def list_catalogs(self) -> list[str]:
        return sorted({name.catalog for name in self.state.tables})

    def tables_of(self, catalog: str, schema: str | None) -> list[Listed]:
        named = [name for name in self.state.tables if name.catalog == catalog and schema in (None, name.schema)]
        return [Listed(name, self.state.tables[name].table_type, "DELTA") for name in sorted(named)]

    def _called(self, what: str, run: Callable[[], Body]) -> Body:
        self.requests.append(what)
        self.before(what)
        fault = self.decide(what)
        late, self._late = self._late, None
        if fault is Fault.KILLED_BEFORE:
            raise KilledError
        if fault in (Fault.BEFORE, Fault.UNKNOWN, Fault.LATE):
            if fault is Fault.LATE:
                self._late = run
            self._run(late)
            raise CatalogUnavailable("the catalog does not answer")
        if fault in (Fault.THROTTLED, Fault.LOCKED):
            kind = "TooManyRequests" if fault is Fault.THROTTLED else "UpdateRequirementConflict"
            raise ServerError(429 if fault is Fault.THROTTLED else 409, kind, fault.value)
        try:
            answer = run()
        except ServerError as error:
            self._run(late)
            if fault is not None and fault is not Fault.KILLED_AFTER:
                raise CatalogUnavailable("the catalog does not answer") from error
            if error.status == 404:
                raise CatalogNameUnknown(error.message) from error
            if error.status == 403:
                raise CatalogDenied(error.message) from error
            raise
        self._run(late)
        if fault is Fault.KILLED_AFTER:
            raise KilledError
        if fault is not None:
            raise CatalogUnavailable("the answer was lost")
        return answer

    def _run(self, late: Callable[[], object] | None) -> None:
        if late is not None:
            with suppress(ServerError):
                late()


_VERDICTS = {
    "CommitVersionConflict": Verdict.LOST,
    "UpdateRequirementConflict": Verdict.AGAIN,
    "TooManyRequests": Verdict.AGAIN,
    "ResourceExhausted": Verdict.PUBLISH_FIRST,
    "InvalidParameterValue": Verdict.REFUSED,
    "CommitStateUnknown": Verdict.UNKNOWN,
}


def _request(table: CatalogTable, updates: list[Any]) -> bytes:
    requirements = [{"type": "assert-table-uuid", "uuid": table.uuid}]
    return json.dumps({"requirements": requirements, "updates": updates}).encode()


def _report(version: int) -> Body:
    return {"action": "set-latest-backfilled-version", "latest-published-version": version}


def wire_commit(commit: Ratified) -> Body:
    """Return a commit as requests have it."""
    return {
        "version": commit.version,
        "timestamp": commit.timestamp_ms,
        "file-name": commit.file_name,
        "file-size": commit.size_bytes,
        "file-modification-timestamp": commit.modified_ms,
    }


def table_of(name: TableName, answer: Mapping[str, Any]) -> CatalogTable:
    """Return a table as the port has it, without judging what the server says."""
    metadata = answer["metadata"]
    properties: Mapping[str, str] = metadata["properties"]
    allowed = answer.get("allowed-maintenance-operations")
    return CatalogTable(
        name,
        metadata["table-uuid"],
        metadata["location"],
        is_managed=properties.get(MANAGED) == "supported",
        table_type=metadata["table-type"],
        latest=answer.get("latest-table-version"),
        commits=tuple(
            sorted(
                Ratified(
                    one["version"],
                    one["file-name"],
                    one["file-size"],
                    one["file-modification-timestamp"],
                    one["timestamp"],
                )
                for one in answer.get("commits", ())
            )
        ),
        permissions=None if allowed is None else frozenset(Maintenance(one) for one in allowed if one in ALL),
        columns=_camel(metadata["columns"]),
        partition_columns=tuple(metadata["partition-columns"]),
        properties={key: value for key, value in properties.items() if not key.startswith("delta.feature.")},
        features=frozenset(key[len(_FEATURE) :] for key in properties if key.startswith(_FEATURE)),
        has_uniform="uniform" in answer,
    )


def _camel(value: Any) -> Any:
    """Return types of columns in the spelling of the log."""
    if isinstance(value, list):
        return [_camel(one) for one in value]
    if not isinstance(value, dict):
        return value
    parts = {key: key.split("-") for key in value}
    return {
        first + "".join(map(str.title, rest)) if key != "metadata" else key: inner
        if key == "metadata"
        else _camel(inner)
        for (key, (first, *rest)), inner in zip(parts.items(), value.values(), strict=True)
    }
