# bash completion for deltacli, bash 3.2 and newer, with or without bash-completion; generated, do not edit.

# Options and arguments of a command: lines of `spellings;value;once|again;help`. A value is - (none), TEXT, FILE,
# DIRECTORY or the allowed words.
_deltacli_load() {
    case $1 in
        '')
            commands='changes;-;again;Read how the rows of a table changed between two versions.
checkpoint;-;again;Write a checkpoint, so that readers replay less.
completion;-;again;Print the completion script of a shell.
features;-;again;Show the table features of a table, or add some to its protocol.
history;-;again;Show who changed a table, when and how, newest first.
log;-;again;Care for the log of a table itself.
properties;-;again;Show the properties of a table, set some or unset some.
read;-;again;Read the rows of a table at a version.
snapshot;-;again;Show the state of a table at a version.
vacuum;-;again;Delete files that no retained version needs.
validate;-;again;Check tables against the rules of the protocol.
widen-type;-;again;Give columns wider types without rewriting data, in one commit.
'
            options='--format;table json ndjson csv markdown parquet;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result there, atomically, instead of stdout.
--now;TEXT;once;The clock, for reproducible runs.
--storage-option;TEXT;again;Passed to the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;How long a request to a store is repeated; 0s = never.
--allow-external;TEXT;again;Open files outside the table below this path or URI. Repeatable.
--table-format;delta paimon;once;Do not detect the format.
--config;FILE;once;Defaults for these options, as TOML.
--color;auto always never;once;Colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Never show a long result in a pager.
-q --quiet;-;once;No notes and no progress on stderr.
-v --verbose;-;again;Say more on stderr; -vv adds tracebacks.
-V --version;-;once;Print the version and leave.
-h --help;-;once;Show this message and exit.
'
            arguments=''
            ;;
        'changes ')
            commands=''
            options='--from;TEXT;once;The first version: a number, or the first one committed at or after T.
--to;TEXT;once;The last version: a number, or the last one committed at or before T.
--columns;TEXT;once;Only these columns, in this order.
--where;TEXT;once;Only rows for which this condition is true.
--limit;TEXT;once;Rows shown, 0 = all.
--format;table json ndjson csv markdown parquet;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result there, atomically, instead of stdout.
--now;TEXT;once;The clock, for reproducible runs.
--storage-option;TEXT;again;Passed to the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;How long a request to a store is repeated; 0s = never.
--allow-external;TEXT;again;Open files outside the table below this path or URI. Repeatable.
--table-format;delta paimon;once;Do not detect the format.
--config;FILE;once;Defaults for these options, as TOML.
--color;auto always never;once;Colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Never show a long result in a pager.
-q --quiet;-;once;No notes and no progress on stderr.
-v --verbose;-;again;Say more on stderr; -vv adds tracebacks.
-h --help;-;once;Show this message and exit.
'
            arguments='once;DIRECTORY
'
            ;;
        'checkpoint ')
            commands=''
            options='--version;TEXT;once;The snapshot of this version.
--layout;auto classic multi-part v2;once;The form; auto: as the table'\''s policy says.
--parts;TEXT;once;Files of a multi-part checkpoint.
--rows-per-file;TEXT;once;Actions in a sidecar or part.
--v2-top;json parquet;once;The file that names the sidecars of V2.
--stats;keep json struct both;once;Columns of statistics; keep: as the properties say, else as the last checkpoint had them.
--if-behind;TEXT;once;Do nothing before N commits have come since the last checkpoint.
--force;-;once;Write it again where a complete one of this version and form is.
--verify;-;once;Compare the checkpoints there are with the log; write nothing.
--dry-run;-;once;Say what would be written, and write nothing.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result there, atomically, instead of stdout.
--now;TEXT;once;The clock, for reproducible runs.
--storage-option;TEXT;again;Passed to the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;How long a request to a store is repeated; 0s = never.
--allow-external;TEXT;again;Open files outside the table below this path or URI. Repeatable.
--table-format;delta paimon;once;Do not detect the format.
--config;FILE;once;Defaults for these options, as TOML.
--color;auto always never;once;Colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Never show a long result in a pager.
-q --quiet;-;once;No notes and no progress on stderr.
-v --verbose;-;again;Say more on stderr; -vv adds tracebacks.
-h --help;-;once;Show this message and exit.
'
            arguments='once;DIRECTORY
'
            ;;
        'completion ')
            commands=''
            options='--format;table;once;Format of stdout.
--output;FILE;once;Write the result there, atomically, instead of stdout.
--now;TEXT;once;The clock, for reproducible runs.
--storage-option;TEXT;again;Passed to the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;How long a request to a store is repeated; 0s = never.
--allow-external;TEXT;again;Open files outside the table below this path or URI. Repeatable.
--table-format;delta paimon;once;Do not detect the format.
--config;FILE;once;Defaults for these options, as TOML.
--color;auto always never;once;Colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Never show a long result in a pager.
-q --quiet;-;once;No notes and no progress on stderr.
-v --verbose;-;again;Say more on stderr; -vv adds tracebacks.
-h --help;-;once;Show this message and exit.
'
            arguments='once;bash zsh fish
'
            ;;
        'features ')
            commands=''
            options='--commit-metadata;TEXT;again;Add a key to the commitInfo; userMetadata=V sets that field. Repeatable.
--dry-run;-;once;Show what would be done and change nothing; beats --yes.
--yes;-;once;Do it without asking.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result there, atomically, instead of stdout.
--now;TEXT;once;The clock, for reproducible runs.
--storage-option;TEXT;again;Passed to the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;How long a request to a store is repeated; 0s = never.
--allow-external;TEXT;again;Open files outside the table below this path or URI. Repeatable.
--table-format;delta paimon;once;Do not detect the format.
--config;FILE;once;Defaults for these options, as TOML.
--color;auto always never;once;Colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Never show a long result in a pager.
-q --quiet;-;once;No notes and no progress on stderr.
-v --verbose;-;again;Say more on stderr; -vv adds tracebacks.
-h --help;-;once;Show this message and exit.
'
            arguments='once;DIRECTORY
once;add
again;TEXT
'
            ;;
        'history ')
            commands=''
            options='--limit;TEXT;once;Rows shown, 0 = all.
--counts;-;once;Read the file actions too, and count them and their bytes.
--columns;TEXT;once;Only these columns, in this order.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result there, atomically, instead of stdout.
--now;TEXT;once;The clock, for reproducible runs.
--storage-option;TEXT;again;Passed to the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;How long a request to a store is repeated; 0s = never.
--allow-external;TEXT;again;Open files outside the table below this path or URI. Repeatable.
--table-format;delta paimon;once;Do not detect the format.
--config;FILE;once;Defaults for these options, as TOML.
--color;auto always never;once;Colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Never show a long result in a pager.
-q --quiet;-;once;No notes and no progress on stderr.
-v --verbose;-;again;Say more on stderr; -vv adds tracebacks.
-h --help;-;once;Show this message and exit.
'
            arguments='once;DIRECTORY
'
            ;;
        'log ')
            commands='backup;-;again;Copy the log of a table, and keep the copy up to date.
cat;-;again;Write the raw actions of a version, one a line.
compact;-;again;Write a log compaction: commits X to Y in one file.
crc;-;again;Write the version checksum that is missing, or compare the one there is.
expire;-;again;Delete what of the log no kept version needs.
restore;-;again;Put back what a backup has and the log of a table lacks.
'
            options='--format;table json ndjson csv markdown parquet;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result there, atomically, instead of stdout.
--now;TEXT;once;The clock, for reproducible runs.
--storage-option;TEXT;again;Passed to the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;How long a request to a store is repeated; 0s = never.
--allow-external;TEXT;again;Open files outside the table below this path or URI. Repeatable.
--table-format;delta paimon;once;Do not detect the format.
--config;FILE;once;Defaults for these options, as TOML.
--color;auto always never;once;Colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Never show a long result in a pager.
-q --quiet;-;once;No notes and no progress on stderr.
-v --verbose;-;again;Say more on stderr; -vv adds tracebacks.
-h --help;-;once;Show this message and exit.
'
            arguments=''
            ;;
        'log backup ')
            commands=''
            options='--full;-;once;Compare every file by its digest, not by size and time.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result there, atomically, instead of stdout.
--now;TEXT;once;The clock, for reproducible runs.
--storage-option;TEXT;again;Passed to the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;How long a request to a store is repeated; 0s = never.
--allow-external;TEXT;again;Open files outside the table below this path or URI. Repeatable.
--table-format;delta paimon;once;Do not detect the format.
--config;FILE;once;Defaults for these options, as TOML.
--color;auto always never;once;Colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Never show a long result in a pager.
-q --quiet;-;once;No notes and no progress on stderr.
-v --verbose;-;again;Say more on stderr; -vv adds tracebacks.
-h --help;-;once;Show this message and exit.
'
            arguments='once;DIRECTORY
once;TEXT
'
            ;;
        'log cat ')
            commands=''
            options='--actions;TEXT;once;Only actions of these kinds.
--checkpoint;-;once;The actions of the checkpoint, though there is a commit.
--format;table;once;Format of stdout.
--output;FILE;once;Write the result there, atomically, instead of stdout.
--now;TEXT;once;The clock, for reproducible runs.
--storage-option;TEXT;again;Passed to the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;How long a request to a store is repeated; 0s = never.
--allow-external;TEXT;again;Open files outside the table below this path or URI. Repeatable.
--table-format;delta paimon;once;Do not detect the format.
--config;FILE;once;Defaults for these options, as TOML.
--color;auto always never;once;Colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Never show a long result in a pager.
-q --quiet;-;once;No notes and no progress on stderr.
-v --verbose;-;again;Say more on stderr; -vv adds tracebacks.
-h --help;-;once;Show this message and exit.
'
            arguments='once;DIRECTORY
once;TEXT
'
            ;;
        'log compact ')
            commands=''
            options='--from;TEXT;once;The first commit.
--to;TEXT;once;The last commit.
--dry-run;-;once;Say what would be written, and write nothing.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result there, atomically, instead of stdout.
--now;TEXT;once;The clock, for reproducible runs.
--storage-option;TEXT;again;Passed to the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;How long a request to a store is repeated; 0s = never.
--allow-external;TEXT;again;Open files outside the table below this path or URI. Repeatable.
--table-format;delta paimon;once;Do not detect the format.
--config;FILE;once;Defaults for these options, as TOML.
--color;auto always never;once;Colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Never show a long result in a pager.
-q --quiet;-;once;No notes and no progress on stderr.
-v --verbose;-;again;Say more on stderr; -vv adds tracebacks.
-h --help;-;once;Show this message and exit.
'
            arguments='once;DIRECTORY
'
            ;;
        'log crc ')
            commands=''
            options='--version;TEXT;once;The snapshot of this version.
--dry-run;-;once;Compare only; write nothing.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result there, atomically, instead of stdout.
--now;TEXT;once;The clock, for reproducible runs.
--storage-option;TEXT;again;Passed to the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;How long a request to a store is repeated; 0s = never.
--allow-external;TEXT;again;Open files outside the table below this path or URI. Repeatable.
--table-format;delta paimon;once;Do not detect the format.
--config;FILE;once;Defaults for these options, as TOML.
--color;auto always never;once;Colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Never show a long result in a pager.
-q --quiet;-;once;No notes and no progress on stderr.
-v --verbose;-;again;Say more on stderr; -vv adds tracebacks.
-h --help;-;once;Show this message and exit.
'
            arguments='once;DIRECTORY
'
            ;;
        'log expire ')
            commands=''
            options='--retention;TEXT;once;Keep commits of this age.
--keep-versions;TEXT;once;Versions that must stay, whatever their age.
--allow-retention-below;TEXT;once;Names the table'\''s own retention, to keep less than that.
--dry-run;-;once;Show what would be done and change nothing; beats --yes.
--yes;-;once;Do it without asking.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result there, atomically, instead of stdout.
--now;TEXT;once;The clock, for reproducible runs.
--storage-option;TEXT;again;Passed to the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;How long a request to a store is repeated; 0s = never.
--allow-external;TEXT;again;Open files outside the table below this path or URI. Repeatable.
--table-format;delta paimon;once;Do not detect the format.
--config;FILE;once;Defaults for these options, as TOML.
--color;auto always never;once;Colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Never show a long result in a pager.
-q --quiet;-;once;No notes and no progress on stderr.
-v --verbose;-;again;Say more on stderr; -vv adds tracebacks.
-h --help;-;once;Show this message and exit.
'
            arguments='once;DIRECTORY
'
            ;;
        'log restore ')
            commands=''
            options='--replace;-;once;Put the backup'\''s files in place of others: torn commits, say.
--dry-run;-;once;Show what would be done and change nothing; beats --yes.
--yes;-;once;Do it without asking.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result there, atomically, instead of stdout.
--now;TEXT;once;The clock, for reproducible runs.
--storage-option;TEXT;again;Passed to the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;How long a request to a store is repeated; 0s = never.
--allow-external;TEXT;again;Open files outside the table below this path or URI. Repeatable.
--table-format;delta paimon;once;Do not detect the format.
--config;FILE;once;Defaults for these options, as TOML.
--color;auto always never;once;Colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Never show a long result in a pager.
-q --quiet;-;once;No notes and no progress on stderr.
-v --verbose;-;again;Say more on stderr; -vv adds tracebacks.
-h --help;-;once;Show this message and exit.
'
            arguments='once;DIRECTORY
once;TEXT
'
            ;;
        'properties ')
            commands=''
            options='--force;-;once;Also set delta. keys that no engine is known to know.
--commit-metadata;TEXT;again;Add a key to the commitInfo; userMetadata=V sets that field. Repeatable.
--dry-run;-;once;Show what would be done and change nothing; beats --yes.
--yes;-;once;Do it without asking.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result there, atomically, instead of stdout.
--now;TEXT;once;The clock, for reproducible runs.
--storage-option;TEXT;again;Passed to the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;How long a request to a store is repeated; 0s = never.
--allow-external;TEXT;again;Open files outside the table below this path or URI. Repeatable.
--table-format;delta paimon;once;Do not detect the format.
--config;FILE;once;Defaults for these options, as TOML.
--color;auto always never;once;Colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Never show a long result in a pager.
-q --quiet;-;once;No notes and no progress on stderr.
-v --verbose;-;again;Say more on stderr; -vv adds tracebacks.
-h --help;-;once;Show this message and exit.
'
            arguments='once;DIRECTORY
once;set unset
again;TEXT
'
            ;;
        'read ')
            commands=''
            options='--columns;TEXT;once;Only these columns, in this order.
--where;TEXT;once;Only rows for which this condition is true.
--limit;TEXT;once;Rows shown, 0 = all.
--version;TEXT;once;The snapshot of this version.
--timestamp;TEXT;once;The newest version committed at or before T (RFC 3339 with offset, or a date: midnight UTC).
--explain;-;once;List the files instead that would be read, and why others not.
--format;table json ndjson csv markdown parquet;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result there, atomically, instead of stdout.
--now;TEXT;once;The clock, for reproducible runs.
--storage-option;TEXT;again;Passed to the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;How long a request to a store is repeated; 0s = never.
--allow-external;TEXT;again;Open files outside the table below this path or URI. Repeatable.
--table-format;delta paimon;once;Do not detect the format.
--config;FILE;once;Defaults for these options, as TOML.
--color;auto always never;once;Colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Never show a long result in a pager.
-q --quiet;-;once;No notes and no progress on stderr.
-v --verbose;-;again;Say more on stderr; -vv adds tracebacks.
-h --help;-;once;Show this message and exit.
'
            arguments='once;DIRECTORY
'
            ;;
        'snapshot ')
            commands=''
            options='--version;TEXT;once;The snapshot of this version.
--timestamp;TEXT;once;The newest version committed at or before T (RFC 3339 with offset, or a date: midnight UTC).
--files;-;once;List the live files instead.
--tombstones;-;once;List the tombstones instead, expired ones too.
--schema;-;once;Show the schema as a tree instead.
--mapping;-;once;With --schema, show the ids and physical names of column mapping.
--counts;-;once;Show only the numbers of files, rows, bytes and tombstones.
--digest;-;once;Add SHA-256 digests of the live files and tombstones.
--limit;TEXT;once;Rows shown, 0 = all.
--columns;TEXT;once;Only these columns, in this order.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result there, atomically, instead of stdout.
--now;TEXT;once;The clock, for reproducible runs.
--storage-option;TEXT;again;Passed to the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;How long a request to a store is repeated; 0s = never.
--allow-external;TEXT;again;Open files outside the table below this path or URI. Repeatable.
--table-format;delta paimon;once;Do not detect the format.
--config;FILE;once;Defaults for these options, as TOML.
--color;auto always never;once;Colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Never show a long result in a pager.
-q --quiet;-;once;No notes and no progress on stderr.
-v --verbose;-;again;Say more on stderr; -vv adds tracebacks.
-h --help;-;once;Show this message and exit.
'
            arguments='once;DIRECTORY
'
            ;;
        'vacuum ')
            commands=''
            options='--retention;TEXT;once;Keep files of this age.
--allow-retention-below;TEXT;once;Names the table'\''s own retention, to keep less than that.
--mode;full lite;once;full lists the table; lite takes what commits removed.
--prefix;TEXT;once;Only below this directory of the table.
--where;TEXT;once;Only in partitions of which this is true: "date < '\''2026-01-01'\''".
--keep-version;TEXT;again;Versions that must stay whole, whatever their age. Repeatable.
--protect-from;TEXT;again;Keep what another table (a shallow clone) needs of this one. Repeatable.
--inventory;FILE;once;Take the list of files from here: S3 Inventory (manifest.json), Parquet, CSV.
--max-delete;TEXT;once;Refuse to delete more than this share of the table, or more bytes.
--include-foreign;-;once;Delete files of unknown kinds, too, once they are old enough.
--skip-nested-tables;-;once;Go on where directories hold tables of their own.
--no-log-entries;-;once;Commit neither VACUUM START nor VACUUM END.
--threads;TEXT;once;Delete with so many threads.
--rate;TEXT;once;Delete at most so many files a second: 500/s.
--commit-metadata;TEXT;again;Add a key to the commitInfo; userMetadata=V sets that field. Repeatable.
--files;-;once;List every file that goes; csv and ndjson do so anyway.
--save-plan;FILE;once;Only plan, and write the plan as Parquet.
--apply;FILE;once;Execute a saved plan, or go on with it.
--explain;TEXT;once;Say why one file is kept or goes; change nothing.
--dry-run;-;once;Show what would be done and change nothing; beats --yes.
--yes;-;once;Do it without asking.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result there, atomically, instead of stdout.
--now;TEXT;once;The clock, for reproducible runs.
--storage-option;TEXT;again;Passed to the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;How long a request to a store is repeated; 0s = never.
--allow-external;TEXT;again;Open files outside the table below this path or URI. Repeatable.
--table-format;delta paimon;once;Do not detect the format.
--config;FILE;once;Defaults for these options, as TOML.
--color;auto always never;once;Colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Never show a long result in a pager.
-q --quiet;-;once;No notes and no progress on stderr.
-v --verbose;-;again;Say more on stderr; -vv adds tracebacks.
-h --help;-;once;Show this message and exit.
'
            arguments='once;DIRECTORY
'
            ;;
        'validate ')
            commands=''
            options='--level;log storage footers data;once;How far to look: the log; a listing of the table, too; the footers of its data files; their rows.
--sample;TEXT;once;Look into so many of the data files only; each version has its own sample.
--where;TEXT;once;Look only into data files that may hold such rows; all rows of these are checked.
--select;TEXT;again;Only these rules: globs over their ids. Repeatable.
--ignore;TEXT;again;Not these rules: globs over their ids. Repeatable.
--fail-on;error warning info;once;The least severity that is exit 1.
--baseline;FILE;once;Accept the findings written down there.
--write-baseline;FILE;once;Write today'\''s findings down, to accept them from now on, and exit 0.
--trend;FILE;once;Add a line with the counts of this run to FILE, and compare it with the run before.
--profile;current draft;once;The protocol as it is, or only what its old draft asks.
--max-findings;TEXT;once;Findings shown for each rule and table, 0 = all.
--exit-zero;-;once;Exit 0 whatever is found.
--brief;-;once;One line a finding in a table: no values, no fixes.
--group;rule path;once;Order of findings on a terminal: grouped by severity and rule, or one by one in the order of the files.
--list-rules;-;once;List the rules instead; needs no TABLE.
--format;table json ndjson csv markdown sarif junit github;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result there, atomically, instead of stdout.
--now;TEXT;once;The clock, for reproducible runs.
--storage-option;TEXT;again;Passed to the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;How long a request to a store is repeated; 0s = never.
--allow-external;TEXT;again;Open files outside the table below this path or URI. Repeatable.
--table-format;delta paimon;once;Do not detect the format.
--config;FILE;once;Defaults for these options, as TOML.
--color;auto always never;once;Colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Never show a long result in a pager.
-q --quiet;-;once;No notes and no progress on stderr.
-v --verbose;-;again;Say more on stderr; -vv adds tracebacks.
-h --help;-;once;Show this message and exit.
'
            arguments='again;DIRECTORY
'
            ;;
        'widen-type ')
            commands=''
            options='--enable;-;once;Set delta.enableTypeWidening where it is not true.
--upgrade-protocol;-;once;Add the features that are missing; clients without them lose access.
--check-files;-;once;Look into every data file before: refuse where one has another type.
--check;-;once;Change nothing: exit 1 if a change is due, 4 if it is refused.
--commit-metadata;TEXT;again;Add a key to the commitInfo; userMetadata=V sets that field. Repeatable.
--dry-run;-;once;Show what would be done and change nothing; beats --yes.
--yes;-;once;Do it without asking.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result there, atomically, instead of stdout.
--now;TEXT;once;The clock, for reproducible runs.
--storage-option;TEXT;again;Passed to the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;How long a request to a store is repeated; 0s = never.
--allow-external;TEXT;again;Open files outside the table below this path or URI. Repeatable.
--table-format;delta paimon;once;Do not detect the format.
--config;FILE;once;Defaults for these options, as TOML.
--color;auto always never;once;Colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Never show a long result in a pager.
-q --quiet;-;once;No notes and no progress on stderr.
-v --verbose;-;again;Say more on stderr; -vv adds tracebacks.
-h --help;-;once;Show this message and exit.
'
            arguments='once;DIRECTORY
again;TEXT
'
            ;;
    esac
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

# Offer values. readline replaces what follows its last word break, so the part before it is omitted.
_deltacli_offer_values() {
    local full=$2$word kept='' break head reply
    for break in = :; do
        if [[ $COMP_WORDBREAKS == *$break* && $full == *$break* ]]; then
            head=${full%"${full##*"$break"}"}
            ((${#head} > ${#kept})) && kept=$head
        fi
    done
    while IFS='' read -r reply; do
        [[ -n $reply ]] || continue
        reply=$2$reply
        COMPREPLY+=("${reply#"$kept"}")
    done < <(
        case $1 in
            TEXT) ;;
            FILE) compgen -f -- "$word" ;;
            DIRECTORY) compgen -d -- "$word" ;;
            *) compgen -W "$1" -- "$word" ;;
        esac
    )
    [[ $1 != FILE && $1 != DIRECTORY ]] || compopt -o filenames 2>/dev/null
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
    local commands options arguments path='' used=' ' kind='' given=0 no_options='' word=${words[count - 1]}
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
