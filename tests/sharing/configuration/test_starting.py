"""`share init`: a configuration that is read as it was meant, whatever the tables are called."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.cli.app import run
from deltacli.sharing.configuration.shares_yaml import read_configuration
from deltacli.sharing.configuration.starting import make_starting_configuration, name_shared_tables
from tests.cli.test_documents import validate
from tests.support.builder import TableBuilder

PARTS = st.text(st.characters(exclude_categories=("C", "Z"), exclude_characters="/*"), min_size=1, max_size=8).filter(
    lambda part: part not in (".", "..") and not part.startswith("~")
)


def read(path: Path) -> dict[str, str]:
    """The locations of a configuration by the names of the tables."""
    catalog = read_configuration(str(path), open_store=None).catalog
    return {
        table.full_name: table.location for share in catalog.shares for each in share.schemas for table in each.tables
    }


@given(st.lists(st.tuples(PARTS, st.lists(PARTS, max_size=2)), min_size=1, max_size=6, unique_by=str))
def test_every_table_is_shared_under_one_name_of_its_own(
    tmp_path_factory: pytest.TempPathFactory, tables: list[tuple[str, list[str]]]
) -> None:
    place = tmp_path_factory.mktemp("c")
    directories = [(f"/lake/{root}", [f"/lake/{'/'.join([root, *below])}"]) for root, below in tables]
    named = name_shared_tables(directories)

    (place / "shares.yaml").write_text(make_starting_configuration(str(place / "shares.yaml"), named), encoding="utf-8")
    found = read(place / "shares.yaml")

    assert {table.full_name: table.location for table in named} == found
    assert len(tables) == len(found)
    assert not any("#" in name for name in found)


def test_the_command_writes_what_the_server_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("lake/trips", "lake/eu/a b", "lake/eu/A.b"):
        TableBuilder().commits(2).write(tmp_path / name)

    made = run(["share", "init", "lake", "--json"])
    document, said = json.loads((captured := capfd.readouterr()).out), captured.err
    codes = [
        run(["share", "recipient", "add", "acme", "--grant", "lake/eu"]),
        run(["share", "check", "--level", "log"]),
    ]
    again = run(["share", "init", "lake"])
    refused = capfd.readouterr().err
    absent = [run(["share", "init", name, "-c", "x.yaml"]) for name in ("nope", os.curdir + "/lake/eu/a b/_delta_log")]

    validate(document, "deltacli.share-init")
    assert (0, [0, 0], 4, [3, 3]) == (made, codes, again, absent)
    assert {one["table"]: one["location"] for one in document["tables"]} == read(Path("shares.yaml"))
    assert ["lake.default.trips", "lake.eu.a_b", "lake.eu.a_b_2"] == sorted(map(str.lower, read(Path("shares.yaml"))))
    assert "location: ./lake/trips" in Path("shares.yaml").read_text()
    assert "next: deltacli share recipient add NAME --grant lake" in said
    assert "to replace it  deltacli share init lake --force" in refused
    assert not Path("x.yaml").exists()


def test_names_that_are_no_text_are_refused_or_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A path on Linux need not be UTF-8, and a configuration is."""
    monkeypatch.chdir(tmp_path)
    TableBuilder().commits(1).write(tmp_path / "lake/trips")
    TableBuilder().commits(1).write(tmp_path / os.fsdecode(b"odd/caf\xe9"))
    odd = os.fsdecode(b"caf\xe9.yaml")

    assert run(["share", "init", "lake", "--config", odd]) == 0
    assert "$schema" not in Path(odd).read_text(encoding="utf-8")
    assert run(["share", "check", "--config", odd, "--level", "log"]) == 0
    assert run(["fleet", "init", "lake", os.fsdecode(b"caf\xe9.toml")]) == 0
    assert ":schema" not in Path(os.fsdecode(b"caf\xe9.toml")).read_text(encoding="utf-8")
    capfd.readouterr()
    assert run(["share", "init", "odd"]) == 2
    assert "has characters that a configuration cannot name" in capfd.readouterr().err
