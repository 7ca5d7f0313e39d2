"""Care of Delta tables every night. Needs apache-airflow-providers-standard (Airflow 3)."""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

HOME = "/srv/fleet"

with DAG(
    "deltacli_fleet",
    schedule="17 2 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=10)},
):
    # 1: done, and there are alerts, which the second task reports; 5: something is left, so the task is repeated
    run = BashOperator(
        task_id="run",
        bash_command="deltacli fleet run --yes --resume --time-budget 4h || [ $? -eq 1 ]",
        cwd=HOME,
        execution_timeout=timedelta(hours=5),
    )
    status = BashOperator(
        task_id="status",
        bash_command="deltacli fleet status",
        cwd=HOME,
        retries=0,
        trigger_rule="all_done",
    )
    run >> status
