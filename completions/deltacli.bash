# bash completion for deltacli, bash 3.2 and newer, with or without bash-completion; generated, do not edit.

# Options and arguments of a command: lines of `spellings;value;once|again;help`. A value is - (none), TEXT, FILE,
# DIRECTORY, OTHER (a version or a directory), the allowed words, or those that deltacli prints of the table: @versions,
# @columns and others.
_deltacli_load() {
    case $1 in
        '')
            commands='alter;-;again;Change the columns of a table, or what describes it, in one commit.
catalog;-;again;List the tables of Unity Catalog, and maintain those it manages.
changes;-;again;Read how the rows of a table changed between two versions.
checkpoint;-;again;Write a checkpoint, so that readers have fewer commits to read.
clone;-;again;Create a table that shares the data files of another one.
completion;-;again;Print the completion script of a shell.
convert;-;again;Turn Parquet files into a Delta table, in place and in one commit.
copy;-;again;Copy a table to another place, and verify the copy.
diff;-;again;Show what differs between two versions, or between two tables; exit 1 if something does.
doctor;-;again;Diagnose a table, its store, and access to it.
explain;-;again;Show which clients read and write a table, and what stops the others.
features;-;again;Show the table features of a table, add some to its protocol, or drop one.
fleet;-;again;Maintain many tables by a policy file.
history;-;again;Show who changed a table, when and how, newest first.
log;-;again;Maintain the log of a table.
manifest;-;again;Write the lists of files that Athena, Redshift and Presto read.
optimize;-;again;Compact small files, sort rows, and purge deleted rows. The rows stay the same.
properties;-;again;Show the properties of a table, set some or unset some.
reach;-;again;Show which versions can be read, by what, and until when.
read;-;again;Read the rows of a table at a version.
repair;-;again;Repair what validate finds: recover first, rebuild next, remove last.
restore;-;again;Bring a table back to an earlier version, in one commit.
schema;-;again;Show, compare and convert the schemas of Delta and Paimon tables.
share;-;again;Share tables with Delta Sharing clients, and read what others share.
snapshot;-;again;Show the state of a table at a version.
spark;-;again;Prepare a Spark cluster for --engine spark.
stats;-;again;Compute the statistics of files without rewriting them.
streams;-;again;Show which Spark queries can continue, and what they still need.
undelete;-;again;Bring deleted files of a table back.
vacuum;-;again;Delete files that no retained version needs.
validate;-;again;Check tables against the rules of the protocol.
widen-type;-;again;Give columns wider types without rewriting data, in one commit.
help;-;again;Show the help of a command, or explain a rule, a code, a property, a feature or a topic.
'
            options='--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-V --version;-;once;Print the version and exit; with --json also the commit, Python, extras and stores.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments=''
            ;;
        'alter ')
            commands=''
            options='--comment;TEXT;once;add: comment of the column.
--default;TEXT;once;add: default value.
--position;@positions;once;add: first, last, before:X or after:X.
--nullable --not-null;-;once;add: columns are nullable; NOT NULL is refused.
--keep-nullability;-;once;type: keep NOT NULL, or its absence.
--drop;-;once;comment, default: remove it.
--none;-;once;cluster: by no columns.
--allow-lossy;-;once;Accept changes of a Paimon table after which stored values are read differently.
--with-options;-;once;drop: first remove the column from options that name it.
--min-paimon;@versions;once;Oldest major version of Paimon among the engines of the table, 1 or 2; with 2, what Paimon 1.x cannot open is permitted.
--apply;FILE;once;JSON file with changes, - for stdin.
--check;-;once;Change nothing; exit 1 if a change is due, 4 if refused.
--branch;@branch;once;Branch of a Paimon table.
--checkpoints;TEXT;again;Name the streaming queries with these checkpoint directories that it concerns. Repeatable.
--dry-run;-;once;Show the plan and change nothing; overrides --yes.
--yes;-;once;Do not ask for confirmation.
--enable;-;once;type: set delta.enableTypeWidening to true if it is not.
--upgrade-protocol;-;once;Add missing features; clients that do not support them lose access.
--commit-metadata;TEXT;again;Key to add to the commitInfo; userMetadata=V sets that field. Repeatable.
--engine;embedded spark;once;Where the work runs: in this process, or on a Spark cluster.
--master;TEXT;once;Spark master, such as local[4] or spark://HOST:7077.
--remote;TEXT;once;Spark Connect server, such as sc://HOST:15002; @FILE reads the URL from a file.
--spark-conf;TEXT;again;Setting of the Spark session; K=@FILE reads the value from a file. Repeatable.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
once;add type rename drop move comment default nullable not-null set unset table-comment name constraint cluster mapping
once;@altered
again;@altered
'
            ;;
        'catalog ')
            commands='ls;-;again;List the tables of a catalog or of a schema, or the catalogs.
publish;-;again;Copy ratified commits into the log, in order, and report them.
staged;-;again;List the staged commits of a table, and the outcome of each.
status;-;again;Show the newest versions in catalog and log, and what differs.
'
            options='--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments=''
            ;;
        'catalog ls ')
            commands=''
            options='--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;TEXT
'
            ;;
        'catalog publish ')
            commands=''
            options='--dry-run;-;once;Show the plan and change nothing; overrides --yes.
--yes;-;once;Do not ask for confirmation.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
'
            ;;
        'catalog staged ')
            commands=''
            options='--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
'
            ;;
        'catalog status ')
            commands=''
            options='--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
'
            ;;
        'changes ')
            commands=''
            options='--from;@versions;once;The first version: a number, or the first one committed at or after T.
--to;@versions;once;The last version: a number, or the last one committed at or before T.
--columns;@columns;once;Show only these columns of the table; those of the change follow.
--where;TEXT;once;Return only rows that match it.
--row-ids;-;once;Add the id of each row and the version of its last change.
--limit;TEXT;once;Number of rows shown; 0 shows all.
--engine;embedded spark;once;Where the work runs: in this process, or on a Spark cluster.
--master;TEXT;once;Spark master, such as local[4] or spark://HOST:7077.
--remote;TEXT;once;Spark Connect server, such as sc://HOST:15002; @FILE reads the URL from a file.
--spark-conf;TEXT;again;Setting of the Spark session; K=@FILE reads the value from a file. Repeatable.
--format;table json ndjson csv markdown parquet;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, or Parquet files to this new or empty directory; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
'
            ;;
        'checkpoint ')
            commands=''
            options='--version;@versions;once;Use the snapshot of this version.
--timestamp;TEXT;once;Use the newest version committed at or before T (RFC 3339 with offset, or a date: midnight UTC).
--layout;auto classic multi-part v2;once;Layout of the checkpoint; auto follows the table'\''s policy.
--parts;TEXT;once;Number of files of a multi-part checkpoint.
--rows-per-file;TEXT;once;Actions per sidecar or part.
--v2-top;json parquet;once;Format of the main file of a V2 checkpoint.
--stats;keep json struct both;once;Columns of statistics; keep: as the properties ask, else as in the last checkpoint.
--if-behind;TEXT;once;Do nothing unless N commits were made since the last checkpoint.
--force;-;once;Write it even if a complete one of this version and layout exists.
--verify;-;once;Compare existing checkpoints with the log; write nothing.
--dry-run;-;once;Show what would be written; write nothing.
--engine;embedded spark;once;Where the work runs: in this process, or on a Spark cluster.
--master;TEXT;once;Spark master, such as local[4] or spark://HOST:7077.
--remote;TEXT;once;Spark Connect server, such as sc://HOST:15002; @FILE reads the URL from a file.
--spark-conf;TEXT;again;Setting of the Spark session; K=@FILE reads the value from a file. Repeatable.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='again;DIRECTORY
'
            ;;
        'clone ')
            commands=''
            options='--version;@versions;once;Use the snapshot of this version.
--timestamp;TEXT;once;Use the newest version committed at or before T (RFC 3339 with offset, or a date: midnight UTC).
--unprotected;-;once;Do not note the clone in the source, whose vacuum may then delete its files.
--deep;-;once;Copy the files, too: the same as copy --newest.
--dry-run;-;once;Show the plan and change nothing; overrides --yes.
--yes;-;once;Do not ask for confirmation.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
once;TEXT
'
            ;;
        'completion ')
            commands=''
            options='--output;FILE;once;Write the result to this file, atomically, instead of to stdout.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;bash zsh fish
'
            ;;
        'convert ')
            commands=''
            options='--partition;TEXT;once;Partition columns with their types, as '\''day date, country string'\''.
--schema;FILE;once;Take the columns from this file: a schemaString, or a document of schema show or snapshot.
--like;FILE;once;Take columns, partitions and column mapping from this JSON document of snapshot.
--exclude;TEXT;again;Leave out files whose path matches. Repeatable.
--time-zone;TEXT;once;Zone of the times in directories that have none, for partition columns of type timestamp.
--accept-unknowable;-;once;Convert a Delta table that has lost its log, although removed rows come back.
--from;TEXT;again;Bring the lost log of a table back from this copy: the same as undelete --from. Repeatable.
--dry-run;-;once;Show the plan and change nothing; overrides --yes.
--yes;-;once;Do not ask for confirmation.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;FILE
'
            ;;
        'copy ')
            commands=''
            options='--versions;TEXT;once;Copy only these versions.
--newest;-;once;Copy only the newest version.
--replica;-;once;Keep the table id and every commit; run again to bring the target up to date.
--check;-;once;Compare the target with the source; copy nothing.
--level;storage footers data;once;What to compare with the source.
--keep-external;-;once;Keep paths that lead out of the source, whose files are not copied.
--threads;TEXT;once;Files to copy at a time.
--rate;TEXT;once;Bytes to copy per second, such as 50MiB/s.
--time-budget;TEXT;once;Begin no file after this time, such as 30m; run the same command to continue.
--dry-run;-;once;Show the plan and change nothing; overrides --yes.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
once;TEXT
'
            ;;
        'diff ')
            commands=''
            options='--from;@versions;once;Version of TABLE, with OTHER.
--to;TEXT;once;Version of OTHER.
--rows;-;once;Compare the rows as well, by the key; reads both versions.
--key;@columns;again;Columns that identify a row.
--temp-dir;DIRECTORY;once;Directory for temporary files of compared rows.
--engine;embedded spark;once;Where the work runs: in this process, or on a Spark cluster.
--master;TEXT;once;Spark master, such as local[4] or spark://HOST:7077.
--remote;TEXT;once;Spark Connect server, such as sc://HOST:15002; @FILE reads the URL from a file.
--spark-conf;TEXT;again;Setting of the Spark session; K=@FILE reads the value from a file. Repeatable.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
once;OTHER
once;@versions
'
            ;;
        'doctor ')
            commands='access;-;again;Show the identity that a store sees, and the permissions that are missing.
storage;-;again;Probe what the store of a table guarantees, on scratch files.
table;-;again;Give advice on a table, with its numbers before and after.
'
            options='--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments=''
            ;;
        'doctor access ')
            commands=''
            options='--yes;-;once;Also create, replace and delete a scratch file.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
'
            ;;
        'doctor storage ')
            commands=''
            options='--dry-run;-;once;Show the plan and change nothing; overrides --yes.
--yes;-;once;Do not ask for confirmation.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
'
            ;;
        'doctor table ')
            commands=''
            options='--no-listing;-;once;Do not list the files of the table: no advice on unreferenced files.
--html;FILE;once;Also write a page with plots of the table, which loads nothing else.
--prices;FILE;once;Prices of the store, TOML or JSON.
--check;-;once;Exit with 1 if there is advice.
--checkpoints;TEXT;again;Name the streaming queries with these checkpoint directories that it concerns. Repeatable.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
'
            ;;
        'explain ')
            commands=''
            options='--client;deltalake duckdb polars chdb delta-sharing kernel spark databricks trino pypaimon;again;Client to explain, in a version or the newest known.  Repeatable.
--if;@supposed;again;Change to suppose: add=FEATURE, drop=FEATURE or widen=COLUMN:TYPE.  Repeatable.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
'
            ;;
        'features ')
            commands=''
            options='--truncate-history;-;once;drop: delete the versions that need the feature instead of protecting them.
--protect-streams;TEXT;again;Keep what Spark queries need whose checkpoint directories match, such as '\''s3://lake/checkpoints/*'\''. Repeatable.
--ignore-streams-older;TEXT;once;Do not keep anything for a query that is behind and whose checkpoint is older than this.
--allow-stream-loss;TEXT;again;Delete although this query (its id or checkpoint directory) cannot continue then. Repeatable.
--commit-metadata;TEXT;again;Key to add to the commitInfo; userMetadata=V sets that field. Repeatable.
--checkpoints;TEXT;again;Name the streaming queries with these checkpoint directories that it concerns. Repeatable.
--dry-run;-;once;Show the plan and change nothing; overrides --yes.
--yes;-;once;Do not ask for confirmation.
--engine;embedded spark;once;Where the work runs: in this process, or on a Spark cluster.
--master;TEXT;once;Spark master, such as local[4] or spark://HOST:7077.
--remote;TEXT;once;Spark Connect server, such as sc://HOST:15002; @FILE reads the URL from a file.
--spark-conf;TEXT;again;Setting of the Spark session; K=@FILE reads the value from a file. Repeatable.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
once;add drop
again;@features
'
            ;;
        'fleet ')
            commands='check;-;again;Check a policy file, without opening any table.
init;-;again;Write a policy file for the tables at and below a directory.
plan;-;again;Show what is due for the tables of a policy file, and why.
run;-;again;Do what is due for the tables of a policy file.
status;-;again;Show the alerts of each table, the worst first, and trends.
'
            options='--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments=''
            ;;
        'fleet check ')
            commands=''
            options='--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;FILE
'
            ;;
        'fleet init ')
            commands=''
            options='--force;-;once;Replace an existing policy file.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
once;FILE
'
            ;;
        'fleet plan ')
            commands=''
            options='--only;@groups;again;Only the tables of this group. Repeatable.
--state;DIRECTORY;once;Directory of the journal and the leases.
--details;-;once;Plan destructive steps exactly, as vacuum and log expire do with --dry-run.
--save-plans;DIRECTORY;once;Also save these plans in a directory, for vacuum --apply.
--limit;TEXT;once;Rows of the table shown, the worst first; 0 shows all.
--exit-code;-;once;Exit with 1 if a step is due, for scripts.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;FILE
'
            ;;
        'fleet run ')
            commands=''
            options='--only;@groups;again;Only the tables of this group. Repeatable.
--state;DIRECTORY;once;Directory of the journal and the leases.
--jobs;TEXT;once;Tables to work on at once.
--time-budget;TEXT;once;Start no step after this time, nor one that is expected to end later.
--resume;-;once;Continue the newest run if it was killed, interrupted or out of time.
--steal-leases;TEXT;once;Take tables that other runs hold; the reason is recorded.
--yes;-;once;Run destructive steps where their policy has consent = true.
--limit;TEXT;once;Rows of the table shown, the worst first; 0 shows all.
--engine;embedded spark;once;Where the work runs: in this process, or on a Spark cluster.
--master;TEXT;once;Spark master, such as local[4] or spark://HOST:7077.
--remote;TEXT;once;Spark Connect server, such as sc://HOST:15002; @FILE reads the URL from a file.
--spark-conf;TEXT;again;Setting of the Spark session; K=@FILE reads the value from a file. Repeatable.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;FILE
'
            ;;
        'fleet status ')
            commands=''
            options='--only;@groups;again;Only the tables of this group. Repeatable.
--state;DIRECTORY;once;Directory of the journal and the leases.
--html;FILE;once;Also write a page with sortable tables and plots, which loads nothing else.
--pages;DIRECTORY;once;Directory of pages that doctor table --html wrote, to which the page of --html links.
--write-pages;-;once;First examine each table and write its page to --pages.
--metrics;FILE;once;Also write metrics in OpenMetrics text, for node_exporter'\''s textfile collector.
--serve-metrics;TEXT;once;Instead serve the metrics over HTTP until a signal, on loopback.
--allow-remote;-;once;Let --serve-metrics use an address that other machines can reach.
--limit;TEXT;once;Rows of the table shown, the worst first; 0 shows all.
--format;table json ndjson csv markdown sarif junit github;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;FILE
'
            ;;
        'history ')
            commands=''
            options='--limit;TEXT;once;Number of rows shown; 0 shows all.
--from;@versions;once;The first version: a number, or the first one committed at or after T.
--to;@versions;once;The last version: a number, or the last one committed at or before T.
--counts;-;once;Read the file actions, too, and count files and bytes.
--columns;version timestamp age timestampSource hasCommitInfo commitInfoTimestampMs inCommitTimestampMs operation operationParameters operationMetrics files rows userId userName engineInfo readVersion isolationLevel isBlindAppend userMetadata txnId actions addedFiles removedFiles addedBytes removedBytes problem commitInfo;once;Show only these columns, in this order.
--branch;@branch;once;Branch of a Paimon table.
--refs --no-refs;-;once;Read the manifests of a Paimon table to find the users of each schema.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
'
            ;;
        'log ')
            commands='backup;-;again;Copy the log of a table, and keep the copy up to date.
cat;-;again;Write the raw actions of a version, one per line.
compact;-;again;Write a log compaction: one file for the commits X to Y.
crc;-;again;Write a missing version checksum, or compare an existing one.
expire;-;again;Delete log files that no kept version needs.
restore;-;again;Restore files that a backup has and the log of a table lacks.
'
            options='--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments=''
            ;;
        'log backup ')
            commands=''
            options='--full;-;once;Compare every file by digest instead of by size and time.
--dry-run;-;once;Show the plan and change nothing; overrides --yes.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
once;DIRECTORY
'
            ;;
        'log cat ')
            commands=''
            options='--timestamp;TEXT;once;Use the newest version committed at or before T (RFC 3339 with offset, or a date: midnight UTC).
--actions;add cdc checkpointMetadata commitInfo domainMetadata metaData protocol remove sidecar txn;once;Only actions of these kinds.
--checkpoint;-;once;Write the actions of the checkpoint even if there is a commit.
--pretty;-;once;Indent the JSON of each action, for reading.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
once;@versions
'
            ;;
        'log compact ')
            commands=''
            options='--from;@versions;once;First commit of the range.
--to;@versions;once;Last commit of the range.
--dry-run;-;once;Show what would be written; write nothing.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
'
            ;;
        'log crc ')
            commands=''
            options='--version;@versions;once;Use the snapshot of this version.
--timestamp;TEXT;once;Use the newest version committed at or before T (RFC 3339 with offset, or a date: midnight UTC).
--dry-run;-;once;Compare only; write nothing.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
'
            ;;
        'log expire ')
            commands=''
            options='--retention;TEXT;once;Age up to which commits are kept, such as 60d.
--keep-version;@versions;again;Versions to keep, whatever their age. Repeatable.
--allow-retention-below;TEXT;once;Allow a retention below the table'\''s own, whose value is given here, such as 30d.
--protect-streams;TEXT;again;Keep what Spark queries need whose checkpoint directories match, such as '\''s3://lake/checkpoints/*'\''. Repeatable.
--ignore-streams-older;TEXT;once;Do not keep anything for a query that is behind and whose checkpoint is older than this.
--allow-stream-loss;TEXT;again;Delete although this query (its id or checkpoint directory) cannot continue then. Repeatable.
--dry-run;-;once;Show the plan and change nothing; overrides --yes.
--yes;-;once;Do not ask for confirmation.
--engine;embedded spark;once;Where the work runs: in this process, or on a Spark cluster.
--master;TEXT;once;Spark master, such as local[4] or spark://HOST:7077.
--remote;TEXT;once;Spark Connect server, such as sc://HOST:15002; @FILE reads the URL from a file.
--spark-conf;TEXT;again;Setting of the Spark session; K=@FILE reads the value from a file. Repeatable.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
'
            ;;
        'log restore ')
            commands=''
            options='--replace;-;once;Replace files that differ from the backup, such as torn commits.
--dry-run;-;once;Show the plan and change nothing; overrides --yes.
--yes;-;once;Do not ask for confirmation.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
once;DIRECTORY
'
            ;;
        'manifest ')
            commands=''
            options='--check;-;once;Change nothing; exit 1 if a manifest differs, 4 if refused.
--dry-run;-;once;Show the plan and change nothing; overrides --yes.
--yes;-;once;Do not ask for confirmation.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
'
            ;;
        'optimize ')
            commands=''
            options='--where;TEXT;once;Optimize only partitions that match: "date >= '\''2026-01-01'\''".
--target-size;TEXT;once;Size of new files.
--min-files;TEXT;once;Fewest files that are written as one; at least 2.
--min-size;TEXT;once;Size from which a file is left alone.
--zorder;@paths;again;Sort the rows of each partition by a z-order of these columns.
--cluster;-;once;Sort new rows by the clustering columns of the table.
--purge;-;once;Rewrite every file with deleted rows, dropped columns, NaN beyond bounds or misread INT96, and no others.
--purge-ratio;TEXT;once;Share of deleted rows above which a file of any size is rewritten.
--max-bytes;TEXT;once;Rewrite at most this many bytes.
--time-budget;TEXT;once;Begin no commit after this time, such as 30m.
--verify;-;once;Compare all rows before and after the commits once more, from the files.
--temp-dir;DIRECTORY;once;Directory for temporary files of sorted rows.
--commit-metadata;TEXT;again;Key to add to the commitInfo; userMetadata=V sets that field. Repeatable.
--check;-;once;Change nothing; exit 1 if there is something to do.
--dry-run;-;once;Show the plan and change nothing; overrides --yes.
--yes;-;once;Do not ask for confirmation.
--engine;embedded spark;once;Where the work runs: in this process, or on a Spark cluster.
--master;TEXT;once;Spark master, such as local[4] or spark://HOST:7077.
--remote;TEXT;once;Spark Connect server, such as sc://HOST:15002; @FILE reads the URL from a file.
--spark-conf;TEXT;again;Setting of the Spark session; K=@FILE reads the value from a file. Repeatable.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='again;DIRECTORY
'
            ;;
        'properties ')
            commands=''
            options='--force;-;once;Also set delta. keys that no known engine recognizes.
--upgrade-protocol;-;once;Add the features that the properties require.
--commit-metadata;TEXT;again;Key to add to the commitInfo; userMetadata=V sets that field. Repeatable.
--checkpoints;TEXT;again;Name the streaming queries with these checkpoint directories that it concerns. Repeatable.
--dry-run;-;once;Show the plan and change nothing; overrides --yes.
--yes;-;once;Do not ask for confirmation.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
once;get set unset
again;@properties
'
            ;;
        'reach ')
            commands=''
            options='--retention;TEXT;once;Show as well what a retention of the log and of removed files, such as 7d, would free and cost.
--checkpoints;TEXT;again;Name the streaming queries with these checkpoint directories that it concerns. Repeatable.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
'
            ;;
        'read ')
            commands=''
            options='--columns;@columns;once;Show only these columns, in this order.
--where;TEXT;once;Return only rows that match it.
--row-ids;-;once;Add the id of each row and the version of its last change.
--limit;TEXT;once;Number of rows shown; 0 shows all.
--version;@versions;once;Use the snapshot of this version.
--timestamp;TEXT;once;Use the newest version committed at or before T (RFC 3339 with offset, or a date: midnight UTC).
--explain;-;once;List the files that would be read instead, and why others are skipped.
--count;-;once;Count the rows instead.
--engine;embedded spark;once;Where the work runs: in this process, or on a Spark cluster.
--master;TEXT;once;Spark master, such as local[4] or spark://HOST:7077.
--remote;TEXT;once;Spark Connect server, such as sc://HOST:15002; @FILE reads the URL from a file.
--spark-conf;TEXT;again;Setting of the Spark session; K=@FILE reads the value from a file. Repeatable.
--format;table json ndjson csv markdown parquet;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, or Parquet files to this new or empty directory; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
'
            ;;
        'repair ')
            commands=''
            options='--level;log storage footers data;once;What to check: the log; also a listing of the table; also footers of data files; also their rows.
--select;TEXT;again;Act only on these rules: globs over rule ids. Repeatable.
--from;DIRECTORY;again;Where to look for lost files: versions that the store keeps, a copy of the table or of its log, a quarantine. Repeatable.
--accept-commits;TEXT;again;Versions of a copy to bring back although nothing proves that they are of this table. Repeatable.
--accept-empty-commits;TEXT;again;Commits of 0 bytes to write as versions that changed nothing, where no copy and no checkpoint has them. Repeatable.
--accept-loss;-;once;Allow steps that give up rows that no source has.
--partition-value;TEXT;again;Partition value, of the files whose path in the log matches GLOB, where the log and the path have none. Repeatable.
--allow-in-use;-;once;Repair although others committed within the last hour.
--max-missing;TEXT;once;Refuse to give up more than this share of the live files.
--quarantine;DIRECTORY;once;Keep the backup, and the readable rows of damaged files, in this directory outside of all tables.
--commit-metadata;TEXT;again;Key to add to the commitInfo; userMetadata=V sets that field. Repeatable.
--save-plan;FILE;once;Write the plan to a file and change nothing.
--apply;FILE;once;Execute a saved plan, or resume it.
--undo;DIRECTORY;once;Put the files that a repair replaced back from its backup.
--dry-run;-;once;Show the plan and change nothing; overrides --yes.
--yes;-;once;Do not ask for confirmation.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
'
            ;;
        'restore ')
            commands=''
            options='--where;TEXT;once;Restore only partitions that match: "date >= '\''2026-01-01'\''".
--from;DIRECTORY;again;Where to look for missing files: versions that the store keeps, or a copy of the table. Repeatable.
--trust-listing;-;once;Do not read the footers of files that come back, only their sizes.
--allow-removals;-;once;Remove files also where delta.appendOnly is true.
--commit-metadata;TEXT;again;Key to add to the commitInfo; userMetadata=V sets that field. Repeatable.
--version;@versions;once;Restore this version.
--timestamp;TEXT;once;Restore the newest version committed at or before T (RFC 3339 with offset, or a date: midnight UTC).
--check;-;once;Change nothing; exit 1 if something differs, 4 if refused.
--checkpoints;TEXT;again;Name the streaming queries with these checkpoint directories that it concerns. Repeatable.
--dry-run;-;once;Show the plan and change nothing; overrides --yes.
--yes;-;once;Do not ask for confirmation.
--engine;embedded spark;once;Where the work runs: in this process, or on a Spark cluster.
--master;TEXT;once;Spark master, such as local[4] or spark://HOST:7077.
--remote;TEXT;once;Spark Connect server, such as sc://HOST:15002; @FILE reads the URL from a file.
--spark-conf;TEXT;again;Setting of the Spark session; K=@FILE reads the value from a file. Repeatable.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
'
            ;;
        'schema ')
            commands='convert;-;again;Write the schema of a table or file in the form of another format.
diff;-;again;Show what changes from one schema to another; exit 1 if something does.
show;-;again;Show the schema of a Delta or Paimon table as a tree.
'
            options='--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments=''
            ;;
        'schema convert ')
            commands=''
            options='--to;delta paimon arrow ddl;once;Form of the result.
--version;@versions;once;Use the snapshot of this version.
--timestamp;TEXT;once;Use the newest version committed at or before T (RFC 3339 with offset, or a date: midnight UTC).
--schema-id;@schema;once;Use this schema of a Paimon table.
--snapshot-id;@snapshot;once;Use this snapshot of a Paimon table and its schema.
--tag;@tag;once;Use this tag of a Paimon table and its schema.
--branch;@branch;once;Branch of a Paimon table.
--min-paimon;@versions;once;paimon: oldest major version of Paimon among the engines of the new table, 1 or 2.
--yes;-;once;Do not ask for confirmation.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
'
            ;;
        'schema diff ')
            commands=''
            options='--from;@points;once;Point of TABLE.
--to;@points;once;Point of OTHER.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
once;DIRECTORY
'
            ;;
        'schema show ')
            commands=''
            options='--version;@versions;once;Use the snapshot of this version.
--timestamp;TEXT;once;Use the newest version committed at or before T (RFC 3339 with offset, or a date: midnight UTC).
--schema-id;@schema;once;Use this schema of a Paimon table.
--snapshot-id;@snapshot;once;Use this snapshot of a Paimon table and its schema.
--tag;@tag;once;Use this tag of a Paimon table and its schema.
--branch;@branch;once;Branch of a Paimon table.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
'
            ;;
        'share ')
            commands='changes;-;again;Read how the rows of a shared table changed between two versions.
check;-;again;Check a sharing configuration by opening every shared table.
head;-;again;Show a few rows of a shared table.
init;-;again;Write the configuration of a server that shares the tables at and below directories.
key;-;again;Manage the key that signs page tokens and file URLs.
ls;-;again;List the shares, schemas and tables that a profile gives access to.
profile;-;again;Inspect profile files, without showing their tokens.
pull;-;again;Copy a shared table into a local one, or its rows into files, verified.
recipient;-;again;Manage who may read shared tables.
schema;-;again;Show the schema of a shared table, as a tree.
serve;-;again;Serve tables to Delta Sharing clients.
test;-;again;Check a Delta Sharing or OpenSharing server against the text of the protocol.
token;-;again;Manage the bearer tokens of recipients.
'
            options='--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments=''
            ;;
        'share changes ')
            commands=''
            options='--from;TEXT;once;The first version: a number, or the first one committed at or after T.
--to;TEXT;once;The last version: a number, or the last one committed at or before T.
--columns;TEXT;once;Show only these columns of the table; those of the change follow.
--where;TEXT;once;Return only rows that match it.
--row-ids;-;once;Add the id of each row and the version of its last change.
--limit;TEXT;once;Number of rows shown; 0 shows all.
--format;table json ndjson csv markdown parquet;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, or Parquet files to this new or empty directory; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;FILE
'
            ;;
        'share check ')
            commands=''
            options='-c --config;FILE;once;Configuration of the server.
--level;log storage;once;What to check: the logs; also whether the files of the newest version exist.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments=''
            ;;
        'share head ')
            commands=''
            options='-n --limit;TEXT;once;Number of rows shown.
--columns;TEXT;once;Show only these columns, in this order.
--where;TEXT;once;Return only rows that match it.
--row-ids;-;once;Add the id of each row and the version of its last change.
--version;TEXT;once;Use the snapshot of this version.
--timestamp;TEXT;once;Use the newest version committed at or before T (RFC 3339 with offset, or a date: midnight UTC).
--format;table json ndjson csv markdown parquet;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, or Parquet files to this new or empty directory; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;FILE
'
            ;;
        'share init ')
            commands=''
            options='-c --config;FILE;once;Configuration of the server.
--force;-;once;Replace an existing configuration.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='again;DIRECTORY
'
            ;;
        'share key ')
            commands='rotate;-;again;Replace the key that signs page tokens and file URLs.
'
            options='--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments=''
            ;;
        'share key rotate ')
            commands=''
            options='--overlap;TEXT;once;How long old keys are accepted; 0s ends them. As long as tokens and URLs are valid by default.
-c --config;FILE;once;Configuration of the server.
--dry-run;-;once;Show the plan and change nothing; overrides --yes.
--yes;-;once;Do not ask for confirmation.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments=''
            ;;
        'share ls ')
            commands=''
            options='--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;FILE
'
            ;;
        'share profile ')
            commands='check;-;again;Check a profile file: form, checksum of the token, expiry, permissions.
show;-;again;Show the endpoint and the expiry of a profile file, and never its secrets.
'
            options='--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments=''
            ;;
        'share profile check ')
            commands=''
            options='--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;FILE
'
            ;;
        'share profile show ')
            commands=''
            options='--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;FILE
'
            ;;
        'share pull ')
            commands=''
            options='--to;FILE;once;Directory of the local table, or file or directory of rows.
--as;delta parquet csv ndjson;once;Form of the result.
--columns;TEXT;once;Write only these columns, in this order.
--where;TEXT;once;Return only rows that match it.
--row-ids;-;once;Add the id of each row and the version of its last change.
--limit;TEXT;once;Largest number of rows.
--version;TEXT;once;Use the snapshot of this version.
--timestamp;TEXT;once;Use the newest version committed at or before T (RFC 3339 with offset, or a date: midnight UTC).
--resume;-;once;Finish an interrupted pull at the version that it was pulling.
--verify;footers data;once;Check footers, or decode all data of each file, also of those that are there.
--force;-;once;Replace the file of --to if it exists.
--dry-run;-;once;Show the plan and change nothing; overrides --yes.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;FILE
'
            ;;
        'share recipient ')
            commands='add;-;again;Add a recipient.
grant;-;again;Grant shares, schemas or tables to a recipient.
list;-;again;List recipients with their grants.
remove;-;again;Remove a recipient with its tokens and grants.
revoke;-;again;Revoke grants of a recipient.
'
            options='--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments=''
            ;;
        'share recipient add ')
            commands=''
            options='--grant;TEXT;again;SHARE, SHARE/SCHEMA or SHARE/SCHEMA/TABLE to grant. Repeatable.
--comment;TEXT;once;Remark that is listed with it.
-c --config;FILE;once;Configuration of the server.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;TEXT
'
            ;;
        'share recipient grant ')
            commands=''
            options='-c --config;FILE;once;Configuration of the server.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;TEXT
again;TEXT
'
            ;;
        'share recipient list ')
            commands=''
            options='-c --config;FILE;once;Configuration of the server.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;TEXT
'
            ;;
        'share recipient remove ')
            commands=''
            options='-c --config;FILE;once;Configuration of the server.
--dry-run;-;once;Show the plan and change nothing; overrides --yes.
--yes;-;once;Do not ask for confirmation.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;TEXT
'
            ;;
        'share recipient revoke ')
            commands=''
            options='-c --config;FILE;once;Configuration of the server.
--dry-run;-;once;Show the plan and change nothing; overrides --yes.
--yes;-;once;Do not ask for confirmation.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;TEXT
again;TEXT
'
            ;;
        'share schema ')
            commands=''
            options='--version;TEXT;once;Use the snapshot of this version.
--timestamp;TEXT;once;Use the newest version committed at or before T (RFC 3339 with offset, or a date: midnight UTC).
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;FILE
'
            ;;
        'share serve ')
            commands=''
            options='-c --config;FILE;once;Configuration; shares.yaml by default.
--host;TEXT;once;Address to listen on.
--port;TEXT;once;Port to listen on; 0: any free one.
--admin-port;TEXT;once;Port of /metrics, /healthz, /readyz.
--workers;TEXT;once;Number of processes that answer requests.
--behind-proxy;-;once;Accept plain HTTP from a reverse proxy, which has the certificate.
--profile;FILE;once;With DIRECTORY: write the profile there, readable by you only, instead of stdout.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='again;DIRECTORY
'
            ;;
        'share test ')
            commands=''
            options='--profile;FILE;once;Profile with the token for the URL.
--level;api footers data;once;What to check: answers of the API; also URLs and footers of up to 3 files per table; also their rows.
--profile-of;delta-sharing opensharing;once;Protocol whose rules are checked; opensharing adds those about its own routes.
--no-credentials;-;once;Do not ask for credentials of directories.
--probe-scope;-;once;Also try to list what is outside the credentials: the parent directory and a sibling.
--select;share.no-answer share.server-error share.error-body share.error-content-type share.redirect share.token-not-required share.token-not-checked share.unauthenticated-status share.unknown-not-404 share.list-content-type share.list-body share.list-item-field share.list-item-elsewhere share.name-invalid share.id-repeated share.id-differs share.get-share share.name-case share.list-page-size share.list-pages-differ share.list-pages-endless share.list-max-results-zero share.list-bad-max-results share.list-bad-page-token share.all-tables-differ share.share-metadata-form share.share-metadata-limits share.asset-route share.version-body share.version-head share.version-differs share.version-since share.version-since-early share.as-of-newest-differs share.as-of-header share.as-of-fields share.version-unknown share.timestamp-differs share.timestamp-invalid share.version-and-timestamp share.lines-content-type share.version-header share.line-not-json share.line-wrapper share.line-splits share.line-order share.end-unasked share.end-missing share.answer-failed share.format-header share.protocol-line share.metadata-field share.metadata-schema share.metadata-totals share.file-field share.action-field share.file-id-repeated share.partition-values share.partition-value-text share.stats-invalid share.url-not-https share.expiration share.vector-url share.format-default share.format-ignored share.format-advanced share.capabilities-case share.capabilities-unknown share.feature-unasked share.formats-differ share.metadata-lines share.metadata-differs share.file-id-hash share.file-id-unstable share.query-malformed share.query-unknown-field share.page-size share.pages-differ share.pages-endless share.page-head share.page-token-not-checked share.end-promised-not-sent share.refresh-differs share.hint-loses-rows share.hint-adds-files share.hint-invalid-refused share.hint-invalid-filters share.limit-too-few share.limit-before-predicate share.changes-start share.changes-reversed share.changes-range share.changes-fields share.changes-header share.changes-parts-differ share.changes-by-time share.since-range share.since-unknown share.async-unasked share.async-refused share.async-echo share.async-status share.async-deduplicate share.async-spark share.async-version-header share.async-result-differs share.async-parameters-lost share.async-pages share.async-unknown-id share.async-id-names share.url-private share.url-unreadable share.url-range share.file-size share.file-not-parquet share.url-unsigned share.stats-records share.file-columns share.vector-unreadable share.stats-bounds share.access-modes-form share.access-mode-unknown share.access-modes-differ share.access-location-missing share.access-location-form share.access-location-differs share.access-nesting share.auxiliary-form share.url-mode-broken share.dir-only-query share.dir-only-metadata share.dir-unannounced share.credential-answer share.credential-one-cloud share.credential-cloud-fits share.credential-location share.credential-broad share.credential-expiry share.credential-short share.credential-long-lived share.credential-sas share.credential-body share.credential-malformed share.credential-outside share.credential-unauthenticated share.credential-cacheable share.dir-history share.dir-unreadable share.dir-differs share.dir-paths-outside share.dir-scope share.get-table share.head-table;again;Check only these rules: globs over rule ids. Repeatable.
--ignore;share.no-answer share.server-error share.error-body share.error-content-type share.redirect share.token-not-required share.token-not-checked share.unauthenticated-status share.unknown-not-404 share.list-content-type share.list-body share.list-item-field share.list-item-elsewhere share.name-invalid share.id-repeated share.id-differs share.get-share share.name-case share.list-page-size share.list-pages-differ share.list-pages-endless share.list-max-results-zero share.list-bad-max-results share.list-bad-page-token share.all-tables-differ share.share-metadata-form share.share-metadata-limits share.asset-route share.version-body share.version-head share.version-differs share.version-since share.version-since-early share.as-of-newest-differs share.as-of-header share.as-of-fields share.version-unknown share.timestamp-differs share.timestamp-invalid share.version-and-timestamp share.lines-content-type share.version-header share.line-not-json share.line-wrapper share.line-splits share.line-order share.end-unasked share.end-missing share.answer-failed share.format-header share.protocol-line share.metadata-field share.metadata-schema share.metadata-totals share.file-field share.action-field share.file-id-repeated share.partition-values share.partition-value-text share.stats-invalid share.url-not-https share.expiration share.vector-url share.format-default share.format-ignored share.format-advanced share.capabilities-case share.capabilities-unknown share.feature-unasked share.formats-differ share.metadata-lines share.metadata-differs share.file-id-hash share.file-id-unstable share.query-malformed share.query-unknown-field share.page-size share.pages-differ share.pages-endless share.page-head share.page-token-not-checked share.end-promised-not-sent share.refresh-differs share.hint-loses-rows share.hint-adds-files share.hint-invalid-refused share.hint-invalid-filters share.limit-too-few share.limit-before-predicate share.changes-start share.changes-reversed share.changes-range share.changes-fields share.changes-header share.changes-parts-differ share.changes-by-time share.since-range share.since-unknown share.async-unasked share.async-refused share.async-echo share.async-status share.async-deduplicate share.async-spark share.async-version-header share.async-result-differs share.async-parameters-lost share.async-pages share.async-unknown-id share.async-id-names share.url-private share.url-unreadable share.url-range share.file-size share.file-not-parquet share.url-unsigned share.stats-records share.file-columns share.vector-unreadable share.stats-bounds share.access-modes-form share.access-mode-unknown share.access-modes-differ share.access-location-missing share.access-location-form share.access-location-differs share.access-nesting share.auxiliary-form share.url-mode-broken share.dir-only-query share.dir-only-metadata share.dir-unannounced share.credential-answer share.credential-one-cloud share.credential-cloud-fits share.credential-location share.credential-broad share.credential-expiry share.credential-short share.credential-long-lived share.credential-sas share.credential-body share.credential-malformed share.credential-outside share.credential-unauthenticated share.credential-cacheable share.dir-history share.dir-unreadable share.dir-differs share.dir-paths-outside share.dir-scope share.get-table share.head-table;again;Skip these rules: globs over rule ids. Repeatable.
--fail-on;error warning info;once;Lowest severity for exit code 1.
--baseline;FILE;once;Accept the findings listed in this file.
--write-baseline;FILE;once;Write the current findings to a file for --baseline, and exit 0.
--max-findings;TEXT;once;Findings shown per rule and table; 0 shows all.
--exit-zero;-;once;Exit 0 even if there are findings.
--brief;-;once;Show findings without values and fixes; one per line in a pipe.
--max-tables;TEXT;once;Test at most this many tables; 0 tests the lists only.
--max-requests;TEXT;once;Send at most this many requests.
--time-budget;TEXT;once;Send no request after this time, such as 5m.
--pause;TEXT;once;Wait between two requests, such as 200ms.
--list-rules;-;once;List the rules instead; takes no ADDRESS.
--format;table json ndjson csv markdown sarif junit github;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;FILE
'
            ;;
        'share token ')
            commands='create;-;again;Create a token for a recipient, and show it once.
list;-;again;List tokens by their ids, with their state and expiry.
revoke;-;again;Revoke tokens of a recipient.
rotate;-;again;Replace the tokens of a recipient by a new one.
'
            options='--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments=''
            ;;
        'share token create ')
            commands=''
            options='--expires;TEXT;once;How long the token is valid, such as 30d or 12h.
--profile;FILE;once;Write the token to this new profile file, which only you can read, and not to stdout.
-c --config;FILE;once;Configuration of the server.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;TEXT
'
            ;;
        'share token list ')
            commands=''
            options='-c --config;FILE;once;Configuration of the server.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;TEXT
'
            ;;
        'share token revoke ')
            commands=''
            options='--all;-;once;Revoke all tokens of the recipient.
-c --config;FILE;once;Configuration of the server.
--dry-run;-;once;Show the plan and change nothing; overrides --yes.
--yes;-;once;Do not ask for confirmation.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;TEXT
again;TEXT
'
            ;;
        'share token rotate ')
            commands=''
            options='--overlap;TEXT;once;How long the old tokens stay valid; 0s revokes them.
--expires;TEXT;once;How long the token is valid, such as 30d or 12h.
--profile;FILE;once;Write the token to this new profile file, which only you can read, and not to stdout.
-c --config;FILE;once;Configuration of the server.
--dry-run;-;once;Show the plan and change nothing; overrides --yes.
--yes;-;once;Do not ask for confirmation.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;TEXT
'
            ;;
        'snapshot ')
            commands=''
            options='--version;@versions;once;Use the snapshot of this version.
--timestamp;TEXT;once;Use the newest version committed at or before T (RFC 3339 with offset, or a date: midnight UTC).
--files;-;once;List the live files instead.
--tombstones;-;once;List the tombstones instead, including expired ones.
--schema;-;once;Show the schema as a tree instead.
--mapping;-;once;Show the ids and physical names of column mapping; requires --schema.
--counts;-;once;Show only the numbers of files, rows, bytes and tombstones.
--digest;-;once;Add SHA-256 digests of the live files and tombstones.
--from-checksum;-;once;Take the state from the checksum of the version, without a replay, as far as the checksum has it.
--limit;TEXT;once;Number of rows shown; 0 shows all.
--columns;TEXT;once;Show only these columns, in this order.
--schema-id;@schema;once;Use this schema of a Paimon table.
--snapshot-id;@snapshot;once;Use this snapshot of a Paimon table and its schema.
--tag;@tag;once;Use this tag of a Paimon table and its schema.
--branch;@branch;once;Branch of a Paimon table.
--ddl;-;once;Show the schema of a Paimon table as CREATE TABLE of Flink SQL instead.
--engine;embedded spark;once;Where the work runs: in this process, or on a Spark cluster.
--master;TEXT;once;Spark master, such as local[4] or spark://HOST:7077.
--remote;TEXT;once;Spark Connect server, such as sc://HOST:15002; @FILE reads the URL from a file.
--spark-conf;TEXT;again;Setting of the Spark session; K=@FILE reads the value from a file. Repeatable.
--format;table json ndjson csv markdown parquet;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, or Parquet files to this new or empty directory; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
'
            ;;
        'spark ')
            commands='package;-;again;Write the archive that executors import deltacli from, and print its path.
'
            options='--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments=''
            ;;
        'spark package ')
            commands=''
            options='--to;DIRECTORY;once;Existing directory that gets the archive.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments=''
            ;;
        'stats ')
            commands=''
            options='--where;TEXT;once;Only files of partitions that match: "date >= '\''2026-01-01'\''".
--columns;TEXT;again;Only statistics of these columns.
--missing;-;once;Only files that lack statistics of a column.
--all;-;once;All files: wrong statistics are replaced, too.
--read;footers rows;once;What to read: footers, which do not have all bounds, or all rows.
--commit-metadata;TEXT;again;Key to add to the commitInfo; userMetadata=V sets that field. Repeatable.
--check;-;once;Read, and change nothing; exit 1 if statistics are missing or wrong.
--dry-run;-;once;Show the plan and change nothing; overrides --yes.
--yes;-;once;Do not ask for confirmation.
--engine;embedded spark;once;Where the work runs: in this process, or on a Spark cluster.
--master;TEXT;once;Spark master, such as local[4] or spark://HOST:7077.
--remote;TEXT;once;Spark Connect server, such as sc://HOST:15002; @FILE reads the URL from a file.
--spark-conf;TEXT;again;Setting of the Spark session; K=@FILE reads the value from a file. Repeatable.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='again;DIRECTORY
'
            ;;
        'streams ')
            commands=''
            options='--checkpoints;TEXT;again;Checkpoint directories of the queries, also patterns such as '\''chk/*'\''. Repeatable.
--restart-point;TEXT;once;Show where the query of this checkpoint can start over, and what is lost.
--tables;TEXT;again;Tables that the queries may read, found by id; also patterns. Repeatable.
--fail-on;dead at-risk;once;Exit with 1 if a query is dead, or not ok.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
'
            ;;
        'undelete ')
            commands=''
            options='--from;DIRECTORY;again;Where to look for the files: versions that the store keeps, or a copy of the table. Repeatable.
--version;@versions;once;Version whose files are needed.
--prefix;TEXT;once;Bring back only data files below this directory of the table.
--accept-commits;TEXT;again;Versions of a copy to bring back although nothing proves that they are of this table. Repeatable.
--dry-run;-;once;Show the plan and change nothing; overrides --yes.
--yes;-;once;Do not ask for confirmation.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
'
            ;;
        'vacuum ')
            commands=''
            options='--retention;TEXT;once;Age up to which files are kept, such as 14d.
--allow-retention-below;TEXT;once;Allow a retention below the table'\''s own, whose value is given here, such as 168h.
--mode;full lite;once;Source of candidates: full lists the table, lite reads removed files from commits.
--prefix;TEXT;once;Delete only below this directory of the table.
--where;TEXT;once;Delete only in partitions that match: "date < '\''2026-01-01'\''".
--keep-version;@versions;again;Versions to keep fully readable, whatever their age. Repeatable.
--protect-from;DIRECTORY;again;Keep files that another table (a shallow clone) references. Repeatable.
--protect-streams;TEXT;again;Keep what Spark queries need whose checkpoint directories match, such as '\''s3://lake/checkpoints/*'\''. Repeatable.
--ignore-streams-older;TEXT;once;Do not keep anything for a query that is behind and whose checkpoint is older than this.
--allow-stream-loss;TEXT;again;Delete although this query (its id or checkpoint directory) cannot continue then. Repeatable.
--inventory;FILE;once;List of files to use instead of a listing: S3 Inventory (manifest.json), Parquet, CSV.
--max-delete;TEXT;once;Refuse to delete more than this share of the table, or more bytes.
--quarantine;DIRECTORY;once;Copy each file to this directory outside of all tables before it is deleted.
--include-foreign;-;once;Also delete unrecognized files that are older than the retention.
--skip-nested-tables;-;once;Skip directories that are tables of their own instead of refusing.
--no-log-entries;-;once;Do not commit VACUUM START and VACUUM END.
--threads;TEXT;once;Number of threads that delete.
--rate;TEXT;once;Maximum files to delete per second, such as 500/s.
--commit-metadata;TEXT;again;Key to add to the commitInfo; userMetadata=V sets that field. Repeatable.
--files;-;once;List every file to delete; csv and ndjson always do.
--save-plan;FILE;once;Write the plan to a Parquet file; delete nothing.
--apply;FILE;once;Execute a saved plan, or resume it.
--accept-copy;-;once;With --apply, accept the plan of a table elsewhere of which this one is a copy with the same past.
--explain;FILE;once;Show why a file is kept or deleted; change nothing.
--purge-older;TEXT;once;Only empty the quarantine of this table: delete copies older than this, such as 30d.
--schemas;-;once;Delete schema files of a Paimon table that nothing needs.
--keep-last;TEXT;once;Keep the last K schemas of a Paimon table, whatever their age.
--branch;@branch;once;Branch of a Paimon table.
--dry-run;-;once;Show the plan and change nothing; overrides --yes.
--yes;-;once;Do not ask for confirmation.
--engine;embedded spark;once;Where the work runs: in this process, or on a Spark cluster.
--master;TEXT;once;Spark master, such as local[4] or spark://HOST:7077.
--remote;TEXT;once;Spark Connect server, such as sc://HOST:15002; @FILE reads the URL from a file.
--spark-conf;TEXT;again;Setting of the Spark session; K=@FILE reads the value from a file. Repeatable.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='again;DIRECTORY
'
            ;;
        'validate ')
            commands=''
            options='--level;log storage footers data;once;What to check: the log; also a listing of the table; also footers of data files; also their rows.
--sample;TEXT;once;Check only this share of the data files, such as 5%; the sample differs per version.
--where;TEXT;once;Check only data files that may contain matching rows; all of their rows are checked.
--select;log.not-a-table log.gap log.start-missing log.checkpoint-commit-missing log.name-not-padded log.name-mistaken log.name-unknown log.temp-leftover log.subdir-unknown log.version-too-large log.staged-without-feature log.staged-stale log.staged-name log.cleanup-overdue log.no-checkpoint-long log.nested-table log.mtime-order log.mtime-future log.mtime-vs-commitinfo commit.empty commit.not-utf8 commit.bad-json commit.line-not-object commit.duplicate-key commit.unknown-field commit.pretty-printed commit.crlf-or-blank action.missing-required action.wrong-type action.number-spelling commit.lone-surrogate commit.number-not-finite domain.configuration-not-string commit.checkpoint-only-action commit.first-without-protocol commit.first-without-metadata commit.unknown-action commit.huge action.readd-without-remove action.remove-of-unknown action.remove-dv-mismatch action.datachange-false-new-data action.datachange-mixed action.cdc-only commitinfo.missing commitinfo.several commitinfo.not-object commit.duplicate-metadata commit.duplicate-protocol commit.duplicate-txn commit.duplicate-domain action.duplicate-path stats.records-disagree action.add-remove-same-key action.negative-size action.bad-modification-time action.deletion-timestamp-missing action.deletion-timestamp-odd action.extended-metadata-lie action.remove-size-missing action.path-empty action.tags-null-value action.cdc-datachange-true txn.version-decrease txn.last-updated-missing txn.count-high domain.system-unknown domain.without-feature domain.tombstone-empty path.bad-encoding path.not-encoded path.colon path.escapes-root path.not-normalised path.absolute path.absolute-inside-root path.file-uri-form path.hidden-location path.reserved-name path.double-encoded path.same-file-two-spellings path.case-collision path.shared-with-cdc path.not-unique-over-history feature.used-not-supported feature.property-without-feature feature.supported-not-used vacuumcheck.old-vacuum protocol.missing protocol.version-out-of-range protocol.reader3-needs-writer7 protocol.reader-features-missing protocol.writer-features-missing protocol.features-on-legacy protocol.reader-only-feature protocol.rw-feature-not-in-reader protocol.writer-feature-in-reader protocol.unknown-feature protocol.preview-feature protocol.dependency protocol.exclusive protocol.duplicate-feature protocol.downgrade protocol.legacy-oddity protocol.stray-keys metadata.id-not-guid metadata.id-changed metadata.format-not-parquet metadata.created-time metadata.partition-column-unknown metadata.partition-column-duplicate metadata.partition-column-type metadata.partition-column-nested metadata.all-columns-partitioned metadata.partitioning-changed property.unknown-delta-key property.bad-boolean property.bad-number property.bad-interval property.interval-portability property.retention-order property.retention-short property.retention-long property.legacy-append-only-key property.stats-both-off property.stats-struct-unset property.checkpoint-policy property.compression-codec property.parquet-version property.protocol-in-config property.log-cleanup-off property.cdf-legacy-key schema.not-null-tightened schema.new-not-null-column schema.column-dropped-no-mapping schema.type-changed-illegally schema.case-only-change schema.bad-json schema.field-missing-key schema.unknown-type schema.decimal-bounds schema.char-varchar schema.duplicate-column schema.empty-name schema.invalid-chars schema.empty-struct schema.no-columns schema.map-key-null schema.void-in-complex schema.metadata-reserved schema.collation-of-another schema.interval-noncanonical schema.too-wide mapping.mode-change-illegal mapping.physical-name-changed mapping.id-reused mapping.physical-path-reused mapping.max-id-decreased mapping.partition-key-logical mapping.stats-key-logical mapping.mode-invalid mapping.mode-without-protocol mapping.id-missing mapping.name-missing mapping.id-duplicate mapping.physical-path-duplicate mapping.id-out-of-range mapping.max-id-too-small mapping.max-id-missing mapping.stray-annotations mapping.nested-ids mapping.compat-physical-name mapping.file-without-field-ids mapping.file-with-logical-names mapping.field-id-mismatch mapping.file-with-other-names partition.key-missing partition.key-extra partition.key-case partition.unparsable partition.empty-string partition.null-in-not-null partition.timestamp-zoneless partition.noncanonical partition.kernel-unreadable partition.binary-altered partition.hive-default partition.values-on-unpartitioned partition.cardinality partition.ntz-date-only partition.dir-mismatch data.partition-column-differs data.type-mismatch data.type-widening-unrecorded data.decimal-mismatch data.timestamp-not-utc data.timestamp-unit data.void-materialised data.nested-layout data.variant-shape data.not-parquet data.row-count-zero data.codec-unsupported data.encrypted data.column-missing data.column-unknown data.required-mismatch data.partition-column-missing data.case-mismatch data.nan-beyond-bounds data.int96-beyond-nanoseconds stats.bad-json stats.num-records-missing stats.num-records-negative stats.cardinality-exceeds stats.null-count-range stats.null-count-wide stats.unknown-column stats.partition-column stats.type-mismatch stats.interval-bounds stats.variant-encoding stats.tight-with-dv stats.nullcounts-spelling stats.min-greater-max stats.text-too-long stats.timestamp-precision stats.num-records-mismatch stats.null-count-mismatch stats.bounds-not-covering stats.bounds-not-tight stats.clustering-missing checkpoint.unreadable checkpoint.duplicate-key checkpoint.multi-action-row checkpoint.missing-add checkpoint.extra-add checkpoint.add-differs checkpoint.missing-tombstone checkpoint.parsed-partition-differs checkpoint.parsed-stats-differs action.stats-in-checkpointed-remove checkpoint.no-protocol checkpoint.no-metadata checkpoint.forbidden-action checkpoint.metadata-differs checkpoint.missing-txn checkpoint.missing-domain checkpoint.domain-tombstone checkpoint.features-null checkpoint.schema-type checkpoint.add-column-missing checkpoint.stats-policy checkpoint.parsed-partition-missing checkpoint.parsed-names checkpoint.parsed-types-old checkpoint.v2-metadata-missing checkpoint.v2-version checkpoint.v2-without-feature checkpoint.v2-mixed checkpoint.v2-tags sidecar.missing sidecar.size-mismatch sidecar.path-outside sidecar.non-file-action sidecar.orphan checkpoint.amt-classic checkpoint.multipart-incomplete checkpoint.multipart-mixed checkpoint.multipart-forbidden checkpoint.multipart-one checkpoint.several-forms checkpoint.zero-length checkpoint.without-commit checkpoint.unpublished checkpoint.v2-compat-missing checkpoint.replay-unavailable checkpoint.protected-missing hint.missing hint.bad-json hint.missing-field hint.checkpoint-missing hint.stale hint.size-wrong hint.parts-on-classic hint.checksum-bad hint.checksum-order hint.schema-wrong hint.ahead-of-log crc.num-files crc.table-size crc.histogram crc.deleted-histogram crc.all-files crc.dv-counts crc.bad-json crc.missing-required crc.metadata-differs crc.protocol-differs crc.counts-not-one crc.ict crc.txns crc.domains crc.without-commit crc.missing compaction.bad-name compaction.beyond-log compaction.missing-remove compaction.missing-domain-tombstone compaction.content compaction.forbidden-action compaction.stale data.file-missing data.file-missing-tombstoned data.size-mismatch data.modified-after-add data.orphan data.orphan-young data.expired-tombstone-present data.small-files data.manifest-stale data.unreachable data.shared-file data.archived storage.hadoop-checksum typewidening.removable typewidening.not-supported typewidening.change-not-allowed typewidening.bad-entry typewidening.bad-path typewidening.chain-broken typewidening.table-version typewidening.iceberg typewidening.ntz-feature typewidening.float-bounds typewidening.both-features typewidening.lost-history typewidening.property-missing dv.bad-descriptor dv.names-nothing dv.bad-z85 dv.inline-with-offset dv.absolute-not-absolute dv.offset-zero-vs-null dv.empty dv.num-records-missing dv.feature-missing dv.written-while-disabled dv.iceberg-conflict dv.all-rows dv.random-prefix-dir dv.absolute-in-root dv.file-missing dv.orphan dv.file-too-short dv.file-version dv.size-mismatch dv.crc-mismatch dv.magic dv.bitmap-corrupt dv.cardinality-mismatch dv.row-out-of-range cdc.no-change-type cdc.bad-change-type cdc.pre-post-unbalanced cdc.file-missing cdc.size-mismatch cdc.location cdc.without-feature cdc.missing-when-enabled cdc.partition-values appendonly.violated appendonly.dv-delete rowtracking.materialised-duplicate rowtracking.materialised-beyond-mark rowtracking.base-row-id-missing rowtracking.overlap rowtracking.high-water-mark rowtracking.high-water-mark-decreased rowtracking.commit-version rowtracking.base-row-id-changed rowtracking.column-names rowtracking.suspended-and-enabled rowtracking.preserved-tag constraint.bad-sql invariant.bad-json generated.bad-sql default.bad-sql generated.partition identity.incomplete identity.step-zero identity.type identity.immutable-changed identity.high-water-mark notnull.violated constraint.violated invariant.violated generated.violated expression.not-evaluated clustering.domain-missing clustering.bad-config clustering.partitioned clustering.type variant.partition-or-cluster iceberg.mapping-off iceberg.type-not-allowed iceberg.versions-conflict iceberg.num-records iceberg.metadata-at-risk history.operation-missing history.vacuum-start-without-end history.vacuum-short-retention history.time-travel-broken history.restore-risk history.writer-mix history.concurrent-version-hole ict.missing ict.not-first ict.not-monotone ict.enablement-properties ict.enable-before-mtime ict.future ict.without-feature catalog.unpublished-possible catalog.txnid-missing catalog.ict-missing catalog.publish-order catalog.diverged catalog.staged-missing amt.readable-partially paimon.bad-json paimon.missing-key paimon.bad-value paimon.bad-type paimon.file-too-large paimon.id-differs paimon.null-key paimon.unknown-version paimon.duplicate-key paimon.trailing-text paimon.option-not-string paimon.wrong-json-type paimon.map-key-nullable paimon.nullability-contradiction paimon.type-not-canonical paimon.unknown-key paimon.field-id-duplicate paimon.highest-field-id paimon.field-id-range paimon.column-duplicate paimon.reserved-name paimon.blank-name paimon.comment-directive paimon.default-value paimon.no-columns paimon.key-missing paimon.key-duplicate paimon.key-type paimon.key-within-partition paimon.blob paimon.bucket paimon.bucket-key paimon.option-value paimon.option-column paimon.option-conflict paimon.type-not-in-format paimon.version-2-only paimon.schema-missing paimon.stray-file paimon.bad-snapshot paimon.bad-manifest paimon.manifest-missing paimon.no-permission paimon.bad-statistics paimon.bad-consumer paimon.schema-gap paimon.fallback-branch paimon.field-id-reused paimon.highest-field-id-decreased paimon.partition-keys-changed paimon.primary-keys-changed paimon.immutable-option paimon.type-change paimon.null-to-not-null paimon.option-of-old-rows;again;Check only these rules: globs over rule ids. Repeatable.
--ignore;log.not-a-table log.gap log.start-missing log.checkpoint-commit-missing log.name-not-padded log.name-mistaken log.name-unknown log.temp-leftover log.subdir-unknown log.version-too-large log.staged-without-feature log.staged-stale log.staged-name log.cleanup-overdue log.no-checkpoint-long log.nested-table log.mtime-order log.mtime-future log.mtime-vs-commitinfo commit.empty commit.not-utf8 commit.bad-json commit.line-not-object commit.duplicate-key commit.unknown-field commit.pretty-printed commit.crlf-or-blank action.missing-required action.wrong-type action.number-spelling commit.lone-surrogate commit.number-not-finite domain.configuration-not-string commit.checkpoint-only-action commit.first-without-protocol commit.first-without-metadata commit.unknown-action commit.huge action.readd-without-remove action.remove-of-unknown action.remove-dv-mismatch action.datachange-false-new-data action.datachange-mixed action.cdc-only commitinfo.missing commitinfo.several commitinfo.not-object commit.duplicate-metadata commit.duplicate-protocol commit.duplicate-txn commit.duplicate-domain action.duplicate-path stats.records-disagree action.add-remove-same-key action.negative-size action.bad-modification-time action.deletion-timestamp-missing action.deletion-timestamp-odd action.extended-metadata-lie action.remove-size-missing action.path-empty action.tags-null-value action.cdc-datachange-true txn.version-decrease txn.last-updated-missing txn.count-high domain.system-unknown domain.without-feature domain.tombstone-empty path.bad-encoding path.not-encoded path.colon path.escapes-root path.not-normalised path.absolute path.absolute-inside-root path.file-uri-form path.hidden-location path.reserved-name path.double-encoded path.same-file-two-spellings path.case-collision path.shared-with-cdc path.not-unique-over-history feature.used-not-supported feature.property-without-feature feature.supported-not-used vacuumcheck.old-vacuum protocol.missing protocol.version-out-of-range protocol.reader3-needs-writer7 protocol.reader-features-missing protocol.writer-features-missing protocol.features-on-legacy protocol.reader-only-feature protocol.rw-feature-not-in-reader protocol.writer-feature-in-reader protocol.unknown-feature protocol.preview-feature protocol.dependency protocol.exclusive protocol.duplicate-feature protocol.downgrade protocol.legacy-oddity protocol.stray-keys metadata.id-not-guid metadata.id-changed metadata.format-not-parquet metadata.created-time metadata.partition-column-unknown metadata.partition-column-duplicate metadata.partition-column-type metadata.partition-column-nested metadata.all-columns-partitioned metadata.partitioning-changed property.unknown-delta-key property.bad-boolean property.bad-number property.bad-interval property.interval-portability property.retention-order property.retention-short property.retention-long property.legacy-append-only-key property.stats-both-off property.stats-struct-unset property.checkpoint-policy property.compression-codec property.parquet-version property.protocol-in-config property.log-cleanup-off property.cdf-legacy-key schema.not-null-tightened schema.new-not-null-column schema.column-dropped-no-mapping schema.type-changed-illegally schema.case-only-change schema.bad-json schema.field-missing-key schema.unknown-type schema.decimal-bounds schema.char-varchar schema.duplicate-column schema.empty-name schema.invalid-chars schema.empty-struct schema.no-columns schema.map-key-null schema.void-in-complex schema.metadata-reserved schema.collation-of-another schema.interval-noncanonical schema.too-wide mapping.mode-change-illegal mapping.physical-name-changed mapping.id-reused mapping.physical-path-reused mapping.max-id-decreased mapping.partition-key-logical mapping.stats-key-logical mapping.mode-invalid mapping.mode-without-protocol mapping.id-missing mapping.name-missing mapping.id-duplicate mapping.physical-path-duplicate mapping.id-out-of-range mapping.max-id-too-small mapping.max-id-missing mapping.stray-annotations mapping.nested-ids mapping.compat-physical-name mapping.file-without-field-ids mapping.file-with-logical-names mapping.field-id-mismatch mapping.file-with-other-names partition.key-missing partition.key-extra partition.key-case partition.unparsable partition.empty-string partition.null-in-not-null partition.timestamp-zoneless partition.noncanonical partition.kernel-unreadable partition.binary-altered partition.hive-default partition.values-on-unpartitioned partition.cardinality partition.ntz-date-only partition.dir-mismatch data.partition-column-differs data.type-mismatch data.type-widening-unrecorded data.decimal-mismatch data.timestamp-not-utc data.timestamp-unit data.void-materialised data.nested-layout data.variant-shape data.not-parquet data.row-count-zero data.codec-unsupported data.encrypted data.column-missing data.column-unknown data.required-mismatch data.partition-column-missing data.case-mismatch data.nan-beyond-bounds data.int96-beyond-nanoseconds stats.bad-json stats.num-records-missing stats.num-records-negative stats.cardinality-exceeds stats.null-count-range stats.null-count-wide stats.unknown-column stats.partition-column stats.type-mismatch stats.interval-bounds stats.variant-encoding stats.tight-with-dv stats.nullcounts-spelling stats.min-greater-max stats.text-too-long stats.timestamp-precision stats.num-records-mismatch stats.null-count-mismatch stats.bounds-not-covering stats.bounds-not-tight stats.clustering-missing checkpoint.unreadable checkpoint.duplicate-key checkpoint.multi-action-row checkpoint.missing-add checkpoint.extra-add checkpoint.add-differs checkpoint.missing-tombstone checkpoint.parsed-partition-differs checkpoint.parsed-stats-differs action.stats-in-checkpointed-remove checkpoint.no-protocol checkpoint.no-metadata checkpoint.forbidden-action checkpoint.metadata-differs checkpoint.missing-txn checkpoint.missing-domain checkpoint.domain-tombstone checkpoint.features-null checkpoint.schema-type checkpoint.add-column-missing checkpoint.stats-policy checkpoint.parsed-partition-missing checkpoint.parsed-names checkpoint.parsed-types-old checkpoint.v2-metadata-missing checkpoint.v2-version checkpoint.v2-without-feature checkpoint.v2-mixed checkpoint.v2-tags sidecar.missing sidecar.size-mismatch sidecar.path-outside sidecar.non-file-action sidecar.orphan checkpoint.amt-classic checkpoint.multipart-incomplete checkpoint.multipart-mixed checkpoint.multipart-forbidden checkpoint.multipart-one checkpoint.several-forms checkpoint.zero-length checkpoint.without-commit checkpoint.unpublished checkpoint.v2-compat-missing checkpoint.replay-unavailable checkpoint.protected-missing hint.missing hint.bad-json hint.missing-field hint.checkpoint-missing hint.stale hint.size-wrong hint.parts-on-classic hint.checksum-bad hint.checksum-order hint.schema-wrong hint.ahead-of-log crc.num-files crc.table-size crc.histogram crc.deleted-histogram crc.all-files crc.dv-counts crc.bad-json crc.missing-required crc.metadata-differs crc.protocol-differs crc.counts-not-one crc.ict crc.txns crc.domains crc.without-commit crc.missing compaction.bad-name compaction.beyond-log compaction.missing-remove compaction.missing-domain-tombstone compaction.content compaction.forbidden-action compaction.stale data.file-missing data.file-missing-tombstoned data.size-mismatch data.modified-after-add data.orphan data.orphan-young data.expired-tombstone-present data.small-files data.manifest-stale data.unreachable data.shared-file data.archived storage.hadoop-checksum typewidening.removable typewidening.not-supported typewidening.change-not-allowed typewidening.bad-entry typewidening.bad-path typewidening.chain-broken typewidening.table-version typewidening.iceberg typewidening.ntz-feature typewidening.float-bounds typewidening.both-features typewidening.lost-history typewidening.property-missing dv.bad-descriptor dv.names-nothing dv.bad-z85 dv.inline-with-offset dv.absolute-not-absolute dv.offset-zero-vs-null dv.empty dv.num-records-missing dv.feature-missing dv.written-while-disabled dv.iceberg-conflict dv.all-rows dv.random-prefix-dir dv.absolute-in-root dv.file-missing dv.orphan dv.file-too-short dv.file-version dv.size-mismatch dv.crc-mismatch dv.magic dv.bitmap-corrupt dv.cardinality-mismatch dv.row-out-of-range cdc.no-change-type cdc.bad-change-type cdc.pre-post-unbalanced cdc.file-missing cdc.size-mismatch cdc.location cdc.without-feature cdc.missing-when-enabled cdc.partition-values appendonly.violated appendonly.dv-delete rowtracking.materialised-duplicate rowtracking.materialised-beyond-mark rowtracking.base-row-id-missing rowtracking.overlap rowtracking.high-water-mark rowtracking.high-water-mark-decreased rowtracking.commit-version rowtracking.base-row-id-changed rowtracking.column-names rowtracking.suspended-and-enabled rowtracking.preserved-tag constraint.bad-sql invariant.bad-json generated.bad-sql default.bad-sql generated.partition identity.incomplete identity.step-zero identity.type identity.immutable-changed identity.high-water-mark notnull.violated constraint.violated invariant.violated generated.violated expression.not-evaluated clustering.domain-missing clustering.bad-config clustering.partitioned clustering.type variant.partition-or-cluster iceberg.mapping-off iceberg.type-not-allowed iceberg.versions-conflict iceberg.num-records iceberg.metadata-at-risk history.operation-missing history.vacuum-start-without-end history.vacuum-short-retention history.time-travel-broken history.restore-risk history.writer-mix history.concurrent-version-hole ict.missing ict.not-first ict.not-monotone ict.enablement-properties ict.enable-before-mtime ict.future ict.without-feature catalog.unpublished-possible catalog.txnid-missing catalog.ict-missing catalog.publish-order catalog.diverged catalog.staged-missing amt.readable-partially paimon.bad-json paimon.missing-key paimon.bad-value paimon.bad-type paimon.file-too-large paimon.id-differs paimon.null-key paimon.unknown-version paimon.duplicate-key paimon.trailing-text paimon.option-not-string paimon.wrong-json-type paimon.map-key-nullable paimon.nullability-contradiction paimon.type-not-canonical paimon.unknown-key paimon.field-id-duplicate paimon.highest-field-id paimon.field-id-range paimon.column-duplicate paimon.reserved-name paimon.blank-name paimon.comment-directive paimon.default-value paimon.no-columns paimon.key-missing paimon.key-duplicate paimon.key-type paimon.key-within-partition paimon.blob paimon.bucket paimon.bucket-key paimon.option-value paimon.option-column paimon.option-conflict paimon.type-not-in-format paimon.version-2-only paimon.schema-missing paimon.stray-file paimon.bad-snapshot paimon.bad-manifest paimon.manifest-missing paimon.no-permission paimon.bad-statistics paimon.bad-consumer paimon.schema-gap paimon.fallback-branch paimon.field-id-reused paimon.highest-field-id-decreased paimon.partition-keys-changed paimon.primary-keys-changed paimon.immutable-option paimon.type-change paimon.null-to-not-null paimon.option-of-old-rows;again;Skip these rules: globs over rule ids. Repeatable.
--fail-on;error warning info;once;Lowest severity for exit code 1.
--baseline;FILE;once;Accept the findings listed in this file.
--write-baseline;FILE;once;Write the current findings to a file for --baseline, and exit 0.
--trend;FILE;once;Append the counts of this run to FILE and compare them with the previous run.
--profile;current java cpp python;once;Reader that must accept Paimon tables; Delta tables take only current.
--refs --no-refs;-;once;Read the manifests of a Paimon table to find the users of each schema.
--max-findings;TEXT;once;Findings shown per rule and table; 0 shows all.
--exit-zero;-;once;Exit 0 even if there are findings.
--brief;-;once;Show findings without values and fixes; one per line in a pipe.
--group;rule path;once;Order of findings: by severity and rule, grouped on a terminal, or one by one in the order of the files.
--list-rules;-;once;List the rules instead; takes no TABLE.
--engine;embedded spark;once;Where the work runs: in this process, or on a Spark cluster.
--master;TEXT;once;Spark master, such as local[4] or spark://HOST:7077.
--remote;TEXT;once;Spark Connect server, such as sc://HOST:15002; @FILE reads the URL from a file.
--spark-conf;TEXT;again;Setting of the Spark session; K=@FILE reads the value from a file. Repeatable.
--format;table json ndjson csv markdown sarif junit github;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='again;DIRECTORY
'
            ;;
        'widen-type ')
            commands=''
            options='--enable;-;once;Set delta.enableTypeWidening to true if it is not.
--upgrade-protocol;-;once;Add missing features; clients that do not support them lose access.
--check-files;-;once;Check the types in every data file first; refuse if one differs.
--commit-metadata;TEXT;again;Key to add to the commitInfo; userMetadata=V sets that field. Repeatable.
--check;-;once;Change nothing; exit 1 if a change is due, 4 if refused.
--allow-lossy;-;once;Accept changes of a Paimon table after which stored values are read differently.
--min-paimon;@versions;once;Oldest major version of Paimon among the engines of the table, 1 or 2; with 2, what Paimon 1.x cannot open is permitted.
--branch;@branch;once;Branch of a Paimon table.
--checkpoints;TEXT;again;Name the streaming queries with these checkpoint directories that it concerns. Repeatable.
--dry-run;-;once;Show the plan and change nothing; overrides --yes.
--yes;-;once;Do not ask for confirmation.
--engine;embedded spark;once;Where the work runs: in this process, or on a Spark cluster.
--master;TEXT;once;Spark master, such as local[4] or spark://HOST:7077.
--remote;TEXT;once;Spark Connect server, such as sc://HOST:15002; @FILE reads the URL from a file.
--spark-conf;TEXT;again;Setting of the Spark session; K=@FILE reads the value from a file. Repeatable.
--format;table json ndjson csv markdown;once;Format of stdout.
--json;-;once;The same as --format json.
--output;FILE;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;TEXT;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;DIRECTORY;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;TEXT;once;Time to use as the current time, for reproducible runs.
--storage-option;TEXT;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;TEXT;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;TEXT;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;delta paimon;once;Format of the table, instead of detecting it.
--access;auto url dir;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;FILE;once;TOML file with defaults for these options.
--profile-name;TEXT;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;TEXT;once;Use [catalog.NAME] of that file for tables uc://….
--color;auto always never;once;Use of colour on stdout.
--progress;auto always never json;once;Progress on stderr; auto: on a terminal.
--log-format;text json;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
'
            arguments='once;DIRECTORY
again;@widenings
'
            ;;
        'help ')
            commands=''
            options='--format;-;once;Format of stdout.
--json;-;once;The same as --format json.
--output;-;once;Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.
--template;-;once;Write a line for each item of ndjson; {FIELD} is one of its fields, \t a tab.
-C;-;once;Run in this directory, where relative paths begin. Repeatable: each one is relative to the one before.
--now;-;once;Time to use as the current time, for reproducible runs.
--storage-option;-;again;Option of the store; K=@FILE reads the value from a file. Repeatable.
--retry-budget;-;once;Time limit for retries of a request to a store; 0s disables them.
--allow-external;-;again;Allow opening files below this path or URI outside the table. Repeatable.
--table-format;-;once;Format of the table, instead of detecting it.
--access;-;once;Read a shared table by URLs of its files, or in its directory with temporary credentials.
--config;-;once;TOML file with defaults for these options.
--profile-name;-;once;Use [profile.NAME] of that file, whose keys override the others of the file.
--catalog-profile;-;once;Use [catalog.NAME] of that file for tables uc://….
--color;-;once;Use of colour on stdout.
--progress;-;once;Progress on stderr; auto: on a terminal.
--log-format;-;once;Format of notes and errors on stderr; default: json with --format json or ndjson, else text.
--no-pager;-;once;Do not show a long result in a pager.
-q --quiet;-;once;Suppress notes and progress on stderr.
-v --verbose;-;again;Write more details to stderr; -vv adds tracebacks.
-V --version;-;once;Print the version and exit; with --json also the commit, Python, extras and stores.
-h --help --help-all;-;once;Show help and exit; --help-all has every option.
--comment;-;once;Remark that is listed with it.
--default;-;once;add: default value.
--position;-;once;add: first, last, before:X or after:X.
--nullable --not-null;-;once;add: columns are nullable; NOT NULL is refused.
--keep-nullability;-;once;type: keep NOT NULL, or its absence.
--drop;-;once;comment, default: remove it.
--none;-;once;cluster: by no columns.
--allow-lossy;-;once;Accept changes of a Paimon table after which stored values are read differently.
--with-options;-;once;drop: first remove the column from options that name it.
--min-paimon;-;once;Oldest major version of Paimon among the engines of the table, 1 or 2; with 2, what Paimon 1.x cannot open is permitted.
--apply;-;once;Execute a saved plan, or resume it.
--check;-;once;Change nothing; exit 1 if a change is due, 4 if refused.
--branch;-;once;Branch of a Paimon table.
--checkpoints;-;again;Name the streaming queries with these checkpoint directories that it concerns. Repeatable.
--dry-run;-;once;Show the plan and change nothing; overrides --yes.
--yes;-;once;Do not ask for confirmation.
--enable;-;once;Set delta.enableTypeWidening to true if it is not.
--upgrade-protocol;-;once;Add missing features; clients that do not support them lose access.
--commit-metadata;-;again;Key to add to the commitInfo; userMetadata=V sets that field. Repeatable.
--engine;-;once;Where the work runs: in this process, or on a Spark cluster.
--master;-;once;Spark master, such as local[4] or spark://HOST:7077.
--remote;-;once;Spark Connect server, such as sc://HOST:15002; @FILE reads the URL from a file.
--spark-conf;-;again;Setting of the Spark session; K=@FILE reads the value from a file. Repeatable.
--from;-;again;Where to look for the files: versions that the store keeps, or a copy of the table. Repeatable.
--to;-;once;Existing directory that gets the archive.
--columns;-;again;Only statistics of these columns.
--where;-;once;Check only data files that may contain matching rows; all of their rows are checked.
--row-ids;-;once;Add the id of each row and the version of its last change.
--limit;-;once;Number of rows shown; 0 shows all.
--version;-;once;Version whose files are needed.
--timestamp;-;once;Use the newest version committed at or before T (RFC 3339 with offset, or a date: midnight UTC).
--layout;-;once;Layout of the checkpoint; auto follows the table'\''s policy.
--parts;-;once;Number of files of a multi-part checkpoint.
--rows-per-file;-;once;Actions per sidecar or part.
--v2-top;-;once;Format of the main file of a V2 checkpoint.
--stats;-;once;Columns of statistics; keep: as the properties ask, else as in the last checkpoint.
--if-behind;-;once;Do nothing unless N commits were made since the last checkpoint.
--force;-;once;Replace the file of --to if it exists.
--verify;-;once;Check footers, or decode all data of each file, also of those that are there.
--unprotected;-;once;Do not note the clone in the source, whose vacuum may then delete its files.
--deep;-;once;Copy the files, too: the same as copy --newest.
--partition;-;once;Partition columns with their types, as '\''day date, country string'\''.
--schema;-;once;Show the schema as a tree instead.
--like;-;once;Take columns, partitions and column mapping from this JSON document of snapshot.
--exclude;-;again;Leave out files whose path matches. Repeatable.
--time-zone;-;once;Zone of the times in directories that have none, for partition columns of type timestamp.
--accept-unknowable;-;once;Convert a Delta table that has lost its log, although removed rows come back.
--versions;-;once;Copy only these versions.
--newest;-;once;Copy only the newest version.
--replica;-;once;Keep the table id and every commit; run again to bring the target up to date.
--level;-;once;What to check: the log; also a listing of the table; also footers of data files; also their rows.
--keep-external;-;once;Keep paths that lead out of the source, whose files are not copied.
--threads;-;once;Number of threads that delete.
--rate;-;once;Maximum files to delete per second, such as 500/s.
--time-budget;-;once;Send no request after this time, such as 5m.
--rows;-;once;Compare the rows as well, by the key; reads both versions.
--key;-;again;Columns that identify a row.
--temp-dir;-;once;Directory for temporary files of sorted rows.
--no-listing;-;once;Do not list the files of the table: no advice on unreferenced files.
--html;-;once;Also write a page with sortable tables and plots, which loads nothing else.
--prices;-;once;Prices of the store, TOML or JSON.
--client;-;again;Client to explain, in a version or the newest known.  Repeatable.
--if;-;again;Change to suppose: add=FEATURE, drop=FEATURE or widen=COLUMN:TYPE.  Repeatable.
--truncate-history;-;once;drop: delete the versions that need the feature instead of protecting them.
--protect-streams;-;again;Keep what Spark queries need whose checkpoint directories match, such as '\''s3://lake/checkpoints/*'\''. Repeatable.
--ignore-streams-older;-;once;Do not keep anything for a query that is behind and whose checkpoint is older than this.
--allow-stream-loss;-;again;Delete although this query (its id or checkpoint directory) cannot continue then. Repeatable.
--only;-;again;Only the tables of this group. Repeatable.
--state;-;once;Directory of the journal and the leases.
--details;-;once;Plan destructive steps exactly, as vacuum and log expire do with --dry-run.
--save-plans;-;once;Also save these plans in a directory, for vacuum --apply.
--exit-code;-;once;Exit with 1 if a step is due, for scripts.
--jobs;-;once;Tables to work on at once.
--resume;-;once;Finish an interrupted pull at the version that it was pulling.
--steal-leases;-;once;Take tables that other runs hold; the reason is recorded.
--pages;-;once;Directory of pages that doctor table --html wrote, to which the page of --html links.
--write-pages;-;once;First examine each table and write its page to --pages.
--metrics;-;once;Also write metrics in OpenMetrics text, for node_exporter'\''s textfile collector.
--serve-metrics;-;once;Instead serve the metrics over HTTP until a signal, on loopback.
--allow-remote;-;once;Let --serve-metrics use an address that other machines can reach.
--counts;-;once;Show only the numbers of files, rows, bytes and tombstones.
--refs --no-refs;-;once;Read the manifests of a Paimon table to find the users of each schema.
--full;-;once;Compare every file by digest instead of by size and time.
--actions;-;once;Only actions of these kinds.
--checkpoint;-;once;Write the actions of the checkpoint even if there is a commit.
--pretty;-;once;Indent the JSON of each action, for reading.
--retention;-;once;Age up to which files are kept, such as 14d.
--keep-version;-;again;Versions to keep fully readable, whatever their age. Repeatable.
--allow-retention-below;-;once;Allow a retention below the table'\''s own, whose value is given here, such as 168h.
--replace;-;once;Replace files that differ from the backup, such as torn commits.
--target-size;-;once;Size of new files.
--min-files;-;once;Fewest files that are written as one; at least 2.
--min-size;-;once;Size from which a file is left alone.
--zorder;-;again;Sort the rows of each partition by a z-order of these columns.
--cluster;-;once;Sort new rows by the clustering columns of the table.
--purge;-;once;Rewrite every file with deleted rows, dropped columns, NaN beyond bounds or misread INT96, and no others.
--purge-ratio;-;once;Share of deleted rows above which a file of any size is rewritten.
--max-bytes;-;once;Rewrite at most this many bytes.
--explain;-;once;Show why a file is kept or deleted; change nothing.
--count;-;once;Count the rows instead.
--select;-;again;Check only these rules: globs over rule ids. Repeatable.
--accept-commits;-;again;Versions of a copy to bring back although nothing proves that they are of this table. Repeatable.
--accept-empty-commits;-;again;Commits of 0 bytes to write as versions that changed nothing, where no copy and no checkpoint has them. Repeatable.
--accept-loss;-;once;Allow steps that give up rows that no source has.
--partition-value;-;again;Partition value, of the files whose path in the log matches GLOB, where the log and the path have none. Repeatable.
--allow-in-use;-;once;Repair although others committed within the last hour.
--max-missing;-;once;Refuse to give up more than this share of the live files.
--quarantine;-;once;Copy each file to this directory outside of all tables before it is deleted.
--save-plan;-;once;Write the plan to a Parquet file; delete nothing.
--undo;-;once;Put the files that a repair replaced back from its backup.
--trust-listing;-;once;Do not read the footers of files that come back, only their sizes.
--allow-removals;-;once;Remove files also where delta.appendOnly is true.
--schema-id;-;once;Use this schema of a Paimon table.
--snapshot-id;-;once;Use this snapshot of a Paimon table and its schema.
--tag;-;once;Use this tag of a Paimon table and its schema.
-c --config;-;once;Configuration of the server.
-n --limit;-;once;Number of rows shown.
--overlap;-;once;How long the old tokens stay valid; 0s revokes them.
--as;-;once;Form of the result.
--grant;-;again;SHARE, SHARE/SCHEMA or SHARE/SCHEMA/TABLE to grant. Repeatable.
--host;-;once;Address to listen on.
--port;-;once;Port to listen on; 0: any free one.
--admin-port;-;once;Port of /metrics, /healthz, /readyz.
--workers;-;once;Number of processes that answer requests.
--behind-proxy;-;once;Accept plain HTTP from a reverse proxy, which has the certificate.
--profile;-;once;Reader that must accept Paimon tables; Delta tables take only current.
--profile-of;-;once;Protocol whose rules are checked; opensharing adds those about its own routes.
--no-credentials;-;once;Do not ask for credentials of directories.
--probe-scope;-;once;Also try to list what is outside the credentials: the parent directory and a sibling.
--ignore;-;again;Skip these rules: globs over rule ids. Repeatable.
--fail-on;-;once;Lowest severity for exit code 1.
--baseline;-;once;Accept the findings listed in this file.
--write-baseline;-;once;Write the current findings to a file for --baseline, and exit 0.
--max-findings;-;once;Findings shown per rule and table; 0 shows all.
--exit-zero;-;once;Exit 0 even if there are findings.
--brief;-;once;Show findings without values and fixes; one per line in a pipe.
--max-tables;-;once;Test at most this many tables; 0 tests the lists only.
--max-requests;-;once;Send at most this many requests.
--pause;-;once;Wait between two requests, such as 200ms.
--list-rules;-;once;List the rules instead; takes no TABLE.
--expires;-;once;How long the token is valid, such as 30d or 12h.
--all;-;once;All files: wrong statistics are replaced, too.
--files;-;once;List every file to delete; csv and ndjson always do.
--tombstones;-;once;List the tombstones instead, including expired ones.
--mapping;-;once;Show the ids and physical names of column mapping; requires --schema.
--digest;-;once;Add SHA-256 digests of the live files and tombstones.
--from-checksum;-;once;Take the state from the checksum of the version, without a replay, as far as the checksum has it.
--ddl;-;once;Show the schema of a Paimon table as CREATE TABLE of Flink SQL instead.
--missing;-;once;Only files that lack statistics of a column.
--read;-;once;What to read: footers, which do not have all bounds, or all rows.
--restart-point;-;once;Show where the query of this checkpoint can start over, and what is lost.
--tables;-;again;Tables that the queries may read, found by id; also patterns. Repeatable.
--prefix;-;once;Delete only below this directory of the table.
--mode;-;once;Source of candidates: full lists the table, lite reads removed files from commits.
--protect-from;-;again;Keep files that another table (a shallow clone) references. Repeatable.
--inventory;-;once;List of files to use instead of a listing: S3 Inventory (manifest.json), Parquet, CSV.
--max-delete;-;once;Refuse to delete more than this share of the table, or more bytes.
--include-foreign;-;once;Also delete unrecognized files that are older than the retention.
--skip-nested-tables;-;once;Skip directories that are tables of their own instead of refusing.
--no-log-entries;-;once;Do not commit VACUUM START and VACUUM END.
--accept-copy;-;once;With --apply, accept the plan of a table elsewhere of which this one is a copy with the same past.
--purge-older;-;once;Only empty the quarantine of this table: delete copies older than this, such as 30d.
--schemas;-;once;Delete schema files of a Paimon table that nothing needs.
--keep-last;-;once;Keep the last K schemas of a Paimon table, whatever their age.
--sample;-;once;Check only this share of the data files, such as 5%; the sample differs per version.
--trend;-;once;Append the counts of this run to FILE and compare them with the previous run.
--group;-;once;Order of findings: by severity and rule, grouped on a terminal, or one by one in the order of the files.
--check-files;-;once;Check the types in every data file first; refuse if one differs.
'
            arguments='once;alter catalog changes checkpoint clone completion convert copy diff doctor explain features fleet history log manifest optimize properties reach read repair restore schema share snapshot spark stats streams undelete vacuum validate widen-type log.not-a-table log.gap log.start-missing log.checkpoint-commit-missing log.name-not-padded log.name-mistaken log.name-unknown log.temp-leftover log.subdir-unknown log.version-too-large log.staged-without-feature log.staged-stale log.staged-name log.cleanup-overdue log.no-checkpoint-long log.nested-table log.mtime-order log.mtime-future log.mtime-vs-commitinfo commit.empty commit.not-utf8 commit.bad-json commit.line-not-object commit.duplicate-key commit.unknown-field commit.pretty-printed commit.crlf-or-blank action.missing-required action.wrong-type action.number-spelling commit.lone-surrogate commit.number-not-finite domain.configuration-not-string commit.checkpoint-only-action commit.first-without-protocol commit.first-without-metadata commit.unknown-action commit.huge action.readd-without-remove action.remove-of-unknown action.remove-dv-mismatch action.datachange-false-new-data action.datachange-mixed action.cdc-only commitinfo.missing commitinfo.several commitinfo.not-object commit.duplicate-metadata commit.duplicate-protocol commit.duplicate-txn commit.duplicate-domain action.duplicate-path stats.records-disagree action.add-remove-same-key action.negative-size action.bad-modification-time action.deletion-timestamp-missing action.deletion-timestamp-odd action.extended-metadata-lie action.remove-size-missing action.path-empty action.tags-null-value action.cdc-datachange-true txn.version-decrease txn.last-updated-missing txn.count-high domain.system-unknown domain.without-feature domain.tombstone-empty path.bad-encoding path.not-encoded path.colon path.escapes-root path.not-normalised path.absolute path.absolute-inside-root path.file-uri-form path.hidden-location path.reserved-name path.double-encoded path.same-file-two-spellings path.case-collision path.shared-with-cdc path.not-unique-over-history feature.used-not-supported feature.property-without-feature feature.supported-not-used vacuumcheck.old-vacuum protocol.missing protocol.version-out-of-range protocol.reader3-needs-writer7 protocol.reader-features-missing protocol.writer-features-missing protocol.features-on-legacy protocol.reader-only-feature protocol.rw-feature-not-in-reader protocol.writer-feature-in-reader protocol.unknown-feature protocol.preview-feature protocol.dependency protocol.exclusive protocol.duplicate-feature protocol.downgrade protocol.legacy-oddity protocol.stray-keys metadata.id-not-guid metadata.id-changed metadata.format-not-parquet metadata.created-time metadata.partition-column-unknown metadata.partition-column-duplicate metadata.partition-column-type metadata.partition-column-nested metadata.all-columns-partitioned metadata.partitioning-changed property.unknown-delta-key property.bad-boolean property.bad-number property.bad-interval property.interval-portability property.retention-order property.retention-short property.retention-long property.legacy-append-only-key property.stats-both-off property.stats-struct-unset property.checkpoint-policy property.compression-codec property.parquet-version property.protocol-in-config property.log-cleanup-off property.cdf-legacy-key schema.not-null-tightened schema.new-not-null-column schema.column-dropped-no-mapping schema.type-changed-illegally schema.case-only-change schema.bad-json schema.field-missing-key schema.unknown-type schema.decimal-bounds schema.char-varchar schema.duplicate-column schema.empty-name schema.invalid-chars schema.empty-struct schema.no-columns schema.map-key-null schema.void-in-complex schema.metadata-reserved schema.collation-of-another schema.interval-noncanonical schema.too-wide mapping.mode-change-illegal mapping.physical-name-changed mapping.id-reused mapping.physical-path-reused mapping.max-id-decreased mapping.partition-key-logical mapping.stats-key-logical mapping.mode-invalid mapping.mode-without-protocol mapping.id-missing mapping.name-missing mapping.id-duplicate mapping.physical-path-duplicate mapping.id-out-of-range mapping.max-id-too-small mapping.max-id-missing mapping.stray-annotations mapping.nested-ids mapping.compat-physical-name mapping.file-without-field-ids mapping.file-with-logical-names mapping.field-id-mismatch mapping.file-with-other-names partition.key-missing partition.key-extra partition.key-case partition.unparsable partition.empty-string partition.null-in-not-null partition.timestamp-zoneless partition.noncanonical partition.kernel-unreadable partition.binary-altered partition.hive-default partition.values-on-unpartitioned partition.cardinality partition.ntz-date-only partition.dir-mismatch data.partition-column-differs data.type-mismatch data.type-widening-unrecorded data.decimal-mismatch data.timestamp-not-utc data.timestamp-unit data.void-materialised data.nested-layout data.variant-shape data.not-parquet data.row-count-zero data.codec-unsupported data.encrypted data.column-missing data.column-unknown data.required-mismatch data.partition-column-missing data.case-mismatch data.nan-beyond-bounds data.int96-beyond-nanoseconds stats.bad-json stats.num-records-missing stats.num-records-negative stats.cardinality-exceeds stats.null-count-range stats.null-count-wide stats.unknown-column stats.partition-column stats.type-mismatch stats.interval-bounds stats.variant-encoding stats.tight-with-dv stats.nullcounts-spelling stats.min-greater-max stats.text-too-long stats.timestamp-precision stats.num-records-mismatch stats.null-count-mismatch stats.bounds-not-covering stats.bounds-not-tight stats.clustering-missing checkpoint.unreadable checkpoint.duplicate-key checkpoint.multi-action-row checkpoint.missing-add checkpoint.extra-add checkpoint.add-differs checkpoint.missing-tombstone checkpoint.parsed-partition-differs checkpoint.parsed-stats-differs action.stats-in-checkpointed-remove checkpoint.no-protocol checkpoint.no-metadata checkpoint.forbidden-action checkpoint.metadata-differs checkpoint.missing-txn checkpoint.missing-domain checkpoint.domain-tombstone checkpoint.features-null checkpoint.schema-type checkpoint.add-column-missing checkpoint.stats-policy checkpoint.parsed-partition-missing checkpoint.parsed-names checkpoint.parsed-types-old checkpoint.v2-metadata-missing checkpoint.v2-version checkpoint.v2-without-feature checkpoint.v2-mixed checkpoint.v2-tags sidecar.missing sidecar.size-mismatch sidecar.path-outside sidecar.non-file-action sidecar.orphan checkpoint.amt-classic checkpoint.multipart-incomplete checkpoint.multipart-mixed checkpoint.multipart-forbidden checkpoint.multipart-one checkpoint.several-forms checkpoint.zero-length checkpoint.without-commit checkpoint.unpublished checkpoint.v2-compat-missing checkpoint.replay-unavailable checkpoint.protected-missing hint.missing hint.bad-json hint.missing-field hint.checkpoint-missing hint.stale hint.size-wrong hint.parts-on-classic hint.checksum-bad hint.checksum-order hint.schema-wrong hint.ahead-of-log crc.num-files crc.table-size crc.histogram crc.deleted-histogram crc.all-files crc.dv-counts crc.bad-json crc.missing-required crc.metadata-differs crc.protocol-differs crc.counts-not-one crc.ict crc.txns crc.domains crc.without-commit crc.missing compaction.bad-name compaction.beyond-log compaction.missing-remove compaction.missing-domain-tombstone compaction.content compaction.forbidden-action compaction.stale data.file-missing data.file-missing-tombstoned data.size-mismatch data.modified-after-add data.orphan data.orphan-young data.expired-tombstone-present data.small-files data.manifest-stale data.unreachable data.shared-file data.archived storage.hadoop-checksum typewidening.removable typewidening.not-supported typewidening.change-not-allowed typewidening.bad-entry typewidening.bad-path typewidening.chain-broken typewidening.table-version typewidening.iceberg typewidening.ntz-feature typewidening.float-bounds typewidening.both-features typewidening.lost-history typewidening.property-missing dv.bad-descriptor dv.names-nothing dv.bad-z85 dv.inline-with-offset dv.absolute-not-absolute dv.offset-zero-vs-null dv.empty dv.num-records-missing dv.feature-missing dv.written-while-disabled dv.iceberg-conflict dv.all-rows dv.random-prefix-dir dv.absolute-in-root dv.file-missing dv.orphan dv.file-too-short dv.file-version dv.size-mismatch dv.crc-mismatch dv.magic dv.bitmap-corrupt dv.cardinality-mismatch dv.row-out-of-range cdc.no-change-type cdc.bad-change-type cdc.pre-post-unbalanced cdc.file-missing cdc.size-mismatch cdc.location cdc.without-feature cdc.missing-when-enabled cdc.partition-values appendonly.violated appendonly.dv-delete rowtracking.materialised-duplicate rowtracking.materialised-beyond-mark rowtracking.base-row-id-missing rowtracking.overlap rowtracking.high-water-mark rowtracking.high-water-mark-decreased rowtracking.commit-version rowtracking.base-row-id-changed rowtracking.column-names rowtracking.suspended-and-enabled rowtracking.preserved-tag constraint.bad-sql invariant.bad-json generated.bad-sql default.bad-sql generated.partition identity.incomplete identity.step-zero identity.type identity.immutable-changed identity.high-water-mark notnull.violated constraint.violated invariant.violated generated.violated expression.not-evaluated clustering.domain-missing clustering.bad-config clustering.partitioned clustering.type variant.partition-or-cluster iceberg.mapping-off iceberg.type-not-allowed iceberg.versions-conflict iceberg.num-records iceberg.metadata-at-risk history.operation-missing history.vacuum-start-without-end history.vacuum-short-retention history.time-travel-broken history.restore-risk history.writer-mix history.concurrent-version-hole ict.missing ict.not-first ict.not-monotone ict.enablement-properties ict.enable-before-mtime ict.future ict.without-feature catalog.unpublished-possible catalog.txnid-missing catalog.ict-missing catalog.publish-order catalog.diverged catalog.staged-missing amt.readable-partially paimon.bad-json paimon.missing-key paimon.bad-value paimon.bad-type paimon.file-too-large paimon.id-differs paimon.null-key paimon.unknown-version paimon.duplicate-key paimon.trailing-text paimon.option-not-string paimon.wrong-json-type paimon.map-key-nullable paimon.nullability-contradiction paimon.type-not-canonical paimon.unknown-key paimon.field-id-duplicate paimon.highest-field-id paimon.field-id-range paimon.column-duplicate paimon.reserved-name paimon.blank-name paimon.comment-directive paimon.default-value paimon.no-columns paimon.key-missing paimon.key-duplicate paimon.key-type paimon.key-within-partition paimon.blob paimon.bucket paimon.bucket-key paimon.option-value paimon.option-column paimon.option-conflict paimon.type-not-in-format paimon.version-2-only paimon.schema-missing paimon.stray-file paimon.bad-snapshot paimon.bad-manifest paimon.manifest-missing paimon.no-permission paimon.bad-statistics paimon.bad-consumer paimon.schema-gap paimon.fallback-branch paimon.field-id-reused paimon.highest-field-id-decreased paimon.partition-keys-changed paimon.primary-keys-changed paimon.immutable-option paimon.type-change paimon.null-to-not-null paimon.option-of-old-rows share.no-answer share.server-error share.error-body share.error-content-type share.redirect share.token-not-required share.token-not-checked share.unauthenticated-status share.unknown-not-404 share.list-content-type share.list-body share.list-item-field share.list-item-elsewhere share.name-invalid share.id-repeated share.id-differs share.get-share share.name-case share.list-page-size share.list-pages-differ share.list-pages-endless share.list-max-results-zero share.list-bad-max-results share.list-bad-page-token share.all-tables-differ share.share-metadata-form share.share-metadata-limits share.asset-route share.version-body share.version-head share.version-differs share.version-since share.version-since-early share.as-of-newest-differs share.as-of-header share.as-of-fields share.version-unknown share.timestamp-differs share.timestamp-invalid share.version-and-timestamp share.lines-content-type share.version-header share.line-not-json share.line-wrapper share.line-splits share.line-order share.end-unasked share.end-missing share.answer-failed share.format-header share.protocol-line share.metadata-field share.metadata-schema share.metadata-totals share.file-field share.action-field share.file-id-repeated share.partition-values share.partition-value-text share.stats-invalid share.url-not-https share.expiration share.vector-url share.format-default share.format-ignored share.format-advanced share.capabilities-case share.capabilities-unknown share.feature-unasked share.formats-differ share.metadata-lines share.metadata-differs share.file-id-hash share.file-id-unstable share.query-malformed share.query-unknown-field share.page-size share.pages-differ share.pages-endless share.page-head share.page-token-not-checked share.end-promised-not-sent share.refresh-differs share.hint-loses-rows share.hint-adds-files share.hint-invalid-refused share.hint-invalid-filters share.limit-too-few share.limit-before-predicate share.changes-start share.changes-reversed share.changes-range share.changes-fields share.changes-header share.changes-parts-differ share.changes-by-time share.since-range share.since-unknown share.async-unasked share.async-refused share.async-echo share.async-status share.async-deduplicate share.async-spark share.async-version-header share.async-result-differs share.async-parameters-lost share.async-pages share.async-unknown-id share.async-id-names share.url-private share.url-unreadable share.url-range share.file-size share.file-not-parquet share.url-unsigned share.stats-records share.file-columns share.vector-unreadable share.stats-bounds share.access-modes-form share.access-mode-unknown share.access-modes-differ share.access-location-missing share.access-location-form share.access-location-differs share.access-nesting share.auxiliary-form share.url-mode-broken share.dir-only-query share.dir-only-metadata share.dir-unannounced share.credential-answer share.credential-one-cloud share.credential-cloud-fits share.credential-location share.credential-broad share.credential-expiry share.credential-short share.credential-long-lived share.credential-sas share.credential-body share.credential-malformed share.credential-outside share.credential-unauthenticated share.credential-cacheable share.dir-history share.dir-unreadable share.dir-differs share.dir-paths-outside share.dir-scope share.get-table share.head-table 0 1 129 130 141 143 2 3 4 5 6 7 70 8 ARROW_DEFAULT_MEMORY_POOL AWS_… AZURE_… CLASSPATH CLICOLOR CLICOLOR_FORCE CLOUDSDK_CONFIG COLUMNS DATABRICKS_CLIENT_ID DATABRICKS_CLIENT_SECRET DATABRICKS_HOST DATABRICKS_TOKEN DELTACLI_COLOR DELTACLI_CONFIG DELTACLI_ENGINE DELTACLI_FORMAT DELTACLI_MASTER DELTACLI_PAGER DELTACLI_PROFILE DELTACLI_PROGRESS DELTACLI_REMOTE DELTACLI_RETRY_BUDGET FORCE_COLOR GCE_METADATA_IP GCE_METADATA_TIMEOUT GOOGLE_… JAVA_HOME LANG LC_ALL LC_CTYPE LESS NO_COLOR NO_GCE_CHECK PAGER PYSPARK_PYTHON SPARK_HOME SPARK_LOCAL_IP STORAGE_EMULATOR_HOST TERM UC_TOKEN adaptiveMetadata adaptiveMetadata-preview allowColumnDefaults alter.blob alter.bloom-filter alter.cast alter.char-varchar alter.check-constraint alter.clustering-column alter.clustering-statistics alter.column-exists alter.constraint-exists alter.constraint-missing alter.constraint-name alter.default alter.default-with-add alter.directive alter.generated-column alter.identity alter.ids alter.in-options alter.invariant alter.key alter.last-column alter.lossy alter.map-key alter.mapping-exists alter.mapping-mode alter.mapping-needed alter.move alter.name alter.not-null alter.number alter.old-rows alter.option alter.part alter.partition-column alter.partitioned alter.protocol-upgrade-needed alter.reader-partitions alter.reader-version alter.reserved-name alter.rows-unknown alter.rows-violate alter.shares alter.statistics alter.streams alter.void append.constraint append.constraint-unjudged append.identity append.missing-column append.partition-value append.table-changed append.type append.unknown-column append.value appendOnly azure backup.conflict backup.copy-differs backup.damaged backup.diverged backup.list-corrupt backup.list-missing backup.not-a-backup backup.other-table backup.unfinished baseline bug catalog-managed-table catalog.answer catalog.denied catalog.domain catalog.feature catalog.inline-commit catalog.managed catalog.not-delta catalog.not-found catalog.not-managed catalog.permission catalog.property catalog.published-unreported catalog.read-only catalog.refused catalog.unavailable catalog.uniform catalog.unpublished-limit catalogManaged catalogOwned-preview cdf change-feed changeDataFeed changes.columns-replaced changes.mapping-removed checkConstraints checkpoint.not-proven checkpoint.parts-mix checkpointProtection clock.ahead clone.files-lost clone.inside clone.note-unreadable clone.rows-unknown clone.source-incomplete clone.source-not-writable clone.target-exists clone.target-not-empty clone.vacuum-running cluster.catalog cluster.clock-skew cluster.failed cluster.java cluster.local-store cluster.module cluster.no-cluster cluster.other-table cluster.other-version cluster.package cluster.pyspark cluster.python cluster.result-size cluster.secret cluster.start cluster.unreachable cluster.url clustering collations collations-preview column-mapping columnMapping columnMappingUsageTracking commands commit commit.line-too-long commit.outcome-unknown commit.shrank compact.too-large conditions config configuration confirmation conflict consent consent.denied consent.missing convert.conflicts convert.files-changed convert.iceberg convert.inside-table convert.is-table convert.lost-log convert.no-files convert.other-format convert.spark-metadata coordinatedCommits-preview copy.absolute-paths copy.conflict copy.differs copy.diverged copy.external-files copy.inside-table copy.not-a-replica copy.note-corrupt copy.source-changed copy.source-incomplete copy.source-rewritten copy.target-changed copy.time-budget crc.not-proven credentials cutoff data.bad-value data.not-as-written data.time-zone-unknown deletion-vector deletionVectors delta.appendOnly delta.autoOptimize delta.autoOptimize.autoCompact delta.autoOptimize.optimizeWrite delta.castIcebergTimeType delta.checkpoint.writeStatsAsJson delta.checkpoint.writeStatsAsStruct delta.checkpointInterval delta.checkpointPolicy delta.checkpointRetentionDuration delta.clusterByAuto delta.columnMapping.hasDroppedOrRenamed delta.columnMapping.maxColumnId delta.columnMapping.mode delta.compatibility.symlinkFormatManifest.enabled delta.dataSkippingNumIndexedCols delta.dataSkippingStatsColumns delta.dataSkippingStringPrefixLength delta.deletedFileRetentionDuration delta.dropFeatureTruncateHistory.retentionDuration delta.enableChangeDataCapture delta.enableChangeDataFeed delta.enableDeletionVectors delta.enableExpiredLogCleanup delta.enableFullRetentionRollback delta.enableIcebergCompatV1 delta.enableIcebergCompatV2 delta.enableIcebergCompatV3 delta.enableIcebergWriterCompatV1 delta.enableIcebergWriterCompatV3 delta.enableInCommitTimestamps delta.enableInCommitTimestamps-preview delta.enableMaterializePartitionColumnsFeature delta.enableRowTracking delta.enableTypeWidening delta.enableVariantShredding delta.inCommitTimestampEnablementTimestamp delta.inCommitTimestampEnablementTimestamp-preview delta.inCommitTimestampEnablementVersion delta.inCommitTimestampEnablementVersion-preview delta.isolationLevel delta.lastCommitTimestamp delta.lastUpdateVersion delta.logRetentionDuration delta.managedDataSkippingStatsColumns delta.parquet.compression.codec delta.parquet.format.version delta.parquet.vorder.enabled delta.randomPrefixLength delta.randomizeFilePrefixes delta.redirectReaderWriter-preview delta.redirectWriterOnly-preview delta.requireCheckpointProtectionBeforeVersion delta.rowTrackingSuspended delta.sampleRetentionDuration delta.setTransactionRetentionDuration delta.targetFileSize delta.tuneFileSizesForRewrites delta.universalFormat.compatibility.location delta.universalFormat.compatibility.targetRefreshInterval delta.universalFormat.enabledFormats delta.universalFormat.iceberg.atomicConversion.supported delta.workloadBasedColumns.optimizerStatistics delta.writePartitionColumnsToParquet documents domain domainMetadata durations environment errors examples exit-codes expire.checkpoint-protection expire.disabled expire.not-proven expire.partly-done expire.retention expire.retention-longer external feature features.history-not-needed features.in-use features.needed-by-stream features.needs-truncation features.not-alone features.not-present features.not-removable features.preview features.required features.unknown features.unused features.wait features.would-activate files.archived files.deleted-rows files.lost files.small files.unreferenced finding fleet.config fleet.consent fleet.exists fleet.findings fleet.group fleet.lease-lost fleet.leased fleet.metrics-address fleet.run-active fleet.state fleet.webhook foreign formats gcs generatedColumns geospatial geospatial-dev glossary guard guards help hint icebergCompatV1 icebergCompatV2 icebergCompatV3 icebergWriterCompatV1 icebergWriterCompatV3 ict.not-increasing identityColumns in-commit-timestamp inCommitTimestamp inCommitTimestamp-preview interrupted invariants json liquid live-file log-compaction log-segment log.checkpoint-distance log.commit-overwritten log.expired log.problems manifests.column-mapping manifests.line-break manifests.link manifests.not-deleted manifests.vectors materializePartitionColumns memory.exhausted metadata.missing ndjson optimize.clustered optimize.clustering-columns optimize.not-clustered optimize.row-group-too-large optimize.rows-differ optimize.type-unsupported optimize.value-not-exact output-streams output.run-ended output.unwritable pager paimon.iceberg paimon.no-such-branch paimon.no-such-snapshot paimon.outcome-unknown paimon.table-damaged paimon.users-unknown partitions.too-many partly-done path.external permissions plan plan.clock plan.newer plan.other-past plan.other-place plan.other-table plan.too-old policy profile progress properties.column-mapping properties.constraint properties.engine-only properties.feature-needed properties.iceberg-compat properties.iceberg-needed properties.internal properties.key-case properties.manifest properties.reserved-column properties.unknown-key protocol.unsupported-reader put-if-absent quarantine recipient reconciliation recover.diverged recover.other-table recover.source-is-log recover.source-is-table recover.source-missing recover.unproven redirectReaderWriter-preview redirectWriterOnly-preview refusal refused repair.backup-damaged repair.backup-differs repair.backup-missing repair.backup-of-another repair.file-renamed repair.listing-differs repair.log-moved-on repair.loss-not-accepted repair.not-as-left repair.plan-missing repair.plan-of-another repair.plan-stale repair.plan-unreadable repair.sparse-file repair.step-failed repair.table-in-use repair.too-much-missing repair.undo-loses-versions restore.append-only restore.conflict restore.constraint restore.copy-differs restore.damaged restore.diverged restore.features restore.file-damaged restore.file-missing restore.file-vanished restore.gap restore.link restore.mapping-mode restore.not-checked restore.partitioning restore.row-ids restore.rows-unknown restore.schema-differs restore.vacuum-running restore.vectors-off retention retention.out-of-order retries row-group rowTracking rowtracking.not-enabled rowtracking.suspended rule s3 schema.not-a-schema schema.not-writable schemas shallow-clone share.access share.access-mode share.address share.answer share.answer-cut share.certificate share.client share.config share.credential share.credential-ended share.directory share.file-differs share.files share.grant share.history-gone share.host share.keys share.limit share.locked share.moved-on share.no-change-feed share.no-client share.no-table share.no-token share.not-a-server share.not-found share.note share.nothing-shared share.permissions share.plain-http share.port share.port-denied share.port-in-use share.profile share.pull-target share.query-failed share.query-timeout share.read-only share.recipient share.recipients share.refused-token share.request share.self-signed share.signing share.start-version share.target-exists share.token share.too-many-tokens share.unauthenticated share.unavailable share.unreachable share.url-expired share.url-refused share.workers sidecar signals sizes spark.append-only spark.listing spark.read-only spark.spelling start statistics statistics.columns statistics.missing storage.archived storage.bucket-missing storage.clock-skew storage.content-differs storage.credentials storage.delete-alone storage.delete-failed storage.delete-without-effect storage.failed storage.file-missing storage.grant-ended storage.grant-form storage.grant-location storage.listing-disorder storage.listing-incomplete storage.listing-stale storage.no-atomic-create storage.no-atomic-replace storage.no-space storage.no-versions storage.permission storage.ranges-ignored storage.ranges-wrong storage.read-unconditional storage.region storage.scratch-left storage.unexpected-answer storage.unreachable stream.changes stream.changes-not-recorded stream.deletes stream.no-app-id stream.offset stream.other-table stream.schema-changed streams.moved streams.none-found streams.not-a-checkpoint streams.not-protected streams.paimon table.format table.format-ambiguous table.path-inside table.path-is-file table.path-is-log table.path-missing table.redirected table.timestamp-before-start table.timestamp-unknown table.unreadable table.version-absent tasks text.not-unicode time time-travel times timestampNanos timestampNtz timestampWithoutTimezone timestamps timetravel tombstone topics type.unsupported typeWidening typeWidening-preview uncommitted-file undelete.conflict undelete.not-there undelete.source-changed undelete.still-missing usage usage.access usage.allow-external usage.backup usage.baseline usage.catalog usage.change usage.checkpoints usage.client usage.column usage.commit-metadata usage.config usage.copy usage.credentials usage.duration usage.feature usage.format usage.history usage.missing-extra usage.missing-library usage.output usage.parameter usage.partition usage.partition-value usage.plan usage.point usage.prices usage.property usage.relative-path usage.result usage.rule usage.sample usage.schema-file usage.scheme usage.secret usage.share usage.shell usage.size usage.storage-option usage.stream-option usage.table usage.table-format usage.template usage.time-zone usage.timestamp usage.type usage.version usage.where v2Checkpoint vacuum.clock-skew vacuum.clone-unreachable vacuum.empty-listing vacuum.inside-table vacuum.inventory vacuum.lite-impossible vacuum.live-files-missing vacuum.max-delete vacuum.nested-table vacuum.partly-done vacuum.plan-names-live vacuum.plan-newer vacuum.plan-other-past vacuum.plan-other-table vacuum.plan-progress vacuum.plan-retention vacuum.plan-too-old vacuum.plan-unreadable vacuum.quarantine-differs vacuum.quarantine-in-table vacuum.quarantine-manifest vacuum.quarantine-name vacuum.retention vacuum.shared-directory vacuum.unknown-clock vacuumProtocolCheck variantShredding variantShredding-preview variantType variantType-preview version where widen.change-data-feed widen.char-varchar widen.check-constraint widen.default widen.file-type widen.generated-column widen.generation-expression widen.history-broken widen.history-path widen.history-refused widen.iceberg-compat widen.identity widen.invariant widen.not-allowed widen.not-enabled widen.partition-date widen.partition-decimal widen.partition-float widen.partition-value widen.protocol-upgrade-needed widen.uniform
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
