"""A lake of many tables, some of them damaged: what is due is done once, and damaged tables are reported and kept."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.fleet.lake import live_digest
from tests.fleet.large_lake import KINDS, POLICY, LargeLake, digests_of, steps_of, write_large_lake
from tests.support.peak import Run, deltacli
from tests.support.peers import Task, ask_for_rows, peer_python
from tests.support.s3 import S3Server

MENDED = {"damaged-empty_the_hint", "damaged-garble_the_hint"}
"""Tables whose damage ends with the checkpoint that is due for it; the same run serves them."""


def fleet(lake: LargeLake, *arguments: str) -> Run:
    return deltacli("fleet", arguments[0], lake.root / "fleet.toml", *arguments[1:], "--json")


AT_ONCE = 100
"""Tables that a process of deltalake reads; its time is limited."""


def rows_of(locations: Mapping[str, str], place: Path) -> dict[str, bytes]:
    """Return the rows of tables as deltalake reads them, as the bytes of Arrow files. Takes locations by name."""
    python = peer_python()
    if python is None:
        return {}
    rows: dict[str, bytes] = {}
    tasks = [Task(name, location, None) for name, location in locations.items()]
    for number, start in enumerate(range(0, len(tasks), AT_ONCE)):
        (place / str(number)).mkdir(parents=True)
        found = ask_for_rows(python, "rows_with_deltalake.py", tasks[start : start + AT_ONCE], place / str(number))
        assert [] == [one for one in found if one.place is None]
        rows |= {one.task.table: one.place.read_bytes() for one in found if one.place is not None}
    return rows


def serves(lake: LargeLake, tmp_path: Path, record: list[str]) -> None:
    """Plan and run twice, and compare everything before and after."""
    kinds = dict(lake.healthy)
    damaged = {name: digests_of(lake.at(name)) for name in lake.names["damaged"]}
    locations = {name: str(lake.at(name)) for name in kinds}
    rows = rows_of(locations, tmp_path / "before")
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
    assert [name for name in damaged if name not in MENDED] == [name for name in kept if name not in MENDED]
    assert set(damaged) - MENDED == set(left)
    reported = {name for name in damaged if "problem" in done[name] or done[name]["validate"] == "findings"}
    assert set(damaged) - MENDED == reported
    for name in left:
        assert damaged[name].items() <= digests_of(lake.at(name)).items(), name
    assert rows == rows_of(locations, tmp_path / "after")
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


@pytest.mark.soak
def test_a_thousand_tables_on_s3_are_served(
    tmp_path: Path, s3: S3Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")  # for deltalake
    monkeypatch.delenv("AWS_MAX_ATTEMPTS")
    bucket = s3.make_bucket()
    lake = write_large_lake(tmp_path, 1_000, 20, adds=1_000_000)
    for path in sorted((tmp_path / "lake").rglob("*")):
        if path.is_file():
            s3.put(bucket, str(path.relative_to(tmp_path)), path.read_bytes())
    policy = POLICY.replace('"lake/', f'"s3://{bucket}/lake/')  # objects have the time of their upload
    (tmp_path / "fleet.toml").write_text(
        policy.replace('fail-on = "warning"', 'fail-on = "warning", ignore = ["log.mtime-*"]')
    )
    kinds, damaged = dict(lake.healthy), {f"lake/{name}/" for name in lake.names["damaged"]}
    before = tags_of(s3, bucket)
    locations = {name: f"s3://{bucket}/lake/{name}" for name in kinds}
    rows = rows_of(locations, tmp_path / "before")

    plan, first, again = (fleet(lake, *words) for words in (["plan"], ["run", "--yes"], ["run", "--yes"]))
    after = tags_of(s3, bucket)

    with capsys.disabled():
        os.write(1, f"\nS3: {', '.join(f'{one.seconds:.1f} s' for one in (plan, first, again))}\n".encode())
    due, done, left = (steps_of(one.json) for one in (plan, first, again))
    young = {name: [step for step in KINDS[kind] if step != "log-expire"] for name, kind in kinds.items()}
    assert young == {name: list(due[name]) for name in kinds} == {name: list(done[name]) for name in kinds}
    assert {"done", "nothing"} == {state for name in kinds for state in done[name].values()}
    assert set(left) <= set(lake.names["damaged"])
    assert set(lake.names["damaged"]) - MENDED <= set(left)
    assert [] == [name for name in lake.names["damaged"] if done[name].get("validate") not in (None, "findings")]
    assert [] == [key for key in before if key.startswith(tuple(damaged)) and after.get(key) != before[key]]
    assert [] == [key for key in before if "part-" in key and after.get(key) != before[key]]
    assert rows == rows_of(locations, tmp_path / "after")


def tags_of(s3: S3Server, bucket: str) -> dict[str, str]:
    """Return the digest of every object but of hints, which may be replaced."""
    found = s3.objects(bucket)
    return {
        key: hashlib.sha256(data).hexdigest() for key, data in found.items() if not key.endswith("_last_checkpoint")
    }
