"""`--commit-metadata` on every command that commits."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import deltacli as api
from deltacli.core.errors import UsageError
from tests.cli.support import deltacli, make_sample

COMMITTING = {
    "properties": ("properties", "set", "owner=ops"),
    "features": ("features", "add", "domainMetadata"),
    "widen-type": ("widen-type", "ride.fare", "decimal(12,2)", "--enable", "--upgrade-protocol"),
    "vacuum": ("vacuum",),
}


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sample(tmp_path_factory.mktemp("sample") / "trips")


@pytest.fixture
def table(sample: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sample, tmp_path / "t"))


def arguments(name: str, table: Path) -> list[str | Path]:
    command, *rest = COMMITTING[name]
    return [command, table, *rest]


@pytest.mark.parametrize("name", COMMITTING)
def test_the_keys_are_in_the_commit_info_of_every_commit(name: str, table: Path) -> None:
    added = ("--commit-metadata", "team=data", "--commit-metadata", "userMetadata=why not")

    done = deltacli(*arguments(name, table), *added, "--yes", "--json")

    items = [item for item in deltacli("history", table, "--json").document["items"] if item["version"] > 14]
    assert (0, True) == (done.code, len(items) == (2 if name == "vacuum" else 1)), done.err
    assert [("data", "why not")] * len(items) == [(item["team"], item["userMetadata"]) for item in items]


@pytest.mark.parametrize("name", COMMITTING)
@pytest.mark.parametrize("pair", ["txnId=x", "inCommitTimestamp=1", "team"])
def test_a_reserved_key_is_refused_before_anything_is_read(name: str, pair: str, tmp_path: Path) -> None:
    done = deltacli(*arguments(name, tmp_path / "nothing"), "--commit-metadata", pair, "--dry-run", "--json")

    assert (2, "usage.commit-metadata") == (done.code, done.error["code"])


def test_metadata_without_a_commit_is_refused(table: Path) -> None:
    added = ("--commit-metadata", "team=data")

    shown = [deltacli(command, table, *added) for command in ("properties", "features")]
    silent = deltacli("vacuum", table, *added, "--no-log-entries", "--yes")

    assert [2, 2, 2] == [*(done.code for done in shown), silent.code]


def test_the_python_api_writes_the_keys_too(table: Path) -> None:
    opened = api.open_table(str(table))

    opened.set_properties({"owner": "ops"}, commit_metadata={"team": "a"})
    opened.unset_properties(["owner"], commit_metadata={"team": "b"})
    opened.add_features(["domainMetadata"], commit_metadata={"team": "c"})
    opened.widen_type(("ride.fare", "decimal(12,2)"), enable=True, upgrade_protocol=True, commit_metadata={"team": "d"})

    newest = opened.history(limit=4).items
    assert ["d", "c", "b", "a"] == [(item.commit_info or {})["team"] for item in newest]


def test_the_python_api_refuses_reserved_keys_even_for_a_plan(table: Path) -> None:
    opened = api.open_table(str(table))
    reserved = {"txnId": "x"}

    for plan in (
        lambda: opened.set_properties({"owner": "ops"}, commit_metadata=reserved, dry_run=True),
        lambda: opened.unset_properties(["owner"], commit_metadata=reserved, dry_run=True),
        lambda: opened.add_features(["domainMetadata"], commit_metadata=reserved, dry_run=True),
        lambda: opened.vacuum(commit_metadata=reserved, dry_run=True),
    ):
        with pytest.raises(UsageError):
            plan()


def test_a_key_with_the_name_of_a_field_can_be_a_column_of_the_history(table: Path) -> None:
    deltacli("properties", table, "set", "owner=ops", "--commit-metadata", "type=x", "--yes")
    show = ("history", table, "--columns", "version,type", "--limit", "1")

    piped = deltacli(*show, "--format", "csv")
    document = deltacli(*show, "--json").document

    assert ("version,type\n15,x\n", False) == (piped.out, "has the key" in piped.err)
    assert [{"version": 15, "commitInfo": {"type": "x"}}] == document["items"]
