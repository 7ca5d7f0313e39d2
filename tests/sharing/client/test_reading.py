"""Reading shares by commands and from Python: the same results as for a directory, and what is sent for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from jsonschema import Draft202012Validator

import deltacli
from deltacli.api.table import Table
from deltacli.cli.app import run
from deltacli.core.errors import UsageError
from deltacli.delta.schema.types import parse_schema
from deltacli.operations.read.snapshot import summarize
from deltacli.sharing import Client
from deltacli.sharing.client.share_storage import json_hint
from tests.cli.support import ROOT, Result
from tests.sharing.client.serving import Asked, Proxy, Sent, proxied
from tests.sharing.served import shared
from tests.support.actions import add, commit_info, metadata, protocol
from tests.support.builder import TableBuilder
from tests.support.rows import parquet_bytes, schema_of
from tools.screens import run_on_terminal

ROWS = [pa.table({"id": pa.array([number, number + 10]), "day": ["a", "b"]}) for number in range(3)]
CONFIGURATION = {"delta.enableChangeDataFeed": "true"}

Run = Callable[..., Result]


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    """A table of three versions with a file each, and statistics; another one without history."""
    builder = TableBuilder()
    for number, rows in enumerate(ROWS):
        path, data = f"part-{number}.parquet", parquet_bytes(rows)
        builder.file(path, data)
        stats = {"numRecords": 2, "minValues": {"id": number}, "maxValues": {"id": number + 10}, "nullCount": {"id": 0}}
        head = [protocol(1, 4), metadata(schema_string=schema_of(rows), configuration=CONFIGURATION)]
        builder.commit(commit_info(), *(head if not number else []), add(path, size=len(data), stats=json.dumps(stats)))
    place = builder.write(tmp_path / "t")
    with proxied(tmp_path, shared(place), shared(place, "newest", history_shared=False)) as proxy:
        yield proxy


@pytest.fixture
def command(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `deltacli` in this process."""
    for name in ("DELTACLI_FORMAT", "DELTACLI_CONFIG"):
        monkeypatch.delenv(name, raising=False)

    def run_here(*arguments: str) -> Result:
        code = run(list(arguments))
        out, err = capfdbinary.readouterr()
        return Result(code, out.decode(), err.decode())

    return run_here


@pytest.mark.parametrize(
    "arguments",
    [
        ("read", "--columns", "id"),
        ("read", "--where", "id > 10"),
        ("read", "--version", "1"),
        ("changes", "--from", "1"),
        ("snapshot", "--schema"),
    ],
)
def test_reading_commands_print_what_they_print_of_the_directory(
    proxy: Proxy, command: Run, arguments: tuple[str, ...]
) -> None:
    name, *options = arguments
    local = proxy.served.tables[0].location

    shared_ = command(name, proxy.address(), *options, "--format", "csv")
    direct = command(name, local, *options, "--format", "csv")

    assert (0, 0) == (direct.code, shared_.code), shared_.err
    assert sorted(direct.out.splitlines()) == sorted(shared_.out.splitlines())


def test_snapshot_does_not_miss_a_log_that_is_not_shared(proxy: Proxy, command: Run) -> None:
    newest, older = command("snapshot", proxy.address()), command("snapshot", proxy.address(), "--version", "1")

    assert ["version", "2"] in [line.split() for line in newest.out.splitlines()]
    assert "1, committed 2023-11-14 22:13:21 UTC" in older.out
    assert not {"protocol", "rebuilt"} & {line.partition(" ")[0] for line in newest.out.splitlines()}
    assert "" == newest.err + older.err


def test_history_tells_versions_and_times(proxy: Proxy, command: Run) -> None:
    found = command("history", proxy.address(), "--json", "--counts", "--limit", "2")
    refused = command("history", proxy.address("newest"), "--json")
    asked = [command("changes", proxy.address("newest"), "--from", "1"), command("history", proxy.address("newest"))]

    items = json.loads(found.out)["items"]
    assert [(2, 1), (1, 1)] == [(item["version"], item["addedFiles"]) for item in items]
    assert 3 == refused.code
    assert "share.request" in refused.err
    assert ["a change data feed", "listing versions"] == [
        said.err.partition("request: ")[2].partition(" needs the history of the table Sales.Main.newest")[0]
        for said in asked
    ]
    assert all(
        said.err.endswith("hint: ask the provider of the share to share the history of the table\n") for said in asked
    )


@pytest.mark.parametrize(
    "command_line",
    ["vacuum T --dry-run", "checkpoint T", "properties T set a=b", "log expire T", "widen-type T id long --dry-run"],
)
def test_commands_that_write_are_refused(proxy: Proxy, command: Run, command_line: str) -> None:
    found = command(*(proxy.address() if word == "T" else word for word in command_line.split()))

    assert (2, True) == (found.code, "a shared table is read-only" in found.err), found
    assert [] == proxy.asked


def test_reach_is_refused_because_a_share_has_no_log(proxy: Proxy, command: Run) -> None:
    found = command("reach", proxy.address())

    assert (2, True) == (found.code, "Delta tables only" in found.err), found
    assert "hint: deltacli snapshot" in found.err  # the history may not be shared


def test_ls_lists_tables_and_its_document_is_that_of_the_schema(proxy: Proxy, command: Run) -> None:
    table = command("share", "ls", f"{proxy.profile}#sales")
    document = json.loads(command("share", "ls", f"{proxy.profile}#Sales.Main", "--json").out)
    absent = command("share", "ls", f"{proxy.profile}#nothing")

    assert ["share", "Sales", "Sales"] == [line.split()[0] for line in table.out.splitlines()]
    schema = json.loads((ROOT / "docs" / "schemas" / "deltacli.share-ls.json").read_text())
    Draft202012Validator(schema).validate(document)
    assert ["newest", "t"] == [item["table"] for item in document["items"]]
    assert (3, True) == (absent.code, "no share of the profile is named nothing" in absent.err)


def test_a_table_that_is_shared_by_directory_only_is_shown_as_such(proxy: Proxy, command: Run) -> None:
    modes = {"newest": ["DIR"], "t": ["url", "dir"]}

    def plant(asked: Asked, truly: Callable[[], Sent]) -> Sent:
        sent = truly()
        if not asked.target.partition("?")[0].endswith("/all-tables"):
            return sent
        document = json.loads(sent.body)
        document["items"] = [item | {"accessModes": modes[item["name"]]} for item in document["items"]]
        return replace(sent, body=json.dumps(document).encode())

    proxy.plant = plant
    table = command("share", "ls", f"{proxy.profile}#Sales")
    document = json.loads(command("share", "ls", f"{proxy.profile}#Sales", "--json").out)

    schema = json.loads((ROOT / "docs" / "schemas" / "deltacli.share-ls.json").read_text())
    Draft202012Validator(schema).validate(document)
    assert {"newest": ["dir"], "t": ["url", "dir"]} == {
        item["table"]: item["accessModes"] for item in document["items"]
    }
    assert ["accessModes", "dir", "url dir"] == [" ".join(line.split()[3:]) for line in table.out.splitlines()]


def test_head_asks_for_the_files_of_a_few_rows_only(proxy: Proxy, command: Run) -> None:
    found = command("share", "head", proxy.address(), "-n", "2", "--format", "csv")

    assert 3 == len(found.out.splitlines())
    assert [{"limitHint": 2, "includeRefreshToken": True}] == [
        asked.json for asked in proxy.asked if asked.target.endswith("/query")
    ]
    assert 1 == len({asked.target for asked in proxy.asked if asked.is_for_file})


def test_schema_lists_no_files(proxy: Proxy, command: Run) -> None:
    found = command("share", "schema", proxy.address())

    assert "├── id: long\n└── day: string\n" in found.out
    assert [] == [asked for asked in proxy.asked if asked.target.endswith("/query")]


def test_a_condition_is_sent_and_applied_again(proxy: Proxy) -> None:
    rows = Client(proxy.profile).table("sales.main.t").read(where="id >= 12 AND day = 'b'").read_all()

    hint = {
        "op": "and",
        "children": [
            _comparison("greaterThanOrEqual", "id", "long", "12"),
            _comparison("equal", "day", "string", "b"),
        ],
    }
    (query,) = (asked.json for asked in proxy.asked if asked.target.endswith("/query"))
    assert hint == json.loads(query["jsonPredicateHints"])
    assert [{"id": 12, "day": "b"}] == rows.to_pylist()
    assert 1 == len({asked.target for asked in proxy.asked if asked.is_for_file})


def _comparison(operator: str, column: str, kind: str, value: str) -> dict[str, Any]:  # Any: JSON values
    children = [
        {"op": "column", "name": column, "valueType": kind},
        {"op": "literal", "value": value, "valueType": kind},
    ]
    return {"op": operator, "children": children}


@pytest.mark.parametrize(
    "where, operators",
    [
        ("NOT id = 5", None),
        ("id <> 5", None),
        ("id IS NOT NULL", None),
        ("x > 1.5", None),
        ("id = 1 OR x = 2.0", None),
        ("id = 1 AND x = 2.0", "equal"),
        ("id IN (1, 2)", "or"),
        ("d < DATE '2026-01-02'", "lessThan"),
        ("id IS NULL", "isNull"),
        ("day LIKE 'a%'", None),
        ("s.inner = 1", None),
        ("day > 'é'", "greaterThan"),
        ("day > '\uff5e'", None),
        ("day IN ('a', '\U0001f600')", None),
    ],
)
def test_only_what_every_server_evaluates_alike_is_sent(where: str, operators: str | None) -> None:
    fields = [("id", "long"), ("x", "double"), ("day", "string"), ("d", "date")]
    listed: list[dict[str, Any]] = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields
    ]
    inner = {"type": "struct", "fields": [{"name": "inner", "type": "long", "nullable": True, "metadata": {}}]}
    listed.append({"name": "s", "type": inner, "nullable": True, "metadata": {}})

    hint = json_hint(where, parse_schema(json.dumps({"type": "struct", "fields": listed})))

    assert operators == (None if hint is None else json.loads(hint)["op"])


def test_the_client_has_typed_results(proxy: Proxy) -> None:
    client = Client(proxy.profile)

    assert ["Sales"] == [share.name for share in client.shares()]
    assert ["Main"] == [schema.name for schema in client.schemas("sales")]
    tables = client.tables()
    assert ["Sales.Main.newest", "Sales.Main.t"] == [str(table.full_name) for table in tables]
    table = client.table(tables[1])
    assert (2, 3, pa.int64()) == (table.version(), table.metadata().files, table.metadata().arrow_schema.field(0).type)
    assert 6 == table.snapshot().scan().to_arrow().num_rows
    assert 2 == table.changes(from_version=2).read_all().num_rows
    wrong: Any = {"limit": "3"}, {"where": 5}
    for given in wrong:
        with pytest.raises(UsageError, match="expected"):
            table.read(**given)
    with pytest.raises(UsageError, match="expected a name"):
        client.table(wrong)
    with pytest.raises(UsageError):
        client.table("only.two")


def test_open_table_takes_an_address(proxy: Proxy) -> None:
    table = deltacli.open_table(proxy.address())

    assert 2 == table.snapshot().version
    assert 4 == table.snapshot(version=1).scan().to_arrow().num_rows
    with pytest.raises(UsageError, match="read-only"):
        table.checkpoint()


def test_validate_checks_what_a_client_can_see(proxy: Proxy, command: Run) -> None:
    """
    Rules about the log, which the client makes itself, are left out.
    """
    listed = command("validate", proxy.address(), "--level", "storage", "--format", "json")
    left_out = json.loads(listed.out)["tables"][0]["notChecked"]
    assert ["whether the files exist at the provider of the share: --level footers does"] == left_out
    found = command("validate", proxy.address(), "--level", "data", "--format", "json")

    document = json.loads(found.out)
    findings = [finding for table in document["tables"] for finding in table["findings"]]
    assert (0, []) == (found.code, [(finding["rule"], finding["seen"]) for finding in findings])


def test_no_later_version_is_named_for_a_feed_that_is_off(tmp_path: Path, command: Run) -> None:
    builder = TableBuilder()
    for number, value in enumerate(("false", "true", "false")):
        about = metadata(schema_string=schema_of(ROWS[0]), configuration={"delta.enableChangeDataFeed": value})
        builder.commit(*([] if number else [protocol(1, 4)]), about)
        with proxied(tmp_path, shared(builder.write(tmp_path / f"t{number}"))) as proxy:
            refused = command("changes", proxy.address(), "--from", "0")
            hint = "read from a later version" if value == "true" else "ask the provider of the share to enable"
            assert (3, True) == (refused.code, hint in refused.err), refused


@pytest.mark.parametrize("limit", [2**31 - 1, 2**31, 2**63 - 1])
def test_a_limit_may_be_larger_than_a_hint(proxy: Proxy, command: Run, limit: int) -> None:
    found = command("read", proxy.address(), "--limit", str(limit), "--format", "csv")

    assert (0, 7) == (found.code, len(found.out.splitlines())), found.err


def test_a_time_after_the_newest_version_leads_to_that(proxy: Proxy, command: Run) -> None:
    refused = command("read", proxy.address(), "--timestamp", "2099-01-01")

    assert (3, True) == (refused.code, "hint: read the newest version" in refused.err), refused.err


def test_features_of_the_parquet_format_are_not_made_up(proxy: Proxy, command: Run) -> None:
    features = command("features", proxy.address())
    keys = ("delta.appendOnly", "delta.enableChangeDataFeed")
    of_one = [command("properties", proxy.address(), "get", key) for key in keys]
    of_all = command("properties", proxy.address(), "--json")

    assert (2, "", True) == (features.code, features.out, "not have the protocol of the table" in features.err)
    assert [2, 0] == [one.code for one in of_one], of_one
    assert "not have these properties of the table" in of_one[0].err
    assert [["delta.enableChangeDataFeed"], True] == [
        [one["key"] for one in of_all.document["properties"]],
        "other properties are unknown" in of_all.err,
    ]


def test_a_feature_that_no_reader_needs_is_not_missing(tmp_path: Path, command: Run) -> None:
    """
    This client supports it, so the server leaves it in the protocol, beside the property that goes with it.
    """
    rows = pa.table({"at": pa.array([1], pa.timestamp("us"))})
    schema = schema_of(rows).replace('"timestamp"', '"timestamp_ntz"')
    features = ["deletionVectors", "timestampNtz"]
    both = protocol(3, 7, reader_features=features, writer_features=features)
    about = metadata(schema_string=schema, configuration={"delta.enableDeletionVectors": "true"})
    data = parquet_bytes(rows)
    table = TableBuilder().commit(both, about, add("a", size=len(data))).file("a", data)
    with proxied(tmp_path, shared(table.write(tmp_path / "t"))) as proxy:
        listed = command("features", proxy.address(), "--json").document
        found = command("validate", proxy.address(), "--json").document

    assert features == listed["protocol"]["readerFeatures"]
    assert [] == found["tables"][0]["findings"]


def test_the_next_level_of_a_share_is_one_that_looks_at_files(proxy: Proxy, tmp_path: Path) -> None:
    _, shown = run_on_terminal(f"deltacli validate {proxy.address()!r}", tmp_path)

    assert "--level footers" in shown, shown
    assert "--level storage" not in shown


def test_what_a_share_does_not_tell_is_unknown(tmp_path: Path) -> None:
    data = parquet_bytes(pa.table({"id": pa.array([1])}))
    about = [protocol(1, 2), metadata(schema_string=schema_of(pa.table({"id": pa.array([1])})))]
    table = (
        TableBuilder()
        .commit(*about)
        .commit(add("a", size=len(data)))
        .commit(metadata(schema_string=about[1]["metaData"]["schemaString"], configuration={"k": "v"}))
        .file("a", data)
    )
    with proxied(tmp_path, shared(table.write(tmp_path / "t"))) as proxy:
        of_share = Table(proxy.store())
        times = {item.version: item.time for item in of_share.history().items}
        document = summarize(of_share).as_json()

    assert times.pop(1) is not None
    assert {None} == set(times.values())
    assert (None, {"problems": []}) == (document["protocol"], document["logSegment"])
