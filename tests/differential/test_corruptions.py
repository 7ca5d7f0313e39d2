"""Other engines on damaged tables: what docs/corruptions.md says of them is what they answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.damage_outcomes import PEERS, ask_peer, write_tables
from tests.support.peers import ENVIRONMENT_VARIABLE, has_peer, peer_python
from tools.corruptions_page import ANSWERS


@pytest.mark.parametrize("peer", PEERS)
def test_the_answers_on_record_are_those_of_today(peer: str, tmp_path: Path) -> None:
    python = peer_python()
    if python is None or not has_peer(python, peer):
        pytest.skip(f"no {peer} ({ENVIRONMENT_VARIABLE})")
    write_tables(tmp_path)

    found = ask_peer(python, peer, tmp_path)

    assert json.loads(ANSWERS.read_text(encoding="utf-8"))[peer] == found, (
        "run: python -m tools.corruptions_page --peer-…"
    )
