"""`properties` and `features` on the command line; the sample table has 15 commits and a checkpoint."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import deltacli as api
from tests.cli.pty_session import Session
from tests.cli.support import ROOT, Result, deltacli

LOG = "tbl/_delta_log"
Json = dict[str, Any]  # Any: JSON values


@pytest.fixture
def home(sample: Path, tmp_path: Path) -> Path:
    shutil.copytree(sample, tmp_path / "tbl")
    return tmp_path


def checked(found: Json, name: str) -> Json:
    schema = json.loads((ROOT / "docs" / "schemas" / f"{name}.json").read_text(encoding="utf-8"))
    assert [] == [fault.message for fault in Draft202012Validator(schema).iter_errors(found)]
    return found


def document(result: Result) -> Json:
    found: Json = json.loads(result.out)
    return checked(found, found["kind"])


def names(home: Path) -> list[str]:
    return sorted(path.name for path in (home / LOG).iterdir())


def commit(home: Path, version: int) -> Json:
    """The actions of a commit by kind."""
    lines = (home / LOG / f"{version:020d}.json").read_text().splitlines()
    return {kind: action for line in lines for kind, action in json.loads(line).items()}


def validated(home: Path) -> set[str]:
    result = deltacli("validate", "tbl", "--format", "ndjson", "--fail-on", "info", cwd=home)
    return {line["rule"] for line in map(json.loads, result.out.splitlines()) if line["type"] == "finding"}


def test_unsetting_an_absent_key_says_that_it_is_not_set(home: Path) -> None:
    deltacli("properties", "tbl", "set", "owner=ops", "--yes", cwd=home)

    nothing = deltacli("properties", "tbl", "unset", "ownr", cwd=home)
    some = deltacli("properties", "tbl", "unset", "owner", "abc", "--yes", cwd=home)

    assert (0, "note: ownr is not set; did you mean owner?\n") == (nothing.code, nothing.err)
    assert "none of the keys is set" in nothing.out
    assert "note: abc is not set\n" in some.err
    assert "owner     ops -> (not set)" in some.out


def test_properties_are_set_and_unset_by_one_commit_each(home: Path) -> None:
    before, findings = commit(home, 0)["metaData"], validated(home)

    done = document(
        deltacli(
            "properties", "tbl", "set", "delta.logRetentionDuration=60 DAYS", "owner=a=b", "--yes", "--json", cwd=home
        )
    )
    gone = document(deltacli("properties", "tbl", "unset", "owner", "never", "--yes", "--json", cwd=home))

    assert (15, 16) == (done["committedVersion"], gone["committedVersion"])
    assert [
        {"key": "delta.logRetentionDuration", "after": "interval 60 days"},
        {"key": "owner", "after": "a=b"},
    ] == done["changes"]
    assert [{"key": "owner", "before": "a=b"}] == gone["changes"]
    first, second = commit(home, 15), commit(home, 16)
    assert {"commitInfo", "metaData"} == first.keys() == second.keys()
    wanted = {"delta.logRetentionDuration": "interval 60 days"}
    kept = {"delta.deletedFileRetentionDuration": "interval 3 days"}
    assert before | {"configuration": kept | wanted} == second["metaData"]
    assert "SET TBLPROPERTIES" == first["commitInfo"]["operation"]
    assert wanted | {"owner": "a=b"} == json.loads(first["commitInfo"]["operationParameters"]["properties"])
    assert {"properties": '["owner"]', "ifExists": True} == second["commitInfo"]["operationParameters"]
    assert findings | {"history.writer-mix"} == validated(home)


def test_features_are_added_by_one_commit_with_what_they_need(home: Path) -> None:
    done = document(deltacli("features", "tbl", "add", "rowTracking", "v2Checkpoint", "--yes", "--json", cwd=home))
    set_on = deltacli("properties", "tbl", "set", "delta.checkpointPolicy=v2", "--yes", cwd=home)

    assert [
        {"feature": "domainMetadata", "neededBy": "rowTracking"},
        {"feature": "rowTracking"},
        {"feature": "v2Checkpoint"},
    ] == done["changes"]
    made = commit(home, 15)
    assert {"commitInfo", "protocol"} == made.keys()
    assert done["protocolAfter"] == made["protocol"]
    assert ("UPGRADE PROTOCOL", made["protocol"]) == (
        made["commitInfo"]["operation"],
        json.loads(made["commitInfo"]["operationParameters"]["newProtocol"]),
    )
    assert (0, 17) == (set_on.code, len([name for name in names(home) if name.endswith(".json")]))
    shown = {one["name"]: one for one in document(deltacli("features", "tbl", "--json", cwd=home))["features"]}
    assert "delta.checkpointPolicy is v2" == shown["v2Checkpoint"]["because"]


def test_the_plan_of_features_names_once_who_loses_access(home: Path) -> None:
    both = deltacli("features", "tbl", "add", "typeWidening", "--dry-run", cwd=home).out.splitlines()
    writing = deltacli("features", "tbl", "add", "domainMetadata", "--dry-run", cwd=home).out.splitlines()
    found = document(deltacli("features", "tbl", "add", "typeWidening", "--dry-run", "--json", cwd=home))

    assert "clients  clients without support for table features, or for typeWidening, lose access" == both[-1]
    assert 1 == sum("lose access" in line for line in both)
    assert ["readers", "writers"] == [line.split()[0] for line in writing[-2:]]
    loses = {one["client"]: one["loses"] for one in found["clients"]}
    assert ("access", "writing", None) == (loses["deltalake"], loses["duckdb"], loses["spark"])


def test_in_commit_timestamps_are_enabled_with_version_and_time(home: Path) -> None:
    deltacli("features", "tbl", "add", "inCommitTimestamp", "--yes", cwd=home)
    deltacli("properties", "tbl", "set", "delta.enableInCommitTimestamps=true", "--yes", cwd=home)
    deltacli("properties", "tbl", "set", "owner=me", "--yes", cwd=home)

    enabled, later = commit(home, 16), commit(home, 17)
    stamp = enabled["commitInfo"]["inCommitTimestamp"]
    assert {
        "delta.inCommitTimestampEnablementVersion": "16",
        "delta.inCommitTimestampEnablementTimestamp": str(stamp),
    } == {key: value for key, value in enabled["metaData"]["configuration"].items() if "Enablement" in key}
    assert stamp < later["commitInfo"]["inCommitTimestamp"]
    assert not {rule for rule in validated(home) if rule.startswith("ict.")}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("properties tbl set delta.appendOnly=true", "delta.appendOnly  (not set) -> true"),
        ("properties tbl unset delta.deletedFileRetentionDuration", "interval 3 days -> (not set)"),
        ("features tbl add deletionVectors", "write  2 -> 7   appendOnly, +deletionVectors, invariants"),
    ],
)
def test_nothing_changes_without_consent_and_the_plan_is_shown(arguments: str, words: str, home: Path) -> None:
    before = names(home)

    dry = deltacli(*arguments.split(), "--dry-run", "--yes", cwd=home)
    asked = deltacli(*arguments.split(), cwd=home)
    as_json = deltacli(*arguments.split(), "--json", cwd=home)

    assert (0, True) == (dry.code, words in dry.out)
    assert (4, dry.out) == (asked.code, asked.out)
    assert f"hint: deltacli {arguments} --yes" in asked.err
    assert (4, "consent.missing", True) == (as_json.code, as_json.error["code"], document(as_json)["dryRun"])
    assert document(as_json)["committedVersion"] is None
    assert before == names(home)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("properties tbl set", 2, "missing argument KEY"),
        ("properties tbl set owner", 2, "is not of the form KEY=VALUE"),
        ("properties tbl change owner=me", 2, "change"),
        ("properties tbl --yes", 2, "require set or unset"),
        ("properties tbl unset owner --force", 2, "--force requires set"),
        ("properties tbl set delta.checkpointInterval=0 --yes", 2, "expected  an integer from 1"),
        ("properties tbl set delta.chekpointInterval=5 --yes", 4, "did you mean delta.checkpointInterval?"),
        ("properties tbl set delta.enableDeletionVectors=true --yes", 4, "deltacli features tbl add deletionVectors"),
        ("properties tbl set delta.enableDeletionVectors=true --dry-run", 4, "requires the feature"),
        ("features tbl add", 2, "missing argument FEATURE"),
        ("features tbl --dry-run", 2, "require add"),
        ("features tbl drop none --dry-run", 2, "hint: deltacli features tbl\n"),
        ("features tbl add deletionvectors --yes", 2, "did you mean deletionVectors?"),
        ("features tbl add clustering --yes", 4, "set the clustering columns with alter"),
        ("features nowhere", 3, "no such file or directory"),
    ],
)
def test_impossible_changes_are_refused_and_change_nothing(arguments: str, code: int, said: str, home: Path) -> None:
    before = names(home)

    result = deltacli(*arguments.split(), cwd=home)

    assert (code, True) == (result.code, said in result.err), result.err
    assert before == names(home)


def test_every_feature_that_a_change_lacks_is_added_by_one_command_and_the_next_one_is_named(home: Path) -> None:
    words = "set delta.enableDeletionVectors=true delta.enableChangeDataFeed=true delta.enableTypeWidening=true"

    refused = deltacli("properties", "tbl", *words.split(), "--yes", cwd=home)

    assert f"\n  then      deltacli properties tbl {words}\n" in refused.err
    hint = refused.err.splitlines()[-1]
    assert {"changeDataFeed", "deletionVectors", "typeWidening"} >= {*hint.split(" add ")[1].split()}
    done = [
        deltacli(*line.split()[1:], "--yes", cwd=home)
        for line in (hint.removeprefix("hint: "), f"deltacli properties tbl {words}")
    ]
    assert [0, 0] == [one.code for one in done]


@pytest.mark.parametrize(
    "arguments",
    [
        "properties tbl set delta.deletedFileRetentionDuration=interval_3_days",
        "properties tbl unset never",
        "features tbl add appendOnly",
    ],
)
def test_a_setting_that_is_already_in_effect_makes_no_version(arguments: str, home: Path) -> None:
    before = names(home)
    words = [word.replace("_", " ") for word in arguments.split()]

    result = deltacli(*words, "--yes", cwd=home)

    assert (0, True) == (result.code, result.out.startswith("nothing to do")), result.err
    assert before == names(home)


def test_properties_and_features_are_listed_in_every_format(home: Path) -> None:
    deltacli("properties", "tbl", "set", "delta.mine=1", "owner=me", "--force", "--yes", cwd=home)

    as_csv = deltacli("properties", "tbl", "--format", "csv", cwd=home).out.splitlines()
    lines = [
        json.loads(line) for line in deltacli("properties", "tbl", "--format", "ndjson", cwd=home).out.splitlines()
    ]
    features = deltacli("features", "tbl", "--format", "ndjson", cwd=home).out.splitlines()
    in_words = deltacli("features", "tbl", cwd=home).out.splitlines()
    change = deltacli("properties", "tbl", "set", "x=y", "--dry-run", "--format", "ndjson", cwd=home).out.splitlines()

    assert "key,value,known,valid,default,meaning" == as_csv[0]
    assert ["delta.mine,1,false,true,,not recognized by any known engine", "owner,me,,true,,"] == as_csv[2:]
    assert [True, False, None] == [checked(line, "property")["known"] for line in lines[:-1]]
    assert ["appendOnly", "invariants"] == [checked(json.loads(line), "feature")["name"] for line in features[:-1]]
    assert ["appendOnly", "writer", "no", "no"] == in_words[2].split()
    assert "x" == checked(json.loads(change[0]), "properties")["changes"][0]["key"]
    document(deltacli("properties", "tbl", "--json", cwd=home))
    changed = deltacli("properties", "tbl", "set", "x=y", "--dry-run", "--format", "csv", cwd=home).out
    assert ["key,before,after", "x,,y"] == changed.splitlines()


def test_the_python_api_changes_tables_too(home: Path) -> None:
    table = api.open_table(str(home / "tbl"))

    planned = table.set_properties({"owner": "me"}, dry_run=True)
    first = table.set_properties({"owner": "me"}).committed_version
    second = table.add_features(["domainMetadata"]).committed_version
    third = table.unset_properties(["owner"]).committed_version

    assert planned.committed_version is None
    assert (15, 16, 17) == (first, second, third)
    assert table.set_properties({}).committed_version is None
    assert "domainMetadata" in table.snapshot().protocol.supported_features


@pytest.mark.parametrize(("answer", "code", "is_done"), [("y\n", 0, True), ("\n", 4, False)])
def test_on_a_terminal_a_prompt_appears(answer: str, code: int, is_done: bool, home: Path) -> None:
    words = ("properties", home / "tbl", "set", "owner=me")

    with Session(*words, "--no-pager", "--color", "never", size=(200, 40)) as session:
        session.read_until("[y/N] ")
        session.type(answer)
        found, seen = session.finish()

    plan, _, rest = seen.partition("[y/N] ")
    assert (code, is_done) == (found, len(list((home / LOG).glob("*15.json"))) == 1)
    assert f"set 1 property of file://{home}/tbl? " == plan.splitlines()[-1]
    assert "owner     (not set) → me" in plan
    assert ("15, committed" in rest) == is_done
    assert "owner" not in rest


def test_a_dry_run_of_a_feature_that_is_refused_shows_the_plan(home: Path) -> None:
    result = deltacli("features", "tbl", "add", "catalogManaged", "--dry-run", cwd=home)

    assert 4 == result.code
    assert "feature +catalogManaged" in result.words
    assert "cannot be added by itself" in result.err


def test_a_dry_run_that_only_force_allows_shows_the_plan_and_is_refused(home: Path) -> None:
    result = deltacli("properties", "tbl", "set", "delta.someday=1", "--dry-run", cwd=home)
    forced = deltacli("properties", "tbl", "set", "delta.someday=1", "--dry-run", "--force", cwd=home)

    assert (4, 0) == (result.code, forced.code)
    assert "delta.someday" in result.out
    assert forced.out == result.out


def test_named_properties_are_shown_and_those_that_are_not_set_are_noted(home: Path) -> None:
    deltacli("properties", "tbl", "set", "owner=ops", "delta.appendOnly=true", "--yes", cwd=home)
    shown = deltacli(
        "properties", "tbl", "get", "owner", "delta.checkpointInterval", "team", "owner", "--json", cwd=home
    )
    near = deltacli("properties", "tbl", "get", "delta.appendonly", cwd=home)

    assert [("owner", "ops")] == [(one["key"], one["value"]) for one in shown.document["properties"]]
    assert "delta.checkpointInterval is not set; its default is 10" in shown.err
    assert "team is not set" in shown.err
    assert (2, "") == (near.code, near.out)
    assert "hint: deltacli properties tbl get delta.appendOnly" in near.err
    assert 2 == deltacli("properties", "tbl", "get", cwd=home).code
    assert 2 == deltacli("properties", "tbl", "get", "owner", "--yes", cwd=home).code
