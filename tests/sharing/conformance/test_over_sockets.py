"""A run over real connections: waits, answers that break off, redirects, and where the token is sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from deltacli.cli.app import run
from deltacli.sharing.conformance.lists import Scope
from deltacli.sharing.conformance.run import ConformanceRun
from deltacli.sharing.conformance.wire import Budget, Wire
from tests.sharing.client.serving import Asked, Sent, proxied
from tests.sharing.client.test_profiles import oauth
from tests.sharing.conformance.faulty import reported
from tests.sharing.served import NOW_MS, TOKEN, shared
from tests.support.rows import parquet_bytes, schema_of, table_of

ROWS = pa.table({"id": pa.array([1, 2, 3])})


def test_the_token_goes_to_the_endpoint_only_and_waits_are_kept(tmp_path: Path) -> None:
    table = table_of({"a.parquet": parquet_bytes(ROWS)}, schema_of(ROWS)).file("a.parquet", parquet_bytes(ROWS))
    waits: list[float] = []

    def plant(asked: Asked, truly: Callable[[], Sent]) -> Sent:
        if len(proxy.asked) == 1:
            return Sent(429, {"Retry-After": "7"}, b"")
        if asked.method == "HEAD":
            return Sent(307, {"Location": "http://127.0.0.1:1/stolen"}, b"")
        if "/changes" in asked.target:
            return replace(truly(), cut_at=5)
        return truly()

    with proxied(tmp_path, shared(table.write(tmp_path / "t"))) as proxy:
        proxy.plant = plant
        wire = Wire(proxy.url, lambda: f"Bearer {TOKEN}", Budget(1_000), sleep=waits.append, clock=lambda: 0.0)
        suites = list(ConformanceRun(wire, Scope(), NOW_MS, lambda _: True).suites())
        wire.close()

    headers = {name.lower() for asked in proxy.asked if asked.is_for_file for name in asked.headers}
    assert ([7.0], len(proxy.asked)) == (waits, wire.sent)
    assert {"share.no-answer", "share.redirect"} == reported(suites)
    assert "share.url-range" in suites[1].checked
    assert "authorization" not in headers
    assert "range" in headers


def test_a_profile_of_oauth_is_used_with_tokens_of_its_token_server(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """
    The server accepts the tokens only; the secret of the client is sent to the token server only.
    """
    table = table_of({"a.parquet": parquet_bytes(ROWS)}, schema_of(ROWS))

    with proxied(tmp_path, shared(table.write(tmp_path / "t"))) as proxy:
        profile, asked_for = oauth(proxy, tmp_path)
        code = run(["share", "test", str(profile), "--now", "2027-01-15T08:00:00Z", "--json", "--max-requests", "9"])

    out, err = capfdbinary.readouterr()
    document = json.loads(out)
    basic = [asked for asked in proxy.asked if asked.headers.get("authorization", "").startswith("Basic ")]
    assert (5, 9, 0) == (code, document["requests"], document["summary"]["errors"])
    assert [1, asked_for] == [len(asked_for), basic]
    assert not any(secret in out + err for secret in (b"cret", TOKEN.encode()))


@pytest.mark.parametrize("most", [1, 30])
def test_no_more_requests_are_sent_than_allowed(tmp_path: Path, most: int) -> None:
    table = table_of({"a.parquet": parquet_bytes(ROWS)}, schema_of(ROWS))

    with proxied(tmp_path, shared(table.write(tmp_path / "t"))) as proxy:
        wire = Wire(proxy.url, lambda: f"Bearer {TOKEN}", Budget(most), sleep=lambda _: None, clock=lambda: 0.0)
        run = ConformanceRun(wire, Scope(), NOW_MS, lambda _: True)
        list(run.suites())
        wire.close()

    assert (most, [f"the limit of {most} requests is reached"]) == (len(proxy.asked), run.omissions)
