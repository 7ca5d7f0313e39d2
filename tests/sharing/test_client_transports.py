"""The Python client of Delta Sharing reads over TLS, and files that the server returns for a store."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from deltacli import open_table
from tests.sharing.configured import serving
from tests.sharing.reading_client import MODES, plain_rows
from tests.support import corpus
from tests.support.certificates import certify
from tests.support.material import CORPUS
from tests.support.s3 import S3Server

pytestmark = pytest.mark.long

READER = Path(__file__).with_name("reading_client.py")
TABLES = {
    "parts": "dat/basic_partitioned",
    "vectors": "dat/deletion_vectors",
    "feed": "kernel-rs/cdf-table-partitioned",
}


@pytest.fixture
def client() -> str:
    """The interpreter that has the client."""
    python = os.environ.get("DELTACLI_SHARING_PYTHON", "")
    if not Path(python).is_file():
        pytest.skip("DELTACLI_SHARING_PYTHON is not set")
    CORPUS.require()
    return python


def _root() -> Path:
    return corpus.unpacked() / "tables"


def _shares(locations: Mapping[str, str], extra: str, options: Mapping[str, str] | None = None) -> str:
    """A configuration that shares tables as `s.d.NAME`."""
    tables = [
        {"name": name, "location": location, "historyShared": True, "storageOptions": dict(options or {})}
        for name, location in locations.items()
    ]
    shares = [{"name": "s", "schemas": [{"name": "d", "tables": tables}]}]
    head = "version: 1\nhost: 127.0.0.1\nauthorization: {bearerToken: secret}\n"
    return f"{head}shares: {json.dumps(shares)}\n{extra}"


def _read(client: str, endpoint: str, place: Path, **environment: str) -> dict[str, Any]:
    """Let the client read every table in every mode, and the changes of one."""
    profile = {"shareCredentialsVersion": 1, "endpoint": endpoint, "bearerToken": "secret"}
    (place / "s.share").write_text(json.dumps(profile))
    jobs: list[dict[str, Any]] = [
        {"id": f"{name}:{mode}", "table": f"s.d.{name}", "mode": mode, "kind": "snapshot", "options": {}}
        for name in TABLES
        for mode in MODES
    ]
    feed = {"table": "s.d.feed", "kind": "changes", "options": {"starting_version": 0}}
    jobs += [{"id": f"changes:{mode}", "mode": mode, **feed} for mode in ("parquet", "delta")]
    (place / "jobs.json").write_text(json.dumps(jobs))
    command = [client, str(READER), str(place / "s.share"), str(place / "jobs.json"), str(place / "answers.json")]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **environment})
    found: dict[str, Any] = json.loads((place / "answers.json").read_text())
    return found


def _require_all_read(answers: Mapping[str, Any]) -> None:
    """Fail unless the client has read what we read, except what parquet format cannot express."""
    for name, table in TABLES.items():
        expected = plain_rows(open_table(str(_root() / table)).snapshot().scan().to_arrow().to_pylist())
        for mode in MODES:
            answer = answers[f"{name}:{mode}"]
            if (name, mode) == ("vectors", "parquet"):
                assert "deletion vectors" in answer["error"].lower()
            else:
                assert expected == answer.get("rows"), (name, mode, answer.get("error"))
    changes = open_table(str(_root() / TABLES["feed"])).changes(from_version=0).to_arrow().num_rows
    for mode in ("parquet", "delta"):
        assert changes == len(answers[f"changes:{mode}"].get("rows", ())), answers[f"changes:{mode}"]


def test_everything_is_read_over_tls(client: str, tmp_path: Path) -> None:
    root = certify(tmp_path)
    locations = {name: str(_root() / table) for name, table in TABLES.items()}
    tls = "ssl: {certificateFile: server.pem, certificateKeyFile: server.key}\n"
    (tmp_path / "shares.yaml").write_text(_shares(locations, tls))

    with serving(tmp_path) as server:
        trust = {"REQUESTS_CA_BUNDLE": str(root), "SSL_CERT_FILE": str(root)}
        answers = _read(client, f"https://127.0.0.1:{server.port}/delta-sharing/", tmp_path, **trust)

    _require_all_read(answers)


@pytest.mark.parametrize(
    "extra, options",
    [("proxyFiles: always\n", {}), ("", {"anon": "true"})],
    ids=["always", "the store cannot sign"],
)
def test_the_server_returns_files_of_a_store(client: str, tmp_path: Path, extra: str, options: dict[str, str]) -> None:
    store = S3Server()
    bucket, locations = store.make_bucket(), {}
    for name, table in TABLES.items():
        locations[name] = f"s3://{bucket}/{name}"
        for file in sorted((_root() / table).rglob("*")):
            if file.is_file():
                key = f"{name}/{file.relative_to(_root() / table)}"
                store.put(bucket, key, file.read_bytes())
                store.publish(bucket, key)
    (tmp_path / "shares.yaml").write_text(_shares(locations, extra, options))

    with serving(tmp_path, **store.environment) as server:
        answers = _read(client, f"http://127.0.0.1:{server.port}/delta-sharing/", tmp_path)
        metrics = server.admin("/metrics")
    store.stop()

    _require_all_read(answers)
    assert 'code="200",recipient="bearerToken",route="file"' in metrics
