"""Unity Catalog as a catalog: the Delta API, or older paths where a server has no other; tables opened by their names.

Spec: Unity Catalog API, versions 1.0 and preview.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import partial
from threading import Lock

import orjson

from deltacli.catalogs.base import (
    Answer,
    Catalog,
    CatalogTable,
    Listed,
    Operation,
    Proposal,
    Ratified,
    TableName,
    Verdict,
    invalid,
)
from deltacli.catalogs.lockstep import is_synthetic, require_takes_commits
from deltacli.catalogs.ratified import view_of
from deltacli.catalogs.unity import answers
from deltacli.catalogs.unity.addresses import parse_pattern, parse_table, profile_of
from deltacli.catalogs.unity.calls import NOT_DELTA, RENEWED, Calls, RefusedCall, path_of
from deltacli.core.errors import (
    CatalogAnswerInvalid,
    CatalogDenied,
    CatalogUnavailable,
    DeltacliError,
    NotATable,
    parameter,
)
from deltacli.core.machine import MACHINE, Machine
from deltacli.core.typing import Json, JsonObject
from deltacli.storage import Storage
from deltacli.storage.base import RETRY_BUDGET
from deltacli.storage.grants import Grant
from deltacli.storage.listing_limit import ListingLimit
from deltacli.storage.objects.http_errors import HttpError, RequestOutcome
from deltacli.storage.retry import Retry
from deltacli.storage.vended import open_vended

_PAGE = 50
_MOST_PAGES = 100_000
_THROTTLED_SECONDS = 1.0

_configured: dict[tuple[str, str], bool] = {}
"""Endpoint and catalog -> whether the server has the Delta API: asked once per process."""
_configuring = Lock()


def forget_configurations() -> None:
    """Ask for the configuration of each catalog again."""
    _configured.clear()


class UnityCatalog:
    """Implements the port `Catalog`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._is_local = calls.profile.is_local

    def __repr__(self) -> str:
        return f"UnityCatalog({self._calls.profile.endpoint!r})"

    def load(self, name: TableName) -> CatalogTable:
        """Return the table now. Raises as the port says."""
        what = f"{name} cannot be loaded"
        try:
            if not self._has_delta_api(name.catalog):
                return self._load_preview(name)
            answer = self._calls.ask(_path(name))
        except HttpError as fault:
            raise self._calls.error_of(fault, what, str(name)) from fault.__cause__
        return answers.table_of(name, answer, is_local=self._is_local)

    def _has_delta_api(self, catalog: str) -> bool:
        key = (self._calls.profile.endpoint, catalog)
        with _configuring:
            if key not in _configured:
                _configured[key] = self._ask_configuration(catalog)
            return _configured[key]

    def _ask_configuration(self, catalog: str) -> bool:
        try:
            found = self._calls.ask("/delta/v1/config", {"catalog": catalog, "protocol-versions": "1.0"})
        except RefusedCall as fault:
            if fault.status == 404 and fault.refusal.kind == "NoSuchCatalog":
                raise
            if fault.status == 404 or fault.refusal.kind == "InvalidParameterValue":
                return False
            raise
        version = found.get("protocol-version")
        return isinstance(version, str) and version.partition(".")[0] == "1"

    def grant(self, table: CatalogTable, operation: Operation) -> Grant:
        """Return credentials for the location of a table. Raises as the port says."""
        what = f"{table.name}: no credentials to {'read' if operation is Operation.READ else 'change'} it"
        try:
            if not self._has_delta_api(table.name.catalog):
                return self._grant_preview(table, operation)
            answer = self._calls.ask(f"{_path(table.name)}/credentials", {"operation": operation.value})
        except HttpError as fault:
            raise self._calls.error_of(fault, what, str(table.name)) from fault.__cause__
        return answers.grant_of(table.name, table.location, answer.get("storage-credentials"))

    def request_of(self, table: CatalogTable, proposal: Proposal) -> bytes:
        updates = [{"action": "add-commit", "commit": _wire_commit(proposal.commit)}, *proposal.updates]
        return _body(table, updates)

    def ratify(self, table: CatalogTable, body: bytes) -> Answer:
        """Send a proposal once. Raises nothing for what the catalog, or its token server, answers."""
        if not table.takes_commits:
            return Answer(Verdict.REFUSED, said="the catalog is too old to take commits")
        try:
            answer = self._calls.send_once(_path(table.name), body)
        except RefusedCall as fault:
            return self._judged(table, fault)
        except HttpError as fault:
            return Answer(Verdict.AGAIN if fault.outcome is RequestOutcome.UNSENT else Verdict.UNKNOWN, said=str(fault))
        except CatalogUnavailable as fault:  # of the token server: nothing was sent
            return Answer(Verdict.AGAIN, said=fault.message)
        except DeltacliError as fault:
            return Answer(Verdict.REFUSED, said=fault.message)
        try:
            found = answers.table_of(table.name, answer, is_local=self._is_local)
        except DeltacliError as fault:
            return Answer(Verdict.UNKNOWN, said=fault.message)
        update = next(one for one in orjson.loads(body)["updates"] if one["action"] == "add-commit")
        version, file_name = update["commit"]["version"], update["commit"]["file-name"]
        if found.uuid != table.uuid:
            return Answer(Verdict.UNKNOWN, found, "the answer is about another table")
        if found.latest is None or found.latest < version:
            return Answer(Verdict.UNKNOWN, said=f"the answer is older than version {version}")
        if any(one.version == version and one.file_name != file_name for one in found.commits):
            return Answer(Verdict.UNKNOWN, said=f"the answer has another file for version {version}")
        return Answer(Verdict.RATIFIED, found)

    def report_published(self, table: CatalogTable, version: int) -> CatalogTable:
        """Tell that all versions up to one are published. It may be repeated. Raises as the port says."""
        what = f"{table.name}: the published versions cannot be reported"
        if not table.takes_commits:
            raise CatalogAnswerInvalid(f"{what}: the catalog is too old to take reports")
        request = orjson.loads(_body(table, [_report(version)]))
        try:
            answer = self._calls.ask(_path(table.name), body=request, method="POST")
        except HttpError as fault:
            raise self._calls.error_of(fault, what, str(table.name)) from fault.__cause__
        found = answers.table_of(table.name, answer, is_local=self._is_local)
        if found.uuid != table.uuid:
            raise invalid(table.name, "the table is another one now", found.uuid)
        return found

    def _judged(self, table: CatalogTable, fault: RefusedCall) -> Answer:
        """Return what an answer without success proves of a first attempt. After an unknown one only a reload does."""
        refusal = fault.refusal
        said = " ".join(filter(None, (f"HTTP {refusal.status}", refusal.kind, refusal.message)))
        wait, denial = refusal.wait_seconds, None
        if fault.reason == RENEWED or refusal.kind in ("TooManyRequests", "UpdateRequirementConflict"):
            is_throttled = refusal.status == 429
            return Answer(Verdict.AGAIN, said=said, wait_seconds=wait or _THROTTLED_SECONDS * is_throttled)
        if refusal.status == 409:
            return Answer(Verdict.LOST, said=said, wait_seconds=wait)
        if refusal.status == 429:
            wait = wait or (0.0 if refusal.kind == "ResourceExhausted" else _THROTTLED_SECONDS)
            return Answer(Verdict.PUBLISH_FIRST, said=said, wait_seconds=wait)
        if refusal.status in (401, 403):
            error = self._calls.error_of(fault, f"{table.name}: nothing was committed", str(table.name))
            denial = error if isinstance(error, CatalogDenied) else None
        elif refusal.status == 404:
            said = f"the table was dropped or renamed ({said})"
        is_final = 400 <= refusal.status < 500 and refusal.status not in (408, 425)
        return Answer(Verdict.REFUSED if is_final else Verdict.UNKNOWN, None, said, wait, denial)

    def list_catalogs(self) -> list[str]:
        """Return the names of the catalogs that the caller may see, in order. Raises as the port says."""
        try:
            return sorted(self._names_in(self._pages("/catalogs", "catalogs", {})))
        except HttpError as fault:
            raise self._calls.error_of(fault, "the catalogs cannot be listed", "uc://") from fault.__cause__

    def tables_of(self, catalog: str, schema: str | None) -> list[Listed]:
        """Return the tables of a catalog or of one of its schemas, by name. Raises as the port says."""
        name = f"uc://{catalog}" + ("" if schema is None else f".{schema}")
        try:
            schemas = [schema] if schema is not None else self._schemas_of(catalog)
            found = {one.name: one for each in schemas for one in self._tables_of_schema(catalog, each)}
        except HttpError as fault:
            raise self._calls.error_of(fault, f"{name} cannot be listed", name) from fault.__cause__
        return [found[key] for key in sorted(found)]

    def _schemas_of(self, catalog: str) -> list[str]:
        return self._names_in(self._pages("/schemas", "schemas", {"catalog_name": catalog}))

    def _names_in(self, pages: Iterable[list[Json]]) -> list[str]:
        """Return the names of catalogs or schemas, each once; entries without a name are left out."""
        names = (one.get("name") for page in pages for one in page if isinstance(one, dict))
        return list(dict.fromkeys(name for name in names if isinstance(name, str) and name))

    def _tables_of_schema(self, catalog: str, schema: str) -> Iterator[Listed]:
        for page in self._pages("/tables", "tables", {"catalog_name": catalog, "schema_name": schema}):
            for one in page:
                if not isinstance(one, dict) or not isinstance(name := one.get("name"), str) or not name:
                    raise CatalogAnswerInvalid(f"uc://{catalog}.{schema}: a table of the listing has no name")
                kind, data_format = (
                    value if isinstance(value := one.get(key), str) else ""
                    for key in ("table_type", "data_source_format")
                )
                yield Listed(TableName(catalog, schema, name), kind, data_format)

    def _pages(self, path: str, key: str, query: Mapping[str, str]) -> Iterator[list[Json]]:
        """Yield the pages of a listing; some are empty.

        Raises CatalogAnswerInvalid where a token comes again, CatalogUnavailable where the listing takes too long.
        """
        name = "uc://" + ".".join(query.values())
        limit = ListingLimit(self._calls.retry, f"{key} of {name}")
        token, seen = "", set[str]()
        while limit.pages < _MOST_PAGES:
            wanted: dict[str, str | int] = {**query, "max_results": _PAGE}
            if token:
                wanted["page_token"] = token
            found = limit.request_page(partial(self._calls.ask, path, wanted))
            page, token = found.get(key), found.get("next_page_token") or ""
            if page is not None and not isinstance(page, list):
                raise CatalogAnswerInvalid(f"a listing of the catalog has no {key}")
            yield page or []
            if not token:
                return
            if not isinstance(token, str) or token in seen:
                raise CatalogAnswerInvalid("a listing of the catalog does not end: a page token is repeated")
            seen.add(token)
            _require_time(limit, f"the {key} of {name} cannot be listed")
        raise CatalogAnswerInvalid(f"a listing of the catalog has more than {_MOST_PAGES:,} pages")

    # -- older servers -----------------------------------------------------------------------------------------------

    def _load_preview(self, name: TableName) -> CatalogTable:
        found = self._calls.ask(f"/tables{path_of('.'.join(name))}")
        kind, data_format = found.get("table_type"), found.get("data_source_format")
        if data_format != "DELTA" or kind not in ("MANAGED", "EXTERNAL"):
            facts = {"type": str(kind)[:40], "format": str(data_format)[:40]}
            raise NotATable(f"{name} is not a Delta table", code=NOT_DELTA, facts=facts)
        properties = answers.properties_of(name, found.get("properties"))
        uuid, place = answers.text_of(name, found, "table_id"), answers.text_of(name, found, "storage_location")
        is_managed = answers.is_managed_by(properties)
        latest, commits = self._preview_commits(name, uuid, place) if is_managed else (None, ())
        return CatalogTable(
            name=name,
            uuid=uuid,
            location=answers.location_of(name, place, is_local=self._is_local),
            is_managed=is_managed,
            table_type=kind,
            latest=latest,
            commits=commits,
            properties={key: value for key, value in properties.items() if not is_synthetic(key)},
            features=answers.features_of(properties),
            takes_commits=False,
        )

    def _preview_commits(self, name: TableName, uuid: str, place: str) -> tuple[int, tuple[Ratified, ...]]:
        """Return the latest version and the commits, which a server sends some at a time."""
        found: list[Ratified] = []
        start = 0
        limit = ListingLimit(self._calls.retry, f"commits of {name}")
        while True:
            body = {"table_id": uuid, "table_uri": place, "start_version": start}
            answer = limit.request_page(partial(self._calls.ask, "/delta/preview/commits", body=body))
            version = answer.get("latest_table_version")
            latest = 0 if version == -1 else answers.latest_of(name, version)
            page = [one for one in answers.commits_of(name, answer.get("commits"), "_") if one.version >= start]
            newest = page[-1].version if page else -1
            if not page or page[0].version > start:
                found.clear()  # those of earlier pages were published meanwhile, as all before this one
            found += page
            if not start <= newest < latest:
                return latest, tuple(found)
            start = newest + 1
            _require_time(limit, f"{name} cannot be loaded")

    def _grant_preview(self, table: CatalogTable, operation: Operation) -> Grant:
        body = {"table_id": table.uuid, "operation": operation.value}
        found = self._calls.ask("/temporary-table-credentials", body=body, method="POST")
        config: dict[str, Json] = {}
        for kind, keys in _PREVIEW_KEYS.items():
            given = found.get(kind)
            if isinstance(given, dict):
                config |= {key: given[name] for name, key in keys.items() if given.get(name) is not None}
        location = table.location
        return answers.made_grant(table.name, location, location, config, found.get("expiration_time"))


def _require_time(limit: ListingLimit, what: str) -> None:
    """Raise CatalogUnavailable where the pages of a listing take too long; `what` cannot be done then."""
    if limit.is_over:
        raise CatalogUnavailable(
            f"{what}: the catalog sends one page after the other",
            facts=limit.facts(),
            hint=f"if so many are there, add {parameter('open_table.retry_budget', '10m')}",
        )


_PREVIEW_KEYS: Mapping[str, Mapping[str, str]] = {
    "aws_temp_credentials": {
        "access_key_id": "s3.access-key-id",
        "secret_access_key": "s3.secret-access-key",
        "session_token": "s3.session-token",
    },
    "azure_user_delegation_sas": {"sas_token": "azure.sas-token"},
    "gcp_oauth_token": {"oauth_token": "gcs.oauth-token"},
}


def _path(name: TableName) -> str:
    return "/delta/v1" + path_of("catalogs", name.catalog, "schemas", name.schema, "tables", name.table)


def _wire_commit(commit: Ratified) -> JsonObject:
    return {
        "version": commit.version,
        "timestamp": commit.timestamp_ms,
        "file-name": commit.file_name,
        "file-size": commit.size_bytes,
        "file-modification-timestamp": commit.modified_ms,
    }


def _report(version: int) -> JsonObject:
    return {"action": "set-latest-backfilled-version", "latest-published-version": version}


def _body(table: CatalogTable, updates: list[JsonObject]) -> bytes:
    requirements = [{"type": "assert-table-uuid", "uuid": table.uuid}]
    return orjson.dumps({"requirements": requirements, "updates": updates})


# -- tables opened by their names --------------------------------------------------------------------------------------


def open_catalog(
    profile: Mapping[str, str] | None = None,
    retry: Retry | None = None,
    *,
    source: str | None = None,
    machine: Machine = MACHINE,
) -> UnityCatalog:
    """Return the catalog of a profile with the keys of `[catalog.NAME]`, else that of the environment; nothing is asked
    yet. `source`: where the keys are, for messages. Raises UsageError where none is configured, and without urllib3.
    """
    policy = retry or Retry(RETRY_BUDGET.total_seconds())
    return UnityCatalog(Calls(profile_of(profile, source=source), policy, machine.now_ms))


def open_in_catalog(
    catalog: Catalog,
    address: str,
    *,
    options: Mapping[str, str] | None = None,
    retry: Retry | None = None,
    writes: bool = False,
    note: Callable[[str], None] | None = None,
    machine: Machine = MACHINE,
) -> Storage:
    """Return the store of a table that a catalog knows, with credentials of the catalog: to read, until it `writes`.

    Raises UsageError for another address, Refused where a catalog that decides the versions takes no commits, what the
    catalog raises, and what opening a store raises.
    """
    name = parse_table(address)
    table = catalog.load(name)
    if table.is_managed:
        view_of(table)  # raises for a contradiction before credentials are asked for
    if writes:
        require_takes_commits(table)
    access = Access(catalog, table, writes=writes)
    store = open_vended(
        table.location,
        access.renew,
        options=options,
        retry=retry,
        clock=lambda: machine.now_ms() / 1_000,
        ask_to_write=None if writes else access.ask_to_write,
        is_own_store=True,
    )
    if not table.is_managed:
        return store
    from deltacli.catalogs.managed_store import open_managed

    budget = RETRY_BUDGET.total_seconds() if retry is None else retry.budget_seconds
    return open_managed(store, catalog, table, machine=machine, note=note or (lambda _: None), budget_seconds=budget)


def addresses_matching(catalog: Catalog, text: str) -> list[str]:
    """Return the addresses of Delta tables that match a pattern. Raises UsageError, and what the catalog raises."""
    wanted = parse_pattern(text)
    listed = catalog.tables_of(wanted.catalog, wanted.schema)
    names = [one.name for one in listed if one.data_format == "DELTA" and fnmatchcase(one.name.table, wanted.pattern)]
    return [str(name) for name in names]


class Access:
    """Asks a catalog for the credentials of a table: to read, and from the first change on to write."""

    def __init__(self, catalog: Catalog, table: CatalogTable, *, writes: bool) -> None:
        self._catalog, self._table, self._writes = catalog, table, writes

    def renew(self, _: bool) -> Grant:
        """Return new credentials; none are remembered here."""
        return self._catalog.grant(self._table, Operation.READ_WRITE if self._writes else Operation.READ)

    def ask_to_write(self) -> None:
        """Ask for credentials to write from now on. Raises Refused where the catalog takes no commits."""
        require_takes_commits(self._table)
        self._writes = True
