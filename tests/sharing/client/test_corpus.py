"""Our client against our server, over every table of the corpus: the rows of a direct scan, in both formats, at every
version that can be rebuilt, or in the gate at some of a third of the tables; change feeds as `changes` reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from deltacli import open_table
from deltacli.api.table import Table
from deltacli.core.errors import DeltacliError
from deltacli.sharing.configuration.starting import make_catalog_of_directories
from deltacli.sharing.model import SharedTable
from deltacli.sharing.protocol.parameters import ResponseFormat
from deltacli.table.find_log import list_log
from tests.sharing.client.serving import Proxy, proxied
from tests.sharing.served import shared
from tests.support import corpus
from tests.support.effort import InTurn, is_soaking, sampled

pytestmark = pytest.mark.long

TOO_LARGE = (
    "delta-rs_COVID-19_NYT",
    "golden_parquet-decimal-dictionaries-v2",
    "kernel-rs_300k-add-files-100-col-partitioned",
)
MOST_VERSIONS, IN_THE_GATE, FEEDS_IN_THE_GATE = 12, 4, 130
OTHER_SIZE = "derived_two-adds-in-one-commit-a"
"""Its log has another size for a file than the file. A local scan does not mind; the client refuses the file."""
CONTRADICTS_ITSELF = "derived_checkpoint-wrong-a"
"""Its checkpoint contradicts its commits, and it has no data files. The server brings older versions up to date by
commits, so it has another version 2 than a direct scan, which begins with the checkpoint.
"""


def shared_corpus() -> list[SharedTable]:
    """Return the tables of the corpus that are small enough to be compared row by row."""
    found = make_catalog_of_directories([str(corpus.unpacked() / "tables")]).shares[0].schemas[0].tables
    return [table for table in found if table.name not in TOO_LARGE]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    shares = [shared(Path(table.location), table.name) for table in shared_corpus()]
    with proxied(tmp_path_factory.mktemp("client"), *shares) as proxy:
        yield proxy


def _outcome(read: Callable[[], Any]) -> tuple[Any, str]:  # Any: an Arrow table
    """Return rows, or None and the error."""
    try:
        return read(), ""
    except DeltacliError as fault:
        return None, f"{fault.code}: {fault.message}"


def _are_same(direct: Any, found: Any) -> bool:  # Any: Arrow tables
    """Whether rows were read both times, and are the same: by their bytes, or as sorted texts."""
    if direct is None or found is None:
        return False
    return _bytes_of(direct) == _bytes_of(found) or _texts_of(direct) == _texts_of(found)


def _bytes_of(rows: Any) -> list[object]:
    return [rows.schema, *(batch.serialize() for batch in rows.combine_chunks().to_batches())]


def _texts_of(rows: Any) -> list[str]:
    return sorted(map(repr, rows.to_pylist()))


def test_rows_are_those_of_a_direct_scan_at_every_version(server: Proxy, in_turn: InTurn) -> None:
    """
    What cannot be expressed in parquet format is refused there, and what we cannot read ourselves is refused anyway.
    """
    compared: Counter[ResponseFormat] = Counter()
    wrong = []

    for table in in_turn(server.served.tables):
        local = open_table(table.location)
        try:
            versions = list_log(local.storage).reconstructable[-MOST_VERSIONS:]
        except DeltacliError:
            continue
        for version in sampled(versions, IN_THE_GATE):
            direct, _ = _outcome(partial(_rows, local, version))
            for form in ResponseFormat:
                found, why = _outcome(partial(_rows, Table(server.store(table.name, formats=(form,))), version))
                if _are_same(direct, found):
                    compared[form] += 1
                elif found is not None or (direct is not None and not _may_refuse(table, form, why)):
                    wrong.append((table.name, version, form.value, why))

    assert [] == wrong
    assert compared[ResponseFormat.DELTA] > (300 if is_soaking() else 100)
    assert compared[ResponseFormat.PARQUET] > (200 if is_soaking() else 65)


def _rows(table: Table, version: int) -> Any:  # Any: an Arrow table
    return table.snapshot(version=version).scan().to_arrow()


def _changes(table: Table, first: int) -> Any:  # Any: an Arrow table
    return table.changes(from_version=first).to_arrow()


def _may_refuse(table: SharedTable, form: ResponseFormat, why: str) -> bool:
    if table.name == OTHER_SIZE:
        return "another size" in why
    if table.name == CONTRADICTS_ITSELF:
        return "does not exist" in why
    return form is ResponseFormat.PARQUET and why.startswith("share.request") and "parquet response format" in why


def test_change_feeds_are_those_of_a_direct_read(server: Proxy) -> None:
    compared, wrong = 0, []

    for table, first in sampled(_feeds(server.served.tables), FEEDS_IN_THE_GATE):
        direct, _ = _outcome(partial(_changes, open_table(table.location), first))
        for form in ResponseFormat:
            remote = Table(server.store(table.name, formats=(form,)))
            found, why = _outcome(partial(_changes, remote, first))
            if _are_same(direct, found):
                compared += 1
            elif found is not None or (direct is not None and not why.startswith("share.request")):
                wrong.append((table.name, first, form.value, why))

    assert [] == wrong
    assert compared > 10


def _feeds(tables: Iterable[SharedTable]) -> list[tuple[SharedTable, int]]:
    """Return tables and the first versions of their change feeds, whether they can be read or not."""
    found = []
    for table in tables:
        try:
            found += [(table, first) for first in sorted(list_log(open_table(table.location).storage).commits)[:3]]
        except DeltacliError:
            continue
    return found
