"""`share test` reports nothing about well-behaved servers of somebody else, and each planted deviation by its rule."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from deltacli.sharing.conformance.run import conformance_rules
from tests.sharing.conformance.faulty import reported
from tests.sharing.conformance.foreign import SECRETS, Foreign
from tests.sharing.conformance.test_deviations import SOURCES
from tests.sharing.served import Served, shared
from tests.support import corpus

WELL_BEHAVED: Mapping[str, Mapping[str, Any]] = {
    "url only": {},
    "url and dir on S3": {"modes": ("url", "dir")},
    "url and dir on Azure": {"modes": ("url", "dir"), "cloud": "abfss"},
    "dir only on Google": {"modes": ("dir",), "cloud": "gs", "auxiliary": ("gs://acme-old/grid/shallow",)},
    "asynchronous": {"is_asynchronous": True},
}


@pytest.fixture(scope="module")
def served() -> Served:
    root = corpus.unpacked() / "tables"
    return Served(tuple(shared(root / path, name) for name, path in SOURCES.items()))


def foreign(served: Served, **offers: Any) -> Foreign:  # Any: what the server offers
    root = corpus.unpacked() / "tables"
    return Foreign(served, directories={name: root / path for name, path in SOURCES.items()}, **offers)


@pytest.mark.parametrize("name", WELL_BEHAVED)
def test_nothing_is_reported_about_a_well_behaved_server(served: Served, name: str) -> None:
    server = foreign(served, **WELL_BEHAVED[name])

    suites = server.test_all("data", is_opensharing=True, probes=True)

    assert [] == [(one.rule.id, one.message, one.place) for suite in suites for one in suite.findings]


def test_well_behaved_servers_together_show_every_rule(served: Served) -> None:
    checked = set[str]()
    for offers in WELL_BEHAVED.values():
        suites = foreign(served, **offers).test_all("data", is_opensharing=True, probes=True)
        checked |= {rule for suite in suites for rule in suite.checked}

    assert conformance_rules().keys() == checked
