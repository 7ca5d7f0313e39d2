"""The hint of a refusal leads on: what it says is run on the very table, and does not end in the same error."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import chdir
from typing import Any

import pytest

from deltacli import open_paimon, open_table
from deltacli.core.errors import DeltacliError, PythonSyntax, use_hint_syntax
from deltacli.core.machine import fixed_clock
from tests.golden import places as at
from tests.golden import recording
from tests.golden.cases import CHANGES
from tests.golden.places import Build, Places
from tests.golden.python_api import CALLS
from tests.golden.running import NOW, NOW_NS, Seen, disk, run_in

FILLED = {
    "COLUMN": "trip",
    "CONDITION": "trip > 0",
    "COPY": "copy",
    "DIRECTORY": "elsewhere",
    "FEATURE": "deletionVectors",
    "FILE": "new.plan",
    "KEY": "owner",
    "N": "1",
    "NAME": "fresh",
    "POSITION": "first",
    "TYPE": "int",
    "VALUE": "1",
    "VERSION": "1",
}
"""A placeholder of a hint -> a value that fits."""
REFUSALS: dict[str, tuple[Build, str]] = {
    "schema": (
        at.sample,
        """\
alter tbl add a INT
alter tbl add trip INT --yes
alter tbl add v void --yes
alter tbl add v variant --yes
alter tbl drop ride --yes
alter tbl drop ridee --yes
alter tbl not-null ride.city --yes
alter tbl default trip 1 --yes
alter tbl type trip int --yes
alter tbl type trip 'decimal(20,0)' --yes
alter tbl move trip before:ride.city --yes
alter tbl constraint add positive 'tripp > 0' --yes
alter tbl constraint drop nope --yes
alter tbl cluster trip --yes
alter tbl set delta.enableDeletionVectors=true --yes
alter tbl set delta.columnMapping.mode=name --yes
widen-type tbl trip int --yes
widen-type tbl trip double --yes
widen-type tbl trip 'decimal(20,0)' --yes
""",
    ),
    "protocol": (
        at.sample,
        """\
properties tbl set delta.appendOnly=true owner=ops
properties tbl set delta.checkpointPolicy=v2 --yes
properties tbl set delta.columnMapping.mode=name --yes
properties tbl set delta.constraints.x='trip > 5' --yes
properties tbl set delta.enableChangeDataFeed=true --yes
properties tbl set delta.enableDeletionVectors=true --yes
properties tbl set delta.enableIcebergCompatV2=true --yes
properties tbl set delta.enableInCommitTimestamps=true --yes
properties tbl set delta.enableRowTracking=true --yes
properties tbl set delta.feature.deletionVectors=supported --yes
properties tbl set delta.logRetentionDuration=30x --yes
properties tbl set delta.minReaderVersion=3 --yes
features tbl add deletionVectors
features tbl add clustering --yes
features tbl add catalogManaged --yes
features tbl add nosuch --yes
features tbl drop deletionVectors --yes
features tbl drop columnMapping --yes
""",
    ),
    "files": (
        at.sample,
        """\
optimize tbl
optimize tbl --zorder day --yes
optimize tbl --cluster --yes
restore tbl --version 8
restore tbl --version 99 --yes
restore tbl --timestamp 2020-01-01 --yes
undelete tbl --from tbl --yes
undelete tbl --from other --yes
undelete tbl --from nope --yes
repair tbl --apply changes.json --yes
repair tbl --undo nope --yes
vacuum tbl --retention 0s --yes
vacuum tbl --apply changes.json --yes
vacuum tbl --quarantine tbl --yes
vacuum tbl --keep-version 99 --yes
vacuum tbl --save-plan tbl/x.parquet
vacuum other --yes
""",
    ),
    "log": (
        at.sample,
        """\
log expire tbl
log expire other --yes
log backup tbl tbl
log restore tbl other --yes
log compact tbl --from 14 --to 11
log compact other --from 0 --to 0
log crc tbl --version 99
checkpoint other
checkpoint tbl --version 99
""",
    ),
    "vectors": (
        at.vectors,
        """\
optimize tbl
alter tbl drop x --yes
features tbl drop deletionVectors
""",
    ),
    "damaged": (
        at.damaged,
        """\
repair tbl --yes
repair tbl
optimize tbl --yes
undelete tbl --yes
vacuum tbl --yes
vacuum tbl --max-delete 100% --yes
""",
    ),
    "broken": (
        at.broken,
        """\
repair tbl --accept-loss --yes
repair tbl --accept-loss --max-missing 50% --quarantine tbl --yes
optimize tbl --yes
undelete tbl --yes
vacuum tbl --yes
""",
    ),
    "lost": (at.lost, "optimize tbl --yes\nundelete tbl --from copy\n"),
    "garbage": (
        at.garbage,
        """\
vacuum tbl --max-delete 1 --yes
vacuum tbl --max-delete 100% --retention 1h --yes
vacuum tbl --quarantine other --yes
vacuum tbl --quarantine . --yes
""",
    ),
    "paimon": (
        at.paimon,
        """\
alter paimon add a INT
alter paimon add id INT --yes
alter paimon drop id --yes
alter paimon drop nope --yes
alter paimon rename id name --yes
alter paimon set bucket-key=x --yes
alter paimon not-null name --yes
alter paimon type name INT --yes
alter paimon type price 'DECIMAL(3, 1)' --yes
vacuum paimon --schemas
vacuum paimon --yes
optimize paimon --yes
restore paimon --version 0 --yes
checkpoint paimon
properties paimon set a=b --yes
""",
    ),
    "share": (
        at.shared,
        """\
share pull p.share#Sales.Main.nope --to local
share pull p.share#Sales.nope.t --to local
share pull p.share#Sales.Main.t --to local --version 99
share pull p.share#Sales.Main.t --to .
share head p.share#Sales.Main.t --version 99
share head p.share#Sales.Main.t --columns nope
share head p.share#Sales.Main.t --where 'nope = 1'
share changes p.share#Sales.Main.t --from 0
share changes p.share#Sales.Main.t --from 99
share ls p.share#nope
share schema p.share#Sales.Main.nope
read p.share#Sales.Main.t --version 99
read p.share#Sales.Main.t --columns nope
changes p.share#Sales.Main.t --from 99
snapshot p.share#Sales.Main.t --version 7
vacuum p.share#Sales.Main.t --yes
""",
    ),
}
"""Commands that do not change their table although somebody may have agreed, and where."""


@pytest.fixture(scope="module")
def places() -> Iterator[Places]:
    with recording.places() as places:
        yield places


@pytest.mark.parametrize("name", [*REFUSALS, "golden runs"])
def test_hints_of_refusals_lead_on(name: str, places: Places) -> None:
    build, lines = REFUSALS.get(name, (at.sample, ""))
    refusals: list[tuple[Build, tuple[str, ...], str]] = [(build, (), line) for line in lines.splitlines()]
    if not refusals:
        golden = [change for change in CHANGES if change.refused]
        refusals = [(one.place, one.before, f"{one.refused}{' --yes' * one.asks}") for one in golden]
    problems = list[str]()
    for place, before, line in refusals:
        error = error_of(run_at(places, place, before, shlex.split(line)))
        if error is None:
            problems.append(f"{line}: is not refused")
            continue
        others = [fact for name, fact in error["facts"].items() if name not in ("then", "instead")]
        for advice in (error["hint"], *others):
            for words in commands_of(advice or ""):
                seen = run_at(places, place, before, words)
                following = error_of(seen)
                if seen.code in (2, 70) or (following and following["code"] == error["code"]):
                    problems.append(f"{line}: {error['code']}\n  {advice}\n  {following and following['message']}")

    assert [] == problems


def test_a_version_of_a_share_without_a_change_feed_is_not_advised(places: Places) -> None:
    for line in ("share changes p.share#Sales.Main.t --from 99", "changes p.share#Sales.Main.t --from 0 --to 9"):
        error = error_of(run_at(places, at.shared, (), shlex.split(line)))
        (advised,) = commands_of(error["hint"])

        assert (["history", "p.share#Sales.Main.t"], 0) == (advised, run_at(places, at.shared, (), advised).code)


def run_at(places: Places, build: Build, before: Sequence[str], words: Sequence[str]) -> Seen:
    """Run a command in a place as it is made, with a copy of its table."""
    place = places.begin(build, before)
    for table in ("tbl", "paimon"):
        if (place / table).exists() and not (place / "copy").exists():
            shutil.copytree(place / table, place / "copy")
    return run_in(place, ["--now", NOW, *words, *["--json"] * ("--json" not in words and words[0] != "help")])


def error_of(seen: Seen) -> Any:  # Any: JSON values
    """Return the error that a command wrote, or None."""
    return next((json.loads(line) for line in seen.err.splitlines() if line.startswith('{"type":"error"')), None)


def commands_of(advice: str) -> Iterator[list[str]]:
    """Yield the words of the commands of a hint, with values in their places."""
    for found in re.findall(r"\bdeltacli ([^;\n]+)", advice):
        words = [FILLED.get(word, word) for word in shlex.split(found, comments=True)]
        words = [re.sub(r"(?<==)[A-Z]+\Z", lambda place: FILLED.get(place[0], place[0]), word) for word in words]
        yield [word for at, word in enumerate(words) if "--now" not in words[max(at - 1, 0) : at + 1]]


@pytest.mark.halved
def test_hints_of_python_lead_on(places: Places) -> None:
    problems, led = list[str](), 0
    for call in CALLS:
        error = call_at(places, call.place, call.before, call.refused) if call.refused else None
        if error is None or error.hint is None or not error.hint.startswith(("open_table(", "open_paimon(")):
            continue
        led += 1
        following = call_at(places, call.place, call.before, error.hint.partition("   #")[0].replace("...", "'copy'"))
        if following is not None and following.code == error.code:
            problems.append(f"{call.refused}: {error.code}\n  {error.hint}\n  {following}")

    assert [] == problems
    assert led >= 6


def call_at(places: Places, build: Build, before: Sequence[str], line: str) -> DeltacliError | None:
    """Run a line of Python in a place as it is made, and return the error that it raised."""
    with chdir(places.begin(build, before)), disk(), use_hint_syntax(PythonSyntax()):
        clock = fixed_clock(NOW_NS // 1_000_000)
        known: dict[str, Any] = {name: open_table(name, clock=clock) for name in ("other", "lost")}  # Any: tables
        known |= {"table": open_table("tbl", clock=clock), "paimon": open_paimon("paimon", clock=clock)}
        known |= {"open_table": open_table, "open_paimon": open_paimon, "backup": ""}
        try:
            eval(line, known)
        except DeltacliError as error:
            return error
    return None
