"""Each extra alone in a fresh environment, because that of developers has packages that no extra brings."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.cli.support import ROOT, Result, make_sample
from tests.support.fresh import Installed, install
from tests.support.gcs import GcsServer

REACHED: Mapping[str, tuple[str, ...]] = {
    "s3": ("storage.s3.", "storage.signing.s3", "storage.probing.s3", "storage.probing.opening"),
    "gcs": ("storage.gcs.", "storage.signing.gcs", "storage.objects."),
    "azure": ("storage.azure.", "storage.signing.azure", "storage.objects."),
    "share": ("sharing.server.", "sharing.configuration.", "cli.commands.share.serve"),
    "share-client": ("sharing.client.", "sharing.conformance.", "sharing.pulling.", "cli.commands.share.test"),
    "catalog": ("catalogs.unity.",),
    "paimon": ("paimon.", "operations.paimon."),
    "constraints": ("work.rows.",),
}
"""The modules that need an extra, by prefixes of their names."""
ON_CLUSTERS = ("spark", "spark-local")
"""Extras that tests/cluster installs."""
_SPARK = ("spark.", "engine.spark.")
_NO_TOKEN = {"shareCredentialsVersion": 1, "endpoint": "http://127.0.0.1:1/x"}
_SHARES = """
version: 1
shares: [{name: s, schemas: [{name: a, tables: [{name: t, location: "s3://nosuch/x"}]}]}]
"""
_MISSING: Mapping[str, tuple[Sequence[str], int, str]] = {
    "": (("share", "test", "nowhere.share"), 2, "pip install 'deltacli[share-client]'"),
    "s3": (("history", "s3://nosuch/x"), 7, "no usable AWS credentials"),
    "gcs": (("history", "gs://nosuch/x"), 7, "no usable credentials of Google Cloud"),
    "azure": (("history", "abfss://container@account.dfs.core.windows.net/x"), 7, "no usable credentials of Azure"),
    "share": (("share", "check", "--config", "shares.yaml"), 1, "usage.missing-extra"),
    "share-client": (("share", "ls", "token-less.share"), 2, "bearerToken"),
    "catalog": (("history", "uc://main.sales.orders"), 2, "no catalog is configured"),
    "paimon": (("history", "s3://nosuch/x"), 2, "pip install 'deltacli[s3]'"),
    "constraints": (("history", "s3://nosuch/x"), 2, "pip install 'deltacli[s3]'"),
}
"""A command of each extra whose credential is missing: arguments, exit code, and what the error names."""
_NOWHERE = {"AWS_EC2_METADATA_DISABLED": "true", "GCE_METADATA_HOST": "127.0.0.1:1", "GCE_METADATA_IP": "127.0.0.1:1"}


def test_every_extra_is_tried() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert set(project["optional-dependencies"]) == {*REACHED, *ON_CLUSTERS}
    assert set(_MISSING) == {"", *REACHED}


@pytest.mark.long
@pytest.mark.parametrize("extra", ["", *REACHED])
def test_an_extra_alone_imports_runs_and_names_a_missing_credential(extra: str, wheel: Path, tmp_path: Path) -> None:
    installed = install(wheel, extra, tmp_path / "env")
    user = tmp_path / "env" / "home"
    sample = make_sample(user / "trips")
    (user / "nowhere.share").write_text(json.dumps(_NO_TOKEN | {"bearerToken": "t"}))
    (user / "token-less.share").write_text(json.dumps(_NO_TOKEN))
    (user / "shares.yaml").write_text(_SHARES)

    imported = installed.import_all(*_modules_of(extra))
    ran = installed.deltacli("history", sample, "--json")
    arguments, code, text = _MISSING[extra]
    refused = installed.deltacli(*arguments, **_NOWHERE)

    assert (0, "") == (imported.code, imported.err)
    assert int(imported.out) > 10
    assert (0, 15) == (ran.code, len(ran.document["items"]))
    assert code == refused.code, refused.err
    assert text in refused.out + refused.err
    assert "Traceback" not in refused.err


@pytest.mark.long
def test_the_extra_gcs_alone_takes_the_account_of_the_machine(wheel: Path, tmp_path: Path) -> None:
    installed = install(wheel, "gcs", tmp_path / "env")
    server = GcsServer()
    server.token = "of-the-machine"
    bucket = server.make_bucket()
    server.put(bucket, "t/_delta_log/00000000000000000000.json", b'{"commitInfo":{"operation":"WRITE"}}\n')
    try:
        listed = _history(installed, f"gs://{bucket}/t", server)
    finally:
        server.stop()

    assert (0, "WRITE") == (listed.code, listed.document["items"][0]["operation"])


def _history(installed: Installed, table: str, server: GcsServer) -> Result:
    host = server.url.removeprefix("http://")
    address = ("--storage-option", f"endpoint_url={server.url}")
    return installed.deltacli("history", table, "--json", *address, GCE_METADATA_HOST=host, GCE_METADATA_IP=host)


def _modules_of(extra: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return prefixes of the modules that an extra reaches, and of those to leave out."""
    if extra:
        return REACHED[extra], ()
    return ("",), (*_SPARK, *(prefix for prefixes in REACHED.values() for prefix in prefixes))
