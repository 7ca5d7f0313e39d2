"""One run against a server that the user names: a suite about the server, then one about each table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import urlsplit

from deltacli.core.clock import Clock
from deltacli.core.errors import StorageFailed, Unreadable, UsageError, command, parameter
from deltacli.core.process import stop_if_exhausted
from deltacli.core.progress import SILENT, Progress
from deltacli.operations.validate.findings import CHECK_CRASHED, COULD_NOT_BE_READ
from deltacli.rules.framework.base import Area, Finding, Level, Rule
from deltacli.sharing.client.addresses import CODE, require_name
from deltacli.sharing.client.faults import Origin, origin_of
from deltacli.sharing.client.share_storage import open_profile
from deltacli.sharing.conformance.asynchronous import ASYNC_AREA, check_async
from deltacli.sharing.conformance.directories import (
    ACCESS_AREA,
    CREDENTIALS_AREA,
    DIRECTORY_AREA,
    DirectoryTest,
    Face,
    OpenStore,
    check_access,
    check_directory,
)
from deltacli.sharing.conformance.files import (
    FILES_AREA,
    FORMATS_AREA,
    HINTS_AREA,
    check_files,
    check_formats,
    check_hints,
    check_metadata,
)
from deltacli.sharing.conformance.lines import LINES_AREA, TABLES_AREA
from deltacli.sharing.conformance.lists import (
    ANSWERS_AREA,
    EVERYWHERE,
    LISTS_AREA,
    NO_ANSWER,
    Item,
    Listed,
    NamedTable,
    Tester,
    check_all_tables,
    check_belongs,
    check_list_pages,
    check_names,
    check_parameters,
    check_share,
    check_share_ids,
    check_tokens,
    check_unique_ids,
    check_unknown_names,
    list_whole,
    schema_path,
    share_path,
)
from deltacli.sharing.conformance.opensharing import (
    ASSETS_AREA,
    OPENSHARING_AREA,
    check_assets,
    check_table_object,
)
from deltacli.sharing.conformance.versions import (
    CHANGES_AREA,
    PAGES_AREA,
    QUERIES_AREA,
    VERSIONS_AREA,
    SharedTableTest,
    check_changes,
    check_end,
    check_files_since,
    check_history,
    check_newest,
    check_pages,
    check_queries,
    check_version,
)
from deltacli.sharing.conformance.wire import (
    BudgetSpentError,
    NoAnswerError,
    Suite,
    TooLargeError,
    Wire,
    WireAnswer,
    WireRequest,
)
from deltacli.sharing.protocol.directories import CREDENTIALS_PATH
from deltacli.storage.vended import open_vended

# -- what the user types -----------------------------------------------------------------------------------------------

_SCHEMES = ("http://", "https://")
Names = tuple[str | None, str | None, str | None]


@dataclass(frozen=True, slots=True)
class ServerTarget:
    """A server, what the header Authorization has for it, and the names to which a run is limited."""

    endpoint: str
    origin: Origin
    authorize: Callable[[], str]
    names: Names = (None, None, None)


def read_server_target(
    address: str, profile: str | None, clock: Clock, note: Callable[[str], None] | None = None
) -> ServerTarget:
    """Return the server of an address; `note` gets warnings about the profile. Raises UsageError, also where the token
    would go to another server than that of the profile.
    """
    place, names = split_names(address)
    is_url = place.lower().startswith(_SCHEMES)
    if is_url and profile is None:
        raise UsageError(
            f"the token for {place} is missing",
            code="share.profile",
            facts={"expected": parameter("share test.profile", "FILE")},
            hint=command("share test", address, profile="FILE"),
        )
    if not is_url and profile is not None and profile != place:
        raise UsageError(
            f"{place} is a profile, and {parameter('share test.profile')} names another one", code="share.profile"
        )
    connection = open_profile(profile or place, clock=clock, note=note)
    endpoint = connection.endpoint
    if is_url:
        endpoint = _require_same_origin(place, connection.origin)
    credentials = connection.credentials
    assert credentials is not None  # those of the profile
    return ServerTarget(endpoint.rstrip("/"), connection.origin, credentials.authorization, names)


def split_names(address: str) -> tuple[str, Names]:
    """Return the part before `#`, and share, schema and table. A file of that name wins; a share may contain dots.

    Raises UsageError.
    """
    place, mark, rest = address.rpartition("#")
    if not mark or os.path.lexists(os.path.expanduser(address)):
        return address, (None, None, None)
    parts = rest.rsplit(".", 2)
    if not place or not all(parts):
        raise UsageError(
            f"{address!r} is not an address", code=CODE, facts={"expected": "PROFILE#SHARE[.SCHEMA[.TABLE]]"}
        )
    found = [*map(require_name, parts), None, None][:3]
    return place, (found[0], found[1], found[2])


def _require_same_origin(url: str, of_profile: Origin) -> str:
    """Return the URL of an endpoint. Raises UsageError where a token of a profile would go to another server."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if origin_of(parts) is None or parts.query or parts.username is not None:
        raise UsageError(f"{url} is not the URL of an endpoint", code=CODE)
    if origin_of(parts) != of_profile:
        raise UsageError(
            "the profile is for another server, and its token is not sent elsewhere",
            code="share.profile",
            facts={"URL": url, "server of the profile": str(of_profile)},
            hint="pass the profile for that server",
        )
    return url


# -- one run against a server ------------------------------------------------------------------------------------------

ITEM_NAMES = {"share": ("name",), "schema": ("name", "share"), "table": ("name", "schema", "share")}
_MOST_LISTS = 20
"""Shares, and schemas of a share, whose lists are read."""
_OF_THE_SERVER = (ANSWERS_AREA, LISTS_AREA, ASSETS_AREA)
"""The areas whose rules are checked once for a server; those of `answers` also for every table."""
_OF_TABLES = (
    *(VERSIONS_AREA, LINES_AREA, TABLES_AREA, FORMATS_AREA, QUERIES_AREA, PAGES_AREA),
    *(HINTS_AREA, CHANGES_AREA, ASYNC_AREA, FILES_AREA),
    *(ACCESS_AREA, CREDENTIALS_AREA, DIRECTORY_AREA, OPENSHARING_AREA),
)
_OF_OPENSHARING = (ASSETS_AREA, OPENSHARING_AREA)
"""The areas of the profile `opensharing` only."""
_LEVELS = (Level.API, Level.FOOTERS, Level.DATA)
"""The levels of the command; each also checks what those before it do."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What is tested: names to which the run is limited, a `level`, and at most `most_tables` tables."""

    share: str | None = None
    schema: str | None = None
    table: str | None = None
    level: str = "footers"
    most_tables: int = 10
    is_opensharing: bool = False
    asks_credentials: bool = True
    probes: bool = False
    """Whether the store is asked for what is outside the credentials."""

    def admits(self, name: NamedTable) -> bool:
        """Return True for a table within the names."""
        pairs = ((self.share, name.share), (self.schema, name.schema), (self.table, name.name))
        return all(wanted is None or wanted.lower() == found.lower() for wanted, found in pairs)


@dataclass
class ConformanceRun:
    """Tests a server. `takes` chooses the rules; `on_suite` is called before each suite and returns what takes its
    findings.
    """

    wire: Wire
    scope: Scope
    now_ms: int
    takes: Callable[[Rule], bool]
    progress: Progress = SILENT
    on_suite: Callable[[str], Callable[[Finding], None]] = lambda _: lambda _: None
    open_store: OpenStore = open_vended
    omissions: list[str] = field(default_factory=list)
    """What the run left out as a whole."""

    def suites(self) -> Iterator[Suite]:
        """Yield each suite when it is done. Raises StorageFailed where the server cannot be reached, UsageError where
        it refuses the token or does not have the names.
        """
        tester = Tester(self.wire, self.now_ms)
        self._require_server()
        suite = self._suite(self.wire.endpoint, self.wire.endpoint, "")
        listed = Listed()
        self._run(
            suite,
            "server",
            lambda: self._test_server(tester, suite, listed),
            self.rules_of(suite),
        )
        yield suite
        tables = [name for name in listed.tables if self.scope.admits(name)]
        if not tables and self.scope.share is not None:
            raise self._nothing(listed)
        for name in tables[: self.scope.most_tables]:
            yield self._test_table(tester, name)
        if len(tables) > self.scope.most_tables:
            left = len(tables) - self.scope.most_tables
            self.omissions.append(
                f"{left:,} of {len(tables):,} tables: {parameter('share test.max_tables', self.scope.most_tables)}"
            )

    def rules_of(self, suite: Suite) -> list[Rule]:
        """Return the rules that a suite checks where it can."""
        own = (EVERYWHERE, *(area.rules for area in self._areas(_OF_TABLES))) if suite.base else None
        return [rule for rules in own or (area.rules for area in self._areas(_OF_THE_SERVER)) for rule in rules]

    def _areas(self, areas: Sequence[Area]) -> list[Area]:
        return [area for area in areas if self.scope.is_opensharing or area not in _OF_OPENSHARING]

    def _suite(self, name: str, uri: str, base: str) -> Suite:
        kinds = _LEVELS[: _LEVELS.index(self.scope.level) + 1]

        def takes(rule: Rule) -> bool:
            return rule is CHECK_CRASHED or (rule.level in kinds and self.takes(rule))

        return Suite(name, uri, base, takes, self.on_suite(uri))

    def _require_server(self) -> None:
        """Raise the fault that keeps everything from being tested."""
        try:
            answer = self.wire.send(WireRequest("shares", {"maxResults": "1"}))
        except NoAnswerError as fault:
            raise StorageFailed(
                f"the server {self.wire.endpoint} cannot be reached: {fault}",
                code="share.unreachable",
                hint="check the endpoint in the profile, and whether the server runs",
            ) from fault
        if answer.status in (401, 403):
            raise UsageError(
                f"the server {self.wire.endpoint} refuses the token of the profile: {answer.status}",
                code="share.refused-token",
                hint=command("share profile check", "FILE"),
            )
        if answer.status == 404:
            raise Unreadable(
                f"{self.wire.endpoint} is not the endpoint of a Delta Sharing server: GET /shares is answered with 404",
                code="share.not-a-server",
            )

    def _nothing(self, listed: Listed) -> Unreadable:
        names = ".".join(name for name in (self.scope.share, self.scope.schema, self.scope.table) if name)
        tables = [table.full_name for table in listed.tables[:5]]
        shares = [str(share["name"]) for share in listed.shares[:5]]
        facts = {"tables of the share": ", ".join(tables)} if tables else {"shares": ", ".join(shares) or "none"}
        return Unreadable(f"the server shares no table {names} with you", code="share.no-table", facts=facts)

    def _run(self, suite: Suite, name: str, check: Callable[[], None], rules: Sequence[Rule]) -> None:
        """Run a check; the rules of one that ends early, and were not yet checked, keep the reason."""
        try:
            check()
        except BudgetSpentError as spent:
            suite.skip(str(spent), rules)
            if str(spent) not in self.omissions:
                self.omissions.append(str(spent))
        except NoAnswerError as fault:
            nowhere = WireAnswer(WireRequest(f"{suite.base}/{name}"), 0, {}, b"")
            suite.require(NO_ANSWER, False, nowhere, f"a request has no whole answer: {fault}")
            suite.skip(f"a request has no whole answer: {fault}", rules)
        except TooLargeError as fault:
            suite.skip(str(fault), rules)
        except Exception as fault:  # noqa: BLE001  (reported: a failing check must not affect the others)
            stop_if_exhausted(fault)
            nowhere = WireAnswer(WireRequest(f"{suite.base}/{name}"), 0, {}, b"")
            message = f"a check failed with {type(fault).__name__}: {fault}"
            suite.require(CHECK_CRASHED, False, nowhere, message)
            suite.skip(message, rules)

    def _test_server(self, tester: Tester, suite: Suite, listed: Listed) -> None:
        check_tokens(tester, suite)
        listed.shares = list_whole(tester, suite, "shares", ITEM_NAMES["share"])
        chosen = [item for item in listed.shares if self._is_wanted(item)]
        for share in chosen[:_MOST_LISTS]:
            self._test_share(tester, suite, share, listed)
        first = listed.schemas[0] if listed.schemas else (None, None)
        share_name, schema_name = first
        if share_name is None and chosen:
            share_name = str(chosen[0]["name"])
        check_unknown_names(tester, suite, share_name, schema_name)
        check_parameters(tester, suite, "shares")
        check_list_pages(tester, suite, "shares", ITEM_NAMES["share"], listed.shares)
        if schema_name is not None and share_name is not None:
            path = f"{schema_path(share_name, schema_name)}/tables"
            names = ITEM_NAMES["table"]
            check_parameters(tester, suite, path)
            check_list_pages(tester, suite, path, names, list_whole(tester, suite, path, names))
        if self.scope.is_opensharing and schema_name is not None and share_name is not None:
            check_assets(tester, suite, share_name, schema_name)
        last = tester.ask(suite, "shares")
        check_unique_ids(suite, last, listed.shares, "shares")
        check_names(suite, last, listed)

    def _is_wanted(self, share: Item) -> bool:
        return self.scope.share is None or self.scope.share.lower() == str(share["name"]).lower()

    def _test_share(self, tester: Tester, suite: Suite, share: Item, listed: Listed) -> None:
        name = str(share["name"])
        answer = check_share(tester, suite, share)
        path = f"{share_path(name)}/schemas"
        schemas = list_whole(tester, suite, path, ITEM_NAMES["schema"])
        check_belongs(suite, answer, schemas, share=name)
        tables: list[Item] = []
        for schema in schemas[:_MOST_LISTS]:
            inside = str(schema["name"])
            listed.schemas.append((name, inside))
            within = f"{schema_path(name, inside)}/tables"
            items = list_whole(tester, suite, within, ITEM_NAMES["table"])
            check_belongs(suite, answer, items, share=name, schema=inside)
            tables += items
            listed.tables += [NamedTable(name, inside, str(item["name"]), {within: item}) for item in items]
        check_unique_ids(suite, answer, tables, "tables of a share")
        check_share_ids(suite, answer, share, tables)
        if len(schemas) <= _MOST_LISTS:
            known = {(table.share, table.schema, table.name): table for table in listed.tables}
            for item in check_all_tables(tester, suite, name, tables):
                if (named := known.get((name, str(item["schema"]), str(item["name"])))) is not None:
                    named.listed[f"{share_path(name)}/all-tables"] = item

    def _test_table(self, tester: Tester, name: NamedTable) -> Suite:
        """Run each part of the test of a table; a part that ends early does not keep the others from running."""
        suite = self._suite(name.full_name, f"{self.wire.endpoint}/{name.path}", name.path)
        table = SharedTableTest(tester, suite, name.path)
        faces = [
            Face(path.rpartition("/")[2], WireAnswer(WireRequest(path), 200, {}, b""), item)
            for path, item in name.listed.items()
        ]
        parts: tuple[tuple[str, Callable[[], None], Area], ...] = (
            ("version", lambda: check_version(table), VERSIONS_AREA),
            ("query", lambda: check_formats(table), FORMATS_AREA),
            ("metadata", lambda: check_metadata(table), FORMATS_AREA),
            ("query", lambda: check_queries(table), QUERIES_AREA),
            ("query", lambda: check_newest(table), VERSIONS_AREA),
            ("query", lambda: check_history(table), VERSIONS_AREA),
            ("query", lambda: check_pages(table), PAGES_AREA),
            ("query", lambda: check_end(table), PAGES_AREA),
            ("query", lambda: check_hints(table), HINTS_AREA),
            ("changes", lambda: check_changes(table), CHANGES_AREA),
            ("query", lambda: check_files_since(table), CHANGES_AREA),
            ("query", lambda: check_async(table), ASYNC_AREA),
            ("query", lambda: check_files(table, self.scope.level), FILES_AREA),
            ("metadata", lambda: check_access(table, faces), ACCESS_AREA),
            (CREDENTIALS_PATH, lambda: check_directory(table, self._directories()), CREDENTIALS_AREA),
            ("", lambda: check_table_object(table, name), OPENSHARING_AREA),
        )
        parts = parts if self.scope.is_opensharing else parts[:-1]
        with self.progress.step(f"testing {name.full_name}", unit="checks", total=len(parts)) as step:
            for path, check, area in parts:
                self._run(suite, path, check, area.rules)
                step.advance()
        suite.skip(COULD_NOT_BE_READ, () if table.whole is not None else self.rules_of(suite))
        return suite

    def _directories(self) -> DirectoryTest:
        return DirectoryTest(self.scope.asks_credentials, self.scope.probes, self.scope.level, self.open_store)


def areas() -> list[Area]:
    """Return the areas in order."""
    return [*_OF_THE_SERVER, *_OF_TABLES]


@lru_cache(maxsize=1)
def conformance_rules() -> Mapping[str, Rule]:
    """Return the rules by id."""
    return {rule.id: rule for area in areas() for rule in area.rules}
