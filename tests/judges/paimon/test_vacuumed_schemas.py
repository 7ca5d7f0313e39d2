"""`vacuum --schemas` has deleted schema files. Does Paimon read every snapshot, tag and branch, write, and expire?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.judges.commands import deltacli
from tests.judges.paimon.engine import PaimonJudge, Row
from tests.judges.paimon.known import PaimonComparison
from tests.judges.paimon.shapes import SHAPES, values_of
from tests.judges.paimon.test_altered_tables import findings_of

SHAPES_OF_CLEANUPS = ("append/parquet", "append/partitioned", "key/avro", "key/deletion-vectors", "key/changelog/input")
CLEANUP = ("--schemas", "--keep-last", "1", "--retention", "0d", "--allow-retention-below", "7d", "--yes")


@pytest.mark.parametrize("shape", SHAPES_OF_CLEANUPS)
def test_paimon_reads_every_snapshot_after_the_cleanup(paimon: PaimonJudge, tables: Path, shape: str) -> None:
    directory = tables / "t"
    table = SHAPES[shape].create(paimon, directory)
    table.write([values_of(1), values_of(2)])
    changes = [{"action": "setOption", "key": f"judge.{number}", "value": "x"} for number in range(4)]
    for change in changes:
        table.alter([change])
    deltacli("alter", directory, "add", "note", "STRING", "--yes")
    table = paimon.open(directory)
    table.write([(*values_of(3), "three")])
    table.table.createTag("first", 1)
    for number in range(3):
        deltacli("alter", directory, "set", f"judge.{number}=y", "--yes")
    deltacli("widen-type", directory, "amount", "BIGINT", "--yes")
    table = paimon.open(directory)
    table.write([(*values_of(4), None)])
    before = _read_everything(paimon, directory)
    files = _schema_files(directory)

    document = deltacli("vacuum", directory, *CLEANUP, "--json").document()

    left = _schema_files(directory)
    with PaimonComparison(shape) as judged:
        judged.equal("deleted files", document["deleted"]["files"], len(files) - len(left))
        judged.equal("some are deleted", True, len(left) < len(files))
        judged.equal("rows of all points", before, _read_everything(paimon, directory))
        paimon.open(directory).alter([{"action": "renameColumn", "fieldNames": ["note"], "newName": "remark"}])
        reopened = paimon.open(directory)
        reopened.write([(*values_of(5), "five")])
        judged.equal("rows after a write", 5, len(reopened.rows()))
        reopened.compact()
        reopened.expire()
        judged.equal("rows after the expiry", 5, len(paimon.open(directory).rows()))
        judged.equal("findings of validate", [], findings_of(directory))
        deltacli("vacuum", directory, *CLEANUP)
        judged.equal("rows at the end", 5, len(paimon.open(directory).rows()))
        judged.equal("rows of the tag", before["tag first"], _read(paimon, directory, {"scan.tag-name": "first"}))


def _read_everything(paimon: PaimonJudge, directory: Path) -> dict[str, list[Row]]:
    """Return the rows of the newest snapshot, of each older one, and of the tag."""
    table = paimon.open(directory)
    rows = {"newest": table.rows(), "tag first": _read(paimon, directory, {"scan.tag-name": "first"})}
    for number in table.snapshots():
        rows[f"snapshot {number}"] = _read(paimon, directory, {"scan.snapshot-id": str(number)})
    return rows


def _read(paimon: PaimonJudge, directory: Path, options: dict[str, str]) -> list[Row]:
    return paimon.open(directory).with_options(options).rows()


def _schema_files(directory: Path) -> set[str]:
    return {path.name for path in (directory / "schema").glob("schema-*")}
