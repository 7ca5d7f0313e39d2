"""Stores with vended credentials: only these are used, they are renewed in time and once when refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from deltacli.core.errors import FileMissing, PermissionRefused, StorageFailed, UsageError
from deltacli.storage import Storage, open_storage
from deltacli.storage.grants import Grant, RenewableGrant
from deltacli.storage.retry import Retry
from deltacli.storage.secrets import mask_secrets
from deltacli.storage.vended import open_vended, read_endpoint_options
from deltacli.storage.vended_locations import parse_location
from tests.support.azure import ACCOUNT, AzureServer
from tests.support.azure import problem as azure_problem
from tests.support.cloud import answers
from tests.support.gcs import GcsServer
from tests.support.s3 import S3Server, says

KEYS = {"key": "ASIAVENDEDKEY0001", "secret": "vended-secret-0001", "token": "vended-session-0001"}


class Server:
    """What vends: each grant has keys of its own, and is for a time."""

    def __init__(
        self, location: str, names: Iterable[str], life: float | None = 3600, clock: float = 1_000_000
    ) -> None:
        self.location, self.names, self.life = location, tuple(names), life
        self.now = clock
        self.asked: list[bool] = []

    def clock(self) -> float:
        return self.now

    def grant(self, is_forced: bool) -> Grant:
        self.asked.append(is_forced)
        options = {name: f"vended-{name}-{len(self.asked)}" for name in self.names}
        return Grant(self.location, options, None if self.life is None else int((self.now + self.life) * 1000))


def opened(server: Server, uri: str, **options: str) -> Storage:
    return open_vended(uri, server.grant, options=options, retry=Retry(pause=lambda _: None), clock=server.clock)


@pytest.fixture
def hostile_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """The user's own credentials and endpoints, which no vended store may use."""
    (tmp_path / "config").write_text("[profile own]\nregion = own-region-1\nendpoint_url = http://127.0.0.1:9\n")
    for name, text in {
        "AWS_ACCESS_KEY_ID": "AKIAOWNKEY", "AWS_SECRET_ACCESS_KEY": "own-secret-key", "AWS_SESSION_TOKEN": "own-token",
        "AWS_PROFILE": "own", "AWS_CONFIG_FILE": str(tmp_path / "config"), "AWS_REGION": "own-region-1",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9",
        "STORAGE_EMULATOR_HOST": "http://127.0.0.1:9", "GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "none.json"),
        "GOOGLE_CLOUD_PROJECT": "own-project",
        "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": "b3duLWtleQ==",
        "AZURE_STORAGE_CONNECTION_STRING": "AccountName=own;AccountKey=b3duLWtleQ==;BlobEndpoint=http://127.0.0.1:9/own",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, text)


def noted(seen: list[dict[str, Any]], then: Any = None) -> Any:
    """A fault of S3 that notes the request and answers as it should, or by another fault."""

    def fault(server: S3Server, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        seen.append(dict(environ))
        return (then or S3Server.answer)(server, environ, start)

    return fault


@pytest.mark.usefixtures("hostile_environment")
def test_s3_is_asked_with_the_vended_keys_only(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = s3.make_bucket()
    s3.put(bucket, "lake/t 1/_delta_log/00.json", b"commit")
    server, seen = Server(f"s3a://{bucket}/lake/t%201/", KEYS), list[dict[str, Any]]()
    store = opened(server, f"s3://{bucket}/lake/t%201", endpoint_url=s3.url)
    s3.fail("GET", "00.json", noted(seen))
    monkeypatch.setattr("botocore.credentials.CredentialResolver.load_credentials", lambda _: pytest.fail("asked"))

    assert b"commit" == store.read("_delta_log/00.json")
    assert "Credential=vended-key-1/" in seen[0]["HTTP_AUTHORIZATION"]
    assert "/us-east-1/s3/" in seen[0]["HTTP_AUTHORIZATION"]
    assert "vended-token-1" == seen[0]["HTTP_X_AMZ_SECURITY_TOKEN"]
    assert [False] == server.asked


@pytest.mark.usefixtures("hostile_environment")
def test_gcs_and_azure_are_asked_with_the_vended_token_only(gcs: GcsServer, azure: AzureServer) -> None:
    bucket, container = gcs.make_bucket(), azure.make_container()
    gcs.put(bucket, "t/a", b"g")
    azure.put(container, "t/a", b"a")
    azure.signature = "vended-sas_token-1"
    gcs.token, seen = "vended-access_token-1", list[str]()
    blob = f"abfss://{container}@{ACCOUNT}.dfs.core.windows.net/t"
    google = opened(Server(f"gs://{bucket}/t", ["access_token"]), f"gs://{bucket}/t", endpoint_url=gcs.url)
    microsoft = opened(Server(blob, ["sas_token"]), blob, endpoint_url=f"{azure.url}/{ACCOUNT}")

    def note(of: Any, asked: Any) -> Any:
        seen.append(asked.target)
        assert "authorization" not in asked.headers
        return of.answer(asked)

    azure.fail("GET", "/t/a", note)

    assert (b"g", b"a") == (google.read("a"), microsoft.read("a"))
    assert seen[0].endswith("?vended-sas_token-1")


REACHES: list[tuple[str, Mapping[str, str], Mapping[str, str]]] = [
    ("s3://bucket/t", {}, {}),
    ("s3://bucket/t", {"AWS_ENDPOINT_URL": "http://a"}, {"endpoint_url": "http://a"}),
    (
        "s3://bucket/t",
        {"AWS_ENDPOINT_URL": "http://a", "AWS_ENDPOINT_URL_S3": "http://b"},
        {"endpoint_url": "http://b"},
    ),
    ("s3://bucket/t", {"AWS_ENDPOINT_URL": "", "AWS_REGION": "r-1"}, {"region": "r-1"}),
    ("s3://bucket/t", {"AWS_DEFAULT_REGION": "r-2"}, {"region": "r-2"}),
    ("s3://bucket/t", {"AWS_ENDPOINT_URL": "http://a", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "True"}, {}),
    ("s3://bucket/t", {"STORAGE_EMULATOR_HOST": "http://a"}, {}),
    ("gs://bucket/t", {"STORAGE_EMULATOR_HOST": "a:1", "AWS_ENDPOINT_URL": "http://b"}, {"endpoint_url": "a:1"}),
    (
        f"abfss://con@{ACCOUNT}.dfs.core.windows.net/t",
        {"AZURE_STORAGE_CONNECTION_STRING": f"AccountName={ACCOUNT};BlobEndpoint=http://a/x"},
        {"endpoint_url": "http://a/x"},
    ),
    (
        f"abfss://con@{ACCOUNT}.dfs.core.windows.net/t",
        {"AZURE_STORAGE_CONNECTION_STRING": "AccountName=another;BlobEndpoint=http://a/another"},
        {},
    ),
    ("file:///t", {"AWS_ENDPOINT_URL": "http://a"}, {}),
]


@pytest.mark.parametrize(("uri", "environment", "options"), REACHES)
def test_variables_say_where_a_store_is_and_not_who_asks(
    uri: str, environment: Mapping[str, str], options: Mapping[str, str]
) -> None:
    own = {"AWS_ACCESS_KEY_ID": "own", "AWS_PROFILE": "own", "AZURE_STORAGE_ACCOUNT_KEY": "b3du"}

    assert read_endpoint_options(parse_location(uri), {**own, **environment}) == options


REFUSALS = {
    "S3: 400 ExpiredToken": ("s3", says("400 BAD REQUEST", "ExpiredToken")),
    "S3: 403 InvalidAccessKeyId": ("s3", says("403 FORBIDDEN", "InvalidAccessKeyId")),
    "Azure: 403 AuthenticationFailed": ("azure", answers(azure_problem(403, "AuthenticationFailed"))),
    "Google: 401": ("gcs", None),
}


@pytest.mark.parametrize("age_seconds", [0, 40])
@pytest.mark.parametrize("case", REFUSALS)
def test_refused_credentials_are_replaced_once(case: str, age_seconds: float, request: pytest.FixtureRequest) -> None:
    kind, fault = REFUSALS[case]
    cloud = request.getfixturevalue(kind)
    uri, names, endpoint = _place(kind, cloud)
    server = Server(uri, names)
    store = opened(server, uri, endpoint_url=endpoint)
    server.now += age_seconds
    if fault is None:
        cloud.token = "vended-access_token-2"
    else:
        cloud.fail("GET", "a", fault)

    assert b"a" == store.read("a")
    assert [False, True] == server.asked

    if fault is None:
        cloud.token = "revoked"
    else:
        cloud.fail("GET", "a", fault, fault)
    with pytest.raises(PermissionRefused) as caught:
        store.read("a")
    assert [False, True] == server.asked, "within 30 s of a renewal the store's refusal is the error"
    assert "ask the provider of the table" == caught.value.hint
    assert "vended-" not in mask_secrets(str(caught.value.facts))


@pytest.mark.parametrize(("life", "floor"), [(3600, 30), (40, 20), (6, 5), (None, 30)])
def test_a_refusal_leads_to_other_credentials_at_any_age_and_then_to_none_until_the_floor_has_passed(
    life: float | None, floor: float
) -> None:
    server = Server("s3://bucket/t", KEYS, life)
    held = RenewableGrant(parse_location("s3://bucket/t"), server.grant, server.clock)

    assert held.replace_refused(held.options())
    assert not held.replace_refused(held.options())
    server.now += floor - 1
    asked_before = len(server.asked)
    refused = dict(held._grant.options)
    assert not held.replace_refused(refused)
    assert asked_before == len(server.asked)
    server.now += 1
    assert held.replace_refused(refused)
    assert asked_before + 1 == len(server.asked)


def test_credentials_that_were_renewed_in_time_are_replaced_when_they_are_refused() -> None:
    server = Server("s3://bucket/t", KEYS)
    held = RenewableGrant(parse_location("s3://bucket/t"), server.grant, server.clock)
    server.now += 3_590
    renewed = held.options()

    assert held.replace_refused(renewed)
    assert [False, False, True] == server.asked


def test_credentials_to_write_are_replaced_when_they_are_refused_at_once() -> None:
    server = Server("s3://bucket/t", KEYS)
    held = RenewableGrant(parse_location("s3://bucket/t"), server.grant, server.clock, ask_to_write=lambda: None)
    held.request_write_access()

    assert held.replace_refused(held.options())
    assert "vended-key-3" == held.options()["key"]


def test_a_server_that_gives_the_same_credentials_again_is_asked_once_per_floor() -> None:
    server = Server("s3://bucket/t", KEYS)
    first = server.grant(False)
    asked = list[bool]()

    def renew(is_forced: bool) -> Grant:
        asked.append(is_forced)
        return first

    held = RenewableGrant(parse_location("s3://bucket/t"), renew, server.clock)

    assert [False] * 3 == [held.replace_refused(held.options()) for _ in range(3)]
    assert [False, True] == asked


def _place(kind: str, cloud: Any) -> tuple[str, Iterable[str], str]:
    if kind == "s3":
        bucket = cloud.make_bucket()
        cloud.put(bucket, "t/a", b"a")
        return f"s3://{bucket}/t", KEYS, cloud.url
    if kind == "gcs":
        bucket = cloud.make_bucket()
        cloud.put(bucket, "t/a", b"a")
        return f"gs://{bucket}/t", ["access_token"], cloud.url
    container, cloud.signature = cloud.make_container(), "vended-sas_token"
    cloud.put(container, "t/a", b"a")
    return f"abfss://{container}@{ACCOUNT}.dfs.core.windows.net/t", ["sas_token"], f"{cloud.url}/{ACCOUNT}"


RENEWALS = [  # life of a grant, seconds that pass, grants in all
    (3600, 3239, 1), (3600, 3241, 2), (300, 239, 1), (300, 241, 2), (36_000, 32_399, 1), (36_000, 32_401, 2),
    (100, 49, 1), (100, 51, 2), (20, 9, 1), (20, 11, 2), (None, 10**9, 1),
]  # fmt: skip


@pytest.mark.parametrize(("life", "passed", "grants"), RENEWALS)
def test_a_grant_is_renewed_before_it_ends(life: float | None, passed: float, grants: int) -> None:
    server = Server("s3://bucket/t", KEYS, life)
    held = RenewableGrant(parse_location("s3://bucket/t"), server.grant, server.clock)

    server.now += passed
    options = [held.options() for _ in range(3)]

    assert grants == len(server.asked)
    assert {f"vended-key-{grants}"} == {each["key"] for each in options}


def test_threads_share_one_renewal() -> None:
    server, barrier = Server("s3://bucket/t", KEYS, 3600), Barrier(8)
    held = RenewableGrant(parse_location("s3://bucket/t"), server.grant, server.clock)
    server.now += 3590

    def ask(_: int) -> Mapping[str, str]:
        barrier.wait()
        return held.options()

    with ThreadPoolExecutor(8) as pool:
        keys = {options["key"] for options in pool.map(ask, range(8))}

    assert ({"vended-key-2"}, 2) == (keys, len(server.asked))


def test_threads_share_a_renewal_that_fails_and_a_later_one_is_tried() -> None:
    server, barrier = Server("s3://bucket/t", KEYS, 3600), Barrier(8)
    is_revoked = True

    def renew(is_forced: bool) -> Grant:
        grant = server.grant(is_forced)
        if len(server.asked) > 1 and is_revoked:
            raise StorageFailed("revoked")
        return grant

    def ask(_: int) -> str:
        barrier.wait()
        try:
            return held.options()["key"]
        except StorageFailed as fault:
            return fault.message

    held = RenewableGrant(parse_location("s3://bucket/t"), renew, server.clock)
    server.now += 3590
    with ThreadPoolExecutor(8) as pool:
        assert {"revoked"} == set(pool.map(ask, range(8)))
    assert 2 == len(server.asked)
    is_revoked, server.now = False, server.now + 6
    assert "vended-key-3" == held.options()["key"]


UNFIT = {
    "another bucket": (Grant("s3://other/t", KEYS), "storage.grant-location"),
    "a longer name": (Grant("s3://bucket/t1", KEYS), "storage.grant-location"),
    "a part of it": (Grant("s3://bucket/t/_delta_log", KEYS), "storage.grant-location"),
    "another store": (Grant("gs://bucket/t", KEYS), "storage.grant-location"),
    "nonsense": (Grant("%00", KEYS), "storage.grant-location"),
    "no secret": (Grant("s3://bucket/t", {"key": "k"}), "storage.grant-form"),
    "of another cloud": (Grant("s3://bucket/t", {"access_token": "t"}), "storage.grant-form"),
    "an endpoint": (Grant("s3://bucket/t", {**KEYS, "endpoint_url": "http://evil"}), "storage.grant-form"),
    "ended": (Grant("s3://bucket/t", KEYS, 999_999_999), "storage.grant-ended"),
    "ends at once": (Grant("s3://bucket/t", KEYS, 1_000_000_000), "storage.grant-ended"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_an_unfit_grant_is_an_error_and_asked_for_once(case: str) -> None:
    grant, code = UNFIT[case]
    asked = list[bool]()

    def renew(is_forced: bool) -> Grant:
        asked.append(is_forced)
        return grant

    with pytest.raises(StorageFailed) as caught:
        open_vended("s3://bucket/t", renew, clock=lambda: 1_000_000.0)

    assert (code, [False]) == (caught.value.code, asked)


def test_grants_that_end_at_once_are_not_asked_for_endlessly() -> None:
    server = Server("s3://bucket/t", KEYS, 1)
    held = RenewableGrant(parse_location("s3://bucket/t"), server.grant, server.clock)
    server.now += 2

    for _ in range(3):
        with pytest.raises(StorageFailed, match="too soon"):
            held.options()
    assert 1 == len(server.asked)


LOCATIONS = {
    "s3://b-1/t/": "s3://b-1/t", "S3A://B-1/a%20b": "s3://B-1/a b", "s3://b-1": "s3://b-1", "gs://bucket/%25": "gs://bucket/%",
    "wasbs://C-1@Acc.blob.core.windows.net/t": "abfss://c-1@acc.dfs.core.windows.net/t", "file:///a/b": "file:///a/b",
    "s3://b-1/ü": "s3://b-1/ü",
}  # fmt: skip
NO_LOCATIONS = [
    "", "/etc", "t", "http://169.254.169.254/", "ftp://b/t", "s3://", "s3:///t", "s3://evil@bucket/t", "s3://b:1/t",
    "s3://u:p@bucket/t", "s3://bucket/t?x", "s3://bucket/t#x", "s3://bucket//t", "s3://bucket/t//", "s3://bucket/./t",
    "s3://bucket/a/../t", "s3://bucket/%2e%2e/t", "s3://bucket/a%2Fb", "s3://bucket/a%00", "s3://bucket/a\\b",
    "s3://bucket/a\nb", "s3://bucket/%ff", "s3://bucket/" + "a" * 10_240, "file://host/t", "abfss://c/t",
    "abfss://c@acc.dfs.evil.example/t", "abfss://c@acc.dfs.core.windows.net.evil.example/t", "abfss://c@evil.example/t",
]  # fmt: skip


def test_locations_have_one_form() -> None:
    assert LOCATIONS == {uri: parse_location(uri).uri for uri in LOCATIONS}


@pytest.mark.parametrize("uri", NO_LOCATIONS)
def test_what_is_not_a_location_is_refused_before_a_grant_is_asked_for(uri: str) -> None:
    with pytest.raises(UsageError, match="the location of the table cannot be used"):
        open_vended(uri, lambda _: pytest.fail("asked"))


@pytest.mark.parametrize("name", ["key", "secret", "token", "anon", "profile", "client_kwargs", "sas_token"])
def test_options_that_are_credentials_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="the server of the table gives the credentials"):
        open_vended("s3://bucket/t", lambda _: pytest.fail("asked"), options={name: "x"})


def test_a_missing_object_that_s3_refuses_is_missing_where_the_listing_agrees(s3: S3Server) -> None:
    uri, names, endpoint = _place("s3", s3)
    store = opened(Server(uri, names), uri, endpoint_url=endpoint)
    denied = says("403 FORBIDDEN", "AccessDenied")

    s3.fail("GET", "_last_checkpoint", denied)
    with pytest.raises(FileMissing):
        store.read("_last_checkpoint")
    s3.fail("HEAD", "absent", denied)
    with pytest.raises(FileMissing):
        store.stat("absent")
    s3.fail("GET", "/t/a", denied)
    with pytest.raises(PermissionRefused):
        store.read("a")
    s3.fail("GET", "absent", denied, denied)
    s3.fail("GET", uri.split("/")[2], denied)
    with pytest.raises(PermissionRefused):
        store.read("absent")


def test_the_region_of_a_bucket_is_found(s3: S3Server) -> None:
    uri, names, endpoint = _place("s3", s3)
    store, seen = opened(Server(uri, names), uri, endpoint_url=endpoint), list[dict[str, Any]]()

    def elsewhere(server: S3Server, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        start("301 MOVED", [("x-amz-bucket-region", "eu-south-2"), ("Content-Type", "application/xml")])
        return [b"<Error><Code>PermanentRedirect</Code><Message>.</Message></Error>"]

    s3.fail("GET", "/t/a", elsewhere, noted(seen))

    assert b"a" == store.read("a")
    assert "/eu-south-2/s3/" in seen[0]["HTTP_AUTHORIZATION"]


def test_a_token_of_google_that_was_issued_already_is_sent_and_not_renewed(gcs: GcsServer) -> None:
    uri, _, endpoint = _place("gcs", gcs)
    gcs.token = "ya29.issued"

    assert b"a" == open_storage(uri, {"access_token": " ya29.issued\n", "endpoint_url": endpoint}).read("a")
    with pytest.raises(PermissionRefused) as caught:
        open_storage(uri, {"access_token": "ya29.other-token", "endpoint_url": endpoint}).read("a")
    assert "ya29.other-token" not in f"{caught.value} {caught.value.facts}"
    with pytest.raises(UsageError):
        open_storage(uri, {"access_token": "ya29 two"}).read("a")


def test_local_files_need_no_credentials(tmp_path: Any) -> None:
    (tmp_path / "a b").write_bytes(b"x")
    uri = tmp_path.as_uri()

    assert b"x" == open_vended(uri, lambda _: Grant(uri, {})).read("a b")
    with pytest.raises(StorageFailed):
        open_vended(uri, lambda _: Grant(uri, KEYS))


def test_a_grant_is_neither_shown_nor_sent() -> None:
    server = Server("s3://bucket/t", KEYS)
    held = RenewableGrant(parse_location("s3://bucket/t"), server.grant, server.clock)

    assert "vended-" not in repr(held) + repr(server.grant(False))
    assert "vended-secret-1" not in mask_secrets("it says vended-secret-1")
    with pytest.raises(TypeError):
        pickle.dumps(held)
