"""`deltacli share recipient`, `token`, `profile` and `check`: what they change, ask, show and never show."""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from deltacli.cli.app import run
from deltacli.sharing.configuration.recipients import read_recipients
from deltacli.sharing.configuration.secrets import is_intact
from deltacli.sharing.signing.keys import ServerKeys
from tests.cli.support import ROOT, Result
from tests.sharing.configuration.files import write_shares
from tests.support.actions import add, deletion_vector, metadata, protocol
from tests.support.builder import TableBuilder
from tools.screens import run_on_terminal

Run = Callable[..., Result]

SHARES = """\
version: 1
recipients: recipients.json
publicUrl: https://share.example.com
shares:
- name: sales
  schemas:
  - name: eu
    tables:
    - {name: orders, location: t}
    - {name: trips, location: none, historyShared: true}
"""
TOKEN = re.compile(r"dct_[0-9A-Za-z]{49}")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_builder: TableBuilder) -> Path:
    """The current directory, with a configuration and one of its two tables."""
    monkeypatch.chdir(tmp_path)
    for name in ("DELTACLI_FORMAT", "DELTACLI_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    write_shares(tmp_path, SHARES)
    builder = table_builder.commits(3)
    for path in ("part-00001.parquet", "part-00002.parquet"):
        builder.file(path, bytes(100))
    builder.write(tmp_path / "t")
    return tmp_path


@pytest.fixture
def share(home: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Run `deltacli share` in this process."""

    def run_here(*arguments: str) -> Result:
        code = run(["share", *arguments])
        out, err = capfdbinary.readouterr()
        return Result(code, out.decode(), err.decode())

    return run_here


def names(home: Path) -> dict[str, list[str]]:
    found = read_recipients(home / "recipients.json")
    return {one.name: [token.token_id for token in one.tokens] for one in found.items}


def valid(document: object, name: str) -> bool:
    schema = json.loads((ROOT / "docs" / "schemas" / f"{name}.json").read_text())
    faults = [fault.message for fault in Draft202012Validator(schema).iter_errors(document)]
    assert [] == faults
    return True


def test_a_recipient_gets_a_token_that_is_shown_once_and_stored_as_a_hash(home: Path, share: Run) -> None:
    added = share("recipient", "add", "acme", "--grant", "Sales.EU", "--json")
    created = share("token", "create", "acme", "--json", "--now", "2026-01-01")

    token = created.document["tokens"][0]
    assert ["sales/eu"] == added.document["recipients"][0]["grants"]
    assert is_intact(token["token"])
    assert "2026-04-01T00:00:00.000Z" == token["expires"]
    assert read_recipients(home / "recipients.json").find_token(token["token"]) is not None
    assert token["token"] not in (home / "recipients.json").read_text()
    assert 0o600 == stat.S_IMODE((home / "recipients.json").stat().st_mode)
    listed = share("token", "list", "--json")
    assert "token" not in listed.document["tokens"][0]
    for result in (added, created, listed, share("recipient", "list", "--json")):
        assert valid(result.document, result.document["kind"])
    assert SHARES == (home / "shares.yaml").read_text()


def test_a_recipient_without_grants_gets_one_before_a_token(home: Path) -> None:
    shown = [
        run_on_terminal(f"deltacli share recipient {words}", home)[1] for words in ("add acme", "grant acme sales")
    ]

    assert "next: deltacli share recipient grant acme sales" in shown[0]
    assert "next: deltacli share token create acme --profile acme.share" in shown[1]


def test_a_profile_is_written_privately_and_its_token_is_nowhere_else(home: Path, share: Run) -> None:
    share("recipient", "add", "acme")

    created = share("token", "create", "acme", "--profile", "a.share", "--format", "ndjson")
    again = share("token", "create", "acme", "--profile", "a.share")

    profile = json.loads((home / "a.share").read_text())
    assert "https://share.example.com/delta-sharing/" == profile["endpoint"]
    assert 0o600 == stat.S_IMODE((home / "a.share").stat().st_mode)
    assert not TOKEN.search(created.out + created.err)
    assert valid(json.loads(created.out.splitlines()[0]), "share-token")
    assert (2, 1) == (again.code, len(names(home)["acme"]))
    assert "a.share exists, and is not replaced" in again.err


def test_a_profile_of_a_token_that_was_not_stored_is_removed(
    home: Path, share: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    share("recipient", "add", "acme")
    before = (home / "recipients.json").read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("deltacli.sharing.configuration.secrets.os.replace", full)
    created = share("token", "create", "acme", "--profile", "a.share")

    assert (7, before) == (created.code, (home / "recipients.json").read_bytes())
    assert not (home / "a.share").exists()


@pytest.mark.parametrize(
    "words",
    [
        "recipient remove acme",
        "recipient revoke acme sales",
        "token revoke acme --all",
        "token rotate acme",
    ],
)
def test_what_takes_access_away_asks_and_a_dry_run_changes_nothing(words: str, home: Path, share: Run) -> None:
    share("recipient", "add", "acme", "--grant", "sales")
    share("token", "create", "acme")
    before = (home / "recipients.json").read_bytes()

    refused, dry = share(*words.split(), "--json"), share(*words.split(), "--dry-run", "--json")

    assert (4, "consent.missing", f"deltacli share {words} --json --yes") == (
        refused.code,
        refused.error["code"],
        refused.error["hint"],
    )
    assert (0, True) == (dry.code, dry.document["dryRun"])
    assert valid(dry.document, dry.document["kind"])
    assert not TOKEN.search(dry.out)
    assert before == (home / "recipients.json").read_bytes()
    assert 0 == share(*words.split(), "--yes").code
    assert before != (home / "recipients.json").read_bytes()


def test_tokens_are_revoked_by_their_ids_and_rotated(home: Path, share: Run) -> None:
    share("recipient", "add", "acme")
    first, second = (share("token", "create", "acme", "--json").document["tokens"][0]["id"] for _ in range(2))

    revoked = share("token", "revoke", "acme", first, "--yes", "--json")
    rotated = share("token", "rotate", "acme", "--overlap", "0s", "--yes", "--json")

    assert [first] == [token["id"] for token in revoked.document["tokens"]]
    assert [rotated.document["tokens"][0]["id"]] == names(home)["acme"]
    assert second not in names(home)["acme"]
    for words in (["revoke", "acme"], ["revoke", "acme", "t1", "--all"], ["revoke", "acme", "t1"]):
        assert 2 == share("token", *words, "--yes").code


def test_what_is_not_there_is_refused_with_the_nearest_name(home: Path, share: Run) -> None:
    share("recipient", "add", "acme")

    for words, message in (
        (
            "recipient grant acme sales/eu/order",
            "nothing is shared as 'sales/eu/order'; did you mean 'sales/eu/orders'?",
        ),
        ("recipient grant acne sales", "there is no recipient 'acne'; did you mean 'acme'?"),
        ("token create acme --expires soon", "--expires: 'soon' is not a duration"),
        ("token create acme --expires 0d", "--expires 0d is not a lifetime"),
        ("recipient list -c none.yaml", "the configuration none.yaml cannot be read: no such file or directory"),
        ("profile show shares.yaml", "shares.yaml is not a profile"),
    ):
        result = share(*words.split())
        assert 2 == result.code
        assert message in result.err


def test_a_configuration_without_recipients_says_what_to_add(home: Path, share: Run) -> None:
    write_shares(home, SHARES.replace("recipients: recipients.json\n", ""))

    result = share("recipient", "list")

    assert [
        "error: shares.yaml names no file of recipients",
        "  missing  recipients: recipients.json",
        "hint: add this line to shares.yaml",
    ] == result.err.splitlines()


def test_a_server_without_its_recipients_does_not_say_that_it_serves(home: Path, share: Run) -> None:
    write_shares(home, SHARES)

    result = share("serve", "--port", "0")

    assert 2 == result.code
    assert ["error: the file of recipients recipients.json does not exist"] == result.err.splitlines()[:1]


PROFILE = {"shareCredentialsVersion": 1, "endpoint": "https://x/delta-sharing/", "bearerToken": "secret-token"}


@pytest.mark.parametrize(
    "changes, mode, codes",
    [
        ({}, 0o600, []),
        ({}, 0o640, ["profile.permissions"]),
        ({"expirationTime": "2026-01-01T00:00:00.0Z"}, 0o600, ["profile.expired"]),
        ({"expirationTime": "2026-06-05T00:00:00Z"}, 0o600, ["profile.expires-soon"]),
        ({"expirationTime": "2026-09-05T00:00:00.1234567Z"}, 0o600, []),
        ({"expirationTime": "soon"}, 0o600, ["profile.expiration"]),
        ({"endpoint": "http://x/"}, 0o600, ["profile.plain-http"]),
        ({"endpoint": "http://localhost:8080/"}, 0o600, []),
        ({"endpoint": "ftp://x", "bearerToken": "dct_cut"}, 0o600, ["profile.endpoint", "profile.token"]),
        ({"bearerToken": None}, 0o600, ["profile.token"]),
        ({"shareCredentialsVersion": "1"}, 0o600, ["profile.version"]),
        (
            {"shareCredentialsVersion": 2, "type": "oauth_client_credentials", "clientSecret": "s3cret"},
            0o600,
            ["profile.endpoint"],
        ),
        ({"shareCredentialsVersion": 2, "type": "magic"}, 0o600, ["profile.type"]),
        ({"endpoint": ["x"], "type": 7}, 0o600, ["profile.endpoint"]),
        ({"endpoint": "https://x:99999/"}, 0o600, ["profile.endpoint"]),
        ({"endpoint": "https://x/?key=hidden"}, 0o600, ["profile.endpoint"]),
        ({"endpoint": "https://x/#y"}, 0o600, ["profile.endpoint"]),
        ({"endpoint": "https://x/\u0000"}, 0o600, ["profile.endpoint"]),
        ({"endpoint": "https://user:hidden@x/"}, 0o600, ["profile.endpoint"]),
        ({"endpoint": "https://hidden@x/"}, 0o600, ["profile.endpoint"]),
    ],
)
def test_profiles_are_checked_without_showing_secrets(
    changes: dict[str, object], mode: int, codes: list[str], home: Path, share: Run
) -> None:
    path = home / "p.share"
    path.write_text(json.dumps(PROFILE | changes))
    path.chmod(mode)

    checked = share("profile", "check", "p.share", "--json", "--now", "2026-06-01")
    shown = share("profile", "show", "p.share", "--format", "ndjson", "--now", "2026-06-01")

    assert (int(bool(codes)), codes) == (checked.code, [one["code"] for one in checked.document["problems"]])
    assert valid(checked.document, "deltacli.share-profile")
    *problems, last, _ = [json.loads(line) for line in shown.out.splitlines()]
    assert all(valid(line, "profile-problem") for line in problems)
    assert valid(last, "share-profile")
    assert 0 == shown.code
    for secret in ("secret-token", "dct_cut", "s3cret", "hidden"):
        assert secret not in checked.out + shown.out


def test_a_check_opens_every_table_and_fails_where_one_cannot_be_read(home: Path, share: Run) -> None:
    share("recipient", "add", "acme", "--grant", "sales")

    failed = share("check", "--json")
    lines = share("check", "--format", "ndjson")
    (home / "t").rename(home / "none")
    write_shares(home, SHARES.replace("location: t", "location: none"))
    passed = share("check", "--format", "csv")

    orders, trips = failed.document["tables"]
    assert 1 == failed.code
    assert valid(failed.document, "deltacli.share-check")
    assert (2, ["parquet", "delta"], []) == (orders["version"], orders["formats"], orders["problems"])
    assert ["python", "spark", "duckdb", "node", "power-bi"] == [
        one["name"] for one in orders["clients"] if one["reads"]
    ]
    assert ["table.path-missing"] == [one["code"] for one in trips["problems"]]
    assert ["share.no-token"] == [one["code"] for one in failed.document["problems"]]
    *tables, last, end = [json.loads(line) for line in lines.out.splitlines()]
    assert all(valid(line, "shared-table") for line in tables)
    assert valid(last, "share-check")
    assert 3 == end["count"]
    assert (0, "share.no-change-feed") == (passed.code, passed.out.splitlines()[2].split(",")[-1])
    assert json.loads(json.dumps(last["summary"])) == {
        "shares": 1,
        "tables": 2,
        "readable": 1,
        "recipients": 1,
        "errors": 1,
        "warnings": 1,
    }


@pytest.mark.parametrize(
    "line, code",
    [
        ("host: 0.0.0.0", "share.plain-http"),
        ("ssl: {certificateFile: c, certificateKeyFile: k}", "share.certificate"),
    ],
)
def test_a_check_reports_settings_that_the_server_does_not_start_with(
    line: str, code: str, home: Path, share: Run
) -> None:
    write_shares(home, f"version: 1\nrecipients: r.json\n{line}\n")

    checked = share("check", "--json")

    assert (1, code) == (checked.code, checked.document["problems"][0]["code"])


def test_the_first_check_comes_before_the_first_recipient(home: Path, share: Run) -> None:
    write_shares(home, SHARES.replace("location: none", "location: t"))

    first = share("check", "--json")

    (problem,) = first.document["problems"]
    assert (0, "share.recipients", "warning") == (first.code, problem["code"], problem["severity"])
    assert problem["message"].endswith("deltacli share recipient add NAME creates it")


def test_a_table_whose_files_are_links_missing_or_changed_is_not_readable(home: Path, share: Run) -> None:
    vector = deletion_vector()
    names = ["kept", "gone", "link", "in/link", "cut", "private"]
    needed = ["deletionVectors"]
    first = [protocol(3, 7, reader_features=needed, writer_features=needed), metadata()]
    table = TableBuilder().commit(*first, *(add(name, size=3) for name in names), add("v", size=3, vector=vector))
    for name in [*names, "v"]:
        table.file(name, b"abc")
    place = table.write(home / "files")
    (place / "gone").unlink()
    (place / "cut").write_bytes(b"ab")
    (place / "private").chmod(0)
    (place / "link").rename(home / "link")
    (place / "link").symlink_to(home / "link")
    (place / "in").rename(home / "in")
    (place / "in").symlink_to(home / "in")
    write_shares(home, SHARES.replace("location: none", "location: files"))

    looked, logs = share("check", "--json"), share("check", "--level", "log", "--json")

    (problem,) = [one for one in looked.document["tables"][1]["problems"] if one["severity"] == "error"]
    unreadable = [] if os.access(place / "private", os.R_OK) else ["1 not readable by this user (such as private)"]
    said, _, repair = problem["message"].rpartition("; ")
    assert ("share.files", 1) == (problem["code"], looked.code)
    assert {
        "2 missing (such as ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin)",
        "2 behind a link or not a regular file (such as in/link)",
        "1 of another size than in the log (such as cut)",
        *unreadable,
    } == set(said.partition(": ")[2].split(", "))
    assert repair == f"deltacli repair {place} --dry-run shows what can come back"
    assert (1, 2) == tuple(one.document["summary"]["readable"] for one in (looked, logs))
    assert (0, "log", "storage") == (logs.code, logs.document["level"], looked.document["level"])
    assert valid(looked.document, "deltacli.share-check")


def test_gates_and_grants_that_promise_too_much_are_reported(home: Path, share: Run) -> None:
    share("recipient", "add", "acme", "--grant", "sales/eu/orders")
    (home / "t/_delta_log/00000000000000000000.json").rename(home / "gone")
    (home / "t/_delta_log/00000000000000000001.json").rename(home / "gone1")
    write_shares(home, SHARES.replace("name: orders, location: t", "name: other, location: t, startVersion: 9"))

    codes = [problem["code"] for problem in share("check", "--json").document["problems"]]

    assert ["share.grant", "share.no-token"] == codes


def test_options_of_all_commands_stand_before_the_group_too(home: Path, share: Run) -> None:
    code = run(["--json", "-q", "share", "recipient", "add", "zeta"])

    assert 0 == code
    assert ["zeta"] == list(names(home))


def test_a_key_is_rotated_without_showing_it(share: Run, home: Path) -> None:
    (home / "shares.yaml").write_text(f"{SHARES}keyFile: keys.json\n")
    ServerKeys.read_or_create(home / "keys.json", now_ms=0)
    before = (home / "keys.json").read_text()

    planned = share("key", "rotate", "--dry-run", "--json")
    asked = share("key", "rotate")
    unchanged = (home / "keys.json").read_text()
    rotated = share("key", "rotate", "--yes", "--json")

    document = json.loads(rotated.out)
    secrets = [key["secret"] for key in json.loads((home / "keys.json").read_text())["keys"]]
    assert valid(document, "deltacli.share-keys")
    assert (0, 4, 0) == (planned.code, asked.code, rotated.code)
    assert before == unchanged
    assert ["starting", "signing"] == [key["state"] for key in document["keys"]]
    assert 3 * 86_400_000 == document["keys"][1]["retiresMs"] - document["keys"][0]["startsMs"]
    assert not [secret for secret in secrets if secret in planned.out + rotated.out + rotated.err]
    assert 0o600 == stat.S_IMODE((home / "keys.json").stat().st_mode)


@pytest.mark.parametrize(
    "more, hint", [("", "deltacli share serve --config shares.yaml"), ("keyFile: k\n", "deltacli share serve")]
)
def test_without_a_key_file_no_key_is_rotated(share: Run, home: Path, more: str, hint: str) -> None:
    (home / "shares.yaml").write_text(SHARES + more)

    found = share("key", "rotate", "--yes")

    assert 2 == found.code
    assert f"hint: {hint}\n" in found.err


REFUSED = (
    "check -c none.yaml",
    "check -c {home}",
    "check -c bad.yaml",
    "check -c empty.yaml",
    "recipient add bad/name",
    "recipient add acme",
    "recipient add other --comment ''",
    "recipient add other --grant none",
    "recipient grant acme none",
    "recipient grant none sales",
    "recipient revoke acme sales/none --yes",
    "recipient remove none --yes",
    "recipient list none",
    "recipient list -c damaged.yaml",
    "recipient list -c lacking.yaml",
    "token create none",
    "token create acme --expires 0s",
    "token create acme --profile -",
    "token create acme --profile shares.yaml",
    "token revoke acme none --yes",
    "token revoke acme --yes",
    "token list none",
    "token rotate none --yes",
    "profile show none",
    "profile show shares.yaml",
    "serve none",
    "serve -c none.yaml",
    "serve -c bad.yaml",
    "serve -c open.yaml",
    "serve -c plain.yaml",
    "serve -c selfsigned.yaml",
    "serve -c certificate.yaml",
    "serve --workers 0 t",
    "serve --port 70000 t",
    "serve --host 192.0.2.1 -c shares.yaml --behind-proxy",
    "serve --host 0.0.0.0 t",
    "serve t --profile none/p",
    "serve t/_delta_log",
)


def test_every_refusal_says_what_to_do(share: Run, home: Path) -> None:
    share("recipient", "add", "acme", "--grant", "sales")
    token = "version: 1\nauthorization: {bearerToken: t}\n"
    for name, text in {
        "bad": "version: 1\nshares: 3\n",
        "empty": "",
        "damaged": SHARES.replace("recipients.json", "shares.yaml"),
        "lacking": SHARES.replace("recipients.json", "lacking.json"),
        "open": "version: 1\nhost: 0.0.0.0\n",
        "plain": f"{token}host: 0.0.0.0\n",
        "selfsigned": f"{token}ssl: {{selfSigned: true}}\n",
        "certificate": f"{token}port: 0\nssl: {{certificateFile: a, certificateKeyFile: b}}\n",
    }.items():
        (home / f"{name}.yaml").write_text(text)
    (home / "lacking.json").write_text('{"version": 1}')

    found = {words: share(*shlex.split(words.format(home=home))) for words in REFUSED}

    assert [] == [words for words, result in found.items() if "\nhint: " not in result.err]
    assert {2, 3} == {result.code for result in found.values()}
