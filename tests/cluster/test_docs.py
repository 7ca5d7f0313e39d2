"""The examples of docs/spark-tables.md and docs/spark-facts.md run on a session, and print what they show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from deltacli.spark.source_options import has_limits
from tests.cli.support import ROOT, make_sample

PAGES = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("spark-tables.md", "spark-facts.md"))
BLOCKS = re.findall(r"```python spark\n(.*?)```", PAGES, re.DOTALL)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("docs")
    make_sample(place / "tbl")
    make_sample(place / "lake" / "trips")
    return place


@pytest.mark.parametrize("number", range(7))
def test_smoke_examples_of_the_page_print_the_shown_output(
    number: int, session: Any, sample: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if "readStream" in BLOCKS[number] and not has_limits(session.version):
        pytest.skip("streams need Spark 4.2")
    monkeypatch.chdir(sample)

    exec(BLOCKS[number], {"spark": session})

    assert re.findall(r"^# -> (.*)$", BLOCKS[number], re.MULTILINE) == capsys.readouterr().out.splitlines()
    assert 7 == len(BLOCKS)
