"""A checkpoint in a directory that is renamed while it is written: what was published is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltacli.api.table import Table
from deltacli.core.errors import PartlyDone
from deltacli.core.machine import fixed_clock
from deltacli.storage import Creation, open_storage
from deltacli.storage.local_write import LocalDraft
from tests.support.actions import protocol
from tests.support.builder import EPOCH_MS, LOG, TableBuilder

FEATURES = ["v2Checkpoint"]


@pytest.mark.parametrize("layout", ["classic", "v2"])
def test_a_checkpoint_that_was_written_before_the_rename_is_partly_done(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = TableBuilder().commits(2)
    builder.commit(protocol(3, 7, reader_features=FEATURES, writer_features=FEATURES))
    place = builder.write(tmp_path / "t")
    moved = tmp_path / "moved"
    publish = LocalDraft.publish

    def publish_and_move(draft: LocalDraft, *, replace: bool = False) -> Creation:
        outcome = publish(draft, replace=replace)
        if not draft._target.endswith(".parquet") or layout == "classic":
            place.rename(moved)
            place.mkdir()
        return outcome

    monkeypatch.setattr(LocalDraft, "publish", publish_and_move)

    with pytest.raises(PartlyDone) as caught:
        Table(open_storage(str(place)), clock=fixed_clock(EPOCH_MS)).checkpoint(layout=layout)

    assert "plan.other-place" == caught.value.code
    assert [] == list(place.iterdir())
    assert list((moved / LOG).glob("*.checkpoint*"))
