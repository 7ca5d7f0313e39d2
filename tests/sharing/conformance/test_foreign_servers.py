"""`share test` reports nothing about well-behaved servers of somebody else, and each planted deviation by its rule."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from urllib3.exceptions import ProtocolError

from deltacli.sharing.conformance.run import conformance_rules
from tests.sharing.asgi import Reply
from tests.sharing.conformance.faulty import Call, reported
from tests.sharing.conformance.foreign import ROOTS, SECRETS, Foreign, granted
from tests.sharing.conformance.foreign_deviations import MORE, PLANTED, Planted
from tests.sharing.conformance.test_deviations import SOURCES, replace_one
from tests.sharing.served import Served, shared
from tests.support import corpus

WELL_BEHAVED: Mapping[str, Mapping[str, Any]] = {
    "url only": {},
    "url and dir on S3": {"modes": ("url", "dir")},
    "url and dir on Azure": {"modes": ("url", "dir"), "cloud": "abfss"},
    "dir only on Google": {"modes": ("dir",), "cloud": "gs", "auxiliary": ("gs://acme-old/grid/shallow",)},
    "asynchronous": {"is_asynchronous": True},
}

KNOWN: dict[Any, Any] = {}
"""The answers of the server behind all of them."""


@pytest.fixture(scope="module")
def served() -> Served:
    root = corpus.unpacked() / "tables"
    return Served(tuple(shared(root / path, name) for name, path in SOURCES.items()))


def foreign(served: Served, **offers: Any) -> Foreign:  # Any: what the server offers
    root = corpus.unpacked() / "tables"
    return Foreign(served, known=KNOWN, directories={name: root / path for name, path in SOURCES.items()}, **offers)


@pytest.mark.parametrize("name", WELL_BEHAVED)
def test_nothing_is_reported_about_a_well_behaved_server(served: Served, name: str) -> None:
    server = foreign(served, **WELL_BEHAVED[name])

    suites = server.test_all("data", is_opensharing=True, probes=True)

    assert [] == [(one.rule.id, one.message, one.place) for suite in suites for one in suite.findings]
    assert [] == [suite.name for suite in suites if "the table could not be read" in suite.skipped.values()]


def test_well_behaved_servers_together_show_every_rule(served: Served) -> None:
    checked = set[str]()
    for offers in WELL_BEHAVED.values():
        suites = foreign(served, **offers).test_all("data", is_opensharing=True, probes=True)
        checked |= {rule for suite in suites for rule in suite.checked}

    assert conformance_rules().keys() == checked


@pytest.mark.parametrize(
    "rule, planted",
    [*PLANTED.items(), *((f"share.{rule}", planted) for rule, planted in MORE)],
    ids=[*PLANTED, *(f"{rule}-{number}" for number, (rule, _) in enumerate(MORE))],
)
def test_a_planted_deviation_is_reported_by_its_rule(
    served: Served, rule: str, planted: Planted, tmp_path: Path
) -> None:
    server = foreign(served, **planted.offers)
    planted.prepare(server, tmp_path)
    server.change = planted.change

    found = reported(server.test_all(planted.level, **planted.scope))

    assert {rule, *(f"share.{other}" for other in planted.also)} == found


def test_at_most_four_credentials_of_a_table_are_asked_for_and_no_secret_is_shown(served: Served) -> None:
    server = foreign(served, modes=("url", "dir"), auxiliary=tuple(f"s3://acme-old/{number}" for number in range(5)))
    posted: Counter[str] = Counter()

    def give_all(call: Call, reply: Reply) -> Reply:
        if call.rest != "temporary-table-credentials":
            return reply
        posted[call.table] += 1
        return granted("s3", "s3://acme-lake")

    server.change = give_all
    suites = server.test_all("data", probes=True)
    documents = json.dumps([one.as_json() for suite in suites for one in suite.findings])

    assert dict.fromkeys(SOURCES, 4) == posted
    assert "share.credential-broad" in documents
    assert [] == [secret for secret in SECRETS if secret in documents or secret in repr(suites)]


def test_without_credentials_none_are_asked_for(served: Served) -> None:
    server = foreign(served, modes=("url", "dir"))

    suites = server.test_all("data", asks_credentials=False, probes=True)

    assert ([], []) == (server.grants, server.opened)
    assert "--no-credentials asks for no credentials" == suites[1].skipped["share.credential-answer"]
    assert "share.credential-answer" not in suites[1].checked


def test_the_level_of_the_api_reads_no_store(served: Served) -> None:
    server = foreign(served, modes=("url", "dir"))

    suites = server.test_all("api")

    assert ([], set()) == (server.opened, reported(suites))
    assert "--level api reads no store" == suites[1].skipped["share.dir-unreadable"]
    assert "share.credential-expiry" in suites[1].checked


def test_nothing_outside_the_grant_is_asked_for_without_the_option(served: Served) -> None:
    server = foreign(served, modes=("url", "dir"))

    server.test_all("data")
    inside = list(server.opened)
    server.test_all("data", probes=True)

    assert [server.root(name) for name in inside_names(inside)] == inside
    assert {server.root("part0"), ROOTS["s3"]} <= set(server.opened)


def inside_names(uris: list[str]) -> list[str]:
    """Return the tables that were opened, in the order of the list."""
    return [uri.rpartition("/")[2] for uri in uris]


@pytest.mark.parametrize("odd", [None, -1, 10**30, "x", [], [1], {}, {"a": 1}])
@pytest.mark.parametrize("offers", [WELL_BEHAVED["url and dir on Azure"], WELL_BEHAVED["asynchronous"]])
def test_a_value_of_any_type_fails_no_check(served: Served, offers: Mapping[str, Any], odd: object) -> None:
    places = iter(range(10**9))

    def change(call: Call, reply: Reply) -> Reply:
        is_own = call.rest.startswith(("temporary", "queries")) or "idempotencyKey" in call.body
        is_own = is_own or call.path.endswith("tables") or call.rest in ("", "metadata")
        if reply.status != 200 or not is_own or not reply.body.startswith(b"{"):
            return reply
        found = reply.lines
        replace_one(found, next(places), odd)
        return replace(reply, body=b"".join(json.dumps(line).encode() + b"\n" for line in found))

    server = foreign(served, **offers)
    server.change = change
    for _ in range(4):  # other places each time
        assert "validate.check-crashed" not in reported(server.test_all("data", is_opensharing=True, probes=True))


@pytest.mark.parametrize("credentials", [b"", b"{}", b"[]", b"null", b'{"credentials":{}}', b"{" * 100_000, b"\xff"])
def test_an_answer_that_is_no_credential_is_reported(served: Served, credentials: bytes) -> None:
    server = foreign(served, modes=("url", "dir"))
    server.change = lambda call, reply: (
        replace(reply, body=credentials)
        if call.rest == "temporary-table-credentials" and reply.status == 200
        else reply
    )

    found = reported(server.test_all())

    assert found
    assert found <= {"share.credential-answer", *(f"share.credential-{name}" for name in ABOUT_ONE)}


def test_a_query_without_an_answer_ends_its_part_only(served: Served) -> None:
    def change(call: Call, reply: Reply) -> Reply:
        if call.rest == "query" and call.table == "part":
            raise ProtocolError("the peer closed the connection")
        return reply

    server = foreign(served, modes=("url", "dir"))
    server.change = change

    suites = server.test_all()
    (part,) = (suite for suite in suites if suite.name.endswith(".part"))

    assert {"share.no-answer"} == reported(suites)
    assert {"share.access-modes-differ", "share.credential-expiry", "share.dir-differs"} <= part.checked


ABOUT_ONE = ("one-cloud", "location", "expiry")
