"""Whatever is sent, the answer is never a fault of the server: errors are JSON, and their status is 4xx."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.sharing.configuration.settings import AsyncQueries
from tests.sharing.served import DELTA, Served, shared
from tests.support.actions import add, deletion_vector, metadata, protocol
from tests.support.builder import TableBuilder
from tests.support.effort import examples

FEED = {"delta.enableChangeDataFeed": "true"}
WORDS = ["shares", "sales", "schemas", "main", "tables", "t", "vectors", "all-tables", "version", "metadata", "query"]
WORDS += ["queries", "temporary-table-credentials"]
PARAMETERS = [
    "maxResults",
    "pageToken",
    "startingVersion",
    "endingVersion",
    "startingTimestamp",
    "endingTimestamp",
    "version",
    "timestamp",
    "maxFiles",
    "includeHistoricalMetadata",
    "includeHistoricalProtocol",
]
FIELDS = [
    "predicateHints",
    "jsonPredicateHints",
    "limitHint",
    "version",
    "timestamp",
    "startingVersion",
    "endingVersion",
    "maxFiles",
    "pageToken",
    "refreshToken",
    "includeRefreshToken",
    "includeHistoricalProtocol",
    "idempotencyKey",
    "idempotency_key",
    "location",
]
ALL = "/shares/sales/schemas/main/tables/t"


@cache
def _served() -> Served:
    """A server of a plain table with a change feed, and of one with a deletion vector."""
    root = Path(mkdtemp(prefix="surface-"))
    first = [protocol(1, 4), metadata(configuration=FEED)]
    plain = TableBuilder().commit(*first, add("a", size=1)).commit(add("b", size=1)).commit(add("c", size=1))
    features = ["deletionVectors"]
    vectors = TableBuilder().commit(
        protocol(3, 7, reader_features=features, writer_features=features),
        metadata(),
        add("a", vector=deletion_vector()),
    )
    tables = shared(plain.write(root / "t")), shared(vectors.write(root / "v"), "vectors")
    return Served(tables, options={"async_queries": AsyncQueries(root / "queries", 0, 5)})


segments = st.one_of(
    st.sampled_from([*WORDS, "changes", "_files", "..", ".", "%2e%2e", "%2F", "%00", "%ff", "a" * 300, "q" * 65]),
    st.text(alphabet="abc%0123456789ABCDEF/.~é\u2028", max_size=8),
)
paths = st.one_of(
    st.lists(segments, max_size=8).map(lambda parts: "/" + "/".join(parts)),
    st.sampled_from(
        [
            ALL,
            f"{ALL}/version",
            f"{ALL}/metadata",
            f"{ALL}/query",
            f"{ALL}/changes",
            "/shares",
            f"{ALL}/temporary-table-credentials",
            f"{ALL}/queries/{'q' * 65}",
            f"{ALL}/queries/q",
        ]
    ),
    st.sampled_from(["query", "metadata", "changes"]).map(
        lambda what: f"/shares/sales/schemas/main/tables/vectors/{what}"
    ),
)
numbers = st.one_of(st.integers(-3, 5), st.integers(-(2**70), 2**70))
values = st.one_of(
    numbers,
    st.none(),
    st.booleans(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["2023-11-14T22:13:21Z", "2023-11-14T22:13:21+99:99", "9999-12-31T23:59:59Z", "0000-01-01T00:00:00Z"]
    ),
    st.lists(st.text(max_size=5), max_size=2),
)
bodies = st.one_of(
    st.binary(max_size=30),
    st.dictionaries(st.sampled_from(FIELDS), values, max_size=4).map(lambda fields: json.dumps(fields).encode()),
)
queries = st.dictionaries(st.sampled_from(PARAMETERS), values.map(str), max_size=3)
headers = st.dictionaries(
    st.sampled_from(["delta-sharing-capabilities", "fileidhash", "Range", "Content-Encoding", "Authorization"]),
    st.one_of(
        st.sampled_from(
            [
                DELTA,
                f"{DELTA};includeEndStreamAction=TRUE",
                f"{DELTA};asyncquery=true",
                "responseformat=,;=;x",
                "DELTA",
                "bytes=0-",
                "gzip",
            ]
        ),
        st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=255), max_size=20),
    ),
    max_size=2,
)


@examples(400)
@given(
    method=st.sampled_from(["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS"]),
    path=paths,
    query=queries,
    body=bodies,
    sent=headers,
)
def test_no_request_makes_the_server_fail(
    method: str, path: str, query: Mapping[str, Any], body: bytes, sent: Mapping[str, str]
) -> None:
    target = path + ("?" + "&".join(f"{name}={value}" for name, value in query.items()) if query else "")

    reply = _served().send(method, target.replace(" ", "%20").replace("#", "%23"), body=body, headers=sent)

    assert reply.status < 500
    if reply.status >= 400 and method != "HEAD":
        assert {"errorCode", "message"} == set(reply.json)
        assert reply.headers["content-type"].startswith("application/json")
        assert reply.body.isascii()
    is_later = "asyncquery=true" in reply.headers.get("delta-sharing-capabilities", "")
    if reply.headers.get("content-type", "").startswith("application/x-ndjson") and not is_later:
        assert ["protocol", "metaData"] == [next(iter(line)) for line in reply.lines[:2]]


@pytest.mark.parametrize("host", ["evil.example", "", "127.0.0.1.evil.example"])
def test_another_host_is_refused_where_hosts_are_checked(tmp_path: Path, host: str) -> None:
    served = Served((shared(tmp_path),), options={"allowed_hosts": ("share.test",)})

    assert 421 == served.get("/shares", Host=host).status
    assert 200 == served.get("/shares").status
