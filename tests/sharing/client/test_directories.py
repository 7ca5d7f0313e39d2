"""Shared tables that are read in their directories: honest servers and hostile ones, cases of the reference as data."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

import deltacli
from deltacli.api.table import Table
from deltacli.cli.app import run
from deltacli.cli.running.context import CommandContext
from deltacli.core.errors import DeltacliError, PathExternal, UsageError
from deltacli.engine.spark.engine import require_sendable_table
from deltacli.sharing import Client
from deltacli.sharing.client.share_storage import ShareStorage
from deltacli.sharing.client.shared_directory import DirectoryStorage
from tests.cli.support import Result
from tests.sharing.client.serving import Asked, Sent
from tests.sharing.client.vending import JSON, SECRET, Vending, vending
from tests.support import corpus
from tests.support.actions import add, commit_info, metadata, protocol
from tests.support.azure import ACCOUNT
from tests.support.builder import TableBuilder
from tests.support.rows import parquet_bytes, schema_of
from tests.support.s3 import S3Server

ROWS = [pa.table({"id": pa.array([number, number + 10])}) for number in range(3)]
TABLES = [
    "delta-rs/table-with-dv-small",
    "delta-rs/table_with_column_mapping",
    "kernel-rs/v2-checkpoints-json-with-sidecars",
    "golden/data-reader-escaped-chars",
    "kernel-rs/cdf-table-with-dv",
    "kernel-java/spark-shredded-variant-preview-delta",
]


def small_table(place: Path, *extra: dict[str, Any]) -> Path:
    builder = TableBuilder()
    for number, rows in enumerate(ROWS):
        path, data = f"part {number}.parquet", parquet_bytes(rows)
        builder.file(path, data)
        head = [protocol(1, 2), metadata(schema_string=schema_of(rows))] if not number else []
        builder.commit(commit_info(), *head, add(path.replace(" ", "%20"), size=len(data)))
    if extra:
        builder.commit(commit_info(), *extra)
    return builder.write(place)


@pytest.fixture
def server(tmp_path: Path, s3: S3Server) -> Iterator[Vending]:
    with vending(tmp_path, small_table(tmp_path / "t"), s3) as found:
        yield found


def rows_of(storage: Any, version: int | None = None) -> list[dict[str, Any]]:
    found = Table(storage).snapshot(version=version).scan().to_reader().read_all().to_pylist()
    return sorted(found, key=repr)


@pytest.mark.parametrize("name", TABLES)
def test_a_directory_has_the_rows_of_a_local_read(name: str, tmp_path: Path, s3: S3Server) -> None:
    place = corpus.unpacked() / "tables" / name
    local = deltacli.open_table(place)
    with vending(tmp_path, place, s3) as server:
        found = Table(server.open())

        assert rows_of(local.storage) == rows_of(found.storage)
        assert local.history().items == found.history().items
        assert rows_of(local.storage, 0) == rows_of(found.storage, 0)
        assert [server.root] == server.vended
        assert not server.asked("/query")


@pytest.mark.parametrize("kind", ["gcs", "azure"])
def test_the_directory_may_be_in_another_cloud(
    kind: str, tmp_path: Path, s3: S3Server, request: pytest.FixtureRequest
) -> None:
    cloud, table = request.getfixturevalue(kind), small_table(tmp_path / "t")
    with vending(tmp_path, table, s3) as server:
        if kind == "gcs":
            holder, endpoint, cloud.token = cloud.make_bucket(), cloud.url, "ya29.vended"
            location, vended = f"gs://{holder}/lake/t", {"gcpOauthToken": {"oauthToken": "ya29.vended"}}
        else:
            holder, endpoint, cloud.signature = cloud.make_container(), f"{cloud.url}/{ACCOUNT}", "sig=vended"
            location = f"abfss://{holder}@{ACCOUNT}.dfs.core.windows.net/lake/t"
            vended = {"azureUserDelegationSas": {"sasToken": "?sv=2021&sr=d&sdd=2&sp=rl&spr=https&sig=vended"}}
        for path in table.rglob("*.*"):
            cloud.put(holder, f"lake/t/{path.relative_to(table).as_posix()}", path.read_bytes())
        server.members["location"] = location
        server.change = _with(location=location, awsTempCredentials="absent", **vended)

        assert 6 == len(rows_of(server.open(options={"endpoint_url": endpoint})))
        assert not s3.requests


def test_changes_are_those_of_a_local_read(tmp_path: Path, s3: S3Server) -> None:
    place = corpus.unpacked() / "tables" / "kernel-rs" / "cdf-table-with-dv"
    with vending(tmp_path, place, s3) as server:
        found = Table(server.open()).changes(from_version=0).to_reader().read_all().to_pylist()

    assert sorted(
        deltacli.open_table(place).changes(from_version=0).to_reader().read_all().to_pylist(), key=repr
    ) == sorted(found, key=repr)


CHOICES: list[tuple[Any, int | None, str, str]] = [  # accessModes, numFiles, access, kind of store or error
    (None, 3, "auto", "url"),
    (None, 3, "dir", "dir"),
    (["url"], 3, "auto", "url"),
    (["url", "dir"], 3, "auto", "url"),
    (["url", "dir"], 10_001, "auto", "dir"),
    (["url", "dir"], 10_001, "url", "url"),
    (["DIR"], 3, "auto", "dir"),
    (["dir", "warp"], 3, "dir", "dir"),
    (["dir"], 3, "url", "share.access-mode"),
    (["url"], 3, "dir", "share.access-mode"),
    (["warp"], 3, "auto", "share.access-mode"),
    ([], 3, "auto", "share.access-mode"),
    ("dir", 3, "auto", "share.answer"),
    ({}, 3, "auto", "share.answer"),
    (["dir", {}], 3, "auto", "share.answer"),
]


@pytest.mark.parametrize(("modes", "files", "access", "expected"), CHOICES)
def test_the_access_is_chosen_by_what_is_offered(
    server: Vending, modes: Any, files: int | None, access: str, expected: str
) -> None:
    server.members |= {"accessModes": modes, "numFiles": files}

    if "." in expected:
        with pytest.raises(DeltacliError) as caught:
            server.open(access)
        assert (expected, 3, []) == (caught.value.code, caught.value.exit_code, server.vended)
    else:
        found = server.open(access)
        assert isinstance(found, ShareStorage if expected == "url" else DirectoryStorage)
        may_wait = isinstance(found, ShareStorage) and found.query.may_wait
        assert (expected == "url" and files == 10_001) == may_wait


def test_modes_of_list_and_metadata_are_intersected_where_the_list_is_needed(server: Vending) -> None:
    server.members, server.in_lists = {"accessModes": ["url", "dir"]}, {"accessModes": ["url"], "location": server.root}

    with pytest.raises(DeltacliError, match="not offered as a directory"):
        server.open("dir")


def test_a_refused_credential_falls_back_to_urls_where_both_are_offered(server: Vending) -> None:
    server.members["numFiles"] = 10_001
    server.change = lambda _: Sent(400, JSON, b'{"errorCode":"UNSUPPORTED_OPERATION","message":"no"}')

    assert isinstance(server.open("auto"), ShareStorage)
    with pytest.raises(DeltacliError, match="refused the request: no"):
        server.open("dir").read("_delta_log/00000000000000000000.json")


def test_urls_are_read_where_the_directory_cannot_be_opened_here(
    server: Vending, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(scheme: str, *_: str) -> None:
        raise UsageError(f"{scheme}:// needs the extra 's3'", code="usage.missing-extra")

    monkeypatch.setattr("deltacli.storage.s3.store.require_libraries", missing)
    server.members["numFiles"] = 10_001

    assert isinstance(server.open("auto"), ShareStorage)
    with pytest.raises(UsageError, match="needs the extra"):
        server.open("dir")


def test_urls_are_read_where_the_store_is_out_of_reach_and_the_hint_can_help(server: Vending) -> None:
    nowhere, notes = {"endpoint_url": "http://127.0.0.1:9", "region": "us-east-1"}, list[str]()
    server.members["numFiles"] = 10_001

    assert isinstance(server.open("auto", options=nowhere, note=notes.append), ShareStorage)
    (note,) = notes
    assert "the table is read by URLs" in note
    assert "storage.unreachable" in note
    with pytest.raises(DeltacliError, match="unreachable") as caught:
        rows_of(server.open("dir", options=nowhere))
    assert "endpoint_url" in str(caught.value.hint)
    assert "AWS_" not in str(caught.value.hint)


def test_executors_get_the_credentials_in_their_task_only(server: Vending) -> None:
    storage = server.open()

    assert CommandContext.get_location(cast("CommandContext", None), storage) is None
    assert Table(storage).stores.location is None
    sent = require_sendable_table(Table(storage).stores)
    assert SECRET not in f"{sent!r} {sent}"
    assert SECRET.encode() in pickle.dumps(sent)


def test_a_directory_costs_the_requests_of_a_path(server: Vending) -> None:
    def requests_of(open_store: Callable[[], Any]) -> list[tuple[str, str]]:
        server.cloud.requests.clear()
        next(iter(Table(open_store()).snapshot().scan(limit=1)))
        return sorted((method, path) for method, path, _ in server.cloud.requests)

    by_path = requests_of(lambda: deltacli.storage.open_storage(server.root))

    assert by_path == requests_of(server.open)
    assert ["GET", "POST"] == [asked.method for asked in server.proxy.asked]


def test_the_credential_request_has_no_body_and_both_types(server: Vending) -> None:
    rows_of(server.open())

    (asked,) = server.asked("/temporary-table-credentials")
    assert ("POST", b"") == (asked.method, asked.body)
    assert {"application/json", "application/x-ndjson"} == set(asked.headers["accept"].split(", "))
    assert "content-type" not in asked.headers


def test_the_location_of_the_answer_is_used_where_none_is_announced(server: Vending) -> None:
    server.members = {}

    assert 6 == len(rows_of(server.open()))
    assert server.root == server.open().uri


def test_short_grants_are_renewed_during_a_scan(server: Vending) -> None:
    server.life_ms = 20_000
    storage = server.open()

    for _ in range(6):
        server.proxy.served.now_ms += 11_000
        assert 6 == len(rows_of(storage))

    assert 7 == len(server.vended)


def test_a_clock_that_is_wrong_is_corrected_by_the_date_of_the_answer(server: Vending) -> None:
    server.headers["date"] = formatdate(server.now_ms / 1_000, usegmt=True)
    server.life_ms = 300_000

    storage = server.open(clock=lambda: server.now_ms + 600_000)
    assert 6 == len(rows_of(storage))
    assert 6 == len(rows_of(storage))
    assert 1 == len(server.vended)


def with_own_credentials(uri: str) -> Any:
    """Open a store as the user does by path."""
    raise AssertionError(f"{uri} was opened with the credentials of the user")


OUTSIDE = ["file:///etc/passwd", "s3://own-bucket/x.parquet", "../other/x.parquet", "http://127.0.0.1:9/x.parquet"]


@pytest.mark.parametrize("path", OUTSIDE)
def test_files_outside_are_refused_and_own_credentials_untouched(path: str, tmp_path: Path, s3: S3Server) -> None:
    with vending(tmp_path, small_table(tmp_path / "t", add(path, size=10)), s3) as server:
        allowed = deltacli.storage.AllowedPrefixes.of(["s3://own-bucket", "/etc", "http://127.0.0.1:9"])
        opened = Table(server.open(), open_other=with_own_credentials, allowed=allowed)

        with pytest.raises(PathExternal) as caught:
            opened.snapshot().scan().to_reader().read_all()

        assert caught.value.hint is None


def test_files_below_an_auxiliary_location_have_their_own_credentials(tmp_path: Path, s3: S3Server) -> None:
    other, data = s3.make_bucket(), parquet_bytes(ROWS[0])
    s3.put(other, "old/a b.parquet", data)
    table = small_table(tmp_path / "t", add(f"s3a://{other}/old/a%20b.parquet", size=len(data)))
    with vending(tmp_path, table, s3, auxiliaryLocations=[f"s3://{other}/old"]) as server:
        found = rows_of(server.open())

        assert 8 == len(found)
        assert [server.root, f"s3://{other}/old"] == server.vended
        assert [b"", json.dumps({"location": f"s3://{other}/old"}).encode()] == [
            asked.body.replace(b'":"', b'": "') for asked in server.asked("/temporary-table-credentials")
        ]


def _with(**members: Any) -> Callable[[dict[str, Any]], Any]:
    def change(document: dict[str, Any]) -> Any:
        given = document["credentials"] | members
        return {"credentials": {name: value for name, value in given.items() if value != "absent"}}

    return change


KEYS = ("accessKeyId", "secretAccessKey", "sessionToken")
HOSTILE: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "another prefix": (_with(location="s3://evil/t"), "another directory"),
    "two clouds": (_with(gcpOauthToken={"oauthToken": "t"}), "2 of"),
    "no cloud": (_with(awsTempCredentials="absent"), "none of"),
    "empty strings": (_with(awsTempCredentials=dict.fromkeys(KEYS, "")), "empty"),
    "expiry 0": (_with(expirationTime=0), "in the past"),
    "expiry in microseconds": (_with(expirationTime=1_800_000_000_000_000), "after the year 9999"),
    "expiry missing": (_with(expirationTime="absent"), "not a whole number"),
    "endless": (lambda _: b" " * (3 << 20), "exceeds the limit|more than"),
    "redirect": (lambda _: Sent(302, {"location": "http://127.0.0.1:9/"}, b""), "redirects"),
    "redirect to itself": (lambda _: Sent(307, {"location": "/delta-sharing/x"}, b""), "redirects"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_credentials_are_named_and_no_store_is_asked(server: Vending, case: str) -> None:
    server.change, words = HOSTILE[case]
    server.cloud.requests.clear()

    with pytest.raises(DeltacliError, match=words) as caught:
        rows_of(server.open())

    assert caught.value.exit_code in (3, 7)
    assert not server.cloud.requests
    assert SECRET not in f"{caught.value!r} {caught.value.facts}"


LOCATIONS = ["file:///etc", "http://169.254.169.254/", "s3://evil@b/", "abfss://c-1@acme.dfs.evil.example/t", 5]


@pytest.mark.parametrize("location", LOCATIONS)
def test_hostile_locations_are_refused_before_a_request(server: Vending, location: Any) -> None:
    server.members["location"] = location

    with pytest.raises(DeltacliError, match="location") as caught:
        server.open()

    assert (3, [], []) == (caught.value.exit_code, server.vended, server.cloud.requests)


OPERATIONS: tuple[Callable[[Table], object], ...] = (
    Table.snapshot,
    Table.history,
    Table.validate,
    Table.reach,
    lambda table: table.changes(from_version=0).to_reader().read_all(),
    lambda table: table.snapshot(version=0),
)


def test_the_log_must_be_that_of_the_announced_table(server: Vending) -> None:
    truth = server.plant

    def other_id(asked: Asked, truly: Callable[[], Sent]) -> Sent | None:
        sent = truth(asked, truly)
        if sent is not None and asked.target.endswith("/metadata"):
            lines = sent.lines
            holder = lines[1]["metaData"].get("deltaMetadata", lines[1]["metaData"])
            holder["id"] = "another"
            return sent.with_lines(lines)
        return sent

    server.proxy.plant = other_id
    for operation in OPERATIONS:
        with pytest.raises(DeltacliError, match="the log is that of another table"):
            operation(Table(server.open()))


def test_the_log_must_not_be_older_than_announced(server: Vending) -> None:
    bucket = server.root.split("/")[2]
    backend = server.cloud._backend
    backend.delete_object(bucket, f"lake/t/_delta_log/{2:020}.json")

    for operation in OPERATIONS:
        with pytest.raises(DeltacliError, match="older than the version"):
            operation(Table(server.open()))


def test_an_echo_of_secrets_is_not_shown(server: Vending) -> None:
    def echo(*secrets: str) -> Sent:
        return Sent(403, JSON, json.dumps({"errorCode": "X", "message": f"it says {' '.join(secrets)}"}).encode())

    storage = server.open()
    server.proxy.served.now_ms += server.life_ms - 1_000
    server.change = lambda _: echo(f"{SECRET}-1", "sig=c2VjcmV0LXNpZw%3D%3D&x")
    with pytest.raises(DeltacliError, match="refused access: it says") as of_renewal:
        rows_of(storage)
    profile = json.loads(server.proxy.profile.read_text()) | {"bearerToken": "a-long-bearer-token"}
    server.proxy.profile.write_text(json.dumps(profile))
    server.before = lambda asked: echo(asked.headers["authorization"])
    with pytest.raises(DeltacliError, match="refused access: it says") as of_metadata:
        server.open()

    shown = f"{of_renewal.value} {of_metadata.value}"
    assert not [secret for secret in (SECRET, "c2VjcmV0", "a-long-bearer-token") if secret in shown]


def test_credentials_that_do_not_end_are_noted_and_r2_needs_an_endpoint(server: Vending) -> None:
    notes, keys = list[str](), {"accessKeyId": "AKIALONG", "secretAccessKey": "long-lived", "sessionToken": "st"}
    server.change = _with(awsTempCredentials=keys)

    assert 6 == len(rows_of(server.open(note=notes.append)))
    assert [
        "note: awsTempCredentials has a long-lived access key (AKIA…): ask the provider for temporary credentials"
    ] == (notes)
    server.change = _with(awsTempCredentials="absent", r2Credentials=keys)
    assert 6 == len(rows_of(server.open()))
    with pytest.raises(UsageError, match="is in R2"):
        server.open(options={})


def test_a_client_reads_the_directory(server: Vending) -> None:
    client = Client(server.proxy.profile, clock=lambda: server.now_ms)

    found = client.table("Sales.Main.t", access="dir", storage_options=server.options).read(where="id > 10")

    assert [11, 12] == sorted(found.read_all()["id"].to_pylist())
    assert server.root == client.table("Sales.Main.t").metadata().access.location
    assert [server.root] == server.vended


def test_a_condition_by_urls_takes_the_metadata_that_chose_them_once(server: Vending) -> None:
    store = server.open("auto")

    for count in (1, 2):
        assert [11, 12] == sorted(row["id"] for row in rows_of(store.expecting(where="id > 10")) if row["id"] > 10)
        assert count == len(server.asked("/metadata"))
    assert all("jsonPredicateHints" in asked.json for asked in server.asked("/query"))


def test_credentials_of_the_user_are_refused(server: Vending) -> None:
    with pytest.raises(UsageError, match="the server of the table gives the credentials"):
        server.open(options={**server.options, "key": "AKIAOWN", "secret": "own"})

    assert [] == server.vended


# -- commands ----------------------------------------------------------------------------------------------------------

Command = Callable[..., Result]


@pytest.fixture
def command(server: Vending, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run `deltacli` in this process."""
    for name in ("DELTACLI_FORMAT", "DELTACLI_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    options = [f"--storage-option={name}={value}" for name, value in server.options.items()]

    def run_here(*arguments: str) -> Result:
        code = run([*arguments, *options])
        out, err = capfdbinary.readouterr()
        return Result(code, out.decode(), err.decode())

    return run_here


COMMANDS = [
    ("read", "--count"), ("read", "--format", "ndjson", "--version", "1"), ("history", "--format", "ndjson"),
    ("validate", "--format", "json"), ("share head", "-n", "2", "--format", "csv"),
]  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS)
def test_commands_read_the_directory(server: Vending, command: Command, tmp_path: Path, words: tuple[str, ...]) -> None:
    name, *options = words
    server.life_ms = 60_000

    found = command(*name.split(), server.address, *options, "--access", "dir")

    assert 0 == found.code, found.err
    assert server.vended
    assert not server.asked("/query")
    assert SECRET not in found.out + found.err
    if name != "share head":
        local = command(name, str(tmp_path / "t"), *options)
        there = found.out.replace(server.root, str(tmp_path / "t"))
        assert local.out.replace("file://", "") == there or name == "validate"


def test_rows_and_the_table_are_pulled_from_the_directory(server: Vending, command: Command, tmp_path: Path) -> None:
    rows, copy = tmp_path / "rows.csv", tmp_path / "copy"
    by_rows = command("share", "pull", server.address, "--to", str(rows), "--access", "dir")
    by_files = [command("share", "pull", server.address, "--to", str(copy), "--access", "dir", "--json") for _ in "12"]

    assert (0, 7) == (by_rows.code, len(rows.read_text().splitlines())), by_rows.err
    assert [0, 0] == [one.code for one in by_files], by_files[0].err
    documents = [json.loads(one.out) for one in by_files]
    assert [(3, True), (0, False)] == [(one["filesDownloaded"], one["committed"]) for one in documents]
    assert {server.address} == {one["table"] for one in documents}
    assert rows_of(Table(server.open()).storage) == rows_of(deltacli.open_table(copy).storage)
    assert not server.asked("/query")


def test_lists_show_what_is_said_of_a_share(server: Vending, command: Command) -> None:
    about = {
        "displayName": "Energy \x1b[31mred\x1b[0m",
        "comment": "first\nsecond " + "x" * 500,
        "properties": {"owner": "grid"},
    }

    def shares(asked: Asked) -> Sent | None:
        if not asked.target.partition("?")[0].endswith("/shares"):
            return None
        return Sent(200, JSON, json.dumps({"items": [{"name": "Sales", **about}]}).encode())

    server.before = shares
    document = json.loads(command("share", "ls", str(server.proxy.profile), "--json").out)
    text = command("share", "ls", str(server.proxy.profile), "--format", "csv").out

    (item,) = document["items"]
    assert {"accessModes": ["url", "dir"], "location": server.root, **about}.items() <= item.items()
    assert "\x1b" not in text
    assert "first second" in text
    assert "Energy [31mred [0m" in text


def test_a_dir_only_table_is_refused_by_urls_in_one_sentence(server: Vending, command: Command) -> None:
    server.members["accessModes"] = ["dir"]

    found = command("read", server.address, "--access", "url")

    assert 3 == found.code
    assert "the table is not offered by URLs" in found.err
    assert "--access dir" in found.err


@pytest.mark.parametrize(
    ("name", "subject", "what"),
    [
        ("share ls", "profile", "a list of shared tables"),
        ("share schema", "address", "a command that reads metadata only"),
        ("history", "path", "a table that is not shared"),
        ("history", "address", ""),
    ],
)
def test_access_without_effect_is_noted_once(
    server: Vending, command: Command, tmp_path: Path, name: str, subject: str, what: str
) -> None:
    subjects = {"profile": str(server.proxy.profile), "address": server.address, "path": str(tmp_path / "t")}

    found = command(*name.split(), subjects[subject], "--access", "dir")
    from_elsewhere = command(*name.split(), subjects[subject])

    assert (0, 0) == (found.code, from_elsewhere.code)
    assert [f"note: --access has no effect on {what}"] * bool(what) == re.findall("note: --access.*", found.err)
    assert "--access" not in from_elsewhere.err


@pytest.mark.parametrize("access", ["url", "dir"])
def test_advice_on_a_shared_table_is_refused_by_what_it_is(server: Vending, command: Command, access: str) -> None:
    found = command("doctor", "table", server.address, "--access", access)

    assert (2, True) == (found.code, "the provider of a shared table cares for its files" in found.err)
