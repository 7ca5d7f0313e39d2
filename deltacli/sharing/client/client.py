"""`Client`: what a profile gives access to, from Python, with typed results and Arrow batches."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from deltacli.api.table import Table
from deltacli.core.errors import UsageError
from deltacli.core.lock_free_property import cached_property
from deltacli.core.machine import Clock, system_clock
from deltacli.core.progress import SILENT, Progress
from deltacli.delta.log.state import read_metadata
from deltacli.delta.schema.to_arrow import build_arrow_schema, drop_unsupported_columns
from deltacli.delta.schema.types import NO_COLUMNS, StructType, parse_schema
from deltacli.sharing.client import table_requests
from deltacli.sharing.client.addresses import AccessChoice, OpenOptions, ShareAddress, TableName, parse_table_name
from deltacli.sharing.client.share_storage import ShareStorage, directory_or
from deltacli.sharing.client.transport import open_profile
from deltacli.sharing.protocol.directories import NOT_STATED, TableAccess, read_access
from deltacli.sharing.protocol.parameters import Point
from deltacli.storage.base import RETRY_BUDGET
from deltacli.storage.retry import Retry
from deltacli.table.api_arguments import (
    require_optional_count,
    require_path_text,
    require_plan,
    require_timestamp_ms,
    wrong_argument,
)

if TYPE_CHECKING:
    import pyarrow

    from deltacli.sharing.pulling.pull import PullPlan, PullResult
    from deltacli.table.version import Snapshot


class Client:
    """The shares of a profile file. Nothing is sent before a method is called.

    `retry_budget` limits how long a request is repeated. Raises UsageError for a profile that cannot be used.
    """

    def __init__(
        self, profile: str | os.PathLike[str], *, retry_budget: timedelta = RETRY_BUDGET, clock: Clock = system_clock
    ) -> None:
        self.profile = require_path_text(profile, "the profile")
        self._clock = clock
        self.transport = open_profile(profile, retry=Retry(retry_budget.total_seconds(), is_explicit=True), clock=clock)

    def __repr__(self) -> str:
        return f"Client({self.profile!r})"

    def shares(self) -> list[table_requests.ListedShare]:
        """Return the shares that the recipient may read."""
        return list(table_requests.list_shares(self.transport))

    def schemas(self, share: str) -> list[table_requests.ListedSchema]:
        """Return the schemas of a share. Raises ShareAbsent."""
        return list(table_requests.list_schemas(self.transport, share))

    def tables(self, share: str | None = None, schema: str | None = None) -> list[table_requests.ListedTable]:
        """Return the tables of a schema, of a share, or of all shares. Raises ShareAbsent."""
        shares = [one.name for one in self.shares()] if share is None else [share]
        return [table for name in shares for table in table_requests.list_tables(self.transport, name, schema)]

    def table(
        self,
        name: str | TableName | table_requests.ListedTable,
        *,
        access: Literal["auto", "url", "dir"] = "auto",
        storage_options: Mapping[str, str] | None = None,
    ) -> ClientTable:
        """Return a table by its name, `share.schema.table`. `access`: as of `open_table`, with the options of the store
        of its directory. Raises UsageError for a text that is not such a name.
        """
        if access not in list(AccessChoice):
            raise UsageError(f"access is {access!r}", code="usage.access", facts={"expected": ", ".join(AccessChoice)})
        if isinstance(name, table_requests.ListedTable):
            name = name.full_name
        full = parse_table_name(name) if isinstance(name, str) else name
        if not isinstance(full, TableName):
            raise wrong_argument(name, "the table", "a name, as share.schema.table")
        address, requests = ShareAddress(self.profile, full), table_requests.TableRequests(self.transport, full)
        return ClientTable(address, requests, self._clock, AccessChoice(access), OpenOptions(storage_options or {}))


@dataclass(frozen=True)
class TableMetadata:
    """What a server says about a version, without a list of files. `files` and `size_bytes` are None where it does not
    say. `access`: by URLs, in the directory, and where that is.
    """

    version: int
    response_format: str
    schema: StructType
    partition_columns: tuple[str, ...]
    properties: dict[str, str]
    files: int | None
    size_bytes: int | None
    head: table_requests.AnswerHead = field(repr=False)
    access: TableAccess = NOT_STATED

    @cached_property
    def arrow_schema(self) -> pyarrow.Schema:
        """The schema of the rows, without the columns of types that are not read."""
        return build_arrow_schema(drop_unsupported_columns(self.schema.fields))


@dataclass(frozen=True)
class ClientTable:
    """A shared table."""

    address: ShareAddress
    requests: table_requests.TableRequests = field(repr=False)
    clock: Clock = field(default=system_clock, repr=False)
    access: AccessChoice = AccessChoice.AUTO
    options: OpenOptions = field(default=OpenOptions(), repr=False)

    def version(self) -> int:
        """Return the newest version."""
        return self.requests.version()

    def metadata(self, *, version: int | None = None, timestamp: datetime | date | None = None) -> TableMetadata:
        """Return schema and properties of the newest version, or of a chosen one."""
        return metadata_of(self.requests.metadata(_point(version, timestamp)))

    def open(self, *, where: str | None = None, limit: int | None = None) -> Table:
        """Return the table as `deltacli.open_table` does.

        With `where` and `limit` the server may leave out files without matching rows: use it for one scan with the
        same condition and limit.
        """
        limit = require_optional_count(limit, "limit")
        if where is not None and not isinstance(where, str):
            raise wrong_argument(where, "where", "a string")
        storage = directory_or(self._by_urls, self.access, self.options)
        if isinstance(storage, ShareStorage) and (where is not None or limit is not None):
            storage = storage.expecting(where=where, limit=limit)
        return Table(storage, clock=self.clock, name=self.address.uri)

    def snapshot(self, *, version: int | None = None, timestamp: datetime | date | None = None) -> Snapshot:
        """Return the newest version, or a chosen one, with all of its files."""
        return self.open().snapshot(version=version, timestamp=timestamp)

    def read(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        limit: int | None = None,
        version: int | None = None,
        timestamp: datetime | date | None = None,
    ) -> pyarrow.RecordBatchReader:
        """Return rows as a streaming reader. The condition is sent as a hint, and applied again on what arrives."""
        found = self.open(where=where, limit=None if where is not None else limit)
        snapshot = found.snapshot(version=version, timestamp=timestamp)
        return snapshot.scan(columns=columns, where=where, limit=limit).to_reader()

    def changes(self, **range_and_columns: Any) -> pyarrow.RecordBatchReader:  # Any: arguments of Table.changes
        """Return the changes of rows as a streaming reader. The arguments are those of `Table.changes`."""
        return self.open().changes(**range_and_columns).to_reader()

    def pull(
        self,
        directory: str | os.PathLike[str],
        *,
        version: int | None = None,
        timestamp: datetime | date | None = None,
        resume: bool = False,
        dry_run: bool = False,
        verify: Literal["footers", "data"] = "footers",
        progress: Progress = SILENT,
    ) -> PullResult:
        """Copy the newest version, or a chosen one, into a local Delta table, or continue an earlier pull of it.

        Only files that are not there are downloaded, all are verified, and the difference becomes one commit. `resume`
        finishes an interrupted pull at the version that it was pulling. `verify="data"` decodes all data of each file,
        also of those that are there, and downloads damaged ones again. Raises PullRefused for a directory that has
        something else, Refused for a table whose metadata is not trusted, DataUnreadable for a file that is not as
        declared, and UsageError for options that exclude each other.
        """
        plan = self.plan_pull(
            directory, version=version, timestamp=timestamp, resume=resume, verify=verify, progress=progress
        )
        return plan.result(dry_run=True) if dry_run else self._execute_pull(plan, progress, may_plan_again=True)

    def plan_pull(
        self,
        directory: str | os.PathLike[str],
        *,
        version: int | None = None,
        timestamp: datetime | date | None = None,
        resume: bool = False,
        verify: Literal["footers", "data"] = "footers",
        progress: Progress = SILENT,
    ) -> PullPlan:
        """Return what `pull` with the same parameters would do. Raises as it does."""
        from deltacli.changing.change import plan_change
        from deltacli.sharing.pulling.pull import Pull, PullRequest

        if (version is not None) + (timestamp is not None) + resume > 1:
            raise UsageError("version, timestamp and resume exclude each other")
        point = _point(version, timestamp)
        if verify not in ("footers", "data"):
            raise UsageError(f"verify is {verify!r}", facts={"expected": "footers or data"})
        path = require_path_text(directory, "the directory")
        request = PullRequest(path, point, resumes=resume, decodes=verify == "data")
        store = directory_or(self._by_urls, self.access, self.options, preferred=AccessChoice.URL)
        return plan_change(Pull(store, request, progress), request.target(self.clock))

    def execute_pull(self, plan: PullPlan, *, progress: Progress = SILENT) -> PullResult:
        """Pull the version of a plan of this table. Raises as `pull` does, and ConflictLost where something else would
        be pulled by now.
        """
        require_plan(plan, "PullPlan")
        if plan.source.table != str(self.address.name):
            raise UsageError("the plan is one of another table", facts={"plan": plan.source.table})
        return self._execute_pull(plan, progress, may_plan_again=False)

    def _execute_pull(self, plan: PullPlan, progress: Progress, *, may_plan_again: bool) -> PullResult:
        from deltacli.changing.change import execute_plan
        from deltacli.sharing.pulling.pull import Pull

        change = Pull(self._by_urls if plan.shared is None else plan.shared.store, plan.request, progress)
        return execute_plan(change, plan.base_version.table, plan, accepts_any_plan=may_plan_again)

    @property
    def _by_urls(self) -> ShareStorage:
        return ShareStorage(self.address, self.requests)


def metadata_of(head: table_requests.AnswerHead) -> TableMetadata:
    """Return the metadata of an answer. Raises Unreadable for a schema that cannot be parsed."""
    action = read_metadata(head.delta_metadata, "the answer of the sharing server")
    return TableMetadata(
        head.version,
        head.form.value,
        parse_schema(action.schema_string or NO_COLUMNS),
        tuple(action.partition_columns),
        dict(action.configuration),
        _count(head, "numFiles"),
        _count(head, "size"),
        head,
        read_access(head.metadata)[0],
    )


def _count(head: table_requests.AnswerHead, name: str) -> int | None:
    value = head.metadata.get(name)
    return value if type(value) is int and value >= 0 else None


def _point(version: int | None, timestamp: datetime | date | None) -> Point:
    return Point(version, None if timestamp is None else require_timestamp_ms(timestamp, "timestamp"))
