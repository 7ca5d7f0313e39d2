"""The schemas of docs/schemas against what is really written: each command, format and listing, over many tables."""

from __future__ import annotations

import copy
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from deltacli.cli.app import run
from deltacli.core.errors import EXIT_CODES
from tests.cli.support import ROOT, make_sample
from tests.support import corpus
from tests.support.effort import is_soaking

HOME = ROOT / "docs" / "schemas"
SCHEMAS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in HOME.glob("*.json")}
VALIDATORS = {name: Draft202012Validator(schema) for name, schema in SCHEMAS.items()}

Json = Any  # Any: JSON values
Capture = pytest.CaptureFixture[bytes]

DOCUMENTS = (
    "history",
    "history --counts",
    "history --columns version,operation --limit 2",
    "snapshot",
    "snapshot --digest",
    "snapshot --counts",
    "snapshot --schema",
    "snapshot --files --tombstones",
    "snapshot --files --limit 1",
    "snapshot --files --columns path,stats",
    "properties",
    "features",
    "read",
    "read --limit 3",
    "read --explain",
    "read --explain --limit 1",
    "changes --from 0",
    "changes --from 0 --to 2026-01-02 --limit 2",
)

OPEN = ("field", "commit")
"""Items that contain keys of the table's writers in addition to their own fields."""

TABLES = (
    "dask/empty1",
    "dat/deletion_vectors",
    "dat/iceberg_compat_v1",
    "delta-rs-err/table_c",
    "delta-rs-err/table_h",
    "delta-rs/cdc_ict_table",
    "delta-rs/delta-1.2.1-only-struct-stats",
    "delta-rs/delta-2.2.0-partitioned-types",
    "delta-rs/spark-variant-stable-feature-checkpoint",
    "delta-rs/table-with-domain-metadata",
    "derived/checkpoint-truncated-a",
    "derived/commit-truncated-a",
    "derived/dv-inline-a",
    "derived/empty-directory-a",
    "derived/only-checkpoint-a",
    "derived/sidecar-missing-a",
    "derived/void-and-nested-a",
    "golden/data-reader-nullable-field-invalid-schema-key",
    "golden/deltalog-commit-info",
    "golden/deltalog-invalid-protocol-version",
    "golden/multi-part-checkpoint",
    "golden/table-with-columnmapping-mode-name",
    "golden/type-widening",
    "golden/update-deleted-directory",
    "kernel-java/catalog-owned-preview",
    "kernel-rs/app-txn-with-last-updated",
    "kernel-rs/crc-malformed",
    "kernel-rs/v2-checkpoints-parquet-with-sidecars",
    "spark/transaction_log_schema_evolvability",
    "unitycatalog/managed/unity/default/tables/marksheet",
)


def faults(document: Json, name: str) -> list[str]:
    return [f"{name} {fault.json_path}: {fault.message}" for fault in VALIDATORS[name].iter_errors(document)]


def line_faults(line: Json, *, is_cut: bool = False) -> list[str]:
    """What a line violates; where columns were chosen, what the schema requires may be absent."""
    found = VALIDATORS[line["type"]].iter_errors(line)
    return [
        f"{line['type']} {fault.json_path}: {fault.message}"
        for fault in found
        if not (is_cut and fault.validator in ("required", "dependentRequired"))
    ]


def check_output(table: Path, command: str, capture: Capture) -> list[str]:
    """Run a command on a table as JSON and as NDJSON and return what violates a schema, on stdout and stderr."""
    found = []
    for form in ("json", "ndjson"):
        name, *options = command.split()
        code = run([name, str(table), *options, "--format", form])
        out, err = (stream.decode() for stream in capture.readouterr())
        said = [json.loads(line) for line in err.splitlines()]
        found += [fault for line in said for fault in line_faults(line)]
        found += [] if (code == 0) == (not said or said[-1]["type"] == "note") else [f"exit {code} after {said}"]
        if code:
            found += [] if not out and EXIT_CODES[code] else [f"exit {code} with {out[:80]!r} on stdout"]
        elif form == "json":
            document = json.loads(out)
            found += faults(document, document["kind"])
        else:
            *lines, end = [json.loads(line) for line in out.splitlines()]
            found += [fault for line in lines for fault in line_faults(line, is_cut="--columns" in command)]
            found += faults(end, "end") + ([] if end["count"] == len(lines) else [f"end says {end['count']}"])
    return found


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sample(tmp_path_factory.mktemp("sample") / "trips")


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_every_schema_is_indexed_and_closed_and_describes_its_fields(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])
    root = SCHEMAS[name]
    for schema in root["oneOf"] if "$id" in root.get("oneOf", [{}])[0] else [root]:
        named = set(re.findall(r'"\$ref": "#/\$defs/([^"]*)"', json.dumps(schema)))
        assert named <= schema.get("$defs", {}).keys()

    assert SCHEMAS[name]["title"]
    assert f"[{name}]({name}.json)" in (HOME / "README.md").read_text(encoding="utf-8")
    found = SCHEMAS[name].get("items", SCHEMAS[name])
    objects = found.get("oneOf", [found]) if found.keys() <= {"$schema", "title", "oneOf"} else [SCHEMAS[name]]
    assert name in OPEN or all(one["additionalProperties"] is False for one in objects)


def test_the_exit_codes_of_errors_are_those_of_the_program() -> None:
    assert [code for code in EXIT_CODES if code] == SCHEMAS["error"]["properties"]["exit"]["anyOf"][0]["enum"]


@pytest.mark.parametrize("command", DOCUMENTS)
def test_the_sample_table_matches(sample: Path, command: str, capsysbinary: Capture) -> None:
    assert [] == check_output(sample, command, capsysbinary)
    assert [] == check_output(sample / "nothing", command, capsysbinary)


@pytest.mark.parametrize("name", TABLES)
def test_real_tables_match(name: str, capsysbinary: Capture) -> None:
    table = corpus.table(name)

    number = TABLES.index(name)
    for command in DOCUMENTS if is_soaking() else DOCUMENTS[number % 3 :: 3]:
        assert [] == check_output(table.path(corpus.unpacked()), command, capsysbinary), command


WIDENINGS = (
    "ride.fare decimal(10,2)",
    "ride.fare decimal(10,2) --check",
    "ride.fare decimal(8,2)",
    "ride.fare decimal(10,2) day timestamp_ntz trip decimal(20,0) --enable --upgrade-protocol --dry-run",
    "ride.fare decimal(10,2) day timestamp_ntz --enable --upgrade-protocol --check-files --dry-run",
    "ride.fare decimal(10,2) day timestamp_ntz --enable --upgrade-protocol --yes",
    "trip double day timestamp_ntz ride.city binary --dry-run",
    "trip text",
    "nothing long",
)


@pytest.mark.parametrize("words", WIDENINGS)
def test_widening_documents_match_their_schema(words: str, sample: Path, tmp_path: Path, capsysbinary: Capture) -> None:
    found = []
    for form in ("json", "ndjson"):
        shutil.copytree(sample, tmp_path / form)
        code = run(["widen-type", str(tmp_path / form), *words.split(), "--format", form])
        out, err = (stream.decode() for stream in capsysbinary.readouterr())
        found += [fault for line in err.splitlines() for fault in line_faults(json.loads(line))]
        found += [fault for line in out.splitlines() if form == "ndjson" for fault in line_faults(json.loads(line))]
        found += faults(json.loads(out), "deltacli.widen-type") if form == "json" and out else []
        found += [] if bool(out) == (code != 2) else [f"exit {code} with {out[:80]!r} on stdout"]

    assert [] == found


def test_a_damaged_plan_of_wider_types_is_refused(sample: Path, capsysbinary: Capture) -> None:
    run(["widen-type", str(sample), "trip", "double", "day", "timestamp_ntz", "--dry-run", "--json"])
    document = json.loads(capsysbinary.readouterr().out)
    of_protocols = {f"{name}.{listed}" for name in PROTOCOLS for listed in ("readerFeatures", "writerFeatures")}

    assert {"impact"} | of_protocols >= survivors(document, "removed")
    assert set() == survivors(document, "mistyped")
    assert {f"{name}.{field}" for name in PROTOCOLS for field in VERSIONS_AND_FEATURES} >= survivors(document, "joined")


PROTOCOLS = ("protocolBefore", "protocolAfter")
VERSIONS_AND_FEATURES = ("minReaderVersion", "minWriterVersion", "readerFeatures", "writerFeatures")
"""In addition to these, a protocol in the log may have unknown fields."""


def check_findings(table: Path, capture: Capture) -> list[str]:
    """What violates a schema in the findings of a table: the document, the lines, and each against the other."""
    code = run(["validate", str(table), "--level", "storage", "--json"])
    out, err = (stream.decode() for stream in capture.readouterr())
    document = json.loads(out)
    found = faults(document, document["kind"]) + [
        fault for line in err.splitlines() for fault in line_faults(json.loads(line))
    ]
    found += [] if (code == 1) == (document["summary"]["errors"] > 0) else [f"exit {code}"]
    run(["validate", str(table), "--level", "storage", "--format", "ndjson"])
    *lines, end = [json.loads(line) for line in capture.readouterr().out.decode().splitlines()]
    found += [fault for line in [*lines, end] for fault in line_faults(line)]
    told = sorted((line["rule"], line["message"]) for line in lines if line["type"] == "finding")
    expected = sorted((item["rule"], item["message"]) for item in document["tables"][0]["findings"])
    return found + (
        [] if told == expected and end["count"] == len(lines) else ["the lines are others than the document"]
    )


@pytest.mark.parametrize("name", TABLES)
def test_findings_on_real_tables_match(name: str, capsysbinary: Capture) -> None:
    table = corpus.table(name)

    assert [] == check_findings(table.path(corpus.unpacked()), capsysbinary)


def test_damaged_findings_are_refused(tmp_path: Path, capsysbinary: Capture) -> None:
    log = tmp_path / "t" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text("[]\n[]\n")
    run(["validate", str(tmp_path), str(tmp_path / "none"), "--json"])
    document = json.loads(capsysbinary.readouterr().out)
    document["tables"][0]["suppressed"] = {"commit.line-not-object": 1}
    document["tables"][0]["notChecked"] = ["something"]
    document["baseline"] = {"accepted": 0, "stale": 0}

    assert [] == faults(document, "deltacli.validate")
    optional = {"baseline", "failures", "tables[].suppressed.commit.line-not-object", "tables[].findings[].engines"}
    assert optional | {f"tables[].findings[].location.{name}" for name in ("line", "version", "key")} >= survivors(
        document, "removed"
    )
    assert set() == survivors(document, "mistyped")
    assert {"tables[].suppressed.commit.line-not-object"} >= survivors(document, "joined")


BAD_SCHEMAS = ("no json", "[]", '"long"', '{"type":"struct"}', '{"type":"struct","fields":[1]}')


@pytest.mark.parametrize("text", BAD_SCHEMAS)
def test_a_schema_that_cannot_be_parsed_is_refused_in_every_format(
    text: str, tmp_path: Path, capsysbinary: Capture
) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    metadata = {"id": "t", "format": {"provider": "parquet", "options": {}}, "schemaString": text}
    actions = (
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {**metadata, "partitionColumns": [], "configuration": {}}},
    )
    (log / f"{0:020d}.json").write_text("\n".join(map(json.dumps, actions)))

    codes = [run(["snapshot", str(tmp_path), "--schema", "--format", form]) for form in ("json", "ndjson", "csv")]

    assert [3, 3, 3] == codes
    assert b"" == capsysbinary.readouterr().out


def places(value: Json, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of each field of a document; of lists, the first item only."""
    if isinstance(value, dict):
        for name, below in value.items():
            yield (*path, name)
            yield from places(below, (*path, name))
    elif isinstance(value, list) and value:
        yield from places(value[0], (*path, 0))


def damaged(document: Json, path: tuple[str | int, ...], change: str) -> Json:
    """A copy of a document with one field removed, of another type, or with an unknown neighbour."""
    found = copy.deepcopy(document)
    holder = found
    for step in path[:-1]:
        holder = holder[step]
    match change:
        case "removed":
            del holder[path[-1]]
        case "mistyped":
            holder[path[-1]] = 1.5 if not isinstance(holder[path[-1]], float) else "text"
        case "joined":
            holder["neverHeardOf"] = 1
    return found


def survivors(document: Json, change: str) -> set[str]:
    """The fields whose damage the schema does not notice."""
    schema = document["kind"] if "kind" in document else document["type"]
    return {
        ".".join(map(str, path)).replace(".0.", "[].")
        for path in places(document)
        if not faults(damaged(document, path, change), schema)
    }


VERBATIM = {
    "operation",
    "operationParameters",
    "operationMetrics",
    "engineInfo",
    "isBlindAppend",
    "commitInfoTimestampMs",
}
"""Fields of commitInfo, whose types are the writer's affair."""


OPTIONAL = {
    "history --counts": {"items[]." + name for name in VERBATIM},
    "snapshot --digest": {"logSegment.checkpoint", "metadata.createdTime", "metadata.name", "metadata.schemaString"},
    "snapshot --files --tombstones": {
        "items[]." + name for name in ("dataChange", "modificationTime", "partitionValues", "stats")
    },
}
"""Fields of the sample's documents that may be absent."""


@pytest.mark.parametrize("command", ["history --counts", "snapshot --digest", "snapshot --files --tombstones"])
def test_a_damaged_document_is_refused(sample: Path, command: str, capsysbinary: Capture) -> None:
    name, *options = command.split()
    run([name, str(sample), *options, "--json"])
    document = json.loads(capsysbinary.readouterr().out)
    verbatim = ("operationParameters.", "operationMetrics.")
    maps = (*verbatim, "actions.", "configuration.", "partitionValues.")

    mistyped = {place for place in survivors(document, "mistyped") if not any(word in place for word in verbatim)}
    removed = {place for place in survivors(document, "removed") if not any(word in place for word in maps)}
    # An item of history takes whatever keys a writer gave its commitInfo.
    joined = {place for place in survivors(document, "joined") if not any(word in place for word in maps)}

    assert {place for place in OPTIONAL[command] if place.removeprefix("items[].") in VERBATIM} == mistyped
    assert OPTIONAL[command] == removed
    assert set() == {place for place in joined if not (name == "history" and place.startswith("items[]."))}


def test_damaged_lines_are_refused(sample: Path, capsysbinary: Capture) -> None:
    for options in (["--files"], ["--tombstones"], ["--schema"], ["--counts"]):
        run(["snapshot", str(sample), *options, "--format", "ndjson"])
        first, *_, end = map(json.loads, capsysbinary.readouterr().out.splitlines())

        for line in (first, end):
            assert [] == line_faults(line)
            assert [] != line_faults({**line, next(name for name in line if name != "type"): 1.5})
