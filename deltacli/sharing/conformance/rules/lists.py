"""Lists of shares, schemas and tables: their fields, their pages, and that they agree with each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from deltacli.core.typing import Json
from deltacli.rules.framework.base import Area, Level
from deltacli.sharing.conformance.rules.answers import Tester
from deltacli.sharing.conformance.wire import Suite, WireAnswer

LISTS_AREA = Area("Lists", Level.API)

LIST_TYPE = LISTS_AREA.warning(
    "share.list-content-type",
    "The Content-Type of a list is application/json.",
    spec="List Shares (200: Header)",
    broken="clients that look at the header refuse the answer",
    repair="send Content-Type: application/json; charset=utf-8",
    example="text/html",
)
LIST_BODY = LISTS_AREA.error(
    "share.list-body",
    "A list is a JSON object. Its `items`, if present, are an array of objects, its `nextPageToken` is a string.",
    spec="List Shares; List Schemas in a Share; List Tables in a Schema; List all Tables in a Share (200: Body)",
    broken="clients fail to list anything",
    repair='send {"items": […]}',
    example="a bare array",
)
ITEM_FIELD = LISTS_AREA.error(
    "share.list-item-field",
    "Every item has its names as strings: `name`; of schemas also `share`; of tables also `schema` and `share`.",
    spec="List Shares; List Schemas in a Share; List Tables in a Schema (200: Body)",
    broken="clients cannot address what the item names",
    repair="send the missing field",
    example="a table without `schema`",
)
ITEM_ELSEWHERE = LISTS_AREA.error(
    "share.list-item-elsewhere",
    "The items of a share or a schema name that share and that schema.",
    spec="List Schemas in a Share; List Tables in a Schema; List all Tables in a Share",
    broken="clients build addresses that lead to another table, or nowhere",
    repair="list what belongs to the requested share and schema only",
    example="a table of the schema b in the list of the schema a",
)
NAME = LISTS_AREA.warning(
    "share.name-invalid",
    "Names have at most 255 characters, no blank, slash or control character, and a dot only in names of shares.",
    spec="Names",
    broken="some clients cannot address the table",
    repair="share it under another name",
    example="a table named `my table`",
)
REPEATED_ID = LISTS_AREA.error(
    "share.id-repeated",
    "The ids of shares are unique on the server, those of tables within their share.",
    spec="List Shares; List Tables in a Schema (id)",
    broken="clients that cache by id mix up tables",
    repair="give each share and each table an id of its own",
    example="two tables with one id",
)
ID_DIFFERS = LISTS_AREA.error(
    "share.id-differs",
    "A share has the same id in every answer, and `shareId` of its tables is that id.",
    spec="Get Share (id); List Tables in a Schema (shareId)",
    broken="clients that cache by id miss or mix up tables",
    repair="store the ids, and make none per request",
    example="a new UUID per request",
)
GET_SHARE = LISTS_AREA.error(
    "share.get-share",
    'A listed share is answered as {"share": {"name": …}} with its name.',
    spec="Get Share",
    broken="clients refuse the share that the list names",
    repair="answer what the list of shares has",
    example="404 for a listed share",
)
NAME_CASE = LISTS_AREA.error(
    "share.name-case",
    "The names in URLs are case-insensitive.",
    spec="Get Share (URL Parameters: it's case-insensitive)",
    broken="addresses in another case work with some servers only",
    repair="compare names without regard to case",
    example="404 for SALES where the share is sales",
)
PAGE_SIZE = LISTS_AREA.error(
    "share.list-page-size",
    "A page of a list has at most `maxResults` items.",
    spec="List Shares (maxResults)",
    broken="clients get more than they reserve room for",
    repair="cut the page, and send a nextPageToken",
    example="3 items for maxResults=1",
)
PAGES_DIFFER = LISTS_AREA.error(
    "share.list-pages-differ",
    "The pages of a list together have the same items as the list at once, each once.",
    spec="List Shares (pageToken, nextPageToken)",
    broken="clients miss shares, schemas or tables, or see them twice",
    repair="continue exactly behind the last item, and send a nextPageToken while there are more",
    example="the second page begins with the last item of the first one",
)
PAGES_ENDLESS = LISTS_AREA.error(
    "share.list-pages-endless",
    "A list ends: each page leads on to another one, and the last has no nextPageToken.",
    spec="List Shares (nextPageToken will not be returned if there are no more results)",
    broken="clients never finish",
    repair="omit nextPageToken on the last page",
    example="the same nextPageToken again and again",
)
NO_RESULTS = LISTS_AREA.warning(
    "share.list-max-results-zero",
    "maxResults=0 returns no items.",
    spec="List Shares (0 will return no results but nextPageToken may be populated)",
    broken="clients that only ask whether there is something get a whole page",
    repair="answer without items",
    example="every item for maxResults=0",
)
BAD_MAXIMUM = LISTS_AREA.error(
    "share.list-bad-max-results",
    "A maxResults that is negative or not a number is answered with 400.",
    spec="List Shares (must be non-negative; 400: the request is malformed)",
    broken="mistakes of clients are not noticed",
    repair="answer 400 with INVALID_PARAMETER_VALUE",
    example="200 for maxResults=-1",
)
BAD_TOKEN = LISTS_AREA.error(
    "share.list-bad-page-token",
    "A pageToken that the server never made is answered with 400.",
    spec="List Shares (pageToken; 400: the request is malformed)",
    broken="clients with a damaged token read a list from the start or an empty one",
    repair="answer 400 with INVALID_PARAMETER_VALUE",
    example="200 with the first page",
)
ALL_TABLES = LISTS_AREA.error(
    "share.all-tables-differ",
    "all-tables lists the tables of all schemas of the share, each once.",
    spec="List all Tables in a Share",
    broken="clients that list with all-tables miss tables, or see others",
    repair="list every table of every schema",
    example="a schema is missing",
)

_MOST_PAGES = 50
_WHOLE = "500"
_BAD_TOKEN = "deltacli-share-test-no-token"
_LONGEST_NAME = 255

Item = dict[str, Json]


@dataclass
class NamedTable:
    """A table as its list has it."""

    share: str
    schema: str
    name: str
    id: str | None = None

    @property
    def full_name(self) -> str:
        return f"{self.share}.{self.schema}.{self.name}"

    @property
    def path(self) -> str:
        """Return the path of its requests."""
        return f"{schema_path(self.share, self.schema)}/tables/{quote(self.name, safe='')}"


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
    items: list[Item] = []
    tokens: list[str] = []
    for _ in range(_MOST_PAGES):
        query = {"pageToken": tokens[-1]} if tokens else {}
        answer = tester.ask(suite, path, query={"maxResults": _WHOLE, **query})
        if not answer.is_ok:
            return items
        page, token = _read_page(suite, answer, names)
        items += page
        if not token:
            suite.require(PAGES_ENDLESS, True, answer, "")
            return items
        if not _leads_on(suite, answer, token, tokens):
            return items
        tokens.append(token)
    return items


def _leads_on(suite: Suite, answer: WireAnswer, token: str, tokens: Sequence[str]) -> bool:
    return suite.require(
        PAGES_ENDLESS, token not in tokens, answer, "the nextPageToken of a page leads to the same page again"
    )


def _read_page(suite: Suite, answer: WireAnswer, names: Sequence[str]) -> tuple[list[Item], str]:
    """Return the items and the token of a page, and check their form."""
    suite.require(
        LIST_TYPE,
        answer.media_type == "application/json",
        answer,
        "the Content-Type of a list is not application/json",
        seen=answer.headers.get("content-type", "missing"),
        expected="application/json; charset=utf-8",
    )
    content = answer.json
    items = (content.get("items") or []) if isinstance(content, dict) else None
    token = (content.get("nextPageToken") or "") if isinstance(content, dict) else ""
    is_list = isinstance(items, list) and all(isinstance(item, dict) for item in items) and isinstance(token, str)
    if not suite.require(LIST_BODY, is_list, answer, "the body is not an object with items", expected='{"items": […]}'):
        return [], ""
    found: list[Item] = items or []
    for item in found:
        missing = [name for name in names if not isinstance(item.get(name), str) or not item[name]]
        suite.require(
            ITEM_FIELD,
            not missing,
            answer,
            f"an item lacks {', '.join(missing)}",
            seen=", ".join(sorted(item)),
            expected=", ".join(names),
        )
    return [item for item in found if all(isinstance(item.get(name), str) for name in names)], token


def check_names(suite: Suite, answer: WireAnswer, listed: Listed) -> None:
    """Check the names of everything that is listed."""
    for kind, name in _all_names(listed):
        bad = len(name) > _LONGEST_NAME or any(char in " /" or ord(char) < 0x20 or ord(char) == 0x7F for char in name)
        suite.require(
            NAME,
            not bad and (kind == "share" or "." not in name),
            answer,
            f"the name of the {kind} {name[:80]!r} is one that clients cannot address",
            seen=name[:80],
        )


def _all_names(listed: Listed) -> list[tuple[str, str]]:
    shares = [("share", str(item["name"])) for item in listed.shares]
    return [
        *shares,
        *(("schema", schema) for _, schema in listed.schemas),
        *(("table", table.name) for table in listed.tables),
    ]


def check_list_pages(tester: Tester, suite: Suite, path: str, names: Sequence[str], whole: Sequence[Item]) -> None:
    """Compare a list page by page with the whole list."""
    size = max(1, (len(whole) + 2) // 3)
    tokens: list[str] = []
    items: list[Item] = []
    for _ in range(_MOST_PAGES):
        query = {"pageToken": tokens[-1]} if tokens else {}
        answer = tester.ask(suite, path, query={"maxResults": str(size), **query})
        if not answer.is_ok:
            suite.require(PAGES_DIFFER, False, answer, f"a page of a list is answered with {answer.status}")
            return
        page, token = _read_page(suite, answer, names)
        items += page
        message = f"a page has {len(page)} items, more than maxResults"
        suite.require(PAGE_SIZE, len(page) <= size, answer, message, seen=len(page), expected=size)
        if not token:
            break
        if not _leads_on(suite, answer, token, tokens):
            return
        tokens.append(token)
    pages, at_once = [_key(item, names) for item in items], [_key(item, names) for item in whole]
    suite.require(
        PAGES_DIFFER,
        sorted(pages) == sorted(at_once),
        answer,
        "the pages of the list have other items than the list at once",
        seen=_difference(pages, at_once),
        expected=f"{len(at_once)} items",
    )


def _key(item: Item, names: Sequence[str]) -> str:
    return ".".join(str(item[name]) for name in reversed(names))


def _difference(found: Sequence[str], expected: Sequence[str]) -> str:
    missing = sorted(set(expected) - set(found))
    more = sorted(set(found) - set(expected))
    parts = [f"missing {', '.join(missing[:3])}"] if missing else []
    parts += [f"unexpected {', '.join(more[:3])}"] if more else []
    return "; ".join(parts) or f"{len(found)} items, some of them twice"


def check_parameters(tester: Tester, suite: Suite, path: str) -> None:
    """Check the parameters of a list that have no page as an answer."""
    none = tester.ask(suite, path, query={"maxResults": "0"})
    if none.status < 500:
        found = none.json.get("items") if isinstance(none.json, dict) else None
        items = found if isinstance(found, list) else []
        suite.require(
            NO_RESULTS,
            none.is_ok and not items,
            none,
            f"maxResults=0 is answered with {f'{len(items)} items' if none.is_ok else none.status}",
            expected="200 without items",
        )
    for name, value, rule in (
        ("maxResults", "-1", BAD_MAXIMUM),
        ("maxResults", "many", BAD_MAXIMUM),
        ("pageToken", _BAD_TOKEN, BAD_TOKEN),
    ):
        answer = tester.ask(suite, path, query={name: value})
        shown = "made up" if rule is BAD_TOKEN else value
        suite.require_status(rule, answer.status == 400 or answer.status >= 500, answer, f"{name} {shown}")


def check_share(tester: Tester, suite: Suite, item: Item) -> WireAnswer:
    """Compare a share with its item in the list."""
    name = str(item["name"])
    answer = tester.ask(suite, share_path(name))
    content = answer.json if answer.is_ok else None
    shared = content.get("share") if isinstance(content, dict) else None
    share: Item = shared if isinstance(shared, dict) else {}
    found = share.get("name")
    if not suite.require(
        GET_SHARE,
        found == name,
        answer,
        f"the share {name} is answered with {answer.status}" + (f" and the name {found!r}" if answer.is_ok else ""),
        expected=f'{{"share": {{"name": "{name}"}}}}',
    ):
        return answer
    _check_id(suite, answer, item.get("id"), share.get("id"), f"the share {name}")
    for other in dict.fromkeys((name.upper(), name.swapcase())):
        if other != name:
            again = tester.ask(suite, share_path(other))
            words = f"the name of a share in another case, {other},"
            suite.require_status(NAME_CASE, again.is_ok, again, words, expected=200)
            break
    return answer


def _check_id(suite: Suite, answer: WireAnswer, expected: object, found: object, what: str) -> None:
    message = f"{what} has another id than in the list of shares"
    suite.require(ID_DIFFERS, expected == found, answer, message, expected="the same id in every answer")


def check_unique_ids(suite: Suite, answer: WireAnswer, items: Sequence[Item], kind: str) -> None:
    """Check that no two items have the same id."""
    ids = [item["id"] for item in items if item.get("id")]
    repeated = sorted({str(one) for one in ids if ids.count(one) > 1})
    suite.require(
        REPEATED_ID, not repeated, answer, f"several {kind} have the same id", seen=", ".join(repeated[:3]) or None
    )


def check_share_ids(suite: Suite, answer: WireAnswer, share: Item, tables: Sequence[Item]) -> None:
    """Check `shareId` of the tables of a share."""
    for item in tables:
        if item.get("shareId") is not None and share.get("id") is not None:
            _check_id(suite, answer, share["id"], item["shareId"], f"the share of the table {item['name']}")


def check_belongs(suite: Suite, answer: WireAnswer, items: Sequence[Item], **names: str) -> None:
    """Check that items name the share, or the schema, that was asked for."""
    for item in items:
        wrong = [name for name, value in names.items() if str(item.get(name)).lower() != value.lower()]
        suite.require(
            ITEM_ELSEWHERE,
            not wrong,
            answer,
            f"the item {item.get('name')} belongs to another {' and '.join(wrong)}",
            seen=", ".join(f"{name} {item.get(name)}" for name in wrong) or None,
            expected=", ".join(f"{name} {value}" for name, value in names.items()),
        )


def check_all_tables(tester: Tester, suite: Suite, share: str, tables: Sequence[Item]) -> None:
    """Compare all-tables with the tables of each schema."""
    names = ("name", "schema", "share")
    items = list_whole(tester, suite, f"{share_path(share)}/all-tables", names)
    found, expected = [_key(item, names) for item in items], [_key(item, names) for item in tables]
    answer = tester.ask(suite, f"{share_path(share)}/all-tables")
    suite.require(
        ALL_TABLES,
        sorted(found) == sorted(expected),
        answer,
        "all-tables has other tables than the schemas",
        seen=_difference(found, expected),
        expected=f"{len(expected)} tables",
    )
    check_belongs(suite, answer, items, share=share)
