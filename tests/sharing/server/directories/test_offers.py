"""How tables may be read, as lists and metadata say it; what is said about shares; and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deltacli.core.errors import UsageError
from deltacli.sharing.configuration.settings import Configuration, Settings
from deltacli.sharing.configuration.share_check import check_configuration
from deltacli.sharing.model import AccessMode, Catalog, Share, SharedSchema, SharedTable
from deltacli.sharing.tables.directory_refusals import refusal_now
from deltacli.sharing.tables.snapshots import SharedSnapshots
from tests.sharing.configuration.files import read_text
from tests.sharing.served import DELTA, Served, shared
from tests.sharing.server.directories.offered import BOTH, CREDENTIALS, ROLE, TABLE, plain_table, stored
from tests.support.actions import add, deletion_vector, metadata, protocol
from tests.support.builder import TableBuilder
from tests.support.s3 import S3Server

TABLES = "/shares/sales/schemas/main/tables"
ALL_TABLES = "/shares/sales/all-tables"


@pytest.fixture
def bucket(s3: S3Server) -> str:
    return s3.make_bucket()


def asked(s3: S3Server, bucket: str, *modes: AccessMode, **fields: Any) -> Served:
    table = stored(s3, plain_table(), bucket, access_modes=modes, **fields)
    return Served((replace(table, delegation=replace(table.delegation, sts_endpoint=s3.url)),))


def test_lists_and_metadata_agree_on_how_a_table_may_be_read(s3: S3Server, bucket: str) -> None:
    served = asked(s3, bucket, *BOTH, auxiliary_locations=(f"s3a://{bucket}/moved/an old one/",))
    access = {
        "location": f"s3://{bucket}/grid/t1",
        "accessModes": ["url", "dir"],
        "auxiliaryLocations": [f"s3://{bucket}/moved/an%20old%20one"],
    }

    for path in (TABLES, ALL_TABLES):
        (item,) = served.get(path).json["items"]
        assert access.items() <= item.items()
    for answer in (served.table("/metadata"), served.query()):
        assert access.items() <= answer.lines[1]["metaData"].items()
    for answer in (served.table("/metadata", delta_sharing_capabilities=DELTA),):
        about = answer.lines[1]["metaData"]
        assert "deltaMetadata" in about or "schemaString" in about
        assert not access.keys() & about.get("deltaMetadata", {}).keys()


def test_in_delta_format_the_members_stand_beside_the_action(s3: S3Server, bucket: str) -> None:
    features = ["deletionVectors"]
    builder = TableBuilder().commit(
        protocol(3, 7, reader_features=features, writer_features=features),
        metadata(),
        add("a", vector=deletion_vector()),
    )
    table = stored(s3, builder, bucket)
    served = Served((replace(table, delegation=replace(table.delegation, sts_endpoint=s3.url)),))

    about = served.table("/metadata", delta_sharing_capabilities=DELTA).lines[1]["metaData"]
    assert {"deltaMetadata", "size", "numFiles", "location", "accessModes"} == about.keys()


def test_a_table_by_directory_only_has_metadata_and_no_files(s3: S3Server, bucket: str) -> None:
    served = asked(s3, bucket, AccessMode.DIR)

    assert ["dir"] == served.table("/metadata").lines[1]["metaData"]["accessModes"]
    assert "0" == served.table("/version").headers["delta-table-version"]
    for reply in (served.query(), served.table("/changes?startingVersion=0"), served.query(b'{"startingVersion":0}')):
        assert (400, "UNSUPPORTED_OPERATION") == (reply.status, reply.json["errorCode"])
        assert "directory" in reply.json["message"]


def test_what_is_not_configured_is_not_said(tmp_path: Path) -> None:
    plain_table().write(tmp_path / "t")
    served = Served((shared(tmp_path / "t"),))

    (item,) = served.get(TABLES).json["items"]
    assert {"name", "schema", "share", "id", "shareId"} == item.keys()
    about = served.table("/metadata").lines[1]["metaData"]
    assert not {"location", "accessModes", "auxiliaryLocations"} & about.keys()
    assert {"share": {"name": "Sales", "id": "share-id"}} == served.get("/shares/sales").json
    assert 400 == served.post(CREDENTIALS).status


def test_a_table_is_described_and_keeps_its_version(tmp_path: Path) -> None:
    plain_table().write(tmp_path / "t")
    served = Served((shared(tmp_path / "t"),))

    found, head = served.get(TABLE), served.send("HEAD", TABLE)
    item = {"name": "t", "schema": "Main", "share": "Sales", "id": "id-t", "shareId": "share-id", "format": "delta"}
    assert (200, item) == (found.status, found.json)
    assert "0" == head.headers["delta-table-version"] == found.headers["delta-table-version"]
    assert (200, b"") == (head.status, head.body)
    assert 404 == served.get(f"{TABLE}2").status


ASSETS = ["/shares/sales/schemas/main/volumes", "/shares/sales/schemas/main/volumes/v", "/shares/sales/all-volumes",
          "/shares/sales/schemas/main/volumes/v/temporary-volume-credentials", "/shares/sales/schemas/main/skills",
          "/shares/sales/schemas/main/models/m", "/iceberg/v1/config?warehouse=sales",
          "/iceberg/v1/shares/sales/namespaces/main/tables/t", f"{TABLE}/queries", f"{TABLE}/queries/q/x"]  # fmt: skip


@pytest.mark.parametrize("path", ASSETS)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_other_assets_are_missing_to_those_who_may_ask(tmp_path: Path, method: str, path: str) -> None:
    served = Served((shared(tmp_path / "t"),))

    assert 401 == served.send(method, path, headers={"Authorization": "Bearer wrong"}).status
    reply = served.send(method, path)
    assert (404, "RESOURCE_DOES_NOT_EXIST") == (reply.status, reply.json["errorCode"])


# -- what is said about shares -----------------------------------------------------------------------------------------

SHARE = "version: 1\nshares:\n- {{name: s, {}}}\n"


@pytest.mark.parametrize(
    "text",
    [
        f"displayName: {'x' * 255}",
        f"comment: '{'é' * 65_536}'",
        "properties: {" + ", ".join(f"k{number}: v" for number in range(50)) + "}",
        f"properties: {{{'k' * 255}: {'v' * 1_000}}}",
        "properties: {a: '1', b: \"yes\", c: plain text}",
        r'comment: "two\nlines"',
    ],
)
def test_metadata_of_a_share_reaches_recipients(tmp_path: Path, text: str) -> None:
    (share,) = read_text(tmp_path, SHARE.format(text)).catalog.shares
    served = Served(())
    served.state = replace(served.state, configuration=replace(served.state.configuration, catalog=Catalog((share,))))

    (item,) = served.get("/shares").json["items"]
    assert {"name", text.partition(":")[0]} == item.keys()
    assert {"share": item} == served.get("/shares/s").json


@pytest.mark.parametrize(
    "text",
    [
        f"displayName: {'x' * 256}",
        f"comment: {'x' * 65_537}",
        "properties: {" + ", ".join(f"k{number}: v" for number in range(51)) + "}",
        f"properties: {{{'k' * 256}: v}}",
        f"properties: {{k: {'v' * 1_001}}}",
        "properties: {k: 1}",
        "properties: {k: yes}",
        "properties: {k: 2026-01-01}",
        "properties: {k: [a]}",
        "displayName: 1.5",
        r'displayName: "a\eb"',
        r'displayName: "two\nlines"',
        r'comment: "\u202Ereversed"',
        "properties: text",
    ],
)
def test_metadata_beyond_the_limits_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match=r"shares\.yaml:3"):
        read_text(tmp_path, SHARE.format(text))


# -- tables that must not be given by directory ------------------------------------------------------------------------

ENTRY = """\
version: 1
shares:
- name: s
  accessModes: [url, dir]
  directoryAccess: {{roleArn: "{role}"}}
  schemas: [{{name: c, tables: [{{name: t, {}}}]}}]
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("location: 's3://lake/grid/t'", "historyShared is false"),
        ("location: 's3://lake/grid/t', historyShared: true, startVersion: 3", "startVersion is 3"),
        ("location: 's3://lake/grid/t', historyShared: true, cdfEnabled: false", "cdfEnabled is false"),
        ("location: 's3://lake', historyShared: true", "the root of a bucket"),
        ("location: 's3://lake/', historyShared: true", "the root of a bucket"),
        ("location: 'abfss://data@lakes.dfs.core.windows.net/', historyShared: true", "the root of a bucket"),
        ("location: /data/t, historyShared: true", "on a local disk"),
        ("location: 'file:///data/t', historyShared: true", "on a local disk"),
        ("location: 'hdfs://name/t', historyShared: true", "not one of a cloud store"),
        ("location: 'https://example.com/data/t', historyShared: true", "is not one of Azure"),
        ("location: 's3://lake/a//t', historyShared: true", "not one of a cloud store"),
        ("location: 's3://lake/a/../t', historyShared: true", "not one of a cloud store"),
        (f"location: 's3://lake/{'x' * 1_000}', historyShared: true", "session policy has 2,2"),
        ("location: 's3://lake/t', historyShared: true, storageOptions: {endpoint_url: 'https://m'}", "stsEndpoint"),
        ("location: 's3://lake/t', historyShared: true, auxiliaryLocations: ['s3://lake/']", "the root of a bucket"),
        ("location: 's3://lake/a/t', historyShared: true, auxiliaryLocations: ['s3://lake/a']", "at or above"),
        ("location: 's3://lake/a/t', historyShared: true, auxiliaryLocations: ['gs://lake/b']", "another cloud"),
    ],
)
def test_what_the_file_shows_keeps_the_server_from_starting(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_text(tmp_path, ENTRY.format(text, role=ROLE))

    assert "s.c.t must not be given by directory" in refused.value.message
    assert reason in refused.value.message
    assert "shares.yaml:6" in refused.value.message


@pytest.mark.parametrize(
    ("text", "modes"),
    [
        ("location: 's3://lake/grid/t', historyShared: true", BOTH),
        ("location: /data/t, accessModes: [url]", (AccessMode.URL,)),
        ("location: 's3://lake/grid/t', historyShared: true, accessModes: dir", (AccessMode.DIR,)),
        ("location: 'gs://lake/grid/t', historyShared: true, accessModes: [dir, url]", BOTH),
        ("location: 'az://data/t', historyShared: true, storageOptions: {account_name: lakes}", BOTH),
    ],
)
def test_modes_are_inherited_and_replaced(tmp_path: Path, text: str, modes: tuple[AccessMode, ...]) -> None:
    found = read_text(tmp_path, ENTRY.format(text, role=ROLE)).catalog.find_table("s", "c", "t")

    assert found is not None
    assert modes == found.access_modes
    assert ROLE == found.delegation.role_arn


@pytest.mark.parametrize(
    "text",
    ["accessModes: []", "accessModes: [DIR]", "accessModes: [dir, dir]", "accessModes: {}", "accessModes: [url, x]",
     "accessModes: [dir]", "directoryAccess: {roleArn: x}", "directoryAccess: {stsEndpoint: 'ftp://x'}",
     "auxiliaryLocations: ['s3://lake/b']"],
)  # fmt: skip
def test_wrong_values_are_named(tmp_path: Path, text: str) -> None:
    entry = ENTRY.replace('  directoryAccess: {{roleArn: "{role}"}}\n', "").replace("  accessModes: [url, dir]\n", "")
    with pytest.raises(UsageError, match=r"shares\.yaml:4"):
        read_text(tmp_path, entry.format(f"location: 's3://lake/a/t', historyShared: true, {text}"))


MANAGED = ["catalogManaged", "inCommitTimestamp"]
FORBIDDEN: dict[str, tuple[Callable[[], TableBuilder], str]] = {
    "absolute path": (
        lambda: plain_table().commit(add("s3://elsewhere/x", size=1)),
        "outside the table and its auxiliaryLocations",
    ),
    "path above": (lambda: plain_table().commit(add("../t2/x", size=1)), "outside the table"),
    "local path": (lambda: plain_table().commit(add("file:///x", size=1)), "outside the table"),
    "beside an auxiliary location": (lambda: plain_table().commit(add("s3://moved/t10/x", size=1)), "outside"),
    "vector": (
        lambda: TableBuilder().commit(
            protocol(3, 7, reader_features=["deletionVectors"], writer_features=["deletionVectors"]),
            metadata(),
            add("a", vector={**deletion_vector(), "storageType": "p", "pathOrInlineDv": "s3://elsewhere/x.bin"}),
        ),
        "outside the table",
    ),
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_what_the_log_shows_is_refused(s3: S3Server, bucket: str, what: str) -> None:
    builder, reason = FORBIDDEN[what]
    table = stored(s3, builder(), bucket, auxiliary_locations=("s3://moved/t1",))
    table = replace(table, delegation=replace(table.delegation, sts_endpoint=s3.url))

    snapshots = SharedSnapshots()
    assert reason in str(refusal_now(snapshots, table, snapshots.newest_version(table)))


def test_files_below_auxiliary_locations_are_no_strangers(s3: S3Server, bucket: str) -> None:
    builder = plain_table().commit(add("s3a://moved/t1/x%20y", size=1))
    table = stored(s3, builder, bucket, auxiliary_locations=("s3://moved/t1",))
    table = replace(table, delegation=replace(table.delegation, sts_endpoint=s3.url))

    assert refusal_now(SharedSnapshots(), table, 1) is None


def checked(table: SharedTable) -> list[str]:
    catalog = Catalog((Share("Sales", (SharedSchema("Sales", "Main", (table,)),)),))
    report = check_configuration(Configuration(Path("shares.yaml"), catalog, Settings()), None, 0, has_files=False)
    return [problem.message for problem in report.all_problems if problem.code == "share.directory"]


def test_a_check_finds_tables_within_tables(s3: S3Server, bucket: str) -> None:
    table = stored(s3, plain_table(), bucket, key="grid/t1")
    table = replace(table, delegation=replace(table.delegation, sts_endpoint=s3.url))
    assert [] == checked(table)
    stored(s3, plain_table(), bucket, key="grid/t10")
    assert [] == checked(table)

    inner = stored(s3, plain_table(), bucket, key="grid/t1/below/inner")
    (message,) = checked(table)
    assert "Sales.Main.t must not be given by directory: another table is below it, at below/inner" == message
    inner = replace(inner, delegation=table.delegation)
    assert [
        "Sales.Main.t must not be given by directory: it is inside another table, whose directory shows this one, too"
    ] == checked(inner)


def test_a_check_names_files_elsewhere(s3: S3Server, bucket: str) -> None:
    table = stored(s3, FORBIDDEN["absolute path"][0](), bucket, access_modes=(AccessMode.DIR,))
    table = replace(table, delegation=replace(table.delegation, sts_endpoint=s3.url))

    (message,) = checked(table)
    assert message.startswith("Sales.Main.t must not be given by directory: its log names files outside")
