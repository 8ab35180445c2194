"""pennygate check --through: what the owner is told of the web server that stands before the
gateway, and that nobody else gets an answer of the self-test."""
import contextlib
import re
import socket
import subprocess
import threading
import time

import pytest

from harness import MODES, MOUNT, Server, accepts, free_port, until
from upstream import certificate

JSON = [("Content-Type", "application/json")]
SELF_TEST = "/v1/self-test"


def through(site, url, silence="0", **options):
    return site.run("check", "--through", url, "--silence", silence, check=False, **options)


def ask(server, path=MOUNT, **options):
    """(exit status, what was said as one line)"""
    done = through(server.site, f"http://127.0.0.1:{server.port}{path}", **options)
    assert not done.stderr, done.stderr
    return done.returncode, " ".join(done.stdout.split())


class Lighttpd(Server):
    """With lines of its own behind the usual ones."""

    def __init__(self, site, mode="spawned", more="", replace=(), **options):
        self.more, self.replace = more, replace
        super().__init__(site, mode, **options)

    def configuration(self, stream):
        text = super().configuration(stream)
        for old, new in self.replace:
            assert old in text
            text = text.replace(old, new)
        return text + self.more


class Proxy:
    """lighttpd as a proxy before another server."""

    def __init__(self, server):
        self.server, self.port = server, free_port()
        path = server.directory / "proxy.conf"
        path.write_text(f'''
server.port = {self.port}
server.bind = "127.0.0.1"
server.document-root = "{server.directory}"
server.errorlog = "{server.directory}/proxy.log"
server.modules += ("mod_proxy")
server.stream-response-body = 2
proxy.server = ("" => (("host" => "127.0.0.1", "port" => {server.port})))
''', encoding="utf-8")
        self.process = subprocess.Popen(["lighttpd", "-D", "-f", path], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: accepts(self.port), 10, "the proxy's port")
        self.site = server.site

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)


class Relay:
    """Passes bytes on to another server, and says nothing of for whom. `tls`, a server-side context:
    callers speak TLS with it."""

    def __init__(self, server, tls=None):
        self.site, self.target, self.tls = server.site, server.port, tls
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                one = self.listening.accept()[0]
                if self.tls and not (one := self.shake_hands(one)):
                    continue
                other = socket.create_connection(("127.0.0.1", self.target))
                for ends in ((one, other), (other, one)):
                    threading.Thread(target=self.copy, args=ends, daemon=True).start()

    def shake_hands(self, one):
        """None if the caller does not believe us."""
        with contextlib.suppress(OSError):
            return self.tls.wrap_socket(one, server_side=True)
        return None

    @staticmethod
    def copy(one, other):
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """The thread first: it would take another's connections once the descriptor is given out again."""
        self.listening.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listening.close()


# ---- lighttpd ----

def test_all_is_well_and_nothing_is_spent(site, model, mode):
    server = site().start(mode)
    data = server.site.data()
    status, said = ask(server, silence="2")
    assert status == 0 and said.endswith("0 faults"), said
    assert f"lighttpd/1.4.69 by {'CGI' if mode == 'cgi' else 'FastCGI'}" in re.sub(r"1\.4\.\d+", "1.4.69", said)
    assert f"path SCRIPT_NAME '{MOUNT}', PATH_INFO '{SELF_TEST}'" in said
    assert "address 127.0.0.1, the visitor's own; no proxy stands before" in said
    assert "Authorization, cookies and headers of one's own arrive" in said
    assert "requests of max-body-bytes, 65536, arrive" in said
    assert "stream it arrives piece by piece, not compressed" in said
    assert "silence 2 s of it cut nothing" in said
    assert model.count == 0
    assert server.site.day()["admitted"] == 0 and server.site.data() == data


@pytest.mark.parametrize("mode", MODES)
def test_f33_a_stream_that_is_buffered(site, mode):
    status, said = ask(site().start(mode, stream=0))
    assert status == 1 and said.endswith("1 fault")
    assert "FAULT stream: it is buffered and arrives all at once" in said
    assert "lighttpd: server.stream-response-body = 2" in said


@pytest.mark.parametrize("stream", [0, 2])
def test_f34_mod_deflate_leaves_streams_alone(site, stream):
    """They say no-transform."""
    server = Lighttpd(site(), stream=stream, more='''
server.modules += ("mod_deflate")
deflate.mimetypes = ("text/")
deflate.allowed-encodings = ("gzip")
''')
    status, said = ask(server)
    assert status == (stream == 0) and "compressed" not in said.replace("not compressed", ""), said


def test_f35_a_silence_that_is_cut(site):
    server = Lighttpd(site(), replace=[('"check-local"', '"read-timeout" => 1, "check-local"')])
    status, said = ask(server, silence="6")
    assert status == 1 and said.endswith("1 fault"), said
    assert re.search(r"FAULT silence: an answer is cut within [1-5] s of silence; a plain one can be silent "
                     r"for 120 s", said), said
    assert 'lighttpd: "read-timeout" => 125,' in said


def test_bodies_that_the_server_does_not_take(site):
    status, said = ask(Lighttpd(site(), more="server.max-request-size = 32\n"))
    assert status == 1
    assert "FAULT body: a request of max-body-bytes, 65536, does not arrive: HTTP status 413" in said
    assert "lighttpd: server.max-request-size = 64" in said


def test_headers_that_do_not_arrive(site):
    """A fault only where the site needs them."""
    place = site()
    server = Lighttpd(place, more='''
server.modules += ("mod_setenv")
setenv.set-request-header = ("Authorization" => "", "Cookie" => "")
''')
    status, said = ask(server)
    assert status == 0
    assert "note headers: Authorization does not arrive" in said
    assert "note headers: cookies do not arrive" in said
    place.run("keys", "add", "ann")
    status, said = ask(server)
    assert status == 1 and "FAULT headers: Authorization does not arrive" in said


# ---- addresses ----

def test_f38_all_visitors_share_the_proxys_address(site):
    with Proxy(site().start()) as proxy:
        status, said = ask(proxy)
    assert status == 1 and said.endswith("1 fault"), said
    assert "FAULT address: all visitors share 127.0.0.1 and one quota" in said
    assert "pennygate.conf: site { trusted-proxies = { '127.0.0.1' } }" in said


def test_f38_the_line_that_is_told_mends_it(site):
    with Proxy(site(options={"trusted-proxies": ["127.0.0.1"]}).start()) as proxy:
        status, said = ask(proxy)
    assert status == 0
    assert "address 127.0.0.1, the visitor's own, as the proxy 127.0.0.1 tells it" in said


def test_f38_a_proxy_that_does_not_tell_for_whom_it_asks(site):
    with Relay(site().start()) as relay:
        status, said = ask(relay)
    assert status == 1 and said.endswith("1 fault"), said
    assert "FAULT address: all visitors share 127.0.0.1 and one quota: a proxy on this machine" in said
    assert "pennygate.conf: site { trusted-proxies = { '127.0.0.1' } }" in said


# ---- paths ----

@pytest.mark.parametrize("slash", ["", "/", "//"])
def test_slashes_at_the_end_of_the_url(site, slash):
    assert ask(site().start(), MOUNT + slash)[0] == 0


def test_mounted_below_another_prefix(site):
    server = Lighttpd(site(options={"mount": "/deep/er"}), replace=[(f'"{MOUNT}"', '"/deep"')])
    status, said = ask(server, "/deep/er")
    assert status == 0
    assert "SCRIPT_NAME '/deep', PATH_INFO '/er/v1/self-test'; mount = '/deep/er'" in said


def test_a_mount_that_is_not_the_servers(site):
    server = site(options={"mount": "/other"}).start()
    status, said = ask(server)
    assert status == 1
    assert "pennygate answers there, but does not know the path" in said
    assert f"site {{ mount = '{MOUNT}' }}" in said


def test_it_is_not_there(site):
    server = site().start()
    status, said = ask(server, "/elsewhere")
    assert status == 1
    assert re.search(r"HTTP status 404 from lighttpd/[\d.]+, not from pennygate", said), said


def test_nobody_is_there(site):
    done = through(site(), f"http://127.0.0.1:{free_port()}/ai")
    assert done.returncode == 1
    assert "no answer from there: Couldn't connect to server" in done.stdout


def test_a_certificate_that_nobody_vouches_for(site):
    """Said as it is, without a word of what is behind it; browsers would not go there either."""
    server = site().start()
    _, context = certificate(server.directory, "self-signed")
    with Relay(server, context) as relay:
        done = through(server.site, f"https://127.0.0.1:{relay.port}{MOUNT}")
    assert done.returncode == 1 and not done.stderr
    said = " ".join(done.stdout.split())
    assert "FAULT no answer from there: SSL peer certificate or SSH remote key was not OK" in said, said
    assert said.endswith("1 fault"), said


def test_https_where_there_is_none(site):
    server = site().start()
    done = through(server.site, f"https://127.0.0.1:{server.port}{MOUNT}")
    assert done.returncode == 1 and "FAULT no answer from there: SSL connect error" in " ".join(done.stdout.split())


def test_a_server_that_sends_callers_elsewhere(site):
    server = Lighttpd(site(), more='''
server.modules += ("mod_redirect")
url.redirect = ("" => "https://127.0.0.1/")
''')
    status, said = ask(server)
    assert status == 1 and "HTTP status 301: it sends callers elsewhere" in said


def test_the_gateway_of_another_site(site):
    server, other = site().start(), site()
    done = through(other, f"http://127.0.0.1:{server.port}{MOUNT}")
    assert done.returncode == 1
    assert "not to this site's owner" in " ".join(done.stdout.split())


def test_a_site_that_cannot_count(site):
    server = site().start()
    assert ask(server)[0] == 0
    server.site.secret.chmod(0o644)
    done = through(server.site, f"http://127.0.0.1:{server.port}{MOUNT}")
    assert done.returncode == 1 and "chmod 600" in done.stderr, done.stderr


@pytest.mark.parametrize("arguments", [
    ("--through", "ftp://127.0.0.1/"), ("--through", "127.0.0.1/ai"), ("--through", "http://"),
    ("--through", "http://user@host/"), ("--through", "http://127.0.0.1/ai?x=1"),
    ("--through", "http://127.0.0.1/\x1b[2J"), ("--through", "http:///ai"),
    ("--silence", "1"), ("--through", "http://127.0.0.1/", "--silence", "26"),
    ("--through", "http://127.0.0.1/", "--silence", "-1"),
    ("--through", "http://127.0.0.1/", "--silence", "1s"),
], ids=lambda words: " ".join(words).replace("\x1b", "ESC"))
def test_what_is_no_question(site, arguments):
    done = site().run("check", *arguments, check=False)
    assert done.returncode == 2 and not done.stdout and "\x1b" not in done.stderr


# ---- strangers ----

def test_strangers_find_nothing(gate, mode):
    """What they get is what any unknown path gives."""
    server = gate(mode)
    forged = b'{"self_test":"seen.0.%d.%s"}' % (time.time() + 30, b"0" * 32)
    for method, body in (("POST", b""), ("POST", b"{}"), ("POST", forged), ("POST", b" " * 70000),
                         ("PUT", forged), ("GET", b""), ("OPTIONS", b"")):
        real, none = (server.open(method, path, body, JSON).answer() for path in (SELF_TEST, "/v1/nothing"))
        assert real.status == none.status == 404
        assert real.body == none.body
        first, second = ([pair for pair in one.headers if pair[0] not in ("date", "x-request-id")]
                         for one in (real, none))
        assert first == second


def test_callers_are_answered_meanwhile(site, model):
    """The one worker that it takes is not one of those that answer."""
    server = site(server={"streams": 1}).start()
    silent = subprocess.Popen([server.site.program, "check", "-c", server.site.config, "--through",
                               f"http://127.0.0.1:{server.port}{MOUNT}", "--silence", "20"],
                              env=server.site.environment(), stdout=subprocess.PIPE, text=True)
    try:
        until(lambda: server.log().count("code=ok") >= 3, 10, "the silence")
        assert server.chat().status == 200
        status, said = ask(server)
        assert status == 1 and "another check is asking; try again" in said
    finally:
        silent.terminate()
        silent.communicate(timeout=10)
    until(lambda: ask(server)[0] == 0, 5, "the end of a silence whose caller has left")
