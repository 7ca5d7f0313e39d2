"""The pages about the code name places that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.support import ROOT

PATH = re.compile(r"`((?:[\w.-]+/)*[\w.-]+\.(?:py|toml|yml)|(?:[\w.-]+/)+)`")


def exists(named: str) -> bool:
    """Return whether a path exists from the root, or is the end of a path in deltacli."""
    if (ROOT / named).exists() or (ROOT / "deltacli" / named).exists():
        return True
    return any(True for _ in (ROOT / "deltacli").rglob(named.rstrip("/")))


@pytest.mark.parametrize("page", ["architecture.md", "internals.md"])
def test_every_path_that_the_page_names_exists(page: str) -> None:
    named = PATH.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))

    missing = [path for path in named if not exists(path) and "AREA" not in path]

    assert len(named) > 20
    assert [] == missing


def test_the_page_says_in_which_folder_each_rule_is() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    row = next(line for line in text.splitlines() if line.startswith("| rules of `validate`"))
    listed = re.findall(r"((?:`[a-z]+`, )*`[a-z]+`) in `([a-z]+)(?:/|\.py)`", row)
    folder_of = {prefix.strip("`"): folder for prefixes, folder in listed for prefix in prefixes.split(", ")}
    places: dict[str, set[tuple[str, str]]] = {}
    rules = ROOT / "deltacli" / "rules"
    for path in (*rules.glob("*.py"), *rules.glob("*/*.py")):
        for prefix in re.findall(r'AREA\.\w+\(\s*"([a-z]+)\.', path.read_text(encoding="utf-8")):
            places.setdefault(prefix, set()).add((path.parent.name if path.parent != rules else path.stem, path.stem))

    named = {prefix for prefix, found in places.items() if any(name.startswith(prefix) for at in found for name in at)}
    unfound = {prefix for prefix in places.keys() - named if folder_of.get(prefix) not in dict(places[prefix])}

    assert len(places) > 35
    assert (set(), set()) == (unfound, folder_of.keys() - places.keys())


def test_the_index_lists_every_decision() -> None:
    records = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("0*.md"))
    index = (ROOT / "docs" / "decisions" / "index.md").read_text(encoding="utf-8")

    listed = sorted(Path(link).name for link in re.findall(r"\]\((0[^)]+\.md)\)", index))

    assert records == listed
