"""No text and no number on the way in is a bug, or makes a table that other engines cannot open."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deltacli.cli.command_table import COMMANDS
from deltacli.cli.options.configuration import _KEYS, Variable
from deltacli.fleet.policy_file.keys import STEP_KEYS, TOP_KEYS
from tests.hostile.inputs import LINES, LONGEST, VALUES, Case, Place, cases, faults_of, run_here
from tests.support.actions import add, metadata, protocol
from tests.support.builder import TableBuilder
from tests.support.effort import InTurn, is_soaking
from tests.support.peak import deltacli as measured

EACH = 3
"""Values of each parameter that the gate tries."""
LAST = {case.command: case for case in cases(shared=False)}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    before = Path.cwd()
    made = Place(tmp_path_factory.mktemp("inputs"))
    os.chdir(made.root)
    yield made
    os.chdir(before)


def chosen(case: Case) -> list[str]:
    """Return the names of the values to try: in `dev.py soak` all of them. Those of 30 MB, which are refused before a
    command line is parsed, are tried once for each command.
    """
    if is_soaking():
        is_last = case == LAST[case.command]
        return [name for name in VALUES if is_last or name not in LONGEST]
    return random.Random(zlib.crc32(str(case).encode())).sample([name for name in VALUES if name not in LONGEST], EACH)


def shared_cases() -> list[Case]:
    """Return one case for each parameter that commands share; every one in `dev.py soak`."""
    found = cases(shared=True)
    if is_soaking():
        return found
    turn = sorted(found, key=lambda case: zlib.crc32(str(case).encode()))
    return [*{case.parameter + case.form: case for case in turn}.values()]


@pytest.mark.parametrize("command", COMMANDS)
def test_no_value_of_a_parameter_is_a_bug(command: str, place: Place) -> None:
    own = [case for case in cases(shared=False) if case.command == command]

    wrong = [fault for case in own for name in chosen(case) for fault in tried(case, name, place)]

    assert "" == "\n".join(wrong)


@pytest.mark.parametrize("command", COMMANDS if is_soaking() else [None])
def test_no_value_of_a_shared_option_is_a_bug(command: str | None, place: Place) -> None:
    some = [case for case in shared_cases() if command in (None, case.command)]

    wrong = [fault for case in some for name in chosen(case) for fault in tried(case, name, place)]

    assert "" == "\n".join(wrong)


def tried(case: Case, name: str, place: Place) -> Iterator[str]:
    """Run a case, and yield what is wrong afterwards."""
    if case.serves(name):
        return
    ended = run_here(case.argv(VALUES[name]))
    os.chdir(place.root)
    if ended.code not in range(9):
        yield f"{case}, {name}: {ended.code}, {ended.err[:300]}"
    if changed := place.changed():
        if ended.code not in (0, 1, 5, 7, 8) and any(path.startswith(b"tbl/") for path in changed):
            yield f"{case}, {name}: {ended.code}, but the table was changed: {changed[:3]}"
        yield from (f"{case}, {name}: {fault}" for fault in faults_of(place.root / "tbl"))
        place.again()
        os.chdir(place.root)


@pytest.mark.parametrize("variable", [one for one in Variable if one is not Variable.PAGER])
def test_no_value_of_a_variable_is_a_bug(variable: Variable, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {name: text for name, text in VALUES.items() if name not in (*LONGEST, "NUL", "half a surrogate pair")}
    wrong = []
    for name, text in texts.items():
        monkeypatch.setenv(variable, text)
        ended = run_here(["history", "tbl"])
        wrong += [f"{name}: {ended.err[:300]}"] if ended.code not in range(9) else []

    assert "" == "\n".join(wrong)


DOCUMENTS = {
    "configuration": ("history tbl --config", [f"{key} = {{}}\n" for key in sorted(_KEYS)]),
    "profile of the configuration": (
        "history tbl --profile-name p --config",
        [f"[profile.p]\n{key} = {{}}\n" for key in sorted(_KEYS)],
    ),
    "policy": ("fleet plan", [f"{key.name} = {{}}\n[groups.g]\ntables = ['tbl']\n" for key in TOP_KEYS]),
    "step": (
        "fleet plan",
        [
            f"[policies.p.{step}]\n{key.name} = {{}}\n[groups.g]\ntables = ['tbl']\npolicy = 'p'\n"
            for step, keys in STEP_KEYS.items()
            for key in keys
        ],
    ),
    "shares": (
        "share check --config",
        [
            "version: {}\nshares: []\n",
            "version: 1\nshares: [{{name: {}, schemas: []}}]\n",
            "version: 1\nshares: [{{name: s, schemas: [{{name: d, tables: [{{name: t, location: {}}}]}}]}}]\n",
            "version: 1\nlimits: {{requestsPerSecond: {}}}\nshares: []\n",
        ],
    ),
    "profile": (
        "share profile check",
        [
            '{{"shareCredentialsVersion": {}, "endpoint": "http://127.0.0.1:9/x", "bearerToken": "t"}}',
            '{{"shareCredentialsVersion": 1, "endpoint": {}, "bearerToken": "t"}}',
            '{{"shareCredentialsVersion": 1, "endpoint": "http://127.0.0.1:9/x", "bearerToken": {}}}',
            '{{"shareCredentialsVersion": 1, "endpoint": "x", "bearerToken": "t", "expirationTime": {}}}',
        ],
    ),
    "prices": (
        "doctor table tbl --prices",
        [f"{key} = {{}}\n" for key in ("storage-per-gib-month", "get-per-1000", "reads-per-month", "source", "other")],
    ),
    "baseline": ("validate tbl --baseline", ['{{"kind": "deltacli.baseline", "schemaVersion": 1, "findings": {}}}']),
    "changes": (
        "alter tbl --yes --apply",
        [
            '[{{"change": "comment", "column": "trip", "comment": {}}}]',
            '[{{"change": "rename", "column": "trip", "name": {}}}]',
            '[{{"change": {}}}]',
        ],
    ),
}
"""Kind of a file -> the command that reads it, and contents with a place for a value."""


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_no_value_in_a_file_is_a_bug(kind: str, place: Place) -> None:
    line, contents = DOCUMENTS[kind]
    bare = ("2^63", "10^30", "5000 digits", "-1", "1e400", "NaN", "inf")
    values = {name: json.dumps(text) for name, text in VALUES.items() if name not in LONGEST}
    values |= {f"{name}, no text": VALUES[name] for name in bare}
    wrong = []
    for number, content in enumerate(contents):
        some = random.Random(number).sample([*values], len(values) if is_soaking() else EACH)
        for name in some:
            Path("read.file").write_text(content.format(values[name]), "utf-8")
            ended = run_here([*line.split(), "read.file"])
            wrong += [f"{content!r}, {name}: {ended.err[:300]}"] if ended.code not in range(9) else []
            wrong += [f"{content!r}, {name}: {fault}" for fault in faults_of(place.root / "tbl")]
            place.again()
            os.chdir(place.root)

    assert "" == "\n".join(wrong)


@pytest.mark.halved
def test_no_value_in_a_saved_plan_is_a_bug(place: Place, in_turn: InTurn) -> None:
    hint = Path("tbl/_delta_log/_last_checkpoint")
    damaged = hint.read_bytes()[:-3]
    hint.write_bytes(damaged)
    assert 0 == run_here(["repair", "tbl", "--save-plan", "plan"]).code
    plan = json.loads(Path("plan").read_bytes())
    del plan["sha256"]
    places = [*_places(plan, ())]
    wrong = []
    values = {name: text for name, text in VALUES.items() if name not in LONGEST} | {"a list": ["x"], "null": None}
    for at in in_turn(places):
        for name in values if is_soaking() else random.Random(str(at)).sample([*values], EACH):
            changed = _replaced(plan, at, values[name])
            digest = hashlib.sha256(json.dumps(changed, sort_keys=True).encode()).hexdigest()
            Path("plan").write_text(json.dumps({**changed, "sha256": digest}))
            ended = run_here(["repair", "tbl", "--apply", "plan", "--yes"])
            os.chdir(place.root)
            wrong += [f"{at}, {name}: {ended.err[:300]}"] if ended.code not in range(9) else []
            place.again()
            os.chdir(place.root)
            hint.write_bytes(damaged)
    place.again()
    os.chdir(place.root)

    assert "" == "\n".join(wrong)


def _places(value: object, at: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    """Yield the way to every value in a document, those of objects and lists too."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield (*at, key)
        yield from _places(one, (*at, key))


def _replaced(document: dict[str, object], at: tuple[str | int, ...], value: object) -> dict[str, object]:
    found: dict[str, object] = json.loads(json.dumps(document))
    inner: Any = found  # Any: JSON values
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    return found


SECRET = "hunter2222"
ADDRESSES = (f"nosuch://me:{SECRET}@host/t", f"nosuch://host/t?sig={SECRET}&x=1")


@pytest.mark.long
@pytest.mark.parametrize("address", ADDRESSES, ids=["password", "signature"])
def test_no_error_repeats_the_secret_of_an_address_in_any_parameter(
    address: str, place: Place, in_turn: InTurn
) -> None:
    shown = []
    for case in in_turn([*cases(shared=False), *shared_cases()]):
        if case.serves(""):
            continue
        ended = run_here(case.argv(address))
        os.chdir(place.root)
        text = ended.err if {case.command, case.parameter} & SHOWING_TEXTS else ended.err + ended.out.decode()
        shown += [(str(case), text[:300])] if SECRET in text else []
        place.again()
        os.chdir(place.root)

    assert [] == shown


SHOWING_TEXTS = frozenset({"alter", "properties", "--template"})
"""Commands whose results show texts that they were given for the table, and the option that is the form of a result."""


def test_a_limit_of_no_bytes_is_reached_by_every_log(place: Place) -> None:
    Path("read.file").write_text(
        "[policies.p.checkpoint]\nlog-bytes = '0'\n[groups.g]\ntables = ['tbl']\npolicy = 'p'\n"
    )

    ended = run_here(["fleet", "plan", "read.file"])
    place.again()
    os.chdir(place.root)

    assert (0, True) == (ended.code, b"checkpoint" in ended.out), ended.err


def test_every_command_has_a_line_that_is_tried() -> None:
    assert sorted(COMMANDS) == sorted(LINES)


@pytest.mark.parametrize(
    ("line", "value", "code"),
    [
        ("read tbl --limit {}", "2^63-1", 0),
        ("read tbl --limit {}", "2^63", 2),
        ("changes tbl --from 0 --limit {}", "10^30", 2),
        ("undelete tbl --version {}", "2^53", 3),
        ("vacuum tbl --max-delete 100% --yes --threads {}", "2^63-1", 0),
        ("vacuum tbl --max-delete 100% --yes --quarantine {}", "Latin-1 byte", 0),
        ("undelete tbl --prefix {}", "Latin-1 byte", 0),
        ("changes tbl --from 0 --spark-conf {}", "Latin-1 byte", 2),
        ("share head p.share#s.d.t --retry-budget 0s --limit {}", "2^64", 2),
        ("fleet status fleet.toml --serve-metrics {}", "5000 digits", 2),
        ("fleet plan fleet.toml --state {}", "NUL", 2),
        ("alter tbl nullable {} --yes", "half a surrogate pair", 2),
        ("read tbl --columns {}", "30 MB", 2),
        ("history tbl --columns version,{}", "pair", 2),
    ],
)
def test_an_extreme_of(line: str, value: str, code: int, place: Place) -> None:
    ended = run_here([word.replace("{}", VALUES[value]) for word in line.split()])
    os.chdir(place.root)
    place.again()
    os.chdir(place.root)

    assert code == ended.code, ended.err[:500]
    assert len(ended.err) < 100_000


def test_a_directory_with_a_byte_that_is_not_utf_8_is_protected(place: Place) -> None:
    place.root.joinpath("tbl").rename("ca\udce9")
    shutil.copytree("ca\udce9", "tbl")

    ended = run_here(["vacuum", "tbl", "--max-delete", "100%", "--yes", "--protect-from", "ca\udce9"])
    os.chdir(place.root)
    place.again()
    os.chdir(place.root)

    assert 0 == ended.code, ended.err


@pytest.mark.parametrize("command", ["read", "changes --from 0", "repair --dry-run", "validate --level storage"])
@pytest.mark.parametrize("path", ["d/" * 500_000, "x" * 1_000_000])
def test_a_path_of_a_megabyte_costs_little(command: str, path: str, tmp_path: Path) -> None:
    files = [add(f"{path}x.parquet", size=1, records=1)]
    TableBuilder().commit(protocol(), metadata(), *files).write(tmp_path / "tbl")
    name, *options = command.split()

    ended = measured(name, tmp_path / "tbl", *options)

    assert ended.code in (1, 3, 4, 7)
    assert len(ended.error) < 100_000
    assert ended.extra_mib < 200


def test_a_hint_of_a_gigabyte_is_no_part_of_a_backup(place: Place) -> None:
    with open("tbl/_delta_log/_last_checkpoint", "wb") as hint:
        hint.truncate(1 << 30)

    ended = measured("log", "backup", place.root / "tbl", place.root / "spare")
    copied = [*(place.root / "spare").rglob("_last_checkpoint")]
    place.again()
    os.chdir(place.root)

    assert (0, []) == (ended.code, copied), ended.error
    assert ended.extra_mib < 200
