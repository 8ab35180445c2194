#!/bin/sh
# make run: a practice model (or a real API), lighttpd with pennygate behind it, a chat page, and
# one answer streamed by curl. Stays until Ctrl-C and then ends what it started, by process id.
#
#   DEMO_URL, DEMO_MODEL, DEMO_KEY   a real API instead of the practice model, for instance
#                                    DEMO_URL=https://api.openai.com/v1 DEMO_MODEL=gpt-5-nano
#   DEMO_OUTPUT_FIELD                max_tokens for servers that do not know the newer name
#   PORT                             instead of the first free one from 8080 on
#   RUN_DIR                          instead of build/run; made anew
#   RUN_ONCE=1                       ends after the example answer
set -eu
cd "$(dirname "$0")/../.."
umask 077

model_pid='' server_pid='' run='' own=''

# Whether a process of ours still runs. kill -0 would also find one that is only not yet waited for.
running() { [ -n "$1" ] && kill -0 "$1" 2>/dev/null; }

# The program itself, with nothing of this environment: a PENNYGATE_* in it would be an option.
gate() { env -i PATH="$PATH" "$run/pennygate" "$@" -c "$run/pennygate.conf"; }

finish() {
    trap '' INT TERM HUP
    for pid in $server_pid $model_pid; do
        kill "$pid" 2>/dev/null || true
    done
    for pid in $server_pid $model_pid; do
        wait "$pid" 2>/dev/null || true
    done
    # lighttpd ends the program it has spawned; wait until that has drained.
    for pid in $gateway_pids; do
        tries=0
        while kill -0 "$pid" 2>/dev/null && [ "$tries" -lt 100 ]; do
            tries=$((tries + 1))
            sleep 0.1 # poll
        done
    done
    [ -z "$run" ] || rm -f "$run/pid"
    [ -z "$own" ] || rm -rf "$run"
    echo 'Ended.'
}
gateway_pids=''
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Where the store, the secret and the rest live. lighttpd started by root goes on as www-data,
# which must be able to reach them.
user=$(id -un)
run=${RUN_DIR:-$PWD/build/run}
if [ -f "$run/pid" ] && kill -0 "$(cat "$run/pid")" 2>/dev/null; then
    echo "Already running in $run, process $(cat "$run/pid")" >&2
    run=''
    exit 1
fi
mkdir -p "$run"
if [ "$(id -u)" = 0 ]; then
    user=www-data
    if ! setpriv --reuid "$user" --regid "$user" --clear-groups test -x "$run/.."; then
        echo "$user cannot reach $run: using a directory under /tmp"
        run=$(mktemp -d /tmp/pennygate-run.XXXXXX)
        own=yes
    fi
fi
rm -rf "$run"
mkdir -p "$run/www" "$run/store"
echo $$ >"$run/pid"
cp build/pennygate "$run/pennygate"
cp platform/examples/chat.html "$run/www/index.html"
cp platform/examples/chat.css platform/examples/chat.js "$run/www"

if [ -n "${DEMO_URL:-}" ]; then
    url=$DEMO_URL
    model=${DEMO_MODEL:?with DEMO_URL, DEMO_MODEL must name the model}
    printf '%s\n' "${DEMO_KEY:-none}" >"$run/key"
else
    build/practice-model --port 0 >"$run/model.out" &
    model_pid=$!
    until port=$(sed -n 's/^port //p' "$run/model.out") && [ -n "$port" ]; do
        running "$model_pid" || exit 1
        sleep 0.05 # poll
    done
    url=http://127.0.0.1:$port/v1
    model=practice
    echo 'practice' >"$run/key"
    curl -fsS -o /dev/null -H 'Content-Type: application/json' -d '{"gap_ms": 60}' \
        "http://127.0.0.1:$port/control"
fi
unset DEMO_KEY

cat >"$run/pennygate.conf" <<CONF
site {
    store = '$run/store'
    secret-file = '$run/secret'
    mount = '/ai'
}
model demo {
    provider = openai
    url = '$url'
    model = '$model'
    key-file = '$run/key'
    max-output-tokens = 300
CONF
[ -z "${DEMO_OUTPUT_FIELD:-}" ] ||
    echo "    output-field = '$DEMO_OUTPUT_FIELD'" >>"$run/pennygate.conf"
# A real model's prices are for its owner to look up.
[ -n "${DEMO_URL:-}" ] || cat >>"$run/pennygate.conf" <<CONF
    price-input = '\$0.15'
    price-output = '\$0.60'
CONF
echo '}' >>"$run/pennygate.conf"
[ -n "${DEMO_URL:-}" ] || cat >>"$run/pennygate.conf" <<CONF
limit spend {
    per = everyone
    unit = cost
    window = month
    max = '\$5.00'
}
CONF

[ "$(id -u)" != 0 ] || chown -R "$user:$user" "$run"
if [ "$(id -u)" = 0 ]; then
    gate init --owner "$user"
else
    gate init
fi
echo
gate check
echo

write_server() {
    cat >"$run/lighttpd.conf" <<CONF
server.modules = ("mod_fastcgi", "mod_setenv")
server.bind = "127.0.0.1"
server.port = $1
server.document-root = "$run/www"
server.errorlog = "$run/lighttpd.log"
index-file.names = ("index.html")
mimetype.assign = (".html" => "text/html; charset=utf-8", ".css" => "text/css",
    ".js" => "text/javascript")
setenv.set-response-header = ("Content-Security-Policy" => "default-src 'self'")
server.stream-response-body = 2
fastcgi.server = ("/ai" => ((
    "bin-path" => "$run/pennygate",
    "socket" => "$run/fastcgi.sock",
    "max-procs" => 1,
    "bin-environment" => ("PENNYGATE_CONFIG" => "$run/pennygate.conf"),
    "bin-copy-environment" => ("PATH"),
    "check-local" => "disable",
    "tcp-fin-propagate" => "enable"
)))
CONF
    [ "$(id -u)" != 0 ] || cat >>"$run/lighttpd.conf" <<CONF
server.username = "$user"
server.groupname = "$user"
CONF
}

# Starts lighttpd on the port; false if that is taken.
start_server() {
    write_server "$1"
    env -i PATH="$PATH:/usr/sbin" lighttpd -D -f "$run/lighttpd.conf" 2>>"$run/lighttpd.out" &
    server_pid=$!
    while running "$server_pid"; do
        if curl -fs -o /dev/null "http://127.0.0.1:$1/"; then
            running "$server_pid" && return 0
        fi
        sleep 0.05 # poll
    done
    wait "$server_pid" || true
    server_pid=''
    return 1
}

port=${PORT:-8080}
until start_server "$port"; do
    if [ -n "${PORT:-}" ] || [ "$port" -ge 8099 ]; then
        echo "lighttpd does not start:" >&2
        cat "$run/lighttpd.out" "$run/lighttpd.log" >&2
        exit 1
    fi
    port=$((port + 1))
done
gateway_pids=$(cat "/proc/$server_pid/task/$server_pid/children")

api=http://127.0.0.1:$port/ai/v1/chat/completions
ask="{\"stream\": true, \"messages\": [{\"role\": \"user\", \"content\": \"Why is the sea salt?\"}]}"
echo "\$ curl -N -H 'Content-Type: application/json' -d '$ask' $api"
curl -sSN -H 'Content-Type: application/json' -d "$ask" "$api"
echo
tries=0 # until the answer has been settled, about a second later
until gate stats --json | grep -q '"settled": [1-9]'; do
    tries=$((tries + 1))
    [ "$tries" -lt 50 ] || break
    sleep 0.1 # poll
done
gate stats
echo
echo "Chat page:  http://127.0.0.1:$port/"
echo "API:        http://127.0.0.1:$port/ai/v1   (any OpenAI client's base URL)"
echo "Store:      $run/store"
[ -z "${RUN_ONCE:-}" ] || exit 0
echo 'Ctrl-C ends everything.'
wait "$server_pid"
