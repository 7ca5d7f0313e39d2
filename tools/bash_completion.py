"""Generate the completion for bash: data of each command, and one function that parses the line."""

from __future__ import annotations

from deltacli.cli.described_commands import OF_TABLE, CompletionKind, DescribedCommand, DescribedValue

_WORDS = {kind: f"@{kind}" if kind in OF_TABLE else kind.value.upper() for kind in CompletionKind}

_HEAD = """\
# bash completion for deltacli, bash 3.2 and newer, with or without bash-completion; generated, do not edit.

# Options and arguments of a command: lines of `spellings;value;once|again;help`. A value is - (none), TEXT, FILE,
# DIRECTORY, OTHER (a version or a directory), the allowed words, or those that deltacli prints of the table: @versions,
# @columns and others.
_deltacli_load() {
    case $1 in
"""

_CODE = r"""    esac
}

# Set `kind` to the value of an option, empty for a flag.
_deltacli_kind_of() {
    local spellings value often help
    kind=''
    while IFS=';' read -r spellings value often help; do
        if [[ " $spellings " == *" $1 "* ]]; then
            [[ $value == - ]] || kind=$value
            return
        fi
    done <<<"$options"
}

# Parse the words before the cursor: the command, the options, the number of arguments, and an option that needs a
# value.
_deltacli_walk() {
    local word letter
    for word in "$@"; do
        if [[ -n $kind ]]; then
            kind=''
        elif [[ -n $no_options ]]; then
            given=$((given + 1))
            named+=("$word")
        elif [[ $word == -- ]]; then
            no_options=1
        elif [[ $word == --*=* ]]; then
            used+="${word%%=*} "
        elif [[ $word == --* ]]; then
            used+="$word "
            _deltacli_kind_of "$word"
        elif [[ $word == -?* ]]; then
            for ((letter = 1; letter < ${#word}; letter++)); do
                used+="-${word:letter:1} "
                _deltacli_kind_of "-${word:letter:1}"
                if [[ -n $kind ]]; then
                    ((letter == ${#word} - 1)) || kind=''
                    break
                fi
            done
        elif [[ $'\n'$commands == *$'\n'"$word;"* ]]; then
            path+="$word "
            _deltacli_load "$path"
        else
            given=$((given + 1))
            named+=("$word")
        fi
    done
}

# Offer lines of data that begin with the word, with their help if bash lists them.
_deltacli_offer() {
    local spellings value often help spelling found=() helps=() index width=0
    while IFS=';' read -r spellings value often help; do
        for spelling in $spellings; do
            [[ $often == once && $used == *" $spelling "* ]] && continue 2
        done
        for spelling in $spellings; do
            [[ $spelling == "$word"* ]] || continue
            found+=("$spelling")
            helps+=("$help")
            ((${#spelling} > width)) && width=${#spelling}
        done
    done <<<"$1"
    if ((${#found[@]} > 1)) && [[ ${COMP_TYPE:-9} == 63 ]]; then
        for ((index = 0; index < ${#found[@]}; index++)); do
            printf -v spelling "%-${width}s  %s" "${found[index]}" "${helps[index]}"
            COMPREPLY+=("${spelling:0:${COLUMNS:-80}-1}")
        done
    else
        COMPREPLY=("${found[@]}")
    fi
}

# Set `kind` to words of the table that was named before, which must be a local one; to TEXT where there are none.
_deltacli_words_of_table() {
    local one plain=()
    for one in "${named[@]}"; do
        [[ $one != \"*\" && $one != \'*\' ]] || one=${one:1:${#one}-2}
        [[ $one != '~/'* ]] || one=$HOME/${one:2}
        plain+=("${one//\\/}")
    done
    [[ $word != *=* ]] || plain+=("${word%%=*}=")
    kind=$(command deltacli --table-words "$1" "${plain[@]}" 2>/dev/null)
    kind=${kind:-TEXT}
}

# Offer values. readline replaces what follows its last word break, so the part before it is omitted.
_deltacli_offer_values() {
    local full=$2$word kept='' break head reply kind=$1 plain=${word//\\/} items=$word
    [[ $word != *\(* ]] || items=''  # the comma in decimal(12,2) separates no items
    [[ $kind != @versions && $kind != @points ]] || compopt -o nosort 2>/dev/null
    [[ $kind != @* ]] || _deltacli_words_of_table "${kind#@}"
    if [[ $kind == OTHER ]]; then
        kind=TEXT
        [[ $word != '' && $word != [0-9]* ]] || _deltacli_words_of_table versions
        if [[ $kind == TEXT ]]; then kind=DIRECTORY; else compopt -o nosort 2>/dev/null; fi
    fi
    for break in = :; do
        if [[ $COMP_WORDBREAKS == *$break* && $full == *$break* ]]; then
            head=${full%"${full##*"$break"}"}
            ((${#head} > ${#kept})) && kept=$head
        fi
    done
    while IFS='' read -r reply; do
        [[ -n $reply ]] || continue
        [[ $reply != *\(* ]] || printf -v reply %q "$reply"
        [[ $kind == FILE || $kind == DIRECTORY || $items != *,* || ",${items%,*}," != *",${reply##*,},"* ]] || continue
        reply=$2$reply
        COMPREPLY+=("${reply#"$kept"}")
    done < <(
        case $kind in
            TEXT) ;;
            FILE) compgen -f -- "$word" ;;
            DIRECTORY) compgen -d -- "$word" ;;
            *)
                if [[ $items == *,* ]]; then
                    compgen -P "${items%,*}," -W "$kind" -- "${items##*,}"
                else
                    compgen -W "$kind" -- "$plain"
                fi
                ;;
        esac
    )
    [[ ${#COMPREPLY[@]} != 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2>/dev/null
    [[ $kind != FILE && $kind != DIRECTORY ]] || compopt -o filenames 2>/dev/null
}

_deltacli() {
    local line=${COMP_LINE:0:COMP_POINT} words=() count=0 index piece rest
    # bash splits words at = and : too. Join them again as they are on the line.
    for ((index = 0; index <= COMP_CWORD; index++)); do
        rest=${line#"${line%%[![:blank:]]*}"}
        piece=${COMP_WORDS[index]}
        ((index < COMP_CWORD)) || piece=$rest
        if ((index == 0)) || [[ $rest != "$line" ]]; then
            words[count]=$piece
            count=$((count + 1))
        else
            words[count - 1]+=$piece
        fi
        line=${rest#"$piece"}
    done
    COMPREPLY=()
    local commands options arguments path='' used=' ' named=() kind='' given=0 no_options='' word=${words[count - 1]}
    _deltacli_load ''
    _deltacli_walk "${words[@]:1:count-2}"
    if [[ -n $kind ]]; then
        _deltacli_offer_values "$kind" ''
    elif [[ -z $no_options && $word == --*=* ]]; then
        _deltacli_kind_of "${word%%=*}"
        piece=${word%%=*}=
        word=${word#*=}
        [[ -z $kind ]] || _deltacli_offer_values "$kind" "$piece"
    elif [[ -z $no_options && $word == -* ]]; then
        _deltacli_offer "$options"
    elif [[ -n $commands ]]; then
        _deltacli_offer "$commands"
    else
        for ((index = 0; index < given; index++)); do
            [[ $arguments == again\;* ]] || arguments=${arguments#*$'\n'}
        done
        kind=${arguments%%$'\n'*}
        [[ -z $kind ]] || _deltacli_offer_values "${kind#*;}" ''
    fi
}

complete -F _deltacli deltacli
"""


def render_bash(root: DescribedCommand) -> str:
    """Return the completion file for bash."""
    return _HEAD + "".join(_case(command) for command in root.walk()) + _CODE


def _case(command: DescribedCommand) -> str:
    commands = [f"{child.path[-1]};-;again;{child.summary}" for child in command.children]
    options = [
        f"{' '.join(option.spellings)};{_value(option.value)};{'again' if option.repeatable else 'once'};{option.help}"
        for option in command.options
    ]
    arguments = [
        f"{'again' if argument.repeatable else 'once'};{_value(argument.value)}" for argument in command.arguments
    ]
    lines = [f"        {_quote(''.join(f'{word} ' for word in command.path))})"]
    for name, found in (("commands", commands), ("options", options), ("arguments", arguments)):
        text = "".join(f"{line}\n" for line in found)
        lines.append(f"            {name}={_quote(text)}")
    return "\n".join([*lines, "            ;;", ""])


def _value(value: DescribedValue | None) -> str:
    if value is None:
        return "-"
    return " ".join(value.choices) if value.kind is CompletionKind.CHOICE else _WORDS[value.kind]


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
