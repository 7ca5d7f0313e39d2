"""What an answer means for a conditional creation depends on whose answer it is."""

from __future__ import annotations

import pytest

from deltacli.storage.azure.store import DIALECT as AZURE
from deltacli.storage.gcs.store import DIALECT as GCS
from deltacli.storage.objects.http import Dialect, Fate, HttpFault, Sent, fate_of_create
from deltacli.storage.s3.calls import DIALECT as S3


@pytest.mark.parametrize(("dialect", "sent"), [(S3, Sent.AGAIN), (GCS, Sent.UNKNOWN), (AZURE, Sent.UNKNOWN)])
def test_only_s3_has_done_nothing_where_it_says_slow_down_with_503(dialect: Dialect, sent: Sent) -> None:
    fault = HttpFault(Fate.ANSWERED, "reduce your request rate", status=503, reason="SlowDown")

    assert sent is fate_of_create(fault, dialect)
