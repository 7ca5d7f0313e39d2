"""`doctor`: a store that keeps the contract passes every probe, a lie of another one is found, and nothing is left."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from deltacli.core.errors import NotATable
from deltacli.core.machine import fixed_clock
from deltacli.operations.doctor import advice as found
from deltacli.operations.doctor.storage import (
    PROBES,
    AccessReport,
    Outcome,
    Scratch,
    StorageReport,
    check_access,
    plan_probes,
    probe_storage,
    require_directory,
)
from deltacli.storage import Deletion, Failed, LocalStorage, Storage, open_storage
from deltacli.storage.probing.interface import ProbedStore
from deltacli.storage.probing.local import ProbedDirectory
from deltacli.storage.probing.opening import open_probed_store
from deltacli.storage.retry import Retry
from tests.storage.stores import EMULATED, azure, azure_tree, gcs, local, params, s3
from tests.support.azure import ACCOUNT, AzureServer
from tests.support.azure import problem as azure_problem
from tests.support.cloud import Asked, CloudServer, Said, answers
from tests.support.gcs import GcsServer
from tests.support.gcs import problem as gcs_problem
from tests.support.s3 import S3Server, forgets_condition, says

NOW_MS = 1_774_000_000_000
COMMIT = "_delta_log/00000000000000000000.json"
SLOW = ("s3", "azure")
"""Stores whose probes take seconds, or are the same as those of another one."""
PLACES = {"local": local, "s3": s3, "gcs": gcs, "azure": azure, "azure tree": azure_tree, **EMULATED}
RIGHTS = {f"storage.objects.{verb}" for verb in ("list", "get", "create", "delete")}


def subject(storage: Storage) -> ProbedStore:
    made = open_probed_store(storage)
    assert made is not None
    return made


def probe(storage: Storage, now_ms: int | None = None) -> StorageReport:
    from deltacli.core.machine import system_clock

    return probe_storage(storage.uri, subject(storage), system_clock if now_ms is None else fixed_clock(now_ms))


def access(storage: Storage, *, writes: bool = False) -> AccessReport:
    return check_access(storage, open_probed_store(storage), writes=writes)


def states(report: AccessReport) -> dict[str, str]:
    return {name: str(permit.state) for name, permit in report.permits.items()}


def codes(report: StorageReport) -> list[str]:
    return sorted(finding.code for finding in report.findings)


@pytest.fixture
def bucket(gcs: GcsServer, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """A table in the stub of Google Cloud Storage, which any lie can be told by."""
    for name in ("granted", "ignores_conditions", "now_ms"):
        monkeypatch.setattr(gcs, name, getattr(gcs, name))
    name = gcs.make_bucket()
    gcs.put(name, f"t/{COMMIT}", b"{}\n")
    return open_at_once(f"gs://{name}/t")


def lies(
    monkeypatch: pytest.MonkeyPatch, server: CloudServer, lie: Callable[[Asked, Callable[[Asked], Said]], Said]
) -> None:
    """Let every answer of a server go through a lie."""
    honest = server.answer
    monkeypatch.setattr(server, "answer", lambda asked: lie(asked, honest))


def open_at_once(uri: str, options: dict[str, str] | None = None) -> Storage:
    """A store that repeats requests without waiting."""
    return open_storage(uri, options, retry=Retry(pause=lambda _: None))


@pytest.mark.parametrize(
    "place", [pytest.param(name, marks=pytest.mark.long) if name in SLOW else name for name in params(PLACES)]
)
def test_a_store_that_keeps_the_contract_passes_every_probe_and_is_left_as_it_was(
    place: str, request: pytest.FixtureRequest
) -> None:
    storage = PLACES[place](request).holding({COMMIT: b"{}\n"})

    report = probe(storage)

    known = (Outcome.PASSED, Outcome.SKIPPED) if place == "local" else (Outcome.PASSED,)
    assert [probe.name for probe in PROBES] == [probe.name for probe, _ in report.results]
    assert [] == [(probe.name, result) for probe, result in report.results if result.outcome not in known]
    assert ([], []) == (report.findings, report.left)
    assert [] == [file.name for file in storage.list_from("")]


def test_a_store_that_ignores_conditions_is_found(bucket: Storage, gcs: GcsServer) -> None:
    gcs.ignores_conditions = True

    report = probe(bucket)

    assert [found.CREATE, found.REPLACE] == codes(report)
    assert report.has_failed


@pytest.mark.long
def test_an_s3_that_ignores_conditions_is_found(s3: S3Server) -> None:
    name = s3.make_bucket()
    s3.put(name, f"t/{COMMIT}", b"{}\n")
    s3.fail("PUT", "_deltacli-doctor-", *[forgets_condition] * 40)

    report = probe(open_at_once(f"s3://{name}/t"))

    s3.forget_faults()
    assert found.CREATE in codes(report)
    assert [f"t/{COMMIT}"] == s3.keys(name)


def test_a_store_that_lists_in_another_order_is_found(
    bucket: Storage, gcs: GcsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def turn_around(asked: Asked, honest: Callable[[Asked], Said]) -> Said:
        said = honest(asked)
        if "/o?" not in asked.target or asked.method != "GET":
            return said
        listed = json.loads(said.body)
        return said._replace(body=json.dumps(listed | {"items": listed.get("items", [])[::-1]}).encode())

    lies(monkeypatch, gcs, turn_around)

    assert [found.DISORDER] == codes(probe(bucket))


@pytest.mark.long
def test_a_store_that_lists_late_is_found(bucket: Storage, gcs: GcsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    listing = Said(200, b'{"kind": "storage#objects"}', {"Content-Type": "application/json"})
    lies(
        monkeypatch,
        gcs,
        lambda asked, honest: listing if "/o?" in asked.target and asked.method == "GET" else honest(asked),
    )

    assert [found.SHORT_LISTING, found.STALE_LISTING] == codes(probe(bucket))


def test_a_store_that_ignores_ranges_is_found(bucket: Storage, gcs: GcsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def whole(asked: Asked, honest: Callable[[Asked], Said]) -> Said:
        return honest(asked._replace(headers={name: text for name, text in asked.headers.items() if name != "range"}))

    lies(monkeypatch, gcs, whole)

    assert [found.RANGES_IGNORED] == codes(probe(bucket))


@pytest.mark.parametrize(
    ("minutes", "expected", "skew_ms"),
    [
        pytest.param(4, [], 240_000, marks=pytest.mark.long),
        (6, [found.CLOCK], 360_000),
        pytest.param(-6, [found.CLOCK], -359_001, marks=pytest.mark.long),
    ],
)
def test_a_clock_that_is_wrong_is_found(
    minutes: int, expected: list[str], skew_ms: int, bucket: Storage, gcs: GcsServer
) -> None:
    gcs.now_ms = NOW_MS + minutes * 60_000

    report = probe(bucket, NOW_MS)

    assert (expected, skew_ms) == (codes(report), report.clock_skew_ms)


def test_scratch_files_that_cannot_be_deleted_are_named(bucket: Storage, gcs: GcsServer) -> None:
    gcs.fail("BATCHED", "", *[answers(gcs_problem(403, "forbidden"))] * 60)

    report = probe(bucket)

    assert [found.PERMISSION, found.LEFT] == codes(report)
    assert report.left
    assert all(name.startswith(report.scratch) for name in report.left)


def test_a_store_that_deletes_one_by_one_is_told_from_one_that_refuses(
    bucket: Storage, gcs: GcsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_batches(asked: Asked, honest: Callable[[Asked], Said]) -> Said:
        return gcs_problem(404, "notFound") if "/batch/" in asked.target else honest(asked)

    lies(monkeypatch, gcs, without_batches)

    report = probe(bucket)

    assert ([found.DELETE_ALONE], [], False) == (codes(report), report.left, report.has_failed)
    assert "by a request each" in report.results[-1][1].seen


def test_a_deletion_that_fails_is_no_missing_permission(
    bucket: Storage, gcs: GcsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(asked: Asked, honest: Callable[[Asked], Said]) -> Said:
        return gcs_problem(400, "invalid") if "/batch/" in asked.target else honest(asked)

    lies(monkeypatch, gcs, refuses)

    report, allowed = probe(bucket), access(bucket, writes=True)

    assert [found.DELETE_FAILED, found.LEFT] == codes(report)
    assert ("unknown", []) == (
        states(allowed)["delete"],
        [one for one in allowed.findings if one.code == found.PERMISSION],
    )


def test_nothing_is_written_where_nothing_is_and_a_plan_sends_no_request(bucket: Storage, gcs: GcsServer) -> None:
    gcs.forget()
    planned = plan_probes(bucket.uri, subject(bucket))

    assert {Outcome.PLANNED} == {result.outcome for _, result in planned.results}
    assert [] == gcs.requests
    with pytest.raises(NotATable):
        require_directory(open_at_once(f"{bucket.uri}-none"))


def test_permissions_are_known_without_a_write_where_the_store_tells_them(bucket: Storage, gcs: GcsServer) -> None:
    gcs.granted = RIGHTS - {"storage.objects.delete"}

    report = access(bucket)

    expected = {"list": "granted", "read": "granted", "create": "granted", "replace": "missing", "delete": "missing"}
    assert expected == states(report)
    assert {"GET"} == {request.method for request in gcs.requests}
    assert ["granted", "granted", "missing", "missing", "missing"] == [one["state"] for one in report.commands()]


@pytest.mark.long
def test_permissions_that_the_store_does_not_tell_are_unknown_until_a_write_is_allowed(s3: S3Server) -> None:
    name = s3.make_bucket()
    s3.put(name, f"t/{COMMIT}", b"{}\n")
    storage = open_at_once(f"s3://{name}/t")

    unwritten = states(access(storage))
    read_only = {method for method, _, _ in s3.requests}
    s3.fail("PUT", "_deltacli-doctor-", *[says("403 Forbidden", "AccessDenied")] * 2)
    denied = access(storage, writes=True)

    assert {"create": "unknown", "replace": "unknown", "delete": "unknown"}.items() <= unwritten.items()
    assert read_only <= {"GET", "HEAD", "POST"}
    assert {"create": "missing", "replace": "missing", "delete": "unknown"}.items() <= states(denied).items()
    assert [f"t/{COMMIT}"] == s3.keys(name)


def test_a_signature_of_azure_tells_its_rights_and_is_not_shown(
    azure: AzureServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    container = azure.make_container()
    azure.put(container, f"t/{COMMIT}", b"{}\n")
    monkeypatch.setattr(
        azure,
        "answer",
        lambda asked, honest=azure.answer: honest(asked._replace(headers={**asked.headers, "authorization": "x"})),
    )
    uri = f"abfss://{container}@{ACCOUNT}.dfs.core.windows.net/t"
    options = {"sas_token": "sv=1&sp=rl&se=2027-01-01&sig=nobody-may-see", "endpoint_url": f"{azure.url}/{ACCOUNT}"}

    report = access(open_at_once(uri, options))

    assert {"list": "granted", "read": "granted"}.items() <= states(report).items()
    assert {"create": "missing", "replace": "missing", "delete": "missing"}.items() <= states(report).items()
    assert report.identity is not None
    assert "rl" == report.identity.details["permissions"]
    assert "nobody-may-see" not in json.dumps(report.as_json())


@pytest.mark.long
def test_a_token_of_azure_names_its_owner(azure: AzureServer, monkeypatch: pytest.MonkeyPatch) -> None:
    from azure.core.credentials import AccessToken

    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING")
    claims = (
        base64.urlsafe_b64encode(json.dumps({"upn": "ada@example.org", "tid": "t-1"}).encode()).decode().rstrip("=")
    )
    token = AccessToken(f"e30.{claims}.signature", 4_000_000_000)
    monkeypatch.setattr("azure.identity.DefaultAzureCredential.get_token", lambda *_, **__: token)
    container = azure.make_container()
    azure.put(container, f"t/{COMMIT}", b"{}\n")
    uri = f"abfss://{container}@{ACCOUNT}.dfs.core.windows.net/t"
    storage = open_at_once(uri, {"endpoint_url": f"{azure.url}/{ACCOUNT}"})
    azure.fail("GET", "comp=list", answers(azure_problem(403, "AuthorizationPermissionMismatch")))

    report = access(storage)

    assert report.identity is not None
    assert ("ada@example.org", "t-1") == (report.identity.name, report.identity.details["tenant"])
    assert "missing" == states(report)["list"]
    assert report.has_failed


def test_a_directory_that_may_not_be_written_is_found_without_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / COMMIT).write_bytes(b"{}\n")
    monkeypatch.setattr("os.access", lambda *_, **__: False)  # the tests may run as root

    report = access(LocalStorage(str(tmp_path)))

    assert ["granted", "granted", "missing", "missing", "missing"] == list(states(report).values())
    assert report.identity is not None
    assert report.identity.details["_delta_log"].startswith("drwx")
    assert [tmp_path / "_delta_log"] == list(tmp_path.iterdir())


@pytest.mark.long
def test_a_store_without_credentials_is_no_table_that_is_missing(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    name = s3.make_bucket()

    report = access(open_at_once(f"s3://{name}/t"))

    assert {"missing"} == set(states(report).values())
    assert [found.CREDENTIALS] == [finding.code for finding in report.findings]
    assert report.identity is not None
    assert report.identity.chain["environment"].startswith("AWS_ACCESS_KEY_ID unset")


def test_a_file_that_could_not_be_created_is_not_left(tmp_path: Path) -> None:
    """As on a read-only file system, where the deletion of any name fails."""

    class Refusing(ProbedDirectory):
        def delete(self, names: Sequence[str]) -> list[tuple[str, Deletion]]:
            return [(name, Failed("read-only file system")) for name in names]

    scratch = Scratch()
    never, made = scratch.name("never"), scratch.name("made")
    (tmp_path / made).touch()

    assert [made] == scratch.clear(Refusing(LocalStorage(str(tmp_path))))
    assert never not in scratch.clear(Refusing(LocalStorage(str(tmp_path))))
