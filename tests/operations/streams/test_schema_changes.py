"""Who stops once at a commit that changes columns, properties or the protocol, and who for good, as Delta does it.

Each answer was seen with Delta for Spark 4.4.0: `tests/judges/streams/test_commits_ahead.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deltacli.api.table import Table
from deltacli.core.machine import fixed_clock
from deltacli.operations.streams.checkpoints import find_checkpoints
from deltacli.operations.streams.judge import SourceJudgement, judge, stop_by
from deltacli.operations.streams.needs import read_history
from deltacli.storage import LocalStorage, open_storage
from tests.operations.streams.checkpoints import TABLE_ID, Checkpoint, delta, own, standing
from tests.operations.streams.tables import History, adding, name_of
from tests.support.actions import Line, metadata, protocol
from tests.support.reading import NOW_MS

MAPPED = {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true", "delta.enableChangeDataFeed": "true"}
FEATURES = ["columnMapping", "typeWidening", "deletionVectors"]


def _protocol(*more: str) -> Line:
    features = [*FEATURES, *more]
    return protocol(3, 7, reader_features=features, writer_features=[*features, "changeDataFeed"])


def _protocol_without_widening() -> Line:
    features = [name for name in FEATURES if name != "typeWidening"]
    return protocol(3, 7, reader_features=features, writer_features=[*features, "changeDataFeed"])


def _metadata(columns: str = "id:id:long v:v:string n:n:integer", **changed: object) -> Line:
    """Return a metaData with columns "name:physicalName:type"."""
    fields = []
    for number, column in enumerate(columns.split()):
        name, physical, kind = column.split(":")
        mapping = {"delta.columnMapping.id": number + 1, "delta.columnMapping.physicalName": physical}
        fields.append({"name": name, "type": kind, "nullable": True, "metadata": mapping})
    schema = json.dumps({"type": "struct", "fields": fields})
    return metadata(**{"configuration": MAPPED, "schema_string": schema, **changed})  # type: ignore[arg-type]


ADD = _metadata("id:id:long v:v:string n:n:integer e:e:integer")
RENAME = _metadata("id:id:long w:v:string n:n:integer")
DROP = _metadata("id:id:long n:n:integer")
WIDEN = _metadata("id:id:long v:v:string n:n:long")
REORDER = _metadata("v:v:string id:id:long n:n:integer")
RETYPE = _metadata("id:id:string v:v:string n:n:integer")
OWN_PROPERTY = _metadata(configuration={**MAPPED, "foo": "bar"})
PROPERTY_OF_DELTA = _metadata(configuration={**MAPPED, "delta.logRetentionDuration": "interval 60 days"})
DESCRIPTION = _metadata(description="x")
REPARTITION = _metadata(partition_columns=["v"])
WIDEN_AND_DISABLE = _metadata(
    "id:id:long v:v:string n:n:long", configuration={**MAPPED, "delta.enableTypeWidening": "false"}
)
UNMAPPED = _metadata(configuration={**MAPPED, "delta.columnMapping.mode": "none"})


def _judged(
    place: Path, *changes: Line, checkpoint: Checkpoint | None = None, first: int = 17, **options: object
) -> SourceJudgement:
    """Return the judgement of a query at version 15 of a table that these commits change from a version on."""
    commits = {10: [_protocol(), _metadata()]} | {first + number: [line] for number, line in enumerate(changes)}
    root = History(commits, properties=MAPPED, **options).write(place / "table")  # type: ignore[arg-type]
    written = (checkpoint or standing(delta(15))).write(place / "checkpoint")
    table = Table(LocalStorage(str(root)), clock=fixed_clock(NOW_MS))
    (found,) = find_checkpoints([str(written)], open_storage, table.engine)
    return judge(read_history(table, [(found, found.sources[0])]), found, found.sources[0])


def _entry(version: int = 10, *, table: str = TABLE_ID, path: str | None = None) -> bytes:
    entry = {"tableId": table, "deltaCommitVersion": version, "sourceMetadataPath": path}
    return b"v1\n" + json.dumps(entry).encode()


def _tracked(version: int = 10, *, position: str | None = None) -> Checkpoint:
    return standing(position or delta(15)).file(f"_schema_log_{TABLE_ID}/0", _entry(version))


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ([ADD], "ok"),
        ([WIDEN], "ok"),
        ([REORDER], "ok"),
        ([OWN_PROPERTY], "ok"),
        ([PROPERTY_OF_DELTA], "ok"),
        ([DESCRIPTION], "ok"),
        ([_protocol("vacuumProtocolCheck")], "ok"),
        ([RENAME], "dead"),
        ([DROP], "dead"),
        ([RETYPE], "dead"),
        ([UNMAPPED], "dead"),
        ([REPARTITION], "dead"),
        ([WIDEN, WIDEN_AND_DISABLE], "ok"),
        ([_protocol_without_widening(), WIDEN], "dead"),
        ([RENAME, _metadata()], "dead"),
        ([ADD, _metadata()], "dead"),
    ],
)
def test_a_query_without_schema_tracking(changes: list[Line], verdict: str, tmp_path: Path) -> None:
    judged = _judged(tmp_path, *changes)

    assert verdict == judged.rows.verdict, judged.rows
    assert judged.feed is not None
    assert verdict == judged.feed.verdict, judged.feed


def test_a_dead_query_is_told_the_options_with_which_it_goes_on(tmp_path: Path) -> None:
    because = _judged(tmp_path, RENAME).rows.because

    assert "commit 17: column v is now w" in because
    assert "schemaTrackingLocation and allowSourceColumnRename=always" in because


def test_a_query_that_no_option_helps_starts_over(tmp_path: Path) -> None:
    because = _judged(tmp_path, RETYPE).rows.because

    assert "new checkpoint" in because
    assert "schemaTrackingLocation" not in because


def test_a_change_that_the_query_has_passed_does_not_concern_it(tmp_path: Path) -> None:
    assert "ok" == _judged(tmp_path, RENAME, first=13).rows.verdict


def test_our_own_source_reads_renamed_columns_after_a_restart(tmp_path: Path) -> None:
    assert "at-risk" == _judged(tmp_path, RENAME, checkpoint=standing(own(15))).rows.verdict
    assert "ok" == _judged(tmp_path / "2", ADD, checkpoint=standing(own(15))).rows.verdict


@pytest.mark.parametrize(
    ("changes", "verdict", "option"),
    [
        ([ADD], "at-risk", ""),
        ([PROPERTY_OF_DELTA], "at-risk", ""),
        ([_protocol("vacuumProtocolCheck")], "at-risk", ""),
        ([OWN_PROPERTY], "ok", ""),
        ([DESCRIPTION], "ok", ""),
        ([RENAME], "dead", "allowSourceColumnRename=always"),
        ([DROP], "dead", "allowSourceColumnDrop=always"),
        ([WIDEN], "dead", "allowSourceColumnTypeChange=always"),
        ([RETYPE], "dead", "new checkpoint"),
        ([UNMAPPED], "dead", "allowSourceColumnRename=always and allowSourceColumnDrop=always"),
        ([REPARTITION], "at-risk", ""),
        ([_metadata("id:id:long n:n:long")], "dead", "allowSourceColumnTypeChange=always and allowSourceColumnDrop"),
        # Delta follows consecutive commits as one: nothing is left of these changes.
        ([ADD, _metadata()], "ok", ""),
        ([RENAME, _metadata()], "ok", ""),
        ([PROPERTY_OF_DELTA, RENAME], "dead", "allowSourceColumnRename=always"),
    ],
)
def test_a_query_with_schema_tracking(changes: list[Line], verdict: str, option: str, tmp_path: Path) -> None:
    judged = _judged(tmp_path, *changes, checkpoint=_tracked())

    assert verdict == judged.rows.verdict, judged.rows
    assert option in judged.rows.because


@pytest.mark.parametrize(("change", "verdict"), [(ADD, "ok"), (PROPERTY_OF_DELTA, "ok"), (RENAME, "dead")])
def test_a_commit_that_stopped_a_query_once_does_not_stop_it_again(change: Line, verdict: str, tmp_path: Path) -> None:
    """It stands before the commit, and its log has an entry for it. An option must still allow a renamed column."""
    barrier = delta(17, -19, source_version=3)

    judged = _judged(tmp_path, change, checkpoint=_tracked(17, position=barrier))

    assert verdict == judged.rows.verdict, judged.rows


@pytest.mark.parametrize("place", ["", "_schemas/", "_schemas/a/b/"])
@pytest.mark.parametrize(
    ("content", "verdict"),
    [
        (_entry(), "ok"),
        (_entry(table="99999999-0000-0000-0000-000000000000"), "dead"),
        (b"", "dead"),
        (b'v1\n{"tableId":"11', "dead"),
        (b"v9\n{}", "unknown"),
        (b"v0\n{}", "dead"),
        (_entry(path="file:/elsewhere/chk/sources/0"), "dead"),
    ],
)
def test_a_schema_tracking_log_anywhere_below_the_checkpoint_is_read(
    place: str, content: bytes, verdict: str, tmp_path: Path
) -> None:
    checkpoint = standing(delta(15)).file(f"{place}_schema_log_{TABLE_ID}/0", content)

    judged = _judged(tmp_path, checkpoint=checkpoint)

    assert verdict == judged.rows.verdict, judged.rows


def test_the_log_of_another_query_below_the_checkpoint_is_not_read(tmp_path: Path) -> None:
    checkpoint = standing(delta(15)).file("other/offsets/0").file("other/commits/0")
    checkpoint.file(f"other/_schema_log_{TABLE_ID}/0", _entry(path="file:/elsewhere/other/sources/0"))

    assert "ok" == _judged(tmp_path, PROPERTY_OF_DELTA, checkpoint=checkpoint).rows.verdict


def test_each_source_has_a_log_of_its_own(tmp_path: Path) -> None:
    place = tmp_path / "checkpoint"
    checkpoint = Checkpoint().batch(0, delta(15), delta(15)).batch(1, delta(15), delta(15))
    checkpoint.file(f"_schema_log_{TABLE_ID}_a/0", _entry(path=f"file:{place}/sources/0"))
    checkpoint.file(f"_schema_log_{TABLE_ID}_b/0", _entry(table="other", path=f"file:{place}/sources/1"))
    root = History().write(tmp_path / "table")
    table = Table(LocalStorage(str(root)), clock=fixed_clock(NOW_MS))
    (found,) = find_checkpoints([str(checkpoint.write(place))], open_storage, table.engine)
    history = read_history(table, [(found, source) for source in found.sources])

    assert ["ok", "dead"] == [judge(history, found, source).rows.verdict for source in found.sources]


@pytest.mark.parametrize(
    ("change", "plain", "tracked"),
    [
        (ADD, "stops once", "stops once"),
        (WIDEN, "stops once", "allowSourceColumnTypeChange=always"),
        (RENAME, "schemaTrackingLocation", "allowSourceColumnRename=always"),
        (DROP, "schemaTrackingLocation", "allowSourceColumnDrop=always"),
        (PROPERTY_OF_DELTA, None, "stops once"),
        (OWN_PROPERTY, None, None),
        (DESCRIPTION, None, None),
    ],
)
def test_the_note_before_a_change_says_what_the_verdict_says_after_it(
    change: Line, plain: str | None, tracked: str | None, tmp_path: Path
) -> None:
    for name, checkpoint, expected in (("plain", standing(delta(15)), plain), ("tracked", _tracked(), tracked)):
        judged = _judged(tmp_path / name, checkpoint=checkpoint)

        note = stop_by(judged, metadata=change["metaData"], protocol=None, removes_files=False)

        assert (note is None) == (expected is None), note
        assert note is None or expected is None or expected in note


def test_files_between_two_changes_keep_them_apart(tmp_path: Path) -> None:
    """The files of the first commit are read with its columns, so that the query has to pass the second one, too."""
    commits = {10: [_protocol(), _metadata()], 17: [ADD, adding(name_of(17))], 18: [_metadata()]}
    root = History(commits, properties=MAPPED).write(tmp_path / "table")
    table = Table(LocalStorage(str(root)), clock=fixed_clock(NOW_MS))
    (found,) = find_checkpoints([str(_tracked().write(tmp_path / "checkpoint"))], open_storage, table.engine)

    judged = judge(read_history(table, [(found, found.sources[0])]), found, found.sources[0])

    assert "dead" == judged.rows.verdict, judged.rows
