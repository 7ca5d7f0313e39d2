"""Kernel reads each version of a table whose paths a repair spells anew: before, between its commits, and after."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.judges.engines import require_jars, running_java
from tests.judges.kernel.reader import KernelReader
from tests.operations.repair.test_path_forms import opened, rows_of, write_old_clone


@pytest.fixture(scope="module")
def kernel() -> Iterator[KernelReader]:
    """Kernel in a Java process, without the jars of Paimon, one for all tests of this module."""
    with running_java([jar for jar in require_jars() if not jar.name.startswith("paimon-")]) as jvm:
        yield KernelReader(jvm)


def test_each_version_has_the_same_rows(kernel: KernelReader, tmp_path: Path) -> None:
    """Kernel compares what paths mean, and the empty vector is in a file, which it reads between the commits."""
    write_old_clone(tmp_path)
    expected = [(value,) for value in rows_of(tmp_path)]
    opened(tmp_path).repair(allow_in_use=True)

    rows = [sorted(kernel.rows(tmp_path / "clone", version)) for version in range(3)]

    assert [expected] * 3 == rows
