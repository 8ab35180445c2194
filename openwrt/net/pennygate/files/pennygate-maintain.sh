#!/bin/sh
# For uhttpd, where no process of pennygate stays to do what is due from time to time. An instance
# of the service runs this as the user pennygate.

trap 'kill "$!" 2>/dev/null; exit 0' TERM

while :; do
	/usr/sbin/pennygate maintain
	sleep 60 &
	wait "$!"
done
