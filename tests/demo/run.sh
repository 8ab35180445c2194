#!/bin/sh
# make run: a practice model (or a real API), lighttpd with pennygate behind it, a chat page, and
# one answer streamed by curl. Stays until Ctrl-C and then ends what it started, by process id.
#
#   DEMO_URL, DEMO_MODEL   a real API instead of the practice model, for instance
#                          DEMO_URL=https://api.openai.com/v1 DEMO_MODEL=gpt-4o-mini
#   DEMO_PROVIDER          anthropic for that API, with DEMO_URL=https://api.anthropic.com/v1
#   DEMO_KEY_FILE          a file with its key, or DEMO_KEY the key itself
#   DEMO_OUTPUT_FIELD      max_tokens for servers that do not know the newer name
#   DEMO_PROGRAM           instead of build/pennygate
#   PORT                   instead of the first free one from 8080 on
#   RUN_DIR                instead of build/run; made anew
#   RUN_ONCE=1             ends after the example answer
set -eu
cd "$(dirname "$0")/../.."
umask 077

# A real model's prices are for its owner to look up; so what the demo may use is put in tokens.
real_tokens=50000

model_pid='' server_pid='' gateway_pids='' run='' own=''

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

# Where the store, the secret and the rest live. lighttpd started by root goes on as www-data,
# which must be able to reach them.
user=''
run=${RUN_DIR:-$PWD/build/run}
other=$(cat "$run/pid" 2>/dev/null) || other=''
if [ -n "$other" ] && grep -qs run.sh "/proc/$other/cmdline"; then
    echo "Already running in $run: Ctrl-C there, or kill $other, ends it." >&2
    exit 1
fi
if [ -n "$(ls -A "$run" 2>/dev/null)" ] && [ ! -d "$run/store" ]; then
    echo "$run is not of an earlier run, and would be deleted" >&2
    exit 1
fi
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
if [ "$(id -u)" = 0 ]; then
    user=www-data
    if ! setpriv --reuid "$user" --regid "$user" --clear-groups test -x "$(dirname "$run")"; then
        echo "$user cannot reach $run: using a directory under /tmp, removed at the end."
        run=$(mktemp -d /tmp/pennygate-run.XXXXXX)
        own=yes
    fi
fi
[ -n "$own" ] || rm -rf "$run"
mkdir -p "$run/store" "$run/www"
echo $$ >"$run/pid"
cp "${DEMO_PROGRAM:-build/pennygate}" "$run/pennygate"
cp platform/examples/chat.html "$run/www/index.html"
cp platform/examples/chat.css "$run/www"

if [ -n "${DEMO_URL:-}" ]; then
    url=$DEMO_URL
    model=${DEMO_MODEL:?with DEMO_URL, DEMO_MODEL must name the model}
    if [ -n "${DEMO_KEY_FILE:-}" ]; then
        cat "$DEMO_KEY_FILE" >"$run/key"
    else
        printf '%s\n' "${DEMO_KEY:-none}" >"$run/key"
    fi
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
    provider = ${DEMO_PROVIDER:-openai}
    url = '$url'
    model = '$model'
    key-file = '$run/key'
    max-output-tokens = 300
CONF
[ -z "${DEMO_OUTPUT_FIELD:-}" ] ||
    echo "    output-field = '$DEMO_OUTPUT_FIELD'" >>"$run/pennygate.conf"
if [ -n "${DEMO_URL:-}" ]; then
    cat >>"$run/pennygate.conf" <<CONF
}
limit demo-tokens {
    per = everyone
    unit = tokens
    window = day
    max = $real_tokens
}
CONF
else
    cat >>"$run/pennygate.conf" <<CONF
    price-input = '\$0.15'
    price-output = '\$0.60'
}
limit spend {
    per = everyone
    unit = cost
    window = month
    max = '\$5.00'
}
CONF
fi

[ "$(id -u)" != 0 ] || chown -R "$user:$user" "$run"
if [ "$(id -u)" = 0 ]; then
    gate init --owner "$user"
else
    gate init
fi
echo
gate check
echo
[ -z "${DEMO_URL:-}" ] || echo "This spends real money, for at most $real_tokens tokens a day."

write_server() {
    cat >"$run/lighttpd.conf" <<CONF
server.modules = ("mod_fastcgi", "mod_setenv")
server.bind = "127.0.0.1"
server.port = $1
server.document-root = "$run/www"
server.errorlog = "$run/lighttpd.log"
index-file.names = ("index.html")
mimetype.assign = (".html" => "text/html; charset=utf-8", ".css" => "text/css")
\$HTTP["url"] !~ "^/ai(/|\$)" {
    setenv.set-response-header = ("Content-Security-Policy" => "default-src 'self'")
} else {
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
}
CONF
    [ "$(id -u)" != 0 ] || cat >>"$run/lighttpd.conf" <<CONF
server.username = "$user"
server.groupname = "$user"
CONF
}

# Starts lighttpd on the port; false if that is taken.
start_server() {
    write_server "$1"
    rm -f "$run/lighttpd.log"
    env -i PATH="$PATH:/usr/sbin" lighttpd -D -f "$run/lighttpd.conf" 2>>"$run/lighttpd.out" &
    server_pid=$!
    while running "$server_pid"; do
        # Not by asking the port, which may be another server's.
        ! grep -qs 'server started' "$run/lighttpd.log" || return 0
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
        cat "$run/lighttpd.out" "$run/lighttpd.log" >&2 2>/dev/null || true
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
gate stats || gate stats --csv # a small program has no table
echo
if password=$(gate dashboard-password 2>/dev/null); then
    echo "Chat page:  http://127.0.0.1:$port/ai/"
    echo "Widget:     http://127.0.0.1:$port/   (a page of a site that has it)"
    echo "Dashboard:  http://127.0.0.1:$port/ai/dashboard   (any name, password $password)"
else
    echo 'Pages:      not in this program'
fi
echo "API:        http://127.0.0.1:$port/ai/v1   (any OpenAI client's base URL)"
echo "Store:      $run/store"
[ -z "${RUN_ONCE:-}" ] || exit 0
echo "Log:        $run/lighttpd.out"
echo "Ctrl-C, or kill $$, ends everything."
wait "$server_pid"
