"""`--version --json`: what is installed, and from which commit."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from deltacli import __version__
from deltacli.cli.version import find_checked_out_commit
from tests.cli.support import ROOT, deltacli


@pytest.mark.parametrize("line", ["--version --json", "--json --version", "-V --format json", "--format=json -q -V"])
def test_version_as_a_document_names_extras_and_stores(line: str) -> None:
    schema = json.loads((ROOT / "docs" / "schemas" / "deltacli.version.json").read_text(encoding="utf-8"))

    done = deltacli(*line.split())

    assert (0, "") == (done.code, done.err)
    assert [] == list(Draft202012Validator(schema).iter_errors(done.document))
    assert __version__ == done.document["version"]
    assert {"s3": True, "spark": False}.items() <= done.document["extras"].items()
    assert {"file": "local", "s3a": "s3", "gs": "gcs", "az": "azure", "memory": "fsspec"}.items() <= done.document[
        "stores"
    ].items()
    assert "sftp" not in done.document["stores"]


def test_the_commit_is_read_from_clones_worktrees_and_packed_references(tmp_path: Path) -> None:
    def git(*words: str, place: str = "clone") -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        command = ["git", "-C", str(tmp_path / place), *identity, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    (tmp_path / "clone").mkdir()
    git("init", "-q", "-b", "main")
    unborn = find_checked_out_commit(tmp_path / "clone" / ".git")
    git("commit", "-q", "--allow-empty", "-m", "first")
    loose = find_checked_out_commit(tmp_path / "clone" / ".git")
    git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    git("commit", "-q", "--allow-empty", "-m", "second", place="side")
    beside = find_checked_out_commit(tmp_path / "side" / ".git")
    git("pack-refs", "--all")
    packed = [find_checked_out_commit(tmp_path / place / ".git") for place in ("clone", "side")]
    git("checkout", "-q", "--detach", place="side")

    first, second = git("rev-parse", "main"), git("rev-parse", "side")
    assert [None, first, second, first, second, second] == [
        unborn, loose, beside, *packed, find_checked_out_commit(tmp_path / "side" / ".git")
    ]  # fmt: skip
    assert find_checked_out_commit(tmp_path / ".git") is None


@pytest.mark.parametrize("head", [b"", b"garbage", b"ref: refs/heads/none", b"\xff\xfe", b"ref: \0"])
def test_a_head_that_names_no_commit_is_none(head: bytes, tmp_path: Path) -> None:
    (tmp_path / "HEAD").write_bytes(head)

    assert find_checked_out_commit(tmp_path) is None
