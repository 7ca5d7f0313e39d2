"""Hidden names, kinds of files by name, and directories that are other tables."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.delta.listing import FileKind, HiddenNames, TableRoots, find_table_roots, identify_table_format, kinds

COLUMNS = ("p", "_p", "_p:", "_a=b", ".day")


def column(*paths: bytes | None) -> pa.BinaryArray:
    return pa.array(paths, pa.binary())


@pytest.mark.parametrize(
    ("name", "is_hidden"),
    [
        ("part-0.parquet", False),
        ("p=a%20b", False),
        ("_delta_log", True),
        ("x_delta_log", False),
        (".part-0.parquet.crc", True),
        ("_dates_backup", True),
        ("_delta_index", False),
        ("_delta_index_v2", False),
        ("_change_data", False),
        ("_p=1", False),
        ("_p", True),
        ("_px=1", True),
        ("_P=1", True),
        ("_p%3D1", True),
        ("_p%3A=1", False),
        ("_p:=1", False),
        ("_p%3a=1%2F2", False),
        ("_a%3Db=1", False),
        ("_a=b=1", False),
        ("_a=1", True),
        (".day=2024-01-01", False),
        ("_\udcff", True),
        ("\udcff_p", False),
        ("", False),
    ],
)
def test_names_that_begin_with_a_mark_are_hidden_but_for_those_of_the_table(name: str, is_hidden: bool) -> None:
    assert is_hidden == HiddenNames(COLUMNS).hides_name(name)


@pytest.mark.parametrize(
    ("path", "is_hidden"),
    [
        (b"part-0.parquet", False),
        (b"_dates_backup/x.parquet", True),
        (b"sub/_hidden/x.parquet", True),
        (b"sub/x/.hidden", True),
        (b"x_delta_log/y.parquet", False),
        (b"_delta_log/00000000000000000000.json", True),
        (b"_change_data/p=1/cdc-0.parquet", False),
        (b"_change_data/_tmp/cdc-0.parquet", True),
        (b"_p=1/x.parquet", False),
        (b"_p%3A=1/_p=2/x.parquet", False),
        (b"p=1/_p=2.parquet", False),
        (b"p=1/_q=2.parquet", True),
        (b"p=1/_change_data_x", False),
        (b"\xff/x.parquet", False),
        (b"\xff/_\xfe/x.parquet", True),
        (b"\xff/_\xfe", True),
        (b"a\n/_b", True),
        (b"a/_b\nc", True),
        (None, True),
    ],
)
def test_a_file_is_hidden_by_any_component_of_its_path(path: bytes | None, is_hidden: bool) -> None:
    assert [False, is_hidden] == HiddenNames(COLUMNS).mask(column(b"seen", path)).to_pylist()


NAMES = ["a", "_a", ".a", "_p", "_p=1", "_p%3D1", "_p%3A=1", "_delta_index", "_change_data", "p=_1", "metadata"]


@given(st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4), max_size=12), st.booleans())
def test_paths_are_classified_by_their_components(paths: list[list[str]], hides_metadata: bool) -> None:
    hidden = HiddenNames(COLUMNS, hides_metadata=hides_metadata)

    found = hidden.mask(column(*("/".join(path).encode() for path in paths)))

    expected = [
        hidden.hides_name(path[-1])
        or any(hidden.hides_directory("/".join(path[:depth])) for depth in range(1, len(path)))
        for path in paths
    ]
    assert expected == found.to_pylist()


def test_only_the_metadata_directory_of_the_root_is_hidden_and_only_on_request() -> None:
    paths = column(b"metadata/v1.metadata.json", b"a/metadata/x", b"metadata", b"metadata2/x")

    assert [True, False, False, False] == HiddenNames((), hides_metadata=True).mask(paths).to_pylist()
    assert [False] * 4 == HiddenNames(()).mask(paths).to_pylist()
    assert HiddenNames((), hides_metadata=True).hides_directory("metadata")
    assert not HiddenNames((), hides_metadata=True).hides_directory("a/metadata")
    assert not HiddenNames(()).hides_directory("metadata")


def test_a_slice_of_a_listing_is_classified_like_the_same_paths_alone() -> None:
    paths = column(b"_a/x", b"b/_x", b"c/x", b"d/_delta_log/0.json")

    assert [True, False] == HiddenNames(()).mask(paths.slice(1, 2)).to_pylist()
    assert {} == find_table_roots(paths.slice(0, 3))
    assert {"d": "Delta"} == find_table_roots(paths.slice(3))


def test_nothing_is_hidden_where_there_is_nothing() -> None:
    assert [] == HiddenNames(COLUMNS).mask(column()).to_pylist()


UUID = b"01234567-89ab-cdef-0123-456789abcdef"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (b"part-0.parquet", FileKind.DATA),
        (b"p=\xff/part-0.PARQUET", FileKind.DATA),
        (b"part-0.parquet.crc", FileKind.FOREIGN),
        (b"part-0.parquet\n", FileKind.FOREIGN),
        (b"part.parquet/x", FileKind.FOREIGN),
        (b"xparquet", FileKind.FOREIGN),
        (b"deletion_vector_" + UUID + b".bin", FileKind.VECTOR),
        (b"ab/deletion_vector_" + UUID + b".bin", FileKind.VECTOR),
        (b"my_deletion_vector_" + UUID + b".bin", FileKind.FOREIGN),
        (b"deletion_vector_" + UUID[1:] + b".bin", FileKind.FOREIGN),
        (b"deletion_vector_" + UUID + b".bin.bak", FileKind.FOREIGN),
        (b"_change_data/p=1/cdc-0.parquet", FileKind.CHANGE_DATA),
        (b"a/_change_data/cdc-0.csv", FileKind.FOREIGN),
        (b"_change_data", FileKind.FOREIGN),
        (b"_delta_index/x", FileKind.INDEX),
        (b"notes.txt", FileKind.FOREIGN),
    ],
)
def test_the_kind_of_a_file_follows_from_its_name(path: bytes, kind: FileKind) -> None:
    assert [kind] == kinds(column(path)).to_pylist()


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ([b"_delta_log/00000000000000000000.json"], {}),
        ([b"a/_delta_log/00000000000000000000.json"], {"a": "Delta"}),
        ([b"a/b/_delta_log/_sidecars/x/_delta_log/y"], {"a/b": "Delta"}),
        ([b"x_delta_log/0.json", b"_delta_log_old/0.json", b"a/_delta_log"], {}),
        ([b"\xff\n/_delta_log/0.json"], {"\udcff\n": "Delta"}),
        ([b"a/_delta_log/0.json", b"a/metadata/v1.metadata.json"], {"a": "Delta"}),
        ([b"metadata/00001-x.metadata.json"], {"": "Iceberg"}),
        ([b"a/metadata/snap-1-2-x.avro"], {"a": "Iceberg"}),
        ([b"a/metadata/v1.metadata.json.gz"], {"a": "Iceberg"}),
        ([b"a/metadata/notes.json", b"a/metadata/x/snap-1.avro", b"a/xmetadata/snap-1.avro"], {}),
        ([b".hoodie/hoodie.properties", b"b/.hoodie/x"], {"": "Hudi", "b": "Hudi"}),
        ([b"c/schema/schema-0", b"c/snapshot/snapshot-1"], {"c": "Paimon"}),
        ([b"c/schema/schema-0", b"c/manifest/manifest-1"], {"c": "Paimon"}),
        ([b"c/schema/schema-0", b"d/snapshot/snapshot-1", b"c/schema/schema-x"], {}),
        ([b"d/_versions/1.manifest"], {"d": "Lance"}),
        ([b"d/_versions/1.txt", b"d/my_versions/1.manifest"], {}),
        ([b"_delta_log/metadata/snap-1.avro"], {}),
    ],
)
def test_other_tables_are_recognized_by_their_markers(paths: Sequence[bytes], expected: dict[str, str]) -> None:
    assert expected == find_table_roots(column(*paths))


def test_the_markers_of_one_table_may_come_in_two_batches() -> None:
    roots = TableRoots()

    for path in (b"c/manifest/manifest-1", b"x.parquet", b"c/schema/schema-0"):
        roots.take(column(path))

    assert {"c": "Paimon"} == roots.found


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["p=1", "_delta_log"], "Delta"),
        ([".hoodie", "p=1"], "Hudi"),
        (["_versions", "data"], "Lance"),
        (["x_delta_log", "metadata", "schema"], None),
        ([], None),
    ],
)
def test_a_directory_is_classified_by_its_subdirectories(names: list[str], expected: str | None) -> None:
    assert expected == identify_table_format(names)
