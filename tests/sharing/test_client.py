"""The Python client of Delta Sharing, 1.4.2, reads every table of the corpus, or in the gate a third of them, from our
server as we read them ourselves. In the format that it chooses by itself, it reads them in
`tests/differential/test_client_facts.py`.

One process of the client reads all tables. `python3 dev.py long` sets up its environment; without one the tests are
skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deltacli import open_table
from deltacli.core.errors import DeltacliError
from deltacli.sharing.configuration.starting import make_catalog_of_directories
from deltacli.sharing.model import SharedTable
from tests.sharing.reading_client import plain_rows
from tests.support import corpus
from tests.support.effort import InTurn, is_soaking
from tests.support.waiting import in_time

pytestmark = pytest.mark.long

FORMATS = ("parquet", "delta")
READER = Path(__file__).with_name("reading_client.py")
TOO_LARGE = (
    "delta-rs_COVID-19_NYT",
    "golden_parquet-decimal-dictionaries-v2",
    "kernel-rs_300k-add-files-100-col-partitioned",
)
"""A million rows, or a log without files: they take minutes as Python objects, and have nothing that others lack."""

CLIENT_FAILS: Mapping[tuple[str, str], str] = {
    ("dask_empty1", "delta"): "Must pass schema",  # a table without rows
    ("derived_void-and-nested-a", "delta"): "void",  # no such type in its kernel
}
"""What the client cannot read from any server, by table and mode, and part of its message.

What it changes in rows, so that they are compared without that (`plain_rows`):
- integers, booleans and dates in a column with nulls become floats or objects;
- null and NaN of a float are the same;
- maps are lists of pairs, arrays are numpy arrays;
- a timestamp is naive, in UTC, in parquet mode where the file has INT96;
- in a change feed in delta mode, `_commit_timestamp` is a timestamp in whole seconds, because the client keeps it as
  the modification time of a file; in parquet mode it is epoch milliseconds.
"""

NOT_FOR_IT = ("typeWidening", "variantType", "variantShredding")
"""Features that the client does not list, so the server refuses with a message that names them."""


@dataclass(frozen=True)
class Answers:
    """What the client answered, and what we read ourselves: rows, or None where we refuse, too."""

    answers: Mapping[str, Any]
    ours: Mapping[str, list[str] | None]


@pytest.fixture(scope="module")
def client() -> Path:
    """The interpreter that has the client."""
    python = Path(os.environ.get("DELTACLI_SHARING_PYTHON", ""))
    if not python.is_file():
        pytest.skip("DELTACLI_SHARING_PYTHON is not set")
    return python


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The profile of a server of the whole corpus."""
    path = tmp_path_factory.mktemp("share") / "corpus.share"
    command = [sys.executable, "-m", "deltacli", "share", "serve", str(_root()), "--profile", str(path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        with in_time(server, "the server is ready"):
            while not server.stderr.readline().startswith("next: "):
                assert server.poll() is None
        yield path
        server.terminate()
        with in_time(server, "the end of the server"):
            server.communicate()


def _root() -> Path:
    return corpus.unpacked() / "tables"


def _tables() -> list[SharedTable]:
    catalog = make_catalog_of_directories([str(_root())])
    return [table for share in catalog.shares for schema in share.schemas for table in schema.tables]


def _ask(client: Path, profile: Path, jobs: list[dict[str, Any]], place: Path) -> dict[str, Any]:
    """Let the client do its work, in one process."""
    (place / "jobs.json").write_text(json.dumps(jobs))
    command = [client, READER, profile, place / "jobs.json", place / "answers.json"]
    subprocess.run([str(word) for word in command], check=True, capture_output=True, timeout=900)
    found: dict[str, Any] = json.loads((place / "answers.json").read_text())
    return found


def _job(table: SharedTable, mode: str, kind: str, **options: Any) -> dict[str, Any]:
    name = table.full_name
    return {"id": f"{table.name}:{mode}", "table": name, "mode": mode, "kind": kind, "options": options}


def _our_rows(table: SharedTable) -> list[str] | None:
    try:
        snapshot = open_table(table.location).snapshot()
        return plain_rows(snapshot.scan().to_arrow().to_pylist())
    except DeltacliError:
        return None


def test_every_table_is_read_alike(client: Path, profile: Path, tmp_path: Path, in_turn: InTurn) -> None:
    tables = in_turn([table for table in _tables() if table.name not in TOO_LARGE])
    ours = {table.name: _our_rows(table) for table in tables}
    jobs = [_job(table, mode, "snapshot") for table in tables for mode in FORMATS]

    answers = _ask(client, profile, jobs, tmp_path)

    outcomes = {job["id"]: _judge(job["id"], answers[job["id"]], ours) for job in jobs}
    wrong = {name: outcome for name, outcome in outcomes.items() if outcome not in ("equal", "refused", "known")}
    assert {} == wrong
    assert (270 if is_soaking() else 75) <= sum(outcome == "equal" for outcome in outcomes.values())


def _judge(name: str, answer: Mapping[str, Any], ours: Mapping[str, list[str] | None]) -> str:
    table, _, mode = name.rpartition(":")
    expected, error = ours[table], answer.get("error", "")
    known = CLIENT_FAILS.get((table, mode))
    if known is not None and known in error:
        return "known"
    if error:
        is_foreseen = expected is None or any(feature in error for feature in NOT_FOR_IT)
        refuses = mode == "parquet" and "the parquet response format cannot express" in error
        return "refused" if is_foreseen or refuses else error
    if answer["rows"] == expected:
        return "equal"
    return f"{len(answer['rows'])} rows, expected {None if expected is None else len(expected)}"


def test_every_change_feed_is_read_alike(client: Path, profile: Path, tmp_path: Path, in_turn: InTurn) -> None:
    jobs, ours = [], {}
    for table in in_turn(_tables()):
        start = _first_version_of_feed(table)
        if start is None:
            continue
        rows = open_table(table.location).changes(from_version=start).to_arrow().to_pylist()
        ours[table.name] = rows
        jobs += [_job(table, mode, "changes", starting_version=start) for mode in FORMATS]

    answers = _ask(client, profile, jobs, tmp_path)

    wrong = {}
    for job in jobs:
        table, _, mode = job["id"].rpartition(":")
        answer, expected = answers[job["id"]], plain_rows(_as_the_client_has_it(ours[table], mode))
        if "the parquet response format cannot express" in answer.get("error", "") and mode == "parquet":
            continue
        rows = answer.get("rows")
        if rows is not None and mode == "delta":
            rows = [row.replace(".000000", "") for row in rows]
            expected = [row.replace(".000000", "") for row in expected]
        if rows is None or sorted(rows) != sorted(expected):
            wrong[job["id"]] = answer.get("error") or f"{len(answer['rows'])} rows, expected {len(expected)}"
    assert {} == wrong
    assert (10 if is_soaking() else 2) <= len(ours)


def _first_version_of_feed(table: SharedTable) -> int | None:
    """The first version from which on the feed of a table is on and its rows can be read."""
    opened = open_table(table.location)
    try:
        newest = opened.snapshot().version
        properties = [opened.snapshot(version=version).properties for version in range(newest + 1)]
        for start in range(newest + 1):
            if all(found.get("delta.enableChangeDataFeed", "").lower() == "true" for found in properties[start:]):
                opened.changes(from_version=start).to_arrow()
                return start
    except DeltacliError:
        return None
    return None


def _as_the_client_has_it(rows: list[dict[str, Any]], mode: str) -> Iterator[dict[str, Any]]:
    """Our rows with the time of commits as the client has it."""
    for row in rows:
        moment = row["_commit_timestamp"]
        if mode == "parquet":
            yield {**row, "_commit_timestamp": round(moment.timestamp() * 1_000)}
        else:
            yield {**row, "_commit_timestamp": moment.replace(microsecond=0)}
