"""Damages of the paths of files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from urllib.parse import quote

from tests.rules.corruptions import damage
from tests.rules.corruptions_actions import new_change, resize, with_changes
from tests.rules.corruptions_deletion_vectors import vector_protocol
from tests.rules.table_builder import TableBuilder


def with_path(path: str) -> TableBuilder:
    """A table with one more file, whose path is written like this."""
    table = TableBuilder()
    table.commit(table.new_add("b", 5, 4, path=path))
    return table


def with_old_path(path: str) -> TableBuilder:
    """A table whose file of version 1, removed in version 2, has a path like this; nothing looks for it any more."""
    table = TableBuilder()
    table.add(1)["path"] = path
    table.action(2, "remove")["path"] = path
    return table


@damage("path.bad-encoding")
def percent_sign_alone() -> TableBuilder:
    return with_path("p=b/rate-5%.parquet")


@damage("path.bad-encoding")
def percent_sign_before_no_digits() -> TableBuilder:
    return with_path("p=b/rate-%5x.parquet")


@damage("path.bad-encoding")
def escapes_in_latin_1() -> TableBuilder:
    table = with_old_path("p=a/caf%E9.parquet")
    table.edit_files(lambda root: rename(root, "p=a/caf\ufffd.parquet", b"p=a/caf\xe9.parquet"))
    return table


def rename(root: Path, old: str, new: bytes) -> None:
    os.rename(os.fsencode(root / old), os.fsencode(root) + b"/" + new)


@damage("path.bad-encoding")
def change_file_with_a_percent_sign_alone() -> TableBuilder:
    table = with_changes()
    table.action(4, "cdc")["path"] = "_change_data/p=b/5%.parquet"
    return table


@damage("path.not-encoded")
def blank_in_the_path() -> TableBuilder:
    return with_path("p=b/part 5.parquet")


@damage("path.not-encoded")
def hash_in_the_path() -> TableBuilder:
    return with_path("p=b/part#5.parquet")


@damage("path.not-encoded")
def letter_beyond_ascii_in_the_path() -> TableBuilder:
    return with_path("p=b/caf\u00e9.parquet")


@damage("path.not-encoded")
def no_break_space_in_the_path() -> TableBuilder:
    return with_path("p=b/part\u00a05.parquet")


@damage("path.colon")
def colon_in_the_first_directory() -> TableBuilder:
    return with_path("t=03:06/part-5.parquet")


@damage("path.colon")
def colon_behind_letters() -> TableBuilder:
    return with_path("b:5/part-5.parquet")


# A remove that repeats the path of its add is not reported on top, so this one has no add.
@damage("path.not-encoded", also=("action.remove-of-unknown",))
def remove_of_a_path_with_a_blank() -> TableBuilder:
    table = TableBuilder()
    table.commit(table.new_remove("b", 5, 4, path="p=b/part 5.parquet"), operation="DELETE")
    return table


@damage("path.escapes-root")
def relative_path_with_two_dots() -> TableBuilder:
    return with_path("../outside.parquet")


@damage("path.escapes-root")
def two_dots_too_many() -> TableBuilder:
    return with_path("p=b/../../outside.parquet")


@damage("path.not-normalised")
def dot_in_front() -> TableBuilder:
    return with_path("./p=b/part-00005.parquet")


@damage("path.not-normalised")
def two_slashes() -> TableBuilder:
    return with_path("p=b//part-00005.parquet")


@damage("path.not-normalised")
def two_dots_that_stay_inside() -> TableBuilder:
    return with_path("p=b/../p=b/part-00005.parquet")


@damage("path.absolute")
def path_in_another_table() -> TableBuilder:
    return with_old_path("s3://other/table/part-00005.parquet")


@damage("path.absolute")
def absolute_path_without_scheme() -> TableBuilder:
    return with_old_path("/nowhere/table/part-00005.parquet")


class AbsoluteInside(TableBuilder):
    """A table some of whose files, those with `numbers`, are added by absolute paths. `prefix` comes before these."""

    prefix = "file://"
    version = 4
    numbers: tuple[int, ...] = (5,)

    def write(self, root: Path) -> Path:
        for index, number in enumerate(self.numbers):
            plain = self.path_of("b", number)
            add = self.add(self.version, index)
            add["path"] = f"{self.prefix}{quote(str(root))}/{plain}"
            (root / "p=b").mkdir(parents=True, exist_ok=True)
            (root / plain).write_bytes(b"x" * add["size"])
            time = (self.time_of(1) - 1000) * 1_000_000
            os.utime(root / plain, ns=(time, time))
        return super().write(root)


@damage("path.absolute-inside-root")
def absolute_path_into_the_table() -> TableBuilder:
    table = AbsoluteInside()
    table.commit(table.new_add("b", 5, 4))
    return table


@damage("path.absolute-inside-root")
def absolute_path_into_the_table_without_scheme() -> TableBuilder:
    table = AbsoluteInside()
    table.prefix = ""
    table.commit(table.new_add("b", 5, 4))
    return table


# The table is its own source here: what another directory has is not there to be read.
@damage("path.file-uri-form", also=("path.absolute-inside-root",))
def absolute_path_with_the_slashes_of_an_authority() -> TableBuilder:
    table = AbsoluteInside(protocol=vector_protocol(), properties={"delta.enableDeletionVectors": "true"})
    table.commit(table.new_add("b", 5, 4))
    return table


@damage("path.hidden-location")
def file_in_a_hidden_directory() -> TableBuilder:
    return with_path("_tmp/part-00005.parquet")


@damage("path.hidden-location")
def file_in_a_directory_with_a_dot() -> TableBuilder:
    return with_path("p=b/.tmp/part-00005.parquet")


@damage("path.reserved-name")
def file_named_like_the_hint() -> TableBuilder:
    return with_path("p=b/_last_checkpoint")


# In the log it is a file of an unknown name.
@damage("path.reserved-name", also=("log.name-unknown",))
def file_in_the_log() -> TableBuilder:
    return with_path("_delta_log/part-00005.parquet")


@damage("path.same-file-two-spellings")
def added_again_by_another_spelling() -> TableBuilder:
    table = TableBuilder().derive(checksums=False)
    add = table.new_add("b", 2, 4, path="p%3Db/part-00002-c000.snappy.parquet", dataChange=False)
    add["add"]["modificationTime"] = table.add(1, 1)["modificationTime"]
    table.commit(add)
    return table


@damage("path.same-file-two-spellings")
def removed_by_another_spelling() -> TableBuilder:
    table = TableBuilder().derive(checksums=False)
    table.commit(table.new_remove("b", 2, 4, path="p%3Db/part-00002-c000.snappy.parquet"), operation="DELETE")
    return table


# The second spelling is absolute.
@damage("path.same-file-two-spellings", also=("path.absolute-inside-root",))
def relative_and_absolute_spelling() -> TableBuilder:
    table = AbsoluteInside()
    table.numbers = (2,)
    table.commit(table.new_add("b", 2, 4))
    return table


# pyarrow 26.0.1 slices an odd number of values without an end, and fails for an even one.
@damage("path.same-file-two-spellings", also=("path.absolute-inside-root",))
def two_absolute_paths_of_which_one_has_a_second_spelling() -> TableBuilder:
    table = AbsoluteInside()
    table.numbers = (2, 6)
    table.commit(table.new_add("b", 2, 4), table.new_add("b", 6, 4))
    return table


class RemovedByAbsolutePath(TableBuilder):
    """A table whose newest commit removes a file with a relative path by its absolute path."""

    def write(self, root: Path) -> Path:
        remove = self.action(4, "remove")
        remove["path"] = f"file://{quote(str(root))}/{self.path_of('b', 2)}"
        return super().write(root)


@damage("path.same-file-two-spellings")
def relative_path_removed_by_the_absolute_one() -> TableBuilder:
    table = RemovedByAbsolutePath().derive(checksums=False)
    table.commit(table.new_remove("b", 2, 4), operation="DELETE")
    return table


@damage("path.same-file-two-spellings", also=("path.absolute-inside-root",))
def absolute_path_removed_by_the_relative_one() -> TableBuilder:
    table = AbsoluteInside().derive(checksums=False)
    table.commit(table.new_add("b", 5, 4))
    table.commit(table.new_remove("b", 5, 5), operation="DELETE")
    return table


@damage("path.case-collision")
def paths_that_differ_in_case() -> TableBuilder:
    return with_path("p=b/PART-00002-C000.snappy.parquet")


@damage("path.case-collision")
def paths_beyond_ascii_that_differ_in_case() -> TableBuilder:
    table = with_path("p=b/%C3%89t%C3%A9.parquet")
    table.commit(table.new_add("b", 6, 5, path="p=b/%C3%A9t%C3%A9.parquet"))
    return table


# Data files are not where change files belong.
@damage("path.shared-with-cdc", also=("cdc.location",))
def data_file_as_change_file() -> TableBuilder:
    table = with_changes()
    table.commit(table.new_add("b", 6, 5), new_change(6, path=table.path_of("b", 6), size=1006))
    return table


@damage("path.not-unique-over-history")
def path_that_comes_back_with_another_size() -> TableBuilder:
    table = TableBuilder()
    table.commit(table.new_add("a", 1, 4, size=77))
    resize(table, table.path_of("a", 1), 77)
    return table


@damage("path.not-unique-over-history")
def live_path_with_another_size() -> TableBuilder:
    table = TableBuilder()
    add = table.new_add("b", 2, 4, size=77, dataChange=False)
    add["add"]["modificationTime"] = table.add(1, 1)["modificationTime"]
    table.commit(add)
    resize(table, table.path_of("b", 2), 77)
    return table


@damage("path.not-unique-over-history")
def live_path_with_another_time() -> TableBuilder:
    table = TableBuilder()
    table.commit(table.new_add("b", 2, 4, dataChange=False, stats=json.dumps({"numRecords": 10})))
    return table


@damage("path.double-encoded")
def path_encoded_twice() -> TableBuilder:
    table = with_path("p=b/part%25205.parquet")
    table.edit_files(lambda root: rename(root, "p=b/part%205.parquet", b"p=b/part 5.parquet"))
    return table


@damage("path.double-encoded")
def path_with_a_time_encoded_twice() -> TableBuilder:
    """As DuckDB names the directory of a time: Hive's escapes are not encoded once more."""
    table = with_path("p=b/part%2010%3A00.parquet")
    table.edit_files(lambda root: rename(root, "p=b/part 10:00.parquet", b"p=b/part%2010%3A00.parquet"))
    return table


@damage("path.double-encoded")
def path_never_encoded() -> TableBuilder:
    table = with_path("p=b/part%205.parquet")
    table.edit_files(lambda root: rename(root, "p=b/part 5.parquet", b"p=b/part%205.parquet"))
    return table
