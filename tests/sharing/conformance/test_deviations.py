"""`share test` reports nothing about our server, and each deviation of a faulty one by the rule for it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from deltacli.sharing.conformance.run import conformance_rules
from tests.sharing.asgi import Reply
from tests.sharing.conformance.deviations import DEVIATIONS
from tests.sharing.conformance.faulty import Call, Proxy, reported
from tests.sharing.conformance.foreign_deviations import PLANTED
from tests.sharing.served import Served, shared
from tests.support import corpus

SOURCES = {
    "part": "dat/basic_partitioned",
    "feed": "kernel-rs/cdf-table-partitioned",
    "dv": "dat/deletion_vectors",
    "cm": "dat/column_mapping",
}


@pytest.fixture(scope="module")
def proxy() -> Proxy:
    """A server of a partitioned table, one with a change feed, one with deletion vectors, one with mapped columns."""
    root = corpus.unpacked() / "tables"
    return Proxy(Served(tuple(shared(root / path, name) for name, path in SOURCES.items())))


def test_nothing_is_reported_about_our_server_and_every_older_rule_is_checked(proxy: Proxy) -> None:
    proxy.change = None

    suites = proxy.test("data")

    assert set() == reported(suites)
    assert DEVIATIONS.keys() <= {rule for suite in suites for rule in suite.checked}


def test_every_rule_has_a_deviation() -> None:
    assert DEVIATIONS.keys().isdisjoint(PLANTED)
    assert DEVIATIONS.keys() | PLANTED.keys() == conformance_rules().keys()


@pytest.mark.parametrize("rule", DEVIATIONS)
def test_a_deviation_is_reported_by_its_rule(proxy: Proxy, rule: str) -> None:
    deviation = DEVIATIONS[rule]
    proxy.change = deviation.change()

    found = reported(proxy.test(deviation.level))

    assert {rule, *(f"share.{other}" for other in deviation.also)} == found


@pytest.mark.parametrize("odd", [None, -1, 10**30, "x", [], [1], {}, {"a": 1}])
def test_a_value_of_any_type_in_any_line_fails_no_check(proxy: Proxy, odd: object) -> None:
    places = iter(range(10**9))

    def change(_: Call, reply: Reply) -> Reply:
        found = [json.loads(line) for line in reply.body.split(b"\n") if line] if b"PAR1" not in reply.body else []
        if reply.status != 200 or not found:
            return reply
        replace_one(found, next(places), odd)
        return replace(reply, body=b"".join(json.dumps(line).encode() + b"\n" for line in found))

    proxy.change = change

    assert "validate.check-crashed" not in reported(proxy.test("data"))


def replace_one(content: Any, place: int, odd: object) -> None:  # Any: a JSON value
    """Replace one value of a tree: a different one for each place."""
    keys = sorted(content) if isinstance(content, dict) else list(range(len(content)))
    if not keys:
        return
    key = keys[place % len(keys)]
    inner = content[key]
    if isinstance(inner, dict | list) and inner and place % 5:
        replace_one(inner, place // len(keys), odd)
    else:
        content[key] = odd
