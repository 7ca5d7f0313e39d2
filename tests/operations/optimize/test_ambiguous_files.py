"""Files that the log names by several spellings of their path are left alone by rewrites."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from deltacli.api.table import Table
from deltacli.core.errors import PartlyDone, Refused
from tests.support.two_spellings import AGREED, DIFFERING, OTHERS, RULE, write_two_spellings

DOUBTFUL = {**DIFFERING, **AGREED}
LIVE = {name: case for name, case in DOUBTFUL.items() if any(word[0] == "+" for word in case[1])}


def live_paths(table: Table) -> set[str]:
    return {path for batch in table.snapshot().files() for path in batch.column("path").to_pylist()}


@pytest.mark.parametrize(("path", "commit"), DOUBTFUL.values(), ids=DOUBTFUL)
def test_only_the_other_files_are_compacted(path: str, commit: Sequence[str], tmp_path: Path) -> None:
    table = write_two_spellings(tmp_path / "t", path, commit)
    before = live_paths(table)

    with suppress(PartlyDone):
        table.optimize(verify=True)

    assert before.difference(OTHERS) == live_paths(table) & before
    assert len(before) - len(OTHERS) + 1 == len(live_paths(table))


@pytest.mark.parametrize(("path", "commit"), LIVE.values(), ids=LIVE)
def test_the_report_names_the_rule_for_each_live_spelling(path: str, commit: Sequence[str], tmp_path: Path) -> None:
    table = write_two_spellings(tmp_path / "t", path, commit)

    plan = table.optimize(dry_run=True).plan

    named = {file.path for file in plan.damaged if file.code == RULE}
    assert live_paths(table).difference(OTHERS) == named
    assert len(named) == plan.skipped[RULE]


def test_both_copies_may_be_in_a_checkpoint(tmp_path: Path) -> None:
    table = write_two_spellings(tmp_path / "t", "a.parquet", ["+ABSOLUTE"])
    table.checkpoint()

    plan = table.optimize(dry_run=True).plan

    assert 2 == plan.skipped[RULE]


def test_a_checkpoint_settles_which_spelling_is_meant(tmp_path: Path) -> None:
    table = write_two_spellings(tmp_path / "t", "a.parquet", ["+./a.parquet"])
    table.checkpoint(force=True)

    done = table.optimize()

    assert len(OTHERS) + 1 == done.files_removed


def test_a_file_whose_spellings_are_all_removed_is_none_of_these(tmp_path: Path) -> None:
    table = write_two_spellings(tmp_path / "t", "a.parquet", ["+./a.parquet"], ["-./a.parquet", "-a.parquet"])

    plan = table.optimize(dry_run=True).plan

    assert RULE not in plan.skipped


def test_deletion_vectors_are_not_dropped_from_a_table_with_doubled_rows(tmp_path: Path) -> None:
    table = write_two_spellings(tmp_path / "t", *AGREED["relative and absolute"])
    table.set_properties({"delta.enableDeletionVectors": "true"}, upgrade_protocol=True)

    with pytest.raises(Refused) as caught:
        table.drop_features("deletionVectors")

    assert RULE == caught.value.code
