"""The stand-in for orjson on executors, compared with orjson, and the packages that tasks need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.engine.spark import orjson_stand_in
from deltacli.engine.spark.package_archive import write_package

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)

_TEXTS = [
    b'{"a":1}',
    b"NaN",
    b'"\\ud800"',
    b'"\\ud83d\\ude00"',
    b"123456789012345678901234",
    b"-0",
    b'{"a":1,"a":2}',
    b"",
]
_TEXTS += [
    b"[1,]",
    b'"\xff"',
    b"1e400",
    b"-9223372036854775809",
    b"18446744073709551615",
    b'"\\u0000\\n"',
    b"\xef\xbb\xbf1",
]


def _outcome(module: Any, data: bytes) -> object:
    try:
        return module.loads(data)
    except module.JSONDecodeError:
        return "refused"


@given(_VALUES)
def test_values_are_written_as_by_orjson(value: object) -> None:
    written = orjson_stand_in.dumps(value)

    assert orjson.dumps(value) == written
    assert value == orjson_stand_in.loads(written)


@pytest.mark.parametrize("data", _TEXTS)
def test_texts_are_read_or_refused_as_by_orjson(data: bytes) -> None:
    assert repr(_outcome(orjson, data)) == repr(_outcome(orjson_stand_in, data))


@pytest.mark.halved
def test_tasks_need_pyarrow_and_the_standard_library_only(tmp_path: Path) -> None:
    script = f"""
import sys, sysconfig, pkgutil
sys.path[:] = [{str(write_package(tmp_path))!r}, *sys.path]
allowed = {{"pyarrow", "deltacli", "numpy", "pandas"}}
class OnlyPyarrow:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in allowed and top not in sys.stdlib_module_names and not top.startswith(("__", "_sysconfigdata")):
            raise ImportError(f"{{name}} is imported", name=name)
sys.meta_path.insert(0, OnlyPyarrow())
import deltacli.engine.spark.worker, deltacli.work
assert ".zip" in deltacli.__file__, deltacli.__file__
for module in pkgutil.walk_packages(deltacli.work.__path__, "deltacli.work."):
    if module.name not in ("deltacli.work.rows.row_conditions",):
        __import__(module.name)
"""
    done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, check=False, cwd=tmp_path)

    assert 0 == done.returncode, done.stderr.decode()[-2_000:]
