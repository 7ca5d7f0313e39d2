"""Logs that are large on purpose: endless lines, a million columns, hundreds of thousands of files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.actions import add, birth, to_bytes
from tests.support.builder import LOG, TableBuilder, commit_path
from tests.support.peak import MIB, deltacli

EXTRA_MIB = 300


def sparse(place: Path, size: int, head: bytes = b"") -> None:
    """A file of zeros behind a head that takes no room."""
    with place.open("wb") as file:
        file.write(head)
        file.truncate(size)


def filled(place: Path, head: bytes, size: int, tail: bytes) -> None:
    """A file of one long line: `head`, letters up to a size, `tail`."""
    block = b"x" * (4 * MIB)
    with place.open("wb") as file:
        file.write(head)
        for _ in range(size // len(block)):
            file.write(block)
        file.write(tail)


def table_of(place: Path) -> Path:
    """Two plain commits; a test puts the third."""
    return TableBuilder().commits(2).write(place)


def check_refused(place: Path, problem: str) -> None:
    """History names the problem, a snapshot is refused by file and line, and neither takes much memory or time."""
    history = deltacli("history", place, "--json")
    counted = deltacli("history", place, "--counts", "--json")
    snapshot = deltacli("snapshot", place, "--json")

    assert [problem, None, None] == [item.get("problem") for item in json.loads(history.out)["items"]]
    assert [problem, None, None] == [item.get("problem") for item in json.loads(counted.out)["items"]]
    assert 3 == snapshot.code
    assert f"{2:020d}.json line 1 is" in snapshot.error
    assert [] == [run for run in (history, counted, snapshot) if run.extra_mib > EXTRA_MIB]


@pytest.mark.parametrize("size", [200 << 20, 1 << 40], ids=["200 MiB", "1 TiB"])
def test_a_commit_of_zeros_is_refused_however_long_it_is(size: int, tmp_path: Path) -> None:
    place = table_of(tmp_path)
    sparse(place / commit_path(2), size)

    history = deltacli("history", place, "--json")
    snapshot = deltacli("snapshot", place, "--json")

    assert ["commit.bad-json", None, None] == [item.get("problem") for item in json.loads(history.out)["items"]]
    assert (3, True) == (snapshot.code, f"{2:020d}.json line 1 is longer than 128 MiB" in snapshot.error)
    assert [] == [run for run in (history, snapshot) if run.extra_mib > EXTRA_MIB]


@pytest.mark.halved
def test_a_line_above_the_limit_is_refused(tmp_path: Path) -> None:
    place = table_of(tmp_path)
    sparse(place / commit_path(2), 132 * MIB, b'{"add":{"path":"a","size":1,"stats":"')

    check_refused(place, "commit.line-too-long")


@pytest.mark.soak
@pytest.mark.parametrize("tail", [b"", b'"}}\n'], ids=["open", "closed"])
def test_a_line_of_two_gigabytes_is_refused(tail: bytes, tmp_path: Path) -> None:
    place = table_of(tmp_path)
    filled(place / commit_path(2), b'{"add":{"path":"a","size":1,"stats":"', 2 << 30, tail)

    check_refused(place, "commit.line-too-long")

    (place / commit_path(2)).unlink()


@pytest.mark.halved
def test_a_line_below_the_limit_is_read(tmp_path: Path) -> None:
    place = table_of(tmp_path)
    filled(place / commit_path(2), b'{"add":{"path":"a","size":1,"stats":"', 48 * MIB, b'"}}\n')

    snapshot = deltacli("snapshot", place, "--json")

    assert (0, 3) == (snapshot.code, json.loads(snapshot.out)["files"]["count"])
    assert snapshot.extra_mib <= 600


@pytest.mark.parametrize("name", ["_last_checkpoint", f"{1:020d}.checkpoint.parquet", f"{1:020d}.checkpoint.a.json"])
def test_a_hint_or_checkpoint_of_a_terabyte_of_zeros_is_set_aside(name: str, tmp_path: Path) -> None:
    place = table_of(tmp_path)
    sparse(place / LOG / name, 1 << 40)

    snapshot = deltacli("snapshot", place, "--json")

    document = json.loads(snapshot.out)
    assert (0, 2) == (snapshot.code, document["files"]["count"])
    assert ["hint.bad-json" if name.startswith("_") else "checkpoint.unreadable"] == document["logSegment"]["problems"]
    assert snapshot.extra_mib <= EXTRA_MIB


@pytest.mark.soak
def test_a_schema_of_a_million_columns_is_drawn(tmp_path: Path) -> None:
    fields = ",".join(
        f'{{"name":"c{number}","type":"long","nullable":true,"metadata":{{}}}}' for number in range(1_000_000)
    )
    lines = birth(schema_string=f'{{"type":"struct","fields":[{fields}]}}')
    place = TableBuilder().commit(*lines, add("a", size=1)).write(tmp_path)

    snapshot, schema = deltacli("snapshot", place, "--json"), deltacli("snapshot", place, "--schema")

    assert (0, 0) == (snapshot.code, schema.code)
    assert b"c999999: long" in schema.out
    assert 1_000_001 <= schema.out.count(b"\n")
    assert schema.seconds < 60
    assert schema.extra_mib <= 2_500


@pytest.mark.soak
def test_a_log_of_200_000_commits_is_listed_and_replayed(tmp_path: Path) -> None:
    """
    Links to four files: a file system allows some ten thousand links to one.
    """
    log = tmp_path / LOG
    log.mkdir()
    (log / f"{0:020d}.json").write_bytes(to_bytes([*birth(), add("a", size=1)]))
    for version in range(1, 200_000):
        place = log / f"{version:020d}.json"
        if version % 50_000 == 1:
            place.write_bytes(to_bytes([{"commitInfo": {"operation": "WRITE"}}, add("b", size=2)]))
            first = place
        else:
            os.link(first, place)

    history, snapshot = deltacli("history", tmp_path, "--limit", "20"), deltacli("snapshot", tmp_path, "--json")

    assert (0, 0) == (history.code, snapshot.code)
    assert 2 == json.loads(snapshot.out)["files"]["count"]
    assert 20 <= history.out.count(b"WRITE")
    assert history.extra_mib <= EXTRA_MIB
    assert snapshot.extra_mib <= EXTRA_MIB
    assert snapshot.seconds < 60


@pytest.mark.halved
def test_names_with_control_characters_are_escaped_for_the_eye_and_exact_for_programs(tmp_path: Path) -> None:
    odd = "a\x00b\n\x1b[31mc\u202ed\x9be"
    schema = json.dumps({"type": "struct", "fields": [{"name": odd, "type": odd, "nullable": True, "metadata": {}}]})
    lines = [
        *birth(schema_string=schema, partition_columns=[odd], name=odd, configuration={odd: odd}),
        {"commitInfo": {"operation": odd, "userName": odd, "operationParameters": {odd: odd}}},
        {"txn": {"appId": odd, "version": 1}},
        {"domainMetadata": {"domain": odd, "configuration": odd, "removed": False}},
        add(odd, size=1, partition_values={odd: odd}),
    ]
    place = TableBuilder().commit(*lines).write(tmp_path)
    texts = [["history"], ["snapshot"], ["snapshot", "--files"], ["snapshot", "--schema"]]

    for command, *options in texts:
        shown = deltacli(command, place, *options).out.decode()
        assert not set("\x00\x1b\u202e\x9b") & set(shown)
        assert "\\x1b[31mc\\u202ed" in shown
    document = json.loads(deltacli("snapshot", place, "--json").out)
    item = json.loads(deltacli("history", place, "--json").out)["items"][0]
    file = json.loads(deltacli("snapshot", place, "--files", "--format", "ndjson").out.splitlines()[0])

    assert (odd, odd) == (item["operation"], item["userName"])
    assert (odd, {odd: odd}) == (file["path"], file["partitionValues"])
    assert odd == document["transactions"][0]["appId"] == document["domains"][0]["domain"]
    assert {odd: odd} == document["metadata"]["configuration"]
