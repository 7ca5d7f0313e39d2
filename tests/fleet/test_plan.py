"""`fleet plan`: which tables are found, what is due for them, and what it costs to know that."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli.cli.app import run
from deltacli.core.errors import PermissionRefused, UsageError
from deltacli.core.times import DAY_MS
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.fleet.planning.discovery import FoundTable, exclusion
from deltacli.fleet.planning.due import FleetPlan, LastRun, plan_fleet
from deltacli.fleet.policy_file.model import Entry, Group
from deltacli.fleet.policy_file.reading import require_fleet_file
from deltacli.fleet.running.journal import Journal, JournalWriter
from deltacli.fleet.running.run import summarize
from deltacli.storage import open_storage
from tests.cli.support import deltacli
from tests.cli.test_documents import validate
from tests.support import damage
from tests.support.builder import EPOCH_MS, TableBuilder
from tests.support.s3 import S3Server

NOW_MS = EPOCH_MS + 60 * DAY_MS
POLICY = """\
[policies.base]
checkpoint = { commits = 8, log-bytes = "1MiB" }
log-expire = { retention = "30d" }
vacuum = { every = "7d", retention = "14d", max-delete = "100%", consent = true }
validate = { every = "1d" }
[policies.light]
checkpoint.commits = 4
"""

Plan = Callable[..., FleetPlan]
Due = dict[str, list[str]]


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Plan the tables below tmp_path by these groups."""

    def make(groups: str, **options: Any) -> FleetPlan:  # Any: options of plan_fleet
        (tmp_path / "fleet.toml").write_text(POLICY + groups)
        file = require_fleet_file(tmp_path / "fleet.toml")
        return plan_fleet(file, open_storage, EmbeddedEngine(), NOW_MS, **options)

    return make


def due_of(plan: FleetPlan, root: Path) -> Due:
    return {table.name.removeprefix(f"{root}/"): [step.kind for step in table.steps] for table in plan.tables}


def write_lake(root: Path) -> None:
    TableBuilder().commits(3).write(root / "fresh")
    TableBuilder().commits(10).write(root / "behind")
    TableBuilder().commits(12).checkpoint(9).hint(9).write(root / "old")
    TableBuilder().commits(6).checkpoint(4).hint(2).write(root / "hint")
    TableBuilder().commits(6).damaged(damage.gap(3)).write(root / "gap")
    TableBuilder().commits(6).damaged(damage.zero_byte_commit(5)).write(root / "torn")
    (root / "paimon" / "schema").mkdir(parents=True)
    (root / "paimon" / "schema" / "schema-0").write_text("{}")


def test_the_plan_names_exactly_the_due_steps(tmp_path: Path, plan: Plan) -> None:
    write_lake(tmp_path / "lake")
    done = {"vacuum": LastRun(NOW_MS - 6 * DAY_MS), "validate": LastRun(NOW_MS - DAY_MS + 1)}

    first = plan('[groups.all]\npolicy = "base"\nglobs = ["lake/*"]\n')
    later = plan('[groups.all]\npolicy = "base"\nglobs = ["lake/*"]\n', past_of=lambda _: done)

    assert {
        "lake/behind": ["validate", "checkpoint", "vacuum"],
        "lake/old": ["validate", "log-expire", "vacuum"],
        "lake/hint": ["validate", "checkpoint", "log-expire", "vacuum"],
        "lake/fresh": ["validate", "vacuum"],
        "lake/gap": [],
        "lake/torn": [],
    } == due_of(first, tmp_path)
    assert "lake/behind" == first.tables[0].name.removeprefix(f"{tmp_path}/")
    assert {"log.gap", "commit.empty"} == {table.problem.code for table in first.tables if table.problem}
    assert (f"{tmp_path}/lake/paimon",) == first.others
    assert {"lake/behind": ["checkpoint"], "lake/old": ["log-expire"], "lake/hint": ["checkpoint", "log-expire"]} == {
        name: steps for name, steps in due_of(later, tmp_path).items() if steps
    }


def test_a_schedule_starts_over_where_the_clock_was_ahead(tmp_path: Path, plan: Plan) -> None:
    TableBuilder().commits(1).write(tmp_path / "t")
    ahead = {"vacuum": LastRun(NOW_MS + DAY_MS), "validate": LastRun(NOW_MS - 3 * DAY_MS)}

    found = plan('[groups.all]\npolicy = "base"\ntables = ["t"]\n', past_of=lambda _: ahead)

    reasons = {step.kind: (step.reason, step.urgency) for step in found.tables[0].steps}
    assert {
        "validate": ("done 3 days ago (every 1d)", 3.0),
        "vacuum": ("the last time is in the future (every 7d)", 1.0),
    } == reasons


def test_a_try_that_failed_since_is_said_until_the_step_is_done(tmp_path: Path, plan: Plan) -> None:
    TableBuilder().commits(1).write(tmp_path / "t")
    table, minute = "t", 60_000
    group = '[groups.all]\npolicy = "base"\ntables = ["t"]\n'
    events = [("vacuum", "done", 8 * DAY_MS), ("vacuum", "refused", 3 * minute), ("validate", "failed", 2 * minute)]
    writer = JournalWriter(tmp_path / "state", "r1")
    writer.write("run-started", NOW_MS - 9 * DAY_MS)
    for kind, state, age in events:
        writer.write("step-finished", NOW_MS - age, table=table, step=kind, state=state)

    def reasons() -> dict[str, str]:
        journal = Journal(tmp_path / "state", lambda: NOW_MS)
        journal.refresh()
        found = plan(group, past_of=lambda _: journal.past_of(table))
        return {step.kind: step.reason for step in found.tables[0].steps}

    expected = {
        "validate": "never done, failed 2 minutes ago (every 1d)",
        "vacuum": "done 8 days ago, refused 3 minutes ago (every 7d)",
    }
    assert expected == reasons()
    writer.write("run-finished", NOW_MS, exit=5, left=0)
    writer.close()
    JournalWriter(tmp_path / "state", "r2").write("run-started", NOW_MS)
    summarize(tmp_path / "state", lambda: NOW_MS, most_bytes=0)
    assert expected == reasons()
    again = JournalWriter(tmp_path / "state", "r3")
    again.write("step-finished", NOW_MS - minute, table=table, step="validate", state="done")
    assert {"vacuum": expected["vacuum"]} == reasons()


GROUPS = """\
[groups.one]
policy = "light"
globs = ["lake/*/x", "lake/**/deep"]
exclude = ["lake/b"]
[groups.two]
policy = "light"
prefixes = ["lake"]
lists = ["list.txt"]
exclude = ["**/tmp_*"]
[groups.none]
policy = "light"
prefixes = ["nowhere"]
"""


def test_the_first_group_has_a_table_and_excludes_win(tmp_path: Path, plan: Plan) -> None:
    for name in ("a/x", "b/x", "a/y", "a/c/d/deep", "tmp_1/x", "a/tmp_2", "a/x/nested", ".hidden/x"):
        TableBuilder().commits(1).write(tmp_path / "lake" / name)
    TableBuilder().commits(1).write(tmp_path / "else")
    (tmp_path / "lake" / "a" / "loop").symlink_to(tmp_path / "lake")
    (tmp_path / "list.txt").write_text(f"else\n{tmp_path}/lake/a/x\n")

    found = plan(GROUPS)
    only = plan(GROUPS, only=["two"])

    groups = {table.name.removeprefix(f"{tmp_path}/"): table.group for table in found.tables}
    one = dict.fromkeys(["lake/a/x", "lake/a/c/d/deep", "lake/tmp_1/x"], "one")
    two = dict.fromkeys(["lake/a/y", "lake/b/x", "else"], "two")
    assert one | two == groups
    assert [(f"{tmp_path}/nowhere", "none", 19)] == [problem[:3] for problem in found.problems]
    assert set(two) == set(due_of(only, tmp_path))
    with pytest.raises(UsageError, match="did you mean 'two'"):
        plan(GROUPS, only=["tow"])


def test_a_plan_costs_two_requests_per_table_and_one_per_directory(s3: S3Server, tmp_path: Path, plan: Plan) -> None:
    bucket = s3.make_bucket()
    for number in range(5):
        for path, file in TableBuilder().commits(9).checkpoint(2).hint(2).files.items():
            s3.put(bucket, f"lake/t{number}/{path}", file.data)
    s3.put(bucket, "lake/t3/_delta_log_backup.ndjson", b"")
    s3.requests.clear()

    found = plan(f'[groups.s3]\npolicy = "light"\nglobs = ["s3://{bucket}/lake/t[0-3]"]\n')

    assert {f"s3://{bucket}/lake/t{number}": ["checkpoint"] for number in range(3)} == due_of(found, tmp_path)
    assert (f"s3://{bucket}/lake/t3",) == found.backups
    assert 1 + 4 + 2 * 3 == len(s3.requests)


def test_saved_plans_are_those_of_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(tmp_path)
    table = TableBuilder().commits(12).checkpoint(9).hint(9)
    for version in range(12):
        table.file(f"part-{version:05d}.parquet", b"x" * 100)
    table.write(tmp_path / "t")
    Path("fleet.toml").write_text(POLICY + '[groups.all]\npolicy = "base"\ntables = ["t"]\n')
    now = "2024-01-13T22:13:20Z"

    def out(*arguments: str, code: int = 0) -> Any:  # Any: JSON values
        assert code == run([*arguments, "--now", now, "--json"])
        return json.loads(capfdbinary.readouterr()[0])

    document = out("fleet", "plan", "--save-plans", "plans")
    saved = sorted(Path("plans").iterdir())
    expire = out("log", "expire", "t", "--retention", "30d", "--dry-run")
    vacuum = out("vacuum", "t", "--retention", "14d", "--max-delete", "100%", "--dry-run")
    applied = out("vacuum", "t", "--apply", str(saved[1]), "--dry-run")

    validate(document, "deltacli.fleet-plan")
    steps = {step["kind"]: step for step in document["tables"][0]["steps"]}
    assert [".json", ".parquet"] == [path.suffix for path in saved]
    assert expire == json.loads(saved[0].read_bytes())
    assert 9 == expire["candidates"]["files"]
    assert expire["planId"] == steps["log-expire"]["plan"]["planId"]
    assert vacuum["planId"] == steps["vacuum"]["plan"]["planId"] == applied["planId"]
    assert 0 < vacuum["candidates"]["files"]


def test_the_plan_has_the_same_content_in_every_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_lake(tmp_path / "lake")
    Path("fleet.toml").write_text(POLICY + '[groups.all]\npolicy = "base"\nglobs = ["lake"]\nprefixes = ["no"]\n')
    found = {}

    for name in ("json", "ndjson", "csv", "markdown", "table"):
        assert 5 == run(["fleet", "plan", "--format", name])
        found[name] = capfdbinary.readouterr()[0].decode()

    document = json.loads(found["json"])
    *tables, last, end = map(json.loads, found["ndjson"].splitlines())
    steps = sum(len(table["steps"]) for table in document["tables"])
    validate(document, "deltacli.fleet-plan")
    for table in tables:
        validate(table, "fleet-table")
    validate(last, "fleet-plan")
    assert document["tables"] == [{k: v for k, v in table.items() if k != "type"} for table in tables]
    assert (7, 1 + 2 + steps) == (end["count"], len(found["csv"].splitlines()) - 1)
    assert all(len(found[name].splitlines()) > steps for name in ("markdown", "table"))
    assert [2, 1] == [document["summary"]["unreadable"], document["summary"]["problems"]]


def test_what_cannot_be_reached_is_in_the_summary_the_exit_code_and_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(tmp_path)
    TableBuilder().commits(3).write(tmp_path / "lake" / "fresh")
    TableBuilder().commits(3).write(tmp_path / "lake" / "closed" / "t")
    for name in ("file", "broken-link"):
        (tmp_path / "lake" / name).mkdir()
    (tmp_path / "lake" / "file" / "_delta_log").write_text("")
    (tmp_path / "lake" / "broken-link" / "_delta_log").symlink_to("nowhere")
    Path("fleet.toml").write_text('[policies.p]\nvalidate = {}\n[groups.all]\npolicy = "p"\nglobs = ["lake/*"]\n')
    store = type(open_storage("."))
    list_directories = store.list_directories

    def refuse_closed(self: Any, directory: str) -> list[str]:
        if directory == "closed":
            raise PermissionRefused("lake/closed cannot be listed: permission denied")
        return list_directories(self, directory)

    def out(*arguments: str, code: int) -> Any:  # Any: JSON values
        assert code == run([*arguments])
        return capfdbinary.readouterr()[0].decode()

    with monkeypatch.context() as patch:
        patch.setattr(store, "list_directories", refuse_closed)
        document = json.loads(out("fleet", "plan", "--json", code=5))
        table = out("fleet", "plan", "--format", "table", code=5)
        out("fleet", "run", code=5)
        closed = json.loads(out("fleet", "status", "--json", code=1))
    out("fleet", "run", code=5)
    opened = json.loads(out("fleet", "status", "--json", code=1))

    summary = document["summary"]
    assert [3, 2, 1] == [summary["tables"], summary["unreadable"], summary["problems"]]
    assert {("file", "log.not-a-table"), ("broken-link", "log.not-a-table")} == {
        (Path(one["table"]).name, one["problem"]["code"]) for one in document["tables"] if "problem" in one
    }
    assert "1 step due for 1 of 3 tables (1 validate), 2 cannot be read" in table
    assert "1 path not searched" in table
    assert "log.not-a-table: _delta_log is not a directory" in table
    names = [Path(one["table"]).name for one in closed["tables"]]
    assert ["broken-link", "closed", "file", "fresh"] == names
    assert [f"deltacli doctor access {tmp_path}/lake/closed"] == closed["tables"][1]["next"]
    assert {"broken-link", "file", "fresh", "t"} == {Path(one["table"]).name for one in opened["tables"]}


def test_a_glob_that_leads_to_no_table_is_noted(tmp_path: Path, plan: Plan) -> None:
    for name in ("a", "a/inner", "b/below/c"):
        TableBuilder().commits(3).write(tmp_path / "lake" / name)
    notes: list[str] = []

    found = plan(
        '[groups.one]\npolicy = "base"\nprefixes = ["lake/b", "lake"]\nglobs = ["lake/a", "lake/b*"]\n'
        '[groups.two]\npolicy = "base"\nglobs = ["lake/a/i*", "lake/*/**/c", "lake/v*"]\nprefixes = ["gone"]\n'
    )
    found.note_search(notes.append)

    assert ["a", "c"] == [Path(table.name).name for table in found.tables]
    assert [f"{tmp_path}/lake/a/i*", f"{tmp_path}/lake/v*"] == [note.partition("below ")[2] for note in notes]
    assert [f"{tmp_path}/gone"] == [problem.name for problem in found.problems]


@pytest.mark.parametrize("search", ['globs = ["lake/*"]', 'prefixes = ["lake/alias"]', 'tables = ["lake/alias"]'])
def test_an_excluded_table_is_not_found_through_a_link(tmp_path: Path, plan: Plan, search: str) -> None:
    TableBuilder().commits(3).write(tmp_path / "kept" / "protected")
    TableBuilder().commits(3).write(tmp_path / "lake" / "other")
    (tmp_path / "lake" / "alias").symlink_to(tmp_path / "kept" / "protected")

    found = plan(f'[groups.all]\npolicy = "base"\n{search}\nexclude = ["kept/*"]\n')

    assert {"lake/other"} >= due_of(found, tmp_path).keys()


@pytest.mark.parametrize("search", ['globs = ["lake/*"]', 'prefixes = ["lake"]', 'tables = ["lake/a b", "link"]'])
@pytest.mark.parametrize(
    "uri", ["file://{}/lake/a%20b", "file:{}/lake/a*", "FILE://localhost{}/lake/", "file://{}/link"]
)
def test_what_a_file_uri_excludes_is_in_no_group(tmp_path: Path, plan: Plan, search: str, uri: str) -> None:
    TableBuilder().commits(3).write(tmp_path / "lake" / "a b")
    (tmp_path / "link").symlink_to("lake/a b")

    found = plan(f'[groups.all]\npolicy = "base"\n{search}\nexclude = ["{uri.format(tmp_path)}"]\n')

    assert not found.tables


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("gcs://bucket/lake/*", "gs://bucket/lake/t"),
        ("GS://bucket/lake", "gcs://bucket/lake/t"),
        ("S3N://bucket/lake", "s3a://bucket/lake/t"),
        ("wasbs://box@Acme.blob.core.windows.net/lake", "abfss://box@acme.dfs.core.windows.net/lake/t"),
        ("https://acme.blob.core.windows.net/box/lake", "abfs://box@acme.dfs.core.windows.net/lake/t"),
    ],
)
def test_an_address_is_excluded_in_each_of_its_spellings(tmp_path: Path, pattern: str, name: str) -> None:
    (group,) = _group_of(tmp_path)
    store = open_storage(name, {"account_key": "a2V5"} if "@" in name else {})

    excluded = exclusion([Entry(pattern, 1)])

    assert excluded is not None
    assert excluded.fullmatch(FoundTable(name, group, store, "").identity)


def test_all_names_of_a_table_have_one_lease(tmp_path: Path) -> None:
    (group,) = _group_of(tmp_path)
    TableBuilder().commits(1).write(tmp_path / "t")
    (tmp_path / "link").symlink_to(tmp_path / "t")
    names = ("s3://bucket/a/t", "s3a://bucket/a/t/")

    here = {FoundTable(name, group, open_storage(str(tmp_path)), name).identity for name in ("t", "link")}
    there = {FoundTable(name, group, open_storage(name, {}), "").identity for name in names}
    boxes = ("az://box/t", "wasbs://box@acme.blob.core.windows.net/t", "https://acme.dfs.core.windows.net/box/t")
    options = {"anon": "true", "account_name": "acme"}
    azure = {FoundTable(name, group, open_storage(name, options), "").identity for name in boxes}

    assert {str(tmp_path.resolve() / "t")} == here
    assert {"s3://bucket/a/t"} == there
    assert {"abfss://box@acme.dfs.core.windows.net/t"} == azure


def _group_of(root: Path) -> tuple[Group, ...]:
    (root / "fleet.toml").write_text(f'{POLICY}[groups.all]\npolicy = "base"\ntables = ["t"]\n')
    return require_fleet_file(root / "fleet.toml").groups


def test_a_bug_in_one_table_does_not_hide_the_others(
    tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_lake(tmp_path / "lake")
    store = type(open_storage(str(tmp_path)))
    list_from = store.list_from

    def broken(self: Any, directory: str, start: str = "") -> Any:  # Any: as in the port
        if "behind" in f"{self.uri}/{directory}":
            raise RecursionError("too deep")
        return list_from(self, directory, start)

    monkeypatch.setattr(store, "list_from", broken)
    found = plan('[groups.all]\npolicy = "base"\nglobs = ["lake/*"]\n')

    problems = {table.name.rpartition("/")[2]: table.problem.exit_code for table in found.tables if table.problem}
    assert {"behind": 70, "gap": 3, "torn": 3} == problems


def test_a_row_of_all_tables_is_not_cut_in_a_pipe(tmp_path: Path) -> None:
    for name in ("a", "b"):
        TableBuilder().commits(9).write(tmp_path / name)
    (tmp_path / "fleet.toml").write_text(f"{POLICY}[groups.all]\npolicy = 'light'\ntables = ['a', 'b']\n")

    ran = deltacli("fleet", "plan", "--limit", "1", cwd=tmp_path)

    assert "a, " in ran.out
    assert "showing" not in ran.err
