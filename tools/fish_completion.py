"""Generate the completion for fish: one `complete` line per option, with the condition under which it is offered."""

from __future__ import annotations

from deltacli.cli.described_commands import OF_TABLE, CompletionKind, DescribedCommand, DescribedOption, DescribedValue

_CODE = r"""
# Parse the words before the cursor: the command, the options, the number of arguments.
function __deltacli_read
    set -l line (commandline -cp)
    if set -q __deltacli_line; and test "$line" = "$__deltacli_line"
        return
    end
    set -g __deltacli_line $line
    set -g __deltacli_path ''
    set -g __deltacli_given
    set -g __deltacli_arguments 0
    set -g __deltacli_named
    set -l words (commandline -opc)
    set -l wants_value 0
    set -l no_options 0
    for word in $words[2..-1]
        if test $wants_value = 1
            set wants_value 0
        else if test $no_options = 1
            set __deltacli_arguments (math $__deltacli_arguments + 1)
            set -a __deltacli_named "$word"
        else if test "$word" = --
            set no_options 1
        else if string match -q -- '--*=*' "$word"
            set -a __deltacli_given (string replace -r '=.*' '' -- "$word")
        else if string match -q -- '--*' "$word"
            set -a __deltacli_given "$word"
            contains -- "$__deltacli_path:$word" $__deltacli_valued; and set wants_value 1
        else if string match -q -- '-?*' "$word"
            for letter in (string split '' -- (string sub -s 2 -- "$word"))
                set -a __deltacli_given "-$letter"
                set wants_value 0
                contains -- "$__deltacli_path:-$letter" $__deltacli_valued; and set wants_value 1
            end
        else if contains -- (string trim -- "$__deltacli_path $word") $__deltacli_commands
            set __deltacli_path (string trim -- "$__deltacli_path $word")
        else
            set __deltacli_arguments (math $__deltacli_arguments + 1)
            set -a __deltacli_named "$word"
        end
    end
    # Keep the option whose value is being typed, or its values would not be offered.
    test $wants_value = 1; and set -e __deltacli_given[-1]
end

# Whether the cursor is at this command, and none of these options was given.
function __deltacli_may
    __deltacli_read
    test "$__deltacli_path" = "$argv[1]"; or return 1
    for option in $argv[2..-1]
        contains -- $option $__deltacli_given; and return 1
    end
    return 0
end

# Whether the cursor is at this argument of this command; `+` means every argument from there on.
function __deltacli_argument
    __deltacli_may $argv[1]; or return 1
    if test "$argv[3]" = +
        test $__deltacli_arguments -ge $argv[2]
    else
        test $__deltacli_arguments -eq $argv[2]
    end
end

# Print words of the table that was named before.
function __deltacli_of_table
    __deltacli_read
    set -l named (string replace -r '^~/' "$HOME/" -- $__deltacli_named)
    set -a named (string replace -rf '=.*' '=' -- (commandline -ct))
    command deltacli --table-words $argv[1] $named 2>/dev/null | string replace -r '$' '\\t'
end

# Print versions of the table that was named before, else directories.
function __deltacli_other
    set -l word (commandline -ct)
    set -l found
    string match -qr '^([0-9]|$)' -- "$word"; and set found (__deltacli_of_table versions)
    if set -q found[1]
        printf '%s\n' $found
    else
        __fish_complete_directories "$word"
    end
end

# Leave out items that a list with commas has already.
function __deltacli_new
    for line in $argv
        set -l items (string split , -- (string replace -r '\t.*' '' -- "$line" | string replace -r '^--[^=]*=' ''))
        set -l last $items[-1]
        set -e items[-1]
        contains -- $last $items; or echo $line
    end
end

complete -c deltacli -f
"""


def render_fish(root: DescribedCommand) -> str:
    """Return the completion file for fish."""
    commands = [command for command in root.walk() if command.path]
    valued = [
        f"{command.name}:{spelling}"
        for command in root.walk()
        for option in command.options
        if option.value
        for spelling in option.spellings
    ]
    lines = [
        "# fish completion for deltacli; generated, do not edit.",
        "set -g __deltacli_commands " + " ".join(_quote(command.name) for command in commands),
        "set -g __deltacli_valued " + " ".join(_quote(name) for name in valued),
    ]
    return "\n".join(lines) + "\n" + _CODE + "".join(f"{line}\n" for line in _lines(root))


def _lines(root: DescribedCommand) -> list[str]:
    lines = []
    for command in root.walk():
        at = _argument(command.name)
        for child in command.children:
            lines.append(
                f"complete -c deltacli -n {_quote(f'__deltacli_argument {at} 0')}"
                f" -a {child.path[-1]} -d {_quote(child.summary)}"
            )
        for place, argument in enumerate(command.arguments):
            rest = " +" if argument.repeatable else ""
            words = _words(argument.value)
            if words:
                lines.append(f"complete -c deltacli -n {_quote(f'__deltacli_argument {at} {place}{rest}')} {words}")
        lines += [_option_line(at, option) for option in command.options]
    return lines


def _option_line(at: str, option: DescribedOption) -> str:
    given = "" if option.repeatable else " " + " ".join(option.spellings)
    spelled = " ".join(f"-l {name[2:]}" if name[:2] == "--" else f"-s {name[1:]}" for name in option.spellings)
    value = ""
    if option.value:
        value = " -r " + (_words(option.value) or "-f")
    return f"complete -c deltacli -n {_quote(f'__deltacli_may {at}{given}')} {spelled}{value} -d {_quote(option.help)}"


def _words(value: DescribedValue) -> str:
    """Return the arguments of `complete` that offer a value; none for free text.

    Each choice has a description of its own, an empty one, since fish repeats that of the option beside every value.
    """
    match value.kind:
        case CompletionKind.CHOICE if value.is_list:
            words = f"printf '%s\\t\\n' {' '.join(value.choices)}"
            offered = f'(__deltacli_new (__fish_complete_list , "{words}"))'
            return f"-f -a {_quote(offered)}"
        case CompletionKind.CHOICE:
            described = (f"{choice}\\t''" for choice in value.choices)
            return f"-f -a {_quote(' '.join(described))}"
        case CompletionKind.FILE:
            return "-F"
        case CompletionKind.DIRECTORY:
            return "-f -a '(__fish_complete_directories (commandline -ct))'"
        case CompletionKind.OTHER:
            return "-f -k -a '(__deltacli_other)'"
        case kind if kind in OF_TABLE:
            words = f"__deltacli_of_table {kind}"
            listed = f"__deltacli_new (__fish_complete_list , {_argument(words)})"
            return f"-f -k -a {_quote(f'({listed if value.is_list else words})')}"
        case _:
            return ""


def _argument(name: str) -> str:
    return f'"{name}"'


def _quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
