"""How live files are laid out: sizes in classes, bytes per partition."""

from __future__ import annotations

import json
from collections.abc import Mapping

from deltacli.operations.read.file_sizes import FileLayout, file_sizes
from tests.support.actions import add, metadata, protocol, remove
from tests.support.builder import TableBuilder
from tests.support.reading import open_built

MIB = 1 << 20


def part(path: str, size: int, values: Mapping[str, str | None]) -> dict[str, object]:
    return add(path, size=size, partition_values=values)


def layout_of(builder: TableBuilder) -> FileLayout:
    return file_sizes(open_built(builder).snapshot())


def test_files_are_counted_by_size_once_whether_they_are_in_the_checkpoint_or_in_commits() -> None:
    builder = TableBuilder().commit(
        protocol(), metadata(), add("a", size=0), add("b", size=1023), add("c", size=1024), add("gone", size=5)
    )
    builder.checkpoint(0).commit(remove("gone"), add("d", size=40 * MIB))

    found = layout_of(builder)

    assert [(0, 1024, 2), (1024, 4096, 1)] == found.classes()[:2]
    assert (16 * MIB, 64 * MIB, 1) == found.classes()[-1]
    assert 4 == sum(files for _, _, files in found.classes())
    assert (3, 2047) == (found.small_files, found.small_bytes)
    assert [] == found.largest_partitions(3)


def test_partitions_are_named_by_their_columns_in_order_whatever_the_order_in_the_log() -> None:
    schema = {
        "type": "struct",
        "fields": [
            {
                "name": name,
                "type": "string",
                "nullable": True,
                "metadata": {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"},
            }
            for number, name in enumerate(("day", "country"), 1)
        ],
    }
    about = metadata(
        schema_string=json.dumps(schema),
        partition_columns=["day", "country"],
        configuration={"delta.columnMapping.mode": "name"},
    )
    builder = TableBuilder().commit(
        protocol(2, 5),
        about,
        part("a", 10, {"col-1": "1", "col-2": "a=b/c"}),
        part("b", 20, {"col-2": "a=b/c", "col-1": "1"}),
        part("c", 5, {"col-1": None, "col-2": "x"}),
    )

    found = layout_of(builder)

    assert [("day=1/country=a=b/c", 2, 30), ("day=null/country=x", 1, 5)] == found.largest_partitions(5)
    assert [("day=1/country=a=b/c", 2, 30)] == found.largest_partitions(1)


def test_an_empty_table_has_no_classes() -> None:
    assert [] == layout_of(TableBuilder().commit(protocol(), metadata())).classes()
