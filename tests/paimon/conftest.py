"""Fixtures for the tests on Paimon tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import paimon_corpus


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The unpacked corpus."""
    return paimon_corpus.unpacked()
