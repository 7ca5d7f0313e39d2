# bash completion for deltacli; generated, do not edit.
_deltacli() {
    local word="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" command="" index
    for ((index = 1; index < COMP_CWORD; index++)); do
        case "${COMP_WORDS[index]}" in
            history|snapshot) command="${COMP_WORDS[index]}"; break ;;
        esac
    done
    case "$previous" in
        --limit) return ;;
        --columns) return ;;
        --format) COMPREPLY=($(compgen -W "table json ndjson csv" -- "$word")); return ;;
        --output) COMPREPLY=($(compgen -f -- "$word")); return ;;
        --now) return ;;
        --storage-option) return ;;
        --table-format) COMPREPLY=($(compgen -W "delta paimon" -- "$word")); return ;;
        --config) COMPREPLY=($(compgen -f -- "$word")); return ;;
        --color) COMPREPLY=($(compgen -W "auto always never" -- "$word")); return ;;
        --progress) COMPREPLY=($(compgen -W "auto always never json" -- "$word")); return ;;
        --log-format) COMPREPLY=($(compgen -W "text json" -- "$word")); return ;;
        --version) return ;;
        --timestamp) return ;;
    esac
    case "$command" in
        history) if [[ "$word" == -* ]]; then COMPREPLY=($(compgen -W "--limit --counts --columns --format --json --output --now --storage-option --table-format --config --color --progress --log-format --no-pager -q --quiet -v --verbose" -- "$word")); else COMPREPLY=($(compgen -d -- "$word")); fi ;;
        snapshot) if [[ "$word" == -* ]]; then COMPREPLY=($(compgen -W "--version --timestamp --files --tombstones --schema --counts --digest --limit --columns --format --json --output --now --storage-option --table-format --config --color --progress --log-format --no-pager -q --quiet -v --verbose" -- "$word")); else COMPREPLY=($(compgen -d -- "$word")); fi ;;
        *) COMPREPLY=($(compgen -W "history snapshot --version --help" -- "$word")) ;;
    esac
}
complete -o filenames -F _deltacli deltacli
