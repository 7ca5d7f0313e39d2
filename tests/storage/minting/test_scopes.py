"""A credential for a directory allows reading and listing below it, and nothing else: 10,000 keys and actions outside.

Decided by evaluators of our own, since no stub of a store applies policies.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest

from deltacli.storage.signing.azure_sas import mint_directory_sas
from deltacli.storage.signing.policies import build_access_boundary, build_boundary_expression, build_session_policy
from deltacli.storage.signing.values import AzureSigning, DelegationKey, ObjectAddress
from tests.support.granted import aws_allows, gcp_allows, near_keys, policy_of, sas_allows, sas_fields

KEY = b"a delegation key"
CLAIMS = {"skoid": "oid-1234", "sktid": "tid", "skt": "2026-01-01T00:00:00Z", "ske": "2026-01-07T00:00:00Z",
          "sks": "b", "skv": "2024-05-04"}  # fmt: skip
NOW_MS, EXPIRES_MS = 1_767_225_600_000, 1_767_229_200_000
DIRECTORIES = [
    "t1",
    "grid/meters",
    "*",
    "a?b",
    "lake/${aws:username}",
    "$",
    "${*}",
    'it\'s "x"\\',
    "día/é☃😀",
    "day=2026-01-01/a b%20c+d",
    "a\tb",
    "x" * 300,
]
LETTERS = [
    "t1",
    "t10",
    "t",
    "grid",
    "meters",
    "/",
    "//",
    "..",
    ".",
    "%2F",
    "%2e%2e",
    "*",
    "?",
    "$",
    "\\",
    "\n",
    "é",
    "0",
]


def outside(directory: str, count: int) -> Iterator[str]:
    """Keys that are not below a directory."""
    yield from (key for key in near_keys(directory) if not key.startswith(f"{directory}/"))
    drawn = random.Random(directory)
    made = 0
    while made < count:
        key = "".join(drawn.choices([*LETTERS, directory, directory[:-1]], k=drawn.randint(1, 6)))
        if not key.startswith(f"{directory}/"):
            made += 1
            yield key


INSIDE = ["_delta_log/00000000000000000000.json", "part 1.parquet", "a/../b", "*", "${aws:username}", "é\n"]


@pytest.mark.parametrize("directory", DIRECTORIES)
@pytest.mark.parametrize("uses_kms", [False, True])
def test_a_session_of_aws_is_for_one_directory(directory: str, *, uses_kms: bool) -> None:
    text = build_session_policy("lake", directory, uses_kms=uses_kms)
    policy, store = policy_of(text), "arn:aws:s3:::lake"

    assert text.isascii()
    for key in INSIDE:
        assert aws_allows(policy, "s3:GetObject", f"{store}/{directory}/{key}", {})
        assert aws_allows(policy, "s3:ListBucket", store, {"s3:prefix": f"{directory}/{key}"})
        for action in ("s3:PutObject", "s3:DeleteObject", "s3:GetObjectVersion", "s3:GetObjectAcl", "s3:RestoreObject"):
            assert not aws_allows(policy, action, f"{store}/{directory}/{key}", {"s3:prefix": f"{directory}/"})
        assert not aws_allows(policy, "s3:GetObject", f"arn:aws:s3:::lake2/{directory}/{key}", {})
    assert aws_allows(policy, "s3:ListBucket", store, {"s3:prefix": f"{directory}/"})
    for key in outside(directory, 10_000 // len(DIRECTORIES)):
        assert not aws_allows(policy, "s3:GetObject", f"{store}/{key}", {})
        assert not aws_allows(policy, "s3:ListBucket", store, {"s3:prefix": key})
    for action in ("s3:ListBucket", "s3:ListBucketVersions", "s3:ListAllMyBuckets", "s3:GetBucketPolicy"):
        assert not aws_allows(policy, action, store, {})
    for other in ("arn:aws:s3:::lake2", "arn:aws:s3:::lak", "*"):
        assert not aws_allows(policy, "s3:ListBucket", other, {"s3:prefix": f"{directory}/"})
    context = {"kms:ViaService": "s3.eu-west-1.amazonaws.com", "kms:EncryptionContext:aws:s3:arn": store}
    assert uses_kms == aws_allows(policy, "kms:Decrypt", "arn:aws:kms:::key/k", context)
    for wrong in (
        {"kms:ViaService": "rds.eu-west-1.amazonaws.com"},
        {"kms:EncryptionContext:aws:s3:arn": f"{store}/x"},
    ):
        assert not aws_allows(policy, "kms:Decrypt", "arn:aws:kms:::key/k", {**context, **wrong})


@pytest.mark.parametrize("directory", [one for one in DIRECTORIES if "\t" not in one])
def test_a_signature_of_azure_is_for_one_directory(directory: str) -> None:
    signing = AzureSigning(ObjectAddress("https://lakes", "/"), "", DelegationKey(CLAIMS, KEY, EXPIRES_MS + 1))
    place = "data@lakes.dfs.core.windows.net", directory
    minted = mint_directory_sas(lambda _: signing, place, expires_ms=EXPIRES_MS, now_ms=NOW_MS)
    token = minted.fields["sasToken"]

    given = sas_fields(token)
    assert {"sp": "rl", "sr": "d", "spr": "https", "sdd": str(directory.count("/") + 1)}.items() <= given.items()
    assert "2026-01-01T01:00:00Z" == given["se"] <= given["ske"]
    assert (EXPIRES_MS, "1234") == (minted.expires_ms, minted.key_end)
    for key in INSIDE:
        assert sas_allows(token, KEY, "lakes", "data", f"{directory}/{key}", "r")
        assert not sas_allows(token, b"another key", "lakes", "data", f"{directory}/{key}", "r")
        for account, container, right in [
            ("lakes", "data", "w"),
            ("lakes", "data", "d"),
            ("lakes", "other", "r"),
            ("lake", "data", "r"),
        ]:
            assert not sas_allows(token, KEY, account, container, f"{directory}/{key}", right)
    assert sas_allows(token, KEY, "lakes", "data", directory, "l")
    for key in outside(directory, 10_000 // len(DIRECTORIES)):
        assert not sas_allows(token, KEY, "lakes", "data", key, "r")
        assert key == directory or not sas_allows(token, KEY, "lakes", "data", key, "l")


@pytest.mark.parametrize("directory", DIRECTORIES)
def test_a_token_of_google_is_for_one_directory(directory: str) -> None:
    boundary = policy_of(json.dumps(build_access_boundary("lake", directory)))

    for key in INSIDE:
        assert gcp_allows(boundary, "storage.objects.get", "lake", key=f"{directory}/{key}")
        assert gcp_allows(boundary, "storage.objects.list", "lake", prefix=f"{directory}/{key}")
        assert not gcp_allows(boundary, "storage.objects.create", "lake", key=f"{directory}/{key}")
        assert not gcp_allows(boundary, "storage.objects.get", "lake2", key=f"{directory}/{key}")
    for key in outside(directory, 10_000 // len(DIRECTORIES)):
        assert not gcp_allows(boundary, "storage.objects.get", "lake", key=key)
        assert not gcp_allows(boundary, "storage.objects.list", "lake", prefix=key)


def test_a_directory_of_900_bytes_fits_into_a_policy_and_a_condition() -> None:
    assert len(build_session_policy("lake", "x" * 900)) <= 2_048
    assert len(build_boundary_expression("lake", "x" * 900)) <= 2_048
