"""Fixtures for all tests."""

from __future__ import annotations

import pytest

from tests.support.builder import TableBuilder


@pytest.fixture
def table_builder() -> TableBuilder:
    """An empty description of a table."""
    return TableBuilder()
