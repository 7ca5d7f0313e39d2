"""What servers say about directories: cases of the reference as data."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deltacli.sharing.protocol.directories import (
    LONGEST_COMMENT,
    read_access,
    read_credential,
    read_share_metadata,
)

NOW = 1_790_000_000_000
LATER = NOW + 3_600_000
ROOT = "s3://acme-lake/grid/meters"
AWS = {"accessKeyId": "ASIA1", "secretAccessKey": "very-secret", "sessionToken": "session"}
SAS = "sv=2021&sr=d&sdd=2&sp=rl&spr=https&se=2026-09-01&skoid=1&ske=2026-09-02&sig=abc"
BLOB = "abfss://c-1@acme.dfs.core.windows.net/grid/meters"

MODES: list[tuple[Any, Any, list[str]]] = [  # accessModes, modes, rules
    (None, None, []),
    (["url", "dir"], {"url", "dir"}, []),
    (["DIR"], {"dir"}, ["access-mode-unknown"]),
    (["dir", "warp"], {"dir"}, ["access-mode-unknown"]),
    (["warp"], set(), ["access-mode-unknown"]),
    ([], set(), ["access-modes-form"]),
    (["url", "url"], {"url"}, ["access-modes-form"]),
    ("dir", None, ["access-modes-form!"]),
    ({}, None, ["access-modes-form!"]),
    (["dir", {}], None, ["access-modes-form!"]),
    (5, None, ["access-modes-form!"]),
]


def rules(faults: Any) -> list[str]:
    return [f"{fault.rule}{'!' if fault.is_fatal else ''}" for fault in faults]


@pytest.mark.parametrize(("given", "modes", "expected"), MODES)
def test_access_modes(given: Any, modes: Any, expected: list[str]) -> None:
    found, faults = read_access({"accessModes": given, "location": ROOT})

    assert (modes, expected) == (None if found.modes is None else set(found.modes), rules(faults))


LOCATIONS: list[tuple[dict[str, Any], list[str]]] = [
    ({"location": ROOT, "auxiliaryLocations": ["s3://acme-lake/old"]}, []),
    ({"accessModes": ["dir"]}, ["access-location-missing"]),
    ({"location": "file:///etc"}, ["access-location-form!"]),
    ({"location": "http://169.254.169.254/"}, ["access-location-form!"]),
    ({"location": ["s3://b/t"]}, ["access-location-form!"]),
    ({"location": ""}, ["access-location-form!"]),
    ({"auxiliaryLocations": "s3://acme-lake/old"}, ["auxiliary-form!"]),
    ({"auxiliaryLocations": ["file:///etc", 5]}, ["auxiliary-form!", "auxiliary-form!"]),
    ({"location": ROOT, "auxiliaryLocations": ["s3://acme-lake/grid"]}, ["auxiliary-form"]),
]


@pytest.mark.parametrize(("item", "expected"), LOCATIONS)
def test_locations(item: dict[str, Any], expected: list[str]) -> None:
    assert expected == rules(read_access(item)[1])


def answer(location: Any = ROOT, expires: Any = LATER, **members: Any) -> bytes:
    given = {"location": location, "expirationTime": expires, **(members or {"awsTempCredentials": AWS})}
    return json.dumps({"credentials": {name: value for name, value in given.items() if value != "absent"}}).encode()


CREDENTIALS: list[tuple[bytes, list[str]]] = [
    (answer(), []),
    (answer(expires=str(LATER)), []),
    (answer(extra={"region": "x"}, awsTempCredentials={**AWS, "region": "x"}), []),
    (answer("s3a://acme-lake/grid/meters/"), []),
    (answer("s3://acme-lake/grid"), ["credential-broad"]),
    (answer("s3://acme-lake/grid/meters1"), ["credential-location!"]),
    (answer("s3://acme-lake/grid/meters/_delta_log"), ["credential-location!"]),
    (answer("s3://other/grid/meters"), ["credential-location!"]),
    (answer("file:///grid/meters"), ["credential-location!"]),
    (answer("absent"), ["credential-location!"]),
    (answer(expires=0), ["credential-expiry!"]),
    (answer(expires=NOW), ["credential-expiry!"]),
    (answer(expires=NOW // 1000 + 3600), ["credential-expiry!"]),
    (answer(expires=LATER * 1000), ["credential-expiry!"]),
    (answer(expires=1e18), ["credential-expiry!"]),
    (answer(expires=float(LATER)), ["credential-expiry!"]),
    (answer(expires="abc"), ["credential-expiry!"]),
    (answer(expires=True), ["credential-expiry!"]),
    (answer(expires="absent"), ["credential-expiry!"]),
    (answer(expires=NOW + 60_000), ["credential-short"]),
    (answer(expires=NOW + 37 * 3_600_000), ["credential-expiry"]),
    (answer(awsTempCredentials=None), ["credential-one-cloud!"]),
    (answer(awsTempCredentials=AWS, gcpOauthToken={"oauthToken": "t"}), ["credential-one-cloud!"]),
    (answer(awsTempCredentials=AWS, gcpOauthToken=None), []),
    (answer(awsTempCredentials={**AWS, "sessionToken": ""}), ["credential-one-cloud!"]),
    (answer(awsTempCredentials={"accessKeyId": "A", "secretAccessKey": "s"}), ["credential-one-cloud!"]),
    (answer(awsTempCredentials={**AWS, "sessionToken": "a\r\nHost: evil"}), ["credential-one-cloud!"]),
    (answer(awsTempCredentials="x"), ["credential-one-cloud!"] * 3),
    (answer(awsTempCredentials={**AWS, "accessKeyId": "AKIA1"}), ["credential-long-lived"]),
    (answer(r2Credentials={"accessKeyId": "A", "secretAccessKey": "s"}), ["credential-long-lived"]),
    (answer(gcpOauthToken={"oauthToken": "t"}), ["credential-cloud-fits!"]),
    (b"", ["credential-answer!"]),
    (b"[]", ["credential-answer!"]),
    (b'{"credentials":5}', ["credential-answer!"]),
    (answer() + answer(), ["credential-answer!"]),
    (answer()[:-1] + b',"credentials":{}}', ["credential-answer!"]),
    (b"[" * 100_000, ["credential-answer!"]),
    (b" " * (2 << 20), ["credential-answer!"]),
]


@pytest.mark.parametrize(("body", "expected"), CREDENTIALS)
def test_credentials(body: bytes, expected: list[str]) -> None:
    found, faults = read_credential(body, ROOT, NOW)

    assert expected == rules(faults)
    assert (found is None) == any(rule.endswith("!") for rule in expected)
    assert "very-secret" not in repr((found, faults))


SIGNATURES: list[tuple[str, list[str]]] = [
    (f"?{SAS}", []),
    (SAS.replace("&", "&amp;"), ["credential-sas!"]),
    (SAS.replace("sp=rl", "sp=rwl"), ["credential-sas"]),
    (SAS.replace("sr=d&sdd=2", "sr=c"), ["credential-sas"]),
    (SAS.replace("sdd=2", "sdd=1"), ["credential-sas"]),
    (SAS.replace("&spr=https", ""), ["credential-sas"]),
    (SAS.replace("se=2026-09-01", "se=2026-10-01"), ["credential-sas"]),
    (SAS.replace("skoid=1&", ""), ["credential-long-lived"]),
]


@pytest.mark.parametrize(("signature", "expected"), SIGNATURES)
def test_signatures_of_azure(signature: str, expected: list[str]) -> None:
    found, faults = read_credential(answer(BLOB, azureUserDelegationSas={"sasToken": signature}), BLOB, NOW)

    assert expected == rules(faults)
    if not expected:
        assert found is not None
        assert SAS == found.grant.options["sas_token"]


SHARES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, []),
    ({"displayName": "x" * 255, "comment": "c" * LONGEST_COMMENT, "properties": {"k" * 255: "v" * 1000}}, []),
    ({"displayName": "x" * 256}, ["share-metadata-limits"]),
    ({"comment": "c" * (1 << 20)}, ["share-metadata-limits"]),
    ({"properties": {str(number): "v" for number in range(10_000)}}, ["share-metadata-limits"]),
    ({"properties": {"k": "v" * 1001}}, ["share-metadata-limits"]),
    ({"displayName": 5, "comment": [], "properties": {"k": 5}}, ["share-metadata-form"] * 3),
    ({"properties": []}, ["share-metadata-form"]),
]


@pytest.mark.parametrize(("item", "expected"), SHARES)
def test_metadata_of_shares(item: dict[str, Any], expected: list[str]) -> None:
    found, faults = read_share_metadata(item)

    assert expected == rules(faults)
    assert len(found.display_name or "") <= 255
    assert len(found.comment or "") <= LONGEST_COMMENT
    assert len(found.properties) <= 50
    assert all(len(value) <= 1000 for value in found.properties.values())
