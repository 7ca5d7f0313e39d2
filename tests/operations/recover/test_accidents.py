"""Accidents from a seed on S3 with versions: everything comes back; a damaged commit is reported, never chosen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.accidents import DAMAGES, LOSSES, check_damage, check_loss, make
from tests.support.s3 import S3Server

KINDS = [*LOSSES, *DAMAGES]


@pytest.mark.parametrize("seed", range(10))
def test_an_accident_on_s3(seed: int, tmp_path: Path, s3: S3Server) -> None:
    kind = KINDS[seed % len(KINDS)]
    accident = make(seed, tmp_path / "t", f"s3://{s3.make_bucket('Enabled')}/t")
    (check_loss if kind in LOSSES else check_damage)(accident, kind)
