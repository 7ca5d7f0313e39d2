"""Row ids of the files that a commit adds, also after commits of others."""

from __future__ import annotations

from typing import Any

import pytest

from deltacli.core.errors import Refused
from deltacli.delta.log.actions import Action
from deltacli.delta.log.commit_content import CommitRequest, body_lines
from tests.support.actions import Line, add, commit_info, domain, metadata, protocol
from tests.support.builder import TableBuilder
from tests.support.committing import Make, Rivals, commits, infos, run, table_of_commits


def tracked(**configuration: str) -> TableBuilder:
    """A table that gives ids to rows: 10 so far."""
    builder = TableBuilder()
    names = ["domainMetadata", "rowTracking"]
    builder.commit(commit_info(), protocol(1, 7, writer_features=names), metadata(configuration=configuration))
    return builder.commit(commit_info(), high_water_mark(9), add("a.parquet", records=10, baseRowId=0))


def high_water_mark(mark: int) -> Line:
    return domain("delta.rowTracking", f'{{"rowIdHighWaterMark":{mark}}}')


def new_rows(*files: tuple[str, int], **more: Any) -> Make:  # Any: fields
    """Files with so many rows each."""
    actions = [add(path, records=records) for path, records in files]
    rows = sum(records for _, records in files)
    return lambda _: CommitRequest("WRITE", body=lambda slot: body_lines(actions, slot), new_rows=rows, **more)


def row_ids_of(actions: list[tuple[str, Action]]) -> dict[str, tuple[int | None, int | None]]:
    adds = [action for kind, action in actions if kind == "add"]
    return {one["path"]: (one.get("baseRowId"), one.get("defaultRowCommitVersion")) for one in adds}


def marks_of(actions: list[tuple[str, Action]]) -> list[str]:
    return [action["configuration"] for kind, action in actions if kind == "domainMetadata"]


@pytest.mark.parametrize(
    ("theirs", "mark"), [([], 9), ([high_water_mark(19)], 19), ([high_water_mark(4)], 9), ([domain("other")], 9)]
)
def test_row_ids_follow_those_of_the_winner(theirs: list[Line], mark: int) -> None:
    """
    A winner that lowers the mark breaks the protocol: ids that were ever given are not given again.
    """
    inner = tracked().in_memory()

    run(Rivals(inner, [commit_info(), *theirs, add("b.parquet", records=10)]), new_rows(("c", 3), ("d", 4)))

    ours = commits(inner)[-1]
    assert {"c": (mark + 1, 3), "d": (mark + 4, 3)} == row_ids_of(ours)
    assert [f'{{"rowIdHighWaterMark":{mark + 7}}}'] == marks_of(ours)


@pytest.mark.parametrize("suspended", ["true", None])
def test_rows_get_no_ids_where_the_table_gives_none(suspended: str | None) -> None:
    """
    Ids that a file has already go, too: a file that came back with them could share them with others.
    """
    builder = tracked(**{"delta.rowTrackingSuspended": suspended}) if suspended else table_of_commits()
    inner = builder.in_memory()
    again = add("c", records=1, baseRowId=4, defaultRowCommitVersion=1)

    run(inner, lambda _: CommitRequest("WRITE", body=lambda slot: body_lines([again, add("d")], slot), new_rows=2))

    assert {"c": (None, None), "d": (None, None)} == row_ids_of(commits(inner)[-1])
    assert [] == marks_of(commits(inner)[-1])


def test_a_file_keeps_its_row_ids_and_needs_a_number_of_rows_for_new_ones() -> None:
    inner = tracked().in_memory()
    again = add("c", baseRowId=4, defaultRowCommitVersion=1)

    run(inner, lambda _: CommitRequest("RESTORE", body=lambda slot: body_lines([again], slot)))
    with pytest.raises(Refused, match=r"^d\.parquet has no number of records") as raised:
        run(inner, lambda _: CommitRequest("WRITE", body=lambda slot: body_lines([add("d.parquet")], slot)))

    assert "rowtracking.base-row-id-missing" == raised.value.code
    assert {"c": (4, 1)} == row_ids_of(commits(inner)[-1])
    assert [] == marks_of(commits(inner)[-1])


@pytest.mark.parametrize("mark", ["{}", '{"rowIdHighWaterMark":"9"}', "9"])
def test_no_ids_are_given_after_a_mark_that_cannot_be_read(mark: str) -> None:
    inner = tracked().commit(commit_info(), domain("delta.rowTracking", mark)).in_memory()

    with pytest.raises(Refused, match="no high-water mark") as raised:
        run(inner, new_rows(("c", 3)))

    assert "rowtracking.high-water-mark" == raised.value.code
    run(inner, lambda _: CommitRequest("OPTIMIZE"))


def test_no_ids_are_given_beyond_64_bits() -> None:
    inner = tracked().commit(commit_info(), high_water_mark(2**63 - 3)).in_memory()

    with pytest.raises(Refused, match="no row ids are left"):
        run(inner, new_rows(("c", 3)))
    run(inner, new_rows(("c", 2)))

    assert [f'{{"rowIdHighWaterMark":{2**63 - 1}}}'] == marks_of(commits(inner)[-1])


STARTS = [commit_info("ADD FEATURE"), protocol(1, 7, writer_features=["domainMetadata", "rowTracking"])]
SUSPENDS = [commit_info("SET TBLPROPERTIES"), metadata(configuration={"delta.rowTrackingSuspended": "true"})]


def test_a_winner_that_starts_row_tracking_lets_our_rows_have_ids() -> None:
    builder = TableBuilder().commit(commit_info(), protocol(1, 7, writer_features=[]), metadata())
    inner = builder.in_memory()

    run(Rivals(inner, STARTS, [commit_info(), high_water_mark(2)]), new_rows(("c", 3), ("d", 4)))

    assert {"c": (3, 3), "d": (6, 3)} == row_ids_of(commits(inner)[-1])
    assert ['{"rowIdHighWaterMark":9}'] == marks_of(commits(inner)[-1])


def test_a_winner_that_suspends_row_tracking_lets_our_rows_have_none() -> None:
    inner = tracked().in_memory()

    run(Rivals(inner, SUSPENDS), new_rows(("c", 3)))

    assert {"c": (None, None)} == row_ids_of(commits(inner)[-1])
    assert [] == marks_of(commits(inner)[-1])


def test_rows_and_times_of_a_commit_both_follow_the_winner() -> None:
    names, on = ["domainMetadata", "rowTracking", "inCommitTimestamp"], {"delta.enableInCommitTimestamps": "true"}
    builder = TableBuilder()
    builder.commit(commit_info(inCommitTimestamp=5), protocol(1, 7, writer_features=names), metadata(configuration=on))
    inner = builder.in_memory()
    theirs = [commit_info(inCommitTimestamp=10**13), high_water_mark(9), add("b", records=10, baseRowId=0)]

    run(Rivals(inner, theirs), new_rows(("c", 3)))

    assert 10**13 + 1 == infos(inner)[-1]["inCommitTimestamp"]
    assert {"c": (10, 2)} == row_ids_of(commits(inner)[-1])
