"""Counts of calls to object stores, and the estimate of their price."""

from __future__ import annotations

import pytest

from deltacli.cli.running.call_tallies import describe_calls, describe_calls_as_json, merge_tallies
from deltacli.storage import open_storage
from deltacli.storage.retry import Retry
from deltacli.storage.tally import GCS_PRICES, S3_PRICES, Call, HostTally
from tests.docs.test_schemas import line_faults
from tests.storage.stores import WRITABLE

DATA = b"x" * 1_000


@pytest.mark.parametrize("name", ["s3", "gcs", "azure"])
def test_each_request_is_counted_by_kind_with_its_bytes(name: str, request: pytest.FixtureRequest) -> None:
    """
    The first put is preceded by the probe: two puts and a deletion.
    """
    retry = Retry()
    storage = open_storage(WRITABLE[name](request).storage.uri, retry=retry)
    storage.put("a", DATA)
    before = {host.host: dict(host.calls) for host in retry.tally.hosts}
    (host,) = retry.tally.hosts
    read, written = host.bytes_read, host.bytes_written

    storage.put("b", DATA)
    storage.read("b")
    storage.stat("b")
    list(storage.list_from(""))
    list(storage.delete_many(["a", "b"]))

    calls = {call: host.calls[call] - before[host.host].get(call, 0) for call in Call}
    assert {Call.LIST: 1, Call.GET: 1, Call.HEAD: 1, Call.PUT: 1, Call.DELETE: 1} == calls
    assert 1_000 <= host.bytes_read - read < 5_000
    assert 1_000 <= host.bytes_written - written < 3_000
    assert host.price_usd is None  # an endpoint on loopback is not one of the cloud


def test_a_price_is_an_estimate_that_names_its_source() -> None:
    host = HostTally("s3.amazonaws.com", S3_PRICES)
    host.calls |= {Call.LIST: 1_024, Call.GET: 31, Call.DELETE: 7}
    host.bytes_read = 3 << 20

    assert (
        "calls to s3.amazonaws.com: 1,024 list, 31 get, 7 delete; 3.0 MiB read, 0 B written; estimated price $0.005132 "
        "(public list price, S3 Standard in us-east-1, 2025-06)"
    ) == describe_calls(host)
    assert 0.005132 == describe_calls_as_json(host)["estimatedPriceUsd"]
    assert [] == line_faults(describe_calls_as_json(host))
    assert [] == line_faults(describe_calls_as_json(HostTally("minio:9000", None)))


def test_several_policies_of_a_run_are_one_report() -> None:
    hosts = [HostTally("b", GCS_PRICES), HostTally("a", None), HostTally("b", GCS_PRICES)]
    for host in hosts:
        host.count_sent(Call.GET, 1)
        host.count_received(2)

    found = merge_tallies(hosts)

    assert [("a", 1, 2), ("b", 2, 4)] == [(host.host, host.calls[Call.GET], host.bytes_read) for host in found]
