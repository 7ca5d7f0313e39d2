"""Help teaches: plain text of 80 columns, examples before the options, exit codes last."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from deltacli.cli.app import run
from deltacli.cli.command_table import COMMANDS
from deltacli.cli.command_table import HEADINGS as HEADINGS_OF_COMMANDS
from deltacli.cli.command_tree import FORMER_OPTIONS
from deltacli.cli.commands.completion import SCRIPTS
from deltacli.cli.described_commands import describe_commands, describe_tree
from deltacli.cli.documentation import PAGES as PAGES_OF_HELP
from deltacli.cli.exit_codes import read_exit_codes
from deltacli.cli.help import option_index
from deltacli.cli.help import pages as help_page
from deltacli.cli.help import text as help_text
from deltacli.cli.help.sections import OptionHeading, section_of
from deltacli.cli.help.text import Definitions, Topic
from deltacli.cli.help.topics import read_topics
from deltacli.core.errors import EXIT_CODES
from deltacli.core.typing import Json
from deltacli.delta.evolution.requests import POSSIBLE
from deltacli.delta.schema.widened_schema import POSSIBLE as WIDER_TYPES
from deltacli.rules.framework.base import CATALOGUE
from deltacli.rules.paimon.catalogue import PAIMON_CATALOGUE
from deltacli.storage.base import RETRY_BUDGET
from tests.cli.pty_session import Session
from tests.cli.support import ROOT, deltacli, make_sample
from tests.completions.shells import FILES
from tools.reference_pages import read_error_codes

ERRORS = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
HEADINGS = ("Usage", "Arguments", "Common options", *OptionHeading, "Exit codes")
MOST_LINES = 60
PAGES = option_index.read_pages()


@pytest.mark.parametrize("command", [command.name for command in describe_commands()])
def test_help_shows_examples_first_and_exit_codes_last(command: str) -> None:
    common, whole = help_text.fold_common(PAGES[command]), help_text.fold(PAGES[command])

    for text in (common, whole):
        assert max(map(len, text.splitlines())) <= 80
        assert "\x1b" not in text
        headings = [line.split(":")[0] for line in text.splitlines() if line[:1] not in ("", " ")]
        assert [heading for heading in HEADINGS if heading in headings] == headings
        assert text.index("Examples:") < text.index("Exit codes:")
    assert "Common options:" in common
    assert len(common.splitlines()) <= MOST_LINES


def test_help_has_what_its_examples_use_and_says_how_many_options_there_are_more() -> None:
    for command in describe_commands():
        shown = help_text.fold_common(PAGES[command.name])
        examples, _, options = shown.partition("Common options:")
        (count,) = re.findall(r"^  (\d+) more options: deltacli [a-z -]+ --help-all \(", options, re.MULTILINE)
        listed = re.findall(r"^  (-.*?)(?:  |$)", options, re.MULTILINE)
        names = {name for spelled in listed for name in help_page.names_in(spelled)}
        own = {name for option in command.options for name in option.spellings}
        used = own & {*re.findall(r"(?<= )--?[a-z][a-z-]*", examples.partition("Examples:")[2])}

        assert set() == used - names, command.name
        assert len(command.options) - 1 == len(listed) + int(count), command.name  # but --help


def test_help_all_explains_every_option() -> None:
    for command in describe_commands():
        whole = help_text.fold(PAGES[command.name])

        assert [] == [one.spellings for one in command.options if one.spellings[-1] not in whole], command.name
    assert " --engine embedded|spark" in deltacli("help", "vacuum", "--all").out
    assert "Hidden files, links" in deltacli("vacuum", "--help-all").out
    assert "Hidden files, links" not in deltacli("vacuum", "--help").out


@pytest.mark.parametrize(
    ("arguments", "same"),
    [
        (["vacuum", "./tbl", "--dry-run", "--help"], ["vacuum", "--help"]),
        (["vacuum", "./tbl", "--dry-run", "--help-all"], ["vacuum", "--help-all"]),
        (["help", "vacuum", "--all"], ["vacuum", "--help-all"]),
        (["-q", "help", "vacuum", "--help-all"], ["vacuum", "--help-all"]),
        (["help", "log", "--all"], ["log", "--help"]),
        (["-h"], ["--help"]),
        (["share", "token", "rotate", "-h"], ["share", "token", "rotate", "--help"]),
    ],
    ids=" ".join,
)
def test_help_is_the_same_wherever_it_is_asked_for(arguments: list[str], same: list[str]) -> None:
    shown = deltacli(*arguments)

    assert (0, "") == (shown.code, shown.err)
    assert deltacli(*same).out == shown.out


def test_the_version_is_printed_without_loading_the_package() -> None:
    checked = [sys.executable, "-X", "importtime", "-m", "deltacli", "--version"]

    done = subprocess.run(checked, capture_output=True, text=True, check=True)

    assert done.stdout == deltacli("--version").out
    assert not [line for line in done.stderr.splitlines() if "typer" in line or "deltacli.cli" in line]


def test_help_imports_no_command_and_no_data_library() -> None:
    checked = [sys.executable, "-X", "importtime", "-m", "deltacli", "--help"]

    done = subprocess.run(checked, capture_output=True, text=True, check=True)

    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert done.stdout == deltacli("--help").out
    assert not {name for name in imported if name.startswith(("deltacli.cli.commands.", "pyarrow", "fsspec"))}


def test_history_imports_neither_pyarrow_nor_the_modules_of_clusters_and_topics(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    log = tmp_path_factory.mktemp("t") / "_delta_log"
    log.mkdir()
    (log / f"{0:020d}.json").write_text('{"commitInfo":{"operation":"WRITE"}}\n')
    script = (
        "import sys\nfrom deltacli.cli.app import run\n"
        f"code = run(['history', {str(log.parent)!r}, '--json'])\n"
        "loaded = {name for name in sys.modules if name.split('.')[0] in ('pyarrow', 'fsspec', 'rich', 'numpy')}\n"
        "unused = {'deltacli.table.rebuild', 'deltacli.engine.spark.engine', 'deltacli.cli.help.topics'}\n"
        "loaded |= unused & sys.modules.keys()\n"
        "sys.exit(repr(sorted(loaded)) if loaded or code else 0)"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert (0, "") == (done.returncode, done.stderr)


def test_the_package_contains_the_completion_scripts() -> None:
    for shell, name in SCRIPTS.items():
        result = deltacli("completion", shell)

        assert (0, (FILES / name).read_text(encoding="utf-8")) == (result.code, result.out)


def test_completion_without_a_known_shell_names_the_known_ones() -> None:
    none, unknown = deltacli("completion"), deltacli("completion", "tcsh")

    assert (2, "error: missing argument bash|zsh|fish") == (none.code, none.err.splitlines()[0])
    assert [
        "error: there is no completion for 'tcsh'",
        "  expected  bash, zsh, fish",
        "hint: deltacli completion bash",
    ] == unknown.err.splitlines()


def test_every_option_has_a_section() -> None:
    options = {(option.spellings, option.help) for command in describe_tree().walk() for option in command.options}

    assert [] == [option for option in options if section_of(*option) is None]
    writes = "Write the token to this new profile file."
    assert (OptionHeading.OUTPUT, OptionHeading.SELECTION) == tuple(
        section_of(["--profile"], text) for text in (writes, "Reader that must accept Paimon tables.")
    )


def test_help_has_the_width_of_the_terminal_and_bold_headings() -> None:
    wide, narrow = (Session("vacuum", "--help-all", size=(columns, 40)) for columns in (120, 60))
    with wide, narrow:
        (_, shown), (_, folded) = wide.finish(), narrow.finish()

    assert "\x1b[1mSafety:\x1b[0m" in shown
    assert 100 < max(map(len, shown.splitlines())) <= 120
    prose = [line for line in folded.splitlines() if "deltacli vacuum ./tbl" not in line]
    assert max(map(len, prose)) <= 60


@pytest.mark.parametrize("width", [60, 80])
def test_no_page_breaks_a_word_or_an_example(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(help_text, "find_layout", lambda: help_text.Layout(width, is_bold=False))

    folded = {name: help_text.fold(page) for name, page in PAGES.items()}
    common = [help_text.fold_common(page) for page in PAGES.values()]

    assert [line for text in (*folded.values(), *common) for line in text.splitlines() if len(line) > width] == []
    words = {word for text in folded.values() for word in text.split()}
    assert {word for page in PAGES.values() for word in page.description.replace("\b", "").split()} <= words
    assert "delta.deletedFileRetentionDuration," in words
    if width == 60:
        assert "    # to review, then\n    deltacli vacuum ./tbl --save-plan plan.parquet\n" in folded["vacuum"]
        assert "--format csv --columns \\\n        version,timestamp,operation\n" in folded["history"]


def test_the_root_help_explains_the_global_options_that_commands_only_list() -> None:
    root, command = deltacli("--help-all").out, deltacli("history", "--help-all").out

    assert "--retry-budget DURATION" in root
    assert "--retry-budget DURATION" in command
    assert "--retry-budget" not in deltacli("--help").out
    assert ("retries of a request" in root, "retries of a request" in command) == (True, False)
    assert f"[default: {RETRY_BUDGET.total_seconds():.0f}s]" in root


def test_every_command_has_one_heading_in_the_help_of_the_program() -> None:
    listed = [name for names in HEADINGS_OF_COMMANDS.values() for name in names.split()]

    assert sorted(command.name for command in describe_tree().children) == sorted(listed)


def test_help_explains_a_rule_of_a_table_or_of_a_server() -> None:
    rule = deltacli("help", "dv.magic")

    assert (0, "dv.magic  error  footers") == (rule.code, rule.out.splitlines()[0])
    assert max(map(len, rule.out.splitlines())) <= 80
    assert "    example  " in rule.out
    assert deltacli("help", "share.url-range").out.startswith("share.url-range  error  ")
    assert "did you mean 'dv.magic'?" in deltacli("help", "dv.magik").err


@pytest.mark.parametrize(
    ("words", "beginning", "part"),
    [
        (["vacuum.retention"], "vacuum.retention is a code", "\n  override        --allow-retention-below"),
        (["delta.appendOnly"], "delta.appendOnly is a table property", "\n  default  false"),
        (["deletionVectors"], "deletionVectors is a table feature", "delta.enableDeletionVectors=true"),
        (["deletionVectors"], "deletionVectors is a table feature", "deltacli optimize TABLE --purge"),
        (["deletionVectors"], "deletionVectors is a table feature", "deltacli features TABLE drop deletionVectors"),
        (["exit-codes"], "Exit codes", "\n  0      meaning: done, or nothing to do\n         what to do: nothing\n"),
        (["exit", "codes"], "Exit codes", "\n  70     meaning: a bug\n         what to do: run the command again"),
        (
            ["formats"],
            "Formats",
            "\n  table                 output: aligned columns\n                        for: people\n",
        ),
        (["guards"], "Guards", "\n                                 override: --max-delete 100%, or a size:"),
        (["usage.where"], "usage.where is a code", "\n  what to do     deltacli help where "),
        (["restore.gap"], "restore.gap is a code", "\n  what to do     bring the missing commits "),
        (["recover.diverged"], "recover.diverged is a code", "\n  what to do     name another copy with --from; "),
        (["data"], "Rules and codes of data", "\n  data.file-missing               A live file is missing.\n"),
        (["log.*"], "Rules and codes of log\n\n  log.not-a-table ", "\n\n    deltacli help log\n"),
        (["paimon"], "Rules and codes of paimon", "\n  paimon.iceberg "),
        (["sharing"], "Rules and codes of share\n", "\n\n    deltacli help share\n"),
        (["append"], "Rules and codes of append\n", "\n  append.type "),
        (["s3"], "Credentials", "AWS_"),
        (["where"], "Conditions", "    deltacli read ./tbl --where"),
        (["--where"], "Option --where\n\n  --where CONDITION  ", "  commands           changes, read, "),
        (["where"], "Conditions", "\nOption --where\n"),
        (["no-pager"], "Option --no-pager", "\n  commands    all\n"),
        (["--config"], "Option --config", "\n  commands       all others\n"),
        (
            ["--output"],
            "Option --output",
            "\n  commands            changes, read, snapshot, share changes, share head\n",
        ),
        (["-q"], "Option -q", "  -q, --quiet  "),
        (["3"], "Exit code 3", "\n  commands           all except completion, fleet check, "),
        (["8"], "Exit code 8", "\n  commands    alter, clone, convert, copy, features, "),
        (["1"], "Exit code 1", "\n  deltacli fleet check          the policy file has errors\n"),
        (["130"], "Signals", "Ctrl-C"),
        (["json"], "Documents", "\nOption --json\n"),
        (["config"], "Configuration file", "DELTACLI_CONFIG"),
        (["time"], "Sizes, durations and times", "RFC 3339"),
        (["help"], "Help", "\n  exit-codes "),
        (["sizes"], "Sizes, durations and times", "10GiB (1,024 bytes per KiB)"),
        (["environment"], "Environment and configuration", "\n  NO_COLOR  "),
        (["commit.empty"], "commit.empty  error  log", "\n  exit code       3\n"),
        (["iceberg"], "typewidening.iceberg", "\n"),
        (["magic"], "dv.magic  error  footers", ""),
        (["topics"], "Help", "\n  exit-codes "),
        (["rules"], "Option --list-rules", "\n  commands      validate\n"),
        (["errors"], "Exit codes", "\n  3 "),
        (["time", "travel"], "First commands", "\n    deltacli read ./tbl --version 8\n"),
        (["commands"], "First commands", "\n    deltacli history ./tbl\n"),
        (["baseline"], "baseline, in docs/glossary.md\n\n  a file of findings that validate accepts", ""),
        (["deletion", "vector"], "deletion vector, in docs/glossary.md\n\n  a list of deleted rows", ""),
        (["hint"], "hint, in docs/glossary.md\n", "\nRules and codes of hint\n"),
        (["tombstone"], "tombstone, in docs/glossary.md\n", "\n  default  interval 1 week\n"),
        (["glossary"], "Glossary\n", "\n  - tombstone: the record of a file"),
        (["tasks"], "First commands", "\n    # How do I undo a mistake?\n    deltacli restore ./tbl --version 8\n"),
    ],
)
def test_help_explains_codes_properties_features_and_topics(words: list[str], beginning: str, part: str) -> None:
    shown = deltacli("help", *words)

    assert (0, "") == (shown.code, shown.err)
    assert shown.out.startswith(beginning)
    assert not shown.out.endswith("\n\n\n")
    assert part in shown.out
    prose = [line for line in shown.out.splitlines() if not re.match(r"    (?:    )?\S", line)]
    assert max(map(len, prose)) <= 80
    assert not re.search("<!--|```|[|] ", "".join(prose))


def test_help_on_a_rule_says_once_what_to_do() -> None:
    shown = deltacli("help", "data.file-missing").out

    assert ("\n    fix      " in shown, "  what to do  " in shown) == (True, False)


def rows_of(topic: Topic) -> tuple[tuple[str, str], ...]:
    """Return the labels and texts of the topic of a code."""
    definitions = topic.blocks[0]
    assert isinstance(definitions, Definitions)
    return definitions.rows


def test_help_on_a_code_says_what_to_do_in_general_and_labels_what_is_so_in_spark() -> None:
    topics = read_topics()
    advice = {
        name: [text for label, text in rows_of(topic) if label == "what to do"]
        for name, topic in topics.items()
        if topic.is_code and name.partition(".")[0] in ("append", "share", "spark", "stream", "table")
    }

    shown = deltacli("help", "table.version-absent").out
    assert "\n  what to do     deltacli reach TABLE" in shown
    assert "\n  in Spark       where a commit" in shown
    assert max(map(len, advice.values())) == 1
    assert not re.search(r"\bsee (above|[A-Z])", f"{advice}")
    assert advice["append.partition-value"][0].startswith("append with another engine")
    assert advice["stream.offset"][0].startswith("use the options and the source that the checkpoint was made with")


def test_help_on_every_code_says_once_what_to_do_with_commands_that_exist() -> None:
    rules = {*CATALOGUE.rules, *PAIMON_CATALOGUE.rules}
    topics = read_topics()
    advice = {
        name: [text for label, text in rows_of(topic) if label == "what to do"]
        for name, topic in topics.items()
        if topic.is_code and name not in rules
    }
    declared = {code for rows in read_error_codes().values() for row in rows for code in row.codes if "*" not in code}
    asked = {(path, option) for path, option in _asked_of_commands(ERRORS) if option not in _options_of(path)}

    assert [] == [name for name, texts in advice.items() if len(texts) != 1]
    assert set() == declared - rules - set(advice)
    assert set() == asked


def _asked_of_commands(page: str) -> Iterator[tuple[str, str]]:
    """Yield each option of each command in a page; a command that does not exist has the option "no command"."""
    for span in re.findall(r"`deltacli ([^`]+)`", page):
        words = span.split()
        path = next((" ".join(words[:depth]) for depth in (3, 2, 1) if " ".join(words[:depth]) in COMMANDS), "")
        if path == "" and words[0] not in ("help", "--version"):
            yield span, "no command"
        yield from ((path, word) for word in words if word.startswith("-") and path)


def _options_of(path: str) -> set[str]:
    return {
        name
        for of, spelled, _ in option_index.list_options()
        if of in ("", path)
        for name in help_page.names_in(spelled)
    }


def test_help_on_an_unknown_word_names_the_nearest() -> None:
    shown = deltacli("help", "vacuum.retentoin")

    assert (2, "hint: deltacli help vacuum.retention") == (shown.code, shown.err.splitlines()[-1])
    assert "hint: deltacli help topics\n" in deltacli("help", "qqqqqqq").err
    assert "did you mean 'config' or 'conflict' or '--config'?" in deltacli("help", "conflig").err
    assert "hint: deltacli help --where\n" in deltacli("help", "--wher").err


def test_help_on_an_unknown_word_names_nothing_that_is_far_from_it() -> None:
    for word in ("docker", "install"):
        assert "did you mean" not in deltacli("help", word).err
    assert "--no-listing" not in deltacli("help", "nothing").err


@pytest.mark.parametrize(
    ("words", "same"),
    [
        (["log expire"], ["log", "expire"]),
        (["VACUUM"], ["vacuum"]),
        (["LOG", "Expire"], ["log", "expire"]),
        (["LOG.GAP"], ["log.gap"]),
        (["Delta.AppendOnly"], ["delta.appendOnly"]),
        (["--Where"], ["--where"]),
    ],
    ids=" ".join,
)
def test_help_takes_words_in_quotes_and_in_another_case(words: list[str], same: list[str]) -> None:
    shown = deltacli("help", *words)

    assert (0, "") == (shown.code, shown.err)
    assert deltacli("help", *same).out == shown.out


@pytest.mark.parametrize("given", [["--color", "never"], ["--no-pager"], ["-q"]], ids=" ".join)
@pytest.mark.parametrize("words", [["--where"], ["log"], ["log", "expire"], ["log.gap"], []], ids=" ".join)
def test_global_options_before_help_change_nothing(given: list[str], words: list[str]) -> None:
    shown = deltacli(*given, "help", *words)

    assert (0, "") == (shown.code, shown.err)
    assert deltacli("help", *words).out == shown.out


@pytest.mark.parametrize(
    "given", [["--now", "2026-01-01"], ["--color", "never", "-q"], ["--color=never"]], ids=" ".join
)
@pytest.mark.parametrize("words", [["log.gap"], ["5"], ["vacuum"], ["--where"]], ids=" ".join)
def test_values_of_options_behind_a_word_are_no_words(given: list[str], words: list[str]) -> None:
    shown = deltacli("help", *words, *given)

    assert (0, "") == (shown.code, shown.err)
    assert deltacli("help", *words).out == shown.out


@pytest.mark.halved
def test_help_is_found_behind_global_options_and_names_the_kinds_of_its_words() -> None:
    assert deltacli("help", "config").out == deltacli("--no-pager", "help", "config").out
    shown = deltacli("help").out.split("\nHelp:\n")[1]
    words = re.findall(r"^  deltacli help (\S+)(?:  |$)", shown, re.MULTILINE)
    assert 8 == len(words)
    assert [0] * 8 == [deltacli("help", word).code for word in words]


def test_optional_arguments_have_one_pair_of_brackets() -> None:
    assert [] == [name for name, page in PAGES.items() if "[[" in " ".join(page.usage)]
    assert "Usage: deltacli features [OPTIONS] TABLE [add|drop] [NAME]...\n" in deltacli("features", "--help").out


def test_output_names_formats_only_where_there_are_several() -> None:
    cat, history = deltacli("log", "cat", "--help-all").out, deltacli("history", "--help-all").out

    assert ("chooses the" in cat, "chooses the" in history) == (False, True)


def test_commands_say_when_they_exit_with_1() -> None:
    assert "\n  1   findings: the schemas differ\n" in deltacli("schema", "diff", "--help").out
    assert "\n  1   " not in deltacli("share", "profile", "show", "--help").out


def test_help_lists_exit_codes_in_their_order() -> None:
    codes = {command.name: [*read_exit_codes(command.epilog)] for command in describe_commands()}

    assert [] == [name for name, listed in codes.items() if listed != [code for code in EXIT_CODES if code in listed]]
    assert [] == [name for name, listed in codes.items() if not {0, 2, 70} <= {*listed}]


def test_an_exit_code_says_what_it_means_for_each_command_where_that_differs() -> None:
    partly, page = deltacli("help", "5").out, deltacli("fleet", "plan", "--help").out
    lines = page.split("Exit codes:\n")[1].splitlines()

    assert "\n  deltacli fleet plan       a table or a directory could not be read, or a step\n" in partly
    assert "  5   partly done: a table or a directory could not be read, or a step planned" in lines
    assert "\n  deltacli validate  nothing at a path, or a table that cannot be checked\n" in deltacli("help", "3").out
    assert "  3   unreadable: nothing at a path, or a table" in deltacli("validate", "--help").out


def test_every_page_with_a_table_of_codes_is_one_that_help_reads() -> None:
    codes = re.compile(r"^\| code \|.*\n.*\n\| (?:<a id=[^>]*></a>)?\[?`[a-z]", re.MULTILINE)
    pages = {path.name for path in (ROOT / "docs").glob("*.md") if codes.search(path.read_text(encoding="utf-8"))}

    assert "errors.md" in pages
    assert set() == pages - {*PAGES_OF_HELP}


def test_help_explains_every_code_of_the_documentation() -> None:
    topics = read_topics()
    codes = {code for rows in read_error_codes().values() for row in rows if row.exit for code in row.codes}

    assert 300 < len(codes)
    assert set() == codes - set(topics)


@pytest.mark.parametrize(
    ("command", "former", "today"),
    [(name, *pair) for name, names in FORMER_OPTIONS.items() for pair in names.items()],
)
def test_former_names_of_options_work_and_are_not_shown(command: str, former: str, today: str) -> None:
    shown = deltacli(*command.split(), "--help-all").out
    asked = deltacli(*command.split(), "/nope#a.b.c", f"{former}=x")

    assert former not in shown.replace(",", " ").split()
    assert today in shown
    assert today in asked.err
    assert former not in asked.err


def test_the_parts_of_a_change_are_not_under_execution() -> None:
    sections = next(one for one in describe_commands() if one.name == "alter").sections
    names = {heading: {option.spellings[-1] for option in options} for heading, options in sections.items()}

    parts = {"--comment", "--default", "--position", "--keep-nullability", "--drop", "--none", "--with-options"}
    assert parts <= names[OptionHeading.SELECTION]
    assert "--allow-lossy" in names[OptionHeading.SAFETY]


@pytest.mark.parametrize(("command", "types"), [("alter", POSSIBLE), ("widen-type", WIDER_TYPES)])
def test_help_and_documentation_name_the_types_that_errors_name(command: str, types: str) -> None:
    shown = next(one for one in describe_commands() if one.name == command).help

    assert types in " ".join(shown.split())
    assert types in (ROOT / "docs" / f"{command}.md").read_text()


def test_help_has_variables_and_words_of_beginners_without_marks_of_markdown() -> None:
    assert "default of --format" in deltacli("help", "DELTACLI_FORMAT").out
    assert deltacli("help", "cdf").out.startswith("delta.enableChangeDataFeed is a table property.")
    assert "*" not in deltacli("help", "permissions").out


@pytest.fixture(scope="module")
def whole() -> Json:
    return json.loads(deltacli("help", "all", "--format", "json").out)


def test_help_all_is_one_document_that_fits_its_schema(whole: Json) -> None:
    schema = json.loads((ROOT / "docs" / "schemas" / "deltacli.help-all.json").read_text(encoding="utf-8"))

    assert [] == [fault.message for fault in Draft202012Validator(schema).iter_errors(whole)]
    assert deltacli("help", "all", "--json").out == deltacli("--json", "help", "all").out
    assert [command.name for command in describe_commands()] == [command["name"] for command in whole["commands"]]
    for command, found in zip(describe_commands(), whole["commands"], strict=True):
        names = {one["name"] for one in (*found["options"], *whole["globalOptions"])}
        spelled = {
            next((name for name in one.spellings if name[:2] == "--"), one.spellings[-1]) for one in command.options
        }
        assert names == spelled
    assert [*map(str, EXIT_CODES)] == [str(one["code"]) for one in whole["exitCodes"]]
    assert 400 < len(whole["errors"])


def test_help_all_says_what_changes_a_table_and_how_one_agrees_to_it(whole: Json) -> None:
    found = {one["name"]: one for one in whole["commands"]}
    consent = {name: one["consent"] for name, one in found.items()}

    changing = {name for name, one in found.items() if one["changes"] == "table"}
    assert {name for name in found if 8 in {one["code"] for one in found[name]["exitCodes"]}} <= changing
    assert {name for name, modes in consent.items() if "dry-run" in modes} <= {
        name for name, one in found.items() if one["changes"]
    }
    assert {"fleet run"} == {name for name in changing if "dry-run" not in consent[name]}
    assert ["dry-run", "yes", "save-plan", "apply"] == consent["vacuum"]
    assert ["yes-to-delete"] == consent["fleet run"]
    assert (None, "files") == (found["validate"]["changes"], found["share token create"]["changes"])


def test_help_all_describes_an_option_and_an_error(whole: Json) -> None:
    (vacuum,) = (one for one in whole["commands"] if one["name"] == "vacuum")
    options = {one["name"]: one for one in (*vacuum["options"], *whole["globalOptions"])}
    (gap,) = (one for one in whole["errors"] if one["code"] == "vacuum.retention")

    retention = options["--retention"]
    assert ("duration", "selection", True) == (retention["type"], retention["group"], retention["common"])
    assert ("choice", "full", False) == tuple(options["--mode"][key] for key in ("type", "default", "common"))
    assert ["full", "lite"] == options["--mode"]["choices"]
    assert ("DELTACLI_FORMAT", "DELTACLI_COLOR") == (options["--format"]["env"], options["--color"]["env"])
    assert (True, False) == (options["--storage-option"]["secret"], options["--prefix"]["secret"])
    assert ("integer", ["-q"]) == (options["--threads"]["type"], options["--quiet"]["aliases"])
    assert ([4], True) == (gap["exit"], gap["wayOut"].startswith("omit --retention"))


NDJSON = (
    "history",
    "snapshot --files",
    "schema show",
    "changes --from 0",
    "validate",
    "vacuum --dry-run",
    "vacuum --explain part-x.parquet",
    "features",
    "restore --version 0 --dry-run",
    "repair --dry-run",
    "checkpoint --verify",
    "alter --dry-run add c int",
    "widen-type trip long --dry-run",
)


def test_the_lines_of_commands_are_those_that_help_all_names(
    whole: Json, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    make_sample(tmp_path / "tbl")
    monkeypatch.chdir(tmp_path)
    declared = {one["name"]: one["documents"] for one in whole["commands"]}
    stray = []

    for line in NDJSON:
        words = line.split()
        depth = next(depth for depth in (2, 1) if " ".join(words[:depth]) in declared)
        run([*words[:depth], "tbl", *words[depth:], "--format", "ndjson"])
        types = {json.loads(one)["type"] for one in capfdbinary.readouterr().out.splitlines()}
        if not types or not any(types <= {*one["lines"]} for one in declared[" ".join(words[:depth])]):
            stray.append((line, types))

    assert [] == stray


def test_help_all_for_people_has_a_line_per_command() -> None:
    shown = deltacli("help", "all")

    assert (0, "") == (shown.code, shown.err)
    assert len(describe_commands()) == len(shown.out.splitlines())
    assert "\nlog expire              Delete log files that no kept version needs.\n" in shown.out
    assert (2, "hint: deltacli help all --format json") == (
        (refused := deltacli("help", "all", "--format", "csv")).code,
        refused.err.splitlines()[-1],
    )


def test_common_options_begin_with_what_a_command_selects_and_the_consent() -> None:
    first = {
        name: [help_page.names_in(spelled)[-1] for spelled, _ in PAGES[name].common or ()]
        for name in ("vacuum", "restore", "history")
    }

    assert ["--retention", "--dry-run", "--yes"] == first["vacuum"][:3]
    assert ["--version", "--timestamp", "--from", "--where", "--dry-run", "--check", "--yes"] == first["restore"][:7]
    assert "--branch" == first["history"][-1]
    assert "unsupported reader feature" in help_text.fold(PAGES["vacuum"])
