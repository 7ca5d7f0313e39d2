"""Files that come back: each is checked before the commit, brought from elsewhere where it is gone, and looked at again
after the commit.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.api.table import Table, open_table
from deltacli.changing.execution import ChangeExecution
from deltacli.core.errors import PartlyDone, PathExternal, Refused, StorageFailed, Unreadable
from deltacli.operations.restore.restore import RestoreRequest, plan_restore
from deltacli.storage import LocalStorage
from tests.support.actions import Line, add, commit_info, metadata, protocol, remove
from tests.support.builder import TableBuilder
from tests.support.effort import InTurn
from tests.support.faulty import Fault, FaultyStorage
from tests.support.reading import open_at
from tests.support.small_vectors import inline, vector_file, vector_path
from tests.support.storage import FAR, RecordingStorage
from tests.support.vacuuming import Killed, MortalStorage

NAME = UUID("6f9b1c1e-1111-4222-8333-abcdefabcdef")
VECTORS = vector_path(NAME)
TABLE_ID = "5fba94ed-9794-4965-ba6e-6ee3c0d22af9"


def rows(first: int) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": list(range(first, first + 10))}), sink)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def descriptor(place: tuple[int, int, int]) -> dict[str, object]:
    from tests.support.small_vectors import z85

    offset, size, cardinality = place
    text = z85(NAME.bytes)
    return {
        "storageType": "u",
        "pathOrInlineDv": text,
        "offset": offset,
        "sizeInBytes": size,
        "cardinality": cardinality,
    }


def added(name: str, data: bytes, **more: object) -> Line:
    return add(name, size=len(data), records=10, **more)  # type: ignore[arg-type]


@pytest.fixture
def builder() -> TableBuilder:
    """Version 1: a and b; 2: b without two rows, by a vector; 3: c beside them; 4: only d."""
    files = {name: rows(10 * number) for number, name in enumerate("abcd")}
    vectors = vector_file([[1, 4]])
    features = {"reader_features": ["deletionVectors"], "writer_features": ["deletionVectors"]}
    on = metadata(configuration={"delta.enableDeletionVectors": "true"})
    vector = descriptor(vectors.places[0])
    built = TableBuilder().commit(commit_info(), protocol(3, 7, **features), on)
    built.commit(commit_info(), added("a", files["a"]), added("b", files["b"]))
    built.commit(commit_info(), remove("b"), added("b", files["b"], deletionVector=vector))
    built.commit(commit_info(), added("c", files["c"]))
    built.commit(commit_info(), remove("a"), remove("b", vector=vector), remove("c"), added("d", files["d"]))
    for name, data in files.items():
        built.file(name, data)
    return built.file(VECTORS, vectors.data)


@pytest.fixture
def place(builder: TableBuilder, tmp_path: Path) -> Path:
    return builder.write(tmp_path / "tbl")


def problems(table: Table, version: int, **options: object) -> dict[str, str]:
    plan = plan_restore(table, RestoreRequest(version=version, **options))  # type: ignore[arg-type]
    return {one.path: one.problem.value for one in plan.problems if one.source is None}


def ids(table: Table, version: int | None = None) -> list[int]:
    found: list[int] = pa.Table.from_batches(table.snapshot(version=version).scan()).column("id").to_pylist()
    return sorted(found)


DAMAGES: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "missing": ("a", lambda path: path.unlink(), "missing"),
    "truncated": ("a", lambda path: path.write_bytes(path.read_bytes()[:-9]), "size"),
    "overwritten": ("a", lambda path: path.write_bytes(b"x" * path.stat().st_size), "footer"),
    "other rows": ("c", lambda path: path.write_bytes(nine_rows(path.stat().st_size)), "footer"),
    "a vector that is missing": (VECTORS, lambda path: path.unlink(), "missing"),
    "a vector with other bytes": (VECTORS, lambda path: path.write_bytes(path.read_bytes()[:-1] + b"?"), "vector"),
    "a vector that is cut off": (VECTORS, lambda path: path.write_bytes(path.read_bytes()[:-8]), "vector"),
}


def nine_rows(size: int) -> bytes:
    """A valid file of so many bytes with one row less than the log says."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": list(range(9))}), sink)
    data: bytes = sink.getvalue().to_pybytes()
    footer = int.from_bytes(data[-8:-4], "little") + 8
    return data[:-footer] + b"\0" * (size - len(data)) + data[-footer:]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_that_is_not_what_the_log_says_refuses_the_restore(place: Path, damage: str) -> None:
    name, harm, problem = DAMAGES[damage]
    harm(place / name)
    table = open_table(place)

    with pytest.raises(Refused) as refused:
        table.restore(version=3)

    code = "restore.file-missing" if problem == "missing" else "restore.file-damaged"
    assert (code, {name: problem}, 4) == (refused.value.code, problems(table, 3), table.snapshot().version)


def test_sizes_and_vectors_are_checked_although_the_listing_is_trusted(place: Path) -> None:
    (place / "a").write_bytes(b"x" * (place / "a").stat().st_size)
    (place / "c").write_bytes(b"")
    (place / VECTORS).write_bytes((place / VECTORS).read_bytes()[:-1] + b"?")

    assert {"c": "size", VECTORS: "vector"} == problems(open_table(place), 3, trust_listing=True)


@pytest.mark.parametrize(
    ("lost", "newest"),
    [(["c"], 6), (["a"], 6), ([VECTORS], 6), (["b"], 6), (["a", "d"], None), (["a", "f"], 6), ([], None)],
)
def test_the_newest_version_that_is_complete_and_not_that_of_now_is_named(
    builder: TableBuilder, tmp_path: Path, lost: list[str], newest: int | None
) -> None:
    """
    Version 5 adds e, and 6 removes it: its file is gone, too. Version 7 adds f, and 8 only rewrites it.
    """
    builder.commit(commit_info(), added("e", b"gone")).commit(commit_info(), remove("e"))
    builder.commit(commit_info(), added("f", rows(50))).file("f", rows(50)).file("g", rows(50))
    again = [remove("f", dataChange=False), added("g", rows(50), dataChange=False)]
    place = builder.commit(commit_info(), *again).write(tmp_path / "t")
    for name in lost:
        (place / name).unlink()

    assert newest == plan_restore(open_table(place), RestoreRequest(version=3)).restorable


@pytest.mark.parametrize(("lost", "newest"), [("a", None), ("b", None), (VECTORS, 1)])
def test_no_version_is_named_that_needs_a_lost_file_or_has_the_rows_of_now(
    builder: TableBuilder, tmp_path: Path, lost: str, newest: int | None
) -> None:
    """
    Version 3 needs all that 2 needs; 4 is as 6, because 5 adds h, whose file is gone, and 6 removes it. Version 0 has
    no file.
    """
    place = builder.commit(commit_info(), added("h", b"gone")).commit(commit_info(), remove("h")).write(tmp_path / "t")
    (place / lost).unlink()

    plan = plan_restore(open_table(place), RestoreRequest(version=2))

    assert ([lost], newest) == ([one.path for one in plan.problems], plan.restorable)
    said = (
        "no other version is known to be complete"
        if newest is None
        else "version 1 is the newest with other rows that can be"
    )
    assert said in plan.refusals[0].message


def test_a_version_is_named_although_the_listing_begins_at_a_hint(builder: TableBuilder) -> None:
    """
    The newest one that is complete: after the target where there is one, else before it.
    """
    builder.commit(commit_info(), added("e", rows(50))).checkpoint().file("e", rows(50))
    builder.commit(commit_info(), remove("e")).hint(5)
    for target, lost, newest in (
        (1, "b", 5),
        (3, "c", 5),
        (3, "ce", 2),
        (2, "be", None),
        (2, VECTORS, 5),
        (4, "de", 3),
    ):
        memory = builder.in_memory()
        list(memory.delete_many([lost] if lost == VECTORS else lost))
        storage = RecordingStorage(memory, capabilities=FAR)
        assert open_at(storage).snapshot().listing.start_version == 5

        assert newest == plan_restore(open_at(storage), RestoreRequest(version=target)).restorable, (target, lost)


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """Version 1: a and b; 2: c beside them; 3: b is gone. A restore of 1 leaves a where it is."""
    builder = TableBuilder().commit(commit_info(), protocol(), metadata())
    builder.commit(commit_info(), added("a", rows(0)), added("b", rows(10)))
    builder.commit(commit_info(), added("c", rows(20))).commit(commit_info(), remove("b"))
    for number, name in enumerate("abc"):
        builder.file(name, rows(10 * number))
    return builder.write(tmp_path / "half")


@pytest.mark.parametrize("trust_listing", [False, True])
@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize(
    ("harm", "problem"), [(lambda path: path.unlink(), "missing"), (lambda path: path.write_bytes(b"PAR1"), "size")]
)
def test_a_file_that_stays_and_cannot_be_used_refuses_the_restore(
    half: Path, tmp_path: Path, harm: Callable[[Path], object], problem: str, version: int, trust_listing: bool
) -> None:
    """
    Also where nothing differs. What helps is an undelete, because the newest version needs the file as well.
    """
    shutil.copytree(half, tmp_path / "copy")
    harm(half / "a")
    table = open_table(half)

    with pytest.raises(Refused) as refused:
        table.restore(version=version, trust_listing=trust_listing)

    code = "restore.file-missing" if problem == "missing" else "restore.file-damaged"
    assert (code, {"a": problem}, 3) == (refused.value.code, problems(table, version), table.snapshot().version)
    assert "undelete" in str(refused.value.hint)
    why = "version 3, the newest, needs it, too" if version == 1 else "so that a restore commits nothing"
    assert why in str(refused.value)

    from_copy = plan_restore(table, RestoreRequest(version=version, sources=[str(tmp_path / "copy")]))
    assert [version == 3] == [bool(from_copy.refusals)]
    if version == 1:
        table.restore(version=1, sources=[str(tmp_path / "copy")])
        assert ids(table, 1) == ids(table)


def test_of_a_file_that_stays_nothing_is_read(half: Path) -> None:
    (half / "a").write_bytes(b"x" * (half / "a").stat().st_size)

    assert 4 == open_table(half).restore(version=1).committed_version


def test_a_source_is_opened_although_nothing_is_missing(half: Path) -> None:
    for version in (1, 3):
        with pytest.raises(Unreadable):
            plan_restore(open_table(half), RestoreRequest(version=version, sources=[str(half / "none")]))


def test_a_remote_store_is_listed_once_for_many_files() -> None:
    """
    Of 700 files, 10 come back: one listing has the sizes of all, and 10 footers are read.
    """
    names = [f"f{number}" for number in range(700)]
    data = rows(0)
    builder = TableBuilder().commit(commit_info(), protocol(), metadata())
    builder.commit(commit_info(), *(added(name, data) for name in names))
    builder.commit(commit_info(), *(remove(name) for name in names[:10]))
    for name in names:
        builder.file(name, data)
    storage = RecordingStorage(builder.in_memory(), capabilities=FAR)

    plan = plan_restore(open_at(storage), RestoreRequest(version=1))

    assert not plan.refusals
    assert 1 == storage.calls["walk"]
    assert set(names[:10]) == {path for _, path in storage.paths if path in names}


def test_what_is_gone_is_brought_from_a_copy(place: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(place, copy)
    before = (copy / "a").read_bytes()
    (place / "a").unlink()
    (place / "c").write_bytes(b"short")
    (place / VECTORS).write_bytes((place / VECTORS).read_bytes()[:-1] + b"?")
    table = open_table(place)

    plan = plan_restore(table, RestoreRequest(version=3, sources=[str(copy)]))
    assert {"a": str(copy), "c": str(copy), VECTORS: str(copy)} == {one.path: one.source for one in plan.problems}
    assert not (place / "a").exists()

    done = table.restore(version=3, sources=[str(copy)])

    assert (5, ids(table, 3)) == (done.committed_version, ids(table))
    assert before == (place / "a").read_bytes()


def test_a_copy_that_is_damaged_or_of_another_table_brings_nothing(place: Path, tmp_path: Path) -> None:
    copy, other = tmp_path / "copy", tmp_path / "other"
    shutil.copytree(place, copy)
    (copy / "a").write_bytes(b"x" * (copy / "a").stat().st_size)
    shutil.copytree(place, other)
    first = other / "_delta_log" / f"{0:020d}.json"
    first.write_text(first.read_text().replace(TABLE_ID, "another"))
    (place / "a").unlink()
    before = sorted(path.name for path in place.iterdir())

    for source, code in ((copy, "restore.file-missing"), (other, "recover.other-table")):
        with pytest.raises(Refused) as refused:
            open_table(place).restore(version=3, sources=[str(source)])
        assert code == refused.value.code

    assert before == sorted(path.name for path in place.iterdir())


def test_files_that_go_while_the_restore_is_committed_are_named_with_the_undo(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit: Any = ChangeExecution.commit_plan

    def racing(*arguments: object, **options: object) -> object:
        done = commit(*arguments, **options)
        (place / "a").unlink()
        return done

    monkeypatch.setattr(ChangeExecution, "commit_plan", racing)

    with pytest.raises(PartlyDone) as partly:
        open_table(place).restore(version=3)

    assert "restore.file-vanished" == partly.value.code
    assert re.search(r"restore.*version[ =]4", str(partly.value.hint))
    assert "dry" in str(partly.value.hint)


def test_a_file_outside_the_table_is_opened_only_where_that_is_allowed(place: Path, tmp_path: Path) -> None:
    outside = tmp_path / "elsewhere" / "f"
    outside.parent.mkdir()
    outside.write_bytes(rows(90))
    log = place / "_delta_log"
    (log / f"{5:020d}.json").write_text(json.dumps(added(f"file:{outside}", rows(90))) + "\n")
    (log / f"{6:020d}.json").write_text(json.dumps(remove(f"file:{outside}")) + "\n")

    with pytest.raises(PathExternal):
        open_table(place).restore(version=5)

    allowed = [str(outside.parent)]
    assert 7 == open_table(place, allow_external=allowed).restore(version=5).committed_version
    outside.unlink()
    open_table(place, allow_external=allowed).restore(version=6)
    assert {f"file:{outside}": "missing"} == problems(open_table(place, allow_external=allowed), 5)


def test_a_file_outside_the_table_that_stays_is_looked_at_only_where_that_is_allowed(
    place: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "elsewhere" / "f"
    log = place / "_delta_log"
    (log / f"{5:020d}.json").write_text(json.dumps(added(f"file:{outside}", rows(90))) + "\n")
    (log / f"{6:020d}.json").write_text(json.dumps(remove("d")) + "\n")
    request = RestoreRequest(version=5)

    unseen = plan_restore(open_table(place), request)
    seen = plan_restore(open_table(place, allow_external=[str(outside.parent)]), request)

    assert ((), 1) == (unseen.refusals, sum("1 file outside of the table stays" in note for note in unseen.notes))
    assert [(f"file:{outside}", True)] == [(one.path, one.stays) for one in seen.problems]
    assert ["restore.file-missing"] == [one.code for one in seen.refusals]


def test_footers_and_vectors_outside_the_table_are_read_and_those_in_the_log(place: Path, tmp_path: Path) -> None:
    """
    Version 5 has two files outside, as a shallow clone has; one has its vector in a file outside, the other in the log.
    """
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    (outside / "e").write_bytes(rows(50))
    (outside / "f").write_bytes(rows(60))
    vectors = vector_file([[2]])
    (outside / "v.bin").write_bytes(vectors.data)
    far = {**descriptor(vectors.places[0]), "storageType": "p", "pathOrInlineDv": f"file:{outside}/v.bin"}
    log = place / "_delta_log"
    names = (f"file:{outside}/e", f"file:{outside}/f")
    adds = [added(names[0], rows(50), vector=far), added(names[1], rows(60), vector=inline([1, 3]))]
    (log / f"{5:020d}.json").write_text("".join(json.dumps(line) + "\n" for line in adds))
    gone = [remove(names[0], vector=far), remove(names[1], vector=inline([1, 3]))]
    (log / f"{6:020d}.json").write_text("".join(json.dumps(line) + "\n" for line in gone))
    table = open_table(place, allow_external=[str(outside)])

    with pytest.raises(PathExternal):
        open_table(place).restore(version=5)
    assert not problems(table, 5)
    wrong = {**inline([1, 3]), "cardinality": 5}
    (outside / "e").write_bytes(nine_rows(len(rows(50))))
    (outside / "v.bin").write_bytes(vectors.data[:-1] + b"?")
    text = (log / f"{5:020d}.json").read_text()
    (log / f"{5:020d}.json").write_text(text.replace(json.dumps(inline([1, 3])), json.dumps(wrong)))

    of_vectors = {f"file:{outside}/v.bin": "vector", names[1]: "vector"}
    assert {names[0]: "footer", **of_vectors} == problems(table, 5)
    assert of_vectors == problems(table, 5, trust_listing=True)


def test_a_damaged_file_is_looked_for_as_the_table_spells_it_and_replaced_only_as_it_was(tmp_path: Path) -> None:
    """
    The log was written without encoding: a%20b is the name of the file. What somebody else has put in its place since
    the plan stays.
    """
    builder = TableBuilder().commit(commit_info(), protocol(), metadata())
    builder.commit(commit_info(), added("a%20b", rows(0)), added("c", rows(10)))
    builder.file("a%20b", rows(0)).file("c", rows(10)).commit(commit_info(), remove("a%20b"), remove("c"))
    place, copy = builder.write(tmp_path / "t"), tmp_path / "copy"
    shutil.copytree(place, copy)
    for name in ("a%20b", "c"):
        (place / name).write_bytes(b"damaged")
    request = RestoreRequest(version=1, sources=[str(copy)])
    table = open_table(place)

    plan = plan_restore(table, request)
    assert {"a b": str(copy), "c": str(copy)} == {one.path: one.source for one in plan.problems}
    (place / "c").write_bytes(b"new")
    with pytest.raises(StorageFailed, match="another file was created in its place"):
        table.execute_restore(plan)
    assert [b"new", b"damaged"] == [(place / name).read_bytes() for name in ("c", "a%20b")]
    assert 2 == table.snapshot().version

    done = table.restore(version=1, sources=["versions", str(copy)])
    assert (3, ids(table, 1), ["_delta_log", "a%20b", "c"]) == (
        done.committed_version,
        ids(table),
        sorted(path.name for path in place.iterdir()),
    )
    assert any("keeps no versions" in note for note in done.plan.notes)


# -- faults -----------------------------------------------------------------------------------------------------------


def calls(builder: TableBuilder) -> int:
    counting = FaultyStorage(builder.in_memory())
    open_at(counting).restore(version=3)
    return len(counting.calls)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltacli.changing.commit.wait_before_retry", lambda *_: None)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
def test_a_fault_at_any_call_leaves_the_old_or_the_new_version(
    builder: TableBuilder, fault: Fault, in_turn: InTurn
) -> None:
    for at in in_turn(range(1, calls(builder) + 1)):
        inner = builder.in_memory()
        try:
            done = open_at(FaultyStorage(inner, at, fault)).restore(version=3)
        except (StorageFailed, PartlyDone):
            done = None
        table = open_at(inner)
        version = table.snapshot().version

        assert version in (4, 5), at
        assert ids(table) == ids(table, 3 if version == 5 else 4), at
        assert done is None or done.committed_version == version, at
        again = table.restore(version=3)
        assert ids(table) == ids(table, 3)
        assert (again.committed_version is None) is (version == 5), at


def test_a_restore_that_is_killed_before_any_call_is_ended_by_the_next(
    place: Path, tmp_path: Path, in_turn: InTurn
) -> None:
    """
    Files are brought from a copy: one is gone, one damaged, and the vectors are gone.
    """
    copy = tmp_path / "copy"
    shutil.copytree(place, copy)
    wanted = ids(open_table(place), 3)

    def accident(root: Path) -> LocalStorage:
        shutil.copytree(copy, root)
        (root / "a").unlink()
        (root / "c").write_bytes(b"damaged")
        (root / VECTORS).unlink()
        return LocalStorage(str(root))

    counting = MortalStorage(accident(tmp_path / "counted"))
    open_at(counting).restore(version=3, sources=[str(copy)])
    assert len(counting.calls) > 20
    for at in in_turn(range(1, len(counting.calls) + 1)):
        inner = accident(tmp_path / str(at))
        with suppress(Killed):
            open_at(MortalStorage(inner, at, Fault.KILLED_BEFORE, dies=True)).restore(version=3, sources=[str(copy)])
        table = open_at(inner)
        version = table.snapshot().version
        assert version in (4, 5), at
        assert ids(table) == (wanted if version == 5 else ids(table, 4)), at
        again = table.restore(version=3, sources=[str(copy)])
        assert (ids(table), table.snapshot().version) == (wanted, 5), at
        assert (again.committed_version is None) is (version == 5), at
        shutil.rmtree(tmp_path / str(at))
