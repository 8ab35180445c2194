"""What a web server would keep away or tidy up, asked of pennygate itself, by FastCGI and CGI:
side routes (F10), spellings of an address (F39), the Proxy header (F48), and parameters that
look like overrides."""
import os
import socket
import subprocess
import threading

import pytest

from direct import HELLO, answer_of, cgi, fastcgi, parameters
from harness import CHAT, GROUP, USER, limit


@pytest.fixture
def serve(site):
    """A function that makes a site and starts it as a service of its own; the site."""

    def start(**options):
        place = site(**options)
        place.start("external")
        return place

    return start


@pytest.mark.parametrize("kind", ["fastcgi", "cgi"])
def test_the_route_itself_is_answered(serve, model, kind):
    """Without this the tests below could pass because nothing ever works."""
    place = serve()
    answer = fastcgi(place) if kind == "fastcgi" else cgi(place)[0]
    assert answer.status == 200 and answer.text.startswith("The sea is salt")
    assert model.count == 1


@pytest.mark.parametrize("path", [
    "//v1/chat/completions", "/v1//chat/completions", "/v1/chat//completions",
    "/v1/chat/completions/", "/v1/chat/completions//", "/v1/chat/completions/x",
    "/V1/chat/completions", "/v1/Chat/Completions", "/v1/chat/completions ", " /v1/chat/completions",
    "/v1/chat%2fcompletions", "/v1/chat%2Fcompletions", "/%761/chat/completions",
    "/v1/chat\\completions", "/v1/chat/completions;x", "/v1/chat/completions?x", "/v1/chat/completions#x",
    "/./v1/chat/completions", "/v1/../v1/chat/completions", "/v1/chat/completions/.", "/v1/chat/completions\n",
    "/v1/embeddings", "/v1/completions", "/v1/responses", "/v1/images/generations", "/chat/completions",
    "/v2/chat/completions", "/ai/v1/chat/completions",
])
def test_f10_no_side_route_reaches_the_model(serve, model, path):
    place = serve()
    for method in ("POST", "GET", "HEAD"):
        answer = fastcgi(place, method, path=path)
        assert answer.status == 404, (method, path)
    assert model.stats()["started"] == 0
    assert place.used("site-day") == 0


@pytest.mark.parametrize("path", ["", "/"])
def test_f10_the_page_is_no_way_to_the_model(serve, model, path):
    place = serve()
    assert fastcgi(place, "POST", path=path).status == (405 if path else 404)
    for method in ("GET", "HEAD"):
        answer = fastcgi(place, method, path=path)
        assert answer.status == (200 if path else 308), (method, path)
    assert model.stats()["started"] == 0
    assert place.used("site-day") == 0


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "options", "TRACE", "CONNECT",
                                    "post", "Post", "POST ", "", "POST\r\n", "POSTS", "PROPFIND"])
def test_f10_no_other_method_reaches_the_model(serve, model, method):
    place = serve()
    for answer in (fastcgi(place, method), cgi(place, method)[0]):
        assert answer.status == 405
        assert answer.header("Allow") == "POST, OPTIONS"
        assert answer.body == b"" if method == "HEAD" else answer.code == "method_not_allowed"
    assert model.stats()["started"] == 0
    assert place.used("site-day") == 0


@pytest.mark.parametrize("script, path, status", [
    (CHAT, "", 200), ("", CHAT, 200), ("/v1", "/chat/completions", 200), ("/ai", CHAT, 404), ("/", CHAT, 404)])
def test_f10_the_root_as_mount_is_the_root(serve, model, script, path, status):
    """Without a mount anything may stand before a path; with "/" nothing."""
    assert fastcgi(serve(options={"mount": "/"}), path=path, SCRIPT_NAME=script).status == status


@pytest.mark.parametrize("script, path", [("/ai/v1", "/chat/completions"), ("/ai/v1/chat/completions", ""),
                                          ("", "/ai/v1/chat/completions"), ("/ai" + CHAT, None)])
def test_f10_the_route_is_counted_however_the_server_splits_it(serve, model, script, path):
    place = serve(limits={"site-day": limit("everyone", "calls", "day", 1)})
    statuses = [fastcgi(place, path=path, SCRIPT_NAME=script, QUERY_STRING="max=9").status for _ in range(3)]
    assert statuses == [200, 429, 429]
    assert model.count == 1


SPELLINGS = {
    "one host of IPv4": [
        "192.0.2.1", "::ffff:192.0.2.1", "::FFFF:192.0.2.1", "::ffff:c000:201", "0:0:0:0:0:ffff:c000:0201",
        "[::ffff:192.0.2.1]", "192.0.2.1:4711", "[::ffff:192.0.2.1]:4711", "::ffff:192.0.2.1%eth0",
    ],
    "one network of IPv6": [
        "2001:db8:1:2::1", "2001:DB8:1:2::1", "2001:0db8:0001:0002:0000:0000:0000:0001", "2001:db8:1:2:0:0:0:1",
        "[2001:db8:1:2::1]", "[2001:db8:1:2::1]:4711", "2001:db8:1:2::1%eth0", "2001:db8:1:2::192.0.2.1",
        "2001:db8:1:2:ffff:ffff:ffff:ffff", *(f"2001:db8:1:2::{host:x}" for host in range(2, 102)),
    ],
}


@pytest.mark.parametrize("which", SPELLINGS)
def test_f39_every_spelling_is_the_same_caller(serve, model, which):
    """Each spelling uses up what the others have left, and none is a fresh caller afterwards."""
    spellings = SPELLINGS[which]
    place = serve(limits={"visitor-day": limit("address", "calls", "day", len(spellings))})
    for left, spelling in enumerate(reversed(spellings)):
        answer = fastcgi(place, address=spellings[left])
        assert answer.status == 200
        assert answer.header("X-RateLimit-Remaining") == str(len(spellings) - left - 1), spelling
    for spelling in spellings:
        answer = fastcgi(place, address=spelling)
        assert (answer.status, answer.code) == (429, "address_limit"), spelling
    assert model.count == len(spellings)
    for other in ("192.0.2.2", "2001:db8:1:3::1", "::ffff:192.0.2.3"):
        assert fastcgi(place, address=other).status == 200, "others have their own"


@pytest.mark.parametrize("address", ["", "unknown", "192.0.2", "192.0.2.01", "192.0.2.1,192.0.2.2", "0x7f.1",
                                     "2001:db8::1::2", "2001:db8::12345", "fe80::1%" + "x" * 200, None])
def test_f39_who_has_no_address_is_nobody(serve, model, address):
    place = serve()
    for _ in range(2):
        answer = fastcgi(place, address=address)
        assert (answer.status, answer.code) == (400, "no_address")
    assert model.stats()["started"] == 0
    answer = fastcgi(place, twice=[("REMOTE_ADDR", "192.0.2.9")])
    assert (answer.status, answer.code) == (400, "no_address"), "two addresses are none"


class Trap:
    """A port that counts who connects to it."""

    def __init__(self):
        self.count = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self._count)
        self.thread.start()

    def _count(self):
        while True:
            peer, _ = self.listener.accept()
            with peer:
                if peer.recv(3) == b"end":
                    return
            self.count += 1

    def close(self):
        with socket.create_connection(self.listener.getsockname()) as peer:
            peer.sendall(b"end")
        self.thread.join()
        self.listener.close()


@pytest.fixture
def trap():
    one = Trap()
    yield one
    one.close()


PROXIES = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]


def test_f48_a_proxy_header_is_no_proxy(serve, model, trap):
    """RFC 3875 makes HTTP_PROXY of the header; a careless library would believe it."""
    place = serve()
    for name in PROXIES:
        assert fastcgi(place, **{name: trap.url}).status == 200, name
        answer, log = cgi(place, **{name: trap.url})
        assert answer.status == 200, (name, log)
    assert fastcgi(place, **dict.fromkeys(PROXIES, trap.url)).status == 200
    assert cgi(place, NO_PROXY="", no_proxy="", **dict.fromkeys(PROXIES, trap.url))[0].status == 200
    assert model.count == 2 * len(PROXIES) + 2
    assert trap.count == 0


def test_f48_nor_is_one_that_the_process_was_started_with(site, model, trap):
    place = site()
    place.env = dict.fromkeys(PROXIES, trap.url)
    place.start("external")
    assert fastcgi(place).status == 200 and fastcgi(place, body={**HELLO, "stream": True}).status == 200
    assert (model.count, trap.count) == (2, 0)


def test_a_parameter_is_no_override(serve, model):
    """Environment variables of the process override the configuration; a request's never do."""
    place = serve(limits={"site-day": limit("everyone", "calls", "day", 2)})
    more = {"PENNYGATE_SITE_LIMIT": "1000", "PENNYGATE_LIMIT_SITE_DAY_MAX": "1000", "HTTP_PENNYGATE_SITE_LIMIT": "1000",
            "PENNYGATE_CONFIG": "/nowhere", "PENNYGATE_NONSENSE": "1"}
    assert [fastcgi(place, **more).status for _ in range(3)] == [200, 200, 429]
    assert model.count == 2


@pytest.mark.parametrize("path, body", [("/nothing", HELLO), (CHAT, b" " * 70000)], ids=["404", "413"])
def test_an_early_answer_is_whole_where_input_and_output_are_one_socket(site, path, body):
    """As under Apache's mod_cgid: a process that ends with input unread resets the connection, and the
    web server throws the answer away."""
    place = site()
    sent, body = parameters(path=path, body=body)
    user = {} if os.geteuid() else {"user": USER, "group": GROUP, "extra_groups": []}
    ours, its = socket.socketpair()
    with ours, its:
        ours.settimeout(10)
        process = subprocess.Popen([place.program], stdin=its, stdout=its, stderr=subprocess.DEVNULL, **user,
                                   env={**place.environment(), "PENNYGATE_CONFIG": str(place.config), **sent})
        its.close()
        ours.sendall(body)
        ours.shutdown(socket.SHUT_WR)
        with ours.makefile("rb") as file:
            answer = answer_of(file.read())
        assert process.wait(10) == 0
    assert answer.status == (413 if path == CHAT else 404)
    assert answer.code in ("not_found", "body_too_large")
