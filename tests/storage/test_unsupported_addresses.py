"""Addresses by which consoles and other tools show a store: each is refused with the address that opens it here."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltacli.core.errors import UsageError
from deltacli.storage import LocalStorage, open_storage
from tests.cli.support import deltacli

ACCESS_POINT = "arn:aws:s3:us-west-2:123456789012:accesspoint"

ADDRESSES = {
    "https://lake.s3.us-east-1.amazonaws.com/sales/trips": "s3://lake/sales/trips",
    "http://lake.s3.amazonaws.com/sales/trips/": "s3://lake/sales/trips",
    "HTTPS://lake.S3.amazonaws.com/sales/trips": "s3://lake/sales/trips",
    "https://lake.s3-us-west-2.amazonaws.com/sales/trips": "s3://lake/sales/trips",
    "https://lake.s3-website-us-east-1.amazonaws.com/sales/trips": "s3://lake/sales/trips",
    "https://lake.s3-accelerate.amazonaws.com/sales/trips": "s3://lake/sales/trips",
    "https://my.lake.s3.dualstack.us-west-2.amazonaws.com/sales/trips": "s3://my.lake/sales/trips",
    "https://lake.s3.cn-north-1.amazonaws.com.cn/sales/trips": "s3://lake/sales/trips",
    "https://s3.us-east-1.amazonaws.com/lake/sales/trips": "s3://lake/sales/trips",
    "https://s3.amazonaws.com/lake": "s3://lake",
    "https://s3-eu-west-1.amazonaws.com/lake/day%3D2026-01-01/a%20b": "s3://lake/day=2026-01-01/a b",
    "https://lake.s3.amazonaws.com/trips?X-Amz-Signature=0123&X-Amz-Credential=AKIA": "s3://lake/trips",
    "https://us-east-1.console.aws.amazon.com/s3/buckets/lake?region=us-east-1&prefix=sales/trips/": "s3://lake/sales/trips",
    "arn:aws:s3:::lake/sales/trips": "s3://lake/sales/trips",
    "arn:aws-cn:s3:::lake": "s3://lake",
    "s3://arn:aws:s3:::lake/sales/trips": "s3://lake/sales/trips",
    "https://storage.googleapis.com/lake/sales/trips": "gs://lake/sales/trips",
    "https://storage.cloud.google.com/lake/sales/trips": "gs://lake/sales/trips",
    "https://lake.storage.googleapis.com/sales/trips": "gs://lake/sales/trips",
    "https://storage.googleapis.com/storage/v1/b/lake/o/sales%2Ftrips?alt=media": "gs://lake/sales/trips",
    "https://console.cloud.google.com/storage/browser/lake/sales/trips;tab=objects?project=p": "gs://lake/sales/trips",
}

ACCESS_POINTS = (
    f"{ACCESS_POINT}/team/sales/trips",
    f"{ACCESS_POINT}:team/sales/trips",
    f"{ACCESS_POINT}/team/object/sales/trips",
    f"s3://{ACCESS_POINT}/team/sales/trips",
    f"s3a://{ACCESS_POINT}/team/sales/trips",
    "https://team-123456789012.s3-accesspoint.us-west-2.amazonaws.com/sales/trips",
)


@pytest.mark.parametrize("uri", ADDRESSES)
def test_an_address_of_an_endpoint_names_the_one_that_opens_the_directory(uri: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_storage(uri)

    assert ("usage.scheme", ADDRESSES[uri]) == (caught.value.code, caught.value.facts["did you mean"])
    assert "AKIA" not in caught.value.message + str(caught.value.facts)


@pytest.mark.parametrize("uri", ACCESS_POINTS)
def test_an_access_point_is_addressed_by_its_alias(uri: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_storage(uri)

    error = caught.value
    assert "usage.scheme" == error.code
    assert error.facts["instead"].startswith("s3://ALIAS/sales/trips")
    assert "--account-id 123456789012 --name team" in (error.hint or "")


@pytest.mark.parametrize(
    "uri",
    [
        "https://example.com/lake/trips",
        "https://lake.s3.amazonaws.com.example.com/trips",
        "https://s3.example.com/lake/trips",
        "https://examples3.amazonaws.com.example/lake",
        "https://lake.storage.googleapis.com.example.com/trips",
        "https://[::1/lake",
        "https://s3.amazonaws.com/",
    ],
)
def test_other_addresses_name_none(uri: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_storage(uri)

    assert "did you mean" not in caught.value.facts


def test_a_local_directory_may_have_the_name_of_an_arn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("arn:aws:s3:::lake").mkdir()

    assert isinstance(open_storage("arn:aws:s3:::lake"), LocalStorage)


def test_the_hint_is_the_command_with_the_address(tmp_path: Path) -> None:
    result = deltacli("history", "https://lake.s3.us-east-1.amazonaws.com/trips", "--limit", "3", cwd=tmp_path)

    assert 2 == result.code
    assert "hint: deltacli history s3://lake/trips --limit 3" == result.err.splitlines()[-1]
