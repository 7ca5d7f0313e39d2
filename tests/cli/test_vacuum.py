"""`vacuum` on the command line: what is asked for, shown, agreed to and refused. The plans are made by hand; the table
they are executed on is the sample table, of which nothing is deleted here.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from deltacli.changing.base_version import BaseVersion
from deltacli.changing.file_totals import FileTotals
from deltacli.changing.outcome import DeletionFailures
from deltacli.cli.app import run
from deltacli.cli.terminal.signals import Interrupted
from deltacli.core.errors import Refused
from deltacli.operations.vacuum.plan import Kept, Mode, VacuumOutcome, VacuumPlan, VacuumRequest
from deltacli.operations.vacuum.rechecking import digest_commit
from deltacli.operations.vacuum.saved import read_plan, save_plan
from deltacli.table.find_log import list_log
from deltacli.table.handle import TableHandle
from tests.cli.pty_session import Session
from tests.cli.screen import as_pasted
from tests.cli.support import Result, deltacli
from tests.cli.test_terminal import ESCAPE, on_terminal
from tests.cli.vacuum_plans import DAY_MS, ROWS, TOO_MUCH, TORN, make_plan
from tests.docs.test_schemas import faults, line_faults
from tests.support.vacuuming import write_table

Json = dict[str, Any]  # Any: JSON values
CORE = "deltacli.operations.vacuum"


@dataclass
class Core:
    """What stands in for planning and execution, and what it was asked."""

    plan: VacuumPlan
    outcome: VacuumOutcome = field(
        default_factory=lambda: VacuumOutcome(deleted=FileTotals(6, 3 << 30), start_version=43)
    )
    requests: list[VacuumRequest] = field(default_factory=list)
    executed: list[tuple[Any, Any]] = field(default_factory=list)  # Any: options and record
    ends_with: BaseException | None = None

    def plan_vacuum(self, table: TableHandle, request: VacuumRequest, **_: object) -> VacuumPlan:
        self.requests.append(request)
        version = self.plan.snapshot_version
        sha256 = digest_commit(table, list_log(table.storage), version) or "of a version that is not there"
        return replace(self.plan, made_from=BaseVersion(table, version, table.clock(), sha256=sha256))

    def execute_vacuum(
        self, _table: object, _plan: VacuumPlan, options: object, *, outcome: VacuumOutcome, record: object
    ) -> VacuumOutcome:
        self.executed.append((options, record))
        outcome.deleted, outcome.start_version = self.outcome.deleted, self.outcome.start_version
        outcome.failed, outcome.end_problem = self.outcome.failed, self.outcome.end_problem
        if self.ends_with is not None:
            outcome.end_version, outcome.end_status = self.outcome.end_version, self.outcome.end_status
            raise self.ends_with
        return outcome


Vacuum = Callable[..., Result]


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> Core:
    made = Core(make_plan())
    monkeypatch.setattr(f"{CORE}.full_plan.plan_vacuum", made.plan_vacuum)
    monkeypatch.setattr(f"{CORE}.execute.execute_vacuum", made.execute_vacuum)
    return made


@pytest.fixture
def vacuum(sample: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Vacuum:
    """Run the command on the sample table, in this process."""
    monkeypatch.chdir(sample.parent)
    for name in [name for name in os.environ if name.startswith("DELTACLI_")]:
        monkeypatch.delenv(name)

    def run_here(*arguments: str) -> Result:
        code = run(["vacuum", "trips", *arguments])
        out, err = capfdbinary.readouterr()
        return Result(code, out.decode("utf-8", "surrogateescape"), err.decode())

    return run_here


def test_a_dry_run_shows_the_plan_and_exits_with_4_where_a_guard_would_stop_it(core: Core, vacuum: Vacuum) -> None:
    core.plan = make_plan(refusals=(TOO_MUCH, TORN), notes=("the clock of the store is not known",))

    done = vacuum("--dry-run", "--yes")
    documented = vacuum("--dry-run", "--json")
    *lines, end = map(json.loads, vacuum("--dry-run", "--format", "ndjson").out.splitlines())

    assert (4, 4, []) == (done.code, documented.code, core.executed)
    assert [
        "note: the clock of the store is not known",
        "error: trips: 83% of the bytes would be deleted, above the limit of 50%",
        "  guard  vacuum.max-delete",
        "  also   commit.empty",
        "hint: deltacli vacuum trips --dry-run --max-delete 100%",
    ] == done.err.splitlines()
    assert [TOO_MUCH.code, TORN.code] == [one["code"] for one in documented.document["refusals"]]
    assert (True, 6, True) == (documented.document["dryRun"], len(lines) - 1, end["complete"])
    assert "delete all 6 3.0 GiB" in done.words
    assert "[vacuum.max-delete] override: --max-delete 100%" in done.words


def test_a_plan_that_a_guard_refuses_is_shown_and_refused_despite_consent(core: Core, vacuum: Vacuum) -> None:
    core.plan = make_plan(refusals=(TOO_MUCH, TORN))

    done = vacuum("--yes")
    document = vacuum("--yes", "--json")

    assert (4, []) == (done.code, core.executed)
    assert "delete all 6 " in done.words
    assert [
        "error: trips: nothing was changed: 83% of the bytes would be deleted, above the limit of 50%",
        "  guard  vacuum.max-delete",
        "  also   commit.empty",
        "hint: deltacli vacuum trips --dry-run --max-delete 100%",
    ] == done.err.splitlines()
    assert ("vacuum.max-delete", True) == (document.error["code"], document.document["dryRun"])


def test_a_guard_without_an_override_suggests_what_to_check(core: Core, vacuum: Vacuum) -> None:
    core.plan = make_plan(refusals=(TORN,))

    done = vacuum("--yes")

    assert (4, "hint: deltacli validate trips --select 'commit.*'") == (done.code, done.err.splitlines()[-1])


def test_an_empty_listing_is_refused_even_if_nothing_would_be_deleted(core: Core, vacuum: Vacuum) -> None:
    core.plan = make_plan((), kept=Kept(), refusals=(TOO_MUCH,))

    assert 4 == vacuum("--yes").code


def test_without_candidates_no_prompt_appears_and_nothing_is_committed(core: Core, vacuum: Vacuum) -> None:
    core.plan = make_plan((), kept=Kept())

    done = vacuum()
    document = vacuum("--yes", "--json").document

    assert (0, "", None) == (done.code, done.err, document["startVersion"])
    assert "delete nothing 0" in done.words


def test_nothing_is_deleted_before_consent(core: Core, vacuum: Vacuum) -> None:
    done = vacuum("--retention", "14d")

    assert (4, []) == (done.code, core.executed)
    assert "delete all 6 " in done.words
    assert "confirmation is required to delete 6 files (3.0 GiB) of file:///lake/trips" in done.err
    assert "hint: deltacli vacuum trips --retention 14d --yes" in done.err


def test_consent_executes_the_plan_and_reports_the_outcome(core: Core, vacuum: Vacuum) -> None:
    done = vacuum("--yes", "--threads", "3", "--rate", "500/s", "--no-log-entries")

    ((options, record),) = core.executed
    assert (0, "") == (done.code, done.err)
    assert (3, 500.0, False, None) == (options.threads, options.rate, options.log_entries, record)
    assert "deleted 6 files, 3.0 GiB" in done.words
    assert done.words.endswith("commits VACUUM START: version 43")


def test_files_that_could_not_be_deleted_are_named_with_exit_code_5(core: Core, vacuum: Vacuum) -> None:
    core.outcome = VacuumOutcome(FileTotals(5, 10), failed=DeletionFailures(1, [("a b.parquet", "permission denied")]))

    done = vacuum("--yes")
    document = vacuum("--yes", "--json").document

    assert (5, "hint: deltacli vacuum trips --yes") == (done.code, done.err.splitlines()[-1])
    assert "failed 1 file could not be deleted a b.parquet: permission denied" in done.words
    assert (1, [{"path": "a b.parquet", "reason": "permission denied"}]) == (
        document["deleted"]["failed"],
        document["deleted"]["failures"],
    )


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (VacuumOutcome(), "nothing was changed"),
        (
            VacuumOutcome(FileTotals(4, 10), start_version=43, end_version=44, end_status="FAILED"),
            "4 of 6 files deleted, VACUUM END (FAILED) is version 44; run the same command to continue",
        ),
        (
            VacuumOutcome(FileTotals(4, 10), start_version=43, end_problem="no space left"),
            "4 of 6 files deleted, VACUUM END was not written; run the same command to continue",
        ),
        (VacuumOutcome(FileTotals(4, 10)), "4 of 6 files deleted; run the same command to continue"),
        (
            VacuumOutcome(FileTotals(6, 10), start_version=43, end_version=44, end_status="COMPLETED"),
            "6 of 6 files deleted, VACUUM END (COMPLETED) is version 44; run the same command to continue",
        ),
    ],
    ids=["before START", "in between", "no END", "no log entries", "after END"],
)
def test_an_interruption_reports_progress_and_how_to_resume(
    outcome: VacuumOutcome, said: str, core: Core, vacuum: Vacuum
) -> None:
    core.ends_with, core.outcome = Interrupted(signal.SIGINT), outcome

    done = vacuum("--yes")

    assert (130, "", f"interrupted; {said}\n") == (done.code, done.out, done.err)


@pytest.mark.parametrize(
    ("outcome", "code", "so_far"),
    [
        (VacuumOutcome(), 4, None),
        (
            VacuumOutcome(start_version=43, end_version=44, end_status="FAILED"),
            5,
            "0 of 6 files deleted, VACUUM END (FAILED) is version 44",
        ),
        (
            VacuumOutcome(FileTotals(4, 10), end_problem="no space left"),
            5,
            "4 of 6 files deleted, VACUUM END was not written",
        ),
    ],
    ids=["before START", "before the first", "in between"],
)
def test_a_failure_during_deletion_reports_how_many_files_were_deleted(
    outcome: VacuumOutcome, code: int, so_far: str | None, core: Core, vacuum: Vacuum
) -> None:
    core.outcome = outcome
    core.ends_with = Refused("the retention has grown", code="vacuum.plan-retention", hint="deltacli vacuum {table}")

    done = vacuum("--yes")

    assert (code, "error: trips: the retention has grown", "hint: deltacli vacuum trips") == (
        done.code,
        done.err.splitlines()[0],
        done.err.splitlines()[-1],
    )
    assert (so_far or "") in done.err
    assert ("deleted " in done.out) == (so_far is not None)


def test_every_option_reaches_the_plan(core: Core, vacuum: Vacuum) -> None:
    words = "--retention 1h --allow-retention-below 168h --prefix ./day=1/x/ --keep-version 5 --keep-version 7,9-11"
    rest = "--protect-from s3://a/b --protect-from ../c --inventory m.json --max-delete 10GiB --include-foreign"

    vacuum(*words.split(), *rest.split(), "--skip-nested-tables", "--dry-run")
    vacuum("--where", "day < '2026-01-02'", "--dry-run")
    vacuum("--mode", "lite", "--dry-run")

    hour = 3_600_000
    assert [
        VacuumRequest(
            retention_ms=hour,
            allow_retention_below_ms=7 * DAY_MS,
            prefix="day=1/x",
            keep_versions=(5, 7, 9, 10, 11),
            protect_from=("s3://a/b", "../c"),
            inventory="m.json",
            max_delete="10GiB",
            include_foreign=True,
            skip_nested_tables=True,
        ),
        VacuumRequest(where="day < '2026-01-02'"),
        VacuumRequest(mode=Mode.LITE),
    ] == core.requests


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--prefix a --where a=1", "--prefix and --where exclude each other"),
        ("--save-plan a --apply b", "--save-plan and --apply exclude each other"),
        ("--apply a --explain b", "--apply and --explain exclude each other"),
        ("--apply a --retention 7d --mode full --keep-version 3", "for planning: --retention, --mode, --keep-version"),
        ("--mode lite --prefix a", "--prefix cannot be combined with --mode lite"),
        ("--mode lite --where a=1", "--where cannot be combined with --mode lite"),
        ("--mode lite --inventory a", "does not list the table"),
        ("--mode lite --include-foreign", "does not list the table"),
        ("--mode quick", "'quick' is not one of"),
        ("--prefix ../other", "is not a directory below the table"),
        ("--prefix a/../../b", "is not a directory below the table"),
        ("--prefix=", "is not a directory below the table"),
        ("--prefix /a", "is not a directory below the table"),
        ("--prefix s3://a/b", "is not a directory below the table"),
        ("--prefix ./_delta_log/x", "is the log"),
        ("--rate 500", "is not a rate"),
        ("--rate 0/s", "is not a rate"),
        ("--threads 0", "0 is less than 1"),
        ("--keep-version 3-1", "--keep-version 3-1: '3-1' is not a version"),
        ("--keep-version x", "'x' is not a version"),
        ("--max-delete 120%", "is not a share"),
        ("--max-delete 50x", "expected  20%, at most 100%, or 10GiB"),
        ("--retention soon", "is not a duration"),
        ("--protect-from=", "--protect-from is empty"),
        ("--save-plan=", "--save-plan is empty"),
        ("--save-plan trips/_delta_log/p", "is inside the log"),
    ],
)
def test_contradictory_options_are_a_usage_error_and_nothing_is_planned(
    words: str, said: str, core: Core, vacuum: Vacuum
) -> None:
    done = vacuum(*words.split(), "--yes")

    assert (2, "", []) == (done.code, done.out, core.requests)
    assert said in done.err


@pytest.mark.parametrize("words", ["--dry-run", "--dry-run --files", "--yes", "", "--yes --mode lite"])
def test_documents_and_lines_match_their_schemas_and_each_other(words: str, core: Core, vacuum: Vacuum) -> None:
    core.plan = make_plan(refusals=(TORN,) if not words else (), selection="a" if "lite" in words else None)

    document = vacuum(*words.split(), "--json").document
    *items, whole, end = map(json.loads, vacuum(*words.split(), "--format", "ndjson").out.splitlines())

    assert [] == faults(document, "deltacli.vacuum")
    assert [] == [fault for line in [*items, whole, end] for fault in line_faults(line)]
    listed = document.pop("items", None)
    if "--files" in words:
        assert [{"type": "candidate", **item} for item in listed] == items
    assert listed is None or "--files" in words
    envelope = {name: document.pop(name) for name in ("kind", "schemaVersion", "tableFormat", "complete")}
    assert {"type": "vacuum", **document} == whole
    assert ("deltacli.vacuum", {"type": "end", "complete": True, "count": 7}) == (envelope["kind"], end)
    assert [path.decode() for path, *_ in ROWS] == [item["path"] for item in items]
    assert [row[4] for row in ROWS] == [item["removedAtVersion"] for item in items]


def test_a_damaged_document_is_refused(core: Core, vacuum: Vacuum) -> None:
    document = vacuum("--dry-run", "--files", "--json").document

    assert faults({**document, "deleted": {}}, "deltacli.vacuum")
    assert faults({**document, "reach": None}, "deltacli.vacuum")
    assert faults({**document, "items": [{**document["items"][0], "reason": "commit"}]}, "deltacli.vacuum")


def test_csv_and_the_screen_list_name_every_candidate(core: Core, vacuum: Vacuum) -> None:
    rows = list(csv.DictReader(io.StringIO(vacuum("--dry-run", "--format", "csv").out)))
    screen = vacuum("--dry-run", "--files").out

    assert [row[0].decode() for row in ROWS] == [row["path"] for row in rows]
    assert ["", "7", "12", "13", "", "13"] == [row["removedAtVersion"] for row in rows]
    assert [path.decode() for path, *_ in ROWS] == [
        line.rsplit("  ", 1)[1].strip() for line in screen.split("\n\n")[-1].splitlines()[1:]
    ]


def test_names_that_are_not_utf8_keep_their_bytes(core: Core, vacuum: Vacuum) -> None:
    core.plan = make_plan([(b"a\xff,b", 1, 2, "uncommitted", None, None), *ROWS])

    document = vacuum("--dry-run", "--files", "--json").document
    lines = vacuum("--dry-run", "--format", "ndjson").out.splitlines()
    table = vacuum("--dry-run", "--format", "csv").out
    screen = vacuum("--dry-run", "--files").out

    assert ["a\udcff,b"] * 2 == [document["items"][0]["path"], json.loads(lines[0])["path"]]
    assert '"a\udcff,b",1,2,uncommitted,' == table.splitlines()[1]
    assert 7 == len(list(csv.reader(table.splitlines()))) - 1
    assert "a\udcff,b\n" in screen


@pytest.fixture
def saved(core: Core, sample: Path, tmp_path: Path) -> str:
    """The file of a plan of the sample table."""
    core.plan = make_plan(snapshot_version=14, table=sample.as_uri())
    save_plan(core.plan, str(tmp_path / "a plan.parquet"))
    return str(tmp_path / "a plan.parquet")


NOW = ("--now", "2026-02-02T03:00:00Z")


def test_a_plan_is_saved_and_shown_with_the_next_command(core: Core, vacuum: Vacuum, tmp_path: Path) -> None:
    path = tmp_path / "a plan.parquet"

    done = vacuum("--save-plan", str(path), "--yes")

    assert (0, [], core.plan.plan_id) == (done.code, core.executed, read_plan(str(path)).plan_id)
    assert "delete all 6 " in done.words
    assert f"next: deltacli vacuum trips --apply '{path}' --yes\n" == done.err


def test_a_refused_plan_is_saved_but_cannot_be_applied(core: Core, vacuum: Vacuum, saved: str) -> None:
    core.plan = replace(core.plan, refusals=(TOO_MUCH,))

    made = vacuum("--save-plan", saved)
    applied = vacuum("--apply", saved, "--yes", *NOW)

    assert (4, 4, []) == (made.code, applied.code, core.executed)
    assert (TOO_MUCH,) == read_plan(saved).refusals
    assert "delete all 6 " in made.words
    assert made.err.endswith(" --max-delete 100%\n")
    assert "hint: deltacli vacuum trips --save-plan plan.parquet --max-delete 100%" in applied.err
    assert "delete all 6 " in applied.words


def test_a_saved_plan_is_executed_once_and_reported(core: Core, vacuum: Vacuum, saved: str) -> None:
    core.requests.clear()

    asked = vacuum("--apply", saved, *NOW)
    done = vacuum("--apply", saved, "--yes", "--rate", "5/s", *NOW)
    report = json.loads(Path(f"{saved}.report.json").read_text())

    assert (4, 0, 1, []) == (asked.code, done.code, len(core.executed), core.requests)
    assert "confirmation is required to delete 6 files (3.0 GiB)" in asked.err
    assert f"note: the report is {saved}.report.json\n" == done.err
    assert [] == faults(report, "deltacli.vacuum")
    assert core.executed[0][1].resume_at == 0


def test_an_unfinished_saved_plan_can_be_applied_again(core: Core, vacuum: Vacuum, saved: str) -> None:
    core.outcome = VacuumOutcome(FileTotals(5, 10), failed=DeletionFailures(1, [("a b.parquet", "permission denied")]))

    done = vacuum("--apply", saved, "--yes", *NOW)

    again = f"hint: deltacli vacuum trips --apply '{saved}' --yes {' '.join(NOW)}"
    assert (5, again) == (done.code, done.err.splitlines()[-1])


def test_an_outdated_plan_is_refused_even_in_a_dry_run(core: Core, vacuum: Vacuum, saved: str) -> None:
    save_plan(replace(core.plan, table_id="another"), saved)

    looked = vacuum("--apply", saved, "--dry-run", "--json", *NOW)
    done = vacuum("--apply", saved, "--yes", "--json", *NOW)

    assert (4, 4, []) == (looked.code, done.code, core.executed)
    assert ["vacuum.plan-other-table"] == [one["code"] for one in looked.document["refusals"]]
    assert "vacuum.plan-other-table" == looked.error["code"]
    assert ("vacuum.plan-other-table", looked.document) == (done.error["code"], done.document)


def test_a_real_table_loses_only_unneeded_files_and_keeps_its_rows(sample: Path, tmp_path: Path) -> None:
    shutil.copytree(sample, tmp_path / "tbl")
    rows = deltacli("read", "tbl", "--format", "csv", cwd=tmp_path).out
    before = data_files(tmp_path)

    dry = deltacli("vacuum", "tbl", "--dry-run", "--files", "--json", cwd=tmp_path).document
    done = deltacli("vacuum", "tbl", "--yes", "--json", cwd=tmp_path).document
    again = deltacli("vacuum", "tbl", "--yes", "--json", cwd=tmp_path).document

    assert [] == [fault for found in (dry, done, again) for fault in faults(found, "deltacli.vacuum")]
    assert {item["path"] for item in dry["items"]} == before - data_files(tmp_path)
    assert (11, 15, 16) == (done["deleted"]["files"], done["startVersion"], done["endVersion"])
    assert (0, None) == (again["candidates"]["files"], again["startVersion"])
    assert rows == deltacli("read", "tbl", "--format", "csv", cwd=tmp_path).out


def test_a_real_plan_is_applied_once(sample: Path, tmp_path: Path) -> None:
    shutil.copytree(sample, tmp_path / "tbl")
    before = data_files(tmp_path)

    made = deltacli("vacuum", "tbl", "--save-plan", "p.parquet", "--json", cwd=tmp_path)
    planned = data_files(tmp_path)
    done = deltacli("vacuum", "tbl", "--apply", "p.parquet", "--yes", "--json", cwd=tmp_path)
    again = deltacli("vacuum", "tbl", "--apply", "p.parquet", "--yes", cwd=tmp_path)
    nothing = deltacli("vacuum", "tbl", "--save-plan", str(tmp_path.parent / "nothing.parquet"), cwd=tmp_path)

    assert (0, "") == (nothing.code, nothing.err)
    assert (0, 0, 0, before) == (made.code, done.code, again.code, planned)
    assert 11 == len(before - data_files(tmp_path)) == done.document["deleted"]["files"]
    assert "note: this plan was already executed; there is nothing to do\n" == again.err
    assert {"p.parquet", "p.parquet.progress", "p.parquet.report.json", "tbl"} == set(os.listdir(tmp_path))


@pytest.mark.parametrize(("answer", "code", "gone"), [("y\n", 0, 11), ("n\n", 4, 0)])
def test_the_prompt_repeats_the_numbers_and_the_screen_shows_the_next_command(
    answer: str, code: int, gone: int, sample: Path, tmp_path: Path
) -> None:
    shutil.copytree(sample, tmp_path / "tbl")
    before = data_files(tmp_path)

    with Session("vacuum", tmp_path / "tbl", "--color", "never", size=(80, 60)) as session:
        asked = session.read_until("[y/N] ")
        unchanged = data_files(tmp_path)
        session.type(answer)
        ended, seen = session.finish()

    assert before == unchanged
    assert "delete  tombstone     11  18.2 KiB" in asked
    assert "delete 11 files (18.2 KiB) of file://" in " ".join(asked.split())
    assert (code, gone) == (ended, len(before - data_files(tmp_path)))
    said = "cancelled; nothing was changed" if code else f"next: deltacli history {tmp_path}/tbl --limit 3"
    assert as_pasted(seen).rstrip().endswith(said)
    after = seen.partition("[y/N] ")[2]
    assert [bool(not code)] * 2 == ["deleted" in after, "VACUUM END: version 16" in after]
    assert [] == [word for word in ("cutoff", "keep", "time travel", "18.2 KiB  ") if word in after]


def test_a_dry_run_on_a_terminal_shows_the_real_command_and_every_line_fits(sample: Path) -> None:
    code, lines = on_terminal(80, "vacuum", sample, "--dry-run", "--files", "--no-pager")
    plain = [ESCAPE.sub("", line) for line in lines]

    assert (0, f"next: deltacli vacuum {sample} --files --no-pager") == (
        code,
        as_pasted("\n".join(plain)).rpartition("\n")[2],
    )
    assert [] == [line for line in plain if len(line) > 80 and str(sample) not in line]
    assert 11 == sum(line.endswith(".parquet") for line in plain)


def test_a_dry_run_that_cannot_be_followed_names_no_next_command(sample: Path) -> None:
    ahead = on_terminal(80, "vacuum", sample, "--dry-run", "--now", "2999-01-01")
    assert (0, []) == (ahead[0], [line for line in ahead[1] if "next:" in line])


def test_a_live_file_that_is_gone_is_shown_before_anything_is_deleted(sample: Path, tmp_path: Path) -> None:
    table = shutil.copytree(sample, tmp_path / "tbl")
    next(table.rglob("part-00014-*.parquet")).unlink()

    code, lines = on_terminal(80, "vacuum", table, "--dry-run", "--no-pager")
    document = deltacli("vacuum", table, "--dry-run", "--json").document

    shown = " ".join(as_pasted(ESCAPE.sub("", "\n".join(lines))).split())
    assert (0, False) == (code, "next:" in shown), shown
    assert "not complete: version 14 lacks 1 file" in shown
    assert f"to see and recover it: deltacli repair {table} --dry-run" in shown
    assert None is document["reach"]["firstVersion"]


def data_files(home: Path) -> set[str]:
    table = home / "tbl"
    return {path.relative_to(table).as_posix() for path in table.rglob("*.parquet") if "_delta_log" not in path.parts}


def test_nothing_is_deleted_if_the_result_cannot_be_written(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t")
    before = sorted(table.rglob("*"))

    result = deltacli("vacuum", table, "--yes", "--max-delete", "100%", "--output", tmp_path / "missing" / "x.json")

    assert (7, before) == (result.code, sorted(table.rglob("*")))
    assert "no such file or directory" in result.err


@pytest.mark.parametrize(
    ("change", "code"), [("link", "plan.other-place"), ("log", "vacuum.plan-other-past"), ("nothing", None)]
)
def test_a_table_that_changes_while_the_question_waits_loses_nothing(
    change: str, code: str | None, tmp_path: Path
) -> None:
    first = write_table(tmp_path / "a")
    second = Path(shutil.copytree(first, tmp_path / "b"))
    place = tmp_path / "t"
    place.symlink_to(first)
    before = [sorted(path.name for path in one.rglob("*")) for one in (first, second)]

    with Session("vacuum", place, "--max-delete", "100%", "--color", "never", size=(160, 60)) as session:
        session.read_until("[y/N] ")
        if change == "link":
            place.unlink()
            place.symlink_to(second)
        elif change == "log":
            newest = first / "_delta_log" / f"{3:020d}.json"
            newest.write_bytes((first / "_delta_log" / f"{1:020d}.json").read_bytes())
        session.type("y\n")
        ended, seen = session.finish()

    after = [sorted(path.name for path in one.rglob("*")) for one in (first, second)]
    assert (4 if code else 0, code is not None) == (ended, before == after), seen
    assert code is None or "nothing was changed" in seen or "another directory is at" in seen
    assert before[1] == after[1]
