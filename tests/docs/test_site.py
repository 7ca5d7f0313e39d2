"""The screens and the checks of the documentation site."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from deltacli.cli.command_table import COMMANDS
from deltacli.rules.framework.base import CATALOGUE
from deltacli.rules.paimon.catalogue import PAIMON_CATALOGUE
from deltacli.sharing.conformance.run import areas as conformance_areas
from tools.help_topics import DOCS
from tools.reference_pages import read_error_codes
from tools.screens import WIDTH, to_svg
from tools.site import (
    add_parts_of_ids,
    dead_links,
    on_page_content,
    on_page_markdown,
    open_blocks,
    requests_to_other_hosts,
    rules_not_indexed,
)


def test_a_screen_keeps_colours_breaks_long_lines_and_loads_nothing() -> None:
    svg = to_svg("probe", "\x1b[31mred\x1b[0m\n" + "x" * (WIDTH + 20))

    rows = re.findall(r"<text[^>]*>(x+)</text>", svg)

    assert ["x" * WIDTH, "x" * 20] == rows
    assert "fill: #f4005f" in svg
    assert ["http://www.w3.org/2000/svg"] == re.findall(r"https?://[^\s\"')]+", svg)


def test_a_page_that_loads_a_font_or_a_script_from_another_host_is_reported() -> None:
    font = '<link href="https://fonts.example/x.css" rel="stylesheet"><a href="https://x/">x</a>'
    script = '<script async src="https://cdn.example/x.js"></script><img src="img/x.svg">'

    faults = requests_to_other_hosts({"a.html": font, "b.html": script})

    assert ["a.html: loads https://fonts.example/x.css", "b.html: loads https://cdn.example/x.js"] == faults


def test_a_block_of_code_that_is_text_and_a_link_to_no_place_are_reported() -> None:
    links = '<a class="x" href="../b.html#there">x</a><a href="#gone">x</a><a href=../c.html>x</a><a href="https://x#y">x</a>'
    pages = {"a/a.html": links, "b.html": '<p>```python spark</p><h2 id="there">x</h2>'}

    assert ["b.html: a block of code was not recognized"] == open_blocks(pages)
    assert ["a/a.html: no such place: #gone", "a/a.html: no such place: ../c.html"] == sorted(dead_links(pages))


def test_names_of_options_and_short_words_of_tables_are_not_broken_and_prose_of_help_is_no_block() -> None:
    option, word = "<td><code>-c, --max-delete LIMIT</code></td>", "<td><code>log.gap</code>, <code>a-{}</code></td>"
    prose, block = "<p>with <code>--max-delete</code></p>", "<pre><span></span><code>ls --all\n</code></pre>"
    shown = on_page_content("".join([option, word.format("b" * 40), prose, block]))

    pages = {path.stem: path.read_text() for path in (DOCS / "commands").glob("*.md")}

    name = '<span class="unbroken">--max-delete</span>'
    assert f"{name} LIMIT</code></td><td>" in shown
    assert f'<code class="unbroken">log.gap</code>, <code>a-{"b" * 40}</code>' in shown
    assert f"<p>with <code>{name}</code></p>{block}" in shown
    assert "\n\nA file is deleted if it is older than the retention and nothing" in pages["vacuum"]
    assert "struct&lt;name: type, …>" in pages["alter"]
    assert "the version (`_commit_version`)" in pages["changes"]


def test_a_rule_that_the_search_does_not_find_is_reported(tmp_path: Path) -> None:
    (tmp_path / "search").mkdir()
    entries = [{"title": "<code>log.gap</code>", "location": "rules/versions.html#loggap"}]
    (tmp_path / "search" / "search_index.json").write_text(json.dumps({"docs": entries}))
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "versions.md").write_text("### `log.gap`\n\n### `log.lost`\n")

    faults = rules_not_indexed(tmp_path, tmp_path)

    assert ["rules/versions.md: no entry for log.lost"] == faults


def test_the_search_finds_a_rule_by_a_part_of_its_id(tmp_path: Path) -> None:
    index = tmp_path / "search_index.json"
    entries = [{"title": "<code>log.gap</code>", "text": "<p>x</p>"}, {"title": "Forms", "text": "<p>y</p>"}]
    index.write_text(json.dumps({"docs": entries}))

    add_parts_of_ids(index)

    assert f"var __index = {index.read_text()}" == (tmp_path / "search_index.js").read_text()
    assert ["<p>x</p> log gap gap", "<p>y</p>"] == [entry["text"] for entry in json.loads(index.read_text())["docs"]]


def test_bars_in_the_code_of_tables_are_not_escaped_for_the_parser_of_the_site() -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="commands/vacuum.md"), meta={})

    shown = on_page_markdown("| `--mode full\\|lite` | a \\| b `` c\\|` `` |\n`x\\|y`", page)

    assert "| `--mode full|lite` | a \\| b `` c|` `` |\n`x\\|y`" == shown


def test_code_blocks_with_a_word_for_the_tests_are_highlighted_and_decisions_come_last_in_the_search() -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="decisions/0001-x.md"), meta={})

    markdown = on_page_markdown("```sh run\nls\n```\n```python spark\n1\n```\n```toml fleet.toml\n```", page=page)

    assert "```sh\nls\n```\n```python\n1\n```\n```toml\n```" == markdown
    assert page.meta["search"]["boost"] < 1


@pytest.mark.parametrize(
    ("page", "rules"),
    [
        ("rules", [*CATALOGUE.rules]),
        ("paimon-rules", [*PAIMON_CATALOGUE.rules]),
        ("sharing-conformance", [rule.id for area in conformance_areas() for rule in area.rules]),
    ],
)
def test_each_rule_keeps_its_place_on_the_page_that_lists_it_and_has_details(page: str, rules: list[str]) -> None:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    rows = re.findall(r'<a id="([^"]+)"></a>\[`([^`]+)`\]\((rules/[a-z]+\.md)#([^)]+)\)', text)
    details = {path: (DOCS / path).read_text(encoding="utf-8").splitlines() for _, _, path, _ in rows}

    assert sorted(rules) == sorted(rule for _, rule, _, _ in rows)
    assert {(rule.replace(".", ""),) * 2 for rule in rules} == {(place, there) for place, _, _, there in rows}
    assert [] == [rule for _, rule, path, _ in rows if 1 != details[path].count(f"### `{rule}`")]


def test_each_code_of_an_error_has_a_place_on_its_page() -> None:
    places = re.findall(r'<a id="([^"]+)"></a>', (DOCS / "errors.md").read_text(encoding="utf-8"))
    codes = {code for rows in read_error_codes().values() for row in rows for code in row.codes if "*" not in code}

    assert {code.replace(".", "") for code in codes} == set(places)


def test_links_to_a_command_on_the_single_page_of_before_lead_to_its_own_page() -> None:
    page = (DOCS / "commands.md").read_text(encoding="utf-8")

    rows = dict(re.findall(r'<a id="([^"]+)"></a>\[`[^`]+`\]\(([^)]+)\)', page))

    assert "commands/vacuum.md#deltacli-vacuum-table" == rows["deltacli-vacuum-table"]
    assert "commands/log.md#deltacli-log-cat-table-version" == rows["deltacli-log-cat-table-version"]
    assert "commands/completion.md#deltacli-completion-bashzshfish" == rows["deltacli-completion-bashzshfish"]
    assert set(COMMANDS) == set(re.findall(r"</a>\[`([^`]+)`\]", page))
