"""`share test` reports nothing about our server, and each deviation of a faulty one by the rule for it."""

from __future__ import annotations

import pytest

from deltacli.sharing.conformance.catalogue import conformance_rules, server_rules, table_rules
from tests.sharing.conformance.deviations import DEVIATIONS
from tests.sharing.conformance.faulty import Proxy, reported
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
    if not corpus.tables():
        pytest.skip(corpus.absence())
    root = corpus.unpacked() / "tables"
    return Proxy(Served(tuple(shared(root / path, name) for name, path in SOURCES.items())))


def test_nothing_is_reported_about_our_server_and_every_rule_is_checked(proxy: Proxy) -> None:
    proxy.change = None

    suites = proxy.test("data")

    assert set() == reported(suites)
    assert conformance_rules().keys() == {rule for suite in suites for rule in suite.checked}


def test_every_rule_has_a_deviation() -> None:
    assert DEVIATIONS.keys() == conformance_rules().keys()
    assert {rule.id for rule in (*server_rules(), *table_rules())} == conformance_rules().keys()


@pytest.mark.parametrize("rule", DEVIATIONS)
def test_a_deviation_is_reported_by_its_rule(proxy: Proxy, rule: str) -> None:
    deviation = DEVIATIONS[rule]
    proxy.change = deviation.change()

    found = reported(proxy.test(deviation.level))

    assert {rule, *(f"share.{other}" for other in deviation.also)} == found
