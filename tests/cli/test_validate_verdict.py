"""The sentence about a table: what is at stake, by which rules, and what it does not claim."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from deltacli.cli.render.validate.findings import all_sentence, judge
from deltacli.cli.render.validate.report import CheckedTable, ValidationReport
from deltacli.core.errors import ProtocolUnsupported
from deltacli.delta.log.segment import Place
from deltacli.operations.validate.validate import Validation
from deltacli.rules.framework.base import CATALOGUE, Finding, Severity
from deltacli.rules.framework.choice import COULD_NOT_BE_READ
from deltacli.rules.framework.repairs import SAYS, Risk
from tests.cli.conftest import Run
from tests.cli.pty_session import Session
from tests.cli.support import ROOT, deltacli

LOG = frozenset(CATALOGUE.rules)
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def found(*rules: str) -> tuple[Finding, ...]:
    return tuple(CATALOGUE.rules[rule].at(Place(""), "something") for rule in rules)


def table(
    findings: tuple[Finding, ...],
    *,
    level: str = "log",
    asked: frozenset[str] = LOG,
    not_checked: tuple[str, ...] = (),
    accepted: int = 0,
    is_rebuilt: bool = True,
) -> CheckedTable:
    validation = Validation("t", 1, level, findings, {}, not_checked, asked, is_rebuilt=is_rebuilt)
    return CheckedTable("t", validation, findings, {}, accepted, fails=False)


@pytest.mark.parametrize(
    ("rules", "sentence"),
    [
        ("", "its log can be read; nothing found"),
        ("log.cleanup-overdue commitinfo.missing", "its log can be read; 2 remarks"),
        ("log.cleanup-overdue log.mtime-order log.mtime-order", "its log can be read; 1 problem"),
        ("log.gap", "versions cannot be read (log.gap)"),
        ("data.not-parquet", "rows of data files cannot be read (data.not-parquet)"),
        ("sidecar.missing", "some engines can fail or refuse it (sidecar.missing)"),
        (
            "ict.missing log.mtime-order data.file-missing ict.missing",
            (
                "rows can be lost (data.file-missing); "
                "time travel, changes or row ids can go wrong (ict.missing); 1 other problem"
            ),
        ),
        (
            "dv.bad-z85 log.gap commit.not-utf8 commit.bad-json schema.bad-json",
            "versions cannot be read (dv.bad-z85, log.gap, commit.not-utf8 and 2 more)",
        ),
    ],
)
def test_the_worst_risk_is_first_and_each_risk_appears_once(rules: str, sentence: str) -> None:
    assert sentence == judge(table(found(*rules.split()))).sentence


def test_what_every_engine_reads_is_not_called_unreadable() -> None:
    empty = judge(table(found("commit.empty"), is_rebuilt=False))
    of_orc = judge(table(found("metadata.format-not-parquet")))

    assert ("rows can be lost (commit.empty)", False) == (empty.sentence, empty.is_readable)
    assert ("its log can be read; 1 problem", True) == (of_orc.sentence, of_orc.is_readable)


def test_the_verdict_leaves_out_skipped_unjudged_and_accepted_rules() -> None:
    warned = found("log.mtime-order")

    sentences = [
        judge(table(warned, level="storage")).sentence,
        judge(table(warned, asked=LOG - {"commit.empty"})).sentence,
        judge(table(warned, not_checked=("something",))).sentence,
        judge(table(warned, accepted=1)).sentence,
        judge(table(found("log.gap"), is_rebuilt=False)).sentence,
    ]

    assert [
        "readable; 1 problem",
        *["1 problem"] * 3,
        "it cannot be read (log.gap)",
    ] == sentences
    assert [True, None, False] == [
        judge(table(warned)).is_readable,
        judge(table(warned, accepted=1)).is_readable,
        judge(table((), is_rebuilt=False)).is_readable,
    ]


def test_a_damaged_checkpoint_without_the_commits_before_it_leads_to_a_copy(sample: Path, tmp_path: Path) -> None:
    """With them deltacli rebuilds the versions, and other engines may fail."""
    worked_around = judge(table(found("checkpoint.unreadable"))).sentence
    root = Path(shutil.copytree(sample, tmp_path / "t"))
    log = root / "_delta_log"
    for version in range(6):
        (log / f"{version:020d}.json").unlink()
    (log / f"{10:020d}.checkpoint.parquet").write_bytes(b"damaged")

    checked, repaired = deltacli("validate", root), deltacli("repair", root, "--yes")

    assert "some engines can fail or refuse it (checkpoint.unreadable)" == worked_around
    assert f"{root}: it cannot be read (checkpoint.unreadable)" in checked.out.splitlines()[-1]
    assert f"    fix       deltacli repair {root} --from COPY" in checked.out.splitlines()
    assert (1, f"next: deltacli repair {root} --yes --from COPY") == (repaired.code, repaired.err.splitlines()[-1])


def test_a_shared_table_that_could_not_be_read_is_not_one_without_problems() -> None:
    server, read = table(())._replace(is_server=True), table(())
    unread = read._replace(validation=replace(read.validation, skipped={"share.page-size": COULD_NOT_BE_READ}))

    report = ValidationReport(
        "footers", Severity.ERROR, (server, read, unread), (), tuple, None, left_out=("1 of 3 tables",)
    )

    assert f"not tested: {COULD_NOT_BE_READ}" in judge(unread).sentence
    assert "2 without problems; 1 table could not be tested; not tested: 1 of 3 tables" == all_sentence(report)


def test_a_rule_with_several_severities_is_reported_once() -> None:
    light = CATALOGUE.rules["hint.ahead-of-log"].at(Place(""), "", severity=Severity.WARNING)

    verdict = judge(table((light, *found("hint.ahead-of-log"))))

    assert "some engines can fail or refuse it (hint.ahead-of-log)" == verdict.sentence
    assert [
        {"risk": "readers-fail", "says": SAYS[Risk.READERS_FAIL], "findings": 1, "rules": ["hint.ahead-of-log"]}
    ] == (verdict.as_json()["risks"])


def test_the_order_on_a_terminal_and_what_to_run_next_follow_the_verdict(sample: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(sample, tmp_path / "t"))
    last = root / "_delta_log" / f"{14:020d}.json"
    features = {name: ["future"] for name in ("readerFeatures", "writerFeatures")}
    action = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}
    last.write_text(last.read_text() + json.dumps(action) + "\n")

    with Session("validate", str(root), "--no-pager", "--progress", "never", size=(200, 60)) as session:
        _, shown = session.finish()
    lines = ESCAPE.sub("", shown).splitlines()

    assert lines[0].startswith(f"{root}: deltacli cannot read it (protocol.unknown-feature)")
    assert "warning  protocol.unknown-feature" == next(filter(re.compile("error|warning|info").match, lines))
    assert "next: deltacli help protocol.unknown-feature" == lines[-1]
    assert not re.findall(r"fix +deltacli (?!undelete)", shown)


def test_text_ends_with_the_risks_if_there_are_any(lake: Path, validate: Run) -> None:
    both = validate("lake", "--select", "commit.*", "--brief").out
    good = validate("lake/deep/good", "--select", "commit.*").out

    assert [
        "",
        "lake/bad: it cannot be read (commit.bad-json)",
        "2 tables checked (logs only): 1 at risk, 0 with other problems, 1 without problems",
    ] == both.splitlines()[-3:]
    assert ["table           version  errors  warnings  infos", "lake/deep/good       14       0         0      0"] == (
        good.splitlines()
    )


def test_json_has_the_verdict_of_each_table(lake: Path, validate: Run) -> None:
    document = validate("lake", "--json").document
    bad, good = (found["verdict"] for found in document["tables"])

    assert (False, ["unreadable"], [["commit.bad-json"]]) == (
        bad["readable"],
        [risk["risk"] for risk in bad["risks"]],
        [risk["rules"] for risk in bad["risks"]],
    )
    assert (True, []) == (good["readable"], good["risks"])


def test_a_narrow_terminal_gets_whole_words_and_errors_first_in_what_to_run_next(lake: Path) -> None:
    shutil.rmtree("lake/bad/day=2026-01-02")
    Path("lake/bad/_delta_log/00000000000000000015.json").unlink()

    arguments = ("validate", "lake/bad", "--level", "storage", "--brief", "--no-pager", "--progress", "never")
    with Session(*arguments, size=(40, 24)) as session:
        _, shown = session.finish()
    lines = ESCAPE.sub("", shown).splitlines()

    at = lines.index("lake/bad: rows can be lost")
    assert "    (data.file-missing)" == lines[at + 1][:23]
    assert "next: deltacli repair lake/bad --dry-run" == lines[-1]


def test_the_page_quotes_the_names_of_the_classes() -> None:
    page = (ROOT / "docs" / "validate.md").read_text(encoding="utf-8")

    assert [(risk.value, says) for risk, says in SAYS.items()] == re.findall(
        r"^\| `([a-z-]+)` \| ([^|]+) \| [^|]+ \|$", page.split("| `risks` in JSON |")[1].split("\n\n")[0], re.M
    )


def test_a_protocol_from_the_future_is_named_once() -> None:
    checked = table(found("protocol.version-out-of-range"))
    fault = ProtocolUnsupported("version 0 needs reader version 9", code="protocol.version-out-of-range")

    verdict = judge(checked._replace(validation=replace(checked.validation, unsupported=fault)))

    assert "deltacli cannot read it (protocol.version-out-of-range)" == verdict.sentence
