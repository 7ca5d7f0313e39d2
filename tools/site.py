"""Hooks of the documentation site, which mkdocs calls while it builds (`mkdocs.yml`).

They prepare code blocks for its parser. After the build they check that pages load nothing from other hosts, that every
block of code is one, that links lead to a place, and that the search finds every rule by its id.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

MARKED = re.compile(r"^( *```\w+) [^`\n]+$", re.MULTILINE)
"""The first line of a code block with a word for the tests behind its language, such as `run` or `spark`. GitHub
ignores the word, and the parser of the site does not take such a line for the beginning of a block.
"""

LOADED = re.compile(r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(https?:[^"'\s>]+)""")
LINKED = re.compile(
    r"""<link\b(?=[^>]*\brel=["']?(?:stylesheet|preconnect|preload))[^>]*\bhref=["']?(https?:[^"'\s>]+)"""
)
ID = re.compile(r"[a-z0-9]+\.[a-z0-9-]+")
RULE = re.compile(r"^### `([a-z0-9.-]+)`$", re.MULTILINE)

CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
"""A code span."""

INLINE = re.compile(r"(?<!<span></span>)<code>([^<]*)</code>")
NAME = re.compile(r"(?<![\w-])--?[a-z][a-z-]*")
"""Code in a sentence or in a table, and the names of options in it."""

UNBROKEN = r'<span class="unbroken">\g<0></span>'
CELL = re.compile(r"<td>.*?</td>")
MOST_UNBROKEN = 36
"""Characters of the longest word of code in a table that only a phone breaks, at hyphens."""

LINK = re.compile(r"""<a\b[^>]*\bhref=["']?(?![a-z]+:|/)([^"'\s>]+)""")
ID_OF_ELEMENT = re.compile(r"""\bid=["']?([^"'\s>]+)""")

BOOSTS = {"decisions/": 0.1, "rules": 0.3, "paimon-rules.md": 0.3}
"""The weight in the search, if it is not 1, of pages whose path begins so: long lists of what few readers look for."""


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:  # Any: objects of mkdocs
    """Set the weight of the page in the search, and return it with code blocks that name their language only, and with
    bars in the code of tables as the parser reads them: GitHub needs them escaped, and it would show the escape.
    """
    for begin, boost in BOOSTS.items():
        if page.file.src_uri.startswith(begin):
            page.meta["search"] = {"boost": boost}
    rows = (bars_unescaped(line) if line.startswith("|") else line for line in MARKED.sub(r"\1", markdown).split("\n"))
    return "\n".join(rows)


def bars_unescaped(row: str) -> str:
    """Return the row of a table without backslashes before the bars of its code."""
    return CODE.sub(lambda code: code[0].replace("\\|", "|"), row)


def on_page_content(html: str, **_: Any) -> str:  # Any: objects of mkdocs
    """Return the page with names of options, and short words of code in tables, that are not broken (docs/site.css)."""
    html = INLINE.sub(lambda code: f"<code>{NAME.sub(UNBROKEN, code[1])}</code>", html)
    return CELL.sub(lambda cell: INLINE.sub(_unbroken, cell[0]), html)


def _unbroken(code: re.Match[str]) -> str:
    is_word = len(code[1]) <= MOST_UNBROKEN and " " not in code[1]
    return f'<code class="unbroken">{code[1]}</code>' if is_word else code[0]


def on_post_build(config: Any, **_: Any) -> None:  # Any: objects of mkdocs
    """Complete the search index. Raise an error if a page loads anything from another host, has a block of code that
    was not recognized or a link to a place that does not exist, or if a rule is not found.
    """
    site, docs = Path(config["site_dir"]), Path(config["docs_dir"])
    add_parts_of_ids(site / "search" / "search_index.json")
    pages = {
        page.relative_to(site).as_posix(): page.read_text(encoding="utf-8") for page in sorted(site.rglob("*.html"))
    }
    faults = [*requests_to_other_hosts(pages), *open_blocks(pages), *dead_links(pages), *rules_not_indexed(site, docs)]
    if faults:
        raise SystemExit("error: the documentation site is not complete:\n" + "\n".join(faults))
    print("The search needs a server, such as: python3 -m http.server -d site")  # noqa: T201


def add_parts_of_ids(index: Path) -> None:
    """Add the parts of rule ids to the search index, so that `gap` finds `log.gap` as well. Pages opened from a disk
    load the index as a script. The search then does nothing, because browsers allow it no worker, and shows no error.
    """
    content = json.loads(index.read_text(encoding="utf-8"))
    for entry in content["docs"]:
        title = re.sub(r"<[^>]+>", "", entry["title"])
        if ID.fullmatch(title):
            entry["text"] += f" {' '.join(re.split('[.-]', title))} {title.partition('.')[2]}"
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    index.write_text(text, encoding="utf-8")
    index.with_suffix(".js").write_text(f"var __index = {text}", encoding="utf-8")


def requests_to_other_hosts(pages: Mapping[str, str]) -> list[str]:
    """Return a line for each script, style, font or image that a page loads from another host."""
    return [
        f"{name}: loads {url}"
        for name, page in pages.items()
        for pattern in (LOADED, LINKED)
        for url in pattern.findall(page)
    ]


def open_blocks(pages: Mapping[str, str]) -> list[str]:
    """Return a line for each page that shows the fence of a block of code, which was not recognized."""
    return [f"{name}: a block of code was not recognized" for name, page in pages.items() if "```" in page]


def dead_links(pages: Mapping[str, str]) -> list[str]:
    """Return a line for each link to a page, or to a place in a page, that does not exist."""
    places = {name: {*ID_OF_ELEMENT.findall(page), ""} for name, page in pages.items()}
    faults = []
    for name, page in pages.items():
        for link in sorted(set(LINK.findall(page))):
            path, _, place = link.partition("#")
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
            if target.endswith(".html") and unquote(place) not in places.get(target, ()):
                faults.append(f"{name}: no such place: {link}")
    return faults


def rules_not_indexed(site: Path, docs: Path) -> list[str]:
    """Return a line for each rule that is not the title of an entry of the search index."""
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    titles = {re.sub(r"<[^>]+>", "", entry["title"]) for entry in index["docs"]}
    details = {page.name: page.read_text(encoding="utf-8") for page in sorted((docs / "rules").glob("*.md"))}
    rules = [(name, rule) for name, text in details.items() for rule in RULE.findall(text)]
    missing = [f"rules/{name}: no entry for {rule}" for name, rule in rules if rule not in titles]
    return missing if rules else ["rules: no rules"]
