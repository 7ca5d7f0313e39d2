"""The Python API: what its methods take, what they return, and what its errors say."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import deltacli
import deltacli.spark
from deltacli.api.paimon import Paimon, open_paimon
from deltacli.api.table import Table
from deltacli.core.errors import DataUnreadable, DeltacliError, PythonSyntax, UsageError, use_hint_syntax
from deltacli.core.machine import system_clock
from deltacli.rules.framework.base import CATALOGUE
from deltacli.rules.paimon.catalogue import PAIMON_CATALOGUE
from deltacli.spark.care.delta_table import DeltaTable
from tests.cli.support import make_sample
from tests.support.stream_checkpoints import offset, write_checkpoint


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sample(tmp_path_factory.mktemp("sample") / "trips")


@pytest.fixture
def path(sample: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sample, tmp_path / "t"))


@pytest.fixture
def table(path: Path) -> Table:
    return deltacli.open_table(path)


def test_a_table_is_opened_by_a_path_too(sample: Path) -> None:
    with pytest.raises(UsageError):
        deltacli.open_table(3)  # type: ignore[arg-type]

    assert 14 == deltacli.open_table(sample).snapshot().version


def test_a_table_has_its_path_and_the_newest_version_read(table: Table, path: Path) -> None:
    """
    Nothing is read to show it.
    """
    before = repr(table)
    snapshot = table.snapshot(version=3)

    assert f"Table('file://{path}')" == before
    assert f"Table('file://{path}', newest_seen=14)" == repr(table)
    assert f"Snapshot('file://{path}', version=3)" == repr(snapshot)
    assert f"Scan('file://{path}', version=3)" == repr(snapshot.scan())
    assert f"Changes('file://{path}', from_version=2, to_version=3)" == repr(
        table.changes(from_version=2, to_version=3)
    )


EXECUTING = [name for name in dir(Table) if name.startswith("execute_")]


@pytest.mark.parametrize("plan", [None, 3, "plan", {}, [], object(), Table], ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("method", EXECUTING)
def test_what_is_no_plan_is_refused_by_the_name_of_the_parameter(table: Table, method: str, plan: object) -> None:
    with pytest.raises(UsageError, match=r"^plan is ") as raised:
        getattr(table, method)(plan)
    assert "expected" in raised.value.facts


@pytest.mark.parametrize("method", EXECUTING)
def test_the_plan_of_another_method_is_refused(table: Table, method: str) -> None:
    other = table.plan_manifest() if method != "execute_manifest" else table.plan_checkpoint()

    with pytest.raises(UsageError, match=r"^plan is "):
        getattr(table, method)(other)
    with pytest.raises(UsageError, match=r"^plan is "):
        getattr(table, method)(plan=other)


@pytest.mark.parametrize("method", [name for name in dir(Paimon) if name.startswith("execute_")])
def test_a_plan_for_a_delta_table_is_none_for_paimon(table: Table, method: str, tmp_path: Path) -> None:
    paimon = Paimon(table.stores.storage)

    with pytest.raises(UsageError, match=r"^plan is "):
        getattr(paimon, method)(table.plan_manifest())


@pytest.mark.parametrize(
    "place",
    [3, "/t", (), ("/t", 1), ("/t", "1", 2), ["/t", 1, 2], {}, object()],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_place_is_refused(table: Table, place: Any) -> None:
    with pytest.raises(UsageError, match=r"^place is "):
        table.bind_to_directory(place)


def test_the_place_of_another_directory_is_refused(table: Table, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    own = table.bind_to_directory().storage.directory_identity  # type: ignore[attr-defined]
    assert table.bind_to_directory(own).uri == table.uri

    with pytest.raises(DeltacliError) as raised:
        table.bind_to_directory((own[0], own[1] + 1, own[2]))
    assert raised.value.code == "plan.other-place"


@pytest.mark.parametrize("uri", [None, 3, b"/t", (), {}, object()], ids=lambda value: type(value).__name__)
def test_what_is_no_path_of_another_table_is_refused(table: Table, uri: Any) -> None:
    with pytest.raises(UsageError, match=r"^uri is "):
        table.open_other_table(uri)


def test_another_table_is_opened_by_a_path_too(table: Table, path: Path) -> None:
    assert table.open_other_table(path).uri == table.uri  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("timestamp", "version"),
    [
        (datetime(2026, 1, 3, 13, tzinfo=UTC), 13),
        (datetime(2026, 1, 3, 14, 59, tzinfo=timezone(timedelta(hours=2))), 12),
        (date(2026, 1, 2), 3),
    ],
)
def test_a_moment_is_a_datetime(table: Table, timestamp: date, version: int) -> None:
    found = table.snapshot(timestamp=timestamp)

    assert version == found.version
    assert found.time is not None
    assert found.time.moment is not None
    assert found.time.moment.utcoffset() == timedelta(0)


def test_changes_are_chosen_by_datetimes(table: Table) -> None:
    begin, end = datetime(2026, 1, 3, 13, tzinfo=UTC), datetime(2026, 1, 3, 16, 59, tzinfo=UTC)

    found = table.changes(from_timestamp=begin, to_timestamp=end)
    empty = table.changes(from_timestamp=begin + timedelta(seconds=1), to_timestamp=end)

    assert (13, 13) == (found.from_version, found.to_version)
    assert 0 == empty.to_arrow().num_rows
    assert ("no version was committed in this range; the last one before it is version 13",) == empty.notes


WRONG: list[Callable[[Table], object]] = [
    lambda table: table.snapshot(version="3"),  # type: ignore[arg-type]
    lambda table: table.snapshot(version=True),
    lambda table: table.snapshot(version=3.0),  # type: ignore[arg-type]
    lambda table: table.snapshot(version=3, timestamp=date(2026, 1, 3)),
    lambda table: table.snapshot(timestamp=datetime(2026, 1, 3)),
    lambda table: table.snapshot(timestamp="2026-01-03"),  # type: ignore[arg-type]
    lambda table: table.history(limit=-3),
    lambda table: table.history(from_version=5, to_version=3),
    lambda table: table.history(limit="3"),  # type: ignore[arg-type]
    lambda table: table.changes(from_version="3"),  # type: ignore[arg-type]
    lambda table: table.changes(from_version=3, to_version="4"),  # type: ignore[arg-type]
    lambda table: table.changes(from_timestamp=datetime(2026, 1, 3)),
    lambda table: table.changes(),
    lambda table: table.checkpoint(version="3"),  # type: ignore[arg-type]
    lambda table: table.write_checksum(version="3"),  # type: ignore[arg-type]
    lambda table: table.snapshot().scan(limit="3"),  # type: ignore[arg-type]
    lambda table: table.compact_log("1", 3),  # type: ignore[arg-type]
    lambda table: table.expire_log(keep_versions=["3"]),  # type: ignore[list-item]
    lambda table: table.vacuum(keep_versions=["3"], dry_run=True),  # type: ignore[list-item]
]


@pytest.mark.parametrize("call", WRONG, ids=range(len(WRONG)))
def test_an_argument_of_another_type_is_a_usage_error(table: Table, call: Callable[[Table], object]) -> None:
    with pytest.raises(UsageError):
        call(table)


def test_hints_name_the_table_as_it_was_opened(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    In errors of methods, of iterations and of opening.
    """
    monkeypatch.chdir(path.parent)
    table = deltacli.open_table("./t")
    snapshot = table.snapshot()
    for file in path.glob("day=*/*.parquet"):
        file.unlink()
    failing: list[Callable[[], Any]] = [
        lambda: table.snapshot(version=99),
        lambda: table.changes(from_version=99),
        lambda: list(snapshot.scan()),
        lambda: snapshot.scan().to_arrow(),
        lambda: snapshot.scan().to_reader().read_all(),
        lambda: list(table.changes(from_version=14)),
        lambda: snapshot.scan(columns=["none"]),
        lambda: table.set_properties({"delta.nobody": "1"}),
    ]

    hints = []
    for call in failing:
        with pytest.raises(DeltacliError) as raised:
            call()
        hints.append(raised.value.hint)

    assert [] == [hint for hint in hints if hint is not None and "{" in hint]
    assert "deltacli snapshot ./t --version 14" == hints[0]
    assert sum("./t" in (hint or "") for hint in hints) >= 5


def test_a_scan_returns_an_arrow_table_or_reader(table: Table) -> None:
    scan = table.snapshot().scan(columns=["trip", "day"], where="trip < 370")

    whole, reader = scan.to_arrow(), scan.to_reader()

    assert (scan.schema, scan.schema) == (whole.schema, reader.schema)
    assert whole.sort_by("trip") == reader.read_all().sort_by("trip")
    assert whole.num_rows == sum(batch.num_rows for batch in scan) > 0


def test_an_empty_scan_has_its_schema(table: Table) -> None:
    scan = table.snapshot().scan(where="trip < 0")

    assert scan.schema.empty_table() == scan.to_arrow()


def test_changes_become_a_table_or_a_reader_of_arrow(table: Table) -> None:
    changes = table.changes(from_version=9, columns=["trip"])

    assert changes.to_arrow() == changes.to_reader().read_all()
    assert ["trip", "_change_type", "_commit_version", "_commit_timestamp"] == changes.to_arrow().column_names


def test_an_error_while_a_reader_is_read_is_ours(table: Table, path: Path) -> None:
    reader = table.snapshot().scan().to_reader()
    for file in path.glob("day=*/*.parquet"):
        file.unlink()

    with pytest.raises(DataUnreadable):
        reader.read_all()


def test_the_log_is_compacted_and_has_a_checksum(table: Table, path: Path) -> None:
    compacted = table.compact_log(2, 5)
    checksum = table.write_checksum(version=13, dry_run=True)

    assert (path / compacted.path).is_file()
    assert table.compact_log(2, 5).skipped
    assert 13 == checksum.version


def test_the_log_is_backed_up_and_restored(table: Table, path: Path, tmp_path: Path) -> None:
    backup = str(tmp_path / "backup")

    copied = table.backup_log(backup)
    lost = path / "_delta_log" / f"{14:020d}.json"
    lost.unlink()
    planned = table.restore_log(backup, dry_run=True)
    done = table.restore_log(backup)

    assert len(copied.copied) > 14
    assert (1, False) == (len(planned.plan.writes), planned.was_executed)
    assert (True, True) == (done.was_executed, lost.is_file())
    assert not table.restore_log(backup).was_executed


@pytest.mark.parametrize(
    "plan",
    [
        lambda table: table.repair(dry_run=True),
        lambda table: table.optimize(dry_run=True),
        lambda table: table.restore(version=3, dry_run=True),
        lambda table: table.alter([{"change": "table-comment", "comment": "c"}], dry_run=True),
    ],
)
def test_the_document_of_a_plan_says_that_nothing_was_done(table: Table, plan: Callable[[Table], Any]) -> None:
    assert plan(table).as_json()["dryRun"] is True


def test_the_log_is_expired(path: Path) -> None:
    late = datetime(2026, 3, 20, tzinfo=UTC)
    table = deltacli.open_table(path, clock=lambda: int(late.timestamp() * 1000))

    planned = table.expire_log(dry_run=True)
    kept = table.expire_log(keep_versions=[0], dry_run=True)
    done = table.expire_log()

    assert planned.outcome is None
    assert done.outcome is not None
    assert (len(planned.plan.files), 0) == (done.outcome.deleted, len(kept.plan.files))
    assert done.outcome.deleted > 0
    assert 14 == table.snapshot().version


def test_completion_in_a_shell_of_python_offers_the_public_names(sample: Path) -> None:
    table = deltacli.open_table(sample)

    offered = {"DeltacliError", "Finding", "Severity", "Snapshot", "Table", "errors", "open_table", "sharing", "spark"}
    assert offered | {*deltacli.__all__} <= {*dir(deltacli)}
    assert [] == [name for name in dir(deltacli) if not hasattr(deltacli, name)]
    assert {"history", "snapshot", "uri", "vacuum", "validate"} <= set(dir(table))
    assert not {"files", "note_version", "newest_seen", "over", "stores", "allowed"} & set(dir(table))


def test_help_of_the_package_begins_with_what_a_user_needs_and_is_short() -> None:
    shown = pydoc.plain(pydoc.render_doc(deltacli))
    order = ["without a JVM", "open_table(", "DeltacliError", "docs/python.md", "PACKAGE CONTENTS", "open_paimon("]

    assert order == sorted(order, key=shown.index)
    assert len(shown.splitlines()) <= 110
    assert "CLASSES" not in shown


def test_help_of_the_package_names_what_there_is_and_its_example_runs(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = deltacli.__doc__ or ""
    words = re.findall(r"\w+", " ".join(re.findall(r"(?<=- Table\.)[a-z, ]+", text)))
    errors = re.findall(r"\b[A-Z][a-z]+[A-Z]?[A-Za-z]+(?= \(|,)", text.partition("has them all:")[2])
    monkeypatch.chdir(path.rename(path.with_name("tbl")).parent)

    exec(textwrap.dedent("".join(re.findall(r"^    .*\n", text, re.MULTILINE))))

    assert "14 2026-01-03 17:00:00+00:00 WRITE\n" in capsys.readouterr().out
    assert "RESTORE" == deltacli.open_table("tbl").history(limit=1).items[0].operation
    others = {"and", "ask", "at", "change", "never", "once", "others", "read", "table", "the"}
    assert others >= {one for one in words if not hasattr(Table, one)}
    assert 7 == len([name for name in errors if hasattr(deltacli.errors, name)])


@pytest.mark.parametrize("name", ["optimize", "repair", "restore", "undelete", "vacuum", "expire_log"])
def test_the_first_line_of_a_method_that_changes_a_table_says_that_it_acts_at_once(name: str) -> None:
    first = (getattr(Table, name).__doc__ or "").splitlines()[0]

    assert "at once" in first
    assert "dry_run=True" in first


def test_the_modules_of_the_api_are_imported_when_they_are_used() -> None:
    lines = (
        "import sys, deltacli; dir(deltacli)",
        "print([name for name in ('pyarrow', 'deltacli.api.table', 'deltacli.spark') if name in sys.modules])",
        "print(deltacli.errors.UsageError.exit_code, deltacli.sharing.Client.__name__, deltacli.spark.__name__)",
    )
    found = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)

    assert ["[]", "2 Client deltacli.spark"] == found.stdout.splitlines()


@pytest.mark.parametrize("method", [Table.vacuum, Table.checkpoint, Table.expire_log])
def test_a_method_that_takes_a_request_shows_its_fields_and_names_itself_in_errors(
    method: Callable[..., object], tmp_path: Path
) -> None:
    shown = inspect.signature(method).parameters
    with pytest.raises(TypeError) as wrong:
        method(deltacli.open_table(str(tmp_path)), unknown=1)

    assert {"self", "dry_run"} <= shown.keys()
    assert "request" not in shown
    assert f"Table.{method.__name__}() got an unexpected keyword argument 'unknown'" == str(wrong.value)


def test_methods_with_requests_can_be_inspected_and_refuse_none_for_a_word(sample: Path) -> None:
    table = deltacli.open_table(sample)

    assert {"retention_ms", "dry_run"} <= set(inspect.signature(Table.vacuum).parameters)
    assert "def checkpoint" in inspect.getsource(Table.checkpoint)
    wrong: list[dict[str, Any]] = [{"stats": None}, {"v2_top": None}]
    for fields in wrong:
        with pytest.raises(UsageError, match="is None, expected"):
            table.checkpoint(dry_run=True, **fields)


def test_signatures_have_names_for_defaults_and_no_dry_run_of_a_plan(sample: Path) -> None:
    table = deltacli.open_table(sample)
    functions: list[Callable[..., object]] = [deltacli.open_table, open_paimon]
    functions += [one for name, one in inspect.getmembers(Table, inspect.isfunction) if name[0] != "_"]
    shown = {one.__name__: str(inspect.signature(one)) for one in functions}

    assert "clock: 'Clock' = system_clock, progress: 'Progress' = SILENT" in shown["open_table"]
    assert [] == [name for name, text in shown.items() if " at 0x" in text]
    assert [] == [name for name, text in shown.items() if name.startswith("plan_") and "dry_run" in text]
    # The arguments of a change may be passed on to the method that plans it.
    assert table.plan_vacuum(dry_run=True).candidates == table.plan_vacuum().candidates  # type: ignore[call-arg]
    assert pickle.loads(pickle.dumps(system_clock)) is system_clock


RESULTS: dict[str, Callable[[Table, str], object]] = {
    "AlterationOutcome": lambda table, _: table.alter([{"change": "comment", "column": "trip", "comment": "x"}]),
    "BackupResult": lambda table, there: table.backup_log(there),
    "CheckpointResult": lambda table, _: table.checkpoint(),
    "ChecksumReport": lambda table, _: table.write_checksum(),
    "Compaction": lambda table, _: table.compact_log(1, 3),
    "ExpiryResult": lambda table, _: table.expire_log(dry_run=True),
    "Explanation": lambda table, _: table.explain(),
    "FeatureDrop": lambda table, _: (table.add_features(["v2Checkpoint"]), table.drop_features("v2Checkpoint"))[1],
    "FeaturesOutcome": lambda table, _: table.add_features(["deletionVectors"]),
    "History": lambda table, _: table.history(),
    "HistoryItem": lambda table, _: table.history().items[0],
    "OptimizeOutcome": lambda table, _: table.optimize(),
    "OptimizePlan": lambda table, _: table.optimize(dry_run=True).plan,
    "PropertiesOutcome": lambda table, _: table.set_properties({"a": "b"}),
    "RepairOutcome": lambda table, _: table.repair(dry_run=True),
    "RestoreOutcome": lambda table, _: table.restore(version=3),
    "RestorePlan": lambda table, _: table.plan_restore(version=3),
    "RestoreResult": lambda table, there: (table.backup_log(there), table.restore_log(there, dry_run=True))[1],
    "TableDiff": lambda table, _: table.diff(from_version=1, to_version=14),
    "TableReach": lambda table, _: table.reach(),
    "TableReport": lambda table, _: table.doctor(),
    "UndeletePlan": lambda table, _: table.plan_undelete(),
    "UndeleteResult": lambda table, _: table.undelete(dry_run=True),
    "VacuumResult": lambda table, _: table.vacuum(),
    "Validation": lambda table, _: table.validate(),
    "WideningOutcome": lambda table, _: table.widen_type(
        ("ride.fare", "decimal(20,2)"), enable=True, upgrade_protocol=True
    ),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_shown_in_one_short_line(name: str, table: Table, tmp_path: Path) -> None:
    shown = repr(RESULTS[name](table, str(tmp_path / "there")))

    assert shown.startswith(f"{name}(")
    assert shown.endswith(")")
    assert "\n" not in shown
    assert len(shown) <= 200


COPIED = RESULTS | {
    "Changes": lambda table, _: table.changes(from_version=13),
    "Scan": lambda table, _: table.snapshot().scan(),
    "Snapshot": lambda table, _: table.snapshot(),
    "StatsOutcome": lambda table, _: table.stats(dry_run=True),
    "StreamsReport": lambda table, there: (
        write_checkpoint(Path(there), [offset(table.snapshot().raw_metadata["id"], 13)]),
        table.streams(checkpoints=[there]),
    )[1],
    "refused": lambda table, _: table.plan_restore(version=0),
}
SENT = {"History", "HistoryItem", "Validation"}
"""Results without an open table, which another process can get."""


@pytest.mark.parametrize("name", COPIED)
def test_results_are_copied_and_those_without_an_open_table_are_sent(name: str, table: Table, tmp_path: Path) -> None:
    result = COPIED[name](table, str(tmp_path / "there"))

    assert repr(result) == repr(copy.deepcopy(result))
    if name in SENT:
        assert repr(result) == repr(pickle.loads(pickle.dumps(result)))
    else:
        with pytest.raises(TypeError, match="open stores cannot be sent to another process"):
            pickle.dumps(result)


def test_every_rule_of_a_finding_is_sent_with_its_sentence() -> None:
    rules = [*CATALOGUE.rules.values(), *PAIMON_CATALOGUE.rules.values()]

    sent = pickle.loads(pickle.dumps(rules))

    assert [(one.id, one.checks, one.fix.as_json()) for one in rules] == [
        (one.id, one.checks, one.fix.as_json()) for one in sent
    ]


def test_the_line_of_an_optimization_has_its_files_and_version(table: Table) -> None:
    outcome = table.optimize()

    assert f"removed={outcome.files_removed}, added={outcome.files_added}, committed_version=15" in repr(outcome)


WRONG_KINDS: list[tuple[Callable[[Table], object], str]] = [
    (lambda table: table.widen_type("trip", "long"), "changes is 'trip', expected a pair of strings"),  # type: ignore[arg-type]
    (lambda table: table.set_properties({"a.b": True}), "values['a.b'] is True, expected a string"),  # type: ignore[dict-item]
    (lambda table: table.set_properties([1]), "values is [1], expected a dictionary of strings"),  # type: ignore[arg-type]
    (lambda table: table.snapshot().scan(columns="trip"), "columns is 'trip', expected a list of strings"),
    (lambda table: table.changes(from_version=3, columns=["trip", 4]), "columns[1] is 4, expected a string"),  # type: ignore[list-item]
    (lambda table: table.explain(clients="spark"), "clients is 'spark', expected a list of strings"),
    (lambda table: table.alter({"change": "drop"}), "changes is {'change': 'drop'}, expected a list of changes"),  # type: ignore[dict-item]
    (lambda table: table.vacuum(keep_versions="5", dry_run=True), "keep_versions is '5', expected a list of integers"),  # type: ignore[arg-type]
    (lambda table: table.vacuum(protect_streams=iter(["s"])), "protect_streams is <list_iterator object"),  # type: ignore[arg-type]
    (lambda table: table.validate(ignore=range(1)), "ignore[0] is 0, expected a string"),  # type: ignore[arg-type]
    (lambda table: table.vacuum(dry_run="no"), "dry_run is 'no', expected True or False"),  # type: ignore[arg-type]
    (lambda table: table.diff(from_version=3, other="./t"), "other is './t', expected a table of `open_table`"),  # type: ignore[arg-type]
    (lambda table: table.doctor(prices=0.02), "prices is 0.02, expected a `PriceTable`"),  # type: ignore[arg-type]
    (lambda table: table.validate(sample="10%"), "sample is '10%', expected a number"),  # type: ignore[arg-type]
    (lambda table: table.validate(level="stroage"), "level is 'stroage', expected log, storage, footers, data; did"),
    (lambda table: table.vacuum(mode="ful", dry_run=True), "mode is 'ful', expected full, lite; did you mean full?"),
    (lambda table: table.snapshot(version="3"), "version is '3', expected an integer"),  # type: ignore[arg-type]
    (lambda table: table.snapshot(timestamp="2026-01-01"), "timestamp is '2026-01-01', expected a datetime"),  # type: ignore[arg-type]
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), WRONG_KINDS)
def test_an_argument_of_a_wrong_kind_is_named_with_what_is_expected(
    table: Table, call: Callable[[Table], object], message: str
) -> None:
    with pytest.raises(UsageError) as wrong:
        call(table)

    assert wrong.value.message.startswith(message)
    assert wrong.value.facts["expected"]


@pytest.mark.parametrize("flag", [0, 1])
def test_a_flag_may_be_a_number(table: Table, flag: int) -> None:
    assert bool(flag) is table.optimize(purge=flag, dry_run=True).plan.request.purge  # type: ignore[arg-type]


def test_wrong_calls_are_shown_as_calls_of_the_table(table: Table, path: Path) -> None:
    """
    The name of a method, not that of an inner class, and the call with the version that exists.
    """
    with pytest.raises(TypeError, match=r"^Table\.restore\(\) takes"):
        table.restore(8)  # type: ignore[call-arg]
    with use_hint_syntax(PythonSyntax()), pytest.raises(DeltacliError) as absent:
        table.restore(version=99, dry_run=True)

    assert f"open_table({str(path)!r}).restore(version=14, dry_run=True)" == absent.value.hint


def test_a_call_that_only_plans_is_answered_with_one_that_only_plans(table: Table, path: Path) -> None:
    with use_hint_syntax(PythonSyntax()), pytest.raises(DeltacliError) as wrong:
        table.set_properties({"delta.appendOnyl": "true"}, dry_run=True)
    with use_hint_syntax(PythonSyntax()), pytest.raises(DeltacliError) as refused:
        table.checkpoint(layout="v2", dry_run=True)

    opened = f"open_table({str(path)!r})"
    assert f"{opened}.set_properties({{'delta.appendOnly': 'true'}}, dry_run=True)" == wrong.value.hint
    assert f"{opened}.checkpoint(layout='classic', dry_run=True)" == refused.value.hint


def test_widening_can_be_planned(table: Table) -> None:
    outcome = table.widen_type(("trip", "decimal(20,0)"), dry_run=True)

    assert outcome.refusals
    assert 14 == table.snapshot().version


def test_the_hint_of_a_damaged_protected_table_is_a_call_of_that_table(table: Table, path: Path) -> None:
    other = Path(shutil.copytree(path, path.parent / "other"))
    (other / "_delta_log" / "00000000000000000014.json").write_text("{")

    with use_hint_syntax(PythonSyntax()), pytest.raises(DeltacliError) as fault:
        table.vacuum(dry_run=True, protect_from=[str(other)])

    assert f"open_table('file://{other}').snapshot(" in str(fault.value.hint)


def test_a_misspelled_column_is_answered_with_the_call_that_was_meant(table: Table, path: Path) -> None:
    opened = f"open_table({str(path)!r})"
    for call, meant in (
        (lambda: table.snapshot().scan(columns=["trp"], limit=2), "snapshot().scan(columns=['trip'], limit=2)"),
        (lambda: table.snapshot().scan(where="trp = 1"), "snapshot().scan(where='trip = 1')"),
        (lambda: table.snapshot(version=3).scan(columns=["trp"]), "snapshot(version=3).scan(columns=['trip'])"),
        (lambda: table.changes(from_version=9, columns=["trp"]), "changes(from_version=9, columns=['trip'])"),
        (lambda: table.diff(from_version=3, rows=True, key=["trp"]), "diff(from_version=3, rows=True, key=['trip'])"),
    ):
        with use_hint_syntax(PythonSyntax()), pytest.raises(UsageError) as wrong:
            call()
        assert f"{opened}.{meant}" == wrong.value.hint


def test_a_missing_table_is_answered_with_the_one_beside_it(path: Path) -> None:
    near = f"{path}x"
    with use_hint_syntax(PythonSyntax()), pytest.raises(DeltacliError) as missing:
        deltacli.open_table(near).snapshot(version=3)

    assert f"open_table({str(path)!r}).snapshot(version=3)" == missing.value.hint


class Session:
    """What `deltacli.spark` asks of a session before it reads: its version, and that it makes frames."""

    version = "4.0.1"
    createDataFrame = None  # noqa: N815


@pytest.mark.parametrize(
    ("function", "arguments", "options", "hint"),
    [
        ("read_table", (), {"columns": ["trp"]}, "columns=['trip']"),
        ("read_table", (), {"version": 99}, "version=14"),
        ("plan_table", (), {"columns": ["trp"], "storage_options": {}}, "columns=['trip'], storage_options=..."),
        ("read_changes", (99,), {}, "from_version=14"),
        ("diff", (3, 8), {"key": ["trp"]}, "from_version=3, to_version=8, key=['trip']"),
    ],
)
def test_spark_is_answered_with_the_function_that_was_called(
    path: Path, function: str, arguments: tuple[int, ...], options: dict[str, Any], hint: str
) -> None:
    with use_hint_syntax(PythonSyntax()), pytest.raises(DeltacliError) as wrong:
        getattr(deltacli.spark, function)(Session(), str(path), *arguments, **options)

    assert f"{function}(spark, {str(path)!r}, {hint})" == wrong.value.hint


def test_arguments_of_spark_functions_are_of_their_kind_and_hints_name_the_table(path: Path) -> None:
    for function, options, message in (
        ("read_table", {"columns": "trip"}, "columns is 'trip', expected a list of strings"),
        ("read_changes", {"from_version": 3, "columns": "trip"}, "columns is 'trip', expected a list of strings"),
        ("diff", {"key": "trip"}, "key is 'trip', expected a list of strings"),
        ("findings", {"select": "log.*"}, "select is 'log.*', expected a list of strings"),
        ("read_share", {"columns": "trip"}, "columns is 'trip', expected a list of strings"),
    ):
        with pytest.raises(UsageError) as wrong:
            getattr(deltacli.spark, function)(Session(), str(path), **options)
        assert wrong.value.message.startswith(message)
    with use_hint_syntax(PythonSyntax()), pytest.raises(UsageError) as unknown:
        deltacli.spark.read_table(Session(), str(path), columns=["zzzzzzz"])
    assert f"open_table({str(path)!r}).snapshot()" == unknown.value.hint


_AT_ONCE = (
    *((Table, name) for name in ("vacuum", "optimize", "restore", "repair", "undelete", "undo_repair")),
    *((Table, name) for name in ("expire_log", "restore_log", "purge_quarantine")),
    (Paimon, "vacuum"),
    *((DeltaTable, name) for name in ("vacuum", "optimize", "restore", "repair")),
)


@pytest.mark.parametrize(("kind", "name"), _AT_ONCE)
def test_what_deletes_or_rewrites_says_first_that_it_does_so_at_once(kind: type, name: str) -> None:
    first, _, _ = inspect.cleandoc(getattr(kind, name).__doc__).partition("\n")

    assert re.search(r"at once\b.*; `dry_run=True` returns the plan\.$", first), first
