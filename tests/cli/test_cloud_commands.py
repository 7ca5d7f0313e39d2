"""Every command on every cloud by its URI: the exit codes, documents and files of a local copy."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from deltacli.cli.app import run
from deltacli.cli.command_table import COMMANDS
from deltacli.storage import open_storage
from tests.support.clouds import CLOUDS, cloud_of, plain, sample_at

Capture = pytest.CaptureFixture[bytes]

LINES = (
    "history {t} --limit 0",
    "snapshot {t} --files --tombstones",
    "snapshot {t} --version 11 --digest",
    "read {t} --columns trip,day --where trip>500",
    "changes {t} --from 11",
    "schema show {t}",
    "log cat {t} 3",
    "features {t}",
    "properties {t}",
    "validate {t} --level data",
    "vacuum {t} --dry-run --files",
    "doctor access {t}",
    "log crc {t}",
    "log compact {t} --from 1 --to 4",
    "log backup {t} {b}",
    "log backup {t} {b} --full",
    "undelete {t} --from {b} --dry-run",
    "diff {t} 3 11",
    "reach {t} --retention 7d",
    "explain {t}",
    "doctor table {t} --no-listing -q",
    "restore {t} --version 11 --yes",
    "properties {t} set kept=yes --yes",
    "checkpoint {t}",
    "widen-type {t} ride.fare decimal(10,2) --enable --upgrade-protocol --yes",
    "features {t} add columnMapping --yes",
    "optimize {t} --dry-run",
    "stats {t} --dry-run",
    "manifest {t} --check",
    "convert {t} --dry-run",
    "clone {t} {t}/inside --dry-run",
    "copy {t} {c}",
    "copy {t} {c} --check --level data",
    "snapshot {c} --digest",
    "repair {t} --from {b} --yes",
    "vacuum {t} --yes --max-delete 100%",
    "log expire {t} --yes",
    "log crc {t}",
    "doctor storage {t} --yes",
    "doctor access {t} --yes",
    "snapshot {r}",
    "log restore {r} {b} --dry-run",
    "log restore {r} {b} --yes",
    "history {r} --limit 0",
    "snapshot {r} --digest",
    "log backup {t} {b}",
    "schema diff {t} {r}",
    "read {t} --output {o}/ --format parquet",
    "validate {t} --level data",
)
"""Of a table, the places of a backup and of a copy, a table that is restored, and a directory for results."""
ON_CLOUDS = set(COMMANDS) - {"alter", "completion", "schema convert", "spark package", "streams"}
"""Without those of Paimon and those of no table, and `streams`, whose checkpoints no other command makes; `catalog`,
`fleet` and `share` have their own tests.
"""
OF_A_RUN = (
    "ms",
    "timestamp",
    "sha256",
    "cutoff",
    "seen",
    "planid",
    "txnid",
    "commitsizebytes",
    "uncommitted",
    "expected",
    "summary",
    "sentence",
    "seconds",
)
"""Keys whose values differ from run to run, or by what a store keeps of the times of files."""
OF_A_FROZEN_CLOCK = ("log.mtime-order", "log.mtime-vs-commitinfo")
BY_THE_CLOCK = ("vacuum {t} --yes", "log expire", "doctor storage", "validate")
"""Commands that judge by the times of files, which Azurite sets itself."""
OF_A_STORE = ("doctor", "log backup", "log restore")
"""Commands whose documents describe the store, or times that only local disks keep: their exit codes are compared."""

OF_ONE_FORMAT = ("log cat",)


def told(lines: tuple[str, ...], places: dict[str, str], capture: Capture, *options: str) -> Iterator[tuple[str, Any]]:
    """The exit code and the documents of each command."""
    for line in lines:
        words = [word.format(**places) for word in line.split()]
        has_form = "--format" in words or line.startswith(OF_ONE_FORMAT)
        form = [] if has_form else ["--format", "json"]
        code = run([*words, *form, "-q", *options])
        out, err = (stream.decode() for stream in capture.readouterr())
        assert "Traceback" not in err, (line, err)
        # A store has no directory to look at.
        err = re.sub(r'"hint":"(ls|deltacli help table.path-missing)[^"]*","command":[^,}]*', '"hint":null', err)
        documents = [json.loads(out)] if out.startswith("{") and not line.startswith(OF_ONE_FORMAT) else [out]
        is_of_a_store = line.startswith(OF_A_STORE)
        yield (
            line,
            (
                code,
                [] if is_of_a_store else [comparable(row, places) for row in documents],
                comparable(err if code else "", places),
            ),
        )


def comparable(value: Any, places: dict[str, str], key: str = "") -> Any:
    """A value without what differs from run to run."""
    if any(word in key.lower() for word in OF_A_RUN):
        return None
    if isinstance(value, dict):
        return {name: comparable(inner, places, name) for name, inner in sorted(value.items())}
    if isinstance(value, list):
        kept = (each for each in value if not (isinstance(each, dict) and each.get("rule") in OF_A_FROZEN_CLOCK))
        return [comparable(inner, places) for inner in kept]
    if isinstance(value, str):
        for name, place in places.items():
            value = value.replace(place, name).replace("file://", "")
        return plain(value)
    return value


def test_the_lines_have_every_command_that_clouds_have() -> None:
    named = {path for path in ON_CLOUDS if any(f"{line} ".startswith(f"{path} ") for line in LINES)}

    assert set() == {path for path in ON_CLOUDS - named if not path.startswith(("catalog", "fleet", "share"))}


IN_THE_GATE = (
    "log crc",
    "log compact",
    "log backup {t} {b}",
    "checkpoint",
    "vacuum {t} --yes",
    "log expire",
    "log restore",
)


def check_lines(
    lines: tuple[str, ...], store: str, request: pytest.FixtureRequest, place: Path, capture: Capture
) -> None:
    """Run commands on a local copy and on one in a cloud, and compare what they say and what they leave."""
    cloud = cloud_of(store, request, shutil.copytree(sample_at(place / "t"), place / "copy"))
    names = {"t": "t", "b": "backups/b", "r": "r", "o": "out", "c": "copies/c"}
    local = {name: f"{place}/{path}" for name, path in names.items()}
    remote = {name: f"{cloud.uri[:-1]}{path}" for name, path in names.items()}
    options = [word for name, text in cloud.options.items() for word in ("--storage-option", f"{name}={text}")]
    now = datetime.fromtimestamp(cloud.now_ms / 1_000, UTC).isoformat()

    expected = told(lines, local, capture)
    found = told(lines, remote, capture, "--now", now, *options)

    for here, there in zip(expected, found, strict=True):
        assert here == there
    for name in filter(lambda name: Path(local[name]).exists(), names):
        assert files_below(open_storage(local[name])) == files_below(open_storage(remote[name], cloud.options))


@pytest.mark.halved
def test_commands_by_the_uris_of_a_cloud_say_and_do_the_same_as_on_a_local_disk(
    request: pytest.FixtureRequest, tmp_path: Path, capsysbinary: Capture
) -> None:
    lines = tuple(line for line in LINES if line.startswith(IN_THE_GATE))

    check_lines(lines, "gcs by its text", request, tmp_path, capsysbinary)


@pytest.mark.soak
@pytest.mark.parametrize("store", CLOUDS)
def test_every_command_on_every_cloud_says_and_does_the_same_as_on_a_local_disk(
    store: str, request: pytest.FixtureRequest, tmp_path: Path, capsysbinary: Capture
) -> None:
    lines = tuple(line for line in LINES if store != "azurite" or not line.startswith(BY_THE_CLOCK))

    check_lines(lines, store, request, tmp_path, capsysbinary)


def files_below(storage: Any) -> list[str]:
    """The names of the files of a store, without what differs from run to run."""
    found = (
        plain(f"{entry.directory}/{name}") for entry in storage.walk("", lambda _, names: names) for name in entry.names
    )
    return sorted(re.sub(r"part-(\d+)-[0-9a-f]{16}-[0-9a-f]{32}", r"part-\1", name) for name in found)
