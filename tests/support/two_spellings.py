"""Tables with real data files, whose log names one of them by several spellings of its path."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import deltacli
from deltacli.api.table import Table
from tests.support.actions import add, commit_info, metadata, protocol, remove
from tests.support.builder import TableBuilder
from tests.support.checkpoints import CheckpointKind, Shape, write_checkpoint

RULE = "path.same-file-two-spellings"
DIFFERING = {
    "removed with a dot": ("a.parquet", ["-./a.parquet"]),
    "added with a dot": ("a.parquet", ["+./a.parquet"]),
    "escaped letter": ("a.parquet", ["-%61.parquet"]),
    "two slashes": ("d/a.parquet", ["-d//a.parquet"]),
    "raw blank": ("a b.parquet", ["-a%20b.parquet"]),
    "respelled in one commit": ("a.parquet", ["-a.parquet", "+./a.parquet"]),
}
"""The path in the first commit, and the actions of the second one, about which engines disagree."""
AGREED = {
    "relative and absolute": ("a.parquet", ["+ABSOLUTE"]),
    "removed by the absolute path": ("a.parquet", ["-ABSOLUTE"]),
}
"""The same for spellings that are two files to every engine. `ABSOLUTE` is the URI of the file."""
SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
OTHERS = ("b.parquet", "c.parquet")


def write_two_spellings(root: Path, path: str, *commits: Sequence[str]) -> Table:
    """Write a table and open it.

    Args:
        root: The directory of the table.
        path: The path of the file in doubt in the first commit. The file has the rows 0 to 2.
        commits: Actions such as `+./a.parquet` and `-a.parquet` for each further commit.
    """
    size = write_rows(root / path, 0, 1, 2)
    others = [add(name, size=write_rows(root / name, 10 + number), records=1) for number, name in enumerate(OTHERS)]
    head = [protocol(), metadata(schema_string=SCHEMA), commit_info()]
    table = TableBuilder().commit(*head, add(path, size=size, records=3), *others)
    for words in commits:
        actions = [commit_info()]
        for word in words:
            spelling = word[1:].replace("ABSOLUTE", f"file://{root}/{path}")
            actions.append(add(spelling, size=size, records=3) if word[0] == "+" else remove(spelling))
        table.commit(*actions)
    table.write(root)
    return deltacli.open_table(str(root))


def write_checkpoint_of_texts(root: Path) -> Table:
    """Write a table whose newest version has a checkpoint by an engine that compares paths as text.

    Version 1 removes the file `a.parquet` by another spelling. In the checkpoint it is live, as deltalake writes it.
    """
    write_two_spellings(root, *DIFFERING["removed with a dot"])
    live = [add(path.name, size=path.stat().st_size) for path in sorted(root.glob("*.parquet"))]
    head = [protocol(), metadata(schema_string=SCHEMA)]
    files = write_checkpoint(1, [*head, *live], CheckpointKind.CLASSIC, Shape())
    for name, data in files.all.items():
        (root / "_delta_log" / name).write_bytes(data)
    return deltacli.open_table(str(root))


def write_rows(place: Path, *ids: int) -> int:
    """Write a data file and return its bytes."""
    place.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), place)
    return place.stat().st_size
