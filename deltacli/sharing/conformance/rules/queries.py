"""Bodies of queries that are not what the protocol describes."""

from __future__ import annotations

from deltacli.delta.rules.framework.base import Area, Level
from deltacli.sharing.conformance.rules.shared_table import HEADERS, SharedTableTest

AREA = Area("Queries", Level.API)

MALFORMED = AREA.error(
    "share.query-malformed",
    "A query whose body is not a JSON object is answered with 400.",
    spec="Read Data from a Table: Request Body; 400: the request is malformed",
    broken="clients that send a damaged body get the whole table instead of what they asked for",
    repair="answer 400",
    example="200 for the body `{`",
)
UNKNOWN_FIELD = AREA.error(
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
        is_refused = answer.status >= 400
        message = f"a body that is not a JSON object is answered with {answer.status}"
        table.suite.require(MALFORMED, is_refused, answer, message, seen=answer.status, expected=400)
    answer = table.query({"deltacliUnknown": 1}, whole.form)
    message = f"an unrecognized field in the body is answered with {answer.status}"
    is_ignored = answer.is_ok or answer.status >= 500
    table.suite.require(UNKNOWN_FIELD, is_ignored, answer, message, seen=answer.status, expected=200)
