"""Every table of the corpus, or in the gate some of them, pulled version by version: the rows of a direct scan, and
nothing for `validate` to report that it does not report about the shared table.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deltacli import open_table
from deltacli.api.table import Table
from deltacli.core.errors import DeltacliError
from deltacli.rules.framework.base import Severity
from deltacli.sharing.protocol.parameters import Point
from deltacli.table.find_log import list_log
from tests.sharing.client.serving import Proxy, proxied
from tests.sharing.client.test_corpus import OTHER_SIZE, shared_corpus
from tests.sharing.pulling.origin import pull_from
from tests.sharing.served import shared
from tests.support.effort import is_soaking, sampled

pytestmark = pytest.mark.long

IN_THE_GATE = 60


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    shares = [shared(Path(table.location), table.name) for table in shared_corpus()]
    with proxied(tmp_path_factory.mktemp("pulled"), *shares) as proxy:
        yield proxy


def test_pulled_tables_have_the_rows_of_the_shared_ones_and_are_valid(server: Proxy, tmp_path: Path) -> None:
    compared, continued, wrong = 0, 0, []

    for table in sampled(server.served.tables, IN_THE_GATE):
        local = open_table(table.location)
        try:
            versions = list_log(local.storage).reconstructable[-3:]
            direct = {version: _rows(local, version) for version in versions}
        except DeltacliError:
            continue
        if table.name == OTHER_SIZE:
            continue
        target = tmp_path / table.name
        for version in versions:
            try:
                result = pull_from(server.store(table.name), target, point=Point(version))
            except DeltacliError as fault:
                wrong.append((table.name, version, f"{fault.code}: {fault}"))
                break
            continued += result.before is not None
            if _rows(open_table(target), None) != direct[version]:
                wrong.append((table.name, version, "rows"))
            compared += 1
        if target.exists() and (found := _errors(open_table(target)) - _errors(local)):
            wrong.append((table.name, versions[-1], f"validate: {sorted(found)}"))

    assert [] == wrong
    assert compared > (300 if is_soaking() else 90)
    assert continued > (100 if is_soaking() else 30)


def _rows(table: Table, version: int | None) -> list[str]:
    found: Any = table.snapshot(version=version).scan().to_arrow()  # Any: an Arrow table
    return sorted(map(repr, found.to_pylist()))


def _errors(table: Table) -> set[str]:
    try:
        found = table.validate(level="data").findings
        return {finding.rule.id for finding in found if finding.severity is not Severity.INFO}
    except DeltacliError as fault:
        return {fault.code}
