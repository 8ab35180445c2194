"""The parts that end-to-end tests are made of: the practice model, a site (configuration, store,
secret), lighttpd in front of pennygate in three modes (other web servers: servers.py), and a client
that notes when each piece of an answer arrives. Everything runs on loopback, in a directory of its own, and is ended by
process id."""
import collections
import concurrent.futures
import contextlib
import hashlib
import json
import os
import pathlib
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILT = pathlib.Path(os.environ.get("PENNYGATE_BIN", ROOT / "build/pennygate"))
PRACTICE = ROOT / "build/practice-model"
CHAT = "/v1/chat/completions"
MOUNT = "/ai"
MODES = ("spawned", "external", "cgi")
SANITIZED = b"__asan_init" in BUILT.read_bytes() if BUILT.exists() else False
PATIENCE = 5 if SANITIZED else 1  # how many times as long everything may take

# As root everything that faces the web runs as this user, so that file modes count for the
# program as they would on a real host.
USER = "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
GROUP = "nogroup" if os.geteuid() == 0 else None


def until(condition, seconds=10, what="a condition"):
    """What `condition` returns as soon as that is true; fails if it is not after so many seconds. It
    is asked once more then: on a loaded machine the asking itself can take them all."""
    deadline = time.monotonic() + seconds * PATIENCE
    while True:
        last = time.monotonic() >= deadline
        value = condition()
        if value:
            return value
        assert not last, f"{what} did not come true within {seconds} s"
        time.sleep(0.005)  # poll


class Timer:
    """The time since it was made: `within` so many seconds, which the sanitizers multiply."""

    def __init__(self):
        self.begun = time.monotonic()

    def within(self, seconds):
        return time.monotonic() - self.begun < seconds * PATIENCE


def together(calls, at_once=None):
    """What these calls return, in their order, all of them at once or so many at a time."""
    with concurrent.futures.ThreadPoolExecutor(at_once or len(calls)) as pool:
        return list(pool.map(lambda call: call(), calls))


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def name_of(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", encoding="ascii") as file:
        return file.read().strip()
    return None


def children(pid):
    try:
        threads = os.listdir(f"/proc/{pid}/task")
        return [int(word) for thread in threads
                for word in open(f"/proc/{pid}/task/{thread}/children", encoding="ascii").read().split()]
    except OSError:
        return []


def free_port():
    """Below those from which connections go out: one of these could take it before it is listened on."""
    while True:
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", random.randrange(10000, 32000)))
            return probe.getsockname()[1]


def accepts(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


class Answer:
    """A whole HTTP answer. `pieces` are (seconds since the request was sent, bytes)."""

    def __init__(self, status, reason, headers, pieces):
        self.status, self.reason, self.headers, self.pieces = status, reason, headers, pieces
        self.body = b"".join(piece for _, piece in pieces)

    def header(self, name):
        values = [value for key, value in self.headers if key == name.lower()]
        assert len(values) < 2, f"{name} occurs {len(values)} times"
        return values[0] if values else None

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]

    @property
    def code(self):
        return self.error["code"]

    def events(self):
        """The data of each event, in order; comments left out."""
        return [line[6:].decode() for line in self.body.split(b"\n") if line.startswith(b"data: ")]

    def chunks(self):
        return [json.loads(event) for event in self.events() if event != "[DONE]"]

    @property
    def text(self):
        if self.body.startswith(b"{"):
            return self.json["choices"][0]["message"]["content"]
        return "".join(choice["delta"].get("content") or ""
                       for chunk in self.chunks() for choice in chunk.get("choices", []))


class Call:
    """One request on a connection of its own, read piece by piece."""

    def __init__(self, port, method, path, body=b"", headers=(), source="127.0.0.1", timeout=30,
                 parts=False):
        """`parts`: the second half is sent only once the server has taken the first."""
        self.buffer = b""
        self.head_read = False
        self.port = port
        self.socket = socket.socket()
        self.socket.settimeout(timeout)
        self.socket.bind((source, 0))
        self.socket.connect(("127.0.0.1", port))
        names = [name.lower() for name, _ in headers]
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
        if "host" not in names:
            lines.append(f"Host: 127.0.0.1:{port}")
        if "content-length" not in names and (body or method == "POST"):
            lines.append(f"Content-Length: {len(body)}")
        lines += ["Connection: close", "", ""]
        request = "\r\n".join(lines).encode("latin-1") + body
        if parts:
            self.socket.sendall(request[:20])
            until(self._taken, 5, "the first part to be read")
            request = request[20:]
        self.begun = time.monotonic()
        self.socket.sendall(request)

    def _taken(self):
        """Whether the server has accepted the connection and read all that was sent."""
        ends = f":{self.port:04X}", f":{self.socket.getsockname()[1]:04X}"
        with open("/proc/net/tcp", encoding="ascii") as table:
            rows = [line.split() for line in table]
        return any(row[1].endswith(ends[0]) and row[2].endswith(ends[1]) and row[9] != "0" and
                   row[4].endswith(":00000000") for row in rows)

    def _more(self):
        data = self.socket.recv(65536)
        self.buffer += data
        return bool(data)

    def head(self):
        while b"\r\n\r\n" not in self.buffer:
            if not self._more():
                raise ConnectionError(f"closed before the header's end: {self.buffer!r}")
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        first, *lines = head.decode("latin-1").split("\r\n")
        _, status, self.reason = (first + " ").split(" ", 2)
        self.status = int(status)
        self.headers = [(name.strip().lower(), value.strip())
                        for name, _, value in (line.partition(":") for line in lines)]
        found = dict(self.headers)
        self.chunked = "chunked" in found.get("transfer-encoding", "")
        self.length = None if self.chunked else found.get("content-length")
        self.head_read = True
        return self.status

    def pieces(self):
        """(seconds since the request, bytes) of the body, as they arrive."""
        if not self.head_read:
            self.head()
        left = None if self.length is None else int(self.length)
        while left != 0:
            if self.chunked:
                data, ended = self._chunk()
            else:
                data, self.buffer = self.buffer, b""
                ended = False
                left = left if left is None else left - len(data)
            if data:
                yield time.monotonic() - self.begun, data
            elif ended:
                return
            elif left != 0 and not self._more():
                assert not self.chunked and left is None, "the answer was cut off"
                return

    def _chunk(self):
        size, separator, rest = self.buffer.partition(b"\r\n")
        if not separator:
            return b"", False
        n = int(size.split(b";")[0], 16)
        if len(rest) < n + 2:
            return b"", False
        self.buffer = rest[n + 2:]
        return rest[:n], n == 0

    def answer(self):
        pieces = list(self.pieces())
        self.close()
        return Answer(self.status, self.reason, self.headers, pieces)

    def wait_for(self, needle):
        """Reads until the body holds these bytes; returns what was read."""
        seen = b""
        for _, data in self.pieces():
            seen += data
            if needle in seen:
                return seen
        raise AssertionError(f"{needle!r} is not in {seen!r}")

    def close(self):
        self.socket.close()


class Model:
    """The practice model."""

    def __init__(self):
        self.process = subprocess.Popen([PRACTICE, "--port", "0", "--until-eof"], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.port = int(self.process.stdout.readline().split()[1])
        self.url = f"http://127.0.0.1:{self.port}"

    def _ask(self, path, body=None):
        with urllib.request.urlopen(self.url + path, body, 10) as answer:
            return json.loads(answer.read())

    def set(self, **settings):
        self._ask("/control", json.dumps(settings).encode())

    def reset(self):
        until(lambda: self.stats()["open"] == 0, 10, "the end of all calls of the model")
        self.set(reset=True, gap_ms=0)

    def stats(self):
        return self._ask("/stats")

    @property
    def count(self):
        return self.stats()["calls"]

    @property
    def last(self):
        """The body of the last call."""
        return self.stats()["last"]["body"]

    def stop(self):
        self.process.stdin.close()
        self.process.wait(10)


def option_text(value):
    if isinstance(value, (list, tuple)):
        return "{ " + ", ".join(map(option_text, value)) + " }"
    return str(value) if isinstance(value, int) else "'" + str(value) + "'"


def section(name, options):
    lines = [f"    {key} = {option_text(value)}" for key, value in options.items() if value is not None]
    return "\n".join([name + " {", *lines, "}", ""])


def limit(per, unit, window, maximum):
    options = {"per": per, "unit": unit, "max": maximum}
    return options if window is None else {**options, "window": window}


# Limits out of the way, for tests that are about something else.
WIDE = {
    "visitor-day": limit("address", "calls", "day", 100000),
    "visitor-burst": limit("address", "calls", "10s", 100000),
    "visitor-at-once": limit("address", "concurrent", None, 1000),
    "site-day": limit("everyone", "calls", "day", 1000000),
}


class Site:
    """A directory with configuration, secret, key file and store."""

    def __init__(self, model, limits=None, options=None, demo=None, models=None, server=None,
                 request=None, log=None, store_directory=None, program=BUILT):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="pennygate-e2e-"))
        self.model = model
        self.program = self.directory / "pennygate"
        shutil.copy(program, self.program)
        self.program.chmod(0o755)
        self.config = self.directory / "pennygate.conf"
        self.store = store_directory or self.directory / "store"
        self.secret = self.directory / "secret"
        self.key = self.directory / "key"
        self.socket = self.directory / "serve.sock"
        self.data_file = self.store / "data.mdb"
        self.periods = self.store / "periods"
        self.key.write_text("sk-practice-0123456789\n", encoding="ascii")
        self.key.chmod(0o600)
        self.site = {"store": self.store, "secret-file": self.secret, "mount": MOUNT, **(options or {})}
        self.demo = {
            "provider": "openai", "url": model.url + "/v1", "model": "practice-large",
            "key-file": self.key, "max-output-tokens": 100, "price-input": "$1.00",
            "price-output": "$2.00", **(demo or {}),
        }
        self.models = models or {}
        self.limits = {**WIDE, **(limits or {})}
        self.server = {"socket": self.socket, "socket-group": GROUP, **(server or {})}
        self.request = request or {}
        self.log = log or {"target": "stderr", "level": "info"}
        self.sections = {"bypass": {}, "alerts": {}, "transcripts": {}}
        self.env = {}
        self.users = {}  # those whom lighttpd asks for a password if they show one: {name: password}
        self.servers = []
        self.write()
        self.own(self.directory)
        self.own(self.key)

    def own(self, path):
        if os.geteuid() == 0:
            shutil.chown(path, USER, GROUP)

    def text(self):
        return "\n".join([
            section("site", self.site), section("model demo", self.demo),
            *(section(f"model {name}", {**self.demo, **more}) for name, more in self.models.items()),
            section("request", self.request),
            *(section(f"limit {name}", options) for name, options in self.limits.items() if options),
            *(section(name, options) for name, options in self.sections.items() if options),
            section("server", self.server), section("log", self.log)])

    def write(self, text=None):
        """Puts the configuration in place as an editor does: a new file, renamed."""
        new = self.directory / "pennygate.conf.new"
        new.write_text(self.text() if text is None else text, encoding="utf-8")
        new.chmod(0o644)
        new.rename(self.config)

    def environment(self, **more):
        """Only what a program needs: no PENNYGATE_* of the tests, no proxy."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        return {**kept, "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0", **self.env, **more}

    def run(self, *arguments, check=True, config=None, **env):
        """A command of pennygate; its standard output. `check`: it must succeed."""
        done = subprocess.run([self.program, *arguments, "-c", config or self.config], text=True,
                              capture_output=True, timeout=60, env=self.environment(**env),
                              stdin=subprocess.DEVNULL, check=False)
        if not check:
            return done
        assert done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def init(self):
        if not self.store.exists():
            self.store.mkdir(mode=0o700)
            self.own(self.store)
        self.run("init", *self.owner())
        return self

    def owner(self):
        """The flags by which init makes a store for the right user."""
        return ("--owner", USER) if os.geteuid() == 0 else ()

    def settled(self):
        """Waits until nothing that was admitted today is still open; today's history."""
        def done():
            day = self.day()
            return day if day["admitted"] == day["settled"] + day["unknown"] + day["given_back"] else None
        return until(done, 5, "the settles")

    def data(self):
        return hashlib.sha256(self.data_file.read_bytes()).hexdigest()

    def stats(self):
        return json.loads(self.run("stats", "--json"))

    def stats_of(self, name):
        return self.stats()[name]

    def used(self, name):
        """What a limit for everyone counts, reservations included."""
        return next(one["used"] for one in self.stats()["limits"] if one["name"] == name)

    def day(self):
        """Today's history; all zeros before anything happened."""
        stats = self.stats()
        nothing = collections.defaultdict(int, refused=collections.defaultdict(int))
        return next((one for one in stats["days"] if one["day"] == stats["today"]), nothing)

    def start(self, mode="spawned", **options):
        return SERVERS[mode](self, mode, **options)

    def close(self):
        with contextlib.ExitStack() as stack:  # all of them, also if one does not stop
            stack.callback(shutil.rmtree, self.directory)
            for server in self.servers:
                stack.callback(server.stop)


class Server:
    """lighttpd with pennygate behind it."""

    mount = MOUNT

    def __init__(self, site, mode, procs=1, prefix=(), stream=2):
        self.site, self.mode, self.procs = site, mode, procs
        self.prefix = list(prefix)  # a command that starts pennygate under it
        self.port = free_port()
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="server-", dir=site.directory))
        site.own(self.directory)
        self.log_path = self.directory / "error.log"
        self.log_path.touch()
        site.own(self.log_path)
        self.gateway = self.process = None
        site.servers.append(self)
        if self.is_external():
            self.serve()
        self.process = self.start_web(stream)
        until(lambda: self.ready() or self.process.poll() is not None, 10, "the web server's port")
        assert self.process.poll() is None, self.log()
        # It listens before it can be told to stop: a SIGTERM then would leave pennygate behind.
        Call(self.port, "GET", "/").answer()
        # Nor is what it has forked still itself: that would take the SIGTERM for itself and forget it.
        until(lambda: self.mode != "spawned" or not any(
            name_of(pid) == name_of(self.process.pid) for pid in children(self.process.pid)), 10, "pennygate's start")

    def is_external(self):
        """Whether pennygate runs by itself."""
        return self.mode == "external"

    def ready(self):
        return accepts(self.port)

    def start_web(self, stream):
        """What is preloaded is for pennygate alone: lighttpd restarts itself if its clock jumps."""
        path = self.directory / "lighttpd.conf"
        path.write_text(self.configuration(stream), encoding="utf-8")
        return self._popen("lighttpd", "-D", "-f", path, LD_PRELOAD=None)

    def _popen(self, *command, options=None, **environment):
        given = {**self.site.environment(), **environment}
        with open(self.log_path, "ab") as log:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
                env={name: value for name, value in given.items() if value is not None}, **(options or {}))

    def serve(self):
        """The external daemon, or a further one on the same socket once the old one is gone."""
        self.gateway = self._popen(*self.prefix, self.site.program, "serve", "-c", self.site.config)
        until(lambda: self.site.socket.exists() or self.gateway.poll() is not None, 10, "the socket")
        assert self.gateway.poll() is None, self.log()

    def configuration(self, stream):
        user = f'server.username = "{USER}"\nserver.groupname = "{GROUP}"\n' if GROUP else ""
        environment = "".join(f'"{name}" => "{value}", ' for name, value in {
            **self.site.environment(), "PENNYGATE_CONFIG": self.site.config}.items())
        common = f'''
server.port = {self.port}
server.bind = "127.0.0.1"
server.document-root = "{self.directory}"
server.errorlog = "{self.log_path}"
server.max-connections = 512
server.stream-response-body = {stream}
{user}'''
        common += self.accounts()
        if self.mode == "cgi":
            (self.directory / "bin").mkdir()
            shutil.copy(self.site.program, self.directory / "bin" / "pennygate")
            return common + f'''
server.modules += ("mod_alias", "mod_setenv", "mod_cgi")
alias.url = ("{MOUNT}" => "{self.directory}/bin/pennygate")
setenv.set-environment = ({environment})
cgi.assign = ("pennygate" => "")
cgi.limits = ("tcp-fin-propagate" => "SIGTERM")
'''
        spawn, sockets = "", [self.site.socket]
        if self.mode == "spawned":
            program = " ".join([*self.prefix, str(self.site.program)])
            spawn = f'''
    "bin-path" => "{program}",
    "max-procs" => 1,
    "bin-environment" => ({environment}),
    "bin-copy-environment" => ("PATH"),'''
            sockets = [self.directory / f"fcgi-{n}.sock" for n in range(self.procs)]
        # Of several processes behind one socket's name lighttpd asks the first that is idle, so that
        # one request after the other would all reach the same one.
        hosts = "".join(f'''(
    "socket" => "{path}",{spawn}
    "check-local" => "disable",
    "tcp-fin-propagate" => "enable",
),''' for path in sockets)
        return common + f'''
server.modules += ("mod_fastcgi")
fastcgi.balance = "round-robin"
fastcgi.server = ("{MOUNT}" => ({hosts}))
'''

    def accounts(self):
        """Who shows a password must have the right one, and is REMOTE_USER then."""
        if not self.site.users:
            return ""
        file = self.directory / "passwords"
        file.write_text("".join(f"{name}:{word}\n" for name, word in self.site.users.items()), encoding="ascii")
        self.site.own(file)
        return f'''
server.modules = ("mod_auth", "mod_authn_file")
auth.backend = "plain"
auth.backend.plain.userfile = "{file}"
$REQUEST_HEADER["Authorization"] =~ "^Basic " {{
    auth.require = ("{MOUNT}" => ("method" => "basic", "realm" => "tests", "require" => "valid-user"))
}}
'''

    def log(self):
        return self.log_path.read_text(errors="replace")

    def at_rest(self):
        """Waits until no CGI process works on after its answer."""
        until(lambda: self.mode != "cgi" or not self.gateways(), 10, "the end of the CGI processes")

    def gateways(self):
        """The process ids of pennygate, also of one that runs under another command."""
        found, look = [], [(self.gateway or self.process).pid]
        while look:
            pid = look.pop()
            if name_of(pid) == "pennygate" and alive(pid):
                found.append(pid)  # but not the child that walks a store for it
            else:
                look += children(pid)
        return found

    def open(self, method, path, body=b"", headers=(), **options):
        return Call(self.port, method, self.mount + path, body, headers, **options)

    def get(self, path, **options):
        return self.open("GET", path, **options).answer()

    def begin(self, messages="Why is the sea salt?", stream=False, headers=(), fields=None, **options):
        """Sends a chat request and returns its Call."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        body = {"model": "demo", "messages": messages, **({"stream": True} if stream else {}),
                **(fields or {})}
        return self.open("POST", CHAT, json.dumps(body).encode(),
                         [("Content-Type", "application/json"), *headers], **options)

    def chat(self, *arguments, **options):
        return self.begin(*arguments, **options).answer()

    def stop(self):
        """Ends the web server and what it started; nothing may outlive it for long."""
        if self.process is None and self.gateway is None:
            return
        started = self.gateways() + (children(self.process.pid) if self.process else [])
        for pid in started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        try:
            for process in filter(None, (self.process, self.gateway)):
                process.terminate()
                process.wait(20)
            until(lambda: not any(alive(pid) for pid in started), 20, "the end of pennygate")
        finally:
            for pid in filter(alive, started):
                os.kill(pid, signal.SIGKILL)
            self.process = self.gateway = None
        assert "Sanitizer" not in self.log(), self.log()


SERVERS = dict.fromkeys(MODES, Server)  # the class of each mode; servers.py adds to it
