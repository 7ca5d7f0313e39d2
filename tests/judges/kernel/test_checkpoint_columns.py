"""Kernel opens checkpoints of each form, also those of earlier releases whose files lack columns without values."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.judges.answers import Comparison
from tests.judges.commands import deltacli
from tests.judges.engines import require_jars, running_java

FORMS = {
    "classic": ("--layout", "classic"),
    "multi-part": ("--layout", "multi-part", "--parts", "2"),
    "v2 json": ("--v2-top", "json"),
    "v2 parquet": ("--v2-top", "parquet"),
}
DROPPED = ((), ("add",), ("remove",), ("add", "remove"), ("txn",), ("domainMetadata",))
FILES = 3


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:  # Any: a JVMView of Py4J
    """A Java process with Kernel."""
    with running_java(require_jars()) as view:
        yield view


@pytest.mark.parametrize("form", FORMS, ids=lambda name: name.replace(" ", "-"))
def test_kernel_lists_every_file_of_a_checkpoint(form: str, jvm: Any, tables: Path) -> None:
    with Comparison(f"kernel/{form}") as compared:
        for dropped in DROPPED:
            table = tables / "-".join(("table", *dropped))
            if _write(table, form, dropped):
                compared.equal(f"files without {dropped}", FILES, _count_files(jvm, table))


def _write(table: Path, form: str, dropped: tuple[str, ...]) -> bool:
    """Write a table that can only be read from its checkpoint; return whether the columns to drop have no values."""
    table.mkdir()
    for number in range(FILES):
        pq.write_table(pa.table({"id": [number]}), table / f"part-{number}.parquet")
    deltacli("convert", table, "--yes")
    if form.startswith("v2"):
        deltacli("properties", table, "set", "delta.checkpointPolicy=v2", "--upgrade-protocol", "--yes")
    else:
        deltacli("properties", table, "set", "x=1", "--yes")
    deltacli("checkpoint", table, *FORMS[form])

    log = table / "_delta_log"
    for name in ("_last_checkpoint", f"{0:020d}.json"):
        (log / name).unlink()
    first_file = min(log.glob("*.checkpoint*.parquet"), default=None)
    if not dropped or first_file is None:
        return not dropped
    rows = pq.read_table(first_file)
    pq.write_table(rows.drop_columns(list(dropped)), first_file)
    return all(rows[column].null_count == len(rows) for column in dropped)


def _count_files(jvm: Any, table: Path) -> int | str:
    """Return the number of live files in Kernel's view, or the error."""
    configuration = jvm.org.apache.hadoop.conf.Configuration()
    engine = jvm.io.delta.kernel.defaults.engine.DefaultEngine.create(configuration)
    try:
        snapshot = jvm.io.delta.kernel.Table.forPath(engine, str(table)).getLatestSnapshot(engine)
        batches = snapshot.getScanBuilder().build().getScanFiles(engine)
        count = 0
        while batches.hasNext():
            rows = batches.next().getRows()
            while rows.hasNext():
                rows.next()
                count += 1
    except Exception as error:  # noqa: BLE001  (whatever the engine raises is its verdict)
        return str(error)[:300]
    return count
