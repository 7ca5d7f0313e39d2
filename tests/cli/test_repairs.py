"""Commands that `validate` offers as repairs: they repair, and say what they lose."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from deltacli.cli.app import run
from deltacli.core.errors import ShellSyntax, use_hint_syntax
from deltacli.core.times import DAY_MS, format_timestamp
from deltacli.rules.framework.base import CATALOGUE, LOST_BY_VACUUM
from deltacli.rules.framework.repairs import Family, get_repair_row, repair_command, suggest_repair
from tests.cli.pty_session import Session
from tests.cli.screen import as_pasted
from tests.cli.support import make_sample
from tests.rules.corruptions import DAMAGES, Damage, load_all
from tests.rules.table_builder import NOW_MS, TableBuilder
from tests.rules.test_corruptions import inspect, rules_of
from tests.support.actions import add, metadata, protocol
from tests.support.builder import TableBuilder as Written

load_all()
with use_hint_syntax(ShellSyntax()):
    REPAIRED_BY_COMMANDS = {rule.id for rule in CATALOGUE.rules.values() if repair_command(rule, "t")}
STAYS_IN_THE_LOG = {"history.vacuum-start-without-end", "mapping.partition-key-logical"}
"""What these report is superseded by the repair, and reported until the log is cleaned up."""
BY_REPAIR = [damage for damage in DAMAGES if get_repair_row(damage.rule).steps and damage.rule in REPAIRED_BY_COMMANDS]
OF_ROWS = (Family.STATISTICS, Family.DOUBLED)
"""What is planned from the rows of files, which damages do not have."""
BY_REPAIR = [damage for damage in BY_REPAIR if get_repair_row(damage.rule).family not in OF_ROWS]
FIRST = {get_repair_row(damage.rule).family: damage for damage in reversed(BY_REPAIR)}
"""`tests/operations/repair` has all of them."""
ALSO_LEFT = {"path.file-uri-form"}
"""Rules whose damage has another error, which no command repairs: the path points into the table itself."""
LATER = format_timestamp(NOW_MS + 8 * DAY_MS)
"""When files that are young now can be deleted."""


@pytest.fixture(autouse=True)
def shell() -> Iterator[None]:
    with use_hint_syntax(ShellSyntax()):
        yield


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(damage, id=f"{damage.rule}-{damage.name}")
        for damage in DAMAGES
        if damage.rule in REPAIRED_BY_COMMANDS
        and get_repair_row(damage.rule).family not in OF_ROWS
        and (damage not in BY_REPAIR or damage in FIRST.values())
    ],
)
def test_the_command_repairs_what_the_rule_reports(
    damage: Damage, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    table = damage.make()
    root = table.write(tmp_path / "t")
    run(["validate", str(root), "--json", "--level", table.level, "--select", damage.rule])
    (finding,) = json.loads(capfd.readouterr().out)["tables"][0]["findings"]
    program, *words = shlex.split(finding["fix"]["command"])

    code = run([*words, *([] if words[0] == "checkpoint" else ["--yes"]), "--now", LATER])

    assert ("deltacli", int(damage.rule in ALSO_LEFT)) == (program, code), capfd.readouterr().err
    assert (damage.rule in STAYS_IN_THE_LOG) == (damage.rule in rules_of(inspect(root, table.level)))


def test_each_rule_with_a_command_has_a_damage() -> None:
    assert {damage.rule for damage in DAMAGES} >= REPAIRED_BY_COMMANDS > STAYS_IN_THE_LOG


def test_repairs_that_lose_something_say_so_and_are_tried_first() -> None:
    rules = [rule for rule in CATALOGUE.rules.values() if rule.id in REPAIRED_BY_COMMANDS]
    lost = {rule.id: rule.fix.loss for rule in rules if " vacuum " in f"{repair_command(rule, 't')} "}

    assert "time travel" in lost.pop("data.expired-tombstone-present")
    assert {LOST_BY_VACUUM} == set(lost.values())
    assert all(rule.fix.loses for rule in rules if " log expire " in repair_command(rule, "t"))
    assert [rule.fix.loses for rule in rules] == [suggest_repair(rule, "t").endswith(" --dry-run") for rule in rules]


@pytest.mark.parametrize(
    ("key", "former"),
    [
        ("delta.deletedFileRetentionDuration", "interval 1 hour"),
        ("delta.checkpoint.writeStatsAsJson", "false"),
        ("delta.enableExpiredLogCleanup", "false"),
    ],
)
def test_a_former_value_is_not_repaired(key: str, former: str, tmp_path: Path) -> None:
    """The repair of a retention that was too short once would shorten the one of today."""
    table = TableBuilder(properties={key: former, "delta.checkpoint.writeStatsAsStruct": "false"})
    before = rules_of(inspect(table.write(tmp_path / "before"), "log"))
    metadata = table.change_metadata()
    metadata["metaData"]["configuration"] |= {key: "interval 30 days" if former.startswith("interval") else "true"}
    table.commit(metadata, operation="SET TBLPROPERTIES")

    after = rules_of(inspect(table.write(tmp_path / "after"), "log"))

    assert 1 == len(before & REPAIRED_BY_COMMANDS)
    assert not after & REPAIRED_BY_COMMANDS


@pytest.mark.parametrize("is_broken", [False, True])
def test_a_finding_has_the_command_in_every_document(
    is_broken: bool, tmp_path: Path, sample: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    root = Path(shutil.copytree(sample, tmp_path / "my table"))
    (root / "_delta_log" / "_last_checkpoint").write_text("{")
    if is_broken:  # so only a copy can repair it
        (root / "_delta_log" / f"{15:020d}.json").write_text("{")
    arguments = ["validate", str(root), "--select", "hint.bad-json,commit.bad-json"]
    run([*arguments, "--json"])
    document = json.loads(capfd.readouterr().out)
    run([*arguments, "--format", "ndjson"])
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]

    commands = {finding["rule"]: finding["fix"]["command"] for finding in document["tables"][0]["findings"]}

    assert {
        "hint.bad-json": f"deltacli repair file://{root}".replace(" t", "%20t"),
        **({"commit.bad-json": f"deltacli repair file://{root} --dry-run".replace(" t", "%20t")} if is_broken else {}),
    } == commands
    assert commands == {line["rule"]: line["fix"]["command"] for line in lines if line["type"] == "finding"}


@pytest.mark.parametrize(
    ("command", "following"),
    [
        ("optimize TABLE --dry-run", "repair TABLE --dry-run"),
        ("validate TABLE", "repair TABLE --dry-run"),
        ("validate TABLE --level storage", "repair TABLE --dry-run"),
        ("snapshot TABLE", "validate TABLE"),
    ],
)
def test_what_to_run_next_on_a_damaged_table_changes_nothing(tmp_path: Path, command: str, following: str) -> None:
    table = str(make_sample(tmp_path / "t", damaged=True))
    with Session(*command.replace("TABLE", table).split(), "--no-pager", "--color", "never") as session:
        _, seen = session.finish()

    assert as_pasted(seen).splitlines()[-1] == f"next: deltacli {following.replace('TABLE', table)}"


def test_names_that_look_alike_are_told_apart(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    names = ["caf\u00e9.parquet", "cafe\u0301.parquet"]
    files = [add(name, size=9, records=1) for name in [*names, "na\u0308he.parquet"]]
    Written().commit(protocol(1, 2), metadata(), *files).write(tmp_path / "tbl")

    run(["repair", str(tmp_path / "tbl"), "--accept-loss", "--max-missing", "100%", "--level", "storage", "--dry-run"])

    said = capfd.readouterr().out
    assert [2, 0, 3, 2] == [said.count(name) for name in (*names, "cafe\\u0301.parquet", "na\u0308he.parquet")]


def test_an_agreed_repair_on_a_terminal_reports_what_was_repaired(tmp_path: Path) -> None:
    copy, table = make_sample(tmp_path / "copy"), make_sample(tmp_path / "t", damaged=True)
    with Session("repair", table, "--from", copy, "--no-pager", "--color", "never", size=(200, 40)) as session:
        session.read_until("[y/N]")
        session.type("y\n")
        _, seen = session.finish()

    done = seen.partition("[y/N]")[2].splitlines()
    place = next(place for place, line in enumerate(done) if line.startswith("repaired "))
    assert ["repaired", "3", "findings"] == done[place].split()
    assert "bring day=2026-01-03/part-00013-00015.snappy.parquet back" in done[place + 1]


@pytest.mark.parametrize("form", ["table", "json", "ndjson", "csv"])
def test_a_table_that_lacks_live_files_is_repaired_before_it_is_vacuumed(
    form: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    root = make_sample(tmp_path / "t")
    validate = ["validate", str(root), "--level", "storage", "--format", form, "--now", "2026-02-04"]
    run(validate)
    whole = capfd.readouterr().out
    (root / "day=2026-01-03" / "part-00014-00018.snappy.parquet").unlink()

    run(validate)

    lacking = capfd.readouterr().out
    assert "data.file-missing" in lacking
    assert [True, False] == ["deltacli vacuum" in said for said in (whole, lacking)]
