#!/bin/sh
# Makes the Debian package in build/deb, from a copy of the sources and in place of what was made
# there before. The changelog says when the sources are from, and everything in the package is
# dated so, so that two builds have the same bytes.
#
# usage: platform/debian/build.sh VERSION SECONDS-SINCE-1970 [DIRECTORY]
set -eu
cd "$(dirname "$0")/../.."

version=$1
seconds=$2
to=${3:-build/deb}
tree=$to/pennygate-$version

rm -rf "$to"/pennygate[_-]*
mkdir -p "$tree"
cp -R Makefile README.md LICENSE gateway store platform "$tree"
cp -R platform/debian "$tree/debian"
cat >"$tree/debian/changelog" <<CHANGES
pennygate ($version) unstable; urgency=medium

  * Made from the sources, which have their own history.

 -- $(sed -n 's/^Maintainer: //p' platform/debian/control)  $(LC_ALL=C date -u -R -d "@$seconds")
CHANGES

cd "$tree"
# Nothing that a make above has exported; a package of its own for the symbols is of no use here.
env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS SOURCE_DATE_EPOCH="$seconds" \
    DEB_BUILD_OPTIONS="noautodbgsym parallel=$(nproc)" \
    dpkg-buildpackage -b -us -uc >../build.log 2>&1 || {
    cat ../build.log >&2
    exit 1
}
cd - >/dev/null
rm -rf "$tree"
ls "$to/pennygate_$version"_*.deb
