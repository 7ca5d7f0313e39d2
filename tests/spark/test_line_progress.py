"""The line of a notebook shows the innermost step, not too often, and is cleared at the end."""

from __future__ import annotations

import io

from deltacli.engine.spark.jobs import _describe_job
from deltacli.engine.spark.worker import Job
from deltacli.spark.care.delta_table import LineProgress
from deltacli.storage.location import StoreLocation
from deltacli.work.rewrite.rewriting import RewriteFiles


def test_a_line_shows_the_innermost_step_and_is_cleared() -> None:
    out, now = io.StringIO(), [0.0]
    progress = LineProgress(out, lambda: now[0])

    with progress.step("optimizing", unit="groups", total=2) as outer, progress.step("files", unit="files") as inner:
        inner.advance(3)
        assert "" == out.getvalue()
        now[0] = 0.6
        inner.advance(1_000)
        inner.advance(1)
        now[0] = 1.2
        outer.advance(1)

    lines = out.getvalue().split("\r")
    assert ["", "files: 1,003 files", "files: 1,004 files"] == lines[:3]
    assert "" == lines[-1].strip()


def test_a_step_that_is_short_shows_nothing() -> None:
    out = io.StringIO()

    with LineProgress(out, lambda: 0.0).step("reading", unit="files", total=4) as step:
        step.advance(4)

    assert "" == out.getvalue()


def test_jobs_say_which_table_they_work_on() -> None:
    job = Job(RewriteFiles(), StoreLocation("s3://lake/events"), None)

    assert "deltacli s3://lake/events: rewrite files, 3 pieces" == _describe_job(job, 3)
