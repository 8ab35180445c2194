# For sysupgrade, which keeps /etc/pennygate: with durability `lease` what is in memory is copied
# there first. What is admitted after the copy is covered by the lease beside it.

# shellcheck shell=dash

pennygate_copy() {
	[ "$(uci -q get pennygate.main.durability)" = lease ] || return 0
	/usr/sbin/pennygate maintain --stop >/dev/null 2>&1 || :
}

sysupgrade_init_conffiles="$sysupgrade_init_conffiles pennygate_copy"
