"""A fleet on the cluster leaves what a fleet in this process leaves: steps, files of every table, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cluster.commands import run
from tests.fleet.lake import DAMAGED, HEALTHY, data_files, live_digest, tree_of, write_lake
from tests.support.clusters import Cluster

COPIES = 2


def fleet(root: Path, *options: str) -> tuple[int, Any]:  # Any: JSON values
    """Write a lake and run its policy file; return the exit code and the document."""
    write_lake(root, COPIES)
    done = run("fleet", "run", str(root / "fleet.toml"), "--yes", "--json", *options)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def left_in(root: Path) -> dict[str, object]:
    """Return what is left of every table: data files, live files and checkpoints; of damaged ones every byte."""
    names = [f"{name}-{number}" for name in HEALTHY for number in range(COPIES)]
    lake = root / "lake"
    found: dict[str, object] = {
        name: (
            data_files(lake / name),
            live_digest(lake / name),
            len(list(lake.glob(f"{name}/*/*.checkpoint.parquet"))),
        )
        for name in names
    }
    return found | {
        f"{name}-{number}": tree_of(lake / f"{name}-{number}") for name in DAMAGED for number in range(COPIES)
    }


def steps_in(document: Any) -> object:  # Any: JSON values
    return {
        Path(table["table"]).name: table.get("problem", {}).get("code")
        or [(step["kind"], step["state"], step["exit"]) for step in table["steps"]]
        for table in document["tables"]
    }


def test_a_fleet_has_the_same_outcome_on_the_cluster(cluster: Cluster, tmp_path: Path) -> None:
    here_code, here = fleet(tmp_path / "here")
    there_code, there = fleet(tmp_path / "there", *cluster.options)

    assert (5, 5) == (here_code, there_code)
    assert 12 == len(here["tables"])
    assert steps_in(here) == steps_in(there)
    assert {**here["summary"]} == {**there["summary"]}
    assert left_in(tmp_path / "here") == left_in(tmp_path / "there")
