"""Queries: bodies that are not what the protocol describes, and the pages of their answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from deltacli.rules.framework.base import Area, Level
from deltacli.sharing.conformance.lines import Lines
from deltacli.sharing.conformance.rules.line_form import names_of
from deltacli.sharing.conformance.rules.shared_table import HEADERS, SharedTableTest
from deltacli.sharing.conformance.wire import CAPABILITIES, WireAnswer

QUERIES_AREA = Area("Queries", Level.API)
PAGES_AREA = Area("Pages", Level.API)

MALFORMED = QUERIES_AREA.error(
    "share.query-malformed",
    "A query whose body is not a JSON object is answered with 400.",
    spec="Read Data from a Table: Request Body; 400: the request is malformed",
    broken="clients that send a damaged body get the whole table instead of what they asked for",
    repair="answer 400",
    example="200 for the body `{`",
)
UNKNOWN_FIELD = QUERIES_AREA.error(
    "share.query-unknown-field",
    "Unrecognized fields in the body of a query are ignored.",
    spec="Protocol (unrecognized fields are never required); Read Data from a Table: Request Body",
    broken="newer clients, and those that send fields of their own such as DuckDB, cannot read from the server",
    repair="ignore them",
    example='400 for {"responseFormat": "delta"}',
)


def check_queries(table: SharedTableTest) -> None:
    """Send bodies that are damaged, and one with a field that no server knows."""
    whole = table.whole
    if whole is None:
        return
    for body in (b"{", b"[]"):
        path, headers = f"{table.path}/query", HEADERS[whole.form]
        answer = table.tester.ask(table.suite, path, body=body, method="POST", headers=headers)
        table.suite.require_status(MALFORMED, answer.status >= 400, answer, "a body that is not a JSON object")
    answer = table.query({"deltacliUnknown": 1}, whole.form)
    is_ignored = answer.is_ok or answer.status >= 500
    words = "an unrecognized field in the body"
    table.suite.require_status(UNKNOWN_FIELD, is_ignored, answer, words, expected=200)


PAGE_SIZE = PAGES_AREA.error(
    "share.page-size",
    "A page of a query has at most `maxFiles` files.",
    spec="Query paging (maxFiles)",
    broken="clients get more than they reserve room for",
    repair="end the page, and send nextPageToken in endStreamAction",
    example="3 files for maxFiles=1",
)
PAGES = PAGES_AREA.error(
    "share.pages-differ",
    "The pages of a query together have the files of the whole answer, each once.",
    spec="Query paging (pageToken); EndStreamAction (nextPageToken)",
    broken="clients lose or repeat rows",
    repair="continue exactly behind the last file, in one order",
    example="a file at the border of two pages is missing",
)
ENDLESS = PAGES_AREA.error(
    "share.pages-endless",
    "The pages of a query end: each leads on to another one.",
    spec="Query paging; EndStreamAction (nextPageToken)",
    broken="clients never finish",
    repair="omit nextPageToken on the last page",
    example="the same nextPageToken again and again",
)
PAGE_HEAD = PAGES_AREA.error(
    "share.page-head",
    "All pages have the same version and, byte for byte, the same protocol and metadata.",
    spec="Query paging",
    broken="Spark refuses the second page",
    repair="answer every page from the version of the first one",
    example="another order of fields on the second page",
)
PAGE_TOKEN = PAGES_AREA.error(
    "share.page-token-not-checked",
    "A page token is refused with other parameters than those it was made for, and when it was altered.",
    spec="Query paging (pageToken)",
    broken="clients mix pages of different answers, and a forged token may lead to versions that are not shared",
    repair="authenticate tokens, and bind them to the table and the other parameters",
    example="a token of a query is accepted with another predicate",
)
NO_END = PAGES_AREA.error(
    "share.end-promised-not-sent",
    "A server that knows includeEndStreamAction ends a query with endStreamAction, and says so in the header.",
    spec="EndStreamAction; Delta Sharing Capabilities Header",
    broken="clients cannot tell a whole answer from one that was cut off",
    repair="send both the header and the line",
    example="the line without the capability in the header",
)
REFRESH = PAGES_AREA.error(
    "share.refresh-differs",
    "A refreshToken leads to the files of the same version.",
    spec="EndStreamAction (refreshToken); Query Table (refreshToken)",
    broken="clients that refresh expired URLs mix files of two versions",
    repair="keep the version in the token",
    example="a file less after the refresh",
)

_MOST_PAGES = 12
_NO_PAGES = "the server does not send pages of queries"


def check_pages(table: SharedTableTest) -> None:
    """Read the table in pages and compare them with the whole."""
    whole = table.whole
    if whole is None or not whole.files:
        table.skip("the table has no files", PAGES, PAGE_SIZE, ENDLESS, PAGE_HEAD, PAGE_TOKEN)
        return
    size = _page_size(whole)
    tokens = _walk(table, whole, lambda page: table.query(page, whole.form))
    if tokens:
        _check_token(table, whole, size, tokens[0])
    else:
        table.skip("the server sends the table as one page", PAGE_TOKEN)


def check_feed_pages(table: SharedTableTest, feed: Lines) -> None:
    """Read a change feed in pages and compare them with the whole feed."""
    if feed.files:
        sent = dict(feed.answer.request.query)
        _walk(table, feed, lambda page: table.ask("changes", {**sent, **page}, HEADERS[feed.form]))


def _page_size(whole: Lines) -> int:
    return max(1, (len(whole.files) + 2) // 3)


def _walk(table: SharedTableTest, whole: Lines, fetch: Callable[[Mapping[str, object]], WireAnswer]) -> list[str]:
    """Read and compare the pages of an answer; return the tokens that led to them."""
    size = _page_size(whole)
    pages: list[Lines] = []
    tokens: list[str] = []
    while len(pages) < _MOST_PAGES:
        answer = fetch({"maxFiles": size, **({"pageToken": tokens[-1]} if tokens else {})})
        page = table.read(answer, expects_end=True)
        if page is None or page.end is None:
            if not pages:
                table.skip(_NO_PAGES, PAGES, PAGE_SIZE, ENDLESS, PAGE_HEAD, PAGE_TOKEN)
                return tokens
            message = f"a page is answered with {answer.status}, without endStreamAction"
            table.suite.require(PAGES, False, answer, message)
            return tokens
        pages.append(page)
        _check_page(table, pages[0], page, size)
        token = page.end.get("nextPageToken")
        if not token:
            table.suite.require(ENDLESS, True, answer, "")
            break
        message = "the nextPageToken of a page leads to the same page again"
        if not table.suite.require(ENDLESS, token not in tokens, answer, message):
            return tokens
        tokens.append(str(token))
    _compare_pages(table, whole, pages)
    return tokens


def _check_page(table: SharedTableTest, first: Lines, page: Lines, size: int) -> None:
    require, answer = table.suite.require, page.answer
    message = f"a page has {len(page.files)} files, more than maxFiles"
    require(PAGE_SIZE, len(page.files) <= size, answer, message, seen=len(page.files), expected=size)
    is_same = page.head == first.head and page.version == first.version
    require(PAGE_HEAD, is_same, answer, "a page has other lines of protocol and metadata than the first one")


def _compare_pages(table: SharedTableTest, whole: Lines, pages: list[Lines]) -> None:
    if pages[0].version != whole.version:
        return
    ids = [file.id for page in pages for file in page.files]
    missing = [file for file in whole.files if file.id not in set(ids)]
    more = [file for page in pages for file in page.files if file.id not in whole.by_id]
    is_same = sorted(ids) == sorted(file.id for file in whole.files)
    seen = f"missing {names_of(missing)}" if missing else f"unexpected {names_of(more)}" if more else "repeated files"
    message = f"the pages have {len(ids)} files, and the whole answer {len(whole.files)}"
    table.suite.require(PAGES, is_same, pages[-1].answer, message, seen=None if is_same else seen)


def _check_token(table: SharedTableTest, whole: Lines, size: int, token: str) -> None:
    altered = ("B" if token[0] != "B" else "C") + token[1:]
    bodies: Mapping[str, Mapping[str, object]] = {
        "an altered page token": {"maxFiles": size, "pageToken": altered},
        "a page token with another limit": {"maxFiles": size, "pageToken": token, "limitHint": 1},
    }
    for words, body in bodies.items():
        answer = table.query(body, whole.form)
        table.suite.require_status(PAGE_TOKEN, answer.status >= 400, answer, words)


def check_end(table: SharedTableTest) -> None:
    """Ask for endStreamAction and for a refresh token."""
    whole = table.whole
    if whole is None:
        return
    header = HEADERS[whole.form].get(CAPABILITIES, "responseformat=parquet")
    wish = {CAPABILITIES: f"{header};includeendstreamaction=true"}
    lines = table.same_version(
        table.read(table.query({"includeRefreshToken": True}, whole.form, wish), expects_end=True), (REFRESH,)
    )
    if lines is None:
        return
    promised = "includeendstreamaction=true" in lines.answer.headers.get(CAPABILITIES, "").lower()
    if lines.end is None and not promised:
        table.skip("the server does not know includeEndStreamAction", NO_END, REFRESH)
        return
    message = "endStreamAction comes without includeendstreamaction=true in the header"
    table.suite.require(NO_END, promised, lines.answer, message)
    token = (lines.end or {}).get("refreshToken")
    if not token:
        table.skip("the server sends no refreshToken", REFRESH)
        return
    answer = table.query({"refreshToken": token}, whole.form)
    again = table.read(answer, expects_end=True)
    is_same = again is not None and again.version == lines.version and sorted(again.by_id) == sorted(lines.by_id)
    table.suite.require(REFRESH, is_same, answer, f"a refreshToken is answered with {answer.status} and other files")
