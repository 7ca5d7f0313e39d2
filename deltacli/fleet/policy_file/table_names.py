"""Names of tables: short ones for people, and those of files about a table."""

from __future__ import annotations

import os
from hashlib import sha256
from urllib.parse import unquote_to_bytes

from deltacli.storage.local_files import local_uri


def digest_table_name(table: str) -> str:
    """Return a digest of the name of a table, as 16 hexadecimal digits."""
    # Names of files need not be Unicode; Python has their bytes as lone surrogates.
    return sha256(table.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def make_file_name(table: str) -> str:
    """Return a name for files about a table: the last part of its name, and half of the digest of all of it."""
    last_part = table.rstrip("/").rpartition("/")[2]
    characters = [character if character.isalnum() or character in "-_." else "_" for character in last_part]
    return f"{''.join(characters)}-{digest_table_name(table)[:8]}"


def make_table_uri(table: str) -> str:
    """Return the URI of a table that a policy file names by a URI or an absolute path."""
    return table.rstrip("/") if "://" in table else local_uri(os.path.abspath(table))


def show_table_name(uri: str) -> str:
    """Return the path of a local table, and the URI of any other. Paths that are not printable stay URIs."""
    if not uri.startswith("file://"):
        return uri
    path = os.fsdecode(unquote_to_bytes(uri.removeprefix("file://")))
    return path if path.isprintable() else uri


def shorten_table_name(table: str, file: str) -> str:
    """Return the path of a table relative to the directory of the policy file, if it is below it."""
    directory = os.path.join(os.path.dirname(os.path.abspath(file)), "")
    return table.removeprefix(directory) or table
