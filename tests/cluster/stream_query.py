"""A query in a process of its own, which a test can kill: `python -m tests.cluster.stream_query TABLE PLACE OPTIONS
[SOURCE]`.

It runs until it is stopped, or fails: then the file `error` in PLACE has its error.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main(table: str, place: str, options: str, source: str = "deltacli") -> None:
    from pyspark.sql import SparkSession

    from deltacli.spark.data_source import register

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    register(session)
    frame = session.readStream.format(source).options(**json.loads(options)).load(table)
    writer = frame.writeStream.format("parquet").option("checkpointLocation", f"{place}/checkpoint")
    query = writer.option("path", f"{place}/out").trigger(processingTime="0 seconds").start()
    try:
        query.awaitTermination()
    except Exception as fault:  # noqa: BLE001  (the test looks for the code in it)
        draft = Path(place, "error.draft")
        draft.write_text(str(fault))
        draft.rename(Path(place, "error"))


if __name__ == "__main__":
    main(*sys.argv[1:])
