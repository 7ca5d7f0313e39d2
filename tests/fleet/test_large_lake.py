"""A lake of many tables, some of them damaged: what is due is done once, and damaged tables are reported and kept."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.fleet.lake import live_digest
from tests.fleet.large_lake import KINDS, LargeLake, digests_of, steps_of, write_large_lake
from tests.support.peak import Run, deltacli
from tests.support.peers import Task, ask_for_rows, peer_python

MENDED = {"damaged-empty_the_hint", "damaged-garble_the_hint"}
"""Tables whose damage ends with the checkpoint that is due for it; the next run serves them."""


def fleet(lake: LargeLake, *arguments: str) -> Run:
    return deltacli("fleet", arguments[0], lake.root / "fleet.toml", *arguments[1:], "--json")


def rows_of(lake: LargeLake, names: list[str], place: Path) -> dict[str, bytes]:
    """Return the rows of tables as deltalake reads them, as the bytes of Arrow files."""
    python = peer_python()
    if python is None:
        return {}
    place.mkdir()
    tasks = [Task(name, str(lake.at(name)), None) for name in names]
    found = ask_for_rows(python, "rows_with_deltalake.py", tasks, place)
    assert [] == [rows for rows in found if rows.place is None]
    return {rows.task.table: rows.place.read_bytes() for rows in found if rows.place is not None}


def serves(lake: LargeLake, tmp_path: Path, record: list[str]) -> None:
    """Plan and run twice, and compare everything before and after."""
    kinds = dict(lake.healthy)
    damaged = {name: digests_of(lake.at(name)) for name in lake.names["damaged"]}
    rows = rows_of(lake, list(kinds), tmp_path / "before")
    live = {name: live_digest(lake.at(name)) for name in lake.names["large"]}

    plan = fleet(lake, "plan")
    first = fleet(lake, "run", "--yes")
    kept = [name for name, files in damaged.items() if files.items() <= digests_of(lake.at(name)).items()]
    again = fleet(lake, "run", "--yes")
    record += [f"{one.seconds:.1f} s, {one.extra_mib} MiB above a snapshot" for one in (plan, first, again)]

    due, done, left = (steps_of(one.json) for one in (plan, first, again))
    assert {name: KINDS[kind] for name, kind in kinds.items()} == {name: list(due[name]) for name in kinds}
    assert {name: list(steps) for name, steps in due.items() if steps} == {n: list(s) for n, s in done.items()}
    assert {"done", "nothing"} == {state for name in kinds for state in done[name].values()}
    assert {"nothing"} == {done[name]["vacuum"] for name in lake.names["one"]}
    assert {"done"} == {done[name]["vacuum"] for name in kinds if name not in lake.names["one"]}
    assert list(damaged) == kept
    assert set(damaged) - MENDED == set(left) - MENDED
    assert not set(left) - set(damaged)
    assert [] == [name for name in damaged if "problem" not in done[name] and done[name]["validate"] != "findings"]
    for name in set(left) - MENDED:
        assert damaged[name].items() <= digests_of(lake.at(name)).items(), name
    assert rows == rows_of(lake, list(kinds), tmp_path / "after")
    assert live == {name: live_digest(lake.at(name)) for name in lake.names["large"]}
    assert (5, 5) == (first.code, again.code)


@pytest.mark.long
def test_a_lake_is_served_and_its_damaged_tables_are_kept(tmp_path: Path) -> None:
    serves(write_large_lake(tmp_path, 40, 6), tmp_path, [])


@pytest.mark.soak
def test_a_thousand_tables_are_served(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures: list[str] = []

    serves(write_large_lake(tmp_path, 1_000, 20, adds=1_000_000), tmp_path, figures)

    with capsys.disabled():
        os.write(1, f"\nplan, run, run of 1,000 tables: {'; '.join(figures)}\n".encode())


@pytest.mark.soak
def test_memory_of_a_plan_grows_little_with_the_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = fleet(write_large_lake(tmp_path / "small", 1_000, 0), "plan")
    large = fleet(write_large_lake(tmp_path / "large", 10_000, 0), "plan")

    with capsys.disabled():
        os.write(1, f"\nplans: {small.seconds:.1f} s, {small.extra_mib} MiB; {large.seconds:.1f} s, ".encode())
        os.write(1, f"{large.extra_mib} MiB\n".encode())
    assert 10 > small.seconds
    assert 300 > small.extra_mib
    assert 6 * 9_000 / 1_024 > large.extra_mib - small.extra_mib
    assert 10_000 == len(json.loads(large.out)["tables"])
