#!/bin/sh
# On a 32-bit ARM kernel of its own, under qemu-system: the tests that tests/cross/left-out keeps
# from armhf for want of robust mutexes. A writer is killed inside a write transaction there, the
# next process goes on, and the counts are right. Lines as in tests/cross/run, which builds the
# tests before (leg armhf).
set -u
cd "$(dirname "$0")/../.." || exit 2
work=build/cross
root=$work/armhf/sysroot
seconds=240
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM

tests/cross/prepare.sh boot >"$scratch/why" 2>&1
case $? in
0) ;;
3)
    echo "not run: boot: $(tail -1 "$scratch/why")"
    exit 0
    ;;
*)
    echo 'FAILED boot: prepare'
    cat "$scratch/why"
    exit 1
    ;;
esac
awk '$1 ~ /armhf/ && $1 !~ /^#/ && /robust mutexes/ { print $2, $3 }' tests/cross/left-out >"$scratch/tests"
while read -r program _; do
    [ -x "$work/armhf/trap/tests/unit/$program" ] || {
        echo "not run: boot: $program has not been built for armhf"
        exit 0
    }
done <"$scratch/tests"

# The first file system: the tests, what they load, and a shell.
tree=$scratch/tree
mkdir -p "$tree/bin" "$tree/lib" "$tree/proc" "$tree/dev" "$tree/tmp" "$tree/sys"
cp "$work/boot/busybox" "$tree/bin/busybox"
for name in sh mount rm poweroff; do ln -s busybox "$tree/bin/$name"; done
cp -L "$root"/lib/ld-linux-armhf.so.3 "$tree/lib"
for name in c pthread dl fcgi lmdb bearssl jansson confuse cmocka; do
    for file in "$root"/lib/arm-linux-gnueabihf/lib"$name".so.* \
        "$root"/usr/lib/arm-linux-gnueabihf/lib"$name".so.*; do
        [ ! -e "$file" ] || cp -L "$file" "$tree/lib"
    done
done
{
    echo '#!/bin/sh'
    echo 'mount -t proc none /proc; mount -t devtmpfs none /dev; mount -t tmpfs none /tmp'
    echo 'export LD_LIBRARY_PATH=/lib'
    while read -r program test; do
        cp "$work/armhf/trap/tests/unit/$program" "$tree/bin"
        echo "if ONLY=$test /bin/$program; then echo 'BOOT ok $program $test'"
        echo "else echo 'BOOT failed $program $test'; fi"
    done <"$scratch/tests"
    echo 'poweroff -f'
} >"$tree/init"
chmod 755 "$tree/init"
(cd "$tree" && find . | cpio -o -H newc --quiet | gzip -1) >"$scratch/initrd"

timeout -k 5 "$seconds" qemu-system-arm -M virt -cpu cortex-a15 -smp 2 -m 256 -nographic -nic none -no-reboot \
    -kernel "$work/boot/vmlinuz" -initrd "$scratch/initrd" -append 'console=ttyAMA0 quiet panic=-1' \
    </dev/null >"$scratch/console" 2>&1
status=0
while read -r program test; do
    # A test that ran says so itself, too: none may be left out there.
    if grep -q "^BOOT ok $program $test" "$scratch/console" &&
        grep -q "OK ] $test" "$scratch/console"; then
        echo "ok boot: $program $test"
    else
        echo "FAILED boot: $program $test"
        status=1
    fi
done <"$scratch/tests"
[ "$status" = 0 ] || tail -40 "$scratch/console"
exit "$status"
