"""`--format markdown`: tables that GitHub shows as they are, whatever stands in them."""

from __future__ import annotations

import html
import io
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.cli.output.formats import MARKDOWN
from deltacli.cli.output.markdown import MarkdownEncoder, escape_cell
from deltacli.cli.render.data.rows import Rows, RowsResult
from deltacli.cli.terminal.capabilities import Terminal
from deltacli.cli.terminal.characters import CONTROL_CHARACTERS
from tests.cli.support import deltacli
from tests.support.effort import examples

PIPE = Terminal(is_terminal=False, width=None, colour=False)
TEXTS = st.text(
    st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("\\|`<>&[]*_~$@:/w.\n\r\x1b\u202e"))
)


def shown(cell_text: str) -> str:
    """What a reader of GitHub Flavored Markdown shows for a cell."""
    plain = re.sub(r"<!-- -->", "", cell_text).replace("<br>", "\n")
    return html.unescape(re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", plain))


@given(TEXTS)
@examples(200)
def test_a_cell_shows_exactly_the_text(text: str) -> None:
    written = escape_cell(text)

    expected = "\n".join(re.split(r"\r\n|\r|\n", text))
    visible = "".join(
        c if c == "\n" or not CONTROL_CHARACTERS.match(c) else c.encode("unicode_escape").decode() for c in expected
    )
    assert visible == shown(written)
    assert not re.search(r"(?<!\\)(?:\\\\)*\|", written)
    assert not re.search(r"[\r\n]|://|www\.|<(?!br>|!-- -->)|@(?!<!-- -->)", written)


@given(st.lists(st.one_of(st.none(), TEXTS), min_size=1, max_size=5))
@examples(100)
def test_columns_are_written_as_single_values_are(texts: list[str | None]) -> None:
    block = MarkdownEncoder().encode_columns([pa.array(texts, pa.string())], len(texts), "null")

    assert b"".join(MarkdownEncoder().encode_row(["null" if text is None else text]) for text in texts) == bytes(
        block.data
    )


def test_rows_of_a_table_are_aligned_with_their_columns() -> None:
    batch = pa.record_batch({"id": [1, None], "a|b": ["x\ny", "<i>"]})
    sink = io.BytesIO()

    MARKDOWN.write(sink, RowsResult(Rows("deltacli.read", "row", "t", {}, batch.schema, [batch]), 0), PIPE)

    assert [
        "| id | a\\|b |",
        "| --- | --- |",
        "| 1 | x<br>y |",
        "| null | &lt;i&gt; |",
    ] == sink.getvalue().decode().splitlines()


@pytest.mark.parametrize(
    "arguments",
    [
        ("history",),
        ("snapshot",),
        ("snapshot", "--schema"),
        ("snapshot", "--files"),
        ("read",),
        ("read", "--explain"),
        ("changes", "--from", "0"),
        ("checkpoint", "--dry-run"),
        ("checkpoint", "--verify"),
        ("vacuum", "--dry-run", "--files"),
        ("validate",),
        ("validate", "--list-rules"),
        ("properties",),
        ("features",),
        ("properties", "set", "owner=ops", "--dry-run"),
        ("widen-type", "ride.fare", "decimal(20,2)", "--enable", "--upgrade-protocol", "--dry-run"),
        ("log crc", "--dry-run"),
        ("log compact", "--from", "0", "--to", "1", "--dry-run"),
        ("log expire", "--dry-run"),
    ],
    ids=" ".join,
)
def test_every_command_writes_tables_whose_rows_have_as_many_cells(arguments: tuple[str, ...], sample: Path) -> None:
    command, *options = arguments
    target = [] if "--list-rules" in options else [sample]

    done = deltacli(*command.split(), *target, *options, "--format", "markdown")

    blocks = [block.splitlines() for block in done.out.strip("\n").split("\n\n")]
    for block in blocks:
        widths = {len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in block}
        assert len(widths) == 1, block
        assert re.fullmatch(r"\|(?: -{3}:? \|)+", block[1])


def test_omitted_findings_and_missing_commits_are_reported(sample: Path, tmp_path: Path) -> None:
    tables = [Path(shutil.copytree(sample, tmp_path / name)) for name in ("a", "b")]
    for table in tables:
        (table / "_delta_log" / f"{3:020d}.json").unlink()
        (table / "_delta_log" / f"{14:020d}.json").write_text('{"add":{"path":"x"}\n' * 3)

    history = deltacli("history", tables[0], "--format", "markdown").out
    report = deltacli("validate", *tables, tmp_path / "none", "--max-findings", "1", "--format", "markdown").out

    assert "| missing | version 3 |" in history
    assert 2 == report.count("more of commit.bad-json are not shown")
    assert escape_cell(str(tables[1] / "_delta_log" / f"{14:020d}.json")) in report
    assert f"| {escape_cell(str(tmp_path / 'none'))} |" in report
