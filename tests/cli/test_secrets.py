"""No secret leaves a run: every store fails in every way, and all that comes out or stays behind is searched."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote

import pytest

from deltacli.cli.app import run
from tests.support.marked import KEY_ID, MARKED, PASSWORD, SECRET, TOKEN

CAPTURE = pytest.CaptureFixture[bytes]

COMMANDS: dict[str, tuple[str, ...]] = {
    "history": ("history", "{table}"),
    "snapshot": ("snapshot", "{table}", "--format", "json"),
    "read": ("read", "{table}", "--format", "ndjson"),
    "changes": ("changes", "{table}", "--from", "0"),
    "checkpoint": ("checkpoint", "{table}"),
    "validate": ("validate", "{table}", "--trend", "history.ndjson"),
    "validate as SARIF": ("validate", "local", "{table}", "--format", "sarif", "--output", "report.sarif"),
    "validate as JUnit": ("validate", "local", "{table}", "--format", "junit"),
    "validate for GitHub": (
        "validate",
        "{table}",
        "{table}/other",
        "--format",
        "github",
        "--write-baseline",
        "base.json",
    ),
    "vacuum": ("vacuum", "{table}", "--save-plan", "plan.parquet"),
    "vacuum of a local table": ("vacuum", "local", "--protect-from", "{table}", "--save-plan", "plan.parquet"),
    "inventory": ("vacuum", "local", "--inventory", "{table}/manifest.json", "--dry-run"),
    "backup": ("log", "backup", "local", "{table}/safe"),
    "restore": ("log", "restore", "local", "{table}/safe", "--yes"),
    "properties": ("properties", "{table}", "set", "delta.appendOnly=true", "--yes"),
}


def echo(handler: BaseHTTPRequestHandler) -> bytes:
    """What a careless proxy answers: the request, with all its headers."""
    headers = "".join(f"<{name}>{value}</{name}>" for name, value in handler.headers.items())
    return f"<Error><Code>{{code}}</Code><Message>{handler.path} {headers}</Message></Error>".encode()


ANSWERS: dict[str, tuple[int, str]] = {
    "denied": (403, "AccessDenied"),
    "wrong key": (403, "InvalidAccessKeyId"),
    "expired": (400, "ExpiredToken"),
    "bad request": (400, "InvalidRequest"),
    "elsewhere": (301, "PermanentRedirect"),
    "no bucket": (404, "NoSuchBucket"),
    "not implemented": (501, "NotImplemented"),
}


@pytest.fixture
def echoing() -> Iterator[tuple[str, dict[str, Any]]]:
    """A server that answers every request with one status and whatever it was sent."""
    answer: dict[str, Any] = {"status": 403, "code": "AccessDenied", "said": b""}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = echo(self).replace(b"{code}", answer["code"].encode())
            answer["said"] += body
            self.send_response(answer["status"])
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815  (names of the library)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}", answer
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def place(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a table, in which everything a run writes stays; marked credentials in the environment."""
    shutil.copytree(sample, tmp_path / "local")
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "AWS_ACCESS_KEY_ID": KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_SESSION_TOKEN": TOKEN,
        "AWS_REGION": "us-east-1",
        "AWS_MAX_ATTEMPTS": "1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def forms(secret: str) -> set[str]:
    """A secret as it may be written."""
    encoded = base64.b64encode(f"me:{secret}".encode()).decode()
    return {secret, quote(secret), quote(secret, safe=""), json.dumps(secret)[1:-1], encoded}


def require_clean(place: Path, text: str) -> None:
    """Raise where an output, or a file that a run left, holds a secret."""
    written = [path for path in place.rglob("*") if path.is_file()]
    for name, found in [("output", text), *((str(path), path.read_bytes().decode("latin-1")) for path in written)]:
        for form in set().union(*map(forms, MARKED)):
            assert form not in found, (name, form)


def run_all(place: Path, table: str, capture: CAPTURE, store: dict[str, Any] | None = None) -> None:
    """Run every command. Where a `store` echoes requests, each one gets to hear the secrets that are sent to it."""
    for number, arguments in enumerate(COMMANDS.values()):
        if store is not None:
            store["said"] = b""
        verbosity = (("-vv",), ("-v", "--log-format", "json"))[number % 2]
        run([*(argument.format(table=table) for argument in arguments), *verbosity])
        out, err = capture.readouterr()
        assert out or err
        require_clean(place, f"{out.decode()}{err.decode()}")
        if store is not None:
            assert {True} == {secret.encode() in store["said"] for secret in (KEY_ID, TOKEN)}, arguments


@pytest.mark.parametrize(
    "answer", [pytest.param(name, marks=[pytest.mark.long] if number else []) for number, name in enumerate(ANSWERS)]
)
def test_a_store_that_echoes_the_request_leaks_no_secret(
    answer: str,
    echoing: tuple[str, dict[str, Any]],
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: CAPTURE,
) -> None:
    address, settings = echoing
    settings["status"], settings["code"] = ANSWERS[answer]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://me:{PASSWORD}@{address}")

    run_all(place, "s3://bucket/t", capsysbinary, settings)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\nx", " x", "\x7f"])
@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"])
def test_credentials_with_invalid_header_characters_are_not_printed(
    name: str,
    end: str,
    echoing: tuple[str, dict[str, Any]],
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: CAPTURE,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{echoing[0]}")
    monkeypatch.setenv(name, os.environ[name] + end)

    for command in ("history", "checkpoint"):
        code = run([command, "s3://bucket/t", "-vv"])
        out, err = capsysbinary.readouterr()

        require_clean(place, f"{out.decode()}{err.decode()}")
        assert (
            (7, True) == (code, "access is denied" in err.decode())
            if not end.strip()
            else (2, True) == (code, name in err.decode())
        )


@pytest.mark.parametrize(
    "table",
    [
        f"s3://me:{PASSWORD}@bucket/t",
        f"ftp://me:{PASSWORD}@127.0.0.1:1/t",
        f"http://me:{PASSWORD}@127.0.0.1:1/t",
        f"nothing://me:{PASSWORD}@127.0.0.1:1/t",
        f"memory://me:{PASSWORD}@h/t",
        f"webhdfs://me:{PASSWORD}@127.0.0.1:1/t",
        f"file://me:{PASSWORD}@host/t",
    ],
)
def test_a_password_in_the_name_of_a_table_is_not_printed(table: str, place: Path, capsysbinary: CAPTURE) -> None:
    run_all(place, table, capsysbinary)


@pytest.mark.parametrize(
    "option",
    [
        f"secret={SECRET}",
        f"AWS_SESSION_TOKEN={TOKEN}",
        f"endpoint_url=http://me:{PASSWORD}@h",
        f'client_kwargs={{"aws_secret_access_key":"{SECRET}"}}',
        f'client_kwargs={{"a": {{"aws_session_token" : "{TOKEN}"}}}}',
        f"client_kwargs={{'aws_secret_access_key': '{SECRET}'",
        f'config_kwargs={{"proxies":{{"http":"http://me:{PASSWORD}@h"}}}}',
        f"connection_string=AccountName=a;AccountKey={SECRET}",
        f"url=DefaultEndpointsProtocol=https;AccountKey={SECRET}",
        f"endpoint=https://h/?sig={quote(SECRET)}",
    ],
)
def test_secrets_on_the_command_line_are_refused(option: str, place: Path, capsysbinary: CAPTURE) -> None:
    code = run(["history", "s3://bucket/t", "--storage-option", option, "-vv"])

    err = capsysbinary.readouterr().err.decode()
    assert (2, True) == (code, "process list" in err)
    require_clean(place, err)
