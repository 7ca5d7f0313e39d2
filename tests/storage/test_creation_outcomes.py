"""What an answer means for a conditional creation depends on whose answer it is."""

from __future__ import annotations

import pytest

from deltacli.storage.azure.calls import DIALECT as AZURE
from deltacli.storage.gcs.calls import DIALECT as GCS
from deltacli.storage.objects.dialect import CreationAnswer, Dialect, classify_failed_creation
from deltacli.storage.objects.http_errors import HttpError, RequestOutcome
from deltacli.storage.s3.calls import DIALECT as S3


@pytest.mark.parametrize(
    ("dialect", "sent"), [(S3, CreationAnswer.NOT_DONE), (GCS, CreationAnswer.UNKNOWN), (AZURE, CreationAnswer.UNKNOWN)]
)
def test_only_s3_has_done_nothing_where_it_says_slow_down_with_503(dialect: Dialect, sent: CreationAnswer) -> None:
    fault = HttpError(RequestOutcome.ANSWERED, "reduce your request rate", status=503, reason="SlowDown")

    assert sent is classify_failed_creation(fault, dialect)
