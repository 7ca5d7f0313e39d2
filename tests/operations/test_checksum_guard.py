"""A change compares a checksum file with what it builds on: also the metadata and the protocol."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli.api.table import Table
from deltacli.core.errors import Refused
from deltacli.delta.evolution.requests import SetTableComment
from tests.rules.corruptions_checkpoints import change, with_rows
from tests.rules.test_rewrites_of_damages import filled
from tests.support.repairing import open_damaged

FIELDS: dict[str, dict[str, Any]] = {  # Any: JSON values
    "metaData": {"id": "00000000-0000-4000-8000-000000000bad"},
    "protocol": {"minWriterVersion": 4},
}
"""What the checkpoint says otherwise than the commits."""
RULES = {"metaData": "crc.metadata-differs", "protocol": "crc.protocol-differs"}


def vacuumed(table: Table) -> object:
    if (refusal := table.plan_vacuum().build_refusal()) is not None:
        raise refusal
    return None


def altered(table: Table) -> object:
    return table.alter([SetTableComment("new")])


def with_property(table: Table) -> object:
    return table.set_properties({"delta.checkpointInterval": "20"})


def restored(table: Table) -> object:
    return table.restore(version=0, trust_listing=True)


@pytest.mark.parametrize("command", [Table.checkpoint, vacuumed, altered, with_property, restored])
@pytest.mark.parametrize("kind", FIELDS)
def test_a_change_that_reads_it_is_refused_where_the_checkpoint_contradicts_it_until_a_repair(
    kind: str, command: Callable[[Table], object], tmp_path: Path
) -> None:
    table = with_rows(change(kind, **FIELDS[kind]))
    table.put("orphan.parquet", b"old", modified_ms=1)
    root = filled(table.write(tmp_path))

    with pytest.raises(Refused) as refused:
        command(open_damaged(root))

    assert RULES[kind] == refused.value.code
    assert "repair" in str(refused.value.hint)
    open_damaged(root).repair(level="log", allow_in_use=True)
    assert "checkpoint.metadata-differs" not in {one.rule.id for one in open_damaged(root).validate().findings}
