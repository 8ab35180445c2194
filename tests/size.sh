#!/bin/sh
# The size of the program without symbols, its memory once it serves and has no caller, with each
# profile, and, where their compilers are there, the size of the small one on two kinds of routers.
# With streams: tests/bench/run profiles.
#
# usage: tests/size.sh PROGRAM [PROFILE]     with a profile: only the KiB of memory with it
set -eu
scratch=$(mktemp -d)
pid=''
trap '[ -z "$pid" ] || kill "$pid"; rm -rf "$scratch"' EXIT
strip -o "$scratch/pennygate" "$1"
[ -n "${2:-}" ] || echo "stripped: $(stat -c %s "$scratch/pennygate") bytes"
mkdir -m 700 "$scratch/store"
echo key >"$scratch/key"
chmod 600 "$scratch/key"
cat >"$scratch/conf" <<CONF
site { store = '$scratch/store' secret-file = '$scratch/secret' }
model demo { provider = openai url = 'http://127.0.0.1:9/v1' model = 'm' key-file = '$scratch/key' }
server { socket = '$scratch/socket' }
CONF
owner=''
[ "$(id -u)" != 0 ] || owner='--owner root'
# shellcheck disable=SC2086 # two words or none
"$scratch/pennygate" init $owner -c "$scratch/conf" >/dev/null
# threads PROFILE: its streams, two workers more, and the one that accepts.
threads() {
    case $1 in router) echo 7 ;; board) echo 11 ;; vps) echo 35 ;; esac
}
for profile in ${2:-router board vps}; do
    rm -f "$scratch/socket"
    PENNYGATE_SERVER_PROFILE=$profile "$scratch/pennygate" serve -c "$scratch/conf" >"$scratch/log" 2>&1 &
    pid=$!
    until [ "$(find "/proc/$pid/task" -mindepth 1 -maxdepth 1 | wc -l)" -ge "$(threads "$profile")" ]; do
        kill -0 "$pid" || { cat "$scratch/log"; exit 1; }
        sleep 0.05 # poll
    done
    kib=$(awk '/^Pss:/ { print $2 }' "/proc/$pid/smaps_rollup")
    if [ -n "${2:-}" ]; then echo "$kib"; else echo "idle:     $kib KiB PSS, profile $profile"; fi
    kill "$pid"
    wait "$pid" || true # by its own end or by the signal
    pid=''
done
[ -z "${2:-}" ] || exit 0
for machine in arm-linux-gnueabihf mips-linux-gnu; do
    ! command -v "$machine-gcc" >/dev/null || tests/size-parts.sh -q "${machine%%-*}"
done
