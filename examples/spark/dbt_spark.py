"""Build a project for dbt-spark, then maintain the Delta tables that it wrote: `python dbt_spark.py [OPTION OF DBT]...`

Needs dbt-spark with its extra `session`, and deltacli with its extra `spark`. A model is maintained if it is configured
with `file_format: delta` and a `location_root`; a group of the policy file must include it.
"""

from __future__ import annotations

import sys
from datetime import timedelta

from dbt.cli.main import dbtRunner
from pyspark.sql import SparkSession

from deltacli.spark import maintain

POLICY = "fleet.toml"


def main(arguments: list[str]) -> int:
    """Return the exit code of dbt: what is not maintained now is due the next time."""
    built = dbtRunner().invoke(["build", *arguments])
    if built.exception is not None:
        raise built.exception
    spark = SparkSession.builder.getOrCreate()
    for result in built.result:
        node, config = result.node, result.node.config
        is_built = node.resource_type == "model" and result.status == "success"
        if is_built and config.get("file_format") == "delta" and config.get("location_root"):
            table = f"{config.get('location_root')}/{node.alias}"
            maintain(spark, table, POLICY, time_budget=timedelta(minutes=10), yes=True).show()
    return 0 if built.success else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
