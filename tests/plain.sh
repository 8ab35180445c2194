#!/bin/sh
# The program made without pages, beside the whole one: what it leaves out is not there, it says
# so, all else works, and it is smaller by no more than people are worth. Lines as in
# tests/lint.sh: "ok what" or "FAILED what"; status 1 if one failed.
#
# With build/practice-model there.
#
# usage: tests/plain.sh build/pennygate build/release-plain/pennygate
set -u
whole=$1
plain=$2
most=49152 # 48 KiB: the owner of a small router decides by it
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
for path in /ai /ai/ /ai/widget.js /ai/dashboard /ai/dashboard.json /ai/dashboard.css /ai/metrics; do
    expect "without pages: GET $path" '"not_found"' "$(ask "$plain" GET "$path")"
    expect "without pages: POST $path" '"not_found"' "$(ask "$plain" POST "$path")"
done
expect 'without pages: the status' '"available":true' "$(ask "$plain" GET /ai/status)"
expect 'without pages: the same configuration' '0 faults' "$("$plain" check -c "$scratch/conf" 2>&1)"
expect 'without pages: dashboard-password' 'made without pages' \
    "$("$plain" dashboard-password -c "$scratch/conf" 2>&1)"
expect 'without pages: help' 'dashboard-password  not in this program' "$("$plain" help)"
expect 'with pages: help' 'dashboard-password  make' "$("$whole" help)"
expect 'without pages: check' 'dashboard   not in this program' \
    "$("$plain" check -c "$scratch/conf" 2>&1)"
demo=$(DEMO_PROGRAM=$plain RUN_DIR=$scratch/run RUN_ONCE=1 tests/demo/run.sh 2>&1)
expect 'without pages: make run answers' '[DONE]' "$demo"
expect 'without pages: make run says so' 'Pages:      not in this program' "$demo"

strip -o "$scratch/whole" "$whole"
strip -o "$scratch/plain" "$plain"
less=$(($(stat -c %s "$scratch/whole") - $(stat -c %s "$scratch/plain")))
if [ "$less" -gt 0 ] && [ "$less" -le "$most" ]; then
    echo "ok pages are $less bytes of the program"
else
    echo "FAILED pages are $less bytes of the program, of at most $most"
    failed=1
fi
exit "$failed"
