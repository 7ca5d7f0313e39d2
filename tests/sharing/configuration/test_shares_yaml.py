"""The reader of `shares.yaml`: keys of the reference server, our own, names, secrets, wildcards, includes."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltacli.core.errors import UsageError
from deltacli.sharing.configuration.settings import Audit, Limits, Tls
from deltacli.sharing.configuration.shares_yaml import read_configuration
from deltacli.storage import LocalStorage
from tests.sharing.configuration.files import REFERENCE, read_text, remarks, write_shares

ONE = """\
version: 1
shares:
- name: s
  schemas:
  - name: c
    tables:
    - {name: t, location: /data/t}
"""


def test_the_reference_configuration_is_read_unchanged(tmp_path: Path) -> None:
    found = read_text(tmp_path, REFERENCE)

    third = found.catalog.find_table("SHARE2", "Schema2", "TABLE3")
    assert ["share1", "share2", "empty"] == [share.name for share in found.catalog.shares]
    assert third is not None
    assert ("gs://bucket/t3", True, 4) == (third.location, third.history_shared, third.start_version)
    assert "00000000-0000-0000-0000-000000000002" == third.table_id
    assert "a-token" == found.bearer_token
    settings = found.settings
    assert ("0.0.0.0", 443, "/delta-sharing") == (settings.host, settings.port, settings.endpoint)
    assert Tls(tmp_path / "server.pem", Path("/etc/key.pem"), tmp_path / "password") == settings.tls
    assert (900, 500, 259_200, 3_601) == (
        settings.url_lifetime_seconds,
        settings.page_size,
        settings.page_token_lifetime_seconds,
        settings.refresh_token_lifetime_seconds,
    )
    assert not settings.evaluate_sql_hints
    assert ["bearerToken", "deltaTableCacheSize", "stalenessAcceptable", "requestTimeoutSeconds"] == [
        remark.split()[0] for remark in remarks(found)
    ]


def test_keys_of_our_own(tmp_path: Path) -> None:
    text = (
        ONE
        + """\
recipients: recipients.json
publicUrl: https://share.example.com
behindProxy: true
adminPort: 9090
limits: {bodyBytes: 100, requestsPerSecond: 0}
audit: {file: audit.log, keep: 3}
cacheBytes: 1000
proxyFiles: true
keyFile: keys.json
"""
    )

    found = read_text(tmp_path, text)

    settings = found.settings
    assert tmp_path / "recipients.json" == found.recipients_file
    assert found.is_authenticated
    assert "https://share.example.com/delta-sharing" == settings.base_url
    assert ("127.0.0.1", 9090) == (settings.admin_host, settings.admin_port)
    assert Limits(body_bytes=100, requests_per_second=0) == settings.limits
    assert Audit(tmp_path / "audit.log", keep=3) == settings.audit
    assert (1000, "always", tmp_path / "keys.json") == (settings.cache_bytes, settings.proxy_files, settings.key_file)
    assert () == found.notes


BOTOCORE_ERRORS = {
    "a misspelt key": (
        "recipents: x",
        "8: the configuration has an unknown key 'recipents'; did you mean 'recipients'?",
    ),
    "a key in other case": ("PublicURL: https://x", "8: the configuration has an unknown key 'PublicURL'"),
    "a double key": ("version: 1", "8: the key 'version' is used twice, first in line 1"),
    "a number": ("port: 70000", "8: port of the configuration is '70000'"),
    "a flag": ("behindProxy: maybe", "8: behindProxy of the configuration is 'maybe'"),
    "a choice": ("proxyFiles: maybe", "8: proxyFiles of the configuration is 'maybe'"),
    "a list": ("limits: [1]", "8: limits is not a mapping"),
    "a URL": ("publicUrl: ftp://x", "8: publicUrl of the configuration is not a URL of a server"),
    "a URL with a password": ("publicUrl: https://u:p@x", "8: publicUrl of the configuration is not a URL"),
    "an endpoint": ("endpoint: /../x", "8: endpoint of the configuration is '/../x'"),
    "an empty token": ("authorization: {bearerToken: ''}", "8: bearerToken of authorization is empty"),
    "a token for headers": ("authorization: {bearerToken: 'a b'}", "8: bearerToken of authorization is empty or has"),
    "an absent variable": (
        "authorization: {bearerToken: '${NOT_THERE}'}",
        "8: bearerToken of authorization refers to the environment variable NOT_THERE, which is not set",
    ),
    "an absent file": ("authorization: {bearerToken: 'file:none'}", "8: bearerToken of authorization refers to"),
    "a certificate without a key": ("ssl: {certificateFile: x}", "8: ssl has no certificateKeyFile"),
    "a tag": ("host: !!python/name:os.system x", "8: host of the configuration is 'x'"),
    "a custom tag": ("host: !env X", "8: the tag !env is not supported"),
    "an open bracket": ("limits: [", "9: not YAML"),
    "a share as text": ("include: [{a: b}]", "8: include of the configuration has an item that is not a string"),
    "two documents": ("---\nversion: 1", "8: the file has more than one document"),
}


@pytest.mark.parametrize("name", BOTOCORE_ERRORS)
def test_a_fault_is_refused_with_its_line(name: str, tmp_path: Path) -> None:
    line, message = BOTOCORE_ERRORS[name]
    if name == "a tag":
        assert "x" == read_text(tmp_path, f"{ONE}{line}\n").settings.host  # a tag of YAML itself does nothing
        return

    with pytest.raises(UsageError) as fault:
        read_text(tmp_path, f"{ONE}{line}\n")

    assert f"{tmp_path}/shares.yaml:{message}" in fault.value.message
    assert "share.config" == fault.value.code


@pytest.mark.parametrize(
    "name, reason",
    [
        ("a b", "a space"),
        ("a/b", "'/'"),
        ("a\\x07b", "U+0007"),
        ("", "it is empty"),
        ("..", "URLs cannot contain it"),
        ("x" * 256, "256 characters"),
        ("a.b", "only names of shares"),
    ],
)
def test_a_name_that_no_url_can_have_is_refused(name: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"shares.yaml:7: name of the table is") as fault:
        read_text(tmp_path, ONE.replace("name: t", f'name: "{name}"'))

    assert reason in fault.value.message


def test_only_names_of_shares_have_dots_and_duplicates_ignore_case(tmp_path: Path) -> None:
    assert "a.b" == read_text(tmp_path, ONE.replace("name: s", "name: a.b")).catalog.shares[0].name
    for text, line in ((f"{ONE}- name: S\n", 8), (f"{ONE}    - {{name: T, location: x}}\n", 8)):
        with pytest.raises(UsageError, match=rf":{line}: name of the .* and .*:\d: has the same|has the same"):
            read_text(tmp_path, text)


def test_an_id_follows_from_the_name_and_one_that_is_used_twice_is_replaced(tmp_path: Path) -> None:
    text = ONE + "    - {name: u, location: /u, id: x}\n    - {name: v, location: /v, id: x}\n"

    first, again = (read_text(tmp_path, text) for _ in range(2))

    ids = [table.table_id for table in first.catalog.shares[0].schemas[0].tables]
    assert ids == [table.table_id for table in again.catalog.shares[0].schemas[0].tables]
    assert 3 == len(set(ids))
    assert "x" == ids[1]
    assert "s.c.v gets another id: 'x' is used twice in the share" == remarks(first)[0]


def test_secrets_come_from_the_environment_and_from_files_and_are_in_no_text(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("s3cr3t-of-a-file\n")
    text = (
        ONE
        + """\
  storageOptions: {region: eu-1, secret: 'file:key'}
authorization: {bearerToken: '${TOKEN}'}
"""
    )

    found = read_text(tmp_path, text, TOKEN="t0ken-of-a-variable")

    table = found.catalog.shares[0].schemas[0].tables[0]
    assert {"region": "eu-1", "secret": "s3cr3t-of-a-file"} == table.storage_options
    assert "t0ken-of-a-variable" == found.bearer_token
    assert "neither" not in " ".join(found.notes)
    assert tmp_path / "key" in found.files
    for secret in ("s3cr3t-of-a-file", "t0ken-of-a-variable"):
        assert secret not in repr(found)


def test_options_of_stores_are_inherited_and_overridden(tmp_path: Path) -> None:
    text = """\
version: 1
storageOptions: {a: 1, b: 1, c: 1}
shares:
- name: s
  storageOptions: {b: 2}
  schemas:
  - name: c
    tables:
    - {name: t, location: s3://b/t, storageOptions: {c: 3, a: }}
    - {name: u, location: s3://b/u}
"""

    tables = read_text(tmp_path, text).catalog.shares[0].schemas[0].tables

    assert {"b": "2", "c": "3"} == tables[0].storage_options
    assert {"a": "1", "b": "2", "c": "1"} == tables[1].storage_options


def test_a_wildcard_shares_every_directory_with_a_log(tmp_path: Path) -> None:
    for name in ("tenant_a", "tenant_b", "tenant c", "other"):
        (tmp_path / name / "orders" / "_delta_log").mkdir(parents=True)
    (tmp_path / "tenant_z" / "orders").mkdir(parents=True)
    text = ONE + "    - {name: 'o_${dir}', location: 'tenant*/orders'}\n"

    found = read_text(tmp_path, text)

    tables = found.catalog.shares[0].schemas[0].tables
    assert ["t", "o_tenant_a", "o_tenant_b"] == [table.name for table in tables]
    assert [str(tmp_path / "tenant_a/orders"), str(tmp_path / "tenant_b/orders")] == [
        one.location for one in tables[1:]
    ]
    assert found.has_wildcards
    reason = "is not shared: the name 'o_tenant c' is refused, it contains a space"
    assert f"{tmp_path}/tenant c/orders {reason}" == remarks(found)[0]


@pytest.mark.parametrize(
    "entry",
    [
        "{location: 's3://*/x'}",
        "{location: '/a*/b*/t'}",
        "{name: x, location: '/a*'}",
        "{id: x, location: '/a*'}",
        "{name: '${dir}', location: '/a'}",
    ],
)
def test_a_wildcard_that_has_no_meaning_is_refused(entry: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"shares\.yaml:8: "):
        read_text(tmp_path, f"{ONE}    - {entry}\n")


def test_includes_add_shares(tmp_path: Path) -> None:
    write_shares(tmp_path, "version: 1\nshares:\n- name: b\n", "shares.d/b.yaml")
    write_shares(tmp_path, "version: 1\nshares:\n- name: a\n", "shares.d/a.yaml")

    found = read_text(tmp_path, ONE + "include: shares.d/*.yaml\n")

    assert ["s", "a", "b"] == [share.name for share in found.catalog.shares]
    assert ["shares.yaml", "a.yaml", "b.yaml"] == [file.name for file in found.files]


@pytest.mark.parametrize("content, message", [("version: 1\nport: 1\n", ":2: port"), ("shares: []", "no version")])
def test_an_include_has_shares_only(content: str, message: str, tmp_path: Path) -> None:
    write_shares(tmp_path, content, "more.yaml")

    with pytest.raises(UsageError, match=r"more\.yaml:") as fault:
        read_text(tmp_path, ONE + "include: [more.yaml]\n")

    assert message in fault.value.message


def only_refused(directory: Path, data: bytes) -> bool:
    """Read a file and return whether it was refused; anything but a configuration or a UsageError fails."""
    path = directory / "any.yaml"
    path.write_bytes(data)
    try:
        read_configuration(path, environment={"X": "x"}, open_store=lambda *_: LocalStorage(str(directory)))
    except UsageError:
        return True
    return False


JUNK: tuple[object, ...] = (
    *(
        None,
        "",
        0,
        -1,
        10**30,
        1.5,
        True,
        [],
        {},
        [None],
        [[]],
        {"a": 1},
        {"shares": []},
        "x" * 300,
        "a b",
        "a/b",
        "a.b",
    ),
    *(
        "*",
        "a*/b",
        "/x/*/y*",
        "${X}",
        "${dir}",
        "file:/dev/null",
        "file:none",
        "a\0b",
        "\ud800",
        "\u202e",
        "://",
        "[",
        "1e9",
    ),
)
WHOLE = {
    "version": 1,
    "include": ["none.yaml*"],
    "storageOptions": {"region": "x", "secret": "${HOME}"},
    "shares": [
        {
            "name": "a.b",
            "id": "i",
            "schemas": [
                {
                    "name": "c",
                    "tables": [
                        {"name": "t", "location": "x", "id": "1", "historyShared": True, "startVersion": 3},
                        {"name": "u", "location": "y", "storageOptions": {"a": "b"}},
                        {"location": "*/z"},
                    ],
                }
            ],
        }
    ],
    "authorization": {"bearerToken": "t"},
    "recipients": "r",
    "ssl": {"certificateFile": "c", "certificateKeyFile": "k"},
    "limits": {"bodyBytes": 1},
    "audit": {"file": "a", "keep": 2},
    "publicUrl": "https://x",
    "port": 1,
    "adminHost": "::1",
}
"""A configuration with every kind of value."""


def mutated(value: object, chance: Random) -> object:
    """Return a copy of a value of which one part is replaced, removed, repeated, or has another key."""
    if not isinstance(value, dict | list) or not value or chance.random() < 0.15:
        return chance.choice(JUNK)
    if isinstance(value, list):
        place = chance.randrange(len(value))
        how = [
            [*value, value[place]],
            value[:place],
            [*value[:place], mutated(value[place], chance), *value[place + 1 :]],
        ]
        return chance.choices(how, (1, 1, 8))[0]
    key = chance.choice(list(value))
    renamed = {str(chance.choice([*value, "foo", "<<", key + "s"])): value[key]}
    return chance.choices([{**value, key: mutated(value[key], chance)}, {**value, **renamed}], (9, 1))[0]


def test_no_structure_gives_anything_but_a_usage_error(tmp_path: Path) -> None:
    refused = 0
    for seed in range(600):
        document = mutated(mutated(WHOLE, Random(seed)), Random(-seed))
        refused += only_refused(tmp_path, json.dumps(document).encode())

    assert 200 < refused < 600


@settings(max_examples=100)
@given(
    place=st.integers(0, len(REFERENCE)),
    junk=st.binary(max_size=6)
    | st.sampled_from([b"\t", b"&a ", b"*a", b"- ", b"? ", b"|\n", b"\xef\xbb\xbf", b"%x\n"]),
    cut=st.integers(0, 5),
)
def test_no_damage_gives_anything_but_a_usage_error(place: int, junk: bytes, cut: int) -> None:
    data = REFERENCE.encode()
    with tempfile.TemporaryDirectory() as directory:
        only_refused(Path(directory), data[:place] + junk + data[place + cut :])


@pytest.mark.parametrize(
    "text", ["[" * 200_000, "- " * 200_000, "{a: " * 100_000, "a: &a [*a]", "*x", "", "\x00", "a: 1\n b"]
)
def test_hostile_texts_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "any.yaml").write_text(text)

    with pytest.raises(UsageError, match=r"any.yaml:[0-9]+: "):
        read_configuration(tmp_path / "any.yaml")


def test_aliases_do_not_multiply_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltacli.sharing.configuration.shared_tables.MOST_TABLES", 1_000)
    tables = "\n".join(f"- {{name: t{number}, location: /x}}" for number in range(20))
    schemas = "\n".join(f"- {{name: c{number}, tables: *t}}" for number in range(20))
    shares = "\n".join(f"- {{name: s{number}, schemas: *c}}" for number in range(20))

    with pytest.raises(UsageError, match="more than 1,000 tables"):
        read_text(tmp_path, f"version: 1\nfoo: &t\n{tables}\nbar: &c\n{schemas}\nshares:\n{shares}\n")


def test_a_file_that_cannot_be_read_is_a_usage_error(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.yaml", tmp_path / "a\0b"):
        with pytest.raises(UsageError, match="cannot be read"):
            read_configuration(path)
    assert os.path.isdir(tmp_path)
