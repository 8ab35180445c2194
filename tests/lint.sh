#!/bin/sh
# What can be said about the sources without running them. One line a check: "ok what",
# "FAILED what" with the findings below it, or "not run: what: why". Status 1 if one failed.
# shellcheck disable=SC2016,SC2038,SC2046,SC2086,SC2317 # names of files and directories have no blanks
set -u
cd "$(dirname "$0")/.." || exit 2

product='platform store gateway'
failed=0
jobs=$(nproc)

# check WHAT TOOL COMMAND...: the command, which needs the tool, must succeed.
check() {
    what=$1
    tool=$2
    shift 2
    if ! command -v "$tool" >/dev/null 2>&1; then
        echo "not run: $what: $tool is not installed"
    elif out=$("$@" 2>&1); then
        echo "ok $what"
    else
        echo "FAILED $what"
        echo "$out" | head -40
        failed=1
    fi
}

# none WHAT GREP-ARGUMENTS...: grep must find nothing.
none() {
    what=$1
    shift
    if out=$(grep -rnE --include='*.[ch]' "$@"); then
        echo "FAILED $what"
        echo "$out" | head -10
        failed=1
    else
        echo "ok $what"
    fi
}

# one_file HEADER: only one file of the product includes it.
one_file() {
    users=$(grep -rlE "#include <$1>" $product | sort)
    if [ "$(echo "$users" | grep -c .)" -gt 1 ]; then
        echo "FAILED <$1> is included by more than one file"
        echo "$users"
        failed=1
    else
        echo "ok <$1> belongs to one file"
    fi
}

sources=$(find $product tests -name '*.[ch]')
units=$(find $product -name '*.c')
scripts=$(grep -rlE '^#!/bin/(sh|bash)|^#!/usr/bin/env bash' tests .ci platform)
flags="-std=c11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -DBUILD_TIME=0 -DPAGES=1 -DSMALL=0 -I."

make -s web || exit 2 # gateway/asset.c includes what it makes

tidy() {
    echo "$units" | xargs -P "$jobs" -n 3 sh -c \
        'clang-tidy -quiet --warnings-as-errors="*" "$@" -- '"$flags" sh 2>/dev/null
}

long_functions() {
    ctags -x --c-kinds=f --fields=+ne --_xformat='%n %{end} %F %N' -R $product |
        awk '$2 - $1 >= 80 { print $3 ": " $4; found = 1 } END { exit found }'
}

# A wait that polls for its condition says so in the same line.
fixed_sleeps() {
    ! grep -rnE '\bu?sleep\(?[ (]*[0-9.]+|time\.sleep\(' --include='*.[ch]' --include='*.py' \
        --include='*.sh' tests | grep -vE 'poll|until|backoff|grep'
}

check 'layout (clang-format)' clang-format clang-format --dry-run -Werror $sources
check 'clang-tidy' clang-tidy tidy
# getpwnam and getgrnam are called before there are threads; addresses of what is still unset are
# taken in store/record.c.
check 'cppcheck' cppcheck cppcheck -q -j "$jobs" --std=c11 --library=posix --error-exitcode=1 \
    --enable=warning,performance,portability --inline-suppr --suppress=missingIncludeSystem \
    --suppress=getpwnamCalled --suppress=getgrnamCalled --suppress=getpwuidCalled \
    --suppress=uninitvar:store/record.c -D_GNU_SOURCE -DBUILD_TIME=0 -DPAGES=1 -DSMALL=0 -I. $product
check 'manual pages (mandoc)' mandoc mandoc -T lint -W warning $(find gateway -name '*.[578]')
check 'shell scripts (shellcheck)' shellcheck shellcheck $scripts
check 'no function over 80 lines' ctags long_functions
check 'no fixed sleep in tests' grep fixed_sleeps

none 'platform includes nothing above it' '#include "(store|gateway|tests)/' platform
none 'store includes nothing above it' '#include "(gateway|tests)/' store
none 'gateway includes no tests' '#include "tests/' gateway
none 'no word of floating point' -w 'float|double|strtod|strtof|atof' $product
tests/nofloat.sh || failed=1
# clang-format leaves comments as they are, and where it is off (a table) there is one row a line.
none 'no line over 100 columns' --exclude=config_options.c '^.{101}' $product tests
none 'no unbounded string functions' '\b(strcpy|strcat|sprintf|vsprintf|gets|alloca)\(' $product
for header in lmdb.h fcgiapp.h curl/curl.h bearssl.h confuse.h; do one_file "$header"; done

exit "$failed"
