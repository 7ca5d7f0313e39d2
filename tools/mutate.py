"""Flip comparisons one at a time and run the tests that execute them. A surviving mutant is not covered by any test.

`python -m tools.mutate [PATH…]` mutates the modules of `TARGETS`, or the given ones. Survivors that change no visible
behaviour are listed with their reason in `tools/survivors.toml`. Any other survivor is an error, and so is an entry
that no longer survives. Tests are collected and run once, to record which lines each one executes. Each mutant is then
a fork of that process, with the code of the changed function replaced, which runs the affected tests until one fails.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import gc
import os
import resource
import signal
import sys
import threading
import time
import tomllib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

import pytest
from _pytest.runner import runtestprotocol

ROOT = Path(__file__).resolve().parent.parent
SURVIVORS = ROOT / "tools" / "survivors.toml"
TARGETS = (
    "deltacli/rules",
    "deltacli/rules/log/commit_lines.py",
    "deltacli/rules/framework/known_files.py",
    "deltacli/delta/encoding/many_values.py",
    "deltacli/delta/stats/columns.py",
    "deltacli/delta/checkpoint/comparison.py",
    "deltacli/delta/schema/type_changes.py",
    "deltacli/delta/sql",
)
TESTS = (
    "tests/rules",
    "tests/delta",
    "tests/operations/test_validate.py",
    "tests/operations/test_validate_walk.py",
    "tests/property/test_known_files.py",
)

_FLIPS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.GtE, ast.LtE),
    ast.LtE: (ast.Gt, ast.Lt),
    ast.Gt: (ast.LtE, ast.GtE),
    ast.GtE: (ast.Lt, ast.Gt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_COLUMN_FLIPS = {
    "equal": ("not_equal",),
    "not_equal": ("equal",),
    "less": ("greater_equal", "less_equal"),
    "less_equal": ("greater", "less"),
    "greater": ("less_equal", "greater_equal"),
    "greater_equal": ("less", "greater"),
    "is_null": ("is_valid",),
    "is_valid": ("is_null",),
}
_SECONDS_A_TEST = 30
_MOST_TESTS = 300  # for a listed mutant: an expected survivor need not run every test each time
_MEMORY_A_MUTANT = 6 << 30


class Mutant(NamedTuple):
    """One comparison, changed."""

    path: Path
    function: str
    line: int
    last_line: int
    before: str
    after: str
    code: CodeType

    @property
    def name(self) -> str:
        """Return its name in `survivors.toml`, without a line number, so that edits elsewhere do not change it."""
        return f"{self.path.relative_to(ROOT)}:{self.function}: {self.before} -> {self.after}"


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Yield each flip of each comparison in the functions of a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node, function in _walk(tree, ""):
        if not function:
            continue
        for before, after in _flips(node):
            with _changed(node, after):
                code = compile(tree, str(path), "exec")
                text = ast.unparse(node)
            yield Mutant(path, function, node.lineno, node.end_lineno or node.lineno, before, text, code)


def _walk(node: ast.AST, function: str) -> Iterator[tuple[Any, str]]:  # Any: a node that has lines
    for child in ast.iter_child_nodes(node):
        inner = function
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            inner = f"{function}.{child.name}" if function else child.name
            if isinstance(child, ast.ClassDef) and not function:
                yield from ((found, where) for found, where in _walk(child, child.name) if where != child.name)
                continue
        elif isinstance(child, ast.Lambda) and not function:
            inner = "lambda"
        if isinstance(child, ast.Compare | ast.Call):
            yield child, function
        yield from _walk(child, inner)


def _flips(node: ast.Compare | ast.Call) -> Iterator[tuple[str, Any]]:  # Any: the new operators, or a name
    text = ast.unparse(node)
    if isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            for flipped in _FLIPS[type(operator)]:
                yield text, [*node.ops[:index], flipped(), *node.ops[index + 1 :]]
    elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) and node.func.value.id == "pc":
        for name in _COLUMN_FLIPS.get(node.func.attr, ()):
            yield text, name


@contextlib.contextmanager
def _changed(node: Any, after: Any) -> Iterator[None]:  # Any: a comparison and its operators, or a call and its name
    target, field = (node, "ops") if isinstance(node, ast.Compare) else (node.func, "attr")
    before = getattr(target, field)
    setattr(target, field, after)
    yield
    setattr(target, field, before)


class Proof:
    """A pytest plugin that runs the tests once and then on each mutant."""

    def __init__(self, paths: Sequence[Path], workers: int, explained: Collection[str] = ()) -> None:
        self.survivors: list[Mutant] = []
        self.tried = 0
        self.failed: list[str] = []
        self._paths = paths
        self._workers = workers
        self._explained = explained
        self._passes: dict[tuple[str, int], set[int]] = defaultdict(set)
        self._seconds: list[float] = []
        self._rarities: dict[str, Mapping[int, float]] = {}
        self._kills: dict[tuple[Path, int], int] = defaultdict(int)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run every test once with tracing, then every mutant."""
        for index, item in enumerate(session.items):
            following = session.items[index + 1] if index + 1 < len(session.items) else None
            begun = time.monotonic()
            with self._traced(index):
                reports = runtestprotocol(item, nextitem=following, log=False)
            self._seconds.append(time.monotonic() - begun)
            if any(report.failed for report in reports):
                self.failed.append(item.nodeid)
        if not self.failed:
            self._try_all(session.items)
        return True

    @contextlib.contextmanager
    def _traced(self, index: int) -> Iterator[None]:
        names = {str(path) for path in self._paths}
        passes = self._passes

        def on_call(frame: FrameType, _event: str, _: object) -> Any:  # Any: a trace function
            return on_line if frame.f_code.co_filename in names else None

        def on_line(frame: FrameType, _event: str, _: object) -> Any:  # Any: a trace function
            passes[frame.f_code.co_filename, frame.f_lineno].add(index)
            return on_line

        threading.settrace(on_call)
        sys.settrace(on_call)
        yield
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]

    def _try_all(self, items: Sequence[pytest.Item]) -> None:
        running: dict[int, tuple[Mutant, int]] = {}
        functions, caches = _functions(self._paths), _caches()
        gc.freeze()  # hides all of them from `gc.get_objects`
        for mutant in (mutant for path in self._paths for mutant in mutants_of(path)):
            tests = self._tests_of(mutant)
            reader, writer = os.pipe()
            child = os.fork()
            if child == 0:
                os._exit(_run_mutant(mutant, functions, caches, items, tests, writer))
            os.close(writer)
            running[child] = (mutant, reader)
            self.tried += 1
            if len(running) >= self._workers:
                self._wait(running)
        while running:
            self._wait(running)

    def _tests_of(self, mutant: Mutant) -> list[int]:
        """Return the tests that execute its lines, most promising first.

        Tests that killed other mutants of the module come first, then tests that execute rarely executed lines of it.
        Fast tests follow.
        """
        lines = range(mutant.line, mutant.last_line + 1)
        found = set().union(*(self._passes.get((str(mutant.path), line), ()) for line in lines))
        rarity = self._rarity(str(mutant.path))
        ordered = sorted(found, key=lambda test: (-self._kills[mutant.path, test], -rarity[test], self._seconds[test]))
        if mutant.name in self._explained:
            return ordered[:_MOST_TESTS]
        quick = sorted(found, key=lambda test: self._seconds[test])
        return list(dict.fromkeys([*ordered[:_MOST_TESTS], *quick[:_MOST_TESTS], *ordered]))

    def _rarity(self, path: str) -> Mapping[int, float]:
        """Return how much of a module each test executes. Lines that few tests execute count most."""
        if path not in self._rarities:
            found: dict[int, float] = defaultdict(float)
            for (module, _), tests in self._passes.items():
                for test in tests if module == path else ():
                    found[test] += 1 / len(tests) ** 2
            self._rarities[path] = found
        return self._rarities[path]

    def _wait(self, running: dict[int, tuple[Mutant, int]]) -> None:
        child, status = os.wait()
        mutant, reader = running.pop(child)
        with os.fdopen(reader) as told:
            killer = told.read()
        if status == 0:
            self.survivors.append(mutant)
            print(f"survived  {mutant.path.relative_to(ROOT)}:{mutant.line} {mutant.name.split(':', 1)[1]}", flush=True)
        elif killer:
            self._kills[mutant.path, int(killer)] += 1


def _functions(paths: Iterable[Path]) -> dict[tuple[str, str, int], list[FunctionType]]:
    names = {str(path) for path in paths}
    found: dict[tuple[str, str, int], list[FunctionType]] = defaultdict(list)
    for thing in gc.get_objects():
        if type(thing) is FunctionType and thing.__code__.co_filename in names:
            code = thing.__code__
            found[code.co_filename, code.co_qualname, code.co_firstlineno].append(thing)
    return found


def _caches() -> list[functools._lru_cache_wrapper[Any]]:  # Any: whatever is remembered
    found = [thing for thing in gc.get_objects() if isinstance(thing, functools._lru_cache_wrapper)]
    return [cache for cache in found if str(cache.__module__).startswith("deltacli")]


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _codes(value)


def _run_mutant(
    mutant: Mutant,
    functions: dict[tuple[str, str, int], list[FunctionType]],
    caches: Iterable[functools._lru_cache_wrapper[Any]],  # Any: whatever is remembered
    items: Sequence[pytest.Item],
    tests: Sequence[int],
    told: int,
) -> int:
    """Run tests in the child process and return 0 if all of them pass."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_A_MUTANT, _MEMORY_A_MUTANT))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    for code in _codes(mutant.code):
        for function in functions.get((code.co_filename, code.co_qualname, code.co_firstlineno), ()):
            function.__code__ = code
    for cache in caches:
        cache.cache_clear()
    for position, index in enumerate(tests):
        following = items[tests[position + 1]] if position + 1 < len(tests) else None
        signal.alarm(_SECONDS_A_TEST)
        if any(report.failed for report in runtestprotocol(items[index], nextitem=following, log=False)):
            os.write(told, str(index).encode())
            return 1
    return 0


def main(arguments: Sequence[str]) -> int:
    """Run the mutants of modules and return 1 if one survives without a listed reason."""
    chosen = [ROOT / name for name in arguments or TARGETS]
    paths = sorted({path for one in chosen for path in (one.glob("*.py") if one.is_dir() else [one])})
    explained = _explained({str(path.relative_to(ROOT)) for path in paths})
    proof = Proof(paths, os.cpu_count() or 1, explained.keys())
    os.chdir(ROOT)
    options = ["-q", "-p", "no:randomly", "-p", "no:xdist", "-p", "no:cacheprovider", "--no-header", "--no-summary"]
    pytest.main([*options, *TESTS], plugins=[proof])
    for name in proof.failed:
        print(f"fails as it is: {name}")
    survived = {mutant.name for mutant in proof.survivors}
    unexplained, dead = sorted(survived - explained.keys()), sorted(explained.keys() - survived)
    print(f"{proof.tried} mutants, {len(survived)} survived, {len(survived & explained.keys())} of them explained")
    for name in unexplained:
        print(f"unexplained: {name}")
    for name in dead:
        print(f"explained, but no longer there or no longer alive: {name}")
    return 1 if proof.failed or unexplained or dead or not proof.tried else 0


def _explained(modules: set[str]) -> dict[str, str]:
    """Return the listed survivors of these modules with their reasons."""
    if not SURVIVORS.exists():
        return {}
    listed = tomllib.loads(SURVIVORS.read_text(encoding="utf-8"))
    return {
        f"{module}:{entry['flip']}": entry["why"]
        for module, entries in listed.items()
        if module in modules
        for entry in entries
    }


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
