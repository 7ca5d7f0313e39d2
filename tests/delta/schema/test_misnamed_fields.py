"""Fields that a file has under their logical names, told from dropped ones by ids and by the metadata of the past."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from deltacli.delta.log.state import MetadataOfVersion, OlderMetadata, TableConfiguration, configuration_of
from deltacli.delta.schema.misnamed_fields import find_misnamed_fields

Json = Any  # Any: JSON values
LONG = "long"


def field(name: str, number: int, physical: str | None = None, kind: Json = LONG) -> dict[str, Json]:
    """A field with column mapping; its physical name is its name unless it is given."""
    mapping = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical or name}
    return {"name": name, "type": kind, "nullable": True, "metadata": mapping}


def struct(*fields: Json) -> Json:
    return {"type": "struct", "fields": list(fields)}


def array(element: Json) -> Json:
    return {"type": "array", "elementType": element, "containsNull": True}


def map_of(key: Json, value: Json) -> Json:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def metadata(
    *fields: Json, highest: int, mode: str = "name", partitions: Sequence[str] = (), **properties: str
) -> dict[str, Json]:
    configuration = {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": str(highest)}
    return {
        "id": "t",
        "schemaString": json.dumps(struct(*fields)),
        "partitionColumns": list(partitions),
        "configuration": configuration | properties,
    }


def configuration(
    current: Mapping[str, Json], *older: Mapping[str, Json], reaches_back: bool = False
) -> TableConfiguration:
    found = tuple(MetadataOfVersion(version, dict(action)) for version, action in enumerate(older))
    config = configuration_of(dict(current), {"minReaderVersion": 2, "minWriterVersion": 5})
    return TableConfiguration(
        config.protocol, config.metadata, config.schema, older_metadata=lambda: OlderMetadata(found, reaches_back)
    )


def found(file: pa.Schema, config: TableConfiguration) -> list[tuple[str, str, bool]]:
    return [(one.path, one.name_in_file, one.is_certain) for one in find_misnamed_fields(file, config)]


def columns(*names: str, **ids: int) -> pa.Schema:
    """A file with these columns of numbers, and the field ids that are given."""
    marks = {name: {"PARQUET:field_id": str(number)} for name, number in ids.items()}
    return pa.schema([pa.field(name, pa.int64(), metadata=marks.get(name)) for name in names])


ID = field("id", 1)
RENAMED = metadata(ID, field("w", 2, "v"), highest=2)
"""`v` was renamed to `w`; no column was ever dropped."""
BEFORE_DROP = metadata(ID, field("v", 2), highest=2)
AFTER_DROP = metadata(ID, highest=2)
ADDED_AGAIN = metadata(ID, field("v", 3, "col-3"), highest=3)
"""`v` was dropped, and added again under another physical name."""


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("id", "w"), [("w", "w", True)]),
        (("id", "W"), [("w", "W", True)]),
        (("id", "v"), []),
        (("id", "V"), []),
        (("id",), []),
        (("id", "v", "w"), []),
        (("id", "other"), []),
        ((), []),
    ],
)
def test_without_dropped_columns_a_logical_name_is_certain(names: tuple[str, ...], expected: list[Any]) -> None:
    assert expected == found(columns(*names), configuration(RENAMED))


def test_a_column_that_was_dropped_and_added_again_is_not_accused() -> None:
    whole = configuration(ADDED_AGAIN, BEFORE_DROP, AFTER_DROP, ADDED_AGAIN, reaches_back=True)
    only_the_ids = configuration(ADDED_AGAIN, BEFORE_DROP)

    assert [] == found(columns("id", "v"), whole)
    assert [] == found(columns("id", "v"), only_the_ids)


def test_where_the_log_was_cut_off_a_dropped_column_leaves_a_doubt() -> None:
    assert [("v", "v", False)] == found(columns("id", "v"), configuration(ADDED_AGAIN))
    assert [("v", "v", False)] == found(columns("id", "v"), configuration(ADDED_AGAIN, AFTER_DROP, ADDED_AGAIN))


def test_another_name_than_that_of_a_dropped_column_is_certain_as_far_as_the_log_knows_all_columns() -> None:
    current = metadata(ID, field("w", 3, "col-3"), highest=3)

    assert [("w", "w", True)] == found(columns("id", "w"), configuration(current, BEFORE_DROP))
    assert [("w", "w", False)] == found(columns("id", "w"), configuration(current))


def test_ids_that_were_never_used_are_explained_by_a_log_that_reaches_back_to_a_first_schema_without_gaps() -> None:
    current = metadata(ID, field("w", 5, "col-5"), highest=5)
    first = metadata(ID, highest=1)
    with_gap = metadata(ID, highest=3)

    assert [("w", "w", True)] == found(columns("id", "w"), configuration(current, first, current, reaches_back=True))
    assert [("w", "w", False)] == found(columns("id", "w"), configuration(current, first, current))
    # The log of a clone begins with the gaps of its source.
    assert [("w", "w", False)] == found(columns("id", "w"), configuration(current, with_gap, reaches_back=True))


@pytest.mark.parametrize("highest", [0, 1, -1])
def test_a_counter_that_is_below_the_ids_proves_nothing(highest: int) -> None:
    current = metadata(ID, field("w", 2, "v"), highest=highest)

    assert [("w", "w", False)] == found(columns("id", "w"), configuration(current))


def test_the_ids_in_a_file_show_that_a_column_was_dropped() -> None:
    config = configuration(ADDED_AGAIN)

    assert [] == found(columns("id", "v", id=1, v=2), config)
    assert [("v", "v", False)] == found(columns("id", "v", id=2, v=2), config)
    assert [("v", "v", False)] == found(columns("id", "v", v=2), config)
    assert [("v", "v", False)] == found(columns("id", "v", id=1, v=4), config)


def test_columns_that_have_each_others_names_are_not_accused() -> None:
    swapped = metadata(field("a", 1, "b"), field("b", 2, "a"), field("c", 3), highest=3)

    assert [] == found(columns("a", "b"), configuration(swapped))
    assert [] == found(columns("a"), configuration(swapped))


def test_a_name_from_before_a_rename_counts_as_far_as_the_log_has_it() -> None:
    renamed_again = metadata(ID, field("x", 2, "v"), highest=2)

    assert [("x", "w", True)] == found(columns("id", "w"), configuration(renamed_again, RENAMED))
    assert [] == found(columns("id", "w"), configuration(renamed_again))
    assert [] == find_misnamed_fields(
        columns("id", "w"), configuration(renamed_again, RENAMED), with_former_names=False
    )


def test_partition_columns_and_void_columns_do_not_count() -> None:
    current = metadata(ID, field("p", 2, "col-2"), field("n", 3, "col-3", "void"), highest=3, partitions=["p"])

    assert [] == found(columns("id", "p", "n"), configuration(current))


def test_without_column_mapping_every_name_is_right() -> None:
    assert [] == found(columns("id", "w"), configuration(metadata(ID, field("w", 2, "v"), highest=2, mode="none")))


NESTED = struct(field("a", 2), field("c", 3, "b"))
"""A struct whose field `b` was renamed to `c`."""
WRONG = pa.struct([("a", pa.int64()), ("c", pa.int64())])
RIGHT = pa.struct([("a", pa.int64()), ("b", pa.int64())])


@pytest.mark.parametrize(
    ("kind", "around", "path"),
    [
        (NESTED, lambda inner: inner, "s.c"),
        (array(NESTED), pa.list_, "s.element.c"),
        (array(NESTED), pa.large_list, "s.element.c"),
        (map_of("string", NESTED), lambda inner: pa.map_(pa.string(), inner), "s.value.c"),
        (map_of(NESTED, "string"), lambda inner: pa.map_(inner, pa.string()), "s.key.c"),
        (array(array(NESTED)), lambda inner: pa.list_(pa.list_(inner)), "s.element.element.c"),
        (struct(field("t", 4, "col-4", NESTED)), lambda inner: pa.struct([("col-4", inner)]), "s.t.c"),
    ],
)
def test_fields_of_structs_are_found_at_any_depth(kind: Json, around: Any, path: str) -> None:
    highest = 5 if path == "s.t.c" else 4
    config = configuration(metadata(field("s", highest, "col-s", kind), field("id", 1), highest=highest))

    assert [(path, "c", True)] == found(pa.schema([("col-s", around(WRONG)), ("id", pa.int64())]), config)
    assert [] == found(pa.schema([("col-s", around(RIGHT)), ("id", pa.int64())]), config)


def test_a_nested_field_that_was_dropped_and_added_again_is_not_accused() -> None:
    before = metadata(field("s", 1, kind=struct(field("a", 2), field("b", 3))), highest=3)
    after = metadata(field("s", 1, kind=struct(field("a", 2), field("b", 4, "col-4"))), highest=4)
    file = pa.schema([("s", RIGHT)])

    assert [] == found(file, configuration(after, before))
    assert [("s.b", "b", False)] == found(file, configuration(after))


def test_a_name_counts_at_its_own_place_only() -> None:
    before = metadata(field("b", 1), field("s", 2, kind=struct(field("a", 3))), highest=3)
    after = metadata(field("s", 2, kind=struct(field("a", 3), field("b", 4, "col-4"))), highest=4)

    assert [("s.b", "b", True)] == found(pa.schema([("s", RIGHT)]), configuration(after, before))


def test_by_ids_a_column_is_found_whatever_its_name_and_others_are_found_by_name() -> None:
    current = metadata(ID, field("w", 2, "v"), highest=2, mode="id")
    config = configuration(current)

    assert [] == found(columns("id", "w", id=1, w=2), config)
    assert [] == found(columns("id", "v"), config)
    assert [("w", "w", True)] == found(columns("id", "w"), config)
    assert [("w", "w", True)] == found(columns("id", "w", id=1), config)
    assert [("w", "w", True)] == found(columns("id", "w", id=1, w=9), config)


def test_ids_of_elements_count_as_assigned() -> None:
    kind = array("long")
    items = field("items", 1, kind=kind)
    items["metadata"]["delta.columnMapping.nested.ids"] = {"items.element": 2}
    config = configuration(metadata(items, field("w", 3, "v"), highest=3))

    assert [("w", "w", True)] == found(pa.schema([("items", pa.list_(pa.int64())), ("w", pa.int64())]), config)


def test_metadata_that_cannot_be_read_leaves_a_doubt() -> None:
    broken = {"id": "t", "schemaString": "{"}
    current = metadata(ID, field("w", 3, "col-3"), highest=3)
    first = metadata(ID, highest=1)

    assert [("w", "w", True)] == found(columns("id", "w"), configuration(current, first, reaches_back=True))
    assert [("w", "w", False)] == found(columns("id", "w"), configuration(current, first, broken, reaches_back=True))
