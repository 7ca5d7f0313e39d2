"""A query that appends to a table, in a process of its own, which a test can kill: `python -m tests.cluster.sink_query
SOURCE TABLE STATE`.

It appends each file of SOURCE, a directory of Parquet files, as a batch, until it is stopped.
"""

from __future__ import annotations

import sys


def main(source: str, table: str, state: str) -> None:
    from pyspark.sql import SparkSession

    from deltacli.spark.data_source import register

    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    register(session)
    frame = session.readStream.schema("id long, p int").option("maxFilesPerTrigger", 1).parquet(source)
    writer = frame.writeStream.format("deltacli").option("txnAppId", "orders").option("checkpointLocation", state)
    writer.trigger(processingTime="0 seconds").start(table).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
