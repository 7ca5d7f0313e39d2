"""Tables with real data files, of which one, or its deletion vector, is on disk under another name than in the log."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.actions import Action, add, commit_info, metadata, protocol
from tests.support.builder import TableBuilder
from tests.support.small_vectors import vector_file, vector_path, z85

OLD_SECONDS = 1_700_000_000
"""When the files were written: longer ago than any retention."""
SCHEMA = (
    '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},'
    '{"name":"p","type":"string","nullable":true,"metadata":{}}]}'
)
OTHERS = 20
"""Number of files that are there under their names."""
ID = UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")
RENAMED = UUID("00000000-0000-4000-8000-000000000001")
SPELLINGS: Mapping[str, tuple[str, str]] = {
    "written without encoding": ("p=13:00/a.parquet", "p=13%3A00/a.parquet"),
    "written without encoding, deeper": ("n=1/p=13:00/a.parquet", "n=1/p=13%3A00/a.parquet"),
    "slash": ("p=a/b/a.parquet", "p=a%2Fb/a.parquet"),
    "encoded twice": ("p=a%2520b/a.parquet", "p=a b/a.parquet"),
    "case": ("p=X/a.parquet", "p=x/a.parquet"),
    "plus": ("p=a%20b/a.parquet", "p=a+b/a.parquet"),
    "backslash": ("p=z%5Ca.parquet", "p=z/a.parquet"),
    "composed": ("p=Z%C3%BCrich/a.parquet", "p=Zu\u0308rich/a.parquet"),
    "renamed": ("p=a%20b/a.parquet", "p=a_b/other.parquet"),
}
"""The path of the last file in the log, and its name on disk."""
VECTORS: Mapping[str, str] = {
    "renamed": vector_path(RENAMED),
    "moved": f"vectors/{vector_path(ID)}",
    "upper case": vector_path(ID).upper(),
}
"""The name of the vector's file on disk."""


def write_misnamed(root: Path, logged: Mapping[str, str]) -> Path:
    """Write a table with a row per file.

    Args:
        root: The directory of the table.
        logged: Paths in the log, and the names of these files on disk. They get the rows 100, 101, … and `z` as `p`.
    """
    root.mkdir(parents=True)
    adds = []
    for number in range(OTHERS):
        name = f"p=v{number}/a.parquet"
        adds.append(add(name, size=_write(root / name, number), records=1, partition_values={"p": f"v{number}"}))
    for number, (path, name) in enumerate(logged.items(), 100):
        stats = f'{{"numRecords":1,"minValues":{{"id":{number}}},"maxValues":{{"id":{number}}},"nullCount":{{"id":0}}}}'
        adds.append(add(path, size=_write(root / name, number), stats=stats, partition_values={"p": "z"}))
    table = TableBuilder().commit(
        protocol(), metadata(schema_string=SCHEMA, partition_columns=["p"]), commit_info("WRITE"), *adds
    )
    return _finish(table, root)


def write_with_vector(root: Path, stored: str | None, **changes: object) -> Path:
    """Write a table whose file a.parquet has the rows 0 to 2, of which a deletion vector deletes 1.

    Args:
        root: The directory of the table.
        stored: The name of the vector's file on disk; None if it is missing.
        changes: Fields of the descriptor in the log.
    """
    root.mkdir(parents=True)
    vectors = vector_file([[1]])
    offset, size, rows = vectors.places[0]
    descriptor: Action = {"storageType": "u", "pathOrInlineDv": z85(ID.bytes), "offset": offset}
    descriptor |= {"sizeInBytes": size, "cardinality": rows, **changes}
    if stored is not None:
        (root / stored).parent.mkdir(exist_ok=True)
        (root / stored).write_bytes(vectors.data)
    stats = '{"numRecords":3,"tightBounds":false}'
    adds = [add("a.parquet", size=_write(root / "a.parquet", 0, 1, 2), stats=stats, vector=descriptor)]
    for number in range(OTHERS):
        name = f"x{number}.parquet"
        adds.append(add(name, size=_write(root / name, 10 + number), records=1))
    features = ["deletionVectors"]
    table = TableBuilder().commit(
        protocol(3, 7, reader_features=features, writer_features=features),
        metadata(schema_string=SCHEMA, configuration={"delta.enableDeletionVectors": "true"}),
        commit_info("WRITE"),
        *adds,
    )
    return _finish(table, root)


def follow(advice: str, root: Path) -> None:
    """Do to the letter what an advice says: `copy X to Y`, or `move X out of the table`, with words as for a shell."""
    words = """
        copy() { mkdir -p "$(dirname "./$3")" && cp "./$1" "./$3"; }
        move() { mv "./$1" ..; }
    """
    subprocess.run(["bash", "-ec", f"{words}\n{advice}"], cwd=root, check=True)


def _write(place: Path, *ids: int) -> int:
    place.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), place)
    return place.stat().st_size


def _finish(table: TableBuilder, root: Path) -> Path:
    table.write(root)
    for place in root.rglob("*"):
        os.utime(place, (OLD_SECONDS, OLD_SECONDS))
    return root
