# For sysupgrade, which packs /etc/pennygate, then writes the new system and begins it. The service is
# stopped before: what it admitted after the packing would be forgotten, and a store that is written
# to meanwhile could be packed half. A backup alone ends nothing; with durability `lease` what is in
# memory is copied for it, and what is admitted after the copy is covered by the lease beside it.

# shellcheck shell=dash

# Longer than procd waits for it (term_timeout).
PENNYGATE_SECONDS=31

pennygate_stop() {
	local left="$PENNYGATE_SECONDS"

	/etc/init.d/pennygate stop >/dev/null 2>&1
	while [ "$left" -gt 0 ] && pidof pennygate >/dev/null; do
		sleep 1
		left=$((left - 1))
	done
}

pennygate_keep() {
	if [ "$CONF_BACKUP_LIST" = 1 ]; then
		: # only names are asked for
	elif [ -z "$CONF_BACKUP" ]; then
		pennygate_stop
	elif [ "$(uci -q get pennygate.main.durability)" = lease ]; then
		/usr/sbin/pennygate maintain --stop >/dev/null 2>&1 || :
	fi
}

sysupgrade_init_conffiles="$sysupgrade_init_conffiles pennygate_keep"
