"""A change writes to a table through its `ChangeExecution`, and few modules decide about changes besides their own.

The places that do so otherwise are counted and named here.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import deltacli

ROOT = Path(deltacli.__file__).parent
OTHER_WRITERS = {
    "operations/clone.py": 1,
    "operations/checkpoint": 3,
    "operations/paimon": 2,
    "operations/recover": 4,
    "operations/repair": 1,
    "operations/restore": 1,
    "operations/vacuum": 2,
}
CONSENT, STALENESS, FAILURE, EXIT = "consent", "staleness", "partial failure", "exit code"
DECIDES = {
    CONSENT: {
        "changing/change.py": "without a consent, the command was agreed to",
        "changing/consent.py": "what a consent is, also to a plan made again",
        "cli/running/changing.py": "how it is asked: the question, its answer and --yes",
    },
    STALENESS: {
        "changing/rechecks.py": "whether the table still is what a plan was made from",
        "changing/commit.py": "behind each winner",
        "changing/commit_sender.py": "the version before each attempt",
        "changing/change.py": "the clock before files of the log are deleted",
        "changing/derived_files.py": "before each file of the log",
        "changing/execution.py": "before the first act, and where a change asks",
        "operations/change/append.py": "a log that may have been cleaned past the plan of a query",
        "operations/vacuum/rechecking.py": "before each batch, with newer commits and protected tables",
    },
    FAILURE: {
        "catalogs/publishing.py": "copies that the catalog was not told of, or that others should have followed",
        "changing/change.py": "an error after the first act",
        "changing/outcome.py": "what an outcome says was left undone",
        "cli/running/changing.py": "what is shown of it, and what the same command continues",
    },
    EXIT: {
        "cli/running/changing.py": "1 for findings: a change that is due by --check, and what a command calls one",
        "cli/running/many.py": "that of several tables",
        "cli/errors.py": "how an error and its cause are told",
        "core/errors.py": "that of each error, and of its cause",
    },
}
"""What modules decide about changes. A new command is in none of these lists: its plan has the objections, its outcome
what was left undone (`build_partial_failure`), its wording what is a finding; the execution and the runner decide.
"""
MODULES = 15
_NAMES = {
    CONSENT: {"consent_to_command", "consent_to_plan", "_ask"},
    STALENESS: {
        *("require_same_log", "require_same_base_commit", "require_same_listed_commit", "require_valid_clock"),
        *("recheck_log", "require_unchanged_basis", "require_still_newest"),
    },
}
_CHECKS = set[str]().union(*_NAMES.values())
_EXITS = {"cause_exit", "first_exit_code"}


@cache
def _modules() -> dict[str, str]:
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py")}


def test_few_places_write_to_a_table_without_an_execution() -> None:
    found: dict[str, int] = {}
    for name, text in _modules().items():
        if name.startswith("changing/") or name == "table/handle.py":
            continue
        if count := len(re.findall(r"(?<!require_)writable\(\)", text)):
            room = "/".join(name.split("/")[: 2 if name.startswith("operations/") else 1])
            found[room] = found.get(room, 0) + count

    assert found == OTHER_WRITERS


@pytest.mark.halved
def test_only_named_modules_decide_about_consent_staleness_partial_failure_and_exit_codes() -> None:
    found: dict[str, set[str]] = defaultdict(set)
    words = re.compile("|".join({"PartlyDone", "run_change", *_EXITS}.union(*_NAMES.values())))
    for name, text in _modules().items():
        for what in _decided(ast.parse(text)) if words.search(text) else ():  # parsing all takes seconds
            found[what].add(name)

    assert {what: sorted(names) for what, names in DECIDES.items()} == {what: sorted(found[what]) for what in DECIDES}
    assert MODULES == len(set[str]().union(*DECIDES.values()))


@pytest.mark.parametrize(
    ("what", "text"),
    [
        (CONSENT, "from deltacli.changing.consent import consent_to_command"),
        (CONSENT, "from deltacli.cli.running.changing import _ask"),
        (STALENESS, "from deltacli.changing.rechecks import require_valid_clock"),
        (STALENESS, "from deltacli.changing import rechecks\nrechecks.require_same_log(plan.basis, listing)"),
        (STALENESS, "def recheck_log(basis):\n    return None"),
        (FAILURE, "raise PartlyDone('2 files are left')"),
        (FAILURE, "raise errors.PartlyDone.after(fault, 'so far')"),
        (FAILURE, "raise left(refusals, PartlyDone)"),
        (FAILURE, "class LeftUndone(PartlyDone): pass"),
        (FAILURE, "try:\n    run()\nexcept (OutcomeUnknown, PartlyDone):\n    raise"),
        (EXIT, "def x():\n    done = run_change(run)\n    if done.left:\n        raise Exit(1)"),
        (EXIT, "error.cause_exit = 4"),
        (EXIT, "Exit(many.first_exit_code(codes))"),
    ],
)
def test_a_module_that_decides_is_seen(what: str, text: str) -> None:
    assert [what] == sorted(set(_decided(ast.parse(text))))


def test_a_module_that_only_names_what_is_decided_elsewhere_is_not_seen() -> None:
    declared = """
from deltacli.changing.change import execute_change
from deltacli.changing.execution import ChangeExecution
from deltacli.changing.outcome import require_complete
from deltacli.cli.running.changing import Wording, confirmed, run_change
from deltacli.core.errors import PartlyDone

def told(fault: Refused | PartlyDone) -> None:
    run_change(run, table, change, wording, mode)
    return isinstance(fault, PartlyDone) and fault.exit_code == PartlyDone.exit_code
"""

    assert [] == list(_decided(ast.parse(declared)))


def _decided(module: ast.Module) -> Iterator[str]:
    """What a module decides, or has others decide: by the names that it defines, imports, calls or reads."""
    known = {id(part) for node in ast.walk(module) for part in _only_named(node)}
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield from (what for what in (CONSENT, STALENESS) if node.name in _NAMES[what])
    for part in ast.walk(module):
        match part:
            case ast.ImportFrom(str() as room, names) if room.startswith(
                ("deltacli.changing", "deltacli.cli.running.changing")
            ):
                used = {one.name for one in names}
                yield from (what for what in (CONSENT, STALENESS) if used & _NAMES[what])
            case ast.Attribute(ast.Name("rechecks" | "consent"), attr) if attr in _CHECKS:
                yield from (what for what in (CONSENT, STALENESS) if attr in _NAMES[what])
            case ast.Name("PartlyDone") | ast.Attribute(ast.Name(), "PartlyDone") if id(part) not in known:
                yield FAILURE
            case ast.Attribute(attr=name) | ast.AnnAssign(ast.Name(name)) | ast.FunctionDef(name) if name in _EXITS:
                yield EXIT
            case ast.FunctionDef() if _chooses_exit(part):
                yield EXIT


def _only_named(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what says PartlyDone without making one: types, questions, and its own exit code."""
    match node:
        case ast.arg(annotation=ast.AST() as kind) | ast.AnnAssign(annotation=kind):
            yield from ast.walk(kind)
        case ast.FunctionDef(returns=ast.AST() as kind):
            yield from ast.walk(kind)
        case ast.Call(ast.Name("isinstance"), [_, kind]):
            yield from ast.walk(kind)
        case ast.Attribute(value, "exit_code"):
            yield value


def _chooses_exit(function: ast.FunctionDef) -> bool:
    """Whether a function looks at what `run_change` returned, and raises Exit."""
    parts = [*ast.walk(function)]
    return any(
        isinstance(one, ast.Assign) and isinstance(one.value, ast.Call) and ast.unparse(one.value.func) == "run_change"
        for one in parts
    ) and any(isinstance(one, ast.Raise) and one.exc and ast.unparse(one.exc).startswith("Exit(") for one in parts)
