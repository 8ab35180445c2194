#!/bin/sh
# What the feed's tests run after the package was installed: test.sh PACKAGE VERSION.

case "$1" in
pennygate)
	pennygate version | grep -F "$2" || exit 1
	pennygate help | grep -F pennygate || exit 1
	;;
esac
