"""A remove by the absolute path of a file with a relative path, or the reverse, is an error of `validate`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from deltacli.api.table import Table
from tests.support.two_spellings import RULE, write_two_spellings

UNKNOWN = "action.remove-of-unknown"


def rules_of(table: Table) -> list[str]:
    return [finding.rule.id for finding in table.validate().findings if finding.rule.id in (RULE, UNKNOWN)]


@pytest.mark.parametrize("with_checkpoint", [False, True])
@pytest.mark.parametrize(
    ("commits", "expected"),
    [
        ([["-ABSOLUTE"]], [RULE]),
        # Live by the absolute path alone.
        ([["-a.parquet", "+ABSOLUTE"], ["-a.parquet"]], [RULE]),
        # Both are removed, also by the same commit.
        ([["-ABSOLUTE", "-a.parquet"]], [UNKNOWN]),
        ([["-a.parquet"], ["-ABSOLUTE"]], [UNKNOWN]),
        ([["-a.parquet"], ["-a.parquet"]], [UNKNOWN]),
        ([["-a.parquet", "+ABSOLUTE"], ["-ABSOLUTE"]], []),
    ],
)
def test_the_live_file_that_a_remove_means_is_named(
    commits: Sequence[Sequence[str]], expected: list[str], with_checkpoint: bool, tmp_path: Path
) -> None:
    table = write_two_spellings(tmp_path / "t", "a.parquet", *commits)
    if with_checkpoint:
        table.checkpoint(version=0)

    assert expected == rules_of(table)


def test_the_file_of_another_table_is_another_file(tmp_path: Path) -> None:
    table = write_two_spellings(tmp_path / "t", "a.parquet", [f"-file://{tmp_path}/other/a.parquet"])

    assert [UNKNOWN] == rules_of(table)
