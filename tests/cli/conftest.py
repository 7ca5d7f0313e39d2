"""The sample table, once a session; commands here only read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import make_sample


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sample(tmp_path_factory.mktemp("sample") / "trips")
