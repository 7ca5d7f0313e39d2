"""Run in the environment of a client: `python probe.py CLIENT`, then one task per line of stdin.

A task `{"path", "to"}` reads the newest version of a table into an Arrow file, `{"path", "append"}` appends the rows of
an Arrow file to it. A line of stdout answers each: `{}`, or `{"refused": "…"}` with the words of the client. Where a
client answers with a frame of pandas, its columns get the types of the Arrow file `like`.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import re
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

Table = Any  # pa.Table, which has no types
Frame = Any  # of pandas, which only some environments have
NOT_CONVERTED = "not converted: "
"""How the refusal begins where it is not the client's: its rows could not be compared."""


class Client(NamedTuple):
    """A client: how it reads a table, and how it appends rows to one (None: it cannot)."""

    read: Callable[[str], Table | Frame]
    append: Callable[[str, Table], object] | None


def _deltalake() -> Client:
    import deltalake

    def read(path: str) -> Table:
        table = deltalake.DeltaTable(path)
        return pa.table(deltalake.QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all())

    return Client(read, lambda path, rows: deltalake.write_deltalake(path, rows, mode="append"))


def _polars() -> Client:
    import polars

    def read(path: str) -> Table:
        return polars.scan_delta(path).collect().to_arrow()

    return Client(read, lambda path, rows: polars.from_arrow(rows).write_delta(path, mode="append"))


def _duckdb() -> Client:
    import duckdb

    package = find_spec("duckdb_extension_delta")
    assert package is not None
    assert package.origin is not None
    extension = Path(package.origin).parent / "extensions" / f"v{duckdb.__version__}" / "delta.duckdb_extension"
    offline = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    connection = duckdb.connect(config=offline)
    connection.execute(f"LOAD {_quoted(str(extension))}")
    connection.execute("SET TimeZone='UTC'")

    def read(path: str) -> Table:
        return connection.execute(f"SELECT * FROM delta_scan({_quoted(path)})").to_arrow_table()

    def append(path: str, rows: Table) -> None:
        connection.execute(f"ATTACH {_quoted(path)} AS t (TYPE delta)")
        try:
            connection.register("rows_to_append", rows)
            connection.execute("INSERT INTO t SELECT * FROM rows_to_append")
        finally:
            connection.execute("DETACH t")

    return Client(read, append)


def _chdb() -> Client:
    import chdb

    def read(path: str) -> Table:
        found = chdb.query(f"SELECT * FROM deltaLakeLocal({_quoted(path)})", "ArrowStream")
        with pa.ipc.open_stream(found.bytes()) as stream:
            return stream.read_all()

    def append(path: str, rows: Table) -> None:
        source = f"{path}.rows.arrow"
        with pa.OSFile(source, "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows)
        chdb.query(
            f"INSERT INTO FUNCTION deltaLakeLocal({_quoted(path)}) SELECT * FROM file({_quoted(source)}, Arrow)"
            " SETTINGS allow_experimental_delta_lake_writes = 1"
        )

    return Client(read, append)


def _delta_sharing() -> Client:
    import delta_sharing

    return Client(delta_sharing.load_as_pandas, None)


def _spark() -> Client:
    java_clients = _import_java_clients()
    client = java_clients.SparkClient()
    return Client(client.read, client.append)


def _kernel() -> Client:
    java_clients = _import_java_clients()
    client = java_clients.KernelClient()
    return Client(client.read, client.append)


def _import_java_clients() -> Any:  # Any: a module
    """Return `java_clients`, which stands on the tests of this repository: this program is run by its path."""
    sys.path[:0] = [str(Path(__file__).resolve().parents[2])]
    return importlib.import_module("tools.clients.java_clients")


CLIENTS: dict[str, tuple[str, Callable[[], Client]]] = {
    "deltalake": ("deltalake", _deltalake),
    "duckdb": ("duckdb", _duckdb),
    "polars": ("polars", _polars),
    "chdb": ("chdb", _chdb),
    "delta-sharing": ("delta-sharing", _delta_sharing),
    "spark": ("io.delta:delta-spark", _spark),
    "kernel": ("io.delta:delta-kernel-defaults", _kernel),
}
"""Name -> the package whose version counts, of Python or of Java, and what makes the client."""


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def _converted(frame: Frame, like: str) -> Table:
    """Return a frame as a table. pandas has floats for integers with nulls, and lists for maps."""
    with pa.OSFile(like) as source, pa.ipc.open_file(source) as opened:
        types = {field.name: field.type for field in opened.schema}
    return pa.table({name: pa.Array.from_pandas(frame[name], type=types.get(name)) for name in frame.columns})


def _answer(client: Client, task: dict[str, str]) -> dict[str, str]:
    try:
        if "append" in task:
            if client.append is None:
                return {"refused": "it does not write"}
            with pa.OSFile(task["append"]) as source, pa.ipc.open_file(source) as opened:
                client.append(task["path"], opened.read_all())
        else:
            found = client.read(task["path"])
            if not isinstance(found, pa.Table):
                try:
                    found = _converted(found, task["like"])
                except Exception as fault:  # noqa: BLE001  (whatever it is, it is not the client's)
                    return {"refused": f"{NOT_CONVERTED}{fault}"[:2000]}
            with pa.OSFile(task["to"], "wb") as sink, pa.ipc.new_file(sink, found.schema) as writer:
                writer.write_table(found)
    except BaseException as fault:  # noqa: BLE001  (whatever it is, a panic too, it is the client's answer)
        return {"refused": f"{type(fault).__name__}: {fault}"[:2000]}
    return {}


def version_of(package: str) -> str:
    """Return the version of a package: of this environment, or of the pom that pins the Java clients."""
    group, is_java, artifact = package.partition(":")
    if not is_java:
        return importlib.metadata.version(package)
    pom = Path(__file__).resolve().parents[2] / "tests" / "judges" / "pom.xml"
    pattern = rf"<groupId>{group}</groupId>\s*<artifactId>{artifact}[^<]*</artifactId>\s*<version>([^<]+)</version>"
    match = re.search(pattern, pom.read_text("utf-8"))
    assert match is not None, package
    return match[1]


def main(name: str) -> None:
    """Answer all tasks; the first line is the version of the client."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)  # what a client itself prints goes to stderr
    os.dup2(2, 1)
    package, make = CLIENTS[name]
    answers.write(json.dumps({"client": name, "version": version_of(package)}) + "\n")
    client = make()
    for line in sys.stdin:
        answers.write(json.dumps(_answer(client, json.loads(line))) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
