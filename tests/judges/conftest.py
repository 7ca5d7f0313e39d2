"""Fixtures of the judges, and which of their tests a gate runs.

`DELTACLI_JUDGES_TURN` is a number: the tests are dealt out to ten gates, and this is the turn of one of them. Without
it all tests run, as in `dev.py judges` and `dev.py soak judges`.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.judges.engines import running_spark
from tests.judges.figures import FiguresPlugin
from tests.judges.spark import SparkJudge

GATES = 10
"""After so many gates every test has run."""

collect_ignore_glob = [] if find_spec("pyspark") is not None else ["*/test_*.py"]


def pytest_configure(config: pytest.Config) -> None:
    """Print the figures at the end of the run."""
    config.pluginmanager.register(FiguresPlugin(config))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of the other gates.

    Each file deals its tests out by itself, so that all files take part.
    """
    turn = os.environ.get("DELTACLI_JUDGES_TURN")
    if not turn:
        return
    files = defaultdict[str, list[pytest.Item]](list)
    for item in sorted(items, key=lambda item: item.nodeid):
        files[item.nodeid.partition("::")[0]].append(item)
    chosen = set()
    for number, name in enumerate(sorted(files)):
        # Short files begin with another gate each: otherwise the first gates would have all their tests.
        chosen |= {item.nodeid for item in files[name][(int(turn) + 3 * number) % GATES :: GATES]}
    left = [item for item in items if item.nodeid not in chosen]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item.nodeid in chosen]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkJudge]:
    """Delta for Spark in a session of its own, one for all tests of this process."""
    with running_spark(tmp_path_factory.mktemp("spark")) as session:
        yield SparkJudge(session)


@pytest.fixture(autouse=True)
def _forgotten_tables(request: pytest.FixtureRequest) -> Iterator[None]:
    """Free the memory for the tables of a test of Spark behind it: no other test asks about their directories."""
    yield
    if "spark" in request.fixturenames:
        request.getfixturevalue("spark").forget_tables()


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """A directory for the tables of one test."""
    directory = tmp_path / "tables"
    directory.mkdir()
    return directory
