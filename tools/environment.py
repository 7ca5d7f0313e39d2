"""Find the environment variables that the code reads, and explain them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from deltacli.cli.described_commands import DescribedCommand
from deltacli.cli.help.all_commands import find_variables

_SOURCE = Path(__file__).resolve().parent.parent / "deltacli"
_READERS = ("get", "getenv", "setdefault", "pop")
_OURS = re.compile(r"DELTACLI_[A-Z_]+")
_MENTIONS = re.compile(r"environ|getenv|get_terminal_size|DELTACLI_")
"""What a module has in its text if it reads a variable."""

MEANINGS = {
    "ARROW_DEFAULT_MEMORY_POOL": "the allocator of Arrow. Default on Linux: `jemalloc`, or `system` if "
    "`ulimit -v` is below 4 GiB",
    "CLASSPATH": "the classes of Hadoop for Java; `hdfs://` needs it",
    "CLOUDSDK_CONFIG": "the directory of the configuration of gcloud, as in other clients of Google Cloud",
    "CLICOLOR": "`0`: no colour on a terminal either, unless forced",
    "CLICOLOR_FORCE": "if not empty and not `0`: colour also through a pipe, as with `--color always`",
    "COLUMNS": "the width of the terminal, instead of the detected one; 100 where colour is forced into a pipe",
    "DATABRICKS_CLIENT_ID": "the client of OAuth for `DATABRICKS_HOST`, with `DATABRICKS_CLIENT_SECRET`",
    "DATABRICKS_CLIENT_SECRET": "its secret",
    "DATABRICKS_HOST": "the workspace whose Unity Catalog has the tables `uc://…`, as in other clients of Databricks",
    "DATABRICKS_TOKEN": "the token for `DATABRICKS_HOST`",
    "DELTACLI_PAGER": "the program that shows long results on a terminal; overrides `PAGER`; empty or `cat`: no pager",
    "FORCE_COLOR": "the same as `CLICOLOR_FORCE`",
    "GCE_METADATA_IP": "the metadata server of machines of Google Cloud, as in its other clients",
    "GCE_METADATA_TIMEOUT": "seconds to wait for an answer of that server; 1 by default",
    "LANG": "the locale; on a terminal, boxes and bars are in ASCII if it is not UTF-8",
    "LC_ALL": "the locale; overrides `LC_CTYPE` and `LANG`",
    "LC_CTYPE": "the locale of characters; overrides `LANG`",
    "LESS": "options of the pager `less`; if not set, deltacli chooses them",
    "JAVA_HOME": "the Java that Spark starts for `--master`",
    "MASTER": "the Spark master for `--engine spark`, as in other programs of Spark",
    "NO_COLOR": "if not empty: no colour. The first of these that is set decides: `--color`, `DELTACLI_COLOR`, `color` "
    "of the configuration, `NO_COLOR`, `CLICOLOR_FORCE` or `FORCE_COLOR`, `CLICOLOR=0` or `TERM=dumb`; without any, a "
    "terminal has colour and a pipe has none",
    "NO_GCE_CHECK": "`true`: the metadata server of Google Cloud is not looked for, as in its other clients",
    "PAGER": "the program that shows long results on a terminal",
    "PYSPARK_GATEWAY_PORT": "set by `spark-submit`: `--engine spark` uses the driver that it has started",
    "PYSPARK_PYTHON": "the Python of executors, as in PySpark; for `--master local[N]` by default the one of deltacli",
    "SPARK_HOME": "the installation of Spark, instead of the one that PySpark brings",
    "SPARK_LOCAL_IP": "the address of the driver, as in Spark; for `--master local[N]` by default 127.0.0.1",
    "SPARK_REMOTE": "the Spark Connect server for `--engine spark`, as in other programs of Spark",
    "STORAGE_EMULATOR_HOST": "the endpoint of `gs://`, as in other clients of Google Cloud",
    "TERM": "`dumb`: no colour unless forced, no pager, and no progress unless requested",
    "UC_ENDPOINT": "the server of Unity Catalog that has the tables `uc://…`, where `DATABRICKS_HOST` is not set",
    "UC_TOKEN": "the token for `UC_ENDPOINT`; none where the server asks for none",
}
"""Meanings of variables that are more than the default of an option. Only those that the code reads are used."""


CLOUDS = {
    "AWS_": "credentials, profile, region and endpoint of S3, as in other S3 clients",
    "AZURE_": "credentials and account of Azure, as in other Azure clients",
    "GOOGLE_": "credentials and project of Google Cloud, as in its other clients",
}
"""Variables of the stores, which their libraries read, whether our code does or not."""


def read_environment(root: DescribedCommand) -> dict[str, str]:
    """Return each variable with its meaning, those of the stores last.

    Raises SystemExit if the code reads a variable that has no meaning here.
    """
    defaults = {
        variable: option for command in root.walk() for option in command.options for variable in find_variables(option)
    }
    found = {}
    for name in sorted({*_read_names(), *(option.variable for option in defaults.values() if option.variable)}):
        if name.startswith(tuple(CLOUDS)):
            continue
        if name in MEANINGS:
            found[name] = MEANINGS[name]
        elif name in defaults:
            found[name] = f"default of `{max(defaults[name].spellings, key=len)}`"
        else:
            raise SystemExit(f"error: the code reads {name}: explain it in MEANINGS of tools/environment.py")
    return found | {f"{prefix}…": meaning for prefix, meaning in CLOUDS.items()}


def _read_names() -> Iterator[str]:
    """Yield the names that are read from os.environ, every word that looks like one of ours, and those of libraries."""
    for path in sorted(_SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if _MENTIONS.search(text) else ():  # parsing all takes seconds
            match node:
                case ast.Call(func=ast.Attribute(value=holder, attr=reader), args=[ast.Constant(value=str(name)), *_]):
                    if reader == "getenv" or (reader in _READERS and _is_environment(holder)):
                        yield name
                case ast.Subscript(value=holder, slice=ast.Constant(value=str(name))) if _is_environment(holder):
                    yield name
                case ast.Compare(left=ast.Constant(value=str(name)), comparators=[holder]) if _is_environment(holder):
                    yield name
                case ast.Attribute(attr="get_terminal_size", value=ast.Name(id="shutil")):
                    yield "COLUMNS"
                case ast.Constant(value=str(name)) if _OURS.fullmatch(name):
                    yield name


def _is_environment(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute | ast.Name) and ast.unparse(node) in ("os.environ", "environ", "environment")
