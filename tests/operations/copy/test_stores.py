"""Copies to object stores, within one and back: every file as it was."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from uuid import uuid4

import pytest

from deltacli import open_table
from deltacli.changing.change import execute_change
from deltacli.cli.app import run
from deltacli.operations.copy.execute import Copy
from deltacli.operations.copy.request import CopyRequest
from deltacli.storage import open_storage
from tests.operations.copy.tables import SHAPES, files_of, rows_of, versions_of
from tests.support.azure import ACCOUNT

pytestmark = pytest.mark.long


def place_in(store: str, request: pytest.FixtureRequest) -> str:
    server = request.getfixturevalue(store)
    match store:
        case "s3":
            return f"s3://{server.make_bucket()}/{uuid4().hex}"
        case "gcs":
            return f"gs://{server.make_bucket()}/{uuid4().hex}"
        case "own_azurite":
            return f"az://{server.make_container()}/{uuid4().hex}"
        case _:
            return f"abfss://{server.make_container()}@{ACCOUNT}.dfs.core.windows.net/{uuid4().hex}"


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("store", ["s3", "gcs", "azure"])
def test_a_table_comes_back_from_a_store(
    store: str, shape: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    SHAPES[shape](tmp_path / "source")
    place, options = place_in(store, request), CopyRequest(replica=True)
    steps = [str(tmp_path / "source"), f"{place}/there", f"{place}/beside", str(tmp_path / "back")]

    for source, target in pairwise(steps):
        done = execute_change(Copy(open_storage(target), options), open_table(source))
        assert "storage" == done.verified
        files = done.plan.to_copy.files - len(done.plan.log)
        assert done.checksums == (files if target == steps[-1] else 0)
        assert () == open_table(source).copy(target, check=True).differences
        assert 0 == execute_change(Copy(open_storage(target), options), open_table(source)).copied.files

    versions = versions_of(tmp_path / "source")
    assert rows_of(open_table(tmp_path / "source"), versions) == rows_of(open_table(tmp_path / "back"), versions)
    data = {path: data for path, data in files_of(tmp_path / "source").items() if "checkpoint" not in path}
    assert data.items() <= files_of(tmp_path / "back").items()


def test_nothing_new_takes_three_requests(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The note and one page of a listing of each log, however many versions the page has."""
    server = request.getfixturevalue("s3")
    SHAPES["whole"](tmp_path / "source")
    place = place_in("s3", request)
    for source, target in ((str(tmp_path / "source"), f"{place}/a"), (f"{place}/a", f"{place}/b")):
        assert 0 == run(["copy", source, target, "--replica"])
    server.requests.clear()

    assert 0 == run(["copy", f"{place}/a", f"{place}/b", "--replica"])

    assert (3, 2) == (len(server.requests), server.asked("GET", "list-type"))
