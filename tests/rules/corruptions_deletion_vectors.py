"""Damages of deletion vectors: descriptors, and the files they name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.rules.corruptions import damage
from tests.rules.table_builder import NOW_MS, TableBuilder, column, set_time, struct

UUID_TEXT = "^-aqEH.-t@S}K{vb[*k^"
VECTOR_FILE = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
INLINE_TEXT = "0" * 45  # 36 bytes: no bitmap, but text that decodes


def vector_protocol(*writer_features: str) -> dict[str, Any]:
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["deletionVectors", *writer_features],
    }


def table_with_a_vector(
    *, properties: dict[str, str] | None = None, has_file: bool = True, **more: Any
) -> TableBuilder:
    """A table whose version 4 deletes one row of a file by a vector."""
    more.setdefault("protocol", vector_protocol())
    table = TableBuilder(properties={"delta.enableDeletionVectors": "true"} | (properties or {}), **more)
    table.commit(table.new_remove("b", 4, 4), table.new_add("b", 4, 4), operation="DELETE")
    table.add(4)["modificationTime"] = table.add(3)["modificationTime"]
    table.add(4)["deletionVector"] = {
        "storageType": "u",
        "pathOrInlineDv": UUID_TEXT,
        "offset": 1,
        "sizeInBytes": 34,
        "cardinality": 1,
    }
    table.set_stats(4, table.stats(4) | {"tightBounds": False, "nullCount": {"id": 0, "name": 0}})
    if has_file:
        table.put(VECTOR_FILE, b"\x01" + bytes(42))
    return table


def change(**values: Any) -> TableBuilder:
    """The table with other values in its descriptor; None: without the field."""
    table = table_with_a_vector()
    vector = table.add(4)["deletionVector"]
    for name, value in values.items():
        if value is None:
            del vector[name]
        else:
            vector[name] = value
    return table


def inline(**values: Any) -> TableBuilder:
    """A table whose vector lies in the log."""
    table = table_with_a_vector(has_file=False)
    vector = {"storageType": "i", "pathOrInlineDv": INLINE_TEXT, "sizeInBytes": 36, "cardinality": 1}
    table.add(4)["deletionVector"] = vector | values
    return table


# The file of the vector is no longer named by anything the rules can follow, and young.
@damage("dv.bad-descriptor")
def storage_type_that_nobody_knows() -> TableBuilder:
    return change(storageType="x")


@damage("dv.bad-descriptor")
def vector_of_a_negative_size() -> TableBuilder:
    return change(sizeInBytes=-1)


@damage("dv.bad-descriptor")
def vector_without_a_size() -> TableBuilder:
    return change(sizeInBytes=None)


@damage("dv.bad-z85")
def inline_text_with_a_blank() -> TableBuilder:
    return inline(pathOrInlineDv=INLINE_TEXT[:-1] + " ")


@damage("dv.bad-z85")
def inline_text_beyond_32_bits() -> TableBuilder:
    """`%nSc0` is the greatest group; the one after it has no four bytes."""
    return inline(pathOrInlineDv="%nSc0" * 8 + "%nSc1")


@damage("dv.bad-z85")
def name_of_nineteen_characters() -> TableBuilder:
    table = table_with_a_vector(has_file=False)
    table.add(4)["deletionVector"]["pathOrInlineDv"] = UUID_TEXT[1:]
    return table


@damage("dv.inline-with-offset")
def inline_vector_at_an_offset() -> TableBuilder:
    return inline(offset=1)


@damage("dv.absolute-not-absolute")
def absolute_path_that_is_relative() -> TableBuilder:
    table = table_with_a_vector(has_file=False)
    table.add(4)["deletionVector"] |= {"storageType": "p", "pathOrInlineDv": f"elsewhere/{VECTOR_FILE}"}
    return table


@damage("dv.offset-zero-vs-null")
def vector_at_the_first_byte() -> TableBuilder:
    return change(offset=0)


@damage("dv.offset-zero-vs-null")
def vector_in_a_file_without_an_offset() -> TableBuilder:
    return change(offset=None)


@damage("dv.empty")
def vector_of_no_row() -> TableBuilder:
    return change(cardinality=0)


@damage("dv.num-records-missing")
def vector_without_statistics() -> TableBuilder:
    table = table_with_a_vector()
    del table.add(4)["stats"]
    return table


@damage("dv.feature-missing")
def vector_under_a_protocol_without_vectors() -> TableBuilder:
    table = table_with_a_vector(protocol={"minReaderVersion": 1, "minWriterVersion": 2})
    table.configure({"delta.enableDeletionVectors": None})
    return table


@damage("dv.written-while-disabled")
def vector_without_leave_to_write_any() -> TableBuilder:
    """Version 3 takes the leave away that the table was made with."""
    table = table_with_a_vector()
    changed = table.change_metadata()
    del changed["metaData"]["configuration"]["delta.enableDeletionVectors"]
    table.commits[3].insert(1, changed)
    return table


@damage("dv.iceberg-conflict")
def vector_that_was_there_before_iceberg() -> TableBuilder:
    """Version 5 turns Iceberg's rules on and leaves the vector of version 4, which version 6 commits again."""
    protocol = vector_protocol("icebergCompatV2", "columnMapping")
    protocol["readerFeatures"].append("columnMapping")
    schema = struct(
        column("id", "long", **mapping(1, "id")),
        column("name", "string", **mapping(2, "name")),
        column("p", "string", **mapping(3, "p")),
    )
    properties = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "3"}
    table = table_with_a_vector(protocol=protocol, properties=properties, schema=schema)
    changed = table.change_metadata()
    changed["metaData"]["configuration"] |= {
        "delta.enableIcebergCompatV2": "true",
        "delta.enableDeletionVectors": "false",
    }
    table.commit(changed, operation="SET TBLPROPERTIES")
    table.commit({"add": table.add(4) | {"dataChange": False}}, operation="COMPUTE STATS")
    return table


def mapping(number: int, name: str) -> dict[str, Any]:
    return {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": name}


@damage("dv.absolute-in-root", also=("path.file-uri-form",))
def absolute_path_into_the_table() -> TableBuilder:
    """The path is known when the table is written."""
    table = table_with_a_vector()
    table.add(4)["deletionVector"] |= {"storageType": "p", "pathOrInlineDv": f"ROOT/{VECTOR_FILE}"}

    def put_root(root: Path) -> None:
        commit = root / "_delta_log" / f"{4:020d}.json"
        commit.write_text(commit.read_text().replace("ROOT", f"file://{root}"))
        set_time(commit, table.time_of(4))

    table.edit_files(put_root)
    return table


@damage("dv.all-rows")
def vector_of_every_row() -> TableBuilder:
    return change(cardinality=10)


@damage("dv.random-prefix-dir")
def vector_in_a_hidden_directory() -> TableBuilder:
    table = table_with_a_vector(has_file=False)
    table.add(4)["deletionVector"]["pathOrInlineDv"] = f"_a{UUID_TEXT}"
    table.put(f"_a/{VECTOR_FILE}", b"\x01" + bytes(42))
    return table


@damage("dv.file-missing")
def vector_without_its_file() -> TableBuilder:
    return table_with_a_vector(has_file=False)


@damage("dv.file-missing", also=("path.file-uri-form",))
def vector_elsewhere_without_its_file() -> TableBuilder:
    table = table_with_a_vector(has_file=False)
    location = f"file:///no/such/directory/{VECTOR_FILE}"
    table.add(4)["deletionVector"] |= {"storageType": "p", "pathOrInlineDv": location}
    return table


@damage("dv.orphan")
def file_that_no_vector_names() -> TableBuilder:
    table = table_with_a_vector()
    vector = "deletion_vector_00000000-0000-4000-8000-000000000000.bin"
    table.put(vector, b"\x01", modified_ms=NOW_MS - 30 * 86_400_000)
    return table


@damage("stats.records-disagree")
def records_without_the_rows_that_the_vector_deletes() -> TableBuilder:
    table = table_with_a_vector()
    table.set_stats(4, table.stats(4) | {"numRecords": table.stats(4)["numRecords"] - 1})
    return table
