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
ID = re.compile(r"[a-z0-9]+\.[a-z0-9-]+")
RULE = re.compile(r"^### `([a-z0-9.-]+)`$", re.MULTILINE)

CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
"""A code span."""

BOOSTS = {"decisions/": 0.1, "rules.md": 0.3, "paimon-rules.md": 0.3}
"""The weight in the search, if it is not 1, of pages whose path begins so: long lists of what few readers look for."""


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:  # Any: objects of mkdocs
    """Set the weight of the page in the search, and return it with code blocks that name their language only, and with
    bars in the code of tables as the parser reads them: GitHub needs them escaped, and it would show the escape.
    """
    for begin, boost in BOOSTS.items():
        if page.file.src_uri.startswith(begin):
            page.meta["search"] = {"boost": boost}
    rows = (bars_unescaped(line) if line.startswith("|") else line for line in RUN.sub(r"```\1", markdown).split("\n"))
    return "\n".join(rows)


def bars_unescaped(row: str) -> str:
    """Return the row of a table without backslashes before the bars of its code."""
    return CODE.sub(lambda code: code[0].replace("\\|", "|"), row)


def on_post_build(config: Any, **_: Any) -> None:  # Any: objects of mkdocs
    """Complete the search index. Raise an error if a page loads anything from another host or a rule is not found."""
    site, docs = Path(config["site_dir"]), Path(config["docs_dir"])
    add_parts_of_ids(site / "search" / "search_index.json")
    faults = [*requests_to_other_hosts(site), *rules_not_indexed(site, docs)]
    if faults:
        raise SystemExit("error: the documentation site is not complete:\n" + "\n".join(faults))


def add_parts_of_ids(index: Path) -> None:
    """Add the parts of rule ids to the search index, so that `gap` finds `log.gap` as well."""
    content = json.loads(index.read_text(encoding="utf-8"))
    for entry in content["docs"]:
        title = re.sub(r"<[^>]+>", "", entry["title"])
        if ID.fullmatch(title):
            entry["text"] += f" {' '.join(re.split('[.-]', title))} {title.partition('.')[2]}"
    index.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")


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
