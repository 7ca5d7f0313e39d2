"""`doctor` on the command line: consent, exit codes, documents, and a cloud whose secrets stay unseen."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from deltacli.cli.app import run
from tests.cli.pty_session import Session
from tests.cli.support import Result
from tests.cli.test_documents import validate
from tests.support.azure import ACCOUNT, KEY, AzureServer
from tests.support.gcs import GcsServer

CAPTURE = pytest.CaptureFixture[bytes]


def doctor(capture: CAPTURE, *arguments: str) -> Result:
    """Run the command in this process."""
    code = run(["doctor", *arguments])
    out, err = capture.readouterr()
    return Result(code, out.decode(), err.decode())


def test_scratch_files_are_written_with_consent_only(
    sample: Path, capfdbinary: CAPTURE, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(path.name for path in sample.iterdir())
    written: list[str] = []
    monkeypatch.setattr("deltacli.storage.local.LocalStorage.put_if_absent", lambda _, path, *__: written.append(path))

    planned = doctor(capfdbinary, "storage", str(sample), "--dry-run", "--yes", "--json")
    refused = doctor(capfdbinary, "storage", str(sample))

    assert (0, 4) == (planned.code, refused.code)
    assert {"planned"} == {probe["outcome"] for probe in planned.document["probes"]}
    assert "hint: deltacli doctor storage" in refused.err
    assert ([], before) == (written, sorted(path.name for path in sample.iterdir()))
    validate(planned.document, "deltacli.doctor-storage")


def test_documents_and_lines_match_their_schemas(sample: Path, capfdbinary: CAPTURE) -> None:
    table = os.path.relpath(sample)
    probed = doctor(capfdbinary, "storage", table, "--yes", "--json")
    checked = doctor(capfdbinary, "access", table, "--json")
    lines = [
        json.loads(line)
        for command in (("storage", table, "--yes"), ("access", table))
        for line in doctor(capfdbinary, *command, "--format", "ndjson").out.splitlines()
    ]

    assert (0, 0) == (probed.code, checked.code)
    validate(probed.document, "deltacli.doctor-storage")
    validate(checked.document, "deltacli.doctor-access")
    kinds = ("doctor-probe", "doctor-storage", "doctor-command", "doctor-access", "end")
    assert set(kinds) == {line["type"] for line in lines}
    for line in lines:
        validate(line, line["type"])


def test_findings_end_with_1_and_show_no_secret(azure: AzureServer, capfdbinary: CAPTURE) -> None:
    container = azure.make_container()
    azure.put(container, "t/_delta_log/00000000000000000000.json", b"{}\n")
    table = f"abfss://{container}@{ACCOUNT}.dfs.core.windows.net/t"
    was = azure.ignores_conditions
    azure.ignores_conditions = True

    try:
        found = doctor(capfdbinary, "storage", table, "--yes", "-vv")
    finally:
        azure.ignores_conditions = was
    shown = doctor(capfdbinary, "access", table, "-vv")

    assert (1, 0) == (found.code, shown.code)
    assert "storage.no-atomic-create: the store ignores the condition of a creation" in found.out
    assert "key of the account (AZURE_STORAGE_CONNECTION_STRING)" in shown.out
    assert KEY not in found.out + found.err + shown.out + shown.err


def test_what_cannot_be_diagnosed_is_an_error(gcs: GcsServer, capfdbinary: CAPTURE, tmp_path: Path) -> None:
    bucket = gcs.make_bucket()
    asked = {
        f"gs://{bucket}/none": 3,
        "gs://no-such-bucket/t": 7,
        str(tmp_path / "none"): 3,
        "memory://nothing": 4,
        "profile.share#a.b.c": 2,
    }

    codes = {table: doctor(capfdbinary, "storage", table, "--yes").code for table in asked}

    assert asked == codes


def test_what_the_probes_found_is_shown_after_a_yes(sample: Path) -> None:
    with Session("doctor", "storage", sample, "--no-pager", environment={"DELTACLI_PROGRESS": "never"}) as session:
        session.read_until("[y/N]")
        session.type("y\n")
        code, seen = session.finish()

    said = seen.partition("[y/N]")[2]
    assert 0 == code
    assert "create-existing" in said
