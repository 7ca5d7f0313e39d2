"""A server that means harm: nothing is written, no token leaves, and every limit is named."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltacli.api.table import Table
from deltacli.core.errors import DataUnreadable, DeltacliError, UsageError
from deltacli.sharing.client.faults import (
    AnswerBroken,
    AnswerInvalid,
    AnswerLimits,
    Origin,
    Reach,
    ServerUnavailable,
    UrlRefused,
    reach_of,
    require_endpoint,
    require_file_url,
)
from deltacli.sharing.client.shared_files import data_file_name
from deltacli.sharing.client.table_requests import list_shares
from deltacli.sharing.client.transport import Transport, open_profile
from deltacli.storage.retry import Retry
from tests.sharing.client.serving import Asked, Proxy, Sent, proxied
from tests.sharing.served import TOKEN, shared
from tests.support.rows import parquet_bytes, schema_of, table_of

ROWS = pa.table({"id": pa.array([1, 2])})
Truly = Callable[[], Sent]


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    """A table of one file."""
    table = table_of({"part.parquet": parquet_bytes(ROWS)}, schema_of(ROWS))
    with proxied(tmp_path, shared(table.write(tmp_path / "t"))) as proxy:
        yield proxy


def read(proxy: Proxy, **options: Any) -> list[int]:  # Any: options of the store
    rows: list[int] = Table(proxy.store(**options)).snapshot().scan().to_arrow().column("id").to_pylist()
    return rows


def with_file(**fields: Any) -> Callable[[Asked, Truly], Sent]:  # Any: JSON values
    """Plant other fields of the file."""

    def plant(asked: Asked, truly: Truly) -> Sent:
        sent = truly()
        if not asked.target.endswith("/query"):
            return sent
        lines = sent.lines
        lines[2]["file"] |= fields
        return sent.with_lines(lines)

    return plant


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.2:1/delta-sharing/x",
        "https://evil.test/x",
        "file:///etc/passwd",
        "//evil.test/x",
        "http://127.0.0.1:1@evil.test/",
    ],
)
def test_redirects_to_other_origins_are_refused(proxy: Proxy, target: str) -> None:
    proxy.plant = lambda _asked, _truly: Sent(307, {"Location": target}, b"")

    with pytest.raises(AnswerInvalid, match="another origin"):
        read(proxy)

    assert 1 == len(proxy.asked)


def test_redirects_without_end_are_refused(proxy: Proxy) -> None:
    proxy.plant = lambda asked, _truly: Sent(302, {"Location": asked.target}, b"")

    with pytest.raises(AnswerInvalid, match="too many redirects"):
        read(proxy)


def test_a_file_that_redirects_is_refused(proxy: Proxy) -> None:
    def plant(asked: Asked, truly: Truly) -> Sent:
        return Sent(302, {"Location": asked.target}, b"") if asked.is_for_file else truly()

    proxy.plant = plant

    with pytest.raises(AnswerInvalid, match="URL of a file redirects"):
        read(proxy)


def test_files_are_asked_for_without_the_token(proxy: Proxy) -> None:
    assert [1, 2] == read(proxy)

    files = [asked for asked in proxy.asked if asked.is_for_file]
    assert files
    assert not any(TOKEN in str(asked.headers) for asked in files)
    assert all(f"Bearer {TOKEN}" == asked.headers["authorization"] for asked in proxy.asked if not asked.is_for_file)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://127.0.0.1/x",
        "s3://bucket/x",
        "/etc/passwd",
        "http://user:password@127.0.0.1/x",
        "http://169.254.169.254/latest/meta-data/",
        "http://10.0.0.1/x",
        "http://evil.test/x",
        "https://127.0.0.1\r\nHost: evil/x",
        "http://[::1",
        "http://127.0.0.1:999999/x",
    ],
)
def test_urls_that_are_no_web_addresses_of_the_right_kind_are_refused(proxy: Proxy, url: str) -> None:
    proxy.plant = with_file(url=url)

    with pytest.raises(UrlRefused) as caught:
        read(proxy)

    assert "password" not in str(caught.value) + str(caught.value.facts)


@pytest.mark.parametrize(
    "address, reach",
    [
        ("127.0.0.1", Reach.LOOPBACK),
        ("::1", Reach.LOOPBACK),
        ("::ffff:127.0.0.1", Reach.LOOPBACK),
        ("64:ff9b::7f00:1", Reach.LOOPBACK),
        ("2002:7f00:0001::", Reach.LOOPBACK),
        ("169.254.169.254", Reach.LINK_LOCAL),
        ("fe80::1%eth0", Reach.LINK_LOCAL),
        ("10.1.2.3", Reach.PRIVATE),
        ("100.64.0.1", Reach.PRIVATE),
        ("192.168.0.1", Reach.PRIVATE),
        ("fd00::1", Reach.PRIVATE),
        ("0.0.0.0", Reach.RESERVED),
        ("224.0.0.1", Reach.RESERVED),
        ("8.8.8.8", Reach.PUBLIC),
        ("2001:4860:4860::8888", Reach.PUBLIC),
    ],
)
def test_ranges_of_addresses(address: str, reach: Reach) -> None:
    assert reach == reach_of(address)


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.7", "169.254.169.254", "::1", "::ffff:10.0.0.7", "0.0.0.0"])
def test_names_that_resolve_into_networks_of_ours_are_refused_before_anything_is_sent(address: str) -> None:
    """
    The endpoint is public; the name of the file's store has a private address.
    """
    endpoint = Origin("https", "share.test", 443)
    transport = Transport("https://share.test", endpoint, retry=Retry(0), lookup=lambda _host, _port: [address])

    with pytest.raises(UrlRefused, match="address") as caught:
        transport.fetch("https://files.test/secret-path?sig=secret", {}, lambda reply: reply.status)

    assert {"host": "files.test", "address": address} == caught.value.facts
    assert "secret" not in str(caught.value)


def test_a_name_with_a_public_and_a_private_address_is_refused() -> None:
    transport = Transport(
        "https://share.test",
        Origin("https", "share.test", 443),
        retry=Retry(0),
        lookup=lambda _host, _port: ["8.8.8.8", "10.0.0.1"],
    )

    with pytest.raises(UrlRefused):
        transport.fetch("https://files.test/x", {}, lambda reply: reply.status)


def test_loopback_names_are_not_believed_where_they_resolve_elsewhere(tmp_path: Path) -> None:
    profile = tmp_path / "p.share"
    profile.write_text(
        json.dumps({"shareCredentialsVersion": 1, "endpoint": "http://localhost:1", "bearerToken": "secret-token"})
    )
    transport = open_profile(profile, retry=Retry(0))
    transport._lookup = lambda _host, _port: ["8.8.8.8"]

    with pytest.raises(ServerUnavailable, match="not on loopback"):
        list(list_shares(transport))


@pytest.mark.parametrize("url", ["http://files.test/x", "http://127.0.0.1/x", "https://u@files.test/", "file:///x"])
def test_file_urls_of_a_public_endpoint_are_https(url: str) -> None:
    with pytest.raises(UrlRefused):
        require_file_url(url, Origin("https", "share.test", 443))


@pytest.mark.parametrize("endpoint", ["http://share.test", "ftp://share.test", "https://u:p@share.test", None, "x", 7])
def test_endpoints_are_https_or_on_loopback(endpoint: object) -> None:
    with pytest.raises(UsageError):
        require_endpoint(endpoint)


def test_a_line_without_end_stops_at_the_limit(proxy: Proxy) -> None:
    def plant(asked: Asked, truly: Truly) -> Sent:
        sent = truly()
        return replace(sent, body=sent.body + b" " * 300_000) if asked.target.endswith("/query") else sent

    proxy.plant = plant

    with pytest.raises(AnswerInvalid, match="limit of 200,000 bytes"):
        read(proxy, limits=AnswerLimits(line_bytes=200_000))


def test_limits_of_answers_documents_and_files_are_named(proxy: Proxy) -> None:
    with pytest.raises(AnswerInvalid, match="the list of files exceeds the limit of 500 bytes"):
        read(proxy, limits=AnswerLimits(answer_bytes=500))
    with pytest.raises(AnswerInvalid, match="a document of the sharing server exceeds the limit of 5 bytes"):
        list(list_shares(proxy.store(limits=AnswerLimits(document_bytes=5)).requests.transport))
    with pytest.raises(AnswerInvalid, match="limit of 0 files"):
        read(proxy, limits=AnswerLimits(files=0))


def test_compressed_answers_are_refused(proxy: Proxy) -> None:
    proxy.plant = lambda _asked, truly: replace(truly(), headers={"Content-Encoding": "gzip"})

    with pytest.raises(AnswerInvalid, match="compressed"):
        read(proxy)


def test_an_answer_that_hardly_moves_is_ended(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Each look at the clock is a minute later.
    """
    transport = proxy.store().requests.transport
    minutes = iter(range(0, 10**6, 61))
    monkeypatch.setattr(transport, "_now", lambda: float(next(minutes)))

    with pytest.raises(AnswerBroken, match="hardly moves"):
        list(list_shares(transport))


def test_json_nested_without_end_is_an_error(proxy: Proxy) -> None:
    proxy.plant = lambda _asked, truly: replace(truly(), body=b'{"protocol":' + b"[" * 100_000 + b"\n")

    with pytest.raises(AnswerInvalid, match="not JSON"):
        read(proxy)


@pytest.mark.parametrize(
    "file_id", ["../../etc/passwd", "/etc/passwd", "a/b", "..", "\x00", "é" * 5000, "CON", ".hidden", "_delta_log"]
)
def test_ids_never_become_paths(proxy: Proxy, tmp_path: Path, file_id: str) -> None:
    before = sorted(os.listdir(tmp_path))
    proxy.plant = with_file(id=file_id)

    assert [1, 2] == read(proxy)
    assert "/" not in data_file_name(file_id)
    assert data_file_name(file_id)[0].isalnum()
    assert before == sorted(os.listdir(tmp_path))


def test_texts_of_the_server_reach_no_terminal_as_commands(proxy: Proxy) -> None:
    body = json.dumps({"errorCode": "\x1b]0;x\x07", "message": "a\r\nb\x1b[2J" + "c" * 5_000}).encode()
    proxy.plant = lambda _asked, _truly: Sent(400, {}, body)

    with pytest.raises(DeltacliError) as caught:
        read(proxy)

    shown = str(caught.value) + str(caught.value.facts)
    assert "\x1b" not in shown
    assert len(shown) < 1_000


@pytest.mark.parametrize(
    "values, options, reason",
    [
        pytest.param(
            ["s" * 150_000_000], {"use_dictionary": False}, "a page unpacks to 1500000", marks=pytest.mark.long
        ),
        (["s" * 1_000_000] * 30_000, {"use_dictionary": True}, "can each have a value of 1000000 bytes"),
    ],
)
def test_parquet_that_unpacks_to_more_than_memory_is_refused(
    tmp_path: Path, values: list[str], options: dict[str, Any], reason: str
) -> None:
    """
    A file of some kilobytes with one page of 150 MB, and one with a value of a megabyte in each of 30,000 rows.
    """
    column: Any = pa.array(values[:1])
    if len(values) > 1:
        column = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), len(values)), column)
    rows = pa.table({"text": column})
    data = parquet_bytes(rows, compression="zstd", write_statistics=False, store_schema=False, **options)
    schema = schema_of(pa.table({"text": pa.array([], pa.string())}))
    table = shared(table_of({"part.parquet": data}, schema).write(tmp_path / "t"))
    with proxied(tmp_path, table) as proxy, pytest.raises(DataUnreadable) as caught:
        Table(proxy.store()).snapshot().scan().to_arrow()

    assert len(data) < 200_000
    assert "share.limit" == caught.value.code
    assert reason in caught.value.facts["reason"]
