"""No message repeats a secret of the command line, whatever is wrong with that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from deltacli.cli.app import run
from deltacli.cli.terminal.suggested_commands import repeat_command
from deltacli.cli.terminal.typed_secrets import mask_typed_secrets, register_typed_secrets
from deltacli.storage import secrets
from tests.support.effort import InTurn

CAPTURE = pytest.CaptureFixture[str]
SECRET = "hunter2"
"""Too short to be masked wherever it occurs."""
LONG = "marked+secret/Key==0002"

HOLDERS: dict[str, tuple[str, ...]] = {
    "a pair": ("--storage-option", "aws_secret_access_key={}"),
    "a pair in one word": ("--storage-option=aws_secret_access_key={}",),
    "a password": ("--storage-option", "password={}"),
    "a key in Spark's spelling": ("--storage-option", "fs.azure.account.key.me={}"),
    "JSON": ("--storage-option", 'client_kwargs={{"aws_secret_access_key": "{}"}}'),
    "without its key": ("--storage-option", "{}"),
    "without its key in one word": ("--storage-option={}",),
    "a misspelt option": ("--storage-optoin", "aws_secret_access_key={}"),
    "an option of other programs": ("-o", "aws_secret_access_key={}"),
    "without its option": ("aws_secret_access_key={}",),
    "a setting of Spark": ("--spark-conf", "spark.hadoop.fs.s3a.secret.key={}"),
    "a setting of Spark in one word": ("--spark-conf=spark.hadoop.fs.s3a.secret.key={}",),
    "a misspelt setting of Spark": ("--spark-config", "spark.hadoop.fs.s3a.secret.key={}"),
    "a server of Spark": ("--remote", "sc://host:15002/;token={}"),
    "a misspelt server": ("--remot", "sc://host:15002/;token={};x=y"),
    "an invented option": ("--aws-secret-access-key", "{}"),
    "an invented option in one word": ("--password={}",),
    "a URL": ("s3://AKIAKEY:{}@bucket/t",),
    "a signed URL": ("https://host/t?sig={}&x=1",),
}
ERRORS: dict[str, tuple[str, ...]] = {
    "an unknown option": ("vacuum", "t", "--yess", "*"),
    "an unknown command": ("snapsot", "t", "*"),
    "an unknown command of a group": ("log", "compactt", "t", "*"),
    "no command of a group": ("doctor", "t", "*"),
    "a command of others": ("describe", "t", "*"),
    "a table first": ("./t", "history", "*"),
    "two tables": ("vacuum", "s3://b/t", "s3://c/t", "*"),
    "a word too many": ("history", "t", "7", "*"),
    "no table": ("history", "*"),
    "a missing argument": ("diff", "t", "*"),
    "an action first": ("features", "add", "t", "*"),
    "a misspelt choice": ("optimize", "t", "--engine", "spak", "*"),
    "a misspelt format": ("history", "t", "--format", "jsn", "*"),
    "no number": ("snapshot", "t", "--version", "latest", "*"),
    "no value": ("snapshot", "t", "*", "--version"),
    "an option as a value": ("snapshot", "t", "--version", "*"),
    "a repeated flag": ("history", "t", "--json", "--format", "csv", "*"),
    "a time that is none": ("history", "t", "--from", "tomorow", "*"),
    "an empty word": ("history", "t", "", "*"),
    "an action that is none": ("alter", "t", "ad", "*"),
    "a change without its value": ("properties", "t", "set", "*"),
    "help on a word": ("help", "*"),
    "a policy that is none": ("fleet", "plan", "nope.toml", "*"),
    "no consent": ("vacuum", "t", "*"),
}


@pytest.fixture(autouse=True)
def place(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "t").symlink_to(sample)
    monkeypatch.chdir(tmp_path)
    known = {*secrets._remembered}
    yield
    register_typed_secrets([])
    secrets._remembered.clear()
    secrets._remembered.update(known)


WAYS = tuple(product((SECRET, LONG), ([], ["--json"], ["-vv"])))
"""What is held, and how the message is written."""


@pytest.mark.parametrize("holder", HOLDERS)
def test_no_usage_error_repeats_a_secret(holder: str, capsys: CAPTURE, in_turn: InTurn) -> None:
    """Every holder meets every error, and each of them every way."""
    shown, turned = [], [*HOLDERS].index(holder)
    for number, (name, words) in enumerate(ERRORS.items(), turned):
        at, first = words.index("*"), number % len(WAYS)
        for secret, more in in_turn([*WAYS[first:], *WAYS[:first]], len(WAYS)):
            held = [word.format(secret) for word in HOLDERS[holder]]
            run([*words[:at], *held, *words[at + 1 :], *more])
            shown.append((name, secret, capsys.readouterr().err))

    assert [] == [(name, text) for name, secret, text in shown if secret in text]


def test_a_hint_names_a_file_for_the_secret_and_is_no_command_to_run(capsys: CAPTURE) -> None:
    assert 2 == run(["vacuum", "t", "--yess", "--storage-option", f"aws_secret_access_key={SECRET}", "--json"])

    document = json.loads(capsys.readouterr().err)

    assert "deltacli vacuum t --storage-option aws_secret_access_key=@FILE" in document["hint"].replace("--yes ", "")
    assert None is document["command"]


@pytest.mark.parametrize(
    "words",
    [
        ["read", "t", "--where", "token = 'x'"],
        ["read", "t", "--where", "token=5"],
        ["read", "lake/token=5/t", "--limit", "3"],
        ["optimize", "t", "--commit-metadata", "token=5"],
        ["properties", "t", "set", "my.token.format=jwt"],
        ["alter", "t", "add-check", "token=5"],
        ["fleet", "run", "a.toml", "--state", "journal"],
        ["history", "t", "--storage-option", "region=eu-west-1", "--storage-option", "password=@file"],
        ["share", "token", "create", "me", "--expires", "30d"],
    ],
)
def test_other_words_are_repeated_as_they_are(words: list[str]) -> None:
    assert words == mask_typed_secrets(words)
    assert len(words) == len(repeat_command(words).replace("'", "").replace('"', "").replace(" = ", "=").split()) - 1
