"""Hooks of the documentation site, which mkdocs calls while it builds (`mkdocs.yml`).

They prepare code blocks for its parser. After the build they check that pages load nothing from other hosts and that
the search finds every rule by its id.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

RUN = re.compile(r"^```(sh|python) run$", re.MULTILINE)
"""The first line of a code block that the tests run."""

LOADED = re.compile(r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(https?:[^"'\s>]+)""")
LINKED = re.compile(
    r"""<link\b(?=[^>]*\brel=["']?(?:stylesheet|preconnect|preload))[^>]*\bhref=["']?(https?:[^"'\s>]+)"""
)
RULE = re.compile(r"^### `([a-z0-9.-]+)`$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:  # Any: objects of mkdocs
    """Return the page with code blocks whose first line names the language only."""
    return RUN.sub(r"```\1", markdown)


def on_post_build(config: Any, **_: Any) -> None:  # Any: objects of mkdocs
    """Raise an error if a page loads anything from another host or a rule cannot be found."""
    site, docs = Path(config["site_dir"]), Path(config["docs_dir"])
    faults = [*requests_to_other_hosts(site), *rules_not_indexed(site, docs)]
    if faults:
        raise SystemExit("error: the documentation site is not complete:\n" + "\n".join(faults))


def requests_to_other_hosts(site: Path) -> list[str]:
    """Return a line for each script, style, font or image that a page loads from another host."""
    return [
        f"{page.relative_to(site)}: loads {url}"
        for page in sorted(site.rglob("*.html"))
        for pattern in (LOADED, LINKED)
        for url in pattern.findall(page.read_text(encoding="utf-8"))
    ]


def rules_not_indexed(site: Path, docs: Path) -> list[str]:
    """Return a line for each rule that is not the title of an entry of the search index."""
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    titles = {re.sub(r"<[^>]+>", "", entry["title"]) for entry in index["docs"]}
    rules = RULE.findall((docs / "rules.md").read_text(encoding="utf-8"))
    missing = [f"rules.md: no entry for {rule}" for rule in rules if rule not in titles]
    return missing if rules else ["rules.md: no rules"]
