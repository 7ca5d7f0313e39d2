"""The frame of streaming queries has what the operation returns of each table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deltacli import open_table
from deltacli.core.clock import fixed_clock
from deltacli.spark import streams
from tests.cluster.test_facts import NOW, NOW_MS
from tests.golden import places


def test_the_frame_has_the_sources_of_each_table(session: Any, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        places.streamed(tmp_path / name)
    paths = [str(tmp_path / name / "tbl") for name in ("a", "b")]
    checkpoints = [str(tmp_path / "a" / "chk" / "*")]

    rows = [row.asDict() for row in streams(session, paths, checkpoints=checkpoints, now=NOW).collect()]

    # A copy has the id of its table, so the query may read either.
    assert {Path(path).as_uri() for path in paths} == {row["table"] for row in rows}
    for row in rows:
        table = open_table(row["table"], clock=fixed_clock(NOW_MS))
        (expected,) = table.streams(checkpoints=checkpoints).rows()
        kept = {name: value for name, value in row.items() if name != "safeUntil"}
        assert kept == {name: expected[name] for name in kept}
