"""No real table is accused of columns under logical names: by a read, by `validate`, or by a vacuum."""

from __future__ import annotations

from pathlib import Path

from deltacli import open_table
from deltacli.core.errors import DataUnreadable, DeltacliError
from deltacli.table.scan import Scan
from tests.support.corpus import tables

RULE = "mapping.file-with-logical-names"


def test_no_table_with_column_mapping_is_accused(root: Path) -> None:
    judged = 0
    for entry in tables():
        table = open_table(entry.path(root))
        try:
            is_mapped = table.snapshot().config.mapping_mode != "none"
        except DeltacliError:
            continue
        if not is_mapped:
            continue

        assert RULE not in {one.rule.id for one in table.validate(level="footers").findings}, entry.id
        plan = table.plan_vacuum(retention_ms=0, allow_retention_below_ms=10**15)
        assert not any(RULE in note for note in plan.notes), entry.id
        for version in table.snapshot().listing.reconstructable:
            require_no_accusation(table.snapshot(version=version).scan())
        judged += 1

    assert judged >= 12


def require_no_accusation(scan: Scan) -> None:
    """Read all rows. A file of the corpus may be missing, but none has columns under logical names."""
    code = None
    try:
        scan.count()
    except DataUnreadable as fault:
        code = fault.code
    assert RULE != code
    assert () == scan.misnamed
