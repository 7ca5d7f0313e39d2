"""`vacuum --quarantine`: no file is deleted without a copy, and the copies bring an older version back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from deltacli.core.errors import DeltacliError, Refused, StorageFailed, UsageError
from deltacli.operations.recover.copies import CHECKSUMS, OWN_NAMES, copy_file
from deltacli.operations.vacuum import execute
from deltacli.operations.vacuum.execute import Deletions, execute_vacuum
from deltacli.operations.vacuum.full_plan import plan_vacuum
from deltacli.operations.vacuum.plan import VacuumRequest
from deltacli.operations.vacuum.quarantine import open_quarantine
from deltacli.storage import Created, LocalStorage, Storage, open_storage
from tests.support.effort import InTurn
from tests.support.faulty import Fault, FaultyStorage
from tests.support.reading import open_at
from tests.support.s3 import S3Server
from tests.support.vacuuming import GARBAGE, Killed, MortalStorage, save, vacuum, vacuum_request, write_table


def files_below(root: Path) -> dict[str, bytes]:
    """The files below a directory but the log, with their content; without drafts of copies that have not ended."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.suffix != ".tmp" and path.is_file() and "_delta_log" not in path.parts
    }


def kept_in(quarantine: Path) -> tuple[Mapping[str, bytes], list[bool]]:
    """The files of a quarantine by their path in the table, and what its manifests say."""
    found, complete = dict[str, bytes](), list[bool]()
    for plan in quarantine.glob("*/*"):
        found |= files_below(plan)
        complete.append(json.loads(found.pop("manifest.json"))["complete"])
        found.pop(CHECKSUMS, None)
    return found, complete


def noted_in(quarantine: Path) -> dict[str, bytes]:
    """The checksums of a quarantine."""
    rows = [row for file in quarantine.glob(f"*/*/{CHECKSUMS}") for row in pq.read_table(file).to_pylist()]
    return {row["path"].decode(): row["sha256"] for row in rows}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A table with garbage."""
    return write_table(tmp_path / "table")


@pytest.fixture
def quarantine(tmp_path: Path) -> Path:
    return tmp_path / "quarantine"


def times_and_modes(place: Path, paths: Iterable[str]) -> dict[str, tuple[int, int]]:
    found = {path: os.stat(place / path) for path in paths}
    return {path: (status.st_mtime_ns, status.st_mode & 0o777) for path, status in found.items()}


def test_each_deleted_file_has_a_copy_with_its_time_and_permissions(place: Path, quarantine: Path) -> None:
    before = files_below(place)
    for number, path in enumerate(sorted(before)):
        os.chmod(place / path, (0o600, 0o640, 0o644)[number % 3])
    times = times_and_modes(place, before)

    outcome = vacuum(LocalStorage(str(place)), quarantine=str(quarantine))

    deleted = {path: data for path, data in before.items() if not (place / path).exists()}
    kept, complete = kept_in(quarantine)
    assert (set(GARBAGE), deleted, [True]) == (set(deleted), kept, complete)
    assert outcome is not None
    assert outcome.quarantine is not None
    directory = Path(outcome.quarantine.removeprefix("file://"))
    assert {path: times[path] for path in kept} == times_and_modes(directory, kept)


def test_a_file_that_is_copied_keeps_its_permissions(tmp_path: Path) -> None:
    origin, other = LocalStorage(str(tmp_path / "a")), LocalStorage(str(tmp_path / "b"))
    for size, mode in ((10, 0o600), (9 << 20, 0o444)):
        origin.put("p/file", bytes(size))
        os.chmod(tmp_path / "a" / "p" / "file", mode)
        os.utime(tmp_path / "a" / "p" / "file", (1, 1))

        assert Created() == copy_file(origin, "p/file", size, other, replace=True)

        assert times_and_modes(tmp_path / "a", ["p/file"]) == times_and_modes(tmp_path / "b", ["p/file"])


COPY = """
import sys
from deltacli.operations.recover.copies import copy_file
from deltacli.storage import LocalStorage
place, *names = sys.argv[1:]
for name in names:
    print(copy_file(LocalStorage(f"{place}/a"), name, 3, LocalStorage(f"{place}/b")))
"""


def test_a_user_who_may_not_write_or_give_away_a_file_copies_it(tmp_path: Path) -> None:
    """Files are read-only; those of a group that cannot be kept stay readable for it."""
    origin = LocalStorage(str(tmp_path / "a"))
    for name, mode in (("read-only", 0o444), ("of-a-group", 0o660)):
        origin.put(name, b"abc")
        os.chmod(tmp_path / "a" / name, mode)
    weak: list[str] = []
    if os.geteuid() == 0:
        os.chown(tmp_path / "a" / "of-a-group", -1, 12_345)
        weak = ["setpriv", "--bounding-set=-dac_override,-chown", "--inh-caps=-all"]
    command = [*weak, sys.executable, "-c", COPY, str(tmp_path), "read-only", "of-a-group"]

    ran = subprocess.run(command, capture_output=True, text=True, check=False, umask=0o022)

    assert ("Created()\nCreated()\n", "") == (ran.stdout, ran.stderr)
    modes = [status[1] for status in times_and_modes(tmp_path / "b", ["read-only", "of-a-group"]).values()]
    assert [0o444, 0o664 if weak else 0o660] == modes


def steps_of(place: Path, quarantine: Path) -> int:
    """How many calls a run makes of the table and of the quarantine that change something, or read a file."""
    storage = MortalStorage(LocalStorage(str(place)))
    vacuum(storage, quarantine=str(quarantine))
    return len(storage.calls)


@pytest.mark.long
def test_a_killed_run_has_lost_nothing_and_the_next_one_ends_the_work(tmp_path: Path, in_turn: InTurn) -> None:
    calls = steps_of(write_table(tmp_path / "counted"), tmp_path / "of the counted")
    for fault, first in ((Fault.KILLED_BEFORE, 1), (Fault.KILLED_AFTER, 3)):
        for at in in_turn(range(first, calls + 1), 15):
            place, quarantine = write_table(tmp_path / f"{at} {fault.name}"), tmp_path / f"q {at} {fault.name}"
            before = files_below(place)
            with pytest.raises(Killed):
                vacuum(MortalStorage(LocalStorage(str(place)), at, fault, dies=True), quarantine=str(quarantine))
            assert before == {**kept_in(quarantine)[0], **files_below(place)}

            vacuum(LocalStorage(str(place)), quarantine=str(quarantine))

            assert before == {**kept_in(quarantine)[0], **files_below(place)}
            assert not any((place / path).exists() for path in GARBAGE)


def test_a_saved_plan_that_is_killed_goes_on_into_its_quarantine(tmp_path: Path, in_turn: InTurn) -> None:
    calls = steps_of(write_table(tmp_path / "counted"), tmp_path / "of the counted")
    for fault in (Fault.KILLED_BEFORE, Fault.KILLED_AFTER):
        for at in in_turn(range(1, calls + 1), 27):
            place, quarantine = write_table(tmp_path / f"{at} {fault.name}"), tmp_path / f"q {at} {fault.name}"
            before, plan = files_below(place), f"{place}.plan"
            save(LocalStorage(str(place)), plan, str(quarantine))
            with suppress(Killed):
                vacuum(MortalStorage(LocalStorage(str(place)), at, fault, dies=True), plan)
            assert before == {**kept_in(quarantine)[0], **files_below(place)}

            vacuum(LocalStorage(str(place)), plan)

            kept, complete = kept_in(quarantine)
            assert (set(GARBAGE), [True]) == (set(kept), complete)
            assert before == {**kept, **files_below(place)}


def test_a_saved_plan_takes_no_other_quarantine(place: Path, quarantine: Path) -> None:
    before, plan = files_below(place), f"{place}.plan"
    save(LocalStorage(str(place)), plan, str(quarantine))

    with pytest.raises(UsageError, match="another quarantine"):
        vacuum(LocalStorage(str(place)), plan, quarantine=str(place.parent / "other"))

    assert before == files_below(place)
    vacuum(LocalStorage(str(place)), plan, quarantine=f"{place}/../{quarantine.name}")
    assert set(GARBAGE) == set(kept_in(quarantine)[0])


class _WritingMeanwhile(FaultyStorage):
    """Before the first file is deleted, somebody writes one of them again."""

    def __init__(self, inner: Storage, write: Callable[[], object]) -> None:
        super().__init__(inner, 0, Fault.BEFORE)
        self._write = write

    def step(self, verb: str, path: str, call: Callable[[], Any]) -> Any:
        if verb == "put_if_absent":
            self._write()
        return super().step(verb, path, call)


def test_a_file_of_a_store_that_was_written_during_the_copies_stays(place: Path, s3: S3Server) -> None:
    bucket = s3.make_bucket()
    for path in place.rglob("*"):
        if path.is_file():
            modified_ms = os.stat(path).st_mtime_ns // 1_000_000
            s3.put(bucket, f"t/{path.relative_to(place).as_posix()}", path.read_bytes(), modified_ms)
    written = GARBAGE[0]
    storage = _WritingMeanwhile(open_storage(f"s3://{bucket}/t"), lambda: s3.put(bucket, f"t/{written}", b"again"))
    table = open_at(storage)

    plan = plan_vacuum(table, VacuumRequest(max_delete="100%", quarantine=f"s3://{bucket}/q"))
    outcome = execute_vacuum(table, plan)

    assert (1, len(GARBAGE) - 1) == (outcome.spared, outcome.deleted.files)
    assert b"again" == s3.objects(bucket)[f"t/{written}"]


@pytest.mark.parametrize("is_before_deletions", [True, False])
def test_no_vacuum_ends_as_done_whose_copies_were_deleted_meanwhile(
    place: Path, quarantine: Path, monkeypatch: pytest.MonkeyPatch, *, is_before_deletions: bool
) -> None:
    before = files_below(place)
    run = Deletions.run

    def empty() -> None:
        for manifest in quarantine.glob("*/*/manifest.json"):
            shutil.rmtree(manifest.parent)

    def deleting(deletions: Deletions) -> None:
        run(deletions)
        empty()

    if is_before_deletions:
        monkeypatch.setattr(execute, "_require_store_clock", lambda *_: empty())
    else:
        monkeypatch.setattr(Deletions, "run", deleting)
    with pytest.raises(Refused if is_before_deletions else StorageFailed, match="were deleted"):
        vacuum(LocalStorage(str(place)), quarantine=str(quarantine))

    assert is_before_deletions == (before == files_below(place))


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER, Fault.LOST])
def test_nothing_is_deleted_where_a_call_of_a_copy_fails(fault: Fault, tmp_path: Path) -> None:
    stopped = 0
    for at in range(1, 2 * len(GARBAGE), 2):
        place, quarantine = write_table(tmp_path / f"{at}"), tmp_path / f"q {at}"
        before = files_below(place)
        table = open_at(LocalStorage(str(place)))
        plan = plan_vacuum(table, vacuum_request())
        table.open_other = partial(_faulty, at, fault)
        try:
            execute_vacuum(table, plan, VacuumRequest(max_delete="100%", quarantine=str(quarantine)))
        except DeltacliError:
            assert before == files_below(place)
            stopped += 1
        assert before == {**kept_in(quarantine)[0], **files_below(place)}
    assert stopped or fault is Fault.LOST


class _FaultyQuarantine(FaultyStorage):
    """Only the answers of creations are lost."""

    def step(self, verb: str, path: str, call: Callable[[], Any]) -> Any:
        has_fate = self._fault is not Fault.LOST or verb in ("copy_within", "put_if_absent", "publish")
        return super().step(verb, path, call) if has_fate else call()


def _faulty(at: int, fault: Fault, uri: str) -> Storage:
    return _FaultyQuarantine(open_storage(uri), at, fault)


@pytest.mark.parametrize("is_long", [False, True])
def test_a_copy_that_differs_is_refused_and_nothing_is_deleted(place: Path, quarantine: Path, *, is_long: bool) -> None:
    before = files_below(place)
    table = open_at(LocalStorage(str(place)))
    plan = plan_vacuum(table, vacuum_request())
    foreign = quarantine / plan.table_id / plan.plan_id / GARBAGE[0]
    foreign.parent.mkdir(parents=True)
    content = b"of somebody else" if is_long else b"?" * len(before[GARBAGE[0]])
    foreign.write_bytes(content)

    with pytest.raises(Refused) as refused:
        execute_vacuum(table, plan, VacuumRequest(max_delete="100%", quarantine=str(quarantine)))

    assert ("vacuum.quarantine-differs", before) == (refused.value.code, files_below(place))
    assert content == foreign.read_bytes()


_OTHER_FORMATS = {
    "iceberg": ("metadata/00000-0f6b3c2e-9f4f-4a49-8c0e-6b1f2f3c4d5e.metadata.json", "data/1.parquet"),
    "paimon": ("schema/schema-0", "snapshot/snapshot-1", "manifest/manifest-1"),
}


def places_in_tables(place: Path) -> Iterator[Path | str]:
    yield place
    yield f"file://{place.parent}/x/../{place.name}/quarantine"
    (place.parent / "link").symlink_to(place)
    yield place.parent / "link" / "quarantine"
    (place.parent / "inner").symlink_to(place / "p=2")
    yield place.parent / "inner"
    yield place / "quarantine"
    yield write_table(place.parent / "other")
    yield place.parent / "other" / "deep" / "quarantine"
    for name, files in _OTHER_FORMATS.items():
        for file in files:
            (place.parent / name / file).parent.mkdir(parents=True, exist_ok=True)
            (place.parent / name / file).write_bytes(b"{}")
        yield place.parent / name / "data" / "quarantine"


def test_a_quarantine_in_any_table_is_refused(place: Path) -> None:
    before = files_below(place)
    for quarantine in places_in_tables(place):
        with pytest.raises(Refused) as refused:
            plan_vacuum(open_at(LocalStorage(str(place))), VacuumRequest(max_delete="100%", quarantine=str(quarantine)))
        with pytest.raises(Refused):
            vacuum(LocalStorage(str(place)), quarantine=str(quarantine))

        assert ("vacuum.quarantine-in-table", before) == (refused.value.code, files_below(place))


def test_the_directory_of_the_table_in_a_quarantine_is_in_no_table_either(place: Path, quarantine: Path) -> None:
    table_id = plan_vacuum(open_at(LocalStorage(str(place))), vacuum_request()).table_id
    quarantine.mkdir()
    (quarantine / table_id).symlink_to(place)
    beside = write_table(place.parent / "tables" / table_id)
    for root, table in ((quarantine, place), (beside.parent, place), (beside.parent, beside)):
        before = files_below(table)

        with pytest.raises(Refused) as refused:
            vacuum(LocalStorage(str(table)), quarantine=str(root))

        assert ("vacuum.quarantine-in-table", before) == (refused.value.code, files_below(table))


def test_a_table_behind_a_link_has_a_quarantine_beside_the_link(tmp_path: Path) -> None:
    place = write_table(tmp_path / "real" / "table")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "table").symlink_to(place)

    vacuum(LocalStorage(str(tmp_path / "links" / "table")), quarantine=str(tmp_path / "links" / "quarantine"))

    assert set(GARBAGE) == set(kept_in(tmp_path / "links" / "quarantine")[0])
    assert not any((place / path).exists() for path in GARBAGE)


def test_a_directory_of_tables_may_be_a_quarantine(place: Path) -> None:
    before = files_below(place)
    vacuum(LocalStorage(str(place)), quarantine=str(place.parent))

    (manifest,) = place.parent.glob("*/*/manifest.json")
    kept = files_below(manifest.parent)
    named = json.loads(kept.pop("manifest.json"))["paths"]
    kept.pop(CHECKSUMS)
    assert (before, sorted(kept)) == ({**kept, **files_below(place)}, sorted(named))


def test_a_store_has_other_names_of_one_place(place: Path, s3: S3Server) -> None:
    bucket = s3.make_bucket()
    for path in place.rglob("*"):
        if path.is_file():
            s3.put(bucket, f"lake/table/{path.relative_to(place).as_posix()}", path.read_bytes())
    before = s3.objects(bucket)

    with pytest.raises(Refused) as refused:
        open_quarantine(open_at(open_storage(f"s3://{bucket}/lake/table")), f"s3a://{bucket}/lake/table/quarantine")

    assert ("vacuum.quarantine-in-table", before) == (refused.value.code, s3.objects(bucket))


def test_a_store_copies_itself(place: Path, s3: S3Server) -> None:
    bucket = s3.make_bucket()
    for path in place.rglob("*"):
        if path.is_file():
            modified_ms = os.stat(path).st_mtime_ns // 1_000_000
            s3.put(bucket, f"lake/table/{path.relative_to(place).as_posix()}", path.read_bytes(), modified_ms)
    before = s3.objects(bucket)

    outcome = vacuum(open_storage(f"s3://{bucket}/lake/table"), quarantine=f"s3://{bucket}/quarantine")

    assert outcome is not None
    directory = f"{(outcome.quarantine or '').removeprefix(f's3://{bucket}/')}/"
    after = s3.objects(bucket)
    assert {path: before[f"lake/table/{path}"] for path in GARBAGE} == {
        key.removeprefix(directory): data
        for key, data in after.items()
        if key.startswith(directory) and not key.endswith(OWN_NAMES)
    }
    assert not any(f"lake/table/{path}" in after for path in GARBAGE)
    read = [path for method, path, _ in s3.requests if method == "GET" and "part" in path]
    assert not [path for path in read if any(path.endswith(name) for name in GARBAGE)]
