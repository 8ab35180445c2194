#!/bin/sh
# What the feed's tests run in place of their own question, which is put to each program: the one in
# /usr/libexec has no version, and runs until it is told to stop. PKG_NAME
# and PKG_VERSION are in the environment.

case "$PKG_NAME" in
pennygate)
	pennygate --version | grep -F "$PKG_VERSION"
	;;
*)
	echo "no such package: $PKG_NAME" >&2
	exit 1
	;;
esac
