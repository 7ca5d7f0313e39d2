"""Write a Delta table with Spark every hour, then maintain it.

Needs apache-airflow-providers-apache-spark (Airflow 3), and deltacli with its extra `spark` where tasks run.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, task

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

TABLE = "s3://lake/events"
POLICY = "/srv/fleet/fleet.toml"

with DAG(
    "events",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=10)},
):
    write = SparkSubmitOperator(task_id="write", application="/srv/jobs/write_events.py", conn_id="spark_default")

    # What is due and not done within the budget is done an hour later: this task is not repeated.
    @task.pyspark(conn_id="spark_default", retries=0)
    def care(spark: SparkSession, sc: SparkContext) -> None:
        from deltacli.spark import maintain

        sc.setJobDescription(f"maintain {TABLE}")
        done = maintain(spark, TABLE, POLICY, time_budget=timedelta(minutes=30), yes=True, raises=True)
        done.show()

    write >> care()
