"""`deltacli share pull` on the command line: documents, files of rows, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.cli.support import ROOT
from tests.sharing.client import test_reading
from tests.sharing.client.serving import Proxy, proxied
from tests.sharing.client.test_reading import Run
from tests.sharing.pulling.origin import Origin, rows_of
from tests.sharing.served import shared

command = test_reading.command  # the fixture
SCHEMAS = ROOT / "docs" / "schemas"


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    origin = Origin(tmp_path / "origin").append(range(10)).append(range(10, 15))
    with proxied(tmp_path, shared(origin.path)) as proxy:
        yield proxy


def _faults(text: str, schema: str) -> list[str]:
    found: Any = json.loads((SCHEMAS / f"{schema}.json").read_text())  # Any: JSON values
    return [fault.message for fault in Draft202012Validator(found).iter_errors(json.loads(text))]


def test_results_match_their_schemas_and_the_rows_are_those_of_the_table(
    proxy: Proxy,
    tmp_path: Path,
    command: Run,
) -> None:
    address, target = proxy.address(), tmp_path / "local"
    of_rows = ["--where", "a >= 12", "--columns", "a"]

    for to, options in ((target, []), (tmp_path / "a.csv", of_rows), (tmp_path / "a.parquet", of_rows)):
        for more in (["--dry-run"], []):
            done = command("share", "pull", address, "--to", str(to), *options, *more, "--json")
            assert (0, "") == (done.code, done.err)
            assert [] == _faults(done.out, "deltacli.share-pull")
    existing = ("share", "pull", address, "--to", str(tmp_path / "a.csv"), *of_rows)
    assert [4, 0] == [command(*existing, *more).code for more in ([], ["--force"])]
    again = command("share", "pull", address, "--to", str(target), "--format", "ndjson", "--verify", "data")

    assert (0, []) == (again.code, _faults(again.out.splitlines()[0], "share-pull"))
    assert "data" == json.loads(again.out.splitlines()[0])["verified"]
    assert list(range(15)) == rows_of(target)
    assert "a\n12\n13\n14\n" == (tmp_path / "a.csv").read_text().replace("\r", "")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--to", "local", "--where", "a = 1"], "--where cannot be used for a Delta table"),
        (["--to", "a.csv", "--verify", "data"], "--verify cannot be used with --as csv"),
        (["--to", "a.csv", "--resume"], "--resume cannot be used with --as csv"),
        (["--to", "local", "--resume", "--version", "1"], "--resume finishes the version"),
        (["--to", "s3://bucket/local"], "--to is not a local directory"),
        (["--to", "origin/inside"], "is inside a table"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_a_request(
    proxy: Proxy,
    tmp_path: Path,
    command: Run,
    options: list[str],
    why: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)

    refused = command("share", "pull", proxy.address(), *options)

    assert 2 == refused.code
    assert why in refused.err
    assert [] == proxy.asked
