"""What Azure may answer: a commit is sent once, blocks of two writers do not mix, directories are no files, and only
the store is believed. Against a stub; the contract runs against Azurite as well.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import get_ident
from typing import NamedTuple

import pyarrow
import pytest

from deltacli.core.errors import (
    DeltacliError,
    FileMissing,
    NoAtomicCreate,
    PermissionRefused,
    StorageFailed,
    UsageError,
)
from deltacli.delta.paths.keys import PathKeys
from deltacli.storage import (
    Created,
    Creation,
    Deleted,
    Deletion,
    Existed,
    Failed,
    Missing,
    PathKind,
    Storage,
    Unknown,
    is_inside,
    open_storage,
)
from deltacli.storage.azure.addresses import read_address
from deltacli.storage.azure.credentials import AzureCredentials
from deltacli.storage.azure.options import read_azure_options
from deltacli.storage.azure.shared_key import build_authorization_header
from deltacli.storage.objects.body import Body
from deltacli.storage.objects.http_errors import HttpError
from deltacli.storage.objects.store import ObjectStorage
from deltacli.storage.repeat_condition import repeat_only_while
from deltacli.storage.retry import Retry
from tests.support.azure import ACCOUNT, KEY, AzureServer, problem
from tests.support.clocks import FakeClock
from tests.support.cloud import Fault, Said, answers, breaks, done_but, half_a_body, loses_reply

PAGE = Said(200, b"<!DOCTYPE html><html>Please log in</html>", {"Content-Type": "text/html"})
STORED = Said(201, b"", {"Content-Type": "text/html"})


class Table(NamedTuple):
    storage: Storage
    container: str


def opened(server: AzureServer, *, is_hierarchical: bool = False) -> Table:
    """An empty table, whose first write was probed already. Nothing waits."""
    container = server.make_container(is_hierarchical=is_hierarchical)
    storage = open_storage(f"az://{container}/t", retry=Retry(pause=lambda _: None))
    storage.put("probed", b"")
    server.requests.clear()
    return Table(storage, container)


@pytest.fixture
def table(azure: AzureServer) -> Table:
    return opened(azure)


@pytest.mark.parametrize(
    ("faults", "expected", "requests"),
    [
        ([], Created(), 1),
        ([loses_reply], Unknown("connection closed without a complete answer"), 1),
        ([breaks], Unknown("connection closed without a complete answer"), 1),
        ([done_but(problem(503, "ServerBusy"))], Unknown("HTTP 503 ServerBusy so it is"), 1),
        ([done_but(problem(500, "OperationTimedOut"))], Unknown("HTTP 500 OperationTimedOut so it is"), 1),
        ([answers(problem(429, "TooManyRequests"))] * 2, Created(), 3),
        ([answers(problem(412, "ConditionNotMet"))], Existed(), 1),
        ([answers(problem(409, "BlobAlreadyExists"))], Existed(), 1),
        ([done_but(PAGE)], Unknown("HTTP 200"), 1),
        ([done_but(STORED)], Unknown("HTTP 201, text/html, no tag of an object"), 1),
    ],
)
@pytest.mark.parametrize("is_hierarchical", [False, True])
def test_a_creation_is_sent_again_only_if_nothing_was_done(
    faults: Sequence[Fault], expected: Creation, requests: int, is_hierarchical: bool, azure: AzureServer
) -> None:
    table = opened(azure, is_hierarchical=is_hierarchical)
    azure.fail("PUT", "/t/", *faults)

    outcome = table.storage.put_if_absent("_delta_log/00000000000000000001.json", b"1")

    sent = [request for request in azure.requests if request.method == "PUT"]
    assert expected == outcome
    assert ["*"] * requests == [request.headers.get("if-none-match") for request in sent]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("deltacli.storage.azure.calls.MAX_SINGLE_REQUEST_BYTES", 100)
    monkeypatch.setattr("deltacli.storage.azure.calls._BLOCK_BYTES", 100)
    return 100


def _published(storage: Storage, data: bytes, *, replace: bool = False) -> Creation:
    with storage.draft("big") as draft:
        Path(draft.local_path).write_bytes(data)
        return draft.publish(replace=replace)


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("fault", [loses_reply, answers(problem(503, "ServerBusy"))])
def test_a_block_is_sent_again_after_a_fault_and_the_list_of_blocks_is_not(
    fault: Fault, at: int, azure: AzureServer, table: Table, small_blocks: int
) -> None:
    data = bytes(range(250))  # three blocks and their list
    azure.fail("PUT", "/t/big", *[lambda server, asked: server.answer(asked)] * at, fault)

    outcome = _published(table.storage, data)

    assert isinstance(outcome, Unknown if at == 3 else Created)
    assert 1 == azure.asked("PUT", "comp=blocklist")
    is_there = at < 3 or fault is loses_reply
    assert ([data] if is_there else []) == [
        found for key, found in azure.files(table.container).items() if "big" in key
    ]


def test_blocks_of_two_writers_do_not_mix(azure: AzureServer, table: Table, small_blocks: int) -> None:
    other = open_storage(table.storage.uri, retry=Retry(pause=lambda _: None))
    outcomes: list[Creation] = []

    def other_first(server: object, asked: object) -> Said:
        outcomes.append(_published(other, b"t" * 250))
        return azure.answer(asked)  # type: ignore[arg-type]

    azure.fail("PUT", "comp=blocklist", other_first)
    outcomes.append(_published(table.storage, b"o" * 250))
    replaced = _published(table.storage, b"r" * 250, replace=True)

    assert [Created(), Existed(), Created()] == [*outcomes, replaced]
    assert b"r" * 250 == table.storage.read("big")


def test_a_discarded_list_of_blocks_is_another_writers_object(
    azure: AzureServer, table: Table, small_blocks: int
) -> None:
    azure.put(table.container, "t/big", b"theirs")
    azure.fail("PUT", "comp=blocklist", answers(problem(400, "InvalidBlockList")))

    assert Existed() == _published(table.storage, b"o" * 250)


def test_a_conditional_replace_needs_the_tag(azure: AzureServer, table: Table) -> None:
    assert isinstance(table.storage, ObjectStorage)
    calls = table.storage._calls
    azure.put(table.container, "t/hint", b"first")
    _, tag = calls.head("t/hint")

    calls.write("t/hint", Body(b"second"), tag)
    with pytest.raises(HttpError) as raised:
        calls.write("t/hint", Body(b"third"), tag)

    assert 412 == raised.value.status
    assert b"second" == table.storage.read("hint")


def test_reads_that_break_are_repeated_and_only_the_store_is_believed(azure: AzureServer, table: Table) -> None:
    azure.put(table.container, "t/file", b"0123456789")
    azure.fail("GET", "/t/", half_a_body, answers(problem(503, "ServerBusy")), breaks)
    repeated = table.storage.read_range("file", 2, 3)
    faults: list[DeltacliError] = []
    calls: tuple[Callable[[], object], ...] = (
        lambda: table.storage.read("file"),
        lambda: list(table.storage.list_from("")),
        lambda: table.storage.read("absent"),
        lambda: table.storage.stat("file"),
    )

    for call, said in zip(calls, (PAGE, PAGE, PAGE._replace(status=404), PAGE), strict=True):
        azure.fail("GET", "", answers(said))
        azure.fail("HEAD", "", answers(said))
        with pytest.raises(StorageFailed) as raised:
            call()
        faults.append(raised.value)
        azure.forget()

    assert b"234" == repeated
    assert ["storage.unexpected-answer"] * 4 == [fault.code for fault in faults]


def test_a_file_that_changes_while_it_is_read_is_an_error(azure: AzureServer, table: Table) -> None:
    azure.put(table.container, "t/file", b"a" * 200_000)
    opened = table.storage.open("file")
    azure.put(table.container, "t/file", b"b" * 200_000)

    with pytest.raises(StorageFailed, match="changed while it was read"):
        opened.read(10)


@pytest.mark.parametrize(
    ("said", "kind", "code"),
    [
        (problem(403, "AuthorizationPermissionMismatch"), PermissionRefused, "storage.permission"),
        (problem(401, "NoAuthenticationInformation"), PermissionRefused, "storage.permission"),
        (problem(404, "ContainerNotFound"), StorageFailed, "storage.bucket-missing"),
        (problem(404, "BlobNotFound"), FileMissing, "storage.file-missing"),
        (Said(302, b"", {"Location": "http://portal"}), StorageFailed, "storage.unexpected-answer"),
    ],
)
def test_errors_name_their_cause(
    said: Said, kind: type[StorageFailed], code: str, azure: AzureServer, table: Table
) -> None:
    azure.fail("GET", "/t/", answers(said))

    with pytest.raises(kind) as raised:
        table.storage.read("file")

    assert code == raised.value.code
    assert KEY not in str(raised.value.facts)


def test_directories_of_a_hierarchical_namespace_are_no_files(azure: AzureServer) -> None:
    table = opened(azure, is_hierarchical=True)
    azure.put(table.container, "t/p=1/q=1/r=1/file", b"x")
    azure.put(table.container, "t/p-1", b"sorts between the directory and its files elsewhere")
    storage = table.storage

    walked = [f"{found.directory}/{name}" for found in storage.walk("", lambda _, names: names) for name in found.names]
    odd = [name for found in storage.walk("", lambda _, names: names) for name in found.special]

    assert ["/p-1", "/probed", "p=1/q=1/r=1/file"] == sorted(walked)
    assert [] == odd
    assert (PathKind.DIRECTORY, ["p=1"]) == (storage.kind_of("p=1"), storage.list_directories(""))
    assert ["p-1", "probed"] == [found.name for found in storage.list_from("")]
    assert ([-1], [-1]) == storage.stat_many(["p=1/q=1"])
    for call in (storage.read, storage.open, storage.stat):
        with pytest.raises(FileMissing):
            call("p=1/q=1")
    assert isinstance(dict(storage.delete_many(["p=1/q=1"]))["p=1/q=1"], Failed)
    assert Existed() == storage.put_if_absent("p=1/q=1", b"")


@pytest.mark.parametrize("has_batches", [True, False])
def test_files_of_a_batch_have_their_own_outcomes(
    has_batches: bool, azure: AzureServer, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(azure, "has_batches", has_batches)
    names = [f"{number:03d}" for number in range(300)]
    for name in names:
        azure.put(table.container, f"t/{name}", b"")
    method = "BATCHED" if has_batches else "DELETE"
    azure.fail(method, "/007", *[answers(problem(503, "ServerBusy"))] * 2)
    azure.fail(method, "/008", *[answers(problem(409, "SnapshotsPresent", "delete the snapshots"))] * 2)
    azure.fail("POST", "comp=batch", loses_reply)

    outcomes = dict(table.storage.delete_many([*names, "absent", "a/../b", "a//b"]))

    assert Failed("HTTP 409 SnapshotsPresent delete the snapshots") == outcomes["008"]
    assert [Missing()] * 3 == [outcomes[name] for name in ("absent", "a/../b", "a//b")]
    assert {outcomes[name] for name in names if name != "008"} <= {Deleted(), Missing()}
    assert {"t/008", "t/probed"} == azure.files(table.container).keys()


@pytest.mark.parametrize(("faults", "outcome"), [(8, Deleted), (100, Failed)])
@pytest.mark.parametrize("is_first", [True, False])
def test_files_of_an_account_without_batches_are_deleted_within_the_budget(
    is_first: bool, faults: int, outcome: type[Deletion], azure: AzureServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(azure, "has_batches", False)
    container, clock, waits = azure.make_container(), FakeClock(), Counter[int]()

    def pause(seconds: float) -> None:
        waits[get_ident()] += 1
        clock.waits.append(seconds)
        clock.now += seconds

    monkeypatch.setattr(clock, "pause", pause)
    storage = open_storage(f"az://{container}/t", retry=clock.retry())
    if not is_first:
        list(storage.delete_many(["absent"]))
    for name in ("plain", "busy"):
        azure.put(container, f"t/{name}", b"")
    azure.fail("DELETE", "/busy", *[answers(problem(503, "ServerBusy"))] * faults)

    (_, plain), (_, busy) = storage.delete_many(["plain", "busy"])

    azure.settle()
    assert (Deleted(), outcome) == (plain, type(busy))
    retries = max(waits.values())  # of one thread: that of the other file may wait for a busy host, too
    assert (1, retries + 1) == (azure.asked("POST", "comp=batch"), azure.asked("DELETE", "/busy"))
    assert clock.now <= 60
    if isinstance(busy, Failed):
        assert "ServerBusy" in busy.reason
        assert clock.now > 50


def test_files_of_an_account_without_batches_are_not_deleted_after_the_time(
    azure: AzureServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(azure, "has_batches", False)
    storage = open_storage(f"az://{azure.make_container()}/t", retry=FakeClock().retry())
    list(storage.delete_many(["absent"]))
    azure.forget()

    with repeat_only_while(lambda: False):
        [(_, outcome)] = storage.delete_many(["file"])

    assert (Failed("the time limit for sending it was reached"), []) == (outcome, azure.requests)


def test_a_store_that_ignores_the_condition_is_read_only(azure: AzureServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(azure, "ignores_conditions", True)
    container = azure.make_container()

    with pytest.raises(NoAtomicCreate):
        open_storage(f"az://{container}/t").put_if_absent("_delta_log/0.json", b"")

    assert {} == azure.containers[container]


@pytest.fixture
def identified(azure: AzureServer, monkeypatch: pytest.MonkeyPatch) -> AzureServer:
    """A store that wants tokens, which azure-identity gets from the endpoint of a managed identity."""
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING")
    for name, value in azure.identity_environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(azure, "token", "token-of-before")
    return azure


def test_a_token_that_the_store_refuses_is_renewed_once(
    identified: AzureServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    identified.put(container := identified.make_container(), "t/file", b"x")
    storage = open_storage(
        f"abfss://{container}@{ACCOUNT}.dfs.core.windows.net/t",
        {"endpoint_url": f"{identified.url}/{ACCOUNT}"},
        retry=Retry(pause=lambda _: None),
    )

    first = storage.read("file")
    monkeypatch.setattr(identified, "token", "token-of-after")
    second = storage.read("file")
    identified.fail("GET", "t/file", *[lambda *_: problem(401, "InvalidAuthenticationInfo")] * 2)
    with pytest.raises(PermissionRefused) as raised:
        storage.read("file")

    assert (b"x", b"x") == (first, second)
    assert 3 == identified.asked("GET", "/identity?")
    assert "DefaultAzureCredential of azure-identity" == raised.value.facts["credentials"]
    assert "token-of" not in str(raised.value.facts) + str(raised.value.__cause__)


def test_a_token_that_another_thread_renewed_is_kept(identified: AzureServer, monkeypatch: pytest.MonkeyPatch) -> None:
    address = read_address(f"abfss://lake@{ACCOUNT}.dfs.core.windows.net/t")
    credentials = AzureCredentials(
        read_azure_options({"endpoint_url": f"{identified.url}/{ACCOUNT}"}, address, {}), "t"
    )
    _, refused = credentials.authorize("GET", "http://host/c", {})
    monkeypatch.setattr(identified, "token", "token-of-after")

    renewed = [credentials.renew(refused), credentials.renew(refused)]
    token = credentials.get_token()
    renewed.append(credentials.renew(refused))

    assert [True] * 3 == renewed
    assert "token-of-after" == token == credentials.get_token()
    assert 2 == identified.asked("GET", "/identity?")


def test_a_listing_of_a_container_names_its_place(azure: AzureServer) -> None:
    container = azure.make_container()
    azure.fail("GET", "comp=list", lambda *_: problem(403, "AuthorizationFailure"))

    with pytest.raises(PermissionRefused, match=re.escape(f"az://{container}/_delta_log/ cannot be listed")):
        list(open_storage(f"az://{container}").list_from("_delta_log"))


def test_a_shared_access_signature_is_sent_and_not_shown(azure: AzureServer) -> None:
    container = azure.make_container()
    options = {"sas_token": "?sv=2021&sig=c2VjcmV0LXNpZ25hdHVyZQ%3D%3D", "account_name": ACCOUNT}
    storage = open_storage(f"az://{container}/t", {**options, "endpoint_url": f"{azure.url}/{ACCOUNT}"})

    with pytest.raises(PermissionRefused) as raised:  # the stub wants a header
        storage.read("file")

    assert "sig=c2VjcmV0" in azure.requests[-1].target
    assert "c2VjcmV0" not in str(raised.value.facts) + str(raised.value)


def test_requests_are_signed_as_the_sdk_signs_them() -> None:
    """The expected signature is that of azure-storage-blob 12.31 for the same request."""
    url = "https://lakes.blob.core.windows.net/c/a%20table/0.json?comp=block&blockid=MQ%3D%3D"
    headers = {
        "x-ms-version": "2021-12-02",
        "x-ms-date": "Sun, 22 Nov 2026 13:00:00 GMT",
        "Content-Length": "3",
        "If-None-Match": "*",
        "x-ms-range": "bytes=0-3",
    }

    assert SIGNED == build_authorization_header("PUT", url, headers, "lakes", b"0" * 64)


SIGNED = "SharedKey lakes:CvivxZF16+c8ZdF4Fn7I7QT1nCuT8V7gAXXBTgXGHWI="


@pytest.mark.parametrize(
    "uri",
    [
        "abfss://c-1@lakes.dfs.core.windows.net/a/t",
        "abfs://c-1@LAKES.dfs.core.windows.net/a/t/",
        "wasbs://c-1@lakes.blob.core.windows.net/a/t",
        "https://lakes.blob.core.windows.net/c-1/a/t",
        "https://lakes.dfs.core.windows.net/c-1/a/t",
        "az://c-1/a/t",
        "abfss://c-1/a/t",
    ],
)
def test_every_address_of_a_container_names_one_store(uri: str) -> None:
    storage = open_storage(uri, {"account_name": "lakes", "anon": "true"})

    assert isinstance(storage, ObjectStorage)
    assert ("lakes.blob.core.windows.net", "a/t") == (storage._calls.endpoint, storage._root)
    assert {
        "abfss://c-1@lakes.dfs.core.windows.net/a/t",
        "wasbs://c-1@lakes.blob.core.windows.net/a/t",
        "https://lakes.blob.core.windows.net/c-1/a/t",
        "az://c-1/a/t",
    } <= {storage.uri.replace("abfs://", "abfss://").replace("LAKES", "lakes"), *storage.aliases}


@pytest.mark.parametrize(
    "uri",
    [
        "abfss://c-1@lakes.dfs.core.windows.net/a/t",
        "abfs://c-1@Lakes.dfs.core.windows.net/a/t",
        "https://lakes.blob.core.windows.net/c-1/a/t",
        "az://c-1/a/t",
    ],
)
def test_vacuum_takes_other_spellings_of_the_container_for_its_own_and_keeps_the_end_of_unknown_ones(uri: str) -> None:
    storage = open_storage(uri, {"account_name": "lakes", "anon": "true"})
    keys = PathKeys((storage.uri, *storage.aliases))
    known = (
        *("abfss://c-1@lakes.dfs.core.windows.net/a/t/x%20y", "abfs://c-1@lakes.dfs.core.windows.net/a/t/x%20y"),
        *("wasb://c-1@lakes.blob.core.windows.net/a/t/x%20y", "az://c-1/a/t/x%20y", "x%20y"),
        "https://lakes.blob.core.windows.net/c-1/a/t/x%20y",
    )
    doubtful = ("https://data.example.com/c-1/a/t/x%20y", "abfss://c-1@lakes.z6.dfs.storage.azure.net/a/t/x%20y")

    found = keys.compute_keys(pyarrow.array(known))
    unknown = keys.compute_keys(pyarrow.array(doubtful))

    own = keys.hash_listed_names(["x y"])[0]
    assert [own] * len(known) == list(found.hashes)
    assert [None] * len(doubtful) == unknown.hashes.to_pylist()
    assert 2 == unknown.alternative_hashes.to_pylist().count(own.as_py())


def test_a_table_is_inside_another_by_any_of_its_names() -> None:
    outer = open_storage("https://lakes.blob.core.windows.net/c-1/a", {"anon": "true"})
    options = {"anon": "true", "account_name": "lakes"}

    found = [is_inside(open_storage(f"az://{place}", options), outer) for place in ("c-1/a/t", "c-1/ab", "c-2/a/t")]

    assert [True, False, False] == found


@pytest.mark.parametrize(
    ("uri", "options", "code"),
    [
        ("az://", {}, "usage.table"),
        ("az://box/t", {}, "usage.table"),
        ("abfss://box@evil.example/t", {}, "usage.table"),
        ("abfss://user:password@lakes.dfs.core.windows.net/t", {}, "usage.secret"),
        ("abfss://box@lakes.dfs.core.windows.net/t", {"account_name": "others"}, "usage.storage-option"),
        ("abfss://box@lakes.dfs.core.windows.net/t", {"acount_key": "x"}, "usage.storage-option"),
    ],
)
def test_a_wrong_address_or_option_is_a_usage_error(
    uri: str, options: dict[str, str], code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(UsageError) as raised:
        open_storage(uri, options)

    assert code == raised.value.code


@pytest.mark.parametrize("name", ["use_fabric_endpoint", "azure_use_fabric_endpoint", "AZURE_USE_FABRIC_ENDPOINT"])
@pytest.mark.parametrize(
    ("uri", "value", "endpoint"),
    [
        ("az://box/t", "true", "https://onelake.blob.fabric.microsoft.com"),
        ("az://box/t", "false", "https://onelake.blob.core.windows.net"),
        ("abfss://box@onelake.dfs.fabric.microsoft.com/t", "true", "https://onelake.blob.fabric.microsoft.com"),
        ("abfss://box@onelake.dfs.fabric.microsoft.com/t", "false", "https://onelake.blob.fabric.microsoft.com"),
        ("https://onelake.dfs.fabric.microsoft.com/box/t", "TRUE", "https://onelake.blob.fabric.microsoft.com"),
        ("abfss://box@lakes.dfs.core.windows.net/t", "false", "https://lakes.blob.core.windows.net"),
    ],
)
def test_the_endpoint_of_fabric_is_an_option_as_in_other_tools(name: str, uri: str, value: str, endpoint: str) -> None:
    account = {"account_name": "onelake"} if uri.startswith("az:") else {}

    options = read_azure_options({name: value, **account}, read_address(uri), {})

    assert endpoint == options.endpoint


@pytest.mark.parametrize(
    ("uri", "value"),
    [
        ("abfss://box@lakes.dfs.core.windows.net/t", "true"),
        ("abfss://box@lakes.dfs.evilfabric.microsoft.com/t", "true"),
        ("az://box/t", "maybe"),
        ("az://box/t", ""),
    ],
)
def test_the_endpoint_of_fabric_does_not_replace_the_account_of_an_address(uri: str, value: str) -> None:
    with pytest.raises(UsageError) as raised:
        read_azure_options({"use_fabric_endpoint": value, "account_name": "lakes"}, read_address(uri), {})

    assert "usage.storage-option" == raised.value.code


def test_a_container_behind_the_host_is_named_before_it() -> None:
    with pytest.raises(UsageError) as raised:
        open_storage("abfss://lakes.dfs.core.windows.net/box/sales/t")

    assert "abfss://box@lakes.dfs.core.windows.net/sales/t" == raised.value.facts["did you mean"]


def test_the_key_of_another_account_in_the_environment_is_not_sent() -> None:
    environment = {"AZURE_STORAGE_ACCOUNT_NAME": "others", "AZURE_STORAGE_ACCOUNT_KEY": KEY}
    address = read_address("abfss://box@lakes.dfs.core.windows.net/t")

    options = read_azure_options({}, address, environment)
    own = read_azure_options({}, address, {**environment, "AZURE_STORAGE_ACCOUNT_NAME": "lakes"})

    assert ("", KEY) == (options.account_key, own.account_key)
    assert "https://lakes.blob.core.windows.net" == options.endpoint


def test_without_the_extra_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "azure.identity", None)
    for name in ("AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN"):
        monkeypatch.delenv(name, raising=False)

    with pytest.raises(UsageError, match="needs the extra 'azure'"):
        open_storage("abfss://box@lakes.dfs.core.windows.net/t")
