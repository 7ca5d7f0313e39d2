"""The pages of the documentation, and the JSON Schemas of documents, that every installation has.

`deltacli help` shows parts of the pages. `help all` and `--template` read the schemas. An installation has both as
`docs` in the package, a checkout has them beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from deltacli.core.documents import loads
from deltacli.core.typing import JsonObject

PAGES = (
    "alter.md",
    "doctor.md",
    "errors.md",
    "glossary.md",
    "index.md",
    "properties.md",
    "reading.md",
    "scripting.md",
    "sharing-recipients.md",
    "spark-tables.md",
    "spark.md",
    "stores.md",
    "vacuum.md",
    "widen-type.md",
)
"""The pages that topics of `deltacli help` are made of. The build packs them into the wheel."""


def find_documentation() -> Path:
    """Return the directory of the pages; the schemas are in its directory `schemas`."""
    package = Path(__file__).parents[1]
    packed = package / "docs"
    return packed if packed.is_dir() else package.parent / "docs"


def read_documentation() -> dict[str, str]:
    """Return the text of each page, by the name of its file, sorted by name.

    Raises:
        FileNotFoundError: If the installation lacks a page.
    """
    directory = find_documentation()
    return {name: (directory / name).read_text(encoding="utf-8") for name in PAGES}


@cache
def read_schemas() -> Mapping[str, JsonObject]:
    """Return the JSON Schemas of documents, of lines of NDJSON and of files, by the names of their files, sorted.

    Raises:
        FileNotFoundError: If the installation lacks the schemas.
    """
    schemas: dict[str, JsonObject] = {}
    for path in sorted((find_documentation() / "schemas").glob("*.json")):
        schema = loads(path.read_bytes())
        assert isinstance(schema, dict)
        schemas[path.stem] = schema
    return schemas
