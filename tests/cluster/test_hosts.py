"""Two hosts that do not share a disk. The address of each is one of loopback, and one does not see a directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltacli.api.table import open_table
from deltacli.core.errors import Refused
from deltacli.engine.spark.engine import SparkEngine
from tests.cluster import mortal_tables as tables
from tests.support.clusters import Cluster


@pytest.fixture
def place(cluster: Cluster, request: pytest.FixtureRequest) -> Path:
    """A directory that one host does not see."""
    if cluster.one_host is None:
        pytest.skip("for two hosts")
    return cluster.one_host / str(request.node.name)


def test_a_local_table_on_two_hosts_is_refused_before_work(place: Path, spark_engine: SparkEngine) -> None:
    """Acceptance case 5: nothing is deleted or committed."""
    tables.with_orphans(place, 100)
    before = sorted(place.rglob("*"))

    with pytest.raises(Refused) as raised:
        open_table(str(place), engine=spark_engine).vacuum(max_delete="100%")

    assert ("cluster.other-table", 4) == (raised.value.code, raised.value.exit_code)
    assert before == sorted(place.rglob("*"))


def test_a_checkpoint_of_a_local_table_on_two_hosts_is_refused_before_work(
    place: Path, spark_engine: SparkEngine
) -> None:
    """Acceptance case 5: no sidecar is left, and the hint is where it was."""
    tables.with_checkpoint(place, layout="v2")
    before = {path: path.stat().st_mtime_ns for path in place.rglob("*") if path.is_file()}

    with pytest.raises(Refused) as raised:
        open_table(str(place), engine=spark_engine).checkpoint(layout="v2", rows_per_file=tables.ROWS_PER_FILE)

    assert "cluster.other-table" == raised.value.code
    assert before == {path: path.stat().st_mtime_ns for path in place.rglob("*") if path.is_file()}
