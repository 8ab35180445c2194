#!/bin/sh
# Where the bytes of the router's program (PAGES=0, without pages) are: it is compiled for two 32-bit
# machines as OpenWrt compiles its packages, linked against stand-ins of the libraries, stripped,
# and the linker's map is added up by object file. Nothing of it runs.
#
# OpenWrt's own flags, of its defaults: -Os, regular stack protector, FORTIFY_SOURCE=1, full RELRO,
# no PIE unless the image is configured so. BearSSL is not counted: it is linked statically there
# and its HMAC-SHA-256 is about 4 KiB.
#
# Needs gcc-arm-linux-gnueabihf, gcc-mips-linux-gnu and their C libraries' headers, beside what
# the program is built from.
#
# usage: tests/size-parts.sh [-q] [arm|mips ...] [VARIABLE=value for make ...]
#        -q  only the totals
set -eu
quiet=''
[ "${1:-}" != -q ] || { quiet=1; shift; }
machines=''
while :; do
    case ${1:-} in
    arm | mips) machines="$machines $1"; shift ;;
    *) break ;;
    esac
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Headers of the libraries alone: the C library's are the other machine's.
here=/usr/include
there=$here/$(gcc -print-multiarch)
mkdir "$scratch/include"
for header in "$here"/fcgi*.h "$here"/lmdb.h "$here"/bearssl*.h "$here"/jansson*.h "$there"/jansson*.h \
    "$here"/confuse.h "$here"/curl "$there"/curl; do
    [ ! -e "$header" ] || ln -sf "$header" "$scratch/include"
done

# Times are of 64 bits, as in musl.
openwrt='-fstack-protector -D_FORTIFY_SOURCE=1 -D_TIME_BITS=64 -fno-pie -Wno-error'

# An object library that has each function that the program does not.
stand_in() { # CC NM OBJECTS
    "$2" -u "$3"/gateway/main.o "$3"/libpennygate.a | awk '$1 == "U" { print $2 }' | sort -u >"$scratch/wants"
    "$2" -g --defined-only "$3"/libpennygate.a | awk 'NF == 3 { print $3 }' | sort -u >"$scratch/has"
    comm -23 "$scratch/wants" "$scratch/has" | grep -E '^(FCGX?_|OS_|mdb_|br_|json|cfg_|curl_)' |
        awk '{ print ".globl " $1 "\n.type " $1 ", %function\n" $1 ":\n.4byte 0" }' >"$scratch/stand-in.s"
    "$1" -shared -nostdlib -o "$3/stand-in.so" "$scratch/stand-in.s"
}

# usage: measure NAME TRIPLET FLAGS [VARIABLE=value ...]
measure() {
    name=$1 tools=$2 flags=$3
    shift 3
    objects=build/size/$name
    "$tools-gcc" --version >/dev/null 2>&1 || { echo "$name: no $tools-gcc" >&2; return 1; }
    rm -rf "$objects"
    set -- "$@" PAGES=0 HARDEN= CC="$tools-gcc" AR="$tools-gcc-ar" dir="$objects" \
        CFLAGS="-I$scratch/include $openwrt $flags" LDFLAGS="-Wl,-Map=$objects/map -no-pie $flags ${LINK-}"
    make -s -j2 "$@" "$objects/gateway/main.o" "$objects/libpennygate.a" >"$scratch/log" 2>&1 ||
        { cat "$scratch/log" >&2; return 1; }
    stand_in "$tools-gcc" "$tools-gcc-nm" "$objects"
    make -s "$@" libs="$objects/stand-in.so" "$objects/pennygate" >"$scratch/log" 2>&1 ||
        { cat "$scratch/log" >&2; return 1; }
    "$tools-strip" -o "$objects/stripped" "$objects/pennygate"
    bytes=$(stat -c %s "$objects/stripped")
    echo "$name: $bytes bytes stripped, $(xz -9ce "$objects/stripped" | wc -c) in xz," \
        "$("$tools-size" "$objects/stripped" | awk 'NR == 2 { print $1 + $2 }') without padding"
    [ -n "$quiet" ] || parts "$objects/map" "$bytes"
}

# Sums of what is loaded, by object file, largest first.
parts() {
    awk -v all="$2" '
        /^Linker script and memory map/ { on = 1 }
        !on { next }
        /^\.[a-zA-Z]/ { loaded = $1 !~ /^\.(bss|sbss|debug|comment|pdr|mdebug|gnu\.attributes|ARM\.attributes)/ }
        NF == 1 && /^ [.*]/ { name = $1; next }
        /^ +0x[0-9a-f]+ +0x[0-9a-f]+ / && NF >= 3 { add($2, $3); next }
        /^ [.*].* 0x[0-9a-f]+ +0x[0-9a-f]+ / && NF >= 4 { add($3, $4) }
        function add(size, file) {
            if (!loaded || file !~ /\.o\)?$/ || file ~ /crt.*\.o$/)
                return
            sub(/.*\(/, "", file); sub(/\)$/, "", file); sub(/.*\//, "", file)
            sum[file] += number(size); total += number(size)
        }
        function number(hex, i, n) {
            for (i = 3; i <= length(hex); i++)
                n = n * 16 + index("123456789abcdef", substr(hex, i, 1))
            return n
        }
        END {
            for (f in sum) if (sum[f]) printf "  %7d %s\n", sum[f], f | "sort -rn"
            close("sort -rn")
            printf "  %7d in tables of the linker and between sections\n", all - total
        }' "$1"
}

status=0
for machine in ${machines:-arm mips}; do
    case $machine in
    arm) measure arm arm-linux-gnueabihf '-mthumb -march=armv7-a -mfpu=vfpv3-d16' "$@" || status=1 ;;
    mips) measure mips mips-linux-gnu '-mips32r2 -mips16 -minterlink-mips16 -mno-branch-likely -mno-shared -mplt' "$@" || status=1 ;;
    esac
done
exit "$status"
