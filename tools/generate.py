"""Write the files that are made from the code.

These are completions, help and manual pages, the command reference, the rules, tables in the docs, schemas and screens.
`python -m tools.generate` writes them. `--check` names those that differ, writes nothing, and exits with 1.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from deltacli.cli.described_commands import describe_tree
from deltacli.cli.documentation import read_documentation
from deltacli.cli.help.topics import make_topics
from deltacli.core.errors import ShellSyntax, use_hint_syntax
from deltacli.core.release import VERSION
from deltacli.spark.care.fact_rows import FACTS, TABLE
from tools.bash_completion import render_bash
from tools.environment import read_environment
from tools.fish_completion import render_fish
from tools.help_topics import exit_code_rows, topic_rows
from tools.known_words import with_known_words
from tools.man_pages import render_man_pages
from tools.reference_pages import cell, environment_rows, render_errors_page, render_reference
from tools.rules_page import render_rules_pages, repair_outcomes
from tools.schemas import render_schemas
from tools.screens import render_screens
from tools.sharing_keys import sharing_key_tables
from tools.zsh_completion import render_zsh

ROOT = Path(__file__).resolve().parent.parent


def fact_tables() -> dict[str, list[str]]:
    """Return the columns of each frame of facts as a table, by its name."""
    return {
        name: [
            f"| `{name}` | type | meaning |",
            "|---|---|---|",
            *(f"| `{column.name}` | {column.kind} | {cell(column.meaning)} |" for column in (TABLE, *fact.columns)),
        ]
        for name, fact in FACTS.items()
    }


def fill(text: str, tables: Mapping[str, list[str]]) -> str:
    """Return a page with each table between `<!-- generated: NAME -->` and `<!-- end -->` replaced."""
    for name, rows in tables.items():
        pattern = rf"(<!-- generated: {name} -->\n).*?(\n<!-- end -->)"
        block = "\n".join(["", *rows, ""])
        written = block.replace("\\", r"\\")
        text, count = re.subn(pattern, rf"\g<1>{written}\g<2>", text, flags=re.DOTALL)
        if count != 1:
            raise SystemExit(f"error: the page has {count} places for the generated table {name}")
    return text


PINNED = ("README.md", "docs/tasks/check-in-ci.md", "docs/validate.md", "examples/fleet/kubernetes-cronjob.yaml")
"""Files that name the action, the hook or an image by its release."""


def pinned(text: str) -> str:
    """Return a text that names this release where it names one."""
    return re.sub(r"(deltacli/deltacli[@:]v?|rev: v)\d+\.\d+\.\d+", rf"\g<1>{VERSION}", text)


@use_hint_syntax(ShellSyntax())
def files() -> dict[str, str]:
    """Return every generated text file with its content, by path."""
    root = describe_tree()
    environment = read_environment(root)
    scripting = (ROOT / "docs" / "scripting.md").read_text(encoding="utf-8")
    tables = {"exit codes": exit_code_rows(), "environment": environment_rows(environment), "topics": topic_rows()}
    pages = render_man_pages(root, environment)
    scripting = fill(scripting, tables)
    errors = render_errors_page()
    topics = make_topics(read_documentation() | {"scripting.md": scripting, "errors.md": errors})
    completed = with_known_words(root, tuple(topics))
    return {
        "completions/deltacli.bash": render_bash(completed),
        "completions/_deltacli": render_zsh(completed),
        "completions/deltacli.fish": render_fish(completed),
        "docs/errors.md": errors,
        "docs/repair.md": fill((ROOT / "docs" / "repair.md").read_text(encoding="utf-8"), {"tried": repair_outcomes()}),
        **{f"docs/{name}": page for name, page in render_rules_pages().items()},
        "docs/scripting.md": scripting,
        "docs/sharing-recipients.md": fill(
            (ROOT / "docs" / "sharing-recipients.md").read_text(encoding="utf-8"), sharing_key_tables()
        ),
        **{name: pinned((ROOT / name).read_text(encoding="utf-8")) for name in PINNED},
        "docs/spark-facts.md": fill((ROOT / "docs" / "spark-facts.md").read_text(encoding="utf-8"), fact_tables()),
        **{f"docs/{name}": page for name, page in render_reference(root, environment).items()},
        **{f"docs/man/{name}": page for name, page in pages.items()},
        **{f"docs/schemas/{name}": text for name, text in render_schemas().items()},
    }


def pictures() -> dict[str, str]:
    """Return every generated picture with its content, by path. Runs commands, which takes seconds."""
    return {f"docs/img/{name}": svg for name, svg in render_screens().items()}


def main(arguments: list[str]) -> int:
    """Write the files. With `--check`, print the names of those that differ and return 1."""
    stale = []
    for name, content in (files() | pictures()).items():
        path = ROOT / name
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            stale.append(name)
            if "--check" not in arguments:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content, encoding="utf-8")
    for name in stale:
        sys.stdout.write(f"{'differs' if '--check' in arguments else 'wrote'}  {name}\n")
    if stale and "--check" in arguments:
        sys.stdout.write("run: python3 dev.py generate\n")
        return 1
    return 0


if __name__ == "__main__":
    with use_hint_syntax(ShellSyntax()):
        sys.exit(main(sys.argv[1:]))
