"""The rules about every answer, and about lists of shares, schemas and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from deltacli.core.errors import parameter
from deltacli.core.lock_free_property import cached_property
from deltacli.core.typing import Json
from deltacli.rules.framework.base import Level, Rule
from deltacli.sharing.conformance.wire import (
    MOST_BYTES,
    Rules,
    Suite,
    ThrottledError,
    TooLargeError,
    Wire,
    WireAnswer,
    WireRequest,
)
from deltacli.sharing.protocol.directories import (
    LONGEST_COMMENT,
    LONGEST_DISPLAY_NAME,
    LONGEST_PROPERTY,
    LONGEST_PROPERTY_NAME,
    MOST_PROPERTIES,
    read_share_metadata,
)
from deltacli.sharing.protocol.names import LONGEST_NAME

ANSWERS_AREA = Rules("Answers", Level.API)

NO_ANSWER = ANSWERS_AREA.row("""error share.no-answer | Every request gets a complete answer. | REST APIs | clients
    repeat the request, then fail | look into the log of the server for the request; keep proxies from cutting answers
    short | a connection that ends in the middle of a line""")
SERVER_ERROR = ANSWERS_AREA.row("""error share.server-error | No request is answered with a status of 500 or more; what
    a client did wrong is 400 to 499. | REST APIs (500: not handled correctly due to a server error) | clients repeat
    the request, the Python client for more than a minute, and show no reason | answer 400 with an errorCode for a
    request that cannot be served | 500 for a table that does not exist""")
ERROR_BODY = ANSWERS_AREA.row("""error share.error-body | The body of an error is a JSON object with the strings
    `errorCode` and `message`. | REST APIs (400, 401, 403, 404, 500: Body) | clients show an error of their own parser
    instead of the reason | send {"errorCode": "…", "message": "…"}, also from the proxy in front of the server | 404
    with a page in HTML""")
ERROR_TYPE = ANSWERS_AREA.row("""warning share.error-content-type | The Content-Type of an error is application/json. |
    REST APIs (400, 401, 403, 404, 500: Header) | clients that look at the header do not parse the reason | send
    Content-Type: application/json | text/plain""")
REDIRECT = ANSWERS_AREA.row("""error share.redirect | No request is answered with a redirect, which would lead the token
    elsewhere. | REST APIs | clients lose the token on the way or send it to another host | name the final address in
    the profile | 301 from http to https""")
TOKEN_NOT_REQUIRED = ANSWERS_AREA.row("""error share.token-not-required | A request without a token is refused. | REST
    APIs (all of the REST APIs use bearer tokens for authorization) | everyone who reaches the server reads the shared
    tables | configure the authorization of the server | 200 for GET /shares without Authorization""")
WRONG_TOKEN = ANSWERS_AREA.row("""error share.token-not-checked | A request with another token is refused. | List Shares
    (401: the bearer token is missing or incorrect) | everyone who reaches the server reads the shared tables | compare
    the whole token | 200 for GET /shares with Bearer xyz""")
UNAUTHENTICATED = ANSWERS_AREA.row("""error share.unauthenticated-status | A request with a missing or an incorrect
    token is answered with 401. | List Shares (401: the request is unauthenticated) | clients do not know that the
    profile is the reason | answer 401 | 403, or 400""")
NOT_FOUND = ANSWERS_AREA.row("""error share.unknown-not-404 | A share, schema or table that does not exist is answered
    with 404; 403 is as good. | Get Share; List Schemas in a Share; List Tables in a Schema; Query Table Version (404) |
    clients take a wrong name for an empty list or a fault of the server | answer 404 with RESOURCE_DOES_NOT_EXIST | 200
    with no items for a share that does not exist""")

EVERYWHERE = (NO_ANSWER, SERVER_ERROR, ERROR_BODY, ERROR_TYPE, REDIRECT)
"""The rules of every answer, of the API of a table as well."""

_THROTTLED = 429
UNKNOWN = "deltacli-share-test-no-such-name"


@dataclass
class Tester:
    """Sends requests and checks what holds of every answer. `now_ms`: epoch milliseconds at the start of the run."""

    wire: Wire
    now_ms: int

    def ask(
        self,
        suite: Suite,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        method: str = "GET",
        token: str | None = None,
    ) -> WireAnswer:
        """Return the answer to a request. Raises BudgetSpentError, NoAnswerError, TooLargeError."""
        answer = self.wire.send(WireRequest(path, query or {}, headers or {}, body, method, token))
        suite.require(NO_ANSWER, True, answer, "")
        if answer.status == _THROTTLED:
            again = parameter("share test.pause", "1s")
            raise ThrottledError(f"the limit of the server on requests is reached: it answers 429; try {again}")
        if not answer.is_whole:
            raise TooLargeError(f"an answer is larger than {MOST_BYTES >> 20} MiB")
        _check_status(suite, answer)
        return answer


def _check_status(suite: Suite, answer: WireAnswer) -> None:
    status = answer.status
    suite.require(SERVER_ERROR, status < 500, answer, f"the server answers {status}", seen=status, expected="below 500")
    suite.require(REDIRECT, not 300 <= status < 400, answer, f"the server answers {status}, a redirect", seen=status)
    if status < 400 or answer.request.method == "HEAD":
        return
    fields = answer.json
    is_told = isinstance(fields, dict) and all(isinstance(fields.get(name), str) for name in ("errorCode", "message"))
    if isinstance(fields, dict):
        seen = f"an object with {', '.join(sorted(fields)) or 'nothing'}"
    else:
        seen = f"{len(answer.body):,} bytes of {answer.media_type or 'no type'}" if answer.body else "no body"
    message = f"the body of the answer {status} is not an object with errorCode and message"
    suite.require(ERROR_BODY, is_told, answer, message, seen=seen, expected='{"errorCode": "…", "message": "…"}')
    suite.require_type(ERROR_TYPE, answer, f"the answer {status}", "application/json")


def check_tokens(tester: Tester, suite: Suite) -> None:
    """Check requests without a token and with another one."""
    pairs: tuple[tuple[str, str, Rule], ...] = (
        ("without a token", "", TOKEN_NOT_REQUIRED),
        ("with another token", "deltacli-share-test-wrong-token", WRONG_TOKEN),
    )
    for words, token, rule in pairs:
        answer = tester.ask(suite, "shares", token=token)
        message = f"a request {words} is answered with {answer.status}"
        refused = suite.require(rule, answer.status >= 300, answer, message, expected=401)
        if refused and answer.status < 500:
            suite.require_status(UNAUTHENTICATED, answer.status == 401, answer, f"a request {words}", expected=401)


def check_unknown_names(tester: Tester, suite: Suite, share: str | None, schema: str | None) -> None:
    """Check names that do not exist, as far as there are names around them."""
    paths = [f"shares/{UNKNOWN}", f"shares/{UNKNOWN}/schemas", f"shares/{UNKNOWN}/all-tables"]
    if share is not None and schema is not None:
        inside = f"shares/{share}/schemas"
        paths += [f"{inside}/{UNKNOWN}/tables", f"{inside}/{schema}/tables/{UNKNOWN}/version"]
        paths.append(f"{inside}/{schema}/tables/{UNKNOWN}/metadata")
    for path in paths:
        answer = tester.ask(suite, path)
        is_refused = answer.status in (403, 404) or answer.status >= 500
        suite.require_status(NOT_FOUND, is_refused, answer, "a name that does not exist", expected=404)


# -- lists of shares, schemas and tables -------------------------------------------------------------------------------

LISTS_AREA = Rules("Lists", Level.API)

LIST_TYPE = LISTS_AREA.row("""warning share.list-content-type | The Content-Type of a list is application/json. | List
    Shares (200: Header) | clients that look at the header refuse the answer | send Content-Type: application/json;
    charset=utf-8 | text/html""")
LIST_BODY = LISTS_AREA.row("""error share.list-body | A list is a JSON object. Its `items`, if present, are an array of
    objects, its `nextPageToken` is a string. | List Shares; List Schemas in a Share; List Tables in a Schema; List all
    Tables in a Share (200: Body) | clients fail to list anything | send {"items": […]} | a bare array""")
ITEM_FIELD = LISTS_AREA.row("""error share.list-item-field | Every item has its names as strings: `name`; of schemas
    also `share`; of tables also `schema` and `share`. | List Shares; List Schemas in a Share; List Tables in a Schema
    (200: Body) | clients cannot address what the item names | send the missing field | a table without `schema`""")
ITEM_ELSEWHERE = LISTS_AREA.row("""error share.list-item-elsewhere | The items of a share or a schema name that share
    and that schema. | List Schemas in a Share; List Tables in a Schema; List all Tables in a Share | clients build
    addresses that lead to another table, or nowhere | list what belongs to the requested share and schema only | a
    table of the schema b in the list of the schema a""")
NAME = LISTS_AREA.row(f"""warning share.name-invalid | Names have at most {LONGEST_NAME} characters, no blank, slash or
    control character, and a dot only in names of shares. | Names | some clients cannot address the table | share it
    under another name | a table named `my table`""")
REPEATED_ID = LISTS_AREA.row("""error share.id-repeated | The ids of shares are unique on the server, those of tables
    within their share. | List Shares; List Tables in a Schema (id) | clients that cache by id mix up tables | give each
    share and each table an id of its own | two tables with one id""")
ID_DIFFERS = LISTS_AREA.row("""error share.id-differs | A share has the same id in every answer, and `shareId` of its
    tables is that id. | Get Share (id); List Tables in a Schema (shareId) | clients that cache by id miss or mix up
    tables | store the ids, and make none per request | a new UUID per request""")
GET_SHARE = LISTS_AREA.row("""error share.get-share | A listed share is answered as {"share": {"name": …}} with its
    name. | Get Share | clients refuse the share that the list names | answer what the list of shares has | 404 for a
    listed share""")
NAME_CASE = LISTS_AREA.row("""error share.name-case | The names in URLs are case-insensitive. | Get Share (URL
    Parameters: it's case-insensitive) | addresses in another case work with some servers only | compare names without
    regard to case | 404 for SALES where the share is sales""")
PAGE_SIZE = LISTS_AREA.row("""error share.list-page-size | A page of a list has at most `maxResults` items. | List
    Shares (maxResults) | clients get more than they reserve room for | cut the page, and send a nextPageToken | 3 items
    for maxResults=1""")
PAGES_DIFFER = LISTS_AREA.row("""error share.list-pages-differ | The pages of a list together have the same items as the
    list at once, each once. | List Shares (pageToken, nextPageToken) | clients miss shares, schemas or tables, or see
    them twice | continue exactly behind the last item, and send a nextPageToken while there are more | the second page
    begins with the last item of the first one""")
PAGES_ENDLESS = LISTS_AREA.row("""error share.list-pages-endless | A list ends: each page leads on to another one, and
    the last has no nextPageToken. | List Shares (nextPageToken will not be returned if there are no more results) |
    clients never finish | omit nextPageToken on the last page | the same nextPageToken again and again""")
NO_RESULTS = LISTS_AREA.row("""warning share.list-max-results-zero | maxResults=0 returns no items. | List Shares (0
    will return no results but nextPageToken may be populated) | clients that only ask whether there is something get a
    whole page | answer without items | every item for maxResults=0""")
BAD_MAXIMUM = LISTS_AREA.row("""error share.list-bad-max-results | A maxResults that is negative or not a number is
    answered with 400. | List Shares (must be non-negative; 400: the request is malformed) | mistakes of clients are not
    noticed | answer 400 with INVALID_PARAMETER_VALUE | 200 for maxResults=-1""")
BAD_TOKEN = LISTS_AREA.row("""error share.list-bad-page-token | A pageToken that the server never made is answered with
    400. | List Shares (pageToken; 400: the request is malformed) | clients with a damaged token read a list from the
    start or an empty one | answer 400 with INVALID_PARAMETER_VALUE | 200 with the first page""")
ALL_TABLES = LISTS_AREA.row("""error share.all-tables-differ | all-tables lists the tables of all schemas of the share,
    each once. | List all Tables in a Share | clients that list with all-tables miss tables, or see others | list every
    table of every schema | a schema is missing""")

SHARE_FORM = LISTS_AREA.row("""error share.share-metadata-form | displayName and comment of a share are strings, its
    properties a map of strings; the list and the share itself have the same. | List Shares; Get Share (displayName,
    comment, properties) | clients refuse the list, or show another name | send strings, or leave them out |
    "properties": {"team": 7}""")
SHARE_LIMITS = LISTS_AREA.row(f"""warning share.share-metadata-limits | displayName has at most
    {LONGEST_DISPLAY_NAME} characters, comment {LONGEST_COMMENT:,}; there are at most {MOST_PROPERTIES} properties, with
    {LONGEST_PROPERTY_NAME} characters in a key and {LONGEST_PROPERTY:,} in a value. | List Shares
    (displayName, comment, properties) | clients cut them | shorten them | a displayName of 300 characters""")

_MOST_PAGES = 50
_WHOLE = 500

Item = dict[str, Json]


@dataclass
class NamedTable:
    """A table as its list has it."""

    share: str
    schema: str
    name: str
    listed: dict[str, Item] = field(default_factory=dict)
    """What the lists have of it, by the path of the list."""

    full_name = cached_property(lambda self: f"{self.share}.{self.schema}.{self.name}")
    path = cached_property(lambda self: f"{schema_path(self.share, self.schema)}/tables/{quote(self.name, safe='')}")
    """The path of its requests."""


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
class Listed:
    """What the lists of a server name."""

    shares: list[Item] = field(default_factory=list)
    schemas: list[tuple[str, str]] = field(default_factory=list)
    tables: list[NamedTable] = field(default_factory=list)


def share_path(share: str) -> str:
    return f"shares/{quote(share, safe='')}"


def schema_path(share: str, schema: str) -> str:
    return f"{share_path(share)}/schemas/{quote(schema, safe='')}"


def list_whole(tester: Tester, suite: Suite, path: str, names: Sequence[str]) -> list[Item]:
    """Return the items of a list whose items have these names."""
    return [item for _, page in _pages(tester, suite, path, names, _WHOLE) for item in page or []]


def _pages(
    tester: Tester, suite: Suite, path: str, names: Sequence[str], size: int
) -> Iterator[tuple[WireAnswer, list[Item] | None]]:
    """Yield the pages of a list, and None for one that is refused. One that leads back to itself is the last one."""
    tokens: list[str] = []
    for _ in range(_MOST_PAGES):
        query = {"pageToken": tokens[-1]} if tokens else {}
        answer = tester.ask(suite, path, query={"maxResults": str(size), **query})
        page, token = _read_page(suite, answer, names) if answer.is_ok else (None, "")
        yield answer, page
        message = "the nextPageToken of a page leads to the same page again"
        if page is None or not suite.require(PAGES_ENDLESS, token not in tokens, answer, message) or not token:
            return
        tokens.append(token)


def _read_page(suite: Suite, answer: WireAnswer, names: Sequence[str]) -> tuple[list[Item], str]:
    """Return the items and the token of a page, and check their form."""
    suite.require_type(LIST_TYPE, answer, "a list", "application/json; charset=utf-8")
    content = answer.json
    items = (content.get("items") or []) if isinstance(content, dict) else None
    token = (content.get("nextPageToken") or "") if isinstance(content, dict) else ""
    is_list = isinstance(items, list) and all(isinstance(item, dict) for item in items) and isinstance(token, str)
    if not suite.require(LIST_BODY, is_list, answer, "the body is not an object with items", expected='{"items": […]}'):
        return [], ""
    found: list[Item] = items or []
    for item in found:
        missing = [name for name in names if not isinstance(item.get(name), str) or not item[name]]
        message, seen = f"an item lacks {', '.join(missing)}", ", ".join(sorted(item))
        suite.require(ITEM_FIELD, not missing, answer, message, seen=seen, expected=", ".join(names))
    return [item for item in found if all(isinstance(item.get(name), str) for name in names)], token


def check_names(suite: Suite, answer: WireAnswer, listed: Listed) -> None:
    """Check the names of everything that is listed."""
    names = [("share", str(item["name"])) for item in listed.shares]
    names += [("schema", name) for _, name in listed.schemas] + [("table", one.name) for one in listed.tables]
    for kind, name in names:
        bad = len(name) > LONGEST_NAME or any(char in " /" or ord(char) < 0x20 or ord(char) == 0x7F for char in name)
        is_valid, message = not bad and (kind == "share" or "." not in name), f"the name of the {kind} {name[:80]!r}"
        suite.require(NAME, is_valid, answer, f"{message} is one that clients cannot address", seen=name[:80])


def check_list_pages(tester: Tester, suite: Suite, path: str, names: Sequence[str], whole: Sequence[Item]) -> None:
    """Compare a list page by page with the whole list."""
    size, items, endless = max(1, (len(whole) + 2) // 3), list[Item](), len(suite.findings)
    for answer, page in _pages(tester, suite, path, names, size):
        if page is None:
            suite.require(PAGES_DIFFER, False, answer, f"a page of a list is answered with {answer.status}")
            return
        items += page
        message = f"a page has {len(page)} items, more than maxResults"
        suite.require(PAGE_SIZE, len(page) <= size, answer, message, seen=len(page), expected=size)
    if any(finding.rule is PAGES_ENDLESS for finding in suite.findings[endless:]):
        return
    pages, at_once = [_key(item, names) for item in items], [_key(item, names) for item in whole]
    message, seen = "the pages of the list have other items than the list at once", _difference(pages, at_once)
    is_same, expected = sorted(pages) == sorted(at_once), f"{len(at_once)} items"
    suite.require(PAGES_DIFFER, is_same, answer, message, seen=seen, expected=expected)


def _key(item: Item, names: Sequence[str]) -> str:
    return ".".join(str(item[name]) for name in reversed(names))


def _difference(found: Sequence[str], expected: Sequence[str]) -> str:
    missing, more = sorted(set(expected) - set(found)), sorted(set(found) - set(expected))
    parts = [f"missing {', '.join(missing[:3])}"] if missing else []
    parts += [f"unexpected {', '.join(more[:3])}"] if more else []
    return "; ".join(parts) or f"{len(found)} items, some of them twice"


def check_parameters(tester: Tester, suite: Suite, path: str) -> None:
    """Check the parameters of a list that have no page as an answer."""
    none = tester.ask(suite, path, query={"maxResults": "0"})
    if none.status < 500:
        found = none.json.get("items") if isinstance(none.json, dict) else None
        items = found if isinstance(found, list) else []
        message = f"maxResults=0 is answered with {f'{len(items)} items' if none.is_ok else none.status}"
        suite.require(NO_RESULTS, none.is_ok and not items, none, message, expected="200 without items")
    for name, value, rule in (
        ("maxResults", "-1", BAD_MAXIMUM),
        ("maxResults", "many", BAD_MAXIMUM),
        ("pageToken", "deltacli-share-test-no-token", BAD_TOKEN),
    ):
        answer = tester.ask(suite, path, query={name: value})
        shown = "made up" if rule is BAD_TOKEN else value
        suite.require_status(rule, answer.status == 400 or answer.status >= 500, answer, f"{name} {shown}")


def check_share(tester: Tester, suite: Suite, item: Item) -> WireAnswer:
    """Compare a share with its item in the list."""
    answer = tester.ask(suite, share_path(name := str(item["name"])))
    content = answer.json if answer.is_ok else None
    shared = content.get("share") if isinstance(content, dict) else None
    share: Item = shared if isinstance(shared, dict) else {}
    found, expected = share.get("name"), f'{{"share": {{"name": "{name}"}}}}'
    words = f" and the name {found!r}" if answer.is_ok else ""
    message = f"the share {name} is answered with {answer.status}{words}"
    if not suite.require(GET_SHARE, found == name, answer, message, expected=expected):
        return answer
    check_id(suite, answer, item.get("id"), share.get("id"), f"the share {name}")
    suite.report(read_share_metadata(item)[1] + read_share_metadata(share)[1], answer, SHARE_FORM, SHARE_LIMITS)
    differing = [key for key in ("displayName", "comment", "properties") if item.get(key) != share.get(key)]
    suite.require(SHARE_FORM, not differing, answer, f"{', '.join(differing)} of the share {name} differ from the list")
    for other in dict.fromkeys((name.upper(), name.swapcase())):
        if other != name:
            again = tester.ask(suite, share_path(other))
            suite.require_status(
                NAME_CASE, again.is_ok, again, f"the name of a share in another case, {other},", expected=200
            )
            break
    return answer


def check_id(suite: Suite, answer: WireAnswer, expected: object, found: object, what: str) -> None:
    """Compare the id of a share with that in the list of shares."""
    message = f"{what} has another id than in the list of shares"
    suite.require(ID_DIFFERS, expected == found, answer, message, expected="the same id in every answer")


def check_unique_ids(suite: Suite, answer: WireAnswer, items: Sequence[Item], kind: str) -> None:
    """Check that no two items have the same id."""
    ids = [item["id"] for item in items if item.get("id")]
    repeated = sorted({str(one) for one in ids if ids.count(one) > 1})
    message, seen = f"several {kind} have the same id", ", ".join(repeated[:3]) or None
    suite.require(REPEATED_ID, not repeated, answer, message, seen=seen)


def check_belongs(suite: Suite, answer: WireAnswer, items: Sequence[Item], **names: str) -> None:
    """Check that items name the share, or the schema, that was asked for."""
    for item in items:
        wrong = [name for name, value in names.items() if str(item.get(name)).lower() != value.lower()]
        message = f"the item {item.get('name')} belongs to another {' and '.join(wrong)}"
        seen = ", ".join(f"{name} {item.get(name)}" for name in wrong) or None
        expected = ", ".join(f"{name} {value}" for name, value in names.items())
        suite.require(ITEM_ELSEWHERE, not wrong, answer, message, seen=seen, expected=expected)


def check_all_tables(tester: Tester, suite: Suite, share: str, tables: Sequence[Item]) -> list[Item]:
    """Compare all-tables with the tables of each schema; return its items."""
    names = ("name", "schema", "share")
    items = list_whole(tester, suite, f"{share_path(share)}/all-tables", names)
    found, expected = [_key(item, names) for item in items], [_key(item, names) for item in tables]
    answer = tester.ask(suite, f"{share_path(share)}/all-tables")
    is_same, count = sorted(found) == sorted(expected), f"{len(expected)} tables"
    message, seen = "all-tables has other tables than the schemas", _difference(found, expected)
    suite.require(ALL_TABLES, is_same, answer, message, seen=seen, expected=count)
    check_belongs(suite, answer, items, share=share)
    return items
