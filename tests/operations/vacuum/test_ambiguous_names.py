"""What some engine reads as live because it compares the paths of the log as text is kept by every kind of vacuum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltacli.operations.vacuum.explain import explain_file
from deltacli.operations.vacuum.plan import VacuumRequest
from deltacli.storage import LocalStorage, open_storage
from tests.support.actions import add, remove, to_bytes
from tests.support.builder import TableBuilder
from tests.support.small_vectors import vector_path
from tests.support.vacuum_hazards import (
    ID,
    OLD_MS,
    ago,
    goes,
    open_at,
    plan_of,
    table_of,
    vector_of,
    with_files,
)

RULE = "path.same-file-two-spellings"
SPELLINGS = {
    "dot": ("d/a.parquet", "./d/a.parquet", "d/a.parquet"),
    "dot added": ("./d/a.parquet", "d/a.parquet", "d/a.parquet"),
    "two slashes": ("d/a.parquet", "d//a.parquet", "d/a.parquet"),
    "there and back": ("d/a.parquet", "d/x/../a.parquet", "d/a.parquet"),
    "escaped letter": ("d/a.parquet", "d/%61.parquet", "d/a.parquet"),
    "blank": ("p=a b/a.parquet", "p=a%20b/a.parquet", "p=a b/a.parquet"),
    "case of an escape": ("p=a%2fb/a.parquet", "p=a%2Fb/a.parquet", "p=a/b/a.parquet"),
    "letter beyond ASCII": ("p=ü/a.parquet", "p=%C3%BC/a.parquet", "p=ü/a.parquet"),
}
"""The path of the add, that of the remove, and the name on disk."""


def removed_by(added: str, removed: str, stored: str, **fields: Any) -> TableBuilder:  # Any: as of an add
    """Return a table with a file that an old commit removes under another spelling."""
    table = table_of("live.parquet", "removed.parquet", has_vectors=bool(fields))
    table.commit(add(added, size=10, **fields))
    table.commit(remove(removed, deleted_ms=OLD_MS, **fields), remove("removed.parquet", deleted_ms=OLD_MS))
    return with_files(table, stored)


@pytest.mark.parametrize("mode", ["full", "lite"])
@pytest.mark.parametrize(("added", "removed", "stored"), SPELLINGS.values(), ids=SPELLINGS)
def test_a_file_that_is_removed_by_another_spelling_is_kept(added: str, removed: str, stored: str, mode: str) -> None:
    table = removed_by(added, removed, stored)

    assert {"removed.parquet"} == goes(table, mode=mode)
    assert any(RULE in note and added in note for note in plan_of(table, mode=mode).notes)


@pytest.mark.parametrize("key", [r"p\u0061th", r"\u0070\u0061\u0074\u0068", r"pat\u0068"])
def test_a_key_with_an_escape_hides_no_spelling(key: str) -> None:
    table = table_of("live.parquet", "removed.parquet").commit(add("a.parquet", size=10))
    lines = [remove("./a.parquet", deleted_ms=OLD_MS), remove("removed.parquet", deleted_ms=OLD_MS)]
    raw = to_bytes(lines).replace(b'"path":"./', f'"{key}" : "./'.encode())
    table.commit(*lines, raw=raw)

    assert {"removed.parquet"} == goes(with_files(table, "a.parquet"))


@pytest.mark.parametrize("mode", ["full", "lite"])
def test_it_is_deleted_once_both_spellings_are_removed(mode: str) -> None:
    table = removed_by("a.parquet", "./a.parquet", "a.parquet").commit(remove("a.parquet", deleted_ms=OLD_MS))

    assert {"a.parquet", "removed.parquet"} == goes(table, mode=mode)
    assert not any(RULE in note for note in plan_of(table, mode=mode).notes)


def test_an_add_in_a_checkpoint_counts_as_well() -> None:
    table = table_of("live.parquet", add("a.parquet", size=10)).checkpoint()
    table.commit(remove("./a.parquet", deleted_ms=OLD_MS))

    assert set() == goes(with_files(table, "a.parquet"))


def test_a_checkpoint_of_a_retained_version_settles_nothing_for_the_versions_before() -> None:
    table = removed_by("a.parquet", "./a.parquet", "a.parquet")
    table.commit(add("b.parquet", size=10), modified_ms=ago(1)).checkpoint()

    assert {"removed.parquet"} == goes(with_files(table, "b.parquet"))


def test_a_checkpoint_of_older_versions_settles_it() -> None:
    table = removed_by("a.parquet", "./a.parquet", "a.parquet").commit(add("b.parquet", size=10)).checkpoint()

    assert {"a.parquet", "removed.parquet"} == goes(with_files(table, "b.parquet"))


def test_the_file_of_its_vector_is_kept_with_it() -> None:
    table = removed_by("a.parquet", "./a.parquet", "a.parquet", vector=vector_of())

    assert {"removed.parquet"} == goes(with_files(table, vector_path(ID)))


def test_a_protected_table_may_be_the_one_with_two_spellings(tmp_path: Path) -> None:
    place = with_files(table_of("live.parquet"), "a.parquet", "orphan.parquet").write(tmp_path / "t")
    named = f"{LocalStorage(str(place)).uri}/a.parquet"
    other_spelling = named.replace("file:///", "file:/")
    clone = table_of(add(named, size=10), table_id="clone").commit(remove(other_spelling, deleted_ms=OLD_MS))
    clone.write(tmp_path / "clone")
    table = open_at(LocalStorage(str(place)), open_other=open_storage)

    assert {"orphan.parquet"} == goes(table, protect_from=[str(tmp_path / "clone")])
    (note,) = (note for note in plan_of(table, protect_from=[str(tmp_path / "clone")]).notes if RULE in note)
    assert str(tmp_path / "clone") in note
    assert str(place) not in note.replace(named, "").replace(other_spelling, "")


def test_a_file_that_deltacli_reads_itself_is_not_noted() -> None:
    """Engines that compare texts read its rows twice, and nobody has to be asked whether it is needed."""
    table = table_of("live.parquet", "a.parquet").commit(add("./a.parquet", size=10))

    assert not any(RULE in note for note in plan_of(with_files(table, "a.parquet", "orphan.parquet")).notes)


def test_the_explanation_of_the_file_names_the_rule() -> None:
    table = open_at(removed_by("a.parquet", "./a.parquet", "a.parquet"))

    explanation = explain_file(table, VacuumRequest(), "a.parquet")

    assert "kept" == explanation.verdict
    assert RULE in explanation.why
