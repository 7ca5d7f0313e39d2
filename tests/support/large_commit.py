"""`python -m tests.support.large_commit TABLE FILES`: commit so many adds and so many removes, and write the peak of
memory in MiB and the seconds of processor time that encoding and committing took.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import pyarrow as pa

from deltacli.core.typing import ArrowSchema, RecordBatch
from deltacli.delta.log.commit_content import CommitRequest, encoded_files
from deltacli.delta.log.file_actions import action_schemas
from deltacli.storage import LocalStorage
from tests.support.committing import run
from tests.support.peak import peak_bytes

MIB = 1 << 20
_BATCH = 65_536


def batch(kind: str, schema: ArrowSchema, start: int, count: int) -> RecordBatch:
    """Files of a table with 100 partitions, named and measured as by Spark."""
    numbers = range(start, start + count)
    stats = '{{"numRecords":10,"minValues":{{"a":{0},"b":"x{0}"}},"maxValues":{{"a":{0},"b":"y{0}"}}}}'
    values = {
        "path": [f"p={n % 100}/part-{n % 200:05d}-{n:08d}-{kind:0>20}.c000.snappy.parquet" for n in numbers],
        "partitionValues": [[("p", str(n % 100))] for n in numbers],
        "size": list(numbers),
        "modificationTime": list(numbers),
        "deletionTimestamp": list(numbers),
        "dataChange": [True] * count,
        "stats": [stats.format(n) for n in numbers],
    }
    columns = [
        pa.array(values[one.name], one.type) if one.name in values else pa.nulls(count, one.type) for one in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def main(place: str, files: str) -> None:
    schemas, making = action_schemas(), [0.0]

    def batches() -> Iterator[tuple[str, RecordBatch]]:
        for kind, schema in (("add", schemas.add), ("remove", schemas.remove)):
            for start in range(0, int(files), _BATCH):
                began = time.process_time()
                rows = batch(kind, schema, start, min(_BATCH, int(files) - start))
                making[0] += time.process_time() - began
                yield kind, rows

    began = time.process_time()
    request = CommitRequest("RESTORE", body=lambda slot: encoded_files(batches, slot), new_rows=10 * int(files))
    run(LocalStorage(place), lambda _snapshot: request)
    seconds = time.process_time() - began - making[0]
    sys.stdout.write(f"{peak_bytes() // MIB} {seconds:.1f}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
