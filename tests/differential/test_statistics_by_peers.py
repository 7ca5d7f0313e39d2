"""Rows that duckdb and deltalake lose by wrong statistics: what the rules call lost is lost.

The same table without statistics gives the row, so that it is the statistics that lose it. Neither peer can be asked
about NaN, which both lose by the footer, nor about floats that became doubles: duckdb compares them as floats, and
deltalake does not open the table.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rules import corruptions_statistics_files as corruptions
from tests.rules.table_builder import TableBuilder
from tests.support.peers import ENVIRONMENT_VARIABLE, SCRIPTS, peer_python

LOST: dict[Callable[[], TableBuilder], tuple[str, tuple[str, ...]]] = {
    # Damage -> a filter for one row, and who does not find it.
    corruptions.least_id_below_the_minimum: ("id = 40", ("duckdb", "deltalake")),
    corruptions.name_above_a_maximum_that_was_merely_cut: ("name = 'name 41'", ("duckdb", "deltalake")),
    corruptions.no_null_where_there_is_one: ("id = 40 AND name IS NULL", ("deltalake",)),
    corruptions.nulls_alone_where_there_are_names: ("name = 'name 45'", ("duckdb", "deltalake")),
    corruptions.decimal_that_went_through_a_double: ("x > 1234567890123456700", ("duckdb", "deltalake")),
    corruptions.time_two_milliseconds_above_the_maximum: (
        "x = TIMESTAMPTZ '2026-01-01T12:00:00.001Z'",
        ("deltalake",),
    ),
    corruptions.nested_value_above_the_maximum: ("x.y = 3", ("duckdb", "deltalake")),
}


@pytest.mark.skipif(peer_python() is None, reason=f"{ENVIRONMENT_VARIABLE} names no environment with peers")
def test_peers_lose_the_rows(tmp_path: Path) -> None:
    tasks = []
    for number, (make, (where, peers)) in enumerate(LOST.items()):
        table = make()
        wrong = table.write(tmp_path / f"wrong{number}")
        table.add(3).pop("stats")
        right = table.write(tmp_path / f"right{number}")
        tasks += [
            {"peer": peer, "path": str(path), "where": where, "expected": expected}
            for peer in peers
            for path, expected in ((wrong, 0), (right, 1))
        ]

    done = subprocess.run(
        [str(peer_python()), str(SCRIPTS / "count_where.py")],
        input="".join(json.dumps(task) + "\n" for task in tasks),
        capture_output=True,
        text=True,
        check=True,
    )

    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [] == [answer for answer in answers if answer["expected"] != answer["rows"]]
    assert len(tasks) == len(answers)
