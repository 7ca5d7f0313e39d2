"""Fixtures for the tests on real tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import corpus


@pytest.fixture(scope="session")
def root() -> Path:
    """The unpacked corpus."""
    return corpus.unpacked()
