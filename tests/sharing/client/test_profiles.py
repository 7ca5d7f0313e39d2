"""Addresses and profiles: what names a shared table, which profiles are accepted, and who gets a token."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltacli.core.errors import DeltacliError, UsageError
from deltacli.sharing.client.addresses import parse_address, split_profile
from deltacli.sharing.client.faults import AccessRefused, RequestRefused
from deltacli.sharing.client.table_requests import list_shares
from deltacli.sharing.client.transport import open_profile
from deltacli.storage.retry import Retry
from tests.sharing.client.serving import Asked, Proxy, Sent, proxied
from tests.sharing.served import NOW_MS, TOKEN, shared
from tests.support.rows import parquet_bytes, schema_of, table_of

ROWS = pa.table({"id": pa.array([1, 2])})


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    """A table of one file."""
    table = table_of({"part.parquet": parquet_bytes(ROWS)}, schema_of(ROWS))
    with proxied(tmp_path, shared(table.write(tmp_path / "t"))) as proxy:
        yield proxy


def profile_of(tmp_path: Path, fields: Mapping[str, Any], mode: int = 0o600) -> Path:  # Any: JSON values
    path = tmp_path / "other.share"
    path.write_text(json.dumps({"shareCredentialsVersion": 2, **fields}))
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    "text, names",
    [
        ("p.share#s.c.t", ("p.share", "s", "c", "t")),
        ("~/a#b/p.share#eu.sales.c.t", ("~/a#b/p.share", "eu.sales", "c", "t")),
        ("p#x#s.c.t", ("p#x", "s", "c", "t")),
    ],
)
def test_addresses_are_split_from_the_right(text: str, names: tuple[str, ...]) -> None:
    address = parse_address(text)

    assert address is not None
    assert names == (address.profile, address.name.share, address.name.schema, address.name.table)


@pytest.mark.parametrize("text", ["./tbl", "#s.c.t", "a#b", "s3://bucket/a#s.c.t", "file:/a#s.c.t", "p.share#s/c.x.t"])
def test_other_names_are_no_addresses(text: str) -> None:
    assert parse_address(text) is None


def test_a_path_that_exists_is_no_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.share#s.c.t").mkdir()

    assert parse_address("p.share#s.c.t") is None
    assert ("p.share#s.c.t", None) == split_profile("p.share#s.c.t")


@pytest.mark.parametrize("name", ["s..t", ".c.t", "s.c.", "s.c.a\x00", "s.c." + "x" * 256, "s.t"])
def test_names_that_no_table_can_have_are_refused(tmp_path: Path, name: str) -> None:
    profile = profile_of(tmp_path, {})

    with pytest.raises(UsageError) as caught:
        parse_address(f"{profile}#{name}")

    assert "share.address" == caught.value.code


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"endpoint": "http://share.test"}, "plain http"),
        ({"endpoint": "https://share.test", "bearerToken": "a\nb"}, "characters"),
        ({"endpoint": "https://share.test", "bearerToken": ""}, "no bearerToken"),
        ({"endpoint": "https://share.test", "expirationTime": "2020-01-01T00:00:00Z"}, "expired"),
        ({"endpoint": "https://share.test", "shareCredentialsVersion": 3}, "neither 1 nor 2"),
        ({"endpoint": "https://share.test", "type": "oauth_jwt_bearer_private_key_jwt"}, "not supported"),
        ({"endpoint": "https://share.test", "type": "oauth_client_credentials"}, "tokenEndpoint"),
    ],
)
def test_profiles_that_cannot_work_are_refused_before_anything_is_sent(
    tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    profile = profile_of(tmp_path, {"bearerToken": "x", **fields})

    with pytest.raises(UsageError, match=message) as caught:
        open_profile(profile, clock=lambda: NOW_MS)

    assert "share.profile" == caught.value.code


def test_a_profile_that_others_can_read_and_that_expires_soon_is_warned_about(tmp_path: Path) -> None:
    profile = profile_of(
        tmp_path,
        {"endpoint": "https://share.test", "bearerToken": "x", "expirationTime": "2027-01-15T09:00:00Z"},
        mode=0o640,
    )
    notes: list[str] = []

    open_profile(profile, clock=lambda: NOW_MS, note=notes.append)

    assert ["expires in 1 hour", "other users of this machine can read the file"] == [
        note.split("the token ")[-1].split(": ")[-1] for note in notes
    ]


def oauth(proxy: Proxy, tmp_path: Path, **answer: Any) -> tuple[Path, list[Asked]]:  # Any: JSON values
    """A profile whose tokens the proxy makes itself, and the requests for them."""
    asked_for: list[Asked] = []

    def plant(asked: Asked, truly: Any) -> Sent:
        if not asked.target.startswith("/oauth"):
            return truly()  # type: ignore[no-any-return]
        asked_for.append(asked)
        return Sent(200, {}, json.dumps({"access_token": TOKEN, "expires_in": 600, **answer}).encode())

    proxy.plant = plant
    origin = proxy.url.removesuffix("/delta-sharing")
    fields = {
        "type": "oauth_client_credentials",
        "endpoint": proxy.url,
        "tokenEndpoint": f"{origin}/oauth/token",
        "clientId": "me:1",
        "clientSecret": "s€cret",
        "scope": "read all",
    }
    return profile_of(tmp_path, fields), asked_for


def test_oauth_tokens_are_fetched_once_and_replaced_before_they_expire(proxy: Proxy, tmp_path: Path) -> None:
    profile, asked_for = oauth(proxy, tmp_path)
    transport = open_profile(profile, clock=lambda: proxy.served.now_ms)

    shares = [list(list_shares(transport)) for _ in range(2)]
    proxy.served.now_ms += 541_000
    list(list_shares(transport))

    assert [["Sales"], ["Sales"]] == [[share.name for share in found] for found in shares]
    assert 2 == len(asked_for)
    assert b"grant_type=client_credentials&scope=read+all" == asked_for[0].body
    expected = base64.b64encode(b"me%3A1:s%E2%82%ACcret").decode()
    assert f"Basic {expected}" == asked_for[0].headers["authorization"]


@pytest.mark.parametrize("lifetime", ["3600", None, 5])
def test_odd_lifetimes_of_tokens_cost_few_requests(proxy: Proxy, tmp_path: Path, lifetime: Any) -> None:
    profile, asked_for = oauth(proxy, tmp_path, expires_in=lifetime)
    transport = open_profile(profile, clock=lambda: proxy.served.now_ms)

    for _ in range(5):
        assert ["Sales"] == [share.name for share in list_shares(transport)]
        proxy.served.now_ms += 400

    assert 1 == len(asked_for)


@pytest.mark.parametrize("more", [{"icebergEndpoint": "https://x.test/iceberg"}, {"type": "bearer_token"}])
def test_newer_fields_of_profiles_are_tolerated(proxy: Proxy, tmp_path: Path, more: dict[str, Any]) -> None:
    profile = profile_of(tmp_path, {"endpoint": proxy.url, "bearerToken": TOKEN, **more})

    assert ["Sales"] == [share.name for share in list_shares(open_profile(profile))]


def test_an_oauth_token_that_is_refused_is_replaced_once(proxy: Proxy, tmp_path: Path) -> None:
    profile, asked_for = oauth(proxy, tmp_path, access_token="wrong")
    transport = open_profile(profile, clock=lambda: proxy.served.now_ms)

    with pytest.raises(AccessRefused):
        list(list_shares(transport))

    assert 2 == len(asked_for)


@pytest.mark.parametrize("status, fault", [(400, RequestRefused), (401, AccessRefused)])
def test_what_a_token_server_says_is_shown_on_one_line_of_limited_length(
    proxy: Proxy, tmp_path: Path, status: int, fault: type[DeltacliError]
) -> None:
    profile, _ = oauth(proxy, tmp_path)
    said = {"error": "invalid_client", "error_description": "The secret\n\x1b[31m has expired" + "!" * 10_000}
    proxy.plant = lambda _asked, _truly: Sent(status, {}, json.dumps(said).encode())

    with pytest.raises(fault, match=r"the token server refused .*: The secret \[31m has expired!") as refused:
        list(list_shares(open_profile(profile, retry=Retry(0), clock=lambda: proxy.served.now_ms)))

    assert "invalid_client" == refused.value.facts["error"]
    assert len(refused.value.message) < 600


@pytest.mark.parametrize("answer", [{"access_token": None}, {"access_token": "a b"}, {"access_token": "x\r\ny: z"}])
def test_answers_of_token_servers_without_a_token_are_refused(
    proxy: Proxy, tmp_path: Path, answer: dict[str, Any]
) -> None:
    profile, _ = oauth(proxy, tmp_path, **answer)

    with pytest.raises(AccessRefused, match="no access_token"):
        list(list_shares(open_profile(profile, retry=Retry(0), clock=lambda: proxy.served.now_ms)))


def test_secrets_are_in_no_text_of_the_client(proxy: Proxy, tmp_path: Path) -> None:
    profile, _ = oauth(proxy, tmp_path)
    transport = open_profile(proxy.profile)
    other = open_profile(profile)

    assert TOKEN not in repr(transport.credentials) + repr(vars(transport)) + repr(other.credentials)
    assert "s€cret" not in repr(other.credentials) + repr(vars(other))
