#!/usr/bin/env bash
# Each documented exit code of `deltacli validate`, made to happen: exit_codes.sh SAMPLE, where SAMPLE is a sound table.
# Works in the current directory and says one line a case; ends with 1 where a code is another one.
set -uo pipefail
sample=$1
failed=0

# expect CODE WHAT COMMAND…
expect() {
    local expected=$1 what=$2 code=0
    shift 2
    "$@" > out 2> err || code=$?
    if [ "$code" -eq "$expected" ]; then
        echo "ok $expected $what"
    else
        echo "not ok: $code instead of $expected: $what"
        sed 's/^/    /' err
        failed=1
    fi
}

validate() { deltacli validate --now 2026-01-10 "$@"; }

mkdir lake
cp -R "$sample" lake/good
cp -R "$sample" lake/bad
cp -R "$sample" lake/warned
cp -R "$sample" lake/incomplete
printf '{"add":{"path":"x"}\n' > lake/bad/_delta_log/00000000000000000015.json
rm lake/warned/_delta_log/_last_checkpoint
rm -r lake/incomplete/day=2026-01-02
mkdir empty
printf '[]' > no-baseline.json
printf '{}\n' > no-history.ndjson

expect 0 "a sound table" validate lake/good
expect 0 "a sound table, and its files" validate lake/good --level storage
expect 0 "observations do not count by default" validate lake/good --fail-on error
expect 1 "unless they are asked for" validate lake/good --fail-on info
expect 0 "warnings do not count by default" validate lake/warned
expect 1 "unless they are asked for" validate lake/warned --fail-on warning
expect 1 "a torn commit" validate lake/bad
expect 0 "files that the log does not tell are gone" validate lake/incomplete
expect 1 "a listing tells" validate lake/incomplete --level storage
expect 1 "one of several tables" validate lake/good lake/bad
expect 1 "one of several tables, searched for" validate lake
expect 1 "a directory that is no table" validate empty
for format in ndjson sarif junit github; do
    expect 1 "a torn commit, as $format" validate lake/bad --format "$format"
done

expect 0 "--exit-zero" validate lake/bad --exit-zero
expect 3 "--exit-zero, and nothing at a path" validate lake/bad none --exit-zero
expect 0 "--write-baseline" validate lake/bad --write-baseline known.json
expect 0 "--baseline: nothing new" validate lake/bad --baseline known.json
expect 1 "--baseline: a new one" validate lake/bad lake/incomplete --level storage --baseline known.json
expect 0 "no rule finds it" validate lake/bad --select 'hint.*'
expect 0 "--list-rules" validate --list-rules
expect 0 "--help" deltacli validate --help

expect 1 "no table: the current directory" validate
expect 2 "no table where one is required" deltacli repair
expect 2 "an unknown option" validate lake/good --nonsense
expect 2 "an unknown level" validate lake/good --level deep
expect 2 "an unknown severity" validate lake/good --fail-on fatal
expect 2 "an unknown rule" validate lake/good --select no.rule
expect 2 "a negative number" validate lake/good --max-findings -1
expect 2 "a file that is no baseline" validate lake/good --baseline no-baseline.json
expect 2 "no baseline there" validate lake/good --baseline none.json
expect 2 "a file that is no history" validate lake/good --history no-history.ndjson
expect 2 "no directory for a history" validate lake/good --history none/history.ndjson
expect 2 "an unknown scheme" validate gopher://lake/events

expect 3 "nothing at the path" validate none
expect 3 "nothing at one of several paths" validate lake/good none
expect 3 "nothing at one of several paths, findings at another" validate lake/bad none
expect 3 "nothing at several paths" validate none nothing

expect 7 "nowhere to write the result" validate lake/good --output none/result.txt
expect 7 "stdout is closed from the start" bash -c 'deltacli validate lake/good >&-'
if [ "$(id -u)" -ne 0 ] && chmod 0 lake/warned/_delta_log; then
    expect 7 "a log that may not be listed" validate lake/warned
    expect 7 "a log that may not be listed, findings at another" validate lake/bad lake/warned
    chmod 755 lake/warned/_delta_log
fi

# The reader goes before a result that no pipe holds is written.
printf '{"add":{"path":"x"}\n%.0s' {1..4000} > lake/bad/_delta_log/00000000000000000015.json
closed_pipe() {
    validate lake/bad --max-findings 0 --format "$1" | true
    return "${PIPESTATUS[0]}"
}
expect 141 "the reader closed the pipe" closed_pipe ndjson
expect 141 "the reader closed the pipe, as text" closed_pipe table

exit "$failed"
