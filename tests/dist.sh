#!/bin/sh
# make dist, and what is built from it without git: the same bytes, whoever builds where. Lines
# as in tests/lint.sh: "ok what" or "FAILED what"; status 1 if one failed.
#
# usage: tests/dist.sh VERSION
# shellcheck disable=SC2317 # expect calls what it is given
set -u
version=$1
name=pennygate-$version
scratch=$(mktemp -d) || exit 2
trap 'rm -r "$scratch"' EXIT
failed=0

# expect WHAT COMMAND...: the command must succeed.
expect() {
    what=$1
    shift
    if out=$("$@" 2>&1); then
        echo "ok $what"
    else
        echo "FAILED $what"
        echo "$out" | tail -20
        failed=1
    fi
}

# build DIRECTORY COMMAND...: unpacks there and builds, started by the command.
build() {
    directory=$1
    shift
    mkdir -p "$directory" && tar -xzf "$scratch/1.tar.gz" -C "$directory" &&
        "$@" make -s -C "$directory/$name" CC="${CC:-gcc}" all
}

for i in 1 2; do
    expect "tarball $i" make -s dist
    cp "build/$name.tar.gz" "$scratch/$i.tar.gz"
done
expect 'the same tarball twice' cmp "$scratch/1.tar.gz" "$scratch/2.tar.gz"
expect 'a build' build "$scratch/a" env
expect 'a build elsewhere, by somebody else' build "$scratch/b/in a long way" \
    env TZ=Asia/Tokyo LC_ALL=C HOME=/nonexistent USER=other MAKEFLAGS=-j2
expect 'the same program of both' cmp "$scratch/a/$name/build/pennygate" \
    "$scratch/b/in a long way/$name/build/pennygate"
expect 'its version' sh -c "[ \"\$($scratch/a/$name/build/pennygate version)\" = 'pennygate $version' ]"
expect 'it names no directory of its builder' sh -c \
    "! grep -a -q -F '$scratch' '$scratch/a/$name/build/pennygate'"
exit $failed
