#!/bin/sh
# Money and tokens are integers: nothing is computed in floating point. The compiler says so,
# not a search for words: each file is compiled for a machine without floating-point registers
# (x86-64 with the general ones alone, where their use is an error), and for one that does it in
# software (as a router does), where it would be a call of the compiler's helpers, such as
# __muldf3. Before that, what must be found is. Lines as in tests/lint.sh.
#
# usage: tests/nofloat.sh [mips]     with mips: as a router's MIPS does it, by its cross compiler
set -u
cd "$(dirname "$0")/.." || exit 2

make -s web || exit 2 # gateway/asset.c includes what it makes
units=$(find platform store gateway -name '*.c')
scratch=$(mktemp -d) || exit 2
trap 'rm -r "$scratch"' EXIT
mkdir "$scratch/gnu"
: >"$scratch/gnu/stubs-32.h" # the one header that 32 bits need and a 64-bit libc lacks
: >"$scratch/gnu/stubs-o32_soft.h"
: >"$scratch/gnu/stubs-o32_soft_2008.h"

cc=gcc
here=/usr/include/$(gcc -print-multiarch)
common="-std=c11 -O0 -Werror=unsuffixed-float-constants -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -I. -c"
common="$common -DBUILD_TIME=0 -DPAGES=1 -DSMALL=0"
registers="-mgeneral-regs-only"
software="-m32 -msoft-float -isystem $scratch -isystem $here"
mips="-msoft-float -isystem $scratch -idirafter /usr/include -idirafter $here"

# libgcc's helpers end in the kinds of their operands: half, single, double, extended, quadruple
# and their complex ones; ARM's begin with __aeabi_.
helpers='^(__[a-z]+([hsdxt]f|[hsdxt]c)([hsdxt][fi])?[0-9]?|__aeabi_([fd][a-z]+|[a-z]+2[fd]))$'

# without FLAGS FILE...: each compiles, and no object asks for a helper.
# shellcheck disable=SC2086 # flags and files are lists of words without blanks
without() {
    flags=$1
    shift
    for file in "$@"; do
        $cc $common $flags -o "$scratch/object.o" "$file" || return 1
        if nm -u "$scratch/object.o" | awk '{ print $2 }' | grep -E "$helpers"; then
            echo "$file: is called for floating point"
            return 1
        fi
    done
}

# One way of computing in a line; none of them may pass. What only carries a value about is not
# found here; it has to name its type, and lint.sh looks for the names.
floats='unsigned long f(unsigned long n) { return n * 0.15; }
int f(void) { return 2.5 * 2 > 4; }
float f(float x, float y) { return x + y; }
int f(const float *x) { return *x > 1; }
long f(const double *x) { return (long)*x; }
void f(double *x, unsigned long long n) { *x = n; }
void f(double *x, const float *y) { *x = *y; }
long double f(const long double *x) { return *x / 3; }
void f(double *x) { *x = -*x * *x; }'

# what FLAGS: 0 none of the faults passes and integers do; 2 this compiler cannot do it.
proven() {
    printf 'unsigned long long f(unsigned long long n) { return n / 7 %% 5 * 3; }\n' \
        >"$scratch/whole.c"
    without "$1" "$scratch/whole.c" >/dev/null 2>&1 || return 2
    echo "$floats" | while IFS= read -r line; do
        echo "$line" >"$scratch/float.c"
        if without "$1" "$scratch/float.c" >/dev/null 2>&1; then
            echo "not found: $line"
            exit 1
        fi
    done
}

status=0
# shellcheck disable=SC2086 # as above
try() {
    found=$(proven "$2")
    case $? in
    0) if found=$(without "$2" $units 2>&1); then
        echo "ok $1"
        return
    fi ;;
    2)
        echo "not run: $1: $cc here cannot compile for it ($2)"
        return
        ;;
    esac
    echo "FAILED $1"
    echo "$found" | head -20
    status=1
}

if [ "${1:-}" = mips ]; then
    cc='mips-linux-gnu-gcc'
    try 'no floating point on a soft-float MIPS' "$mips"
    exit "$status"
fi
try 'no floating point without its registers' "$registers"
try 'no floating point on a soft-float target' "$software"
exit "$status"
