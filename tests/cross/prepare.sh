#!/bin/sh
# Prepares another machine to build for, below build/cross/TARGET, and prints the words that make
# is to be called with. What is there already is kept, so that only the first run takes long.
#
#   make $(tests/cross/prepare.sh armhf) VARIANT=release     build/cross/armhf/release/pennygate
#
# The directory has a compiler `cc` and a starter `run` (of programs, with a time limit); objects
# of a VARIANT are in a directory of that name. If something cannot be had, the status is 3, and
# the last line on stderr says what.
#
#   i386    Debian's packages, run natively
#   armhf   Debian's packages, run by qemu
#   mips    big-endian, 32 bits: libraries from Debian's sources, run by qemu
#   musl    this machine's processor with another C library, static: as mips, run natively
#   boot    no compiler, but a kernel for armhf (vmlinuz) and a busybox to start with it
#
# usage: tests/cross/prepare.sh i386|armhf|mips|musl|boot [VARIANT]
set -eu
cd "$(dirname "$0")/../.."
target=$1
variant=${2:-release}
work=build/cross
name=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
seconds=120 # of one program; the longest takes a quarter of it
libraries=libc6-dev,libfcgi-dev,liblmdb-dev,libbearssl-dev,libjansson-dev,libconfuse-dev
libraries=$libraries,libcurl4-openssl-dev,libcmocka-dev

cannot() {
    echo "$*" >&2
    exit 3
}

needs() {
    for program in "$@"; do
        command -v "$program" >/dev/null || cannot "$program is not installed"
    done
}

# archive: the line of this Debian's main archive, as apt is configured with it.
archive() {
    # shellcheck disable=SC2016 # apt fills them in
    line=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        awk -v name="$name" '$2 == name && $3 == "main"' | head -1)
    [ -n "$line" ] || cannot "apt is configured with no archive of $name"
    echo "$line"
}

# sysroot ARCHITECTURE PACKAGES: they and what they need, unpacked in build/cross/TARGET/sysroot.
sysroot() {
    needs mmdebstrap
    [ ! -d "$work/$target/sysroot" ] || return 0
    line=$(archive) || exit 3
    fresh=$work/$target/sysroot.new
    rm -rf "$fresh"
    log=$work/$target/sysroot.log
    echo "deb $line" | timeout 300 mmdebstrap --variant=extract --architectures="$1" \
        --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='Acquire::Retries "3"' \
        --include="$2" "$name" "$fresh" - >"$log" 2>&1 ||
        cannot "no packages for $1: $(tail -1 "$log")"
    mv "$fresh" "$work/$target/sysroot"
}

# tarballs: Debian's sources, in build/cross/sources. Nothing of apt's own state is touched.
tarballs() {
    needs flex
    [ ! -d "$work/sources" ] || return 0
    line=$(archive) || exit 3
    fresh=$PWD/$work/sources.new
    rm -rf "$fresh"
    mkdir -p "$fresh" "$work/apt/lists/partial"
    echo "deb-src $line" >"$work/apt/sources.list"
    cat >"$work/apt/apt.conf" <<CONF
Dir::Etc::sourcelist "$PWD/$work/apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::State::lists "$PWD/$work/apt/lists";
Acquire::Check-Valid-Until "false";
Acquire::Retries "3";
APT::Sandbox::User "root";
CONF
    log=$PWD/$work/apt/log
    (
        APT_CONFIG=$PWD/$work/apt/apt.conf
        export APT_CONFIG
        cd "$fresh"
        apt-get -q update
        # The tarball alone: Debian's changes to them are not needed, and may be missing.
        for source in lmdb bearssl libfcgi jansson libconfuse cmocka mbedtls curl; do
            apt-get -q source --tar-only "$source"
        done
    ) >"$log" 2>&1 || cannot "no sources: $(tail -1 "$log")"
    mv "$fresh" "$work/sources"
}

# from_source CC AR [HOST]: the libraries built, in build/cross/TARGET/lib and include.
from_source() {
    tarballs
    log=$work/$target/libs.log
    tests/cross/libs.sh "$1" "$2" "$work/sources" "$work/$target" "${3:-}" >"$log" 2>&1 ||
        cannot "libraries from source: $(tail -1 "$log")"
    # A header of curl's is the same for each machine.
    for headers in /usr/include/*/curl /usr/include/curl; do
        [ -n "${3:-}" ] || [ ! -d "$headers" ] || ln -sfn "$headers" "$work/$target/include/curl"
    done
}

# script NAME LINE: an executable of one line in build/cross/TARGET.
script() {
    printf '#!/bin/sh\n%s\n' "$2" >"$work/$target/$1.new"
    chmod +x "$work/$target/$1.new"
    mv "$work/$target/$1.new" "$work/$target/$1"
}

mkdir -p "$work/$target"
here="$PWD/$work/$target"
more=''
limit="exec timeout -k 5 $seconds"
case $target in
i386)
    needs i686-linux-gnu-gcc
    sysroot i386 "$libraries"
    ar=i686-linux-gnu-ar
    lib="$here/sysroot/lib/i386-linux-gnu:$here/sysroot/usr/lib/i386-linux-gnu"
    # Each program names its loader, and is started like any other.
    loader="-Wl,--dynamic-linker=$here/sysroot/lib/ld-linux.so.2,--disable-new-dtags,-rpath,$lib"
    script cc "exec i686-linux-gnu-gcc '--sysroot=$here/sysroot' \"\$@\" -static-libasan -static-libubsan '$loader'"
    script run "$limit \"\$@\""
    ;;
armhf)
    needs arm-linux-gnueabihf-gcc qemu-arm-static
    sysroot armhf "$libraries"
    ar=arm-linux-gnueabihf-ar
    script cc "exec arm-linux-gnueabihf-gcc '--sysroot=$here/sysroot' \"\$@\""
    script run "$limit qemu-arm-static -L '$here/sysroot' \"\$@\""
    ;;
mips)
    needs mips-linux-gnu-gcc qemu-mips-static
    [ -d /usr/mips-linux-gnu/include ] || cannot 'libc6-dev-mips-cross is not installed'
    ar=mips-linux-gnu-ar
    from_source mips-linux-gnu-gcc $ar
    # Shared as on a router, so that the size of the program is its own.
    for library in "$here"/lib/*.a; do
        [ -e "${library%.a}.so" ] || mips-linux-gnu-gcc -shared -o "${library%.a}.so" \
            -Wl,--whole-archive "$library" -Wl,--no-whole-archive >"$work/mips/libs.log" 2>&1 ||
            cannot "shared libraries from source: $(tail -1 "$work/mips/libs.log")"
    done
    script cc "exec mips-linux-gnu-gcc -isystem '$here/include' \"\$@\" '-L$here/lib'"
    script run "$limit qemu-mips-static -L /usr/mips-linux-gnu -E 'LD_LIBRARY_PATH=$here/lib' \"\$@\""
    ;;
musl)
    needs musl-gcc
    ar='ar'
    # What the kernel has to say, of which this C library brings no copy.
    mkdir -p "$work/musl/include"
    for headers in /usr/include/linux /usr/include/asm-generic /usr/include/*/asm; do
        [ ! -d "$headers" ] || ln -sfn "$headers" "$work/musl/include/$(basename "$headers")"
    done
    from_source "musl-gcc -isystem $here/include" $ar "$(uname -m)-linux-musl"
    more='CURL=linked'
    script cc "exec musl-gcc -isystem '$here/include' \"\$@\" '-L$here/lib' -lcurl -lmbed -static -no-pie"
    script run "$limit \"\$@\""
    ;;
boot)
    needs qemu-system-arm cpio
    if [ ! -f "$work/boot/vmlinuz" ]; then
        sysroot armhf linux-image-armmp,busybox-static
        cp "$work/boot/sysroot/bin/busybox" "$work/boot"
        cp "$work"/boot/sysroot/boot/vmlinuz-* "$work/boot/vmlinuz"
        rm -rf "$work/boot/sysroot"
    fi
    exit 0
    ;;
*) echo "prepare.sh: unknown target $target" >&2; exit 2 ;;
esac
echo "CC=$work/$target/cc AR=$ar dir=$work/$target/$variant VARIANT=$variant $more"
