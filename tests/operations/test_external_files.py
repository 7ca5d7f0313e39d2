"""Files that lie outside the table: not opened, whatever names them, unless the user allows it by a prefix."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from deltacli import open_table
from deltacli.api.table import Table
from deltacli.core.errors import PathExternal, UsageError
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.validate.validate import Validation
from deltacli.storage import LocalStorage, Storage, open_storage
from deltacli.work.table_files import TableFiles, parse_allowed_prefixes
from tests.support.external import add, listening, put_commit, put_rows, write_table
from tests.support.gcs import GcsServer
from tests.support.in_memory import MemoryStorage
from tests.support.validating import validate_table

NOW_MS = 1_800_000_000_000
SECRET = "outside/secret.parquet"

Names = Callable[[Path], str]
"""Makes what a path of the log says of the table's parent directory."""

SPELLINGS: dict[str, Names] = {
    "absolute": lambda base: f"{base}/{SECRET}",
    "file": lambda base: f"file:{base}/{SECRET}",
    "file URI": lambda base: f"file://{base}/{SECRET}",
    "localhost": lambda base: f"FILE://localhost{base}/{SECRET}",
    "up": lambda _: f"../{SECRET}",
    "down and up": lambda _: f"p=1/../../{SECRET}",
    "encoded dots": lambda _: f"%2E%2E/{SECRET}",
    "encoded slash": lambda _: f"..%2F{SECRET}",
    "absolute through the table": lambda base: f"file://{base}/t/../{SECRET}",
    "absolute through the table, encoded": lambda base: f"file://{base}/t/%2e%2e/{SECRET}",
    "sibling with the same beginning": lambda base: f"{base}/t-not/secret.parquet",
    "linked file": lambda _: "link.parquet",
    "linked directory": lambda _: "linked/secret.parquet",
    "linked twice": lambda _: "again/secret.parquet",
}


def read_ids(table: Table) -> list[int]:
    return sorted(row for batch in table.snapshot().scan() for row in batch.column("id").to_pylist())


def with_secret(base: Path, name: str) -> Path:
    """A table `t` that names a file outside by `name`; links lead there, too."""
    secret = put_rows(base / SECRET, 2)
    put_rows(base / "t-not" / "secret.parquet", 2)
    root = write_table(base / "t", add(name, secret.stat().st_size))
    (root / "link.parquet").symlink_to(secret)
    if name.startswith("again/"):
        (base / "hop").symlink_to("outside")
        (root / "again").symlink_to("../hop")
    else:
        (root / "linked").symlink_to(base / "outside")
    return root


def validated(root: Path, level: str, *prefixes: str) -> Validation:
    allowed = parse_allowed_prefixes(prefixes)
    storage = open_storage(str(root), allowed=allowed)
    return validate_table(storage, EmbeddedEngine(), level=level, now_ms=NOW_MS, allowed=allowed)


@pytest.mark.parametrize("name", SPELLINGS.values(), ids=SPELLINGS)
def test_a_file_outside_is_not_read(name: Names, tmp_path: Path) -> None:
    root = with_secret(tmp_path, name(tmp_path))

    with pytest.raises(PathExternal) as refused:
        read_ids(open_table(str(root)))
    with pytest.raises(PathExternal):
        list(open_table(str(root)).changes(from_version=0))

    assert ("path.external", 4) == (refused.value.code, refused.value.exit_code)
    assert "--allow-external" in str(refused.value.hint)


@pytest.mark.parametrize("name", SPELLINGS.values(), ids=SPELLINGS)
def test_a_file_outside_is_read_below_a_prefix_that_is_allowed(name: Names, tmp_path: Path) -> None:
    root = with_secret(tmp_path, name(tmp_path))

    table = open_table(str(root), allow_external=[str(tmp_path / "outside"), (tmp_path / "t-not").as_uri()])

    assert [1, 2] == read_ids(table)


@pytest.mark.parametrize("prefix", ["out", "outside/secret", "outside/secret.parquet/x", "t", "outside/.."])
def test_prefixes_are_compared_by_whole_segments(prefix: str, tmp_path: Path) -> None:
    root = with_secret(tmp_path, f"../{SECRET}")
    (tmp_path / "outside" / ".." / "out").mkdir(exist_ok=True)
    table = open_table(str(root), allow_external=[f"{tmp_path}/{prefix}"])

    if prefix == "outside/..":
        assert [1, 2] == read_ids(table)
    else:
        with pytest.raises(PathExternal):
            read_ids(table)


def test_the_links_of_a_prefix_and_below_it_are_resolved(tmp_path: Path) -> None:
    root = with_secret(tmp_path, f"{tmp_path}/alias/secret.parquet")
    (tmp_path / "alias").symlink_to("outside")

    assert [1, 2] == read_ids(open_table(str(root), allow_external=[str(tmp_path / "alias")]))
    (tmp_path / "alias").unlink()
    (tmp_path / "alias").mkdir()
    (tmp_path / "alias" / "secret.parquet").symlink_to(tmp_path / SECRET)
    with pytest.raises(PathExternal):
        read_ids(open_table(str(root), allow_external=[str(tmp_path / "alias")]))


def test_a_table_behind_a_link_and_links_inside_it_are_read_as_before(tmp_path: Path) -> None:
    root = write_table(
        tmp_path / "t", add("link.parquet"), add("linked/b.parquet"), add(f"file://{tmp_path}/t/c.parquet")
    )
    put_rows(root / "data" / "b.parquet", 3)
    put_rows(root / "c.parquet", 4)
    (root / "link.parquet").symlink_to("data/b.parquet")
    (root / "linked").symlink_to("data")
    (tmp_path / "alias").symlink_to("t")

    assert [1, 3, 3, 4] == read_ids(open_table(str(root)))
    assert [1, 3, 3, 4] == read_ids(open_table(str(tmp_path / "alias")))


@pytest.mark.parametrize(
    "store", ["http://{0}/x.parquet", "http:/{0}/x.parquet", "s3://bucket/x.parquet", "ftp://{0}/x.parquet"]
)
@pytest.mark.parametrize("level", ["storage", "footers", "data"])
def test_no_request_is_sent_to_another_host(
    store: str, level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening() as (address, asked):
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{address}")
        vector = {"storageType": "p", "pathOrInlineDv": store.format(address), "sizeInBytes": 40, "cardinality": 1}
        root = write_table(tmp_path / "t", add(store.format(address)), add("b.parquet", deletionVector=vector))
        put_rows(root / "b.parquet", 2)
        change = {"path": store.format(address), "partitionValues": {}, "size": 1, "dataChange": False}
        put_commit(root, 1, {"cdc": change})

        found = validated(root, level)
        for make in (
            lambda: read_ids(open_table(str(root))),
            lambda: list(open_table(str(root)).changes(from_version=1)),
        ):
            with pytest.raises(PathExternal):
                make()

        assert [] == asked
        assert not {"data.file-missing", "data.not-parquet"} & {finding.rule.id for finding in found.findings}
        assert level == "storage" or any("--allow-external" in sentence for sentence in found.not_checked)


@pytest.mark.parametrize("name", SPELLINGS.values(), ids=SPELLINGS)
@pytest.mark.parametrize("level", ["storage", "footers", "data"])
def test_validate_reports_files_it_may_not_open_and_continues(level: str, name: Names, tmp_path: Path) -> None:
    root = with_secret(tmp_path, name(tmp_path))
    before = validated(root, level, str(tmp_path / "outside"), str(tmp_path / "t-not"))

    found = validated(root, level)

    assert not {finding.rule.id for finding in found.findings} - {finding.rule.id for finding in before.findings}
    assert level == "storage" or any("--allow-external" in sentence for sentence in found.not_checked)
    assert not any("--allow-external" in sentence for sentence in before.not_checked)
    if level == "data":
        assert found.files is not None
        assert before.files is not None
        assert ((1, 1), (2, 2)) == (found.files[::2], before.files[::2])


@pytest.mark.parametrize("kind", ["u", "p"])
def test_vectors_outside_are_not_read(kind: str, tmp_path: Path) -> None:
    text = "../../outside/xx" + "0" * 20 if kind == "u" else f"{tmp_path}/outside/vector.bin"
    vector = {"storageType": kind, "pathOrInlineDv": text, "offset": 1, "sizeInBytes": 40, "cardinality": 1}
    root = write_table(tmp_path / "t", add("b.parquet", deletionVector=vector))
    put_rows(root / "b.parquet", 2)

    with pytest.raises(PathExternal):
        read_ids(open_table(str(root)))


@pytest.mark.parametrize("inside", ["_delta_log", "_delta_log/00000000000000000001.json"])
def test_a_log_linked_outside_is_not_read(inside: str, tmp_path: Path) -> None:
    root = write_table(tmp_path / "t")
    put_commit(root, 1, add("x.parquet"))
    (root / inside).rename(tmp_path / "elsewhere")
    (root / inside).symlink_to(tmp_path / "elsewhere")

    with pytest.raises(PathExternal):
        open_table(str(root)).snapshot()
    found = validated(root, "log")

    assert any("--allow-external" in sentence for sentence in found.not_checked)
    assert open_table(str(root), allow_external=[str(tmp_path)]).snapshot().version == 1


def test_a_hint_linked_outside_is_not_read_and_not_needed(tmp_path: Path) -> None:
    root = write_table(tmp_path / "t")
    (tmp_path / "elsewhere").write_text('{"version":0}')
    (root / "_delta_log" / "_last_checkpoint").symlink_to(tmp_path / "elsewhere")

    snapshot = open_table(str(root)).snapshot()
    found = validated(root, "log")

    assert (0, ("hint.bad-json",)) == (snapshot.version, snapshot.problems)
    assert ["_last_checkpoint"] == [sentence.partition(" ")[0] for sentence in found.not_checked]


def test_nothing_is_written_or_deleted_through_a_link_to_the_outside(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").write_bytes(b"1")
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "linked").symlink_to(tmp_path / "outside")
    storage = LocalStorage(str(tmp_path / "t"))

    for write in (storage.put, storage.put_if_absent):
        with pytest.raises(PathExternal):
            write("linked/new", b"2")
    with pytest.raises(PathExternal):
        storage.draft("linked/new")
    outcomes = [
        type(outcome).__name__ for _, outcome in storage.delete_many(["linked/precious", "../outside/precious"])
    ]

    assert (["Failed", "Failed"], ["precious"]) == (outcomes, os.listdir(tmp_path / "outside"))


@pytest.mark.parametrize(("mode", "store"), [("full", "gcs"), ("lite", "local")])
def test_vacuum_neither_asks_for_nor_deletes_a_file_elsewhere(
    mode: str, store: str, tmp_path: Path, gcs: GcsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket, other = gcs.make_bucket(), gcs.make_bucket()
    gcs.put(other, "t/precious", b"1")
    (tmp_path / "precious").write_bytes(b"1")
    with listening() as (address, asked):
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{address}")
        elsewhere = [f"http://{address}/precious", f"gs://{other}/t/precious", "s3://bucket/precious"]
        elsewhere += [f"file://{tmp_path}/precious", f"{tmp_path}/precious", f"https://{address}/precious"]
        removes = [{"path": path, "deletionTimestamp": 0, "dataChange": True} for path in elsewhere]
        root = write_table(tmp_path / "t")
        for number, remove in enumerate(removes, 1):
            put_commit(root, number, {"remove": remove})
        for file in [file for file in root.rglob("*") if file.is_file()]:
            gcs.put(bucket, f"t/{file.relative_to(root)}", file.read_bytes(), NOW_MS - 90 * 86_400_000)
        gcs.forget()

        table = Table(open_storage(str(root) if store == "local" else f"gs://{bucket}/t"), clock=lambda: NOW_MS)
        table.vacuum(mode=mode, max_delete="100%")

        assert ([], ["t/precious"]) == (asked, list(gcs.buckets[other]))
        assert (tmp_path / "precious").exists()
        assert not [
            request.target for request in gcs.requests if f"/b/{bucket}/" not in request.target + str(request.body)
        ]


@pytest.mark.parametrize(
    ("path", "is_allowed"),
    [
        ("s3://bucket/source/x.parquet", True),
        ("s3a://bucket/source/p=1/x.parquet", True),
        ("s3://bucket/source%20two/x.parquet", False),
        ("s3://bucket/source-two/x.parquet", False),
        ("s3://bucket/source/../other/x.parquet", False),
        ("s3://bucket/source/%2e%2e/other/x.parquet", False),
        ("s3://bucket/source/%252e%252e/other/x.parquet", False),
        ("s3://bucket.evil.example/source/x.parquet", False),
        ("s3://bucket@evil.example/source/x.parquet", False),
        ("s3://other/source/x.parquet", False),
        ("../source/x.parquet", True),
        ("../../bucket/source/x.parquet", False),
        ("../table-two/x.parquet", False),
    ],
)
def test_the_prefix_of_another_store_keeps_to_its_host_and_directory(path: str, is_allowed: bool) -> None:
    opened: list[str] = []

    def open_other(uri: str) -> Storage:
        opened.append(uri)
        return MemoryStorage()

    files = TableFiles(open_storage("s3://bucket/table"), open_other, parse_allowed_prefixes(["s3://bucket/source/"]))

    if is_allowed:
        assert "x.parquet" == files.locate(path)[1]
    else:
        with pytest.raises(PathExternal):
            files.locate(path)
    assert is_allowed == bool(opened)


@pytest.mark.parametrize("prefix", ["", "s3://", "file:", "http:///"])
def test_a_prefix_without_a_place_is_refused(prefix: str) -> None:
    with pytest.raises(UsageError):
        parse_allowed_prefixes([prefix])
