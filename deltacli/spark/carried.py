"""The modules of deltacli, carried by value to processes of Spark that get no archive of a session.

Such a process plans the batches of a stream, and on Connect, executors that run these get none either.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any

from deltacli.engine.spark.package import write_package


@cache
def carried_package() -> Any:  # Any: an object of a class that is made here
    """Return an object that has the modules, and that no process has to import a class for: it is pickled by value.

    Its method `make_importable` lets a process import the modules, from memory, unless it has imported deltacli.
    """
    with TemporaryDirectory() as place, zipfile.ZipFile(write_package(place)) as opened:
        texts = {name: opened.read(name).decode() for name in opened.namelist() if name.endswith(".py")}

    class Finder:
        """Finds modules by their texts; a loader as well."""

        def __init__(self, texts: dict[str, str]) -> None:
            self.texts = texts

        def find_spec(self, name: str, path: object = None, target: object = None) -> Any:  # Any: a ModuleSpec
            from importlib.util import spec_from_loader

            place = name.replace(".", "/")
            for file, is_package in ((f"{place}.py", False), (f"{place}/__init__.py", True)):
                if file in self.texts:
                    return spec_from_loader(name, self, origin=file, is_package=is_package)  # type: ignore[arg-type]
            return None

        def create_module(self, spec: object) -> None:
            return None

        def exec_module(self, module: Any) -> None:  # Any: a module
            exec(compile(self.texts[module.__spec__.origin], module.__spec__.origin, "exec"), module.__dict__)

        def get_source(self, name: str) -> str:
            return self.texts[self.find_spec(name).origin]  # for the lines of a traceback

    class Carried:
        def __init__(self, content: bytes) -> None:
            self.content = content

        def make_importable(self) -> None:
            import json
            import sys
            import zlib

            if "deltacli" not in sys.modules:
                sys.meta_path.insert(0, Finder(json.loads(zlib.decompress(self.content))))
            from deltacli.engine.spark import orjson_stand_in

            orjson_stand_in.install()  # before a module is imported that needs orjson

    return Carried(zlib.compress(json.dumps(texts).encode()))
