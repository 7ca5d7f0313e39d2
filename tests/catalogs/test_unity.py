"""Unity Catalog over HTTP: what answers mean, what is refused, tokens, repetitions and bounds. The numbers are those of
the cases of the reference.
"""

from __future__ import annotations

import itertools
import json
import socket
import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from deltacli.catalogs.base import CatalogTable, Maintenance, Operation, Proposal, Ratified, TableName, Verdict
from deltacli.catalogs.lockstep import on_the_wire
from deltacli.catalogs.ratified import view_of
from deltacli.catalogs.unity.addresses import parse_container, parse_pattern, parse_table, profile_of
from deltacli.catalogs.unity.answers import columns_of
from deltacli.catalogs.unity.calls import BODY_SECONDS, MAX_RESPONSE_BYTES, Calls
from deltacli.catalogs.unity.unity import UnityCatalog, open_catalog
from deltacli.core.errors import (
    CatalogAnswerInvalid,
    CatalogDenied,
    CatalogNameUnknown,
    CatalogUnavailable,
    DeltacliError,
    NotATable,
    Unreadable,
)
from deltacli.core.machine import Machine
from deltacli.storage.objects.http import Request, Transport
from deltacli.storage.objects.http_errors import HttpError
from deltacli.storage.retry import Retry
from tests.support.catalog_state import NAME, Body
from tests.support.certificates import certify
from tests.support.cloud import Asked, CloudServer, Fault, Said, answers, breaks, half_a_body, loses_reply
from tests.support.fake_catalog import (
    CLIENT,
    PREVIEW,
    SECRET,
    TOKEN,
    FakeCatalog,
    commit,
    s3_credentials,
    said,
)
from tests.support.slow_answers import (
    dripping_body,
    serving,
    unfinished_body,
    unfinished_head,
    unfinished_size_of_a_chunk,
)

ADDRESS = "uc://main.sales.orders"
PLACE = "file:///lake/orders"
S3 = "s3://lake/tables/0b9c"


class Waits:
    """A policy whose waits take no time."""

    def __init__(self, budget: float = 60.0) -> None:
        self.waited: list[float] = []
        self.seconds = 0.0
        self.retry = Retry(budget, clock=lambda: self.seconds, pause=self._wait)

    def _wait(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.seconds += seconds


def client(server: FakeCatalog, profile: dict[str, str] | None = None, *, waits: Waits | None = None) -> UnityCatalog:
    return open_catalog({**server.profile, **(profile or {})}, (waits or Waits()).retry)


def managed(server: FakeCatalog, latest: int = 12, versions: range | list[int] = range(12, 13), **parts: Any) -> None:
    server.add(ADDRESS, PLACE, latest=latest, commits=[commit(version) for version in versions], **parts)


def raised(run: Callable[[], object]) -> DeltacliError:
    with pytest.raises(DeltacliError) as found:
        run()
    return found.value


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "names"),
    [
        ("uc://a.b.c", ("a", "b", "c")),
        ("UC://a@x.b-1.c_2", ("a@x", "b-1", "c_2")),
        ("uc://a.b.50%", ("a", "b", "50%")),
        ("uc://a.b.тест", ("a", "b", "тест")),
    ],
)
def test_79_names_are_taken_as_they_are(address: str, names: tuple[str, str, str]) -> None:
    assert parse_table(address) == TableName(*names)


@pytest.mark.parametrize(
    "address",
    [
        *("uc://", "uc://a", "uc://a.b", "uc://a.b.", "uc://a..c", "uc://a.b.c.d", "uc:///a.b.c", "uc://a.b.c/d"),
        *("uc://a.b.c d", "uc://a.b.c\x1b", "uc://a.b.c\\d", "uc://a.b.*", f"uc://a.b.{'c' * 256}", "uc://a.b.c\ud800"),
    ],
)
def test_79_other_addresses_are_refused(address: str) -> None:
    found = raised(lambda: parse_table(address))

    assert (found.exit_code, found.code) == (2, "usage.catalog")


def test_addresses_of_schemas_and_patterns() -> None:
    assert parse_container("uc://a") == ("a", None, "*")
    assert parse_container("uc://a.b") == ("a", "b", "*")
    assert parse_pattern("uc://a.b.c*") == ("a", "b", "c*")
    for text in ("uc://a.b.c", "uc://a.*"):
        assert raised(partial(parse_container, text)).exit_code == 2
    assert raised(lambda: parse_pattern("uc://a.*.c")).exit_code == 2


@pytest.mark.parametrize("name", ["a@x", "50%", "тест", "%2e%2e"])
def test_79_names_are_encoded_on_the_wire(server: FakeCatalog, name: str) -> None:
    server.add(f"uc://main.sales.{name}", PLACE)

    assert client(server).load(TableName("main", "sales", name)).name.table == name
    assert server.asked("GET", f"/tables/{quote(name, safe='')}") == 1


# -- profiles ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "environment", "endpoint"),
    [
        ({"endpoint": "https://h/", "token": "t"}, {"UC_ENDPOINT": "https://other"}, "https://h"),
        ({"endpoint": "https://h/api/2.1/unity-catalog/"}, {}, "https://h"),
        (None, {"DATABRICKS_HOST": "adb-1.azure.net", "DATABRICKS_TOKEN": "t"}, "https://adb-1.azure.net"),
        (None, {"UC_ENDPOINT": "http://127.0.0.1:8080"}, "http://127.0.0.1:8080"),
    ],
)
def test_where_a_catalog_is(given: dict[str, str] | None, environment: dict[str, str], endpoint: str) -> None:
    assert profile_of(given, environment).endpoint == endpoint


@pytest.mark.parametrize(
    ("given", "environment", "said"),
    [
        (None, {}, "no catalog is configured"),
        (None, {"DATABRICKS_HOST": "h"}, "but no credentials"),
        ({}, {}, "no endpoint"),
        ({"endpoint": "http://example.com"}, {}, "plain http"),
        ({"endpoint": "https://u:p@h"}, {}, "not an https URL"),
        ({"endpoint": "https://h?x=1"}, {}, "not an https URL"),
        ({"endpoint": "ftp://h"}, {}, "not an https URL"),
        ({"endpoint": "https://h", "token": "a b"}, {}, "invalid in a token"),
        ({"endpoint": "https://h", "tokens": "t"}, {}, "unknown key"),
        ({"endpoint": "https://h", "client-id": "t"}, {}, "only one of"),
        ({"endpoint": "https://h", "token": "t", "client-id": "a", "client-secret": "b"}, {}, "both"),
    ],
)
def test_profiles_that_cannot_work(given: dict[str, str] | None, environment: dict[str, str], said: str) -> None:
    found = raised(lambda: profile_of(given, environment))

    assert found.exit_code == 2
    assert said in found.message


# -- loading -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["", "ascending", "shuffled"])
def test_12_commits_come_in_any_order(server: FakeCatalog, order: str) -> None:
    managed(server, 12, range(7, 13))
    server.state.order = order

    table = client(server).load(NAME)

    assert [one.version for one in table.commits] == [*range(7, 13)]
    assert (table.latest, table.is_managed, table.takes_commits) == (12, True, True)


@pytest.mark.parametrize("release", ["0.5", "0.6", "main", PREVIEW])
def test_every_release_is_read(release: str) -> None:
    server = FakeCatalog(release)
    managed(server, 5, range(3, 6))
    try:
        table = client(server).load(NAME)
    finally:
        server.stop()

    assert (table.latest, [one.version for one in table.commits]) == (5, [3, 4, 5])
    assert table.properties.keys() == {"io.unitycatalog.tableId"}
    assert table.takes_commits == (release != PREVIEW)


def test_82_pages_of_older_commits() -> None:
    server = FakeCatalog(PREVIEW)
    managed(server, 25, range(1, 26))
    try:
        table = client(server).load(NAME)
        assert len(table.commits) == 25
        assert server.asked("GET", "/delta/preview/commits") == 3
        managed(server, 0, [])
        assert client(server).load(NAME).latest == 0
    finally:
        server.stop()


@pytest.mark.parametrize(("published", "expected"), [(5, 25), (12, 13), (25, 0)])
def test_pages_of_older_commits_of_which_some_are_published_meanwhile(published: int, expected: int) -> None:
    server = FakeCatalog(PREVIEW)
    managed(server, 25, range(1, 26))

    def publish(found: CloudServer, asked: Asked) -> Said:
        answer = found.answer(asked)
        for row in server.state.tables[NAME].rows[:published]:
            row.is_backfilled = True
        return answer

    server.fail("GET", "/delta/preview/commits", publish)
    try:
        view = view_of(client(server).load(NAME))
    finally:
        server.stop()

    assert (view.latest, [*view.commits]) == (25, [*range(26 - expected, 26)])


def test_81_an_older_server_takes_no_commits() -> None:
    server = FakeCatalog(PREVIEW)
    managed(server)
    try:
        catalog = client(server)
        table = catalog.load(NAME)
        server.forget()
        assert catalog.ratify(table, b"{}").verdict is Verdict.REFUSED
        assert server.asked("POST") == 0
    finally:
        server.stop()


def test_9_commits_may_end_below_the_latest_version(server: FakeCatalog) -> None:
    managed(server)
    answer = server.state.load(NAME) | {"commits": [commit(9), commit(8)]}
    server.fail("GET", "/tables/orders", answers(said(answer)))

    assert [*view_of(client(server).load(NAME)).commits] == [8, 9]  # a listing decides whether they may


WRONG_COMMITS: dict[str, tuple[list[Body], str]] = {
    "13 the same version twice": ([commit(11), commit(11)], "two commits have version 11"),
    "13 the same version in two files": (
        [commit(11), commit(11, **{"file-name": f"{11:020d}.b.json"})],
        "two commits have",
    ),
    "15 newer than the latest": ([commit(12), commit(13)], "newest commit has version 13"),
    "10 a gap": ([commit(10), commit(12)], "version 11 is missing"),
    "18 climbs": ([commit(12, **{"file-name": "../x.json"})], "not one of a staged commit"),
    "18 has a slash": ([commit(12, **{"file-name": f"a/{12:020d}.b.json"})], "not one of a staged commit"),
    "18 has an escape": ([commit(12, **{"file-name": f"{12:020d}.%2e%2e.json"})], "not one of a staged commit"),
    "18 is empty": ([commit(12, **{"file-name": ""})], "not one of a staged commit"),
    "18 is a number": ([commit(12, **{"file-name": 12})], "not a text"),
    "18 has a line": ([commit(12, **{"file-name": f"{12:020d}.a\n.json"})], "not one of a staged commit"),
    "18 is published": ([commit(12, **{"file-name": f"{12:020d}.json"})], "not one of a staged commit"),
    "19 of another version": ([commit(12, **{"file-name": f"{8:020d}.a.json"})], "is that of version 8"),
    "23 inline": ([{key: value for key, value in commit(12).items() if key != "file-name"}], "inline"),
    "23 inline, no name": ([commit(12, **{"file-name": None})], "inline"),
    "size is a text": ([commit(12, **{"file-size": "1"})], "not an integer"),
    "time is missing": ([commit(12, timestamp=None)], "not an integer"),
    "version is true": ([commit(12) | {"version": True}], "not an integer"),
}


@pytest.mark.parametrize("case", WRONG_COMMITS)
def test_wrong_commits_are_refused(server: FakeCatalog, case: str) -> None:
    commits, said_ = WRONG_COMMITS[case]
    managed(server)
    answer = server.state.load(NAME) | {"commits": commits}
    server.fail("GET", "/tables/orders", answers(said(answer)))

    found = raised(lambda: view_of(client(server).load(NAME)))

    assert isinstance(found, CatalogAnswerInvalid)
    assert found.exit_code == 3
    assert said_ in found.message


def _answer(server: FakeCatalog, **parts: Any) -> Body:
    answer = server.state.load(NAME)
    metadata = {**answer["metadata"], **parts.pop("metadata", {})}
    return {**answer, "metadata": metadata, **parts}


WRONG_TABLES: dict[str, dict[str, Any]] = {
    "24 no latest": {"latest-table-version": None},
    "24 latest is a text": {"latest-table-version": "12"},
    "24 latest is negative": {"latest-table-version": -1},
    "24 latest is too large": {"latest-table-version": 1 << 63},
    "24 latest is a fraction": {"latest-table-version": 12.0},
    "no metadata": {"metadata_": 1},
    "no uuid": {"metadata": {"table-uuid": None}},
    "no location": {"metadata": {"location": None}},
    "location is relative": {"metadata": {"location": "lake/orders"}},
    "location is a bucket": {"metadata": {"location": "s3://lake/"}},
    "location is the disk": {"metadata": {"location": "file:///"}},
    "location climbs": {"metadata": {"location": "s3://lake/a/../b"}},
    "location climbs in escapes": {"metadata": {"location": "s3://lake/a/%2e%2e/b"}},
    "location is of no store": {"metadata": {"location": "http://lake/a"}},
    "properties are a list": {"metadata": {"properties": []}},
    "columns are a list": {"metadata": {"columns": []}},
    "partitions are numbers": {"metadata": {"partition-columns": [1]}},
    "commits are an object": {"commits": {}},
    "commits without the feature": {"metadata": {"properties": {}}},
}


@pytest.mark.parametrize("case", WRONG_TABLES)
def test_wrong_tables_are_refused(server: FakeCatalog, case: str) -> None:
    managed(server)
    answer = _answer(server, **WRONG_TABLES[case])
    if "metadata_" in answer:
        del answer["metadata"]
    server.fail("GET", "/tables/orders", answers(said(answer)))

    assert isinstance(raised(lambda: client(server).load(NAME)), CatalogAnswerInvalid)


@pytest.mark.parametrize(
    ("named", "permitted"),
    [
        (["DATA_CLEANUP"], {Maintenance.DATA_CLEANUP}),
        ([*Maintenance], {*Maintenance}),
        ([], set()),
        (None, None),
        ("ALL", None),
        (["vacuum"], set()),
        (["X", 1, "METADATA_CLEANUP"], {Maintenance.METADATA_CLEANUP}),
        ([1], set()),
        ({"DATA_CLEANUP": True}, None),
    ],
)
def test_59_what_is_permitted(server: FakeCatalog, named: object, permitted: set[Maintenance] | None) -> None:
    managed(server, operations=named)

    assert client(server).load(NAME).permissions == permitted


def test_what_a_catalog_makes_up_is_no_property(server: FakeCatalog) -> None:
    own = {"delta.appendOnly": "true", "a": "b"}
    made_up = {
        "delta.minReaderVersion": "3",
        "delta.lastUpdateVersion": "3",
        "delta.lastCommitTimestamp": "1",
        "delta.feature.x": "supported",
        "clusteringColumns": '[["a"],["b","c"]]',
        "delta.rowTracking.rowIdHighWaterMark": "9",
    }
    managed(server, properties={**own, **made_up})

    table = client(server).load(NAME)

    assert {key: value for key, value in table.properties.items() if key != "io.unitycatalog.tableId"} == own
    assert table.features == {"catalogManaged", "x"}
    assert table.domains == {
        "delta.clustering": {"clusteringColumns": [["a"], ["b", "c"]]},
        "delta.rowTracking": {"rowIdHighWaterMark": 9},
    }


def test_31_columns_are_spelled_as_in_the_log() -> None:
    inner = {"type": "map", "key-type": "string", "value-type": "decimal(10, 2)", "value-contains-null": True}
    metadata = {"element-type": "stays"}
    field = {"name": "key-type", "type": {"type": "array", "element-type": inner, "contains-null": False}}
    wire = {"type": "struct", "fields": [{**field, "nullable": True, "metadata": metadata}]}

    log = columns_of("t", wire)

    assert log["fields"][0]["type"]["elementType"]["valueType"] == "decimal(10,2)"
    assert log["fields"][0]["type"]["containsNull"] is False
    assert (log["fields"][0]["name"], log["fields"][0]["metadata"]) == ("key-type", metadata)
    assert json.dumps(on_the_wire(log)) == json.dumps(wire).replace("10, 2", "10,2")
    assert columns_of("t", {"type": "struct", "fields": []}) is None


def test_25_an_external_table(server: FakeCatalog) -> None:
    server.add(ADDRESS, S3)
    server.credentials = s3_credentials
    catalog = client(server)

    table = catalog.load(NAME)

    assert (table.is_managed, table.latest, table.table_type) == (False, None, "EXTERNAL")
    assert catalog.grant(table, Operation.READ).options["key"] == "AKIAOFTHETESTS"


@pytest.mark.parametrize("release", ["0.6", PREVIEW])
@pytest.mark.parametrize("kind", ["VIEW", "MANAGED"])
def test_26_other_formats_are_refused(release: str, kind: str) -> None:
    server = FakeCatalog(release)
    server.others[NAME] = {"table_type": kind, "data_source_format": "PARQUET"}
    try:
        found = raised(lambda: client(server).load(NAME))
    finally:
        server.stop()

    assert isinstance(found, NotATable)
    assert (found.exit_code, found.code) == (3, "catalog.not-delta")


@pytest.mark.parametrize("release", ["0.6", PREVIEW])
@pytest.mark.parametrize(
    ("name", "said_"),
    [
        (TableName("nosuch", "sales", "orders"), "no catalog nosuch"),
        (TableName("main", "nosuch", "orders"), "no schema main.nosuch"),
        (TableName("main", "sales", "nosuch"), "no table main.sales.nosuch"),
    ],
)
def test_27_names_that_do_not_exist(release: str, name: TableName, said_: str) -> None:
    server = FakeCatalog(release)
    managed(server)
    try:
        found = raised(lambda: client(server).load(name))
    finally:
        server.stop()

    assert isinstance(found, CatalogNameUnknown)
    assert (found.exit_code, said_ in found.message) == (3, True)


def test_the_configuration_is_asked_once_for_each_catalog(server: FakeCatalog) -> None:
    managed(server)
    for _ in range(3):
        client(server).load(NAME)

    assert server.asked("GET", "/delta/v1/config") == 1
    assert server.asked("GET", "/tables/orders") == 3


# -- tokens and errors -------------------------------------------------------------------------------------------------

PRIVILEGE = {
    "error_code": "UNAUTHENTICATED",
    "message": "no",
    "details": [{"reason": "UNITY_CATALOG_EXTERNAL_GENERATE_CREDENTIALS_DENIED"}, {"request_id": "r-17"}],
}


def test_28_a_refused_token_is_renewed_once(server: FakeCatalog) -> None:
    managed(server)
    profile = {"client-id": CLIENT, "client-secret": SECRET}
    catalog = client(server, profile)
    catalog.load(NAME)
    server.tokens = {"another"}

    catalog.load(NAME)

    assert server.issued == 2
    server.fail("GET", "/tables/orders", *[answers(Said(401))] * 4)
    assert isinstance(raised(lambda: catalog.load(NAME)), CatalogDenied)
    assert server.issued == 3


def test_a_token_is_renewed_before_it_ends(server: FakeCatalog) -> None:
    managed(server)
    now = [1_781_000_000_000]
    profile = {"endpoint": server.url, "client-id": CLIENT, "client-secret": SECRET}
    catalog = open_catalog(profile, Waits().retry, machine=Machine(now_ms=lambda: now[0]))
    catalog.load(NAME)
    now[0] += 3_569_000
    catalog.load(NAME)
    assert server.issued == 1
    now[0] += 1_000
    catalog.load(NAME)
    assert server.issued == 2


@pytest.mark.parametrize("lifetime", [None, "x", -5, 1e308, True])
def test_lifetimes_of_tokens(server: FakeCatalog, lifetime: object) -> None:
    managed(server)
    server.lifetime = lifetime

    client(server, {"client-id": CLIENT, "client-secret": SECRET}).load(NAME)

    assert server.asked("GET", "/tables/orders") == 1


def test_a_client_that_is_not_known_is_denied(server: FakeCatalog) -> None:
    managed(server)

    found = raised(lambda: client(server, {"client-id": CLIENT, "client-secret": "wrong-secret-123"}).load(NAME))

    assert (found.exit_code, found.code) == (7, "catalog.denied")
    assert "wrong-secret" not in str(found) + str(found.facts)


def test_29_a_missing_privilege_is_no_fault_of_the_token(server: FakeCatalog) -> None:
    managed(server)
    catalog = client(server, {"client-id": CLIENT, "client-secret": SECRET})
    table = catalog.load(NAME)
    server.fail("GET", "/credentials", answers(said(PRIVILEGE, 401)))

    found = raised(lambda: catalog.grant(table, Operation.READ))

    assert isinstance(found, CatalogDenied)
    assert "EXTERNAL USE SCHEMA" in (found.hint or "")
    assert found.facts["request"] == "r-17"
    assert (server.issued, server.asked("GET", "/credentials")) == (1, 1)


ERRORS: dict[str, tuple[Said, type[DeltacliError], str]] = {
    "403 delta": (
        said({"error": {"message": "no\x1b[2J", "type": "PermissionDeniedException"}}, 403),
        CatalogDenied,
        "no",
    ),
    "403 older": (said({"error_code": "PERMISSION_DENIED", "message": "no"}, 403), CatalogDenied, "no"),
    "400 untyped": (said({"error": {"message": "no (5115)", "code": 400}}, 400), CatalogAnswerInvalid, "no (5115)"),
    "502 HTML": (Said(502, b"<html>Bad</html>", {"Content-Type": "text/html"}), CatalogUnavailable, "502"),
    "500 empty": (Said(500), CatalogUnavailable, "500"),
    "501": (said({"error": {"type": "NotImplementedException"}}, 501), CatalogUnavailable, "NotImplemented"),
    "200 HTML": (Said(200, b"<html>Sign in</html>", {"Content-Type": "text/html"}), CatalogAnswerInvalid, "html"),
    "200 list": (said([]), CatalogAnswerInvalid, "no JSON object"),
    "200 empty": (Said(200), CatalogAnswerInvalid, "no JSON object"),
    "77 redirect": (Said(307, b"", {"Location": "http://127.0.0.1:1/x"}), CatalogUnavailable, "307"),
    "78 deep": (Said(200, b'{"a":' + b"[" * 10_000 + b"]" * 10_000 + b"}"), CatalogAnswerInvalid, "no JSON object"),
    "78 deep error": (Said(400, b'{"error":' + b"[" * 10_000), CatalogAnswerInvalid, "400"),
    "78 long": (
        Said(200, b"", {"Content-Length": str(100 << 20)}),
        CatalogAnswerInvalid,
        f"more than {MAX_RESPONSE_BYTES:,} bytes",
    ),
    "cut": (Said(0, is_cut=True), CatalogUnavailable, "connection closed"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_30_answers_that_are_errors(server: FakeCatalog, case: str) -> None:
    answer, kind, text = ERRORS[case]
    server.tokens = {TOKEN}
    managed(server)
    catalog = client(server, waits=Waits(0.5))
    server.fail("GET", "/tables/orders", *[answers(answer)] * 20)

    found = raised(lambda: catalog.load(NAME))

    assert type(found) is kind
    shown = " ".join((found.message, *found.facts.values()))
    assert text in shown
    assert TOKEN not in shown + str(found.hint)
    assert "\x1b" not in shown


def test_78_deep_columns_are_refused(server: FakeCatalog) -> None:
    managed(server)
    deep = '{"type":"array","element-type":' * 400 + '"long"' + "}" * 400
    answer = json.dumps(_answer(server, metadata={"columns": {"type": "struct", "fields": ["deep"]}}))
    server.fail("GET", "/tables/orders", answers(Said(200, answer.replace('"deep"', deep).encode())))

    assert "nested too deep" in raised(lambda: client(server).load(NAME)).message


def test_78_a_slow_drip_ends(server: FakeCatalog) -> None:
    managed(server)
    ticks = iter(range(0, 1_000_000, int(BODY_SECONDS) + 1))
    transport = Transport(server.url, is_direct=True, now=lambda: float(next(ticks)))
    url = f"{server.url}/api/2.1/unity-catalog/delta/v1/config?catalog=main"

    with pytest.raises(Exception, match="no answer in time"):
        transport.send(Request("GET", url, seconds=BODY_SECONDS))
    assert transport.send(Request("GET", url, seconds=1e9)).status == 200


@pytest.mark.parametrize("answer", [unfinished_head, unfinished_size_of_a_chunk, unfinished_body])
def test_78_an_answer_that_never_ends_is_left(answer: Callable[[socket.socket], None]) -> None:
    with serving(answer) as url, pytest.raises(HttpError, match="no answer in time"):
        Transport(url, is_direct=True, answer_seconds=0.05).send(Request("GET", url, seconds=BODY_SECONDS))


@pytest.mark.parametrize(
    ("ends", "is_known", "reason", "has_hint"),
    [(2100, True, "", False), (2100, False, "unable to get local issuer", True), (2021, True, "expired", False)],
    ids=["a private authority", "an unknown one", "expired"],
)
def test_a_certificate(
    ends: int, is_known: bool, reason: str, has_hint: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, context = certify(tmp_path, ends=ends), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    (monkeypatch.setenv if is_known else lambda *_: None)("SSL_CERT_FILE", str(root))
    server = FakeCatalog(tls=context)
    managed(server)
    try:
        if not reason:
            assert client(server).load(NAME).latest == 12
            return
        fault = raised(lambda: client(server).load(NAME))
    finally:
        server.stop()

    assert isinstance(fault, CatalogUnavailable)
    assert reason in fault.facts["reason"]
    assert has_hint == ("SSL_CERT_FILE" in str(fault.hint))
    assert "attempts" not in fault.facts


@pytest.mark.parametrize("fault", [breaks, half_a_body, answers(Said(503)), answers(Said(429))])
def test_reads_are_repeated_within_the_budget(server: FakeCatalog, fault: Fault) -> None:
    managed(server)
    catalog = client(server)
    server.fail("GET", "/tables/orders", fault, fault)

    assert catalog.load(NAME).latest == 12
    assert server.asked("GET", "/tables/orders") == 3


def test_a_server_is_left_alone_for_as_long_as_it_asks(server: FakeCatalog) -> None:
    managed(server)
    waits = Waits()
    server.fail("GET", "/tables/orders", answers(Said(429, b"", {"Retry-After": "17"})))

    client(server, waits=waits).load(NAME)

    assert waits.waited == [17.0]


def test_nobody_at_the_endpoint() -> None:
    found = raised(lambda: open_catalog({"endpoint": "http://127.0.0.1:1"}, Waits(0.0).retry).load(NAME))

    assert (found.exit_code, found.code) == (7, "catalog.unavailable")


def test_83_tokens_are_in_no_representation(server: FakeCatalog) -> None:
    server.tokens = {TOKEN}
    managed(server)
    server.credentials = s3_credentials
    server.state.tables[NAME].location = S3
    catalog = client(server)
    table = catalog.load(NAME)
    grant = catalog.grant(table, Operation.READ)

    shown = repr((catalog, catalog._calls, catalog._calls.profile, grant, table))

    assert TOKEN not in shown
    assert "of-the-tests" not in shown


# -- credentials -------------------------------------------------------------------------------------------------------


def _granted(server: FakeCatalog, credentials: list[Body], location: str = S3) -> Any:
    server.add(ADDRESS, location)
    server.credentials = lambda *_: credentials
    catalog = client(server)
    return catalog.grant(catalog.load(NAME), Operation.READ)


def _keys(prefix: str, token: str = "t") -> Body:
    config = {"s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.session-token": token}
    return {"prefix": prefix, "operation": "READ", "config": config}


@pytest.mark.parametrize(
    ("prefixes", "chosen"),
    [
        (["s3://lake/tables", S3, "s3://lake"], S3),
        ([f"{S3}/", "s3://lake"], S3),
        (["s3://lake/", "s3://lake/tab"], "s3://lake"),
        (["s3a://lake/tables/0b9c"], S3),
        ([f"{S3}2", "s3://lake/tables"], "s3://lake/tables"),
    ],
)
def test_67_the_longest_prefix_wins(server: FakeCatalog, prefixes: list[str], chosen: str) -> None:
    grant = _granted(server, [_keys(prefix, token=prefix) for prefix in prefixes])

    assert (grant.location, grant.expires_ms) == (chosen, None)


@pytest.mark.parametrize("prefixes", [[], [f"{S3}2"], ["s3://other/tables/0b9c"], ["gs://lake/tables/0b9c"], [""]])
def test_68_credentials_of_other_places_are_refused(server: FakeCatalog, prefixes: list[str]) -> None:
    found = raised(lambda: _granted(server, [_keys(prefix) for prefix in prefixes]))

    assert (found.exit_code, found.code) == (7, "catalog.denied")


@pytest.mark.parametrize("place", [PLACE, "file:/lake/orders", "/lake/orders", "file:///lake/orders/"])
def test_69_a_disk_needs_no_credentials(server: FakeCatalog, place: str) -> None:
    assert _granted(server, [{"prefix": place, "config": {}}], place) == (PLACE, {}, None)


@pytest.mark.parametrize(
    ("location", "config", "options"),
    [
        ("gs://b/t", {"gcs.oauth-token": "x"}, {"access_token": "x"}),
        ("abfss://c@a.dfs.core.windows.net/t", {"azure.sas-token": "x"}, {"sas_token": "x"}),
        (S3, {"s3.access-key-id": "a", "s3.secret-access-key": "b"}, {"key": "a", "secret": "b"}),
    ],
)
def test_credentials_of_each_cloud(server: FakeCatalog, location: str, config: Body, options: dict[str, str]) -> None:
    grant = _granted(server, [{"prefix": location, "config": config, "expiration-time-ms": 17}], location)

    assert (dict(grant.options), grant.expires_ms) == (options, 17)


@pytest.mark.parametrize(
    "entry",
    [
        {"prefix": S3, "config": {}},
        {"prefix": S3, "config": {"gcs.oauth-token": "x"}},
        _keys(S3) | {"config": _keys(S3)["config"] | {"azure.sas-token": "x"}},
        {"prefix": S3, "config": {"s3.access-key-id": 1}},
        {"prefix": S3, "config": []},
        _keys(S3) | {"expiration-time-ms": "soon"},
        _keys(S3) | {"expiration-time-ms": 1 << 64},
    ],
)
def test_credentials_that_are_none(server: FakeCatalog, entry: Body) -> None:
    assert raised(lambda: _granted(server, [entry])).exit_code in (3, 7)


def test_older_credentials() -> None:
    server = FakeCatalog(PREVIEW)
    try:
        server.add(ADDRESS, S3)
        server.credentials = s3_credentials
        catalog = client(server)
        grant = catalog.grant(catalog.load(NAME), Operation.READ)
    finally:
        server.stop()

    assert dict(grant.options)["key"] == "AKIAOFTHETESTS"
    assert server.grants == [(NAME, "READ")]


# -- commits -----------------------------------------------------------------------------------------------------------


def _proposed(server: FakeCatalog) -> tuple[UnityCatalog, CatalogTable, bytes]:
    managed(server)
    catalog = client(server)
    table = catalog.load(NAME)
    made = commit(13)
    ours = Ratified(13, made["file-name"], made["file-size"], made["file-modification-timestamp"], made["timestamp"])
    update = {"action": "set-properties", "updates": {"a": "b"}}
    body = catalog.request_of(table, Proposal(ours, (update,)))
    server.forget()
    return catalog, table, body


def test_a_commit_is_ratified(server: FakeCatalog) -> None:
    catalog, table, body = _proposed(server)

    answer = catalog.ratify(table, body)

    assert answer.verdict is Verdict.RATIFIED
    assert answer.table is not None
    assert (answer.table.latest, [one.version for one in answer.table.commits]) == (13, [12, 13])
    assert answer.table.properties["a"] == "b"
    assert [request.body for request in server.requests] == [body]


def _error(status: int, kind: str) -> Said:
    return said({"error": {"message": "m", "type": f"{kind}Exception", "code": status}}, status)


def _with_another_uuid(server: CloudServer, asked: Asked) -> Said:
    answer = json.loads(server.answer(asked).body)
    answer["metadata"]["table-uuid"] = "another"
    return said(answer)


def _older_state(server: CloudServer, asked: Asked) -> Said:
    assert isinstance(server, FakeCatalog)
    before = server.state.load(NAME)
    server.answer(asked)
    return said(before)


VERDICTS: dict[str, tuple[Fault, Verdict, float]] = {
    "34 landed, no answer": (loses_reply, Verdict.UNKNOWN, 0),
    "38 not landed, no answer": (breaks, Verdict.UNKNOWN, 0),
    "49 half an answer": (half_a_body, Verdict.UNKNOWN, 0),
    "an older state": (_older_state, Verdict.UNKNOWN, 0),
    "another table": (_with_another_uuid, Verdict.UNKNOWN, 0),
    "32 another file": (answers(_error(409, "CommitVersionConflict")), Verdict.LOST, 0),
    "47 a lock": (answers(_error(409, "UpdateRequirementConflict")), Verdict.AGAIN, 0),
    "409 untyped": (answers(Said(409)), Verdict.LOST, 0),
    "44 too many unpublished": (answers(_error(429, "ResourceExhausted")), Verdict.PUBLISH_FIRST, 0),
    "44 older code": (answers(said({"error_code": "RESOURCE_EXHAUSTED"}, 429)), Verdict.PUBLISH_FIRST, 0),
    "46 throttled": (
        answers(_error(429, "TooManyRequests")._replace(headers={"Retry-After": "9"})),
        Verdict.AGAIN,
        9,
    ),
    "21 429 untyped": (answers(Said(429)), Verdict.PUBLISH_FIRST, 1),
    "40 state unknown": (answers(_error(500, "CommitStateUnknown")), Verdict.UNKNOWN, 0),
    "503": (answers(Said(503)), Verdict.UNKNOWN, 0),
    "408": (answers(Said(408)), Verdict.UNKNOWN, 0),
    "redirect": (answers(Said(307)), Verdict.UNKNOWN, 0),
    "400": (answers(_error(400, "InvalidParameterValue")), Verdict.REFUSED, 0),
    "403": (answers(_error(403, "PermissionDenied")), Verdict.REFUSED, 0),
    "404": (answers(_error(404, "NoSuchTable")), Verdict.REFUSED, 0),
    "401": (answers(_error(401, "NotAuthorized")), Verdict.REFUSED, 0),
}


@pytest.mark.parametrize("case", VERDICTS)
def test_what_an_answer_proves(server: FakeCatalog, case: str) -> None:
    fault, verdict, wait = VERDICTS[case]
    catalog, table, body = _proposed(server)
    server.fail("POST", "/tables/orders", fault)

    answer = catalog.ratify(table, body)

    assert (answer.verdict, answer.wait_seconds) == (verdict, wait)
    assert answer.said
    assert server.asked("POST") == 1
    assert (answer.denial is not None) is (case in ("401", "403"))


def test_a_proposal_whose_token_was_refused_may_be_sent_again(server: FakeCatalog) -> None:
    managed(server)
    catalog = client(server, {"client-id": CLIENT, "client-secret": SECRET})
    table = catalog.load(NAME)
    made = commit(13)
    ours = Ratified(13, made["file-name"], 1, 1, 1)
    body = catalog.request_of(table, Proposal(ours))
    server.tokens = {"another"}

    assert catalog.ratify(table, body).verdict is Verdict.AGAIN
    assert catalog.ratify(table, body).verdict is Verdict.RATIFIED


def test_a_resent_commit_is_as_the_release_says() -> None:
    for release, verdict in (("0.5", Verdict.LOST), ("0.6", Verdict.RATIFIED)):
        server = FakeCatalog(release)
        try:
            catalog, table, body = _proposed(server)
            catalog.ratify(table, body)
            assert catalog.ratify(table, body).verdict is verdict
        finally:
            server.stop()


def test_a_proposal_that_reached_nobody_may_be_sent_again(server: FakeCatalog) -> None:
    _, table, body = _proposed(server)

    answer = open_catalog({"endpoint": "http://127.0.0.1:1"}, Waits().retry).ratify(table, body)

    assert answer.verdict is Verdict.AGAIN


def test_what_is_published_is_reported(server: FakeCatalog) -> None:
    managed(server, 12, range(10, 13))
    catalog = client(server)
    table = catalog.load(NAME)
    server.fail("POST", "/tables/orders", answers(Said(503)))

    found = catalog.report_published(table, 11)

    assert [one.version for one in found.commits] == [12]
    assert isinstance(raised(lambda: catalog.report_published(table, 99)), CatalogAnswerInvalid)


# -- listing -----------------------------------------------------------------------------------------------------------


def test_80_every_page_of_a_listing(server: FakeCatalog) -> None:
    for number in range(7):
        server.add(f"uc://main.sales.t{number}", PLACE)
    server.add("uc://main.hr.people", PLACE, latest=3)
    server.page_size = 3
    catalog = client(server)

    assert [one.name.table for one in catalog.tables_of("main", "sales")] == [f"t{number}" for number in range(7)]
    assert server.asked("GET", "/tables?") == 3
    whole = catalog.tables_of("main", None)
    assert [str(one.name) for one in whole][:2] == ["uc://main.hr.people", "uc://main.sales.t0"]
    assert [one.is_managed for one in whole] == [True] + [False] * 7


def _page(*names: str, token: object = None) -> Body:
    rows = [{"name": name, "table_type": "EXTERNAL", "data_source_format": "DELTA"} for name in names]
    return {"tables": rows, "next_page_token": token}


def test_80_an_empty_page_is_not_the_end(server: FakeCatalog) -> None:
    server.pages = {"": _page("a", token="1"), "1": _page(token="2"), "2": _page("b", "a")}

    assert [one.name.table for one in client(server).tables_of("main", "sales")] == ["a", "b"]


@pytest.mark.parametrize(
    "pages",
    [
        {"": _page("a", token="1"), "1": _page("b", token="1")},
        {"": _page("a", token="1"), "1": _page("b", token="2"), "2": _page(token="1")},
        {"": _page("a", token=7)},
        {"": {"tables": {}}},
        {"": {"tables": [{"table_type": "VIEW"}]}},
    ],
)
def test_80_a_listing_without_an_end_is_refused(server: FakeCatalog, pages: dict[str, Body]) -> None:
    server.pages = pages

    assert isinstance(raised(lambda: client(server).tables_of("main", "sales")), CatalogAnswerInvalid)


def test_a_schema_that_does_not_exist(server: FakeCatalog) -> None:
    managed(server)

    for names in (("nosuch", None), ("main", "nosuch")):
        assert isinstance(raised(partial(client(server).tables_of, *names)), CatalogNameUnknown)
    assert issubclass(CatalogNameUnknown, Unreadable)


def endless_pages(waits: Waits, key: str, seconds: float, row: Body | None) -> Fault:
    """A page of a listing that leads to another one, and takes so long."""

    def fault(server: CloudServer, _: Asked) -> Said:
        waits.seconds += seconds
        number = len(server.requests)
        rows = [] if row is None else [{**row, "name": f"t{number}"}]
        return said({key: rows, "next_page_token": f"token-{number}"})

    return fault


TABLE_ROW: Body = {"table_type": "EXTERNAL", "data_source_format": "DELTA"}


@pytest.mark.parametrize(("budget", "limit"), [(60, 60), (600, 600), (3, 10), (0, 10)])
@pytest.mark.parametrize(("schema", "key", "row"), [("sales", "tables", TABLE_ROW), (None, "schemas", {})])
@pytest.mark.parametrize("has_rows", [True, False])
def test_a_listing_of_endless_pages_ends_with_the_retry_budget(
    server: FakeCatalog, schema: str | None, key: str, row: Body, has_rows: bool, budget: float, limit: float
) -> None:
    waits = Waits(budget)
    notes = list[str]()
    retry = Retry(budget, note=notes.append, clock=lambda: waits.seconds, is_watching=False)
    server.fail("GET", f"/{key}?", *[endless_pages(waits, key, 2.0, row if has_rows else None)] * 1_000)
    catalog = open_catalog(server.profile, retry)

    found = raised(lambda: catalog.tables_of("main", schema))

    assert isinstance(found, CatalogUnavailable)
    assert limit < waits.seconds <= limit + 2
    assert found.facts["pages"] == str(len(server.requests))
    assert found.facts["limit"].startswith(f"{limit} s")
    assert "--retry-budget" in str(found.hint)
    assert any("pages so far" in note for note in notes)


def test_pages_of_older_commits_without_an_end(server: FakeCatalog) -> None:
    older, waits = FakeCatalog(PREVIEW), Waits()
    managed(older, 25, range(1, 26))

    def one_commit(_: CloudServer, asked: Asked) -> Said:
        waits.seconds += 5.0
        start = json.loads(asked.body)["start_version"]
        found = {**commit(max(start, 1)), "file-name": f"{max(start, 1):020d}.a.json"}
        return said({"commits": [{key.replace("-", "_"): found[key] for key in found}], "latest_table_version": 2**62})

    older.fail("GET", "/delta/preview/commits", *[one_commit] * 1_000)
    try:
        found = raised(lambda: client(older, waits=waits).load(NAME))
    finally:
        older.stop()

    assert isinstance(found, CatalogUnavailable)
    assert (found.facts["pages"], waits.seconds) == ("13", 65.0)


@pytest.mark.parametrize(("budget", "limit"), [(0, 10), (3, 10), (60, 60), (1_000, BODY_SECONDS)])
def test_an_answer_that_drips_ends_with_the_retry_budget_and_is_not_asked_for_again(
    budget: float, limit: float
) -> None:
    # The clock of answers moves with each look, and bytes arrive all the time.
    seconds, waits = itertools.count(0.0, limit / 8), Waits(budget)
    with serving(dripping_body) as url:
        calls = Calls(profile_of({"endpoint": url}), waits.retry, now=lambda: next(seconds))
        found = raised(lambda: UnityCatalog(calls).load(NAME))

    assert isinstance(found, CatalogUnavailable)
    assert found.facts["limit"].startswith(f"{limit:g} s")
    assert waits.waited == []


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"UC_ENDPOINT": "", "UC_TOKEN": "wrong"}, "UC_TOKEN"),
        ({"DATABRICKS_HOST": "", "DATABRICKS_TOKEN": "wrong"}, "DATABRICKS_TOKEN"),
    ],
)
def test_a_refused_token_is_named_by_its_own_variable(
    server: FakeCatalog, variables: dict[str, str], named: str
) -> None:
    server.tokens = {TOKEN}
    managed(server)
    given = {name: text or server.url for name, text in variables.items()}

    found = raised(lambda: UnityCatalog(Calls(profile_of(None, given), Waits().retry)).load(NAME))

    assert found.hint == f"check {named}"


def test_a_refused_token_of_a_profile_is_named_by_the_profile(server: FakeCatalog) -> None:
    server.tokens = {TOKEN}
    managed(server)

    found = raised(lambda: client(server, {"token": "wrong"}).load(NAME))

    assert str(found.hint).startswith("check the token of ")
