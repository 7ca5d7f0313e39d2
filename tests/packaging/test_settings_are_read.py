"""Every setting of a configuration is read by code that runs: with a parser alone, a setting has no effect."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import deltacli
from deltacli.cli.options.configuration import _KEYS, Variable
from deltacli.fleet.policy_file import model
from deltacli.sharing.client import faults as guards
from deltacli.sharing.configuration import secrets as profiles
from deltacli.sharing.configuration import settings

ROOT = Path(deltacli.__file__).parent
PARSERS = {
    settings: ("sharing/configuration/settings.py", "sharing/configuration/server_settings.py"),
    profiles: ("sharing/configuration/secrets.py",),
    guards: ("sharing/client/faults.py",),
    model: ("fleet/policy_file/",),
}
"""The modules whose classes have the settings -> the packages and modules that only parse them."""


@dataclass
class Code:
    """The attributes that functions read, and all names in them, by module and outermost function."""

    reads: dict[str, set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))
    names: dict[str, set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))
    keys: set[str] = field(default_factory=set)
    """What is looked up in something named `settings`."""

    def is_read(self, name: str, parsers: tuple[str, ...] = ()) -> bool:
        """Return True if a function outside the parsers reads an attribute, and other code names that function."""
        readers = {place for place in self.reads[name] if not place[0].startswith(parsers)}
        return any(not function or self.names[function] - {(module, function)} for module, function in readers)


@cache
def _code(root: Path = ROOT) -> Code:
    found = Code()
    for path in (path for part in ("sharing", "fleet", "cli") for path in (root / part).rglob("*.py")):
        module = str(path.relative_to(root))
        for function, node in _nodes(ast.parse(path.read_text())):
            if not isinstance(node, ast.Attribute | ast.Name | ast.Constant | ast.Call):
                continue
            place = module, function
            match node:
                case ast.Attribute(attr=name, ctx=ast.Load()):
                    found.reads[name].add(place)
                    found.names[name].add(place)
                case ast.Name(id=name) | ast.Constant(value=str(name)):
                    found.names[name].add(place)
                case ast.Call(
                    func=ast.Attribute(ast.Name("settings") | ast.Attribute(ast.Name("settings"), "values"), "get"),
                    args=[ast.Constant(value=str(key)), *_],
                ):
                    found.keys.add(key)
                case ast.Call(func=ast.Name("get_configured_choice"), args=[_, ast.Attribute(attr=variable), *_]):
                    found.keys.add(variable.lower())
    return found


def _nodes(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield all nodes with the function that they are in; '' for those that are called by others by their decorator
    or by Python.
    """
    left = [(tree, "")]
    while left:
        node, function = left.pop()
        for child in ast.iter_child_nodes(node):
            inside = function
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and not function:
                inside = "" if child.decorator_list or child.name.startswith("__") else child.name
            left.append((child, inside))
            yield inside, child


def _settings_of(module: Any) -> list[str]:  # Any: a module
    classes = [kind for kind in vars(module).values() if isinstance(kind, type) and kind.__module__ == module.__name__]
    fields = [(kind.__name__, name) for kind in classes for name in getattr(kind, "__annotations__", {})]
    return [f"{kind}.{name}" for kind, name in fields if not name.startswith("_")]


@pytest.mark.parametrize("module", PARSERS, ids=lambda module: module.__name__)
def test_every_setting_of_a_configuration_is_read_by_code_that_runs(module: Any) -> None:  # Any: a module
    known = _settings_of(module)

    unread = [name for name in known if not _code().is_read(name.rpartition(".")[2], PARSERS[module])]

    assert known
    assert [] == unread


def test_every_key_of_the_configuration_file_and_every_variable_is_read() -> None:
    code = _code()

    assert set() == _KEYS - code.keys
    assert [] == [name for name in Variable.__members__ if not code.is_read(name)]


def test_a_setting_that_only_a_parser_or_a_function_without_callers_reads_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "sharing").mkdir()
    lines = [
        "def unused(limits): return limits.depth",
        "def used(limits): return limits.size",
        "def main(limits): return used(limits)",
        "MAIN = main",
    ]
    (tmp_path / "sharing/a.py").write_text("\n".join(lines))
    (tmp_path / "sharing/parser.py").write_text("def parse(limits): return limits.rate\nparse(None)")

    found = [_code(tmp_path).is_read(name, ("sharing/parser.py",)) for name in ("depth", "size", "rate")]

    assert [False, True, False] == found
