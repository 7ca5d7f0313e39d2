"""One run against a server that the user names: a suite about the server, then one about each table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from deltacli.core.errors import StorageFailed, Unreadable, UsageError, command, parameter
from deltacli.core.machine import Clock
from deltacli.core.memory import raise_if_out_of_memory
from deltacli.core.progress import SILENT, Progress
from deltacli.rules.framework.base import Area, Finding, Level, Rule
from deltacli.rules.framework.choice import CHECK_CRASHED, COULD_NOT_BE_READ
from deltacli.sharing.client.addresses import CODE, require_name
from deltacli.sharing.client.faults import Origin, origin_of
from deltacli.sharing.client.transport import open_profile
from deltacli.sharing.conformance import asynchronous, directories, files, lines, lists, versions
from deltacli.sharing.conformance.lines import version_of
from deltacli.sharing.conformance.lists import UNKNOWN, Tester, schema_path, share_path
from deltacli.sharing.conformance.versions import SharedTableTest
from deltacli.sharing.conformance.wire import (
    BudgetSpentError,
    NoAnswerError,
    Rules,
    Suite,
    TooLargeError,
    Wire,
    WireAnswer,
    WireRequest,
)
from deltacli.sharing.protocol.directories import CREDENTIALS_PATH
from deltacli.storage.vended import open_vended

if TYPE_CHECKING:
    from deltacli.operations.validate.validate import Validation

# -- rules that OpenSharing adds to those of Delta Sharing, as far as they concern tables ------------------------------

ASSETS_AREA = Rules("OpenSharing assets", Level.API)
OPENSHARING_AREA = Rules("OpenSharing tables", Level.API)

ASSET_ROUTE = ASSETS_AREA.row("""warning share.asset-route | The routes of volumes, models, skills and of the Iceberg
    view are answered with 200 and an object of their form, or with 4xx and JSON. | OpenSharing: VOLUMES.md; TABLES.md
    (Iceberg REST) | clients of other assets repeat the request, or show an error of their parser | answer 404 with
    RESOURCE_DOES_NOT_EXIST where the server has no such assets | 501 for the volumes of a schema""")
GET_TABLE = OPENSHARING_AREA.row("""error share.get-table | GET of a table is an object with its name, schema, share and
    format, which is delta, iceberg, or both with a comma; an unknown table is 404. | OpenSharing: TABLES.md (Get Table)
    | clients cannot find out how to read the table | answer {"name", "schema", "share", "format"} without a wrapper |
    405 for GET of a listed table""")
HEAD_TABLE = OPENSHARING_AREA.row("""warning share.head-table | HEAD of a table keeps the header Delta-Table-Version,
    also where GET of it is Get Table. | Query Table Version (HEAD, deprecated); OpenSharing: TABLES.md (Get Table) |
    older clients do not find the version | send the header for HEAD | HEAD without the header""")

_FORMATS = {"delta", "iceberg"}


def check_assets(tester: Tester, suite: Suite, share: str, schema: str) -> None:
    """Ask for assets that are not tables."""
    inside = schema_path(share, schema)
    paths = [*(f"{inside}/{kind}" for kind in ("volumes", "models", "skills")), f"{share_path(share)}/all-volumes"]
    for path in (*paths, "iceberg/v1/config"):
        query = {"warehouse": share} if path.startswith("iceberg") else {}
        answer = tester.wire.send(WireRequest(path, query))
        content = answer.json
        items = content.get("items", []) if isinstance(content, dict) else None
        is_right = isinstance(content, dict) and (
            400 <= answer.status < 500 or (answer.is_ok and isinstance(items, list))
        )
        message = f"the route of an asset is answered with {answer.status} and {answer.media_type or 'no type'}"
        suite.require(ASSET_ROUTE, is_right, answer, message, expected="200 or 4xx, with JSON")


def check_table_object(table: SharedTableTest) -> None:
    """Ask for the table itself."""
    answer, name = table.ask(""), table.named
    fields = answer.json if answer.is_ok and isinstance(answer.json, dict) else {}
    wanted = {"name": name.name, "schema": name.schema, "share": name.share}
    wrong = [key for key, value in wanted.items() if str(fields.get(key)).lower() != value.lower()]
    formats = fields.get("format")
    is_known = isinstance(formats, str) and {part.strip() for part in formats.split(",")} <= _FORMATS
    wrong += [] if is_known else ["format"]
    message = f"the table is answered with {answer.status}, without {', '.join(wrong)}"
    table.require(GET_TABLE, not wrong, answer, message, seen=str(formats)[:80], expected="delta, iceberg")
    unknown = table.tester.ask(table, f"{table.base.rpartition('/')[0]}/{UNKNOWN}")
    is_refused = unknown.status in (403, 404) or unknown.status >= 500
    table.require_status(GET_TABLE, is_refused, unknown, "a table that does not exist", expected=404)
    head = table.ask("", method="HEAD")
    is_kept, message = version_of(head) is not None, f"HEAD is answered with {head.status}, and without the version"
    table.require(HEAD_TABLE, head.is_ok and is_kept, head, message, seen=head.status)


# -- what the user types -----------------------------------------------------------------------------------------------

Kind = TypeVar("Kind", bound=Suite)
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
    endpoint = _require_same_origin(place, connection.origin) if is_url else connection.endpoint
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
_OF_THE_SERVER = (lists.ANSWERS_AREA, lists.LISTS_AREA, ASSETS_AREA)
"""The areas whose rules are checked once for a server; those of `answers` also for every table."""
_PARTS = (
    ("version", versions.check_version, [versions.VERSIONS_AREA]),
    ("query", files.check_formats, [lines.LINES_AREA, lines.TABLES_AREA, files.FORMATS_AREA]),
    ("metadata", files.check_metadata, [files.FORMATS_AREA]),
    ("query", versions.check_queries, [versions.QUERIES_AREA]),
    ("query", versions.check_newest, [versions.VERSIONS_AREA]),
    ("query", versions.check_history, [versions.VERSIONS_AREA]),
    ("query", versions.check_pages, [versions.PAGES_AREA]),
    ("query", versions.check_end, [versions.PAGES_AREA]),
    ("query", files.check_hints, [files.HINTS_AREA]),
    ("changes", versions.check_changes, [versions.CHANGES_AREA]),
    ("query", versions.check_files_since, [versions.CHANGES_AREA]),
    ("query", asynchronous.check_async, [asynchronous.ASYNC_AREA]),
    ("query", files.check_files, [files.FILES_AREA]),
    ("metadata", directories.check_access, [directories.ACCESS_AREA]),
    (CREDENTIALS_PATH, directories.check_directory, [directories.CREDENTIALS_AREA, directories.DIRECTORY_AREA]),
    ("", check_table_object, [OPENSHARING_AREA]),
)
"""The parts of the test of a table, the request that a finding about an early end names, and the areas."""
_OF_TABLES = tuple({area.name: area for _, _, areas in _PARTS for area in areas}.values())
_OF_OPENSHARING = (ASSETS_AREA, OPENSHARING_AREA)
"""The areas of the profile `opensharing` only."""
_LEVELS = (Level.API, Level.FOOTERS, Level.DATA)
"""The levels of the command; each also checks what those before it do."""


@dataclass
class ConformanceRun:
    """Tests a server. `takes` chooses rules; `on_suite` is called before each and returns what takes its findings."""

    wire: Wire
    scope: lists.Scope
    now_ms: int
    takes: Callable[[Rule], bool]
    progress: Progress = SILENT
    on_suite: Callable[[str], Callable[[Finding], None]] = lambda _: lambda _: None
    open_store: versions.OpenStore = open_vended
    omissions: list[str] = field(default_factory=list)
    """What the run left out as a whole."""

    def suites(self) -> Iterator[Suite]:
        """Yield each suite when it is done. Raises StorageFailed where the server cannot be reached, UsageError where
        it refuses the token or does not have the names.
        """
        tester = lists.Tester(self.wire, self.now_ms)
        self._require_server()
        suite = self._suite(Suite, self.wire.endpoint, self.wire.endpoint, "")
        listed = lists.Listed()
        self._run(suite, "server", lambda: self._test_server(tester, suite, listed), self.rules_of(suite))
        yield suite
        tables = [name for name in listed.tables if self.scope.admits(name)]
        if not tables and self.scope.share is not None:
            wanted = ".".join(name for name in (self.scope.share, self.scope.schema, self.scope.table) if name)
            names = ", ".join(table.full_name for table in listed.tables[:5])
            shares = ", ".join(str(share["name"]) for share in listed.shares[:5])
            facts = {"tables of the share": names} if names else {"shares": shares or "none"}
            message = f"the server shares no table {wanted} with you"
            raise Unreadable(message, code="share.no-table", facts=facts)
        for name in tables[: self.scope.most_tables]:
            yield self._test_table(tester, name)
        if (left := len(tables) - self.scope.most_tables) > 0:
            option = parameter("share test.max_tables", self.scope.most_tables)
            self.omissions.append(f"{left:,} of {len(tables):,} tables: {option}")

    def rules_of(self, suite: Suite) -> list[Rule]:
        """Return the rules that a suite checks where it can."""
        own = (lists.EVERYWHERE, *(area.rules for area in self._areas(_OF_TABLES))) if suite.base else None
        return [rule for rules in own or (area.rules for area in self._areas(_OF_THE_SERVER)) for rule in rules]

    def make_validation(self, suite: Suite, chosen: Set[str], *, level: str) -> Validation:
        """Return the findings of a suite in the form of a validation.

        Args:
            suite: The suite, once it has run.
            chosen: The ids of the rules that were chosen.
            level: The level of the run.
        """
        # The server may have been tested without anything of a table being read.
        from deltacli.operations.validate.validate import Validation

        reasons = suite.not_checked([rule for rule in self.rules_of(suite) if rule.id in chosen])
        return Validation(
            suite.uri,
            suite.version,
            level,
            tuple(suite.findings),
            {},
            tuple(f"{', '.join(ids)}: {reason}" for reason, ids in reasons.items()),
            frozenset(suite.checked & chosen),
            table_format="share",
            skipped={rule: reason for reason, ids in reasons.items() for rule in ids},
        )

    def _areas(self, areas: Sequence[Area]) -> list[Area]:
        return [area for area in areas if self.scope.is_opensharing or area not in _OF_OPENSHARING]

    def _suite(self, kind: type[Kind], name: str, uri: str, base: str, **own: Any) -> Kind:  # Any: fields of the class
        kinds = _LEVELS[: _LEVELS.index(self.scope.level) + 1]

        def takes(rule: Rule) -> bool:
            return rule is CHECK_CRASHED or (rule.level in kinds and self.takes(rule))

        return kind(name, uri, base, takes, self.on_suite(uri), **own)

    def _require_server(self) -> None:
        try:
            answer = self.wire.send(WireRequest("shares", {"maxResults": "1"}))
        except NoAnswerError as fault:
            raise StorageFailed(
                f"the server {self.wire.endpoint} cannot be reached: {fault}",
                code="share.unreachable",
                hint="check the endpoint in the profile, and whether the server runs",
            ) from fault
        if answer.status in (401, 403):
            message = f"the server {self.wire.endpoint} refuses the token of the profile: {answer.status}"
            raise UsageError(message, code="share.refused-token", hint=command("share profile check", "FILE"))
        if answer.status == 404:
            raise Unreadable(
                f"{self.wire.endpoint} is not the endpoint of a Delta Sharing server: GET /shares is answered with 404",
                code="share.not-a-server",
            )

    def _run(self, suite: Suite, name: str, check: Callable[[], None], rules: Sequence[Rule]) -> None:
        """Run a check; the rules of one that ends early, and were not yet checked, keep the reason."""
        nowhere = WireAnswer(WireRequest(f"{suite.base}/{name}"), 0, {}, b"")
        try:
            check()
        except BudgetSpentError as spent:
            suite.skip(str(spent), *rules)
            if str(spent) not in self.omissions:
                self.omissions.append(str(spent))
        except NoAnswerError as fault:
            message = f"a request has no whole answer: {fault}"
            suite.require(lists.NO_ANSWER, False, nowhere, message)
            suite.skip(message, *rules)
        except TooLargeError as fault:
            suite.skip(str(fault), *rules)
        except Exception as fault:  # noqa: BLE001  (reported: a failing check must not affect the others)
            raise_if_out_of_memory(fault)
            message = f"a check failed with {type(fault).__name__}: {fault}"
            suite.require(CHECK_CRASHED, False, nowhere, message)
            suite.skip(message, *rules)

    def _test_server(self, tester: lists.Tester, suite: Suite, listed: lists.Listed) -> None:
        lists.check_tokens(tester, suite)
        listed.shares = lists.list_whole(tester, suite, "shares", ITEM_NAMES["share"])
        wanted = self.scope.share
        chosen = [item for item in listed.shares if wanted is None or wanted.lower() == str(item["name"]).lower()]
        for share in chosen[:_MOST_LISTS]:
            self._test_share(tester, suite, share, listed)
        share_name, schema_name = listed.schemas[0] if listed.schemas else (None, None)
        if share_name is None and chosen:
            share_name = str(chosen[0]["name"])
        lists.check_unknown_names(tester, suite, share_name, schema_name)
        lists.check_parameters(tester, suite, "shares")
        lists.check_list_pages(tester, suite, "shares", ITEM_NAMES["share"], listed.shares)
        if schema_name is not None and share_name is not None:
            path, names = f"{lists.schema_path(share_name, schema_name)}/tables", ITEM_NAMES["table"]
            lists.check_parameters(tester, suite, path)
            lists.check_list_pages(tester, suite, path, names, lists.list_whole(tester, suite, path, names))
        last = tester.ask(suite, "shares")
        lists.check_unique_ids(suite, last, listed.shares, "shares")
        lists.check_names(suite, last, listed)
        if self.scope.is_opensharing and schema_name is not None and share_name is not None:
            check_assets(tester, suite, share_name, schema_name)

    def _test_share(self, tester: lists.Tester, suite: Suite, share: lists.Item, listed: lists.Listed) -> None:
        name = str(share["name"])
        answer = lists.check_share(tester, suite, share)
        path = f"{lists.share_path(name)}/schemas"
        schemas = lists.list_whole(tester, suite, path, ITEM_NAMES["schema"])
        lists.check_belongs(suite, answer, schemas, share=name)
        tables: list[lists.Item] = []
        for schema in schemas[:_MOST_LISTS]:
            inside = str(schema["name"])
            listed.schemas.append((name, inside))
            within = f"{lists.schema_path(name, inside)}/tables"
            items = lists.list_whole(tester, suite, within, ITEM_NAMES["table"])
            lists.check_belongs(suite, answer, items, share=name, schema=inside)
            tables += items
            listed.tables += [lists.NamedTable(name, inside, str(item["name"]), {within: item}) for item in items]
        lists.check_unique_ids(suite, answer, tables, "tables of a share")
        for item in tables:
            if item.get("shareId") is not None and share.get("id") is not None:
                lists.check_id(suite, answer, share["id"], item["shareId"], f"the share of the table {item['name']}")
        if len(schemas) <= _MOST_LISTS:
            known = {(table.share, table.schema, table.name): table for table in listed.tables}
            for item in lists.check_all_tables(tester, suite, name, tables):
                if (named := known.get((name, str(item["schema"]), str(item["name"])))) is not None:
                    named.listed[f"{lists.share_path(name)}/all-tables"] = item

    def _test_table(self, tester: lists.Tester, name: lists.NamedTable) -> Suite:
        """Run each part of the test of a table; a part that ends early does not keep the others from running."""
        own = {"tester": tester, "named": name, "scope": self.scope, "open_store": self.open_store}
        uri = f"{self.wire.endpoint}/{name.path}"
        table = self._suite(versions.SharedTableTest, name.full_name, uri, name.path, **own)
        parts = [part for part in _PARTS if self._areas(part[2])]
        with self.progress.step(f"testing {name.full_name}", unit="checks", total=len(parts)) as step:
            for path, check, areas in parts:
                self._run(table, path, partial(check, table), [rule for area in areas for rule in area.rules])
                step.advance()
        reason = COULD_NOT_BE_READ if table.access.has_urls else "the table is not offered by url"
        table.skip(reason, *(() if table.whole is not None else self.rules_of(table)))
        return table


def areas() -> list[Area]:
    """Return the areas in order."""
    return [*_OF_THE_SERVER, *_OF_TABLES]


@lru_cache(maxsize=1)
def conformance_rules() -> Mapping[str, Rule]:
    """Return the rules by id."""
    return {rule.id: rule for area in areas() for rule in area.rules}
