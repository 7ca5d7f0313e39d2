"""Names of tables for people, and names of files that belong to a table: the same in every run, and different for any
two tables.
"""

from __future__ import annotations

import os
from hashlib import sha256
from urllib.parse import unquote_to_bytes

from deltacli.storage.local import local_uri


def table_digest(table: str) -> str:
    """Return a digest of the name of a table, as 16 hexadecimal digits."""
    return sha256(table.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def table_file_name(table: str) -> str:
    """Return the last part of a table's name, and half of the digest of all of it."""
    last = "".join(c if c.isalnum() or c in "-_." else "_" for c in table.rstrip("/").rpartition("/")[2])
    return f"{last}-{table_digest(table)[:8]}"


def table_uri(table: str) -> str:
    """Return the URI of a table, as its store has it."""
    return table.rstrip("/") if "://" in table else local_uri(os.path.abspath(table))


def plain_name(uri: str) -> str:
    """Return the path of a local table, and the URI of any other. Paths that are not printable stay URIs."""
    if not uri.startswith("file://"):
        return uri
    path = os.fsdecode(unquote_to_bytes(uri.removeprefix("file://")))
    return path if path.isprintable() else uri


def short_name(table: str, file: str) -> str:
    """Return the path of a table relative to the directory of the policy file, if it is below it."""
    directory = os.path.join(os.path.dirname(os.path.abspath(file)), "")
    return table.removeprefix(directory) or table
