# fish completion for deltacli; generated, do not edit.
set -g __deltacli_commands 'checkpoint' 'history' 'log' 'log backup' 'log cat' 'log compact' 'log crc' 'log expire' 'log restore' 'snapshot' 'validate'
set -g __deltacli_valued ':--format' ':--output' ':--now' ':--storage-option' ':--table-format' ':--config' ':--color' ':--progress' ':--log-format' 'checkpoint:--version' 'checkpoint:--layout' 'checkpoint:--parts' 'checkpoint:--rows-per-file' 'checkpoint:--v2-top' 'checkpoint:--stats' 'checkpoint:--if-behind' 'checkpoint:--format' 'checkpoint:--output' 'checkpoint:--now' 'checkpoint:--storage-option' 'checkpoint:--table-format' 'checkpoint:--config' 'checkpoint:--color' 'checkpoint:--progress' 'checkpoint:--log-format' 'history:--limit' 'history:--columns' 'history:--format' 'history:--output' 'history:--now' 'history:--storage-option' 'history:--table-format' 'history:--config' 'history:--color' 'history:--progress' 'history:--log-format' 'log:--format' 'log:--output' 'log:--now' 'log:--storage-option' 'log:--table-format' 'log:--config' 'log:--color' 'log:--progress' 'log:--log-format' 'log backup:--format' 'log backup:--output' 'log backup:--now' 'log backup:--storage-option' 'log backup:--table-format' 'log backup:--config' 'log backup:--color' 'log backup:--progress' 'log backup:--log-format' 'log cat:--actions' 'log cat:--format' 'log cat:--output' 'log cat:--now' 'log cat:--storage-option' 'log cat:--table-format' 'log cat:--config' 'log cat:--color' 'log cat:--progress' 'log cat:--log-format' 'log compact:--from' 'log compact:--to' 'log compact:--format' 'log compact:--output' 'log compact:--now' 'log compact:--storage-option' 'log compact:--table-format' 'log compact:--config' 'log compact:--color' 'log compact:--progress' 'log compact:--log-format' 'log crc:--version' 'log crc:--format' 'log crc:--output' 'log crc:--now' 'log crc:--storage-option' 'log crc:--table-format' 'log crc:--config' 'log crc:--color' 'log crc:--progress' 'log crc:--log-format' 'log expire:--retention' 'log expire:--keep-versions' 'log expire:--allow-retention-below' 'log expire:--format' 'log expire:--output' 'log expire:--now' 'log expire:--storage-option' 'log expire:--table-format' 'log expire:--config' 'log expire:--color' 'log expire:--progress' 'log expire:--log-format' 'log restore:--format' 'log restore:--output' 'log restore:--now' 'log restore:--storage-option' 'log restore:--table-format' 'log restore:--config' 'log restore:--color' 'log restore:--progress' 'log restore:--log-format' 'snapshot:--version' 'snapshot:--timestamp' 'snapshot:--limit' 'snapshot:--columns' 'snapshot:--format' 'snapshot:--output' 'snapshot:--now' 'snapshot:--storage-option' 'snapshot:--table-format' 'snapshot:--config' 'snapshot:--color' 'snapshot:--progress' 'snapshot:--log-format' 'validate:--level' 'validate:--select' 'validate:--ignore' 'validate:--fail-on' 'validate:--baseline' 'validate:--write-baseline' 'validate:--profile' 'validate:--max-findings' 'validate:--format' 'validate:--output' 'validate:--now' 'validate:--storage-option' 'validate:--table-format' 'validate:--config' 'validate:--color' 'validate:--progress' 'validate:--log-format'

# Read the words before the cursor: the command, the options given, the number of arguments.
function __deltacli_read
    set -l line (commandline -cp)
    if set -q __deltacli_line; and test "$line" = "$__deltacli_line"
        return
    end
    set -g __deltacli_line $line
    set -g __deltacli_path ''
    set -g __deltacli_given
    set -g __deltacli_arguments 0
    set -l words (commandline -opc)
    set -l wants_value 0
    set -l no_options 0
    for word in $words[2..-1]
        if test $wants_value = 1
            set wants_value 0
        else if test $no_options = 1
            set __deltacli_arguments (math $__deltacli_arguments + 1)
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
        end
    end
    # The option whose value is being written must stay, or its values would not be offered.
    test $wants_value = 1; and set -e __deltacli_given[-1]
end

# Whether the line stands at this command, and none of these options was given.
function __deltacli_may
    __deltacli_read
    test "$__deltacli_path" = "$argv[1]"; or return 1
    for option in $argv[2..-1]
        contains -- $option $__deltacli_given; and return 1
    end
    return 0
end

# Whether the line stands at this argument of this command; `+` is every one from there on.
function __deltacli_argument
    __deltacli_may $argv[1]; or return 1
    if test "$argv[3]" = +
        test $__deltacli_arguments -ge $argv[2]
    else
        test $__deltacli_arguments -eq $argv[2]
    end
end

complete -c deltacli -f
complete -c deltacli -n '__deltacli_argument "" 0' -a checkpoint -d 'Write a checkpoint, so that readers replay less.'
complete -c deltacli -n '__deltacli_argument "" 0' -a history -d 'Show who changed a table, when and how, newest first.'
complete -c deltacli -n '__deltacli_argument "" 0' -a log -d 'Care for the log of a table itself.'
complete -c deltacli -n '__deltacli_argument "" 0' -a snapshot -d 'Show the state of a table at a version.'
complete -c deltacli -n '__deltacli_argument "" 0' -a validate -d 'Check tables against the rules of the protocol.'
complete -c deltacli -n '__deltacli_may "" --format' -l format -r -f -a 'table json ndjson csv' -d 'Format of stdout.'
complete -c deltacli -n '__deltacli_may "" --json' -l json -d 'The same as --format json.'
complete -c deltacli -n '__deltacli_may "" --output' -l output -r -F -d 'Write the result there, atomically, instead of stdout.'
complete -c deltacli -n '__deltacli_may "" --now' -l now -r -f -d 'The clock, for reproducible runs.'
complete -c deltacli -n '__deltacli_may ""' -l storage-option -r -f -d 'Passed to the store; K=@FILE reads the value from a file. Repeatable.'
complete -c deltacli -n '__deltacli_may "" --table-format' -l table-format -r -f -a 'delta paimon' -d 'Do not detect the format.'
complete -c deltacli -n '__deltacli_may "" --config' -l config -r -F -d 'Defaults for these options, as TOML.'
complete -c deltacli -n '__deltacli_may "" --color' -l color -r -f -a 'auto always never' -d 'Colour on stdout.'
complete -c deltacli -n '__deltacli_may "" --progress' -l progress -r -f -a 'auto always never json' -d 'Progress on stderr; auto: on a terminal.'
complete -c deltacli -n '__deltacli_may "" --log-format' -l log-format -r -f -a 'text json' -d 'Notes and errors on stderr; default: json with --format json or ndjson, else text.'
complete -c deltacli -n '__deltacli_may "" --no-pager' -l no-pager -d 'Never show a long result in a pager.'
complete -c deltacli -n '__deltacli_may "" -q --quiet' -s q -l quiet -d 'No notes and no progress on stderr.'
complete -c deltacli -n '__deltacli_may ""' -s v -l verbose -d 'Say more on stderr; -vv adds tracebacks.'
complete -c deltacli -n '__deltacli_may "" -V --version' -s V -l version -d 'Print the version and leave.'
complete -c deltacli -n '__deltacli_may "" -h --help' -s h -l help -d 'Show this message and exit.'
complete -c deltacli -n '__deltacli_argument "checkpoint" 0' -f -a '(__fish_complete_directories (commandline -ct))'
complete -c deltacli -n '__deltacli_may "checkpoint" --version' -l version -r -f -d 'The snapshot of this version.'
complete -c deltacli -n '__deltacli_may "checkpoint" --layout' -l layout -r -f -a 'auto classic multi-part v2' -d 'The form; auto: as the table\'s policy says.'
complete -c deltacli -n '__deltacli_may "checkpoint" --parts' -l parts -r -f -d 'Files of a multi-part checkpoint.'
complete -c deltacli -n '__deltacli_may "checkpoint" --rows-per-file' -l rows-per-file -r -f -d 'Actions in a sidecar or part.'
complete -c deltacli -n '__deltacli_may "checkpoint" --v2-top' -l v2-top -r -f -a 'json parquet' -d 'The file that names the sidecars of V2.'
complete -c deltacli -n '__deltacli_may "checkpoint" --stats' -l stats -r -f -a 'keep json struct both' -d 'Columns of statistics; keep: as the properties say, else as the last checkpoint had them.'
complete -c deltacli -n '__deltacli_may "checkpoint" --if-behind' -l if-behind -r -f -d 'Do nothing before N commits have come since the last checkpoint.'
complete -c deltacli -n '__deltacli_may "checkpoint" --force' -l force -d 'Write it again where a complete one of this version and form is.'
complete -c deltacli -n '__deltacli_may "checkpoint" --verify' -l verify -d 'Compare the checkpoints there are with the log; write nothing.'
complete -c deltacli -n '__deltacli_may "checkpoint" --dry-run' -l dry-run -d 'Say what would be written, and write nothing.'
complete -c deltacli -n '__deltacli_may "checkpoint" --format' -l format -r -f -a 'table json ndjson csv' -d 'Format of stdout.'
complete -c deltacli -n '__deltacli_may "checkpoint" --json' -l json -d 'The same as --format json.'
complete -c deltacli -n '__deltacli_may "checkpoint" --output' -l output -r -F -d 'Write the result there, atomically, instead of stdout.'
complete -c deltacli -n '__deltacli_may "checkpoint" --now' -l now -r -f -d 'The clock, for reproducible runs.'
complete -c deltacli -n '__deltacli_may "checkpoint"' -l storage-option -r -f -d 'Passed to the store; K=@FILE reads the value from a file. Repeatable.'
complete -c deltacli -n '__deltacli_may "checkpoint" --table-format' -l table-format -r -f -a 'delta paimon' -d 'Do not detect the format.'
complete -c deltacli -n '__deltacli_may "checkpoint" --config' -l config -r -F -d 'Defaults for these options, as TOML.'
complete -c deltacli -n '__deltacli_may "checkpoint" --color' -l color -r -f -a 'auto always never' -d 'Colour on stdout.'
complete -c deltacli -n '__deltacli_may "checkpoint" --progress' -l progress -r -f -a 'auto always never json' -d 'Progress on stderr; auto: on a terminal.'
complete -c deltacli -n '__deltacli_may "checkpoint" --log-format' -l log-format -r -f -a 'text json' -d 'Notes and errors on stderr; default: json with --format json or ndjson, else text.'
complete -c deltacli -n '__deltacli_may "checkpoint" --no-pager' -l no-pager -d 'Never show a long result in a pager.'
complete -c deltacli -n '__deltacli_may "checkpoint" -q --quiet' -s q -l quiet -d 'No notes and no progress on stderr.'
complete -c deltacli -n '__deltacli_may "checkpoint"' -s v -l verbose -d 'Say more on stderr; -vv adds tracebacks.'
complete -c deltacli -n '__deltacli_may "checkpoint" -h --help' -s h -l help -d 'Show this message and exit.'
complete -c deltacli -n '__deltacli_argument "history" 0' -f -a '(__fish_complete_directories (commandline -ct))'
complete -c deltacli -n '__deltacli_may "history" --limit' -l limit -r -f -d 'Rows shown, 0 = all.'
complete -c deltacli -n '__deltacli_may "history" --counts' -l counts -d 'Read the file actions too, and count them and their bytes.'
complete -c deltacli -n '__deltacli_may "history" --columns' -l columns -r -f -d 'Only these columns, in this order.'
complete -c deltacli -n '__deltacli_may "history" --format' -l format -r -f -a 'table json ndjson csv' -d 'Format of stdout.'
complete -c deltacli -n '__deltacli_may "history" --json' -l json -d 'The same as --format json.'
complete -c deltacli -n '__deltacli_may "history" --output' -l output -r -F -d 'Write the result there, atomically, instead of stdout.'
complete -c deltacli -n '__deltacli_may "history" --now' -l now -r -f -d 'The clock, for reproducible runs.'
complete -c deltacli -n '__deltacli_may "history"' -l storage-option -r -f -d 'Passed to the store; K=@FILE reads the value from a file. Repeatable.'
complete -c deltacli -n '__deltacli_may "history" --table-format' -l table-format -r -f -a 'delta paimon' -d 'Do not detect the format.'
complete -c deltacli -n '__deltacli_may "history" --config' -l config -r -F -d 'Defaults for these options, as TOML.'
complete -c deltacli -n '__deltacli_may "history" --color' -l color -r -f -a 'auto always never' -d 'Colour on stdout.'
complete -c deltacli -n '__deltacli_may "history" --progress' -l progress -r -f -a 'auto always never json' -d 'Progress on stderr; auto: on a terminal.'
complete -c deltacli -n '__deltacli_may "history" --log-format' -l log-format -r -f -a 'text json' -d 'Notes and errors on stderr; default: json with --format json or ndjson, else text.'
complete -c deltacli -n '__deltacli_may "history" --no-pager' -l no-pager -d 'Never show a long result in a pager.'
complete -c deltacli -n '__deltacli_may "history" -q --quiet' -s q -l quiet -d 'No notes and no progress on stderr.'
complete -c deltacli -n '__deltacli_may "history"' -s v -l verbose -d 'Say more on stderr; -vv adds tracebacks.'
complete -c deltacli -n '__deltacli_may "history" -h --help' -s h -l help -d 'Show this message and exit.'
complete -c deltacli -n '__deltacli_argument "log" 0' -a backup -d 'Copy the log of a table, and keep the copy up to date.'
complete -c deltacli -n '__deltacli_argument "log" 0' -a cat -d 'Write the raw actions of a version, one a line.'
complete -c deltacli -n '__deltacli_argument "log" 0' -a compact -d 'Write a log compaction: commits X to Y in one file.'
complete -c deltacli -n '__deltacli_argument "log" 0' -a crc -d 'Write the version checksum that is missing, or compare the one there is.'
complete -c deltacli -n '__deltacli_argument "log" 0' -a expire -d 'Delete what of the log no kept version needs.'
complete -c deltacli -n '__deltacli_argument "log" 0' -a restore -d 'Put back what a backup has and the log of a table lacks.'
complete -c deltacli -n '__deltacli_may "log" --format' -l format -r -f -a 'table json ndjson csv' -d 'Format of stdout.'
complete -c deltacli -n '__deltacli_may "log" --json' -l json -d 'The same as --format json.'
complete -c deltacli -n '__deltacli_may "log" --output' -l output -r -F -d 'Write the result there, atomically, instead of stdout.'
complete -c deltacli -n '__deltacli_may "log" --now' -l now -r -f -d 'The clock, for reproducible runs.'
complete -c deltacli -n '__deltacli_may "log"' -l storage-option -r -f -d 'Passed to the store; K=@FILE reads the value from a file. Repeatable.'
complete -c deltacli -n '__deltacli_may "log" --table-format' -l table-format -r -f -a 'delta paimon' -d 'Do not detect the format.'
complete -c deltacli -n '__deltacli_may "log" --config' -l config -r -F -d 'Defaults for these options, as TOML.'
complete -c deltacli -n '__deltacli_may "log" --color' -l color -r -f -a 'auto always never' -d 'Colour on stdout.'
complete -c deltacli -n '__deltacli_may "log" --progress' -l progress -r -f -a 'auto always never json' -d 'Progress on stderr; auto: on a terminal.'
complete -c deltacli -n '__deltacli_may "log" --log-format' -l log-format -r -f -a 'text json' -d 'Notes and errors on stderr; default: json with --format json or ndjson, else text.'
complete -c deltacli -n '__deltacli_may "log" --no-pager' -l no-pager -d 'Never show a long result in a pager.'
complete -c deltacli -n '__deltacli_may "log" -q --quiet' -s q -l quiet -d 'No notes and no progress on stderr.'
complete -c deltacli -n '__deltacli_may "log"' -s v -l verbose -d 'Say more on stderr; -vv adds tracebacks.'
complete -c deltacli -n '__deltacli_may "log" -h --help' -s h -l help -d 'Show this message and exit.'
complete -c deltacli -n '__deltacli_argument "log backup" 0' -f -a '(__fish_complete_directories (commandline -ct))'
complete -c deltacli -n '__deltacli_may "log backup" --full' -l full -d 'Compare every file by its digest, not by size and time.'
complete -c deltacli -n '__deltacli_may "log backup" --format' -l format -r -f -a 'table json ndjson csv' -d 'Format of stdout.'
complete -c deltacli -n '__deltacli_may "log backup" --json' -l json -d 'The same as --format json.'
complete -c deltacli -n '__deltacli_may "log backup" --output' -l output -r -F -d 'Write the result there, atomically, instead of stdout.'
complete -c deltacli -n '__deltacli_may "log backup" --now' -l now -r -f -d 'The clock, for reproducible runs.'
complete -c deltacli -n '__deltacli_may "log backup"' -l storage-option -r -f -d 'Passed to the store; K=@FILE reads the value from a file. Repeatable.'
complete -c deltacli -n '__deltacli_may "log backup" --table-format' -l table-format -r -f -a 'delta paimon' -d 'Do not detect the format.'
complete -c deltacli -n '__deltacli_may "log backup" --config' -l config -r -F -d 'Defaults for these options, as TOML.'
complete -c deltacli -n '__deltacli_may "log backup" --color' -l color -r -f -a 'auto always never' -d 'Colour on stdout.'
complete -c deltacli -n '__deltacli_may "log backup" --progress' -l progress -r -f -a 'auto always never json' -d 'Progress on stderr; auto: on a terminal.'
complete -c deltacli -n '__deltacli_may "log backup" --log-format' -l log-format -r -f -a 'text json' -d 'Notes and errors on stderr; default: json with --format json or ndjson, else text.'
complete -c deltacli -n '__deltacli_may "log backup" --no-pager' -l no-pager -d 'Never show a long result in a pager.'
complete -c deltacli -n '__deltacli_may "log backup" -q --quiet' -s q -l quiet -d 'No notes and no progress on stderr.'
complete -c deltacli -n '__deltacli_may "log backup"' -s v -l verbose -d 'Say more on stderr; -vv adds tracebacks.'
complete -c deltacli -n '__deltacli_may "log backup" -h --help' -s h -l help -d 'Show this message and exit.'
complete -c deltacli -n '__deltacli_argument "log cat" 0' -f -a '(__fish_complete_directories (commandline -ct))'
complete -c deltacli -n '__deltacli_may "log cat" --actions' -l actions -r -f -d 'Only actions of these kinds.'
complete -c deltacli -n '__deltacli_may "log cat" --checkpoint' -l checkpoint -d 'The actions of the checkpoint, though there is a commit.'
complete -c deltacli -n '__deltacli_may "log cat" --format' -l format -r -f -a 'table' -d 'Format of stdout.'
complete -c deltacli -n '__deltacli_may "log cat" --output' -l output -r -F -d 'Write the result there, atomically, instead of stdout.'
complete -c deltacli -n '__deltacli_may "log cat" --now' -l now -r -f -d 'The clock, for reproducible runs.'
complete -c deltacli -n '__deltacli_may "log cat"' -l storage-option -r -f -d 'Passed to the store; K=@FILE reads the value from a file. Repeatable.'
complete -c deltacli -n '__deltacli_may "log cat" --table-format' -l table-format -r -f -a 'delta paimon' -d 'Do not detect the format.'
complete -c deltacli -n '__deltacli_may "log cat" --config' -l config -r -F -d 'Defaults for these options, as TOML.'
complete -c deltacli -n '__deltacli_may "log cat" --color' -l color -r -f -a 'auto always never' -d 'Colour on stdout.'
complete -c deltacli -n '__deltacli_may "log cat" --progress' -l progress -r -f -a 'auto always never json' -d 'Progress on stderr; auto: on a terminal.'
complete -c deltacli -n '__deltacli_may "log cat" --log-format' -l log-format -r -f -a 'text json' -d 'Notes and errors on stderr; default: json with --format json or ndjson, else text.'
complete -c deltacli -n '__deltacli_may "log cat" --no-pager' -l no-pager -d 'Never show a long result in a pager.'
complete -c deltacli -n '__deltacli_may "log cat" -q --quiet' -s q -l quiet -d 'No notes and no progress on stderr.'
complete -c deltacli -n '__deltacli_may "log cat"' -s v -l verbose -d 'Say more on stderr; -vv adds tracebacks.'
complete -c deltacli -n '__deltacli_may "log cat" -h --help' -s h -l help -d 'Show this message and exit.'
complete -c deltacli -n '__deltacli_argument "log compact" 0' -f -a '(__fish_complete_directories (commandline -ct))'
complete -c deltacli -n '__deltacli_may "log compact" --from' -l from -r -f -d 'The first commit.'
complete -c deltacli -n '__deltacli_may "log compact" --to' -l to -r -f -d 'The last commit.'
complete -c deltacli -n '__deltacli_may "log compact" --dry-run' -l dry-run -d 'Say what would be written, and write nothing.'
complete -c deltacli -n '__deltacli_may "log compact" --format' -l format -r -f -a 'table json ndjson csv' -d 'Format of stdout.'
complete -c deltacli -n '__deltacli_may "log compact" --json' -l json -d 'The same as --format json.'
complete -c deltacli -n '__deltacli_may "log compact" --output' -l output -r -F -d 'Write the result there, atomically, instead of stdout.'
complete -c deltacli -n '__deltacli_may "log compact" --now' -l now -r -f -d 'The clock, for reproducible runs.'
complete -c deltacli -n '__deltacli_may "log compact"' -l storage-option -r -f -d 'Passed to the store; K=@FILE reads the value from a file. Repeatable.'
complete -c deltacli -n '__deltacli_may "log compact" --table-format' -l table-format -r -f -a 'delta paimon' -d 'Do not detect the format.'
complete -c deltacli -n '__deltacli_may "log compact" --config' -l config -r -F -d 'Defaults for these options, as TOML.'
complete -c deltacli -n '__deltacli_may "log compact" --color' -l color -r -f -a 'auto always never' -d 'Colour on stdout.'
complete -c deltacli -n '__deltacli_may "log compact" --progress' -l progress -r -f -a 'auto always never json' -d 'Progress on stderr; auto: on a terminal.'
complete -c deltacli -n '__deltacli_may "log compact" --log-format' -l log-format -r -f -a 'text json' -d 'Notes and errors on stderr; default: json with --format json or ndjson, else text.'
complete -c deltacli -n '__deltacli_may "log compact" --no-pager' -l no-pager -d 'Never show a long result in a pager.'
complete -c deltacli -n '__deltacli_may "log compact" -q --quiet' -s q -l quiet -d 'No notes and no progress on stderr.'
complete -c deltacli -n '__deltacli_may "log compact"' -s v -l verbose -d 'Say more on stderr; -vv adds tracebacks.'
complete -c deltacli -n '__deltacli_may "log compact" -h --help' -s h -l help -d 'Show this message and exit.'
complete -c deltacli -n '__deltacli_argument "log crc" 0' -f -a '(__fish_complete_directories (commandline -ct))'
complete -c deltacli -n '__deltacli_may "log crc" --version' -l version -r -f -d 'The snapshot of this version.'
complete -c deltacli -n '__deltacli_may "log crc" --dry-run' -l dry-run -d 'Compare only; write nothing.'
complete -c deltacli -n '__deltacli_may "log crc" --format' -l format -r -f -a 'table json ndjson csv' -d 'Format of stdout.'
complete -c deltacli -n '__deltacli_may "log crc" --json' -l json -d 'The same as --format json.'
complete -c deltacli -n '__deltacli_may "log crc" --output' -l output -r -F -d 'Write the result there, atomically, instead of stdout.'
complete -c deltacli -n '__deltacli_may "log crc" --now' -l now -r -f -d 'The clock, for reproducible runs.'
complete -c deltacli -n '__deltacli_may "log crc"' -l storage-option -r -f -d 'Passed to the store; K=@FILE reads the value from a file. Repeatable.'
complete -c deltacli -n '__deltacli_may "log crc" --table-format' -l table-format -r -f -a 'delta paimon' -d 'Do not detect the format.'
complete -c deltacli -n '__deltacli_may "log crc" --config' -l config -r -F -d 'Defaults for these options, as TOML.'
complete -c deltacli -n '__deltacli_may "log crc" --color' -l color -r -f -a 'auto always never' -d 'Colour on stdout.'
complete -c deltacli -n '__deltacli_may "log crc" --progress' -l progress -r -f -a 'auto always never json' -d 'Progress on stderr; auto: on a terminal.'
complete -c deltacli -n '__deltacli_may "log crc" --log-format' -l log-format -r -f -a 'text json' -d 'Notes and errors on stderr; default: json with --format json or ndjson, else text.'
complete -c deltacli -n '__deltacli_may "log crc" --no-pager' -l no-pager -d 'Never show a long result in a pager.'
complete -c deltacli -n '__deltacli_may "log crc" -q --quiet' -s q -l quiet -d 'No notes and no progress on stderr.'
complete -c deltacli -n '__deltacli_may "log crc"' -s v -l verbose -d 'Say more on stderr; -vv adds tracebacks.'
complete -c deltacli -n '__deltacli_may "log crc" -h --help' -s h -l help -d 'Show this message and exit.'
complete -c deltacli -n '__deltacli_argument "log expire" 0' -f -a '(__fish_complete_directories (commandline -ct))'
complete -c deltacli -n '__deltacli_may "log expire" --retention' -l retention -r -f -d 'Keep commits of this age.'
complete -c deltacli -n '__deltacli_may "log expire" --keep-versions' -l keep-versions -r -f -d 'Versions that must stay, whatever their age.'
complete -c deltacli -n '__deltacli_may "log expire" --allow-retention-below' -l allow-retention-below -r -f -d 'Names the table\'s own retention, to keep less than that.'
complete -c deltacli -n '__deltacli_may "log expire" --dry-run' -l dry-run -d 'Show what would be done and change nothing; beats --yes.'
complete -c deltacli -n '__deltacli_may "log expire" --yes' -l yes -d 'Do it without asking.'
complete -c deltacli -n '__deltacli_may "log expire" --format' -l format -r -f -a 'table json ndjson csv' -d 'Format of stdout.'
complete -c deltacli -n '__deltacli_may "log expire" --json' -l json -d 'The same as --format json.'
complete -c deltacli -n '__deltacli_may "log expire" --output' -l output -r -F -d 'Write the result there, atomically, instead of stdout.'
complete -c deltacli -n '__deltacli_may "log expire" --now' -l now -r -f -d 'The clock, for reproducible runs.'
complete -c deltacli -n '__deltacli_may "log expire"' -l storage-option -r -f -d 'Passed to the store; K=@FILE reads the value from a file. Repeatable.'
complete -c deltacli -n '__deltacli_may "log expire" --table-format' -l table-format -r -f -a 'delta paimon' -d 'Do not detect the format.'
complete -c deltacli -n '__deltacli_may "log expire" --config' -l config -r -F -d 'Defaults for these options, as TOML.'
complete -c deltacli -n '__deltacli_may "log expire" --color' -l color -r -f -a 'auto always never' -d 'Colour on stdout.'
complete -c deltacli -n '__deltacli_may "log expire" --progress' -l progress -r -f -a 'auto always never json' -d 'Progress on stderr; auto: on a terminal.'
complete -c deltacli -n '__deltacli_may "log expire" --log-format' -l log-format -r -f -a 'text json' -d 'Notes and errors on stderr; default: json with --format json or ndjson, else text.'
complete -c deltacli -n '__deltacli_may "log expire" --no-pager' -l no-pager -d 'Never show a long result in a pager.'
complete -c deltacli -n '__deltacli_may "log expire" -q --quiet' -s q -l quiet -d 'No notes and no progress on stderr.'
complete -c deltacli -n '__deltacli_may "log expire"' -s v -l verbose -d 'Say more on stderr; -vv adds tracebacks.'
complete -c deltacli -n '__deltacli_may "log expire" -h --help' -s h -l help -d 'Show this message and exit.'
complete -c deltacli -n '__deltacli_argument "log restore" 0' -f -a '(__fish_complete_directories (commandline -ct))'
complete -c deltacli -n '__deltacli_may "log restore" --replace' -l replace -d 'Put the backup\'s files in place of others: torn commits, say.'
complete -c deltacli -n '__deltacli_may "log restore" --dry-run' -l dry-run -d 'Show what would be done and change nothing; beats --yes.'
complete -c deltacli -n '__deltacli_may "log restore" --yes' -l yes -d 'Do it without asking.'
complete -c deltacli -n '__deltacli_may "log restore" --format' -l format -r -f -a 'table json ndjson csv' -d 'Format of stdout.'
complete -c deltacli -n '__deltacli_may "log restore" --json' -l json -d 'The same as --format json.'
complete -c deltacli -n '__deltacli_may "log restore" --output' -l output -r -F -d 'Write the result there, atomically, instead of stdout.'
complete -c deltacli -n '__deltacli_may "log restore" --now' -l now -r -f -d 'The clock, for reproducible runs.'
complete -c deltacli -n '__deltacli_may "log restore"' -l storage-option -r -f -d 'Passed to the store; K=@FILE reads the value from a file. Repeatable.'
complete -c deltacli -n '__deltacli_may "log restore" --table-format' -l table-format -r -f -a 'delta paimon' -d 'Do not detect the format.'
complete -c deltacli -n '__deltacli_may "log restore" --config' -l config -r -F -d 'Defaults for these options, as TOML.'
complete -c deltacli -n '__deltacli_may "log restore" --color' -l color -r -f -a 'auto always never' -d 'Colour on stdout.'
complete -c deltacli -n '__deltacli_may "log restore" --progress' -l progress -r -f -a 'auto always never json' -d 'Progress on stderr; auto: on a terminal.'
complete -c deltacli -n '__deltacli_may "log restore" --log-format' -l log-format -r -f -a 'text json' -d 'Notes and errors on stderr; default: json with --format json or ndjson, else text.'
complete -c deltacli -n '__deltacli_may "log restore" --no-pager' -l no-pager -d 'Never show a long result in a pager.'
complete -c deltacli -n '__deltacli_may "log restore" -q --quiet' -s q -l quiet -d 'No notes and no progress on stderr.'
complete -c deltacli -n '__deltacli_may "log restore"' -s v -l verbose -d 'Say more on stderr; -vv adds tracebacks.'
complete -c deltacli -n '__deltacli_may "log restore" -h --help' -s h -l help -d 'Show this message and exit.'
complete -c deltacli -n '__deltacli_argument "snapshot" 0' -f -a '(__fish_complete_directories (commandline -ct))'
complete -c deltacli -n '__deltacli_may "snapshot" --version' -l version -r -f -d 'The snapshot of this version.'
complete -c deltacli -n '__deltacli_may "snapshot" --timestamp' -l timestamp -r -f -d 'The newest version committed at or before T (RFC 3339; a date is midnight UTC).'
complete -c deltacli -n '__deltacli_may "snapshot" --files' -l files -d 'List the live files instead.'
complete -c deltacli -n '__deltacli_may "snapshot" --tombstones' -l tombstones -d 'List the tombstones instead, expired ones too.'
complete -c deltacli -n '__deltacli_may "snapshot" --schema' -l schema -d 'Show the schema as a tree instead.'
complete -c deltacli -n '__deltacli_may "snapshot" --counts' -l counts -d 'Show only the numbers of files, rows, bytes and tombstones.'
complete -c deltacli -n '__deltacli_may "snapshot" --digest' -l digest -d 'Add SHA-256 digests of the live files and tombstones.'
complete -c deltacli -n '__deltacli_may "snapshot" --limit' -l limit -r -f -d 'Rows shown, 0 = all.'
complete -c deltacli -n '__deltacli_may "snapshot" --columns' -l columns -r -f -d 'Only these columns, in this order.'
complete -c deltacli -n '__deltacli_may "snapshot" --format' -l format -r -f -a 'table json ndjson csv' -d 'Format of stdout.'
complete -c deltacli -n '__deltacli_may "snapshot" --json' -l json -d 'The same as --format json.'
complete -c deltacli -n '__deltacli_may "snapshot" --output' -l output -r -F -d 'Write the result there, atomically, instead of stdout.'
complete -c deltacli -n '__deltacli_may "snapshot" --now' -l now -r -f -d 'The clock, for reproducible runs.'
complete -c deltacli -n '__deltacli_may "snapshot"' -l storage-option -r -f -d 'Passed to the store; K=@FILE reads the value from a file. Repeatable.'
complete -c deltacli -n '__deltacli_may "snapshot" --table-format' -l table-format -r -f -a 'delta paimon' -d 'Do not detect the format.'
complete -c deltacli -n '__deltacli_may "snapshot" --config' -l config -r -F -d 'Defaults for these options, as TOML.'
complete -c deltacli -n '__deltacli_may "snapshot" --color' -l color -r -f -a 'auto always never' -d 'Colour on stdout.'
complete -c deltacli -n '__deltacli_may "snapshot" --progress' -l progress -r -f -a 'auto always never json' -d 'Progress on stderr; auto: on a terminal.'
complete -c deltacli -n '__deltacli_may "snapshot" --log-format' -l log-format -r -f -a 'text json' -d 'Notes and errors on stderr; default: json with --format json or ndjson, else text.'
complete -c deltacli -n '__deltacli_may "snapshot" --no-pager' -l no-pager -d 'Never show a long result in a pager.'
complete -c deltacli -n '__deltacli_may "snapshot" -q --quiet' -s q -l quiet -d 'No notes and no progress on stderr.'
complete -c deltacli -n '__deltacli_may "snapshot"' -s v -l verbose -d 'Say more on stderr; -vv adds tracebacks.'
complete -c deltacli -n '__deltacli_may "snapshot" -h --help' -s h -l help -d 'Show this message and exit.'
complete -c deltacli -n '__deltacli_argument "validate" 0 +' -f -a '(__fish_complete_directories (commandline -ct))'
complete -c deltacli -n '__deltacli_may "validate" --level' -l level -r -f -a 'log storage' -d 'How far to look: the log\'s files, or a listing of the table, too.'
complete -c deltacli -n '__deltacli_may "validate"' -l select -r -f -d 'Only these rules: globs over their ids. Repeatable.'
complete -c deltacli -n '__deltacli_may "validate"' -l ignore -r -f -d 'Not these rules: globs over their ids. Repeatable.'
complete -c deltacli -n '__deltacli_may "validate" --fail-on' -l fail-on -r -f -a 'error warning info' -d 'The least severity that is exit 1.'
complete -c deltacli -n '__deltacli_may "validate" --baseline' -l baseline -r -F -d 'Accept the findings written down there.'
complete -c deltacli -n '__deltacli_may "validate" --write-baseline' -l write-baseline -r -F -d 'Write today\'s findings down, to accept them from now on, and exit 0.'
complete -c deltacli -n '__deltacli_may "validate" --profile' -l profile -r -f -a 'current draft' -d 'The protocol as it is, or only what its old draft asks.'
complete -c deltacli -n '__deltacli_may "validate" --max-findings' -l max-findings -r -f -d 'Findings shown for each rule and table, 0 = all.'
complete -c deltacli -n '__deltacli_may "validate" --exit-zero' -l exit-zero -d 'Exit 0 whatever is found.'
complete -c deltacli -n '__deltacli_may "validate" --brief' -l brief -d 'One line a finding in a table: no values, no fixes.'
complete -c deltacli -n '__deltacli_may "validate" --list-rules' -l list-rules -d 'List the rules instead; needs no TABLE.'
complete -c deltacli -n '__deltacli_may "validate" --format' -l format -r -f -a 'table json ndjson csv sarif junit github' -d 'Format of stdout.'
complete -c deltacli -n '__deltacli_may "validate" --json' -l json -d 'The same as --format json.'
complete -c deltacli -n '__deltacli_may "validate" --output' -l output -r -F -d 'Write the result there, atomically, instead of stdout.'
complete -c deltacli -n '__deltacli_may "validate" --now' -l now -r -f -d 'The clock, for reproducible runs.'
complete -c deltacli -n '__deltacli_may "validate"' -l storage-option -r -f -d 'Passed to the store; K=@FILE reads the value from a file. Repeatable.'
complete -c deltacli -n '__deltacli_may "validate" --table-format' -l table-format -r -f -a 'delta paimon' -d 'Do not detect the format.'
complete -c deltacli -n '__deltacli_may "validate" --config' -l config -r -F -d 'Defaults for these options, as TOML.'
complete -c deltacli -n '__deltacli_may "validate" --color' -l color -r -f -a 'auto always never' -d 'Colour on stdout.'
complete -c deltacli -n '__deltacli_may "validate" --progress' -l progress -r -f -a 'auto always never json' -d 'Progress on stderr; auto: on a terminal.'
complete -c deltacli -n '__deltacli_may "validate" --log-format' -l log-format -r -f -a 'text json' -d 'Notes and errors on stderr; default: json with --format json or ndjson, else text.'
complete -c deltacli -n '__deltacli_may "validate" --no-pager' -l no-pager -d 'Never show a long result in a pager.'
complete -c deltacli -n '__deltacli_may "validate" -q --quiet' -s q -l quiet -d 'No notes and no progress on stderr.'
complete -c deltacli -n '__deltacli_may "validate"' -s v -l verbose -d 'Say more on stderr; -vv adds tracebacks.'
complete -c deltacli -n '__deltacli_may "validate" -h --help' -s h -l help -d 'Show this message and exit.'
