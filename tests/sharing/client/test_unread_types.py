"""Columns of types that are not read, in a shared table: left out of rows, copied with the files of a whole table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from deltacli.cli.app import run
from tests.cli.support import Result
from tests.sharing.client.serving import proxied
from tests.sharing.served import shared
from tests.support.odd_types import GEOMETRY, make

Run = Callable[..., Result]


@pytest.fixture
def command(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `deltacli` in this process."""
    for name in ("DELTACLI_FORMAT", "DELTACLI_CONFIG"):
        monkeypatch.delenv(name, raising=False)

    def run_here(*arguments: str) -> Result:
        code = run(list(arguments))
        out, err = capfdbinary.readouterr()
        return Result(code, out.decode(), err.decode())

    return run_here


def test_rows_of_a_share_lack_the_column_and_a_copy_has_it(tmp_path: Path, command: Run) -> None:
    table = make(tmp_path / "t", GEOMETRY, properties={"delta.enableChangeDataFeed": "true"})
    with proxied(tmp_path, shared(table)) as proxy:
        address = proxy.address()
        for words in (["share", "head", address], ["read", address], ["share", "changes", address, "--from", "0"]):
            shown = command(*words, "--json")
            assert 0 == shown.code, shown.err
            found = shown.document
            assert (6, False) == (len(found["items"]), found["complete"])
            assert [{"name": "g", "type": GEOMETRY}] == found["omittedColumns"]
        assert 6 == command("read", address, "--count", "--json").document["rows"]
        assert 2 == command("read", address, "--where", "g IS NULL").code

        rows = str(tmp_path / "rows.csv")
        refused = command("share", "pull", address, "--to", rows)
        assert (4, True) == (refused.code, "--columns a" in refused.err)
        assert not Path(rows).exists()
        assert 0 == command("share", "pull", address, "--to", rows, "--columns", "a").code

        pulled = command("share", "pull", address, "--to", str(tmp_path / "copy"), "--verify", "data")
        assert 0 == pulled.code, pulled.err
        copies = sorted(path.read_bytes() for path in (tmp_path / "copy").rglob("*.parquet"))
        assert sorted(path.read_bytes() for path in table.glob("*.parquet")) == copies
        lines = (tmp_path / "copy" / "_delta_log" / f"{0:020}.json").read_text().splitlines()
        (schema,) = (json.loads(line)["metaData"]["schemaString"] for line in lines if "metaData" in json.loads(line))
        assert GEOMETRY in schema
