"""Tables by their names in a catalog: which requests a command sends, with which credentials, and what stops it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from deltacli import Table, open_table
from deltacli.catalogs.unity.unity import open_catalog, open_in_catalog
from deltacli.core.errors import CatalogNameUnknown, DeltacliError
from deltacli.core.machine import Machine
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.fleet.planning.discovery import discover
from deltacli.fleet.policy_file.reading import read_fleet_file
from deltacli.sharing.model import SharedTable
from deltacli.sharing.tables.snapshots import SharedSnapshots
from deltacli.storage import LocalStorage, Storage
from deltacli.storage.retry import Retry
from tests.cli.support import Result, deltacli
from tests.docs.test_schemas import faults, line_faults
from tests.support.actions import metadata, protocol
from tests.support.builder import TableBuilder
from tests.support.catalog_state import NAME, Body
from tests.support.cloud import Said, answers
from tests.support.fake_catalog import CLIENT, PREVIEW, SECRET, TOKEN, FakeCatalog, s3_credentials, said
from tests.support.managed_tables import ManagedTable
from tests.support.s3 import S3Server, says
from tests.support.stream_checkpoints import offset, write_checkpoint

ADDRESS = "uc://main.sales.orders"
CONFIG, LOAD, GRANT = "/delta/v1/config", "/tables/orders", "/tables/orders/credentials"


def asked(server: FakeCatalog) -> list[str]:
    """The kinds of the requests."""

    def kind(target: str) -> str:
        path = target.partition("?")[0]
        return next((one for one in (CONFIG, GRANT, LOAD) if path.endswith(one)), path)

    return [f"{one.method} {kind(one.target)}" for one in server.requests]


@pytest.fixture
def managed(server: FakeCatalog, tmp_path: Path) -> ManagedTable:
    """A table on this disk: versions 0 to 3 are published, 4 to 6 staged and ratified."""
    place = tmp_path / "lake" / "orders"
    place.mkdir(parents=True)
    table = ManagedTable(range(4), range(4, 7), store=LocalStorage(str(place)))
    table.server.location = f"file://{place}"
    server.state.tables[NAME] = table.server
    assert table.store is not None
    return table


def run(server: FakeCatalog, *words: str, **environment: str) -> Result:
    return deltacli(*words, "--retry-budget", "0s", cwd=None, **{**server.environment, **environment})


# -- managed tables ----------------------------------------------------------------------------------------------------


def test_a_read_takes_two_requests_and_the_configuration(server: FakeCatalog, managed: ManagedTable) -> None:
    found = run(server, "snapshot", ADDRESS, "--json")

    assert (found.code, found.document["version"], found.document["files"]["count"]) == (0, 6, 7)
    assert asked(server) == [f"GET {CONFIG}", f"GET {LOAD}", f"GET {GRANT}"]
    assert server.grants == [(NAME, "READ")]


@pytest.mark.parametrize(
    ("words", "code", "shown"),
    [
        (["history", ADDRESS], 0, "6  2023-11-14T22:13:26"),
        (["snapshot", ADDRESS, "--version", "5"], 0, "version       5"),
        (["snapshot", ADDRESS, "--timestamp", "2023-11-14T22:13:25.5Z"], 0, "version       5"),
        (["diff", ADDRESS, "3", "5"], 1, "2 files"),
        (["log", "cat", ADDRESS, "5"], 0, "t5"),
        (["snapshot", ADDRESS, "--version", "7"], 3, ""),
        (["snapshot", "UC://main.sales.orders"], 0, "version       6"),
    ],
)
def test_commands_read_what_is_ratified(
    server: FakeCatalog, managed: ManagedTable, words: list[str], code: int, shown: str
) -> None:
    found = run(server, *words)

    assert found.code == code, found.err
    assert shown in found.out
    assert set(server.grants) == {(NAME, "READ")}


def test_an_answer_that_contradicts_itself_costs_no_credentials(server: FakeCatalog, managed: ManagedTable) -> None:
    server.fail("GET", "/tables/orders", answers(said(server.state.load(NAME) | {"latest-table-version": 5})))
    found = run(server, "snapshot", ADDRESS, "--json")
    assert (found.code, found.error["code"], server.grants) == (3, "catalog.answer", [])


def test_a_stream_is_behind_what_is_ratified(server: FakeCatalog, managed: ManagedTable, tmp_path: Path) -> None:
    table_id = open_table(ADDRESS, catalog_profile=server.profile).snapshot().metadata.id
    place = write_checkpoint(tmp_path / "query", [offset(table_id, 3), offset(table_id, 5)])
    for words in ([ADDRESS, "--checkpoints", str(place)], ["--checkpoints", str(place), "--tables", ADDRESS]):
        found = run(server, "streams", *words, "--json")
        (source,) = found.document["queries"][0]["sources"]
        assert (found.code, source["version"], source["lag"]["versions"]) == (0, 5, 2)
        assert source["needs"]["versions"] == [3, 6]


def test_a_change_is_ratified_and_published(server: FakeCatalog, managed: ManagedTable) -> None:
    found = run(server, "properties", ADDRESS, "set", "owner=ops", "--yes")

    assert found.code == 0, found.err
    assert set(server.grants) == {(NAME, "READ_WRITE")}
    now = server.state.tables[NAME]
    assert (now.latest, now.properties["owner"], now.unpublished) == (7, "ops", [])
    assert managed.published_versions() == [*range(8)]


@pytest.mark.parametrize(
    ("words", "exit_code", "said"),
    [
        (("doctor", "storage", ADDRESS, "--yes"), 4, "its catalog permits only commits"),
        (("share", "serve", ADDRESS), 3, "is shared by a configuration"),
    ],
)
def test_what_writes_beside_commits_says_why_not(
    server: FakeCatalog, managed: ManagedTable, words: tuple[str, ...], exit_code: int, said: str
) -> None:
    found = run(server, *words)
    assert (found.code, said in found.err) == (exit_code, True)


BY_PATH = [("read", "{}", "--count"), ("diff", "{}", ADDRESS), ("properties", "{}"), ("features", "{}")]
BY_PATH += [(name, "{}") for name in ("history", "snapshot", "reach", "explain")]


@pytest.mark.parametrize("words", BY_PATH)
def test_a_path_says_that_the_catalog_may_have_more(
    server: FakeCatalog, managed: ManagedTable, tmp_path: Path, words: tuple[str, ...]
) -> None:
    path = server.state.tables[NAME].location.removeprefix("file://")
    found = run(server, *(path if word == "{}" else word for word in words))
    assert found.err.count("catalog.unpublished-possible: a catalog manages this table") == 1


def test_a_share_by_path_says_so_as_well(server: FakeCatalog, managed: ManagedTable, tmp_path: Path) -> None:
    path = server.state.tables[NAME].location.removeprefix("file://")
    for location in (path, ADDRESS):
        file = tmp_path / "shares.yaml"
        file.write_text(
            "version: 1\nauthorization: {bearerToken: secret}\n"
            f"shares: [{{name: s, schemas: [{{name: d, tables: [{{name: t, location: '{location}'}}]}}]}}]\n"
        )
        found = run(server, "share", "check", "--config", str(file), "--level", "log", "--json")
        codes = [one["code"] for one in found.document["tables"][0]["problems"]]
        assert ("catalog.unpublished-possible" in codes) == (location == path), codes


def test_a_server_follows_a_name_to_another_table(
    server: FakeCatalog, managed: ManagedTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that was dropped is shared again when there is one of its name, without a restart."""
    monkeypatch.setattr("deltacli.catalogs.ratified.FRESH_SECONDS", -1.0)  # no answer of the catalog is used twice
    now = 0.0
    shared = SharedTable("s", "d", "t", ADDRESS, "id")
    snapshots = SharedSnapshots(
        clock=lambda: now, open_table=lambda table: open_table(table.location, catalog_profile=server.profile)
    )

    def files() -> tuple[int, int]:
        nonlocal now
        now += 2
        version = snapshots.newest_version(shared)
        return version, snapshots.at(shared, version).files.num_rows

    assert files() == (6, 7)
    (tmp_path / "other").mkdir()
    first, other = server.state.tables[NAME], ManagedTable(range(3), store=LocalStorage(str(tmp_path / "other")))
    assert other.store is not None
    other.server.location, other.server.uuid = f"file://{tmp_path}/other", "another"
    server.state.tables[NAME] = other.server
    assert files() == (2, 3)
    del server.state.tables[NAME]
    for _ in range(2):
        with pytest.raises(CatalogNameUnknown):
            files()
    server.state.tables[NAME] = first
    assert files() == (6, 7)


def test_a_server_asks_again_where_an_external_table_is(server: FakeCatalog, tmp_path: Path) -> None:
    now = 0.0
    shared = SharedTable("s", "d", "t", "uc://main.sales.external", "id")
    snapshots = SharedSnapshots(
        clock=lambda: now,
        open_table=lambda table: open_table(table.location, catalog_profile=server.profile, retry_budget=timedelta(0)),
    )
    for versions, name in ((3, "a"), (2, "b")):
        TableBuilder().commits(versions).write(tmp_path / name)
    table = server.add(shared.location, f"file://{tmp_path}/a")
    assert snapshots.newest_version(shared) == 2
    table.location = f"file://{tmp_path}/b"
    now = 299.0
    assert snapshots.newest_version(shared) == 2
    now = 301.0
    server.fail("GET", "/tables/external", answers(Said(503)))
    assert snapshots.newest_version(shared) == 2
    now = 602.0
    assert snapshots.newest_version(shared) == 1


def test_access_to_a_managed_table_is_that_to_its_location(server: FakeCatalog, managed: ManagedTable) -> None:
    for more in ([], ["--yes"]):
        found = run(server, "doctor", "access", ADDRESS, "--json", *more)
        states = {one["permission"]: one["state"] for one in found.document["permissions"]}
        assert (found.code, {*states.values()}) == (0, {"granted"})
        assert "doctor storage" not in found.err  # which is refused


def test_a_location_that_is_gone_is_a_divergence(server: FakeCatalog, managed: ManagedTable, tmp_path: Path) -> None:
    next(iter(server.state.tables.values())).location = (tmp_path / "gone").as_uri()
    found = run(server, "catalog", "status", ADDRESS, "--json")
    assert found.code == 1
    assert json.loads(found.out)["latestPublished"] is None


def test_what_no_repair_changes_is_led_elsewhere(server: FakeCatalog, managed: ManagedTable, tmp_path: Path) -> None:
    place = tmp_path / "lake" / "orders"  # whose files were never written
    words = ["validate", ADDRESS, "--level", "storage", "--select", "data.file-missing"]
    of_document = run(server, *words, "--json").document["tables"][0]["findings"][0]
    of_line = json.loads(run(server, *words, "--format", "ndjson").out.splitlines()[0])
    of_path = run(server, "validate", str(place), *words[2:], "--json").document["tables"][0]["findings"][0]
    table = run(server, *words)

    reach = f"deltacli reach {ADDRESS}"
    assert "restore" not in of_document["fix"]["repair"]
    assert [one["fix"]["command"] for one in (of_document, of_line, of_path)] == [None] * 3
    assert of_document["fix"]["repair"] == of_line["fix"]["repair"]
    assert reach in of_document["fix"]["repair"]
    assert "a catalog manages the table, so it cannot be repaired" in of_path["fix"]["repair"]
    assert (reach in table.out, "deltacli repair" in table.out + table.err) == (True, False)
    refused = run(server, "repair", ADDRESS, "--yes")
    assert refused.code == 4
    for command in (["doctor", "table", ADDRESS], ["vacuum", ADDRESS, "--dry-run"]):
        found = run(server, *command)
        assert (reach in found.out + found.err, "deltacli repair" in found.out + found.err) == (True, False), command


def test_advice_on_a_hint_is_a_checkpoint_that_cures_it(server: FakeCatalog, managed: ManagedTable) -> None:
    assert run(server, "checkpoint", ADDRESS).code == 0
    hint = json.loads(managed.store.read("_delta_log/_last_checkpoint"))
    managed.store.put("_delta_log/_last_checkpoint", json.dumps({**hint, "size": 10**6, "checksum": "0" * 32}).encode())
    words = ["validate", ADDRESS, "--select", "hint.*", "--json"]
    before = run(server, *words).document["tables"][0]["findings"]
    (advised,) = {one["fix"]["command"] for one in before}

    done = run(server, *advised.removeprefix("deltacli ").split())

    assert (done.code, run(server, *words).document["tables"][0]["findings"]) == (0, []), done.err
    assert all(advised in one["fix"]["repair"] for one in before)


@pytest.mark.parametrize("permitted", [None, ["METADATA_CLEANUP"]])
def test_staged_commits_below_a_checkpoint_are_one_line_with_permitted_advice(
    permitted: list[str] | None, server: FakeCatalog, managed: ManagedTable
) -> None:
    managed.server.operations = permitted
    # After a checkpoint of version 6 the staged files of 4 to 6 are left.
    assert run(server, "checkpoint", ADDRESS).code == 0

    found = run(server, "validate", ADDRESS, "--select", "log.staged-stale", "--json").document["tables"][0]["findings"]

    assert [one["message"] for one in found] == [
        "3 staged commits (versions 4-6) are covered by the checkpoint of version 6"
    ]
    assert ("log expire" in found[0]["fix"]["repair"]) == (permitted is not None)


def test_log_expire_of_a_path_leads_to_the_address_which_works(
    server: FakeCatalog, managed: ManagedTable, tmp_path: Path
) -> None:
    managed.server.operations = ["METADATA_CLEANUP"]
    words = ("--now", "2027-01-01T00:00:00Z", "--json")

    of_path = run(server, "log", "expire", str(tmp_path / "lake" / "orders"), "--log-format", "json", "--yes")
    of_name = run(server, "log", "expire", ADDRESS, "--yes", *words)

    assert (of_path.code, of_path.error["code"]) == (4, "catalog.managed")
    assert "uc://CATALOG.SCHEMA.TABLE" in of_path.error["hint"]
    assert of_name.code == 0, of_name.err


def test_python_asks_for_more_before_the_first_change(server: FakeCatalog, managed: ManagedTable) -> None:
    table = open_table(ADDRESS, catalog_profile=server.profile)

    assert table.snapshot().version == 6
    assert server.grants == [(NAME, "READ")]
    table.set_properties({"owner": "ops"})

    assert table.snapshot().version == 7
    assert server.state.tables[NAME].properties["owner"] == "ops"


def test_81_an_older_server_is_read_only(managed: ManagedTable) -> None:
    server = FakeCatalog(PREVIEW)
    server.state = managed.state
    try:
        read = run(server, "snapshot", ADDRESS, "--json")
        changed = run(server, "properties", ADDRESS, "set", "a=b", "--yes")
        from_python = open_table(ADDRESS, catalog_profile=server.profile)
        with pytest.raises(DeltacliError, match="too old to take commits"):
            from_python.set_properties({"a": "b"})
    finally:
        server.stop()

    assert (read.code, read.document["version"]) == (0, 6)
    assert (changed.code, "too old to take commits" in changed.err) == (4, True)
    assert server.asked("POST", "/commits") == 0
    assert len(managed.staged_names()) == 3


# -- external tables, with credentials of the catalog ------------------------------------------------------------------


def _external(server: FakeCatalog, s3: S3Server) -> str:
    """A table on S3 whose versions its log decides; return where it is."""
    bucket = s3.make_bucket()
    for path, file in TableBuilder().commits(2).files.items():
        s3.put(bucket, f"lake/orders/{path}", file.data)
    place = f"s3://{bucket}/lake/orders"
    server.add(ADDRESS, place)
    server.credentials = s3_credentials
    return place


def _opened(server: FakeCatalog, s3: S3Server, now: Callable[[], int]) -> Storage:
    retry = Retry(pause=lambda _: None)
    catalog = open_catalog(server.profile, retry)
    machine = Machine(now_ms=now)
    return open_in_catalog(catalog, ADDRESS, options={"endpoint_url": s3.url}, retry=retry, machine=machine)


@pytest.mark.usefixtures("no_keys")
def test_25_an_external_table_is_read_with_vended_keys(server: FakeCatalog, s3: S3Server) -> None:
    _external(server, s3)
    options = ["--storage-option", f"endpoint_url={s3.url}"]

    read = run(server, "snapshot", ADDRESS, "--json", *options)
    assert (read.code, read.document["version"], server.grants) == (0, 1, [(NAME, "READ")])
    server.grants.clear()
    changed = run(server, "properties", ADDRESS, "set", "a=b", "--yes", *options)

    assert changed.code == 0, changed.err
    assert server.grants == [(NAME, "READ_WRITE")]
    assert server.asked("POST") == 0


@pytest.fixture
def no_keys(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user has no keys of the store."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("no_keys")
def test_python_writes_to_an_external_table(server: FakeCatalog, s3: S3Server) -> None:
    _external(server, s3)
    table: Table = open_table(ADDRESS, catalog_profile=server.profile, storage_options={"endpoint_url": s3.url})
    table.snapshot()

    table.set_properties({"a": "b"})
    table.set_properties({"a": "c"})

    assert [operation for _, operation in server.grants] == ["READ", "READ_WRITE"]


def test_65_keys_that_end_meanwhile_are_renewed_once(server: FakeCatalog, s3: S3Server) -> None:
    _external(server, s3)
    now, tokens = [1_781_000_000_000], iter("ab")

    def other_keys(*given: Any) -> list[Body]:
        [found] = s3_credentials(*given)
        return [found | {"config": found["config"] | {"s3.session-token": f"token-{next(tokens)}"}}]

    server.credentials = other_keys
    store = _opened(server, s3, lambda: now[0])
    now[0] += 60_000
    s3.fail("GET", "0.json", says("400 Bad Request", "ExpiredToken"))

    assert store.read(f"_delta_log/{0:020d}.json")
    assert [operation for _, operation in server.grants] == ["READ", "READ"]


def test_66_keys_that_have_ended_are_asked_for_once(server: FakeCatalog, s3: S3Server) -> None:
    _external(server, s3)
    now = 1_781_000_000_000
    server.credentials = lambda *given: s3_credentials(*given, expires_ms=now - 1)

    with pytest.raises(DeltacliError) as found:
        _opened(server, s3, lambda: now)
    assert (found.value.exit_code, len(server.grants), s3.requests) == (7, 1, [])


def test_68_keys_of_another_place_are_not_tried(server: FakeCatalog, s3: S3Server) -> None:
    place = _external(server, s3)
    server.credentials = lambda *given: s3_credentials(*given, prefix=f"{place}2")

    with pytest.raises(DeltacliError) as found:
        _opened(server, s3, lambda: 0)
    assert (found.value.code, s3.requests) == ("catalog.denied", [])


def test_a_disk_of_another_machine_is_refused() -> None:
    from deltacli.catalogs.unity.answers import location_of

    with pytest.raises(DeltacliError, match="another machine"):
        location_of(ADDRESS, "file:///etc", is_local=False)


# -- where the catalog is ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "said"),
    [("prod", None), ("machine", None), ("plain", "is a secret"), ("nosuch", "has no [catalog.nosuch]")],
)
def test_the_catalog_of_a_configuration(
    server: FakeCatalog, managed: ManagedTable, tmp_path: Path, name: str, said: str | None
) -> None:
    server.tokens = {TOKEN}
    (tmp_path / "token.txt").write_text(f"{TOKEN if name == 'prod' else SECRET}\n")
    settings = tmp_path / "deltacli.toml"
    endpoint = json.dumps(server.url)
    settings.write_text(
        f"""
        [catalog.prod]
        endpoint = {endpoint}
        token = "@token.txt"
        [catalog.machine]
        endpoint = {endpoint}
        client-id = "{CLIENT}"
        client-secret = "@token.txt"
        [catalog.plain]
        endpoint = {endpoint}
        token = "{TOKEN}"
        """
    )

    found = deltacli("snapshot", ADDRESS, "--json", "--config", settings, "--catalog-profile", name)

    assert found.code == (0 if said is None else 2), found.err
    assert (said or "") in found.err
    assert TOKEN not in found.out + found.err


def test_the_configuration_may_choose(server: FakeCatalog, managed: ManagedTable, tmp_path: Path) -> None:
    settings = tmp_path / "deltacli.toml"
    settings.write_text(
        f'catalog_profile = "a"\n[profile.x]\ncatalog_profile = "b"\n'
        f'[catalog.a]\nendpoint = "{server.url}"\n[catalog.b]\nendpoint = "http://127.0.0.1:1"\n'
    )

    assert deltacli("snapshot", ADDRESS, "--config", settings).code == 0
    lost = deltacli("snapshot", ADDRESS, "--config", settings, "--profile-name", "x", "--retry-budget", "0s")
    assert (lost.code, "cannot be reached" in lost.err) == (7, True)


@pytest.mark.parametrize(
    ("settings", "code", "said"),
    [
        ('catalog_profile = ["a"]', 2, "catalog_profile in the configuration {} is not a string"),
        ('catalog_profile = "b"', 2, "catalog_profile = 'b': the configuration {} has no [catalog.b]"),
        ('token = "@binary"', 2, "[catalog.a] of the configuration {}: token: {directory}/binary is not text in UTF-8"),
        ('token = "@empty"', 2, "[catalog.a] of the configuration {}: the file of token, empty, is empty"),
        ('tokn = "@empty"', 2, "[catalog.a] of the configuration {} has an unknown key: tokn"),
        ("", 7, "hint: add a token to [catalog.a] of the configuration {}"),
    ],
)
def test_what_is_wrong_in_a_configuration_names_its_place(
    server: FakeCatalog, managed: ManagedTable, tmp_path: Path, settings: str, code: int, said: str
) -> None:
    server.tokens = {TOKEN}
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "empty").write_text("\n")
    path, catalog = tmp_path / "deltacli.toml", f'[catalog.a]\nendpoint = "{server.url}"\n'
    is_chosen = settings.startswith("catalog_profile")
    path.write_text(f"{settings}\n{catalog}" if is_chosen else f'catalog_profile = "a"\n{catalog}{settings}\n')
    said = said.format(path, directory=tmp_path)

    found = deltacli("snapshot", ADDRESS, "--config", path, UC_TOKEN=TOKEN)

    assert (found.code, said in found.err) == (code, True), found.err


@pytest.mark.parametrize(
    ("words", "environment", "code", "said"),
    [
        (["snapshot", ADDRESS], {}, 2, "no catalog is configured"),
        (["snapshot", ADDRESS], {"DATABRICKS_HOST": "127.0.0.1"}, 2, "but no credentials"),
        (["snapshot", "uc://main.sales"], {}, 2, "2 names instead of three"),
        (["snapshot", "uc://main.sales.*"], {}, 2, "is a pattern"),
        (["snapshot", ADDRESS, "--catalog-profile", "x"], {}, 2, "no configuration file"),
        (["snapshot", ADDRESS, "--catalog-profile", ""], {}, 2, "is empty"),
        (["catalog", "ls", ADDRESS], {}, 2, "neither a catalog nor a schema"),
    ],
)
def test_what_is_wrong_on_the_command_line(words: list[str], environment: dict[str, str], code: int, said: str) -> None:
    found = deltacli(*words, cwd=None, **environment)

    assert (found.code, said in found.err) == (code, True), found.err


@pytest.mark.parametrize(
    ("answer", "code", "name"),
    [
        (Said(401), 7, "catalog.denied"),
        (Said(403), 7, "catalog.denied"),
        (Said(503), 7, "catalog.unavailable"),
        (Said(200, b"<html>"), 3, "catalog.answer"),
    ],
)
def test_30_exit_codes(server: FakeCatalog, managed: ManagedTable, answer: Said, code: int, name: str) -> None:
    server.tokens = {TOKEN}
    server.fail("GET", LOAD, answers(answer))

    found = run(server, "snapshot", ADDRESS, "--log-format", "json")

    assert (found.code, found.error["code"]) == (code, name)
    assert "Traceback" not in found.err


def test_83_tokens_are_in_no_output(server: FakeCatalog, managed: ManagedTable) -> None:
    server.tokens = {TOKEN}
    shown = run(server, "snapshot", ADDRESS, "-vv")
    server.fail("GET", LOAD, answers(Said(400, f'{{"error":{{"message":"bad {TOKEN}"}}}}'.encode())))
    failed = run(server, "snapshot", ADDRESS, "-vv")

    assert (shown.code, failed.code) == (0, 3)
    assert TOKEN not in shown.out + shown.err + failed.out + failed.err


_DOCTORS = (["doctor", "table"], ["doctor", "access"])
_LOGS = (["log", "crc"], ["log", "expire", "--dry-run"])


@pytest.mark.parametrize(
    "words",
    [
        *(["snapshot"], ["snapshot", "--files"], ["history"], ["reach"], ["explain"], ["features"], ["properties"]),
        *(["vacuum", "--dry-run"], ["vacuum"], ["optimize", "--dry-run"], ["checkpoint"], ["stats"], *_DOCTORS, *_LOGS),
        ["restore", "--version", "0", "--dry-run"],
    ],
    ids=" ".join,
)
def test_text_names_the_table_as_the_user_does(words: list[str], server: FakeCatalog, managed: ManagedTable) -> None:
    location = run(server, "snapshot", ADDRESS, "--json").document["table"]
    path = words[:2] if words[0] in ("doctor", "log") else words[:1]

    shown = run(server, *path, ADDRESS, *words[len(path) :])

    talk = [line for line in (shown.out + shown.err).splitlines() if re.search(rf"{location}(?![/\w])", line)]
    assert [] == talk


def test_documents_have_the_location_of_the_table(server: FakeCatalog, managed: ManagedTable) -> None:
    document = run(server, "snapshot", ADDRESS, "--json").document

    assert document["table"].startswith("file:///")


# -- many tables -------------------------------------------------------------------------------------------------------


def test_catalog_ls(server: FakeCatalog, managed: ManagedTable) -> None:
    server.add("uc://main.hr.people", "s3://b/people")

    listed = run(server, "catalog", "ls", "uc://main", "--json").document
    rows = run(server, "catalog", "ls", "uc://main.sales", "--format", "csv").out.splitlines()

    assert [one["name"] for one in listed["items"]] == ["main.hr.people", "main.sales.orders"]
    assert listed["items"][0] == {"name": "main.hr.people", "type": "EXTERNAL", "format": "DELTA", "managed": False}
    assert rows == ["name,type,format,managed", "main.sales.orders,MANAGED,DELTA,true"]


@pytest.mark.parametrize("address", ["uc://", "UC://"])
def test_catalogs_are_listed_page_by_page(address: str, server: FakeCatalog, managed: ManagedTable) -> None:
    for catalog in ("prod", "dev"):
        server.add(f"uc://{catalog}.hr.people", "s3://b/people")

    listed = run(server, "catalog", "ls", address, "--json").document
    rows = run(server, "catalog", "ls", address, "--format", "csv").out.splitlines()

    assert "uc://" == listed["address"]
    assert [
        {"name": name, "type": "CATALOG", "format": "", "managed": False} for name in ("dev", "main", "prod")
    ] == listed["items"]
    assert ["name,type,format,managed", "dev,CATALOG,,false"] == rows[:2]


@pytest.mark.parametrize("address", ["uc://", "uc://main", "uc://main.sales"])
@pytest.mark.parametrize("command", ["snapshot", "vacuum", "alter"])
def test_what_is_above_tables_names_the_command_that_lists_it(
    command: str, address: str, server: FakeCatalog, managed: ManagedTable
) -> None:
    words = ["drop", "x"] if command == "alter" else []

    refused = run(server, command, address, *words)

    assert 2 == refused.code
    assert f"hint: deltacli catalog ls {address}" == refused.err.splitlines()[-1]
    assert 0 == run(server, "catalog", "ls", address).code


@pytest.mark.parametrize(
    ("answer", "code"), [(Said(403), 7), (Said(503), 7), (Said(200, b"<html>"), 3), (Said(200, b'{"catalogs": 1}'), 3)]
)
def test_catalogs_that_cannot_be_listed_are_an_error(answer: Said, code: int, server: FakeCatalog) -> None:
    server.fail("GET", "/catalogs", *[answers(answer)] * 50)

    assert code == run(server, "catalog", "ls", "uc://").code


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["ls", "uc://"], "catalog-ls"),
        (["ls", "uc://main.sales"], "catalog-ls"),
        (["status", ADDRESS], "catalog-status"),
        (["staged", ADDRESS], "catalog-staged"),
        (["publish", ADDRESS, "--dry-run"], "catalog-publish"),
        (["publish", ADDRESS, "--yes"], "catalog-publish"),
    ],
)
def test_documents_and_lines_have_their_schemas(
    server: FakeCatalog, managed: ManagedTable, words: list[str], kind: str
) -> None:
    document = run(server, "catalog", *words, "--json").document
    lines = [json.loads(line) for line in run(server, "catalog", *words, "--format", "ndjson").out.splitlines()]

    assert document["kind"] == f"deltacli.{kind}"
    assert not faults(document, f"deltacli.{kind}")
    assert [] == [fault for line in lines for fault in line_faults(line)]


def test_50_and_57_what_is_published_is_reported_once(server: FakeCatalog, managed: ManagedTable) -> None:
    planned = run(server, "catalog", "publish", ADDRESS, "--dry-run", "--json").document
    refused = run(server, "catalog", "publish", ADDRESS)
    assert (planned["published"], refused.code, server.asked("POST")) == ([4, 5, 6], 4, 0)

    done = run(server, "catalog", "publish", ADDRESS, "--yes", "--json").document
    again = run(server, "catalog", "publish", ADDRESS, "--yes", "--json").document

    assert (done["published"], done["latestPublished"], again["published"]) == ([4, 5, 6], 6, [])
    assert server.asked("POST") == 1
    assert managed.published_versions() == [*range(7)]


def test_84_a_property_that_differs_is_named(server: FakeCatalog, managed: ManagedTable) -> None:
    agreed = run(server, "catalog", "status", ADDRESS, "--json")
    managed.now.properties["delta.checkpointPolicy"] = "classic"
    differs = run(server, "catalog", "status", ADDRESS, "--json")

    assert (agreed.code, agreed.document["divergence"]) == (0, [])
    assert [one["version"] for one in agreed.document["unpublished"]] == [4, 5, 6]
    found = {"kind": "property", "name": "delta.checkpointPolicy", "log": "v2", "catalog": "classic"}
    assert (differs.code, differs.document["divergence"]) == (1, [found])


def test_a_path_is_no_table_of_a_catalog(server: FakeCatalog, managed: ManagedTable, tmp_path: Path) -> None:
    found = run(server, "catalog", "status", str(tmp_path / "lake" / "orders"), "--log-format", "json")

    assert (found.code, found.error["code"]) == (2, "catalog.not-managed")


@pytest.mark.parametrize("verb", ["status", "staged", "publish"])
def test_an_external_table_has_versions_of_its_own(server: FakeCatalog, verb: str, tmp_path: Path) -> None:
    TableBuilder().commit(protocol(1, 2), metadata()).write(tmp_path / "t")
    server.add("uc://main.sales.external", f"file://{tmp_path}/t")

    found = run(server, "catalog", verb, "uc://main.sales.external", "--log-format", "json")
    with pytest.raises(DeltacliError) as raised:
        open_table("uc://main.sales.external", catalog_profile=server.profile).status_catalog()

    assert (found.code, found.error["code"]) == (2, "catalog.not-managed")
    assert "external" in found.error["message"]
    assert "external" in raised.value.message
    assert run(server, *str(found.error["hint"]).removeprefix("deltacli ").split()).code == 0


def test_a_checkpoint_says_what_it_publishes_first(server: FakeCatalog, managed: ManagedTable) -> None:
    first, again = (run(server, "checkpoint", ADDRESS) for _ in range(2))

    assert "published versions 4-6 first" in first.err
    assert "published" not in again.err


def test_a_report_within_another_says_no_more_than_why(server: FakeCatalog, managed: ManagedTable) -> None:
    managed.server.operations = None
    found = run(server, "reach", ADDRESS)

    assert "vacuum is not possible: the catalog does not permit" in found.out


def test_a_fleet_finds_the_tables_of_a_schema(server: FakeCatalog, managed: ManagedTable, tmp_path: Path) -> None:
    for name in ("others", "lines"):
        server.add(f"uc://main.sales.{name}", f"file://{tmp_path}/lake/{name}")
    server.others[NAME._replace(table="orc")] = {"table_type": "EXTERNAL", "data_source_format": "ORC"}
    policy = tmp_path / "fleet.toml"
    policy.write_text(
        '[policies.p.checkpoint]\n[groups.g]\npolicy = "p"\n'
        'tables = ["uc://main.sales.o*"]\nexclude = ["uc://main.sales.oth*"]\n'
    )

    found = run(server, "fleet", "plan", str(policy), "--state", str(tmp_path / "state"), "--json")

    assert [one["table"] for one in found.document["tables"]] == [ADDRESS], found.err


def test_a_fleet_maintains_the_tables_of_a_schema(server: FakeCatalog, managed: ManagedTable, tmp_path: Path) -> None:
    policy = tmp_path / "fleet.toml"
    steps = "checkpoint = { commits = 3 }\nvalidate = { every = '1d' }"
    policy.write_text(f'[policies.p]\n{steps}\n[groups.g]\npolicy = "p"\ntables = ["uc://main.sales.*"]\n')
    words = (str(policy), "--state", str(tmp_path / "state"), "--json")

    done = run(server, "fleet", "run", *words)
    again = run(server, "fleet", "plan", *words)

    assert done.code == 0, done.err
    (table,) = done.document["tables"]
    assert {(step["kind"], step["state"]) for step in table["steps"]} == {("checkpoint", "done"), ("validate", "done")}
    assert again.document["tables"][0]["steps"] == []
    assert len([*(tmp_path / "lake" / "orders" / "_delta_log").glob(f"{6:020d}.checkpoint.*")]) == 1


def test_a_catalog_that_does_not_answer_is_a_failure_of_its_group(tmp_path: Path) -> None:
    policy = tmp_path / "fleet.toml"
    policy.write_text('[policies.p.checkpoint]\n[groups.g]\npolicy = "p"\ntables = ["uc://main.sales.*"]\n')

    def expand(pattern: str) -> list[str]:
        return [str(one.name) for one in catalog.tables_of("main", "sales")]

    catalog = open_catalog({"endpoint": "http://127.0.0.1:1"}, Retry(0.0))
    file = read_fleet_file(str(policy))
    found = discover(file.groups, LocalStorage, EmbeddedEngine(), expand=expand)

    assert file.problems == ()
    assert [(one.name, one.fault.code) for one in found.failures] == [("uc://main.sales.*", "catalog.unavailable")]
