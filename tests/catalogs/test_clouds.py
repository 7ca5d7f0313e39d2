"""Managed tables in the clouds: what the catalog vends suffices to read, to commit and to publish, and stores that
refuse everything else are asked with nothing else.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from deltacli.storage import open_storage
from tests.cli.support import Result, deltacli
from tests.support.azure import ACCOUNT
from tests.support.catalog_state import NAME
from tests.support.fake_catalog import FakeCatalog, s3_credentials
from tests.support.managed_tables import ManagedTable

ADDRESS = "uc://main.sales.orders"
TOKEN, SIGNATURE = "token-of-the-catalog", "sv=2026-01-01&sr=d&sig=of-the-catalog"


def _place(kind: str, cloud: Any) -> tuple[str, dict[str, str], str]:
    """Where a table is, what the catalog vends for it, and the endpoint of the store."""
    if kind == "azure":
        address = f"abfss://{cloud.make_container()}@{ACCOUNT}.dfs.core.windows.net/lake/orders"
        return address, {"azure.sas-token": SIGNATURE}, f"{cloud.url}/{ACCOUNT}"
    config = {"gcs.oauth-token": TOKEN} if kind == "gcs" else {}
    return f"{'gs' if kind == 'gcs' else 's3'}://{cloud.make_bucket()}/lake/orders", config, cloud.url


OPTION = "the option"
REACHES: dict[str, tuple[str, ...]] = {
    "s3": (OPTION, "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"),
    "gcs": (OPTION, "STORAGE_EMULATOR_HOST"),
    "azure": (OPTION, "AZURE_STORAGE_CONNECTION_STRING"),
}
OWN_KEY = "b3duLWtleQ=="
NOWHERE = "http://127.0.0.1:9"
ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "STORAGE_EMULATOR_HOST", "AZURE_STORAGE_CONNECTION_STRING")


def _variables(name: str, endpoint: str) -> dict[str, str]:
    """The environment in which one variable says where the store is, beside credentials that nobody may use."""
    text = f"AccountName={ACCOUNT};AccountKey={OWN_KEY};BlobEndpoint={endpoint}" if name.startswith("AZ") else endpoint
    own = {"AWS_ACCESS_KEY_ID": "AKIAOWN", "AWS_SECRET_ACCESS_KEY": "own-secret", "AZURE_STORAGE_ACCOUNT_KEY": OWN_KEY}
    # The variable of one service has priority over that of all services of AWS.
    general = {"AWS_ENDPOINT_URL": NOWHERE} if name == "AWS_ENDPOINT_URL_S3" else {}
    return {**own, **general, name: text}


@pytest.mark.parametrize(("kind", "reach"), [(kind, reach) for kind, names in REACHES.items() for reach in names])
def test_vended_credentials_suffice_to_read_commit_and_publish(
    kind: str, reach: str, server: FakeCatalog, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud = request.getfixturevalue(kind)
    location, config, endpoint = _place(kind, cloud)
    table = ManagedTable(range(3), range(3, 5), store=open_storage(location, {"endpoint_url": endpoint}))
    table.server.location = location
    server.state.tables[NAME] = table.server
    stored = table.store
    server.credentials = lambda of, operation: [
        {**one, "config": config or one["config"]} for one in s3_credentials(of, operation)
    ]
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", *ENDPOINTS):
        monkeypatch.delenv(name, raising=False)
    given: tuple[str, ...] = ()
    variables = _variables("AWS_ENDPOINT_URL", NOWHERE)
    if reach == OPTION:
        given = ("--storage-option", f"endpoint_url={endpoint}")
    else:
        variables = _variables(reach, endpoint)
    guard = {"gcs": ("token", TOKEN), "azure": ("signature", SIGNATURE)}.get(kind)
    if guard:
        setattr(cloud, *guard)

    def run(*words: str) -> Result:
        options = (*given, "--retry-budget", "0s", "--json")
        found = deltacli(*words, *options, cwd=None, **server.environment, **variables)
        assert found.code == 0, found.err
        assert not any(secret in found.out + found.err for secret in (TOKEN, "of-the-catalog"))
        return found

    assert run("snapshot", ADDRESS).document["version"] == 4
    run("properties", ADDRESS, "set", "owner=ops", "--yes")
    assert [one["version"] for one in run("history", ADDRESS).document["items"]] == [5, 4, 3, 2, 1, 0]

    if guard:
        setattr(cloud, guard[0], "")
    now = server.state.tables[NAME]
    assert (now.latest, now.properties["owner"], now.unpublished) == (5, "ops", [])
    published = [one.name for one in stored.list_from("_delta_log") if one.name.endswith(".json")]
    assert published == [f"{version:020d}.json" for version in range(6)]
    assert any("owner" in json.dumps(line) for line in table.lines(5))
