#!/bin/sh
# The program made without pages, and the small one, beside the whole one: what they leave out is
# not there, they say so, all else works, and pages are no more of the program than people are
# worth. Lines as in tests/lint.sh: "ok what" or "FAILED what"; status 1 if one failed.
#
# With build/practice-model there.
#
# usage: tests/plain.sh build/pennygate build/release-plain/pennygate build/release-small/pennygate
set -u
whole=$1
plain=$2
small=$3
most=49152 # 48 KiB: the owner of a small router decides by it
least=28672 # 28 KiB, of some 40: something that was left out is back
scratch=$(mktemp -d) || exit 2
trap 'rm -r "$scratch"' EXIT
failed=0

# expect WHAT TEXT OUTPUT: the output has the text.
expect() {
    case $3 in
    *"$2"*) echo "ok $1" ;;
    *)
        echo "FAILED $1: no $2 in:"
        echo "$3"
        failed=1
        ;;
    esac
}

# ask PROGRAM METHOD PATH: as CGI.
ask() {
    env -i GATEWAY_INTERFACE=CGI/1.1 PENNYGATE_CONFIG="$scratch/conf" REQUEST_METHOD="$2" \
        SCRIPT_NAME="$3" REMOTE_ADDR=192.0.2.1 "$1" </dev/null 2>&1
}

mkdir -m 700 "$scratch/store"
cat >"$scratch/conf" <<CONF
site { store = '$scratch/store' page = yes mount = '/ai' }
model demo { url = 'http://127.0.0.1:9/v1' model = m }
dashboard { accounts = { ann } }
CONF
owner=''
[ "$(id -u)" != 0 ] || owner='--owner root'
# shellcheck disable=SC2086 # two words or none
"$whole" init $owner -c "$scratch/conf" >/dev/null || exit 2

expect 'the whole program has a page' 'Status: 200 OK' "$(ask "$whole" GET /ai/)"

# without NAME PROGRAM
without() {
    for path in /ai /ai/ /ai/widget.js /ai/dashboard /ai/dashboard.json /ai/dashboard.css /ai/metrics; do
        expect "$1: GET $path" '"not_found"' "$(ask "$2" GET "$path")"
        expect "$1: POST $path" '"not_found"' "$(ask "$2" POST "$path")"
    done
    expect "$1: the status" '"available":true' "$(ask "$2" GET /ai/status)"
    expect "$1: the same configuration" '0 faults' "$("$2" check -c "$scratch/conf" 2>&1)"
    expect "$1: dashboard-password" 'made without pages' \
        "$("$2" dashboard-password -c "$scratch/conf" 2>&1)"
    expect "$1: help" 'dashboard-password  not in this program' "$("$2" help)"
    expect "$1: check" 'dashboard   not in this program' "$("$2" check -c "$scratch/conf" 2>&1)"
    demo=$(DEMO_PROGRAM=$2 RUN_DIR=$scratch/run RUN_ONCE=1 tests/demo/run.sh 2>&1)
    expect "$1: make run answers" '[DONE]' "$demo"
    expect "$1: make run says so" 'Pages:      not in this program' "$demo"
}
without 'without pages' "$plain"
without small "$small"
expect 'with pages: help' 'dashboard-password  make' "$("$whole" help)"

for words in 'transcripts list' 'transcripts erase --all' 'check --through http://127.0.0.1:9/' stats; do
    # shellcheck disable=SC2086 # words
    expect "small: $words" 'made without' "$("$small" $words -c "$scratch/conf" 2>&1)"
done
expect 'small: help' 'transcripts         not in this program' "$("$small" help)"
expect 'small: stats --json' '"days"' "$("$small" stats --json -c "$scratch/conf" 2>&1)"
expect 'small: stats --csv' 'day,admitted,' "$("$small" stats --csv -c "$scratch/conf" 2>&1)"
expect 'small: maintain' 'done' "$("$small" maintain -c "$scratch/conf" 2>&1 && echo 'done')"
expect 'small: the self-test' '"not_found"' "$(ask "$small" POST /ai/v1/self-test)"
echo 'transcripts { keep = yes }' >>"$scratch/conf"
expect 'small: transcripts to be kept are a fault' 'transcripts: keep = yes, and' \
    "$("$small" check -c "$scratch/conf" 2>&1)"
expect 'small: and are refused' 'Status: 503' \
    "$(ask "$small" POST /v1/chat/completions)"

strip -o "$scratch/whole" "$whole"
strip -o "$scratch/plain" "$plain"
less=$(($(stat -c %s "$scratch/whole") - $(stat -c %s "$scratch/plain")))
if [ "$less" -gt 0 ] && [ "$less" -le "$most" ]; then
    echo "ok pages are $less bytes of the program"
else
    echo "FAILED pages are $less bytes of the program, of at most $most"
    failed=1
fi
strip -o "$scratch/small" "$small"
less=$(($(stat -c %s "$scratch/plain") - $(stat -c %s "$scratch/small")))
if [ "$less" -ge "$least" ]; then
    echo "ok what is left out of the small one is $less bytes"
else
    echo "FAILED the small one is $less bytes smaller than without pages, not $least"
    failed=1
fi
exit "$failed"
