"""Requests as the Spark, DuckDB and Node clients send them, by what is known of their source."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.sharing.asgi import Reply
from tests.sharing.served import Served, shared, urls_of
from tests.support.actions import add, metadata, protocol
from tests.support.builder import TableBuilder

FEED = {"delta.enableChangeDataFeed": "true"}
SPARK = {
    "User-Agent": "Delta-Sharing-Spark/1.3.0 Java/17 Scala/2.12",
    "Content-Type": "application/json",
    "delta-sharing-capabilities": "responseformat=delta,parquet;readerfeatures=deletionvectors,columnmapping,"
    "timestampntz,varianttype-preview;includeendstreamaction=true",
    "fileidhash": "parquet",
}


@pytest.fixture
def served(tmp_path: Path) -> Served:
    """A server of a table of three files with a change feed."""
    table = TableBuilder().commit(protocol(1, 4), metadata(configuration=FEED), add("a", size=3)).file("a", b"abc")
    table.commit(add("b", size=1)).commit(add("c", size=1))
    return Served((shared(table.write(tmp_path / "t"), "My Table"), shared(tmp_path / "t")))


def test_spark_pages_through_a_query_with_refresh_tokens(served: Served) -> None:
    def page(**fields: object) -> list[bytes]:
        body = json.dumps(
            {"predicateHints": [], "includeRefreshToken": True, "maxFiles": 2, "idempotencyKey": "x", **fields}
        )
        reply = served.send("POST", "/shares/sales/schemas/main/tables/t/query", body=body.encode(), headers=SPARK)
        assert (200, "parquet") == (reply.status, reply.headers["fileidhash"])
        assert "includeendstreamaction=true" in reply.headers["delta-sharing-capabilities"]
        return reply.body.splitlines()

    first = page()
    end = json.loads(first[-1])["endStreamAction"]
    second = page(pageToken=end["nextPageToken"])

    assert first[:2] == second[:2]
    assert 3 == len(first[2:-1]) + len(second[2:-1])
    assert {"refreshToken", "minUrlExpirationTimestamp"} == set(json.loads(second[-1])["endStreamAction"])


def test_tokens_may_be_put_into_urls_as_they_are(served: Served) -> None:
    path = "/shares/sales/schemas/main/tables/t/changes?startingVersion=0&maxFiles=1"
    token = json.loads(served.get(path).body.splitlines()[-1])["endStreamAction"]["nextPageToken"]

    following = served.get(f"{path}&pageToken={token}")

    assert 200 == following.status
    assert set(token) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def test_spark_encodes_names_and_asks_for_ranges(served: Served) -> None:
    reply = served.query(name="My%20Table")
    plus = served.query(name="my+table")

    part = served.get(_url_of_a(reply), Range="bytes=1-1")

    assert (200, 404) == (reply.status, plus.status)
    assert (206, b"b") == (part.status, part.body)


def _url_of_a(reply: Reply) -> str:
    """The URL of the file that exists."""
    return next(url for url, line in zip(urls_of(reply), reply.lines[2:], strict=True) if line["file"]["size"] == 3)


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b'{"predicateHints":[],"limitHint":null}', b'{"unknown":{"a":[1]},"limitHint":10}'],
    ids=["none", "duckdb", "node", "unknown fields"],
)
def test_bodies_of_simple_clients(served: Served, body: bytes) -> None:
    assert 200 == served.query(body).status


def test_duckdb_asks_for_the_size_of_a_file_first(served: Served) -> None:
    url = _url_of_a(served.query())

    head, tail = served.get(url, method="HEAD"), served.get(url, Range="bytes=-2")

    assert ("3", "bytes") == (head.headers["content-length"], head.headers["accept-ranges"])
    assert b"bc" == tail.body


def test_duckdb_gets_no_member_with_null_and_may_send_its_own(tmp_path: Path) -> None:
    born, file = metadata(), add("a", size=1)
    born["metaData"] |= {"name": None, "description": None, "createdTime": None}
    file["add"] |= {"stats": None, "tags": None, "deletionVector": None, "baseRowId": None}
    served = Served((shared(TableBuilder().commit(protocol(1, 2), born, file).write(tmp_path / "t")),))
    hint = '{"op":"isNull","children":[{"op":"column","name":"id","valueType":"long"}]}'
    body = {"responseFormat": "delta", "predicateHints": ["string"], "jsonPredicateHints": hint, "limitHint": None}
    headers = {"delta-sharing-capabilities": "responseformat=delta"}
    path = "/shares/sales/schemas/main/tables/t/query"

    reply = served.send("POST", path, body=json.dumps(body).encode(), headers=headers)
    since = served.send("POST", path, body=b'{"startingVersion":0}', headers=headers)

    assert (200, 3, 3) == (reply.status, len(reply.lines), len(since.lines))
    assert b"null," not in reply.body + since.body
    assert b"null}" not in reply.body + since.body
