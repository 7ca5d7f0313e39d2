"""Frames of facts have what the operations of each table return, whatever tables there are, and fail by name."""

from __future__ import annotations

import shutil
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from deltacli import open_table
from deltacli.core.errors import DeltacliError, UsageError
from deltacli.core.machine import fixed_clock
from deltacli.delta.log.file_actions import extract_num_records_column
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.fleet.planning.due import plan_fleet
from deltacli.fleet.policy_file.reading import require_fleet_file
from deltacli.operations.read.snapshot import summarize
from deltacli.spark import detail, files, findings, fleet_facts, history, tombstones, vacuum_plan
from deltacli.storage import open_storage
from tests.cli.support import make_sample
from tests.cluster.test_tables import SAMPLE, SMOKE
from tests.support import corpus
from tests.support.effort import is_soaking

NOW = datetime(2026, 6, 1, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)


def _paths(names: tuple[str, ...]) -> list[str]:
    wanted = corpus.tables() if is_soaking() else map(corpus.table, names)
    return [str(table.path(corpus.unpacked())) for table in wanted]


def _opened(path: str) -> Any:  # Any: a Table
    return open_table(path, clock=fixed_clock(NOW_MS))


def test_smoke_details_are_those_of_snapshots(session: Any) -> None:
    paths = [path for path in _paths(SMOKE) if _is_readable(path)]

    found = {row["table"]: row for row in detail(session, paths, now=NOW).collect()}

    assert len(paths) >= len(SMOKE)
    for path in paths:
        table = _opened(path)
        row = found[table.uri]
        summary = summarize(table)
        document = summary.as_json()
        counted, tombs = document["files"], document["tombstones"]
        assert None is row["error"], row["error"]
        assert document["version"] == row["version"]
        assert (counted["count"], counted["sizeBytes"], counted["rows"]) == (
            row["numFiles"],
            row["sizeInBytes"],
            row["numRows"],
        )
        assert counted["deletionVectors"] == {"count": row["numDeletionVectors"], "deletedRows": row["deletedRows"]}
        assert (tombs["count"], tombs["expired"]) == (row["numTombstones"], row["expiredTombstones"])
        assert document["metadata"].get("configuration", {}) == row["properties"]
        assert document["metadata"]["partitionColumns"] == row["partitionColumns"]
        assert document["protocol"].get("writerFeatures") == row["writerFeatures"]


def test_files_and_tombstones_are_those_of_the_log(session: Any) -> None:
    paths = [path for path in _paths(SAMPLE) if _is_readable(path)]

    live = Counter(
        (row["table"], row["path"], row["size"], row["numRecords"], row["deletedRows"])
        for row in files(session, paths).select("table", "path", "size", "numRecords", "deletedRows").collect()
    )
    gone = Counter((row["table"], row["path"]) for row in tombstones(session, paths, now=NOW).collect())

    expected: Counter[Any] = Counter()
    expected_gone: Counter[Any] = Counter()
    for path in paths:
        table = _opened(path)
        for batch in table.snapshot().files():
            records = extract_num_records_column(batch.column("stats")).to_pylist()
            for row, rows in zip(batch.to_pylist(), records, strict=True):
                expected[
                    (table.uri, row["path"], row["size"], rows, (row["deletionVector"] or {}).get("cardinality", 0))
                ] += 1
        for batch in table.snapshot().tombstones():
            expected_gone.update((table.uri, row) for row in batch.column("path").to_pylist())
    assert expected == live
    assert expected_gone == gone
    assert len(live) > 20


def _is_readable(path: str) -> bool:
    try:
        open_table(path).snapshot()
    except DeltacliError:
        return False
    return True


def test_histories_and_findings_are_those_of_each_table(session: Any) -> None:
    paths = _paths(SAMPLE)

    commits = Counter(
        (row["table"], row["version"], row["operation"], row["timestamp"].astimezone(UTC), row["problem"])
        for row in history(session, paths, unreadable="skip").collect()
    )
    found = Counter(
        (row["table"], row["rule"], row["severity"], row["message"], row["path"], row["line"])
        for row in findings(session, paths, now=NOW).collect()
    )

    expected: Counter[Any] = Counter()
    expected_findings: Counter[Any] = Counter()
    for path in paths:
        table = _opened(path)
        for item in table.history().items:
            moment = datetime.fromtimestamp(item.time.timestamp_ms / 1000, UTC)
            expected[(table.uri, item.version, item.operation, moment, item.problem)] += 1
        for finding in table.validate(max_findings=0).findings:
            place = finding.place
            expected_findings[
                (table.uri, finding.rule.id, finding.severity.value, finding.message, place.path, place.line)
            ] += 1
    assert expected == commits
    assert expected_findings == found
    assert len(found) > 20


def test_smoke_frames_of_one_table_join_by_its_name(session: Any, tmp_path: Path) -> None:
    make_sample(tmp_path / "lake" / "trips")
    shutil.copytree(tmp_path / "lake" / "trips", tmp_path / "lake" / "more" / "a [1]")
    make_sample(tmp_path / "lake" / "damaged", damaged=True)
    glob = f"{tmp_path}/lake/**"

    joined = files(session, glob, version=14).join(detail(session, glob), "table").groupBy("table").count().collect()
    plans = vacuum_plan(
        session, glob, now=NOW, retention_ms=0, allow_retention_below_ms=2 * 86_400_000, unreadable="skip"
    )

    trips = open_table(tmp_path / "lake" / "trips")
    assert {21} == {row["count"] for row in joined}
    assert 3 == len(joined)
    candidates = trips.vacuum(retention_ms=0, allow_retention_below_ms=2 * 86_400_000, dry_run=True).plan.candidates
    of_trips = [row for row in plans.collect() if row["table"] == trips.uri]
    assert sorted(path.decode() for path in candidates.column("path").to_pylist()) == sorted(
        row["path"] for row in of_trips
    )
    assert {"tombstone"} == {row["reason"] for row in of_trips}


def test_a_frame_of_paths_names_the_tables(session: Any, tmp_path: Path) -> None:
    make_sample(tmp_path / "trips")
    paths = session.createDataFrame([(str(tmp_path / "trips"), 1), (str(tmp_path / "none"), 2)], "place string, n int")

    rows = detail(session, paths.select("place")).collect()

    by_name = {row["table"].rpartition("/")[2]: row for row in rows}
    assert (14, None) == (by_name["trips"]["version"], by_name["trips"]["error"])
    assert (None, "table.path-missing") == (by_name["none"]["version"], by_name["none"]["error"].partition(":")[0])
    with pytest.raises(UsageError, match="no column `table`"):
        detail(session, paths)
    with pytest.raises(Exception, match=r"\[usage.relative-path\]"):
        history(session, session.createDataFrame([(str(tmp_path / "trips"),), ("trips",)], "table string")).collect()


def test_a_table_that_cannot_be_read_ends_the_job_by_name_or_is_skipped(session: Any, tmp_path: Path) -> None:
    make_sample(tmp_path / "trips")
    both = [tmp_path / "trips", tmp_path / "none"]

    with pytest.raises(Exception, match=r"\[table.path-missing\].*none"):
        history(session, both).count()
    assert 15 == history(session, both, unreadable="skip").count()
    assert {"table.path-missing"} == {row["rule"] for row in findings(session, tmp_path / "none").collect()}
    assert 0 == history(session, []).count()


@pytest.mark.parametrize(
    "call",
    [
        lambda session, path: history(session, path, unreadable=cast("Any", "ignore")),
        lambda session, path: history(session, path, limit=-1),
        lambda session, _: history(session, 7),
        lambda session, path: files(session, path, version=cast("Any", "newest")),
        lambda session, path: findings(session, path, level="all"),
        lambda session, path: vacuum_plan(session, path, retention="7d"),
        lambda session, path: vacuum_plan(session, path, dry_run=False),
        lambda session, path: history(session, f"{path}/*/nothing"),
    ],
)
def test_wrong_arguments_are_refused_before_a_job(call: Any, session: Any, tmp_path: Path) -> None:
    make_sample(tmp_path / "trips")

    with pytest.raises(DeltacliError):
        call(session, str(tmp_path / "trips"))


def test_facts_of_a_policy_file_are_those_of_the_plan(session: Any, tmp_path: Path) -> None:
    for name in ("a", "b"):
        make_sample(tmp_path / "lake" / name)
    shutil.rmtree(tmp_path / "lake" / "b" / "_delta_log")
    (tmp_path / "lake" / "b" / "_delta_log").mkdir()
    policy = tmp_path / "fleet.toml"
    policy.write_text(
        "[policies.daily]\ncheckpoint = { commits = 3 }\n"
        f'[groups.all]\npolicy = "daily"\nprefixes = ["{tmp_path}/lake"]\n'
    )

    rows = {row["table"].rpartition("/")[2]: row for row in fleet_facts(session, policy, now=NOW).collect()}

    plan = plan_fleet(require_fleet_file(policy), open_storage, EmbeddedEngine(), NOW_MS)
    planned = {table.name.rpartition("/")[2]: table for table in plan.tables}
    facts = planned["a"].facts
    assert facts is not None
    assert ("all", "daily", facts.version, facts.log_bytes, facts.commits_behind, facts.expirable_files) == tuple(
        rows["a"][name] for name in ("group", "policy", "version", "logBytes", "commitsBehind", "expirableFiles")
    )
    problem = planned["b"].problem
    assert problem is not None
    assert rows["b"]["error"].startswith(problem.code)


def test_columns_say_what_they_are(session: Any, tmp_path: Path) -> None:
    make_sample(tmp_path / "trips")

    fields = detail(session, tmp_path / "trips").schema.fields

    assert all(field.metadata["comment"] for field in fields)
