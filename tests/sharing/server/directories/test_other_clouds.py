"""Credentials of Azure and Google: what the cloud is asked for, and what the recipient gets."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deltacli.sharing.configuration.recipients import Recipient, Recipients, TokenRecord
from deltacli.sharing.configuration.secrets import digest_token
from deltacli.sharing.model import Grant, SharedTable
from deltacli.sharing.server.guard import ServingState
from deltacli.storage.signing.delegation import Delegation
from tests.sharing.served import NOW_MS, TOKEN, Served
from tests.sharing.server.directories.offered import BOTH, CREDENTIALS, granted, plain_table
from tests.support.azure import ACCOUNT, AzureServer
from tests.support.cloud import Asked, Said
from tests.support.gcs import GcsServer, service_account
from tests.support.granted import gcp_allows, sas_allows, sas_fields
from tests.support.token_services import GOOGLE_SECRET, TokenServices

KEY = b"the key of a delegation"


class NamedAzure(AzureServer):
    """A store whose host names the account, as that of the cloud does; it gives delegation keys."""

    def answer(self, asked: Asked) -> Said:
        if "comp=userdelegationkey" in asked.target:
            expiry = asked.body.decode().partition("<Expiry>")[2].partition("<")[0]
            fields = {"SignedOid": "oid-4321", "SignedTid": "tid", "SignedStart": "2026-01-01T00:00:00Z",
                      "SignedExpiry": expiry, "SignedService": "b", "SignedVersion": "2021-12-02",
                      "Value": base64.b64encode(KEY).decode()}  # fmt: skip
            body = "".join(f"<{name}>{text}</{name}>" for name, text in fields.items())
            return Said(200, f"<UserDelegationKey>{body}</UserDelegationKey>".encode())
        return super().answer(asked._replace(target=f"/{ACCOUNT}{asked.target}"))


@pytest.fixture
def azure() -> Iterator[NamedAzure]:
    server = NamedAzure()
    yield server
    server.stop()


@pytest.fixture
def services() -> Iterator[TokenServices]:
    server = TokenServices()
    yield server
    server.stop()


def ending(served: Served, minutes: float) -> Served:
    """Serve for a recipient whose token ends in so many minutes."""
    record = TokenRecord("t1", digest_token(TOKEN), NOW_MS - 1, NOW_MS + int(minutes * 60_000))
    configuration = replace(served.state.configuration, bearer_token=None, recipients_file=Path("recipients.json"))
    served.state = ServingState(configuration, Recipients((Recipient("acme", (record,), (Grant("Sales"),), 1),)))
    return served


def azure_table(azure: NamedAzure, *, is_hierarchical: bool, **options: str) -> tuple[str, SharedTable]:
    container = azure.make_container(is_hierarchical=is_hierarchical)
    for name, file in plain_table().files.items():
        azure.put(container, f"grid/t1/{name}", file.data)
    given = {"account_name": ACCOUNT, "endpoint_url": azure.url, **(options or {"token": "a-token"})}
    table = SharedTable("Sales", "Main", "t", f"az://{container}/grid/t1", "id", True, storage_options=given,
                        access_modes=BOTH)  # fmt: skip
    return container, table


def test_azure_gives_a_signature_of_the_directory(azure: NamedAzure) -> None:
    container, table = azure_table(azure, is_hierarchical=True)
    root = f"abfss://{container}@{ACCOUNT}.dfs.core.windows.net/grid/t1"
    served = Served((table,))

    given = granted(served.post(CREDENTIALS))
    assert {"location", "azureUserDelegationSas", "expirationTime"} == given.keys()
    assert (root, NOW_MS + 3_600_000) == (given["location"], given["expirationTime"])
    token = given["azureUserDelegationSas"]["sasToken"]
    assert sas_allows(token, KEY, ACCOUNT, container, "grid/t1/part-0", "r")
    assert not sas_allows(token, KEY, ACCOUNT, container, "grid/t10/part-0", "r")

    below = granted(served.post(CREDENTIALS, json.dumps({"location": f"{root}/_delta_log"}).encode()))
    assert f"{root}/_delta_log" == below["location"]
    assert "3" == sas_fields(below["azureUserDelegationSas"]["sasToken"])["sdd"]
    assert 1 == azure.asked("POST", "userdelegationkey")
    assert root == served.table("/metadata").lines[1]["metaData"]["location"]


def test_a_signature_ends_with_the_token_of_its_recipient(azure: NamedAzure) -> None:
    _, table = azure_table(azure, is_hierarchical=True)

    given = granted(ending(Served((table,)), 10).post(CREDENTIALS))
    assert NOW_MS + 600_000 == given["expirationTime"]
    assert "2027-01-15T08:10:00Z" == sas_fields(given["azureUserDelegationSas"]["sasToken"])["se"]


@pytest.mark.parametrize(
    ("is_hierarchical", "options", "reason"),
    [
        (False, {}, "no hierarchical namespace"),
        (True, {"account_key": "a2V5a2V5"}, "not those of an identity"),
        (True, {"sas_token": "sv=1&sig=x"}, "not those of an identity"),
    ],
)
def test_accounts_without_scoped_credentials(
    azure: NamedAzure, is_hierarchical: bool, options: dict[str, str], reason: str
) -> None:
    azure.signature = "sig=x" if "sas_token" in options else ""
    _, table = azure_table(azure, is_hierarchical=is_hierarchical, **options)
    served = Served((table,))

    reply = served.post(CREDENTIALS)
    assert (400, "UNSUPPORTED_OPERATION") == (reply.status, reply.json["errorCode"])
    assert reason in reply.json["message"]
    assert ["url"] == served.get("/shares/sales/all-tables").json["items"][0]["accessModes"]


def test_an_account_that_does_not_answer_is_asked_again_later(azure: NamedAzure) -> None:
    _, table = azure_table(azure, is_hierarchical=True)
    served = Served((table,))
    azure.fail("GET", "restype=account", *[lambda *_: Said(503, b"")] * 9)

    reply = served.post(CREDENTIALS)
    assert (503, "SERVICE_UNAVAILABLE") == (reply.status, reply.json["errorCode"])
    assert "retry-after" in reply.headers
    azure.forget()
    assert 200 == served.post(CREDENTIALS).status


@pytest.mark.parametrize(("status", "answered"), [(503, 503), (403, 400)])
def test_azure_does_not_delegate(azure: NamedAzure, status: int, answered: int) -> None:
    _, table = azure_table(azure, is_hierarchical=True)
    served = Served((table,))
    said = Said(
        status, b"<Error><Code>AuthorizationFailure</Code></Error>", {"x-ms-error-code": "AuthorizationFailure"}
    )
    azure.fail("POST", "userdelegationkey", *[lambda *_: said] * 9)

    assert answered == served.post(CREDENTIALS).status


def gcs_table(gcs: GcsServer, services: TokenServices, **fields: Any) -> tuple[str, SharedTable]:
    bucket = gcs.make_bucket()
    for name, file in plain_table().files.items():
        gcs.put(bucket, f"grid/t1/{name}", file.data)
    options = {"token": json.dumps(service_account(f"{services.url}/token")), "endpoint_url": gcs.url}
    table = SharedTable("Sales", "Main", "t", f"gs://{bucket}/grid/t1", "id", True, storage_options=options,
                        access_modes=BOTH, delegation=Delegation(sts_endpoint=f"{services.url}/v1/token"))  # fmt: skip
    return bucket, table


def test_google_gives_a_token_of_the_directory(gcs: GcsServer, services: TokenServices) -> None:
    bucket, table = gcs_table(gcs, services)
    served = Served((table,))

    given = granted(served.post(CREDENTIALS))
    assert {"location", "gcpOauthToken", "expirationTime"} == given.keys()
    assert (f"gs://{bucket}/grid/t1", {"oauthToken": GOOGLE_SECRET}) == (given["location"], given["gcpOauthToken"])
    (boundary,) = services.boundaries()
    assert gcp_allows(boundary, "storage.objects.get", bucket, key="grid/t1/part-0")
    assert not gcp_allows(boundary, "storage.objects.get", bucket, key="grid/t10/part-0")


def test_a_token_of_google_that_would_outlive_that_of_the_recipient_is_not_given(
    gcs: GcsServer, services: TokenServices
) -> None:
    _, table = gcs_table(gcs, services)

    reply = ending(Served((table,)), 10).post(CREDENTIALS)
    assert (400, "UNSUPPORTED_OPERATION") == (reply.status, reply.json["errorCode"])
    assert GOOGLE_SECRET not in str(reply.body)


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (Said(503, b"down"), 503),
        (Said(0, is_cut=True), 503),
        (Said(400, b'{"error":"invalid_grant"}'), 400),
        (Said(200, b"<html>"), 503),
        (Said(200, b'{"access_token":"","expires_in":5}'), 503),
        (Said(302, b"", {"Location": "http://127.0.0.1:1/"}), 400),
    ],
)
def test_faults_of_google(gcs: GcsServer, services: TokenServices, said: Said, status: int) -> None:
    _, table = gcs_table(gcs, services)
    services.fail("POST", "/v1/token", lambda *_: said)

    assert status == Served((table,)).post(CREDENTIALS).status
