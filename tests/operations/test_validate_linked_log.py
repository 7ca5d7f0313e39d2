"""A log that lies outside the table behind links: what the newest version needs is an error, the rest is a note."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from tests.cli.support import deltacli
from tests.support.external import add, put_commit, put_rows, write_table


def table_of_commits(root: Path) -> Path:
    """A table of twenty commits."""
    size = put_rows(root / "b.parquet", 2).stat().st_size
    write_table(root, add("b.parquet", size))
    for version in range(1, 20):
        put_commit(root, version, {"commitInfo": {"timestamp": version}})
    return root


def test_a_log_behind_a_link_is_one_error_with_the_command_that_opens_it(tmp_path: Path) -> None:
    root = table_of_commits(tmp_path / "t")
    outside = (root / "_delta_log").rename(tmp_path / "other log")
    (root / "_delta_log").symlink_to(outside)

    refused = deltacli("validate", root, "--level", "footers", "--json")

    (found,) = json.loads(refused.out)["tables"]
    (error,) = (finding for finding in found["findings"] if finding["severity"] == "error")
    command = error["fix"]["mend"].removeprefix("if you trust the table: ")
    assert (1, "validate.file-outside") == (refused.code, error["rule"])
    assert f"deltacli validate {root} --allow-external '{outside}'" == command
    assert 1 == sum(command in sentence for sentence in found["notChecked"])
    assert 2 == len(found["notChecked"])
    assert not found["verdict"]["readable"]
    assert 0 == deltacli(*shlex.split(command)[1:]).code


def test_no_choice_of_rules_hides_a_log_that_was_not_opened(tmp_path: Path) -> None:
    root = table_of_commits(tmp_path / "t")
    (root / "_delta_log").symlink_to((root / "_delta_log").rename(tmp_path / "other log"))

    found = [
        deltacli("validate", root, option, pattern)
        for option, pattern in (("--select", "log.*"), ("--ignore", "validate.*"))
    ]

    assert [(1, 1)] * 2 == [(one.code, one.out.count("validate.file-outside")) for one in found]


def test_an_old_commit_behind_a_link_is_a_note(tmp_path: Path) -> None:
    root = table_of_commits(tmp_path / "t")
    assert 0 == deltacli("checkpoint", root).code
    name = f"{3:020d}.json"
    (root / "_delta_log" / name).rename(tmp_path / name)
    (root / "_delta_log" / name).symlink_to(tmp_path / name)

    found = deltacli("validate", root)

    assert 0 == found.code
    assert 1 == found.out.count("not checked")
    assert f"not checked: {name} of the log, which lies outside the table" in found.out


def test_the_newest_checkpoint_behind_a_link_is_an_error(tmp_path: Path) -> None:
    root = table_of_commits(tmp_path / "t")
    assert 0 == deltacli("checkpoint", root).code
    (checkpoint,) = (root / "_delta_log").glob("*.checkpoint.parquet")
    checkpoint.rename(tmp_path / "c.parquet")
    checkpoint.symlink_to(tmp_path / "c.parquet")

    codes = [deltacli(command, root).code for command in ("snapshot", "validate")]

    assert [4, 1] == codes
