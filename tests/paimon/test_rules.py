"""The rules for Paimon tables: one corruption for each, healthy tables without findings, and Java's own verdicts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.validate.validate import Validation
from deltacli.rules.framework.base import Rule
from deltacli.rules.paimon.catalogue import PAIMON_CATALOGUE, Profile
from tests.support.paimon_builder import ID, NAME, AsUser, PaimonBuilder, field
from tests.support.paimon_corpus import branches, cases, manifest
from tests.support.validating import validate_paimon

RULES = PAIMON_CATALOGUE.rules
Corrupt = Callable[[PaimonBuilder], object]


def schema(*fields: Any, **changes: Any) -> Corrupt:  # Any: JSON values
    """Return a corruption that replaces the second schema."""
    return lambda table: table.schema(*(fields or (ID, NAME)), **{"id": 1} | changes)


def text(old: str, new: str) -> Corrupt:
    """Return a corruption that replaces text in the newest schema file."""

    def corrupt(table: PaimonBuilder) -> None:
        path = table.root / "schema" / "schema-1"
        content = path.read_text("utf-8")
        assert old in content
        path.write_text(content.replace(old, new, 1), "utf-8")

    return corrupt


def file(path: str, content: bytes) -> Corrupt:
    """Return a corruption that writes a file."""
    return lambda table: table.write(path, content)


def options(**changed: str) -> Corrupt:
    """Return a corruption that adds options; `_` stands for `.` and `__` for `-`."""
    added = {key.replace("__", "-").replace("_", "."): value for key, value in changed.items()}
    return schema(options={"bucket": "2", **added})


NULLABLE_MAP = {"type": "MAP", "key": "INT", "value": "INT"}
CONTRADICTION = {"type": "ARRAY NOT NULL", "element": "INT", "nullable": True}
BLOB_IN_ROW = {"type": "ROW", "fields": [field(4, "b", "BLOB")]}
OTHER_KEY = field(1, "name", "STRING NOT NULL")

CORRUPTIONS: dict[str, Corrupt] = {
    "paimon.bad-json": file("schema/schema-1", b"{"),
    "paimon.missing-key": schema(highestFieldId=None),
    "paimon.bad-value": schema(highestFieldId="nine"),
    "paimon.bad-type": schema(ID, field(1, "name", "STRNG")),
    "paimon.file-too-large": lambda table: _sparse(table.root / "schema/schema-1"),
    "paimon.id-differs": text('"id": 1,', '"id": 7,'),
    "paimon.null-key": lambda table: _alone(table, [ID, NAME], options={}).write(
        "schema/schema-0",
        PaimonBuilder.content([ID, NAME], options={}).replace(b'"options": {}', b'"options": null'),
    ),
    "paimon.unknown-version": schema(version=4),
    "paimon.duplicate-key": text('"highestFieldId": 9', '"highestFieldId": 8, "highestFieldId": 9'),
    "paimon.trailing-text": text('"timeMillis"', '"comment": "c"} {"timeMillis"'),
    "paimon.option-not-string": text('"bucket": "2"', '"bucket": 2'),
    "paimon.wrong-json-type": schema(version="3"),
    "paimon.map-key-nullable": schema(ID, NAME, field(10, "m", NULLABLE_MAP), highestFieldId=10),
    "paimon.nullability-contradiction": schema(ID, NAME, field(10, "a", CONTRADICTION), highestFieldId=10),
    "paimon.type-not-canonical": schema(ID, field(1, "name", "string")),
    "paimon.unknown-key": schema(owner="me"),
    "paimon.field-id-duplicate": schema(ID, NAME, field(12, "x", "INT"), field(12, "y", "INT"), highestFieldId=12),
    "paimon.highest-field-id": schema(ID, NAME, field(12, "x", "INT")),
    "paimon.field-id-range": schema(ID, NAME, field(1_073_741_823, "x", "INT"), highestFieldId=1_073_741_823),
    "paimon.column-duplicate": schema(ID, NAME, field(12, "name", "INT"), highestFieldId=12),
    "paimon.reserved-name": schema(ID, NAME, field(12, "_ROW_ID", "INT"), highestFieldId=12),
    "paimon.blank-name": schema(ID, field(1, " ", "STRING")),
    "paimon.comment-directive": schema(ID, field(1, "name", "STRING", description="__BLOB_FIELD; photo")),
    "paimon.default-value": schema(ID, NAME, field(12, "x", "INT", defaultValue="five"), highestFieldId=12),
    "paimon.no-columns": lambda table: table.write(
        "schema/schema-0", PaimonBuilder.content([], primaryKeys=[], options={})
    ).without("schema/schema-1"),
    "paimon.key-missing": lambda table: _alone(table, [ID, NAME], primaryKeys=["id", "nope"]),
    "paimon.key-duplicate": lambda table: _alone(table, [ID, NAME], primaryKeys=["id", "id"]),
    "paimon.key-type": lambda table: _alone(
        table, [field(0, "id", {"type": "ARRAY NOT NULL", "element": "INT"}), NAME]
    ),
    "paimon.key-within-partition": lambda table: _alone(table, [ID, NAME], partitionKeys=["id"]),
    "paimon.blob": schema(
        ID, NAME, field(12, "r", BLOB_IN_ROW | {"fields": [field(13, "b", "BLOB")]}), highestFieldId=13
    ),
    "paimon.bucket": schema(options={"bucket": "0"}),
    "paimon.bucket-key": lambda table: _alone(table, [ID, NAME], options={"bucket": "2", "bucket-key": "name"}),
    "paimon.option-value": options(file_format="xlsx"),
    "paimon.option-column": options(sequence_field="nope"),
    "paimon.option-conflict": lambda table: _alone(table, [ID, NAME], options={"row-tracking.enabled": "true"}),
    "paimon.type-not-in-format": lambda table: _alone(
        table, [ID, field(1, "t", "TIMESTAMP(9)")], options={"bucket": "2", "file.format": "avro"}
    ),
    "paimon.version-2-only": options(partition_expiration__time="3 d"),
    "paimon.field-id-reused": schema(ID, NAME, field(5, "x", "INT")),
    "paimon.highest-field-id-decreased": schema(ID, NAME, highestFieldId=8),
    "paimon.partition-keys-changed": schema(ID, NAME, partitionKeys=["name"]),
    "paimon.primary-keys-changed": lambda table: (
        _alone(table, [ID, OTHER_KEY]).schema(ID, OTHER_KEY, primaryKeys=["name"], id=1).snapshot(0)
    ),
    "paimon.immutable-option": options(merge__engine="aggregation"),
    "paimon.type-change": schema(ID, field(1, "name", "BLOB"), options={"bucket": "2"}),
    "paimon.option-of-old-rows": schema(options={"bucket": "4"}),
    "paimon.null-to-not-null": schema(ID, OTHER_KEY),
    "paimon.schema-missing": lambda table: table.snapshot(1, adds={"b": 7}),
    "paimon.stray-file": file("schema/.schema-2.tmp", b""),
    "paimon.bad-snapshot": file("tag/tag-t", b"{}"),
    "paimon.bad-manifest": file("manifest/manifest-1", b"Obj\x01"),
    "paimon.manifest-missing": lambda table: table.without("manifest/manifest-1"),
    "paimon.schema-gap": lambda table: table.schema(ID, NAME, id=3),
    "paimon.no-permission": lambda table: (table.root / "schema/schema-1").chmod(0),
    "paimon.bad-statistics": lambda table: table.snapshot(1, statistics="gone"),
    "paimon.bad-consumer": file("consumer/consumer-c", b""),
    "paimon.fallback-branch": lambda table: table.schema(
        ID, NAME, options={"bucket": "2", "scan.fallback-branch": "b"}, id=1
    ).write("branch/branch-b/schema/schema-0", PaimonBuilder.content([ID])),
}
"""Rule -> what is done to a healthy table."""

NEWER_VERDICTS = {"vector-ok": "warning"}
"""Cases of the corpus that Paimon 1.4.2 refuses to open. The corpus has the answers of Paimon 2 only."""

WITH_OTHERS = {
    "paimon.trailing-text": {"paimon.missing-key"},
    "paimon.type-change": {"paimon.blob"},
    "paimon.blob": {"paimon.version-2-only"},
    "paimon.bucket": {"paimon.option-of-old-rows"},
    "paimon.option-column": {"paimon.option-of-old-rows"},
}
"""Rules that a corruption breaks besides."""


def _sparse(path: Path) -> None:
    with path.open("wb") as opened:
        opened.truncate((64 << 20) + 1)


def _alone(table: PaimonBuilder, fields: list[Any], **changes: Any) -> PaimonBuilder:  # Any: JSON values
    """Replace the table by one with a single schema and no snapshot."""
    table.write("schema/schema-0", PaimonBuilder.content(fields, **changes))
    return table.without("schema/schema-1", "snapshot/snapshot-1")


def check(root: Path, **wanted: Any) -> Validation:  # Any: arguments
    """Check a table."""
    return validate_paimon(AsUser(str(root)), EmbeddedEngine(), **wanted)


@pytest.fixture
def table(tmp_path: Path) -> PaimonBuilder:
    """A healthy table."""
    return PaimonBuilder(tmp_path / "t").schema(ID, NAME).snapshot(0, adds={"a": 0}).schema(ID, NAME)


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_reports_its_corruption_alone(rule: str, table: PaimonBuilder) -> None:
    healthy = check(table.root)

    CORRUPTIONS[rule](table)

    assert () == healthy.findings
    assert {rule} == {finding.rule.id for finding in check(table.root).findings} - WITH_OTHERS.get(rule, set())


def test_every_rule_has_a_corruption() -> None:
    assert set(RULES) == set(CORRUPTIONS)


@pytest.mark.parametrize(
    ("profile", "severities"),
    [
        (Profile.JAVA, ["warning", "warning"]),
        (Profile.CPP, ["error", "warning"]),
        (Profile.PYTHON, ["warning", "error"]),
    ],
)
def test_a_profile_decides_on_the_severity(profile: Profile, severities: list[str], table: PaimonBuilder) -> None:
    table.schema(ID, NAME, field(10, "m", NULLABLE_MAP), field(11, "a", CONTRADICTION), highestFieldId=11, id=1)

    findings = check(table.root, profile=profile).findings

    assert severities == [finding.severity for finding in findings]


def test_an_unusual_type_string_is_a_warning_for_python(table: PaimonBuilder) -> None:
    table.schema(ID, field(1, "name", "VARCHAR (10)"), id=1)

    severities = [check(table.root, profile=profile).findings[0].severity for profile in Profile]

    assert ["info", "info", "warning"] == severities


def test_text_after_a_schema_is_an_error_for_python(table: PaimonBuilder) -> None:
    with (table.root / "schema" / "schema-0").open("a") as file:
        file.write(" tail")

    findings = {profile: check(table.root, profile=profile).findings for profile in Profile}

    severities = {profile: [finding.severity for finding in found] for profile, found in findings.items()}
    assert {Profile.JAVA: ["warning"], Profile.CPP: ["warning"], Profile.PYTHON: ["error"]} == severities


@pytest.mark.parametrize(
    ("changed", "for_python"),
    [
        ({"version": "3"}, "error"),
        ({"id": "1"}, "error"),
        ({"highestFieldId": "9"}, "warning"),
        ({"timeMillis": "5"}, "warning"),
        ({"version": 3.0}, "warning"),
        ({"fields": [ID | {"id": "0"}, NAME]}, "warning"),
    ],
)
def test_a_number_as_text_is_an_error_where_it_stops_python(
    changed: dict[str, Any], for_python: str, table: PaimonBuilder
) -> None:
    path = table.root / "schema" / "schema-1"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | changed), "utf-8")

    findings = {profile: check(table.root, profile=profile).findings for profile in Profile}

    found = {profile: [(one.rule.id, str(one.severity)) for one in some] for profile, some in findings.items()}
    rule = "paimon.wrong-json-type"
    assert {
        Profile.JAVA: [(rule, "warning")],
        Profile.CPP: [(rule, "warning")],
        Profile.PYTHON: [(rule, for_python)],
    } == found


def test_a_change_of_type_that_only_an_option_forbade_is_a_warning_with_that_reason(table: PaimonBuilder) -> None:
    forbidden = {"bucket": "2", "disable-explicit-type-casting": "true"}
    table.schema(ID, field(1, "name", "STRING"), options=forbidden, id=1)
    table.schema(ID, field(1, "name", "BYTES"), options=forbidden, id=2)
    table.schema(ID, field(1, "name", {"type": "ARRAY", "element": "INT"}), options=forbidden, id=3)

    by_option, by_cast = [one for one in check(table.root).findings if one.rule.id == "paimon.type-change"]

    assert ("warning", "error") == (by_option.severity, by_cast.severity)
    assert "disable-explicit-type-casting is true" in by_option.message
    assert "readers can convert old files" in by_option.message
    assert "disable" not in by_cast.message


@pytest.mark.halved
def test_every_schema_file_of_the_corpus_has_the_verdict_of_java(corpus: Path) -> None:
    wrong, seen = [], 0
    files = [rule.id for area in ("Schema files", "Fields and keys", "Options") for rule in _rules_of(area)]
    for branch in branches():
        findings = check(corpus / branch.table, select=files, max_findings=0).findings
        prefix = "schema/" if branch.name == "main" else f"branch/branch-{branch.name}/"
        refused = {f.place.version for f in findings if f.severity == "error" and f.place.path.startswith(prefix)}
        for fact in branch.facts["java"]:
            seen += 1
            if (fact["id"] in refused) == (fact["parse"] and bool(fact["valid"])):
                wrong.append((branch.table, branch.name, fact))

    assert 244 == seen
    assert [] == wrong


def _rules_of(name: str) -> list[Rule]:
    return next(area.rules for area in PAIMON_CATALOGUE.areas() if area.name == name)


def test_every_single_schema_of_the_corpus_has_its_verdict(corpus: Path, tmp_path: Path) -> None:
    wrong = []
    for case in cases("schema_files"):
        table = PaimonBuilder(tmp_path / case["name"]).write("schema/schema-0", case["text"].encode())
        severities = {finding.severity.value for finding in check(table.root).findings}
        found = next((name for name in ("error", "warning") if name in severities), "ok")
        if NEWER_VERDICTS.get(case["name"], case["product_should"].partition(":")[0]) != found:
            wrong.append((case["name"], found))

    assert [] == wrong


NAMES = {
    "duplicate-field-id": "paimon.field-id-duplicate",
    "missing-schema": "paimon.schema-missing",
    "key-column-missing": "paimon.key-missing",
    "duplicate-column": "paimon.column-duplicate",
}
"""Short names of the corpus -> rules; others are alike."""

MORE = {"highest-too-low": {"paimon.highest-field-id-decreased"}}
"""What is reported besides: the same fault, seen from the version before."""


def test_every_broken_table_of_the_corpus_is_reported_and_the_sound_ones_are_not(corpus: Path) -> None:
    for name, facts in manifest()["broken"].items():
        findings = [finding for finding in check(corpus / "broken" / name).findings if finding.severity != "info"]
        by_severity: dict[str, set[str]] = {"error": set(), "warning": set()}
        for finding in findings:
            by_severity[finding.severity].add(finding.rule.id)

        expected = [{NAMES.get(rule, f"paimon.{rule}") for rule in facts[kind]} for kind in ("errors", "warnings")]
        assert expected == [by_severity["error"] - MORE.get(name, set()), by_severity["warning"]], name
