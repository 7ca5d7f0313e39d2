"""The modules of deltacli, carried by value to processes of Spark that get no archive of a session.

Such a process plans the batches of a stream, and on Connect, executors that run these get none either.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from deltacli.core.release import VERSION
from deltacli.rules.framework.base import CATALOGUE, RULES_OF_ADD

_NEEDED = (
    "deltacli.engine.spark.orjson_stand_in",
    "deltacli.spark.shares.read_share",
    "deltacli.spark.source_plans",
    "deltacli.spark.executor_rows",
    "deltacli.spark.source_plans",
)
"""The modules that the classes of the data source import; those of the rules that an append asks come by name."""
_PACKAGES = ("pyarrow", "fsspec", "botocore", "urllib3", "google", "azure")
"""The packages of others that they may import."""
_UNREAD = re.compile(r"^ *# .*$|  # (?:noqa|type: ignore|Any: ).*$", re.MULTILINE)
"""Comments: on lines of their own, and for tools."""


def _finder_class() -> Any:  # Any: a class that is made here
    class Finder:
        """Finds modules by their texts; a loader as well."""

        def __init__(self, texts: dict[str, str], digest: str) -> None:
            self.texts, self.deltacli_digest = texts, digest

        def find_spec(self, name: str, path: object = None, target: object = None) -> Any:  # Any: a ModuleSpec
            from importlib.util import spec_from_loader

            place = name.replace(".", "/")
            for file, is_package in ((f"{place}.py", False), (f"{place}/__init__.py", True)):
                if file in self.texts:
                    return spec_from_loader(name, self, origin=file, is_package=is_package)  # type: ignore[arg-type]
            if not name.startswith("deltacli."):
                return None
            # A process that was used for a data source may be used for a job of the engine next, whose archive has the
            # other modules. They are found next to ours, because ours have no directory.
            import sys
            from importlib.machinery import PathFinder

            parent = place.rpartition("/")[0]
            return PathFinder.find_spec(name, [f"{entry}/{parent}" for entry in sys.path if entry])

        def create_module(self, spec: object) -> None:
            return None

        def exec_module(self, module: Any) -> None:  # Any: a module
            exec(compile(self.texts[module.__spec__.origin], module.__spec__.origin, "exec"), module.__dict__)

        def get_source(self, name: str) -> str:
            return self.texts[self.find_spec(name).origin]  # for the lines of a traceback

    return Finder


def _last_finder_class() -> Any:  # Any: a class that is made here
    class LastFinder:
        """Is asked for packages that nothing else has found, and says what to do."""

        def __init__(self, packages: tuple[str, ...]) -> None:
            self.packages = packages

        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            import sys

            if name in self.packages and sys._getframe(2).f_code.co_name != "find_spec":  # which only asks
                raise ModuleNotFoundError(
                    f"[cluster.module] No module named '{name}' in the Python of this process of Spark, "
                    f"{sys.executable}; try: install {name} there, or set PYSPARK_PYTHON to a Python that has it "
                    "before Spark starts",
                    name=name,
                )

    return LastFinder


@cache
def carried_package() -> Any:  # Any: an object of a class that is made here
    """Return an object that has the modules, and that no process has to import a class for: it is pickled by value.

    Its method `make_importable` lets a process import the modules, from memory, and `load` imports one. They raise
    RuntimeError in a process that has imported other ones: Spark gives a process to several sessions.
    """
    finder_class, last_finder_class = _finder_class(), _last_finder_class()  # classes of this module would be imported

    packages = _PACKAGES

    class Carried:
        def __init__(self, content: bytes, packed_by: str, digest: str, version: str) -> None:
            self.content, self.packed_by, self.digest, self.version = content, packed_by, digest, version

        def make_importable(self) -> None:
            import json
            import sys
            from importlib import import_module

            found = next((finder for finder in sys.meta_path if hasattr(finder, "deltacli_digest")), None)
            if found is None:
                content = import_module(self.packed_by).decompress(self.content)
                found = finder_class(json.loads(content), self.digest)
                sys.meta_path.insert(0, found)
                sys.meta_path.append(last_finder_class(packages))
            from deltacli.core.release import VERSION  # of another version, if it was imported before
            from deltacli.engine.spark import orjson_stand_in

            if (found.deltacli_digest, VERSION) != (self.digest, self.version):
                raise RuntimeError(
                    f"[cluster.other-version] a process of Spark has imported other modules of deltacli ({VERSION}) "
                    f"than this session sends ({self.version}); try: restart Spark, or its Connect server"
                )
            orjson_stand_in.install()  # before a module is imported that needs orjson

        def load(self, name: str) -> Any:  # Any: a module
            from importlib import import_module

            self.make_importable()
            return import_module(name)

    content = json.dumps(dict(sorted(_texts()))).encode()
    packer = import_module("bz2" if find_spec("_bz2") else "zlib")  # a Python that was built without bz2 has zlib
    return Carried(packer.compress(content), packer.__name__, sha256(content).hexdigest(), VERSION)


def _texts() -> Iterator[tuple[str, str]]:
    """Yield the paths and the texts of the needed modules, and of all that they import: less than a third of deltacli,
    because Spark sends them with every job, and warns of a megabyte.
    """
    seen, waiting = set[str](), [*_NEEDED, *(f"{CATALOGUE.package}.{name}" for name in RULES_OF_ADD)]
    while waiting:
        name = waiting.pop()
        parent = name.rpartition(".")[0]
        if name in seen:
            continue
        seen.add(name)
        spec = find_spec(name) if not parent or _is_package(parent) else None
        if spec is None or spec.loader is None:
            continue  # a class or a function of a module
        text = spec.loader.get_source(name)  # type: ignore[attr-defined]
        ending = ".py" if spec.submodule_search_locations is None else "/__init__.py"
        tree = ast.parse(text)
        yield name.replace(".", "/") + ending, _without_docstrings(text, tree)
        waiting += [parent] if parent else []
        waiting += _imported(tree)


def _without_docstrings(text: str, tree: ast.AST) -> str:
    """Return the text without docstrings, most comments and the texts of rules; lines keep their places."""
    lines = text.splitlines()
    for node in ast.walk(tree):
        match node:
            case ast.Expr(ast.Constant(str()) as unread) | ast.keyword(
                "broken" | "repair" | "loss" | "example" | "spec", ast.Constant(str()) as unread
            ):
                first, last = unread.lineno - 1, (unread.end_lineno or 0) - 1
                before, after = (
                    lines[first].encode()[: unread.col_offset],
                    lines[last].encode()[unread.end_col_offset :],
                )
                lines[first : last + 1] = [before.decode() + '""' + after.decode(), *[""] * (last - first)]
    return _UNREAD.sub("", "\n".join(lines) + "\n")


def _is_package(name: str) -> bool:
    spec = find_spec(name)
    return spec is not None and spec.submodule_search_locations is not None


def _imported(tree: ast.AST) -> Iterator[str]:
    """Yield what a module of ours may import of ours when it runs, also in functions: not what types alone need."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.Import(names):
                yield from (alias.name for alias in names if alias.name.partition(".")[0] == "deltacli")
            case ast.ImportFrom(str() as module, names) if module.partition(".")[0] == "deltacli":
                yield module
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.If(ast.Name("TYPE_CHECKING")):
                pass
            case _:
                yield from _imported(node)
