"""`fleet.toml`: what is read, what is inherited, and where problems are."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from deltacli.cli.app import run
from deltacli.core.errors import UsageError
from deltacli.core.times import DAY_MS
from deltacli.fleet.policy_file.checking import check_fleet_file
from deltacli.fleet.policy_file.file_schema import make_fleet_file_schema
from deltacli.fleet.policy_file.keys import STEP_KEYS
from deltacli.fleet.policy_file.model import CheckpointPolicy, VacuumPolicy
from deltacli.fleet.policy_file.reading import read_fleet_file, require_fleet_file
from deltacli.fleet.policy_file.toml_lines import find_key_lines
from deltacli.fleet.policy_file.value_kinds import TEXT, TEXTS
from tests.cli.test_documents import validate

GOOD = """\
exclude = ["lake/tmp"]

[policies.base.vacuum]
every = "7d"
max-delete = "20%"
consent = true

[policies.gold]
inherits = "base"
vacuum = { every = "1d" }
checkpoint.commits = 5

[policies.quiet]
inherits = "gold"
vacuum = false

[groups.gold]
policy = "gold"
globs = ["lake/gold/*"]
prefixes = ["s3://lake/gold/"]
exclude = ["lake/gold/old"]

[groups.rest]
policy = "quiet"
tables = ["/data/t"]
lists = ["tables.txt"]
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "tables.txt").write_text("\ufeffx/y\n# more\n\nabfss://c@a/t\n")
    return tmp_path


def written(home: Path, text: str) -> Path:
    (home / "fleet.toml").write_text(text)
    return home / "fleet.toml"


def problems(home: Path, text: str) -> list[tuple[int, str, str]]:
    return [problem[:3] for problem in read_fleet_file(written(home, text)).problems]


def test_policies_inherit_key_by_key_and_steps_can_be_turned_off(home: Path) -> None:
    gold, rest = require_fleet_file(written(home, GOOD)).groups

    assert gold.policy.steps == {
        "checkpoint": CheckpointPolicy(commits=5),
        "vacuum": VacuumPolicy(every=DAY_MS, max_delete="20%", consent=True),
    }
    assert {"checkpoint": CheckpointPolicy(commits=5)} == rest.policy.steps


def test_relative_paths_belong_to_the_directory_of_the_file(home: Path) -> None:
    gold, rest = require_fleet_file(written(home, GOOD)).groups

    assert [f"{home}/lake/gold/*"] == [entry.text for entry in gold.globs]
    assert ["s3://lake/gold"] == [entry.text for entry in gold.prefixes]
    assert [f"{home}/lake/gold/old", f"{home}/lake/tmp"] == [entry.text for entry in gold.exclude]
    assert ["/data/t", f"{home}/x/y", "abfss://c@a/t"] == [entry.text for entry in rest.tables]


def test_relative_paths_in_every_text_of_a_step_do_too(home: Path) -> None:
    others = {"select", "ignore", "rate"}
    texts = {
        (step, key): ("{name}/x" if key.name == "to" else "x") if key.kind is TEXT else ["x"]
        for step, keys in STEP_KEYS.items()
        for key in keys
        if key.kind in (TEXT, TEXTS) and key.name not in others
    }
    lines = [f"{step}.{key.name} = {json.dumps(text)}" for (step, key), text in texts.items()]
    content = "\n".join(["[policies.base]", *lines, '[groups.all]\npolicy = "base"\ntables = ["t"]'])

    (group,) = require_fleet_file(written(home, content)).groups

    found = {(step, key): getattr(group.policy.steps[step], key.field_name) for step, key in texts}
    assert found == {at: f"{home}/{text}" if isinstance(text, str) else (f"{home}/x",) for at, text in texts.items()}


@pytest.mark.parametrize(
    ("damage", "line", "key", "message"),
    [
        (("max-delete", "max_delete"), 5, "policies.base.vacuum.max_delete", "unknown key; did you mean 'max-delete'?"),
        (('every = "1d"', 'evry = "1d"'), 10, "policies.gold.vacuum.evry", "unknown key; did you mean 'every'?"),
        (("[groups.rest]", "[group.rest]"), 23, "group", "unknown key; did you mean 'groups'?"),
        (("20%", "many"), 5, "policies.base.vacuum.max-delete", "invalid value 'many'"),
        (("= true", "= 1"), 6, "policies.base.vacuum.consent", "invalid value 1"),
        (("= 5", "= 0"), 11, "policies.gold.checkpoint.commits", "invalid value 0"),
        (("= 5", f"= {1 << 63}"), 11, "policies.gold.checkpoint.commits", f"invalid value {1 << 63}"),
        (('"lake/gold/*"', '"a", 3'), 19, "groups.gold.globs[1]", "invalid value 3"),
        (('"lake/tmp"', r'"a", "a\u0000"'), 1, "exclude[1]", r"invalid value 'a\x00'"),
        (('= "base"', '= "bse"'), 9, "policies.gold.inherits", "policy 'bse' is not defined; did you mean 'base'?"),
        (
            ('= "base"', '= "quiet"'),
            9,
            "policies.gold.inherits",
            "the policies inherit from each other: gold -> quiet -> gold",
        ),
        (
            ('= "gold"\ng', '= "glod"\ng'),
            18,
            "groups.gold.policy",
            "policy 'glod' is not defined; did you mean 'gold'?",
        ),
        (("tables.txt", "no.txt"), 26, "groups.rest.lists[0]", "no.txt cannot be read: no such file or directory"),
    ],
)
def test_each_problem_names_its_line_and_key(
    home: Path, damage: tuple[str, str], line: int, key: str, message: str
) -> None:
    assert GOOD.replace(*damage) != GOOD

    assert (line, key, message) in problems(home, GOOD.replace(*damage))


def test_a_misspelt_key_never_becomes_its_default(home: Path) -> None:
    path = written(home, GOOD.replace("max-delete", "max-delte").replace("every", "evry"))

    with pytest.raises(UsageError) as raised:
        require_fleet_file(path)

    assert f"{path}:4: policies.base.vacuum.evry: unknown key; did you mean 'every'?" == raised.value.message
    assert {"expected", "also"} == raised.value.facts.keys()
    assert f"deltacli fleet check {path}" == raised.value.hint


@pytest.mark.parametrize(
    ("text", "line"), [("a = [1,\n b", 2), ("[x]\ny = \n", 2), ("a = 1\na = 2\n", 2), ('a = "', 1), ("[" * 9999, 1)]
)
def test_text_that_is_not_toml_has_a_line(home: Path, text: str, line: int) -> None:
    ((found, key, message),) = problems(home, text)

    assert (line, "") == (found, key)
    assert message.startswith("not TOML: ")


def test_an_empty_file_has_no_group(home: Path) -> None:
    assert [(1, "", "the file has no group of tables")] == problems(home, "")


def test_the_schema_accepts_the_file_and_refuses_what_the_reader_refuses(home: Path) -> None:
    schema = Draft7Validator(make_fleet_file_schema())

    for old, new in [("", ""), ("max-delete", "max_delete"), ("= true", "= 1"), ("= 5", "= 0"), ('"7d"', '"7x"')]:
        text = GOOD.replace(old, new) if old else GOOD
        errors = read_fleet_file(written(home, text)).errors
        assert bool(errors) == (not schema.is_valid(tomllib.loads(text))), new


KEYS = st.sampled_from(["a", "b-c", '"d e"', "'f.g'", "h.i"])
SCALARS = st.one_of(st.just('"x # ]"'), st.just("'''y\n[z]'''"), st.just("1.5"), st.just("1979-05-27 07:32:00"))
ARRAYS = st.lists(SCALARS, max_size=3).map(lambda items: "[\n  " + ", # comment ]\n  ".join(items) + "\n]")


@given(st.lists(st.tuples(KEYS, st.one_of(SCALARS, ARRAYS, SCALARS.map(lambda one: f"{{ k = {one} }}"))), max_size=6))
def test_lines_of_keys_are_those_of_the_text(pairs: list[tuple[str, str]]) -> None:
    unique = list(dict(pairs).items())
    text = "".join(f"[t{number}]\n{key} = {value}\n" for number, (key, value) in enumerate(unique))
    tomllib.loads(text)

    lines = find_key_lines(text)

    for number, (key, _) in enumerate(unique):
        header = text.split("\n").index(f"[t{number}]") + 1
        names = {"h.i": ("h", "i")}.get(key, (key.strip("\"'"),))
        assert (header, header + 1) == (lines[(f"t{number}",)], lines[(f"t{number}", *names)])


def test_the_command_reports_all_problems_in_every_format(
    home: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = str(written(home, GOOD.replace("max-delete", "max-delte").replace('"gold"', '"glod"')))

    codes = [run(["fleet", "check", path]), run(["fleet", "check", path, "--json"]), run(["fleet", "check", "no.toml"])]

    out, err = capfdbinary.readouterr()
    text, document = out.decode().rsplit("\n", 2)[:-1][0], out.splitlines()[-1]
    assert [1, 1, 2] == codes
    assert f"{path}:5: policies.base.vacuum.max-delte: unknown key; did you mean 'max-delete'?" in text
    validate(json.loads(document), "deltacli.fleet-check")
    assert [
        "error: the policy file no.toml cannot be read: no such file or directory",
        "hint: deltacli fleet init . no.toml",
    ] == err.decode().splitlines()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[policies.p.alerts]\nlog-byte = "1GiB"', (2, "policies.p.alerts.log-byte", "did you mean 'log-bytes'?")),
        ('[policies.p.alerts]\nsmall-files = "a third"', (2, "policies.p.alerts.small-files", "invalid value")),
        ("[policies.p]\nalerts = true", (2, "policies.p.alerts", "invalid value true")),
        ('[webhook]\nsecret = "s3"', (2, "webhook.secret", "unknown key")),
        ('[webhook]\nsecret-env = "S"', (1, "webhook", "no url")),
        ('[webhook]\nurl = "http://example.org/x"', (2, "webhook.url", "not an https URL")),
        ('[webhook]\nurl = "http://localhost.example.org/x"', (2, "webhook.url", "not an https URL")),
        ('[webhook]\nurl = "https://u:p@example.org/x"', (2, "webhook.url", "credentials")),
        ('[webhook]\nurl = "https://e"\nsecret-env = "A"\nsecret-file = "b"', (4, "webhook.secret-file", "two")),
        ('[webhook]\nurl = "http://[::1]:9/x"', (1, "webhook", "not signed")),
        ("webhook = 1", (1, "webhook", "is not a table")),
        ('state = "s3://lake/state"', (1, "state", "of this machine")),
    ],
)
def test_thresholds_the_webhook_and_the_state_are_checked(
    home: Path, text: str, expected: tuple[int, str, str]
) -> None:
    rest = '[groups.g]\npolicy = "q"\ntables = ["t"]\n[policies.q]\nvalidate = {}\n'

    found = problems(home, f"{text}\n{rest}")

    assert [expected[:2]] == [problem[:2] for problem in found if expected[2] in problem[2]], found


def test_patterns_among_tables_and_missing_consent_are_warnings_that_say_where(home: Path) -> None:
    text = GOOD.replace("consent = true\n", "").replace('tables = ["/data/t"]', 'tables = ["/data/*"]')

    problems = read_fleet_file(written(home, text)).problems

    assert [
        ("vacuum is planned but never run: policies.gold.vacuum lacks consent = true", False),
        ("/data/* is read as the name of one table; patterns belong in globs", False),
    ] == [(problem.message, problem.is_error) for problem in problems]


QUIET = "[policies.p]\nvalidate = {}\n"
KEPT = '[groups.first]\npolicy = "p"\nglobs = ["s3://b/lake/*"]\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '[policies.q]\nvacuum.retention = "1d"\n[policies.p]\ninherits = "q"',
            [(2, "less than the default retention")],
        ),
        ('[policies.p]\nlog-expire.retention = "29d"', [(2, "log-expire is refused for tables that keep it")]),
        ('[policies.p]\nvacuum = { retention = "1d", allow-retention-below = "7d" }', []),
        ('[policies.p]\nvacuum = { retention = "1d", allow-retention-below = "6d" }', [(2, "than the default")]),
        ('[policies.p.vacuum]\nallow-retention-below = "7d"', [(2, "has no effect on vacuum without retention")]),
    ],
)
def test_a_retention_without_its_override_is_a_warning(home: Path, text: str, expected: list[tuple[int, str]]) -> None:
    found = [one for one in problems(home, f"{text}\n{KEPT}") if "retention" in one[1]]

    assert [line for line, _ in expected] == [line for line, _, _ in found]
    assert all(words in message for (_, words), (_, _, message) in zip(expected, found, strict=True))


@pytest.mark.parametrize(
    ("group", "is_shadowed"),
    [
        ('globs = ["s3://b/lake/*/x", "s3://b/lake/a*"]', True),
        ('globs = ["s3://b/lake/a/**/x"]', True),
        ('prefixes = ["s3://b/lake/a"]\ntables = ["s3://b/lake/t"]', True),
        ('globs = ["s3://b/other/*"]\nexclude = ["s3://b/other"]', True),
        ('globs = ["s3://b/lake/**"]', False),
        ('globs = ["s3://b/lake/**/x"]', False),
        ('globs = ["s3://b/lake/x", "s3://b/other/*"]', False),
        ('tables = ["s3://b/lake/.hidden"]', False),
        ('globs = ["s3://b/lake/*/y"]\nexclude = ["s3://b/lake/z"]', True),
    ],
)
def test_a_group_that_another_one_shadows_completely_is_a_warning(home: Path, group: str, is_shadowed: bool) -> None:
    text = f'{QUIET}{KEPT}[groups.second]\npolicy = "p"\n{group}\n'

    found = check_fleet_file(written(home, text)).problems

    assert [(6, "groups.second")] * is_shadowed == [one[:2] for one in found]
    with_exclusion = text.replace('lake/*"]\n', 'lake/*"]\nexclude = ["s3://b/lake/a"]\n', 1)
    if "other" not in group:
        assert () == check_fleet_file(written(home, with_exclusion)).problems


def test_what_does_not_exist_on_this_machine_is_a_warning(home: Path) -> None:
    (home / "empty").mkdir()
    (home / "table" / "_delta_log").mkdir(parents=True)
    (home / "list").write_text("gone\ntable\ns3://b/t\n")
    lines = [
        'globs = ["nowhere/*/x"]',
        'prefixes = ["list", "empty"]',
        'tables = ["empty", "table"]',
        'lists = ["list"]',
    ]

    found = check_fleet_file(written(home, "\n".join([f'{QUIET}[groups.g]\npolicy = "p"', *lines]))).problems

    assert [
        (5, f"{home}/nowhere does not exist"),
        (6, f"{home}/list is not a directory"),
        (7, f"{home}/empty is not a Delta table: it has no _delta_log"),
        (8, f"{home}/gone does not exist"),
    ] == [(problem.line, problem.message) for problem in found]
    assert not any(problem.is_error for problem in found)
