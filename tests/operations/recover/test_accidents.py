"""Accidents from a seed on S3 with versions: everything comes back; a damaged commit is reported, never chosen."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltacli.core.errors import PartlyDone
from deltacli.storage import Created, Deleted
from tests.support.accidents import DAMAGES, LOG, LOSSES, Accident, check_damage, check_loss, lose, make
from tests.support.azure import ACCOUNT, AzureServer
from tests.support.effort import in_turn
from tests.support.gcs import GcsServer
from tests.support.s3 import S3Server

KINDS = [*LOSSES, *DAMAGES]


@pytest.mark.parametrize("seed", in_turn(range(10)))
def test_an_accident_on_s3(seed: int, tmp_path: Path, s3: S3Server) -> None:
    kind = KINDS[seed % len(KINDS)]
    accident = make(seed, tmp_path / "t", f"s3://{s3.make_bucket('Enabled')}/t")
    (check_loss if kind in LOSSES else check_damage)(accident, kind)


def test_a_log_that_was_deleted_softly_comes_back_before_it_can_be_read(tmp_path: Path, gcs: GcsServer) -> None:
    accident = make(1, tmp_path / "t", f"gs://{gcs.make_bucket(deletes_softly=True)}/t")
    check_loss(accident, "both")


def commits_of(accident: Accident) -> list[str]:
    return sorted(path for path in accident.before if path.startswith(LOG) and path.endswith(".json"))


def test_the_newest_commits_that_were_deleted_softly_come_back(tmp_path: Path, gcs: GcsServer) -> None:
    accident = make(1, tmp_path / "t", f"gs://{gcs.make_bucket(deletes_softly=True)}/t")
    gone = commits_of(accident)[2:]
    lose(accident, lambda path: path in gone or "checkpoint" in path)

    (note,) = accident.table.undelete(dry_run=True).plan.notes
    accident.table.undelete()

    assert note.startswith(f"version 1 can be read now; {len(gone)} deleted commits after it")
    assert {path: accident.before[path] for path in gone}.items() <= accident.left().items()


def test_a_softly_deleted_commit_that_cannot_be_read_is_taken_away_again(tmp_path: Path, gcs: GcsServer) -> None:
    bucket = gcs.make_bucket(deletes_softly=True)
    accident = make(1, tmp_path / "t", f"gs://{bucket}/t")
    first, second, third = commits_of(accident)[2:5]
    lose(accident, lambda path: path in commits_of(accident)[2:] or "checkpoint" in path)
    kept = gcs.history[bucket, f"t/{second}"]
    gcs.history[bucket, f"t/{second}"] = [(one._replace(data=bytes(len(one.data))), soft) for one, soft in kept]

    with pytest.raises(PartlyDone, match="commit 3 cannot be read, and was taken away again") as error:
        accident.table.undelete()

    assert error.value.facts["file"] == second
    assert accident.table.snapshot().version == 2
    assert first in accident.left()
    assert not {second, third} & accident.left().keys()


def test_softly_deleted_commits_of_a_table_that_was_here_before_stay_away(tmp_path: Path, gcs: GcsServer) -> None:
    older = make(1, tmp_path / "older", f"gs://{gcs.make_bucket(deletes_softly=True)}/t")
    lose(older, lambda _: True)
    newer = make(2, tmp_path / "newer", f"gs://{gcs.make_bucket()}/t")
    paths = commits_of(newer)[:2]
    paths += [path for path in newer.before if not path.startswith(LOG)]
    assert all(older.storage.put_if_absent(path, newer.before[path]) == Created() for path in paths)
    older.table.checkpoint()
    before = older.left()
    lost = next(path for batch in older.table.snapshot().files() for path in batch.column("path").to_pylist())
    assert all(isinstance(done, Deleted) for _, done in older.storage.delete_many([lost]))

    older.table.undelete()

    assert before == older.left()


def test_a_softly_deleted_file_that_is_damaged_is_named_when_it_is_back(tmp_path: Path, gcs: GcsServer) -> None:
    bucket = gcs.make_bucket(deletes_softly=True)
    accident = make(1, tmp_path / "t", f"gs://{bucket}/t")
    path = next(path for batch in accident.table.snapshot().files() for path in batch.column("path").to_pylist())
    lose(accident, lambda lost: lost == path)
    kept = gcs.history[bucket, f"t/{path}"]
    gcs.history[bucket, f"t/{path}"] = [(one._replace(data=bytes(len(one.data))), soft) for one, soft in kept]

    with pytest.raises(PartlyDone) as error:
        accident.table.undelete()

    assert ("undelete.not-there", 7) == (error.value.code, error.value.cause_exit_code)
    assert path in error.value.facts["files"]
    assert error.value.hint == f"deltacli validate {accident.uri} --level footers"


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10, 110))
def test_an_accident_on_any_store(seed: int, tmp_path: Path, s3: S3Server, gcs: GcsServer, azure: AzureServer) -> None:
    kind = KINDS[seed % len(KINDS)]
    soft, versioned = {"deletes_softly": True}, {"is_versioned": True}
    blobs = f"@{ACCOUNT}.dfs.core.windows.net/t"
    places = [
        f"s3://{s3.make_bucket('Enabled')}/t",
        *(f"gs://{gcs.make_bucket(**how)}/t" for how in (soft, versioned)),
        *(f"abfss://{azure.make_container(**how)}{blobs}" for how in (soft, versioned)),
    ]
    for number, place in enumerate(places):
        accident = make(seed, tmp_path / str(number), place)
        (check_loss if kind in LOSSES else check_damage)(accident, kind)
