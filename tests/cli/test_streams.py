"""`streams` on the command line and in Python: verdicts, forms of the result, exit codes, and where to start over."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from deltacli import open_table
from deltacli.cli.terminal.characters import count_cells
from deltacli.core.errors import DeltacliError
from tests.cli.support import Result, deltacli
from tests.docs.test_schemas import faults, line_faults
from tests.support.actions import add, commit_info, metadata, protocol, remove
from tests.support.builder import EPOCH_MS, TableBuilder, commit_path
from tests.support.stream_checkpoints import offset, write_checkpoint

Json = dict[str, Any]  # Any: JSON values

TABLE_ID = "5fba94ed-9794-4965-ba6e-6ee3c0d22af9"
NOW = "2023-11-15T00:00:00Z"
"""Some hours after the last commit."""


def _builder() -> TableBuilder:
    """Twelve versions, of which each adds a file; 8 removes that of 7, and version 10 has a checkpoint."""
    builder = TableBuilder().commit(commit_info(), protocol(1, 2), metadata(id=TABLE_ID))
    for version in range(1, 12):
        moment = EPOCH_MS + version * 1_000
        lines = [add(f"f{version}.parquet", size=10, records=3, modification_time=moment)]
        if version == 8:
            lines.append(remove("f7.parquet", deleted_ms=moment, dataChange=False))
        builder.commit(commit_info(), *lines, modified_ms=moment)
        builder.file(f"f{version}.parquet", b"0123456789", modified_ms=moment)
    return builder.checkpoint(10)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    _builder().write(tmp_path / "tbl")
    write_checkpoint(tmp_path / "chk" / "orders", [offset(TABLE_ID, 10), offset(TABLE_ID, 12)])
    write_checkpoint(tmp_path / "chk" / "late", [offset(TABLE_ID, 4), offset(TABLE_ID, 5, 0)])
    write_checkpoint(tmp_path / "chk" / "files", ['{"logOffset":1}', '{"logOffset":2}'])
    return tmp_path


def streams(home: Path, *arguments: str) -> Result:
    return deltacli("streams", *arguments, "--now", NOW, cwd=home)


def document(home: Path, *arguments: str, code: int = 0) -> Json:
    found = streams(home, *arguments, "--json")
    assert found.code == code, found.err
    parsed: Json = json.loads(found.out)
    assert not faults(parsed, "deltacli.streams")
    return parsed


def source_of(home: Path, name: str, *arguments: str, code: int = 0) -> Json:
    whole = document(home, "tbl", *(arguments or ("--checkpoints", f"chk/{name}")), code=code)
    (source,) = whole["queries"][0]["sources"]
    found: Json = source
    return found


def test_every_form_has_the_same_queries(home: Path) -> None:
    whole = document(home, "tbl", "--checkpoints", "chk/*")
    lines = streams(home, "tbl", "--checkpoints", "chk/*", "--format", "ndjson").out.splitlines()
    rows = streams(home, "tbl", "--checkpoints", "chk/*", "--format", "csv").out.splitlines()
    text = streams(home, "./tbl", "--checkpoints", "chk/*").out

    assert {"ok": 2, "at-risk": 0, "unknown": 0, "dead": 0} == whole["verdicts"]
    assert (["late", "orders"], 1) == ([one["name"] for one in whole["queries"]], whole["otherQueries"])
    assert [[], []] == [line_faults(json.loads(line)) for line in lines]
    assert whole["queries"] == json.loads(lines[0])["queries"]
    assert 1 + len(whole["queries"]) == len(rows)
    assert all(count_cells(line) <= 80 for line in text.splitlines() if "file://" not in line)
    assert "late: batch 7" in text
    assert open_table(str(home / "tbl")).streams(checkpoints=[str(home / "chk" / "late")]).queries[0].name == "late"


def test_what_a_query_needs_and_how_far_it_is_behind(home: Path) -> None:
    late, orders = source_of(home, "late"), source_of(home, "orders")

    assert ("delta", TABLE_ID, 5, 1, False) == tuple(
        late[name] for name in ("kind", "tableId", "version", "index", "initialSnapshot")
    )
    assert {"versions": [4, 11], "files": 1, "sizeBytes": 10, "initialSnapshot": None, "changeData": 0} == late["needs"]
    assert (7, 60) == (late["lag"]["versions"], late["lag"]["bytes"])
    assert late["safeUntilMs"] == EPOCH_MS + 8_000 + 7 * 86_400_000
    assert {"versions": 0, "seconds": 0, "bytes": 0} == orders["lag"]
    assert [10, 11] == orders["needs"]["versions"]


def test_a_query_is_at_risk_two_days_before_and_dead_once_the_file_is_gone(home: Path) -> None:
    at = ["streams", "tbl", "--checkpoints", "chk/late", "--json", "--now", "2023-11-20T00:00:00Z"]
    late = deltacli(*at, cwd=home)
    (home / "tbl" / "f7.parquet").unlink()
    dead = source_of(home, "late", code=1)

    assert (0, "at-risk") == (late.code, json.loads(late.out)["queries"][0]["verdict"])
    assert 1 == deltacli(*at, "--fail-on", "at-risk", cwd=home).code
    assert ("dead", "the file f7.parquet of commit 7: missing") == (dead["verdict"], dead["because"])


def test_the_restart_point_is_the_first_version_with_everything(home: Path) -> None:
    (home / "tbl" / "f7.parquet").unlink()

    restart = source_of(home, "late", "--restart-point", "chk/late", code=1)["restart"]

    assert 8 == restart["startingVersion"]
    assert {"versions": [5, 7], "files": 2, "rows": 6} == restart["lost"]
    assert {"versions": None, "files": 0, "rows": 0} == restart["repeated"]
    text = streams(home, "tbl", "--restart-point", "chk/late").out
    assert "start over: startingVersion 8, with a new checkpoint" in text
    assert "lost: versions 5 to 7, 2 files, 6 rows" in text


@pytest.mark.parametrize(
    ("gone", "start", "lost"),
    [
        (range(5), 5, None),
        (range(6), 6, [5, 5]),
        (range(9), 9, [5, 8]),
        ([6], 7, [5, 6]),
        ([8], 9, [5, 8]),
        (range(11), 11, [5, 10]),
    ],
)
def test_commits_that_are_gone_are_lost_with_unknown_files(
    gone: Sequence[int], start: int, lost: list[int] | None, home: Path
) -> None:
    for version in gone:
        (home / "tbl" / commit_path(version)).unlink()

    restart = source_of(home, "late", "--restart-point", "chk/late", code=1)["restart"]
    text = streams(home, "tbl", "--restart-point", "chk/late").out

    unknown = None if lost else 0
    assert start == restart["startingVersion"]
    assert {"versions": lost, "files": unknown, "rows": unknown} == restart["lost"]
    assert bool(lost) == ("files and rows unknown" in text) == ("behind, at least" in text)


def test_a_commit_that_cannot_be_read_is_lost_with_unknown_files(home: Path) -> None:
    (home / "tbl" / commit_path(9)).write_bytes(b'{"add":')

    restart = source_of(home, "late", "--restart-point", "chk/late", code=1)["restart"]

    assert 10 == restart["startingVersion"]
    assert {"versions": [5, 9], "files": None, "rows": None} == restart["lost"]


def test_a_snapshot_that_cannot_be_rebuilt_is_lost_with_unknown_files(home: Path) -> None:
    write_checkpoint(home / "chk" / "snapshot", [offset(TABLE_ID, 4, 0, in_snapshot=True)] * 2)
    for version in range(5):
        (home / "tbl" / commit_path(version)).unlink()

    restart = source_of(home, "snapshot", "--restart-point", "chk/snapshot", code=1)["restart"]

    assert 5 == restart["startingVersion"]
    assert {"versions": [4, 4], "files": None, "rows": None} == restart["lost"]


def test_a_query_that_lost_the_newest_commit_starts_over_with_what_comes_next(tmp_path: Path) -> None:
    _builder().checkpoint(11).write(tmp_path / "tbl")
    write_checkpoint(tmp_path / "chk" / "late", [offset(TABLE_ID, 11)] * 2)
    for version in range(12):
        (tmp_path / "tbl" / commit_path(version)).unlink()

    restart = source_of(tmp_path, "late", "--restart-point", "chk/late", code=1)["restart"]
    text = streams(tmp_path, "tbl", "--restart-point", "chk/late").out

    assert (12, [11, 11], None) == (restart["startingVersion"], restart["lost"]["versions"], restart["lost"]["files"])
    assert restart["startingVersionExists"] is False
    assert "start over: startingVersion 12" in text
    assert "version 12 does not exist yet" in text


def test_the_restart_point_of_a_query_that_is_up_to_date_is_the_next_version(home: Path) -> None:
    """Started with `latest`, a query would silently skip what is committed before it starts."""
    restart = source_of(home, "orders", "--restart-point", "chk/orders")["restart"]
    text = streams(home, "tbl", "--restart-point", "chk/orders").out

    assert (12, False) == (restart["startingVersion"], restart["startingVersionExists"])
    assert restart["startingVersionOfFeedExists"] is None
    assert {"versions": None, "files": 0, "rows": 0} == restart["lost"]
    assert "start over: startingVersion 12" in text
    assert "version 12 does not exist yet" in text
    assert all(count_cells(line) <= 80 for line in text.splitlines() if "file://" not in line)


def test_a_restart_point_that_exists_needs_no_waiting(home: Path) -> None:
    restart = source_of(home, "late", "--restart-point", "chk/late")["restart"]

    assert restart["startingVersionExists"] is True
    assert "does not exist yet" not in streams(home, "tbl", "--restart-point", "chk/late").out


def test_a_query_in_a_log_that_was_set_back_starts_over_with_what_comes_next(home: Path) -> None:
    write_checkpoint(home / "chk" / "ahead", [offset(TABLE_ID, 10), offset(TABLE_ID, 15)])

    source = source_of(home, "ahead", "--restart-point", "chk/ahead", code=1)
    text = streams(home, "tbl", "--restart-point", "chk/ahead").out

    assert "dead" == source["verdict"]
    assert "up to date" not in text
    assert 12 == source["restart"]["startingVersion"]
    assert {"versions": None, "files": None, "rows": None} == source["restart"]["lost"]
    assert "start over: startingVersion 12" in text
    assert "version 12 does not exist yet" in text
    assert "lost: unknown" in text


def test_a_restart_in_the_middle_of_a_commit_repeats_what_was_delivered_of_it(home: Path) -> None:
    restart = source_of(home, "late", "--restart-point", "chk/late")["restart"]

    assert (5, None) == (restart["startingVersion"], restart["lost"]["versions"])
    assert {"versions": [5, 5], "files": 1, "rows": 3} == restart["repeated"]


def test_a_query_whose_newest_commit_file_is_empty_is_dead_and_stands_before_its_batch(home: Path) -> None:
    assert (12, "ok", 7) == _standing(home, document(home, "tbl", "--checkpoints", "chk/orders"))
    (home / "chk" / "orders" / "commits" / "7").write_bytes(b"")

    assert (10, "dead", 6) == _standing(home, document(home, "tbl", "--checkpoints", "chk/orders", code=1))
    text = streams(home, "tbl", "--checkpoints", "chk/orders").out
    assert "orders: batch 7, not finished" in text
    assert "commits/7 cannot be read: it is empty" in text
    restart = source_of(home, "orders", "--restart-point", "chk/orders", code=1)["restart"]
    assert (10, None) == (restart["startingVersion"], restart["lost"]["versions"])


def _standing(home: Path, found: Json) -> tuple[int, str, int]:
    """Return the version and the verdict of the only query of a document, which Python gives, too, and its batch."""
    (query,) = found["queries"]
    (same,) = open_table(str(home / "tbl")).streams(checkpoints=[str(home / "chk" / "orders")]).queries
    assert query["because"] == (same.finding.because or None)
    return query["sources"][0]["version"], query["verdict"], query["batch"]


def test_a_commit_that_expired_kills_the_query_that_begins_its_restart_there(home: Path) -> None:
    for version in range(5):
        (home / "tbl" / commit_path(version)).unlink()

    dead = source_of(home, "late", code=1)

    assert dead["because"].startswith("commit 4 is no longer in the log")
    assert "failOnDataLoss=false a restart continues and loses nothing" in dead["because"]
    assert "ok" == source_of(home, "orders")["verdict"]


def test_copies_are_judged_each_and_the_query_by_what_is_the_same(home: Path) -> None:
    shutil.copytree(home / "tbl", home / "copy")
    both = ("--checkpoints", "chk/late", "--tables", "tbl", "--tables", "copy")
    same = document(home, *both)["queries"][0]
    (home / "copy" / "f7.parquet").unlink()
    apart = document(home, *both)["queries"][0]

    assert [True, True] == [one["ambiguous"] for one in same["sources"]]
    assert ("ok", "unknown") == (same["verdict"], apart["verdict"])
    assert ["ok", "dead"] == [one["verdict"] for one in apart["sources"]]


def test_a_table_that_was_created_anew_is_another_one_for_its_queries(home: Path) -> None:
    shutil.rmtree(home / "tbl")
    new = "11111111-2222-3333-4444-555555555555"
    _builder().commit(commit_info("CREATE OR REPLACE TABLE"), metadata(id=new)).write(home / "tbl")

    dead = source_of(home, "late", code=1)

    assert ("dead", None) == (dead["verdict"], dead["needs"]["versions"])
    assert "created again" in dead["because"]
    assert "unknown" == document(home, "--checkpoints", "chk/late")["queries"][0]["verdict"]


def _create_again(home: Path) -> None:
    """Drop the table with its log, and create one with another id in its place."""
    shutil.rmtree(home / "tbl")
    builder = TableBuilder().commit(commit_info(), protocol(1, 2), metadata(id="11111111-2222-3333-4444-555555555555"))
    builder.write(home / "tbl")


def test_a_query_that_is_named_for_a_table_with_another_id_is_dead(home: Path) -> None:
    """No log has the former id any more. Of a pattern such a query may read another table."""
    _create_again(home)

    dead = source_of(home, "late", code=1)
    with_others = document(home, "tbl", "--checkpoints", "chk/*", "--checkpoints", "chk/late", code=1)
    by_pattern = document(home, "tbl", "--checkpoints", "chk/*")
    among_tables = document(home, "--tables", "tbl", "--checkpoints", "chk/late")["queries"][0]

    assert "dead" == dead["verdict"]
    assert "created again" in dead["because"]
    assert "new checkpoint" in dead["because"]
    assert (["late"], 2) == ([query["name"] for query in with_others["queries"]], with_others["otherQueries"])
    assert ([], 3) == (by_pattern["queries"], by_pattern["otherQueries"])
    assert "unknown" == among_tables["verdict"]
    assert "created again" in among_tables["because"]


@pytest.mark.parametrize(
    "line",
    [
        "vacuum tbl --dry-run --protect-streams {query}",
        "log expire tbl --dry-run --protect-streams {query}",
        "alter tbl add e int --dry-run --checkpoints {query}",
        "streams tbl --restart-point {query}",
    ],
)
def test_other_commands_say_that_a_named_query_has_another_id(line: str, home: Path) -> None:
    _create_again(home)

    named = deltacli(*line.format(query="chk/late").split(), "--now", NOW, cwd=home)
    by_pattern = deltacli(*line.format(query="chk/l*").split(), "--now", NOW, cwd=home)

    assert "created again" in named.out + named.err
    assert "created again" not in by_pattern.out + by_pattern.err


def test_a_join_is_judged_by_the_table_that_was_asked_about(home: Path) -> None:
    other = "99999999-2222-3333-4444-555555555555"
    both = [f"{offset(TABLE_ID, version)}\n{offset(other, version)}" for version in (10, 12)]
    write_checkpoint(home / "chk" / "join", both)

    (query,) = document(home, "tbl", "--checkpoints", "chk/join")["queries"]
    (among_tables,) = document(home, "--tables", "tbl", "--checkpoints", "chk/join")["queries"]
    (home / "tbl" / commit_path(10)).unlink()
    (dead,) = document(home, "tbl", "--checkpoints", "chk/join", code=1)["queries"]

    assert ("ok", ["ok", None]) == (query["verdict"], [source["verdict"] for source in query["sources"]])
    assert ("unknown", ["ok", "unknown"]) == (
        among_tables["verdict"],
        [source["verdict"] for source in among_tables["sources"]],
    )
    assert "dead" == dead["verdict"]


def test_a_log_with_a_gap_ends_every_query(home: Path) -> None:
    (home / "tbl" / commit_path(11)).rename(home / "tbl" / commit_path(12))

    assert "commit 11 is missing" in source_of(home, "orders", code=1)["because"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["tbl"], 2, "--checkpoints or --restart-point"),
        (
            ["tbl", "--checkpoints", "chk/*", "--restart-point", "chk/late"],
            2,
            "--checkpoints and --restart-point exclude",
        ),
        (["tbl", "--checkpoints", "chk/none*"], 4, "no checkpoint of a streaming query matches chk/none*"),
        (["tbl", "--checkpoints", "chk"], 3, "'chk/*'"),
        (["tbl", "--checkpoints", ""], 2, ""),
        (["gone", "--checkpoints", "chk/*"], 3, "gone"),
        (["--checkpoints", "chk/*", "--tables", "none/*"], 3, ""),
        (["tbl", "--checkpoints", "chk/*", "--engine", "spark"], 2, "streams does not run on a Spark cluster"),
    ],
)
def test_what_is_refused(home: Path, arguments: list[str], code: int, said: str) -> None:
    found = streams(home, *arguments)

    assert (code, True) == (found.code, said in found.err), found.err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("reach ./tbl", ""),
        ("doctor table ./tbl", ""),
        ("restore ./tbl --version 9 --dry-run", "the commit removes files: it stops without skipChangeCommits"),
        ("restore ./tbl --version 11 --dry-run", ""),
        ("alter ./tbl add tax int --dry-run", "it stops once, and goes on after a restart"),
        ("alter ./tbl comment id key --dry-run", ""),
        (
            "widen-type ./tbl id decimal(20,0) --enable --upgrade-protocol --dry-run",
            "query late reads the table: column id has another type",
        ),
        ("properties ./tbl set owner=ops --dry-run", ""),
        ("properties ./tbl unset owner --dry-run", ""),
        ("features ./tbl add deletionVectors --dry-run", ""),
        ("features ./tbl drop vacuumProtocolCheck --dry-run", ""),
    ],
)
def test_other_commands_name_the_queries_that_they_concern(home: Path, line: str, said: str) -> None:
    write_checkpoint(home / "chk" / "dead", [offset(TABLE_ID, 11), offset("another id", 3)])
    (home / "chk" / "dead" / "offsets" / "7").write_bytes(b"")
    write_checkpoint(home / "chk" / "cut", [offset(TABLE_ID, 11), offset(TABLE_ID, 12)])
    (home / "chk" / "cut" / "commits" / "7").write_bytes(b'v1\n{"next')
    if "drop" in line:
        _support(home, "vacuumProtocolCheck")

    found = deltacli(*line.split(), "--checkpoints", "chk/*", "--now", NOW, cwd=home)

    assert found.code == 0, found.err
    assert "query dead is dead: offsets/7 cannot be read: it is empty" in found.err
    assert "query cut is dead: commits/7 cannot be read: its second line is not JSON" in found.err
    assert "query cut reads the table" not in found.err
    assert bool(said) == ("query orders reads the table" in found.err) == ("query late reads the table" in found.err)
    assert said in found.err
    assert "query files" not in found.err


def _support(home: Path, feature: str) -> None:
    """Add a feature to the protocol of the table, in version 12, which the queries have read."""
    assert 0 == deltacli("features", "./tbl", "add", feature, "--yes", cwd=home).code


@pytest.mark.parametrize(
    "line",
    [
        "alter ./tbl comment id key --dry-run",
        "widen-type ./tbl id decimal(20,0) --enable --upgrade-protocol --dry-run",
        "properties ./tbl set delta.appendOnly=true --dry-run",
        "features ./tbl add deletionVectors --dry-run",
        "features ./tbl drop vacuumProtocolCheck --dry-run",
        "features ./tbl drop vacuumProtocolCheck --truncate-history --dry-run",
    ],
)
def test_a_change_of_a_property_of_delta_stops_only_queries_that_track_the_schema(line: str, home: Path) -> None:
    _track_schema(home)
    if "drop" in line:
        _support(home, "vacuumProtocolCheck")

    found = deltacli(*line.split(), "--checkpoints", "chk/*", "--now", NOW, cwd=home)

    assert 0 == found.code, found.err
    assert "query orders reads the table: the commit changes the schema, a property or the protocol" in found.err
    assert ("query late reads" in found.err) == line.startswith("widen-type")


def test_a_property_of_the_user_stops_no_query(home: Path) -> None:
    _track_schema(home)
    line = "properties ./tbl set owner=ops --dry-run --checkpoints chk/*"

    found = deltacli(*line.split(), "--now", NOW, cwd=home)

    assert (0, "") == (found.code, found.err)


def _track_schema(home: Path) -> None:
    """Give a query a schema tracking log."""
    entry = {"tableId": TABLE_ID, "deltaCommitVersion": 11, "dataSchemaJson": "{}", "partitionSchemaJson": "{}"}
    log = home / "chk" / "orders" / f"_schema_log_{TABLE_ID}"
    log.mkdir()
    (log / "0").write_text("v1\n" + json.dumps(entry))


@pytest.mark.parametrize("protects", [False, True])
def test_a_drop_names_the_queries_that_need_the_versions_that_it_deletes(protects: bool, home: Path) -> None:
    _support(home, "v2Checkpoint")
    assert 0 == deltacli("properties", "./tbl", "set", "delta.checkpointPolicy=v2", "--yes", cwd=home).code
    write_checkpoint(home / "chk" / "newest", [offset(TABLE_ID, 14)] * 2)
    drop = ["features", "./tbl", "drop", "v2Checkpoint", "--truncate-history", "--dry-run", "--now", NOW]

    found = deltacli(*drop, "--checkpoints", "chk/*", *(["--protect-streams", "chk/*"] if protects else []), cwd=home)
    keeping = deltacli(*drop[:4], "--dry-run", "--checkpoints", "chk/*", cwd=home)

    assert 0 == found.code, found.err
    assert "query late needs the log from version 4 on" in found.err
    assert "query orders needs the log from version 10 on" in found.err
    assert "query newest needs the log" not in found.err
    assert "needs the log" not in keeping.err


@pytest.mark.parametrize(
    "line",
    [
        "properties ./tbl --checkpoints chk/*",
        "properties ./tbl get owner --checkpoints chk/*",
        "features ./tbl --checkpoints chk/*",
        "features ./tbl --protect-streams chk/*",
        "features ./tbl add deletionVectors --protect-streams chk/* --dry-run",
        "features ./tbl drop vacuumProtocolCheck --protect-streams chk/* --dry-run",
        "features ./tbl --ignore-streams-older 1d",
        "features ./tbl add deletionVectors --allow-stream-loss q --dry-run",
        "features ./tbl drop vacuumProtocolCheck --ignore-streams-older 1d --dry-run",
        "features ./tbl drop vacuumProtocolCheck --truncate-history --allow-stream-loss q --dry-run",
    ],
)
def test_options_about_queries_need_a_change_that_concerns_them(line: str, home: Path) -> None:
    _support(home, "vacuumProtocolCheck")

    found = deltacli(*line.split(), cwd=home)

    assert 2 == found.code
    # What is missing first is said first: a pattern alone would not help.
    if "-stream" in line and "--truncate-history" not in line:
        assert "--truncate-history" in found.err


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("streams ./tbl --checkpoints", "--checkpoints"),
        ("streams ./tbl --restart-point", "--restart-point"),
        ("alter ./tbl comment id key --dry-run --checkpoints", "--checkpoints"),
        ("features ./tbl add deletionVectors --dry-run --checkpoints", "--checkpoints"),
    ],
)
@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_directory_is_an_error_that_names_its_option(line: str, option: str, empty: str, home: Path) -> None:
    found = deltacli(*line.split(), empty, cwd=home)

    assert 2 == found.code, found.err
    assert option in found.err


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("streams ./tbl --checkpoints chk/*", 1),
        ("streams ./tbl --checkpoints chk/* --json", 1),
        ("streams ./tbl --checkpoints chk/* --format csv", 1),
        ("vacuum ./tbl --protect-streams chk/* --dry-run", 4),
        ("log expire ./tbl --protect-streams chk/* --dry-run", 4),
        ("alter ./tbl comment id key --checkpoints chk/* --dry-run", 0),
    ],
)
def test_half_of_a_surrogate_in_a_tracking_log_is_a_finding(line: str, code: int, home: Path) -> None:
    entry = {"tableId": TABLE_ID, "deltaCommitVersion": 11, "sourceMetadataPath": "file:/lake/\ud800/sources/0"}
    log = home / "chk" / "orders" / f"_schema_log_{TABLE_ID}"
    log.mkdir()
    (log / "0").write_text("v1\n" + json.dumps(entry))

    found = deltacli(*line.split(), "--now", NOW, cwd=home)

    assert code == found.code, found.err
    assert "copied or renamed" in found.out + found.err


def test_a_change_that_does_nothing_stops_no_query(home: Path) -> None:
    found = deltacli(
        *("properties", "./tbl", "unset", "owner", "--yes", "--checkpoints", "chk/*", "--now", NOW), cwd=home
    )

    assert 0 == found.code
    assert "reads the table" not in found.err


def test_python_raises_what_the_command_refuses(home: Path) -> None:
    table = open_table(str(home / "tbl"))

    for given in ({}, {"checkpoints": [str(home / "none*")]}, {"restart_point": str(home)}):
        with pytest.raises(DeltacliError):
            table.streams(**given)


def test_help_streams_is_the_command_and_names_the_topic() -> None:
    found = deltacli("help", "streams").out

    assert "Usage: deltacli streams" in found
    assert "deltacli help output-streams" in found
    assert "stdout has only the result" in deltacli("help", "output-streams").out
