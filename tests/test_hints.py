"""How messages name parameters and next commands: for a shell, and for callers of the Python API."""

from __future__ import annotations

import ast
import inspect
import pickle
import re
from collections.abc import Iterator
from functools import cache, partial
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import deltacli
from deltacli.api.paimon import Paimon, open_paimon
from deltacli.api.table import Table
from deltacli.cli.command_loading import load_command
from deltacli.cli.command_tree import get_command_path
from deltacli.core.errors import (
    OMITTED_OPTIONS,
    SHELL_ONLY,
    CommandCall,
    CommandHint,
    DoubleQuoted,
    LazyText,
    ParameterHint,
    PythonSyntax,
    ShellSyntax,
    UsageError,
    command,
    fill_table,
    format_sql_name,
    install_command,
    nearest_name,
    nearest_type,
    parameter,
    quote_identifier,
    suggest_parameters,
    use_hint_syntax,
)
from deltacli.core.times import DAY_MS, duration_argument

ROOT = Path(deltacli.__file__).parent
SHELL, PYTHON = ShellSyntax(), PythonSyntax()


@pytest.mark.parametrize(
    ("name", "value", "shell", "python"),
    [
        ("vacuum.prefix", None, "--prefix", "`prefix`"),
        ("vacuum.mode", "lite", "--mode lite", "`mode='lite'`"),
        ("vacuum.keep_versions", None, "--keep-version", "`keep_versions`"),
        ("vacuum.retention_ms", None, "--retention", "`retention_ms`"),
        ("vacuum.retention_ms", duration_argument(7 * DAY_MS), "--retention 7d", "`retention_ms=604800000`"),
        ("vacuum.log_entries", False, "--no-log-entries", "`log_entries=False`"),
        ("checkpoint.force", True, "--force", "`force=True`"),
        ("storage_options.token", None, "--storage-option token", "`storage_options['token']`"),
        ("storage_options.anon", "true", "--storage-option anon=true", "`storage_options={'anon': 'true'}`"),
    ],
)
def test_a_parameter(name: str, value: object, shell: str, python: str) -> None:
    with use_hint_syntax(SHELL):
        in_shell = parameter(name, value)
    with use_hint_syntax(PYTHON):
        in_python = parameter(name, value)

    assert (shell, python) == (in_shell, in_python)


def test_a_sentence_is_spelled_when_it_is_read() -> None:
    words = ("alter", "default", "COLUMN", "VALUE")
    sentence = LazyText("set another default: {}", partial(command, *words, table="TABLE"))

    with use_hint_syntax(SHELL):
        in_shell = str(sentence)
    with use_hint_syntax(PYTHON):
        in_python = str(sentence)

    assert "set another default: deltacli alter TABLE default COLUMN VALUE" == in_shell
    assert "set another default" == in_python


COMMANDS: list[tuple[Any, ...]] = [
    (
        *("validate", [], {"level": "storage"}),
        *("deltacli validate './a b' --level storage", "open_table('./a b').validate(level='storage')"),
    ),
    (
        *("validate", [], {"select": [DoubleQuoted("ict.*"), "log.*"]}),
        "deltacli validate './a b' --select \"ict.*\" --select 'log.*'",
        "open_table('./a b').validate(select=['ict.*', 'log.*'])",
    ),
    (
        *("properties set", [{"delta.x": "a b"}], {}),
        *("deltacli properties './a b' set delta.x='a b'", "open_table('./a b').set_properties({'delta.x': 'a b'})"),
    ),
    (
        *("read", [], {"version": ..., "allow_external": ["s3://b/c"]}),
        "deltacli read './a b' --version N --allow-external s3://b/c",
        "open_table('./a b', allow_external=['s3://b/c']).snapshot(version=...).scan()",
    ),
    ("history", [], {"table": "{parent}"}, "deltacli history .", "open_table('.').history()"),
    ("history", [], {"table": "{table}/c"}, "deltacli history './a b/c'", "open_table('./a b/c').history()"),
    ("history", [], {"table": "-{table}"}, "deltacli history './-{table}'", "open_table('-{table}').history()"),
    ("log expire", [], {"yes": True}, "deltacli log expire './a b' --yes", "open_table('./a b').expire_log()"),
    ("vacuum", [], {"save_plan": "FILE"}, "deltacli vacuum './a b' --save-plan FILE", ""),
    ("log cat", [12], {}, "deltacli log cat './a b' 12", ""),
    ("share token list", ["acme"], {}, "deltacli share token list acme", ""),
]


@pytest.mark.parametrize(("operation", "words", "options", "shell", "python"), COMMANDS)
def test_a_command(operation: str, words: list[object], options: dict[str, Any], shell: str, python: str) -> None:
    """
    It is empty for callers that have none: a plan is saved, the log printed and tokens are listed in a shell only.
    """
    with use_hint_syntax(SHELL):
        in_shell = fill_table(command(operation, *words, **options), "./a b")
    with use_hint_syntax(PYTHON):
        in_python = fill_table(command(operation, *words, **options), "./a b")

    assert (shell, python) == (in_shell, in_python)


def test_an_error_from_python_names_the_parameter(tmp_path: Path) -> None:
    with use_hint_syntax(PYTHON), pytest.raises(UsageError) as raised:
        deltacli.open_table(tmp_path, allow_external=["s3://"])

    message, hint = raised.value.message, raised.value.hint
    assert "`allow_external` 's3://' does not name a directory, host or bucket" == message
    assert "`allow_external='s3://BUCKET/PATH'`" == hint


@cache
def calls() -> list[tuple[str, str, set[str]]]:
    """Return the place of each call of `parameter` and `command` with its operation and the names in it."""
    return list(_calls())


def _calls() -> Iterator[tuple[str, str, set[str]]]:
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if re.search(r"\b(command|parameter)\(", text) else ():
            if not isinstance(node, ast.Call) or not node.args:
                continue
            called = ast.unparse(node.func).removeprefix("errors.")
            place = f"{path.relative_to(ROOT)}:{node.lineno}"
            if called == "command" and path.name != "hints.py" and "cli" not in path.parts:
                assert isinstance(node.args[0], ast.Constant), place
                yield place, str(node.args[0].value), {word.arg for word in node.keywords if word.arg} - {"table"}
            if called == "parameter" and isinstance(node.args[0], ast.Constant):
                operation, _, name = str(node.args[0].value).partition(".")
                if operation != "storage_options":
                    yield place, operation, {name}


def options_of(operation: str) -> set[str]:
    """Return the options of a command; those that all commands have for `open_table`."""
    path = get_command_path(["snapshot"] if operation == "open_table" else operation.split())
    found: Any = load_command(path)  # Any: options of typer's own click
    assert found is not None, operation
    return {"--help", *(name for option in found.params for name in (*option.opts, *option.secondary_opts))}


def test_what_lower_layers_name_are_options() -> None:
    known = {operation: options_of(operation) for operation in {operation for _, operation, _ in calls()}}

    wrong = [
        (place, operation, name)
        for place, operation, names in calls()
        for name in names
        if not {SHELL.format_parameter(operation, name), SHELL.format_parameter(operation, name, False)}
        & known[operation]
    ]

    assert [] == wrong


def test_commands_that_stand_alone_name_the_table() -> None:
    """Only in a sentence, or for help, is the table left out."""
    wrong = []
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text("utf-8")
        tree = ast.parse(text) if "table=None" in text else ast.Module([], [])
        within = {id(one) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for one in ast.walk(node)}
        for node in ast.walk(tree):
            match node:
                case ast.Call(ast.Name("command"), [ast.Constant(str() as operation), *_]) if id(node) not in within:
                    given = {ast.unparse(word) for word in node.keywords}
                    if "table=None" in given and "help=True" not in given and not operation.startswith("fleet "):
                        wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")

    assert [] == wrong


@pytest.mark.halved
def test_what_lower_layers_name_are_parameters_of_the_api() -> None:
    wrong = []
    for place, operation, names in calls():
        method = PYTHON.format_call(CommandCall(operation, "{table}")).partition(").")[2].partition("(")[0]
        if not method:
            continue
        if operation == "open_table":
            known = {*inspect.signature(deltacli.open_table).parameters, *inspect.signature(open_paimon).parameters}
        else:
            found = [getattr(kind, method) for kind in (Table, Paimon, deltacli.Snapshot) if hasattr(kind, method)]
            if operation == "read":
                found.append(deltacli.Snapshot.scan)
            if operation == "vacuum":
                found.append(Table.execute_vacuum)
            known = {name for each in found for name in inspect.signature(each).parameters}
        shell_only = SHELL_ONLY | OMITTED_OPTIONS | {"allow_external", "storage_options", "schemas", "table_format"}
        if not known or names - known - shell_only:
            wrong.append((place, method, names))

    assert [] == wrong


@pytest.mark.parametrize(
    ("name", "literal", "in_sql"),
    [
        ("a", "`a`", "a"),
        ("_a1", "`_a1`", "_a1"),
        ("1a", "`1a`", "`1a`"),
        ("a.b", "`a.b`", "`a.b`"),
        ("a b", "`a b`", "`a b`"),
        ("a`b", "`a``b`", "`a``b`"),
        ("``", "``````", "``````"),
        ("", "``", "``"),
        ("größe", "`größe`", "`größe`"),
        ("名前\n", "`名前\n`", "`名前\n`"),
        ("'a\"", "`'a\"`", "`'a\"`"),
    ],
)
def test_the_name_of_a_column_in_sql(name: str, literal: str, in_sql: str) -> None:
    assert (literal, in_sql) == (quote_identifier(name), format_sql_name(name))


def test_letters_in_another_order_are_a_near_name() -> None:
    assert ("int", "decimal(5,2)") == (nearest_type("itn", ["int", "date"]), nearest_type("decimla(5,2)", ["decimal"]))
    assert nearest_type("Decimal(39,2)", ["decimal"]) is None
    assert (".csv", None) == (nearest_name(".cvs", [".csv"], cutoff=0.8), nearest_name("ba", ["ab"], cutoff=0.8))


@pytest.mark.parametrize(
    ("receipt", "command"),
    [
        ("uv-receipt.toml", "uv tool install '/src/deltacli[s3]'"),
        ("pipx_metadata.json", "pipx install --force '/src/deltacli[s3]'"),
    ],
)
def test_an_extra_is_installed_as_deltacli_was(
    receipt: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / receipt).touch()
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    monkeypatch.setattr("deltacli.core.installation._find_source", lambda: ("/src/deltacli", None))
    monkeypatch.setattr("importlib.metadata.requires", lambda _: None)

    assert command == install_command("s3")


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        ('{"dir_info": {"editable": true}, "url": "file:///src/delta%20cli"}', "pip install -e '/src/delta cli[s3]'"),
        ('{"dir_info": {}, "url": "file:///src/deltacli"}', "pip install '/src/deltacli[s3]'"),
        ('{"archive_info": {}, "url": "file:///d/deltacli-1-py3-none-any.whl"}', "pip install 'deltacli[s3]'"),
        (None, "pip install 'deltacli[s3]'"),
    ],
)
def test_an_extra_of_a_checkout_is_find_source_it(
    origin: str | None, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    monkeypatch.setattr("importlib.metadata.distribution", lambda _: SimpleNamespace(read_text=lambda _: origin))

    assert command == install_command("s3")


@pytest.mark.parametrize(
    ("extra", "named"),
    [("paimon", "paimon,share,spark"), ("share", "share,spark"), ("spark-local", "share,spark-local")],
)
def test_an_extra_of_a_tool_is_installed_with_those_that_are_there(
    extra: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = [
        "orjson>=3.10",
        "botocore>=1.36; extra == 's3'",
        "fastavro[zstandard]>=1.9; extra == 'paimon'",
        "starlette>=0.46; extra == 'share'",
        "uvloop>=0.21; (sys_platform != 'win32') and extra == 'share'",
        "pyspark-client<5,>=4.0; extra == 'spark'",
    ]
    installed = {"deltacli": ours, "starlette": [], "pyspark-client": None, "orjson": None}
    installed["fastavro"] = ['zstandard; extra == "zstandard"']  # which is not there

    def requires(package: str) -> list[str] | None:
        if package not in installed:
            raise PackageNotFoundError(package)
        return installed[package]

    (tmp_path / "uv-receipt.toml").touch()
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    monkeypatch.setattr("deltacli.core.installation._find_source", lambda: ("/src", None))
    monkeypatch.setattr("importlib.metadata.requires", requires)

    assert f"uv tool install '/src[{named}]'" == install_command(extra)


def test_hints_of_pickled_errors_keep_their_data() -> None:
    """Executors of a cluster send errors to the driver, which fills in the table."""
    retention = duration_argument(7 * DAY_MS)
    errors = [
        UsageError("wrong", hint=command("vacuum", retention_ms=retention)),
        UsageError("wrong", hint=suggest_parameters(parameter("vacuum.retention_ms", retention))),
    ]

    of_command, of_parameters = (pickle.loads(pickle.dumps(error)).hint for error in errors)

    assert isinstance(of_command, CommandHint)
    assert "deltacli vacuum 'a b' --retention 7d" == fill_table(of_command, "a b")
    assert isinstance(of_parameters, ParameterHint)
    assert ("--retention 7d",) == of_parameters.parameters
