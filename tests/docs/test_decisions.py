"""The index of the decisions."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.support import ROOT

DECISIONS = ROOT / "docs" / "decisions"


def test_the_index_lists_every_decision() -> None:
    records = sorted(path.name for path in DECISIONS.glob("0*.md"))
    index = (DECISIONS / "index.md").read_text(encoding="utf-8")

    listed = sorted(Path(link).name for link in re.findall(r"\]\((0[^)]+\.md)\)", index))

    assert records == listed
