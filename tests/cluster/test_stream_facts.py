"""The frame of streaming queries has what the operation returns of each table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deltacli import open_table
from deltacli.core.machine import fixed_clock
from deltacli.spark import streams
from tests.cli.support import make_sample
from tests.cluster.test_facts import NOW, NOW_MS
from tests.support.stream_checkpoints import offset, write_checkpoint


def test_the_frame_has_the_sources_of_each_table(session: Any, tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("a", "b")]
    for path in paths:
        make_sample(Path(path))
    table_id = open_table(paths[0]).snapshot().metadata.id
    write_checkpoint(tmp_path / "chk" / "orders", [offset(table_id, 13), offset(table_id, 14, 0)])
    checkpoints = [str(tmp_path / "chk" / "*")]

    rows = [row.asDict() for row in streams(session, paths, checkpoints=checkpoints, now=NOW).collect()]

    # A copy has the id of its table, so the query may read either.
    assert {Path(path).as_uri() for path in paths} == {row["table"] for row in rows}
    for row in rows:
        table = open_table(row["table"], clock=fixed_clock(NOW_MS))
        (expected,) = table.streams(checkpoints=checkpoints).rows()
        kept = {name: value for name, value in row.items() if name != "safeUntil"}
        assert kept == {name: expected[name] for name in kept}
