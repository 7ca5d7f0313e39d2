"""`log crc` and `validate` agree: what one writes, the other does not report."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltacli.api.table import Table
from deltacli.changing.change import execute_change
from deltacli.core.errors import DeltacliError
from deltacli.core.machine import fixed_clock
from deltacli.delta.log.segment import checksum_path
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.log.crc_and_compact import Checksum, ChecksumStatus
from deltacli.storage import open_storage
from tests.rules.corruptions import DAMAGES, Damage, load_all
from tests.rules.table_builder import NOW_MS, TableBuilder
from tests.support.validating import validate_table

load_all()
CONTRADICTING = [damage for damage in DAMAGES if damage.rule.startswith(("checkpoint.", "ict."))]


def written_by_us(root: Path) -> str | None:
    """Write the checksum of the newest version and return its path; None where it is refused or was there."""
    table = Table(open_storage(str(root)), engine=EmbeddedEngine(), clock=fixed_clock(NOW_MS))
    newest = max(root.glob("_delta_log/*.json"), default=None)
    if newest is not None:
        newest.with_suffix(".crc").unlink(missing_ok=True)
    try:
        report = execute_change(Checksum(), table)
    except DeltacliError:
        return None
    return checksum_path(report.version) if report.status is ChecksumStatus.WRITTEN else None


@pytest.mark.parametrize("damage", CONTRADICTING, ids=lambda damage: f"{damage.rule}-{damage.name}")
def test_a_checksum_is_written_only_where_validate_reports_nothing_about_it(damage: Damage, tmp_path: Path) -> None:
    root = damage.make().write(tmp_path / "t")

    path = written_by_us(root)

    found = validate_table(open_storage(str(root)), EmbeddedEngine(), level="log", now_ms=NOW_MS).findings
    assert [] == [finding.message for finding in found if path is not None and finding.place.path == path]


def test_the_undamaged_table_gets_its_checksum(tmp_path: Path) -> None:
    assert written_by_us(TableBuilder().write(tmp_path / "t")) is not None
