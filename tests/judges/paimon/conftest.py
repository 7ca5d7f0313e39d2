"""The Java process with Paimon, one for all tests of this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.judges.engines import require_jars, running_java
from tests.judges.paimon.engine import PaimonJudge, judge_of


@pytest.fixture(scope="session")
def paimon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PaimonJudge]:
    """Paimon 1.4.2 in a process of its own."""
    with running_java(require_jars("paimon")) as jvm, judge_of(jvm, tmp_path_factory.mktemp("paimon")) as judge:
        yield judge
