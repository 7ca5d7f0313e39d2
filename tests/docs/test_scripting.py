"""The pages about commands against the code: codes and rules are those of the source, and what they show runs."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from deltacli.cli.command_table import COMMANDS
from deltacli.cli.command_tree import TAKES_VALUE
from deltacli.cli.described_commands import describe_tree
from deltacli.cli.invocation import ASK_FOR_HELP
from deltacli.cli.options.cluster import ClusterOptions
from deltacli.cli.options.fleet import FLEET_FILE
from deltacli.cli.running.problem_notes import PROBLEM_DESCRIPTIONS
from deltacli.core import errors
from deltacli.delta.schema.type_changes import INTEGER_DIGITS, WIDER
from deltacli.operations.doctor import advice
from tests.cli.support import ROOT, deltacli, make_sample, write_program
from tests.docs.test_task_pages import pattern_of
from tools.environment import read_environment
from tools.reference_pages import read_error_codes

SCRIPTING = (ROOT / "docs" / "scripting.md").read_text(encoding="utf-8")
ERRORS = {code: row.exit for rows in read_error_codes().values() for row in rows for code in row.codes if row.exit}
"""Each code of an error with its exit codes."""
CODE = re.compile(r"[a-z]+\.(?!parquet)[a-z][a-z0-9-]*")
MAY_HAVE_CODES = re.compile(rf"""\bcode\b|["']{CODE.pattern}["']""")
VALIDATE = (ROOT / "docs" / "validate.md").read_text(encoding="utf-8")
CHECKPOINTS = (ROOT / "docs" / "checkpoints.md").read_text(encoding="utf-8")
ALTERING = (ROOT / "docs" / "alter.md").read_text(encoding="utf-8")
WIDENING = (ROOT / "docs" / "widen-type.md").read_text(encoding="utf-8")
DOCTOR = (ROOT / "docs" / "doctor.md").read_text(encoding="utf-8")
STORES = (ROOT / "docs" / "stores.md").read_text(encoding="utf-8")
READING = (ROOT / "docs" / "reading.md").read_text(encoding="utf-8")
VACUUM = (ROOT / "docs" / "vacuum.md").read_text(encoding="utf-8")
SPARK = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
CLUSTER = {"--" + name.replace("_", "-") for name in ClusterOptions.__dataclass_fields__}
SHARED = {*TAKES_VALUE, *ASK_FOR_HELP} | CLUSTER
SHARING = (ROOT / "docs" / "sharing-recipients.md").read_text(encoding="utf-8")
DEPLOYMENT = (ROOT / "docs" / "sharing-deployment.md").read_text(encoding="utf-8")
PAGES = "".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").rglob("*.md")))
BLOCKS = re.findall(r"```(sh|python) run\n(.*?)```", PAGES, re.DOTALL)
PARSES = re.compile(r"(?:^|[|;&(]) *(?:grep|cut|sed|awk|head|tail|wc|sort|uniq|tr) ")
JUDGES = (
    "rules/",
    "paimon/types.py",
    "rules/paimon/",
    "sharing/conformance/files.py",
    "sharing/conformance/lines.py",
    "sharing/conformance/lists.py",
    "sharing/conformance/versions.py",
    "delta/sql/",
    "operations/validate/",
    "work/checkpoints/inspection",
    "work/facts/",
    "delta/checkpoint/content.py",
    "delta/protocol/clients.py",
    "paimon/traits.py",
    "table/file_history.py",
    "table/file_references.py",
)
"""Where texts are ids of rules, which docs/rules.md explains, or names of columns or of traits, and no error codes."""


def section(title: str, page: str = SCRIPTING) -> str:
    """The text below a heading, up to the next."""
    return page.split(f"\n## {title}\n")[1].split("\n## ", maxsplit=1)[0]


def first_cells(text: str) -> set[str]:
    """What stands in backticks in the first cells of tables."""
    rows = (line.split("|")[1] for line in text.splitlines() if line.startswith("|"))
    return {word for cell in rows for word in re.findall(r"`([^`]+)`", cell)}


def texts(node: ast.AST) -> Iterator[str]:
    return (found.value for found in ast.walk(node) if isinstance(found, ast.Constant) and isinstance(found.value, str))


def is_spelled_like_code(text: str) -> bool:
    """Return True for a text that may be a code, and is not the name of a page."""
    return CODE.fullmatch(text) is not None and not text.endswith(".md")


NAMES_OF_DOCUMENTS = ("cli/documentation.py", "cli/documents_of_commands.py")
"""Modules with names of documents and of pages, such as `alter.delta`, which are spelled like codes."""


@cache
def codes_of_the_source() -> set[str]:
    """Each `code="…"`, and each text elsewhere that is spelled like one and begins with the area of one; names of
    parameters, `parameter("vacuum.where")`, are none.
    """
    given, like = set(), set()
    for path in (ROOT / "deltacli").rglob("*.py"):
        module = path.relative_to(ROOT / "deltacli").as_posix()
        if module.startswith(JUDGES) or module in NAMES_OF_DOCUMENTS:
            continue
        source, named = path.read_text(encoding="utf-8"), set[int]()
        if not MAY_HAVE_CODES.search(source):  # parsing all takes seconds
            continue
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.keyword | ast.Assign | ast.Dict | ast.Call | ast.Constant):
                continue
            match node:
                case ast.keyword(arg="code", value=value):
                    given |= set(texts(value))
                case ast.Assign(targets=[ast.Name(id="code")], value=value):
                    given |= set(texts(value))
                case ast.Dict(keys=keys, values=values):
                    pairs = zip(keys, values, strict=True)
                    given |= {text for key, value in pairs if key and "code" in texts(key) for text in texts(value)}
                case ast.Call(func=ast.Name(id="parameter") | ast.Attribute(attr="parameter"), args=[name, *_]):
                    named.add(id(name))  # before the name itself: parents come first
                case ast.Constant(value=str(text)) if is_spelled_like_code(text) and id(node) not in named:
                    like.add(text)
    areas = {code.partition(".")[0] for code in {*given, *PROBLEM_DESCRIPTIONS, *ERRORS}}
    return given | {text for text in like if text.partition(".")[0] in areas}


@pytest.mark.halved
def test_every_error_code_of_the_source_is_explained_and_no_other() -> None:
    explained = set(ERRORS)
    problems_only = set(PROBLEM_DESCRIPTIONS) - explained
    warnings_only = first_cells(section("Warnings", WIDENING) + section("Warnings", ALTERING)) - explained
    diagnosed = first_cells(section("Findings of a diagnosis", STORES)) - explained
    advised = first_cells(section("The advice", DOCTOR))

    assert diagnosed <= codes_of_the_source()
    codes = {code for code in vars(advice).values() if isinstance(code, str) and CODE.fullmatch(code)}
    assert advised == codes - diagnosed - explained
    assert codes_of_the_source() - problems_only - warnings_only - diagnosed - advised - {FLEET_FILE} == explained


@pytest.mark.halved
def test_errors_have_the_exit_code_that_is_declared() -> None:
    """Of each `Refused(…, code="…")`: a class of errors that is called with a code."""
    classes = {name: kind.exit_code for name, kind in vars(errors).items() if hasattr(kind, "exit_code")}
    given: dict[str, set[int]] = {}
    for path in (ROOT / "deltacli").rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        if "code=" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and (name := ast.unparse(node.func).removeprefix("errors.")) in classes:
                for code in (text for one in node.keywords if one.arg == "code" for text in texts(one.value)):
                    given.setdefault(code, set()).add(classes[name])

    assert 150 < len(given)
    assert {} == {
        code: exits for code, exits in given.items() if not exits <= {*map(int, re.findall(r"\d+", ERRORS[code]))}
    }


def test_every_problem_of_the_source_is_explained_and_no_other() -> None:
    assert set(PROBLEM_DESCRIPTIONS) == first_cells(section("Problems"))


def test_every_command_that_the_pages_name_exists() -> None:
    """Code that begins with `deltacli` or a group of commands, and each word in the permissions of stores."""
    known = {" ".join(path.split()[:depth]) for path in COMMANDS for depth in (1, 2, 3)}
    groups = known - set(COMMANDS)
    granted = re.findall(r"`([a-z]+(?:[ -][a-z]+)*)`", section("Permissions", STORES).split("\n### ")[0])
    rights = {"rl", "rlcw", "rlcwd"}
    named = {text for text in granted if text not in rights}
    recipes = ROOT / "docs" / "contributing.md"  # for a command that does not exist
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        text = "" if page == recipes else page.read_text(encoding="utf-8")
        blocks = "\n".join(re.findall(r"^```(?:sh|console).*?\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
        spans = re.findall(r"`(?:deltacli )?([a-z]+ [a-z][a-z-]*)[^`\n]*`", text)
        named |= {span for span in spans if span.split()[0] in groups}
        spans = re.findall(r"^deltacli ([a-z][a-z-]*(?: [a-z][a-z-]*)?)", blocks, re.MULTILINE)
        named |= {span if span.split()[0] in groups else span.split()[0] for span in spans}

    assert {"help"} == named - known
    assert len(named) > 30


def test_every_variable_of_ours_that_the_docs_name_is_read() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs" / "man").glob("*.1")]
    named = {name for page in pages for name in re.findall(r"DELTACLI_[A-Z_]+", page.read_text(encoding="utf-8"))}

    assert {name for name in read_environment(describe_tree()) if name.startswith("DELTACLI_")} == named


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_examples_of_the_pages_run_and_print_the_shown_output(number: int, tmp_path: Path) -> None:
    language, text = BLOCKS[number]
    make_sample(tmp_path / "tbl")
    program = tmp_path / "bin" / "deltacli"
    write_program(program)
    settings = {name: value for name, value in os.environ.items() if not name.startswith("DELTACLI_")}
    path = os.pathsep.join([str(program.parent), str(Path(sys.executable).parent), os.environ["PATH"]])

    command = ["bash", "-euo", "pipefail", "-c"] if language == "sh" else [sys.executable, "-c"]
    done = subprocess.run(
        [*command, text],
        cwd=tmp_path,
        env={**settings, "PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (0, "") == (done.returncode, done.stderr)
    expected = "".join(f"{line}\n" for line in re.findall(r"^# -> (.*)$", text, re.MULTILINE))
    assert re.fullmatch(pattern_of(expected), done.stdout), f"expected:\n{expected}\nshown:\n{done.stdout}"


def test_pages_parse_no_output_with_other_programs() -> None:
    blocks = re.findall(r"^```sh.*?\n(.*?)^```$", PAGES, re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines() if not line.startswith("# ->")]

    assert 300 <= len(lines)
    assert [] == [line for line in lines if PARSES.search(line)]


def test_the_pages_have_snippets() -> None:
    assert 50 <= len(BLOCKS)


def test_the_snippets_for_ci_are_command_lines_that_work(tmp_path: Path) -> None:
    """What can't be run here, because it is a file of another program."""
    make_sample(tmp_path / "lake" / "trips")
    (tmp_path / "known.json").write_text('{"kind":"deltacli.baseline","schemaVersion":1,"findings":[]}')
    blocks = re.findall(r"```(?:yaml|python|crontab)\n(.*?)```", VALIDATE, re.DOTALL)
    lines = [line for block in blocks for line in re.findall(r"deltacli validate [^\"\n>]*", block)]

    codes = {line: deltacli(*shlex.split(line)[1:], cwd=tmp_path).code for line in lines if "s3://" not in line}
    remote = [line for line in lines if "s3://" in line]
    parsed = [deltacli(*shlex.split(line.replace("s3://", "gopher://"))[1:], cwd=tmp_path) for line in remote]

    assert (2, 1) == (len(codes), len(remote))
    assert set(codes.values()) <= {0, 1}, codes
    assert ["usage.scheme"] == [done.error["code"] for done in parsed]


@pytest.mark.halved
def test_every_option_and_every_error_of_a_cluster_is_on_its_page() -> None:
    given = {code for code in codes_of_the_source() if code.startswith("cluster.")}

    assert set() == {name for name in CLUSTER if f"`{name}" not in SPARK}
    assert given == {code for code in first_cells(section("What can go wrong", SPARK)) if code.startswith("cluster.")}


def test_every_option_of_validate_is_on_its_page() -> None:
    (command,) = (found for found in describe_tree().walk() if found.path == ("validate",))
    own = {name for option in command.options for name in option.spellings if name.startswith("--")} - SHARED

    assert set() == {name for name in own if f"`{name}" not in VALIDATE}


def test_every_reason_not_to_widen_a_type_is_on_its_page() -> None:
    refusals = {code for code in ERRORS if code.startswith("widen.")}

    assert refusals == first_cells(section("Refusals", WIDENING))


def test_the_page_of_wider_types_lists_the_changes_that_are_made() -> None:
    rows = [line.split("|")[1:3] for line in section("Changes that are made", WIDENING).splitlines() if "| `" in line]
    listed = {from_type.strip(" `"): set(re.findall(r"`(\w+)`", to_types)) for from_type, to_types in rows}
    digits = {from_type.strip(" `"): re.findall(r"p-s >= (\d+)", to_types) for from_type, to_types in rows}

    assert {name: set(wider) for name, wider in WIDER.items()} == {
        name: {to_type for to_type in to_types if to_type != "timestampNtz"}
        for name, to_types in listed.items()
        if to_types
    }
    assert {name: [str(least)] for name, least in INTEGER_DIGITS.items()} == {
        name: found for name, found in digits.items() if found
    }


def test_every_option_of_widen_type_is_on_its_page() -> None:
    (command,) = (found for found in describe_tree().walk() if found.path == ("widen-type",))
    own = {name for option in command.options for name in option.spellings if name.startswith("--")}

    assert set() == {name for name in own - SHARED if f"`{name}" not in WIDENING}


def test_every_guard_and_every_option_of_vacuum_is_on_its_page_and_the_cron_line_works(tmp_path: Path) -> None:
    (command,) = (found for found in describe_tree().walk() if found.path == ("vacuum",))
    own = {name for option in command.options for name in option.spellings if name.startswith("--")}
    guards = {code for code in ERRORS if code.startswith("vacuum.")} - {"vacuum.partly-done"}
    (line,) = re.findall(r"```crontab\n.*?(deltacli .*) > /dev/null\n```", VACUUM)
    make_sample(tmp_path / "tbl")

    done = deltacli(*shlex.split(line.replace("s3://lake/events", "tbl"))[1:], cwd=tmp_path)

    assert set() == {name for name in own - SHARED if f"`{name}" not in VACUUM}
    assert guards == {code for code in first_cells(section("Guards", VACUUM)) if code.startswith("vacuum.")}
    assert (0, "") == (done.code, done.err)


def test_every_option_of_read_and_changes_is_on_its_page() -> None:
    commands = [found for found in describe_tree().walk() if found.path in (("read",), ("changes",))]
    own = {name for found in commands for option in found.options for name in option.spellings if name.startswith("--")}

    assert 2 == len(commands)
    assert set() == {name for name in own - SHARED if f"`{name}" not in READING}


def test_every_key_of_a_sharing_configuration_and_every_problem_of_it_is_on_its_page() -> None:
    from deltacli.sharing.configuration.keys import LIMIT_KEYS, SERVER_KEYS, SHARE_KEYS, TABLE_KEYS

    reported = {code for code in ERRORS if code.startswith("share.")}
    explained = first_cells(section("Checking a configuration", SHARING)) | first_cells(DEPLOYMENT)

    assert set() == {key for key in (*LIMIT_KEYS, *SERVER_KEYS) if f"`{key}`" not in SHARING}
    assert set() == {key for key in (*SHARE_KEYS, *TABLE_KEYS) if key not in SHARING} - {"cdfEnabled"}
    assert {code for code in explained if code.startswith("share.")} <= reported
    assert {"share.client", "share.plain-http"} <= explained


def test_every_option_of_checkpoint_is_on_its_page_and_the_cron_line_works(tmp_path: Path) -> None:
    (command,) = (found for found in describe_tree().walk() if found.path == ("checkpoint",))
    own = {name for option in command.options for name in option.spellings if name.startswith("--")}
    (line,) = re.findall(r"```crontab\n.*?(deltacli .*) > /dev/null\n```", CHECKPOINTS)
    make_sample(tmp_path / "tbl")

    done = deltacli(*shlex.split(line.replace("s3://lake/events", "tbl"))[1:], cwd=tmp_path)

    assert set() == {name for name in own - SHARED if f"`{name}" not in CHECKPOINTS}
    assert (0, "") == (done.code, done.err)
