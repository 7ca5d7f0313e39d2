"""Accidents from a seed on S3 with versions: everything comes back; a damaged commit is reported, never chosen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.accidents import DAMAGES, LOSSES, check_damage, check_loss, make
from tests.support.azure import ACCOUNT, AzureServer
from tests.support.gcs import GcsServer
from tests.support.s3 import S3Server

KINDS = [*LOSSES, *DAMAGES]


@pytest.mark.parametrize("seed", range(10))
def test_an_accident_on_s3(seed: int, tmp_path: Path, s3: S3Server) -> None:
    kind = KINDS[seed % len(KINDS)]
    accident = make(seed, tmp_path / "t", f"s3://{s3.make_bucket('Enabled')}/t")
    (check_loss if kind in LOSSES else check_damage)(accident, kind)


def test_a_log_that_was_deleted_softly_comes_back_before_it_can_be_read(tmp_path: Path, gcs: GcsServer) -> None:
    accident = make(1, tmp_path / "t", f"gs://{gcs.make_bucket(deletes_softly=True)}/t")
    check_loss(accident, "both")


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
