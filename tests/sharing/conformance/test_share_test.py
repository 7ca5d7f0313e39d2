"""`deltacli share test`: what the user types, the formats, baselines, limits and exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from jsonschema import Draft202012Validator

from deltacli.cli.app import run
from deltacli.core.errors import UsageError
from deltacli.core.machine import fixed_clock
from deltacli.sharing.client import connections
from deltacli.sharing.conformance.run import read_server_target, split_names
from tests.cli.support import ROOT
from tests.sharing.conformance.deviations import DEVIATIONS
from tests.sharing.conformance.faulty import Proxy
from tests.sharing.conformance.foreign import AWS, Foreign
from tests.sharing.served import NOW_MS, PREFIX, TOKEN, Served, shared
from tests.support import corpus
from tests.support.builder import TableBuilder
from tests.support.s3 import S3Server

NOW = "2027-01-15T08:00:00Z"
NOTHING = (None, None, None)


@pytest.fixture
def proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Proxy:
    """A server of a table of a few commits, which every run is connected to."""
    TableBuilder().commits(4).write(tmp_path / "t")
    proxy = Proxy(Served((shared(tmp_path / "t", "feed"),)))
    monkeypatch.setattr(connections, "make_pools", lambda *_, **__: proxy)
    monkeypatch.chdir(tmp_path)
    return proxy


@pytest.fixture
def profile(tmp_path: Path) -> str:
    """The profile of a server on loopback."""
    path = tmp_path / "a.share"
    content = {"shareCredentialsVersion": 1, "endpoint": f"http://127.0.0.1{PREFIX}/", "bearerToken": TOKEN}
    path.write_text(json.dumps(content))
    path.chmod(0o600)
    return str(path)


@dataclass(frozen=True)
class Done:
    """How a run ended."""

    code: int
    out: str
    err: str


Test = Callable[..., Done]


@pytest.fixture
def share_test(proxy: Proxy, profile: str, capfdbinary: pytest.CaptureFixture[bytes]) -> Test:
    """Runs the command in this process."""

    def test(*options: str, names: str = "") -> Done:
        code = run(["share", "test", f"{profile}{names}", "--level", "api", "--now", NOW, *options])
        out, err = capfdbinary.readouterr()
        return Done(code, out.decode(), err.decode())

    assert proxy.change is None
    return test


@pytest.mark.parametrize(
    "address, expected",
    [
        ("a.share", ("a.share", NOTHING)),
        ("a.share#sales", ("a.share", ("sales", None, None))),
        ("a.share#sales.eu", ("a.share", ("sales", "eu", None))),
        ("a.share#x.sales.eu.orders", ("a.share", ("x.sales", "eu", "orders"))),
        ("https://h/p#sales", ("https://h/p", ("sales", None, None))),
    ],
)
def test_an_address_names_a_server_and_what_is_tested(address: str, expected: object) -> None:
    assert expected == split_names(address)


@pytest.mark.parametrize("address", ["a.share#", "#sales", "a.share#a..b"])
def test_an_address_without_names_is_refused(address: str) -> None:
    with pytest.raises(UsageError):
        split_names(address)


def test_the_token_is_sent_to_the_server_of_the_profile_only(profile: str) -> None:
    clock = fixed_clock(NOW_MS)

    same = read_server_target(f"http://127.0.0.1:80{PREFIX}", profile, clock)

    assert (f"http://127.0.0.1:80{PREFIX}", f"Bearer {TOKEN}") == (same.endpoint, same.authorize())
    for url in ("http://127.0.0.1:81/x", "https://127.0.0.1/x", "http://localhost/x"):
        with pytest.raises(UsageError, match="another server"):
            read_server_target(url, profile, clock)


def test_a_sound_server_passes_and_what_it_cannot_show_is_skipped(proxy: Proxy, share_test: Test) -> None:
    document = json.loads(share_test("--json").out)
    junit = share_test("--format", "junit")

    server, table = document["suites"]
    assert ("deltacli.share-test", True, 0) == (document["kind"], document["complete"], document["summary"]["errors"])
    assert proxy.sent == 2 * document["requests"]
    assert ("Sales.Main.feed", {}) == (table["name"], server["skipped"])
    assert "the change data feed of the table is not enabled" == table["skipped"]["share.changes-range"]
    assert not table["skipped"].keys() & set(table["checked"])
    suites = ElementTree.fromstring(junit.out).findall("testsuite")
    assert [len(table["skipped"])] == [int(suite.get("skipped", "")) for suite in suites[1:]]
    assert 0 == junit.code
    text = " ".join(share_test().out.split())
    assert (True, False) == ("the server and 1 table" in text, "2 tables" in text)
    assert (True, False) == ("share.changes-range" in text, "names them" in text)


def test_a_shared_history_that_begins_later_is_no_deviation(proxy: Proxy, share_test: Test, tmp_path: Path) -> None:
    proxy.served = Served((shared(tmp_path / "t", "feed", start_version=2),))

    document = json.loads(share_test("--json").out)

    assert [] == [finding["rule"] for suite in document["suites"] for finding in suite["findings"]]


def test_a_deviation_is_a_finding_until_a_baseline_accepts_it(proxy: Proxy, share_test: Test) -> None:
    proxy.change = DEVIATIONS["share.version-body"].change()

    found = share_test("--fail-on", "warning")
    share_test("--write-baseline", "known.json")
    lines = share_test("--fail-on", "warning", "--format", "ndjson", "--baseline", "known.json")
    sarif = json.loads(share_test("--format", "sarif").out)

    assert 1 == found.code
    assert "Sales.Main.feed/version: warning: the answer has a body [share.version-body]" in found.out
    assert "    spec      Query Table Version (200: Body: empty)" in found.out
    kinds = [json.loads(line)["type"] for line in lines.out.splitlines()]
    assert (0, ["suite", "suite", "end"]) == (lines.code, kinds)
    (result,) = sarif["runs"][0]["results"]
    assert ("share.version-body", "warning") == (result["ruleId"], result["level"])


def test_documents_and_lines_follow_their_schemas(proxy: Proxy, share_test: Test) -> None:
    proxy.change = DEVIATIONS["share.version-body"].change()

    document = json.loads(share_test("--json").out)
    lines = [json.loads(line) for line in share_test("--format", "ndjson").out.splitlines()]
    rules = json.loads(share_test("--list-rules", "--json", "--pause", "unused").out)

    assert ["finding", "suite", "end"] == [line["type"] for line in lines[1:]]
    assert [] == faults(document, "deltacli.share-test") + faults(rules, "deltacli.rules")
    assert [] == [fault for line in lines for fault in faults(line, line["type"])]


def faults(document: Any, name: str) -> list[str]:  # Any: JSON values
    """What a document has that its schema does not allow."""
    schema = json.loads((ROOT / "docs" / "schemas" / f"{name}.json").read_text(encoding="utf-8"))
    return [
        f"{name} {fault.json_path}: {fault.message}" for fault in Draft202012Validator(schema).iter_errors(document)
    ]


def test_a_limit_that_ends_the_test_early_is_no_success(proxy: Proxy, share_test: Test) -> None:
    done = share_test("--max-requests", "20", "--json")

    document = json.loads(done.out)
    assert (5, 20, False) == (done.code, proxy.sent, document["complete"])
    assert ["the limit of 20 requests is reached"] == document["notChecked"]


def test_a_table_is_read_in_its_directory_with_the_vended_credentials_only(
    share_test: Test, monkeypatch: pytest.MonkeyPatch, s3: S3Server
) -> None:
    bucket, table = s3.make_bucket(), corpus.unpacked() / "tables" / "dat" / "basic_partitioned"
    for path in table.rglob("*"):
        if path.is_file():
            s3.put(bucket, f"grid/part/{path.relative_to(table)}", path.read_bytes())
    server = Foreign(Served((shared(table, "part"),)), modes=("url", "dir"), base=f"s3://{bucket}/grid")
    monkeypatch.setattr(connections, "make_pools", lambda *_, **__: server)
    options = ("--storage-option", f"endpoint_url={s3.url}", "--select", "share.dir-*", "--json", "--level", "data")
    seen: list[str] = []

    def note(of: S3Server, environ: dict[str, Any], start: Callable[..., Any]) -> Any:
        seen.append(environ["HTTP_AUTHORIZATION"])
        return of.answer(environ, start)

    s3.fail("GET", ".json", note)

    document = json.loads(share_test(*options).out)
    inside = {query.get("prefix", [""])[0] for _, _, query in s3.requests if "prefix" in query}
    probed = json.loads(share_test(*options, "--probe-scope").out)

    assert [] == document["suites"][1]["findings"]
    assert {"share.dir-unreadable", "share.dir-differs", "share.dir-paths-outside"} <= {
        *document["suites"][1]["checked"]
    }
    assert inside
    assert [] == [prefix for prefix in inside if not prefix.startswith("grid/part/")]
    assert [True] == [f"Credential={AWS['accessKeyId']}/" in one for one in seen]
    assert ["share.dir-scope"] * 2 == [one["rule"] for one in probed["suites"][1]["findings"]]  # moto limits no session


def test_a_store_that_is_out_of_reach_is_no_finding_about_the_server(
    share_test: Test, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = corpus.unpacked() / "tables" / "dat" / "basic_partitioned"
    server = Foreign(Served((shared(table, "part"),)), modes=("url", "dir"), base="s3://lake/grid")
    monkeypatch.setattr(connections, "make_pools", lambda *_, **__: server)
    options = ("--storage-option", "endpoint_url=http://127.0.0.1:9", "--select", "share.dir-*", "--level", "data")

    suite = json.loads(share_test(*options, "--probe-scope", "--json").out)["suites"][1]

    assert [] == suite["findings"]
    for rule in ("unreadable", "differs", "paths-outside", "scope"):
        assert "unreachable from here" in suite["skipped"][f"share.dir-{rule}"]


def test_the_profile_of_opensharing_adds_its_rules(share_test: Test) -> None:
    plain, more = (json.loads(share_test("--json", *options).out) for options in ((), ("--profile-of", "opensharing")))

    known = [{*suite["checked"], *suite["skipped"]} for document in (plain, more) for suite in document["suites"]]
    assert {"share.asset-route"} == known[2] - known[0]
    assert {"share.get-table", "share.head-table"} == known[3] - known[1]


def test_names_that_the_server_does_not_have_are_an_error(proxy: Proxy, share_test: Test) -> None:
    done = share_test(names="#nothing")

    assert (3, "error: the server shares no table nothing with you") == (done.code, done.err.splitlines()[0])
    assert proxy.sent < 100
