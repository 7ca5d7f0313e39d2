"""No secret of Google Cloud or Azure leaves a run whose requests fail, and that a store echoes: all output, all files
that stay behind, and the command lines of all processes are searched.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pytest

from tests.cli.support import ROOT, make_sample
from tests.support import azure as azure_stub
from tests.support import gcs as gcs_stub
from tests.support.azure import ACCOUNT, AzureServer
from tests.support.cloud import Asked, CloudServer, Said, breaks, half_a_body
from tests.support.clouds import files_of
from tests.support.gcs import GcsServer, service_account, token_answer

BEARER, SIGNATURE = "marked-bearer-token-0005", "marked%2Bsignature%3D0006"
AZURE_KEY = base64.b64encode(b"marked key of an account 0007").decode()
COMMANDS = (
    ("history", "{table}"),
    ("checkpoint", "{table}", "--force"),
    ("vacuum", "{table}", "--save-plan", "plan.parquet", "--max-delete", "100%"),
    ("vacuum", "{table}", "--yes", "--max-delete", "100%"),
    ("log", "expire", "{table}", "--yes"),
    ("properties", "{table}", "set", "a=b", "--yes"),
    ("validate", "{table}", "--level", "storage", "--write-baseline", "base.json"),
    ("doctor", "access", "{table}", "--yes", "--json"),
    ("doctor", "storage", "{table}", "--yes"),
)
QUICK = COMMANDS[-2:]


class Planted(NamedTuple):
    """A table in a cloud, how to reach it, and what must not be seen. `problem` makes errors in the cloud's words."""

    server: CloudServer
    table: str
    options: tuple[str, ...]
    environment: dict[str, str]
    secrets: tuple[str, ...]
    problem: Callable[..., Said]
    sent: tuple[str, ...] = ()
    """The secrets among them that requests carry."""


def by_service_account(request: pytest.FixtureRequest, home: Path) -> Planted:
    server: GcsServer = request.getfixturevalue("gcs")
    bucket = server.make_bucket()
    for path, data, _ in files_of(make_sample(home / "sample")):
        server.put(bucket, f"t/{path}", data)
    account = service_account(f"{server.url}/token")
    (home / "key.json").write_text(json.dumps(account))
    honest = server.answer
    granted = Said(200, token_answer(BEARER), {"Content-Type": "application/json"})
    request.getfixturevalue("monkeypatch").setattr(
        server, "answer", lambda asked: granted if asked.target == "/token" else honest(asked)
    )
    secrets = (BEARER, account["private_key"].splitlines()[5])
    options = ("--storage-option", f"token=@{home / 'key.json'}")
    return Planted(server, f"gs://{bucket}/t", options, server.environment, secrets, gcs_stub.problem, (BEARER,))


def in_azure(request: pytest.FixtureRequest, home: Path, **secret: str) -> Planted:
    server: AzureServer = request.getfixturevalue("azure")
    container = server.make_container()
    for path, data, _ in files_of(make_sample(home / "sample")):
        server.put(container, f"t/{path}", data)
    honest = server.answer
    request.getfixturevalue("monkeypatch").setattr(
        server, "answer", lambda asked: honest(asked._replace(headers={**asked.headers, "authorization": "any"}))
    )
    environment = {**secret, "AZURE_STORAGE_CONNECTION_STRING": ""}
    options = ("--storage-option", f"endpoint_url={server.url}/{ACCOUNT}")
    table = f"abfss://{container}@{ACCOUNT}.dfs.core.windows.net/t"
    marks = (AZURE_KEY, SIGNATURE)
    return Planted(server, table, options, environment, marks, azure_stub.problem)


def by_key(request: pytest.FixtureRequest, home: Path) -> Planted:
    return in_azure(request, home, AZURE_STORAGE_ACCOUNT_KEY=AZURE_KEY)


def by_signature(request: pytest.FixtureRequest, home: Path) -> Planted:
    planted = in_azure(request, home, AZURE_STORAGE_SAS_TOKEN=f"?sv=2022&sp=rwdl&sig={SIGNATURE}")
    return planted._replace(sent=(SIGNATURE,))


CLOUDS = {"service account": by_service_account, "account key": by_key, "signature": by_signature}


def forms(secret: str) -> set[str]:
    """A secret as it may be written."""
    return {secret, quote(secret, safe=""), json.dumps(secret)[1:-1], secret.replace("%2B", "+").replace("%3D", "=")}


def echo(asked: Asked) -> str:
    """A request as a careless proxy shows it, in the text of an error."""
    headers = " ".join(f"{name}: {text};" for name, text in asked.headers.items())
    return f"{asked.method} {asked.target.replace('&', '&amp;')} {headers}"


BOTOCORE_ERRORS: dict[str, Callable[[Planted], Callable[[CloudServer, Asked], Said]]] = {
    "denied": lambda planted: lambda _, asked: planted.problem(403, "forbidden", echo(asked)),
    "bad": lambda planted: lambda _, asked: planted.problem(400, "invalid", echo(asked)),
    "busy": lambda planted: lambda _, asked: planted.problem(503, "backendError", echo(asked)),
    "page": lambda _: lambda __, asked: Said(200, f"<html>{echo(asked)}".encode(), {"Content-Type": "text/html"}),
    "moved": lambda _: lambda __, asked: Said(307, b"", {"Location": f"http://127.0.0.1:1{asked.target}"}),
    "lost": lambda _: breaks,
    "half": lambda _: half_a_body,
}


def command_lines() -> str:
    """The command lines of all processes, as `ps` shows them."""
    return processes("cmdline")


def processes(name: str) -> str:
    """What /proc has of this name about all processes."""
    found = []
    for place in Path("/proc").glob(f"[0-9]*/{name}"):
        try:
            found.append(place.read_bytes().replace(b"\0", b" ").decode("latin-1"))
        except OSError:
            continue
    return "\n".join(found)


def run_all(
    planted: Planted, home: Path, name: str, commands: tuple[tuple[str, ...], ...], patch: pytest.MonkeyPatch
) -> None:
    """Run commands, of each of which the second request on fails, and search everything that they leave."""
    place = home / "place"
    place.mkdir(exist_ok=True)
    lines: list[str] = []
    failed: list[Asked] = []
    fault = BOTOCORE_ERRORS[name](planted)
    for number, command in enumerate(commands):
        planted.server.forget()
        lines.clear()
        failed.clear()

        def failing(asked: Asked, _method: str = "", number: int = number) -> Said | None:
            lines.append(command_lines() if not lines else "")
            is_login = asked.target == "/token"
            if is_login or len(planted.server.requests) <= 2 + number % 2:
                return None
            failed.append(asked)
            return fault(planted.server, asked)

        patch.setattr(planted.server, "fault_of", failing)
        log = ("-vv",) if number % 2 else ("-v", "--log-format", "json")
        arguments = [word.format(table=planted.table) for word in command]
        done = subprocess.run(
            [sys.executable, "-m", "deltacli", *arguments, *planted.options, "--retry-budget", "0s", *log],
            cwd=place,
            env={**os.environ, **planted.environment, "PYTHONPATH": str(ROOT), "TMPDIR": str(place)},
            capture_output=True,
            check=False,
        )
        written = [path.read_bytes().decode("latin-1") for path in place.rglob("*") if path.is_file()]
        assert planted.table in "".join(lines)
        sent = "".join(map(echo, failed))
        assert any(form in sent for secret in planted.sent for form in forms(secret)) or not planted.sent, command
        assert failed, command
        for secret in set().union(*map(forms, planted.secrets)):
            for text in (done.stdout.decode(), done.stderr.decode(), *lines, *written):
                assert secret not in text, (command, secret)


@pytest.mark.long
@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_store_that_echoes_requests_leaks_no_secret(
    cloud: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = CLOUDS[cloud](request, tmp_path)

    for name in ("denied", "page"):
        run_all(planted, tmp_path, name, QUICK, monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize("name", BOTOCORE_ERRORS)
@pytest.mark.parametrize("cloud", CLOUDS)
def test_no_fault_of_any_command_leaks_a_secret(
    name: str, cloud: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_all(CLOUDS[cloud](request, tmp_path), tmp_path, name, COMMANDS, monkeypatch)


def by_key_in_a_file(request: pytest.FixtureRequest, home: Path) -> Planted:
    planted = in_azure(request, home)
    (home / "key").write_text(AZURE_KEY)
    return planted._replace(options=(*planted.options, "--storage-option", f"account_key=@{home / 'key'}"))


IN_FILES = {"service account": by_service_account, "account key": by_key_in_a_file}


@pytest.mark.parametrize("cloud", IN_FILES)
def test_secrets_of_files_are_in_no_command_line_and_no_environment_while_they_are_used(
    cloud: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = IN_FILES[cloud](request, tmp_path)
    seen: list[str] = []

    def looks(_asked: Asked, _method: str = "") -> None:
        seen.append(processes("cmdline") + processes("environ"))

    monkeypatch.setattr(planted.server, "fault_of", looks)
    done = subprocess.run(
        [sys.executable, "-m", "deltacli", "snapshot", planted.table, *planted.options],
        cwd=tmp_path,
        env={**os.environ, **planted.environment, "PYTHONPATH": str(ROOT), "MARK": "of-this-run"},
        capture_output=True,
        check=False,
    )

    assert 0 == done.returncode, done.stderr
    assert len(seen) > 3
    assert all(planted.table in text and "MARK=of-this-run" in text for text in seen)
    for secret in set().union(*map(forms, planted.secrets)):
        assert not any(secret in text for text in seen)
