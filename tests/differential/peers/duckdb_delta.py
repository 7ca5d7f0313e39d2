"""duckdb with its delta extension, loaded from the package that ships it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb

_OFFLINE = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}


def connect() -> Any:  # Any: duckdb has no types here
    """A connection that reads Delta tables, and fetches nothing from anywhere."""
    package = find_spec("duckdb_extension_delta")
    assert package is not None
    assert package.origin is not None
    extension = Path(package.origin).parent / "extensions" / f"v{duckdb.__version__}" / "delta.duckdb_extension"
    connection = duckdb.connect(config=_OFFLINE)
    connection.execute("LOAD '" + str(extension).replace("'", "''") + "'")
    return connection
