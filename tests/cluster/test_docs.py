"""The examples of docs/spark-tables.md and docs/spark-facts.md run on a session, and print what they show."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from deltacli.spark.source_options import has_limits
from tests.cli.support import ROOT, make_sample

PAGES = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("spark-tables.md", "spark-facts.md"))
BLOCKS = re.findall(r"```python spark\n(.*?)```", PAGES, re.DOTALL)
POLICY = re.findall(r"```toml fleet.toml\n(.*?)```", PAGES, re.DOTALL)
OF_THIS_KIND = [
    number
    for number, block in enumerate(BLOCKS)
    if "foreachBatch" not in block or os.environ.get("DELTACLI_CLUSTER") != "connect"  # its server has no deltacli
]
LANDED = {"trip": 1471, "day": "2026-01-03", "ride": {"city": "Bern", "fare": 9.5}}


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    make_sample(tmp_path / "tbl")
    make_sample(tmp_path / "lake" / "trips")
    (tmp_path / "fleet.toml").write_text(POLICY[0])
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "0.json").write_text(json.dumps(LANDED))
    return tmp_path


@pytest.mark.parametrize("number", OF_THIS_KIND)
def test_smoke_examples_of_the_page_print_the_shown_output(
    number: int, session: Any, sample: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if "readStream" in BLOCKS[number] and not has_limits(session.version):
        pytest.skip("streams need Spark 4.2")
    monkeypatch.chdir(sample)

    exec(BLOCKS[number], {"spark": session})

    assert re.findall(r"^# -> (.*)$", BLOCKS[number], re.MULTILINE) == capsys.readouterr().out.splitlines()
    assert 10 == len(BLOCKS)
