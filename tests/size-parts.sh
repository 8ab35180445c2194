#!/bin/sh
# The size of the program for a router (SMALL=1), and where its bytes are: it is compiled for two
# 32-bit machines as OpenWrt compiles its packages, linked against stand-ins of the libraries, and
# stripped. Nothing of it runs. Then the linker's map is added up by object file, of a build
# without link-time optimization, which knows no object files.
#
# OpenWrt's own flags, of its defaults: -Os, regular stack protector, FORTIFY_SOURCE=1, full RELRO,
# and PIE, since the package asks for it (PKG_ASLR_PIE_REGULAR); without that, as images for small
# flash have it, it is measured, too. PKG_BUILD_FLAGS:=lto gc-sections of the package.
# BearSSL is not counted: it is linked statically there and its HMAC-SHA-256 is about 4 KiB. Nor
# is sstrip, which takes another KiB. MIPS's linker would pad RELRO to pages of 64 KiB; those of
# routers have 4.
#
# Needs gcc-arm-linux-gnueabihf, gcc-mips-linux-gnu and their C libraries' headers, beside what
# the program is built from. Status 1: one of the machines could not be measured.
#
# usage: tests/size-parts.sh [-q] [arm|mips ...] [VARIABLE=value for make ...]
#        -q  only the totals, with and without PIE
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
openwrt='-fstack-protector -D_FORTIFY_SOURCE=1 -D_TIME_BITS=64 -Wno-error'
pie='-DPIC -fpic -pie' fixed='-fno-pie -no-pie'

# An object library that has each function that the program does not.
stand_in() { # CC NM OBJECTS
    "$2" -u "$3"/gateway/main.o "$3"/libpennygate.a | awk '$1 == "U" { print $2 }' | sort -u >"$scratch/wants"
    "$2" -g --defined-only "$3"/libpennygate.a | awk 'NF == 3 { print $3 }' | sort -u >"$scratch/has"
    comm -23 "$scratch/wants" "$scratch/has" | grep -E '^(FCGX?_|OS_|mdb_|br_|json|cfg_|curl_)' |
        awk '{ print ".globl " $1 "\n.type " $1 ", %function\n" $1 ":\n.4byte 0" }' >"$scratch/stand-in.s"
    "$1" -shared -nostdlib -o "$3/stand-in.so" "$scratch/stand-in.s"
}

# Builds it in $objects. usage: build CC-PREFIX FLAGS [VARIABLE=value ...]
build() {
    cross=$1 all="-I$scratch/include $openwrt $2"
    shift 2
    rm -rf "$objects"
    set -- SMALL=1 HARDEN= CC="$cross-gcc" AR="$cross-gcc-ar" dir="$objects" CFLAGS="$all" \
        LDFLAGS="$all -Wl,-z,relro,-z,now,-Map=$objects/map" "$@"
    make -s -j2 "$@" "$objects/gateway/main.o" "$objects/libpennygate.a" || return 1
    stand_in "$cross-gcc" "$cross-gcc-nm" "$objects"
    make -s "$@" libs="$objects/stand-in.so" "$objects/pennygate" || return 1
    "$cross-strip" -o "$objects/stripped" "$objects/pennygate"
}

# usage: measure NAME CC-PREFIX FLAGS [VARIABLE=value ...]
measure() {
    name=$1 tools=$2 flags=$3
    shift 3
    objects=build/size/$(echo "$name" | tr -d ' ,')
    "$tools-gcc" --version >/dev/null 2>&1 || { echo "$name: no $tools-gcc" >&2; return 1; }
    build "$tools" "$flags -flto" "$@" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; return 1; }
    echo "$name: $(stat -c %s "$objects/stripped") bytes stripped," \
        "$(xz -9ce "$objects/stripped" | wc -c) in xz," \
        "$("$tools-size" "$objects/stripped" | awk 'NR == 2 { print $1 + $2 }') without padding"
    [ -z "$quiet" ] || return 0
    build "$tools" "$flags" "$@" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; return 1; }
    parts "$objects/map" "$(stat -c %s "$objects/stripped")"
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

thumb='-mthumb -march=armv7-a -mfpu=vfpv3-d16'
mips16='-mips32r2 -mips16 -minterlink-mips16 -mno-branch-likely -Wl,-z,max-page-size=4096'
status=0
# usage: both NAME CC-PREFIX FLAGS FLAGS-WITHOUT-PIE [VARIABLE=value ...]
both() {
    name=$1 tools=$2 flags=$3 without=$4
    shift 4
    measure "$name" "$tools" "$flags $pie" "$@" || status=1
    [ -z "$quiet" ] || measure "$name, no PIE" "$tools" "$flags $fixed $without" "$@" || status=1
}
for machine in ${machines:-arm mips}; do
    case $machine in
    arm) both arm arm-linux-gnueabihf "$thumb" '' "$@" ;;
    mips) both mips mips-linux-gnu "$mips16" '-mno-shared -mplt' "$@" ;;
    esac
done
exit "$status"
