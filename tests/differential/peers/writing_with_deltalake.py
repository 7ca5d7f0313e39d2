"""`python writing_with_deltalake.py URI NUMBER COUNT OPTIONS [KINDS]`: append, delete, overwrite and optimise at full
speed, or do what KINDS names, separated by commas.

It deletes from, overwrites and optimises the one partition that no other such writer changes, and where nobody else
optimises: deltalake 1.6 commits over removes that change no data, and then the rows are there twice. Its commits carry
what they did: `ids` of the rows written or to be deleted, and the partition that is replaced. A turn that lost against
another writer is nothing. It begins at a line on stdin, and ends when stdin is closed or so many commits are made; then
it writes their number.
"""

from __future__ import annotations

import json
import random
import select
import sys

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])


KINDS = "append,append,delete,overwrite,optimise"


def main(uri: str, number: str, count: str, options: str, kinds: str = KINDS) -> None:
    chance = random.Random(f"deltalake {number}")
    next_id = (int(number) + 100) * 10_000_000
    made, storage = 0, json.loads(options)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    for _ in range(20 * int(count)):
        if made == int(count) or (select.select([sys.stdin], [], [], 0)[0] and not sys.stdin.readline()):
            break
        kind = chance.choice(kinds.split(","))
        part = chance.choice(("0", "1", "2", "3")) if kind == "append" else number
        ids = list(range(next_id, next_id + chance.randint(1, 4)))
        next_id = ids[-1] + 1
        try:
            made += turn(uri, storage, kind, part, ids, chance)
        except (CommitFailedError, DeltaError, TableNotFoundError, OSError) as fault:
            sys.stderr.write(f"{kind}: {str(fault)[:120]}\n")
    sys.stdout.write(f"{made}\n")


def turn(uri: str, storage: dict[str, str], kind: str, part: str, ids: list[int], chance: random.Random) -> int:
    """Do it, and return the number of commits."""
    table = DeltaTable(uri, storage_options=storage)
    before = table.version()
    match kind:
        case "optimise":
            about = CommitProperties(custom_metadata={"ids": "[]"})
            done = table.optimize.compact(partition_filters=[("p", "=", part)], commit_properties=about)
            return int(done["numFilesAdded"] > 0)
        case "delete" | "merge":
            low = chance.randint(0, 3)
            found = [name for name in _ids_of(table, part) if name % 4 == low]
            if not found:
                return 0
            about = CommitProperties(custom_metadata={"ids": json.dumps(found)})
            names = ", ".join(map(str, found))
            where = f"t.p = '{part}' AND t.id IN ({names})"
            if kind == "merge":
                source = pa.table({"id": found, "p": [part] * len(found)}, schema=SCHEMA)
                merge = table.merge(source, f"t.id = s.id AND {where}", "s", "t", commit_properties=about)
                merge.when_matched_delete().execute()
            else:
                table.delete(where.replace("t.", ""), commit_properties=about)
            return int(table.version() > before)
    rows = pa.table({"id": ids, "p": [part] * len(ids)}, schema=SCHEMA)
    about = {"ids": json.dumps(ids)} | ({"replaces": part} if kind == "overwrite" else {})
    write_deltalake(
        table,
        rows,
        mode=kind,
        **({"predicate": f"p = '{part}'"} if kind == "overwrite" else {}),
        commit_properties=CommitProperties(custom_metadata=about),
    )
    return 1


def _ids_of(table: DeltaTable, part: str) -> list[int]:
    """Read the rows of a partition without vectors; the reader itself refuses tables that may have any."""
    import pyarrow.parquet as pq

    found = []
    for path in table.file_uris(partition_filters=[("p", "=", part)]):
        if "://" in path:
            from deltalake.fs import DeltaStorageHandler

            handler = pa.fs.PyFileSystem(DeltaStorageHandler.from_table(table._table))
            with handler.open_input_file(path.split("/table/", 1)[1]) as file:
                found += pq.read_table(file, columns=["id"]).column("id").to_pylist()
        else:
            found += pq.ParquetFile(path).read(columns=["id"]).column("id").to_pylist()
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
