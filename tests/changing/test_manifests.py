"""Symlink manifests: what they name, which tables cannot have any, and commits that they follow."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from deltacli.api.table import Table, open_table
from deltacli.changing.change import execute_change
from deltacli.changing.manifests import ManifestsOutcome, write_manifests_of_newest_version
from deltacli.changing.outcome import require_complete
from deltacli.cli.app import run
from deltacli.core.errors import DeltacliError, PartlyDone, PermissionRefused, Refused
from deltacli.operations.change.manifest import Manifests
from deltacli.storage import Failed, LocalStorage
from tests.docs.test_schemas import faults
from tests.support.actions import add, commit_info
from tests.support.faulty import Fault
from tests.support.optimizing import Ids
from tests.support.reading import open_at
from tests.support.vacuuming import Killed, MortalStorage

Capture = pytest.CaptureFixture[bytes]
FOLLOWS = {"delta.compatibility.symlinkFormatManifest.enabled": "true"}
HOME = "_symlink_format_manifest"
MAPPED = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "9"}


def manifests(place: Path) -> dict[str, list[str]]:
    """The files that each manifest names, below the table."""
    root = f"file:{place}/"
    return {
        path.parent.relative_to(place / HOME).as_posix(): [
            line.removeprefix(root) for line in path.read_text().splitlines()
        ]
        for path in sorted(place.glob(f"{HOME}/**/manifest"))
    }


def partitioned(place: Path, **how: Any) -> Path:
    """Files of three partitions, one of them with a name that the log encodes."""
    table = Ids(**how).append("a").append("b%20c", p="x/y%").append("d", p=None).append("e")
    return table.builder.write(place / "t")


PARTITIONED = {"p=0": ["a", "e"], "p=__HIVE_DEFAULT_PARTITION__": ["d"], "p=x%2Fy%25": ["b c"]}


def test_each_partition_has_a_list_of_its_decoded_paths(tmp_path: Path) -> None:
    place = partitioned(tmp_path)

    outcome = open_table(place).manifest()

    assert PARTITIONED == manifests(place)
    assert {"written": 3, "deleted": 0, "unchanged": 0} == outcome.as_json()["manifests"]
    assert open_table(place).plan_manifest().is_noop


def test_a_table_without_partitions_has_one_even_if_it_is_empty(tmp_path: Path) -> None:
    place = Ids(partitioned=False).builder.write(tmp_path / "t")

    open_table(place).manifest()

    assert {".": []} == manifests(place)


def test_other_spellings_of_the_same_files_are_left_alone(tmp_path: Path) -> None:
    place = partitioned(tmp_path)
    open_table(place).manifest()
    manifest = place / HOME / "p=0" / "manifest"
    manifest.write_text(f"file:{place}/e\nfile:{place}/a\n")

    assert open_table(place).plan_manifest().is_noop


@pytest.mark.parametrize(
    ("lines", "lacks", "stale"),
    [("a", 1, 0), ("a e gone", 0, 1), ("a e e", 0, 1), ("a /other/e", 1, 1), ("", 2, 0)],
)
def test_a_list_that_differs_is_counted_and_replaced(lines: str, lacks: int, stale: int, tmp_path: Path) -> None:
    place = partitioned(tmp_path)
    open_table(place).manifest()
    path = place / HOME / "p=0" / "manifest"
    (path.parent / ".manifest.crc").write_bytes(b"of Hadoop")
    path.write_text("".join(f"file://{line if line[0] == '/' else place / line}\n" for line in lines.split()))

    outcome = open_table(place).manifest()

    assert [(f"{HOME}/p=0/manifest", "differs", lacks, stale)] == [tuple(one) for one in outcome.plan.differences]
    assert PARTITIONED == manifests(place)
    assert not (path.parent / ".manifest.crc").exists()


def test_lists_of_partitions_without_files_are_deleted(tmp_path: Path) -> None:
    place = partitioned(tmp_path)
    open_table(place).manifest()
    other = place / HOME / "p=9" / "q=1"
    other.mkdir(parents=True)
    (other / "manifest").write_text("")
    (place / HOME / "notes.txt").write_text("of somebody")

    outcome = open_table(place).manifest()

    assert (0, 1) == (outcome.written, outcome.deleted)
    assert PARTITIONED == manifests(place)
    assert not (place / HOME / "p=9").exists()
    assert (place / HOME / "notes.txt").exists()


def test_deleted_rows_and_column_mapping_are_refused_with_a_way_out(tmp_path: Path) -> None:
    vectors = Ids().append("a", deleted=(1,)).builder.write(tmp_path / "v")
    mapped = Ids("columnMapping", configuration=MAPPED).append("a").builder.write(tmp_path / "m")

    for place, code, way_out in (
        (vectors, "manifests.vectors", "optimize"),
        (mapped, "manifests.column-mapping", "columnMapping"),
    ):
        with pytest.raises(Refused) as refused:
            open_table(place).manifest()
        assert code == refused.value.code
        assert way_out in (refused.value.hint or "")
        assert not (place / HOME).exists()


def test_the_command_checks_writes_and_asks(tmp_path: Path, capsysbinary: Capture) -> None:
    place = str(partitioned(tmp_path))

    codes = [run(["manifest", place, *words.split()]) for words in ("--check", "--dry-run", "", "--yes", "--check")]

    assert [1, 0, 4, 0, 0] == codes
    capsysbinary.readouterr()
    run(["manifest", place, "--check", "--json"])
    assert [] == faults(json.loads(capsysbinary.readouterr().out), "deltacli.manifest")


@pytest.mark.parametrize("words", ["optimize T", "restore T --version 2"])
def test_a_table_with_the_property_gets_its_lists_with_each_commit_of_files(
    words: str, tmp_path: Path, capsysbinary: Capture
) -> None:
    place = partitioned(tmp_path, configuration=FOLLOWS)

    assert 0 == run([*words.replace("T", str(place)).split(), "--yes"])

    assert open_table(place).plan_manifest().is_noop
    assert set(manifests(place)) - {"p=__HIVE_DEFAULT_PARTITION__"} == {"p=0", "p=x%2Fy%25"}
    assert b"manifest" not in capsysbinary.readouterr().err


def test_a_list_that_cannot_follow_is_said_and_undoes_nothing(tmp_path: Path, capsysbinary: Capture) -> None:
    place = partitioned(tmp_path, configuration=FOLLOWS)
    (place / HOME).write_text("not a directory")

    code = run(["optimize", str(place), "--yes", "--json"])

    out, err = capsysbinary.readouterr()
    (caution,) = json.loads(out)["cautions"]
    assert (0, 5) == (code, open_table(place).snapshot().version)
    assert f"deltacli manifest file://{place}" in caution
    assert caution in err.decode()


def test_a_run_that_fails_claims_no_list_that_it_has_not_written(tmp_path: Path, capsysbinary: Capture) -> None:
    place = partitioned(tmp_path)
    (place / HOME / "p=9").mkdir(parents=True)
    (place / HOME / "p=9" / "manifest").write_text("")
    (place / HOME / "p=0").write_text("not a directory")

    assert 5 == run(["manifest", str(place), "--yes", "--json"])

    out, _ = capsysbinary.readouterr()
    done = json.loads(out)["manifests"]
    assert (True, 0) == (done["written"] < len(PARTITIONED), done["deleted"])
    assert (place / HOME / "p=9" / "manifest").exists()


@pytest.mark.parametrize(
    ("written", "deleted", "error"), [(1, 0, PartlyDone), (0, 1, PartlyDone), (0, 0, PermissionRefused)]
)
def test_a_list_that_nobody_may_delete_is_an_error_of_its_own_only_where_nothing_else_was_done(
    tmp_path: Path, written: int, deleted: int, error: type[DeltacliError]
) -> None:
    outcome = ManifestsOutcome(Manifests().plan(open_table(partitioned(tmp_path))), written, deleted)
    outcome.failures.add(f"{HOME}/p=9/manifest", Failed("denied", PermissionRefused("denied")))

    with pytest.raises(error) as raised:
        require_complete(outcome)

    assert error is type(raised.value)


def test_what_commits_no_files_writes_no_lists(tmp_path: Path) -> None:
    place = partitioned(tmp_path, configuration=FOLLOWS)

    assert 0 == run(["properties", str(place), "set", "a=b", "--yes"])

    assert {} == manifests(place)


def test_a_run_that_dies_leaves_each_list_old_or_new_and_is_ended_by_the_next(tmp_path: Path) -> None:
    counting = MortalStorage(LocalStorage(str(partitioned(tmp_path / "counted"))))
    execute_change(Manifests(), open_at(counting))

    for at in range(1, len(counting.calls) + 1):
        place = partitioned(tmp_path / str(at))
        old = place / HOME / "p=0" / "manifest"
        old.parent.mkdir(parents=True)
        old.write_text(f"file:{place}/a\n")
        with suppress(Killed):
            dying = MortalStorage(LocalStorage(str(place)), at, Fault.KILLED_BEFORE, dies=True)
            execute_change(Manifests(), open_at(dying))
        found = manifests(place)
        assert found.pop("p=0") in (["a"], ["a", "e"])
        assert found.items() <= PARTITIONED.items()
        Table(LocalStorage(str(place))).manifest()
        assert PARTITIONED == manifests(place)


def test_a_table_that_gets_the_property_gets_its_lists(tmp_path: Path) -> None:
    place = partitioned(tmp_path)

    vectors_off = "delta.enableDeletionVectors=false"
    assert 0 == run(["properties", str(place), "set", f"{next(iter(FOLLOWS))}=true", vectors_off, "--yes"])

    assert PARTITIONED == manifests(place)


@pytest.mark.parametrize("words", ["undelete T --from COPY --yes", "log restore T BACKUP --yes"])
@pytest.mark.parametrize("follows", [True, False])
def test_commits_that_come_back_change_the_lists_as_well(
    words: str, tmp_path: Path, capsysbinary: Capture, *, follows: bool
) -> None:
    place = partitioned(tmp_path, configuration=FOLLOWS if follows else {})
    open_table(place).manifest()
    shutil.copytree(place, tmp_path / "copy")
    assert 0 == run(["log", "backup", str(place), str(tmp_path / "backup")])
    newest = place / "_delta_log" / f"{open_table(place).snapshot().version:020}.json"
    newest.unlink()
    open_table(place).manifest()
    assert PARTITIONED != manifests(place)

    sources = {"T": place, "COPY": tmp_path / "copy", "BACKUP": tmp_path / "backup"}
    code = run([str(sources.get(word, word)) for word in words.split()])

    err = capsysbinary.readouterr().err.decode()
    assert (0, True) == (code, newest.exists()), err
    assert follows == (PARTITIONED == manifests(place))
    assert follows != ("write them again" in err)


def test_lists_that_other_writers_outrun_are_a_caution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = open_table(partitioned(tmp_path))
    newest = type("Listing", (), {"newest_version": 9})
    monkeypatch.setattr("deltacli.changing.manifests.list_log", lambda *_, **__: newest)

    (caution,) = write_manifests_of_newest_version(table)

    assert "other writers" in caution


@pytest.mark.parametrize("spell", [str, lambda path: f"file://{path}", lambda path: f"file:{path}"])
def test_files_outside_of_the_table_are_named_beside_the_lists(
    spell: Callable[[Path], str], tmp_path: Path, capfdbinary: Capture
) -> None:
    place, outside = tmp_path / "t", tmp_path / "other" / "x.parquet"
    builder = Ids(partitioned=False).append("a").builder
    builder.commit(commit_info(), add(spell(outside), size=5), add(spell(place / "inside"), size=5))
    builder.write(place)

    plan = open_table(place).plan_manifest()
    code = run(["manifest", str(place), "--yes"])

    assert 1 == plan.as_json(dry_run=True)["filesOutside"]
    assert (0, True) == (code, str(outside) in capfdbinary.readouterr().err.decode())
    assert any(str(outside) in line for line in (place / HOME / "manifest").read_text().splitlines())


def test_a_table_with_all_files_inside_has_no_note(tmp_path: Path) -> None:
    plan = open_table(partitioned(tmp_path)).plan_manifest()

    assert (0, []) == (plan.as_json(dry_run=True)["filesOutside"], list(plan.notes))
