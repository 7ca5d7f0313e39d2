"""Damages of deletion vectors: their bytes, and the rows they delete."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from tests.rules.corruptions import damage
from tests.rules.corruptions_deletion_vectors import vector_protocol
from tests.rules.data_table import DataTable
from tests.rules.table_builder import NOW_MS, set_time
from tests.support.small_vectors import MAGIC, Descriptor, inline, roaring32, vector_file, vector_path, z85

UUID_OF_FILE = UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")


class VectorTable(DataTable):
    """Its version 4 deletes rows 1 and 2 of one file, and row 9 of another, by two vectors of one file."""

    def __init__(self) -> None:
        super().__init__(protocol=vector_protocol(), properties={"delta.enableDeletionVectors": "true"})
        self.commit(operation="DELETE")
        for number, older in ((2, self.add(1, 1)), (4, self.add(3))):
            self.commits[4].append(self.new_remove("b", number, 4, size=older["size"]))
            self.commits[4].append({"add": dict(older)})
        self.vector_file = bytearray()
        self.store([[1, 2], [9]])
        self.edit_files(self._write_vectors)

    def store(self, vectors: Sequence[Sequence[int]]) -> None:
        """Put vectors into the file, and their descriptors into the adds, one after the other."""
        file = vector_file(vectors)
        self.vector_file[:] = file.data
        for number in range(len(vectors)):
            self.set_vector(file.relative(number, UUID_OF_FILE), number)

    def set_vector(self, vector: Descriptor, number: int = 0) -> None:
        """Give a file another vector."""
        self.add(4, number)["deletionVector"] = vector
        self.set_stats(4, {"numRecords": 10, "tightBounds": False}, number)

    def set_data(self, data: bytes, cardinality: int) -> None:
        """Put one vector of these bytes into the file, and none into the other add."""
        self.vector_file[:] = b"\1" + struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))
        self.vector().update(offset=1, sizeInBytes=len(data), cardinality=cardinality)
        self.set_vector(inline([9]), 1)

    def vector(self, number: int = 0) -> Descriptor:
        """A descriptor, to be changed in place."""
        found: Descriptor = self.add(4, number)["deletionVector"]
        return found

    def _write_vectors(self, root: Path) -> None:
        target = root / vector_path(UUID_OF_FILE)
        target.write_bytes(self.vector_file)
        set_time(target, NOW_MS - 3_600_000)


@damage("dv.file-too-short")
def vector_file_is_cut() -> VectorTable:
    table = VectorTable()
    del table.vector_file[-1]
    return table


@damage("dv.file-too-short")
def vector_begins_behind_its_file() -> VectorTable:
    table = VectorTable()
    table.vector()["offset"] = 1_000_000
    return table


@damage("dv.file-version")
def vector_file_of_another_version() -> VectorTable:
    """Both of its vectors are at fault, which is reported once."""
    table = VectorTable()
    table.vector_file[0] = 2
    return table


@damage("dv.size-mismatch")
def size_in_the_log_is_too_small() -> VectorTable:
    table = VectorTable()
    table.vector()["sizeInBytes"] -= 1
    return table


@damage("dv.size-mismatch")
def inline_vector_of_another_size() -> VectorTable:
    table = VectorTable()
    vector = inline([1, 2])
    table.set_vector(vector | {"sizeInBytes": vector["sizeInBytes"] + 1})
    return table


@damage("dv.crc-mismatch")
def checksum_of_a_vector_is_wrong() -> VectorTable:
    table = VectorTable()
    table.vector_file[-1] ^= 1
    return table


@damage("dv.magic")
def vector_with_another_magic_number() -> VectorTable:
    table = VectorTable()
    table.set_data(struct.pack("<IQ", MAGIC + 1, 0), 1)
    return table


@damage("dv.magic")
def vector_of_the_older_layout() -> VectorTable:
    table = VectorTable()
    bitmap = roaring32([0, 4])
    data = struct.pack("<III", MAGIC - 1, 1, len(bitmap)) + bitmap
    table.set_vector({"storageType": "i", "pathOrInlineDv": z85(data), "sizeInBytes": len(data), "cardinality": 2})
    return table


@damage("dv.bitmap-corrupt")
def keys_of_a_vector_do_not_ascend() -> VectorTable:
    table = VectorTable()
    part = struct.pack("<I", 0) + roaring32([1])
    table.set_data(struct.pack("<IQ", MAGIC, 2) + part + part, 2)
    return table


@damage("dv.bitmap-corrupt")
def key_of_a_vector_is_negative() -> VectorTable:
    table = VectorTable()
    table.set_data(struct.pack("<IQ", MAGIC, 1) + struct.pack("<I", 1 << 31) + struct.pack("<II", 12346, 0), 1)
    return table


@damage("dv.cardinality-mismatch")
def vector_of_one_row_too_many() -> VectorTable:
    table = VectorTable()
    table.vector()["cardinality"] = 1
    return table


@damage("dv.row-out-of-range")
def vector_deletes_the_row_behind_the_last() -> VectorTable:
    table = VectorTable()
    table.store([[1, 2], [10]])
    return table


@damage("dv.file-missing")
def vector_file_is_missing_for_rows_too() -> VectorTable:
    table = VectorTable()
    table.drop(vector_path(UUID_OF_FILE))
    return table
