"""`copy` on the command line: documents, exit codes, and the words of a terminal."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.support import deltacli
from tests.cli.test_documents import validate
from tests.support.paimon_builder import ID, NAME, PaimonBuilder


@pytest.fixture
def table(sample: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sample, tmp_path / "trips"))


def test_documents_match_their_schema_and_a_check_exits_with_1(table: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    documents = []
    for options in (("--dry-run",), (), (), ("--check",)):
        result = deltacli("copy", table, target, "--replica", *options, "--json")
        assert 0 == result.code, result.err
        documents.append(result.document)
    next(target.rglob("*.parquet")).unlink()
    broken = deltacli("copy", table, target, "--check", "--json")
    documents.append(broken.document)

    for document in documents:
        validate(document, "deltacli.copy")
    planned, done, current, checked, _ = documents
    assert (True, False) == (planned["dryRun"], done["dryRun"])
    assert planned["files"] == done["files"]
    assert (0, {"versions": 0, "seconds": 0.0}) == (current["files"]["copied"], current["lag"])
    assert ("storage", []) == (checked["verified"], checked["differences"])
    assert (1, "missing") == (broken.code, broken.document["differences"][0]["problem"])


def test_words_and_the_next_command(table: Path, tmp_path: Path) -> None:
    done = deltacli("copy", table, tmp_path / "target", "--level", "footers")
    again = deltacli("copy", table, tmp_path / "target")

    assert "compared   sizes, footers, and the digest of the state" in done.out
    assert "committed  version 15" in done.out
    assert 4 == again.code
    assert "is a finished copy with an id of its own" in again.err
    assert f"hint: deltacli copy {table} {tmp_path / 'target'} --check" == again.err.splitlines()[-1]


def test_what_is_no_delta_table_is_refused_with_a_way_out(table: Path, tmp_path: Path) -> None:
    PaimonBuilder(tmp_path / "paimon").schema(ID, NAME)
    (tmp_path / "empty").mkdir()

    results = {name: deltacli("copy", tmp_path / name, tmp_path / "t") for name in ("paimon", "empty")}
    shared = deltacli("copy", "a.share#s.d.t", tmp_path / "t")
    repaired = {name: deltacli("repair", tmp_path / name, "--dry-run") for name in results}

    assert (2, 3, 2) == (results["paimon"].code, results["empty"].code, shared.code)
    assert "hint: " in results["paimon"].err
    assert {"paimon": False, "empty": True} == {name: "deltacli convert" in one.err for name, one in repaired.items()}
    assert "hint: " in shared.err
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("name", "data", "note"),
    [
        ("_last_checkpoint", b'{"version":20,"size":1}', "hint.ahead-of-log: {}: _delta_log/{name} is of version 20"),
        (f"{20:020}.crc", b"{}", "crc.without-commit: {}: _delta_log/{name} is of version 20"),
        (
            f"{8:020}.{20:020}.compacted.json",
            b"",
            "compaction.beyond-log: {}: a log compaction covers the versions up to 20",
        ),
    ],
)
def test_a_copy_and_a_clone_of_a_table_that_lost_versions_say_so(
    table: Path, tmp_path: Path, name: str, data: bytes, note: str
) -> None:
    runs = [
        ("copy", ["--newest"], "notes"),
        ("clone", ["--yes"], "cautions"),
        ("copy", ["--replica"], "notes"),
        ("copy", ["--replica", "--check"], "notes"),
    ]
    (table / "_delta_log" / name).write_bytes(data)
    expected = note.format("commits after version 14 seem to be lost", name=name)

    for command, options, field in runs:
        target = tmp_path / f"{command}{options[0]}"
        result = deltacli(command, table, target, *options, "--json")
        assert 0 == result.code, result.err
        assert expected in result.document[field]
        validate(result.document, f"deltacli.{command}")
    older = deltacli("copy", table, tmp_path / "older", "--versions", "10-12", "--json")
    read = deltacli("read", table, "--limit", "1")
    words = deltacli("copy", table, tmp_path / "words", "--dry-run")
    cloned = deltacli("clone", table, tmp_path / "words", "--dry-run")

    assert expected not in older.document["notes"]
    assert f"note: {note.partition(':')[0]}: " in read.err
    assert expected in " ".join(words.out.split())
    assert f"note: {expected}" in cloned.err.splitlines()
