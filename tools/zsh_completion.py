"""Generate the completion for zsh: one function per command, made of `_arguments` specifications."""

from __future__ import annotations

from deltacli.cli.described_commands import (
    OF_TABLE,
    CompletionKind,
    DescribedArgument,
    DescribedCommand,
    DescribedOption,
    DescribedValue,
)

_HEAD = """\
#compdef deltacli
# zsh completion for deltacli; generated, do not edit.

# Remove from `specs` the options that were given before the command.
_deltacli_leave_out_given() {
    local option
    for option in $given; do
        specs=("${(@)specs:#\\((|* )${option}(| *)\\)*}")
    done
}

# Offer words of the table that was named before, for an argument, an option, or a list with commas.
_deltacli_of_table() {
    local expl
    local -a found suffix named=("${(@Q)line}")
    named=("${(@)named/#\\~\\//$HOME/}")
    [[ $2 != argument ]] || named=("${(@)named[1,-2]}")  # without the word at the cursor
    [[ $PREFIX != *=* ]] || named+=("${PREFIX%%=*}=")
    found=(${(f)"$(command deltacli --table-words $1 "${(@)named}" 2>/dev/null)"})
    if [[ $2 == list ]]; then
        _sequence compadd - $found
    else
        [[ $found[1] != *= ]] || suffix=(-S '')
        _wanted -V words expl $1 compadd "$suffix[@]" -a found
    fi
}

# Offer versions of the table that was named before, else directories.
_deltacli_other() {
    [[ $PREFIX == (|[0-9]*) ]] && _deltacli_of_table versions argument || _files -/
}
"""

_TAIL = """\
if [[ $funcstack[1] == _deltacli ]]; then  # loaded from the function path
    _deltacli "$@"
else
    compdef _deltacli deltacli
fi
"""


def render_zsh(root: DescribedCommand) -> str:
    """Return the completion file for zsh."""
    functions = [_group(command) if command.children else _leaf(command) for command in root.walk()]
    return "\n".join([_HEAD, *functions, _TAIL])


def _leaf(command: DescribedCommand) -> str:
    specs = [spec for option in command.options for spec in _option_specs(option)]
    specs += [_argument_spec(place, argument) for place, argument in enumerate(command.arguments, 1)]
    return "\n".join(
        [
            f"{_function(command)}() {{",
            "    local -a specs",
            "    specs=(",
            *(f"        {spec}" for spec in specs),
            "    )",
            "    _deltacli_leave_out_given",
            '    _arguments -s -S "$specs[@]"',
            "}",
            "",
        ]
    )


def _group(command: DescribedCommand) -> str:
    specs = [spec for option in command.options for spec in _option_specs(option)]
    return "\n".join(
        [
            f"{_function(command)}() {{",
            '    local curcontext="$curcontext" context state state_descr ret=1',
            "    local -a line specs commands" + ("" if command.path else " given"),
            "    local -A opt_args",
            "    specs=(",
            *(f"        {spec}" for spec in specs),
            "    )",
            "    _deltacli_leave_out_given",
            "    _arguments -C -s -A '-*' \"$specs[@]\" '1:command:->command' '*::argument:->argument' && ret=0",
            "    given+=(${(k)opt_args})",
            "    case $state in",
            "        command)",
            "            commands=(",
            *(
                f"                {_quote(child.path[-1] + ':' + _escape(child.summary, ':'))}"
                for child in command.children
            ),
            "            )",
            "            _describe -t commands command commands && ret=0",
            "            ;;",
            "        argument)",
            '            curcontext="${curcontext%:*:*}:deltacli-$line[1]:"',
            "            case $line[1] in",
            *(f"                {child.path[-1]}) {_function(child)} && ret=0 ;;" for child in command.children),
            "            esac",
            "            ;;",
            "    esac",
            "    return ret",
            "}",
            "",
        ]
    )


def _function(command: DescribedCommand) -> str:
    return "_".join(("_deltacli", *(word.replace("-", "_") for word in command.path)))


def _option_specs(option: DescribedOption) -> list[str]:
    before = "*" if option.repeatable else f"({' '.join(option.spellings)})"
    value = f":{_value(option.value)}" if option.value else ""
    return [
        _quote(f"{before}{name}{'=' if value and name[:2] == '--' else ''}[{_escape(option.help, '[]:')}]{value}")
        for name in option.spellings
    ]


def _argument_spec(place: int, argument: DescribedArgument) -> str:
    colon = ":" if argument.required or argument.repeatable else "::"  # *:: would end the completion of options
    return _quote(f"{'*' if argument.repeatable else place}{colon}{_value(argument.value, 'argument')}")


def _value(value: DescribedValue, role: str = "option") -> str:
    name = _escape(value.name, ":")
    match value.kind:
        case CompletionKind.CHOICE if value.is_list:
            return f"{name}:_sequence compadd - {' '.join(_escape(choice, ':') for choice in value.choices)}"
        case CompletionKind.CHOICE:
            return f"{name}:({' '.join(_escape(choice, ':') for choice in value.choices)})"
        case CompletionKind.FILE:
            return f"{name}:_files"
        case CompletionKind.DIRECTORY:
            return f"{name}:_files -/"
        case CompletionKind.OTHER:
            return f"{name}: _deltacli_other"
        case kind if kind in OF_TABLE:
            return f"{name}: _deltacli_of_table {kind} {'list' if value.is_list else role}"
        case _:
            return f"{name}: "


def _escape(text: str, special: str) -> str:
    return "".join(f"\\{character}" if character in special + "\\" else character for character in text)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
