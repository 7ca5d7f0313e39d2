"""A catalog server per test, and none of the environment of whoever runs the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deltacli.catalogs.unity.unity import forget_configurations
from tests.support.fake_catalog import FakeCatalog

_VARIABLES = ("DATABRICKS_HOST", "DATABRICKS_TOKEN", "DATABRICKS_CLIENT_ID", "DATABRICKS_CLIENT_SECRET")


@pytest.fixture(autouse=True)
def of_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*_VARIABLES, "UC_ENDPOINT", "UC_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    forget_configurations()


@pytest.fixture
def server() -> Iterator[FakeCatalog]:
    found = FakeCatalog()
    yield found
    found.stop()
