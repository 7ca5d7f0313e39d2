"""`fleet status`: alerts, trends, exit codes and metrics, from the journal alone."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from deltacli.cli.app import run
from deltacli.core.times import DAY_MS
from deltacli.fleet.policy_file.model import VacuumPolicy
from deltacli.fleet.running.journal import JournalWriter
from deltacli.fleet.status import StepStatus, advice_for
from tests.cli.test_documents import validate
from tests.cli.test_validate_formats import SARIF
from tests.support.builder import TableBuilder

POLICY = (
    '[policies.p]\nvalidate = {}\n[groups.g]\npolicy = "p"\ntables = ["t"]\n[groups.h]\npolicy = "p"\ntables = ["u"]\n'
)

TABLE = 'odd "name"\\'

Status = Callable[..., tuple[int, Any]]  # Any: JSON values


@pytest.fixture
def status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Status:
    """Run the command in a directory with a policy file; return its exit code and its document."""
    monkeypatch.chdir(tmp_path)
    Path("fleet.toml").write_text(POLICY)

    def run_here(*options: str) -> tuple[int, Any]:
        code = run(["fleet", "status", "--json", *options])
        document = json.loads(capfdbinary.readouterr()[0])
        validate(document, "deltacli.fleet-status")
        return code, document

    return run_here


def write_run(number: int, *events: tuple[str, dict[str, Any]], left: int | None = 0) -> None:
    """Write the journal of a run; without `left` it has no end."""
    writer = JournalWriter(Path("fleet-state"), f"run-{number:03d}")
    now_ms = 1_000 * number
    writer.write("run-started", now_ms, groups=["g"], host="elsewhere", process="1@1")
    for place, (kind, fields) in enumerate(events):
        writer.write(kind, now_ms + 1 + place, group="g", **fields)
    if left is not None:
        writer.write("run-finished", now_ms + 99, exit=0, left=left)
    writer.close()


def step(table: str, kind: str, state: str, **fields: Any) -> tuple[str, dict[str, Any]]:
    return "step-finished", {"table": table, "step": kind, "state": state, "exit": 0, **fields}


def test_the_exit_code_tells_alerts_from_unfinished_runs(status: Status) -> None:
    codes = [status()]
    for number, events in enumerate(
        [
            [step(TABLE, "validate", "done")],
            [step(TABLE, "vacuum", "refused", message="no consent")],
            [("table-unreadable", {"table": "u", "code": "log.gap", "message": "commit 3 is missing"})],
            [step(TABLE, "vacuum", "nothing")],
        ],
        1,
    ):
        write_run(number, *events)
        codes.append(status())
    write_run(9, left=3)
    codes.append(status())
    write_run(10, left=None)
    codes.append(status())

    assert [0, 0, 1, 1, 0, 5, 5] == [code for code, _ in codes]
    assert ["vacuum refused: no consent"] == codes[2][1]["tables"][0]["alerts"]
    assert [["log.gap: commit 3 is missing"], ["vacuum refused: no consent"]] == [
        table["alerts"] for table in codes[3][1]["tables"]
    ]
    assert [None, "complete", "interrupted"] == [
        found["newestRun"] and found["newestRun"]["state"] for found in (codes[0][1], codes[1][1], codes[6][1])
    ]
    assert [] == status("--only", "h")[1]["tables"]


def test_the_total_of_one_is_no_plural(status: Status, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    write_run(1, step(TABLE, "validate", "done", details={"liveFiles": 1, "warnings": 1, "rules": {"x.y": 1}}))

    run(["fleet", "status"])

    assert "totals      1 data file, 1 finding of any severity\n" in capfdbinary.readouterr()[0].decode()


def test_trends_and_metrics_have_the_numbers_of_the_runs(status: Status) -> None:
    for number in range(1, 41):
        facts = {"logBytes": 100 * number, "logFiles": number, "commitsBehind": 2}
        write_run(
            number,
            ("table-facts", {"table": TABLE, "facts": facts}),
            step(TABLE, "validate", "findings", message="x", details={"errors": number}),
            step(TABLE, "vacuum", "done", details={"sizeBytes": 7, "liveFiles": 5}),
        )

    code, document = status("--metrics", "fleet.prom")

    trends = document["tables"][0]["trends"]
    assert (1, 30, [40_001, 4_000]) == (code, len(trends["logBytes"]), trends["logBytes"][-1])
    assert {"logBytes", "logFiles", "commitsBehind", "errors", "liveFiles", "deletedBytes"} == trends.keys()
    text = Path("fleet.prom").read_text()
    parsed = text_string_to_metric_families(text)  # type: ignore[no-untyped-call]  # the library has no types for it
    families = {family.name: family for family in parsed}
    values = {name: [sample.value for sample in family.samples] for name, family in families.items()}
    assert [4_000.0] == values["deltacli_fleet_log_bytes"]
    assert [1.0] == values["deltacli_fleet_table_alerts"] == values["deltacli_fleet_status"]
    assert [40.003] == values["deltacli_fleet_step_succeeded_seconds"]
    assert {"table": TABLE, "group": "g", "step": "vacuum"} == families[
        "deltacli_fleet_step_succeeded_seconds"
    ].samples[0].labels


LIMITS = """\
[policies.base]
validate = {}
alerts = { log-bytes = "1MiB", small-files = "30%", tombstones = "50%", failed-rules = 2 }
[policies.strict]
inherits = "base"
alerts = { log-bytes = "1KiB", checkpoint-age = "7d" }
[policies.silent]
inherits = "base"
alerts = false
[groups.g]
policy = "strict"
tables = ["t"]
[groups.h]
policy = "silent"
tables = ["u"]
"""

FACTS = {"logBytes": 2_048, "logFiles": 9, "commitsBehind": 3, "checkpointMs": 1_000}
COUNTS = {"liveFiles": 100, "smallFiles": 31, "tombstones": 10, "errors": 0, "warnings": 2, "rules": {"x.y": 2}}


def test_thresholds_are_judged_by_what_the_runs_have_read(status: Status) -> None:
    Path("fleet.toml").write_text(LIMITS)
    now = ("--now", "1970-01-08T00:00:01Z")
    write_run(1, ("table-facts", {"table": TABLE, "facts": FACTS}))
    before = status(*now)[1]["tables"][0]
    write_run(2, step(TABLE, "validate", "done", details=COUNTS))
    code, document = status(*now)
    write_run(3, step(TABLE, "checkpoint", "done", details={"sizeBytes": 1}))
    after = status(*now)[1]["tables"][0]
    elsewhere = status("--only", "h", *now)

    def states(table: Any) -> dict[str, str]:
        return {one["name"]: one["state"] for one in table["thresholds"]}

    rest = {"small-files": "exceeded", "tombstones": "ok", "failed-rules": "ok"}
    assert {"log-bytes": "exceeded", "checkpoint-age": "exceeded", **dict.fromkeys(rest, "unknown")} == states(before)
    assert {"log-bytes": "exceeded", "checkpoint-age": "exceeded", **rest} == states(document["tables"][0])
    assert {"log-bytes": "exceeded", "checkpoint-age": "ok", **rest} == states(after)
    assert (1, 0, []) == (code, elsewhere[0], elsewhere[1]["tables"])
    assert [[2_099, 2_048]] == document["trends"]["logBytes"][1:]
    assert "the last checkpoint, which is 7 days old (limit 7d)" in document["tables"][0]["alerts"][1]
    assert f"deltacli checkpoint {shlex.quote(TABLE)}" in document["tables"][0]["next"]


def test_alerts_of_one_cause_are_one_line_with_the_number_of_their_tables(
    status: Status, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    consent = {"code": "fleet.consent", "message": "the policy lacks consent = true for vacuum"}
    limits = [f"{number} of {number} files would be deleted" for number in range(3)]
    write_run(
        1,
        *[step(f"/lake/{number:03d}", "vacuum", "refused", **consent) for number in range(98)],
        *[step(f"/many/{n}", "vacuum", "refused", code="vacuum.too-many", message=limits[n]) for n in range(3)],
        step("/one", "checkpoint", "failed", code="storage.failed", message="no answer"),
        ("table-facts", {"table": "/fine", "facts": FACTS}),
    )

    _, document = status()
    text_code = run(["fleet", "status"])
    rows, _, sections = capfdbinary.readouterr()[0].decode().rpartition("\n\n")
    run(["fleet", "status", "--limit", "1"])
    cut = capfdbinary.readouterr()[0].decode()

    assert [
        ("checkpoint failed: no answer", 1),
        ("vacuum refused: the policy lacks consent = true for vacuum", 98),
        ("vacuum refused: vacuum.too-many", 3),
    ] == [(cause["cause"], cause["tables"]) for cause in document["causes"]]
    assert 1 == text_code
    assert (98, 1) == (rows.count("vacuum lacks consent = true"), sections.count("consent = true"))
    assert (1, 0) == (rows.count("checkpoint failed: no answer"), sections.count("no answer"))
    assert ["/one", "checkpoint failed: no answer"] == cut.splitlines()[1].split(maxsplit=1)
    do, _, commands = sections.partition("to do ")[2].partition("next ")
    assert do.startswith("      add consent = true to vacuum in the policy of the group, or turn vacuum off\n")
    commands = commands.partition("newest run")[0]
    assert [
        "deltacli checkpoint /one --dry-run",
        *(f"deltacli vacuum /many/{number} --dry-run" for number in range(3)),
    ] == [line.strip() for line in commands.splitlines()]


def test_tables_that_lose_more_files_come_first(status: Status) -> None:
    def lost(table: str, files: int) -> tuple[str, dict[str, Any]]:
        found = {"rule": "data.file-missing", "severity": "error", "message": "x"}
        details = COUNTS | {"rules": {"data.file-missing": files, "x.y": 500}, "findings": [found]}
        return step(table, "validate", "findings", code="data.file-missing", message="x", details=details)

    write_run(1, lost("/lake/a", 1), lost("/lake/b", 100), lost("/lake/c", 2))

    assert ["/lake/b", "/lake/c", "/lake/a"] == [table["table"] for table in status()[1]["tables"]]


def test_no_repair_is_advised_for_archived_files() -> None:
    def advice(code: str) -> str:
        found = [{"rule": code, "severity": "error", "message": "x"}]
        return advice_for(StepStatus("validate", "findings", 1, 1, "", code=code, findings=found), "s3://lake/t", "")

    assert "deltacli validate s3://lake/t" == advice("data.archived")
    assert "deltacli repair s3://lake/t --dry-run" == advice("data.not-parquet")


def test_rows_that_are_lost_come_before_whatever_else_costs_time(status: Status) -> None:
    Path("fleet.toml").write_text(LIMITS)
    found = {"rule": "data.file-missing", "severity": "error", "message": "x"}
    lost = COUNTS | {"failedRules": 2, "findings": [found]}
    write_run(
        1,
        ("table-facts", {"table": "s3://lake/lost", "facts": FACTS}),
        step("s3://lake/lost", "validate", "findings", code="data.file-missing", message="1 data file", details=lost),
        ("table-facts", {"table": "/lake/slow", "facts": FACTS | {"logBytes": 4_096}}),
        step("/lake/slow", "validate", "done", details=COUNTS | {"smallFiles": 90}),
    )

    _, document = status("--now", "1970-01-08T00:00:01Z")

    first = document["tables"][0]
    assert (
        "s3://lake/lost",
        ["deltacli repair s3://lake/lost --from versions --dry-run", "deltacli validate s3://lake/lost"],
    ) == (
        first["table"],
        first["next"],
    )
    local = "deltacli repair /lake/c --dry-run"
    vacuum = VacuumPolicy(retention_ms=14 * DAY_MS, consent=True)
    failed = advice_for(StepStatus("vacuum", "failed", 7, 1, "", code="storage.failed"), "/lake/c", "", vacuum)
    assert "deltacli vacuum /lake/c --dry-run --retention 14d" == failed
    assert local == advice_for(StepStatus("validate", "findings", 1, 1, "", code="data.file-missing"), "/lake/c", "")
    assert "failed-rules: 2 rules with errors or warnings (limit 2)" in first["alerts"]
    causes = {cause["cause"]: cause["next"] for cause in document["causes"]}
    assert [
        ("log-bytes: beyond the limit", "deltacli log expire /lake/slow --dry-run"),
        ("small-files: beyond the limit", "deltacli optimize /lake/slow --dry-run"),
    ] == [(cause, advice) for cause, advice in causes.items() if "beyond" in cause]


def test_a_table_with_an_unknown_reader_feature_counts_as_unreadable(
    status: Status, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """`validate` finds nothing wrong with it; the fleet says that nobody here can read it."""
    text = '{{"protocol":{{"minReaderVersion":3,"minWriterVersion":7,"{}":["catalogOwned"],"{}":["catalogOwned"]}}}}'
    Path("fleet.toml").write_text('[policies.p]\nvalidate = {}\n[groups.g]\npolicy = "p"\ntables = ["t"]\n')
    TableBuilder().commits(1).write(table := Path("t"))
    commit = table / "_delta_log" / "00000000000000000000.json"
    lines = commit.read_text().splitlines()
    lines[next(index for index, line in enumerate(lines) if "minReaderVersion" in line)] = text.format(
        "readerFeatures", "writerFeatures"
    )
    commit.write_text("\n".join(lines) + "\n")

    codes = [run(["validate", "t", "-q"]), run(["fleet", "run", "-q"])]
    capfdbinary.readouterr()
    code, document = status()

    said = "validate failed: version 0 needs the reader feature catalogOwned, which deltacli cannot read"
    assert ([0, 5], 1, [said]) == (codes, code, document["tables"][0]["alerts"])
    assert (1, 3) == (document["summary"]["unreadable"], document["tables"][0]["steps"][0]["exit"])


def test_headline_document_and_page_count_the_same_tables(status: Status) -> None:
    """A table can have both faults, also by one validation: a missing file and a protocol from the future."""
    lost = {"findings": [{"rule": "data.file-missing", "severity": "error", "message": "x"}]}
    broken = {"findings": [{"rule": "sidecar.missing", "severity": "error", "message": "x"}]}
    write_run(
        1,
        step("/a", "validate", "failed", exit=3, message="version 0 needs reader version 99", details=lost),
        step("/b", "validate", "findings", message="1 data file is missing", details=lost),
        step("/c", "validate", "findings", message="1 finding: sidecar.missing", details=broken),
        ("table-unreadable", {"table": "/b", "code": "log.gap", "message": "commit 3 is missing"}),
    )

    document = status("--html", "page.html")[1]

    page = Path("page.html").read_text()
    tables = {one["table"]: (one["losesRows"], one["unreadable"]) for one in document["tables"]}
    assert {"/a": (True, True), "/b": (True, True), "/c": (False, True)} == tables
    assert (2, 3) == (document["summary"]["losingRows"], document["summary"]["unreadable"])
    assert '<h1 class="bad">deltacli: 3 of 3 tables have alerts: 2 may lose rows, 3 cannot be read</h1>' in page
    cards = re.findall(r'<span class="dim">tables that ([^<]*)</span><b class="bad">(\d)</b>', page)
    assert [("cannot be read", "3"), ("may lose rows", "2")] == cards
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    assert ["/a", "/b"] == sorted(one["t"] for one in data["tables"] if one.get("losesRows"))
    assert "validate failed: version 0 needs reader version 99, data.file-missing" in page


def test_a_table_whose_newest_version_was_read_is_not_one_that_cannot_be_read(status: Status) -> None:
    """An older version may have a finding for which it cannot be read. The summary of the journal keeps the fact."""
    old = {"findings": [{"rule": "sidecar.missing", "severity": "error", "message": "x"}]}
    write_run(
        1,
        step("/read", "validate", "findings", message="1 finding: sidecar.missing", details=old | {"liveFiles": 3}),
        step("/unread", "validate", "findings", message="1 finding: sidecar.missing", details=old),
    )

    documents = [status()[1] for _ in range(2)]

    for document in documents:
        tables = {one["table"]: (one["unreadable"], one["next"]) for one in document["tables"]}
        assert {
            "/read": (False, ["deltacli validate /read"]),
            "/unread": (True, ["deltacli repair /unread --dry-run"]),
        } == tables


def test_a_table_that_is_gone_has_no_alerts(status: Status) -> None:
    write_run(1, step(TABLE, "vacuum", "failed", message="x"))
    write_run(2, ("table-gone", {"table": TABLE}))

    code, document = status()

    assert (0, []) == (code, document["tables"])


def test_a_group_that_the_policy_file_no_longer_has_is_left_out(status: Status) -> None:
    """But not before all groups were run: it may have another name."""
    write_run(1, step(TABLE, "vacuum", "failed", message="x"))
    Path("fleet.toml").write_text(POLICY.replace("[groups.g]", "[groups.other]"))
    writers = [JournalWriter(Path("fleet-state"), f"run-00{number}") for number in (2, 3)]

    found = []
    for now_ms, writer, groups in zip((2_000, 3_000), writers, (["h"], ["h", "other"]), strict=True):
        found.append(status()[1]["tables"])
        writer.write("run-started", now_ms, groups=groups, host="elsewhere", process="1@1")
        writer.write("run-finished", now_ms + 99, exit=0, left=0)
        writer.close()
    code, document = status()

    assert [[TABLE]] * 2 == [[one["table"] for one in tables] for tables in found]
    assert (0, []) == (code, document["tables"])


def test_the_formats_of_ci_systems_have_the_alerts_of_all_tables(
    status: Status, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    Path("fleet.toml").write_text(LIMITS.replace("validate = {}", 'validate = { level = "storage" }'))
    finding = {"rule": "commit.bad-json", "severity": "error", "message": "not JSON", "path": "_delta_log/5", "line": 3}
    write_run(
        1,
        ("table-facts", {"table": "/lake/a", "facts": FACTS}),
        step("/lake/a", "validate", "findings", message="x", details={"findings": [finding, {"rule": "of.another"}]}),
        step("/lake/a", "vacuum", "refused", message="<&>"),
        ("table-unreadable", {"table": "/lake/b", "code": "log.gap", "message": "commit 3 is missing"}),
        step("/lake/c", "vacuum", "done"),
    )

    codes = [run(["fleet", "status", "--now", "1970-01-08T00:00:01Z", "--format", form]) for form in ("sarif", "junit")]
    sarif, junit = capfdbinary.readouterr()[0].split(b"\n", 1)

    SARIF.validate(document := json.loads(sarif))
    results = [(found["ruleId"], found["level"]) for found in document["runs"][0]["results"]]
    suites = ElementTree.fromstring(junit)
    failed = {case.get("name") for case in suites.iterfind(".//testcase[failure]")}
    expected = {"commit.bad-json", "fleet.validate", "fleet.vacuum", "fleet.log-bytes", "fleet.checkpoint-age"}
    assert ([1, 1], expected, expected) == (codes, {rule for rule, _ in results}, failed)
    assert [("commit.bad-json", "error"), ("fleet.log-bytes", "warning")] == [results[0], results[-2]]
    assert (
        "commit 3 is missing"
        in document["runs"][0]["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]
    )
    assert ("3", "1") == (str(len(suites)), suites.get("errors"))
    assert {"storage"} == {one.get("value") for one in suites.iterfind(".//property[@name='level']")}
    assert {"fleet.small-files", "fleet.tombstones", "fleet.failed-rules"} == {
        case.get("name") for case in suites[0].iterfind("testcase[skipped]")
    }
