#!/bin/sh
# Runs an init script of OpenWrt without OpenWrt, under busybox's ash: what rc.common, procd and uci
# offer to it is here as functions, which write down each call to $RECORD as one line, its words
# parted by tabs. Values of /etc/config come from uci.py, which also stands in for uci.
#
# usage: recorder.sh INIT-SCRIPT start|stop|reload|boot|COMMAND
#
# shellcheck shell=dash disable=SC2317 # what init scripts call

record() {
	local line="$1"

	shift
	for word in "$@"; do line="$line	$word"; done
	printf '%s\n' "$line" >>"$RECORD"
}

# ---- uci ----

# An init script can have its own of these.
config_cb() { :; }
option_cb() { :; }
list_cb() { :; }

config_load() { eval "$(uci shell "$1")"; }
config_get() { eval "$1=\${CONFIG_${2}_$3:-\${4-}}"; }

config_get_bool() {
	local _value

	config_get _value "$2" "$3" "${4-}"
	case "$_value" in
	1 | on | true | yes | enabled) _value=1 ;;
	0 | off | false | no | disabled) _value=0 ;;
	*) _value=${4-} ;;
	esac
	eval "$1=\$_value"
}

config_foreach() {
	local _call="$1" _type="$2" _section

	shift 2
	for _section in $CONFIG_SECTIONS; do
		eval "[ \"\$CONFIG_${_section}_TYPE\" = \"$_type\" ]" && "$_call" "$_section" "$@"
	done
	return 0
}

config_list_foreach() {
	local _section="$1" _option="$2" _call="$3" _n _i=1 _value

	shift 3
	eval "_n=\${CONFIG_${_section}_${_option}_LENGTH:-0}"
	while [ "$_i" -le "$_n" ]; do
		eval "_value=\$CONFIG_${_section}_${_option}_ITEM$_i"
		"$_call" "$_value" "$@"
		_i=$((_i + 1))
	done
}

# Of an existing section as the real one does it: with a value that is wrong it prints them all.
uci_validate_section() {
	if [ -z "$3" ]; then
		record validate "$@"
	else
		uci validate "$@"
	fi
}

# ---- procd ----

for name in procd_open_instance procd_close_instance procd_set_param procd_append_param procd_add_jail \
	procd_add_jail_mount procd_add_jail_mount_rw procd_add_reload_trigger procd_add_raw_trigger; do
	eval "$name() { record $name \"\$@\"; }"
done

procd_add_validation() {
	record procd_add_validation "$@"
	"$@"
}

# ---- what the machine would do ----

# The tests' own user owns all, where they do not run as root.
if [ "$(id -u)" != 0 ]; then
	chown() { :; }
fi

# ---- rc.common ----

initscript=$1
action=$2
shift
# shellcheck disable=SC1090
. "$initscript"

start() {
	start_service "$@"
	local status=$?
	service_triggers
	return "$status"
}

stop() {
	stop_service "$@"
	record stopped
}

reload() { start "$@"; }
boot() { start "$@"; }

case " start stop reload boot $EXTRA_COMMANDS " in
*" $action "*) "$@" ;;
*) echo "no such command: $action" >&2; exit 2 ;;
esac
