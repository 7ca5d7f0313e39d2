"""`DeltaTable` does what the methods of a table do, `maintain` what is due for one, and views have rows of versions."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli import open_table
from deltacli.core.errors import Refused, UsageError
from deltacli.spark import DeltaTable, maintain, register_tables
from tests.cli.support import make_sample
from tests.support.optimizing import Ids, rows_of
from tests.support.parquet_lake import lake

NOW = datetime(2036, 6, 1, tzinfo=UTC)


@pytest.fixture
def trips(tmp_path: Path) -> Path:
    return make_sample(tmp_path / "lake" / "trips")


def test_smoke_a_delta_table_has_the_methods_that_people_know(session: Any, trips: Path, capsys: Any) -> None:
    table = DeltaTable.forPath(session, trips, now=NOW)
    before = rows_of(open_table(trips))

    assert 1270 == table.toDF().count()
    assert [14, 13, 12] == [row["version"] for row in table.history(3).collect()]
    assert [(14, 21)] == [(row["version"], row["numFiles"]) for row in table.detail().collect()]
    made = table.checkpoint()
    assert 14 == made.version
    made.show()
    assert "written and read back" in capsys.readouterr().out
    compacted = table.optimize(commit_metadata={"ticket": "1"})
    assert (15, True) == (compacted.versions[0], table.optimize().plan.is_noop)
    compacted.show()
    assert "version 15" in capsys.readouterr().out
    assert before == rows_of(open_table(trips))
    assert 16 == table.restore(version=14).committed_version
    assert 17 == table.alter([{"change": "comment", "column": "trip", "comment": "number"}]).committed_version
    found = table.validate(select=["checkpoint.*"])
    assert () == found.findings
    found.show()
    assert "errors" in capsys.readouterr().out
    table.vacuum(dry_run=True).show()
    assert "time travel" in capsys.readouterr().out
    assert [] == table.repair(dry_run=True).steps
    assert before == rows_of(open_table(trips))


def test_clones_and_conversions_are_made_as_by_delta_spark(session: Any, trips: Path, tmp_path: Path) -> None:
    table, rows = DeltaTable.forPath(session, trips, now=NOW), rows_of(open_table(trips))

    shallow = table.clone(str(tmp_path / "shallow"), True)
    deep = table.clone(str(tmp_path / "deep"), isShallow=False)
    earlier = table.cloneAtVersion(13, str(tmp_path / "earlier"), isShallow=True)

    assert (1270, 1270) == (shallow.toDF().count(), deep.toDF().count())
    assert rows == rows_of(open_table(tmp_path / "deep"))
    assert "CLONE" == earlier.history(1).collect()[0]["operation"]
    with pytest.raises(UsageError, match="replace"):
        table.clone(str(tmp_path / "other"), True, replace=True)
    deep.generate("symlink_format_manifest")
    assert [*(tmp_path / "deep" / "_symlink_format_manifest").rglob("manifest")]
    place = tmp_path / "plain" / "day=2026-01-01"
    place.mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2]}), place / "one.parquet")
    for _ in range(2):  # the second one finds a table
        converted = DeltaTable.convertToDelta(session, f"parquet.`{tmp_path}/plain`", "day date")
        assert [(1, date(2026, 1, 1)), (2, date(2026, 1, 1))] == sorted(map(tuple, converted.toDF().collect()))


def test_what_is_refused_raises_the_error_of_the_api(session: Any, trips: Path) -> None:
    table = DeltaTable.forPath(session, trips, now=NOW)

    with pytest.raises(Refused, match="retention"):
        table.vacuum(retention_ms=0)
    with pytest.raises(Refused):
        table.widenType(("trip", "decimal(20,0)"))
    with pytest.raises(TypeError, match="retention_hours"):
        table.vacuum(retention_hours=0)


def _policy(place: Path, *lines: str) -> Path:
    policy = place / "fleet.toml"
    policy.write_text(
        "\n".join(
            [
                "[policies.daily]",
                "checkpoint = { commits = 4 }",
                *lines,
                "[groups.all]",
                'policy = "daily"',
                f'prefixes = ["{place}/lake"]',
            ]
        )
    )
    return policy


def test_smoke_what_is_due_for_a_table_is_done_once(session: Any, trips: Path, capsys: Any) -> None:
    other = trips.parent / "other"
    shutil.copytree(trips, other)
    policy = _policy(trips.parents[1], 'vacuum = { every = "1d", consent = true, max-delete = "100%" }')
    journal = trips.parents[1] / "state"

    first = maintain(session, trips, policy, state=journal, now=NOW)
    second = maintain(session, trips, policy, state=journal, now=NOW, yes=True)
    third = maintain(session, trips, policy, state=journal, now=NOW, yes=True)

    assert {"checkpoint": "done", "vacuum": "refused"} == {kind: state for kind, state, _ in first.steps}
    assert {"vacuum": "done"} == {kind: state for kind, state, _ in second.steps}
    assert () == third.steps
    assert third.is_done
    assert not first.is_done
    first.show()
    assert "checkpoint" in capsys.readouterr().out
    assert 10 == json.loads((other / "_delta_log" / "_last_checkpoint").read_text())["version"]


def test_a_job_does_not_fail_unless_asked(session: Any, trips: Path, tmp_path: Path) -> None:
    policy = _policy(tmp_path)

    left = maintain(session, trips, policy, time_budget=timedelta(0), state=tmp_path / "s", now=NOW)
    outside = maintain(session, tmp_path / "elsewhere", policy, state=tmp_path / "s", now=NOW)

    assert not left.is_done
    assert left.report is not None
    assert 1 == left.report.left
    assert outside.error is not None
    assert "no group of" in outside.error.message
    with pytest.raises(UsageError, match="no group of"):
        maintain(session, tmp_path / "elsewhere", policy, raises=True)


def test_registered_tables_are_views_of_one_version(session: Any, tmp_path: Path) -> None:
    ids = Ids()
    ids.append("a", rows=5)
    one = ids.builder.write(tmp_path / "one")
    make_sample(tmp_path / "two")

    register_tables(session, {"first_table": one, "second_table": tmp_path / "two"})
    shutil.rmtree(one / "_delta_log")

    assert [(5,)] == [tuple(row) for row in session.sql("select count(*) from first_table").collect()]
    query = "select count(*) from second_table where day = '2026-01-01'"
    assert 0 < session.sql(query).collect()[0][0] < 1270


@pytest.mark.parametrize("call", [lambda: DeltaTable.forPath(None, "tbl"), lambda: maintain(None, "tbl", "f.toml")])
def test_what_is_no_session_is_refused(call: Callable[[], Any]) -> None:
    with pytest.raises(UsageError, match="not a Spark session"):
        call()


def test_parquet_files_become_a_table_with_manifests_by_the_names_of_delta_spark(session: Any, tmp_path: Path) -> None:
    place = lake(tmp_path / "files")
    by_type = session.createDataFrame([], "day date, c string").schema

    table = DeltaTable.convertToDelta(session, f"parquet.`{place}`", by_type)

    assert 7 == table.toDF().count()
    assert {"A/B", None, "x y%", "=", "001"} == {row["c"] for row in table.toDF().select("c").collect()}
    assert 0 == open_table(place).snapshot().version
    DeltaTable.convertToDelta(session, f"parquet.`{place}`", "day date, c string")
    table.generate("symlink_format_manifest")
    assert open_table(place).plan_manifest().is_noop
    with pytest.raises(UsageError):
        table.generate("other")
    with pytest.raises(UsageError):
        DeltaTable.convertToDelta(session, "db.table")
