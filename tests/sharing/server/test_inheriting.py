"""What a worker that begins later uses: what the others serve, whatever the files have become."""

from __future__ import annotations

import pickle
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from deltacli.core.errors import StorageFailed
from deltacli.sharing.configuration.recipients import Recipients, add_recipient, add_token, change_recipients
from deltacli.sharing.model import Grant
from deltacli.sharing.server.services import Configured, Inheritance, Overrides
from deltacli.sharing.server.serving import _tls_options
from deltacli.sharing.signing.keys import ServerKeys
from deltacli.storage.secrets import mask_secrets
from tests.sharing.asgi import call
from tests.sharing.configuration.files import write_shares
from tests.support.certificates import certify

SHARES = """\
version: 1
recipients: recipients.json
keyFile: keys.json
audit: {file: audit.log}
ssl: {certificateFile: server.pem, certificateKeyFile: server.key}
storageOptions: {aws_secret_access_key: only-known-by-reading}
shares: [{name: s, schemas: []}]
"""
NOW_MS = 1_800_000_000_000


def now_ms() -> int:
    """The clock."""
    return NOW_MS


class Home:
    """A directory with a configuration, and the parent process of its workers."""

    def __init__(self, place: Path) -> None:
        self.place = place
        certify(place)
        write_shares(place, SHARES)
        change_recipients(place / "recipients.json", self._acme, may_create=True)
        keys = ServerKeys.generate(NOW_MS)
        self.parent = Inheritance(Configured(place / "shares.yaml", Overrides(port=8443), keys, now_ms))
        self.before = self.status()

    def _acme(self, _: Recipients) -> Recipients:
        changed, made = add_token(add_recipient(Recipients(), "acme", [Grant("s")], 5), "acme", 5, expires_ms=None)
        self.token = made.text
        return changed

    def status(self, token: str | None = None) -> int:
        """Return what a worker that begins now answers, to its own token or to another one."""
        service = pickle.loads(pickle.dumps(self.parent.service()))()  # as it is sent to another process
        headers = {"Authorization": f"Bearer {token or self.token}"}
        return call(service.application, "GET", "/delta-sharing/shares", headers=headers).status


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


BAD: dict[str, Callable[[Path], object]] = {
    "configuration": lambda place: (place / "shares.yaml").write_text("version: ["),
    "no authentication": lambda place: write_shares(place, SHARES.replace("recipients: recipients.json\n", "")),
    "no configuration": lambda place: (place / "shares.yaml").unlink(),
    "recipients": lambda place: (place / "recipients.json").write_text("{"),
    "no recipients": lambda place: (place / "recipients.json").unlink(),
    "keys": lambda place: (place / "keys.json").write_text("{"),
    "no certificate": lambda place: (place / "server.pem").unlink(),
    "another key of the certificate": lambda place: (place / "server.key").write_text("x"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_worker_that_begins_while_a_file_is_bad_serves_what_the_others_serve(what: str, home: Home) -> None:
    BAD[what](home.place)

    assert (200, 200, 401) == (home.before, home.status(), home.status("another"))


def test_a_worker_that_begins_while_the_audit_log_cannot_be_written_refuses_requests(home: Home) -> None:
    (home.place / "audit.log").unlink()
    (home.place / "audit.log").mkdir()

    assert 503 == home.status()


def test_what_was_accepted_since_the_start_is_inherited(home: Home) -> None:
    write_shares(home.place, SHARES.replace("name: s,", "name: renamed,"))
    home.parent._reloader.look()
    (home.place / "shares.yaml").write_text("version: [")

    found = home.parent.service().inherited

    assert found is not None
    assert ["renamed"] == [share.name for share in found.state.configuration.catalog.shares]
    assert 200 == home.status()


def test_a_token_that_was_revoked_a_moment_ago_is_refused_by_a_worker_that_begins(home: Home) -> None:
    (home.place / "recipients.json").unlink()
    change_recipients(
        home.place / "recipients.json", lambda _: add_recipient(Recipients(), "zeta", [], 5), may_create=True
    )

    assert 401 == home.status()


def test_inherited_secrets_are_masked(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltacli.storage.secrets._remembered", set())
    (home.place / "t" / "_delta_log").mkdir(parents=True)
    tables = SHARES.replace("schemas: []", "schemas: [{name: d, tables: [{name: t, location: ./t}]}]")
    write_shares(home.place, tables)
    home.parent._reloader.look()
    monkeypatch.setattr("deltacli.storage.secrets._remembered", set())
    (home.place / "shares.yaml").write_text("version: [")

    home.status()

    assert "…" == mask_secrets("only-known-by-reading")


def test_the_certificate_is_that_of_the_start(home: Home) -> None:
    service = home.parent.service()
    (home.place / "server.pem").unlink()

    with _tls_options(service().certificate) as options:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*options.values())

    assert b"PRIVATE" not in repr(service).encode()


def test_an_audit_log_that_cannot_be_written_ends_the_start_of_the_parent(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "audit.log").unlink()
    (tmp_path / "audit.log").mkdir()

    with pytest.raises(StorageFailed):
        Inheritance(home.parent._service)
