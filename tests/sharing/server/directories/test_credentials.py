"""Credentials for the directories of tables: what is asked, what is answered, and what the cloud is asked for."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deltacli.sharing.configuration.recipients import Recipient, Recipients, TokenRecord
from deltacli.sharing.configuration.secrets import digest_token
from deltacli.sharing.configuration.settings import Audit, Limits
from deltacli.sharing.model import AccessMode, Catalog, Grant
from deltacli.sharing.server.exchange import AuditFile
from deltacli.sharing.server.guard import ServingState
from tests.sharing.asgi import call_together
from tests.sharing.served import NOW_MS, PREFIX, TOKEN, Served
from tests.sharing.server.directories.offered import (
    BOTH,
    CREDENTIALS,
    ROLE,
    TABLE,
    granted,
    offering,
    plain_table,
    stored,
)
from tests.support.actions import add
from tests.support.builder import TableBuilder
from tests.support.cloud import Asked, CloudServer, Said
from tests.support.granted import aws_allows, policy_of
from tests.support.s3 import S3Server
from tests.support.token_services import SECRET, SESSION, TokenServices, sts_problem

HOUR_MS = 3_600_000


@pytest.fixture
def services() -> Iterator[TokenServices]:
    server = TokenServices()
    yield server
    server.stop()


@pytest.fixture
def bucket(s3: S3Server) -> str:
    return s3.make_bucket()


@pytest.fixture
def served(s3: S3Server, bucket: str, services: TokenServices) -> Served:
    table = stored(s3, plain_table(), bucket, auxiliary_locations=(f"s3://{bucket}/moved/old",))
    return offering(table, services, limits=Limits(requests_per_second=0, concurrent_requests=0))


@pytest.mark.parametrize("body", [b"", b"{}", b" \n", b'{"location":null}', b'{"else":1}'])
def test_without_a_location_the_root_is_granted(
    served: Served, services: TokenServices, bucket: str, body: bytes
) -> None:
    reply = served.post(CREDENTIALS, body)

    given = granted(reply)
    assert {"location", "awsTempCredentials", "expirationTime"} == given.keys()
    assert f"s3://{bucket}/grid/t1" == given["location"]
    assert {"accessKeyId", "secretAccessKey", "sessionToken"} == given["awsTempCredentials"].keys()
    assert (NOW_MS + HOUR_MS, "no-store") == (given["expirationTime"], reply.headers["cache-control"])
    assert "application/json; charset=utf-8" == reply.headers["content-type"]
    (session,) = services.sessions()
    assert (ROLE, "3600", "an-external-id") == (
        session["RoleArn"],
        session["DurationSeconds"],
        session["ExternalId"],
    )
    assert "deltacli-bearerToken" == session["RoleSessionName"]
    policy = policy_of(session["Policy"])
    assert aws_allows(policy, "s3:GetObject", f"arn:aws:s3:::{bucket}/grid/t1/part-0", {})
    assert not aws_allows(policy, "s3:GetObject", f"arn:aws:s3:::{bucket}/grid/t10/part-0", {})


@pytest.mark.parametrize("place", ["s3a://{}/grid/t1", "s3://{}/grid/t1/", "S3://{}/grid/t1", "s3n://{}/grid/%74%31"])
def test_other_spellings_of_the_root_are_the_root(served: Served, bucket: str, place: str) -> None:
    body = json.dumps({"location": place.format(bucket)}).encode()

    assert f"s3://{bucket}/grid/t1" == granted(served.post(CREDENTIALS, body))["location"]


@pytest.mark.parametrize("below", ["grid/t1/_delta_log", "grid/t1/day=1/x%20y", "moved/old", "moved/old/x"])
def test_a_directory_below_a_root_is_granted_alone(
    served: Served, services: TokenServices, bucket: str, below: str
) -> None:
    body = json.dumps({"location": f"s3://{bucket}/{below}"}).encode()

    assert f"s3://{bucket}/{below}" == granted(served.post(CREDENTIALS, body))["location"]
    policy, key = policy_of(services.sessions()[0]["Policy"]), below.replace("%20", " ")
    assert aws_allows(policy, "s3:GetObject", f"arn:aws:s3:::{bucket}/{key}/x", {})
    assert not aws_allows(policy, "s3:GetObject", f"arn:aws:s3:::{bucket}/grid/t1/part-0", {})


OUTSIDE = [
    "s3://{}/grid/t10", "s3://{}/grid", "s3://{}/", "s3://{}", "s3://{}/grid/t1/..", "s3://{}/grid/t1/../t2",
    "s3://{}/grid/t1/%2e%2e/t2", "s3://{}/grid%2Ft1", "s3://{}/grid//t1", "s3://{}//grid/t1", "s3://{}/grid/t1/./x",
    "s3://another/grid/t1", "file:///grid/t1", "/grid/t1", "s3://{}/grid/t1?x", "s3://{}/grid/t1#x", "s3://u:p@{}/grid/t1",
    "s3://{}:443/grid/t1", "s3://{}/grid/t1\x00", "s3://{}/grid/t1\\..", "s3://{}/grid/T1", "gs://{}/grid/t1",
    "s3://{}/grid/t1/" + "x" * 10_240, "s3://{}/moved", "s3://{}/moved/old2", "", " ", "s3:", "s3://", "https://{}/grid/t1",
    "s3://{}/grid/t1//", "s3://{}/grid/t1%00", "s3://{}/grid/t1%5c",
]  # fmt: skip


@pytest.mark.parametrize("place", OUTSIDE)
def test_a_directory_outside_is_refused_without_being_quoted(
    served: Served, services: TokenServices, bucket: str, place: str
) -> None:
    place = place.format(bucket)

    reply = served.post(CREDENTIALS, json.dumps({"location": place}).encode())

    assert (400, "INVALID_PARAMETER_VALUE") == (reply.status, reply.json["errorCode"])
    assert bucket not in reply.json["message"]
    assert "another" not in reply.json["message"]
    assert not services.requests


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"[]", 400), (b'"x"', 400), (b"{", 400), (b'{"location":5}', 400), (b"{}{}", 400), (b'{"location":["a"]}', 400),
     (b"\xff", 400), (b'{"a":' * 200 + b"1" + b"}" * 200, 400), (b" " * (3 << 20), 413)],
)  # fmt: skip
def test_a_malformed_body_vends_nothing(served: Served, services: TokenServices, body: bytes, status: int) -> None:
    reply = served.post(CREDENTIALS, body)

    assert status == reply.status
    assert reply.json["errorCode"] in ("MALFORMED_REQUEST", "REQUEST_TOO_LARGE")
    assert not services.requests


def test_methods_tokens_and_names(served: Served, services: TokenServices) -> None:
    unknown = served.post(CREDENTIALS.replace("/t/", "/other/"))
    assert (404, "RESOURCE_DOES_NOT_EXIST") == (unknown.status, unknown.json["errorCode"])
    assert 405 == served.get(CREDENTIALS).status
    for token in ("", "Bearer wrong"):
        assert 401 == served.post(CREDENTIALS, b"{", Authorization=token).status
    assert not services.requests


def test_a_table_by_url_only_gives_no_credential(s3: S3Server, bucket: str, services: TokenServices) -> None:
    served = offering(stored(s3, plain_table(), bucket, access_modes=(AccessMode.URL,)), services)

    reply = served.post(CREDENTIALS)
    assert (400, "UNSUPPORTED_OPERATION") == (reply.status, reply.json["errorCode"])
    assert not services.requests


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (Said(503, b"down"), 503),
        (Said(0, is_cut=True), 503),
        (sts_problem(400, "ThrottlingException"), 503),
        (sts_problem(500, "InternalFailure"), 503),
        (sts_problem(403, "AccessDenied"), 400),
        (sts_problem(400, "PackedPolicyTooLarge"), 400),
        (sts_problem(400, "ValidationError"), 400),
        (sts_problem(403, "ExpiredToken"), 400),
        (Said(200, b"<AssumeRoleResponse/>", {"Content-Type": "text/xml"}), 503),
    ],
)
def test_faults_of_the_cloud(served: Served, services: TokenServices, said: Said, status: int) -> None:
    services.fail("POST", "/", *[lambda _server, _asked: said] * 3)

    reply = served.post(CREDENTIALS)

    assert status == reply.status
    assert ("SERVICE_UNAVAILABLE" if status == 503 else "UNSUPPORTED_OPERATION") == reply.json["errorCode"]
    assert (status == 503) == ("retry-after" in reply.headers)
    assert "sts" not in reply.json["message"].lower()
    services.forget()
    assert 200 == served.post(CREDENTIALS).status


def test_a_hundred_at_once_get_one_session(served: Served, services: TokenServices) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    replies = call_together(served.app, "POST", f"{PREFIX}{CREDENTIALS}", count=100, headers=headers)

    assert 1 == len(services.sessions())
    assert {replies[0].body} == {reply.body for reply in replies}
    assert granted(replies[0])


def test_a_session_is_kept_for_half_its_life(served: Served, services: TokenServices) -> None:
    first = granted(served.post(CREDENTIALS))
    served.now_ms += HOUR_MS // 2 - 1
    assert first == granted(served.post(CREDENTIALS))
    served.now_ms += 1
    services.now_ms = served.now_ms

    assert NOW_MS + HOUR_MS * 3 // 2 == granted(served.post(CREDENTIALS))["expirationTime"]
    assert 2 == len(services.sessions())


def test_the_end_is_that_of_the_cloud(served: Served, services: TokenServices) -> None:
    services.lifetime_seconds = 1_000

    assert NOW_MS + 1_000_000 == granted(served.post(CREDENTIALS))["expirationTime"]


def recipients(served: Served, *grants: Grant, expires_ms: int | None = None) -> None:
    """Serve for the recipient `acme` with the token."""
    record = TokenRecord("t1", digest_token(TOKEN), NOW_MS - 1, expires_ms)
    found = Recipients((Recipient("acme", (record,), grants, 1),) if grants else ())
    configuration = replace(served.state.configuration, bearer_token=None, recipients_file=Path("recipients.json"))
    served.state = ServingState(configuration, found)


@pytest.mark.parametrize(("minutes", "status", "seconds"), [(14.9, 400, None), (15, 200, "900"), (600, 200, "3600")])
def test_no_session_outlives_the_token_of_its_recipient(
    served: Served, services: TokenServices, minutes: float, status: int, seconds: str | None
) -> None:
    recipients(served, Grant("Sales"), expires_ms=NOW_MS + int(minutes * 60_000))

    assert status == served.post(CREDENTIALS).status
    assert [seconds] * (seconds is not None) == [one["DurationSeconds"] for one in services.sessions()]


def test_who_is_revoked_gets_nothing_from_what_is_kept(served: Served, services: TokenServices) -> None:
    recipients(served, Grant("Sales"))
    assert 200 == served.post(CREDENTIALS).status
    recipients(served, Grant("Sales", "Other"))
    assert 404 == served.post(CREDENTIALS).status
    recipients(served)
    assert 401 == served.post(CREDENTIALS).status
    recipients(served, Grant("Sales"))
    assert 200 == served.post(CREDENTIALS).status
    assert 1 == len(services.sessions())


def test_who_is_revoked_while_the_cloud_is_asked_gets_nothing(served: Served, services: TokenServices) -> None:
    recipients(served, Grant("Sales"))

    def revoke(server: CloudServer, asked: Asked) -> Said:
        recipients(served)
        return server.answer(asked)

    services.fail("POST", "/", revoke)
    reply = served.post(CREDENTIALS)
    assert (401, 1) == (reply.status, len(services.sessions()))
    assert SECRET not in str(reply.body)


@pytest.mark.parametrize("fields", [{"access_modes": (AccessMode.URL,)}, {"location": "s3://lake/grid/t2"}])
def test_a_table_that_is_changed_while_the_cloud_is_asked_is_not_given(
    served: Served, services: TokenServices, fields: dict[str, Any]
) -> None:
    def change(server: CloudServer, asked: Asked) -> Said:
        (share,) = served.state.configuration.catalog.shares
        (table,) = share.schemas[0].tables
        catalog = Catalog((replace(share, schemas=(replace(share.schemas[0], tables=(replace(table, **fields),)),)),))
        served.state = replace(served.state, configuration=replace(served.state.configuration, catalog=catalog))
        return server.answer(asked)

    services.fail("POST", "/", change)
    reply = served.post(CREDENTIALS)
    assert (503, 1) == (reply.status, len(services.sessions()))
    assert SECRET not in str(reply.body)


def test_sessions_are_of_one_recipient(served: Served, services: TokenServices) -> None:
    recipients(served, Grant("Sales"))
    first = granted(served.post(CREDENTIALS))
    other = Recipient("other", (TokenRecord("t2", digest_token("b"), 0),), (Grant("Sales"),), 1)
    served.state = replace(served.state, recipients=served.state.recipients.put(other))

    second = granted(served.post(CREDENTIALS, Authorization="Bearer b"))
    assert first["awsTempCredentials"] != second["awsTempCredentials"]
    assert ["deltacli-acme", "deltacli-other"] == [one["RoleSessionName"] for one in services.sessions()]


def test_new_credentials_are_limited_by_the_minute(s3: S3Server, bucket: str, services: TokenServices) -> None:
    limits = Limits(requests_per_second=0, credentials_per_minute=3)
    served = offering(stored(s3, plain_table(), bucket), services, limits=limits)

    def ask(name: str) -> int:
        body = json.dumps({"location": f"s3://{bucket}/grid/t1/{name}"}).encode()
        return served.post(CREDENTIALS, body).status

    assert [200, 200, 200, 429, 200] == [ask(name) for name in ("a", "b", "c", "d", "a")]
    assert 3 == len(services.sessions())
    served.now_ms += 20_000
    assert [200, 429] == [ask("d"), ask("e")]


def test_secrets_are_in_the_answer_only(
    served: Served, services: TokenServices, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    guard = served.live.guard
    guard.audit = AuditFile(Audit(tmp_path / "audit.log"))
    given = granted(served.post(CREDENTIALS))
    services.fail("POST", "/", *[lambda *_: sts_problem(403, "AccessDenied")] * 2)
    served.now_ms += HOUR_MS
    assert 400 == served.post(CREDENTIALS).status

    lines = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    assert "temporary-table-credentials" == lines[0]["route"]
    about = {"cloud": "aws", "credentialExpiresMs": NOW_MS + HOUR_MS, "credentialKey": "WXYZ"}
    assert about.items() <= lines[0].items()
    policy = services.sessions()[0]["Policy"]
    texts = f"{lines} {caplog.text} {guard.metrics.text().decode()} {served.live.vault!r} {policy}"
    key_id = given["awsTempCredentials"]["accessKeyId"]
    assert [] == [secret for secret in (SECRET, SESSION, key_id, "an-external-id") if secret in texts]
    assert 'deltacli_share_credentials_total{cloud="aws",outcome="made"} 1.0' in guard.metrics.text().decode()


@pytest.mark.parametrize("place", ["grid/t1/day=1/inner", "grid"])
def test_a_table_below_or_above_is_noticed_when_its_credential_has_ended(
    place: str, s3: S3Server, bucket: str, served: Served, tmp_path: Path
) -> None:
    served.live.guard.audit = AuditFile(Audit(tmp_path / "audit.log"))
    granted(served.post(CREDENTIALS))
    s3.put(bucket, f"{place}/_delta_log/{0:020d}.json", b"{}")
    asked = len(s3.requests)
    granted(served.post(CREDENTIALS))
    looks = len(s3.requests) - asked
    served.now_ms += HOUR_MS

    reply = served.post(CREDENTIALS)

    assert (400, 1) == (reply.status, looks)
    assert "its directory is not that of one table alone" in reply.json["message"]
    lines = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    assert ("another table is below it, at day=1/inner" if "t1" in place else "it is inside another table") in str(
        lines[-1].get("refusal")
    )
    assert ["url"] == served.table("/metadata").lines[1]["metaData"]["accessModes"]


def test_a_table_that_becomes_unfit_loses_its_directory(s3: S3Server, bucket: str, services: TokenServices) -> None:
    builder = plain_table()
    served = offering(stored(s3, builder, bucket), services)
    assert 200 == served.post(CREDENTIALS).status
    assert [str(mode) for mode in BOTH] == served.table("/metadata").lines[1]["metaData"]["accessModes"]

    builder.commit(add(f"s3://{bucket}/elsewhere/x", size=1))
    stored(s3, builder, bucket)

    reply = served.post(CREDENTIALS)
    assert (400, "UNSUPPORTED_OPERATION") == (reply.status, reply.json["errorCode"])
    assert "outside the table" in reply.json["message"]
    about = served.table("/metadata").lines[1]["metaData"]
    assert (["url"], None) == (about["accessModes"], about.get("location"))
    (item,) = served.get(f"{TABLE.rpartition('/')[0]}").json["items"]
    assert (["url"], None) == (item["accessModes"], item.get("location"))


def test_a_table_without_urls_that_becomes_unfit_leaves_the_lists(
    s3: S3Server, bucket: str, services: TokenServices
) -> None:
    builder = plain_table()
    served = offering(stored(s3, builder, bucket, access_modes=(AccessMode.DIR,)), services)
    lists = [TABLE.rpartition("/")[0], "/shares/sales/all-tables"]
    assert [["dir"]] * 2 == [item["accessModes"] for path in lists for item in served.get(path).json["items"]]

    builder.commit(add(f"s3://{bucket}/elsewhere/x", size=1))
    stored(s3, builder, bucket)

    for reply in (served.post(CREDENTIALS), served.table("/metadata")):
        assert (400, "UNSUPPORTED_OPERATION") == (reply.status, reply.json["errorCode"])
        assert "outside the table" in reply.json["message"]
    assert [200, 200] == [served.table(path).status for path in ("/version", "")]
    assert [{"items": []}] * 2 == [served.get(path).json for path in lists]


def test_a_table_without_urls_that_cannot_be_read_is_still_listed(
    s3: S3Server, bucket: str, services: TokenServices
) -> None:
    served = offering(stored(s3, TableBuilder(), bucket, access_modes=(AccessMode.DIR,)), services)

    (item,) = served.get("/shares/sales/all-tables").json["items"]
    assert (["dir"], f"s3://{bucket}/grid/t1") == (item["accessModes"], item["location"])
    assert 200 != served.post(CREDENTIALS).status
