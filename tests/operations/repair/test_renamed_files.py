"""Files that are there under another name: the advice of a repair is right if it is followed to the letter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltacli.api.table import open_table
from deltacli.core.errors import DeltacliError, Refusal
from deltacli.operations.repair.plan import RepairPlan, StepState
from deltacli.operations.repair.repair import plan_repair
from tests.support.misnamed_tables import ID, OTHERS, SPELLINGS, VECTORS, follow, write_misnamed, write_with_vector
from tests.support.repairing import content_of, execute_repair, open_damaged, request
from tests.support.small_vectors import vector_path

OF_VECTORS = list(range(10, 10 + OTHERS))


def ids_of(root: Path) -> list[int]:
    return sorted(row["id"] for batch in open_table(root).snapshot().scan() for row in batch.to_pylist())


def planned(root: Path, **asked: Any) -> RepairPlan:  # Any: fields of the request
    return plan_repair(open_damaged(root), request(level="storage", **asked))


def renaming(plan: RepairPlan) -> Refusal:
    (found,) = (one for one in plan.refusals if one.code == "repair.file-renamed")
    return found


@pytest.mark.parametrize(("logged", "stored"), SPELLINGS.values(), ids=SPELLINGS)
def test_what_the_advice_for_a_data_file_says_makes_the_table_readable(
    logged: str, stored: str, tmp_path: Path
) -> None:
    root = write_misnamed(tmp_path / "t", {logged: stored})
    before = content_of(root)
    with pytest.raises(DeltacliError):
        ids_of(root)

    execute_repair(planned(root))
    assert before == content_of(root), "nothing is given up, even with every consent"
    follow(renaming(planned(root)).facts["if it is the file"], root)

    assert [*range(OTHERS), 100] == ids_of(root)
    assert not planned(root).steps


@pytest.mark.parametrize("stored", VECTORS.values(), ids=VECTORS)
def test_what_the_advice_for_a_vector_says_makes_the_table_readable(stored: str, tmp_path: Path) -> None:
    """The data file is intact: nothing is copied over it, and it is not given up."""
    root = write_with_vector(tmp_path / "t", stored)
    data = (root / "a.parquet").read_bytes()
    before = content_of(root)

    execute_repair(planned(root))
    assert before == content_of(root)
    found = renaming(planned(root))
    assert found.message.startswith("the deletion vector of a.parquet is missing")
    assert stored in found.message
    follow(found.facts["if it is the vector"], root)

    assert [0, 2, *OF_VECTORS] == ids_of(root)
    assert data == (root / "a.parquet").read_bytes()
    assert not planned(root).steps


def test_a_missing_vector_is_not_called_a_missing_data_file(tmp_path: Path) -> None:
    plan = planned(write_with_vector(tmp_path / "t", None))

    assert [f"remove a.parquet: its deletion vector ({vector_path(ID)}) is missing"] == [
        step.what for step in plan.steps
    ]
    assert "repair.file-renamed" not in [one.code for one in plan.refusals]


@pytest.mark.parametrize("changes", [{"storageType": "x"}, {"storageType": "U"}, {"pathOrInlineDv": "damaged"}])
def test_a_descriptor_that_names_no_file_is_no_reason_to_copy_files(changes: dict[str, str], tmp_path: Path) -> None:
    """No reader would find the vector at any place."""
    root = write_with_vector(tmp_path / "t", VECTORS["renamed"], **changes)
    before = content_of(root)

    found = renaming(execute_repair(planned(root)).plan)

    assert before == content_of(root)
    assert "a.parquet" in found.message
    assert "its descriptor in the log names no file" in found.message
    assert not any(text.startswith("copy") for text in found.facts.values())


def test_what_is_moved_out_of_the_table_is_no_other_name_any_more(tmp_path: Path) -> None:
    root = write_misnamed(tmp_path / "t", dict([SPELLINGS["renamed"]]))

    follow(renaming(planned(root)).facts["if it is another one"], root)

    assert {"repair.file-renamed"}.isdisjoint(one.code for one in planned(root).refusals)


# Pairs


def test_files_of_one_size_are_told_apart_by_the_spellings_of_their_names(tmp_path: Path) -> None:
    names = {f"p={hour}:00/a.parquet": f"p={hour}%3A00/a.parquet" for hour in (14, 12, 13)}
    plan = planned(write_misnamed(tmp_path / "t", names))

    assert dict.fromkeys(names, StepState.REFUSED) == {step.place.key: step.state for step in plan.steps}
    for step in plan.steps:
        assert step.place.key is not None
        assert names[step.place.key] in str(step.reason)


def test_files_of_one_size_are_told_apart_by_their_statistics(tmp_path: Path) -> None:
    names = {"p=c%20d/a.parquet": "p=1/x.parquet", "p=a%20b/a.parquet": "p=2/x.parquet"}
    plan = planned(write_misnamed(tmp_path / "t", names))

    for step in plan.steps:
        assert names[str(step.place.key)] in str(step.reason)
        assert 1 == str(step.reason).count("/x.parquet")


def test_no_pair_is_named_where_several_files_fit(tmp_path: Path) -> None:
    root = write_misnamed(tmp_path / "t", {"p=a%20b/a.parquet": "p=1/x.parquet"})
    (root / "p=2").mkdir()
    (root / "p=2/y.parquet").write_bytes((root / "p=1/x.parquet").read_bytes())
    before = content_of(root)

    found = renaming(execute_repair(planned(root)).plan)

    assert before == content_of(root)
    assert "each of several files" in found.message
    assert not any(text.startswith("copy") for text in found.facts.values())


def test_a_file_that_fits_two_missing_ones_is_copied_to_none_of_them(tmp_path: Path) -> None:
    root = write_misnamed(tmp_path / "t", {"p=a%20b/a.parquet": "p=1/x.parquet", "p=c%20d/a.parquet": "p=2/x.parquet"})
    (root / "p=2/x.parquet").unlink()
    commit = root / f"_delta_log/{0:020d}.json"
    commit.write_text(commit.read_text().replace("101", "100"))  # both have the same statistics

    found = renaming(planned(root))

    assert not any(text.startswith("copy") for text in found.facts.values())


def test_validate_does_not_say_that_a_vacuum_would_delete_what_it_keeps(tmp_path: Path) -> None:
    root = write_misnamed(tmp_path / "t", dict([SPELLINGS["slash"]]))
    orphans = {one.place.path: one.message for one in open_table(root).validate(level="storage").findings}

    assert "a vacuum keeps it" in orphans[SPELLINGS["slash"][1]]
