"""Stores as the command line meets them: retries, read-only stores, and libraries that talk."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from deltacli.cli.app import run
from deltacli.storage import retry
from deltacli.storage.retry import Retry
from tests.cli.support import Result, deltacli, make_sample
from tests.support.s3 import S3Server, says

_BUSY = says("503 SERVICE UNAVAILABLE", "ServiceUnavailable")
_WRITES = [
    ["checkpoint", "TABLE"],
    ["vacuum", "TABLE", "--yes"],
    ["vacuum", "TABLE", "--apply", "plan.parquet", "--yes"],
    ["widen-type", "TABLE", "id", "bigint", "--yes"],
    ["properties", "TABLE", "set", "owner=ops", "--yes"],
    ["properties", "TABLE", "unset", "owner"],
    ["features", "TABLE", "add", "deletionVectors", "--yes"],
    ["log", "crc", "TABLE"],
    ["log", "compact", "TABLE", "--from", "1", "--to", "2"],
    ["log", "expire", "TABLE", "--yes"],
    ["log", "restore", "TABLE", "backup", "--yes"],
    ["log", "backup", "backup", "TABLE"],
]

_FAKE_STORE = """
import fsspec, logging, sys, threading, warnings

class Talking(fsspec.AbstractFileSystem):
    protocol = "talking"

    def __init__(self, **options):
        super().__init__(**options)
        with open(sys.argv[0] + ".made", "a") as file:
            file.write("made")

    def ls(self, path, detail=True, **options):
        log = logging.getLogger("talking.client")
        log.warning("retrying %s with https://me:hunter2@host/", path)
        try:
            raise KeyError("inner")
        except KeyError:
            log.exception("a traceback")
        warnings.warn("talking is deprecated", UserWarning)
        thread = threading.Thread(target=lambda: 1 / 0)
        thread.start()
        thread.join()
        raise FileNotFoundError(path)

    info = cat_file = lambda self, path, **options: self.ls(path)

fsspec.register_implementation("talking", Talking)
from deltacli.__main__ import main
main()
"""


@pytest.fixture
def talking(tmp_path: Path) -> Callable[..., Result]:
    """Run the command line where `talking://` is a file system whose library logs, warns and prints tracebacks."""
    program = tmp_path / "talking.py"
    program.write_text(_FAKE_STORE)

    def run(*arguments: str) -> Result:
        return run_program(program, *arguments)

    return run


def run_program(program: Path, *arguments: str) -> Result:
    import os
    import subprocess
    import sys

    from tests.cli.support import ROOT

    settings = {name: value for name, value in os.environ.items() if not name.startswith("DELTACLI_")}
    command = [sys.executable, str(program), *arguments]
    done = subprocess.run(command, capture_output=True, env={**settings, "PYTHONPATH": str(ROOT)}, check=False)
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_library_logs_and_traces_do_not_reach_stderr(talking: Callable[..., Result]) -> None:
    done = talking("history", "talking://store/t")

    assert (3, "") == (done.code, done.out)
    assert [
        "error: talking://store/t: no such file or directory",
        "  path  talking://store/t",
        "hint: deltacli help table.path-missing",
    ] == done.err.splitlines()


def test_with_vv_library_logs_use_the_log_format_and_contain_no_secrets(talking: Callable[..., Result]) -> None:
    text = talking("history", "talking://store/t", "-vv").err
    lines = [json.loads(line) for line in talking("history", "talking://store/t", "--json", "-vv").err.splitlines()[:4]]

    assert "warning: talking.client: retrying" in text
    assert "ZeroDivisionError" in text
    assert "hunter2" not in text
    assert ["log"] * 4 == [line["type"] for line in lines]
    assert {"talking.client", "UserWarning", "python"} == {line["logger"] for line in lines}


@pytest.mark.parametrize("words", _WRITES, ids=[" ".join(words[:2]) for words in _WRITES])
def test_a_command_that_writes_is_refused_before_a_read_only_store_is_asked(
    words: list[str], talking: Callable[..., Result], tmp_path: Path
) -> None:
    done = talking(*("talking://store/t" if word == "TABLE" else word for word in words), "--json")

    assert (4, "storage.no-atomic-create") == (done.code, done.error["code"])
    assert not (tmp_path / "talking.py.made").exists()


@pytest.mark.parametrize("words", [["vacuum", "TABLE"], ["checkpoint", "TABLE"], ["log", "expire", "TABLE"]])
def test_a_dry_run_still_asks_a_read_only_store(words: list[str], talking: Callable[..., Result]) -> None:
    done = talking(*("talking://store/t" if word == "TABLE" else word for word in words), "--dry-run", "--json")

    assert (3, "table.path-missing") == (done.code, done.error["code"])


def far(s3: S3Server, tmp_path: Path) -> str:
    """The sample table on the server; returns its URI."""
    bucket = s3.make_bucket()
    sample = make_sample(tmp_path / "sample")
    for file in sample.rglob("*"):
        if file.is_file():
            s3.put(bucket, f"t/{file.relative_to(sample).as_posix()}", file.read_bytes())
    return f"s3://{bucket}/t"


@pytest.mark.parametrize("arguments", [["history"], ["snapshot", "--counts"], ["read"], ["validate"]])
def test_commands_succeed_when_some_requests_fail(
    arguments: list[str],
    s3: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    uri, count = far(s3, tmp_path), iter(range(10**9))

    def every_third(server: S3Server, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        return (
            _BUSY(server, environ, start_response) if next(count) % 3 == 0 else server.answer(environ, start_response)
        )

    for method in ("GET", "HEAD"):
        s3.fail(method, "", *[every_third] * 500)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "")
    monkeypatch.setattr(Retry, "_wait_in_slices", lambda *_: None)
    monkeypatch.setattr(retry, "QUIET_SECONDS", 3_600.0)  # however busy the machine is
    code = run([arguments[0], uri, *arguments[1:]])

    s3.forget_faults()
    assert (0, "") == (code, capfd.readouterr().err)


def test_verbose_reports_the_calls_to_the_store(
    s3: S3Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    uri = far(s3, tmp_path)

    codes = [run(["history", uri, *words]) for words in (["-v"], ["-v", "--log-format", "json"], ["-v", "-q"], [])]
    text, line = capfd.readouterr().err.splitlines()

    assert [0] * 4 == codes
    assert text.startswith(f"calls to {s3.url.removeprefix('http://')}: 1 list, ")
    assert {"calls", s3.url.removeprefix("http://")} == {json.loads(line)["type"], json.loads(line)["endpoint"]}
    asked = sum(json.loads(line)["calls"].values())
    assert len(s3.requests) == 4 * asked


def test_the_retry_budget_is_an_option_a_variable_and_a_setting(s3: S3Server, tmp_path: Path) -> None:
    uri, config = far(s3, tmp_path), tmp_path / "deltacli.toml"
    config.write_text('retry_budget = "0s"\n')
    environment = {**s3.environment, "AWS_MAX_ATTEMPTS": ""}
    option: list[tuple[list[str], dict[str, str]]] = [(["--retry-budget", "0s"], {})]
    others = [([], {"DELTACLI_RETRY_BUDGET": "0s"}), (["--config", str(config)], {})]

    found = []
    for words, variables in [*option, *others]:
        s3.fail("GET", "", _BUSY)
        found.append(deltacli("history", uri, *words, cwd=None, **{**environment, **variables}).code)
    s3.forget_faults()
    wrong = deltacli("history", uri, "--retry-budget", "soon", "--json")

    assert [7, 7, 7] == found
    assert (2, "usage.duration") == (wrong.code, wrong.error["code"])
