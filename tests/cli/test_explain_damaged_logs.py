"""`explain` of a table with an error in its log: no where an engine was measured that fails, unknown where none was."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli import open_table
from tests.cli.support import deltacli
from tests.docs.test_schemas import faults
from tests.support.actions import add, metadata, protocol, remove
from tests.support.builder import TableBuilder, commit_path

Json = dict[str, Any]  # Any: JSON values
MEASURED = {"spark", "kernel", "deltalake", "duckdb", "polars", "chdb"}
RUST = {"deltalake", "duckdb", "polars", "chdb"}
KERNELS = {"kernel", *RUST}
LISTS = ["deletionVectors"]
OPTIONS_OF_NULL = {"provider": "parquet", "options": None}


def explain(root: Path, *arguments: str) -> Json:
    found = deltacli("explain", root, *arguments, "--json")
    assert found.code == 0, found.err
    document: Json = found.document
    assert not faults(document, "deltacli.explain")
    return document


def readers(root: Path) -> tuple[set[str], set[str]]:
    """Return the measured clients that do not read a table, and all whose answer is unknown."""
    clients = explain(root)["clients"]
    refusing = {one["name"] for one in clients if one["reads"] is False}
    return refusing, {one["name"] for one in clients if one["reads"] is None}


def plain() -> TableBuilder:
    return TableBuilder().commit(protocol(1, 2), metadata(), add("a"))


def with_line(line: str) -> TableBuilder:
    """A table of two commits, the second of which has one more line."""
    table = plain().commit(add("b"))
    commit = table.files[commit_path(1)]
    return table.file(commit_path(1), commit.data + line.encode(), modified_ms=commit.modified_ms)


def with_file(name: str, content: bytes) -> TableBuilder:
    return plain().file(f"_delta_log/{name}", content)


def of_protocol(**action: Any) -> TableBuilder:
    return TableBuilder().commit({"protocol": action}, metadata(), add("a"))


def with_format(**changes: Any) -> TableBuilder:
    meta = metadata()
    meta["metaData"] |= changes
    return TableBuilder().commit(protocol(1, 2), meta, add("a"))


def with_checkpoint(*, has_hint: bool) -> TableBuilder:
    """A table whose hint names a checkpoint of version 0, which it has or not."""
    hint = b'{"version":0,"size":3}' if has_hint else b"junk"
    return plain().commit(add("b")).file("_delta_log/_last_checkpoint", hint)


CASES: dict[str, tuple[Callable[[], TableBuilder], str, set[str]]] = {
    "blank in a path": (lambda: plain().commit(add("a b")), "path.not-encoded", {"spark", "kernel"}),
    "hash in a path": (lambda: plain().commit(add("a#b")), "path.not-encoded", {"spark", "deltalake"}),
    "colon in a directory": (lambda: plain().commit(add("t=03:06/b")), "path.colon", {"spark", "kernel"}),
    "name before a colon": (lambda: plain().commit(add("a:b")), "path.colon", {"spark", "kernel", "deltalake"}),
    "blank in a removed path": (lambda: plain().commit(remove("a b")), "path.not-encoded", {"spark", "kernel"}),
    "temporary file": (lambda: with_file(f"{3:020d}.tmp.json", b"junk"), "log.name-mistaken", {"kernel"}),
    "blank line": (lambda: with_line("\n"), "commit.crlf-or-blank", {"kernel"}),
    "text as commitInfo": (lambda: with_line('{"commitInfo":"x"}\n'), "commitinfo.not-object", {"spark"}),
    "NaN": (lambda: with_line('{"commitInfo":{"x":NaN}}\n'), "commit.number-not-finite", KERNELS),
    "hint of a missing checkpoint": (lambda: with_checkpoint(has_hint=True), "hint.checkpoint-missing", RUST),
    "checksum of a later version": (
        lambda: with_file(f"{9:020d}.crc", b"{}"),
        "crc.without-commit",
        {"kernel", "deltalake", "polars"},
    ),
    "no lists": (
        lambda: of_protocol(minReaderVersion=3, minWriterVersion=7),
        "protocol.reader-features-missing",
        {"spark", *RUST},
    ),
    "lists of old versions": (
        lambda: of_protocol(minReaderVersion=1, minWriterVersion=2, readerFeatures=[], writerFeatures=[]),
        "protocol.features-on-legacy",
        {"spark", *RUST},
    ),
    "reader 3 with writer 6": (
        lambda: of_protocol(minReaderVersion=3, minWriterVersion=6, readerFeatures=LISTS),
        "protocol.reader3-needs-writer7",
        {"spark", *RUST},
    ),
    "only for readers": (
        lambda: of_protocol(minReaderVersion=3, minWriterVersion=7, readerFeatures=LISTS, writerFeatures=[]),
        "protocol.reader-only-feature",
        RUST,
    ),
    "only for writers": (
        lambda: of_protocol(minReaderVersion=3, minWriterVersion=7, readerFeatures=[], writerFeatures=LISTS),
        "protocol.rw-feature-not-in-reader",
        RUST,
    ),
    "format without options": (
        lambda: with_format(format=OPTIONS_OF_NULL),
        "action.missing-required",
        {"spark", *RUST},
    ),
    "no columns": (
        lambda: with_format(schemaString='{"type":"struct","fields":[]}'),
        "schema.no-columns",
        {"spark", *RUST},
    ),
    "mapping without protocol": (
        lambda: with_format(configuration={"delta.columnMapping.mode": "name"}),
        "mapping.mode-without-protocol",
        {"spark", "kernel"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_engines_that_refuse_the_table_are_answered_with_no_and_the_rule(case: str, tmp_path: Path) -> None:
    build, rule, expected = CASES[case]
    root = build().write(tmp_path / "t")

    found = {one["name"]: one for one in explain(root)["clients"]}

    assert expected == {name for name in MEASURED if found[name]["reads"] is False}
    assert set() == {name for name in MEASURED if found[name]["reads"] is None}
    for name in expected:
        assert rule in [blocker["feature"] for blocker in found[name]["blockers"]]
    assert {None} == {found[name]["reads"] for name in ("trino", "databricks")}
    assert rule in found["trino"]["unknown"]


def test_another_version_of_a_measured_engine_is_unknown(tmp_path: Path) -> None:
    root = plain().commit(add("a b")).write(tmp_path / "t")

    found = explain(root, "--client", "spark=3.5", "--client", "spark=4.4", "--client", "deltalake=1.0")["clients"]

    assert [None, False, None] == [one["reads"] for one in found]


@pytest.mark.parametrize("line", ["{}\n", '{"add":null}\n'])
def test_what_every_measured_engine_reads_is_a_yes(line: str, tmp_path: Path) -> None:
    refusing, unknown = readers(with_line(line).write(tmp_path / "t"))

    assert (set(), set()) == (refusing & MEASURED, unknown & MEASURED)


def test_an_error_whose_effect_was_not_measured_is_unknown_for_every_client(tmp_path: Path) -> None:
    checksum = {
        "tableSizeBytes": 0,
        "numFiles": 0,
        "numMetadata": 1,
        "numProtocol": 1,
        "protocol": {"minReaderVersion": 9},
    }
    root = with_file(f"{0:020d}.crc", json.dumps(checksum | {"metadata": {}}).encode()).write(tmp_path / "t")

    document = explain(root)

    assert {None} == {one["reads"] for one in document["clients"]}
    (warning,) = document["warnings"]
    assert ("log.problems", True) == (warning["code"], f"deltacli validate {root.as_uri()}" in warning["message"])


def test_a_table_without_errors_has_no_warning(tmp_path: Path) -> None:
    document = explain(plain().write(tmp_path / "t"))

    assert "warnings" not in document
    assert {True} == {one["reads"] for one in document["clients"]}


def test_the_error_of_a_commit_ends_with_a_checkpoint_and_that_of_a_live_path_does_not(tmp_path: Path) -> None:
    """The advice of the rules: a checkpoint lets readers begin behind a commit."""
    cured = with_line("\n").write(tmp_path / "cured")
    kept = plain().commit(add("a b")).write(tmp_path / "kept")
    repaired = with_checkpoint(has_hint=True).write(tmp_path / "repaired")
    before = [readers(root)[0] for root in (cured, kept, repaired)]

    for root in (cured, kept):
        open_table(root).checkpoint()
    done = deltacli("repair", repaired, "--level", "log", "--yes")

    assert [{"kernel"}, {"spark", "kernel"}, RUST] == before
    assert 0 == done.code, done.err
    assert [set(), {"spark", "kernel"}, set()] == [readers(root)[0] for root in (cured, kept, repaired)]


def test_metadata_that_was_replaced_stops_nobody(tmp_path: Path) -> None:
    old = {"minReaderVersion": 1, "minWriterVersion": 2, "readerFeatures": [], "writerFeatures": []}
    builder = TableBuilder().commit({"protocol": old}, metadata(), add("a")).commit(protocol(1, 2)).commit(add("b"))
    root = builder.write(tmp_path / "t")
    open_table(root).checkpoint()

    assert (set(), set()) == readers(root)


def test_doctor_names_the_engines_that_a_problem_stops(tmp_path: Path) -> None:
    stopping = deltacli("doctor", "table", with_checkpoint(has_hint=True).write(tmp_path / "a"), "--json").document
    harmless = deltacli("doctor", "table", with_checkpoint(has_hint=False).write(tmp_path / "b"), "--json").document
    messages = [
        next(one["message"] for one in document["advice"] if one["code"] == "log.problems")
        for document in (stopping, harmless)
    ]

    assert ("deltalake" in messages[0], "work around" in messages[0]) == (True, False)
    assert ("deltalake" in messages[1], "work around" in messages[1]) == (False, True)


@pytest.mark.parametrize(
    ("path", "value", "is_read"),
    [
        ("p=x/a", "x", True),
        ("p=__HIVE_DEFAULT_PARTITION__/a", None, True),
        ("p=a%2520b/a", "a b", True),
        ("a", "x", False),
        ("a", None, False),
        ("Qz/a", "x", False),
        ("p=y/a", "x", False),
        ("q=x/a", "x", False),
    ],
)
def test_polars_takes_partition_values_from_directories(
    path: str, value: str | None, is_read: bool, tmp_path: Path
) -> None:
    fields: list[Json] = [{"name": name, "type": "string", "nullable": True, "metadata": {}} for name in ("id", "p")]
    meta = metadata(schema_string=json.dumps({"type": "struct", "fields": fields}), partition_columns=["p"])
    root = TableBuilder().commit(protocol(1, 2), meta, add(path, partition_values={"p": value})).write(tmp_path / "t")

    found = {one["name"]: one["reads"] for one in explain(root)["clients"]}

    assert is_read is found.pop("polars")
    assert {True} == set(found.values())
