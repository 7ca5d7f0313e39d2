"""`alter` and `widen-type` of Paimon tables on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import deltacli
from deltacli.changing.change import execute_change
from deltacli.changing.consent import Consent, consent_to_command, consent_to_plan
from deltacli.changing.plan import Plan
from deltacli.cli.app import run
from deltacli.cli.paimon_alternatives import PAIMON_ALTERNATIVES
from deltacli.core.errors import PythonSyntax, Refused, UsageError, VersionAbsent, use_hint_syntax
from deltacli.operations.paimon.alter import AlterRequest, SchemaAlteration
from deltacli.paimon.conversions import parse_sql_type
from deltacli.paimon.evolution.evolve import EvolutionSettings, evolve
from deltacli.paimon.evolution.requests import SetOption
from deltacli.paimon.schema import read_schema
from deltacli.paimon.types import BadType, type_text
from deltacli.rules.paimon.schema_files import why_bad_default
from tests.cli.support import make_sample
from tests.docs.test_schemas import faults, line_faults
from tests.support.paimon_builder import ID, NAME, PaimonBuilder, field

Capture = pytest.CaptureFixture[bytes]


class Said(NamedTuple):
    code: int
    out: str
    error: Any  # Any: JSON values

    @property
    def document(self) -> Any:  # Any: JSON values
        return json.loads(self.out)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    row = {"type": "ROW", "fields": [field(3, "a", "INT")]}
    fields = (ID, NAME, field(2, "r", row), field(4, "m", {"type": "MAP", "key": "INT NOT NULL", "value": "INT"}))
    options = {"bucket": "2", "fields.name.default-value": "x", "sequence.field": "name"}
    PaimonBuilder(tmp_path / "t").schema(*fields, highestFieldId=4, options=options).snapshot(0)
    return tmp_path / "t"


@pytest.fixture
def say(root: Path, capsysbinary: Capture) -> Any:  # Any: a function with any words
    def call(command: str, *words: str, form: str = "json", table: Path = root) -> Said:
        code = run([command, str(table), *words, "--format", form])
        out, err = (stream.decode() for stream in capsysbinary.readouterr())
        errors = [json.loads(line) for line in err.splitlines() if line.startswith('{"type":"error"')]
        return Said(code, out, errors[-1] if errors else None)

    return call


def names(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "schema").iterdir())


CHANGES: Sequence[tuple[str, tuple[str, ...], str]] = [
    (
        "alter",
        ("add", "c", "MAP<STRING, INT>", "--comment", "x", "--position", "after:id"),
        "add c MAP<STRING NOT NULL, INT>",
    ),
    ("alter", ("add", "r.b", "INT", "--default", "5"), "add r.b INT"),
    ("alter", ("type", "m.value", "BIGINT"), "type m.value INT -> BIGINT"),
    ("alter", ("rename", "name", "who"), "set fields.who.default-value = x"),
    ("alter", ("rename", "r", "n.ew"), "rename r to `n.ew`"),
    ("alter", ("drop", "name", "--with-options"), "drop name STRING"),
    ("alter", ("move", "r", "first"), "order r, id, name, m"),
    ("alter", ("comment", "r.a", "text"), "comment r.a"),
    ("alter", ("default", "name", "x"), "default name = x"),
    ("alter", ("unset", "sequence.field"), "unset sequence.field"),
    ("alter", ("set", "a=b=c", "d="), "set a = b=c"),
    ("alter", ("table-comment", "about"), "table comment"),
    ("widen-type", ("r.a", "BIGINT", "m.value", "DOUBLE"), "type r.a INT -> BIGINT"),
]


@pytest.mark.parametrize(
    ("command", "words", "sentence"), CHANGES, ids=[" ".join(words[:2]) for _, words, _ in CHANGES]
)
def test_a_change_is_shown_and_made_as_one_version_that_is_sound(
    command: str, words: tuple[str, ...], sentence: str, say: Any, root: Path
) -> None:
    kind = "deltacli.alter.paimon" if command == "alter" else "deltacli.widen-type.paimon"

    planned = say(command, *words, "--dry-run")
    unconfirmed = say(command, *words)
    shown = say(command, *words, "--dry-run", form="csv")
    made = say(command, *words, "--yes")
    again = say("validate", "--no-refs")

    assert (0, 4, 0, 0) == (planned.code, unconfirmed.code, made.code, again.code)
    assert "consent.missing" == unconfirmed.error["code"]
    assert [] == [*faults(planned.document, kind), *faults(made.document, kind)]
    assert command != "alter" or faults(planned.document, "deltacli.alter") == []
    assert (None, 1) == (planned.document["committedSchema"], made.document["committedSchema"])
    assert planned.document["changes"] == made.document["changes"]
    assert sentence in shown.out
    assert ["schema-0", "schema-1"] == names(root)
    assert made.document["schemaAfter"] == json.loads((root / "schema" / "schema-1").read_bytes())


REFUSALS = {
    "alter.lossy": ("type", "r.a", "SMALLINT"),
    "alter.cast": ("type", "r.a", "DATE"),
    "alter.key": ("drop", "id"),
    "alter.in-options": ("drop", "name"),
    "alter.last-column": ("drop", "r.a"),
    "alter.not-null": ("not-null", "name"),
    "alter.map-key": ("type", "m.key", "BIGINT"),
    "alter.column-exists": ("add", "name", "INT"),
    "alter.default": ("default", "r.a", "five"),
    "alter.move": ("move", "id", "first"),
    "alter.option": ("set", "merge-engine=first-row"),
    "alter.name": ("rename", "name", " "),
    "alter.directive": ("add", "b", "BYTES", "--comment", "__BLOB_FIELD"),
    "paimon.option-column": ("rename", "name", "n.ew"),
    "paimon.reserved-name": ("rename", "name", "_VALUE_KIND"),
    "usage.column": ("drop", "nam"),
    "usage.type": ("add", "c", "ARRAY<"),
    "usage": ("drop", "name", "--position", "first"),
}


@pytest.mark.parametrize("code", REFUSALS)
def test_a_refused_change_says_why_and_changes_nothing(code: str, say: Any, root: Path) -> None:
    found = say("alter", *REFUSALS[code], "--yes")

    assert (code, 2 if code.startswith("usage") else 4) == (found.error["code"], found.code)
    if code == "usage.column":
        assert f"deltacli alter {root} drop name" in found.error["hint"]
    assert ["schema-0"] == names(root)


def test_the_name_of_a_key_is_written_as_the_command_line_takes_it(tmp_path: Path, say: Any) -> None:
    key, table = field(0, "k.y", "INT NOT NULL"), tmp_path / "keyed"
    PaimonBuilder(table).schema(key, NAME, primaryKeys=["k.y"], options={"bucket": "2"}).snapshot(0)

    messages = [
        say("alter", *words, "--yes", table=table).error["message"]
        for words in (("type", "`k.y`", "BIGINT"), ("drop", "`k.y`"), ("nullable", "`k.y`"))
    ]

    reason = "it is a primary key"
    assert [
        f"nothing was changed: `k.y` cannot {what}: {reason}"
        for what in ("get another type", "be dropped", "be nullable")
    ] == messages


def test_an_option_without_a_value_is_answered_with_its_form(say: Any, root: Path) -> None:
    assert f"deltacli alter {root} set foo=VALUE" == say("alter", "set", "foo").error["hint"]


def test_a_field_without_its_column_is_answered_with_the_whole_path(say: Any, root: Path) -> None:
    assert f"deltacli alter {root} drop r.a" in say("alter", "drop", "a", "--yes").error["hint"]


def test_changes_of_a_file_are_one_version_and_refused_as_a_whole(say: Any, root: Path, tmp_path: Path) -> None:
    good = [
        {"action": "dropColumn", "fieldNames": ["r"]},
        {"action": "addColumn", "fieldNames": ["r"], "dataType": "INT"},
    ]
    bad = [*good, {"action": "dropColumn", "fieldNames": ["id"]}]
    (tmp_path / "bad.json").write_text(json.dumps({"changes": bad}))
    (tmp_path / "good.json").write_text(json.dumps(good))
    (tmp_path / "odd.json").write_text(json.dumps([{"action": "dropColum", "fieldNames": ["r"]}]))

    refused = say("alter", "--apply", str(tmp_path / "bad.json"), "--yes")
    odd = say("alter", "--apply", str(tmp_path / "odd.json"), "--yes")
    made = say("alter", "--apply", str(tmp_path / "good.json"), "--yes", form="ndjson")

    line, _ = [json.loads(text) for text in made.out.splitlines()]
    assert ("alter.key", "usage.change") == (refused.error["code"], odd.error["code"])
    assert "dropColumn" == odd.error["details"]["did you mean"]
    assert [] == line_faults(line)
    assert (5, 1) == (line["schemaAfter"]["highestFieldId"], line["committedSchema"])
    assert [2, 5] == sorted({change["fieldId"] for change in line["changes"] if "fieldId" in change})


def test_a_branch_has_versions_of_its_own_and_nothing_to_do_is_no_version(say: Any, root: Path) -> None:
    copy = root / "branch" / "branch-b" / "schema"
    copy.mkdir(parents=True)
    (copy / "schema-0").write_bytes((root / "schema" / "schema-0").read_bytes())

    made = say("alter", "comment", "name", "x", "--branch", "b", "--yes")
    again = say("alter", "comment", "name", "x", "--branch", "b", "--yes")
    missing = say("alter", "comment", "name", "x", "--branch", "c", "--yes")
    due = say("widen-type", "r.a", "BIGINT", "--check")

    assert (1, None) == (made.document["committedSchema"], again.document["committedSchema"])
    assert (0, "paimon.no-such-branch", 1) == (again.code, missing.error["code"], due.code)
    assert ["schema-0", "schema-1"] == sorted(path.name for path in copy.iterdir())
    assert ["schema-0"] == names(root)


FORKED = {"bucket": "2", "scan.fallback-branch": "b"}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("add", "c", "INT"), "has 2 columns instead of 3"),
        (("type", "name", "BYTES", "--allow-lossy"), "type STRING instead of BYTES"),
        (("drop", "name"), "has 2 columns instead of 1"),
        (("move", "name", "first"), "whose column id has the type BIGINT NOT NULL instead of STRING"),
        (("add", "c", "INT", "--branch", "b"), "has 3 columns instead of 2"),
        (("set", "scan.fallback-branch=other"), "whose primary key is name instead of id"),
        (("set", "scan.primary-branch=other"), "whose primary key is name instead of id"),
        (("set", "scan.fallback-branch=gone"), "which does not exist"),
        (("rename", "name", "who"), None),
        (("comment", "name", "x"), None),
        (("set", "scan.fallback-delta-branch=other"), None),
    ],
)
def test_a_change_of_one_branch_warns_where_readers_fall_back_to_another(
    words: tuple[str, ...], reason: str | None, tmp_path: Path, say: Any
) -> None:
    table = PaimonBuilder(tmp_path / "forked").schema(ID, NAME, options=FORKED)
    table.write("branch/branch-b/schema/schema-0", PaimonBuilder.content([ID, NAME], options=FORKED))
    table.write(
        "branch/branch-other/schema/schema-0",
        PaimonBuilder.content([ID, field(1, "name", "STRING NOT NULL")], primaryKeys=["name"]),
    )

    made = say("alter", *words, "--yes", table=table.root)
    found = say("validate", table=table.root)

    warned = [one["message"] for one in made.document["warnings"] if one["code"] != "schema-copy"]
    assert ([True] if reason else []) == [reason in message for message in warned]
    assert (reason is not None) == any(
        "paimon.fallback-branch" == one["rule"] for one in found.document["tables"][0]["findings"]
    )


ROWS = {"type": "ARRAY", "element": {"type": "ROW", "fields": [field(2, "k", "INT"), field(3, "n", "INT")]}}
NESTED = {
    "bucket": "1",
    "merge-engine": "aggregation",
    "fields.rows.aggregate-function": "nested_update",
    "fields.rows.nested-key": "k",
    "fields.rows.nested-sequence-field": "n,k",
}


def test_options_that_name_a_nested_field_follow_its_name_and_keep_it_from_being_dropped(
    tmp_path: Path, say: Any
) -> None:
    table = PaimonBuilder(tmp_path / "rows").schema(ID, field(1, "rows", ROWS), highestFieldId=3, options=NESTED).root

    renamed = say("alter", "rename", "rows.element.k", "key", "--yes", table=table)
    refused = say("alter", "drop", "rows.element.n", "--yes", table=table)
    dropped = say("alter", "drop", "rows.element.n", "--with-options", "--yes", table=table)

    options = [one.document["schemaAfter"]["options"] for one in (renamed, dropped)]
    assert [("key", "n,key"), ("key", "key")] == [
        tuple(found[f"fields.rows.{name}"] for name in ("nested-key", "nested-sequence-field")) for found in options
    ]
    assert (4, "alter.in-options") == (refused.code, refused.error["code"])
    assert "fields.rows.nested-sequence-field" == refused.error["details"]["options"]
    assert [] == say("validate", table=table).document["tables"][0]["findings"]


@pytest.mark.parametrize(
    "words",
    [
        ("set", "bucket=4"),
        ("set", "changelog-producer=input"),
        ("unset", "sequence.field"),
        ("set", "sequence.field.sort-order=descending"),
        ("set", "ignore-delete=true"),
    ],
)
def test_an_option_by_which_rows_were_written_warns_when_it_changes(
    words: tuple[str, str], say: Any, root: Path
) -> None:
    made = say("alter", *words, "--yes")
    found = say("validate")

    option = words[1].partition("=")[0]
    (message,) = [one["message"] for one in made.document["warnings"] if one["code"] == "old-rows"]
    assert option in message
    assert [("paimon.option-of-old-rows", "warning")] == [
        (one["rule"], one["severity"]) for one in found.document["tables"][0]["findings"] if option in one["message"]
    ]


@pytest.mark.parametrize(
    ("words", "is_warned"),
    [
        (("set", "fields.v.aggregate-function=sum"), True),
        (("unset", "fields.w.aggregate-function"), True),
        (("set", "fields.default-aggregate-function=last_non_null_value"), True),
        (("set", "fields.v.ignore-retract=true"), False),
        (("rename", "w", "x"), False),
        (("drop", "w", "--with-options"), False),
    ],
)
def test_options_by_which_rows_are_merged_warn_unless_they_follow_a_column(
    words: tuple[str, ...], say: Any, tmp_path: Path, *, is_warned: bool
) -> None:
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.w.aggregate-function": "max"}
    fields = (ID, field(1, "v", "INT"), field(2, "w", "INT"))
    builder = PaimonBuilder(tmp_path / "merged").schema(*fields, options=options, highestFieldId=2).snapshot(0)

    made = say("alter", *words, "--yes", table=builder.root)
    found = say("validate", table=builder.root).document["tables"][0]["findings"]

    assert (0, is_warned) == (made.code, "old-rows" in [one["code"] for one in made.document["warnings"]])
    assert ["paimon.option-of-old-rows"] * is_warned == [one["rule"] for one in found]


@pytest.mark.parametrize(
    "option", ["partition.default-name=nothing", "partition.legacy-name=false", "manifest.format=orc"]
)
def test_options_by_which_existing_files_are_found_and_read_stay(option: str, say: Any, tmp_path: Path) -> None:
    """Readers look for files by the new name then, and read manifests in the new format."""
    parted: Any = {"partitionKeys": ["at"], "primaryKeys": [], "options": {}, "highestFieldId": 3}
    builder = PaimonBuilder(tmp_path / "parted").schema(*PLACED, **parted)

    planned = say("alter", "set", option, "--dry-run", table=builder.root)
    builder.snapshot(0)
    refused = say("alter", "set", option, "--yes", table=builder.root)
    same = say("alter", "set", "partition.legacy-name=true", "--yes", table=builder.root)
    back = say("alter", "set", option, "--allow-lossy", "--dry-run", table=builder.root)
    key, _, value = option.partition("=")
    builder.schema(*PLACED, **(parted | {"options": {key: value}}))
    found = say("validate", table=builder.root).document["tables"][0]["findings"]

    assert (0, "alter.old-rows", 0, 0) == (planned.code, refused.error["code"], same.code, back.code)
    assert ["paimon.option-of-old-rows"] == [one["rule"] for one in found]


APPEND: Any = {"primaryKeys": [], "options": {}}


@pytest.mark.parametrize("has_snapshots", [True, False])
def test_the_default_number_of_buckets_is_no_change(say: Any, tmp_path: Path, *, has_snapshots: bool) -> None:
    builder = PaimonBuilder(tmp_path / "append").schema(ID, NAME, **APPEND)
    if has_snapshots:
        builder.snapshot(0)

    done = say("alter", "set", "bucket=-1", "--yes", table=builder.root)

    assert (0, None) == (done.code, done.document["committedSchema"])
    assert ["schema-0"] == [path.name for path in (builder.root / "schema").iterdir()]


def test_a_number_of_buckets_that_is_set_and_taken_back_is_no_change() -> None:
    schema = read_schema(PaimonBuilder.content([ID, NAME], **APPEND))
    changes = [SetOption("bucket", "4"), SetOption("bucket", "-1")]

    changed = evolve(schema, changes, EvolutionSettings(has_snapshots=False), time_ms=1)

    assert {"bucket": "-1"} == changed.options


@pytest.mark.parametrize("before", [{}, {"bucket": "-1"}])
@pytest.mark.parametrize("value", ["0x1", "4", "٤", " -1", "99999999999"])
def test_other_numbers_of_buckets_are_refused_once_there_are_rows(
    before: dict[str, str], value: str, say: Any, tmp_path: Path
) -> None:
    builder = PaimonBuilder(tmp_path / "append").schema(ID, NAME, **(APPEND | {"options": before})).snapshot(0)

    refused = say("alter", "set", f"bucket={value}", "--yes", table=builder.root)

    assert (4, "alter.option") == (refused.code, refused.error["code"])


@pytest.mark.parametrize(
    "written",
    [{"bucket": "-1"}, {"changelog-producer": "NONE"}, {"partition.legacy-name": "TRUE"}, {"manifest.format": "avro"}],
)
def test_a_default_that_is_written_out_is_no_finding(written: dict[str, str], say: Any, tmp_path: Path) -> None:
    builder = PaimonBuilder(tmp_path / "append").schema(ID, NAME, **APPEND).snapshot(0)
    builder.schema(ID, NAME, **(APPEND | {"options": written}))

    found = say("validate", table=builder.root).document["tables"][0]["findings"]

    assert [] == found


PLACED = (field(0, "id", "INT"), field(1, "text", "VARCHAR(5)"), field(2, "at", "TIMESTAMP(6)"), field(3, "v", "INT"))
BUCKETS = {"bucket": "4", "bucket-key": "id,text"}
UPDATES = {"merge-engine": "partial-update", "fields.at.sequence-group": "v"}


@pytest.mark.parametrize(
    ("keys", "options", "column", "data_type", "is_refused"),
    [
        ([], BUCKETS, "id", "BIGINT", True),
        ([], BUCKETS, "text", "VARCHAR(9)", False),
        ([], BUCKETS, "v", "BIGINT", False),
        (["id"], {"bucket": "4", "sequence.field": "v"}, "v", "STRING", True),
        (["id"], {"bucket": "4", "sequence.field": "v"}, "v", "BIGINT", False),
        (["id"], {"bucket": "4", "sequence.field": "at, v"}, "at", "TIMESTAMP(3)", True),
        (["id"], {"bucket": "4", **UPDATES}, "at", "TIMESTAMP(3)", True),
        (["id"], {"bucket": "4", "record-level.time-field": "at"}, "at", "TIMESTAMP(3)", True),
    ],
)
def test_a_type_that_misplaces_existing_rows_is_refused_and_one_that_was_given_is_found(
    keys: list[str], options: dict[str, str], column: str, data_type: str, *, is_refused: bool, tmp_path: Path, say: Any
) -> None:
    """Paimon's Java changes it: queries look into other buckets then, and older rows win."""
    builder = PaimonBuilder(tmp_path / "placed")
    builder.schema(*PLACED, primaryKeys=keys, options=options, highestFieldId=3)
    words = (column, data_type, "--allow-lossy", "--yes")

    empty = say("alter", "type", *words, "--dry-run", table=builder.root)
    builder.snapshot(0)
    made = say("alter", "type", *words, table=builder.root)
    changed = [replaced(one, data_type) if one["name"] == column else one for one in PLACED]
    builder.schema(*changed, primaryKeys=keys, options=options, highestFieldId=3)
    found = say("validate", table=builder.root).document["tables"][0]["findings"]

    assert 0 == empty.code
    assert (4, "alter.old-rows") == (made.code, made.error["code"]) if is_refused else 0 == made.code
    assert ["paimon.option-of-old-rows"] * is_refused == [one["rule"] for one in found]


def replaced(column: dict[str, Any], data_type: str) -> dict[str, Any]:  # Any: JSON values
    return column | {"type": data_type}


@pytest.mark.parametrize("agree", [consent_to_command, consent_to_plan])
def test_a_change_is_judged_again_behind_the_first_snapshot(agree: Callable[[Plan], Consent], tmp_path: Path) -> None:
    """Options that Paimon lets nobody change from then on."""
    builder = PaimonBuilder(tmp_path / "t").schema(ID, NAME, primaryKeys=["id"], options={"bucket": "2"})
    table = deltacli.open_paimon(str(builder.root))
    change = SchemaAlteration(AlterRequest((SetOption("merge-engine", "partial-update"),)))

    def ask(plan: Plan) -> Consent:
        builder.snapshot(0)
        return agree(plan)

    with pytest.raises(Refused):
        execute_change(change, table, ask=ask)

    assert ["schema-0"] == names(builder.root)


def test_no_column_gets_an_id_that_a_field_had_before(say: Any, root: Path) -> None:
    content = json.loads((root / "schema" / "schema-0").read_bytes())
    lower = content | {"id": 1, "highestFieldId": 3, "fields": content["fields"][:3]}
    (root / "schema" / "schema-1").write_text(json.dumps(lower))

    added = say("alter", "add", "c", "INT", "--yes")
    renamed = say("alter", "rename", "name", "n", "--yes")

    assert ("paimon.highest-field-id", 0) == (added.error["code"], renamed.code)


@pytest.mark.parametrize(
    ("column", "text"), [("name", "__BLOB_FIELD"), ("r.a", " __BLOB_VIEW_FIELD; x"), ("m", "__VECTOR_FIELD;3")]
)
def test_a_directive_in_a_comment_is_refused_and_one_in_a_file_can_be_replaced(
    column: str, text: str, say: Any, root: Path
) -> None:
    refused = say("alter", "comment", column, text, "--yes")
    path = root / "schema" / "schema-0"
    path.write_text(path.read_text().replace('"name": "name",', '"name": "name", "description": "__BLOB_FIELD",'))
    made = say("alter", "comment", "name", "photo", "--yes")

    assert "alter.directive" == refused.error["code"]
    assert (0, "photo") == (made.code, made.document["schemaAfter"]["fields"][1]["description"])


@pytest.mark.parametrize(("number", "rule"), [(0, "field-id-duplicate"), (-5, "field-id-range")])
def test_no_field_is_added_or_renamed_beside_equal_or_negative_ids(
    number: int, rule: str, say: Any, root: Path
) -> None:
    path = root / "schema" / "schema-0"
    content = json.loads(path.read_bytes())
    content["fields"][2]["id"] = number
    path.write_text(json.dumps(content))

    refused = [say("alter", *words, "--yes") for words in (("add", "c", "INT"), ("rename", "m", "n"))]
    made = say("alter", "comment", "m", "x", "--yes")

    assert [f"paimon.{rule}"] * 2 == [one.error["code"] for one in refused]
    assert (0, ["schema-0", "schema-1"]) == (made.code, names(root))


def test_widening_to_not_null_is_refused_for_a_nullable_column_as_java_does(say: Any, root: Path) -> None:
    refused = say("widen-type", "r.a", "BIGINT NOT NULL", "--yes")
    path = root / "schema" / "schema-0"
    path.write_text(path.read_text().replace('"INT"', '"INT NOT NULL"'))
    made = say("widen-type", "r.a", "BIGINT NOT NULL", "--yes")
    kept = say("widen-type", "m.value", "BIGINT", "--yes")

    assert ("alter.not-null", 0, 0) == (refused.error["code"], made.code, kept.code)
    assert "BIGINT NOT NULL" == made.document["schemaAfter"]["fields"][2]["type"]["fields"][0]["type"]
    assert "BIGINT NOT NULL" == kept.document["schemaAfter"]["fields"][3]["type"]["value"]


def test_a_type_that_no_column_has_as_not_null_names_alter_type(say: Any, root: Path) -> None:
    path = root / "schema" / "schema-0"
    path.write_text(
        path.read_text().replace('"name": "a",', '"name": "a b",').replace('"INT"', '"TIMESTAMP(3) NOT NULL"', 1)
    )

    refused = say("widen-type", "r.`a b`", "STRING", "--allow-lossy", "--yes")
    made = say("alter", "type", "r.`a b`", "STRING", "--allow-lossy", "--yes")

    assert f"deltacli alter {root} type 'r.`a b`' STRING --allow-lossy" == refused.error["hint"]
    assert ("alter.cast", 0) == (refused.error["code"], made.code)


@pytest.mark.parametrize(
    ("present", "words", "code"),
    [
        ("deletion-vectors.enabled=false", ("unset", "deletion-vectors.enabled"), 0),
        ("deletion-vectors.enabled=true", ("unset", "deletion-vectors.enabled"), 4),
        ("a=b", ("set", "deletion-vectors.enabled=false"), 0),
        ("deletion-vectors.enabled=true", ("set", "deletion-vectors.enabled=TRUE"), 0),
        ("ignore-update-before=true", ("set", "ignore-update-before=false"), 4),
    ],
)
def test_an_option_of_old_files_is_judged_by_what_it_means(
    present: str, words: tuple[str, ...], code: int, say: Any, root: Path
) -> None:
    path = root / "schema" / "schema-0"
    content = json.loads(path.read_bytes())
    content["options"] |= dict([present.split("=")])
    path.write_text(json.dumps(content))

    assert code == say("alter", *words, "--yes").code


def test_the_schema_with_the_greatest_number_is_read_and_is_the_last_one(say: Any, root: Path) -> None:
    last, beyond = 2**63 - 1, 2**63
    content = json.loads((root / "schema" / "schema-0").read_bytes())
    (root / "schema" / f"schema-{last}").write_text(json.dumps(content | {"id": last}))
    (root / "schema" / f"schema-{beyond}").write_text("{}")

    refused = say("alter", "comment", "r", "x", "--yes")
    shown = say("snapshot")
    findings = say("validate").document["tables"][0]["findings"]
    found = [one["location"]["path"] for one in findings if one["rule"] == "paimon.stray-file"]

    assert "alter.number" == refused.error["code"]
    assert (last, [f"schema/schema-{beyond}"]) == (shown.document["schemaId"], found)


POINTS = {"--version=1": "--schema-id N", "--timestamp=2026-01-01": "--snapshot-id N", "--schema-id=0": "--version N"}


@pytest.mark.parametrize("option", [*POINTS, "--tag=t"])
def test_a_point_of_the_other_format_names_how_this_one_is_named(
    option: str, say: Any, root: Path, tmp_path: Path
) -> None:
    is_delta = option not in list(POINTS)[:2]
    table = make_sample(tmp_path / "trips") if is_delta else root

    error = say("snapshot", option, table=table).error

    assert 2 == error["exit"]
    assert POINTS.get(option, "--timestamp T") in error["details"]["instead"]


def test_a_point_of_a_comparison_is_spelled_as_it_was_given(root: Path, capsysbinary: Capture) -> None:
    code = run(["schema", "diff", str(root), "--from", "version:0"])

    err = capsysbinary.readouterr().err.decode()
    assert (2, True, True) == (code, "version:N is a point of a Delta table" in err, "schema:N" in err)


def test_commands_for_delta_tables_name_what_does_their_work(root: Path, tmp_path: Path, capsysbinary: Capture) -> None:
    words = {"changes": ("--from", "0"), "log cat": ("0",), "log compact": ("--from", "0", "--to", "1")}
    words |= {name: (str(tmp_path / "b"),) for name in ("log backup", "clone", "copy")}
    words |= {"diff": ("0", "1"), "restore": ("--version", "0")}
    for command, instead in PAIMON_ALTERNATIVES.items():
        assert not [text for text in instead.values() if "deltacli" in text[1:]]  # prose, or a command to paste
        first, *rest = command.split()
        if rest == ["restore"]:
            continue
        code = run([first, *rest, str(root), *words.get(command, ()), "--log-format", "json"])
        assert (2, command) == (code, command)
        error = json.loads(capsysbinary.readouterr().err.splitlines()[-1])
        assert {name: text.replace("TABLE", str(root)) for name, text in instead.items()}.items() <= (
            error["details"].items()
        )


def test_python_hints_at_the_function_that_opens_paimon_tables(root: Path) -> None:
    with use_hint_syntax(PythonSyntax()), pytest.raises(UsageError) as raised:
        deltacli.open_table(root).history()
    with use_hint_syntax(PythonSyntax()), pytest.raises(VersionAbsent) as absent:
        deltacli.open_paimon(root).snapshot(tag="x")

    assert f"open_paimon({str(root)!r}).history()" == absent.value.hint
    assert f"open_paimon({str(root)!r}).snapshot()" == raised.value.hint
    assert ["path"] == list(raised.value.facts)


def test_no_log_is_restored_into_a_paimon_table(root: Path, tmp_path: Path) -> None:
    backed_up = run(["log", "backup", str(make_sample(tmp_path / "trips")), str(tmp_path / "backup")])

    code = run(["log", "restore", str(root), str(tmp_path / "backup"), "--yes"])
    without = run(["log", "restore", str(root), str(tmp_path / "nothing"), "--yes"])

    assert (0, 2, 2) == (backed_up, code, without)
    assert not (root / "_delta_log").exists()


def test_the_api_does_what_the_commands_do(root: Path) -> None:
    table = deltacli.open_paimon(root)

    planned = table.alter([{"action": "dropColumn", "fieldNames": ["r"]}], dry_run=True)
    plan = table.plan_alter([{"action": "updateComment", "comment": "text"}])
    made = table.widen_type(("r.a", "BIGINT"))

    assert (None, 1) == (planned.committed, made.committed)
    assert (None, 2) == (plan.committed, table.execute_alter(plan).committed)
    assert [2, 1, 0] == [version.id for version in table.history(limit=0, with_manifests=False).schemas]
    assert 0 == len([one for one in table.validate(with_manifests=False).findings if one.severity == "error"])
    with pytest.raises(Refused):
        table.widen_type(("r.a", "INT"))
    with pytest.raises(UsageError):
        table.alter([{"action": "x"}])
    with pytest.raises(UsageError, match="change 2 is 5"):
        table.alter([SetOption("a", "b"), 5])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="limit -1 is negative"):
        table.history(limit=-1)
    with pytest.raises(UsageError, match="exclude each other"):
        table.snapshot(schema_id=0, snapshot_id=1)
    with pytest.raises(UsageError, match="expected a type"):
        table.alter([{"action": "updateColumnType", "fieldNames": ["r"], "newDataType": b"INT"}])
    with pytest.raises(UsageError):
        deltacli.open_table(root).history()


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("array<int not null> NOT NULL", "ARRAY<INT NOT NULL> NOT NULL"),
        ("map<string,row<a int, `b c` decimal(3,1)>>", "MAP<STRING, ROW<a INT, `b c` DECIMAL(3, 1)>>"),
        (
            "ROW<a: ARRAY<VECTOR<FLOAT, 3>>, b INT NOT NULL COMMENT 'it''s'>",
            "ROW<a ARRAY<VECTOR<FLOAT, 3>>, b INT NOT NULL>",
        ),
        ('{"type": "ARRAY", "element": "INT"}', "ARRAY<INT>"),
        ("INT ARRAY", "ARRAY<INT>"),
    ],
)
def test_types_are_written_as_in_sql(text: str, canonical: str) -> None:
    assert canonical == type_text(parse_sql_type(text))


@pytest.mark.parametrize(
    "text", ["ARRAY<>", "ROW<>", "MAP<INT>", "ROW<a INT, a INT>", "ARRAY<INT", "ARRAY<INT>>", "ROW<aINT>", ""]
)
def test_texts_that_are_not_types_are_refused(text: str) -> None:
    with pytest.raises(BadType):
        parse_sql_type(text)


@pytest.mark.parametrize(
    ("data_type", "good", "bad"),
    [
        ("TINYINT", "-128", "128"),
        ("BOOLEAN", "yes", "maybe"),
        ("DECIMAL(4, 2)", "99.99", "100"),
        ("DECIMAL(4, 2)", "1.239", "99.995"),
        ("DECIMAL(4, 2)", "'-0.5'", " 1"),
        ("DECIMAL(38, 10)", "1.12345678901234567890123456789", "1_000"),
        ("DATE", "2024-02-29", "2023-02-29"),
        ("TIMESTAMP(3)", "2024-01-01 10:00:00.123", "2024-01-01 25:00:00"),
        ("TIME", "23:59", "24:00"),
        ("DATE", "1", "+1"),
        ("DATE", "-2147483648", "2147483648"),
        ("DATE", "'20260101'", "1.5"),
        ("TIME(3)", "86399999", "86400000"),
        ("TIME(3)", "0", "-1"),
        ("TIMESTAMP(3)", "1", " 1"),
        ("TIMESTAMP(0)", "-1", "9223372036854775807"),
        ("TIMESTAMP(6)", "9223372036854775807", "9223372036854775808"),
        ("TIMESTAMP(9)", "-9223372036854775808", "٣"),
        ("TIMESTAMP(2)", "2024-01-01", "1"),
        ("TIMESTAMP_LTZ(3)", "2024-01-01", "1"),
        ("ARRAY<DATE>", "[1, 2024-02-29]", "[1, 2147483648]"),
        ("DOUBLE", "1e3", "one"),
        ("ARRAY<INT>", "[1, null]", "[1, x]"),
        ("MAP<STRING, INT>", "{a -> 1, b -> null}", "{a, 1}"),
        ("ROW<a INT, b STRING>", "{1, x}", "{1}"),
        ("STRING", "", None),
        ("VARIANT", None, "1"),
    ],
)
def test_default_values_fit_their_type(data_type: str, good: str | None, bad: str | None) -> None:
    parsed = parse_sql_type(data_type)

    assert good is None or why_bad_default(parsed, good) is None
    assert bad is None or why_bad_default(parsed, bad) is not None


def test_a_refused_plan_has_the_reason_alone_and_the_error_says_that_nothing_was_changed(say: Any, root: Path) -> None:
    found = say("alter", *REFUSALS["alter.lossy"], "--dry-run")

    [refusal] = found.document["refusals"]
    assert found.error["message"] == f"nothing was changed: {refusal['message']}"
    assert ["schema-0"] == names(root)
