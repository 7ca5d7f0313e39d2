"""Errors of credentials say what was tried, what has expired and what to run, without waiting for a metadata server
that does not answer.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deltacli.core.errors import CredentialsMissing, PermissionRefused, StorageFailed, UsageError
from deltacli.storage import Failed, open_storage
from deltacli.storage.azure import credentials as azure_credentials
from deltacli.storage.gcs import credential_sources
from deltacli.storage.gcs import credentials as gcs_credentials
from deltacli.storage.objects.store import ObjectStorage
from deltacli.storage.retry import Retry
from tests.support.azure import ACCOUNT, AzureServer
from tests.support.azure import problem as azure_problem
from tests.support.cloud import Asked, Said, answers
from tests.support.gcs import JSON, GcsServer
from tests.support.gcs_api import GcsApi
from tests.support.s3 import S3Server, says

TABLE = f"abfss://container@{ACCOUNT}.dfs.core.windows.net/t"


class Silent:
    """A server on loopback that accepts connections and never answers."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"

    def connections(self) -> int:
        """How many connections were made so far."""
        self._socket.settimeout(0)
        count = 0
        while True:
            try:
                self._socket.accept()[0].close()
            except BlockingIOError:
                return count
            count += 1

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def silent() -> Iterator[Silent]:
    server = Silent()
    yield server
    server.close()


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """No credentials, no emulator, no programs."""
    for name in ("AZURE_STORAGE_CONNECTION_STRING", "STORAGE_EMULATOR_HOST", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    return monkeypatch


def failed(uri: str, **options: str) -> StorageFailed:
    """The error of reading from a store."""
    with pytest.raises(StorageFailed) as raised:
        open_storage(uri, options, retry=Retry(0, pause=lambda _: None)).read("file")
    return raised.value


def test_google_s_metadata_server_that_is_silent_is_asked_once_for_a_second(
    silent: Silent, nowhere: pytest.MonkeyPatch
) -> None:
    assert credential_sources._METADATA_SECONDS <= 1
    nowhere.setattr(credential_sources, "_METADATA_SECONDS", 0.05)
    nowhere.setattr(credential_sources, "_is_google_machine", lambda: False)
    nowhere.setenv("GCE_METADATA_IP", silent.address)

    error = failed("gs://bucket/t")

    assert 1 == silent.connections()
    assert isinstance(error, CredentialsMissing)
    assert ["library says", "environment", "file", "instance metadata"] == list(error.facts)
    assert "GOOGLE_APPLICATION_CREDENTIALS unset" == error.facts["environment"]
    assert "no answer" == error.facts["instance metadata"]


def test_azure_s_metadata_server_that_is_silent_is_asked_once_for_a_second(
    silent: Silent, nowhere: pytest.MonkeyPatch
) -> None:
    from azure.identity._credentials import imds

    assert azure_credentials._METADATA_SECONDS <= 1
    nowhere.setattr(azure_credentials, "_METADATA_SECONDS", 0.05)
    nowhere.setattr(azure_credentials, "_METADATA_URL", f"http://{silent.address}/metadata")
    nowhere.setattr(imds, "IMDS_AUTHORITY", f"http://{silent.address}")
    nowhere.setenv("AZURE_CLIENT_ID", "an-application")

    error = failed(TABLE)

    assert 1 == silent.connections()
    assert isinstance(error, CredentialsMissing)
    del error.facts["library says"]
    assert {
        "options": "account_key unset, sas_token unset, tenant_id unset, client_id unset, client_secret unset",
        "environment": "AZURE_STORAGE_ACCOUNT_KEY unset, AZURE_STORAGE_SAS_TOKEN unset, "
        "AZURE_STORAGE_CONNECTION_STRING unset, AZURE_STORAGE_TOKEN unset",
        "application": "AZURE_TENANT_ID unset, AZURE_CLIENT_ID set, AZURE_CLIENT_SECRET unset",
        "workload identity": "AZURE_FEDERATED_TOKEN_FILE unset",
        "managed identity": "no answer",
        "Azure CLI": "Azure CLI not found on path",
    } == error.facts


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("AzureCliCredential: AADSTS700082: The refresh token has expired due to inactivity.", "az login"),
        ("AzureDeveloperCliCredential: AADSTS70043: The refresh token has expired", "azd auth login"),
        ("EnvironmentCredential: AADSTS7000222: The provided client secret keys for app are expired.", None),
    ],
)
def test_a_login_of_azure_that_expired_is_called_expired(
    said: str, hint: str | None, nowhere: pytest.MonkeyPatch
) -> None:
    from azure.core.exceptions import ClientAuthenticationError

    class Refusing:
        def get_token(self, _: str) -> Any:
            raise ClientAuthenticationError(f"DefaultAzureCredential failed.\nAttempted credentials:\n\t{said}")

    nowhere.setattr(azure_credentials.AzureCredentials, "get_credential", lambda _: Refusing())
    nowhere.setenv("AZURE_CLIENT_ID", "an-application")

    error = failed(TABLE)

    assert "the credentials of Azure have expired" in str(error)
    assert (hint or "az ad app credential reset --id an-application") == error.hint


def test_a_shared_access_signature_that_expired_is_called_expired(
    azure: AzureServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING")
    where = {"endpoint_url": f"{azure.url}/{ACCOUNT}"}
    azure.fail("GET", "", *[answers(azure_problem(403, "AuthenticationFailed"))] * 2)

    expired = failed(TABLE, sas_token="se=2026-01-01T00%3A00%3A00Z&sp=rl&sig=a-signature", **where)
    valid = failed(TABLE, sas_token="se=9026-01-01T00%3A00%3A00Z&sp=rl&sig=a-signature", **where)

    assert isinstance(expired, PermissionRefused)
    assert str(expired).endswith("the credentials have expired")
    assert f"az storage container generate-sas --account-name {ACCOUNT} --name CONTAINER" == expired.hint
    assert str(valid).endswith("access is denied")


@pytest.mark.parametrize(
    ("problem", "has_expired"),
    [
        ({"error": "invalid_grant", "error_description": "Token has been expired or revoked."}, True),
        ({"error": "invalid_grant", "error_subtype": "invalid_rapt", "error_description": "reauth related"}, True),
        ({"error": "invalid_client", "error_description": "Unauthorized"}, False),
    ],
)
def test_a_login_of_google_that_expired_is_called_expired(
    problem: dict[str, str], has_expired: bool, gcs: GcsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    login = {"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"}
    (tmp_path / "login.json").write_text(json.dumps(login))
    send = gcs_credentials.make_auth_request()
    here = f"{gcs.url}/token"
    monkeypatch.setattr(gcs_credentials, "make_auth_request", lambda: lambda url, **given: send(here, **given))  # noqa: ARG005
    gcs.fail("POST", "/token", *[answers(Said(400, json.dumps(problem).encode(), JSON))] * 9)

    error = failed("gs://bucket/t", token=str(tmp_path / "login.json"))

    assert has_expired == ("have expired" in str(error))
    assert has_expired == (error.hint == "gcloud auth application-default login")


def test_a_session_of_aws_that_expired_is_called_expired(s3: S3Server) -> None:
    bucket = s3.make_bucket()
    s3.fail("GET", bucket, *[says("400 BAD REQUEST", "ExpiredToken")] * 2)

    error = failed(f"s3://{bucket}/t")

    assert isinstance(error, PermissionRefused)
    assert str(error).endswith("the credentials have expired")
    assert 'eval "$(aws configure export-credentials --profile NAME --format env)"' == error.hint


@pytest.mark.parametrize(
    ("text", "lacks", "has"),
    [
        ("DefaultEndpointsProtocol=https", "AccountName and AccountKey", "DefaultEndpointsProtocol"),
        ("AccountName=lake;EndpointSuffix=core.windows.net", "AccountKey", "AccountName, EndpointSuffix"),
        ("AccountName=lake;AccountKey=", "AccountKey", "AccountName, AccountKey"),
        ("AccountKey=c2VjcmV0", "AccountName", "AccountKey"),
        ("c2VjcmV0", "AccountName and AccountKey", "no NAME=VALUE"),
    ],
)
def test_an_incomplete_connection_string_is_named(text: str, lacks: str, has: str, nowhere: pytest.MonkeyPatch) -> None:
    nowhere.setenv("AZURE_STORAGE_CONNECTION_STRING", text)

    with pytest.raises(UsageError, match=f"connection string of Azure is incomplete: {lacks}") as raised:
        open_storage("az://container/t")

    assert "usage.credentials" == raised.value.code
    assert {"it has": has} == raised.value.facts
    assert "c2VjcmV0" not in f"{raised.value}{raised.value.hint}"


def test_a_connection_string_that_something_else_completes_is_taken(nowhere: pytest.MonkeyPatch) -> None:
    nowhere.setenv("AZURE_STORAGE_CONNECTION_STRING", "AccountName=lake")

    nowhere.setenv("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0")
    assert open_storage("az://container/t")

    nowhere.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    nowhere.setenv("AZURE_STORAGE_CONNECTION_STRING", "AccountName=lake;BlobEndpoint=https://lake.example")
    assert open_storage("az://container/t")


@pytest.mark.parametrize(
    ("status", "code", "headers", "expected"),
    [
        ("307 TEMPORARY REDIRECT", "", {"Location": "http://portal.example:8080/login"}, "storage.unexpected-answer"),
        ("301 MOVED PERMANENTLY", "", {"Location": "https://portal.example/"}, "storage.unexpected-answer"),
        ("307 TEMPORARY REDIRECT", "TemporaryRedirect", {"Location": "https://b.s3-eu-west-1.amazonaws.com/t"}, ""),
        ("307 TEMPORARY REDIRECT", "TemporaryRedirect", {"Location": "http://b/", "x-amz-bucket-region": "x-1"}, ""),
    ],
)
@pytest.mark.parametrize("verb", ["read", "list_from"])
def test_a_redirect_to_another_host_is_not_another_region(
    verb: str, status: str, code: str, headers: dict[str, str], expected: str, s3: S3Server
) -> None:
    bucket = s3.make_bucket()
    for method in ("GET", "HEAD"):
        s3.fail(method, bucket, *[says(status, code, **headers)] * 20)
    storage = open_storage(f"s3://{bucket}/t", retry=Retry(0, pause=lambda _: None))

    with pytest.raises(StorageFailed) as raised:
        storage.read("a") if verb == "read" else list(storage.list_from(""))

    assert (expected or "storage.region") == raised.value.code
    assert ("a redirect to portal.example" == raised.value.facts.get("seen")) == bool(expected)


def of_gcs(request: pytest.FixtureRequest) -> tuple[str, str]:
    server: GcsApi = request.getfixturevalue("gcs_api")
    places = server.make_bucket(), server.make_bucket()
    request.getfixturevalue("monkeypatch").setattr(server, "wants_tokens", True)
    request.getfixturevalue("monkeypatch").setattr(server, "public", {places[0]})
    for place in places:
        server.put(place, "t/file", b"content")
    return f"gs://{places[0]}/t", f"gs://{places[1]}/t"


def of_azure(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Anonymous requests read a public container; elsewhere the service says that there is no such resource."""
    server: AzureServer = request.getfixturevalue("azure")
    patch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    patch.delenv("AZURE_STORAGE_CONNECTION_STRING")
    places, honest = (server.make_container(), server.make_container()), server.answer
    for place in places:
        server.put(place, "t/file", b"content")

    def answer(asked: Asked) -> Said:
        assert "authorization" not in asked.headers
        if asked.method in ("GET", "HEAD") and places[0] in asked.target:
            return honest(asked._replace(headers={**asked.headers, "authorization": "of the public"}))
        is_read = asked.method in ("GET", "HEAD")
        return azure_problem(*((404, "ResourceNotFound") if is_read else (409, "PublicAccessNotPermitted")))

    patch.setattr(server, "answer", answer)
    return TABLE.replace("container", places[0]), TABLE.replace("container", places[1])


def of_s3(request: pytest.FixtureRequest) -> tuple[str, str]:
    server: S3Server = request.getfixturevalue("s3")
    places, honest = (server.make_bucket(), server.make_bucket()), server.answer
    for place in places:
        server.put(place, "t/file", b"content")
    server.publish(places[0], "t/file")

    def answer(environ: dict[str, Any], start_response: Any) -> Any:  # Any: of WSGI
        assert "HTTP_AUTHORIZATION" not in environ
        is_read = environ["REQUEST_METHOD"] in ("GET", "HEAD")
        if is_read and places[0] in environ["PATH_INFO"]:
            return honest(environ, start_response)
        return says("403 FORBIDDEN", "AccessDenied")(server, environ, start_response)

    request.getfixturevalue("monkeypatch").setattr(server, "answer", answer)
    return f"s3://{places[0]}/t", f"s3://{places[1]}/t"


@pytest.mark.parametrize("cloud", [of_gcs, of_azure, of_s3])
def test_without_credentials_what_is_public_is_read_and_all_else_is_denied(
    cloud: Callable[[pytest.FixtureRequest], tuple[str, str]], request: pytest.FixtureRequest
) -> None:
    anonymous = {"anon": "true"}
    uris = cloud(request)
    if cloud is of_azure:
        anonymous["endpoint_url"] = f"{request.getfixturevalue('azure').url}/{ACCOUNT}"
    public, private = (open_storage(uri, anonymous, retry=Retry(0, pause=lambda _: None)) for uri in uris)
    refused: tuple[Callable[[], object], ...] = (
        lambda: private.read("file"),
        lambda: list(private.list_from("")),
        lambda: public.put_if_absent("new", b""),
        lambda: public.put("new", b""),
    )

    assert b"content" == public.read("file")
    assert ["file"] == [stat.name for stat in public.list_from("")]
    for call in refused:
        with pytest.raises(PermissionRefused) as raised:
            call()
        assert raised.value.facts["credentials"].startswith("none (anon")
        assert "omit --storage-option anon=true" == raised.value.hint
    ((_, outcome),) = public.delete_many(["file"])
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.denied, PermissionRefused)
    assert b"content" == public.read("file")


@pytest.mark.parametrize("bucket", ["s3://bucket", "gs://bucket", TABLE.removesuffix("/t")])
def test_the_tables_of_a_run_share_the_client_of_their_bucket(bucket: str) -> None:
    """Each client takes 20 ms, its connections and a look for credentials."""
    run, anonymous = Retry(), {"anon": "true"}

    def calls_of(uri: str, options: dict[str, str], retry: Retry) -> object:
        store = open_storage(uri, options, retry=retry)
        assert isinstance(store, ObjectStorage)
        return store.calls

    shared = calls_of(f"{bucket}/lake/a", anonymous, run)
    others = [
        calls_of(f"{bucket.replace('://', '://an')}/lake/a", anonymous, run),
        calls_of(f"{bucket}/lake/a", {**anonymous, "endpoint_url": "http://127.0.0.1:1/x"}, run),
        calls_of(f"{bucket}/lake/a", anonymous, Retry()),
    ]

    assert shared is calls_of(f"{bucket}/b", anonymous, run) is calls_of(bucket, anonymous, run)
    assert all(shared is not other for other in others)
