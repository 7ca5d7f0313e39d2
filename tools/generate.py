"""Write what is made from the command tree: completions for three shells and the command reference.

`python -m tools.generate` writes, `--check` only says what differs (exit 1).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from deltacli.cli.app import build_app
from deltacli.errors import EXIT_CODES

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its spellings, the name of its value (None for a flag), the values it may take, and its help."""

    spellings: tuple[str, ...]
    metavar: str | None
    choices: tuple[str, ...]
    help: str

    @property
    def wants_file(self) -> bool:
        return self.metavar == "FILE"


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    summary: str
    help: str
    epilog: str
    options: tuple[Option, ...]


def read_commands() -> list[Command]:
    """Read the command tree."""
    group: Any = typer.main.get_command(build_app())  # Any: typer's own click
    return [_read_command(name, command) for name, command in sorted(group.commands.items())]


def _read_command(name: str, command: Any) -> Command:
    options = tuple(_read_option(parameter) for parameter in command.params if parameter.param_type_name == "option")
    text = re.sub(r"\n?\x08\n?", "\n", command.help or "")
    summary = text.strip().split("\n\n")[0].replace("\n", " ")
    return Command(name, summary, text.strip(), (command.epilog or "").replace("\b\n", "").strip(), options)


def _read_option(parameter: Any) -> Option:
    choices = tuple(str(choice) for choice in getattr(parameter.type, "choices", ()))
    metavar = None if parameter.is_flag or parameter.count else (parameter.metavar or "VALUE")
    help_text = re.sub(r"\s+\[default: [^]]*\]", "", parameter.help or "")
    return Option((*parameter.opts, *parameter.secondary_opts), metavar, choices, help_text)


def render_bash(commands: list[Command]) -> str:
    """Completion for bash: commands, options, their values, files."""
    names = " ".join(command.name for command in commands)
    lines = ["# bash completion for deltacli; generated, do not edit.", "_deltacli() {"]
    lines += [
        '    local word="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" command="" index',
        "    for ((index = 1; index < COMP_CWORD; index++)); do",
        '        case "${COMP_WORDS[index]}" in',
        f'            {names.replace(" ", "|")}) command="${{COMP_WORDS[index]}}"; break ;;',
        "        esac",
        "    done",
        '    case "$previous" in',
    ]
    for option in _distinct(commands):
        pattern = "|".join(option.spellings)
        if option.choices:
            lines.append(
                f'        {pattern}) COMPREPLY=($(compgen -W "{" ".join(option.choices)}" -- "$word")); return ;;'
            )
        elif option.wants_file:
            lines.append(f'        {pattern}) COMPREPLY=($(compgen -f -- "$word")); return ;;')
        elif option.metavar:
            lines.append(f"        {pattern}) return ;;")
    lines += ["    esac", '    case "$command" in']
    for command in commands:
        words = " ".join(spelling for option in command.options for spelling in option.spellings)
        lines.append(
            f'        {command.name}) if [[ "$word" == -* ]]; then COMPREPLY=($(compgen -W "{words}" -- "$word"));'
            ' else COMPREPLY=($(compgen -d -- "$word")); fi ;;'
        )
    lines += [f'        *) COMPREPLY=($(compgen -W "{names} --version --help" -- "$word")) ;;', "    esac", "}"]
    lines.append("complete -o filenames -F _deltacli deltacli")
    return "\n".join(lines) + "\n"


def render_zsh(commands: list[Command]) -> str:
    """Completion for zsh: the same, with the help beside each word."""
    lines = [
        "#compdef deltacli",
        "# zsh completion for deltacli; generated, do not edit.",
        "_deltacli() {",
        "    local context state line",
    ]
    lines += [
        "    _arguments -C '(-V --version)'{-V,--version}'[print the version]' '(-h --help)'{-h,--help}'[explain]' \\",
        "        '1:command:->command' '*::argument:->argument'",
    ]
    lines += ["    case $state in", "        command)", "            local -a commands=("]
    lines += [f"                '{command.name}:{_zsh(command.summary)}'" for command in commands]
    lines += [
        "            )",
        "            _describe command commands ;;",
        "        argument)",
        "            case $line[1] in",
    ]
    for command in commands:
        lines.append(f"                {command.name}) _arguments \\")
        lines += [f"                    {_zsh_option(option)} \\" for option in command.options]
        lines.append("                    '1:table:_files -/' ;;")
    lines += ["            esac ;;", "    esac", "}", '_deltacli "$@"']
    return "\n".join(lines) + "\n"


def _zsh_option(option: Option) -> str:
    value = f":{option.metavar}:" if option.metavar else ""
    if option.choices:
        value += f"({' '.join(option.choices)})"
    elif option.wants_file:
        value += "_files"
    spelled = option.spellings[0] if len(option.spellings) == 1 else "{" + ",".join(option.spellings) + "}"
    return f"{spelled}'[{_zsh(option.help)}]{value}'"


def _zsh(text: str) -> str:
    return text.replace("'", "").replace("[", "(").replace("]", ")").replace(":", "\\:")


def render_fish(commands: list[Command]) -> str:
    """Completion for fish."""
    names = " ".join(command.name for command in commands)
    lines = ["# fish completion for deltacli; generated, do not edit.", "complete -c deltacli -f"]
    for command in commands:
        lines.append(
            f"complete -c deltacli -n 'not __fish_seen_subcommand_from {names}'"
            f" -a {command.name} -d {_fish(command.summary)}"
        )
        lines.append(
            f"complete -c deltacli -n '__fish_seen_subcommand_from {command.name}' -a '(__fish_complete_directories)'"
        )
        for option in command.options:
            spelled = " ".join(
                f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.spellings
            )
            value = (
                f" -x -a {_fish(' '.join(option.choices))}"
                if option.choices
                else " -r" + (" -F" if option.wants_file else " -f")
                if option.metavar
                else ""
            )
            lines.append(
                f"complete -c deltacli -n '__fish_seen_subcommand_from {command.name}'"
                f" {spelled}{value} -d {_fish(option.help)}"
            )
    return "\n".join(lines) + "\n"


def _fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def render_reference(commands: list[Command]) -> str:
    """The command reference, in Markdown."""
    lines = ["# Commands", "", "Generated from the command tree; `deltacli COMMAND --help` says the same.", ""]
    for command in commands:
        lines += [
            f"## `deltacli {command.name} TABLE`",
            "",
            "```text",
            command.help,
            "```",
            "",
            "| option | meaning |",
            "|---|---|",
        ]
        for option in command.options:
            spelled = ", ".join(option.spellings) + (f" {option.metavar}" if option.metavar else "")
            lines.append(
                f"| `{spelled}` ".replace("|", "\\|").replace("\\|", "|", 1)
                + f"| {option.help.replace('|', chr(92) + '|')} |"
            )
        lines += ["", "```text", command.epilog, "```", ""]
    lines += [
        "## Exit codes",
        "",
        "| code | meaning |",
        "|---|---|",
        *(f"| {code} | {text} |" for code, text in EXIT_CODES.items()),
    ]
    lines += ["| 128+N | signal N |", ""]
    return "\n".join(lines)


def _distinct(commands: list[Command]) -> Iterator[Option]:
    seen: set[tuple[str, ...]] = set()
    for command in commands:
        for option in command.options:
            if option.spellings not in seen:
                seen.add(option.spellings)
                yield option


def files() -> dict[str, str]:
    """Every generated file with its content."""
    commands = read_commands()
    return {
        "completions/deltacli.bash": render_bash(commands),
        "completions/_deltacli": render_zsh(commands),
        "completions/deltacli.fish": render_fish(commands),
        "docs/commands.md": render_reference(commands),
    }


def main(arguments: list[str]) -> int:
    """Write the files, or with `--check` name those that differ."""
    stale = []
    for name, content in files().items():
        path = ROOT / name
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            stale.append(name)
            if "--check" not in arguments:
                path.write_text(content, encoding="utf-8")
    for name in stale:
        sys.stdout.write(f"{'differs' if '--check' in arguments else 'wrote'}  {name}\n")
    if stale and "--check" in arguments:
        sys.stdout.write("run: python3 dev.py generate\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
