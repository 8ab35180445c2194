#!/bin/sh
# The sizes of the stripped program on several machines, with its pages and without, and its memory
# once it serves and has no caller, where it runs natively; then those of a router's program: the
# tables of README.md.
#
# usage: tests/cross/sizes.sh
set -eu
cd "$(dirname "$0")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM

# row NAME STRIP PROGRAM PLAIN NATIVE: PROGRAM has pages, PLAIN has none.
row() {
    idle=''
    for program in "$3" "$4"; do
        if [ "$5" = native ]; then
            kib=$(tests/size.sh "$program" board)
        else
            kib='-'
        fi
        idle="$idle | $kib"
    done
    "$2" -o "$scratch/whole" "$3"
    "$2" -o "$scratch/plain" "$4"
    echo "| $1 | $(stat -c %s "$scratch/whole") | $(stat -c %s "$scratch/plain")$idle |"
}

# foreign NAME TARGET STRIP NATIVE DIRECTORY [WORD...]: built with the words for make.
foreign() {
    name=$1 target=$2 strip=$3 native=$4 directory=build/cross/$2/$5
    shift 5
    if ! words=$(tests/cross/prepare.sh "$target" release 2>"$scratch/why"); then
        echo "| $name | not measured: $(tail -1 "$scratch/why") | | | |"
        return 0
    fi
    for pages in 1 0; do
        # shellcheck disable=SC2086 # words
        make -s -j"$(nproc)" $words "$@" PAGES=$pages "dir=$directory-$pages" all >"$scratch/why" 2>&1 || {
            echo "| $name | does not compile: $(grep -m 1 error "$scratch/why") | | | |"
            return 0
        }
    done
    row "$name" "$strip" "$directory-1/pennygate" "$directory-0/pennygate" "$native"
}

# shellcheck disable=SC2016 # as it is written there
echo '| target | bytes | `PAGES=0` | idle, KiB | idle, `PAGES=0` |'
echo '|---|---:|---:|---:|---:|'
make -s -j"$(nproc)" all >/dev/null
make -s -j"$(nproc)" PAGES=0 all >/dev/null
row amd64 strip build/pennygate build/release-plain/pennygate native
foreign i386 i386 strip native size
foreign 'armhf (Thumb-2)' armhf arm-linux-gnueabihf-strip emulated size
foreign 'mips (big-endian)' mips mips-linux-gnu-strip emulated size
# The compiler has no -fstack-clash-protection for it; a router's build chooses its own hardening.
foreign 'mips, MIPS16' mips mips-linux-gnu-strip emulated mips16 CFLAGS=-mips16 \
    'HARDEN=-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=1 -fstack-protector'
foreign 'amd64, musl, static' musl strip native size

echo
# shellcheck disable=SC2016 # as it is written there
echo '| `SMALL=1`, for OpenWrt | bytes | in xz |'
echo '|---|---:|---:|'
tests/size-parts.sh -q | sed -n -e 's/^arm/Thumb-2/' -e 's/^mips/MIPS16/' \
    -e 's/^\(.*\): \([0-9]*\) bytes stripped, \([0-9]*\) in xz.*/| \1 | \2 | \3 |/p'
