"""A newest commit that is not a file: the version before it is not the newest one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.support import deltacli, make_sample


@pytest.mark.parametrize("make", [Path.mkdir, lambda place: place.symlink_to("nothing")], ids=["directory", "link"])
def test_no_command_takes_an_older_version_for_the_newest(make: Callable[[Path], object], tmp_path: Path) -> None:
    table = make_sample(tmp_path / "trips")
    *_, newest = sorted((table / "_delta_log").glob("*.json"))
    newest.unlink()
    make(newest)
    version = int(newest.stem)

    for line in ("snapshot", "read --limit 1", "checkpoint", "properties set delta.appendOnly=true --yes"):
        command, *words = line.split()
        done = deltacli(command, table, *words)
        assert (3, f"version {version} cannot be read: {newest.name} is not a file") == (
            done.code,
            done.err[done.err.index("version") :].splitlines()[0],
        )
    known = deltacli("history", table)
    assert (0, version - 1) == (known.code, int(known.out.splitlines()[1].split()[0]))
    assert f"version {version} is missing from the log: deltacli validate" in known.err
    found = deltacli("validate", table, "--select", "log.gap")

    assert 1 == found.code
    assert f"so version {version} cannot be read, and no commit can be made" in found.out
    assert 0 == deltacli("snapshot", table, "--version", str(version - 1)).code
